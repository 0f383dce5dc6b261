"""Texts of a log that would control a terminal, open a tag, or end a cell: none leaves any command as it is."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import run
from support.flight_recorder_files import call, dump
from support.history_files import field, history, items, run_file

from perflog.output.terminal import visible

HOSTILE = "\x1b[31m\u202e\x07\x9b\u2028\x00<img src=x onerror=alert(1)>|`=cmd()"
TAG = "<img src=x"
FORMATS = ("text", "md", "csv", "json")


def trace(path: Path) -> Path:
    arguments = {"stream": 7, "Collective name": HOSTILE, "dtype": HOSTILE, f"x{HOSTILE}": HOSTILE}
    event = {"ph": "X", "pid": HOSTILE, "tid": HOSTILE, "dur": 5, "args": arguments}
    names = (("kernel", f"k{HOSTILE}"), ("kernel", f"nccl{HOSTILE}"), ("cpu_op", HOSTILE), ("user_annotation", ""))
    events = [
        event | {"ts": i * 10, "cat": category, "name": name or f"ProfilerStep#{i}"}
        for i in range(20)
        for category, name in names
    ]
    devices = [{"id": 0, "name": HOSTILE}]
    path.write_text(json.dumps({"deviceProperties": devices, "traceName": HOSTILE, HOSTILE: 1, "traceEvents": events}))
    return path


def offline_run(path: Path) -> Path:
    rows = [history(_step=i, _runtime=i * 1.5, loss=2.5 - i / 100, note=HOSTILE, **{HOSTILE: i}) for i in range(20)]
    settings = field(5, items(1, {HOSTILE: {"value": HOSTILE}}))
    path.write_bytes(run_file(field(17, field(1, HOSTILE) + field(8, HOSTILE)), settings, *rows))
    return path


def recorder(path: Path) -> Path:
    entries = [call(11 + i, name=HOSTILE, state=HOSTILE, thread_name=HOSTILE) for i in range(3)]
    path.write_bytes(pickle.dumps(dump({"5": (HOSTILE, [0, 1]), HOSTILE: (HOSTILE, [0])}, {"1": (12, 11)}, entries), 2))
    return path


def lines(path: Path) -> Path:
    steps = [f"iter {i}: loss 2.5, time 20.{i % 7}0ms, mfu 1.00%" for i in range(20)]
    unread = HOSTILE.replace("\u2028", "")
    path.write_text("\n".join([*steps, unread, f"zork{unread} 5 after {unread}=7 ms", ""]))
    return path


@pytest.mark.parametrize("write", [trace, offline_run, recorder, lines])
def test_no_hostile_text_leaves_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write(tmp_path / "log").name
    run("ingest", log, "--store", "st", "--label", HOSTILE.replace("\0", ""))
    calls = [[command, log] for command in ("overview", "lint", "detect", "show")]
    calls += [["show", log, table] for table in ("runs", "steps", "events", "counters", "values", "lines")]
    calls += [["runs", "--store", "st"], ["query", f'select label as "{HOSTILE[:5]}" from runs', log]]
    for i, words in enumerate(calls):
        for format in (FORMATS[i % 4], FORMATS[(i + 1) % 4]):
            done = run(*words, "--format", format)
            assert visible(done.output) == done.output, words
    pages = ("page.md", "page.html") if write is offline_run else ("page.md",)  # plots take seconds
    for page in pages:
        run("report", log, "-o", page)
    run("export", log, "--to", "csv", "-o", "tables")
    for path in (*map(Path, pages), *(tmp_path / "tables").iterdir()):
        text = path.read_text("utf-8")
        assert visible(text) == text, path
        if path.suffix in (".html", ".md"):
            assert TAG not in text.replace(f"\\{TAG}", "")
