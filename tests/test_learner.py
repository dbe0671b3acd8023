"""From samples to learnt ratios, end to end on small samples in two dimensions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.errors import (
    ColumnError,
    EmptyError,
    GofstreamWarning,
    InputError,
    MemoryBudgetError,
    WeightError,
)
from gofstream.ratio import penalty
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner, Learnt
from gofstream.ratio.model import Aggregate
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import log_mean_exp, single

Floats = NDArray[np.float64]

COLUMNS = ["mass", "pt"]
SIZES, EXPECTED = (140, 0, 170, 90), (120.0, 20.0, 150.0, 90.0)
PLAIN = Settings.of(widths=[1.0], n_centres=60, precision="float64", penalty=1e-5)


def draw(rng: np.random.Generator, rows: int, shift: float = 0.0) -> Floats:
    """Draw correlated events of two columns in units far apart."""
    mass = rng.normal(90 + 3 * shift, 3, rows)
    return np.column_stack([mass, rng.gamma(2, 0.01 * mass, rows)])


def nominal(rows: int = 3000, seed: int = 1, *, weighted: bool = False) -> Sample:
    """Draw a reference, perhaps with weights of which some are zero."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(4, size=rows) * (rng.uniform(size=rows) > 0.1) if weighted else None
    return Sample.from_array(draw(rng, rows), COLUMNS, weights=weights, name="reference")


def observed(seed: int = 2, sizes: Sequence[int] = SIZES) -> list[Sample]:
    """Draw batches that depart from the reference a little, one of them empty."""
    rng = np.random.default_rng(seed)
    return [
        Sample.from_array(draw(rng, n, 0.3), COLUMNS, name=f"batch {i}")
        for i, n in enumerate(sizes)
    ]


def prepared(
    reference: Sample | None = None,
    settings: Settings = PLAIN,
    *,
    seed: int = 3,
    expected: float = 120.0,
    data: Sequence[Sample] = (),
) -> Learner:
    """Make a learner with a seed."""
    rng = np.random.default_rng(seed)
    learner = Learner.prepare(
        nominal() if reference is None else reference, settings, expected=expected, rng=rng
    )
    return learner.centred_on(learner.scaled(data), rng) if data else learner


def learnt(
    learner: Learner, batches: Sequence[Sample], expected: Sequence[float] = EXPECTED
) -> Learnt:
    """Learn at the first width."""
    return learner.learn(learner.features(learner.widths[0]), batches, expected)


@pytest.fixture(
    scope="module", params=[(p, w) for p in ("float64", "float32") for w in (False, True)], ids=str
)
def study(request: pytest.FixtureRequest) -> tuple[str, Learner, list[Sample], Learnt]:
    """Learn four batches in either precision, against a plain and a weighted reference."""
    precision, weighted = request.param
    learner = prepared(nominal(weighted=weighted), PLAIN.changed(precision=precision))
    batches = observed()
    return precision, learner, batches, learnt(learner, batches)


def test_shapes_and_flags(study: tuple[str, Learner, list[Sample], Learnt]) -> None:
    """There is one model, one fit and one row of ratios for each batch."""
    _, learner, _, result = study
    assert result.fit.converged.all()
    assert len(result.models) == 4
    assert result.ratios.reference.shape == (4, 3000)
    assert [f.shape for f in result.ratios.data] == [(4, n) for n in SIZES]
    assert result.ratios.expected.tolist() == list(EXPECTED)
    np.testing.assert_allclose(result.ratios.share, learner.sample.share, rtol=1e-14)
    for model, expected in zip(result.models, EXPECTED, strict=True):
        assert (model.width, model.expected, model.converged) == (1.0, expected, True)
        assert model.reference == learner.sample.digest()
        assert model.settings == learner.settings
        assert model.scaling is learner.scaling


def test_models_say_what_the_ratios_say(
    study: tuple[str, Learner, list[Sample], Learnt],
) -> None:
    """The fitted numbers, and the stored models on the user's own events, agree."""
    precision, learner, batches, result = study
    tolerance = {"float64": 1e-6, "float32": 1e-4}[precision]
    for i, model in enumerate(result.models):
        on_reference = model(learner.sample)
        scale = float(np.abs(on_reference).max())
        assert scale > 0.1
        np.testing.assert_allclose(
            result.ratios.reference[i], on_reference, rtol=0, atol=tolerance * scale
        )
        for batch, f in zip(batches, result.ratios.data, strict=True):
            np.testing.assert_allclose(f[i], model(batch), rtol=0, atol=tolerance * scale)


