"""The course of a job in words: its goodput, and since which step it is at another level."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts import job_course as module
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables
from perflog.metrics.jobs.job_intervals import CHECKPOINT, COMPILE, EVALUATION, STALL, TRAINING, Interval
from perflog.metrics.power.lower_clocks import DeviceClock

TABLES = Tables(by_hand("steps", []))


def job(runs: int = 2, whole: bool = True, wall: float = 0.0, **seconds: float) -> Any:
    kinds = {"training": TRAINING, "stall": STALL, "compile": COMPILE}
    times = {kinds.get(kind, kind): time for kind, time in seconds.items()}
    wall = wall or sum(times.values())
    return SimpleNamespace(
        job="j", runs=list(range(runs)), whole=whole, seconds=times, wall_s=wall, is_stamped=True, intervals=[]
    )


def with_pauses(kind: str, *seconds: float) -> Any:
    """Ten steps of a second before each pause."""
    found, at = [], 0
    for number, pause in enumerate(seconds, 1):
        middle, end = at + 10 * 10**9, at + round((10 + pause) * 10**9)
        found.append(("r", 1, Interval(TRAINING, at, middle, 10 * number - 9, 10 * number, 1, 1, "", 0.0)))
        found.append(("r", 1, Interval(kind, middle, end, None, None, 1, 1, "", 0.0)))
        at = end
    times: dict[str, Any] = {kind: sum(seconds)}
    of = job(1, training=10.0 * len(seconds), **times)
    of.intervals = found
    return of


@pytest.mark.parametrize(
    ("seconds", "each", "growing"),
    [
        ([5.0] * 6, " (6 x 5 s)", []),
        ([5.0, 5.5, 4.5, 5.0, 5.2, 4.9], " (6 x 5 s)", []),
        ([5.0, 9.0], "", []),  # too few
        (
            [2.0, 4.0, 6.0, 8.0, 11.0],
            "",
            ["Checkpoints take longer and longer: 2 s after step 10 -> 11 s after step 50 (5 in all)."],
        ),
        ([9.0, 2.0, 11.0, 3.0, 10.0, 12.0], "", []),  # in no order
        ([0.0, 4.0, 6.0, 8.0, 11.0], "", []),
        ([0.02, 0.04, 0.06, 0.08, 0.11], "", []),  # of a hundredth of the job
        ([4.0, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6, 4.7, 9.0], "", []),  # the last one alone
        (
            [4.0, 4.1, 9.0, 4.2, 9.1, 9.2, 9.3, 9.4, 9.5],
            "",
            ["Checkpoints take longer and longer: 4 s after step 10 -> 9.5 s after step 90 (9 in all)."],
        ),
    ],
)
def test_pauses_that_grow(seconds: list[float], each: str, growing: list[str]) -> None:
    of = with_pauses(CHECKPOINT, *seconds)
    assert module._each(of, CHECKPOINT) == each
    assert list(module._growing_pauses(of)) == growing
    texts = [text.replace("Checkpoints", "Evaluations") for text in growing]
    assert list(module._growing_pauses(with_pauses(EVALUATION, *seconds))) == texts


def test_pauses_in_the_goodput() -> None:
    """The longest stall, and each of checkpoints that take about as long."""
    assert module._goodput(with_pauses(STALL, 10.0, 5.0)) == (
        "Goodput 57.1 %: training 20 s of 35 s; stall 15 s (the longest 10 s after step 10)."
    )
    assert module._goodput(with_pauses(CHECKPOINT, 30.0, 30.0)) == (
        "Goodput 25 %: training 20 s of 80 s; checkpoint 60 s (2 x 30 s)."
    )
    assert module._each(with_pauses("down", 30.0, 30.0), "down") == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [([], ""), ([10.0], " (after step 10)"), ([10.0, 5.0], " (the longest 10 s after step 10)")],
)
def test_the_longest_stall(seconds: list[float], text: str) -> None:
    assert module._longest(with_pauses(STALL, *seconds)) == text


@pytest.mark.parametrize(("runs", "shown"), [(1, 1), (3, 3), (4, 0)])
def test_ranks_with_another_clock(monkeypatch: pytest.MonkeyPatch, runs: int, shown: int) -> None:
    monkeypatch.setattr(module, "clock_offsets", lambda _, run: {} if run == "r" else {1: 5.2, 2: 4.9, 3: -3600.0})
    tables: Any = SimpleNamespace(rows_of=lambda *_: {"rank": pd.Series([2, 0, 1])})
    names = [f"r{n}" for n in range(runs)]
    groups = [RunGroup("A", "", ("r", *names), {})]
    clock = "the clock of rank 0"
    text = f"Clocks differ from {clock}: ranks 1, 2 by +5 s; rank 3 by -3,600 s. Times are by {clock}."
    assert list(module._other_clocks(tables, groups, {"r0": "A: "})) == [f"A: {text}", text, text][:shown]


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (
            job(training=900.0, down=90.0, startup=10.0),
            "Goodput 90 %: training 900 s of 1,000 s; down 90 s, startup 10 s.",
        ),
        (job(training=0.9, down=0.1), "Goodput 90 %: training 900 ms of 1 s; down 100 ms."),
        (job(training=995.6, down=4.4), "Goodput 99.6 %: training 996 s of 1,000 s."),
        (job(training=80.0, stall=5.0, down=15.0), "Goodput 80 %: training 80 s of 100 s; down 15 s, stall 5 s."),
        (job(1, training=95.0, stall=5.0), ""),  # one attempt, and a high goodput
        (job(1, training=90.0, stall=10.0), "Goodput 90 %: training 90 s of 100 s; stall 10 s."),
        (job(1, training=45.0, down=14.9), ""),  # shorter than a minute
        (job(1, training=45.0, down=15.0), "Goodput 75 %: training 45 s of 60 s; down 15 s."),
        (job(1, training=40.0, stall=10.0), "Goodput 80 %: training 40 s of 50 s; stall 10 s."),
        (
            job(1, training=15.0, unknown=60.0),
            "Goodput at least 20 %: training 15 s of 75 s; unknown 60 s.",
        ),
        (job(down=10.0), ""),
        (job(training=0.0, wall=0.0), ""),
        (
            job(whole=False, training=80.0, down=20.0),
            "From printed durations: training 80 s, down 20 s; other time is unknown.",
        ),
        (
            job(whole=False, training=80.0, unknown=200.0, down=20.0),
            "From printed durations: training 80 s, down 20 s; other time is unknown.",
        ),
        (job(whole=False, training=80.0, compile=20.0, unknown=99.0), ""),  # only steps have a duration
    ],
)
def test_the_goodput_of_a_job(of: Any, text: str) -> None:
    assert module._goodput(of) == text


def test_what_other_logs_report_at_the_time_of_a_change() -> None:
    def row(table: str, run: str, line: int, **more: Any) -> dict[str, Any]:
        return {"table": table, "run": f"{run}-1", "line": line, "clock": "utc", **more}

    rows = [row("runs", run, 1, log=f"x/{run}.log") for run in ("a", "dmesg")]
    rows += [row("steps", "a", step, step=step, printed_ns=10 * step * 10**9) for step in range(1, 31)]
    for at, text in ((195, "Link down\nand more"), (50, "early"), (260, "late"), (199, "x" * 100)):
        rows.append(row("failures", "dmesg", at, time_ns=at * 10**9, kind=text[:1], message=text))
    rows.append(row("failures", "a", 20, time_ns=200 * 10**9, kind="own", message="own"))
    frames = by_hand("steps", rows)
    tables = Tables(frames | {"runs": frames["runs"][1:]})
    text = f"At that time: `Link down` (dmesg.log:195), `{'x' * 90}...` (dmesg.log:199)."
    assert list(module._reported_beside(tables, "a-1", 20)) == [text]
    assert list(module._reported_beside(TABLES, "r", 20)) == []


@pytest.mark.parametrize(("count", "shown"), [(1, True), (3, True), (4, False)])
def test_a_few_jobs_are_shown_one_by_one(monkeypatch: pytest.MonkeyPatch, count: int, shown: bool) -> None:
    jobs = [job(training=900.0, down=100.0) for _ in range(count)]
    jobs.append(job(whole=False, training=80.0, down=20.0))  # stamped, but with no clock over all attempts
    monkeypatch.setattr(module, "job_timelines", lambda _: jobs)
    monkeypatch.setattr(module, "level_changes", lambda *_: iter(["changes"]))
    groups = [RunGroup("A", "", ("j", "j2"), {}, is_job=True), RunGroup("B", "", ("k",), {})]
    text = "Goodput 90 %: training 900 s of 1,000 s; down 100 s."
    mark = "A: " if count > 1 else ""
    assert list(module.course_of_job(TABLES, groups, Options())) == [mark + text] * count * shown + ["changes"]


def levels(run: str, *rows: tuple[int, float, float], figure: str = "step_time_s", **more: Any) -> list[dict[str, Any]]:
    usual = {
        "run": run,
        "figure": figure,
        "unit": "s" if figure == "step_time_s" else "1/s",
        "at": None,
        "with_it": None,
    }
    return [usual | {"first_step": step, "value": value, "change": change} | more for step, value, change in rows]


def changes(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any], runs: int = 1) -> list[str]:
    names = ["run", "figure", "unit", "at", "with_it", "first_step", "last_step", "value", "change"]
    table = pd.DataFrame(list(rows), columns=names)
    monkeypatch.setattr(module, "levels_of_runs", SimpleNamespace(table=lambda *_: table))
    frames = by_hand("steps", [])
    every = [frames["runs"].assign(run=f"r{n}") for n in range(runs)]
    tables = Tables(frames | {"runs": pd.concat(every, ignore_index=True)})
    return list(module.level_changes(tables, Options(), {"r0": "A: "}))


def test_since_when_a_run_is_at_another_level(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = levels("r0", (1, 1.0, 0.0), (50, 1.5, 0.5), (90, 1.0, -1 / 3))
    assert changes(monkeypatch, *rows) == [
        "A: Since step 50: step 1 s -> 1.5 s, +50.0 %.", "A: Since step 90: step 1.5 s -> 1 s, -33.3 %.",
    ]  # fmt: skip
    rate = levels(
        "r0", (1, 12345.6, 0.0), (50, 6000.0, -0.5), figure="tokens_per_s", at="2026-03-01 02:03:04.5", with_it="x"
    )
    assert changes(monkeypatch, *rate) == ["A: Since step 50 (02:03:04): tokens/s 12,346 -> 6,000, -50.0 %; with it x."]
    assert changes(monkeypatch) == []


def test_levels_to_and_fro(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = levels("r0", (1, 1.0, 0.0), (50, 1.5, 0.5), (90, 1.02, -0.32), (120, 1.52, 0.49), with_it="data 1 s -> 2 s")
    for row in rows:
        row["last_step"] = row["first_step"] + 29
    text = "A: Step alternates between 1.01 s and 1.51 s (+49.5 %): slower in steps 50 to 79, 120 to 149"
    assert changes(monkeypatch, *rows) == [f"{text}; with it data 1 s -> 2 s."]
    rows[3]["value"] = 2.0
    assert len(changes(monkeypatch, *rows)) == 3


@pytest.mark.parametrize(
    ("alike", "others", "runs", "text"),
    [
        (4, 0, 7, "4 of 7 runs change at step 50: step 1 s -> 1.5 s."),
        (4, 0, 8, None),  # half of the runs
        (3, 2, 5, "3 of 5 runs change at step 50: step 1 s -> 1.5 s."),
        (2, 2, 4, None),
    ],
)
def test_many_runs_that_change_at_one_step(
    monkeypatch: pytest.MonkeyPatch, alike: int, others: int, runs: int, text: str | None
) -> None:
    rows = [row for n in range(alike) for row in levels(f"r{n}", (1, 1.0, 0.0), (50, 1.5, 0.5))]
    rows += [row for n in range(others) for row in levels(f"r{alike + n}", (1, 1.0, 0.0), (60 + n, 1.5, 0.5))]
    assert changes(monkeypatch, *rows, runs=runs) == ([text] if text else [])


def test_three_runs_are_described_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for n in range(3) for row in levels(f"r{n}", (1, 1.0, 0.0), (50, 1.5, 0.5))]
    assert len(changes(monkeypatch, *rows, runs=3)) == 3


def slower(monkeypatch: pytest.MonkeyPatch, *devices: DeviceClock) -> list[str]:
    monkeypatch.setattr(module, "device_clocks", lambda *_: list(devices))
    return list(module._slower_devices(TABLES, "r", 1, 5, None))


def test_devices_with_a_lower_clock_since_then(monkeypatch: pytest.MonkeyPatch) -> None:
    hot, usual = DeviceClock(5, "", "", (2e9, 1e9), (60, 90)), DeviceClock(1, "", "", (2e9, 2e9), (60, 61))
    text = "Since then device 5: clock 2 GHz -> 1 GHz, temperature 60 -> 90 °C"
    assert slower(monkeypatch, hot) == [f"{text}."]
    assert slower(monkeypatch, hot, usual, usual) == [f"{text}; 2 other devices as before."]
    assert slower(monkeypatch, usual) == slower(monkeypatch) == []


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (DeviceClock(5, "n2", "a.csv", (2e9, 1e9), None), "device 5 of n2: clock 2 GHz -> 1 GHz"),
        (DeviceClock(5, "", "a.csv", (2e9, 1e9), None), "device 5 of a.csv: clock 2 GHz -> 1 GHz"),
        (DeviceClock(None, "", "a.csv", (2e9, 1e9), None), "device of a.csv: clock 2 GHz -> 1 GHz"),
    ],
)
def test_which_device_it_is(monkeypatch: pytest.MonkeyPatch, device: DeviceClock, text: str) -> None:
    assert slower(monkeypatch, device) == [f"Since then {text}."]


@pytest.mark.parametrize(
    ("groups", "logs", "marks"),
    [
        ([["r"]], ["a.log"], [""]),
        ([["r"], ["s"]], ["a.log", "a.log"], ["A: ", "B: "]),
        ([["r", "s"]], ["x/a.log", "x/b.log"], ["a.log: ", "b.log: "]),
        ([["r", "s"], ["t"]], ["x/a.log", "y/a.log", "b.log"], ["A run 1 of 2: ", "A run 2 of 2: ", "B: "]),
    ],
)
def test_prefixes_of_sentences_on_a_run(groups: list[list[str]], logs: list[str], marks: list[str]) -> None:
    runs = [run for of in groups for run in of]
    tables = Tables({"runs": pd.DataFrame({"run": runs, "log": logs})})
    rows = [RunGroup("AB"[k], "", tuple(of), {}) for k, of in enumerate(groups)]
    assert list(module._marks(tables, rows).items()) == list(zip(runs, marks, strict=True))
