"""Files to try things on: a reference, and data with a signal hidden in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets import expo1d, muon_pairs
from gofstream.datasets.columns import write_columns
from gofstream.errors import missing_extra
from gofstream.files import whole

Floats = NDArray[np.float64]

#: Name of the tree in ROOT files.
TREE = "events"


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of files, and how to test them.

    Attributes
    ----------
    shows : what is hidden in the data.
    draw : gives reference and data, by column.
    expected, batches : what to tell the test.
    options : further words for its command line.
    """

    shows: str
    draw: Callable[[np.random.Generator], tuple[dict[str, Floats], dict[str, Floats]]]
    expected: int
    batches: int
    options: str = ""


def write(name: str, folder: Path, kind: str, seed: int) -> tuple[Path, Path]:
    """Write reference and data of an example as Parquet or ROOT files.

    Parameters
    ----------
    name : one of `EXAMPLES`.
    kind : "parquet" or "root".

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in write("expo1d", Path(tempfile.mkdtemp()), "parquet", 1)]
    ['reference.parquet', 'data.parquet']
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"reference.{kind}", folder / f"data.{kind}"
    drawn = EXAMPLES[name].draw(np.random.default_rng(seed))
    for path, columns in zip(paths, drawn, strict=True):
        if kind == "root":
            _write_root(path, columns)
        else:
            write_columns(path, columns, {"example": name, "seed": seed})
    return paths


def _write_root(path: Path, columns: dict[str, Floats]) -> None:
    try:
        import uproot
    except ImportError as error:
        raise missing_extra("uproot", "root") from error
    with whole(path) as partial, uproot.recreate(partial) as file:
        tree = file.mktree(TREE, {name: column.dtype for name, column in columns.items()})
        tree.extend(columns)


def _expo1d(rng: np.random.Generator) -> tuple[dict[str, Floats], dict[str, Floats]]:
    nominal = expo1d.reference(150_000, rng)[:, 0]
    seen = expo1d.reference(rng.poisson(4000), rng)[:, 0]
    peak = expo1d.SIGNALS["narrow"].draw(rng.poisson(48), rng)[:, 0]
    return {"x": nominal}, {"x": rng.permutation(np.concatenate([seen, peak]))}


def _muons(rng: np.random.Generator) -> tuple[dict[str, Floats], dict[str, Floats]]:
    nominal = muon_pairs.drell_yan(100_000, rng)
    seen = muon_pairs.drell_yan(rng.poisson(3000), rng)
    peak = muon_pairs.resonance(300, rng.poisson(30), rng)
    order = rng.permutation(len(seen["pt1"]) + len(peak["pt1"]))
    mixed = {name: np.concatenate([seen[name], peak[name]])[order] for name in seen}
    # The mass is there to be looked at, not fitted.
    reference, data = ({**one, "mll": muon_pairs.pair_mass(one)} for one in (nominal, mixed))
    return reference, data


EXAMPLES = {
    "expo1d": Example("1.2 % of a narrow peak at x = 4", _expo1d, 4000, 4),
    "muons": Example(
        "1 % of a resonance at 300 GeV",
        _muons,
        3000,
        4,
        "--carry mll --set 'widths=[2.5, 4.0]' --set n_centres=300 --toys 100",
    ),
}
