"""The running statistics of a stream: the definitions, and the same bits after any interruption."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import FormatError, MemoryBudgetError, SettingsError
from gofstream.ratio.features import Features, prepare
from gofstream.ratio.model import LogRatios
from gofstream.ratio.solver import fit
from gofstream.statistics import next_, sat
from gofstream.stream.track import Track, Values

Floats = NDArray[np.float64]
EPOCH, WINDOW, SHRINK = 7, 3, 0.4


@dataclass
class Learnt:
    """A stream, and what was learnt from it."""

    features: Features
    share: Floats
    batches: list[Floats]
    expected: list[float]
    coefficients: Floats

    def ratios(self, first: int, stop: int) -> LogRatios:
        """Evaluate the models of a stretch where the definitions need them."""
        kept = self.coefficients[first:stop]
        z = np.linalg.solve(self.features.to_kernel, kept.T)
        return LogRatios(
            reference=self.features.log_ratio_reference(z).T,
            data=[self.features.log_ratio(x, z).T for x in self.batches[first:stop]],
            expected=np.array(self.expected[first:stop]),
            share=self.share,
        )

    def track(self) -> Track:
        """Begin."""
        return Track.begin(self.features, epoch=EPOCH, window=WINDOW, shrink=SHRINK)

    def add(self, track: Track, i: int) -> tuple[Track, Values]:
        """Take batch i."""
        return track.add(self.coefficients[i], self.expected[i], self.batches[i])


def stream(expected: list[float], *, weighted: bool = False, width: float = 0.5) -> Learnt:
    """Learn from batches, some with signal and one without events, one after another."""
    rng = np.random.default_rng(4)
    x = expo1d.reference(6000, rng)
    share = rng.uniform(0.5, 1.5, 6000) if weighted else np.ones(6000)
    share /= share.sum()
    features = prepare(
        x, x[:80], width, penalty=1e-5, expected=300.0, share=share if weighted else None
    )
    bulk = expo1d.SIGNALS["bulk"]
    batches = [expo1d.toy(n, rng, bulk, 0.02 * i) for i, n in enumerate(expected)]
    batches[4] = np.empty((0, 1))
    z = np.concatenate(
        [fit(features, [b], [n]).z for b, n in zip(batches, expected, strict=True)], axis=1
    )
    return Learnt(features, share, batches, expected, features.coefficients(z).T)


EQUAL = [300.0] * 19
UNEQUAL = [300.0, 500.0, 100.0, 200.0, 310.0, 290.0, 333.0, 50.0, 900.0] * 2 + [250.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("expected", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_values_equal_the_definitions(expected: list[float], weighted: bool) -> None:
    """Epoch, window and run after every batch, to 1e-5, over more than two epochs."""
    learnt = stream(expected, weighted=weighted)
    track = learnt.track()
    before = 0.0
    for n in range(1, len(expected) + 1):
        track, values = learnt.add(track, n - 1)
        first = (n - 1) // EPOCH * EPOCH
        assert values.step == n - first
        whole = learnt.ratios(first, n)
        assert values.t[0] == pytest.approx(sat(whole), rel=1e-5)
        assert values.t[1] == pytest.approx(next_(whole, SHRINK), rel=1e-5, abs=1e-5)
        if n >= WINDOW:
            part = learnt.ratios(n - WINDOW, n)
            assert values.t[2] == pytest.approx(sat(part), rel=1e-5)
            assert values.t[3] == pytest.approx(next_(part, SHRINK), rel=1e-5, abs=1e-5)
        else:
            assert np.isnan(values.t[2:]).all()
        assert values.run[0] == pytest.approx(sat(learnt.ratios(0, n)), rel=1e-5)
        assert values.run[1] == pytest.approx(before + next_(whole, SHRINK), rel=1e-5, abs=1e-5)
        if values.step == EPOCH:
            before = values.run[1]


def test_stretches_equal_the_definitions() -> None:
    """Every stretch that ends now and whose models are known, to 1e-5; no models, no stretch."""
    learnt = stream(UNEQUAL)
    track = learnt.track()
    assert track.stretches().shape == (2, 0)
    for n in range(1, 18):
        track, _ = learnt.add(track, n - 1)
        found = track.stretches()
        assert found.shape == (2, min(n, EPOCH))
        for length in range(1, found.shape[1] + 1):
            ratios = learnt.ratios(n - length, n)
            assert found[0, length - 1] == pytest.approx(sat(ratios), rel=1e-5)
            slow = next_(ratios, SHRINK)
            assert found[1, length - 1] == pytest.approx(slow, rel=1e-5, abs=1e-5)


def same(one: Values, other: Values) -> None:
    """Compare bit by bit."""
    assert one.step == other.step
    for a, b in ((one.t, other.t), (one.run, other.run), (one.scores, other.scores)):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("window", [1, 3, 9])
def test_taken_up_again_at_every_position(window: int) -> None:
    """From a state kept after any batch, by events or by scores: values and state, to the bit."""
    learnt = stream(UNEQUAL)
    empty = Track.begin(learnt.features, epoch=EPOCH, window=window, shrink=SHRINK)
    track, values, states = empty, [], [empty.state()]
    for i in range(len(UNEQUAL)):
        track, value = learnt.add(track, i)
        values.append(value)
        states.append(track.state())
    for start in range(len(UNEQUAL)):
        again = other = empty.restored(states[start])
        for i in range(start, len(UNEQUAL)):
            again, value = learnt.add(again, i)
            same(value, values[i])
            other, value = other.replay(learnt.coefficients[i], UNEQUAL[i], values[i].scores.copy())
            same(value, values[i])
            if i > start + 2 * window + 1:
                break
        for end in (again, other):
            for name, kept in states[i + 1].items():
                assert end.state()[name].tobytes() == kept.tobytes()
            assert end.stretches().tobytes() == empty.restored(states[i + 1]).stretches().tobytes()


def test_what_is_kept_does_not_grow() -> None:
    """The models of an epoch, and sums; nothing given is changed, nor what was there before."""
    learnt = stream(EQUAL)
    track = learnt.track()
    coefficients, events = learnt.coefficients.copy(), [x.copy() for x in learnt.batches]
    for i in range(len(EQUAL)):
        before = {name: array.copy() for name, array in track.state().items()}
        later, _ = learnt.add(track, i)
        for name, array in track.state().items():
            assert array.tobytes() == before[name].tobytes()
        track = later
        assert track.state()["expected"].shape == (min(i + 1, EPOCH),)
        assert track.on_ends.shape[0] in (0, WINDOW)
    assert (learnt.coefficients == coefficients).all()
    assert all((a == b).all() for a, b in zip(learnt.batches, events, strict=True))


def test_a_batch_that_is_not_watched() -> None:
    """It counts in the run, and changes nothing else, before the first batch as later."""
    learnt = stream(EQUAL)
    track, first = learnt.track().add(
        learnt.coefficients[0], 300.0, learnt.batches[0], watched=False
    )
    assert first.step == 0
    assert np.isnan(first.t).all()
    assert first.run[0] == pytest.approx(sat(learnt.ratios(0, 1)), rel=1e-5)
    for i in range(1, 6):
        track, before = learnt.add(track, i)
    track, after = track.add(learnt.coefficients[6], 300.0, learnt.batches[6], watched=False)
    assert after.step == before.step == 5
    assert after.t.tobytes() == before.t.tobytes()
    assert after.run[0] == pytest.approx(sat(learnt.ratios(0, 7)), rel=1e-5)
    assert after.run[1] == before.run[1]
    again = learnt.track().restored(track.state())
    same(learnt.add(again, 7)[1], learnt.add(track, 7)[1])


def test_a_ratio_beyond_all_bounds_is_capped() -> None:
    """Coefficients that no data support give finite numbers, large and small ones alike."""
    learnt = stream(EQUAL)
    track = learnt.track()
    for factor in (1e3, -1e3, 1.0):
        track, values = track.add(
            factor * learnt.coefficients[8], 300.0, learnt.batches[1], watched=True
        )
        assert np.isfinite(values.t[:2]).all()
    assert np.isfinite(values.t).all()
    assert np.isfinite(track.stretches()).all()


def test_foreign_states_are_refused() -> None:
    """The text says which array does not fit, or that the lengths differ."""
    learnt = stream(EQUAL)
    track = learnt.track()
    for i in range(9):
        track, _ = learnt.add(track, i)
    state = track.state()
    for name in state:
        with pytest.raises(FormatError, match=f"{name}' should be float64 .*, but is missing"):
            learnt.track().restored({k: v for k, v in state.items() if k != name})
    with pytest.raises(FormatError, match="'run' should be float64"):
        learnt.track().restored(state | {"run": state["run"].astype(np.float32)})
    with pytest.raises(FormatError, match=r"width 1\.5 cannot be used: 'coefficients'"):
        stream(EQUAL, width=1.5).track().restored(state)
    longer = Track.begin(learnt.features, epoch=8, window=WINDOW)
    with pytest.raises(FormatError, match=r"knows 7 batches, but an epoch of 8 .* need 8"):
        longer.restored(state)


def test_lengths_and_memory_are_checked() -> None:
    """Before anything is allocated."""
    features = stream(EQUAL).features
    with pytest.raises(SettingsError, match="epoch is 0"):
        Track.begin(features, epoch=0)
    with pytest.raises(SettingsError, match="window is 0"):
        Track.begin(features, window=0)
    with pytest.raises(MemoryBudgetError, match="shorter window"):
        Track.begin(features, window=10_000, memory=10**8)
