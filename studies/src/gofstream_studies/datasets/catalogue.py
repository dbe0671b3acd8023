"""What data sets there are: what each is, where its public files are, and how to make it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from gofstream.errors import InputError, nearest_names
from gofstream_studies.datasets.fetch import record_page
from gofstream_studies.datasets.storage import STAND_IN


class Maker(Protocol):
    """What makes a data set as files."""

    def __call__(
        self,
        folder: str | Path,
        *,
        seed: int,
        events: int,
        executor: Executor | None,
        progress: Callable[[int, int], None] | None,
    ) -> object:
        """Write the files into a folder."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One data set of the paper.

    Attributes
    ----------
    name, title : str
        What commands call it, and what people do.
    what : str
        What it is, in a few sentences.
    columns : tuple of (name, unit, meaning)
        What an event is.
    signals : mapping of str to str
        What can be in the data beside the reference.
    records : tuple of int
        Zenodo records that hold the public files.
    layout : str
        How the public files are laid out.
    shipped : str
        What comes with the package.
    makes, cost : str
        What `make` makes, and what that costs.
    events : int
        How many events `make` makes unless told otherwise.
    maker : str or None
        Module and function that make it, imported when needed.
    parallel : bool
        Whether making it is worth several processes.
    """

    name: str
    title: str
    what: str
    columns: tuple[tuple[str, str, str], ...]
    signals: Mapping[str, str]
    records: tuple[int, ...]
    layout: str
    shipped: str
    makes: str
    cost: str
    events: int
    maker: str | None = None
    parallel: bool = True

    @property
    def pages(self) -> tuple[str, ...]:
        """Addresses of record."""
        return tuple(record_page(number) for number in self.records)

    @property
    def note(self) -> str:
        """What has to be said of results from our own samples."""
        return STAND_IN if self.records else ""

    def load_maker(self) -> Maker:
        """Import the function that makes the data set.

        Examples
        --------
        >>> CATALOGUE["expo1d"].load_maker().__name__
        'make'
        """
        if self.maker is None:
            raise InputError(
                f"{self.name} has no generator yet; `gofstream data fetch {self.name}`"
            )
        module, _, function = self.maker.partition(":")
        found: Maker = getattr(import_module(module), function)
        return found

    def as_dict(self) -> dict[str, object]:
        """Give everything as plain values, for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "what": self.what,
            "columns": [
                {"name": name, "unit": unit, "meaning": meaning}
                for name, unit, meaning in self.columns
            ],
            "signals": dict(self.signals),
            "records": list(self.pages),
            "layout": self.layout,
            "shipped": self.shipped,
            "makes": self.makes,
            "cost": self.cost,
            "events": self.events,
            "note": self.note,
        }


_MUON = "transverse momentum of the {} muon"
_OBJECTS = {
    "met": "missing transverse momentum",
    "mu1": "leading muon",
    "mu2": "second muon",
    "e1": "leading electron",
    "e2": "second electron",
    "jet1": "leading jet",
    "jet2": "second jet",
    "jet3": "third jet",
}

CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Entry(
                name="expo1d",
                title="EXPO-1D",
                what="An exponentially falling spectrum in one variable, with five signals. Both "
                "hypotheses are known exactly, so the best possible test is known too.",
                columns=(("x", "", "the one variable, at least zero"),),
                signals={
                    "bulk": "peak in the bulk, 1.5 %",
                    "broad": "broad peak, 0.65 %",
                    "narrow": "very narrow peak, 0.15 %",
                    "tail": "peak in the tail, 0.15 %",
                    "excess": "excess in the tail that is no peak, 1.5 %",
                },
                records=(),
                layout="There are no public files: the paper draws it from formulae.",
                shipped="the exact simulator",
                makes="reference.parquet, and one file for each signal with a tenth of its events",
                cost="a second",
                events=200_000,
                maker="gofstream_studies.datasets.expo1d_files:make",
                parallel=False,
            ),
            Entry(
                name="dimuon5d",
                title="DIMUON-5D",
                what="Pairs of muons in proton collisions at 13 TeV: Drell-Yan as the reference; "
                "a Z' or a contact term as the signal. pT > 20 GeV, |eta| < 2.1, mass > 60 GeV.",
                columns=(
                    ("pt1", "GeV", _MUON.format("leading")),
                    ("pt2", "GeV", _MUON.format("second")),
                    ("eta1", "", "pseudorapidity of the leading muon"),
                    ("eta2", "", "pseudorapidity of the second muon"),
                    ("dphi", "rad", "phi1 - phi2 modulo 2 pi"),
                ),
                signals={
                    "zprime200": "Z' at 200 GeV, width 5 GeV; 0.5 and 1 %",
                    "zprime300": "Z' at 300 GeV, width 8 GeV; 0.25 and 0.5 %",
                    "zprime600": "Z' at 600 GeV, width 16 GeV; 0.06 and 0.15 %",
                    "eft": "contact term, c_W = 1 TeV^-2: N(D)/N(R) = 1.0043",
                    "eft_cw05": "contact term of half the coupling, which gives the paper's "
                    "N(D)/N(R) = 1.002",
                },
                records=(4442665,),
                layout="HDF5 files of about 57 500 events (DiLepton_SM/DiLepton_SM1.h5 to 66), or "
                "one file; one 1-D dataset each for pt1, pt2, eta1, eta2, delta_phi (0 to 2 pi) "
                "and mll. |eta| reaches 2.4: `dimuon5d.read_public` applies the selection.",
                shipped="110 000 Drell-Yan events, 3000 of each Z', 40 000 of each contact term, "
                "and the mass spectra behind the ideal test",
                makes="sm.parquet, a quarter as many events of each contact term, 3 % of each Z', "
                "and spectra.parquet; with Pythia 8",
                cost="about a quarter of an hour of CPU time",
                events=1_000_000,
                maker="gofstream_studies.datasets.dimuon5d:make",
            ),
            Entry(
                name="cmsl1",
                title="CMS-L1-24D",
                what="What the first trigger level of CMS sees of collisions with an electron or "
                "muon above 23 GeV at 13 TeV: W, multijet, Z and top pairs as the reference, four "
                "signals. Objects that are not there are padded with zeros.",
                columns=tuple(
                    (f"{name}_{part}", unit, f"{meaning} of the {which}")
                    for name, which in _OBJECTS.items()
                    for part, unit, meaning in (
                        ("pt", "GeV", "size"),
                        ("eta", "", "pseudorapidity"),
                        ("phi", "rad", "azimuth"),
                    )
                ),
                signals={
                    "A4l": "A -> 4 leptons, 50 GeV",
                    "h0tautau": "h0 -> tau tau, 60 GeV",
                    "hptaunu": "h+- -> tau nu, 60 GeV",
                    "lq": "leptoquark -> b tau, 80 GeV",
                },
                records=(5046389, 7152590, 7152599, 7152614, 7152617),
                layout="HDF5 files with `Particles` (events, 19, 4): rows MET, 4 electrons, "
                "4 muons, 10 jets; columns pT, eta, phi, class. background_for_training.h5 "
                "(13 451 915 events), Ato4l_lepFilter_13TeV_filtered.h5, "
                "hToTauTau_13TeV_PU20_filtered.h5, hChToTauNu_13TeV_PU20_filtered.h5, "
                "leptoquark_LOWMASS_lepFilter_13TeV_filtered.h5. pT = 0 means padding.",
                shipped="102 102 Standard Model events (68 175 independent collisions: few QCD "
                "events pass, so copies of them are rotated, reflected and smeared anew) and 3000 "
                "of each signal",
                makes="Standard Model and signal events with Pythia 8, fastjet and a fast detector "
                "simulation",
                cost="about forty minutes on one core",
                events=100_000,
                maker="gofstream_studies.datasets.cmsl1:make",
            ),
        )
    }
)


def entry(name: str) -> Entry:
    """Look up a data set.

    Raises
    ------
    InputError
        If there is none of this name.

    Examples
    --------
    >>> entry("dimuon5d").pages
    ('https://zenodo.org/records/4442665',)
    """
    if name not in CATALOGUE:
        raise InputError(f"unknown data set {name!r}; {nearest_names(name, CATALOGUE)}")
    return CATALOGUE[name]


def data_folder(name: str) -> Path:
    """Tell where the files of a data set go: $GOFSTREAM_DATA, or the user's cache.

    Examples
    --------
    >>> data_folder("dimuon5d").name
    'dimuon5d'
    """
    root = os.environ.get("GOFSTREAM_DATA")
    return (Path(root) if root else Path.home() / ".cache" / "gofstream") / name
