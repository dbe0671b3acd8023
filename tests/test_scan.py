"""The scan: windows, the grid of alternatives, and what is kept, against the definitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream import sealed
from gofstream.datasets import expo1d
from gofstream.errors import FormatError, InputError
from gofstream.execution import thread_workers
from gofstream.scan.choose import APART, LEAST, choose_bumps, choose_tails, farthest_first
from gofstream.scan.grid import DEEPEST, UNCERTAIN, ScanGrid, _Known, _safe_drift
from gofstream.scan.summary import FORMAT, ScanSummary
from gofstream.scan.tree import GROUP, scan_batches
from gofstream.scan.windows import FLAT, REACH, RINGS, Bumps, Tails
from scans import dense

Floats = NDArray[np.float64]


def made(dimensions: int, *, shape_only: bool = False, seed: int = 1) -> tuple[ScanGrid, Floats]:
    """Choose a small grid, and give its reference."""
    rng = np.random.default_rng(seed)
    reference = rng.exponential(size=(2000, dimensions))
    return ScanGrid.choose(reference, 300.0, rng, shape_only=shape_only), reference


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_every_sum_is_that_of_its_definition(dimensions: int) -> None:
    """ℓ = Σ log(1 + α k) - N α E_R[k], from a dense matrix of kernel values."""
    grid, reference = made(dimensions)
    x = np.random.default_rng(2).exponential(1.1, size=(150, dimensions))
    k, known = dense(grid.windows, x), dense(grid.windows, reference)
    found = ScanSummary.empty(grid).add(x, 140.0)
    sums = np.array([np.log1p(alpha * k).sum(axis=0) for alpha in grid.alpha])
    np.testing.assert_allclose(grid.sums(found.counts), sums, atol=1e-9)
    np.testing.assert_array_equal(found.inside, np.count_nonzero(k, axis=0))
    wanted = sums - 140 * grid.alpha * known.mean(axis=0)
    np.testing.assert_allclose(found.log_ratio, wanted, atol=1e-9)
    np.testing.assert_allclose(grid.content, np.mean(known > 0, axis=0))
    weight = np.exp(grid.log_weight)
    assert weight.sum() == pytest.approx(1)
    assert found.t == pytest.approx(2 * np.log(np.sum(weight * np.exp(wanted))))
    assert found.peak == pytest.approx(2 * wanted[weight > 0].max())


@pytest.mark.parametrize("dimensions", [1, 2, FLAT, FLAT + 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_events_are_counted_ring_by_ring(dimensions: int, weighted: bool) -> None:
    """By sorting, by a tree and by all distances: what comparing every pair says."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, dimensions))
    weights = rng.uniform(size=300) if weighted else None
    for width in (0.02, 0.2, 1.0, 20.0):
        bumps = Bumps(x[:40] + 0.0123, width)
        away = np.linalg.norm(x[:, None, :] - bumps.centres, axis=2) / width
        for ring in range(RINGS):
            inside = (away > ring / 2) & (away <= (ring + 1) / 2)
            wanted = (inside * (1.0 if weights is None else weights[:, None])).sum(axis=0)
            np.testing.assert_allclose(bumps.count(x, weights)[ring], wanted, atol=1e-12)
    assert bumps.count(x[:0]).sum() == 0


def test_shape_alone_divides_by_the_mean_of_the_alternative() -> None:
    """A surplus of nominal events everywhere says nothing; ℓ is that of normalised densities."""
    grid, reference = made(2, shape_only=True)
    x = np.random.default_rng(2).exponential(size=(150, 2))
    k, mean = dense(grid.windows, x), dense(grid.windows, reference).mean(axis=0)
    wanted = [np.log((1 + a * k) / (1 + a * mean)).sum(axis=0) for a in grid.alpha]
    found = ScanSummary.empty(grid).add(x, expected=1e9)
    np.testing.assert_allclose(found.log_ratio, wanted, atol=1e-9)


