"""p-values: against counting by hand, uniform under the null, and honest beyond the toys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gofstream.errors import InputError
from gofstream.inference.combine import combined_p
from gofstream.inference.pvalues import (
    LAWS,
    PAPER_LAWS,
    binomial_interval,
    counted_p,
    empirical_p,
    fit_law,
    p_value,
    toys_needed,
    z_score,
)
from gofstream.statistics import STATISTICS

numbers = st.integers(-5, 5).map(float)


@given(st.lists(numbers, min_size=1, max_size=30), st.lists(numbers, min_size=1, max_size=5))
def test_empirical_p_by_counting(null: list[float], observed: list[float]) -> None:
    """Ties count as at least as extreme; p is never zero and never above one."""
    slow = [(1 + sum(t0 >= t for t0 in null)) / (1 + len(null)) for t in observed]
    np.testing.assert_allclose(empirical_p(observed, null), slow, rtol=1e-15)
    assert min(slow) > 0


def test_rounding_makes_no_difference() -> None:
    """Values that differ by rounding are equal, for p of one statistic and of several.

    Of 199 toys 24 are like the data, and 7 are above: (1 + 31)/200, whatever the last digits say.
    """
    rng = np.random.default_rng(2)
    for scale in (1e-3, 1.0, 300.0):
        level = np.concatenate([np.full(168, 1.0), np.full(24, 2.0), np.full(7, 3.0)]) * scale
        level += (scale < 0.1) * np.round(level / scale)  # steps that are more than rounding
        data = float(level[170])
        for noise in (-2e-5, 0.0, 2e-5):
            null = level + 2e-5 * max(1, scale) * rng.uniform(-1, 1, size=(3, 199))
            t = data + noise * max(1, scale)
            assert empirical_p(t, null[0]) == 32 / 200
            assert p_value(t, null[0]).p == 32 / 200
            assert combined_p([t, t, t], null.T) == 32 / 200
            assert combined_p([t, t, t], null.T, columns=(2, 1)) == 32 / 200


def test_empirical_p_is_uniform_on_its_grid() -> None:
    """With B = 19 toys P(p ≤ k/20) = k/20 exactly, here from 20 000 experiments, to 4 sd."""
    rng = np.random.default_rng(1)
    t = rng.normal(size=(20_000, 20))
    p = np.array([empirical_p(row[0], row[1:]) for row in t])
    for k in range(1, 20):
        rate = np.mean(p <= k / 20 + 1e-9)
        assert abs(rate - k / 20) < 4 * math.sqrt(k / 20 * (1 - k / 20) / len(p))


def test_z_score() -> None:
    """One-sided: p = 1/2 is Z = 0, and the tail of the Gaussian is inverted."""
    z = np.array([-2.0, 0.0, 3.0, 8.0])
    np.testing.assert_allclose(z_score(stats.norm.sf(z)), z, atol=1e-12)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_interval_covers(rate: float) -> None:
    """Clopper and Pearson cover at least 95 %, by exact summation over outcomes."""
    trials = 60
    hits = np.arange(trials + 1)
    chance = stats.binom.pmf(hits, trials, rate)
    inside = [
        low <= rate <= high for low, high in (binomial_interval(int(k), trials) for k in hits)
    ]
    assert 0.95 <= float(chance @ np.array(inside)) < 1


def test_interval_ends() -> None:
    """No hits and all hits leave one side open."""
    assert binomial_interval(0, 10)[0] == 0
    assert binomial_interval(10, 10)[1] == 1
    assert binomial_interval(0, 10)[1] == pytest.approx(1 - 0.025**0.1)


@pytest.mark.parametrize(
    ("law", "frozen"),
    [
        ("gamma", stats.gamma(5, scale=2)),
        ("normal", stats.norm(-1, 3)),
        ("skewed", stats.pearson3(0.7, loc=-1, scale=3)),
        ("chi2", stats.chi2(9)),
    ],
)
def test_the_right_law_is_found(law: str, frozen: stats.distributions.rv_frozen) -> None:
    """Fitted to its own toys a law passes, and its far tail is right to a factor two."""
    toys = frozen.rvs(size=20_000, random_state=np.random.default_rng(3))
    fitted = fit_law(toys, law)  # type-checked in the library; here the name is data
    far = frozen.isf(1e-6)
    assert fitted.usable
    assert fitted.tail_ratio == pytest.approx(1, abs=0.1)
    assert 0.5 < float(fitted.tail(far)) / 1e-6 < 2


def test_the_wrong_law_is_refused() -> None:
    """A normal does not pass for a gamma of shape two, nor a gamma for negative toys."""
    toys = np.random.default_rng(4).gamma(2, size=5000)
    assert not fit_law(toys, "normal").usable
    assert not fit_law(toys - 10, "gamma").usable


def test_skewness_that_few_toys_could_hide() -> None:
    """Thirty toys with no skewness at all are not taken for normal; very many nearly are."""
    for toys, z in ((30, 3.90), (3_000_000, 5.0)):
        symmetric = stats.norm.ppf((np.arange(toys) + 0.5) / toys)
        beyond = fit_law(symmetric, "skewed").tail(5 * symmetric.std(ddof=1))
        slow = stats.pearson3(math.sqrt(6 / toys)).sf(5)
        assert float(beyond) == pytest.approx(float(slow), rel=1e-6)
        assert float(z_score(beyond)) == pytest.approx(z, abs=0.02)


def test_the_p_value_counts_and_the_law_stands_beside_it() -> None:
    """It is (1 + k) / (1 + B), also beyond the toys; only there the law says something."""
    toys = np.random.default_rng(5).gamma(6, size=999)
    inside = p_value(float(np.sort(toys)[-20]), toys, "gamma")
    assert (inside.p, inside.hits, inside.law_p) == (21 / 1000, 20, None)
    beyond = p_value(40.0, toys, "gamma")
    assert (beyond.p, beyond.hits, beyond.toys) == (1 / 1000, 0, 999)
    assert beyond.z == pytest.approx(float(stats.norm.isf(0.001)))
    assert beyond.law_p is not None
    assert 0.05 < beyond.law_p / float(stats.gamma(6).sf(40)) < 20
    assert beyond.low == 0
    assert beyond.high == pytest.approx(1 - 0.025 ** (1 / 999))


@pytest.mark.parametrize(("toys", "known"), [(20, False), (99, False), (100, True)])
def test_no_law_below_a_hundred_toys(toys: int, known: bool) -> None:
    """Not even as a detail."""
    found = p_value(90.0, np.random.default_rng(5).gamma(6, size=toys), "gamma")
    assert (found.law is not None) == (found.law_p is not None) == known


def test_a_p_value_in_words() -> None:
    """The count, and its interval by bisection of binomial sums."""

    def end(hits: int, toys: int, *, lower: bool) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2
            below = sum(math.comb(toys, k) * p**k * (1 - p) ** (toys - k) for k in range(hits + 1))
            at = math.comb(toys, hits) * p**hits * (1 - p) ** (toys - hits)
            inside = 1 - below + at > 0.025 if lower else below > 0.025
            low, high = (low, p) if inside == lower else (p, high)
        return low

    assert str(counted_p(0, 100)) == (
        f"p = 0.0099, at most {end(0, 100, lower=False):.2g}; "
        "none of 100 toys as extreme (95 % interval)"
    )
    assert str(counted_p(3, 40)) == (
        f"p = {4 / 41:.2g}, {end(3, 40, lower=True):.2g} to {end(3, 40, lower=False):.2g}; "
        "3 of 40 toys as extreme (95 % interval)"
    )
    assert str(counted_p(20, 20)).startswith("p = 1, at least 0.83; all of 20 toys")


@pytest.mark.parametrize(("level", "columns"), [(0.05, 1), (0.01, 1), (0.0228, 10), (0.3, 4)])
def test_toys_needed(level: float, columns: int) -> None:
    """So many toys reach the level, and one fewer do not."""
    toys = toys_needed(level, columns)
    assert columns / (toys + 1) <= level * (1 + 1e-12)
    assert columns / toys > level


def test_no_extrapolation_with_a_law_that_does_not_fit() -> None:
    """The details then have no p by the law."""
    toys = np.random.default_rng(6).gamma(1.5, size=3000)
    result = p_value(100.0, toys, "normal")
    assert result.law is not None
    assert not result.law.usable
    assert (result.p, result.law_p) == (1 / 3001, None)


def test_p_is_never_zero() -> None:
    """Not even where the tail of the law underflows."""
    toys = np.random.default_rng(7).normal(size=500)
    result = p_value(1e6, toys, "normal")
    assert result.p == 1 / 501
    assert result.law_p is not None
    assert result.law_p > 0
    assert math.isfinite(result.z)


def test_no_p_value_of_what_is_no_number() -> None:
    """NaN compares as false, so it would have the smallest p there is."""
    toys = np.arange(20.0)
    for t, null in ((np.nan, toys), (3.0, np.append(toys, np.nan))):
        with pytest.raises(InputError, match="is not a number"):
            p_value(t, null)


def test_a_tail_without_toys_is_no_law() -> None:
    """Ties at the top leave nothing to test an exponential on, so it is not used."""
    toys = np.minimum(np.random.default_rng(1).exponential(size=400), 1.0)
    assert not fit_law(toys, "exponential").usable
    assert p_value(9.0, toys, "exponential").law_p is None


def test_every_statistic_has_a_law() -> None:
    """Ours, and the paper's."""
    assert set(LAWS) == {*STATISTICS, "scan"}
    assert set(PAPER_LAWS) == set(STATISTICS)  # the paper knows no scan
    assert PAPER_LAWS["sat"] == "normal"
    assert PAPER_LAWS["one"] == "chi2"


def test_the_tail_of_a_likelihood_ratio() -> None:
    """e^{-t/2} from the largest twentieth on; not where the toys fall off more slowly."""
    rng = np.random.default_rng(8)
    toys = 2 * rng.exponential(size=2000)
    fitted = fit_law(toys, "exponential")
    assert fitted.usable
    begin = np.quantile(toys, 0.95)
    assert float(fitted.tail(begin)) == pytest.approx(0.05)
    assert float(fitted.tail(begin + 20)) == pytest.approx(0.05 * math.exp(-10))
    assert fitted.tail_ratio == pytest.approx(1, abs=0.6)
    lighter, heavier = fit_law(toys / 2, "exponential"), fit_law(2 * toys, "exponential")
    assert lighter.usable
    assert not heavier.usable
    assert p_value(60.0, 2 * toys, "exponential").law_p is None
    assert p_value(60.0, toys, "exponential").law_p is not None
