"""The same events as a table of each kind, with the columns in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gofstream.sample import Sample

Columns = Mapping[str, NDArray[Any]]


class Stream:
    """A table that can be exported to Arrow and nothing else, as the relations of DuckDB."""

    def __init__(self, columns: Columns) -> None:
        self.table = pa.table(dict(columns))

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.table)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table."""
        return self.table.__arrow_c_stream__(requested_schema)


class Interchange:
    """A table that follows the data frame interchange protocol and nothing else."""

    def __init__(self, columns: Columns) -> None:
        self.table = pa.table(dict(columns))

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.table)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Export the table."""
        return self.table.__dataframe__(nan_as_null, allow_copy)


def structured(columns: Columns) -> NDArray[Any]:
    """Make an array with fields."""
    rows = len(next(iter(columns.values())))
    made = np.empty(rows, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        made[name] = column
    return made


def filtered(columns: Columns) -> pd.DataFrame:
    """Make a frame whose index is no plain range, as after a selection: it is not a column."""
    doubled = {name: np.repeat(column, 2) for name, column in columns.items()}
    frame = pd.DataFrame(doubled)
    return frame[frame.index % 2 == 0]


#: Ways to hold columns under their names.
TABLES: dict[str, Callable[[Columns], Any]] = {
    "mapping": dict,
    "structured": structured,
    "recarray": lambda columns: structured(columns).view(np.recarray),
    "awkward": lambda columns: ak.Array(dict(columns)),
    "pandas": lambda columns: pd.DataFrame(dict(columns)),
    "filtered pandas": filtered,
    "nullable pandas": lambda columns: pd.DataFrame(dict(columns)).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(dict(columns)),
    "pyarrow": lambda columns: pa.table(dict(columns)),
    "record batch": lambda columns: pa.RecordBatch.from_pydict(dict(columns)),
    "arrow stream": Stream,
    "interchange": Interchange,
    "sample": lambda columns: Sample.from_columns(columns),
}


def reordered(columns: Columns, order: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Put columns into another order."""
    return {name: columns[name] for name in order}
