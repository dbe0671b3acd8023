"""Contradictions between the parts of a test: toys that do not follow the reference.

Every p-value rests on toys that follow the reference. Two checks need neither data nor fits. The
distribution of each column in the source of the toys is compared with that in the reference. And
t of the scan is twice the logarithm of a likelihood ratio, so that P(t ≥ u) ≤ e^{-u/2} in data that
follow the reference: where many toys have a t that one of a million may have, they do not follow
it, and p = 1 beside a window with 64 events for 7.72 expected says nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gofstream.sample import Sample
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Pool, toy_rng

Floats = NDArray[np.float64]

#: How such a caveat begins.
CONTRADICTION = "toys and reference contradict each other: "
ADVICE = "no p-value is to be trusted; check weights, selection and columns of the source of toys"
#: Parts of the reference at which distributions are compared.
PARTS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: Standard errors that differences may have: once in 10⁹ by chance, for each column and part.
ERRORS = 6.0
#: A difference is harmless if it is below this part of a standard deviation of the data.
HARMLESS = 0.5
#: Rows of a sample that are compared, and events drawn from a simulator.
ROWS, DRAWN = 200_000, 20_000
#: Toys that are drawn for them, at most.
MOST_TOYS = 100
#: Chance, at most, of a t of the scan that counts as impossible.
IMPOSSIBLE = 1e-6
#: Part of the toys that may have such a t.
ALLOWED = 0.05


def contradictions(plan: object, scans: Floats) -> list[str]:
    """List what shows that the toys of a plan do not follow its reference.

    Parameters
    ----------
    plan : toys from permuted labels follow by construction, and are not checked.
    scans : (B,) t of the scan of each toy.
    """
    if not isinstance(plan, ReferencePlan):
        return []
    found = [other_distribution(plan), impossible_toys(scans)]
    return [f"{CONTRADICTION}{text}; {ADVICE}" for text in found if text]


def impossible_toys(scans: Floats) -> str:
    """Tell of toys with a t of the scan that the reference does not allow; empty if there are few.

    Examples
    --------
    >>> impossible_toys(np.array([3.0, 5.0, 40.0]))
    't of the scan exceeds 27.6 in 1 of 3 toys, where the reference allows one in a million'
    """
    limit = -2 * math.log(IMPOSSIBLE)
    beyond = int(np.count_nonzero(scans >= limit))
    if beyond <= ALLOWED * len(scans):
        return ""
    return (
        f"t of the scan exceeds {limit:.1f} in {beyond} of {len(scans)} toys, where the reference "
        "allows one in a million"
    )


def other_distribution(plan: ReferencePlan) -> str:
    """Tell of the column whose distribution in the toys differs most; empty if none differs.

    The part of the weight below seven quantiles of the reference is compared, with the errors that
    both sizes leave.
    """
    if plan.split_from:  # both are random parts of one sample
        return ""
    reference, toys = _some(plan.learner.sample), _toys(plan)
    events = float(plan.expected.sum())
    worst, text = ERRORS, ""
    for j, column in enumerate(reference.columns):
        x, y = (sample.values[:, j].astype(np.float64) for sample in (reference, toys))
        if (period := reference.periodic.get(column)) is not None:
            x, y = x % period, y % period
        for edge in _quantiles(x, reference.share):
            here, error = _part_below(x, reference.share, edge)
            there, other = _part_below(y, toys.share, edge)
            spread = math.sqrt(max(here * (1 - here), 1 / events) / events)
            size = abs(there - here) / max(math.hypot(error, other), 1e-300)
            if size > worst and abs(there - here) > HARMLESS * spread:
                worst = size
                text = (
                    f"{100 * there:.3g} % of {plan.source_name} have {column} ≤ {edge:.4g}, and "
                    f"{100 * here:.3g} % of the reference ({size:.0f} standard errors)"
                )
    return text


def _quantiles(values: Floats, share: Floats) -> list[float]:
    order = np.argsort(values, kind="stable")
    places = np.searchsorted(np.cumsum(share[order]), PARTS)
    edges: list[float] = np.unique(values[order][np.minimum(places, len(values) - 1)]).tolist()
    return edges


def _part_below(values: Floats, share: Floats, edge: float) -> tuple[float, float]:
    """Give the part of the weight at or below an edge, with its standard error."""
    below = values <= edge
    part = float(share @ below)
    return part, math.sqrt(float(np.sum((share * (below - part)) ** 2)))


def _toys(plan: ReferencePlan) -> Sample:
    """Give the pool, or events of a simulator."""
    source = plan.source
    if isinstance(source, Pool):
        return _some(source.sample)
    drawn: list[Floats] = []
    for toy in range(MOST_TOYS):
        rng = toy_rng(plan.seed, "closure", toy)
        drawn += source.draw(plan.expected, rng, fixed=plan.shape_only)
        if sum(map(len, drawn)) >= DRAWN:
            break
    return Sample.from_array(np.concatenate(drawn), plan.learner.sample.columns, name="toys")


def _some(sample: Sample) -> Sample:
    """Take at most so many rows, at equal distances."""
    return sample.take(np.arange(0, len(sample), max(1, -(-len(sample) // ROWS))))
