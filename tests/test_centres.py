"""Centres: how they are drawn, which are kept, and which events they cannot see."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.spatial.distance import cdist

from gofstream.errors import GofstreamWarning
from gofstream.ratio import centres as centres_module
from gofstream.ratio.centres import (
    REACH,
    covering_centres,
    default_count,
    draw_candidates,
    reduce_centres,
    reduction_bytes,
    uncovered,
)
from gofstream.ratio.kernel import gaussian, log_gaussian

Floats = NDArray[np.float64]


def naive_exponent(x: Floats, centres: Floats, width: float) -> Floats:
    """Exponents -|x - c|² / 2σ², pair by pair."""
    out = np.empty((len(x), len(centres)))
    for i, event in enumerate(x):
        for j, centre in enumerate(centres):
            out[i, j] = -math.fsum((event - centre) ** 2) / (2 * width**2)
    return out


# -- the kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 3, 24])
@pytest.mark.parametrize("width", [0.1, 1.0, 10.0])
def test_kernel(dimensions: int, width: float) -> None:
    """One product gives what differences give, up to rounding of |x/σ|²."""
    rng = np.random.default_rng(dimensions)
    x, centres = rng.normal(size=(17, dimensions)), rng.normal(size=(9, dimensions))
    centres[0] = x[0]
    exponent = naive_exponent(x, centres, width)
    rounding = 1e-14 * dimensions * (4 / width) ** 2
    np.testing.assert_allclose(log_gaussian(x, centres, width), exponent, atol=rounding)
    kernel = gaussian(x, centres, width)
    np.testing.assert_allclose(kernel, np.exp(exponent), rtol=2 * rounding, atol=1e-300)
    assert kernel[0, 0] == pytest.approx(1.0, abs=rounding)


def test_kernel_precision() -> None:
    """The result has the precision of its arguments, and no events give no rows."""
    x = np.ones((3, 2), dtype=np.float32)
    assert gaussian(x, x, 1.0).dtype == np.float32
    assert gaussian(x.astype(np.float64), x.astype(np.float64), 1.0).dtype == np.float64
    assert gaussian(np.empty((0, 2)), np.ones((5, 2)), 1.0).shape == (0, 5)


# -- drawing --------------------------------------------------------------------------------------


def rows_of(points: Floats, pool: Floats) -> list[int]:
    """Row of the pool that each point is; every point has to be one."""
    index = {tuple(row): i for i, row in enumerate(pool.tolist())}
    return [index[tuple(point)] for point in points.tolist()]


def test_draw_without_replacement() -> None:
    """Distinct rows of the reference, reproducible from the seed, uniform over the rows."""
    reference = np.random.default_rng(1).normal(size=(500, 2))
    drawn = draw_candidates(reference, 200, np.random.default_rng(2))
    again = draw_candidates(reference, 200, np.random.default_rng(2))
    other = draw_candidates(reference, 200, np.random.default_rng(3))
    rows = rows_of(drawn, reference)
    assert drawn.shape == (200, 2)
    assert len(set(rows)) == 200
    np.testing.assert_array_equal(drawn, again)
    assert set(rows) != set(rows_of(other, reference))
    counts = np.zeros(500)
    for seed in range(200):
        counts[rows_of(draw_candidates(reference, 50, np.random.default_rng(seed)), reference)] += 1
    # 20 ± 4.2 each; five standard deviations.
    assert np.abs(counts - 20).max() < 21
    assert abs(counts[:250].sum() - 5000) < 5 * math.sqrt(10_000 / 4)


def test_draw_no_more_than_there_are() -> None:
    """All rows, once each, when more are asked for than exist."""
    reference = np.random.default_rng(1).normal(size=(30, 2))
    drawn = draw_candidates(reference, 1000, np.random.default_rng(2))
    assert sorted(rows_of(drawn, reference)) == list(range(30))
    share = np.append(np.zeros(10), np.full(20, 0.05))
    drawn = draw_candidates(reference, 1000, np.random.default_rng(2), share=share)
    assert sorted(rows_of(drawn, reference)) == list(range(10, 30))
    data = np.random.default_rng(3).normal(size=(5, 2))
    pool = np.concatenate([reference, data])
    drawn = draw_candidates(reference, 1000, np.random.default_rng(2), data=data)
    assert sorted(rows_of(drawn, pool)) == list(range(35))


def test_draw_by_weight() -> None:
    """Rows are drawn in proportion to their weight, never those of weight zero."""
    reference = np.arange(1000.0)[:, None]
    share = np.repeat([0.0, 1.0, 3.0, 1.0], 250)
    share /= share.sum()
    counts = np.zeros(1000)
    for seed in range(300):
        drawn = draw_candidates(reference, 20, np.random.default_rng(seed), share=share)
        assert len(np.unique(drawn)) == 20
        counts[drawn[:, 0].astype(int)] += 1
    groups = counts.reshape(4, 250).sum(axis=1) / counts.sum()
    assert groups[0] == 0
    # 6000 draws: standard deviation 0.0065 and less; a few in twenty without replacement.
    np.testing.assert_allclose(groups[1:], [0.2, 0.6, 0.2], atol=0.025)


def test_draw_from_pool() -> None:
    """With data given, its rows can become centres, each as likely as a row of the reference."""
    rng = np.random.default_rng(4)
    reference, data = rng.normal(size=(400, 2)), rng.normal(10, 1, (200, 2))
    from_data = 0
    for seed in range(50):
        drawn = draw_candidates(reference, 60, np.random.default_rng(seed), data=data)
        assert len(set(rows_of(drawn, np.concatenate([reference, data])))) == 60
        from_data += int((drawn[:, 0] > 5).sum())
    # 3000 draws, a third from the data: 1000 ± 26.
    assert abs(from_data - 1000) < 130


def test_draw_leaves_its_input_alone() -> None:
    """Centres are a contiguous copy in double precision."""
    reference = np.random.default_rng(1).normal(size=(50, 4))[:, ::2]
    drawn = draw_candidates(reference, 10, np.random.default_rng(2))
    assert drawn.flags.c_contiguous
    assert drawn.dtype == np.float64
    drawn[:] = 0
    assert reference.all()


def test_default_count() -> None:
    """M = c √N, rounded up, at least two."""
    assert default_count(10_000) == 100
    assert default_count(10_001) == 101
    assert default_count(10_000, 2.5) == 250
    assert default_count(202_000) == 450
    assert default_count(0.5) == 2


# -- reduction ------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1e-6, 1e-3])
@pytest.mark.parametrize(("dimensions", "width"), [(1, 0.1), (1, 0.7), (2, 1.0), (5, 2.0)])
def test_reduction_keeps_the_span(dimensions: int, width: float, penalty: float) -> None:
    """Kernels of dropped candidates are made of those kept, to the tolerance that is stated."""
    rng = np.random.default_rng(5)
    candidates = rng.exponential(size=(300, dimensions))
    centres = reduce_centres(candidates, width, penalty)
    rows = rows_of(centres.points, candidates)
    assert len(set(rows)) == centres.rank == len(centres.points)
    kept = np.exp(naive_exponent(centres.points, centres.points, width))
    np.testing.assert_allclose(centres.chol @ centres.chol.T, kept, atol=1e-12)
    assert not np.triu(centres.chol, 1).any()
    # Residual variance of each candidate given those kept: k(x, x) - |L⁻¹ k(c, x)|².
    cross = np.exp(naive_exponent(centres.points, candidates, width))
    residual = 1 - (solve_triangular(centres.chol, cross, lower=True) ** 2).sum(axis=0)
    tolerance = 1e-6 if centres.rank < 200 else 0.1
    noise = 1e-11  # of the residuals themselves, at a condition number of up to 1e12
    assert residual.max() <= tolerance * penalty + noise
    # And none is kept in vain: each pivot still had variance when its turn came.
    assert np.diagonal(centres.chol).min() ** 2 > 0.5e-6 * penalty


def test_reduction_pivots_are_greedy() -> None:
    """Each centre is the candidate least well represented by those before it."""
    candidates = np.random.default_rng(6).normal(size=(80, 2))
    centres = reduce_centres(candidates, 0.7, 1e-4)
    pivots = np.diagonal(centres.chol) ** 2
    assert (np.diff(pivots) <= 1e-12).all()
    cross = np.exp(naive_exponent(centres.points, candidates, 0.7))
    for count in (1, 5, 20):
        rows = solve_triangular(centres.chol[:count, :count], cross[:count], lower=True)
        residual = 1 - (rows**2).sum(axis=0)
        assert residual.max() == pytest.approx(pivots[count], rel=1e-6)


def test_reduction_coarse_tolerance() -> None:
    """Beyond 200 centres those whose residual variance is below 0.1 λ are dropped."""
    candidates = np.random.default_rng(7).normal(size=(900, 3))
    kept = {penalty: reduce_centres(candidates, 0.8, penalty) for penalty in (1e-6, 1e-3, 1e-1)}
    ranks = [centres.rank for centres in kept.values()]
    assert ranks == sorted(ranks, reverse=True)
    assert 200 < kept[1e-3].rank < kept[1e-6].rank <= 900
    centres = kept[1e-3]
    assert np.diagonal(centres.chol).min() ** 2 > 1e-4
    cross = np.exp(naive_exponent(centres.points, candidates, 0.8))
    residual = 1 - (solve_triangular(centres.chol, cross, lower=True) ** 2).sum(axis=0)
    assert residual.max() <= 1e-4 * (1 + 1e-6)
    # The pivots are nested: a larger penalty keeps the first ones of a smaller.
    np.testing.assert_array_equal(centres.points, kept[1e-6].points[: centres.rank])


@pytest.mark.parametrize("blocks", [False, True])
def test_reduction_coarsest_tolerance(blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many centres those whose residual variance is below 10 λ are dropped."""
    candidates = np.random.default_rng(7).normal(size=(900, 3))
    if blocks:
        monkeypatch.setattr(centres_module, "DENSE", 899)
        monkeypatch.setattr(centres_module, "BLOCK", 16)

    def rank(penalty: float, first: int) -> int:
        monkeypatch.setattr(centres_module, "COARSE_RANK", first)
        return reduce_centres(candidates, 0.8, penalty).rank

    coarsest = rank(1e-2, 900)  # 0.1 of this penalty is 10 times the other
    assert 250 < coarsest < 400 < rank(1e-4, 900)
    if blocks:
        assert rank(1e-4, 250) == pytest.approx(coarsest, rel=0.1)
        assert 400 <= rank(1e-4, 400) < 400 + 16
    else:
        assert rank(1e-4, 250) == coarsest
        assert rank(1e-4, 400) == 400


