"""The account of figures of Chrome traces: what becomes of every argument, against the json module."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.field_logs import CORPUS, needs_corpus

import perflog
from perflog.cli.main import main
from perflog.readers.chrome import scanner as trace_scanner
from perflog.readers.chrome.arguments import DROPPED, FIELDS, keys_of
from perflog.readers.events.key_counts import KeyCounter

Row = dict[str, Any]

COLUMN_OF = {
    "device": "device",
    "stream": "stream",
    "registers per thread": "registers",
    "shared memory": "shared_bytes",
}


def x(name: str, cat: str | None = None, ts: Any = 1, **args: Any) -> Row:
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 2, "args": args} | (
        {"cat": cat} if cat else {}
    )


def read(path: Path, events: list[Row], **separators: Any) -> perflog.Log:
    path.write_text(json.dumps({"traceEvents": events}, **separators))
    return perflog.read(path)


def account(log: perflog.Log) -> dict[str, tuple[int, int, int]]:
    """Stored, dropped and unread figures of each argument."""
    names = ("figures_stored", "figures_dropped", "figures_unread")
    rows = log.arrow("lines").to_pylist()
    return {row["shape"]: tuple(row[n] for n in names) for row in rows if row["figures_stored"] is not None}


# --- keys in a text -----------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from('ab{}[],:"\\ \n\u00e9'), max_size=20)
KEYS = TEXTS.filter(lambda t: '"' not in t and not t.lstrip().startswith((":", ",", "]", "}")) and t[-1:] != "\\")
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_keys_are_counted_as_json_has_them(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    names = {key: key for key in keys_of(value)}
    counted = KeyCounter().count(text)
    as_printed = {name: json.dumps(name, ensure_ascii=False)[1:-1] for name in names}
    assert sum(counted.values()) == sum(keys_of(value).values())
    if len({printed.encode()[-16:] for printed in as_printed.values()}) == len(names):
        assert counted == {as_printed[name]: count for name, count in keys_of(value).items()}


def test_keys_of_a_long_text_and_where_they_begin() -> None:
    events = [{"ph": "X", "name": 'a "b": c', "args": {"Process Group Ranks": i, "s": {}}} for i in range(5000)]
    text, counter = json.dumps(events).encode(), KeyCounter()
    expected = {"ph": 5000, "name": 5000, "args": 5000, "Process Group Ranks": 5000, "s": 5000}
    assert counter.count(text) == expected
    assert counter.new == {name: text.index(f'"{name}"'.encode()) for name in expected}
    assert counter.count(text) == expected and counter.new == {}


# --- arguments ----------------------------------------------------------------------------------------------------


def test_stored_dropped_and_undeclared_arguments(tmp_path: Path) -> None:
    launch = {"grid": [8, 4, 1], "block": [128, 1, 1], "registers per thread": 126, "shared memory": 4096}
    events = [
        x("gemm", "kernel", device=0, stream=7, queued=0, **launch),
        x("gemm", "kernel", device=0, stream=7, **{"blocks per SM": 0.5}),
        x("aten::mm", "cpu_op", **{"Input Dims": [[2, 3]], "Sequence number": 4}),
        x("my step", tokens=4096, loss="2.5", note="epoch 3 of 9", tag="a", flag=True, load=[{"rank": 0, "n": 7}, 5]),
    ]
    log = read(tmp_path / "t.json", events)
    assert account(log) == {
        "device": (2, 0, 0), "stream": (2, 0, 0), "queued": (0, 1, 0), "grid": (1, 0, 0), "block": (1, 0, 0),
        "registers per thread": (1, 0, 0), "shared memory": (1, 0, 0), "blocks per SM": (0, 1, 0),
        "Input Dims": (1, 0, 0), "Sequence number": (0, 1, 0),
        "tokens": (1, 0, 0), "loss": (1, 0, 0), "note": (0, 0, 2), "load": (3, 0, 0),
    }  # fmt: skip
    assert log.figure_account == {"total": 19, "stored": 14, "dropped": 3, "unread": 2}
    kernels = log.arrow("events").select(["grid", "block", "registers", "shared_bytes"]).to_pylist()
    assert list(kernels[0].values()) == ["[8, 4, 1]", "[128, 1, 1]", 126, 4096]
    values = [(r["line"], r["key"], r["value"]) for r in log.arrow("values").to_pylist()]
    assert values == [
        (4, "tokens", 4096),
        (4, "loss", 2.5),
        (4, "load[0].rank", 0),
        (4, "load[0].n", 7),
        (4, "load[1]", 5),
    ]
    lines = {r["shape"]: r for r in log.arrow("lines").to_pylist()}
    assert lines["blocks per SM"]["dropped_because"] == DROPPED["blocks per SM"]
    assert (lines["note"]["first_line"], lines["note"]["count"]) == (4, 0)
    assert lines["note"]["sample"].startswith('"note": "epoch 3 of 9"')
    assert log.line_account["total"] == 4


def test_arguments_where_nobody_expects_them(tmp_path: Path) -> None:
    """A stream of a call is stored; a device of the host, and a dtype without a collective's size, are not."""
    events = [
        x("hipLaunch", "cuda_runtime", stream=5, correlation=9, device=3),
        x("range", "user_annotation", **{"Input Dims": [[4]], "Call stack": "a.py(3): f"}),
        x("send", "cpu_op", dtype="Float", **{"In msg nelems": 8}),
        x("k", "kernel", device="first"),
    ]
    log = read(tmp_path / "t.json", events)
    assert account(log) == {
        "stream": (1, 0, 0), "correlation": (1, 0, 0), "device": (0, 0, 2), "Input Dims": (1, 0, 0),
        "Call stack": (1, 0, 0), "dtype": (1, 0, 0), "In msg nelems": (1, 0, 0),
    }  # fmt: skip
    rows = log.arrow("events").select(["stream", "shapes", "stack", "bytes"]).to_pylist()
    assert [list(row.values()) for row in rows] == [
        [5, None, None, None], [None, "[[4]]", "a.py(3): f", None], [None, None, None, 32], [None] * 4,
    ]  # fmt: skip


