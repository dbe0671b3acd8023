"""What the page is told: against the store, and against slow obvious computations."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from starlette.requests import Request
from starlette.types import Message
from tests.runs import BEGINS, LEVEL, WINDOW, Run, reference

from gofstream.cli import cli
from gofstream.cli.live import picture
from gofstream.cli.serve import serve
from gofstream.errors import GofstreamError, InputError
from gofstream.inference.sequential import EValue
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatio
from gofstream.report.run import kept_text, next_text, verdict
from gofstream.report.words import e_text, number
from gofstream.sample import Sample
from gofstream.scan.where import FoundWindow, Place
from gofstream.serve import app, feed, view, where
from gofstream.serve.follower import Follower
from gofstream.serve.guard import Access
from gofstream.serve.inbox import Inbox, RefusedError
from gofstream.serve.metrics import exposition
from gofstream.settings import Settings
from gofstream.stream.reader import Reader
from gofstream.stream.rows import EVIDENCE, Alarm, Entry, Statistic
from gofstream.stream.sources import Lag
from gofstream.stream.status import Ledger, RunFacts, RunStatus, StorageBytes, run_status

DEPLOY = Path(__file__).parents[1] / "deploy"
ABOUT = {
    "widths": [0.3, 1.4],
    "epoch": 50,
    "nominal_expected": 10.0,
    "boundary": {"level": 4.0, "alpha": 0.05},
}
FACTS = RunFacts.of(ABOUT | {"retention": {"strategy": "sat", "batches": 0, "reservoir": False}})


def status(
    entry: Entry | None,
    batches: int = 1,
    alarms: Sequence[Alarm] = (),
    facts: RunFacts = FACTS,
    **changes: Any,
) -> RunStatus:
    """Make the status of a run whose last batch is given."""
    ledger = Ledger({"learnt": batches}, 10, entry, entry, 0.0)
    nothing = StorageBytes(0, 0, 0, 0, 0, 0)
    made = RunStatus(facts, ledger, 1, None, None, (), tuple(alarms), nothing)
    return replace(made, **changes)


def learnt(number: int, u: float | None) -> Entry:
    """Make a batch whose largest u is given."""
    lower = None if u is None else u - 1
    statistics = (Statistic("epoch sat", 0, 5.0, lower), Statistic("window next", 1, 3.0, u))
    return Entry(number, f"b{number}", "", 0.0, 10, 10.0, note="too long", statistics=statistics)


@pytest.mark.parametrize(
    ("batches", "entry", "alarms", "tone", "says"),
    [
        (0, None, [], "waiting", "No batch yet."),
        (3, None, [], "waiting", "3 batches came, and none could be learnt."),
        (3, learnt(3, 1.5), [], "calm", "is 1.5 (window next, σ = 1.4), below the boundary of 4."),
        (3, learnt(3, 1.5), [], "calm", "in at most 5\N{NO-BREAK SPACE}% of epochs of 50 batches"),
        (3, learnt(3, None), [], "unwatched", "Batch 3 was learnt but is not monitored: too long"),
        (3, learnt(3, 4.5), [Alarm(3, "x", 0, 5.0, 4.0, 2, 1.0, "A")], "seen", "above the bound"),
        (3, learnt(3, 4.5), [Alarm(3, "x", 0, 4.5, 4.0, 2)], "alarm", "since batch 2. The alarm"),
        (
            9,
            learnt(9, 1.0),
            [Alarm(2, "x", 0, 5.0, 4.0, 1, 1.0, "A"), Alarm(5, "y", 1, 4.5, 4.0, 3),
             Alarm(7, "z", 1, 6.0, 4.0, 4)],
            "alarm",
            "since batch 3. The alarm rang after batch 5, and again until batch 7: u of y at "
            "σ = 1.4 was 4.5, above the boundary of 4.",
        ),
    ],
)  # fmt: skip
def test_verdict(
    batches: int, entry: Entry | None, alarms: list[Alarm], tone: str, says: str
) -> None:
    """One sentence for every way a run can stand."""
    found = verdict(status(entry, batches, alarms))
    assert found.tone == tone
    assert says in found.sentence


def test_without_a_boundary_there_is_no_verdict() -> None:
    """It says so instead of calling anything calm."""
    about = {"retention": {"strategy": "one", "batches": 4, "reservoir": True}, "boundary": None}
    facts = RunFacts.of(about)
    assert kept_text(facts) == "of a reservoir of 4"
    assert verdict(status(learnt(1, None), facts=facts)).tone == "unwatched"


def read_page(path: Path) -> tuple[RunStatus, dict[str, Any], dict[str, Any]]:
    """Give the status, what the page is told, and what Prometheus is."""
    follower = Follower(path)
    change = follower.look()
    follower.close()
    assert change is not None
    text = exposition(change.status, readable=True, waiting=None, pages=0)
    numbers = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return change.status, change.page, {name: float(value) for name, value in numbers}


@pytest.mark.parametrize("rows", [1_000_000, 19_999_999, 20_000_000])
def test_terminal_json_metrics_and_page_give_one_answer(
    tmp_path: Path, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same status after any batch, read by two ways; the same numbers in all four places.

    Epochs have 200 000 events: 20 million reference rows are 100 for each, whichever batch it is.
    """
    path = tmp_path / "run.gofs"
    with Run(path, reference_rows=rows) as run:
        for count in (0, 1, 2, 36, 38, 41, 45):
            run.add(count - run.store.head().batches)
            with Reader(path) as reader:
                found = run_status(reader)
            assert read_page(path)[0] == found
        run.alarm()
        entries = run.store.entries()
    found, page, metrics = read_page(path)
    cli(["inspect", str(path), "--json"], standalone_mode=False)
    content = json.loads(capsys.readouterr().out)
    cli(["inspect", str(path)], standalone_mode=False)
    inspected = capsys.readouterr().out
    console = Console(file=io.StringIO(), width=500)
    console.print(picture(found, [], Lag(0, 0.0, 0)))
    terminal = console.file.getvalue()
    last = entries[-1]
    # The mean of e^(t/2) over widths.
    t = [s.t for s in last.statistics if s.family == "epoch next"]
    e = sum(math.exp(each / 2) for each in t) / len(t)
    if rows < 20_000_000:
        assert content["e_value"] is page["evidence"]["e"] is None
        assert "e-value of next: none: " in inspected
    else:
        assert content["e_value"] == pytest.approx(e, rel=1e-12)
        assert page["evidence"]["e"] == number(e, 2)
        assert f"e-value of next: {number(e, 2)}, of the epoch" in inspected
    assert page["evidence"]["note"] in inspected
    log_e = next(s.t for s in last.statistics if s.family == EVIDENCE)
    assert content["scan_log_e_value"] == log_e
    assert page["scan"]["e"] == e_text(log_e)
    assert f"e-value of the scan: {e_text(log_e)} of the epoch" in inspected
    u = max(s.u for s in last.statistics if s.u is not None)
    assert content["highest"]["u"] == page["highest"] == metrics["gofstream_u_highest"] == u
    assert f"largest u: {number(u, 3)} (" in inspected
    assert content["level"] == page["boundary"] == metrics["gofstream_u_boundary"] == LEVEL
    assert content["batches"] == page["batches"] == len(entries)
    assert f"batches: {len(entries)} (" in inspected
    for state, count in Counter(entry.state for entry in entries).items():
        assert content["states"][state] == page["states"][state] == count
        assert metrics[f'gofstream_batches_total{{state="{state}"}}'] == count
        assert f"{count} {state}" in inspected
        assert f"{count} {state}" in terminal
    events = sum(entry.events for entry in entries)
    assert content["events"] == metrics["gofstream_events_total"] == events
    assert len(content["alarms"]) == page["open"] == metrics["gofstream_alarms_open"] == 1
    for text in (inspected, terminal):
        assert "{head}. {sentence}".format(**page["verdict"]) in text


