"""The paper's experiments: verdicts, intervals, and what a run leaves behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from gofstream import settings
from gofstream.cli import cli
from gofstream.datasets import expo1d as data
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullTable, describe_null
from gofstream.inference.power import Difference, paired_difference
from gofstream.inference.study import PowerStudy
from gofstream.sample import Sample
from gofstream.settings import PRESETS, Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.sources import Simulator
from gofstream_studies.paper import claims, cmsl1, dimuon5d, expo1d, timing, trends
from gofstream_studies.paper.catalogue import EXPERIMENTS
from gofstream_studies.paper.claims import MARGIN
from gofstream_studies.paper.compare import LEVEL, Comparison, Strategy, powers_redrawn
from gofstream_studies.paper.experiment import Context
from gofstream_studies.paper.gallery import add, page

Floats = NDArray[np.float64]


@pytest.mark.parametrize(
    ("low", "high", "more", "less", "not_less"),
    [
        (0.01, 0.30, "holds", "does not hold", "holds"),
        (-0.30, -0.01, "does not hold", "holds", "does not hold"),
        (-0.04, 0.04, "does not hold", "does not hold", "holds"),
        (-0.20, 0.20, "not resolved", "not resolved", "not resolved"),
        (-0.04, 0.20, "not resolved", "does not hold", "holds"),
        (-0.20, 0.04, "does not hold", "not resolved", "not resolved"),
        (-0.04, -0.01, "does not hold", "holds", "holds"),
    ],
)
def test_verdicts(low: float, high: float, more: str, less: str, not_less: str) -> None:
    """Every way an interval can lie about zero and the margin of 0.05."""
    assert MARGIN == 0.05
    difference = Difference((low + high) / 2, low, high)
    assert claims.more(difference) == more
    assert claims.less(difference) == less
    assert claims.not_less(difference) == not_less


def slow_power(null: Floats, found: Floats) -> float:
    """Power, each signal toy ranked by hand against each null toy."""

    def least(t: Floats) -> int:
        return min(int(np.count_nonzero(null[:, k] >= t[k])) for k in range(null.shape[1]))

    merits = [least(t) for t in null]  # a null toy is among those it is compared with
    p = [(1 + sum(m <= 1 + least(t) for m in merits)) / (1 + len(null)) for t in found]
    return float(np.mean(np.array(p) <= LEVEL))


@pytest.mark.parametrize("columns", [1, 3])
def test_redrawn_powers_by_hand(columns: int) -> None:
    """A null in which toys occur several times is that null written out."""
    rng = np.random.default_rng(columns)
    null = rng.normal(size=(120, columns)).round(1)  # with ties
    found = rng.normal(1.5, 1, size=(40, columns)).round(1)
    draws = rng.multinomial(120, np.full(120, 1 / 120), size=4)
    fast = powers_redrawn(null, found, np.vstack([np.ones(120, dtype=np.int64), draws]))
    assert fast[0] == slow_power(null, found)
    for times, value in zip(draws, fast[1:], strict=True):
        assert value == slow_power(np.repeat(null, times, axis=0), found)


def test_redrawn_powers_are_those_of_the_pooled_ranks() -> None:
    """With every toy once, within three signal toys in 200 of the exact combination."""
    rng = np.random.default_rng(8)
    null, found = rng.normal(size=(400, 5)), rng.normal(1.2, 1, size=(200, 5))
    once = np.ones((1, 400), dtype=np.int64)
    for columns in ((5,), (4, 1), (2, 2, 1)):
        exact = np.mean([combined_p(t, null, columns=columns) <= LEVEL for t in found])
        assert abs(powers_redrawn(null, found, once, columns=columns)[0] - exact) <= 0.015


def table(t: Floats) -> NullTable:
    """Make a table in which `all` has given values at one width, after one batch."""
    full = np.zeros((len(t), len(STATISTICS), 1, 1))
    full[:, list(STATISTICS).index("all"), 0, 0] = t
    return NullTable(full, MappingProxyType({"widths": [1.0]}), 0)


def test_intervals_cover_the_true_difference() -> None:
    """Two tests of equal power, nulls of 200 toys: 95 % intervals hold zero in 90 % or more.

    120 repetitions, fixed seed. Without the uncertainty of the null they do so in 80 % at most.
    """
    rng = np.random.default_rng(11)
    covered = naive = 0
    for _ in range(120):
        null = rng.multivariate_normal([0, 0], [[1, 0.3], [0.3, 1]], size=200)
        found = rng.multivariate_normal([2, 2], [[1, 0.3], [0.3, 1]], size=150)
        compared = Comparison(
            {n: PowerStudy(table(null[:, n]), {"s": table(found[:, n])}) for n in (0, 1)}
        )
        first, second = Strategy("all", 0), Strategy("all", 1)
        found_difference = compared.difference(first, second, "s")
        covered += found_difference.low <= 0 <= found_difference.high
        without = paired_difference(
            compared.p_values(first, "s"), compared.p_values(second, "s"), LEVEL
        )
        naive += without.low <= 0 <= without.high
    assert covered >= 0.9 * 120
    assert naive <= 0.8 * 120


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder, with fewer widths, and samples far smaller than in the quick version."""
    two = {
        "expo1d": PRESETS["expo1d"].settings.changed(widths=(0.7, 3.0)),
        "dimuon5d": PRESETS["dimuon5d"].settings.changed(widths=(1.9, 4.4)),
    }
    fewer = {n: PRESETS[n].model_copy(update={"settings": s}) for n, s in two.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "PRESETS", dict(PRESETS) | fewer)
        patch.setattr(expo1d, "SHRINK", 40)
        patch.setattr(expo1d, "BATCHES", (1, 8))
        patch.setattr(dimuon5d, "BATCHES", (1, 4))
        patch.setattr(dimuon5d, "SHRINK", 40)
        patch.setattr(dimuon5d, "QUICK_REFERENCE", 2000)
        patch.setattr(dimuon5d, "QUICK_CENTRES", 100)
        patch.setattr(trends, "SIZES", (0.25, 1.0))
        patch.setattr(trends, "PENALTIES", (1e-6, 1e-3))
        small = cmsl1.Size(2000, 200.0, 100)
        alone = cmsl1.Size(2000, 150.0, 80, independent=True)
        patch.setattr(cmsl1, "SMALL", {"": small, "independent": alone})
        yield tmp_path_factory.mktemp("paper")


