"""Kernel rows that are made when they are needed, against stored ones: the same numbers."""

from __future__ import annotations

import math
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import InputError, MemoryBudgetError
from gofstream.execution import hands, thread_workers, use_hands
from gofstream.inference.calibrate import calibrate
from gofstream.ratio import features as features_module
from gofstream.ratio import rows, solver
from gofstream.ratio.centres import reduce_centres
from gofstream.ratio.features import STORED, Features, features_of, prepare, prepare_bytes
from gofstream.ratio.kernel import KernelRows
from gofstream.ratio.learner import Learner
from gofstream.ratio.objective import Block
from gofstream.ratio.solver import Fit, fit, fit_bytes
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.growing import growing_statistics
from gofstream.toys.memory import RunMemory
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

Floats = NDArray[np.float64]

N_R, EXPECTED, CENTRES = 30_000, 600.0, 80


def reference(dimensions: int) -> Floats:
    """Draw one."""
    return np.random.default_rng(dimensions).normal(size=(N_R, dimensions))


def batches(dimensions: int, *sizes: int) -> list[Floats]:
    """Draw batches that differ a little from it."""
    rng = np.random.default_rng(100 + dimensions)
    return [rng.normal(0.05, 1.02, size=(size, dimensions)) for size in sizes]


def prepared(x: Floats, width: float, *, made: bool, weighted: bool = False) -> Features:
    """Make features, with just enough memory to store rows or not quite."""
    share = None
    if weighted:
        share = np.random.default_rng(5).uniform(0.5, 1.5, len(x))
        share /= share.sum()
    whole = prepare(x, x[:CENTRES], width, penalty=1e-6, expected=EXPECTED, share=share)
    stored = 4 * len(x) * whole.rank
    budget = max(prepare_bytes(len(x), whole.rank, CENTRES, 4), math.ceil(stored / STORED))
    budget += x.nbytes - made
    found = prepare(
        x, x[:CENTRES], width, penalty=1e-6, expected=EXPECTED, share=share, memory=budget
    )
    assert (found.made is not None) is made
    return found


def fitted(features: Features, data: list[Floats], *, made: bool) -> Fit:
    """Fit, with just enough memory to store rows of the data or not quite."""
    sizes = [len(batch) for batch in data]
    budget = features.nbytes + fit_bytes(features, sizes) - made
    done = fit(features, data, [EXPECTED] * len(data), memory=budget)
    assert (done.data.made is not None) is made
    return done


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dimensions", "width"), [(1, 0.3), (1, 3.0), (5, 1.5), (5, 4.0)])
def test_the_same_fits(dimensions: int, width: float, weighted: bool) -> None:
    """Rows of the reference, of the data, of both made: t to 1e-5, f to 1e-3 of its spread."""
    x, data = reference(dimensions), batches(dimensions, 600, 640, 550, 0)
    stored = prepared(x, width, made=False, weighted=weighted)
    right = fitted(stored, data, made=False)
    f = stored.log_ratio_reference(right.z)
    assert right.converged.all()
    for on_reference, on_data in ((True, False), (False, True), (True, True)):
        features = prepared(x, width, made=on_reference, weighted=weighted)
        done = fitted(features, data, made=on_data)
        assert done.converged.all()
        np.testing.assert_allclose(done.t, right.t, rtol=1e-5)
        np.testing.assert_allclose(done.excess, right.excess, atol=1e-5)
        np.testing.assert_array_equal(done.uncovered, right.uncovered)
        off = features.log_ratio_reference(done.z) - f
        ordinary = slice(0, 3)  # where no event is, f falls to -8, and e^f is all that matters
        assert np.abs(off[:, ordinary]).max() < 1e-3 * f[:, ordinary].std()


def test_the_same_statistics() -> None:
    """Of two toys of three batches: to 1e-4."""
    x, data = reference(2), batches(2, 600, 610, 580, 640, 600, 590)
    found = []
    for made in (False, True):
        features = prepared(x, 0.8, made=made)
        done = fitted(features, data, made=made)
        found.append(growing_statistics(features, done, np.full(3, EXPECTED), 0.25))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["far", "hundredfold", "single", "none"])
