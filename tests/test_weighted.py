"""Toys from weighted pools: means and spreads that follow the weights, and pools that are refused.

Rows are standard normal. With weights e^{bx} they stand for a normal of mean b: its moments and
tails are known exactly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import GofstreamWarning, InputError
from gofstream.nplm import nplm_test, plan_null
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.sources import Pool, toy_rng
from gofstream.toys.weighted import draw_rows, refuse_heavy_rows, rows_for_pool, rows_to_split

Floats = NDArray[np.float64]
EVENTS, MANY = 300, 3000


def tilted(rows: int, slope: float, seed: int) -> Sample:
    """Make rows that stand for a normal of mean ``slope``."""
    x = np.random.default_rng(seed).normal(size=(rows, 1))
    return Sample.from_array(x, ["x"], weights=np.exp(slope * x[:, 0]), name="pool")


def rows_worth(ratio: float, slope: float, events: int = EVENTS) -> int:
    """Count rows whose effective number is ``ratio`` times the events: E[v]²/E[v²] = e^{-b²}."""
    return math.ceil(ratio * events * math.exp(slope**2))


def test_rows_come_as_often_as_their_weights_say() -> None:
    """Each within 4.5 sd of 4000 draws of 6; never, never twice, or 1 to 2 times a draw."""
    weights = np.array([0.0, 1.0, 2.0, 2.5, 3.0, 0.0, 4.0, 4.5, 0.1, 9.0])
    share, draws, total = weights / weights.sum(), 4000, 6
    copies = total * share
    counts = np.array(
        [
            np.bincount(draw_rows(share, total, toy_rng(1, "null", k)), minlength=10)
            for k in range(draws)
        ]
    )
    assert (counts.sum(axis=1) == total).all()
    assert (counts >= np.floor(copies)).all()
    assert (counts <= np.ceil(copies)).all()
    parts = copies % 1
    spread = np.sqrt(parts * (1 - parts) / draws)
    assert (np.abs(counts.mean(axis=0) - copies) <= 4.5 * spread).all()


def test_the_order_of_drawn_rows_is_random() -> None:
    """The heaviest row is as often first as last: batches are cut from this order."""
    share = np.full(60, 0.5 / 59)
    share[7] = 0.5
    places = np.concatenate(
        [np.flatnonzero(draw_rows(share, 10, toy_rng(2, "null", k)) == 7) for k in range(600)]
    )
    counts = np.bincount(places, minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_no_rows_and_rounding() -> None:
    """An empty toy is empty; a last row without weight is never drawn."""
    rng = np.random.default_rng(3)
    assert draw_rows(np.array([0.5, 0.5]), 0, rng).tolist() == []
    share = np.full(7, 1 / 6)
    share[3] = 0
    assert all(3 not in draw_rows(share, 6, rng) for _ in range(300))


@pytest.mark.parametrize("slope", [0.5, 1.0])
def test_the_mean_of_toys_follows_the_weights(slope: float) -> None:
    """Mean of 120 toys from one pool: that of the weighted rows within 4 sd of independent events.

    The pool is worth 10 data sets: less than is accepted, so that a wrong mean shows at once.
    """
    sample = tilted(rows_worth(10, slope), slope, 4)
    pool, x = Pool(sample), sample.values[:, 0]
    for powers in (x, x**2, x > slope + 2):
        mean = float(sample.share @ powers)
        spread = math.sqrt(float(sample.share @ (powers - mean) ** 2))
        total, count = 0.0, 0
        for k in range(120):
            drawn = np.concatenate(pool.draw(np.array([EVENTS]), toy_rng(5, "null", k)))[:, 0]
            seen = drawn if powers is x else drawn**2 if powers.dtype != bool else drawn > slope + 2
            total, count = total + float(np.sum(seen)), count + len(drawn)
        assert abs(total / count - mean) < 4 * spread / math.sqrt(count)


def test_counts_in_a_tail_fluctuate_as_those_of_data() -> None:
    """Above x = 2: mean and mean square deviation of 80 pools × 30 toys are those of Poisson data.

    Within 4 standard errors from the scatter of pools; of the true mean, since a pool shifts all
    its toys alike.
    """
    slope, window = 0.5, 2.0
    truth = EVENTS * float(stats.norm.sf(window - slope))
    means, squares = [], []
    for number in range(80):
        pool = Pool(tilted(rows_worth(31, slope), slope, 100 + number))
        counts = np.array(
            [
                np.count_nonzero(pool.draw(np.array([EVENTS]), toy_rng(number, "a", k))[0] > window)
                for k in range(30)
            ]
        )
        means.append(counts.mean())
        squares.append(np.mean((counts - truth) ** 2))
    for found in (means, squares):
        assert abs(np.mean(found) - truth) < 4 * np.std(found) / math.sqrt(len(found))


def heavy_part(sample: Sample, expected: float) -> float:
    """Add up, row by row, the weight of those expected more than 0.2 times."""
    assert sample.weights is not None
    total = math.fsum(sample.weights)
    return math.fsum(v for v in sample.weights if expected * v / total > 0.2) / total


@pytest.mark.parametrize("slope", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("ratio", [31, 60, 110])
def test_heavy_rows_are_refused(slope: float, ratio: float) -> None:
    """Where their part of the weight is above 10⁻³; the text gives part, region and way out."""
    sample = tilted(rows_worth(ratio, slope, MANY), slope, 6)
    part = heavy_part(sample, MANY)
    # At slope 1 the pool of 31 data sets must be refused, one of 110 must pass.
    assert (part > 1e-3) is ((slope, ratio) in {(0.8, 31), (1.0, 31), (1.0, 60)})
    if part <= 1e-3:
        refuse_heavy_rows(sample, MANY)
        return
    with pytest.raises(InputError) as caught:
        Pool(sample).check(MANY)
    text, x = str(caught.value), sample.values[:, 0]
    assert f"they carry {part:.2%} of the weight" in text
    assert sample.weights is not None
    heavy = x[MANY * sample.weights / math.fsum(sample.weights) > 0.2]
    assert f"x from {heavy.min():.4g} to {heavy.max():.4g}" in text
    assert f"{len(heavy)} of {len(sample)} rows" in text
    rows = int(text.split("about ")[1].split()[0])
    assert heavy_part(tilted(round(1.25 * rows), slope, 7), MANY) < 1e-3
    assert heavy_part(tilted(round(0.8 * rows), slope, 7), MANY) > 1e-3


def test_a_pool_too_small_by_its_effective_size() -> None:
    """Rows enough, but worth 12 data sets: a warning that gives both numbers."""
    weights = np.tile([1.0, 5.0, 0.1], 2400)
    sample = Sample.from_array(np.arange(7200.0)[:, None], weights=weights, name="pool")
    worth = (2400 * 6.1) ** 2 / (2400 * 26.01)
    assert 10 < worth / EVENTS < 30
    text = rf"7200 weighted events, worth {worth:.0f} of equal weight, only"
    with pytest.warns(GofstreamWarning, match=text):
        Pool(sample).check(EVENTS)


@pytest.mark.parametrize("slope", [0.2, 0.5, 0.8])
def test_rows_for_a_pool_are_neither_too_few_nor_too_many(slope: float) -> None:
    """A quarter more rows pass both rules; a fifth less fail one."""
    sample = tilted(300_000, slope, 8)
    for factor, good in ((1.25, True), (0.8, False)):
        pool = tilted(round(factor * rows_for_pool(sample, MANY)), slope, 9)
        passes = pool.effective_size >= 30 * MANY and heavy_part(pool, MANY) <= 1e-3
        assert passes is good
    left = 5 * EVENTS * len(sample) / sample.effective_size
    assert rows_to_split(sample, EVENTS) == rows_for_pool(sample, EVENTS) + math.ceil(left)


def test_a_weighted_reference_that_cannot_be_split() -> None:
    """The text says that labels cannot be permuted, and what would do; so many rows do."""
    quick = Settings(widths=(1.0,), n_centres=20)
    sample = tilted(6000, 0.5, 10)
    data = np.random.default_rng(11).normal(0.5, size=(EVENTS, 1))
    for call in (
        lambda: nplm_test(data, sample, settings=quick, rng=1),
        lambda: plan_null(sample, EVENTS, settings=quick, rng=1),
    ):
        with pytest.raises(InputError) as caught:
            call()
        text = str(caught.value)
        for part in ("has weights", "6000 rows", "--pool FILE", "simulator", "permuted labels"):
            assert part in text
        assert f"at least {rows_to_split(sample, EVENTS)} rows" in text
        assert f"{rows_for_pool(sample, EVENTS)} further nominal rows" in text
    large = tilted(round(1.05 * rows_to_split(sample, EVENTS)), 0.5, 10)
    assert "set aside" in plan_null(large, EVENTS, settings=quick, rng=1).source_name
