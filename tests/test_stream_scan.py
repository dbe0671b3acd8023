"""The scan of a stream: the sums of an epoch and of a run, whatever is interrupted; old stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from gofstream.errors import FormatError, InputError, MemoryBudgetError
from gofstream.report.run import standing
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.stream import monitor as monitor_module
from gofstream.stream import schema
from gofstream.stream.reader import Reader
from gofstream.stream.rows import EPOCH_SCAN, EVIDENCE, RUN_SCAN, Entry, Statistic
from gofstream.stream.scanning import Scans
from gofstream.stream.store import Store
from gofstream.stream.verify import verify
from gofstream_studies.chaos.judge import everything
from scans import dense
from streams import EPOCH, NOMINAL, Offer, batch, grid, learner, offer, offers, opened, scanned

Floats = NDArray[np.float64]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the name of a store that is not there yet."""
    return tmp_path / "run.gofs"


def by_definition(own: ScanGrid, given: list[Offer], drift: Floats | None) -> float:
    """Log Σ w e^ℓ with ℓ = Σ log(1 + α k) - N α E[k], window by window, over all events at once."""
    assert drift is not None
    events = np.concatenate([o.sample.values for o in given if o.sample is not None])
    x = learner().scaling.apply(Sample.from_array(events))
    expected = sum(NOMINAL if o.expected is None else o.expected for o in given)
    gained = np.array([np.log1p(alpha * dense(own.windows, x)).sum(axis=0) for alpha in own.alpha])
    ratios = gained - expected * drift + own.log_weight
    return float(logsumexp(ratios[np.isfinite(ratios)]))


def test_statistics_equal_the_definition(path: Path) -> None:
    """After every batch: t of epoch and run, and the e-value, from all events at once."""
    own, run, watched = grid(EPOCH), [], []
    assert own.expected == pytest.approx(1.05 * EPOCH * NOMINAL)
    with opened(path) as monitor:
        for given in offers():
            entry = offer(monitor, given).entry
            found = {s.family: s.t for s in entry.statistics}
            if given.sample is None:
                assert not found
                continue
            run.append(given)
            watched += [given] if entry.state == "learnt" else []
            step = (len(watched) - 1) % EPOCH + 1
            one = one_pass(watched[-step:])
            assert found[EPOCH_SCAN] == pytest.approx(one.t, abs=1e-9)
            assert found[EVIDENCE] == pytest.approx(one.log_e, abs=1e-9)
            assert found[RUN_SCAN] == pytest.approx(one_pass(run).t, abs=1e-9)
            if len(run) in (1, 9):  # slow
                epoch = watched[-step:]
                assert found[EPOCH_SCAN] / 2 == pytest.approx(by_definition(own, epoch, own.drift))
                assert found[EVIDENCE] == pytest.approx(
                    by_definition(own, epoch, own.safe_drift) + np.log(0.5)
                )
                assert found[RUN_SCAN] / 2 == pytest.approx(by_definition(own, run, own.drift))
    assert len(watched) == 12


def one_pass(given: list[Offer]) -> ScanSummary:
    """Scan all events at once."""
    events = np.concatenate([o.sample.values for o in given if o.sample is not None])
    expected = sum(NOMINAL if o.expected is None else o.expected for o in given)
    x = learner().scaling.apply(Sample.from_array(events))
    return ScanSummary.empty(grid(EPOCH)).add(x, expected)


def test_a_monitor_scans_what_it_learns(path: Path) -> None:
    """`learn` gives the scan of a batch alone."""
    given = offers()[0]
    assert given.sample is not None
    with opened(path) as monitor:
        taught = monitor.learn(given.name, given.sample, given.expected, 1.0)
    assert taught.scanned is not None
    assert taught.scanned.to_bytes() == scanned(given, EPOCH).to_bytes()


def test_the_same_bits_after_any_interruption(tmp_path: Path) -> None:
    """Closed and opened after every batch, or never: the same sums and windows."""
    once, often = tmp_path / "once.gofs", tmp_path / "often.gofs"
    with opened(once) as monitor:
        for given in offers():
            offer(monitor, given)
    for given in offers():
        with opened(often) as monitor:
            offer(monitor, given)
    assert everything(once) == everything(often)
    with Reader(once) as reader:
        kept = reader.scan()
    assert kept is not None
    assert ScanSummary.from_bytes(kept.run, grid(EPOCH)).batches == 14
    assert ScanSummary.from_bytes(kept.epoch, grid(EPOCH)).batches == 2  # 12 watched, epochs of 5


def test_windows_hold_what_they_say(path: Path) -> None:
    """Events seen are those of the epoch in the printed range; an older store has none."""
    rng = np.random.default_rng(4)
    batches = [np.append(batch(k).values, rng.normal(3.0, 0.1, 12)) for k in range(4)]
    with opened(path) as monitor:
        for number, values in enumerate(batches[:3]):
            monitor.apply(monitor.learn(f"b{number}", Sample.from_array(values), None, 0.0))
    with opened(path) as monitor:  # again, from what the store keeps
        monitor.apply(monitor.learn("b3", Sample.from_array(batches[3]), None, 0.0))
        windows = monitor.status().windows
        scans = monitor.position.scans
    assert windows
    for window in windows:
        (place,) = window.places
        low, high = place.ends
        assert not place.outside
        x, known = np.concatenate(batches), learner().sample.values
        assert window.observed == np.count_nonzero((x >= low) & (x <= high))
        share = np.mean((known >= low) & (known <= high))
        assert window.expected == pytest.approx(4 * NOMINAL * share)
    assert scans is not None
    older = replace(scans.epoch, regions=None)
    assert "regions" not in str(older.to_bytes()[:300])
    again = ScanSummary.from_bytes(older.to_bytes(), scans.grid)
    assert again.regions is None
    assert replace(scans, epoch=again).row().windows == "[]"
    damaged = replace(scans.epoch, regions=np.zeros(3, np.int64))
    with pytest.raises(FormatError, match="contradicts itself"):
        ScanSummary.from_bytes(damaged.to_bytes(), scans.grid)


