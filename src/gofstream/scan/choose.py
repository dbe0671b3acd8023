"""Which windows a scan looks at: chosen from part of the reference, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from gofstream.scan.windows import REACH, Bumps, Tails, heights

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Rows whose distances from each other say what is narrow and what is wide.
SUBSET = 1000
#: Widths halve from the 95 % quantile of distances down to this part of the 5 % quantile.
FINEST = 0.05
#: Centres lie so many widths apart, or more: up to twice as many. With 0.7, of 182 bulk peaks of
#: EXPO-1D above three sigma 20 % were placed more than a width off, mostly by the grid; with 0.5 it
#: was 9 % of 58.
APART = 0.5
#: A bump has at least so many other rows in it, of those that windows are chosen from.
LEAST = 3
#: Bumps of one width, at most; and how many of them an event touches, on average and at most.
MOST, TOUCHED = 2000, 100
#: Rows that are put in order of distance from all before them.
SPREAD = 4000


def choose_bumps(rows: Floats) -> Iterator[Bumps]:
    """Choose bumps of every width.

    Centres are rows that lie half a width or more apart, so that sparse regions have theirs. Where
    these are too many, as in several dimensions, half of them are the rows farthest apart and half
    are rows at random, which lie where the reference is dense.

    Parameters
    ----------
    rows : (n, D) part of the scaled reference, in random order.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).exponential(size=(2000, 1))
    >>> [len(bumps) for bumps in choose_bumps(x)][:6]
    [4, 8, 15, 25, 48, 85]
    """
    distances = pdist(rows[:SUBSET])
    if not distances.any():
        return
    narrow, wide = np.quantile(distances[distances > 0], (0.05, 0.95))
    order, apart = farthest_first(rows, SPREAD)
    # How wide a bump around each row has to be, to have enough others in it.
    away, _ = KDTree(rows).query(rows, [min(LEAST + 1, len(rows))])
    fits = np.asarray(away)[:, 0] / REACH
    for step in range(int(np.log2(wide / (FINEST * narrow))) + 1):
        width = float(wide / 2**step)
        content = max(float(np.mean(distances <= REACH * width)), 1 / len(distances))
        most = min(MOST, max(1, int(TOUCHED / content)))
        spread = order[(apart >= APART * width) & (fits[order] <= width)]
        if len(spread) > most:
            dense = np.flatnonzero(fits[:SPREAD] <= width)
            spread = np.unique(np.concatenate([spread[: most // 2], dense[: most - most // 2]]))
        if len(spread):
            # In order: on a line, places that rise are looked up in half the time.
            yield Bumps(rows[spread[np.argsort(rows[spread, 0])]], width)


def farthest_first(rows: Floats, most: int) -> tuple[Indices, Floats]:
    """Put rows in order: each is the farthest from all before it; and how far that is.

    Examples
    --------
    >>> import numpy as np
    >>> farthest_first(np.array([[0.0], [1.0], [5.0], [2.0]]), 3)
    (array([0, 2, 3]), array([inf,  5.,  2.]))
    """
    count = min(most, len(rows))
    order, apart = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
    size = np.sum(rows**2, axis=1)
    nearest = np.full(len(rows), np.inf)
    for k in range(1, count):
        last = order[k - 1]
        np.minimum(nearest, size + size[last] - 2 * (rows @ rows[last]), out=nearest)
        order[k] = nearest.argmax()
        apart[k] = nearest[order[k]]
    return order, np.sqrt(np.maximum(apart, 0.0))


def choose_tails(rows: Floats) -> Tails:
    """Choose edges beyond which lie a half, a quarter, an eighth … of the rows, down to one.

    Along every feature on either side, and away from the origin. The first window is everything:
    it tests the rate.

    Examples
    --------
    >>> import numpy as np
    >>> choose_tails(np.arange(4.0)[:, None]).edges.tolist()
    [-inf, 1.0, 2.0, -2.0, -1.0, 1.0, 2.0]
    """
    height = np.sort(heights(rows), axis=0)[::-1]
    beyond = len(rows) >> np.arange(1, len(rows).bit_length())
    along, edges = [0], [-np.inf]
    for line in range(height.shape[1]):
        # Rows may coincide; an edge has some beyond it.
        found = np.unique(height[beyond, line])
        found = found[found < height[0, line]]
        edges += found.tolist()
        along += [line] * len(found)
    return Tails(np.array(along), np.array(edges))