def test_reduction_drops_duplicates() -> None:
    """A candidate that occurs three times is kept at most once; far ones are all kept."""
    points = np.arange(20.0)[:, None] * 5
    candidates = np.repeat(points, 3, axis=0)
    centres = reduce_centres(candidates, 1.0, 1e-6)
    assert centres.rank == 20
    np.testing.assert_array_equal(np.sort(centres.points[:, 0]), points[:, 0])
    assert reduce_centres(np.zeros((50, 3)), 1.0, 1e-6).rank == 1


# -- coverage -------------------------------------------------------------------------------------


def naive_uncovered(events: Floats, centres: Floats, width: float) -> list[bool]:
    """Whether each event is farther than three widths from every centre."""
    return [all(math.dist(event, centre) > REACH * width for centre in centres) for event in events]


@pytest.mark.parametrize("dimensions", [1, 4])
@pytest.mark.parametrize("rows", [1, 7, 4096])
def test_uncovered(dimensions: int, rows: int) -> None:
    """The events a plain loop finds, whatever the chunks."""
    rng = np.random.default_rng(8)
    events, centres = rng.normal(0, 3, (100, dimensions)), rng.normal(size=(12, dimensions))
    missed = uncovered(events, centres, 0.5, rows=rows)
    assert missed.tolist() == naive_uncovered(events, centres, 0.5)
    assert 0 < missed.sum() < 100
    assert uncovered(events[:0], centres, 0.5).shape == (0,)


