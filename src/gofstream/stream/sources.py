"""Where batches come from, and how they come in: in order, and never more than there is room for.

A source knows which batches are there; `Order` decides which is next; only then is it loaded. So
what waits, waits at its source (a folder holds any number), and `Intake` has at most as many in
memory as it was told, whatever order they come in.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from gofstream.errors import BusyError, IdentityError, InputError, StoppedError
from gofstream.sample import Sample
from gofstream.stream.decode import check_expected
from gofstream.stream.names import BatchName, running
from gofstream.stream.order import Order

T = TypeVar("T")

#: Seconds for which others wait for a batch that is being read before they overtake it; those of
#: its own series wait for longer.
SLOW = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A batch that was loaded.

    Attributes
    ----------
    name : its identity.
    arrived : seconds since 1970, UTC.
    sample : its events; None if there is a problem.
    expected : N_i(R), if it was given with the batch; None for the nominal one.
    problem : why it cannot be used, in words.
    late : why it must not be applied any more. It may be one that was applied before a restart, so
        whoever knows what was applied looks it up by name and digest: it is `done` if it is there,
        and otherwise `refused` for this reason.
    """

    name: str
    arrived: float
    sample: Sample | None
    expected: float | None = None
    problem: str = ""
    late: str = ""


class Skipped(NamedTuple):
    """A batch that did not come, if the one after it in the order turns out to be a batch."""

    name: str
    why: str


class Lag(NamedTuple):
    """How far behind the stream is: batches that wait, for how long the oldest has, batches loaded.

    What is loaded and not yet acknowledged waits too.
    """

    waiting: int
    oldest: float
    loaded: int


class Source(Protocol):
    """Where batches come from."""

    def waiting(self, now: float) -> Mapping[str, float]:
        """Give the batches that can be loaded, and since when, by the clock of `now`."""

    def coming(self) -> Collection[str]:
        """Name those that are there, but cannot be loaded yet."""

    def lag(self, now: float) -> Lag:
        """Count what is there, also what cannot be loaded yet."""

    def claim(self, name: str) -> None:
        """Take note that one of those waiting will be loaded; it waits no longer."""

    def load(self, name: str) -> Arrival:
        """Bring one that was claimed into memory, in any thread."""

    def done(self, arrival: Arrival) -> None:
        """Let go of a batch that was acknowledged."""

    def refused(self, arrival: Arrival, why: str) -> None:
        """Put aside a batch that was not, with the reason."""


class Intake:
    """Batches of a source, in order, at most `room` of them in memory at a time.

    Used by one thread. Everything it gives out comes back by `done` or `refused`.

    Parameters
    ----------
    source : where they come from.
    order : which is next.
    room : how many may be loaded and not yet acknowledged.
    executor : threads that read; without any, `take` reads itself. A batch that takes them long is
        overtaken by those of other series.

    Examples
    --------
    >>> offers = Offers(size=4)
    >>> intake = Intake(offers, Order(patience=0.0), room=2)
    >>> for name in ("run7-0001", "run7-0003", "run7-0004"):
    ...     told = offers.offer(name, Sample.from_array([1.0, 2.0]))
    >>> [arrival.name for arrival in intake.take(now=0.0)]
    ['run7-0001', 'run7-0002', 'run7-0003']
    >>> intake.take(now=1.0), intake.lag(now=5.0)
    ([], Lag(waiting=3, oldest=5.0, loaded=2))
    """

    def __init__(
        self, source: Source, order: Order, room: int = 8, executor: Executor | None = None
    ) -> None:
        self.source = source
        self.order = order
        self.room = room
        self.executor = executor
        self._loaded = 0
        self._loading: deque[_Load] = deque()

    def take(self, now: float, gathered: int = 0) -> list[Arrival | Skipped]:
        """Give what comes next, as far as there is room; call it again and again.

        What did not come stands before the batch that comes instead.

        Parameters
        ----------
        now : by a clock that does not jump, such as `time.monotonic`.
        gathered : how many of those loaded wait for others, and must not keep them out.
        """
        waiting = self.source.waiting(now)  # also when there is no room: the lag shall be seen
        room = self.room - self._loaded + gathered
        steps = self.order.steps(waiting, now, room, self.source.coming()) if room > 0 else []
        missing: list[Skipped] = []
        for kind, name, why in steps:
            if kind == "skip":
                missing.append(Skipped(name, why))
                continue
            self.source.claim(name)
            self._loaded += 1
            coming = submit(self.executor, self.source.load, name)
            self._loading.append(_Load(name, why, tuple(missing), now, coming))
            missing = []
        return self._read(now)

    def accepted(self, name: str) -> None:
        """Let the series of a batch go on behind it, before it is `done`."""
        self.order.applied(name)

    def done(self, arrival: Arrival) -> None:
        """Let go of a batch that was acknowledged, now or before a restart."""
        self.order.applied(arrival.name)
        self.source.done(arrival)
        self._loaded -= 1

    def refused(self, arrival: Arrival, why: str) -> None:
        """Put aside a batch that cannot be used, with the reason."""
        self.order.refused(arrival.name)
        self.source.refused(arrival, why)
        self._loaded -= 1

    def lag(self, now: float) -> Lag:
        """Say how far behind the stream is."""
        return self.source.lag(now)

    def wait(self, timeout: float) -> bool:
        """Wait until a batch that is being read is in memory; False if none is being read."""
        reading = [load.coming for load in self._loading if not load.coming.done()]
        if reading:
            wait_for(reading, timeout, FIRST_COMPLETED)
        return bool(reading)

    def _read(self, now: float) -> list[Arrival | Skipped]:
        """Give those that are in memory, in order, but for those that read for long."""
        found: list[Arrival | Skipped] = []
        slow: set[str] = set()
        remaining: deque[_Load] = deque()
        for load in self._loading:
            series = (running(load.name) or ("",))[0]
            stopped = bool(remaining) and now - remaining[-1].began < SLOW
            if stopped or series in slow or not load.coming.done():
                remaining.append(load)
                slow |= {series} - {""}
                continue
            arrival = load.coming.result()
            found += load.missing
            found.append(replace(arrival, late=load.late) if load.late else arrival)
        self._loading = remaining
        return found


