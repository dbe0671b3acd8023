"""Files in: events from Parquet, Arrow, ROOT, HDF5, NumPy and CSV."""

from gofstream.io.events import Events, FileRead, read

__all__ = ["Events", "FileRead", "read"]
