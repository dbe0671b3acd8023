"""The peers: the same toys for all, statistics that are what they are called, words that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import poisson

from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Injected, Simulator
from gofstream_studies.benchmarks.peers import methods, network, page, run
from gofstream_studies.benchmarks.peers.methods import TESTS
from gofstream_studies.benchmarks.peers.page import NAMES, OURS, SHAPE_ONLY
from gofstream_studies.benchmarks.peers.tasks import NULL, SIGNALS, Task, dimuon5d_task
from gofstream_studies.benchmarks.points import read_lines

Floats = NDArray[np.float64]

EXPECTED = np.array([60.0, 60.0])


def simulate(dimensions: int, shift: float = 0.0) -> Simulator:
    """Draw normal columns."""
    return Simulator(lambda n, rng: rng.normal(shift, 1, size=(n, dimensions)))


def small_task(dimensions: int = 1, rows: int = 400) -> Task:
    """Make a task under the name of EXPO-1D, with two signals."""
    rng = np.random.default_rng(1)
    nominal = simulate(dimensions)
    settings = Settings(widths=(0.5, 1.5), n_centres=30)
    learner = Learner.prepare(
        Sample.from_array(rng.normal(size=(rows, dimensions))), settings, expected=60.0, rng=rng
    )
    signals = {name: Injected(nominal, simulate(dimensions, 3), 0.5) for name in ("bulk", "tail")}
    return Task("expo1d", learner, EXPECTED, {NULL: nominal} | signals)


def test_the_same_toys_as_a_calibration() -> None:
    """`all` and the scan say what blocks of a plan say of the toys of that name."""
    task = small_task()
    found = methods.all_(task)(task.toys(NULL, 0, 16))
    plan = ReferencePlan(task.learner, task.sources[NULL], "normal", EXPECTED, task.seed)
    for k, width in enumerate(task.learner.widths):
        t, _ = plan.block(plan.shared(width), width, 0)
        right = t[:, list(STATISTICS).index("all"), -1]
        np.testing.assert_allclose(found[:, k], right, rtol=1e-4, atol=1e-4)
    (scan,) = [which for which in plan.passes if not isinstance(which, float)]
    t, _ = plan.block(plan.shared(scan), scan, 0)
    np.testing.assert_array_equal(methods.scan(task)(task.toys(NULL, 0, len(t)))[:, 0], t[:, 0, -1])
    again = task.toys(NULL, 3, 1)[0]
    assert (again.events == task.toys(NULL, 2, 2)[1].events).all()
    assert again.rng("trees").integers(2**60) != again.rng("logistic").integers(2**60)


def test_dimuon_pool_is_large_enough() -> None:
    """Thirty times the data, without a warning, apart from the reference; all signals are there."""
    task = dimuon5d_task()
    assert list(task.sources) == [NULL, *SIGNALS["dimuon5d"]]
    known = {row.tobytes() for row in task.reference}
    (toy,) = task.toys(NULL, 0, 1)
    assert not any(row.tobytes() in known for row in toy.events)
    assert len(toy.events) == pytest.approx(2000, abs=250)
    assert task.reference.shape == (40_000, 5)


def test_count() -> None:
    """Against the likelihoods of a Poisson distribution."""
    task = small_task()
    toys = task.toys(NULL, 0, 3)
    n = np.array([len(toy.events) for toy in toys])
    right = 2 * (poisson.logpmf(n, n) - poisson.logpmf(n, 120.0))
    np.testing.assert_allclose(methods.count(task)(toys)[:, 0], right, rtol=1e-9, atol=1e-12)


def test_mmd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unbiased, against a loop over pairs; and near that of the kernel itself."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 4)), rng.normal(size=(9, 4))

    def mean(a: Floats, b: Floats, kernel: Any) -> float:
        pairs = [kernel(p, q) for p in a for q in b if p is not q and not (p == q).all()]
        return float(np.mean(pairs))

    def right(a: Floats, b: Floats, kernel: Any) -> float:
        return mean(a, a, kernel) + mean(b, b, kernel) - 2 * mean(a, b, kernel)

    unbiased = methods.discrepancy(methods._sums(x), methods._sums(y))
    assert unbiased == pytest.approx(right(x, y, np.dot))
    monkeypatch.setattr(methods, "MMD_FEATURES", 10_000)
    task = small_task(rows=60)
    toy = task.toys("bulk", 0, 1)[0]
    ((*found,),) = methods.mmd(task)([toy])
    for near, width in zip(found, task.learner.widths, strict=True):
        exact = right(
            toy.events,
            task.reference,
            lambda p, q, width=width: np.exp(-np.sum((p - q) ** 2) / (2 * width**2)),
        )
        assert exact > 0.05
        assert near == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_energy(dimensions: int) -> None:
    """Against a loop over pairs."""
    task = small_task(dimensions, rows=50)
    toy = task.toys("bulk", 0, 1)[0]
    x, y = toy.events, task.reference

    def mean(a: Floats, b: Floats, *, apart: bool = False) -> float:
        distances = [np.sqrt(np.sum((p - q) ** 2)) for p in a for q in b]
        return float(np.sum(distances) / (len(a) * (len(b) - apart)))

    found = methods.energy(task)([toy])[0, 0]
    if dimensions == 1:
        assert found**2 == pytest.approx(2 * mean(x, y) - mean(x, x) - mean(y, y))
    else:
        assert found == pytest.approx(2 * mean(x, y) - mean(x, x, apart=True))


class Remembers:
    """A classifier that goes by the first column, and keeps what it was shown."""

    def fit(self, x: Floats, y: Floats, sample_weight: Floats | None = None) -> None:
        """Keep it."""
        self.x, self.y, self.weights = x, y, sample_weight

    def predict_proba(self, x: Floats) -> Floats:
        """Call large values data."""
        self.seen = x
        return np.column_stack([-x[:, 0], x[:, 0]])


def test_two_sample() -> None:
    """Halves that share no event, classes of equal weight, and the area counted pair by pair."""
    task, model = small_task(), Remembers()
    toy = task.toys("bulk", 0, 1)[0]
    test = methods.two_sample(task, lambda rng: model, "one", lambda x: x)
    found = test([toy])[0, 0]
    events = set(toy.events[:, 0].tolist())
    learnt, kept = set(model.x[:, 0].tolist()), set(model.seen[:, 0].tolist())
    assert not learnt & kept
    assert learnt | kept == events | set(task.reference[:, 0].tolist())
    assert {value for value, y in zip(model.x[:, 0], model.y, strict=True) if y} == learnt & events
    assert model.weights is not None
    assert model.weights[model.y == 1].sum() == pytest.approx(model.weights[model.y == 0].sum())
    data = [x for x in model.seen[:, 0] if x in events]
    rest = [x for x in model.seen[:, 0] if x not in events]
    assert found == pytest.approx(np.mean([[x > y for y in rest] for x in data]))
    first, again = (methods.trees(task)([toy]) for _ in range(2))
    assert (first == again).all()


def test_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """F against a loop over neurons; with no weights, the count alone; with them, never less."""
    rng = np.random.default_rng(1)
    parameters, x = rng.normal(size=4 * 2 + 4 + 5), rng.normal(size=(2, 3))
    right = []
    for column in x.T:
        hidden = [
            1 / (1 + np.exp(-(parameters[2 * j : 2 * j + 2] @ column + parameters[8 + j])))
            for j in range(4)
        ]
        right.append(sum(parameters[12 + j] * hidden[j] for j in range(4)) + parameters[16])
    values = torch.asarray(parameters)
    np.testing.assert_allclose(network.forward(values, [2, 4, 1], torch.asarray(x)), right)
    task = small_task()
    toys = task.toys("bulk", 0, 2)
    counted = methods.count(task)(toys)
    assert (methods.network(task)(toys) > counted + 5).all()
    monkeypatch.setitem(network.SHAPES, 1, ((4,), 0.0, 100))
    np.testing.assert_allclose(methods.network(task)(toys), counted, rtol=1e-5)


def test_all_tests_see_a_large_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the file and back; a run goes on where it was, and is not repeated."""
    monkeypatch.setattr(run, "CHUNK", 8)
    monkeypatch.setitem(network.SHAPES, 1, ((4,), 9.0, 40))
    monkeypatch.setattr(page, "SIGNALS", {"expo1d": ("bulk", "tail")})
    task = small_task()
    run.run("expo1d", tmp_path, tuple(TESTS), (20, 0), task)
    path = tmp_path / "peers-expo1d.jsonl"
    assert page.gather(read_lines([path]), "expo1d", (20, 4)) is None
    run.run("expo1d", tmp_path, tuple(TESTS), (20, 4), task)
    size = path.stat().st_size
    monkeypatch.setattr(run, "TESTS", {})
    run.run("expo1d", tmp_path, tuple(TESTS), (20, 4), task)
    assert path.stat().st_size == size
    found = page.gather(read_lines([path]), "expo1d", (20, 4))
    assert found is not None
    assert found.signals == ["bulk", "tail"]
    assert found.t["all"][NULL].shape == (20, 2)
    assert found.t[OURS][NULL].shape == (20, 3)
    assert found.seconds[OURS] == found.seconds["all"] + found.seconds["scan"]
    assert found.t["mmd + count"]["tail"].shape == (4, 3)
    assert found.columns["mmd + count"] == [2, 1]
    for test in NAMES:
        assert found.power(test, "bulk").value > 0.6, test
    assert page.gather(read_lines([path]), "expo1d", (21, 4)) is None
    stopped = [line for line in path.read_text().splitlines() if "network" not in line]
    stopped += [line for line in path.read_text().splitlines() if "null.0.network" in line]
    path.write_text("\n".join(stopped) + "\n")
    found = page.gather(read_lines([path]), "expo1d", (8, 0))
    assert found is not None
    assert {len(streams[NULL]) for streams in found.t.values()} == {8}
    assert page.gather(read_lines([path]), "expo1d", (9, 0)) is None


