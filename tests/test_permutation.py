"""Permuted labels: toys by brute force, exact under the null, blind to who is data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import EmptyError, InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.combine import combined_p
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.model import LogRatios
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.sources import toy_rng
from test_combine import slow_combined_p
from test_farm import Shuffled

Floats = NDArray[np.float64]
SIZE, BATCHES = 40, 2
SETTINGS = Settings(widths=(0.8, 2.0), n_centres=12, precision="float64", penalty=1e-3)


def draw(rows: int, seed: int, shift: float = 0.0) -> Floats:
    """Draw events of two columns in different units."""
    rng = np.random.default_rng(seed)
    return rng.normal([10 + shift, 0.0], [1.0, 0.1], size=(rows, 2))


def samples() -> tuple[Sample, list[Sample]]:
    """Make a reference and two batches that depart from it a little."""
    data = [Sample.from_array(draw(SIZE, 2 + i, 0.3), ["a", "b"]) for i in range(BATCHES)]
    return Sample.from_array(draw(400, 1), ["a", "b"], name="reference"), data


def pooled(
    reference: Sample, data: Sequence[Sample], settings: Settings = SETTINGS, seed: int = 5
) -> PermutationPlan:
    """Make a plan with a seed."""
    return PermutationPlan.pool(
        reference, data, settings, seed=seed, rng=np.random.default_rng(seed)
    )


def by_hand(plan: PermutationPlan, width: float, order: NDArray[np.int64]) -> Floats:
    """Compute t of all statistics for one order of the pooled events, data first.

    Newton's method on J of eq. 2 in the coefficients of all candidate centres, in double
    precision, and the definitions of eq. 4-9: nothing of the solver is used.
    """
    x, centres = plan.learner.reference[:], plan.learner.candidates
    batches = [x[order[i * SIZE : (i + 1) * SIZE]] for i in range(BATCHES)]
    reference = x[order[BATCHES * SIZE :]]
    k_r, k_c = gaussian(reference, centres, width), gaussian(centres, centres, width)
    k_d = [gaussian(batch, centres, width) for batch in batches]
    weight = SIZE / len(reference)
    ridge = plan.learner.penalty * (len(reference) + SIZE) * k_c
    found = []
    for rows in k_d:
        a = np.zeros(len(centres))
        for _ in range(30):
            s_r, s_d = 1 / (1 + np.exp(-k_r @ a)), 1 / (1 + np.exp(rows @ a))
            gradient = weight * k_r.T @ s_r - rows.T @ s_d + ridge @ a
            hessian = (k_r.T * (weight * s_r * (1 - s_r))) @ k_r + (
                rows.T * (s_d * (1 - s_d))
            ) @ rows
            a = a - np.linalg.solve(hessian + ridge, gradient)
        found.append(a)
    a = np.stack(found)
    ratios = LogRatios(
        reference=a @ k_r.T,
        data=[a @ rows.T for rows in k_d],
        expected=np.full(BATCHES, float(SIZE)),
        share=np.full(len(reference), 1 / len(reference)),
    )
    return np.array([statistic(ratios) for statistic in STATISTICS.values()])


@pytest.mark.parametrize("width", [0.8, 2.0])
def test_data_and_toys_by_brute_force(width: float) -> None:
    """The observed labels, and those dealt by a toy's own seed, give the t computed by hand."""
    reference, data = samples()
    plan = pooled(reference, data)
    shared = plan.shared(width)
    count = len(reference) + BATCHES * SIZE
    observed = np.concatenate([np.arange(len(reference), count), np.arange(len(reference))])
    seen = plan.observe(shared, width, data).t[:, -1]
    np.testing.assert_allclose(seen, by_hand(plan, width, observed), rtol=1e-4, atol=1e-3)
    toys, missed = plan.block(shared, width, 0)
    assert (len(toys), missed) == (16, 0)
    for toy in (0, 3, 15):
        order = toy_rng(5, "null", toy).permutation(count)
        np.testing.assert_allclose(
            toys[toy, :, -1], by_hand(plan, width, order), rtol=1e-4, atol=1e-3
        )
    assert len(np.unique(toys[:, 2, -1])) == 16


