"""The grid of alternatives n(x|R) (1 + α k(x)): windows, strengths, and what each costs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.arrays import Points
from gofstream.scan.choose import choose_bumps, choose_tails
from gofstream.scan.windows import TOGETHER, Bumps, Indices, Tails

Floats = NDArray[np.float64]

#: Counts up whenever the same reference and seed give other numbers than before.
RULE = 4
#: Rows that windows and strengths are chosen from: this part of the reference, but no more than so
#: many. The others say what an alternative costs.
PART, ROWS = 5, 20_000
#: So many rows of the reference are looked at for each event expected, and no less than so many
#: in all: their error then is at most a tenth of what ℓ varies by, where a window holds an event.
PER_EVENT, FEWEST = 200, 100_000
#: Strengths of excess and deficit: s = g (1 + √b) signal events where a window holds b.
EXCESS, DEFICIT = (1.5, 2.4, 3.8, 6.1, 9.8), (-1.5, -2.4, -3.8)
#: No alternative takes away more than this part of the reference.
DEEPEST = -0.9
#: ℓ of an alternative may be uncertain by so much, for want of reference rows.
UNCERTAIN = 3.0
#: Events looked at together, so that their pairs with windows fill no more than some megabytes.
SLAB = 8192
#: Bytes of all arrays that hold something for a pair of event and window, at their most.
PAIR = 80

Windows = Sequence[Bumps | Tails]


@dataclass(frozen=True, slots=True, eq=False)
class ScanGrid:
    """Alternatives with one window each, fixed before any data. Make one with `ScanGrid.choose`.

    With W windows of L rings and S strengths each, all arrays end in W.

    Attributes
    ----------
    windows : bumps by width, widest first, and then tails.
    levels : (L, W) the value of k in each ring of a window.
    alpha : (S, W) α: how much more than the reference, where k = 1.
    gain : (S, L, W) log(1 + α k), what an event in a ring adds to ℓ.
    log_weight : (S, W) what an alternative weighs in the mixture; -∞ if it is dropped.
    drift : (S, W) what ℓ loses for each event that is expected.
    safe_drift : (S, W) the same with the uncertainty of a finite reference paid for; None for a
        weighted one.
    content : (W,) part of the reference in each window.
    expected : N(R) of all data that will be looked at.
    shape_only : whether the number of events is left out of the test.
    rows : of the reference, that say what an alternative costs.
    features : D.
    """

    windows: tuple[Bumps | Tails, ...]
    levels: Floats
    alpha: Floats
    gain: Floats
    log_weight: Floats
    drift: Floats
    safe_drift: Floats | None
    content: Floats
    expected: float
    shape_only: bool
    rows: int
    features: int

    @classmethod
    def choose(
        cls,
        reference: Points,
        expected: float,
        rng: np.random.Generator,
        *,
        share: Floats | None = None,
        shape_only: bool = False,
    ) -> ScanGrid:
        """Choose windows and strengths from a part of the reference, and learn what they cost.

        Parameters
        ----------
        reference : (N_R, D) scaled.
        expected : N(R) of all batches together; for a test of shape alone, their events.
        rng : says which part.
        share : normalised event weights of the reference.
        shape_only : whether the number of events is left out of the test.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(1)
        >>> grid = ScanGrid.choose(rng.exponential(size=(5000, 1)), 400.0, rng)
        >>> grid.alpha.shape == (8, grid.size)
        True
        """
        used = np.arange(len(reference)) if share is None else np.flatnonzero(share)
        if len(used) > (enough := rows_looked_at(expected)):
            used = np.sort(rng.choice(used, size=enough, replace=False))
        share = None if share is None else share[used]
        own = rng.choice(len(used), size=max(1, min(len(used) // PART, ROWS)), replace=False)
        part = reference[used[own]]
        windows: tuple[Bumps | Tails, ...] = (*choose_bumps(part), choose_tails(part))
        own_share = None if share is None else share[own]
        chosen = _Known.of(windows, reference, used[own], own_share)
        whole = _Known.of(windows, reference, used, share)
        effective = len(used) if share is None else float(share.sum() ** 2 / np.sum(share**2))
        alpha = _strengths(chosen, expected)
        error = np.abs(alpha) * expected * np.sqrt(chosen.second / effective)
        weak = np.array([g in (EXCESS[0], DEFICIT[0]) for g in (*EXCESS, *DEFICIT)])
        safe = None
        if share is None:
            # Rows that windows and α were chosen from are left out: given these, the others are
            # still independent of all that was chosen.
            middle = chosen.mean if shape_only else np.zeros(chosen.mean.shape)
            safe = _safe_drift(alpha, middle, expected, whole.without(chosen))
        return cls(
            windows=windows,
            levels=whole.levels,
            alpha=alpha,
            gain=_gain(alpha, whole.levels),
            log_weight=_log_weight(windows, (error <= UNCERTAIN) | weak[:, None]),
            drift=np.log1p(alpha * whole.mean) if shape_only else alpha * whole.mean,
            safe_drift=safe,
            content=whole.content,
            expected=expected,
            shape_only=shape_only,
            rows=len(used),
            features=reference.shape[1],
        )

    @property
    def size(self) -> int:
        """W, the number of windows."""
        return len(self.content)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, about; a summary takes less than a tenth."""
        own = 0 if self.safe_drift is None else self.safe_drift.nbytes
        windows = sum(len(each.to_bytes()) for each in self.windows)
        return 3 * self.alpha.nbytes + self.gain.nbytes + 2 * self.levels.nbytes + own + windows

    @property
    def work_bytes(self) -> int:
        """Bytes that `count` takes, about: distances, or the pairs of a slab with one width."""
        touched = max(float(self.content[part].sum()) for part in _parts(self.windows))
        return int(max(TOGETHER, SLAB * touched) * PAIR) + 2 * self.alpha.nbytes

    @property
    def parts(self) -> list[slice]:
        """Which windows belong to each entry of ``windows``."""
        return _parts(self.windows)

    def count(self, x: Floats) -> Indices:
        """Count scaled events in every ring of every window: (L, W)."""
        found = np.zeros(self.levels.shape)
        for where in _slabs(len(x)):
            found += _count(self.windows, x[where])
        return found.astype(np.int64)

    def sums(self, counts: Indices) -> Floats:
        """Σ log(1 + α k) over events, given how many there are in each ring: (S, W)."""
        return _summed(self.gain, counts.astype(np.float64))

    def about(self) -> dict[str, Any]:
        """Describe what decides every number, for files, and to tell grids apart."""
        return {
            "rule": RULE,
            "features": self.features,
            "expected": self.expected,
            "shape_only": self.shape_only,
            "reference rows": self.rows,
            "windows": self.size,
            "numbers": self._digest(),
        }

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for array in (self.alpha, self.log_weight, self.drift, self.content):
            digest.update(array.tobytes())
        for windows in self.windows:
            digest.update(windows.to_bytes())
        return digest.hexdigest()


