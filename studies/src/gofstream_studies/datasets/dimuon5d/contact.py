r"""The contact term: how much more often it makes an event than Drell-Yan alone.

The operator :math:`c_W\, J_L^a \cdot J_L^a` (paper, appendix "Dimuon 5D") adds a constant to the
amplitude of left-handed quarks and left-handed muons: :math:`-c_W/2` for up-type quarks and
:math:`+c_W/2` for down-type ones. All other amplitudes stay. At leading order an event of mass m
and angle theta is therefore made

.. math:: w = 1 + c_W\, \mathrm{linear} + c_W^2\, \mathrm{quadratic}

times as often, the linear term being the interference with photon and Z.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# The electroweak numbers of Pythia's defaults, at the Z mass; masses in TeV.
ALPHA, SIN2 = 1 / 127.92, 0.2312
MASS_Z, WIDTH_Z = 0.0911876, 0.0024952

_CHARGE = {"up": 2 / 3, "down": -1 / 3, "muon": -1.0}
_ISOSPIN = {"up": 0.5, "down": -0.5, "muon": -0.5}


def contact_terms(
    mass: ArrayLike, cos_theta: ArrayLike, up: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of c_W and of c_W squared in the ratio to Drell-Yan.

    Parameters
    ----------
    mass : array_like
        Mass of the pair before any radiation, in GeV.
    cos_theta : array_like
        Cosine of the angle between quark and negative muon in the rest frame of the pair.
    up : array_like of bool
        Whether the quark is of up type.

    Returns
    -------
    linear, quadratic : ndarray
        In TeV^2 and TeV^4.

    Examples
    --------
    Far above the Z the contact term adds to what is there, for either kind of quark:

    >>> linear, quadratic = contact_terms([500.0, 500.0], 0.0, [True, False])
    >>> bool((linear > 0).all() and (quadratic > 0).all())
    True
    """
    s = np.asarray((np.asarray(mass, np.float64) / 1000) ** 2)
    forward = np.asarray((1 + np.asarray(cos_theta, np.float64)) ** 2)
    backward = np.asarray((1 - np.asarray(cos_theta, np.float64)) ** 2)
    terms = [_terms(s, forward, backward, kind) for kind in ("up", "down")]
    is_up = np.asarray(up, bool)
    linear, quadratic = (np.where(is_up, *pair) for pair in zip(*terms, strict=True))
    return linear, quadratic


def largest_weight(coupling: float, low: float, high: float) -> float:
    """Bound the ratio to Drell-Yan from above, for masses (GeV) between two limits.

    The ratio is monotonic in the angle, so the two ends of the angle are enough.

    Examples
    --------
    >>> largest_weight(0.0, 60.0, 120.0)
    1.0
    """
    if coupling == 0:
        return 1.0
    grid = np.linspace(low, high, 5001)[:, None, None]
    linear, quadratic = contact_terms(grid, np.array([[-1.0], [1.0]]), np.array([True, False]))
    # One per cent for what lies between the points of the grid.
    return 1.01 * float((1 + coupling * linear + coupling**2 * quadratic).max())


def _terms(
    s: FloatArray, forward: FloatArray, backward: FloatArray, quark: str
) -> tuple[FloatArray, FloatArray]:
    """Both coefficients for one kind of quark; s in TeV^2."""
    photon = 4 * math.pi * ALPHA * _CHARGE[quark] * _CHARGE["muon"] / s
    boson = 4 * math.pi * ALPHA / (SIN2 * (1 - SIN2)) / (s - MASS_Z**2 + 1j * s * WIDTH_Z / MASS_Z)

    def coupling(particle: str, hand: str) -> float:
        isospin = _ISOSPIN[particle] if hand == "L" else 0.0
        return isospin - _CHARGE[particle] * SIN2

    def amplitude(quark_hand: str, muon_hand: str) -> NDArray[np.complex128]:
        strength = coupling(quark, quark_hand) * coupling("muon", muon_hand)
        return np.asarray(photon + boson * strength, np.complex128)

    left = amplitude("L", "L")
    same = np.abs(left) ** 2 + np.abs(amplitude("R", "R")) ** 2
    opposite = np.abs(amplitude("L", "R")) ** 2 + np.abs(amplitude("R", "L")) ** 2
    drell_yan = same * forward + opposite * backward
    # 2 T3 T3', from the third component of the product of the two currents.
    contact = 2 * _ISOSPIN[quark] * _ISOSPIN["muon"]
    linear = 2 * left.real * contact * forward / drell_yan
    quadratic = contact**2 * forward / drell_yan
    return linear, quadratic
