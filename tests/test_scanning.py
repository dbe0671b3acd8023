"""The scan in plans, null files and verdicts: for data as for toys; told in the user's units."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import FormatError, InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import Calibration, calibrate
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullFile, NullTable, describe_null
from gofstream.inference.result import VERDICTS
from gofstream.inference.study import PowerStudy
from gofstream.ratio.learner import Learner
from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample
from gofstream.scan.grid import RULE, ScanGrid
from gofstream.scan.region import DISTANCE
from gofstream.scan.summary import ScanSummary
from gofstream.scan.where import FoundWindow, windows_from_json, windows_of
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.plan import ReferencePlan, draw_toy
from gofstream.toys.sources import Simulator, toy_rng

Floats = NDArray[np.float64]
TOYS = 24


def plan_of(*, shape_only: bool = False, weighted: bool = False) -> ReferencePlan:
    """Make three unequal batches against 3000 reference events, at two widths."""
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 1.5, 3000) if weighted else None
    reference = Sample.from_array(expo1d.reference(3000, rng), weights=weights)
    settings = Settings(widths=(0.4, 1.5), n_centres=40)
    learner = Learner.prepare(reference, settings, expected=60.0, rng=rng)
    expected = np.array([60.0, 30.0, 90.0])
    source = Simulator(expo1d.reference)
    return ReferencePlan(learner, source, "expo1d", expected, 7, shape_only=shape_only)


def by_hand(grid: ScanGrid, batches: list[Floats], expected: Floats) -> list[float]:
    """Give t after every number of batches, each from all events so far in one pass."""
    found = []
    for count in range(1, len(batches) + 1):
        x = np.concatenate(batches[:count])
        found.append(ScanSummary.empty(grid).add(x, float(expected[:count].sum())).t)
    return found


@pytest.mark.parametrize(("shape_only", "weighted"), [(False, False), (True, False), (False, True)])
def test_toys_and_data_are_scanned_alike(tmp_path: Path, shape_only: bool, weighted: bool) -> None:
    """The grid follows from reference and seed; t of toys and of data after every batch."""
    plan = plan_of(shape_only=shape_only, weighted=weighted)
    learner = plan.learner
    grid = ScanGrid.choose(
        learner.reference,
        180.0,
        toy_rng(7, "scan", 0),
        share=learner.share,
        shape_only=shape_only,
    )
    with thread_workers(1) as executor:
        made = calibrate(plan, TOYS, tmp_path / "n.null", executor)
    assert made.table.scan is not None
    assert made.table.scan.shape == (TOYS, 3)
    for toy in (0, 5, TOYS - 1):
        batches = draw_toy(learner, plan.source, plan.expected, (7, "null", toy), fixed=shape_only)
        np.testing.assert_allclose(
            made.table.scan[toy], by_hand(grid, batches, plan.expected), atol=1e-9
        )
    rng = np.random.default_rng(3)
    data = [Sample.from_array(expo1d.reference(int(n), rng)) for n in plan.expected]
    result = made.test(data)
    wanted = by_hand(grid, learner.scaled(data), plan.expected)
    np.testing.assert_allclose(result.scanned.t, wanted, atol=1e-9)
    assert result.statistics["scan"].t == (result.scanned.t[-1],)
    assert (result.evidence is None) == weighted


def test_permutation_scans_labels_blindly(tmp_path: Path) -> None:
    """Grid and means are those of the pooled events; the data are as good as any of the toys."""
    rng = np.random.default_rng(4)
    reference = Sample.from_array(rng.normal(size=(400, 2)))
    data = [Sample.from_array(rng.normal(size=(n, 2))) for n in (50, 30)]
    settings = Settings(widths=(0.8,), n_centres=30)
    plan = PermutationPlan.pool(reference, data, settings, seed=3, rng=rng)
    with thread_workers(1) as executor:
        made = calibrate(plan, TOYS, tmp_path / "n.null", executor)
    grid = ScanGrid.choose(plan.learner.reference, 80.0, toy_rng(3, "scan", 0), shape_only=True)
    order = toy_rng(3, "null", 5).permutation(480)
    pooled = plan.learner.reference
    batches = [pooled[order[:50]], pooled[order[50:80]]]
    assert made.table.scan is not None
    np.testing.assert_allclose(made.table.scan[5], by_hand(grid, batches, plan.expected), atol=1e-9)
    result = made.test(data)
    own = by_hand(grid, [pooled[400:450], pooled[450:]], plan.expected)
    np.testing.assert_allclose(result.scanned.t, own, atol=1e-9)
    assert result.evidence is None
    with pytest.raises(InputError, match="no others"):
        plan.scan(plan.shared(plan.passes[-1]), data[::-1])


def change(path: Path, *commands: str) -> None:
    """Change a null file as a program would that keeps its description whole."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for command in commands:
            connection.execute(command)
        rows = dict(connection.execute("SELECT key, value FROM about WHERE key != 'sha256'"))
        digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
        connection.execute("UPDATE about SET value = ? WHERE key = 'sha256'", (json.dumps(digest),))


