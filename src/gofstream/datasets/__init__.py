"""Data sets of the paper: generators, signals and, where it is known, the ideal test."""
