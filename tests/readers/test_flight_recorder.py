"""Dumps of PyTorch's flight recorder: what is stored of them, which rank they are of, and pickles that are attacks."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.flight_recorder_files import ENTRY, call, dump, job, transfer
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.dumps.flight_recorder import FlightRecorderReader
from perflog.readers.interface import RankInfo

GROUPS = {"0": ("default_pg", [0, 1, 2, 3]), "5": ("TENSOR", [2, 3]), "9": ("OWN", [3])}
STATUS = {"0": (4, 4), "1": (12, 11), "4": (-1, -1)}


def write(path: Path, content: Any, protocol: int = 2) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def one(log: perflog.Log, table: str) -> dict[str, Any]:
    (row,) = log.arrow(table).to_pylist()
    return dict(row)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_an_entry_is_an_event_at_the_time_of_the_call(tmp_path: Path, protocol: int) -> None:
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, STATUS, [ENTRY]), protocol))
    event = one(log, "events")
    expected = {
        "rank": 3, "rank_by": "printed", "kind": "library", "name": "nccl:all_reduce", "collective": "all_reduce",
        "category": "scheduled", "thread": "python3 4711", "start_ns": 1_700_000_000_123_456_789, "duration_ns": None,
        "group": "5", "group_description": "TENSOR", "group_ranks": "[2, 3]", "ranks": 2, "seq": 12,
        "bytes": 2 * 3 * 2 + 4 * 4, "dtype": "BFloat16", "shapes": "[[2, 3], [4]]", "src_rank": None, "line": 1,
    }  # fmt: skip
    assert {name: event[name] for name in expected} == expected
    run = one(log, "runs")
    assert (run["format"], run["world_size"]) == ("flight_recorder", 4)
    settings = json.loads(run["config"])
    assert (settings["dump_version"], settings["nccl_version"], settings["timeout_ms"]) == ("2.9", "2.27.3", 600_000)


def test_json_has_the_same_rows(tmp_path: Path) -> None:
    """As `_dump_nccl_trace_json` writes it: keys sorted, numbers of the status as text."""
    content = dump(GROUPS, STATUS, [ENTRY])
    pickled = perflog.read(write(tmp_path / "trace_3", content))
    status = {
        key: {name: str(number) for name, number in counts.items()} for key, counts in content["pg_status"].items()
    }
    path = tmp_path / "trace_3.json"
    path.write_text(json.dumps(content | {"pg_status": status}, sort_keys=True))
    for table in ("events", "counters", "values", "lines"):
        rows = [log.arrow(table).drop_columns("run").to_pylist() for log in (pickled, perflog.read(path))]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1])), table


def test_the_status_belongs_to_the_group_that_an_entry_or_the_order_names(tmp_path: Path) -> None:
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, STATUS, [ENTRY])))
    rows = log.table("counters")[["subject", "name", "value"]].itertuples(index=False, name=None)
    assert set(rows) == {
        ("0", "last_enqueued_collective", 4), ("0", "last_completed_collective", 4),
        ("5", "last_enqueued_collective", 12), ("5", "last_completed_collective", 11),
    }  # fmt: skip
    named = dump(
        {"mesh_tp": ("TENSOR", [3])},
        {"1": (12, 11), "4": (7, 0), "9": (-1, -1)},
        [call(1) | {"process_group": ["mesh_tp", ""]}],
    )
    log = perflog.read(write(tmp_path / "named_3", named))
    assert set(log.table("counters")["subject"]) == {"mesh_tp"}
    assert log.figure_account["unread"] == 2  # those of the group with number 4


def test_point_to_point_calls_have_ranks_of_the_job(tmp_path: Path) -> None:
    entries = [transfer("send 1->0", 6), transfer("recv 1<-0", 7), transfer("recv 1<-7", 8)]
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, STATUS, entries)))
    rows = [
        tuple(row.values())
        for row in log.arrow("events").select(["collective", "src_rank", "dst_rank", "seq"]).to_pylist()
    ]
    assert rows == [("send", 3, 2, 6), ("recv", 2, 3, 7), ("recv", None, 3, 8)]


def test_durations_and_stacks_where_the_program_recorded_them(tmp_path: Path) -> None:
    frames = [{"name": "step", "filename": "train.py", "line": 7}, {"name": "main", "filename": "train.py", "line": 9}]
    entry = call(1, state="completed", duration_ms=1.25, frames=frames)
    event = one(perflog.read(write(tmp_path / "trace_3", dump(GROUPS, STATUS, [entry]))), "events")
    assert (event["duration_ns"], event["stack"]) == (1_250_000, "step (train.py:7); main (train.py:9)")


def test_each_number_is_accounted_for(tmp_path: Path) -> None:
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, {"1": (12, 11)}, [ENTRY, 5, call(2, new_counter=3)])))
    assert log.line_account == {"total": 7, "read": 6, "context": 0, "unread": 1}
    lines = {table: log.table(table)["line"].tolist() for table in ("events", "counters", "values")}
    assert lines == {"events": [1, 3], "counters": [4, 4], "values": [5, 6, 7]}
    assert log.arrow("runs")["last_line"].to_pylist() == [7]
    # Of an entry: 2 sequence numbers, thread, time, timeout, 3 + 3 sizes stored; 3 numbers of no use dropped.
    account = log.figure_account
    assert (account["stored"], account["dropped"], account["unread"]) == (2 * 11 + 2 + 4 + 2 + 1, 2 * 3, 1)


def test_ranks_of_a_job_are_one_run_although_a_dump_is_missing(tmp_path: Path) -> None:
    folder = job(tmp_path / "job", dict.fromkeys((0, 1, 3), (2, 1)), {rank: [call(2)] for rank in range(4)})
    log = perflog.read(folder)
    assert len(log) == 1 and one(log, "runs")["world_size"] == 4
    assert sorted(set(log.table("events")["rank"])) == [0, 1, 3]
    assert set(log.table("values")["key"]) == {"process_group.5", *(f"process_group.{10 + r}" for r in (0, 1, 3))}


def test_the_file_name_tells_the_rank_where_all_groups_hold_several(tmp_path: Path) -> None:
    groups = {"0": ("default_pg", [0, 1])}
    for name, rank in (("trace_1", 1), ("trace_7", None), ("trace", None)):
        log = perflog.read(write(tmp_path / name, dump(groups, {"0": (1, 1)})))
        assert log.arrow("counters")["rank"].to_pylist() == [rank, rank]


def test_a_dump_tells_its_rank_and_the_number_of_ranks(tmp_path: Path) -> None:
    def info(groups: dict[str, tuple[str, list[int]]]) -> RankInfo | None:
        path = write(tmp_path / "trace", dump(groups, {"0": (1, 1)}))
        return FlightRecorderReader().rank_info(open_source(str(path)))

    assert info({"0": ("default_pg", [0, 1]), "1": ("", [1])}) == RankInfo(1, "2")
    assert info({"0": ("own", [0, 1])}) == RankInfo(None, "2")
    assert info({"0": ("own", [])}) == RankInfo(None, None)


class Attack:
    """Unpickles as a call of a function."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_code_in_a_pickle_does_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    path = write(tmp_path / "trace_0", {"version": "2.9", "pg_config": {}, "entries": Attack(made)})
    with pytest.raises(InputError, match="it names code, which perflog does not run"):
        perflog.read(path)
    assert not made.exists()


