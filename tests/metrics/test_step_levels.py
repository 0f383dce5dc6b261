"""Metric `levels`: since which step a run is at another level, and what else changed there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.jobs import Job
from support.metrics_logs import by_hand, rows

import perflog
from perflog.metrics import Tables, levels
from perflog.metrics.jobs import step_levels as module
from perflog.statistics.levels import Level
from perflog.statistics.shifts import shifts


def slower_from(step: int, last: int = 120, change: float = 1.5) -> Job:
    job = Job()
    job.start(60)
    times = 2 * np.exp(0.004 * np.random.default_rng(step).normal(size=last))
    times[step - 1 :] *= change
    job.steps(1, step - 1, iter(times[: step - 1].tolist()))
    job.save(step - 1, 20)
    job.steps(step, last, iter(times[step - 1 :].tolist()))
    return job


def read(text: str, folder: Path) -> perflog.Log:
    (folder / "log.txt").write_text(text)
    return perflog.read(folder / "log.txt")


def test_since_which_step(tmp_path: Path) -> None:
    table = levels(read(slower_from(71).text, tmp_path))
    assert table["first_step"].tolist() == [1, 71]
    assert table["last_step"].tolist() == [70, 120]
    assert table["value"].tolist() == pytest.approx([2, 3], rel=0.01)
    assert pd.isna(table["change"][0])
    assert table["change"][1] == pytest.approx(0.5, abs=0.01)
    assert table["with_it"][1] == "checkpoint"
    assert table["at"][1].startswith("2026-03-01 12:03:19")


def test_all_columns_of_the_levels() -> None:
    """Sixty steps of about 1 s, of which the first five are warm-up, then sixty of 1.5 s; line by line, each second."""
    begin = 1_700_000_000  # 2023-11-14 22:13:20 UTC
    steps = [
        {"step": step, "step_time_s": (1.0 if step <= 60 else 1.5) + 0.001 * (step % 3),
         "printed_ns": (begin + step) * 10**9, "clock": "utc"}
        for step in range(1, 121)
    ]  # fmt: skip
    same = {"run": "r", "label": None, "figure": "step_time_s", "unit": "s", "with_it": None}
    assert rows(levels(by_hand("steps", steps))) == [
        same | {"level": 1, "first_step": 6, "last_step": 60, "n": 55, "at": "2023-11-14 22:13:25.000",
                "value": 1.001, "change": None, "p": None, "first_line": 6},
        same | {"level": 2, "first_step": 61, "last_step": 120, "n": 60, "at": "2023-11-14 22:14:20.000",
                "value": 1.501, "change": pytest.approx(0.5 / 1.001), "p": 0.001, "first_line": 61},
    ]  # fmt: skip


def test_what_changed_with_it_is_named(tmp_path: Path) -> None:
    lines = slower_from(71).text.splitlines(keepends=True)
    step = next(i for i, line in enumerate(lines) if "iteration       71/" in line)
    log = read("".join(lines[:step]) + "".join(lines[step:]).replace("size:   128", "size:   192"), tmp_path)
    named = [text for text in levels(log)["with_it"] if isinstance(text, str)]
    assert not named or all("checkpoint" in text for text in named)


def test_a_steady_run_has_no_rows(tmp_path: Path) -> None:
    assert len(levels(read(slower_from(71, change=1.0).text, tmp_path))) == 0


def test_the_screen_and_the_linter_tell_both_levels(tmp_path: Path) -> None:
    log = read(slower_from(71).text, tmp_path)
    answer = perflog.overview(log)
    (since,) = [text for text in answer.reasons if text.startswith("Since step 71 (12:03:19)")]
    assert "s, +50." in since or "s, +49." in since
    assert " -> " in answer.figure_column(answer.figures[0])[1]
    (message,) = perflog.lint(log).query("code == 'drift'")["message"]
    assert "over steps 1 to 70, then" in message


@pytest.mark.parametrize(
    ("slow", "fast", "text"),
    [
        ((2, 3), (), "data of ranks 2, 3 100 ms -> 400 ms"),
        ((1, 2, 3), (0,), "data of all ranks but 0 100 ms -> 400 ms"),
        ((1, 2, 3), (), "data of all ranks but 0 100 ms -> 400 ms"),
        ((0, 1, 2, 3), (), "data 100 ms -> 400 ms"),
    ],
)
def test_the_ranks_on_which_a_phase_shifted(slow: tuple[int, ...], fast: tuple[int, ...], text: str) -> None:
    """`fast`: ranks on which it takes less time than before."""
    rows = [
        {"table": "phases", "step": step, "rank": rank, "phase": "data", "line": 4 * step + rank,
         "time_s": 0.1 if step <= 10 else 0.4 if rank in slow else 0.05 if rank in fast else 0.1}
        for step in range(1, 21) for rank in range(4)
    ]  # fmt: skip
    last = module._Last(43, 10)
    (found,) = module._changes(
        Tables(by_hand("phases", rows)).rows("phases"), "time_s", last, "data", "s", module._shift
    )
    assert found.text == text


@pytest.mark.parametrize("step", [31, 61, 91])
def test_the_first_level_is_no_warm_up(tmp_path: Path, step: int) -> None:
    """Half of the steps before a shift would be cut as a warm-up."""
    table = levels(read(slower_from(step).text, tmp_path))
    assert table["last_step"].tolist() == [step - 1, 120]
    assert table["first_step"].tolist()[0] <= 6
    assert table["value"].tolist() == pytest.approx([2, 3], rel=0.01)


def test_a_run_that_prints_rates_alone(tmp_path: Path) -> None:
    rates = 5800 * np.exp(0.004 * np.random.default_rng(3).normal(size=200))
    rates[120:] *= 0.75
    line = "step: {:2d}  loss:  2.5  memory: 47.10GiB(59.55%)  tps: {:,.0f}  tflops: {:.2f}  mfu: 34.18%\n"
    log = read("".join(line.format(step, rate, rate / 17.3) for step, rate in enumerate(rates, 1)), tmp_path)
    answer = perflog.overview(log)
    shown = {column[0].rstrip(" !"): column[1] for column in map(answer.figure_column, answer.figures)}
    assert [shown["TFLOP/s"], shown["tokens/s/GPU"]] == ["335.2 -> 251.6", "5,800 -> 4,352"]
    assert "Since step 121: tokens/s/GPU 5,799.5 -> 4,352, -25.0 %." in answer.reasons
    assert set(perflog.lint(log)["code"]) == {"drift"}


@pytest.mark.parametrize("n", [40, 100, 500])
def test_a_slow_wander_is_no_shift(n: int) -> None:
    """Each value is 0.95 times the one before, and chance: at most one run in a hundred is said to shift."""
    rng, found = np.random.default_rng(n), 0
    for _ in range(100):
        values = rng.normal(size=n + 100)
        for k in range(1, len(values)):
            values[k] += 0.95 * values[k - 1]
        found += len(shifts(1 + 0.01 * values[100:])) > 1
    assert found <= 1


def test_times_without_a_unit_have_levels_too(tmp_path: Path) -> None:
    """They are shown as printed. Other numbers have none."""
    rows = [f"{n},{9 - n / 50},{1.5 + 0.6 * (n > 60) + n % 7 / 500:.3f},{n % 7}\n" for n in range(1, 121)]
    (tmp_path / "steps.csv").write_text("step,loss,iter_time,hits\n" + "".join(rows))
    log = perflog.read(tmp_path / "steps.csv")
    table = levels(log)
    assert (table["figure"] == "iter_time").all() and table["first_step"].tolist()[1:] == [61]
    assert "Since step 61: iter_time 1.506 -> 2.106, +39.8 %." in perflog.overview(log).reasons


def test_ranks_that_print_one_after_the_other_change_together(tmp_path: Path) -> None:
    """Each rank has a file of its own, without a clock: the steps of all of them show what changed."""
    for rank in range(3):
        late = [step > 40 for step in range(1, 81)]
        times = [(1 + 0.001 * (step % 5) + is_late, 0.1 + is_late) for step, is_late in enumerate(late)]
        lines = [f"step {n} step_time {time:.3f}s data {data:.3f}s fwd 0.8s" for n, (time, data) in enumerate(times, 1)]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join([*lines, ""]))
    table = levels(perflog.read(tmp_path))
    assert table["with_it"].tolist()[1:] == ["data 100 ms -> 1.1 s"]


def test_what_changed_on_one_rank_comes_first(tmp_path: Path) -> None:
    """The others wait for it, so their waiting time grows as much."""
    noise = iter(np.exp(0.004 * np.random.default_rng(1).normal(size=1200)))
    lines = []
    for step in range(1, 81):
        for rank in range(4):
            is_late = step > 50
            data = next(noise) * (0.4 if is_late and rank == 3 else 0.01)
            sync = next(noise) * (0.42 if is_late and rank != 3 else 0.03)
            lines.append(
                f"<{rank}> step {step} step_time {0.45 + data + sync:.4f}s bwd {0.4 * next(noise):.4f}s "
                f"data {data:.4f}s grad_sync {sync:.4f}s\n"
            )
    (with_it,) = levels(read("".join(lines), tmp_path))["with_it"][1:]
    assert with_it.startswith("data of process-3 10 ms -> 400.") and "backward" not in with_it


def test_without_a_speed_the_longest_time_by_name_has_levels(tmp_path: Path) -> None:
    noise = np.exp(0.01 * np.random.default_rng(2).normal(size=60))
    lines = [
        f"iteration {step} loss 2.5 rollout {(60 if step > 39 else 40) * factor:.2f}s train 12.0s\n"
        for step, factor in enumerate(noise, 1)
    ]
    log = read("".join(lines), tmp_path)
    (row,) = levels(log).iloc[1:].to_dict("records")
    assert (row["figure"], row["first_step"], pd.isna(row["with_it"])) == ("rollout", 40, True)
    answer = perflog.overview(log)
    assert any(text.startswith("Since step 40: rollout 4") for text in answer.reasons)
    assert ["rollout", "40.1 s -> 60.1 s"] in [answer.figure_column(figure) for figure in answer.figures]


def test_a_drift_names_the_phase_that_grows(tmp_path: Path) -> None:
    lines = [
        f"step {k} step_time {0.3 + k / 100:.3f}s data_wait {k / 100:.3f}s fwd 0.1s bwd 0.2s\n" for k in range(1, 41)
    ]
    (text,) = [str(each) for each in perflog.lint(read("".join(lines), tmp_path)).query("code == 'drift'")["message"]]
    assert text.endswith("; with it data_wait 105 ms -> 305 ms")


def test_neither_a_countdown_nor_a_mean_so_far_is_the_time_that_has_levels(tmp_path: Path) -> None:
    noise, lines, total = np.random.default_rng(3).normal(size=(2, 90)), [], 0.0
    for step, (first, second) in enumerate(noise.T, 1):
        time = 1 + 0.02 * first + 0.5 * (40 < step <= 60)
        total += time
        rest = 5 * (90 - step) * (1 + 0.1 * second)
        lines.append(f"step {step} loss 2.5 eta {rest:.1f}s avg_time {total / step:.3f}s time {time:.3f}s\n")
    table = levels(read("".join(lines), tmp_path))
    assert set(table["figure"]) == {"time"} and table["first_step"].tolist()[1:] == [41, 61]


@pytest.mark.parametrize(("column", "first"), [("step_time_s", 0.5), ("tokens_per_s", 2.0)])
def test_steps_that_are_faster_than_the_steady_ones_are_a_level_and_no_warm_up(column: str, first: float) -> None:
    """A batch that grows after a third of the run."""
    values = np.where(np.arange(60) < 19, first, 1.0) + np.arange(60) % 3 / 1000
    series: Any = SimpleNamespace(values=values, warmup=SimpleNamespace(cut=19), column=column)
    assert [(level.start, level.stop) for level in module._levels_of(series, False)] == [(5, 19), (19, 60)]
    slow: Any = SimpleNamespace(values=1 / values, warmup=SimpleNamespace(cut=19), column=column)
    assert module._levels_of(slow, False) == []


@pytest.mark.parametrize(("warm", "found"), [(25, [(5, 25), (25, 100)]), (24, [])])
def test_a_warm_up_of_twenty_steps_behind_the_first_ones_is_a_level(warm: int, found: list[tuple[int, int]]) -> None:
    values = np.where(np.arange(100) < warm, 2.0, 1.0) + np.arange(100) % 3 / 1000
    series: Any = SimpleNamespace(values=values, warmup=SimpleNamespace(cut=warm), column="step_time_s")
    assert [(level.start, level.stop) for level in module._levels_of(series, False)] == found
    assert module._levels_of(series, True) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ([10.0] * 20, [30.0] * 20, (10.0, 30.0)),
        ([10.0] * 11 + [24.0] * 9, [30.0] * 20, None),  # it grew before, by more than half of that
        ([10.0] * 11 + [20.0] * 9, [30.0] * 20, (10.0, 30.0)),
        ([10.0] * 10 + [15.0] * 10, [25.0] * 20, None),  # its scatter is 2.5, and a shift is five times that
        ([10.0] * 20, [10.1] * 20, None),  # less than 2 %
        ([10.0] * 4, [30.0] * 20, None),  # too few
        ([10.0] * 5, [30.0] * 5, (10.0, 30.0)),
        ([30.0] * 5, [10.0] * 5, (30.0, 10.0)),
        ([10.0] * 5, [np.inf] * 5, None),
        ([99.0] * 5 + [10.0] * 20, [30.0] * 20 + [99.0] * 5, (10.0, 30.0)),  # the nearest ones count
    ],
)
def test_a_column_that_shifts_at_a_step(old: list[float], new: list[float], found: tuple[float, float] | None) -> None:
    rows = [{"step": step, "memory_bytes": value, "rank": 0} for step, value in enumerate([*old, *new])]
    steps = Tables(by_hand("steps", rows)).rows("steps")
    assert module._shift(steps, "memory_bytes", module._Last(len(old), len(old) - 1)) == found


@pytest.mark.parametrize(("ups", "downs", "varies"), [(2, 2, True), (1, 9, False), (9, 1, False), (0, 9, False)])
def test_times_that_only_grow_or_fall_do_not_vary(ups: int, downs: int, varies: bool) -> None:
    """More than a tenth of the values must be larger, and as many smaller, than the one before."""
    changes = np.array([1.0] * ups + [-1.0] * downs + [0.0] * (9 - ups - downs))
    assert module._varies(np.append(0.0, np.cumsum(changes))) == varies


def test_the_longest_time_by_name_is_the_first() -> None:
    """A mean so far comes last, however long it takes."""
    values = [
        {"table": "values", "key": key, "unit": "s", "value": time * (1 + step % 2 / 10), "step": step, "line": step}
        for step in range(30)
        for key, time in (("data", 1.0), ("rollout", 5.0), ("avg_rollout", 9.0), ("eta", 50.0))
    ]
    tables = Tables(by_hand("steps", [*({"step": step, "line": step} for step in range(30)), *values]))
    assert [each.column for series in module._named_times(tables, None, (), "s") for each in series] == [
        "rollout", "data", "avg_rollout",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ([100.0] * 5, [102.0] * 5, None), ([100.0] * 5, [103.0] * 5, (100.0, 103.0)), ([100.0] * 4, [200.0] * 9, None),
        ([1.0, 2, 3, 4, 9], [9.0] * 5, (3.0, 9.0)),  # a drift has no scatter
    ],
)  # fmt: skip
def test_halves_that_differ(old: list[float], new: list[float], found: tuple[float, float] | None) -> None:
    rows = [{"step": step, "memory_bytes": value, "rank": 0} for step, value in enumerate([*old, *new])]
    steps = Tables(by_hand("steps", rows)).rows("steps")
    assert module._halves(steps, "memory_bytes", module._Last(len(old), len(old) - 1)) == found


@pytest.mark.parametrize(
    ("values", "to_and_fro"),
    [
        ([1.0, 2.0, 1.0, 2.0], True), ([1.0, 2.0, 1.0], False), ([1.0, 2.0, 1.0, 2.0, 1.0], True),
        ([1.0, 2.25, 1.25, 2.25], False),  # equal levels lie within less than a quarter of the distance
        ([1.0, 2.5, 1.25, 2.5], True), ([2.5, 1.0, 2.5, 1.25], True), ([2.25, 1.0, 2.25, 1.25], False),
        ([1.0, 2.0, 3.0, 4.0], False),
    ],
)  # fmt: skip
def test_levels_that_go_to_and_fro(values: list[float], to_and_fro: bool) -> None:
    assert module.alternate(values) is to_and_fro


@pytest.mark.parametrize(
    ("one", "alike"), [((0.0, 1.0), True), ((0.0, 0.75), False), ((5.0, 9.0), True), ((1.0, 0.0), False)]
)
def test_shifts_of_one_direction_and_half_of_the_size_are_alike(one: tuple[float, float], alike: bool) -> None:
    assert module._moved_alike(one, (10.0, 12.0)) is alike


@pytest.mark.parametrize(
    ("rows", "before"),
    [
        ([{"step": step, "rank": 0} for step in (1, 2, 1, 3)], [True, True, True, False]),
        ([{"step": step, "source": "a"} for step in (1, 2, 1, 3)], [True, True, True, False]),
        ([{"step": step} for step in (1, 2, 1, 3)], [True, True, False, False]),  # of which rank is not known: by line
        ([{"step": step, "rank": 0} for step in (1, None, 1, 3)], [True, True, False, False]),
    ],
)
def test_rows_up_to_the_last_step_before_a_change(rows: list[dict[str, Any]], before: list[bool]) -> None:
    steps = Tables(by_hand("values", rows)).rows("values")
    assert module._Last(line=2, step=2).is_before(steps).tolist() == before


@pytest.mark.parametrize(
    ("members", "others", "text"),
    [
        ([0, 1], [], ""), ([2, 3], [0, 1], " of ranks 2, 3"), ([1, 2, 3], [0], " of all ranks but 0"),
        ([1], [0], " of rank 1"), (["a", "b"], ["c", "d"], " of a, b"), (["a", "b"], ["c"], " of a, b"),
        (["a", None], ["c", "d"], ""), ([0, 1], [None], " of ranks 0, 1"), ([*range(6)], [6, 7, 8], " of ranks 0-5"),
    ],
)  # fmt: skip
def test_names_of_ranks_and_sources(members: list[Any], others: list[Any], text: str) -> None:
    every = [{"source" if isinstance(each, str) else "rank": each} for each in (*members, *others)]
    rows = Tables(by_hand("values", every)).rows("values")
    places = [*range(len(every))]
    assert module._names_of(rows, places[: len(members)], places[len(members) :]) == text


def test_everything_that_changed_with_a_level() -> None:
    """Phases and values that shifted first, then what lines between the two steps report: four, and how many more."""
    rows: list[dict[str, Any]] = []
    for step in range(1, 21):
        late, line = step > 10, 10 * step
        rows.append({"step": step, "line": line, "rank": 0, "forward_s": 3.0 if late else 1.0,
                     "memory_bytes": 2.0**31 if late else 2.0**30})  # fmt: skip
        rows.append({"table": "phases", "step": step, "line": line + 1, "rank": 0, "phase": "data",
                     "time_s": 5.0 if late else 2.0})  # fmt: skip
        for key, unit in (("batch", None), ("train.loss", None), ("tokens_per_s", None), ("x.step_time_s", None)):
            value = {"table": "values", "step": step, "line": line + 2, "rank": 0, "key": key, "unit": unit}
            rows.append(value | {"value": 64.0 if late else 32.0})
    between = [(99, "before"), (105, "node_lost"), (106, "log"), (107, "node_lost"), (110, "after")]
    rows += [{"table": "milestones", "line": line, "kind": kind} for line, kind in between]
    tables = Tables(by_hand("steps", rows))
    series: Any = SimpleNamespace(run="r", column="step_time_s", lines=np.arange(10, 210, 10), steps=np.arange(1, 21))
    run = module.RunLevels(series, "s", [Level(0, 10, np.nan), Level(10, 20, 0.01)])
    assert module.changes_with(tables, run, 1) == (
        "data 2 s -> 5 s, forward 1 s -> 3 s, memory 1 GiB -> 2 GiB, batch 32 -> 64, and 1 more"
    )
    without = Tables({name: table for name, table in tables.items() if name in ("runs", "steps", "milestones")})
    assert module.changes_with(without, run, 1) == "forward 1 s -> 3 s, memory 1 GiB -> 2 GiB, node lost"
