"""The screen of an overview: at most 25 lines of 80 columns for whatever perflog reads, and the words on it."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import join, split

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.brief_answers import checked_lines
from support.commands import DATA, EARLY, MOE, NVPROF, run, told
from support.contradictions import contradictions
from support.field_logs import stored
from support.known_inputs import TRACES
from support.paths import ROOT, SHARED

import perflog
from perflog.analysis.overview import overview, overview_of
from perflog.metrics import METRICS, Options, Tables
from perflog.output.presenters.brief import overview_brief
from perflog.output.presenters.overview import screen
from perflog.output.screens import HEIGHT, WIDTH, command_lines, folded
from perflog.output.terminal import columns_of

SAMPLES = [path for path in sorted(DATA.rglob("*")) if path.is_file()] + TRACES
CORPUS = sorted((SHARED / "corpus").glob("*/*"))
LARGE = 400_000  # bytes: more of the same takes longer and tells no more
NOT_TOLD = {
    path
    for kind in (
        "dllogger/gkebe",  # losses with a clock
        "hftrainer",  # losses, and the time of the whole run
        "llmc/store",  # whole steps and MFU
        "moe/Wong",  # whole steps
        "torchtitan",  # rates and MFU
    )
    for path in CORPUS
    if str(path.relative_to(SHARED / "corpus")).startswith(kind)
}
"""Logs of the corpus that hold no figures about what takes the time; the 16 others and the five known logs do."""


@pytest.mark.parametrize("path", SAMPLES + CORPUS, ids=lambda path: path.name[:40])
def test_every_overview_fits_a_terminal_and_contradicts_nothing(path: Path) -> None:
    """And the commands that it suggests have an answer."""
    try:
        log = stored(path) if path.name.endswith(".json.gz") else perflog.find_runs(str(path))
    except perflog.PerflogError:
        pytest.skip("no log that is read without help")
    tables = Tables(log)
    seen = overview_of(log, tables, Options(), [str(path)])
    lines = screen(seen)
    assert len(lines) <= HEIGHT
    assert [line for line in lines if len(line) > WIDTH] == []
    checked_lines("\n".join(overview_brief(seen)))
    text = "\n".join(lines)
    assert "nan" not in text.split() or seen.outcome
    assert ("Do not trust" in text or "checks found nothing to distrust" in text) and "Next: perflog " in text
    if path in CORPUS:
        assert seen.what and seen.figures and seen.next
        held_up = [text for text in seen.reasons if not ("not in the log" in text or "does not show" in text)]
        assert bool(held_up) == (path not in NOT_TOLD), seen.reasons
    for words in map(split, seen.next):
        if words[1] == "analyze":
            assert all(len(METRICS[name].table(tables, Options())) for name in words[3:]), words
        elif words[1] == "compare" and path.stat().st_size < LARGE:
            assert "nothing" not in run(*words[1:]).stdout.splitlines()[0], words
    is_text = path.suffix in (".txt", ".log") and path.stat().st_size < LARGE
    if is_text or path in TRACES:
        text = path.read_text("utf-8", "replace") if is_text else ""
        assert list(contradictions(log, text, tables=tables, seen=seen)) == []


@pytest.mark.parametrize("columns", [40, 60])
def test_an_overview_fits_a_narrow_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.output.screens.width", lambda: columns)
    lost = "No room for TFLOP/s !, tokens/s !" if columns == 60 else "No room for vs #1, untimed and 2 more"
    for name, is_cut in (("reference:moe_layer.txt", True), (NVPROF, False)):
        lines = screen(overview(perflog.find_runs(name), name))
        assert len(lines) <= HEIGHT
        assert max(map(columns_of, lines)) <= columns
        assert (lost in lines) == is_cut


def test_a_finding_is_whole_where_the_screen_has_room() -> None:
    name = "reference:moe_layer.txt"
    text = " ".join(" ".join(screen(overview(perflog.find_runs(name), name))).split())
    assert "! step, TFLOP/s, tokens/s: the program subtracts time from what its clock measures (all runs)" in text
    assert "…" not in text


def test_the_screen_of_the_benchmark() -> None:
    lines = run("reference:moe_layer.txt").stdout.splitlines()
    assert lines[:7] == [
        "reference:moe_layer.txt: moe_layer, 4 runs x 100 steps, 4 ranks, cuda:0,",
        "  float16; all lines read",
        "Runs differ in num_local_experts.",
        "    num_local_experts            step !    vs #1  untimed  TFLOP/s !  tokens/s !",
        "#1                  8  21.29 ms ± 0.4 %        -   46.6 %       38.7   1,539,053",
        "#2                 16  22.57 ms ± 0.4 %   +6.0 %   45.2 %       36.5   1,452,124",
        "#3                 32  23.47 ms ± 0.4 %  +10.2 %   54.2 %       35.1   1,396,039",
    ]
    assert "  ! TFLOP/s: rates count nominal work, not what the ranks execute (all runs)" in lines
    assert lines[-2] == "Next: perflog compare reference:moe_layer.txt --by num_local_experts"


def test_the_readme_shows_the_screen_that_the_command_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("$ perflog reference:moe_layer.txt\n")[2].partition("```")[0]
    assert shown == run("reference:moe_layer.txt").stdout


def test_many_runs_are_one_screen(tmp_path: Path) -> None:
    """Forty logs with forty settings: the fastest and the slowest of them."""
    text = Path(EARLY).read_text()
    for i in range(40):
        log = tmp_path / f"a_log_with_a_long_name_that_says_which_run_{i:02}.txt"
        log.write_text(text.replace("model_dim = 1024", f"model_dim = {1024 + i}"))
    lines = screen(overview(perflog.read(tmp_path), str(tmp_path)))
    assert len(lines) <= HEIGHT and max(map(len, lines)) <= WIDTH
    assert sum("a_log_with_a" in line for line in lines) == 8
    assert any(line.strip() == "... 32 more" for line in lines)


def test_settings_make_room_for_the_first_figure() -> None:
    """Five settings with long values tell the runs apart: the time of a step is shown nonetheless."""
    seen = overview(perflog.find_runs("reference:training_sweep.txt"), "run.txt")
    settings = {f"a_setting_{i}": "and a value that is as long" for i in range(5)}
    groups = [replace(group, settings=settings | {"place": group.mark}) for group in seen.groups]
    lines = screen(replace(seen, groups=groups))
    assert max(map(len, lines)) <= WIDTH
    (titles,) = (line.split() for line in lines if line.startswith(" ") and "a_setting_0" in line)
    assert titles[-1] == "step"


def test_a_value_is_whole_below_a_name_as_long_as_the_line() -> None:
    seen = overview(perflog.read(EARLY), "run.txt")
    long = [replace(figure, name=f"{figure.name} {'of_a_part_' * 5}") for figure in seen.figures]
    lines = screen(replace(seen, figures=long))
    at = next(place for place, line in enumerate(lines) if "of_a_part" in line)
    assert "\u2026" not in lines[at + 1] and len(lines[at].split()) <= len(lines[at + 1].split())


@pytest.mark.parametrize("differ", [False, True])
def test_many_repeats_are_one_row_with_its_ends(tmp_path: Path, differ: bool) -> None:
    for i in range(12):
        text = Path(EARLY).read_text() + f"repeat {i}\n"
        text = re.sub(r"(step_time = 2.\.)\d", rf"\g<1>{i % 10}", text) if differ else text
        (tmp_path / f"run_{i:02}.txt").write_text(text)
    seen = overview(perflog.read(tmp_path), str(tmp_path))
    assert [len(group.runs) for group in seen.groups] == [12]
    assert seen.reasons[0].startswith("step: from ") == differ
    assert differ or any("in the first run" in line for line in screen(seen))


def test_names_of_runs_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "run\x1b[31m.txt"
    path.write_text(Path(MOE).read_text())
    assert all(line.isprintable() for line in screen(overview(perflog.read(path), str(path))))


@pytest.mark.parametrize("word", ["overview", "analyze"])
def test_commands_that_print_the_overview(word: str) -> None:
    assert run(word, NVPROF).stdout == run(NVPROF).stdout


def test_a_command_that_is_too_long_for_a_line_goes_on_the_next() -> None:
    command = "perflog compare reference:training_sweep.txt:1 reference:training_sweep.txt:2"
    assert command_lines("Next: ", command) == [
        "Next: perflog compare reference:training_sweep.txt:1 \\",
        "      reference:training_sweep.txt:2",
    ]


@pytest.mark.parametrize("before", range(60, 80))
def test_what_a_screen_leaves_out_divides_no_number(before: int) -> None:
    """The last word on a full screen is a whole one, and a percent sign stays with its number."""
    (line,) = folded(f"{'x' * before} 12,345 67 % of it {'y' * 80}", 1)
    assert len(line) <= WIDTH and line.endswith(" …")
    assert f"{' 12,345 67 % of it '}".startswith(line[before:-1].rstrip() + " ")
    assert not line.endswith("67 …")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1), min_size=1))
@example(["perflog", "lint", "a/long folder/" * 20 + "it's.log"])
@example(["\\" * 300, "b" * 74, "c" * 79])
def test_a_command_is_the_same_when_it_is_pasted(words: list[str]) -> None:
    for before in ("Next: ", "  and 3 more kinds: "):
        lines = command_lines(before, join(words))
        assert max(map(columns_of, lines)) <= WIDTH
        assert split("\n".join(lines).replace("\\\n", ""))[len(before.split()) :] == words


def test_analyze_in_full_prints_all_metrics() -> None:
    assert {"kernels", "ranges"} <= set(told("analyze", NVPROF, "--full", "--format", "json"))


def test_the_overview_as_json_has_base_units() -> None:
    answer = told("reference:moe_layer.txt", "--format", "json")
    assert answer["runs"][3]["step"] == pytest.approx(0.029216, abs=1e-6)
    assert answer["runs"][3]["change"] == pytest.approx(0.3722, abs=1e-4)
    assert [row["code"] for row in answer["doubts"]][:2] == ["nominal-work", "time-subtracted"]


def test_a_guess_is_no_fact(tmp_path: Path) -> None:
    """The screen tells it first of all doubts; other formats warn on standard error."""
    log, store = tmp_path / "run.txt", tmp_path / "store"
    log.write_text("".join(f"turn <{i * 3}>: work = {i / 7 + 1:.3f} units\n" for i in range(30)))
    run("ingest", "--guess", "--label", "mine", "--store", store, log)
    lines = run("overview", "mine", "--store", store).stdout.splitlines()
    assert lines[lines.index("Do not trust") + 1].startswith("  ! mine: names, units and tables are guesses")
    assert "names, units and tables are guesses" in run("overview", "mine", "--store", store, "--format", "json").stderr


def test_rates_of_ranks_are_guessed_where_each_line_has_a_rank(tmp_path: Path) -> None:
    log = tmp_path / "run.txt"
    others = "".join(f"10:00:0{k} [INFO][rank={k}] Loading part {k} of the model on cuda:{k}\n" for k in range(5))
    log.write_text(
        others
        + "".join(f"10:00:1{k} [INFO][rank=1] Prompt {k} done: 5{k} tokens in 1.5s (3{k}.5 tok/s)\n" for k in range(4))
    )
    assert "run.txt: guess, 1 run" in run(str(log)).stdout
    log.write_text(others)
    assert "nothing in it is recognised" in run(str(log), code=3).stderr


def test_several_logs_are_one_overview() -> None:
    text = run(MOE, str(DATA / "moe_layer_early.txt")).stdout
    assert text.startswith("moe_layer.txt and 1 more: moe_layer, 2 logs, ")


@pytest.mark.parametrize(
    ("word", "says"),
    [("anlyze", "No such command 'anlyze'"), ("nothing.txt", "no such file"), ("folder/x", "no such file")],
)
def test_a_word_that_is_neither_command_nor_log(word: str, says: str) -> None:
    done = run(word, code=2 if "command" in says else 3)
    assert says in done.stderr


def test_steps_between_lines_with_a_coarse_clock_count(tmp_path: Path) -> None:
    """Whole seconds give a step time for some lines only; the others are in the windows between them."""
    log = tmp_path / "train.log"
    clock = [24, 30, 36, 42, 48, 53, 58, 64]
    lines = [
        f"2026-07-30 19:{1 + s // 60:02}:{s % 60:02} | INFO | [Epoch 4] Batch {10 * k}/126 | loss=0.0{k}1"
        for k, s in enumerate(clock, 1)
    ]
    log.write_text("\n".join(lines) + "\n")
    assert " x 80 steps (8 printed)" in run(log).stdout.splitlines()[0]


def test_one_step_of_a_window_is_named_with_the_number_of_printed_lines(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "Epoch: [0]  [20/37]  eta: 0:01:13  lr: 0.0001  loss: 8.2 (10.3)  time: 3.98  data: 0.02  max mem: 6825\n"
    )
    assert " x 20 steps (1 printed: number 20)" in run(log).stdout.splitlines()[0]
