"""Making CMS-L1-24D samples, part by part, on any number of workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from gofstream.datasets.cmsl1.events import L1Events, gather
from gofstream.datasets.cmsl1.files import from_parquet, made_with, to_parquet
from gofstream.datasets.cmsl1.generator import generate
from gofstream.datasets.cmsl1.processes import MIXTURE, PROCESS
from gofstream.errors import InputError, StoppedError, missing_extra


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of work, some ten seconds long: so many events of a process, for a sample."""

    sample: str
    process: str
    number: int
    size: int

    def path(self, folder: Path, seed: int) -> Path:
        """Where the part waits for the others; the name says what it is."""
        name = f"{self.sample}.part-{self.process}-{self.number}-{self.size}-{seed}.parquet"
        return folder / name


def make(
    folder: str | os.PathLike[str],
    *,
    seed: int = 1,
    events: int = 100_000,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
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
        How many to make of the Standard Model, in the shares of `MIXTURE`; a tenth of each signal.
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
        If the run is interrupted.

    Notes
    -----
    Typical use, about forty minutes on one core for the default number of events::

        with gofstream.process_workers() as workers:
            cmsl1.make("l1", executor=workers)
    """
    if events < 1 or seed < 0:
        raise InputError(f"events must be positive and seed not negative, got {events} and {seed}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    note: dict[str, object] = {"seed": seed, "events": events, "pythia": _pythia_version()}
    plan = plan_parts(events)
    paths = {sample: folder / f"{sample}.parquet" for sample in plan}
    missing = {s: parts for s, parts in plan.items() if not _already_made(paths[s], note)}
    parts = [part for sample in missing.values() for part in sample]
    todo = [part for part in parts if not part.path(folder, seed).exists()]
    done = len(parts) - len(todo)
    try:
        for part, made in _results(todo, seed, executor):
            to_parquet(made, part.path(folder, seed), note)
            done += 1
            if progress is not None:
                progress(done, len(parts))
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped after {done} of {len(parts)} parts; the same command goes on from there"
        ) from None
    for sample, sample_parts in missing.items():
        pieces = [part.path(folder, seed) for part in sample_parts]
        whole = gather([from_parquet(piece) for piece in pieces], f"CMS-L1 {sample}")
        # In no order, as data come: whoever takes the first thousand takes the mixture.
        order = np.random.default_rng([seed, 0]).permutation(len(whole))
        to_parquet(whole.take(order), paths[sample], note)
        for piece in pieces:
            piece.unlink()
    return list(paths.values())


def plan_parts(events: int) -> dict[str, list[Part]]:
    """Cut all samples into parts; how many workers there are does not enter."""
    standard = {name: int(share * events) for name, share in MIXTURE.items()}
    standard["W"] += events - sum(standard.values())  # what rounding leaves
    wanted = {"sm": standard}
    for name, process in PROCESS.items():
        if process.is_signal:
            wanted[name] = {name: max(1, events // 10)}
    return {
        sample: [
            Part(sample, process, number, min(size, count - number * size))
            for process, count in counts.items()
            for size in [PROCESS[process].events_per_part]
            for number in range(-(-count // size))
        ]
        for sample, counts in wanted.items()
    }


def _results(
    parts: list[Part], seed: int, executor: Executor | None
) -> Iterator[tuple[Part, L1Events]]:
    """Yield what is done, in any order."""
    if executor is None:
        for part in parts:
            yield part, generate(part.process, seed, part.number, part.size)
        return
    futures = {
        executor.submit(generate, part.process, seed, part.number, part.size): part
        for part in parts
    }
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:  # nothing is left to cancel, unless one of them failed
            future.cancel()


def _already_made(path: Path, note: dict[str, object]) -> bool:
    """Tell whether a file is there; refuse one that was made in another way."""
    if not path.exists():
        return False
    found = made_with(path)
    if found != note:
        raise InputError(
            f"{path}: was made with {found or 'unknown settings'}, not {note}; give another "
            "folder, or delete it"
        )
    return True


def _pythia_version() -> str:
    try:
        return version("pythia8mc")
    except PackageNotFoundError as error:
        raise missing_extra("pythia8mc", "pythia") from error
