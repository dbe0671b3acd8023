"""Models: evaluated as written down, restored bit for bit, and refused when damaged."""

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from safetensors.numpy import load, save
from scipy.special import logsumexp

from gofstream.errors import ColumnError, FormatError
from gofstream.ratio.model import (
    FORMAT,
    VERSION,
    Aggregate,
    LogRatio,
    RunningRatio,
)
from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample
from gofstream.sealed import _seal
from gofstream.settings import Settings

Floats = NDArray[np.float64]

COLUMNS = ["pt", "phi"]


def events(seed: int, rows: int) -> Sample:
    """Draw momenta and angles."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.gamma(2, 20, rows), rng.uniform(-math.pi, math.pi, rows)])
    return Sample.from_array(values, COLUMNS, periodic=["phi"])


def model(seed: int = 1, *, centres: int = 6, expected: float = 120.0) -> LogRatio:
    """Make a model of three features that nobody fitted, on the reference of seed 100."""
    rng = np.random.default_rng(seed)
    reference = events(100, 50)
    return LogRatio(
        centres=rng.normal(size=(centres, 3)),
        coefficients=rng.normal(0, 2, size=centres),
        width=0.1 + 0.2 + 0.5,  # not a short decimal
        penalty=1e-6,
        expected=expected,
        scaling=Scaling.learn(reference),
        settings=Settings.of(widths=[0.8], precision="float64", penalty="smallest", memory=12345),
        reference=reference.digest(),
        converged=True,
    )


def slow_log_ratio(ratio: LogRatio, sample: Sample) -> list[float]:
    """Evaluate f with two loops, from the columns as the user has them."""
    found = []
    for pt, phi in sample.values.tolist():
        raw = [pt, math.cos(phi), math.sin(phi)]
        x = [
            (v - s) / d
            for v, s, d in zip(raw, ratio.scaling.shift, ratio.scaling.scale, strict=True)
        ]
        found.append(
            math.fsum(
                a * math.exp(-(math.dist(x, c) ** 2) / (2 * ratio.width**2))
                for a, c in zip(ratio.coefficients.tolist(), ratio.centres.tolist(), strict=True)
            )
        )
    return found


def same(here: LogRatio, there: LogRatio) -> bool:
    """Whether two models agree in every bit of every field."""
    return (
        all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in [
                (here.centres, there.centres),
                (here.coefficients, there.coefficients),
                (here.scaling.shift, there.scaling.shift),
                (here.scaling.scale, there.scaling.scale),
            ]
        )
        and here.scaling.to_dict() == there.scaling.to_dict()
        and here.settings == there.settings
        and (here.width, here.penalty) == (there.width, there.penalty)
        and here.expected == there.expected
        and (here.reference, here.converged) == (there.reference, there.converged)
    )


def header(data: bytes) -> dict[str, dict[str, str]]:
    """Read the JSON header of safetensors bytes."""
    length = int.from_bytes(data[:8], "little")
    read: dict[str, dict[str, str]] = json.loads(data[8 : 8 + length])
    return read


def sealed(data: bytes) -> dict[str, str]:
    """Read what stands beside the tensors: the description and its seal."""
    read: dict[str, str] = json.loads(header(data)["__metadata__"]["gofstream"])
    return read


def rewritten(data: bytes, **changes: str) -> bytes:
    """Write the same tensors again beside something else."""
    return save(load(data), {"gofstream": json.dumps(sealed(data) | changes)})


def resealed(
    data: bytes, tensors: dict[str, NDArray[Any]] | None = None, **changes: object
) -> bytes:
    """Write a model that says or holds something else, under a seal that fits."""
    tensors = load(data) if tensors is None else tensors
    about = json.loads(sealed(data)["about"]) | changes
    text = json.dumps({key: value for key, value in about.items() if value != "gone"})
    return save(tensors, {"gofstream": json.dumps({"about": text, "sha256": _seal(tensors, text)})})


# -- evaluation -------------------------------------------------------------------------------


def test_evaluates_the_sum_of_kernels() -> None:
    """As two plain loops do, for events in the user's columns and for scaled ones."""
    ratio, sample = model(), events(2, 70)
    expected = slow_log_ratio(ratio, sample)
    assert max(map(abs, expected)) > 0.5
    np.testing.assert_allclose(ratio(sample), expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(ratio.scaled(ratio.scaling.apply(sample)), ratio(sample))


def test_evaluates_one_event_and_none() -> None:
    """Shapes hold for any number of rows."""
    ratio, sample = model(), events(3, 1)
    np.testing.assert_allclose(ratio(sample), slow_log_ratio(ratio, sample), rtol=0, atol=1e-13)
    assert ratio(sample.take(slice(0, 0))).shape == (0,)


def test_far_from_every_centre_nothing_is_known() -> None:
    """There f is zero: the data are taken for the reference."""
    sample = Sample.from_array([[1e7, 0.3]], COLUMNS)
    assert model()(sample).tolist() == [0.0]


def test_other_columns_are_refused() -> None:
    """A model does not guess what a column means."""
    sample = Sample.from_array([[0.3, 10.0]], ["phi", "pt"])
    with pytest.raises(ColumnError, match="match_columns"):
        model()(sample)


# -- to and from bytes ------------------------------------------------------------------------


@pytest.mark.parametrize("converged", [True, False])
def test_round_trip(converged: bool) -> None:
    """Nothing is lost, not a bit: not even of numbers that text would spoil."""
    first = replace(model(), converged=converged)
    first.coefficients[:4] = [5e-324, -0.0, math.pi * 1e300, -1 / 3]
    back = LogRatio.from_bytes(first.to_bytes())
    assert same(back, first)
    assert back.converged is converged
    assert not same(back, replace(first, expected=math.nextafter(first.expected, 0)))
    np.testing.assert_array_equal(back(events(4, 30)), first(events(4, 30)))


@given(
    coefficients=hnp.arrays(
        np.float64, st.integers(1, 5), elements=st.floats(allow_nan=False, allow_infinity=False)
    ),
    expected=st.floats(min_value=5e-324, allow_infinity=False),
)
def test_round_trip_of_any_numbers(coefficients: Floats, expected: float) -> None:
    """Any finite numbers come back as they were."""
    first = replace(model(centres=len(coefficients)), coefficients=coefficients, expected=expected)
    assert same(LogRatio.from_bytes(first.to_bytes()), first)


def test_round_trip_of_arrays_in_any_memory_order() -> None:
    """A column of a matrix, or a matrix in Fortran order, is written by its numbers."""
    plain = model()
    matrix = np.column_stack([plain.coefficients, plain.coefficients + 1])
    odd = replace(plain, centres=np.asfortranarray(plain.centres), coefficients=matrix[:, 0])
    assert same(LogRatio.from_bytes(odd.to_bytes()), plain)


def test_readable_by_others() -> None:
    """Any safetensors reader finds the two tensors, and JSON beside them."""
    ratio = model()
    data = ratio.to_bytes()
    tensors, about = load(data), json.loads(sealed(data)["about"])
    np.testing.assert_array_equal(tensors["centres"], ratio.centres)
    np.testing.assert_array_equal(tensors["coefficients"], ratio.coefficients)
    assert (about["format"], about["version"]) == (FORMAT, VERSION)
    assert about["reference"] == ratio.reference
    assert len(sealed(data)["sha256"]) == 64


def test_equal_models_have_equal_bytes() -> None:
    """Nothing in a file depends on chance."""
    assert len({model().to_bytes() for _ in range(20)}) == 1


@pytest.mark.parametrize("mask", [0x01, 0x10, 0x20, 0x29, 0x80, 0xFF])
def test_a_flipped_byte_is_found(mask: int) -> None:
    """Every byte of header and payload is guarded, unless it means nothing."""
    ratio = model()
    data = ratio.to_bytes()
    assert len(data) > 1000
    refused = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= mask
        try:
            read = LogRatio.from_bytes(bytes(damaged))
        except FormatError:
            refused += 1
        else:
            assert same(read, ratio), f"byte {position} changed the model unnoticed"
    # The header is padded with at most seven blanks, which 0x29 turns into tabs.
    assert refused >= len(data) - 7


def test_truncation_is_found() -> None:
    """No shorter file is taken for a model, and no longer one."""
    data = model().to_bytes()
    for length in range(len(data)):
        with pytest.raises(FormatError):
            LogRatio.from_bytes(data[:length])
    with pytest.raises(FormatError):
        LogRatio.from_bytes(data + b"\0")


def test_damage_is_called_damage() -> None:
    """The text says what does not fit and what to do."""
    data = bytearray(model().to_bytes())
    data[-1] ^= 1
    with pytest.raises(FormatError, match=r"damaged.*SHA-256.*restore a copy"):
        LogRatio.from_bytes(bytes(data))


def test_changed_text_is_found() -> None:
    """The seal covers what stands beside the tensors."""
    data = model().to_bytes()
    about = sealed(data)["about"]
    assert same(LogRatio.from_bytes(rewritten(data)), model())
    with pytest.raises(FormatError, match="SHA-256"):
        LogRatio.from_bytes(rewritten(data, about=about.replace("120.0", "121.0")))
    with pytest.raises(FormatError, match="SHA-256"):
        LogRatio.from_bytes(rewritten(data, sha256="0" * 64))


def test_changed_tensors_are_found() -> None:
    """The seal covers names, shapes and types of the tensors, not only their bytes."""
    data = model().to_bytes()
    tensors, metadata = load(data), header(data)["__metadata__"]
    centres, coefficients = tensors["centres"], tensors["coefficients"]
    for other in (
        {"centres": centres},
        {"coefficients": coefficients},
        tensors | {"more": coefficients},
        {"centres": centres, "weights": coefficients},
        {"centres": centres.reshape(3, 6), "coefficients": coefficients},
        {"centres": centres.view(np.int64), "coefficients": coefficients},
        {"centres": centres.astype(np.float32), "coefficients": coefficients},
        {},
    ):
        # A file without tensors is no header to safetensors before 0.5.
        with pytest.raises(FormatError, match=r"damaged|not a readable gofstream model"):
            LogRatio.from_bytes(save(other, metadata))


def test_newer_version() -> None:
    """It says which version it met, which it knows, and what to do."""
    data = resealed(model().to_bytes(), version=VERSION + 1)
    with pytest.raises(FormatError, match=rf"version {VERSION + 1},.*version {VERSION};.*newer"):
        LogRatio.from_bytes(data)


def test_foreign_files() -> None:
    """Files of others are named as such."""
    data = model().to_bytes()
    with pytest.raises(FormatError, match="not a readable gofstream model"):
        LogRatio.from_bytes(save({"weight": np.zeros((3, 4), np.float32)}))
    with pytest.raises(FormatError, match="not a readable gofstream model"):
        LogRatio.from_bytes(save({"weight": np.zeros(3)}, {"format": "pt"}))
    with pytest.raises(FormatError, match=r"this is 'gofstream.null'"):
        LogRatio.from_bytes(resealed(data, format="gofstream.null"))


@pytest.mark.parametrize(
    "changes",
    [
        {"width": "gone"},
        {"width": "wide"},
        {"width": math.nan},
        {"width": -1.0},
        {"penalty": 0.0},
        {"expected": math.inf},
        {"scaling": []},
        {"settings": {"unknown": 1}},
        {"settings": None},
    ],
)
def test_nonsense_under_a_fitting_seal(changes: dict[str, object]) -> None:
    """A seal says that nothing was damaged, not that what was written makes sense."""
    data = model().to_bytes()
    assert same(LogRatio.from_bytes(resealed(data)), model())
    with pytest.raises(FormatError):
        LogRatio.from_bytes(resealed(data, **changes))


def test_tensors_that_do_not_fit_under_a_fitting_seal() -> None:
    """Shapes, types and numbers of the tensors are checked too."""
    data = model().to_bytes()
    good = load(data)
    centres, coefficients = good["centres"], good["coefficients"]
    for other in (
        {"centres": centres, "coefficients": coefficients[:-1]},
        {"centres": centres[:, :2].copy(), "coefficients": coefficients},
        {"centres": centres, "coefficients": coefficients * math.nan},
        {"centres": centres.astype(np.float32), "coefficients": coefficients},
        {"centres": centres.ravel(), "coefficients": coefficients},
        {"centres": centres},
    ):
        with pytest.raises(FormatError):
            LogRatio.from_bytes(resealed(data, other))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        bytes(8),
        bytes(4096),
        b"\xff" * 64,
        b'{"centres": [1, 2]}',
        (2).to_bytes(8, "little") + b"[]",
        (4).to_bytes(8, "little") + b"null",
        (2**63).to_bytes(8, "little") + b"{}",
        np.random.default_rng(1).bytes(5000),
    ],
)
def test_garbage(data: bytes) -> None:
    """Anything else is refused with the error that callers expect."""
    with pytest.raises(FormatError):
        LogRatio.from_bytes(data)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, length: bool) -> None:
    """Random bytes, also with a length in front that fits."""
    with pytest.raises(FormatError):
        LogRatio.from_bytes(len(data).to_bytes(8, "little") + data if length else data)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        """Remember which file."""
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        """Ask the unpickler to make the file."""
        return Path.touch, (self.path,)


