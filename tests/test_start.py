"""How a command starts and is stopped: what is imported, how fast, and what Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import click
import numpy as np
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from threadpoolctl import threadpool_info

import gofstream
from gofstream.cli import cli
from gofstream.cli.group import COMMANDS, ENTRY_POINTS, STUDIES
from gofstream.errors import InputError

GOFSTREAM = str(Path(sys.executable).parent / "gofstream")
#: Packages that plot, serve, read files or reach other machines: none is needed to start.
HEAVY = {
    *("awkward", "dask", "distributed", "h5py", "hist", "jinja2", "loky", "matplotlib", "mplhep"),
    *("plotly", "pyarrow", "starlette", "torch", "uproot", "uvicorn"),
}
SHOW_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def modules_after(code: str) -> set[str]:
    """Run code in a fresh interpreter, and list the packages it has imported."""
    command = [sys.executable, "-c", f"{code}\n{SHOW_MODULES}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def seconds(*command: str) -> float:
    """Time a command, the fastest of five runs."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - begun)
    return min(times)


HELP = "import gofstream.cli.group as group\ntry: group.cli(['--help'])\nexcept SystemExit: pass"


@pytest.mark.parametrize("code", ["import gofstream", HELP], ids=["import", "help"])
def test_start_imports_neither_numpy_nor_anything_larger(code: str) -> None:
    """The package and the list of commands need none of the libraries that compute or draw."""
    assert not modules_after(code) & (HEAVY | {"numpy", "pydantic", "rich", "scipy"})


def test_commands_import_plotting_and_readers_when_they_use_them() -> None:
    """What a command needs only at its end, or for one format, is not imported at its start."""
    names = ("calibrate", "describe", "power", "test", "watch")
    assert not modules_after("\n".join(f"import gofstream.cli.{name}" for name in names)) & HEAVY


def test_start_is_fast() -> None:
    """Against numpy and scipy.linalg (0.15 s where this was specified): 0.4 s and 0.6 s."""
    unit = seconds(sys.executable, "-c", "import numpy, scipy.linalg")
    assert seconds(sys.executable, "-c", "import gofstream") < 0.4 / 0.15 * unit
    assert seconds(GOFSTREAM, "--help") < 0.6 / 0.15 * unit


def test_names_of_the_package_come_from_their_modules() -> None:
    """Each public name is defined somewhere else, is listed by `dir`, and is found there once."""
    for name in gofstream.__all__:
        value = getattr(gofstream, name)
        assert value is getattr(gofstream, name)
        module = getattr(value, "__module__", None)
        if module is not None and module.startswith("gofstream"):
            assert getattr(import_module(module), name) is value
    assert set(gofstream.__all__) <= set(dir(gofstream))
    with pytest.raises(AttributeError, match="module 'gofstream' has no attribute 'nplm_tset'"):
        getattr(gofstream, "nplm_" + "tset")


@pytest.mark.parametrize("name", [*COMMANDS, *STUDIES])
def test_list_of_commands_repeats_their_help(name: str) -> None:
    """The first paragraph of a command's own help is what `gofstream --help` shows."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ") == (COMMANDS | STUDIES)[name]


def test_every_command_is_listed_and_completed() -> None:
    """No module of a command is forgotten; the shell completes its name."""
    folder = Path(import_module("gofstream.cli").__file__ or "").parent
    defined = {
        path.stem for path in folder.glob("*.py") if f"\ndef {path.stem}(" in path.read_text()
    }
    assert defined == set(COMMANDS)
    words = ShellComplete(cli, {}, "gofstream", "_GOFSTREAM_COMPLETE").get_completions([], "re")
    assert [word.value for word in words] == ["replay", "report"]


def test_commands_of_the_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are entry points of the other distribution; without it, what to install is said."""
    named = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    assert named == set(STUDIES)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.entry_points", lambda **_: ())
        with pytest.raises(InputError, match="`gofstream paper` is part of gofstream-studies"):
            cli.get_command(click.Context(cli), "paper")


def test_commands_compute_with_one_blas_thread() -> None:
    """Libraries are limited after they were loaded, and given back afterwards."""
    with cli.make_context("gofstream", ["plan"]) as context:
        cli.resolve_command(context, ["plan"])
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}


# -- Ctrl-C ---------------------------------------------------------------------------------------


def begin(*words: str | Path) -> subprocess.Popen[str]:
    """Start the command, and wait until it has taken SIGTERM over, before its imports."""
    process = subprocess.Popen(
        [GOFSTREAM, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    status = Path(f"/proc/{process.pid}/status")
    limit = time.monotonic() + 20
    while time.monotonic() < limit and process.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if "SigCgt" in line)
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return process
        time.sleep(0.001)
    raise AssertionError(f"{words} has not started: {process.communicate()}")


def stop(process: subprocess.Popen[str], number: int = signal.SIGINT) -> list[str]:
    """Stop a command as a terminal does; check its exit code, and give the lines it has said."""
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    return said.splitlines()


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3])
def test_ctrl_c_while_a_command_starts_is_one_line(delay: float, tmp_path: Path) -> None:
    """In the first tenths of a second, while modules are imported, too."""
    fifo = tmp_path / "reference.npy"
    os.mkfifo(fifo)
    process = begin("test", fifo, fifo)
    time.sleep(delay)
    assert process.poll() is None, process.communicate()
    assert len(stop(process)) == 1


def wait_for_open_file(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until the command has a file of a folder open."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                if link.readlink().is_relative_to(folder):
                    return
            except OSError:  # closed meanwhile
                continue
    raise AssertionError(process.communicate())


def test_ctrl_c_while_reading_is_one_line(tmp_path: Path) -> None:
    """Code 130, not that of an anomaly, and no "Aborted!"."""
    reference = tmp_path / "reference.npy"
    np.lib.format.open_memmap(reference, mode="w+", dtype="f8", shape=(4_000_000, 5)).flush()
    process = begin("test", reference, reference, "--quiet", "--out", tmp_path / "out")
    wait_for_open_file(process, tmp_path)
    assert stop(process) == ["gofstream: stopped; the same command starts again"]


#: Stands for what numpy does: an interrupt in a question of its own becomes another exception.
LOST = """
import os, signal, sys
import gofstream.cli
from gofstream.errors import FormatError
from gofstream.cli import describe as module

def lose(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    except KeyboardInterrupt:
        raise FormatError("x.npy: cannot be read") from None

module.describe.callback = lose
sys.argv = ["gofstream", "describe", "x.npy"]
gofstream.cli.main()
"""


def test_an_interrupt_that_gets_lost_still_stops() -> None:
    """Another exception may take the place of `KeyboardInterrupt`: one line and 130 anyway."""
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.splitlines()) == (
        130,
        ["gofstream: stopped; the same command starts again"],
    )


def test_sigterm_while_writing_is_one_line(tmp_path: Path) -> None:
    """A polite kill ends a command in the same way."""
    process = begin("example", tmp_path)
    wait_for_open_file(process, tmp_path)
    assert stop(process, signal.SIGTERM) == ["gofstream: stopped; the same command starts again"]


def test_toys_without_events_are_toys(tmp_path: Path) -> None:
    """With 0.1 events expected most toys have none, the first one too; so with 1 a third."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "reference.npy", rng.normal(size=(2000, 1)))
    np.save(tmp_path / "data.npy", rng.normal(size=(1, 1)))
    files = str(tmp_path / "reference.npy"), str(tmp_path / "data.npy")
    words = ["test", *files, "--expected", "0.1", "--toys", "20", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
