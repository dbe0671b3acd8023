"""DIMUON-5D: the table of the paper, shipped samples, public files, and the ideal test."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gofstream.datasets.columns import write_columns
from gofstream.errors import ColumnError, InputError
from gofstream.sample import Sample
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.datasets.dimuon5d.events import selected
from gofstream_studies.datasets.dimuon5d.public import PUBLIC
from gofstream_studies.datasets.storage import SHIPPED

BENCHMARKS, SAMPLES = dimuon5d.BENCHMARKS, dimuon5d.SAMPLES


def test_the_table_of_the_paper() -> None:
    """Every line of Table 5d-dataset."""
    zprimes = [b for b in BENCHMARKS.values() if not b.whole]
    assert [(b.mass, b.width, b.fraction, b.paper_z) for b in zprimes] == [
        (600, 16, 6e-4, 3.0),
        (600, 16, 1.5e-3, 7.1),
        (300, 8, 2.5e-3, 5.0),
        (300, 8, 5e-3, 8.8),
        (200, 5, 5e-3, 5.1),
        (200, 5, 1e-2, 9.1),
    ]
    assert all(b.ratio == 1 + b.fraction for b in zprimes if b.fraction is not None)
    contact = [b for b in BENCHMARKS.values() if b.whole]
    assert [(b.sample, b.coupling, b.ratio, b.paper_z) for b in contact] == [
        ("eft", 1.0, 1.0043, 3.7),
        ("eft_cw05", 0.5, 1.002, 3.7),
    ]
    assert {b.sample for b in BENCHMARKS.values()} == set(SAMPLES) - {"sm"}
    assert all(name == b.name for name, b in BENCHMARKS.items())


def four_vector_mass(row: NDArray[np.float64]) -> float:
    """Mass from energies and momenta, muon masses included."""
    pt1, pt2, eta1, eta2, dphi = row
    total = np.zeros(4)
    for pt, eta, phi in ((pt1, eta1, dphi), (pt2, eta2, 0.0)):
        momentum = pt * np.array([np.cos(phi), np.sin(phi), np.sinh(eta)])
        energy = np.sqrt(momentum @ momentum + 0.10566**2)
        total += [energy, *momentum]
    return float(np.sqrt(total[0] ** 2 - total[1:] @ total[1:]))


def test_mass_is_that_of_the_four_vectors() -> None:
    """Neglecting the muons' own masses changes nothing that could be measured."""
    sample = dimuon5d.drell_yan().take(slice(0, 500))
    expected = [four_vector_mass(row) for row in sample.values.astype(np.float64)]
    np.testing.assert_allclose(dimuon5d.mass(sample), expected, rtol=1e-4)
    turned = Sample.from_array(sample.values[:, ::-1], sample.columns[::-1])
    np.testing.assert_array_equal(dimuon5d.mass(turned), dimuon5d.mass(sample))


def test_mass_says_which_column_is_missing() -> None:
    """A sample of something else."""
    sample = Sample.from_columns({"pt1": [1.0], "pt2": [1.0], "eta": [0.0]}, name="other")
    with pytest.raises(ColumnError, match="'other' lacks column 'eta1'"):
        dimuon5d.mass(sample)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("sm", 110_000),
        ("zprime200", 3000),
        ("zprime300", 3000),
        ("zprime600", 3000),
        ("eft", 40_000),
        ("eft_cw05", 40_000),
    ],
)
def test_shipped_samples_hold_what_they_should(name: str, rows: int) -> None:
    """All rows pass the selection, the first muon leads, signals peak where they should."""
    sample = dimuon5d.read(name)
    assert (len(sample), sample.columns) == (rows, dimuon5d.COLUMNS)
    assert sample.units == dimuon5d.UNITS
    assert selected(*sample.values.T).all()
    pt1, pt2, _, _, dphi = sample.values.T
    assert (pt1 >= pt2).all()
    assert 0 <= dphi.min() < dphi.max() < 2 * np.pi
    assert len(np.unique(sample.values, axis=0)) == rows
    if name.startswith("zprime"):
        # Radiation and the steeply falling parton densities pull the median below the pole.
        assert np.median(dimuon5d.mass(sample)) == pytest.approx(float(name[6:]), rel=0.02)


