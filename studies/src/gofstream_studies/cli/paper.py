"""`gofstream paper`: the figures and tables of the paper, one command each."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import click
from rich.console import Console

from gofstream.cli.progress import blocks_bar, duration
from gofstream.execution import dask_workers, thread_workers
from gofstream_studies.paper.catalogue import EXPERIMENTS, experiment
from gofstream_studies.paper.claims import Claim
from gofstream_studies.paper.experiment import Context, carry_out

#: Claims shown one by one in the terminal; more than these are counted, and all are in the JSON.
SHOWN = 12


@click.command(epilog="Example: gofstream paper expo1d-all --quick --out paper")
@click.argument("name")
@click.option("--quick/--full", default=True, help="Small samples, or those of the paper.")
@click.option(
    "--toys",
    type=click.IntRange(min=20),
    help="Pseudo-experiments without signal; those with signal keep their proportion.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("paper"),
    show_default=True,
    help="Folder for pictures and numbers. Toys are kept there too, and used again.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores.")
@click.option(
    "--dask", metavar="WHERE", help="A scheduler's address, 'local', 'slurm' or 'htcondor'."
)
def paper(
    name: str,
    quick: bool,
    toys: int | None,
    out: Path,
    seed: int,
    threads: int | None,
    dask: str | None,
) -> None:
    """Run one experiment of the paper, or list them.

    NAME is `list`, `all`, or one of the experiments listed. Each writes PNG, PDF and a JSON with
    every number and the verdict on every claim. A run that was stopped goes on from where it was.
    """
    console = Console()
    if name == "list":
        click.echo(_listing())
        return
    chosen = list(EXPERIMENTS.values()) if name == "all" else [experiment(name)]

    def bars(what: str) -> AbstractContextManager[Callable[[int, int], None]]:
        return blocks_bar(console, what)

    workers = dask_workers(dask) if dask else thread_workers(threads)
    begun = time.perf_counter()
    with workers as executor:
        context = Context(
            full=not quick, toys=toys, out=out, seed=seed, executor=executor, bars=bars
        )
        for item in chosen:
            console.rule(f"{item.name}: {item.paper}")
            outcome, paths = carry_out(item, context)
            if outcome.text:
                console.print(outcome.text, highlight=False, soft_wrap=True)
            _show_claims(console, list(outcome.claims))
            console.print("written: " + ", ".join(map(str, paths)), highlight=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - begun:.0f} s in all", highlight=False)


def _show_claims(console: Console, claims: list[Claim]) -> None:
    for claim in claims[:SHOWN]:
        console.print(
            f"  {claim.verdict:>13}  {claim.name}: {claim.value:.2f} "
            f"({claim.low:.2f} to {claim.high:.2f})",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if len(claims) > SHOWN:
        console.print(f"  … and {len(claims) - SHOWN} more claims in the JSON", highlight=False)


def _listing() -> str:
    """Write what there is; experiments that share their toys cost them once."""
    lines = ["Experiments of the paper: gofstream paper NAME [--full] (time on two cores)"]
    for item in EXPERIMENTS.values():
        cost = f"{duration(60 * item.quick)}, full {duration(60 * item.full)}"
        lines += ["", f"{item.name}  ({cost})", f"    {item.paper}", f"    {item.shows}"]
    lines += ["", "Those of one data set share their toys: the first one pays."]
    return "\n".join(lines)
