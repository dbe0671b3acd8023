"""The formats: which one a file is in, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from gofstream.errors import EmptyError, InputError, missing_extra
from gofstream.io.arrow import STREAM, open_csv, open_ipc, open_parquet
from gofstream.io.define import Definitions
from gofstream.io.hdf5 import open_hdf5
from gofstream.io.npy import open_npy, open_npz
from gofstream.io.root import open_root
from gofstream.io.table import Table, foreign, guarded


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file.

    Parameters
    ----------
    name
        What people call it.
    suffixes
        How its files end.
    magic
        How its content begins; empty if there is no telling.
    package, extra
        What reads it, and the extra that brings it.
    open
        Opens a file, to be closed with a stack; the last argument picks one of several tables.
    single
        Whether a file is always one table.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    package: str
    extra: str
    open: Callable[[Path, ExitStack, str | None], Table]
    single: bool


ARROW = Format("Arrow", (".arrow", ".arrows"), b"ARROW1", "pyarrow", "parquet", open_ipc, True)
CSV = Format("CSV", (".csv",), b"", "pyarrow", "parquet", open_csv, True)
HDF5 = Format(
    "HDF5", (".h5", ".hdf5", ".hdf"), b"\x89HDF\r\n\x1a\n", "h5py", "hdf5", open_hdf5, False
)
FORMATS = (
    Format("Parquet", (".parquet", ".pq"), b"PAR1", "pyarrow", "parquet", open_parquet, True),
    ARROW,
    Format("ROOT", (".root",), b"root", "uproot", "root", open_root, False),
    HDF5,
    Format("NPY", (".npy",), b"\x93NUMPY", "numpy", "", open_npy, True),
    Format("NPZ", (".npz",), b"PK\x03\x04", "numpy", "", open_npz, False),
    CSV,
)

# What else people have under these names.
_OTHERS = {
    b"\x1f\x8b": "gzip: unpack it first",
    b"\x28\xb5\x2f\xfd": "Zstandard: unpack it first",
    b"SIMPLE  =": "FITS: convert it first",
    b"<!": "a web page: the download went wrong",
    b"<html": "a web page: the download went wrong",
    b"\x80\x04": "a Python pickle: it is never opened, since it can run anything; convert it",
    b"\x80\x05": "a Python pickle: it is never opened, since it can run anything; convert it",
}
# HDF5 lets something else stand before its own beginning.
_USER_BLOCKS = (0, 512, 1024, 2048, 4096)


@contextmanager
def opened(
    path: Path, tree: str | None = None, define: Definitions | None = None
) -> Iterator[Table]:
    """Open a file of any format, with every error naming it.

    Parameters
    ----------
    path
        The file.
    tree
        Which of the tables in the file to open.
    define
        Columns that it gets beside its own.

    Raises
    ------
    InputError
        If the file is missing, damaged, or of no format known here.
    """
    found = recognise(path)
    try:
        import_module(found.package)
    except ImportError as error:
        raise missing_extra(f"{found.package} to read {path}", found.extra) from error
    if found.single and tree is not None:
        raise InputError(
            f"{path}: a {found.name} file is one table, with nothing in it to pick as {tree!r}; "
            "leave `tree` out"
        )
    with ExitStack() as stack:
        with foreign(path, found.name):
            table = found.open(path, stack, tree)
        table = guarded(table, path, found.name)
        yield table if define is None else define.on(table, path)


def recognise(path: Path) -> Format:
    """Tell the format of a file by how it begins and how its name ends.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        If the two contradict each other, or say nothing.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the name and the folder")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name files in it, such as '{path}/*.parquet'")
    if not path.is_file():
        raise InputError(f"{path}: is not a regular file; write its content to one first")
    with path.open("rb") as file:
        head = file.read(_USER_BLOCKS[-1] + len(HDF5.magic))
    if not head:
        raise EmptyError(f"{path}: the file is empty (0 bytes); make or fetch it again")
    suffix = path.suffix.lower()
    named = next((one for one in FORMATS if suffix in one.suffixes), None)
    held = _by_content(head)
    if held is None and named is CSV and b"\0" not in head and not _other(head):
        return CSV
    if held is None:
        raise InputError(_unknown(path, head, named))
    if named not in (None, held):
        raise InputError(
            f"{path}: ends in {suffix}, but looks like {held.name}; rename it to end in "
            f"{held.suffixes[0]}, or check that it is the right file"
        )
    return held


def _by_content(head: bytes) -> Format | None:
    for one in FORMATS:
        if one.magic and head.startswith(one.magic):
            return one
    if head.startswith(STREAM):
        return ARROW
    return HDF5 if any(head.startswith(HDF5.magic, at) for at in _USER_BLOCKS) else None


def _other(head: bytes) -> str:
    return next((text for start, text in _OTHERS.items() if head.startswith(start)), "")


def _unknown(path: Path, head: bytes, named: Format | None) -> str:
    """Say what a file looks like that is in none of the formats."""
    looks = _other(head)
    if looks:
        return f"{path}: looks like {looks}"
    if named is CSV:
        return f"{path}: ends in {path.suffix}, but holds bytes that are not text"
    if named is not None:
        return (
            f"{path}: ends in {path.suffix} but is not {named.name} (it begins with {head[:8]!r}); "
            "check that it is the right file, or make or fetch it again"
        )
    endings = ", ".join(suffix for one in FORMATS for suffix in one.suffixes)
    return f"{path}: is in no format known here; files that can be read end in {endings}"
