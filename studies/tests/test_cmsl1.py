"""CMS-L1-24D: the shipped sample, its columns, fair splits, and files."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from studies.tests.cmsl1_checks import check_events, shipped

from gofstream.datasets.columns import write_columns
from gofstream.errors import ColumnError, GofstreamWarning, InputError
from gofstream.ratio.learner import Learner
from gofstream.ratio.scaling import Scaling
from gofstream.settings import Settings
from gofstream_studies.datasets import cmsl1
from gofstream_studies.datasets.cmsl1 import (
    COLUMNS,
    MIXTURE,
    PROCESSES,
    SIGNALS,
    UNITS,
    VARYING,
    features,
    split,
    varying,
)
from gofstream_studies.datasets.cmsl1.files import as_columns
from gofstream_studies.datasets.storage import made_with

SAMPLES = ["sm", *SIGNALS]
every_sample = pytest.mark.parametrize("name", SAMPLES)
LEPTONS, JETS = ("mu1", "mu2", "e1", "e2"), ("jet1", "jet2", "jet3")


def test_columns_are_those_of_the_paper():
    """Eight objects, three numbers each, in the order of the paper's text."""
    assert len(COLUMNS) == 24
    assert COLUMNS[:6] == ("met_pt", "met_eta", "met_phi", "mu1_pt", "mu1_eta", "mu1_phi")
    assert [c.removesuffix("_pt") for c in COLUMNS[::3]] == ["met", *LEPTONS, *JETS]
    assert set(COLUMNS) - set(VARYING) == {"met_eta"}
    assert UNITS["jet3_pt"] == "GeV"
    assert UNITS["mu1_phi"] == "rad"


def test_features_find_each_object_in_its_row():
    """Every number of every row is labelled by where it is, and comes out where it should."""
    particles = np.arange(1.0, 1 + 2 * 19 * 4).reshape(2, 19, 4)
    found = dict(zip(COLUMNS, features(particles)[1], strict=True))
    rows = {"met": 0, "e1": 1, "e2": 2, "mu1": 5, "mu2": 6, "jet1": 9, "jet2": 10, "jet3": 11}
    for thing, row in rows.items():
        got = [found[f"{thing}_{what}"] for what in ("pt", "eta", "phi")]
        assert got == particles[1, row, :3].tolist()


def test_padding_is_a_pt_of_zero_whatever_the_class():
    """A removed jet that keeps its φ and class is padding; class zero with a pT is an object."""
    particles = np.zeros((1, 19, 4))
    particles[0, 9] = 0.0, 1.0, 2.0, 4.0
    particles[0, 5] = 30.0, -1.0, 0.5, 0.0
    found = dict(zip(COLUMNS, features(particles)[0], strict=True))
    assert [found[f"jet1_{what}"] for what in ("pt", "eta", "phi")] == [0, 0, 0]
    assert [found[f"mu1_{what}"] for what in ("pt", "eta", "phi")] == [30, -1, 0.5]


@pytest.mark.parametrize("shape", [(19, 4), (5, 19, 3), (5, 18, 4), (5, 76)])
def test_features_of_another_shape_are_refused(shape):
    """The shape is in the message."""
    with pytest.raises(InputError, match=rf"shape \({shape[0]}, .*19 objects"):
        features(np.zeros(shape))


@every_sample
def test_shipped_events_are_sound(name):
    """Ordering, acceptance, padding and bookkeeping."""
    events = shipped(name)
    check_events(events)
    assert events.sample.units == UNITS
    assert (events.copy >= 0).all()
    first = events.uid[events.copy == 0]
    np.testing.assert_array_equal(np.sort(first), np.unique(events.uid))


def test_shipped_sizes_and_mixture():
    """All of the Standard Model sample, in the shares of the public files; 3000 of each signal."""
    sm = shipped("sm")
    assert len(sm) == 102_102
    for name, share in MIXTURE.items():
        assert np.mean(sm.process == PROCESSES[name]) == pytest.approx(share, abs=5e-4)
        assert len(sm.of(name)) == np.count_nonzero(sm.process == PROCESSES[name])
    for name in SIGNALS:
        assert len(shipped(name)) == 3000
        assert (shipped(name).process == PROCESSES["signal"]).all()
        assert len(shipped(name).independent()) == 3000
    alone = sm.independent()
    assert len(alone) == len(np.unique(sm.uid)) == 68_175
    assert len(alone.of("QCD")) == 1631
    folder = Path(cmsl1.__file__).parents[1] / "samples" / "cmsl1"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4.5e6


def test_distances_are_those_of_the_paper():
    """The 90 % quantile of scaled pairwise distances: 10.5 in the paper, 8.6 in our sample."""
    sample = shipped("sm").sample
    scaled = Scaling.learn(sample).apply(sample)[:3000]
    assert np.quantile(pdist(scaled), 0.9) == pytest.approx(8.6, abs=0.7)


def test_signals_are_described():
    """Four signals, each with its file and record."""
    assert list(SIGNALS) == ["A4l", "h0tautau", "hptaunu", "lq"]
    assert {signal.record for signal in SIGNALS.values()} == {7152590, 7152599, 7152614, 7152617}
    assert all(signal.file.endswith(".h5") and signal.what for signal in SIGNALS.values())
    assert cmsl1.BACKGROUND.record == 5046389


