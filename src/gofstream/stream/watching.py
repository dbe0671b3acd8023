"""From a source to a monitor: batches are learnt side by side, and applied in their order.

Small batches are merged to the nominal exposure. Each batch ends in one of two ways. It is in the
store for good, and only then does its source let go of it; or it is put aside, with the reason in
the ledger and beside its file. Killed anywhere in between, the same batch is offered again, and the
store knows it by name and digest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace

from gofstream.checks import match_columns
from gofstream.errors import GofstreamError, IdentityError, InputError
from gofstream.stream.learning import Taught
from gofstream.stream.merge import Gathering, Whole, parts_of, short_digest
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.rows import Entry
from gofstream.stream.sources import Arrival, Intake, Lag, Skipped

#: Seconds between looks at the source while nothing happens, and for which nothing must have come
#: before it is believed that nothing will: longer than a source takes to notice.
IDLE, QUIET = 0.1, 1.0


class Watching:
    """A stream in progress.

    Used by one thread, the one that opened the monitor.

    Parameters
    ----------
    monitor : what batches are applied to.
    intake : where they come from, in order.
    executor : threads that learn; not those that the monitor was given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from gofstream.execution import thread_workers
    >>> from gofstream.ratio.learner import Learner
    >>> from gofstream.sample import Sample
    >>> from gofstream.settings import Settings
    >>> from gofstream.stream.order import Order
    >>> from gofstream.stream.rows import Retention
    >>> from gofstream.stream.sources import Offers
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.exponential(size=5000))
    >>> learner = Learner.prepare(
    ...     reference, Settings(widths=(0.5,), n_centres=30), expected=100.0, rng=rng
    ... )
    >>> offers = Offers()
    >>> told = [offers.offer(f"run7-{n}", reference.take(np.arange(n, 5000, 50))) for n in (2, 1)]
    >>> offers.close()
    >>> path = Path(tempfile.mkdtemp()) / "run.gofs"
    >>> with (
    ...     Monitor.open(path, learner, None, Retention("sat"), epoch=10, window=2) as monitor,
    ...     thread_workers(2) as executor,
    ... ):
    ...     watching = Watching(monitor, Intake(offers, Order(patience=0.0)), executor)
    ...     seen = []
    ...     watching.run(threading.Event(), lambda done, lag: seen.append(done), ended=lambda: True)
    >>> [(done.entry.number, done.entry.name) for done in seen]
    [(1, 'run7-1'), (2, 'run7-2')]
    """

    def __init__(self, monitor: Monitor, intake: Intake, executor: Executor) -> None:
        self.monitor = monitor
        self.intake = intake
        self.executor = executor
        self._queue: deque[tuple[Arrival | Whole, Future[Taught] | None]] = deque()
        # By name of a batch, those that did not come before it.
        self._missing: dict[str, list[Skipped]] = {}
        self._gathering = Gathering(monitor.learner)
        # Of every batch that was merged, its digest and the number of the whole.
        self._merged: dict[str, tuple[str, int]] = dict(monitor.learnt_names.parts)

    def run(
        self,
        stop: threading.Event,
        seen: Callable[[Acknowledged, Lag], None],
        *,
        idle: Callable[[Lag], None] = lambda lag: None,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Go on until told to stop.

        Parameters
        ----------
        stop : set it to end after the batch that is being applied.
        seen : called with each batch that is in the ledger, and what still waits.
        idle : called now and then while nothing happens.
        ended : tells whether no more will come; then the run ends when nothing waits.

        Raises
        ------
        StoppedError
            If store or source cannot be used any more; what was acknowledged is safe, and the
            same run can be taken up again.
        """
        busy = time.monotonic()
        try:
            while not stop.is_set():
                now = time.monotonic()
                done = self.turn(now)
                lag = self.intake.lag(now)
                for each in done:
                    seen(each, lag)
                if done:
                    busy = now
                    continue
                if lag.waiting > len(self._gathering.parts) or self._queue or not ended():
                    busy = now
                elif now - busy > QUIET:
                    if not self._gathering.parts:
                        break
                    self._learn(*self._gathering.flush())
                idle(lag)
                self._wait(stop)
        finally:
            for _, learning in self._queue:
                if learning is not None:
                    learning.cancel()

    def turn(self, now: float) -> list[Acknowledged]:
        """Take what has come, and apply what has been learnt, as far as the order allows."""
        missing: list[Skipped] = []
        for item in self.intake.take(now, len(self._gathering.parts)):
            if isinstance(item, Skipped):
                missing.append(item)
                continue
            self._missing[item.name], missing = missing, []
            if item.sample is None or item.late:
                self._queue.append((item, None))
                continue
            if item.name in self._merged:
                late = f"a batch of this name is part of batch {self._merged[item.name][1]}"
                self._queue.append((replace(item, late=late), None))
                continue
            try:
                self._learn(*self._gathering.add(item))
            except InputError as error:
                self._queue.append((replace(item, problem=str(error)), None))
        # What waits for company was found to be a batch; it must not keep its series waiting.
        for part in self._gathering.parts:
            self.intake.accepted(part.name)
        found = list[Acknowledged]()
        while self._queue and ((first := self._queue[0][1]) is None or first.done()):
            found += self._settled(*self._queue.popleft())
        return found

    def _learn(self, gathering: Gathering, wholes: list[Whole]) -> None:
        """Let those be learnt that are whole; the others wait."""
        self._gathering = gathering
        for whole in wholes:
            self._queue.append((whole, self.executor.submit(self._taught, whole)))

    def _taught(self, whole: Whole) -> Taught:
        arrived = whole.parts[-1].arrived
        taught = self.monitor.learn(whole.name, whole.sample, whole.expected, arrived)
        note = "; ".join(filter(None, (taught.entry.note, whole.note)))
        return replace(taught, entry=replace(taught.entry, note=note))

    def _wait(self, stop: threading.Event) -> None:
        """Wait for the batch that is next, or for another one to come."""
        learning = self._queue[0][1] if self._queue else None
        if learning is None:
            if not self.intake.wait(IDLE):
                stop.wait(IDLE)
        else:
            ready = threading.Event()
            learning.add_done_callback(lambda _: ready.set())
            ready.wait(IDLE)

    def _settled(
        self, item: Arrival | Whole, learning: Future[Taught] | None
    ) -> list[Acknowledged]:
        if isinstance(item, Arrival):
            known = self._known(item) if item.late else None
            if known is None:
                return [self._refused(item, item.problem or item.late)]
            self.monitor.store.check_place()
            self._missing.pop(item.name, None)
            self.intake.done(item)
            return [known]
        assert learning is not None
        # Whatever a batch does to the fit, the stream goes on; trouble with the store ends it.
        if (error := learning.exception()) is not None:
            if not isinstance(error, Exception):
                raise error
            why = str(error) if isinstance(error, GofstreamError) else repr(error)
            return [self._refused(part, why) for part in item.parts][-1:]
        try:
            found = self._applied(item, learning.result())
        except InputError as error:
            return [self._refused(part, str(error)) for part in item.parts][-1:]
        self._note_parts(found[-1].entry)
        self.monitor.store.check_place()
        for part in item.parts:
            self.intake.done(part)
        return found

    def _applied(self, item: Whole, taught: Taught) -> list[Acknowledged]:
        """Apply a batch, after those that did not come before it."""
        name, digest = taught.entry.name, taught.entry.digest
        try:
            self.monitor.known(name, digest)
        except IdentityError:
            if len(item.parts) == 1:
                raise
            taught = replace(taught, entry=replace(taught.entry, name=item.distinct_name))
        missing = [each for part in item.parts for each in self._missing.pop(part.name, ())]
        skipped = [self.monitor.skip(each.name, time.time()) for each in missing]
        return [*skipped, self.monitor.apply(taught)]

    def _note_parts(self, entry: Entry) -> None:
        for name, digest in parts_of(entry).items():
            self._merged[name] = (digest, entry.number)

    def _known(self, late: Arrival) -> Acknowledged | None:
        """Look up a batch that comes out of its order: applied before a restart, perhaps."""
        if late.sample is None:
            return None
        try:
            batch = match_columns(late.sample, self.monitor.learner.sample)
            known = self.monitor.known(late.name, batch.digest())
        except InputError:  # another batch of that name, or no batch of this stream at all
            return None
        digest, number = self._merged.get(late.name, ("", 0))
        if known is None and digest == short_digest(batch):
            known = Acknowledged(self.monitor.store.entry(number), new=False)
        return known

    def _refused(self, arrival: Arrival, why: str) -> Acknowledged:
        """Put aside what cannot be used: first in the ledger, then where it came from."""
        self._missing.pop(arrival.name, None)
        done = self.monitor.quarantine(arrival.name, arrival.arrived, why)
        self.monitor.store.check_place()
        self.intake.refused(arrival, why)
        return done