@pytest.mark.parametrize("dims", [1, 2])
def test_small_weights_are_not_lost_beside_large_ones(dims: int) -> None:
    """Weights that span twelve hundred orders of e: every sum is right, and t is a number."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 600, size=(3000, dims))
    weights = np.exp(-x[:, 0])
    grid = ScanGrid.choose(x / 100, 50.0, rng, share=weights / weights.sum())
    assert np.isfinite(grid.alpha).all()
    assert np.isfinite(ScanSummary.empty(grid).add(rng.exponential(size=(40, dims)), 50.0).t)
    for windows in grid.windows:
        found = windows.count(x / 100, weights)
        for k in rng.choice(len(windows), size=min(len(windows), 20), replace=False):
            if isinstance(windows, Tails):
                height = np.hstack([x, -x, np.linalg.norm(x, axis=1, keepdims=True)]) / 100
                wanted = weights[height[:, windows.along[k]] > windows.edges[k]].sum()
                assert found[0, k] == pytest.approx(wanted, rel=1e-9, abs=0)
                continue
            apart = np.linalg.norm(x / 100 - windows.centres[k], axis=1) / windows.width
            for ring in range(RINGS):
                edges = ring * REACH / RINGS, (ring + 1) * REACH / RINGS
                wanted = weights[(apart >= edges[0]) & (apart < edges[1])].sum()
                assert found[ring, k] == pytest.approx(wanted, rel=1e-9, abs=0)


def test_weights_count_as_repeated_rows() -> None:
    """A row of weight two is two rows in E_R[k] and in the content; one of weight zero is none."""
    rng = np.random.default_rng(1)
    reference = rng.exponential(size=(2000, 2))
    weights = rng.choice([0.0, 1.0, 2.0], size=2000)
    grid = ScanGrid.choose(reference, 300.0, rng, share=weights / weights.sum())
    repeated = np.repeat(reference, weights.astype(int), axis=0)
    known = dense(grid.windows, repeated)
    np.testing.assert_allclose(grid.drift, grid.alpha * known.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(grid.content, np.mean(known > 0, axis=0))
    nothing = {tuple(row) for row in reference[weights == 0]}
    for windows in grid.windows:
        if isinstance(windows, Bumps):
            assert not nothing & set(map(tuple, windows.centres))
    with pytest.raises(InputError, match="weighted"):
        _ = ScanSummary.empty(grid).log_e


def test_the_grid_keeps_its_rules() -> None:
    """Centres are rows, apart and filled; no alternative is deeper, or less certain, than said."""
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(1500, 1)), rng.normal(40, 0.1, size=(8, 1))])
    for bumps in choose_bumps(rows[rng.permutation(len(rows))]):
        assert np.isin(bumps.centres, rows).all()
        gaps = np.diff(np.sort(bumps.centres[:, 0]))
        assert gaps.min() >= APART * bumps.width * (1 - 1e-9)
        inside = np.abs(rows - bumps.centres.T) <= REACH * bumps.width
        assert inside.sum(axis=0).min() > LEAST
        if bumps.width > 0.05:  # eight rows far away have windows of their own
            assert (bumps.centres > 35).any()
    grid, reference = made(2)
    assert grid.alpha.min() >= DEEPEST
    second = (dense(grid.windows, reference) ** 2).mean(axis=0)
    error = np.abs(grid.alpha) * grid.expected * np.sqrt(second / grid.rows)
    kept = np.isfinite(grid.log_weight)
    assert error[kept].max() < 3 * UNCERTAIN  # known from a few of a fifth of the rows
    assert error[~kept].min() > UNCERTAIN / 3
    assert np.median(error[kept]) < UNCERTAIN < np.median(error[~kept])


def test_several_dimensions_have_spread_and_dense_centres() -> None:
    """Some centres are far from most rows, others where most rows are."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(2000, 5))
    bumps = [each for each in choose_bumps(rows) if 0.8 < each.width < 1.0 or len(each) > 50]
    assert bumps
    radius = np.linalg.norm(bumps[0].centres, axis=1)
    assert radius.max() > np.quantile(np.linalg.norm(rows, axis=1), 0.999)
    assert np.median(radius) < 4


