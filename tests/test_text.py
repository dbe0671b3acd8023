"""What the console says of a result: every number names what made it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gofstream import Sample, Settings, nplm_test
from gofstream.inference.rate import RateTest
from gofstream.report.examine import examine
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
    head = summary(record).splitlines()[1]
    assert head.startswith(
        f"p = {p_text(result.pvalue)}: shape and number of events together (Fisher). "
        f"Shape (all + scan): p = {p_text(shape.p)}, "
    )
    assert "Number of events: 500 observed, 20,000 expected, p = 2.2 × 10⁻³⁰⁸." in head
    text = str(result)
    assert "shape and rate together (Fisher)" in text
    assert "rate, tested apart: 500 events, 20000 expected" in text