def test_hard_batches(kind: str) -> None:
    """Data that do not curve as the reference does: they converge all the same."""
    x = reference(1)
    (plain,) = batches(1, 600)
    events = {
        "far": np.concatenate([plain[:300], plain[:300] + 4.0]),
        "hundredfold": batches(1, 60_000)[0],
        "single": plain[:1],
        "none": plain[:0],
    }[kind]
    features = prepared(x, 0.8, made=False)
    right, done = (fitted(features, [events], made=made) for made in (False, True))
    assert done.converged.all()
    np.testing.assert_allclose(done.t, right.t, rtol=1e-4)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give a list, to which every pass over the reference adds the precision of its rows."""
    passes: list[str] = []
    whole = KernelRows.rows

    def watched(rows: KernelRows, part: slice, out: Any = None) -> Any:
        if part.start == 0:
            passes.append(str(rows.columns.dtype))
        return whole(rows, part, out)

    monkeypatch.setattr(KernelRows, "rows", watched)
    return passes


@pytest.mark.parametrize(("width", "single", "double"), [(4.0, 1, 2), (0.05, 1, 2)])
def test_first_passes_are_in_single_precision(
    width: float, single: int, double: int, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some passes at first and none at last; where rounding spoils even these, they are repeated.

    The fits are those of double precision throughout.
    """
    x, data = reference(1 if width < 1 else 5), batches(1 if width < 1 else 5, 590, 610)
    features = prepared(x, width, made=True)
    seen.clear()
    done = fitted(features, data, made=True)
    passes, seen[:] = list(seen), []
    monkeypatch.setattr(Block, "makes_rows", False)
    right = fitted(features, data, made=True)
    assert set(seen) == {"float64"}
    assert done.converged.all()
    assert right.converged.all()
    np.testing.assert_allclose(done.t, right.t, rtol=1e-5, atol=1e-5)
    assert len(passes) == done.passes.max()
    assert passes.count("float32") >= single
    assert passes[-double:] == ["float64"] * double
    assert passes == sorted(passes)


