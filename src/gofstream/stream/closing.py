"""The test of a run or an epoch that is closed: `all` and `one`, once, from events that were kept.

They do not alarm: looked at after every batch they would have to see all kept events again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.inference.calibrate import judge_statistic
from gofstream.inference.null import NullTable
from gofstream.inference.pvalues import LAWS
from gofstream.inference.result import StatisticResult
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import Aggregate, LogRatio
from gofstream.statistics import likelihood_ratio
from gofstream.stream.events import from_bytes
from gofstream.stream.position import refuse_other
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Entry

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Closing:
    """The test of a closed stretch of batches.

    Attributes
    ----------
    statistic : `all`, or `one` where only some events were kept.
    learnt, tested : numbers of the batches that F is made of, and of those it was tested on.
    alpha : the level of this test.
    result : t and p by width, and over all widths.
    """

    statistic: Literal["all", "one"]
    learnt: tuple[int, ...]
    tested: tuple[int, ...]
    alpha: float
    result: StatisticResult

    @property
    def anomalous(self) -> bool:
        """Whether p is at or below the level."""
        return self.result.combined.p <= self.alpha


def closed_epochs(reader: Reader) -> list[tuple[int, int]]:
    """List the first and last batch of every epoch that is over."""
    length = reader.about()["epoch"]
    learnt = [entry.number for entry in reader.entries() if entry.state == "learnt"]
    ends = range(length, len(learnt) + 1, length)
    return [(learnt[end - length], learnt[end - 1]) for end in ends]


def judge(
    reader: Reader,
    learner: Learner,
    null: NullTable,
    alpha: float,
    *,
    first: int = 1,
    last: int | None = None,
) -> Closing:
    """Test the monitored batches of a closed run or epoch with the statistic of its retention.

    Of the batches that `one` has kept the last is tested: exposures are equal, so that it has the
    law of the first one of a toy.

    Parameters
    ----------
    reader : the store, which keeps events and models.
    learner : the prepared reference.
    null : toys of as many batches of the nominal exposure (`ReferencePlan`).
    alpha : the level of this test, beside that of the alarms.
    first, last : numbers of the batches; by default the whole run.

    Raises
    ------
    InputError
        If events or models that are needed were not kept.
    FormatError
        If store or null were made with something else; it names the field.
    """
    about = reader.about()
    refuse_other(str(reader.path), about, learner.about())
    strategy = about["retention"]["strategy"]
    if strategy == "sat" or not about["keep_models"]:
        raise InputError(
            f"{reader.path} cannot be tested once more: it keeps "
            f"{'no events' if strategy == 'sat' else 'events, but no models'}; begin the run with "
            "the retention `all` or `one`, and with its models kept"
        )
    with reader.snapshot():
        entries = [e for e in reader.entries(first, last) if e.state == "learnt"]
        kept = set(reader.kept())
        tested = [entry for entry in entries if entry.number in kept]
        if strategy == "one":
            tested = tested[-1:]
        if not tested:
            raise InputError(f"{reader.path} has kept no events of the batches that were asked for")
        exposures = {"expected": [learner.expected] * len(entries)}
        refuse_other("the null", null.about, learner.about() | exposures)
        t = _likelihood_ratios(reader, learner, entries, tested)
    result = judge_statistic(t, null.statistic(strategy), LAWS[strategy], "min")
    numbers = tuple(entry.number for entry in entries)
    return Closing(strategy, numbers, tuple(entry.number for entry in tested), alpha, result)


def _likelihood_ratios(
    reader: Reader, learner: Learner, entries: list[Entry], tested: list[Entry]
) -> Floats:
    """2 Σ_i [ Σ_R w_i (1 - e^F) + Σ_{D_i} F ] over the tested batches, by width."""
    rows = len(learner.reference)
    share = np.full(rows, 1 / rows) if learner.share is None else learner.share
    samples = {
        entry.number: from_bytes(reader.events(entry.number) or b"", learner.sample, entry.name)
        for entry in tested
    }
    t = []
    for k in range(len(learner.widths)):
        models = [LogRatio.from_bytes(reader.models(entry.number)[k]) for entry in entries]
        aggregate = Aggregate(tuple(models))
        on_reference = aggregate.scaled(learner.reference[:])
        t.append(
            sum(
                likelihood_ratio(
                    on_reference,
                    aggregate.scaled(learner.scaling.apply(samples[entry.number])),
                    entry.expected,
                    share,
                )
                for entry in tested
            )
        )
    return np.array(t)
