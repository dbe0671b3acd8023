"""Combining tests: against loops, exact under the null, and telling from wrong ways."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofstream.errors import InputError
from gofstream.inference.combine import combined_p, pooled_p
from gofstream.inference.pvalues import empirical_p

Rule = Literal["min", "mean", "product"]
RULES: tuple[Rule, ...] = ("min", "mean", "product")


def slow_merits(p: list[list[float]], rule: Rule) -> list[float]:
    """Reduce the p-values of every set."""
    if rule == "min":
        return [min(mine) for mine in p]
    if rule == "mean":
        return [math.fsum(mine) / len(mine) for mine in p]
    return [math.fsum(math.log(x) for x in mine) for mine in p]


def slow_ranks(merits: list[float]) -> list[float]:
    """Tell which share of the sets is as small or smaller, for every set."""
    return [
        sum(m <= mine + 1e-12 * max(1, abs(mine)) for m in merits) / len(merits) for mine in merits
    ]


def slow_combined_p(
    rows: list[list[float]], rule: Rule, columns: tuple[int, ...] | None = None
) -> float:
    """Do as eq. 10-12 say, with loops; the observed set is the first row.

    Of several strategies, with so many columns each, each has one p-value first.
    """
    strategies = []
    for part in range(len(columns or (0,))):
        first = sum((columns or ())[:part])
        last = first + columns[part] if columns else len(rows[0])
        p = [
            [
                sum(other[k] >= mine[k] - 1e-4 * max(1, abs(mine[k])) for other in rows) / len(rows)
                for k in range(first, last)
            ]
            for mine in rows
        ]
        strategies.append(slow_ranks(slow_merits(p, rule)))
    if len(strategies) == 1:
        return strategies[0][0]
    joined = [list(each) for each in zip(*strategies, strict=True)]
    return slow_ranks(slow_merits(joined, rule))[0]


@given(
    st.lists(
        st.lists(st.integers(0, 6).map(float), min_size=3, max_size=3), min_size=2, max_size=12
    ),
    st.sampled_from(RULES),
)
def test_combination_by_loops(rows: list[list[float]], rule: Rule) -> None:
    """Also with ties, everywhere; three widths of one strategy, or two and one, or three."""
    found = combined_p(rows[0], np.array(rows[1:]), rule)
    assert found == pytest.approx(slow_combined_p(rows, rule), abs=1e-12)
    for columns in ((3,), (2, 1), (1, 2), (1, 1, 1)):
        found = combined_p(rows[0], np.array(rows[1:]), rule, columns)
        assert found == pytest.approx(slow_combined_p(rows, rule, columns), abs=1e-12)


def test_a_strategy_counts_once() -> None:
    """Whether it was tried at one width or at twenty: the other one's p stays the same."""
    rng = np.random.default_rng(10)
    null, t = rng.normal(size=(999, 1)), rng.normal(size=(999, 1))
    alone = combined_p([2.5, 0.0], np.hstack([null, t]))
    many = np.hstack([null, np.repeat(t, 20, axis=1)])
    assert combined_p([2.5, *[0.0] * 20], many, columns=(1, 20)) == alone
    unlike = np.hstack([null, rng.normal(size=(999, 20))])
    assert combined_p([2.5, *[0.0] * 20], unlike, columns=(1, 20)) < 1.5 * alone
    assert combined_p([2.5, *[0.0] * 20], unlike) > 5 * alone


def null_rates(
    rule: Rule, level: float, toys: int, sets: int, columns: tuple[int, ...] = ()
) -> float:
    """Share of null data sets with combined p ≤ level, five strongly correlated tests."""
    rng = np.random.default_rng(11)
    mix = 0.8 * np.ones((5, 5)) / 5 + 0.5 * np.eye(5)
    hits = 0
    for _ in range(sets):
        t = rng.gamma(4, size=(toys + 1, 5)) @ mix
        hits += combined_p(t[0], t[1:], rule, columns) <= level + 1e-12
    return hits / sets


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("columns", [(5,), (4, 1)])
def test_exact_under_the_null(rule: Rule, level: float, columns: tuple[int, ...]) -> None:
    """P(p ≤ α) ≤ α to 3.5 standard deviations, and not far below for continuous merits."""
    rate = null_rates(rule, level, toys=199, sets=6000, columns=columns)
    spread = math.sqrt(level * (1 - level) / 6000)
    assert rate <= level + 3.5 * spread
    if rule != "min":
        assert rate >= level - 3.5 * spread


def test_the_smallest_p_used_raw_is_wrong() -> None:
    """The same check tells the raw smallest p from a p-value."""
    rng = np.random.default_rng(12)
    hits = 0
    for _ in range(2000):
        t = rng.normal(size=(200, 5))
        hits += min(float(empirical_p(t[0, k], t[1:, k])) for k in range(5)) <= 0.05
    assert hits / 2000 > 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 2000)


def test_toys_ranked_among_themselves_is_wrong() -> None:
    """Ranking the toys leave-one-out makes small p-values several times too frequent."""
    rng = np.random.default_rng(13)
    toys, sets, hits = 199, 4000, 0
    for _ in range(sets):
        t = rng.normal(size=(toys + 1, 5))
        mine = min(float(empirical_p(t[0, k], t[1:, k])) for k in range(5))
        theirs = (pooled_p(t[1:]) * toys / toys).min(axis=1)
        hits += (1 + np.count_nonzero(theirs <= mine)) / (1 + toys) <= 0.005
    assert hits / sets > 0.005 + 3.5 * math.sqrt(0.005 * 0.995 / sets)


def test_pooled_p_by_counting() -> None:
    """Itself included, so never zero."""
    t = np.random.default_rng(14).integers(0, 5, size=(40, 3)).astype(float)
    p = pooled_p(t)
    for j in range(40):
        for k in range(3):
            assert p[j, k] == np.mean(t[:, k] >= t[j, k])


def test_unknown_rule() -> None:
    """It is named, with those that exist."""
    with pytest.raises(InputError, match="'mni'; nearest: 'min'"):
        combined_p([1.0], [[0.0]], "mni")
