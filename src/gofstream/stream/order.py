"""In which order batches are taken: a state machine without a clock, a disk or a thread.

A name that ends in a number belongs to a series: run7-0001, run7-0002, ... A series is taken in
order of its numbers, and the next one is waited for while later ones are there already, but not for
ever. Names that end in something else are taken in order of name, as they come.

Only batches that were applied move a series on: a file that turns out to be none leaves no gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple

from gofstream.stream.names import BatchName, natural, offered_name, running

#: Numbers that may be missing in a row. One further away follows none that is known: it is taken
#: when it has waited, nothing is given up for it, and its series goes on where it was.
MOST_MISSING = 100
#: Numbers behind which a series may go on: one, and those far from all others that came last.
MOST_ENDS = 100


class Step(NamedTuple):
    """What to do next with a name.

    `take` it, and say later whether it was `applied` or `refused`; `skip` it, since it did not
    come, if the one that is taken next is applied; or it is `late`: what came after it has been
    applied, or it was applied itself, so it must not be applied now. `why` says so in words.
    """

    kind: Literal["take", "skip", "late"]
    name: str
    why: str = ""


class Order:
    """Decides which of the batches that are there come next.

    Parameters
    ----------
    patience : seconds for which later batches wait for one that is missing.
    names : those of the batches learnt so far, in their order, when a run goes on.

    Examples
    --------
    >>> order = Order(patience=60.0)
    >>> order.steps({"run7-0002": 0.0, "run7-0001": 5.0}, now=10.0)
    []
    >>> [step.name for step in order.steps({"run7-0002": 0.0, "run7-0001": 5.0}, now=60.0)]
    ['run7-0001', 'run7-0002']
    >>> for name in ("run7-0001", "run7-0002"):
    ...     order.applied(name)
    >>> order.steps({"run7-0004": 70.0}, now=71.0)
    []
    >>> [step[:2] for step in order.steps({"run7-0004": 70.0}, now=130.0)]
    [('skip', 'run7-0003'), ('take', 'run7-0004')]
    >>> order.applied("run7-0004")
    >>> print(order.steps({"run7-0003": 140.0}, now=140.0)[0].why)
    came too late: run7-0004 had been taken
    """

    def __init__(self, patience: float, names: Iterable[str] = ()) -> None:
        self.patience = patience
        # Of each series the numbers where it goes on, and how they were written: one, and one more
        # for each number that was far from all others.
        self._ends: dict[str, dict[int, str]] = {}
        # Of each series the files that were taken, of which nobody knows yet if they are batches.
        self._pending: dict[str, dict[str, str]] = {}
        self._series: str | None = None
        for name in names:
            if parts := running(offered_name(name)):
                _advance(self._ends.setdefault(parts[0], {}), parts[1])
                self._series = parts[0]

    def applied(self, name: str) -> None:
        """Take note that a batch which was taken is one: its series goes on behind it."""
        if (parts := running(name)) and self._pending.get(parts[0], {}).pop(name, None):
            _advance(self._ends.setdefault(parts[0], {}), parts[1])

    def refused(self, name: str) -> None:
        """Take note that a batch which was taken is none: its series goes on as if it were not."""
        if parts := running(name):
            self._pending.get(parts[0], {}).pop(name, None)

    def steps(
        self,
        waiting: Mapping[str, float],
        now: float,
        at_most: int | None = None,
        coming: Collection[str] = (),
    ) -> list[Step]:
        """Say what comes next, and move on: what is taken here is not to be offered again.

        The first batch of all, and the first of another series, begin when something has waited
        for `patience`: only then is it known that nothing before them is on its way.

        Parameters
        ----------
        waiting : when each of the batches that are there came, by name.
        now : the time, by the same clock, which must not jump.
        at_most : how many to take, those that are late among them; None for all that can be.
        coming : those on their way, half written say; they are not given up.
        """
        found: list[Step] = []
        room = len(waiting) if at_most is None else at_most
        series: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(waiting, key=lambda name: (natural(name), name)):
            if len(found) == room:
                break
            if (parts := running(name)) is None:
                found.append(Step("take", name))
                continue
            own, digits = parts
            ends, reached = self._ends.get(own, {}), self._reached(own)
            if _is_past(ends, int(digits)):
                found.append(self._late(name, ends, int(digits)))
            elif reached and _is_far(reached, int(digits)):
                if now - waiting[name] >= self.patience:
                    found.append(self._take(name, own, digits))
            else:
                series.setdefault(own, []).append((name, digits))
        room -= len(found)
        while series and room > 0:
            # The series that is being taken goes first, then the first by name.
            current = self._series if self._series in series else next(iter(series))
            there = series[current]
            name, digits = there[0]
            reached = self._reached(current)
            # One that may be the same as another that was taken waits until more is known of that.
            if not _is_past(reached, int(digits)):
                if current != self._series or not _is_next(reached, int(digits)):
                    rest = there if current == self._series else chain(*series.values())
                    if now - min(waiting[name] for name, _ in rest) < self.patience:
                        break
                    if any(_is_between(current, reached, digits, other) for other in coming):
                        break
                    found += self._given_up(current, reached, digits)
                found.append(self._take(name, current, digits))
                self._series = current
                room -= 1
            there.pop(0)
            if not there:
                del series[current]
        return found

    def _reached(self, series: str) -> dict[int, str]:
        """Say where a series goes on if all that was taken are batches."""
        ends = dict(self._ends.get(series, {}))
        for digits in sorted(self._pending.get(series, {}).values(), key=int):
            _advance(ends, digits)
        return ends

    def _take(self, name: str, series: str, digits: str) -> Step:
        self._pending.setdefault(series, {})[name] = digits
        return Step("take", name)

    def _late(self, name: str, ends: Mapping[int, str], number: int) -> Step:
        last = ends[min(end for end in ends if end >= number)]
        series, _ = running(name) or ("", "")
        return Step("late", name, f"came too late: {series}{last} had been taken")

    def _given_up(self, series: str, ends: Mapping[int, str], digits: str) -> Iterator[Step]:
        """Name those missing before this one; before the first of a series nobody knows any."""
        if (last := _before(ends, int(digits))) is None:
            return
        first, end = last + 1, int(digits)
        width = min(len(ends[last]), len(digits))
        why = f"did not come within {self.patience:g} s while {series}{digits} was there"
        for number in range(first, end):
            yield Step("skip", BatchName.fitted(f"{series}{number:0{width}}"), why)


def _before(ends: Mapping[int, str], number: int) -> int | None:
    """Give the end of a series behind which a number comes, if one is near enough."""
    last = max((end for end in ends if end < number), default=None)
    return None if last is None or number - last - 1 > MOST_MISSING else last


def _is_next(ends: Mapping[int, str], number: int) -> bool:
    """Whether nothing is missing before this number."""
    return number - 1 in ends


def _is_past(ends: Mapping[int, str], number: int) -> bool:
    """Whether a number was taken, or one behind it."""
    if number in ends:
        return True
    near = any(number < end <= number + MOST_MISSING for end in ends)
    return near and _before(ends, number) is None


def _is_far(ends: Mapping[int, str], number: int) -> bool:
    """Whether no end of a series is near a number."""
    return _before(ends, number) is None and not _is_past(ends, number)


def _is_between(series: str, ends: Mapping[int, str], digits: str, name: str) -> bool:
    """Whether this name would be given up if the one with these digits were taken."""
    parts = running(name)
    if parts is None or parts[0] != series or int(parts[1]) >= int(digits):
        return False
    return int(digits) - int(parts[1]) <= MOST_MISSING and not _is_past(ends, int(parts[1]))


def _advance(ends: dict[int, str], digits: str) -> None:
    """Let a series go on behind a number; one far from all others makes an end of its own."""
    number = int(digits)
    if _is_past(ends, number):
        return
    if (last := _before(ends, number)) is not None:
        del ends[last]
    ends[number] = digits
    if len(ends) > MOST_ENDS:
        del ends[next(iter(ends))]
