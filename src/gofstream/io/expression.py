"""The `where` language: conditions on columns, such as ``mll > 60 & pt2 > 20``.

A text becomes a list of steps for a machine with a stack of arrays. There is nothing a text can do
but compute: no names other than columns and the functions below, and no Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import ColumnError, nearest_names
from gofstream.io.parser import Array, Parser, Step
from gofstream.io.tokens import fail

# Rows evaluated at once: intermediate results stay small, whatever the length of the text.
_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on events, made by `parse`.

    Parameters
    ----------
    text
        As it was written.
    names
        Columns it looks at, in the order in which they first appear.
    """

    text: str
    names: tuple[str, ...]
    _steps: tuple[Step, ...] = field(repr=False)

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
        for name in self.names:
            if name not in columns:
                raise ColumnError(f"where: no column {name!r}; {nearest_names(name, columns)}")
        arrays = {name: np.asarray(columns[name]) for name in self.names}
        result = np.empty(len(arrays[self.names[0]]), np.bool_)
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


def parse(text: str) -> Condition:
    """Read a condition.

    From loose to tight: ``|`` or ``or``; ``&`` or ``and``; ``!`` or ``not``; comparisons, which can
    be chained; ``+ -``; ``* /``; a sign; ``**``. Names of columns that are not plain words stand in
    backticks. Functions are abs, sqrt, exp, log, log10, sin, cos, tan, hypot, min and max.

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
    parser = Parser(text)
    start = parser.token
    is_condition = parser.either()
    if parser.token.kind != "end":
        fail(text, parser.token.at, f"{parser.token.text!r} was not expected here")
    if not is_condition:
        fail(text, start.at, "this is a number, not a condition; compare it with something")
    names = tuple(dict.fromkeys(step for step in parser.steps if isinstance(step, str)))
    if not names:
        fail(text, start.at, "this names no column, so it says nothing about events")
    return Condition(text, names, tuple(parser.steps))
