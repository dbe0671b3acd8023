"""A stored stream once more, from what was learnt alone: the ledger must say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gofstream.errors import FormatError
from gofstream.ratio.learner import Learner
from gofstream.stream.position import begin, refuse_other, replayed, statistics_of
from gofstream.stream.reader import Reader
from gofstream.stream.rows import SCANS, Entry, Statistic
from gofstream.stream.scanning import Scans, is_scanned


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many batches were learnt, and how many of their statistics were found the same."""

    batches: int
    statistics: int


def replay(
    reader: Reader,
    learner: Learner,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replayed:
    """Compute the statistics of a stored stream again, and compare every bit.

    Scores of `next` were taken from events that may be gone; they are part of what was learnt. Of
    the scan only the sums up to now are kept, so that its statistics follow again for the last
    batch alone.

    Parameters
    ----------
    reader : the store, whose models were kept.
    learner : prepared from the same reference, with the same settings.
    progress : called with the number of batches done and there.

    Raises
    ------
    FormatError
        If it is another reference or another setting, if models are missing, or if a statistic
        differs; it names the field, or the batch.
    """
    about = reader.about()
    refuse_other(str(reader.path), about, learner.about())
    if not about["keep_models"]:
        raise FormatError(
            f"{reader.path} does not keep models (`keep_models`), so that its statistics cannot be "
            "computed again"
        )
    tracks = begin(learner, about["epoch"], about["window"])
    total, batches, compared = reader.head().batches, 0, 0
    last = None
    for number in range(1, total + 1):
        entry = reader.entry(number)
        if (moved := replayed(reader, entry, tracks)) is not None:
            tracks = tuple(track for track, _ in moved)
            again = statistics_of([values for _, values in moved])
            compared += _compare(reader, entry, _fitted(entry), again)
            batches, last = batches + 1, entry
        progress(number, total)
    if last is not None and is_scanned(about):
        scans = Scans.begin(learner, about["epoch"]).restored(reader)
        compared += _compare(reader, last, _scanned(last), scans.statistics())
    return Replayed(batches, compared)


def _fitted(entry: Entry) -> list[Statistic]:
    return [s for s in entry.statistics if s.family not in SCANS]


def _scanned(entry: Entry) -> list[Statistic]:
    return [s for s in entry.statistics if s.family in SCANS]


def _compare(
    reader: Reader, entry: Entry, kept: Iterable[Statistic], again: Iterable[Statistic]
) -> int:
    """Compare t; u follows from it by the boundary."""
    there = {(s.family, s.width): s.t for s in kept}
    here = {(s.family, s.width): s.t + 0.0 for s in again}  # a store writes −0 as 0
    for key in sorted(there.keys() | here.keys()):
        if there.get(key) != here.get(key):
            raise FormatError(
                f"{reader.path}: batch {entry.number}, {key[0]} at width {key[1]} is "
                f"{there.get(key)!r} there, but follows as {here.get(key)!r}; it was written by "
                "another version of gofstream or its libraries, on another kind of machine, or "
                "with more than one BLAS thread"
            )
    return len(there)