def test_t_is_the_single_statistic(study: tuple[str, Learner, list[Sample], Learnt]) -> None:
    """The fit reports the very statistic that follows from its ratios."""
    precision, _, _, result = study
    # In units of the two sums whose difference t is: events and expected events.
    tolerance = {"float64": 1e-9, "float32": 1e-5}[precision]
    for i, (n, expected) in enumerate(zip(SIZES, EXPECTED, strict=True)):
        scale = 2 * (n + expected)
        assert result.fit.t[i] == pytest.approx(single(result.ratios, i), abs=tolerance * scale)
    assert result.fit.t[0] > 1


def test_aggregate_of_the_models(study: tuple[str, Learner, list[Sample], Learnt]) -> None:
    """F from the models is F from the ratios."""
    precision, learner, _, result = study
    aggregate = Aggregate()
    for model in result.models:
        aggregate = aggregate.add(model)
    expected = log_mean_exp(result.ratios.reference, result.ratios.expected)
    tolerance = {"float64": 1e-6, "float32": 1e-4}[precision] * float(np.abs(expected).max())
    np.testing.assert_allclose(aggregate(learner.sample), expected, rtol=0, atol=tolerance)


def test_precisions_agree() -> None:
    """Single precision gives the same t to a part in a thousand."""
    batches = observed()
    double, float_ = (
        learnt(prepared(settings=PLAIN.changed(precision=p)), batches).fit.t
        for p in ("float64", "float32")
    )
    np.testing.assert_allclose(float_, double, rtol=1e-3)


def test_learns_the_truth() -> None:
    """A batch with events missing on one side has f below zero there and not elsewhere."""
    rng = np.random.default_rng(4)
    reference = Sample.from_array(rng.uniform(-1, 1, (20_000, 2)), COLUMNS)
    x = rng.uniform(-1, 1, (2000, 2))
    kept = x[(x[:, 0] > 0) | (rng.uniform(size=2000) < 0.5)]
    learner = prepared(reference, PLAIN, expected=2000.0)
    result = learnt(learner, [Sample.from_array(kept, COLUMNS)], [2000.0])
    at = Sample.from_array([[-0.6, 0.0], [0.6, 0.0]], COLUMNS)
    # 500 events left on one side of 1000: the statistical error of log ½ is about 0.1.
    np.testing.assert_allclose(result.models[0](at), [-math.log(2), 0], atol=0.3)


# -- what goes in -----------------------------------------------------------------------------


def test_reordered_columns() -> None:
    """Columns are found by name, those too many are left out: t is the same to the last bit."""
    learner, batches = prepared(), observed()
    swapped = [
        Sample.from_columns(
            {"pt": b.values[:, 1], "extra": np.arange(len(b)), "mass": b.values[:, 0]}
        )
        for b in batches
    ]
    expected = learnt(learner, batches).fit.t
    np.testing.assert_array_equal(learnt(learner, swapped).fit.t, expected)
    # The test can fail: columns with their names exchanged are other events.
    wrong = [Sample.from_array(b.values[:, ::-1], COLUMNS) for b in batches]
    assert abs(learnt(learner, wrong).fit.t[0] - expected[0]) > 1


def test_reordered_columns_for_pooled_centres() -> None:
    """The same where centres are taken from the data."""
    settings, batches = PLAIN.changed(centres_from="pooled"), observed()
    swapped = [Sample.from_array(b.values[:, ::-1], COLUMNS[::-1]) for b in batches]
    np.testing.assert_array_equal(
        prepared(settings=settings, data=swapped).candidates,
        prepared(settings=settings, data=batches).candidates,
    )


def test_weights_on_data() -> None:
    """Refused, by both ways in."""
    weighted = Sample.from_array(np.ones((2, 2)), COLUMNS, weights=[1, 2], name="batch 7")
    with pytest.raises(WeightError, match=r"'batch 7': data cannot carry event weights.*drop"):
        learnt(prepared(), [weighted], [2.0])
    with pytest.raises(WeightError, match="'batch 7'"):
        prepared(settings=PLAIN.changed(cover=True), data=[weighted])


def test_missing_column() -> None:
    """The text names the sample, the column and the likely misspelling."""
    batch = Sample.from_array(np.ones((2, 2)), ["Mass", "pt"], name="batch 7")
    with pytest.raises(ColumnError, match=r"'batch 7' lacks .*'mass' \(nearest: 'Mass'\)"):
        learnt(prepared(), [batch], [2.0])


