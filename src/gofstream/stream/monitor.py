"""The monitor of a stream: batches are learnt in any order, and applied one after another.

`learn` turns a batch into what is kept of it and touches nothing else, so that several may be
learnt at once. `apply` moves the running statistics on by one batch, looks at them once, and puts
batch, statistics and alarm into the store by one transaction. Only after that does the state of the
monitor change: an error leaves it as it was, and it can go on.

An alarm rings at the first look of an epoch that is above the boundary, and not again in that
epoch: α is the probability that an epoch of nominal batches rings at all. The epoch goes on; if the
anomaly lasts, the next epoch rings again.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gofstream.errors import SettingsError, StoppedError
from gofstream.inference.sequential import Boundary, Look
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatio
from gofstream.sample import Sample
from gofstream.stream.events import to_bytes
from gofstream.stream.learning import Each, Taught, learn_batch
from gofstream.stream.merge import LearntNames
from gofstream.stream.names import BatchName
from gofstream.stream.position import (
    Position,
    begin,
    checkpoint_of,
    refuse_other,
    resumed,
    statistics_of,
)
from gofstream.stream.rows import Alarm, Entry, Retention, State
from gofstream.stream.scanning import Scans, about_scan, is_scanned
from gofstream.stream.status import RunStatus, run_status
from gofstream.stream.store import Store
from gofstream.stream.streams import refuse_for_streams
from gofstream.stream.track import Track, Values

#: Characters of the reason that the ledger keeps for a batch it refuses.
LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What became of a batch that is in the store for good.

    Attributes
    ----------
    entry : what the ledger says of it, with the statistics after it.
    new : False if it was there already, and nothing was counted again.
    alarm : if one rang after it.
    """

    entry: Entry
    new: bool
    alarm: Alarm | None = None


