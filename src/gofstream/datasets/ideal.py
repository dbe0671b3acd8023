"""The best test there can be, where both hypotheses are known: what its median Z is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp
from scipy.stats import norm

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IdealTest:
    """How well the ideal test sees one signal.

    Attributes
    ----------
    name : str
        The signal.
    median_z : float
        Z-score of the median data set under the alternative.
    median_z_error : float
        One standard deviation of `median_z` from the finite number of toys.
    paper_z : float
        What the paper prints, for its own N(R).
    """

    name: str
    median_z: float
    median_z_error: float
    paper_z: float


def importance_median_z(t: FloatArray) -> tuple[float, float]:
    r"""Median Z-score of a likelihood-ratio test, from toys of the alternative alone.

    A 5 sigma tail is out of reach of toys drawn under the null. But :math:`e^{t/2}` is the
    likelihood ratio itself, so toys drawn under the alternative give the tail of the null:

    .. math:: P_0(t \ge t^*) = E_1\left[ 1\{t \ge t^*\}\, e^{-t/2} \right],
              \qquad t^* = \mathrm{median}_1(t), \qquad Z = \Phi^{-1}(1 - P_0) .

    Parameters
    ----------
    t : ndarray of shape (n_toys,)
        Twice the log likelihood ratio of each toy, at least two of them.

    Returns
    -------
    median_z, error : float
        The error is one standard deviation, from the finite number of toys.

    Examples
    --------
    One Gaussian measurement whose mean the signal moves by three standard deviations:

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(3.0, size=10_000)
    >>> z, error = importance_median_z(6 * x - 9)
    >>> abs(z - 3) < 4 * error < 0.1
    True
    """
    n_toys = len(t)
    if n_toys < 2:
        raise ValueError(f"n_toys must be at least 2, got {n_toys}")
    t_star = float(np.median(t))
    # Everything relative to e^(-t*/2), which may be smaller than the smallest double.
    weight = np.where(t >= t_star, np.exp(-0.5 * np.maximum(t - t_star, 0.0)), 0.0)
    log_p = math.log(weight.mean()) - 0.5 * t_star
    z = -float(ndtri_exp(log_p))

    # Delta method. Moving t* by d changes p by -e^(-t*/2) f1(t*) d, and one toy above the median
    # moves t* by 1/(2 n f1(t*)), one below by minus that. The unknown density f1 cancels, and a
    # toy counts as 1{t >= t*} (e^(-t/2) - e^(-t*/2)) up to a constant.
    influence = np.where(t >= t_star, weight - 1.0, 0.0)
    log_p_error = influence.std(ddof=1) / math.sqrt(n_toys) / weight.mean()
    # |dZ / dlog p| = p / phi(Z)
    return z, float(log_p_error * math.exp(log_p - float(norm.logpdf(z))))
