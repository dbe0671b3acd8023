"""Small batches, gathered until they have the nominal exposure: only such ones are monitored."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gofstream.checks import match_columns
from gofstream.ratio.learner import check_expected
from gofstream.sample import Sample
from gofstream.stream.learning import EXPOSURE_TOLERANCE


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Batches that wait for others to make a nominal exposure with.

    Attributes
    ----------
    nominal : N(R) of the batch to be made.
    names, samples, expected : of those that wait, in order.

    Examples
    --------
    >>> waiting, half = Gathered(100.0), Sample.from_array([0.3, 1.2])
    >>> waiting, whole = waiting.add("run7/1", half, 50.0)
    >>> whole is None
    True
    >>> waiting, whole = waiting.add("run7/2", half, 47.0)
    >>> whole.name, len(whole.sample), whole.expected
    ('run7/1 .. run7/2', 4, 97.0)
    """

    nominal: float
    names: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    expected: tuple[float, ...] = ()

    def add(self, name: str, sample: Sample, expected: float) -> tuple[Gathered, Whole | None]:
        """Take one more batch, and give the whole once the exposure is nearly the nominal one.

        A batch that is too large for that makes a whole that is too large, and not monitored.

        Raises
        ------
        InputError
            If the expected count is no such thing, or the batch lacks a column of the others.
        """
        check_expected([expected])
        matched = match_columns(sample, self.samples[0]) if self.samples else sample
        more = replace(
            self,
            names=(*self.names, name),
            samples=(*self.samples, matched),
            expected=(*self.expected, expected),
        )
        if sum(more.expected) < self.nominal * (1 - EXPOSURE_TOLERANCE):
            return more, None
        return Gathered(self.nominal), more.whole()

    def whole(self) -> Whole:
        """Put together what there is, also before the exposure is reached."""
        first, last = self.names[0], self.names[-1]
        name = first if len(self.names) == 1 else f"{first} .. {last}"
        sample = Sample.from_array(
            np.concatenate([sample.values for sample in self.samples]),
            self.samples[0].columns,
            units=self.samples[0].units,
            periodic=self.samples[0].periodic,
            name=name,
        )
        return Whole(name, sample, sum(self.expected))


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Batches made into one, named by the first and the last of them."""

    name: str
    sample: Sample
    expected: float
