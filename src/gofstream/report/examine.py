"""From a test's result to its record: the verdict, and where data and reference differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import ROWS_PER_EVENT, match_columns
from gofstream.errors import ColumnError, nearest_names
from gofstream.inference.pvalues import PValue
from gofstream.inference.result import TestResult
from gofstream.ondisk import OnDisk
from gofstream.report.record import (
    Chance,
    Null,
    Pair,
    Place,
    Provenance,
    Rate,
    Record,
    Region,
    Statistic,
    Width,
    Window,
)
from gofstream.report.views import column_view, pair_view
from gofstream.report.where import Side, most_anomalous, regions
from gofstream.sample import Sample

Table = Mapping[str, NDArray[Any]]

#: Bins of a null distribution.
BINS = 40
#: Events of a reference on disk that are looked at, at least.
SHOWN = 200_000


def examine(
    result: TestResult,
    data: Sample,
    reference: Sample,
    *,
    title: str = "gofstream",
    carried: tuple[Table, Table] = ({}, {}),
    units: Mapping[str, str] | None = None,
    level: float | None = None,
    provenance: Provenance | None = None,
) -> Record:
    """Put together every number that a report shows.

    Parameters
    ----------
    result : of the test of these data against this reference.
    data : the events of all batches together.
    carried : columns of data and of reference that were not fitted, to be shown beside the others.
    units : of columns, where the reference does not say.
    level : p-value at or below which the data are called anomalous.

    Raises
    ------
    ColumnError
        If the reference lacks a carried column, or units are given for a column that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream import nplm_test
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.normal(size=(1000, 2)), ["a", "b"])
    >>> data = Sample.from_array(rng.normal(size=(200, 2)), ["a", "b"])
    >>> record = examine(nplm_test(data, reference, n_resamples=19, rng=1), data, reference)
    >>> record.observed, len(record.columns)
    (200, 2)
    """
    data = match_columns(data, reference)
    aggregate = result.aggregate
    beside, beside_reference = carried
    caveats = result.caveats
    if isinstance(reference.values, OnDisk):
        rows = _shown(len(reference), len(data))
        caveats += (f"pictures and regions: {len(rows)} of {len(reference)} reference events",)
        reference = reference.take(rows)
        beside_reference = {name: column[rows] for name, column in beside_reference.items()}
    for name in beside:
        if name not in beside_reference:
            raise ColumnError(
                f"the reference has no column {name!r} to show beside that of the data; "
                f"{nearest_names(name, beside_reference)}"
            )
    seen = Side(_table(data) | dict(beside), np.ones(len(data)), aggregate(data))
    known = Side(
        _table(reference) | {name: beside_reference[name] for name in beside},
        reference.share * result.expected,
        aggregate(reference),
    )
    units = {**reference.units, **(units or {})}
    check_units(units, seen.table)
    found = regions(seen, known, units, reference.periodic)
    return Record(
        title=title,
        pvalue=result.pvalue,
        zscore=float(result.zscore) if result.pvalue < 1 else None,
        low=result.interval[0],
        high=result.interval[1],
        level=level,
        rule=result.rule,
        toys=result.toys,
        source=result.source,
        expected=result.expected,
        observed=result.observed,
        batches=result.batches,
        shape_only=result.shape_only,
        rate=None
        if result.rate is None
        else Rate(expected=result.rate.expected, observed=result.rate.observed, p=result.rate.p),
        caveats=caveats,
        verdicts={" + ".join(names): _chance(p) for names, p in result.verdicts.items()},
        statistics={name: _statistic(result, name) for name in result.shown},
        windows=tuple(_windows(result, units)),
        evidence=result.evidence,
        widths=tuple(_widths(result)),
        shown=result.widths[result.strongest],
        columns=tuple(
            column_view(name, units.get(name, ""), name in data.columns, seen, known)
            for name in seen.table
        ),
        pair=_pair(found, seen, known),
        regions=found,
        events=most_anomalous(seen),
        storage=_storage(result, data),
        provenance=provenance,
    )


def check_units(units: Iterable[str], shown: Iterable[str]) -> None:
    """Refuse units of columns that are not shown."""
    known = list(shown)
    for name in units:
        if name not in known:
            raise ColumnError(
                f"a unit is given for {name!r}, but no such column is shown; "
                f"{nearest_names(name, known)}"
            )


def _shown(n_reference: int, n_data: int) -> NDArray[np.int64]:
    """Draw as many rows of a reference on disk as pictures of so many data need."""
    count = min(n_reference, max(SHOWN, ROWS_PER_EVENT * n_data))
    return np.sort(np.random.default_rng(0).choice(n_reference, count, replace=False))


def _table(sample: Sample) -> dict[str, NDArray[Any]]:
    return {name: sample.values[:, j] for j, name in enumerate(sample.columns)}


def _pair(found: tuple[Region, ...], seen: Side, known: Side) -> Pair | None:
    """Show the two columns that set the region apart most."""
    if len(seen.table) < 2:
        return None
    ranked = [each.column for each in found[0].ranges] if found else []
    x, y = [*ranked, *(name for name in seen.table if name not in ranked)][:2]
    return pair_view(x, y, seen, known)


def _statistic(result: TestResult, name: str) -> Statistic:
    found, toys = result.statistics[name], result.null.statistic(name)
    nulls = []
    for k, t in enumerate(found.t):
        counts, edges = np.histogram(toys[:, k], BINS)
        nulls.append(Null(t=t, edges=tuple(edges.tolist()), counts=tuple(counts.tolist())))
    return Statistic(
        p=tuple(map(_chance, found.p)), combined=_chance(found.combined), null=tuple(nulls)
    )


def _windows(result: TestResult, units: Mapping[str, str]) -> Iterator[Window]:
    for found in result.windows:
        content = asdict(found)
        content["places"] = tuple(
            Place(**place, unit=units.get(place["column"], "")) for place in content["places"]
        )
        yield Window(**content)


def _chance(p: PValue) -> Chance:
    return Chance(
        p=p.p,
        z=p.z if np.isfinite(p.z) else None,
        low=p.low,
        high=p.high,
        hits=p.hits,
        law_p=p.law_p,
    )


def _widths(result: TestResult) -> list[Width]:
    return [
        Width(
            width=width,
            centres=len(found.models[0].centres),
            passes=tuple(found.passes.tolist()),
            converged=tuple(model.converged for model in found.models),
            uncovered=tuple(found.uncovered.tolist()),
        )
        for width, found in zip(result.widths, result.learnt, strict=True)
    ]


def _storage(result: TestResult, data: Sample) -> dict[str, int]:
    """Bytes to be kept until the test: models, and the data that it looks at again."""
    models = sum(len(model.to_bytes()) for found in result.learnt for model in found.models)
    row = data.values.itemsize * data.values.shape[1]
    kept = {
        "single": row * result.batches[0],
        "sum": row * max(result.batches),
        "all": models + row * len(data),
        "one": models + row * result.batches[0],
        "sat": models,
        "next": models,
        "scan": len(result.scanned.summary.to_bytes()),
    }
    return {name: kept[name] for name in result.shown}
