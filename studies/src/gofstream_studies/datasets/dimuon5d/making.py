"""Making the samples of the data set, part by part, on any number of workers."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream_studies.datasets.dimuon5d.events import COLUMNS, pair_mass
from gofstream_studies.datasets.dimuon5d.generator import PROCESSES, SLICES, generate, slice_sums
from gofstream_studies.datasets.dimuon5d.spectrum import EDGES, SPECTRA_COLUMNS, ZPRIMES
from gofstream_studies.datasets.parts import Columns, Progress, Shelf, one_after_another
from gofstream_studies.datasets.storage import read_columns

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

    @property
    def label(self) -> str:
        """What tells it from the other parts of the sample."""
        return f"{self.number}-{self.size}"

    def run(self, seed: int) -> Columns:
        """Do it."""
        if self.sample == "spectra":
            low, high, cross_section = SLICES[self.number]
            key = (_SPECTRA_KEY, self.number)
            found = slice_sums(low, high, EDGES, self.size, seed=seed, key=key)
            made = cross_section * np.stack([found.counts, found.linear, found.quadratic], axis=1)
        else:
            key = (list(PROCESSES).index(self.sample), self.number)
            made = generate(PROCESSES[self.sample], self.size, seed=seed, key=key)
        return dict(zip(self.columns, made.T, strict=True))

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
    progress: Progress | None = None,
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
    shelf = Shelf.of(Path(folder), seed, events)
    plan = _plan(events)
    missing = [name for name in plan if not shelf.has(name)]
    shelf.run([part for name in missing for part in plan[name]], executor, progress)
    for name in missing:
        parts = plan[name]
        tables = shelf.tables(parts, parts[0].columns)
        whole = _merge_spectra(tables, shelf) if name == "spectra" else one_after_another(tables)
        shelf.finish(parts, whole)
    return [shelf.file(name) for name in plan]


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


def _merge_spectra(tables: list[Columns], shelf: Shelf) -> Columns:
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
        masses = pair_mass(*read_columns(shelf.file(name), COLUMNS).values())
        columns[name] = np.histogram(masses, EDGES)[0] / len(masses)
    return columns