def test_farthest_first_is_what_it_says() -> None:
    """Every row is the farthest from all before it."""
    rows = np.random.default_rng(1).normal(size=(60, 3))
    order, apart = farthest_first(rows, 60)
    assert sorted(order.tolist()) == list(range(60))
    for k in range(1, 60):
        away = np.linalg.norm(rows[:, None] - rows[order[:k]], axis=2).min(axis=1)
        assert away[order[k]] == pytest.approx(away.max(), abs=1e-7)
        assert apart[k] == pytest.approx(away.max(), abs=1e-7)


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((50, 2)),
        np.array([[1.0], [2.0]]),
        np.repeat([[1.0], [3.0]], 40, 0),
    ],
)
def test_degenerate_references_leave_a_grid(rows: Floats) -> None:
    """Constant columns, two rows, or a handful of values: what remains is the rate, at least."""
    grid = ScanGrid.choose(rows, 10.0, np.random.default_rng(1))
    found = ScanSummary.empty(grid).add(rows, 10.0)
    assert np.isfinite(found.t)
    assert isinstance(grid.windows[-1], Tails)
    assert choose_tails(rows).edges[0] == -np.inf


def test_the_grid_follows_from_reference_and_seed() -> None:
    """Same seed, same grid; another seed, another."""
    first, second, other = (made(2, seed=s)[0] for s in (1, 1, 2))
    assert first.about() == second.about()
    assert first.about() != other.about()


def test_any_split_and_order_gives_the_same_summary() -> None:
    """Ten batches, in one pass or in parts merged in another order; the input is left alone."""
    grid, _ = made(2)
    rng = np.random.default_rng(4)
    batches = [rng.exponential(size=(n, 2)) for n in (30, 0, 12, 1, 40, 3, 9, 25, 17, 8)]
    kept = [batch.copy() for batch in batches]
    one = ScanSummary.empty(grid).add(np.concatenate(batches), 150.0)
    parts = [ScanSummary.empty(grid) for _ in range(3)]
    for k in rng.permutation(10):
        parts[k % 3] = parts[k % 3].add(batches[k], 15.0)
    merged = parts[2].merge(parts[0].merge(parts[1]))
    np.testing.assert_array_equal(merged.counts, one.counts)
    assert merged.exposure == one.exposure
    assert merged.batches == 10
    assert merged.t == one.t
    assert all((a == b).all() for a, b in zip(batches, kept, strict=True))
    with pytest.raises(InputError, match="2 features"):
        one.add(np.zeros((3, 1)), 1.0)


def test_kept_bytes_do_not_grow_and_come_back() -> None:
    """As many bytes after one event as after a thousand; the same numbers come back."""
    grid, _ = made(1)
    rng = np.random.default_rng(4)
    small = ScanSummary.empty(grid).add(rng.exponential(size=(1, 1)), 1.0)
    large = small.add(rng.exponential(size=(1000, 1)), 100.0)
    assert abs(len(small.to_bytes()) - len(large.to_bytes())) < 16
    back = ScanSummary.from_bytes(large.to_bytes(), grid)
    assert back.to_bytes() == large.to_bytes()
    assert back.log_e == large.log_e
    assert (back.counts == large.counts).all()


