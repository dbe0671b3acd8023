"""Where pseudo-experiments come from.

A toy is a whole data set: all its batches, each of a Poisson size. Data and toys must be
exchangeable given the reference, so events of a toy never come from the rows the models are
trained against.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.duplicates import row_hashes
from gofstream.errors import GofstreamWarning, InputError
from gofstream.ratio.arrays import Points
from gofstream.sample import Events, Sample, pieces
from gofstream.tables import columns_of
from gofstream.toys.weighted import POOL_REFUSE, POOL_WARN, draw_rows, refuse_heavy_rows

Floats = NDArray[np.float64]

#: Rows of the reference that tell how often its rows coincide.
COMPARED = 100_000


def toy_rng(seed: int, stream: str, toy: int) -> np.random.Generator:
    """Make the generator of one toy: it depends on what the toy is, never on who draws it.

    Examples
    --------
    >>> int(toy_rng(1, "null", 3).integers(2**62))
    993146017682888889
    """
    name = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    return np.random.default_rng(np.random.SeedSequence([seed, name, toy]))


def split_off_pool(
    reference: Sample, count: int, rng: np.random.Generator
) -> tuple[Sample, Sample]:
    """Split a reference at random: what models are trained against, and a pool of ``count`` rows.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> training, pool = split_off_pool(Sample.from_array(rng.normal(size=100)), 30, rng)
    >>> len(training), len(pool)
    (70, 30)
    """
    parts = list(pieces(len(reference)))
    # How many come from each piece, then which: the memory this takes grows with the pool alone.
    sizes = [part.stop - part.start for part in parts]
    counts = rng.multivariate_hypergeometric(sizes, count, method="marginals")
    drawn = [
        part.start + np.sort(rng.choice(size, size=chosen, replace=False, shuffle=False))
        for part, size, chosen in zip(parts, sizes, counts, strict=True)
    ]
    rows = np.concatenate(drawn)
    return reference.drop(rows), reference.take(rows, name=f"pool of {reference.name}")


def refuse_training_rows(toy: Floats, reference: Points) -> None:
    """Refuse toys that repeat rows of the reference the models are trained against.

    Such toys look more like the reference than data do, so their t is too small and every data set
    seems surprising. Rounded values coincide by chance: for an event of a toy as often as for a row
    of the reference with the other rows. Five standard deviations more are refused.

    Raises
    ------
    InputError
        With the share of rows that coincide.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=(1000, 2))
    >>> refuse_training_rows(x[:200], x[200:])
    """
    if len(toy) == 0:  # with one event expected, a third of the toys
        return
    rows = np.concatenate([row_hashes(toy[part]) for part in pieces(len(toy))])
    # Rows that stand for the reference: where it has more of them, from all over it.
    some = row_hashes(reference[:: -(-len(reference) // COMPARED)])
    asked = np.unique(np.concatenate([rows, some]))
    times = np.zeros(len(asked), dtype=np.int64)
    for part in pieces(len(reference)):
        trained = row_hashes(reference[part])
        nearest = np.minimum(np.searchsorted(asked, trained), len(asked) - 1)
        times += np.bincount(nearest[asked[nearest] == trained], minlength=len(asked))
    shared = int(np.count_nonzero(times[np.searchsorted(asked, rows)]))
    alike = np.count_nonzero(times[np.searchsorted(asked, some)] > 1) / len(some)
    by_chance = len(rows) * alike
    spread = (by_chance * (1 + len(rows) / len(some))) ** 0.5
    if shared > 10 + by_chance + 5 * spread:
        raise InputError(
            f"{shared} of the {len(rows)} events of a toy are rows of the reference itself: toys "
            "must come from events that no model was trained on; split the reference first, or "
            "give a simulator"
        )


class Source(Protocol):
    """Anything that can draw a data set."""

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw the batches of one toy, given what is expected in each.

        Sizes are Poisson, or exactly those expected if ``fixed``: a test of the shape alone holds
        them at what was observed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Simulator:
    """A model that can be sampled at will: the exact source.

    Attributes
    ----------
    simulate : called with a number of events and a generator, gives (n, D) events, or a table.
    columns : which columns of a table, in what order; those of the reference, once a plan knows
        them.

    Examples
    --------
    >>> import numpy as np
    >>> source = Simulator(lambda n, rng: rng.exponential(size=(n, 1)))
    >>> [x.shape[1] for x in source.draw(np.array([10.0, 20.0]), np.random.default_rng(1))]
    [1, 1]
    """

    simulate: Callable[[int, np.random.Generator], Events]
    columns: tuple[str, ...] | None = None

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw sizes, then all events, and deal them out."""
        sizes = _sizes(expected, rng, fixed)
        total = int(sizes.sum())
        events = self._array(self.simulate(total, rng))
        if events.ndim != 2 or len(events) != total:
            raise InputError(
                f"the simulator was asked for {total} events and gave an array of shape "
                f"{events.shape}; it must give (events, columns)"
            )
        return _deal(events, sizes)

    def _array(self, given: Any) -> Floats:
        """Give the values of a table in the order of the columns, and an array as it is."""
        name = "the simulator's events"
        if isinstance(given, Sample):
            given = dict(zip(given.columns, given.values.T, strict=True))
        if columns_of(given, name) is not None:
            given = Sample.from_array(given, self.columns, name=name).values
        return np.asarray(given, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Nominal events set apart from the reference, drawn without replacement within a toy.

    Toys share the pool, so they are a little alike: by about (n/N_pool)² for data sets of n events.
    Of a weighted pool each row is expected in proportion to its weight, and N_pool is its effective
    size (Σv)²/Σv².
    """

    sample: Sample

    def check(self, expected: float) -> None:
        """Warn or refuse when the pool is small beside the data set.

        Raises
        ------
        InputError
            Below ten times the data set, or if a few heavy rows carry too much of the weight.
        """
        refuse_heavy_rows(self.sample, expected)
        size = self.sample.effective_size
        ratio = size / expected
        if ratio >= POOL_WARN:
            return
        text = (
            f"the pool {self.sample.name!r} holds {self._size()}, only "
            f"{ratio:.1f} times the {expected:.0f} expected: toys drawn from it overlap"
        )
        if ratio < POOL_REFUSE:
            raise InputError(
                f"{text}, and the null would be too narrow. Give at least {POOL_REFUSE} times, "
                f"better {POOL_WARN} times as many, or a simulator"
            )
        useful = int(ratio**2)
        warnings.warn(
            f"{text}; no more than about {useful} of them are worth having. {POOL_WARN} times "
            "as many events would be safe",
            GofstreamWarning,
            stacklevel=2,
        )

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw all batches of a toy together: no event twice, or each as often as its weight says.

        A weighted row that is expected less than once is drawn at most once.
        """
        sizes = _sizes(expected, rng, fixed)
        total = int(sizes.sum())
        if self.sample.weights is None:
            rows = rng.choice(len(self.sample), size=total, replace=False)
        else:
            rows = draw_rows(self.sample.share, total, rng)
        return _deal(self.sample.values[rows].astype(np.float64), sizes)

    def _size(self) -> str:
        """Say how many events there are, and of weighted ones how many they are worth."""
        size = self.sample.effective_size
        if self.sample.weights is None:
            return f"{size:.0f} events"
        return f"{len(self.sample)} weighted events, worth {size:.0f} of equal weight"


@dataclass(frozen=True, slots=True)
class Injected:
    """Nominal events with a signal added: what power is measured on.

    Attributes
    ----------
    nominal, signal : the two sources.
    fraction : expected signal over expected nominal events.
    """

    nominal: Source
    signal: Source
    fraction: float

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw both and mix them within each batch."""
        added = expected * self.fraction
        if fixed:  # the whole is fixed; which events are signal is chance
            chance = self.fraction / (1 + self.fraction)
            added = rng.binomial(expected.astype(np.int64), chance).astype(np.float64)
            expected = expected - added
        nominal = self.nominal.draw(expected, rng, fixed=fixed)
        signal = self.signal.draw(added, rng, fixed=fixed)
        mixed = [np.concatenate(pair) for pair in zip(nominal, signal, strict=True)]
        return [events[rng.permutation(len(events))] for events in mixed]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another model in place of the nominal one: events of its own, and its own rate.

    Attributes
    ----------
    source : draws events of the other model.
    rate : events it predicts for each one expected.
    """

    source: Source
    rate: float

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw from the other model; ``fixed`` sizes are those observed, whatever the rate."""
        return self.source.draw(expected if fixed else expected * self.rate, rng, fixed=fixed)


@dataclass(frozen=True, slots=True)
class Merged:
    """The same data sets whatever the number of batches: drawn in small parts, then merged.

    Plans that differ in the number of batches alone thus test the same events, so that they can be
    compared toy by toy.

    Attributes
    ----------
    source : draws the parts.
    parts : how many of equal exposure; a multiple of every number of batches.

    Examples
    --------
    >>> import numpy as np
    >>> source = Merged(Simulator(lambda n, rng: rng.exponential(size=(n, 1))), 4)
    >>> [one] = source.draw(np.array([100.0]), np.random.default_rng(1))
    >>> two = source.draw(np.array([50.0, 50.0]), np.random.default_rng(1))
    >>> bool((np.concatenate(two) == one).all())
    True
    """

    source: Source
    parts: int

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw all parts, and merge neighbours.

        Raises
        ------
        InputError
            If the parts do not make up batches of the expected sizes.
        """
        each, over = divmod(self.parts, len(expected))
        if over or not np.allclose(expected, expected[0]) or fixed:
            raise InputError(
                f"{self.parts} parts of Poisson size make up 1 to {self.parts} equal batches, "
                f"without remainder, but not {len(expected)} of {expected.tolist()} events"
                + (" exactly" if fixed else "")
            )
        drawn = self.source.draw(np.repeat(expected / each, each), rng)
        return [np.concatenate(drawn[i : i + each]) for i in range(0, self.parts, each)]


def _sizes(expected: Floats, rng: np.random.Generator, fixed: bool) -> NDArray[np.int64]:
    return expected.astype(np.int64) if fixed else rng.poisson(expected)


def _deal(events: Floats, sizes: NDArray[np.int64]) -> list[Floats]:
    return [np.ascontiguousarray(part) for part in np.split(events, np.cumsum(sizes)[:-1])]
