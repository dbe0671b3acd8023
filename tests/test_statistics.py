"""The six statistics against slow loops written straight from the formulas."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.ratio.model import RunningRatio
from gofstream.statistics import (
    STATISTICS,
    LogRatios,
    all_,
    likelihood_ratio,
    log_mean_exp,
    next_,
    one,
    sat,
    saturated,
    single,
    sum_,
)

Floats = NDArray[np.float64]
Terms = list[float]

# Rounding allowed, in units of all that is added up before anything cancels.
ROUNDING = 1e-12


def sealed(array: object) -> Floats:
    """Make a float64 array nobody can write to."""
    made = np.array(array, dtype=np.float64)
    made.flags.writeable = False
    return made


def random_ratios(seed: int, sizes: Sequence[int] = (5, 9, 0, 7), rows: int = 40) -> LogRatios:
    """Draw log ratios with unequal expected counts and a weighted reference."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.7, size=rows)
    return LogRatios(
        reference=sealed(rng.normal(0, 0.8, (len(sizes), rows))),
        data=[sealed(rng.normal(0.2, 0.8, (len(sizes), n))) for n in sizes],
        expected=sealed(rng.uniform(1, 30, len(sizes))),
        share=sealed(weights / weights.sum()),
    )


@st.composite
def any_ratios(draw: st.DrawFn) -> LogRatios:
    """Log ratios of up to four batches, some perhaps empty, some reference rows weightless."""
    rows = draw(st.integers(1, 6))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    f = st.floats(-4, 4)
    weights = draw(hnp.arrays(np.float64, rows, elements=st.floats(0, 10)))
    assume(weights.sum() > 1e-3)
    count = len(sizes)
    return LogRatios(
        reference=sealed(draw(hnp.arrays(np.float64, (count, rows), elements=f))),
        data=[sealed(draw(hnp.arrays(np.float64, (count, n), elements=f))) for n in sizes],
        expected=sealed(draw(hnp.arrays(np.float64, count, elements=st.floats(0.1, 1e4)))),
        share=sealed(weights / weights.sum()),
    )


# -- the formulas, one term at a time ---------------------------------------------------------


def slow_aggregate(f: Floats, expected: Floats, point: int) -> float:
    """F at one point: the logarithm of the mean ratio, in plain Python."""
    total = math.fsum(expected.tolist())
    return math.log(
        math.fsum(float(n) / total * math.exp(f[i, point]) for i, n in enumerate(expected))
    )


def slow_test(on_reference: list[float], on_data: list[float], n: float, share: Floats) -> Terms:
    """Terms of 2 [ sum over R of w (1 - e^f) + sum over D of f ]."""
    terms = []
    for f, part in zip(on_reference, share.tolist(), strict=True):
        terms += [2 * n * part, -2 * n * part * math.exp(f)]
    return terms + [2 * f for f in on_data]


def slow_single(ratios: LogRatios, batch: int = 0) -> Terms:
    """Terms of the test of one batch by its own log ratio."""
    return slow_test(
        ratios.reference[batch].tolist(),
        ratios.data[batch][batch].tolist(),
        float(ratios.expected[batch]),
        ratios.share,
    )


def slow_sum(ratios: LogRatios) -> Terms:
    """Terms of all single tests."""
    return [term for i in range(len(ratios.data)) for term in slow_single(ratios, i)]


def slow_one(ratios: LogRatios, tested: Sequence[int] = (0,)) -> Terms:
    """Terms of the test of some batches by the aggregate of all."""
    terms = []
    for j in tested:
        terms += slow_test(
            [
                slow_aggregate(ratios.reference, ratios.expected, x)
                for x in range(len(ratios.share))
            ],
            [
                slow_aggregate(ratios.data[j], ratios.expected, x)
                for x in range(ratios.data[j].shape[1])
            ],
            float(ratios.expected[j]),
            ratios.share,
        )
    return terms


def slow_all(ratios: LogRatios) -> Terms:
    """Terms of the test of every batch by the aggregate."""
    return slow_one(ratios, range(len(ratios.data)))


