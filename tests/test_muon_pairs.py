"""Muon pairs for examples: their mass, their angles and the detector that sees them."""

from __future__ import annotations

import numpy as np
from scipy import stats

from gofstream.datasets import muon_pairs


def test_the_mass_follows_from_the_columns() -> None:
    """Two four-vectors without mass, added up component by component."""
    one = muon_pairs.drell_yan(500, np.random.default_rng(1))
    vectors = [
        np.array([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta), pt * np.cosh(eta)])
        for pt, eta, phi in (
            (one["pt1"], one["eta1"], one["dphi"]),
            (one["pt2"], one["eta2"], np.zeros(500)),
        )
    ]
    x, y, z, energy = sum(vectors)
    np.testing.assert_allclose(muon_pairs.pair_mass(one), np.sqrt(energy**2 - x**2 - y**2 - z**2))


def test_a_resonance_lies_at_its_mass() -> None:
    """Natural width of 1 %, and 2 % on each momentum: 1.7 % of the mass in all."""
    masses = muon_pairs.pair_mass(muon_pairs.resonance(300, 20_000, np.random.default_rng(2)))
    assert abs(np.median(masses) - 300) < 0.5
    low, high = np.quantile(masses, [0.159, 0.841])
    assert abs((high - low) / 2 / 300 - np.hypot(0.01, 0.02 / np.sqrt(2))) < 0.001


def test_what_is_seen_lies_inside_the_detector() -> None:
    """The harder muon first, both inside acceptance; the spectrum falls from its threshold."""
    one = muon_pairs.drell_yan(20_000, np.random.default_rng(3))
    assert tuple(one) == muon_pairs.COLUMNS
    assert (one["pt1"] >= one["pt2"]).all()
    assert one["pt2"].min() > muon_pairs.MUON_PT
    assert max(np.abs(one["eta1"]).max(), np.abs(one["eta2"]).max()) < muon_pairs.MUON_ETA
    assert one["dphi"].min() >= 0
    assert one["dphi"].max() <= np.pi
    masses = muon_pairs.pair_mass(one)
    assert abs(np.median(masses) - muon_pairs.Z_MASS) < 1
    assert 0.7 < np.mean(np.abs(masses - muon_pairs.Z_MASS) < 10) < 0.95
    assert 0.0005 < np.mean(masses > 250) < 0.005


def test_cosines_follow_their_law() -> None:
    """Density (1 + c²) 3/8: its distribution function is (c³ + 3c + 4)/8."""
    cosines = muon_pairs._one_plus_cos_squared(20_000, np.random.default_rng(4))
    assert stats.kstest(cosines, lambda c: (c**3 + 3 * c + 4) / 8).pvalue > 0.01