def test_an_anomaly_is_told_with_its_place(path: Path) -> None:
    """The status has the e-value of the epoch and its windows; a peak of 25 events around 6."""
    rng = np.random.default_rng(1)
    with opened(path) as monitor:
        empty = monitor.status()
        assert (empty.evidence, empty.windows, empty.storage.scan) == (None, (), 0)
        peak = np.append(batch(1).values, rng.normal(6.0, 0.1, 25))[:, None]
        done = monitor.apply(monitor.learn("b1", Sample.from_array(peak), None, 0.0))
        found = monitor.status()
    with Reader(path) as reader:
        kept = reader.scan()
    assert kept is not None
    assert found.evidence == {s.family: s.t for s in done.entry.statistics}[EVIDENCE] > np.log(1e6)
    assert found.storage.scan == len(kept.epoch) + len(kept.run)
    best = found.windows[0]
    assert best.kind == "excess"
    assert best.observed >= 25
    low = best.places[0].low
    assert low is not None
    assert 5.0 < low < 6.0
    text = standing(found)
    assert "e-value of the scan: " in text
    assert f"scan: {best}" in text


def test_batches_that_may_be_empty_have_no_e_value() -> None:
    """Empty ones are refused, so those that are scanned hold too many events on average."""
    for nominal, length, promised in ((12.0, 100, True), (11.0, 100, False), (2.0, 5, False)):
        small = replace(learner(), expected=nominal)
        scans = Scans.begin(small, length)
        events = np.random.default_rng(1).exponential(size=(12, 1))
        found = scans.add(ScanSummary.empty(scans.grid).add(events, nominal), watched=True)
        told = {each.family for each in found.statistics()}
        assert told == {RUN_SCAN, EPOCH_SCAN} | ({EVIDENCE} if promised else set())


def older(path: Path, monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Leave a run as a gofstream without scan did: version 1, and nothing about a scan."""
    about = monitor_module._about
    with monkeypatch.context() as before:
        before.setattr(schema, "STEPS", schema.STEPS[:1])
        before.setattr(
            monitor_module,
            "_about",
            lambda *given: {k: v for k, v in about(*given).items() if k != "scan"},
        )
        with opened(path) as monitor:
            for given in offers()[:batches]:
                offer(monitor, given)


def test_a_run_from_before_the_scan_goes_on_without(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables are brought up to date; its statistics are those of an uninterrupted run."""
    older(path, monkeypatch, 6)
    with pytest.raises(FormatError, match="version 1, older than 2"):
        Reader(path)
    with opened(path) as monitor:
        assert monitor.position.scans is None
        for given in offers()[6:]:
            offer(monitor, given)
        assert monitor.status().evidence is None
    new = tmp_path / "new.gofs"
    with opened(new) as monitor:
        for given in offers():
            offer(monitor, given)
    with Reader(path) as reader, Reader(new) as other:
        assert verify(reader) == len(offers())
        assert reader.scan() is None
        for entry, full in zip(reader.entries(), other.entries(), strict=True):
            assert set(entry.statistics) == {s for s in full.statistics if "scan" not in s.family}


def test_another_rule_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose scan was made for other epochs or by another rule; damaged sums."""
    with opened(path) as monitor:
        offer(monitor, offers()[0])
    with monkeypatch.context() as changed:
        changed.setattr(
            monitor_module, "about_scan", lambda *given: {"rule": 99, "expected": 262.5}
        )
        with pytest.raises(FormatError, match="made with another scan"):
            opened(path)
    with opened(path) as monitor:  # the same run goes on
        assert offer(monitor, offers()[1]).new


def test_sums_and_statistics_go_together(path: Path) -> None:
    """A store takes neither without the other."""
    with opened(path) as monitor:
        offer(monitor, offers()[0])
        assert monitor.position.scans is not None
        row = monitor.position.scans.row()
    entry = Entry(2, "b", "d", 0.0, 1, 1.0)
    with Store(path) as store:
        with pytest.raises(InputError, match="both the sums of a scan and the statistic"):
            store.append(entry, scan=row)
        with pytest.raises(InputError, match="or neither"):
            store.append(Entry(2, "b", "d", 0.0, 1, 1.0, statistics=(Statistic(RUN_SCAN, 0, 1.0),)))
        assert verify(store) == 1


def test_a_grid_beyond_the_budget_is_refused() -> None:
    """With the bytes that it takes and works with, before a run begins."""
    made = grid(EPOCH)
    needed = made.nbytes + made.work_bytes
    for memory, fits in ((needed, True), (needed - 1, False)):
        own = learner().settings.model_copy(update={"memory": memory})
        small = replace(learner(), settings=own)
        if fits:
            assert Scans.begin(small, EPOCH).grid.nbytes == made.nbytes
        else:
            with pytest.raises(MemoryBudgetError, match="the scan's grid") as refused:
                Scans.begin(small, EPOCH)
            assert (refused.value.needed, refused.value.budget) == (needed, memory)
