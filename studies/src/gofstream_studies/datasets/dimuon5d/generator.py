"""Muon pairs from Pythia 8: Drell-Yan, a Z', and the contact term by weight.

Leading-order matrix elements; initial-state radiation on, and final-state radiation of the muons.
Multiple interactions and hadronisation are off: these five columns do not see them, and events
come thirty times faster.

A sample is made in parts. A part follows from the seed, the sample and its number alone, so that
neither the number of workers nor their order changes a single event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import NumericalError
from gofstream_studies.datasets.dimuon5d.contact import contact_terms, largest_weight
from gofstream_studies.datasets.dimuon5d.detector import observe
from gofstream_studies.datasets.dimuon5d.events import pair_mass
from gofstream_studies.datasets.dimuon5d.source import COS_THETA, MASS, MUONS, UP, Source

FloatArray = NDArray[np.float64]

#: Mass of the lightest pair that is made, in GeV: one that a mismeasurement could lift above 60.
LIGHTEST = 50.0

# Slices of mass (GeV) and Pythia's leading-order cross section of Drell-Yan muon pairs in each, in
# pb (to 0.1 %). The contact term grows so fast with mass that events of large
# mass have to be tried more often than Drell-Yan alone would make them.
SLICES = (
    (LIGHTEST, 150.0, 1508.7),
    (150.0, 300.0, 6.101),
    (300.0, 600.0, 0.5168),
    (600.0, 1200.0, 0.04080),
    (1200.0, 2400.0, 0.002188),
    (2400.0, 13000.0, 5.262e-5),
)

# Events tried before they are measured together.
_TRIES = 4096


@dataclass(frozen=True, slots=True)
class Channel:
    """One set-up of Pythia, and how its events are weighted.

    Attributes
    ----------
    settings : tuple of str
        What Pythia reads beyond the common settings.
    rate : float
        How often this channel is tried, relative to other channels of the sample.
    largest : float
        No event of it has a larger weight than this.
    """

    settings: tuple[str, ...]
    rate: float = 1.0
    largest: float = 1.0


@dataclass(frozen=True, slots=True)
class Process:
    """What a sample is made of: channels, and the coupling that weights their events."""

    channels: tuple[Channel, ...]
    coupling: float = 0.0


def drell_yan_process(coupling: float = 0.0) -> Process:
    """Make Drell-Yan pairs, with a contact term of coupling c_W in TeV^-2.

    Examples
    --------
    >>> len(drell_yan_process().channels)
    1
    """
    if coupling == 0:
        return Process((slice_channel(LIGHTEST, -1.0),))
    channels = []
    for low, high, cross_section in SLICES:
        largest = largest_weight(coupling, low, high)
        channel = slice_channel(low, high)
        channels.append(Channel(channel.settings, cross_section * largest, largest))
    return Process(tuple(channels), coupling)


def slice_channel(low: float, high: float) -> Channel:
    """Drell-Yan between two masses in GeV; a negative upper one is none."""
    return Channel(
        (
            "WeakSingleBoson:ffbar2gmZ = on",
            f"PhaseSpace:mHatMin = {low}",
            f"PhaseSpace:mHatMax = {high}",
        )
    )


def zprime_process(mass: float, width: float) -> Process:
    """Make a Z' alone, without interference, within 15 widths of its mass (both in GeV).

    Examples
    --------
    >>> "32:m0 = 300.0" in zprime_process(300.0, 8.0).channels[0].settings
    True
    """
    low, high = max(LIGHTEST, mass - 15 * width), mass + 15 * width
    return Process(
        (
            Channel(
                (
                    "NewGaugeBoson:ffbar2gmZZprime = on",
                    "Zprime:gmZmode = 3",
                    f"32:m0 = {mass}",
                    f"32:mWidth = {width}",
                    "32:doForceWidth = on",
                    f"32:mMin = {low}",
                    f"32:mMax = {high}",
                    f"PhaseSpace:mHatMin = {low}",
                    f"PhaseSpace:mHatMax = {high}",
                )
            ),
        )
    )


#: How each sample is made.
PROCESSES: Mapping[str, Process] = MappingProxyType(
    {
        "sm": drell_yan_process(),
        "zprime200": zprime_process(200.0, 5.0),
        "zprime300": zprime_process(300.0, 8.0),
        "zprime600": zprime_process(600.0, 16.0),
        "eft": drell_yan_process(1.0),
        "eft_cw05": drell_yan_process(0.5),
    }
)


def generate(process: Process, events: int, *, seed: int, key: tuple[int, ...] = ()) -> FloatArray:
    """Make exactly so many selected events of a process.

    Parameters
    ----------
    process : Process
        What to make.
    events : int
        Rows to return.
    seed, key : int, tuple of int
        Seed of the whole run, and what tells this part from all others in it.

    Returns
    -------
    ndarray of shape (events, 5)
        The columns of the data set; rows are independent of each other.

    Examples
    --------
    >>> generate(PROCESSES["zprime300"], 10, seed=1).shape
    (10, 5)
    """
    rng, pythias = _start(process, seed, key)
    rates = np.array([channel.rate for channel in process.channels])
    found, kept = [np.empty((0, 5))], 0
    while kept < events:
        # Not many more than are needed: a test of a hundred events should take a moment.
        tries = int(min(_TRIES, 100 + 4 * (events - kept)))
        counts = rng.multinomial(tries, rates / rates.sum())
        raw = np.concatenate(
            [
                _accept(channel, process.coupling, pythias[k].make(int(count)), rng)
                for k, (channel, count) in enumerate(zip(process.channels, counts, strict=True))
            ]
        )
        # Channels come one after the other; a part that ends in the middle must not favour any.
        columns, passed = observe(rng.permutation(raw)[:, MUONS], rng)
        found.append(columns[passed])
        kept += int(passed.sum())
    return np.concatenate(found)[:events]


@dataclass(frozen=True, slots=True)
class SliceSums:
    """Selected Drell-Yan events of one slice of mass, as if one event had been tried.

    Attributes
    ----------
    counts, linear, quadratic : ndarray of shape (bins,)
        Events in bins of mass, and the sums over them of the coefficients of c_W and c_W squared.
    """

    counts: FloatArray
    linear: FloatArray
    quadratic: FloatArray


def slice_sums(
    low: float, high: float, edges: FloatArray, tries: int, *, seed: int, key: tuple[int, ...]
) -> SliceSums:
    """Fill the mass spectrum of one slice of Drell-Yan, from a given number of tries."""
    process = Process((slice_channel(low, high),))
    rng, (source,) = _start(process, seed, key)
    sums = np.zeros((3, len(edges) - 1))
    for start in range(0, tries, _TRIES):
        raw = source.make(min(_TRIES, tries - start))
        columns, passed = observe(raw[:, MUONS], rng)
        linear, quadratic = contact_terms(raw[:, MASS], raw[:, COS_THETA], raw[:, UP])
        masses = pair_mass(*columns[passed].T)
        for row, weights in enumerate((None, linear[passed], quadratic[passed])):
            sums[row] += np.histogram(masses, edges, weights=weights)[0]
    return SliceSums(*(sums / tries))


def _start(
    process: Process, seed: int, key: tuple[int, ...]
) -> tuple[np.random.Generator, list[Source]]:
    """Give a part its own random numbers: numpy's, and Pythia's for each channel."""
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    # Pythia takes seeds up to 900 000 000.
    seeds = 1 + sequence.generate_state(len(process.channels), np.uint64) % np.uint64(899_999_999)
    sources = [
        Source(channel.settings, int(number))
        for channel, number in zip(process.channels, seeds, strict=True)
    ]
    return np.random.default_rng(sequence.spawn(1)[0]), sources


def _accept(
    channel: Channel, coupling: float, raw: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Keep events in proportion to their weight."""
    if coupling == 0:
        return raw
    linear, quadratic = contact_terms(raw[:, MASS], raw[:, COS_THETA], raw[:, UP])
    weight = 1 + coupling * linear + coupling**2 * quadratic
    if len(weight) and weight.max() > channel.largest:
        raise NumericalError(
            f"an event of weight {weight.max():.4g} exceeds the bound {channel.largest:.4g} of its "
            "slice of mass; the sample would be wrong: please report this, with the seed"
        )
    return raw[rng.random(len(raw)) * channel.largest < weight]
