"""Making CMS-L1-24D samples, part by part, on any number of workers."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gofstream_studies.datasets.cmsl1.files import STORED, as_columns
from gofstream_studies.datasets.cmsl1.generator import generate
from gofstream_studies.datasets.cmsl1.processes import MIXTURE, PROCESS
from gofstream_studies.datasets.parts import Columns, Progress, Shelf, one_after_another

#: A data set has some hundred signal events at most: more to draw them from would change nothing.
SIGNAL_EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of work, some ten seconds long: so many events of a process, for a sample."""

    sample: str
    process: str
    number: int
    size: int

    @property
    def label(self) -> str:
        """What tells it from the other parts of the sample."""
        return f"{self.process}-{self.number}-{self.size}"

    def run(self, seed: int) -> Columns:
        """Do it."""
        return as_columns(generate(self.process, seed, self.number, self.size))


def make(
    folder: str | Path,
    *,
    seed: int = 1,
    events: int = 100_000,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Make the Standard Model sample and the four signals: ``sm.parquet``, ``A4l.parquet``, ...

    The same seed gives the same files on any number of workers, and a run that was stopped goes on
    where it was. The samples stand in for the public files; they are not those files.

    Parameters
    ----------
    folder
        Where to write; `read` takes the same. A file is there whole or not at all.
    seed
        With the number of a part, the seed of its collisions.
    events
        How many to make of the Standard Model, in the shares of `MIXTURE`; of each signal a tenth,
        and at most `SIGNAL_EVENTS`.
    executor
        Who works, best `gofstream.process_workers`; by default all is done in this process.
    progress
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
    Typical use, about forty minutes on one core for the default number of events::

        with gofstream.process_workers() as workers:
            cmsl1.make("l1", executor=workers)
    """
    shelf = Shelf.of(Path(folder), seed, events)
    plan = plan_parts(events)
    missing = [sample for sample in plan if not shelf.has(sample)]
    shelf.run([part for sample in missing for part in plan[sample]], executor, progress)
    for sample in missing:
        whole = one_after_another(shelf.tables(plan[sample], STORED))
        # In no order, as data come: whoever takes the first thousand takes the mixture.
        order = np.random.default_rng([seed, 0]).permutation(len(whole["uid"]))
        shelf.finish(plan[sample], {name: column[order] for name, column in whole.items()})
    return [shelf.file(sample) for sample in plan]


def plan_parts(events: int) -> dict[str, list[Part]]:
    """Cut all samples into parts; how many workers there are does not enter."""
    standard = {name: int(share * events) for name, share in MIXTURE.items()}
    standard["W"] += events - sum(standard.values())  # what rounding leaves
    wanted = {"sm": standard}
    for name, process in PROCESS.items():
        if process.is_signal:
            wanted[name] = {name: max(1, min(events // 10, SIGNAL_EVENTS))}
    return {
        sample: [
            Part(sample, process, number, min(size, count - number * size))
            for process, count in counts.items()
            for size in [PROCESS[process].events_per_part]
            for number in range(-(-count // size))
        ]
        for sample, counts in wanted.items()
    }