def made_up(seen: dict[str, float]) -> page.Found:
    """Make up toys: tests see a share of those with the signal `bulk`, others are noise."""
    rng = np.random.default_rng(1)
    t = {}
    for test in page.shown():
        null = rng.normal(size=(200, 1))
        signal = rng.normal(size=(60, 1))
        signal[: round(60 * seen.get(test, 0.05))] += 100
        t[test] = {NULL: null, "bulk": signal, "tail": rng.normal(size=(60, 1))}
    times = {test: 2.0 if test == OURS else 4.0 for test in NAMES} | {"energy": 0.5}
    return page.Found("expo1d", t, times, dict.fromkeys(NAMES, 1.0), {})


def test_words_follow_the_numbers(tmp_path: Path) -> None:
    """A peer that wins is named with its numbers; so is a lead of ours, and no lead at all."""
    text = page.section(made_up({OURS: 0.3, "energy": 0.9}), "expo1d")
    assert "**A peer wins on bulk**, where ours sees 0.3" in text
    assert "energy distance sees 0.9" in text
    assert "nor ours than all of them, on tail" in text
    assert "Quicker than ours: energy distance." in text
    assert "| energy distance | 0.50 s | 0.25 |" in text
    text = page.words(made_up({OURS: 0.9}))
    assert "wins" not in text
    assert "Ours is certainly better than every peer on bulk." in text
    found = made_up({OURS: 0.5, "mmd + count": 0.8})
    low, high = found.power(OURS, "bulk").low, found.power(OURS, "bulk").high
    assert low < 0.5 < high
    assert "MMD, and the number of events sees 0.8" in page.words(found)
    page.draw(found).savefig(tmp_path / "peers.png")
    assert len(page.shown()) == len(NAMES) + len(SHAPE_ONLY)


def test_page_before_the_run(tmp_path: Path) -> None:
    """It says that there are no numbers."""
    page.main([], tmp_path)
    text = (tmp_path / "peers.md").read_text()
    assert text.count("*Not run yet.*") == 2
