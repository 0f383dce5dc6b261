"""The screen of an overview: what each of its parts says, and what is left out where room is short."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.overviews import STEP, doubt, groups, overview, part

from perflog.analysis.overview.run_figures import RunFigure
from perflog.output.presenters import overview as module


@pytest.mark.parametrize(
    ("unread", "figures", "words"),
    [
        (0, 0, "all lines read"),
        (1, 0, "1 line unread of 9 lines"),
        (0, 1, "1 figure unread of 9 lines"),
        (2, 3, "2 lines and 3 figures unread of 9 lines"),
    ],
)
def test_what_is_unread(unread: int, figures: int, words: str) -> None:
    seen = overview(lines={"total": 9, "unread": unread}, read_figures={"unread": figures} if figures else {})
    assert module.unread_in_words(seen) == words


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["/logs/run.txt"], "run.txt: moe, 1 run; all lines read"),
        (["/logs/sweep/", "b"], "sweep and 1 more: moe, 1 run; all lines read"),
        (["/"], "/: moe, 1 run; all lines read"),
    ],
)
def test_the_title_names_the_first_input(names: list[str], title: str) -> None:
    assert list(module._head(overview(names=names))) == [title]


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ([{"lr": "1", "bs": "8"}, {"lr": "2", "bs": "8"}], ["Runs differ in lr, bs."]),
        ([{"format": "a"}, {"format": "b"}], []),  # programs are no setting
        ([{"lr": "1", "format": "a"}, {"lr": "2", "format": "b"}], ["Runs differ in lr."]),
        ([{"lr": "1"}], []),  # a single row
    ],
)
def test_what_runs_differ_in(settings: list[dict[str, str]], lines: list[str]) -> None:
    assert list(module._head(overview(groups=groups(len(settings), settings))))[1:] == lines


def table(**fields: Any) -> list[str]:
    return [" ".join(line.split()) for line in module._table(overview(**fields))[0]]


def test_rows_that_differ_in_their_settings_alone_are_named_by_their_marks() -> None:
    settings = [{"lr": "0.1", "deep.size": "8"}, {"lr": "0.2", "deep.size": "8"}]
    assert table(groups=groups(2, settings)) == ["lr size step", "#1 0.1 8 1 s", "#2 0.2 8 2 s"]
    assert table(groups=groups(2, [{"lr": "1"}] * 2)) == ["lr step", "#1 log #1 1 1 s", "#2 log #2 1 2 s"]


def test_rows_with_labels_that_tell_their_settings_do_not_repeat_them() -> None:
    settings = [{"lr": "0.1"}, {"lr": "0.2"}]
    assert table(groups=groups(2, settings, names=["fast_0.1", "slow_0.2"]))[1:] == [
        "#1 fast_0.1 1 s", "#2 slow_0.2 2 s"
    ]  # fmt: skip
    assert table(groups=groups(2, settings, names=["fast_0.1", "slow"]))[1:] == [
        "#1 fast_0.1 0.1 1 s", "#2 slow 0.2 2 s"
    ]  # fmt: skip


def test_groups_of_repeats_have_their_number() -> None:
    assert table(groups=groups(2, [{"lr": "1"}, {"lr": "2"}], runs=2)) == [
        "lr runs step ± sd", "#1 1 2 1.5 s ± 47.1 %", "#2 2 2 3.5 s ± 20.2 %"
    ]  # fmt: skip


def test_the_change_is_beside_the_first_metric() -> None:
    loss = RunFigure("loss", "", "lower", {"r0": 2.5, "r1": 2.25})
    assert table(groups=groups(2), figures=[STEP, loss], base={1: 0}) == [
        "step vs #1 loss", "#1 log #1 1 s - 2.5", "#2 log #2 2 s +100 % 2.25"
    ]  # fmt: skip


@pytest.mark.parametrize(("reasons", "lines"), [([], 1), (["it waits"], 0)])
def test_without_a_metric_the_screen_says_so_unless_it_has_a_reason(reasons: list[str], lines: int) -> None:
    assert len(table(figures=[], reasons=reasons)) == lines


@pytest.mark.parametrize(("rows", "left_out"), [(9, None), (10, "... 2 more"), (20, "... 12 more")])
def test_of_many_rows_the_best_and_the_worst_are_shown(rows: int, left_out: str | None) -> None:
    lines = table(groups=groups(rows))
    assert [line for line in lines if "more" in line] == [left_out] * (left_out is not None)
    if left_out:
        shown = [line.split()[0] for line in lines[1:] if "more" not in line]
        assert shown == [f"#{n}" for n in (1, 2, 3, 4, *range(rows - 3, rows + 1))]


def test_the_best_of_a_rate_is_the_highest() -> None:
    rate = replace(STEP, better="higher")
    assert module._rows_shown(overview(groups=groups(10), figures=[rate])) == [9, 8, 7, 6, None, 3, 2, 1, 0]


def test_of_attempts_the_last_loss_counts() -> None:
    """They are no repeats: a mean and a deviation of losses on the way would be of nothing."""
    job = [replace(group, is_job=True) for group in groups(1, runs=3)]
    loss = RunFigure("loss", "", "lower", {"r0": 9.0, "r1": 5.0, "r2": 3.0}, is_last=True)
    assert table(groups=job, figures=[STEP, loss]) == ["attempts step ± sd loss", "3 2 s ± 50.0 % 3"]
    assert "runs" in table(groups=groups(1, runs=3), figures=[STEP, loss])[0]
    failed, every = (
        overview(groups=job).in_words(doubt("it failed", runs=runs)) for runs in (["r0", "r1"], job[0].runs)
    )
    assert (failed, every) == ("it failed (2 of 3 attempts)", "it failed (all attempts)")
    assert overview(groups=groups(1, runs=3)).value(loss, groups(1, runs=3)[0]) == pytest.approx(17 / 3)


def test_of_many_rows_with_few_values_the_first_are_shown() -> None:
    few = replace(STEP, values={f"r{n}": 1.0 for n in range(8)})
    assert module._rows_shown(overview(groups=groups(10), figures=[few])) == [0, 1, 2, 3, 4, 5, 6, 7, None]


def test_columns_without_room_are_named_or_told() -> None:
    long = [RunFigure(f"metric_{n}_{'x' * 20}", "s", "lower", {"r0": 1.0 + n, "r1": 5.0}) for n in range(5)]
    names = [figure.name for figure in long]
    lines, left_out = module._table(overview(figures=long))
    assert lines[0].split() == names[:2] and left_out == [f"Also {names[2]} 3 s and 2 more"]
    lines, left_out = module._table(overview(figures=long, groups=groups(2)))
    assert lines[0].split() == names[:2] and left_out == [f"No room for {names[2]} and 2 more"]
    unknown = [*long[:2], *(replace(figure, values={}) for figure in long[2:])]
    assert module._table(overview(figures=unknown))[1] == []


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        ([("1", "2", "3")], 3),
        ([("1", "2", "-"), ("-", "-", "3")], 2),  # the second row has nothing else
        ([("1", "-", "-"), ("-", "2", "-"), ("-", "-", "3")], 3),  # each column is the only one of a row
        ([("1", "2", "-"), ("-", "-", "-")], 3),
    ],
)
def test_a_column_is_left_out_that_no_row_needs(rows: list[tuple[str, ...]], index: int) -> None:
    table = [["", *"AB"], *map(list, zip(("step", "loss", "trace"), *rows, strict=True))]
    assert module._spare_column(table, 1) == index


def test_of_one_metric_a_setting_is_left_out() -> None:
    assert module._spare_column([["", "A"], ["batch", "8"], ["step", "1 s"]], 2) == 1


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        ([0.5, 0.25], ["Where the time goes", "  a   50 %    500 ms  ############", "  b   25 %    500 ms  ######"]),
        ([0.005], ["Where the time goes", "  a    0 %    500 ms  #"]),
        ([0.0049], []),
        ([0.1] * 6, ["Where the time goes", *(f"  {name}   10 %    500 ms  ##" for name in "abcde")]),
        ([], []),
    ],
)
def test_bars_of_the_parts(shares: list[float], lines: list[str]) -> None:
    parts = [part(name, share) for name, share in zip("abcdef", shares, strict=False)]
    assert list(module._bars(overview(parts=parts))) == lines


def test_parts_that_are_doubted_say_so_once() -> None:
    parts = [part("a", 0.5, doubt="few steps"), part("b", 0.25, doubt="few steps"), part("c", 0.001, doubt="small")]
    assert next(module._bars(overview(parts=parts))) == "Where the time goes (few steps)"
    assert next(module._bars(overview(parts=parts[:1], groups=groups(1, runs=2)))) == (
        "Where the time goes in the first run (few steps)"
    )


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["The checks found nothing to distrust."]),
        ({"doubts": [doubt("failed", is_outcome=True)]}, ["The other checks found nothing to distrust."]),
        ({"warnings": ["torn", "again"]}, ["Do not trust", "  ! torn"]),
        ({"doubts": [doubt("drift")]}, ["Do not trust", "  ! drift in line 7"]),
        ({"doubts": [doubt("few", "note")]}, ["Do not trust", "  - few in line 7"]),
        (
            {"doubts": [doubt("drift"), doubt("few", "note")]},
            ["Do not trust", "  ! drift in line 7", "  and 1 more kind of finding: perflog lint run.txt"],
        ),
        (
            {"doubts": [doubt(name) for name in "abc"]},  # of a single run two, which are longer
            ["Do not trust", "  ! a in line 7", "  ! b in line 7",
             "  and 1 more kind of finding: perflog lint run.txt"],
        ),
        (
            {"doubts": [doubt(name) for name in "abcdefg"], "groups": groups(2)},
            ["Do not trust", *(f"  ! {name} (#1)" for name in "abcde"),
             "  and 2 more kinds of finding: perflog lint run.txt"],
        ),
        (
            {"doubts": [doubt(name) for name in "abcde"], "groups": groups(2), "warnings": ["torn", "again"]},
            ["Do not trust", "  ! torn", *(f"  ! {name} (#1)" for name in "abcd"),
             "  and 1 more kind of finding: perflog lint run.txt"],
        ),
    ],
)  # fmt: skip
def test_what_not_to_trust(fields: dict[str, Any], lines: list[str]) -> None:
    assert list(module._doubts(overview(**fields), 4)) == lines


def test_two_commands_are_next() -> None:
    seen = overview(next=["perflog lint run.txt", "perflog report run.txt", "perflog show run.txt"])
    assert list(module._next(seen)) == ["Next: perflog lint run.txt", "      perflog report run.txt"]


@pytest.mark.parametrize("room", [True, False])
def test_what_holds_up_a_run_comes_before_the_columns_without_room(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_table", lambda _: (["table"], ["Also more"]))
    seen = overview(reasons=["it waits", "for others"], warnings=[] if room else [f"warning {'of a log ' * 20}"])
    monkeypatch.setattr(module, "HEIGHT", 8 if room else 5)
    lines = module.screen(seen)
    assert len(lines) <= (8 if room else 5)
    if room:
        assert lines[2:5] == ["Also more", "it waits", "for others"]
    else:
        assert lines[2].startswith("it waits")
