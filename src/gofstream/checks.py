"""Checks of a reference, and of data against it.

Together with the gate in `gofstream.sample` these are all checks of outside data.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gofstream.errors import (
    ColumnError,
    EmptyError,
    GofstreamWarning,
    InputError,
    WeightError,
    nearest_names,
)
from gofstream.ondisk import OnDisk
from gofstream.sample import Events, Sample, build, pieces, refuse_no_events
from gofstream.tables import columns_of

# Below this many reference rows per data row the noise of the reference is felt in t.
ROWS_PER_EVENT = 5
#: What columns of event weights are called: weight, mcWeight, event_wgt, w.
WEIGHT_NAME = re.compile(r"weight|(^|[\W\d_])(wgts?|wts?)($|[\W\d_])|^w\d*$", re.IGNORECASE)
# 2π is a smaller part of 360.
LEAST_SPAN = 1 / 50


def check_reference(reference: Sample) -> None:
    """Refuse a reference too small to learn from, and warn of columns that look wrong.

    Parameters
    ----------
    reference
        The sample of the nominal model.

    Raises
    ------
    EmptyError
        If fewer than two rows have a weight above zero.

    Warns
    -----
    GofstreamWarning
        Once for each constant column, and for each periodic one whose values span less than a
        fiftieth of its period: radians given as degrees span less.

    Examples
    --------
    >>> check_reference(Sample.from_array([0.3, 1.2, 0.7], name="reference"))
    """
    weights = reference.weights
    rows = len(reference) if weights is None else int(np.count_nonzero(weights))
    if rows < 2:
        found = "no rows" if rows == 0 else "only one row"
        counted = "" if rows == len(reference) else " with a weight above zero"
        raise EmptyError(
            f"sample {reference.name!r} has {found}{counted}; a reference needs at least two, and "
            f"{ROWS_PER_EVENT} times as many as the data to be of use"
        )
    extremes = _extremes(reference)
    for column, (low, high) in extremes.items():
        period = reference.periodic.get(column)
        if period and low < high and high - low < period * LEAST_SPAN:
            warnings.warn(
                f"sample {reference.name!r}, column {column!r}: its values, from {low:.4g} to "
                f"{high:.4g}, span less than a fiftieth of its period {period:.6g}; if they are "
                f"radians, write --periodic {column} or periodic=[{column!r}]",
                GofstreamWarning,
                stacklevel=2,
            )
        if low != high:
            continue
        warnings.warn(
            f"sample {reference.name!r}, column {column!r}: every reference event has the same "
            "value, so the column is kept unscaled; drop it if it carries no information",
            GofstreamWarning,
            stacklevel=2,
        )


def warn_of_weights(reference: Sample) -> None:
    """Warn of columns that are called like event weights, since they are about to be tested.

    Examples
    --------
    >>> warn_of_weights(Sample.from_array([[0.3, 1.0], [1.2, 1.1]], ["pt", "eta"]))
    """
    for column in reference.columns:
        if WEIGHT_NAME.search(column):
            warnings.warn(
                f"sample {reference.name!r}, column {column!r}: is called like a weight, but "
                "is tested like the others; if it is one, give it as the weight (--weight "
                f"{column}, or weights=... of a Sample), else leave it out or rename it",
                GofstreamWarning,
                stacklevel=2,
            )


def check_data(batches: Sequence[Events], reference: Sample) -> list[Sample]:
    """Make batches ready to be compared with a reference.

    Parameters
    ----------
    batches
        The data: samples, arrays or tables. Single batches may be empty, but not all of them.
    reference
        The sample of the nominal model.

    Returns
    -------
    list of Sample
        The batches, each with the columns of the reference in the order of the reference.

    Raises
    ------
    EmptyError
        If there is no event at all.
    WeightError
        If a batch carries weights.
    ColumnError
        If a batch lacks a column of the reference, or gives it in another unit.

    Warns
    -----
    GofstreamWarning
        If the reference is small beside the data, or if data vary where the reference does not.

    Examples
    --------
    >>> reference = Sample.from_columns({"a": np.arange(10.0), "b": np.arange(10.0)})
    >>> batch = Sample.from_columns({"b": [2.0], "a": [1.0]}, name="batch 1")
    >>> check_data([batch], reference)[0].values.tolist()
    [[1.0, 2.0]]
    """
    matched = match_batches(batches, reference)
    events = sum(map(len, matched))
    if events == 0:
        raise EmptyError(
            f"the data have no rows ({len(batches)} batches, none with an event); give at least "
            "one batch that is not empty, and check any selection made before"
        )
    for batch in matched:
        if batch.weights is not None:
            raise WeightError(
                f"sample {batch.name!r}: data cannot carry event weights, since each observed "
                "event counts once; drop the weights, or draw events in proportion to them to "
                "make an unweighted data set from a simulated one"
            )
    rows, effective = len(reference), reference.effective_size
    if round(effective, 6) < ROWS_PER_EVENT * events:
        weighted = "" if reference.weights is None else f", by their weights worth {effective:.0f},"
        needed = math.ceil(round(ROWS_PER_EVENT * events * rows / effective, 6))
        warnings.warn(
            f"sample {reference.name!r} has {rows} rows{weighted} for {events} data events, fewer "
            f"than {ROWS_PER_EVENT} for each: its own fluctuations will show in the test; use a "
            f"reference of at least {needed} rows",
            GofstreamWarning,
            stacklevel=2,
        )
    for column, value in constant_values(reference).items():
        for batch in matched:
            _warn_if_varied(batch, column, value)
    return matched


def match_events(events: Events, reference: Sample, name: str) -> Sample:
    """Make a sample with the columns of the reference, in its order, of whatever holds events.

    Parameters
    ----------
    events
        A sample; a table, whose columns are matched by name; or an array, whose columns have no
        names and are those of the reference.
    reference
        The sample to follow.
    name
        What messages call the events, unless they are a sample.

    Raises
    ------
    ColumnError
        If a column is missing, or an array has another number of columns.

    Examples
    --------
    >>> reference = Sample.from_columns({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    >>> match_events({"b": [7.0], "c": [8.0], "a": [9.0]}, reference, "data").values.tolist()
    [[9.0, 7.0]]
    """
    if isinstance(events, Sample):
        return match_columns(events, reference)
    refuse_no_events(events, name)
    table = columns_of(events, f"sample {name!r}")
    if table is not None:
        _refuse_missing(name, list(table), reference)
        events = {column: table[column] for column in reference.columns}
    periodic = reference.periodic
    return Sample.from_array(events, reference.columns, periodic=periodic, name=name)


def match_batches(batches: Sequence[Events], reference: Sample) -> list[Sample]:
    """Make samples of batches, whatever holds their events, and match their columns by name.

    Raises
    ------
    InputError
        If there is no list of batches.
    ColumnError
        If a batch lacks a column of the reference.
    """
    if isinstance(batches, Sample | str) or not isinstance(batches, Sequence):
        kind = type(batches).__name__
        raise InputError(f"batches is of type {kind}; give a list of batches")
    return [match_events(batch, reference, f"batch {i + 1}") for i, batch in enumerate(batches)]


def match_columns(data: Sample, reference: Sample) -> Sample:
    """Give data the columns of the reference, in its order.

    Columns that the reference does not have are left out. Which columns are periodic is for the
    reference to say.

    Parameters
    ----------
    data, reference
        The sample to reorder, and the one to follow.

    Returns
    -------
    Sample
        `data` itself if there was nothing to change.

    Raises
    ------
    ColumnError
        If a column is missing, or has different units or periods in the two samples.
    """
    _refuse_missing(data.name, data.columns, reference)
    for column in reference.columns:
        here, there = data.units.get(column), reference.units.get(column)
        if here is not None and there is not None and here != there:
            raise ColumnError(
                f"sample {data.name!r}, column {column!r} is in {here!r}, but in {there!r} in "
                f"sample {reference.name!r}; convert one of them"
            )
        period, wanted = data.periodic.get(column), reference.periodic.get(column)
        if period is not None and wanted is not None and period != wanted:
            raise ColumnError(
                f"sample {data.name!r}, column {column!r} has the period {period:.6g}, but "
                f"{wanted:.6g} in sample {reference.name!r}; convert one of them"
            )
    if (data.columns, data.periodic) == (reference.columns, reference.periodic):
        return data
    order = [data.columns.index(column) for column in reference.columns]
    units = {column: unit for column, unit in data.units.items() if column in reference.columns}
    values: Any = data.values
    values = values.in_order(order) if isinstance(values, OnDisk) else values[:, order]
    return build(
        values,
        reference.columns,
        data.weights,
        units,
        reference.periodic,
        data.name,
        copy=False,
        known=reference.periodic.keys() <= data.periodic.keys(),  # else they may not fit a period
    )


def _refuse_missing(name: str, columns: Sequence[str], reference: Sample) -> None:
    """Refuse events that lack a column of the reference."""
    missing = [column for column in reference.columns if column not in columns]
    if missing:
        hints = "; ".join(f"{c!r} ({nearest_names(c, columns)})" for c in missing)
        raise ColumnError(
            f"sample {name!r} lacks columns of sample {reference.name!r}: {hints}; rename or "
            "add them, or leave them out of the reference"
        )


def constant_values(reference: Sample) -> dict[str, np.floating[Any]]:
    """Give the columns in which all events that count have one value, and these values.

    Parameters
    ----------
    reference
        The sample to look at; rows of weight zero are passed over.

    Examples
    --------
    >>> list(constant_values(Sample.from_columns({"a": [1, 2], "b": [3, 3]})))
    ['b']
    """
    return {c: low for c, (low, high) in _extremes(reference).items() if low == high}


def _extremes(reference: Sample) -> dict[str, tuple[np.floating[Any], np.floating[Any]]]:
    """Give the smallest and the largest value of each column, of the events that count."""
    low: Any = None
    for piece in counted_pieces(reference):
        values = piece.values
        if low is None:
            low = high = values[0]
        low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
    if low is None:
        return {}
    return {c: (low[j], high[j]) for j, c in enumerate(reference.columns)}


def counted_pieces(sample: Sample) -> Iterator[Sample]:
    """Give the rows of weight above zero, in order and in memory, some at a time."""
    for part in pieces(len(sample)):
        if sample.weights is None or sample.weights[part].min() > 0:
            yield sample.take(part)
        elif len(rows := part.start + np.flatnonzero(sample.weights[part])):
            yield sample.take(rows)


def _warn_if_varied(batch: Sample, column: str, value: np.floating[Any]) -> None:
    """Report data that differ from the only value the reference has in a column."""
    j = batch.columns.index(column)
    # The coarser precision decides: 0.1 read as float32 is not 0.1 read as float64.
    coarse = min(batch.values.dtype, value.dtype, key=lambda dtype: dtype.itemsize)
    different = np.flatnonzero(batch.values[:, j].astype(coarse) != value.astype(coarse))
    if len(different):
        warnings.warn(
            f"sample {batch.name!r}, column {column!r}: {len(different)} of {len(batch)} events "
            f"differ from {value}, the only value in the reference, first at row {different[0]}; "
            "the reference cannot describe them, so check how they were made",
            GofstreamWarning,
            stacklevel=3,
        )
