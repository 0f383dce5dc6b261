"""What words and marks mean in measured lines, and in no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.formats.families.meters import measured_words as module
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import tokens


def line_of(text: str) -> TokenLine:
    return TokenLine(tokens(text))


def names(words: str = "", measures: bool = True, table: str = "values", **more: Any) -> Any:
    """The names of a line so far, the last words of which name the next number."""
    shape = SimpleNamespace(line=SimpleNamespace(table=table))
    declared = SimpleNamespace(measures=measures, shape=shape)
    state = {"printed": set(), "mark": "", "is_bound": False, "is_listed": False} | more
    return SimpleNamespace(declaration=declared, words=words.split(), **state)


def test_a_whole_number_at_the_end_of_a_name_is_its_index() -> None:
    bound, row = line_of("batch 1: 522.09s"), line_of("gemm 64   3 us")
    assert module.is_index(names("batch"), bound, 1) and module.is_index(names("gemm"), row, 1)
    assert not module.is_index(names("batch", measures=False), bound, 1)
    assert not module.is_index(names("step"), bound, 1)  # a counter
    assert not module.is_index(names(), bound, 1)
    assert not module.is_index(names("batch", is_bound=True), bound, 1)
    others = ("batch 1.5: 522.09s", "batch 1: x", "gemm 64 3 us", "gemm  64   3 us", "gemm 64   x")
    assert not any(module.is_index(names("gemm"), line_of(text), 1) for text in others)


def test_a_count_in_a_name_is_of_things_that_are_counted() -> None:
    text = "Generated 96 tokens: 1.78 s"
    assert module.is_count_in_name(names("Generated"), line_of(text), 1)
    others = ("Generated 96 ms: 1.78 s", "Generated 9.6 tokens: 1.78 s", "Generated 96 tokens 1.78 s", "a 96 tokens: x")
    assert not any(module.is_count_in_name(names("Generated"), line_of(each), 1) for each in others)
    for other in (names("Generated", measures=False), names(), names("Generated", is_bound=True)):
        assert not module.is_count_in_name(other, line_of(text), 1)


def test_a_percentile_is_a_number_with_a_percent_sign_before_a_mark() -> None:
    assert module.is_percentile(names(), line_of("50%: 412 KiB/s"), 0)
    assert module.is_percentile(names(), line_of("50% = 412"), 0)
    others = ("50% 412", "50%: x", "50: 412")
    assert not any(module.is_percentile(names(), line_of(text), 0) for text in others)
    assert not module.is_percentile(names(measures=False), line_of("50%: 412"), 0)
    assert not module.is_percentile(names(is_bound=True), line_of("50%: 412"), 0)


def test_words_before_a_wide_gap_name_a_case() -> None:
    line = line_of("gemm_bf16    m=64  time=2.5us")
    assert module.begins_pairs(names("gemm_bf16"), line, 1)
    assert not module.begins_pairs(names("gemm_bf16"), line_of("gemm_bf16 m=64"), 1)
    assert not module.begins_pairs(names("gemm_bf16"), line_of("gemm_bf16    m 64"), 1)
    for other in (names("Result"), names("val"), names(), names("x", measures=False), names("x", is_bound=True)):
        assert not module.begins_pairs(other, line, 1)


def test_a_case_begins_with_for_and_ends_with_a_colon() -> None:
    line = line_of("Latency for batch size 8: 3 ms")
    assert module.end_of_condition(names("Latency"), line, 1) == 5
    assert module.end_of_condition(names("Latency"), line, 2) == 0
    others = [("Latency for: 3 ms", 1), ("Latency for batch 8 3 ms", 1), ("Latency for 8: x", 1), ("a = for b: 3", 2)]
    assert [module.end_of_condition(names("Latency"), line_of(text), k) for text, k in others] == [0] * 4
    for other in (names(), names("Latency", measures=False), names("Latency", printed={"x"})):
        assert module.end_of_condition(other, line, 1) == 0


def test_statistics_are_of_the_quantity_before_them() -> None:
    assert module.begins_statistics(names("Latency"), "avg")
    assert module.begins_statistics(names("Latency", is_bound=True, mark=":"), "p99")
    assert not module.begins_statistics(names("Latency", is_bound=True, mark="="), "p99")
    assert not module.begins_statistics(names("Latency"), "llama")
    for other in (names("llama"), names(), names("Latency", measures=False), names("Latency", is_listed=True)):
        assert not module.begins_statistics(other, "avg")


def test_brackets_after_a_name_hold_a_unit() -> None:
    assert module.is_key_unit(names("busbw"), line_of("busbw [GB/s]: 231.2"), 1)
    assert not module.is_key_unit(names("busbw", measures=False), line_of("busbw [GB/s]: 231.2"), 1)
    assert not any(module.is_key_unit(names("a"), line_of(x), 1) for x in ("a [x]: 2", "a (GB/s): 2", "a [GB/s, s]: 2"))


def test_a_label_comes_first_and_pairs_follow() -> None:
    assert module.is_label(names(), line_of("RESULT tp=8 ttft_ms=32.1"), 0)
    assert not module.is_label(names(measures=False), line_of("RESULT tp=8"), 0)
    assert not module.is_label(names(), line_of("llama tp=8"), 0)
    assert not module.is_label(names(), line_of("RESULT tp 8"), 0)
    assert not module.is_label(names(), line_of("RESULT tp=8"), 1)


@pytest.mark.parametrize(
    ("text", "mark", "is_case"),
    [
        ("dtype=bf16 bs=2", "=", True),
        ("dtype=bf16", "=", True),
        ("dtype:bf16 bs=2", ":", False),
        ("dtype:bf16, bs=2", ":", True),
        ("dtype:bf16 | bs=2", ":", True),
        ("dtype=bf16 bs 2", "=", False),
    ],
)
def test_the_value_of_a_name_ends_before_the_next_name(text: str, mark: str, is_case: bool) -> None:
    assert module.is_case(names("dtype", is_bound=True, mark=mark), line_of(text), 2) is is_case
    assert not module.is_case(names("dtype", is_bound=True, mark=mark, measures=False), line_of(text), 2)
    assert not module.is_case(names("dtype", is_bound=True, mark=mark, is_listed=True), line_of(text), 2)
    assert not module.is_case(names("dtype", mark=mark), line_of(text), 2)
    assert not module.is_case(names("", is_bound=True, mark=mark), line_of(text), 2)


def test_words_before_a_comma_are_the_case_of_three_numbers() -> None:
    line = line_of("L2 read, iters: 9, mean: 3 us, max: 4 us")
    assert module.begins_with_case(names("L2 read"), line, 2)
    assert module.begins_with_case(names("L2 read"), line_of("L2 (read), iters: 9, mean: 3 us, max: 4 us"), 4)
    two = line_of("L2 read, iters: 9, mean: 3 us")
    assert not module.begins_with_case(names("L2 read"), two, 2) and not module.begins_with_case(names(), line, 0)
    assert not module.begins_with_case(names("val read"), line_of("val read, a: 9, b: 3, c: 4"), 2)
    assert not module.begins_with_case(names("L2 3"), line_of("L2 3, a: 9, b: 3, c: 4"), 2)
    for other in (names("L2 read", measures=False), names("L2 read", printed={"x"})):
        assert not module.begins_with_case(other, line, 2)


def test_marks_that_bind_a_number_to_its_name() -> None:
    assert module.bar_binds(names(), line_of("Latency | 3 ns"))
    assert not module.bar_binds(names(), line_of("a | b | 3")) and not module.bar_binds(
        names(measures=False), line_of("a | 3")
    )
    assert module.mark_binds(names("time"), line_of("time ~0.9 s"), 1)
    assert module.mark_binds(names("Decode time"), line_of("[Decode time] 296 s"), 3)
    assert not module.mark_binds(names("time"), line_of("a [time] 296 s"), 3)
    assert not module.mark_binds(names("Decode time"), line_of("[Decode time] x"), 3)
    assert not module.mark_binds(names("time", measures=False), line_of("time ~0.9 s"), 1)


@pytest.mark.parametrize(
    ("key", "unit", "printed", "name"),
    [
        ("Throughput", "tok/s", "tokens/s", "Throughput tokens per s"),
        ("Throughput", "1/s", "img/s", "Throughput img per s"),
        ("token rate", "tok/s", "tokens/s", "token rate"),
        ("TPS", "tok/s", "tok/s", "TPS"),
        ("Rate", "1/s", "qps", "Rate"),
        ("Time", "s", "s", "Time"),
        ("", "tok/s", "tok/s", ""),
    ],
)
def test_a_rate_is_named_by_what_it_counts(key: str, unit: str, printed: str, name: str) -> None:
    assert module.with_counted(names(), key, unit, printed) == name


def test_of_other_lines_only_values_of_tokens_are() -> None:
    assert module.with_counted(names(measures=False), "speed", "tok/s", "toks/s") == "speed tokens per s"
    assert module.with_counted(names(measures=False), "speed", "1/s", "img/s") == "speed"
    assert module.with_counted(names(measures=False, table="steps"), "speed", "tok/s", "toks/s") == "speed"
