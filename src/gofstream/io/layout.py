"""Columns in files that hold arrays under names: HDF5 and NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.errors import ColumnError, InputError
from gofstream.io.table import Column, check_unique, described


@dataclass(frozen=True, slots=True)
class Array:
    """An array in a file; `names` are those of its columns, if the file gives them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns of a file are.

    Parameters
    ----------
    columns
        What is known of each column.
    places
        For each column that holds numbers its array, and there the number of a matrix column or
        the name of a field; None if the array is the column.
    rows
        How many rows every column has.
    """

    columns: Mapping[str, Column]
    places: Mapping[str, tuple[str, int | str | None]]
    rows: int


def lay_out(arrays: Mapping[str, Array], path: Path, parts: Sequence[str]) -> Layout:
    """Take one matrix, one table with fields, or one-dimensional arrays as columns.

    Parameters
    ----------
    arrays
        The arrays to choose from; single numbers among them are passed over.
    path
        For messages.
    parts
        What else `tree` could pick.
    """
    arrays = {name: array for name, array in arrays.items() if array.shape}
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        if len(array.shape) == 2:
            return _matrix(name, array, path)
        if len(array.shape) == 1 and array.dtype.names is not None:
            columns = {field: described(array.dtype[field]) for field in array.dtype.names}
            return Layout(columns, {field: (name, field) for field in columns}, array.shape[0])
    flat = {name: array for name, array in arrays.items() if len(array.shape) == 1}
    if not flat:
        found = ", ".join(f"{name!r} {array.shape}" for name, array in arrays.items())
        rest = f"; pick a part with `tree`: {', '.join(map(repr, parts))}" if parts else ""
        raise InputError(f"{path}: has no columns ({found or 'no arrays'} there){rest}")
    lengths = {array.shape[0] for array in flat.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{name!r} has {array.shape[0]}" for name, array in flat.items())
        raise ColumnError(
            f"{path}: columns differ in number of rows ({listed}); every column needs one value "
            "per event: put what belongs together into a group and pick it with `tree`"
        )
    columns = {
        name: described(array.dtype) if name in flat else Column(_typed(array), None, nested=True)
        for name, array in arrays.items()
    }
    return Layout(columns, {name: (name, None) for name in flat}, lengths.pop())


def _matrix(name: str, array: Array, path: Path) -> Layout:
    rows, width = array.shape
    if array.names is None:
        names = ["x"] if width == 1 else [f"x{j}" for j in range(width)]
    else:
        names = list(array.names)
    if len(names) != width:
        raise ColumnError(
            f"{path}: {name!r} has {width} columns but {len(names)} names in its attribute "
            "'columns'; give one name per column"
        )
    check_unique(names, path)
    column = described(array.dtype)
    columns = dict.fromkeys(names, column)
    return Layout(columns, {each: (name, j) for j, each in enumerate(names)}, rows)


def _typed(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape[1:]))}]"
