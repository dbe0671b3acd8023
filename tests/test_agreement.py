"""Null files and the inputs of now: which input changed, what serves all the same, what to do."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.errors import FormatError, InputError, StoppedError
from gofstream.execution import thread_workers
from gofstream.inference.agreement import differences
from gofstream.inference.calibrate import calibrate
from gofstream.inference.null import NullFile
from gofstream.nplm import nplm_test
from gofstream.settings import Settings
from gofstream.toys.farm import Job, run
from gofstream.toys.sources import Simulator
from test_farm import small_plan

Floats = NDArray[np.float64]
QUICK = Settings(widths=(0.5, 1.5), n_centres=25, one_step=True)


def nominal(n: int, rng: np.random.Generator) -> Floats:
    """Draw the nominal model."""
    return rng.standard_exponential(size=(n, 1))


def wider(n: int, rng: np.random.Generator) -> Floats:
    """Draw another model from the same numbers."""
    return 1.1 * nominal(n, rng)


def refusal(path: Path, **options: Any) -> str:
    """Test data with toys in a file; give the text of the refusal, or nothing."""
    reference = nominal(options.pop("rows", 2500), np.random.default_rng(1))
    data = nominal(options.pop("events", 60), np.random.default_rng(2))
    given = {"settings": QUICK, "n_resamples": 12, "rng": 5, "null": path} | options
    try:
        nplm_test(data, reference, **given)
    except FormatError as error:
        return str(error)
    return ""


def change_settings(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the settings in a description, and keep it whole."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = dict(connection.execute("SELECT key, value FROM about WHERE key != 'sha256'"))
        settings = json.loads(rows["settings"])
        change(settings)
        rows["settings"] = json.dumps(settings, sort_keys=True)
        digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
        changed = {"settings": rows["settings"], "sha256": json.dumps(digest)}
        connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", changed.items())


def test_another_simulator_is_refused(tmp_path: Path) -> None:
    """With the same seed, file and everything else; the same one, defined anew, is not."""
    path = tmp_path / "a.null"
    assert refusal(path, simulator=nominal) == ""
    text = refusal(path, simulator=wider)
    assert "the simulator gives other events for the same seed: its code" in text
    assert f"or delete {path}" in text
    assert refusal(path, simulator=lambda n, rng: nominal(n, rng)) == ""


@pytest.mark.parametrize(
    ("options", "changed", "text"),
    [
        ({}, {"rng": 6}, "the seed (`rng`, --seed) is another"),
        ({"simulator": nominal}, {"rng": 6}, "the seed (`rng`, --seed) is another"),
        ({}, {"rows": 2501}, "the reference has other rows, columns or weights"),
        (
            {"simulator": nominal},
            {"settings": QUICK.changed(n_centres=26)},
            "setting 'n_centres' was 25, is 26",
        ),
        (
            {"simulator": nominal},
            {"settings": QUICK.changed(n_centres=None)},
            "setting 'n_centres' was 25, is not given",
        ),
        (
            {"simulator": nominal, "expected": 60.0},
            {"expected": 70.0},
            "the expected events of each batch were 60, are 70",
        ),
        (
            {"simulator": nominal},
            {"expected": 60.0},
            "the expected number of events (`expected`, --expected) was given only once",
        ),
        (
            {"simulator": nominal},
            {"events": 61},
            "were 60, are 61 (events in the data, where only the shape is tested)",
        ),
        ({"rows": 400}, {"events": 61}, "the data are others, and permuted labels belong to one"),
        ({"simulator": nominal}, {"simulator": None}, "came from the simulator, come from a pool"),
    ],
)
def test_the_changed_input_is_named(
    options: dict[str, Any], changed: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """In the user's words, and not what follows from it: centres, part of the reference, seeds.

    Permuted labels of other data also have other numbers of events, where only shape is tested.
    """
    named_inputs = 2 if "rows" in options else 1
    path = tmp_path / "a.null"
    assert refusal(path, **options) == ""
    found = refusal(path, **options | changed)
    named, advice = found.split("made with other inputs: ")[1].split(". Repeat those inputs, ")
    assert text in named
    assert len(named.split("; ")) == named_inputs
    assert "another --out on the command line), or delete" in advice
    assert refusal(path, **options) == ""


def test_a_setting_that_is_new_makes_no_file_foreign(tmp_path: Path) -> None:
    """One that a file does not know had its default; another value, or an unknown one, differs."""
    path = tmp_path / "a.null"
    assert refusal(path, simulator=nominal) == ""
    change_settings(path, lambda settings: settings.pop("shrink"))
    assert refusal(path, simulator=nominal) == ""
    found = refusal(path, simulator=nominal, settings=QUICK.changed(shrink=0.5))
    assert "inputs: setting 'shrink' was 0.25, is 0.5. " in found
    change_settings(path, lambda settings: settings.update(colour="red"))
    found = refusal(path, simulator=nominal)
    assert "inputs: setting 'colour' is one that this gofstream does not know. " in found


def test_what_was_typed_explains_a_difference_and_makes_none() -> None:
    """Two descriptions by hand: equal numbers agree whatever was typed."""
    first = {"reference": "ab", "inputs": {"--where": "x > 1", "the reference": "a.parquet"}}
    moved = {"reference": "ab", "inputs": {"the reference": "b.parquet"}}
    assert differences(first, moved) == []
    other = {"reference": "cd", "inputs": {"--where": "x > 2", "the reference": "a.parquet"}}
    assert differences(first, other) == ["--where was 'x > 1', is 'x > 2'"]
    assert differences(other, {"reference": "ab", "inputs": {"the reference": "a.parquet"}}) == [
        "--where was 'x > 2', is not given"
    ]
    same_words = first | {"reference": "cd"}
    assert differences(first, same_words) == ["the reference has other rows, columns or weights"]


def test_a_file_without_a_first_toy_serves(tmp_path: Path) -> None:
    """As those of the gallery, from before it was kept."""
    plan = small_plan()
    about = plan.about()
    assert len(about.pop("first_toy")) == 64
    NullFile(tmp_path / "a.null", about)
    assert NullFile(tmp_path / "a.null", plan.about()).blocks() == set()
    wide = replace(plan, source=Simulator(wider))
    NullFile(tmp_path / "b.null", plan.about())
    with pytest.raises(FormatError, match=r"expo1d gives other events for the same seed"):
        NullFile(tmp_path / "b.null", wide.about())


def stop(done: int, total: int) -> None:
    """Press Ctrl-C after the first block."""
    if done == 1:
        raise KeyboardInterrupt


def test_a_stopped_test_says_what_is_kept(tmp_path: Path) -> None:
    """Nothing where no file was given; all blocks that were done where one was."""
    data, reference = (nominal(n, np.random.default_rng(n)) for n in (60, 2500))
    for path in (None, tmp_path / "a.null"):
        with pytest.raises(StoppedError) as caught:
            nplm_test(
                data, reference, settings=QUICK, n_resamples=40, rng=1, null=path, progress=stop
            )
        text = str(caught.value)
        assert "stopped with 1 of 6 blocks of toys done; " in text
        assert isinstance(caught.value.__cause__, KeyboardInterrupt)
        assert ("nothing is kept" in text) is (path is None)
        assert ("with `null=PATH`" in text) is (path is None)
        assert ("the same call, with the same file, goes on" in text) is (path is not None)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A missing folder, and a folder in place of a file: what it is, and what to do."""
    about = small_plan().about()
    with pytest.raises(InputError, match=r"there is no folder .*lost; make it, or give another"):
        NullFile(tmp_path / "lost" / "a.null", about)
    with pytest.raises(InputError, match=r"is a folder; give a file in it"):
        NullFile(tmp_path, about)


def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program writes: the text says so, and nothing of moving the file away."""
    monkeypatch.setattr("gofstream.inference.null.LOCK_SECONDS", 0.05)
    plan, path = small_plan(), tmp_path / "a.null"
    file = NullFile(path, plan.about())
    wait = r"a\.null is in use by another program; wait until that ends, or give another file"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match=wait):
            NullFile(path, plan.about())
        with pytest.raises(InputError, match=wait):
            file.load(8)
        other.execute("ROLLBACK")
        other.execute("BEGIN IMMEDIATE")  # others can read, and not write
        with thread_workers(1) as executor, pytest.raises(StoppedError, match=wait):
            run([Job(plan, 8, file)], executor)
    with thread_workers(1) as executor:
        assert calibrate(plan, 8, path, executor).table.t.shape[0] == 8
