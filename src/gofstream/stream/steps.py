"""The watched statistics of whole null streams at every step, for a fraction of the fits' cost.

Exposures are equal, so e^F of a stretch is the plain mean of its e^{f_i}, and one cumulative sum of
e^{f_i} - 1 over the batches serves every stretch as a difference. (`Track` may not subtract, for
its bits' sake; here nothing is taken up again within a stream.) Scores of `next` come from one
small product for each batch, with weights that are the same for every stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.scale import FAMILIES
from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.features import Features
from gofstream.ratio.solver import Fit
from gofstream.toys.growing import CAP

Floats = NDArray[np.float64]

#: e^F below this counts as this: rounding could leave it at or below zero.
LEAST = 1e-6


def stream_statistics(
    features: Features,
    fits: Sequence[Fit],
    expected: float,
    epoch: int,
    window: int,
    shrink: float = 0.25,
) -> Floats:
    """Give the watched statistics of whole streams at every step of their epoch.

    Parameters
    ----------
    features : the width at which the batches were fitted.
    fits : the fits of all batches, stream after stream, in any number of parts.
    expected : N(R) of a batch.
    epoch, window : H and K.
    shrink : the b of `next`.

    Returns
    -------
    ndarray
        (streams, 4, H), in the order of `FAMILIES`.
    """
    z, excess = (
        np.concatenate([f.z for f in fits], axis=1),
        np.concatenate([f.excess for f in fits]),
    )
    length = window + epoch
    known = _known(length, window, shrink)
    out = np.empty((len(excess) // length, len(FAMILIES), epoch))
    for k, t in enumerate(out):
        own = slice(k * length, (k + 1) * length)
        t[::2] = 2 * expected * _saturations(features, z[:, own], window)
        gained = _gained(fits, z[:, own], own.start, known)
        scores = 2 * (gained - expected * (known @ excess[own]))
        t[1] = np.cumsum(scores[window:, 0])
        t[3] = sum(scores[1 + d : 1 + d + epoch, d] for d in range(1, window))
    return out


def _known(length: int, window: int, shrink: float) -> Floats:
    """Weights (i, d, j) that turn e^{f_j} - 1 into e^G - 1 for batch i.

    G is what the d batches before i taught, or for d = 0 those before it in its epoch.
    """
    i, d, j = np.ogrid[:length, :window, :length]
    first = np.where(d == 0, window, i - d)
    return np.where((first <= j) & (j < i), shrink / np.maximum(i - first, 1), 0.0)


def _gained(fits: Sequence[Fit], z: Floats, first: int, known: Floats) -> Floats:
    """Σ G on the events of each batch of a stream, whose first has this number: (i, d)."""
    length = len(known)
    gained, begin = np.zeros(known.shape[:2]), 0
    for done in fits:
        count = len(done.excess)
        low, high = max(first, begin), min(first + length, begin + count)
        if low < high:
            # Batches learn from earlier ones only.
            who, learnt = np.arange(low - begin, high - begin), z[:, : high - first]
            for part, values in done.data.cross(learnt, who):
                f = to_numpy(values)
                np.minimum(f, f.dtype.type(CAP), out=f)
                np.exp(f, out=f)
                batches = np.arange(low - first, high - first)[part]
                weights = known[batches, :, : f.shape[1]].astype(f.dtype)
                # A batch whose G is unknown as yet has no weights, and gains log 1.
                rest = 1 - weights.sum(axis=2, keepdims=True)
                ratio = weights @ f
                ratio += rest
                gained[batches] += np.log(ratio, out=ratio).sum(axis=2, dtype=np.float64)
        begin += count
    return gained


def _saturations(features: Features, z: Floats, window: int) -> Floats:
    """Σ_R share [ (1 - e^F) + e^F F ] of the epoch and of the window: (2, H)."""
    length = z.shape[1]
    coefficients = np.ascontiguousarray(features.inward(z).T)
    epoch = length - window
    steps = np.arange(1, epoch + 1, dtype=coefficients.dtype)[:, None]
    summed = np.zeros((2, epoch))
    for psi, share in features.chunks(length):
        total = coefficients @ psi.T
        np.minimum(total, total.dtype.type(CAP), out=total)
        np.exp(total, out=total)
        total -= 1
        for k in range(1, length):  # np.add.accumulate takes ten times as long
            total[k] += total[k - 1]
        stretches = (
            (total[window:] - total[window - 1]) / steps,
            (total[window:] - total[:epoch]) / total.dtype.type(window),
        )
        for k, ratio in enumerate(stretches):
            ratio += 1
            np.maximum(ratio, ratio.dtype.type(LEAST), out=ratio)
            term = np.log(ratio)
            term *= ratio
            ratio -= 1
            term -= ratio
            weights = np.ones(len(psi), term.dtype) if share is None else share
            summed[k] += term @ weights
    return summed / features.n_reference if features.share is None else summed
