"""Short versions of `make chaos`: nothing acknowledged is lost, nothing is read wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gofstream.stream.rows import Entry, Retention
from gofstream.stream.store import Store
from gofstream_studies.chaos.__main__ import BAD
from gofstream_studies.chaos.inject import Fault, run
from gofstream_studies.chaos.judge import judge

ROOT = Path(__file__).parents[2]


def chaos(*arguments: str) -> list[dict[str, Any]]:
    """Run it in a process of its own, which forks; give what it counted."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "gofstream_studies.chaos", *arguments],
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
def test_killed_in_calls(journal: str) -> None:
    """A run of two batches, its making included, killed in one call out of fourteen."""
    (counts,) = chaos("kills", "--batches", "2", "--stride", "14", "--journal", journal)
    assert counts["runs"] >= 12
    assert counts["pwrite64 KILL"] >= 4
    assert counts["write KILL"] == 1
    assert not any(counts[bad] for bad in BAD)


def test_failing_calls() -> None:
    """The disk is full, or broken, once or from then on: told, and nothing is lost."""
    found = chaos("faults", "--batches", "1", "--stride", "14")
    assert [f"{f['what']}" for f in found] == [
        f"{error} in each call{more}"
        for error in ("ENOSPC", "EIO")
        for more in ("", " from then on")
    ]
    for counts in found:
        assert counts["runs"] >= 6
        assert counts["errors told"] >= 2
        assert not any(counts[bad] for bad in BAD)


def test_a_monitor_killed_and_with_failing_disks() -> None:
    """A real one, in the middle of learning and applying: the same bits as without an accident."""
    found = chaos("monitor", "--batches", "3", "--stride", "110", "--times", "3")
    assert [counts["what"] for counts in found][1] == "monitor: ENOSPC in each call"
    for counts in found[:3]:
        assert counts["runs"] >= 2
    assert found[3]["kills"] == 3
    assert not any(counts[bad] for counts in found for bad in BAD)


@pytest.mark.slow
def test_a_hostile_inbox() -> None:
    """Two of everything that does not belong there, between fourteen good batches."""
    (counts,) = chaos("inbox", "--hostile", "28")
    assert counts["learnt"] == counts["good"] == 14
    assert counts["put aside"] >= 14
    assert not any(counts[bad] for bad in BAD)


def test_a_command_can_be_killed_in_a_call(tmp_path: Path) -> None:
    """Of the files that are watched, by count; without the fault the same command ends well."""
    code = "import os; f = os.open('watched', 66); [os.pwrite(f, b'x', i) for i in range(5)]"
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {code}"]
    watched = tmp_path / "watched"
    outcome = run(command, ["pwrite64"], [watched])
    assert (outcome.code, outcome.calls) == (0, ("pwrite64",) * 5)
    watched.unlink()
    outcome = run(command, ["pwrite64"], [watched], Fault("pwrite64", 4, "KILL"))
    assert outcome.code == -9
    assert watched.read_bytes() == b"xxx"


def test_the_judge_sees_what_is_lost_or_twice(tmp_path: Path) -> None:
    """Otherwise its silence would mean nothing."""
    path = tmp_path / "run.gofs"
    assert judge(path, {"a": "1"}).lost == ("a",)
    with Store.create(path, {}, Retention("sat")) as store:
        for number, (name, digest) in enumerate([("a", "1"), ("b", "2"), ("c", "2")], start=1):
            store.append(Entry(number, name, digest, 0.0, 1, 1.0))
    verdict = judge(path, {"a": "1", "b": "3", "d": "4"})
    assert (verdict.batches, verdict.lost, verdict.twice) == (3, ("b", "d"), ("b", "c"))
