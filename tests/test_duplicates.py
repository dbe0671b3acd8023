"""Events that are there twice are counted, told and, if asked for, left out; chance is allowed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from gofstream import nplm_test
from gofstream.cli import cli
from gofstream.duplicates import find_copies
from gofstream.errors import FormatError, GofstreamWarning
from gofstream.report.examine import examine
from gofstream.report.record import Record
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]
QUICK = Settings(widths=(1.0,), n_centres=15, one_step=True)


def counts(data: Floats, reference: Floats, weights: Floats | None = None) -> tuple[int, ...]:
    """Count copies in the data, in the reference, and in both."""
    known = Sample.from_array(reference, weights=weights)
    found = find_copies([Sample.from_array(part) for part in np.array_split(data, 3)], known)
    return len(found.data), len(found.reference), len(found.shared)


def slow(data: Floats, reference: Floats) -> tuple[int, ...]:
    """Count them row by row."""
    seen, known = list(map(tuple, data)), list(map(tuple, reference))
    return (
        len(seen) - len(set(seen)),
        len(known) - len(set(known)),
        sum(row in set(seen) for row in known),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_by_counting(seed: int, dtype: type) -> None:
    """2304 rows of 500 distinct events, cut into halves: all three are found, and no others."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, 3))[rng.integers(500, size=2304)].astype(dtype)
    data, reference = rows[:1152], rows[1152:].astype(np.float64)
    if dtype is np.float64:
        assert counts(data, reference) == slow(data, reference)
    else:  # the same events, stored with less precision on one side
        assert counts(data, reference) == slow(data, rows[1152:])
    assert min(counts(data, reference)) > 500
    once = rng.normal(size=(1, 3))
    clean = rng.normal(size=(2000, 3))
    assert counts(np.concatenate([clean[:300], once, once]), clean[300:]) == (1, 0, 0)
    assert counts(clean[:300], clean[299:]) == (0, 0, 1)
    # Rows of other weights are no copies of each other.
    twice = np.concatenate([clean[300:], clean[300:]])
    assert counts(clean[:300], twice, np.arange(1.0, 3401.0)) == (0, 0, 0)
    assert counts(clean[:300], twice, np.tile(np.arange(1.0, 1701.0), 2)) == (0, 1700, 0)


def zeros(rng: np.random.Generator, n: int) -> Floats:
    """Draw isolations, of which a quarter is zero."""
    return np.where(rng.random((n, 1)) < 0.25, 0.0, rng.exponential(size=(n, 1)))


CHANCE = {
    "counts": lambda rng, n: rng.poisson(20, size=(n, 1)).astype(float),
    "two counts": lambda rng, n: rng.poisson(5, size=(n, 2)).astype(float),
    "charge": lambda rng, n: rng.choice([-1.0, 1.0], size=(n, 1)),
    "rounded": lambda rng, n: rng.normal(size=(n, 1)).round(3),
    "zeros": zeros,
    "zeros and counts": lambda rng, n: np.hstack([zeros(rng, n), rng.poisson(3, size=(n, 1))]),
    "float32": lambda rng, n: rng.normal(size=(n, 1)).astype(np.float32),
    "counts and one value": lambda rng, n: np.hstack([rng.poisson(9, (n, 1)), np.ones((n, 1))]),
}


@pytest.mark.parametrize("kind", CHANCE)
@pytest.mark.parametrize("rows", [300, 20_000])
def test_chance_is_allowed(kind: str, rows: int) -> None:
    """Discrete, rounded and padded columns coincide by themselves: 8 seeds, no false warning."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        data, reference = CHANCE[kind](rng, rows), CHANCE[kind](rng, 5 * rows)
        assert counts(data, reference) == (0, 0, 0)


def test_rounded_copies_are_found() -> None:
    """Values with three digits, as in a text file, each event twice."""
    x = np.random.default_rng(1).normal(size=(600, 3)).round(3)
    reference = np.random.default_rng(2).normal(size=(5000, 3)).round(3)
    assert counts(np.concatenate([x, x]), reference) == (600, 0, 0)


def test_copies_in_a_huge_reference_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would take more memory than the reference; events of the data in it are found."""
    monkeypatch.setattr("gofstream.duplicates.COUNTED", 2000)
    x = np.random.default_rng(1).normal(size=(1100, 2))
    assert counts(x[:100], np.concatenate([x[90:], x[90:]])) == (0, 0, 20)
    assert counts(x[:100], np.concatenate([x[90:], x[101:1091]])) == (0, 990, 10)


