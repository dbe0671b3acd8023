"""The record of a result: its numbers by obvious computations, its file, and where it points."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.records import meaning

from gofstream import nplm_test, preset
from gofstream.datasets import expo1d
from gofstream.errors import ColumnError, FormatError
from gofstream.inference.result import TestResult
from gofstream.report.examine import examine
from gofstream.report.record import SCHEMA, Provenance, Record, schema
from gofstream.report.where import LEAST, Side, most_anomalous, regions
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]


@cache
def outcome() -> tuple[TestResult, Sample, Sample]:
    """Test 300 events with a bump against a weighted reference; the toys are few."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 1.5, size=4000)
    reference = Sample.from_array(
        rng.normal(size=(4000, 2)), ["a", "b"], units={"a": "GeV"}, weights=weights, name="mc"
    )
    bump = rng.normal([1.5, 0.0], 0.1, size=(30, 2))
    data = Sample.from_array(
        np.concatenate([rng.normal(size=(270, 2)), bump])[:, ::-1], ["b", "a"], name="data"
    )
    result = nplm_test(
        data,
        reference,
        expected=270,
        batches=3,
        settings=Settings(widths=(0.3, 1.0), n_centres=60),
        simulator=lambda n, rng: rng.normal(size=(n, 2)),
        n_resamples=32,
        rng=2,
    )
    return result, data, reference


def record(**options: Any) -> Record:
    """Examine it."""
    result, data, reference = outcome()
    return examine(result, data, reference, **options)


def slow_f(result: TestResult, a: float, b: float) -> float:
    """Evaluate F at one event, kernel by kernel, at the width where `all` has the smallest p."""
    k = min(range(len(result.widths)), key=lambda i: result.statistics["all"].p[i].p)
    total, exposure = 0.0, 0.0
    for model in result.learnt[k].models:
        scaling = model.scaling
        x = [(v - s) / w for v, s, w in zip((a, b), scaling.shift, scaling.scale, strict=True)]
        f = 0.0
        for centre, coefficient in zip(model.centres, model.coefficients, strict=True):
            square = sum((u - v) ** 2 for u, v in zip(x, centre, strict=True))
            f += coefficient * np.exp(-square / (2 * model.width**2))
        total += model.expected * np.exp(f)
        exposure += model.expected
    return float(np.log(total / exposure))


def test_verdict_and_statistics_are_those_of_the_result() -> None:
    """Every p, Z, interval and t appears as it is in the result."""
    result, _, _ = outcome()
    found = record(level=0.01)
    assert (found.pvalue, found.zscore) == (result.pvalue, result.zscore)
    assert (found.low, found.high) == result.interval
    assert found.batches == result.batches
    assert sum(found.batches) == found.observed == 300
    for name, statistic in result.statistics.items():
        written = found.statistics[name]
        assert [c.p for c in written.p] == [p.p for p in statistic.p]
        assert [c.law_p for c in written.p] == [p.law_p for p in statistic.p]
        assert [c.hits for c in written.p] == [p.hits for p in statistic.p]
        assert (written.combined.p, written.combined.high) == (
            statistic.combined.p,
            statistic.combined.high,
        )
        assert tuple(null.t for null in written.null) == statistic.t
        for k, null in enumerate(written.null):
            toys = result.null.statistic(name)[:, k]
            assert sum(null.counts) == len(toys) == found.toys
            assert (null.edges[0], null.edges[-1]) == (toys.min(), toys.max())
    assert found.anomalous == (result.pvalue <= 0.01)
    assert not record().anomalous


