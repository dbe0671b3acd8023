"""The scripts behind the tables of reach, in miniature, and their judgement on made-up toys."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d as data
from gofstream.execution import thread_workers
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullTable
from gofstream.inference.study import PowerStudy
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.sources import Injected, Simulator
from gofstream_studies.benchmarks import location, reach, reach_page
from gofstream_studies.paper import expo1d
from gofstream_studies.paper.compare import LEVEL
from gofstream_studies.paper.experiment import Context, strict
from gofstream_studies.paper.splits import Splits

Floats = NDArray[np.float64]


def toys(count: int, seed: int, *, scan: float = 0.0, widths: float = 0.0) -> NullTable:
    """Make up toys at two widths, moved by so much in the scan and in the other statistics."""
    rng = np.random.default_rng(seed)
    t = rng.normal(size=(count, 6, 2, 1)) + widths
    about = {"widths": [0.4, 1.5], "expected": [60.0]}
    return NullTable(t, about, 0, rng.normal(size=(count, 1)) + scan)


def test_gains_are_differences_of_power() -> None:
    """What only the scan sees is gained, what only the others see is lost a little."""
    study = PowerStudy(
        toys(400, 1), {"peak": toys(150, 2, scan=4.0), "broad": toys(150, 3, widths=3.0)}
    )
    found = {(gain.signal, gain.verdict): gain for gain in reach.gains(study)}
    assert len(found) == 4
    for (signal, _), gain in found.items():
        powers = []
        for names in (gain.verdict.split(" + "), gain.instead_of.split(" + ")):
            null = np.hstack([study.null.statistic(name) for name in names])
            seen = np.hstack([study.signals[signal].statistic(name) for name in names])
            columns = [1 if name == "scan" else 2 for name in names]
            p = [combined_p(t, null, columns=columns) for t in seen]
            powers.append(np.mean(np.array(p) <= LEVEL))
        assert gain.difference.value == pytest.approx(powers[0] - powers[1])
    assert found["peak", "all + scan"].in_sd > 3
    assert found["peak", "all + scan"].not_inferior
    assert not found["broad", "all + scan"].in_sd > 3
    worse = PowerStudy(toys(400, 1), {"none": toys(150, 2, widths=2.0, scan=-9.0)})
    assert not all(gain.not_inferior for gain in reach.gains(worse))


def small(context: Context) -> Splits:
    """Plan a small study of three strong peaks."""
    nominal = Simulator(data.reference)
    return Splits(
        name="expo1d",
        reference=Sample.from_array(data.reference(3000, np.random.default_rng(context.seed))),
        nominal=nominal,
        nominal_name="the exact simulator",
        alternatives={
            name: Injected(nominal, Simulator(data.SIGNALS[name].draw), 0.15)
            for name in location.PEAKS
        },
        expected=400.0,
        settings=dict.fromkeys((1, 2), Settings(widths=(0.4, 1.5), n_centres=40, one_step=True)),
        toys=(39, 8),
    )


def first(table: NullTable, count: int) -> NullTable:
    """Leave out toys beyond the first so many."""
    assert table.scan is not None
    assert len(table.t) >= count
    return NullTable(table.t[:count], table.about, 0, table.scan[:count])


def by_name(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Sort by the name of the signal, as files are."""
    return sorted(rows, key=lambda row: str(row["signal"]))