def test_halves_of_copies_are_told_and_dropped() -> None:
    """Three warnings; without copies the halves agree; a list of batches stays one."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(500, 2))[rng.integers(500, size=600)]
    data, reference = rows[:150], np.concatenate([rng.normal(size=(900, 2)), rows[150:250]])
    given: dict[str, Any] = {"settings": QUICK, "n_resamples": 9, "rng": 1}
    with pytest.warns(GofstreamWarning) as told:
        nplm_test(data, reference, **given)
    words = " ".join(str(each.message) for each in told)
    in_data, in_reference, shared = slow(data, reference)
    assert f"{in_data} of the 150 data events repeat" in words
    assert f"{in_reference} of the 1000 reference rows repeat" in words
    assert f"{shared} of the 1000 reference rows are events of the data" in words
    assert words.count("--drop-duplicates") == 3
    result = nplm_test(
        [data[:70], data[70:]],
        reference,
        drop_duplicates=True,
        **given,
    )
    assert sum(result.batches) == 150 - in_data
    assert len(result.batches) == 2


@pytest.mark.parametrize("how", ["flag", "file"])
def test_the_command_drops_what_python_drops(how: str, tmp_path: Path) -> None:
    """Bit for bit, also with a carried column; as a flag, and from a file of options."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(700, 2))
    data = np.concatenate([rows[:80], rows[:5]])
    reference = np.concatenate([rows[77:], rows[100:110]])
    for name, values in (("data", data), ("reference", reference)):
        table = {"a": values[:, 0], "b": values[:, 1], "m": values[:, 0] + 1}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    (tmp_path / "study.toml").write_text("drop-duplicates = true\n")
    option = ["--drop-duplicates"] if how == "flag" else ["--config", str(tmp_path / "study.toml")]
    words = [
        "test", str(tmp_path / "reference.parquet"), str(tmp_path / "data.parquet"),
        "--columns", "a,b", "--carry", "m", "--toys", "19", "--quiet", "--set", "widths=[1.0]",
        "--set", "n_centres=15", "--set", "one_step=true", "--out", str(tmp_path / "out"), *option,
    ]  # fmt: skip
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = Record.load(tmp_path / "out" / "result.json")
    result = nplm_test(
        {"a": data[:, 0], "b": data[:, 1]},
        {"a": reference[:, 0], "b": reference[:, 1]},
        settings=QUICK,
        n_resamples=19,
        rng=1,
        drop_duplicates=True,
    )
    assert found.batches == (80,) == result.batches
    kept = Sample.from_columns({"a": rows[:80, 0], "b": rows[:80, 1]}, name="data")
    known = Sample.from_columns({"a": rows[80:, 0], "b": rows[80:, 1]}, name="reference")
    beside = {"m": rows[:80, 0] + 1}, {"m": rows[80:, 0] + 1}
    again = examine(result, kept, known, carried=beside, title=found.title)
    assert again == found.model_copy(update={"provenance": None})
    # Toys of another reference are refused, and what changed is named.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GofstreamWarning)
        with pytest.raises(FormatError, match="--drop-duplicates"):
            CliRunner().invoke(cli, words[: -len(option)], catch_exceptions=False)


def test_a_value_that_the_reference_prefers_is_no_copy() -> None:
    """A quarter of exact zeros, too few of them in 100 events to show that zero is preferred."""
    rng = np.random.default_rng(1)

    def isolation(count: int) -> Sample:
        zero = rng.random((count, 1)) < 0.25
        return Sample.from_array(np.where(zero, 0.0, rng.exponential(size=(count, 1))))

    data, reference = isolation(100), isolation(500)
    assert not len(find_copies([data], reference).data)
    twice = Sample.from_array(np.concatenate([data.values, data.values[-30:]]))
    assert len(find_copies([twice], reference).data) >= 20


def test_single_precision_coincides_by_chance() -> None:
    """As many equal numbers as 2⁻²⁴ or so allows: 150 000 exponential ones hold 240 copies."""
    rng = np.random.default_rng(1)
    x = rng.exponential(size=(150_000, 1)).astype(np.float32)
    assert 200 < len(x) - len(np.unique(x)) < 300
    reference = Sample.from_array(x)
    data = Sample.from_array(rng.exponential(size=(4000, 1)).astype(np.float32))
    found = find_copies([data], reference)
    assert not len(found.data) + len(found.reference) + len(found.shared)
    again = Sample.from_array(np.concatenate([x, x[:600]]))
    assert len(find_copies([data], again).reference) > 600
