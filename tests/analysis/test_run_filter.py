"""Conditions on runs: what they mean, and what is no condition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.analysis.run_filter import Fact, parse
from perflog.errors import UsageError

FACTS: dict[str, Fact] = {
    "format": "megatron",
    "world_size": 8,
    "model": "Llama-2-7b",
    "lr": "0.001",
    "none": None,
    "a.b": 3,
    "ingested": "2026-03-01T09:30:15Z",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("format = megatron", True),
        ("format == 'megatron'", True),
        ("format != megatron", False),
        ("world_size >= 8 and world_size < 9", True),
        ("world_size > 8 or model ~ llama", True),
        ("not model ~ LLAMA", False),
        ("(format = x or lr <= 1e-3) and a.b <> 4", True),
        ("format = x or format = y and world_size = 8", False),  # `and` binds first
        ("lr = .001", True),
        ("world_size = '8'", True),
        ("world_size = 8.0", True),
        ("world_size = '8.0'", False),  # a string
        ('world_size = "8.0"', False),
        ("none = 3", False),
        ("none != 3", False),
        ("not none = 3", True),
        ("format < n", True),
        ("format > 3", True),  # an order of texts
        ("model = Llama-2-7b", True),
        ("ingested = 2026-03-01", True),  # all of that day
        ("ingested > 2026-03-01", False),
        ("ingested > 2026-02 and ingested < 2027", True),
        ("ingested <= '2026-03-01 09:30'", True),  # as text shows it
        ("ingested > '2026-03-01 09:30'", False),
        ("ingested > '2026-03-01T09:30:14Z'", True),
        ("ingested ~ 03-01", True),
        ("   not format = x  ", True),
    ],
)
def test_what_a_condition_means(text: str, holds: bool) -> None:
    assert parse(text).holds(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "at its end"),
        ("format", "at its end"),
        ("format =", "at its end"),
        ("= 3", "at '='"),
        ("format = = 3", "at '='"),
        ("format ( 3", "at '('"),
        ("(format = x", "at its end"),
        ("format = x y", "at 'y'"),
        ("format = x and", "at its end"),
        ("format = 'x", 'at "\'x"'),
        ("not", "at its end"),
        ("a.b = 3 and lr not 3", "at 'not'"),
        ("a.b = 3 and lr ) 3", "at ')'"),
    ],
)
def test_what_is_no_condition(text: str, place: str) -> None:
    with pytest.raises(UsageError, match="cannot be read") as error:
        parse(text)
    assert place in str(error.value)


NAMES = st.sampled_from(["x", "y", "z"])
VALUES = st.integers(-3, 3)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
COMPARISONS = st.tuples(NAMES, OPERATORS, VALUES.map(str)).map(" ".join)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map("not ({})".format),
        inner.map("({})".format),
    ),
    max_leaves=6,
)


@given(text=CONDITIONS, values=st.tuples(VALUES, VALUES, VALUES))
def test_conditions_are_those_of_python(text: str, values: tuple[int, int, int]) -> None:
    """Of numbers, but for `=`, Python's own evaluation gives the same."""
    facts: dict[str, Fact] = dict(zip("xyz", values, strict=True))
    in_python = text.replace(" = ", " == ")
    assert parse(text).holds(facts) is eval(in_python, {}, dict(facts))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "not " * 50_000 + "a.b = 3",
        "(" * 101 + "a.b = 3" + ")" * 101,
        "(a.b = 3) and " * 99 + "(" * 101 + "a.b = 3" + ")" * 101,
    ],
)
def test_a_condition_that_nests_too_deep(text: str) -> None:
    with pytest.raises(UsageError, match="is nested more than 100 levels deep"):
        parse(text)


def test_a_long_condition() -> None:
    assert parse("a.b = 3" + " and a.b = 3" * 20_000).holds(FACTS)
    assert parse("a.b = 4" + " or a.b = 4" * 20_000 + " or a.b = 3").holds(FACTS)
    assert parse("(" * 100 + "a.b = 3" + ")" * 100).holds(FACTS)
