"""EXPO-1D as files, for those who want to read it with something else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from gofstream.datasets import expo1d
from gofstream.datasets.columns import write_columns
from gofstream.errors import InputError


def make(
    folder: str | Path,
    *,
    seed: int = 1,
    events: int = 200_000,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write a reference and one sample of each signal as Parquet.

    Parameters
    ----------
    folder : path
        Where ``reference.parquet`` and ``bulk.parquet``, ``broad.parquet``, ... go.
    seed : int
        The same seed gives the same events.
    events : int
        Rows of the reference; each signal has a tenth of it.
    executor : Executor, optional
        Not needed here: it takes less than a second.
    progress : callable, optional
        Called with the files that are written, and all of them.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in make(tempfile.mkdtemp(), events=100)][:2]
    ['reference.parquet', 'bulk.parquet']
    """
    if events < 1 or seed < 0:
        raise InputError(f"events must be positive and seed not negative, got {events} and {seed}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["reference", *expo1d.SIGNALS]
    written = []
    for number, name in enumerate(names):
        rng = np.random.default_rng([seed, number])
        if name == "reference":
            x = expo1d.reference(events, rng)
        else:
            x = expo1d.SIGNALS[name].draw(max(1, events // 10), rng)
        path = folder / f"{name}.parquet"
        write_columns(path, {"x": x[:, 0]}, {"seed": seed, "events": events})
        written.append(path)
        if progress is not None:
            progress(len(written), len(names))
    return written
