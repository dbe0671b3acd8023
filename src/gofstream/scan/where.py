"""Where a scan found something: its best windows, in the user's columns and units."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError
from gofstream.ratio.scaling import Scaling
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.scan.windows import REACH, Bumps, Tails

Floats = NDArray[np.float64]

#: Windows listed, and columns of each that are told in words.
LISTED, TOLD = 3, 5
#: A window with more of the reference in it is no place.
MOST = 0.5
#: What the last of the heights is called, in which tails are cut.
DISTANCE = "distance from the origin, scaled"


@dataclass(frozen=True, slots=True)
class Place:
    """What a window says about one column; None is where it has no end."""

    column: str
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Write it as a range."""
        if self.low is None or self.high is None:
            side, edge = (">", self.low) if self.high is None else ("<", self.high)
            return f"{self.column} {side} {edge:.4g}"
        return f"{self.column} from {self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True, slots=True)
class FoundWindow:
    """A window in which data and reference differ: chosen for that, so without a significance.

    Attributes
    ----------
    kind : whether the better alternative adds events or takes some away.
    shape : a bump has a place in every column, its centre give or take one width; a tail has one.
    places : where it is, the most telling column first.
    observed, expected : events in the window; a bump ends at three widths.
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
        """The most telling columns, in words."""
        more = len(self.places) - TOLD
        rest = f" and {more} more column{'s' if more > 1 else ''}" if more > 0 else ""
        return ", ".join(map(str, self.places[:TOLD])) + rest or "everywhere"

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


def best_windows(summary: ScanSummary, scaling: Scaling) -> tuple[FoundWindow, ...]:
    """List the best windows, the likeliest first; none has its centre in one before it.

    An alternative counts with its weight, as in t, so that the many narrow ones do not always win.
    A window with most of the reference in it tells of the rate and is no place: of such windows the
    best is listed, and hides no others.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream.sample import Sample
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.normal(5.0, 2.0, size=20_000), ["mass"])
    >>> scaling = Scaling.learn(reference)
    >>> grid = ScanGrid.choose(scaling.apply(reference), 500.0, rng)
    >>> data = np.append(rng.normal(5.0, 2.0, size=500), rng.normal(9.0, 0.1, size=40))
    >>> found = ScanSummary.empty(grid).add(scaling.apply(Sample.from_array(data, ["mass"])), 500.0)
    >>> best = best_windows(found, scaling)[0]
    >>> best.kind, best.places[0].low < 9 < best.places[0].high
    ('excess', True)
    """
    grid, ratio, inside = summary.grid, summary.log_ratio, summary.inside
    score = ratio + grid.log_weight
    strongest = score.argmax(axis=0)
    found: list[FoundWindow] = []
    taken: dict[bool, list[_Bump | _Tail]] = {True: [], False: []}
    for window in np.argsort(-score.max(axis=0), kind="stable"):
        strength = int(strongest[window])
        spot = _spot(grid, int(window))
        if ratio[strength, window] <= 0 or len(found) == LISTED:
            break
        most = bool(grid.content[window] > MOST)
        if any(most or _overlap(spot, other) for other in taken[most]):
            continue
        taken[most].append(spot)
        added = grid.drift[strength, window]
        found.append(
            FoundWindow(
                kind="excess" if grid.alpha[strength, window] > 0 else "deficit",
                shape="bump" if isinstance(spot, _Bump) else "tail",
                places=_places(spot, scaling),
                observed=int(inside[window]),
                expected=float(summary.exposure * grid.content[window]),
                signal=float(summary.exposure * (np.expm1(added) if grid.shape_only else added)),
                t=float(2 * ratio[strength, window]),
            )
        )
    return tuple(found)


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


def _places(spot: _Bump | _Tail, scaling: Scaling) -> tuple[Place, ...]:
    """Say where a window is in the user's units."""
    if isinstance(spot, _Bump):
        middle, half = scaling.invert(spot.centre), scaling.lengths(spot.width)
        places = [
            Place(column, float(x - w), float(x + w))
            for column, x, w in zip(scaling.columns, middle, half, strict=True)
        ]
        # The column in which the bump is farthest from the middle of the reference comes first.
        away = scaling.by_column(np.abs(spot.centre))
        return tuple(places[k] for k in np.argsort(-away, kind="stable"))
    names = scaling.feature_names
    if np.isneginf(spot.edge):
        return ()  # everything: the rate
    if spot.along == 2 * len(names):
        return (Place(DISTANCE, spot.edge, None),)
    feature, below = spot.along % len(names), spot.along >= len(names)
    edge = -spot.edge if below else spot.edge
    edge = float(edge * scaling.scale[feature] + scaling.shift[feature])
    return (Place(names[feature], *((None, edge) if below else (edge, None))),)