def test_columns_by_counting() -> None:
    """Events per bin, one event at a time, with weights and with e^F from single kernels."""
    result, data, reference = outcome()
    found = record()
    assert [(c.name, c.unit, c.fitted) for c in found.columns] == [
        ("a", "GeV", True),
        ("b", "", True),
    ]
    column = found.columns[0]
    edges = np.array(column.edges)
    bins = len(edges) - 1

    def which(x: float) -> int:
        return int(min(max(np.searchsorted(edges, x, side="right") - 1, 0), bins - 1))

    seen, known, learnt, squares = np.zeros(bins), np.zeros(bins), np.zeros(bins), np.zeros(bins)
    for a in data.values[:, 1]:  # the data have their columns the other way round
        seen[which(a)] += 1
    assert reference.weights is not None
    part = reference.weights / reference.weights.sum() * 270
    for (a, b), weight in zip(reference.values, part, strict=True):
        known[which(a)] += weight
        squares[which(a)] += weight**2
        learnt[which(a)] += weight * np.exp(slow_f(result, a, b))
    assert list(column.data) == seen.tolist()
    np.testing.assert_allclose(column.reference, known, rtol=1e-9)
    np.testing.assert_allclose(column.reference_error, np.sqrt(squares), rtol=1e-9)
    np.testing.assert_allclose(column.learnt, learnt, rtol=1e-6)


