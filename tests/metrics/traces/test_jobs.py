"""Jobs: which devices worked together, and what they are called."""

from __future__ import annotations

from typing import Any

import pytest
from support.trace_tables import by_hand, kernel

from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.jobs import Job, jobs


def ranks_of(tables: Tables) -> list[list[tuple[str, int | None]]]:
    return [[(member.run, member.rank) for member in job.members] for job in jobs(tables)]


def in_files(*names: str, **config: Any) -> Tables:
    """A run for each file: the rank is the number after the last underscore."""
    tables = by_hand([kernel(0, 10, run=name, rank=int(name.rpartition("_")[2])) for name in names], **config)
    runs = tables["runs"]
    return Tables({**{name: tables[name] for name in ("events", "steps", "lines")},
                   "runs": runs.assign(log="/" + runs["run"] + ".json")})  # fmt: skip


def test_ranks_of_a_folder_are_a_job() -> None:
    assert ranks_of(in_files("a_1", "a_0")) == [[("a_0", 0), ("a_1", 1)]]
    assert ranks_of(in_files("x/a_0", "y/a_1")) == []
    assert ranks_of(in_files("x/a_0", "x/b_1", "y/a_0", "y/a_2")) == [
        [("x/a_0", 0), ("x/b_1", 1)], [("y/a_0", 0), ("y/a_2", 2)],
    ]  # fmt: skip


def test_files_with_names_that_differ_in_the_rank_are_a_job() -> None:
    """Where the folder holds a rank twice."""
    assert ranks_of(in_files("a_0", "a_1", "b_0", "b_01", "c_3")) == [
        [("a_0", 0), ("a_1", 1)], [("b_0", 0), ("b_01", 1)],
    ]  # fmt: skip
    assert ranks_of(in_files("a10_0", "a10_1", "b_0")) == [[("a10_0", 0), ("a10_1", 1)]]


def test_devices_of_a_run_are_a_job() -> None:
    events = [kernel(0, 1, device=1), kernel(0, 1, device=0), kernel(0, 1, device=0, rank=None)]
    (job,) = jobs(by_hand(events))
    assert [(member.rank, member.device) for member in job.members] == [(None, 0), (0, 0), (0, 1)]
    assert job.run == "r"
    assert jobs(by_hand([kernel(0, 1)])) == [] == jobs(by_hand([kernel(0, 1, rank=None, run=run) for run in "ab"]))


def test_whether_a_job_has_one_clock() -> None:
    def clock(tables: Tables) -> bool | None:
        (job,) = jobs(tables)
        return job.one_clock

    assert clock(by_hand([kernel(0, 1), kernel(0, 1, device=1)])) is True
    assert clock(by_hand([kernel(0, 1), kernel(0, 1, device=1)], clock="boot")) is True  # of one file
    assert clock(by_hand([kernel(0, 1), kernel(0, 1, rank=1)])) is None  # a merged trace of several ranks
    assert clock(by_hand([kernel(0, 1), kernel(0, 1, rank=1, part=1)])) is None  # files, each by the epoch
    assert clock(by_hand([kernel(0, 1), kernel(0, 1, rank=1, part=1)], clock="boot")) is False
    assert clock(by_hand([kernel(0, 1), kernel(0, 1, rank=1, part=1)], clock=None)) is None
    assert clock(in_files("a_0", "a_1", clock="boot")) is False


def only(*events: dict[str, Any]) -> Job:
    (job,) = jobs(by_hand(list(events)))
    return job


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ([{"rank": 0}, {"rank": 1}], ["rank 0", "rank 1"]),
        ([{"rank": 0}, {"rank": 1}, {"rank": 1, "device": 1}], ["rank 0", "rank 1, device 0", "rank 1, device 1"]),
        ([{"rank": None}, {"rank": None, "device": 1}], ["device 0", "device 1"]),
        ([{"rank": None, "device_name": name} for name in "ab"], ["a, device 0", "b, device 0"]),
        ([{"rank": None, "device": None, "device_name": name} for name in "ab"], ["device a", "device b"]),
    ],
)
def test_names_of_members(members: list[dict[str, Any]], names: list[str]) -> None:
    job = only(*(kernel(0, 1, **member) for member in members))
    assert [job.name(place) for place in range(len(names))] == names
    assert job.doubt is None


def test_two_traces_of_a_rank_are_a_doubt() -> None:
    assert only(kernel(0, 1), kernel(0, 1, part=1)).doubt == "rank 0 has two traces"
    assert only(kernel(0, 1, rank=None), kernel(0, 1, rank=None, part=1)).doubt == "device 0 has two traces"
    assert jobs(in_files("a_0", "a_00"))[0].doubt == "rank 0 has two traces"
