"""Small batches, gathered until they have the nominal exposure: only such ones are monitored.

Their files stay where they are until the whole is in the store. The ledger has the whole, with
names and digests of its parts in the note: killed before all of them are let go, the others are
known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gofstream.checks import match_columns
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.stream.learning import is_usual
from gofstream.stream.names import BatchName
from gofstream.stream.rows import Entry
from gofstream.stream.sources import Arrival

_MERGED = "merged: "
#: States of batches that something was learnt from.
LEARNT = ("learnt", "unmonitored")


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Batches made into one, or a batch that is whole by itself.

    Attributes
    ----------
    parts : as they came.
    expected : N(R) of all.
    """

    parts: tuple[Arrival, ...]
    expected: float

    @property
    def name(self) -> str:
        """The name of the only part, or of the first and the last."""
        names = [part.name for part in self.parts]
        return names[0] if len(names) == 1 else BatchName.merged(names)

    @property
    def distinct_name(self) -> str:
        """A name for several parts that nobody else has: with a digest of all their names."""
        return BatchName.merged([part.name for part in self.parts], distinct=True)

    @property
    def sample(self) -> Sample:
        """All events."""
        samples = _samples(self.parts)
        if len(samples) == 1:
            return samples[0]
        values = np.concatenate([sample.values for sample in samples])
        one = samples[0]
        return Sample.from_array(
            values, one.columns, units=one.units, periodic=one.periodic, name=self.name
        )

    @property
    def note(self) -> str:
        """What the ledger says of the parts; nothing of a batch that is whole by itself."""
        if len(self.parts) == 1:
            return ""
        digests = map(short_digest, _samples(self.parts))
        named = dict(zip([part.name for part in self.parts], digests, strict=True))
        return _MERGED + json.dumps(named, ensure_ascii=False)


@dataclass(frozen=True, slots=True, eq=False)
class Gathering:
    """Batches that wait for others to make a nominal exposure with.

    Attributes
    ----------
    learner : knows columns and the nominal exposure.
    parts : those that wait, in order.

    Examples
    --------
    >>> from gofstream.settings import Settings
    >>> rng = np.random.default_rng(1)
    >>> reference = Sample.from_array(rng.exponential(size=500))
    >>> settings = Settings(widths=(0.5,), n_centres=30)
    >>> learner = Learner.prepare(reference, settings, expected=100.0, rng=rng)
    >>> half = Sample.from_array([0.3, 1.2])
    >>> waiting, wholes = Gathering(learner).add(Arrival("run7-1", 0.0, half, expected=50.0))
    >>> wholes
    []
    >>> waiting, (whole,) = waiting.add(Arrival("run7-2", 9.0, half, expected=47.0))
    >>> whole.name, len(whole.sample), whole.expected
    ('run7-1 .. run7-2', 4, 97.0)
    """

    learner: Learner
    parts: tuple[Arrival, ...] = ()

    def add(self, arrival: Arrival) -> tuple[Gathering, list[Whole]]:
        """Take one more batch; give those that are whole now.

        Those that wait do not wait for a batch that would make them too large: they are then one of
        an unusual exposure.

        Raises
        ------
        InputError
            If the batch cannot be used; what waits goes on waiting.
        """
        (sample,) = _samples([arrival])
        sample = match_columns(sample, self.learner.sample)
        # One that cannot be learnt from must not spoil those it would be merged with.
        self.learner.scaled([sample])
        part, nominal = replace(arrival, sample=sample), self.learner.expected
        waiting, wholes = self, list[Whole]()
        total = self._expected((*self.parts, part))
        if total > nominal and not is_usual(total, nominal):
            waiting, wholes = self.flush()
        waiting = replace(waiting, parts=(*waiting.parts, part))
        total = self._expected(waiting.parts)
        if total < nominal and not is_usual(total, nominal):
            return waiting, wholes
        waiting, more = waiting.flush()
        return waiting, wholes + more

    def flush(self) -> tuple[Gathering, list[Whole]]:
        """Give what there is, whatever its exposure."""
        wholes = [Whole(self.parts, self._expected(self.parts))] if self.parts else []
        return replace(self, parts=()), wholes

    def _expected(self, parts: Iterable[Arrival]) -> float:
        nominal = self.learner.expected
        return sum(nominal if part.expected is None else part.expected for part in parts)


def parts_of(entry: Entry) -> dict[str, str]:
    """Give names and digests of the batches that an entry was merged from, in order."""
    # Of other entries the note may quote anything.
    if entry.state not in LEARNT:
        return {}
    _, merged, parts = entry.note.partition(_MERGED)
    return dict(json.loads(parts)) if merged else {}


@dataclass(frozen=True, slots=True)
class LearntNames:
    """The names under which batches were offered that a run has learnt.

    Attributes
    ----------
    names : in order, parts of merged batches by their own names. The order of names goes on behind
        them; what was refused or skipped does not move it.
    parts : digest, and number in the ledger, of each batch that was merged, by name.
    """

    names: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> LearntNames:
        """Read them from a ledger."""
        names: list[str] = []
        parts: dict[str, tuple[str, int]] = {}
        for entry in entries:
            if entry.state in LEARNT:
                own = parts_of(entry)
                names += own or (entry.name,)
                parts |= {name: (digest, entry.number) for name, digest in own.items()}
        return cls(tuple(names), parts)


def remark(entry: Entry) -> str:
    """Give the note of an entry for people: how many were merged, not all their digests.

    Examples
    --------
    >>> remark(Entry(1, "a .. b", "", 0.0, 9, 9.0, note='slow; merged: {"a": "0f3c", "b": "77d0"}'))
    'slow; merged from 2 batches'
    """
    if not (parts := parts_of(entry)):
        return entry.note
    return f"{entry.note.partition(_MERGED)[0]}merged from {len(parts)} batches"


def short_digest(sample: Sample) -> str:
    """Give as much of a digest as is kept of a part."""
    return sample.digest()[:16]


def _samples(parts: Iterable[Arrival]) -> list[Sample]:
    return [part.sample for part in parts if part.sample is not None]