def sides() -> tuple[Side, Side]:
    """Make events with any F."""
    rng = np.random.default_rng(3)
    f, f_reference = rng.normal(0.1, 1, size=80), rng.normal(0, 1, size=500)
    weights = rng.uniform(0, 0.3, size=500)
    return (
        Side({"x": rng.normal(size=80), "y": rng.normal(f)}, np.ones(80), f),
        Side({"x": rng.normal(size=500), "y": rng.normal(f_reference)}, weights, f_reference),
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_region_by_trying_every_threshold(sign: int) -> None:
    """No threshold at an event makes observed and expected numbers disagree more.

    The thresholds tried are a grid, so the best of all may be better by a little: 2 %. With the
    sign of F turned, and weights so large that data are missing, the region is a deficit.
    """
    data, reference = sides()
    weights = reference.weights * (1 if sign > 0 else 2)
    data, reference = (
        replace(data, f=sign * data.f),
        replace(reference, f=sign * reference.f, weights=weights),
    )
    best = 0.0
    for kind in (1, -1):
        for bound in np.concatenate([data.f, reference.f]):
            seen = np.count_nonzero(kind * data.f >= kind * bound)
            known = weights[kind * reference.f >= kind * bound].sum()
            floor = max(known, weights.max())
            if kind * (seen - floor) > 0 and max(seen, known) >= LEAST:
                log = seen * np.log(seen / floor) if seen else 0.0
                best = max(best, 2 * (log - (seen - floor)))
    (region,) = regions(data, reference, {"x": "GeV"})
    floor = max(region.expected, weights.max())
    reached = 2 * (region.observed * np.log(region.observed / floor) - (region.observed - floor))
    assert 0.98 * best <= reached <= best * (1 + 1e-9)
    assert region.kind == ("excess" if sign > 0 else "deficit")
    kind = 1 if region.kind == "excess" else -1
    bound = kind * np.log(region.ratio) - 1e-9
    assert region.observed == np.count_nonzero(kind * data.f >= bound)
    inside = kind * reference.f >= bound
    assert region.expected == pytest.approx(weights[inside].sum())
    # y follows F, x does not: y sets the region apart.
    assert [each.column for each in region.ranges] == ["y", "x"]
    assert region.ranges[1].unit == "GeV"
    shown = data.table["y"][kind * data.f >= bound] if kind > 0 else reference.table["y"][inside]
    assert region.ranges[0].median in shown
    assert shown.min() <= region.ranges[0].low <= region.ranges[0].quarter
    assert region.ranges[0].quarter <= region.ranges[0].median <= region.ranges[0].three_quarters
    assert region.ranges[0].three_quarters <= region.ranges[0].high <= shown.max()


def test_unweighted_ranges_are_quantiles() -> None:
    """Of the events of the region, to within one of them."""
    data, reference = sides()
    (region,) = regions(data, reference, {})
    assert region.kind == "excess"
    inside = np.sort(data.table["y"][data.f >= np.log(region.ratio) - 1e-9])
    found = region.ranges[0]
    for level, value in ((0.05, found.low), (0.5, found.median), (0.95, found.high)):
        below = np.count_nonzero(inside <= value) / len(inside)
        assert level <= below <= level + 1 / len(inside) + 1e-12


@pytest.mark.parametrize(("period", "first"), [(2 * np.pi, -0.5), (360.0, 0.0), (24.0, -0.5)])
@pytest.mark.parametrize("middle", [0.5, 0.1, 0.0])
def test_ranges_of_a_periodic_column(period: float, first: float, middle: float) -> None:
    """A hundred events near one angle: the quantiles around it, and never the rest of the turn."""
    rng = np.random.default_rng(7)

    def turned(values: Floats) -> Floats:
        return (values - first * period) % period + first * period

    near = rng.uniform(-0.02, 0.02, 100)
    phi = turned((middle + np.append(near, rng.uniform(-0.5, 0.5, 400))) * period)
    f = np.append(np.full(100, 2.0), rng.normal(0, 0.1, 400))
    data = Side({"x": rng.normal(size=500), "phi": phi}, np.ones(500), f)
    everywhere = turned(rng.uniform(0, 1, 4000) * period)
    reference = Side(
        {"x": rng.normal(size=4000), "phi": everywhere},
        np.full(4000, 0.1),
        rng.normal(0, 0.1, 4000),
    )
    (region,) = regions(data, reference, {}, {"phi": period})
    assert region.observed == 100
    found = region.ranges[0]
    assert found.column == "phi"
    names = ("low", "quarter", "median", "three_quarters", "high")
    for name, level in zip(names, (0.05, 0.25, 0.5, 0.75, 0.95), strict=True):
        end = getattr(found, name)
        assert first * period <= end <= (first + 1) * period
        away = ((end / period - middle) + 0.5) % 1 - 0.5
        assert away == pytest.approx(np.sort(near)[int(level * 100)], abs=2e-3)
    inside = (
        (phi >= found.low) & (phi <= found.high)
        if found.low <= found.high
        else (phi >= found.low) | (phi <= found.high)
    )
    assert 90 <= np.count_nonzero(inside[:100]) <= 92
    assert np.count_nonzero(inside) < 130


def test_most_anomalous_events() -> None:
    """Those of largest F, in order, with all their columns; a gap is a gap."""
    data, _ = sides()
    first = int(np.argmax(data.f))
    data.table["x"][first] = np.nan
    found = most_anomalous(data)
    assert found.rows[0] == first
    assert found.values[0] == (None, data.table["y"][first])
    assert len(found.rows) == 20
    assert found.ratios == tuple(sorted(np.exp(data.f).tolist(), reverse=True)[:20])


def test_where_finds_a_narrow_peak() -> None:
    """0.6 % of signal at x = 4.0 in EXPO-1D: found, and named to 0.1, as the issue asks."""
    rng = np.random.default_rng(5)
    study = preset("expo1d")
    reference = Sample.from_array(expo1d.reference(100_000, rng), ["x"])
    signal = replace(expo1d.SIGNALS["narrow"], fraction=6e-3)
    data = Sample.from_array(np.concatenate(expo1d.batches(16_000, 4, rng, signal)), ["x"])
    result = nplm_test(
        data,
        reference,
        expected=16_000,
        batches=4,
        settings=study.settings.changed(widths=(0.1, 0.3), n_centres=500),
        simulator=expo1d.reference,
        n_resamples=32,
        rng=1,
    )
    found = examine(result, data, reference)
    assert found.pvalue <= 4 / 33
    (region,) = found.regions
    assert region.kind == "excess"
    assert abs(region.ranges[0].median - 4.0) < 0.1
    assert region.observed > 3 * region.expected
    assert all(abs(value - 4.0) < 0.1 for (value,) in found.events.values if value is not None)


def test_carried_columns_are_shown_and_not_fitted() -> None:
    """They need a partner in the reference; gaps in them are left out."""
    _, data, reference = outcome()
    mass = np.hypot(data.values[:, 0], data.values[:, 1])
    mass[:4] = np.nan
    beside = np.hypot(reference.values[:, 0], reference.values[:, 1])
    found = record(carried=({"mass": mass}, {"mass": beside, "other": beside}))
    assert [(c.name, c.fitted) for c in found.columns][2] == ("mass", False)
    assert len(found.columns) == 3
    assert sum(found.columns[2].data) == 296
    assert found.events.columns == ("a", "b", "mass")
    assert len(found.regions[0].ranges) == 3
    with pytest.raises(ColumnError, match=r"no column 'mass'.*known: 'm'"):
        record(carried=({"mass": mass}, {"m": beside}))


def test_pair_by_counting() -> None:
    """Cells hold the events between their edges; those beyond are in the outermost."""
    _, data, _ = outcome()
    pair = record().pair
    assert pair is not None
    assert {pair.x, pair.y} == {"a", "b"}
    assert sum(map(sum, pair.data)) == 300
    assert sum(map(sum, pair.reference)) == pytest.approx(270)
    table = {name: data.values[:, j] for j, name in enumerate(data.columns)}
    x, y = table[pair.x], table[pair.y]
    i, j = 9, 14
    inside = (x >= pair.x_edges[j]) & (x < pair.x_edges[j + 1])
    inside &= (y >= pair.y_edges[i]) & (y < pair.y_edges[i + 1])
    assert pair.data[i][j] == np.count_nonzero(inside)


def test_storage_and_diagnostics() -> None:
    """`sat` keeps models, `all` the data too; widths tell how their fits went."""
    result, _, _ = outcome()
    found = record()
    models = sum(len(m.to_bytes()) for at in result.learnt for m in at.models)
    assert found.storage["sat"] == found.storage["next"] == models
    assert found.storage["all"] == models + 300 * 2 * 8
    assert found.storage["one"] == models + found.batches[0] * 2 * 8
    assert [width.width for width in found.widths] == [0.3, 1.0]
    assert all(len(w.passes) == len(w.uncovered) == len(w.converged) == 3 for w in found.widths)
    assert all(all(width.converged) for width in found.widths)
    assert min(min(width.passes) for width in found.widths) > 0


def test_file_round_trip_and_schema(tmp_path: Path) -> None:
    """What is written is read back alike, follows the schema, and the schema is the one shipped."""
    made_with = Provenance(
        made="2026-11-16T12:00:00Z",
        seconds=1.5,
        command=("gofstream", "test"),
        seed=1,
        settings={"widths": [0.3]},
        versions={"numpy": "2"},
        files=(),
    )
    found = record(provenance=made_with, title="<b>x</b>")
    found.save(tmp_path / "result.json")
    assert Record.load(tmp_path / "result.json") == found
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert meaning(published) == meaning(json.loads(schema())), "write schema() to SCHEMA"
    shipped = json.loads(schema())
    written = json.loads((tmp_path / "result.json").read_text())
    jsonschema.validate(written, shipped)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written | {"pvalue": 0}, shipped)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "is not JSON"),
        (lambda text: text[:-100], "is not JSON"),
        (lambda text: "[" * 100_000, "is not JSON"),
        (lambda text: "[]", "is not a gofstream result"),
        (lambda text: text.replace("gofstream.result", "other"), "is not a gofstream result"),
        (lambda text: text.replace('"version": 3', '"version": 4'), "has version 4.*newer"),
        (lambda text: text.replace('"observed"', '"seen"', 1), "does not follow the schema"),
        (lambda text: text.replace('"toys": 32', '"toys": -1'), r"schema: toys: .*greater than"),
        (lambda text: text.replace('"toys": 32', '"toys": 32, "more": 1'), "more: Extra"),
    ],
)
def test_damaged_files(tmp_path: Path, change: Any, message: str) -> None:
    """Each is refused with its name and what is wrong."""
    path = tmp_path / "result.json"
    path.write_text(change(record().model_dump_json(indent=1)))
    with pytest.raises(FormatError, match=message) as caught:
        Record.load(path)
    assert str(path) in str(caught.value)


def test_nothing_half_written(tmp_path: Path) -> None:
    """A folder that cannot hold the file stays as it was."""
    with pytest.raises(OSError, match="absent"):
        record().save(tmp_path / "absent" / "result.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        record().save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
