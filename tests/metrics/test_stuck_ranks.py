"""Metric `stuck_ranks` and the overview of dumps: who holds a job up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.flight_recorder_files import call, job, transfer
from support.metrics_logs import by_hand, row, rows
from support.paths import SHARED

import perflog
from perflog.metrics import Tables, counters, stuck_ranks
from perflog.metrics.compared import Steady
from perflog.metrics.jobs import stuck_ranks as module
from perflog.metrics.jobs.stuck_ranks import (
    COMPLETED,
    ENQUEUED,
    Job,
    _add_calls,
    _Call,
    _lacking_collectives,
    _lacking_pairs,
    _mismatches,
)
from perflog.tables.columns import rows_from_frame

DUMPS = SHARED / "campaigns" / "flight_recorder"


def test_the_rank_that_lacks_a_call_holds_the_others_up(tmp_path: Path) -> None:
    entries = {0: [call(5), call(6, "all_gather")], 1: [call(5), call(6, "all_gather")], 2: [call(5)]}
    log = perflog.read(job(tmp_path / "job", {0: (6, 4), 1: (6, 4), 2: (5, 4)}, entries))
    (stuck,) = rows(stuck_ranks(log))
    assert (stuck["rank"], stuck["holds_up"], stuck["behind"], stuck["enqueued"]) == (2, True, 1, 5)
    assert (stuck["group"], stuck["purpose"], stuck["lacks"], stuck["waiting"]) == ("5", "TENSOR", "all_gather", "0, 1")
    seen = perflog.overview(log)
    assert seen.reasons[:2] == [
        "Stuck: rank 2 holds up 2 ranks and waits for none.",
        "Rank 2 lacks 1 call of TENSOR, first all_gather; ranks 0, 1 wait for it.",
    ]
    assert any(command.endswith(" stuck_ranks") for command in seen.next)
    assert not len(counters(log))  # numbers of calls are no readings of hardware


def test_a_rank_that_is_behind_because_it_waits_holds_nothing_up(tmp_path: Path) -> None:
    """Rank 0 waits for a transfer from rank 1, which waits for a collective of rank 2."""
    groups = {0: [transfer("recv 0<-1", process_group=("6", "PIPE"))], 1: [call(6)], 2: []}
    log = perflog.read(job(tmp_path / "job", {0: (6, 6), 1: (6, 5), 2: (5, 5)}, groups))
    table = stuck_ranks(log)
    assert [r["rank"] for r in rows(table, holds_up=True)] == [2]


def test_pending_transfers_are_held_against_each_other(tmp_path: Path) -> None:
    """Two sends to rank 1, which has posted one receive: the numbers of calls of pairs say nothing."""
    entries = {0: [transfer("send 0->1", 4), transfer("send 0->1", 5)], 1: [transfer("recv 1<-0", 9)], 2: []}
    log = perflog.read(job(tmp_path / "job", {0: (5, 3), 1: (9, 8), 2: (2, 2)}, entries))
    stuck = row(stuck_ranks(log), rank=1)
    assert (stuck["behind"], stuck["lacks"], stuck["waiting"], stuck["holds_up"]) == (1, "recv from rank 0", "0", True)
    assert [r["rank"] for r in rows(stuck_ranks(log))] == [1]


def test_completed_calls_make_nobody_wait(tmp_path: Path) -> None:
    entries = {0: [call(6, state="completed")], 1: [call(5, state="completed")]}
    log = perflog.read(job(tmp_path / "job", {0: (6, 6), 1: (5, 5)}, entries))
    assert not len(stuck_ranks(log))
    assert perflog.overview(log).reasons == ["No call is pending on any rank that has a dump."]


def test_all_ranks_in_the_same_call(tmp_path: Path) -> None:
    log = perflog.read(job(tmp_path / "job", {0: (6, 5), 1: (6, 5)}, {0: [call(6)], 1: [call(6)]}))
    assert not len(stuck_ranks(log))
    assert perflog.overview(log).reasons == ["Pending on ranks 0, 1: calls that every rank with a dump has enqueued."]


def test_a_number_of_calls_may_be_null(tmp_path: Path) -> None:
    entries = {0: [call(5), call(6)], 1: [call(5), call(6)], 2: [call(5)]}
    log = perflog.read(job(tmp_path / "job", {0: (6, 4), 1: (6, 4), 2: (5, 4)}, entries))
    tables = {name: log.table(name) for name in ("runs", "values", "counters", "events")}
    printed = tables["counters"]["value"]
    tables["counters"] = tables["counters"].assign(value=printed.where(printed != 4))  # completed
    assert [stuck["rank"] for stuck in rows(stuck_ranks(tables))] == [2]


def test_several_jobs_are_told_by_their_marks(tmp_path: Path) -> None:
    """A number of ranks has no change in percent, and the next command names the ranks of all jobs."""
    entries = {0: [call(6, state="completed")], 1: [call(5)]}
    for name, more in (("first", 0), ("second", 1)):
        job(tmp_path / name, {0: (6 + more, 6), 1: (5, 4)}, entries)
    seen = perflog.overview(perflog.read(tmp_path), "dumps")
    assert not seen.base
    assert [text.partition(": ")[0] for text in seen.reasons] == ["A", "B"]
    assert seen.next[0] == "perflog analyze dumps stuck_ranks"


def test_ranks_that_wait_for_each_other(tmp_path: Path) -> None:
    entries = {0: [transfer("recv 0<-1")], 1: [transfer("recv 1<-0")]}
    log = perflog.read(job(tmp_path / "job", {0: (6, 5), 1: (6, 5)}, entries))
    assert [r["holds_up"] for r in rows(stuck_ranks(log))] == [False, False]
    assert perflog.overview(log).reasons == [
        "Stuck: ranks 0, 1 wait for each other: they may call collectives in different orders."
    ]


def test_a_rank_without_a_dump_is_named(tmp_path: Path) -> None:
    log = perflog.read(job(tmp_path / "job", {0: (6, 5), 2: (6, 5)}, {0: [call(6)], 1: [], 2: [call(6)]}))
    (missing,) = rows(stuck_ranks(log))
    assert (missing["rank"], missing["holds_up"], missing["waiting"]) == (1, None, None)
    assert perflog.overview(log).reasons[-1].startswith("No dump of rank 1: ")


def test_a_folder_of_several_jobs_names_each(tmp_path: Path) -> None:
    for name, late in (("a", 0), ("b", 1)):
        counts = {rank: (5, 5) if rank == late else (6, 5) for rank in (0, 1)}
        job(tmp_path / name, counts, {rank: [] if rank == late else [call(6)] for rank in (0, 1)})
    reasons = perflog.overview(perflog.read(tmp_path)).reasons
    assert [text.rpartition(": Stuck: ")[2] for text in reasons] == [
        "rank 0 holds up 1 rank and waits for none.", "rank 1 holds up 1 rank and waits for none.",
    ]  # fmt: skip


def mismatch(folder: Path, *own: dict[str, Any]) -> perflog.Log:
    """Four ranks, of which rank 2 makes other calls than `all_reduce` 6 and `broadcast` 7; none completes."""
    usual = [call(6), call(7, "broadcast")]
    counts = dict.fromkeys(range(4), (7, 5))
    return perflog.read(job(folder, counts, {rank: list(own) if rank == 2 else usual for rank in range(4)}))


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ((call(6, "all_gather"),), "all_gather as number 6, the others all_reduce of 28 bytes, BFloat16"),
        (
            (call(6, input_sizes=[[9, 9], [4]], output_sizes=[[9, 9], [4]]),),
            "all_reduce of 178 bytes, BFloat16 as number 6, the others all_reduce of 28 bytes, BFloat16",
        ),
        (
            (call(6, "broadcast"), call(7)),
            "broadcast as number 6, the others all_reduce of 28 bytes, BFloat16 (in another order)",
        ),
    ],
)
def test_a_rank_that_calls_something_else_is_named(tmp_path: Path, own: tuple[dict[str, Any], ...], text: str) -> None:
    log = mismatch(tmp_path / "job", *own)
    (odd,) = rows(stuck_ranks(log), stuck="mismatch")
    assert (odd["rank"], odd["holds_up"], odd["lacks"]) == (2, True, text)
    found = perflog.diagnose(log)
    assert [(each.rank, each.certainty) for each in found.culprits] == [(2, "sure")]
    assert found.why == "it calls something else than the others under the same number"


def test_of_two_ranks_that_differ_neither_is_accused(tmp_path: Path) -> None:
    log = perflog.read(job(tmp_path / "job", {0: (6, 5), 1: (6, 5)}, {0: [call(6)], 1: [call(6, "broadcast")]}))
    found = perflog.diagnose(log)
    assert not found.culprits
    assert found.verdict.startswith("Held up: collectives do not match: rank 1 calls broadcast as number 6")


def test_ranks_without_a_dump_are_accused_while_the_others_wait(tmp_path: Path) -> None:
    calls = {0: [call(6)], 1: [], 2: [call(6)], 3: [call(6)]}
    folder = job(tmp_path / "job", {0: (6, 5), 2: (6, 5), 3: (6, 5)}, calls)
    found = perflog.diagnose(perflog.read(folder))
    assert [(each.rank, each.certainty) for each in found.culprits] == [(1, "likely")]
    assert found.why == "it left no dump, and the others wait"


@pytest.mark.skipif(not DUMPS.is_dir(), reason="the shared campaigns are not here")
@pytest.mark.parametrize(("name", "faults"), [("gpu_error_2nd", [9, 14]), ("lock_gil_2nd", [10, 15])])
def test_the_injected_faults_of_a_real_job(tmp_path: Path, name: str, faults: list[int]) -> None:
    """The ranks that fault_injection.log of the campaign names, from the 16 dumps alone."""
    folder = tmp_path / name
    shutil.copytree(DUMPS / name, folder, ignore=shutil.ignore_patterns("*.log"))
    table = stuck_ranks(perflog.read(folder))
    assert sorted({r["rank"] for r in rows(table, holds_up=True)}) == faults
    assert not len(rows(table, holds_up=False)) and table["behind"].notna().all()


def test_a_device_that_is_stuck_goes_on_to_enqueue(tmp_path: Path) -> None:
    """Rank 2 has enqueued what all have, and has not completed what the others could not without it."""
    entries = {rank: [call(5), call(7, "all_gather"), call(9)] for rank in range(3)}
    log = perflog.read(job(tmp_path / "job", {0: (9, 7), 1: (9, 7), 2: (9, 4)}, entries))
    (stuck,) = rows(stuck_ranks(log))
    assert (stuck["rank"], stuck["stuck"], stuck["holds_up"]) == (2, "device", True)
    assert (stuck["behind"], stuck["completed"], stuck["waiting"]) == (3, 4, "0, 1")
    assert perflog.overview(log).reasons[:2] == [
        "Stuck: rank 2 holds up 2 ranks and waits for none.",
        "Rank 2 has not completed 3 calls of TENSOR that others have, first all_reduce: its device is stuck.",
    ]


def test_statuses_of_other_moments_prove_no_stuck_device(tmp_path: Path) -> None:
    """One call less is a status that was read earlier; most members behind a root are no stuck devices."""
    entries = {rank: [call(9)] for rank in range(3)}
    assert not len(stuck_ranks(perflog.read(job(tmp_path / "one", {0: (9, 8), 1: (9, 8), 2: (9, 7)}, entries))))
    assert not len(stuck_ranks(perflog.read(job(tmp_path / "root", {0: (9, 8), 1: (9, 5), 2: (9, 5)}, entries))))


@examples(80, shares_fixtures=True)
@given(st.data())
def test_planted_ranks_are_named_and_no_other(tmp_path: Path, data: st.DataObject) -> None:
    """Hosts that enqueue no more, and devices that complete no more, in one group of all ranks."""
    world = data.draw(st.integers(3, 16))
    faulty = data.draw(st.lists(st.integers(0, world - 1), unique=True, min_size=1, max_size=(world - 1) // 2))
    devices = {rank for rank in faulty if data.draw(st.booleans())}
    completed, ahead, lag = data.draw(st.integers(20, 1000)), data.draw(st.integers(1, 9)), data.draw(st.integers(2, 9))
    counts = dict.fromkeys(range(world), (completed + ahead, completed))
    counts |= dict.fromkeys(faulty, (completed, completed))
    counts |= dict.fromkeys(devices, (completed + ahead, completed - lag))
    entries = {
        rank: [call(number, state="completed" if number <= done else "scheduled")
               for number in range(completed - 10, enqueued + 1)]
        for rank, (enqueued, done) in counts.items()
    }  # fmt: skip
    folder = tmp_path / "job"
    shutil.rmtree(folder, ignore_errors=True)
    table = stuck_ranks(perflog.read(job(folder, counts, entries)))
    named = {row["rank"]: row["stuck"] for row in rows(table, holds_up=True)}
    assert named == {rank: "device" if rank in devices else "host" for rank in faulty}
    assert not rows(table, holds_up=False)


# --- jobs by hand ---------------------------------------------------------------------------------------------------


def made(*called: str, number: int = 5, pending: bool = True) -> Job:
    """A job in which each rank of a group made a call under one number."""
    job = Job(members={"g": tuple(range(len(called)))}, purpose={"g": "DP"})
    for rank, name in enumerate(called):
        job.own_calls["g", number][rank] = _Call(name, 8, "float", pending)
    return job


def test_a_third_of_the_ranks_may_be_accused_of_a_mismatch() -> None:
    """Of more neither side is: the first of the others is shown beside them."""
    (third,) = _mismatches(made("gather", "gather", "reduce"))
    assert (third["rank"], third["holds_up"], third["ranks"], third["behind"]) == (2, True, [0, 1], 0)
    assert third["lacks"].startswith("reduce") and "as number 5, the others gather" in third["lacks"]
    half = list(_mismatches(made("gather", "reduce", "gather", "reduce")))
    assert [(each["rank"], each["holds_up"], each["ranks"]) for each in half] == [
        (1, False, []),
        (2, False, []),
        (3, False, []),
    ]
    two_of_five = list(_mismatches(made("gather", "reduce", "gather", "reduce", "gather")))
    assert {each["holds_up"] for each in two_of_five} == {False} and [each["rank"] for each in two_of_five] == [
        1,
        2,
        3,
        4,
    ]
    assert [each["rank"] for each in _mismatches(made(*["gather"] * 6, "reduce", "reduce"))] == [6, 7]
    assert (
        list(_mismatches(made("gather", "gather"))) == list(_mismatches(made("gather", "reduce", pending=False))) == []
    )


def status(*numbers: tuple[int, int | None]) -> Job:
    """A job of one group whose ranks enqueued and completed so many calls."""
    job = Job(members={"g": tuple(range(len(numbers)))}, purpose={"g": None}, calls={("g", 7): "gather"})
    for rank, (enqueued, completed) in enumerate(numbers):
        job.numbers["g", rank] = {ENQUEUED: enqueued} | ({COMPLETED: completed} if completed is not None else {})
    return job


def test_a_rank_lacks_what_another_one_waits_for() -> None:
    """A rank with as many completed as enqueued calls waits for nobody; of unknown completed ones it may."""
    (lacking,) = _lacking_collectives(status((9, 6), (6, 6), (9, 9)))
    assert (lacking["rank"], lacking["behind"], lacking["ranks"], lacking["lacks"]) == (1, 3, [0], "gather")
    assert (lacking["enqueued"], lacking["completed"]) == (6, 6)
    assert list(_lacking_collectives(status((9, 9), (6, 6)))) == []
    (unknown,) = _lacking_collectives(status((0, None), (-1, None)))
    assert (unknown["rank"], unknown["completed"], unknown["ranks"]) == (1, None, [0])


def test_transfers_without_a_partner_are_lacked() -> None:
    job = Job(purpose={"g": "PP"}, dumped={0, 1})
    job.pending.update({("g", "send", 0, 1): 3, ("g", "recv", 0, 1): 1, ("g", "recv", 1, 0): 2, ("g", "send", 0, 9): 1})
    assert [(each["rank"], each["behind"], each["lacks"], each["ranks"]) for each in _lacking_pairs(job)] == [
        (1, 2, "recv from rank 0", [0]), (1, 2, "send to rank 0", [0])
    ]  # fmt: skip


def test_only_pending_transfers_with_two_ends_are_counted() -> None:
    usual = {
        "run": "r",
        "rank": 0,
        "group": "g",
        "collective": "send",
        "category": "scheduled",
        "src_rank": 0,
        "dst_rank": 1,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"category": "completed"},
        {"src_rank": None},
        {"dst_rank": None},
        {"group": None},
    ]
    frame = by_hand("events", [usual | change for change in changes])["events"]
    jobs = {"r": Job()}
    _add_calls(jobs, rows_from_frame(frame, "events"))
    assert jobs["r"].pending == {("g", "send", 0, 1): 1} and jobs["r"].point_to_point == {"g"}


def test_comparisons_read_the_calls_of_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pending calls add up over the ranks; of completed ones the most count. Other runs are not compared."""
    first, other = status((9, 6), (6, 6), (5, None)), status((3, 3))
    first.purpose["g"], first.numbers["h", 0] = "DP", {ENQUEUED: 2}
    monkeypatch.setattr(module, "jobs_of_dumps", lambda _: {"r": first, "other": other})
    tables = Tables(by_hand("steps", []))
    found = [
        (measure.name, measure.better, run, *values)
        for measure, run, values in module._samples(tables, Steady({"r": 0}, {}))
    ]
    assert found == [
        ("calls pending in group g (DP)", "lower", "r", 8.0), ("calls completed in group g (DP)", None, "r", 6.0),
        ("calls pending in group h", "lower", "r", 2.0),
    ]  # fmt: skip