def rows_looked_at(expected: float) -> int:
    """Say how many rows of a reference are looked at for so many events, at most."""
    return max(FEWEST, int(PER_EVENT * expected))


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """How some rows lie in the rings.

    Attributes
    ----------
    levels : (L, W) k in each ring.
    counts : (L, W) rows there, or their weight.
    total : all rows, or their weight.
    """

    levels: Floats
    counts: Floats
    total: float

    @classmethod
    def of(cls, windows: Windows, points: Points, rows: Indices, share: Floats | None) -> _Known:
        """Count some rows."""
        levels = np.repeat([each.levels for each in windows], [*map(len, windows)], axis=0).T
        counts = np.zeros(levels.shape)
        for where in _slabs(len(rows)):
            own = None if share is None else share[where]
            counts += _count(windows, points[rows[where]], own)
        return cls(levels, counts, float(len(rows) if share is None else share.sum()))

    def without(self, some: _Known) -> _Known:
        """Take away some of the rows."""
        return _Known(self.levels, self.counts - some.counts, self.total - some.total)

    @property
    def content(self) -> Floats:
        """(W,) part of the rows in each window."""
        return np.asarray(self.counts.sum(axis=0) / self.total)

    @property
    def mean(self) -> Floats:
        """(W,) mean of k."""
        return np.asarray(np.sum(self.counts * self.levels, axis=0) / self.total)

    @property
    def second(self) -> Floats:
        """(W,) mean of k²."""
        return np.asarray(np.sum(self.counts * self.levels**2, axis=0) / self.total)


def _count(windows: Windows, x: Floats, weights: Floats | None = None) -> Floats:
    return np.hstack([each.count(x, weights) for each in windows])


def _parts(windows: Windows) -> list[slice]:
    ends = list(accumulate(map(len, windows)))
    return [slice(end - len(each), end) for each, end in zip(windows, ends, strict=True)]


def _slabs(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + SLAB, rows)) for start in range(0, rows, SLAB))


def _gain(alpha: Floats, levels: Floats) -> Floats:
    """log(1 + α k) of every strength, ring and window: (S, L, W)."""
    return np.log1p(alpha[:, None] * levels)


def _summed(gain: Floats, counts: Floats) -> Floats:
    """Add up what all events gain: (S, W)."""
    return np.asarray(np.einsum("slw,lw->sw", gain, counts))


def _strengths(found: _Known, expected: float) -> Floats:
    """α for every strength: enough for g standard deviations, and for g events where b is small."""
    background = expected * found.mean**2 / found.second
    unit = (1 + np.sqrt(background)) / (expected * found.mean)
    return np.maximum(np.array([*EXCESS, *DEFICIT])[:, None] * unit, DEEPEST)


def _log_weight(windows: Windows, kept: NDArray[np.bool_]) -> Floats:
    """Weigh every width alike, and the tails as one width; within it, every alternative."""
    parts = _parts(windows)
    weight = np.zeros(kept.shape)
    for part in parts:
        weight[:, part] = kept[:, part] / (len(parts) * np.count_nonzero(kept[:, part]))
    with np.errstate(divide="ignore"):
        return np.log(weight)


def _safe_drift(alpha: Floats, middle: Floats, expected: float, held_out: _Known) -> Floats:
    """Price alternatives, per event expected, so that e^ℓ averages to one over references too.

    With h = k - m (m is zero where the rate is known), Π_D (1 + α h) Π_R (1 - β h) has mean one at
    most over data and reference if β = α N(R) / N_R, whatever the mean of h: the first factor has
    the mean e^{N(R) α E[h]} and the second e^{-N_R β E[h]}, or less if numbers of events are fixed.
    Written in k instead, the first is Π_D (1 + α k) / (1 + α m)^N with another α. An alternative
    for which a factor of a row could be zero or less has no such price: it costs infinitely much.
    """
    beta = alpha / (1 + alpha * middle) * expected / held_out.total
    around = 1 + beta * middle
    possible = (around > 0) & (beta / around < 1)
    gain = _gain(np.where(possible, -beta / around, 0.0), held_out.levels)
    gained = _summed(gain, held_out.counts)
    gained += held_out.total * np.log(np.where(possible, around, 1.0))
    return np.where(possible, np.log1p(alpha * middle) - gained / expected, np.inf)
