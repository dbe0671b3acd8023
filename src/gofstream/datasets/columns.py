"""Columns written to Parquet files, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gofstream.errors import missing_extra
from gofstream.files import whole

#: Under this key of the schema's metadata a file says how it was made.
METADATA_KEY = b"gofstream"


def write_columns(
    path: Path, columns: Mapping[str, ArrayLike], made_with: Mapping[str, object]
) -> None:
    """Write columns, with how they were made; the file appears when it is whole.

    Numbers with a point are written as float32, others as they are.

    Parameters
    ----------
    path : Path
        The file; its folder must exist.
    columns : mapping of str to array_like
        One-dimensional arrays of one length.
    made_with : mapping
        How the columns were made: plain values that JSON can hold, kept in the file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.parquet"
    >>> write_columns(path, {"x": [1.0, 2.0]}, {"seed": 1})
    >>> path.exists()
    True
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    real = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    arrays |= {name: arrays[name].astype(np.float32) for name in real}
    note = {METADATA_KEY: json.dumps(dict(made_with)).encode()}
    table = pa.table(arrays).replace_schema_metadata(note)
    # Bytes of a kind side by side: random mantissas do not compress, exponents do.
    encodings: dict[str, Any] = {
        "use_dictionary": [name for name in arrays if name not in real],
        "use_byte_stream_split": real,
    }
    with whole(path) as partial:
        pq.write_table(table, partial, compression="zstd", compression_level=19, **encodings)