def test_a_dump_that_is_cut_is_an_error_with_its_reason(tmp_path: Path) -> None:
    content = pickle.dumps(dump(GROUPS, STATUS, [ENTRY] * 9), 2)
    path = tmp_path / "trace_3"
    for size in range(120, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match="the dump cannot be read"):
            perflog.read(path)


@pytest.mark.parametrize(
    "content",
    [
        {"pg_config": None, "pg_status": [], "entries": {}},
        {"pg_config": {"0": 5}, "pg_status": {"0": None}, "entries": [None, [], {}]},
        {
            "pg_config": {"0": {"ranks": "[]"}},
            "entries": [{"process_group": [], "input_sizes": 5, "time_created_ns": 1.5}],
        },
        {"pg_status": {"0": {"last_enqueued_collective": 1 << 80}}, "entries": [{"input_sizes": [["x"]]}]},
    ],
)
def test_odd_contents_cost_only_themselves(tmp_path: Path, content: Any) -> None:
    log = perflog.read(write(tmp_path / "trace_0", {"version": "2.9", **content}))
    assert perflog.overview(log).what.startswith("flight_recorder")


def test_other_pickles_and_json_are_not_taken(tmp_path: Path) -> None:
    write(tmp_path / "a", {"state_dict": [1.0, 2.0]})
    (tmp_path / "b").write_text('{"version": 3, "steps": [1, 2]}')
    with pytest.raises(InputError):
        perflog.read(tmp_path / "a")
    assert one(perflog.read(tmp_path / "b"), "runs")["format"] != "flight_recorder"


