"""What the console says of a result: every number names what made it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gofstream import Sample, Settings, nplm_test
from gofstream.inference.rate import RateTest
from gofstream.inference.result import undescribed
from gofstream.report.examine import examine
from gofstream.report.html import render
from gofstream.report.text import summary
from gofstream.report.words import p_text

QUICK = Settings(widths=(0.4, 1.2), n_centres=30)


def sample(rows: int, seed: int, name: str) -> Sample:
    """Draw two normal columns."""
    rng = np.random.default_rng(seed)
    return Sample.from_array(rng.normal(size=(rows, 2)), ["a", "b"], name=name)


def test_a_verdict_made_by_the_rate_says_so() -> None:
    """500 events where 20 000 are expected: the headline names the rate and the shape."""
    data, reference = sample(500, 1, "data"), sample(3000, 2, "reference")
    result = nplm_test(
        data, reference, expected=20_000, settings=QUICK, n_resamples=19, rng=1, batches=2
    )
    record = examine(result, data, reference)
    rate = RateTest.of(500, 20_000.0)
    shape = result.verdicts["all", "scan"]
    log = math.log(shape.p) + math.log(rate.p)
    assert result.pvalue == pytest.approx(math.exp(log) * (1 - log), rel=1e-6)
    head = summary(record).splitlines()[2]
    assert head.startswith(
        f"p = {p_text(result.pvalue)}: shape and number of events together (Fisher). "
        f"Shape (all + scan): p = {p_text(shape.p)}, "
    )
    assert "Number of events: 500 observed, 20,000 expected, p = 2.2 × 10⁻³⁰⁸." in head
    text = str(result)
    assert "shape and rate together (Fisher)" in text
    assert "rate, tested apart: 500 events, 20000 expected" in text


def test_a_fit_that_does_not_describe_the_data() -> None:
    """500 events in [2, 2.1] at σ = 3: t far below zero; the scan sees them, and so the verdict."""
    rng = np.random.default_rng(3)
    reference = Sample.from_array(rng.normal(size=(20_000, 1)), ["x"], name="reference")
    data = Sample.from_array(rng.uniform(2, 2.1, size=(500, 1)), ["x"], name="data")
    result = nplm_test(
        data,
        reference,
        expected=500,
        batches=2,
        settings=Settings(widths=(3.0,), n_centres=30),
        simulator=lambda n, rng: rng.normal(size=(n, 1)),
        n_resamples=39,
        rng=1,
    )
    found = result.statistics["all"]
    assert found.t[0] < -1000
    assert result.null.statistic("all").min() > 0
    assert found.undescribed == (True,)
    assert result.statistics["scan"].undescribed == (False,)
    assert result.statistics["scan"].p[0].hits == 0
    assert result.pvalue == 2 / 40  # the toy of largest `all` ties with the data
    record = examine(result, data, reference)
    text = summary(record)
    assert text.splitlines()[2].startswith("p = 0.05, ")
    row = next(line for line in text.splitlines() if line.startswith("all  "))
    assert row.split() == ["all", "t", "<", "0", "-", "3"]
    assert "t < 0: f does not describe the data (" in text
    assert "all at σ = 3: t < 0: f does not describe the data" in str(result)
    page = render(record)
    assert "t &lt; 0: f does not describe the data" in page


def test_p_of_one_with_t_above_zero_is_a_p_value() -> None:
    """Data that look more like the reference than all toys, and t below zero that toys reach."""
    assert not undescribed(1.0, 20, 20)
    assert not undescribed(-1.0, 19, 20)
    assert undescribed(-1.0, 20, 20)


def test_what_was_tested_is_said_first() -> None:
    """Part of the reference set aside, and that only the shape is tested; or the number, apart."""
    data = sample(40, 1, "data")

    def told(reference: Sample, expected: float | None) -> str:
        result = nplm_test(
            data, reference, expected=expected, settings=QUICK, n_resamples=19, rng=1
        )
        return summary(examine(result, data, reference)).splitlines()[1]

    large, small = sample(2000, 2, "reference"), sample(300, 2, "reference")
    assert told(large, None) == (
        "40 events in 1 batch; only their shape is tested, not their number (no expected number "
        "was given); 19 toys from a pool of 1200 events set aside from the 2000 of the reference"
    )
    assert told(large, 50.0).startswith("40 events in 1 batch; 50 expected; 19 toys from a pool")
    assert told(small, 50.0) == (
        "40 events in 1 batch; 50 expected, shape and number tested apart; "
        "19 toys from permuted labels"
    )
