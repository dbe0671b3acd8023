"""`make validate`: run the cases, print and write what was found, draw p-values."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console

from gofstream.cli.progress import blocks_bar
from gofstream.datasets import expo1d
from gofstream.execution import process_workers
from gofstream.settings import Settings, preset
from gofstream.toys.plan import ReferencePlan
from gofstream_studies.validation.alarms import Alarms, StreamSize, measure
from gofstream_studies.validation.cases import (
    Size,
    five_columns,
    made_data,
    made_table,
    permutation_ranks,
    plan_for,
    table_from_training_rows,
)
from gofstream_studies.validation.checks import (
    FAMILY_LEVEL,
    Check,
    Table,
    against_table,
    holm,
    own_tables,
)
from gofstream_studies.validation.evidence import EvidenceSize, checks
from gofstream_studies.validation.picture import Case, draw, draw_alarms
from gofstream_studies.validation.weighted import SIZE as WEIGHTED
from gofstream_studies.validation.weighted import checks as weighted_checks
from gofstream_studies.validation.wrong import leave_one_out, smallest_p_raw

EXPO = Size(n_reference=200_000, expected=16_000, batches=8, toys=1000, sets=1000)
ANALYTIC = Size(n_reference=10_000, expected=1_000, batches=4, toys=1000, sets=300)
PERMUTATION = Size(n_reference=20_000, expected=2_000, batches=2, toys=99, sets=200)
SMALL_REFERENCE = Size(n_reference=20_000, expected=16_000, batches=8, toys=1000, sets=1000)
STREAMS = StreamSize()
EXPO_DRAW, EXPO_SETTINGS = expo1d.reference, preset("expo1d").settings
EVIDENCE = EvidenceSize()
CASES = ("expo1d", "analytic", "permutation", "training-rows", "streams", "evidence", "weighted")


class Validation:
    """One seed: its families of checks, and the curves for the picture."""

    def __init__(self, seed: int, folder: Path, executor: Executor, console: Console) -> None:
        self.seed, self.executor, self.console = seed, executor, console
        self.folder = folder / f"seed-{seed}"
        self.families: dict[str, list[Check]] = {}
        self.curves: dict[str, Case] = {}
        self.alarms: Alarms | None = None

    def streams(self) -> None:
        """Run the case of streams; looking with p ≤ α after every batch must fail."""
        with self._case("streams") as (folder, bar):
            self.alarms = measure(STREAMS, self.seed, folder, self.executor, bar)
        self._judge("streams", self.alarms.checks())
        naive = self.alarms.false_alarms(self.alarms.naive)
        self._judge("wrong: p ≤ α at every look", [naive])

    def evidence(self) -> None:
        """Run the case of the scan's e-value; at face value it must fail with too few rows."""
        with self._case("evidence") as (folder, bar):
            for name, found in checks(EVIDENCE, self.seed, folder, self.executor, bar).items():
                self._judge(name, found)

    def weighted(self) -> None:
        """Run weighted pools and references; rows drawn so that heavy ones run out must fail."""
        with self._case("weighted") as (folder, bar):
            families = weighted_checks(WEIGHTED, self.seed, folder, self.executor, bar)
        for name, found in families.items():
            self._judge(name, found)
            for check in found:
                self.console.print(f"    {check.what}: {check.found}", highlight=False)

    def expo1d(self) -> None:
        """Run EXPO-1D; with the smallest p quoted raw, or ranks left out, it must fail."""
        plan = plan_for(EXPO_DRAW, EXPO_SETTINGS, EXPO, self.seed)
        table, data = self._against_table("EXPO-1D", plan, EXPO)
        self._judge("wrong: smallest p raw", against_table(table, data, smallest_p_raw))
        self._judge("wrong: leave-one-out ranks", against_table(table, data, leave_one_out))

    def analytic(self) -> None:
        """Run the analytic sample in five dimensions."""
        five = Settings(n_centres=1000, width_quantiles=(0.25, 0.5, 0.75))
        plan = plan_for(five_columns, five, ANALYTIC, self.seed)
        self._against_table("analytic 5-D", plan, ANALYTIC)

    def permutation(self) -> None:
        """Run permuted labels; each data set has a table of its own."""
        size, two = PERMUTATION, Settings(widths=(0.3, 1.4))
        with self._case("permutation") as (folder, bar):
            ranks = permutation_ranks(EXPO_DRAW, two, size, self.seed, folder, self.executor, bar)
        self._judge("permutation", own_tables(ranks, size.toys))
        p = {
            what.split(",")[0]: rank / (size.toys + 1)
            for what, rank in ranks.items()
            if ", min over" in what or what == "scan"
        }
        self.curves["permutation"] = Case(p, np.inf)

    def training_rows(self) -> None:
        """Run EXPO-1D with toys drawn from the rows of a small reference, which must fail."""
        plan = plan_for(EXPO_DRAW, EXPO_SETTINGS, SMALL_REFERENCE, self.seed)
        with self._case("small reference") as (folder, bar):
            data = made_data(plan, SMALL_REFERENCE, folder, self.executor, bar)
            table = table_from_training_rows(plan, SMALL_REFERENCE, folder, self.executor, bar)
        self._judge("wrong: toys from training rows", against_table(table, data))

    def _against_table(self, name: str, plan: ReferencePlan, size: Size) -> tuple[Table, Table]:
        """Judge data sets by a table of toys; give t of both."""
        with self._case(name) as (folder, bar):
            table = made_table(plan, size, folder, self.executor, bar)
            data = made_data(plan, size, folder, self.executor, bar)
        self._judge(name, against_table(table, data))
        self.curves[name] = Case.of(table, data)
        return table, data

    @contextmanager
    def _case(self, name: str) -> Iterator[tuple[Path, Callable[[int, int], None]]]:
        """Give a folder and a progress bar, and say how long it took."""
        begun = time.perf_counter()
        with blocks_bar(self.console, f"seed {self.seed}, {name}") as bar:
            yield self.folder / name.replace(" ", "-"), bar
        took = time.perf_counter() - begun
        self.console.print(f"seed {self.seed}, {name}: {took:.0f} s", highlight=False)

    def _judge(self, name: str, checks: list[Check]) -> None:
        self.families[name] = checks
        adjusted = holm(checks)
        worst = int(np.argmin(adjusted))
        self.console.print(
            f"  {name}: {len(checks)} checks, smallest adjusted p = {adjusted[worst]:.2g} "
            f"({checks[worst].what}: {checks[worst].found}): "
            + ("fails" if adjusted[worst] < FAMILY_LEVEL else "passes"),
            highlight=False,
            soft_wrap=True,
        )

    def as_expected(self) -> bool:
        """Tell whether right versions pass and wrong ones fail."""
        return all(
            (min(holm(checks)) < FAMILY_LEVEL) == name.startswith("wrong")
            for name, checks in self.families.items()
        )


