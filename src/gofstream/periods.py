"""Periods of columns that repeat, such as angles: what a user gives, and whether values fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError

#: A full turn in radians, the period of a column that is only named.
TURN = 2 * math.pi
#: Units that stand for a period.
UNITS: Mapping[str, float] = MappingProxyType({"rad": TURN, "deg": 360.0})
#: Values may lie this part of a period outside of it: π as a float32 is larger than π.
ROUNDING = 1e-6

#: Names of periodic columns, or their periods by name.
Periodic = Iterable[str] | Mapping[str, float | str]


def periods_of(periodic: Periodic) -> dict[str, float]:
    """Give the period of each periodic column; one that is only named is an angle in radians.

    Raises
    ------
    InputError
        If a period is neither a number above zero nor one of `UNITS`.

    Examples
    --------
    >>> periods_of({"phi": 360, "hour": 24})
    {'phi': 360.0, 'hour': 24.0}
    >>> periods_of(["phi"]) == periods_of({"phi": "rad"}) == {"phi": TURN}
    True
    """
    if isinstance(periodic, str):
        return {periodic: TURN}
    if not isinstance(periodic, Mapping):
        return dict.fromkeys(periodic, TURN)
    return {column: _period(column, given) for column, given in periodic.items()}


def fits(low: float, high: float, period: float) -> bool:
    """Tell whether values lie within one period of zero, as angles and their differences do.

    Examples
    --------
    >>> fits(-180.0, 180.0, 360.0), fits(-180.0, 180.0, TURN)
    (True, False)
    """
    return max(-low, high) <= period * (1 + ROUNDING)


def outside(period: float) -> Callable[[NDArray[np.floating[Any]]], NDArray[np.bool_]]:
    """Make a function that tells which values do not fit."""
    return lambda values: np.abs(values) > period * (1 + ROUNDING)


def misfit(low: float, high: float, column: str, period: float) -> str:
    """Say that the values of a column do not fit its period, and what to do."""
    radians = " (radians)" if period == TURN else ""
    return (
        f"values from {low:.6g} to {high:.6g} do not fit the period {period:.6g}{radians}, which "
        f"allows {-period:.6g} to {period:.6g}; give the right period, such as "
        f"--periodic {column}=360 or periodic={{{column!r}: 360}}, or bring the values into one "
        "period"
    )


def _period(column: str, given: Any) -> float:
    if isinstance(given, str) and given in UNITS:
        return UNITS[given]
    try:
        period = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        period = math.nan
    if not (math.isfinite(period) and period > 0):
        raise InputError(
            f"periodic column {column!r}: {given!r} is not a period; give a number above zero, "
            "'deg' (360) or 'rad' (2π)"
        )
    return period
