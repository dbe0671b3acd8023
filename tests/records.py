"""Results to make reports from: realistic ones without the cost of a test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream import STATISTICS
from gofstream.inference.pvalues import LAWS, p_value, z_score
from gofstream.report.record import (
    Chance,
    Column,
    Events,
    File,
    Null,
    Pair,
    Place,
    Provenance,
    Range,
    Rate,
    Record,
    Region,
    Statistic,
    Width,
    Window,
)

Floats = NDArray[np.float64]

DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
DIMUON = {"pt1": "GeV", "pt2": "GeV", "eta1": "", "eta2": "", "dphi": "rad", "mll": "GeV"}


def dimuon(
    *,
    batches: int = 8,
    widths: tuple[float, ...] = (0.4, 1.1, 1.9, 3.2, 5.3),
    toys: int = 300,
    surprise: float = 3.6,
    **changes: Any,
) -> Record:
    """Make a result in six columns, one of them carried, with a bump in it.

    This one is whole; the others have few strategies, because pictures take time.
    """
    rng = np.random.default_rng(5)
    reference = _muons(60 + rng.exponential(60, 40_000), rng)
    signal = _muons(rng.normal(300, 9, 80), rng)
    data = np.concatenate([_muons(60 + rng.exponential(60, 16_000), rng), signal])
    return _record(
        DIMUON,
        reference,
        data,
        lambda x: 0.7 * np.exp(-(((x[:, 5] - 300) / 18) ** 2) / 2),
        rng,
        title="DIMUON-5D, Z' at 300 GeV",
        fitted=5,
        batches=batches,
        widths=widths,
        toys=toys,
        surprise=surprise,
        **changes,
    )


def line(**changes: Any) -> Record:
    """Make a result in one column without a unit: no pair, nothing carried."""
    rng = np.random.default_rng(6)
    return _record(
        {"x": ""},
        rng.exponential(1, (20_000, 1)),
        rng.exponential(1, (2_000, 1)),
        lambda x: 0.2 * np.exp(-(((x[:, 0] - 6.4) / 0.3) ** 2)),
        rng,
        **{
            "title": "EXPO-1D",
            "strategies": ("all", "next", "scan"),
            "widths": (0.7,),
            "toys": 60,
            "surprise": 0.1,
            **changes,
        },
    )


def wide(columns: int = 24, scale: float = 1.0, **changes: Any) -> Record:
    """Make a result in many columns, on any scale."""
    rng = np.random.default_rng(7)
    names = {f"column_{i + 1}": "GeV" if i % 2 else "" for i in range(columns)}
    return _record(
        names,
        scale * rng.normal(size=(4_000, columns)),
        scale * rng.normal(0.05, 1, size=(1_000, columns)),
        lambda x: 0.1 * np.tanh(x[:, 0] / scale),
        rng,
        **{
            "title": "Many columns",
            "strategies": ("all", "scan"),
            "widths": (2.0, 9.0),
            "toys": 99,
            "surprise": 1.5,
            **changes,
        },
    )


def cases() -> dict[str, Record]:
    """Give one result of each kind that a report must cope with."""
    plain = line()
    return {
        "one column, one width": plain,
        "carried column and units": dimuon(
            strategies=("all", "next", "scan"), widths=(0.4, 1.1), evidence=4.2
        ),
        "no toy as extreme, level set": line(surprise=30, level=0.02, toys=120, widths=(0.4, 1.1)),
        "level not reached": line(level=0.01),
        "no regions, no events": line(
            regions=(), events=Events(columns=("x",), rows=(), ratios=(), values=())
        ),
        "rate tested apart": line(
            shape_only=True,
            rate=Rate(expected=2100.5, observed=2000, p=0.028),
            pvalue=0.03,
            zscore=float(z_score(0.03)),
            source="permuted labels",
        ),
        "one batch": line(batches=1),
        "many columns": wide(9),
        "huge numbers": wide(3, 1e15, expected=1e12, seconds=1e6),
        "p of one": line(surprise=-50),
        "from Python": line(provenance=None),
        "not converged, not covered": line(converged=False, uncovered=7, widths=(0.4, 1.1)),
    }


def _muons(mass: Floats, rng: np.random.Generator) -> Floats:
    """Draw two muons of each mass: pt1, pt2, eta1, eta2, dphi, mll."""
    eta = rng.normal(0, 1.1, (len(mass), 2))
    dphi = np.pi - np.abs(rng.normal(0, 0.3, len(mass)))
    pt = mass / np.sqrt(2 * (np.cosh(eta[:, 0] - eta[:, 1]) - np.cos(dphi)))
    share = rng.uniform(1, 1.5, len(mass))
    return np.column_stack([pt * share, pt / share, eta, dphi, mass])


def _record(
    names: dict[str, str],
    reference: Floats,
    data: Floats,
    excess: Any,
    rng: np.random.Generator,
    *,
    title: str,
    widths: tuple[float, ...],
    toys: int,
    surprise: float,
    strategies: tuple[str, ...] = (*STATISTICS, "scan"),
    fitted: int | None = None,
    batches: int = 4,
    converged: bool = True,
    uncovered: int = 0,
    seconds: float = 41.3,
    **changes: Any,
) -> Record:
    expected = round(len(data), -3)
    weight = expected / len(reference)
    ratio = 1 + excess(reference)
    on_data = 1 + excess(data)
    statistics = {}
    for number, name in enumerate(strategies):
        nulls, each = [], []
        for k in range(1 if name == "scan" else len(widths)):
            null = rng.gamma(20 + 4 * k, 1.0, toys) - (22.0 if name in ("one", "next") else 0)
            t = float(null.mean() + (surprise - 0.3 * abs(k - 1) - 0.2 * number) * null.std())
            counts, edges = np.histogram(null, 25)
            nulls.append(Null(t=t, edges=edges.tolist(), counts=counts.tolist()))
            each.append(_chance(p_value(t, null, LAWS[name])))
        combined = min(each, key=lambda c: c.p).model_copy(update={"law_p": None})
        statistics[name] = Statistic(p=tuple(each), combined=combined, null=tuple(nulls))
    verdict = min((statistics[name].combined for name in ("all", "scan")), key=lambda c: c.p)
    columns = tuple(
        _column(
            name, unit, fitted is None or i < fitted, reference[:, i], data[:, i], weight, ratio
        )
        for i, (name, unit) in enumerate(names.items())
    )
    order = np.argsort(-on_data)[:10]
    content = {
        "title": title,
        "pvalue": verdict.p,
        "zscore": verdict.z,
        "low": verdict.low,
        "high": verdict.high,
        "level": None,
        "rule": "min",
        "toys": toys,
        "source": "the exact simulator",
        "expected": expected,
        "observed": len(data),
        "batches": tuple(len(part) for part in np.array_split(data, batches)),
        "shape_only": False,
        "rate": None,
        "caveats": (),
        "verdicts": {"all + scan": verdict}
        | ({"sat + next + scan": verdict} if "sat" in statistics else {}),
        "statistics": statistics,
        "windows": _windows(names, data),
        "evidence": None,
        "widths": tuple(
            Width(
                width=width,
                centres=int(1500 / (1 + k)),
                passes=tuple(int(n) for n in rng.integers(8, 20, batches)),
                converged=(*([True] * (batches - 1)), converged or k > 0),
                uncovered=(*([0] * (batches - 1)), uncovered if k == 0 else 0),
            )
            for k, width in enumerate(widths)
        ),
        "shown": widths[min(1, len(widths) - 1)],
        "columns": columns,
        "pair": _pair(list(names), reference, data, weight) if len(names) > 1 else None,
        "regions": _regions(names, reference, data, weight, ratio, on_data),
        "events": Events(
            columns=tuple(names),
            rows=tuple(int(row) for row in order),
            ratios=tuple(on_data[order].tolist()),
            values=tuple(tuple(data[row].tolist()) for row in order),
        ),
        "storage": {
            "single": 16 * len(data) // batches,
            "sum": 8 * batches,
            "all": 1_900_000,
            "one": 700_000,
            "sat": 480_000,
            "next": 480_000,
            "scan": 230_000,
        },
        "provenance": Provenance(
            made="2026-11-16T08:12:45+00:00",
            seconds=seconds,
            command=(
                *("gofstream", "test", "reference.parquet", "my data.parquet"),
                *("--expected", "16000", "--batches", str(batches), "--seed", "5"),
            ),
            seed=5,
            settings={"widths": None, "centres": 2000, "penalty": 1e-7, "columns": list(names)},
            versions={"gofstream": "0.1.0", "numpy": "2.3.1", "python": "3.11.2"},
            files=(
                File(
                    role="reference",
                    path="samples/reference.parquet",
                    rows=len(reference),
                    kept=len(reference),
                    sha256=DIGEST,
                ),
                File(
                    role="data",
                    path="samples/my data.parquet",
                    rows=len(data) + 12,
                    kept=len(data),
                    sha256=DIGEST[::-1],
                ),
            ),
        ),
    }
    return Record.model_validate({**content, **changes})


def _chance(found: Any) -> Chance:
    z = None if found.p == 1 else found.z
    return Chance(
        p=found.p, z=z, low=found.low, high=found.high, hits=found.hits, law_p=found.law_p
    )


def _column(
    name: str,
    unit: str,
    fitted: bool,
    reference: Floats,
    data: Floats,
    weight: float,
    ratio: Floats,
) -> Column:
    edges = np.linspace(*np.quantile(reference, [0.001, 0.999]), 41)
    counts = np.histogram(reference, edges)[0]
    return Column(
        name=name,
        unit=unit,
        fitted=fitted,
        edges=edges.tolist(),
        data=np.histogram(data, edges)[0].tolist(),
        reference=(counts * weight).tolist(),
        reference_error=(np.sqrt(counts) * weight).tolist(),
        learnt=(np.histogram(reference, edges, weights=ratio)[0] * weight).tolist(),
    )


def _pair(names: list[str], reference: Floats, data: Floats, weight: float) -> Pair:
    first, last = 0, len(names) - 1
    edges = [np.linspace(*np.quantile(reference[:, i], [0, 0.998]), 25) for i in (first, last)]
    cells = [np.histogram2d(x[:, last], x[:, first], edges[::-1])[0] for x in (data, reference)]
    return Pair(
        x=names[first],
        y=names[last],
        x_edges=edges[0].tolist(),
        y_edges=edges[1].tolist(),
        data=cells[0].astype(int).tolist(),
        reference=(weight * cells[1]).tolist(),
    )


def _windows(names: dict[str, str], data: Floats) -> tuple[Window, ...]:
    """Make up a bump in all columns, and a tail in the first."""
    middle, wide = data[0], data.std(axis=0) / 9
    places = tuple(
        Place(column=name, unit=unit, low=float(x - w), high=float(x + w))
        for (name, unit), x, w in zip(names.items(), middle, wide, strict=True)
    )
    bump = Window(
        kind="excess",
        shape="bump",
        places=places,
        observed=31,
        expected=9.68,
        signal=17.2,
        t=21.4,
    )
    tail = {"shape": "tail", "places": (places[0].model_copy(update={"low": None}),)}
    fewer = {"kind": "deficit", "signal": -6.1, "t": 4.4, "observed": 3}
    return (bump, bump.model_copy(update=tail | fewer))


def _regions(
    names: dict[str, str],
    reference: Floats,
    data: Floats,
    weight: float,
    ratio: Floats,
    on_data: Floats,
) -> tuple[Region, ...]:
    edge = float(np.quantile(ratio, 0.99))
    inside, found = ratio >= edge, on_data >= edge
    ranges = [
        Range(
            column=name,
            unit=unit,
            **dict(
                zip(
                    ("low", "quarter", "median", "three_quarters", "high"),
                    np.quantile(reference[inside, i], [0.05, 0.25, 0.5, 0.75, 0.95]).tolist(),
                    strict=True,
                )
            ),
            overall=tuple(np.quantile(reference[:, i], [0.05, 0.95]).tolist()),
        )
        for i, (name, unit) in reversed(list(enumerate(names.items())))
    ]
    excess = Region(
        kind="excess",
        ratio=edge,
        expected=weight * int(inside.sum()),
        observed=int(found.sum()),
        ranges=tuple(ranges),
    )
    deficit = excess.model_copy(update={"kind": "deficit", "ratio": 0.83, "observed": 141})
    return (excess, deficit)


def meaning(schema: Any) -> Any:
    """Leave out of a JSON schema what says nothing: versions of pydantic differ in that."""
    if isinstance(schema, list):
        return [meaning(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    empty = {"additionalProperties"} if schema.get("additionalProperties") is True else set()
    empty |= {"enum"} if "const" in schema else set()
    return {key: meaning(part) for key, part in schema.items() if key not in empty}