def test_what_is_shipped_is_small() -> None:
    """Four megabytes for all of it."""
    assert sum(path.stat().st_size for path in SHIPPED.glob("dimuon_*")) < 4_000_000


def test_drell_yan_shares_no_event_with_the_contact_terms() -> None:
    """A reference and data drawn from both must be independent."""
    events = {row.tobytes() for row in dimuon5d.drell_yan().values}
    for name in ("eft", "eft_cw05"):
        assert not events & {row.tobytes() for row in dimuon5d.read(name).values}


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    """Unknown names, missing, damaged and foreign files."""
    with pytest.raises(InputError, match=r"no sample 'zprime20'; nearest: 'zprime200'"):
        dimuon5d.read("zprime20")
    with pytest.raises(InputError, match=r"sm\.parquet does not exist; make it with"):
        dimuon5d.read("sm", tmp_path)
    whole = (SHIPPED / "dimuon_zprime200.parquet").read_bytes()
    (tmp_path / "sm.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"sm\.parquet cannot be read as Parquet"):
        dimuon5d.read("sm", tmp_path)
    write_columns(tmp_path / "eft.parquet", {"pt": [1.0]}, {})
    with pytest.raises(ColumnError, match=r"eft\.parquet lacks column 'pt1' \(nearest: 'pt'\)"):
        dimuon5d.read("eft", tmp_path)
    (tmp_path / "zprime200.parquet").write_bytes(whole)
    assert dimuon5d.read("zprime200", tmp_path).digest() == dimuon5d.read("zprime200").digest()


# -- the public layout ----------------------------------------------------------------------------


def public_columns(rows: int) -> dict[str, NDArray[np.float64]]:
    """Events as a public file has them: half of them outside the selection."""
    sample = dimuon5d.drell_yan().take(slice(0, rows))
    columns = dict(zip(PUBLIC[:5], sample.values.T.astype(np.float64), strict=True))
    columns["eta1"][::2] = 2.3
    moved = Sample.from_columns(dict(zip(dimuon5d.COLUMNS, columns.values(), strict=True)))
    return columns | {"mll": dimuon5d.mass(moved)}


def write_public(path: Path, columns: dict[str, NDArray[np.float64]]) -> Path:
    """Write a file in the public layout."""
    with h5py.File(path, "w") as file:
        for name, column in columns.items():
            file.create_dataset(name, data=column)
    return path


def test_a_public_folder_is_read_in_order_and_selected(tmp_path: Path) -> None:
    """DiLepton_SM2 comes before DiLepton_SM10; |eta| up to 2.4 is cut to 2.1."""
    columns = public_columns(30)
    folder = tmp_path / "DiLepton_SM"
    folder.mkdir()
    for number, rows in ((10, slice(20, 30)), (2, slice(10, 20)), (1, slice(0, 10))):
        part = {name: column[rows] for name, column in columns.items()}
        write_public(folder / f"DiLepton_SM{number}.h5", part)
    (folder / "notes.txt").write_text("not data")
    sample = dimuon5d.read_public(folder)
    assert (sample.columns, sample.units, sample.name) == (
        dimuon5d.COLUMNS,
        dimuon5d.UNITS,
        "DiLepton_SM",
    )
    expected = np.stack([columns[name][1::2] for name in PUBLIC[:5]], axis=1)
    np.testing.assert_array_equal(sample.values, expected)
    whole = write_public(tmp_path / "all.h5", columns)
    np.testing.assert_array_equal(dimuon5d.read_public(str(whole)).values, expected)
    two = dimuon5d.read_public([folder / "DiLepton_SM2.h5", folder / "DiLepton_SM10.h5"])
    np.testing.assert_array_equal(two.values, expected[5:])


def test_selection_of_public_files_is_strict(tmp_path: Path) -> None:
    """Each of the three cuts removes what it should."""
    muons = {"pt1": 50.0, "pt2": 45.0, "eta1": 0.1, "eta2": 0.2, "delta_phi": 3.0}
    changes: list[dict[str, float]] = [
        {},
        {"pt2": 19.9},
        {"eta1": -2.2, "eta2": -2.0},
        {"eta2": 2.15},
        {"delta_phi": 0.5},
    ]
    rows = [muons | change for change in changes]
    columns = {name: np.array([row[name] for row in rows]) for name in PUBLIC[:5]}
    sample = Sample.from_columns(dict(zip(dimuon5d.COLUMNS, columns.values(), strict=True)))
    path = write_public(tmp_path / "a.h5", columns | {"mll": dimuon5d.mass(sample)})
    assert dimuon5d.read_public(path).values.tolist() == [[50.0, 45.0, 0.1, 0.2, 3.0]]


def damage(path: Path, how: str) -> None:
    """Write a public file with one thing wrong."""
    columns = public_columns(200)
    if how == "unequal":
        columns["eta2"] = columns["eta2"][:-1]
    elif how == "matrix":
        columns["pt1"] = columns["pt1"].reshape(100, 2)
    elif how == "scalar":
        columns["pt1"] = np.array(5.0)
    elif how == "renamed":
        columns["dphi"] = columns.pop("delta_phi")
    elif how == "empty":
        columns = {name: column[:0] for name, column in columns.items()}
    elif how == "mislabelled":
        columns["pt2"], columns["eta2"] = columns["eta2"], columns["pt2"]
    elif how == "infinite":
        columns["pt2"][7] = np.inf
    elif how == "soft":
        for name in ("pt1", "pt2", "mll"):
            columns[name] = columns[name] / 1000
    write_public(path, columns)
    if how == "text":
        with h5py.File(path, "a") as file:
            del file["eta1"]
            file.create_dataset("eta1", data=[b"one"] * 200)
    elif how == "group":
        with h5py.File(path, "a") as file:
            del file["eta1"]
            file.create_group("eta1")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:3000])
    elif how == "no hdf5":
        path.write_bytes(b"pt1,pt2\n1,2\n")
    elif how == "no bytes":
        path.write_bytes(b"")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("unequal", "unequal lengths .*eta2 199.*download it again"),
        ("matrix", r"'pt1' has shape \(100, 2\).*public layout"),
        ("scalar", r"'pt1' has shape \(\)"),
        ("renamed", r"lacks dataset 'delta_phi' \(nearest: 'dphi'\)"),
        ("empty", "holds no event; leave it out"),
        ("mislabelled", "200 events.*first at row 0.*mislabelled"),
        ("infinite", "'pt2': 1 of 200 values are not finite, first at row 7"),
        ("soft", "none of 200 events has pT > 20 GeV.*check the units"),
        ("text", "'eta1' holds .*not numbers"),
        ("group", "lacks dataset 'eta1'"),
        ("truncated", "cannot be read as HDF5 .*truncated"),
        ("no hdf5", "cannot be read as HDF5"),
        ("no bytes", "cannot be read as HDF5"),
    ],
)
def test_a_bad_public_file_is_named_with_what_is_wrong(
    tmp_path: Path, how: str, message: str
) -> None:
    """The error names the file, the dataset and what to do."""
    path = tmp_path / "DiLepton_SM7.h5"
    damage(path, how)
    with pytest.raises(InputError, match=message) as caught:
        dimuon5d.read_public(path)
    assert "DiLepton_SM7" in str(caught.value)


