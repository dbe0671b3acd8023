"""p-values of null data sets, drawn: they should be uniform. Looks at streams, and their alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gofstream.inference.combine import combined_p
from gofstream.report.plots import SERIES
from gofstream_studies.validation.alarms import Alarms
from gofstream_studies.validation.checks import Table, columns_in

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """p-values of every data set, by statistic, and the toys of the table they all share."""

    p: Mapping[str, Floats]
    toys: float

    @classmethod
    def of(cls, table: Table, data: Table) -> Case:
        """Combine the widths by the smallest p."""
        p = {
            name: np.array(
                [combined_p(t, table[name], columns=columns_in(table, name)) for t in seen]
            )
            for name, seen in data.items()
        }
        return cls(p, len(table["all"]))


def draw(seeds: Mapping[int, Mapping[str, Case]]) -> Figure:
    """Draw, for every seed and case, the share of data sets with p ≤ α, over α."""
    cases = list(next(iter(seeds.values())))
    figure = Figure(figsize=(4.2 * len(cases) + 0.6, 3.3 * len(seeds) + 0.8), layout="constrained")
    panels = figure.subplots(len(seeds), len(cases), squeeze=False, sharex=True, sharey=True)
    alpha = np.geomspace(0.005, 1, 200)
    for row, (seed, curves) in zip(panels, seeds.items(), strict=True):
        for axes, case in zip(row, cases, strict=True):
            for colour, (name, p) in zip(cycle(SERIES), curves[case].p.items(), strict=False):
                style = "--" if " + " in name else "-"
                share = np.searchsorted(np.sort(p), alpha + 1e-12, side="right") / len(p)
                axes.step(
                    alpha, share / alpha, where="post", color=colour, ls=style, lw=1.4, label=name
                )
            spread = 2 * np.sqrt((1 - alpha) / alpha * (1 / len(p) + 1 / curves[case].toys))
            axes.fill_between(alpha, 1 - spread, 1 + spread, color="0.85", lw=0, zorder=0)
            axes.axhline(1, color="0.4", lw=1)
            axes.set_xscale("log")
            axes.set_ylim(0, 2.2)
            axes.set_title(f"{case}, {len(p)} data sets, seed {seed}", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("level α")
    for row in panels:
        row[0].set_ylabel("P(p ≤ α) / α")
    panels[0, 0].legend(fontsize=8, ncols=2)
    figure.suptitle(
        "p-values of data sets that follow the reference, smallest p over widths\n"
        "grey: two standard deviations of so many data sets and toys",
        fontsize=11,
    )
    return figure


def draw_alarms(seeds: Mapping[int, Alarms]) -> Figure:
    """Draw, for every seed, looks at streams; how many have alarmed; when, and what is dated."""
    figure = Figure(figsize=(12.6, 3.3 * len(seeds) + 0.8), layout="constrained")
    panels = figure.subplots(len(seeds), 3, squeeze=False)
    for row, (seed, alarms) in zip(panels, seeds.items(), strict=True):
        size = alarms.size
        steps = np.arange(1, size.epoch + 1)
        looks, rates, dates = row
        for colour, name, u in (
            ("0.6", "nominal", alarms.highest),
            (SERIES[1], "signal", alarms.signal),
        ):
            middle = np.quantile(u, [0.05, 0.5, 0.95], axis=0)
            looks.fill_between(steps, middle[0], middle[2], color=colour, alpha=0.25, lw=0)
            looks.plot(steps, middle[1], color=colour, label=name)
        looks.axhline(alarms.boundary.level, color="0.2", lw=1, ls="--", label="boundary")
        looks.set_title(f"largest u of a look, 5-95 %, seed {seed}", fontsize=10)
        for colour, name, first in (
            (SERIES[0], "boundary", alarms.quiet),
            (SERIES[5], "p ≤ α at every look", alarms.naive),
            (SERIES[1], f"{size.signal} {size.fraction:g} from {size.begins}", alarms.found),
        ):
            so_far = [np.mean((first > 0) & (first <= step)) for step in steps]
            rates.plot(steps, so_far, color=colour, label=name)
        rates.axhline(alarms.boundary.alpha, color="0.4", lw=1)
        rates.set_title("share of streams that have alarmed", fontsize=10)
        true = alarms.true
        dates.scatter(alarms.found[true], alarms.dated[true], s=9, color=SERIES[1], alpha=0.6)
        dates.axhline(size.begins, color="0.4", lw=1)
        dates.set_title("begin of the anomaly as dated, over the step of the alarm", fontsize=10)
        dates.set_xlim(size.begins - 1, size.epoch)
        for axes in row:
            axes.set_xlabel("step of the epoch")
    for axes in panels[0, :2]:
        axes.legend(fontsize=8)
    return figure
