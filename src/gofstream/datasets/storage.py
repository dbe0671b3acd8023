"""Columns in Parquet files: written whole or not at all, read with a message that helps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import ColumnError, InputError, missing_extra, nearest_names
from gofstream.files import whole

if TYPE_CHECKING:
    import pyarrow as pa

#: Where the samples shipped with the package lie.
SHIPPED = Path(__file__).parent / "samples"

#: To be said wherever results from our own samples are shown.
STAND_IN = "These samples stand in for the public files; they are not those files."

_KEY = b"gofstream"


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
        What `made_with` will give back: plain values that JSON can hold.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.parquet"
    >>> write_columns(path, {"x": [1.0, 2.0]}, {"seed": 1})
    >>> made_with(path), read_columns(path, ["x"])["x"].tolist()
    ({'seed': 1}, [1.0, 2.0])
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    real = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    arrays |= {name: arrays[name].astype(np.float32) for name in real}
    note = {_KEY: json.dumps(dict(made_with)).encode()}
    table = pa.table(arrays).replace_schema_metadata(note)
    # Bytes of a kind side by side: random mantissas do not compress, exponents do.
    encodings: dict[str, Any] = {
        "use_dictionary": [name for name in arrays if name not in real],
        "use_byte_stream_split": real,
    }
    with whole(path) as partial:
        pq.write_table(table, partial, compression="zstd", compression_level=19, **encodings)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read columns of a Parquet file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    ColumnError
        If it lacks one of the columns.
    """
    table = _open(path)
    for name in names:
        if name not in table.column_names:
            raise ColumnError(
                f"{path} lacks column {name!r} ({nearest_names(name, table.column_names)}); it is "
                "not a file of this data set: make it again, or give the right folder"
            )
    return {name: table[name].to_numpy() for name in names}


def made_with(path: Path) -> dict[str, object]:
    """Tell how a file was made; nothing if it does not say."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    try:
        note = (pq.read_schema(path).metadata or {}).get(_KEY)
        found = json.loads(note) if note else {}
    except (pa.ArrowException, ValueError):  # something else than a file of ours
        return {}
    return found if isinstance(found, dict) else {}


def _open(path: Path) -> pa.Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    if not path.exists():
        raise InputError(f"{path} does not exist; make it with `gofstream data make`")
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({error}); it is damaged or something else: delete "
            "it and make it again"
        ) from error
