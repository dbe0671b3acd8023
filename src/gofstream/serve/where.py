"""Where is it? The learnt ratio along each column, from the models that a store has kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.ratio.model import Aggregate, LogRatio
from gofstream.ratio.scaling import Scaling
from gofstream.report.words import number
from gofstream.sample import Sample

Floats = NDArray[np.float64]

#: Rows of the reference on which models are evaluated: some hundred in every bin.
ROWS = 4000
#: Bins along a column, with as many points in each.
BINS = 20
#: A larger log ratio is shown as this one.
CAP = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Places at which learnt ratios are evaluated.

    Attributes
    ----------
    values : (n, columns), in the user's units.
    weights : (n,) what each counts for.
    scaled : (n, features), as models take them.
    columns : names of the columns.
    words : what the points are, for the page.
    """

    values: Floats
    weights: Floats
    scaled: Floats
    columns: tuple[str, ...]
    words: str

    @classmethod
    def on_reference(cls, reference: Sample, model: LogRatio) -> Points:
        """Take rows of the reference of the run, some of them if there are many.

        Raises
        ------
        InputError
            If the run had another reference.
        """
        if reference.digest() != model.reference:
            raise InputError(
                f"reference {reference.name!r} is not the one of this run: its digest is "
                f"{reference.digest()[:12]}, that of the run {model.reference[:12]}; give the same "
                "file, columns, weights and periods, or leave --reference out"
            )
        some = reference
        if len(reference) > ROWS:
            rng = np.random.default_rng(0)
            some = reference.take(np.sort(rng.choice(len(reference), ROWS, replace=False)))
        weights = np.ones(len(some)) if some.weights is None else some.weights.astype(np.float64)
        of = f"{len(some):,} of {len(reference):,}" if some is not reference else f"{len(some):,}"
        return cls(
            some.values.astype(np.float64),
            weights,
            model.scaling.apply(some),
            some.columns,
            f"{of} reference events: the mean of exp F in a bin is how many times as many events "
            "the models see there as the reference has",
        )

    @classmethod
    def on_centres(cls, model: LogRatio) -> Points:
        """Take the centres of a model, which are events of the reference spread far apart."""
        return cls(
            unscaled(model.scaling, model.centres),
            np.ones(len(model.centres)),
            model.centres,
            model.scaling.columns,
            f"the {len(model.centres):,} centres of the kernels, which are spread more evenly than "
            "the reference: rare regions count for more than they should. Give --reference for "
            "the ratio of densities",
        )


def unscaled(scaling: Scaling, features: Floats) -> Floats:
    """Turn features back into columns; a periodic one lies within half a period of 0.

    Examples
    --------
    >>> values = [[1.0, 0.5], [3.0, -2.0]]
    >>> sample = Sample.from_array(values, columns=["m", "phi"], periodic=["phi"])
    >>> scaling = Scaling.learn(sample)
    >>> unscaled(scaling, scaling.apply(sample)).round(9).tolist()
    [[1.0, 0.5], [3.0, -2.0]]
    """
    plain = dict(
        zip(scaling.feature_names, (features * scaling.scale + scaling.shift).T, strict=True)
    )
    return np.column_stack(
        [
            np.arctan2(plain[f"sin {name}"], plain[f"cos {name}"]) * scaling.per_radian(name)
            if name in scaling.periodic
            else plain[name]
            for name in scaling.columns
        ]
    )


def learnt_ratios(models: Sequence[LogRatio], points: Points) -> list[dict[str, Any]]:
    """Average e^F over the points in bins of each column.

    Parameters
    ----------
    models : of the last batches at one width, the latest last.
    points : where they are evaluated.

    Returns
    -------
    list of dict
        For each column ``column``, ``edges``, and the means by bin: ``now`` of the last model
        alone, ``window`` of all of them together.
    """
    both = [
        np.exp(np.minimum(aggregate.scaled(points.scaled), CAP))
        for aggregate in (_together(models[-1:]), _together(models))
    ]
    found = []
    for j, column in enumerate(points.columns):
        edges = _edges(points.values[:, j])
        bins = np.clip(np.searchsorted(edges, points.values[:, j], "right") - 1, 0, len(edges) - 2)
        weight = np.bincount(bins, points.weights, len(edges) - 1)
        now, window = (
            np.bincount(bins, points.weights * ratio, len(edges) - 1) / weight for ratio in both
        )
        found.append(
            {
                "column": column,
                "edges": _plain(edges),
                "now": _plain(now),
                "window": _plain(window),
            }
        )
    return found


def describe(
    kept: Sequence[tuple[int, dict[int, bytes]]], width: int, reference: Sample | None
) -> dict[str, Any]:
    """Make what the page shows below "where is it?".

    Parameters
    ----------
    kept : models of the last batches that have any, by number and width index.
    width : the index of the width to show.
    reference : the reference of the run, if it was given.
    """
    if not kept:
        return {"columns": [], "words": "This run keeps no models, so there is nothing to show."}
    models = [LogRatio.from_bytes(each[width]) for _, each in kept]
    last = models[-1]
    points = Points.on_centres(last)
    if reference is not None:
        points = Points.on_reference(reference, last)
    return {
        "columns": learnt_ratios(models, points),
        "now": kept[-1][0],
        "first": kept[0][0],
        "count": len(kept),
        "sigma": number(last.width, 3),
        "words": points.words,
    }


def _together(models: Sequence[LogRatio]) -> Aggregate:
    whole = Aggregate()
    for model in models:
        whole = whole.add(model)
    return whole


def _edges(values: Floats) -> Floats:
    """Give edges between which lie equally many points; a column of one value has one bin."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1), method="nearest"))
    if len(edges) == 1:
        edges = np.array([edges[0] - 0.5, edges[0] + 0.5])
    return edges


def _plain(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
