"""Regions: the windows of a scan as ranges of the user's columns, and what lies in them.

A bump is a ball in scaled features, which nobody can select in a file. Its region is the box of
`HALF` widths on either side of its centre. The ends are rounded to the digits that are printed, so
that a selection with the printed numbers has the printed count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample, pieces
from gofstream.scan.windows import Bumps, Tails

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Half the length of a region, in widths of the bump.
HALF = 1.5
#: A region has at most so many ranges: of the columns in which its centre lies farthest out.
TOLD = 5
#: Digits to which ends are rounded: of half the length of a range, of half an arc beyond an edge of
#: its cosine or sine, and of the spread of a column that has an edge.
DIGITS, ARC_DIGITS, TAIL_DIGITS = 2, 3, 4
#: Half the shortest range of a periodic column, in periods.
SHORTEST = 1e-6
#: More columns than this are not named where all of them count.
MANY = 8
#: What a distance is called where no column can be; its columns follow.
DISTANCE = "scaled distance from the middle of the reference in"


@dataclass(frozen=True, slots=True)
class Place:
    """The range of one column in a region; None is where it has no end.

    With ``low`` above ``high`` it is what lies above the one or below the other: of an angle, a
    range that holds the end of the turn.
    """

    column: str
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Write it as a range."""
        return f"{self.column} {range_text(self.low, self.high, '{:.12g}'.format)}"

    @property
    def outside(self) -> bool:
        """Whether it is what lies above the one end or below the other."""
        return self.low is not None and self.high is not None and self.low >= self.high

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last value inside; a single end is itself outside."""
        if self.low is None:
            return -math.inf, math.inf if self.high is None else math.nextafter(
                self.high, -math.inf
            )
        if self.high is None:
            return math.nextafter(self.low, math.inf), math.inf
        return self.low, self.high

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Tell which values lie in the range.

        Examples
        --------
        >>> Place("phi", 3.0, -3.0).holds(np.array([3.1, 0.0, -3.1])).tolist()
        [True, False, True]
        """
        low, high = self.ends
        if self.outside:
            return np.asarray((values > low) | (values < high))
        return np.asarray((values >= low) & (values <= high))


