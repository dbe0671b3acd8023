"""One event: two muons by five numbers, and what is asked of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import ColumnError, nearest_names
from gofstream.sample import Sample

FloatArray = NDArray[np.float64]

#: The five columns of the paper, in its order. Muon 1 is the one of larger transverse momentum;
#: dphi is phi1 - phi2 modulo 2 pi.
COLUMNS = ("pt1", "pt2", "eta1", "eta2", "dphi")
UNITS = {"pt1": "GeV", "pt2": "GeV", "dphi": "rad"}

#: The selection of the paper: GeV, absolute pseudorapidity, GeV.
PT_MIN, ETA_MAX, MASS_MIN = 20.0, 2.1, 60.0


def mass(sample: Sample) -> FloatArray:
    r"""Invariant mass of the two muons in GeV, their own masses neglected.

    .. math:: m^2 = 2\, p_{T1}\, p_{T2}\, (\cosh(\eta_1 - \eta_2) - \cos\Delta\phi)

    Parameters
    ----------
    sample : Sample
        Events with the five columns, in any order.

    Returns
    -------
    ndarray of shape (rows,)

    Examples
    --------
    >>> back_to_back = Sample.from_array([[45.0, 45.0, 0.3, 0.3, np.pi]], COLUMNS)
    >>> mass(back_to_back)
    array([90.])
    """
    for column in COLUMNS:
        if column not in sample.columns:
            raise ColumnError(
                f"sample {sample.name!r} lacks column {column!r} "
                f"({nearest_names(column, sample.columns)}); the mass follows from "
                f"{', '.join(COLUMNS)}"
            )
    return pair_mass(*(sample.values[:, sample.columns.index(column)] for column in COLUMNS))


def pair_mass(
    pt1: ArrayLike, pt2: ArrayLike, eta1: ArrayLike, eta2: ArrayLike, dphi: ArrayLike
) -> FloatArray:
    """Invariant mass from the columns themselves, in double precision."""
    one, two, eta_one, eta_two, angle = (
        np.asarray(column, np.float64) for column in (pt1, pt2, eta1, eta2, dphi)
    )
    # cosh - cos loses digits for muons that fly together; as squares of halves it does not.
    spread = np.sinh(0.5 * (eta_one - eta_two)) ** 2 + np.sin(0.5 * angle) ** 2
    return np.asarray(2.0 * np.sqrt(one * two * spread))


def selected(
    pt1: ArrayLike, pt2: ArrayLike, eta1: ArrayLike, eta2: ArrayLike, dphi: ArrayLike
) -> NDArray[np.bool_]:
    """Tell which events pass the selection of the paper."""
    one, two, eta_one, eta_two, angle = (
        np.asarray(column) for column in (pt1, pt2, eta1, eta2, dphi)
    )
    hard = np.minimum(one, two) > PT_MIN
    central = np.maximum(np.abs(eta_one), np.abs(eta_two)) < ETA_MAX
    heavy = pair_mass(one, two, eta_one, eta_two, angle) > MASS_MIN
    return np.asarray(hard & central & heavy)
