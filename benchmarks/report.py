"""Write docs/performance.md from the JSON lines of runs: `python -m benchmarks.report FILE...`.

One file has what `make bench` prints; others, those of benchmarks that are run by name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import roofline
from benchmarks.growth import OUT as PICTURES
from benchmarks.points import Lines, read_lines

OUT = Path(__file__).parents[1] / "docs" / "performance.md"
TEXT = Path(__file__).with_name("performance.md.in")

EXPO, DIMUON = ("0.1", "0.3", "0.7", "1.4", "3.0"), ("0.8", "1.9", "3.0", "4.4", "6.6")

HEAD = (
    "| width | textbook: time, passes | rank r | our passes | our fit, in a block of 32 | "
    "times faster | alone, times faster | preparing, in textbook fits | share of GEMM | "
    "t over textbook |\n|---|---|---|---|---|---|---|---|---|---|\n"
)


def speed(lines: Lines, problem: str, widths: tuple[str, ...]) -> str:
    """Make the table of one problem."""
    rows = HEAD
    for width in widths:
        base, block, alone, once, share = (
            lines[f"{problem}.{name}.sigma={width}"]
            for name in (
                "textbook",
                "fit.block32.vs_textbook",
                "fit.alone.vs_textbook",
                "prepare",
                "fit.block32.gemm_fraction",
            )
        )
        detail = block["detail"]
        rows += (
            f"| {width} | {base['value']:.1f} s, {base['detail']['passes']} | {detail['rank']} "
            f"| {detail['passes']:.1f} | {1e3 * detail['seconds_per_fit']:.1f} ms "
            f"| **{block['value']:.0f}** | {alone['value']:.0f} | {once['value']:.2f} "
            f"| {share['value']:.2f} | {detail['t_over_textbook']:.4f} |\n"
        )
    return rows


def reduction(lines: Lines) -> str:
    """Make the table of t against the tolerance."""
    rows = ""
    for problem, label, used, widths in (
        ("expo1d", "EXPO-1D", 0, ("0.1", "0.7", "3.0")),
        ("dimuon5d", "DIMUON-5D", 3, ("1.9", "4.4", "6.6")),
    ):
        for width in widths:
            detail = lines[f"{problem}.reduction.sigma={width}"]["detail"]
            cells = [
                f"{t:.4f} (r = {r})"
                for t, r in zip(detail["t_over_finest"], detail["rank"], strict=True)
            ]
            cells[used] = f"**{cells[used]}**"
            rows += f"| {label} {width} | {' | '.join(cells)} |\n"
    return rows


def growth(lines: Lines) -> str:
    """Make the table of exponents."""
    labels = {
        "reference": "reference events N_R",
        "batch": "events per batch",
        "rank": "features r",
        "fits": "fits in a block T (time of the block)",
        "batches": "batches N_b in the statistic `all` (each adds a model and a batch)",
    }
    return "".join(
        f"| {label} | {lines[f'growth.{name}']['value']:.2f} "
        f"| ![time against {label}](performance/growth-{name}.png) |\n"
        for name, label in labels.items()
    )


def main(paths: list[Path], out: Path = OUT, pictures: Path = PICTURES) -> None:
    """Read the lines, write the page."""
    lines = read_lines(paths)
    roofline.draw(lines, pictures)
    out.write_text(
        TEXT.read_text().format(
            cpu=lines["machine.gemm_peak"]["detail"]["cpu"],
            gemm=lines["machine.gemm_peak"]["value"],
            gemv=lines["machine.gemv_bandwidth"]["value"],
            expo=speed(lines, "expo1d", EXPO),
            dimuon=speed(lines, "dimuon5d", DIMUON),
            reduction=reduction(lines),
            overhead=lines["farm.overhead"]["value"],
            scaling=lines["farm.scaling"]["value"],
            plain=lines["machine.scaling"]["value"],
            dask=lines["farm.dask_vs_threads"]["value"],
            growth=growth(lines),
            scale=roofline.section(lines),
        )
    )


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
