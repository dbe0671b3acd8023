"""The validation itself: its laws by simulation, and a miniature that sees what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from gofstream.datasets import expo1d
from gofstream.execution import thread_workers
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream_studies.validation.__main__ import Validation
from gofstream_studies.validation.cases import (
    Size,
    made_data,
    made_table,
    permutation_ranks,
    plan_for,
    table_from_training_rows,
)
from gofstream_studies.validation.checks import (
    FAMILY_LEVEL,
    Check,
    Table,
    against_table,
    hit_law,
    holm,
    own_tables,
)
from gofstream_studies.validation.evidence import EvidenceSize, checks
from gofstream_studies.validation.weighted import Comparison, Weight, WeightedSize
from gofstream_studies.validation.weighted import checks as weighted_checks
from gofstream_studies.validation.wrong import leave_one_out, smallest_p_raw

Floats = NDArray[np.float64]
QUICK = Settings(widths=(0.4, 1.5), n_centres=40, one_step=True)


def fails(checks: list[Check]) -> bool:
    """Judge a family as the validation does."""
    return min(holm(checks)) < FAMILY_LEVEL


@pytest.mark.parametrize(("toys", "level"), [(19, 0.1), (39, 0.05), (30, 0.05), (19, 0.01)])
def test_hit_law_by_simulation(toys: int, level: float) -> None:
    """6 data sets in one table, 200 000 times: how often 0, 1, … 6 have p ≤ level, to 4 sd."""
    rng = np.random.default_rng(toys)
    experiments, sets = 200_000, 6
    data, null = rng.uniform(size=(experiments, sets)), rng.uniform(size=(experiments, toys))
    beyond = np.stack([(null >= column[:, None]).sum(axis=1) for column in data.T], axis=1)
    hits = ((1 + beyond) / (1 + toys) <= level + 1e-12).sum(axis=1)
    seen = np.bincount(hits, minlength=sets + 1)
    law = hit_law(sets, toys, level)
    assert law.sum() == pytest.approx(1)
    for found, chance in zip(seen / experiments, law, strict=True):
        assert abs(found - chance) <= 4 * math.sqrt(chance * (1 - chance) / experiments) + 1e-12
    if level * (toys + 1) < 1:
        assert law.tolist() == [1, 0, 0, 0, 0, 0, 0]


def adjusted(p: Sequence[float]) -> list[float]:
    """Adjust bare p-values."""
    return holm([Check(str(k), "", value) for k, value in enumerate(p)])


def test_holm_by_hand() -> None:
    """4 × 0.005; 3 × 0.01; 2 × 0.03; then 1 × 0.04, but never below the one before."""
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == [0.03, 0.06, 0.06, 0.02]
    assert adjusted([0.9, 0.6]) == [1.0, 1.0]
    assert adjusted([0.02]) == [0.02]


def test_holm_keeps_its_promise() -> None:
    """Under the null any of 20 fails at 1 % in no more than 1 % of 4000 families (3.5 sd)."""
    rng = np.random.default_rng(2)
    rate = np.mean([min(adjusted(rng.uniform(size=20))) < FAMILY_LEVEL for _ in range(4000)])
    assert 0.003 < rate < FAMILY_LEVEL + 3.5 * math.sqrt(FAMILY_LEVEL / 4000)


def correlated(sets: int, seed: int, *, spread: float = 1.0, shift: float = 0.0) -> Table:
    """Draw t of so many data sets: six statistics, five widths that go together; and a scan."""
    rng = np.random.default_rng(seed)
    t = 0.6 * rng.normal(size=(6, sets, 1)) + 0.8 * rng.normal(size=(6, sets, 5))
    table = dict(zip(STATISTICS, spread * t + shift, strict=True))
    return table | {"scan": spread * rng.normal(size=(sets, 1)) + shift}


def test_wrong_ways_to_combine_are_seen() -> None:
    """On numbers of known law: the right way passes; raw smallest p and leave-one-out fail."""
    table, data = correlated(297, 3), correlated(400, 4)
    assert not fails(against_table(table, data))
    assert fails(against_table(table, data, smallest_p_raw))
    assert fails(against_table(table, data, leave_one_out))


def test_another_law_of_the_data_is_seen() -> None:
    """Half as wide again, or half a spread too high or too low."""
    table = correlated(198, 3)
    assert not fails(against_table(table, correlated(200, 4)))
    assert fails(against_table(table, correlated(200, 4, spread=1.5)))
    assert fails(against_table(table, correlated(200, 4, shift=0.5)))
    assert fails(against_table(table, correlated(200, 4, shift=-0.5)))
    only = {"scan": correlated(200, 4, shift=0.5)["scan"]}
    assert fails(against_table({"scan": table["scan"]}, only))


def test_own_tables() -> None:
    """Uniform ranks pass; ranks that are too small, or never small, fail."""
    rng = np.random.default_rng(5)
    right = rng.integers(1, 101, size=400)
    assert not fails(own_tables({"all, width 1": right, "all, min over widths": right}, 99))
    low = rng.integers(1, 86, size=400)
    assert fails(own_tables({"all, width 1": low}, 99))
    assert fails(own_tables({"all, width 1": 101 - low}, 99))
    # Combined p may err on the safe side, not on the other.
    assert not fails(own_tables({"all, min over widths": 101 - low}, 99))
    small = np.where(rng.uniform(size=400) < 0.1, 2, right)
    assert fails(own_tables({"all, min over widths": small}, 99))


def test_a_miniature_passes(tmp_path: Path) -> None:
    """200 data sets in a table of 200 toys: 4 batches of 100 events, N_R = 4000, fixed seed."""
    size = Size(n_reference=4000, expected=400, batches=4, toys=200, sets=200)
    plan = plan_for(expo1d.reference, QUICK, size, 1)
    with thread_workers(2) as executor:
        table = made_table(plan, size, tmp_path, executor, lambda done, total: None)
        data = made_data(plan, size, tmp_path, executor, lambda done, total: None)
    assert table["all"].shape == data["all"].shape == (200, 2)
    assert table["scan"].shape == (200, 1)
    assert table["sat + next + scan"].shape == (200, 5)
    assert (table["all"] != data["all"]).all()
    assert not fails(against_table(table, data))


def test_toys_from_training_rows_are_seen(tmp_path: Path) -> None:
    """With a small reference beside large data, t of such toys is far too small."""
    size = Size(n_reference=1500, expected=600, batches=2, toys=128, sets=128)
    plan = plan_for(expo1d.reference, QUICK, size, 1)
    with thread_workers(2) as executor:
        right = made_table(plan, size, tmp_path, executor, lambda done, total: None)
        data = made_data(plan, size, tmp_path, executor, lambda done, total: None)
        wrong = table_from_training_rows(plan, size, tmp_path, executor, lambda done, total: None)
    assert not fails(against_table(right, data))
    assert fails(against_table(wrong, data))
    assert np.median(wrong["all"]) < np.median(data["all"])


def test_permutation_in_miniature(tmp_path: Path) -> None:
    """Ranks of 12 data sets are whole numbers from 1 to B + 1, for everything that is combined."""
    size = Size(n_reference=600, expected=60, batches=2, toys=16, sets=12)
    with thread_workers(2) as executor:
        ranks = permutation_ranks(
            expo1d.reference, QUICK, size, 1, tmp_path, executor, lambda done, total: None
        )
    assert len(ranks) == 6 * (2 + 3) + 1 + 2 * 3
    for rank in ranks.values():
        assert rank.shape == (12,)
        assert rank.min() >= 1
        assert rank.max() <= 17
    assert not fails(own_tables({w: r for w, r in ranks.items() if "next" not in w}, 16))


def test_evidence_in_miniature(tmp_path: Path) -> None:
    """20 streams of 5 looks: the naive e-value fails with few rows; what is done is kept."""
    size = EvidenceSize(
        streams=20, batches=5, expected=80.0, finite=2000, scarce=30, simulator=20_000
    )
    with thread_workers(2) as executor:
        found = checks(size, 1, tmp_path, executor)
    kept = {path: path.read_bytes() for path in tmp_path.glob("*/*.npy")}
    assert len(kept) == 3
    (lost := sorted(kept)[0]).unlink()
    with thread_workers(1) as executor:
        assert checks(size, 1, tmp_path, executor) == found
    assert lost.read_bytes() == kept[lost]
    assert len(found) == 6
    for name, family in found.items():
        assert fails(family) == name.startswith("wrong"), name


def test_weighted_densities() -> None:
    """What is drawn has the moments and tails of weighted rows, to 4.5 standard errors."""
    for weight in (Weight(0.5), Weight(None)):
        rng = np.random.default_rng(7)
        x, events = rng.normal(size=200_000), weight.simulate(200_000, rng)[:, 0]
        for power in (1, 2):
            values = weight.of(x) ** power
            error = float(values.std()) / math.sqrt(len(x))
            assert abs(values.mean() - weight.moment(power)) < 4.5 * error
        for window in (-1.0, 0.5, 2.0):
            p = weight.beyond(window)
            assert abs(np.mean(events > window) - p) < 4.5 * math.sqrt(p / len(events))
            values = weight.of(x) * ((x > window) - p)
            assert abs(values.mean()) < 4.5 * float(values.std()) / math.sqrt(len(x))


def test_weighted_pools_in_miniature(tmp_path: Path) -> None:
    """Right draws pass; in a pool whose heavy rows run out they fail; what is done is kept."""
    size = WeightedSize(
        comparisons={
            "right": Comparison(Weight(0.3), 100, 60, 1000),
            "wrong": Comparison(Weight(1.0), 500, 3, 1000, drawn_right=False),
        },
        refused=Comparison(Weight(1.0), 3000, 31),
        pools=3,
        toys=32,
        runs=2,
        run_expected=60.0,
        run_reference=6000,
        run_toys=19,
    )
    with thread_workers(2) as executor:
        found = weighted_checks(size, 1, tmp_path, executor, lambda done, total: None)
        kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*")}
        again = weighted_checks(size, 1, tmp_path, executor, lambda done, total: None)
    assert again == found
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for name, family in found.items():
        assert fails(family) == name.startswith("wrong"), (name, family)
    assert found["weights e^x, small pool"][0].found.startswith("refused")


def test_the_verdict_knows_what_must_fail(tmp_path: Path) -> None:
    """Right versions must pass and wrong ones must fail; anything else is reported."""
    good, bad = [Check("a", "", 0.5)], [Check("a", "", 1e-6)]
    with thread_workers(1) as executor:
        for first, second, verdict in [
            (good, bad, True),
            (bad, bad, False),
            (good, good, False),
        ]:
            validation = Validation(1, tmp_path, executor, Console(quiet=True))
            validation._judge("EXPO-1D", first)
            validation._judge("wrong: something", second)
            assert validation.as_expected() is verdict
