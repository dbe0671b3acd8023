"""Make CMS-L1-24D samples: Pythia 8 collides, `detector` observes, Parquet keeps.

Accepted events per second and core, about: W 250, top pairs 100, LQ 60, Z 200,
h0 → ττ 20, h± → τν 10, QCD 4.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets.cmsl1.collisions import Collisions, Particles, collide
from gofstream.datasets.cmsl1.detector import observe
from gofstream.datasets.cmsl1.events import COLUMNS, UNITS, L1Events, features, gather
from gofstream.datasets.cmsl1.files import to_parquet
from gofstream.datasets.cmsl1.processes import MIXTURE, PROCESS, Process
from gofstream.errors import GofstreamError, InputError, missing_extra
from gofstream.sample import build

if TYPE_CHECKING:
    from pythia8mc import Pythia


# Without multiple interactions: pile-up and the soft part are put in by the detector.
_COMMON = ("Print:quiet = on", "Beams:eCM = 13000.", "PartonLevel:MPI = off")

# Collisions Pythia hands over at once.
_BATCH = 500


def make(
    folder: str | os.PathLike[str],
    *,
    seed: int,
    executor: Executor,
    events: int = 100_000,
    signal_events: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Path]:
    """Make the Standard Model sample and the four signals: ``sm.parquet``, ``A4l.parquet``, ...

    The same seed gives the same files on any number of workers. They stand in for the public files;
    they are not those files.

    Parameters
    ----------
    folder
        Where to write; `read` takes the same. A file is there whole or not at all.
    seed
        With the number of a part, the seed of its collisions.
    executor
        Who works, such as `gofstream.process_workers`.
    events
        How many to make of the Standard Model, in the shares of `MIXTURE`.
    signal_events
        How many of each signal; by default a tenth.
    progress
        Called with the events made so far, and those wanted.

    Returns
    -------
    dict
        Path by name.

    Examples
    --------
    >>> from gofstream import process_workers
    >>> with process_workers() as workers:  # doctest: +SKIP
    ...     make("l1", seed=1, executor=workers)
    """
    if events < 1 or seed < 0:
        raise InputError(
            f"events is {events} and seed {seed}; ask for at least one event, with a seed of 0 or "
            "more"
        )
    each = max(1, events // 10) if signal_events is None else signal_events
    signals = [name for name, process in PROCESS.items() if process.code < 0]
    wanted = {"sm": _shares(events)} | {name: {name: each} for name in signals}
    parts = {
        (sample, process, part): size
        for sample, counts in wanted.items()
        for process, count in counts.items()
        for part, size in enumerate(_parts(count, PROCESS[process].events_per_part))
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    futures = {
        executor.submit(make_part, process, seed, part, size): (sample, process, part)
        for (sample, process, part), size in parts.items()
    }
    made, done = {}, 0
    try:
        for future in as_completed(futures):
            made[futures[future]] = future.result()
            done += parts[futures[future]]
            progress(done, sum(parts.values()))
    finally:
        for future in futures:  # nothing to do, unless one of them failed
            future.cancel()
    paths = {}
    for sample in wanted:
        whole = gather([made[key] for key in parts if key[0] == sample], f"CMS-L1 {sample}")
        # In no order, as data come: whoever takes the first thousand takes the mixture.
        shuffled = whole.take(np.random.default_rng([seed, 0]).permutation(len(whole)))
        paths[sample] = folder / f"{sample}.parquet"
        to_parquet(shuffled, paths[sample])
    return paths


def make_part(name: str, seed: int, part: int, count: int) -> L1Events:
    """Make ``count`` events of one process, always the same for one seed and part."""
    process = PROCESS[name]
    source = np.random.SeedSequence([seed, process.number, part])
    rng = np.random.default_rng(source)
    pythia = _pythia(process, 1 + int(source.generate_state(1)[0]) % 899_999_999)
    values, numbers, copies = [], [], []
    collided = have = 0
    while have < count:
        collisions = collide(_particles(pythia))
        seen, number, copy = _observed(collisions, process.copies, rng)
        values.append(seen)
        numbers.append(number + collided)
        copies.append(copy)
        collided += len(collisions)
        have += len(seen)
    uid = (process.number * 100_000 + part) * 1_000_000 + np.concatenate(numbers)[:count]
    sample = build(np.concatenate(values)[:count], COLUMNS, None, UNITS, (), name, copy=False)
    return L1Events(
        sample, uid, np.concatenate(copies)[:count], np.full(count, process.code, np.int64)
    )


def _observed(
    collisions: Collisions, times: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Observe each collision so often: what was accepted, of which collision, and its copy."""
    looks = [observe(collisions, rng) for _ in range(times)]
    accepted = np.stack([accepted for _, accepted in looks], axis=1)
    number, look = np.nonzero(accepted)
    seen = np.stack([features(particles) for particles, _ in looks], axis=1)[number, look]
    return seen, number, (np.cumsum(accepted, axis=1) - 1)[number, look]


def _pythia(process: Process, seed: int) -> Pythia:
    try:
        from pythia8mc import Pythia
    except ImportError as error:
        raise missing_extra("pythia8mc", "pythia") from error
    pythia = Pythia("", False)
    for command in (*_COMMON, *process.commands, "Random:setSeed = on", f"Random:seed = {seed}"):
        if not pythia.readString(command):
            raise GofstreamError(f"Pythia does not know {command!r}; install another version")
    if not pythia.init():
        raise GofstreamError("Pythia could not be initialised; install another version")
    return pythia


def _particles(pythia: Pythia) -> Particles:
    """Collide some times: the stable particles that can be seen."""
    import awkward as ak

    record = pythia.nextBatch(_BATCH).prt
    event = np.repeat(np.arange(len(record)), ak.to_numpy(ak.num(record)))
    flat = ak.flatten(record)
    kind = np.abs(ak.to_numpy(flat.id)).astype(np.int64)
    seen = (ak.to_numpy(flat.status) > 0) & ~np.isin(kind, (12, 14, 16))
    momentum = np.column_stack([ak.to_numpy(flat.p[axis]) for axis in ("px", "py", "pz", "e")])
    return Particles(event[seen], kind[seen], momentum[seen])


def _shares(events: int) -> dict[str, int]:
    """Divide events by `MIXTURE`; what rounding leaves goes to the largest."""
    counts = {name: int(share * events) for name, share in MIXTURE.items()}
    counts["W"] += events - sum(counts.values())
    return counts


def _parts(count: int, size: int) -> list[int]:
    return [min(size, count - start) for start in range(0, count, size)]