class Monitor:
    """A stream that is watched; `Monitor.open` begins or resumes one.

    `learn` may be called from any thread, everything else from the one that opened it.

    Examples
    --------
    >>> import tempfile
    >>> from gofstream.settings import Settings
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.exponential(size=5000))
    >>> learner = Learner.prepare(
    ...     reference, Settings(widths=(0.5,), n_centres=30), expected=100.0, rng=rng
    ... )
    >>> path = Path(tempfile.mkdtemp()) / "run.gofs"
    >>> with Monitor.open(path, learner, None, Retention("sat"), epoch=10, window=2) as monitor:
    ...     for n in (1, 2):
    ...         batch = Sample.from_array(rng.exponential(size=100))
    ...         done = monitor.apply(monitor.learn(f"batch {n}", batch, None, arrived=0.0))
    ...     again = monitor.apply(monitor.learn("batch 2", batch, None, arrived=9.0))
    >>> done.entry.state, done.entry.number, len(done.entry.statistics)
    ('learnt', 2, 9)
    >>> again.new, again.entry.number
    (False, 2)
    """

    def __init__(
        self,
        store: Store,
        learner: Learner,
        boundary: Boundary | None,
        position: Position,
        executor: Executor | None,
        learnt_names: LearntNames,
    ) -> None:
        self.store = store
        self.learner = learner
        self.boundary = boundary
        self.position = position
        #: What had been learnt when the store was opened.
        self.learnt_names = learnt_names
        self._each: Each = map if executor is None else executor.map
        self._features = tuple(track.features for track in position.tracks)
        scans = position.scans
        self._scan = None if scans is None else (scans.grid, scans.shares.regions)
        about = store.about()
        self._every: int = about["checkpoint_every"]
        self._keep_models: bool = about["keep_models"]
        self._keep_events = store.retention.strategy != "sat"

    @classmethod
    def open(
        cls,
        path: Path,
        learner: Learner,
        boundary: Boundary | None,
        retention: Retention,
        *,
        epoch: int = 100,
        window: int = 20,
        checkpoint_every: int = 50,
        keep_models: bool = False,
        executor: Executor | None = None,
    ) -> Monitor:
        """Begin a run, or go on with it if its store is there.

        Parameters
        ----------
        path : the store.
        learner : the prepared reference; its ``expected`` is the nominal exposure.
        boundary : when to alarm; never, without one.
        retention : whose events are kept.
        epoch, window : H and K, in batches.
        checkpoint_every : batches after which the sums are written; until then models are kept.
        keep_models : whether they are kept for good, as `all`, `one` and `replay` need them.
        executor : threads that share the widths of a batch. They must not be those that call
            `learn`, which would wait for each other.

        Raises
        ------
        FormatError
            If the store is damaged, or store or boundary were made with another reference, other
            settings or lengths; it names the field.
        SettingsError
            If centres look at data, or epoch, window or ``checkpoint_every`` is below one.
        MemoryBudgetError
            If features or sums do not fit.
        StoppedError
            If the store cannot be written.
        """
        refuse_for_streams(learner)
        if checkpoint_every < 1:
            raise SettingsError(f"checkpoint_every is {checkpoint_every} batches; it needs one")
        about = _about(learner, boundary, epoch, window, checkpoint_every, keep_models)
        if boundary is not None:
            wanted = learner.about() | {"expected": [learner.expected] * epoch, "window": window}
            refuse_other("the alarm boundary", boundary.about, wanted)
        # A store of another run is refused before features are made, which may take minutes.
        store = None
        if path.exists():
            store = Store.resume(path, about, retention, newer=("scan",))
        try:
            tracks = begin(learner, epoch, window)
            # A run that was begun without a scan goes on without: it has seen events that are gone.
            known = about if store is None else store.about()
            scans = Scans.begin(learner, epoch) if is_scanned(known) else None
            store = store or Store.create(path, about, retention)
            position, entries = resumed(store, tracks, scans)
            names = LearntNames.of(entries)
            return cls(store, learner, boundary, position, executor, names)
        except BaseException:
            if store is not None:
                store.close()
            raise

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        """Use as a context; it closes the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the store."""
        self.close()

    def learn(self, name: str, sample: Sample, expected: float | None, arrived: float) -> Taught:
        """Learn a batch; what is found does not depend on any other.

        Parameters
        ----------
        name : its identity.
        sample : its events.
        expected : N_i(R); the nominal one if it is not known.
        arrived : seconds since 1970, UTC.

        Raises
        ------
        InputError
            If the batch cannot be used: it says which batch, column and row.
        """
        return learn_batch(
            self.learner, self._features, name, sample, expected, arrived, self._each, self._scan
        )

    def apply(self, taught: Taught) -> Acknowledged:
        """Count a batch that was learnt; it is safe when this returns.

        Where its name is that of a batch that was refused, it is listed as "name (again)".

        Raises
        ------
        IdentityError
            If another batch was applied under its name, or skipped.
        StoppedError
            If it cannot be written, or another process writes to the store; nothing has changed.
        """
        given = taught.entry
        there, name = self._place(given.name, given.digest)
        if there is not None:
            return there
        now, watched = self.position, given.state == "learnt"

        def add(track: Track, model: LogRatio) -> tuple[Track, Values]:
            return track.add(model.coefficients, given.expected, taught.events, watched=watched)

        moved = list(self._each(add, now.tracks, taught.models))
        tracks, values = tuple(track for track, _ in moved), [value for _, value in moved]
        look = self._look(values) if watched else None
        statistics = statistics_of(values, None if look is None else look.u)
        scans = now.scans
        if scans is not None and taught.scanned is not None:
            scans = scans.add(taught.scanned, watched=watched)
            statistics += scans.statistics()
        entry = replace(given, number=now.number + 1, name=name, statistics=statistics)
        after = now.after(entry, tracks, scans)
        alarm = self._alarm(look, values[0].step, after)
        due = entry.number - now.checkpoint >= self._every
        entry, new = self._append(
            entry,
            models={k: model.to_bytes() for k, model in enumerate(taught.models)},
            scores={k: value.scores.astype("<f8").tobytes() for k, value in enumerate(values)},
            events=to_bytes(taught.sample) if self._keep_events else None,
            alarm=alarm,
            checkpoint=checkpoint_of(tracks) if due else None,
            scan=None if scans is None else scans.row(),
            drop_models=entry.number if due and not self._keep_models else 0,
        )
        if new:
            self.position = replace(
                after,
                alarm=now.alarm if alarm is None else alarm.batch,
                checkpoint=entry.number if due else now.checkpoint,
            )
        return Acknowledged(entry, new, alarm if new else None)

    def skip(self, name: str, arrived: float) -> Acknowledged:
        """Write down that a batch did not come; if it comes later, it is refused.

        One that is in the ledger in whatever state stays as it is.

        Raises
        ------
        StoppedError
            As `apply` does.
        """
        there = self.store.named(name)
        if there is not None:
            return self._known(there)
        return self._without_events(name, arrived, "skipped", "did not come in time")

    def quarantine(self, name: str, arrived: float, why: str) -> Acknowledged:
        """Write down that a batch could not be used, under any name, and why.

        Raises
        ------
        StoppedError
            As `apply` does.
        """
        for shown in BatchName.fitted(name).variants():
            there = self.store.named(shown)
            if there is None or there.state == "quarantined":
                break
        return self._without_events(shown, arrived, "quarantined", why[:LONGEST_REASON])

    def known(self, name: str, digest: str) -> Acknowledged | None:
        """Look up a batch that may have been applied before.

        Raises
        ------
        IdentityError
            If another batch was applied under its name, or it was skipped.
        """
        return self._place(name, digest)[0]

    def status(self) -> RunStatus:
        """Tell how the run stands now."""
        return run_status(self.store, self.position.states, self.position.events)

    def _look(self, values: list[Values]) -> Look | None:
        if self.boundary is None:
            return None
        return self.boundary.look(np.stack([v.t for v in values], axis=1), values[0].step)

    def _alarm(self, look: Look | None, step: int, after: Position) -> Alarm | None:
        """Ring, if this look is the first of its epoch above the boundary, and say since when."""
        if self.boundary is None or look is None or not look.alarm:
            return None
        if after.alarm >= after.watched[-step]:
            return None
        stretches = list(self._each(Track.stretches, after.tracks))
        date = self.boundary.date(np.stack(stretches, axis=1))
        return Alarm(
            after.number,
            look.family,
            look.width,
            look.highest,
            self.boundary.level,
            since=after.watched[-date.batches],
        )

    def _without_events(self, name: str, arrived: float, state: State, why: str) -> Acknowledged:
        if (there := self.store.find(name, "")) is not None:
            return self._known(there)
        now = self.position
        entry = Entry(now.number + 1, name, "", arrived, 0, 0.0, state, why)
        entry, new = self._append(entry)
        if new:
            self.position = now.after(entry, now.tracks, now.scans)
        return Acknowledged(entry, new)

    def _place(self, name: str, digest: str) -> tuple[Acknowledged | None, str]:
        """Find a batch in the ledger, or the name it gets there: refused ones keep no name."""
        for own in BatchName(name).variants():
            there = self.store.named(own)
            if there is None or there.state != "quarantined":
                break
        there = self.store.find(own, digest)
        return None if there is None else self._known(there), str(own)

    def _known(self, there: Entry) -> Acknowledged:
        if there.number > self.position.number:
            raise StoppedError(
                f"{self.store.path} has batch {there.number}, which this monitor did not put "
                "there: another process writes to it; stop it, and open the store again"
            )
        return Acknowledged(there, new=False)

    def _append(self, entry: Entry, **rest: Any) -> tuple[Entry, bool]:
        receipt = self.store.append(entry, **rest)
        return entry.checked() if receipt.new else self.store.entry(receipt.number), receipt.new


def _about(
    learner: Learner,
    boundary: Boundary | None,
    epoch: int,
    window: int,
    checkpoint_every: int,
    keep_models: bool,
) -> dict[str, Any]:
    """Describe everything that decides a number of the run, for its store."""
    return learner.about() | {
        "reference_rows": len(learner.reference),
        "columns": list(learner.sample.columns),
        "epoch": epoch,
        "window": window,
        "boundary": None
        if boundary is None
        else {
            "level": boundary.level,
            "alpha": boundary.alpha,
            "sha256": hashlib.sha256(boundary.to_json().encode()).hexdigest(),
        },
        "checkpoint_every": checkpoint_every,
        "keep_models": keep_models,
        "scan": about_scan(learner, epoch),
    }
