"""Columns that no file has: computed from others while they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gofstream.errors import ColumnError, DtypeError, nearest_names, short
from gofstream.io.expression import Formula, parse_formula
from gofstream.io.table import Column, Piece, Table


@dataclass(frozen=True, slots=True)
class Definitions:
    """New columns by name; a formula may use those before it."""

    formulas: Mapping[str, Formula] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> Definitions:
        """Read formulas.

        Raises
        ------
        ExpressionError
            If a text is not a formula; the message points at the place.

        Examples
        --------
        >>> Definitions.read({"r": "hypot(x, y)", "log r": "log(r)"}).sources(["log r"])
        ['log r', 'r', 'x', 'y']
        """
        return cls({name: parse_formula(text, f"define {name!r}") for name, text in texts.items()})

    def sources(self, names: Iterable[str]) -> list[str]:
        """Give these columns and all that they are computed from."""
        found = list(dict.fromkeys(names))
        for name in found:  # which grows meanwhile
            if name in self.formulas:
                found += [each for each in self.formulas[name].names if each not in found]
        return found

    def on(self, table: Table, path: Path) -> Table:
        """Give a table the new columns.

        Raises
        ------
        ColumnError
            If it has such a column, or lacks one that a formula needs.
        DtypeError
            If a formula needs a column that does not hold one number for each event.
        """
        if not self.formulas:
            return table
        columns = dict(table.columns)
        for name, formula in self.formulas.items():
            if name in columns:
                raise ColumnError(
                    f"{path}: has a column {name!r} already; give the one that you define another "
                    "name"
                )
            columns[name] = _defined(formula, columns, path)

        def pieces(names: Sequence[str], at_once: int) -> Iterator[Piece]:
            needed = self.sources(names)
            own = [name for name in needed if name not in self.formulas]
            for piece in table.pieces(own, at_once):
                for name, formula in self.formulas.items():
                    if name in needed:
                        dtype = columns[name].dtype
                        # Too large for the type is infinite, which readers refuse by its row.
                        with np.errstate(over="ignore"):
                            piece[name] = formula.evaluate(piece).astype(dtype)
                yield {name: piece[name] for name in names}

        return replace(table, columns=columns, pieces=pieces)


def _defined(formula: Formula, columns: Mapping[str, Column], path: Path) -> Column:
    """Describe a new column: float32 if all that it is computed from is."""
    types = []
    for name in formula.names:
        if name not in columns:
            near = nearest_names(name, columns)
            raise ColumnError(f"{path}, {formula.what}: no column {name!r}; {near}")
        if (dtype := columns[name].dtype) is None:
            raise DtypeError(
                f"{path}, {formula.what}: column {name!r} holds {columns[name].type}, not one "
                "number for each event"
            )
        types.append(dtype)
    single = all(dtype == np.float32 for dtype in types)
    return Column(f"= {short(formula.text)}", np.dtype(np.float32 if single else np.float64))
