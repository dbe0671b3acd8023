"""How much the scan adds: power of the default verdicts beside the paper's `all`, and where.

`python -m gofstream_studies.benchmarks.reach expo1d --full` makes the toys of the paper's
experiment, in the largest number of batches and with the scan, and compares on them. It may be
stopped at any time; the same command goes on. Given the folder of a gallery as --out, it uses the
toys there, and adds the scan.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from gofstream.cli.progress import blocks_bar
from gofstream.datasets import expo1d as expo_data
from gofstream.execution import process_workers
from gofstream.files import write_whole
from gofstream.inference.null import NullFile, describe_null
from gofstream.inference.power import Difference, power
from gofstream.inference.result import VERDICTS
from gofstream.inference.study import PowerStudy
from gofstream.settings import preset
from gofstream_studies.benchmarks import location
from gofstream_studies.benchmarks.location import HIGH, five_signals, scanned
from gofstream_studies.benchmarks.machine import emit
from gofstream_studies.datasets import dimuon5d as dimuon_data
from gofstream_studies.paper import cmsl1, dimuon5d, expo1d
from gofstream_studies.paper.compare import LEVEL, difference, powers_redrawn, redraw
from gofstream_studies.paper.experiment import Context, strict
from gofstream_studies.repository import RESULTS

Floats = NDArray[np.float64]
Names = tuple[str, ...]

#: What is compared: the default verdicts, what they are made of, and the paper's recipe.
TESTS: tuple[Names, ...] = (*VERDICTS, ("all",), ("sat",), ("next",), ("sat", "next"), ("scan",))
#: Each default verdict, and what it replaces.
PAIRS: tuple[tuple[Names, Names], ...] = ((VERDICTS[0], ("all",)), (VERDICTS[1], ("sat", "next")))
#: Candidate centres of DIMUON-5D, for all numbers of batches; the paper's 10 000 take hours more.
CENTRES = 3000
#: Toys of DIMUON-5D without and with each signal: the paper's 300 cannot show two sigma for two
#: strategies of five widths each, which resolve p no finer than 10 / 301.
TOYS = (1000, 100)
#: Where toys of the paper's figures are kept.
GALLERY = RESULTS / "gallery" / "toys"
#: A default verdict may lose this much power, and not more.
MARGIN = 0.05


def label(names: Names) -> str:
    """Write the name of a test."""
    return " + ".join(names)


@dataclass(frozen=True, slots=True)
class Gain:
    """Power of a verdict minus that of what it replaces, on the same toys.

    Attributes
    ----------
    difference : with a 95 % interval, for the signal toys and for the null toys.
    """

    signal: str
    verdict: str
    instead_of: str
    difference: Difference

    @property
    def in_sd(self) -> float:
        """The difference in standard deviations of itself."""
        half = (self.difference.high - self.difference.low) / 2
        return self.difference.value / (half / 1.96) if half > 0 else 0.0

    @property
    def not_inferior(self) -> bool:
        """Whether the whole interval is above the margin."""
        return self.difference.low > -MARGIN


def gains(study: PowerStudy[str]) -> list[Gain]:
    """Compare verdicts with what they replace, for every signal."""
    draws = redraw(len(study.null.t))

    def redrawn(names: Names, signal: str) -> Floats:
        null, found = (
            [table.statistic(name) for name in names]
            for table in (study.null, study.signals[signal])
        )
        columns = [part.shape[1] for part in null]
        return powers_redrawn(np.hstack(null), np.hstack(found), draws, columns=columns)

    return [
        Gain(
            signal,
            label(first),
            label(second),
            difference(
                study.p_values(first, signal),
                study.p_values(second, signal),
                redrawn(first, signal) - redrawn(second, signal),
            ),
        )
        for signal in study.signals
        for first, second in PAIRS
    ]


def table(study: PowerStudy[str], ideal: Mapping[str, float]) -> list[dict[str, Any]]:
    """Give the power of every test for every signal, at two and three sigma, and its median Z.

    Parameters
    ----------
    ideal : median Z of the ideal test, where it is known.
    """
    rows = []
    for signal in study.signals:
        for names in TESTS:
            p = study.p_values(names, signal)
            z = study.median_z(names, signal)
            rows.append(
                {
                    "signal": signal,
                    "test": label(names),
                    "power at 2 sigma": asdict(power(p, LEVEL)),
                    "power at 3 sigma": asdict(power(p, HIGH)),
                    "median Z": asdict(z),
                    "median Z of the ideal test": ideal.get(signal),
                }
            )
    return rows


def report(name: str, study: PowerStudy[str], ideal: Mapping[str, float], out: Path) -> None:
    """Print a line for every comparison, and write everything."""
    found = gains(study)
    for gain in found:
        emit(
            f"reach.{name}.{gain.signal}.{gain.verdict}",
            gain.difference.value,
            f"power at 2 sigma beyond {gain.instead_of}",
            low=gain.difference.low,
            high=gain.difference.high,
            sd=round(gain.in_sd, 2),
            not_inferior=gain.not_inferior,
        )
    content = {
        "null_toys": len(study.null.t),
        "signal_toys": {signal: len(made.t) for signal, made in study.signals.items()},
        "powers": table(study, ideal),
        "gains": [
            asdict(gain) | {"sd": gain.in_sd, "not_inferior": gain.not_inferior} for gain in found
        ],
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"reach-{name}.json"
    write_whole(path, json.dumps(strict(content), indent=1, allow_nan=False) + "\n")


def run_expo1d(context: Context) -> None:
    """Compare on EXPO-1D: five signals, 8 batches."""
    rng, splits = np.random.default_rng(context.seed), five_signals(context)
    ideal = {
        name: expo_data.ideal_median_z(signal, splits.expected, n_toys=4000, rng=rng).median_z
        for name, signal in expo1d.strengths(context).items()
        if name in splits.alternatives
    }
    report("expo1d", scanned(splits, context), ideal, context.out)


def run_dimuon5d(context: Context) -> None:
    """Compare on DIMUON-5D: three masses of a Z' and two contact terms, 4 batches."""
    rng = np.random.default_rng(context.seed)
    expected = preset("dimuon5d").expected
    ideal = {
        b.name: dimuon_data.ideal_median_z(b, expected, n_toys=4000, rng=rng).median_z
        for b in (dimuon_data.BENCHMARKS.values() if context.full else ())
    }
    splits = dimuon5d.splits(context)
    if context.full:
        splits = replace(
            splits,
            name=f"dimuon5d-{CENTRES}",
            toys=splits.toys if context.toys else TOYS,
            settings={n: each.changed(n_centres=CENTRES) for n, each in splits.settings.items()},
        )
    report("dimuon5d", scanned(splits, context), ideal, context.out)


