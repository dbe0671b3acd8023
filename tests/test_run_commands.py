"""`replay` and `inspect` on the store of a run, as a user types them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from gofstream.cli import main
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.monitor import Monitor
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Alarm, Retention
from gofstream.stream.store import Store
from streams import EPOCH, EVERY, WINDOW, offers

SAT = Retention("sat")
SETTINGS = ["--set", "widths=[0.5, 1.5]", "--set", "n_centres=25"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files of a run, as a command with seed 4 would."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(1).exponential(size=(4000, 1))
    np.save("reference.npy", values)
    learner = Learner.prepare(
        Sample.from_array(values, ["x"], name="reference"),
        Settings(widths=(0.5, 1.5), n_centres=25),
        expected=50.0,
        rng=np.random.default_rng(4),
    )
    path = tmp_path / "run.gofs"
    lengths = {"epoch": EPOCH, "window": WINDOW, "checkpoint_every": EVERY}
    with Monitor.open(path, learner, None, Retention("sat"), **lengths, keep_models=True) as made:
        for each in offers()[:6]:
            if each.sample is None:
                made.skip(each.name, 0.0)
            else:
                made.apply(made.learn(each.name, each.sample, each.expected, 0.0))
    return path


def typed(
    patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """Type a command; give its exit code and what it printed."""
    patch.setattr(sys, "argv", ["gofstream", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return (int(stop.value.code or 0), *capture.readouterr())


def test_replay(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same with the same reference, settings and seed; otherwise it says what differs."""
    words = ["replay", run.name, "--reference", "reference.npy", *SETTINGS]
    code, out, err = typed(monkeypatch, capsys, *words, "--seed", "4")
    assert (code, err) == (0, "")
    assert out.endswith("55 statistics of 5 batches, the same to the bit\n")
    code, out, err = typed(monkeypatch, capsys, *words, "--seed", "4", "--json", "--quiet")
    assert json.loads(out) == {"batches": 5, "statistics": 55, "path": "run.gofs"}
    for more, field in (
        (["--seed", "5"], "centres"),
        (["--seed=4", "--set", "shrink=1"], "settings"),
    ):
        code, out, err = typed(monkeypatch, capsys, *words, *more)
        assert (code, out) == (2, "")
        assert f"run.gofs was made with another {field}" in err


def test_inspect(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the run is about and how it stands; a damaged one is told."""
    code, out, _ = typed(monkeypatch, capsys, "inspect", run.name)
    assert code == 0
    for line in (
        "epoch: 5",
        'columns: ["x"]',
        "batches: 6 (4 learnt, 1 unmonitored, 1 skipped)",
        "last learnt: 6, b06; step 4 of epoch",
        "no boundary: nothing alarms",
        "e-value of next: none: ",
        "and it takes 100",
        "kept, by `sat`: events 0 B of",
    ):
        assert line in out
    code, out, _ = typed(monkeypatch, capsys, "inspect", run.name, "--json")
    content = json.loads(out)
    assert content["latest"]["name"] == "b06"
    assert content["keep_models"] is True
    code, out, _ = typed(monkeypatch, capsys, "inspect", run.name, "--validate")
    assert (code, out) == (0, "run.gofs: a store of a run, whole\n")
    with Reader(run) as reader:
        entry = reader.entry(5)
    data = run.read_bytes()
    run.write_bytes(data.replace(entry.digest.encode(), b"0" * 64))
    code, out, err = typed(monkeypatch, capsys, "inspect", run.name, "--validate")
    assert (code, out) == (2, "")
    assert "batch 5" in err


def test_inspect_tells_of_alarms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Path
) -> None:
    """With their date, as long as nobody has acknowledged them."""
    with Reader(run) as reader, Store.create(tmp_path / "alarm.gofs", _about(reader), SAT) as store:
        rung = reader.entry(1)
        u = rung.statistics[0]._replace(u=4.25)
        rung = type(rung)(1, "a", "d", 0.0, 50, 50.0, statistics=(u, *rung.statistics[1:]))
        alarm = Alarm(1, u.family, u.width, 4.25, 3.5, since=1)
        store.append(rung, alarm=alarm, scan=reader.scan())
    code, out, _ = typed(monkeypatch, capsys, "inspect", "alarm.gofs")
    assert code == 0
    assert "largest u: 4.25 (epoch next, σ = 0.5); the boundary is 3.5" in out
    assert "alarm after batch 1: anomalous since batch 1" in out


@pytest.mark.parametrize("keep", [["all"], ["one", "--keep-last", "3"]])
def test_watch_keeps_no_events_that_nothing_reads(
    keep: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refused with the reason, before anything is read or made."""
    monkeypatch.chdir(tmp_path)
    words = ["watch", "no-such-file.npy", "--inbox", "in", "--store", "run.gofs"]
    code, out, err = typed(monkeypatch, capsys, *words, "--expected", "50", "--keep", *keep)
    assert (code, out) == (2, "")
    assert f"--keep {keep[0]} would store events that no command reads" in err
    assert "leave --keep out" in err
    assert list(tmp_path.iterdir()) == []


def test_code_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page on the monitor shows how to watch a stream from Python, and is right."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "monitor.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out == "learnt {'learnt': 3}\n"
    with Reader(tmp_path / "run.gofs") as reader:
        for key in reader.about():
            assert f"`{key}`" in text


def _about(reader: Reader) -> dict[str, object]:
    about = {key: value for key, value in reader.about().items() if key != "retention"}
    return about | {"boundary": {"level": 3.5, "alpha": 0.1, "sha256": "0"}}
