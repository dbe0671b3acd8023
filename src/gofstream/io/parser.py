"""Grammar of conditions and formulas: from words to steps that compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import nearest_names
from gofstream.io.tokens import Token, fail, tokenize

#: Deepest nesting: parentheses, signs, powers.
DEEPEST = 50

Array = NDArray[Any]
#: A number or a column to put on the stack, or a function and how many arguments it takes from it.
Step = float | str | tuple[Callable[..., Any], int]

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_SUM = {"+": np.add, "-": np.subtract}
_PRODUCT = {"*": np.multiply, "/": np.divide}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "abs": (np.abs, 1),
    "sqrt": (np.sqrt, 1),
    "exp": (np.exp, 1),
    "log": (np.log, 1),
    "log10": (np.log10, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 1),
    "sinh": (np.sinh, 1),
    "cosh": (np.cosh, 1),
    "hypot": (np.hypot, 2),
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
}


class Parser:
    """Goes through the words once. Each method tells whether what it read is a condition."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.place = 0
        self.depth = 0
        self.steps: list[Step] = []

    @property
    def token(self) -> Token:
        """The word to read next."""
        return self.tokens[self.place]

    def at(self, *marks: str) -> bool:
        """Tell whether one of these marks comes next."""
        return self.token.kind == "mark" and self.token.text in marks

    def advance(self) -> Token:
        """Take the next word."""
        self.place += 1
        return self.tokens[self.place - 1]

    def either(self) -> bool:
        """Read conditions joined by `or`."""
        return self.joined("|", self.both, np.logical_or)

    def both(self) -> bool:
        """Read conditions joined by `and`."""
        return self.joined("&", self.negated, np.logical_and)

    def joined(self, mark: str, part: Callable[[], bool], function: Callable[..., Any]) -> bool:
        """Read parts joined by a mark that joins conditions."""
        start = self.token
        found = part()
        while self.at(mark):
            self.need(found, start, condition=True)
            self.advance()
            start = self.token
            self.need(part(), start, condition=True)
            self.steps.append((function, 2))
        return found

    def negated(self) -> bool:
        """Read a condition with or without `not` before it."""
        if not self.at("!"):
            return self.comparison()
        self.advance()
        self.deeper()
        start = self.token
        self.need(self.negated(), start, condition=True)
        self.depth -= 1
        self.steps.append((np.logical_not, 1))
        return True

    def comparison(self) -> bool:
        """Read a number, or numbers compared with each other."""
        start = self.token
        found = self.series(_SUM, lambda: self.series(_PRODUCT, self.signed))
        marks = []
        while self.at(*_COMPARE):
            self.need(found, start, condition=False)
            marks.append(self.advance().text)
            start = self.token
            found = self.series(_SUM, lambda: self.series(_PRODUCT, self.signed))
            self.need(found, start, condition=False)
        if not marks:
            return found
        self.steps.append((_chain([_COMPARE[mark] for mark in marks]), len(marks) + 1))
        return True

    def series(self, marks: Mapping[str, Callable[..., Any]], part: Callable[[], bool]) -> bool:
        """Read numbers joined by one kind of arithmetic."""
        start = self.token
        found = part()
        while self.at(*marks):
            self.need(found, start, condition=False)
            function = marks[self.advance().text]
            start = self.token
            self.need(part(), start, condition=False)
            self.steps.append((function, 2))
        return found

    def signed(self) -> bool:
        """Read a number with or without a sign, which binds less than a power."""
        if not self.at("-", "+"):
            return self.power()
        negative = self.advance().text == "-"
        self.deeper()
        start = self.token
        self.need(self.signed(), start, condition=False)
        self.depth -= 1
        if negative:
            self.steps.append((np.negative, 1))
        return False

    def power(self) -> bool:
        """Read a number with or without an exponent."""
        start = self.token
        found = self.atom()
        if self.at("**"):
            self.need(found, start, condition=False)
            self.advance()
            self.deeper()
            start = self.token
            self.need(self.signed(), start, condition=False)
            self.depth -= 1
            self.steps.append((np.power, 2))
        return found

    def atom(self) -> bool:
        """Read a number, a column, a function or something in parentheses."""
        token = self.advance()
        if token.kind == "number":
            value = float(token.text)
            if value == float("inf"):
                fail(self.text, token.at, f"{token.text} is too large a number")
            self.steps.append(value)
        elif token.kind == "name" and self.at("("):
            self.call(token)
        elif token.kind in ("name", "quoted"):
            self.steps.append(token.text)
        elif token.kind == "mark" and token.text == "(":
            return self.inner()
        else:
            what = f"{token.text!r}" if token.text else "the end"
            fail(self.text, token.at, f"a number or a column was expected here, not {what}")
        return False

    def inner(self) -> bool:
        """Read what stands in parentheses."""
        self.deeper()
        found = self.either()
        self.depth -= 1
        self.close()
        return found

    def call(self, name: Token) -> None:
        """Read the arguments of a function."""
        if name.text not in _FUNCTIONS:
            known = nearest_names(name.text, _FUNCTIONS)
            fail(self.text, name.at, f"there is no function {name.text!r} ({known})")
        function, count = _FUNCTIONS[name.text]
        self.deeper()
        for position in range(count):
            self.advance()  # the parenthesis, then commas
            start = self.token
            self.need(self.either(), start, condition=False)
            if position + 1 < count and not self.at(","):
                fail(self.text, self.token.at, f"{name.text!r} takes {count} numbers")
        self.depth -= 1
        if self.at(","):
            fail(self.text, self.token.at, f"{name.text!r} takes {count} numbers, not more")
        self.close()
        self.steps.append((function, count))

    def close(self) -> None:
        """Take a closing parenthesis."""
        if not self.at(")"):
            fail(self.text, self.token.at, "a closing parenthesis is missing here")
        self.advance()

    def deeper(self) -> None:
        """Count a level of nesting."""
        self.depth += 1
        if self.depth > DEEPEST:
            at = self.token.at
            fail(self.text, at, f"this is nested too deeply (more than {DEEPEST} levels)")

    def need(self, found: bool, start: Token, *, condition: bool) -> None:
        """Refuse a number where a condition must be, or the other way round."""
        if found == condition:
            return
        wrong = (
            "this is a number, not a condition; compare it with something, such as 0"
            if condition
            else "this is a condition, but a number is needed here"
        )
        fail(self.text, start.at, wrong)


def _chain(functions: list[Callable[[Array, Array], Array]]) -> Callable[..., Array]:
    """Compare each of several numbers with the next."""

    def compare(*values: Array) -> Array:
        found = functions[0](values[0], values[1])
        for j, function in enumerate(functions[1:], 1):
            found = np.logical_and(found, function(values[j], values[j + 1]))
        return found

    return compare
