"""Labels: fits that share the features of all events, but not which of these are the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.features import Features

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Which rows of shared features each fit takes for its data, and which for its reference.

    A row that is not in the reference of a fit is left out by setting f = 0 there: every sum over
    the reference is one of a function that vanishes with f.

    Attributes
    ----------
    data : the rows of each fit's own batch.
    kept : (rows, fits) one where a row is in the reference of a fit, zero elsewhere.
    n_reference : rows of the reference, the same number for every fit.
    mean : (r, fits) the mean of ψ over each reference.
    uncovered : (fits,) events of each batch that no centre can see.
    """

    data: tuple[Indices, ...]
    kept: Any
    n_reference: int
    mean: Floats
    uncovered: Indices

    @classmethod
    def deal(
        cls, features: Features, far: NDArray[np.bool_], sets: Sequence[Sequence[Indices]]
    ) -> Labels:
        """Label whole data sets, each of as many batches and events; what is left is reference.

        Parameters
        ----------
        far : which rows no centre can see.
        sets : for each data set, the rows of each batch.
        """
        kept = np.ones((features.n_reference, sum(map(len, sets))), dtype=features.dtype)
        fit = 0
        for batches in sets:
            kept[np.concatenate(batches), fit : fit + len(batches)] = 0
            fit += len(batches)
        n_reference = int(np.count_nonzero(kept[:, 0]))
        mean, start = np.zeros((features.rank, fit)), 0
        for psi, _ in features.chunks(fit):
            mean += psi.T @ kept[start : start + len(psi)]
            start += len(psi)
        data = tuple(rows for batches in sets for rows in batches)
        missed = np.array([np.count_nonzero(far[rows]) for rows in data])
        return cls(data, kept, n_reference, mean / n_reference, missed)

    def __len__(self) -> int:
        """Count the fits."""
        return len(self.data)
