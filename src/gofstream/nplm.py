"""The front door: data and a reference in, a calibrated verdict out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gofstream.arguments import (
    check_callable,
    check_type,
    file_path,
    positive_number,
    positive_numbers,
    random_generator,
    whole_number,
)
from gofstream.checks import ROWS_PER_EVENT, match_batches, match_events
from gofstream.duplicates import find_copies
from gofstream.errors import InputError, StoppedError, ToysStoppedError
from gofstream.execution import chosen_workers
from gofstream.inference.calibrate import calibrate_and_test
from gofstream.inference.rate import RateTest
from gofstream.inference.result import TestResult
from gofstream.ratio.learner import Learner
from gofstream.sample import Events, Sample, as_sample
from gofstream.settings import Settings
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.plan import Plan, ReferencePlan
from gofstream.toys.sources import Pool, Simulator, Source, split_off_pool
from gofstream.toys.weighted import POOL_WARN, rows_for_pool, rows_to_split

Floats = NDArray[np.float64]


def nplm_test(
    data: Events | Sequence[Events],
    reference: Events,
    *,
    expected: float | Sequence[float] | None = None,
    batches: int = 1,
    settings: Settings | None = None,
    simulator: Callable[[int, np.random.Generator], Floats] | None = None,
    pool: Events | None = None,
    drop_duplicates: bool = False,
    n_resamples: int = 400,
    rng: int | np.random.Generator | None = None,
    null: str | Path | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TestResult:
    """Test whether data follow the reference, without saying beforehand what could be wrong.

    Parameters
    ----------
    data : (events, columns), split at random into ``batches``; or a list of batches. Arrays,
        samples, or tables of pandas, polars, pyarrow or awkward, and structured arrays. Where
        there are names, columns are matched by name.
    reference : events of the nominal model.
    expected : events that the nominal model predicts, in all or for each batch. None: nothing is
        known about the rate, and only the shape is tested.
    batches : number of batches to split the data into.
    settings : widths, centres, penalty and so on; by default everything follows from the reference.
    simulator : called with a number of events and a generator, gives (events, columns) of the
        nominal model, or a table: the best source of pseudo-experiments.
    pool : further nominal events, none of which is in the reference: the second best. With
        neither, part of a reference that is large enough is set aside as a pool; otherwise data
        and reference are pooled and their labels permuted.
    drop_duplicates : leave out data events that repeat an earlier one exactly, and reference rows
        that do, or are in the data too. By default they are counted, and a warning tells it.
    n_resamples : pseudo-experiments.
    rng : seed or generator; the same seed gives the same result to the last bit.
    null : file for the pseudo-experiments, to resume an interrupted test with the same seed.
    executor : where to compute; by default on all cores.
    progress : called with the number of blocks of pseudo-experiments done and wanted.

    Returns
    -------
    TestResult
        With ``statistic``, ``pvalue``, ``zscore`` and ``null_distribution``; prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> reference, data = rng.normal(size=(1000, 2)), rng.normal(size=(200, 2))
    >>> result = nplm_test(data, reference, n_resamples=19, rng=1)
    >>> 0.05 <= result.pvalue <= 1
    True
    >>> result.source
    'permuted labels'
    """
    n_resamples = whole_number("n_resamples", n_resamples)
    check_callable("progress", progress, "a function of the blocks done and wanted")
    planned = plan_test(
        data,
        reference,
        expected=expected,
        batches=batches,
        settings=settings,
        simulator=simulator,
        pool=pool,
        drop_duplicates=drop_duplicates,
        rng=rng,
    )
    with tempfile.TemporaryDirectory() as folder, chosen_workers(executor) as chosen:
        path = Path(folder) / "toys.null" if null is None else file_path("null", null)
        try:
            return calibrate_and_test(
                planned.plan,
                planned.batches,
                n_resamples,
                path,
                chosen,
                progress=progress,
                rate=planned.rate,
            )
        except ToysStoppedError as stop:
            if null is not None:
                raise
            raise StoppedError(
                f"{stop.what}; nothing is kept, because no file was given: with `null=PATH` "
                "pseudo-experiments are kept, and the same call goes on from there"
            ) from stop.__cause__


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A test made ready: its batches, its plan for toys, and a test of the rate if one is due."""

    batches: list[Sample]
    plan: Plan
    rate: RateTest | None


