"""Quasi-online: learn from batches as they arrive, keep what was learnt, let the data go."""
