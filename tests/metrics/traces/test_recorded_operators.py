"""Operators of the host: self times, what two recordings of a process fill in, volume of collectives."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.commands import run
from support.metrics_logs import by_hand
from support.paths import ROOT

import perflog
from perflog.analysis.overview import overview
from perflog.log import combined
from perflog.metrics import Tables
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.operators import recorded_operators as module
from perflog.metrics.traces.operators.recorded_operators import (
    _completed,
    _own_times,
    _partner,
    _places,
    _Recording,
    companions,
    untimed_runs,
)
from perflog.tables.columns import NULL
from perflog.tables.schema import TABLES

NAMES = {11: "aten::linear", 12: "aten::addmm", 13: "aten::relu", 14: "c10d::allreduce_"}
TENSOR = [1, 2, 0, 100, 4, "cpu"]


def timed(process: int = 7, shift: int = 0, **changes: Any) -> dict[str, Any]:
    """A profile of four operators, of which one calls another; no shapes."""
    spans = {11: (0, 50), 12: (10, 30), 13: (60, 10), 14: (80, 5)}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": NAMES[number], "pid": process, "tid": process, "ts": start, "dur": length,
         "args": {"Record function id": number + shift, "External id": number}}
        for number, (start, length) in spans.items()
    ]  # fmt: skip
    return {"schemaVersion": 1, "traceEvents": events} | changes


def recorded(process: int = 7, names: dict[int, str] | None = None) -> dict[str, Any]:
    """The execution trace of the same process."""
    nodes = []
    for number, name in (names or NAMES).items():
        attrs = [{"name": "rf_id", "type": "uint64", "value": number}, {"name": "scope", "type": "uint64", "value": 0}]
        tensors = {
            "values": [TENSOR, [3, 4, 0, number, 2, "cpu"]],
            "shapes": [[100], [number]],
            "types": [],
            "strides": [],
        }
        nodes.append({"id": number + 1, "name": name, "ctrl_deps": 1, "inputs": tensors,
                      "outputs": {"values": [TENSOR], "shapes": [[100]]}, "attrs": attrs})  # fmt: skip
    return {"schema": "1.1.1-chakra.0.0.4", "pid": process, "time": "2026", "start_ts": 1, "nodes": nodes}


def read(tmp_path: Path, **documents: dict[str, Any]) -> perflog.Log:
    logs = []
    for name, document in documents.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        logs.append(perflog.read(path))
    return combined(logs)


def operators(log: perflog.Log) -> dict[str, tuple[Any, ...]]:
    table = perflog.metrics.host_operators(log)
    columns = ("operator", "shapes", "calls", "self_s", "time_s", "bytes")
    return {
        row[0]: row[1:]
        for row in table[list(columns)].astype(object).where(table.notna(), None).itertuples(index=False)
    }


def test_the_own_time_of_a_call_is_not_negative() -> None:
    """The times of a call of 10 ns, of one of 4 ns inside it, and of one of 4 ns with one of 5 ns inside it."""
    durations, parents = np.array([10, 4, 4, 5]), np.array([NO_CALL, 0, NO_CALL, 2])
    tree: Any = SimpleNamespace(rows={"duration_ns": durations}, parents=parents)
    assert _own_times(tree).tolist() == [6, 4, 0, 5] and durations.tolist() == [10, 4, 4, 5]


def test_self_time_leaves_out_what_an_operator_calls(tmp_path: Path) -> None:
    found = operators(read(tmp_path, a=timed()))
    assert found["aten::linear"] == (None, 1, pytest.approx(20e-6), pytest.approx(50e-6), None)
    assert found["aten::addmm"] == (None, 1, pytest.approx(30e-6), pytest.approx(30e-6), None)


def test_an_execution_trace_has_counts_and_bytes(tmp_path: Path) -> None:
    found = operators(read(tmp_path, a=recorded()))
    # The tensor of 400 bytes counts once, though the operator takes and returns it.
    assert found["aten::relu"] == ("[[100], [13]]", 1, None, None, 400 + 13 * 2)


def test_two_recordings_of_a_process_fill_each_other_in(tmp_path: Path) -> None:
    log = read(tmp_path, profile=timed(), nodes=recorded())
    table = perflog.metrics.host_operators(log)
    assert len(table) == 8 and table["joined"].notna().all()
    for _, rows in table.groupby("run"):
        (relu,) = rows[rows["operator"] == "aten::relu"].to_dict("records")
        assert (relu["shapes"], relu["bytes"], relu["self_s"]) == ("[[100], [13]]", 426, pytest.approx(10e-6))
    volume = perflog.metrics.collective_volume(log)
    assert volume[["op", "calls", "bytes"]].values.tolist() == [["allreduce", 1, 428]] * 2


def test_recordings_that_pytorch_wrote_are_joined() -> None:
    """A profile without shapes and the execution trace of the same process, torch 2.13 on two ranks with gloo."""
    folder = ROOT / "tests" / "traces" / "recordings"
    profile, nodes = (json.loads((folder / f"{name}.json").read_text()) for name in ("profile", "nodes"))
    table = perflog.metrics.host_operators(combined([perflog.read(folder / f"{n}.json") for n in ("profile", "nodes")]))
    shapes = {}
    for node in nodes["nodes"]:
        number = next(attr["value"] for attr in node["attrs"] if attr["name"] == "rf_id")
        shapes[number] = json.dumps(node["inputs"]["shapes"]) if node["inputs"]["shapes"] else None
    expected: dict[tuple[str, str | None], float] = {}
    for event in profile["traceEvents"]:
        if event.get("cat") == "cpu_op":
            key = event["name"], shapes[event["args"]["Record function id"]]
            expected[key] = expected.get(key, 0.0) + event["dur"] * 1e-6
    assert len(expected) > 5 and any(name == "c10d::allreduce_" for name, _ in expected)
    for _, rows in table.groupby("run"):
        columns = rows[["operator", "shapes", "time_s"]].astype(object).where(rows.notna(), None)
        found = {(name, text): time for name, text, time in columns.itertuples(index=False)}
        assert found == {key: pytest.approx(time) for key, time in expected.items()}


@pytest.mark.parametrize(
    "other",
    [
        recorded(process=8),
        recorded(names={number: f"other{number}" for number in NAMES}),
        recorded(names={number + 50: name for number, name in NAMES.items()}),
    ],
    ids=["another process", "other names", "other numbers"],
)
def test_recordings_that_do_not_agree_are_not_joined(tmp_path: Path, other: dict[str, Any]) -> None:
    table = perflog.metrics.host_operators(read(tmp_path, profile=timed(), nodes=other))
    assert table["joined"].isna().all()


def test_two_candidates_that_agree_prove_nothing(tmp_path: Path) -> None:
    log = read(tmp_path, profile=timed(), one=recorded(), two=recorded() | {"time": "later"})
    table = perflog.metrics.host_operators(log)
    assert table.loc[table["self_s"].notna(), "joined"].isna().sum() == 4


def test_recordings_of_different_ranks_are_not_joined(tmp_path: Path) -> None:
    """In containers the processes of all ranks may have one number."""
    for rank in (0, 1):
        (tmp_path / f"et_rank{rank}.json").write_text(json.dumps(recorded()))
    (tmp_path / "profile.json").write_text(json.dumps(timed(distributedInfo={"rank": 1})))
    recordings = perflog.read(*(tmp_path / f"et_rank{rank}.json" for rank in (0, 1)))
    table = perflog.metrics.host_operators(combined([recordings, perflog.read(tmp_path / "profile.json")]))
    joined = table["joined"].notna().groupby([table["rank"], table["run"]]).all()
    assert joined.groupby("rank").agg(list).to_dict() == {0: [False], 1: [True, True]}


def test_the_overview_shows_a_joined_pair_as_one_run(tmp_path: Path) -> None:
    answer = overview(read(tmp_path, profile=timed(), nodes=recorded()))
    assert len(answer.groups) == 1 and answer.what.endswith("joined with 1 execution trace")
    assert answer.reasons[0].startswith(
        "Operators of the host take 65 us: 46 % aten::addmm (1 call, most with inputs 100, 12)"
    )
    assert answer.reasons[1] == "Collectives: allreduce 1 call, 428 B."
    assert not any("compare" in command for command in answer.next)


def test_the_report_of_a_joined_pair_has_their_operators(tmp_path: Path) -> None:
    read(tmp_path, profile=timed(), nodes=recorded())
    page = tmp_path / "page.html"
    names = [str(tmp_path / name) for name in ("profile.json", "nodes.json")]
    run("report", *names, "-o", page)
    assert "[[100], [13]]" in page.read_text()


def test_the_overview_of_an_execution_trace_alone(tmp_path: Path) -> None:
    answer = overview(read(tmp_path, nodes=recorded()))
    figures = {figure.name: next(iter(figure.values.values())) for figure in answer.figures}
    assert figures == {"operator calls": 4, "tensors": 4 * 400 + 2 * (11 + 12 + 13 + 14), "collectives": 428}
    assert "without times" in answer.reasons[0]


def test_compare_has_operators_by_name_and_shapes(tmp_path: Path) -> None:
    one, two = read(tmp_path, a=recorded()), read(tmp_path, b=recorded(names=NAMES | {15: "aten::relu"}))
    rows = perflog.compare(one, two).rows
    calls = rows[rows["metric"] == "calls of all operators"].iloc[0]
    assert (calls["kind"], calls["base_value"], calls["side_value"]) == ("operator", pytest.approx(4), pytest.approx(5))
    assert (rows["metric"] == "calls of aten::addmm 100, 12").any()
    timed_rows = perflog.compare(read(tmp_path, c=timed()), read(tmp_path, d=timed(shift=1))).rows
    assert {"all", "aten::addmm"} <= set(timed_rows.loc[timed_rows["kind"] == "operator", "metric"])


def calls(run: str, *rows: tuple[Any, ...], start: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """Operators of a process: name, number, shapes, bytes; with times if `start` is given."""
    usual = {"run": run, "kind": "cpu", "process": "p", "start_ns": start, "duration_ns": None if start is None else 7}
    return [
        usual | {"name": name, "record": number, "shapes": shapes, "bytes": size} | more
        for name, number, shapes, size in rows
    ]


def made(*rows: dict[str, Any]) -> Tables:
    events = [{"line": at, "part": 0} | row for at, row in enumerate(rows, 1)]
    frames = {"events": events, "runs": [{"run": run} for run in dict.fromkeys(row["run"] for row in rows)]}
    return Tables({
        table: pd.DataFrame(of).reindex(columns=[c.name for c in TABLES[table]]) for table, of in frames.items()
    })  # fmt: skip


def recording(*rows: dict[str, Any]) -> _Recording:
    events = made(*rows).rows("events")
    return _Recording(rows[0]["run"], 0, events, events["duration_ns"])


def test_calls_are_the_same_by_process_number_and_name() -> None:
    """A number may be 0; one that is not known, or of another process, is of no call."""
    own = calls("a", ("mm", 0, None, None), ("add", 5, None, None), ("relu", None, None, None), ("mm", 9, None, None))
    other = calls("b", ("relu", None, None, None), ("add", 5, None, None), ("mm", 0, None, None))
    places = _places(recording(*own).rows, recording(*other).rows)
    assert places is not None and places.tolist() == [2, 1, -1, -1]
    apart = [row | {"process": "q"} for row in other]
    assert _places(recording(*own).rows, recording(*apart).rows) is None
    unknown = [row | {"process": None} for row in other]
    assert _places(recording(*own).rows, recording(*unknown).rows) is None


@pytest.mark.parametrize(("others", "agree"), [(0, True), (1, True), (2, False)])
def test_recordings_agree_in_99_percent_of_the_names(others: int, agree: bool) -> None:
    own = calls("a", *((f"op{n}", n, None, None) for n in range(100)))
    other = calls("b", *((f"op{n}" if n >= others else "x", n, None, None) for n in range(100)))
    places = _places(recording(*own).rows, recording(*other).rows)
    assert (places is not None) == agree
    assert places is None or [*places] == [-1] * others + [*range(others, 100)]


def test_the_recording_with_most_calls_in_common_is_the_other_one() -> None:
    rows = [("mm", 1, None, None), ("add", 2, None, None)]
    own = recording(*calls("a", *rows))
    fewer = recording(*calls("b", rows[0], ("relu", 3, None, None), start=0))
    more = recording(*calls("c", *rows, start=0))
    untimed = recording(*calls("d", *rows))
    found = _partner(own, [own, fewer, untimed, more])
    assert found is not None and found[0] is more and found[1].tolist() == [0, 1]
    assert _partner(own, [more, more]) is None  # which of the two is not known
    assert _partner(own, [untimed]) is None
    assert _partner(recording(*calls("a", ("mm", None, None, None))), [more]) is None
    assert _partner(recording(*calls("a", *rows, rank=0)), [recording(*calls("c", *rows, start=0, rank=1))]) is None


def test_only_what_is_missing_is_filled_in() -> None:
    own = calls("a", ("mm", 1, "[1]", 5), ("add", 2, None, None), ("relu", 3, None, None), start=0)
    other = calls("b", ("mm", 1, "[2]", 6), ("add", 2, "[1]", 8), ("relu", 4, "[9]", 9))
    timed, untimed = recording(*own), recording(*other)
    found = _completed(timed, *_partner(timed, [untimed]) or (None, None))
    texts = [found.shape_texts[code] if code >= 0 else None for code in found.shapes.tolist()]
    assert texts == ["[1]", "[1]", None] and found.other == "b"
    assert found.bytes.tolist() == [5, 8, NULL] and found.times.tolist() == [7, 7, 7]
    back = _completed(untimed, *_partner(untimed, [timed]) or (None, None))
    assert back.times.tolist() == back.own.tolist() == [7, 7, NULL]
    assert [back.shape_texts[code] for code in back.shapes.tolist()] == ["[2]", "[1]", "[9]"]
    assert back.bytes.tolist() == [6, 8, 9]


@pytest.mark.parametrize(("ranks", "rank"), [((3, 3), 3), ((0, 0), 0), ((0, 1), None), ((None, None), None)])
def test_operators_have_the_rank_of_all_calls(ranks: tuple[int | None, int | None], rank: int | None) -> None:
    rows = [row for each in ranks for row in calls("a", ("mm", 1, None, None), rank=each)]
    assert _completed(recording(*rows), None, None).rank == rank


def test_the_runs_that_only_fill_in_others() -> None:
    rows = [("mm", 1, None, None), ("add", 2, None, None)]
    timed, untimed = calls("a", *rows, start=0), calls("b", *rows)
    assert companions(made(*timed, *untimed)) == {"b": "a"}
    assert companions(made(*untimed)) == companions(made(*timed)) == {}
    assert untimed_runs(made(*timed, *untimed)) == {"b"}
    assert untimed_runs(made(*timed, *[row | {"run": "a"} for row in untimed])) == frozenset()


def test_rows_are_known_by_their_process_and_number() -> None:
    """Of two recordings; a number beyond 40 bits, or none, or no process, is not known."""
    largest = (1 << 40) - 1
    one, other = (
        Tables(by_hand("events", [{"process": process, "record": number} for process, number in pairs])).rows("events")
        for pairs in (
            [("9", 5), ("8", 5), ("9", largest), ("9", largest + 1), ("9", -1), ("9", None), (None, 5)],
            [("8", 5), ("9", 5), ("7", 5)],
        )
    )
    own, others = (keys.tolist() for keys in module._keys(one, other))
    assert own[3:] == [-1] * 4 and len({*own[:3], *others}) == 4
    assert own[:2] == others[1::-1] and own[2] == own[0] - 5 + largest
