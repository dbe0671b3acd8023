"""What is left of a store after an accident, and whether that is all that was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gofstream.stream.reader import Reader
from gofstream.stream.verify import verify


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many batches a store holds, which acknowledged ones it lost, which it has twice."""

    batches: int
    lost: tuple[str, ...]
    twice: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Nothing lost, nothing twice."""
        return not self.lost and not self.twice


def judge(path: Path, acknowledged: Mapping[str, str]) -> Judgement:
    """Read a store that something happened to.

    Parameters
    ----------
    path : the store, which need not be there if nothing was acknowledged.
    acknowledged : digest by name of every batch that a writer was told is safe.

    Raises
    ------
    FormatError
        If it is damaged: an accident of the writer must not do that.
    """
    if not path.exists():
        return Judgement(0, tuple(acknowledged), ())
    with Reader(path) as reader:
        verify(reader)
        entries = reader.entries()
    there = {entry.name: entry.digest for entry in entries}
    digests = Counter(entry.digest for entry in entries if entry.digest)
    return Judgement(
        len(entries),
        tuple(name for name, digest in acknowledged.items() if there.get(name) != digest),
        tuple(entry.name for entry in entries if digests[entry.digest] > 1),
    )


def everything(path: Path) -> dict[str, Any]:
    """Read all that can be read; two stores with equal content give equal values."""
    with Reader(path) as reader, reader.snapshot():
        batches = range(1, reader.head().batches + 1)
        return {
            "about": reader.about(),
            "head": reader.head(),
            "entries": reader.entries(),
            "models": [reader.models(batch) for batch in batches],
            "scores": [reader.scores(batch) for batch in batches],
            "events": [reader.events(batch) for batch in batches],
            "kept": reader.kept(),
            "alarms": reader.alarms(),
            "checkpoint": reader.checkpoint(),
            "scan": reader.scan(),
        }
