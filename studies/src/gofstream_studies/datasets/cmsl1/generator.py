"""Generate CMS-L1-24D events: Pythia 8 collides, `detector` observes.

Accepted events per second and core, about: Z 600, W 500, A → 4l 200, top pairs 80, LQ 45,
h0 → ττ 40 (each collision twice), h± → τν 15 (three times), QCD 40 (twenty times).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import GofstreamError, missing_extra
from gofstream.sample import build
from gofstream_studies.datasets.cmsl1.collisions import Collisions, Particles, collide
from gofstream_studies.datasets.cmsl1.detector import observe
from gofstream_studies.datasets.cmsl1.events import COLUMNS, UNITS, L1Events, features
from gofstream_studies.datasets.cmsl1.processes import PROCESS, Process

if TYPE_CHECKING:
    from pythia8mc import Pythia


# Without multiple interactions: pile-up and the soft part are put in by the detector.
_COMMON = ("Print:quiet = on", "Beams:eCM = 13000.", "PartonLevel:MPI = off")

# Collisions Pythia hands over at once.
_BATCH = 100


def generate(name: str, seed: int, part: int, count: int) -> L1Events:
    """Generate ``count`` events of one process, always the same for one seed and part.

    Parameters
    ----------
    name
        One of `PROCESS`.
    seed, part
        Decide everything that is random; a larger ``count`` only goes on.
    count
        How many events.

    Examples
    --------
    >>> len(generate("W", seed=1, part=0, count=10))
    10
    """
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


@cache
def _untouched() -> Pythia:
    """Read Pythia's own settings, once in each process: a quarter of a second."""
    try:
        from pythia8mc import Pythia
    except ImportError as error:
        raise missing_extra("pythia8mc", "pythia") from error
    return Pythia("", False)


def _pythia(process: Process, seed: int) -> Pythia:
    own = _untouched()
    pythia = type(own)(own.settings, own.particleData, False)  # copies of both
    for command in (*_COMMON, *process.commands, "Random:setSeed = on", f"Random:seed = {seed}"):
        if not pythia.readString(command):
            raise GofstreamError(f"Pythia does not know {command!r}; install another version")
    if not pythia.init():
        raise GofstreamError("Pythia could not be initialised; install another version")
    return pythia


def _particles(pythia: Pythia) -> Particles:
    """Collide some times: the stable particles that can be seen."""
    try:
        import awkward as ak
    except ImportError as error:
        raise missing_extra("awkward", "pythia") from error
    record = pythia.nextBatch(_BATCH).prt
    event = np.repeat(np.arange(len(record)), ak.to_numpy(ak.num(record)))
    flat = ak.flatten(record)
    kind = np.abs(ak.to_numpy(flat.id)).astype(np.int64)
    seen = (ak.to_numpy(flat.status) > 0) & ~np.isin(kind, (12, 14, 16))
    momentum = np.column_stack([ak.to_numpy(flat.p[axis]) for axis in ("px", "py", "pz", "e")])
    return Particles(event[seen], kind[seen], momentum[seen])
