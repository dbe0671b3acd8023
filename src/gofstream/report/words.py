"""How a result is put into words: numbers, the verdict, and what to know before quoting it."""

from __future__ import annotations

import math

from gofstream.inference.consistency import CONTRADICTION
from gofstream.inference.pvalues import counted_text, toys_needed
from gofstream.inference.result import UNDESCRIBED, complaints, undescribed
from gofstream.report.record import Chance, Place, Record, Window
from gofstream.scan.region import range_text

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: With fewer toys than this beyond the observed value, p is known roughly.
FEW = 10
#: Beyond one in so many, a number of data sets says nothing that "fewer than" does not.
UNIMAGINABLE = 1e9


def superscript(power: int) -> str:
    """Write a number as an exponent.

    Examples
    --------
    >>> superscript(-12)
    '⁻¹²'
    """
    return str(power).translate(_SUPERSCRIPTS)


def number(value: float, digits: int = 4) -> str:
    """Write a number to so many digits, with a power of ten where it is very large or small.

    Examples
    --------
    >>> number(0.00012345), number(16123.0, 2), number(-2.5), number(3e15), number(79.004, 3)
    ('1.234 × 10⁻⁴', '16,123', '−2.5', '3 × 10¹⁵', '79.0')
    """
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e6:
        # Digits before the point are not rounded away: 16123 events are not 16120.
        places = digits - 1 - math.floor(math.log10(size)) if value else 0
        text, power = f"{value:,.{max(0, places)}f}", ""
    else:
        text, exponent = f"{value:.{digits - 1}e}".split("e")
        power = f" × 10{superscript(int(exponent))}"
    if "." in text and float(f"{value:.{digits + 4}e}") == float(f"{value:.{digits - 1}e}"):
        text = text.rstrip("0").rstrip(".")  # zeros that say nothing about the rounding
    return text.replace("-", "−") + power


def p_text(p: float) -> str:
    """Write a p-value to two digits.

    Examples
    --------
    >>> p_text(0.0213), p_text(2.2e-308), p_text(1.0)
    ('0.021', '2.2 × 10⁻³⁰⁸', '1')
    """
    return number(p, 2)


def z_text(z: float | None) -> str:
    """Write a Z-score; a p-value of one has none.

    Examples
    --------
    >>> z_text(4.876), z_text(-0.02), z_text(None)
    ('4.9', '0.0', '-')
    """
    # Adding zero takes the sign from a negative one.
    return "-" if z is None else f"{round(z, 1) + 0.0:.1f}".replace("-", "−")


def interval(chance: Chance) -> str:
    """Write the 95 % interval of a p-value; it never goes down to zero."""
    if chance.low == 0:
        return f"at most {p_text(chance.high)}"
    return f"{p_text(chance.low)} to {p_text(chance.high)}"


def size(count: int) -> str:
    """Write a number of bytes in powers of a thousand.

    Examples
    --------
    >>> size(64), size(1_234_567)
    ('64 B', '1.2 MB')
    """
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{number(amount, 2)} {units[0]}"


def e_text(log_e: float) -> str:
    """Write an e-value, given its natural logarithm.

    Examples
    --------
    >>> e_text(math.log(34.6)), e_text(-20.0), e_text(1000.0)
    ('35', '2.1 × 10⁻⁹', '10⁴³⁴')
    """
    if log_e < math.log(1e300):
        return number(math.exp(log_e), 2)
    return f"10{superscript(int(log_e / math.log(10)))}"


def place_text(window: Window) -> str:
    """Say where a window is: the range of every column of its region."""
    return ", ".join(map(_place, window.places)) or "everywhere"


def _place(place: Place) -> str:
    """Write the ends with all their digits, with which the events were counted."""
    unit = f" {place.unit}" if place.unit else ""
    return f"{place.column} {range_text(place.low, place.high, exact)}{unit}"


def exact(value: float) -> str:
    """Write a number with all its digits, up to twelve, as `--where` takes it.

    Examples
    --------
    >>> exact(4.061), exact(-1234.5)
    ('4.061', '−1234.5')
    """
    return number(value, 12).replace(",", "")


def facts(record: Record) -> str:
    """Write what was tested: events, whether their number counts, and where toys come from."""
    batches = len(record.batches)
    events = f"{number(record.observed)} events in {batches} batch{'es' if batches > 1 else ''}"
    if record.rate is not None:
        rate = f"{number(record.rate.expected)} expected, shape and number tested apart"
    elif record.shape_only:
        rate = "only their shape is tested, not their number (no expected number was given)"
    else:
        rate = f"{number(record.expected)} expected"
    return f"{events}; {rate}; {record.toys:,} toys from {record.source}"


