"""Learning f: scaling, widths, centres, features, the block solver and its models."""
