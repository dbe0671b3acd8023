"""HDF5, through h5py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gofstream.errors import InputError, nearest_names
from gofstream.io.layout import Array, lay_out
from gofstream.io.table import Piece, Table, sliced

if TYPE_CHECKING:
    import h5py

# How many parts of a file are listed at most.
_LISTED = 1000


def open_hdf5(path: Path, stack: ExitStack, tree: str | None) -> Table:
    """Open an HDF5 file: the columns of its root, or of the group or dataset `tree`."""
    import h5py

    file = stack.enter_context(h5py.File(path, "r"))
    parts = _parts(file)
    node = _pick(file, tree, parts, path)
    if isinstance(node, h5py.Dataset):
        datasets = {str(tree): node}
    else:
        members = {name: _member(node, name) for name in node}
        datasets = {name: m for name, m in members.items() if isinstance(m, h5py.Dataset)}
    arrays = {name: _array(dataset) for name, dataset in datasets.items()}
    layout = lay_out(arrays, path, parts)
    checked: set[str] = set()

    def take(names: Sequence[str], start: int, stop: int) -> Piece:
        wide: dict[str, list[int]] = {}
        for name in names:
            array, at = layout.places[name]
            if array not in checked:
                _check_written(datasets[array], array, path)
                checked.add(array)
            if isinstance(at, int):
                wide.setdefault(array, []).append(at)
        # A matrix is read once for all of its columns, which h5py wants in ascending order.
        blocks = {key: datasets[key][start:stop, sorted(js)] for key, js in wide.items()}
        piece: Piece = {}
        for name in names:
            array, at = layout.places[name]
            if isinstance(at, int):
                piece[name] = blocks[array][:, sorted(wide[array]).index(at)]
            elif at is not None:
                piece[name] = datasets[array].fields(at)[start:stop]
            else:
                piece[name] = datasets[array][start:stop]
        return piece

    return Table(layout.columns, layout.rows, sliced(layout.rows, take), parts)


def _parts(file: h5py.File) -> tuple[str, ...]:
    """Name the groups and datasets, groups with a slash behind."""
    import h5py

    found: list[str] = []

    def visit(name: str, node: object) -> bool | None:
        found.append(name if isinstance(node, h5py.Dataset) else f"{name}/")
        return len(found) >= _LISTED or None

    file.visititems(visit)
    return tuple(found)


def _pick(file: h5py.File, tree: str | None, parts: Sequence[str], path: Path) -> Any:
    if tree is None:
        return file
    node = _member(file, tree)
    if node is None:
        raise InputError(f"{path}: has no group or dataset {tree!r}; {nearest_names(tree, parts)}")
    return node


def _member(group: h5py.Group, name: str) -> Any:
    """Follow a name within the file: a link that leads to another file leads nowhere."""
    import h5py

    *above, last = [part for part in name.split("/") if part] or [name]
    for part in above:
        inner = _member(group, part)
        if not isinstance(inner, h5py.Group):
            return None
        group = inner
    if isinstance(group.get(last, getlink=True), h5py.ExternalLink):
        return None
    return group.get(last)


def _array(dataset: h5py.Dataset) -> Array:
    names = dataset.attrs.get("columns")
    texts = None if names is None else [_text(name) for name in np.ravel(names)]
    return Array(dataset.dtype, dataset.shape or (), texts)


def _check_written(dataset: h5py.Dataset, name: str, path: Path) -> None:
    """Refuse data that are elsewhere, and rows that were never written: they would read as 0."""
    if dataset.is_virtual or dataset.external:
        raise InputError(
            f"{path}: dataset {name!r} keeps its values in other files; copy them into this one "
            "with h5repack, or read those files"
        )
    if dataset.chunks is None:
        whole = dataset.id.get_storage_size() > 0
    else:
        grid = [-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)]
        # Python's integers: a damaged shape may be beyond those of numpy.
        wanted = 1
        for count in grid:
            wanted *= count
        whole = dataset.id.get_num_chunks() == wanted
    if not whole:
        raise InputError(
            f"{path}: dataset {name!r} promises {dataset.shape[0]} rows, but not all of them were "
            "written; the file is damaged or its writing was cut short: make or fetch it again"
        )


def _text(entry: Any) -> str:
    return entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)
