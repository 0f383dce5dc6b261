"""Brief answers: at most 400 tokens for any input, no tables, exact figures, lines of the log.

Those about real logs and folders are looked at where they are made: `test_overview_screen.py`, and
`mcp_server/test_questions.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brief_answers import checked_lines
from support.commands import EARLY, NVPROF, PIPELINE, SWEEP, run, told
from support.megatron_logs import megatron_log

from perflog.output.brief import LIMIT, BriefLine, brief, tokens

if TYPE_CHECKING:
    from click.testing import Result

FAILURE = "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=900)
LINES = st.builds(BriefLine, TEXTS, st.integers(0, 6), st.integers(0, 90), st.booleans())


def checked(done: Result) -> list[str]:
    return checked_lines(done.stdout)


# --- the text -----------------------------------------------------------------------------------------------------


@given(st.lists(LINES, max_size=40))
def test_any_lines_have_room(lines: list[BriefLine]) -> None:
    answer = brief(lines)
    assert tokens("\n".join(answer)) <= LIMIT
    assert len(answer) <= len(lines) + 1


@given(st.lists(st.from_regex(r"[a-z]{1,9}( [a-z0-9.]{1,9}){0,5}", fullmatch=True), max_size=60), st.integers(60, 500))
def test_lines_are_whole_or_counted(texts: list[str], limit: int) -> None:
    lines = [BriefLine(f"{i}: {text}", i % 5) for i, text in enumerate(texts)]
    answer = brief(lines, limit)
    missing = re.fullmatch(r"and (\d+) more lines?: --format json has all", answer[-1]) if answer else None
    shown = answer[: -1 if missing else None]
    assert len(shown) + int(missing[1] if missing else 0) == len(lines)
    whole = [line.text for line in lines if line.text in shown]
    assert [text for text in shown if not text.endswith(" …")] == whole  # in their order


def test_what_matters_first_is_cut_last() -> None:
    lines = [BriefLine("later " * 40, 2), BriefLine("first", 0), BriefLine("command " * 30, 1, whole=True)]
    assert brief(lines, 50) == ["first", "and 2 more lines: --format json has all"]
    assert brief(lines, 90)[0].startswith("first")


def test_no_number_loses_its_unit() -> None:
    text = "the mean step takes 1,234,567.5 ms and more words that have no room"
    starts = {brief([BriefLine(text, 0, most)], limit)[0] for most in range(8, 40) for limit in range(18, 70)}
    assert "the mean step takes …" in starts and "the mean step takes 1,234,567.5 ms …" in starts
    assert not any(re.search(r"\d …", start) for start in starts)


def test_a_token_is_a_digit_a_sign_a_byte_or_a_piece_of_a_word() -> None:
    assert [tokens(text) for text in ("", "step", "steps", "12.5", "±", "a b", "a\n\nb", "x" * 40)] == [
        0, 1, 2, 4, 2, 2, 4, 20,
    ]  # fmt: skip


# --- logs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [EARLY, NVPROF, PIPELINE, SWEEP], ids=lambda name: Path(name).stem)
def test_the_figures_are_those_of_the_screen(log: str) -> None:
    lines, answer = checked(run(log, "--format", "brief")), told(log, "--format", "json")
    text = "\n".join(lines)
    assert lines[0].startswith(f"{Path(log).name}: {answer['log']['what']}")
    headline = answer["figures"][0]
    assert headline["text"] in text and f"Next: {answer['next'][0]['command']}" in lines
    first = next((doubt for doubt in answer["doubts"] if doubt["severity"] != "note"), None)
    assert first is None or f"{Path(log).name}:{first['line']}: " in text


def test_a_failure_comes_first(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(megatron_log({}, [500.0, 501.0, 502.0, 503.0]).replace("/       4 ", "/      90 ") + FAILURE)
    line = log.read_text().count("\n")
    lines = checked(run(log, "--format", "brief"))
    assert lines[1].startswith(f"! job.log:{line}: Ended by CUDA out of memory on rank 5")
    lines = checked(run("diagnose", log, "--format", "brief"))
    assert lines[0].startswith("Ended by CUDA out of memory on rank 5") and lines[1].startswith("Culprit: rank 5")
    assert any(text.startswith(f"Evidence: line {line}: ") for text in lines)


def test_many_runs_and_long_names(tmp_path: Path) -> None:
    """40 runs with long settings and odd names: base, best and worst are there, the rest is counted."""
    for i in range(40):
        name = f"{'very-long-name-' * 9}{i}-\u202e\x1b[31m-{'日本' * 8}.log"
        times = [100.0 + 10 * i + j % 3 for j in range(12)]
        (tmp_path / name).write_text(megatron_log({"tensorboard_dir": "/x" * 300, "micro_batch_size": i}, times))
    lines = checked(run(tmp_path, "--format", "brief"))
    assert any("step 101" in line for line in lines) and any("step 491" in line for line in lines)
    assert re.fullmatch(r"and \d+ more lines: --format json has all", lines[-1])
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)
    checked(run("diagnose", tmp_path, "--format", "brief"))


def test_a_comparison(tmp_path: Path) -> None:
    for name, ms in (("old", 100.0), ("new", 120.0)):
        (tmp_path / f"{name}.log").write_text(megatron_log({}, [ms + i % 3 for i in range(30)]))
    lines = checked(run("compare", tmp_path / "old.log", tmp_path / "new.log", "--format", "brief"))
    assert lines[0].startswith("new against old: +19.8 % step time") and "slower" in lines[0]
    assert any(line.startswith("step time 101 ms -> 121 ms, +19.8 %") for line in lines)
    checked(run("compare", SWEEP, "--by", "system", "--format", "brief"))
