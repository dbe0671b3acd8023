"""`gofstream plan`: what it says of sizes is what a run has; times are the benchmarks' affair."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gofstream.cli import main
from gofstream.errors import InputError, SettingsError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.ratio.centres import reduction_bytes
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys import forecast as forecast_module
from gofstream.toys.forecast import Wanted, forecast
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

WANTED = Wanted(30_000, 1200.0, 2, 3, 30, 2)
SETTINGS = Settings(widths=(0.6, 2.0), n_centres=80)


def planned() -> ReferencePlan:
    """Plan what is forecast."""
    rng = np.random.default_rng(5)
    learner = Learner.prepare(
        Sample.from_array(rng.normal(size=(30_000, 2))), SETTINGS, expected=400.0, rng=rng
    )
    source = Simulator(lambda count, own: own.normal(size=(count, 2)))
    return ReferencePlan(learner, source, "normal", np.full(3, 400.0), 1)


def test_sizes_are_those_of_the_run(tmp_path: Path) -> None:
    """Blocks, rank, passes within a factor of two, disk of three; memory not below what is."""
    found = forecast(WANTED, SETTINGS)
    plan, rng = planned(), np.random.default_rng(6)
    learner = plan.learner
    assert found.toys_per_block == plan.toys_per_block == 10
    assert found.blocks == 3
    path = tmp_path / "toys.null"
    with thread_workers(1) as executor:
        calibrate(plan, WANTED.toys, path, executor)
    size = path.stat().st_size - 20_000  # an empty file's pages
    assert size / 3 < found.disk < 3 * size
    for each, width in zip(found.widths, SETTINGS.widths or (), strict=True):
        features = learner.features(width)
        assert each.width == width
        assert each.rank == pytest.approx(features.rank, rel=0.1)
        assert each.stored is each.data_stored is True
        passes = plan.observe(features, width, [Sample.from_array(rng.normal(size=(400, 2)))] * 3)
        assert each.passes / 2 <= passes.passes.max() <= 2 * each.passes
        assert each.memory > features.nbytes
        assert each.prepare_seconds > 0
        assert each.block_seconds > 0
    rounds = 2  # three blocks on two workers
    spent = sum(each.prepare_seconds + rounds * each.block_seconds for each in found.widths)
    assert min(found.grid_seconds, found.scan_seconds) > 0
    assert found.seconds == pytest.approx(spent + found.grid_seconds + rounds * found.scan_seconds)
    assert found.memory >= max(each.memory for each in found.widths)


def test_memory_has_room_for_the_scan() -> None:
    """Where models are small, the scan takes more than any fit."""
    found = forecast(WANTED, Settings(widths=(4.0,), n_centres=10))
    plan = planned()
    (scan,) = [each for each in plan.passes if not isinstance(each, float)]
    real = plan.learner.reference[:].nbytes + sum(plan.memory(plan.shared(scan)))
    assert found.memory == pytest.approx(real, rel=0.2)
    assert found.memory > 1.1 * found.widths[0].memory


def test_rows_that_will_not_fit() -> None:
    """A reference beyond the budget: its rows are timed as they will be made."""
    large = Wanted(2_000_000, 1e6, 3, 5, 10, 2)
    (found,) = forecast(large, Settings(widths=(2.0,), n_centres=60, memory=10**9)).widths
    assert found.stored
    little = Settings(widths=(2.0,), n_centres=60, memory=200 * 10**6)
    (less,) = forecast(large, little).widths
    assert not less.stored
    assert not less.data_stored
    assert less.block_seconds > 0


def test_memory_has_room_for_the_reduction() -> None:
    """Where candidates are many and data few, preparing takes the most."""
    few = Wanted(20_000, 20.0, 1, 1, 10, 1)
    (found,) = forecast(few, Settings(widths=(2.0,), n_centres=2000)).widths
    assert found.memory == 8 * 20_000 + reduction_bytes(2000, found.rank)


def test_a_line_is_drawn_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of two sizes, a straight line between them; noise never makes it fall."""
    drawn = forecast_module._drawn_out
    assert drawn([20_000, 60_000], [1.0, 2.0], 10_060_000) == pytest.approx(252.0)
    assert drawn([20_000, 60_000], [2.0, 1.0], 10_060_000) == 1.0
    assert drawn([5000], [3.0], 5000) == 3.0


def test_what_cannot_be_is_refused() -> None:
    """Nothing wanted, or another device."""
    with pytest.raises(InputError, match="dims is 0; give at least one"):
        Wanted(1000, 100.0, 0, 1, 10, 1)
    with pytest.raises(SettingsError, match="a forecast works with numpy only"):
        forecast(WANTED, SETTINGS.changed(device="cuda"))
    with pytest.raises(InputError, match="every toy chooses its own centres"):
        forecast(WANTED, SETTINGS.changed(cover=True))


def typed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Type a command; give what it printed."""
    monkeypatch.setattr(sys, "argv", ["gofstream", *words.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    return f"{stop.value.code}: {printed.out}{printed.err if stop.value.code else ''}"


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, the same as JSON, and a word on a number it cannot read."""
    words = (
        "plan --reference 6k --data 600 --dims 1 --batches 2 --toys 20 --workers 4 "
        "--set widths=[0.8] --set n_centres=20"
    )
    said = typed(words, monkeypatch, capsys)
    assert said.startswith("0: ")
    for word in ("width", "stored", "20 toys in 2 blocks of 16", "time", "memory", "disk"):
        assert word in said
    found = json.loads(typed(f"{words} --json", monkeypatch, capsys).removeprefix("0: "))
    assert found["wanted"]["n_reference"] == 6000
    assert found["widths"][0]["width"] == 0.8
    assert "is not a number of events; write 10M, 200k" in typed(
        "plan --reference many --data 1k --dims 1", monkeypatch, capsys
    )
