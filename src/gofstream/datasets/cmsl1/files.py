"""CMS-L1-24D events on disk, as Parquet: the samples shipped with the package, and those made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gofstream.datasets.cmsl1.events import COLUMNS, UNITS, VARYING, L1Events
from gofstream.errors import InputError, missing_extra
from gofstream.sample import build

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = b"gofstream"

#: What an event is beside its columns, and how it is stored.
_BOOKKEEPING = {"uid": np.int64, "copy": np.int16, "process": np.int8}


def from_parquet(path: Path) -> L1Events:
    """Read events that `to_parquet` wrote."""
    table = _table(path)
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


def made_with(path: Path) -> dict[str, object]:
    """Tell how a file was made, as `to_parquet` was told; nothing if it does not say."""
    note = (_table(path).schema.metadata or {}).get(_KEY)
    try:
        found = json.loads(note) if note else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def to_parquet(events: L1Events, path: Path, note: Mapping[str, object]) -> None:
    """Write events and how they were made; the file appears when it is whole."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    columns = dict(zip(COLUMNS, events.sample.values.T.astype(np.float32), strict=True))
    book = {what: getattr(events, what).astype(kind) for what, kind in _BOOKKEEPING.items()}
    table = pa.table({**columns, **book})
    table = table.replace_schema_metadata({_KEY: json.dumps(dict(note)).encode()})
    # Bytes of a kind side by side: random mantissas do not compress, exponents and zeros do.
    encodings: dict[str, Any] = {
        "use_dictionary": ["met_eta", "copy", "process"],
        "use_byte_stream_split": list(VARYING),
    }
    # The same folder, so that the renaming cannot fall between two file systems.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        pq.write_table(table, partial, compression="zstd", compression_level=19, **encodings)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _table(path: Path) -> pa.Table:
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
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: cannot be read as Parquet ({error}); it is damaged or something else, so "
            "delete it and make it again"
        ) from error
