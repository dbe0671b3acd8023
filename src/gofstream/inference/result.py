"""What a test says, kept apart from how it is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.combine import Rule
from gofstream.inference.null import NullTable
from gofstream.inference.pvalues import PValue, z_score
from gofstream.inference.rate import RateTest
from gofstream.ratio.model import Aggregate
from gofstream.scan.where import FoundWindow
from gofstream.toys.plan import Observed
from gofstream.toys.scanning import SCAN, Scanned

#: Statistics that share one p-value, each over its widths first. `all` sums evidence over
#: everything the models learnt, the scan looks for one thing at a time; together they miss least.
#: The second is for those who cannot keep the data.
VERDICTS = (("all", "scan"), ("sat", "next", "scan"))
#: One batch has no other batches: `sum`, `all` and `one` are `single` then, and `next` is zero.
ONE_BATCH = ("single", "scan")
#: The statistic whose most surprising width is shown.
LEARNT = "all"


def verdicts_of(batches: int) -> tuple[tuple[str, ...], ...]:
    """Name the statistics of each verdict on so many batches; the first is the headline.

    Examples
    --------
    >>> verdicts_of(1)
    (('single', 'scan'),)
    >>> verdicts_of(2)[0]
    ('all', 'scan')
    """
    return (ONE_BATCH,) if batches == 1 else VERDICTS


def is_shown(statistic: str, batches: int) -> bool:
    """Tell whether a statistic says anything of its own about so many batches."""
    return batches > 1 or statistic in ONE_BATCH


#: What stands in place of p where `undescribed` holds.
UNDESCRIBED = "t < 0: f does not describe the data"


def undescribed(t: float, hits: int, toys: int) -> bool:
    """Tell whether t is below zero and below all toys: p = 1 then says nothing about the data.

    f minimises a cross-entropy. Where data fill a spot much smaller than the width, the likelihood
    that t is made of can be worse with this f than without it.
    """
    return t < 0 and hits == toys


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

    @property
    def undescribed(self) -> tuple[bool, ...]:
        """Whether f does not describe the data, by width."""
        return tuple(undescribed(t, p.hits, p.toys) for t, p in zip(self.t, self.p, strict=True))


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of a test, statistic by statistic.

    Attributes
    ----------
    statistics : results by name.
    widths : in scaled units.
    learnt : what the batches taught at each width.
    scanned : what the scan found.
    verdicts : one p-value for several statistics each; the first stands for the whole test.
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
    scanned: Scanned
    verdicts: Mapping[tuple[str, ...], PValue]
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
    def headline(self) -> tuple[str, ...]:
        """The statistics of the verdict that stands for the whole test."""
        return next(iter(self.verdicts))

    @property
    def shown(self) -> dict[str, StatisticResult]:
        """The statistics that say something of their own: of one batch `single` and the scan."""
        batches = len(self.batches)
        return {name: each for name, each in self.statistics.items() if is_shown(name, batches)}

    @property
    def pvalue(self) -> float:
        """The p-value of the headline, with that of the rate if it was tested apart.

        (1 + k) / (1 + B) of B toys, k of them as extreme; an extrapolation is never part of it.
        """
        p = self.verdicts[self.headline].p
        return p if self.rate is None else self.rate.with_shape(p)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval on this p-value, from the finite number of toys."""
        found = self.verdicts[self.headline]
        if self.rate is None:
            return found.low, found.high
        return self.rate.with_shape(found.low), self.rate.with_shape(found.high)

    @property
    def zscore(self) -> float:
        """The p-value as a Z-score."""
        return float(z_score(self.pvalue))

    @property
    def strongest(self) -> int:
        """The index of the width at which `all` is most surprising."""
        p = [item.p for item in self.statistics[LEARNT].p]
        return p.index(min(p))

    @property
    def aggregate(self) -> Aggregate:
        """F at that width: where the data depart from the reference, and by how much."""
        return Aggregate(self.learnt[self.strongest].models)

    @property
    def windows(self) -> tuple[FoundWindow, ...]:
        """The best windows of the scan: where the data depart from the reference most locally."""
        return self.scanned.windows

    @property
    def evidence(self) -> float | None:
        """Natural logarithm of an e-value that needs no toys, where the scan has one.

        None if labels are permuted or the reference is weighted.
        """
        summary = self.scanned.summary
        return None if summary.grid.safe_drift is None else summary.log_e

    @property
    def statistic(self) -> NDArray[np.float64]:
        """T of `all` (of one batch: `single`) by width, and of the scan."""
        return np.concatenate([self.statistics[name].t for name in self.headline])

    @property
    def null_distribution(self) -> NDArray[np.float64]:
        """The same of the pseudo-experiments: (toys, widths + 1)."""
        return np.concatenate([self.null.statistic(name) for name in self.headline], axis=1)

    def __str__(self) -> str:
        """Write a table for the terminal."""
        head = [self._counts(), self._headline()]
        return "\n".join([*head, "", *self._rows(), "", *self._notes()])

    def _repr_html_(self) -> str:
        """Write a table for a notebook."""
        head = "".join(f"<th>σ = {width:.3g}</th>" for width in self.widths)
        across = len(self.widths)

        def row(name: str, cells: str, p: PValue) -> str:
            last = f"<td><b>{escape(_p(p))}</b><br>{escape(_z(p))}</td>"
            return f"<tr><td>{escape(name)}</td>{cells}{last}</tr>"

        body = "".join(
            row(" + ".join(names), f'<td colspan="{across}"></td>', p)
            for names, p in self.verdicts.items()
        )
        for name, result in self.shown.items():
            wide = f' colspan="{across}"' if name == SCAN else ""
            cells = "".join(
                f"<td{wide}>{t:.1f}<br>{escape(text)}</td>"
                for t, text in zip(result.t, _by_width(result), strict=True)
            )
            body += row(name, cells, result.combined)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes())
        return (
            f"<p>{escape(self._counts())}<br>{escape(self._headline())}</p>"
            f"<table><tr><th>statistic (t, p)</th>{head}<th>combined</th></tr>{body}</table>"
            f"<ul>{notes}</ul>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain numbers and strings, for JSON."""

        def plain(p: PValue) -> dict[str, Any]:
            return {
                "p": p.p,
                "z": _finite(p.z),
                "interval": [p.low, p.high],
                "hits": p.hits,
                "law": None
                if p.law is None
                else {
                    "name": p.law.law,
                    "ks_p": p.law.ks_p,
                    "tail": _finite(p.law.tail_ratio),
                    "p": p.law_p,
                },
            }

        return {
            "verdicts": {" + ".join(names): plain(p) for names, p in self.verdicts.items()},
            "statistics": {
                name: {
                    "t": list(result.t),
                    "p": [plain(p) for p in result.p],
                    "combined": plain(result.combined),
                }
                for name, result in self.shown.items()
            },
            "pvalue": self.pvalue,
            "zscore": _finite(self.zscore),
            "interval": list(self.interval),
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
            "windows": [asdict(window) for window in self.windows],
            "evidence": self.evidence,
            "caveats": list(self.caveats),
        }

    def _headline(self) -> str:
        """Write the p-value of the whole test, and what it was made of."""
        names = " + ".join(self.headline)
        counted = str(self.verdicts[self.headline])
        if self.rate is None:
            return f"verdict ({names}): {counted}"
        return (
            f"verdict, shape and rate together (Fisher): p = {self.pvalue:.2g}; "
            f"shape ({names}): {counted}; rate, tested apart: {self.rate}"
        )

    def _counts(self) -> str:
        if self.rate is not None:
            rate = f"{self.rate.expected:g} expected, shape and rate tested apart"
        elif self.shape_only:
            rate = "shape only: the rate is not tested"
        else:
            rate = f"{self.expected:g} expected"
        return f"{self.observed} events ({rate}), {self.toys} toys from {self.source}"

    def _rows(self) -> list[str]:
        head = ["statistic", *(f"σ = {width:.3g}" for width in self.widths), "combined p", "Z"]
        empty = [""] * len(self.widths)
        rows = [head]
        rows += [[" + ".join(names), *empty, _p(p), _z(p)] for names, p in self.verdicts.items()]
        for name, result in self.shown.items():
            last = [_p(result.combined), _z(result.combined)]
            if name == SCAN:
                rows.append([f"{name}, t = {result.t[0]:.1f}", *empty, *last])
            else:
                rows.append([name, *(f"{t:.1f}" for t in result.t), "", ""])
                rows.append(["   p", *_by_width(result), *last])
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
        notes = [
            f"combined: {RULES[self.rule]} over widths, and then over strategies, ranked among the "
            "toys alike"
        ]
        notes += [f"scan: {window}" for window in self.windows[:1]]
        notes += [
            f"{name}{self._at(name, k)}: {UNDESCRIBED}"
            for name, result in self.shown.items()
            for k, lost in enumerate(result.undescribed)
            if lost
        ]
        if self.together is not None:
            names, p = self.together
            notes.append(f"{', '.join(names)} together: {p}")
        if laws := self._laws():
            notes.append(laws)
        return [*notes, *self.caveats, "no systematic uncertainties are included"]

    def _laws(self) -> str:
        """Say what fitted laws give for t that no toy reaches, and how well they fit the toys."""
        used = [
            f"{name}{self._at(name, k)} {p.law_p:.2g} ({p.law.law}, KS p {p.law.ks_p:.2g})"
            for name, result in self.shown.items()
            for k, p in enumerate(result.p)
            if p.law is not None and p.law_p is not None
        ]
        if not used:
            return ""
        return f"p extrapolated by laws fitted to the toys, not measured: {', '.join(used)}"

    def _at(self, name: str, k: int) -> str:
        return "" if name == SCAN else f" at σ = {self.widths[k]:.3g}"


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
    return f"{p.p:.2g}"


def _by_width(result: StatisticResult) -> list[str]:
    pairs = zip(result.p, result.undescribed, strict=True)
    return ["t < 0" if lost else _p(p) for p, lost in pairs]


def _z(p: PValue) -> str:
    # A p-value of one has no Z: no toy is less extreme.
    return "-" if p.p == 1 else f"{p.z:.1f}"


def _finite(z: float) -> float | None:
    """JSON knows no infinity; a p-value of one has no Z."""
    return z if math.isfinite(z) else None
