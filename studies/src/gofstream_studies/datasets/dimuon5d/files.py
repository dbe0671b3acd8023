"""Samples of the data set as files: shipped with the package, or made in a folder."""

from __future__ import annotations

from pathlib import Path

from gofstream.errors import InputError, nearest_names
from gofstream.sample import Sample
from gofstream_studies.datasets.dimuon5d.events import COLUMNS, UNITS
from gofstream_studies.datasets.storage import SHIPPED, read_columns

#: The samples there are, and what they hold.
SAMPLES = {
    "sm": "Drell-Yan",
    "zprime200": "Z' at 200 GeV, width 5 GeV",
    "zprime300": "Z' at 300 GeV, width 8 GeV",
    "zprime600": "Z' at 600 GeV, width 16 GeV",
    "eft": "Drell-Yan with a contact term, c_W = 1 TeV^-2",
    "eft_cw05": "Drell-Yan with a contact term, c_W = 0.5 TeV^-2",
}


def read(name: str, folder: str | Path | None = None) -> Sample:
    """Read a sample: the one shipped with the package, or the one `make` wrote.

    Parameters
    ----------
    name : str
        One of `SAMPLES`: sm, zprime200, zprime300, zprime600, eft, eft_cw05.
    folder : path, optional
        Where `make` wrote it; by default what the package ships.

    Returns
    -------
    Sample
        The five columns of `COLUMNS`. No Drell-Yan event is in another sample; the two contact
        terms that are shipped have events in common, those that `make` makes have not.

    Examples
    --------
    >>> len(read("zprime300"))
    3000
    """
    path = sample_path(name, folder)
    return Sample.from_columns(
        read_columns(path, COLUMNS), units=UNITS, name=f"{SAMPLES[name]} sample"
    )


def drell_yan() -> Sample:
    """Read the 110 000 Drell-Yan events shipped with the package.

    Examples
    --------
    >>> len(drell_yan())
    110000
    """
    return read("sm")


def sample_path(name: str, folder: str | Path | None) -> Path:
    """Tell where a sample lies, or say that there is none of this name."""
    if name not in SAMPLES:
        raise InputError(f"DIMUON-5D has no sample {name!r}; {nearest_names(name, SAMPLES)}")
    if folder is None:
        return SHIPPED / f"dimuon_{name}.parquet"
    return Path(folder) / f"{name}.parquet"
