"""CMS-L1-24D events on disk, as Parquet: the samples shipped with the package, and those made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.datasets.cmsl1.events import COLUMNS, UNITS, VARYING, L1Events
from gofstream.errors import InputError, missing_extra
from gofstream.sample import build

#: What an event is beside its columns, and how it is stored.
_BOOKKEEPING = {"uid": np.int64, "copy": np.int16, "process": np.int8}


def from_parquet(path: Path) -> L1Events:
    """Read events that `to_parquet` wrote."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    if not path.is_file():
        raise InputError(
            f"{path}: there is no such file; make it with gofstream.datasets.cmsl1.make, or leave "
            "the folder out to read the sample shipped with the package"
        )
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: cannot be read as Parquet ({error}); it is damaged or something else, so "
            "make it again"
        ) from error
    missing = [c for c in (*COLUMNS, *_BOOKKEEPING) if c not in table.column_names]
    if missing:
        raise InputError(
            f"{path}: lacks {', '.join(map(repr, missing))}; it was not written by "
            "gofstream.datasets.cmsl1.make, so make it again"
        )
    values = np.empty((table.num_rows, len(COLUMNS)), np.float32)
    for j, column in enumerate(COLUMNS):
        values[:, j] = table[column].to_numpy()
    sample = build(values, COLUMNS, None, UNITS, (), f"CMS-L1 {path.stem}", copy=False)
    uid, copy, process = (table[what].to_numpy().astype(np.int64) for what in _BOOKKEEPING)
    return L1Events(sample, uid, copy, process)


def to_parquet(events: L1Events, path: Path) -> None:
    """Write events under a temporary name, then give it the right one: never half a file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    columns = dict(zip(COLUMNS, events.sample.values.T.astype(np.float32), strict=True))
    book = {what: getattr(events, what).astype(kind) for what, kind in _BOOKKEEPING.items()}
    table = pa.table({**columns, **book})
    encodings: dict[str, Any] = {
        "use_dictionary": ["met_eta", "copy", "process"],
        "use_byte_stream_split": list(VARYING),
    }
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            # The bytes of equal weight of a float side by side: a third smaller than otherwise.
            pq.write_table(table, file, compression="zstd", compression_level=19, **encodings)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
