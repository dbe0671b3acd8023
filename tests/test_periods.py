"""Periodic columns from the command line and from Python: radians, degrees, wrong ones refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream import nplm_test
from gofstream.cli import main
from gofstream.cli.options import Periods
from gofstream.io import read
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]
QUICK = ["--set", "widths=[0.5]", "--set", "n_centres=40", "--toys", "19", "--expected", "80"]


def ring(count: int, extra: int, rng: np.random.Generator) -> Floats:
    """Draw angles in degrees, and a number; some more where the turn ends."""
    phi = np.append(rng.uniform(-180, 180, count), rng.normal(180, 5, extra))
    return np.column_stack([(phi + 180) % 360 - 180, rng.normal(size=count + extra)])


def typed(patch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command line as the installed script does."""
    patch.setattr(sys, "argv", ["gofstream", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Floats, Floats]:
    """Write a reference and data in degrees, and go to their folder."""
    rng = np.random.default_rng(1)
    reference, data = ring(4000, 0, rng), ring(80, 30, rng)
    monkeypatch.chdir(tmp_path)
    for name, values in (("reference", reference), ("data", data)):
        np.savez(tmp_path / f"{name}.npz", phi=values[:, 0], y=values[:, 1])
    Path("table.toml").write_text("periodic = { phi = 360 }\n")
    return reference, data


@pytest.mark.parametrize(
    "given",
    [
        "phi=360,y",
        " phi = deg , y=rad",
        ["phi=360", "y"],
        {"phi": 360, "y": "rad"},
        {"phi": "360", "y": "rad"},
    ],
)
def test_ways_to_write_periods(given: object) -> None:
    """Typed, as a list or as a table of a file of options."""
    assert Periods().convert(given, None, None) == {"phi": 360.0, "y": 2 * np.pi}


@pytest.mark.parametrize("words", [("--periodic", "phi=360"), ("--config", "table.toml")])
def test_degrees(
    files: tuple[Floats, Floats], monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    """Bit for bit as in Python; and as good as the same angles in radians."""
    code = typed(monkeypatch, "test", "reference.npz", "data.npz", *words, *QUICK, "--quiet")
    assert code == 0
    found = json.loads(Path("gofstream-test", "result.json").read_text())
    settings = Settings(widths=(0.5,), n_centres=40)
    reference, data = (
        Sample.from_array(values, ["phi", "y"], periodic={"phi": 360}, name=name)
        for values, name in zip(files, ("reference", "data"), strict=True)
    )
    result = nplm_test(data, reference, expected=80, settings=settings, n_resamples=19, rng=1)
    null = found["statistics"]["single"]["null"]
    assert [each["t"] for each in null] == list(result.statistics["single"].t)
    assert found["pvalue"] == result.pvalue
    turned = (
        Sample.from_array(values * [np.pi / 180, 1], ["phi", "y"], periodic=["phi"])
        for values in files
    )
    same = nplm_test(*list(turned)[::-1], expected=80, settings=settings, n_resamples=19, rng=1)
    np.testing.assert_allclose(
        same.statistics["single"].t, result.statistics["single"].t, rtol=1e-3
    )


def test_degrees_taken_for_radians(
    files: tuple[Floats, Floats],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refused before anything is computed, naming column and range."""
    words = ("test", "reference.npz", "data.npz", "--periodic", "phi", *QUICK)
    assert typed(monkeypatch, *words) == 2
    err = capsys.readouterr().err
    low, high = files[0][:, 0].min(), files[0][:, 0].max()
    assert f"column 'phi': values from {low:.6g} to {high:.6g} do not fit the period 6.28" in err
    assert "--periodic phi=360" in err


def test_where_it_is(
    files: tuple[Floats, Floats],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The bump at the end of the turn: `--where` with the printed range has the printed events."""
    words = ("test", "reference.npz", "data.npz", "--periodic", "phi=360", *QUICK)
    assert typed(monkeypatch, *words) == 0
    out = capsys.readouterr().out.replace("−", "-")
    number = r"(-?[\d.]+)"
    scan = re.search(
        rf"scan: excess, {number} events seen, {number} expected; phi above {number} or below "
        rf"{number}(?:, y from {number} to {number})?",
        out,
    )
    assert scan is not None, out
    seen, expected, above, below, *y = (float(x) if x else None for x in scan.groups())
    assert above is not None
    assert below is not None
    assert above > 140
    assert below < -140

    along = "" if y[0] is None else f" & y >= {y[0]} & y <= {y[1]}"
    where = f"(phi > {above} | phi < {below}){along}"
    data, known = (read(f"{name}.npz", where=where).sample for name in ("data", "reference"))
    assert len(data) == seen
    assert 80 * len(known) / len(files[0]) == pytest.approx(expected, rel=0.01, abs=0.5)
    learnt = re.search(rf"the middle half has phi above {number} or below {number}", out)
    assert learnt is not None, out
    assert float(learnt[1]) > 90
    assert float(learnt[2]) < -90
