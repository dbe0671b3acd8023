"""What a test says, kept apart from how it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from gofstream.inference.pvalues import PValue


@dataclass(frozen=True, slots=True)
class StatisticResult:
    """One statistic at every width, and over all of them.

    Attributes
    ----------
    t : the statistic, by width.
    p : its p-value, by width.
    combined : one p-value for all widths, by the smallest p.
    """

    t: tuple[float, ...]
    p: tuple[PValue, ...]
    combined: PValue


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of a test, statistic by statistic.

    Attributes
    ----------
    statistics : results by name.
    widths : in scaled units.
    toys : number of pseudo-experiments behind every p-value.
    source : where they came from.
    expected, observed : events in all batches together.
    shape_only : whether the rate was left out of the test.
    caveats : what to know before quoting a number.
    """

    __test__ = False  # not a test, whatever pytest makes of the name

    statistics: Mapping[str, StatisticResult]
    widths: tuple[float, ...]
    toys: int
    source: str
    expected: float
    observed: int
    shape_only: bool
    caveats: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        """Write a table for the terminal."""
        return "\n".join([self._headline(), "", *self._rows(), "", *self._notes()])

    def _repr_html_(self) -> str:
        """Write a table for a notebook."""
        head = "".join(f"<th>σ = {width:g}</th>" for width in self.widths)
        body = "".join(
            f"<tr><td>{escape(name)}</td>"
            + "".join(
                f"<td>{t:.1f}<br>{escape(_p(p))}</td>"
                for t, p in zip(result.t, result.p, strict=True)
            )
            + f"<td><b>{escape(_p(result.combined))}</b><br>{escape(_z(result.combined))}</td></tr>"
            for name, result in self.statistics.items()
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes())
        return (
            f"<p>{escape(self._headline())}</p><table><tr><th>statistic (t, p)</th>{head}"
            f"<th>combined</th></tr>{body}</table><ul>{notes}</ul>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain numbers and strings, for JSON."""

        def plain(p: PValue) -> dict[str, Any]:
            return {
                "p": p.p,
                "z": p.z,
                "interval": [p.low, p.high],
                "extrapolated": p.extrapolated,
            }

        return {
            "statistics": {
                name: {
                    "t": list(result.t),
                    "p": [plain(p) for p in result.p],
                    "combined": plain(result.combined),
                }
                for name, result in self.statistics.items()
            },
            "widths": list(self.widths),
            "toys": self.toys,
            "source": self.source,
            "expected": self.expected,
            "observed": self.observed,
            "shape_only": self.shape_only,
            "caveats": list(self.caveats),
        }

    def _headline(self) -> str:
        rate = (
            "shape only: the rate is not tested"
            if self.shape_only
            else f"{self.expected:g} expected"
        )
        return f"{self.observed} events ({rate}), {self.toys} toys from {self.source}"

    def _rows(self) -> list[str]:
        head = ["statistic", *(f"σ = {width:g}" for width in self.widths), "combined p", "Z"]
        rows = [head]
        for name, result in self.statistics.items():
            rows.append([name, *(f"{t:.1f}" for t in result.t), "", ""])
            rows.append(["   p", *map(_p, result.p), _p(result.combined), _z(result.combined)])
        sizes = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = [
            "  ".join(
                [
                    row[0].ljust(sizes[0]),
                    *(c.rjust(n) for c, n in zip(row[1:], sizes[1:], strict=True)),
                ]
            )
            for row in rows
        ]
        return [lines[0], "─" * len(lines[0]), *lines[1:]]

    def _notes(self) -> list[str]:
        notes = ["combined: smallest p over the widths, ranked among the toys in the same way"]
        if any(
            p.extrapolated
            for result in self.statistics.values()
            for p in (*result.p, result.combined)
        ):
            notes.append("* extrapolated beyond the toys with a fitted law; read as a rough size")
        return [*notes, *self.caveats, "no systematic uncertainties are included"]


def _p(p: PValue) -> str:
    return f"{p.p:.2g}{'*' if p.extrapolated else ''}"


def _z(p: PValue) -> str:
    return f"{p.z:.1f}{'*' if p.extrapolated else ''}"
