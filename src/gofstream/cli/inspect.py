"""`gofstream inspect`: what is in a file that gofstream wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gofstream.cli.data import as_json
from gofstream.errors import FormatError
from gofstream.inference.null import describe_null
from gofstream.ratio.model import LogRatio
from gofstream.report.record import Record
from gofstream.report.text import summary

_SQLITE = b"SQLite format 3\0"


@click.command(epilog="Example: gofstream inspect gofstream-test/result.json --validate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--validate", is_flag=True, help="Only check that the file is whole and valid.")
@as_json
def inspect(file: Path, validate: bool, as_json: bool) -> None:
    """Tell what is in a result, a null file or a model."""
    with file.open("rb") as opened:
        start = opened.read(16)
    kind, text, content = _content(file, start)
    if validate:
        click.echo(f"{file}: a {kind}, whole")
    elif as_json:
        click.echo(json.dumps(content))
    else:
        click.echo(text)


def _content(file: Path, start: bytes) -> tuple[str, str, Any]:
    if start == _SQLITE:
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
