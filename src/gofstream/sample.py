"""Samples of events: the gate through which all data from outside come in.

Past it arrays are real, finite, read-only and have named columns: nothing further down checks
again. What a reference must be, and data beside it, is checked in `gofstream.checks`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import (
    ColumnError,
    DtypeError,
    InputError,
    NonFiniteError,
    RangeError,
    WeightError,
    nearest_names,
)
from gofstream.ondisk import OnDisk
from gofstream.periods import TURN, Periodic, fits, misfit, outside, periods_of
from gofstream.tables import TableLike, columns_of

FLOAT32_MAX = float(np.finfo(np.float32).max)
#: Rows looked at together, where all are looked at: no temporary is as large as the sample.
PIECE = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Events as rows of named columns, with optional weights.

    The arrays are private read-only copies, so a sample never changes. `Sample.from_array` and
    `Sample.from_columns` are the usual ways to make one. A sample may have no rows: a Poisson
    batch can be empty.

    Parameters
    ----------
    values
        Shape (rows, columns). float32 is kept; other real types become float64. Events that memory
        cannot hold are `OnDisk`, of which rows can be had as of an array, and nothing else.
    columns
        One name per column.
    weights
        One non-negative weight per row, or None if every row counts the same.
    units
        Units of some or all columns.
    periodic
        Columns that repeat, with their periods: ``{"phi": 360}``. Columns that are only named are
        angles in radians. Values lie within one period of zero.
    name
        What error messages call this sample.

    Examples
    --------
    >>> sample = Sample.from_array([[1.0, 0.2], [2.0, 0.4]], ["pt", "phi"], periodic=["phi"])
    >>> len(sample), sample.columns
    (2, ('pt', 'phi'))
    """

    values: NDArray[np.floating[Any]]
    columns: tuple[str, ...]
    weights: NDArray[np.float64] | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    periodic: Mapping[str, float] = field(default_factory=dict)
    name: str = "sample"

    def __post_init__(self) -> None:
        """Check everything and keep copies of the arrays."""
        _seal(self, copy=True)

    def __reduce__(self) -> tuple[Callable[..., Sample], tuple[object, ...]]:
        """Seal again: arrays sent to a worker would arrive writable."""
        return _again, (
            self.values,
            self.columns,
            self.weights,
            dict(self.units),
            dict(self.periodic),
            self.name,
        )

    @classmethod
    def from_array(
        cls,
        values: ArrayLike | TableLike,
        columns: Sequence[str] | None = None,
        *,
        weights: ArrayLike | None = None,
        units: Mapping[str, str] | None = None,
        periodic: Periodic = (),
        name: str = "sample",
    ) -> Sample:
        """Make a sample from a matrix of events, or from one column of numbers.

        Parameters
        ----------
        values
            Shape (rows, columns); a one-dimensional array is one column. Of anything that has names
            for its columns `from_columns` takes those asked for, by name.
        columns
            Column names; by default x0, x1, ..., or x for a single column.
        weights, units, periodic, name
            As for `Sample`.

        Examples
        --------
        >>> Sample.from_array([3.0, 1.0, 2.0]).columns
        ('x',)
        """
        if (table := columns_of(values, f"sample {name!r}")) is not None:
            wanted = table if columns is None else _picked(table, columns, name)
            return cls.from_columns(
                wanted, weights=weights, units=units, periodic=periodic, name=name
            )
        matrix = _real(cast(ArrayLike, values), f"sample {name!r}")
        if matrix.ndim == 1:
            matrix = matrix[:, np.newaxis]
        if columns is None:
            width = matrix.shape[1] if matrix.ndim == 2 else 0
            columns = ("x",) if width == 1 else tuple(f"x{j}" for j in range(width))
        return build(matrix, columns, weights, units, periodic, name, copy=True)

    @classmethod
    def from_columns(
        cls,
        columns: TableLike,
        *,
        weights: ArrayLike | None = None,
        units: Mapping[str, str] | None = None,
        periodic: Periodic = (),
        name: str = "sample",
    ) -> Sample:
        """Make a sample from one array per column, or from a table with named columns.

        Parameters
        ----------
        columns
            One-dimensional arrays of one length, by column name; or a data frame of pandas or
            polars, a table of pyarrow, awkward records or a structured array.
        weights, units, periodic, name
            As for `Sample`.

        Examples
        --------
        >>> Sample.from_columns({"pt": [1, 2], "eta": [0.5, -0.5]}).values.tolist()
        [[1.0, 0.5], [2.0, -0.5]]
        """
        table = columns_of(columns, f"sample {name!r}")
        if table is None:
            raise ColumnError(
                f"sample {name!r}: expected named columns, got {type(columns).__name__}; use "
                "Sample.from_array for an array without names"
            )
        _check_names(tuple(table), f"sample {name!r}")
        arrays = {
            key: _real(given, f"sample {name!r}, column {key!r}") for key, given in table.items()
        }
        for key, array in arrays.items():
            if array.ndim != 1:
                raise InputError(
                    f"sample {name!r}, column {key!r}: expected a one-dimensional array, got shape "
                    f"{array.shape}; give each component a column of its own"
                )
        lengths = {key: len(array) for key, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key!r} has {length}" for key, length in lengths.items())
            raise ColumnError(
                f"sample {name!r}: columns differ in number of rows ({listed}); every column needs "
                "one value per event"
            )
        rows = next(iter(lengths.values()), 0)
        values = np.empty((rows, len(arrays)), np.result_type(np.float32, *arrays.values()))
        for j, array in enumerate(arrays.values()):
            values[:, j] = array
        return build(values, tuple(arrays), weights, units, periodic, name, copy=False)

    def __len__(self) -> int:
        """Count the events."""
        return len(self.values)

    @property
    def effective_size(self) -> float:
        """Number of equally weighted events that would fluctuate as much."""
        return float(len(self) if self.weights is None else 1 / np.sum(self.share**2))

    @property
    def share(self) -> NDArray[np.float64]:
        """The part of the whole each event stands for: weights that sum to one."""
        if self.weights is None:
            return np.full(len(self), 1 / max(len(self), 1))
        if not len(self):
            return np.empty(0)
        # Dividing by the largest first keeps the sum of huge weights finite.
        scaled = self.weights / self.weights.max()
        return np.asarray(scaled / scaled.sum(), np.float64)

    def digest(self) -> str:
        """SHA-256, in hex, of what the numbers are: columns, angles, values and weights.

        Neither the stored precision, nor the name, nor the units enter. The order of rows and
        columns does.

        Examples
        --------
        >>> single = Sample.from_array(np.float32([0.5, 1.5]))
        >>> single.digest() == Sample.from_array([0.5, 1.5]).digest()
        True
        """
        header = [
            self.columns,
            [self._repeats(column) for column in self.columns],
            len(self),
            self.weights is not None,
        ]
        sha = hashlib.sha256(json.dumps(header).encode())
        for array in (self.values,) if self.weights is None else (self.values, self.weights):
            for part in pieces(len(self)):
                # Adding zero turns -0.0 into 0.0: equal numbers must have equal bytes.
                block = array[part].astype("<f8") + 0.0
                sha.update(block.astype("<f8").tobytes())
        return sha.hexdigest()

    def _repeats(self, column: str) -> bool | float:
        """Give the period; False for none, True for radians, as digests always had it."""
        period = self.periodic.get(column)
        return period == TURN or period or False

    def take(
        self,
        rows: slice | NDArray[np.integer[Any]] | NDArray[np.bool_],
        name: str | None = None,
    ) -> Sample:
        """Keep some of the rows.

        Parameters
        ----------
        rows
            A slice, row numbers or a mask.
        name
            Name of the new sample; by default the name of this one.

        Examples
        --------
        >>> Sample.from_array([3.0, 1.0, 2.0]).take(np.array([2, 0])).values.ravel().tolist()
        [2.0, 3.0]
        """
        # Rows of a sealed array: either a fresh copy or a view nobody can write through.
        return self._of(
            self.values[rows], None if self.weights is None else self.weights[rows], name
        )

    def drop(self, rows: NDArray[np.int64]) -> Sample:
        """Keep all rows but these, given in rising order; what is on disk stays there.

        Examples
        --------
        >>> Sample.from_array([3.0, 1.0, 2.0]).drop(np.array([0, 2])).values.tolist()
        [[1.0]]
        """
        weights = None if self.weights is None else np.delete(self.weights, rows)
        if isinstance(self.values, OnDisk):
            return self._of(self.values.without(rows), weights)
        return self._of(np.delete(self.values, rows, axis=0), weights)

    def _of(self, values: Any, weights: ArrayLike | None, name: str | None = None) -> Sample:
        """Make a sample of rows of this one."""
        given = (values, self.columns, weights, self.units, self.periodic, name or self.name)
        return build(*given, copy=False, known=True)


