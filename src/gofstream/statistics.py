"""The six statistics (docs/explanation/method.md, eq. 4-9), as pure functions of learnt log ratios.

Every one is a likelihood ratio of an alternative n(x|R) e^f against n(x|R), or made of such:

    t = 2 [ Σ_R w (1 - e^f) + Σ_D f ]          (paper, Eq. t_np2)

They differ in the f that is used and in the data it is tested on. t is evaluated at the minimum of
the cross-entropy, not of the likelihood, so it can be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.model import LogRatios

Floats = NDArray[np.float64]


def log_mean_exp(f: Floats, expected: Floats) -> Floats:
    """F = log Σ_i π_i e^{f_i} over the first axis (paper, Eq. F)."""
    return np.asarray(_running_mean(f, expected)[-1])


def _running_mean(f: Floats, expected: Floats) -> Floats:
    """F of the first i batches, for every i."""
    summed = np.logaddexp.accumulate(f + np.log(expected)[:, None], axis=0)
    return np.asarray(summed - np.log(np.cumsum(expected))[:, None])


def likelihood_ratio(f_reference: Floats, f_data: Floats, expected: float, share: Floats) -> float:
    """2 [ Σ_R w (1 - e^f) + Σ_D f ] with w = expected · share."""
    return float(2 * (np.sum(f_data) - expected * (share @ np.expm1(f_reference))))


def single(ratios: LogRatios, batch: int = 0) -> float:
    """Test one batch by what that batch taught."""
    return likelihood_ratio(
        ratios.reference[batch],
        ratios.data[batch][batch],
        ratios.expected[batch],
        ratios.share,
    )


def sum_(ratios: LogRatios) -> float:
    """Add the single tests of all batches (paper, Eq. t-sum)."""
    return sum(single(ratios, batch) for batch in range(len(ratios.data)))


def all_(ratios: LogRatios) -> float:
    """Test all batches with the aggregate (paper, Eq. t-avg)."""
    return one(ratios, range(len(ratios.data)))


def one(ratios: LogRatios, tested: Sequence[int] = (0,)) -> float:
    """Test chosen batches with the aggregate of all (paper, Eq. t-avg_v2)."""
    aggregate = log_mean_exp(ratios.reference, ratios.expected)
    return sum(
        likelihood_ratio(
            aggregate,
            log_mean_exp(ratios.data[j], ratios.expected),
            ratios.expected[j],
            ratios.share,
        )
        for j in tested
    )


def sat(ratios: LogRatios) -> float:
    """Test the aggregate on the reference, with no data (paper, Eq. t-sat)."""
    aggregate = log_mean_exp(ratios.reference, ratios.expected)
    return saturated(aggregate, float(np.mean(ratios.expected)), ratios.share)


def saturated(aggregate: Floats, mean_expected: float, share: Floats) -> float:
    """2 Σ_R w̄ [ (1 - e^F) + e^F F ], from F on the reference alone.

    The paper prints e^F log F for e^F F: the logarithm of the ratio e^F is F.
    """
    return float(
        2 * mean_expected * (share @ (np.exp(aggregate) * aggregate - np.expm1(aggregate)))
    )


def next_(ratios: LogRatios, shrink: float = 0.25) -> float:
    """Test each batch from the second on with what the batches before it taught.

    e^{G_i} = 1 + b (e^{F_{i-1}} - 1): the prediction is shrunk towards the null by b.
    """
    count = len(ratios.data)
    if count < 2:
        return 0.0
    before = _shrunk(_running_mean(ratios.reference[:-1], ratios.expected[:-1]), shrink)
    total = 0.0
    for i in range(1, count):
        on_data = _shrunk(log_mean_exp(ratios.data[i][:i], ratios.expected[:i]), shrink)
        total += likelihood_ratio(before[i - 1], on_data, ratios.expected[i], ratios.share)
    return total


def _shrunk(f: Floats, shrink: float) -> Floats:
    # log(1 - b + b e^F), which neither overflows for large F nor underflows for small.
    return f if shrink == 1 else np.logaddexp(np.log1p(-shrink), np.log(shrink) + f)


#: The statistics by the names users know.
STATISTICS: Mapping[str, Callable[[LogRatios], float]] = MappingProxyType(
    {"single": single, "sum": sum_, "all": all_, "one": one, "sat": sat, "next": next_}
)
