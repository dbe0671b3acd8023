"""Samples hold what they were given, and refuse what cannot be used, saying why."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gofstream.checks import check_data, check_reference, constant_values, match_columns
from gofstream.errors import (
    ColumnError,
    DtypeError,
    EmptyError,
    GofstreamError,
    GofstreamWarning,
    InputError,
    MemoryBudgetError,
    NonFiniteError,
    RangeError,
    WeightError,
)
from gofstream.sample import Sample

singles = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(-1e6, 1e6, width=32),
)


# What a sample holds


def test_columns_get_default_names():
    """One column is x, several are x0, x1, ..."""
    assert Sample.from_array([1.0, 2.0]).columns == ("x",)
    assert Sample.from_array([[1.0], [2.0]]).columns == ("x",)
    assert Sample.from_array(np.zeros((2, 3))).columns == ("x0", "x1", "x2")


@pytest.mark.parametrize(
    ("given_type", "kept_type"),
    [
        ("float32", "float32"),
        (">f4", "float32"),
        ("float16", "float64"),
        ("float64", "float64"),
        ("longdouble", "float64"),
        ("int32", "float64"),
        ("bool", "float64"),
    ],
)
def test_precision(given_type, kept_type):
    """Single precision is kept, other real types become double."""
    values = np.array([[0, 1], [1, 0]], given_type)
    assert Sample.from_array(values).values.dtype == kept_type
    columns = {"a": values[:, 0], "b": values[:, 1]}
    sample = Sample.from_columns(columns)
    assert sample.values.dtype == kept_type
    np.testing.assert_array_equal(sample.values, values.astype(float))


def test_later_changes_by_the_caller_do_not_reach_the_sample():
    """Values, weights, units and columns are copies."""
    values, weights = np.ones((3, 2)), np.ones(3)
    units, columns = {"a": "GeV"}, ["a", "b"]
    samples = [
        Sample.from_array(values, columns, weights=weights, units=units),
        Sample(values, columns, weights, units),
        Sample.from_columns({"a": values[:, 0], "b": values[:, 1]}, weights=weights, units=units),
    ]
    values[:], weights[:] = 7, 7
    units["a"], columns[0] = "MeV", "c"
    for sample in samples:
        assert (sample.values == 1).all()
        assert (sample.weights == 1).all()
        assert sample.units == {"a": "GeV"}
        assert sample.columns == ("a", "b")


@pytest.mark.parametrize(
    "remake",
    [
        lambda s: s,
        copy.deepcopy,
        lambda s: pickle.loads(pickle.dumps(s)),
        lambda s: s.take(slice(1, None)),
        lambda s: s.take(np.array([0, 2])),
    ],
)
def test_a_sample_cannot_be_written(remake):
    """Also not after a trip to a worker process, or when it is part of another sample."""
    sample = remake(Sample.from_array(np.arange(3.0), weights=[1, 2, 3], units={"x": "mm"}))
    assert sample.units == {"x": "mm"}
    with pytest.raises(ValueError, match="read-only"):
        sample.values[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        sample.weights[0] = 1
    with pytest.raises(AttributeError):
        sample.name = "other"
    with pytest.raises(TypeError):
        sample.units["x"] = "cm"
    with pytest.raises(TypeError):
        sample.periodic["x"] = 360


def test_a_lone_string_is_one_name():
    """Not a series of one-letter names."""
    sample = Sample.from_array([0.1, 0.2], "phi", periodic="phi")
    assert sample.columns == ("phi",)
    assert sample.periodic == {"phi": 2 * np.pi}


def test_periods():
    """A name is an angle in radians; a period is a number or a unit of angles."""
    for one in ({"phi": 360}, {"phi": "360"}, {"phi": "deg"}, {"phi": np.float32(360)}):
        sample = pickle.loads(pickle.dumps(Sample.from_array([-180, 359], "phi", periodic=one)))
        assert sample.periodic == {"phi": 360}
    for one in ("phi", ["phi"], {"phi": "rad"}):
        assert Sample.from_array([-3, 6], "phi", periodic=one).periodic == {"phi": 2 * np.pi}
    single = np.array([-np.pi, np.pi], np.float32) * np.float32(2)  # larger than 2π
    assert float(Sample.from_array(single, "phi", periodic="phi").values.max()) > 2 * np.pi


@pytest.mark.parametrize("period", [0, -360, np.nan, np.inf, "degrees", None, True, [360]])
def test_what_is_no_period(period):
    """The column and what was given are named, and what would do."""
    with pytest.raises(InputError, match=r"'phi': .* is not a period; .* 'deg' \(360\)"):
        Sample.from_array([1.0], "phi", periodic={"phi": period})


def test_degrees_are_no_radians():
    """Column, range, row and a way out are named; values may lie within one period of zero."""
    phi = np.array([[0.0, 1.0], [0.0, 6.2], [0.0, -6.2], [0.0, -179.5], [0.0, 180.0]])
    message = (
        r"'MC', column 'phi': values from -179.5 to 180 do not fit the period 6.28319 \(radians\), "
        r"which allows -6.28319 to 6.28319; .* --periodic phi=360 or periodic={'phi': 360}.*"
        r"2 of 5 values do not fit, the first is -179.5 at row 3,"
    )
    with pytest.raises(RangeError, match=message):
        Sample.from_array(phi, ["x", "phi"], periodic=["phi"], name="MC")
    assert len(Sample.from_array(phi[:3], ["x", "phi"], periodic=["phi"])) == 3
    with pytest.raises(RangeError, match="values from 1 to 25 do not fit the period 24, which"):
        Sample.from_array([1, 25], "hour", periodic={"hour": 24})
    with pytest.raises(RangeError, match="values from -25 to -1 do not fit the period 24, which"):
        Sample.from_array([-25, -1], "hour", periodic={"hour": 24})


def test_data_in_degrees_for_a_reference_in_radians():
    """Refused, also where the data say themselves that they are degrees."""
    reference = Sample.from_array([-3.0, 3.0], "phi", periodic="phi", name="MC")
    with pytest.raises(RangeError, match="'batch', column 'phi': values from 10 to 170 do not fit"):
        match_columns(Sample.from_array([10.0, 170.0], "phi", name="batch"), reference)
    degrees = Sample.from_array([1.0, 2.0], "phi", periodic={"phi": 360}, name="batch")
    with pytest.raises(ColumnError, match="'batch', column 'phi' has the period 360, but 6"):
        match_columns(degrees, reference)


def test_radians_called_degrees():
    """They span so little of a turn that it is said."""
    phi = np.random.default_rng(1).uniform(-np.pi, np.pi, 50)
    with pytest.warns(GofstreamWarning, match=r"'phi': its values.* --periodic phi or"):
        check_reference(Sample.from_array(phi, "phi", periodic={"phi": 360}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_reference(Sample.from_array(np.degrees(phi), "phi", periodic={"phi": 360}))


def test_share():
    """Shares sum to one, with or without weights, huge or not."""
    np.testing.assert_allclose(Sample.from_array(np.ones(4)).share, 0.25)
    weighted = Sample.from_array(np.ones(3), weights=[1, 0, 3])
    np.testing.assert_allclose(weighted.share, [0.25, 0, 0.75])
    huge = Sample.from_array(np.ones(4), weights=np.full(4, 1e308))
    np.testing.assert_allclose(huge.share, 0.25)
    assert Sample.from_array([]).share.shape == (0,)
    assert Sample.from_array([], weights=[]).share.shape == (0,)


def test_take():
    """Rows are chosen by number, mask or slice, and weights go with them."""
    sample = Sample.from_array([[1, 2], [3, 4], [5, 6]], weights=[1, 2, 3], name="all")
    some = sample.take(np.array([2, 0]), name="some")
    assert some.values.tolist() == [[5, 6], [1, 2]]
    assert some.weights.tolist() == [3, 1]
    assert some.name == "some"
    assert sample.take(np.array([False, True, False])).values.tolist() == [[3, 4]]
    assert sample.take(slice(0, 2)).name == "all"
    assert len(sample.take(slice(0, 0))) == 0


def test_an_empty_batch_is_a_sample():
    """Poisson counts can be zero."""
    assert len(Sample.from_array(np.empty((0, 3)))) == 0
    assert len(Sample.from_columns({"a": [], "b": []})) == 0
    assert len(Sample.from_array(np.empty((0, 1))).digest()) == 64


# Digest


@given(singles)
def test_digest_ignores_how_numbers_are_stored(values):
    """Neither precision, nor memory order, nor name and units enter."""
    digest = Sample.from_array(values).digest()
    doubles = Sample.from_array(np.asfortranarray(values, np.float64), name="other")
    assert digest == doubles.digest()
    assert digest == Sample.from_array(values, units={doubles.columns[0]: "GeV"}).digest()


@given(singles, st.data())
def test_digest_sees_every_number_and_name(values, data):
    """A changed value, name, period or weight changes the digest, and so do weights at all."""
    row = data.draw(st.integers(0, values.shape[0] - 1))
    column = data.draw(st.integers(0, values.shape[1] - 1))
    columns = [f"c{j}" for j in range(values.shape[1])]
    weights = np.ones(len(values))
    other_values, other_columns, other_weights = values.copy(), list(columns), weights.copy()
    other_values[row, column] = np.nextafter(values[row, column], np.float32(np.inf))
    other_columns[column] += "'"
    other_weights[row] = 2
    digests = {
        Sample.from_array(values, columns).digest(),
        Sample.from_array(other_values, columns).digest(),
        Sample.from_array(values, other_columns).digest(),
        Sample.from_array(values, columns, periodic={columns[column]: 3e38}).digest(),
        Sample.from_array(values, columns, periodic={columns[column]: 2e38}).digest(),
        Sample.from_array(values, columns, weights=weights).digest(),
        Sample.from_array(values, columns, weights=other_weights).digest(),
    }
    assert len(digests) == 7


def test_digest_is_stable():
    """Stored models name their reference by it: it must not change between versions."""
    sample = Sample.from_array([[0.5, -0.0], [1.5, 2.0]], ["a", "b"], weights=[1, 2])
    assert (
        sample.digest()
        == Sample.from_array([[0.5, 0.0], [1.5, 2.0]], ["a", "b"], weights=[1, 2]).digest()
    )
    assert sample.digest() == "a0fd842e4df6746b887af94cc9ce8eb110df2bd6a78bd6540fea172d98739bae"
    angle = Sample.from_array([[0.5, 1.0], [1.5, 2.0]], ["a", "b"], periodic=["b"])
    assert angle.digest() == "59420514d2ac8bfca1fae973ff80808c8b66a516d3621f4aba3152ab2bc45471"


# What a sample refuses


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_finite(bad, dtype):
    """The column, the first row and the number of bad values are named."""
    values = np.ones((10, 2), dtype)
    values[[4, 7], 1] = bad
    text = rf"'batch 3', column 'eta': 2 of 10 .* not finite, the first is {bad} at row 4 .* drop"
    with pytest.raises(NonFiniteError, match=text):
        Sample.from_array(values, ["pt", "eta"], name="batch 3")
    with pytest.raises(NonFiniteError, match="column 'eta'"):
        Sample.from_columns({"pt": values[:, 0], "eta": values[:, 1]})
    with pytest.raises(NonFiniteError, match="column 'eta'"):
        Sample(values, ("pt", "eta"))


@pytest.mark.parametrize("sign", [1, -1])
def test_too_large_for_single_precision(sign):
    """The column, the row and the value are named."""
    text = rf"'MC', column 'e': 1 of 3 values overflow float32, the first is {sign * 1e39} at row 2"
    with pytest.raises(RangeError, match=text.replace("+", r"\+")):
        Sample.from_array([0, 1, sign * 1e39], ["e"], name="MC")
    largest = float(np.finfo(np.float32).max)
    assert Sample.from_array([largest]).values[0, 0] == largest


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array([1, None], object), "dtype object .* convert"),
        (np.array([1j, 2]), "dtype complex128 .* real and imaginary"),
        (np.array(["1", "2"]), "dtype <U1 .* convert"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64.* seconds"),
        (np.ma.masked_equal([1.0, -999.0, 2.0], -999), "1 entries are masked; fill"),
    ],
)
def test_not_real_numbers(values, text):
    """The dtype is named, with a way out, and the column where it is known."""
    with pytest.raises(DtypeError, match=f"'raw': .*{text}|'raw': {text}"):
        Sample.from_array(values, name="raw")
    with pytest.raises(DtypeError, match=f"'raw', column 'c': .*{text}|column 'c': {text}"):
        Sample.from_columns({"c": values}, name="raw")


def test_other_things_that_are_not_a_table():
    """Ragged rows, fields of several numbers, wrong shapes."""
    with pytest.raises(DtypeError, match=r"same number of values"):
        Sample.from_array([[1.0, 2.0], [3.0]])
    with pytest.raises(DtypeError, match=r"column 'a': .* give each component a column of its own"):
        Sample.from_array(np.zeros(2, [("a", [("b", "f8")])]))
    with pytest.raises(InputError, match=r"expected shape \(rows, columns\), got \(2, 2, 2\)"):
        Sample.from_array(np.zeros((2, 2, 2)), ["a", "b"])
    with pytest.raises(InputError, match=r"expected shape .* got \(\)"):
        Sample.from_array(3.0)
    with pytest.raises(InputError, match=r"column 'p': expected a one-dimensional .* \(2, 3\)"):
        Sample.from_columns({"p": np.zeros((2, 3))})


def test_column_names():
    """Names must be unique strings, one for each column."""
    with pytest.raises(ColumnError, match="'raw': duplicated column names 'a'; rename"):
        Sample.from_array(np.zeros((2, 3)), ["a", "b", "a"], name="raw")
    with pytest.raises(ColumnError, match=r"3 columns of values but 2 names \('a', 'b'\)"):
        Sample.from_array(np.zeros((2, 3)), ["a", "b"])
    with pytest.raises(ColumnError, match="must be strings"):
        Sample.from_array(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ColumnError, match="no columns"):
        Sample.from_columns({})
    with pytest.raises(ColumnError, match=r"differ in number of rows \('a' has 2, 'b' has 3\)"):
        Sample.from_columns({"a": [1, 2], "b": [1, 2, 3]})


def test_units_and_angles_of_unknown_columns():
    """The nearest name is offered."""
    with pytest.raises(ColumnError, match="unit given for unknown column 'PT'; nearest: 'pt'"):
        Sample.from_array(np.zeros((2, 2)), ["pt", "phi"], units={"PT": "GeV"})
    with pytest.raises(ColumnError, match="periodic given for unknown column 'ph'; nearest: 'phi'"):
        Sample.from_array(np.zeros((2, 2)), ["pt", "phi"], periodic=["ph"])


def test_negative_weights():
    """Their share and the effective sample size are stated, with advice."""
    text = (
        r"'MC': 1 of 4 weights are negative \(25\.00% of events, 40\.00% of the total \|weight\|\)"
        r", first at row 2 .* effective sample size is 0\.1 of 4.* resample to positive weights"
    )
    with pytest.raises(WeightError, match=text):
        Sample.from_array(np.zeros(4), weights=[1, 1, -2, 1], name="MC")
    with pytest.raises(WeightError, match=r"effective sample size is 0\.0"):
        Sample.from_array(np.zeros(2), weights=[1, -1])


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1, 1], r"'MC': weights of shape \(2,\) for 3 rows; give one weight per row"),
        ([[1], [1], [1]], r"weights of shape \(3, 1\) for 3 rows"),
        ([1, np.nan, np.inf], "'MC': 2 of 3 weights are not finite, the first is nan at row 1"),
        ([0, 0, 0], "'MC': all 3 weights are zero, so they sum to zero; check"),
    ],
)
def test_weights_that_cannot_be_used(weights, text):
    """Wrong length, not finite, all zero."""
    with pytest.raises(WeightError, match=text):
        Sample.from_array(np.zeros(3), weights=weights, name="MC")


def test_weights_that_are_no_numbers():
    """The message says it is the weights."""
    with pytest.raises(DtypeError, match="'MC', weights: dtype complex128"):
        Sample.from_array(np.zeros(2), weights=[1j, 2], name="MC")


# Reference and data together


@pytest.fixture
def reference():
    """Make a hundred rows of three columns, one an angle and one constant."""
    x = np.linspace(0, 1, 100)
    columns = {"pt": x, "phi": 6 * x, "eta": np.zeros(100)}
    return Sample.from_columns(columns, periodic=["phi"], units={"pt": "GeV"}, name="reference")


def test_reference_of_too_few_rows():
    """None, one, or one that counts."""
    with pytest.raises(EmptyError, match="'MC' has no rows; a reference needs at least two"):
        check_reference(Sample.from_array(np.empty((0, 2)), name="MC"))
    with pytest.raises(EmptyError, match="'MC' has only one row; a reference"):
        check_reference(Sample.from_array([[1.0, 2.0]], name="MC"))
    with pytest.raises(EmptyError, match="only one row with a weight above zero"):
        check_reference(Sample.from_array([1.0, 2.0], weights=[1, 0]))


def test_constant_columns(reference):
    """They are kept, with a warning; rows of weight zero do not count."""
    assert list(constant_values(reference)) == ["eta"]
    with pytest.warns(GofstreamWarning, match="'reference', column 'eta': .* kept unscaled; drop"):
        check_reference(reference)
    weighted = Sample.from_array([1.0, 1.0, 2.0], weights=[1, 2, 0])
    assert list(constant_values(weighted)) == ["x"]
    assert constant_values(weighted.take(slice(0, 0))) == {}


def test_columns_are_matched_by_name(reference):
    """Reordered columns are put right and additional ones left out."""
    columns = {"eta": [0.0], "run": [7.0], "phi": [1.0], "pt": [3.0]}
    batch = Sample.from_columns(columns, units={"run": "1", "pt": "GeV"}, name="batch 1")
    matched = match_columns(batch, reference)
    assert matched.columns == reference.columns
    assert matched.values.tolist() == [[3, 1, 0]]
    assert matched.periodic == {"phi": 2 * np.pi}
    assert matched.units == {"pt": "GeV"}
    assert matched.name == "batch 1"
    assert match_columns(matched, reference) is matched


def test_missing_columns(reference):
    """Each is named with the nearest names there are."""
    batch = Sample.from_columns({"pT": [1.0], "phi_": [1.0], "z": [1.0]}, name="batch 2")
    text = (
        r"'batch 2' lacks columns of sample 'reference': 'pt' \(nearest: 'pT'\); 'phi' \(nearest: "
        r"'phi_'\); 'eta' \(known: 'pT', 'phi_', 'z'\); rename or add"
    )
    with pytest.raises(ColumnError, match=text):
        match_columns(batch, reference)


def test_units_must_agree(reference):
    """A column in another unit is refused, one without a unit is trusted."""
    columns = {"pt": [1.0], "phi": [1.0], "eta": [0.0]}
    batch = Sample.from_columns(columns, units={"pt": "MeV"}, name="batch 1")
    with pytest.raises(ColumnError, match="'batch 1', column 'pt' is in 'MeV', but in 'GeV'"):
        match_columns(batch, reference)
    assert len(match_columns(Sample.from_columns(columns), reference)) == 1


def test_data_may_have_empty_batches_but_not_only(reference):
    """Some event is needed somewhere."""
    empty, some = reference.take(slice(0, 0)), reference.take(slice(0, 5))
    assert [len(batch) for batch in check_data([empty, some], reference)] == [0, 5]
    with pytest.raises(EmptyError, match=r"no rows \(2 batches, none with an event\); give"):
        check_data([empty, empty], reference)
    with pytest.raises(EmptyError, match=r"no rows \(0 batches"):
        check_data([], reference)


def test_weighted_data(reference):
    """Observed events have no weights."""
    batch = Sample.from_array([[1, 2, 0]], reference.columns, weights=[1.0], name="batch 1")
    with pytest.raises(WeightError, match=r"'batch 1': data cannot carry event weights.* drop"):
        check_data([batch], reference)


def test_small_reference(reference):
    """Fewer than five reference rows per event draw a warning."""
    batches = [reference.take(slice(0, 10)), reference.take(slice(0, 11))]
    text = "'reference' has 100 rows for 21 data events, fewer than 5 .* at least 105 rows"
    with pytest.warns(GofstreamWarning, match=text):
        check_data(batches, reference)
    assert len(check_data(batches[:1] * 2, reference)) == 2


def test_a_weighted_reference_is_worth_fewer_rows() -> None:
    """Of 200 rows half weigh a hundredth: worth 102, so 21 events ask for 206 rows."""
    weights = np.tile([1.0, 0.01], 100)
    values = np.arange(200.0)
    reference = Sample.from_array(values, weights=weights, name="reference")
    worth = math.fsum(weights) ** 2 / math.fsum(weights**2)
    assert round(worth) == 102
    needed = math.ceil(5 * 21 * 200 / worth)
    text = f"200 rows, by their weights worth 102, for 21 data events.* at least {needed} rows"
    with pytest.warns(GofstreamWarning, match=text):
        check_data([Sample.from_array(values[:21])], reference)
    assert len(check_data([Sample.from_array(values[:20])], reference)) == 1


def test_data_that_vary_where_the_reference_does_not(reference):
    """The batch, the column, the number and the first row are reported."""
    batch = Sample.from_array([[1, 2, 0], [1, 2, 3], [1, 2, 4]], reference.columns, name="batch 1")
    text = "'batch 1', column 'eta': 2 of 3 events differ from 0.0, .* first at row 1; "
    with pytest.warns(GofstreamWarning, match=text):
        check_data([batch], reference)


def test_precision_alone_is_no_difference():
    """A constant read in single precision equals the same one read in double."""
    values = np.column_stack([np.arange(10), np.full(10, 0.1)])
    reference, batch = Sample.from_array(np.float32(values)), Sample.from_array(values[:2])
    assert len(check_data([batch], reference)) == 1


# Errors


def test_memory_budget_error():
    """The message has both sizes and a way out, and survives the way back from a worker."""
    error = pickle.loads(pickle.dumps(MemoryBudgetError(5 * 1024**3, 1000, "the kernel")))
    assert isinstance(error, GofstreamError)
    assert (error.needed, error.budget) == (5 * 1024**3, 1000)
    text = "the kernel would need 5.0 GiB (5368709120 bytes), but the memory budget is 1000 bytes"
    assert text in str(error)
    assert "raise the `memory` setting" in str(error)