def run(name: str, folder: Path, *more: str) -> str:
    """Run a command as a user would; it must end well."""
    arguments = ["paper", name, "--toys", "20", "--out", str(folder), *more]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


#: All but the one that times fits of the paper's size, with what they share their toys with.
SMALL = [name for name in EXPERIMENTS if name != "time-per-batch"]


def toys(folder: Path) -> dict[Path, int]:
    """Tell which toys there are, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in (folder / "toys").rglob("*.null")}


@pytest.mark.filterwarnings("ignore::gofstream.errors.GofstreamWarning")
@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_leaves_pictures_and_numbers(name: str, out: Path) -> None:
    """PNG, PDF and strict JSON."""
    output = run(name, out)
    record = json.loads((out / f"{name}.json").read_text())
    assert record["size"] == "quick"
    assert record["seed"] == 1
    for claim in record["claims"]:
        assert claim["verdict"] in ("holds", "does not hold", "not resolved")
        if claim["low"] is not None and claim["high"] is not None:
            assert claim["low"] <= claim["value"] <= claim["high"]
    pictures = [path for path in out.glob(f"{name}*.png") if path.stat().st_size > 5000]
    assert pictures
    for picture in pictures:
        assert picture.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        assert picture.name in output.replace("\n", "")


@pytest.mark.filterwarnings("ignore::gofstream.errors.GofstreamWarning")
def test_toys_are_shared_and_used_again(out: Path) -> None:
    """After `expo1d-one`, another figure of the data set and a second run make no toys."""
    run("expo1d-one", out)
    made = toys(out)
    first = json.loads((out / "expo1d-one.json").read_text())
    run("expo1d-sat", out)
    run("expo1d-one", out)
    assert toys(out) == made
    assert json.loads((out / "expo1d-one.json").read_text())["numbers"] == first["numbers"]


@pytest.mark.filterwarnings("ignore::gofstream.errors.GofstreamWarning")
def test_the_penalty_of_a_smaller_reference(out: Path) -> None:
    """Of 5000 and 1250 rows: with the same λ, and with the same λ (N_R + N(R)), as eq. 2."""
    run("reference-size", out)
    found = []
    for path in (out / "toys").glob("expo1d-reference-*/**/null.null"):
        about, rows = describe_null(path), re.search(r"reference-(\d+)-", str(path))
        assert rows is not None
        found.append((int(rows[1]), about["penalty"], about["nominal_expected"]))
    assert {expected for *_, expected in found} == {50.0}
    assert sorted((rows, penalty) for rows, penalty, _ in found) == [
        (1250, 1e-6),
        (1250, pytest.approx(1e-6 * 5050 / 1300)),
        (5000, 1e-6),
    ]


def test_ideal_z_beside_the_paper(out: Path) -> None:
    """Bulk 5.5, broad 4.1, narrow 5.8, tail 5.1, excess 4.5, each within 0.1."""
    run("expo1d-data", out)
    record = json.loads((out / "expo1d-data.json").read_text())
    ours = {name: found["median_z"] for name, found in record["numbers"].items()}
    target = {"bulk": 5.5, "broad": 4.1, "narrow": 5.8, "tail": 5.1, "excess": 4.5}
    assert ours == pytest.approx(target, abs=0.1)
    verdicts = {claim["name"]: claim["verdict"] for claim in record["claims"]}
    assert verdicts["ideal Z of excess"] == "holds"
    assert verdicts["ideal Z of tail"] == "does not hold"


def test_every_experiment_is_listed() -> None:
    """With its command, what it shows and what it costs."""
    result = CliRunner().invoke(cli, ["paper", "list"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for name in EXPERIMENTS:
        assert name in result.output


def test_an_unknown_experiment_is_refused() -> None:
    """One message, with the nearest name."""
    result = CliRunner().invoke(cli, ["paper", "expo1d-al"])
    assert result.exit_code != 0
    assert "nearest: " in str(result.exception)
    assert "'expo1d-all'" in str(result.exception)


def small_case(context: Context) -> list[timing.Case]:
    """Take the place of the paper's sizes."""
    rng = np.random.default_rng(context.seed)
    return [
        timing.Case(
            "expo1d",
            Sample.from_array(data.reference(2000, rng)),
            Simulator(data.reference),
            Settings(widths=(0.7, 1.4), n_centres=50, penalty=1e-6),
            100.0,
        )
    ]


