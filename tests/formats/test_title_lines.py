"""Titles of cases and of tables, and headings: what is a title, and what is a result, a sentence or a series."""

from __future__ import annotations

import pytest

from perflog.formats.families.title_lines import (
    heading_parts,
    may_have_unit,
    table_title_parts,
    title_parts,
    title_text,
    unit_of_title,
)


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("=== batch=8, seq=2048 ===", "=== {title::c} ==="),
        ("  === ab", "  === {title::c}"),
        ("*** copy ***", "*** {title::c} ***"),
        ("## copy", "## {title::c}"),
        ("### copy", "### {subtitle::c}"),
        ("### copy ###", "### {title::c} ###"),
        ("--- llama", "--- {subtitle::c}"),
        (">> copy", ">> {subtitle::c}"),
        ("--- llama, tp=8: M=64 ---", "--- {subtitle:T} ---"),
        ("[BENCHMARK] llama bf16", "[BENCHMARK] {subtitle:x}"),
        ("Backend: nccl", "Backend: {subtitle::c}"),
        ("Running benchmark: copy...", "Running benchmark: {subtitle::c}..."),
        ("EAGLE-3 (num_steps=8):", "{title::c}:"),
    ],
)
def test_a_title_is_marked_or_has_a_word_before_it(text: str, template: str) -> None:
    assert title_text(text) == template


@pytest.mark.parametrize(
    "text",
    [
        "words",
        "EAGLE-3 (num_steps):",
        "=== Epoch 3 ===",  # a series
        "=== trial 3 ===",
        "=== took 3 ms ===",  # a result
        "=== copy 10:30 ===",
        "=== llama: 3 ===",
        "=== llama: x",
        "[BENCHMARK] llama: bf16",
        "Config: a: b",
        "=== done ===",  # a sentence
        "== This is it. ==",
        "=== with all... ===",
        "=== x ===",  # no word
        "=== a {b} ===",
        "=== " + "ab " * 50 + "===",
    ],
)
def test_a_result_a_series_or_a_sentence_is_no_title(text: str) -> None:
    assert title_parts(text) is None and title_text(text) is None


def test_a_title_has_at_most_120_characters() -> None:
    assert title_parts("=== " + 120 * "a") is not None and title_parts("=== " + 121 * "a") is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("batch 8", ("", "batch 8", "")),
        ("TP=6", ("", "TP=6", "")),
        ("Results:", ("", "Results", ":")),
        ("== copy ==", ("== ", "copy", " ==")),
        ("<h1>Copy</h1>", ("<h1>", "Copy", "</h1>")),
        ("took 3 ms", None),  # a result
        ("took 3 ms:", ("", "took 3 ms", ":")),  # words about the table
        ("**took 3 ms**", ("**", "took 3 ms", "**")),
        ("Epoch 3", None),
        ("a. Bcd", None),
        ("done", None),
        ("x", None),
        ("copy | paste", None),
        ("it is.", None),
        ("run --b c", None),
        ("w " * 15 + "ab", ("", "w " * 15 + "ab", "")),
        ("w " * 16 + "ab", None),
        ("a" * 120, ("", "a" * 120, "")),
        ("a" * 121, None),
        ("loaded model:", None),
        ("see https://x", None),
    ],
)
def test_the_title_of_a_table_may_be_any_words_that_measure_nothing(
    text: str, parts: tuple[str, str, str] | None
) -> None:
    assert table_title_parts(text) == parts


def test_a_heading_is_words_with_a_mark_or_a_colon() -> None:
    assert heading_parts("  - Write a:") == ("  - ", "Write a", ":")
    assert heading_parts("- read") == ("- ", "read", "")
    assert heading_parts("a b c d e f g:") == ("", "a b c d e f g", ":")
    others = ("Storage Read", "- loading done:", "- epoch 3", "read 3 GB:", "a b c d e f g h:")
    assert [heading_parts(text) for text in others] == [None] * 5


def test_a_title_gives_its_unit_to_columns_of_its_quantity() -> None:
    titles = (
        "LOAD bandwidth GiB/s [Remote read]", "units: us", "Time [ ms ]", "latency in µs", "time (ms) and (ms)",
        "x (MB)", "x (foo)", "copy",
    )  # fmt: skip
    assert [unit_of_title(title) for title in titles] == ["GiB/s", "us", "ms", "µs", "ms", "", "", ""]
    assert may_have_unit("copy", "GB/s") and may_have_unit("latency", "ms") and may_have_unit("bw", "GB/s")
    others = [("time", "GB/s"), ("size", "GB/s"), ("speedup", "ms"), ("tok", "ms"), ("loss", "ms"), ("TFLOPS", "ms")]
    assert not any(may_have_unit(name, unit) for name, unit in others)