def test_another_grid_is_refused_by_name() -> None:
    """Messages say what differs: the expected number, the kind of test, the windows."""
    grid, reference = made(1)
    one = ScanSummary.empty(grid)
    for other, what in (
        (ScanGrid.choose(reference, 200.0, np.random.default_rng(1)), "expected is 300.0"),
        (made(1, shape_only=True)[0], "shape_only is False"),
        (made(2)[0], "features is 1"),
        (made(1, seed=9)[0], "windows is|numbers is"),
    ):
        with pytest.raises(FormatError, match=what):
            one.merge(ScanSummary.empty(other))
        with pytest.raises(FormatError, match=what.split()[0]):
            ScanSummary.from_bytes(one.to_bytes(), other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, a: (t, a | {"version": 2}), "version 2"),
        (lambda t, a: (t, a | {"format": "else"}), "'else'"),
        (lambda t, a: ({"else": t["counts"]}, a), "cannot be read"),
        (lambda t, a: (t, a | {"exposure": None}), "cannot be read"),
        (lambda t, a: (t, a | {"grid": 3}), "cannot be read"),
        (lambda t, a: (t | {"counts": t["counts"][:1]}, a), "contradicts itself"),
        (lambda t, a: (t | {"counts": t["counts"] + 0.5}, a), "contradicts itself"),
        (lambda t, a: (t | {"counts": t["counts"] - 1}, a), "contradicts itself"),
    ],
)
def test_damaged_or_foreign_bytes_are_refused(change: Callable[..., object], message: str) -> None:
    """What no scan wrote is refused, with a seal that fits or with one that does not."""
    grid, _ = made(1)
    data = ScanSummary.empty(grid).to_bytes()
    tensors, about = change(*sealed.from_bytes(data, FORMAT, 1, "scan summary"))  # type: ignore[misc]
    with pytest.raises(FormatError, match=message):
        ScanSummary.from_bytes(sealed.to_bytes(tensors, about), grid)
    with pytest.raises(FormatError):
        ScanSummary.from_bytes(data[:-1], grid)
    with pytest.raises(FormatError, match="damaged"):
        ScanSummary.from_bytes(data[:-1] + b"\x07", grid)


# -- evidence without toys ------------------------------------------------------------------------


def ever(expected: float, rows: int, *, shape_only: bool, streams: int) -> tuple[float, float]:
    """Share of null streams whose e-value ever reaches 20: taken at face value, and safe."""
    naive = safe = 0
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        reference = rng.random(size=(rows, 1))
        grid = ScanGrid.choose(reference, expected, rng, shape_only=shape_only)
        found, most, safest = ScanSummary.empty(grid), -np.inf, -np.inf
        for _ in range(4):
            size = int(expected / 4) if shape_only else rng.poisson(expected / 4)
            found = found.add(rng.random(size=(size, 1)), expected / 4)
            most, safest = max(most, found.t / 2), max(safest, found.log_e)
        naive += most >= np.log(20)
        safe += safest >= np.log(20)
    return naive / streams, safe / streams


@pytest.mark.parametrize("shape_only", [False, True])
def test_an_e_value_holds_for_a_small_reference(shape_only: bool) -> None:
    """Ten times fewer rows than events: the naive e-value fails, the safe one does not (3 sd)."""
    naive, safe = ever(400.0, 40, shape_only=shape_only, streams=60)
    bound = 0.05 + 3 * (0.05 * 0.95 / 60) ** 0.5
    assert naive > bound
    assert safe <= 0.05


@pytest.mark.parametrize("middle", [0.0, 0.2])
def test_the_safe_price_averages_to_one_at_most(middle: float) -> None:
    """Over references and data e^ℓ has the mean that the formula says, which is at most one."""
    rng, expected, rows, alpha = np.random.default_rng(5), 50, 200, 0.4
    windows = (Bumps(np.array([[0.5]]), 0.1),)
    mean = float(dense(windows, (np.arange(100_000)[:, None] + 0.5) / 100_000).mean())
    ratios = np.empty(3000)
    for k in range(3000):
        reference, x = rng.random(size=(rows, 1)), rng.random(size=(expected, 1))
        held_out = _Known.of(windows, reference, np.arange(rows), None)
        price = _safe_drift(np.full((1, 1), alpha), np.full(1, middle), float(expected), held_out)
        gained = np.log1p(alpha * dense(windows, x)).sum()
        ratios[k] = np.exp(gained - expected * price.item())
    inner = alpha / (1 + alpha * middle)
    off = mean - middle
    wanted = (1 + inner * off) ** expected * (1 - inner * expected / rows * off) ** rows
    assert wanted <= 1
    assert ratios.mean() == pytest.approx(wanted, abs=4 * ratios.std() / 3000**0.5)
    assert 4 * ratios.std() / 3000**0.5 < 0.1