def plan_test(
    data: Events | Sequence[Events],
    reference: Events,
    *,
    expected: float | Sequence[float] | None = None,
    batches: int = 1,
    settings: Settings | None = None,
    simulator: Callable[[int, np.random.Generator], Floats] | None = None,
    pool: Events | None = None,
    drop_duplicates: bool = False,
    rng: int | np.random.Generator | None = None,
) -> Planned:
    """Check everything and decide everything that `nplm_test` decides before toys are made.

    The parameters are those of `nplm_test`. With the same seed, reference, expected counts and
    settings, the plan is the one that `plan_null` makes without the data.
    """
    for_data, for_plan = random_generator("rng", rng).spawn(2)
    settings = _checked(settings, simulator)
    sample = as_sample(reference, "reference")
    data, sample = _without_copies(data, sample, drop_duplicates)
    parts, counts = _batches(data, sample, expected, batches, for_data)
    shape_only = counts is None
    each = np.array([len(part) for part in parts], float) if counts is None else counts
    if not each.all():
        raise InputError(
            f"batch {int(each.argmin()) + 1} has no events: the shape of nothing cannot be "
            "tested; leave the batch out, or say with `expected` how many there should be"
        )
    plan = _plan_null(sample, each, settings, simulator, pool, shape_only, for_plan)
    if plan is None:
        seed = _seed(for_plan)
        dealt = PermutationPlan.pool(sample, parts, settings, seed=seed, rng=for_plan)
        observed = sum(len(part) for part in parts)
        rate = None if counts is None else RateTest.of(observed, float(each.sum()))
        return Planned(parts, dealt, rate)
    plan.learner.scaled(parts)  # data that cannot be tested are refused before toys are made
    return Planned(parts, plan, None)


def plan_null(
    reference: Events,
    expected: float | Sequence[float],
    *,
    batches: int = 1,
    settings: Settings | None = None,
    simulator: Callable[[int, np.random.Generator], Floats] | None = None,
    pool: Events | None = None,
    rng: int | np.random.Generator | None = None,
) -> ReferencePlan:
    """Plan toys before there are data: what `plan_test` would plan, once they are.

    Raises
    ------
    InputError
        If toys could only be had by permuting the labels of reference and data.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=5000)
    >>> plan_null(x, 100.0, batches=2, rng=1).expected.tolist()
    [50.0, 50.0]
    """
    _, for_plan = random_generator("rng", rng).spawn(2)
    sample = as_sample(reference, "reference")
    each = _expected(expected, batches)
    settings = _checked(settings, simulator)
    plan = _plan_null(sample, each, settings, simulator, pool, False, for_plan)
    if plan is None:
        most = len(sample) / (POOL_WARN + ROWS_PER_EVENT)
        raise InputError(
            f"the reference {sample.name!r} has {len(sample)} rows: too few to set a pool aside "
            f"for {each.sum():g} expected events (at most about {most:.0f}); give a pool of "
            "further nominal events, or test data directly, with permuted labels"
        )
    return plan


def _checked(settings: Settings | None, simulator: object) -> Settings:
    """Refuse settings and simulators of another type; give the default settings for None."""
    if simulator is not None:
        check_callable("simulator", simulator, "a function of a number of events and a generator")
    if settings is None:
        return Settings()
    check_type("settings", settings, Settings, "Settings(...)")
    return settings


def _without_copies(
    data: Events | Sequence[Events], reference: Sample, drop: bool
) -> tuple[Events | Sequence[Events], Sample]:
    """Leave out copies of events, or warn of them."""
    given = _as_list(data)
    if given is None:
        matched = [match_events(cast(Events, data), reference, "data")]
    else:
        matched = match_batches(given, reference)
    copies = find_copies(matched, reference)
    if drop:
        matched, reference = copies.drop(matched, reference)
    else:
        copies.warn()
    return (matched[0] if given is None else matched), reference


