"""Data sets of the paper: their generators, their files and, where it is known, the ideal test."""
