"""Power studies: p-values by counting, more signal more power, and the bound of the ideal test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import InputError
from gofstream.execution import thread_workers
from gofstream.inference.power import median_z, power
from gofstream.inference.study import PowerStudy, power_study
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator
from test_combine import slow_combined_p

Floats = NDArray[np.float64]
BULK = expo1d.SIGNALS["bulk"]
EXPECTED, BATCHES, TOYS, SIGNAL_TOYS = 240.0, 4, 120, 60
FRACTIONS = (0.05, 0.2, 0.5)


def small_plan() -> ReferencePlan:
    """Make four batches of 60 events against 2000 reference events, at two widths."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(expo1d.reference(2000, rng), name="reference")
    settings = Settings(widths=(0.3, 1.0), n_centres=40, one_step=True)
    each = np.full(BATCHES, EXPECTED / BATCHES)
    learner = Learner.prepare(reference, settings, expected=60.0, rng=rng)
    return ReferencePlan(learner, Simulator(expo1d.reference), "expo1d", each, 1)


def studied(folder: Path, fractions: Sequence[float] = FRACTIONS) -> tuple[PowerStudy, list[int]]:
    """Make a study, and count the blocks that it made."""
    made: list[int] = []
    with thread_workers(2) as executor:
        study = power_study(
            small_plan(),
            Simulator(BULK.draw),
            fractions,
            toys=TOYS,
            signal_toys=SIGNAL_TOYS,
            folder=folder,
            executor=executor,
            progress=lambda done, total: made.append(done),
        )
    return study, made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the tests share."""
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def study(folder: Path) -> PowerStudy[float]:
    """Make toys with three strengths of a signal."""
    return studied(folder)[0]


def row(
    table: Floats, toy: int, names: Sequence[str], widths: Sequence[int], after: int
) -> list[float]:
    """Pick the numbers that a question is about, one by one."""
    order = list(STATISTICS)
    return [float(table[toy, order.index(name), w, after - 1]) for name in names for w in widths]


@pytest.mark.parametrize("batches", [None, 1, 3])
@pytest.mark.parametrize("width", [None, 0, 1])
@pytest.mark.parametrize("names", [("all",), ("sum", "sat")])
def test_p_values_by_counting(
    study: PowerStudy[float], names: tuple[str, ...], width: int | None, batches: int | None
) -> None:
    """One width or both, one statistic or two, after any number of batches."""
    fraction = 0.2
    given = names[0] if len(names) == 1 else names
    p = study.p_values(given, fraction, width=width, batches=batches)
    assert p.shape == (SIGNAL_TOYS,)
    widths, after = (0, 1) if width is None else (width,), batches or BATCHES
    null = [row(study.null.t, toy, names, widths, after) for toy in range(TOYS)]
    for toy in (0, 7, 31):
        mine = row(study.signals[fraction].t, toy, names, widths, after)
        if len(mine) == 1:
            slow = (1 + sum(other >= mine for other in null)) / (1 + TOYS)
        else:
            slow = slow_combined_p([mine, *null], "min", (len(widths),) * len(names))
        assert p[toy] == pytest.approx(slow, abs=1e-12)


def test_power_and_median_of_those(study: PowerStudy[float]) -> None:
    """The same p-values, counted; the rule is handed on."""
    p = study.p_values("all", 0.2, rule="mean")
    assert (p != study.p_values("all", 0.2)).any()
    assert study.power("all", 0.1, 0.2, rule="mean") == power(p, 0.1)
    assert study.power("all", 0.1, 0.2, rule="mean").value == np.mean(p <= 0.1)
    assert study.median_z("all", 0.2, rule="mean") == median_z(p)


def test_a_level_out_of_reach_is_refused(study: PowerStudy[float]) -> None:
    """No p is below 1 / 121: a power of zero there would say nothing of the signal."""
    assert study.power("all", 1 / 121, 0.5).value > 0.5
    with pytest.raises(InputError, match=r"p ≤ 0\.008 is out of reach: needs ≥ 124 toys.* are 120"):
        study.power("all", 0.008, 0.5)


def test_more_signal_more_power(study: PowerStudy[float]) -> None:
    """From a little to certainty."""
    found = [study.power("all", 0.05, fraction).value for fraction in FRACTIONS]
    assert found[0] < 0.6
    assert found[0] < found[1] <= found[2]
    assert found[2] == 1
    assert study.median_z("all", 0.05).value < study.median_z("all", 0.5).value


def test_what_was_not_made_is_named(study: PowerStudy[float]) -> None:
    """Fractions, statistics, widths and numbers of batches."""
    with pytest.raises(InputError, match=r"a signal 0\.3; there are 0\.05, 0\.2, 0\.5"):
        study.p_values("all", 0.3)
    with pytest.raises(InputError, match="no statistic is called 'saturated'; known: 'single'"):
        study.p_values("saturated", 0.2)
    for width in (-1, 2, 3):
        with pytest.raises(InputError, match=f"width is {width}; it is an index, from 0 to 1"):
            study.p_values(("all", "sat"), 0.2, width=width)
    for batches in (0, 5):
        with pytest.raises(InputError, match=f"batches is {batches}; these toys have 1 to 4"):
            study.p_values("all", 0.2, batches=batches)


def test_a_study_is_used_again(study: PowerStudy[float], folder: Path) -> None:
    """The same call reads what is there; another fraction makes only its own toys."""
    again, made = studied(folder)
    assert made == [117]  # nothing but one word, that all is there
    assert again.null.t.tobytes() == study.null.t.tobytes()
    for fraction in FRACTIONS:
        assert again.signals[fraction].t.tobytes() == study.signals[fraction].t.tobytes()
    more, made = studied(folder, (0.1,))
    assert made == list(range(45, 70))
    assert list(more.signals) == [0.1]


def slow_ideal_power(fraction: float, level: float, toys: int, seed: int) -> tuple[float, float]:
    """Power of the likelihood ratio, event by event, and its standard deviation."""
    rng = np.random.default_rng(seed)

    def statistic(signal: float) -> float:
        background = rng.exponential(size=rng.poisson(EXPECTED))
        peak = rng.normal(1.6, 0.16, size=rng.poisson(signal * EXPECTED))
        total = -fraction * EXPECTED
        for x in (*background.tolist(), *peak.tolist()):
            bump = math.exp(-(((x - 1.6) / 0.16) ** 2) / 2) / (0.16 * math.sqrt(2 * math.pi))
            total += math.log1p(fraction * bump / math.exp(-x))
        return 2 * total

    null = sorted(statistic(0.0) for _ in range(toys))
    limit = null[math.ceil((1 - level) * toys)]
    value = sum(statistic(fraction) > limit for _ in range(toys)) / toys
    # The limit, too, is only known as well as so many toys know it.
    return value, math.sqrt((value * (1 - value) + level * (1 - level) * 4) / toys)


def test_ideal_power_by_hand() -> None:
    """Against a slow computation that shares nothing with it, to 4 sd."""
    signal = replace(BULK, fraction=0.05)
    fast = expo1d.ideal_power(signal, 0.05, EXPECTED, rng=np.random.default_rng(3))
    slow, error = slow_ideal_power(0.05, 0.05, 1500, 4)
    assert 0.3 < slow < 0.97
    assert abs(fast.value - slow) < 4 * error


@pytest.mark.parametrize("fraction", [0.05, 0.2])
def test_the_ideal_test_is_a_bound(study: PowerStudy[float], fraction: float) -> None:
    """No statistic sees more than the test that knows the signal, to 3 sd of 60 toys."""
    signal = replace(BULK, fraction=fraction)
    bound = expo1d.ideal_power(signal, 0.05, EXPECTED, rng=np.random.default_rng(3)).value
    spread = 3 * math.sqrt(max(bound * (1 - bound), 0.01) / SIGNAL_TOYS)
    for name in STATISTICS:
        assert study.power(name, 0.05, fraction).value <= bound + spread
    if fraction == 0.05:
        assert study.power("all", 0.05, fraction).value < bound


def test_prepared_once_for_each_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys without and with any signal share what is prepared, and are those made on their own."""
    widths: list[float] = []
    features = Learner.features
    monkeypatch.setattr(
        Learner, "features", lambda self, width: widths.append(width) or features(self, width)
    )
    found, _ = studied(tmp_path / "together")
    assert widths == [0.3, 1.0]
    alone, _ = studied(tmp_path / "alone", FRACTIONS[1:2])
    fraction = FRACTIONS[1]
    assert found.signals[fraction].t.tobytes() == alone.signals[fraction].t.tobytes()
    assert found.null.t.tobytes() == alone.null.t.tobytes()
