"""Power: how often a signal would have been seen, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gofstream.inference.pvalues import binomial_interval, z_score

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Power:
    """A rate with its 95 % interval (Clopper and Pearson)."""

    value: float
    low: float
    high: float
    toys: int


def power(p_values: ArrayLike, level: float) -> Power:
    """Share of signal toys with p ≤ level.

    Examples
    --------
    >>> power([0.01, 0.2, 0.03, 0.5], 0.05).value
    0.5
    """
    p = np.asarray(p_values, dtype=np.float64)
    hits = int(np.count_nonzero(p <= level))
    return Power(hits / len(p), *binomial_interval(hits, len(p)), len(p))


@dataclass(frozen=True, slots=True)
class MedianZ:
    """The Z that half of the signal toys reach, with its 95 % interval from order statistics."""

    value: float
    low: float
    high: float
    toys: int


def median_z(p_values: ArrayLike) -> MedianZ:
    """Median Z of signal toys.

    The interval runs between the order statistics that a binomial with rate one half puts at 2.5
    and 97.5 %; it assumes nothing about the distribution.

    Examples
    --------
    >>> round(median_z([0.5, 0.15865525, 0.02275013]).value, 2)
    1.0
    """
    z = np.sort(z_score(p_values))
    count = len(z)
    below = int(stats.binom.ppf(0.025, count, 0.5))
    low = z[max(0, below - 1)] if below else -np.inf
    high = z[min(count - 1, count - below)] if below else np.inf
    return MedianZ(float(np.median(z)), float(low), float(high), count)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more often one test sees a signal than another on the same toys."""

    value: float
    low: float
    high: float


def paired_difference(first: ArrayLike, second: ArrayLike, level: float) -> Difference:
    """Power of the first minus power of the second, on paired toys, with a 95 % interval.

    Only toys that one test sees and the other does not tell them apart. The interval is the normal
    one for the mean of the paired differences, with half a toy added to each discordant kind so
    that it does not shrink to a point when there are none.

    Examples
    --------
    >>> round(paired_difference([0.01, 0.01, 0.2], [0.2, 0.01, 0.3], 0.05).value, 3)
    0.333
    """
    a = np.asarray(first, dtype=np.float64) <= level
    b = np.asarray(second, dtype=np.float64) <= level
    count = len(a)
    only_a, only_b = int(np.count_nonzero(a & ~b)), int(np.count_nonzero(b & ~a))
    value = (only_a - only_b) / count
    plus, minus = (only_a + 0.5) / (count + 1), (only_b + 0.5) / (count + 1)
    error = ((plus + minus - (plus - minus) ** 2) / count) ** 0.5
    half = float(stats.norm.isf(0.025)) * error
    return Difference(value, max(-1.0, value - half), min(1.0, value + half))