class _Load(NamedTuple):
    """A batch that is being read, since when, and those that did not come before it."""

    name: str
    late: str
    missing: tuple[Skipped, ...]
    began: float
    coming: Future[Arrival]


def submit(executor: Executor | None, work: Callable[..., T], *arguments: Any) -> Future[T]:
    """Do some work in a thread, or now if there is none."""
    if executor is not None:
        return executor.submit(work, *arguments)
    done: Future[T] = Future()
    done.set_result(work(*arguments))
    return done


class Offers:
    """A source to which other threads of the same program offer batches.

    Parameters
    ----------
    size : how many may be there, loaded ones among them. Batches that come out of order should
        find room while they wait for the one before, or it will be given up.
    """

    def __init__(self, size: int = 8) -> None:
        self.size = size
        self._there: dict[str, tuple[Arrival, Future[None]]] = {}
        self._since: dict[str, float] = {}
        self._loaded: set[str] = set()
        self._closed = False
        self._change = threading.Condition()

    def offer(
        self, name: str, sample: Sample, expected: float | None = None, wait: float | None = None
    ) -> Future[None]:
        """Hand over a batch.

        Parameters
        ----------
        name, sample, expected : as for `Arrival`.
        wait : seconds to wait for room; 0 for none, None for as long as it takes.

        Returns
        -------
        Future
            Done when the batch is acknowledged; raises `InputError` with the reason if it was
            refused.

        Raises
        ------
        BusyError
            If there was no room in time; offer it again later.
        IdentityError
            If a batch of that name is waiting.
        InputError
            If the name or the expected count is none.
        StoppedError
            If no more batches are taken.
        """
        BatchName(name)
        if expected is not None:
            expected = check_expected(expected, f"batch {name!r}")
        with self._change:
            there = self._change.wait_for(
                lambda: self._closed or len(self._there) < self.size, wait
            )
            if self._closed:
                raise StoppedError(f"batch {name!r}: the stream takes no more; start it again")
            if not there:
                raise BusyError(
                    f"batch {name!r}: {self.size} others wait to be learnt; offer it again later"
                )
            if name in self._there:
                raise IdentityError(
                    f"a batch called {name!r} is waiting already; offer each once, under a name "
                    "of its own"
                )
            told: Future[None] = Future()
            told.set_running_or_notify_cancel()  # from now on it cannot be taken back
            self._there[name] = (Arrival(name, time.time(), sample, expected), told)
            return told

    def close(self) -> None:
        """Take no more; what is there can still be loaded."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def waiting(self, now: float) -> dict[str, float]:
        """Give the offers not loaded; they count as waiting from when they are first seen here."""
        with self._change:
            since = self._seen(now)
            return {name: since[name] for name in since if name not in self._loaded}

    def coming(self) -> tuple[str, ...]:
        """Name nothing: an offer is whole."""
        return ()

    def lag(self, now: float) -> Lag:
        """Count the offers."""
        with self._change:
            since = self._seen(now)
            return Lag(len(since), now - min(since.values(), default=now), len(self._loaded))

    def claim(self, name: str) -> None:
        """Take note that an offer is being learnt."""
        with self._change:
            self._loaded.add(name)

    def load(self, name: str) -> Arrival:
        """Give an offer."""
        with self._change:
            return self._there[name][0]

    def done(self, arrival: Arrival) -> None:
        """Tell who offered it, and make room."""
        self._gone(arrival).set_result(None)

    def refused(self, arrival: Arrival, why: str) -> None:
        """Tell who offered it why, and make room."""
        self._gone(arrival).set_exception(InputError(f"batch {arrival.name!r}: {why}"))

    def _seen(self, now: float) -> dict[str, float]:
        return {name: self._since.setdefault(name, now) for name in self._there}

    def _gone(self, arrival: Arrival) -> Future[None]:
        with self._change:
            self._loaded.discard(arrival.name)
            self._since.pop(arrival.name, None)
            _, told = self._there.pop(arrival.name)
            self._change.notify_all()
            return told
