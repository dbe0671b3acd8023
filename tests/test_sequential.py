"""Alarms: the scale by loops, the boundary by counting, its promise by simulation, dates, files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.errors import FormatError, InputError, SettingsError
from gofstream.execution import thread_workers
from gofstream.inference.scale import FAMILIES, LEAST_SKEWNESS, Scale
from gofstream.inference.sequential import Boundary, alpha_for, e_value
from gofstream_studies.validation.alarms import StreamSize, measure
from gofstream_studies.validation.picture import draw_alarms

Floats = NDArray[np.float64]


def streams(count: int, seed: int, steps: int = 12) -> Floats:
    """Draw t that wander from step to step, of two widths; `next` of one batch is nothing."""
    rng = np.random.default_rng(seed)
    t = np.empty((count, 4, 2, steps))
    sums = np.cumsum(rng.normal(size=(count, 2, 2, steps, 3)), axis=3)
    t[:, ::2] = (sums**2).sum(axis=4) / np.arange(1, steps + 1)
    t[:, 1::2] = sums[..., 0] - 0.3 * np.arange(steps)
    t[:, 2:] = rng.gamma(3.0, size=(count, 2, 2, steps)) - 1.0  # a window that is stationary
    t[:, 1, :, 0] = 0
    return t


def slow_scale(t: Floats, family: int, width: int, step: int) -> tuple[float, float, float]:
    """Give (low, mean and spread of the root) by the words of the definition."""
    window = FAMILIES[family].startswith("window")
    steps = t.shape[3]
    values = [
        t[:, family, width].ravel() if window else t[:, family, width, k] for k in range(steps)
    ]
    cubes = []
    for k in range(steps):
        centred = t[:, family, width, k] - values[k].mean()
        spread = values[k].std(ddof=1)
        cubes.append(0.0 if spread == 0 else np.mean((centred / spread) ** 3))
    skewness = max(float(np.mean(cubes)), LEAST_SKEWNESS)
    low = values[step].mean() - 2 * values[step].std(ddof=1) / skewness
    lows = low if window else np.full(len(t), low)
    root = np.sqrt(np.maximum(values[step] - lows, 0))
    return float(low), float(root.mean()), float(root.std(ddof=1))


def test_scale_by_loops() -> None:
    """Root and identity, of epochs step by step and of windows over all steps, to 1e-9."""
    t = streams(60, 1)
    scale = Scale.learn(t)
    new = streams(5, 2)
    u = scale.u(new)
    for family in range(4):
        for width in range(2):
            for step in range(12):
                low, mean, spread = slow_scale(t, family, width, step)
                assert scale.low[family, width, step] == pytest.approx(low, rel=1e-9)
                value: Floats = np.sqrt(np.maximum(new[:, family, width, step] - low, 0))
                if not scale.root[family]:
                    own = t[:, family, width, step]
                    own = t[:, family, width].ravel() if family >= 2 else own
                    value, mean, spread = new[:, family, width, step], own.mean(), own.std(ddof=1)
                if family == 1 and step == 0:
                    assert (u[:, family, width, step] == -np.inf).all()
                    continue
                assert scale.mean[family, width, step] == pytest.approx(mean, rel=1e-9, abs=1e-9)
                assert scale.spread[family, width, step] == pytest.approx(spread, rel=1e-9)
                slow = (value - mean) / spread
                assert u[:, family, width, step] == pytest.approx(slow, rel=1e-9, abs=1e-9)


def test_the_root_is_taken_where_it_helps() -> None:
    """Of a χ² it is, above its lower end at zero; of a law that leans the other way it is not."""
    rng = np.random.default_rng(5)
    t = rng.chisquare(6, size=(2000, 4, 1, 5))
    scale = Scale.learn(t)
    assert scale.root == (True,) * 4
    assert np.abs(scale.low).max() < 1.0  # the spread of t is 3.5
    # The root of a χ² of 6 degrees of freedom has a skewness of 0.29; the χ² itself, of 1.15.
    assert abs(float(stats.skew(scale.u(t).ravel()))) < 0.4
    assert float(stats.skew(t.ravel())) > 1.0
    assert Scale.learn(-t).root == (False,) * 4


def test_too_few_streams_for_a_scale() -> None:
    """Nineteen are refused."""
    with pytest.raises(InputError, match="19 null streams are too few"):
        Scale.learn(streams(19, 1))
    Scale.learn(streams(20, 1))


def test_level_by_counting() -> None:
    """The ⌈(1-α)(B+1)⌉-th smallest of the largest u; exactly so many of B are above."""
    a, b = streams(50, 1), streams(99, 2)
    for alpha, above in ((0.05, 4), (0.01, 0), (0.2, 19), (0.055, 4)):
        boundary = Boundary.learn(a, b, alpha)
        largest = [
            max(boundary.look(stream[:, :, k], k + 1).highest for k in range(12)) for stream in b
        ]
        assert boundary.level in largest
        assert sum(value > boundary.level for value in largest) == above
        alarmed = [
            any(boundary.look(stream[:, :, k], k + 1).alarm for k in range(12)) for stream in b
        ]
        assert sum(alarmed) == above


def test_the_least_number_of_streams() -> None:
    """1/α - 1 of them; and A and B must be alike."""
    a, b = streams(30, 1), streams(99, 2)
    Boundary.learn(a, b, 0.01)
    with pytest.raises(InputError, match=r"98 null streams cannot .* 0\.01 .* at least 99"):
        Boundary.learn(a, b[:98], 0.01)
    with pytest.raises(InputError, match="with the same plan"):
        Boundary.learn(a[..., :5], b, 0.05)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(SettingsError, match="alpha is"):
            Boundary.learn(a, b, alpha)


def test_the_promise_by_simulation() -> None:
    """400 boundaries from 20 + 39 streams, 200 epochs each: mean rate, and its spread.

    The rate of one boundary is Beta(2, 38): mean 0.05, standard deviation 0.034. Its mean over 400
    is known to 0.0017, and 4 of these are allowed; a Kolmogorov-Smirnov test sees the whole law.
    """
    rates = []
    for k in range(400):
        t = streams(259, 100 + k, steps=4)
        boundary = Boundary.learn(t[:20], t[20:59], 0.05)
        highest = boundary.scale.u(t[59:]).max(axis=(1, 2, 3))
        rates.append(np.mean(highest > boundary.level))
    assert abs(np.mean(rates) - 0.05) < 0.007
    law = stats.beta(2, 38)
    # The 200 epochs blur the rate: the law that is seen is a beta-binomial one.
    hits = np.rint(np.array(rates) * 200).astype(int)
    seen = np.bincount(hits, minlength=201).cumsum() / 400
    expected = stats.betabinom.cdf(np.arange(201), 200, 2, 38)
    assert np.abs(seen - expected).max() < 1.63 / math.sqrt(400)  # 1 % of such tests exceed it
    promised = boundary.false_alarms
    assert promised.rate == pytest.approx(0.05)
    assert (promised.low, promised.high) == pytest.approx((law.ppf(0.025), law.ppf(0.975)))


def test_the_first_epoch_is_covered() -> None:
    """Without a window at its first steps an epoch is never higher, stream by stream."""
    boundary = Boundary.learn(streams(40, 1), streams(99, 2), 0.05)
    t = streams(300, 3)
    first = t.copy()
    first[:, 2:, :, :4] = np.nan
    later, earlier = (boundary.scale.u(x).max(axis=(1, 2, 3)) for x in (t, first))
    assert (earlier <= later).all()
    assert (earlier < later).any()
    look = boundary.look(first[0, :, :, 2], 3)
    assert (look.u[2:] == -np.inf).all()
    assert np.isfinite(look.u[:2]).all()


def test_a_look_names_what_is_highest() -> None:
    """The family and the width; a look with nothing to see does not alarm."""
    boundary = Boundary.learn(streams(40, 1), streams(99, 2), 0.05)
    for family in range(4):
        for width in range(2):
            t = boundary.scale.mean[:, :, 5].copy()
            t[family, width] = 1e6
            look = boundary.look(t, 6)
            assert (look.family, look.width, look.alarm) == (FAMILIES[family], width, True)
    for step in (0, 13):
        with pytest.raises(InputError, match="epochs of 12 batches"):
            boundary.look(t, step)
    nothing = boundary.look(np.full((4, 2), np.nan), 6)
    assert (nothing.highest, nothing.alarm) == (-np.inf, False)


def test_date_by_hand() -> None:
    """The length with the largest u, by a loop over looks; none is longer than an epoch."""
    boundary = Boundary.learn(streams(40, 1), streams(99, 2), 0.05)
    rng = np.random.default_rng(7)
    for _ in range(20):
        stretches = rng.gamma(3.0, size=(2, 2, 15))
        best = (-math.inf, 0, 0, 0)
        for length in range(1, 13):
            t = np.full((4, 2), np.nan)
            t[:2] = stretches[:, :, length - 1]
            u = boundary.look(t, length).u
            for family in range(2):
                for width in range(2):
                    best = max(best, (u[family, width], length, family, width))
        date = boundary.date(stretches)
        assert (date.u, date.batches, date.width) == (best[0], best[1], best[3])
        assert date.family == FAMILIES[best[2]]


def test_kept_and_read_again() -> None:
    """To the last bit, and the same text again."""
    boundary = Boundary.learn(streams(40, 1), streams(99, 2), 0.05, {"seed": 1})
    text = boundary.to_json()
    again = Boundary.from_json(text)
    assert again.to_json() == text
    assert again.about == {"seed": 1}
    assert (again.level, again.alpha, again.streams) == (boundary.level, 0.05, 99)
    assert again.epoch == 12
    t = streams(10, 3)
    assert again.scale.u(t).tobytes() == boundary.scale.u(t).tobytes()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "version 2 .* calibrate again"),
        ({"format": "other"}, "'other' version 1"),
        ({"families": ["sat"]}, "calibrate again"),
        ({"root": [True]}, "other families than it says"),
        ({"mean": [[[0.0]]]}, "do not fit together"),
        ({"low": "many"}, "not a readable alarm boundary"),
        ({"level": None}, "not a readable alarm boundary"),
    ],
)
def test_foreign_texts_are_refused(change: dict[str, Any], why: str) -> None:
    """The text says why."""
    text = Boundary.learn(streams(40, 1), streams(99, 2), 0.05).to_json()
    with pytest.raises(FormatError, match=why):
        Boundary.from_json(json.dumps(json.loads(text) | change))
    for cut in (0, 1, len(text) // 2, len(text) - 1):
        with pytest.raises(FormatError, match="not a readable alarm boundary"):
            Boundary.from_json(text[:cut])


def test_the_dial() -> None:
    """One false alarm in N batches; never more than one in an epoch."""
    assert alpha_for(100, 10_000) == pytest.approx(0.01)
    with pytest.raises(SettingsError, match="more than one in an epoch of 100"):
        alpha_for(100, 100)


def test_e_value() -> None:
    """The mean of e^{t/2}; finite whatever t; with a small reference, a caveat beside it."""
    found = e_value([2 * math.log(3.0), 2 * math.log(5.0)], 1000, 500.0)
    assert found.value == pytest.approx(4.0)
    assert not found.trusted
    assert found.rows_per_event == 2.0
    assert e_value([0.0], 1000, 10.0).trusted
    assert math.isfinite(e_value([1e9], 1, 1.0).value)
    assert e_value([-1e9], 1, 1.0).value == 0


def test_a_whole_case_in_miniature(tmp_path: Path) -> None:
    """20 + 39 streams of 3 + 20 batches of 50 events; 60 are looked at, 4 have a strong signal.

    At α = 5 % and 60 streams the standard deviation of the rate is 4 %, of which 3 are allowed;
    naive looks alarm far more often. The signal begins at step 9 of 20.
    """
    size = StreamSize(
        n_reference=2000,
        expected=50.0,
        centres=30,
        widths=(0.4, 1.5),
        epoch=20,
        window=3,
        streams_a=20,
        streams_b=39,
        streams=60,
        with_signal=4,
        fraction=0.5,
        begins=9,
    )
    with thread_workers(2) as executor:
        found = measure(size, 1, tmp_path, executor, lambda done, total: None)
        again = measure(size, 1, tmp_path, executor, lambda done, total: None)
    assert again.summary() == found.summary()
    summary = found.summary()
    assert abs(summary["false alarms"]["rate"] - 0.05) < 0.12
    assert summary["naive false alarms"]["rate"] > 0.2
    assert summary["found"]["rate"] >= 0.75
    assert summary["median delay"] <= 4
    assert summary["median dating error"] <= 2
    assert [check.p > 0.01 for check in found.checks()] == [True] * 3
    assert found.false_alarms(found.naive).p < 0.01
    assert len(draw_alarms({1: found}).axes) == 3
