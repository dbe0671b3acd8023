"""Short versions of `make chaos`: nothing acknowledged is lost, nothing is read wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos.__main__ import BAD
from chaos.inject import Fault, run
from chaos.judge import judge

from gofstream.stream.reader import Reader

ROOT = Path(__file__).parents[1]


def chaos(*arguments: str) -> list[dict[str, Any]]:
    """Run it in a process of its own, which forks; give what it counted."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "chaos", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_damaged_files() -> None:
    """60 flipped bits and 60 cut ends: each reported, or of no consequence."""
    flipped, cut = chaos("damage", "--times", "60")
    assert flipped["damaged"] == cut["damaged"] == 60
    assert flipped["reported, batch named"] >= 5
    assert cut["reported"] >= 55
    assert not any(flipped[bad] or cut[bad] for bad in BAD)


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_killed_in_each_call(journal: str) -> None:
    """A run of one batch, its making included, killed in every call that touches the disk."""
    (counts,) = chaos("kills", "--batches", "1", "--journal", journal)
    assert counts["runs"] >= 60
    assert counts["pwrite64 KILL"] >= 20
    assert counts["fdatasync KILL"] >= 4
    assert counts["write KILL"] == 1
    assert not any(counts[bad] for bad in BAD)