def main() -> int:
    """Run and report; the exit code says whether all is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("out/validation"))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    options = parser.parse_args()
    console = Console()
    done = []
    with process_workers() as executor:
        for seed in options.seeds:
            validation = Validation(seed, options.out, executor, console)
            for case in options.cases:
                getattr(validation, case.replace("-", "_"))()
            done.append(validation)
            _write(done, options.out)
    good = all(validation.as_expected() for validation in done)
    console.print(f"written: {options.out}/validation.json and pictures")
    console.print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


def _write(done: list[Validation], folder: Path) -> None:
    content = {
        f"seed {v.seed}": {
            name: [
                {"what": c.what, "found": c.found, "p": c.p, "adjusted": a}
                for c, a in zip(checks, holm(checks), strict=True)
            ]
            for name, checks in v.families.items()
        }
        for v in done
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gofstream_studies.validation.json").write_text(json.dumps(content, indent=1) + "\n")
    if done[0].curves:
        draw({v.seed: v.curves for v in done}).savefig(folder / "uniformity.png", dpi=110)
    alarms = {v.seed: v.alarms for v in done if v.alarms is not None}
    if alarms:
        summaries = {f"seed {seed}": found.summary() for seed, found in alarms.items()}
        (folder / "alarms.json").write_text(json.dumps(summaries, indent=1) + "\n")
        draw_alarms(alarms).savefig(folder / "alarms.png", dpi=110)


if __name__ == "__main__":
    sys.exit(main())
