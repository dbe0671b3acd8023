"""The generator of DIMUON-5D, with the real Pythia, against what is shipped and what is known."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gofstream.errors import InputError, StoppedError
from gofstream.execution import process_workers
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.datasets.dimuon5d.contact import contact_terms, largest_weight
from gofstream_studies.datasets.dimuon5d.detector import measure, observe
from gofstream_studies.datasets.dimuon5d.events import pair_mass, selected
from gofstream_studies.datasets.dimuon5d.generator import PROCESSES, generate
from gofstream_studies.datasets.storage import made_with


@pytest.mark.parametrize(("name", "rows"), [("sm", 1500), ("zprime300", 500), ("eft", 1000)])
def test_made_events_are_distributed_as_the_shipped_ones(name: str, rows: int) -> None:
    """Kolmogorov-Smirnov for each column and for the mass: p above 0.001 in all six."""
    made = generate(PROCESSES[name], rows, seed=11)
    assert made.shape == (rows, 5)
    assert selected(*made.T).all()
    shipped = dimuon5d.read(name)
    for j, column in enumerate(dimuon5d.COLUMNS):
        assert stats.ks_2samp(made[:, j], shipped.values[:, j]).pvalue > 1e-3, column
    assert stats.ks_2samp(pair_mass(*made.T), dimuon5d.mass(shipped)).pvalue > 1e-3


def test_a_part_follows_from_seed_and_key_alone() -> None:
    """Nothing is left in Pythia or numpy from one part to the next."""
    zprime = PROCESSES["zprime200"]
    first = generate(zprime, 40, seed=3, key=(1, 2))
    other = generate(zprime, 40, seed=3, key=(1, 3))
    again = generate(zprime, 40, seed=3, key=(1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.isin(other[:, 0], first[:, 0]).any()
    assert not np.isin(generate(zprime, 40, seed=4, key=(1, 2))[:, 0], first[:, 0]).any()


def interrupt(done: int, total: int) -> None:
    """Press Ctrl-C when three parts are made."""
    if done == 3:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_make_is_resumed_and_the_same_on_any_workers(tmp_path: Path) -> None:
    """In this process, with an interruption, or on two processes: the same bytes."""
    folder = tmp_path / "new"
    seen: list[tuple[int, int]] = []
    with pytest.raises(StoppedError, match=r"stopped with 3 of 12 parts made.*goes on from there"):
        dimuon5d.make(folder, seed=5, events=60, progress=interrupt)
    files = dimuon5d.make(folder, seed=5, events=60, progress=lambda *at: seen.append(at))
    assert seen == [(k, 12) for k in range(4, 13)]
    names = [*dimuon5d.SAMPLES, "spectra"]
    assert {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in names}
    assert {path.stem for path in files} == set(names)
    # What is there is not made again, and not replaced by something else.
    changed = {path: path.stat().st_mtime_ns for path in files}
    assert dimuon5d.make(folder, seed=5, events=60) == files
    assert {path: path.stat().st_mtime_ns for path in files} == changed
    with pytest.raises(InputError, match=r"sm\.parquet was made with seed 5, events 60, pythia 8"):
        dimuon5d.make(folder, seed=6, events=60)
    # Some of it anew, on two processes.
    before = {path: path.read_bytes() for path in files}
    for name in ("sm", "eft", "zprime600"):
        (folder / f"{name}.parquet").unlink()
    with process_workers(2) as workers:
        dimuon5d.make(folder, seed=5, events=60, executor=workers)
    assert {path: path.read_bytes() for path in files} == before
    rows = {name: len(dimuon5d.read(name, folder)) for name in dimuon5d.SAMPLES}
    assert rows == {
        "sm": 60,
        "eft": 15,
        "eft_cw05": 15,
        "zprime200": 2,
        "zprime300": 2,
        "zprime600": 2,
    }
    assert made_with(folder / "sm.parquet")["seed"] == 5


def test_a_worker_that_dies_costs_only_what_it_was_making(tmp_path: Path) -> None:
    """Killed as the system kills for want of memory: a message, and what is made is kept."""
    with process_workers(1) as workers:
        (pid,) = {workers.submit(os.getpid).result()}

        def kill(done: int, total: int) -> None:
            if done == 1:
                os.kill(pid, signal.SIGKILL)

        with pytest.raises(StoppedError, match=r"a worker died with \d+ of 12 parts made"):
            dimuon5d.make(tmp_path, seed=5, events=60, executor=workers, progress=kill)
    assert list(tmp_path.glob("sm.part-*.parquet"))


@pytest.mark.parametrize(("events", "seed"), [(0, 1), (10, -1)])
def test_make_refuses_what_has_no_meaning(tmp_path: Path, events: int, seed: int) -> None:
    """No events, or a negative seed."""
    with pytest.raises(InputError, match="events must be positive"):
        dimuon5d.make(tmp_path, events=events, seed=seed)


# -- the contact term -----------------------------------------------------------------------------


def test_contact_terms_against_amplitudes_written_out() -> None:
    """One point, computed by hand from the Feynman rules: up quark, 250 GeV, 60 degrees."""
    s, e2, sin2 = 0.25**2, 4 * np.pi / 127.92, 0.2312
    z = e2 / (sin2 * (1 - sin2)) / (s - 0.0911876**2 + 1j * s * 0.0024952 / 0.0911876)
    quark = {"L": 0.5 - 2 / 3 * sin2, "R": -2 / 3 * sin2}
    muon = {"L": -0.5 + sin2, "R": sin2}
    angle = {True: (1 + 0.5) ** 2, False: (1 - 0.5) ** 2}

    def rate(coupling: float) -> float:
        total = 0.0
        for q, g_q in quark.items():
            for m, g_m in muon.items():
                amplitude = e2 * (2 / 3) * (-1) / s + z * g_q * g_m
                amplitude += -coupling / 2 if q == m == "L" else 0.0
                total += abs(amplitude) ** 2 * angle[q == m]
        return total

    linear, quadratic = contact_terms(250.0, 0.5, True)
    for coupling in (-1.0, 0.5, 2.0):
        weight = 1 + coupling * linear + coupling**2 * quadratic
        assert weight == pytest.approx(rate(coupling) / rate(0.0), rel=1e-9)


def test_the_bound_of_the_weight_holds_and_is_close() -> None:
    """No weight above it anywhere in the slice, and some within two per cent."""
    rng, n = np.random.default_rng(1), 200_000
    for low, high in ((50.0, 150.0), (600.0, 1200.0)):
        cos_theta = rng.uniform(-1, 1, n)
        cos_theta[: n // 2] = np.sign(cos_theta[: n // 2])
        up = rng.random(n) < 0.5
        linear, quadratic = contact_terms(rng.uniform(low, high, n), cos_theta, up)
        bound = largest_weight(1.0, low, high)
        assert 0.98 * bound < (1 + linear + quadratic).max() <= bound


# -- the detector ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eta", "constant", "growth"), [(0.2, 0.010, 1e-4), (-1.2, 0.015, 1.5e-4), (2.0, 0.025, 3.5e-4)]
)
def test_resolution(eta: float, constant: float, growth: float) -> None:
    """Mean and spread of the measured momentum, in each region and at two momenta."""
    rng, n = np.random.default_rng(2), 40_000
    for pt in (30.0, 500.0):
        measured = measure(np.full(n, pt), np.full(n, eta), rng) / pt
        spread = np.hypot(constant, growth * pt)
        assert measured.mean() == pytest.approx(1, abs=4 * spread / np.sqrt(n))
        assert measured.std() == pytest.approx(spread, rel=0.02)


def test_the_measured_muon_leads() -> None:
    """Columns belong to the same muon, whichever comes first; the angle lies in [0, 2 pi)."""
    muons = np.tile([40.0, 0.5, 3.0, 40.0, -0.5, -3.0], (1000, 1))
    columns, kept = observe(muons, np.random.default_rng(3))
    pt1, pt2, eta1, eta2, dphi = columns.T
    assert (pt1 >= pt2).all()
    assert 300 < (eta1 == 0.5).sum() < 700
    np.testing.assert_array_equal(eta2, -eta1)
    expected = np.where(eta1 == 0.5, 6.0, 2 * np.pi - 6.0)
    np.testing.assert_allclose(dphi, expected, atol=1e-6)
    assert not kept.any()  # they fly together: no mass
    turned = muons.copy()
    turned[:, 2], turned[:, 5] = 0.0, 1e-9
    _, _, _, _, dphi = observe(turned, np.random.default_rng(3))[0].T
    assert (dphi < 2 * np.pi).all()
