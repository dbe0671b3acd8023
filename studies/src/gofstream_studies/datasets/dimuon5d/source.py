"""Pythia 8, asked for muon pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import NumericalError, missing_extra

if TYPE_CHECKING:
    from pythia8mc import Pythia

FloatArray = NDArray[np.float64]

_COMMON = (
    "Print:quiet = on",
    "Beams:eCM = 13000.",
    "PartonLevel:MPI = off",
    "HadronLevel:all = off",
    # Radiation off the jets that recoil costs half the time and does not move the muons.
    "PartonLevel:FSRinProcess = off",
    "23:onMode = off",
    "23:onIfMatch = 13 -13",
    "32:onMode = off",
    "32:onIfMatch = 13 -13",
    "Random:setSeed = on",
)

#: Columns of what a source makes: pt, eta and phi of either muon as it flies; the mass of the pair
#: before radiation; the cosine of the angle between quark and negative muon at rest; whether the
#: quark is of up type.
MUONS, MASS, COS_THETA, UP = slice(0, 6), 6, 7, 8

_FAILURES = 100


class Source:
    """Pythia with one set of settings, started when the first event is asked for."""

    def __init__(self, settings: tuple[str, ...], seed: int) -> None:
        self._lines = (*_COMMON, *settings, f"Random:seed = {seed}")
        self._pythia: Pythia | None = None

    def make(self, count: int) -> FloatArray:
        """Make so many events: the muons as they fly, and what the weight depends on."""
        if not count:
            return np.empty((0, 9))
        if self._pythia is None:
            self._pythia = _initialise(self._lines)
        return np.array(list(_events(self._pythia, count)))


@cache
def _defaults() -> Pythia:
    """Read Pythia's own settings, which fill many files, once in each process."""
    try:
        import pythia8mc
    except ImportError as error:
        raise missing_extra("pythia8mc", "pythia") from error
    return pythia8mc.Pythia("", False)


def _initialise(lines: tuple[str, ...]) -> Pythia:
    defaults = _defaults()
    pythia = type(defaults)(defaults.settings, defaults.particleData, False)
    for line in lines:
        if not pythia.readString(line):
            raise NumericalError(
                f"Pythia does not know {line!r}; install the version that belongs to this package: "
                "pip install 'gofstream[pythia]'"
            )
    if not pythia.init():
        raise NumericalError("Pythia could not be started; its settings are " + "; ".join(lines))
    return pythia


def _events(pythia: Pythia, count: int) -> Iterator[tuple[float, ...]]:
    failures = 0
    while count:
        if not pythia.next():
            failures += 1
            if failures > _FAILURES:
                raise NumericalError(f"Pythia failed to make an event {failures} times in a row")
            continue
        failures = 0
        count -= 1
        # The hard process: 3 and 4 collide along the beam and make 5, which decays into 6 and 7.
        hard, event = pythia.process, pythia.event
        quark, negative = hard[3].id(), hard[6].id() > 0
        between = hard[6].eta() - hard[7].eta()
        direction = 1 if (quark > 0) == negative else -1
        # The last copies: what initial-state recoil and radiation left of the boson and the muons.
        boson = event[event[5].iBotCopyId()]
        one = event[event[boson.daughter1()].iBotCopyId()]
        two = event[event[boson.daughter2()].iBotCopyId()]
        yield (
            one.pT(),
            one.eta(),
            one.phi(),
            two.pT(),
            two.eta(),
            two.phi(),
            hard[5].m(),
            # Boosts along the beam do not change the difference of pseudorapidities.
            direction * math.tanh(between / 2),
            float(quark % 2 == 0),
        )