def slow_sat(ratios: LogRatios) -> Terms:
    """Terms of the test of the aggregate on the reference, with the mean weight."""
    mean = math.fsum(ratios.expected.tolist()) / len(ratios.expected)
    terms = []
    for x, part in enumerate(ratios.share.tolist()):
        aggregate = slow_aggregate(ratios.reference, ratios.expected, x)
        ratio = math.exp(aggregate)
        terms += [2 * mean * part, -2 * mean * part * ratio, 2 * mean * part * ratio * aggregate]
    return terms


def slow_next(ratios: LogRatios, shrink: float = 0.25) -> Terms:
    """Terms of the test of every batch but the first by the batches before it, shrunk."""
    terms = []
    for i in range(1, len(ratios.data)):
        before = ratios.expected[:i]

        def predict(f: Floats, x: int, before: Floats = before) -> float:
            ratio = math.exp(slow_aggregate(f, before, x))
            return math.log(1 + shrink * (ratio - 1))

        terms += slow_test(
            [predict(ratios.reference[:i], x) for x in range(len(ratios.share))],
            [predict(ratios.data[i][:i], x) for x in range(ratios.data[i].shape[1])],
            float(ratios.expected[i]),
            ratios.share,
        )
    return terms


def assert_adds_up(got: float, terms: Terms) -> None:
    """Compare with the exact sum of the terms, to rounding of what was added."""
    scale = math.fsum(abs(term) for term in terms) + 1
    assert got == pytest.approx(math.fsum(terms), rel=0, abs=ROUNDING * scale)


SLOW: dict[str, Callable[[LogRatios], Terms]] = {
    "single": slow_single,
    "sum": slow_sum,
    "all": slow_all,
    "one": slow_one,
    "sat": slow_sat,
    "next": slow_next,
}


def test_six_names() -> None:
    """Users know six statistics, no more and no fewer, and cannot change the list."""
    assert set(STATISTICS) == {"single", "sum", "all", "one", "sat", "next"}
    with pytest.raises(TypeError):
        STATISTICS["seventh"] = single


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=60)
@given(ratios=any_ratios())
def test_as_the_formula(name: str, ratios: LogRatios) -> None:
    """Each statistic, by its name and with its defaults, is the sum the method page writes down."""
    assert_adds_up(STATISTICS[name](ratios), SLOW[name](ratios))


@given(ratios=any_ratios(), data=st.data())
def test_single_of_any_batch(ratios: LogRatios, data: st.DataObject) -> None:
    """The batch can be chosen."""
    batch = data.draw(st.integers(0, len(ratios.data) - 1))
    assert_adds_up(single(ratios, batch), slow_single(ratios, batch))


@given(ratios=any_ratios(), data=st.data())
def test_one_of_any_subset(ratios: LogRatios, data: st.DataObject) -> None:
    """The tested batches can be chosen; the aggregate is always that of all."""
    tested = data.draw(st.lists(st.integers(0, len(ratios.data) - 1), unique=True))
    assert_adds_up(one(ratios, tested), slow_one(ratios, tested))


@given(ratios=any_ratios(), shrink=st.sampled_from([0.25, 1.0]))
def test_next_with_its_shrinkage(ratios: LogRatios, shrink: float) -> None:
    """Shrunk by a quarter, or not at all."""
    assert_adds_up(next_(ratios, shrink), slow_next(ratios, shrink))


def test_every_subset_of_four_batches() -> None:
    """`one` adds over batches, so its fifteen subsets follow from four numbers."""
    ratios = random_ratios(11)
    alone = [one(ratios, [j]) for j in range(4)]
    assert len({round(t, 6) for t in alone}) == 4
    for size in range(1, 5):
        for tested in combinations(range(4), size):
            expected = math.fsum(alone[j] for j in tested)
            assert one(ratios, tested) == pytest.approx(expected, rel=1e-12)
    assert one(ratios, range(4)) == all_(ratios)
    assert one(ratios) == alone[0]
    assert one(ratios, []) == 0


