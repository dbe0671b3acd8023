"""A monitor with a calibrated boundary: it rings, says since when, and rings once per epoch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gofstream.datasets import expo1d
from gofstream.errors import FormatError
from gofstream.execution import thread_workers
from gofstream.inference.scale import FAMILIES
from gofstream.inference.sequential import Boundary
from gofstream.statistics import next_, sat
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.streams import StreamPlan, calibrate_alarms
from gofstream.toys.sources import Simulator
from gofstream_studies.chaos.judge import everything
from streams import NOMINAL, SAT, Offer, batch, learner, offer, opened

LENGTHS = {"epoch": 12, "window": 3, "checkpoint_every": 5}


@pytest.fixture(scope="module")
def boundary(tmp_path_factory: pytest.TempPathFactory) -> Boundary:
    """Calibrate for one false alarm in ten epochs, with 24 and 39 streams."""
    plan = StreamPlan(learner(), Simulator(expo1d.reference), "expo1d", 3, epoch=12, window=3)
    folder = tmp_path_factory.mktemp("streams")
    with thread_workers(1) as executor:
        return calibrate_alarms(plan, 0.1, folder, executor, streams_a=24, streams_b=39)


@cache
def stream(on: int, count: int = 24, signal: float = 0.5) -> tuple[Offer, ...]:
    """Make batches with a signal from number ``on``; some are skipped, or too large."""
    made = []
    for n in range(1, count + 1):
        large = n in (3, 7, 8)
        expected = 2 * NOMINAL if large else NOMINAL
        sample = batch(100 + n, expected, signal if n >= on else 0.0)
        made.append(Offer(f"b{n:02d}", None if n == 5 else sample, expected))
    return tuple(made)


def watched(monitor: Monitor, given: tuple[Offer, ...]) -> list[Acknowledged]:
    """Run a stream."""
    return [offer(monitor, each) for each in given]


@pytest.fixture(scope="module")
def run(boundary: Boundary, tmp_path_factory: pytest.TempPathFactory) -> list[Acknowledged]:
    """Give what a monitor says to a signal from batch 10 on."""
    path = tmp_path_factory.mktemp("run") / "run.gofs"
    with opened(path, SAT, boundary, **LENGTHS) as monitor:
        return watched(monitor, stream(10))


def test_a_signal_rings_and_is_dated(run: list[Acknowledged]) -> None:
    """From batch 10: soon after, dated by number in the ledger, to within one monitored batch."""
    first = next(done.alarm for done in run if done.alarm)
    assert 10 <= first.batch <= 13
    assert first.since in (6, 9, 10, 11)  # 7 and 8 are not monitored
    assert first.u > first.boundary
    assert first.acknowledged is None


def test_a_date_passes_over_what_is_not_monitored(boundary: Boundary, tmp_path: Path) -> None:
    """A weaker signal from batch 6 on: the stretch with the largest u, found offline."""
    given = stream(6, 12, 0.25)
    with opened(tmp_path / "run.gofs", SAT, boundary, **LENGTHS) as monitor:
        alarm = next(done.alarm for done in watched(monitor, given) if done.alarm)
    chosen = [n for n in (1, 2, 4, 6, 9, 10, 11, 12) if n <= alarm.batch]
    assert alarm.batch >= 9
    slow = np.empty((2, 2, len(chosen)))
    for length in range(1, len(chosen) + 1):
        samples = [given[n - 1].sample for n in chosen[-length:]]
        for k, width in enumerate(learner().widths):
            features = learner().features(width)
            ratios = learner().learn(features, samples, [NOMINAL] * length).ratios
            slow[:, k, length - 1] = sat(ratios), next_(ratios)
    date = boundary.date(slow)
    assert alarm.since == chosen[-date.batches]
    assert alarm.since < 9  # so that the stretch holds 7 and 8, which do not count


def test_an_epoch_rings_once(run: list[Acknowledged], boundary: Boundary) -> None:
    """By the rule, in a loop of its own: the first look above the boundary in every epoch."""
    monitored = [done for done in run if done.entry.state == "learnt"]
    assert len(monitored) == 20
    for start in range(0, len(monitored), 12):
        highest = [
            max(s.u for s in done.entry.statistics if s.u is not None)
            for done in monitored[start : start + 12]
        ]
        above = [k for k, u in enumerate(highest) if u > boundary.level]
        assert len(above) > 1
        rung = [k for k, done in enumerate(monitored[start : start + 12]) if done.alarm]
        assert rung == above[:1]
    second = [done.alarm for done in run if done.alarm][1]
    assert second.since >= 9  # the anomaly began before this epoch, and the date says so


def test_u_is_what_the_boundary_says(run: list[Acknowledged], boundary: Boundary) -> None:
    """By family, width and step; none where nothing can vary, nor for what is not monitored."""
    step = 0
    for done in run:
        found = {(s.family, s.width): s for s in done.entry.statistics}
        if done.entry.state != "learnt":
            assert all(s.u is None for s in found.values())
            continue
        step = step % 12 + 1
        t = np.array(
            [[found[f, k].t if (f, k) in found else np.nan for k in (0, 1)] for f in FAMILIES]
        )
        look = boundary.look(t, step)
        for j, family in enumerate(FAMILIES):
            for k in (0, 1):
                if (family, k) in found:
                    u = found[family, k].u
                    assert u == (None if np.isinf(look.u[j, k]) else look.u[j, k])
        assert (found["epoch next", 0].u is None) == (step == 1)
        if done.alarm:
            told = (done.alarm.family, done.alarm.width, done.alarm.u)
            assert told == (look.family, look.width, look.highest)


def test_interrupted_around_an_alarm(
    boundary: Boundary, run: list[Acknowledged], tmp_path: Path
) -> None:
    """Opened anew before every batch: the same alarms, dates and statistics."""
    path = tmp_path / "run.gofs"
    read = Boundary.from_json(boundary.to_json())
    again = []
    for each in stream(10):
        with opened(path, SAT, read, **LENGTHS) as monitor:
            again.append(offer(monitor, each))
    assert again == run
    assert everything(path)["alarms"] == [done.alarm for done in run if done.alarm]


def test_nothing_alarms_without_a_boundary(tmp_path: Path) -> None:
    """Statistics are there, u and alarms are not."""
    with opened(tmp_path / "run.gofs", **LENGTHS) as monitor:
        for done in watched(monitor, stream(1, 6)):
            assert done.alarm is None
            assert all(s.u is None for s in done.entry.statistics)


def test_no_alarm_without_a_signal(boundary: Boundary, tmp_path: Path) -> None:
    """An ordinary stream of this seed stays below the boundary."""
    with opened(tmp_path / "run.gofs", SAT, boundary, **LENGTHS) as monitor:
        assert not any(done.alarm for done in watched(monitor, stream(99, 12)))


def test_another_boundary_is_refused(boundary: Boundary, tmp_path: Path) -> None:
    """One of another reference, exposure or length; and another than the run was begun with."""
    path = tmp_path / "run.gofs"
    for field, more in (("expected", {"epoch": 11}), ("window", {"window": 4})):
        with pytest.raises(FormatError, match=f"alarm boundary was made with another {field}"):
            opened(path, SAT, boundary, **LENGTHS | more)
    for key in ("reference", "centres", "nominal_expected"):
        other = replace(boundary, about={**boundary.about, key: "other"})
        with pytest.raises(FormatError, match=f"alarm boundary was made with another {key}"):
            opened(path, SAT, other, **LENGTHS)
    assert not path.exists()
    opened(path, SAT, boundary, **LENGTHS).close()
    for other in (None, replace(boundary, level=boundary.level + 1)):
        with pytest.raises(FormatError, match="made with another boundary"):
            opened(path, SAT, other, **LENGTHS)


def test_status(boundary: Boundary, run: list[Acknowledged], tmp_path: Path) -> None:
    """What the page and the terminal show, from the monitor as from a reader."""
    with opened(tmp_path / "run.gofs", SAT, boundary, **LENGTHS) as monitor:
        empty = monitor.status()
        assert (empty.ledger.latest, empty.step, empty.highest, empty.e_value) == (
            None,
            0,
            None,
            None,
        )
        assert not empty.above
        watched(monitor, stream(10))
        found = monitor.status()
        monitor.store.acknowledge(found.open_alarms[0].batch, by="shift", at=1.0)
        seen = monitor.status()
    last = run[-1].entry
    assert found.ledger.latest == found.ledger.monitored == last
    assert found.step == 20 - 12
    assert found.highest is not None
    assert found.highest.u == max(s.u for s in last.statistics if s.u is not None)
    assert found.facts.level == boundary.level
    assert found.above
    following = [s.t for s in last.statistics if s.family == "epoch next"]
    assert found.e_value is not None
    assert found.e_value.value == pytest.approx(np.mean(np.exp(np.array(following) / 2)))
    assert found.e_value.rows_per_event == pytest.approx(4000 / (12 * NOMINAL))
    assert not found.e_value.trusted
    assert len(found.open_alarms) == len(seen.open_alarms) + 1 == 2
    assert found.ledger.states == {"learnt": 20, "unmonitored": 3, "skipped": 1}
    events = sum(done.entry.events for done in run)
    assert (found.facts.strategy, found.storage.events, found.storage.all_events) == (
        "sat",
        0,
        8 * events,
    )
    assert found.storage.models > 0
    # Two widths: the sum on the reference, and of each of 12 batches a model and three numbers.
    ranks = [learner().features(width).rank for width in learner().widths]
    assert found.storage.sums == sum(8 * (4000 + 12 * (rank + 3) + 4) for rank in ranks)
