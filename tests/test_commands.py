"""`calibrate`, `test`, `power`, `report` and `inspect`, as a user types them."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from gofstream import nplm_test
from gofstream.analysis import _title
from gofstream.cli import main
from gofstream.cli.reference import page
from gofstream.errors import GofstreamWarning
from gofstream.execution import thread_workers
from gofstream.inference.study import power_study
from gofstream.io import read
from gofstream.nplm import plan_null
from gofstream.ratio.learner import Learner
from gofstream.report.examine import examine
from gofstream.report.record import Record
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.sources import Pool

Floats = NDArray[np.float64]
#: Small and quick: a reference large enough to set a pool aside for 150 events.
QUICK = ["--set", "widths=[0.5, 1.5]", "--set", "n_centres=25", "--toys", "19", "--quiet"]


class Typed:
    """Type a command, in a folder; see its exit code and what it printed."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self.patch, self.capture = folder, patch, capture
        patch.chdir(folder)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run the command line as the installed script does, which shows warnings."""
        self.patch.setattr(sys, "argv", ["gofstream", *words])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", GofstreamWarning)
                main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        out, err = self.capture.readouterr()
        return code, out, err


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Make files to work with: reference, data with a bump, signal; `m` is there to be carried."""
    rng = np.random.default_rng(1)

    def write(name: str, values: Floats, **more: Floats) -> None:
        columns = {"a": values[:, 0], "b": values[:, 1], "m": np.hypot(values[:, 0], values[:, 1])}
        pq.write_table(pa.table(columns | more), tmp_path / name)

    write("reference.parquet", rng.normal(size=(6000, 2)), w=rng.uniform(0.5, 1.5, 6000))
    write("data.parquet", np.concatenate([rng.normal(size=(130, 2)), rng.normal(2, 0.1, (20, 2))]))
    write("signal.parquet", rng.normal(2, 0.1, (1000, 2)))
    write("pool.parquet", rng.normal(size=(6000, 2)))
    return Typed(tmp_path, monkeypatch, capsys)


def column(path: Path, *names: str) -> Floats:
    """Read columns as an array."""
    table = pq.read_table(path)
    return np.column_stack([table[name].to_numpy() for name in names])


def test_a_changed_option_is_named(typed: Typed) -> None:
    """Beside the toys of an earlier command in the default folder: which option, what to type."""
    words = ("--columns", "a,b", "--where", "a > -2", "--expected", "100", *QUICK)
    null = ("calibrate", "reference.parquet", "--out", "gofstream-test/toys.null")
    assert typed(*null, *words)[0] == 0
    test = ("test", "reference.parquet", "data.parquet")
    for changed, text in (
        (["--where", "a > -1.5"], "--where was 'a > -2', is 'a > -1.5'"),
        (["--seed", "2"], "--seed was '1', is '2'"),
        (["--expected", "110"], "--expected was '100', is '110'"),
        (["--columns", "a"], "--columns was 'a,b', is 'a'"),
        (["--pool", "pool.parquet"], "--pool was not given, is 'pool.parquet'"),
        (["--set", "n_centres=20"], "setting 'n_centres' was 25, is 20"),
    ):
        code, out, err = typed(*test, *words, *changed)
        assert (code, out) == (2, "")
        assert f"made with other inputs: {text}. Repeat those inputs" in err
        assert "--null FILE or another --out" in err


def test_the_same_as_from_python(typed: Typed) -> None:
    """`gofstream test` gives the numbers of `nplm_test` on the same arrays, bit for bit."""
    code, out, err = typed(
        "test", "reference.parquet", "data.parquet", "--columns", "a,b", "--expected", "150",
        "--batches", "2", "--carry", "m", *QUICK,
    )  # fmt: skip
    assert (code, out, err) == (0, "", "")
    found = Record.load(typed.folder / "gofstream-test" / "result.json")
    reference, data = (
        Sample.from_array(column(typed.folder / name, "a", "b"), ["a", "b"], name=kind)
        for name, kind in (("reference.parquet", "reference"), ("data.parquet", "data"))
    )
    result = nplm_test(
        data,
        reference,
        expected=150,
        batches=2,
        settings=Settings(widths=(0.5, 1.5), n_centres=25),
        n_resamples=19,
        rng=1,
    )
    beside, known = (
        {"m": column(typed.folder / f"{n}.parquet", "m")[:, 0]} for n in ("data", "reference")
    )
    again = examine(result, data, reference, carried=(beside, known), title=found.title)
    assert again == found.model_copy(update={"provenance": None})
    assert (typed.folder / "gofstream-test" / "report.html").stat().st_size > 10_000


