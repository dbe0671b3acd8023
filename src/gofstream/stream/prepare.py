"""What a stream begins with: its reference and, if it may alarm, a plan for null streams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gofstream.errors import InputError
from gofstream.nplm import plan_null
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.streams import StreamPlan


class Prepared(NamedTuple):
    """The reference made ready, and the streams to calibrate alarms with; None without alarms."""

    learner: Learner
    plan: StreamPlan | None


def prepare_stream(
    reference: Sample,
    settings: Settings,
    expected: float,
    seed: int,
    *,
    epoch: int,
    window: int,
    alarms: bool,
    pool: Sample | None = None,
) -> Prepared:
    """Decide everything about a stream that follows from its reference: the same for the same seed.

    Parameters
    ----------
    reference : the nominal model; with alarms and without a pool, part of it is set aside.
    settings : of the learner.
    expected : N_i(R) of one batch.
    seed : decides which rows are centres, and which are set aside.
    epoch, window : H and K, in batches.
    alarms : whether null streams will be needed.
    pool : further nominal events to make them from.

    Raises
    ------
    InputError
        If there are too few events to calibrate with.

    Examples
    --------
    >>> x = Sample.from_array(np.random.default_rng(1).exponential(size=5000))
    >>> learner, plan = prepare_stream(
    ...     x, Settings(n_centres=30), 10.0, 1, epoch=8, window=2, alarms=True
    ... )
    >>> len(learner.reference), plan.epoch
    (2000, 8)
    """
    if not alarms:
        rng = np.random.default_rng(seed)
        return Prepared(Learner.prepare(reference, settings, expected=expected, rng=rng), None)
    batches = epoch + window
    try:
        plan = plan_null(
            reference,
            [expected] * batches,
            batches=batches,
            settings=settings,
            pool=pool,
            rng=seed,
        )
    except InputError as error:
        raise InputError(
            f"{error}; an alarm is calibrated on streams of {batches} batches: watch shorter "
            "epochs and windows, or go without alarms"
        ) from error
    streams = StreamPlan(
        plan.learner, plan.source, plan.source_name, plan.seed, epoch=epoch, window=window
    )
    return Prepared(plan.learner, streams)