def test_missing_public_files(tmp_path: Path) -> None:
    """Nothing given, nothing there, nothing in the folder."""
    with pytest.raises(InputError, match="no file was given"):
        dimuon5d.read_public([])
    with pytest.raises(InputError, match=r"gone\.h5 does not exist"):
        dimuon5d.read_public(tmp_path / "gone.h5")
    with pytest.raises(InputError, match=r"holds no \.h5 file"):
        dimuon5d.read_public(tmp_path)


# -- the ideal test -------------------------------------------------------------------------------


COARSE = np.array([60.0, 75.0, 85.0, 90.0, 95.0, 105.0, 120.0, 150.0, 190.0, 210.0, 280.0, 320.0])


def test_spectra_are_those_of_the_shipped_samples() -> None:
    """Chi-square of each sample against its spectrum in a dozen bins, both with their errors."""
    spectra = dimuon5d.read_spectra()
    shapes = {"sm": spectra.drell_yan, **spectra.zprimes}
    for benchmark in (b for b in BENCHMARKS.values() if b.whole):
        shape = spectra.drell_yan + spectra.added(benchmark)
        assert shape.sum() == pytest.approx(benchmark.ratio, abs=3e-4)
        shapes[benchmark.sample] = shape / shape.sum()
    coarse = np.searchsorted(COARSE, spectra.edges[:-1], side="right") - 1
    for name, shape in shapes.items():
        masses = dimuon5d.mass(dimuon5d.read(name))
        observed = np.bincount(coarse, np.histogram(masses, spectra.edges)[0])
        share = np.bincount(coarse, shape)
        expected = len(masses) * share
        # 30 000 events are behind each slice of mass, and behind each Z'. Above 150 GeV slices are
        # steep, but every bin here has at least a tenth of its slice.
        simulated = 30_000 * np.where(COARSE >= 150, np.maximum(share, 0.1), share)
        filled = expected > 10
        variance = expected[filled] + expected[filled] ** 2 / simulated[filled]
        chi2 = float(((observed - expected)[filled] ** 2 / variance).sum())
        assert stats.chi2.sf(chi2, filled.sum()) > 1e-3, name


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("zprime600-6e-4", 4.0),
        ("zprime600-1.5e-3", 7.5),
        ("zprime300-2.5e-3", 7.1),
        ("zprime300-5e-3", 11.8),
        ("zprime200-5e-3", 9.0),
        ("zprime200-1e-2", 15.1),
        ("eft-cw1", 7.0),
        ("eft-cw05", 3.1),
    ],
)
def test_ideal_median_z_at_the_paper_exposure(name: str, target: float) -> None:
    """Numbers found independently on the larger sample these were taken from; within 0.3."""
    found = dimuon5d.ideal_median_z(BENCHMARKS[name], rng=np.random.default_rng(5))
    assert (found.name, found.paper_z) == (name, BENCHMARKS[name].paper_z)
    assert 0 < found.median_z_error < 0.1
    assert found.median_z == pytest.approx(target, abs=0.3)
    quarter = dimuon5d.ideal_median_z(BENCHMARKS[name], 2000, rng=np.random.default_rng(6))
    # Half, as the caption's reading of one batch would have it; not quite for few events.
    assert quarter.median_z == pytest.approx(found.median_z / 2, rel=0.15)


