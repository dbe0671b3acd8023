"""A result file of version 2, written by gofstream 0.1.0 of 2026-11-18, read today."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gofstream.errors import FormatError
from gofstream.report.html import render
from gofstream.report.record import Record

OLD = Path(__file__).parent / "result-2.json"


def test_extrapolated_p_values_become_counts() -> None:
    """At one width the count is known; combined, the largest count that ties allow."""
    old, new = json.loads(OLD.read_text()), Record.load(OLD)
    toys = old["toys"]
    ties = {"all": 2, "next": 2, "scan": 1}
    for name, before in old["statistics"].items():
        now = new.statistics[name]
        assert [chance.law_p for chance in now.p] == [chance["p"] for chance in before["p"]]
        assert {(chance.p, chance.hits) for chance in now.p} == {(1 / (toys + 1), 0)}
        assert now.combined.p == pytest.approx(ties[name] / (toys + 1))
        assert [null.t for null in now.null] == [null["t"] for null in before["null"]]
    (verdict,) = new.verdicts.values()
    assert (verdict.hits, verdict.law_p) == (3, None)
    assert verdict.p == pytest.approx(4 / (toys + 1))
    product = verdict.p * old["rate"]["p"]
    assert new.pvalue == pytest.approx(product * (1 - math.log(product)))
    assert new.low < new.pvalue < new.high
    assert new.observed == old["observed"]
    assert "older version" in new.caveats[-1]
    assert "the largest that its count of toys allows" in render(new)


def test_counted_p_values_stay(tmp_path: Path) -> None:
    """A record without an extrapolation has the same numbers, and no note."""
    old = json.loads(OLD.read_text())
    for found in old["statistics"].values():
        for chance in (*found["p"], found["combined"]):
            chance.update(p=12 / 151, z=1.4, low=0.03, high=0.12, extrapolated=False)
    old["verdicts"]["all + scan"].update(p=12 / 151, low=0.03, high=0.12, extrapolated=False)
    old.update(pvalue=12 / 151, extrapolated=False, rate=None)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(old))
    new = Record.load(path)
    assert new.pvalue == new.verdicts["all + scan"].p == 12 / 151
    assert new.verdicts["all + scan"].hits == 11
    assert new.caveats == ()


@pytest.mark.parametrize("field", ["toys", "verdicts", "extrapolated", "statistics"])
def test_a_damaged_file_of_version_2_is_refused(tmp_path: Path, field: str) -> None:
    """By the schema, which names a field that is missing."""
    old = json.loads(OLD.read_text())
    del old[field]
    path = tmp_path / "result.json"
    path.write_text(json.dumps(old))
    with pytest.raises(FormatError, match="does not follow the schema"):
        Record.load(path)
