"""Combine several tests of the same data into one p-value, exactly (eq. 10-12 of the method page).

The observed set is pooled with the B toys. Within each test, every set is ranked among all B+1;
the combination is then ranked in the same way. Under the null all B+1 sets are exchangeable, so
P(p ≤ α) ≤ α whatever the correlations between the tests. Where strategies with several widths meet,
each is ranked as a whole first, so that it counts once however many widths it was tried at. Ranking
the observed set against the toys but the toys among themselves is not exact, and using the smallest
p raw is plainly wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import InputError, nearest_names
from gofstream.inference.pvalues import least_tied

Floats = NDArray[np.float64]
Rule = Literal["min", "mean", "product"]


def pooled_p(t: Floats) -> Floats:
    """p_j = #{k : t_k ≥ t_j} / n for every set j among n, itself included, column by column.

    Ties up to rounding count as equal, as in `empirical_p`.

    Examples
    --------
    >>> import numpy as np
    >>> pooled_p(np.array([[1.0], [3.0], [2.0], [3.0 + 1e-9]])).ravel().tolist()
    [1.0, 0.5, 0.75, 0.5]
    """
    return _shares_beyond(t, least_tied(t))


def _shares_beyond(values: Floats, least: Floats) -> Floats:
    """Give, column by column, the share of values that are not below each of the least."""
    shares = np.empty(values.shape)
    for column in range(values.shape[1]):
        ordered = np.sort(values[:, column])
        below = np.searchsorted(ordered, least[:, column], side="left")
        shares[:, column] = (len(values) - below) / len(values)
    return shares


def merit(p: Floats, rule: Rule) -> Floats:
    """Reduce the p-values of each set (a row) to one number; small means surprising."""
    if rule == "min":
        return np.asarray(p.min(axis=1))
    if rule == "mean":
        return np.asarray(p.mean(axis=1))
    if rule == "product":
        return np.asarray(np.log(p).sum(axis=1))
    raise InputError(f"no rule is called {rule!r}; {nearest_names(rule, get_args(Rule))}")


def scores(t: Floats, rule: Rule, columns: Sequence[int] = ()) -> Floats:
    """Reduce t of each set (a row) to one number by its ranks among all rows.

    Parameters
    ----------
    columns : how many columns each strategy has; by default there is but one strategy.
    """
    p = pooled_p(t)
    if len(columns) > 1:
        parts = np.split(p, np.cumsum(columns)[:-1], axis=1)
        # Sums of p in another order differ in the last digits; equal merits must count as equal.
        found = [-merit(part, rule).round(12)[:, None] for part in parts]
        p = np.hstack([_shares_beyond(each, each) for each in found])
    return merit(p, rule)


def combined_p(
    observed: ArrayLike, null: ArrayLike, rule: Rule = "min", columns: Sequence[int] = ()
) -> float:
    """Give one p-value for an observed row of statistics against B rows of toys.

    Parameters
    ----------
    observed : (K,) the K statistics (widths, or any set) of the data.
    null : (B, K) the same of each toy.
    rule : smallest p, mean p, or product of p.
    columns : how many of the K belong to each strategy, in their order; by default all to one. Of
        several strategies each gets a p-value first, and these are combined by the same rule.

    Examples
    --------
    >>> import numpy as np
    >>> toys = np.random.default_rng(1).normal(size=(99, 3))
    >>> combined_p([0.0, 0.0, 9.0], toys)
    0.03
    >>> combined_p([0.0, 0.0, 9.0], toys, columns=(2, 1))
    0.01
    """
    toys = np.asarray(null, dtype=np.float64)
    rows = np.vstack([np.asarray(observed, dtype=np.float64)[None, :], toys])
    found = scores(rows, rule, columns)
    close = 1e-12 * max(1.0, abs(float(found[0])))
    return float(np.count_nonzero(found <= found[0] + close) / len(rows))
