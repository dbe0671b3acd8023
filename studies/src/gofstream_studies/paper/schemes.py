"""The two schematic figures, redrawn as diagrams."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gofstream.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY
from gofstream_studies.paper.experiment import Context, Outcome

DATA, MODEL, TEST = ORANGE, "#CC79A7", GREEN


def schemes(context: Context) -> Outcome:
    """Figures scheme-1 and scheme-2: one fit, and the strategies by what is stored."""
    return Outcome({"fit": one_fit(), "strategies": strategies()}, {})


def one_fit() -> Figure:
    """Draw reference and data, the learnt ratio, and the statistic."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = _canvas(figure, 9, 3.2)
    _box(axes, 0.2, 1.9, 1.9, 0.9, "reference R\nweights w", SKY)
    _box(axes, 0.2, 0.4, 1.9, 0.9, "data D", DATA)
    _box(axes, 3.2, 1.0, 2.5, 1.2, "kernel model\nf(x) = log n(x|D) / n(x|R)", MODEL)
    _box(axes, 6.8, 1.0, 2.0, 1.2, "t = 2 [ Σ w (1 - e$^f$)\n+ Σ f ]", TEST)
    _arrow(axes, (2.15, 2.35), (3.15, 1.8))
    _arrow(axes, (2.15, 0.85), (3.15, 1.4))
    _arrow(axes, (5.75, 1.6), (6.75, 1.6))
    axes.text(4.45, 2.45, "learnt from R and D", ha="center", fontsize=9)
    axes.text(7.8, 2.45, "evaluated on R and D", ha="center", fontsize=9)
    return figure


def strategies() -> Figure:
    """Draw what `all`, `one`, `sat` and `next` keep."""
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    columns = {
        "all": ("every batch and model kept", (True, True, True)),
        "one": ("all models, one batch", (True, False, False)),
        "sat": ("models only", (False, False, False)),
        "next": ("models only; each batch is scored\nby those before it, then dropped", None),
    }
    for axes, (name, (words, kept)) in zip(figure.subplots(1, 4), columns.items(), strict=True):
        _canvas_on(axes, 3.2, 4.6)
        axes.set_title(f"{name}: {words}", fontsize=10)
        for i in range(3):
            y = 3.5 - 1.1 * i
            stored = bool(kept and kept[i])
            _box(axes, 0.1, y, 0.9, 0.7, f"D{'₁₂₃'[i]}", DATA, dashed=not stored)
            _box(axes, 1.4, y, 0.7, 0.7, f"f{'₁₂₃'[i]}", MODEL)
            _arrow(axes, (1.02, y + 0.35), (1.38, y + 0.35))
            _arrow(axes, (2.12, y + 0.35), (2.42, 2.6))
            if kept is None and i:  # scored by what came before
                _arrow(axes, (1.6, y + 1.08), (0.95, y + 0.72), color=GREEN)
        _box(axes, 2.42, 2.2, 0.72, 0.8, "F", BLUE)
        tested = {"all": "t on D₁ D₂ D₃, R", "one": "t on D₁, R", "sat": "t on R alone"}
        _box(axes, 0.5, 0.1, 2.3, 0.7, tested.get(name, "t added up on the way"), TEST)
        _arrow(axes, (2.78, 2.18), (2.3, 0.84))
    figure.supxlabel("dashed: used to learn, then dropped", fontsize=10)
    return figure


def _canvas(figure: Figure, width: float, height: float) -> Axes:
    axes = figure.subplots()
    _canvas_on(axes, width, height)
    return axes


def _canvas_on(axes: Axes, width: float, height: float) -> None:
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()


def _box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str,
    colour: str,
    *,
    dashed: bool = False,
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0.03",
            facecolor="white" if dashed else (*_rgb(colour), 0.3),
            edgecolor=colour,
            lw=1.6,
            ls="--" if dashed else "-",
        )
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10)


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = BLACK
) -> None:
    axes.annotate(
        "", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.2}
    )
