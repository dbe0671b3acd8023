"""What a test says, kept apart from how it is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.combine import Rule
from gofstream.inference.null import NullTable
from gofstream.inference.pvalues import PValue, z_score
from gofstream.inference.rate import RateTest
from gofstream.ratio.model import Aggregate
from gofstream.toys.plan import Observed

#: The strategy whose p-value stands for the whole test: it keeps everything and loses least.
HEADLINE = "all"


@dataclass(frozen=True, slots=True)
class StatisticResult:
    """One statistic at every width, and over all of them.

    Attributes
    ----------
    t : the statistic, by width.
    p : its p-value, by width.
    combined : one p-value for all widths.
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
    learnt : what the batches taught at each width.
    null : the pseudo-experiments behind every p-value.
    rule : how widths, and the statistics in ``together``, are combined.
    together : statistics that share one p-value, if asked for, and that p-value.
    rate : the test of the number of events, where it is made apart from that of the shape.
    source : where they came from.
    expected : events the nominal model predicts, in all batches together.
    batches : events observed in each.
    shape_only : whether the rate was left out of the test.
    caveats : what to know before quoting a number.
    """

    __test__ = False  # not a test, whatever pytest makes of the name

    statistics: Mapping[str, StatisticResult]
    widths: tuple[float, ...]
    learnt: tuple[Observed, ...]
    null: NullTable
    source: str
    expected: float
    batches: tuple[int, ...]
    shape_only: bool
    rule: Rule = "min"
    together: tuple[tuple[str, ...], PValue] | None = None
    rate: RateTest | None = None
    caveats: tuple[str, ...] = field(default=())

    @property
    def observed(self) -> int:
        """Events in all batches together."""
        return sum(self.batches)

    @property
    def toys(self) -> int:
        """Number of pseudo-experiments."""
        return len(self.null.t)

    @property
    def pvalue(self) -> float:
        """The p-value of `all` over all widths, with that of the rate if it was tested apart."""
        p = self.statistics[HEADLINE].combined.p
        return p if self.rate is None else self.rate.with_shape(p)

    @property
    def zscore(self) -> float:
        """The same as a Z-score."""
        return float(z_score(self.pvalue))

    @property
    def strongest(self) -> int:
        """The index of the width at which `all` is most surprising."""
        p = [item.p for item in self.statistics[HEADLINE].p]
        return p.index(min(p))

    @property
    def aggregate(self) -> Aggregate:
        """F at that width: where the data depart from the reference, and by how much."""
        return Aggregate(self.learnt[self.strongest].models)

    @property
    def statistic(self) -> NDArray[np.float64]:
        """T of `all`, by width."""
        return np.array(self.statistics[HEADLINE].t)

    @property
    def null_distribution(self) -> NDArray[np.float64]:
        """T of `all` in the pseudo-experiments: (toys, widths)."""
        return self.null.statistic(HEADLINE)

    def __str__(self) -> str:
        """Write a table for the terminal."""
        return "\n".join([self._headline(), "", *self._rows(), "", *self._notes()])

    def _repr_html_(self) -> str:
        """Write a table for a notebook."""
        head = "".join(f"<th>σ = {width:.3g}</th>" for width in self.widths)
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
                "z": _finite(p.z),
                "interval": [p.low, p.high],
                "extrapolated": p.extrapolated,
                "law": None
                if p.law is None
                else {"name": p.law.law, "ks_p": p.law.ks_p, "tail": _finite(p.law.tail_ratio)},
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
            "pvalue": self.pvalue,
            "zscore": _finite(self.zscore),
            "rule": self.rule,
            "together": None
            if self.together is None
            else {"statistics": list(self.together[0]), **plain(self.together[1])},
            "rate": None
            if self.rate is None
            else {"expected": self.rate.expected, "observed": self.observed, "p": self.rate.p},
            "widths": list(self.widths),
            "toys": self.toys,
            "source": self.source,
            "expected": self.expected,
            "observed": self.observed,
            "shape_only": self.shape_only,
            "caveats": list(self.caveats),
        }

    def _headline(self) -> str:
        if self.rate is not None:
            rate = f"{self.rate.expected:g} expected, shape and rate tested apart"
        elif self.shape_only:
            rate = "shape only: the rate is not tested"
        else:
            rate = f"{self.expected:g} expected"
        return f"{self.observed} events ({rate}), {self.toys} toys from {self.source}"

    def _rows(self) -> list[str]:
        head = ["statistic", *(f"σ = {width:.3g}" for width in self.widths), "combined p", "Z"]
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
        notes = [f"combined: {RULES[self.rule]} over the widths, ranked among the toys alike"]
        if self.together is not None:
            names, p = self.together
            notes.append(f"{', '.join(names)} together: {p}")
        if self.rate is not None:
            notes.append(f"rate, tested apart: {self.rate}")
            notes.append(
                f"shape ({HEADLINE}) and rate together (Fisher): p = {self.pvalue:.3g}, "
                f"Z = {self.zscore:.2f}"
            )
        if any(
            p.extrapolated
            for result in self.statistics.values()
            for p in (*result.p, result.combined)
        ):
            notes.append("* extrapolated beyond the toys with a fitted law; read as a rough size")
            notes.append(self._laws())
        return [*notes, *self.caveats, "no systematic uncertainties are included"]

    def _laws(self) -> str:
        """Say how well the laws that were used fit the toys."""
        used = [
            (p.law.ks_p, p.law.tail_ratio, f"{p.law.law} for {name} at σ = {width:.3g}")
            for name, result in self.statistics.items()
            for width, p in zip(self.widths, result.p, strict=True)
            if p.extrapolated and p.law is not None
        ]
        worst, _, which = min(used)
        tails = [tail for _, tail, _ in used]
        return (
            f"  least KS p of the laws used: {worst:.2g} ({which}); toys beyond their 5 % points: "
            f"{min(tails):.2f} to {max(tails):.2f} times as many as predicted"
        )


def complaints(width: float, converged: Sequence[bool], uncovered: int) -> list[str]:
    """Write what went wrong with the fits of the batches at one width."""
    found = []
    if stuck := [str(i + 1) for i, fine in enumerate(converged) if not fine]:
        found.append(f"σ = {width:.3g}: the fit did not converge for batch {', '.join(stuck)}")
    if uncovered:
        found.append(f"σ = {width:.3g}: events far from every centre, not seen: {uncovered}")
    return found


RULES: dict[Rule, str] = {
    "min": "smallest p",
    "mean": "mean of the p-values",
    "product": "product of the p-values",
}


def _p(p: PValue) -> str:
    return f"{p.p:.2g}{'*' if p.extrapolated else ''}"


def _z(p: PValue) -> str:
    if p.p == 1:  # no toy is less extreme: there is no Z to quote
        return "-"
    return f"{p.z:.1f}{'*' if p.extrapolated else ''}"


def _finite(z: float) -> float | None:
    """JSON knows no infinity; a p-value of one has no Z."""
    return z if math.isfinite(z) else None
