"""Where data and reference differ most, by the learnt ratio: descriptive, no significance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gofstream.report.record import Events, Range, Region

Floats = NDArray[np.float64]
Table = Mapping[str, NDArray[Any]]

#: A region holds at least this many events, expected or seen.
LEAST = 5.0
#: Thresholds on F that are tried.
STEPS = 2000
#: Events listed.
LISTED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Events of one kind: their columns, what each counts for, and F on them."""

    table: Table
    weights: Floats
    f: Floats


def regions(
    data: Side,
    reference: Side,
    units: Mapping[str, str],
    periodic: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Region, ...]:
    """Describe where the learnt ratio is largest, or smallest if that says more.

    The region is bounded by a value of e^F: the one beyond which observed and expected numbers of
    events disagree most. Beside an excess of some events the others seem to be too few, and the
    other way round, so the lesser disagreement is not shown.

    Parameters
    ----------
    units, periodic : of columns that have a unit, or a period.
    """
    turns = {name: Turn.of(reference.table[name], period) for name, period in periodic.items()}
    found = []
    kinds: tuple[tuple[Literal["excess", "deficit"], float], ...] = (("excess", 1), ("deficit", -1))
    for kind, sign in kinds:
        bound, surprise = _bound(data, reference, sign)
        if surprise <= 0:
            continue
        inside = sign * data.f >= sign * bound
        beyond = sign * reference.f >= sign * bound
        # What is missing from the data is described by the reference.
        shown = _of(data, inside) if kind == "excess" else _of(reference, beyond)
        region = Region(
            kind=kind,
            ratio=float(np.exp(bound)),
            expected=float(reference.weights[beyond].sum()),
            observed=int(np.count_nonzero(inside)),
            ranges=_ranges(shown, data, units, turns),
        )
        found.append((surprise, region))
    return tuple(region for _, region in sorted(found, key=lambda item: -item[0])[:1])


def most_anomalous(data: Side) -> Events:
    """List the events of largest e^F."""
    order = np.argsort(-data.f, kind="stable")[:LISTED]
    columns = [data.table[name][order].astype(np.float64) for name in data.table]
    return Events(
        columns=tuple(data.table),
        rows=tuple(order.tolist()),
        ratios=tuple(np.exp(data.f[order]).tolist()),
        values=tuple(
            tuple(float(v) if np.isfinite(v) else None for v in row)
            for row in zip(*columns, strict=True)
        ),
    )


def _bound(data: Side, reference: Side, sign: float) -> tuple[float, float]:
    """Give the threshold on F beyond which the counts disagree most, and by how much."""
    seen, known = np.sort(sign * data.f), np.argsort(sign * reference.f)
    ordered = sign * reference.f[known]
    # Expected events beyond each place in this order.
    beyond = np.append(np.cumsum(reference.weights[known][::-1])[::-1], 0.0)
    tried = np.quantile(np.concatenate([seen, ordered]), 1 - np.geomspace(1e-6, 1, STEPS))
    tried = np.unique(np.concatenate([tried, seen[-200:]]))
    observed = len(seen) - np.searchsorted(seen, tried)
    expected = beyond[np.searchsorted(ordered, tried)]
    # Where no row of the reference lies, one that almost did stands for what is not known.
    floor = np.maximum(expected, reference.weights.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(observed > 0, observed * np.log(observed / floor), 0.0)
    surprise = 2 * (log - (observed - floor))
    right = (sign * (observed - floor) > 0) & (np.maximum(observed, expected) >= LEAST)
    surprise = np.where(right, surprise, 0.0)
    best = int(np.argmax(surprise))
    return float(sign * tried[best]), float(surprise[best])


def _of(side: Side, which: NDArray[np.bool_]) -> Side:
    table = {name: column[which] for name, column in side.table.items()}
    return Side(table, side.weights[which], side.f[which])


def _ranges(
    inside: Side, data: Side, units: Mapping[str, str], turns: Mapping[str, Turn]
) -> tuple[Range, ...]:
    """Describe each column in a region; the one that sets it apart most comes first."""
    found = []
    for name, column in inside.table.items():
        if not np.isfinite(column).any():  # a carried column may have gaps
            continue
        turn = turns.get(name)
        low, quarter, median, three, high = _quantiles(
            column, inside.weights, (0.05, 0.25, 0.5, 0.75, 0.95), turn
        )
        whole = _quantiles(data.table[name], data.weights, (0.05, 0.95), turn)
        described = Range(
            column=name,
            unit=units.get(name, ""),
            low=low,
            quarter=quarter,
            median=median,
            three_quarters=three,
            high=high,
            overall=(whole[0], whole[1]),
        )
        found.append((_distance(column, inside.weights, data.table[name], turn), described))
    return tuple(described for _, described in sorted(found, key=lambda item: -item[0]))


def _distance(
    inside: NDArray[Any], weights: Floats, everywhere: NDArray[Any], turn: Turn | None
) -> float:
    """Kolmogorov-Smirnov distance between the events of a region and all events.

    Of a periodic column it is Kuiper's, which does not depend on where the turn begins.
    """
    known = np.isfinite(inside)
    if turn is not None:
        inside, everywhere = turn.within(inside), turn.within(everywhere)
    order = np.argsort(inside[known])
    x, share = inside[known][order], weights[known][order] / weights[known].sum()
    below = np.searchsorted(np.sort(everywhere), x) / len(everywhere)
    reached = np.cumsum(share)
    if turn is not None:
        return float((reached - below).max() + (below - (reached - share)).max())
    return float(np.maximum(np.abs(reached - below), np.abs(reached - share - below)).max())


def _quantiles(
    column: NDArray[Any], weights: Floats, levels: tuple[float, ...], turn: Turn | None
) -> list[float]:
    """Weighted quantiles of what is finite."""
    known = np.isfinite(column)
    values, weights = column[known].astype(np.float64), weights[known]
    along = values
    if turn is not None:
        values = turn.within(values)
        along = turn.around(values, weights)
    order = np.argsort(along)
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(levels) * reached[-1])
    return [float(values[order][min(int(k), len(order) - 1)]) for k in places]


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn in which the reference has the values of a periodic column."""

    first: float
    period: float

    @classmethod
    def of(cls, reference: NDArray[Any], period: float) -> Turn:
        """Let it begin at half a period below 0, or at 0 if no value is negative."""
        return cls(-period / 2 if reference.min() < 0 else 0.0, period)

    def within(self, values: NDArray[Any]) -> Floats:
        """Bring values into the turn; those inside keep every bit."""
        found = values.astype(np.float64)
        outside = (found < self.first) | (found > self.first + self.period)
        found[outside] = self.first + (found[outside] - self.first) % self.period
        return found

    def around(self, values: Floats, weights: Floats) -> Floats:
        """Count values from the point opposite to their mean, where there are fewest of them."""
        mean = np.angle(np.sum(weights * np.exp(2j * np.pi / self.period * values)))
        opposite = (mean / (2 * np.pi) - 0.5) * self.period
        return np.asarray((values - opposite) % self.period)
