"""Power and median Z: by counting, and with intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gofstream.inference.power import median_z, paired_difference, power


def test_power_by_counting() -> None:
    """The level itself counts as seen."""
    result = power([0.05, 0.04, 0.06, 0.9], 0.05)
    assert (result.value, result.toys) == (0.5, 4)
    assert result.low < 0.5 < result.high


@pytest.mark.parametrize("toys", [5, 6, 40, 301])
def test_median_interval_covers(toys: int) -> None:
    """In 4000 experiments the true median lies inside in at least 94 % (95 % less 3 sd)."""
    rng = np.random.default_rng(toys)
    inside = 0
    for _ in range(4000):
        result = median_z(stats.norm.sf(rng.normal(2.0, 1.0, toys)))
        inside += result.low <= 2.0 <= result.high
    assert inside / 4000 >= 0.94
    if toys > 30:
        assert inside / 4000 < 0.985  # not just infinitely wide


def test_median_of_few_toys_is_open() -> None:
    """Five toys cannot bound a median at 95 %."""
    result = median_z([0.1, 0.2, 0.3])
    assert (result.low, result.high) == (-np.inf, np.inf)


def test_paired_difference_by_counting() -> None:
    """Toys that both see, or neither, do not count."""
    first, second = [0.01, 0.01, 0.01, 0.9, 0.9], [0.01, 0.9, 0.9, 0.01, 0.9]
    assert paired_difference(first, second, 0.05).value == pytest.approx(1 / 5)
    same = paired_difference([0.01] * 50, [0.02] * 50, 0.05)
    assert same.value == 0
    assert same.low < 0 < same.high


@pytest.mark.parametrize("rates", [(0.6, 0.5), (0.95, 0.95), (0.3, 0.05)])
def test_paired_interval_covers(rates: tuple[float, float]) -> None:
    """Correlated seeing with known rates: covered in at least 93.5 % of 3000 experiments."""
    rng = np.random.default_rng(21)
    inside = 0
    for _ in range(3000):
        common = rng.uniform(size=100)
        own = np.where(rng.uniform(size=(2, 100)) < 0.5, common, rng.uniform(size=(2, 100)))
        p = [np.where(u <= rate, 0.01, 0.5) for u, rate in zip(own, rates, strict=True)]
        found = paired_difference(p[0], p[1], 0.05)
        inside += found.low <= rates[0] - rates[1] <= found.high
    assert inside / 3000 >= 0.935


def test_a_difference_stays_within_one() -> None:
    """Three toys that only one test sees: the interval, 0.75 each way, is cut at ±1."""
    sees, misses = [0.01] * 3, [0.5] * 3
    for first, second, value in ((misses, sees, -1.0), (sees, misses, 1.0)):
        found = paired_difference(first, second, 0.05)
        assert found.value == value
        assert min(abs(found.low), abs(found.high)) < 1
        assert (found.low == -1.0) == (value == -1.0)
        assert (found.high == 1.0) == (value == 1.0)
