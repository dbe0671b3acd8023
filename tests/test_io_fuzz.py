"""Bytes that no library would write, through every reader."""

from __future__ import annotations

import re
import struct
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import uproot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io_files import WRITERS, muons

from gofstream.errors import GofstreamError, GofstreamWarning
from gofstream.io import read
from gofstream.io.formats import FORMATS

BUDGET = 8_000_000

# The file is written anew for each example, so one folder serves them all.
fuzz = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path: Path, content: bytes) -> bool:
    """Read bytes as events: they are, or there is an error of ours that names the file."""
    # A file that was mapped keeps its old content; a new one takes its place.
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    tracemalloc.start()
    start = time.perf_counter()
    said = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GofstreamWarning)
            read(path, memory=BUDGET)
    except (GofstreamError, OSError) as error:
        said = str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.perf_counter() - start < 20
    # Parsing a header takes some room of its own.
    assert peak < 2 * BUDGET
    # An error about values speaks of the sample, which is called like the file.
    assert not said or path.stem in said or "memory budget" in said
    assert said.isprintable()
    return not said


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_random_bytes(kind: object, tmp_path: Path) -> None:
    """Behind the right beginning, under the right name."""

    @fuzz
    @given(st.binary(max_size=400))
    def run(content: bytes) -> None:
        check(tmp_path / f"fuzz{kind.suffixes[0]}", kind.magic + content)

    run()


def test_pages_of_more_numbers_than_events(tmp_path: Path) -> None:
    """One flipped bit makes 1234 numbers two thousand million, for which uproot would find room."""
    path = tmp_path / "fuzz.root"
    with uproot.recreate(path, compression=uproot.ZLIB(0)) as file:
        file.mkrntuple("events", muons(1234))
    content = path.read_bytes()
    # A number of four bytes, and then where the page is; those of eight are of the cluster.
    damaged, found = re.subn(rb"\xd2\x04\0\0(?!\0\0\0\0)", b"\xd2\x04\0\x80", content)
    assert found == 4
    assert check(path, content)
    assert not check(path, damaged)


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_more_rows_than_bytes(new: Callable[..., Any], tmp_path: Path) -> None:
    """A record batch that says it has a hundred times its events would show what lies behind."""
    path = tmp_path / "fuzz.arrow"
    table = pa.table({"x": np.arange(4321.0)})
    with new(path, table.schema) as writer:
        writer.write_table(table)
    content = path.read_bytes()
    # Once for the batch, once for its column.
    damaged = content.replace(struct.pack("<q", 4321), struct.pack("<q", 432_100))
    assert len(re.findall(struct.pack("<q", 4321), content)) == 2
    assert check(path, content)
    assert not check(path, damaged)


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    """Cut short, bytes changed, pieces overwritten; what was whole before is read."""
    path = WRITERS[name](tmp_path, muons(40))
    whole = path.read_bytes()
    path = path.with_stem("fuzz")
    assert check(path, whole)
    place = st.integers(0, len(whole) - 1)
    change = st.tuples(place, st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 8]))

    @fuzz
    @given(st.lists(change, max_size=5), st.none() | place)
    def run(changes: list[tuple[int, bytes]], end: int | None) -> None:
        content = bytearray(whole)
        for at, new in changes:
            content[at : at + len(new)] = new
        check(path, bytes(content[:end]))

    run()