def headline(record: Record) -> str:
    """Write the p-value of the verdict, its interval, and what it was made of."""
    chance = record.verdicts[record.headline]
    counted = counted_text(
        chance.p, chance.low, chance.high, chance.hits, record.toys, write=p_text
    )
    if chance.hits == 0:
        counted += ". To go further: more toys"
    if record.rate is None:
        return f"{counted}."
    rate = record.rate
    return (
        f"p = {p_text(record.pvalue)}: shape and number of events together (Fisher). "
        f"Shape ({record.headline}): {counted}. Number of events: {number(rate.observed)} "
        f"observed, {number(rate.expected)} expected, p = {p_text(rate.p)}."
    )


def span_text(low: float, high: float, digits: int = 4) -> str:
    """Write a range of what is measured; one that holds the end of a turn begins above its end.

    Examples
    --------
    >>> span_text(1.0, 2.0), span_text(170.0, -170.0)
    ('from 1 to 2', 'above 170 or below −170')
    """
    ends = number(low, digits), number(high, digits)
    return "above {} or below {}".format(*ends) if low > high else "from {} to {}".format(*ends)


def widths_undescribed(record: Record, name: str) -> list[bool]:
    """Tell at which widths of a statistic f does not describe the data."""
    found = record.statistics[name]
    pairs = zip(found.null, found.p, strict=True)
    return [undescribed(null.t, chance.hits, record.toys) for null, chance in pairs]


def verdict(record: Record) -> str:
    """Say in one sentence how surprising the data are."""
    p = record.high if record.low == 0 else record.pvalue
    if p > 1 / UNIMAGINABLE and record.low == 0:
        often = f"in at most {p_text(100 * p)} % of such repetitions"
    elif p > 0.1:
        often = f"in {100 * p:.0f} % of such repetitions"
    elif p > 1 / UNIMAGINABLE:
        often = f"about once in {_rounded(1 / p)} such repetitions"
    else:
        often = "fewer than once in a billion such repetitions"
    return (
        "If the reference is right, data that differ from it at least as much as these "
        f"come up {often}."
    )


def _rounded(count: float) -> str:
    """Write a large number of times to two digits."""
    count = float(f"{count:.1e}")
    return f"{count / 1e6:,.0f} million" if count >= 1e7 else f"{count:,.0f}"


def decision(record: Record) -> str:
    """Say what the level that was set makes of it."""
    if record.level is None:
        return "No level was set beforehand, so this report does not call it an anomaly or not."
    level = f"at the level that was set (p ≤ {p_text(record.level)})"
    if record.anomalous:
        return f"An anomaly {level}."
    chance = record.verdicts[record.headline]
    if record.level < 1 / (record.toys + 1) and chance.low <= record.level:
        return f"Not decided {level}: {record.toys:,} toys cannot show so small a p."
    return f"Not an anomaly {level}."


def caveats(record: Record) -> list[tuple[str, str]]:
    """List what to know before quoting the verdict: each a heading of few words, and a sentence."""
    told = {text for text in record.caveats if text.startswith(CONTRADICTION)}
    found = [
        ("Contradiction", text.removeprefix(CONTRADICTION))
        for text in record.caveats
        if text in told
    ]
    found += _too_few_toys(record)
    lost = [name for name in record.statistics if any(widths_undescribed(record, name))]
    if lost:
        head, text = UNDESCRIBED.split(": ")
        found.append(
            (
                head,
                f"{text} ({', '.join(lost)}), as when they fill a spot much smaller than a width. "
                "p = 1 says nothing there; the scan needs no f.",
            )
        )
    stuck = missed = 0
    for width in record.widths:
        stuck += width.converged.count(False)
        missed = max(missed, sum(width.uncovered))
        told.update(complaints(width.width, width.converged, sum(width.uncovered)))
    if stuck:
        fits = sum(len(width.converged) for width in record.widths)
        found.append(
            ("Not converged", f"{stuck:,} of {fits:,} fits stopped early; see the diagnostics.")
        )
    if missed:
        found.append(
            (
                "Events not covered",
                f"{missed:,} of {record.observed:,} events lie far from every centre at the worst "
                "width: the test does not see them.",
            )
        )
    found += [("From the test", text) for text in record.caveats if text not in told]
    found.append(
        (
            "No systematic uncertainties",
            "none are included. The reference is taken to be exact but for its finite size.",
        )
    )
    return found


def _too_few_toys(record: Record) -> list[tuple[str, str]]:
    chance = record.verdicts[record.headline]
    found = []
    if chance.hits < FEW:
        found.append(
            (
                "Few toys",
                f"fewer than {FEW} of {record.toys:,} toys are as extreme as the data: the 95 % "
                f"interval of p of {record.headline} is {interval(chance)}. More toys make it "
                "narrower.",
            )
        )
    widths = [len(record.statistics[name].p) for name in record.headline.split(" + ")]
    columns = len(widths) * max(widths)
    least = columns / (record.toys + 1)
    if record.level is not None and record.level < least and not record.anomalous:
        found.append(
            (
                "Level out of reach",
                f"{record.toys:,} toys cannot be sure to show a p below {p_text(least)} for "
                f"{record.headline} and all widths, and the level is {p_text(record.level)}: that "
                f"needs ≥ {toys_needed(record.level, columns):,} toys.",
            )
        )
    return found