def test_no_pickle_is_opened(tmp_path: Path) -> None:
    """A model file can run no code."""
    path = tmp_path / "sprung"
    trap = pickle.dumps(Trap(path))
    for data in (trap, len(trap).to_bytes(8, "little") + trap):
        with pytest.raises(FormatError):
            LogRatio.from_bytes(data)
    assert not path.exists()
    pickle.loads(trap)
    assert path.exists()  # the trap works


# -- the running sum --------------------------------------------------------------------------


def run(f: Floats, expected: Floats) -> RunningRatio:
    """Add one row after another."""
    running = RunningRatio.empty(f.shape[1])
    for row, n in zip(f, expected.tolist(), strict=True):
        running = running.add(row, n)
    return running


@given(
    f=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.one_of(st.floats(-5, 5), st.sampled_from([-1e4, -700.0, 700.0, 1e4])),
    ),
    data=st.data(),
)
def test_running_ratio(f: Floats, data: st.DataObject) -> None:
    """As scipy computes it at once, for weights of any size, in either order."""
    expected = data.draw(hnp.arrays(np.float64, len(f), elements=st.floats(1e-3, 1e6)))
    at_once = logsumexp(f, axis=0, b=(expected / expected.sum())[:, None])
    forward, backward = run(f, expected), run(f[::-1], expected[::-1])
    for running in (forward, backward):
        np.testing.assert_allclose(running.value(), at_once, rtol=1e-13, atol=1e-13)
        assert running.exposure == pytest.approx(expected.sum(), rel=1e-14)