@pytest.mark.parametrize("expected", [[], [100.0], [100.0] * 5])
def test_wrong_number_of_expected_counts(expected: list[float]) -> None:
    """Both numbers are named."""
    with pytest.raises(InputError, match=f"^expected has {len(expected)} numbers; give 4, "):
        learnt(prepared(), observed(), expected)


@pytest.mark.parametrize("bad", [0.0, -5.0, math.nan, math.inf])
def test_preparing_for_an_expected_count_that_is_not_positive(bad: float) -> None:
    """It is refused before any work."""
    reference = Sample.from_array(np.random.default_rng(1).normal(size=(50, 2)))
    with pytest.raises(InputError, match=rf"expected is {bad}; give a positive and finite"):
        Learner.prepare(reference, Settings(), expected=bad, rng=np.random.default_rng(2))


@pytest.mark.parametrize("bad", [0.0, -3.0, math.nan, math.inf])
def test_expected_counts_that_are_not_positive(bad: float) -> None:
    """The counts are shown."""
    with pytest.raises(InputError, match=rf"expected\[1\] is {bad}; give a positive"):
        learnt(prepared(), observed(sizes=(100, 100)), [100.0, bad])


def test_no_data_at_all() -> None:
    """Empty batches are fine, but not if all are."""
    learner = prepared()
    with pytest.raises(EmptyError, match="the data have no rows"):
        learnt(learner, observed(sizes=(0, 0)), [1.0, 1.0])
    with pytest.raises(EmptyError, match="the data have no rows"):
        learnt(learner, [], [])


@pytest.mark.parametrize("changes", [{"centres_from": "pooled"}, {"cover": True}], ids=str)
def test_data_dependent_settings_need_data(changes: dict[str, Any]) -> None:
    """The settings at fault and the remedy are named."""
    settings = PLAIN.changed(**changes)
    with pytest.raises(InputError, match=r"`centres_from` or `cover`.*with `centred_on` first"):
        prepared(settings=settings).features(0.5)
    assert len(prepared(settings=settings, data=observed()).candidates) >= 60


def test_small_reference_warns() -> None:
    """Fewer than five rows for each event are felt, and said."""
    batches = observed(sizes=(100, 101))
    with pytest.warns(GofstreamWarning, match=r"1000 rows for 201 data events.*at least 1005"):
        result = learnt(prepared(nominal(1000)), batches, [100.0, 100.0])
    assert result.fit.converged.all()
    # 1005 rows are enough: here a warning would be an error.
    learnt(prepared(nominal(1005)), batches, [100.0, 100.0])


def test_memory_budget() -> None:
    """What does not fit is refused before it is made."""
    with pytest.raises(MemoryBudgetError, match="the features and the learnt log ratios"):
        learnt(prepared(settings=PLAIN.changed(memory=5_000_000)), observed())


# -- columns that are not plain ----------------------------------------------------------------


def ring(values: Floats, *, periodic: bool, name: str = "sample") -> Sample:
    """Give angles and a second column to a sample."""
    return Sample.from_array(values, ["phi", "y"], periodic=["phi"] if periodic else [], name=name)


def test_periodic_column() -> None:
    """Just above -π and just below +π are neighbours, which a plain column does not know."""
    rng = np.random.default_rng(5)
    turn = np.column_stack([rng.uniform(-math.pi, math.pi, 4000), rng.normal(size=4000)])
    # Extra events on one side of the seam only.
    extra = np.column_stack([rng.uniform(math.pi - 0.3, math.pi, 200), rng.normal(size=200)])
    batch = np.concatenate([turn[rng.choice(4000, 300)], extra])
    at = np.array([[math.pi - 1e-9, 0.0], [-math.pi + 1e-9, 0.0], [-math.pi + 0.05, 0.0]])
    below, above, beyond = {}, {}, {}
    for periodic in (True, False):
        learner = prepared(ring(turn, periodic=periodic), PLAIN, expected=300.0)
        # The reference alone says which columns are angles.
        result = learnt(learner, [ring(batch, periodic=False)], [300.0])
        assert result.fit.converged.all()
        values = result.models[0](ring(at, periodic=False)).tolist()
        below[periodic], above[periodic], beyond[periodic] = values
    assert learner.reference.shape == (4000, 2)
    # Found: 1.92, 1.92, 1.74 with the angle as such, and 2.82, 0.22, 0.17 without.
    assert min(below.values()) > 1.5
    assert above[True] == pytest.approx(below[True], abs=1e-6)
    assert beyond[True] > 1.2
    assert max(above[False], beyond[False]) < 0.6


