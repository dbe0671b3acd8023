"""What users rely on: the public names, and the code shown in the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gofstream

ROOT = Path(__file__).parents[1]


def test_public_names_are_pinned() -> None:
    """Adding or removing a public name is a decision, made here."""
    assert gofstream.__all__ == [
        "STATISTICS",
        "Aggregate",
        "Calibration",
        "GofstreamError",
        "GofstreamWarning",
        "Injected",
        "Learner",
        "Learnt",
        "LogRatio",
        "LogRatios",
        "NullTable",
        "PermutationPlan",
        "Pool",
        "PowerStudy",
        "Preset",
        "ReferencePlan",
        "RunningRatio",
        "Sample",
        "Settings",
        "Simulator",
        "TestResult",
        "__version__",
        "calibrate",
        "dask_workers",
        "nplm_test",
        "power_study",
        "preset",
        "process_workers",
        "thread_workers",
    ]
    assert all(hasattr(gofstream, name) for name in gofstream.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/results/paper.md"])
def test_code_shown_runs(page: str, tmp_path: Path) -> None:
    """The Python shown does what it says, with warnings as errors."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert "\nall " in done.stdout or (tmp_path / "power.png").exists()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """CI calls lint, exactly the test command that the README gives, and the long tests."""
    commands = [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")
    ]
    assert commands == ["make lint", "make test", "make test-slow"]
    assert "\nmake test " in (ROOT / "README.md").read_text()


def test_importing_seeds_and_prints_nothing() -> None:
    """The library leaves the global generator and the terminal alone."""
    code = (
        "import numpy as np; before = np.random.get_state()[1].copy();"
        "import gofstream, gofstream.cli; assert (np.random.get_state()[1] == before).all()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_page_of_rooms_names_modules_that_exist() -> None:
    """Each path of its tables, those of the studies in their own folder; no module is left out."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    library, studies = text.split("gofstream-studies, under")
    for rows, folder in ((library, "src/gofstream"), (studies, "studies/src/gofstream_studies")):
        named: set[Path] = set()
        for row in re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE):
            paths = [Path(name) for name in re.findall(r"`([\w./]+)`", row)]
            named |= {path if "/" in str(path) else paths[0].parent / path for path in paths}
        assert len(named) > 5
        missing = [path for path in named if not (ROOT / folder / path).exists()]
        assert not missing
        modules = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.py")}
        rooms = {path for path in named if not path.suffix}
        left_out = {
            path
            for path in modules - named
            if path.name not in ("__init__.py", "__main__.py") and not rooms & set(path.parents)
        }
        assert not left_out
