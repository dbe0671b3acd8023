"""The command line, as a user types it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.image import imread

from gofstream import STATISTICS, __version__
from gofstream.cli import cli, main
from gofstream.cli.options import Running
from gofstream.settings import Settings, preset


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own."""
    command = [str(Path(sys.executable).parent / "gofstream"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def rows(text: str) -> dict[str, list[str]]:
    """Pick the lines of the table: the values of each statistic, by width."""
    found = (line.split() for line in text.splitlines() if " + " not in line)
    return {words[0]: words[1:] for words in found if words and words[0] in STATISTICS}


@pytest.mark.slow
def test_demo_gives_a_verdict_and_draws_pictures(tmp_path: Path) -> None:
    """Every statistic at every width with p and Z; pictures; toys of another seed are refused."""
    picture = tmp_path / "new" / "demo.png"
    done = run("demo", "--seed", "3", "--toys", "12", "--out", str(picture))
    assert done.returncode == 0, done.stderr
    table = rows(done.stdout)
    assert list(table) == list(STATISTICS)
    assert all(len(values) == 5 for values in table.values())
    for name in ("all + scan", "sat + next + scan", "scan, t = "):
        assert f"\n{name}" in done.stdout
    p_lines = [line.split() for line in done.stdout.splitlines() if line.startswith("   p ")]
    assert len(p_lines) == 6
    for line in p_lines:
        *p, z = (float(word.rstrip("*")) for word in line[1:])
        assert len(p) == 6
        assert all(0 < value <= 1 for value in p)
        assert -3 < z < 40
    for path in (picture, picture.with_stem("demo-null")):
        assert path.name in done.stdout.replace("\n", "")
        pixels = imread(path)
        assert pixels.shape[0] > 500
        assert pixels.std() > 0.05
    assert picture.with_suffix(".null").exists()
    done = run("demo", "--seed", "5", "--toys", "12", "--out", str(picture))
    assert done.returncode == 2
    assert "the reference has other rows, columns or weights" in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_demo_repeats_with_the_same_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same verdict from toys made or kept, another seed another one."""
    small = preset("expo1d").model_copy(update={"n_reference": 10_000, "expected": 1600})
    monkeypatch.setattr("gofstream.cli.demo.preset", lambda name: small)
    tables = []
    for name, seed in (("a", "4"), ("a", "4"), ("b", "5")):
        out = tmp_path / f"{name}.svg"
        arguments = ["demo", "--seed", seed, "--toys", "10", "--signal", "none", "--out", str(out)]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        p_lines = [line for line in result.output.splitlines() if line.startswith("   p ")]
        tables.append((rows(result.output), p_lines))
    assert tables[0] == tables[1] != tables[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--signal", "nope"], "'nope' is not one of"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--out", "picture.xyz"], "end the name in one of .png, .pdf, .svg"),
        (["demo", "--out", "/proc/nowhere/picture.png"], "/proc/nowhere"),
        (["nope"], "No such command 'nope'"),
    ],
)
def test_mistakes_end_with_one_message_and_code_two(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user's mistake shows no traceback."""
    monkeypatch.setattr(sys, "argv", ["gofstream", *arguments])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_version() -> None:
    """The command says which version it is."""
    assert __version__ in run("--version").stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_toys_and_says_how_to_go_on(number: int, tmp_path: Path) -> None:
    """Stopped in the middle: one message, code 130; the same command then finishes."""
    reference, null = tmp_path / "reference.npy", tmp_path / "toys.null"
    np.save(reference, np.random.default_rng(1).exponential(size=(30_000, 1)))
    gofstream = str(Path(sys.executable).parent / "gofstream")
    command = [gofstream, "calibrate", str(reference), "--expected", "400", "--batches", "4"]
    command += ["--toys", "200", "--out", str(null)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 60
    while kept_blocks(null) < 3 and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130, message
    assert "goes on from there" in message
    assert "Traceback" not in message
    kept = kept_blocks(null)
    assert run(*command[1:]).returncode == 0
    assert 3 <= kept < kept_blocks(null)


def kept_blocks(path: Path) -> int:
    """Count the blocks in a null file that somebody else may be writing."""
    try:
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            return int(connection.execute("SELECT count(*) FROM blocks").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_as_many_workers_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--threads` counts threads, or the workers that `--dask` starts."""
    asked: list[tuple[object, ...]] = []
    for name in ("thread_workers", "dask_workers"):
        monkeypatch.setattr(f"gofstream.cli.options.{name}", lambda *given: asked.append(given))
    options = {"seed": 1, "settings": Settings(), "json": False, "quiet": True}
    Running(threads=3, dask=None, **options).workers()  # type: ignore[arg-type]
    Running(threads=64, dask="slurm", **options).workers()  # type: ignore[arg-type]
    assert asked == [(3,), ("slurm", 64)]


@pytest.mark.parametrize(
    ("command", "offered"),
    [("test", True), ("calibrate", True), ("power", True), ("watch", False), ("replay", False)],
)
def test_devices_are_offered_where_they_can_be_used(command: str, offered: bool) -> None:
    """A stream works with numpy only."""
    assert ("--device" in CliRunner().invoke(cli, [command, "--help"]).output) is offered