def test_toys_do_not_depend_on_workers(tmp_path: Path) -> None:
    """Bit-identical with one thread, three threads, and blocks in a random order."""
    plan = pooled(*samples())
    with thread_workers(1) as executor:
        one = calibrate(plan, 32, tmp_path / "1.null", executor)
    with thread_workers(3) as executor:
        three = calibrate(plan, 32, tmp_path / "3.null", executor)
    shuffled = calibrate(plan, 32, tmp_path / "s.null", Shuffled())
    assert one.table.t.tobytes() == three.table.t.tobytes() == shuffled.table.t.tobytes()
    assert one.table.t.shape == (32, 6, 2, 2)
    result = one.test(samples()[1])
    assert result.shape_only
    assert result.source == "permuted labels"


def test_columns_in_another_order(tmp_path: Path) -> None:
    """Allowed where data are pooled and where they are tested, with the same result."""
    reference, data = samples()
    swapped = [
        Sample.from_columns({"b": batch.values[:, 1], "a": batch.values[:, 0]}) for batch in data
    ]
    plan, other = pooled(reference, data), pooled(reference, swapped)
    assert plan.about() == other.about()
    for width in plan.learner.widths:
        shared = plan.shared(width)
        first = plan.observe(shared, width, data).t
        assert (plan.observe(shared, width, swapped).t == first).all()
        assert (other.observe(other.shared(width), width, data).t == first).all()


def test_other_data_are_refused() -> None:
    """One event moved, or batches exchanged, are other data."""
    reference, data = samples()
    plan = pooled(reference, data)
    moved = data[0].values.copy()
    moved[3, 0] += 1e-9
    for other in ([Sample.from_array(moved, ["a", "b"]), data[1]], data[::-1]):
        with pytest.raises(InputError, match="calibrate the data that were pooled"):
            plan.observe(plan.shared(0.8), 0.8, other)


def test_what_cannot_be_permuted() -> None:
    """Weights, centres that know labels, batches without events: each is refused with a way out."""
    reference, data = samples()
    weighted = Sample.from_array(
        reference.values, reference.columns, weights=np.ones(400), name="mc"
    )
    with pytest.raises(InputError, match=r"'mc' is weighted.*simulator or a pool"):
        pooled(weighted, data)
    for change in ({"centres_from": "pooled"}, {"cover": True}):
        with pytest.raises(InputError, match="leave both settings alone"):
            pooled(reference, data, SETTINGS.changed(**change))
    empty = data[0].take(slice(0, 0))
    with pytest.raises(InputError, match="batch 2 has no events"):
        pooled(reference, [data[0], empty])
    with pytest.raises(EmptyError, match="no rows"):
        pooled(reference, [empty])


def exchanged() -> tuple[PermutationPlan, PermutationPlan]:
    """Make two plans, the second with 20 events of the data and of the reference exchanged."""
    reference, data = samples()
    settings = SETTINGS.changed(widths=None, width_quantiles=(0.25, 0.75))
    here, there = reference.values.copy(), data[0].values.copy()
    here[50:70], there[5:25] = data[0].values[5:25], reference.values[50:70]
    other = [Sample.from_array(there, ["a", "b"]), data[1]]
    return (
        pooled(reference, data, settings),
        pooled(Sample.from_array(here, ["a", "b"]), other, settings),
    )


def test_scaling_and_widths_are_blind_to_labels() -> None:
    """Exchanging events between data and reference changes neither, beyond rounding.

    There are fewer than 2000 events, so that the subset for the widths is all of them.
    """
    first, second = exchanged()
    np.testing.assert_allclose(first.learner.scaling.shift, second.learner.scaling.shift, atol=1e-9)
    np.testing.assert_allclose(first.learner.scaling.scale, second.learner.scaling.scale, rtol=1e-9)
    np.testing.assert_allclose(first.learner.widths, second.learner.widths, rtol=1e-9)
    assert first.learner.expected == second.learner.expected == SIZE


