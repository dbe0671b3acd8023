"""A folder that is watched: every file that appears in it is a batch.

The folder is the queue, and it outlives the program: a file stays until its batch was acknowledged.
Nothing in it is trusted: what is no plain file with a plain name is put aside unopened.
"""

from __future__ import annotations

import os
import stat
import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gofstream.errors import (
    GofstreamError,
    InputError,
    MemoryBudgetError,
    StoppedError,
    printable,
)
from gofstream.files import write_whole
from gofstream.stream.decode import BESIDE, Decoder, companion_path
from gofstream.stream.files import troubles
from gofstream.stream.names import BatchName, natural
from gofstream.stream.sources import Arrival, Lag, submit

QUARANTINE, DONE = "quarantine", "done"
#: How files end that are not there to be read: still being written, or beside a batch.
NOT_BATCHES = (".tmp", ".part", ".partial", BESIDE)
#: Seconds for which a batch that is being written keeps its place in the order.
LONGEST_WRITING = 600.0
# Files opened in one scan, or about to be: ten thousand must not hold up the first of them.
_AT_ONCE = 100
# Bytes of a name: file systems allow 255, and what is put before and behind it must find room.
_LONGEST_FILE = 200


@dataclass(slots=True)
class _File:
    """A file in the folder, as it was last seen; `name` is the identity of its batch."""

    name: BatchName
    path: Path
    found: os.stat_result
    seen: float
    arrived: float
    unchanged: float
    look: Future[str] | None = None
    looked: bool = False
    ready: float | None = None
    problem: str = ""