def test_repeats_from_its_provenance(typed: Typed) -> None:
    """The command that is written down gives the same result again."""
    words = ["--columns", "a,r", "--define", "r = hypot(a, b)", "--where", "r > 0.1 & b < 5"]
    assert typed("test", "reference.parquet", "data.parquet", *words, *QUICK)[0] == 0
    path = typed.folder / "gofstream-test" / "result.json"
    first = Record.load(path)
    assert first.provenance is not None
    again = shlex.split(shlex.join(first.provenance.command))
    for made in (typed.folder / "gofstream-test").iterdir():
        made.unlink()
    assert typed(*again[1:])[0] == 0
    second = Record.load(path)
    assert second.model_copy(update={"provenance": None}) == first.model_copy(
        update={"provenance": None}
    )
    files = {file.role: file for file in first.provenance.files}
    assert files["data"].rows == files["data"].kept == 150
    assert len(files["reference"].sha256) == 64


def test_a_null_made_beforehand(typed: Typed) -> None:
    """`calibrate` and `test --blind` make the same toys as `test`, which then makes none."""
    common = ["--columns", "a,b", "--expected", "150", *QUICK]
    assert typed("calibrate", "reference.parquet", "--out", "x.null", *common)[0] == 0
    made = (typed.folder / "x.null").read_bytes()
    code, _, _ = typed("test", "reference.parquet", "absent.root", "--blind", *common)
    assert code == 0
    blind = typed.folder / "gofstream-test"
    assert [path.name for path in blind.iterdir()] == ["toys.null"]
    code, _, _ = typed("test", "reference.parquet", "data.parquet", "--null", "x.null", *common)
    assert code == 0
    assert (typed.folder / "x.null").read_bytes() == made
    code, _, err = typed(
        "test", "reference.parquet", "data.parquet", "--null", "x.null", *common, "--seed", "2"
    )
    assert code == 2
    assert (
        "x.null holds pseudo-experiments that were made with other inputs: --seed was '1', is '2'"
        in err
    )


def test_exit_code_says_anomaly(typed: Typed) -> None:
    """1 at or below the level, 0 above it."""
    words = ["test", "reference.parquet", "data.parquet", "--columns", "a,b", *QUICK]
    assert typed(*words, "--level", "0.2")[0] == 1
    assert Record.load(typed.folder / "gofstream-test" / "result.json").anomalous
    assert typed(*words, "--level", "1e-300")[0] == 0


def test_what_is_printed(typed: Typed) -> None:
    """A verdict in words, with where it is; as JSON it is the result file; quiet is quiet."""
    words = ["test", "reference.parquet", "data.parquet", "--columns", "a,b", *QUICK]
    loud = [word for word in words if word != "--quiet"]
    code, out, _ = typed(*loud, "--level", "0.2")
    assert code == 1
    for text in ("data.parquet against reference.parquet", "where: excess", "report.html", "scan"):
        assert text in out
    code, out, _ = typed(*loud, "--json")
    assert code == 0
    assert json.loads(out)["format"] == "gofstream.result"
    assert typed(*words) == (0, "", "")