def range_text(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """Put a range into words.

    Examples
    --------
    >>> [range_text(*ends, str) for ends in ((1, 2), (1, None), (None, 2), (2, 1))]
    ['from 1 to 2', 'above 1', 'below 2', 'above 2 or below 1']
    """
    if low is None:
        return "everywhere" if high is None else f"below {text(high)}"
    if high is None:
        return f"above {text(low)}"
    if low >= high:
        return f"above {text(low)} or below {text(high)}"
    return f"from {text(low)} to {text(high)}"


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What turns windows in scaled features into ranges of columns.

    Attributes
    ----------
    scaling : of the reference.
    low, high : (C,) the smallest and the largest value that each column has in the reference.
    """

    scaling: Scaling
    low: Floats
    high: Floats

    @classmethod
    def of(cls, scaling: Scaling, reference: Sample) -> Columns:
        """Look at the ranges of the reference: one pass."""
        ends = [
            (values.min(axis=0), values.max(axis=0))
            for values in (reference.values[part] for part in pieces(len(reference)))
        ]
        low, high = (np.array(each, dtype=np.float64) for each in zip(*ends, strict=True))
        return cls(scaling, low.min(axis=0), high.max(axis=0))

    def values(self, sample: Sample) -> Floats:
        """Give the columns of a sample, periodic ones in the turn in which ranges are written."""
        found = np.asfortranarray(sample.values[:], dtype=np.float64)
        for j, column in enumerate(self.scaling.columns):
            if column in self.scaling.periodic:
                first, period = self._turn(j)
                outside = (found[:, j] < first) | (found[:, j] > first + period)
                found[outside, j] = first + (found[outside, j] - first) % period
        return found

    def bump(self, centre: Floats, width: float) -> tuple[Place, ...]:
        """Give the ranges of a bump, the column in which it lies farthest out first."""
        scaling, features, found = self.scaling, iter(range(len(centre))), []
        point = scaling.invert(centre).tolist()
        for j, column in enumerate(scaling.columns):
            own = next(features)
            away, half = abs(centre[own]), HALF * width * scaling.scale[own]
            if column in scaling.periodic:
                other = next(features)
                away = max(away, abs(centre[other]))
                chord = HALF * width * max(scaling.scale[own], scaling.scale[other])
                half = 2 * math.asin(min(1.0, chord / 2)) * scaling.per_radian(column)
                place = self._arc(j, point[j], half, DIGITS)
            else:
                low, high = (rounded(point[j] + s * half, DIGITS, half) for s in (-1, 1))
                place = self._open(column, low, high, j)
            if place is not None:
                found.append((away, place))
        return tuple(place for _, place in sorted(found, key=lambda each: -each[0])[:TOLD])

    def tail(self, along: int, edge: float) -> tuple[Place, ...]:
        """Give the range of a tail; none if it is everything."""
        if np.isneginf(edge):
            return ()
        scaling, count = self.scaling, len(self.scaling.shift)
        if along == 2 * count:
            return (self._distance(edge),)
        feature, below = along % count, along >= count
        end = float((-edge if below else edge) * scaling.scale[feature] + scaling.shift[feature])
        j, function = self._owner(feature)
        column = scaling.columns[j]
        if not function:
            end = rounded(end, TAIL_DIGITS, float(scaling.scale[feature]))
            return (Place(column, None, end) if below else Place(column, end, None),)
        # Above an edge: around the angle where the function is largest. Below: around the other.
        end = float(np.clip(-end if below else end, -1, 1))
        middle = (0.0 if function == "cos" else math.pi / 2) + (math.pi if below else 0.0)
        unit = scaling.per_radian(column)
        place = self._arc(j, middle * unit, math.acos(end) * unit, ARC_DIGITS)
        return () if place is None else (place,)

    def distance(self, sample: Sample) -> Floats:
        """Give the scaled distance of events from the middle of the reference."""
        return np.asarray(np.linalg.norm(self.scaling.apply(sample), axis=1))

    def _arc(self, j: int, middle: float, half: float, digits: int) -> Place | None:
        """Write a range of a periodic column within one turn."""
        column, (first, period) = self.scaling.columns[j], self._turn(j)
        half = max(half, period * SHORTEST)
        if 2 * half >= period:
            return None
        low, high = (first_angle(end, first, period) for end in (middle - half, middle + half))
        low, high = rounded(low, digits, half), rounded(high, digits, half)
        if low < high:
            return self._open(column, low, high, j)
        if low > self.high[j] or high < self.low[j]:  # where the reference has but a part of a turn
            return Place(column, None, high) if low > self.high[j] else Place(column, low, None)
        return Place(column, low, high)

    def _open(self, column: str, low: float, high: float, j: int) -> Place | None:
        """Leave out an end that lies beyond all of the reference."""
        left = None if low <= self.low[j] else low
        right = None if high >= self.high[j] else high
        return None if left is right is None else Place(column, left, right)

    def _turn(self, j: int) -> tuple[float, float]:
        """Give where the turn begins in which the reference has its angles, and its length."""
        period = self.scaling.periodic[self.scaling.columns[j]]
        return (-period / 2 if self.low[j] < 0 else 0.0), period

    def _owner(self, feature: int) -> tuple[int, str]:
        """Give the column of a feature, and the function of it: "cos", "sin" or none."""
        owners: list[tuple[int, str]] = []
        for j, column in enumerate(self.scaling.columns):
            owners += [
                (j, f) for f in (("cos", "sin") if column in self.scaling.periodic else ("",))
            ]
        return owners[feature]

    def _distance(self, edge: float) -> Place:
        """Write a distance from the origin: on a line it is what lies outside of a range."""
        scaling, names = self.scaling, self.scaling.columns
        if len(scaling.shift) == 1:
            shift, scale = float(scaling.shift[0]), float(scaling.scale[0])
            below, above = shift - edge * scale, shift + edge * scale
            low, high = (rounded(end, TAIL_DIGITS, scale) for end in (below, above))
            if low <= self.low[0]:
                return Place(names[0], high, None)
            return (
                Place(names[0], None, low) if high >= self.high[0] else Place(names[0], high, low)
            )
        told = (
            f"all {len(names)} columns"
            if len(names) > MANY
            else " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        )
        return Place(f"{DISTANCE} {told}", rounded(edge, TAIL_DIGITS, 1.0), None)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The region of every window of a grid, in the order of the grid. Make them with `of`.

    Attributes
    ----------
    columns : of the reference.
    places : by window; a region without a range is everything.
    line : a column that is not periodic, along which events are put in order; -1 if there is none.
    low, high : (W,) the ends along that column, both inside; infinite if there is none.
    rest : by window, the ranges of other columns.
    """

    columns: Columns
    places: tuple[tuple[Place, ...], ...]
    line: int
    low: Floats
    high: Floats
    rest: tuple[tuple[Place, ...], ...]

    @classmethod
    def of(cls, windows: Sequence[Bumps | Tails], columns: Columns) -> Regions:
        """Turn windows into regions."""
        places: list[tuple[Place, ...]] = []
        for each in windows:
            if isinstance(each, Bumps):
                places += [columns.bump(centre, each.width) for centre in each.centres]
            else:
                tails = zip(each.along.tolist(), each.edges.tolist(), strict=True)
                places += [columns.tail(*tail) for tail in tails]
        names, periodic = columns.scaling.columns, columns.scaling.periodic
        line = next((j for j, name in enumerate(names) if name not in periodic), -1)
        ends, rest = np.tile([-np.inf, np.inf], (len(places), 1)), []
        for window, found in enumerate(places):
            own = [p for p in found if line >= 0 and p.column == names[line] and not p.outside]
            for place in own:
                ends[window] = place.ends
            rest.append(tuple(place for place in found if place not in own))
        return cls(columns, tuple(places), line, ends[:, 0], ends[:, 1], tuple(rest))

    def __len__(self) -> int:
        """Count the windows."""
        return len(self.places)

    def count(
        self, sample: Sample, which: Sequence[int] | None = None, weights: Floats | None = None
    ) -> Floats:
        """Count the events in some regions, or in all, or add up their weights.

        Examples
        --------
        >>> reference = Sample.from_array(np.arange(-50.0, 51.0), ["mass"])
        >>> columns = Columns.of(Scaling.learn(reference), reference)
        >>> regions = Regions.of([Tails(np.array([0, 1]), np.array([1.0, -np.inf]))], columns)
        >>> regions.places
        ((Place(column='mass', low=29.15, high=None),), ())
        >>> regions.count(reference).tolist()
        [21.0, 101.0]
        """
        chosen = np.arange(len(self)) if which is None else np.array(which, np.int64)
        found = np.zeros(len(chosen))
        for part in pieces(len(sample)):
            own = None if weights is None else weights[part]
            found += self._count(sample.take(part), chosen, own)
        return found

    def share(self, sample: Sample, which: Sequence[int]) -> Floats:
        """Give the part of a sample that lies in some regions: one pass."""
        if sample.weights is None:
            return self.count(sample, which) / len(sample)
        return self.count(sample, which, sample.share)

    def _count(self, sample: Sample, chosen: Indices, weights: Floats | None) -> Floats:
        values, rest = self.columns.values(sample), [self.rest[window] for window in chosen]
        begin, end = np.zeros(len(chosen), np.int64), np.full(len(chosen), len(values))
        away = np.empty(0)
        if any(place.column not in self.columns.scaling.columns for own in rest for place in own):
            away = self.columns.distance(sample)
        if self.line >= 0:
            order = np.argsort(values[:, self.line])
            values, away = np.asfortranarray(values[order]), away[order] if len(away) else away
            weights = None if weights is None else weights[order]
            begin = np.searchsorted(values[:, self.line], self.low[chosen], side="left")
            end = np.searchsorted(values[:, self.line], self.high[chosen], side="right")
        found = np.maximum(end - begin, 0).astype(np.float64)
        table = dict(zip(self.columns.scaling.columns, values.T, strict=True))
        for k in np.flatnonzero(found) if weights is not None else self._crowded(found, rest):
            rows = slice(begin[k], end[k])
            inside = np.ones(rows.stop - rows.start, np.bool_)
            for place in rest[k]:
                inside &= place.holds(table.get(place.column, away)[rows])
            found[k] = np.count_nonzero(inside) if weights is None else weights[rows][inside].sum()
        return found

    @staticmethod
    def _crowded(found: Floats, rest: Sequence[tuple[Place, ...]]) -> Iterator[int]:
        """Give the regions in which other columns decide about some events."""
        return (k for k, places in enumerate(rest) if places and found[k])


def rounded(value: float, digits: int, length: float) -> float:
    """Round to so many digits of a length.

    Examples
    --------
    >>> rounded(91.18763, 2, 0.0432), rounded(91.18763, 2, 24.0), rounded(1234.0, 2, 500.0)
    (91.188, 91.0, 1230.0)
    """
    return round(value, digits - 1 - math.floor(math.log10(length)))


def first_angle(value: float, first: float, period: float) -> float:
    """Bring an angle into the turn that begins at the first.

    Examples
    --------
    >>> first_angle(190.0, -180.0, 360.0), first_angle(-10.0, 0.0, 360.0)
    (-170.0, 350.0)
    """
    return first + (value - first) % period
