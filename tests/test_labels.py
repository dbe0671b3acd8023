"""Labels: fits on shared features against fits that each have a reference of their own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.ratio.centres import uncovered
from gofstream.ratio.features import Features, prepare
from gofstream.ratio.labels import Labels
from gofstream.ratio.objective import Block
from gofstream.ratio.rows import Rows
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.growing import growing_statistics
from gofstream.toys.permutation import PermutationPlan
from test_solver import peak_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
WIDTH, PENALTY = 0.7, 1e-5


def features_of(rows: Floats, events: Floats, expected: float, precision: str) -> Features:
    """Make features of some rows, always with the same centres."""
    return prepare(
        rows, events[:60], WIDTH, penalty=PENALTY, expected=expected, precision=precision
    )


def dealt(count: int, sizes: list[int], sets: int) -> list[list[Indices]]:
    """Deal rows out at random."""
    rng = np.random.default_rng(3)
    ends = np.cumsum(sizes)
    return [np.split(rng.permutation(count)[: ends[-1]], ends[:-1]) for _ in range(sets)]


@pytest.mark.parametrize("one_step", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 2e-3), ("float64", 1e-5)])
@pytest.mark.parametrize("sizes", [[100, 150], [40, 1500]])
def test_as_if_each_had_its_own_reference(
    one_step: bool, precision: str, tolerance: float, sizes: list[int]
) -> None:
    """Fits and statistics of labelled rows are those of a reference made of the rows kept.

    With 1540 of 2000 events in the data, the curvature of a reference can be four times that of
    all rows; one set prefers data at large values of the first column, to come closer to that.
    """
    events = np.random.default_rng(2).normal(size=(2000, 2))
    sets = dealt(len(events), sizes, 3)
    order = np.argsort(np.random.default_rng(5).gumbel(size=2000) - events[:, 0])
    sets.append([order[: sizes[0]], order[sizes[0] : sum(sizes)]])
    expected = np.array(sizes, dtype=float)
    shared = features_of(events, events, expected.mean(), precision)
    far = uncovered(events, shared.centres, WIDTH)
    labels = Labels.deal(shared, far, sets)
    assert labels.n_reference == 2000 - sum(sizes)
    together = fit(shared, labels, np.tile(expected, len(sets)), one_step=one_step)
    t = growing_statistics(shared, together, expected)
    assert one_step or together.converged.all()
    for k, rows in enumerate(sets):
        rest = np.setdiff1d(np.arange(len(events)), np.concatenate(rows))
        own = features_of(events[rest], events, expected.mean(), precision)
        alone = fit(own, [events[each] for each in rows], expected, one_step=one_step)
        mine = slice(len(sizes) * k, len(sizes) * (k + 1))
        np.testing.assert_allclose(together.t[mine], alone.t, rtol=tolerance, atol=tolerance)
        assert together.uncovered[mine].tolist() == alone.uncovered.tolist()
        np.testing.assert_allclose(
            t[k], growing_statistics(own, alone, expected)[0], rtol=tolerance, atol=tolerance
        )


def test_the_bound_is_certain_at_its_slack() -> None:
    """Curvature of J_R at f = 0: above that of all rows in some direction, never beyond the slack.

    The reference is all at one side, so along the function that sees that side it is the steeper.
    """
    events = np.random.default_rng(6).normal(size=(400, 1))
    features = features_of(events, events, 300.0, "float64")
    order = np.argsort(events[:, 0])
    labels = Labels.deal(features, np.zeros(400, dtype=bool), [[order[:300]]])
    block = Block(features, Rows.taken(features, labels.data), np.array([300.0]), labels)
    who = np.array([0])
    alpha, beta = block.quadratic(np.ones(1), who)
    ratios = []
    for p in np.eye(features.rank):
        exact = float(p @ block.reference_curvature(p[:, None], who)[:, 0])
        ratios.append(exact / float(p @ (alpha * p + beta * (block.s @ p))))
    assert 1.2 < max(ratios) <= block.most == 4


def test_memory_of_a_block_is_bounded_as_stated() -> None:
    """What a block of permuted labels is said to take, it takes, and not much less."""
    rng = np.random.default_rng(4)
    plan = PermutationPlan.pool(
        Sample.from_array(rng.normal(size=(20_000, 2))),
        [Sample.from_array(rng.normal(size=(2000, 2)))],
        Settings(n_centres=200),
        seed=1,
        rng=rng,
    )
    width = plan.learner.widths[1]
    shared = plan.shared(width)
    _, stated = plan.memory(shared)
    used = peak_of(lambda: plan.block(shared, width, 0))
    assert 0.3 * stated < used <= stated
