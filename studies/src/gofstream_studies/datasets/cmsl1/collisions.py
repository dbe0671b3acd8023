"""True objects of generated collisions: isolated leptons, jets and missing momentum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import missing_extra

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: An event needs one lepton above this pT, in GeV.
TRIGGER_PT = 23.0
LEPTON_PT, JET_PT = 3.0, 15.0
ELECTRON_ETA, MUON_ETA, JET_ETA = 3.0, 2.1, 4.0
#: Scalar sum of pT around a lepton, over its own, at most.
ISOLATION, ISOLATION_CONE = 0.45, 0.3
JET_RADIUS = 0.4
#: Beyond, particles leave along the beam pipe.
CALORIMETER_ETA = 5.0
#: Classes of leptons in the public layout.
ELECTRON, MUON = 2, 3

# True objects are kept although they are too soft: they may be measured as harder.
_TRUE_TRIGGER, _TRUE_LEPTON, _TRUE_JET = 0.85 * TRIGGER_PT, 0.8 * LEPTON_PT, 0.5 * JET_PT
_LEPTON_SLOTS, _JET_SLOTS = 8, 14


@dataclass(frozen=True, slots=True, eq=False)
class Particles:
    """Visible stable particles of some collisions, one after another.

    Attributes
    ----------
    event : (n,) which collision each belongs to, increasing from 0.
    kind : (n,) |PDG code|.
    momentum : (n, 4) px, py, pz, E.
    """

    event: Ints
    kind: Ints
    momentum: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Collisions:
    """True objects of N collisions, padded with zeros.

    Attributes
    ----------
    leptons : (N, 8, 4) pT, η, φ, class.
    jets : (N, 14, 3) pT, η, φ.
    missing : (N, 2) transverse momentum that no particle in the calorimeters carries.
    """

    leptons: Floats
    jets: Floats
    missing: Floats

    def __len__(self) -> int:
        """Count the collisions."""
        return len(self.missing)


def collide(particles: Particles) -> Collisions:
    """Find isolated leptons and jets; keep the collisions that may pass the trigger."""
    direction = _polar(particles.momentum)
    inside = np.abs(direction[:, 1]) < CALORIMETER_ETA
    event, kind = particles.event[inside], particles.kind[inside]
    momentum, direction = particles.momentum[inside], direction[inside]

    limit = np.where(kind == 11, ELECTRON_ETA, np.where(kind == 13, MUON_ETA, 0.0))
    lepton = (np.abs(direction[:, 1]) < limit) & (direction[:, 0] > _TRUE_LEPTON)
    lepton &= np.isin(event, event[lepton & (direction[:, 0] > _TRUE_TRIGGER)])
    candidates = np.flatnonzero(lepton)
    isolated = candidates[_isolation(candidates, event, direction) < ISOLATION]
    kept = np.unique(event[isolated[direction[isolated, 0] > _TRUE_TRIGGER]])

    # Numbers of collisions become places among those kept; a lepton is not part of a jet as well.
    isolated = isolated[np.isin(event[isolated], kept)]
    others = np.isin(event, kept)
    others[isolated] = False
    lepton_class = np.where(kind[isolated] == 11, ELECTRON, MUON)
    leptons = np.column_stack([direction[isolated], lepton_class])
    place = np.searchsorted(kept, event)
    jet_event, jets = _jets(place[others], momentum[others], len(kept))
    missing = np.zeros((len(kept), 2))
    seen = np.isin(event, kept)
    for axis in (0, 1):
        missing[:, axis] = -np.bincount(place[seen], momentum[seen, axis], minlength=len(kept))
    return Collisions(
        _padded(place[isolated], leptons, len(kept), _LEPTON_SLOTS),
        _padded(jet_event, jets, len(kept), _JET_SLOTS),
        missing,
    )


def _polar(momentum: Floats) -> Floats:
    """Give (n, 3) pT, η, φ."""
    px, py, pz = momentum[:, :3].T
    pt = np.hypot(px, py)
    return np.column_stack([pt, np.arcsinh(pz / np.maximum(pt, 1e-9)), np.arctan2(py, px)])


def wrapped(angle: Floats) -> Floats:
    """Bring angles to [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def _isolation(rows: Ints, event: Ints, direction: Floats) -> Floats:
    """Sum pT of everything else that is close to each lepton, over its own pT."""
    starts = np.searchsorted(event, event[rows], side="left")
    counts = np.searchsorted(event, event[rows], side="right") - starts
    owner = np.repeat(np.arange(len(rows)), counts)
    # Every particle of the same collision, for one lepton after another.
    other = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    deta = direction[other, 1] - direction[rows[owner], 1]
    dphi = wrapped(direction[other, 2] - direction[rows[owner], 2])
    close = (np.hypot(deta, dphi) < ISOLATION_CONE) & (other != rows[owner])
    around = np.bincount(owner[close], direction[other[close], 0], minlength=len(rows))
    return np.asarray(around / direction[rows, 0])


def _jets(event: Ints, momentum: Floats, events: int) -> tuple[Ints, Floats]:
    """Cluster the particles of each collision with anti-kT: (n,) collision, (n, 3) pT, η, φ."""
    try:
        import awkward as ak
        import fastjet
    except ImportError as error:
        raise missing_extra("fastjet", "pythia") from error
    counts = np.bincount(event, minlength=events)
    content = dict(zip(("px", "py", "pz", "E"), momentum.T, strict=True))
    inputs = ak.unflatten(ak.zip(content), counts)
    # It greets on the terminal, which is not ours.
    fastjet._swig.ClusterSequence.set_fastjet_banner_stream(None)
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, JET_RADIUS)
    jets = fastjet.ClusterSequence(inputs, definition).inclusive_jets(min_pt=_TRUE_JET)
    flat = ak.flatten(jets)
    found = np.column_stack([ak.to_numpy(flat[axis]) for axis in ("px", "py", "pz", "E")])
    return np.repeat(np.arange(events), ak.to_numpy(ak.num(jets))), _polar(found)


def _padded(event: Ints, objects: Floats, events: int, slots: int) -> Floats:
    """Put objects into a table of so many a collision, the hardest first."""
    order = np.lexsort((-objects[:, 0], event))
    event, objects = event[order], objects[order]
    rank = np.arange(len(event)) - np.searchsorted(event, event, side="left")
    table = np.zeros((events, slots, objects.shape[1]))
    fits = rank < slots
    table[event[fits], rank[fits]] = objects[fits]
    return table
