"""JSON lines of a long run, in a file: what is there already is not measured again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gofstream.cli.progress import duration
from gofstream.files import write_whole

Lines = dict[str, dict[str, Any]]


def read_lines(paths: Iterable[Path]) -> Lines:
    """Read lines by name; later ones take the place of earlier ones.

    What is not a whole line of JSON is passed over: other programs print into the same file, and
    one that was killed leaves half a line.
    """
    lines: Lines = {}
    for path in paths:
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if isinstance(line, dict) and "name" in line:
                lines[line["name"]] = line
    return lines


class Points:
    """The lines of one file.

    Parameters
    ----------
    path : the file; made when the first line is put.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = read_lines([path]) if path.exists() else {}
        if self.lines:  # without what a kill left of its last line
            write_whole(path, "".join(map(_text, self.lines.values())))

    def measured(
        self, name: str, shape: dict[str, Any], measure: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Give what is known under a name, if it was measured for the same shape; or measure it."""
        if not self.knows(name, shape):
            self.put({"name": name, "shape": shape, **measure()})
        return self.lines[name]

    def knows(self, name: str, shape: dict[str, Any]) -> bool:
        """Whether that name was measured, for this shape."""
        return name in self.lines and self.lines[name]["shape"] == shape

    def put(self, line: dict[str, Any]) -> None:
        """Keep a line, for good once this returns, and show it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_text(line))
            file.flush()
            os.fsync(file.fileno())
        self.lines[line["name"]] = line
        sys.stdout.write(_text(line))
        sys.stdout.flush()


class Remaining:
    """Says how far a run is, and how long the rest may take, in a line on standard error.

    Parameters
    ----------
    costs : of what is to be done, in any unit: of points of which one takes as long as another, 1.
    """

    def __init__(self, costs: Iterable[float]) -> None:
        self.costs = list(costs)
        self.begun = time.monotonic()
        self.count, self.spent = 0, 0.0

    def done(self) -> None:
        """Note that the next of them is done."""
        self.spent += self.costs[self.count]
        self.count += 1
        sys.stderr.write(
            f"{time.strftime('%H:%M:%S')} {self.text(time.monotonic() - self.begun)}\n"
        )
        sys.stderr.flush()

    def text(self, seconds: float) -> str:
        """Say it, after so many seconds."""
        left = seconds * (sum(self.costs) / self.spent - 1)
        return f"{self.count} of {len(self.costs)}, about {duration(left)} left"


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"
