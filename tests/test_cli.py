"""The command line, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from matplotlib.image import imread

from gofstream import STATISTICS, __version__
from gofstream.cli import cli


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own."""
    command = [str(Path(sys.executable).parent / "gofstream"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_demo_prints_a_table_and_draws_a_picture(tmp_path: Path) -> None:
    """All six statistics at all five widths, and a picture that is not blank."""
    picture = tmp_path / "new" / "demo.png"
    done = run("demo", "--seed", "3", "--out", str(picture))
    assert done.returncode == 0, done.stderr
    for name in STATISTICS:
        row = next(line for line in done.stdout.splitlines() if f"│ {name} " in line)
        assert len(row.split("│")) == 2 + 1 + 5
        assert all(float(cell) > -100 for cell in row.split("│")[2:-1])
    assert str(picture) in done.stdout.replace("\n", "")
    pixels = imread(picture)
    assert pixels.shape[0] > 500
    assert pixels.std() > 0.05


def test_demo_repeats_with_the_same_seed(tmp_path: Path) -> None:
    """The same seed gives the same table, another seed another one."""
    tables = []
    for seed in ("4", "4", "5"):
        result = CliRunner().invoke(
            cli, ["demo", "--seed", seed, "--signal", "none", "--out", str(tmp_path / "a.svg")]
        )
        assert result.exit_code == 0, result.output
        tables.append([line for line in result.output.splitlines() if "│" in line])
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


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
def test_mistakes_end_with_one_message_and_code_two(arguments: list[str], message: str) -> None:
    """A user's mistake shows no traceback."""
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_version() -> None:
    """The command says which version it is."""
    assert __version__ in run("--version").stdout
