"""CMS-L1-24D: collisions with a lepton at the first trigger level of CMS, and four signals.

Each event is the pT, η and φ of the missing transverse momentum, two muons, two electrons and three
jets, with zeros for what was not seen (paper, section "Scaling up to big data LHC scenarios"). The
angles are taken as they are, as in the paper: an angle of zero also says "not seen".

`read` gives the sample shipped with the package, or one made by `make`. They were made for this
project with Pythia 8 and a fast detector simulation; they stand in for the public files; they are
not those files. `read_public` reads those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gofstream.errors import InputError, nearest_names
from gofstream_studies.datasets.cmsl1.events import (
    COLUMNS,
    PROCESSES,
    UNITS,
    VARYING,
    L1Events,
    features,
    split,
    varying,
)
from gofstream_studies.datasets.cmsl1.files import read_events
from gofstream_studies.datasets.cmsl1.making import make
from gofstream_studies.datasets.cmsl1.processes import MIXTURE
from gofstream_studies.datasets.cmsl1.public import read_public
from gofstream_studies.datasets.storage import SHIPPED

__all__ = [
    "BACKGROUND",
    "COLUMNS",
    "MIXTURE",
    "PROCESSES",
    "SIGNALS",
    "UNITS",
    "VARYING",
    "L1Events",
    "PublicFile",
    "features",
    "make",
    "read",
    "read_public",
    "split",
    "varying",
]


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One of the samples of the paper.

    Attributes
    ----------
    name : what `read` calls it.
    title : as in the paper.
    what : what happens in such a collision, as it is made here.
    file : name of the public file.
    record : its Zenodo record.
    """

    name: str
    title: str
    what: str
    file: str
    record: int


BACKGROUND = PublicFile(
    "sm",
    "Standard Model",
    "W 59.2 %, QCD 33.8 %, Z 6.7 %, top pairs 0.3 %, with an isolated lepton above 23 GeV",
    "background_for_training.h5",
    5046389,
)

SIGNALS: Mapping[str, PublicFile] = MappingProxyType(
    {
        signal.name: signal
        for signal in (
            PublicFile(
                "A4l",
                "A → 4l",
                "a neutral scalar of 50 GeV to two off-shell Z, each to two leptons",
                "Ato4l_lepFilter_13TeV_filtered.h5",
                7152590,
            ),
            PublicFile(
                "h0tautau",
                "h⁰ → ττ",
                "a neutral scalar of 60 GeV to two τ",
                "hToTauTau_13TeV_PU20_filtered.h5",
                7152614,
            ),
            PublicFile(
                "hptaunu",
                "h± → τν",
                "a charged scalar of 60 GeV to a τ and a neutrino",
                "hChToTauNu_13TeV_PU20_filtered.h5",
                7152617,
            ),
            PublicFile(
                "lq",
                "LQ → bτ",
                "a pair of leptoquarks of 80 GeV, each to a b quark and a τ",
                "leptoquark_LOWMASS_lepFilter_13TeV_filtered.h5",
                7152599,
            ),
        )
    }
)


def read(name: str, folder: str | Path | None = None) -> L1Events:
    """Read a sample by name: "sm", or one of `SIGNALS`.

    The sample has the 24 columns of the paper. One of them, ``met_eta``, is zero in every event:
    scaling leaves it at zero, so it adds nothing to any distance and f is the same without it, but
    a learner warns of it; `varying` leaves it out.

    Parameters
    ----------
    name
        The sample.
    folder
        Where `make` wrote; by default the sample shipped with the package.

    Returns
    -------
    L1Events

    Examples
    --------
    >>> events = read("A4l")
    >>> events.sample.values.shape
    (3000, 24)
    """
    names = (BACKGROUND.name, *SIGNALS)
    if name not in names:
        raise InputError(f"CMS-L1 has no sample {name!r}; {nearest_names(name, names)}")
    return read_events((SHIPPED / "cmsl1" if folder is None else Path(folder)) / f"{name}.parquet")