class Inbox:
    """Batches from a folder.

    A file is a batch when it has not changed for `settle` seconds and can be opened. One that
    cannot, as when its writer has not come to the end, is waited for; once it has not changed for
    `give_up` seconds it is bad. The identity of a batch is the name of its file without the ending.
    Files that begin with a dot, or end in .tmp, .part or .partial, are left alone.

    Parameters
    ----------
    folder : the one to watch; it is made if it is not there.
    decoder : how files are read.
    settle, give_up : in seconds.
    poll : seconds between looks at the folder.
    keep : whether files of acknowledged batches are moved to `done/`, and not removed.
    executor : threads that try whether files can be opened; without any, `waiting` does it itself.

    Raises
    ------
    StoppedError
        Now or later, if the folder cannot be read or written.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> inbox = Inbox(folder, Decoder(("x",)), settle=1.0)
    >>> np.save(folder / "run7-0001.npy", [0.5, 1.5])
    >>> inbox.waiting(now=0.0), inbox.waiting(now=1.0)
    ({}, {'run7-0001': 1.0})
    >>> inbox.claim("run7-0001")
    >>> arrival = inbox.load("run7-0001")
    >>> arrival.sample.values.ravel().tolist()
    [0.5, 1.5]
    >>> inbox.done(arrival)
    >>> [path.name for path in folder.iterdir() if path.is_file()]
    []
    """

    def __init__(
        self,
        folder: Path,
        decoder: Decoder,
        *,
        settle: float = 1.0,
        give_up: float = 10.0,
        poll: float = 0.5,
        keep: bool = False,
        executor: Executor | None = None,
    ) -> None:
        self.folder = folder
        self.executor = executor
        self.decoder = decoder
        self.settle = settle
        self.give_up = give_up
        self.poll = poll
        self.keep = keep
        # By name of the file; and by name of the batch, those that wait or are being learnt.
        self._files: dict[str, _File] = {}
        self._ready: dict[str, _File] = {}
        self._loaded: dict[str, _File] = {}
        self._now = self._next = -float("inf")
        with troubles(folder, "be used as an inbox"):
            for place in (folder, folder / QUARANTINE, folder / DONE):
                place.mkdir(parents=True, exist_ok=True)
                if place != folder and place.is_symlink():
                    raise StoppedError(f"{place} is a link to elsewhere; put a folder in its place")

    def waiting(self, now: float) -> dict[str, float]:
        """Give the batches that can be loaded, good or bad, and since when."""
        self._now = now
        if now >= self._next:
            start = time.perf_counter()
            with troubles(self.folder, "be read"):
                self._scan(now)
            self._judge(now)
            # Ten thousand files take a while to look through: a tenth of the time at most.
            self._next = now + max(self.poll, 10 * (time.perf_counter() - start))
        self._ready = {}
        for file in self._files.values():
            if file.ready is None or file.name in self._loaded:
                continue
            # Of two files of one name the other waits; a bad one keeps no good one waiting.
            if file.name not in self._ready or (
                self._ready[file.name].problem and not file.problem
            ):
                self._ready[file.name] = file
        return {name: file.ready for name, file in self._ready.items() if file.ready is not None}

    def coming(self) -> list[str]:
        """Name the batches whose files have not settled, or cannot be read yet.

        One that is written for ever is not waited for that long.
        """
        there = self._ready.keys() | self._loaded.keys()
        return [
            file.name
            for file in self._files.values()
            if file.ready is None
            and file.name not in there
            and self._now - file.seen < LONGEST_WRITING
        ]

    def lag(self, now: float) -> Lag:
        """Count the files, also those that are half written."""
        there = {file.path: file for file in (*self._files.values(), *self._loaded.values())}
        oldest = min((file.seen for file in there.values()), default=now)
        return Lag(len(there), now - oldest, len(self._loaded))

    def claim(self, name: str) -> None:
        """Take note that a batch is being read or learnt: it waits no longer."""
        self._loaded[name] = self._ready[name]

    def load(self, name: str) -> Arrival:
        """Read a batch that was claimed, or say why it cannot be; in any thread."""
        file = self._loaded[name]
        if file.problem:
            return Arrival(name, file.arrived, None, problem=file.problem)
        try:
            _check_same(file)
            batch = self.decoder.batch(file.path, name)
            _check_same(file)
        except Exception as error:
            return Arrival(name, file.arrived, None, problem=_problem(file.path, error))
        return Arrival(name, file.arrived, batch.sample, batch.expected)

    def done(self, arrival: Arrival) -> None:
        """Remove the file of a batch, or move it; not another one that has taken its name."""
        file = self._loaded[arrival.name]
        companion = companion_path(file.path)
        with troubles(file.path, "be removed from the inbox"):
            if os.path.lexists(file.path) and _stamp(os.lstat(file.path)) == _stamp(file.found):
                # The batch goes last: until then it is offered again after a crash.
                for path in (companion, file.path):
                    if path is None:
                        continue
                    if self.keep and os.path.lexists(path):
                        os.rename(path, _free(self.folder / DONE, path.name))
                    else:
                        path.unlink(missing_ok=True)
        self._forget(arrival.name)

    def refused(self, arrival: Arrival, why: str) -> None:
        """Move the file of a batch to quarantine, with the reason in a text file beside it."""
        file = self._loaded[arrival.name]
        companion = companion_path(file.path)
        with troubles(file.path, "be moved to quarantine"):
            if os.path.lexists(file.path):
                place = _free(self.folder / QUARANTINE, file.path.name)
                at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(file.arrived))
                text = f"{printable(file.path.name)}, arrived {at}\n{printable(why)}\n"
                write_whole(place.with_name(place.name + ".txt"), text)
                os.rename(file.path, place)
                if companion is not None and os.path.lexists(companion):
                    os.rename(companion, _free(self.folder / QUARANTINE, companion.name))
        self._forget(arrival.name)

    def _scan(self, now: float) -> None:
        """See what is in the folder, and what has changed."""
        there: dict[str, _File] = {}
        with os.scandir(self.folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not is_offered(entry.name) or entry.name in (QUARANTINE, DONE):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                old = self._files.get(entry.name)
                if old is None:
                    name = BatchName.of_file(entry.name)
                    there[entry.name] = _File(name, Path(entry), found, now, time.time(), now)
                elif _stamp(old.found) == _stamp(found) or self._loaded.get(old.name) is old:
                    there[entry.name] = old
                else:
                    there[entry.name] = _File(old.name, old.path, found, old.seen, old.arrived, now)
        self._files = there

    def _judge(self, now: float) -> None:
        """Decide which of the files that have settled are batches."""
        settled = [
            file
            for file in self._files.values()
            if file.ready is None and now - file.unchanged >= self.settle
        ]
        opened = sum(file.look is not None for file in settled)
        for file in sorted(settled, key=lambda file: natural(file.name)):
            if not file.looked:
                if opened >= _AT_ONCE:
                    continue
                opened += 1
                file.looked = True
                file.problem = self._foreign(file)
                if file.problem:
                    file.ready = now
                    continue
                file.look = submit(self.executor, self._look, file.path)
            if file.look is not None:
                if not file.look.done():
                    continue
                file.problem, file.look = file.look.result(), None
            # It will not get better while nobody writes to it.
            if not file.problem or now - file.unchanged >= self.give_up:
                file.ready = now

    def _look(self, path: Path) -> str:
        """Say why a file cannot be opened, if it cannot."""
        try:
            self.decoder.look(path)
        except Exception as error:
            return _problem(path, error)
        return ""

    def _foreign(self, file: _File) -> str:
        """Say why something in the folder is not even opened."""
        name = printable(file.path.name)
        kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"))
        for is_kind, kind in kinds:
            if is_kind(file.found.st_mode):
                return f"{name}: is {kind}; put the files themselves into the inbox"
        if not stat.S_ISREG(file.found.st_mode):
            return f"{name}: is not a regular file; put the files themselves into the inbox"
        try:
            BatchName(file.path.stem)
        except InputError as error:
            return str(error)
        budget = self.decoder.memory
        if file.found.st_size > budget:
            why = MemoryBudgetError(file.found.st_size, budget, name, "write smaller batches")
            return str(why)
        return ""

    def _forget(self, name: str) -> None:
        self._files.pop(self._loaded.pop(name).path.name, None)


def count_offered(folder: Path) -> int:
    """Count the batches that wait in a folder; not what is being written, or set aside."""
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    return sum(is_offered(entry.name) for entry in files)


def is_offered(name: str) -> bool:
    """Whether a file of that name is there to be read.

    Examples
    --------
    >>> [is_offered(name) for name in ("a.csv", ".a.csv", "a.csv.tmp", "a.json")]
    [True, False, False, False]
    """
    return not name.startswith(".") and not name.lower().endswith(NOT_BATCHES)


def _problem(path: Path, error: Exception) -> str:
    """Say what went wrong with a file: whatever it was, it must not stop the stream."""
    expected = isinstance(error, GofstreamError | OSError)
    return printable(str(error) if expected else f"{path}: {type(error).__name__}: {error}")


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _check_same(file: _File) -> None:
    """Refuse a file that is no longer the one that was looked at."""
    if _stamp(os.lstat(file.path)) != _stamp(file.found):
        raise InputError(
            f"{file.path}: changed after it had been the same for a while; write it under another "
            "name and rename it when it is whole"
        )


def _free(folder: Path, name: str) -> Path:
    """Give a name for a file in a folder that no other has, and that does no harm when shown."""
    safe = os.fsencode(printable(name))[:_LONGEST_FILE].decode(errors="ignore")
    for number in count():
        path = folder / (f"{safe}~{number}" if number else safe)
        if not (os.path.lexists(path) or os.path.lexists(f"{path}.txt")):
            return path
    raise AssertionError
