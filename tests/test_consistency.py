"""Toys that do not follow the reference are noticed, and those that do are left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream import Sample, Settings, nplm_test
from gofstream.inference.consistency import impossible_toys, other_distribution
from gofstream.nplm import plan_null
from gofstream.report.examine import examine
from gofstream.report.text import summary
from gofstream.toys.plan import ReferencePlan

Floats = NDArray[np.float64]
QUICK = Settings(widths=(0.8,), n_centres=20)


def weighted(rows: int, seed: int, *, weights: bool = True) -> Sample:
    """Draw normal events of weight e^(x/2), which stand for a normal around one half."""
    x = np.random.default_rng(seed).normal(size=rows)
    w = np.exp(x / 2) if weights else None
    return Sample.from_array(x, ["x"], weights=w, name="events")


def plan_of(pool: Sample) -> ReferencePlan:
    """Plan toys from a pool against a weighted reference."""
    return plan_null(weighted(6000, 1), 400.0, settings=QUICK, pool=pool, rng=1)


def test_a_pool_without_its_weights_contradicts_the_reference() -> None:
    """Half a unit apart: the column, the parts below an edge, and how many standard errors."""
    text = other_distribution(plan_of(weighted(20_000, 2, weights=False)))
    found = text.split()
    assert "of the pool 'events'" in text
    there, edge, here = float(found[0]), float(found[found.index("≤") + 1].rstrip(",")), 0.0
    here = float(text.split(", and ")[1].split()[0])
    normal = [100 * (1 + math.erf((edge - mean) / 2**0.5)) / 2 for mean in (0.0, 0.5)]
    assert (there, here) == pytest.approx(normal, abs=1.5)


@pytest.mark.parametrize("seed", range(2, 12))
def test_the_right_pool_does_not(seed: int) -> None:
    """Ten pools of the same weighted model."""
    assert other_distribution(plan_of(weighted(20_000, seed))) == ""


def test_a_simulator_of_another_model() -> None:
    """A shift of a fifth is noticed; the right model, and a harmless shift, are not."""

    def shifted(by: float) -> str:
        return other_distribution(
            plan_null(
                np.random.default_rng(1).normal(size=(20_000, 1)),
                400.0,
                settings=QUICK,
                simulator=lambda n, rng: rng.normal(by, 1, size=(n, 1)),
                rng=1,
            )
        )

    assert shifted(0.0) == shifted(0.005) == ""
    assert "of the simulator have x" in shifted(0.2)


def test_turns_of_a_periodic_column_agree() -> None:
    """From 0 to 2π is from −π to π."""
    rng = np.random.default_rng(3)
    reference = Sample.from_array(rng.uniform(-np.pi, np.pi, 6000), ["phi"], periodic=["phi"])
    pool = Sample.from_array(rng.uniform(0, 2 * np.pi, 20_000), ["phi"], periodic=["phi"])
    plan = plan_null(reference, 400.0, settings=QUICK, pool=pool, rng=1)
    assert other_distribution(plan) == ""


def test_toys_that_the_reference_does_not_allow() -> None:
    """One in twenty may have an impossible t, and no more."""
    t = np.zeros(100)
    t[:5] = 50.0
    assert impossible_toys(t) == ""
    t[5] = -2 * math.log(1e-6)
    assert impossible_toys(t).startswith("t of the scan exceeds 27.6 in 6 of 100 toys")


def test_a_result_says_that_its_parts_contradict_each_other() -> None:
    """A peak in all toys, too narrow for quantiles: p = 1 beside the window comes with a reason."""
    rng = np.random.default_rng(4)
    reference = Sample.from_array(rng.normal(size=(20_000, 1)), ["x"], name="reference")

    def peaked(n: int, rng: np.random.Generator) -> Floats:
        x = rng.normal(size=(n, 1))
        x[: n // 40] = rng.normal(2.5, 0.005, size=(n // 40, 1))
        return rng.permutation(x)

    data = Sample.from_array(peaked(2000, rng), ["x"], name="data")

    def tested(simulator: object, **more: object) -> list[str]:
        result = nplm_test(
            data, reference, expected=2000, settings=QUICK, n_resamples=19, rng=1,
            simulator=simulator, **more,
        )  # fmt: skip
        record = examine(result, data, reference)
        assert (record.pvalue > 0.05) == (simulator is peaked)
        return [line for line in summary(record).splitlines() if line.startswith("Contradiction: ")]

    said = tested(peaked)
    assert "t of the scan exceeds 27.6 in 19 of 19 toys" in said[-1]
    assert all("no p-value is to be trusted" in text for text in said)
    assert tested(lambda n, rng: rng.normal(size=(n, 1))) == []


@pytest.mark.parametrize("rows", [700, 2000])
def test_a_small_reference_does_not_contradict_its_toys(rows: int) -> None:
    """Five rows for each event are enough for the limit on t of the scan."""
    rng = np.random.default_rng(rows)
    result = nplm_test(
        rng.exponential(size=(rows // 6, 2)),
        rng.exponential(size=(rows, 2)),
        expected=rows // 6,
        settings=QUICK,
        simulator=lambda n, rng: rng.exponential(size=(n, 2)),
        n_resamples=60,
        rng=1,
    )
    assert not [text for text in result.caveats if "contradict" in text]
