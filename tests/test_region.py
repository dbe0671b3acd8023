"""Regions of windows: every range and every count, against slow ones on the user's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.ratio.scaling import Scaling
from gofstream.sample import Sample
from gofstream.scan.choose import choose_tails
from gofstream.scan.grid import ScanGrid
from gofstream.scan.region import DISTANCE, HALF, MANY, TOLD, Columns, Place, Regions
from gofstream.scan.summary import ScanSummary
from gofstream.scan.where import best_windows, windows_of
from gofstream.scan.windows import Bumps

Floats = NDArray[np.float64]


def muons(
    count: int, rng: np.random.Generator, turn: float = 2 * np.pi, first: float = -0.5
) -> Floats:
    """Draw momenta above 20, angles from `first` turns on, and differences of angles, all ≥ 0."""
    phi = (first + rng.uniform(size=count)) * turn
    return np.column_stack(
        [20 + rng.gamma(2, 15, count), phi, np.abs(rng.normal(0, 0.1, count)) * turn]
    )


def sample_of(values: Floats, turn: float, weights: Floats | None = None) -> Sample:
    """Name the columns, of which all but the first repeat."""
    names = ["pt", "phi", "dphi"][: values.shape[1]]
    return Sample.from_array(
        values, names, weights=weights, periodic=dict.fromkeys(names[1:], turn)
    )


def holds(place: str, event: dict[str, float], first: float, turn: float) -> bool:
    """Tell whether an event is in a range, from the words that are printed."""
    column, words = place.split(" ", 1)
    value = event[column]
    if column != "pt":  # into the turn that the reference is in
        while value < first:
            value += turn
        while value > first + turn:
            value -= turn
    numbers = [float(x) for x in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", words)]
    if words.startswith("from"):
        return numbers[0] <= value <= numbers[1]
    if " or " in words:
        return value > numbers[0] or value < numbers[1]
    return value > numbers[0] if words.startswith("above") else value < numbers[0]


@pytest.mark.parametrize("turn", [2 * np.pi, 360.0])
@pytest.mark.parametrize("first", [-0.5, 0.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_region_of_a_grid(turn: float, first: float, weighted: bool) -> None:
    """Counts of data and shares of the reference are those of the printed ranges, one by one."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.2, 2.0, 3000) if weighted else None
    reference = sample_of(muons(3000, rng, turn, first), turn, weights=weights)
    scaling = Scaling.learn(reference)
    share = reference.share if weighted else None
    grid = ScanGrid.choose(scaling.apply(reference), 200.0, rng, share=share)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    assert len(regions) == grid.size
    # Data count angles from the other end of the turn.
    data = sample_of(muons(120, rng, turn, -0.5 - first), turn)
    found = regions.count(data)
    ranged = [k for k, places in enumerate(regions.places) if DISTANCE not in str(places)]
    assert len(ranged) > 100
    begin = first * turn
    for k in ranged[:: len(ranged) // 60]:
        words = [str(place) for place in regions.places[k]]
        inside = [
            all(holds(w, dict(zip(data.columns, row, strict=True)), begin, turn) for w in words)
            for row in data.values.tolist()
        ]
        assert found[k] == sum(inside), words
    for k in ranged[:: len(ranged) // 6]:
        words = [str(place) for place in regions.places[k]]
        inside = [
            all(holds(w, dict(zip(data.columns, row, strict=True)), begin, turn) for w in words)
            for row in reference.values.tolist()
        ]
        assert regions.share(reference, [k])[0] == pytest.approx(reference.share[inside].sum())
    assert regions.count(data, [5, 3]).tolist() == found[[5, 3]].tolist()


@pytest.mark.parametrize("first", [-0.5, 0.0])
def test_ranges_stay_inside_the_reference(first: float) -> None:
    """No momentum below the threshold, no angle beyond the turn: an end out there is none."""
    rng = np.random.default_rng(3)
    reference = sample_of(muons(3000, rng, 360.0, first), 360.0)
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 200.0, rng)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    low, high = reference.values.min(axis=0), reference.values.max(axis=0)
    ends = dict(zip(reference.columns, zip(low, high, strict=True), strict=True))
    told = {place for places in regions.places for place in places if place.column in ends}
    assert {place.column for place in told} == {"pt", "phi", "dphi"}
    for place in told:
        for end in (place.low, place.high):
            assert end is None or ends[place.column][0] <= end <= ends[place.column][1], place
    assert any(place.column == "phi" and place.outside for place in told)
    assert any(place.column == "pt" and place.low is None for place in told)
    assert not any(place.column == "pt" and place.outside for place in told)


def test_the_box_of_a_bump() -> None:
    """One and a half widths on either side of its centre, an angle as long an arc."""
    rng = np.random.default_rng(1)
    values = np.column_stack([rng.normal(50, 10, 20_000), rng.uniform(-180, 180, 20_000)])
    reference = Sample.from_array(values, ["m", "phi"], periodic={"phi": 360})
    scaling = Scaling.learn(reference)
    centre = scaling.apply(Sample.from_array([[55.0, 175.0]], ["m", "phi"]))
    regions = Regions.of([Bumps(centre, 0.2)], Columns.of(scaling, reference))
    places = {place.column: place for place in regions.places[0]}
    m, phi = places["m"], places["phi"]
    half = HALF * 0.2 * values[:, 0].std()
    assert (m.low, m.high) == pytest.approx((55 - half, 55 + half), abs=0.06)
    # A chord of the scaled circle, whose radius is √2.
    arc = np.degrees(2 * np.arcsin(HALF * 0.2 * np.sqrt(0.5) / 2))
    assert (phi.low, phi.high) == pytest.approx((175 - arc, 175 + arc - 360), abs=1.0)
    assert str(phi) == f"phi above {phi.low:g} or below {phi.high:g}"


def test_ends_of_a_range() -> None:
    """Both ends of "from a to b" belong to it, the one of "above a" or "below b" does not."""
    rng = np.random.default_rng(5)
    reference = Sample.from_array(rng.normal(size=2000), ["x"])
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 300.0, rng)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    kinds = set()
    for k, places in enumerate(regions.places):
        for place in places:
            ends = [end for end in (place.low, place.high) if end is not None]
            inside = 2 if len(ends) == 2 and not place.outside else 0
            assert regions.count(Sample.from_array(ends, ["x"]), [k])[0] == inside, place
            kinds.add((place.low is None, place.high is None, place.outside))
    assert len(kinds) == 4


