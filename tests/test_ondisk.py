"""A reference that memory cannot hold: on disk, and the same numbers."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gofstream.checks import check_data, check_reference
from gofstream.cli import cli
from gofstream.errors import (
    EmptyError,
    GofstreamWarning,
    InputError,
    MemoryBudgetError,
    NonFiniteError,
    RangeError,
)
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.io import Events, read
from gofstream.nplm import nplm_test, plan_null
from gofstream.ondisk import OnDisk, Writer
from gofstream.ratio.centres import reduce_centres
from gofstream.ratio.features import features_of
from gofstream.ratio.learner import Learner
from gofstream.ratio.scaling import Scaling
from gofstream.ratio.solver import fit
from gofstream.report.examine import examine
from gofstream.sample import PIECE, Sample, build
from gofstream.settings import Settings
from gofstream.toys.sources import Pool, refuse_training_rows, toy_rng

Floats = NDArray[np.float64]

ROWS = PIECE + 5000


def on_disk(values: NDArray[np.floating], folder: Path, step: int = 10_007) -> OnDisk:
    """Write a matrix in pieces of an odd size."""
    writer = Writer(folder, values.shape[1], values.dtype)
    for start in range(0, len(values), step):
        writer.append(values[start : start + step])
    return writer.finish()


def both(values: NDArray[np.floating], folder: Path, **more: object) -> tuple[Sample, Sample]:
    """Give a sample in memory, and the same one on disk."""
    columns = [f"x{j}" for j in range(values.shape[1])]
    weights, periodic = more.get("weights"), more.get("periodic", ())
    kept: object = on_disk(values, folder)
    disk = build(kept, columns, weights, None, periodic, "reference", copy=False)  # type: ignore
    return Sample.from_array(values, columns, name="reference", **more), disk  # type: ignore


def events(rows: int = ROWS, columns: int = 3, seed: int = 1) -> NDArray[np.float32]:
    """Draw some."""
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


# -- the matrix -----------------------------------------------------------------------------------


@given(st.data())
def test_rows_are_those_of_the_array(data: st.DataObject) -> None:
    """Ranges, numbers in any order, masks; of what is left when rows are left out, twice."""
    array = np.arange(data.draw(st.integers(0, 4000)) * 2, dtype=np.float64).reshape(-1, 2)
    with tempfile.TemporaryDirectory() as folder:  # what is open stays readable
        rows = on_disk(array, Path(folder), step=data.draw(st.integers(100, 5000)))
    for _ in range(2):
        numbers = st.lists(st.integers(0, max(0, len(array) - 1)), max_size=20)
        some = np.array(data.draw(numbers) if len(array) else [], dtype=np.int64)
        start, stop = data.draw(st.integers(-5, 5000)), data.draw(st.integers(-5, 5000))
        step = data.draw(st.integers(1, 900))
        mask = np.zeros(len(array), dtype=bool)
        mask[some] = True
        for part in (slice(start, stop), slice(start, stop, step), slice(None), some, mask):
            np.testing.assert_array_equal(rows[part], array[part])
        assert rows.shape == array.shape
        assert len(rows) == len(array)
        out = np.unique(some)
        array, rows = np.delete(array, out, axis=0), rows.without(out)


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    """Numbers beyond the last row, and before the first."""
    rows = on_disk(events(10), tmp_path)
    for number in (10, -1):
        with pytest.raises(IndexError, match="of 10"):
            rows[np.array([3, number])]


def test_it_does_not_become_an_array(tmp_path: Path) -> None:
    """Whatever asks for all of it is told why that cannot be."""
    rows = on_disk(events(10), tmp_path)
    for use in (np.asarray, np.sum, lambda x: np.concatenate([x, x])):
        with pytest.raises(InputError, match=r"10 events are on disk.*keep fewer with `rows`"):
            use(rows)


def test_another_process_gets_the_path(tmp_path: Path) -> None:
    """Few bytes; the file is opened with the first rows, and must be the one that was written."""
    array = events(2000)
    sent = pickle.dumps(on_disk(array, tmp_path).without(np.array([5])))
    assert len(sent) < 1000
    again = pickle.loads(sent)
    np.testing.assert_array_equal(again[3:8], np.delete(array, 5, axis=0)[3:8])
    assert again.sha256 == hashlib.sha256(array.tobytes()).hexdigest()
    changed = bytearray(again.path.read_bytes())
    changed[4000] ^= 1
    again.path.write_bytes(changed)
    with pytest.raises(InputError, match="is not the file that was written for this run"):
        pickle.loads(sent)[:5]
    again.path.write_bytes(changed[:-1])
    with pytest.raises(InputError, match="was cut short while it was used"):
        again[1990:]
    again.path.unlink()
    with pytest.raises(InputError, match=r"cannot be opened here \(No such file.*machines share"):
        pickle.loads(sent)[:5]


def test_a_full_disk_is_named() -> None:
    """The error says which file, and what to do."""
    writer = Writer(Path("/dev/shm"), 2, np.dtype(np.float64))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file.number)
    os.close(full)
    writer.path.unlink()
    with pytest.raises(OSError, match=r"\.rows cannot be written \(No space left"):
        writer.append(np.ones((5, 2)))


# -- the sample -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_sample(tmp_path: Path, weighted: bool) -> None:
    """Digest, rows, scaling with an angle, candidates and widths: all to the last bit."""
    values = events()
    weights = np.random.default_rng(2).uniform(0, 2, ROWS) if weighted else None
    if weights is not None:
        weights[:PIECE] = 0.0  # a whole piece that does not count
    memory, disk = both(values, tmp_path, weights=weights, periodic=["x1"])
    assert isinstance(disk.values, OnDisk)
    assert disk.digest() == memory.digest() == pickle.loads(pickle.dumps(disk)).digest()
    rows = np.array([ROWS - 1, 3, PIECE, 3])
    assert disk.take(rows).digest() == memory.take(rows).digest()
    assert disk.drop(rows[[1, 2, 0]]).digest() == memory.drop(rows[[1, 2, 0]]).digest()
    assert disk.effective_size == memory.effective_size
    assert Scaling.learn(disk).to_dict() == Scaling.learn(memory).to_dict()
    made = [
        Learner.prepare(
            sample, Settings(n_centres=50), expected=100.0, rng=np.random.default_rng(3)
        )
        for sample in (memory, disk)
    ]
    assert made[0].about() == made[1].about()
    assert made[0].reference.shape == made[1].reference.shape == (ROWS, 4)
    np.testing.assert_array_equal(made[0].reference[-50:], made[1].reference[-50:])


def test_the_gate_sees_what_is_on_disk(tmp_path: Path) -> None:
    """Values that are missing or overflow, with their rows; a row far out; too few rows."""
    for value, error in ((np.nan, NonFiniteError), (1e39, RangeError)):
        values = events().astype(np.float64)
        values[[PIECE + 7, PIECE + 9], 1] = value
        with pytest.raises(error, match=rf"column 'x1': 2 of {ROWS} values.*at row {PIECE + 7} "):
            both(values, tmp_path)
    values = events()
    values[PIECE + 7, 2] = 3e38
    _, far = both(values, tmp_path)
    with pytest.raises(RangeError, match=rf"column 'x2': the value 3\S+ at row {PIECE + 7} "):
        Scaling.learn(both(events(), tmp_path)[1]).apply(far, slice(PIECE, None))
    with pytest.raises(EmptyError, match="no rows"):
        check_reference(both(values[:0], tmp_path)[1])


def test_columns_that_never_vary(tmp_path: Path) -> None:
    """They are found on disk, also when only the last row differs."""
    values = events()
    values[:, 1] = 4.0
    _, disk = both(values, tmp_path)
    with pytest.warns(GofstreamWarning, match="column 'x1': every reference event has the same"):
        check_reference(disk)
    batch = Sample.from_array(events(5), ["x0", "x1", "x2"])
    with pytest.warns(GofstreamWarning, match=r"column 'x1': 5 of 5 events differ from 4\.0"):
        check_data([batch], disk)
    values[-1, 1] = 4.5
    check_reference(both(values, tmp_path)[1])


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "parquet", "csv"])
@pytest.mark.parametrize("where", [None, "x0 > -1"])
def test_what_does_not_fit_goes_to_disk(tmp_path: Path, kind: str, where: str | None) -> None:
    """Sizes that are known beforehand and those that are not; weights stay in memory."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rows = 30_000 if kind == "csv" else ROWS
    values, path = events(rows).astype(np.float64), tmp_path / f"a.{kind}"
    columns = {f"x{j}": values[:, j] for j in range(3)} | {"w": np.abs(values[:, 0]) + 0.1}
    if kind == "npy":
        np.save(path, np.rec.fromarrays(list(columns.values()), names=list(columns)))
    elif kind == "parquet":
        parquet.write_table(pa.table(columns), path)
    else:
        csv.write_csv(pa.table(columns), path)
    plain = read(path, weight="w", where=where).sample
    assert isinstance(plain.values, np.ndarray)
    scratch, memory = tmp_path / "scratch", plain.values.nbytes * 3 // 2
    found = read(path, weight="w", where=where, memory=memory, scratch=scratch)
    assert isinstance(found.sample.values, OnDisk)
    assert found.sample.digest() == plain.digest()
    assert found.files[0].kept == len(plain)
    assert [file.stat().st_size for file in scratch.iterdir()] == [plain.values.nbytes]
    with pytest.raises(MemoryBudgetError, match="reading 3 columns"):
        read(path, weight="w", where=where, memory=plain.values.nbytes)
    # Weights have to be in memory, whatever there is to write to.
    with pytest.raises(MemoryBudgetError, match="reading 3 columns"):
        read(path, weight="w", where=where, memory=plain.values.nbytes // 3, scratch=scratch)


def test_what_fits_stays_in_memory(tmp_path: Path) -> None:
    """And so do events that are drawn: nothing is written."""
    path = tmp_path / "a.npy"
    np.save(path, events(20_000))
    scratch = tmp_path / "scratch"
    assert isinstance(read(path, scratch=scratch).sample.values, np.ndarray)
    few = read(path, rows=500, memory=200_000, scratch=scratch).sample
    assert few.digest() == read(path, rows=500).sample.digest()
    assert not scratch.exists()


# -- what is made of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [False, True])
def test_the_same_fits(tmp_path: Path, stored: bool) -> None:
    """T to the last bit, with rows that are stored and with rows that are made."""
    settings, rng = Settings(widths=(1.5,), n_centres=40), np.random.default_rng(5)
    batches, found = [rng.normal(0.05, 1.0, size=(300, 3)) for _ in range(3)], []
    for sample in both(events(), tmp_path):
        learner = Learner.prepare(sample, settings, expected=300.0, rng=np.random.default_rng(3))
        features = features_of(
            learner.reference,
            reduce_centres(learner.candidates, 1.5, 1e-6),
            1.5,
            penalty=1e-6,
            expected=300.0,
            stored=stored,
        )
        assert features.held == (0 if isinstance(sample.values, OnDisk) else 12 * ROWS)
        found.append(fit(features, batches, [300.0] * 3))
    assert found[0].converged.all()
    assert found[0].t.tobytes() == found[1].t.tobytes()


def test_the_same_toys(tmp_path: Path) -> None:
    """A pool set aside from the reference, two widths, all statistics; and the same null file."""
    settings, tables = Settings(widths=(1.0, 3.0), n_centres=40), []
    for sample in both(events(), tmp_path):
        plan = plan_null(sample, 400.0, batches=2, settings=settings, rng=1)
        with thread_workers(2) as executor:
            tables.append(calibrate(plan, 16, tmp_path / f"{len(tables)}.null", executor).table)
            calibrate(plan, 16, tmp_path / "0.null", executor)
    assert tables[0].t.tobytes() == tables[1].t.tobytes()


def test_a_pool_on_disk(tmp_path: Path) -> None:
    """The same draws, weighted and not."""
    for weights in (None, np.random.default_rng(2).uniform(0, 2, ROWS)):
        drawn = [
            np.concatenate(Pool(sample).draw(np.array([300.0, 500.0]), toy_rng(1, "null", 3)))
            for sample in both(events(), tmp_path, weights=weights)
        ]
        np.testing.assert_array_equal(drawn[0], drawn[1])


def test_training_rows_are_found_on_disk(tmp_path: Path) -> None:
    """Those of a reference on disk are refused as toys; others are not."""
    _, disk = both(events(), tmp_path)
    scaling = Scaling.learn(disk)
    learner = Learner.prepare(
        disk, Settings(n_centres=20), expected=100.0, rng=np.random.default_rng(1)
    )
    refuse_training_rows(scaling.apply(Sample.from_array(events(500, seed=9))), learner.reference)
    with pytest.raises(InputError, match="500 of the 500 events of a toy are rows"):
        refuse_training_rows(learner.reference[-500:], learner.reference)


def test_a_report_looks_at_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a reference on disk show a draw, and say so; counts agree with all of it."""
    monkeypatch.setattr("gofstream.report.examine.SHOWN", 20_000)
    memory, disk = both(events(), tmp_path)
    data = Sample.from_array(events(1000, seed=8), memory.columns)
    settings = Settings(widths=(2.0,), n_centres=30)
    records = []
    for sample in (memory, disk):
        result = nplm_test(data, sample, expected=1000.0, settings=settings, n_resamples=19, rng=1)
        carried = {"m": np.arange(ROWS, dtype=float)}
        mine = {"m": np.zeros(1000)}
        records.append(examine(result, data, sample, carried=(mine, carried)))
    assert records[0].pvalue == records[1].pvalue
    assert f"pictures and regions: 20000 of {ROWS} reference events" in records[1].caveats
    assert not any("pictures" in text for text in records[0].caveats)
    for whole, some in zip(records[0].columns, records[1].columns, strict=True):
        assert sum(some.reference) == pytest.approx(1000)
        assert whole.data == some.data or whole.edges != some.edges
    # 20 000 rows stand for 1000 events: a bin of 100 is known to 2 events or so, taken five times.
    middle = [
        np.interp(0.0, record.columns[0].edges[1:], np.cumsum(record.columns[0].reference))
        for record in records
    ]
    assert middle[0] == pytest.approx(middle[1], abs=5 * 1000 * 0.5 / np.sqrt(20_000))


# -- the commands ---------------------------------------------------------------------------------


def test_the_commands_use_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`calibrate` and `test`: the p of a run in memory, and nothing left behind."""
    rng, folder = np.random.default_rng(4), tmp_path / "large"
    np.save(tmp_path / "reference.npy", rng.normal(size=(30_000, 2)))
    np.save(tmp_path / "data.npy", rng.normal(0.1, 1.0, size=(300, 2)))
    files = [str(tmp_path / name) for name in ("reference.npy", "data.npy")]
    kept: list[object] = []

    def frugal(*args: object, **more: object) -> Events:
        found = read(*args, **more | {"memory": 600_000})  # type: ignore[arg-type]
        kept.append(found.sample.values)
        return found

    options = ["--expected", "300", "--toys", "10", "--threads", "1", "--set", "n_centres=12"]
    options += ["--set", "widths=[1.0]", "--quiet"]
    run = CliRunner()
    assert not run.invoke(cli, ["test", *files, "--out", str(tmp_path / "a"), *options]).exit_code
    monkeypatch.setattr("gofstream.cli.options.read", frugal)
    null = ["--out", str(folder / "toys.null")]
    assert not run.invoke(cli, ["calibrate", files[0], *null, *options]).exit_code
    assert not run.invoke(cli, ["test", *files, "--out", str(folder), *options]).exit_code
    assert [type(values) for values in kept] == [OnDisk, OnDisk, np.ndarray]
    assert {path.name for path in folder.iterdir()} == {"result.json", "report.html", "toys.null"}
    first, second = (json.loads((f / "result.json").read_text()) for f in (tmp_path / "a", folder))
    assert first["pvalue"] == second["pvalue"]


SCRIPT = """
import json, re, sys
from pathlib import Path
from gofstream.cli import cli

def most():  # of this process alone; what `getrusage` gives begins with the parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

found = []
for reference in ("small", "large"):
    out = ["--out", f"{reference}.null", "--quiet"]
    cli(["calibrate", f"{reference}.npy", *out, *sys.argv[1:]], standalone_mode=False)
    found.append(most())
print(json.dumps(found))
"""


@pytest.mark.slow
def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """A reference of 192 MB in double precision, with a budget of 80 MB.

    `gofstream calibrate` runs in a process of its own, first on a small reference, so that all that
    it needs is loaded, then on the large one. In between the largest resident memory of the process
    may grow by 1.1 times the budget.
    """
    rows, columns, budget = 1_500_000, 16, 80_000_000
    rng = np.random.default_rng(1)
    np.save(tmp_path / "small.npy", rng.standard_normal((20_000, columns), np.float32))
    shape = (rows, columns)
    large = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", dtype=np.float32, shape=shape)
    for start in range(0, rows, 250_000):
        large[start : start + 250_000] = rng.standard_normal((250_000, columns), np.float32)
    del large
    options = ["--set", "widths=[8.0]", "--set", "n_centres=12", "--expected", "300"]
    options += ["--toys", "10", "--threads", "1", "--memory", str(budget)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert not done.returncode, done.stderr
    before, peak = json.loads(done.stdout)
    assert peak - before < 1.1 * budget, (before, peak)
