"""EXPO-1D: generators against their densities, the ideal test against independent computations."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from gofstream.datasets.expo1d import (
    SIGNALS,
    IdealTest,
    Signal,
    batches,
    ideal_median_z,
    ideal_statistic,
    ideal_toys,
    log_ratio,
    reference,
    toy,
)

every_signal = pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS.keys())

# A peak that would lose 2.5 % of its events below zero: the only one for which the cut matters.
LOW_PEAK = Signal("low", fraction=0.1, paper_z=math.nan, mean=0.5, sigma=0.255)


def textbook_density(signal: Signal, x: float) -> float:
    """Evaluate the formula as the paper prints it, cut at zero, in plain Python."""
    if x < 0:
        return 0.0
    if signal.mean is None or signal.sigma is None:
        return x**2 * math.exp(-x) / 2
    gaussian = math.exp(-((x - signal.mean) ** 2) / (2 * signal.sigma**2))
    above_zero = 0.5 * math.erfc(-signal.mean / signal.sigma / math.sqrt(2))
    return gaussian / math.sqrt(2 * math.pi * signal.sigma**2) / above_zero


def textbook_cdf(signal: Signal, x: np.ndarray) -> np.ndarray:
    """Distribution function of the signal, from scipy."""
    if signal.mean is None or signal.sigma is None:
        return stats.gamma.cdf(x, 3)
    return stats.truncnorm.cdf(x, -signal.mean / signal.sigma, np.inf, signal.mean, signal.sigma)


def test_the_table_of_the_paper():
    """Numbers of Table 1d-dataset, with the misprinted powers of ten repaired."""
    table = {s.name: (s.mean, s.sigma, s.fraction, s.paper_z) for s in SIGNALS.values()}
    assert table == {
        "bulk": (1.6, 0.16, 0.015, 4.9),
        "broad": (4.0, 0.64, 0.0065, 4.2),
        "narrow": (4.0, 0.01, 0.0015, 4.8),
        "tail": (6.4, 0.16, 0.0015, 4.0),
        "excess": (None, None, 0.015, 4.5),
    }
    assert list(SIGNALS) == list(table)


@pytest.mark.parametrize("signal", [*SIGNALS.values(), LOW_PEAK], ids=lambda s: s.name)
def test_density_is_the_printed_one_and_integrates_to_one(signal):
    """Density against the printed formula, and its integral."""
    x = np.array([[0.0, 0.3, 1.6], [3.99, 4.0, 6.5]])
    printed = [[textbook_density(signal, v) for v in row] for row in x.tolist()]
    np.testing.assert_allclose(signal.density(x), printed, rtol=1e-12, atol=0)
    np.testing.assert_array_equal(signal.density([-1e-9, -2.0, -1e4]), 0.0)

    low, high = (0.0, 60.0)
    if signal.mean is not None:
        low = max(0.0, signal.mean - 12 * signal.sigma)
        high = signal.mean + 12 * signal.sigma
    integral, _ = quad(signal.density, low, high, epsabs=1e-12, epsrel=1e-12, limit=200)
    assert integral == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("signal", [*SIGNALS.values(), LOW_PEAK], ids=lambda s: s.name)
def test_draws_follow_the_density(signal):
    """Draws against the distribution function (Kolmogorov-Smirnov)."""
    x = signal.draw(20_000, np.random.default_rng(11))
    assert x.shape == (20_000, 1)
    assert x.dtype == np.float64
    assert (x >= 0).all()
    # At this size a shift of the mean by 5 % of sigma already gives p < 1e-3.
    assert stats.kstest(x[:, 0], lambda v: textbook_cdf(signal, v)).pvalue > 0.01


def test_reference_is_a_unit_exponential():
    """Reference draws against the exponential."""
    x = reference(20_000, np.random.default_rng(3))
    assert x.shape == (20_000, 1)
    assert x.dtype == np.float64
    assert stats.kstest(x[:, 0], "expon").pvalue > 0.01


@pytest.mark.parametrize(
    ("signal", "fraction", "mean"),
    [(None, None, 50.0), (SIGNALS["bulk"], None, 50.75), (SIGNALS["bulk"], 0.5, 75.0)],
)
def test_toy_sizes_are_poisson(signal, fraction, mean):
    """Mean and variance of the size both equal N(R) + N(S)."""
    rng = np.random.default_rng(5)
    sizes = np.array([len(toy(50.0, rng, signal, fraction)) for _ in range(20_000)])
    n = len(sizes)
    # 4 standard deviations of the sample mean and of the sample variance of a Poisson number.
    assert sizes.mean() == pytest.approx(mean, abs=4 * math.sqrt(mean / n))
    assert sizes.var(ddof=1) == pytest.approx(mean, abs=4 * mean * math.sqrt((2 + 1 / mean) / n))


def test_toy_holds_the_signal_in_random_order():
    """The signal is there, as much as asked for, and not at the end."""
    narrow = SIGNALS["narrow"]
    events = toy(10_000, np.random.default_rng(8), narrow, fraction=0.1)
    assert events.shape[1] == 1
    position = np.flatnonzero(np.abs(events[:, 0] - 4.0) < 0.05)
    # 1000 signal events and 18 from the background, Poisson (4 standard deviations) ...
    assert len(position) == pytest.approx(1018, abs=4 * math.sqrt(1018))
    # ... spread evenly over the file.
    assert stats.kstest(position / len(events), "uniform").pvalue > 0.01


def test_toys_repeat_with_the_seed_and_only_then():
    """All randomness comes from the generator handed in."""
    first, again, other = (toy(500, np.random.default_rng(s), SIGNALS["tail"]) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_batches_share_the_exposure():
    """Each batch is a Poisson toy of its share."""
    rng = np.random.default_rng(4)
    parts = batches(80_000, 8, rng, SIGNALS["bulk"], fraction=0.25)
    assert len(parts) == 8
    sizes = np.array([len(p) for p in parts])
    assert all(p.shape == (n, 1) for p, n in zip(parts, sizes, strict=True))
    # Poisson of mean 12 500 each: 4.5 standard deviations, for eight looks.
    np.testing.assert_allclose(sizes, 12_500, atol=4.5 * math.sqrt(12_500))
    assert len(set(sizes.tolist())) > 1
    assert sum(len(p) for p in batches(80_000, 8, rng)) == pytest.approx(80_000, abs=4 * 283)


@every_signal
def test_log_ratio_is_the_naive_formula_where_that_works(signal):
    """log(1 + n(x|S)/n(x|R)) as anyone would write it."""
    x = np.linspace(0.0, 12.0, 241).reshape(-1, 1)
    for fraction in (None, 0.3):
        f = signal.fraction if fraction is None else fraction
        naive = [[math.log(1 + f * textbook_density(signal, v) / math.exp(-v))] for v in x[:, 0]]
        got = log_ratio(x, signal, fraction)
        assert got.shape == x.shape
        # 1 + r loses r below 1e-16, hence the absolute part.
        np.testing.assert_allclose(got, naive, rtol=1e-10, atol=1e-15)


def test_log_ratio_where_the_naive_formula_fails():
    """Ratios too small to add to one, and references too small to divide by."""
    # Small: 1 + r rounds to 1.  Large: e^-x underflows.
    tiny = log_ratio([1e-9], SIGNALS["excess"])[0]
    assert tiny == pytest.approx(0.015 * 0.5e-18, rel=1e-12)
    far = log_ratio([2000.0], SIGNALS["excess"])[0]
    assert far == pytest.approx(math.log(1 + 0.015 * 2000.0**2 / 2), rel=1e-12)
    assert log_ratio([2000.0], SIGNALS["bulk"])[0] == 0.0
    np.testing.assert_array_equal(log_ratio([0.5, 1.6], SIGNALS["bulk"], fraction=0.0), 0.0)


@every_signal
@pytest.mark.parametrize("fraction", [None, 0.2])
def test_ideal_statistic_is_the_printed_product(signal, fraction):
    """Eq. t_id_1D, factor by factor."""
    x = [0.02, 0.9, 1.55, 3.995, 4.01, 6.3, 8.0]
    expected = 40.0
    f = signal.fraction if fraction is None else fraction
    likelihood_ratio = math.exp(-f * expected)
    for v in x:
        background = expected * math.exp(-v)
        likelihood_ratio *= (f * expected * textbook_density(signal, v) + background) / background
    t = ideal_statistic(np.reshape(x, (-1, 1)), signal, expected, fraction)
    assert t == pytest.approx(2 * math.log(likelihood_ratio), rel=1e-12)


@every_signal
def test_events_outside_the_window_do_not_matter(signal):
    """What `ideal_toys` leaves out is below rounding in t."""
    low, high = signal._window()
    x = np.linspace(0.0, 60.0, 60_001)
    outside = x[(x < low) | (x > high)]
    assert (len(outside) == 0) == (signal.name == "excess")
    assert np.all(log_ratio(outside, signal) < 1e-13)


@pytest.mark.parametrize(
    ("name", "injected"), [("bulk", 0.0), ("bulk", None), ("tail", None), ("excess", None)]
)
def test_thinned_toys_are_distributed_as_plain_toys(name, injected):
    """Window and chunks change the cost of `ideal_toys`, not its distribution."""
    signal, expected, n = SIGNALS[name], 1500, 4000
    rng = np.random.default_rng(21)
    plain = [
        ideal_statistic(toy(expected, rng, signal, injected), signal, expected) for _ in range(n)
    ]
    fast = ideal_toys(signal, expected, n, rng, injected=injected)
    assert fast.shape == (n,)
    assert stats.ks_2samp(plain, fast).pvalue > 0.01
    spread = math.hypot(np.std(plain), np.std(fast)) / math.sqrt(n)
    assert np.mean(fast) == pytest.approx(np.mean(plain), abs=3.5 * spread)
    assert np.std(fast) == pytest.approx(np.std(plain), rel=0.1)


@pytest.mark.parametrize(
    ("name", "expected"), [("bulk", 500), ("broad", 1000), ("narrow", 500), ("excess", 1000)]
)
def test_toys_without_events_and_the_likelihood_ratio_identity(name, expected):
    """E1[e^(-t/2)] = E0[e^(t/2)] = 1 for a likelihood ratio; false if a term of t is wrong."""
    rng, n = np.random.default_rng(31), 10_000
    signal = SIGNALS[name]
    under_signal = np.exp(-0.5 * ideal_toys(signal, expected, n, rng))
    under_null = np.exp(0.5 * ideal_toys(signal, expected, n, rng, injected=0.0))
    for weight in (under_signal, under_null):
        error = weight.std() / math.sqrt(n)
        assert error < 0.03
        assert weight.mean() == pytest.approx(1.0, abs=4 * error)
    # A toy that saw nothing still knows that N(S) events were expected.
    empty = ideal_toys(signal, 1e-6, 5, rng)
    np.testing.assert_allclose(empty, -2e-6 * signal.fraction, rtol=1e-9)


@cache
def at_paper_exposure(name: str) -> IdealTest:
    """Run the ideal test once for the tests below; a narrow window makes toys cheap."""
    n_toys = 40_000 if name in ("narrow", "tail") else 2_000
    return ideal_median_z(SIGNALS[name], n_toys=n_toys, rng=np.random.default_rng(41))


@pytest.mark.parametrize(
    ("name", "target"),
    [("bulk", 5.5), ("broad", 4.1), ("narrow", 5.8), ("tail", 5.1), ("excess", 4.5)],
)
def test_ideal_median_z_at_the_paper_exposure(name, target):
    """The numbers of the method page, which are rounded to 0.1."""
    result = at_paper_exposure(name)
    assert result.name == name
    assert result.paper_z == SIGNALS[name].paper_z
    assert 0 < result.median_z_error < 0.03
    assert result.median_z == pytest.approx(target, abs=0.1)


def exact_median_z(signal: Signal, expected: float) -> float:
    """Median Z without any toys: t + 2 N(S) is compound Poisson, so a Fourier transform sums it."""
    edges = np.linspace(0.0, 40.0, 800_001)
    x, width = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    background = expected * np.exp(-x) * width
    both = background + signal.fraction * expected * signal.density(x) * width
    n_grid, t_max = 2**18, 1600.0
    below, rest = np.divmod(2 * log_ratio(x, signal) / (t_max / n_grid), 1.0)
    below = below.astype(int)

    def distribution(intensity: np.ndarray) -> np.ndarray:
        """Probability of each grid point; an event between two points is shared by them."""
        jumps = np.bincount(below, intensity * (1 - rest), minlength=n_grid)
        jumps += np.bincount(below + 1, intensity * rest, minlength=n_grid)
        return np.fft.ifft(np.exp(np.fft.fft(jumps) - jumps.sum())).real

    median = np.searchsorted(np.cumsum(distribution(both)), 0.5)
    return float(stats.norm.isf(distribution(background)[median:].sum()))


@every_signal
def test_ideal_median_z_agrees_with_the_exact_distribution(signal):
    """Importance sampling against the Fourier sum, within four times the error it quotes."""
    result = at_paper_exposure(signal.name)
    exact = exact_median_z(signal, 16_000)
    assert result.median_z == pytest.approx(exact, abs=4 * result.median_z_error)


def test_importance_sampling_agrees_with_plain_monte_carlo():
    """Where p is near 0.05 the tail can simply be counted, from toys and data sets in full."""
    signal, expected = SIGNALS["bulk"], 1400
    result = ideal_median_z(signal, expected, n_toys=40_000, rng=np.random.default_rng(51))
    p = stats.norm.sf(result.median_z)
    assert 0.03 < p < 0.07

    rng, n = np.random.default_rng(52), 20_000
    t_star = np.median(
        [ideal_statistic(toy(expected, rng, signal), signal, expected) for _ in range(n)]
    )
    null = np.array([ideal_statistic(toy(expected, rng), signal, expected) for _ in range(n)])
    counted = np.mean(null >= t_star)
    counting = math.sqrt(p * (1 - p) / n)
    slope = stats.norm.pdf(result.median_z)  # |dp/dZ|; the median of n toys costs 1.25/sqrt(n) in Z
    error = math.hypot(counting, slope * 1.25 / math.sqrt(n), slope * result.median_z_error)
    assert error < 0.0025
    assert counted == pytest.approx(p, abs=3.5 * error)


def test_the_quoted_error_is_the_spread_over_repetitions():
    """The delta method against 200 independent runs."""
    runs = [
        ideal_median_z(SIGNALS["tail"], n_toys=1000, rng=np.random.default_rng([61, k]))
        for k in range(200)
    ]
    spread = np.std([r.median_z for r in runs], ddof=1)
    quoted = np.mean([r.median_z_error for r in runs])
    # The spread of 200 runs is known to 5 %.
    assert quoted == pytest.approx(spread, rel=0.2)


def test_a_signal_too_strong_for_doubles_still_has_a_z():
    """At Z near 70 the p-value is below 1e-1000; Z grows as the root of the exposure."""
    narrow = SIGNALS["narrow"]
    rng = np.random.default_rng(71)
    strong = ideal_median_z(narrow, expected=2.5e6, n_toys=500, rng=rng).median_z
    weaker = ideal_median_z(narrow, expected=2.5e6 / 4, n_toys=500, rng=rng).median_z
    assert strong > 60
    assert strong / weaker == pytest.approx(2.0, rel=0.02)


def test_bad_requests_are_refused():
    """Requests without a meaning raise, and say why."""
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="x >= 0"):
        log_ratio([-0.1, 1.0], SIGNALS["bulk"])
    with pytest.raises(ValueError, match="without a signal"):
        toy(10, rng, fraction=0.1)
    with pytest.raises(ValueError, match="n_batches"):
        batches(10, 0, rng)
    with pytest.raises(ValueError, match="n_toys"):
        ideal_median_z(SIGNALS["tail"], n_toys=1, rng=rng)
    with pytest.raises(ValueError, match="both mean and sigma"):
        replace(SIGNALS["tail"], sigma=None)
    with pytest.raises(ValueError, match="positive"):
        replace(SIGNALS["tail"], sigma=0.0)
