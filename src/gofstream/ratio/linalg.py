"""Cholesky that tries a little harder before it gives up, and products with triangular matrices."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import GofstreamWarning, NumericalError

#: Columns of a triangular matrix that a product takes at a time. The triangular products of BLAS
#: would leave out all that is zero and not just most of it, but scipy calls them without giving up
#: the interpreter's lock, and no other thread could do anything meanwhile.
PANEL = 64


def panels(count: int) -> Iterator[tuple[int, int]]:
    """Give the (first, last + 1) column of each panel."""
    return itertools.pairwise([*range(0, count, PANEL), count])


def upper_times(upper: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply columns by an upper triangular matrix; quickest if that is in Fortran order."""
    out = np.zeros_like(z)
    for start, stop in panels(len(upper)):
        out[:stop] += _product(upper[:stop, start:stop], z[start:stop])
    return out


def upper_transposed_times(
    upper: NDArray[np.float64], z: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multiply columns by the transpose of an upper triangular matrix."""
    out = np.empty_like(z)
    for start, stop in panels(len(upper)):
        out[start:stop] = _product(upper[:stop, start:stop].T, z[:stop])
    return out


def _product(part: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply by a part of a matrix: `dot` would copy it, which takes as long as the product.

    `matmul` keeps the interpreter's lock if the result has less than 500 numbers.
    """
    return part @ z if len(part) * z[0].size >= 500 else np.dot(part, z)


def cholesky(matrix: NDArray[np.float64], what: str) -> NDArray[np.float64]:
    """Lower Cholesky factor, adding a growing jitter to the diagonal when it fails.

    Raises
    ------
    NumericalError
        If even a jitter of 1e-6 of the mean diagonal does not help.
    """
    if np.isfinite(matrix).all():
        scale = float(np.mean(np.diagonal(matrix)))
        for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
            try:
                factor = np.linalg.cholesky(matrix + jitter * scale * np.eye(len(matrix)))
            except np.linalg.LinAlgError:
                continue
            if jitter:
                warnings.warn(
                    f"{what} is not positive definite in double precision; a jitter of {jitter:g} "
                    "of its mean diagonal was added. Results move by about as much; a larger "
                    "penalty avoids it.",
                    GofstreamWarning,
                    stacklevel=2,
                )
            return np.asarray(factor, dtype=np.float64)
    raise NumericalError(
        f"{what} has no Cholesky factor, even after adding 1e-6 of its mean diagonal. "
        "Use a larger penalty, fewer centres, or check the inputs for absurd values."
    )
