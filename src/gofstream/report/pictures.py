"""Pictures of what the strategies say: Z and p, the toys behind them, and what each has to keep."""

from __future__ import annotations

import math

import mplhep
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from scipy import stats

from gofstream.errors import InputError, nearest_names
from gofstream.inference.pvalues import z_score
from gofstream.report.plots import BLACK, BLUE, ORANGE, SERIES, SKY
from gofstream.report.record import Chance, Null, Record
from gofstream.report.style import ACROSS, look, name_decades, plain
from gofstream.report.words import p_text, size
from gofstream.toys.scanning import SCAN

MARKERS = "os^Dv<>pXhP*"
#: Where a p-value of one stands, which has no Z.
LOWEST = -3.0
#: Panels beside each other in a null figure.
PANELS = 2


def p_figure(record: Record) -> Figure:
    """Draw Z, and p above it, of every strategy: at each width, and over all of them.

    An open marker is a p that no toy reaches: the least that so many toys show. Widths of one
    strategy stand below each other, so that equal values do not hide each other.
    """
    rows: dict[str, tuple[tuple[Chance, ...], Chance]] = {
        name: ((), together) for name, together in record.verdicts.items()
    }
    for name, found in record.statistics.items():
        rows[name] = (() if name == SCAN else found.p, found.combined)
    names, lines = list(rows), len(record.widths) + 1
    with look():
        figure = Figure(figsize=(ACROSS, 1.5 + (0.22 + 0.075 * lines) * len(names)))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for row, (each, together) in enumerate(rows.values()):
            if row % 2:
                axes.axhspan(row - 0.5, row + 0.5, color="0.955", lw=0, zorder=0)
            for k, chance in enumerate(each):
                _mark(axes, chance, row + 0.72 * ((k + 0.5) / lines - 0.5), k)
            _mark(axes, together, row + (0.36 - 0.36 / lines if each else 0.0), None)
        axes.axvline(0, color="0.75", lw=0.8, zorder=1)
        if record.level is not None:
            axes.axvline(float(z_score(record.level)), color=BLACK, lw=1, ls="--", zorder=1)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [plain(name) for name in names], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("Z (standard deviations)")
        axes.margins(x=0.08)
        _p_axis(axes)
        figure.legend(
            handles=_p_handles(record), loc="outside lower center", ncols=2, columnspacing=1.2
        )
    return figure


def _mark(axes: Axes, chance: Chance, height: float, width: int | None) -> None:
    """Draw one p-value; ``width`` counts, and None stands for all together."""
    colour, marker, large = (BLACK, "d", 8) if width is None else (*_series(width), 5)
    axes.plot(
        [LOWEST if chance.z is None else chance.z],
        [height],
        marker=marker,
        ms=large,
        color=colour,
        mfc="white" if chance.hits == 0 else colour,
        mew=1.2,
        zorder=3,
    )


def _series(width: int) -> tuple[str, str]:
    # Black is for all widths together.
    colours = [colour for colour in SERIES if colour != BLACK]
    return colours[width % len(colours)], MARKERS[width % len(MARKERS)]


def _p_axis(axes: Axes) -> None:
    """Write p above Z, at few places."""
    low, high = axes.get_xlim()
    places = [z for z in MaxNLocator(3, integer=True).tick_values(low, high) if low <= z <= high]
    p = np.asarray(stats.norm.sf(places))
    upper = axes.secondary_xaxis("top")
    upper.xaxis.set_major_locator(FixedLocator([z for z, x in zip(places, p, strict=True) if x]))
    upper.xaxis.set_major_formatter(FixedFormatter([p_text(float(x)) for x in p if x]))
    upper.tick_params(labelsize=8)
    upper.set_xlabel("p", labelpad=5)
    axes.tick_params(axis="x", top=False)


