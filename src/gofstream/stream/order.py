"""In which order batches are taken: a state machine without a clock, a disk or a thread.

A name that ends in a number belongs to a series: run7-0001, run7-0002, ... A series is taken in
order of its numbers, and the next one is waited for while later ones are there already, but not for
ever. Names that end in something else are taken in order of name, as they come.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

# Names that wait are looked at again and again.
_REMEMBERED = 1 << 16
#: Up to so many batches that did not come are given up by their own names, more by one for all.
MOST_NAMES = 100


class Step(NamedTuple):
    """What to do next with a name.

    `take` it; `skip` it, since it did not come; or it is `late`: what came after it has been taken,
    or it was taken itself, so it must not be applied. `why` says so in words.
    """

    kind: Literal["take", "skip", "late"]
    name: str
    why: str = ""


class Order:
    """Decides which of the batches that are there come next.

    Parameters
    ----------
    patience : seconds for which later batches wait for one that is missing.
    names : those of the batches applied so far, in their order, when a run goes on.

    Examples
    --------
    >>> order = Order(patience=60.0)
    >>> order.steps({"run7-0002": 0.0, "run7-0001": 5.0}, now=10.0)
    []
    >>> [step.name for step in order.steps({"run7-0002": 0.0, "run7-0001": 5.0}, now=60.0)]
    ['run7-0001', 'run7-0002']
    >>> order.steps({"run7-0004": 70.0}, now=71.0)
    []
    >>> [step[:2] for step in order.steps({"run7-0004": 70.0}, now=130.0)]
    [('skip', 'run7-0003'), ('take', 'run7-0004')]
    >>> print(order.steps({"run7-0003": 140.0}, now=140.0)[0].why)
    came too late: run7-0004 had been taken
    """

    def __init__(self, patience: float, names: Iterable[str] = ()) -> None:
        self.patience = patience
        # Of each series the last number that was taken, and how it was written.
        self._last: dict[str, tuple[int, str]] = {}
        self._series: str | None = None
        for name in names:
            if parts := running(name):
                if not self._is_past(*parts):
                    self._last[parts[0]] = (int(parts[1]), parts[1])
                self._series = parts[0]

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
            if (parts := running(name)) is None:
                found.append(Step("take", name))
            elif self._is_past(*parts):
                found.append(self._late(name, parts[0]))
            else:
                series.setdefault(parts[0], []).append((name, parts[1]))
        found = found[:room]
        room -= len(found)
        while series and room > 0:
            # The series that is being taken goes first, then the first by name.
            current = self._series if self._series in series else next(iter(series))
            there = series[current]
            name, digits = there[0]
            if not self._is_next(current, digits):
                rest = there if current == self._series else chain(*series.values())
                if now - min(waiting[name] for name, _ in rest) < self.patience:
                    break
                if any(self._is_between(current, digits, other) for other in coming):
                    break
                found += self._given_up(current, digits)
            if self._is_past(current, digits):  # the same number, written in another way
                found.append(self._late(name, current))
            else:
                found.append(Step("take", name))
                self._last[current], self._series = (int(digits), digits), current
            room -= 1
            there.pop(0)
            if not there:
                del series[current]
        return found

    def _is_past(self, series: str, digits: str) -> bool:
        return series in self._last and int(digits) <= self._last[series][0]

    def _is_next(self, series: str, digits: str) -> bool:
        """Whether nothing is missing before this one of the series that is being taken."""
        return series == self._series and int(digits) <= self._last[series][0] + 1

    def _is_between(self, series: str, digits: str, name: str) -> bool:
        """Whether this name would be given up if the one with these digits were taken."""
        parts = running(name)
        return (
            parts is not None
            and parts[0] == series
            and int(parts[1]) < int(digits)
            and not self._is_past(*parts)
        )

    def _late(self, name: str, series: str) -> Step:
        last = series + self._last[series][1]
        return Step("late", name, f"came too late: {last} had been taken")

    def _given_up(self, series: str, digits: str) -> list[Step]:
        """Name those missing before this one; before the first of a series nobody knows any."""
        if series not in self._last:
            return []
        last, written = self._last[series]
        first, end = last + 1, int(digits)
        width = min(len(written), len(digits))
        names = [
            f"{series}{number:0{width}}" for number in range(first, min(end, first + MOST_NAMES))
        ]
        if end - first > MOST_NAMES:
            names = [f"{names[0]} to {end - 1:0{width}}"]
        why = f"did not come within {self.patience:g} s while {series}{digits} was there"
        return [Step("skip", name, why) for name in names]


@lru_cache(_REMEMBERED)
def running(name: str) -> tuple[str, str] | None:
    """Split a name into its series and the digits of its number; None if it ends in no number.

    Examples
    --------
    >>> running("run7-0012"), running("monday")
    (('run7-', '0012'), None)
    """
    found = re.fullmatch(r"(.*?)([0-9]+)", name, re.DOTALL)
    return None if found is None else (found[1], found[2])


@lru_cache(_REMEMBERED)
def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Give a key that sorts names as people do: run9 before run10.

    Examples
    --------
    >>> sorted(["run10-1", "run9-2", "run9-10", "run"], key=natural)
    ['run', 'run9-2', 'run9-10', 'run10-1']
    """
    parts = re.findall(r"([^0-9]*)([0-9]*)", name)
    return tuple((text, int(digits or -1)) for text, digits in parts)
