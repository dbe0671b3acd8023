"""From a file of one batch to its events and what was expected of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gofstream.errors import InputError, printable, short
from gofstream.io import read
from gofstream.io.define import Definitions
from gofstream.io.expression import parse
from gofstream.io.formats import opened
from gofstream.sample import Sample

#: Where Parquet and Arrow files say it, in the metadata of their schema.
EXPECTED = b"gofstream.expected"
#: How the file ends that says it for any other one.
BESIDE = ".json"
_LARGEST_BESIDE = 4096
# Bytes in the name of a file.
_LONGEST_FILE = 255


class Batch(NamedTuple):
    """The events of a batch, and N_i(R) if it was given with them."""

    sample: Sample
    expected: float | None


@dataclass(frozen=True, slots=True)
class Decoder:
    """What of each file is a batch; all of it is the same for all batches of a run.

    Parameters
    ----------
    columns
        Those of the reference.
    tree, where, memory, define
        As for `gofstream.io.read`; a file larger than `memory` is not even opened.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run7-0001.npz"
    >>> np.savez(path, pt=[25.0, 31.0], eta=[0.1, -2.0])
    >>> written = path.with_suffix(".json").write_text('{"expected": 1.5}')
    >>> batch = Decoder(("pt",)).batch(path, "run7-0001")
    >>> batch.sample.values.ravel().tolist(), batch.expected
    ([25.0, 31.0], 1.5)
    """

    columns: tuple[str, ...]
    tree: str | None = None
    where: str | None = None
    memory: int = 1024**3
    define: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuse a bad condition or formula now: it would send every batch to quarantine."""
        if self.where is not None:
            parse(self.where)
        Definitions.read(self.define or {})

    def look(self, path: Path) -> None:
        """Raise an error if a file cannot be opened, as when its end is not yet written."""
        with opened(path, self.tree):
            pass

    def batch(self, path: Path, name: str) -> Batch:
        """Read a batch; it may have no events.

        Parameters
        ----------
        path
            The file; beside it there may be one that says what was expected.
        name
            What messages call the batch.

        Raises
        ------
        InputError
            If the file cannot be read, or what it holds cannot be used.
        MemoryBudgetError
            If its events do not fit.
        """
        with opened(path, self.tree) as table:
            noted = table.notes.get(EXPECTED)
        expected = None if noted is None else _number(noted, f"{path}, {EXPECTED.decode()}")
        companion = companion_path(path)
        if companion is not None and os.path.lexists(companion):
            expected = _read_expected(companion)
        events = read(
            path,
            columns=self.columns,
            tree=self.tree,
            where=self.where,
            define=self.define,
            memory=self.memory,
            name=name,
            allow_empty=True,
        )
        return Batch(events.sample, expected)


def companion_path(path: Path) -> Path | None:
    """Name the file that says what was expected of a batch; None where no name is so long."""
    companion = path.with_suffix(BESIDE)
    return companion if len(os.fsencode(companion.name)) <= _LONGEST_FILE else None


def check_expected(expected: float, where: str) -> float:
    """Refuse an expected count that is none.

    Raises
    ------
    InputError
        It names `where`.
    """
    if not (math.isfinite(expected) and expected > 0):
        raise InputError(f"{where}: the expected count is {expected}; give a number above 0")
    return float(expected)


def _number(text: bytes, where: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        shown = short(printable(text.decode("ascii", "backslashreplace")))
        raise InputError(
            f"{where} is {shown!r}; write the expected count there as a number"
        ) from error
    return check_expected(number, where)


def _read_expected(path: Path) -> float:
    """Read the file beside that of the batch."""
    say = f'{path}: say {{"expected": 1987.5}} there and nothing else, in a plain file'
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST_BESIDE:
        raise InputError(say)
    try:
        content = json.loads(path.read_bytes())
        expected = content.pop("expected")
        if content or isinstance(expected, bool) or not isinstance(expected, int | float):
            raise InputError(say)
        expected = float(expected)
    # Brackets without end make the first of them; a list or a word for an object the others.
    except (
        RecursionError,
        ValueError,
        OverflowError,
        AttributeError,
        KeyError,
        TypeError,
    ) as error:
        raise InputError(say) from error
    return check_expected(expected, str(path))