@pytest.mark.parametrize("shape_only", [False, True])
def test_rows_that_chose_the_grid_pay_nothing(shape_only: bool) -> None:
    """The safe price, from rows that were not chosen from: Σ over them, written out."""
    rng = np.random.default_rng(6)
    reference = rng.exponential(size=(500, 2))
    grid = ScanGrid.choose(reference, 100.0, np.random.default_rng(7), shape_only=shape_only)
    chosen = np.random.default_rng(7).choice(500, size=100, replace=False)
    k = dense(grid.windows, reference)
    others = np.delete(k, chosen, axis=0)
    middle = k[chosen].mean(axis=0) if shape_only else np.zeros(grid.size)
    for alpha, found in zip(grid.alpha, grid.safe_drift, strict=True):
        inner = alpha / (1 + alpha * middle)
        factors = 1 - inner * 100 / 400 * (others - middle)
        largest = 1 - inner * 100 / 400 * (1 - middle)  # of a row where k would be 1
        with np.errstate(invalid="ignore", divide="ignore"):
            wanted = np.log1p(alpha * middle) - np.log(factors).sum(axis=0) / 100
        np.testing.assert_allclose(found, np.where(largest > 0, wanted, np.inf), rtol=1e-9)


def test_what_the_reference_cannot_carry_has_no_price() -> None:
    """An alternative whose factor could reach zero on a row is left out of the e-value."""
    alpha, windows = np.array([[0.9], [1.1]]), (Bumps(np.array([[0.5]]), 0.1),)
    held_out = _Known.of(windows, np.full((10, 1), 0.5), np.arange(10), None)
    price = _safe_drift(alpha, np.zeros(1), 10.0, held_out)
    assert np.isfinite(price).ravel().tolist() == [True, False]


def test_beyond_its_exposure_an_e_value_is_refused() -> None:
    """The grid was made for so many events; t can still be had."""
    grid, _ = made(1)
    found = ScanSummary.empty(grid).add(np.ones((3, 1)), 300.0)
    assert np.isfinite(found.log_e)
    beyond = found.add(np.ones((3, 1)), 1.0)
    assert np.isfinite(beyond.t)
    with pytest.raises(InputError, match="made for 300"):
        _ = beyond.log_e


def test_a_narrow_peak_is_found_where_it_is() -> None:
    """EXPO-1D with its narrow signal at 3 times its strength: centre and width of the best."""
    rng = np.random.default_rng(1)
    grid = ScanGrid.choose(expo1d.reference(50_000, rng), 4000.0, rng)
    x = expo1d.toy(4000, rng, expo1d.SIGNALS["narrow"], 0.0075)
    found = ScanSummary.empty(grid).add(x, 4000.0)
    assert found.t > 20
    assert found.log_e > np.log(1000)


def test_a_tree_of_batches_adds_up_to_one_pass() -> None:
    """Counts, exposure and t of more batches than one task takes: those of adding one by one."""
    grid, _ = made(1)

    def read(batch: int) -> tuple[Floats, float]:
        x = np.random.default_rng(batch).exponential(size=(4, 1))
        return x, 1.5 + batch % 3

    batches = range(2 * GROUP + 3)
    one = ScanSummary.empty(grid)
    for batch in batches:
        one = one.add(*read(batch))
    with thread_workers(2) as executor:
        tree = scan_batches(grid, batches, read, executor)
    assert tree.batches == len(batches)
    assert tree.exposure == sum(1.5 + batch % 3 for batch in batches)
    assert (tree.counts == one.counts).all()
    assert tree.t == pytest.approx(one.t, rel=1e-12)