#: What events may be given as: a sample, an array, or a table with named columns.
Events = Sample | ArrayLike | TableLike


def as_sample(events: Events, name: str) -> Sample:
    """Take a sample as it is, and make one of an array or a table.

    Examples
    --------
    >>> as_sample({"pt": [3.0, 1.0]}, "data").columns
    ('pt',)
    """
    if isinstance(events, Sample):
        return events
    refuse_no_events(events, name)
    return Sample.from_array(events, name=name)


def refuse_no_events(events: object, name: str) -> None:
    """Refuse what cannot hold events, before it is taken for an array of something else.

    Raises
    ------
    InputError
        It says what was given.
    """
    if events is None or callable(events) or isinstance(events, str | bytes | bool):
        given = "None" if events is None else f"of type {type(events).__name__}"
        raise InputError(f"{name} is {given}; give a Sample, an array or a table of events")


def _picked(
    table: Mapping[str, NDArray[Any]], columns: Sequence[str], name: str
) -> dict[str, NDArray[Any]]:
    """Pick columns of a table by name."""
    missing = [column for column in _names(columns) if column not in table]
    if missing:
        raise ColumnError(
            f"sample {name!r} lacks columns "
            + "; ".join(f"{c!r} ({nearest_names(c, list(table))})" for c in missing)
        )
    return {column: table[column] for column in _names(columns)}