def test_a_full_turn_changes_nothing() -> None:
    """Angles of data may be counted from 0 where the reference starts at -π."""
    rng = np.random.default_rng(6)
    turn = np.column_stack([rng.uniform(-math.pi, math.pi, 2000), rng.normal(size=2000)])
    batch = turn[:200] * [1.0, 1.1]
    moved = np.column_stack([batch[:, 0] % (2 * math.pi), batch[:, 1]])
    learner = prepared(ring(turn, periodic=True), expected=200.0)
    here, there = (learnt(learner, [ring(x, periodic=True)], [200.0]).fit.t for x in (batch, moved))
    np.testing.assert_allclose(there, here, rtol=1e-8)
    degrees = [
        Sample.from_array(x * [180 / math.pi, 1.0], ["phi", "y"], periodic={"phi": 360})
        for x in (turn, moved)
    ]
    learner = prepared(degrees[0], expected=200.0)
    there = learnt(learner, degrees[1:], [200.0]).fit.t
    np.testing.assert_allclose(there, here, rtol=1e-4)


def test_constant_column() -> None:
    """It is announced, changes nothing, and data that differ there are reported."""
    plain, batches = nominal(), observed()

    def widened(sample: Sample, value: float) -> Sample:
        columns = {"mass": sample.values[:, 0], "pt": sample.values[:, 1]}
        return Sample.from_columns(columns | {"eta": np.full(len(sample), value)}, name=sample.name)

    with pytest.warns(GofstreamWarning, match=r"'reference', column 'eta'.*same value") as caught:
        learner = prepared(widened(plain, 0.1))
    assert len(caught) == 1
    result = learnt(learner, [widened(b, 0.1) for b in batches])
    np.testing.assert_allclose(result.fit.t, learnt(prepared(plain), batches).fit.t, rtol=1e-7)
    with pytest.warns(GofstreamWarning, match=r"'batch 0', column 'eta': 140 of 140 events differ"):
        other = learnt(learner, [widened(batches[0], 5.0)], [120.0])
    # Five widths from every centre the events cannot be seen: they count as missing.
    assert other.fit.uncovered.tolist() == [140]


# -- choices ----------------------------------------------------------------------------------


def far_batch() -> tuple[Sample, int]:
    """Draw a batch with eleven events far from the reference, in three clumps."""
    rng = np.random.default_rng(7)
    clumps = [
        rng.normal(middle, 0.1, size=(n, 2))
        for middle, n in (([200, 2], 4), ([210, 2], 3), ([90, 60], 4))
    ]
    return Sample.from_array(np.concatenate([draw(rng, 120), *clumps]), COLUMNS), 11


def test_cover() -> None:
    """Events no centre can see are counted, and seen once centres are added for them."""
    batch, far = far_batch()
    settings = PLAIN.changed(widths=[0.8, 2.0])
    blind = prepared(settings=settings, data=[batch])
    seeing = prepared(settings=settings.changed(cover=True), data=[batch])
    # Two of the clumps are 3.3 apart, more than three of the smaller width: each needs a centre.
    assert len(seeing.candidates) - len(blind.candidates) == 3
    np.testing.assert_array_equal(seeing.candidates[: len(blind.candidates)], blind.candidates)
    for width in settings.widths or ():
        without = blind.learn(blind.features(width), [batch], [120.0])
        with_ = seeing.learn(seeing.features(width), [batch], [120.0])
        assert without.fit.uncovered.tolist() == [far]
        assert with_.fit.uncovered.tolist() == [0]
        assert with_.fit.converged.all()
        # Eleven events that the reference excludes: f is large on them, and so is t.
        assert with_.fit.t[0] > without.fit.t[0] + 50
        np.testing.assert_allclose(without.ratios.data[0][0, -far:], 0, atol=1e-12)
        assert with_.ratios.data[0][0, -far:].min() > 2


def test_uncovered_by_brute_force() -> None:
    """An event is uncovered if it lies beyond three widths of every centre."""
    batch, _ = far_batch()
    learner = prepared(settings=PLAIN.changed(widths=[0.3]), data=[batch])
    features = learner.features(0.3)
    events = learner.scaling.apply(batch).tolist()
    count = sum(all(math.dist(x, c) > 3 * 0.3 for c in features.centres.tolist()) for x in events)
    assert count > 11
    assert learner.learn(features, [batch], [120.0]).fit.uncovered.tolist() == [count]


