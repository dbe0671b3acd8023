"""Which columns of which files are read."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.errors import ColumnError, DtypeError, GofstreamWarning, InputError, nearest_names
from gofstream.io.define import Definitions
from gofstream.io.formats import opened
from gofstream.io.table import Column

#: A file, or a pattern such as ``run*.parquet``.
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of itself before its rows are read."""

    path: Path
    columns: Mapping[str, Column]
    rows: int
    counted: bool
    parts: tuple[str, ...]


def find(files: PathLike | Iterable[PathLike]) -> list[Path]:
    """Resolve names and patterns to files.

    Parameters
    ----------
    files
        One name or pattern, or several.

    Raises
    ------
    InputError
        If a pattern matches nothing, or a file is named twice.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not given:
        raise InputError("no files were given; name at least one")
    paths: list[Path] = []
    for one in given:
        text = os.fspath(one)
        if "\0" in text:
            raise InputError(f"{text!r} is not the name of a file; check it")
        # A file that is there is meant, even if its name reads like a pattern.
        if glob.has_magic(text) and not os.path.lexists(text):
            matches = sorted(glob.glob(text, recursive=True))
            if not matches:
                raise InputError(f"{text}: no file matches; check the pattern and the folder")
            paths += map(Path, matches)
        else:
            paths.append(Path(text))
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: is given more than once; its events would count twice")
        seen.add(path.resolve())
    return paths


def look(paths: Sequence[Path], tree: str | None, define: Definitions) -> list[Head]:
    """Open each file for a moment: a bad one shall not be found after half an hour."""
    heads = []
    for path in paths:
        with opened(path, tree, define) as table:
            heads.append(Head(path, table.columns, table.rows, table.counted, table.parts))
    return heads


def choose(
    heads: Sequence[Head], columns: Sequence[str] | None, beside: Sequence[str]
) -> list[str]:
    """Give the columns to read as values.

    Parameters
    ----------
    heads
        The files.
    columns
        The user's choice; None for all columns that hold numbers, except those beside.
    beside
        Columns read for another purpose.

    Raises
    ------
    ColumnError
        If a file lacks a column, or if files differ where there was no choice.
    DtypeError
        If a column does not hold one number for each event.
    """
    first = heads[0]
    if columns is None:
        columns = _all_numbers(first, beside)
        for head in heads[1:]:
            _check_same(head, first, columns, beside)
    for head in heads:
        for name in (*columns, *beside):
            check_number(head, name)
    return list(columns)


def check_number(head: Head, name: str) -> None:
    """Refuse a column that is not there, or does not hold one number for each event."""
    if name not in head.columns:
        raise ColumnError(f"{head.path}: no column {name!r}; {nearest_names(name, head.columns)}")
    column = head.columns[name]
    if column.nested:
        raise DtypeError(
            f"{head.path}, column {name!r}: holds several values for each event ({column.type}); "
            "write one number for each event to a column of its own, such as the leading one"
        )
    if column.dtype is None:
        raise DtypeError(
            f"{head.path}, column {name!r}: holds {column.type}, not numbers; leave it out, or "
            "write it as numbers"
        )


def common_type(heads: Sequence[Head], names: Sequence[str]) -> np.dtype[Any]:
    """Give float32 if every column is float32 in every file, else float64."""
    single = all(head.columns[name].dtype == np.float32 for head in heads for name in names)
    return np.dtype(np.float32 if single else np.float64)


def _all_numbers(head: Head, beside: Sequence[str]) -> list[str]:
    nested = [name for name, column in head.columns.items() if column.nested]
    if nested:
        raise DtypeError(
            f"{head.path}: {_listed(nested)} hold several values for each event; name the columns "
            f"to read with `columns`, of {_listed(_numbers(head, beside)) or 'which none can be'}"
        )
    left_out = [name for name, column in head.columns.items() if column.dtype is None]
    chosen = _numbers(head, beside)
    if not chosen:
        raise ColumnError(
            f"{head.path}: has no column of numbers to read (it has "
            f"{_listed(list(head.columns)) or 'none at all'}); check that it is the right file"
        )
    if left_out:
        warnings.warn(
            f"{head.path}: {_listed(left_out)} do not hold numbers and are left out; name the "
            "columns to read with `columns`",
            GofstreamWarning,
            stacklevel=4,
        )
    return chosen


def _numbers(head: Head, beside: Sequence[str]) -> list[str]:
    return [n for n, column in head.columns.items() if column.dtype is not None and n not in beside]


def _check_same(head: Head, first: Head, columns: Sequence[str], beside: Sequence[str]) -> None:
    here = _numbers(head, beside)
    lacks = [name for name in columns if name not in here]
    more = [name for name in here if name not in columns]
    if lacks or more:
        differs = " and ".join(
            f"{verb} {_listed(names)}"
            for verb, names in (("lacks", lacks), ("adds", more))
            if names
        )
        raise ColumnError(
            f"{head.path}: {differs}, unlike {first.path}; name columns that all files have with "
            "`columns`"
        )


def _listed(names: Sequence[str]) -> str:
    """List names, but not hundreds of them."""
    shown = ", ".join(map(repr, names[:10]))
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