def pieces(rows: int) -> Iterator[slice]:
    """Cut so many rows into pieces.

    Examples
    --------
    >>> [(part.start, part.stop) for part in pieces(100_000)]
    [(0, 65536), (65536, 100000)]
    """
    return (slice(start, min(start + PIECE, rows)) for start in range(0, rows, PIECE))


def _again(values: Any, *others: Any) -> Sample:
    """Make a sample that was sent here. What is on disk is not read before it is needed."""
    return build(values, *others, copy=False, known=True)


def build(
    values: NDArray[np.floating[Any]],
    columns: Sequence[str],
    weights: ArrayLike | None,
    units: Mapping[str, str] | None,
    periodic: Periodic,
    name: str,
    *,
    copy: bool,
    known: bool = False,
) -> Sample:
    """Build a sample; without `copy`, from an array that nobody else can write.

    Values that are `known` were those of a sample before, and are not looked at again.
    """
    sample = object.__new__(Sample)
    given = (values, columns, weights, units or {}, periodic, name)
    for key, content in zip(Sample.__dataclass_fields__, given, strict=True):
        object.__setattr__(sample, key, content)
    _seal(sample, copy=copy, known=known)
    return sample


def _seal(sample: Sample, *, copy: bool, known: bool = False) -> None:
    """Check all fields of a sample and replace them by read-only ones: the one gate."""
    where = f"sample {sample.name!r}"
    values = sample.values
    if not isinstance(values, OnDisk):
        # `copy=None` copies only where type or memory order call for it.
        values = np.array(_real(values, where), order="C", copy=True if copy else None)
        values.flags.writeable = False
    columns = _names(sample.columns)
    periodic = periods_of(sample.periodic)
    _check_columns(values, columns, where)
    for kind, named in (("unit", sample.units), ("periodic", sorted(periodic))):
        for column in named:
            if column not in columns:
                raise ColumnError(
                    f"{where}: {kind} given for unknown column {column!r}; "
                    f"{nearest_names(column, columns)}"
                )
    if not known:
        _check_values(values, columns, periodic, where)
    weights = sample.weights
    if weights is not None:
        weights = np.array(_real(weights, f"{where}, weights"), np.float64)
        _check_weights(weights, len(values), where)
        weights.flags.writeable = False
    sealed = {
        "values": values,
        "columns": columns,
        "weights": weights,
        "units": MappingProxyType(dict(sample.units)),
        "periodic": MappingProxyType(periodic),
    }
    for key, content in sealed.items():
        object.__setattr__(sample, key, content)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    """Take a lone string for one name, not for a series of letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def _real(values: ArrayLike, where: str) -> NDArray[np.floating[Any]]:
    """Read anything array-like as float32 or float64, or say why it is not real numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DtypeError(
            f"{where}: {np.ma.getmaskarray(values).sum()} entries are masked; fill them or drop "
            "the events first"
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DtypeError(
            f"{where}: cannot be read as an array of numbers ({error}); every event needs the same "
            "number of values"
        ) from error
    if array.dtype.kind not in "biuf":
        ways_out = {
            "c": "use real and imaginary parts, or modulus and phase, as columns",
            "V": "give each component a column of its own",
            "M": "convert times to seconds",
            "m": "convert times to seconds",
        }
        way_out = ways_out.get(array.dtype.kind, "convert with .astype(float) after checking why")
        raise DtypeError(f"{where}: dtype {array.dtype} is not a real number type; {way_out}")
    single = array.dtype.kind == "f" and array.dtype.itemsize == 4
    # A long double beyond float64 becomes inf here, which is reported as such further on.
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if single else np.float64, copy=False)


