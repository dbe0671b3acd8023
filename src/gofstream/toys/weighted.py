"""Toys from a weighted pool.

Row i is expected q_i = N v_i / Σv times in a toy of N events, and the mean of every toy must follow
these numbers. Two easy ways do not: drawing without replacement in proportion to weight, since
heavy rows run out; and keeping each row with probability min(q_i, 1), since q_i may exceed one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import ROWS_PER_EVENT
from gofstream.errors import InputError
from gofstream.sample import Sample

Floats = NDArray[np.float64]

#: A pool smaller than this many data sets makes toys that overlap noticeably: a warning.
POOL_WARN = 30
#: Smaller than this, toys are so alike that the null is too narrow: refused.
POOL_REFUSE = 10
#: A row expected more often than this in a toy fluctuates too little from toy to toy: a count of
#: such rows has variance q (1 - q) at most, where data have q.
HEAVY = 0.2
#: Such rows may carry this part of the total weight.
HEAVY_PART = 1e-3
#: Columns, and rows, that describe where heavy rows are.
NAMED_COLUMNS, NAMED_ROWS = 4, 10_000


def draw_rows(share: Floats, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw ``total`` rows so that row i is expected ``total * share[i]`` times.

    Systematic sampling in a random order: points at equal distances, with a random start, on a line
    where each row takes its share. A row expected less than once is drawn at most once.

    Parameters
    ----------
    share : weights that sum to one.

    Examples
    --------
    >>> rows = draw_rows(np.array([0.5, 0.25, 0.25]), 4, np.random.default_rng(1))
    >>> np.bincount(rows).tolist()
    [2, 1, 1]
    """
    order = rng.permutation(len(share))
    ends = np.cumsum(share[order])
    points = (rng.uniform() + np.arange(total)) * (ends[-1] / max(total, 1))
    # Rounding must not carry the last point beyond the last row that has a weight.
    last = np.searchsorted(ends, ends[-1])
    drawn = order[np.minimum(np.searchsorted(ends, points, side="right"), last)]
    return np.asarray(drawn[rng.permutation(total)])


def rows_for_pool(sample: Sample, expected: float) -> int:
    """Count the rows of such a sample that make a good pool for ``expected`` events.

    Their effective number is `POOL_WARN` times the events, and few are heavy.

    Examples
    --------
    >>> rows_for_pool(Sample.from_array(np.arange(5.0)), 10.0)
    300
    """
    rows_per_event = len(sample) / sample.effective_size
    rows = POOL_WARN * expected * rows_per_event
    if sample.weights is not None:
        rows = max(rows, len(sample) * _largest_copies(sample, expected) / HEAVY)
    return math.ceil(round(rows, 6))


def rows_to_split(sample: Sample, expected: float) -> int:
    """Count the rows of such a sample that make a good pool and leave a good reference.

    Examples
    --------
    >>> rows_to_split(Sample.from_array(np.arange(5.0)), 10.0)
    350
    """
    rows_per_event = len(sample) / sample.effective_size
    left = math.ceil(round(ROWS_PER_EVENT * expected * rows_per_event, 6))
    return rows_for_pool(sample, expected) + left


def refuse_heavy_rows(pool: Sample, expected: float) -> None:
    """Refuse a weighted pool of which a few heavy rows carry too much of the weight.

    Raises
    ------
    InputError
        With the part of the weight that they carry, where they are, and how many rows would do.
    """
    if pool.weights is None:
        return
    copies = expected * pool.share
    heavy = np.flatnonzero(copies > HEAVY)
    part = float(copies[heavy].sum()) / expected
    if part <= HEAVY_PART:
        return
    factor = _largest_copies(pool, expected) / HEAVY
    raise InputError(
        f"the pool {pool.name!r}: {len(heavy)} of {len(pool)} rows have such large weights that "
        f"each is expected more than {HEAVY:g} times in a pseudo-experiment of {expected:.0f} "
        f"events; they carry {part:.2%} of the weight (at most {HEAVY_PART:.1%} is allowed), and "
        f"lie at {_region(pool, heavy)}. Pseudo-experiments would fluctuate too little there: give "
        f"about {math.ceil(factor * len(pool))} rows with such weights, or generate more events of "
        "smaller weight in that region, or give a simulator"
    )


def _largest_copies(sample: Sample, expected: float) -> float:
    """Give how often the heaviest row is expected that does not belong to `HEAVY_PART`."""
    heaviest = np.sort(sample.share)[::-1]
    rest = int(np.searchsorted(np.cumsum(heaviest), HEAVY_PART, side="right"))
    return float(expected * heaviest[min(rest, len(heaviest) - 1)])


def _region(pool: Sample, rows: NDArray[np.int64]) -> str:
    """Say between which values of each column the heaviest of these rows lie."""
    weights = np.asarray(pool.share[rows])
    values = pool.values[np.sort(rows[np.argsort(-weights)[:NAMED_ROWS]])]
    low, high = values.min(axis=0), values.max(axis=0)
    named = [
        f"{column} from {low[j]:.4g} to {high[j]:.4g}"
        for j, column in enumerate(pool.columns[:NAMED_COLUMNS])
    ]
    more = len(pool.columns) - len(named)
    return ", ".join(named) + (f" ({more} more columns)" if more else "")
