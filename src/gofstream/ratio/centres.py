"""Candidate centres, their reduction, and the events no centre can see."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from gofstream.errors import GofstreamWarning
from gofstream.ratio.arrays import Points
from gofstream.ratio.kernel import gaussian, log_gaussian

Floats = NDArray[np.float64]

#: An event farther than this many widths from every centre is invisible to f: k < e^-4.5 ≈ 0.011.
REACH = 3.0

#: Residual variances, in units of λ, at which the reduction stops (see `reduce_centres`).
FINE, COARSE, COARSEST = 1e-6, 0.1, 10.0
#: Models up to the first rank are reduced with the fine tolerance only, up to the second with the
#: coarse one.
FINE_RANK, COARSE_RANK = 200, 3000
#: Up to so many candidates their whole kernel matrix is made; beyond, centres are chosen in blocks
#: of at most so many.
DENSE, BLOCK = 10_000, 256
#: Candidates that are worked on at a time, meanwhile.
SLAB = 4096
#: A block goes on while the next of its centres is represented this much worse, at least, than the
#: worst of all was at its beginning.
SPREAD = 0.25


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
    reference: Points,
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
        data, so it has to be repeated inside every pseudo-experiment.
    """
    own, extra = len(reference), 0 if data is None else len(data)
    chance = None
    if share is not None:
        # A data event counts as a reference event of average weight does.
        chance = np.append(share, np.full(extra, 1 / own))
        chance = chance / chance.sum()
        count = min(count, int(np.count_nonzero(chance)))
    rows = np.sort(rng.choice(own + extra, size=min(count, own + extra), replace=False, p=chance))
    drawn = reference[rows[rows < own]]
    return drawn if data is None else np.concatenate([drawn, data[rows[rows >= own] - own]])


def reduction_bytes(candidates: int, rank: int) -> int:
    """Memory that `reduce_centres` takes to find so many centres."""
    if candidates <= DENSE:
        return 8 * candidates * (2 * candidates + 4)
    # A column for each centre; those of a block, twice while they are joined to the others, and
    # what they are made of; the factor.
    return 8 * (candidates * (rank + 4 * BLOCK) + rank**2)


def _most(candidates: int, memory: int) -> int:
    """Centres that can be found among so many candidates within so much memory."""
    room = memory // 8 - 4 * BLOCK * candidates
    return max(0, (math.isqrt(candidates**2 + 4 * max(0, room)) - candidates) // 2)


def reduce_centres(
    candidates: Floats, width: float, penalty: float, *, memory: int = 4 * 1024**3
) -> Centres:
    """Keep the candidates that matter: pivoted Cholesky of their kernel matrix.

    The pivots are nested: each is the candidate least well represented by those before it, and
    its residual variance bounds the square, at the candidates, of every function of unit norm that
    is dropped. (Not beyond the outermost candidates: there even the finest tolerance that double
    precision allows does not settle f.)

    A function of norm one costs λN/2 in J, so the residual is compared with λ: small models (rank
    up to 200) go down to 1e-6 λ, about as far as double precision reaches. Beyond that the cost
    grows with the rank: pivots below 0.1 λ are dropped, and after the first 3000 those below 10 λ.

    More than 10 000 candidates are reduced without their kernel matrix, down to 0.1 λ at any rank
    up to 3000, and to as many centres as the memory has room for; if more were needed, a warning
    tells what is left.
    """
    size = len(candidates)
    if size > DENSE:
        return _in_blocks(candidates, width, penalty, min(DENSE, _most(size, memory)))
    kernel = np.asfortranarray(gaussian(candidates, candidates, width))
    floor = 4 * size * float(np.finfo(np.float64).eps)
    factor, pivots, rank, _ = lapack.dpstrf(
        kernel, tol=max(FINE * penalty, floor), lower=1, overwrite_a=1
    )
    residuals = np.diagonal(factor)[:rank] ** 2
    coarse, coarsest = (
        int(np.count_nonzero(residuals > each * penalty)) for each in (COARSE, COARSEST)
    )
    rank = max(min(rank, FINE_RANK), min(coarse, COARSE_RANK), coarsest)
    chol = np.tril(factor[:rank, :rank])
    return Centres(candidates[pivots[:rank] - 1], np.ascontiguousarray(chol))


def _in_blocks(candidates: Floats, width: float, penalty: float, most: int) -> Centres:
    """Choose centres without the kernel matrix of all candidates: only the columns of the chosen.

    Of the candidates that are represented worst, a block, those are taken that do not represent
    each other. The work is the product with the columns so far, M r² in all.
    """
    size, rank = len(candidates), 0
    residual, columns = np.ones(size), list[Floats]()
    chosen: list[int] = []

    def left(which: NDArray[np.int64], among: NDArray[np.int64] | slice) -> Floats:
        """Kernels of some candidates at others, less what the chosen centres represent."""
        kernel = gaussian(candidates[among], candidates[which], width)
        for part in columns:
            kernel -= part[among] @ part[which].T
        return np.asarray(kernel)

    while True:
        tolerance = (COARSE if rank < COARSE_RANK else COARSEST) * penalty
        worst = np.argsort(-residual, kind="stable")[:BLOCK]
        if rank == most or residual[worst[0]] <= tolerance:
            break
        worst = worst[residual[worst] > tolerance]
        rest = left(worst, worst)
        # What was subtracted from the residuals is rounded, and far-out candidates do not have a
        # kernel of exactly one with themselves: what is left counts, or this would not end.
        residual[worst] = np.clip(np.diagonal(rest), 0.0, residual[worst])
        if (largest := residual[worst].max()) <= tolerance:
            continue
        factor, pivots, count, _ = lapack.dpstrf(
            np.asfortranarray(rest), tol=max(tolerance, SPREAD * largest), lower=1
        )
        count = min(count, most - rank)
        taken = worst[pivots[:count] - 1]
        lower = np.tril(factor[:count, :count])
        found = np.empty((size, count))
        for start in range(0, size, SLAB):
            part = slice(start, start + SLAB)
            found[part] = solve_triangular(
                lower, left(taken, part).T, lower=True, check_finite=False
            ).T
            residual[part] -= np.sum(found[part] ** 2, axis=1)
        residual = np.maximum(residual, 0.0, out=residual)
        residual[taken] = 0.0
        # Few wide products are faster than many narrow ones.
        if columns and columns[-1].shape[1] < BLOCK:
            found = np.hstack([columns.pop(), found])
        columns.append(found)
        chosen += taken.tolist()
        rank += count
    if residual.max() > tolerance:
        warnings.warn(
            f"{rank} centres leave {residual.max():.1g} of the variance of some candidate (width "
            f"{width:g}), where {tolerance:.1g} was wanted: take fewer candidates, or more memory",
            GofstreamWarning,
            stacklevel=2,
        )
    chol, first = np.zeros((rank, rank)), 0
    while columns:
        panel = columns.pop(0)
        stop = first + panel.shape[1]
        chol[first:, first:stop] = panel[chosen[first:]]
        chol[first:stop, first:stop] = np.tril(chol[first:stop, first:stop])
        first = stop
    return Centres(candidates[chosen], chol)


def uncovered(
    events: Points, centres: Floats, width: float, *, rows: int = 4096
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
    looks at the data, so it has to be repeated inside every pseudo-experiment.
    """
    left = events[uncovered(events, centres, width)]
    added: list[Floats] = []
    while len(left):
        added.append(left[:1])
        left = left[1:][uncovered(left[1:], left[:1], width)]
    return np.concatenate(added) if added else np.empty((0, centres.shape[1]))
