"""The monitor: the definitions on any stream, the same bits after any interruption, refusals."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gofstream.errors import (
    ColumnError,
    EmptyError,
    FormatError,
    IdentityError,
    InputError,
    RangeError,
    SettingsError,
    StoppedError,
    WeightError,
)
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatios
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import next_, sat
from gofstream.stream import reader as reader_module
from gofstream.stream.monitor import Monitor
from gofstream.stream.order import Order
from gofstream.stream.position import refuse_other
from gofstream.stream.reader import Reader
from gofstream.stream.rows import SCANS, Entry, Retention
from gofstream.stream.sources import Intake, Offers
from gofstream.stream.store import Store
from gofstream.stream.verify import verify
from gofstream.stream.watching import Watching
from gofstream_studies.chaos.judge import everything
from streams import EPOCH, EVERY, NOMINAL, SAT, WINDOW, Offer, batch, learner, offer, offers, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the name of a store that is not there yet."""
    return tmp_path / "run.gofs"


def filled(path: Path, given: tuple[Offer, ...] = offers(), **more: Any) -> dict[str, Any]:
    """Run a stream in one go, and read everything."""
    with opened(path, **more) as monitor:
        for each in given:
            assert offer(monitor, each).new
    return everything(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Give what a run without interruption leaves."""
    return filled(tmp_path_factory.mktemp("whole") / "run.gofs")


def learnt(chosen: list[Offer], width: float) -> LogRatios:
    """Learn batches offline, all at once."""
    expected = [NOMINAL if o.expected is None else o.expected for o in chosen]
    samples = [o.sample for o in chosen if o.sample is not None]
    return learner().learn(learner().features(width), samples, expected).ratios


def test_statistics_equal_the_offline_ones(whole: dict[str, Any]) -> None:
    """Epoch, window and run after every batch, to 1e-5, with gaps and unequal exposures."""
    run: list[Offer] = []
    watched: list[Offer] = []
    finished = dict.fromkeys(range(2), 0.0)
    for entry, given in zip(whole["entries"], offers(), strict=True):
        if given.sample is None:
            assert entry.statistics == ()
            continue
        run.append(given)
        watched += [given] if entry.state == "learnt" else []
        found = {(s.family, s.width): s.t for s in entry.statistics if s.family not in SCANS}
        assert all(s.u is None for s in entry.statistics)
        step = (len(watched) - 1) % EPOCH + 1
        for k, width in enumerate(learner().widths):
            epoch = learnt(watched[-step:], width)
            slow = {
                "epoch sat": sat(epoch),
                "epoch next": next_(epoch),
                "run sat": sat(learnt(run, width)),
                "run next": finished[k] + next_(epoch),
            }
            if len(watched) >= WINDOW:
                window = learnt(watched[-WINDOW:], width)
                slow |= {"window sat": sat(window), "window next": next_(window)}
            assert {family for family, width in found if width == k} == set(slow)
            for family, t in slow.items():
                assert found[family, k] == pytest.approx(t, rel=1e-5, abs=1e-5)
            if step == EPOCH and entry.state == "learnt":
                finished[k] = found["run next", k]
    assert len(watched) == 12


def test_states_and_notes(whole: dict[str, Any]) -> None:
    """What became of each, and why; models only of the batches after the checkpoint."""
    entries = {entry.name: entry for entry in whole["entries"]}
    assert [n for n, e in entries.items() if e.state == "unmonitored"] == ["b02", "b10"]
    assert "exposure +50.0% off" in entries["b02"].note
    assert entries["b03"].state == "learnt"  # 4 % off
    assert (entries["b04"].state, entries["b04"].events) == ("skipped", 0)
    assert (entries["b09"].state, entries["b09"].note) == ("quarantined", "no such column")
    assert entries["b05"].digest == batch(5).digest()
    assert whole["checkpoint"].batch == 14  # due at 4 and 9, where nothing was learnt: 5, 10, 14
    assert [bool(models) for models in whole["models"]] == [False] * 14 + [True] * 2
    assert whole["about"]["columns"] == ["x"]
    assert whole["about"]["boundary"] is None


@pytest.mark.parametrize("retention", [SAT, Retention("all"), Retention("one", batches=2)])
def test_taken_up_again_at_every_position(path: Path, retention: Retention) -> None:
    """All that is kept, to the last bit: statistics, models, scores, events, checkpoints."""
    uninterrupted = filled(path, retention=retention)
    kept = {"all": [n for n in range(1, 17) if n not in (4, 9)], "one": [15, 16], "sat": []}
    assert uninterrupted["kept"] == kept[retention.strategy]
    for position in range(16) if retention is SAT else (6, 13):
        again = path.with_name(f"{position}.gofs")
        for part in (offers()[:position], offers()[position:]):
            with opened(again, retention) as monitor:
                for each in part:
                    assert offer(monitor, each).new
        assert everything(again) == uninterrupted


def test_other_checkpoints_and_kept_models_change_no_statistic(
    path: Path, whole: dict[str, Any]
) -> None:
    """Opened anew for every batch, with a checkpoint after each, or none at all."""
    for every, keep in ((1, False), (100, True)):
        other = path.with_name(f"{every}.gofs")
        for each in offers():
            with opened(other, checkpoint_every=every, keep_models=keep) as monitor:
                offer(monitor, each)
        found = everything(other)
        assert found["entries"] == whole["entries"]
        kept = [bool(models) for models in found["models"]]
        learnt = [entry.state in ("learnt", "unmonitored") for entry in found["entries"]]
        assert kept == ([False] * 16 if every == 1 else learnt)


def test_learnt_at_once_and_applied_in_order(path: Path, whole: dict[str, Any]) -> None:
    """Threads for batches and others for widths give the same bits; nothing given is changed."""
    before = [each.sample.digest() for each in offers() if each.sample]
    with (
        ThreadPoolExecutor(2) as widths,
        ThreadPoolExecutor(3) as batches,
        opened(path, executor=widths) as monitor,
    ):
        taught = {
            each.name: batches.submit(
                monitor.learn, each.name, each.sample, each.expected, float(each.name[1:])
            )
            for each in reversed(offers())
            if each.sample
        }
        for each in offers():
            if each.sample:
                assert monitor.apply(taught[each.name].result()).new
            else:
                offer(monitor, each)
    assert everything(path) == whole
    assert before == [each.sample.digest() for each in offers() if each.sample]


def test_offered_again(path: Path) -> None:
    """Told so, and counted once; another batch under the name is refused, and so is a late one."""
    with opened(path) as monitor:
        first = [offer(monitor, each) for each in offers()[:9]]
        before, position = everything(path), monitor.position
        for given, there in zip(offers()[:9], first, strict=True):
            again = offer(monitor, given)
            assert not again.new
            assert again.alarm is None
            assert again.entry == there.entry
        for name, state in (("b03", "learnt"), ("b04", "skipped")):
            with pytest.raises(IdentityError, match=f"another batch called '{name}'.*{state}"):
                offer(monitor, Offer(name, batch(99)))
        assert monitor.skip("b03", 0.0).entry == first[2].entry
        assert everything(path) == before
        assert monitor.position is position


def test_a_refused_batch_keeps_no_name_from_a_good_one(path: Path) -> None:
    """Nor does it get into the way of one that is called like it, in any order."""
    with opened(path) as monitor:
        assert offer(monitor, Offer("b1", None, why="junk")).entry.state == "quarantined"
        learnt = offer(monitor, Offer("b1", batch(1)))
        assert (learnt.entry.name, learnt.entry.state) == ("b1 (again)", "learnt")
        again = offer(monitor, Offer("b1", batch(1)))
        assert (again.entry, again.new) == (learnt.entry, False)
        # "a", "a (again)", and another "a": each says what became of it, and nothing is raised.
        sample = batch(2)
        apart = [monitor.learn(name, sample, None, 0.0) for name in ("a", "a (again)")]
        assert [monitor.apply(each).entry.name for each in apart] == ["a", "a (again)"]
        refused = monitor.quarantine("a", 0.0, "another batch has its name")
        assert (refused.entry.name, refused.new) == ("a (again 2)", True)
        assert not monitor.quarantine("a", 0.0, "another batch has its name").new


def test_a_run_reads_its_ledger_once_when_it_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its statistics, for the order of names and for the parts of merged batches."""
    with opened(path) as monitor:
        for each in offers():
            offer(monitor, each)
    calls, entry = list[int](), Reader.entry

    def counted(self: Reader, batch: int) -> Entry:
        calls.append(batch)
        return entry(self, batch)

    monkeypatch.setattr(Reader, "entry", counted)
    with ThreadPoolExecutor(1) as executor, opened(path) as monitor:
        names = monitor.learnt_names.names
        Watching(monitor, Intake(Offers(), Order(0.0, names)), executor)
    refused = ("b04", "b09")
    assert names == tuple(each.name for each in offers() if each.name not in refused)
    assert len(calls) <= len(offers()) + 2


def test_a_verdict_hashes_no_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal asks for one up to four times a second; it tells the same bytes as before."""
    with opened(path) as monitor:
        for each in offers():
            offer(monitor, each)
        checkpoint = monitor.store.checkpoint()
        assert checkpoint is not None
        size = sum(map(len, checkpoint.arrays.values()))
        hashed = list[int]()

        def counted(data: bytes) -> bytes:
            hashed.append(len(data))
            return hashlib.sha256(data).digest()

        monkeypatch.setattr(reader_module, "sha256", counted)
        assert monitor.status().storage.sums == size
        assert sum(hashed) == 0


def test_quarantine_under_any_name(path: Path) -> None:
    """A name that is taken or that no row can hold is no reason not to say what happened."""
    with opened(path) as monitor:
        offer(monitor, offers()[0])
        monitor.skip("b02", 0.0)
        for name in ("b01", "b02", "bad", "a\nb", "x" * 300, ""):
            assert monitor.quarantine(name, 0.0, "why").new
            assert not monitor.quarantine(name, 1.0, "why").new
        names = [entry.name for entry in monitor.store.entries(3)]
    long = f"{'x' * 184}… ({hashlib.sha256(b'x' * 300).hexdigest()[:12]})"
    assert names == ["b01 (again)", "b02 (again)", "bad", r"a\nb", long, "no name"]


@pytest.mark.parametrize(
    ("name", "sample", "expected", "error", "message"),
    [
        ("b", Sample.from_array(np.empty((0, 1))), None, EmptyError, "'b' has no events"),
        ("b", Sample.from_array([1.0], ["y"]), None, ColumnError, "sample 'b' lacks .*'x'"),
        ("b", Sample.from_array([1.0], weights=[2.0]), None, WeightError, "sample 'b'"),
        ("b", Sample.from_array([1.0, 1e30]), None, RangeError, "'b', column 'x'.* row 1"),
        ("b", batch(1), 0.0, InputError, "positive and finite"),
        ("a\nb", batch(1), None, InputError, "printable"),
    ],
)
def test_bad_batches(
    path: Path,
    name: str,
    sample: Sample,
    expected: float | None,
    error: type[Exception],
    message: str,
) -> None:
    """Refused by `learn`, with batch, column and row."""
    with opened(path) as monitor:
        with pytest.raises(error, match=message):
            monitor.learn(name, sample, expected, 0.0)
        assert monitor.position.number == 0


def test_another_run_is_refused(path: Path) -> None:
    """It says which field differs; nothing is changed."""
    before = filled(path, offers()[:3])
    rng = np.random.default_rng(3)
    reference = Sample.from_array(rng.exponential(size=3000))
    other = Learner.prepare(reference, learner().settings, expected=NOMINAL, rng=rng)
    longer = replace(learner(), expected=90.0)
    one_step = replace(learner(), settings=learner().settings.changed(one_step=True))
    for given, more, field in (
        (other, {}, "reference"),
        (longer, {}, "nominal_expected"),
        (one_step, {}, "settings"),
        (learner(), {"epoch": 6}, "epoch"),
        (learner(), {"window": 3}, "window"),
        (learner(), {"keep_models": True}, "keep_models"),
        (learner(), {"checkpoint_every": 5}, "checkpoint_every"),
    ):
        lengths = {"epoch": EPOCH, "window": WINDOW, "checkpoint_every": EVERY} | more
        with pytest.raises(FormatError, match=f"made with another {field}:"):
            Monitor.open(path, given, None, SAT, **lengths)
    with pytest.raises(FormatError, match="another retention"):
        opened(path, Retention("all"))
    assert everything(path) == before


def test_what_a_monitor_cannot_be(path: Path) -> None:
    """Refused before a store is made; a learner that waits has no features."""
    settings = Settings(widths=(0.4, 1.5), n_centres=30, centres_from="pooled")
    waiting = replace(learner(), settings=settings, waiting=True)
    with pytest.raises(SettingsError, match="take centres from the data"):
        Monitor.open(path, waiting, None, SAT)
    for lengths in ({"epoch": 0}, {"window": 0}, {"checkpoint_every": 0}):
        with pytest.raises(SettingsError, match="need"):
            opened(path, **lengths)
    assert not path.exists()


def test_a_full_disk(path: Path, whole: dict[str, Any]) -> None:
    """Told; the monitor is as it was, and goes on when there is room, to the same bits."""
    with opened(path) as monitor:
        for number, each in enumerate(offers(), start=1):
            if number in (3, 8, 9):
                position = monitor.position
                # Pages that a checkpoint has freed would be filled first.
                monitor.store._db.execute("VACUUM")
                pages = monitor.store._db.execute("PRAGMA page_count").fetchone()[0]
                monitor.store._db.execute(f"PRAGMA max_page_count = {pages}")
                filler = Entry(number, "filler", "", 0.0, 0, 0.0, "skipped", "x" * 9000)
                with pytest.raises(StoppedError, match="make room"):
                    monitor.store.append(filler)
                if each.sample:
                    with pytest.raises(StoppedError, match="make room"):
                        offer(monitor, each)
                assert monitor.position is position
                monitor.store._db.execute("PRAGMA max_page_count = 1000000")
            assert offer(monitor, each).entry.number == number
    assert everything(path) == whole


def test_another_writer_is_noticed(path: Path) -> None:
    """Whether it has put in another batch, or this one."""
    with opened(path) as monitor:
        offer(monitor, offers()[0])
        with opened(path) as other:
            offer(other, offers()[1])
        with pytest.raises(StoppedError, match="another process writes"):
            offer(monitor, offers()[1])
        with pytest.raises(StoppedError, match="another process writes"):
            offer(monitor, offers()[2])
        assert monitor.position.number == 1
        assert verify(monitor.store) == 2


def test_models_that_do_not_belong(path: Path) -> None:
    """A store whose models have other centres than the reference gives is not gone on with."""
    filled(path, offers()[:2])
    other = path.with_name("other.gofs")
    with Reader(path) as reader, Store.create(other, {}, SAT) as store:
        moved = {0: reader.models(1)[1], 1: reader.models(1)[0]}
        store.append(reader.entry(1), models=moved, scores=reader.scores(1), scan=reader.scan())
        about = {key: value for key, value in reader.about().items() if key != "retention"}
    other.unlink()
    with Store.create(other, about, SAT) as store, Reader(path) as reader:
        store.append(reader.entry(1), models=moved, scores=reader.scores(1), scan=reader.scan())
    with pytest.raises(FormatError, match=r"model of batch 1 .* other centres"):
        opened(other)


def test_a_field_that_differs_is_named() -> None:
    """Whatever the order of keys, and also where it is missing."""
    refuse_other("it", {"a": {"x": 1, "y": [2.0]}, "b": 3}, {"a": {"y": [2.0], "x": 1}})
    with pytest.raises(FormatError, match="it was made with another c: null there, 1 here"):
        refuse_other("it", {"a": 1}, {"a": 1, "c": 1})
