"""Plans against a fixed reference: toys that choose their own centres, and toys refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import VALUES_PER_BLOCK, ReferencePlan, statistics_of, toys_in_a_block
from gofstream.toys.sources import Pool, Simulator, Source, refuse_training_rows, toy_rng

Floats = NDArray[np.float64]
ALL = list(STATISTICS).index("all")
#: The choices that look at data; the narrow width leaves events in the tail uncovered.
DEPENDENT = {
    "pooled": Settings(widths=(0.02, 1.0), n_centres=30, centres_from="pooled", one_step=True),
    "cover": Settings(widths=(0.02, 1.0), n_centres=30, cover=True, one_step=True),
}


def exponential(n: int, rng: np.random.Generator) -> Floats:
    """Draw the nominal model."""
    return rng.standard_exponential(size=(n, 1))


def plan_with(settings: Settings, source: Source | None = None, rows: int = 2000) -> ReferencePlan:
    """Make two batches of 60 events against 2000 reference events."""
    rng = np.random.default_rng(3)
    reference = Sample.from_array(exponential(rows, rng), name="reference")
    learner = Learner.prepare(reference, settings, expected=60.0, rng=rng)
    return ReferencePlan(
        learner, source or Simulator(exponential), "exponential", np.full(2, 60.0), 4
    )


def toy(plan: ReferencePlan, stream: str, number: int) -> list[Floats]:
    """Draw the batches of a toy, in the units of the reference."""
    return plan.source.draw(plan.expected, toy_rng(plan.seed, stream, number))


def by_hand(plan: ReferencePlan, width: float, events: list[Floats], stream: str, n: int) -> Floats:
    """Choose centres for this data set with the seed meant for it, and fit."""
    scaled = [plan.learner.scaling.apply(Sample.from_array(batch)) for batch in events]
    chosen = plan.learner.centred_on(scaled, toy_rng(plan.seed, f"{stream}: centres", n))
    features = chosen.features(width)
    return statistics_of(features, scaled, plan.expected, plan.learner.settings)[0][0]


@pytest.mark.parametrize("name", DEPENDENT)
def test_every_toy_chooses_its_own_centres(name: str, tmp_path: Path) -> None:
    """Toys and data get the t of a learner centred on them by hand; bits do not depend on who."""
    plan = plan_with(DEPENDENT[name])
    assert plan.learner.waiting
    assert plan.about()["centres"] == "anew for every data set"
    for width in plan.learner.widths:
        assert plan.shared(width) is None
        block = plan.block(None, width, 1)[0]
        assert (plan.block(None, width, 1)[0] == block).all()
        for n in (0, 7):
            events = toy(plan, "null", 16 + n)
            assert (block[n] == by_hand(plan, width, events, "null", 16 + n)).all()
        data = toy(plan, "observed", 0)
        found = plan.observe(None, width, [Sample.from_array(batch) for batch in data])
        assert (found.t == by_hand(plan, width, data, "data", 0)).all()
        if name == "cover":
            assert not found.uncovered.any()
    with thread_workers(1) as executor:
        one = calibrate(plan, 20, tmp_path / "1.null", executor)
    with thread_workers(3) as executor:
        three = calibrate(plan, 20, tmp_path / "3.null", executor)
    assert one.table.t.tobytes() == three.table.t.tobytes()
    assert (one.table.t[16:20, :, 1] == block[:4]).all()


def shares_of_all(plan: ReferencePlan, stream: str, sets: int, width: float) -> Floats:
    """Give t of `all` for so many data sets."""
    blocks = range(-(-sets // plan.toys_per_block))
    shared = plan.shared(width)
    other = replace(plan, stream=stream)
    return np.concatenate([other.block(shared, width, b)[0] for b in blocks])[:sets, ALL, -1]


@pytest.mark.parametrize("name", DEPENDENT)
def test_centres_chosen_alike_give_p_values(name: str) -> None:
    """60 data sets, through `observe`, and 60 toys: KS not rejected at 1 % (fixed seed).

    Centres that look at the data for data, but at the reference for toys, are seen at once: extra
    centres let f follow events in the tail, which raises t.
    """
    plan = plan_with(DEPENDENT[name])
    toys = shares_of_all(plan, "null", 60, 0.02)
    data = np.array(
        [
            replace(plan, seed=100 + n)
            .observe(None, 0.02, [Sample.from_array(x) for x in toy(plan, "observed", n)])
            .t[ALL, -1]
            for n in range(60)
        ]
    )
    assert stats.ks_2samp(data, toys).pvalue > 0.01
    if name == "cover":
        frozen = replace(plan.learner, waiting=False)
        wrong = shares_of_all(replace(plan, learner=frozen), "null", 60, 0.02)
        assert stats.ks_2samp(data, wrong).pvalue < 1e-6


def calibrated(plan: ReferencePlan, path: Path) -> None:
    """Calibrate a little."""
    with thread_workers(1) as executor:
        calibrate(plan, 16, path, executor)


def test_toys_from_training_rows_are_refused(tmp_path: Path) -> None:
    """A pool of them, and a simulator that resamples them; never those drawn independently."""
    settings = Settings(widths=(1.0,), n_centres=30)
    plan = plan_with(settings)
    rows = plan.learner.sample.values

    def resampled(n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.choice(rows, size=n))

    def partly(n: int, rng: np.random.Generator) -> Floats:
        fresh = exponential(n, rng)
        return np.where(rng.uniform(size=(n, 1)) < 0.3, resampled(n, rng), fresh)

    wrong: list[Source] = [Pool(plan.learner.sample), Simulator(resampled), Simulator(partly)]
    for index, source in enumerate(wrong):
        with pytest.raises(InputError, match=r"\d+ of the \d+ events of a toy are rows of the ref"):
            calibrated(replace(plan, source=source), tmp_path / f"{index}.null")
    calibrated(plan, tmp_path / "right.null")
    pool = Sample.from_array(exponential(4000, np.random.default_rng(8)))
    calibrated(replace(plan, source=Pool(pool)), tmp_path / "pool.null")


@pytest.mark.parametrize("decimals", [0, 1, 2, 3, 4, 5, 6])
def test_rounded_toys_are_not_mistaken(decimals: int) -> None:
    """Values coincide by chance, often or seldom: 40 independent toys pass with any rounding."""
    rng = np.random.default_rng(decimals)
    reference = exponential(20_000, rng).round(decimals)
    for _ in range(40):
        refuse_training_rows(exponential(300, rng).round(decimals), reference)
    if decimals >= 4:  # coarser, nearly every value is taken, and nothing can be told
        with pytest.raises(InputError, match="rows of the reference itself"):
            refuse_training_rows(rng.choice(reference, 300), reference)


def test_integers_through_calibration(tmp_path: Path) -> None:
    """Counts drawn independently are accepted."""

    def counts(n: int, rng: np.random.Generator) -> Floats:
        return rng.poisson(20, size=(n, 1)).astype(float)

    rng = np.random.default_rng(5)
    learner = Learner.prepare(
        Sample.from_array(counts(2000, rng)),
        Settings(widths=(1.0,), n_centres=30),
        expected=60.0,
        rng=rng,
    )
    plan = ReferencePlan(learner, Simulator(counts), "counts", np.full(2, 60.0), 4)
    calibrated(plan, tmp_path / "n.null")


def test_blocks_of_huge_toys_are_short() -> None:
    """32 fits in a block, unless the rows of their data would fill the memory.

    Where those of one toy would, they are made anew if they can be, and many fits share a pass.
    """
    learner = plan_with(Settings(n_centres=3000)).learner
    for stored in (False, True):
        assert toys_in_a_block(np.full(8, 2000.0), learner, stored=stored) == 4
        assert toys_in_a_block(np.full(1, 2000.0), learner, stored=stored) == 32
        huge = VALUES_PER_BLOCK / len(learner.candidates) / 3.5
        assert toys_in_a_block(np.full(1, huge), learner, stored=stored) == 3
        assert toys_in_a_block(np.full(5, 1e7), learner, stored=stored) == 1
    assert toys_in_a_block(np.full(5, 200_000.0), learner, stored=True) == 1
    assert toys_in_a_block(np.full(5, 200_000.0), learner, stored=False) == 8
    assert toys_in_a_block(np.full(5, 400_000.0), learner, stored=False) == 4
