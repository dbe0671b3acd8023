"""ROOT, through uproot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError, nearest_names
from gofstream.io.table import Column, Piece, Table, check_unique, described, sliced

if TYPE_CHECKING:
    import uproot

_TREES = ("TTree", "TNtuple", "TNtupleD")
_NTUPLES = ("ROOT::RNTuple", "ROOT::Experimental::RNTuple")
_NUMBERS = {
    "bool": "bool",
    "char": "int8",
    "float": "float32",
    "double": "float64",
    **{
        f"std::{sign}int{bits}_t": f"{sign}int{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


@dataclass(frozen=True, slots=True)
class _Field:
    """A column and the way to read a range of its rows."""

    column: Column
    read: Callable[[int, int], NDArray[Any]]


def open_root(path: Path, stack: ExitStack, tree: str | None) -> Table:
    """Open the tree or ntuple called `tree` in a ROOT file, or the only one there is."""
    import uproot

    # A path in a dict is taken as it is, colons and all; a memory map needs no threads.
    file = stack.enter_context(
        uproot.open({str(path.absolute()): None}, handler=uproot.MemmapSource)
    )
    # uproot writes and runs Python code for classes that the file itself describes. Trees of
    # numbers are not among them, and nothing from a file shall be run: let it describe none.
    file.file._streamers = {}
    found = _trees(file)
    name = _pick(found, tree, path)
    node = file[name]
    if found[name] in _NTUPLES:
        _check_pages(node)
    listed = list(_branches(node) if found[name] in _TREES else _ntuple_fields(node, ""))
    check_unique((name for name, _ in listed), path)
    fields = dict(listed)

    def take(names: Sequence[str], start: int, stop: int) -> Piece:
        return {name: fields[name].read(start, stop) for name in names}

    columns = {name: field.column for name, field in fields.items()}
    rows = int(node.num_entries)
    return Table(columns, rows, sliced(rows, take), tuple(sorted({_plain(n) for n in found})))


def _trees(file: uproot.Directory) -> dict[str, str]:
    """Give the class of every tree, by its name with the number of its version (cycle)."""
    classes = file.classnames(recursive=True, cycle=True)
    return {name: kind for name, kind in classes.items() if kind in (*_TREES, *_NTUPLES)}


def _pick(found: Mapping[str, str], tree: str | None, path: Path) -> str:
    """Give the full name of a tree: the latest version, unless one is asked for."""
    if tree is not None and tree in found:
        return tree
    names = sorted({_plain(name) for name in found})
    if tree is None:
        if not names:
            raise InputError(
                f"{path}: holds no tree and no ntuple; check that it is the right file"
            )
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            raise InputError(f"{path}: holds several trees, {listed}; pick one with `tree`")
        tree = names[0]
    if tree not in names:
        raise InputError(f"{path}: has no tree {tree!r}; {nearest_names(tree, names)}")
    return max((name for name in found if _plain(name) == tree), key=_cycle)


def _plain(name: str) -> str:
    return name.rpartition(";")[0]


def _cycle(name: str) -> int:
    return int(name.rpartition(";")[2])


def _branches(tree: uproot.Node) -> Iterator[tuple[str, _Field]]:
    """Describe the branches of a tree that have no branches of their own."""
    import uproot

    for name, branch in tree.items(recursive=True, full_paths=True):
        if branch.branches:
            continue
        how = branch.interpretation
        if isinstance(how, uproot.AsDtype):
            kind = described(how.to_dtype)
            column = Column(str(branch.typename), kind.dtype, kind.nested)
        else:
            column = Column(str(branch.typename), None, not isinstance(how, uproot.AsStrings))
        yield name, _Field(column, _reader(branch))


def _check_pages(ntuple: uproot.Node) -> None:
    """Refuse pages of plain numbers with more of them than events: uproot would make room first."""
    plain = {field.field_id for field in ntuple.fields if str(field.typename) in _NUMBERS}
    numbers = [record.idx for record in ntuple.column_records if record.field_id in plain]
    clusters = zip(ntuple.cluster_summaries, ntuple.page_link_list, strict=True)
    for cluster, links in clusters:
        for j in numbers:
            held = sum(page.num_elements for page in links[j].pages) if j < len(links) else 0
            if held > cluster.num_entries:
                raise ValueError(f"{held} numbers for {cluster.num_entries} events")


def _ntuple_fields(node: uproot.Node, above: str) -> Iterator[tuple[str, _Field]]:
    """Describe the fields of an ntuple, and those of records among them."""
    for field in node.fields:
        name, kind = above + field.name, str(field.typename)
        plain = re.sub(r"^std::optional<(.*)>$", r"\1", kind)
        if field.fields and not kind.startswith("std::"):
            yield from _ntuple_fields(field, f"{name}.")
        elif plain in _NUMBERS:
            dtype = np.dtype(_NUMBERS[plain] if plain == kind else np.float64)
            yield name, _Field(Column(kind, dtype), _field_reader(field, filled=plain != kind))
        else:
            yield (
                name,
                _Field(
                    Column(kind, None, kind != "std::string"), _field_reader(field, filled=False)
                ),
            )


def _reader(branch: uproot.Node) -> Callable[[int, int], NDArray[Any]]:
    """Read a branch by the object itself: names from a file are not to be taken for formulae."""

    def read(start: int, stop: int) -> NDArray[Any]:
        numbers: NDArray[Any] = branch.array(entry_start=start, entry_stop=stop, library="np")
        return numbers

    return read


def _field_reader(field: uproot.Node, *, filled: bool) -> Callable[[int, int], NDArray[Any]]:
    """Read a field of an ntuple, through awkward: uproot before 5.7 gives no field as numpy."""

    def read(start: int, stop: int) -> NDArray[Any]:
        import awkward as ak

        values = field.array(entry_start=start, entry_stop=stop, library="ak")
        if filled:
            return ak.to_numpy(ak.fill_none(values, np.nan)).astype(np.float64)
        return ak.to_numpy(values)

    return read
