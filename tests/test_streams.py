"""Null streams: what the monitor would give, the same bits whoever works, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import FormatError, GofstreamWarning, InputError, SettingsError, StoppedError
from gofstream.execution import process_workers, thread_workers
from gofstream.inference.null import NullTable
from gofstream.inference.scale import FAMILIES
from gofstream.ratio.features import prepare
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.steps import stream_statistics
from gofstream.stream.streams import FITS_AT_ONCE, StreamPlan, null_streams
from gofstream.stream.track import Track
from gofstream.toys.sources import Pool, Simulator

Floats = NDArray[np.float64]


@pytest.mark.parametrize(("epoch", "window"), [(6, 3), (3, 5), (4, 1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
def test_streams_equal_the_track(
    epoch: int, window: int, weighted: bool, precision: str, tolerance: float
) -> None:
    """Two streams, fitted in parts that do not end with them; a batch is empty."""
    rng = np.random.default_rng(3)
    x = expo1d.reference(5000, rng)
    share = rng.uniform(0.5, 1.5, 5000) if weighted else None
    if share is not None:
        share /= share.sum()
    features = prepare(
        x, x[:60], 0.5, penalty=1e-5, expected=200.0, share=share, precision=precision
    )
    length = window + epoch
    bulk = expo1d.SIGNALS["bulk"]
    batches = [expo1d.toy(200.0, rng, bulk, 0.02 * (k % length)) for k in range(2 * length)]
    batches[window] = np.empty((0, 1))
    parts = [batches[:4], batches[4 : length + 1], batches[length + 1 :]]
    fits = [fit(features, part, np.full(len(part), 200.0)) for part in parts]
    fast = stream_statistics(features, fits, 200.0, epoch, window, 0.4)
    assert fast.shape == (2, len(FAMILIES), epoch)
    kept = features.coefficients(np.concatenate([done.z for done in fits], axis=1)).T
    for k in range(2):
        # The monitor's epoch begins when its window is full; so two tracks share the work.
        own = range(k * length, (k + 1) * length)
        both = Track.begin(features, epoch=epoch, window=window, shrink=0.4)
        alone = both
        for i in own:
            both, values = both.add(kept[i], 200.0, batches[i])
            step = i - own.start - window
            if step >= 0:
                alone, in_epoch = alone.add(kept[i], 200.0, batches[i])
                slow = np.concatenate([in_epoch.t[:2], values.t[2:]])
                assert fast[k, :, step] == pytest.approx(slow, rel=tolerance, abs=tolerance * 10)


def small_plan(stream: str = "stream A", **changes: object) -> StreamPlan:
    """Plan an epoch of five batches of 60 events after a window of two, at two widths."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(expo1d.reference(2000, rng), name="reference")
    settings = Settings(widths=(0.4, 1.5), n_centres=40)
    learner = Learner.prepare(reference, settings, expected=60.0, rng=rng)
    plan = StreamPlan(learner, Simulator(expo1d.reference), "expo1d", 1, stream, epoch=5, window=2)
    return replace(plan, **changes)


def made(plan: StreamPlan, path: Path, streams: int = 20, threads: int = 1) -> NullTable:
    """Make streams."""
    with thread_workers(threads) as executor:
        return null_streams(plan, streams, path, executor)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> NullTable:
    """Make the streams that all others must equal, with one thread."""
    return made(small_plan(), tmp_path_factory.mktemp("streams") / "a.null")


def test_a_table_of_streams(table: NullTable) -> None:
    """Families by name, after every step of the epoch; `next` of one batch is nothing."""
    assert table.t.shape == (20, 4, 2, 5)
    assert table.unconverged == 0
    assert np.isfinite(table.t).all()
    assert (table.statistic("window next", 3) == table.t[:, 3, :, 2]).all()
    assert (table.statistic("epoch next", 1) == 0).all()
    assert (table.statistic("epoch sat") > 0).all()
    with pytest.raises(InputError, match="no statistic is called 'all'; known: 'epoch sat'"):
        table.statistic("all")


