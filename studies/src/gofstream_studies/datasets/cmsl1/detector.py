"""A fast simulation of what CMS measures of a collision.

One collision can be observed more than once, from different sides: physics does not change when it
is rotated about the beam or reflected, and the measurement is another each time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gofstream_studies.datasets.cmsl1.collisions import (
    ELECTRON,
    JET_ETA,
    JET_PT,
    LEPTON_PT,
    MUON,
    TRIGGER_PT,
    Collisions,
    wrapped,
)

Floats = NDArray[np.float64]

#: Relative resolution √(c² + (k pT)²) of muons, up to each |η|: public CMS fast-simulation card.
MUON_RESOLUTION = ((0.5, 0.010, 1.0e-4), (1.5, 0.015, 1.5e-4), (9.0, 0.025, 3.5e-4))
#: Relative resolution √(c² + s²/pT) of electrons and jets; how well the direction of jets is known.
ELECTRON_RESOLUTION, JET_RESOLUTION, JET_DIRECTION = (0.015, 0.08), (0.04, 0.80), 0.03
#: How many leptons are recognised: muons; electrons up to |η| = 1.5, and beyond.
MUON_EFFICIENCY, ELECTRON_EFFICIENCY = 0.95, (0.95, 0.85)
#: What pile-up and soft particles add to each component of the missing momentum, in GeV.
SOFT_NOISE = 12.0
#: Jets of pile-up: their mean number, and how fast their spectrum falls above `JET_PT`, in GeV.
PILE_UP_JETS, PILE_UP_FALL = 1.0, 5.0

# Rows of the public layout: the first of each kind, how many, and its class.
_ELECTRONS, _MUONS, _JETS = (1, 4, ELECTRON), (5, 4, MUON), (9, 10, 4)


def observe(collisions: Collisions, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Measure each collision once, from a random side.

    Returns
    -------
    particles : (N, 19, 4) events in the public layout.
    accepted : (N,) which of them pass the trigger.
    """
    n = len(collisions)
    turn = rng.uniform(-np.pi, np.pi, n)
    mirror, flip = rng.choice([-1.0, 1.0], (2, n))

    def turned(objects: Floats) -> Floats:
        objects = objects.copy()
        objects[..., 1] *= flip[:, np.newaxis]
        objects[..., 2] = objects[..., 2] * mirror[:, np.newaxis] + turn[:, np.newaxis]
        return objects

    true_leptons, true_jets = turned(collisions.leptons), turned(collisions.jets)
    leptons, jets = true_leptons.copy(), true_jets.copy()
    leptons[..., 0] *= _response(_lepton_resolution(true_leptons), rng)
    constant, stochastic = JET_RESOLUTION
    pt = np.maximum(true_jets[..., 0], 1.0)
    jets[..., 0] *= _response(np.sqrt(constant**2 + stochastic**2 / pt), rng)
    jets[..., 1:] += rng.normal(0.0, JET_DIRECTION, jets[..., 1:].shape)

    # What a lepton or jet is measured too high is missing on the other side.
    angle = np.arctan2(collisions.missing[:, 1], collisions.missing[:, 0]) * mirror + turn
    size = np.hypot(*collisions.missing.T)
    missing = size[:, np.newaxis] * np.column_stack([np.cos(angle), np.sin(angle)])
    missing += _transverse(true_leptons) - _transverse(leptons)
    missing += _transverse(true_jets) - _transverse(jets)
    missing += rng.normal(0.0, SOFT_NOISE, missing.shape)

    # A muon that is not recognised goes missing; an electron leaves what looks like a jet.
    lost = rng.random(leptons.shape[:2]) > _efficiency(true_leptons)
    is_electron = leptons[..., 3] == ELECTRON
    missing += _transverse(np.where((lost & ~is_electron)[..., np.newaxis], leptons, 0.0))
    taken = np.where((lost & is_electron)[..., np.newaxis], leptons[..., :3], 0.0)
    leptons[lost] = 0.0

    jets = np.concatenate([jets, taken, _pile_up(n, rng)], axis=1)
    jets[(jets[..., 0] < JET_PT) | (np.abs(jets[..., 1]) > JET_ETA)] = 0.0
    leptons[leptons[..., 0] < LEPTON_PT] = 0.0

    particles = np.zeros((n, 19, 4))
    particles[:, 0, 0] = np.hypot(*missing.T)
    particles[:, 0, 2] = np.arctan2(missing[:, 1], missing[:, 0])
    particles[:, 0, 3] = 1
    for (first, slots, code), found in (
        (_ELECTRONS, np.where(leptons[..., 3:] == ELECTRON, leptons[..., :3], 0.0)),
        (_MUONS, np.where(leptons[..., 3:] == MUON, leptons[..., :3], 0.0)),
        (_JETS, jets),
    ):
        order = np.argsort(-found[..., 0], axis=1, kind="stable")[:, :slots]
        chosen = np.take_along_axis(found, order[..., np.newaxis], axis=1)
        chosen[..., 2] = wrapped(chosen[..., 2])
        chosen[chosen[..., 0] == 0] = 0.0
        particles[:, first : first + slots, :3] = chosen
        particles[:, first : first + slots, 3] = np.where(chosen[..., 0] > 0, code, 0)
    return particles, np.any(leptons[..., 0] > TRIGGER_PT, axis=1)


def _transverse(objects: Floats) -> Floats:
    """Sum the transverse momenta of the objects of each collision: (N, 2)."""
    pt, phi = objects[..., 0], objects[..., 2]
    return np.column_stack([(pt * np.cos(phi)).sum(axis=1), (pt * np.sin(phi)).sum(axis=1)])


def _lepton_resolution(leptons: Floats) -> Floats:
    pt, eta = leptons[..., 0], np.abs(leptons[..., 1])
    limits, constants, slopes = (np.array(column) for column in zip(*MUON_RESOLUTION, strict=True))
    region = np.searchsorted(limits, eta)
    muon = np.hypot(constants[region], slopes[region] * pt)
    constant, stochastic = ELECTRON_RESOLUTION
    electron = np.sqrt(constant**2 + stochastic**2 / np.maximum(pt, 1.0))
    return np.where(leptons[..., 3] == MUON, muon, electron)


def _efficiency(leptons: Floats) -> Floats:
    central, forward = ELECTRON_EFFICIENCY
    electron = np.where(np.abs(leptons[..., 1]) < 1.5, central, forward)
    return np.where(leptons[..., 3] == MUON, MUON_EFFICIENCY, electron)


def _response(resolution: Floats, rng: np.random.Generator) -> Floats:
    """Draw measured over true, never negative."""
    return np.maximum(rng.normal(1.0, resolution), 0.05)


def _pile_up(events: int, rng: np.random.Generator) -> Floats:
    """Draw jets that have nothing to do with the collision: (N, slots, 3)."""
    count = rng.poisson(PILE_UP_JETS, events)
    slots = 10
    jets = np.empty((events, slots, 3))
    jets[..., 0] = JET_PT + rng.exponential(PILE_UP_FALL, (events, slots))
    jets[..., 1] = rng.uniform(-JET_ETA, JET_ETA, (events, slots))
    jets[..., 2] = rng.uniform(-np.pi, np.pi, (events, slots))
    jets[np.arange(slots) >= count[:, np.newaxis]] = 0.0
    return jets
