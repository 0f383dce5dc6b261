"""Versions of tests: commits, dates or values of a setting in their order, and which runs are one test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.errors import UsageError
from perflog.metrics import Tables
from perflog.metrics.many_runs import versions
from perflog.metrics.many_runs.versions import versions_of_tests


def runs(*settings: Mapping[str, Any]) -> Tables:
    """Runs `a`, `b`, ... with these settings. The keys `label` and `log` are columns of their own."""
    frames = []
    for name, each in zip("abcdefghijklmnop", settings, strict=False):
        frame = by_hand("steps", [])["runs"]
        config = {key: value for key, value in each.items() if key not in ("label", "log", "model")}
        columns = {"label": each.get("label"), "model": each.get("model"), "log": each.get("log", f"{name}.txt")}
        frames.append(frame.assign(run=name, index=1, config=json.dumps(config), **columns).astype(object))
    return Tables({"runs": pd.concat(frames, ignore_index=True)})


def shown(found: versions.Tests) -> list[list[tuple[str, str]]]:
    """Version and runs of each test."""
    return [[(version.name, "".join(version.runs)) for version in test.versions] for test in found.tests]


def commits(*names: str, **more: Sequence[Any]) -> Tables:
    rows: list[dict[str, Any]] = [{"commit": name} for name in names]
    for key, values in more.items():
        for row, value in zip(rows, values, strict=True):
            row |= {} if value is None else {key: value}
    return runs(*rows)


DAYS = [f"2026-01-{day:02}" for day in (3, 1, 2)]


def test_commits_are_in_the_order_of_their_dates() -> None:
    found = versions_of_tests(commits("x", "y", "z", commit_date=DAYS), fewest=1)
    assert found.by == "commit" and shown(found) == [[("y", "b"), ("z", "c"), ("x", "a")]]
    assert [version.at for version in found.tests[0].versions] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert found.tests[0].runs == ["b", "c", "a"] and found.left_out == {}


def test_without_dates_of_commits_those_of_their_first_runs_count() -> None:
    found = versions_of_tests(commits("x", "y", "x", started=DAYS), fewest=1)
    assert shown(found) == [[("y", "b"), ("x", "ca")]]
    assert [version.at for version in found.tests[0].versions] == ["2026-01-01", "2026-01-02"]


def test_the_date_of_a_commit_counts_before_that_of_a_run() -> None:
    tables = commits("x", "y", started=["2026-01-01", "2026-01-02"], commit_date=["2025-12-09", "2025-12-08"])
    assert shown(versions_of_tests(tables, fewest=1)) == [[("y", "b"), ("x", "a")]]


def test_commits_of_one_date_are_in_the_order_of_their_runs() -> None:
    dates = ["2026-01-01"] * 3
    started = ["2026-01-03", "2026-01-02", "2026-01-04"]
    found = versions_of_tests(commits("x", "y", "z", commit_date=dates, started=started), fewest=1)
    assert shown(found) == [[("y", "b"), ("x", "a"), ("z", "c")]]
    ingested = {"a": "3", "b": "1", "c": "2"}
    found = versions_of_tests(commits("x", "y", "z", commit_date=dates), ingested=ingested, fewest=1)
    assert shown(found) == [[("y", "b"), ("z", "c"), ("x", "a")]]
    found = versions_of_tests(commits("x", "y", "z", commit_date=dates), fewest=1)
    assert shown(found) == [[("x", "a"), ("y", "b"), ("z", "c")]]


def test_files_that_differ_from_their_commit_are_a_version_of_their_own() -> None:
    found = versions_of_tests(commits("x", "x", commit_date=DAYS[:2], dirty=["yes", "no"]), fewest=1)
    assert {name for ((name, _), *rest) in shown(found) for name in [name, *(n for n, _ in rest)]} == {
        "x, changed",
        "x",
    }


@pytest.mark.parametrize("name", ["commit", "git_commit", "env.Git_SHA", "revision"])
def test_names_of_commits(name: str) -> None:
    found = versions_of_tests(runs({name: "x", "date": DAYS[0]}, {name: "y", "date": DAYS[1]}), fewest=1)
    assert (found.by, shown(found)) == ("commit", [[("y", "b"), ("x", "a")]])


def test_dates_where_no_run_names_its_commit() -> None:
    found = versions_of_tests(runs(*({"started": day} for day in DAYS), {}), fewest=1)
    assert (found.by, shown(found)) == ("date", [[("2026-01-01", "b"), ("2026-01-02", "c"), ("2026-01-03", "a")]])
    assert found.left_out == {"d": "no date in the settings or in the name of the log"}


def test_runs_of_a_day_are_repeats_where_there_are_enough_days() -> None:
    times = [f"2026-01-{day:02} {hour:02}:00:00" for day in range(1, 9) for hour in (1, 2)]
    found = versions_of_tests(runs(*({"started": at} for at in times)))
    assert [(name, len(of)) for name, of in shown(found)[0]] == [(f"2026-01-{day:02}", 2) for day in range(1, 9)]
    assert [version.at for version in found.tests[0].versions] == [f"2026-01-{day:02}" for day in range(1, 9)]
    few = versions_of_tests(runs(*({"started": at} for at in times[:4])), fewest=1)
    assert [name for name, _ in shown(few)[0]] == times[:4]


def test_commits_in_the_order_in_which_they_were_ingested() -> None:
    ingested = {"a": "2026-02-03", "b": "2026-02-01", "c": "2026-02-02"}
    found = versions_of_tests(commits("x", "y", "x", "z"), "ingested", ingested=ingested, fewest=1)
    assert [name for name, _ in shown(found)[0]] == ["y", "x"]
    assert [version.at for version in found.tests[0].versions] == ["2026-02-01", "2026-02-02"]
    assert found.left_out == {"d": "not in a store"}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("batch", ["16", "8", "32"], ["8", "16", "32"]),
        ("version", ["2.10", "2.9", "2.1"], ["2.1", "2.9", "2.10"]),
        ("torch", ["2.1.10", "2.1.9", "2.1.1"], ["2.1.1", "2.1.9", "2.1.10"]),
        ("lr", ["0.5", "0.25", "1e-3"], ["1e-3", "0.25", "0.5"]),
        ("lr", ["1e-3", "2e-4", "0.5"], ["2e-4", "1e-3", "0.5"]),
        ("lr", ["5e-3", "2e-2", "1e-1"], ["5e-3", "2e-2", "1e-1"]),
        ("kind", ["v10", "v9", "v1"], ["v1", "v9", "v10"]),
    ],
)
def test_values_of_a_setting_are_in_their_order(name: str, values: list[str], expected: list[str]) -> None:
    tables = runs(*({name: value} for value in values), {})
    found = versions_of_tests(tables, name, fewest=1)
    assert (found.by, [version for version, _ in shown(found)[0]]) == (name, expected)
    assert found.left_out == {"d": f"without a setting `{name}`"}


def test_a_setting_by_its_last_name_and_the_label() -> None:
    tables = runs({"train.batch": "16", "label": "second"}, {"train.batch": "8", "label": "first"})
    assert [name for name, _ in shown(versions_of_tests(tables, "batch", fewest=1))[0]] == ["8", "16"]
    assert [name for name, _ in shown(versions_of_tests(tables, "label", fewest=1))[0]] == ["first", "second"]
    with pytest.raises(UsageError, match="no run has a setting `bach`"):
        versions_of_tests(tables, "bach")


# --- tests ------------------------------------------------------------------------------------------------------------


def nights(**more: Sequence[Any]) -> versions.Tests:
    """Six runs of two commits a night."""
    dates = [f"2026-01-0{day}" for day in (1, 1, 2, 2, 3, 3)]
    return versions_of_tests(commits("x", "x", "y", "y", "z", "z", started=dates, **more), fewest=1)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"batch": [8, 16] * 3}, ["batch 8", "batch 16"]),  # each night tries both
        ({"batch": [8, 8, 8, 16, 16, 16]}, [""]),  # it changes once and stays
        ({"batch": [8, 16] * 3, "twice": [16, 32] * 3}, ["batch 8", "batch 16"]),  # follows from it
        ({"branch": ["main"] * 3 + ["next"] * 3}, ["branch main", "branch next"]),
        ({"driver": [1, 1, 2, 2, 1, 1]}, [""]),  # of the machine, rolled back
        ({"driver": [1, 2] * 3}, ["driver 1", "driver 2"]),  # two machines in turn
        ({"seed": [1, 2] * 3}, [""]),
        ({"log": [f"night_{n}/{name}_{n}.txt" for n in range(3) for name in ("dense", "moe")]},
         ["log dense", "log moe"]),
        ({"log": [f"{name}/night_{n}/a.txt" for n in range(3) for name in ("dense", "moe")]},
         ["folder dense", "folder moe"]),
        ({"log": [f"2026010{n}/rank{k}.txt" for n in range(3) for k in (0, 1)]}, [""]),  # numbers of repeats
        ({"label": ["a #1", "b #2"] * 3}, ["label a #1", "label b #2"]),
    ],
)  # fmt: skip
def test_settings_that_take_an_earlier_value_again_make_tests(more: dict[str, Any], expected: list[str]) -> None:
    assert [test.test for test in nights(**more).tests] == expected


def test_models_are_never_pooled() -> None:
    assert [test.test for test in nights(model=["s", "l"] * 3).tests] == ["s", "l"]


def test_settings_may_be_ignored() -> None:
    dates = [f"2026-01-0{day}" for day in (1, 1, 2, 2, 3, 3)]
    tables = commits("x", "x", "y", "y", "z", "z", started=dates, batch=[8, 16] * 3)
    assert [test.test for test in versions_of_tests(tables, ignored=["batch"], fewest=1).tests] == [""]


def test_a_test_needs_enough_versions() -> None:
    found = versions_of_tests(commits("x", "y", commit_date=DAYS[:2], model=["m", "m"]), fewest=3)
    assert found.tests == () and found.left_out == dict.fromkeys("ba", "m: 2 versions, 3 are needed")
    assert len(versions_of_tests(commits("x", "y", commit_date=DAYS[:2]), fewest=2).tests) == 1


def test_tests_of_one_name_are_numbered() -> None:
    """A program and a model may have one name."""
    found = versions_of_tests(
        commits("x", "x", commit_date=[DAYS[0]] * 2, model=["m", None], program=[None, "m"]), fewest=1
    )
    assert [test.test for test in found.tests] == ["m", "m (2)"]
