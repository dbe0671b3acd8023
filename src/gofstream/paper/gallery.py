"""A page of all experiments: `python -m gofstream.paper.gallery FROM TO COMMIT`.

COMMIT is the one that the results in FROM were made with. Pictures and numbers are copied to the
folder TO, and TO.md is written beside it: what each shows, the verdicts on its claims, and what to
type for the same.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from gofstream.paper.catalogue import EXPERIMENTS
from gofstream.paper.claims import Claim, tally
from gofstream.paper.experiment import Experiment

#: Claims that are listed one by one; of more, those with all widths combined.
LISTED = 12


def page(results: Path, to: Path, commit: str) -> str:
    """Write the page, and copy what it shows."""
    to.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Gallery\n\nExperiments of the paper as `gofstream paper` made it here. Numbers are "
        "in the JSON beside each picture; [how to read the verdicts](paper.md).\n"
    ]
    for experiment in EXPERIMENTS.values():
        source = results / f"{experiment.name}.json"
        if source.exists():
            shutil.copy(source, to)
            record = json.loads(source.read_text())
            pictures = sorted(results.glob(f"{experiment.name}*.png"))
            mine = [path for path in pictures if _belongs(path.stem, experiment.name)]
            for picture in mine:
                shutil.copy(picture, to)
            names = [f"{to.name}/{path.name}" for path in mine]
            parts.append(_section(experiment, record, names, commit))
    missing = [name for name in EXPERIMENTS if not (results / f"{name}.json").exists()]
    if missing:
        parts.append(f"Not run for this page: {', '.join(missing)}.\n")
    text = "\n".join(parts)
    to.with_suffix(".md").write_text(text)
    return text


def _belongs(stem: str, name: str) -> bool:
    """Tell whether a picture is that of an experiment, and not of one with a longer name."""
    owners = [other for other in EXPERIMENTS if stem.startswith(other)]
    return max(owners, key=len) == name


def _section(
    experiment: Experiment, record: dict[str, Any], pictures: list[str], commit: str
) -> str:
    claims = [Claim(**claim) for claim in record["claims"]]
    combined = [claim for claim in claims if "smallest p" in claim.name] or claims
    minutes = record["seconds"] / 60
    toys = record["numbers"].get("null_toys")
    with_toys = f", {toys} toys without signal" if toys else ""
    lines = [
        f"## {experiment.name}\n",
        f"{experiment.paper}: {experiment.shows}.",
        f"Claims: {tally(combined)}." if claims else "",
        f"`{record['command']}`, commit {commit}{with_toys}, {minutes:.1f} min; "
        f"[numbers]({pictures[0].split('/')[0]}/{experiment.name}.json)\n",
        *(f"![{experiment.shows}]({picture})\n" for picture in pictures),
    ]
    if claims:
        lines += ["| claim | verdict | value | 95 % interval |", "|---|---|---|---|"]
        shown = claims if len(claims) <= LISTED else combined
        lines += [
            f"| {claim.name} | {claim.verdict} | {_number(claim.value)} | "
            f"{_number(claim.low)} to {_number(claim.high)} |"
            for claim in shown
        ]
    return "\n".join(line for line in lines if line) + "\n"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    page(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