def test_calls_are_known_by_their_number_and_name() -> None:
    usual = {"run": "r", "rank": 0, "group": "g", "seq": 3, "collective": "reduce", "category": "scheduled", "bytes": 8}
    changes: list[dict[str, Any]] = [
        {},
        {"seq": None},
        {"seq": 4, "collective": None},
        {"seq": 5, "category": "completed"},
    ]
    job = Job()
    _add_calls({"r": job}, Tables(by_hand("events", [usual | change for change in changes])).rows("events"))
    assert job.calls == {("g", 3): "reduce", ("g", 5): "reduce"} and job.waiting == {0}
    assert {key: [call.pending for call in calls.values()] for key, calls in job.own_calls.items()} == {
        ("g", 3): [True], ("g", 5): [False],
    }  # fmt: skip


def test_groups_of_a_job_are_those_that_its_ranks_print() -> None:
    """Beside other values and counters, and values of a run that dumps nothing."""
    group = json.dumps({"ranks": [0, 1], "purpose": "DP"})
    counted = ((0, ENQUEUED, 7.0), (1, ENQUEUED, 6.0), (1, COMPLETED, 6.0), (0, "power", 300.0))
    numbers = [{"name": name, "rank": rank, "subject": "g", "value": value} for rank, name, value in counted]
    values: list[dict[str, Any]] = [
        {"table": "values", "key": key, "text": text}
        for key, text in ((f"{module._GROUP}g", group), ("loss", "none"), (f"{module._GROUP}h", None))
    ]  # fmt: skip
    made = by_hand("counters", [*numbers, *values])
    other = made["values"].assign(run="s")
    jobs = module.jobs_of_dumps(Tables(made | {"values": pd.concat([made["values"], other])}))
    assert jobs.keys() == {"r"} and jobs["r"].members == {"g": (0, 1)} and jobs["r"].purpose == {"g": "DP"}
    assert dict(jobs["r"].numbers) == {("g", 0): {ENQUEUED: 7}, ("g", 1): {ENQUEUED: 6, COMPLETED: 6}}
    assert jobs["r"].dumped == {0, 1}
