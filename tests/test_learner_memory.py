"""Memory of learning and of evaluating what was learnt, by what numpy allocates."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from gofstream.errors import MemoryBudgetError
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import Aggregate, RunningRatio
from gofstream.sample import Sample
from gofstream.settings import Settings

MB = 1_000_000
pytestmark = pytest.mark.filterwarnings("ignore:.*its own fluctuations will show")


class Peak:
    """Bytes that were allocated beyond those at the beginning, at their most and at the end."""

    most = 0
    left = 0


@contextmanager
def traced() -> Iterator[Peak]:
    """Trace what numpy and Python allocate."""
    found = Peak()
    tracemalloc.start()
    try:
        yield found
        found.most = tracemalloc.get_traced_memory()[1]
        gc.collect()
        found.left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def learner(budget: int, rows: int, expected: float = 8000.0) -> Learner:
    """Prepare a reference, of which nearly all centres are kept."""
    rng = np.random.default_rng(1)
    settings = Settings(widths=(0.15,), n_centres=400, memory=budget, max_passes=4)
    reference = Sample.from_array(rng.normal(size=(rows, 2)), name="reference")
    return Learner.prepare(reference, settings, expected=expected, rng=2)


def batches(*sizes: int) -> list[Sample]:
    """Draw nominal batches."""
    rng = np.random.default_rng(3)
    return [Sample.from_array(rng.normal(size=(size, 2))) for size in sizes]


@pytest.mark.parametrize(
    ("budget", "sizes"), [(200 * MB, (4000, 4000)), (150 * MB, (25_000,)), (130 * MB, (20_000, 9))]
)
def test_learning_stays_within_the_budget(budget: int, sizes: tuple[int, ...]) -> None:
    """Features, fits and learnt log ratios together; the rows of the data are not kept."""
    prepared, data = learner(budget, 20_000), batches(*sizes)
    features = prepared.features(0.15)
    assert features.rank > 350
    with traced() as peak:
        learnt = prepared.learn(features, data, [float(size) for size in sizes])
    values = sum(f.nbytes for f in (learnt.ratios.reference, *learnt.ratios.data))
    assert features.nbytes + peak.most < budget
    assert values <= peak.left < values + MB
    for model, f, x in zip(learnt.models, learnt.ratios.data, data, strict=True):
        own = f[learnt.models.index(model)]
        kernel = gaussian(prepared.scaling.apply(x), model.centres, model.width)
        np.testing.assert_allclose(own, kernel @ model.coefficients, rtol=1e-9, atol=1e-9)


def test_log_ratios_that_do_not_fit_are_refused() -> None:
    """Before the fits, with the bytes: one value of each f for every point."""
    budget = 80_000_000
    prepared, data = learner(budget, 20_000), batches(*[50] * 300)
    features = prepared.features(0.15)
    needed = features.nbytes + 8 * (20_000 + 15_000) * 300
    with traced() as peak, pytest.raises(MemoryBudgetError, match="learnt log ratios") as caught:
        prepared.learn(features, data, [50.0] * 300)
    assert needed < caught.value.needed < needed + 30 * MB
    assert peak.most < 2 * MB


def test_log_ratios_of_many_events_take_little_memory() -> None:
    """F and F alike, of models and of features; the numbers are those of the whole matrix."""
    prepared = learner(4 * 1024**3, rows=2000, expected=100.0)
    features = prepared.features(0.15)
    learnt = prepared.learn(features, batches(150), [150.0])
    (model,) = learnt.models
    (events,) = batches(60_000)  # their kernel matrix takes 190 MB
    x = prepared.scaling.apply(events)
    whole = gaussian(x, model.centres, model.width) @ model.coefficients
    for evaluate in (
        lambda: model(events),
        lambda: Aggregate().add(model)(events),
        lambda: features.log_ratio(x, learnt.fit.z)[:, 0],
    ):
        with traced() as peak:
            found = evaluate()
        assert peak.most < 40 * MB
        np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9)


def test_the_aggregate_of_no_batch_is_zero() -> None:
    """Without a division by zero, as that of `Aggregate`; and adding one batch gives its f."""
    empty, f = RunningRatio.empty(3), np.array([-1.0, 0.0, 2.0])
    assert empty.value().tolist() == [0.0, 0.0, 0.0]
    assert Aggregate().scaled(np.zeros((3, 1))).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(empty.add(f, 5.0).value(), f, rtol=1e-15)
