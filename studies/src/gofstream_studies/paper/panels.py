"""Panels of power curves, as the paper draws them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from scipy import stats

from gofstream.inference.power import power
from gofstream.report.plots import SERIES, SKY

Floats = NDArray[np.float64]
#: The p-values of signal toys, by what the legend calls the test.
Curves = Mapping[str, Floats]

#: Panels side by side, at most.
ACROSS = 5
LEVELS = np.geomspace(1e-3, 1.0, 40)
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)))


def power_panels(
    rows: Sequence[tuple[str, Sequence[tuple[str, Curves]]]], title: str, least: float
) -> Figure:
    """Draw rows of panels, each with power against the level for several tests; long rows fold.

    Parameters
    ----------
    rows : the name of each row, with the title and curves of each panel.
    least : the smallest level that the toys of the null resolve; curves end there.
    """
    rows = [
        (name, panels[first : first + ACROSS])
        for name, panels in rows
        for first in range(0, len(panels), ACROSS)
    ]
    columns = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(2.0 + 2.5 * columns, 1.5 + 2.5 * len(rows)), layout="constrained")
    figure.suptitle(title, fontsize=12)
    grid = figure.subplots(len(rows), columns, sharex=True, sharey=True, squeeze=False)
    for line, (name, panels) in zip(grid, rows, strict=True):
        for axes, (heading, curves) in zip(line, panels, strict=False):
            draw_power(axes, curves, least)
            axes.set_title(heading, fontsize=9)
        for axes in line[len(panels) :]:
            axes.set_visible(False)
        line[0].set_ylabel(f"{name}\npower" if name else "power")
    for column in grid.T:
        lowest = [axes for axes in column if axes.get_visible()][-1]
        lowest.set_xlabel("level α")
        lowest.tick_params(labelbottom=True)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9, frameon=False)
    return figure


def draw_power(axes: Axes, curves: Curves, least: float) -> None:
    """Draw power against the level, with a band for its 95 % interval."""
    levels = LEVELS[least <= LEVELS]
    axes.plot(LEVELS, LEVELS, color="0.6", lw=1, ls=":", label="no power")
    for (name, p), colour, style in zip(
        curves.items(), itertools.cycle(SERIES), itertools.cycle(STYLES), strict=False
    ):
        found = [power(p, level) for level in levels]
        axes.plot(levels, [x.value for x in found], color=colour, ls=style, lw=1.6, label=name)
        axes.fill_between(
            levels, [x.low for x in found], [x.high for x in found], color=colour, alpha=0.12, lw=0
        )
    for sigma in (1, 2, 3):
        axes.axvline(float(stats.norm.sf(sigma)), color="0.85", lw=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(max(LEVELS[0], least / 2), 1)
    axes.set_ylim(0, 1.02)
    axes.tick_params(labelsize=8)


def draw_marginals(
    axes: Axes,
    samples: Mapping[str, Floats],
    edges: Floats,
    label: str,
    *,
    log_x: bool = False,
    log_y: bool = True,
) -> None:
    """Draw the shape of one column in several samples; the first is filled."""
    for i, (name, values) in enumerate(samples.items()):
        counts, _ = np.histogram(values, edges)
        shape = counts / max(1, len(values))
        style = STYLES[(i - 1) % len(STYLES)]
        if i == 0:
            axes.stairs(shape, edges, fill=True, color=SKY, alpha=0.4, label=name)
        else:
            axes.stairs(shape, edges, color=SERIES[i - 1], ls=style, lw=1.4, label=name)
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if log_x:
        axes.set_xscale("log")
        ticks = [x for x in (20, 50, 100, 200, 500, 1000) if edges[0] <= x <= edges[-1]]
        axes.set_xticks(ticks, [str(x) for x in ticks])
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.set_ylabel("share of events per bin", fontsize=8)
    axes.tick_params(labelsize=8)
