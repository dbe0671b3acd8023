"""p-values and Z-scores from pseudo-experiments (docs/explanation/method.md, eq. 13).

A p-value counts toys: it is never zero and needs no assumption. Beyond what the toys resolve a law
fitted to them gives an extrapolated p-value, which is reported beside the counted one, as a detail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gofstream.errors import InputError

Floats = NDArray[np.float64]
Law = Literal["gamma", "skewed", "normal", "chi2", "exponential"]

#: The law that fits each statistic's null; `one` and `next` are often negative, the others rarely.
#: Not a normal law: on 1000 toys of EXPO-1D these two have a skewness of up to 0.7, with which a
#: normal 5 σ is a 3.6 σ; so they get a gamma that is shifted to any mean. The scan is
#: twice the logarithm of a likelihood ratio of two fixed hypotheses, which falls at least as fast
#: as e^{-t/2}.
LAWS: dict[str, Law] = {
    "single": "gamma",
    "sum": "gamma",
    "all": "gamma",
    "one": "skewed",
    "sat": "gamma",
    "next": "skewed",
    "scan": "exponential",
}
#: The paper's recipe: χ² for all but the saturated test; it knows no scan.
PAPER_LAWS: dict[str, Law] = {
    name: "normal" if name == "sat" else "chi2" for name in LAWS if name != "scan"
}

#: Values of a statistic that differ by less, in units of max(1, |t|), are equal. The products
#: behind them are in single precision: t of equal data sets (discrete columns, permuted labels)
#: differed by up to 7e-5. (SciPy's permutation tests allow for the rounding of double precision.)
TIED = 1e-4
#: A law is not used for extrapolation if a Kolmogorov-Smirnov test rejects it at this level.
KS_LEVEL = 0.01
#: Nor is it fitted to fewer toys: of 600 null sets with 20 toys, one had Z = 5.7 by its law.
LEAST_TOYS = 100
#: Share of the toys, at the top, on which the tail of a law is checked.
TAIL = 0.05


def z_score(p: ArrayLike) -> Floats:
    """Z = Φ⁻¹(1 - p): the number of standard deviations of a one-sided Gaussian tail.

    Examples
    --------
    >>> round(float(z_score(0.00135)), 2)
    3.0
    """
    return np.asarray(stats.norm.isf(np.asarray(p, dtype=np.float64)), dtype=np.float64)


def least_tied(t: ArrayLike) -> Floats:
    """Give the smallest values that count as equal to each t: `TIED` less, in units of max(1, |t|).

    Examples
    --------
    >>> least_tied([0.0, 200.0]).tolist()
    [-0.0001, 199.98]
    """
    values = np.asarray(t, dtype=np.float64)
    return np.asarray(values - TIED * np.maximum(1.0, np.abs(values)))


def empirical_p(t: ArrayLike, null: ArrayLike) -> Floats:
    """Count toys: p = (1 + #{t0 ≥ t}) / (1 + B), for each t; ties up to rounding count (`TIED`).

    Examples
    --------
    >>> empirical_p([0.5, 9.0], [1.0, 2.0, 3.0]).tolist()
    [1.0, 0.25]
    """
    ordered = np.sort(np.asarray(null, dtype=np.float64))
    beyond = len(ordered) - np.searchsorted(ordered, least_tied(t), side="left")
    return np.asarray((1 + beyond) / (1 + len(ordered)), dtype=np.float64)


def binomial_interval(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of Clopper and Pearson: it covers the true rate with at least the stated level.

    Examples
    --------
    >>> [round(x, 3) for x in binomial_interval(0, 100)]
    [0.0, 0.036]
    """
    half = (1 - level) / 2
    low = 0.0 if hits == 0 else float(stats.beta.ppf(half, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(stats.beta.isf(half, hits + 1, trials - hits))
    return low, high


@dataclass(frozen=True, slots=True)
class FittedLaw:
    """A smooth law for a null distribution, and how well it fits.

    Attributes
    ----------
    law : which family.
    ks_p : p-value of a Kolmogorov-Smirnov test against the toys it was fitted to. Fitting makes it
        too large, so a small one is damning and a large one proves little.
    tail_ratio : toys beyond the law's own 95 % point, over what it predicts; beyond the 99 % point
        of the exponential, which is right at the other one by its making.
    """

    law: Law
    shape: tuple[float, ...]
    ks_p: float
    tail_ratio: float

    @property
    def usable(self) -> bool:
        """Whether the law may be used for extrapolation."""
        return self.ks_p >= KS_LEVEL

    def tail(self, t: ArrayLike) -> Floats:
        """P(t0 ≥ t)."""
        frozen = _frozen(self.law, self.shape)
        return np.asarray(frozen.sf(np.asarray(t, dtype=np.float64)), dtype=np.float64)


def fit_law(null: ArrayLike, law: Law) -> FittedLaw:
    """Fit by moments: the mean and spread of a gamma or normal, the mean of a χ².

    The skewed law is a gamma with a shift (Pearson's third), so it takes the skewness too, though
    no less than so many toys could hide: a normal is its limit, and the optimistic end.
    The exponential e^{-t/2} begins at the largest twentieth of the toys, and is tested on these,
    for a tail that is heavier and not for one that is lighter.
    A gamma lives above zero; it is fitted to toys that may stray below, where it has no mass, and
    the Kolmogorov-Smirnov test then says whether that matters.

    Examples
    --------
    >>> import numpy as np
    >>> toys = np.random.default_rng(1).gamma(8.0, size=2000)
    >>> round(float(fit_law(toys, "gamma").tail(8.0)), 1)
    0.5
    """
    toys = np.asarray(null, dtype=np.float64)
    mean, variance = float(toys.mean()), float(toys.var())
    if variance <= 0 or (mean <= 0 and law in ("gamma", "chi2")):
        return FittedLaw(law, (1.0, 1.0), 0.0, np.nan)
    if law == "exponential":
        return _fit_tail(toys)
    variance *= len(toys) / (len(toys) - 1)
    shape: tuple[float, ...]
    if law == "normal":
        shape = (mean, variance**0.5)
    elif law == "skewed":
        skewness = max(float(stats.skew(toys)), (6 / len(toys)) ** 0.5)
        shape = (skewness, mean, variance**0.5)
    else:
        shape = (mean,) if law == "chi2" else (mean**2 / variance, variance / mean)
    frozen = _frozen(law, shape)
    below = np.asarray(frozen.cdf(np.sort(toys)))
    steps = np.arange(len(toys) + 1) / len(toys)
    distance = max(float((steps[1:] - below).max()), float((below - steps[:-1]).max()))
    ks_p = float(stats.kstwo.sf(distance, len(toys)))
    beyond = float(np.mean(toys >= frozen.isf(TAIL)))
    return FittedLaw(law, shape, ks_p, beyond / TAIL)


def _fit_tail(toys: Floats) -> FittedLaw:
    begin = float(np.quantile(toys, 1 - TAIL))
    shape = (begin + 2 * float(np.log(TAIL)),)
    frozen = _frozen("exponential", shape)
    beyond = np.sort(toys[toys > begin])
    least = 1 - np.asarray(frozen.sf(beyond)) / TAIL  # of the toys that are so large at all
    above = float((least - np.arange(len(beyond)) / max(1, len(beyond))).max(initial=0.0))
    # With ties at the top there may be none, and then nothing is known of the tail.
    ks_p = float(stats.ksone.sf(above, len(beyond))) if len(beyond) else 0.0
    far = float(np.mean(toys >= frozen.isf(TAIL / 5)))
    return FittedLaw("exponential", shape, ks_p, 5 * far / TAIL)


def _frozen(law: Law, shape: tuple[float, ...]) -> stats.distributions.rv_frozen:
    if law == "normal":
        return stats.norm(*shape)
    if law == "skewed":
        return stats.pearson3(shape[0], loc=shape[1], scale=shape[2])
    if law == "chi2":
        return stats.chi2(*shape)
    if law == "exponential":
        return stats.expon(shape[0], 2)
    return stats.gamma(shape[0], scale=shape[1])


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value that counts toys.

    Attributes
    ----------
    p, z : (1 + hits) / (1 + toys), and the same as a Z-score.
    low, high : 95 % interval (Clopper and Pearson) on the true p, from the finite number of toys.
    hits, toys : toys at least as extreme as the data, and all toys.
    law : the law that was fitted to the toys, if one was.
    law_p : p by this law where no toy is as extreme: an extrapolation, which nothing measured.
    """

    p: float
    z: float
    low: float
    high: float
    hits: int
    toys: int
    law: FittedLaw | None = None
    law_p: float | None = None

    def __str__(self) -> str:
        """Write p, its interval, and the count behind them."""
        return counted_text(self.p, self.low, self.high, self.hits, self.toys)


def toys_needed(level: float, columns: int = 1) -> int:
    """Give the number of toys with which p can be as small as the level.

    Data that no toy reaches at one width of one strategy tie with up to one toy for each other
    column (width of a strategy), so p is then at most columns / (1 + toys).

    Examples
    --------
    >>> toys_needed(0.01), toys_needed(0.0228, columns=10)
    (99, 438)
    """
    return max(1, math.ceil(round(columns / level, 9)) - 1)


def counted_p(
    hits: int, toys: int, law: FittedLaw | None = None, law_p: float | None = None
) -> PValue:
    """Give the p-value of data that ``hits`` of the toys reach.

    Examples
    --------
    >>> print(counted_p(0, 100))
    p = 0.0099, at most 0.036; none of 100 toys as extreme (95 % interval)
    >>> print(counted_p(14, 100))
    p = 0.15, 0.079 to 0.22; 14 of 100 toys as extreme (95 % interval)
    """
    p = (1 + hits) / (1 + toys)
    return PValue(p, float(z_score(p)), *binomial_interval(hits, toys), hits, toys, law, law_p)


def counted_text(
    p: float,
    low: float,
    high: float,
    hits: int,
    toys: int,
    write: Callable[[float], str] = lambda value: f"{value:.2g}",
) -> str:
    """Write a p-value with its interval and the count of toys; ``write`` formats a number."""
    if low == 0:
        interval = f"at most {write(high)}"
    else:
        interval = f"at least {write(low)}" if high == 1 else f"{write(low)} to {write(high)}"
    count = {0: "none", toys: "all"}.get(hits, f"{hits:,}")
    return f"p = {write(p)}, {interval}; {count} of {toys:,} toys as extreme (95 % interval)"


def p_value(t: float, null: ArrayLike, law: Law | None = None) -> PValue:
    """Give the p-value of t against toys, by counting them.

    Where no toy is as extreme, `PValue.law_p` has what the law says, if it was fitted to at least
    100 toys, is not rejected by them and says less than the count.

    Parameters
    ----------
    t : the observed statistic.
    null : the statistic of B pseudo-experiments.
    law : what to extrapolate with; None for never.

    Examples
    --------
    >>> import numpy as np
    >>> toys = np.random.default_rng(1).gamma(8.0, size=999)
    >>> found = p_value(30.0, toys, "gamma")
    >>> found.p, f"{found.law_p:.3g}"
    (0.001, '5.32e-07')
    """
    toys = np.asarray(null, dtype=np.float64)
    if np.isnan(t) or np.isnan(toys).any():
        raise InputError(
            "the statistic of the data or of a toy is not a number: no p-value follows; look for "
            "columns or weights that span more than double precision can hold"
        )
    hits = int(np.count_nonzero(toys >= least_tied(t)))
    fitted = None if law is None or len(toys) < LEAST_TOYS else fit_law(toys, law)
    law_p = None
    if hits == 0 and fitted is not None and fitted.usable:
        tail = max(float(fitted.tail(t)), float(np.finfo(np.float64).tiny))
        law_p = tail if tail < 1 / (1 + len(toys)) else None
    return counted_p(hits, len(toys), fitted, law_p)
