"""Ways to get p-values wrong, which the validation must see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.combine import Rule, merit
from gofstream.inference.pvalues import empirical_p
from gofstream.sample import Sample
from gofstream.toys.sources import Pool

Floats = NDArray[np.float64]


def smallest_p_raw(
    observed: Floats, null: Floats, rule: Rule, columns: Sequence[int] = ()
) -> float:
    """Quote the smallest p-value of several widths as if there were no others."""
    return min(float(empirical_p(t, null[:, k])) for k, t in enumerate(observed))


def leave_one_out(observed: Floats, null: Floats, rule: Rule, columns: Sequence[int] = ()) -> float:
    """Rank the observed set against the toys, but the toys among themselves."""
    toys, widths = null.shape
    own = np.array([[float(empirical_p(t, null[:, k])) for k, t in enumerate(observed)]])
    among = np.empty_like(null)
    for k in range(widths):
        ordered = np.sort(null[:, k])
        among[:, k] = (toys - np.searchsorted(ordered, null[:, k], side="left")) / toys
    return float((1 + np.count_nonzero(merit(among, rule) <= merit(own, rule)[0])) / (toys + 1))


def training_rows(reference: Sample, rng: np.random.Generator) -> Pool:
    """Make a pool of the very rows that models are trained against.

    They are moved by less than anyone could see, or the product would refuse them.
    """
    moved = reference.values * (1 + 1e-9 * rng.normal(size=reference.values.shape))
    return Pool(Sample.from_array(moved, reference.columns, name="training rows"))


@dataclass(frozen=True, slots=True, eq=False)
class HeavyRowsRunOut:
    """A weighted pool drawn without replacement in proportion to weight."""

    sample: Sample

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw all batches of a toy together."""
        sizes = expected.astype(np.int64) if fixed else rng.poisson(expected)
        total, share = int(sizes.sum()), self.sample.share
        rows = rng.choice(len(self.sample), size=total, replace=False, p=share)
        return np.split(self.sample.values[rows], np.cumsum(sizes)[:-1])
