"""Columns read from the Parquet files of a data set, and where the shipped files lie."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gofstream.datasets.columns import METADATA_KEY
from gofstream.errors import ColumnError, InputError, missing_extra, nearest_names

if TYPE_CHECKING:
    import pyarrow as pa

#: Where the samples shipped with the package lie.
SHIPPED = Path(__file__).parent / "samples"

#: To be said wherever results from our own samples are shown.
STAND_IN = "These samples stand in for the public files; they are not those files."


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
        note = (pq.read_schema(path).metadata or {}).get(METADATA_KEY)
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
