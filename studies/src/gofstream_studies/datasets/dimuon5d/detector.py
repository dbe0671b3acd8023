"""A fast detector: muons measured with the resolution of a tracker, then selected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gofstream_studies.datasets.dimuon5d.events import selected

FloatArray = NDArray[np.float64]

# Relative resolution of pT is sqrt(c^2 + (k pT)^2): up to |eta|, c, k (1/GeV). These are the
# numbers of the public fast simulation of CMS.
_RESOLUTION = ((0.5, 0.010, 1.0e-4), (1.5, 0.015, 1.5e-4), (np.inf, 0.025, 3.5e-4))


def measure(pt: FloatArray, eta: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Smear transverse momenta; a log-normal law keeps them positive.

    Examples
    --------
    >>> import numpy as np
    >>> pt = measure(np.full(10_000, 50.0), np.zeros(10_000), np.random.default_rng(0))
    >>> bool(abs(pt.mean() - 50) < 0.05) and bool(abs(pt.std() / 50 - 0.0112) < 3e-4)
    True
    """
    region = np.searchsorted([limit for limit, _, _ in _RESOLUTION[:-1]], np.abs(eta))
    constant, growth = (
        np.array(column)[region] for column in list(zip(*_RESOLUTION, strict=True))[1:]
    )
    variance = np.log1p(constant**2 + (growth * pt) ** 2)
    return np.asarray(pt * np.exp(np.sqrt(variance) * rng.standard_normal(len(pt)) - variance / 2))


def observe(muons: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Turn pairs of muons into the five columns of the data set.

    Parameters
    ----------
    muons : ndarray of shape (n, 6)
        pt, eta, phi of one muon and of the other.
    rng : numpy.random.Generator
        Source of the measurement errors.

    Returns
    -------
    columns : ndarray of shape (n, 5)
    kept : ndarray of shape (n,)
        Which events pass the selection.
    """
    pt = np.stack([measure(muons[:, k], muons[:, k + 1], rng) for k in (0, 3)], axis=1)
    # Leading first; what is measured decides which muon leads.
    leading = np.where(pt[:, 0] >= pt[:, 1], 0, 1)
    rows = np.arange(len(muons))
    first, second = 3 * leading, 3 * (1 - leading)
    columns = np.stack(
        [
            pt[rows, leading],
            pt[rows, 1 - leading],
            muons[rows, first + 1],
            muons[rows, second + 1],
            np.mod(muons[rows, first + 2] - muons[rows, second + 2], 2 * np.pi),
        ],
        axis=1,
    ).astype(np.float32)  # as the files hold them, so that the selection holds for what is read
    # 2 pi minus a little becomes 2 pi in single precision, which is zero.
    columns[columns[:, 4] >= np.float32(2 * np.pi), 4] = 0.0
    return columns.astype(np.float64), selected(*columns.T)
