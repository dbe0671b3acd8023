"""What the pictures of a report have in common: their look, and text that stays text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import AutoMinorLocator, FuncFormatter, NullFormatter

from gofstream.report.words import superscript

#: Inches across: three stand side by side on a screen, and one can be read on a phone.
ACROSS: Final = 4.0
#: A name longer than this is cut where a picture has no room for it.
LONGEST: Final = 36

# The look of mplhep's styles (ticks inside, on all sides) at the size of a page.
_LOOK: Final[dict[Any, Any]] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "axes.linewidth": 0.8,
    "axes.formatter.limits": (-3, 5),
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}

# What XML cannot hold, and what would break a line.
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@contextmanager
def look() -> Iterator[None]:
    """Draw in the look of a report, and leave matplotlib's settings as they were."""
    with mpl.rc_context(_LOOK):
        yield


def plain(text: str) -> str:
    r"""Make a user's text fit for a picture: one line, of characters that can be drawn.

    Give it to matplotlib with ``parse_math=False``.

    Examples
    --------
    >>> plain("a\nb"), plain("x" * 50)[-3:]
    ('a�b', 'xx…')
    """
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def name_decades(axis: Axis) -> None:
    """Label a logarithmic axis as 1, 10, 100, 10³ …, in plain text."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Write a power of ten as it is read best.

    Examples
    --------
    >>> power_of_ten(100.0), power_of_ten(1e-4), power_of_ten(1e12)
    ('100', '10⁻⁴', '10¹²')
    """
    power = round(math.log10(value))
    return f"{10**power}" if 0 <= power <= 2 else f"10{superscript(power)}"


def minor_ticks(axes: Axes) -> None:
    """Add a small tick between those of linear axes."""
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "linear":
            axis.set_minor_locator(AutoMinorLocator(2))
    axes.tick_params(which="minor", top=True, right=True, direction="in")