@pytest.mark.parametrize("first", [-0.5, 0.0])
def test_tails_are_those_of_the_scan(first: float) -> None:
    """Along a column, its cosine and its sine, on either side: but for rounding the same rows."""
    rng = np.random.default_rng(9)
    reference = sample_of(muons(5000, rng, 360.0, first)[:, :2], 360.0)
    scaling = Scaling.learn(reference)
    x = scaling.apply(reference)
    tails = choose_tails(x)
    regions = Regions.of([tails], Columns.of(scaling, reference))
    wanted, found = tails.count(x)[0], regions.count(reference)
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=3)
    assert wanted[0] == found[0] == 5000
    assert {along % 3 for along in tails.along.tolist()} == {0, 1, 2}


def test_a_distance_names_its_columns() -> None:
    """And has the events that its formula has; on a line it is what lies outside of a range."""
    rng = np.random.default_rng(2)
    values = np.column_stack([rng.exponential(30, 5000), rng.normal(size=5000)])
    reference = Sample.from_array(values, ["pt", "eta"])
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 300.0, rng)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    far = [k for k, places in enumerate(regions.places) if DISTANCE in str(places)]
    assert len(far) > 5
    middle, spread = values.mean(axis=0), values.std(axis=0)
    for k in far:
        (place,) = regions.places[k]
        assert place.column == f"{DISTANCE} pt and eta"
        away = np.sqrt((((values - middle) / spread) ** 2).sum(axis=1))
        assert place.low is not None
        assert regions.count(reference, [k])[0] == np.count_nonzero(away > place.low)
        weights = values[:, 0]
        inside = regions.count(reference, [k], weights)[0]
        assert inside == pytest.approx(weights[away > place.low].sum())
    line = Sample.from_array(values[:, 1], ["eta"])
    scaling = Scaling.learn(line)
    regions = Regions.of(
        ScanGrid.choose(scaling.apply(line), 300.0, rng).windows, Columns.of(scaling, line)
    )
    found = regions.count(line)
    outside = [k for k, places in enumerate(regions.places) if any(p.outside for p in places)]
    assert outside
    for k in outside:
        (place,) = regions.places[k]
        assert place.low is not None
        assert place.high is not None
        eta = line.values[:, 0]
        assert found[k] == np.count_nonzero((eta > place.low) | (eta < place.high))


