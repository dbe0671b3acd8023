"""Data against the reference: one column, and two columns together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from types import MappingProxyType
from typing import Any, Literal

import mplhep
import numpy as np
from hist import Hist
from hist import axis as hist_axis
from hist import storage as hist_storage
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy import stats
from uhi.typing.plottable import PlottableHistogram

from gofstream.errors import InputError
from gofstream.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY
from gofstream.report.record import Column, Pair, Record
from gofstream.report.style import ACROSS, look, minor_ticks, name_decades, plain

Floats = NDArray[np.float64]

#: The tail that an error bar leaves out on either side: one standard deviation.
TAIL = float(stats.norm.sf(1))
#: Counts that span more than this want a logarithmic axis.
DECADES = 100.0
#: Lines of histograms that are drawn on top.
OVERLAY = ((ORANGE, "--"), (BLUE, "--"), (ORANGE, ":"), (BLUE, ":"))
#: Highest ratio, and largest pull, that an axis makes room for.
HIGHEST_RATIO, LARGEST_PULL = 4.0, 8.0


def column_histogram(column: Column, which: Literal["data", "reference", "learnt"]) -> Hist[Any]:
    """Give one of the histograms of a column; only the reference has errors of its own."""
    # The name of an axis is a keyword in `hist`, so a user's text can only be its label.
    axis = hist_axis.Variable(column.edges, label=column.label)
    if which == "reference":
        histogram: Hist[Any] = Hist(axis, storage=hist_storage.Weight())
        variances = np.square(column.reference_error)
        histogram[...] = np.stack([column.reference, variances], axis=-1)
    else:
        histogram = Hist(axis, storage=hist_storage.Double())
        histogram[...] = np.asarray(column.data if which == "data" else column.learnt, dtype=float)
    return histogram


def poisson_errors(counts: Floats) -> Floats:
    """Give the central 68 % interval of Garwood, as lengths below and above the counts."""
    # No event: the interval begins at zero, and the law of shape zero that would say so is none.
    low = np.where(counts > 0, stats.gamma.ppf(TAIL, np.maximum(counts, 1)), 0)
    high = stats.gamma.isf(TAIL, counts + 1)
    return np.stack([counts - low, high - counts])


def column_figure(
    column: Column, overlay: Mapping[str, PlottableHistogram] = MappingProxyType({})
) -> Figure:
    """Draw events per bin, with histograms of others on top, and below the ratio to the reference.

    Raises
    ------
    InputError
        If a histogram on top has more than one axis.
    """
    with look():
        figure = Figure(figsize=(ACROSS, 3.7))
        # The same margins in every figure, so that columns beside each other line up.
        grid = {"left": 0.165, "right": 0.975, "bottom": 0.125, "top": 0.975, "hspace": 0.06}
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2.1, 1), gridspec_kw=grid)
        _draw_events(top, column, overlay)
        _draw_ratio(bottom, column)
        bottom.set_xlim(column.edges[0], column.edges[-1])
        bottom.set_xlabel(plain(column.label), parse_math=False)
        figure.align_ylabels((top, bottom))
    return figure


def _draw_events(axes: Axes, column: Column, overlay: Mapping[str, PlottableHistogram]) -> None:
    data, reference = np.asarray(column.data, dtype=float), np.asarray(column.reference)
    error = np.asarray(column.reference_error)
    mplhep.histplot(
        reference, column.edges, ax=axes, histtype="fill", color=SKY, alpha=0.45, label="reference"
    )
    axes.stairs(
        reference + error,
        column.edges,
        baseline=np.maximum(reference - error, 0),
        fill=True,
        color="0.35",
        alpha=0.35,
        lw=0,
        label="its uncertainty",
    )
    axes.stairs(column.learnt, column.edges, color=GREEN, lw=1.8, label="reference × exp F")
    highest = max(float(data.max()), float(reference.max()), *column.learnt, 1.0)
    for (name, histogram), (color, style) in zip(overlay.items(), cycle(OVERLAY), strict=False):
        if len(histogram.axes) != 1:
            raise InputError(
                f"the histogram {name!r} has {len(histogram.axes)} axes, but a column has one; "
                "project it"
            )
        only = histogram.axes[0]
        bins = np.asarray([only[k] for k in range(len(only))], dtype=float)
        edges = [*bins[:, 0], bins[-1, 1]]
        axes.stairs(histogram.values(), edges, lw=1.6, color=color, ls=style, label=plain(name))
        highest = max(highest, float(np.max(histogram.values())))
    _draw_points(axes, column, data, poisson_errors(data), data > 0, label="data")
    filled = reference[reference > 0]
    if len(filled) and highest > DECADES * filled.min():
        axes.set_yscale("log")
        name_decades(axes.yaxis)
        lowest = max(0.3, float(filled.min()) / 3) if highest > 3 else float(filled.min()) / 3
        # Room for the legend above the highest bin.
        axes.set_ylim(lowest, highest * (highest / lowest) ** 0.4)
    else:
        axes.set_ylim(0, 1.5 * highest)
    axes.set_ylabel("events per bin")
    legend = axes.legend(ncols=2, loc="upper right", columnspacing=1.2, borderaxespad=0.2)
    for text in legend.get_texts():
        text.set_parse_math(False)
    minor_ticks(axes)


def _draw_ratio(axes: Axes, column: Column) -> None:
    data, reference = np.asarray(column.data, dtype=float), np.asarray(column.reference)
    some = reference > 0
    scale = np.where(some, reference, np.nan)
    band = np.nan_to_num(np.asarray(column.reference_error) / scale)
    learnt, ratio = np.asarray(column.learnt) / scale, data / scale
    errors = poisson_errors(data) / scale
    # The few events of a tail say little with a large ratio: only what is known sets the scale.
    telling = some & (errors[1] < 0.5)
    reach = np.concatenate([np.abs(ratio - 1)[telling], np.abs(learnt - 1)[some], [0.15]])
    half = float(min(1.25 * reach.max(), HIGHEST_RATIO - 1))
    low, high = max(0.0, 1 - half), 1 + half
    axes.stairs(
        1 + band, column.edges, baseline=1 - band, fill=True, color="0.35", alpha=0.35, lw=0
    )
    axes.axhline(1, color="0.4", lw=0.8)
    axes.stairs(np.where(some, learnt, np.nan), column.edges, baseline=None, color=GREEN, lw=1.8)
    _draw_points(axes, column, ratio, errors, some & (ratio >= low) & (ratio <= high))
    centres = _centres(column)
    for beyond, marker, height in ((ratio > high, "^", 0.95), (ratio < low, "v", 0.05)):
        axes.plot(
            centres[beyond],
            np.full(int(beyond.sum()), low + height * (high - low)),
            marker=marker,
            ls="",
            ms=4,
            color=ORANGE,
        )
    axes.set_ylim(low, high)
    axes.set_ylabel("ratio")
    axes.yaxis.set_major_locator(MaxNLocator(4, prune="upper"))
    minor_ticks(axes)


def _draw_points(
    axes: Axes,
    column: Column,
    values: Floats,
    errors: Floats,
    shown: NDArray[np.bool_],
    label: str | None = None,
) -> None:
    axes.errorbar(
        _centres(column)[shown],
        values[shown],
        yerr=errors[:, shown],
        fmt="o",
        ms=2.6,
        lw=0.9,
        color=BLACK,
        label=label,
        zorder=4,
    )


def _centres(column: Column) -> Floats:
    edges = np.asarray(column.edges)
    return np.asarray(edges[1:] / 2 + edges[:-1] / 2)


def pair_figure(record: Record, view: Literal["data", "pull"]) -> Figure:
    """Draw two columns together: the data, or how far they are from the reference.

    The pull is (data - reference) / √reference: descriptive, since few events are not Gaussian.
    """
    pair = record.pair
    if pair is None:
        raise InputError("the result has one column only, so there is no pair to draw")
    with look():
        figure = Figure(figsize=(ACROSS, 3.3), layout="constrained")
        axes = figure.subplots()
        (_draw_data if view == "data" else _draw_pull)(axes, pair)
        for name, axis in ((pair.x, axes.xaxis), (pair.y, axes.yaxis)):
            axis.set_label_text(plain(record.column(name).label), parse_math=False)
        minor_ticks(axes)
    return figure


def _draw_data(axes: Axes, pair: Pair) -> None:
    counts = np.asarray(pair.data, dtype=float)
    shade = np.ma.masked_where(counts == 0, counts)
    highest = float(max(counts.max(), 2))
    norm = LogNorm(1, highest) if highest > DECADES else Normalize(0, highest)
    mesh = axes.pcolormesh(
        pair.x_edges, pair.y_edges, shade, cmap="YlGnBu", norm=norm, rasterized=True
    )
    bar = axes.figure.colorbar(mesh, ax=axes, label="events per cell")
    if highest > DECADES:
        name_decades(bar.ax.yaxis)


def _draw_pull(axes: Axes, pair: Pair) -> None:
    data, reference = np.asarray(pair.data, dtype=float), np.asarray(pair.reference)
    some = reference > 0
    pull = np.ma.masked_where(~some, data - reference) / np.sqrt(np.where(some, reference, 1))
    reach = float(np.clip(np.abs(pull).max() if some.any() else 0, 3, LARGEST_PULL))
    axes.set_facecolor("0.88")
    mesh = axes.pcolormesh(
        pair.x_edges,
        pair.y_edges,
        pull,
        cmap="RdBu_r",
        norm=TwoSlopeNorm(0, -reach, reach),
        rasterized=True,
    )
    unexpected = np.argwhere(~some & (data > 0))
    x, y = (np.asarray(e) for e in (pair.x_edges, pair.y_edges))
    axes.plot(
        (x[:-1] / 2 + x[1:] / 2)[unexpected[:, 1]],
        (y[:-1] / 2 + y[1:] / 2)[unexpected[:, 0]],
        marker="x",
        ls="",
        ms=3.5,
        color=ORANGE,
    )
    axes.figure.colorbar(mesh, ax=axes, label="(data − reference) / √reference", extend="both")
