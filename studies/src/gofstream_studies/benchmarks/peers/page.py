"""Write docs/results/peers.md from what the tests said.

`python -m gofstream_studies.benchmarks.peers.page FILE...` does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gofstream.cli.progress import duration
from gofstream.inference.combine import combined_p
from gofstream.inference.power import Difference, Power, power
from gofstream.report.plots import BLACK, BLUE, ORANGE
from gofstream_studies.bench.cases import LABELS
from gofstream_studies.benchmarks.peers.tasks import NULL, SIGNALS
from gofstream_studies.benchmarks.points import Lines, read_lines
from gofstream_studies.paper.compare import difference, powers_redrawn, redraw
from gofstream_studies.repository import RESULTS

Floats = NDArray[np.float64]

OUT = RESULTS
TEXT = Path(__file__).with_name("peers.md.in")

#: The rate of false alarms at which tests are compared.
LEVEL = 0.05
#: Toys without a signal, and with each, that a page needs.
LEAST = 100, 20
#: Our default verdict: the smaller p of `all`, over its five widths, and the scan.
OURS = "all + scan"
#: What tests are called on the page.
NAMES = {
    OURS: "**gofstream**",
    "all": "of it, `all` alone",
    "scan": "of it, the scan alone",
    "count": "the number of events alone",
    "logistic": "classifier: logistic regression",
    "trees": "classifier: boosted trees",
    "mmd": "MMD",
    "energy": "energy distance",
    "network": "NPLM with a neural network",
}
#: Tests of the shape alone: they are shown with the number of events beside it, too.
SHAPE_ONLY = ("logistic", "trees", "mmd", "energy")
COUNTED = " + count"
#: Tests made of others, whose numbers they put together.
JOINED = {OURS: ("all", "scan")} | {test + COUNTED: (test, "count") for test in SHAPE_ONLY}
#: Tests whose numbers are in files.
MEASURED = [test for test in NAMES if test not in JOINED]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What all tests said of one task.

    Attributes
    ----------
    t : by test and stream, (toys, K).
    seconds : for each data set, by test: the median over chunks.
    prepared : seconds once, by test.
    columns : how many numbers each part of a test has, if it is made of others.
    """

    task: str
    t: Mapping[str, Mapping[str, Floats]]
    seconds: Mapping[str, float]
    prepared: Mapping[str, float]
    columns: Mapping[str, Sequence[int]]

    @property
    def signals(self) -> list[str]:
        """Names of the signals."""
        return [stream for stream in self.t[OURS] if stream != NULL]

    def p_values(self, test: str, signal: str) -> Floats:
        """P of every signal toy by its rank among the null toys; several numbers by smallest p."""
        null, found = self.t[test][NULL], self.t[test][signal]
        columns = self.columns.get(test, ())
        return np.array([combined_p(t, null, columns=columns) for t in found])

    def power(self, test: str, signal: str) -> Power:
        """Share of signal toys that are seen at the level, with its interval."""
        return power(self.p_values(test, signal), LEVEL)

    def beyond_ours(self, test: str, signal: str) -> Difference:
        """Power of a test minus ours on the same toys, with its 95 % interval."""
        draws = redraw(len(self.t[OURS][NULL]))
        theirs, ours = (
            powers_redrawn(
                self.t[each][NULL], self.t[each][signal], draws, LEVEL, self.columns.get(each, ())
            )
            for each in (test, OURS)
        )
        p = self.p_values(test, signal), self.p_values(OURS, signal)
        return difference(*p, theirs - ours, LEVEL)


def gather(lines: Lines, task: str, least: tuple[int, int] = LEAST) -> Found | None:
    """Put together what was said of one task: the toys that all tests have taken.

    Parameters
    ----------
    least : toys without a signal, and with each; nothing comes of fewer.
    """
    chunks = [line for line in lines.values() if line.get("shape", {}).get("task") == task]
    of = {test: [line for line in chunks if line["shape"]["test"] == test] for test in MEASURED}
    t = {
        test: {stream: _joined(mine, stream) for stream in (NULL, *SIGNALS[task])}
        for test, mine in of.items()
    }
    null = min(len(streams[NULL]) for streams in t.values())
    each = min(len(streams[signal]) for streams in t.values() for signal in SIGNALS[task])
    if null < least[0] or each < least[1]:
        return None
    t = {
        test: {
            stream: values[: null if stream == NULL else each] for stream, values in streams.items()
        }
        for test, streams in t.items()
    }
    seconds = {
        test: float(np.median([line["seconds"] / line["shape"]["count"] for line in mine]))
        for test, mine in of.items()
    }
    prepared = {
        test: next(line["prepared"] for line in mine if line["prepared"] is not None)
        for test, mine in of.items()
    }
    columns = {test: [t[part][NULL].shape[1] for part in parts] for test, parts in JOINED.items()}
    for test, parts in JOINED.items():
        t[test] = {stream: np.hstack([t[part][stream] for part in parts]) for stream in t[parts[0]]}
        for times in (seconds, prepared):
            times[test] = sum(times[part] for part in parts)
    return Found(task, t, seconds, prepared, columns)


def _joined(chunks: Sequence[dict[str, Any]], stream: str) -> Floats:
    """Join the chunks of a stream, in the order of its toys."""
    mine = {
        line["shape"]["first"]: line["t"] for line in chunks if line["shape"]["stream"] == stream
    }
    return np.array([row for first in sorted(mine) for row in mine[first]], dtype=np.float64)