def test_pooled_centres() -> None:
    """Centres from reference and data together contain some of each, and only those."""
    settings = PLAIN.changed(centres_from="pooled", n_centres=600)
    batches = observed()
    learner = prepared(settings=settings, data=batches)
    reference = set(map(tuple, learner.reference[:].tolist()))
    data = {x for b in batches for x in map(tuple, learner.scaling.apply(b).tolist())}
    centres = set(map(tuple, learner.candidates.tolist()))
    assert len(centres) == 600
    assert centres <= reference | data
    # 400 of 3400 rows are data: 71 of 600 centres are expected, with a spread of 7.
    assert len(centres & data) == pytest.approx(71, abs=28)
    plain = prepared(settings=settings.changed(centres_from="reference"), data=batches)
    assert set(map(tuple, plain.candidates.tolist())) <= reference


def test_number_of_centres() -> None:
    """By default c √N, rounded up, with N the reference and the expected events."""
    settings = PLAIN.changed(n_centres=None, centre_factor=2.0)
    assert len(prepared(settings=settings, expected=500.0).candidates) == math.ceil(
        2 * math.sqrt(3500)
    )


def test_smallest_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ladder is climbed from below, every rung recorded, and the last one used."""
    monkeypatch.setattr(penalty, "PASSES", 15)  # so that low rungs fail, however good the solver
    learner = prepared(settings=PLAIN.changed(penalty="smallest"))
    trials = learner.penalty_trials
    assert [trial.penalty for trial in trials] == list(penalty.LADDER[: len(trials)])
    assert [trial.stable for trial in trials] == [False] * (len(trials) - 1) + [True]
    assert len(trials) > 1
    assert all("not converged after 15 passes" in trial.reason for trial in trials[:-1])
    assert trials[-1].reason == ""
    assert learner.penalty == trials[-1].penalty
    features = learner.features(1.0)
    assert features.penalty == learner.penalty
    assert learner.learn(features, observed(), EXPECTED).fit.converged.all()
    given = prepared()
    assert (given.penalty, given.penalty_trials) == (1e-5, ())


def test_penalty_does_not_look_at_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data passed along change neither the penalty nor the centres, unless asked to."""
    monkeypatch.setattr(penalty, "PASSES", 15)
    settings = PLAIN.changed(penalty="smallest")
    without, with_ = prepared(settings=settings), prepared(settings=settings, data=observed())
    assert without.penalty_trials == with_.penalty_trials
    np.testing.assert_array_equal(without.candidates, with_.candidates)


def test_seed() -> None:
    """The same seed gives the same bits; another one, other centres and nearly the same t."""
    settings, batches = PLAIN.changed(widths=None), observed()
    first, again, other = (prepared(settings=settings, seed=seed) for seed in (8, 8, 9))
    assert first.widths == again.widths
    np.testing.assert_array_equal(first.candidates, again.candidates)
    assert not np.array_equal(first.candidates, other.candidates)
    t = [
        learner.learn(learner.features(learner.widths[2]), batches, EXPECTED).fit.t
        for learner in (first, again, other)
    ]
    np.testing.assert_array_equal(t[0], t[1])
    assert not np.array_equal(t[0], t[2])
    np.testing.assert_allclose(t[0], t[2], rtol=0.05)


def test_solver_settings_arrive() -> None:
    """One step, passes and tolerance are handed to the solver."""
    batches = observed()
    full = learnt(prepared(), batches).fit
    step = learnt(prepared(settings=PLAIN.changed(one_step=True)), batches)
    assert step.fit.passes.tolist() == [1] * 4
    assert not any(model.converged for model in step.models)
    assert full.t[0] * 0.5 < step.fit.t[0] < full.t[0]
    short = learnt(prepared(settings=PLAIN.changed(max_passes=1)), batches)
    assert short.fit.passes.tolist() == [1] * 4
    assert not short.fit.converged[0]
    assert not short.models[0].converged
    loose = learnt(prepared(settings=PLAIN.changed(tolerance=0.1)), batches).fit
    assert loose.converged.all()
    assert loose.passes.sum() < full.passes.sum()


# -- nothing is changed on the way ---------------------------------------------------------------