def _batches(
    data: Events | Sequence[Events],
    reference: Sample,
    expected: float | Sequence[float] | None,
    count: int,
    rng: np.random.Generator,
) -> tuple[list[Sample], Floats | None]:
    """Give the batches, and N_i(R) of each or None."""
    count = whole_number("batches", count)
    given = _as_list(data)
    if given is not None and count not in (1, len(given)):
        raise InputError(f"{len(given)} batches were given, but batches = {count}; leave it out")
    count = count if given is None else len(given)
    counts = None if expected is None else _expected(expected, count)
    if given is not None:
        return match_batches(given, reference), counts
    whole = match_events(cast(Events, data), reference, "data")
    # Each event goes to batch i with probability π_i, as in the toys.
    shares = None if counts is None else counts / counts.sum()
    label = rng.choice(count, size=len(whole), p=shares)
    return [whole.take(label == i, name=f"batch {i + 1}") for i in range(count)], counts


def _as_list(data: Events | Sequence[Events]) -> list[Events] | None:
    """Tell a list of batches from a single array, which may come as lists of numbers."""
    if not isinstance(data, list | tuple) or not data:
        return None
    return list(data) if all(map(_is_batch, data)) else None


def _is_batch(events: object) -> bool:
    """Tell a sample, an array or a table from a number and from a row of numbers."""
    if isinstance(events, Sample | Mapping) or (isinstance(events, np.ndarray) and events.ndim):
        return True
    return any(hasattr(events, name) for name in ("__arrow_c_stream__", "__dataframe__", "layout"))


def _expected(expected: float | Sequence[float], count: int) -> Floats:
    if isinstance(expected, Sequence | np.ndarray) and np.ndim(expected):
        if len(expected) != count:
            raise InputError(
                f"expected has {len(expected)} numbers for {count} batches; give one number for "
                "all together, or one for each"
            )
        meaning = "the events that the nominal model predicts for each batch"
        return np.array(positive_numbers("expected", expected, count, meaning))
    meaning = "the events that the nominal model predicts for all batches together"
    return np.full(count, positive_number("expected", expected, meaning) / count)


def _plan_null(
    reference: Sample,
    expected: Floats,
    settings: Settings,
    simulator: Callable[[int, np.random.Generator], Floats] | None,
    pool: Events | None,
    shape_only: bool,
    rng: np.random.Generator,
) -> ReferencePlan | None:
    """Choose the best source of toys there is; None if only permutation is left."""
    total, split_from = float(expected.sum()), ""
    source: Source
    if simulator is not None:
        source, name = Simulator(simulator), "the simulator"
    elif pool is not None:
        source = Pool(match_events(pool, reference, "pool"))
        source.check(total)
        # The digest keeps a null file from being taken up with another pool.
        digest = source.sample.digest()[:8]
        name = f"the pool {source.sample.name!r} ({digest}) of {len(source.sample)} events"
    else:
        size, needed = rows_for_pool(reference, total), rows_to_split(reference, total)
        if len(reference) < needed:
            _refuse_weights(reference, total, size, needed)
            return None
        whole, split_from = len(reference), reference.digest()
        reference, aside = split_off_pool(reference, size, rng)
        source = Pool(aside)
        name = f"a pool of {size} events set aside from the {whole} of the reference"
    learner = Learner.prepare(reference, settings, expected=float(expected.mean()), rng=rng)
    return ReferencePlan(
        learner,
        source,
        name,
        expected,
        _seed(rng),
        shape_only=shape_only,
        split_from=split_from,
    )


def _refuse_weights(reference: Sample, total: float, size: int, needed: int) -> None:
    """Refuse a weighted reference that is too small to be split: labels cannot be permuted.

    Parameters
    ----------
    size, needed : rows that make a pool, and rows that make a pool and a reference.

    Raises
    ------
    InputError
        With the number of rows that would do.
    """
    if reference.weights is not None:
        raise InputError(
            f"the reference {reference.name!r} has weights, and its {len(reference)} rows (worth "
            f"{reference.effective_size:.0f} of equal weight) are too few to set a pool of "
            f"pseudo-experiments aside for {total:.0f} events. Give a reference of at least "
            f"{needed} rows with such weights, or {size} further nominal rows as a pool (`pool`; "
            "--pool FILE on the command line), or a simulator (`simulator`). Only an unweighted "
            "reference can do without, by permuted labels"
        )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))
