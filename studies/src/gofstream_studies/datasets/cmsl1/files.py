"""CMS-L1-24D events as columns: in the samples shipped with the package, and in those made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.sample import build
from gofstream_studies.datasets.cmsl1.events import COLUMNS, UNITS, L1Events
from gofstream_studies.datasets.storage import read_columns

#: What an event is beside its columns, and how it is stored.
_BOOKKEEPING = {"uid": np.int64, "copy": np.int16, "process": np.int8}
STORED = (*COLUMNS, *_BOOKKEEPING)


def read_events(path: Path) -> L1Events:
    """Read events that were written as `as_columns` gives them."""
    return as_events(read_columns(path, STORED), path.stem)


def as_columns(events: L1Events) -> dict[str, NDArray[Any]]:
    """Lay events out as columns."""
    book = {what: getattr(events, what).astype(kind) for what, kind in _BOOKKEEPING.items()}
    return dict(zip(COLUMNS, events.sample.values.T, strict=True)) | book


def as_events(columns: Mapping[str, NDArray[Any]], name: str) -> L1Events:
    """Put columns together again."""
    values = np.stack([columns[column] for column in COLUMNS], axis=1).astype(np.float32)
    sample = build(values, COLUMNS, None, UNITS, (), f"CMS-L1 {name}", copy=False)
    uid, copy, process = (columns[what].astype(np.int64) for what in _BOOKKEEPING)
    return L1Events(sample, uid, copy, process)
