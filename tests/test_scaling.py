"""Scaling is learnt on the reference, and comes back from a file bit for bit."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gofstream.errors import ColumnError, EmptyError, FormatError, RangeError
from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample

RULES = ["zscore", "published"]
#: A period that all values drawn here fit.
LONG = 1e31
tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-1e30, 1e30)
)


def test_zscore():
    """Mean zero and spread one, and data are moved by what the reference taught."""
    reference = Sample.from_array(np.random.default_rng(1).gamma(2, 3, (500, 2)))
    scaling = Scaling.learn(reference)
    scaled = scaling.apply(reference)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)
    batch = Sample.from_array([reference.values.mean(axis=0) + reference.values.std(axis=0)])
    np.testing.assert_allclose(scaling.apply(batch), 1)


def test_published_rule():
    """Negative: z-score. Else above one: divided by the mean. Else untouched."""
    columns = {"eta": [-1, 0, 4], "pt": [0, 2, 4], "x": [0, 0.5, 1]}
    scaling = Scaling.learn(Sample.from_columns(columns), "published")
    np.testing.assert_allclose(scaling.shift, [1, 0, 0])
    np.testing.assert_allclose(scaling.scale, [np.std([-1, 0, 4]), 2, 1])


@pytest.mark.parametrize("rule", RULES)
def test_constant_columns_are_not_scaled(rule):
    """They are moved to zero: a difference in data keeps its size."""
    reference = Sample.from_columns({"a": [1, 2, 4], "eta": [0.1, 0.1, 0.1]})
    scaling = Scaling.learn(reference, rule)
    assert (scaling.shift[1], scaling.scale[1]) == (0.1, 1)
    assert (scaling.apply(reference)[:, 1] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_an_angle_is_no_spread(dtype):
    """Sin 0 and sin pi are both zero but for rounding, which must not be blown up."""
    angles = np.array([0, np.pi, -np.pi, 0], dtype)
    scaling = Scaling.learn(Sample.from_array(angles, "phi", periodic="phi"))
    assert scaling.scale[1] == 1
    np.testing.assert_allclose(scaling.scale[0], 1, rtol=1e-6)


def test_angles_become_cos_and_sin_in_their_place():
    """A full turn changes nothing."""
    x = np.linspace(-3, 3, 20)
    reference = Sample.from_columns({"a": x, "phi": x, "b": 2 * x}, periodic=["phi"])
    scaling = Scaling.learn(reference)
    assert scaling.feature_names == ("a", "cos phi", "sin phi", "b")
    scaled = scaling.apply(reference)
    np.testing.assert_allclose(
        scaled * scaling.scale + scaling.shift,
        np.column_stack([x, np.cos(x), np.sin(x), 2 * x]),
        atol=1e-12,
    )
    turned = Sample.from_columns({"a": x, "phi": x + 2 * np.pi, "b": 2 * x})
    np.testing.assert_allclose(scaling.apply(turned), scaled, atol=1e-12)
    degrees = Sample.from_columns({"a": x, "phi": np.degrees(x), "b": 2 * x}, periodic={"phi": 360})
    np.testing.assert_allclose(Scaling.learn(degrees).apply(degrees), scaled, atol=1e-12)


@pytest.mark.parametrize("period", [2 * np.pi, 360.0, 24.0])
def test_points_come_back_in_the_units_of_the_period(period):
    """From the scaled point to the column, and for lengths along it."""
    phi = np.linspace(-0.45, 0.45, 19)
    reference = Sample.from_columns({"phi": phi * period, "a": phi}, periodic={"phi": period})
    scaling = Scaling.learn(reference)
    back = [scaling.invert(x) for x in scaling.apply(reference)]
    np.testing.assert_allclose(back, reference.values, atol=1e-12 * period)
    arc = scaling.lengths(0.1)[0] / period * 2 * np.pi
    assert arc == pytest.approx(0.1 * scaling.scale[:2].max())


def test_periods_in_files():
    """Radians are names alone, as ever; of another period an older gofstream can make nothing."""
    both = {"a": [0.0, 1.0], "phi": [1.0, 2.0]}
    one = Scaling.learn(Sample.from_columns(both, periodic={"phi": 360, "a": "rad"}))
    assert one.to_dict()["periodic"] == ["a", ["phi", 360.0]]
    assert Scaling.from_dict(one.to_dict()).periodic == {"a": 2 * np.pi, "phi": 360.0}


@pytest.mark.parametrize("rule", RULES)
@given(
    values=hnp.arrays(np.float64, (6, 3), elements=st.floats(-100, 100)),
    counts=hnp.arrays(np.int64, 6, elements=st.integers(0, 4)).filter(lambda c: c.sum() > 0),
)
def test_weights_count_as_repeated_rows(rule, values, counts):
    """Also weights of zero."""
    weighted = Sample.from_array(values, weights=counts * 0.3, periodic={"x1": LONG})
    repeated = Sample.from_array(np.repeat(values, counts, axis=0), periodic={"x1": LONG})
    one, other = Scaling.learn(weighted, rule), Scaling.learn(repeated, rule)
    np.testing.assert_allclose(one.shift, other.shift, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.scale, other.scale, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@given(values=tables)
def test_round_trip(rule, values):
    """Through JSON, every bit comes back, and every scaling is fit to be applied."""
    reference = Sample.from_array(values, periodic={"x1": LONG})
    scaling = Scaling.learn(reference, rule)
    back = Scaling.from_dict(json.loads(json.dumps(scaling.to_dict())))
    assert (back.columns, back.periodic, back.rule) == (reference.columns, {"x1": LONG}, rule)
    assert back.shift.tobytes() == scaling.shift.tobytes()
    assert back.scale.tobytes() == scaling.scale.tobytes()
    assert np.isfinite(scaling.apply(reference)).all()
    assert back.apply(reference).tobytes() == scaling.apply(reference).tobytes()


def test_a_scaling_cannot_be_written():
    """Neither a learnt nor a stored one."""
    scaling = Scaling.learn(Sample.from_array([1.0, 2.0]))
    for one in (scaling, Scaling.from_dict(scaling.to_dict())):
        with pytest.raises(ValueError, match="read-only"):
            one.shift[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            one.scale[0] = 1


def test_an_empty_batch_scales_to_nothing():
    """But keeps its number of features."""
    reference = Sample.from_array([[1.0, 2.0], [3.0, 4.0]], ["a", "phi"], periodic=["phi"])
    assert Scaling.learn(reference).apply(reference.take(slice(0, 0))).shape == (0, 3)


def test_nothing_to_learn_from():
    """A reference without rows is refused."""
    with pytest.raises(EmptyError, match="'MC' has no rows to learn a scaling from"):
        Scaling.learn(Sample.from_array([], name="MC"))


def test_other_columns_are_refused():
    """Order counts here: reordering has its own place."""
    scaling = Scaling.learn(Sample.from_array([[1.0, 2.0], [3.0, 5.0]], ["a", "b"]))
    with pytest.raises(ColumnError, match=r"'batch' has columns \('b', 'a'\), .*match_columns"):
        scaling.apply(Sample.from_array([[1.0, 2.0]], ["b", "a"], name="batch"))


def test_events_too_far_for_single_precision():
    """The column, the row and the value are named."""
    scaling = Scaling.learn(Sample.from_array([[1.0, 1.0], [3.0, 2.0]], ["a", "b"]))
    batch = Sample.from_array([[1.0, 1.0], [1.0, -1e20]], ["a", "b"], name="batch 4")
    with pytest.raises(RangeError, match=r"'batch 4', column 'b': the value -1e\+20 at row 1 "):
        scaling.apply(batch)


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": None},
        {"columns": ["a"]},
        {"periodic": ["c"]},
        {"periodic": ["a"]},
        {"periodic": [["a", 0.0]]},
        {"periodic": [["a", "x"]]},
        {"periodic": [["a"]]},
        {"shift": [0.0]},
        {"shift": [0.0, "x"]},
        {"shift": [0.0, float("nan")]},
        {"scale": [1.0, 0.0]},
        {"scale": [1.0, -1.0]},
        {"rule": "minmax"},
        {"rule": []},
    ],
)
def test_damaged_scaling(damage):
    """What was stored must make sense."""
    stored = Scaling.learn(Sample.from_array([[1.0, 2.0], [3.0, 5.0]], ["a", "b"])).to_dict()
    with pytest.raises(FormatError, match="damaged"):
        Scaling.from_dict(stored | damage)
    del stored["scale"]
    with pytest.raises(FormatError, match="'scale'"):
        Scaling.from_dict(stored)
