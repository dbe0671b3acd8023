"""CMS-L1-24D: collisions from Pythia 8, the fast simulation, and files made from them."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from studies.tests.cmsl1_checks import check_events, column, shipped

from gofstream import process_workers
from gofstream.errors import InputError, StoppedError
from gofstream_studies.datasets import cmsl1
from gofstream_studies.datasets.cmsl1 import COLUMNS, PROCESSES, SIGNALS, L1Events, features
from gofstream_studies.datasets.cmsl1 import detector as detector_module
from gofstream_studies.datasets.cmsl1.collisions import Collisions, Particles, collide
from gofstream_studies.datasets.cmsl1.detector import observe
from gofstream_studies.datasets.cmsl1.generator import generate
from gofstream_studies.datasets.cmsl1.making import make, plan_parts
from gofstream_studies.datasets.cmsl1.processes import MIXTURE, PROCESS


@cache
def made(name: str, count: int) -> L1Events:
    """Generate events once for the tests below."""
    return generate(name, seed=11, part=0, count=count)


def particles(*events):
    """Give particles of collisions, each a list of (kind, pT, η, φ), without mass."""
    rows = [(k, *p) for k, event in enumerate(events) for p in event]
    event, kind, pt, eta, phi = (np.array(column) for column in zip(*rows, strict=True))
    momentum = np.column_stack(
        [pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta), pt * np.cosh(eta)]
    )
    return Particles(event, kind, momentum)


def single(leptons=(), jets=(), missing=(0.0, 0.0), times=1):
    """Give one collision with these true objects, so many times."""
    table = Collisions(np.zeros((times, 8, 4)), np.zeros((times, 14, 3)), np.zeros((times, 2)))
    for slot, lepton in enumerate(leptons):
        table.leptons[:, slot] = lepton
    for slot, jet in enumerate(jets):
        table.jets[:, slot] = jet
    table.missing[:] = missing
    return table


# -- true objects ---------------------------------------------------------------------------------


def test_objects_of_a_collision():
    """A muon, a jet of two particles, and what is missing; the muon is in no jet."""
    found = collide(
        particles([(13, 40.0, 1.0, 0.5), (211, 30.0, -1.0, 2.0), (22, 20.0, -1.1, 2.1)])
    )
    assert len(found) == 1
    np.testing.assert_allclose(found.leptons[0, 0], [40.0, 1.0, 0.5, 3.0])
    assert not found.leptons[0, 1:].any()
    pt, eta, phi = found.jets[0, 0]
    assert pt == pytest.approx(49.9, abs=0.1)
    assert (eta, phi) == pytest.approx((-1.04, 2.04), abs=0.01)
    assert not found.jets[0, 1:].any()
    whole = 40 * np.exp(0.5j) + 30 * np.exp(2j) + 20 * np.exp(2.1j)
    np.testing.assert_allclose(found.missing[0], [-whole.real, -whole.imag])


def test_only_collisions_with_an_isolated_lepton_are_kept():
    """One that is alone, one in company, one outside the muon detector, one too soft, none."""
    company = (211, 25.0, 0.1, 0.1)
    found = collide(
        particles(
            [(13, 40.0, 0.0, 0.0)],
            [(13, 40.0, 0.0, 0.0), company],
            [(13, 40.0, 2.2, 0.0)],
            [(11, 40.0, 2.2, 0.0)],
            [(11, 15.0, 0.0, 0.0)],
            [(211, 90.0, 0.0, 0.0)],
            [(11, 60.0, 0.0, 0.0), company],
        )
    )
    np.testing.assert_allclose(found.leptons[:, 0, 0], [40.0, 40.0, 60.0])
    np.testing.assert_allclose(found.leptons[:, 0, 3], [3, 2, 2])
    # Isolation is relative: the same neighbour is too much for 40 GeV and not for 60.
    np.testing.assert_allclose(found.jets[:, 0, 0], [0.0, 0.0, 25.0])


def test_isolation_stops_at_the_cone_and_goes_round_the_circle():
    """Everything else counts up to 0.3 away, also across φ = π, and another lepton as well."""
    near, far = (211, 30.0, 0.0, -3.05), (211, 30.0, 0.0, -2.7)
    strong, weak = (11, 30.0, 0.0, -3.05), (11, 10.0, 0.0, -3.05)
    lepton = (13, 40.0, 0.0, 3.1)
    found = collide(
        particles([lepton, near], [lepton, far], [lepton, strong], [lepton, weak], [near])
    )
    np.testing.assert_allclose(found.leptons[:, :2, 0], [[40.0, 0.0], [40.0, 0.0]])
    np.testing.assert_allclose(found.jets[:, :2, 0], [[30.0, 0.0], [10.0, 0.0]])
    assert len(collide(particles([lepton, near], [near]))) == 0


def test_softer_leptons_that_are_not_isolated_belong_to_their_jet():
    """As in a b quark's decay beside the lepton that fired the trigger."""
    event = [(13, 40.0, 1.0, 0.0), (13, 8.0, 0.0, 3.0), (211, 30.0, 0.05, 3.0)]
    found = collide(particles(event))
    assert np.count_nonzero(found.leptons[0, :, 0]) == 1
    assert found.jets[0, 0, 0] == pytest.approx(38.0, abs=0.1)