def test_running_ratio_of_one() -> None:
    """A single batch is returned as it is, whatever its exposure."""
    f = np.array([-800.0, -0.3, 0.0, 0.7, 800.0])
    np.testing.assert_array_equal(RunningRatio.empty(5).add(f, 3.7).value(), f)


def test_running_ratio_grows_without_revisiting() -> None:
    """Its size stays, earlier stages keep their values, and the arrays given are not kept."""
    rng = np.random.default_rng(5)
    f, expected = rng.normal(0, 3, (40, 8)), rng.uniform(1, 9, 40)
    stages = [RunningRatio.empty(8)]
    for row, n in zip(f, expected.tolist(), strict=True):
        given_row = row.copy()
        given_row.flags.writeable = False
        stages.append(stages[-1].add(given_row, n))
        given_row.flags.writeable = True
        given_row[:] = math.nan
    for count, running in enumerate(stages[1:], start=1):
        share = expected[:count] / expected[:count].sum()
        at_once = logsumexp(f[:count], axis=0, b=share[:, None])
        np.testing.assert_allclose(running.value(), at_once, rtol=1e-13, atol=1e-13)
        assert running.peak.shape == running.scaled.shape == (8,)
    assert stages[0].exposure == 0
    assert stages[0].scaled.tolist() == [0.0] * 8


