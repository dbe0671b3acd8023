"""Ideas: what they compute, against plain sums, and what is said of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.inference.combine import combined_p
from gofstream.inference.power import Difference
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatios
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import next_
from gofstream.toys.sources import Injected, Simulator, Source
from gofstream_studies.benchmarks import ideas
from gofstream_studies.benchmarks.ideas import IDEAS, NULL, Idea, Task
from gofstream_studies.benchmarks.points import read_lines
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.paper.compare import LEVEL

Floats = NDArray[np.float64]


def small_task() -> Task:
    """Three batches of a falling spectrum, with a peak."""
    rng = np.random.default_rng(1)
    nominal = Simulator(lambda n, rng: rng.exponential(size=(n, 1)))
    peak = Simulator(lambda n, rng: rng.normal(2.0, 0.05, size=(n, 1)))
    settings = Settings(widths=(0.4, 0.8, 1.5), n_centres=30, penalty=1e-5)
    reference = Sample.from_array(rng.exponential(size=(2000, 1)))
    learner = Learner.prepare(reference, settings, expected=60.0, rng=rng)
    sources: dict[str, Source] = {NULL: nominal, "peak": Injected(nominal, peak, 0.4)}
    return Task("expo1d", learner, np.full(3, 60.0), sources)


def ratios() -> LogRatios:
    """Make up models of three batches."""
    rng = np.random.default_rng(2)
    return LogRatios(
        reference=rng.normal(0, 0.3, size=(3, 5)),
        data=[rng.normal(0, 0.3, size=(3, n)) for n in (4, 2, 3)],
        expected=np.array([4.0, 2.0, 3.0]),
        share=np.full(5, 0.2),
    )


def slow(given: LogRatios, models: list[Any], weights: list[Any]) -> float:
    """2 [ Σ_R w (1 - e^F) + Σ_D F ], event by event; F of batch j is `models[j]` of its f."""
    total = 0.0
    for j, on in enumerate(given.data):
        for f in given.reference.T:
            total += 2 * given.expected[j] * 0.2 * (1 - math.exp(models[j](f, weights[j])))
        for f in on.T:
            total += 2 * models[j](f, weights[j])
    return total


def arithmetic(f: Floats, weights: Floats) -> float:
    """Log of the weighted mean of e^f."""
    return math.log(sum(w * math.exp(x) for w, x in zip(weights, f, strict=True)) / sum(weights))


def test_aggregates_event_by_event() -> None:
    """Each batch by the others, the geometric mean, and weights by what surprises."""
    given = ratios()
    others = [np.where(np.arange(3) == j, 0.0, given.expected) for j in range(3)]
    assert ideas.others(given) == pytest.approx(slow(given, [arithmetic] * 3, others))
    plain = [given.expected] * 3
    mean = [lambda f, w: float(np.dot(f, w) / np.sum(w))] * 3
    assert ideas.geometric(given) == pytest.approx(slow(given, mean, plain))
    own = []
    for j in range(3):
        alone = LogRatios(given.reference, [given.data[j]], given.expected[[j]], given.share)
        own.append(slow(alone, [lambda f, w, j=j: f[j]], [0]))
    weights = given.expected * np.exp(np.array(own) / 8)
    assert ideas.weighed(given) == pytest.approx(slow(given, [arithmetic] * 3, [weights] * 3))


def test_b_is_averaged_over() -> None:
    """E^{t/2} is the mean of those of every b."""
    found = [next_(ratios(), b) for b in ideas.SHRINKS]
    assert math.exp(ideas.any_shrink(ratios()) / 2) == pytest.approx(
        np.mean([math.exp(t / 2) for t in found])
    )


def test_kernels_are_added() -> None:
    """In every place where features are made: f on the reference is that of the sum."""
    task = small_task()
    learner = task.learner
    with ideas.kernels_added(learner.widths[ideas.ADDED]):
        made = learner.features(0.4)
        z = np.random.default_rng(1).normal(size=(made.rank, 2))
        f = made.log_ratio_reference(z)
    x = learner.reference[:]
    kernel = (gaussian(x, made.centres, 0.4) + gaussian(x, made.centres, 1.5)) / 2
    np.testing.assert_allclose(f, kernel @ made.coefficients(z), atol=1e-3)
    assert not np.allclose(learner.features(0.4).log_ratio(x, z[: learner.features(0.4).rank]), f)


def test_mass_is_added() -> None:
    """One more column, and otherwise the same toys."""
    task = ideas.dimuon5d_task()
    massive = ideas.massive(task)
    columns = massive.learner.scaling.columns
    assert columns == (*dimuon5d.COLUMNS, "log m")
    old, new = (
        each.sources["eft-cw1"].draw(np.array([20.0]), np.random.default_rng(3))[0]
        for each in (task, massive)
    )
    assert (new[:, :5] == old).all()
    mass = dimuon5d.mass(Sample.from_array(old, dimuon5d.COLUMNS))
    np.testing.assert_allclose(np.exp(new[:, 5]), mass)
    assert set(ideas.TUNED["dimuon5d"]) < set(task.sources)
    assert set(ideas.TUNED["expo1d"]) < set(ideas.expo1d_task().sources)


def test_a_run_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column is there, a run goes on, and a large peak is seen by all; then the page."""
    monkeypatch.setattr(ideas, "CHUNK", 10)
    task = small_task()
    ideas.run("expo1d", tmp_path, (50, 0), task)
    ideas.run("expo1d", tmp_path, (60, 20), task)
    path = tmp_path / "ideas-expo1d.jsonl"
    size = path.stat().st_size
    monkeypatch.setattr(ideas, "Columns", None)
    ideas.run("expo1d", tmp_path, (60, 20), task)
    assert path.stat().st_size == size
    t = ideas.gathered(read_lines([path]), "expo1d")
    assert t[NULL]["all"].shape == (60, 3)
    assert t["peak"]["all, kernels added"].shape == (20, 1)
    for idea in IDEAS:
        if idea.only == "":
            null, found = (np.hstack([t[s][c] for c in idea.tried]) for s in (NULL, "peak"))
            assert np.mean([combined_p(row, null) <= 0.05 for row in found]) > 0.5, idea.name
    monkeypatch.setattr(ideas, "TUNED", {"expo1d": ("peak",), "dimuon5d": ()})
    monkeypatch.setattr(ideas, "gain", lambda t, idea, signals: Difference(0.1, 0.02, 0.2))
    page = tmp_path / "reach.md"
    page.write_text("<!-- begin ideas --><!-- end ideas -->")
    ideas.write(tmp_path, page)
    assert "| a path of five penalties | all + scan + the other penalties |" in page.read_text()
    assert page.read_text().count("**gains**") == sum(idea.only == "" for idea in IDEAS)
    assert "DIMUON-5D**: not run yet" in page.read_text()