def test_weights_pools_and_shape(typed: Typed) -> None:
    """A weighted reference with a pool; without an expected number only the shape is tested."""
    code, _, err = typed(
        "test", "reference.parquet", "data.parquet", "--weight", "w", "--columns", "a,b",
        "--expected", "60,90", "--pool", "pool.parquet", *QUICK,
    )  # fmt: skip
    assert code == 0
    text = "gofstream: warning: the pool (pool.parquet) has no column 'w': each of its events"
    assert text in err
    found = Record.load(typed.folder / "gofstream-test" / "result.json")
    assert "the pool 'pool'" in found.source
    assert len(found.batches) == 2
    assert not found.shape_only
    os.remove(typed.folder / "gofstream-test" / "toys.null")
    code, _, err = typed("test", "reference.parquet", "data.parquet", "--columns", "a,b", *QUICK)
    assert (code, err) == (0, "")
    assert Record.load(typed.folder / "gofstream-test" / "result.json").shape_only


@pytest.fixture
def weighted(typed: Typed) -> Typed:
    """Add a pool and a signal with weights: half of the rows lie far out, and weigh nearly 0."""
    rng = np.random.default_rng(2)
    for name, rows, tiny in (("pool", 12_000, 1e-4), ("signal", 4000, 1e-9)):
        near, far = rng.normal(size=(rows, 2)), rng.normal(4, 0.3, (rows, 2))
        values = np.concatenate([near, far])
        columns = {"a": values[:, 0], "b": values[:, 1], "w": np.repeat([1.0, tiny], rows)}
        pq.write_table(pa.table(columns), typed.folder / f"weighted-{name}.parquet")
    return typed


def sample(path: Path, name: str, *, weighted: bool) -> Sample:
    """Make the sample that a user would make of columns a, b and, for weights, w."""
    weights = column(path, "w")[:, 0] if weighted else None
    return Sample.from_array(column(path, "a", "b"), ["a", "b"], weights=weights, name=name)


@pytest.mark.parametrize("reference", ["with", "without"])
def test_weights_of_the_pool_count(weighted: Typed, reference: str) -> None:
    """`--weight` weights the pool as `nplm_test` does with a weighted `Sample`, bit for bit.

    Nominal data are nominal then; a pool without its weights would not be.
    """
    known = "reference.parquet" if reference == "with" else "pool.parquet"  # which has no w
    code, _, err = weighted(
        "test", known, "data.parquet", "--weight", "w", "--columns", "a,b", "--expected", "150",
        "--pool", "weighted-pool.parquet", *QUICK,
    )  # fmt: skip
    assert code == 0
    assert ("the reference (pool.parquet) has no column 'w'" in err) == (reference == "without")
    found = Record.load(weighted.folder / "gofstream-test" / "result.json")
    given = [
        sample(weighted.folder / "data.parquet", "data", weighted=False),
        sample(weighted.folder / known, "reference", weighted=reference == "with"),
        sample(weighted.folder / "weighted-pool.parquet", "pool", weighted=True),
    ]
    result = nplm_test(
        given[0],
        given[1],
        pool=given[2],
        expected=150,
        settings=Settings(widths=(0.5, 1.5), n_centres=25),
        n_resamples=19,
        rng=1,
    )
    again = examine(result, given[0], given[1], title=found.title)
    assert again == found.model_copy(update={"provenance": None})
    # The toys look like the data, not like the rows of the pool: half of these lie beyond 3.
    assert np.median(result.null_distribution) < 50


def test_weights_of_the_signal_count(weighted: Typed) -> None:
    """`power` draws signal events in proportion to weight: of weight 1e-9 there are none."""
    common = [
        "power", "reference.parquet", "--weight", "w", "--columns", "a,b", "--expected", "150",
        "--rates", "0.1", "--signal-toys", "19", "--level", "0.06", *QUICK,
    ]  # fmt: skip
    assert weighted(*common, "--signal", "weighted-signal.parquet")[0] == 0
    found = json.loads((weighted.folder / "gofstream-power" / "power.json").read_text())
    plan = plan_null(
        sample(weighted.folder / "reference.parquet", "reference", weighted=True),
        150.0,
        settings=Settings(widths=(0.5, 1.5), n_centres=25),
        rng=1,
    )
    signal = sample(weighted.folder / "weighted-signal.parquet", "signal", weighted=True)
    with thread_workers(1) as executor:
        study = power_study(
            plan,
            Pool(signal),
            [0.1],
            toys=19,
            signal_toys=19,
            folder=weighted.folder / "python",
            executor=executor,
        )
    assert list(found["power"]) == ["single + scan", "single", "scan"]
    for name in ("single", "scan"):
        assert found["power"][name] == [asdict(study.power(name, 0.06, 0.1))]
    # Without weights half of the signal is a second peak, 4 widths out, which every toy shows.
    assert found["power"]["scan"][0]["value"] < 0.9
    code, _, err = weighted(*common, "--signal", "signal.parquet", "--out", "other")
    assert code == 0
    assert "the signal (signal.parquet) has no column 'w'" in err


