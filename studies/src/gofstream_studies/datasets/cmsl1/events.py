"""CMS-L1-24D events in memory: the 24 columns, who is a copy of whom, fair splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gofstream.errors import InputError
from gofstream.sample import Sample, build

Ints = NDArray[np.int64]

#: The eight objects of the paper, by the row each has in the public layout of 19.
OBJECTS = {"met": 0, "mu1": 5, "mu2": 6, "e1": 1, "e2": 2, "jet1": 9, "jet2": 10, "jet3": 11}
#: The 24 columns of the paper. ``met_eta`` is always zero: the missing momentum is transverse.
COLUMNS = tuple(f"{thing}_{what}" for thing in OBJECTS for what in ("pt", "eta", "phi"))
#: The 23 columns that vary. A learner finds the same f in either; only here it has no warning to
#: give of a constant column.
VARYING = tuple(column for column in COLUMNS if column != "met_eta")
UNITS = {c: "GeV" if c.endswith("pt") else "rad" for c in COLUMNS if not c.endswith("eta")}

#: Codes in `L1Events.process`.
PROCESSES = {"W": 0, "QCD": 1, "Z": 2, "ttbar": 3, "signal": -1}


def features(particles: ArrayLike) -> NDArray[np.float32]:
    """Take the paper's 24 columns out of events in the public layout.

    Parameters
    ----------
    particles
        (N, 19, 4): rows MET, 4 electrons, 4 muons, 10 jets; columns pT, η, φ, class. A row with
        pT = 0 is padding whatever else it holds: some public rows of removed jets keep their φ and
        class.

    Returns
    -------
    ndarray of shape (N, 24)
        In the order of `COLUMNS`, float32, with zeros for an object that was not seen.

    Examples
    --------
    >>> event = np.zeros((1, 19, 4))
    >>> event[0, 0] = 40.0, 0.0, 1.5, 1
    >>> event[0, 9] = 0.0, 0.0, 2.5, 4
    >>> features(event)[0, [0, 2, 17]]
    array([40. ,  1.5,  0. ], dtype=float32)
    """
    particles = np.asarray(particles)
    if particles.ndim != 3 or particles.shape[1:] != (19, 4):
        raise InputError(
            f"events of shape {particles.shape}; the public layout is (events, 19 objects, 4 "
            "numbers), so give such an array"
        )
    chosen = particles[:, list(OBJECTS.values()), :3]
    seen = chosen[:, :, :1] != 0
    return np.where(seen, chosen, 0).astype(np.float32).reshape(len(particles), len(COLUMNS))


def varying(sample: Sample) -> Sample:
    """Leave out ``met_eta``, which is zero in every event.

    Examples
    --------
    >>> from gofstream_studies.datasets.cmsl1 import read
    >>> len(varying(read("lq").sample).columns)
    23
    """
    kept = [sample.columns.index(column) for column in VARYING]
    return build(
        sample.values[:, kept], VARYING, sample.weights, UNITS, (), sample.name, copy=False
    )


@dataclass(frozen=True, slots=True, eq=False)
class L1Events:
    """Events, and what must be known to split them fairly.

    Attributes
    ----------
    sample : the events, in the 24 columns of the paper.
    uid : which generated collision an event comes from. Events that share one are rotated,
        reflected and smeared anew, but not independent.
    copy : 0 for the first event of a uid, then 1, 2, ...
    process : what it is, see `PROCESSES`.
    """

    sample: Sample
    uid: Ints
    copy: Ints
    process: Ints

    def __len__(self) -> int:
        """Count the events."""
        return len(self.sample)

    def take(
        self, rows: slice | NDArray[np.integer[Any]] | NDArray[np.bool_], name: str | None = None
    ) -> L1Events:
        """Keep some of the events.

        Examples
        --------
        >>> from gofstream_studies.datasets.cmsl1 import read
        >>> len(read("lq").take(slice(100)))
        100
        """
        return L1Events(
            self.sample.take(rows, name), self.uid[rows], self.copy[rows], self.process[rows]
        )

    def independent(self) -> L1Events:
        """Keep one event of each collision.

        Few collisions stand behind the QCD events, so their share falls far below the one that
        `read` gives: good for counting, not for a test against the whole mixture.

        Examples
        --------
        >>> from gofstream_studies.datasets.cmsl1 import read
        >>> alone = read("sm").independent()
        >>> len(alone) == len(np.unique(alone.uid))
        True
        """
        return self.take(self.copy == 0)

    def of(self, process: str) -> L1Events:
        """Keep the events of one process, by its name in `PROCESSES`."""
        return self.take(self.process == PROCESSES[process], f"{process} of {self.sample.name}")


def split(events: L1Events, part: float, rng: np.random.Generator) -> tuple[L1Events, L1Events]:
    """Split events in two, so that no collision is on both sides.

    The usual split of rows would put copies of one collision into the reference and into the pool,
    and the pool would look too much like the reference. Each process is split on its own, so that
    both sides keep the mixture.

    Parameters
    ----------
    events
        What to split.
    part
        Size of the first side: a number of events, or a fraction below 1. Collisions stay whole,
        so that it is met up to half of the copies of one collision, for each process.
    rng
        Decides which collisions go where.

    Returns
    -------
    first, second : L1Events
        In the order they had.

    Examples
    --------
    >>> from gofstream_studies.datasets.cmsl1 import read
    >>> reference, pool = split(read("sm"), 20_000, np.random.default_rng(1))
    >>> set(reference.uid) & set(pool.uid)
    set()
    >>> abs(len(reference) - 20_000) < 50
    True
    """
    fraction = part if part < 1 else part / max(len(events), 1)
    if not 0 < fraction < 1:
        raise InputError(
            f"cannot split off {part:g} of {len(events)} events; give a number of events below "
            "that, or a fraction between 0 and 1"
        )
    first = np.zeros(len(events), dtype=bool)
    for process in np.unique(events.process):
        rows = np.flatnonzero(events.process == process)
        group, sizes = np.unique(events.uid[rows], return_inverse=True, return_counts=True)[1:]
        order = rng.permutation(len(sizes))
        # A collision goes to the first side if its middle does: no bias from its last one.
        middle = np.cumsum(sizes[order]) - sizes[order] / 2
        chosen = np.zeros(len(sizes), dtype=bool)
        chosen[order] = middle <= fraction * len(rows)
        first[rows] = chosen[group]
    name = events.sample.name
    return events.take(first, f"part of {name}"), events.take(~first, f"rest of {name}")