def test_running_ratio_of_extremes() -> None:
    """Neither e^±1e4 nor weights far apart spoil it."""
    running = run(np.array([[1e4, -1e4, -1e4], [-1e4, -1e4, 1e4]]), np.array([1e-6, 1e6]))
    total = 1e6 + 1e-6
    expected = [1e4 + math.log(1e-6 / total), -1e4, 1e4]
    np.testing.assert_allclose(running.value(), expected, rtol=1e-15, atol=1e-11)


# -- the aggregate ----------------------------------------------------------------------------


def test_aggregate() -> None:
    """F is the logarithm of the mean ratio, weighted by exposure."""
    models = [model(seed, expected=n) for seed, n in ((1, 50.0), (2, 300.0), (3, 7.5))]
    sample = events(6, 40)
    aggregate = Aggregate()
    for count, ratio in enumerate(models, start=1):
        before, aggregate = aggregate, aggregate.add(ratio)
        assert (len(before.models), len(aggregate.models)) == (count - 1, count)
        total = sum(m.expected for m in models[:count])
        learnt = [slow_log_ratio(m, sample) for m in models[:count]]
        naive = [
            math.log(
                math.fsum(
                    m.expected / total * math.exp(f[x])
                    for m, f in zip(models[:count], learnt, strict=True)
                )
            )
            for x in range(len(sample))
        ]
        np.testing.assert_allclose(aggregate(sample), naive, rtol=0, atol=1e-12)
    scaled = models[0].scaling.apply(sample)
    np.testing.assert_array_equal(aggregate.scaled(scaled), aggregate(sample))
    assert float(np.ptp(aggregate(sample))) > 0.5


