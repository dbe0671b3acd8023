"""The grid of alternatives n(x|R) (1 + α k(x)): windows, strengths, and what each costs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.arrays import Points
from gofstream.scan.choose import choose_bumps, choose_tails
from gofstream.scan.windows import Bumps, Indices, Inside, Tails

Floats = NDArray[np.float64]

#: Counts up whenever the same reference and seed give other numbers than before.
RULE = 3
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


@dataclass(frozen=True, slots=True, eq=False)
class ScanGrid:
    """Alternatives with one window each, fixed before any data. Make one with `ScanGrid.choose`.

    With W windows of S strengths each, all arrays end in (W,) or are (S, W).

    Attributes
    ----------
    windows : bumps by width, widest first, and then tails.
    alpha : (S, W) α: how much more than the reference, where k = 1.
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
    alpha: Floats
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
        if len(used) > (enough := max(FEWEST, int(PER_EVENT * expected))):
            used = np.sort(rng.choice(used, size=enough, replace=False))
        share = None if share is None else share[used]
        own = rng.choice(len(used), size=max(1, min(len(used) // PART, ROWS)), replace=False)
        part = reference[used[own]]
        windows: tuple[Bumps | Tails, ...] = (*choose_bumps(part), choose_tails(part))
        chosen = _Moments(windows, len(part), None if share is None else share[own])
        _sum_over(windows, reference, used[own], chosen)
        effective = len(used) if share is None else float(share.sum() ** 2 / np.sum(share**2))
        alpha = _strengths(chosen, expected)
        error = np.abs(alpha) * expected * np.sqrt(chosen.second / effective)
        weak = np.array([g in (EXCESS[0], DEFICIT[0]) for g in (*EXCESS, *DEFICIT)])
        whole, safe = _Moments(windows, len(used), share), None
        if share is None:
            middle = chosen.mean if shape_only else np.zeros(chosen.mean.shape)
            safe = _SafeDrift(alpha, middle, expected, len(used), without=own)
        _sum_over(windows, reference, used, *filter(None, (whole, safe)))
        drift = np.log1p(alpha * whole.mean) if shape_only else alpha * whole.mean
        return cls(
            windows=windows,
            alpha=alpha,
            log_weight=_log_weight(windows, (error <= UNCERTAIN) | weak[:, None]),
            drift=drift,
            safe_drift=None if safe is None else safe.drift,
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
        """Bytes of all arrays; a summary takes about a quarter."""
        own = 0 if self.safe_drift is None else self.safe_drift.nbytes
        windows = sum(len(each.to_bytes()) for each in self.windows)
        return 3 * self.alpha.nbytes + self.content.nbytes + own + windows

    @property
    def work_bytes(self) -> int:
        """Bytes that `look` takes, about: the pairs of a slab with windows of one width."""
        touched = max(float(self.content[part].sum()) for part in self.parts)
        return int(SLAB * touched * PAIR) + 2 * self.alpha.nbytes

    @property
    def parts(self) -> list[slice]:
        """Which windows belong to each entry of ``windows``."""
        return _parts(self.windows)

    def look(self, x: Floats) -> tuple[Floats, Indices]:
        """Look at scaled events: Σ log(1 + α k) as (S, W), and how many lie in each window."""
        sums, inside = np.zeros(self.alpha.shape), np.zeros(self.size, dtype=np.int64)
        for where in _slabs(len(x)):
            events = x[where]
            for windows, part in zip(self.windows, self.parts, strict=True):
                found = windows.inside(events)
                sums[:, part] += found.log_sums(self.alpha[:, part])
                inside[part] += found.counts
        return sums, inside

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


class _Sums(Protocol):
    """What is summed over rows and the windows they lie in."""

    def take(self, where: slice, part: slice, inside: Inside) -> None:
        """Add the pairs of rows at some places with the windows of one part."""
        ...


def _sum_over(
    windows: Sequence[Bumps | Tails], points: Points, rows: Indices, *sums: _Sums
) -> None:
    """Go through some rows once, for all sums: to find the pairs takes longest."""
    for where in _slabs(len(rows)):
        slab = points[rows[where]]
        for each, part in zip(windows, _parts(windows), strict=True):
            inside = each.inside(slab)
            for one in sums:
                one.take(where, part, inside)


class _Moments:
    """What windows hold of some rows: means of k and k², and the part of the rows inside."""

    def __init__(
        self, windows: Sequence[Bumps | Tails], rows: int, share: Floats | None = None
    ) -> None:
        self._share = share
        self._total = rows if share is None else float(share.sum())
        self._sums = np.zeros((3, sum(map(len, windows))))

    def take(self, where: slice, part: slice, inside: Inside) -> None:
        """Add the powers of k."""
        value = 1.0 if self._share is None else self._share[where][inside.rows]
        for power in range(3):
            self._sums[power, part] += inside.summed(value * inside.k**power)

    @property
    def content(self) -> Floats:
        """(W,) part of the rows in each window."""
        return np.asarray(self._sums[0] / self._total)

    @property
    def mean(self) -> Floats:
        """(W,) mean of k."""
        return np.asarray(self._sums[1] / self._total)

    @property
    def second(self) -> Floats:
        """(W,) mean of k²."""
        return np.asarray(self._sums[2] / self._total)


def _parts(windows: Sequence[Bumps | Tails]) -> list[slice]:
    ends = list(accumulate(map(len, windows)))
    return [slice(end - len(each), end) for each, end in zip(windows, ends, strict=True)]


def _slabs(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + SLAB, rows)) for start in range(0, rows, SLAB))


def _strengths(found: _Moments, expected: float) -> Floats:
    """α for every strength: enough for g standard deviations, and for g events where b is small."""
    background = expected * found.mean**2 / found.second
    unit = (1 + np.sqrt(background)) / (expected * found.mean)
    return np.maximum(np.array([*EXCESS, *DEFICIT])[:, None] * unit, DEEPEST)


def _log_weight(windows: Sequence[Bumps | Tails], kept: NDArray[np.bool_]) -> Floats:
    """Weigh every width alike, and the tails as one width; within it, every alternative."""
    parts = _parts(windows)
    weight = np.zeros(kept.shape)
    for part in parts:
        weight[:, part] = kept[:, part] / (len(parts) * np.count_nonzero(kept[:, part]))
    with np.errstate(divide="ignore"):
        return np.log(weight)


class _SafeDrift:
    """What ℓ must lose per expected event, for e^ℓ to average to one over references too.

    With h = k - m (m is zero where the rate is known), Π_D (1 + α h) Π_R (1 - β h) has mean one at
    most over data and reference if β = α N(R) / N_R, whatever the mean of h: the first factor has
    the mean e^{N(R) α E[h]} and the second e^{-N_R β E[h]}, or less if numbers of events are fixed.
    Written in k instead, the first is Π_D (1 + α k) / (1 + α m)^N with another α. An alternative
    for which a factor of a row could be zero or less has no such price: it costs infinitely much.
    Rows that windows and α were chosen from are left out (``without``): given these, the others
    must still be independent of all that was chosen.
    """

    def __init__(
        self, alpha: Floats, middle: Floats, expected: float, rows: int, *, without: Indices
    ) -> None:
        self._counts = np.ones(rows, dtype=np.bool_)
        self._counts[without] = False
        self._expected = expected
        self._rows = rows - len(without)
        self._start = np.log1p(alpha * middle)
        beta = alpha / (1 + alpha * middle) * expected / self._rows
        around = 1 + beta * middle
        self._possible = (around > 0) & (beta / around < 1)
        self._outer = np.where(self._possible, beta / around, 0.0)
        self._gained = self._rows * np.log(np.where(self._possible, around, 1.0))

    def take(self, where: slice, part: slice, inside: Inside) -> None:
        """Add log(1 - β h), up to what all rows have in common."""
        k = inside.k * self._counts[where][inside.rows]
        self._gained[:, part] += inside._replace(k=k).log_sums(-self._outer[:, part])

    @property
    def drift(self) -> Floats:
        """(S, W) the price of each alternative."""
        cost = self._start - self._gained / self._expected
        return np.where(self._possible, cost, np.inf)
