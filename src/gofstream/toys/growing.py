"""The six statistics of many toys, after every number of batches, at the cost of a pass or two.

Two facts make this cheap. e^F is linear in the e^{f_i}, so the reference terms of all statistics
but `sat` follow from Σ_R share (e^{f_i} - 1), which each fit has already computed; and the running
sum of N_i e^{f_i} over the batches serves every number of batches. What is left is one sweep over
the reference for `sat`, and small products over the data. `gofstream.statistics` holds the
definitions; this computes the same numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gofstream.execution import share_out
from gofstream.ratio.arrays import buffer, product, to_numpy
from gofstream.ratio.features import Features
from gofstream.ratio.rows import Stretch
from gofstream.ratio.solver import Fit
from gofstream.statistics import STATISTICS

Floats = NDArray[np.float64]

#: e^f is capped here, far above any ratio that data can support, so that float32 holds the sums.
CAP = 60.0


def growing_statistics(
    features: Features, fit: Fit, expected: Floats, shrink: float = 0.25
) -> Floats:
    """Give every statistic of every toy after 1, 2, … N_b batches.

    Parameters
    ----------
    features : the width at which the block was fitted.
    fit : the fits of whole toys, one after another, N_b batches each.
    expected : (N_b,) N_i(R), the same for every toy.
    shrink : the b of `next`.

    Returns
    -------
    ndarray
        (toys, 6, N_b), statistics in the order of `STATISTICS`.
    """
    count = len(expected)
    toys = fit.z.shape[1] // count
    totals = np.cumsum(expected)
    excess = fit.excess.reshape(toys, count)
    mean_excess = np.cumsum(expected * excess, axis=1) / totals
    saturation = _saturation(features, fit, expected)
    out = np.empty((toys, len(STATISTICS), count))
    for toy in range(toys):
        own, on_data, predicted = _data_sums(fit, toy, expected, shrink)
        singles = 2 * (own - expected * excess[toy])
        tested = np.array([on_data[: k + 1, k].sum() for k in range(count)])
        steps = 2 * (predicted[1:] - expected[1:] * shrink * mean_excess[toy, :-1])
        values = {
            "single": np.full(count, singles[0]),
            "sum": np.cumsum(singles),
            "all": 2 * (tested - totals * mean_excess[toy]),
            "one": 2 * (on_data[0] - expected[0] * mean_excess[toy]),
            "sat": 2 * totals / np.arange(1, count + 1) * (saturation[toy] - mean_excess[toy]),
            "next": np.concatenate([[0.0], np.cumsum(steps)]),
        }
        out[toy] = [values[name] for name in STATISTICS]
    return out


def _data_sums(
    fit: Fit, toy: int, expected: Floats, shrink: float
) -> tuple[Floats, Floats, Floats]:
    """Σ f_j, Σ F_k for every k, and Σ G_j, on the events of each batch j of one toy."""
    count = len(expected)
    who = np.arange(toy * count, (toy + 1) * count)
    # Row k of this triangle turns the e^{f_i} into e^{F_k}.
    shares = np.tril(expected / np.cumsum(expected)[:, None])
    coefficients, stretches = fit.data.coefficients(fit.z[:, who]), fit.data.stretches(who)

    def sums(stretch: Stretch) -> tuple[Floats, Floats, Floats]:
        which = np.arange(count)[stretch.columns]
        each = np.arange(len(which))
        own, predicted = np.zeros((2, len(which)))
        on_data = np.zeros((len(which), count))
        for values in fit.data.cross_in(stretch, coefficients):
            f = to_numpy(values)
            own += f[each, which].sum(axis=1, dtype=np.float64)
            ratio = shares.astype(f.dtype) @ np.exp(np.minimum(f, f.dtype.type(CAP)))
            on_data += np.log(ratio).sum(axis=2, dtype=np.float64)
            shrunk = (1 - shrink) + shrink * ratio[each, which - 1]
            predicted += np.log(shrunk).sum(axis=1, dtype=np.float64)
        return own, on_data, predicted

    found = (np.zeros(count), np.zeros((count, count)), np.zeros(count))
    done = share_out(sums, stretches, fit.data.hands)
    for stretch, parts in zip(stretches, done, strict=True):
        for whole, part in zip(found, parts, strict=True):
            whole[stretch.columns] += part
    found[2][0] = 0  # nothing was known before the first batch
    return found


def _saturation(features: Features, fit: Fit, expected: Floats) -> Floats:
    """Σ_R share e^F F for each toy and number of batches: (toys, N_b)."""
    count = len(expected)
    toys = fit.z.shape[1] // count
    xp, where = features.namespace
    # Batch-major order: the running sum over batches then adds whole planes.
    ordered = fit.z.reshape(-1, toys, count).transpose(0, 2, 1).reshape(-1, toys * count)
    own = np.ascontiguousarray(to_numpy(features.inward(ordered)).T)
    z, dtype = xp.asarray(own, device=where), own.dtype
    weight = expected.astype(dtype)[:, None, None]
    totals = np.cumsum(expected).astype(dtype)[:, None, None]

    def sums(strip: slice) -> Floats:
        summed, start, out = np.zeros(toys * count), strip.start, None
        for psi, share in features.chunks(toys * count, strip):
            if out is None or out.shape[1] != psi.shape[0]:
                out = buffer((len(own), psi.shape[0]), psi)
            f = to_numpy(product(z, xp.matrix_transpose(psi), out))
            if fit.labels is not None:  # a row outside the reference has f = 0, and adds nothing
                planes = f.reshape(count, toys, -1)
                planes *= fit.labels.kept[start : start + len(psi), ::count].T
                start += len(psi)
            f = np.minimum(f, dtype.type(CAP), out=f if f.flags.writeable else None)
            ratio = np.exp(f, out=f).reshape(count, toys, -1)
            ratio *= weight
            for k in range(1, count):  # np.add.accumulate takes ten times as long
                ratio[k] += ratio[k - 1]
            ratio /= totals
            ratio *= np.log(ratio)
            flat = ratio.reshape(toys * count, -1)
            # `matmul` would keep the interpreter's lock: its result is small.
            weights = np.ones(flat.shape[1], dtype) if share is None else to_numpy(share)
            summed += np.dot(flat, weights)
        return summed

    summed = np.zeros(toys * count)
    for part in share_out(sums, features.strips(), fit.data.hands):
        summed += part
    if features.share is None:
        summed /= features.n_reference if fit.labels is None else fit.labels.n_reference
    return summed.reshape(count, toys).T
