"""The order of a stream: the same whatever comes first, with nothing lost and nothing twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofstream.stream.merge import LearntNames
from gofstream.stream.names import natural, running
from gofstream.stream.order import MOST_ENDS, MOST_MISSING, Order, Step
from gofstream.stream.rows import Entry

PATIENCE = 60.0

series = st.sampled_from(["run7-", "run10-", "", "b"])
identities = st.sets(st.tuples(series, st.integers(0, 12)), min_size=1, max_size=15)


def spelt(identity: tuple[str, int]) -> str:
    """Write an identity as most people do."""
    return f"{identity[0]}{identity[1]:04d}"


def played(
    order: Order, arrivals: dict[str, float], at_most: int | None = None, step: float = 7.0
) -> list[Step]:
    """Let batches arrive, and ask now and then, until long after the last has come."""
    now, found, left = 0.0, [], dict(arrivals)
    while now < max(arrivals.values()) + (len(arrivals) + 20) * (PATIENCE + step):
        there = {name: at for name, at in left.items() if at <= now}
        steps = order.steps(there, now, at_most)
        for kind, name, _ in steps:
            if kind != "skip":
                del left[name]  # fails if it was given twice
            if kind == "take":
                order.applied(name)
        found += steps
        # What there was no room for is asked for at once.
        now += 0.0 if any(kind != "skip" for kind, *_ in steps) else step
    assert not left
    return found


def expected(identities: set[tuple[str, int]]) -> list[tuple[str, str]]:
    """Say what should come out, from the set alone: series by series, gaps skipped."""
    found = []
    # By hand: "" before "b" before "run"; and people count runs.
    for name in ("", "b", "run7-", "run10-"):
        numbers = sorted(number for other, number in identities if other == name)
        for number in range(numbers[0], numbers[-1] + 1) if numbers else ():
            kind = "take" if number in numbers else "skip"
            found.append((kind, spelt((name, number))))
    return found


@given(identities, st.randoms(use_true_random=False), st.none() | st.integers(1, 3))
def test_any_arrival_within_patience(
    chosen: set[tuple[str, int]], random: object, at_most: int | None
) -> None:
    """The sequence follows from the set alone."""
    arrivals = {spelt(one): random.uniform(0, PATIENCE) for one in sorted(chosen)}
    step = random.choice([0.5, 7.0])
    found = played(Order(PATIENCE), arrivals, at_most, step)
    assert [(kind, name) for kind, name, _ in found] == expected(chosen)


@given(identities, st.data())
def test_a_restart_anywhere_changes_nothing(chosen: set[tuple[str, int]], data: object) -> None:
    """What was applied is known by name; a file of it that is still there is late, and no more."""
    arrivals = {spelt(one): 0.0 for one in chosen}
    whole = played(Order(PATIENCE), arrivals)
    cut = data.draw(st.integers(0, len(whole) - 1))
    applied = [step.name for step in whole[:cut]]
    rest = {name: at for name, at in arrivals.items() if name not in applied}
    again = set(applied) & set(arrivals)
    if rest:
        assert played(Order(PATIENCE, applied), rest) == whole[cut:]
    found = played(Order(PATIENCE, applied), arrivals)
    assert {step.name for step in found if step.kind == "late"} == again
    assert [step for step in found if step.kind != "late"] == whole[cut:]


@given(
    st.dictionaries(
        st.tuples(series, st.integers(0, 12), st.integers(1, 3)).map(
            lambda made: f"{made[0]}{made[1]:0{made[2]}d}"
        )
        | st.sampled_from(["monday", "tuesday"]),
        st.floats(0, 10 * PATIENCE),
        min_size=1,
        max_size=20,
    ),
    st.none() | st.integers(1, 3),
)
def test_whenever_they_come(arrivals: dict[str, float], at_most: int | None) -> None:
    """Each is taken or late, once; numbers of a series grow, and none between goes unmentioned."""
    found = played(Order(PATIENCE), arrivals, at_most)
    assert sorted(step.name for step in found if step.kind != "skip") == sorted(arrivals)
    passed: dict[str, list[int]] = {}
    for kind, name, why in found:
        assert bool(why) == (kind != "take")
        if kind == "late" or (parts := running(name)) is None:
            continue
        passed.setdefault(parts[0], []).append(int(parts[1]))
    for numbers in passed.values():
        assert all(after == before + 1 for before, after in pairwise(numbers))


def test_patience_runs_from_the_first_later_one() -> None:
    """Not from when the batch before was taken: after a pause nothing waits twice."""
    order = Order(PATIENCE, ["run7-0001"])
    assert order.steps({"run7-0003": 0.0, "run7-0004": 50.0}, now=59.9) == []
    assert [step[:2] for step in order.steps({"run7-0003": 0.0, "run7-0004": 50.0}, now=60.0)] == [
        ("skip", "run7-0002"),
        ("take", "run7-0003"),
        ("take", "run7-0004"),
    ]


def test_what_is_on_its_way_is_not_given_up() -> None:
    """A half-written batch keeps its place; a later one, or of another series, holds up nothing."""
    order = Order(PATIENCE, ["run-1"])
    there = {"run-4": 0.0}
    assert order.steps(there, 1000.0, coming=["run-3"]) == []
    others = ["run-1", "other-2", "run-5", "monday"]
    steps = [step[:2] for step in order.steps(there, 1000.0, coming=others)]
    assert steps == [("skip", "run-2"), ("skip", "run-3"), ("take", "run-4")]
    assert Order(PATIENCE).steps({"run-2": 0.0}, 1000.0, coming=["run-1"]) == []


def test_another_series_waiting_hurries_no_gap() -> None:
    """A gap is given as long as its own series has been there beyond it."""
    order = Order(PATIENCE, ["run7-0001"])
    waiting = {"run7-0003": 90.0, "run8-0001": 0.0}
    assert order.steps(waiting, now=100.0) == []
    assert [step.name for step in order.steps(waiting, now=150.0)] == [
        "run7-0002",
        "run7-0003",
        "run8-0001",
    ]


def test_a_series_is_finished_before_another() -> None:
    """As long as its next is there, whatever else has waited, and for however long."""
    order = Order(PATIENCE, ["run9-0001"])
    waiting = {"run7-0001": 0.0, "run9-0002": 99.0, "run9-0003": 99.0}
    found = [step.name for step in order.steps(waiting, now=100.0)]
    assert found == ["run9-0002", "run9-0003", "run7-0001"]


def test_the_first_of_all_waits() -> None:
    """For those before it, of which nobody knows; unless a run goes on."""
    assert Order(PATIENCE).steps({"run7-0005": 0.0}, now=59.0) == []
    assert Order(PATIENCE).steps({"run7-0005": 0.0}, now=60.0) == [Step("take", "run7-0005")]
    going_on = Order(PATIENCE, ["run7-0003", "monday", "run7-0004"])
    assert going_on.steps({"run7-0005": 0.0}, now=0.0) == [Step("take", "run7-0005")]


def test_names_without_numbers_come_as_they_come() -> None:
    """In order of name among those present, at once, also after later ones."""
    order = Order(PATIENCE)
    found = order.steps({"b": 0.0, "c": 0.0}, now=0.0) + order.steps({"a": 1.0}, now=1.0)
    assert [step.name for step in found] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("last", "there", "missing"),
    [
        ("r0998", "r1001", ["r0999", "r1000"]),
        ("r8", "r12", ["r9", "r10", "r11"]),
        ("r9999", "r10002", ["r10000", "r10001"]),
        ("r1", f"r{MOST_MISSING + 2}", [f"r{number}" for number in range(2, MOST_MISSING + 2)]),
        ("r1", f"r{MOST_MISSING + 3}", []),
        ("r1", f"r{10**150}", []),
    ],
)
def test_names_of_the_missing(last: str, there: str, missing: list[str]) -> None:
    """Written like those around them; a slip in a number does not fill a ledger."""
    *skipped, taken = Order(PATIENCE, [last]).steps({there: 0.0}, now=PATIENCE)
    assert [step.name for step in skipped] == missing
    assert all(step.kind == "skip" and there in step.why for step in skipped)
    assert taken == Step("take", there)


def test_one_number_written_in_two_ways() -> None:
    """The second waits for the first: it is late if that is a batch, and taken if it is none."""
    there = {"r1": 0.0, "r01": 0.0, "r2": 0.0}
    for kind in ("late", "take"):
        order = Order(0.0)
        found = order.steps(there, now=0.0)
        assert [step[:2] for step in found] == [("take", "r01"), ("take", "r2")]
        assert order.steps({"r1": 0.0}, now=0.0) == []
        for name in ("r01", "r2"):
            order.applied(name) if kind == "late" else order.refused(name)
        (step,) = order.steps({"r1": 0.0}, now=0.0)
        assert step[:2] == (kind, "r1")


def test_a_file_that_is_no_batch_leaves_no_gap() -> None:
    """However large its number: those before it come as if it had never been there."""
    for number in (7, MOST_MISSING, 99_999_999):
        order = Order(PATIENCE, ["r1"])
        assert order.steps({f"r{number}": 0.0}, PATIENCE)[-1] == Step("take", f"r{number}")
        order.refused(f"r{number}")
        assert order.steps({"r2": 99.0, "r3": 99.0}, 99.0) == [
            Step("take", "r2"),
            Step("take", "r3"),
        ]


def test_a_number_far_from_all_others_moves_no_series() -> None:
    """Even if it is a batch, and comes first of all; in a run that goes on, too."""
    for far in (99_999_999, 3 * MOST_MISSING):
        order = Order(PATIENCE, ["r1"])
        assert order.steps({f"r{far}": 0.0, "r2": 0.0}, 0.0) == [Step("take", "r2")]
        order.applied("r2")
        assert order.steps({f"r{far + 1}": 0.0}, PATIENCE) == [Step("take", f"r{far + 1}")]
        order.applied(f"r{far + 1}")
        for each in (order, Order(PATIENCE, ["r1", "r2", f"r{far + 1}"])):
            assert each.steps({"r3": 99.0}, 99.0) == [Step("take", "r3")]
            each.applied("r3")
            # Both go on: each end of the series has its own next number.
            assert each.steps({f"r{far + 2}": 99.0}, 99.0) == [Step("take", f"r{far + 2}")]
            assert each.steps({"r1": 99.0}, 99.0)[0].kind == "late"
            assert each.steps({f"r{far}": 99.0}, 99.0)[0].kind == "late"
    first = Order(0.0, ["r99999999"])
    assert first.steps({"r1": 0.0, "r2": 0.0}, 0.0) == [Step("take", "r1"), Step("take", "r2")]


def test_times_for_numbers_cost_no_memory() -> None:
    """Each is far from all others; only the last of them are remembered, and all are taken."""
    order = Order(0.0)
    for number in range(1, 5 * MOST_ENDS):
        name = f"r{number * 3 * MOST_MISSING}"
        assert order.steps({name: 0.0}, 0.0) == [Step("take", name)]
        order.applied(name)
    assert len(order._ends["r"]) == MOST_ENDS


def test_what_was_refused_or_skipped_moves_no_series() -> None:
    """A run that goes on knows from its ledger what was learnt."""
    entries = [
        Entry(1, "r1", "d", 0.0, 5, 5.0),
        Entry(2, "r900", "", 0.0, 0, 0.0, "quarantined", "no such column"),
        Entry(3, "r2", "", 0.0, 0, 0.0, "skipped", "did not come"),
        Entry(4, "r3 (again)", "d", 0.0, 5, 5.0, "unmonitored"),
    ]
    names = LearntNames.of(entries).names
    assert names == ("r1", "r3 (again)")
    assert Order(PATIENCE, names).steps({"r4": 0.0}, 0.0) == [Step("take", "r4")]


def test_natural_order_is_total() -> None:
    """Digits of other scripts are letters here."""
    names = ["run10", "run9", "run", "9", "run9-b", "run9-2", "\u0661", "x²"]
    expected = ["9", "run", "run9", "run9-2", "run9-b", "run10", "x²", "\u0661"]
    assert sorted(names, key=natural) == expected
    assert running("x²") is None
    assert running("\u0661") is None
