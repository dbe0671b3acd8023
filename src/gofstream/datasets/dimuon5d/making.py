"""Making the samples of the data set, part by part, on any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets.dimuon5d.events import COLUMNS, pair_mass
from gofstream.datasets.dimuon5d.generator import PROCESSES, SLICES, generate, slice_sums
from gofstream.datasets.dimuon5d.spectrum import EDGES, SPECTRA_COLUMNS, ZPRIMES
from gofstream.datasets.storage import made_with, read_columns, write_columns
from gofstream.errors import InputError, StoppedError, missing_extra
from gofstream.execution import worker_died

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
        If the run is interrupted, or loses a worker.

    Notes
    -----
    Typical use, about a quarter of an hour of CPU time for the default number of events::

        with gofstream.process_workers() as workers:
            dimuon5d.make("dimuon", executor=workers)
    """
    if events < 1 or seed < 0:
        raise InputError(f"events must be positive and seed not negative, got {events} and {seed}")
    shelf = _Shelf(Path(folder), seed, events, _pythia_version())
    shelf.folder.mkdir(parents=True, exist_ok=True)
    plan = _plan(events)
    missing = [name for name in plan if not shelf.has(name)]
    _run([part for name in missing for part in plan[name]], shelf, executor, progress)
    for name in missing:
        _assemble(plan[name], shelf)
    return [shelf.file(name) for name in plan]


@dataclass(frozen=True, slots=True)
class _Shelf:
    """Where files go and what has to be true of them."""

    folder: Path
    seed: int
    events: int
    pythia: str

    @property
    def note(self) -> dict[str, object]:
        """What every file says about how it was made."""
        return {"seed": self.seed, "events": self.events, "pythia": self.pythia}

    def file(self, name: str) -> Path:
        """Where a whole sample goes."""
        return self.folder / f"{name}.parquet"

    def part(self, part: Part) -> Path:
        """Where a part waits for the others of its sample."""
        return self.folder / f"{part.sample}.part-{part.number}-{part.size}.parquet"

    def has_part(self, part: Part) -> bool:
        """Tell whether a part is there, from an earlier run of the same kind."""
        path = self.part(part)
        return path.exists() and made_with(path) == self.note

    def has(self, name: str) -> bool:
        """Tell whether a sample is there; refuse to replace one that was made otherwise."""
        path = self.file(name)
        if not path.exists():
            return False
        found = made_with(path)
        if found == self.note:
            return True
        there = ", ".join(f"{key} {value}" for key, value in found.items()) or "something else"
        asked = ", ".join(f"{key} {value}" for key, value in self.note.items())
        raise InputError(
            f"{path} was made with {there}, not with {asked}; ask for the same, choose another "
            "folder, or delete it"
        )


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
    shelf: _Shelf,
    executor: Executor | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Do what is not done yet, and write each part as it comes."""
    wanted = [part for part in parts if not shelf.has_part(part)]
    done = len(parts) - len(wanted)

    def keep(part: Part, table: FloatArray) -> None:
        nonlocal done
        write_columns(shelf.part(part), dict(zip(part.columns, table.T, strict=True)), shelf.note)
        done += 1
        if progress is not None:
            progress(done, len(parts))

    def stopped(why: str) -> StoppedError:
        return StoppedError(
            f"{why} with {done} of {len(parts)} parts made; they are kept in {shelf.folder}, and "
            "the same command goes on from there"
        )

    futures: dict[Future[FloatArray], Part] = {}
    try:
        if executor is None:
            for part in wanted:
                keep(part, part.run(shelf.seed))
            return
        futures = {executor.submit(part.run, shelf.seed): part for part in wanted}
        for future in as_completed(futures):
            keep(futures[future], future.result())
    except KeyboardInterrupt as stop:
        raise stopped("stopped") from stop
    except Exception as error:
        if worker_died(error):
            raise stopped("a worker died") from error
        raise
    finally:
        for future in futures:
            future.cancel()


def _assemble(parts: list[Part], shelf: _Shelf) -> None:
    """Put the parts of a sample into one file, and remove them."""
    name, columns = parts[0].sample, parts[0].columns
    tables = [read_columns(shelf.part(part), columns) for part in parts]
    if name == "spectra":
        whole = _merge_spectra(tables, shelf)
    else:
        whole = {key: np.concatenate([table[key] for table in tables]) for key in columns}
    write_columns(shelf.file(name), whole, shelf.note)
    for part in parts:
        shelf.part(part).unlink()


def _merge_spectra(
    tables: list[dict[str, NDArray[np.floating[Any]]]], shelf: _Shelf
) -> dict[str, NDArray[np.floating[Any]]]:
    """Add the slices, which are in cross sections, and set the Z' beside them."""
    drell_yan, linear, quadratic = (
        np.sum([table[key].astype(np.float64) for table in tables], axis=0)
        for key in SPECTRA_COLUMNS[2:5]
    )
    whole = float(drell_yan.sum())
    columns: dict[str, NDArray[np.floating[Any]]] = {
        "low": EDGES[:-1],
        "high": EDGES[1:],
        "sm": drell_yan / whole,
        "eft_linear": linear / whole,
        "eft_quadratic": quadratic / whole,
    }
    for name in ZPRIMES:
        masses = pair_mass(*read_columns(shelf.file(name), COLUMNS).values())
        columns[name] = np.histogram(masses, EDGES)[0] / len(masses)
    return columns


def _pythia_version() -> str:
    try:
        return version("pythia8mc")
    except PackageNotFoundError as error:
        raise missing_extra("pythia8mc", "pythia") from error
