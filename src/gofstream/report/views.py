"""Data beside the reference, column by column and for a pair of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.report.record import Column, Pair
from gofstream.report.where import Side

Floats = NDArray[np.float64]

#: Bins of a column, and of each side of a pair.
BINS, CELLS = 40, 24
#: What lies beyond these quantiles of both data and reference goes to the first and last bins.
ENDS = (0.001, 0.999)


def column_view(name: str, unit: str, fitted: bool, data: Side, reference: Side) -> Column:
    """Count events per bin: seen, expected, and expected after reweighting by e^F."""
    edges = _edges(data.table[name], reference.table[name], BINS)
    known, known_reference = _finite(data, name), _finite(reference, name)
    x, x_reference = data.table[name][known], reference.table[name][known_reference]
    weights = reference.weights[known_reference]
    learnt = weights * np.exp(reference.f[known_reference])
    return Column(
        name=name,
        unit=unit,
        fitted=fitted,
        edges=tuple(edges.tolist()),
        data=tuple(_counts(x, edges).astype(int).tolist()),
        reference=tuple(_counts(x_reference, edges, weights).tolist()),
        reference_error=tuple(np.sqrt(_counts(x_reference, edges, weights**2)).tolist()),
        learnt=tuple(_counts(x_reference, edges, learnt).tolist()),
    )


def pair_view(x: str, y: str, data: Side, reference: Side) -> Pair:
    """Count events per cell of two columns: seen and expected."""
    edges = [_edges(data.table[name], reference.table[name], CELLS) for name in (x, y)]

    def cells(side: Side, weights: Floats | None) -> Floats:
        known = _finite(side, x) & _finite(side, y)
        inside = [
            np.clip(side.table[name][known], e[0], e[-1])
            for name, e in zip((x, y), edges, strict=True)
        ]
        used = None if weights is None else weights[known]
        counted, _, _ = np.histogram2d(inside[0], inside[1], bins=edges, weights=used)
        return np.asarray(counted.T)

    return Pair(
        x=x,
        y=y,
        x_edges=tuple(edges[0].tolist()),
        y_edges=tuple(edges[1].tolist()),
        data=tuple(map(tuple, cells(data, None).astype(int).tolist())),
        reference=tuple(map(tuple, cells(reference, reference.weights).tolist())),
    )


def _finite(side: Side, name: str) -> NDArray[np.bool_]:
    return np.isfinite(side.table[name])


def _edges(data: NDArray[Any], reference: NDArray[Any], bins: int) -> Floats:
    """Divide evenly what all but a few events of either kind span."""
    finite = [x[np.isfinite(x)].astype(np.float64) for x in (data, reference)]
    sides = [x for x in finite if len(x)] or [np.zeros(1)]
    low, high = _span([np.quantile(x, ENDS) for x in sides])
    if low == high:
        low, high = _span(sides)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _span(sides: list[Floats]) -> tuple[float, float]:
    return float(min(x.min() for x in sides)), float(max(x.max() for x in sides))


def _counts(x: NDArray[Any], edges: Floats, weights: Floats | None = None) -> Floats:
    clipped = np.clip(x, edges[0], edges[-1])
    return np.asarray(np.histogram(clipped, edges, weights=weights)[0], dtype=np.float64)