def test_gains_are_paired_differences() -> None:
    """Averaged over signals; the interval tells a gain, a loss, and neither."""
    rng = np.random.default_rng(4)
    shift = {NULL: (0.0, 0.0), "a": (1.0, 3.0), "b": (1.0, 2.0)}
    t = {
        stream: {
            name: rng.normal(moved, 1, size=(400 if stream == NULL else 150, 1))
            for name, moved in zip(("all", "new"), moves, strict=True)
        }
        for stream, moves in shift.items()
    }
    idea = Idea("an idea", ("all",), ("new",))
    found = ideas.gain(t, idea, ["a", "b"])
    powers = {
        name: np.mean([combined_p(x, t[NULL][name]) <= LEVEL for s in "ab" for x in t[s][name]])
        for name in ("all", "new")
    }
    assert found.value == pytest.approx(powers["new"] - powers["all"])
    back = ideas.gain(t, Idea("back", ("new",), ("all",)), ["a", "b"])
    assert ideas.verdict(found, found) == "**gains**"
    assert ideas.verdict(found, back) == ideas.verdict(back, found) == "loses"
    none = ideas.gain(t, Idea("none", ("all",), ("all",)), ["a"])
    assert none.value == 0
    assert ideas.verdict(found, none) == "no gain shown"


def test_variants_of_a_strategy_count_with_it() -> None:
    """And strategies count once, whatever was tried: a scan is found among many widths."""
    rng = np.random.default_rng(5)
    sizes = {"all": 5, "all, kernels added": 1, "sat": 5, "next, any b": 5, "scan": 1}
    null = {name: rng.normal(size=(400, size)) for name, size in sizes.items()}
    count = ideas.strategies
    assert count(null, ("all", "all, kernels added", "scan")) == [6, 1]
    assert count(null, ("sat", "next, any b", "scan")) == [5, 5, 1]
    peak = {name: rng.normal(size=(150, size)) for name, size in sizes.items()}
    peak["scan"] += 2.2
    idea = Idea("the scan", ("all", "sat"), ("all", "sat", "next, any b", "scan"))
    columns = [5, 5, 5, 1]
    together = {s: np.hstack([t[c] for c in idea.tried]) for s, t in ((NULL, null), ("a", peak))}
    power = np.mean(
        [combined_p(x, together[NULL], columns=columns) <= LEVEL for x in together["a"]]
    )
    alone = np.mean([combined_p(x, together[NULL]) <= LEVEL for x in together["a"]])
    assert power > alone + 0.05
    before = [np.hstack([t["all"], t["sat"]]) for t in (null, peak)]
    lost = np.mean([combined_p(x, before[0], columns=[5, 5]) <= LEVEL for x in before[1]])
    found = ideas.gain({NULL: null, "a": peak}, idea, ["a"])
    assert found.value == pytest.approx(power - lost)
