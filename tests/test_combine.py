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


def slow_combined_p(rows: list[list[float]], rule: Rule) -> float:
    """Do as METHOD §4 says, with loops; the observed set is the first row."""
    count = len(rows)
    merits = []
    for mine in rows:
        p = [sum(other[k] >= mine[k] for other in rows) / count for k in range(len(mine))]
        if rule == "min":
            merits.append(min(p))
        elif rule == "mean":
            merits.append(math.fsum(p) / len(p))
        else:
            merits.append(math.fsum(math.log(x) for x in p))
    return sum(m <= merits[0] + 1e-12 * max(1, abs(merits[0])) for m in merits) / count


@given(
    st.lists(
        st.lists(st.integers(0, 6).map(float), min_size=3, max_size=3), min_size=2, max_size=12
    ),
    st.sampled_from(RULES),
)
def test_combination_by_loops(rows: list[list[float]], rule: Rule) -> None:
    """Also with ties, everywhere."""
    found = combined_p(rows[0], np.array(rows[1:]), rule)
    assert found == pytest.approx(slow_combined_p(rows, rule), abs=1e-12)


def null_rates(rule: Rule, level: float, toys: int, sets: int) -> float:
    """Share of null data sets with combined p ≤ level, five strongly correlated tests."""
    rng = np.random.default_rng(11)
    mix = 0.8 * np.ones((5, 5)) / 5 + 0.5 * np.eye(5)
    hits = 0
    for _ in range(sets):
        t = rng.gamma(4, size=(toys + 1, 5)) @ mix
        hits += combined_p(t[0], t[1:], rule) <= level + 1e-12
    return hits / sets


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_exact_under_the_null(rule: Rule, level: float) -> None:
    """P(p ≤ α) ≤ α to 3.5 standard deviations, and not far below for continuous merits."""
    rate = null_rates(rule, level, toys=199, sets=6000)
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
