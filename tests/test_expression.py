"""The `where` language against an independent evaluator, and texts that are no conditions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gofstream.io.expression
from gofstream.errors import ColumnError, ExpressionError
from gofstream.io.expression import parse

COLUMNS = {
    "x": np.array([0.0, 1.0, -2.0, 3.5, np.nan, np.inf]),
    "pt.1": np.array([2.0, -1.0, 0.5, 1e200, 3.0, -1e300]),
    "odd name)": np.array([1, 2, 3, 4, 5, 6]),
}
ROWS = 6


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("x > 1", lambda x, y: x > 1),
        ("x > 0 & y > 0 | x < -1", lambda x, y: ((x > 0) & (y > 0)) | (x < -1)),
        ("x < -1 | x > 0 & y > 0", lambda x, y: (x < -1) | ((x > 0) & (y > 0))),
        ("not x > 0 and y > 0", lambda x, y: ~(x > 0) & (y > 0)),
        ("!(x > 0 or y > 0)", lambda x, y: ~((x > 0) | (y > 0))),
        ("-1 < x <= y < 3", lambda x, y: (x > -1) & (x <= y) & (y < 3)),
        ("x == y", lambda x, y: x == y),
        ("x != y", lambda x, y: x != y),
        ("-x**2 < -1", lambda x, y: -(x**2) < -1),
        ("2**3**2 == 512 + 0*x", lambda x, y: np.full(len(x), True)),
        ("2**-1*x > 0.25", lambda x, y: 0.5 * x > 0.25),
        ("x - 1 - 1 > 0", lambda x, y: x - 2 > 0),
        ("x / 2 / 2 >= .25", lambda x, y: x / 4 >= 0.25),
        ("1 + x * 2 > 3e0", lambda x, y: 1 + 2 * x > 3),
        ("hypot(x, y) < 2", lambda x, y: np.hypot(x, y) < 2),
        ("min(x, y) > max(-1, -2)", lambda x, y: np.minimum(x, y) > -1),
        ("sqrt(abs(x)) + log10(exp(y)) > 1", lambda x, y: np.sqrt(abs(x)) + y / np.log(10) > 1),
        ("sin(x)**2 + cos(x)**2 < tan(y) + log(3)", lambda x, y: np.tan(y) + np.log(3) > 1),
        ("cosh(x)**2 > 1.5 + sinh(y)", lambda x, y: np.cosh(x) ** 2 > 1.5 + np.sinh(y)),
        ("((((x)))) > 0", lambda x, y: x > 0),
        ("+x > - -0", lambda x, y: x > 0),
        ("x < −1 | y − x > 2", lambda x, y: (x < -1) | (y - x > 2)),  # the minus of a report
    ],
)
def test_meaning(text: str, right: Callable[[object, object], object]) -> None:
    """Precedence, chains, words and functions, by hand."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 2, 500), rng.normal(0, 2, 500)
    x[:5] = 1.0, -1.0, 0.0, 0.25, 0.5
    assert np.array_equal(parse(text).evaluate({"x": x, "y": y}), right(x, y))


def test_names() -> None:
    """Plain, dotted, quoted, foreign; a function's name can be a column's, too."""
    text = "`a b` > 1 & muon.pt > 1 & größe > 1 & min > 1 & `and` > 1 & muon.pt < 9"
    condition = parse(text)
    assert condition.names == ("a b", "muon.pt", "größe", "min", "and")
    assert condition.evaluate({name: [1, 2] for name in condition.names}).tolist() == [False, True]
    with pytest.raises(ColumnError, match=r"no column 'mll'; nearest: 'mll2'"):
        parse("mll > 1").evaluate({"mll2": [1.0]})


