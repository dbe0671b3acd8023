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
