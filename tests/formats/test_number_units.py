"""The unit of a number by the tokens around it."""

from __future__ import annotations

import pytest

from perflog.formats.number_units import (
    NumberUnit,
    counted_per,
    glued_end,
    has_statistics,
    is_rate,
    is_unit,
    is_unit_in_brackets,
    may_be_unit,
    plain_end,
    unit_of_number,
)
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NUMBER, tokens


def line_of(text: str) -> tuple[TokenLine, int]:
    """The tokens of a line, and the index of its first number."""
    line = TokenLine(tokens(text))
    return line, next(k for k, token in enumerate(line.parts) if token.kind == NUMBER)


def found(text: str, name: str = "", **options: object) -> tuple[str, str]:
    """The unit of the first number of a line, and the token after it."""
    line, k = line_of(text)
    unit = unit_of_number(line, k, name, **options)  # type: ignore[arg-type]
    return unit.unit, line.text(unit.end)


@pytest.mark.parametrize(
    ("text", "unit", "after"),
    [
        ("x 3.1 ms,", "ms", ","),
        ("x 3.1ms,", "ms", ","),
        ("x 7   ms", "", "ms"),  # apart: a name
        ("time:  156   s |", "s", "|"),  # padded, and nothing else in its pair
        ("time:  156   s loss", "", "s"),
        ("x 3.1 ms: 4", "", "ms"),  # the name of the next number
        ("x 3.1 ms 4", "", "ms"),
        ("gemm   12.5 us   1.5 GB/s", "us", "1.5"),  # columns
        ("x 5 %", "%", ""),
        ("x 5  %", "", "%"),
        ("x 16.0G", "", "G"),  # a factor
        ("x 8 B", "", "B"),  # billions, or bytes
        ("x 8B", "", "B"),
        ("x 8KB", "KB", ""),
        ("x 2 h", "", "h"),  # a word
        ("x 2h", "h", ""),
        ("x 22.1 ms/tok", "ms", ""),
        ("x 22.1   ms/tok", "", "ms/tok"),
        ("x 22.1 ms/s", "", "ms/s"),  # a share
        ("x 24/s/gpu,", "1/s", ","),
        ("x 1409.8/gpu", "", "/"),
        ("mem 12.3/80.0GB", "GB", "/"),  # one unit for both
        ("x 12.3/80.0 ms", "", "/"),  # a count of steps, and a time
        ("x 20.9 ± 0.5 ms", "ms", "±"),
        ("x 52.3 (tokens/second) 3", "tok/s", "3"),
        ("x 52.3 [ms] 3", "ms", "3"),
        ("x 52.3 (B)", "", "("),
        ("x 52.3 (min) 3", "min", "3"),
        ("x 1 (min) 2 (max)", "", "("),  # a statistic
        ("Speed: 71.1 samples/sec 1971.6 tokens/sec", "1/s", "1971.6"),
        ("lr 0.1 tokens/sec 1971.6", "", "tokens/sec"),
    ],
)
def test_a_unit_is_what_follows_a_number_and_names_no_other(text: str, unit: str, after: str) -> None:
    assert found(text) == (unit, after)


def test_a_letter_is_a_minute_or_an_hour_of_a_time_alone() -> None:
    assert found("t 1.03m x", "total time") == ("min", "x")
    assert found("t 1.03m x", "memory") == ("", "m")
    assert found("t 1.03 m", "total time") == ("", "m")
    assert found("t 116.30 min", "training time") == ("min", "")
    assert found("t 116.30 min", "loss") == ("", "min")
    assert found("t 2 h", "ETA") == ("h", "")
    assert [found(f"t 3 min{x}", "time") for x in (" 2", ": 2", " x", "=2")] == [("", "min")] * 4


