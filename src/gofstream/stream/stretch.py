"""What a stretch of batches says: kept models on the reference, and on events of the next batch.

Models are kept as kernel coefficients. On the reference they are evaluated through the features, in
their precision, and everything after that is in double precision: `sat` of many batches is a small
difference. Sums over the reference are taken in an order that no number of threads changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from gofstream.ratio.features import Features
from gofstream.ratio.kernel import gaussian
from gofstream.toys.growing import CAP

Floats = NDArray[np.float64]


def ratios(features: Features, coefficients: Floats) -> Floats:
    """Evaluate e^f on the reference, for each of some models (m, r): (m, N_R).

    The same models, as many at a time, always give the same bits.
    """
    own = _whitened(features, coefficients)
    if features.made is None:
        return _capped(own @ features.psi.T)
    return np.concatenate([_capped(own @ rows.T) for rows, _ in features.chunks(len(own))], axis=1)


def mean(features: Features, values: Floats) -> float:
    """Σ_R share values."""
    share = features.share
    return float(values.mean() if share is None else (share * values).sum())


def saturated(features: Features, summed: Floats, exposure: float, batches: float) -> float:
    """Give `sat` of so many batches, from Σ N_i e^{f_i} on the reference."""
    return 2 * exposure / batches * mean(features, _saturation(summed / exposure))


def saturations(features: Features, coefficients: Floats, expected: Floats) -> Floats:
    """Give `sat` of the last 1, 2, … of some batches."""
    count = len(expected)
    latest, z = expected[::-1], _whitened(features, coefficients[::-1])
    exposures, summed = np.cumsum(latest), np.zeros(count)
    for psi, share in features.chunks(max(1, count)):
        weighted = latest[:, None] * _capped(z @ psi.T)
        term = _saturation(np.cumsum(weighted, axis=0) / exposures[:, None])
        summed += term.sum(axis=1) if share is None else (term * share).sum(axis=1)
    if features.share is None:
        summed /= features.n_reference
    return np.asarray(2 * exposures / np.arange(1, count + 1) * summed)


def following_scores(
    features: Features,
    coefficients: Floats,
    expected: Floats,
    excess: Floats,
    events: Floats,
    events_expected: float,
    shrink: float,
) -> Floats:
    """Score a batch by what the batches before it taught, from each of them on.

    Parameters
    ----------
    coefficients, expected, excess : of the m batches before it, oldest first; `excess` is
        Σ_R share (e^f - 1).
    events, events_expected : the batch, scaled, and its N(R).
    shrink : the b of `next`.

    Returns
    -------
    ndarray
        (m,) the term of `next` for the batch, by the batch at which the stretch begins.
    """
    exposures = np.cumsum(expected[::-1])
    learnt_excess = np.cumsum((expected * excess)[::-1]) / exposures
    kernel = gaussian(events, features.centres, features.width)
    weighted = _capped(kernel @ coefficients[::-1].T) * expected[::-1]
    learnt = np.cumsum(weighted, axis=1) / exposures
    gained = np.log1p(shrink * (learnt - 1)).sum(axis=0)
    return np.asarray(2 * (gained - events_expected * shrink * learnt_excess)[::-1])


def _whitened(features: Features, coefficients: Floats) -> Floats:
    """Turn kept kernel coefficients into those of the rows of features, in their precision."""
    if features.made is not None:
        return np.asarray(coefficients, dtype=features.dtype)
    z = solve_triangular(features.to_kernel, coefficients.T, check_finite=False)
    return np.ascontiguousarray(z.T).astype(features.dtype)


def _capped(f: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(f.astype(np.float64), CAP)))


def _saturation(ratio: Floats) -> Floats:
    """(1 - e^F) + e^F F, from e^F, which may be so small as to be zero."""
    safe = np.maximum(ratio, np.finfo(np.float64).tiny)
    return np.asarray(safe * np.log(safe) - (safe - 1))
