"""The scan: one local alternative at a time, on a grid fixed beforehand (METHOD §9)."""