def test_centres_are_blind_to_labels() -> None:
    """Data become centres as often as they are pooled: 80 of 480, to 4 sd of 200 draws."""
    reference, data = samples()
    own = pooled(reference, data).learner.reference[400:]
    mine = 0
    for seed in range(200):
        candidates = pooled(reference, data, seed=seed).learner.candidates
        mine += int(np.isin(candidates[:, 0], own[:, 0]).sum())
    assert abs(mine / 2400 - 1 / 6) < 4 * np.sqrt(1 / 6 * 5 / 6 / 2400)


def ranks(sets: int, toys: int, move: float) -> NDArray[np.int64]:
    """Rank t of `all` for data sets that depart from their reference by so much: 1 … toys + 1."""
    found = []
    settings = Settings(widths=(1.0,), n_centres=8, one_step=True)  # as exact, and quick
    for index in range(sets):
        rng = np.random.default_rng([9, index])
        reference = Sample.from_array(rng.exponential(size=300))
        data = [Sample.from_array(rng.exponential(1 + move, size=60))]
        plan = PermutationPlan.pool(reference, data, settings, seed=index, rng=rng)
        shared = plan.shared(1.0)
        t = plan.block(shared, 1.0, 0)[0][:toys, 2, 0]
        seen = plan.observe(shared, 1.0, data).t[2, 0]
        found.append(1 + np.count_nonzero(t >= seen))
    return np.array(found)


def test_ranks_are_uniform() -> None:
    """150 data sets, 19 toys each: 20 ranks in 10 bins, χ² not rejected at 1 % (fixed seed).

    The same check sees data whose mean is off by a half, already in 30 data sets.
    """
    counts = np.bincount((ranks(150, 19, 0.0) - 1) // 2, minlength=10)
    assert stats.chisquare(counts).pvalue > 0.01
    counts = np.bincount((ranks(30, 19, 0.5) - 1) // 2, minlength=10)
    assert stats.chisquare(counts).pvalue < 1e-6


def test_another_seed_gives_other_toys() -> None:
    """Seed and stream decide, and the file says so."""
    plan = pooled(*samples())
    shared = plan.shared(2.0)
    first = plan.block(shared, 2.0, 0)[0]
    assert (plan.block(shared, 2.0, 0)[0] == first).all()
    for other in (replace(plan, seed=6), replace(plan, stream="other")):
        assert (other.block(shared, 2.0, 0)[0] != first).any()
        assert other.about() != plan.about()


def test_ties_of_discrete_data_count(tmp_path: Path) -> None:
    """A column of two values: data sets with equal counts are equal, and count as such.

    What ties is known from the counts alone, and t of equal sets is taken as their mean; p of each
    width and of all together is then counted by loops, without tolerance.
    """
    rng, toys, size = np.random.default_rng(3), 200, 60
    reference = Sample.from_array(rng.integers(0, 2, size=600), name="reference")
    settings, ties = Settings(widths=(0.5, 1.5), n_centres=10), 0
    for ones in (24, 26, 35):
        data = [Sample.from_array(np.repeat([1.0, 0.0], [ones, size - ones]))]
        plan = pooled(reference, data, settings)
        with thread_workers(2) as executor:
            made = calibrate(plan, toys, tmp_path / f"{ones}.null", executor)
        x = plan.learner.reference[:][:, 0]
        counts = [ones] + [
            int(np.count_nonzero(x[toy_rng(plan.seed, "null", k).permutation(len(x))[:size]] > 0))
            for k in range(toys)
        ]
        found = made.test(data).statistics
        for name in ("single", "all", "sat"):
            t = np.vstack([found[name].t, made.table.statistic(name)])
            of = {n: t[[k for k, m in enumerate(counts) if m == n]].mean(axis=0) for n in counts}
            rows = [of[n].tolist() for n in counts]
            for width, p in enumerate(found[name].p):
                tied = [row[width] >= rows[0][width] for row in rows]
                assert p.p == pytest.approx(np.mean(tied), rel=1e-12)
                ties += counts.count(ones) > 1
            joined = slow_combined_p(rows, "min")
            assert combined_p(found[name].t, made.table.statistic(name)) == pytest.approx(joined)
    assert ties >= 12
