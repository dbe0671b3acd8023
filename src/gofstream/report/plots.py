"""Pictures, in colours that survive colour-blindness."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mplhep
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gofstream.inference.null import NullTable
from gofstream.inference.power import Power
from gofstream.inference.result import TestResult
from gofstream.toys.scanning import SCAN

Floats = NDArray[np.float64]

# Okabe and Ito's palette.
BLACK, SKY, GREEN, ORANGE, BLUE = "#000000", "#56B4E9", "#009E73", "#D55E00", "#0072B2"
LIGHT_GREEN = "#7FCEB9"
SERIES = (BLUE, ORANGE, GREEN, "#CC79A7", BLACK, "#E69F00", SKY)


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """What the regularisation figure of the paper shows, for one column.

    Attributes
    ----------
    label : name of the column, with its unit.
    edges : (B+1,) bin edges.
    expected : (B,) events per bin the reference predicts for all data.
    observed : for each batch, (B,) events seen.
    shares : exposure shares of the batches.
    grid : (G,) points at which ratios are drawn.
    batch_ratios : for each batch, (G,) the learnt ratio e^f.
    aggregate_ratio : (G,) e^F.
    true_ratio : (G,) the ratio the data were drawn from, if known.
    """

    label: str
    edges: Floats
    expected: Floats
    observed: Sequence[Floats]
    shares: Floats
    grid: Floats
    batch_ratios: Sequence[Floats]
    aggregate_ratio: Floats
    true_ratio: Floats | None


def plot_reconstruction(content: Reconstruction, title: str) -> Figure:
    """Draw what each batch learnt, what the aggregate learnt, and the truth.

    Left, all data: events above, ratio to the reference below. Right, each batch by itself.
    """
    count = len(content.observed)
    rows = (count + 1) // 2
    figure = Figure(figsize=(13, 7.2), layout="constrained")
    halves = figure.add_gridspec(1, 2, width_ratios=(1.25, 1))
    left, right = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    figure.suptitle(title, fontsize=14)
    top, bottom = left.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    _draw_events(top, content)
    _draw_ratio(
        bottom, content, np.sum(content.observed, axis=0), content.expected, content.aggregate_ratio
    )
    for ratio in content.batch_ratios:
        bottom.plot(content.grid, ratio, color=LIGHT_GREEN, lw=0.8, zorder=1)
    bottom.set_ylabel("ratio to reference")
    bottom.set_xlabel(content.label)
    panels = right.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).ravel()
    for i, (panel, observed) in enumerate(zip(panels, content.observed, strict=False)):
        expected = content.expected * content.shares[i]
        _draw_ratio(panel, content, observed, expected, content.batch_ratios[i], LIGHT_GREEN)
        panel.set_title(f"batch {i + 1}", fontsize=10, loc="left", pad=3)
    for panel in panels[count:]:
        panel.set_visible(False)
    for panel in panels[max(0, count - 2) : count]:
        panel.set_xlabel(content.label)
    for panel in panels[:count:2]:
        panel.set_ylabel("ratio")
    return figure


def _draw_events(axes: Axes, content: Reconstruction) -> None:
    total = np.sum(content.observed, axis=0)
    mplhep.histplot(
        content.expected,
        content.edges,
        ax=axes,
        histtype="fill",
        color=SKY,
        alpha=0.45,
        label="reference",
    )
    mplhep.histplot(
        total, content.edges, ax=axes, histtype="errorbar", yerr=True, color=BLACK, label="data"
    )
    # The learnt ratios are continuous, the reference is binned: interpolate its logarithm.
    centres = (content.edges[1:] + content.edges[:-1]) / 2
    smooth = np.exp(np.interp(content.grid, centres, np.log(np.maximum(content.expected, 1e-3))))
    for i, ratio in enumerate(content.batch_ratios):
        label = "learnt by each batch" if i == 0 else None
        axes.plot(content.grid, smooth * ratio, color=LIGHT_GREEN, lw=0.8, label=label)
    axes.plot(
        content.grid, smooth * content.aggregate_ratio, color=GREEN, lw=2.2, label="aggregate"
    )
    if content.true_ratio is not None:
        axes.plot(
            content.grid, smooth * content.true_ratio, color=ORANGE, lw=1.8, ls="--", label="truth"
        )
    axes.set_yscale("log")
    axes.set_ylim(0.5, 3 * float(content.expected.max()))
    axes.set_ylabel("events per bin")
    axes.legend(frameon=False)


def _draw_ratio(
    axes: Axes,
    content: Reconstruction,
    observed: Floats,
    expected: Floats,
    learnt: Floats,
    color: str = GREEN,
) -> None:
    centres = (content.edges[1:] + content.edges[:-1]) / 2
    seen = (expected > 0) & (observed > 0)
    axes.errorbar(
        centres[seen],
        observed[seen] / expected[seen],
        yerr=np.sqrt(observed[seen]) / expected[seen],
        fmt=".",
        ms=3,
        lw=0.8,
        color=BLACK,
        zorder=2,
    )
    axes.axhline(1, color=SKY, lw=1)
    axes.plot(content.grid, learnt, color=color, lw=2, zorder=3)
    if content.true_ratio is not None:
        axes.plot(content.grid, content.true_ratio, color=ORANGE, lw=1.5, ls="--", zorder=4)
    axes.set_xlim(content.edges[0], content.edges[-1])
    highest = max(content.aggregate_ratio.max(), 1.0)
    if content.true_ratio is not None:
        highest = max(highest, content.true_ratio.max())
    axes.set_ylim(0, float(np.clip(1.15 * highest, 2.1, 8)))


def plot_power(
    curves: Mapping[str, Sequence[Power]],
    x: Sequence[float],
    x_label: str,
    title: str,
    *,
    log: bool = False,
    diagonal: bool = False,
) -> Figure:
    """Draw power with its 95 % intervals, one curve for each name, against anything.

    Parameters
    ----------
    curves : at each x, a power; names become the legend.
    x, x_label : a level, a signal fraction, a number of batches.
    log : logarithmic x axis.
    diagonal : also draw power = x, what a test that sees nothing would reach at level x.
    """
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    if diagonal:
        axes.plot(x, x, color="0.6", lw=1, ls=":", label="no power")
    draw_powers(axes, curves, x)
    if log:
        axes.set_xscale("log")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(x_label)
    axes.set_ylabel("power (bands: 95 % interval)")
    axes.set_title(title, fontsize=11)
    axes.legend(fontsize=9)
    return figure


def draw_powers(axes: Axes, curves: Mapping[str, Sequence[Power]], x: Sequence[float]) -> None:
    """Draw curves of power with their 95 % intervals into one panel."""
    for (name, curve), colour, marker in zip(
        curves.items(), itertools.cycle(SERIES), itertools.cycle("os^Dv*XPh"), strict=False
    ):
        axes.plot(x, [point.value for point in curve], color=colour, marker=marker, label=name)
        axes.fill_between(
            x,
            [point.low for point in curve],
            [point.high for point in curve],
            color=colour,
            alpha=0.15,
            lw=0,
        )


def plot_null(table: NullTable, result: TestResult, title: str) -> Figure:
    """Draw the null distribution of every statistic at every width, with the observed value."""
    names, widths = list(result.shown), result.widths
    figure = Figure(
        figsize=(2.5 * len(widths) + 0.8, 1.55 * len(names) + 0.9), layout="constrained"
    )
    panels = figure.subplots(len(names), len(widths), squeeze=False)
    figure.suptitle(f"{title}\nblue: {result.toys} toys; line: observed, with its p-value")
    for row, name in zip(panels, names, strict=True):
        toys, found = table.statistic(name), result.statistics[name]
        for axes in row[toys.shape[1] :]:  # the scan has no width
            axes.set_axis_off()
        for k, axes in enumerate(row[: toys.shape[1]]):
            axes.hist(toys[:, k], bins=20, color=SKY)
            axes.axvline(found.t[k], color=ORANGE, lw=2)
            ends = [min(toys[:, k].min(), found.t[k]), max(toys[:, k].max(), found.t[k])]
            pad = 0.04 * max(ends[1] - ends[0], 1e-9)
            axes.set_xlim(ends[0] - pad, ends[1] + pad)
            axes.set_title(f"p = {found.p[k].p:.2g}", fontsize=9, loc="right", pad=2)
            axes.set_yticks([])
            axes.tick_params(labelsize=8)
        row[0].set_ylabel(name, fontsize=11)
    with_widths = [row for row, name in zip(panels, names, strict=True) if name != SCAN]
    for axes, width in zip(with_widths[-1], widths, strict=True):
        axes.set_xlabel(f"t at σ = {width:.3g}")
    if names[-1] == SCAN:
        panels[-1, 0].set_xlabel("t")
    return figure
