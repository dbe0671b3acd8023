"""Kernel widths: quantiles of pairwise distances."""

import math
import re
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.errors import WidthError
from gofstream.nplm import nplm_test
from gofstream.ratio.learner import Learner
from gofstream.ratio.widths import SUBSET, distance_quantiles
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]

FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)


def brute_force(points: Floats, quantile: float, *, nonzero: bool = False) -> float:
    """Sort all distances and interpolate between the two neighbours of a quantile."""
    distances = sorted(math.dist(a, b) for a, b in combinations(points.tolist(), 2))
    if nonzero:
        distances = [distance for distance in distances if distance]
    place = quantile * (len(distances) - 1)
    low = math.floor(place)
    high = min(low + 1, len(distances) - 1)
    return distances[low] + (place - low) * (distances[high] - distances[low])


def widths_of(
    points: Floats,
    quantiles: Sequence[float],
    rng: np.random.Generator,
    share: Floats | None = None,
) -> tuple[float, ...]:
    """Give the quantiles of points of which few are identical."""
    widths, note = distance_quantiles(points, quantiles, rng, share=share)
    assert note == ""
    return widths


@pytest.mark.parametrize("dimension", [1, 3])
def test_all_pairs_of_a_small_sample(dimension: int) -> None:
    """With few rows every pair is looked at, and each just once."""
    points = np.random.default_rng(1).gamma(2, size=(70, dimension))
    found = widths_of(points, FIVE, np.random.default_rng(2))
    np.testing.assert_allclose(found, [brute_force(points, q) for q in FIVE], rtol=1e-12)
    assert all(type(width) is float for width in found)
    assert all(low < high for low, high in pairwise(found))


def test_two_rows() -> None:
    """The smallest reference has one distance."""
    points = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert widths_of(points, [0.05, 0.95], np.random.default_rng(1)) == (5.0, 5.0)


def test_order_of_quantiles() -> None:
    """Widths come in the order in which they were asked for."""
    points = np.random.default_rng(3).normal(size=(50, 2))
    up = widths_of(points, [0.2, 0.8], np.random.default_rng(4))
    assert widths_of(points, [0.8, 0.2], np.random.default_rng(4)) == up[::-1]


def test_seed_says_which_subset() -> None:
    """The same seed gives the same bits; another one, widths that differ by the noise alone."""
    points = np.random.default_rng(5).exponential(size=(4 * SUBSET, 1))
    first, again, other = (
        widths_of(points, FIVE, np.random.default_rng(seed)) for seed in (6, 6, 7)
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
            widths_of(points[:rows], [0.5], np.random.default_rng(seed)) for seed in (1, 2)
        )
        assert (first == other) is agree


def test_rows_of_no_weight_never_enter() -> None:
    """Not a number, if they entered: then no quantile would be one."""
    rng = np.random.default_rng(9)
    points, share = rng.normal(size=(300, 2)), rng.uniform(1, 2, 300)
    weightless = rng.choice(300, 120, replace=False)
    points[weightless], share[weightless] = math.nan, 0
    share /= share.sum()
    found = widths_of(points, FIVE, rng, share=share)
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
    assert widths_of(points, [0.75], rng)[0] > 99
    assert widths_of(points, [0.75], rng, share=share)[0] < 1
    assert widths_of(points, [0.90], rng, share=share)[0] > 99


def test_weights_are_seeded_too() -> None:
    """With weights the same seed gives the same widths, another one others."""
    rng = np.random.default_rng(11)
    points, share = rng.normal(size=(5000, 2)), rng.uniform(size=5000)
    share /= share.sum()
    first, again, other = (
        widths_of(points, FIVE, np.random.default_rng(seed), share=share) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def padded(rows: int, identical: int) -> Floats:
    """Columns filled up with a placeholder in some of the rows, as for a missing jet."""
    points = np.random.default_rng(12).normal(size=(rows, 2))
    points[:identical] = -9.0
    return points


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_of_zero(weighted: bool) -> None:
    """Widths are quantiles of the non-zero distances then, and the note says how many are zero."""
    points = padded(100, 40)
    share = np.full(100, 0.01) if weighted else None
    widths, note = distance_quantiles(points, FIVE, np.random.default_rng(1), share=share)
    exact = [brute_force(points, q, nonzero=True) for q in FIVE]
    np.testing.assert_allclose(widths, exact, rtol=0.03 if weighted else 1e-12)
    same = math.comb(40, 2) / math.comb(100, 2)
    told = re.search(r"non-zero distances: ([\d.]+)% of the pairs .* identical .*`widths`", note)
    assert told is not None
    assert float(told[1]) == pytest.approx(100 * same, abs=1.0 if weighted else 0.05)


def test_few_identical_rows_change_nothing() -> None:
    """Zeros count as any distance as long as no quantile is zero: 16 % of pairs are identical."""
    points = padded(100, 40)
    widths, note = distance_quantiles(points, FIVE[1:], np.random.default_rng(1))
    np.testing.assert_allclose(widths, [brute_force(points, q) for q in FIVE[1:]], rtol=1e-12)
    assert note == ""


def test_all_rows_identical() -> None:
    """No width follows: the text says why and what to do."""
    with pytest.raises(WidthError, match=r"all 435 pairs .* are identical.*set `widths` by hand"):
        distance_quantiles(np.ones((30, 2)), FIVE, np.random.default_rng(1))


def test_isolation_with_many_exact_zeros() -> None:
    """A calorimeter isolation is exactly zero for a quarter of the events: tested, and said so."""
    rng = np.random.default_rng(1)

    def isolation(count: int) -> Floats:
        return np.where(rng.random((count, 1)) < 0.25, 0.0, rng.exponential(size=(count, 1)))

    settings = Settings.of(n_centres=20, width_quantiles=[0.05, 0.5])
    result = nplm_test(
        isolation(100),
        isolation(500),
        settings=settings,
        n_resamples=19,
        rng=np.random.default_rng(2),
    )
    assert 0 < min(result.widths) < max(result.widths)
    assert [note for note in result.caveats if "non-zero distances" in note]
    assert "quantiles of the non-zero distances: 5." in str(result)


def test_equal_quantiles_are_one_width() -> None:
    """A column of whole numbers has few distances."""
    x = np.random.default_rng(1).integers(0, 3, size=(300, 1)).astype(float)
    reference = Sample.from_array(x)
    settings = Settings.of(n_centres=20)
    learner = Learner.prepare(reference, settings, expected=50.0, rng=np.random.default_rng(1))
    unit = 1 / x.std()
    np.testing.assert_allclose(learner.widths, [unit, 2 * unit], rtol=0.01)
    assert len(learner.notes) == 1
    by_hand = settings.changed(widths=[0.5])
    learner = Learner.prepare(reference, by_hand, expected=50.0, rng=np.random.default_rng(1))
    assert (learner.widths, learner.notes) == ((0.5,), ())


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
    found = widths_of(points, FIVE, np.random.default_rng(1), share=share)
    np.testing.assert_allclose(found, exact, rtol=0.03)


def test_all_weight_on_one_row() -> None:
    """No pair is left: said so, not a crash."""
    points = np.array([[0.0], [1.0]])
    share = np.array([1 - 1e-12, 1e-12])
    with pytest.raises(WidthError, match="nearly all weight lies on one"):
        widths_of(points, FIVE, np.random.default_rng(1), share=share)
