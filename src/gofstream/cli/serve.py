"""`gofstream serve`: the page of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from gofstream.cli.options import Size, periodic_option
from gofstream.errors import InputError, missing_extra
from gofstream.io import read
from gofstream.sample import Sample
from gofstream.stream.reader import Reader


@click.command(epilog="Example: gofstream serve run.gofs --inbox inbox --token-file token")
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; other machines are let in with a token only.",
)
@click.option("--known-as", multiple=True, metavar="NAME", help="Another name of this server.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token that acknowledging and sending batches take.",
)
@click.option(
    "--inbox",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder that `gofstream watch` watches; batches that are sent go there.",
)
@click.option("--largest", type=Size(), default="256MB", show_default=True, help="Size of a batch.")
@click.option(
    "--waiting",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Batches that may wait in the inbox.",
)
@click.option("--reference", metavar="FILE", help="The reference, to show the learnt ratio on it.")
@click.option("--weight", metavar="COLUMN", help="Event weights of the reference.")
@periodic_option
@click.option("--log", type=click.Choice(["lines", "json"]), default="lines", show_default=True)
def serve(
    store: Path,
    port: int,
    host: str,
    known_as: tuple[str, ...],
    token_file: Path | None,
    inbox: Path | None,
    largest: int,
    waiting: int,
    reference: str | None,
    weight: str | None,
    periodic: Mapping[str, float],
    log: Literal["lines", "json"],
) -> None:
    """Show a run on a page that keeps itself up to date.

    STORE is the file of the run, which another process may be writing. The page takes nothing
    from the network and works offline.
    """
    try:
        from gofstream.serve.app import Server, plotly_script
        from gofstream.serve.feed import Feed
        from gofstream.serve.guard import Access
        from gofstream.serve.inbox import Inbox
        from gofstream.serve.run import listen, write_log
        from gofstream.serve.run import serve as answer
    except ImportError as error:
        raise missing_extra(str(error.name), "serve") from error
    plotly_script()
    token = token_file.read_text(encoding="utf-8").strip() if token_file else None
    access = Access(host, frozenset(name.lower() for name in known_as), token)
    box = Inbox(inbox, largest, waiting) if inbox else None
    known = _reference(store, reference, weight, periodic) if reference else None
    write_log(log)
    with listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"{store} is shown at http://{shown}:{listening.getsockname()[1]}/")
        answer(
            lambda: Server(Feed(store, inbox, known), access, box),
            listening,
        )


def _reference(store: Path, path: str, weight: str | None, periodic: Mapping[str, float]) -> Sample:
    """Read the reference, and see that it is the one of the run."""
    with Reader(store) as reader:
        about = reader.about()
    sample = read(path, columns=about.get("columns"), weight=weight, periodic=periodic).sample
    if (digest := sample.digest()) != about.get("reference"):
        raise InputError(
            f"{path} is not the reference of {store}: its digest is {digest[:12]}, that of the run "
            f"{str(about.get('reference'))[:12]}; give the same file, --weight and --periodic, or "
            "leave --reference out"
        )
    return sample