def test_rounding_that_hides_the_way(seen: list[str]) -> None:
    """Kernels so wide that single precision sees noise only: the fit begins again without it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100_000, 5))
    data = [rng.normal(size=(size, 5)) for size in rng.poisson(2000, 8)]
    centres = reduce_centres(x[:4000], 17.8, 1e-6)
    right, features = (
        features_of(x, centres, 17.8, penalty=1e-5, expected=2000.0, stored=stored)
        for stored in (True, False)
    )
    seen.clear()
    done = fit(features, data, [2000.0] * 8)
    assert seen.count("float32") == 2
    assert done.converged.all()
    assert len(seen) == done.passes.max() < 10
    np.testing.assert_allclose(done.t, fit(right, data, [2000.0] * 8).t, rtol=1e-4)


def test_single_precision_ends_in_time(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the gradient small enough; and no fit is called converged before, however loosely."""
    features, data = prepared(reference(5), 4.0, made=True), batches(5, 590, 610)
    for rough, tolerance in ((10.0, 1e-5), (0.0, 0.5)):
        monkeypatch.setattr(solver, "ROUGH", rough)
        seen.clear()
        done = fit(features, data, [EXPECTED] * 2, tolerance=tolerance)
        assert done.converged.all()
        assert seen[-1] == "float64"
        assert seen.count("float32") == 1 or not rough


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Give a set, to which every thread that makes rows adds its name."""
    seen: set[str] = set()
    whole = KernelRows.values

    def watched(rows: KernelRows, points: Any, out: Any = None) -> Any:
        seen.add(threading.current_thread().name)
        return whole(rows, points, out)

    monkeypatch.setattr(KernelRows, "values", watched)
    return seen


def test_hands_change_no_bit(threads: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread or three: the same fits and statistics, of weighted events in many stretches."""
    monkeypatch.setattr(rows, "STRETCH_ROWS", 256)
    monkeypatch.setattr(features_module, "STRIP_ROWS", 4096)
    monkeypatch.setattr(solver, "rows_fit", lambda *_: False)
    x, data = reference(2), batches(2, 600, 610, 580, 640, 600, 590)
    found, share = [], np.random.default_rng(5).uniform(0.5, 1.5, len(x))
    centres = reduce_centres(x[:CENTRES], 0.8, 1e-6)
    for count in (1, 3):
        with use_hands(count):
            features = features_of(
                x,
                centres,
                0.8,
                penalty=1e-6,
                expected=EXPECTED,
                share=share / share.sum(),
                stored=False,
            )
            done = fit(features, data, [EXPECTED] * len(data))
        assert done.data.made is not None
        found.append((done, growing_statistics(features, done, np.full(3, EXPECTED), 0.25)))
        assert ("MainThread" in threads) is (count == 1)
        threads.clear()
    (one, t_one), (three, t_three) = found
    for name in ("z", "t", "gradient_norm", "excess", "passes", "uncovered"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    np.testing.assert_array_equal(t_one, t_three)


def test_hands_are_few_where_memory_is_short(threads: set[str]) -> None:
    """No more than have room beside the fits; and none but its own for a block of the farm."""
    features, data = prepared(reference(2), 0.8, made=True), batches(2, 600, 610)
    needed = features.nbytes + fit_bytes(features, [600, 610])
    for room, count in ((0, 1), (1, 2), (9, 3)):
        memory = needed + room * solver._hand_bytes(features, 2)
        with use_hands(3):
            assert fit(features, data, [EXPECTED] * 2, memory=memory).data.hands == count
    with thread_workers(2) as executor:
        assert (hands(), executor.submit(hands).result()) == (2, 1)
    assert hands() == 1


@pytest.mark.slow
def test_memory_stays_within_the_budget() -> None:
    """Features and a block of fits that would take 400 MB, in 60 MB beside the reference."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200_000, 3))
    data = [rng.normal(size=(4000, 3)) for _ in range(8)]
    centres, budget = x[:500], 60_000_000 + x.nbytes
    assert prepare_bytes(len(x), 350, len(centres), 4) > 280_000_000
    tracemalloc.start()
    features = prepare(x, centres, 1.0, penalty=1e-6, expected=4000.0, memory=budget)
    assert features.rank > 350
    done = fit(features, data, [4000.0] * 8, memory=budget)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert features.made is not None
    assert done.data.made is not None
    assert done.converged.all()
    assert peak < 60_000_000


def test_preparing_takes_no_more_hands_than_have_room() -> None:
    """With many, one after another would be refused; what is not, stays below the budget."""
    x = np.random.default_rng(3).normal(size=(100_000, 3))
    for rank, budget in ((300, 40_000_000), (300, 100_000_000), (500, 60_000_000)):
        tracemalloc.start()
        with use_hands(16):
            features = prepare(
                x, x[:rank], 0.5, penalty=1e-6, expected=4000.0, memory=budget + x.nbytes
            )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert features.made is not None
        assert features.rank > 0.9 * rank
        assert peak < budget
    with pytest.raises(MemoryBudgetError, match="the matrices of rank"):
        prepare(x, x[:300], 0.5, penalty=1e-6, expected=4000.0, memory=25_000_000 + x.nbytes)


def test_blocks_that_are_a_little_smaller_than_planned() -> None:
    """Their rows are stored after all, and fill the budget: no second block beside them."""
    rng = np.random.default_rng(1)
    sample, settings = Sample.from_array(rng.normal(size=(8000, 5))), Settings(n_centres=300)
    learner = Learner.prepare(sample, settings.changed(widths=(1.0,)), expected=500.0, rng=rng)
    features, expected = learner.features(1.0), np.full(32, 500.0)
    sizes = [(expected + spread * np.sqrt(expected)).astype(int).tolist() for spread in (0, 5)]
    likely, large = (features.nbytes + fit_bytes(features, each) for each in sizes)
    budget = (likely + large) // 2
    tight = replace(learner, settings=learner.settings.changed(memory=budget))
    source = Simulator(lambda count, own: own.normal(size=(count, 5)))
    plan = ReferencePlan(tight, source, "normal", expected[:4], 1, with_scan=False)
    assert plan.toys_per_block == 8
    with RunMemory() as memory:
        assert memory.shared(plan, 1.0, workers=4)[1] == 1


def test_a_single_step_needs_the_whole_reference() -> None:
    """H0 of a part is near enough to begin with, but not to end with."""
    features = prepared(reference(2), 0.8, made=True)
    with pytest.raises(InputError, match=r"a single step is right only with .* whole reference"):
        fit(features, batches(2, 600), [EXPECTED], one_step=True)


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_double_precision_ends_where_rounding_does(dimensions: int) -> None:
    """Fits that ask for more than made rows can give converge, to what they give."""
    x, data = reference(dimensions), batches(dimensions, 600, 640)
    done = []
    for made in (False, True):
        features = prepare(
            x, x[:CENTRES], 1.5, penalty=1e-6, expected=EXPECTED, precision="float64"
        )
        if made:
            centres = reduce_centres(x[:CENTRES], 1.5, 1e-6)
            features = features_of(
                x,
                centres,
                1.5,
                penalty=1e-6,
                expected=EXPECTED,
                precision="float64",
                stored=False,
            )
        done.append(fitted(features, data, made=made))
        assert done[-1].converged.all()
    np.testing.assert_allclose(done[1].t, done[0].t, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_events_far_out(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In single precision kernels overflow there; fits begin again, and no thread warns of it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20_000, 2))
    x[rng.choice(20_000, 200, replace=False)] += 3e4
    data = [
        np.concatenate([rng.normal(size=(500, 2)), 3e4 + rng.normal(size=(20, 2))])
        for _ in range(2)
    ]
    centres, t = reduce_centres(x[:300], 0.5, 1e-6), []
    for stored in (True, False):
        monkeypatch.setattr(solver, "rows_fit", lambda *_, stored=stored: stored)
        features = features_of(x, centres, 0.5, penalty=1e-6, expected=500.0, stored=stored)
        with use_hands(count):
            done = fit(features, data, [500.0] * 2)
        assert (done.data.made is None) is stored
        assert done.converged.all()
        t.append(done.t)
    np.testing.assert_allclose(t[1], t[0], rtol=1e-4)


def test_cross_terms_of_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """All f on the events of a stretch would grow with the square of the batches."""
    features, data = prepared(reference(2), 0.8, made=False), batches(2, 600, 610, 580, 640)
    done = fitted(features, data, made=True)
    whole = growing_statistics(features, done, np.full(4, EXPECTED), 0.25)
    sizes = []
    for most in (rows.PART_VALUES, 256):
        monkeypatch.setattr(rows, "PART_VALUES", most)
        pieces = [values for _, values in done.data.cross(done.z, np.arange(4))]
        sizes.append(max(values.size for values in pieces))
        assert sum(values.size for values in pieces) == 16 * 640
    assert sizes[1] <= 256 < sizes[0]
    again = growing_statistics(features, done, np.full(4, EXPECTED), 0.25)
    np.testing.assert_allclose(again, whole, rtol=1e-5, atol=1e-5)


def test_what_is_left_of_a_fit_that_began_again(seen: list[str]) -> None:
    """Stopped there, it says t of the point where it stands, and that it did not converge."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100_000, 5))
    data = [rng.normal(size=(size, 5)) for size in rng.poisson(2000, 2)]
    centres = reduce_centres(x[:4000], 17.8, 1e-6)
    features = features_of(x, centres, 17.8, penalty=1e-5, expected=2000.0, stored=False)
    seen.clear()
    done = fit(features, data, [2000.0] * 2, max_passes=2)
    assert seen == ["float32"] * 2
    assert not done.converged.any()
    assert not done.z.any()
    assert done.t.tolist() == done.excess.tolist() == [0, 0]


def test_what_cannot_be_is_refused() -> None:
    """The reference itself, the matrices of the model, the events of the batches."""
    x = reference(1)
    for width, more, what in (
        (0.3, 90_000, "the reduction of 80"),
        (1e-3, 200_000, "the matrices"),
    ):
        budget = x.nbytes + more
        with pytest.raises(MemoryBudgetError, match=f"the reference and {what}"):
            prepare(x, x[:CENTRES], width, penalty=1e-6, expected=EXPECTED, memory=budget)
    features = prepared(x, 0.3, made=True)
    with pytest.raises(MemoryBudgetError, match="a block of 2 fits"):
        fit(features, batches(1, 600, 600), [EXPECTED] * 2, memory=100_000)


def test_the_same_table(tmp_path: Path) -> None:
    """Toys made with a budget that cannot hold the reference's rows: t of every statistic.

    And with one thread or two the same bits: they share one block, or have one each.
    """
    rng = np.random.default_rng(7)
    sample = Sample.from_array(expo1d.reference(100_000, rng))
    found = []
    for memory in (4 * 1024**3, 48 * 1024**2):
        settings = Settings(widths=(0.1,), n_centres=400, memory=memory)
        learner = Learner.prepare(sample, settings, expected=300.0, rng=np.random.default_rng(1))
        made = learner.features(0.1).made
        assert (made is not None) is (memory < 1024**3)
        plan = ReferencePlan(learner, Simulator(expo1d.reference), "expo1d", np.full(4, 300.0), 1)
        for count in (2, 1):
            path = tmp_path / f"{memory}-{count}.null"
            with thread_workers(count) as executor:
                found.append(calibrate(plan, 8, path, executor).table.t)
            with RunMemory() as shared:
                assert shared.shared(plan, 0.1, count)[1] == (count if made is None else 1)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[3], found[2])


def test_permutation_needs_them_stored() -> None:
    """And says what it would take, and what else there is."""
    rng = np.random.default_rng(8)
    sample = Sample.from_array(rng.normal(size=(N_R, 1)))
    batch = Sample.from_array(rng.normal(size=(300, 1)))
    settings = Settings(widths=(0.5,), n_centres=CENTRES, memory=3_000_000)
    plan = PermutationPlan.pool(sample, [batch], settings, seed=1, rng=rng)
    with pytest.raises(
        MemoryBudgetError, match=r"permutation of 30300 events.*a simulator or a po"
    ):
        plan.shared(0.5)
