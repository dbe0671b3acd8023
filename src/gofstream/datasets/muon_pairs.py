"""Muon pairs for examples: the Z and a falling spectrum, and a resonance, as a detector sees them.

A sketch of the Drell-Yan process: the mass is drawn from the Z peak or from a power law, the pair
has a transverse momentum and a rapidity of its own, and the muons leave it with 1 + cos² of the
angle to the beam. It needs no generator and no file, and is not the sample of the paper
(`gofstream data describe dimuon5d`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Transverse momenta in GeV, pseudorapidities, and the angle between the muons across the beam.
COLUMNS = ("pt1", "pt2", "eta1", "eta2", "dphi")

#: Mass and width of the Z in GeV, and its share of the pairs.
Z_MASS, Z_WIDTH, Z_SHARE = 91.19, 2.50, 0.85
#: Smallest mass of the other pairs, in GeV, and the power with which their spectrum falls.
THRESHOLD, POWER = 60.0, 4.0
#: Mean transverse momentum of a pair in GeV, and the spread of its rapidity.
PAIR_PT, PAIR_RAPIDITY = 20.0, 1.0
#: Relative resolution of a muon's transverse momentum; the muons that are seen.
RESOLUTION, MUON_PT, MUON_ETA = 0.02, 20.0, 2.4


def drell_yan(count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw ``count`` seen pairs of the Z and of the falling spectrum, by column."""

    def masses(n: int) -> Floats:
        falling = THRESHOLD * rng.random(n) ** (-1 / (POWER - 1))
        peak = Z_MASS + 0.5 * Z_WIDTH * np.tan(np.pi * (rng.random(n) - 0.5))
        return np.where((rng.random(n) < Z_SHARE) & (np.abs(peak - Z_MASS) < 30), peak, falling)

    return _seen(count, masses, rng)


def resonance(mass: float, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw ``count`` seen pairs from a narrow resonance of that mass in GeV, by column."""
    return _seen(count, lambda n: rng.normal(mass, 0.01 * mass, n), rng)


def pair_mass(columns: dict[str, Floats]) -> Floats:
    """Compute the mass of each pair, of muons without mass."""
    angle = np.cosh(columns["eta1"] - columns["eta2"]) - np.cos(columns["dphi"])
    return np.asarray(np.sqrt(2 * columns["pt1"] * columns["pt2"] * angle))


def _seen(
    count: int, draw_masses: Callable[[int], Floats], rng: np.random.Generator
) -> dict[str, Floats]:
    """Draw pairs until ``count`` of them have both muons in the detector."""
    kept = np.empty((0, 5))
    while len(kept) < count:
        drawn = _pairs(draw_masses(2 * count + 100), rng)
        first, second = drawn[:, 0], drawn[:, 1]
        inside = (np.minimum(first, second) > MUON_PT) & (np.abs(drawn[:, 2:4]).max(1) < MUON_ETA)
        kept = np.concatenate([kept, drawn[inside]])
    return {name: kept[:count, j].copy() for j, name in enumerate(COLUMNS)}


def _pairs(mass: Floats, rng: np.random.Generator) -> Floats:
    """Draw the two muons of pairs of these masses, momenta smeared, the harder one first."""
    n = len(mass)
    cosine = _one_plus_cos_squared(n, rng)
    angle = rng.uniform(0, 2 * np.pi, n)
    sine = np.sqrt(1 - cosine**2)
    # One muon in the rest frame of the pair; the other one flies the opposite way.
    muon = 0.5 * mass * np.array([sine * np.cos(angle), sine * np.sin(angle), cosine])
    pt, rapidity = rng.exponential(PAIR_PT, n), rng.normal(0, PAIR_RAPIDITY, n)
    turn = rng.uniform(0, 2 * np.pi, n)
    seen = [_boosted(sign * muon, mass, pt, rapidity) for sign in (1, -1)]
    pts = np.array([np.hypot(p[0], p[1]) for p in seen])
    etas = np.array([np.arcsinh(p[2] / at) for p, at in zip(seen, pts, strict=True)])
    phis = np.array([np.arctan2(p[1], p[0]) for p in seen]) + turn
    pts *= 1 + RESOLUTION * rng.standard_normal(pts.shape)
    harder = np.argmax(pts, axis=0)
    row = np.arange(n)
    opening = phis[harder, row] - phis[1 - harder, row]
    dphi = np.pi - np.abs(np.mod(opening, 2 * np.pi) - np.pi)
    return np.column_stack(
        [pts[harder, row], pts[1 - harder, row], etas[harder, row], etas[1 - harder, row], dphi]
    )


def _one_plus_cos_squared(n: int, rng: np.random.Generator) -> Floats:
    """Draw cosines with density (1 + c²) 3/8: solve c³ + 3c = 8u - 4 by Cardano's formula."""
    half = 4 * rng.random(n) - 2
    root = np.sqrt(half**2 + 1)
    return np.asarray(np.cbrt(half + root) + np.cbrt(half - root))


def _boosted(momentum: Floats, mass: Floats, pt: Floats, rapidity: Floats) -> Floats:
    """Boost a massless muon from the rest frame of its pair to the laboratory."""
    energy = 0.5 * mass
    gamma = np.sqrt(1 + (pt / mass) ** 2)
    across = gamma * momentum[0] + pt / mass * energy
    energy = gamma * energy + pt / mass * momentum[0]
    along = np.cosh(rapidity) * momentum[2] + np.sinh(rapidity) * energy
    return np.array([across, momentum[1], along])