def test_the_same_bits_whoever_works(table: NullTable, tmp_path: Path) -> None:
    """Threads, processes, and a run that was stopped and taken up."""
    assert made(small_plan(), tmp_path / "3.null", threads=3).t.tobytes() == table.t.tobytes()

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    path = tmp_path / "stopped.null"
    with process_workers(2) as executor:
        with pytest.raises(StoppedError):
            null_streams(small_plan(), 20, path, executor, progress=stop)
        again = null_streams(small_plan(), 20, path, executor)
    assert again.t.tobytes() == table.t.tobytes()


def test_streams_differ_by_name_and_number(table: NullTable, tmp_path: Path) -> None:
    """No two are alike, within A or between A and B."""
    other = made(small_plan("stream B"), tmp_path / "b.null").t
    assert len(np.unique(np.concatenate([table.t, other])[:, 0, 0, 4])) == 40


def test_a_long_stream_is_a_block(table: NullTable) -> None:
    """Short streams share one, as many as the solver takes at a time."""
    plan = small_plan()
    assert plan.toys_per_block == FITS_AT_ONCE // 7
    long = replace(plan, epoch=100, window=20)
    assert long.toys_per_block == 1
    sizes = []
    for width in plan.learner.widths:
        shared = long.shared(width)
        sizes.append(long.block(shared, width, 3)[0].shape)
        assert long.memory(shared)[0] == shared.nbytes
    assert sizes == [(1, 4, 100)] * 2


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seed": 2}, "seed"),
        ({"stream": "stream B"}, "toys of 'stream A', not of 'stream B'"),
        ({"window": 3}, "window was 2 batches, is 3"),
        ({"epoch": 6}, "expected"),
        ({"source_name": "pool"}, "come from pool"),
    ],
)
def test_another_plan_is_refused(changes: dict[str, object], what: str, tmp_path: Path) -> None:
    """The text says which input differs."""
    path = tmp_path / "a.null"
    made(small_plan(), path, 1)
    with pytest.raises(FormatError, match=f"made with other inputs: .*{what}"):
        made(small_plan(**changes), path, 1)


def pool_of(size: int) -> Pool:
    """Make a pool of nominal events."""
    rng = np.random.default_rng(5)
    return Pool(Sample.from_array(expo1d.reference(size, rng), name="pool"))


def test_a_pool_that_cannot_calibrate_an_epoch(tmp_path: Path) -> None:
    """(2 + 5) × 60 events: below 4200 refused, with what to do; below 12600 a warning."""
    path = tmp_path / "a.null"
    with pytest.raises(InputError, match=r"only 9\.9 times the 420 .*window of 2 and an epoch of"):
        made(small_plan(source=pool_of(4150)), path, 1)
    assert not path.exists()
    with pytest.warns(GofstreamWarning, match="safe"):
        made(small_plan(source=pool_of(12_000)), path, 1)
    assert made(small_plan(source=pool_of(12_600)), tmp_path / "b.null", 1).t.shape[0] == 1


def test_what_a_stream_cannot_be(tmp_path: Path) -> None:
    """Centres from data, no batches, toys from training rows."""
    plan = small_plan()
    settings = plan.learner.settings.changed(centres_from="pooled")
    waiting = replace(plan.learner, settings=settings, waiting=True)
    with pytest.raises(SettingsError, match="take centres from the data"):
        made(small_plan(learner=waiting), tmp_path / "a.null")
    for lengths in ({"epoch": 0}, {"window": 0}):
        with pytest.raises(SettingsError, match="both need one"):
            made(small_plan(**lengths), tmp_path / "a.null")
    rows = plan.learner.sample.values

    def resampled(n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.choice(rows, size=n))

    with pytest.raises(InputError, match="rows of the reference itself"):
        made(small_plan(source=Simulator(resampled)), tmp_path / "b.null")
