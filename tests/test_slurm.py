"""`gofstream calibrate --dask slurm` on a real Slurm gives the bits of threads."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.slurm import jobs, slurm

#: Blocks enough that jobs are at work for some seconds after the first one is cancelled.
TOYS = 320
WORDS = (
    "reference.npy", "--expected", "300", "--batches", "2", "--toys", str(TOYS), "--seed", "3",
    "--set", "widths=[0.3, 1.0]", "--set", "n_centres=100", "--quiet",
)  # fmt: skip

JOBQUEUE = """\
jobqueue:
  slurm:
    cores: 1
    memory: 3GB
    walltime: "00:20:00"
    interface: lo
    local-directory: {folder}
    log-directory: {folder}/logs
    death-timeout: 60
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start Slurm, and tell dask-jobqueue about its jobs."""
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "dask").mkdir()
    (folder / "dask" / "jobqueue.yaml").write_text(JOBQUEUE.format(folder=folder))
    with slurm(folder) as environment:
        yield environment | {"DASK_CONFIG": str(folder / "dask")}


class Calibrating:
    """A calibration in a process of its own, what it says in a file beside its null file."""

    def __init__(self, path: Path, environment: dict[str, str], *words: str) -> None:
        self.path, self.said = path, path.with_suffix(".log")
        command = [str(Path(sys.executable).with_name("gofstream")), "calibrate", *WORDS]
        with self.said.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--out", path.name, *words],
                cwd=path.parent,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def blocks(self) -> list[tuple[object, ...]]:
        """Wait for the end, and give every block of the null file."""
        assert self.process.wait(timeout=300) == 0, self.said.read_text()
        return blocks(self.path)


def blocks(path: Path) -> list[tuple[object, ...]]:
    """Read every block of a null file, in the order of its number; none before it is there."""
    if not path.exists() or not path.stat().st_size:
        return []
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        return connection.execute("SELECT * FROM blocks ORDER BY width, block").fetchall()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_jobs_have_the_bits_of_threads(environment: dict[str, str], tmp_path: Path) -> None:
    """Two jobs, and two of which one is cancelled in the middle: the same null file."""
    np.save(tmp_path / "reference.npy", np.random.default_rng(1).normal(size=(30_000, 2)))
    expected = Calibrating(tmp_path / "threads.null", environment).blocks()
    assert len(expected) > 20

    far = Calibrating(tmp_path / "jobs.null", environment, "--dask", "slurm", "--threads", "2")
    assert far.blocks() == expected

    cut = Calibrating(tmp_path / "cut.null", environment, "--dask", "slurm", "--threads", "2")
    end = time.monotonic() + 120
    while len(running := jobs(environment)) < 2 or len(blocks(cut.path)) < 2:
        assert time.monotonic() < end
        assert cut.process.poll() is None, cut.said.read_text()
        time.sleep(0.05)
    before = len(blocks(cut.path))
    subprocess.run(["scancel", running[0]], env=environment, check=True)
    assert before < len(expected) - 4, "the jobs were done before one of them could be cancelled"
    assert cut.blocks() == expected
