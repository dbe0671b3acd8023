"""The commands that the studies add to `gofstream`: `bench`, `data` and `paper`."""
