"""Read the public files of CMS-L1-24D, in exactly the layout they have on Zenodo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import EmptyError, InputError, NonFiniteError, missing_extra
from gofstream.sample import Sample, build
from gofstream_studies.datasets.cmsl1.events import COLUMNS, OBJECTS, UNITS, features

if TYPE_CHECKING:
    import h5py

#: What the files say of themselves: the numbers of an object, and its kinds in the order of rows.
NAMES = ("Pt", "Eta", "Phi", "Class")
CLASSES = ("MET_class_1", "Four_Ele_class_2", "Four_Mu_class_3", "Ten_Jet_class_4")

# Raw events held at once: 60 MB of float64.
_ROWS = 100_000

_FETCH = "fetch the file again from its Zenodo record"


def read_public(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sample:
    """Read public files, such as ``background_for_training.h5``, as the paper's 24 columns.

    The files are read in pieces: in memory there are never more than the columns asked for, 96
    bytes for each event (1.3 GB for all 13 451 915 of the background), and one piece.

    Parameters
    ----------
    paths
        One file or several, read one after another.
    progress
        Called with the events read so far, and all there are.

    Returns
    -------
    Sample
        With `COLUMNS`, in float32.

    Raises
    ------
    InputError
        If a file is not in this layout; it names the file and what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile, h5py
    >>> path = pathlib.Path(tempfile.mkdtemp(), "events.h5")
    >>> with h5py.File(path, "w") as file:
    ...     for name, data in {
    ...         "Particles": np.zeros((7, 19, 4)),
    ...         "Particles_Names": NAMES,
    ...         "Particles_Classes": CLASSES,
    ...     }.items():
    ...         _ = file.create_dataset(name, data=data)
    >>> len(read_public(path))
    7
    """
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(p) for p in paths]
    if not files:
        raise EmptyError("no files were given; name at least one")
    # All files are looked at before any is read, so that a bad one does not cost half an hour.
    counts = []
    for path in files:
        with _opened(path) as file:
            counts.append(_checked(file, path).shape[0])
    values = np.empty((sum(counts), len(COLUMNS)), np.float32)
    done = 0
    for path, count in zip(files, counts, strict=True):
        with _opened(path) as file:
            particles = _checked(file, path)
            for start in range(0, count, _ROWS):
                piece = _piece(particles, start, min(start + _ROWS, count), path)
                values[done : done + len(piece)] = piece
                done += len(piece)
                progress(done, len(values))
    name = files[0].stem if len(files) == 1 else f"{files[0].stem} and {len(files) - 1} more"
    return build(values, COLUMNS, None, UNITS, (), name, copy=False)


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open a file, or say why it cannot be."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra("h5py", "hdf5") from error
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the name, or {_FETCH}")
    if path.stat().st_size == 0:
        raise EmptyError(f"{path}: the file is empty (0 bytes); {_FETCH}")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        what = "is not HDF5" if not h5py.is_hdf5(path) else "is HDF5, but cut short or damaged"
        raise InputError(f"{path}: the file {what} ({error}); {_FETCH}") from error
    with file:
        yield file


def _checked(file: h5py.File, path: Path) -> h5py.Dataset:
    """Give the events of a file whose layout is the public one."""
    import h5py

    for name in ("Particles", "Particles_Names", "Particles_Classes"):
        if not isinstance(file.get(name), h5py.Dataset):
            raise InputError(
                f"{path}: has no dataset {name!r}, only {', '.join(sorted(file)) or 'nothing'}; "
                f"it is another kind of file, or damaged: {_FETCH}"
            )
    particles: h5py.Dataset = file["Particles"]
    if particles.dtype.kind != "f":
        raise InputError(
            f"{path}: dataset 'Particles' holds {particles.dtype}, not floating-point numbers; "
            f"{_FETCH}"
        )
    if particles.ndim != 3 or particles.shape[1:] != (19, len(NAMES)):
        raise InputError(
            f"{path}: dataset 'Particles' has shape {particles.shape}, not (events, 19 objects, 4 "
            f"numbers); it is another kind of file: {_FETCH}"
        )
    for name, wanted in (("Particles_Names", NAMES), ("Particles_Classes", CLASSES)):
        found = tuple(_text(entry) for entry in np.ravel(file[name][()]))
        if found != wanted:
            raise InputError(
                f"{path}: dataset {name!r} says {', '.join(found)}, not {', '.join(wanted)}: the "
                f"numbers would be taken for something else; reorder 'Particles', or {_FETCH}"
            )
    if not particles.shape[0]:
        raise EmptyError(f"{path}: dataset 'Particles' has no events; {_FETCH}")
    return particles


def _piece(particles: h5py.Dataset, start: int, stop: int, path: Path) -> NDArray[np.float32]:
    """Read some of the events, and check that they are what their places say."""
    try:
        raw = particles[start:stop]
    except OSError as error:
        raise InputError(
            f"{path}: events {start} to {stop - 1} cannot be read ({error}); the file is cut "
            f"short or damaged: {_FETCH}"
        ) from error
    for name, row in OBJECTS.items():
        for column, values in zip(NAMES, raw[:, row].T, strict=True):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                raise NonFiniteError(
                    f"{path}: {column} of {name} is {values[bad[0]]} in event {start + bad[0]} "
                    f"(counted from 0); {_FETCH}, or drop the event"
                )
        wrong = np.flatnonzero((raw[:, row, 0] != 0) & (raw[:, row, 3] != _class_of(row)))
        if len(wrong):
            raise InputError(
                f"{path}: {name} in event {start + wrong[0]} (counted from 0) has class "
                f"{raw[wrong[0], row, 3]:g}, not {_class_of(row)}: objects are not in the public "
                "order MET, 4 electrons, 4 muons, 10 jets; reorder them"
            )
    return features(raw)


def _class_of(row: int) -> int:
    """Give the class of an object by its row in the public layout."""
    return 1 if row < 1 else 2 if row < 5 else 3 if row < 9 else 4


def _text(entry: object) -> str:
    return entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)
