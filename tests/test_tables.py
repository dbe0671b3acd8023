"""Columns are matched by name, in whatever they come: data, batches, pools, simulators, signals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.tables import TABLES, Columns, reordered

from gofstream import nplm_test
from gofstream.checks import check_data, match_columns, match_events
from gofstream.errors import ColumnError, DtypeError, InputError, NonFiniteError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.result import TestResult
from gofstream.inference.study import power_study
from gofstream.nplm import plan_null
from gofstream.ondisk import Writer
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.matching import match_source
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Injected, Merged, Pool, Replaced, Simulator

QUICK = Settings(widths=(1.0,), n_centres=15, one_step=True)


def made(rows: int, seed: int, *, more: bool = False) -> dict[str, NDArray[Any]]:
    """Draw columns that cannot be taken for each other, and perhaps text that no test uses."""
    rng = np.random.default_rng(seed)
    columns: dict[str, NDArray[Any]] = {
        "pt": rng.exponential(30, rows),
        "eta": rng.normal(0, 2, rows),
        "n": rng.poisson(5, rows),
    }
    return columns | ({"run": np.array(["a"] * rows)} if more else {})


def matrix(columns: Columns) -> NDArray[np.float64]:
    """Put columns side by side."""
    return np.stack([column.astype(np.float64) for column in columns.values()], axis=1)


def as_before(columns: Columns, name: str = "sample") -> Sample:
    """Make a sample as it was always made: from an array, with names beside it."""
    return Sample.from_array(matrix(columns), list(columns), name=name)


@pytest.mark.parametrize("kind", TABLES)
def test_a_sample_of_a_table(kind: str) -> None:
    """Names and values are those of the table, in its order, whatever its types."""
    columns = reordered(made(50, 1), ["eta", "n", "pt"])
    given = TABLES[kind](columns)
    if kind != "sample":
        for sample in (Sample.from_columns(given), Sample.from_array(given)):
            assert sample.columns == ("eta", "n", "pt")
            np.testing.assert_array_equal(sample.values, matrix(columns))
    reference = as_before(made(60, 2))
    matched = match_events(given, reference, "data")
    assert matched.columns == ("pt", "eta", "n")
    np.testing.assert_array_equal(matched.values, matrix(made(50, 1)))


@pytest.fixture(scope="module")
def known() -> TestResult:
    """Give the answer for arrays whose columns are in the order of the reference."""
    batches = [matrix(made(30, seed)) for seed in (2, 3)]
    return nplm_test(
        batches,
        as_before(made(2000, 1), "reference"),
        expected=[30.0, 30.0],
        pool=matrix(made(1900, 4)),
        settings=QUICK,
        n_resamples=9,
        rng=1,
    )


def same(found: TestResult, known: TestResult) -> bool:
    """Compare every t, of data and of toys, bit by bit."""
    return bool(
        np.array_equal(found.null.t, known.null.t)
        and all(found.statistics[n].t == known.statistics[n].t for n in known.statistics)
    )


@pytest.mark.parametrize("kind", TABLES)
def test_any_order_of_columns_gives_the_same_result(kind: str, known: TestResult) -> None:
    """Reference, batches and pool as tables; the batches and the pool in other orders.

    A reference decides the order, so that its own is kept.
    """
    table = TABLES[kind]
    found = nplm_test(
        [table(reordered(made(30, seed), ["n", "pt", "eta"])) for seed in (2, 3)],
        table(made(2000, 1)),
        expected=[30.0, 30.0],
        pool=table(reordered(made(1900, 4), ["eta", "n", "pt"])),
        settings=QUICK,
        n_resamples=9,
        rng=1,
    )
    assert same(found, known)


def test_a_pool_in_another_order_was_no_error(known: TestResult) -> None:
    """The pool of a `Sample` is matched, and one that lacks a column is refused."""
    options: dict[str, Any] = {
        "expected": [30.0, 30.0], "settings": QUICK, "n_resamples": 9, "rng": 1,
    }  # fmt: skip
    data = [matrix(made(30, seed)) for seed in (2, 3)]
    reference = as_before(made(2000, 1), "reference")
    pool = as_before(reordered(made(1900, 4), ["n", "eta", "pt"]), "pool")
    assert same(nplm_test(data, reference, pool=pool, **options), known)
    lacking = as_before(reordered(made(1900, 4), ["pt", "n"]), "pool")
    with pytest.raises(ColumnError, match="'pool' lacks columns of sample 'reference': 'eta'"):
        nplm_test(data, reference, pool=lacking, **options)


def test_one_table_is_split_and_a_list_is_not() -> None:
    """A table is one data set; a list of tables is as many batches, not one three-dimensional."""
    reference = made(2000, 1)
    frames = [pd.DataFrame(made(25, seed, more=True)) for seed in (2, 3, 4)]
    found = nplm_test(frames, reference, settings=QUICK, n_resamples=9, rng=1)
    assert found.batches == (25, 25, 25)
    whole = pd.concat(frames)
    found = nplm_test(whole, reference, batches=2, settings=QUICK, n_resamples=9, rng=1)
    assert sum(found.batches) == 75
    assert len(found.batches) == 2
    with pytest.raises(ColumnError, match=r"'data' lacks columns .*'pt' \(nearest: 'pt_1'\)"):
        nplm_test(whole.rename(columns={"pt": "pt_1"}), reference, settings=QUICK)


def test_names_that_only_one_side_has() -> None:
    """An array takes the names of the reference; a table beside an array is refused."""
    table = made(40, 1)
    reference = as_before(made(400, 2), "reference")
    assert match_events(matrix(table), reference, "data").columns == ("pt", "eta", "n")
    unnamed = Sample.from_array(matrix(made(400, 2)), name="reference")
    with pytest.raises(ColumnError, match="'data' lacks columns of sample 'reference': 'x0'"):
        match_events(pd.DataFrame(table), unnamed, "data")
    # Columns that pandas numbered have no names.
    frame = pd.DataFrame(matrix(table))
    assert match_events(frame, reference, "data").columns == ("pt", "eta", "n")
    with pytest.raises(ColumnError, match="2 columns of values but 3 names"):
        match_events(frame[[0, 1]], reference, "data")


BAD: dict[str, tuple[Callable[[], Any], type[InputError], str]] = {
    "two columns of one name": (
        lambda: pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]),
        ColumnError, "duplicated column names 'a'",
    ),
    "a name that is no string": (
        lambda: pd.DataFrame({"a": [1.0], 7: [2.0]}), ColumnError, "names must be strings",
    ),
    "text": (lambda: pl.DataFrame({"a": ["x", "y"]}), DtypeError, "column 'a': dtype .* not"),
    "numbers as text": (
        lambda: pd.DataFrame({"a": ["1", "2"]}), DtypeError, "column 'a': dtype object",
    ),
    "times": (
        lambda: pd.DataFrame({"a": pd.to_datetime(["2026-01-01"])}),
        DtypeError, "column 'a': .*convert times to seconds",
    ),
    "missing in pandas": (
        lambda: pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}),
        NonFiniteError, "column 'a': 1 of 3 values are not finite, the first is nan at row 1",
    ),
    "missing in polars": (
        lambda: pl.DataFrame({"a": [1, 2, None]}), NonFiniteError, "the first is nan at row 2",
    ),
    "missing in pyarrow": (
        lambda: pa.table({"a": [None, 1, 2]}), NonFiniteError, "the first is nan at row 0",
    ),
    "missing in awkward": (
        lambda: ak.Array([{"a": 1.0}, {"a": None}]), DtypeError, "column 'a': cannot be read",
    ),
    "masked fields": (
        lambda: np.ma.array(np.ones(2, [("a", "f8")]), mask=[(True,), (False,)]),
        DtypeError, "column 'a': 1 entries are masked",
    ),
    "jagged": (
        lambda: ak.Array([{"a": [1.0]}, {"a": [1.0, 2.0]}]),
        DtypeError, "column 'a': cannot be read as an array of numbers",
    ),
    "vectors": (
        lambda: np.zeros(3, [("a", "f8", (2,))]), InputError, "column 'a': expected a one-dim",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_tables_that_cannot_be_used(kind: str) -> None:
    """Every error names the column, and the row where there is one."""
    table, error, text = BAD[kind]
    with pytest.raises(error, match=text):
        Sample.from_columns(table())


def test_names_are_picked_not_given_anew() -> None:
    """`from_array` with names takes those columns of a table; it does not rename what it has."""
    frame = pd.DataFrame({"eta": [1.0, 2.0], "pt": [30.0, 40.0]})
    assert Sample.from_array(frame, ["pt", "eta"]).values.tolist() == [[30, 1], [40, 2]]
    with pytest.raises(ColumnError, match=r"lacks columns 'mass' \(known: 'eta', 'pt'\)"):
        Sample.from_array(frame, ["mass", "eta"])
    with pytest.raises(ColumnError, match="expected named columns, got ndarray"):
        Sample.from_columns(np.zeros((2, 2)))


@pytest.mark.parametrize("kind", TABLES)
def test_simulators_that_give_tables(kind: str) -> None:
    """The columns of what is simulated are matched too; an array is taken as it is."""

    def simulate(n: int, rng: np.random.Generator) -> Any:
        columns = {"b": rng.normal(5, 1, n), "a": rng.exponential(size=n)}
        return TABLES[kind](columns)

    reference = as_before({"a": np.arange(3.0), "b": np.arange(3.0)})
    source = match_source(Simulator(simulate), reference)
    [events] = source.draw(np.array([500.0]), np.random.default_rng(1))
    rng = np.random.default_rng(1)
    rng.poisson([500.0])
    b, a = rng.normal(5, 1, len(events)), rng.exponential(size=len(events))
    np.testing.assert_array_equal(events, np.column_stack([a, b]))


def test_pools_inside_other_sources() -> None:
    """A signal, a replacement and merged parts are matched as a pool of its own is."""
    reference = as_before(made(100, 1))
    right, other = made(400, 2), reordered(made(400, 2), ["n", "pt", "eta"])
    expected = np.array([20.0, 20.0])
    for build in (
        lambda pool: Injected(Pool(as_before(made(300, 3))), pool, 0.5),
        lambda pool: Injected(pool, Pool(as_before(made(300, 3))), 0.5),
        lambda pool: Replaced(pool, 1.5),
        lambda pool: Merged(Replaced(pool, 0.5), 2),
    ):
        drawn = [
            build(Pool(as_before(columns))).draw(expected, np.random.default_rng(1))
            for columns in (right,)
        ]
        matched = match_source(build(Pool(as_before(other))), reference)
        drawn.append(matched.draw(expected, np.random.default_rng(1)))
        for first, second in zip(*drawn, strict=True):
            np.testing.assert_array_equal(first, second)


def test_plans_match_their_sources(tmp_path: Path) -> None:
    """`power_study` with a signal, and a plan with a pool, in another order than the reference."""
    settings, reference = QUICK, as_before(made(2000, 1), "reference")
    signals = [made(300, 5), reordered(made(300, 5), ["n", "eta", "pt"])]
    plan = plan_null(reference, 40.0, settings=settings, rng=1)
    with thread_workers(1) as executor:
        tables = [
            power_study(
                plan,
                Pool(as_before(columns, "signal")),
                [0.5],
                toys=9,
                signal_toys=9,
                folder=tmp_path / str(number),
                executor=executor,
            ).signals[0.5].t
            for number, columns in enumerate(signals)
        ]  # fmt: skip
    np.testing.assert_array_equal(tables[0], tables[1])
    learner = Learner.prepare(reference, settings, expected=40.0, rng=np.random.default_rng(1))
    with pytest.raises(ColumnError, match="'pool' lacks columns"):
        ReferencePlan(
            learner, Pool(as_before({"pt": np.ones(900)}, "pool")), "pool", np.array([40.0]), 1
        )


def test_learner_and_calibration_take_tables(tmp_path: Path) -> None:
    """What the front door takes, the parts behind it take too."""
    rng = np.random.default_rng(1)
    learner = Learner.prepare(pd.DataFrame(made(2000, 1)), QUICK, expected=40.0, rng=rng)
    frames = [pl.DataFrame(reordered(made(40, 2), ["n", "eta", "pt"])), matrix(made(40, 2))]
    learnt = learner.learn(learner.features(1.0), frames, [40.0, 40.0])
    np.testing.assert_array_equal(learnt.models[0].coefficients, learnt.models[1].coefficients)
    plan = ReferencePlan(learner, Pool(as_before(made(1300, 4))), "a pool", np.array([40.0]), 1)
    with thread_workers(1) as executor:
        calibration = calibrate(plan, 9, tmp_path / "x.null", executor)
    found = [calibration.test([frame]).statistics["all"].t for frame in frames]
    assert found[0] == found[1]


def on_disk(sample: Sample, folder: Path) -> Sample:
    """Put the values of a sample into a file."""
    writer = Writer(folder, len(sample.columns), sample.values.dtype)
    writer.append(sample.values)
    return replace(sample, values=writer.finish())


def test_columns_on_disk_are_matched(tmp_path: Path, known: TestResult) -> None:
    """Events in a file, in another order and with columns too many: the same as in memory."""
    order = ["more", "n", "pt", "eta"]
    columns = made(1900, 4)
    given = as_before(reordered(columns | {"more": np.ones(1900)}, order), "pool")
    stored = on_disk(given, tmp_path)
    reference = as_before(made(2000, 1), "reference")
    matched = match_columns(stored, reference)
    assert matched.columns == ("pt", "eta", "n")
    rows = np.array([1899, 3, 3, 700])
    np.testing.assert_array_equal(matched.values[rows], matrix(columns)[rows])
    np.testing.assert_array_equal(matched.values[5:900], matrix(columns)[5:900])
    fewer = matched.drop(np.arange(0, 1900, 2))
    np.testing.assert_array_equal(fewer.values[:], matrix(columns)[1::2])
    back = match_columns(fewer, as_before(reordered(made(9, 1), ["n", "pt"])))
    np.testing.assert_array_equal(back.values[:], matrix(reordered(columns, ["n", "pt"]))[1::2])
    assert matched.digest() == as_before(columns).digest()
    found = nplm_test(
        [matrix(made(30, seed)) for seed in (2, 3)],
        reference,
        expected=[30.0, 30.0],
        pool=stored,
        settings=QUICK,
        n_resamples=9,
        rng=1,
    )
    assert same(found, known)


def test_a_period_is_checked_when_columns_are_matched(tmp_path: Path) -> None:
    """Whether values fit the period of the reference is seen for arrays, tables and files."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(rng.uniform(-3, 3, 500), ["phi"], periodic=["phi"])
    degrees = {"phi": rng.uniform(-170, 170, 80)}
    stored = on_disk(Sample.from_columns(degrees), tmp_path)
    for given in (degrees, degrees["phi"], Sample.from_columns(degrees), stored):
        with pytest.raises(InputError, match="do not fit the period"):
            check_data([given], reference)


def test_nothing_is_imported_for_it() -> None:
    """Neither pandas nor polars nor awkward comes with `gofstream`, also when arrays are used."""
    code = (
        "import sys, numpy as np; from gofstream.sample import Sample; "
        "Sample.from_array(np.zeros((3, 2))); Sample.from_array(np.zeros(3, [('a', 'f8')])); "
        "print([m for m in ('pandas', 'polars', 'awkward') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
