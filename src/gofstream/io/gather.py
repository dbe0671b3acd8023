"""One pass over files, in pieces, that keeps what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import NonFiniteError, WeightError
from gofstream.io.choice import Head, common_type
from gofstream.io.define import Definitions
from gofstream.io.expression import Condition
from gofstream.io.formats import opened
from gofstream.io.kept import Draw, Kept
from gofstream.io.table import Piece

# Bytes of a piece at most, and how many pieces must find room beside what is kept: what the format
# library holds, the piece itself, and copies of it made on the way.
_PIECE = 32 * 1024**2
_ROOM = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: columns to fit, those beside them, a condition on events, and new columns."""

    columns: Sequence[str]
    weight: str | None
    carry: Sequence[str]
    condition: Condition | None
    define: Definitions

    @property
    def beside(self) -> list[str]:
        """Columns that are kept, but not fitted."""
        return [*([] if self.weight is None else [self.weight]), *self.carry]

    @property
    def all(self) -> list[str]:
        """Every column that must be read."""
        tested = () if self.condition is None else self.condition.names
        return list(dict.fromkeys([*self.columns, *self.beside, *tested]))


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was kept; `counts` are, for each file, its rows and how many of them were kept."""

    values: Any
    weights: NDArray[np.float64] | None
    carried: Mapping[str, NDArray[Any]]
    counts: list[tuple[int, int]]


def rows_at_once(columns: int, memory: int) -> int:
    """Give the rows of a piece of so many columns, when so many bytes may be used."""
    return max(min(_PIECE, memory // (4 * _ROOM)) // (8 * columns), 1)


def gather(
    heads: Sequence[Head],
    wanted: Wanted,
    tree: str | None,
    draw: Draw | None,
    memory: int,
    scratch: Path | None,
    progress: Callable[[int, int], None],
) -> Gathered:
    """Go through files once, keep all events or those drawn, and refuse missing values.

    Parameters
    ----------
    heads
        The files.
    wanted, tree
        What to read of them.
    draw
        Which events to keep; None for all.
    memory, scratch, progress
        As for `read`.
    """
    width = len(wanted.define.sources(wanted.all))
    at_once = rows_at_once(width, memory)
    types = [_common(heads, name) for name in wanted.carry]
    if wanted.weight is not None:
        types.insert(0, np.dtype(np.float64))
    drawn: list[np.dtype[Any]] = []
    if draw is not None:
        drawn = [np.dtype(np.int32), np.dtype(np.float64)]
    # Checking weights takes a copy and two flags; settling a draw takes row numbers, twice.
    aside_per_row = 10 * (wanted.weight is not None) + 16 * (draw is not None)
    kept = Kept(
        len(wanted.columns),
        common_type(heads, wanted.columns),
        [*types, *drawn],
        memory,
        _ROOM * 8 * at_once * width,
        aside_per_row,
        scratch if draw is None else None,
    )
    total = sum(head.rows for head in heads)
    spare = 0 if draw is None else draw.rows // 8
    if wanted.condition is None and all(head.counted for head in heads):
        # The size is known: what does not fit is refused now.
        kept.reserve(total if draw is None else min(total, draw.rows + spare + at_once))
    counts: list[tuple[int, int]] = []
    done = 0
    for number, head in enumerate(heads):
        before, faults, offset = kept.count, _Faults(head, wanted), 0
        with opened(head.path, tree, wanted.define) as table:
            for piece in table.pieces(wanted.all, at_once):
                count = len(piece[wanted.columns[0]])
                selected = select(piece, wanted.condition)
                faults.look(piece, offset, selected)
                if not faults.found:
                    _keep(kept, piece, wanted, number, draw)
                    if draw is not None:
                        draw.settle(kept, len(types) + 1, spare)
                offset += count
                done += count
                progress(done, max(done, total))
        faults.report(offset)
        counts.append((offset, kept.count - before))
    if draw is not None:
        draw.settle(kept, len(types) + 1, 0)
        left = np.bincount(kept.beside(len(types)), minlength=len(heads)).tolist()
        counts = [(rows, stayed) for (rows, _), stayed in zip(counts, left, strict=True)]
    values, beside = kept.finish()
    named = dict(zip(wanted.beside, beside, strict=False))
    weights = None if wanted.weight is None else named.pop(wanted.weight)
    for array in named.values():
        array.flags.writeable = False
    return Gathered(values, weights, MappingProxyType(named), counts)


def _common(heads: Sequence[Head], name: str) -> np.dtype[Any]:
    """Give a type that holds a column of every file."""
    return np.result_type(*(dtype for head in heads if (dtype := head.columns[name].dtype)))


def select(piece: Piece, condition: Condition | None) -> NDArray[np.intp] | None:
    """Cut a piece, in place, to the rows that fulfil the condition, and give their numbers."""
    if condition is None:
        return None
    selected = np.flatnonzero(condition.evaluate(piece))
    for name in piece:
        piece[name] = piece[name][selected]
    return selected


def _keep(
    kept: Kept,
    piece: Piece,
    wanted: Wanted,
    number: int,
    draw: Draw | None,
) -> None:
    """Keep the rows of a piece, or those of them that are in the draw so far."""
    names, count = wanted.beside, len(piece[wanted.columns[0]])
    extra: list[NDArray[Any] | int] = []
    if draw is not None:
        numbers = draw.numbers(count)
        inside = np.flatnonzero(numbers < draw.bar)
        piece = {name: array[inside] for name, array in piece.items()}
        count, extra = len(inside), [number, numbers[inside]]
    columns = [piece[name] for name in wanted.columns]
    kept.append(columns, [*(piece[name] for name in names), *extra], count)


class _Faults:
    """Missing values in one file: all of them are counted before they are reported."""

    def __init__(self, head: Head, wanted: Wanted) -> None:
        self.head = head
        self.wanted = wanted
        self.found: dict[str, tuple[int, float, int]] = {}

    def look(self, piece: Piece, offset: int, selected: NDArray[np.intp] | None) -> None:
        """Look at a piece that begins at row `offset` and was cut to the rows selected."""
        for name in (*self.wanted.columns, self.wanted.weight):
            if name is None or piece[name].dtype.kind != "f":
                continue
            # What does not fit float64 would become infinite later; some NaN complain when copied.
            with np.errstate(over="ignore", invalid="ignore"):
                values = piece[name].astype(np.float64, copy=False)
            bad = np.flatnonzero(~np.isfinite(values))
            if not len(bad):
                continue
            row = bad[0] if selected is None else selected[bad[0]]
            new = (offset + int(row), float(values[bad[0]]), 0)
            first, value, count = self.found.get(name, new)
            self.found[name] = (first, value, count + len(bad))

    def report(self, rows: int) -> None:
        """Raise an error if values are missing among the rows of the file."""
        for name, (first, value, count) in self.found.items():
            kind = WeightError if name == self.wanted.weight else NonFiniteError
            raise kind(
                f"{self.head.path}, column {name!r}: {count} of {rows} values are missing (null, "
                f"NaN or infinite), the first is {value} at row {first} (counted from 0); repair "
                f'these events, or leave them out with where="abs(`{name}`) < 1e30"'
            )
