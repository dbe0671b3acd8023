"""Packed batches: refused by what they say they unpack to, before anything is unpacked."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs import Run
from tests.serving import TOKEN, serving
from tests.test_serve import LARGEST, PARQUET, STREAM, parquet, post

from gofstream.serve.arrow import arrow_sizes
from gofstream.serve.inbox import RefusedError, check_content
from gofstream.serve.parquet import column_chunks, page_sizes

FILE = "application/vnd.apache.arrow.file"


def zeros(rows: int = 15_000_000) -> pa.Table:
    """Make a column that packs well; 120 MB unless told."""
    return pa.table({"x": np.zeros(rows)})


def packed(
    content: pa.Table, codec: str | None, make: Callable[..., Any] = pa.ipc.new_stream
) -> bytes:
    """Write Arrow, in one batch or few."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with make(sink, content.schema, options=options) as writer:
        writer.write_table(content)
    return sink.getvalue()


def with_words() -> pa.Table:
    """Make a small column of numbers, and a dictionary of large words that nobody wants."""
    words = pa.array(["w" * 10_000_000] * 20).dictionary_encode()
    return pa.table({"x": np.arange(20.0), "words": words})


def many_times(body: bytes, times: int) -> bytes:
    """Let the footer of an Arrow file name its one batch so many times."""
    end = len(body) - 10
    length = struct.unpack_from("<i", body, end)[0]
    start = end - length
    footer = bytearray(body[start:end])
    # Footer: a table; the list of batches is its field 3.
    table = struct.unpack_from("<I", footer)[0]
    fields = table - struct.unpack_from("<i", footer, table)[0]
    place = table + struct.unpack_from("<H", footer, fields + 10)[0]
    batches = place + struct.unpack_from("<I", footer, place)[0]
    block = bytes(footer[batches + 4 : batches + 28])
    # The longer list stands at the end, where lists begin at a multiple of eight.
    footer += bytes(-(len(footer) + 4) % 8)
    struct.pack_into("<I", footer, place, len(footer) - place)
    footer += struct.pack("<I", times) + block * times
    return body[:start] + bytes(footer) + struct.pack("<i", len(footer)) + b"ARROW1"


def peak(process: int) -> float:
    """Give the most memory that a process ever had, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(one for one in status.splitlines() if one.startswith("VmHWM")).split()[1]) / 1e3


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("make", [pa.ipc.new_stream, pa.ipc.new_file])
def test_sizes_are_those_of_what_is_unpacked(
    tmp_path: Path, codec: str | None, make: Callable[..., Any]
) -> None:
    """Against the buffers as Arrow unpacks them, batch by batch."""
    rng = np.random.default_rng(1)
    x = pa.array(rng.normal(size=5000), mask=rng.random(5000) < 0.1)
    table = pa.table({"x": x, "y": np.zeros(5000, np.int16), "s": [str(i) for i in range(5000)]})
    path = tmp_path / "a.arrow"
    with make(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=1000)
    wanted = [
        sum(len(buffer) for column in batch.columns for buffer in column.buffers() if buffer)
        for batch in (pa.ipc.open_stream if make is pa.ipc.new_stream else _batches)(path)
    ]
    found = [size for size in arrow_sizes(path) if size]
    assert len(found) == len(wanted) == 5
    # Buffers are written in multiples of eight bytes.
    assert found == pytest.approx(wanted, rel=0.02)


def _batches(path: Path) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(path)
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    """Hundreds of MB in some kB, in every packed format; the server's memory does not grow."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "inbox").mkdir()
    with Run(tmp_path / "run.gofs") as run:
        run.add(1)
    many = io.BytesIO()
    pq.write_table(zeros(), many, compression="gzip", use_dictionary=False)
    bombs = {
        "zstd": (STREAM, packed(zeros(), "zstd")),
        "zstd, file": (FILE, packed(zeros(), "zstd", pa.ipc.new_file)),
        "words": (STREAM, packed(with_words(), "zstd")),
        "Parquet, gzip": (PARQUET, many.getvalue()),
        "Parquet, dictionary": (PARQUET, parquet(zeros())),
    }
    options = ("--token-file", str(tmp_path / "token"), "--inbox", str(tmp_path / "inbox"))
    with serving(tmp_path / "run.gofs", *options, "--largest", "400kB") as server:
        assert server.process.pid is not None
        # What reads these formats comes into memory with the first batch.
        good = pa.table({"x": np.arange(1000.0)})
        assert post(server, "a", packed(good, "zstd"), STREAM).status == 202
        assert post(server, "b", parquet(good), PARQUET).status == 202
        before = peak(server.process.pid)
        for kind, body in bombs.values():
            assert len(body) < 400_000
            answer = post(server, "bomb", body, kind)
            assert answer.status == 400
            assert "it unpacks to" in answer.json["error"]
        assert peak(server.process.pid) - before < 50