def test_options_from_a_file(typed: Typed) -> None:
    """Flags go before what the file says; settings of both are merged."""
    (typed.folder / "study.toml").write_text(
        'units = { a = "GeV" }\ncolumns = ["a", "b"]\nexpected = 150\n'
        "toys = 19\nbatches = 2\nquiet = true\n"
        "[settings]\nwidths = [0.5, 1.5]\nn_centres = 30\nmemory = 3000000000\n"
    )
    code, _, err = typed(
        "test", "reference.parquet", "data.parquet", "--config", "study.toml", "--batches", "3",
        "--set", "n_centres=25",
    )  # fmt: skip
    assert (code, err) == (0, "")
    found = Record.load(typed.folder / "gofstream-test" / "result.json")
    assert found.toys == 19
    assert len(found.batches) == 3
    assert [column.unit for column in found.columns] == ["GeV", ""]
    assert found.provenance is not None
    assert found.provenance.settings["n_centres"] == 25
    assert found.provenance.settings["memory"] == 3_000_000_000
    assert found.provenance.settings["widths"] == [0.5, 1.5]


def test_power(typed: Typed) -> None:
    """More signal, more power; no data are opened; numbers and a picture are written."""
    words = [
        "power", "reference.parquet", "--signal", "signal.parquet", "--rates", "0.01,0.15",
        "--expected", "150", "--columns", "a,b", "--signal-toys", "20", "--level", "0.2", "--json",
        *QUICK,
    ]  # fmt: skip
    code, out, err = typed(*words)
    assert (code, err) == (0, "")
    found = json.loads(out)
    curve = found["power"]["single"]
    assert curve[0]["value"] + 0.3 < curve[1]["value"]
    assert curve[0]["low"] <= curve[0]["value"] <= curve[0]["high"]
    assert json.loads((typed.folder / "gofstream-power" / "power.json").read_text()) == found
    assert (typed.folder / "gofstream-power" / "power.png").stat().st_size > 10_000
    # Another signal under the same name gets toys of its own, in the same folder.
    (typed.folder / "pool.parquet").rename(typed.folder / "signal.parquet")
    assert typed(*words)[0] == 0
    nothing = json.loads((typed.folder / "gofstream-power" / "power.json").read_text())
    assert nothing["power"]["single"][1]["value"] < curve[1]["value"] - 0.3


@pytest.mark.parametrize(
    ("count", "title"),
    [
        (1, "0.npy against"),
        (3, "0.npy + 1.npy + 2.npy against"),
        (5, "0.npy to 4.npy (5 files) a"),
    ],
)
def test_the_title_names_all_files(tmp_path: Path, count: int, title: str) -> None:
    """Up to three by name, more by number."""
    for k in range(5):
        np.save(tmp_path / f"{k}.npy", np.arange(3.0) + k)
    files = [read(str(tmp_path / name)) for name in ("0.npy", "[0-4].npy")]
    data = read([str(tmp_path / f"{k}.npy") for k in range(count)])
    assert _title(data, files[0]).startswith(title)
    assert _title(data, files[1]).endswith("against 0.npy to 4.npy (5 files)")


def test_power_out_of_reach(typed: Typed) -> None:
    """A level below what the toys resolve is refused before a toy is made; a small one is noted."""
    words = [
        "power", "reference.parquet", "--signal", "signal.parquet", "--rates", "0.15",
        "--expected", "150", "--columns", "a,b", "--signal-toys", "10",
        *[word for word in QUICK if word != "--quiet"],
    ]  # fmt: skip
    code, out, err = typed(*words, "--level", "0.0228")
    assert (code, out) == (2, "")
    assert "power at p ≤ 0.0228 is out of reach: needs ≥ 43 toys, and there are 19" in err
    assert not (typed.folder / "gofstream-power").exists()
    code, out, _ = typed(*words, "--level", "0.06")
    assert code == 0
    assert "lower limits: with fewer than 66 toys (19 here)" in out


