"""Where a scan found something: its best windows, in the user's columns and units."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError
from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.region import Columns, Place, Regions
from gofstream.scan.summary import ScanSummary
from gofstream.scan.windows import REACH, Bumps, Tails

Floats = NDArray[np.float64]

#: Windows listed, and those whose events are counted to choose them from.
LISTED, COUNTED = 3, 12
#: By how many events a region listed differs from the reference, at least.
LEAST = 0.5
#: A window with more of the reference in it is no place.
MOST = 0.5

#: Gives the events, or the part of a sample, in the regions of some windows.
Count = Callable[[Sequence[int]], Floats]


@dataclass(frozen=True, slots=True)
class FoundWindow:
    """A window in which data and reference differ: chosen for that, so without a significance.

    Attributes
    ----------
    kind : whether the better alternative adds events or takes some away.
    shape : a bump has a range in several columns, `HALF` widths on either side of its centre; a
        tail has one.
    places : the ranges of its region, the most telling column first; none if it is everything.
    observed, expected : events in that region.
    signal : events that the alternative adds, below zero if it takes some away.
    t : 2 ℓ, twice the logarithm of its likelihood ratio.
    """

    kind: Literal["excess", "deficit"]
    shape: Literal["bump", "tail"]
    places: tuple[Place, ...]
    observed: int
    expected: float
    signal: float
    t: float

    @property
    def where(self) -> str:
        """The ranges of its columns, in words."""
        return ", ".join(map(str, self.places)) or "everywhere"

    def __str__(self) -> str:
        """Write it in one line."""
        return f"{self.kind}, {self.where}: {self.observed} seen, {self.expected:.4g} expected"


def windows_to_json(windows: Sequence[FoundWindow]) -> str:
    """Write windows as JSON text, to be kept beside what they were found in."""
    return json.dumps([asdict(window) for window in windows])


def windows_from_json(text: str) -> tuple[FoundWindow, ...]:
    """Read what `windows_to_json` wrote.

    Raises
    ------
    FormatError
        If it is nothing of the kind.

    Examples
    --------
    >>> place = Place("mass", None, 80.0)
    >>> window = FoundWindow("deficit", "tail", (place,), 3, 9.5, -4.0, 6.1)
    >>> windows_from_json(windows_to_json([window])) == (window,)
    True
    """
    try:
        return tuple(
            FoundWindow(**{**kept, "places": tuple(Place(**place) for place in kept["places"])})
            for kept in json.loads(text)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"windows of a scan cannot be read: {error!r}") from error


def best_windows(
    summary: ScanSummary, regions: Regions, seen: Count, known: Count
) -> tuple[FoundWindow, ...]:
    """List the best windows, the likeliest first; none has its centre in one before it.

    An alternative counts with its weight, as in t, so that the many narrow ones do not always win.
    A window with most of the reference in it tells of the rate and is no place: of such windows the
    best is listed, and hides no others. What is listed are regions, and only those in which data
    and reference differ as the alternative says.

    Parameters
    ----------
    regions : of all windows of the grid.
    seen, known : give the events in some regions, and the part of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream.ratio.scaling import Scaling
    >>> from gofstream.sample import Sample
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.normal(5.0, 2.0, size=20_000), ["mass"])
    >>> scaling = Scaling.learn(reference)
    >>> grid = ScanGrid.choose(scaling.apply(reference), 500.0, rng)
    >>> mass = np.append(rng.normal(5.0, 2.0, size=500), rng.normal(9.0, 0.1, size=40))
    >>> data = Sample.from_array(mass, ["mass"])
    >>> best = windows_of(ScanSummary.empty(grid).add(scaling.apply(data), 500.0), scaling,
    ...     [data], reference)[0]
    >>> place = best.places[0]
    >>> best.kind, bool(place.low < 9 < place.high)
    ('excess', True)
    >>> best.observed == int(np.sum((mass >= place.low) & (mass <= place.high)))
    True
    """
    grid, ratio = summary.grid, summary.log_ratio
    score = ratio + grid.log_weight
    strongest = score.argmax(axis=0)
    chosen: list[int] = []
    taken: dict[bool, list[_Bump | _Tail]] = {True: [], False: []}
    for window in np.argsort(-score.max(axis=0), kind="stable").tolist():
        if ratio[strongest[window], window] <= 0 or len(chosen) == COUNTED:
            break
        spot, most = _spot(grid, window), bool(grid.content[window] > MOST)
        if any(most or _overlap(spot, other) for other in taken[most]):
            continue
        taken[most].append(spot)
        chosen.append(window)
    observed, expected = seen(chosen), summary.exposure * known(chosen)
    found: list[FoundWindow] = []
    for window, own, nominal in zip(chosen, observed.tolist(), expected.tolist(), strict=True):
        strength = int(strongest[window])
        sign = np.sign(grid.alpha[strength, window])
        if sign * (own - nominal) < LEAST or len(found) == LISTED:
            continue
        added = grid.drift[strength, window]
        found.append(
            FoundWindow(
                kind="excess" if sign > 0 else "deficit",
                shape="bump" if isinstance(_spot(grid, window), _Bump) else "tail",
                places=regions.places[window],
                observed=int(own),
                expected=nominal,
                signal=float(summary.exposure * (np.expm1(added) if grid.shape_only else added)),
                t=float(2 * ratio[strength, window]),
            )
        )
    return tuple(found)


def windows_of(
    summary: ScanSummary, scaling: Scaling, data: Sequence[Sample], reference: Sample
) -> tuple[FoundWindow, ...]:
    """List the best windows of data that are at hand, with what lies in their regions."""
    regions = Regions.of(summary.grid.windows, Columns.of(scaling, reference))

    def seen(which: Sequence[int]) -> Floats:
        return np.asarray(sum(regions.count(batch, which) for batch in data))

    return best_windows(summary, regions, seen, lambda which: regions.share(reference, which))


@dataclass(frozen=True, slots=True, eq=False)
class _Bump:
    centre: Floats
    width: float


@dataclass(frozen=True, slots=True, eq=False)
class _Tail:
    along: int
    edge: float

    def reaches(self, point: Floats) -> bool:
        windows = Tails(np.array([self.along]), np.array([self.edge]))
        return bool(windows.count(point[None])[0, 0])


def _spot(grid: ScanGrid, window: int) -> _Bump | _Tail:
    """Take one window out of the grid."""
    which = next(k for k, part in enumerate(grid.parts) if window < part.stop)
    windows, own = grid.windows[which], window - grid.parts[which].start
    if isinstance(windows, Bumps):
        return _Bump(windows.centres[own], windows.width)
    return _Tail(int(windows.along[own]), float(windows.edges[own]))


def _overlap(one: _Bump | _Tail, other: _Bump | _Tail) -> bool:
    """Tell whether one has the middle of the other in it; tails share their events, mostly."""
    if isinstance(one, _Tail):
        return isinstance(other, _Tail) or one.reaches(other.centre)
    if isinstance(other, _Tail):
        return other.reaches(one.centre)
    away = float(np.linalg.norm(one.centre - other.centre))
    return away <= REACH * max(one.width, other.width)