def test_integers_do_not_wrap_around() -> None:
    """All is computed in float64, and blocks make no difference."""
    small = np.array([100, 1], np.int8)
    assert parse("a * a > 127").evaluate({"a": small}).tolist() == [True, False]
    flags = np.array([True, False])
    assert parse("a + a == 2").evaluate({"a": flags}).tolist() == [True, False]
    many = np.random.default_rng(1).normal(size=3 * gofstream.io.expression._ROWS + 5)
    assert np.array_equal(parse("abs(a) > 1").evaluate({"a": many}), abs(many) > 1)
    assert parse("a > 1").evaluate({"a": []}).tolist() == []


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 1, "a column was expected here, not the end"),
        ("mll + 1", 1, "this is a number, not a condition"),
        ("x > 1 & y", 9, "this is a number, not a condition; compare it"),
        ("x & y > 1", 1, "this is a number, not a condition; compare it"),
        ("! x", 3, "this is a number, not a condition; compare it"),
        ("(x > 1) + 1 > 0", 1, "this is a condition, but a number is needed here"),
        ("abs(x > 1) > 0", 5, "this is a condition, but a number"),
        ("-(x > 1)", 2, "this is a condition, but a number"),
        ("x > (y > 1)", 5, "this is a condition, but a number"),
        ("1 < 2", 1, "^where: this names no column"),
        ("x = 1", 3, "write == to compare"),
        ("x > 1 && y > 1", 8, "a column was expected here, not '&'"),
        ("x > 1 y", 7, "'y' was not expected here"),
        ("(x > 1", 7, "a closing parenthesis is missing"),
        ("x > 1)", 6, r"'\)' was not expected here"),
        ("x > 1e999", 5, "too large a number"),
        ("x > 1.2.3", 5, "not understood"),
        ("x > 12abc", 5, "not understood"),
        ("acos(x) > 1", 1, r"no function 'acos' \(nearest: 'cos'"),
        ("__import__('os') > 1", 12, "not understood"),
        ("eval(x) > 1", 1, "no function 'eval'"),
        ("x.__class__ > 1 > y[0]", 20, "not understood"),
        ("hypot(x) > 1", 8, "'hypot' takes 2 numbers"),
        ("sin(x, y) > 1", 6, "'sin' takes 1 numbers, not more"),
        ("abs() > 1", 5, "a column was expected here"),
        ("`x > 1", 1, "a ` that is not closed"),
        ("x > \x1b[31m", 5, r"'\\x1b' is not understood"),
        ("x > 1 " + "& x > 1 " * 20 + "$", 167, r"\.\.\..*'?"),
    ],
)
def test_errors_point_at_the_place(text: str, at: int, message: str) -> None:
    """The message names it, and the caret stands below it."""
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    head, shown, caret = str(caught.value).splitlines()
    assert head.endswith(f"at character {at}")
    assert caret.endswith("^")
    if at <= len(text) and text[at - 1].isprintable():
        assert shown[len(caret) - 1] == text[at - 1]
    assert len(shown) < 100


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "(" * 4000 + "x" + ")" * 4000 + " > 1",
        "-" * 9000 + "x > 1",
        "!" * 9000 + "x > 1",
        "2**" * 3000 + "x > 1",
        "abs(" * 2000 + "x" + ")" * 2000 + " > 1",
        "x" * 10_001,
    ],
)
def test_limits(text: str) -> None:
    """Too deep or too long is an error, not an overflow."""
    with pytest.raises(ExpressionError, match=r"too deeply|too long"):
        parse(text)


def test_long_but_flat_is_fine() -> None:
    """No recursion over operators that merely follow each other."""
    assert parse("+".join(["x"] * 4000) + " > 4001").evaluate({"x": [1, 2]}).tolist() == [0, 1]
    assert parse(" & ".join(["x > 1"] * 1000)).evaluate({"x": [1, 2]}).tolist() == [0, 1]
    assert parse("0 < " + " < ".join(["x"] * 2)).evaluate({"x": [1, 2]}).tolist() == [0, 0]


@dataclass
class Made:
    """A text, and what it is worth in each row, computed one number at a time."""

    text: str
    values: list[float]


def scalar(function: Callable[..., float]) -> Callable[..., float]:
    """Make a function of numpy scalars that never complains."""

    def compute(*values: float) -> float:
        with np.errstate(all="ignore"):
            return function(*map(np.float64, values))

    return compute