def test_what_goes_down_the_beam_pipe_is_missing():
    """Beyond |η| = 5 nothing is measured."""
    found = collide(particles([(13, 40.0, 0.0, 0.0), (211, 30.0, 5.5, np.pi / 2)]))
    np.testing.assert_allclose(found.missing[0], [-40.0, 0.0], atol=1e-12)


# -- measurement ----------------------------------------------------------------------------------


@pytest.fixture
def _perfect(monkeypatch):
    """Measure all, without any error, and without pile-up."""
    monkeypatch.setattr(detector_module, "MUON_EFFICIENCY", 1.0)
    monkeypatch.setattr(detector_module, "ELECTRON_EFFICIENCY", (1.0, 1.0))
    monkeypatch.setattr(detector_module, "MUON_RESOLUTION", ((9.0, 0.0, 0.0),))
    monkeypatch.setattr(detector_module, "ELECTRON_RESOLUTION", (0.0, 0.0))
    monkeypatch.setattr(detector_module, "JET_RESOLUTION", (0.0, 0.0))
    for name in ("JET_DIRECTION", "SOFT_NOISE", "PILE_UP_JETS"):
        monkeypatch.setattr(detector_module, name, 0.0)


@pytest.mark.usefixtures("_perfect")
def test_a_perfect_detector_changes_nothing_but_the_side_it_looks_from():
    """All angles between objects are kept, up to a reflection; so are sizes and classes."""
    leptons = [(30.0, 1.0, 0.3, 3), (50.0, -2.5, 2.0, 2), (2.0, 0.0, 0.0, 3)]
    jets = [(20.0, 3.0, 1.0), (60.0, -1.0, -2.0), (14.0, 0.0, 0.0), (90.0, 4.1, 0.0)]
    collisions = single(leptons, jets, (3.0, 4.0), times=200)
    seen, accepted = observe(collisions, np.random.default_rng(1))
    assert accepted.all()
    np.testing.assert_allclose(seen[:, 0, 0], 5.0)
    np.testing.assert_allclose(seen[:, 5, 0], 30.0)  # muon
    np.testing.assert_allclose(seen[:, 1, 0], 50.0)  # electron
    np.testing.assert_allclose(seen[:, [9, 10], 0], np.broadcast_to([60.0, 20.0], (200, 2)))
    assert not seen[:, [2, 3, 4, 6, 7, 8, *range(11, 19)]].any()  # too soft, too far forward
    assert (seen[:, [0, 1, 5, 9, 10], 3] == [1, 2, 3, 4, 4]).all()

    flip = np.sign(seen[:, 5, 1])
    np.testing.assert_allclose(seen[:, [1, 5, 9, 10], 1] * flip[:, None], [[-2.5, 1, -1, 3]] * 200)
    turns = seen[:, [0, 1, 9, 10], 2] - seen[:, [5], 2]
    true = np.array([np.arctan2(4, 3), 2.0, -2.0, 1.0]) - 0.3
    same = np.exp(1j * turns) / np.exp(1j * true)
    mirrored = np.exp(1j * turns) / np.exp(-1j * true)
    match = np.where(np.isclose(same[:, [0]], 1), same, mirrored)
    np.testing.assert_allclose(match, 1.0, atol=1e-9)
    # Every side is as likely as any other.
    assert 70 < np.count_nonzero(flip > 0) < 130
    assert 70 < np.count_nonzero(np.isclose(same[:, 0], 1)) < 130
    assert stats.kstest(seen[:, 5, 2], stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 0.01


def test_resolutions():
    """The spread of what is measured, as stated; MET takes the opposite of each error."""
    rng = np.random.default_rng(2)
    n = 20_000

    def measure(lepton, jets=()):
        seen, accepted = observe(single([lepton], jets, (0.0, 0.0), n), rng)
        return seen[accepted]

    seen = measure((100.0, 0.1, 0.0, 3))
    assert seen[:, 5, 0].std() / 100 == pytest.approx(np.hypot(0.010, 0.010), rel=0.03)
    seen = measure((36.0, 2.0, 0.0, 2))
    assert seen[:, 1, 0].std() / 36 == pytest.approx(np.hypot(0.015, 0.08 / 6), rel=0.03)
    # A Rayleigh distribution: two components of 12 GeV, and next to nothing from the electron.
    assert seen[:, 0, 0].mean() == pytest.approx(12 * np.sqrt(np.pi / 2), rel=0.02)
    seen = measure((40.0, 0.0, 0.0, 2), [(100.0, 0.0, 2.0)])
    assert seen[:, 9, 0].std() / 100 == pytest.approx(np.hypot(0.04, 0.08), rel=0.03)
    along = seen[:, 0, 0] * np.cos(seen[:, 0, 2] - seen[:, 9, 2])
    assert np.corrcoef(along, seen[:, 9, 0])[0, 1] < -0.5


@pytest.mark.parametrize(
    ("lepton", "share"),
    [((60.0, 0.0, 0.0, 3), 0.95), ((60.0, 1.0, 0.0, 2), 0.95), ((60.0, -2.0, 0.0, 2), 0.85)],
)
def test_leptons_that_are_not_recognised(lepton, share, monkeypatch):
    """A lost muon is missing momentum, a lost electron a jet."""
    monkeypatch.setattr(detector_module, "PILE_UP_JETS", 0.0)
    n = 20_000
    other = (40.0, 0.5, 2.0, 2)
    rng = np.random.default_rng(6)
    monkeypatch.setattr(detector_module, "SOFT_NOISE", 0.0)
    seen, accepted = observe(single([lepton], [], (0.0, 0.0), n), rng)
    assert accepted.mean() == pytest.approx(share, abs=0.01)
    lost = seen[~accepted]
    assert not lost[:, 1:9].any()
    assert (lost[:, 9, 0] > 40).all() == (lepton[3] == 2)
    assert (lost[:, 0, 0] > 40).all() == (lepton[3] == 3)
    # Each lepton is lost on its own.
    both = observe(single([lepton, other], [], (0.0, 0.0), n), rng)[0]
    found = np.count_nonzero(both[:, 1:9, 0], axis=1)
    assert np.mean(found == 2) == pytest.approx(share * 0.95, abs=0.01)


def test_pile_up_jets():
    """A Poisson number with mean one, falling above 15 GeV, flat in η."""
    seen, _ = observe(single(times=20_000), np.random.default_rng(3))
    jets = seen[:, 9:]
    found = jets[..., 0] > 0
    assert found.sum() / 20_000 == pytest.approx(1.0, abs=0.03)
    assert np.mean(~found.any(axis=1)) == pytest.approx(np.exp(-1), abs=0.015)
    assert stats.kstest(jets[found][:, 0] - 15, stats.expon(scale=5).cdf).pvalue > 0.01
    assert stats.kstest(jets[found][:, 1], stats.uniform(-4, 8).cdf).pvalue > 0.01


def test_the_trigger_looks_at_what_is_measured():
    """A lepton below 23 GeV can be measured above, and the other way round."""
    _, accepted = observe(single([(23.0, 1.0, 0.0, 2)], times=5000), np.random.default_rng(4))
    assert accepted.mean() == pytest.approx(0.95 / 2, abs=0.03)


def test_no_more_objects_than_there_is_room_for():
    """Ten jets and four leptons of a kind are kept, the hardest."""
    leptons = [(30.0 + k, 0.0, k / 2, 3) for k in range(8)]
    jets = [(40.0 + 20 * k, 0.0, k / 3) for k in range(14)]
    seen, _ = observe(single(leptons, jets, times=50), np.random.default_rng(5))
    assert (seen[:, 9:, 0] > 0).all()
    assert np.mean(seen[:, 5:9, 0] > 0) > 0.99
    assert (np.diff(seen[:, 9:, 0], axis=1) <= 0).all()
    assert (np.diff(seen[:, 5:9, 0], axis=1) <= 0).all()
    assert not seen[:, 1:5].any()


# -- collisions from Pythia -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("W", 600), ("ttbar", 30), ("QCD", 60)])
def test_made_events_are_sound(name, count):
    """Ordering, acceptance, padding and bookkeeping, as of the shipped ones."""
    events = made(name, count)
    check_events(events)
    assert len(events) == count
    assert (events.process == PROCESS[name].code).all()
    uids, copies = np.unique(events.uid, return_counts=True)
    assert copies.max() <= PROCESS[name].copies
    np.testing.assert_array_equal(np.sort(events.uid[events.copy == 0]), uids)
    if name == "QCD":
        assert copies.max() > 10  # so the copies are tested, too


def test_copies_are_the_same_collision_seen_from_another_side():
    """Their leptons agree within the resolution, and their angles do not."""
    events = made("QCD", 60)
    lepton = np.maximum(column(events, "mu1_pt"), column(events, "e1_pt"))
    angle = column(events, "mu1_phi") + column(events, "e1_phi")
    for uid in np.unique(events.uid):
        rows = events.uid == uid
        if np.count_nonzero(rows) > 10:
            assert lepton[rows].std() < 0.1 * lepton[rows].mean()
            assert angle[rows].std() > 0.8


def test_w_events_agree_with_the_shipped_ones():
    """Each varying column of 600 W events, by Kolmogorov-Smirnov: distance below 0.08.

    That is p = 0.001 for two samples of 600 and many; what is left of real differences is smaller.
    """
    ours, theirs = made("W", 600), shipped("sm").of("W").independent()
    for name in (
        "met_pt",
        "met_phi",
        *(f"{o}_{w}" for o in ("mu1", "e1", "jet1", "jet2") for w in ("pt", "eta", "phi")),
    ):
        distance = stats.ks_2samp(column(ours, name), column(theirs, name)).statistic
        assert distance < 0.08, name


def test_generation_depends_on_seed_and_part_alone():
    """The same again; more events go on where fewer ended; another part is another."""
    few = generate("W", seed=11, part=0, count=50)
    np.testing.assert_array_equal(few.sample.values, made("W", 600).sample.values[:50])
    np.testing.assert_array_equal(few.uid, made("W", 600).uid[:50])
    other_part = generate("W", seed=11, part=1, count=50)
    assert not set(other_part.uid) & set(few.uid)
    for other in (other_part, generate("W", seed=12, part=0, count=50)):
        assert not (other.sample.values == few.sample.values).all(axis=1).any()


def test_generation_prints_nothing(capfd):
    """Neither Pythia nor fastjet greets on the terminal."""
    generate("W", seed=1, part=0, count=5)
    assert capfd.readouterr() == ("", "")


# -- files ----------------------------------------------------------------------------------------


def test_parts_are_fixed_and_keep_the_mixture():
    """What is planned depends on the number of events alone, and adds up."""
    plan = plan_parts(100_000)
    assert list(plan) == ["sm", *SIGNALS]
    assert sum(part.size for part in plan["sm"]) == 100_000
    for name, share in MIXTURE.items():
        size = sum(part.size for part in plan["sm"] if part.process == name)
        assert size == pytest.approx(share * 100_000, abs=2)
    large, small = plan_parts(300_000), plan_parts(500)
    for name in SIGNALS:
        assert sum(part.size for part in plan[name]) == 10_000
        assert sum(part.size for part in large[name]) == 10_000
        assert sum(part.size for part in small[name]) == 50
    assert all(
        0 < part.size <= PROCESS[part.process].events_per_part
        for parts in plan.values()
        for part in parts
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Make all samples in this process, by the real generator."""
    folder = tmp_path_factory.mktemp("here")
    make(folder, seed=3, events=20)
    return folder


def test_made_files_hold_the_mixture_and_the_signals(here):
    """Everything that was asked for, mixed, and nothing else in the folder."""
    names = ("sm", *SIGNALS)
    assert {path.name for path in here.iterdir()} == {f"{name}.parquet" for name in names}
    sm = cmsl1.read("sm", here)
    check_events(sm)
    counts = {name: int(np.sum(sm.process == PROCESSES[name])) for name in MIXTURE}
    assert counts == {"W": 13, "QCD": 6, "Z": 1, "ttbar": 0}
    assert (np.diff(sm.process) != 0).sum() > 3
    for name in SIGNALS:
        events = cmsl1.read(name, here)
        check_events(events)
        assert len(events) == 2


def test_files_depend_neither_on_workers_nor_on_being_stopped(here, tmp_path):
    """Stopped in this process, ended by two others: the same bytes. What was made is kept."""

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError, match="stopped with 3 of 7 parts made"):
        make(tmp_path, seed=3, events=20, progress=stop)
    assert not (tmp_path / "sm.parquet").exists()
    seen = []
    with process_workers(2) as workers:
        paths = make(
            tmp_path,
            seed=3,
            events=20,
            executor=workers,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert seen == [(k, 7) for k in range(4, 8)]
    for path in paths:
        assert path.read_bytes() == (here / path.name).read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_what_is_there_is_not_made_again_nor_overwritten(here):
    """The same request finds its files; another needs another folder."""
    before = {path: path.stat().st_mtime_ns for path in here.iterdir()}
    seen = []
    paths = make(here, seed=3, events=20, progress=lambda *count: seen.append(count))
    assert set(paths) == set(before)
    assert not seen
    for other in ({"seed": 6, "events": 20}, {"seed": 3, "events": 50}):
        with pytest.raises(InputError, match=r"sm\.parquet was made with .*another folder"):
            make(here, **other)
    with pytest.raises(InputError, match="events must be positive"):
        make(here, seed=3, events=0)
    assert {path: path.stat().st_mtime_ns for path in here.iterdir()} == before


def test_features_come_from_what_is_observed():
    """The 24 columns of an observed collision are those of its particles."""
    seen, accepted = observe(single([(40.0, 1.0, 0.0, 2)], times=1), np.random.default_rng(1))
    assert accepted.all()
    found = dict(zip(COLUMNS, features(seen)[0], strict=True))
    assert found["e1_pt"] == pytest.approx(seen[0, 1, 0])
    assert found["e1_pt"] > 23
    assert found["mu1_pt"] == 0
