"""Downloading the files of a public record: whole, checked, and resumed where it broke off."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from gofstream.errors import FetchError

#: Where Zenodo answers questions about its records.
ZENODO = "https://zenodo.org/api/records"

_CHUNK = 1 << 18
_TIMEOUT = 30.0
_CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
_ATTEMPTS = 4  # connections for one file before giving up
_LARGEST_RECORD = 50_000_000  # bytes of a description of a record; the real ones are kilobytes


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a record.

    Attributes
    ----------
    name : str
        Its plain name.
    size : int
        Bytes.
    algorithm, checksum : str
        Such as "md5", and the sum in hex.
    address : str
        Where it is downloaded.
    """

    name: str
    size: int
    algorithm: str
    checksum: str
    address: str


def record_page(number: int) -> str:
    """Address of the page of a record, for people.

    Examples
    --------
    >>> record_page(4442665)
    'https://zenodo.org/records/4442665'
    """
    return f"https://zenodo.org/records/{number}"


def fetch(
    records: Sequence[int],
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    api: str = ZENODO,
    progress: Callable[[str, int, int], None] | None = None,
    pause: float = 1.0,
) -> list[Path]:
    """Download all files of some records into a folder.

    A file appears under its name when it is whole and its checksum is right. What was downloaded
    before a connection broke is kept and used the next time.

    Parameters
    ----------
    records : sequence of int
        Numbers of Zenodo records.
    folder : path
        Where the files go; made if need be.
    only : sequence of str
        Patterns such as ``*.h5``; by default all files.
    api : str
        Address of the service that describes records; another one for a mirror.
    progress : callable, optional
        Called with the name of a file, the bytes that are there, and all of its bytes.
    pause : float
        Seconds before a broken connection is tried again; doubled each time.

    Returns
    -------
    list of Path
        The files, those that were there already included.

    Raises
    ------
    FetchError
        If the record or a file cannot be had; the message says how to do it by hand.
    """
    folder = Path(folder)
    files = [
        (number, file) for number in records for file in describe(number, api=api, folder=folder)
    ]
    chosen = [
        (number, file)
        for number, file in files
        if not only or any(fnmatch(file.name, pattern) for pattern in only)
    ]
    if not chosen:
        raise FetchError(
            f"no file of the record matches {', '.join(only)}; it has "
            f"{', '.join(file.name for _, file in files) or 'none'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return [_download(file, number, folder, progress, pause) for number, file in chosen]


def describe(number: int, *, api: str = ZENODO, folder: Path = Path()) -> list[RemoteFile]:
    """Ask which files a record has.

    Parameters
    ----------
    number : int
        The record.
    api : str
        Address of the service.
    folder : Path
        Where files would go, for the advice in error messages.
    """
    address = f"{api.rstrip('/')}/{number}"
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise FetchError(f"{api!r} is not an http or https address; give one")
    try:
        with _open(address) as response:
            text = response.read(_LARGEST_RECORD)
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(_no_network(address, error, number, folder)) from error
    try:
        return [_file(entry, address) for entry in json.loads(text)["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FetchError(
            f"{address} does not answer with a record and its files ({type(error).__name__}: "
            f"{error}); {_by_hand(number, folder)}"
        ) from error


def _file(entry: Any, record: str) -> RemoteFile:
    """Read one entry of a record; what is odd about it must not reach the disk."""
    name, size = str(entry["key"]), int(entry["size"])
    algorithm, _, checksum = str(entry["checksum"]).rpartition(":")
    address = urllib.parse.urljoin(record, str(entry["links"]["self"]))
    if name != PurePosixPath(name).name or name in ("", ".", "..") or "\\" in name:
        raise ValueError(f"file name {name!r} is not a plain one")
    here, there = urllib.parse.urlsplit(record), urllib.parse.urlsplit(address)
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise ValueError(f"file {name!r} lies at another place, {address}")
    if size < 0 or algorithm not in _CHECKSUMS:
        raise ValueError(f"file {name!r} has size {size} and checksum {entry['checksum']!r}")
    return RemoteFile(name, size, algorithm, checksum.lower(), address)


def _download(
    file: RemoteFile,
    record: int,
    folder: Path,
    progress: Callable[[str, int, int], None] | None,
    pause: float,
) -> Path:
    """Bring one file, over several connections if need be."""
    path = folder / file.name
    if path.exists():
        if not _is(path, file):
            raise FetchError(
                f"{path} is there, but is not the file of the record (size or checksum differ); "
                "move it away and run the command again"
            )
        if progress is not None:
            progress(file.name, file.size, file.size)
        return path
    partial = folder / f"{file.name}.partial"
    problem: Exception | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _receive(file, partial, progress)
        except urllib.error.HTTPError as error:
            if error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:  # asking again would not help
                raise FetchError(_no_network(file.address, error, record, folder)) from error
            problem = error
        except (
            urllib.error.URLError,
            ConnectionError,
            TimeoutError,
            http.client.HTTPException,
        ) as error:
            problem = error
        if partial.exists() and partial.stat().st_size >= file.size:
            break
    else:
        there = partial.stat().st_size if partial.exists() else 0
        if not there and problem is not None:
            raise FetchError(_no_network(file.address, problem, record, folder)) from problem
        raise FetchError(
            f"{file.name}: the connection broke {_ATTEMPTS} times, with {there} of {file.size} "
            f"bytes there; they are kept in {partial}, and the same command goes on from there"
        )
    if not _is(partial, file):
        partial.unlink()
        raise FetchError(
            f"{file.name}: size or {file.algorithm} checksum is not that of the record, so the "
            "download was thrown away; run the command again, and if that does not help, "
            + _by_hand(record, folder)
        )
    os.replace(partial, path)
    return path


def _receive(
    file: RemoteFile, partial: Path, progress: Callable[[str, int, int], None] | None
) -> None:
    """Read from one connection for as long as it gives something."""
    there = partial.stat().st_size if partial.exists() else 0
    if there >= file.size > 0:
        return
    with _open(file.address, start=there) as response:
        # A server that knows no ranges answers 200 and sends the file from its beginning.
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        there = there if resumed else 0
        with partial.open("ab" if resumed else "wb") as sink:
            # Never more than there should be: a server gone mad must not fill the disk.
            while chunk := response.read(min(_CHUNK, file.size + 1 - there)):
                sink.write(chunk)
                there += len(chunk)
                if progress is not None:
                    progress(file.name, there, file.size)


def _open(address: str, start: int = 0) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"gofstream/{version('gofstream')}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(address, headers=headers)
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection, which nobody reads any more
        raise
    return response


def _is(path: Path, file: RemoteFile) -> bool:
    """Tell whether a file has the size and the checksum of the record."""
    if path.stat().st_size != file.size:
        return False
    digest = hashlib.new(file.algorithm, usedforsecurity=False)
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == file.checksum


def _no_network(address: str, error: Exception, record: int, folder: Path) -> str:
    reason = getattr(error, "reason", None) or error
    code = f"HTTP {error.code}, " if isinstance(error, urllib.error.HTTPError) else ""
    return f"{address} cannot be had ({code}{reason}); {_by_hand(record, folder)}"


def _by_hand(record: int, folder: Path) -> str:
    return f"download the files by hand from {record_page(record)} and put them into {folder}"
