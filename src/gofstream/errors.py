"""The errors and the warning a user can meet.

Each message says what is wrong, where it is and what to do next, so that a command line can
show it as it stands, without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_USE_LESS = "use fewer centres, fewer reference rows or fewer batches at once"


class GofstreamError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(GofstreamError, ValueError):
    """Something is wrong with data or an argument that came from outside."""


class EmptyError(InputError):
    """Too few rows to work with."""


class NonFiniteError(InputError):
    """A value is NaN or infinite."""


class ColumnError(InputError):
    """Columns are missing, duplicated or do not match."""


class DtypeError(InputError):
    """Values are not plain real numbers."""


class WeightError(InputError):
    """Event weights cannot be used."""


class RangeError(InputError):
    """A value is too large for single precision arithmetic."""


class ExpressionError(InputError):
    """A selection of events cannot be understood."""


class WidthError(InputError):
    """No usable kernel width follows from the reference."""


class IdentityError(InputError):
    """A batch came under a name that another one has already."""


class SettingsError(GofstreamError, ValueError):
    """A setting is unknown or has a value that is not allowed."""


class NumericalError(GofstreamError):
    """A factorisation or a minimisation failed."""


class StoppedError(GofstreamError):
    """A long run was stopped, by the user or by a lack of something; what was done is kept."""


class ToysStoppedError(StoppedError):
    """Pseudo-experiments were stopped; the blocks that were done are kept in their file.

    Parameters
    ----------
    what
        Why, and how far it got.

    Examples
    --------
    >>> print(ToysStoppedError("a worker died"))
    a worker died; the blocks that were done are kept, and the same call, with the same file, goes \
on from there
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        """Say that nothing is lost."""
        return (
            f"{self.what}; the blocks that were done are kept, and the same call, with the same "
            "file, goes on from there"
        )


class BusyError(GofstreamError):
    """A stream is behind and has no room for another batch; it will have later."""


class FormatError(GofstreamError):
    """A stored model, null or run is damaged, or was not written by this package."""


class FetchError(GofstreamError):
    """Something could not be downloaded, or is not what it should be."""


class MemoryBudgetError(GofstreamError):
    """Work was refused before allocation because it would not fit the memory budget.

    Parameters
    ----------
    needed, budget
        Bytes the work would take and bytes it may take.
    what
        The thing that does not fit, as a noun phrase.
    instead
        What to do about it, besides raising the budget.

    Examples
    --------
    >>> print(MemoryBudgetError(3 * 1024**3, 1024**3, "the reference features"))
    the reference features would need 3.0 GiB (3221225472 bytes), but the memory budget is 1.0 GiB \
(1073741824 bytes): raise the `memory` setting, or use fewer centres, fewer reference rows or \
fewer batches at once
    """

    def __init__(self, needed: int, budget: int, what: str, instead: str = _USE_LESS) -> None:
        # All of them reach Exception.args: an error raised in a worker process is rebuilt from it.
        super().__init__(needed, budget, what, instead)
        self.needed = needed
        self.budget = budget
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        """Say what does not fit, by how much, and the ways out."""
        return (
            f"{self.what} would need {readable_bytes(self.needed)}, but the memory budget is "
            f"{readable_bytes(self.budget)}: raise the `memory` setting, or {self.instead}"
        )


def refuse_beyond(budget: int, needed: int, what: str, instead: str = _USE_LESS) -> None:
    """Raise `MemoryBudgetError` if `what` needs more bytes than the budget allows."""
    if needed > budget:
        raise MemoryBudgetError(needed, budget, what, instead)


def missing_extra(package: str, extra: str) -> GofstreamError:
    """Make the error for a package that comes with an extra: it says what to type."""
    return GofstreamError(
        f"this needs {package}, which is not installed; pip install 'gofstream[{extra}]'"
    )


class GofstreamWarning(UserWarning):
    """Something the user should know about, which does not stop the work."""


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Say which known names come closest to `name`, or list them all if none is close.

    Parameters
    ----------
    name
        The name that was not found, in any case.
    known
        The names that exist.

    Returns
    -------
    str
        A phrase to put into an error message.

    Examples
    --------
    >>> nearest_names("Mass", ["mass", "pt", "eta"])
    "nearest: 'mass'"
    >>> nearest_names("charge", ["pt", "eta"])
    "known: 'pt', 'eta'"
    """
    names = list(known)
    folded = [known_name.casefold() for known_name in names]
    close = set(get_close_matches(name.casefold(), folded, n=3))
    hits = [n for n, f in zip(names, folded, strict=True) if f in close]
    return ("nearest: " if hits else "known: ") + ", ".join(map(repr, hits or names))


def printable(text: str) -> str:
    r"""Write characters that could steer a terminal, or hide there, as escapes.

    Parameters
    ----------
    text
        Text from a file or a library.

    Examples
    --------
    >>> print(printable("pt\x1b[31m of 日本\u202e"))
    pt\x1b[31m of 日本\u202e
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def short(text: str | None) -> str:
    """Cut a stored value to what fits into a message."""
    return "nothing" if text is None else text if len(text) < 80 else text[:77] + "..."


def readable_bytes(size: int) -> str:
    """Write bytes in the largest binary unit that leaves a number of at least one."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{size} bytes" if units[0] == "B" else f"{amount:.1f} {units[0]} ({size} bytes)"
