"""JSON lines of a long run, in a file: what is there already is not measured again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
        known = self.lines.get(name)
        if known is None or known["shape"] != shape:
            known = {"name": name, "shape": shape, **measure()}
            self.put(known)
        return known

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


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"