def test_a_batch_that_is_named_many_times_is_refused(tmp_path: Path) -> None:
    """The sum counts, however small the file."""
    body = packed(zeros(10_000), "zstd", pa.ipc.new_file)
    path = tmp_path / "a.arrow"
    path.write_bytes(many_times(body, 1))
    check_content(path, "Arrow", LARGEST)
    path.write_bytes(many_times(body, 5000))
    assert path.stat().st_size < LARGEST
    with pytest.raises(RefusedError, match="it unpacks to"):
        check_content(path, "Arrow", LARGEST)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_sizes_of_pages_are_those_of_the_footer(codec: str, version: str) -> None:
    """The footer, which counts headers too, of a chunk of any kind of column."""
    rng = np.random.default_rng(1)
    count = 30_000
    table = pa.table(
        {
            "zeros": np.zeros(count),
            "noise": rng.normal(size=count),
            "few": rng.integers(0, 9, count),
            "words": [str(i) for i in range(count)],
            "lists": [[1.0] * (i % 4) for i in range(count)],
            "yes": rng.random(count) < 0.5,
            "gaps": pa.array(rng.normal(size=count), mask=rng.random(count) < 0.1),
        }
    )
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=codec,
        data_page_version=version,
        row_group_size=20_000,
        write_page_checksum=True,
    )
    content = sink.getvalue()
    footer = pq.read_metadata(io.BytesIO(content))
    assert (footer.num_row_groups, footer.num_columns) == (2, 7)
    start = len(content) - 8 - footer.serialized_size
    told = column_chunks(content[start:-8])
    for group in (footer.row_group(0), footer.row_group(1)):
        for chunk in (group.column(j) for j in range(7)):
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            sizes = list(page_sizes(content[first : first + chunk.total_compressed_size]))
            wanted = chunk.total_uncompressed_size
            assert next(told)[6] == wanted
            assert sizes
            assert wanted - 150 * len(sizes) < sum(sizes) < wanted


def understated(rows: int) -> bytes:
    """Write zeros as Parquet whose footer speaks of hundred rows, in 800 bytes."""
    sink = io.BytesIO()
    pq.write_table(
        zeros(rows),
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        row_group_size=rows,
    )
    body = sink.getvalue()
    chunk = pq.read_metadata(io.BytesIO(body)).row_group(0).column(0)
    start = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    footer = body[start:-8]
    for number, instead in ((chunk.total_uncompressed_size, 800), (rows, 100)):
        there = thrift(number)
        assert there in footer
        footer = footer.replace(there, thrift(instead, len(there)))
    return body[:start] + footer + body[-8:]


def thrift(number: int, length: int = 0) -> bytes:
    """Write a number as Thrift does, in so many bytes at least."""
    number, found = 2 * number, bytearray()
    while number > 127 or len(found) + 1 < length:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_a_footer_that_understates_its_pages_is_not_believed(tmp_path: Path) -> None:
    """120 MB in pages, and a footer that speaks of 800 bytes."""
    path = tmp_path / "a.parquet"
    path.write_bytes(understated(15_000_000))
    assert path.stat().st_size < LARGEST
    footer = pq.read_metadata(path)
    assert (footer.num_rows, footer.row_group(0).column(0).total_uncompressed_size) == (100, 800)
    with pytest.raises(RefusedError, match="it unpacks to 120,"):
        check_content(path, "Parquet", LARGEST)


def test_a_promise_that_is_too_small_is_an_error(tmp_path: Path) -> None:
    """Arrow unpacks no more than was promised, so that nobody can promise little."""
    body = packed(zeros(30_000), "zstd")
    place = body.index(struct.pack("<q", 240_000))
    path = tmp_path / "a.arrow"
    for promise in (8, -2, 1 << 62, -(1 << 63)):
        path.write_bytes(body[:place] + struct.pack("<q", promise) + body[place + 8 :])
        with pytest.raises(RefusedError):
            check_content(path, "Arrow", LARGEST)


def test_damaged_headers_are_errors(tmp_path: Path) -> None:
    """Whatever byte is changed: a refusal, or sizes; nothing else."""
    rng = np.random.default_rng(7)
    path = tmp_path / "a"
    table = pa.table({"x": np.arange(50.0), "y": np.arange(50)})
    bodies = [
        ("Arrow", packed(table, "lz4")),
        ("Arrow", packed(table, "lz4", pa.ipc.new_file)),
        ("Parquet", parquet(table)),
    ]
    for kind, body in bodies:
        # The end of a Parquet file is what everything else is found by.
        first = len(body) - 900 if kind == "Parquet" else 0
        for place in rng.choice(range(first, len(body)), 400, replace=False):
            changed = bytearray(body)
            changed[place] ^= 1 << rng.integers(8)
            path.write_bytes(changed)
            with suppress(RefusedError):
                check_content(path, kind, LARGEST)
