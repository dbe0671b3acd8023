"""DIMUON-5D: muon pairs at 13 TeV. For now, the Drell-Yan sample shipped with the package.

The sample was made for this project with Pythia 8 and a fast detector smearing. It stands in for
the public files of the paper; it is not those files.
"""

from __future__ import annotations

from importlib import resources

from gofstream.errors import InputError
from gofstream.sample import Sample

#: The five columns of the paper, in its order.
COLUMNS = ("pt1", "pt2", "eta1", "eta2", "dphi")
UNITS = {"pt1": "GeV", "pt2": "GeV", "dphi": "rad"}


def drell_yan() -> Sample:
    """Read the 110 000 Drell-Yan events shipped with the package.

    Examples
    --------
    >>> len(drell_yan())
    110000
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            "reading Parquet needs pyarrow: pip install 'gofstream[parquet]'"
        ) from error
    path = resources.files("gofstream.datasets") / "samples" / "dimuon_sm.parquet"
    with path.open("rb") as file:
        table = pq.read_table(file, columns=list(COLUMNS))
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    return Sample.from_columns(columns, units=UNITS, name="Drell-Yan sample")