def test_report_and_inspect(typed: Typed) -> None:
    """A report is made again from the result alone; files tell what they are."""
    typed(
        "test", "reference.parquet", "data.parquet", "--columns", "a,b", "--expected", "150", *QUICK
    )
    folder = typed.folder / "gofstream-test"
    first = (folder / "report.html").read_bytes()
    for name in ("reference.parquet", "data.parquet"):
        (typed.folder / name).unlink()
    words = ["report", str(folder / "result.json"), "--out", "again.html"]
    assert typed(*words, "--quiet") == (0, "", "")
    code, out, _ = typed(*words, "--json")
    assert (code, json.loads(out)) == (0, {"report": "again.html"})
    assert (typed.folder / "again.html").read_bytes() == first
    code, out, _ = typed("inspect", str(folder / "result.json"))
    assert code == 0
    assert "data.parquet against reference.parquet" in out
    code, out, _ = typed("inspect", str(folder / "toys.null"), "--json")
    assert code == 0
    assert json.loads(out)["toys"] >= 19
    for name in ("result.json", "toys.null"):
        code, out, _ = typed("inspect", str(folder / name), "--validate")
        assert code == 0
        assert "whole" in out
    model = folder / "model.safetensors"
    learnt = nplm_test(
        np.ones((20, 1)) * np.arange(20)[:, None], np.arange(200.0), n_resamples=1, rng=1
    ).learnt[0]
    model.write_bytes(learnt.models[0].to_bytes())
    code, out, _ = typed("inspect", str(model))
    assert code == 0
    assert '"x"' in out


def test_one_file_of_options_for_a_study(typed: Typed) -> None:
    """`test`, `calibrate` and `power` take one file, and each its own options from it."""
    (typed.folder / "study.toml").write_text(
        'columns = ["a", "b"]\nexpected = 150\ntoys = 90\nquiet = true\n'
        'units = { a = "GeV" }\nrates = [0.1, 0.2]\nsignal = ["signal.parquet"]\n'
        "signal-toys = 10\n[settings]\nwidths = [1.0]\nn_centres = 15\none_step = true\n"
    )
    common = ("--config", "study.toml")
    assert typed("test", "reference.parquet", "data.parquet", *common) == (0, "", "")
    assert typed("power", "reference.parquet", *common) == (0, "", "")
    power = json.loads((typed.folder / "gofstream-power" / "power.json").read_text())
    assert power["rates"] == [0.1, 0.2]
    assert power["power"]["scan"][0]["toys"] == 10
    assert typed("calibrate", "reference.parquet", *common) == (0, "", "")
    made = (typed.folder / "toys.null").read_bytes()
    again = typed("test", "reference.parquet", "data.parquet", *common, "--null", "toys.null")
    assert again == (0, "", "")
    assert (typed.folder / "toys.null").read_bytes() == made


@pytest.mark.parametrize("name", ["w", "weight", "mcWeight", "event_wgt", "wt", "weights", "w2"])
def test_a_column_named_like_a_weight(name: str) -> None:
    """It is tested, but not without a word; names that only hold such letters are left alone."""
    x = np.random.default_rng(1).normal(size=(200, 2))
    reference = Sample.from_array(x, ["pt", name])
    with pytest.warns(GofstreamWarning, match=f"column '{name}': .*--weight {name}"):
        Learner.prepare(reference, Settings(n_centres=20), expected=50.0, rng=1)
    for other in ("w_mass", "width", "swt3d", "pt_w", "eta"):
        quiet = Sample.from_array(x, ["pt", other])
        Learner.prepare(quiet, Settings(n_centres=20), expected=50.0, rng=1)


