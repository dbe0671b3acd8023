"""Calibrated tests: data are treated as toys are, p-values are p-values, results read well."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import (
    Calibration,
    calibrate,
    judge_statistic,
    judge_together,
)
from gofstream.inference.combine import Rule, combined_p
from gofstream.inference.null import NullTable
from gofstream.inference.pvalues import PAPER_LAWS, PValue, empirical_p
from gofstream.sample import Sample
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import toy_rng
from test_combine import slow_combined_p
from test_farm import small_plan

Floats = NDArray[np.float64]
TOYS = 160


def made(plan: ReferencePlan, toys: int, path: Path) -> Calibration:
    """Calibrate with two threads."""
    with thread_workers(2) as executor:
        return calibrate(plan, toys, path, executor)


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """Make a table of 160 toys."""
    return made(small_plan(), TOYS, tmp_path_factory.mktemp("null") / "a.null")


def data_of(plan: ReferencePlan, stream: str, toy: int) -> list[Sample]:
    """Draw a toy as if it were data."""
    drawn = plan.source.draw(plan.expected, toy_rng(plan.seed, stream, toy), fixed=plan.shape_only)
    return [Sample.from_array(events, name=f"batch {i}") for i, events in enumerate(drawn)]


def test_data_are_treated_as_toys_are(calibration: Calibration) -> None:
    """A toy handed in as data gets the t it has in the table (to the rounding of its block)."""
    for toy in (0, 9):
        result = calibration.test(data_of(calibration.plan, "null", toy))
        for k, name in enumerate(STATISTICS):
            found = result.statistics[name].t
            np.testing.assert_allclose(
                found, calibration.table.t[toy, k, :, -1], rtol=2e-5, atol=2e-4
            )


def test_p_values_are_those_of_the_table(calibration: Calibration) -> None:
    """Each width by counting, all together by pooled ranks."""
    result = calibration.test(data_of(calibration.plan, "data", 3))
    for name, found in result.statistics.items():
        null = calibration.table.statistic(name)
        for k, p in enumerate(found.p):
            assert p.p == pytest.approx(float(empirical_p(found.t[k], null[:, k])))
        assert found.combined.p == pytest.approx(combined_p(found.t, null))


def test_a_strong_signal_is_counted_and_the_law_is_a_detail(calibration: Calibration) -> None:
    """Far beyond the toys every p is counted; what a law says stands in the notes, marked so."""
    rng = np.random.default_rng(1)
    batches = [
        Sample.from_array(np.concatenate([rng.exponential(size=150), rng.normal(2, 0.1, 40)]))
        for _ in range(4)
    ]
    result = calibration.test(batches)
    found = result.statistics["all"]
    null = np.concatenate([calibration.table.statistic(name) for name in ("all", "scan")], axis=1)
    t = [*found.t, *result.statistics["scan"].t]
    assert result.pvalue == pytest.approx(by_loops(t, null, "min", (2, 1)), abs=1e-12)
    assert result.pvalue >= 1 / (TOYS + 1)
    assert result.to_dict()["pvalue"] == result.pvalue
    laws = [p.law_p for p in found.p if p.law_p is not None]
    assert min(laws) < 1e-5
    text = str(result)
    assert f"none of {TOYS} toys as extreme" in text.splitlines()[1]
    assert "extrapolated by laws fitted to the toys, not measured: " in text
    assert f"all at σ = {result.widths[found.p.index(min(found.p, key=law))]:.3g} " in text
    assert f"{min(laws):.2g} (gamma" in text
    for part in (*found.p, found.combined, *result.verdicts.values()):
        assert part.p == (part.hits + 1) / (TOYS + 1)
        assert part.low <= part.p <= part.high


def law(p: PValue) -> float:
    """Give what a law says, or one."""
    return 1.0 if p.law_p is None else p.law_p


def test_what_is_reported_is_a_p_value() -> None:
    """At the end of what toys resolve, and beyond: P(p ≤ α) ≤ α for five widths and the scan.

    Data sets that no column ranks among the first three cannot have a p of four or less in all
    these toys.
    """
    rng, toys, sets, p = np.random.default_rng(5), 99, 6000, []
    for _ in range(sets):
        z = 0.7 * rng.normal(size=(toys + 1, 1)) + 0.7 * rng.normal(size=(toys + 1, 5))
        scan = 2 * rng.exponential(size=(toys + 1, 1))
        ranks = np.concatenate([np.sum(part >= part[0], axis=0) for part in (z, scan)])
        if ranks.min() > 3:
            continue
        t = stats.gamma.isf(stats.norm.sf(z / math.sqrt(0.98)), 8)
        found = [
            judge_statistic(part[0], part[1:], law, "min")
            for part, law in ((t, "gamma"), (scan, "exponential"))
        ]
        p.append(judge_together(found, [t[1:], scan[1:]], "min").p)
    for count in (0.2, 1, 2, 3, 4):
        level = count / (toys + 1)
        rate = np.count_nonzero(np.array(p) <= level + 1e-9) / sets
        assert rate <= level + 3.5 * math.sqrt(level / sets), count


def test_small_validation(calibration: Calibration, tmp_path: Path) -> None:
    """Uniform p-values: 160 other toys as data, for each statistic and each way to combine.

    The short version of the long validation: two-sample Kolmogorov-Smirnov of t, and the count of
    p ≤ 5 % against its exact (beta-binomial) distribution, Holm-corrected at 0.1 % over the family.
    """
    other = made(replace(calibration.plan, stream="data"), TOYS, tmp_path / "b.null").table
    checks: dict[str, float] = {}
    rules: tuple[Rule, ...] = ("min", "mean", "product")
    for name in STATISTICS:
        null, data = calibration.table.statistic(name), other.statistic(name)
        for k in range(2):
            checks[f"{name} KS {k}"] = float(stats.ks_2samp(null[:, k], data[:, k]).pvalue)
            p = empirical_p(data[:, k], null[:, k])
            checks[f"{name} 5% {k}"] = _beta_binomial(int(np.count_nonzero(p <= 0.05)))
        for rule in rules:
            p = np.array([combined_p(row, null, rule) for row in data])
            checks[f"{name} {rule}"] = _beta_binomial(int(np.count_nonzero(p <= 0.05)))
    ordered = sorted(checks.items(), key=lambda item: item[1])
    for rank, (label, value) in enumerate(ordered):
        assert value > 0.001 / (len(ordered) - rank), label


def _beta_binomial(hits: int) -> float:
    """Two-sided p-value of the number of data sets with p ≤ 5 %, given a table of finite size."""
    below = math.floor(0.05 * (TOYS + 1) + 1e-9)
    law = stats.betabinom(TOYS, below, TOYS + 1 - below)
    return float(min(1.0, 2 * min(law.cdf(hits), law.sf(hits - 1))))


def test_the_validation_can_fail(calibration: Calibration) -> None:
    """Toys of another model as data are noticed by the same checks."""
    shifted = NullTable(calibration.table.t * 1.5, {}, 0)
    p = empirical_p(shifted.statistic("sum")[:, 0], calibration.table.statistic("sum")[:, 0])
    assert _beta_binomial(int(np.count_nonzero(p <= 0.05))) < 1e-6


def test_shape_only(tmp_path: Path) -> None:
    """Sizes are held; data of other sizes are refused; the result says what was left out."""
    plan = replace(small_plan(), shape_only=True)
    shape = made(plan, 24, tmp_path / "s.null")
    result = shape.test(data_of(plan, "data", 0))
    assert result.shape_only
    assert "the rate is not tested" in str(result)
    assert result.observed == 600
    with pytest.raises(InputError, match=r"holds the sizes.*\[150, 150, 150, 150\]"):
        shape.test([Sample.from_array(np.ones((149, 1)))] * 4)


def test_wrong_number_of_batches(calibration: Calibration) -> None:
    """The text says both numbers."""
    with pytest.raises(InputError, match="calibrated for 4 batches, but 1 given"):
        calibration.test([Sample.from_array([1.0, 2.0])])


def test_result_as_text_html_and_json(calibration: Calibration) -> None:
    """Aligned columns, escaped names, plain numbers."""
    result = calibration.test(data_of(calibration.plan, "data", 5))
    result = replace(result, source="<script>alert(1)</script>")
    lines = str(result).splitlines()
    table = [line for line in lines if line.startswith((*STATISTICS, "   p", "statistic"))]
    assert len({len(line) for line in table}) == 1
    assert "<script>" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()
    back = json.loads(json.dumps(result.to_dict()))
    assert back["statistics"]["all"]["t"] == list(result.statistics["all"].t)
    assert back["toys"] == TOYS


def by_loops(
    t: Sequence[float], null: Floats, rule: Rule, columns: tuple[int, ...] | None = None
) -> float:
    """Combine as eq. 10-12 say, with loops."""
    return slow_combined_p([list(t), *null.tolist()], rule, columns)


@pytest.mark.parametrize("rule", ["min", "mean", "product"])
def test_rules_by_loops(calibration: Calibration, rule: Rule) -> None:
    """Widths are combined by the rule asked for, and the text names it."""
    counted = 0
    for toy in (1, 4):
        result = calibration.test(data_of(calibration.plan, "data", toy), rule=rule)
        assert result.rule == rule
        for name, found in result.statistics.items():
            slow = by_loops(found.t, calibration.table.statistic(name), rule)
            assert found.combined.p == pytest.approx(slow, abs=1e-12)
            counted += 1
    assert counted > 8
    words = {"min": "smallest p", "mean": "mean of the p", "product": "product of the p"}
    assert words[rule] in str(result)


@pytest.mark.parametrize("names", [("all", "next"), ("single", "sat", "one")])
def test_statistics_together(calibration: Calibration, names: tuple[str, ...]) -> None:
    """One more p-value, of all of them, each over its widths first; nothing else changes."""
    data = data_of(calibration.plan, "data", 2)
    result, plain = calibration.test(data, together=names), calibration.test(data)
    assert plain.together is None
    assert result.together is not None
    assert result.together[0] == names
    t = [value for name in names for value in plain.statistics[name].t]
    null = np.concatenate([calibration.table.statistic(name) for name in names], axis=1)
    slow = by_loops(t, null, "min", (2,) * len(names))
    assert result.together[1].p == pytest.approx(slow, abs=1e-12)
    assert result.to_dict() | {"together": None} == plain.to_dict()
    assert result.to_dict()["together"]["statistics"] == list(names)
    assert f"{', '.join(names)} together: p = " in str(result)


def test_an_unknown_statistic(calibration: Calibration) -> None:
    """The text says what comes closest."""
    with pytest.raises(InputError, match=r"no statistic is called 'al'; nearest: 'all'"):
        calibration.test(data_of(calibration.plan, "data", 2), together=("all", "al"))


def test_laws_change_the_detail_and_nothing_else(calibration: Calibration) -> None:
    """The paper's laws, on data with a signal: counted p-values stay, the others move."""
    rng = np.random.default_rng(1)
    batches = [
        Sample.from_array(np.concatenate([rng.exponential(size=150), rng.normal(2, 0.1, extra)]))
        for extra in (0, 20, 30, 40)
    ]
    ours, paper = calibration.test(batches), calibration.test(batches, laws=PAPER_LAWS)
    moved = counted = 0
    for name, found in ours.statistics.items():
        other = paper.statistics[name]
        assert found.t == other.t
        for mine, theirs in zip(
            (*found.p, found.combined), (*other.p, other.combined), strict=True
        ):
            assert (mine.p, mine.z, mine.low, mine.high) == (
                theirs.p,
                theirs.z,
                theirs.low,
                theirs.high,
            )
            moved += mine.law_p != theirs.law_p
            counted += mine.law_p is None
    assert ours.pvalue == paper.pvalue
    assert moved >= 3
    assert counted >= 3
