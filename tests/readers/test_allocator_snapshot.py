"""Snapshots of PyTorch's allocator: who held the memory, what was kept without use, and pickles that are attacks."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.allocator_files import FRAMES, block, segment, snapshot
from support.metrics_logs import rows
from support.reading import proof_of

import perflog
from perflog.analysis import overview
from perflog.errors import PerflogError
from perflog.metrics import allocator, allocator_holders
from perflog.metrics.profiles.allocator import holder_of

GIB = 1 << 30
FULL = snapshot(
    segment(block(20 * GIB, "forward"), block(10 * GIB, "optimizer"), block(2 * GIB, state="inactive")),
    segment(block(4 * GIB, "backward"), block(GIB, "forward"), block(2 * GIB, state="inactive")),
    segment(block(GIB, "native"), block(GIB, state="active_awaiting_free"), pool=(1, 0)),
    failed=[GIB, 3 * GIB],
)


def write(path: Path, content: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_an_allocator_holds(tmp_path: Path, protocol: int) -> None:
    log = perflog.read(write(tmp_path / "snapshot.pickle", FULL, protocol))
    assert list(log.runs["format"]) == ["allocator_snapshot"]
    (row,) = rows(allocator(log))
    sizes = {name: row[name] / GIB for name in ("reserved", "allocated", "free", "waiting", "largest_free", "private")}
    assert sizes == {"reserved": 41, "allocated": 36, "free": 4, "waiting": 1, "largest_free": 2, "private": 2}
    assert row["fragmentation"] == pytest.approx(5 / 41)
    assert (row["asked"], row["would_fit"], row["blocks"]) == (3 * GIB, True, 5)


def test_who_holds_it(tmp_path: Path) -> None:
    """The frames of torch and of native code hold nothing: the line of the program that calls them does."""
    log = perflog.read(write(tmp_path / "snapshot.pickle", FULL))
    found = [(row["holder"], row["during"], row["bytes"] / GIB, row["blocks"]) for row in rows(allocator_holders(log))]
    assert found == [
        ("model.py:88 forward", None, 21, 2), ("train.py:52 main", "optimizer", 10, 1),
        ("train.py:47 main", "backward", 4, 1), ("native code: cudaMalloc", None, 1, 1),
    ]  # fmt: skip
    assert sum(row["share"] for row in rows(allocator_holders(log))) == pytest.approx(1)


def test_ranks_are_those_of_the_files(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"snapshot_rank{rank}.pickle", snapshot(segment(block((rank + 1) * GIB), device=rank)))
    log = perflog.read(str(tmp_path))
    assert [(row["rank"], row["device"], row["allocated"] // GIB) for row in rows(allocator(log))] == [
        (0, 0, 1), (1, 1, 2),
    ]  # fmt: skip
    assert {row["holder"] for row in rows(allocator_holders(log))} == {"(no stack recorded)"}


def test_stacks_of_older_snapshots(tmp_path: Path) -> None:
    old = block(GIB, "optimizer")
    old["history"] = [{"addr": 0, "real_size": GIB, "frames": old.pop("frames")}]
    (row,) = rows(allocator_holders(perflog.read(write(tmp_path / "snapshot.pickle", snapshot(segment(old))))))
    assert (row["holder"], row["during"]) == ("train.py:52 main", "optimizer")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/app/train.py", "train.py:3 step"), ("C:\\app\\train.py", "train.py:3 step"),
        ("/venv/lib/python3.12/site-packages/transformers/trainer.py", "trainer.py:3 step"),
    ],
)  # fmt: skip
def test_a_holder_is_a_line_of_the_program(file: str, expected: str) -> None:
    """In a library alone, the innermost of its lines."""
    assert holder_of(f"malloc (/src/x.cpp:0); step ({file}:3)")[0] == expected


def test_a_screen_tells_who_held_the_memory(tmp_path: Path) -> None:

    log = perflog.read(write(tmp_path / "snapshot.pickle", FULL))
    text = " ".join(overview.overview(log).reasons)
    assert "36 GiB in use of 41 GiB reserved" in text
    assert "An allocation of 3 GiB failed. The free blocks would hold it together" in text
    assert "model.py:88 forward 58 % (21 GiB in 2 blocks)" in text


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


def test_code_is_not_run(tmp_path: Path) -> None:
    for attack in (Attack(), (((1,),),)):
        content = snapshot(segment(block(GIB))) | {"more": attack}
        with pytest.raises(PerflogError):
            perflog.read(write(tmp_path / "snapshot.pickle", content))


def test_records_that_are_none(tmp_path: Path) -> None:
    content = snapshot(segment(block(GIB)))
    content["segments"][0]["blocks"] += [7, {"size": "?"}, None]
    content["segments"].append("no segment")
    content["device_traces"] = 3
    log = perflog.read(write(tmp_path / "snapshot.pickle", content))
    assert [row["blocks"] for row in rows(allocator(log))] == [1]
    counts = log.table("lines").groupby("status")["count"].sum().to_dict()
    assert (counts["read"], counts["unread"]) == (1, 3)


def test_the_stacks_of_the_samples_are_innermost_first() -> None:
    assert all(len(frames) > 1 for frames in FRAMES.values())


def test_each_part_of_a_snapshot_is_accounted_for(tmp_path: Path) -> None:
    """Size and address of a block are stored, of a segment its sizes; the history has 2 failures of 3 entries."""
    log = perflog.read(write(tmp_path / "snapshot.pickle", FULL))
    lines = log.table("lines")
    columns = ["shape", "status", "first_line", "count", "figures_stored", "figures_dropped"]
    assert [tuple(row) for row in lines[columns].astype(object).fillna(0).values.tolist()] == [
        ("block of memory", "read", 1, 8, 0, 0), ("blocks", "read", 1, 0, 16, 0),
        ("sizes of segments", "read", 1, 0, 3, 0), ("layout", "read", 1, 0, 0, 3),
        ("out of memory", "read", 9, 2, 0, 0), ("out of memory", "read", 9, 0, 2, 0),
        ("history of a device", "context", 11, 1, 0, 0), ("history", "read", 11, 0, 0, 3),
    ]  # fmt: skip
    failed = [row for row in rows(log.table("events")) if row["name"] == "out of memory"]
    assert [(row["line"], row["bytes"], row["start_ns"]) for row in failed] == [
        (9, GIB, 1_700_000_001 * 10**9), (10, 3 * GIB, 1_700_000_001 * 10**9)
    ]  # fmt: skip
    sizes = {row["name"]: row["value"] / GIB for row in rows(log.table("counters"))}
    assert sizes == {
        "reserved": 41, "allocated": 36, "requested": 36, "largest free block": 2, "reserved in private pools": 2
    }  # fmt: skip


def test_the_proof_counts_segments_and_blocks(tmp_path: Path) -> None:
    assert proof_of(write(tmp_path / "snapshot.pickle", FULL)) == [(1, "snapshot", "3 segments, 8 blocks")]


def test_settings_of_the_allocator_are_settings_of_the_run(tmp_path: Path) -> None:
    known = {"max_split_size": 64, "backend": "native", "roundup": [1, 2]}
    log = perflog.read(write(tmp_path / "snapshot.pickle", FULL | {"allocator_settings": known}))
    settings = json.loads(log.arrow("runs")["config"][0].as_py())
    assert {key: value for key, value in settings.items() if key.startswith("allocator.")} == {
        "allocator.max_split_size": 64, "allocator.backend": "native",
    }  # fmt: skip