def test_many_columns() -> None:
    """A region has the columns in which it lies farthest out; a distance counts the others."""
    rng = np.random.default_rng(4)
    reference = Sample.from_array(rng.normal(size=(2000, 9)))
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 300.0, rng)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    assert max(map(len, regions.places)) == TOLD
    assert any(f"{DISTANCE} all 9 columns above" in str(p) for ps in regions.places for p in ps)
    assert MANY < 9
    centre = np.array([0.1, -2, 0.2, 1.9, 0, 0.3, -1.8, 1.7, 1.6])
    (places,) = Regions.of([Bumps(centre[None], 0.5)], Columns.of(scaling, reference)).places
    assert [place.column for place in places] == ["x1", "x3", "x6", "x7", "x8"]


def selected(sample: Sample, places: Sequence[Place]) -> int:
    """Count the events in ranges, with numbers alone."""
    inside = np.ones(len(sample), bool)
    for place in places:
        x = sample.values[:, sample.columns.index(place.column)]
        low = -np.inf if place.low is None else place.low
        high = np.inf if place.high is None else place.high
        inside &= (x > low) | (x < high) if low >= high else (x >= low) & (x <= high)
    return int(inside.sum())


def test_no_deficit_of_as_many_as_expected() -> None:
    """A window is listed only where its region has more, or fewer, as its alternative says."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(rng.normal(size=5000), ["x"])
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 584.0, rng)
    regions = Regions.of(grid.windows, Columns.of(scaling, reference))
    data = Sample.from_array(rng.normal(size=584) * 1.4, ["x"])
    summary = ScanSummary.empty(grid).add(scaling.apply(data), 584.0)

    def half(which: Sequence[int]) -> Floats:
        return np.full(len(which), 0.5)

    for seen, kinds in ((292.0, set()), (292.4, set()), (300.0, {"excess"}), (280.0, {"deficit"})):
        found = best_windows(
            summary, regions, lambda which, seen=seen: np.full(len(which), seen), half
        )
        assert {window.kind for window in found} == kinds
        assert all(window.expected == 292 for window in found)


@pytest.mark.parametrize("shape_only", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_windows_say_what_is_there(shape_only: bool, seed: int) -> None:
    """Excess: more seen than expected in these ranges; deficit: fewer; of wider, of cut data."""
    rng = np.random.default_rng(seed)
    reference = sample_of(muons(6000, rng)[:, :2], 2 * np.pi)
    scaling = Scaling.learn(reference)
    grid = ScanGrid.choose(scaling.apply(reference), 584.0, rng, shape_only=shape_only)
    values = muons(584, rng)[:, :2]
    if seed % 2:
        values[:, 0] = 20 + (values[:, 0] - 20) * 1.3
    else:
        values[:100, 1] = np.pi - rng.uniform(0, 0.2, 100)
        values[:50, 1] *= -1
    data = sample_of(values, 2 * np.pi)
    summary = ScanSummary.empty(grid).add(scaling.apply(data), 584.0)
    found = windows_of(
        summary, scaling, [data.take(slice(0, 99)), data.take(slice(99, None))], reference
    )
    assert found
    for window in found:
        if DISTANCE in window.where:
            continue
        assert window.observed == selected(data, window.places)
        expected = 584 * selected(reference, window.places) / len(reference)
        assert window.expected == pytest.approx(expected)
        sign = 1 if window.kind == "excess" else -1
        assert sign * (window.observed - window.expected) >= 0.5
    if not seed % 2:
        place = {p.column: p for p in found[0].places}["phi"]
        assert place.outside
        assert place.low is not None
        assert place.low > 2.5
