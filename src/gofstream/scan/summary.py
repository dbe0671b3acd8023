"""What a scan keeps of data: counts of events, to which batches and machines add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream import sealed
from gofstream.errors import FormatError, InputError, short
from gofstream.scan.grid import ScanGrid

Floats = NDArray[np.float64]

FORMAT = "gofstream.scan"
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class ScanSummary:
    """How many events so far lie in every ring of every window, and what was expected of them.

    ℓ of every alternative follows from it. Its size depends on the grid alone. Batches can be added
    in any order, and summaries of parts of the data merged: the counts are those of one pass over
    everything.

    Attributes
    ----------
    grid : the alternatives.
    counts : (L, W) events in each ring of each window.
    exposure : N(R) of the batches so far; for a grid of shape alone, their events.
    batches : how many.
    regions : (W,) events in the region of each window; None if a batch was added without them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> grid = ScanGrid.choose(rng.exponential(size=(5000, 1)), 400.0, rng)
    >>> parts = [rng.exponential(size=(200, 1)) for _ in range(2)]
    >>> first, second = (ScanSummary.empty(grid).add(part, 200.0) for part in parts)
    >>> whole = ScanSummary.empty(grid).add(np.concatenate(parts), 400.0)
    >>> first.merge(second).t == whole.t
    True
    """

    grid: ScanGrid
    counts: NDArray[np.int64]
    exposure: float
    batches: int
    regions: NDArray[np.int64] | None = None

    @classmethod
    def empty(cls, grid: ScanGrid) -> ScanSummary:
        """Nothing seen yet."""
        return cls(
            grid, np.zeros(grid.levels.shape, np.int64), 0.0, 0, np.zeros(grid.size, np.int64)
        )

    def add(
        self, x: Floats, expected: float, regions: NDArray[np.int64] | None = None
    ) -> ScanSummary:
        """Include a batch.

        Parameters
        ----------
        x : (events, D) scaled.
        expected : N_i(R); a grid of shape alone counts the events instead.
        regions : (W,) events in the region of each window, where these will be told.

        Raises
        ------
        InputError
            If the events have another number of features than the grid.
        """
        if x.ndim != 2 or x.shape[1] != self.grid.features:
            raise InputError(
                f"a scan of {self.grid.features} features was given an array of shape {x.shape}; "
                "scale the events as the reference was scaled"
            )
        counts = self.counts + self.grid.count(x)
        exposure = float(len(x)) if self.grid.shape_only else float(expected)
        told = _added(self.regions, regions)
        return ScanSummary(self.grid, counts, self.exposure + exposure, self.batches + 1, told)

    def merge(self, other: ScanSummary) -> ScanSummary:
        """Put the summaries of two parts of the data together.

        Raises
        ------
        FormatError
            If they belong to different grids; it says what differs.
        """
        if other.grid is not self.grid:
            _same(self.grid.about(), other.grid.about())
        return ScanSummary(
            self.grid,
            self.counts + other.counts,
            self.exposure + other.exposure,
            self.batches + other.batches,
            _added(self.regions, other.regions),
        )

    @property
    def inside(self) -> NDArray[np.int64]:
        """Events in each window: (W,)."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def log_ratio(self) -> Floats:
        """ℓ of every alternative: (S, W)."""
        return np.asarray(self.grid.sums(self.counts) - self.exposure * self.grid.drift)

    @property
    def t(self) -> float:
        """2 log Σ w e^ℓ: the evidence of the whole grid, to be compared with that of toys."""
        return mixture(self.grid, self.log_ratio)

    @property
    def peak(self) -> float:
        """2 max ℓ: the evidence of the best alternative."""
        return float(2 * self.log_ratio[np.isfinite(self.grid.log_weight)].max())

    @property
    def log_e(self) -> float:
        """Natural logarithm of an e-value that holds for a finite reference.

        Under the null the probability that it ever reaches log(1/α) is at most α, over references
        and data alike, however often one looks (see docs/results/reach.md).

        Raises
        ------
        InputError
            If more events were expected so far than the grid was made for, or if the reference is
            weighted: then nothing is promised.
        """
        grid = self.grid
        if grid.safe_drift is None:
            raise InputError(
                "no e-value holds for a weighted reference; compare t with toys, or take a "
                "reference of unweighted events"
            )
        if self.exposure > grid.expected * (1 + 1e-9):
            raise InputError(
                f"{self.exposure:g} events were expected so far, but the grid was made for "
                f"{grid.expected:g}: beyond, its e-value does not hold; make a grid for more"
            )
        paid = np.where(np.isfinite(grid.safe_drift), grid.safe_drift, 0.0) * self.exposure
        weight = np.where(np.isfinite(grid.safe_drift), grid.log_weight, -np.inf)
        # Half: the price of a reference that is looked at again after every batch.
        return _log_sum(grid.sums(self.counts) - paid + weight) + float(np.log(0.5))

    def to_bytes(self) -> bytes:
        """Write as safetensors: the numbers, and everything else as sealed JSON beside them."""
        about = {
            "format": FORMAT,
            "version": VERSION,
            "grid": self.grid.about(),
            "exposure": self.exposure,
            "batches": self.batches,
        }
        regions = {} if self.regions is None else {"regions": self.regions}
        return sealed.to_bytes({"counts": self.counts, **regions}, about)

    @classmethod
    def from_bytes(cls, data: bytes, grid: ScanGrid) -> ScanSummary:
        """Read what `to_bytes` wrote, given the grid: the one chosen from that reference and seed.

        Raises
        ------
        FormatError
            If the bytes are damaged, foreign, of a newer version, or belong to another grid.
        """
        tensors, about = sealed.from_bytes(data, FORMAT, VERSION, "scan summary")
        try:
            _same(grid.about(), about["grid"])
            exposure, batches = float(about["exposure"]), int(about["batches"])
            # Older files have no regions.
            found = cls(grid, tensors["counts"], exposure, batches, tensors.get("regions"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"the summary cannot be read: {error!r}") from error
        found._check()
        return found

    def _check(self) -> None:
        """Refuse what no scan can have produced."""
        sound = (
            self.counts.dtype == np.int64
            and self.counts.shape == self.grid.levels.shape
            and bool((self.counts >= 0).all())
            and np.isfinite(self.exposure)
            and self.exposure >= 0
            and self.batches >= 0
            and (
                self.regions is None
                or (
                    self.regions.dtype == np.int64
                    and self.regions.shape == (self.grid.size,)
                    and bool((self.regions >= 0).all())
                )
            )
        )
        if not sound:
            raise FormatError(
                "the summary contradicts itself: its tensors and its description do not fit "
                "together; it was not written by gofstream"
            )


def _added(
    one: NDArray[np.int64] | None, other: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """Add events in regions, if both are known."""
    return None if one is None or other is None else one + other


def mixture(grid: ScanGrid, log_ratio: Floats) -> float:
    """2 log Σ w e^ℓ over the grid, from ℓ as (S, W)."""
    return 2 * _log_sum(log_ratio + grid.log_weight)


def _log_sum(values: Floats) -> float:
    """Log Σ e^v of numbers that may be -∞; SciPy's takes three times as long."""
    most = float(values.max())
    return most + float(np.log(np.exp(values - most).sum())) if np.isfinite(most) else most


def _same(here: dict[str, Any], there: dict[str, Any]) -> None:
    """Refuse to put together what was summed over different grids."""
    for key, value in here.items():
        if value != there.get(key):
            raise FormatError(
                f"summaries of different grids cannot be merged: {key} is {short(str(value))} in "
                f"one and {short(str(there.get(key)))} in the other; scan both with one grid"
            )
