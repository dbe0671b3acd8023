"""The long statistical validation: are p-values p-values? `make validate`."""