def test_a_factor_of_a_rate_may_be_apart_from_its_unit() -> None:
    def scaled(text: str, measures: bool = True) -> NumberUnit:
        return unit_of_number(*line_of(text), measures=measures)

    assert scaled("x 166.28 M elem/s") == NumberUnit("1/s", 4, "elem/s", 1e6)
    assert scaled("x 19.8K tok/s") == NumberUnit("1/s", 4, "tok/s", 1e3)
    assert scaled("x 166.28 M elem/s", measures=False) == NumberUnit("", 2)
    assert scaled("x 166.28M elem/s", measures=False).scale == 1e6
    assert scaled("x 166.28  M elem/s").scale == scaled("x 166.28 M  elem/s").scale == scaled("x 3 M GB").scale == 0


def test_numbers_that_measure_nothing_have_no_unit_in_brackets() -> None:
    assert found("x 52.3 (ms)", measures=False) == ("", "(")


def test_a_format_may_say_what_a_printed_unit_means() -> None:
    assert found("x 3 MB", unit_names={"MB": "MiB"}) == ("MiB", "")
    assert found("x 3  MB", unit_names={"MB": "MiB"}) == ("", "MB")


def test_the_text_of_a_unit_is_what_is_printed() -> None:
    units = [unit_of_number(*line_of(text)).text for text in ("x 24/s/gpu", "x 20.9 ± 0.5 sec", "x 1 (secs)", "x 1")]
    assert units == ["/s/gpu", "sec", "secs", ""]


@pytest.mark.parametrize(
    ("text", "is_unit_after", "is_rate_then"),
    [
        ("copy 16 MiB 25.1 GB/s", True, False),  # a size, since a rate follows
        ("copy 16 MiB 25.1 ms", False, False),
        ("copy 16 step 25.1 GB/s", False, False),
        ("x 16 B", False, False),
        ("x 3 ms = 4", False, False),
        ("x 3 ms: 4", False, False),
        ("x 3 tokens/s: 4", False, False),
        ("x 5 tok/s :", True, True),
        ("x 3  ms", False, False),
        ("x 5 %", True, False),
        ("x 5 foo", False, False),
        ("x 5 foo/s 6", True, True),
        ("x 5 GB/s", True, True),
        ("x 5 tokens per second", False, True),
        ("x 5 per second", False, True),
    ],
)
def test_a_word_after_a_space_may_be_a_unit(text: str, is_unit_after: bool, is_rate_then: bool) -> None:
    line, k = line_of(text)
    assert is_unit(line, k + 1) is is_unit_after
    assert plain_end(line, k) == k + 1 + is_unit_after
    assert is_rate(line, k, plain_end(line, k)) is is_rate_then


def test_a_unit_that_sticks_to_its_number_ends_before_the_next_word() -> None:
    texts = ("x 3.1ms/step y", "x 3% y", "x 3.1°C y", "x 3.1 ms y", "x 3/4 y", "x 3ms/4 y", "x 3 y")
    ends = [line.text(glued_end(line, k)) for line, k in map(line_of, texts)]
    assert ends == ["y", "y", "y", "ms", "/", "/", "y"]


def test_strings_that_may_be_units() -> None:
    units = "s ms B Bytes b % C °C foo/s".split()
    assert all(map(may_be_unit, units)) and not any(map(may_be_unit, ["G", "M", "K/s", "G/s", "5", "foo", "step"]))


def test_min_beside_another_statistic_is_none() -> None:
    assert has_statistics(["Max"]) and has_statistics(["loss", "P99"])
    assert not has_statistics(["min", "total", "loss"]) and not has_statistics([])


def test_brackets_with_one_word_hold_a_unit() -> None:
    def begin(text: str) -> bool:
        return is_unit_in_brackets(TokenLine(tokens(text)), 1)

    assert begin("delay (ms)") and begin("delay [ms]")
    assert not any(map(begin, ("delay (ms]", "delay (3)", "delay (ms, s)", "delay ms")))


def test_what_a_number_counts_follows_a_slash_that_both_stick_to() -> None:
    texts = ("x 24/gpu", "x 24 /gpu", "x 24/ gpu", "x 24/8")
    assert [counted_per(TokenLine(tokens(text)), 2) for text in texts] == ["gpu", "", "", ""]
