"""Cholesky that tries a little harder before it gives up."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import GofstreamWarning, NumericalError


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
