"""One experiment: how it is run, and what it leaves behind."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gofstream.files import write_whole
from gofstream.version import __version__
from gofstream_studies.paper.claims import Claim

#: Called with what is being done; gives a function to call with (done, total).
Bars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, slots=True)
class Context:
    """What the user chose.

    Attributes
    ----------
    full : the paper's sizes, instead of the quick version's.
    toys : pseudo-experiments of the nominal model, if not as many as the version has.
    out : folder for results; toys are kept below it, and used again.
    seed : of everything random.
    executor : runs toys.
    bars : shows progress.
    """

    full: bool
    toys: int | None
    out: Path
    seed: int
    executor: Executor
    bars: Bars

    def count(self, quick: tuple[int, int], full: tuple[int, int]) -> tuple[int, int]:
        """How many toys without and with signal: chosen ones keep the proportion."""
        null, signal = full if self.full else quick
        if self.toys is None:
            return null, signal
        return self.toys, max(10, round(self.toys * signal / null))

    def command(self, name: str) -> str:
        """Say what to type for the same numbers."""
        size = "--full" if self.full else "--quick"
        toys = "" if self.toys is None else f" --toys {self.toys}"
        return f"gofstream paper {name} {size}{toys} --seed {self.seed}"

    def folder(self, study: str) -> Path:
        """Where the toys of a study are kept."""
        size = "full" if self.full else "quick"
        return self.out / "toys" / f"{study}-{size}-seed{self.seed}"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    figures : by the ending of their names; "" for the only or the main one.
    numbers : everything drawn, and more, fit for JSON.
    claims : verdicts on what the paper states.
    text : tables for the terminal, if any.
    """

    figures: Mapping[str, Figure]
    numbers: Mapping[str, Any]
    claims: Sequence[Claim] = field(default=())
    text: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One or more figures or tables of the paper.

    Attributes
    ----------
    name : what to type.
    paper : which figures and tables, or which statement in the text.
    shows : in one sentence.
    quick, full : minutes on two cores.
    run : makes it.
    """

    name: str
    paper: str
    shows: str
    quick: float
    full: float
    run: Callable[[Context], Outcome]


def carry_out(experiment: Experiment, context: Context) -> tuple[Outcome, list[Path]]:
    """Run an experiment, and write its PNG, PDF and JSON."""
    begun = time.perf_counter()
    outcome = experiment.run(context)
    context.out.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, figure in outcome.figures.items():
        stem = "-".join(filter(None, (experiment.name, ending)))
        for form in ("png", "pdf"):
            # A PDF without a date is the same file for the same numbers.
            metadata = {"CreationDate": None} if form == "pdf" else None
            path = context.out / f"{stem}.{form}"
            figure.savefig(path, dpi=130, metadata=metadata)
            figure.set_layout_engine("none")  # what fitted once is not fitted again
            paths.append(path)
    path = context.out / f"{experiment.name}.json"
    record = {
        "experiment": experiment.name,
        "paper": experiment.paper,
        "command": context.command(experiment.name),
        "size": "full" if context.full else "quick",
        "seed": context.seed,
        "version": __version__,
        "seconds": round(time.perf_counter() - begun, 1),
        "claims": [asdict(claim) for claim in outcome.claims],
        "numbers": outcome.numbers,
    }
    write_whole(path, json.dumps(strict(record), indent=1, allow_nan=False) + "\n")
    return outcome, [*paths, path]


def strict(content: Any) -> Any:
    """Put null where JSON has no number: a Z without bound, for one."""
    if isinstance(content, Mapping):
        return {key: strict(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [strict(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