def test_a_file_from_before_the_scan_gets_it_added(tmp_path: Path) -> None:
    """Fits are not made again, and the bits are those of a new file; another rule is refused."""
    plan, path = plan_of(), tmp_path / "old.null"
    with thread_workers(1) as executor:
        new = calibrate(plan, TOYS, tmp_path / "new.null", executor).table
        calibrate(plan, TOYS, path, executor)
        without = "DELETE FROM about WHERE key = 'scan'"
        change(path, without, "DELETE FROM blocks WHERE width = 2")
        assert describe_null(path)["toys"] >= TOYS
        seen: list[tuple[int, int]] = []
        old = calibrate(plan, TOYS, path, executor, progress=lambda d, n: seen.append((d, n))).table
    blocks = -(-TOYS // plan.toys_per_block)
    assert seen[0] == (2 * blocks, 3 * blocks)
    assert old.t.tobytes() == new.t.tobytes()
    assert old.scan is not None
    assert new.scan is not None
    assert old.scan.tobytes() == new.scan.tobytes()
    change(  # by an older rule: made anew, and the fits are kept
        path,
        "UPDATE about SET value = '1' WHERE key = 'scan'",
        "UPDATE blocks SET t = zeroblob(length(t)) WHERE width = 2",
    )
    with thread_workers(1) as executor:
        seen.clear()
        again = calibrate(plan, TOYS, path, executor, progress=lambda d, n: seen.append((d, n)))
    assert seen[0] == (2 * blocks, 3 * blocks)
    assert again.table.scan is not None
    assert again.table.scan.tobytes() == new.scan.tobytes()
    assert again.table.t.tobytes() == new.t.tobytes()
    assert describe_null(path)["scan"] == RULE
    change(path, "UPDATE about SET value = '99' WHERE key = 'scan'")
    with (
        thread_workers(1) as executor,
        pytest.raises(FormatError, match="the scan is one of a newer gofstream"),
    ):
        calibrate(plan, TOYS, path, executor)
    other = ReferencePlan(plan.learner, plan.source, "expo1d", plan.expected, seed=8)
    change(path, without)
    with thread_workers(1) as executor, pytest.raises(FormatError, match=r"the seed .* is another"):
        calibrate(other, TOYS, path, executor)
    with closing(sqlite3.connect(path)) as connection:  # refused, and left as it was
        assert not connection.execute("SELECT * FROM about WHERE key = 'scan'").fetchall()


def test_a_plan_without_scan_uses_any_file_and_leaves_it_alone(tmp_path: Path) -> None:
    """As the paper's experiments do: a file with a scan, and one from before there was one."""
    plan = plan_of()
    without = replace(plan, with_scan=False)
    assert without.passes == plan.learner.widths
    with thread_workers(1) as executor:
        new, old = tmp_path / "new.null", tmp_path / "old.null"
        scanned = calibrate(plan, TOYS, new, executor).table
        made = calibrate(without, TOYS, old, executor).table
        assert made.scan is None
        assert "scan" not in describe_null(old)
        for path, wanted in ((new, scanned), (old, made)):
            before = path.read_bytes()
            again = calibrate(without, TOYS, path, executor).table
            assert again.names == list(STATISTICS)
            assert again.t.tobytes() == wanted.t.tobytes() == made.t.tobytes()
            assert path.read_bytes() == before
        batches = [
            Sample.from_array(x) for x in plan.source.draw(plan.expected, np.random.default_rng(1))
        ]
        with pytest.raises(InputError, match=r"made without a scan \(`with_scan=False`\)"):
            calibrate(without, TOYS, old, executor).test(batches)


GALLERY = (
    Path(__file__).parents[1] / "docs" / "results" / "gallery" / "toys" / "dimuon5d-full-seed1"
)


def test_files_of_the_gallery_go_on(tmp_path: Path) -> None:
    """Toys that took days: all blocks are known, only those of the scan are to be made."""
    path = tmp_path / "null.null"
    path.write_bytes((GALLERY / "1-batches" / "null.null").read_bytes())
    about = describe_null(path)
    toys, widths = about.pop("toys"), len(about["widths"])
    assert "scan" not in about
    before = NullFile(path, about)
    t = before.load(toys).t
    assert t.shape == (toys, 6, widths, 1)
    after = NullFile(path, about | {"scan": 2})
    assert after.blocks() == before.blocks()
    with pytest.raises(FormatError, match="block 0 of the scan is missing"):
        after.load(toys)
    size = int(about["toys_per_block"])
    scan = np.arange(float(toys))
    for block in range(toys // size):
        after.put(widths, block, scan[block * size : (block + 1) * size].reshape(-1, 1, 1), 0)
    table = after.load(toys)
    assert table.t.tobytes() == t.tobytes() == before.load(toys).t.tobytes()
    assert table.statistic("scan").ravel().tolist() == scan.tolist()


def table_of(rng: np.random.Generator) -> NullTable:
    """Make up toys at two widths."""
    about = {"widths": [0.4, 1.5], "expected": [60.0]}
    return NullTable(rng.gamma(5, size=(200, 6, 2, 1)), about, 0, rng.normal(size=(200, 1)))


def test_tables_and_studies_know_a_statistic_without_width() -> None:
    """By name, in one column, alone or with others; a width of it cannot be asked for."""
    table = table_of(np.random.default_rng(1))
    assert table.names == ["single", "sum", "all", "one", "sat", "next", "scan"]
    assert table.scan is not None
    assert (table.statistic("scan") == table.scan).all()
    old = NullTable(table.t, table.about, 0)
    with pytest.raises(InputError, match="no statistic is called 'scan'"):
        old.statistic("scan")
    signal = table_of(np.random.default_rng(2))
    study = PowerStudy(table, {"s": signal})
    both = study.p_values(("all", "scan"), "s")
    columns = np.hstack([table.statistic("all"), table.scan])
    seen = np.hstack([signal.statistic("all"), signal.statistic("scan")])
    assert both.tolist() == [combined_p(t, columns, columns=(2, 1)) for t in seen]
    with pytest.raises(InputError, match="no width"):
        study.p_values(("all", "scan"), "s", width=0)


def test_verdicts_rank_all_their_columns_among_the_toys(tmp_path: Path) -> None:
    """`all` over its widths, and the scan: each counts once; the first verdict is the headline."""
    plan = plan_of()
    with thread_workers(1) as executor:
        made = calibrate(plan, TOYS, tmp_path / "n.null", executor)
    rng = np.random.default_rng(3)
    data = [Sample.from_array(expo1d.reference(int(n), rng)) for n in plan.expected]
    result = made.test(data)
    assert tuple(result.verdicts) == VERDICTS
    for names, verdict in result.verdicts.items():
        null = np.hstack([made.table.statistic(name) for name in names])
        t = np.concatenate([result.statistics[name].t for name in names])
        assert null.shape == (TOYS, 2 * len(names) - 1)
        assert verdict.p == combined_p(t, null, columns=[2] * (len(names) - 1) + [1])
    assert result.headline == ("all", "scan")
    assert result.pvalue == result.verdicts["all", "scan"].p
    assert result.statistic.shape == (3,)
    assert result.null_distribution.shape == (TOYS, 3)
    text = str(result)
    assert "all + scan" in text
    assert f"scan, t = {result.statistics['scan'].t[0]:.1f}" in text
    assert "sat + next + scan" in result._repr_html_()
    told = result.to_dict()
    assert list(told["verdicts"]) == ["all + scan", "sat + next + scan"]
    assert len(told["windows"]) == len(result.windows)


def test_a_verdict_sees_what_all_does_not(tmp_path: Path) -> None:
    """A narrow peak: the scan's p is below that of `all`, and the verdict follows it."""
    plan = plan_of()
    with thread_workers(1) as executor:
        made: Calibration = calibrate(plan, 60, tmp_path / "n.null", executor)
    rng = np.random.default_rng(5)
    data = [Sample.from_array(expo1d.reference(int(n), rng)) for n in plan.expected]
    peak = Sample.from_array(np.append(data[2].values, rng.normal(3.0, 0.01, 10))[:, None])
    result = made.test([*data[:2], peak])
    assert result.statistics["scan"].combined.p < result.statistics["all"].combined.p
    assert result.pvalue < result.statistics["all"].combined.p
    best = result.windows[0]
    assert best.kind == "excess"
    low, high = best.places[0].low, best.places[0].high
    assert low is not None
    assert high is not None
    assert low < 3.0 < high
    assert best.observed >= 10
    assert best.expected < 5


# -- where ----------------------------------------------------------------------------------------


def muons(count: int, rng: np.random.Generator) -> Sample:
    """Draw a momentum and an angle."""
    values = np.column_stack([rng.gamma(2, 20, count), rng.uniform(-np.pi, np.pi, count)])
    return Sample.from_array(values, ["pt", "phi"], periodic=["phi"])


def test_windows_are_told_in_columns_and_units() -> None:
    """A bump at pt 90, phi 2; beyond the reference a tail in pt; both with what they count."""
    rng = np.random.default_rng(6)
    reference = muons(20_000, rng)
    scaling = Scaling.learn(reference)
    scaled = scaling.apply(reference)
    grid = ScanGrid.choose(scaled, 800.0, rng)
    data = muons(800, rng).values
    bump = np.column_stack([rng.normal(90, 2, 30), rng.normal(2.0, 0.05, 30)])
    both = Sample.from_array(np.vstack([data, bump]), ["pt", "phi"], periodic=["phi"])
    summary = ScanSummary.empty(grid).add(scaling.apply(both), 800.0)
    found = windows_of(summary, scaling, [both], reference)
    place = {p.column: p for p in found[0].places}
    assert set(place) == {"pt", "phi"}
    for column, centre in (("pt", 90.0), ("phi", 2.0)):
        low, high = place[column].low, place[column].high
        assert low is not None
        assert high is not None
        assert abs((low + high) / 2 - centre) < high - low
    assert found[0].observed > found[0].expected + 20
    far = np.column_stack([rng.normal(400, 20, 10), rng.uniform(-3, 3, 10)])
    both = Sample.from_array(np.vstack([data, far]), ["pt", "phi"], periodic=["phi"])
    summary = ScanSummary.empty(grid).add(scaling.apply(both), 800.0)
    tail = windows_of(summary, scaling, [both], reference)[0]
    assert tail.shape == "tail"
    assert tail.places[0].column in ("pt", f"{DISTANCE} pt and phi")
    assert tail.observed >= 10
    edge = tail.places[0].low
    assert edge is not None
    if tail.places[0].column == "pt":
        assert tail.expected == pytest.approx(
            800 * np.mean(reference.values[:, 0] > edge), rel=1e-9
        )


def windows_in(
    data: Floats, reference: Sample, scaling: Scaling, grid: ScanGrid
) -> tuple[FoundWindow, ...]:
    """Scan one column of data where 1000 events are expected, and list the best windows."""
    sample = Sample.from_array(data, ["x"])
    summary = ScanSummary.empty(grid).add(scaling.apply(sample), 1000.0)
    return windows_of(summary, scaling, [sample], reference)


def test_windows_listed_do_not_lie_in_each_other() -> None:
    """Two bumps are two windows; the first is the stronger; counts are those of the balls."""
    rng = np.random.default_rng(8)
    reference = Sample.from_array(rng.random(20_000), ["x"])
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 1000.0, rng)
    data = np.concatenate(
        [rng.random(1000), rng.normal(0.3, 0.004, 40), rng.normal(0.7, 0.004, 30)]
    )
    found = windows_in(data, reference, scaling, grid)
    ends = [(w.places[0].low, w.places[0].high) for w in found[:2]]
    for window, centre in zip(found, (0.3, 0.7), strict=False):
        low, high = window.places[0].low, window.places[0].high
        assert low is not None
        assert high is not None
        assert abs((low + high) / 2 - centre) < 0.02
        assert window.observed == np.count_nonzero((data >= low) & (data <= high))
        known = reference.values[:, 0]
        share = np.mean((known >= low) & (known <= high))
        assert window.expected == pytest.approx(1000 * share, rel=1e-9)
        assert window.kind == "excess"
        assert window.signal > 10
    assert found[0].t > found[1].t
    assert len(set(ends)) == 2
    missing = data[np.abs(data - 0.5) > 0.1]
    gap = windows_in(missing, reference, scaling, grid)
    assert any(w.kind == "deficit" and w.signal < 0 for w in gap)


def test_a_wrong_rate_does_not_hide_a_peak() -> None:
    """Of 15 % more events than expected the widest windows tell; a peak is listed beside them."""
    rng = np.random.default_rng(8)
    reference = Sample.from_array(rng.random(20_000), ["x"])
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 1000.0, rng)
    data = np.concatenate([rng.random(1150), rng.normal(0.3, 0.004, 25)])
    found = windows_in(data, reference, scaling, grid)
    assert sum(window.expected > 500 for window in found) == 1
    peaks = [window.places[0] for window in found if window.expected < 100]
    assert any(
        p.low is not None and p.high is not None and p.low < 0.3 < p.high < p.low + 0.05
        for p in peaks
    )


@pytest.mark.parametrize("text", ["", "[{", "{}1", "7", "[7]", "[{}]", '[{"kind": "excess"}]'])
def test_windows_that_are_none(text: str) -> None:
    """What cannot be read is an error that says so, never no windows."""
    with pytest.raises(FormatError, match="windows of a scan cannot be read"):
        windows_from_json(text)
