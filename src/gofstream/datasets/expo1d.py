r"""EXPO-1D: an exponentially falling spectrum, five signals, and the best test there can be.

The reference is :math:`n(x|R) = N(R)\,e^{-x}` on :math:`x \ge 0`; a signal adds
:math:`n(x|S)` with :math:`N(S) = \mathrm{fraction} \cdot N(R)` expected events (paper, appendix
"EXPO 1D", Table ``1d-dataset``). Both densities are known, so the likelihood-ratio test of
Neyman and Pearson can be computed exactly and bounds what any learnt test can reach.

The paper's Gaussians live on the whole line, the reference only on :math:`x \ge 0`. Here a signal
is restricted to :math:`x \ge 0` and normalised there, so that the likelihood ratio is finite for
every event that can occur. The change is 2e-10 for ``broad`` and below double precision for the
others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from gofstream.datasets.ideal import IdealTest, importance_median_z
from gofstream.inference.power import Power, power
from gofstream.inference.pvalues import empirical_p

__all__ = [
    "SIGNALS",
    "IdealTest",
    "Signal",
    "batches",
    "ideal_median_z",
    "ideal_power",
    "ideal_statistic",
    "ideal_toys",
    "log_ratio",
    "reference",
    "toy",
]

FloatArray = NDArray[np.float64]

# Events held at once by `ideal_toys`: a few arrays of this length stay near the cache.
_EVENTS_PER_CHUNK = 1 << 17

# Half-width, in sigmas, of the window outside which a Gaussian signal does not matter: there the
# density ratio is below e^-32 = 1.3e-14 of its peak, and the peaks of Table 1d-dataset are < 4.
_WINDOW_SIGMAS = 8.0


@dataclass(frozen=True, slots=True)
class Signal:
    r"""One way in which data can depart from the exponential.

    Parameters
    ----------
    name : str
        The name used in the paper's table.
    fraction : float
        Expected signal over expected reference events, N(S)/N(R).
    paper_z : float
        Median Z-score of the ideal test as printed in the paper, for N(R) = 16 000.
    mean, sigma : float or None
        Location and scale of a Gaussian peak; both None for the tail excess
        :math:`x^2 e^{-x}/2`.

    Examples
    --------
    >>> import numpy as np
    >>> tail = SIGNALS["tail"]
    >>> tail.draw(3, np.random.default_rng(1)).shape
    (3, 1)
    >>> tail.density([-1.0, 6.4]).round(3)
    array([0.   , 2.493])
    """

    name: str
    fraction: float
    paper_z: float
    mean: float | None
    sigma: float | None

    def __post_init__(self) -> None:
        """Refuse a peak that is only half described."""
        if (self.mean is None) != (self.sigma is None):
            raise ValueError(f"signal {self.name!r}: give both mean and sigma, or neither")
        if self.sigma is not None and not self.sigma > 0:
            raise ValueError(f"signal {self.name!r}: sigma must be positive, got {self.sigma}")

    def density(self, x: ArrayLike) -> FloatArray:
        """Signal density n(x|S)/N(S): zero below x = 0, integral one, same shape as `x`."""
        x = np.asarray(x, dtype=np.float64)
        inside = np.maximum(x, 0.0)
        return np.where(x < 0, 0.0, self._over_reference(inside) * np.exp(-inside))

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw `n` signal events as an (n, 1) array."""
        if self.mean is None or self.sigma is None:
            return rng.gamma(3.0, size=(n, 1))  # x^2 e^-x / 2 is the Gamma(3) density
        x = rng.normal(self.mean, self.sigma, size=(n, 1))
        while (outside := x < 0).any():
            x[outside] = rng.normal(self.mean, self.sigma, size=np.count_nonzero(outside))
        return x

    def _over_reference(self, x: FloatArray) -> FloatArray:
        """Signal density over e^-x, for x >= 0, without ever dividing by a vanishing e^-x."""
        if self.mean is None or self.sigma is None:
            return 0.5 * x * x
        z = (x - self.mean) / self.sigma
        norm_ = math.sqrt(2 * math.pi) * self.sigma * float(ndtr(self.mean / self.sigma))
        return np.exp(x - 0.5 * z * z) / norm_

    def _window(self) -> tuple[float, float]:
        """Range of x in which a background event can change the ideal statistic."""
        if self.mean is None or self.sigma is None:
            return 0.0, math.inf
        # e^x times a Gaussian is a Gaussian of the same width, moved up by sigma^2.
        centre, half = self.mean + self.sigma**2, _WINDOW_SIGMAS * self.sigma
        return max(0.0, centre - half), max(0.0, centre + half)