def section(found: Found | None, task: str) -> str:
    """Write tables and words of one task, or that it has not been run."""
    if found is None:
        return (
            f"*Not run yet.* `python -m gofstream_studies.benchmarks peers-{task}` runs it and "
            "`python -m gofstream_studies.benchmarks.peers.page` writes powers, times and the "
            "words on them here; no number exists before.\n"
        )
    toys = len(found.t[OURS][NULL]), len(found.t[OURS][found.signals[0]])
    text = (
        f"{toys[0]} toys without and {toys[1]} with each signal. Power at {100 * LEVEL:.0f} % "
        "false alarms, with 95 % intervals (Clopper and Pearson):\n\n"
        f"| test | {' | '.join(found.signals)} |\n|---|{'---|' * len(found.signals)}\n"
    )
    for test in shown():
        cells = [found.power(test, signal) for signal in found.signals]
        row = " | ".join(f"{p.value:.2f} ({p.low:.2f} to {p.high:.2f})" for p in cells)
        text += f"| {label(test)} | {row} |\n"
    text += "\nTime on one core, all tests in turns on the same toys:\n\n"
    text += "| test | a data set | over ours | once, beforehand |\n|---|---|---|---|\n"
    for test in NAMES:
        share = found.seconds[test] / found.seconds[OURS]
        text += (
            f"| {label(test)} | {duration(found.seconds[test])} | {share:.2g} "
            f"| {duration(found.prepared[test])} |\n"
        )
    return f"{text}\n![power of all tests](peers-{task}.png)\n\n{words(found)}"


def words(found: Found) -> str:
    """Say who wins where, as the intervals have it."""
    lines, level, ahead = [], [], []
    for signal in found.signals:
        seen = found.power(OURS, signal).value
        beyond = {test: found.beyond_ours(test, signal) for test in peers()}
        winners = [test for test, gain in beyond.items() if gain.low > 0]
        if winners:
            said = "; ".join(
                f"{label(test)} sees {found.power(test, signal).value:.2f}, {_gain(beyond[test])}"
                for test in sorted(winners, key=lambda test: -beyond[test].value)
            )
            lines.append(f"- **A peer wins on {signal}**, where ours sees {seen:.2f}: {said}.")
        elif all(gain.high < 0 for gain in beyond.values()):
            ahead.append(signal)
        else:
            level.append(signal)
    if ahead:
        lines.append(f"- Ours is certainly better than every peer on {', '.join(ahead)}.")
    if level:
        lines.append(
            "- No peer is certainly better than ours, nor ours than all of them, on "
            f"{', '.join(level)}."
        )
    quicker = [
        test for test in peers() if test in NAMES and found.seconds[test] < found.seconds[OURS]
    ]
    if quicker:
        lines.append(f"- Quicker than ours: {', '.join(label(test) for test in quicker)}.")
    return "\n".join(lines) + "\n"


def _gain(gain: Difference) -> str:
    return f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})".replace("-", "−")


def shown() -> list[str]:
    """List all tests in the order of the page, those of the shape also with the count."""
    return [each for test in NAMES for each in (test, *([test + COUNTED] * (test in SHAPE_ONLY)))]


def peers() -> list[str]:
    """List what is neither ours nor a part of it."""
    return [test for test in shown() if test not in (OURS, *JOINED[OURS])]


def label(test: str) -> str:
    """Call a test by its name on the page."""
    name = NAMES[test.removesuffix(COUNTED)]
    return f"{name}, and the number of events" if test.endswith(COUNTED) else name


def draw(found: Found) -> Figure:
    """Draw the power of every test for every signal, with intervals; ours in colour."""
    tests, signals = shown()[::-1], found.signals
    down = 1 if len(signals) <= 5 else 2
    across = -(-len(signals) // down)
    figure = Figure(figsize=(3.2 + 2.3 * across, 0.9 + 2.9 * down), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, signal in zip(grid, signals, strict=False):
        ours = found.power(OURS, signal)
        axes.axvspan(ours.low, ours.high, color=BLUE, alpha=0.12, lw=0)
        axes.axvline(LEVEL, color="0.6", lw=1, ls=":")
        for row, test in enumerate(tests):
            seen = found.power(test, signal)
            colour = ORANGE if test.endswith(COUNTED) else BLACK if test in peers() else BLUE
            axes.plot([seen.low, seen.high], [row, row], color=colour, lw=1.5)
            axes.plot(seen.value, row, "o", color=colour, ms=4)
        axes.set_title(signal, fontsize=10)
        axes.set_xlim(-0.02, 1.02)
        axes.set_yticks(range(len(tests)), [_plain(test) for test in tests], fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
    for axes in grid[len(signals) :]:
        axes.set_visible(False)
    figure.supxlabel(f"power at {100 * LEVEL:.0f} % false alarms (dotted)", fontsize=10)
    figure.suptitle(f"{LABELS[found.task]}: the same toys for every test", fontsize=11)
    return figure


def _plain(test: str) -> str:
    return label(test).replace("*", "").replace("`", "").replace("the number of events", "count")


def main(paths: list[Path], out: Path = OUT) -> None:
    """Read the lines, write the page and its pictures."""
    lines, parts = read_lines(paths), {}
    for task in SIGNALS:
        found = gather(lines, task)
        parts[task] = section(found, task)
        if found is not None:
            draw(found).savefig(out / f"peers-{task}.png", dpi=110)
    (out / "peers.md").write_text(TEXT.read_text(encoding="utf-8").format(**parts))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