def arrays_of(learner: Learner, features: Features) -> list[Floats]:
    """All arrays that fits share."""
    shared = [learner.sample.values, learner.candidates]
    shared += [learner.scaling.shift, learner.scaling.scale]
    shared += [features.psi, features.mean, features.to_kernel, features.s, features.centres]
    return shared + [a for a in (learner.share, features.share) if a is not None]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_inputs_are_left_alone(precision: str) -> None:
    """A second use of learner, features and batches finds them as they were."""
    reference, batches = nominal(weighted=True), observed()
    expected = list(EXPECTED)
    learner = prepared(reference, PLAIN.changed(precision=precision))
    features = learner.features(1.0)
    before = [array.copy() for array in arrays_of(learner, features)]
    digests = [sample.digest() for sample in (reference, *batches)]
    first = learner.learn(features, batches, expected)
    for array, copy in zip(arrays_of(learner, features), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert [sample.digest() for sample in (reference, *batches)] == digests
    assert expected == list(EXPECTED)
    np.testing.assert_array_equal(learner.learn(features, batches, expected).fit.t, first.fit.t)


def test_batches_do_not_feel_each_other() -> None:
    """Fitted together or alone, in one order or the other, t is the same."""
    learner, batches = prepared(), observed()
    features = learner.features(1.0)
    together = learner.learn(features, batches, EXPECTED).fit.t
    backwards = learner.learn(features, batches[::-1], EXPECTED[::-1]).fit.t
    np.testing.assert_allclose(backwards[::-1], together, rtol=1e-7)
    for i in (0, 2, 3):
        alone = learner.learn(features, [batches[i]], [EXPECTED[i]]).fit.t
        np.testing.assert_allclose(alone, together[i], rtol=1e-7)


def test_learner_is_frozen() -> None:
    """What was decided once stays decided."""
    learner = prepared()
    with pytest.raises(AttributeError):
        learner.penalty = 1.0
    assert replace(learner, penalty=1e-3).features(1.0).penalty == 1e-3


def test_covering_events_at_the_edge_of_what_is_accepted() -> None:
    """Far events are covered one by one, and the search for centres ends."""
    rng = np.random.default_rng(3)
    reference = Sample.from_array(rng.normal(size=(3000, 2)))
    far = Sample.from_array(8e5 * rng.uniform(0.5, 1, size=(12, 2)), name="batch")
    settings = Settings(widths=(0.3,), n_centres=60, cover=True)
    learner = prepared(reference, settings, expected=100.0, data=[far])
    done = learner.learn(learner.features(0.3), [far], [100.0]).fit
    assert done.uncovered.tolist() == [0]
    assert done.converged.all()


def test_pooled_centres_of_an_evenly_weighted_reference() -> None:
    """Equal weights are no weights: data are as likely to become centres."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=(3000, 1))
    data = Sample.from_array(10 + rng.normal(size=(400, 1)))
    settings = Settings(widths=(1.0,), n_centres=600, centres_from="pooled")
    for weights in (None, np.full(3000, 2.5)):
        reference = Sample.from_array(values, weights=weights)
        learner = prepared(reference, settings, seed=5, expected=400.0, data=[data])
        from_data = np.mean(learner.candidates > 5)
        assert from_data == pytest.approx(400 / 3400, abs=0.045)


def test_files_of_large_models_know_their_reduction() -> None:
    """Models beyond the first 3000 candidates were reduced otherwise, once; others were not."""
    x = np.random.default_rng(1).normal(size=(4000, 1))
    small, large = (
        Learner.prepare(
            Sample.from_array(x),
            Settings(n_centres=count, widths=(1.0,)),
            expected=100.0,
            rng=np.random.default_rng(1),
        ).about()["centres"]
        for count in (3000, 3001)
    )
    assert len(small) == 64
    assert large[64:] == ", 10 λ"


def test_memory_is_told_where_it_decides_the_centres() -> None:
    """Of more than 10 000 candidates as many are kept as there is room for: another null."""
    rng = np.random.default_rng(1)
    sample = Sample.from_array(rng.normal(size=(10_500, 1)))
    for count, same in ((500, True), (10_001, False)):
        about = [
            Learner.prepare(
                sample,
                Settings(widths=(1.0,), n_centres=count, memory=memory),
                expected=100.0,
                rng=np.random.default_rng(1),
            ).about()
            for memory in (2 * 1024**3, 4 * 1024**3)
        ]
        assert (about[0] == about[1]) is same