@pytest.mark.parametrize(
    ("entry", "column", "value"),
    [
        (ENTRY | {"input_sizes": [["", 3], [4]]}, "bytes", None),
        (ENTRY | {"input_sizes": [[float("nan")], [4]]}, "bytes", None),
        (ENTRY | {"input_sizes": [[2**40, 2**40], [4]]}, "bytes", None),
        (ENTRY | {"duration_ms": float("inf")}, "duration_ns", None),
        (ENTRY | {"duration_ms": 10**400}, "duration_ns", None),
        (ENTRY | {"duration_ms": True}, "duration_ns", None),
        (ENTRY | {"timeout_ms": [1]}, "seq", 12),
        (ENTRY | {"collective_seq_id": 2**63}, "seq", None),
        (ENTRY | {"profiling_name": f"nccl:send 0->{'9' * 5000}"}, "dst_rank", None),
    ],
)
def test_an_odd_number_of_an_entry_is_unknown(tmp_path: Path, entry: dict[str, Any], column: str, value: Any) -> None:
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, STATUS, [entry])))
    assert one(log, "events")[column] == value


def test_ranks_that_no_column_holds_are_none(tmp_path: Path) -> None:
    groups = {"0": ("default_pg", [0, 1, 3]), "5": ("OWN", [3, 2**31, 10**4000])}
    log = perflog.read(write(tmp_path / "trace_x", dump(groups, {"9" * 5000: (1, 1)}, [ENTRY])))
    assert one(log, "events")["group_ranks"] == "[3]" and one(log, "events")["rank"] == 3


def itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def doubled(times: int) -> list[Any]:
    """Lists of the same list twice: few bytes, and 2^times values."""
    inner: list[Any] = [1]
    for _ in range(times):
        inner = [inner, inner]
    return inner


@pytest.mark.parametrize("sizes", [itself(), doubled(60), [[10**5000]]])
def test_lists_that_never_end_are_an_error(tmp_path: Path, sizes: list[Any]) -> None:
    path = write(tmp_path / "trace_3", dump(GROUPS, STATUS, [ENTRY | {"input_sizes": sizes}]))
    with pytest.raises(InputError, match=r"not plain data|more than numbers"):
        perflog.read(path)


def test_the_proof_is_the_versions(tmp_path: Path) -> None:
    path = write(tmp_path / "trace_3", dump(GROUPS, STATUS, [ENTRY]))
    assert proof_of(path) == [(1, "dump", "version 2.9, NCCL 2.27.3")]


def test_the_status_of_a_group_that_nothing_names_is_unread(tmp_path: Path) -> None:
    """Its numbers are counted; -1 says that there is none, and 0 is a number."""
    log = perflog.read(write(tmp_path / "trace_3", dump(GROUPS, {"1": (0, -1), "77": (0, 4), "78": (-1, -1)}, [ENTRY])))
    values = [(row["subject"], row["name"], row["value"]) for row in log.arrow("counters").to_pylist()]
    assert values == [("5", "last_enqueued_collective", 0.0)]
    lines = {row["shape"]: row for row in log.arrow("lines").to_pylist()}
    assert lines["status of an unknown group"]["figures_unread"] == 2
    assert lines["status of a process group"]["figures_stored"] == 1
