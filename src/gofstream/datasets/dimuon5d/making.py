"""Making the samples of the data set, part by part, on any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets.dimuon5d.events import COLUMNS, pair_mass
from gofstream.datasets.dimuon5d.generator import PROCESSES, SLICES, generate, slice_sums
from gofstream.datasets.dimuon5d.spectrum import EDGES, SPECTRA_COLUMNS, ZPRIMES
from gofstream.datasets.storage import made_with, read_columns, write_columns
from gofstream.errors import InputError, StoppedError, missing_extra

FloatArray = NDArray[np.float64]

#: Rows of a part: some ten seconds of work, which is what is lost when a run is stopped.
PART = 20_000

# Rows of each sample over those of Drell-Yan. A contact term's data are drawn whole from its
# sample, a Z' adds a few dozen events to each toy.
_SHARES = {"sm": 1.0, "eft": 0.25, "eft_cw05": 0.25} | dict.fromkeys(ZPRIMES, 0.03)

_SPECTRA_KEY = 1000  # apart from the numbers of all samples


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of work: so many events of a sample, or so many tries in a slice of the spectrum."""

    sample: str
    number: int
    size: int

    def run(self, seed: int) -> FloatArray:
        """Do it; the result is a table with the columns of `columns`."""
        if self.sample == "spectra":
            low, high, cross_section = SLICES[self.number]
            key = (_SPECTRA_KEY, self.number)
            found = slice_sums(low, high, EDGES, self.size, seed=seed, key=key)
            return cross_section * np.stack([found.counts, found.linear, found.quadratic], axis=1)
        key = (list(PROCESSES).index(self.sample), self.number)
        return generate(PROCESSES[self.sample], self.size, seed=seed, key=key)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of what `run` gives."""
        return SPECTRA_COLUMNS[2:5] if self.sample == "spectra" else COLUMNS

    def path(self, folder: Path, seed: int) -> Path:
        """Where the part waits for the others of its sample; the name says what it is."""
        return folder / f"{self.sample}.part-{self.number}-{self.size}-{seed}.parquet"


def make(
    folder: str | Path,
    *,
    seed: int = 1,
    events: int = 1_000_000,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Make all samples and the mass spectra with Pythia 8, and write them as Parquet.

    Drell-Yan with `events` rows, each contact term with a quarter of that, each Z' with 3 %. What
    is written does not depend on the executor. A run that was stopped goes on where it was.

    Parameters
    ----------
    folder : path
        Where ``sm.parquet`` and the others go; made if need be.
    seed : int
        The same seed gives the same events, with the same version of Pythia.
    events : int
        Drell-Yan events.
    executor : Executor, optional
        Best `gofstream.process_workers`; by default all is done in this process.
    progress : callable, optional
        Called with the parts that are done, and all of them.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If the folder holds samples made otherwise; nothing is overwritten.
    StoppedError
        If the run is interrupted.

    Notes
    -----
    Typical use, about a quarter of an hour of CPU time for the default number of events::

        with gofstream.process_workers() as workers:
            dimuon5d.make("dimuon", executor=workers)
    """
    if events < 1 or seed < 0:
        raise InputError(f"events must be positive and seed not negative, got {events} and {seed}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    note: dict[str, object] = {"seed": seed, "events": events, "pythia": _pythia_version()}
    plan = _plan(events)
    wanted = {name: folder / f"{name}.parquet" for name in plan}
    parts = [
        part
        for name, path in wanted.items()
        if not _already_made(path, note)
        for part in plan[name]
    ]
    _run(
        [part for part in parts if not part.path(folder, seed).exists()],
        folder,
        note,
        executor,
        progress,
        len(parts),
    )
    for name, path in wanted.items():
        if not path.exists():
            _assemble(name, plan[name], path, note)
    return list(wanted.values())


def _plan(events: int) -> dict[str, list[Part]]:
    """Cut all samples into parts."""
    plan = {}
    for name, share in _SHARES.items():
        rows = max(1, round(share * events))
        sizes = [min(PART, rows - start) for start in range(0, rows, PART)]
        plan[name] = [Part(name, number, size) for number, size in enumerate(sizes)]
    tries = max(100, events // 10)
    plan["spectra"] = [Part("spectra", number, tries) for number in range(len(SLICES))]
    return plan


def _run(
    parts: list[Part],
    folder: Path,
    note: dict[str, object],
    executor: Executor | None,
    progress: Callable[[int, int], None] | None,
    total: int,
) -> None:
    """Do what is not done yet, and write each part as it comes."""
    seed = int(str(note["seed"]))
    done = total - len(parts)

    def keep(part: Part, table: FloatArray) -> None:
        nonlocal done
        columns = dict(zip(part.columns, table.T, strict=True))
        write_columns(part.path(folder, seed), columns, note)
        done += 1
        if progress is not None:
            progress(done, total)

    futures: dict[Future[FloatArray], Part] = {}
    try:
        if executor is None:
            for part in parts:
                keep(part, part.run(seed))
            return
        futures = {executor.submit(part.run, seed): part for part in parts}
        for future in as_completed(futures):
            keep(futures[future], future.result())
    except KeyboardInterrupt as stop:
        raise StoppedError(
            f"stopped with {done} of {total} parts made; they are kept in {folder}, and the same "
            "command goes on from there"
        ) from stop
    finally:
        for future in futures:
            future.cancel()


def _assemble(name: str, parts: list[Part], path: Path, note: dict[str, object]) -> None:
    """Put the parts of a sample into one file, and remove them."""
    seed = int(str(note["seed"]))
    files = [part.path(path.parent, seed) for part in parts]
    names = parts[0].columns
    tables = [read_columns(file, names) for file in files]
    if name == "spectra":
        columns = _merge_spectra(tables, path.parent)
    else:
        columns = {key: np.concatenate([table[key] for table in tables]) for key in names}
    write_columns(path, columns, note)
    for file in files:
        file.unlink()


def _merge_spectra(
    tables: list[dict[str, NDArray[np.floating]]], folder: Path
) -> dict[str, FloatArray]:
    """Add the slices, which are in cross sections, and set the Z' beside them."""
    drell_yan, linear, quadratic = (
        np.sum([table[key].astype(np.float64) for table in tables], axis=0)
        for key in SPECTRA_COLUMNS[2:5]
    )
    whole = float(drell_yan.sum())
    columns = {
        "low": EDGES[:-1],
        "high": EDGES[1:],
        "sm": drell_yan / whole,
        "eft_linear": linear / whole,
        "eft_quadratic": quadratic / whole,
    }
    for name in ZPRIMES:
        masses = pair_mass(*read_columns(folder / f"{name}.parquet", COLUMNS).values())
        columns[name] = np.histogram(masses, EDGES)[0] / len(masses)
    return columns


def _already_made(path: Path, note: dict[str, object]) -> bool:
    """Tell whether a file is the one that would be made; refuse to replace another one."""
    if not path.exists():
        return False
    found = made_with(path)
    if found == note:
        return True
    how = ", ".join(f"{key} {value}" for key, value in found.items()) or "something else"
    raise InputError(
        f"{path} was made with {how}, not with "
        f"{', '.join(f'{key} {value}' for key, value in note.items())}; ask for the same, choose "
        "another folder, or delete it"
    )


def _pythia_version() -> str:
    try:
        return version("pythia8mc")
    except PackageNotFoundError as error:
        raise missing_extra("pythia8mc", "pythia") from error
