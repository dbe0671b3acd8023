"""The front door: where toys come from, how data are split, what is said, and what is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import (
    ColumnError,
    EmptyError,
    FormatError,
    GofstreamWarning,
    InputError,
    StoppedError,
)
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.combine import combined_p
from gofstream.inference.pvalues import z_score
from gofstream.inference.rate import RateTest
from gofstream.inference.result import TestResult
from gofstream.nplm import _batches, nplm_test, plan_null, plan_test
from gofstream.report.examine import examine
from gofstream.sample import Sample
from gofstream.settings import Settings

Floats = NDArray[np.float64]
QUICK = Settings(widths=(0.5, 1.5), n_centres=25, one_step=True)


def nominal(n: int, rng: np.random.Generator) -> Floats:
    """Draw the nominal model."""
    return rng.standard_exponential(size=(n, 1))


def events(n: int, seed: int) -> Floats:
    """Draw so many, with a seed."""
    return nominal(n, np.random.default_rng(seed))


def verdict(data: Any, reference: Any = None, **options: Any) -> TestResult:
    """Test with few toys and quick settings."""
    reference = events(2000, 1) if reference is None else reference
    given = {"settings": QUICK, "n_resamples": 40, "rng": 5} | options
    return nplm_test(data, reference, **given)


# -- where toys come from ------------------------------------------------------------


def test_the_best_source_is_taken() -> None:
    """A simulator, else a pool, else part of a large reference, else permuted labels."""
    data, pool = events(60, 2), events(2500, 3)
    found = verdict(data, simulator=nominal, pool=pool)
    assert found.source == "the simulator"
    found = verdict(data, pool=Sample.from_array(pool, name="spare"))
    assert found.source.startswith("the pool 'spare' (")
    assert found.source.endswith(") of 2500 events")
    found = verdict(data, events(2100, 1))  # 35 times the data
    assert found.source == "a pool of 1800 events set aside from the 2100 of the reference"
    found = verdict(data, events(2099, 1))
    assert found.source == "permuted labels"


def test_expected_decides_how_much_is_set_aside() -> None:
    """What counts is the number expected, where it is known."""
    found = verdict(events(60, 2), events(2100, 1), expected=61.0)
    assert found.source == "permuted labels"
    found = verdict(events(60, 2), events(2100, 1), expected=50.0)
    assert found.source == "a pool of 1500 events set aside from the 2100 of the reference"
    assert (found.expected, found.observed, found.shape_only) == (50.0, 60, False)


def test_small_pools() -> None:
    """A warning below 30 times the data, refused below 10, before anything else is done."""
    with pytest.warns(GofstreamWarning, match=r"only 20\.0 times the 60 expected"):
        verdict(events(60, 2), pool=events(1200, 3))
    with pytest.raises(InputError, match=r"only 5\.0 times"):
        verdict(events(60, 2), pool=events(300, 3))


def test_a_pool_of_reference_rows_is_refused() -> None:
    """Whether it is the reference or a part of it."""
    reference = events(2000, 1)
    with pytest.raises(InputError, match="are rows of the reference itself"):
        verdict(events(60, 2), reference, pool=reference)


def test_a_weighted_reference() -> None:
    """Large enough it is split, by effective size; else only a simulator or a pool will do."""
    weights = np.where(np.arange(4000) % 2, 1.0, 3.0)
    large = Sample.from_array(events(4000, 1), weights=weights, name="reference")
    found = verdict(events(60, 2), large)
    # Σw² N / (Σw)² = 1.25: so many more rows are needed.
    assert found.source == "a pool of 2250 events set aside from the 4000 of the reference"
    small = large.take(slice(0, 1000))
    with pytest.raises(InputError, match=r"has weights.*as a pool.*or a simulator"):
        verdict(events(60, 2), small)
    assert verdict(events(60, 2), small, simulator=nominal).source == "the simulator"


# -- expected, batches, seeds ------------------------------------------------------------


def test_expected_in_all_or_for_each_batch() -> None:
    """One number is shared out evenly; several are taken as they are; None tests the shape."""
    data = [events(50, 2), events(70, 3)]
    whole = verdict(data, expected=110.0, simulator=nominal)
    each = verdict(data, expected=[55.0, 55.0], simulator=nominal)
    other = verdict(data, expected=(40.0, 70.0), simulator=nominal)
    shape = verdict(data, simulator=nominal)
    assert whole.to_dict() == each.to_dict() != other.to_dict()
    assert whole.null.about["expected"] == [55.0, 55.0]
    assert other.null.about["expected"] == [40.0, 70.0]
    assert not whole.shape_only
    assert shape.shape_only
    assert shape.null.about["expected"] == [50.0, 70.0]
    assert "the rate is not tested" in str(shape)


def test_batches_given_as_they_are() -> None:
    """A list of arrays is not split again; a list of numbers is one array."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(events(2000, 1))
    data = [events(30, 2), events(20, 3)]
    parts, counts = _batches(data, reference, None, 1, rng)
    assert counts is None
    assert all((p.values == x).all() for p, x in zip(parts, data, strict=True))
    parts, _ = _batches(tuple(map(Sample.from_array, data)), reference, None, 2, rng)
    assert [len(part) for part in parts] == [30, 20]
    parts, _ = _batches([0.5, 1.5, 2.5], reference, None, 1, rng)
    assert [len(part) for part in parts] == [3]
    parts, _ = _batches([[0.5], [1.5]], reference, None, 1, rng)
    assert parts[0].values.tolist() == [[0.5], [1.5]]


