"""Learning one batch of a stream: a pure function of the batch, whatever else is being learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.arguments import positive_number
from gofstream.checks import match_columns
from gofstream.errors import EmptyError
from gofstream.ratio.features import Features
from gofstream.ratio.learner import PREDICTED, Learner
from gofstream.ratio.model import LogRatio
from gofstream.ratio.solver import Fit, fit
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.region import Regions
from gofstream.scan.summary import ScanSummary
from gofstream.stream.rows import Entry, State

Floats = NDArray[np.float64]
#: `map`, or that of an executor.
Each = Callable[..., Iterable[Any]]

#: How far, relatively, the exposure of a batch may be from the nominal one that was calibrated.
EXPOSURE_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """What a batch taught, before it is applied.

    Attributes
    ----------
    entry : what the ledger will say of it, still without number and statistics.
    models : by width.
    events : scaled; the batches before it have to be asked about them.
    sample : its events, in the columns of the reference.
    scanned : the scan of this batch alone, if the run has one.
    """

    entry: Entry
    models: tuple[LogRatio, ...]
    events: Floats
    sample: Sample
    scanned: ScanSummary | None


def learn_batch(
    learner: Learner,
    features: Sequence[Features],
    name: str,
    sample: Sample,
    expected: float | None,
    arrived: float,
    each: Each = map,
    scan: tuple[ScanGrid, Regions] | None = None,
) -> Taught:
    """Learn a batch at every width.

    Parameters
    ----------
    learner : the prepared reference.
    features : by width.
    name : its identity.
    sample : its events.
    expected : N_i(R); the nominal one if it is not known.
    arrived : seconds since 1970, UTC.
    each : does the widths.
    scan : its grid, and the regions of its windows; without one there is none.

    Raises
    ------
    InputError
        If the batch cannot be used: it says which batch, column and row.

    Examples
    --------
    >>> from gofstream.settings import Settings
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.exponential(size=5000))
    >>> settings = Settings(widths=(0.5,), n_centres=30)
    >>> learner = Learner.prepare(reference, settings, expected=100.0, rng=rng)
    >>> features = [learner.features(0.5)]
    >>> batch = Sample.from_array(rng.exponential(size=120))
    >>> learn_batch(learner, features, "batch 1", batch, 120.0, 0.0).entry.state
    'unmonitored'
    """
    own = learner.expected
    if expected is not None:
        own = positive_number("expected", expected, PREDICTED)
    if not len(sample):
        raise EmptyError(f"batch {name!r} has no events; check where it was written")
    batch = match_columns(sample.take(slice(None), name=name), learner.sample)
    (events,) = learner.scaled([batch])
    off, usual = own / learner.expected - 1, is_usual(own, learner.expected)
    state: State = "learnt" if usual else "unmonitored"
    # What no row of the ledger can hold is refused before the work.
    entry = Entry(0, name, batch.digest(), arrived, len(batch), own, state).checked()
    fits = each(lambda made: _fit(learner, made, events, own), features)
    models: list[LogRatio] = []
    notes = [] if usual else [f"exposure {off:+.1%} off the nominal one: not monitored"]
    for made, done in zip(features, fits, strict=True):
        models += learner.models(made, done, [own])
        notes += _complaints(made.width, done, learner.settings.one_step)
    scanned = None
    if scan is not None:
        grid, regions = scan
        inside = regions.count(batch).astype(np.int64)
        scanned = ScanSummary.empty(grid).add(events, own, inside)
    return Taught(replace(entry, note="; ".join(notes)), tuple(models), events, batch, scanned)


def is_usual(expected: float, nominal: float) -> bool:
    """Tell whether an exposure is as near the nominal one as a monitored batch must be.

    Examples
    --------
    >>> is_usual(95.0, 100.0), is_usual(106.0, 100.0)
    (True, False)
    """
    return abs(expected / nominal - 1) <= EXPOSURE_TOLERANCE + 1e-9


def _fit(learner: Learner, features: Features, events: Floats, expected: float) -> Fit:
    """Fit alone: in a block with others the last bits would depend on them."""
    settings = learner.settings
    return fit(
        features,
        [events],
        [expected],
        one_step=settings.one_step,
        tolerance=settings.tolerance,
        max_passes=settings.max_passes,
        memory=settings.memory,
    )


def _complaints(width: float, done: Fit, one_step: bool) -> list[str]:
    """Write what went wrong with a fit; a single step never converges."""
    stuck = not one_step and not done.converged[0]
    found = [f"σ = {width:.3g}: the fit did not converge"] if stuck else []
    if unseen := int(done.uncovered[0]):
        found.append(f"σ = {width:.3g}: events far from every centre, not seen: {unseen}")
    return found
