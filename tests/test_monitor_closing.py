"""The closing test and replay of a stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gofstream.datasets import expo1d
from gofstream.errors import FormatError, InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullTable
from gofstream.statistics import STATISTICS, all_, one
from gofstream.stream.closing import closed_epochs, judge
from gofstream.stream.reader import Reader
from gofstream.stream.replay import Replayed, replay
from gofstream.stream.rows import SCANS, Retention
from gofstream.stream.store import Store
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator
from streams import EPOCH, NOMINAL, SAT, Offer, batch, learner, offer, offers, opened


@pytest.fixture(scope="module")
def null(tmp_path_factory: pytest.TempPathFactory) -> NullTable:
    """Make toys of an epoch."""
    source, expected = Simulator(expo1d.reference), np.full(EPOCH, NOMINAL)
    plan = ReferencePlan(learner(), source, "expo1d", expected, seed=5)
    with thread_workers(1) as executor:
        path = tmp_path_factory.mktemp("null") / "toys.null"
        return calibrate(plan, 40, path, executor).table


def stored(path: Path, retention: Retention, keep_models: bool = True) -> Reader:
    """Run the usual stream, of whose monitored batches the first five are an epoch."""
    with opened(path, retention, keep_models=keep_models) as monitor:
        for each in offers():
            offer(monitor, each)
    return Reader(path)


@pytest.mark.parametrize("retention", [Retention("all"), Retention("one", batches=5)])
def test_closing_equals_the_offline_statistics(
    retention: Retention, null: NullTable, tmp_path: Path
) -> None:
    """`all` and `one` of an epoch, to 1e-5; p by the ranks among the toys."""
    with stored(tmp_path / "run.gofs", retention) as reader:
        epochs = closed_epochs(reader)
        assert epochs == [(1, 7), (8, 14)]
        first, last = epochs[1]
        found = judge(reader, learner(), null, 0.05, first=first, last=last)
    assert found.statistic == retention.strategy
    assert found.learnt == (8, 11, 12, 13, 14)
    chosen = [offers()[n - 1] for n in found.learnt]
    samples = [each.sample for each in chosen if each.sample]
    expected = [NOMINAL if each.expected is None else each.expected for each in chosen]
    t = []
    for width in learner().widths:
        ratios = learner().learn(learner().features(width), samples, expected).ratios
        t.append(all_(ratios) if retention.strategy == "all" else one(ratios, [4]))
    assert found.tested == ((8, 11, 12, 13, 14) if retention.strategy == "all" else (14,))
    assert found.result.t == pytest.approx(t, rel=1e-5, abs=1e-5)
    toys = null.t[:, list(STATISTICS).index(retention.strategy), :, EPOCH - 1]
    assert found.result.combined.p == combined_p(np.array(found.result.t), toys, "min")
    assert found.anomalous == (found.result.combined.p <= 0.05)


def test_closing_sees_a_signal(null: NullTable, tmp_path: Path) -> None:
    """Half as many signal events as nominal ones: the smallest p that 40 toys and a law give."""
    path = tmp_path / "run.gofs"
    with opened(path, Retention("all"), keep_models=True) as monitor:
        for n in range(EPOCH):
            offer(monitor, Offer(f"b{n}", batch(n, signal=0.5)))
        assert judge(monitor.store, learner(), null, 0.05).anomalous


def test_what_closing_needs(null: NullTable, tmp_path: Path) -> None:
    """Events, models, a null of as many batches and of the same reference."""
    for retention, keep_models, message in (
        (SAT, True, "keeps no events"),
        (Retention("all"), False, "events, but no models"),
    ):
        path = tmp_path / f"{retention.strategy}.gofs"
        reader = stored(path, retention, keep_models)
        with reader, pytest.raises(InputError, match=message):
            judge(reader, learner(), null, 0.05)
    with stored(tmp_path / "one.gofs", Retention("one", batches=1)) as reader:
        with pytest.raises(InputError, match="kept no events of the batches"):
            judge(reader, learner(), null, 0.05, first=1, last=7)
        with pytest.raises(FormatError, match="the null was made with another expected"):
            judge(reader, learner(), null, 0.05)
        other = replace(learner(), penalty=1e-5)
        with pytest.raises(FormatError, match=r"one\.gofs was made with another penalty"):
            judge(reader, other, null, 0.05)


def test_replay(tmp_path: Path) -> None:
    """Every statistic follows from models and scores, to the bit; the scan's of the last batch."""
    seen = []
    with stored(tmp_path / "run.gofs", SAT) as reader:
        found = replay(reader, learner(), progress=lambda *now: seen.append(now))
        learnt = [entry.statistics for entry in reader.entries() if entry.statistics]
        fitted = [s for statistics in learnt for s in statistics if s.family not in SCANS]
        scanned = [s for s in learnt[-1] if s.family in SCANS]
        assert len(scanned) == len(SCANS)
        assert found == Replayed(14, len(fitted) + len(scanned))
        other = replace(learner(), penalty=1e-5)
        with pytest.raises(FormatError, match="made with another penalty"):
            replay(reader, other)
    assert seen[-1] == (16, 16)
    reader = stored(tmp_path / "dropped.gofs", SAT, keep_models=False)
    with reader, pytest.raises(FormatError, match="does not keep models"):
        replay(reader, learner())


@pytest.mark.parametrize(("number", "family"), [(6, "epoch next"), (16, "run scan")])
def test_replay_notices_one_bit(number: int, family: str, tmp_path: Path) -> None:
    """In a statistic that was written in good order, but is not what was learnt."""
    path = tmp_path / "other.gofs"
    with stored(tmp_path / "run.gofs", SAT) as reader:
        about = {key: value for key, value in reader.about().items() if key != "retention"}
        with Store.create(path, about, SAT) as store:
            for entry in reader.entries():
                n, changed = entry.number, entry
                if n == number:
                    place = [s.family for s in entry.statistics].index(family)
                    statistics = list(entry.statistics)
                    t = np.nextafter(statistics[place].t, np.inf)
                    statistics[place] = statistics[place]._replace(t=t)
                    changed = replace(entry, statistics=tuple(statistics))
                sums = reader.scan() if entry.statistics else None
                store.append(changed, models=reader.models(n), scores=reader.scores(n), scan=sums)
    with (
        Reader(path) as reader,
        pytest.raises(FormatError, match=f"batch {number}, {family} at width 0"),
    ):
        replay(reader, learner())