@pytest.mark.parametrize("part", [0.2, 20_000, 20_420.4])
def test_a_split_keeps_collisions_whole_and_the_mixture(part):
    """No uid on both sides, nothing lost, the size met, each process in its share."""
    sm = shipped("sm")
    first, second = split(sm, part, np.random.default_rng(3))
    assert not set(first.uid) & set(second.uid)
    assert len(first) + len(second) == len(sm)
    wanted = part * len(sm) if part < 1 else part
    assert len(first) == pytest.approx(wanted, abs=15)
    for name, share in MIXTURE.items():
        for side in (first, second):
            assert np.mean(side.process == PROCESSES[name]) == pytest.approx(share, abs=1.2e-3)
    # Rows keep their order and what belongs to them.
    position = {(u, c): k for k, (u, c) in enumerate(zip(sm.uid, sm.copy, strict=True))}
    rows = np.array([position[key] for key in zip(first.uid, first.copy, strict=True)])
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(first.sample.values, sm.sample.values[rows])
    np.testing.assert_array_equal(first.process, sm.process[rows])


def test_a_split_is_random_and_reproducible():
    """The generator decides, and nothing else; every collision has the same chance."""
    sm = shipped("sm").of("QCD")
    once = split(sm, 0.3, np.random.default_rng(5))[0]
    again = split(sm, 0.3, np.random.default_rng(5))[0]
    other = split(sm, 0.3, np.random.default_rng(6))[0]
    np.testing.assert_array_equal(once.uid, again.uid)
    assert set(once.uid) != set(other.uid)
    # Collisions with few copies are not chosen more often than others.
    uids, sizes = np.unique(sm.uid, return_counts=True)
    chosen = np.zeros(len(uids))
    for seed in range(50):
        chosen += np.isin(uids, split(sm, 0.3, np.random.default_rng(seed))[0].uid)
    for group in (sizes < 18, sizes >= 18):
        error = np.sqrt(0.3 * 0.7 / 50 / np.count_nonzero(group))
        assert chosen[group].mean() / 50 == pytest.approx(0.3, abs=4 * error)


def test_plain_splits_would_leak():
    """Why `split` exists: rows at random put most QCD collisions on both sides."""
    qcd = shipped("sm").of("QCD")
    side = np.random.default_rng(1).random(len(qcd)) < 0.3
    both = set(qcd.uid[side]) & set(qcd.uid[~side])
    assert len(both) > 0.95 * len(np.unique(qcd.uid))


@pytest.mark.parametrize("part", [0, -0.1, 1e9, 102_102])
def test_impossible_splits_are_refused(part):
    """Both sides need something."""
    with pytest.raises(InputError, match="cannot split off"):
        split(shipped("sm"), part, np.random.default_rng(1))


def test_a_learner_takes_the_constant_column_as_nothing():
    """With ``met_eta`` a learner warns; it finds the same f as without it, without a warning."""
    rng = np.random.default_rng(8)
    reference, rest = split(shipped("sm"), 3000, rng)
    data = rest.take(slice(500)).sample
    settings = Settings(widths=(9.9,), n_centres=200, precision="float64")
    with pytest.warns(GofstreamWarning, match="met_eta"):
        whole = Learner.prepare(
            reference.sample, settings, expected=500.0, rng=np.random.default_rng(1)
        )
    less = Learner.prepare(
        varying(reference.sample), settings, expected=500.0, rng=np.random.default_rng(1)
    )
    f = whole.learn(whole.features(9.9), [data], [500.0]).models[0](data)
    same = less.learn(less.features(9.9), [varying(data)], [500.0]).models[0](varying(data))
    assert np.abs(f).max() > 0.1
    np.testing.assert_allclose(same, f, atol=1e-7)


def test_what_is_written_is_read(tmp_path):
    """Every bit, and how it was made."""
    events = shipped("sm").take(slice(50, 400))
    write_columns(tmp_path / "sm.parquet", as_columns(events), {"seed": 4})
    again = cmsl1.read("sm", tmp_path)
    np.testing.assert_array_equal(again.sample.values, events.sample.values)
    for what in ("uid", "copy", "process"):
        np.testing.assert_array_equal(getattr(again, what), getattr(events, what))
    assert made_with(tmp_path / "sm.parquet") == {"seed": 4}
    assert [path.name for path in tmp_path.iterdir()] == ["sm.parquet"]


def test_files_that_cannot_be_read_are_named(tmp_path):
    """A missing, damaged or foreign file, and a name that does not exist."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(InputError, match="no sample 'A4L'; nearest: 'A4l'"):
        cmsl1.read("A4L")
    with pytest.raises(InputError, match=r"lq\.parquet does not exist; make it"):
        cmsl1.read("lq", tmp_path)
    whole = tmp_path / "sm.parquet"
    write_columns(whole, as_columns(shipped("lq").take(slice(100))), {})
    (tmp_path / "lq.parquet").write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"lq\.parquet cannot be read as Parquet"):
        cmsl1.read("lq", tmp_path)
    pq.write_table(pa.table({"met_pt": [1.0]}), tmp_path / "A4l.parquet")
    with pytest.raises(ColumnError, match=r"A4l\.parquet lacks column 'met_eta'"):
        cmsl1.read("A4l", tmp_path)
