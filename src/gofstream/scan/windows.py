"""Windows: the shapes k(x) that a scan adds to the reference, and how many events lie in them.

A bump is a Gaussian around a centre in six steps, rings half a width wide, and ends at three
widths: that is its definition, not an approximation, since its mean over the reference is taken of
the same function. A tail is everything beyond an edge, along one feature or away from the origin:
it reaches where the reference has too few rows for a bump. As k has the same value all over a ring,
events need only be counted: whatever is asked of them later follows from the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: A bump ends at this many widths, where the Gaussian has fallen to 0.011.
REACH = 3.0
#: Rings of a bump; k is that of the Gaussian halfway through each.
RINGS = 6
LEVELS = np.exp(-(((np.arange(RINGS) + 0.5) * REACH / RINGS) ** 2) / 2)
#: Distances of events and centres taken at a time, which the cache holds.
TOGETHER = 65_536
#: In so few dimensions a tree finds the events of narrow bumps faster than all distances are taken:
#: where less than this part of the events, as the first few tell, lie in one.
FLAT, SPARSE, PILOT = 3, 0.05, 50


@dataclass(frozen=True, slots=True, eq=False)
class Bumps:
    """Gaussians of one width in steps, cut off at `REACH` widths.

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

    @property
    def levels(self) -> Floats:
        """The value of k in each ring: (`RINGS`,)."""
        return LEVELS

    def count(self, x: Floats, weights: Floats | None = None) -> Floats:
        """Count events, or add up their weights, in each ring of each window: (`RINGS`, windows).

        Examples
        --------
        >>> import numpy as np
        >>> bumps = Bumps(np.array([[0.0], [10.0]]), 1.0)
        >>> bumps.count(np.array([[1.1], [4.0], [0.1]]))[:4].tolist()
        [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
        """
        radius = REACH * self.width
        if self.centres.shape[1] == 1:
            return _on_a_line(x[:, 0], self.centres[:, 0], radius, weights)
        if self.centres.shape[1] <= FLAT and self._share(x[:PILOT]) < SPARSE:
            return self._by_tree(x, weights)
        return self._by_distance(x, weights)

    def _share(self, x: Floats) -> float:
        """Tell which part of the pairs of some events and all windows touch."""
        return float(self._by_distance(x, None).sum()) / max(1, len(x) * len(self))

    def _by_tree(self, x: Floats, weights: Floats | None) -> Floats:
        """Find the pairs that touch in trees of centres and events."""
        pairs = KDTree(self.centres).sparse_distance_matrix(
            KDTree(x), REACH * self.width, output_type="ndarray"
        )
        return _tally(pairs["i"], pairs["j"], pairs["v"] / self.width, len(self), weights)

    def _by_distance(self, x: Floats, weights: Floats | None) -> Floats:
        """Take all squared distances, |c|² + |x|² - 2 c·x in one product, for some at a time."""
        found = np.zeros((RINGS, len(self)))
        if not len(x):
            return found
        right = np.vstack([x.T, np.ones(len(x)), np.sum(x**2, axis=1)])
        left = np.column_stack(
            [-2 * self.centres, np.sum(self.centres**2, axis=1), np.ones(len(self))]
        )
        step = max(1, TOGETHER // len(x))
        for first in range(0, len(self), step):
            some = left[first : first + step]
            squared = np.dot(some, right).ravel()
            near = np.flatnonzero(squared <= (REACH * self.width) ** 2)
            away = np.sqrt(np.maximum(squared[near], 0.0)) / self.width
            own, rows = np.divmod(near, len(x))
            found[:, first : first + step] = _tally(own, rows, away, len(some), weights)
        return found

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

    @property
    def levels(self) -> Floats:
        """A tail is one ring; the others are empty, and k is 0 there."""
        return np.array([1.0] + [0.0] * (RINGS - 1))

    def count(self, x: Floats, weights: Floats | None = None) -> Floats:
        """Count the events beyond each edge, or add up their weights: (`RINGS`, windows).

        Examples
        --------
        >>> import numpy as np
        >>> tails = Tails(np.array([0, 1, 2]), np.array([2.0, 0.0, 2.5]))
        >>> tails.count(np.array([[1.0], [-3.0], [4.0]]))[0].tolist()
        [1.0, 1.0, 2.0]
        """
        found, height = np.zeros((RINGS, len(self))), heights(x)
        for line in np.unique(self.along):
            own = self.along == line
            order = np.argsort(height[:, line])
            places = np.searchsorted(height[order, line], self.edges[own], side="right")
            if weights is None:
                found[0, own] = len(x) - places
            else:  # added up from the far end, where they may be tiny beside all others
                beyond = np.append(np.cumsum(weights[order[::-1]])[::-1], 0.0)
                found[0, own] = beyond[places]
        return found

    def to_bytes(self) -> bytes:
        """Write out what the windows are, for a digest."""
        return self.along.tobytes() + self.edges.tobytes()


def heights(x: Floats) -> Floats:
    """Give what tails are cut in: (n, 2 D + 1)."""
    return np.hstack([x, -x, np.linalg.norm(x, axis=1, keepdims=True)])


def _on_a_line(x: Floats, centres: Floats, radius: float, weights: Floats | None) -> Floats:
    """Count in one dimension, where a ring is two intervals."""
    order = np.argsort(x)
    edges = centres[:, None] + radius * np.arange(-RINGS, RINGS + 1) / RINGS
    places = np.searchsorted(x[order], edges, side="right")
    if weights is None:
        parts = np.diff(places, axis=1)
    else:
        # Each interval is added up by itself: differences of running sums would lose small weights
        # beside large ones. An empty one gives its first event, which it does not have.
        own = np.append(weights[order], 0.0)
        parts = np.add.reduceat(own, places.ravel()).reshape(places.shape)[:, :-1]
        parts = np.where(np.diff(places, axis=1) > 0, parts, 0.0)
    inner_first = parts[:, RINGS - 1 :: -1] + parts[:, RINGS:]
    return np.asarray(inner_first.T, dtype=np.float64)


def _tally(
    windows: Indices, rows: Indices, away: Floats, count: int, weights: Floats | None
) -> Floats:
    """Count pairs by ring and window, given how many widths they are apart."""
    ring = np.minimum((away * (RINGS / REACH)).astype(np.int64), RINGS - 1)
    own = None if weights is None else weights[rows]
    found = np.bincount(ring * count + windows, own, minlength=RINGS * count)
    return found.reshape(RINGS, count).astype(np.float64)
