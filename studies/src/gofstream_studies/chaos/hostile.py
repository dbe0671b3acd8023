"""A hostile inbox: what does not belong there comes between good batches, to a real run.

`gofstream watch` runs as a user starts it. Good batches of one series come one after another;
around them come names of 250 bytes, newlines, HTML, gaps of 10⁸, "(again)", pipes, links, folders
and archives of 70 000 arrays. Counted are good batches that were not learnt, those that took longer
than they may, and ends of the run.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import numpy as np

#: Seconds in which a good batch must be in the ledger, from the moment it has its name.
LONGEST_WAIT = 10.0
#: Arrays in an archive that is slow to open.
MEMBERS = 70_000
_EVENTS = 100


def hostile_inbox(batches: int, entries: int, seed: int) -> Counter[str]:
    """Run a watcher on a hostile inbox; count what came of it."""
    rng = random.Random(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        inbox, store, log = folder / "in", folder / "run.gofs", folder / "log"
        inbox.mkdir()
        np.save(folder / "reference.npy", _events(0, 20_000))
        archive = _archive(folder)
        put, learnt = dict[str, float](), dict[str, float]()
        kinds = list(_KINDS)
        plan = [kinds[number % len(kinds)] for number in range(entries)]
        rng.shuffle(plan)
        with log.open("w") as out:
            process = subprocess.Popen(
                _command(folder, inbox, store), stdout=subprocess.PIPE, stderr=out, text=True
            )
            reader = threading.Thread(target=_follow, args=(process, learnt))
            reader.start()
            # From when the watcher is at work: preparing the reference is not its inbox's fault.
            _good(inbox, 0)
            while "run7-0000" not in learnt and process.poll() is None:
                time.sleep(0.1)
            for number in range(1, batches + 1):
                share = plan[(number - 1) * entries // batches : number * entries // batches]
                for place, kind in enumerate(share):
                    _KINDS[kind](inbox, number * 1000 + place, archive)
                _good(inbox, number)
                put[f"run7-{number:04d}"] = time.monotonic()
                time.sleep(0.2)
            end = time.monotonic() + 3 * LONGEST_WAIT
            while len(put.keys() - learnt.keys()) and process.poll() is None:
                if time.monotonic() > end:
                    break
                time.sleep(0.1)
            # A bad file is put aside after a while; the run must survive that too.
            while _remaining(inbox) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
            ended = process.poll() is not None
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
            reader.join()
        waits = [learnt[each] - put[each] for each in put.keys() & learnt.keys()]
        counts = Counter(
            {
                "good": batches,
                "hostile": entries,
                "learnt": len(waits),
                "good batches not learnt": batches - len(waits),
                "good batches late": sum(wait > LONGEST_WAIT for wait in waits),
                "the watcher ended": int(ended),
                "longest wait in ms": int(1000 * max(waits, default=0.0)),
                "put aside": len(list((inbox / "quarantine").glob("*.txt"))),
                "still in the inbox": len(_remaining(inbox)),
            }
        )
        if ended:
            sys.stderr.write(log.read_text()[-1000:] + "\n")
        if missing := sorted(put.keys() - learnt.keys()):
            sys.stderr.write(f"not learnt: {', '.join(missing)}\n")
        return counts


def _command(folder: Path, inbox: Path, store: Path) -> list[str]:
    here = Path(sys.executable).with_name("gofstream")
    return [
        *(str(here), "watch", str(folder / "reference.npy"), "--inbox", str(inbox)),
        *("--store", str(store), "--expected", str(_EVENTS), "--false-alarm-every", "0"),
        *("--set", "widths=[0.5]", "--set", "n_centres=30", "--json", "--quiet"),
        *("--patience", "2"),
    ]


def _follow(process: subprocess.Popen[str], learnt: dict[str, float]) -> None:
    """Take note when a batch was said to be learnt."""
    assert process.stdout is not None
    for line in process.stdout:
        entry = json.loads(line)
        if entry["state"] == "learnt":
            name = entry["name"].removesuffix(" (again)")
            learnt.setdefault(name, time.monotonic())


def _remaining(inbox: Path) -> list[str]:
    return [path.name for path in inbox.iterdir() if path.name not in ("quarantine", "done")]


def _events(seed: int, count: int = _EVENTS) -> np.ndarray:
    return np.random.default_rng([7, seed]).exponential(size=(count, 1))


def _write(inbox: Path, name: str, seed: int) -> None:
    """Let the file of a batch appear, whole."""
    content = io.BytesIO()
    np.save(content, _events(seed))
    (inbox / ".writing").write_bytes(content.getvalue())
    os.rename(inbox / ".writing", os.fsencode(inbox) + b"/" + os.fsencode(name))


def _good(inbox: Path, number: int) -> None:
    _write(inbox, f"run7-{number:04d}.npy", number)


def _archive(folder: Path) -> Path:
    """Write an archive of many small arrays, once for all."""
    content = io.BytesIO()
    np.save(content, np.arange(3.0))
    path = folder / "many.npz"
    with ZipFile(path, "w") as archive:
        for number in range(MEMBERS):
            archive.writestr(f"c{number}.npy", content.getvalue())
    return path


def _again(inbox: Path, number: int, _: Path) -> None:
    """Put another batch under a name that is taken, or under one that a refused one gets."""
    name = f"run7-{max(1, number // 1000 - 5):04d}"
    _write(inbox, f"{name}{' (again)' * (number % 2)}.npy", number)


def _gap(inbox: Path, number: int, _: Path) -> None:
    """Put a number far ahead into the series of the good ones; half of them hold events."""
    name = f"run7-{10**8 + 7 * number}.npy"
    if number % 2:
        _write(inbox, name, number)
    else:
        (inbox / name).write_bytes(b"\x93NUMPY junk")


def _near(inbox: Path, number: int, _: Path) -> None:
    """Put junk a little ahead, under the name of a good batch that is still to come."""
    (inbox / f"run7-{number // 1000 + 20:04d}.csv").write_bytes(b"\0junk")


def _agreeing(inbox: Path, number: int, _: Path) -> None:
    """Put a name of 200 characters, in a series with gaps."""
    _write(inbox, f"{'n' * 190}{number:010d}.npy", number)


_KINDS: dict[str, Callable[[Path, int, Path], None]] = {
    "250 bytes": lambda inbox, n, _: _write(inbox, f"{n:08d}{'é' * 119}.npy", n),
    "255 bytes": lambda inbox, n, _: _write(inbox, f"{n:08d}{'x' * 247}", n),
    "200 characters": _agreeing,
    "newline": lambda inbox, n, _: _write(inbox, f"a\n{n}\x1b[2J.npy", n),
    "no text": lambda inbox, n, _: _write(inbox, f"a\udcff{n}.npy", n),
    "HTML": lambda inbox, n, _: _write(inbox, f"<img src=x onerror=alert({n})>.npy", n),
    "gap": _gap,
    "near": _near,
    "again": _again,
    "pipe": lambda inbox, n, _: os.mkfifo(inbox / f"pipe{n}.npy"),
    "link": lambda inbox, n, _: os.symlink("/etc/passwd", inbox / f"link{n}.csv"),
    "link in a circle": lambda inbox, n, _: os.symlink(f"circle{n}", inbox / f"circle{n}"),
    "folder": lambda inbox, n, _: os.mkdir(inbox / f"run7-{n // 1000 + 40:04d}.d"),
    "archive": lambda inbox, n, path: os.link(path, inbox / f"many{n}.npz"),
}