@pytest.mark.filterwarnings("ignore::gofstream.errors.GofstreamWarning")
def test_times_are_printed_beside_the_paper(tmp_path: Path) -> None:
    """One row for each width, positive times, and a verdict on the size of a batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "cases", small_case)
        patch.setattr(timing, "SIZES", (50, 100, 200, 400))
        output = run("time-per-batch", tmp_path)
    record = json.loads((tmp_path / "time-per-batch.json").read_text())
    rows = record["numbers"]["table"]
    assert [row["width"] for row in rows] == [0.7, 1.4]
    assert all(0 < row["in_block"] < 10 and 0 < row["alone"] < 10 for row in rows)
    assert output.count("0.5-1.5 s") == 2
    [claim] = record["claims"]
    assert claim["low"] <= claim["value"] <= claim["high"]


def test_a_gallery_shows_what_was_run(tmp_path: Path) -> None:
    """Pictures and numbers are copied; each section has its verdicts and its command."""
    run("schemes", tmp_path / "results")
    run("storage", tmp_path / "results")
    add(tmp_path / "results", tmp_path / "gallery", "abc1234")
    text = page(tmp_path / "gallery")
    assert "commit abc1234" in text
    assert (tmp_path / "gallery.md").read_text() == text
    assert "## storage\n" in text
    assert "`gofstream paper storage --quick --toys 20 --seed 1`" in text
    assert "| values of F that sat needs | holds |" in text
    for link in re.findall(r"\]\((gallery/[^)]+)\)", text):
        assert (tmp_path / link).stat().st_size > 100
    assert "(gallery/schemes-strategies.png)" in text
    assert re.search(r"\nNot run for this page: .*penalty", text)


def test_a_gallery_tables_verdicts_by_width(tmp_path: Path) -> None:
    """Claims on several signals and widths: a row for each signal, and both are counted apart."""
    run("storage", tmp_path)
    record = json.loads((tmp_path / "storage.json").read_text())
    rest = {"statement": "", "low": 0.0, "high": 0.0, "toys": 9}
    record["claims"] = [
        {"name": f"a beats b [{signal}, N_b = 4, {where}]", "verdict": said, "value": gain, **rest}
        for signal, where, said, gain in (
            ("bump", "smallest p of all widths", "holds", 0.213),
            ("bump", "σ = 1", "does not hold", -0.004),
            ("tail", "smallest p of all widths", "not resolved", 0.0),
            ("tail", "σ = 1", "holds", 0.5),
        )
    ]
    (tmp_path / "storage.json").write_text(json.dumps(record))
    add(tmp_path, tmp_path / "gallery", "abc1234")
    text = page(tmp_path / "gallery")
    assert "*a beats b*: 1 holds, 1 not resolved.\n" in text
    assert "\n\n| a beats b | smallest p of all widths | σ = 1 |\n|---|---|---|\n" in text
    assert "| bump, N_b = 4 | yes +0.21 | **no** -0.00 |\n" in text
    assert "| tail, N_b = 4 | ? +0.00 | yes +0.50 |\n" in text