@pytest.mark.parametrize("dimensions", [1, 4])
def test_covering_centres(dimensions: int) -> None:
    """Afterwards nothing is uncovered, and no centre was added in vain."""
    rng = np.random.default_rng(9)
    events, centres = rng.normal(0, 4, (200, dimensions)), rng.normal(size=(12, dimensions))
    width = 0.5
    added = covering_centres(events, centres, width)
    assert not uncovered(events, np.concatenate([centres, added]), width).any()
    rows = rows_of(added, events)
    assert rows == sorted(rows)
    # A plain loop: an event becomes a centre if no centre so far covers it.
    expected: list[int] = []
    for i, event in enumerate(events):
        have = np.concatenate([centres, events[expected]])
        if naive_uncovered(event[None], have, width)[0]:
            expected.append(i)
    assert rows == expected
    assert len(rows) > 3


def test_nothing_to_cover() -> None:
    """Covered events, and no events, add no centre."""
    centres = np.zeros((1, 3))
    for events in (np.full((5, 3), 0.1), np.empty((0, 3))):
        assert covering_centres(events, centres, 1.0).shape == (0, 3)


@pytest.mark.parametrize(("dimensions", "width"), [(1, 0.3), (3, 1.0), (3, 2.5)])
def test_centres_in_blocks(dimensions: int, width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate is represented to the tolerance, by hardly more centres than one by one."""
    candidates = np.random.default_rng(4).normal(size=(900, dimensions))
    one_by_one = reduce_centres(candidates, width, 1e-4)
    monkeypatch.setattr(centres_module, "DENSE", 899)
    monkeypatch.setattr(centres_module, "BLOCK", 32)
    found = reduce_centres(candidates, width, 1e-4)
    own = np.exp(-cdist(found.points, found.points, "sqeuclidean") / (2 * width**2))
    np.testing.assert_allclose(found.chol @ found.chol.T, own, atol=1e-12)
    cross = np.exp(-cdist(candidates, found.points, "sqeuclidean") / (2 * width**2))
    left = 1 - np.sum(cross * np.linalg.solve(own, cross.T).T, axis=1)
    assert left.max() <= 1.01e-5
    coarse = np.count_nonzero(np.diagonal(one_by_one.chol) ** 2 > 1e-5)
    assert coarse <= found.rank + 3
    assert found.rank <= 1.3 * coarse


def test_copies_of_points_far_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their kernels are not quite one, so what is left seems never to fall; the reduction ends."""
    rng, rounds = np.random.default_rng(1), []

    def counted(*args: Any, **kwargs: Any) -> Any:
        rounds.append(1)
        assert len(rounds) < 100
        return lapack.dpstrf(*args, **kwargs)

    monkeypatch.setattr(centres_module, "lapack", SimpleNamespace(dpstrf=counted))
    near, far = 0.05 * rng.normal(size=(6500, 5)), 1e5 * rng.normal(size=(12, 5))
    found = reduce_centres(np.concatenate([near, np.repeat(far, 300, axis=0)]), 0.9137, 1e-6)
    assert np.count_nonzero(np.abs(found.points).max(axis=1) > 1e3) >= 12
    assert len(np.unique(found.points, axis=0)) > 50
    assert np.isfinite(found.chol).all()


def test_as_many_centres_as_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than the tolerance asks for, with a word about what they leave."""
    candidates = np.random.default_rng(4).normal(size=(900, 3))
    monkeypatch.setattr(centres_module, "DENSE", 899)
    monkeypatch.setattr(centres_module, "BLOCK", 32)
    wanted = reduce_centres(candidates, 1.0, 1e-4)
    room = reduction_bytes(900, 100)
    with pytest.warns(GofstreamWarning, match=r"100 centres leave \S+ of the variance of some"):
        found = reduce_centres(candidates, 1.0, 1e-4, memory=room)
    assert found.rank == 100 < wanted.rank
    np.testing.assert_array_equal(found.points[:32], wanted.points[:32])


def test_memory_of_centres_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken is what was reckoned, or less; and never more than was given."""
    candidates = np.random.default_rng(4).normal(size=(20_000, 3))
    monkeypatch.setattr(centres_module, "BLOCK", 64)
    for width, room in ((1.5, 4 * 1024**3), (0.2, 100_000_000)):
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GofstreamWarning)
            found = reduce_centres(candidates, width, 1e-4, memory=room)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.rank > 200
        assert peak <= reduction_bytes(20_000, found.rank) <= room
