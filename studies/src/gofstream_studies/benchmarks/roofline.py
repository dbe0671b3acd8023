"""What `at_scale` measured: exponents, pictures of growth and memory, and the roofline.

Flops are those of the passes over the reference. A product of two numbers and its addition are two;
an exponential counts as 20, about what the polynomial behind it takes in double precision. For each
reference event, a pass costs

* for each centre, if rows are made: 2 (D + 2) for the exponent and 20 for the exponential, once for
  the whole block;
* for each fit: 4 for each centre, the two products, and 26 for e^f, the division and the sums.

Bytes are those that have to come from memory in a pass: 4 for each centre if rows are stored in
single precision, 8 for each column if they are made. The time is that of the whole fits, with all
the work on their own data, which is not counted: it shows as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gofstream.cli.progress import amount
from gofstream.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY
from gofstream_studies.bench.cases import LABELS, PAPER
from gofstream_studies.bench.machine import exponent
from gofstream_studies.benchmarks.at_scale import laws_of

Line = dict[str, Any]

#: Flops that an exponential counts as, and what a pass does to each f beside the products.
EXPONENTIAL, SIGMOID = 20, 26

#: Flops per byte that the roofline shows.
RANGE = (0.12, 1e5)
#: What each law varies, and how a line tells it.
VARIED: dict[str, tuple[str, Callable[[Line], float]]] = {
    "reference": ("reference events N_R", lambda line: line["shape"]["n_reference"]),
    "candidates": ("candidate centres M", lambda line: line["shape"]["candidates"]),
    "rank": ("centres kept r", lambda line: line["rank"]),
    "fits": ("fits in a block T (time of the block)", lambda line: line["shape"]["fits"]),
    "dimensions": ("dimensions D", lambda line: line["shape"]["dims"]),
}


def flops(line: Line) -> float:
    """Count the flops of a block, as this module says."""
    shape, rank = line["shape"], line["rank"]
    events, passes = shape["n_reference"], line["passes"]
    counted = events * (4 * rank + SIGMOID) * sum(passes)
    if line["rows"] == "made":
        counted += events * rank * (2 * (shape["dims"] + 2) + EXPONENTIAL) * max(passes)
    return float(counted)


def moved(line: Line) -> float:
    """Count the bytes that come from memory."""
    shape = line["shape"]
    each = 4 * line["rank"] if line["rows"] == "stored" else 8 * shape["dims"]
    return float(shape["n_reference"] * each * max(line["passes"]))


def time_of(law: str, line: Line) -> float:
    """Give the time of a fit in its block, or of the block where its fits are varied."""
    whole = float(line["block_seconds"])
    return whole if law == "fits" else whole / float(line["shape"]["fits"])


def exponents(law: str, lines: Sequence[Line]) -> dict[str, float]:
    """Fit the exponents of a law: over all points, of a pass, and between the last two points.

    The last one is the hardest to please, as fixed costs have gone by then.
    """
    _, size = VARIED[law]
    sizes = [size(line) for line in lines]
    times = [time_of(law, line) for line in lines]
    passes = [float(np.mean(line["passes"])) for line in lines]
    return {
        "fit": exponent(sizes, times),
        "pass": exponent(sizes, [t / n for t, n in zip(times, passes, strict=True)]),
        "last": exponent(sizes[-2:], times[-2:]),
    }


def section(lines: dict[str, Line]) -> str:
    """Write the section of the page, or that not all of it has been measured."""
    laws = laws_of(lines)
    if laws is None:
        return (
            "*Not measured yet on this machine.* `python -m gofstream_studies.benchmarks "
            "at_scale` measures it, and `python -m gofstream_studies.benchmarks.report` writes "
            "the exponents, pictures and roofline here; no number of this section exists before.\n"
        )
    return _words(laws)


def draw(lines: dict[str, Line], pictures: Path) -> None:
    """Draw all pictures of the section, if all has been measured."""
    laws = laws_of(lines)
    if laws is None:
        return
    pictures.mkdir(parents=True, exist_ok=True)
    figures = {f"scale-{law}": draw_law(law, laws[law]) for law in VARIED}
    figures |= {"scale-memory": draw_memory(laws["budget"]), "roofline": draw_roofline(laws)}
    for name, figure in figures.items():
        figure.savefig(pictures / f"{name}.png", dpi=110)


def _words(laws: dict[str, list[Line]]) -> str:
    rows = ""
    for law, (label, size) in VARIED.items():
        found = exponents(law, laws[law])
        sizes = [size(line) for line in laws[law]]
        rows += (
            f"| {label} | {_about(sizes[0])} to {_about(sizes[-1])} | {found['fit']:.2f} "
            f"| {found['pass']:.2f} | {found['last']:.2f} "
            f"| ![time against {label}](performance/scale-{law}.png) |\n"
        )
    n_r = exponents("reference", laws["reference"])
    worst = max(n_r.values())
    share = [line["taken"] / line["shape"]["memory"] for line in laws["budget"]]
    taken = ", ".join(
        f"{part:.2f} at {amount(line['shape']['n_reference'])} ({line['rows']})"
        for line, part in zip(laws["budget"], share, strict=True)
    )
    verdict = "is met" if worst <= 1.05 else "is **not** met"
    kept = "stays within" if max(share) <= 1 else "**exceeds**"
    cases = "".join(_case_row(line) for line in laws["case"])
    return (
        "Exponents of the time of a fit, fitted over the range; *pass* for one pass of it, *last* "
        "between the last two points, where fixed costs have gone.\n\n"
        "| against | range | fit | pass | last | |\n|---|---|---|---|---|---|\n"
        f"{rows}\n"
        f"For N_R an exponent of at most 1.05 was wanted: that {verdict} "
        f"({n_r['fit']:.2f}, {n_r['pass']:.2f}, {n_r['last']:.2f}).\n\n"
        "Memory, with the budget fixed and rows stored or made as it has it, as a share of the "
        f"budget: {taken}. It {kept} the budget.\n\n"
        "![memory against N_R](performance/scale-memory.png)\n\n"
        "### The roofline\n\n"
        "![flop/s against flop per byte](performance/roofline.png)\n\n"
        "| case | fits in a block | rank | rows | flop/byte | Gflop/s | of the roof "
        "| seconds per fit | paper's GPU |\n|---|---|---|---|---|---|---|---|---|\n"
        f"{cases}\n"
        "CMS-L1-24D has a tenth of the paper's N_R here, M = 3000 and batches of 2000 events; at "
        "its full size it is timed by `python -m gofstream_studies.benchmarks scale`.\n"
    )


def _case_row(line: Line) -> str:
    shape = line["shape"]
    name, (intensity, rate) = shape["case"], _place(line)
    least, most = PAPER[name]
    return (
        f"| {LABELS[name]}, width {line['width']:g}, N_R = {amount(shape['n_reference'])} "
        f"| {shape['fits']} | {line['rank']} | {line['rows']} "
        f"| {intensity:.1f} | {rate:.1f} | {rate / roof(line):.2f} "
        f"| {time_of('case', line):.3g} | {least:g}-{most:g} s |\n"
    )


def roof(line: Line) -> float:
    """Gflop/s that the machine could do at this intensity, by the yardsticks beside the point."""
    peak = line["gflops32"] if line["rows"] == "stored" else line["gflops64"]
    return float(min(peak, line["bandwidth"] * _place(line)[0]))


def draw_law(law: str, lines: Sequence[Line]) -> Figure:
    """Draw time against what is varied, with the fitted power of it."""
    label, size = VARIED[law]
    sizes = np.array([size(line) for line in lines], dtype=float)
    times = np.array([time_of(law, line) for line in lines])
    slope = exponent(sizes.tolist(), times.tolist())
    level = np.exp(np.mean(np.log(times) - slope * np.log(sizes)))
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        sizes, times, "o", color=BLUE, label="the block" if law == "fits" else "a fit in the block"
    )
    line = np.geomspace(sizes.min(), sizes.max(), 50)
    axes.plot(line, level * line**slope, color=ORANGE, label=f"exponent {slope:.2f}")
    if law == "candidates":
        once = [each["reduce_seconds"] for each in lines]
        axes.plot(sizes, once, "s--", color=GREEN, ms=5, label="choosing centres, once")
    _log_log(axes, label, "seconds")
    axes.set_xticks(sizes, [_about(value) for value in sizes])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=9)
    return figure


def draw_memory(lines: Sequence[Line]) -> Figure:
    """Draw what was taken of memory against N_R, beside the budget and what stored rows need."""
    sizes = [line["shape"]["n_reference"] for line in lines]
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    need = [4 * line["shape"]["n_reference"] * line["rank"] / 1e9 for line in lines]
    axes.plot(sizes, need, ":", color="0.5", label="all rows, stored")
    axes.axhline(lines[0]["shape"]["memory"] / 1e9, color=ORANGE, label="the budget")
    for rows, marker in (("stored", "s"), ("made", "o")):
        here = [line for line in lines if line["rows"] == rows]
        axes.plot(
            [line["shape"]["n_reference"] for line in here],
            [line["taken"] / 1e9 for line in here],
            marker,
            color=BLUE,
            label=f"taken, rows {rows}",
        )
    _log_log(axes, "reference events N_R", "GB")
    axes.legend(frameon=False, fontsize=9)
    return figure


def draw_roofline(laws: dict[str, list[Line]]) -> Figure:
    """Draw flop/s against flop per byte: the machine's roof, the laws in T, and the cases."""
    every = [line for lines in laws.values() for line in lines]
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    intensity = np.geomspace(*RANGE, 200)
    bandwidth = float(np.median([line["bandwidth"] for line in every]))
    for name, style in (("gflops32", "-"), ("gflops64", "--")):
        peak = float(np.median([line[name] for line in every]))
        axes.plot(intensity, np.minimum(peak, bandwidth * intensity), style, color=BLACK, lw=1.3)
        axes.text(
            intensity[-1], peak * 1.06, f"float{name[-2:]} products, {peak:.0f} Gflop/s", ha="right"
        )
    axes.annotate(f"memory,\n{bandwidth:.0f} GB/s", (0.9, 0.9 * bandwidth), (0.15, 0.9 * bandwidth))
    for law, colour, label in (
        ("fits-stored", SKY, "rows stored, T from 1 to 64 (r = 300, D = 5)"),
        ("fits", GREEN, "rows made, T from 1 to 64 (r = 300, D = 5)"),
    ):
        places = [_place(line) for line in laws[law]]
        axes.plot(*zip(*places, strict=True), "o-", color=colour, ms=4, label=label)
    for line in laws["case"]:
        x, y = _place(line)
        shape = line["shape"]
        axes.plot(x, y, "D", color=ORANGE, ms=6)
        axes.annotate(
            f"{LABELS[shape['case']]} {line['width']:g}, T = {shape['fits']}",
            (x, y),
            textcoords="offset points",
            xytext=(7, -3),
            fontsize=7,
        )
    _log_log(axes, "flop per byte from memory", "Gflop/s, on one core")
    axes.set_xlim(*RANGE)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def _about(value: float) -> str:
    """Write a number with two digits."""
    return amount(float(f"{value:.2g}"))


def _place(line: Line) -> tuple[float, float]:
    """Where a line sits: flop per byte, and Gflop/s."""
    return flops(line) / moved(line), flops(line) / line["block_seconds"] / 1e9


def _log_log(axes: Axes, across: str, up: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3, lw=0.5)
