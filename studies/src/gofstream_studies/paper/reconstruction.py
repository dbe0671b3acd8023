"""What batches and aggregate learn: the paper's figure on the regularising effect of batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.datasets.reconstruction import WIDTH, expo_reconstruction
from gofstream.inference.power import Power
from gofstream.inference.pvalues import binomial_interval
from gofstream.ratio.learner import Learner, Learnt
from gofstream.report.plots import plot_reconstruction
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.statistics import log_mean_exp
from gofstream_studies.paper.claims import Claim, Verdict
from gofstream_studies.paper.experiment import Context, Outcome

Floats = NDArray[np.float64]

BATCHES = 4
#: The paper injects a rare Gaussian in the tail and does not say which; at twice the strength of
#: its table the eye can follow it.
SIGNAL = replace(expo1d.SIGNALS["tail"], fraction=2 * expo1d.SIGNALS["tail"].fraction)
#: Data sets on which learnt and true ratios are compared.
QUICK, FULL = 40, 300


def reconstruction(context: Context) -> Outcome:
    """Figure 1D-reco-narrow, and how often the aggregate is nearer to the truth than its parts."""
    size = preset("expo1d")
    rng = np.random.default_rng(context.seed)
    rows = size.n_reference if context.full else size.n_reference // 2
    reference = Sample.from_array(expo1d.reference(rows, rng), name="reference")
    expected = [size.expected / BATCHES] * BATCHES
    learner = Learner.prepare(reference, size.settings, expected=expected[0], rng=rng)
    features = learner.features(WIDTH)
    truth = np.exp(expo1d.log_ratio(reference.values[:, 0].astype(np.float64), SIGNAL))
    sets = context.toys or (FULL if context.full else QUICK)
    errors = np.empty((sets, 1 + BATCHES))
    picture = None
    with context.bars(f"reconstruction: {sets} data sets") as bar:
        for n in range(sets):
            drawn = expo1d.batches(size.expected, BATCHES, rng, SIGNAL)
            batches = [Sample.from_array(x, name=f"batch {i + 1}") for i, x in enumerate(drawn)]
            learnt = learner.learn(features, batches, expected)
            errors[n] = _errors(learnt, truth)
            if picture is None:
                content = expo_reconstruction(reference, batches, expected, learnt, SIGNAL, 9.0)
                picture = plot_reconstruction(
                    content,
                    f"EXPO-1D, {SIGNAL.fraction:.2%} of signal at x = {SIGNAL.mean}: what "
                    f"{BATCHES} batches and their aggregate learnt (width {WIDTH})",
                )
            bar(n + 1, sets)
    assert picture is not None
    nearer = int(np.count_nonzero(errors[:, 0] < errors[:, 1:].min(axis=1)))
    share = Power(nearer / sets, *binomial_interval(nearer, sets), sets)
    verdict: Verdict = "not resolved"
    if share.low > 0.5 or share.high < 0.5:
        verdict = "holds" if share.low > 0.5 else "does not hold"
    claim = Claim(
        "the aggregate is nearer to the truth than any batch",
        "share of data sets in which the mean squared error of e^F on the reference is smaller "
        "than that of every e^f of its batches",
        verdict,
        share.value,
        share.low,
        share.high,
        sets,
    )
    typical = np.sqrt(np.mean(errors, axis=0))
    numbers = {
        "width": WIDTH,
        "fraction": SIGNAL.fraction,
        "rms_error_aggregate": float(typical[0]),
        "rms_error_batches": typical[1:].tolist(),
    }
    text = (
        f"root mean square error of the learnt ratio: aggregate {typical[0]:.3f}, single batch "
        f"{typical[1:].mean():.3f}"
    )
    return Outcome({"": picture}, numbers, [claim], text)


def _errors(learnt: Learnt, truth: Floats) -> Floats:
    """Mean squared error on the reference of e^F, and of each e^f."""
    ratios = learnt.ratios
    learned = np.exp(np.vstack([log_mean_exp(ratios.reference, ratios.expected), ratios.reference]))
    return np.asarray((learned - truth) ** 2 @ ratios.share)
