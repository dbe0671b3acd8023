"""The power figures: `all` and `sum` against N_b, `one` against `single`, `sat` against `all`.

The same three for EXPO-1D and DIMUON-5D; each module of a data set says with what toys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gofstream.inference.power import Difference, median_z, power
from gofstream_studies.paper.claims import Claim, Verdict, less, more, not_less, tally
from gofstream_studies.paper.compare import LEVEL, Comparison, Strategy
from gofstream_studies.paper.experiment import Outcome
from gofstream_studies.paper.panels import power_panels

Judge = Callable[[Difference], Verdict]


def all_and_sum(
    found: Comparison, labels: Mapping[str, str], title: str, note: Mapping[str, str]
) -> Outcome:
    """Power of `all` and `sum` for every number of batches."""
    numbers = [int(n) for n in sorted(found.studies)]
    rows = [
        (
            statistic,
            [
                (
                    labels[signal],
                    {f"N_b = {n}": found.p_values(Strategy(statistic, n), signal) for n in numbers},
                )
                for signal in labels
            ],
        )
        for statistic in ("all", "sum")
    ]
    claims = []
    for signal in labels:
        for width in (None, *range(len(found.widths))):
            for n in numbers[1:]:
                for statistic, words, judge in (
                    ("all", "does not fall", not_less),
                    ("sum", "falls", less),
                ):
                    claims.append(
                        _claim(
                            found,
                            f"{statistic}: {words} with N_b",
                            Strategy(statistic, n, width),
                            Strategy(statistic, 1, width),
                            signal,
                            judge,
                            note.get(signal, ""),
                        )
                    )
    strategies = [Strategy(s, n) for s in ("all", "sum") for n in numbers]
    return _outcome(found, rows, title, claims, strategies, labels)


def one_and_single(
    found: Comparison, labels: Mapping[str, str], title: str, note: Mapping[str, str]
) -> Outcome:
    """Power of `one` beside `single` and `all`, and of `next`, in the largest number of batches."""
    most = int(max(found.studies))
    names = ("single", "one", "all", "next")
    rows = [("", [_panel(found, labels, signal, names, most) for signal in labels])]
    claims = [
        _claim(
            found,
            "one beats single",
            Strategy("one", most, width),
            Strategy("single", most, width),
            signal,
            more,
            note.get(signal, ""),
        )
        for signal in labels
        for width in (None, *range(len(found.widths)))
    ]
    return _outcome(found, rows, title, claims, [Strategy(s, most) for s in names], labels)


def sat_and_all(
    found: Comparison,
    labels: Mapping[str, str],
    title: str,
    note: Mapping[str, str],
    *,
    tail: Sequence[str],
) -> Outcome:
    """Power of `sat` beside `all` and `one`, for the numbers of batches of the paper.

    Parameters
    ----------
    tail : signals where `sat` should fall behind `all`; elsewhere it should follow.
    """
    numbers = [int(n) for n in sorted(found.studies) if n >= 4]
    names = ("sat", "all", "one", "next")
    rows = [
        (f"N_b = {n}", [_panel(found, labels, signal, names, n) for signal in labels])
        for n in numbers
    ]
    claims = []
    for n in numbers:
        for width in (None, *range(len(found.widths))):
            for signal in labels:
                behind = signal in tail
                claims.append(
                    _claim(
                        found,
                        "sat falls behind all in the tail" if behind else "sat follows all",
                        Strategy("sat", n, width),
                        Strategy("all", n, width),
                        signal,
                        less if behind else not_less,
                        note.get(signal, ""),
                    )
                )
    strategies = [Strategy(s, n) for n in numbers for s in names]
    return _outcome(found, rows, title, claims, strategies, labels)


def _panel(
    found: Comparison, labels: Mapping[str, str], signal: str, names: Sequence[str], batches: int
) -> tuple[str, dict[str, Any]]:
    curves = {name: found.p_values(Strategy(name, batches), signal) for name in names}
    return labels[signal], curves


def _claim(
    found: Comparison,
    name: str,
    first: Strategy,
    second: Strategy,
    signal: str,
    judge: Judge,
    note: str,
) -> Claim:
    difference = found.difference(first, second, signal)
    at = "smallest p of all widths" if first.width is None else f"σ = {found.widths[first.width]:g}"
    statement = (
        f"{signal}, {at}: power of {first.statistic} in {first.setup} minus power of "
        f"{second.statistic} in {second.setup} batches"
    )
    return Claim.judged(
        f"{name} [{signal}, N_b = {first.setup}, {at}]",
        statement,
        difference,
        judge,
        len(found.p_values(first, signal)),
        note,
    )


def _outcome(
    found: Comparison,
    rows: Sequence[tuple[str, Sequence[tuple[str, Any]]]],
    title: str,
    claims: list[Claim],
    strategies: Sequence[Strategy],
    labels: Mapping[str, str],
) -> Outcome:
    toys = len(next(iter(found.studies.values())).null.t)
    numbers = {
        "level": LEVEL,
        "null_toys": toys,
        "widths": found.widths,
        "unconverged_fits": found.unconverged,
        "power": [
            {
                "signal": signal,
                "statistic": s.statistic,
                "batches": s.setup,
                "width": None if width is None else found.widths[width],
                **asdict(power(p, LEVEL)),
                "median_z": asdict(median_z(p)),
            }
            for signal in labels
            for s in strategies
            for width in (None, *range(len(found.widths)))
            for p in [found.p_values(Strategy(s.statistic, s.setup, width), signal)]
        ],
    }
    combined = [claim for claim in claims if "smallest p" in claim.name]
    text = f"all widths combined: {tally(combined)}; with those of single widths: {tally(claims)}"
    least = len(found.widths) / (toys + 1)
    return Outcome({"": power_panels(rows, title, least)}, numbers, claims, text)
