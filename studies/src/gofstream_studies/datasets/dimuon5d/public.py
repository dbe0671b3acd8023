"""The public files of the data set (Zenodo record 4442665), in exactly their layout.

HDF5 files of about 57 500 events, such as ``DiLepton_SM/DiLepton_SM1.h5`` to ``DiLepton_SM66.h5``.
Each holds one one-dimensional dataset for each of pt1, pt2, eta1, eta2, delta_phi and mll.
Pseudorapidities reach 2.4, so the selection of the paper is applied here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import (
    ColumnError,
    DtypeError,
    EmptyError,
    InputError,
    missing_extra,
    nearest_names,
)
from gofstream.sample import Sample
from gofstream_studies.datasets.dimuon5d.events import COLUMNS, UNITS, pair_mass, selected

if TYPE_CHECKING:
    import h5py

#: The datasets of a public file; the first five are our `COLUMNS`, in their order.
PUBLIC = ("pt1", "pt2", "eta1", "eta2", "delta_phi", "mll")

# A file whose mll is not the mass of its muons has columns in the wrong place or unit.
_MASS_TOLERANCE = 0.05

_DOWNLOAD_AGAIN = "download it again (`gofstream data fetch dimuon5d`)"


def read_public(paths: str | Path | Iterable[str | Path]) -> Sample:
    """Read public files, and apply the selection of the paper.

    Parameters
    ----------
    paths : path or several
        HDF5 files, or folders such as ``DiLepton_SM`` whose .h5 files are all read, in the order
        of their numbers.

    Returns
    -------
    Sample
        The five columns of `COLUMNS`, for events with pT > 20 GeV, |eta| < 2.1, m > 60 GeV.

    Raises
    ------
    InputError
        If a file is missing, truncated, empty or laid out otherwise. The message names it.

    Examples
    --------
    >>> import tempfile
    >>> import h5py
    >>> path = Path(tempfile.mkdtemp()) / "DiLepton_SM1.h5"
    >>> muons = {"pt1": 45.0, "pt2": 45.0, "eta1": 0.3, "eta2": 0.3, "delta_phi": 3.14159}
    >>> with h5py.File(path, "w") as file:
    ...     for name, value in {**muons, "mll": 90.0}.items():
    ...         _ = file.create_dataset(name, data=[value])
    >>> read_public(path).columns
    ('pt1', 'pt2', 'eta1', 'eta2', 'dphi')
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    files = [file for path in given for file in _files_of(path)]
    if not files:
        raise InputError("no file was given; give HDF5 files, or a folder that holds them")
    events = np.concatenate([_read_file(file) for file in files], axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        kept = events[:, selected(*events)]
    name = given[0].stem if len(given) == 1 else f"{len(files)} public files"
    if not kept.shape[1]:
        raise EmptyError(
            f"{name}: none of {events.shape[1]} events has pT > 20 GeV, |eta| < 2.1 and "
            "m > 60 GeV; check the units (GeV) of the file"
        )
    return Sample.from_columns(dict(zip(COLUMNS, kept, strict=True)), units=UNITS, name=name)


def _files_of(path: Path) -> list[Path]:
    """List the files a path stands for, DiLepton_SM2 before DiLepton_SM10."""
    if not path.is_dir():
        return [path]
    found = sorted(
        path.glob("*.h5"),
        key=lambda file: [
            int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.name)
        ],
    )
    if not found:
        raise InputError(
            f"{path} holds no .h5 file; give the folder that does, such as DiLepton_SM"
        )
    return found


def _read_file(path: Path) -> NDArray[np.float64]:
    """Read one file as an array of shape (5, events)."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra("h5py", "hdf5") from error
    if not path.exists():
        raise InputError(f"{path} does not exist; check the name, or {_DOWNLOAD_AGAIN}")
    try:
        with h5py.File(path, "r") as file:
            columns = [_read_dataset(path, file, name) for name in PUBLIC]
    except OSError as error:
        raise InputError(
            f"{path} cannot be read as HDF5 ({error}); it is truncated, damaged or something "
            f"else: {_DOWNLOAD_AGAIN}"
        ) from error
    lengths = {name: len(column) for name, column in zip(PUBLIC, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(
            f"{path}: datasets of unequal lengths ({listed}); the file is not whole: "
            f"{_DOWNLOAD_AGAIN}"
        )
    if not lengths["mll"]:
        raise EmptyError(f"{path} holds no event; leave it out, or {_DOWNLOAD_AGAIN}")
    for name, column in zip(PUBLIC, columns, strict=True):
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise InputError(
                f"{path}, dataset {name!r}: {len(bad)} of {len(column)} values are not finite, "
                f"first at row {bad[0]} (counted from 0); {_DOWNLOAD_AGAIN}"
            )
    *muons, stored = columns
    # What is in the wrong place need not have a mass at all: such an event is off, too.
    with np.errstate(invalid="ignore", over="ignore"):
        off = ~(np.abs(pair_mass(*muons) - stored) <= _MASS_TOLERANCE * np.abs(stored))
    if off.mean() > 0.5:
        raise InputError(
            f"{path}: in {off.sum()} of {len(off)} events, first at row {np.argmax(off)} (counted "
            "from 0), mll is not the mass that follows from the other datasets; they are "
            "mislabelled or not in GeV: check how the file was made"
        )
    return np.stack(muons)


def _read_dataset(path: Path, file: h5py.File, name: str) -> NDArray[np.float64]:
    dataset = file.get(name)
    if not hasattr(dataset, "dtype"):  # nothing there, or a group
        raise ColumnError(
            f"{path} lacks dataset {name!r} ({nearest_names(name, file)}); public files hold "
            f"{', '.join(PUBLIC)}"
        )
    if dataset.dtype.kind not in "fiu":
        raise DtypeError(
            f"{path}, dataset {name!r} holds {dataset.dtype}, not numbers; it is not a public "
            f"file of this data set: {_DOWNLOAD_AGAIN}"
        )
    if dataset.shape is None or len(dataset.shape) != 1:
        raise InputError(
            f"{path}, dataset {name!r} has shape {dataset.shape}, but one number for each event "
            "is expected; give a file in the public layout"
        )
    return np.asarray(dataset[:], np.float64)
