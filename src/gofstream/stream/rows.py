"""What a store keeps, row by row, and how a row is sealed against damage."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from gofstream.errors import InputError, SettingsError, nearest_names, printable
from gofstream.stream.names import BatchName

State = Literal["learnt", "unmonitored", "skipped", "quarantined"]
STATES: tuple[State, ...] = get_args(State)

#: Families without widths: t of the scan over the run and over the epoch, and the natural logarithm
#: of the epoch's e-value. What has no width is stored with width 0.
RUN_SCAN, EPOCH_SCAN, EVIDENCE = SCANS = ("run scan", "epoch scan", "epoch scan log e")


class ScanRow(NamedTuple):
    """What is kept of a scan.

    Attributes
    ----------
    epoch, run : `ScanSummary` of the epoch and of the run.
    windows : JSON: the best windows of the epoch.
    """

    epoch: bytes
    run: bytes
    windows: str


class Statistic(NamedTuple):
    """One number after a batch: t, and u if this batch is monitored."""

    family: str
    width: int
    t: float
    u: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch in the ledger, with the statistics after it.

    Attributes
    ----------
    number : its place in the order of application, from 1, without gaps.
    name : its identity.
    digest : of its events; empty if there are none, as for a batch that was skipped.
    arrived : seconds since 1970, UTC.
    events : how many it has.
    expected : N_i(R).
    state : what became of it.
    note : why, in words.
    statistics : in any order; a store gives them by family and width.
    """

    number: int
    name: str
    digest: str
    arrived: float
    events: int
    expected: float
    state: State = "learnt"
    note: str = ""
    statistics: tuple[Statistic, ...] = ()

    @property
    def highest(self) -> Statistic | None:
        """The statistic with the largest u, if this batch is monitored."""
        monitored = [(s.u, s) for s in self.statistics if s.u is not None]
        return max(monitored, key=lambda pair: pair[0])[1] if monitored else None

    def checked(self) -> Entry:
        """Refuse what a row cannot hold, sort the statistics, and write numbers as SQLite does.

        Raises
        ------
        InputError
            It says which field.
        """
        name = str(BatchName(self.name))
        if self.state not in STATES:
            raise InputError(
                f"no state is called {self.state!r}; {nearest_names(self.state, STATES)}"
            )
        what = f"batch {self.name!r}: "
        statistics = sorted((_checked(s, what) for s in self.statistics), key=lambda s: s[:2])
        if len({s[:2] for s in statistics}) < len(statistics):
            raise InputError(what + "two statistics have the same family and width; give each once")
        return Entry(
            self.number,
            name,
            printable(self.digest),
            finite(self.arrived, what + "its time of arrival"),
            self.events,
            finite(self.expected, what + "its expected count"),
            self.state,
            printable(self.note),
            tuple(statistics),
        )


@dataclass(frozen=True, slots=True)
class Alarm:
    """That the statistics after a batch went beyond the boundary.

    Attributes
    ----------
    batch : the number of the batch after which it rang.
    family, width : of the largest u.
    u, boundary : that u, and what it exceeded.
    since : the batch with which the anomaly began.
    acknowledged, by : when (seconds since 1970) and by whom, if it was.
    """

    batch: int
    family: str
    width: int
    u: float
    boundary: float
    since: int
    acknowledged: float | None = None
    by: str = ""

    def checked(self) -> Alarm:
        """Refuse what a row cannot hold, and write numbers as SQLite does.

        Raises
        ------
        InputError
            It says which field.
        """
        what = f"the alarm of batch {self.batch}: "
        return replace(
            self,
            u=finite(self.u, what + "u"),
            boundary=finite(self.boundary, what + "its boundary"),
            acknowledged=None
            if self.acknowledged is None
            else finite(self.acknowledged, what + "the time of its acknowledgement"),
            by=printable(self.by),
        )


