"""Candidate centres, their reduction, and the events no centre can see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from gofstream.ratio.kernel import gaussian, log_gaussian

Floats = NDArray[np.float64]

#: An event farther than this many widths from every centre is invisible to f: k < e^-4.5 ≈ 0.011.
REACH = 3.0

#: Residual variances, in units of λ, at which the reduction stops (see `reduce_centres`).
FINE, COARSE = 1e-6, 0.1
#: Models up to this rank are reduced with the fine tolerance only.
FINE_RANK = 200


@dataclass(frozen=True, slots=True)
class Centres:
    """The r centres that carry a model, with the Cholesky factor of their kernel matrix."""

    points: Floats
    chol: Floats

    @property
    def rank(self) -> int:
        """Number of centres kept."""
        return len(self.points)


def default_count(n_total: float, factor: float = 1.0) -> int:
    """M = c √N, the rule of the paper (section 2.4)."""
    return max(2, math.ceil(factor * math.sqrt(n_total)))


def draw_candidates(
    reference: Floats,
    count: int,
    rng: np.random.Generator,
    *,
    share: Floats | None = None,
    data: Floats | None = None,
) -> Floats:
    """Draw candidate centres without replacement.

    Parameters
    ----------
    reference : (N_R, D) scaled reference.
    count : how many; never more than there are rows.
    share : normalised event weights of the reference; rows are then drawn in proportion to them.
    data : if given, centres come from reference and data pooled, as published. That looks at the
        data, so it has to be repeated inside every pseudo-experiment (METHOD §4).
    """
    pool = reference if data is None else np.concatenate([reference, data])
    chance = None
    if share is not None:
        # A data event counts as a reference event of average weight does.
        extra = 0 if data is None else len(data)
        chance = np.append(share, np.full(extra, 1 / len(reference)))
        chance = chance / chance.sum()
        count = min(count, int(np.count_nonzero(chance)))
    rows = rng.choice(len(pool), size=min(count, len(pool)), replace=False, p=chance)
    return np.ascontiguousarray(pool[np.sort(rows)], dtype=np.float64)


def reduce_centres(candidates: Floats, width: float, penalty: float) -> Centres:
    """Keep the candidates that matter: pivoted Cholesky of their kernel matrix.

    The pivots are nested: each is the candidate least well represented by those before it, and
    its residual variance bounds the square, at the candidates, of every function of unit norm that
    is dropped. (Not beyond the outermost candidates: there even the finest tolerance that double
    precision allows does not settle f.)

    A function of norm one costs λN/2 in J, so the residual is compared with λ: small models (rank
    up to 200) go down to 1e-6 λ, about as far as double precision reaches; beyond that the cost
    grows with the rank, and pivots below 0.1 λ are dropped.
    """
    size = len(candidates)
    kernel = np.asfortranarray(gaussian(candidates, candidates, width))
    floor = 4 * size * float(np.finfo(np.float64).eps)
    factor, pivots, rank, _ = lapack.dpstrf(
        kernel, tol=max(FINE * penalty, floor), lower=1, overwrite_a=1
    )
    residuals = np.diagonal(factor)[:rank] ** 2
    coarse = int(np.count_nonzero(residuals > COARSE * penalty))
    rank = max(coarse, min(rank, FINE_RANK))
    chol = np.tril(factor[:rank, :rank])
    return Centres(candidates[pivots[:rank] - 1], np.ascontiguousarray(chol))


def uncovered(
    events: Floats, centres: Floats, width: float, *, rows: int = 4096
) -> NDArray[np.bool_]:
    """Which events lie farther than three widths from every centre, where f cannot see them."""
    limit = -(REACH**2) / 2
    missed = np.empty(len(events), dtype=bool)
    for start in range(0, len(events), rows):
        part = slice(start, start + rows)
        missed[part] = log_gaussian(events[part], centres, width).max(axis=1) < limit
    return missed


def covering_centres(events: Floats, centres: Floats, width: float) -> Floats:
    """Add centres until no event is uncovered; return only the added ones.

    Uncovered events become centres in their own order, each covering its neighbourhood. This
    looks at the data, so it has to be repeated inside every pseudo-experiment (METHOD §4).
    """
    left = events[uncovered(events, centres, width)]
    added: list[Floats] = []
    while len(left):
        added.append(left[:1])
        left = left[1:][uncovered(left[1:], left[:1], width)]
    return np.concatenate(added) if added else np.empty((0, centres.shape[1]))
