"""What the paper's text says on how power moves: with batches processed, with N_R, with λ.

All on EXPO-1D, where toys are exact and cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gofstream.datasets import expo1d as data
from gofstream.inference.power import Power, power
from gofstream.inference.study import PowerStudy
from gofstream.report.plots import draw_powers
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.toys.sources import Injected, Simulator
from gofstream_studies.paper import expo1d
from gofstream_studies.paper.claims import Claim, more, not_less
from gofstream_studies.paper.compare import LEVEL, Comparison, Strategy
from gofstream_studies.paper.experiment import Context, Outcome
from gofstream_studies.paper.splits import Splits

#: A line of a picture: the power at each x.
Lines = Mapping[str, Sequence[Power]]

SIGNALS = ("bulk", "tail")
BATCHES = 8
QUICK, FULL = (250, 40), (600, 200)
#: Sizes of the reference, in units of the study's own; the quick version leaves out the last.
SIZES = (0.1, 0.25, 1.0, 2.5)
#: Penalties, from under-regularised to one that flattens the models.
PENALTIES = (1e-8, 1e-6, 1e-4, 1e-2)
#: In place of the weakest, whose fits take long, in the quick version.
QUICK_WEAKEST = 1e-7


def processed(context: Context) -> Outcome:
    """Power after 1, 2, … 8 batches of the same size have been processed."""
    found = expo1d.compare(context)
    after = range(1, BATCHES + 1)
    names = ("one", "sat", "next", "all")
    signals = list(data.SIGNALS)

    def at(name: str, k: int) -> Strategy:
        return Strategy(name, BATCHES, after=k)

    panels = {
        signal: {
            name: [power(found.p_values(at(name, k), signal), LEVEL) for k in after]
            for name in names
        }
        for signal in signals
    }
    claims = []
    for signal in signals:
        for name in ("one", "sat", "next"):
            gain = found.difference(at(name, BATCHES), at(name, 2), signal)
            claims.append(
                Claim.judged(
                    f"{name} grows with the batches processed [{signal}]",
                    f"power of {name} after {BATCHES} minus after 2 batches of the same size",
                    gain,
                    more,
                    len(found.p_values(at(name, 2), signal)),
                )
            )
    title = expo1d.title(context, "power at two sigma against the batches processed")
    figure = _figure(panels, list(after), "batches processed", title)
    return Outcome({"": figure}, _numbers(panels, list(after)), claims)


def reference_size(context: Context) -> Outcome:
    """Power against N_R: with the same λ, and with λ N kept, since N = N_R + N(R)."""
    size, shrink = preset("expo1d"), 1 if context.full else expo1d.SHRINK
    usual, share = size.n_reference // shrink, size.expected / shrink / BATCHES
    sizes = [int(usual * factor) for factor in (SIZES if context.full else SIZES[:3])]
    own = float(size.settings.penalty)
    rules = {
        f"λ = {own:g}": [own] * len(sizes),
        f"λ N as at N_R = {usual}": [own * (usual + share) / (n + share) for n in sizes],
    }
    names = ("all", "sat", "one")
    panels: dict[str, Lines] = {}
    claims = []
    for rule, penalties in rules.items():
        studies: dict[float, PowerStudy[str]] = {}
        for rows, value in zip(sizes, penalties, strict=True):
            study = f"expo1d-reference-{rows}-penalty-{value:.3g}"
            splits = _splits(context, study, rows, value, (BATCHES,))
            studies[rows] = splits.compare(context).studies[BATCHES]
        found = Comparison(studies)
        panels |= {
            f"{signal}, {rule}": lines for signal, lines in _panels(found, names, sizes).items()
        }
        for signal in SIGNALS:
            for name in names:
                gain = found.difference(Strategy(name, sizes[-1]), Strategy(name, sizes[0]), signal)
                claims.append(
                    Claim.judged(
                        f"a larger reference helps {name} [{signal}, {rule}]",
                        f"power of {name} with N_R = {sizes[-1]} minus with N_R = {sizes[0]}",
                        gain,
                        more,
                        len(found.p_values(Strategy(name, sizes[0]), signal)),
                        "the paper says so of CMS-L1-24D; one reference of each size was drawn, "
                        "and what its luck changes is not in the interval",
                    )
                )
    title = _title(context, "power at two sigma against the size of the reference")
    figure = _figure(panels, sizes, "N_R", title, log=True)
    return Outcome({"": figure}, _numbers(panels, sizes), claims)


def penalty(context: Context) -> Outcome:
    """Power against λ, for the whole data set and in eight batches."""
    rows = preset("expo1d").n_reference // (1 if context.full else expo1d.SHRINK)
    numbers = (1, BATCHES)
    found: dict[int, dict[float, PowerStudy[str]]] = {n: {} for n in numbers}
    penalties = PENALTIES if context.full else (QUICK_WEAKEST, *PENALTIES[1:])
    for value in penalties:
        splits = _splits(context, f"expo1d-penalty-{value:g}", rows, value, numbers)
        compared = splits.compare(context)
        for n in numbers:
            found[n][value] = compared.studies[n]
    panels: dict[str, dict[str, list[Power]]] = {signal: {} for signal in SIGNALS}
    for n in numbers:
        for signal, lines in _panels(Comparison(found[n]), ("all",), penalties).items():
            panels[signal][f"all, N_b = {n}"] = lines["all"]
    claims = []
    for value in penalties:
        pair = Comparison({n: found[n][value] for n in numbers})
        for signal in SIGNALS:
            gain = pair.difference(Strategy("all", BATCHES), Strategy("all", 1), signal)
            claims.append(
                Claim.judged(
                    f"batches make up for a weak penalty [{signal}, λ = {value:g}]",
                    f"power of all in {BATCHES} batches minus in one, at λ = {value:g}",
                    gain,
                    not_less,
                    len(pair.p_values(Strategy("all", 1), signal)),
                    "the paper expects it where batches are under-regularised",
                )
            )
    title = _title(context, "power at two sigma against the penalty")
    figure = _figure(panels, penalties, "penalty λ", title, log=True)
    return Outcome({"": figure}, _numbers(panels, penalties), claims)


def _splits(context: Context, name: str, rows: int, value: float, numbers: Sequence[int]) -> Splits:
    size = preset("expo1d")
    nominal = Simulator(data.reference)
    signals = expo1d.strengths(context)
    return Splits(
        name=name,
        reference=Sample.from_array(data.reference(rows, np.random.default_rng(context.seed))),
        nominal=nominal,
        nominal_name="the exact simulator",
        alternatives={
            s: Injected(nominal, Simulator(signals[s].draw), signals[s].fraction) for s in SIGNALS
        },
        expected=size.expected / (1 if context.full else expo1d.SHRINK),
        settings=dict.fromkeys(numbers, size.settings.changed(penalty=value)),
        toys=context.count(QUICK, FULL),
    )


def _title(context: Context, what: str) -> str:
    null, signal = context.count(QUICK, FULL)
    return (
        f"EXPO-1D: {what}\nfive widths by smallest p, {null} toys without and {signal} with "
        "each signal (bands: 95 %)"
    )


def _panels(
    found: Comparison, names: Sequence[str], setups: Sequence[float]
) -> dict[str, dict[str, list[Power]]]:
    return {
        signal: {
            name: [power(found.p_values(Strategy(name, x), signal), LEVEL) for x in setups]
            for name in names
        }
        for signal in SIGNALS
    }


def _figure(
    panels: Mapping[str, Lines], x: Sequence[float], label: str, title: str, *, log: bool = False
) -> Figure:
    figure = Figure(figsize=(1.6 + 2.7 * len(panels), 3.9), layout="constrained")
    figure.suptitle(title, fontsize=11)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (signal, lines) in zip(row, panels.items(), strict=True):
        draw_powers(axes, lines, x)
        if log:
            axes.set_xscale("log")
            axes.set_xticks(x, [f"{each:g}" for each in x], fontsize=8)
            axes.minorticks_off()
        axes.set_xlabel(label)
        axes.set_title(signal, fontsize=10)
        axes.set_ylim(-0.02, 1.02)
    row[0].set_ylabel("power")
    row[0].legend(fontsize=8, frameon=False)
    return figure


def _numbers(panels: Mapping[str, Lines], x: Sequence[float]) -> dict[str, Any]:
    return {
        "level": LEVEL,
        "x": list(x),
        "power": {
            signal: {name: [asdict(point) for point in line] for name, line in lines.items()}
            for signal, lines in panels.items()
        },
    }
