"""Wrong arguments of public functions: an InputError that names the argument and what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gofstream.arguments import positive_number, whole_number
from gofstream.errors import GofstreamError, InputError, SettingsError
from gofstream.execution import process_workers, thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.study import power_study
from gofstream.nplm import nplm_test, plan_null
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

SETTINGS = Settings(widths=(0.5,), n_centres=20)
RNG = np.random.default_rng(1)
REFERENCE = Sample.from_array(RNG.normal(size=(600, 1)))
LEARNER = Learner.prepare(REFERENCE, SETTINGS, expected=50.0, rng=1)
#: Functions that take arguments of any type here.
make_toys: Any = calibrate
planned: Any = plan_null
processes: Any = process_workers
settings: Any = Settings
BATCH = Sample.from_array(RNG.normal(size=(50, 1)))


def nominal(count: int, rng: np.random.Generator) -> Any:
    """Draw standard normal events."""
    return rng.normal(size=(count, 1))


PLAN = ReferencePlan(LEARNER, Simulator(nominal), "normal", np.array([50.0]), 1)


def prepare(**changes: Any) -> Learner:
    """Prepare with some arguments changed."""
    given: dict[str, Any] = {"reference": REFERENCE, "settings": SETTINGS} | {
        "expected": 50.0,
        "rng": 1,
    }
    return Learner.prepare(**given | changes)


def verdict(**changes: Any) -> Any:
    """Test with some arguments changed."""
    given: dict[str, Any] = {"data": BATCH, "reference": REFERENCE, "settings": SETTINGS}
    return nplm_test(**given | {"n_resamples": 3, "rng": 1} | changes)


def learnt(batches: Any, expected: Any, features: Any = None) -> Any:
    """Learn with arguments of any type."""
    return LEARNER.learn(features or LEARNER.features(0.5), batches, expected)


def studied(**changes: Any) -> Any:
    """Study power with some arguments changed."""
    given: dict[str, Any] = {"toys": 3, "signal_toys": 3, "folder": Path("never")}
    return power_study(PLAN, PLAN.source, [0.1], **given | changes)


def workers(count: Any) -> None:
    """Start threads."""
    with thread_workers(count):
        pass


CASES: dict[str, Callable[[], Any]] = {
    "rng is 'one'; give a whole number of at least 0, a numpy": lambda: prepare(rng="one"),
    "rng is -1; give": lambda: prepare(rng=-1),
    "rng is 1.5; give": lambda: verdict(rng=1.5),
    "expected is [50.0]; give a positive and finite number": lambda: prepare(expected=[50.0]),
    "expected is None; give": lambda: prepare(expected=None),
    "expected is '50'; give": lambda: verdict(expected="50"),
    "expected[1] is None; give": lambda: verdict(expected=[10, None], batches=2),
    "expected is {}; give": lambda: planned(REFERENCE, {}),
    "reference is of type str; give a Sample": lambda: prepare(reference="reference.parquet"),
    "settings is of type dict; give Settings(...)": lambda: prepare(settings={"widths": [0.5]}),
    "settings is of type str; give": lambda: verdict(settings="expo1d"),
    "batch 2 is None; give a Sample": lambda: learnt([BATCH, None], [50.0, 50.0]),
    "batches is of type ndarray; give a list of batches": lambda: learnt(BATCH.values, [50.0]),
    "batches is of type Sample; give a list of batches": lambda: learnt(BATCH, [50.0]),
    "expected is 50.0; give a list of 1 numbers": lambda: learnt([BATCH], 50.0),
    "features is of type float; give what `Learner.features`": lambda: learnt([BATCH], [50.0], 0.5),
    "n_resamples is 1.5; give a whole number of at least 1": lambda: verdict(n_resamples=1.5),
    "n_resamples is '100'; give": lambda: verdict(n_resamples="100"),
    "n_resamples is None; give": lambda: verdict(n_resamples=None),
    "n_resamples is True; give": lambda: verdict(n_resamples=True),
    "batches is 1.5; give a whole number": lambda: verdict(batches=1.5),
    "simulator is of type ndarray; give a function": lambda: verdict(simulator=np.zeros(3)),
    "progress is of type bool; give a function": lambda: verdict(progress=True),
    "null is 3; give the path of a file": lambda: verdict(null=3),
    "executor is of type int; give a concurrent.futures.Executor": lambda: verdict(executor=4),
    "toys is 'many'; give": lambda: make_toys(PLAN, "many", "n.null"),
    "path is None; give": lambda: make_toys(PLAN, 3, None),
    "signal_toys is 0; give a whole number of at least 1": lambda: studied(signal_toys=0),
    "toys is 2.5; give": lambda: studied(toys=2.5),
    "count is '2'; give a whole number of at least 1": lambda: workers("2"),
    "count is 0; give": lambda: workers(0),
    "count is 1.5; give": lambda: processes(1.5).__enter__(),
}


@pytest.mark.parametrize("text", CASES)
def test_wrong_arguments(text: str) -> None:
    """Each is named, with what was given and what to give, and is a ValueError too."""
    with pytest.raises(InputError) as caught:
        CASES[text]()
    assert str(caught.value).startswith(text)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, GofstreamError)


def test_a_setting_that_does_not_exist() -> None:
    """`Settings(...)` says what `Settings.of` says; both are ValueErrors."""
    with pytest.raises(SettingsError, match="unknown setting 'width'; nearest: 'widths'"):
        settings(width=0.5)
    with pytest.raises(ValueError, match="setting 'n_centres'"):
        Settings(n_centres=0)


def test_calibrate_without_an_executor(tmp_path: Path) -> None:
    """Threads on all cores, and the same numbers; a path may be a string."""
    alone = calibrate(PLAN, 5, str(tmp_path / "a.null")).table
    with thread_workers(1) as executor:
        given = calibrate(PLAN, 5, tmp_path / "b.null", executor).table
    assert alone.t.tobytes() == given.t.tobytes()


def test_whole_numbers_written_as_floats() -> None:
    """1e2 is a hundred, as in scipy."""
    result = verdict(n_resamples=3e0)
    assert len(result.null.t) == 3
    assert whole_number("n", np.int64(7)) == whole_number("n", 7.0) == 7
    assert type(whole_number("n", np.float32(7))) is int
    assert positive_number("n", np.float32(0.5), "") == 0.5


def test_seeds_are_generators() -> None:
    """`Learner.prepare` takes a seed, as `nplm_test` does."""
    seeded, drawn = prepare(rng=7), prepare(rng=np.random.default_rng(7))
    assert seeded.candidates.tobytes() == drawn.candidates.tobytes()
