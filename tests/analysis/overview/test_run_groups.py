"""Rows of an overview: which runs are one row, their marks and names, and runs that are no repeats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from support.metrics_logs import by_hand

from perflog.analysis.overview.base_rows import base_rows
from perflog.analysis.overview.run_groups import RunGroup, _is_one_job, apart, no_repeats, run_groups
from perflog.analysis.repeats import Difference
from perflog.log import RunKey
from perflog.metrics import Options, Tables

_COLUMNS = ("format", "program", "model", "world_size", "device", "dtype", "process")
Made = tuple[str, str | None, Mapping[str, Any]]
"""The log of a run, its label, and its settings. Runs of a log are numbered."""


def log_of(*runs: Made, job: str | None = None, jobs: Sequence[str | None] = ()) -> Any:
    """A log of these runs, with ids r0, r1, ...; the name of a log is its hash.

    `job`: of which they are attempts, or the job of each.
    """
    keys, rows, numbers = [], [], dict[str, int]()
    for place, (log, label, config) in enumerate(runs):
        numbers[log] = numbers.get(log, 0) + 1
        keys.append(RunKey(f"r{place}", label, log, log, numbers[log]))
        own = {"run": f"r{place}", "config": json.dumps(config), "job": jobs[place] if jobs else job}
        rows.append({**dict.fromkeys(_COLUMNS, "x"), **own})
    return SimpleNamespace(run_keys=keys, arrow=lambda _: pa.Table.from_pylist(rows))


def listed(groups: Sequence[RunGroup]) -> list[tuple[str, str, str, dict[str, str]]]:
    """Mark, name, numbers of the runs, and settings of each row."""
    return [(each.mark, each.name, "".join(each.runs).replace("r", ""), dict(each.settings)) for each in groups]


def logs(count: int, *, folder: str = "a", label: str | None = None, **config: Any) -> list[Made]:
    return [(f"{folder}/{number}.txt", label, config) for number in range(count)]


def test_a_few_runs_are_rows_of_their_own() -> None:
    """A setting that a run does not print is a dash. Seeds are no settings that matter."""
    runs = [("x/a.txt", None, {"batch": 8, "seed": 1}), ("x/b.txt", None, {"seed": 2})]
    assert listed(run_groups(log_of(*runs))) == [
        ("A", "a.txt", "0", {"batch": "8"}), ("B", "b.txt", "1", {"batch": "-"})
    ]  # fmt: skip
    one = [("x/a.txt", None, {"batch": size}) for size in (8, 16)]
    assert [group[:2] for group in listed(run_groups(log_of(*one)))] == [("#1", "a.txt#1"), ("#2", "a.txt#2")]


def test_what_a_restart_changes_distinguishes_no_attempts() -> None:
    runs = [(f"x/{step}.txt", None, {"first_step": step, "ranks": step}) for step in (1, 201)]
    assert [[*group[3]] for group in listed(run_groups(log_of(*runs)))] == [["first_step"]] * 2
    assert [[*group[3]] for group in listed(run_groups(log_of(*runs, job="r0")))] == [["ranks"]] * 2


def test_what_only_one_attempt_prints_is_no_difference() -> None:
    runs = [("x/a.txt", None, {"batch": 8}), ("x/a.txt", None, {})]
    assert [group[3] for group in listed(run_groups(log_of(*runs)))] == [{"batch": "8"}, {"batch": "-"}]
    assert [group[3] for group in listed(run_groups(log_of(*runs, job="r0")))] == [{}, {}]


def test_many_attempts_of_a_job_are_one_row_of_no_repeats() -> None:
    attempts: list[Made] = [("x/a.txt", None, {})] * 12
    assert [group.is_job for group in run_groups(log_of(*attempts, job="r0"))] == [True]
    assert [group.is_job for group in run_groups(log_of(*logs(12)))] == [False]
    assert not any(group.is_job for group in run_groups(log_of(*logs(2), job="r0")))  # each has a row
    assert not _is_one_job(["r0", "r5"]) and not _is_one_job(["r0", None])


def test_each_of_several_jobs_has_a_row() -> None:
    runs: list[Made] = [(f"x/{name}.txt", None, {"lr": name}) for name in "aabccc"]
    found = run_groups(log_of(*runs, jobs=["r0", "r0", None, *["r3"] * 3]))
    assert listed(found) == [
        ("A", "a.txt", "01", {"lr": "a"}), ("B", "b.txt", "2", {"lr": "b"}), ("C", "c.txt", "345", {"lr": "c"}),
    ]  # fmt: skip
    assert [group.is_job for group in found] == [True, False, True]
    kept = apart(found, log_of(*runs), [])
    assert [group.is_job for group in kept] == [True, False, True]


def test_logs_of_five_runs_that_nothing_tells_apart_are_a_row() -> None:
    assert len(run_groups(log_of(*logs(4)))) == 4
    assert listed(run_groups(log_of(*logs(5)))) == [("A", "a", "01234", {})]
    assert len(run_groups(log_of(*logs(4, label="one"), ("a/4.txt", "two", {})))) == 5  # labels do
    assert len(run_groups(log_of(*logs(4), ("a/0.txt", None, {})))) == 5  # two runs of a log
    assert len(run_groups(log_of(*logs(4), ("a/4.txt", None, {"batch": 8})))) == 5  # a setting


def test_more_than_ten_runs_are_rows_by_folder_and_settings() -> None:
    runs = [*logs(4, folder="x/a", batch=8), *logs(3, folder="x/b", batch=8), *logs(2, folder="x/b", batch=16)]
    runs += [("x/c/one.txt", "label", {"batch": 8})]
    assert len(run_groups(log_of(*runs))) == 10
    found = listed(run_groups(log_of(*runs, ("x/c/two.txt", None, {"batch": 16}))))
    assert found == [
        ("A", "a", "0123", {"batch": "8"}), ("B", "b", "456", {"batch": "8"}), ("C", "b", "78", {"batch": "16"}),
        ("D", "c/one.txt", "9", {"batch": "8"}), ("E", "c/two.txt", "10", {"batch": "16"}),
    ]  # fmt: skip


def test_runs_of_a_log_that_are_no_repeats_have_a_round() -> None:
    """A sweep of one log over two sizes, three times: each run is a row, in the order of the log."""
    log = log_of(*(("a.txt", None, {"batch": size}) for _ in range(3) for size in (8, 16)))
    groups = [
        RunGroup("A", "", ("r0", "r2", "r4"), {"batch": "8"}),
        RunGroup("B", "", ("r1", "r3", "r5"), {"batch": "16"}),
    ]
    rows = [
        (f"#{run + 1}", f"a.txt#{run + 1}", str(run), {"batch": ("8", "16")[run % 2], "round": str(1 + run // 2)})
        for run in range(6)
    ]
    assert listed(apart(groups, log, [("r1", "r3", "r5")])) == rows


def test_runs_of_several_logs_that_are_no_repeats_are_rows_without_a_round() -> None:
    log = log_of(*logs(5))
    groups = [RunGroup("A", "a", ("r1", "r2"), {"batch": "8"}), RunGroup("B", "b", ("r0", "r3", "r4"), {"batch": "9"})]
    assert listed(apart(groups, log, [("r1", "r2")])) == [
        ("A", "b", "034", {"batch": "9"}), ("B", "1.txt", "1", {"batch": "8"}), ("C", "2.txt", "2", {"batch": "8"}),
    ]  # fmt: skip


def test_rounds_are_those_of_the_log_with_runs_that_are_no_repeats() -> None:
    """A log with two runs that differ, and another log: its runs have no round, whether or not they are repeats."""
    log = log_of(
        ("a.txt", None, {}), ("a.txt", None, {}), ("b.txt", None, {}), ("c.txt", None, {}), ("d.txt", None, {})
    )
    groups = [
        RunGroup("A", "a", ("r0", "r1"), {}),
        RunGroup("B", "b", ("r2", "r3"), {}),
        RunGroup("C", "d", ("r4",), {}),
    ]
    assert listed(apart(groups, log, [("r0", "r1"), ("r2", "r3")])) == [
        ("A", "a.txt#1", "0", {"round": "1"}), ("B", "a.txt#2", "1", {"round": "2"}),
        ("C", "b.txt", "2", {"round": "-"}), ("D", "c.txt", "3", {"round": "-"}), ("E", "d", "4", {"round": "-"}),
    ]  # fmt: skip


def differ(*order: int, runs: Sequence[str] = ("r0", "r1"), noise: float | None = 0.012) -> Difference:
    return Difference(tuple(runs), "step time", "s", 0.5, 1.0, noise, order or (0, 1))


def rows(count: int, **settings: str) -> list[RunGroup]:
    return [RunGroup(f"M{number}", "", (f"r{number}",), settings) for number in range(count)]


def test_how_far_runs_that_are_no_repeats_differ() -> None:
    assert list(no_repeats([], rows(2))) == []
    (text,) = no_repeats([differ()], [*rows(2), RunGroup("P", "", ("r0", "r9"), {})])
    assert text == (
        "No repeats: M0, M1 have the same settings, but step time 500 ms to 1 s (+100 %; a step varies by 1.2 %): "
        "other code, another machine, or a setting not printed."
    )
    (text,) = no_repeats([differ(runs=[f"r{n}" for n in range(4)], noise=None), differ()], rows(5, round="-"))
    assert text == (
        "No repeats: M0, M1, M2, M3 have the same settings, but step time 500 ms to 1 s (+100 %), 1 other "
        "configuration likewise: other code, another machine, or a setting not printed."
    )
    (text,) = no_repeats([differ(runs=[f"r{n}" for n in range(5)]), differ(), differ()], rows(5))
    assert "M3 and more have" in text and ", 2 other configurations likewise:" in text


def test_rounds_that_have_the_same_order_in_three_configurations() -> None:
    def cause(*differences: Difference) -> str:
        (text,) = no_repeats(differences, rows(2, round="1"))
        return text.rpartition(": other code or a setting not printed ")[2]

    assert cause(differ(1, 0), differ(1, 0)) == "(round: order in the log)."
    assert cause(differ(1, 0), differ(1, 0), differ(0, 1)) == "(round: order in the log)."
    assert cause(differ(1, 0), differ(1, 0), differ(1, 0)) == "(round 1 is above round 2 in all)."
    assert cause(*[differ(2, 0, 1)] * 3) == "(round 2 is above round 3 in all)."


def test_runs_with_titles_that_differ_in_several_settings_have_no_base() -> None:
    made = Tables(by_hand("steps", []))

    def bases(*titles: str) -> dict[int, int]:
        groups = [RunGroup(f"#{n}", title, (f"r{n}",), {}) for n, title in enumerate(titles)]
        return base_rows(made, groups, Options())

    assert bases("shape=a B=1 S=128", "shape=b B=1 S=2048", "shape=a B=1 S=256") == {2: 0}
    assert bases("a.txt", "b.txt") == {1: 0}
