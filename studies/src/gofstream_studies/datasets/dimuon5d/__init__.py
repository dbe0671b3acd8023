"""DIMUON-5D: muon pairs at 13 TeV, as Drell-Yan, with a Z', or with a contact term.

The samples shipped with the package and those that `make` makes come from Pythia 8 and a fast
detector smearing. They stand in for the public files of the paper (Zenodo record 4442665); they
are not those files. `read_public` reads the public files themselves.
"""

from gofstream_studies.datasets.dimuon5d.benchmarks import BENCHMARKS, Benchmark
from gofstream_studies.datasets.dimuon5d.events import COLUMNS, UNITS, mass
from gofstream_studies.datasets.dimuon5d.files import SAMPLES, drell_yan, read
from gofstream_studies.datasets.dimuon5d.making import make
from gofstream_studies.datasets.dimuon5d.public import read_public
from gofstream_studies.datasets.dimuon5d.spectrum import (
    Spectra,
    ideal_median_z,
    ideal_toys,
    read_spectra,
)

__all__ = [
    "BENCHMARKS",
    "COLUMNS",
    "SAMPLES",
    "UNITS",
    "Benchmark",
    "Spectra",
    "drell_yan",
    "ideal_median_z",
    "ideal_toys",
    "make",
    "mass",
    "read",
    "read_public",
    "read_spectra",
]