@pytest.mark.parametrize("name", ["zprime200-5e-3", "eft-cw05"])
def test_the_ideal_statistic_is_a_likelihood_ratio(name: str) -> None:
    """E1[e^(-t/2)] = E0[e^(t/2)] = 1, at an exposure small enough to average over."""
    rng, n = np.random.default_rng(7), 8_000
    for injected, sign in ((True, -0.5), (False, 0.5)):
        t = dimuon5d.ideal_toys(BENCHMARKS[name], 100, n, rng, injected=injected)
        weight = np.exp(sign * t)
        error = weight.std() / np.sqrt(n)
        assert error < 0.05
        assert weight.mean() == pytest.approx(1.0, abs=4 * error)


def test_spectra_made_from_too_few_events_are_refused(tmp_path: Path) -> None:
    """An empty bin would make any event in it infinitely surprising."""
    spectra = dimuon5d.read_spectra()
    drell_yan = spectra.drell_yan.copy()
    drell_yan[-5] = 0
    columns = {
        "low": spectra.edges[:-1],
        "high": spectra.edges[1:],
        "sm": drell_yan,
        "eft_linear": spectra.linear,
        "eft_quadratic": spectra.quadratic,
        **spectra.zprimes,
    }
    write_columns(tmp_path / "spectra.parquet", columns, {})
    with pytest.raises(InputError, match=r"spectra\.parquet: a bin without Drell-Yan events"):
        dimuon5d.read_spectra(tmp_path)
