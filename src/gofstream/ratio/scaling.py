"""Bring columns to a common scale, learnt on the reference and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import counted_pieces
from gofstream.errors import ColumnError, EmptyError, FormatError, InputError, RangeError
from gofstream.periods import TURN, periods_of
from gofstream.sample import Sample

Rule = Literal["zscore", "published"]

# Squared distances lose the digits of a kernel width beyond this many standard deviations: such
# an event is broken rather than far away.
LARGEST = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """How columns become features: (column - shift) / scale.

    A periodic column φ becomes two features in its place, the cosine and sine of the angle that φ
    is in radians: cos(2π φ / period) and sin(2π φ / period).

    Parameters
    ----------
    columns, periodic
        The columns this was learnt on, and the periods of those that repeat.
    shift, scale
        One number per feature.
    rule
        How they were found, see `Scaling.learn`.
    """

    columns: tuple[str, ...]
    periodic: Mapping[str, float]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    rule: Rule

    @classmethod
    def learn(cls, reference: Sample, rule: Rule = "zscore") -> Scaling:
        """Find shift and scale of every feature of the reference.

        Parameters
        ----------
        reference
            The sample of the nominal model. Its weights count as repeated rows would.
        rule
            "zscore": mean zero and spread one. "published", the rule of the code published with
            the paper: features with a negative value as for "zscore"; else, if the largest is
            above one, divided by the mean; else left alone. Under both, a constant feature is
            moved to zero and not scaled.

        Examples
        --------
        >>> scaling = Scaling.learn(Sample.from_array([1.0, 3.0]))
        >>> scaling.shift, scaling.scale
        (array([2.]), array([1.]))
        """
        if not len(reference):
            raise EmptyError(
                f"sample {reference.name!r} has no rows to learn a scaling from; give a reference "
                "of at least two"
            )
        # Rounding of the angle itself moves cos and sin by this much, which is not a spread.
        rounding = 16 * float(np.finfo(reference.values.dtype).eps)
        pairs = [
            _shift_and_scale(*found, rule, rounding if angular else 0.0)
            for found, (_, angular) in zip(_moments(reference), _names(reference), strict=True)
        ]
        shift, scale = np.array(pairs).T
        return cls(
            reference.columns, dict(reference.periodic), _sealed(shift), _sealed(scale), rule
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, such as "cos phi" and "sin phi" for an angle "phi"."""
        return tuple(name for name, _ in _names(self))

    def apply(
        self, sample: Sample, rows: slice | NDArray[np.int64] = slice(None)
    ) -> NDArray[np.float64]:
        """Scale the events of a sample.

        Parameters
        ----------
        sample
            Has the columns this was learnt on, in the same order.
        rows
            Which of its events; all, by default.

        Returns
        -------
        ndarray
            Shape (rows, features).

        Raises
        ------
        ColumnError
            If the columns differ.
        RangeError
            If an event lies so far out that distances to it would overflow.

        Examples
        --------
        >>> scaling = Scaling.learn(Sample.from_array([1.0, 3.0]))
        >>> scaling.apply(Sample.from_array([2.0, 4.0])).ravel()
        array([0., 2.])
        """
        if sample.columns != self.columns:
            raise ColumnError(
                f"sample {sample.name!r} has columns {sample.columns}, but the scaling was learnt "
                f"on {self.columns}; reorder with gofstream.checks.match_columns"
            )
        scaled = self._features_of(sample, rows)
        scaled -= self.shift
        scaled /= self.scale
        if max(scaled.max(initial=0.0), -scaled.min(initial=0.0)) > LARGEST:
            row, j = np.unravel_index(np.abs(scaled).argmax(), scaled.shape)
            number = range(len(sample))[rows][row] if isinstance(rows, slice) else rows[row]
            value = self._features_of(sample, rows)[row, j]
            raise RangeError(
                f"sample {sample.name!r}, column {self.feature_names[j]!r}: the value {value} at "
                f"row {number} (counted from 0) is {abs(scaled[row, j]):.3g} after scaling, too "
                "far from the reference for distances to mean anything; drop or repair it"
            )
        return scaled

    def _features_of(self, sample: Sample, rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        values = sample.values[rows].astype(np.float64)
        return np.stack(list(_features(values, self)), axis=1) if self.periodic else values

    def invert(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the columns of one scaled point, in the user's units.

        Examples
        --------
        >>> Scaling.learn(Sample.from_array([1.0, 3.0])).invert(np.array([2.0]))
        array([4.])
        """
        features = iter((point * self.scale + self.shift).tolist())
        found = []
        for column in self.columns:
            if column in self.periodic:
                cosine, sine = next(features), next(features)
                found.append(np.arctan2(sine, cosine) * self.per_radian(column))
            else:
                found.append(next(features))
        return np.array(found)

    def lengths(self, width: float) -> NDArray[np.float64]:
        """Give a scaled length in the units of every column; that of an angle is an arc, about.

        Examples
        --------
        >>> Scaling.learn(Sample.from_array([10.0, 30.0])).lengths(0.5)
        array([5.])
        """
        return width * self.by_column(self.scale) * [*map(self.per_radian, self.columns)]

    def per_radian(self, column: str) -> float:
        """Give what a radian of the angle is in units of a periodic column; 1 for any other.

        Examples
        --------
        >>> sample = Sample.from_array([90.0, -90.0], "phi", periodic={"phi": 360})
        >>> round(Scaling.learn(sample).per_radian("phi"), 3)
        57.296
        """
        return self.periodic.get(column, TURN) / TURN

    def by_column(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give one number for each column, from one for each feature: an angle gets the larger.

        Examples
        --------
        >>> Scaling.learn(Sample.from_array([1.0, 3.0])).by_column(np.array([7.0]))
        array([7.])
        """
        each = iter(values.tolist())
        return np.array(
            [
                max(next(each), next(each)) if column in self.periodic else next(each)
                for column in self.columns
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Write as plain lists and strings, from which `from_dict` restores every bit."""
        return {
            "columns": list(self.columns),
            # Only a name for radians, as in older files; other periods these cannot misread.
            "periodic": [
                name if period == TURN else [name, period]
                for name, period in sorted(self.periodic.items())
            ],
            "shift": self.shift.tolist(),
            "scale": self.scale.tolist(),
            "rule": self.rule,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Scaling:
        """Read what `to_dict` wrote.

        Parameters
        ----------
        stored
            The mapping, possibly by way of JSON.

        Raises
        ------
        FormatError
            If it is not a scaling.

        Examples
        --------
        >>> scaling = Scaling.learn(Sample.from_array([1.0, 3.0]))
        >>> Scaling.from_dict(scaling.to_dict()).to_dict() == scaling.to_dict()
        True
        """
        try:
            scaling = cls(
                tuple(map(str, stored["columns"])),
                _stored_periods(stored["periodic"]),
                _sealed(np.array(stored["shift"], np.float64)),
                _sealed(np.array(stored["scale"], np.float64)),
                stored["rule"],
            )
            features = (len(scaling.feature_names),)
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise FormatError(
                f"stored scaling cannot be read ({type(error).__name__}: {error}); the file is "
                "damaged or not a gofstream model, so write it again"
            ) from error
        sound = (
            scaling.rule in get_args(Rule)
            and set(scaling.periodic) <= set(scaling.columns)
            and scaling.shift.shape == scaling.scale.shape == features
            and bool(np.isfinite(scaling.shift).all() and np.isfinite(scaling.scale).all())
            and bool((scaling.scale > 0).all())
        )
        if not sound:
            raise FormatError(
                f"stored scaling of columns {scaling.columns} contradicts itself (rule "
                f"{scaling.rule!r}, {scaling.shift.size} shifts, {scaling.scale.size} scales for "
                f"{features[0]} features); the file is damaged, so write it again"
            )
        return scaling


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """The events of a sample, scaled when they are asked for: what a fit sees of the reference.

    Rows are had as those of an array are. Kept beside the events, scaled ones would take three
    times their memory, and events on disk could not be used at all.

    Examples
    --------
    >>> sample = Sample.from_array([1.0, 3.0, 5.0])
    >>> ScaledRows(sample, Scaling.learn(sample.take(slice(0, 2))))[1:].ravel()
    array([1., 3.])
    """

    sample: Sample
    scaling: Scaling

    @property
    def shape(self) -> tuple[int, int]:
        """Events and features."""
        return len(self.sample), len(self.scaling.shift)

    @property
    def nbytes(self) -> int:
        """Memory that the events take; weights are kept thrice: as given, as shares, with rows."""
        weights = self.sample.weights
        return self.sample.values.nbytes + (0 if weights is None else 3 * weights.nbytes)

    def __len__(self) -> int:
        """Count the events."""
        return len(self.sample)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Scale some of the events."""
        return self.scaling.apply(self.sample, rows)


def _stored_periods(stored: Sequence[str | tuple[str, float]]) -> dict[str, float]:
    """Read names, of angles in radians, and pairs of name and period."""
    each = [(item, TURN) if isinstance(item, str) else item for item in stored]
    return periods_of({str(name): period for name, period in each})


def _names(columns: Sample | Scaling) -> Iterator[tuple[str, bool]]:
    """Name one feature after another, and tell whether it comes from a periodic column."""
    for column in columns.columns:
        if column in columns.periodic:
            yield f"cos {column}", True
            yield f"sin {column}", True
        else:
            yield column, False


def _features(
    values: NDArray[np.floating[Any]], columns: Sample | Scaling
) -> Iterator[NDArray[np.float64]]:
    """Give one feature after another."""
    for j, column in enumerate(columns.columns):
        own = values[:, j].astype(np.float64)
        if column in columns.periodic:
            own *= TURN / columns.periodic[column]  # exactly one for radians
            yield np.cos(own)
            yield np.sin(own)
        else:
            yield own


def _moments(reference: Sample) -> list[tuple[float, float, float, float]]:
    """Smallest and largest value, mean and spread of each feature: two passes, in pieces."""
    features = len(list(_names(reference)))
    low, high = np.full(features, np.inf), np.full(features, -np.inf)
    # Dividing by the largest first keeps the sum of huge weights finite.
    heaviest = 1.0 if reference.weights is None else float(reference.weights.max())

    def means(of: Callable[[NDArray[np.float64], int], NDArray[np.float64]]) -> list[float]:
        count, sums = 0.0, [0.0] * features
        for piece in counted_pieces(reference):
            weights = np.ones(len(piece)) if piece.weights is None else piece.weights / heaviest
            count += float(weights.sum())
            for j, feature in enumerate(_features(piece.values, reference)):
                sums[j] += float((of(feature, j) * weights).sum())
        return [total / count for total in sums]

    def noted(feature: NDArray[np.float64], j: int) -> NDArray[np.float64]:
        low[j], high[j] = min(low[j], feature.min()), max(high[j], feature.max())
        return feature

    mean = means(noted)
    square = means(lambda feature, j: (feature - mean[j]) ** 2)
    return list(zip(low.tolist(), high.tolist(), mean, np.sqrt(square).tolist(), strict=True))


def _shift_and_scale(
    low: float, high: float, mean: float, spread: float, rule: Rule, rounding: float
) -> tuple[float, float]:
    # The spread of numbers below 1e-160 underflows: nothing to divide by, as for a constant.
    if high - low <= rounding or spread == 0:
        return low, 1.0
    if rule == "zscore" or low < 0:
        return mean, spread
    return (0.0, mean) if high > 1 else (0.0, 1.0)


def _sealed(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
