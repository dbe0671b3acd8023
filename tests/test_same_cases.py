"""The command line and Python give the same numbers, bit for bit: a table of cases, generated."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from tests.io_files import WRITERS

from gofstream.cli import cli
from gofstream.errors import GofstreamWarning
from gofstream.execution import thread_workers
from gofstream.inference.study import power_study
from gofstream.nplm import nplm_test, plan_null
from gofstream.report.examine import examine
from gofstream.report.record import Record
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.sources import Pool

Columns = dict[str, NDArray[Any]]
SETTINGS = Settings(widths=(1.0,), n_centres=10, one_step=True)
FORMATS = ("parquet", "arrow", "tree", "hdf5", "npz", "csv")


@dataclass(frozen=True)
class Case:
    """What is typed; `None` as a pool is no pool."""

    reference: bool
    pool: bool | None
    signal: bool
    format: str
    define: bool
    where: bool
    periodic: str | None


#: Every value of every field.
VALUES: dict[str, tuple[Any, ...]] = {
    "reference": (True, False),
    "pool": (True, False, None),
    "signal": (True, False),
    "format": FORMATS,
    "define": (True, False),
    "where": (True, False),
    "periodic": (None, "phi", "phi=7"),
}
ALL = [Case(**dict(zip(VALUES, each, strict=True))) for each in itertools.product(*VALUES.values())]


def covering() -> list[Case]:
    """Choose cases until every two values of different fields stand together in one of them."""

    def pairs(case: Case) -> set[tuple[Any, ...]]:
        return set(itertools.combinations(sorted(asdict(case).items()), 2))

    left = set().union(*map(pairs, ALL))
    chosen = []
    while left:
        best = max(ALL, key=lambda case: len(pairs(case) & left))
        left -= pairs(best)
        chosen.append(best)
    return chosen


QUICK = covering()


def drawn(role: str) -> Columns:
    """Make the columns of a role; the weights would change every answer."""
    rng = np.random.default_rng(sum(role.encode()))
    rows = {"data": 60, "reference": 3600, "pool": 3000, "signal": 400}[role]
    a, b = rng.normal(size=rows), rng.normal(size=rows)
    if role == "signal":
        a = a / 5 + 2
    return {"a": a, "b": b, "phi": rng.uniform(-3.1, 3.1, rows), "w": np.exp(a / 4)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write every role in every format, with weights and without."""
    folder = tmp_path_factory.mktemp("files")
    for role, name, weighted in itertools.product(
        ("data", "reference", "pool", "signal"), FORMATS, (True, False)
    ):
        columns = drawn(role)
        if not weighted:
            del columns["w"]
        place = folder / role / str(weighted)
        place.mkdir(parents=True, exist_ok=True)
        WRITERS[name](place, columns)
    return folder


def typed(case: Case, files: Path) -> Iterator[str]:
    """Give the words that follow the command and its files."""

    def path(role: str, *, weighted: bool) -> str:
        [found] = (files / role / str(weighted)).glob(
            "tree.root" if case.format == "tree" else f"muons.{SUFFIX[case.format]}"
        )
        return str(found)

    yield path("reference", weighted=case.reference)
    yield from ("--columns", ",".join(columns_of(case)), "--expected", "60", "--quiet")
    yield from ("--set", "widths=[1.0]", "--set", "n_centres=10", "--set", "one_step=true")
    yield from ("--toys", "19", "--threads", "1")
    if case.pool is not None:
        yield from ("--pool", path("pool", weighted=case.pool))
    if case.define:
        yield from ("--define", "r = hypot(a, b)")
    if case.where:
        yield from ("--where", "a > -1.5 & b > -2")
    if case.periodic:
        yield from ("--periodic", case.periodic)
    yield path("signal", weighted=case.signal)
    yield path("data", weighted=False)


SUFFIX = {"parquet": "parquet", "arrow": "arrow", "hdf5": "h5", "npz": "npz", "csv": "csv"}


def columns_of(case: Case) -> list[str]:
    """Name the columns that are tested."""
    return ["a", "phi", "r"] if case.define else ["a", "b", "phi"]


def sample(case: Case, role: str, *, weighted: bool) -> Sample:
    """Make in numpy what the options of the command ask for."""
    columns = drawn(role) | {"r": np.hypot(drawn(role)["a"], drawn(role)["b"])}
    if case.where:
        selected = (columns["a"] > -1.5) & (columns["b"] > -2)
        columns = {name: column[selected] for name, column in columns.items()}
    periods = {None: {}, "phi": {"phi": 2 * math.pi}, "phi=7": {"phi": 7.0}}[case.periodic]
    return Sample.from_array(
        np.column_stack([columns[name] for name in columns_of(case)]),
        columns_of(case),
        weights=columns["w"] if weighted else None,
        periodic=periods,
        name=role,
    )


def compare(case: Case, files: Path, out: Path) -> None:
    """Type `test` and `power`, call `nplm_test` and `power_study`, and compare every number."""
    *words, signal, data = typed(case, files)
    reference, *options = words
    # Not all files have the column of weights: which do not is told in warnings.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GofstreamWarning)
        # A column that no file of a command has is an error.
        both = ["--weight", "w"] if case.reference or case.pool else []
        options += both
        more = ["--weight", "w"] if case.signal and not both else []
        run(["test", reference, data, *options, "--out", str(out / "test")], case)
        run(
            ["power", reference, *options, *more, "--signal", signal, "--rates", "0.1", "--level",
             "0.2", "--signal-toys", "10", "--out", str(out / "power")],
            case,
        )  # fmt: skip
        known = sample(case, "reference", weighted=case.reference)
        pool = None if case.pool is None else sample(case, "pool", weighted=case.pool)
        seen = sample(case, "data", weighted=False)
        given: dict[str, Any] = {"expected": 60.0, "settings": SETTINGS, "pool": pool, "rng": 1}
        with thread_workers(1) as executor:
            result = nplm_test(seen, known, n_resamples=19, executor=executor, **given)
            study = power_study(
                plan_null(known, **given),
                Pool(sample(case, "signal", weighted=case.signal)),
                [0.1],
                toys=19,
                signal_toys=10,
                folder=out / "python",
                executor=executor,
            )
        found = Record.load(out / "test" / "result.json")
        again = examine(result, seen, known, title=found.title)
    assert again == found.model_copy(update={"provenance": None})
    powers = json.loads((out / "power" / "power.json").read_text())["power"]
    for name, curve in powers.items():
        assert curve == [asdict(study.power(name.split(" + "), 0.2, 0.1))], name
    assert "scan" in powers


def run(words: list[str], case: Case) -> None:
    """Type a command."""
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, f"{case}: {done.output}"


def test_the_table_has_every_combination() -> None:
    """No value of a field is forgotten, and two cases differ in what is typed."""
    hints = get_type_hints(Case)
    assert VALUES.keys() == hints.keys()
    assert all(
        {True, False} <= set(v)
        for n, v in VALUES.items()
        if bool in {hints[n], *get_args(hints[n])}
    )
    assert len(set(ALL)) == len(ALL) == 864
    assert len(QUICK) < 30


@pytest.mark.parametrize("number", range(len(QUICK)))
def test_covering_cases(number: int, files: Path, tmp_path: Path) -> None:
    """Cases in which every two values of different options meet."""
    compare(QUICK[number], files, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FORMATS)
def test_all_cases(name: str, files: Path, tmp_path: Path) -> None:
    """Every combination of weights, `--define`, `--where` and `--periodic`, by format."""
    for number, case in enumerate(case for case in ALL if case.format == name):
        compare(case, files, tmp_path / str(number))