def _check_columns(values: NDArray[np.floating[Any]], columns: tuple[str, ...], where: str) -> None:
    if values.ndim != 2:
        raise InputError(
            f"{where}: expected shape (rows, columns), got {values.shape}; give one row per event"
        )
    _check_names(columns, where)
    duplicates = sorted({column for column in columns if columns.count(column) > 1})
    if duplicates:
        raise ColumnError(
            f"{where}: duplicated column names {', '.join(map(repr, duplicates))}; rename or drop "
            "all but one of each"
        )
    if values.shape[1] != len(columns):
        raise ColumnError(
            f"{where}: {values.shape[1]} columns of values but {len(columns)} names "
            f"({', '.join(map(repr, columns))}); give one name per column"
        )
    if not columns:
        raise ColumnError(f"{where}: there are no columns; give at least one")


def _check_names(columns: tuple[str, ...], where: str) -> None:
    if not all(isinstance(column, str) for column in columns):
        raise ColumnError(f"{where}: column names must be strings, got {columns!r}; convert them")


def _check_values(
    values: NDArray[np.floating[Any]],
    columns: tuple[str, ...],
    periodic: Mapping[str, float],
    where: str,
) -> None:
    if not len(values):
        return
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    # The extremes of a column tell whether all is well.
    with np.errstate(invalid="ignore"):
        for part in pieces(len(values)):
            piece = values[part]
            low, high = np.minimum(low, piece.min(axis=0)), np.maximum(high, piece.max(axis=0))
    for j, column in enumerate(columns):
        extreme = max(-low[j], high[j])
        if not np.isfinite(extreme):
            found = _first(values, j, lambda x: ~np.isfinite(x))
            raise NonFiniteError(
                f"{where}, column {column!r}: {found[0]} of {len(values)} values are not finite, "
                f"the first is {found[2]} at row {found[1]} (counted from 0); drop or repair these "
                "events"
            )
        if extreme > FLOAT32_MAX:
            found = _first(values, j, lambda x: np.abs(x) > FLOAT32_MAX)
            raise RangeError(
                f"{where}, column {column!r}: {found[0]} of {len(values)} values overflow float32, "
                f"the first is {found[2]} at row {found[1]} (counted from 0); use a larger unit, "
                "or drop events that hold a filler value"
            )
        if column in periodic and not fits(low[j], high[j], periodic[column]):
            found = _first(values, j, outside(periodic[column]))
            raise RangeError(
                f"{where}, column {column!r}: {misfit(low[j], high[j], column, periodic[column])} "
                f"({found[0]} of {len(values)} values do not fit, the first is {found[2]} at row "
                f"{found[1]}, counted from 0)"
            )


def _first(
    values: NDArray[np.floating[Any]],
    j: int,
    bad: Callable[[NDArray[np.floating[Any]]], NDArray[np.bool_]],
) -> tuple[int, int, Any]:
    """Count the bad values of a column that has some; tell where the first is, and what."""
    count, row, value = 0, 0, None
    for part in pieces(len(values)):
        column = values[part][:, j]
        which = np.flatnonzero(bad(column))
        if len(which) and not count:
            row, value = part.start + int(which[0]), column[which[0]]
        count += len(which)
    return count, row, value


def _check_weights(weights: NDArray[np.float64], rows: int, where: str) -> None:
    if weights.shape != (rows,):
        raise WeightError(
            f"{where}: weights of shape {weights.shape} for {rows} rows; give one weight per row"
        )
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        raise WeightError(
            f"{where}: {len(bad)} of {rows} weights are not finite, the first is {weights[bad[0]]} "
            f"at row {bad[0]} (counted from 0); drop or repair these events"
        )
    if not rows:
        return
    size = np.abs(weights).max()
    if size == 0:
        raise WeightError(
            f"{where}: all {rows} weights are zero, so they sum to zero; check where they come "
            "from, or leave them out to count every row the same"
        )
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        scaled = weights / size
        effective = scaled.sum() ** 2 / (scaled**2).sum()
        share = np.abs(scaled[negative]).sum() / np.abs(scaled).sum()
        raise WeightError(
            f"{where}: {len(negative)} of {rows} weights are negative ({len(negative) / rows:.2%} "
            f"of events, {share:.2%} of the total |weight|), first at row {negative[0]} (counted "
            f"from 0); the effective sample size is {effective:.1f} of {rows}. A density ratio "
            "needs positive weights: resample to positive weights, merge each negative event with "
            "its neighbours, or generate without negative weights"
        )
