"""Hosts of one job: the run of the longest log represents the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.analysis import job_hosts as module
from perflog.analysis.compare.sides import named_sides
from perflog.analysis.run_list import RunList
from perflog.log import RunKey, combined
from perflog.metrics import Tables
from perflog.output.report.collect import collect
from perflog.tables.schema import UTC


def tables(**steps: int) -> Tables:
    """Runs with so many steps; the log of a run is the part of its name before the bar."""
    names = [name.replace("_", "-") for name in steps]
    rows = [{"run": run, "step": n} for run, count in zip(names, steps.values(), strict=True) for n in range(count)]
    frames = by_hand("steps", rows)
    runs = [frames["runs"].assign(run=run, log_sha256=run.partition("-")[0]) for run in names]
    return Tables(frames | {"runs": pd.concat(runs, ignore_index=True)})


@pytest.mark.parametrize(
    ("steps", "pairs", "found"),
    [
        ({"a_1": 3, "b_1": 5}, [("a-1", "b-1")], {"a-1": "b-1"}),
        ({"a_1": 5, "b_1": 5}, [("a-1", "b-1")], {"b-1": "a-1"}),  # of equals the first
        ({"a_1": 3, "a_2": 4, "b_1": 5}, [("a-1", "b-1")], {"b-1": "a-1"}),  # the whole log counts
        ({"a_1": 3, "b_1": 2, "b_2": 2}, [("a-1", "b-1"), ("a-1", "b-2")], {"a-1": "b-1", "b-2": "b-1"}),
        ({"a_1": 3, "b_1": 5, "c_1": 4}, [("a-1", "b-1"), ("a-1", "c-1")], {"a-1": "b-1", "c-1": "b-1"}),
        ({"a_1": 3, "b_1": 4, "c_1": 5}, [("a-1", "c-1"), ("b-1", "c-1")], {"a-1": "c-1", "b-1": "c-1"}),  # b, not a
        ({"a_1": 0, "b_1": 1}, [("a-1", "b-1")], {"a-1": "b-1"}),
        ({"a_1": 3, "b_1": 5, "c_1": 5, "d_1": 3}, [("a-1", "b-1"), ("c-1", "d-1")], {"a-1": "b-1", "d-1": "c-1"}),
        ({"a_1": 3, "b_1": 5}, [], {}),
        ({"a_1": 3, "a_2": 5}, [("a-1", "a-2")], {}),  # of one log alone
    ],
)
def test_the_run_of_the_longest_log(
    monkeypatch: pytest.MonkeyPatch, steps: dict[str, int], pairs: list[Any], found: dict[str, str]
) -> None:
    def equal_losses(tables: Tables) -> Iterator[tuple[str, str]]:
        """Each run is joined with the first one only."""
        known = [(one, other) for one, other in pairs if {one, other} <= tables.run_order().keys()]
        return iter({other: (one, other) for one, other in reversed(known)}.values())

    monkeypatch.setattr(module, "equal_losses", equal_losses)
    assert module.run_of_hosts(tables(**steps)) == found


NS = 10**9


def printed(run: str, at: float = 0.25, first: int = 0, steps: int = 12, loss: float = 0.0, **more: Any) -> list[Any]:
    """A run that prints a step each second from second `at` on, with a loss that falls; `more`: columns of its run."""
    rows = [
        {"run": run, "line": n, "step": n, "loss": 9.0 - n / 7 + loss, "printed_ns": round(NS * (at + n)), "clock": UTC}
        for n in range(first, first + steps)
    ]
    return [{"table": "runs", "run": run, "config": "{}"} | more, *rows]


def pairs_of(*runs: list[Any]) -> list[tuple[str, str]]:
    frames = by_hand("steps", [row for rows in runs for row in rows])
    runs_frame = frames["runs"][1:].astype({"world_size": "Int64"})
    return list(module.equal_losses(Tables(frames | {"runs": runs_frame})))


def test_equal_losses_at_equal_times_are_of_one_job() -> None:
    """Clocks of hosts may differ by a step. The first step is printed twice by one of them."""
    one = printed("a")
    assert (
        pairs_of(one, printed("b", 0.75)) == [("a", "b")] == pairs_of(one, [*printed("b", 0.75), printed("b", 0.75)[1]])
    )
    assert pairs_of(one, printed("b", 1.75)) == []
    later = [row | ({"loss": 5.0} if row.get("step") == 7 else {}) for row in printed("b", 0.75)]
    assert pairs_of(one, later) == []  # one loss differs
    constant = [[row | ({"loss": 1.0} if "loss" in row else {}) for row in printed(run)] for run in "ab"]
    assert pairs_of(*constant) == []  # a loss that never changes is that of many jobs
    assert pairs_of(one, printed("b", loss=1e-9)) == [] == pairs_of(one, printed("b", first=1))
    assert pairs_of(one, [row | {"clock": "local"} for row in printed("b")]) == []
    assert pairs_of(one, printed("b", 20.25)) == []  # a repeat, one after the other


def test_a_job_whose_loss_is_nan_is_another_one(tmp_path: Path) -> None:
    lines = [f"2026-11-30 09:00:{n:02d},100 step={n} loss={3 - n / 9:.4f} step_time=1.0s\n" for n in range(1, 16)]
    for name, millisecond in (("a", 100), ("b", 200), ("c", 300)):
        (tmp_path / f"{name}.log").write_text("".join(lines).replace(",100 ", f",{millisecond} "))
        lines = [*lines[:-1], lines[-1].replace("loss=1.3333", "loss=nan")]
    log = perflog.read(tmp_path)
    names = {key.id: Path(key.log).stem for key in log.run_keys}
    assert [tuple(map(names.get, pair)) for pair in module.equal_losses(Tables(log))] == [("b", "c")]


def test_a_job_of_several_hosts_has_what_any_of_them_prints() -> None:
    """World size and job id of one host hold for the others: a third log with another one is of another job."""
    some, none = printed("a"), printed("b", 0.35)
    for column, one, other in (("world_size", 8, 16), ("config", '{"job_id": 7}', '{"job_id": 8}')):
        known, same, differs = (dict[str, Any]({column: value}) for value in (one, one, other))
        assert pairs_of(some, printed("b", 0.35, **known), printed("c", 0.45, **same)) == [("a", "b"), ("a", "c")]
        assert pairs_of(some, printed("b", 0.35, **known), printed("c", 0.45, **differs)) == [("a", "b")]
        assert pairs_of(printed("a", **known), none, printed("c", 0.45, **differs)) == [("a", "b")]
        assert pairs_of(printed("a", **known), printed("c", 0.45, **differs)) == []


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ([59.5988, 60.4101, 3000.1234], [59.5988, 60.4101, 3000.1234], True),
        ([59.5988, 60.4101, 3000.1234], [59.5988, 60.4101], True),  # an earlier state
        ([59.5988, 60.4101, 3000.1234], [59.5988, 60.4102, 3000.1239], False),  # one may be chance
        ([59.5988, 60.4101], [59.5988, 60.4101, *(70.1234 + k for k in range(9))], True),
        ([12.0, 1800.0], [12.0, 1800.0], False),  # round
        (
            [59.5988, 60.4101, *(70.1234 + k for k in range(9))],
            [59.5988, 60.4101, *(80.1234 + k for k in range(9))],
            False,
        ),
    ],
)
def test_measured_times_are_equal_in_one_run_alone(one: list[float], other: list[float], is_one: bool) -> None:
    rows = [
        {"table": "values", "run": run, "line": line, "key": "eval_runtime", "unit": "s", "value": value}
        for run, values in (("a-1", one), ("b-1", other)) for line, value in enumerate(values)
    ]  # fmt: skip
    frames = by_hand("steps", rows)
    for name, expected in (("state", [("a-1", "b-1")] * is_one), ("log", [])):  # a copy, or repeats
        runs = pd.concat([frames["runs"].assign(run=run, format=f) for run, f in (("a-1", "log"), ("b-1", name))])
        assert list(module.equal_times(Tables({**frames, "runs": runs}))) == expected


TIMES = [59.5988, 60.4101, 3000.1234]


@pytest.mark.parametrize(
    ("other", "most", "pairs"),
    [
        ([("b-1", "values", time) for time in TIMES], 3, [("a-1", "b-1")]),
        ([("b-1", "values", time) for time in TIMES], 2, []),  # so many are of steps
        ([("a-2", "values", time) for time in TIMES], 3, []),  # two runs of one log
        ([(run, "values", time) for run in ("b-1", "b-2") for time in TIMES], 3, [("a-1", "b-1"), ("a-1", "b-2")]),
        # two of eleven times are few, in whatever table
        ([("b-1", "values", time) for time in TIMES[:2]]
         + [("b-1", name, 70.1234 + k) for name in ("values", "summaries") for k in range(9)], 99, [("a-1", "b-1")]),
    ],
)  # fmt: skip
def test_which_times_of_runs_are_compared(
    monkeypatch: pytest.MonkeyPatch, other: list[tuple[str, str, float]], most: int, pairs: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(module, "_MOST_TIMES", most)
    every = [("a-1", "values", time) for time in TIMES] + other
    rows = [
        {"table": name, "run": run, "line": line, "key": "eval_runtime", "unit": "s", "value": value}
        for line, (run, name, value) in enumerate(every)
    ]
    frames = by_hand("steps", rows)
    runs = pd.concat([frames["runs"].assign(run=run, format=run[0]) for run in dict.fromkeys(run for run, *_ in every)])
    assert list(module.equal_times(Tables({**frames, "runs": runs}))) == pairs


def test_logs_in_which_one_rank_fails_are_of_other_jobs() -> None:
    def failed(run: str, rank: int, by: str = "label") -> list[Any]:
        return [{"table": "failures", "run": run, "line": 99, "rank": rank, "rank_by": by}]

    one, two, three = printed("a"), printed("b", 0.35), printed("c", 0.45)
    assert pairs_of(one, two, failed("a", 3), failed("b", 4)) == [("a", "b")]
    assert pairs_of(one, two, failed("a", 3), failed("b", 3)) == []
    assert pairs_of(one, two, failed("a", 3), failed("b", 3, "position")) == [("a", "b")]
    assert pairs_of(one, two, three, failed("b", 3), failed("c", 3)) == [("a", "b")]  # the ranks of both hosts


def test_how_many_logs_are_beside_the_others() -> None:
    runs = {"a1": "a", "b1": "b", "b2": "b", "c1": "c", "d1": "d", "e1": "e"}
    log: Any = SimpleNamespace(run_keys=[RunKey(run, run.upper(), f"{log}.txt", log, 1) for run, log in runs.items()])
    assert module.hosts_in_words(log, {"b1": "a1", "b2": "a1", "d1": "c1"}) == "2 more logs of the same jobs"
    assert module.hosts_in_words(log, {"b1": "a1", "b2": "a1"}) == "1 more log of the same job"
    assert module.hosts_in_words(log, {"b1": "a1", "c1": "a1"}) == "2 more logs of the same job"


def test_all_commands_count_the_logs_of_a_job_once(tmp_path: Path) -> None:
    logs = [tmp_path / f"{host}.log" for host in ("amy", "bob", "eve")]
    for host, log in enumerate(logs):
        log.write_text(
            "".join(
                f"2026-11-02 10:{k:02d}:00 [rank{host}] step {k} loss {4 / k:.4f} step_time 6{host}s\n"
                for k in range(1, 21)
            )
        )
    folder = combined([perflog.read(log) for log in logs])
    words = "1 run, 2 more logs of the same job (equal losses or times)"
    assert RunList(folder).hosts() == words
    (side,) = named_sides([str(tmp_path)])
    assert (len(side.log), side.log.warnings) == (1, [f"{tmp_path.name}: {words}, which count with it"])
    report = collect(folder, draw=False)
    assert (len(report.runs) - len(report.hosts), report.in_words(1), report.in_words(3)) == (
        1,
        "1 of 3 logs",
        "all logs",
    )


@pytest.mark.parametrize(("seed", "expected"), [(0, [("a-1", "b-1")]), (1, [])], ids=["recordings", "two runs"])
def test_steps_of_steady_devices_are_equal_by_chance(seed: int, expected: list[tuple[str, str]]) -> None:
    """Two runs have equal times in 319 of 1,000 steps on three levels; a step and the next one have them 281 times."""
    levels = np.repeat([3.024, 5.312, 12.35], 334)[:1000]
    times = [levels * (1 + np.random.default_rng(n).normal(0, 0.0004, 1000)) for n in (0, seed)]
    rows = [
        {"run": run, "step": step, "step_time_s": time}
        for run, own in zip(("a-1", "b-1"), times, strict=True)
        for step, time in enumerate(own.tolist())
    ]
    frames = by_hand("steps", rows)
    runs = pd.concat([frames["runs"].assign(run=run, format=run) for run in ("a-1", "b-1")])
    assert list(module.equal_steps(Tables({**frames, "runs": runs}))) == expected


def test_times_of_steps_are_compared_by_four_digits() -> None:
    """A time that takes nothing, that is of a clock, or whose step is not known, counts in no comparison."""
    rows: list[dict[str, Any]] = [{"step": step, "step_time_s": 1.23456 + step / 10} for step in range(30)]
    rows += [{"step_time_s": 9.8765}]
    rows += [{"step": 40, "step_time_s": 0.0}, {"step": 41, "step_time_s": 1.23, "step_time_by": "line"}]
    steps, times = module._times_of_steps(Tables(by_hand("steps", rows)).rows("steps"))
    assert steps.tolist() == [*range(30)]
    assert times[:2].tolist() == pytest.approx([1.235, 1.335]) and times[9] == pytest.approx(2.135)


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([1.2345 + k / 10 for k in range(10)], 10),
        ([1.23 + k / 100 for k in range(10)], 10),  # a last zero is no digit
        ([1.2 + k / 10 for k in range(10)], 0),  # two digits
        ([1.2345 + k / 10 for k in range(9)], 0),  # few steps
        ([*(1.2345 + k / 10 for k in range(10)), 9.8765], 0),  # the last step comes twice
    ],
)
def test_which_times_of_steps_tell_runs_apart(times: list[float], count: int) -> None:
    rows = [{"step": min(step, 9), "step_time_s": round(time, 4)} for step, time in enumerate(times)]
    steps, found = module._times_of_steps(Tables(by_hand("steps", rows)).rows("steps"))
    assert len(steps) == len(found) == count


@pytest.mark.parametrize(("equal", "shifted", "is_one"), [(10, 5, True), (10, 6, False), (9, 0, False), (10, 0, True)])
def test_equal_times_of_steps_are_twice_as_many_as_by_chance(equal: int, shifted: int, is_one: bool) -> None:
    """Of forty steps; others have the time of the next step of the other log."""
    mine = np.round(1.2345 + np.arange(40) / 10, 4)
    its = mine + 50
    its[:equal] = mine[:equal]
    its[21 : 21 + shifted] = mine[20 : 20 + shifted]
    rows = [
        {"run": run, "step": step, "step_time_s": time}
        for run, times in (("a-1", mine), ("b-1", its)) for step, time in enumerate(times.tolist())
    ]  # fmt: skip
    frames = by_hand("steps", rows)
    for other, expected in (("b-1", [("a-1", "b-1")] * is_one), ("a-2", [])):  # of one log they are two runs
        renamed = frames | {"steps": frames["steps"].replace({"run": {"b-1": other}})}
        runs = pd.concat([frames["runs"].assign(run=run, format=run) for run in ("a-1", other)])
        assert list(module.equal_steps(Tables({**renamed, "runs": runs}))) == expected


def results_of(*runs: dict[str, float], forms: str = "xy") -> list[tuple[str, str]]:
    rows = [
        {"run": f"{name}-1", "key": key, "value": value}
        for name, own in zip("ab", runs, strict=True)
        for key, value in own.items()
    ]
    frames = by_hand("values", rows)
    each = [
        frames["runs"].assign(run=f"{name}-1", format=form, log_sha256=name)
        for name, form in zip("ab", forms, strict=True)
    ]
    return list(module.equal_results(Tables({**frames, "runs": pd.concat(each)})))


PRINTED = {"Mean_TTFT": 0.31257, "P99_TTFT": 0.80031, "Mean_TPOT": 0.02413, "Duration": 190.21, "Requests": 5.0}
WRITTEN = {"mean_ttft": 0.312568, "p99_ttft": 0.8003142, "mean_tpot": 0.02412661, "duration": 190.20833, "n": 7.0}


def test_a_benchmark_prints_its_results_and_writes_them_with_more_digits() -> None:
    assert results_of(PRINTED, WRITTEN) == [("a-1", "b-1")]
    assert results_of(PRINTED, WRITTEN, forms="xx") == []  # repeats
    assert results_of(PRINTED, WRITTEN | {"mean_ttft": 0.3127}) == []
    assert results_of(dict(list(PRINTED.items())[:3]), WRITTEN) == []  # too few


def test_small_results_are_equal_in_their_own_digits() -> None:
    """Times of microseconds have an exponent: all of them are equal within a thousandth of a second."""
    small = {f"time_{name}": value * 1e-5 for name, value in zip("abcd", (1.2345, 2.3456, 3.4567, 4.5678), strict=True)}
    assert results_of(small, {name: value * 1.5 for name, value in small.items()}) == []
    assert results_of(small, {name: value * (1 + 1e-7) for name, value in small.items()}) == [("a-1", "b-1")]
