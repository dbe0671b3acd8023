"""The language of conditions, ``mll > 60 & pt2 > 20``, and of formulas, ``log(pt1 / pt2)``.

A text becomes a list of steps for a machine with a stack of arrays. There is nothing a text can do
but compute: no names other than columns and the functions below, and no Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gofstream.errors import ColumnError, ExpressionError, nearest_names
from gofstream.io.parser import Array, Parser, Step
from gofstream.io.tokens import fail

# Rows evaluated at once: intermediate results stay small, whatever the length of the text.
_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Expression:
    """What `parse` and `parse_formula` make of a text.

    Parameters
    ----------
    what
        What messages call it.
    text
        As it was written.
    names
        Columns it looks at, in the order in which they first appear.
    """

    what: str
    text: str
    names: tuple[str, ...]
    _steps: tuple[Step, ...] = field(repr=False)

    def _computed(self, columns: Mapping[str, ArrayLike], dtype: DTypeLike) -> NDArray[Any]:
        for name in self.names:
            if name not in columns:
                raise ColumnError(
                    f"{self.what}: no column {name!r}; {nearest_names(name, columns)}"
                )
        arrays = {name: np.asarray(columns[name]) for name in self.names}
        result = np.empty(len(arrays[self.names[0]]), dtype)
        for start in range(0, len(result), _ROWS):
            rows = slice(start, start + _ROWS)
            piece = {name: array[rows].astype(np.float64) for name, array in arrays.items()}
            result[rows] = self._run(piece)
        return result

    def _run(self, piece: Mapping[str, Array]) -> Array:
        stack: list[Any] = []
        # Division by zero and the logarithm of a negative number give inf and NaN, as they should.
        with np.errstate(all="ignore"):
            for step in self._steps:
                if isinstance(step, str):
                    stack.append(piece[step])
                elif isinstance(step, tuple):
                    function, count = step
                    stack[-count:] = [function(*stack[-count:])]
                else:
                    stack.append(np.float64(step))
        return np.asarray(stack.pop())


class Condition(Expression):
    """A condition on events."""

    __slots__ = ()

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.bool_]:
        """Tell for each event whether it fulfils the condition.

        All is computed in float64. A comparison with NaN is false, except ``!=``.

        Parameters
        ----------
        columns
            One-dimensional arrays of one length, by column name; more than needed may be there.

        Raises
        ------
        ColumnError
            If a column is missing.
        """
        return self._computed(columns, np.bool_)


class Formula(Expression):
    """A number for each event."""

    __slots__ = ()

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Compute the number for each event, in float64; parameters as for `Condition`."""
        return self._computed(columns, np.float64)


def parse(text: str) -> Condition:
    """Read a condition.

    From loose to tight: ``|`` or ``or``; ``&`` or ``and``; ``!`` or ``not``; comparisons, which can
    be chained; ``+ -``; ``* /``; a sign; ``**``. Names of columns that are not plain words stand in
    backticks. Functions are abs, sqrt, exp, log, log10, sin, cos, tan, sinh, cosh, hypot, min and
    max.

    Parameters
    ----------
    text
        The condition.

    Raises
    ------
    ExpressionError
        If the text is not a condition; the message points at the place.

    Examples
    --------
    >>> condition = parse("60 < mll < 120 & !(`pt 2` <= 20)")
    >>> condition.names
    ('mll', 'pt 2')
    >>> condition.evaluate({"mll": [50, 91, 91], "pt 2": [30, 30, 10]}).tolist()
    [False, True, False]
    """
    return Condition("where", text, *_read("where", text, condition=True))


def parse_formula(text: str, what: str) -> Formula:
    """Read a formula: a number, in the language of conditions.

    Parameters
    ----------
    text
        The formula.
    what
        What messages call it.

    Raises
    ------
    ExpressionError
        If the text is not a formula.

    Examples
    --------
    >>> parse_formula("hypot(px, py)", "pt").evaluate({"px": [3.0], "py": [4.0]}).tolist()
    [5.0]
    """
    return Formula(what, text, *_read(what, text, condition=False))


def _read(what: str, text: str, *, condition: bool) -> tuple[tuple[str, ...], tuple[Step, ...]]:
    """Give the columns that a text looks at, and its steps."""
    try:
        parser = Parser(text)
        start = parser.token
        found = parser.either()
        if parser.token.kind != "end":
            fail(text, parser.token.at, f"{parser.token.text!r} was not expected here")
        parser.need(found, start, condition=condition)
        names = tuple(dict.fromkeys(step for step in parser.steps if isinstance(step, str)))
        if not names:
            fail(text, start.at, "this names no column, so it says nothing about events")
    except ExpressionError as error:
        raise ExpressionError(f"{what}: {error}") from None
    return names, tuple(parser.steps)
