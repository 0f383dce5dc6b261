"""Execution traces of PyTorch: both generations of their schema, the tree, collectives, and damaged files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.events.event_columns import MISSING
from perflog.readers.operators import execution_trace as module
from perflog.readers.operators.execution_trace import ExecutionTraceReader, _strided, _tensor, _tensor_bytes

REAL = ROOT / "tests" / "traces" / "execution_trace" / "torch_2_13.json"
EMPTY: dict[str, Any] = {"values": [], "shapes": [], "types": [], "strides": []}
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 8},
    {"pg_name": "3", "pg_desc": "TP", "ranks": [4, 5], "group_size": 2},
]


def node(number: int, name: str, parent: int, scope: int = 0, shapes: Sequence[Any] = (), **attrs: Any) -> Any:
    """A node as schema 1.1 writes it."""
    common = {"rf_id": number, "fw_parent": 0, "seq_id": -1, "scope": scope, "tid": 1, "fw_tid": 0, "op_schema": ""}
    written = [{"name": key, "type": "string", "value": value} for key, value in (common | attrs).items()]
    inputs = EMPTY | {"shapes": list(shapes)}
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": inputs, "outputs": EMPTY, "attrs": written}


def document(nodes: Sequence[Any], schema: str = "1.1.1-chakra.0.0.4") -> str:
    return json.dumps({"schema": schema, "pid": 77, "time": "2026", "start_ts": 1, "nodes": nodes, "finish_ts": 2})


def read(tmp_path: Path, text: str) -> perflog.Log:
    path = tmp_path / "et.json"
    path.write_text(text)
    return perflog.read(path)


TREE = [
    node(2, "[pytorch|profiler|execution_trace|thread]", 1, 7),
    node(6, "aten::mm", 5, shapes=[[8, 16], [16, 4]]),
    node(5, "forward", 4, 7),
    node(7, "aten::relu", 4),
    node(4, "ProfilerStep#12", 2, 7),
    node(9, "AddmmBackward0", 8, 1, fw_parent=5, fw_tid=1, tid=2),
    node(8, "[pytorch|profiler|execution_trace|thread]", 1, 7, tid=2),
    node(1, "[pytorch|profiler|execution_trace|process]", 1, 7),
]


def test_operators_lie_in_the_steps_and_ranges_of_the_tree(tmp_path: Path) -> None:
    rows = read(tmp_path, document(TREE)).arrow("events").to_pylist()
    found = [(r["line"], r["name"], r["kind"], r["step"], r["range"], r["thread"], r["shapes"]) for r in rows]
    assert found == [
        (2, "aten::mm", "cpu", 12, "forward", "1", "[[8, 16], [16, 4]]"),
        (3, "forward", "range", 12, None, "1", None),
        (4, "aten::relu", "cpu", 12, None, "1", None),
        (5, "ProfilerStep#12", "range", None, None, "1", None),
        (6, "AddmmBackward0", "cpu", 12, None, "2", None),  # its thread is in no step, but its forward thread is
    ]
    assert {(r["start_ns"], r["duration_ns"], r["process"]) for r in rows} == {(None, None, "77")}
    assert rows[4]["category"] == "backward_function"


def test_collectives_have_their_group_and_bytes(tmp_path: Path) -> None:
    made = node(3, "## process_group:init ##", 2, 7)
    made["inputs"] = EMPTY | {"values": [json.dumps(GROUPS)]}
    reduce: dict[str, Any] = {
        "collective_name": "allreduce", "dtype": "BFloat16", "in_msg_nelems": 100, "out_msg_nelems": 100,
        "in_split_size": "[]", "out_split_size": "[]", "global_rank_start": 0, "global_rank_stride": 1,
        "pg_desc": "default_pg", "pg_size": 8,
    }  # fmt: skip
    tensor = reduce | {"pg_desc": "TP", "pg_size": 2, "out_msg_nelems": 200}
    nodes = [
        node(4, "record_param_comms", 2, **reduce, pg_name="0"),
        made,
        node(5, "record_param_comms", 2, **tensor, pg_name="3"),
        node(6, "record_param_comms", 2, **reduce | {"dtype": "QInt", "global_rank_stride": 0}, pg_name="9"),
    ]
    log = read(tmp_path, document(nodes))
    rows = log.arrow("events").to_pylist()
    names = ("collective", "group", "group_description", "group_ranks", "ranks", "dtype", "bytes")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("allreduce", "0", "default_pg", "[0, 1, 2, 3, 4, 5, 6, 7]", 8, "BFloat16", 200),
        ("allreduce", "3", "TP", "[4, 5]", 2, "BFloat16", 400),  # the ranks that were listed, not start and stride
        ("allreduce", "9", "default_pg", None, 8, "QInt", None),
    ]
    assert log.arrow("runs")["world_size"].to_pylist() == [8]
    values = {row["key"]: json.loads(row["text"]) for row in log.arrow("values").to_pylist()}
    assert values["process_group.3"] == {"purpose": "TP", "ranks": [4, 5]}


def test_the_older_schema_has_the_same_rows(tmp_path: Path) -> None:
    older = []
    for new in TREE:
        attrs = {attr["name"]: attr["value"] for attr in new["attrs"]}
        lists = {"inputs": [], "input_shapes": new["inputs"]["shapes"], "input_types": [], "outputs": []}
        name = new["name"].replace("execution_trace", "execution_graph")
        older.append({"name": name, "id": new["id"], "parent": new["ctrl_deps"]} | attrs | lists)
    tables = [read(tmp_path, document(TREE)), read(tmp_path, document(older, "1.0.1"))]
    rows = [log.arrow("events").drop_columns("run").to_pylist() for log in tables]
    assert rows[0] == rows[1]
    assert tables[1].figure_account["unread"] == 0


def test_an_attribute_that_nobody_declared_is_unread(tmp_path: Path) -> None:
    log = read(tmp_path, document([node(4, "aten::mm", 2, new_figure=5), *TREE]))
    unread = [row for row in log.arrow("lines").to_pylist() if row["figures_unread"]]
    assert [(row["shape"], row["figures_unread"]) for row in unread] == [("new_figure", 1)]


def test_each_field_of_a_node_is_stored_or_dropped_for_a_reason(tmp_path: Path) -> None:
    lines = read(tmp_path, document([node(4, "aten::mm", 2, shapes=[[8, 16]])])).arrow("lines").to_pylist()
    dropped = {row["shape"]: row["figures_dropped"] for row in lines if row["dropped_because"]}
    assert set(dropped.values()) == {1} and {"seq_id", "fw_tid"} <= dropped.keys()
    assert not any(row["figures_unread"] for row in lines)


@pytest.mark.parametrize("groups", ["no JSON", "7", "[1]", '[{"ranks": [0]}]', '[{"pg_name": "0", "ranks": 3}]'])
def test_groups_that_are_no_list_are_unread(tmp_path: Path, groups: str) -> None:
    made = node(3, "## process_group:init ##", 2, 7)
    made["inputs"] = EMPTY | {"values": [groups]}
    log = read(tmp_path, document([made, node(4, "aten::mm", 2)]))
    unread = [row["shape"] for row in log.arrow("lines").to_pylist() if row["status"] == "unread" and row["count"]]
    assert unread == ["process groups that are no list"]


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ([7, 1, 0, 100, 2, "cuda:0"], (7, 200)),
        ([7, 1, 0, -1, 2, "cuda:0"], (7, 0)),
        ([7, 1, 0, 100, 2, 5], None),
        ([7, 1, 0, 100, "2", "cuda:0"], None),
        ([7, 1, 0, 100, "cuda:0"], None),
    ],
)
def test_the_bytes_of_a_tensor(value: list[Any], size: tuple[int, int] | None) -> None:
    assert _tensor(value) == size


@pytest.mark.parametrize(
    ("start", "stride", "size", "ranks"),
    [(0, 1, 3, [0, 1, 2]), (4, 2, 2, [4, 6]), (-1, 1, 2, []), (0, 0, 2, []), (0, 1, 0, []), (2**31 - 3, 1, 9, [])],
)
def test_ranks_at_equal_distances(start: int, stride: int, size: int, ranks: list[int]) -> None:
    assert _strided(start, stride, size) == ranks


def test_a_file_that_was_cut_has_all_its_whole_nodes(tmp_path: Path) -> None:
    text = document(TREE)
    whole = read(tmp_path, text).arrow("events").num_rows
    cut = text[: text.index('"aten::relu"') + 40]
    log = read(tmp_path, cut)
    assert [row["name"] for row in log.arrow("events").to_pylist()] == ["aten::mm", "forward"]
    assert log.line_account == {"total": 4, "read": 2, "context": 1, "unread": 1}
    assert any("its last node is cut" in warning for warning in log.warnings)
    assert whole == 5


def test_a_damaged_node_costs_only_itself(tmp_path: Path) -> None:
    text = document(TREE).replace('"name": "aten::relu", ', '"name" "aten::relu", ')
    log = read(tmp_path, text)
    assert log.line_account == {"total": 8, "read": 4, "context": 3, "unread": 1}
    quoted = document(TREE).replace('"aten::relu"', '"my "best" relu"')  # the observer escapes no names
    assert 'my "best" relu' in read(tmp_path, quoted).table("events")["name"].tolist()


def test_a_circle_in_the_tree_ends(tmp_path: Path) -> None:
    log = read(tmp_path, document([node(4, "a", 5), node(5, "b", 4), node(6, "c", 5)]))
    assert log.arrow("events")["step"].to_pylist() == [None] * 3


def test_a_trace_without_nodes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no nodes"):
        read(tmp_path, document([]))


def test_a_real_trace_is_read_in_full() -> None:
    log = perflog.read(REAL)
    assert log.line_account["unread"] == 0 and log.figure_account["unread"] == 0
    content = json.loads(REAL.read_text())
    nodes = [n for n in content["nodes"] if not n["name"].startswith(("[pytorch", "## process_group"))]
    rows = log.arrow("events").to_pylist()
    assert [row["name"] for row in rows] == [n["name"] for n in nodes]
    (addmm,) = [row for row in rows if row["name"] == "aten::addmm"]
    assert (addmm["shapes"], addmm["range"], addmm["step"]) == ("[[32], [8, 16], [16, 32], [], []]", "## fwd ##", 1)
    assert log.arrow("runs")["world_size"].to_pylist() == [1]


def test_ranks_are_files(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"et_rank{rank}.json").write_text(document(TREE))
    log = perflog.read(tmp_path / "et_rank{0..1}.json")
    assert sorted(set(log.table("events")["rank"])) == [0, 1]


def test_the_header_proves_such_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "et.json"
    reader = ExecutionTraceReader()
    for text, expected in (
        (document(TREE), '{"schema": "1.1.1-chakra.0.0.4", "pid": 77, "time": "2026", "start_ts": 1, "nodes": ['),
        ('{ "schema":\n"1.0",  "nodes":\n[', '{ "schema": "1.0", "nodes": ['),
        ('{"schema": 1, "nodes": [', None),
        ('{"schema": "1.0", "edges": [], "nodes": [', None),
        ('x{"schema": "1.0", "nodes": [', None),
    ):
        path.write_text(text)
        with open_source(str(path)) as source:
            assert reader.detect(source) is (expected is not None)
            assert reader.proof(source) == ([(1, "header", expected)] if expected else [])


def test_scopes_have_the_numbers_of_pytorch(tmp_path: Path) -> None:
    """An unknown one has no category; a node without one has no kind."""
    nodes = [node(k, f"op{k}", 1, scope) for k, scope in enumerate((0, 1, 7, 9, 10, -1), 2)]
    nodes.append(node(9, "op9", 1, None))  # type: ignore[arg-type]
    rows = read(tmp_path, document(nodes)).arrow("events").to_pylist()
    assert [(row["category"], row["kind"]) for row in rows] == [
        ("function", "cpu"), ("backward_function", "cpu"), ("user_scope", "range"), ("static_runtime_model", "cpu"),
        (None, "cpu"), (None, "cpu"), (None, None),
    ]  # fmt: skip


def test_the_bytes_of_the_tensors_of_an_operator_count_once() -> None:
    """Lists nest: a tensor of 10 x 4 bytes, which comes twice, and others of 3 x 2 and 1 x 8."""
    one, two, three = [1, 0, 0, 10, 4, "cuda:0"], [2, 0, 0, 3, 2, "cuda:0"], [3, 0, 0, 1, 8, "cpu"]
    fields: dict[str, Any] = {"inputs.values": [one, [two, one], 7, "x"], "outputs.values": [[three]]}
    assert _tensor_bytes(fields) == 40 + 6 + 8
    assert _tensor_bytes({"inputs.values": [7], "outputs.values": None}) == MISSING


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"in_msg_nelems": 100, "out_msg_nelems": 50, "dtype": "BFloat16"}, 200),
        ({"in_msg_nelems": 50, "out_msg_nelems": 100, "dtype": "BFloat16"}, 200),  # the larger buffer
        ({"in_msg_nelems": 0, "dtype": "Float"}, 0), ({"in_msg_nelems": -1, "dtype": "Float"}, MISSING),
        ({"in_msg_nelems": 100}, MISSING), ({"dtype": "Float"}, MISSING),
    ],
)  # fmt: skip
def test_the_bytes_of_a_collective(fields: dict[str, Any], size: int) -> None:
    assert module._bytes(fields) == size


def test_numbers_and_shapes_that_say_something() -> None:
    assert [module._positive(value) for value in (3, 1, 0, -1, "x", None)] == [3, 1, *[MISSING] * 4]
    assert [module._shapes(value) for value in ([[2, 3], []], [], None, "x")] == ["[[2, 3], []]", None, None, None]
    assert _strided(2**31 - 3, 1, 2) == [2**31 - 3, 2**31 - 2] and len(_strided(0, 1, 1 << 16)) == 1 << 16
    assert _strided(2**31 - 3, 1, 3) == [] == _strided(0, 1, (1 << 16) + 1)


def test_a_node_counts_its_fields_again_and_again(tmp_path: Path) -> None:
    """Each of two nodes with an unknown field, and with one that is empty."""
    nodes = [node(4, "aten::mm", 2, new_figure=5), node(5, "aten::mm", 2, new_figure=6), node(6, "a", 2, new_figure="")]
    lines = {row["shape"]: row for row in read(tmp_path, document(nodes)).arrow("lines").to_pylist()}
    assert (lines["new_figure"]["figures_unread"], lines["new_figure"]["figures_stored"]) == (2, 0)
    assert lines["seq_id"]["figures_dropped"] == 3
