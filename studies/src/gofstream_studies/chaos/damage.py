"""Flipped bits and cut ends: what is read afterwards is what was written, or an error."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gofstream.errors import FormatError, GofstreamError
from gofstream.stream.store import Store
from gofstream_studies.chaos.judge import everything
from gofstream_studies.chaos.writer import ABOUT, RETENTION, digest, made, name

BATCHES = 12
Change = Callable[[bytes, random.Random], tuple[bytes, int]]


def flip(content: bytes, rng: random.Random) -> tuple[bytes, int]:
    """Flip one bit; give also where it was."""
    changed = bytearray(content)
    at = rng.randrange(len(content))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed), at


def cut(content: bytes, rng: random.Random) -> tuple[bytes, int]:
    """Cut the end off; nothing that is left belongs to one batch."""
    return content[: rng.randrange(len(content))], -1


def damage(change: Change, times: int, seed: int) -> Counter[str]:
    """Damage a small store again and again, and count what came of it."""
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.gofs"
        with Store.create(path, ABOUT, RETENTION) as store:
            for number in range(1, BATCHES + 1):
                entry, rest = made(number)
                store.append(entry, **rest)
            store.acknowledge(4, by="the shift", at=1.7e9)
        content, right = path.read_bytes(), everything(path)
        owner = owners(content)
        for _ in range(times):
            changed, at = change(content, rng)
            path.write_bytes(changed)
            counts["damaged"] += 1
            counts[_read(path, right, owner.get(at))] += 1
            counts["offered again and taken for new"] += _taken_for_new(path)
    return counts


def owners(content: bytes) -> dict[int, int]:
    """Tell to which batch each byte belongs, where that can be seen: by what was put in."""
    found: dict[int, int] = {}
    for number in range(1, BATCHES + 1):
        for piece in _pieces(number):
            at = content.find(piece)
            while at >= 0:
                found |= dict.fromkeys(range(at, at + len(piece)), number)
                at = content.find(piece, at + 1)
    return found


def _pieces(number: int) -> Iterator[bytes]:
    entry, rest = made(number)
    yield entry.name.encode()
    yield entry.digest.encode()
    yield rest["events"]
    yield from rest["models"].values()
    yield from rest["scores"].values()
    for statistic in entry.statistics:
        yield struct.pack(">dd", statistic.t, statistic.u)
    if scan := rest.get("scan"):
        yield scan.epoch
        yield scan.run
    if alarm := rest.get("alarm"):
        yield struct.pack(">dd", alarm.u, alarm.boundary)


def _read(path: Path, right: dict[str, Any], owner: int | None) -> str:
    try:
        same = everything(path) == right
    except FormatError as error:
        if owner is None:
            return "reported"
        named = f"batch {owner}:" in str(error) or f"batch {owner} " in str(error)
        return "reported, batch named" if named else "reported without the batch"
    except GofstreamError:
        return "reported as another error"
    return "nothing changed" if same else "CHANGED SILENTLY"


def _taken_for_new(path: Path) -> int:
    """Count batches that a writer would not recognise, so that they would be counted twice."""
    try:
        with Store(path) as store:
            return sum(
                store.find(name(number), digest(number)) is None for number in range(1, BATCHES + 1)
            )
    except GofstreamError:
        return 0
