"""The long statistical validation: are p-values p-values? `python -m validation`."""