# Table 1d-dataset, where the printed "0^-2" and "0^-3" stand for 10^-2 and 10^-3.
SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {
        s.name: s
        for s in (
            Signal("bulk", fraction=1.5e-2, paper_z=4.9, mean=1.6, sigma=0.16),
            Signal("broad", fraction=6.5e-3, paper_z=4.2, mean=4.0, sigma=0.64),
            Signal("narrow", fraction=1.5e-3, paper_z=4.8, mean=4.0, sigma=0.01),
            Signal("tail", fraction=1.5e-3, paper_z=4.0, mean=6.4, sigma=0.16),
            Signal("excess", fraction=1.5e-2, paper_z=4.5, mean=None, sigma=None),
        )
    }
)


def reference(n: int, rng: np.random.Generator) -> FloatArray:
    """Draw `n` events of the nominal model, a unit exponential.

    Parameters
    ----------
    n : int
        Number of events, exactly.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, 1)

    Examples
    --------
    >>> import numpy as np
    >>> reference(4, np.random.default_rng(0)).shape
    (4, 1)
    """
    return rng.standard_exponential(size=(n, 1))


def toy(
    expected: float,
    rng: np.random.Generator,
    signal: Signal | None = None,
    fraction: float | None = None,
) -> FloatArray:
    """Draw one pseudo-experiment, with or without a signal.

    Parameters
    ----------
    expected : float
        N(R), the events the nominal model predicts; the number drawn is Poisson.
    rng : numpy.random.Generator
        Source of randomness.
    signal : Signal, optional
        What is added to the background; nothing by default.
    fraction : float, optional
        N(S)/N(R) in place of the signal's own.

    Returns
    -------
    ndarray of shape (N, 1)
        Background and signal events in random order.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> toy(2000, rng).shape[1]
    1
    >>> bool((toy(2000, rng, SIGNALS["tail"], fraction=0.01) >= 0).all())
    True
    """
    background = reference(int(rng.poisson(expected)), rng)
    if signal is None:
        if fraction is not None:
            raise ValueError("a signal fraction was given without a signal")
        return background
    n_signal = int(rng.poisson(_fraction(signal, fraction) * expected))
    events = np.concatenate([background, signal.draw(n_signal, rng)])
    # The order must not tell signal from background to anything that splits or streams the toy.
    return events[rng.permutation(len(events))]


def batches(
    expected: float,
    n_batches: int,
    rng: np.random.Generator,
    signal: Signal | None = None,
    fraction: float | None = None,
) -> list[FloatArray]:
    """Draw one pseudo-experiment that arrives in equal shares of exposure.

    Parameters
    ----------
    expected : float
        N(R) of all batches together.
    n_batches : int
        Number of batches, each an independent toy with N(R)/n_batches expected events.
    rng, signal, fraction
        As in `toy`.

    Returns
    -------
    list of ndarray of shape (N_i, 1)

    Examples
    --------
    >>> import numpy as np
    >>> len(batches(16_000, 8, np.random.default_rng(0), SIGNALS["bulk"]))
    8
    """
    if n_batches < 1:
        raise ValueError(f"n_batches must be at least 1, got {n_batches}")
    return [toy(expected / n_batches, rng, signal, fraction) for _ in range(n_batches)]


def log_ratio(x: ArrayLike, signal: Signal, fraction: float | None = None) -> FloatArray:
    r"""Return the true log ratio :math:`\log n(x|H)/n(x|R)`, which a model tries to learn.

    Parameters
    ----------
    x : array_like
        Events, of any shape. Events below zero are refused: neither hypothesis allows them, so
        the ratio is not defined there.
    signal : Signal
        The alternative.
    fraction : float, optional
        N(S)/N(R) in place of the signal's own.

    Returns
    -------
    ndarray
        Same shape as `x`.

    Examples
    --------
    >>> log_ratio([0.0, 2.0], SIGNALS["excess"], fraction=0.5).round(4)
    array([0.    , 0.6931])
    """
    x = np.asarray(x, dtype=np.float64)
    if (x < 0).any():
        raise ValueError("EXPO-1D events lie at x >= 0; the log ratio is not defined below")
    return np.log1p(_fraction(signal, fraction) * signal._over_reference(x))


def ideal_statistic(
    x: ArrayLike, signal: Signal, expected: float, fraction: float | None = None
) -> float:
    r"""Neyman-Pearson statistic of one data set (paper, eq. t_id_1D).

    .. math:: t_{id} = 2 \left[ -N(S) + \sum_{x \in D} \log \frac{n(x|S) + n(x|R)}{n(x|R)} \right]

    Parameters
    ----------
    x : array_like
        The events.
    signal : Signal
        The alternative, known exactly.
    expected : float
        N(R), the expected (not the observed) number of reference events.
    fraction : float, optional
        N(S)/N(R) in place of the signal's own.

    Returns
    -------
    float

    Examples
    --------
    >>> ideal_statistic([], SIGNALS["bulk"], expected=1000)
    -30.0
    """
    n_signal = _fraction(signal, fraction) * expected
    return 2.0 * (float(log_ratio(x, signal, fraction).sum()) - n_signal)


