"""Windows: the shapes k(x) that a scan adds to the reference, and which events lie in them.

A bump is a Gaussian around a centre, cut off at three widths: that is its definition, not an
approximation, since its mean over the reference is taken of the same function. A tail is everything
beyond an edge, along one feature or away from the origin: it reaches where the reference has too
few rows for a bump. Most are zero for most events, so only pairs (event, window) that touch are
ever kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: A bump ends at this many widths, where it has fallen to 0.011.
REACH = 3.0
#: Where events lie in more than this part of the bumps, as the first few tell, it is faster to take
#: all distances than to ask a tree: from so many centres at a time, which the cache holds.
CROWDED, PILOT, TOGETHER = 0.03, 50, 16


class Inside(NamedTuple):
    """Pairs of events and windows, window after window.

    Attributes
    ----------
    rows : (pairs,) which event.
    k : (pairs,) the value of the window there.
    counts : (windows,) events in each window.
    """

    rows: Indices
    k: Floats
    counts: Indices

    def summed(self, values: Floats) -> Floats:
        """Add up one value per pair within each window.

        Examples
        --------
        >>> import numpy as np
        >>> pairs = Inside(np.array([4, 7, 4]), np.ones(3), np.array([2, 0, 1]))
        >>> pairs.summed(np.array([0.5, 0.25, 3.0])).tolist()
        [0.75, 0.0, 3.0]
        """
        found, some = np.zeros(len(self.counts)), self.counts > 0
        if len(values):
            starts = np.cumsum(self.counts) - self.counts
            found[some] = np.add.reduceat(values, starts[some])
        return found

    def log_sums(self, alpha: Floats) -> Floats:
        """Σ log(1 + α k) in each window, for every strength: α and the result (S, windows)."""
        found = np.empty(alpha.shape)
        for strength, each in enumerate(alpha):
            values = np.repeat(each, self.counts)
            values *= self.k
            found[strength] = self.summed(np.log1p(values, out=values))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Bumps:
    """Gaussians of one width, cut off at `REACH` widths.

    Attributes
    ----------
    centres : (windows, D) in scaled units.
    width : σ.
    """

    centres: Floats
    width: float

    def __len__(self) -> int:
        """Count the windows."""
        return len(self.centres)

    def inside(self, x: Floats) -> Inside:
        """Find the pairs of events and bumps that touch, and k there.

        Examples
        --------
        >>> import numpy as np
        >>> bumps = Bumps(np.array([[0.0], [10.0]]), 1.0)
        >>> bumps.inside(np.array([[1.0], [4.0], [0.0]])).k.round(4).tolist()
        [1.0, 0.6065]
        """
        rows, squared, counts = _neighbours(x, self.centres, REACH * self.width)
        return Inside(rows, np.exp(squared / (-2 * self.width**2)), counts)

    def to_bytes(self) -> bytes:
        """Write out what the windows are, for a digest."""
        return np.append(self.centres, self.width).tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Everything beyond an edge.

    Attributes
    ----------
    along : (windows,) which height, in rising order: from 0 on the features, from D on the same
        with the sign turned, and 2 D is the distance from the origin.
    edges : (windows,) k is 1 above, 0 elsewhere.
    """

    along: Indices
    edges: Floats

    def __len__(self) -> int:
        """Count the windows."""
        return len(self.edges)

    def inside(self, x: Floats) -> Inside:
        """Find which events lie beyond which edges.

        Examples
        --------
        >>> import numpy as np
        >>> tails = Tails(np.array([0, 1, 2]), np.array([2.0, 0.0, 2.5]))
        >>> tails.inside(np.array([[1.0], [-3.0], [4.0]])).counts.tolist()
        [1, 1, 2]
        """
        parts, counts = [], np.zeros(len(self), dtype=np.int64)
        height = heights(x)
        for line in np.unique(self.along):
            own = np.flatnonzero(self.along == line)
            order = np.argsort(height[:, line])
            first = np.searchsorted(height[order, line], self.edges[own], side="right")
            counts[own] = len(x) - first
            parts.append(order[_stretches(first, counts[own])])
        rows = np.concatenate(parts)
        return Inside(rows, np.ones(len(rows)), counts)

    def to_bytes(self) -> bytes:
        """Write out what the windows are, for a digest."""
        return self.along.tobytes() + self.edges.tobytes()


def heights(x: Floats) -> Floats:
    """Give what tails are cut in: (n, 2 D + 1)."""
    return np.hstack([x, -x, np.linalg.norm(x, axis=1, keepdims=True)])


def _neighbours(x: Floats, centres: Floats, radius: float) -> tuple[Indices, Floats, Indices]:
    """Find the events within a radius of each centre: rows, squared distances, and how many."""
    if x.shape[1] == 1:  # on a line sorting is several times faster than a tree
        order = np.argsort(x[:, 0])
        line, points = x[order, 0], centres[:, 0]
        first = np.searchsorted(line, points - radius, side="left")
        counts = np.searchsorted(line, points + radius, side="right") - first
        places = _stretches(first, counts)
        return order[places], (line[places] - np.repeat(points, counts)) ** 2, counts
    if _share_within(x[:PILOT], centres, radius) > CROWDED:
        found = [
            _measured(x, centres[first : first + TOGETHER], radius)
            for first in range(0, len(centres), TOGETHER)
        ]
        rows, squared, counts = (np.concatenate(part) for part in zip(*found, strict=True))
        return rows, squared, counts
    pairs = KDTree(centres).sparse_distance_matrix(KDTree(x), radius, output_type="ndarray")
    # Few windows have small numbers, which numpy sorts in linear time.
    order = np.argsort(pairs["i"].astype(np.min_scalar_type(len(centres))), kind="stable")
    counts = np.bincount(pairs["i"], minlength=len(centres))
    return pairs["j"][order], pairs["v"][order] ** 2, counts


def _measured(x: Floats, centres: Floats, radius: float) -> tuple[Indices, Floats, Indices]:
    """Take all distances between events and a few centres."""
    squared = cdist(centres, x, "sqeuclidean")
    near = squared <= radius**2
    return np.nonzero(near)[1], squared[near], np.count_nonzero(near, axis=1)


def _share_within(x: Floats, centres: Floats, radius: float) -> float:
    return float(np.mean(cdist(centres, x, "sqeuclidean") <= radius**2)) if len(x) else 0.0


def _stretches(first: Indices, counts: Indices) -> Indices:
    """Write out first, first + 1, … of each stretch, one after another."""
    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(first - starts, counts))
