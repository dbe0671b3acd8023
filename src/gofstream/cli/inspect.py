"""`gofstream inspect`: what is in a file that gofstream wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gofstream.cli.options import as_json
from gofstream.errors import FormatError
from gofstream.inference.null import describe_null
from gofstream.ratio.model import LogRatio
from gofstream.report.record import Record
from gofstream.report.run import standing
from gofstream.report.text import summary
from gofstream.stream.reader import Reader
from gofstream.stream.schema import APPLICATION_ID
from gofstream.stream.status import run_status
from gofstream.stream.verify import verify

_SQLITE = b"SQLite format 3\0"
#: Where an SQLite file says whose it is.
_APPLICATION = slice(68, 72)


@click.command(epilog="Example: gofstream inspect gofstream-test/result.json --validate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--validate", is_flag=True, help="Only check that the file is whole and valid.")
@as_json
def inspect(file: Path, validate: bool, as_json: bool) -> None:
    """Tell what is in a result, a null file, a model or the store of a run."""
    with file.open("rb") as opened:
        start = opened.read(100)
    kind, text, content = _content(file, start, validate)
    if validate:
        click.echo(f"{file}: a {kind}, whole")
    elif as_json:
        click.echo(json.dumps(content))
    else:
        click.echo(text)


def _content(file: Path, start: bytes, validate: bool) -> tuple[str, str, Any]:
    if start.startswith(_SQLITE) and start[_APPLICATION] == APPLICATION_ID.to_bytes(4, "big"):
        with Reader(file) as reader, reader.snapshot():
            if validate:
                verify(reader)
            about, status = reader.about(), run_status(reader)
        lines = [f"{key}: {json.dumps(value)}" for key, value in about.items()]
        return "store of a run", "\n".join([*lines, standing(status)]), about | status.to_json()
    if start.startswith(_SQLITE):
        about = describe_null(file)
        lines = [f"{key}: {json.dumps(value)}" for key, value in about.items()]
        return "null file", "\n".join(lines), about
    if start.lstrip()[:1] == b"{":
        record = Record.load(file)
        return "result", summary(record), record.model_dump(mode="json")
    try:
        model = LogRatio.from_bytes(file.read_bytes())
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from error
    about = {
        "width": model.width,
        "centres": len(model.centres),
        "columns": list(model.scaling.columns),
        "penalty": model.penalty,
        "expected": model.expected,
        "converged": model.converged,
        "reference": model.reference,
        "settings": model.settings.model_dump(mode="json"),
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in about.items()]
    return "model", "\n".join(lines), about
