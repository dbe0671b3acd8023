"""What `gofstream watch` shows in a terminal; elsewhere, a line for each batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gofstream.cli.options import Running
from gofstream.report.run import verdict
from gofstream.stream.merge import remark
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.rows import Entry
from gofstream.stream.sources import Lag
from gofstream.stream.status import RunStatus

#: Batches that a terminal shows, and the least time between two pictures, in seconds.
SHOWN, PAUSE = 10, 0.25


class Screen:
    """The state of a run, for eyes."""

    def __init__(self, console: Console, monitor: Monitor, live: Live | None) -> None:
        self._console, self._monitor, self._live = console, monitor, live
        self._latest: deque[Acknowledged] = deque(maxlen=SHOWN)
        self._drawn = 0.0
        self._stale = True

    @classmethod
    @contextmanager
    def on(cls, running: Running, monitor: Monitor) -> Iterator[Screen]:
        """Show a run while it lasts."""
        console = running.console
        if not console.is_terminal or running.quiet:
            yield cls(console, monitor, None)
            return
        with Live(console=console, auto_refresh=False) as live:
            screen = cls(console, monitor, live)
            screen.idle(Lag(0, 0.0, 0))
            yield screen

    def seen(self, done: Acknowledged, lag: Lag) -> None:
        """Take note of a batch."""
        self._latest.append(done)
        if self._live is None:
            self._console.print(_line(done, lag), markup=False, highlight=False, soft_wrap=True)
            return
        self._stale = True
        if time.monotonic() - self._drawn > PAUSE:
            self.idle(lag)

    def idle(self, lag: Lag) -> None:
        """Draw what has changed."""
        if self._live is None or (not self._stale and time.monotonic() - self._drawn < 1):
            return
        if self._stale:
            self._status = self._monitor.status()
        self._live.update(picture(self._status, self._latest, lag), refresh=True)
        self._drawn, self._stale = time.monotonic(), False


def picture(status: RunStatus, latest: Iterable[Acknowledged], lag: Lag) -> RenderableType:
    """Draw how a run stands."""
    table = Table("batch", "name", "events", "state", "largest u", "note", box=None, pad_edge=False)
    for done in latest:
        entry = done.entry
        table.add_row(
            str(entry.number),
            Text(entry.name),
            str(entry.events),
            entry.state,
            _largest(entry),
            Text(remark(entry), overflow="ellipsis", no_wrap=True),
            style="bold red" if done.alarm is not None else "" if done.new else "dim",
        )
    states = ", ".join(f"{count} {state}" for state, count in status.ledger.states.items())
    waiting = f"{lag.waiting} waiting" + (f", the oldest {lag.oldest:.0f} s" * bool(lag.waiting))
    return Group(_sentence(status), Text(f"{states or 'no batch yet'}; {waiting}"), table)


def _sentence(status: RunStatus) -> Text:
    found = verdict(status)
    styles = {"alarm": "bold red", "seen": "red", "calm": "green"}
    return Text(f"{found.head}. {found.sentence}", style=styles.get(found.tone, ""))


def _line(done: Acknowledged, lag: Lag) -> str:
    entry = done.entry
    parts = [f"batch {entry.number}", entry.name, f"{entry.events} events", entry.state]
    if not done.new:
        parts.append("known already")
    if entry.note:
        parts.append(remark(entry))
    if entry.highest is not None:
        parts.append(f"largest u {_largest(entry)}")
    if done.alarm is not None:
        parts.append(f"ALARM, since batch {done.alarm.since} or so")
    return ", ".join([*parts, f"{lag.waiting} waiting"])


def _largest(entry: Entry) -> str:
    top = entry.highest
    return "" if top is None else f"{top.u:.2f}"
