"""Events that are there twice: exact copies within the data or the reference, and in both.

A copy is no independent event. Data with copies look clustered, a reference with copies pretends to
know more than it does, and a reference that holds events of the data looks too much like them.
Rounded or discrete values coincide by chance too, so copies are reported only where there are more.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import GofstreamWarning
from gofstream.ondisk import OnDisk
from gofstream.sample import Sample, pieces

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Hashes = NDArray[np.uint64]

#: Rows that tell how often values coincide by chance.
COMPARED = 100_000
#: Copies within a larger reference are not looked for: it would take 32 bytes for each row.
COUNTED = 5_000_000
#: A value that so many rows have, and this part of them, is one that a column prefers, such as 0.
ATOM_ROWS, ATOM_PART = 30, 0.02
#: Columns of fewer values than this are discrete.
FEW_VALUES = 100
#: Part of the gaps between values of a rounded column that are multiples of the smallest.
ON_GRID = 0.99
WAY_OUT = (
    "check how the files were made, or leave copies out with drop_duplicates (--drop-duplicates)"
)


def row_hashes(x: Floats) -> Hashes:
    """Give equal rows equal numbers, and different rows, with near certainty, different ones."""
    factors = np.random.default_rng(0).integers(2**63, size=x.shape[1], dtype=np.uint64) * 2 + 1
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)
    mixed = bits ^ (bits >> np.uint64(29))
    return np.asarray((mixed * factors).sum(axis=1, dtype=np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Rows that are there twice.

    Attributes
    ----------
    data : rows of the batches, one after another, that repeat an earlier one.
    reference : rows of the reference that repeat an earlier one, weight included; not looked for
        where the reference is on disk or has more than `COUNTED` rows.
    shared : rows of the reference that are in the data too.
    events, rows : in the data, and in the reference.
    """

    data: Indices
    reference: Indices
    shared: Indices
    events: int
    rows: int

    def warn(self) -> None:
        """Tell how many there are, if any."""
        for number, text in (
            (len(self.data), f"of the {self.events} data events repeat an earlier one exactly, and "
             "an event that counts twice looks like an anomaly"),
            (len(self.reference), f"of the {self.rows} reference rows repeat an earlier one "
             "exactly, so the reference fluctuates more than its size tells"),
            (len(self.shared), f"of the {self.rows} reference rows are events of the data too, so "
             "the reference looks too much like the data"),
        ):  # fmt: skip
            if number:
                warnings.warn(f"{number} {text}; {WAY_OUT}", GofstreamWarning, stacklevel=3)

    @property
    def from_reference(self) -> Indices:
        """Rows that the reference is better without, in rising order."""
        return np.union1d(self.reference, self.shared)

    def drop(self, batches: Sequence[Sample], reference: Sample) -> tuple[list[Sample], Sample]:
        """Leave out every copy in the data, and in the reference also what the data have."""
        ends = np.cumsum([len(batch) for batch in batches])
        starts = ends - [len(batch) for batch in batches]
        kept = [
            batch.drop(self.data[(self.data >= start) & (self.data < end)] - start)
            for batch, start, end in zip(batches, starts, ends, strict=True)
        ]
        return kept, reference.drop(self.from_reference)


