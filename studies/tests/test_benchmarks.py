"""The benchmarks: a baseline that is right, points that are kept, and pages that say what is so."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gofstream.datasets import expo1d
from gofstream.ratio import centres
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit
from gofstream.settings import Settings
from gofstream.toys.forecast import Wanted
from gofstream_studies.benchmarks import at_scale, plan, rank, report, roofline, scale
from gofstream_studies.benchmarks.at_scale import LAWS, Shape
from gofstream_studies.benchmarks.points import Points, Remaining, read_lines
from gofstream_studies.benchmarks.textbook import Textbook


@pytest.mark.parametrize("width", [0.3, 0.7])
def test_textbook_and_solver_find_the_same_minimum(width: float) -> None:
    """Two programs that share no code agree on t to 0.5 % (the textbook's jitter)."""
    rng = np.random.default_rng(7)
    reference = expo1d.reference(20_000, rng)
    centres = reference[:120]
    batch = expo1d.toy(1000.0, rng, expo1d.SIGNALS["bulk"], fraction=0.1)
    base = Textbook(reference, centres, width, 1e-5, 1000.0).fit(batch, 1e-6)
    features = prepare(
        reference, centres, width, penalty=1e-5, expected=1000.0, precision="float64"
    )
    ours = fit(features, [batch], [1000.0])
    assert base.relative_gradient < 1e-4
    assert ours.t[0] > 50
    assert ours.t[0] == pytest.approx(base.t, rel=5e-3)


def test_points_are_measured_once(tmp_path: Path) -> None:
    """What is kept is not measured again, unless for another shape or only half written."""
    path, measured = tmp_path / "out" / "points.jsonl", list[int]()

    def ask(shape: int) -> dict[str, Any]:
        def measure() -> dict[str, Any]:
            measured.append(shape)
            return {"found": 10 * shape}

        return Points(path).measured("a", {"n": shape}, measure)

    assert ask(1) == ask(1) == {"name": "a", "shape": {"n": 1}, "found": 10}
    assert measured == [1]
    with path.open("a") as file:
        file.write('{"name": "b", "sha')  # killed here
    assert ask(1)["found"] == 10
    assert ask(2)["found"] == 20
    assert measured == [1, 2]
    assert read_lines([path]) == {"a": {"name": "a", "shape": {"n": 2}, "found": 20}}


TINY = Shape(6000, 2, 3, 200.0, 100, 30, memory=10**8)


def test_points_of_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows stored or made as asked, about the rank wanted, and the run goes on where it was."""
    made, stored = (
        at_scale.measure(TINY),
        at_scale.measure(Shape(**asdict(TINY) | {"stored": None})),
    )
    assert (made["rows"], stored["rows"]) == ("made", "stored")
    assert made["rank"] == stored["rank"] == pytest.approx(30, abs=3)
    assert made["passes"] == pytest.approx(stored["passes"], abs=1)
    assert made["converged"] is stored["converged"] is True
    little = replace(TINY, stored=None, memory=4 * 6000 * 30)
    features, _ = at_scale._features(little, *at_scale._events(little)[:2], made["width"])
    assert features.made is not None
    assert features.n_reference == 6000
    case = Shape(5000, 1, 2, 100.0, 50, None, 0.7, True, 10**9, "expo1d")
    reference, candidates, batches = at_scale._events(case)
    assert (reference.shape, candidates.shape, len(batches)) == ((5000, 1), (50, 1), 2)
    asked: list[Shape] = []
    monkeypatch.setattr(at_scale, "_yardsticks", lambda: {"gflops32": 1.0})
    monkeypatch.setattr(at_scale, "in_fresh_process", lambda work, shape: asked.append(shape) or {})
    for laws in ({"fits": {"1": TINY}}, {"fits": {"1": TINY}, "case": {"x": case}}):
        at_scale.run(tmp_path / "points.jsonl", laws)
    assert asked == [TINY, case]
    assert list(read_lines([tmp_path / "points.jsonl"])) == ["at_scale.fits.1", "at_scale.case.x"]


def line_of(law: str, at: str, shape: Shape, slope: float = 1.0) -> dict[str, Any]:
    """Make up a point whose time grows with N_R as N_R to this power."""
    rank = shape.rank or 100
    return {
        "name": f"at_scale.{law}.{at}",
        "shape": asdict(shape),
        "gflops32": 100.0,
        "gflops64": 50.0,
        "bandwidth": 10.0,
        "width": shape.width or 1.0,
        "rank": rank,
        "rows": "stored" if shape.stored or shape.n_reference < 10**6 else "made",
        "passes": [4] * shape.fits,
        "reduce_seconds": 1.0,
        "block_seconds": shape.n_reference**slope * shape.fits * rank * 1e-9,
        "taken": shape.memory // 2,
    }


def test_flops_and_bytes() -> None:
    """Against a count, event by event, of what a pass does."""
    shape = Shape(7, 3, 2, 50.0, 20, 5)
    for rows in ("made", "stored"):
        line = line_of("x", "y", shape) | {"rows": rows, "passes": [2, 3]}
        counted = moved = 0
        for number in range(3):
            live = [fit for fit, passes in enumerate(line["passes"]) if number < passes]
            for _ in range(7):
                moved += 5 * 4 if rows == "stored" else 3 * 8
                for _ in range(5):
                    counted += 2 * (3 + 2) + 20 if rows == "made" else 0
                    counted += sum(2 + 2 for _ in live)
                counted += sum(20 + 6 for _ in live)
        assert roofline.flops(line) == counted
        assert roofline.moved(line) == moved
    # 5 centres in 4 bytes each, two fits: 92 flops for 20 bytes at 10 GB/s, below the peak.
    line = line_of("x", "y", shape) | {"rows": "stored", "passes": [1, 1]}
    assert roofline.roof(line) == pytest.approx(10 * 92 / 20)
    assert roofline.roof(line | {"bandwidth": 1e3}) == 100.0
    assert roofline.roof(line | {"bandwidth": 1e3, "rows": "made"}) == 50.0


def measured(slope: float) -> dict[str, dict[str, Any]]:
    """Make up all points."""
    made = (line_of(law, at, s, slope) for law, shapes in LAWS.items() for at, s in shapes.items())
    return {line["name"]: line for line in made}


@pytest.mark.parametrize(("slope", "verdict"), [(0.9, "that is met"), (1.2, "that is **not** met")])
def test_section_on_scale(slope: float, verdict: str) -> None:
    """Exponents as they are, a verdict that follows them, and nothing before all is measured."""
    lines = measured(slope)
    text = roofline.section(lines)
    assert f"| 100k to 10M | {slope:.2f} | {slope:.2f} | {slope:.2f} |" in text
    assert verdict in text
    assert "It stays within the budget" in text
    assert "| CMS-L1-24D, width 10.5, N_R = 1M | 20 |" in text
    lines["at_scale.budget.1000000"]["taken"] *= 3
    assert "It **exceeds** the budget" in roofline.section(lines)
    del lines["at_scale.case.cmsl1 10.5 20"]
    assert "Not measured yet" in roofline.section(lines)


def test_page_on_performance(tmp_path: Path) -> None:
    """All lines of a run into the page; every picture of it that this draws is there."""
    path, page = tmp_path / "lines.jsonl", tmp_path / "performance.md"
    detail = {
        "cpu": "A Processor", "passes": 3, "rank": 9, "seconds_per_fit": 0.1,
        "t_over_textbook": 1.0, "t_over_finest": [1.0] * 5,
    }  # fmt: skip
    names = ["machine.gemm_peak", "machine.gemv_bandwidth", "machine.scaling", "farm.overhead"]
    names += ["farm.scaling", "farm.dask_vs_threads"]
    names += [f"growth.{law}" for law in ("reference", "batch", "rank", "fits", "batches")]
    lines = [{"name": name, "value": 1.0, "detail": detail} for name in names]
    for problem, widths in (("expo1d", report.EXPO), ("dimuon5d", report.DIMUON)):
        for width in widths:
            for what in (
                "textbook", "fit.block32.vs_textbook", "fit.alone.vs_textbook", "prepare",
                "fit.block32.gemm_fraction", "reduction",
            ):  # fmt: skip
                more = {"rank": [9] * 5} if what == "reduction" else {}
                name = f"{problem}.{what}.sigma={width}"
                lines.append({"name": name, "value": 1.0, "detail": detail | more})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report.main([path], page, tmp_path)
    assert "this machine: A Processor, float32" in page.read_text()
    before = page.read_text()
    assert "Not measured yet on this machine" in before
    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps(line) + "\n" for line in measured(1.0).values()))
    report.main([more], page, tmp_path)
    assert "Not measured yet on this machine" not in page.read_text()
    empty = {"at_scale": roofline.section({})}  # what else is on the page has stayed
    assert report.filled(page.read_text(), empty) == before
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert len(drawn) == 7
    assert all(f"(performance/{name})" in page.read_text() for name in drawn)


def test_how_long_the_rest_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """A quarter of the cost took a minute: three are left."""
    remaining = Remaining([2.0, 1.0, 5.0])
    remaining.done()
    assert remaining.text(60.0) == "1 of 3, about 3.0 min left"
    assert " 1 of 3, about " in capsys.readouterr().err
    watch = scale.Watch(1000, 5.0)
    watch.count(2000)
    assert watch.text(30.0).endswith("2.00 of about 5, one in 15 s, about 45 s left")


def test_the_paper_size_when_small(tmp_path: Path) -> None:
    """Rows made, within the budget; a second run measures nothing, and the words follow."""
    out = tmp_path / "scale.jsonl"
    for _ in range(2):
        scale.run(200_000, 300.0, 1, centres=60, memory=70_000_000, out=out)
    (line,) = read_lines([out]).values()
    assert len(out.read_text().splitlines()) == 1
    assert line["rows"] == "made"
    assert line["fits"] == 30
    assert 2 < line["passes"] < 20
    assert line["unconverged"] == 0
    assert np.shape(line["t"]) == (6, 6)
    fast = line | {"seconds": 50.0 * line["fits"], "peak": 77_000_000}
    text = scale.section({"scale.round.0": fast})
    assert "**50 s for the fit of a batch**" in text
    assert text.count("is met") == 2
    slow = fast | {"seconds": 70.0 * line["fits"], "peak": 78_000_000}
    assert scale.section({"scale.round.0": slow}).count("is **not** met") == 2


def test_power_against_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finer tolerance and more candidates leave more centres; what is known is not made again."""
    tolerances, ladder = (0.1, 1e4), (50, 100)
    for name, value in {"CANDIDATES": 100, "THROUGHOUT": 100, "TOLERANCES": tolerances}.items():
        monkeypatch.setattr(rank, name, value)
    monkeypatch.setattr(centres, "COARSE_RANK", 40)
    out, picture = tmp_path / "rank.jsonl", tmp_path / "rank.png"
    for _ in range(2):
        rank.run(out, picture, toys=(32, 32), tolerances=tolerances, ladder=ladder, expected=200.0)
    lines = read_lines([out])
    assert len(out.read_text().splitlines()) == len(lines) == 8
    for case in ("dimuon5d", "cmsl1"):
        default, coarse, few, finer = (
            lines[f"rank.{case}.tolerance={model}"]
            for model in (
                "0.1.candidates=100",
                "10000.candidates=100.beyond=10000",
                "0.1.candidates=50",
                "0.1.candidates=100.beyond=0.1",
            )
        )
        assert finer["rank"] >= default["rank"] > max(coarse["rank"], few["rank"])
        assert default["mean"] > 0
        assert default["low"] <= default["power"] <= default["high"]
    assert picture.stat().st_size > 10_000
    assert rank.section(lines).count("| CMS-L1-24D |") == 4


def test_what_a_coarser_model_loses() -> None:
    """The same toys: nothing between equal models; a loss where t of the signal toys is lower."""
    rng = np.random.default_rng(1)
    null, signal = rng.normal(size=200), rng.normal(3, 1, size=100)
    finer = {"t": {"null": null.tolist(), "signal": signal.tolist()}}
    same = rank.loss(finer, finer)
    assert same.low <= same.value == 0 <= same.high
    blind = {"t": {"null": null.tolist(), "signal": (signal - 2).tolist()}}
    lost = rank.loss(blind, finer)
    threshold = np.sort(null)[-4]
    right = np.mean(signal - 2 > threshold) - np.mean(signal > threshold)
    assert lost.value == pytest.approx(right)
    assert lost.low < lost.value < lost.high < 0


def test_predictions_beside_runs(tmp_path: Path) -> None:
    """A run and its forecast; the verdict is that of the worst."""
    out, case = tmp_path / "plan.jsonl", (Wanted(3000, 400.0, 1, 2, 4, 1), Settings(n_centres=30))
    plan.run(out, {"tiny": case})
    (line,) = read_lines([out]).values()
    assert line["predicted"] > 0
    assert line["real"] > 0
    good, bad = line | {"predicted": 14.0, "real": 10.0}, line | {"predicted": 10.0, "real": 16.0}
    assert "factor 1.40; at most 1.5 was wanted, which is met" in plan.section({"plan.a": good})
    both = plan.section({"plan.a": good, "plan.b": bad})
    assert "factor 1.60; at most 1.5 was wanted, which is **not** met" in both
