"""The scan: one local alternative at a time, on a grid fixed beforehand (method page, eq. 14-16)."""