# Only what every machine rounds alike: a logarithm of one number and of many can differ.
ARITHMETIC = {
    "+": scalar(operator.add),
    "-": scalar(operator.sub),
    "*": scalar(operator.mul),
    "/": scalar(operator.truediv),
}
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
FUNCTIONS = {
    name: (scalar(getattr(np, numpy_name)), count)
    for name, numpy_name, count in (
        ("abs", "abs", 1),
        ("sqrt", "sqrt", 1),
        ("hypot", "hypot", 2),
        ("min", "minimum", 2),
        ("max", "maximum", 2),
    )
}
SPACE = st.sampled_from(["", " ", "  "])


def each(function: Callable[..., object], *parts: Made) -> list[object]:
    """Compute row by row."""
    return [function(*values) for values in zip(*(part.values for part in parts), strict=True)]


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Made:
    """Make a number: parentheses everywhere, so that precedence does not enter here."""
    kind = draw(st.integers(0, 5 if depth else 1))
    if kind == 0:
        value = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25, 1e10]))
        return Made(repr(value), [value] * ROWS)
    if kind == 1:
        name = draw(st.sampled_from(list(COLUMNS)))
        text = name if name.replace(".", "").isalnum() else f"`{name}`"
        return Made(text, COLUMNS[name].astype(float).tolist())
    if kind == 2:
        one = draw(numbers(depth - 1))
        return Made(f"(-{one.text})", each(operator.neg, one))
    if kind == 3:
        name = draw(st.sampled_from(list(FUNCTIONS)))
        function, count = FUNCTIONS[name]
        parts = [draw(numbers(depth - 1)) for _ in range(count)]
        return Made(f"{name}({', '.join(p.text for p in parts)})", each(function, *parts))
    if kind == 4:
        one = draw(numbers(depth - 1))
        return Made(f"({one.text}**2)", each(ARITHMETIC["*"], one, one))
    mark = draw(st.sampled_from(list(ARITHMETIC)))
    one, other = draw(numbers(depth - 1)), draw(numbers(depth - 1))
    space = draw(SPACE)
    text = f"({one.text}{space}{mark}{space}{other.text})"
    return Made(text, each(ARITHMETIC[mark], one, other))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Made:
    """Make a condition."""
    kind = draw(st.integers(0, 4 if depth else 1))
    if kind < 2:
        parts = [draw(numbers()) for _ in range(kind + 2)]
        marks = [draw(st.sampled_from(list(COMPARE))) for _ in parts[1:]]
        text = parts[0].text
        for mark, part in zip(marks, parts[1:], strict=True):
            text += f" {mark}{draw(SPACE)}{part.text}"

        def chain(*values: float) -> bool:
            pairs = zip(marks, values, values[1:], strict=False)
            return all(COMPARE[mark](left, right) for mark, left, right in pairs)

        return Made(text, each(chain, *parts))
    if kind == 2:
        one = draw(conditions(depth - 1))
        return Made(f"{draw(st.sampled_from(['!', 'not ']))}({one.text})", each(operator.not_, one))
    one, other = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    marks, join = (
        (["&", "and"], lambda a, b: a and b) if kind == 3 else (["|", "or"], lambda a, b: a or b)
    )
    mark = draw(st.sampled_from(marks))
    return Made(f"({one.text}) {mark} ({other.text})", each(join, one, other))


@settings(max_examples=150)
@given(conditions())
def test_random_expressions(made: Made) -> None:
    """The same as row by row in Python."""
    if not re.search(r"\bx\b|pt\.1|odd", made.text):
        with pytest.raises(ExpressionError, match="names no column"):
            parse(made.text)
        return
    assert parse(made.text).evaluate(COLUMNS).tolist() == made.values


@settings(max_examples=200)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            ["x", "1", ".5", "(", ")", "&", "|", "!", "<", "==", "-", "**", "min", ",", "`", " "]
        ),
        max_size=25,
    ).map("".join)
)
def test_random_texts(text: str) -> None:
    """A condition or an error, nothing else."""
    try:
        condition = parse(text)
    except ExpressionError:
        return
    found = condition.evaluate({name: [1.0, math.nan] for name in condition.names})
    assert (found.dtype, found.shape) == (np.bool_, (2,))
