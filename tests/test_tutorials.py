"""The tutorials do what they say: their blocks are run in order, in one folder each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gofstream.report.record import Record

NOTEBOOKS = Path(__file__).parent.parent / "examples"
DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = [
    *sorted(DOCS.glob("tutorials/*-*.md")),
    *(DOCS / "how-to" / f"{name}.md" for name in ("clusters", "how-many-toys")),
]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Give the kind and the text of every block that is to be run."""
    return re.findall(r"```(sh|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial(page: Path, tmp_path: Path) -> None:
    """Every block ends well, and leaves what the page speaks of."""
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONWARNINGS": "error"}
    assert blocks(page)
    for kind, text in blocks(page):
        command = ["bash", "-euc", text] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    if page.stem == "first-test":
        found = Record.load(tmp_path / "gofstream-test" / "result.json")
        assert abs(found.regions[0].ranges[0].median - 4) < 0.1
        assert found.anomalous
        assert (tmp_path / "gofstream-power" / "power.png").exists()
        assert sorted(path.name for path in (tmp_path / "prepared").iterdir()) == ["toys.null"]
    if page.stem == "own-root-file":
        found = Record.load(tmp_path / "dimuon" / "result.json")
        masses = [row[-1] for row in found.events.values]
        assert found.events.columns[-1] == "mll"
        assert 250 < sorted(m for m in masses if m is not None)[len(masses) // 2] < 350


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-test", "power"])
def test_notebook(name: str, tmp_path: Path) -> None:
    """The cells run one after another, with warnings as errors."""
    content = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in content["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 4
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(cells)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    if name == "first-test":
        (region,) = Record.load(tmp_path / "result.json").regions
        assert all(abs(column.median - 2) < 0.2 for column in region.ranges)
        assert (tmp_path / "report.html").stat().st_size > 10_000
