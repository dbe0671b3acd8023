"""The collisions behind CMS-L1-24D: what Pythia 8 is told, and in what mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gofstream_studies.datasets.cmsl1.events import PROCESSES


@dataclass(frozen=True, slots=True)
class Process:
    """A kind of collision.

    Attributes
    ----------
    code : its number in `L1Events.process`.
    number : its place in the list of all, which tells its collisions and its seeds from others'.
    commands : what Pythia is told.
    events_per_part : how many are made by one task: ten seconds' work.
    copies : how often one collision may be observed.
    """

    code: int
    number: int
    commands: tuple[str, ...]
    events_per_part: int
    copies: int = 1

    @property
    def is_signal(self) -> bool:
        """Whether it is none of the Standard Model."""
        return self.code == PROCESSES["signal"]


# Decays of τ without spin, which cost a third of the time: few of the accepted W and Z went to τ.
_PLAIN_TAU = "TauDecays:mode = 0"
_HIGGS = ("HiggsSM:gg2H = on", "25:onMode = off")

#: Few collisions of QCD, h0 and h± have a hard isolated lepton: each of them is observed up to 20,
#: 2 or 3 times.
PROCESS: Mapping[str, Process] = MappingProxyType(
    {
        "W": Process(
            PROCESSES["W"],
            1,
            (
                "WeakSingleBoson:ffbar2W = on",
                "24:onMode = off",
                "24:onIfAny = 11 13 15",
                _PLAIN_TAU,
            ),
            4000,
        ),
        "QCD": Process(
            PROCESSES["QCD"],
            2,
            ("HardQCD:hardbbbar = on", "PhaseSpace:pTHatMin = 25."),
            1000,
            copies=20,
        ),
        "Z": Process(
            PROCESSES["Z"],
            3,
            (
                "WeakSingleBoson:ffbar2gmZ = on",
                "PhaseSpace:mHatMin = 50.",
                "23:onMode = off",
                "23:onIfAny = 11 13 15",
                _PLAIN_TAU,
            ),
            1000,
        ),
        "ttbar": Process(
            PROCESSES["ttbar"], 4, ("Top:gg2ttbar = on", "Top:qqbar2ttbar = on"), 1000
        ),
        "A4l": Process(
            PROCESSES["signal"],
            5,
            (
                *_HIGGS,
                "25:m0 = 50.",
                "25:onIfMatch = 23 23",
                "23:mMin = 5.",
                "23:onMode = off",
                "23:onIfAny = 11 13",
            ),
            1000,
        ),
        "h0tautau": Process(
            PROCESSES["signal"],
            6,
            (*_HIGGS, "25:m0 = 60.", "25:onIfMatch = 15 -15"),
            400,
            copies=2,
        ),
        "hptaunu": Process(
            PROCESSES["signal"],
            7,
            (
                "Higgs:useBSM = on",
                "HiggsBSM:ffbar2H+- = on",
                "37:m0 = 60.",
                "37:onMode = off",
                "37:onIfMatch = 15 16",
            ),
            100,
            copies=3,
        ),
        "lq": Process(
            PROCESSES["signal"],
            8,
            (
                "LeptoQuark:gg2LQLQbar = on",
                "LeptoQuark:qqbar2LQLQbar = on",
                "42:m0 = 80.",
                "42:mMin = 60.",
                "42:mMax = 100.",
                "42:0:products = 5 -15",
            ),
            500,
        ),
    }
)

#: What share of the Standard Model sample each process has, imposed as in the public files.
MIXTURE = MappingProxyType({"W": 0.592, "QCD": 0.338, "Z": 0.067, "ttbar": 0.003})