def find_copies(batches: Sequence[Sample], reference: Sample) -> Copies:
    """Find rows that are there twice, where they are more than come about by chance.

    Parameters
    ----------
    batches : the data, with the columns of the reference.
    reference : the nominal sample.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, reference = rng.normal(size=(50, 2)), Sample.from_array(rng.normal(size=(500, 2)))
    >>> find_copies([Sample.from_array(x), Sample.from_array(x[:3])], reference).data.tolist()
    [50, 51, 52]
    """
    # The coarser precision decides: an event that was stored as float32 is no other event.
    dtype = min((s.values.dtype for s in (*batches, reference)), key=lambda each: each.itemsize)
    hashes = np.concatenate([_hashes(batch, dtype) for batch in batches])
    asked = np.unique(hashes)
    own: list[Hashes] = []
    shared: list[Indices] = []
    for part in pieces(len(reference)):
        found = row_hashes(_rows(reference, part, dtype))
        nearest = np.minimum(np.searchsorted(asked, found), max(len(asked) - 1, 0))
        if len(asked):
            shared.append(part.start + np.flatnonzero(asked[nearest] == found))
        if len(reference) <= COUNTED and not isinstance(reference.values, OnDisk):
            weights = None if reference.weights is None else reference.weights[part, np.newaxis]
            own.append(found if weights is None else found ^ row_hashes(weights))
    data = _repeats(hashes)
    known = _repeats(np.concatenate(own)) if own else np.empty(0, np.int64)
    both = np.concatenate(shared) if shared else np.empty(0, np.int64)
    events, rows = len(hashes), len(reference)
    if len(data) or len(known) or len(both):
        chance = _Chance(_rows(reference, slice(None, None, -(-rows // COMPARED)), dtype), dtype)
        values = np.concatenate([_rows(batch, slice(None), dtype) for batch in batches])
        in_data = _Chance(values, dtype, chance)
        data = in_data.beyond(data, values[data], events**2 / 2)
        known = chance.beyond(known, _rows(reference, known, dtype), rows**2 / 2)
        both = chance.beyond(both, _rows(reference, both, dtype), events * rows)
    return Copies(data, known, both, events, rows)


class _Chance:
    """How often rows of a sample coincide without being copies.

    A value that columns of ``larger`` prefer is preferred here too: few rows do not show it.
    """

    def __init__(self, values: Floats, dtype: np.dtype[Any], larger: _Chance | None = None) -> None:
        if len(values) > COMPARED:
            values = values[:: -(-len(values) // COMPARED)]
        columns = [_Column(column, dtype) for column in values.T]
        self.columns = columns
        self.atoms = [column.atoms for column in columns]
        if larger is not None:
            self.atoms = [np.union1d(*both) for both in zip(self.atoms, larger.atoms, strict=True)]
        #: Of two rows: those of several columns coincide at most as often as in any one of them.
        self.probability = min(column.probability for column in columns)

    def beyond(self, rows: Indices, values: Floats, pairs: float) -> Indices:
        """Give the rows with these values, or none where so many pairs may have them by chance."""
        each = zip(self.columns, self.atoms, values.T, strict=True)
        continuous = [(atoms, x) for column, atoms, x in each if not column.discrete]
        preferred = np.full(len(rows), bool(continuous))
        for atoms, x in continuous:
            preferred &= np.isin(x, atoms)
        count, by_chance = len(rows) - np.count_nonzero(preferred), self.probability * pairs
        return rows if count > 2 * by_chance + 5 * by_chance**0.5 else rows[:0]


class _Column:
    """How often values of one column coincide: where it is rounded, and which values it prefers."""

    def __init__(self, values: Floats, dtype: np.dtype[Any]) -> None:
        values = np.sort(values)
        distinct, counts = np.unique(values, return_counts=True)
        spacing = np.spacing(np.abs(values).astype(dtype)).astype(np.float64)
        step, steps = _grid(distinct, float(np.median(spacing))), 8
        self.discrete = step is not None
        self.atoms = distinct[(counts >= ATOM_ROWS) & (counts >= ATOM_PART * len(values))]
        if step is None:  # rounded to the precision of the type alone
            step, steps = spacing, 64
        # Pairs some steps apart, from smaller to larger value, tell how many are none apart.
        none = np.searchsorted(values, values, side="right")
        near = max(
            float(np.sum(np.searchsorted(values, values + (k + 0.5) * step) - none)) / k
            for k in ((1, 2, 4, steps) if self.discrete else (steps,))
        )
        if self.discrete and len(distinct) <= FEW_VALUES:
            near = max(near, float(np.sum(counts.astype(float) ** 2)))
        self.probability = near / max(len(values), 1) ** 2


def _grid(distinct: Floats, spacing: float) -> float | None:
    """Give the step of rounded or discrete values, or None for continuous ones.

    All numbers of a type are multiples of a small one; a step of rounding is much larger than the
    ``spacing`` of the type.
    """
    if len(distinct) < 2:
        return 1.0
    gaps = np.diff(distinct)
    if gaps.min() < 16 * spacing:
        return None
    steps = gaps / gaps.min()
    on = np.mean(np.abs(steps - np.round(steps)) < 0.01)
    return float(gaps.min()) if on > ON_GRID else None


def _rows(sample: Sample, rows: Any, dtype: np.dtype[Any]) -> Floats:
    """Read rows at the coarser precision."""
    return np.asarray(sample.values[rows]).astype(dtype).astype(np.float64)


def _hashes(sample: Sample, dtype: np.dtype[Any]) -> Hashes:
    parts = [row_hashes(_rows(sample, part, dtype)) for part in pieces(len(sample))]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _repeats(hashes: Hashes) -> Indices:
    """Give the rows that repeat an earlier one, in rising order."""
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    return np.sort(order[1:][same])