def test_e_value_and_storage() -> None:
    """Without statistics there is no e-value; bytes against the method page."""
    assert next_text(status(None)) == (None, "of the epoch")
    small = status(learnt(1, 1.0), e_value=EValue(0.0, 200.0))
    assert next_text(small)[0] == "0"
    kept = view.strategies(rows=6000, batches=3, columns=5, model=1000.0, sums=77, scan=99)
    whole, some = 3000 + 8 * 5 * 6000, 3000 + 8 * 5 * 2000
    assert kept == {"all": whole, "one": some, "sat": 77, "scan": 99}


def test_scan() -> None:
    """The e-value in words, and the windows; why there is none, where there is none."""
    window = FoundWindow("excess", "bump", (Place("m", 1.0, 2.5),), 31, 9.68, 17.2, 21.4)
    facts = replace(FACTS, scanned=True)
    found = view.scan(
        status(None, facts=facts, evidence=math.log(34.6), windows=(window,)),
    )
    assert found["e"] == "35"
    assert "reaches 20 with probability 5\N{NO-BREAK SPACE}% at most" in found["note"]
    assert replace(window, places=()).where == "everywhere"
    assert found["windows"] == [
        {"kind": "excess", "where": "m from 1 to 2.5", "observed": 31, "expected": 9.68, "t": 21.4}
    ]
    assert view.scan(status(learnt(1, 1.0), facts=facts))["e"] is None
    assert "without a scan" in view.scan(status(None))["note"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_rate(order: tuple[int, ...]) -> None:
    """Batches and events that came after the first, by the time since then; in any order."""
    arrived, events = [100.0, 400.0, 1000.0, 1900.0], [1_000_000, 10, 200, 40]
    rows = [{"arrived": arrived[i], "events": events[i]} for i in order]
    rows.append({"arrived": 9999.0, "events": 0})
    # 250 events in half an hour; how long the first batch took to come is not known.
    assert view.rate(rows) == {"batches": 6.0, "events": 500.0, "over": 4}
    assert view.rate(rows[:1]) is None


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run with an anomaly."""
    path = tmp_path_factory.mktemp("view") / "run.gofs"
    with Run(path) as run:
        run.add(BEGINS + 20)
    return path


def test_learnt_ratio_by_column(run_path: Path) -> None:
    """Against a loop over bins, points and models; to 1 %, since edges are shown to four digits."""
    with Reader(run_path) as reader:
        last = reader.head().batches
        about = reader.about()
    follower = Follower(run_path)
    kept = follower.models(last, WINDOW)
    assert len(kept) == WINDOW
    assert kept[-1][0] == last
    sample = reference()
    found = where.describe(kept, 1, sample)
    assert found["sigma"] == "1"
    assert [column["column"] for column in found["columns"]] == about["columns"]
    models = [LogRatio.from_bytes(each[1]) for _, each in kept]
    single = np.exp(models[-1](sample))
    together = sum(np.exp(model(sample)) for model in models) / len(models)
    for j, column in enumerate(found["columns"]):
        x, edges = sample.values[:, j], column["edges"]
        for i in range(len(edges) - 1):
            # Edges are shown to four digits, so events beside one may be counted either way.
            inside = (x >= edges[i]) & ((x < edges[i + 1]) | (i == len(edges) - 2))
            assert column["now"][i] == pytest.approx(single[inside].mean(), rel=1e-2)
            assert column["window"][i] == pytest.approx(together[inside].mean(), rel=1e-2)
    # The anomaly is a bump in the first column, around 150.
    first = found["columns"][0]
    top = int(np.argmax(first["window"]))
    assert first["edges"][top] < 150
    assert first["edges"][top + 1] > 100
    # Bins hold equally many events, so their plain mean is that of all events.
    assert np.mean(first["window"]) == pytest.approx(together.mean(), rel=1e-2)


def test_ratio_on_centres_and_with_weights(run_path: Path) -> None:
    """Without the reference the centres are used, and said to be; weights count as rows do."""
    kept = Follower(run_path).models(130, 3)
    model = LogRatio.from_bytes(kept[-1][1][0])
    found = where.describe(kept, 0, None)
    assert "centres" in found["words"]
    points = where.Points.on_centres(model)
    assert np.allclose(model.scaling.apply(Sample.from_array(
        points.values, columns=model.scaling.columns, periodic=model.scaling.periodic
    )), model.centres, atol=1e-9)  # fmt: skip
    weighted = where.Points(
        points.values, np.arange(len(points.values)) + 1.0, points.scaled, points.columns, ""
    )
    column = where.learnt_ratios([model], weighted)[0]
    ratio, weights = np.exp(model.scaled(points.scaled)), weighted.weights
    inside = points.values[:, 0] >= column["edges"][-2] * (1 - 1e-4)
    expected = (ratio * weights)[inside].sum() / weights[inside].sum()
    assert column["now"][-1] == pytest.approx(expected, rel=1e-2)


def test_another_reference_is_refused(run_path: Path) -> None:
    """The ratio is to the reference of the run, and to no other."""
    kept = Follower(run_path).models(130, 1)
    with pytest.raises(InputError, match="not the one of this run"):
        where.describe(kept, 0, reference(500))
    assert where.describe([], 0, None)["columns"] == []


def test_a_column_of_one_value_has_one_bin() -> None:
    """Constant columns are shown, not divided by zero."""
    points = where.Points(np.full((5, 1), 2.0), np.ones(5), np.zeros((5, 1)), ("x",), "")
    rng = np.random.default_rng(1)
    sample = Sample.from_array(rng.normal(size=100))
    learner = Learner.prepare(sample, Settings(n_centres=10), expected=50.0, rng=rng)
    model = LogRatio(
        centres=np.zeros((1, 1)),
        coefficients=np.array([0.5]),
        width=1.0,
        penalty=1e-6,
        expected=50.0,
        scaling=learner.scaling,
        settings=learner.settings,
        reference=learner.digest,
        converged=True,
    )
    (column,) = where.learnt_ratios([model], points)
    assert column["edges"] == [1.5, 2.5]
    assert column["now"] == [pytest.approx(math.exp(0.5), rel=1e-3)]


def test_follower_tells_each_row_once(tmp_path: Path) -> None:
    """All, then nothing, then only what is new; a damaged store is an error, and then read anew."""
    path = tmp_path / "run.gofs"
    with Run(path) as run:
        run.add(5)
        follower = Follower(path)
        change = follower.look()
        assert change is not None
        assert change.fresh
        assert [row["n"] for _, row in change.rows] == [1, 2, 3, 4, 5]
        assert follower.look() is None
        run.add(2)
        change = follower.look()
        assert change is not None
        assert not change.fresh
        assert [row["n"] for _, row in change.rows] == [6, 7]
        assert change.page["boundary"] == LEVEL
        entries = run.store.entries()
    assert change.status.ledger.events == sum(entry.events for entry in entries)
    assert change.rows[-1][1]["total"] == change.status.ledger.events
    follower.close()
    content = path.read_bytes()
    path.write_bytes(content[:5000])
    with pytest.raises(GofstreamError, match=r"run\.gofs"):
        follower.look()
    path.write_bytes(content)
    change = follower.look()
    assert change is not None
    assert change.fresh
    assert len(change.rows) == 7
    follower.close()


def test_a_page_that_does_not_listen_is_sent_away(tmp_path: Path) -> None:
    """Its messages do not pile up; the others go on, and all read the store once."""
    path = tmp_path / "run.gofs"

    async def work() -> tuple[int, list[str]]:
        with Run(path) as run:
            run.add(1)
            told = feed.Feed(path)
            looking = asyncio.create_task(told.run())
            while not told.page:
                await asyncio.sleep(0.01)
            deaf, keen = told.follow(""), told.follow("")
            await anext(deaf)
            kinds = [_kind(await anext(keen))]
            for _ in range(feed.PATIENCE + 5):
                told._tell(b"event: pulse\ndata: {}\n\n")
                kinds.append(_kind(await anext(keen)))
            left = [message async for message in deaf]
            told.stop()
            await looking
            async for _ in keen:
                pass
            assert not told._pages
            return len(left), kinds

    count, kinds = asyncio.run(work())
    assert count < feed.PATIENCE
    assert kinds[0] == "update"
    assert kinds.count("pulse") >= feed.PATIENCE


def _kind(message: bytes) -> str:
    return next(
        line.removeprefix("event: ")
        for line in message.decode().splitlines()
        if line.startswith("event: ")
    )


def test_messages_are_one_line_each() -> None:
    """A name with line breaks in it cannot begin a message of its own."""
    text = feed._message("update", {"name": "a\n\nevent: evil\ndata: 1\u2028"}, "3-x").decode()
    assert text.count("\n") == 4
    assert json.loads(text.splitlines()[2].removeprefix("data: "))["name"].startswith("a\n\n")


def test_a_body_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether it stops, or trickles for ever; nothing of it stays."""
    inbox = Inbox(tmp_path, largest=1000, most=3)

    async def stops() -> Message:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    async def trickles() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    monkeypatch.setattr(app, "PIECE", 0.05)
    monkeypatch.setattr(app, "WHOLE", 0.2)
    for receive in (stops, trickles):
        request = Request({"type": "http", "headers": [], "method": "POST"}, receive)
        with pytest.raises(RefusedError, match="too slowly") as refused:
            asyncio.run(inbox.receive(app._body(request)))
        assert refused.value.status == 408
        assert list(tmp_path.iterdir()) == []


def test_examples_of_deployment_give_options_that_exist() -> None:
    """The systemd unit and the container call the command as it is."""
    known = {option for parameter in serve.params for option in parameter.opts}
    for name in ("gofstream-serve.service", "Containerfile"):
        used = re.findall(r"--[a-z-]+(?=[ \"])", (DEPLOY / name).read_text())
        wanted = {option for option in used if option in known}
        assert {"--inbox", "--token-file", "--log"} <= wanted
        assert set(used) - known <= {"--now", "--secret", "--no-cache-dir", "--uid"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "control-room", "127.evil"])
def test_other_machines_need_a_token(host: str) -> None:
    """Wherever somebody else could connect."""
    with pytest.raises(InputError, match="token"):
        Access(host)
    assert not Access(host, token="x" * 16).local


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    """Addresses that lead nowhere else."""
    assert Access(host).local
