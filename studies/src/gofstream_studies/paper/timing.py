"""The table of hyper-parameters and time per batch, and time against the size of a batch."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure

from gofstream.report.plots import SERIES
from gofstream.settings import PRESETS
from gofstream.toys.sources import Pool
from gofstream_studies.bench.cases import PAPER, Case, dimuon5d_case, drawn, expo1d_case
from gofstream_studies.bench.fits import BLOCK, time_alone, time_fits
from gofstream_studies.datasets import cmsl1
from gofstream_studies.paper.claims import Claim, Verdict
from gofstream_studies.paper.experiment import Context, Outcome

#: Sizes of a batch whose fits are timed.
SIZES = (500, 1000, 2000, 4000, 8000, 16_000)
#: Times each of them is timed.
ROUNDS = 7


def cases(context: Context) -> list[Case]:
    """Take the paper's sizes where two cores reach them, and say where they do not."""
    rng = np.random.default_rng(context.seed)
    expo, dimuon = expo1d_case(rng), dimuon5d_case(rng)
    triggers, pool = (cmsl1.varying(x.sample) for x in cmsl1.split(cmsl1.read("sm"), 20_000, rng))
    l1 = Case("cmsl1", triggers, Pool(pool), PRESETS["cmsl1"].settings, 400.0)
    if context.full:
        return [expo, dimuon, l1]
    return [expo, dimuon.changed(n_centres=2000), l1.changed(n_centres=1000)]


def timing(context: Context) -> Outcome:
    """Table hyper: ours beside the paper's; and the claim that the batch size hardly matters."""
    rng = np.random.default_rng(context.seed)
    rows = []
    lines = [
        "data set   N_R        batch   M       width  rank  alone (s)  "
        f"in a block of {BLOCK} (s)  paper"
    ]
    every = cases(context)
    with context.bars("time per batch") as bar:
        steps = sum(len(case.settings.widths or ()) for case in every) + ROUNDS
        done = 0
        for case in every:
            learner = case.learner(rng)
            for width in learner.widths:
                row = time_fits(case, learner, width, rng)
                rows.append(asdict(row))
                lines.append(
                    f"{case.name:10s} {row.n_reference:<10d} {case.batch:<7.0f} "
                    f"{row.centres:<7d} {width:<6g} {row.rank:<5d} {row.alone:<10.3g} "
                    f"{row.in_block:<21.3g} {PAPER[case.name][0]:g}-{PAPER[case.name][1]:g} s"
                )
                done += 1
                bar(done, steps)
        expo = every[0]
        learner = expo.learner(rng)
        features = learner.features(0.7)
        data = {n: drawn(learner, expo.source, n, 1, rng)[0] for n in SIZES}
        rounds = []
        for _ in range(ROUNDS):  # in turns, since the speed of a machine drifts
            rounds.append([time_alone(features, data[n], n) for n in SIZES])
            done += 1
            bar(done, steps)
    times = np.median(rounds, axis=0)
    ratios = np.array(rounds)[:, -1] / np.array(rounds)[:, 2]
    low, growth, high = np.quantile(ratios, (0.025, 0.5, 0.975)).tolist()
    verdict: Verdict = "not resolved"
    if high < 2 or low >= 2:
        verdict = "holds" if high < 2 else "does not hold"
    claim = Claim(
        "the size of a batch hardly matters to the time",
        f"time of a fit of {SIZES[-1]} events over that of {SIZES[2]} events, EXPO-1D, width 0.7; "
        "'hardly' means less than twice the time for eight times the events",
        verdict,
        round(growth, 3),
        round(low, 3),
        round(high, 3),
        ROUNDS,
        "the paper: not significantly affected, as the reference dominates",
    )
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(SIZES, times * 1e3, color=SERIES[0], marker="o")
    axes.set_xscale("log")
    axes.set_xticks(SIZES, [str(n) for n in SIZES], fontsize=8)
    axes.minorticks_off()
    axes.set_ylim(0, 1.15e3 * times.max())
    axes.set_xlabel("events in the batch")
    axes.set_ylabel("time of one fit, alone (ms)")
    axes.set_title(f"EXPO-1D, width 0.7, N_R = {len(expo.reference)}", fontsize=11)
    numbers = {
        "table": rows,
        "paper_seconds": dict(PAPER),
        "sizes": list(SIZES),
        "seconds_by_size": times.tolist(),
    }
    return Outcome({"": figure}, numbers, [claim], "\n".join(lines))