def ideal_toys(
    signal: Signal,
    expected: float,
    n_toys: int,
    rng: np.random.Generator,
    *,
    injected: float | None = None,
) -> FloatArray:
    """Draw the ideal statistic of many pseudo-experiments at once.

    Distributed as ``ideal_statistic(toy(expected, rng, signal, injected), signal, expected)``,
    but background events are drawn only where the signal can be seen: a Poisson process
    restricted to a window is again Poisson, and an event outside adds less than 1e-13 to t.

    Parameters
    ----------
    signal : Signal
        The alternative tested for, with its own fraction.
    expected : float
        N(R) of each toy.
    n_toys : int
        Number of toys.
    rng : numpy.random.Generator
        Source of randomness.
    injected : float, optional
        N(S)/N(R) present in the toys: 0 gives the null; by default the signal's fraction.

    Returns
    -------
    ndarray of shape (n_toys,)

    Examples
    --------
    >>> import numpy as np
    >>> rng, tail = np.random.default_rng(0), SIGNALS["tail"]
    >>> null = ideal_toys(tail, 16_000, 100, rng, injected=0.0)
    >>> bool(np.median(null) < 0 < np.median(ideal_toys(tail, 16_000, 100, rng)))
    True
    """
    low, high = signal._window()
    share = -math.expm1(low - high)  # 1 - e^-(high - low), exact for an infinite window too
    n_background = expected * math.exp(-low) * share
    n_injected = expected * _fraction(signal, injected)
    chunk = max(1, int(_EVENTS_PER_CHUNK / (n_background + n_injected + 1.0)))

    log_ratios = np.empty(n_toys)
    for start in range(0, n_toys, chunk):
        size = min(chunk, n_toys - start)
        background_counts = rng.poisson(n_background, size)
        signal_counts = rng.poisson(n_injected, size)
        # Inverse of the exponential's distribution function, cut to the window.
        background = low - np.log1p(-share * rng.random(background_counts.sum()))
        events = np.concatenate([background, signal.draw(signal_counts.sum(), rng)[:, 0]])
        owner = np.repeat(
            np.tile(np.arange(size), 2), np.concatenate([background_counts, signal_counts])
        )
        log_ratios[start : start + size] = np.bincount(
            owner, weights=log_ratio(events, signal), minlength=size
        )
    return 2.0 * (log_ratios - signal.fraction * expected)


def ideal_median_z(
    signal: Signal, expected: float = 16_000, *, n_toys: int = 4_000, rng: np.random.Generator
) -> IdealTest:
    """Median Z-score of the ideal test, by importance sampling (`importance_median_z`).

    Parameters
    ----------
    signal : Signal
        The alternative; use `dataclasses.replace` to change its fraction.
    expected : float
        N(R).
    n_toys : int
        Toys drawn under the alternative; the error falls as its square root.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    IdealTest

    Examples
    --------
    >>> import numpy as np
    >>> result = ideal_median_z(SIGNALS["narrow"], n_toys=1000, rng=np.random.default_rng(0))
    >>> abs(result.median_z - 5.8) < 0.2
    True
    """
    z, error = importance_median_z(ideal_toys(signal, expected, n_toys, rng))
    return IdealTest(signal.name, z, error, signal.paper_z)


def ideal_power(
    signal: Signal,
    level: float,
    expected: float = 16_000,
    *,
    n_toys: int = 4_000,
    rng: np.random.Generator,
) -> Power:
    """Power of the ideal test at a level that toys of the null resolve.

    Parameters
    ----------
    signal : Signal
        The alternative; use `dataclasses.replace` to change its fraction.
    level : float
        Rate of false alarms, no smaller than a few over `n_toys`.
    expected : float
        N(R).
    n_toys : int
        Toys drawn under the null, and as many under the alternative.
    rng : numpy.random.Generator
        Source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> found = ideal_power(SIGNALS["tail"], 0.05, n_toys=500, rng=np.random.default_rng(0))
    >>> found.value > 0.99
    True
    """
    null = ideal_toys(signal, expected, n_toys, rng, injected=0.0)
    return power(empirical_p(ideal_toys(signal, expected, n_toys, rng), null), level)


def _fraction(signal: Signal, fraction: float | None) -> float:
    """Return the fraction asked for, or the signal's own."""
    return signal.fraction if fraction is None else fraction
