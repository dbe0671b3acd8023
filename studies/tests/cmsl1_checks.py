"""What must hold for every CMS-L1-24D event, shipped or made."""

from functools import cache

import numpy as np

from gofstream_studies.datasets import cmsl1
from gofstream_studies.datasets.cmsl1 import COLUMNS, L1Events

LEPTONS, JETS = ("mu1", "mu2", "e1", "e2"), ("jet1", "jet2", "jet3")


@cache
def shipped(name: str) -> L1Events:
    """Read each sample once."""
    return cmsl1.read(name)


def column(events: L1Events, name: str) -> np.ndarray:
    """Values of one column."""
    return events.sample.values[:, COLUMNS.index(name)]


def check_events(events: L1Events) -> None:
    """Check what must hold for every event, shipped or made."""
    objects = events.sample.values.reshape(len(events), 8, 3)
    pt, eta, phi = objects[..., 0], objects[..., 1], objects[..., 2]
    assert events.sample.columns == COLUMNS
    assert events.sample.values.dtype == np.float32
    assert (pt >= 0).all()
    assert not eta[pt == 0].any()
    assert not phi[pt == 0].any()
    assert (np.abs(phi) < np.pi + 1e-5).all()
    assert not column(events, "met_eta").any()
    for hard, soft in (("mu1", "mu2"), ("e1", "e2"), ("jet1", "jet2"), ("jet2", "jet3")):
        assert (column(events, f"{hard}_pt") >= column(events, f"{soft}_pt")).all()
    for things, least, limit in (
        (("mu1", "mu2"), 3.0, 2.1),
        (("e1", "e2"), 3.0, 3.0),
        (JETS, 15.0, 4.0),
    ):
        for thing in things:
            values = column(events, f"{thing}_pt")
            assert (values[values > 0] >= least).all()
            assert (np.abs(column(events, f"{thing}_eta")) <= limit * (1 + 1e-5)).all()
    leading = np.maximum(column(events, "mu1_pt"), column(events, "e1_pt"))
    assert (leading >= 23.0).all()
    # The first event of each collision is number 0, and numbers do not repeat.
    assert len(np.unique(np.column_stack([events.uid, events.copy]), axis=0)) == len(events)
