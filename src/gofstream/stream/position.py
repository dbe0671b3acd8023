"""Where a run is: the running statistics at every width, and how a store gives them back.

The tracks of a position follow from the last checkpoint and the models and scores of the batches
after it, to the last bit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError, short
from gofstream.inference.scale import FAMILIES
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatio
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Entry, State, Statistic
from gofstream.stream.scanning import Scans
from gofstream.stream.track import Track, Values

Floats = NDArray[np.float64]

#: Everything since the run began: for display, never an alarm.
RUN = ("run sat", "run next")


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Where a run is.

    Attributes
    ----------
    number : batches in the ledger.
    tracks : the running statistics, by width.
    scans : the sums of the scan; None for a run without one.
    watched : numbers of the last batches that are watched, as many as the tracks know.
    alarm : the last batch that rang, or 0.
    checkpoint : the batch of the last checkpoint, or 0.
    states : how many batches are in each state.
    events : of all batches that were learnt.
    """

    number: int
    tracks: tuple[Track, ...]
    scans: Scans | None
    watched: tuple[int, ...]
    alarm: int
    checkpoint: int
    states: Mapping[State, int]
    events: int

    def after(self, entry: Entry, tracks: tuple[Track, ...], scans: Scans | None) -> Position:
        """Go on by one batch, which tracks and scans have taken already."""
        watched = (*self.watched, entry.number) if entry.state == "learnt" else self.watched
        return replace(
            self,
            number=entry.number,
            tracks=tracks,
            scans=scans,
            watched=watched[-len(tracks[0].expected) :],
            states={**self.states, entry.state: self.states.get(entry.state, 0) + 1},
            events=self.events + entry.events,
        )


def begin(learner: Learner, epoch: int, window: int) -> tuple[Track, ...]:
    """Make the features of the reference, and begin a track at every width.

    Raises
    ------
    SettingsError
        If epoch or window is no number of batches.
    MemoryBudgetError
        If features or sums do not fit.
    """
    settings = learner.settings
    return tuple(
        Track.begin(
            learner.features(width),
            epoch=epoch,
            window=window,
            shrink=settings.shrink,
            memory=settings.memory // len(learner.widths),
        )
        for width in learner.widths
    )


def resumed(
    reader: Reader, tracks: tuple[Track, ...], scans: Scans | None
) -> tuple[Position, list[Entry]]:
    """Find where a stored run is, and give its ledger, which is read for that.

    Parameters
    ----------
    reader : the store.
    tracks : as `begin` gives them.
    scans : as `Scans.begin` does.

    Raises
    ------
    FormatError
        If it is damaged, or does not belong to these tracks; it says what does not fit.
    """
    with reader.snapshot():
        entries, alarms = reader.entries(), reader.alarms()
        checkpoint = reader.checkpoint()
        scans = None if scans is None else scans.restored(reader)
        done = 0
        if checkpoint is not None:
            done = checkpoint.batch
            tracks = tuple(
                track.restored(_state(checkpoint.arrays, k, track.features.rank))
                for k, track in enumerate(tracks)
            )
        for entry in entries[done:]:
            if (moved := replayed(reader, entry, tracks)) is not None:
                tracks = tuple(track for track, _ in moved)
    known = len(tracks[0].expected)
    learnt = [entry.number for entry in entries if entry.state == "learnt"]
    position = Position(
        number=len(entries),
        tracks=tracks,
        scans=scans,
        watched=tuple(learnt[len(learnt) - known :]),
        alarm=alarms[-1].batch if alarms else 0,
        checkpoint=done,
        states=dict(Counter(entry.state for entry in entries)),
        events=sum(entry.events for entry in entries),
    )
    return position, entries


def replayed(
    reader: Reader, entry: Entry, tracks: Sequence[Track]
) -> list[tuple[Track, Values]] | None:
    """Take a stored batch from its models and scores; None if nothing was learnt from it.

    Raises
    ------
    FormatError
        If its models are not there, or belong to other features.
    """
    if entry.state not in ("learnt", "unmonitored"):
        return None
    models, scores = reader.models(entry.number), reader.scores(entry.number)
    if len(models) != len(tracks):
        raise FormatError(
            f"{reader.path} has {len(models)} models of batch {entry.number}, but there are "
            f"{len(tracks)} widths: models were not kept (`keep_models`), so that its statistics "
            "cannot be computed again"
        )
    moved = []
    for k, track in enumerate(tracks):
        model = LogRatio.from_bytes(models[k])
        if not np.array_equal(model.centres, track.features.centres):
            raise FormatError(
                f"{reader.path}: the model of batch {entry.number} at width {model.width:g} has "
                "other centres than follow from the reference here; go on where it was begun, on "
                "the same kind of machine and with the same versions of numpy and scipy"
            )
        moved.append(
            track.replay(
                model.coefficients,
                entry.expected,
                np.frombuffer(scores[k], dtype="<f8"),
                watched=entry.state == "learnt",
            )
        )
    return moved


def checkpoint_of(tracks: Sequence[Track]) -> dict[tuple[int, str], bytes]:
    """Write what has to be kept of tracks, as a store takes it."""
    return {
        (k, name): array.astype("<f8").tobytes()
        for k, track in enumerate(tracks)
        for name, array in track.state().items()
    }


def _state(arrays: Mapping[tuple[int, str], bytes], width: int, rank: int) -> dict[str, Floats]:
    """Read what `checkpoint_of` wrote of one width."""
    state = {
        name: np.frombuffer(data, dtype="<f8") for (k, name), data in arrays.items() if k == width
    }
    flat = state.get("coefficients")
    if flat is not None and flat.size % rank == 0:
        state["coefficients"] = flat.reshape(-1, rank)
    return state


def statistics_of(values: Sequence[Values], u: Floats | None = None) -> tuple[Statistic, ...]:
    """List the statistics after a batch, by family and width; what is not there is left out.

    Parameters
    ----------
    values : by width.
    u : (4, widths), if the batch is monitored; -∞ where nothing can vary.
    """
    found = []
    for k, value in enumerate(values):
        for j, family in enumerate(FAMILIES):
            if not np.isnan(value.t[j]):
                own = None if u is None or np.isinf(u[j, k]) else float(u[j, k])
                found.append(Statistic(family, k, float(value.t[j]), own))
        found += [Statistic(RUN[j], k, float(value.run[j])) for j in range(2)]
    return tuple(found)


def refuse_other(what: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse something that was made with another reference or other settings.

    Raises
    ------
    FormatError
        It names the first field that differs.
    """
    for key, value in here.items():
        wanted, found = json.dumps(value, sort_keys=True), json.dumps(there.get(key))
        if json.dumps(there.get(key), sort_keys=True) != wanted:
            raise FormatError(
                f"{what} was made with another {key}: {short(found)} there, {short(wanted)} here; "
                "give what it was made with, or make it anew"
            )