def test_the_random_split_is_multinomial() -> None:
    """Shares as expected, whole in all, and sizes that fluctuate as they should (4 sd of 300)."""
    reference, data = Sample.from_array(events(100, 1)), events(200, 2)
    sizes = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        parts, counts = _batches(data, reference, [10.0, 30.0, 60.0], 3, rng)
        assert counts is not None
        assert sorted(np.concatenate([p.values for p in parts]).ravel()) == sorted(data.ravel())
        sizes.append([len(part) for part in parts])
    found = np.array(sizes)
    for k, share in enumerate((0.1, 0.3, 0.6)):
        variance = 200 * share * (1 - share)
        assert abs(found[:, k].mean() - 200 * share) < 4 * math.sqrt(variance / 300)
        assert abs(found[:, k].var() / variance - 1) < 4 * math.sqrt(2 / 300)
    again, _ = _batches(data, reference, [10.0, 30.0, 60.0], 3, np.random.default_rng(299))
    assert [len(part) for part in again] == sizes[-1]


def test_the_same_seed_gives_the_same_result() -> None:
    """To the last bit, as a number or as a generator, with one worker or three."""
    data = events(120, 2)

    def found(rng: int | np.random.Generator, threads: int) -> dict[str, Any]:
        with thread_workers(threads) as executor:
            return verdict(data, batches=2, rng=rng, executor=executor).to_dict()

    first = found(5, 1)
    assert first == found(5, 3) == found(np.random.default_rng(5), 2)
    assert first != found(6, 2)


def test_a_null_file_is_resumed(tmp_path: Path) -> None:
    """Stopped by the user, and taken up by the same call; other data or another pool are not."""
    path, data, pool = tmp_path / "n.null", events(60, 2), events(2500, 3)
    whole = verdict(data, pool=pool)

    def stop(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError):
        verdict(data, pool=pool, null=path, progress=stop)
    seen: list[int] = []
    again = verdict(data, pool=pool, null=path, progress=lambda done, total: seen.append(done))
    assert seen[0] == 1
    assert again.to_dict() == whole.to_dict()
    with pytest.raises(FormatError, match=r"came from the pool .* come from the pool"):
        verdict(data, pool=events(2500, 4), null=path)
    with pytest.raises(FormatError, match=r"inputs: the seed \(`rng`, --seed\) is another\. "):
        verdict(data, pool=pool, null=path, rng=6)


# -- what is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batches": 0}, "batches is 0"),
        ({"n_resamples": 0}, "n_resamples is 0"),
        ({"expected": [10.0, 20.0]}, "expected has 2 numbers for 1 batches"),
        ({"expected": [10.0, 20.0], "batches": 3}, "expected has 2 numbers for 3 batches"),
        ({"expected": -3.0}, "expected is -3.0; give a positive"),
        ({"expected": 0.0}, "expected is 0.0; give a positive"),
        ({"expected": math.nan}, "expected is nan; give a positive"),
        ({"expected": [10.0, math.inf], "batches": 2}, r"expected\[1\] is inf; give a positive"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], text: str) -> None:
    """Before anything is computed."""
    with pytest.raises(InputError, match=text):
        verdict(events(60, 2), **options)


def test_another_number_of_batches_than_given() -> None:
    """The text says both numbers."""
    with pytest.raises(InputError, match="2 batches were given, but batches = 3"):
        verdict([events(60, 2), events(60, 3)], batches=3)


