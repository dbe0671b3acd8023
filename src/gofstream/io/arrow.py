"""Parquet, Arrow and CSV, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.io.table import Column, Piece, Table, check_unique

if TYPE_CHECKING:
    import pyarrow as pa

_FLOAT64 = np.dtype(np.float64)
_BLOCK = 1 << 20
#: Arrow's names of types where numpy has others; `to_pandas_dtype` needs pandas before pyarrow 26.
_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}
#: How an Arrow stream begins; and how one ends that was closed.
STREAM = b"\xff\xff\xff\xff"
_END = STREAM + b"\0\0\0\0"


def open_parquet(path: Path, stack: ExitStack, tree: str | None = None) -> Table:
    """Open a Parquet file; its top-level columns are the columns."""
    import pyarrow.parquet as pq

    # Buffered, page by page: otherwise all of a row group comes into memory at once.
    file = stack.enter_context(pq.ParquetFile(path, buffer_size=_BLOCK, pre_buffer=False))
    schema = file.schema_arrow
    check_unique(schema.names, path)
    columns = dict(zip(schema.names, map(_column, schema.types), strict=True))

    def pieces(names: Sequence[str], rows: int) -> Iterator[Piece]:
        for batch in file.iter_batches(batch_size=rows, columns=list(names), use_threads=False):
            yield _arrays(batch, names, columns)

    return Table(columns, file.metadata.num_rows, pieces, notes=schema.metadata or {})


def open_ipc(path: Path, stack: ExitStack, tree: str | None = None) -> Table:
    """Open Arrow's own format, as a file or as a stream; a record batch comes whole."""
    import pyarrow as pa
    from pyarrow import ipc

    # Read and not mapped: when somebody cuts a file that is mapped, the process dies.
    file = stack.enter_context(pa.OSFile(str(path), "rb"))
    size = file.size()
    is_stream = file.read(len(STREAM)) == STREAM
    file.seek(max(size - len(_END), 0))
    if is_stream and file.read() != _END:
        # Cut between two record batches it would pass for a shorter one.
        raise InputError(f"{path}: the Arrow stream has no end; it is cut short: write it again")

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        file.seek(0)
        options = ipc.IpcReadOptions(included_fields=[schema.names.index(name) for name in names])
        if is_stream:
            yield from ipc.open_stream(file, options=options)
        else:
            reader = ipc.open_file(file, options=options)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    file.seek(0)
    schema = (ipc.open_stream(file) if is_stream else ipc.open_file(file)).schema
    check_unique(schema.names, path)
    columns = dict(zip(schema.names, map(_column, schema.types), strict=True))

    def pieces(names: Sequence[str], rows: int) -> Iterator[Piece]:
        for batch in batches(names):
            # The reader believes what the file says of its buffers.
            batch.validate(full=True)
            for start in range(0, batch.num_rows, rows):
                yield _arrays(batch.slice(start, rows), names, columns)

    estimate = size // (8 * max(len(columns), 1))
    return Table(columns, estimate, pieces, counted=False, notes=schema.metadata or {})


def open_csv(path: Path, stack: ExitStack, tree: str | None = None) -> Table:
    """Open a CSV file with a header; all its numbers are read as float64.

    Types are those of the first block. Whole numbers there say little about what comes later, so
    they are not taken for integers.
    """
    import pyarrow as pa
    from pyarrow import csv

    with csv.open_csv(path) as reader:
        schema = reader.schema
        first = next(iter(reader), None)
    _check_header(schema.names, path)
    columns = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        number = pa.types.is_null(kind) or _is_number(kind)
        columns[name] = Column(str(kind), _FLOAT64 if number else None)
    yes_no = {
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if pa.types.is_boolean(kind)
    }
    rows = 0 if first is None else first.num_rows
    size = path.stat().st_size

    def pieces(names: Sequence[str], rows: int) -> Iterator[Piece]:
        # Written out, a number takes about as many bytes as in memory, give or take a factor two.
        block = min(max(rows * len(columns) * 8, 1 << 16), 8 * _BLOCK)
        convert = csv.ConvertOptions(
            column_types={name: pa.bool_() if name in yes_no else pa.float64() for name in names},
            include_columns=list(names),
        )
        read = csv.ReadOptions(block_size=block, use_threads=False)
        with csv.open_csv(path, read_options=read, convert_options=convert) as reader:
            for batch in reader:
                yield _arrays(batch, names, columns)

    return Table(columns, rows * max(size // _BLOCK, 1), pieces, counted=False)


def _arrays(batch: pa.RecordBatch, names: Sequence[str], columns: dict[str, Column]) -> Piece:
    return {name: _numbers(batch.column(name), columns[name]) for name in names}


def _numbers(array: pa.Array[Any], column: Column) -> NDArray[Any]:
    """Give numbers of the type announced; float64, with NaN, where integers are missing."""
    import pyarrow as pa

    if array.null_count or column.dtype == _FLOAT64:
        array = array.cast(pa.float64(), safe=False)
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _column(kind: pa.DataType) -> Column:
    import pyarrow as pa

    name = str(kind)
    dtype = np.dtype(_NAMES.get(name, name)) if _is_number(kind) else None
    return Column(name, dtype, nested=pa.types.is_nested(kind))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _check_header(names: Sequence[str], path: Path) -> None:
    check_unique(names, path)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InputError(
            f"{path}: the first line is {names[0]!r}, one column without a comma; separate columns "
            "by commas"
        )
    if all(map(_is_numeral, names)):
        raise InputError(
            f"{path}: the first line holds numbers, not names of columns; put a line with the "
            "names at the top"
        )


def _is_numeral(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