def test_a_study_in_miniature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Toys are made once for both scripts; peaks of 60 events are found where they are."""
    monkeypatch.setattr(expo1d, "splits", small)
    monkeypatch.setattr(
        expo1d, "strengths", lambda _: {name: data.SIGNALS[name] for name in location.PEAKS}
    )
    monkeypatch.setattr(location, "HIGH", 0.05)
    blocks: list[list[int]] = []

    def bars(what: str) -> nullcontext[object]:
        blocks.append([])
        return nullcontext(lambda done, total: blocks[-1].append(done))

    with thread_workers(1) as executor:
        context = Context(False, None, tmp_path, 1, executor, bars)  # type: ignore[arg-type]
        reach.RUNS["expo1d"](context)
        reach.RUNS["location"](context)
    assert [len(done) for done in blocks] == [blocks[0][-1] + 1, 1]
    content = json.loads((tmp_path / "reach-expo1d.json").read_text())
    assert content["null_toys"] == 39
    assert len(content["powers"]) == 3 * len(reach.TESTS)
    assert all(row["median Z of the ideal test"] > 0 for row in content["powers"])
    assert len(content["gains"]) == 6
    found = json.loads((tmp_path / "location.json").read_text())
    for name in location.PEAKS:
        assert len(found[name]["toys"]) == 8
    for name in ("narrow", "bulk"):  # where 600 rows have no bump, a tail is found
        true = found[name]["true"]
        assert sum(location.Located(**each).at(true) for each in found[name]["toys"]) >= 6
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines[-3:]] == [f"location.{name}" for name in location.PEAKS]
    assert lines[-3]["detail"]["toys"] == 8
    for line, name in zip(lines[-3:], location.PEAKS, strict=True):
        hits = sum(location.Located(**each).at(found[name]["true"]) for each in found[name]["toys"])
        assert line["value"] == pytest.approx(hits / 8, rel=1e-3)

    kept = reach.kept_study(next(tmp_path.rglob("null.null")).parent)
    assert set(kept.signals) == set(location.PEAKS)
    kept = PowerStudy(
        first(kept.null, 39), {name: first(table, 8) for name, table in kept.signals.items()}
    )
    assert strict(reach.table(kept, {})) == [
        row | {"median Z of the ideal test": None} for row in by_name(content["powers"])
    ]

    page = tmp_path / "page.md"
    page.write_text(
        "<!-- begin power --><!-- end power --><!-- begin location --><!-- end location -->"
    )
    reach_page.main(tmp_path, "abc1234", page)
    written = page.read_text()
    for row in content["powers"]:
        if row["test"] == "all + scan":
            power = row["power at 2 sigma"]
            interval = f"({power['low']:.2f} to {power['high']:.2f})"
            line = next(x for x in written.splitlines() if x.startswith(f"| {row['signal']} |"))
            assert line.startswith(f"| {row['signal']} | {power['value']:.2f} {interval} |")
            z = f"{row['median Z']['value']:.1f} or more"
            assert line.endswith(f"| {z} | {row['median Z of the ideal test']:.1f} |")
    assert "39 toys without and 8 with each signal, commit abc1234" in written
    assert "| narrow | 8 | " in written
    assert written.count("not run yet") == 3
    assert json.loads((tmp_path / "page" / "location.json").read_text())["commit"] == "abc1234"
    (tmp_path / "location.json").write_text(json.dumps(found | {"narrow": found["bulk"]}))
    reach_page.main(tmp_path, "def5678", page)
    assert "8 with each signal, commit abc1234" in page.read_text()
    assert json.loads((tmp_path / "page" / "location.json").read_text())["commit"] == "def5678"


def test_marks_of_gains() -> None:
    """Bold beyond three standard deviations; a mark where a loss is not excluded."""
    difference = {"value": 0.3, "low": 0.2, "high": 0.4}
    gain = {"difference": difference, "sd": 5.9, "not_inferior": True}
    assert reach_page._gain(gain) == "**+0.30** (+0.20 to +0.40)"
    assert reach_page._gain(gain | {"sd": 2.0, "not_inferior": False}).endswith("+0.40) !")


def test_a_tail_has_no_centre() -> None:
    """It is no miss that is forgiven."""
    assert not location.Located(0, 9.0, None, None).at(4.0)
    assert location.Located(0, 9.0, 4.05, 0.05).at(4.0)
    assert not location.Located(0, 9.0, 4.06, 0.05).at(4.0)