def run_cmsl1(context: Context) -> None:
    """Compare on CMS-L1-24D: four signals at two strengths, 5 batches; no ideal test is known."""
    folder = cmsl1.made(context)
    for ending, size in (cmsl1.LARGE if context.full else cmsl1.SMALL).items():
        found = scanned(cmsl1.splits(context, ending, size, folder), context)
        report("-".join(filter(None, ("cmsl1", ending))), found, {}, context.out)


def run_cmsl1_kept(context: Context) -> None:
    """Compare on the toys of CMS-L1-24D that the gallery keeps: no event has to be made."""
    for ending in cmsl1.LARGE:
        name = "-".join(filter(None, ("cmsl1", ending)))
        report(name, kept_study(GALLERY / f"{name}-full-seed1" / "5-batches"), {}, context.out)


def kept_study(folder: Path) -> PowerStudy[str]:
    """Read toys that were made before, all there are."""
    tables = {}
    for path in sorted(folder.glob("*.null")):
        about = describe_null(path)
        toys = about.pop("toys")
        tables[path.stem.removeprefix("signal-")] = NullFile(path, about).load(toys)
    return PowerStudy(tables.pop("null"), tables)


RUNS: Mapping[str, Callable[[Context], None]] = {
    "expo1d": run_expo1d,
    "dimuon5d": run_dimuon5d,
    "cmsl1": run_cmsl1,
    "cmsl1-kept": run_cmsl1_kept,
    "location": location.run,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m gofstream_studies.benchmarks.reach", description=__doc__
    )
    parser.add_argument("data", nargs="+", choices=[*RUNS])
    parser.add_argument("--full", action="store_true", help="the paper's sizes: hours")
    parser.add_argument("--toys", type=int, help="of the nominal model; signals in proportion")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="default: out/reach, or out/reach-quick")
    options = parser.parse_args(arguments)
    out = options.out or Path("out/reach" if options.full else "out/reach-quick")
    console = Console(stderr=True)
    with process_workers() as executor:
        context = Context(
            options.full,
            options.toys,
            out,
            options.seed,
            executor,
            lambda what: blocks_bar(console, what),
        )
        for name in options.data:
            RUNS[name](context)


if __name__ == "__main__":
    main()
