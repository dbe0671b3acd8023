"""Columns by name from tables of other packages, none of which is imported for it.

pandas, polars, pyarrow, awkward records, structured arrays and mappings all say what their columns
are called. `columns_of` asks each in its own way and leaves plain arrays alone: they have no names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import ColumnError, missing_extra


class ArrowTable(Protocol):
    """A table that Arrow can read: of polars, pyarrow, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table."""
        ...


class DataFrame(Protocol):
    """A table that follows the data frame interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Export the table."""
        ...


class Records(Protocol):
    """An array of records, as awkward makes them."""

    @property
    def fields(self) -> list[str]:
        """Names of the columns."""
        ...

    def __getitem__(self, name: str) -> Any:
        """Get a column."""
        ...


TableLike = Mapping[str, ArrayLike] | ArrowTable | DataFrame | Records


def columns_of(events: object, where: str) -> dict[str, NDArray[Any]] | None:
    """Give the columns of a table by name, or None for anything that has no names.

    Parameters
    ----------
    events
        A mapping, a structured array, awkward records, or a data frame or table of pandas, polars,
        pyarrow or another package that Arrow can read. A frame whose columns are numbered from 0 is
        an array without names.
    where
        What messages call the table.

    Raises
    ------
    ColumnError
        If two columns have one name.

    Examples
    --------
    >>> given = np.array([(1.0, 2), (3.0, 4)], [("pt", float), ("charge", int)])
    >>> {name: column.tolist() for name, column in columns_of(given, "muons").items()}
    {'pt': [1.0, 3.0], 'charge': [2, 4]}
    >>> columns_of(np.zeros((2, 2)), "muons") is None
    True
    """
    if isinstance(events, Mapping):
        return {name: _array(column) for name, column in events.items()}
    dtype = getattr(events, "dtype", None)
    if getattr(dtype, "names", None):
        structured = cast("NDArray[Any]", events)
        return {name: structured[name] for name in structured.dtype.names or ()}
    table: Any = events
    if hasattr(events, "layout") and hasattr(events, "fields"):  # awkward
        return {name: table[name] for name in table.fields} or None
    if not (hasattr(events, "__arrow_c_stream__") or hasattr(events, "__dataframe__")):
        return None
    if not hasattr(events, "__array__"):
        table = _through_arrow(table)
    names = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if not names or names == list(range(len(names))):
        return None
    twice = sorted(str(name) for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ColumnError(
            f"{where}: duplicated column names {', '.join(map(repr, twice))}; rename or drop all "
            "but one of each"
        )
    return {name: _array(table[name]) for name in names}


def _through_arrow(table: Any) -> Any:
    """Read a table that gives its columns in no other way."""
    try:
        import pyarrow as pa
        from pyarrow.interchange.from_dataframe import from_dataframe
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    return pa.table(table) if hasattr(table, "__arrow_c_stream__") else from_dataframe(table)


def _array(column: Any) -> Any:
    """Give numbers where missing values made a column of pandas one of objects."""
    if isinstance(column, np.ndarray):  # perhaps a masked one, which stays so
        return column
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    array = np.asarray(column) if hasattr(column, "__array__") else column
    if kind and kind in "biuf" and array.dtype == object:
        return np.asarray(column, np.float64)
    return array