def test_data_are_checked_before_toys_are_made() -> None:
    """Hours of toys for data that cannot be tested would be lost."""

    def never(n: int, rng: np.random.Generator) -> Floats:
        raise AssertionError("a toy was drawn")

    named = Sample.from_columns({"mass": events(60, 2)[:, 0]})
    with pytest.raises(ColumnError, match="lacks columns"):
        verdict(named, simulator=never)
    with pytest.raises(EmptyError, match="no rows"):
        verdict(events(0, 2), simulator=never, expected=60.0)
    for batches in ([events(0, 2), events(60, 2)], [events(60, 2), events(0, 2)]):
        with pytest.raises(InputError, match=r"batch [12] has no events.*`expected`"):
            verdict(batches, simulator=never)


def test_an_empty_batch_where_events_were_expected() -> None:
    """That is an observation like any other."""
    found = verdict([events(60, 2), events(0, 2)], expected=[60.0, 2.0], simulator=nominal)
    assert 0 < found.pvalue <= 1
    assert np.isfinite(found.statistic).all()


# -- what is said ------------------------------------------------------------


def test_the_headline_is_that_of_all_and_scan() -> None:
    """p, Z, t and the null distribution are those of `all`, over all widths, and of the scan."""
    found = verdict(events(120, 2), batches=2, simulator=nominal, expected=120.0)
    best = found.verdicts["all", "scan"]
    assert found.rate is None
    assert found.pvalue == best.p
    assert found.zscore == best.z == float(z_score(found.pvalue))
    assert found.statistic.tolist() == [*found.statistics["all"].t, *found.statistics["scan"].t]
    assert found.null_distribution.shape == (40, 3)
    assert (found.null_distribution[:, :2] == found.null.t[:, 2, :, -1]).all()
    assert found.interval == (best.low, best.high)
    assert found.pvalue == combined_p(found.statistic, found.null_distribution, columns=(2, 1))
    assert found.toys == 40


@pytest.mark.parametrize("batches", [1, 3])
def test_strict_json(batches: int) -> None:
    """No infinities, also where p is one: `next` of a single batch is always zero."""
    found = verdict(events(90, 2), batches=batches, expected=90.0)
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert back["pvalue"] == found.pvalue
    assert back["rate"]["expected"] == 90.0
    first = "single" if batches == 1 else "all"
    assert back["statistics"][first]["combined"]["p"] == found.statistics[first].combined.p


def test_of_one_batch_single_and_scan_are_shown() -> None:
    """The others say the same, or nothing; one t has one law."""
    rng = np.random.default_rng(3)
    data = np.concatenate([events(100, 2), rng.normal(0, 0.01, size=(40, 1))])
    found = verdict(data, simulator=nominal, expected=100.0, n_resamples=120)
    assert list(found.verdicts) == [("single", "scan")]
    assert list(found.shown) == list(found.to_dict()["statistics"]) == ["single", "scan"]
    single = found.statistics["single"]
    assert single.p[0].law_p is not None
    for same in ("sum", "all", "one"):
        other = found.statistics[same]
        assert other.t == pytest.approx(single.t, rel=1e-6)
        assert [p.p for p in other.p] == [p.p for p in single.p]
        assert [p.law_p for p in other.p] == pytest.approx([p.law_p for p in single.p], rel=1e-4)
    assert found.pvalue == found.verdicts["single", "scan"].p
    t = np.array([*single.t, *found.statistics["scan"].t])
    null = np.hstack([found.null.statistic(name) for name in ("single", "scan")])
    assert found.pvalue == combined_p(t, null, columns=(2, 1))
    text = str(found)
    assert not re.search(r"^(sum|all|one|sat|next)", text, re.MULTILINE)
    sample = Sample.from_array(data)
    record = examine(found, sample, Sample.from_array(events(2000, 1)))
    assert list(record.statistics) == list(record.storage) == ["single", "scan"]
    assert record.headline == "single + scan"
    assert len(record.plot_null().axes) == 2


def test_names_are_escaped_in_a_notebook() -> None:
    """A sample may be called anything."""
    pool = Sample.from_array(events(2500, 3), name="<img src=x onerror=alert(1)> & co")
    page = verdict(events(60, 2), pool=pool)._repr_html_()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; co" in page


def poisson_sum(low: int, high: int, mean: float) -> float:
    """Add Poisson probabilities one by one."""
    return math.fsum(
        math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(low, high + 1)
    )


