"""Benchmarks: ratios within one run, as JSON lines. Run them with `make bench`."""