def test_the_weight_of_one_command_is_not_fitted_by_the_next(typed: Typed) -> None:
    """Without `--columns` and `--weight` the column of weights would be tested: a warning."""
    x = np.random.default_rng(3).normal(size=(500, 3))
    pq.write_table(pa.table({"a": x[:, 0], "w": x[:, 1] ** 2}), typed.folder / "both.parquet")
    code, _, err = typed("test", "reference.parquet", "both.parquet", "--columns", "a,w", *QUICK)
    assert code == 0
    assert "column 'w': is called like a weight, but is tested like the others" in err


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of a file."""
    path.write_bytes(change(path.read_bytes()))


#: What follows most commands.
DATA = "reference.parquet data.parquet --columns a,b"
POWER = "power reference.parquet --columns a,b --signal signal.parquet --expected 150"
#: What can go wrong: the words typed, and a part of the one message.
BAD = {
    "no reference": ("test absent.parquet data.parquet", "absent.parquet"),
    "no data": ("test reference.parquet absent.parquet", "absent.parquet"),
    "no pattern": ("test reference.parquet 'absent*.root'", "absent"),
    "a folder": ("test folder data.parquet", "folder"),
    "no column": (f"test {DATA} --columns a,c", "'c'"),
    "empty column": (f"test {DATA} --columns a,,b", "commas"),
    "column twice": (f"test {DATA} --columns a,a", "a"),
    "no weight": (f"test {DATA} --weight v", "'v'"),
    "no carried": (f"test {DATA} --carry mass", "'mass'"),
    "no angle": (f"test {DATA} --periodic phi", "'phi'"),
    "no period": (f"test {DATA} --periodic a=up", "is not a period"),
    "two periods": (f"test {DATA} --periodic a,a=360", "once"),
    "another period": (f"test {DATA} --periodic a=2", "column 'a': values from -"),
    "no tree": (f"test {DATA} --tree t", "t"),
    "condition": (f"test {DATA} --where 'a >'", "a >"),
    "python": (f'test {DATA} --where "__import__(1)"', "__import__(1)"),
    "condition column": (f"test {DATA} --where 'q > 1'", "'q'"),
    "nothing left": (f"test {DATA} --where 'a > 99'", "no events"),
    "no number": (f"test {DATA} --where 'a + 1'", "condition"),
    "rows": (f"test {DATA} --rows 0", "--rows"),
    "one row": (f"test {DATA} --rows 1", "row"),
    "units": (f"test {DATA} --units a", "pt=GeV"),
    "unit of nothing": (f"test {DATA} --units q=GeV", "'q'"),
    "zero expected": (f"test {DATA} --expected 0", "positive"),
    "negative": (f"test {DATA} --expected -5", "positive"),
    "nan": (f"test {DATA} --expected nan", "finite"),
    "word": (f"test {DATA} --expected many", "'many'"),
    "counts": (f"test {DATA} --expected 9,9 --batches 3", "2 numbers for 3 batches"),
    "more counts": (f"test {DATA} --expected 250,250,250 --batches 2", "3 numbers for 2 batches"),
    "one batch": (f"test {DATA} --expected 75,75 --batches 1", "2 numbers for 1 batches"),
    "no batch": (f"test {DATA} --batches 0", "--batches"),
    "negative batches": (f"test {DATA} --batches -2", "--batches"),
    "toys": (f"test {DATA} --toys 1", "--toys"),
    "level": (f"test {DATA} --level 2", "--level"),
    "seed": (f"test {DATA} --seed -1", "--seed"),
    "threads": (f"test {DATA} --threads 0", "--threads"),
    "memory": (f"test {DATA} --memory lots", "4GB"),
    "little memory": (f"test {DATA} --memory 9kB", "memory"),
    "setting": (f"test {DATA} --set 'wdths=[1]'", "'widths'"),
    "set": (f"test {DATA} --set widths", "KEY=VALUE"),
    "bad value": (f"test {DATA} --set penalty=-1", "penalty"),
    "preset": (f"test {DATA} --preset expo", "'expo1d'"),
    "config": (f"test {DATA} --config absent.toml", "absent"),
    "no toml": (f"test {DATA} --config bad.toml", "bad.toml"),
    "option": (f"test {DATA} --config odd.toml", "'batchs'"),
    "not a null": (f"test {DATA} --null junk.null", "junk.null"),
    "other null": (f"test {DATA} --null other.null", "another"),
    "null folder": (f"test {DATA} --null folder", "folder"),
    "out is a file": (f"test {DATA} --out bad.toml", "bad.toml"),
    "no way out": (f"test {DATA} --out /proc/x", "/proc/x"),
    "small pool": (f"test {DATA} --expected 150 --pool data.parquet", "pool"),
    "text column": ("test text.parquet data.parquet --columns name", "'name'"),
    "nan column": ("test gaps.parquet data.parquet --columns a", "row 3"),
    "infinite": ("test reference.parquet infinite.parquet --columns a", "row 2"),
    "no rows": ("test empty.parquet data.parquet --columns a", "no events"),
    "negative weights": ("test negative.parquet data.parquet --columns a --weight w", "negative"),
    "truncated": ("test cut.parquet data.parquet", "cut.parquet"),
    "nothing": ("test void.parquet data.parquet", "void.parquet"),
    "wrong ending": ("test really.csv data.parquet", "really.csv"),
    "unknown ending": ("test file.xyz data.parquet", "file.xyz"),
    "calibrate nothing": ("calibrate absent.parquet --expected 9", "absent.parquet"),
    "no expected": ("calibrate reference.parquet", "--expected"),
    "too many": ("calibrate reference.parquet --expected 5000", "6000 rows"),
    "blind": ("test reference.parquet x --blind", "--expected"),
    "power file": (
        "power reference.parquet --signal absent --rates 0.1 --expected 99 --level 0.1",
        "absent",
    ),
    "power rates": (f"{POWER} --rates x", "'x'"),
    "few signals": (f"{POWER} --rates 5 --level 0.1", "signal"),
    "negative rate": (f"{POWER} --rates=-1", "rate"),
    "report nothing": ("report absent.json", "absent.json"),
    "report junk": ("report bad.toml", "bad.toml"),
    "report other": ("report other.json", "not a gofstream result"),
    "report nowhere": ("report other.json --out /proc/x/y.html", "other.json"),
    "inspect nothing": ("inspect absent.json", "absent.json"),
    "inspect junk": ("inspect junk.null", "junk.null"),
    "inspect sqlite": ("inspect foreign.db --validate", "foreign.db"),
    "inspect cut": ("inspect half.null", "half.null"),
    "describe nothing": ("describe absent.parquet", "absent.parquet"),
    "describe cut": ("describe cut.parquet", "cut.parquet"),
}


@pytest.fixture
def bad_files(typed: Typed) -> Typed:
    """Lay out files that are wrong in one way each."""
    import sqlite3

    folder = typed.folder
    (folder / "folder").mkdir()
    (folder / "bad.toml").write_text("this is = = not toml")
    (folder / "odd.toml").write_text("batchs = 3\n")
    (folder / "junk.null").write_bytes(b"\x80junk" * 100)
    (folder / "other.json").write_text('{"format": "other"}')
    (folder / "void.parquet").write_bytes(b"")
    (folder / "file.xyz").write_bytes(b"\x01\x02\x03" * 50)
    with closing(sqlite3.connect(folder / "foreign.db")) as database, database:
        database.execute("CREATE TABLE t (x)")
    whole = (folder / "reference.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "really.csv").write_bytes(whole)
    a = np.arange(100.0)

    def write(name: str, columns: dict[str, object]) -> None:
        pq.write_table(pa.table(columns), folder / name)

    write("text.parquet", {"name": ["x"] * 100, "a": a})
    write("gaps.parquet", {"a": np.where(a == 3, np.nan, a)})
    write("infinite.parquet", {"a": np.where(a == 2, np.inf, a)})
    write("empty.parquet", {"a": a[:0]})
    write("negative.parquet", {"a": a, "w": a - 50})
    typed("calibrate", "reference.parquet", "--expected", "100", "--out", "other.null", *QUICK)
    null = (folder / "other.null").read_bytes()
    (folder / "half.null").write_bytes(null[: len(null) // 2])
    return typed


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_bad_input(bad_files: Typed) -> None:
    """Exit code 2, one helpful message, no traceback, and no file more or less."""
    before = contents(bad_files.folder)
    assert len(BAD) >= 60
    failures = []
    for name, (line, part) in BAD.items():
        words = shlex.split(line)
        quick = QUICK if words[0] in ("test", "calibrate", "power") else []
        given = [word for word in quick if "--toys" not in words or word not in ("--toys", "19")]
        code, out, err = bad_files(*words, *given)
        if code != 2 or part not in err or "Traceback" in err or out:
            failures.append(f"{name}: code {code}, wanted {part!r}: {out}{err}")
        if (after := contents(bad_files.folder)) != before:
            failures.append(f"{name}: left {sorted(after.keys() ^ before.keys())}")
            for more in after.keys() - before.keys():
                (bad_files.folder / more).unlink()
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "message", "left"),
    [
        (20_000, "cannot be used as a null file", []),
        (24_600, "stopped with", []),
        (100_000, "report.html cannot be written", ["result.json", "toys.null"]),
    ],
)
def test_full_disk(typed: Typed, limit: int, message: str, left: list[str]) -> None:
    """Where toys, or the report, find no room: exit code 2, one message, no part of a file.

    A process that may write no file beyond so many bytes stands for the disk.
    """
    words = ["test", "reference.parquet", "data.parquet", "--columns", "a,b", *QUICK]
    words += ["--toys", "200"]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "gofstream"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=typed.folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    found = sorted(path.name for path in (typed.folder / "gofstream-test").iterdir())
    if left:
        assert found == left
        Record.load(typed.folder / "gofstream-test" / "result.json")
    else:
        assert "result.json" not in found
    code, _, err = typed(*words)  # with room again, the same command goes on
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_files_five_times_the_budget(tmp_path: Path) -> None:
    """1 GB of Parquet files as a reference, in a budget of 200 MB and what Python itself takes."""
    rng = np.random.default_rng(3)
    part = rng.standard_normal((5, 3_125_000), dtype=np.float32)
    for k in range(16):
        # A little apart, so that no event stands in two files.
        columns = {f"x{j}": column + np.float32(1e-5 * k) for j, column in enumerate(part)}
        path = tmp_path / f"part{k:02d}.parquet"
        pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    assert sum(path.stat().st_size for path in tmp_path.glob("part*")) > 0.95e9
    events = {f"x{j}": rng.normal(size=1000) for j in range(5)}
    pq.write_table(pa.table(events), tmp_path / "data.parquet")
    words = ["test", str(tmp_path / "part*.parquet"), str(tmp_path / "data.parquet")]
    words += ["--rows", "100000", "--expected", "1000", "--memory", "200MB", *QUICK]
    # What the kernel calls the peak of this process; `getrusage` begins with that of its parent.
    code = (
        "from gofstream.cli import main\ntry: main()\n"
        "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 200e6 + 300e6
    found = Record.load(tmp_path / "out" / "result.json")
    assert found.provenance is not None
    read = [file for file in found.provenance.files if file.role == "reference"]
    assert sum(file.rows for file in read) == 50_000_000
    assert sum(file.kept for file in read) == 100_000


def test_every_command_has_help_with_an_example(typed: Typed) -> None:
    """`--help` of each command ends in an example that names it."""
    code, out, _ = typed("--help")
    assert code == 0
    listed = out.split("Commands:")[1].split("\n")
    commands = [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]
    assert {"calibrate", "test", "power", "report", "inspect", "describe"} <= set(commands)
    for command in commands:
        code, out, _ = typed(command, "--help")
        assert code == 0
        assert command == "data" or f"Example: gofstream {command}" in " ".join(out.split())


def test_reference_page_is_up_to_date() -> None:
    """docs/reference/commands.md is what the commands say of themselves."""
    written = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
    assert written.read_text(encoding="utf-8") == page(), "python -m gofstream.cli.reference"
