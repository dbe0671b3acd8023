"""Kernel widths: quantiles of pairwise distances."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.errors import WidthError
from gofstream.ratio.learner import Learner
from gofstream.ratio.widths import SUBSET, distance_quantiles
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]

FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)


def brute_force(points: Floats, quantile: float) -> float:
    """Sort all distances and interpolate between the two neighbours of a quantile."""
    distances = sorted(math.dist(a, b) for a, b in combinations(points.tolist(), 2))
    place = quantile * (len(distances) - 1)
    low = math.floor(place)
    high = min(low + 1, len(distances) - 1)
    return distances[low] + (place - low) * (distances[high] - distances[low])


@pytest.mark.parametrize("dimension", [1, 3])
def test_all_pairs_of_a_small_sample(dimension: int) -> None:
    """With few rows every pair is looked at, and each just once."""
    points = np.random.default_rng(1).gamma(2, size=(70, dimension))
    found = distance_quantiles(points, FIVE, np.random.default_rng(2))
    np.testing.assert_allclose(found, [brute_force(points, q) for q in FIVE], rtol=1e-12)
    assert all(type(width) is float for width in found)
    assert all(low < high for low, high in pairwise(found))


def test_two_rows() -> None:
    """The smallest reference has one distance."""
    points = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert distance_quantiles(points, [0.05, 0.95], np.random.default_rng(1)) == (5.0, 5.0)


def test_order_of_quantiles() -> None:
    """Widths come in the order in which they were asked for."""
    points = np.random.default_rng(3).normal(size=(50, 2))
    up = distance_quantiles(points, [0.2, 0.8], np.random.default_rng(4))
    assert distance_quantiles(points, [0.8, 0.2], np.random.default_rng(4)) == up[::-1]


def test_seed_says_which_subset() -> None:
    """The same seed gives the same bits; another one, widths that differ by the noise alone."""
    points = np.random.default_rng(5).exponential(size=(4 * SUBSET, 1))
    first, again, other = (
        distance_quantiles(points, FIVE, np.random.default_rng(seed)) for seed in (6, 6, 7)
    )
    assert first == again
    assert first != other
    # Distances of unit exponentials are unit exponentials: the quantiles are known. The subset
    # and the sample behind it leave an error of a few per cent at most.
    exact = [-math.log1p(-q) for q in FIVE]
    np.testing.assert_allclose(first, exact, rtol=0.06)
    np.testing.assert_allclose(other, exact, rtol=0.06)


def test_subset_is_bounded() -> None:
    """Up to the size of the subset all rows are used, whatever the seed; beyond, some are not."""
    points = np.random.default_rng(8).normal(size=(SUBSET + 200, 1))
    for rows, agree in ((SUBSET, True), (SUBSET + 200, False)):
        first, other = (
            distance_quantiles(points[:rows], [0.5], np.random.default_rng(seed)) for seed in (1, 2)
        )
        assert (first == other) is agree


def test_rows_of_no_weight_never_enter() -> None:
    """Not a number, if they entered: then no quantile would be one."""
    rng = np.random.default_rng(9)
    points, share = rng.normal(size=(300, 2)), rng.uniform(1, 2, 300)
    weightless = rng.choice(300, 120, replace=False)
    points[weightless], share[weightless] = math.nan, 0
    share /= share.sum()
    found = distance_quantiles(points, FIVE, rng, share=share)
    assert np.isfinite(found).all()
    assert max(found) < 10


def test_rows_enter_in_proportion_to_weight() -> None:
    """Two far clusters, of equal rows but with nine tenths of the weight in one."""
    rng = np.random.default_rng(10)
    points = rng.normal(0, 0.1, size=(20_000, 1))
    points[::2] += 100
    share = np.full(20_000, 0.1)
    share[::2] = 0.9
    share /= share.sum()
    # Half of all pairs join the clusters if rows count the same, 18 % by weight.
    assert distance_quantiles(points, [0.75], rng)[0] > 99
    assert distance_quantiles(points, [0.75], rng, share=share)[0] < 1
    assert distance_quantiles(points, [0.90], rng, share=share)[0] > 99


def test_weights_are_seeded_too() -> None:
    """With weights the same seed gives the same widths, another one others."""
    rng = np.random.default_rng(11)
    points, share = rng.normal(size=(5000, 2)), rng.uniform(size=5000)
    share /= share.sum()
    first, again, other = (
        distance_quantiles(points, FIVE, np.random.default_rng(seed), share=share)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def padded(rows: int, identical: int) -> Floats:
    """Columns filled up with a placeholder in some of the rows, as for a missing jet."""
    points = np.random.default_rng(12).normal(size=(rows, 2))
    points[:identical] = -9.0
    return points


def test_quantile_of_zero() -> None:
    """The text says which quantile, why, and three ways out."""
    points = padded(100, 40)
    with pytest.raises(WidthError) as caught:
        distance_quantiles(points, FIVE, np.random.default_rng(1))
    text = str(caught.value)
    same = math.comb(40, 2) / math.comb(100, 2)
    assert text.startswith(f"the 0.05 quantile of pairwise distances is zero: {same:.1%} of pairs")
    for word in ("padded", "`widths`", "`width_quantiles`", "drop"):
        assert word in text
    # 16 % of pairs are identical, so that larger quantiles are usable.
    assert min(distance_quantiles(points, FIVE[1:], np.random.default_rng(1))) > 0


def test_first_zero_quantile_is_named() -> None:
    """A quantile that is not the first can be the one at fault."""
    with pytest.raises(WidthError, match=r"the 0\.5 quantile"):
        distance_quantiles(padded(100, 90), [0.95, 0.5], np.random.default_rng(1))


def test_quantile_of_zero_meets_the_user() -> None:
    """The learner passes the error on, and the advice in it helps."""
    reference = Sample.from_array(padded(500, 300), ["pt", "eta"])
    settings = Settings.of(n_centres=20)
    with pytest.raises(WidthError, match="set `widths` by hand"):
        Learner.prepare(reference, settings, expected=50.0, rng=np.random.default_rng(1))
    by_hand = settings.changed(widths=[0.5])
    learner = Learner.prepare(reference, by_hand, expected=50.0, rng=np.random.default_rng(1))
    assert learner.widths == (0.5,)
    larger = settings.changed(width_quantiles=[0.5, 0.9])
    learner = Learner.prepare(reference, larger, expected=50.0, rng=np.random.default_rng(1))
    assert min(learner.widths) > 0


def test_heavy_rows_count_as_often_as_repeated_ones() -> None:
    """Weights change the quantiles as they should: pairs are drawn in proportion to them."""
    rng = np.random.default_rng(9)
    points = rng.exponential(size=(400, 1))
    share = np.exp(3 * points[:, 0])
    share /= share.sum()
    first, second = np.triu_indices(400, 1)
    distances = np.abs(points[first, 0] - points[second, 0])
    order = np.argsort(distances)
    weight = np.cumsum((share[first] * share[second])[order])
    exact = [float(distances[order][np.searchsorted(weight, q * weight[-1])]) for q in FIVE]
    found = distance_quantiles(points, FIVE, np.random.default_rng(1), share=share)
    np.testing.assert_allclose(found, exact, rtol=0.03)


def test_all_weight_on_one_row() -> None:
    """No pair is left: said so, not a crash."""
    points = np.array([[0.0], [1.0]])
    share = np.array([1 - 1e-12, 1e-12])
    with pytest.raises(WidthError, match="nearly all weight lies on one"):
        distance_quantiles(points, FIVE, np.random.default_rng(1), share=share)