@pytest.mark.parametrize(
    ("observed", "expected"), [(0, 3.2), (3, 3.2), (9, 3.2), (130, 100.0), (70, 100.0), (1, 0.01)]
)
def test_rate_by_sums(observed: int, expected: float) -> None:
    """Twice the smaller tail, observed count included, at most one."""
    tails = poisson_sum(0, observed, expected), poisson_sum(observed, observed + 400, expected)
    found = RateTest.of(observed, expected)
    assert found.p == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [(0.05, 0.05), (1.0, 0.3), (1.0, 1.0), (1e-9, 0.7)])
def test_fisher_by_its_formula(first: float, second: float) -> None:
    """P = p1 p2 (1 - log(p1 p2))."""
    product = first * second
    found = RateTest(10.0, 10, first).with_shape(second)
    assert found == pytest.approx(product * (1 - math.log(product)), rel=1e-9)


def test_a_rate_that_is_wildly_off() -> None:
    """No p-value is zero, though its tail underflows."""
    found = RateTest.of(10_000, 1000.0)
    assert 0 < found.with_shape(0.5) < 1e-300
    assert math.isfinite(float(z_score(found.with_shape(0.5))))


def test_the_rate_beside_permuted_labels() -> None:
    """With a number expected the rate is tested apart and combined; without it is left out."""
    data = events(90, 2)
    with_rate, without = verdict(data, expected=70.0), verdict(data)
    assert with_rate.source == without.source == "permuted labels"
    assert without.rate is None
    assert with_rate.rate == RateTest.of(90, 70.0)
    shape = without.verdicts["single", "scan"].p
    assert with_rate.verdicts["single", "scan"].p == shape
    product = shape * with_rate.rate.p
    assert with_rate.pvalue == pytest.approx(product * (1 - math.log(product)), rel=1e-9)
    text = str(with_rate)
    assert "70 expected, shape and rate tested apart" in text
    assert "not tested" not in text
    assert "rate, tested apart: 90 events, 70 expected" in text
    assert "the rate is not tested" in str(without)


@pytest.mark.parametrize(
    "options", [{"simulator": nominal, "expected": 120.0}, {"expected": 120.0}, {}]
)
def test_a_strong_signal_is_seen(options: dict[str, Any]) -> None:
    """A peak of 40 events on 120 has the least p that 99 toys can show; no peak has not."""
    rng = np.random.default_rng(8)
    peak = np.concatenate([nominal(120, rng), rng.normal(4, 0.1, size=(40, 1))])
    found = verdict(peak, batches=2, n_resamples=99, **options)
    assert found.statistics["all"].combined.p <= 2 / 100
    assert found.pvalue < 0.05
    none = verdict(nominal(120, rng), batches=2, n_resamples=99, **options)
    assert none.pvalue > 0.05


def test_p_values_of_the_front_door() -> None:
    """60 data sets from the nominal model, 19 toys each: KS not rejected at 1 % (fixed seed)."""
    settings = QUICK.changed(widths=(1.0,), n_centres=10)
    p = [
        verdict(events(60, 100 + k), simulator=nominal, settings=settings, n_resamples=19, rng=k)
        .statistics["all"]
        .combined.p
        for k in range(60)
    ]
    steps = np.bincount(np.rint(np.array(p) * 20).astype(int), minlength=21)[1:].cumsum() / 60
    distance = float(np.abs(steps - np.arange(1, 21) / 20).max())
    assert stats.kstwo.sf(distance, 60) > 0.01


def test_a_plan_without_data_is_the_one_with_data(tmp_path: Path) -> None:
    """A null made beforehand serves the test, whatever the data turn out to be."""
    rng = np.random.default_rng(8)
    reference, data = rng.normal(size=(8000, 1)), rng.normal(size=(190, 1))
    settings = Settings(n_centres=20, widths=(1.0,))
    plan = plan_null(reference, 200.0, batches=2, settings=settings, rng=3)
    planned = plan_test(data, reference, expected=200.0, batches=2, settings=settings, rng=3)
    assert plan.about() == planned.plan.about()
    other = plan_null(reference, 200.0, batches=2, settings=settings, rng=4)
    assert other.about() != plan.about()
    with thread_workers(1) as executor:
        calibrate(plan, 16, tmp_path / "x.null", executor)
    before = (tmp_path / "x.null").read_bytes()
    nplm_test(
        data,
        reference,
        expected=200.0,
        batches=2,
        settings=settings,
        rng=3,
        n_resamples=16,
        null=tmp_path / "x.null",
    )
    assert (tmp_path / "x.null").read_bytes() == before
    with pytest.raises(InputError, match=r"8000 rows: too few .*at most about 229.*give a pool"):
        plan_null(reference, 300.0, rng=3)
