"""Checks of arguments of public functions: each error names the argument and what to give."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.errors import InputError


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Return the argument as an int; 100.0 and 1e2 count as whole numbers.

    Raises
    ------
    InputError
        If it is not a whole number, or below ``least``.

    Examples
    --------
    >>> whole_number("n_resamples", 1e2)
    100
    """
    number = _number(value)
    if not (number.is_integer() and number >= least):
        raise InputError(f"{name} is {_shown(value)}; give a whole number of at least {least}")
    return int(value)


def positive_number(name: str, value: Any, meaning: str) -> float:
    """Return the argument as a float.

    Parameters
    ----------
    meaning : what the number says, for the error.

    Raises
    ------
    InputError
        If it is not a number above zero, or not finite.

    Examples
    --------
    >>> positive_number("expected", np.float32(2.5), "events of a batch")
    2.5
    """
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is {_shown(value)}; give a positive and finite number, {meaning}")
    return number


def positive_numbers(name: str, values: Any, count: int, meaning: str) -> list[float]:
    """Return the argument, a sequence of so many numbers, as a list of floats.

    Raises
    ------
    InputError
        If one is not a number above zero, or not finite, or if there are more or fewer.

    Examples
    --------
    >>> positive_numbers("expected", [100, 200], 2, "events of each batch")
    [100.0, 200.0]
    """
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str | bytes):
        raise InputError(f"{name} is {_shown(values)}; give a list of {count} numbers, {meaning}")
    if len(values) != count:
        raise InputError(f"{name} has {len(values)} numbers; give {count}, {meaning}")
    return [positive_number(f"{name}[{k}]", value, meaning) for k, value in enumerate(values)]


def check_type(name: str, value: Any, kind: type, give: str) -> None:
    """Raise `InputError` if the argument is of another type.

    Parameters
    ----------
    give : what to give instead, for the error.

    Examples
    --------
    >>> check_type("settings", Path("a.toml"), dict, "Settings(...)")
    Traceback (most recent call last):
    gofstream.errors.InputError: settings is of type PosixPath; give Settings(...)
    """
    if not isinstance(value, kind):
        raise InputError(f"{name} is {_kind(value)}; give {give}")


def check_callable(name: str, value: Any, give: str) -> None:
    """Raise `InputError` if the argument cannot be called."""
    if not callable(value):
        raise InputError(f"{name} is {_kind(value)}; give {give}")


def random_generator(name: str, value: Any) -> np.random.Generator:
    """Return the argument, a seed or a generator or None, as a generator.

    Raises
    ------
    InputError
        If numpy makes no generator of it.

    Examples
    --------
    >>> int(random_generator("rng", 1).integers(10))
    4
    """
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is {_shown(value)}; give a whole number of at least 0, a numpy Generator, or "
            "None for a random seed"
        ) from error


def file_path(name: str, value: Any) -> Path:
    """Return the argument as a path.

    Raises
    ------
    InputError
        If it is no path, nor a string.
    """
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} is {_shown(value)}; give the path of a file")
    return Path(value)


def _number(value: Any) -> float:
    """Return a number as a float, and NaN for anything else: text, truth values, lists."""
    if isinstance(value, str | bytes | bool | np.bool_) or np.ndim(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shown(value: Any) -> str:
    """Write a short value as it is, and the type of anything longer."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else _kind(value)


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
