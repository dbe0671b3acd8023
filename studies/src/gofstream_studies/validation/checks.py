"""Checks that data sets of the null are no more surprising than their p-values say.

Data sets and toys are tables of t: by what is tested, an array (sets, columns) with a column for
each width. Under the null all are exchangeable given the reference, which is all that the checks
use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gofstream.inference.combine import Rule, combined_p, scores
from gofstream.inference.pvalues import empirical_p
from gofstream.toys.scanning import SCAN

Floats = NDArray[np.float64]
Table = Mapping[str, Floats]
Combine = Callable[[Floats, Floats, Rule, Sequence[int]], float]

RULES: tuple[Rule, ...] = ("min", "mean", "product")
LEVELS = (0.05, 0.01)
#: The size of a small table, which resolves 5 % and no less: ties among ranks are common there, and
#: mistakes in ranking show.
SMALL, SMALL_LEVEL = 19, 0.05
#: A family of checks fails if the smallest p-value, after Holm's correction, is below this.
FAMILY_LEVEL = 0.01


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was looked at, what was found, and how likely that is under the null."""

    what: str
    found: str
    p: float


def holm(checks: list[Check]) -> list[float]:
    """Give Holm's adjusted p-values, in the order of the checks.

    Examples
    --------
    >>> holm([Check("a", "", 0.01), Check("b", "", 0.04), Check("c", "", 0.03)])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort([check.p for check in checks], kind="stable")
    adjusted, running = np.empty(len(checks)), 0.0
    for rank, k in enumerate(order):
        running = max(running, min(1.0, (len(checks) - rank) * checks[k].p))
        adjusted[k] = running
    return [float(f"{value:.12g}") for value in adjusted]


def against_table(table: Table, data: Table, combine: Combine = combined_p) -> list[Check]:
    """Check data sets that share one table of toys."""
    return [
        *_each_width(table, data),
        *_combined(table, data, combine),
        *_small(table, data, combine),
    ]


def column_name(name: str, column: int) -> str:
    """Say which column of a statistic; the scan has no width."""
    return name if name == SCAN else f"{name}, width {column + 1}"


def columns_in(table: Table, name: str) -> list[int]:
    """Count the columns of every strategy of a verdict."""
    return [table[each].shape[1] for each in name.split(" + ")]


def _each_width(table: Table, data: Table) -> Iterator[Check]:
    for name in table:
        if " + " in name:
            continue  # a verdict, whose columns are those of others
        for k in range(table[name].shape[1]):
            null, seen, what = table[name][:, k], data[name][:, k], column_name(name, k)
            if np.ptp(null) == 0:
                continue  # `next` of a single batch
            distance = stats.ks_2samp(null, seen)
            yield Check(f"{what}: KS", f"{distance.statistic:.3f}", float(distance.pvalue))
            yield from _levels(what, empirical_p(seen, null), len(null), two_sided=True)


def _combined(table: Table, data: Table, combine: Combine) -> Iterator[Check]:
    for name, null in table.items():
        if name == SCAN:
            continue
        seen, columns = data[name], columns_in(table, name)
        for rule in RULES:
            what = f"{name}, {rule} over widths"
            joint = scores(np.concatenate([null, seen]), rule, columns)
            distance = stats.ks_2samp(joint[: len(null)], joint[len(null) :])
            yield Check(f"{what}: KS", f"{distance.statistic:.3f}", float(distance.pvalue))
            # Ranks tie, so p may err on the safe side, never on the other.
            p = np.array([combine(t, null, rule, columns) for t in seen])
            yield from _levels(what, p, len(null), two_sided=False)


def _small(table: Table, data: Table, combine: Combine) -> Iterator[Check]:
    """Split toys into small tables, each with its share of the data sets."""
    for name, seen in data.items():
        count = len(table[name]) // SMALL
        if name == SCAN or not count:
            continue
        parts, columns = np.array_split(np.arange(len(seen)), count), columns_in(table, name)
        for rule in RULES:
            hits, laws = 0, []
            for i, rows in enumerate(parts):
                null = table[name][i * SMALL : (i + 1) * SMALL]
                p = np.array([combine(seen[j], null, rule, columns) for j in rows])
                hits += int(np.count_nonzero(p <= SMALL_LEVEL + 1e-12))
                laws.append(hit_law(len(rows), SMALL, SMALL_LEVEL))
            yield Check(
                f"{name}, {rule} over widths, {count} tables of {SMALL}: p ≤ {SMALL_LEVEL:g}",
                f"{hits} of {len(seen)}",
                min(1.0, float(reduce(np.convolve, laws)[hits:].sum())),
            )


def _levels(what: str, p: Floats, toys: int, *, two_sided: bool) -> Iterator[Check]:
    for level in LEVELS:
        hits = int(np.count_nonzero(p <= level + 1e-12))
        law = hit_law(len(p), toys, level)
        more, fewer = float(law[hits:].sum()), float(law[: hits + 1].sum())
        yield Check(
            f"{what}: p ≤ {level:g}",
            f"{hits} of {len(p)}",
            min(1.0, 2 * min(more, fewer)) if two_sided else min(1.0, more),
        )


def hit_law(sets: int, toys: int, level: float) -> Floats:
    """Probability of 0, 1, … data sets with p ≤ level, all ranked in one table of toys.

    p ≤ level if fewer than k = ⌊level (B+1)⌋ toys are as extreme. Given the table, that has a
    probability which is itself random: Beta(k, B + 1 - k). Hence a beta-binomial law.

    Examples
    --------
    >>> import numpy as np
    >>> law = hit_law(100, 99, 0.05)
    >>> round(float(law @ np.arange(101)), 6)
    5.0
    """
    k = int(np.floor(level * (toys + 1) + 1e-9))
    if k == 0:
        return np.asarray(np.eye(1, sets + 1)[0])
    return np.asarray(stats.betabinom.pmf(np.arange(sets + 1), sets, k, toys + 1 - k))


def own_tables(ranks: dict[str, NDArray[np.int64]], toys: int) -> list[Check]:
    """Check data sets that each have a table of their own.

    Parameters
    ----------
    ranks : by what was tested, p (B+1) of every data set: whole numbers, uniform from 1 to B+1
        where there are no ties.
    toys : B.
    """
    checks = []
    for what, rank in ranks.items():
        two_sided = "over widths" not in what
        p = rank / (toys + 1)
        if two_sided:
            # Both laws move in the same steps; the usual p-value then errs on the safe side.
            steps = np.bincount(rank, minlength=toys + 2)[1:].cumsum() / len(rank)
            distance = float(np.abs(steps - np.arange(1, toys + 2) / (toys + 1)).max())
            p_ks = float(stats.kstwo.sf(distance, len(rank)))
            checks.append(Check(f"{what}: KS", f"{distance:.3f}", p_ks))
        for level in LEVELS:
            hits = int(np.count_nonzero(p <= level + 1e-12))
            chance = int(np.floor(level * (toys + 1) + 1e-9)) / (toys + 1)
            test = stats.binomtest(
                hits, len(p), chance, alternative="two-sided" if two_sided else "greater"
            )
            checks.append(
                Check(f"{what}: p ≤ {level:g}", f"{hits} of {len(p)}", float(test.pvalue))
            )
    return checks
