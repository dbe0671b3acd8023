"""Write docs/results/performance.md from the JSON lines of runs.

`python -m gofstream_studies.benchmarks.report FILE...` does.

From what `make bench` prints, all of it. From the files of benchmarks that are run by name, only
their own sections, between marks: the rest of the page stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gofstream_studies.benchmarks import plan, rank, roofline, scale
from gofstream_studies.benchmarks.growth import OUT as PICTURES
from gofstream_studies.benchmarks.points import Lines, read_lines
from gofstream_studies.repository import RESULTS

OUT = RESULTS / "performance.md"
TEXT = Path(__file__).with_name("performance.md.in")

#: Sections by the first word of the lines that they are written from.
SECTIONS: dict[str, Callable[[Lines], str]] = {
    "rank": rank.section,
    "plan": plan.section,
    "at_scale": roofline.section,
    "scale": scale.section,
}

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


def filled(page: str, sections: Mapping[str, str]) -> str:
    """Put sections into a page, each between its marks.

    Examples
    --------
    >>> print(filled("<!-- begin x -->old<!-- end x -->", {"x": "new, "}))
    <!-- begin x -->
    new, <!-- end x -->
    """
    for name, text in sections.items():
        before, begin, rest = page.partition(f"<!-- begin {name} -->")
        _, end, after = rest.partition(f"<!-- end {name} -->")
        if not (begin and end):
            raise ValueError(f"the page has no marks for {name!r}")
        page = f"{before}{begin}\n{text}{end}{after}"
    return page


def whole(lines: Lines) -> str:
    """Write what `make bench` measured; sections of other runs are still empty."""
    return TEXT.read_text(encoding="utf-8").format(
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
    )


def main(paths: list[Path], out: Path = OUT, pictures: Path = PICTURES) -> None:
    """Read the lines, write the page: all of it, or the sections that the lines are of."""
    lines = read_lines(paths)
    roofline.draw(lines, pictures)
    if "farm.overhead" in lines:
        page, wanted = whole(lines), list(SECTIONS)
    else:
        page = out.read_text(encoding="utf-8")
        wanted = [each for each in SECTIONS if any(name.startswith(f"{each}.") for name in lines)]
    out.write_text(filled(page, {name: SECTIONS[name](lines) for name in wanted}), encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