def test_one_batch_has_one_test() -> None:
    """With nothing to aggregate `single`, `sum` and `all` are the same, and `next` is zero."""
    ratios = random_ratios(12, sizes=(9,))
    assert sum_(ratios) == single(ratios) != 0
    assert all_(ratios) == pytest.approx(single(ratios), rel=1e-12)
    for shrink in (0.25, 1.0):
        assert next_(ratios, shrink) == 0


def test_nothing_learnt_gives_zero() -> None:
    """With f = 0 everywhere each statistic is zero."""
    ratios = random_ratios(13)
    flat = replace(ratios, reference=0 * ratios.reference, data=[0 * f for f in ratios.data])
    for name, statistic in STATISTICS.items():
        assert statistic(flat) == pytest.approx(0, abs=1e-12), name


@given(ratios=any_ratios())
def test_saturated_is_never_negative(ratios: LogRatios) -> None:
    """1 - y + y log y is not below zero for any y, so neither is `sat`."""
    assert sat(ratios) >= -1e-11


def test_saturated_from_the_running_sum() -> None:
    """The running sum on the reference is all `sat` needs."""
    ratios = random_ratios(14, sizes=(3, 3, 3, 3, 3, 3, 3))
    running = RunningRatio.empty(len(ratios.share))
    for f, expected in zip(ratios.reference, ratios.expected.tolist(), strict=True):
        running = running.add(f, expected)
    assert running.exposure == pytest.approx(ratios.expected.sum(), rel=1e-14)
    mean = running.exposure / len(ratios.expected)
    assert saturated(running.value(), mean, ratios.share) == pytest.approx(sat(ratios), rel=1e-12)


def permuted(ratios: LogRatios, order: list[int]) -> LogRatios:
    """Take the batches in another order."""
    return replace(
        ratios,
        reference=ratios.reference[order],
        data=[ratios.data[j][order] for j in order],
        expected=ratios.expected[order],
    )


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 2, 1, 0], [1, 2, 3, 0]])
def test_order_of_batches(order: list[int]) -> None:
    """Only `next` cares which batch came first."""
    ratios = random_ratios(15)
    other = permuted(ratios, order)
    for statistic in (sum_, all_, sat):
        assert statistic(other) == pytest.approx(statistic(ratios), rel=1e-12)
    for j, batch in enumerate(order):
        assert single(other, j) == single(ratios, batch)
        assert one(other, [j]) == pytest.approx(one(ratios, [batch]), rel=1e-12)
    assert abs(next_(other) - next_(ratios)) > 1e-2


def test_next_looks_only_back() -> None:
    """What the last batch taught is not used, and neither are the data of the first."""
    ratios = random_ratios(16)
    rng = np.random.default_rng(17)
    reference = ratios.reference.copy()
    reference[-1] = rng.normal(size=reference.shape[1])
    data = [f.copy() for f in ratios.data]
    data[0][:] = rng.normal(size=data[0].shape)
    for j, f in enumerate(data):
        f[j:] = rng.normal(size=f[j:].shape)  # what batch j itself and later ones say of it
    assert next_(replace(ratios, reference=reference, data=data)) == next_(ratios)
    reference[0] += 0.1
    assert next_(replace(ratios, reference=reference)) != next_(ratios)


def test_inputs_are_left_alone() -> None:
    """The arrays are the same after every statistic (and cannot be written to, as it happens)."""
    ratios = random_ratios(18)
    again = random_ratios(18)
    for statistic in STATISTICS.values():
        statistic(ratios)
    next_(ratios, 1.0)
    one(ratios, [0, 2])
    for here, there in zip(
        [ratios.reference, ratios.expected, ratios.share, *ratios.data],
        [again.reference, again.expected, again.share, *again.data],
        strict=True,
    ):
        np.testing.assert_array_equal(here, there)


# -- huge log ratios --------------------------------------------------------------------------


def decimal_aggregate(f: Sequence[float], expected: Sequence[float]) -> float:
    """F at one point with sixty digits and exponents without end."""
    with localcontext() as context:
        context.prec = 60
        total = sum((Decimal(n) for n in expected), Decimal(0))
        mean = sum(
            (Decimal(n) / total * Decimal(v).exp() for v, n in zip(f, expected, strict=True)),
            Decimal(0),
        )
        return float(mean.ln())