def test_series_of_counters_and_arguments_of_ends(tmp_path: Path) -> None:
    events: list[Row] = [
        {"ph": "C", "name": "mem", "pid": 1, "ts": 1, "args": {"device": 3, "used": 5, "text": "x"}},
        {"ph": "B", "name": "r", "pid": 1, "tid": 1, "ts": 1, "args": {"stream": 1}},
        {"ph": "E", "name": "r", "pid": 1, "tid": 1, "ts": 2, "args": {"stream": 2, "result": 8}},
        {"ph": "s", "name": "r", "pid": 1, "tid": 1, "ts": 2, "id": 5, "bp": "e"},
        x("id of its own", id=6),
    ]
    log = read(tmp_path / "t.json", events)
    assert account(log) == {
        "series of counters": (2, 0, 0), "stream": (1, 0, 1), "result": (1, 0, 0), "bp": (0, 1, 0), "id": (1, 0, 0),
    }  # fmt: skip
    assert [(r["line"], r["key"], r["value"]) for r in log.arrow("values").to_pylist()] == [
        (3, "result", 8),
        (5, "id", 6),
    ]


def test_blanks_before_colons(tmp_path: Path) -> None:
    log = read(tmp_path / "t.json", [x("k", "kernel", device=0, tokens=3)], separators=(" , ", " : "))
    assert account(log) == {"device": (1, 0, 0), "tokens": (1, 0, 0)}


def test_damaged_events_cost_only_their_own_figures(tmp_path: Path) -> None:
    good = [json.dumps(x("k", "kernel", ts=i, device=0, tokens=i)) for i in range(4)]
    (tmp_path / "t.json").write_text(
        '{"traceEvents": [' + ", ".join([*good[:2], '{"ph": "X", "n": }', *good[2:]]) + "]}"
    )
    log = perflog.read(tmp_path / "t.json")
    assert account(log)["device"] == (4, 0, 0)
    assert [r["value"] for r in log.arrow("values").to_pylist()] == [0, 1, 2, 3]


def test_the_account_does_not_depend_on_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        x("k", "kernel", ts=i, device=i % 2, cbid=i, step=i, **({"late": 1} if i > 90 else {})) for i in range(100)
    ]
    whole = read(tmp_path / "t.json", events)
    monkeypatch.setattr(trace_scanner, "PIECE", 400)
    monkeypatch.setattr(trace_scanner, "HEAD", 600)
    cut = read(tmp_path / "t.json", events)
    assert cut.arrow("lines").equals(whole.arrow("lines"))
    assert cut.arrow("values").equals(whole.arrow("values"))
    assert account(cut) == {"device": (100, 0, 0), "cbid": (0, 100, 0), "step": (100, 0, 0), "late": (9, 0, 0)}


# --- what commands show -------------------------------------------------------------------------------------------


def test_commands_show_the_account(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    read(path, [x("k", "kernel", device=0, cbid=211, note="epoch 3")])
    run = CliRunner()
    shown = run.invoke(main, ["show", str(path)]).output
    assert "figures: total 3, stored 1, dropped 1, unread 1" in " ".join(shown.split()).replace(
        "figures total", "figures: total"
    )
    assert "number of the call that `name` names" in shown
    ingested = run.invoke(main, ["ingest", str(path), "--store", str(tmp_path / "store"), "--json"])
    assert json.loads(ingested.output)["logs"][0]["figures"] == {"total": 3, "stored": 1, "dropped": 1, "unread": 1}
    strict = run.invoke(main, ["ingest", str(path), "--store", str(tmp_path / "store"), "--strict"])
    assert strict.exit_code == 3 and "1 figure is unread" in strict.output


# --- real traces --------------------------------------------------------------------------------------------------


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_every_argument_of_a_real_trace(rank: int) -> None:
    (path,) = CORPUS.rglob(f"*sampled_rank-{rank}.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()), strict=False)["traceEvents"]
    counts = Counter(name for e in events for name in (*e, *e.get("args", {})) if name not in FIELDS)
    log = perflog.read(path)
    assert {name: sum(figures) for name, figures in account(log).items()} == counts
    assert log.figure_account["unread"] == 0
    assert {name for name, figures in account(log).items() if figures[1]} == set(counts) & set(DROPPED)
    for row, event in zip(log.arrow("events").to_pylist(), (e for e in events if e["ph"] == "X"), strict=True):
        args = event["args"]
        assert row["grid"] == (str(args["grid"]) if "grid" in args else None)
        assert all(row[column] == args.get(name) for name, column in COLUMN_OF.items())
