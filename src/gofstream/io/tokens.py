"""Words of the language of conditions and formulas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Never

from gofstream.errors import ExpressionError, printable

#: Longest text, in characters.
LONGEST = 10_000

_PATTERN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[^\W\d]\w*(?:\.\w+)*)
      | `(?P<quoted>[^`]+)`
      | (?P<mark>\*\*|<=|>=|==|!=|[-−+*/<>&|!(),])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
#: Other ways to write a mark; the minus sign is that of our own reports.
_WORDS = {"and": "&", "or": "|", "not": "!", "−": "-"}
_HINTS = {"=": "write == to compare", "`": "a ` that is not closed", "%": "there is no remainder"}
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Token:
    """A number, a name, a mark such as ``<=``, or the end; `at` is where it begins."""

    kind: str
    text: str
    at: int


def tokenize(text: str) -> list[Token]:
    """Cut a text into its words; the last is of kind ``end``."""
    if len(text) > LONGEST:
        raise ExpressionError(
            f"{len(text)} characters are too long; the limit is {LONGEST}, so go in steps"
        )
    tokens: list[Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        found = _PATTERN.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            hint = _HINTS.get(text[start], "no word of this language")
            fail(text, start, f"{text[start]!r} is not understood ({hint})")
        kind = found.lastgroup or "end"
        word = found[kind]
        if kind in ("name", "mark") and word in _WORDS:
            kind, word = "mark", _WORDS[word]
        tokens.append(Token(kind, word, found.start(kind)))
        at = found.end()
    return tokens


def fail(text: str, at: int, message: str) -> Never:
    """Raise an error that points at a place in the text."""
    start = max(at - _SHOWN // 2, 0)
    before, after = printable(text[start:at]), printable(text[at : start + _SHOWN])
    dots = "..." if start else ""
    raise ExpressionError(
        f"{message}, at character {at + 1}\n  {dots}{before}{after}\n"
        f"  {' ' * (len(dots) + len(before))}^"
    )