@given(
    f=st.lists(st.sampled_from([-2000.0, -500.0, -30.0, 0.0, 500.0, 2000.0]), min_size=1),
    data=st.data(),
)
def test_log_mean_exp_does_not_overflow(f: list[float], data: st.DataObject) -> None:
    """The ratios overflow or vanish; their log mean does neither."""
    expected = data.draw(st.lists(st.floats(1e-3, 1e6), min_size=len(f), max_size=len(f)))
    got = log_mean_exp(np.array(f)[:, None], np.array(expected))
    assert got.shape == (1,)
    assert got[0] == pytest.approx(decimal_aggregate(f, expected), rel=1e-13, abs=1e-12)


def test_huge_log_ratios() -> None:
    """Log ratios of ±500 give the finite numbers that the formulas have."""
    share = np.array([0.5, 0.5])
    up, down, n = np.array([500.0, -500.0]), np.array([-500.0, -500.0]), 3.0
    # Written as differences of large numbers, these would be lost; e^500 itself is 1.4e217.
    ratio = math.exp(500)
    assert likelihood_ratio(down, down, n, share) == pytest.approx(2 * n - 2000, rel=1e-14)
    assert likelihood_ratio(up, up, n, share) == pytest.approx(-n * ratio, rel=1e-13)
    assert saturated(down, n, share) == pytest.approx(2 * n, rel=1e-14)
    assert saturated(up, n, share) == pytest.approx(n * 499 * ratio, rel=1e-13)


@pytest.mark.parametrize("shrink", [0.25, 1.0])
def test_next_with_huge_log_ratios(shrink: float) -> None:
    """An event far out may say +2000 where the reference never is; t stays exact."""
    ratios = LogRatios(
        reference=np.array([[-500.0, -2000.0], [0.0, 0.0]]),
        data=[np.zeros((2, 0)), np.array([[2000.0, -500.0, 500.0], [7.0, 7.0, 7.0]])],
        expected=np.array([4.0, 6.0]),
        share=np.array([0.25, 0.75]),
    )
    # On the reference e^G = 1 - b; on the events G is F + log b where F is large.
    low = -500.0 if shrink == 1 else math.log(0.75)
    on_data = 2000 + 500 + 2 * math.log(shrink) + low
    assert next_(ratios, shrink) == pytest.approx(2 * (6 * shrink + on_data), rel=1e-14)


# -- what makes t a likelihood ratio -----------------------------------------------------------


def test_mean_likelihood_ratio_is_one() -> None:
    """For f fixed beforehand and a large reference, e^{t/2} averages to one over Poisson toys."""
    # The square of e^{t/2} averages exp(N E[(e^f - 1)²]), which gives the standard error of the
    # toys. Tolerance: four of it and of that of the finite reference together, 0.063 here (found:
    # 0.002). Without the reference term the mean would be 6.5; with 2N for N, 0.15.
    rng = np.random.default_rng(19)
    expected, toys, rows = 20.0, 4000, 100_000

    def f(x: Floats) -> Floats:
        return np.asarray(0.35 * np.exp(-((x - 1) ** 2) / (2 * 0.25**2)))[:, 0]

    on_reference, share = f(expo1d.reference(rows, rng)), np.full(rows, 1 / rows)
    evidence = [
        math.exp(
            likelihood_ratio(
                on_reference, f(expo1d.reference(rng.poisson(expected), rng)), expected, share
            )
            / 2
        )
        for _ in range(toys)
    ]
    excess = np.expm1(on_reference)
    of_toys = math.sqrt(math.expm1(expected * float(np.mean(excess**2))) / toys)
    of_reference = expected * float(np.std(excess)) / math.sqrt(rows)
    tolerance = 4 * math.hypot(of_toys, of_reference)
    assert tolerance < 0.07
    assert math.exp(expected * float(np.mean(excess))) > 5  # the reference term matters
    assert math.fsum(evidence) / toys == pytest.approx(1, abs=tolerance)
