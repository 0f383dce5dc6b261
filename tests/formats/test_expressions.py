"""Arithmetic over field values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perflog.errors import FormatError
from perflog.formats.expressions import Expression


@pytest.mark.parametrize(("a", "b"), [(7, 2), (1, 1000), (0.3, 0.1), (999.5, 7), (2, 0.07)])
def test_arithmetic_is_python_s(a: float, b: float) -> None:
    for text in ("a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "-a", "abs(a - b)", "min(a, b)", "max(a, b)"):
        assert Expression(text)({"a": a, "b": b}) == eval(text, {"a": a, "b": b})
    assert Expression("round(a / b, 6)")({"a": a, "b": b}) == float(f"{a / b:.6f}")
    assert Expression("f32(a)")({"a": a}) == np.float32(a)


def test_more_functions_belong_to_one_expression() -> None:
    more = {"prod": (math.prod, 1, 1)}
    assert Expression("2 * prod(a)", more)({"a": [3, 4]}) == 24
    for text, functions in (("prod(a)", None), ("prod(a, a)", more), ("prod()", more)):
        with pytest.raises(FormatError, match="only arithmetic is allowed"):
            Expression(text, functions)


def test_arithmetic_is_the_same_on_arrays() -> None:
    values = [1.0, 0.01, 7.0, 123.456, 1000.0]
    column = np.array(values)
    for text in ("a + 1", "2 * a", "a / 3", "a % 7", "round(f32(a) / f32(a + 1), 6)", "abs(-a)", "a ** 2"):
        expr = Expression(text)
        assert np.asarray(expr({"a": column}), np.float64).tolist() == [float(expr({"a": v})) for v in column]


def test_min_and_max_work_on_arrays() -> None:
    a, b = np.array([1.0, 5.0]), np.array([3.0, 2.0])
    assert np.asarray(Expression("min(a, b)")({"a": a, "b": b})).tolist() == [1.0, 2.0]
    assert np.asarray(Expression("max(a, b)")({"a": a, "b": b})).tolist() == [3.0, 5.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "a.b\n^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round"),
        (
            "1 + open(a)",
            "1 + open(a)\n    ^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round",
        ),
        ("'x' * 2", "'x' * 2\n^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round"),
        ("[a]", "[a]\n^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round"),
        (
            "a if b else c",
            "a if b else c\n^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round",
        ),
        (
            "round(a, ndigits=2)",
            "round(a, ndigits=2)\n^: only arithmetic is allowed\nfunctions are abs, f32, if_equal, max, min, round",
        ),
    ],
)
def test_a_bad_expression_says_where(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        Expression(text)
    assert str(error.value) == message


def test_a_syntax_error_has_a_caret() -> None:
    with pytest.raises(FormatError, match="not an expression") as error:
        Expression("a ++* b")
    assert error.value.where.split("\n")[0] == "a ++* b"
    assert error.value.where.endswith("^")


@pytest.mark.parametrize(
    "text",
    [
        "", "round(a)", "round()", "f32()", "f32(a, b)", "abs(a, b)", "min(a)", "if_equal(a, b)", "a\0b", "(" * 300,
        "1_0j", "True", "a ** 17", "a ** -1", "a ** b", "a ** 1.0", "a or b", "+a",
    ],
)  # fmt: skip
def test_whatever_is_no_arithmetic_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(FormatError):
        Expression(text)


def test_a_power_of_16_is_the_highest() -> None:
    assert Expression("a ** 16")({"a": 2}) == 65536 and Expression("a ** 0")({"a": 2}) == 1


def test_a_value_is_unknown_where_two_numbers_differ() -> None:
    found = Expression("if_equal(a, b, a * 2)")({"a": np.array([1.0, 2.0]), "b": np.array([1.0, 3.0])})
    assert found[0] == 2 and math.isnan(found[1])


def test_the_names_of_an_expression_are_sorted() -> None:
    assert Expression(" b + round(a / c, 2) - b ").names == ("a", "b", "c")
