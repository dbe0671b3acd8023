"""The scan: one local alternative at a time, on a grid fixed beforehand (eq. 14-16)."""