def test_shares() -> None:
    """Shares sum to one, in proportion to what was expected."""
    aggregate = Aggregate()
    for seed, expected in ((1, 50.0), (2, 300.0), (3, 7.5)):
        aggregate = aggregate.add(model(seed, expected=expected))
        assert aggregate.shares.sum() == pytest.approx(1, rel=1e-15)
    np.testing.assert_allclose(aggregate.shares, np.array([50, 300, 7.5]) / 357.5, rtol=1e-15)


def test_order_of_models() -> None:
    """The order in which models arrive changes F by rounding alone."""
    models = [model(seed, expected=10.0 * seed) for seed in range(1, 6)]
    sample = events(7, 30)
    values = []
    for order in (models, models[::-1]):
        aggregate = Aggregate()
        for ratio in order:
            aggregate = aggregate.add(ratio)
        values.append(aggregate(sample))
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=1e-13)


def test_empty_aggregate() -> None:
    """Where nothing was learnt F is zero: the data are the reference."""
    aggregate = Aggregate()
    assert aggregate(events(8, 3)).tolist() == [0.0] * 3
    assert aggregate.scaled(np.zeros((2, 3))).tolist() == [0.0] * 2
    assert aggregate.shares.shape == (0,)


@pytest.mark.parametrize("field", ["reference", "width", "scaling"])
def test_models_that_do_not_belong_together(field: str) -> None:
    """The field in which they differ is named, and the aggregate stays as it was."""
    first = model()
    other = {
        "reference": replace(first, reference="0" * 64),
        "width": replace(first, width=math.nextafter(first.width, 1)),
        "scaling": replace(first, scaling=Scaling.learn(events(101, 50))),
    }[field]
    aggregate = Aggregate().add(first)
    with pytest.raises(FormatError, match=f"different {field} cannot be averaged"):
        aggregate.add(other)
    assert aggregate.models == (first,)
    # Another batch against the same reference is welcome, also after a trip through a file.
    again = LogRatio.from_bytes(model(2, expected=3.0).to_bytes())
    assert len(aggregate.add(again).models) == 2
