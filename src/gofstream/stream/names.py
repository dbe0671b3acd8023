"""Names of batches: which can be one, to which series one belongs, and those that a run gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Self

from gofstream.errors import InputError, printable

#: Longest name of a batch, in characters: every message and table shows it whole.
LONGEST_NAME = 200

# Names that wait are looked at again and again.
_REMEMBERED = 1 << 16
_AGAIN = re.compile(r" \(again(?: [0-9]+)?\)$")


class BatchName(str):
    """The identity of a batch: 1 to 200 printable characters.

    Raises
    ------
    InputError
        If the text is empty, too long or not printable.

    Examples
    --------
    >>> BatchName("run7-0001")
    'run7-0001'
    >>> BatchName.of_file("run7-0001.parquet")
    'run7-0001'
    >>> BatchName.merged(["run7-0001", "run7-0002", "run7-0003"])
    'run7-0001 .. run7-0003'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check a name."""
        if not text or not text.isprintable() or len(text) > LONGEST_NAME:
            raise InputError(
                f"{printable(text[:LONGEST_NAME])!r} cannot be the name of a batch: give 1 to "
                f"{LONGEST_NAME} printable characters"
            )
        return super().__new__(cls, text)

    @classmethod
    def fitted(cls, text: str, *, digest_of: str = "") -> Self:
        """Turn any text into a name: escaped, and cut where it is too long.

        A cut name ends in a digest of the whole text, so that two texts never get one name.

        Parameters
        ----------
        text : any.
        digest_of : ends the name in a digest of this in any case.
        """
        shown = printable(text) or "no name"
        if not digest_of and len(shown) <= LONGEST_NAME:
            return cls(shown)
        mark = hashlib.sha256((digest_of or text).encode(errors="surrogateescape")).hexdigest()[:12]
        # It must not end in a digit: it would belong to a series.
        return cls(f"{shown[: LONGEST_NAME - len(mark) - 4]}… ({mark})")

    @staticmethod
    def of_file(name: str) -> BatchName:
        """Give the name of the batch in a file; of a file that can be none, one to refuse it by."""
        return _of_file(name)

    @classmethod
    def merged(cls, names: Iterable[str], *, distinct: bool = False) -> Self:
        """Name a batch that was made of several.

        Parameters
        ----------
        names : of its parts, in order.
        distinct : whether a digest of all names is added, as when another batch has the name.
        """
        parts = list(names)
        return cls.fitted(f"{parts[0]} .. {parts[-1]}", digest_of="\n".join(parts) * distinct)

    def variants(self) -> Iterator[BatchName]:
        """Give this name, and those that a batch gets when it is taken: "a", "a (again)", ...

        Examples
        --------
        >>> from itertools import islice
        >>> list(islice(BatchName("a").variants(), 3))
        ['a', 'a (again)', 'a (again 2)']
        """
        yield self
        for number in count(1):
            yield BatchName.fitted(f"{self} (again{f' {number}' * (number > 1)})")


def offered_name(name: str) -> str:
    """Give the name under which a batch was offered.

    Examples
    --------
    >>> offered_name("run7-0001 (again 2)"), offered_name("run7-0002")
    ('run7-0001', 'run7-0002')
    """
    return _AGAIN.sub("", name)


@lru_cache(_REMEMBERED)
def _of_file(name: str) -> BatchName:
    return BatchName.fitted(Path(name).stem)


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
