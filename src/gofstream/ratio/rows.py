"""The data of a block of batches: rows ψ(x) on shelves, stored or made, and sums over them."""

from __future__ import annotations

import copy
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gofstream.execution import share_out
from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.centres import REACH
from gofstream.ratio.features import Features, shelve
from gofstream.ratio.kernel import KernelRows
from gofstream.ratio.linalg import upper_times, upper_transposed_times

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Up to this rank the rows of the data are whitened (see `Rows`).
WHITEN_RANK = 600
#: Numbers in a part of the data rows that both products of a curvature use while it is in the
#: third-level cache; raw rows, which are long, in the second-level one.
PART_VALUES, RAW_PART_VALUES = 1024 * 1024, 128 * 1024
#: Rows of such a part, at least, where they are made; and of a stretch, which one thread works on.
MADE_PART_ROWS, STRETCH_ROWS = 256, 16 * 1024
#: Where no event is, in units of a width: all kernels vanish.
NOWHERE = 1e9


class Stretch(NamedTuple):
    """Rows of consecutive batches on one shelf, and the columns that stand for the batches."""

    shelf: int
    batches: slice
    rows: slice
    columns: slice


class Rows:
    """The data of each batch as rows ψ(x), so that f = ψ(x)·z.

    Models of moderate rank whiten the rows once, in double precision, and keep them in the working
    precision. For large ones the n r² of that would cost more than the fit: they keep raw kernel
    rows and map z to their coefficients. Those are large and alternate in sign, so raw rows stay
    in double precision; even then their rounding would stop a fit short of what is asked of one
    in double precision throughout, which whitens at any rank.

    Rows stand on shelves (see `Features.data_rows`), and so does whatever belongs to the events:
    one array (batches, rows) for each shelf. Rows without an event are zero, and so is all they add
    to a sum. ``who`` says, in rising order, which batches the columns of an argument stand for;
    on the shelves of a result the others are zero.

    Where rows do not fit into memory, shelves hold the events themselves, and kernel rows are
    ``made`` of them whenever they are needed; by so many ``hands``, in stretches that do not depend
    on how many there are.
    """

    hands = 1

    def __init__(
        self,
        shelves: list[Any],
        sizes: Sequence[int],
        to_kernel: Floats | None,
        made: KernelRows | None = None,
    ) -> None:
        self.shelves, self.sizes, self.to_kernel, self.made = shelves, sizes, to_kernel, made
        self.xp, self.device = array_namespace(shelves[0]), device(shelves[0])
        self.dtype = shelves[0].dtype
        self.half: Floats | None = None
        self.rank = shelves[0].shape[2] if made is None else made.columns.shape[1]
        self.ends = list(itertools.accumulate(shelf.shape[0] for shelf in shelves))
        self.begins = [0, *self.ends[:-1]]

    @classmethod
    def of(cls, features: Features, batches: Sequence[Floats]) -> tuple[Rows, Indices]:
        """Make the rows of batches; tell how many events of each no centre can see."""
        whiten = features.precision == "float64" or features.rank <= WHITEN_RANK
        shelves, uncovered = features.data_rows(batches, whiten=whiten)
        to_kernel = None if whiten else to_numpy(features.to_kernel)
        return cls(shelves, [len(batch) for batch in batches], to_kernel), uncovered

    @classmethod
    def taken(cls, features: Features, data: Sequence[Indices]) -> Rows:
        """Take the rows of batches from those of the features, where they are whitened already."""
        sizes = [len(rows) for rows in data]
        shelves, first = [], 0
        for count, size in shelve(sizes):
            shelf = np.zeros((count, size, features.rank), dtype=features.dtype)
            for place, rows in zip(shelf, data[first : first + count], strict=True):
                place[: len(rows)] = features.psi[rows]
            shelves.append(shelf)
            first += count
        return cls(shelves, sizes, None)

    @classmethod
    def to_make(
        cls, features: Features, batches: Sequence[Floats], hands: int
    ) -> tuple[Rows, Indices]:
        """Keep the events of batches; tell how many of each no centre can see."""
        xp, where = features.namespace
        sizes = [len(batch) for batch in batches]
        shelves, first = [], 0
        for count, size in shelve(sizes):
            # So far from every centre that all kernels vanish: where no event is.
            shelf = np.full((count, size, batches[0].shape[1]), NOWHERE)
            for place, events in zip(shelf, batches[first : first + count], strict=True):
                place[: len(events)] = events
            shelves.append(xp.asarray(shelf, device=where))
            first += count
        made = KernelRows.of(shelves, features.centres, features.width, like=shelves[0])
        rows = cls(shelves, sizes, to_numpy(features.to_kernel), made)
        missed = np.array([len(events) for events in batches])
        stretches = rows.stretches(np.arange(len(sizes)))

        def seen(stretch: Stretch) -> Any:
            return sum(
                np.count_nonzero(to_numpy(xp.max(part, axis=2)) >= -(REACH**2) / 2, axis=1)
                for part, _ in rows.parts(stretch, exponents=True)
            )

        for stretch, count in zip(stretches, share_out(seen, stretches, hands), strict=True):
            missed[stretch.columns] -= count
        return rows, missed

    def rough(self, half: Floats) -> Rows:
        """Give the same with rows made in single precision.

        Parameters
        ----------
        half : (r, T) ½ Σ_D ψ of each batch. With that known, only tanh(f/2), which is small, goes
            through them.
        """
        twin = copy.copy(self)
        if self.made is not None:
            twin.made, twin.dtype, twin.half = self.made.rough(), self.xp.float32, half
        return twin

    def between(self, first: int, stop: int) -> Rows:
        """Give the rows of consecutive batches."""
        shelves = self.cut(self.shelves, first, stop)
        return Rows(shelves, self.sizes[first:stop], self.to_kernel, self.made)

    def cut(self, shelved: list[Any], first: int, stop: int) -> list[Any]:
        """Take what belongs to consecutive batches from the shelves."""
        return [
            part[max(0, first - begin) : min(stop, end) - begin, ...]
            for begin, end, part in zip(self.begins, self.ends, shelved, strict=True)
            if first < end and begin < stop
        ]

    def values(self, z: Floats, who: Indices) -> list[Any]:
        """Evaluate f on the events of each batch."""
        coefficients, values = self.coefficients(z), self.zeros()

        def evaluate(stretch: Stretch) -> None:
            for part, rows in self.parts(stretch):
                f = row_values(part, coefficients[stretch.columns, :])
                values[stretch.shelf][stretch.batches, rows] = f

        for _ in share_out(evaluate, self.stretches(who), self.hands):
            pass
        return values

    def misfits(self, z: Floats, who: Indices) -> tuple[list[Any], Floats]:
        """Evaluate f on the events of each batch, and Σ_D ψ/(1+e^f)."""
        coefficients, values = self.coefficients(z), self.zeros()

        def weigh(stretch: Stretch, part: Any, rows: slice) -> Any:
            f = row_values(part, coefficients[stretch.columns, :])
            values[stretch.shelf][stretch.batches, rows] = f
            return misfit(f) if self.half is None else misfit(f) - 0.5

        pulled = self._pulled(weigh, who)
        return values, pulled if self.half is None else pulled + self.half[:, who]

    def pull(self, values: list[Any], who: Indices) -> Floats:
        """Σ_D values ψ for each batch."""
        return self._pulled(
            lambda stretch, _, rows: values[stretch.shelf][stretch.batches, rows], who
        )

    def curvature(self, p: Floats, weights: list[Any], who: Indices) -> tuple[Floats, list[Any]]:
        """Σ_D weights ψ (ψ·p) for each batch, and ψ·p itself."""
        coefficients, values = self.coefficients(p), self.zeros()

        def weigh(stretch: Stretch, part: Any, rows: slice) -> Any:
            f = row_values(part, coefficients[stretch.columns, :])
            values[stretch.shelf][stretch.batches, rows] = f
            return weights[stretch.shelf][stretch.batches, rows] * f

        return self._pulled(weigh, who), values

    def cross(self, z: Floats, who: Indices) -> Iterator[tuple[slice, Any]]:
        """Evaluate f of every column of z on the events of some batches.

        Yields which of these batches, and f (batches, columns, rows), zero where no event is.
        """
        coefficients = self.coefficients(z)
        for stretch in self.stretches(who):
            for values in self.cross_in(stretch, coefficients):
                yield stretch.columns, values

    def cross_in(self, stretch: Stretch, coefficients: Any) -> Iterator[Any]:
        """Evaluate f of every row of `coefficients` on the events of one stretch."""
        for part, _ in self.parts(stretch):
            step = max(1, PART_VALUES // (part.shape[0] * coefficients.shape[0]))
            for start in range(0, part.shape[1], step):
                some = part[:, start : start + step, :]
                yield coefficients[None, :, :] @ self.xp.matrix_transpose(some)

    def zeros(self) -> list[Any]:
        """Give shelves of zeros."""
        return [
            self.xp.zeros(shelf.shape[:2], dtype=self.dtype, device=self.device)
            for shelf in self.shelves
        ]

    def moved(
        self, values: list[Any], length: Floats, change: list[Any], who: Indices
    ) -> list[Any]:
        """Add to the values of each batch a multiple of their change."""
        lengths = np.zeros((self.ends[-1], 1))
        lengths[who, 0] = length
        column = self.xp.asarray(lengths, dtype=self.dtype, device=self.device)
        return [
            v + column[i:j, :] * c
            for i, j, v, c in zip(self.begins, self.ends, values, change, strict=True)
        ]

    def chosen(self, new: list[Any], old: list[Any], which: NDArray[np.bool_]) -> list[Any]:
        """Take the new values of some batches and the old ones of the others."""
        column = self.xp.asarray(which[:, None], device=self.device)
        return [
            self.xp.where(column[i:j, :], n, o)
            for i, j, n, o in zip(self.begins, self.ends, new, old, strict=True)
        ]

    def largest(self, values: list[Any]) -> Floats:
        """Give the largest absolute value of each batch."""
        most = [to_numpy(self.xp.max(self.xp.abs(v), axis=1)) for v in values]
        return np.concatenate(most).astype(np.float64)

    def totals(self, values: list[Any]) -> Floats:
        """Sum the values of each batch."""
        return np.concatenate([to_numpy(v).sum(axis=1, dtype=np.float64) for v in values])

    def coefficients(self, z: Floats) -> Any:
        """Turn whitened coefficients (r, T) into those of the rows: (T, r)."""
        if self.to_kernel is not None:
            z = upper_times(self.to_kernel, z)
        return self.xp.asarray(np.ascontiguousarray(z.T), dtype=self.dtype, device=self.device)

    def _pulled(self, weigh: Callable[[Stretch, Any, slice], Any], who: Indices) -> Floats:
        """Σ_D weights ψ for each batch, with the weights that are given for a part."""
        dtype = self.dtype if self.half is None else self.xp.float64
        pulled = self.xp.zeros((len(who), self.rank), dtype=dtype, device=self.device)

        def pull(stretch: Stretch) -> Any:
            sums = 0
            for part, rows in self.parts(stretch):
                own = weighted_sums(weigh(stretch, part, rows), part)
                sums = sums + self.xp.astype(own, dtype, copy=False)
            return sums

        stretches = self.stretches(who)
        for stretch, sums in zip(stretches, share_out(pull, stretches, self.hands), strict=True):
            pulled[stretch.columns, :] += sums
        stacked = to_numpy(pulled).T.astype(np.float64, order="C")
        if self.to_kernel is None:
            return stacked
        return upper_transposed_times(self.to_kernel, stacked)

    @property
    def _part_values(self) -> int:
        """Numbers in a part that stays in cache."""
        values = PART_VALUES if self.to_kernel is None else RAW_PART_VALUES
        # Products with few rows would make them slowly.
        return values if self.made is None else max(values, MADE_PART_ROWS * self.rank)

    def stretches(self, who: Indices) -> list[Stretch]:
        """Cut the rows of some batches into stretches, each for one thread."""
        rank, values = self.rank, self._part_values
        indices, column = who.tolist(), 0
        found = []
        while column < len(indices):
            shelf = bisect_right(self.ends, indices[column])
            count = self.shelves[shelf].shape[1]
            most = min(len(indices), column + max(1, values // (count * rank)))
            stop = column + 1
            while stop < most and indices[stop] == indices[stop - 1] + 1 < self.ends[shelf]:
                stop += 1
            first = indices[column] - self.begins[shelf]
            batches, columns = slice(first, first + stop - column), slice(column, stop)
            length = count if self.made is None else STRETCH_ROWS
            found += [
                Stretch(shelf, batches, slice(start, min(start + length, count)), columns)
                for start in range(0, count, length)
            ]
            column = stop
        return found

    def parts(self, stretch: Stretch, *, exponents: bool = False) -> Iterator[tuple[Any, slice]]:
        """Cut a stretch into parts that stay in cache.

        Yields a part (batches, rows, r), a view wherever rows are stored, and the rows on the
        shelf. If rows are made, the next part may be written over it.
        """
        count = stretch.batches.stop - stretch.batches.start
        first, stop = stretch.rows.start, stretch.rows.stop
        step = min(max(1, self._part_values // (self.rank * count)), stop - first)
        made = None if self.made is None else self.made.buffer(step * count)
        for start in range(first, stop, step):
            rows = slice(start, min(start + step, stop))
            yield self._part(stretch.shelf, stretch.batches, rows, made, exponents=exponents), rows

    @np.errstate(over="ignore", invalid="ignore")  # in single precision, and far out
    def _part(self, shelf: int, batches: slice, rows: slice, out: Any, *, exponents: bool) -> Any:
        there = self.shelves[shelf][batches, rows, :]
        if self.made is None:
            return there
        flat = self.xp.reshape(there, (-1, there.shape[2]))
        make = self.made.exponents if exponents else self.made.values
        made = make(flat, None if out is None else out[: flat.shape[0], :])
        return self.xp.reshape(made, (*there.shape[:2], self.rank))


@np.errstate(over="ignore", invalid="ignore")
def row_values(rows: Any, coefficients: Any) -> Any:
    """Evaluate f on the rows of each batch: (batches, n, r) and (batches, r) give (batches, n).

    The long rows of a single batch make a small result, for which one product of stacks would keep
    the interpreter's lock.
    """
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.dot(rows[0], coefficients[0])[None, :]
    return (rows @ coefficients[:, :, None])[:, :, 0]


@np.errstate(over="ignore", invalid="ignore")
def weighted_sums(weights: Any, rows: Any) -> Any:
    """Σ_n weights rows for each batch: (batches, n) and (batches, n, r) give (batches, r).

    One product for all would keep the interpreter's lock, as its result is small.
    """
    if isinstance(rows, np.ndarray):
        return np.stack([np.dot(w, x) for w, x in zip(weights, rows, strict=True)])
    return (weights[:, None, :] @ rows)[:, 0, :]


def misfit(f: Any) -> Any:
    """-d/df log(1+e^-f) = 1/(1+e^f)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + array_namespace(f).exp(f))
