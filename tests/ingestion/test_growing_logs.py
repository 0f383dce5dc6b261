"""Logs that have grown since they were stored: the same path with more behind the same beginning is the same log."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from support.commands import EARLY, MOE, SWEEP, run, told

import perflog
from perflog.ingestion import bulk
from perflog.parsing.input.log_names import LogName
from perflog.tables.sink import IngestResult
from perflog.tables.store import Store

TEXT = Path(MOE).read_bytes()
FIRST, SECOND = 3000, 9000  # bytes of earlier states


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


def ingest(data: bytes, name: str = "run.txt", *options: str) -> dict[str, Any]:
    """Write a log, ingest it, and return what was read."""
    Path(name).write_bytes(data)
    (log,) = told("ingest", "--json", name, *options)["logs"]
    return dict(log)


def logs() -> list[str]:
    return sorted(set(Store(".perflog").table("runs")["log"].to_pylist()))


def test_a_grown_log_replaces_its_earlier_state() -> None:
    first = ingest(TEXT[:FIRST], "run.txt", "--label", "mine")
    assert first["grown_by"] is None
    assert ingest(TEXT[:SECOND])["grown_by"] == SECOND - FIRST
    last = ingest(TEXT)
    assert last["grown_by"] == len(TEXT) - SECOND
    assert last["others_of_path"] == []
    (row,) = Store(".perflog").table("runs").to_pylist()
    assert (row["log_sha256"], row["label"]) == (last["sha256"], "mine")
    assert ingest(TEXT)["grown_by"] is None  # again: nothing changes
    assert len(Store(".perflog").logs()) == 1


def test_ingest_tells_how_far_a_log_has_grown() -> None:
    ingest(TEXT[:FIRST])
    Path("run.txt").write_bytes(TEXT)
    out = run("ingest", "run.txt").stdout
    assert f"by {len(TEXT) - FIRST:,} bytes since it was stored; its earlier state was dropped" in out


def test_every_spelling_of_a_path_is_the_same_path(folder: Path) -> None:
    ingest(TEXT[:FIRST])
    assert ingest(TEXT[:SECOND], "./run.txt")["grown_by"] == SECOND - FIRST
    assert ingest(TEXT, str(folder / "run.txt"))["grown_by"] == len(TEXT) - SECOND


def test_a_log_of_another_path_stays_its_own_log() -> None:
    ingest(TEXT[:FIRST], "one.txt")
    assert ingest(TEXT, "two.txt")["grown_by"] is None
    assert logs() == ["one.txt", "two.txt"]


def test_a_truncated_or_other_file_is_another_log() -> None:
    whole = ingest(TEXT)
    cut = ingest(TEXT[:FIRST])
    assert (cut["grown_by"], cut["others_of_path"]) == (None, [whole["sha256"][:16]])
    other = ingest(Path(SWEEP).read_bytes())
    assert other["grown_by"] is None
    assert other["others_of_path"] == sorted([whole["sha256"][:16], cut["sha256"][:16]])
    assert len(Store(".perflog").logs()) == 3
    Path("run.txt").write_bytes(Path(EARLY).read_bytes())
    assert "3 other logs of this path in the store" in run("ingest", "run.txt").stdout


def test_the_beginning_must_be_the_same_to_the_last_byte() -> None:
    ingest(TEXT[:FIRST])
    changed = TEXT.replace(b"world_size = 4", b"world_size = 8", 1)
    assert changed != TEXT
    assert ingest(changed)["grown_by"] is None
    assert len(Store(".perflog").logs()) == 2


def test_the_bytes_of_two_files_are_dropped_only_with_both() -> None:
    ingest(TEXT[:FIRST], "one.txt")
    ingest(TEXT[:FIRST], "two.txt")
    assert ingest(TEXT[:SECOND], "two.txt")["grown_by"] is None  # one.txt still has the bytes of the earlier state
    assert len(Store(".perflog").logs()) == 2
    Path("one.txt").unlink()
    assert ingest(TEXT, "two.txt")["grown_by"] == len(TEXT) - SECOND
    assert len(Store(".perflog").logs()) == 1


def test_logs_of_a_folder_grow_too() -> None:
    os.mkdir("logs")
    data = {"a.txt": Path(MOE).read_bytes(), "b.txt": Path(EARLY).read_bytes(), "c.txt": Path(SWEEP).read_bytes()}
    for share in (3, 2, 1):
        for name, text in data.items():
            (Path("logs") / name).write_bytes(text[: len(text) // share])
        told("ingest", "--json", "logs")
    assert len(Store(".perflog").logs()) == len(data)
    run("compact")
    for name, text in data.items():  # an origin outlives the merging of batches
        (Path("logs") / name).write_bytes(text + b"\n")
    grown = [log["grown_by"] for log in told("ingest", "--json", "logs")["logs"]]
    assert grown == [1, 1, 1]
    assert len(Store(".perflog").logs()) == len(data)


def test_logs_that_are_stored_together_grow_too() -> None:
    data = {"a.txt": Path(MOE).read_bytes(), "b.txt": Path(EARLY).read_bytes()}
    names = [LogName.parse(name) for name in data]
    for share in (2, 1):
        for name, text in data.items():
            Path(name).write_bytes(text[: len(text) // share])
        outcomes = bulk.ingest_logs(names, bulk.IngestTask(".perflog"))
    grown = [outcome.grown_by for outcome in outcomes if isinstance(outcome, IngestResult)]
    assert grown == [len(text) - len(text) // 2 for text in data.values()]
    assert len(Store(".perflog").logs()) == len(data)


def test_a_compressed_log_grows_by_what_it_holds() -> None:
    ingest(gzip.compress(TEXT[:FIRST]), "run.txt.gz")
    assert ingest(gzip.compress(TEXT), "run.txt.gz")["grown_by"] == len(TEXT) - FIRST


def test_standard_input_has_no_earlier_state() -> None:
    run("ingest", "-", input=TEXT[:FIRST])
    run("ingest", "-", input=TEXT)
    assert len(Store(".perflog").logs()) == 2


def test_snapshots_of_one_path_are_no_repeats() -> None:
    for size in (SECOND, SECOND + 800, len(TEXT)):
        ingest(TEXT[:size])
    assert Store(".perflog").table("runs")["log"].to_pylist() == ["run.txt"]


def test_a_log_that_is_saved_keeps_its_path() -> None:
    ingest(TEXT[:FIRST])
    perflog.load(".perflog").save(".perflog")
    assert ingest(TEXT)["grown_by"] == len(TEXT) - FIRST