def _p_handles(record: Record) -> list[Line2D]:
    handles = []
    for k, width in enumerate(record.widths):
        colour, marker = _series(k)
        label = f"σ = {width.width:.3g}"
        handles.append(Line2D([], [], color=colour, marker=marker, ms=5, ls="", label=label))
    handles.append(Line2D([], [], color=BLACK, marker="d", ms=8, ls="", label="all widths"))
    chances = [c for found in record.statistics.values() for c in (*found.p, found.combined)]
    if any(chance.hits == 0 for chance in chances):
        label = "open: no toy as extreme"
        handles.append(Line2D([], [], color=BLACK, marker="o", mfc="white", ls="", label=label))
    if any(chance.z is None for chance in chances):
        handles.append(Line2D([], [], ls="", label=f"p = 1 drawn at {LOWEST:.0f}"))
    if record.level is not None:
        handles.append(Line2D([], [], color=BLACK, lw=1, ls="--", label="the level set"))
    return handles


def null_figure(record: Record, strategy: str) -> Figure:
    """Draw the toys of one strategy at every width, with the observed value as a line."""
    if strategy not in record.statistics:
        known = nearest_names(strategy, record.statistics)
        raise InputError(f"the result has no strategy {strategy!r}; {known}")
    found = record.statistics[strategy]
    columns = min(PANELS, len(found.null))
    rows = math.ceil(len(found.null) / PANELS)
    with look():
        # Margins in inches, the same in every figure: panels of one width stand below each other.
        height = 0.85 + 1.45 * rows
        figure = Figure(figsize=(ACROSS, height))
        grid = {"left": 0.14, "right": 0.955, "bottom": 0.5 / height, "top": 1 - 0.42 / height}
        panels = figure.subplots(
            rows, columns, squeeze=False, gridspec_kw={**grid, "wspace": 0.3, "hspace": 0.62}
        ).ravel()
        for axes, null, chance, width in zip(
            panels, found.null, found.p, record.widths, strict=False
        ):
            _draw_null(axes, null)
            at = "" if strategy == SCAN else f"σ = {width.width:.3g}\n"
            axes.set_title(f"{at}p = {p_text(chance.p)}", fontsize=9, pad=4)
        for axes in panels[len(found.null) :]:
            axes.set_axis_off()
        figure.supxlabel("test statistic t", fontsize=10, y=0.08 / height)
        figure.supylabel("toys", fontsize=10, x=0.01)
    return figure


def _draw_null(axes: Axes, null: Null) -> None:
    mplhep.histplot(null.counts, null.edges, ax=axes, histtype="fill", color=SKY)
    axes.axvline(null.t, color=ORANGE, lw=2)
    low, high = min(null.edges[0], null.t), max(null.edges[-1], null.t)
    pad = 0.06 * (high - low)
    axes.set_xlim(low - pad, high + pad)
    axes.set_ylim(0, 1.12 * max(*null.counts, 1))
    for axis, parts in ((axes.xaxis, 3), (axes.yaxis, 3)):
        axis.set_major_locator(MaxNLocator(parts, integer=axis is axes.yaxis))


def storage_figure(record: Record) -> Figure:
    """Draw the bytes that each strategy has to keep."""
    names, kept = list(record.storage), list(record.storage.values())
    with look():
        figure = Figure(figsize=(ACROSS, 0.9 + 0.34 * len(names)), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        name_decades(axes.xaxis)
        top = max(*kept, 10)
        low = 10 ** math.floor(math.log10(min((n for n in kept if n), default=1))) / 2
        lengths = [max(count - low, 0) for count in kept]
        axes.barh(range(len(names)), lengths, left=low, color=BLUE, height=0.6)
        # Room on the right for the number behind the longest bar.
        axes.set_xlim(low, top * (top / low) ** 0.28)
        for row, count in enumerate(kept):
            axes.annotate(
                size(count),
                (max(count, low), row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [plain(name) for name in names], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("kept (bytes)")
    return figure
