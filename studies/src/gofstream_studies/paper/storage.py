"""What each strategy has to keep: the formulas of the paper's section on storage."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner
from gofstream.report.plots import SERIES
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream_studies.paper.claims import Claim
from gofstream_studies.paper.experiment import Context, Outcome

#: Numbers of batches processed, at a fixed batch size.
PROCESSED = (1, 2, 4, 8, 16, 32, 64)


def lengths(reference: int, data: int, tested: float) -> dict[str, float]:
    """Numbers of values of F that a test needs, as the paper counts them.

    Parameters
    ----------
    reference, data : N_R, and events of all batches together.
    tested : N_test / N_b.

    Examples
    --------
    >>> lengths(200_000, 16_000, 1 / 8)
    {'all': 216000.0, 'one': 202000.0, 'sat': 200000.0}
    """
    return {
        "all": float(reference + data),
        "one": reference + tested * data,
        "sat": float(reference),
    }


def storage(context: Context) -> Outcome:
    """Count what is kept as batches are processed, and check the formulas on real models."""
    size = preset("expo1d")
    rng = np.random.default_rng(context.seed)
    rows = size.n_reference if context.full else size.n_reference // 2
    share = size.expected / size.batches
    reference = Sample.from_array(expo1d.reference(rows, rng))
    learner = Learner.prepare(reference, size.settings, expected=share, rng=rng)
    drawn = expo1d.batches(size.expected, size.batches, rng)
    learnt = learner.learn(
        learner.features(0.7), [Sample.from_array(x) for x in drawn], [share] * size.batches
    )
    counts = [len(x) for x in drawn]
    formula = lengths(rows, sum(counts), counts[0] / sum(counts))
    # What the statistics were in fact computed from: F on the reference, and on the tested batches.
    on_reference = learnt.ratios.reference.shape[1]
    kept = {
        "all": on_reference + sum(f.shape[1] for f in learnt.ratios.data),
        "one": on_reference + learnt.ratios.data[0].shape[1],
        "sat": on_reference,
    }
    claims = [
        Claim(
            f"values of F that {name} needs",
            f"{name} needs {formula[name]:.0f} values of F",
            "holds" if kept[name] == round(formula[name]) else "does not hold",
            kept[name],
            kept[name],
            kept[name],
            1,
        )
        for name in kept
    ]
    model = sum(len(m.to_bytes()) for m in learnt.models) / len(learnt.models)
    event = 8 * reference.values.shape[1]
    grown = {
        "all: batches and models": [n * (share * event + model) for n in PROCESSED],
        "one: models and one batch": [n * model + share * event for n in PROCESSED],
        "sat, next: models": [n * model for n in PROCESSED],
        "sat, next: running sum only": [8.0 * rows for _ in PROCESSED],
    }
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for (name, line), colour, marker in zip(grown.items(), SERIES, "os^D", strict=False):
        axes.plot(PROCESSED, np.array(line) / 1e6, color=colour, marker=marker, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(PROCESSED, [str(n) for n in PROCESSED])
    axes.set_xlabel(f"batches of {share:.0f} events processed")
    axes.set_ylabel("kept (MB)")
    axes.set_title(f"EXPO-1D, width 0.7, N_R = {rows}: what has to be kept beside R")
    axes.legend(frameon=False, fontsize=9)
    numbers = {
        "paper_formula": formula,
        "kept": kept,
        "bytes_per_model": model,
        "bytes_per_event": event,
        "processed": list(PROCESSED),
        "bytes": grown,
    }
    text = "\n".join(f"{n}: {formula[n]:.0f} values of F by formula, {kept[n]} kept" for n in kept)
    return Outcome({"": figure}, numbers, claims, text)