@dataclass(frozen=True, slots=True)
class Head:
    """What a store holds in all, rewritten with every batch.

    Attributes
    ----------
    batches : entries in the ledger.
    chain : SHA-256 over the chain of so many, and the seal of the last.
    dropped : models of batches up to this number are gone.
    model_bytes : of the models and scores that are there.
    kept, event_bytes : batches whose events are there, and their bytes.
    alarms : that ever rang.
    checkpoint, arrays : the batch up to which the arrays of the checkpoint sum, and their number.
    about : SHA-256 over what the run is about, the tables and the version.
    """

    batches: int
    chain: bytes
    dropped: int
    model_bytes: int
    kept: int
    event_bytes: int
    alarms: int
    checkpoint: int
    arrays: int
    about: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Arrays that sum over all batches up to one.

    Attributes
    ----------
    batch : the last batch in the sums.
    arrays : bytes by width index and name.
    """

    batch: int
    arrays: Mapping[tuple[int, str], bytes]


@dataclass(frozen=True, slots=True)
class Retention:
    """Whose events a run keeps, by the strategy that needs them.

    Attributes
    ----------
    strategy : `all`: of every batch; `one`: of a fixed number; `sat`: of none.
    batches : that number, for `one`.
    reservoir : whether these are a random choice among all so far, instead of the last.

    Examples
    --------
    >>> Retention("one", batches=4).keeps(["a", "b", "c", "d", "e"])
    ['b', 'c', 'd', 'e']
    >>> Retention("sat").keeps(["a", "b"])
    []
    """

    strategy: Literal["all", "one", "sat"]
    batches: int = 0
    reservoir: bool = False

    def __post_init__(self) -> None:
        """Refuse a policy that contradicts itself."""
        if self.strategy not in ("all", "one", "sat") or (self.strategy == "one") != (
            self.batches > 0
        ):
            raise SettingsError(
                f"events cannot be kept by {self!r}: `one` needs a number of batches, `all` and "
                "`sat` have none"
            )

    def keeps(self, identities: list[str]) -> list[str]:
        """Choose among batches, given by identity in order of application.

        The reservoir keeps those whose identities have the smallest SHA-256: as random as any
        draw, and it follows from the batches alone, whatever was interrupted and repeated.
        """
        if self.strategy != "one":
            return identities if self.strategy == "all" else []
        if not self.reservoir:
            return identities[-self.batches :]
        chosen = sorted(identities, key=lambda i: seal("reservoir", i))[: self.batches]
        return [identity for identity in identities if identity in chosen]


def seal(*values: Any) -> bytes:
    """SHA-256 of values written as compact JSON, bytes in hex.

    Examples
    --------
    >>> import hashlib
    >>> seal("a", 1.5, None, b"z") == hashlib.sha256(b'["a",1.5,null,"7a"]').digest()
    True
    """
    text = json.dumps(values, separators=(",", ":"), default=bytes.hex)
    return hashlib.sha256(text.encode()).digest()


def entry_seal(columns: Sequence[Any], statistics: Sequence[Any]) -> bytes:
    """Seal an entry: its columns in the ledger, and its statistics by family and width."""
    return seal("ledger", *columns, statistics)


def models_seal(each: Mapping[int, tuple[bytes, bytes]]) -> bytes | None:
    """Seal what a batch taught, from the SHA-256 of each model and its scores; None for nothing."""
    return seal("models", sorted(each.items())) if each else None


def scan_seal(batch: int, row: ScanRow) -> bytes:
    """Seal the sums of a scan up to a batch."""
    return seal("scan", batch, sha256(row.epoch), sha256(row.run), row.windows)


def sha256(data: bytes) -> bytes:
    """Give the digest of a model or of events: what `sha256sum` says of them."""
    return hashlib.sha256(data).digest()


def finite(number: float, what: str) -> float:
    """Give a number as SQLite will: −0 is 0.

    Raises
    ------
    InputError
        If it is NaN or infinite: SQLite has no NaN.
    """
    if not math.isfinite(number):
        raise InputError(f"{what} is {number}; a store keeps finite numbers only")
    return float(number) + 0.0


def _checked(statistic: Statistic, batch: str) -> Statistic:
    family, width, t, u = statistic
    what = f"{batch}{family} at width {width}: "
    return Statistic(
        family, width, finite(t, what + "t"), None if u is None else finite(u, what + "u")
    )
