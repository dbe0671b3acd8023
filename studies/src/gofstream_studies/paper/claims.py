"""What the paper states from its figures, as claims with a statistical verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gofstream.datasets.ideal import IdealTest
from gofstream.inference.power import Difference

Verdict = Literal["holds", "does not hold", "not resolved"]

#: Differences of power smaller than this do not matter to anyone who plans a search.
MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement, put to the test.

    Attributes
    ----------
    name : short and unique within an experiment.
    statement : in words, with what was compared.
    verdict : what the toys say.
    value, low, high : the quantity that decides, with its 95 % interval.
    toys : how many decided.
    note : where ours differs from the paper, and why if known.
    """

    name: str
    statement: str
    verdict: Verdict
    value: float
    low: float
    high: float
    toys: int
    note: str = ""

    @classmethod
    def judged(
        cls,
        name: str,
        statement: str,
        difference: Difference,
        judge: Callable[[Difference], Verdict],
        toys: int,
        note: str = "",
    ) -> Claim:
        """Put a difference of powers to a judge."""
        interval = (round(x, 4) for x in (difference.value, difference.low, difference.high))
        value, low, high = interval
        return cls(name, statement, judge(difference), value, low, high, toys, note)


def more(difference: Difference) -> Verdict:
    """Judge "the first beats the second".

    It holds when the whole interval lies above zero, and does not when a gain of `MARGIN` is
    excluded.

    Examples
    --------
    >>> more(Difference(0.2, 0.1, 0.3)), more(Difference(0.0, -0.04, 0.04))
    ('holds', 'does not hold')
    """
    if difference.low > 0:
        return "holds"
    return "does not hold" if difference.high < MARGIN else "not resolved"


def less(difference: Difference) -> Verdict:
    """Judge "the first falls behind the second": `more`, mirrored."""
    return more(Difference(-difference.value, -difference.high, -difference.low))


def not_less(difference: Difference) -> Verdict:
    """Judge "the first does not fall behind the second", as non-inferiority.

    It holds when a loss of `MARGIN` is excluded, and does not when a loss is certain: the whole
    interval below zero and reaching below the margin.

    Examples
    --------
    >>> not_less(Difference(0.0, -0.03, 0.03)), not_less(Difference(-0.2, -0.3, -0.1))
    ('holds', 'does not hold')
    """
    if difference.low > -MARGIN:
        return "holds"
    return "does not hold" if difference.high < 0 else "not resolved"


def ideal_z(name: str, test: IdealTest, expected: float, toys: int, note: str) -> Claim:
    """Judge the paper's median Z of the ideal test, which it prints with one decimal.

    Parameters
    ----------
    note : what to say where ours differs.
    """
    low, high = (test.median_z + sign * 1.96 * test.median_z_error for sign in (-1, 1))
    agrees = low - 0.1 <= test.paper_z <= high + 0.1
    return Claim(
        f"ideal Z of {name}",
        f"the median Z of the ideal test for {name} at N(R) = {expected:.0f} is {test.paper_z}",
        "holds" if agrees else "does not hold",
        round(test.median_z, 3),
        round(low, 3),
        round(high, 3),
        toys,
        "" if agrees else note,
    )


def tally(claims: list[Claim]) -> str:
    """Count the verdicts, in words.

    Examples
    --------
    >>> tally([Claim("a", "", "holds", 1, 1, 1, 9), Claim("b", "", "not resolved", 0, 0, 0, 9)])
    '1 holds, 1 not resolved'
    """
    verdicts = [claim.verdict for claim in claims]
    order: tuple[Verdict, ...] = ("holds", "does not hold", "not resolved")
    counted = [(verdicts.count(verdict), verdict) for verdict in order]
    return ", ".join(f"{count} {verdict}" for count, verdict in counted if count)
