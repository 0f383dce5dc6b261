"""Offline runs of Weights & Biases: history, summary, system metrics and configuration, and files that are torn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.history_files import BLOCK, field, history, items, run_file
from support.paths import TESTS
from support.reading import proof_of

import perflog

DATA = TESTS / "traces" / "history"


def read(path: Path, content: bytes) -> perflog.Log:
    path.write_bytes(content)
    return perflog.read(path)


def test_a_real_run() -> None:
    """Six steps logged by wandb 0.31 in offline mode."""
    log = perflog.read(DATA / "run.wandb")
    (run,) = log.arrow("runs").to_pylist()
    config = json.loads(run["config"])
    assert (run["label"], run["format"], config["project"], config["model"]) == ("myrun", "wandb", "p", {"layers": 4})
    steps = log.arrow("steps").select(["step", "loss", "learning_rate", "elapsed_s"]).to_pylist()
    assert [tuple(row.values())[:3] for row in steps] == [(10 * s, 3.5 - 0.25 * s, 0.1) for s in range(6)]
    assert (steps[0]["elapsed_s"], steps[5]["elapsed_s"]) == (1.433682913, 1.447328921)
    started = config["started"]
    printed = [row["printed_ns"] for row in log.arrow("steps").to_pylist()]
    assert [ns / 1e9 - started for ns in printed] == pytest.approx([r["elapsed_s"] for r in steps], abs=1e-6)
    nested = [row["value"] for row in log.arrow("values").to_pylist() if row["key"] == "nested.a"]
    assert nested == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [(row["key"], row["value"]) for row in log.arrow("summaries").to_pylist()] == [("best", 1.5)]
    assert log.line_account == {"total": 23, "read": 21, "context": 2, "unread": 0}


def test_history_of_nested_objects_and_lists(tmp_path: Path) -> None:
    media = {"_type": "histogram", "bins": [1, 2]}
    records = [
        history(_step=1, _runtime=0.5, a={"b": {"c": 2}}, ok=True, h=media, note="x"),
        history(_step=2, _runtime=1.0, per_rank=[1, 2]),
    ]
    log = read(tmp_path / "r", run_file(*records))
    values = log.arrow("values").select(["step", "key", "value", "text", "elapsed_s"]).to_pylist()
    assert [tuple(row.values()) for row in values] == [
        (1, "a.b.c", 2.0, None, 0.5), (1, "ok", 1.0, None, 0.5), (1, "note", None, "x", 0.5),
    ]  # fmt: skip
    assert log.line_account == {"total": 2, "read": 1, "context": 0, "unread": 1}
    assert log.figure_account == {"total": 5, "stored": 3, "dropped": 0, "unread": 2}  # the list of two numbers


def test_a_step_and_settings_of_their_own(tmp_path: Path) -> None:
    """A number of a step counts only where the history has no `_step`; settings may come after the run."""
    records = [
        field(17, field(1, "abc") + field(4, items(1, {"lr": 0.5}))),
        field(5, items(1, {"layers": 4})),
        field(2, items(1, {"loss": 2.5}) + field(2, field(1, 7))),
        field(2, items(1, {"loss": 1.5, "_step": 8}) + field(2, field(1, 9))),
    ]
    log = read(tmp_path / "r", run_file(*records))
    assert log.arrow("steps").select(["step", "loss"]).to_pydict() == {"step": [7, 8], "loss": [2.5, 1.5]}
    config = json.loads(log.arrow("runs")["config"][0].as_py())
    assert {name: config.get(name) for name in ("run_id", "lr", "layers")} == {"run_id": "abc", "lr": 0.5, "layers": 4}


def test_a_run_without_records_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(perflog.PerflogError, match="no records in this run"):
        read(tmp_path / "r", run_file())


def test_system_metrics_are_counters(tmp_path: Path) -> None:
    time = field(1, 1700000000) + field(2, 250_000_000)
    stats = field(7, field(2, time) + items(3, {"gpu.3.powerWatts": 412.5, "cpu": 7}))
    rows = read(tmp_path / "r", run_file(stats)).arrow("counters").select(["name", "value", "device", "start_ns"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("gpu.3.powerWatts", 412.5, 3, 1_700_000_000_250_000_000), ("cpu", 7.0, None, 1_700_000_000_250_000_000),
    ]  # fmt: skip


def test_records_that_hold_no_figures_are_context(tmp_path: Path) -> None:
    """The numbers are from wandb_internal.proto."""
    kinds = {4: "output", 6: "files", 8: "artifact", 18: "exit", 21: "header", 22: "footer", 99: None}
    log = read(tmp_path / "r", run_file(history(_step=1, loss=0.5), *(field(number, b"") for number in kinds)))
    lines = log.arrow("lines").to_pylist()
    account = [(row["first_line"], row["shape"]) for row in lines if row["status"] == "context"]
    assert account == [(line, kind or "other record") for line, kind in enumerate(kinds.values(), 2)]


def test_records_over_several_blocks(tmp_path: Path) -> None:
    long = "x" * (2 * BLOCK + 100)
    records = [history(_step=s, loss=s / 4, note=long if s == 1 else "short") for s in range(3)]
    log = read(tmp_path / "r", run_file(*records))
    assert [row["loss"] for row in log.arrow("steps").to_pylist()] == [0.0, 0.25, 0.5]
    assert [len(row["text"]) for row in log.arrow("values").to_pylist() if row["text"]] == [5, len(long), 5]


def test_a_torn_run_keeps_what_is_whole(tmp_path: Path) -> None:
    content = run_file(*(history(_step=s, loss=1.5) for s in range(4)))
    log = read(tmp_path / "r", content[:-5])
    assert log.arrow("values")["step"].to_pylist() == [0, 1, 2]
    assert [text.split(": ", 1)[1] for text in log.warnings] == ["record 4: torn record"] and log.line_account[
        "unread"
    ] == 1


def test_a_damaged_record_is_unread(tmp_path: Path) -> None:
    first = run_file(history(_step=0, loss=1.5))
    content = bytearray(run_file(*(history(_step=s, loss=1.5) for s in range(3))))
    content[len(first) + 9] ^= 1
    log = read(tmp_path / "r", bytes(content))
    assert log.arrow("values")["step"].to_pylist() == [0, 2]
    assert [text.split(": ", 1)[1] for text in log.warnings] == ["record 2: damaged record"]


def test_numbers_that_no_column_holds(tmp_path: Path) -> None:
    rows = [
        history(_step=0, _runtime=10**400, loss=10**400),
        history(_step=2**63, _runtime="soon", loss=2.0),
        history(_step=[1], _runtime=float("nan"), loss=float("nan")),
        field(7, field(2, field(1, 2**62)) + items(3, {f"gpu.{'9' * 30}.temp": 10**400})),
        field(3, items(1, {"best": 10**400})),
    ]
    log = read(tmp_path / "run.wandb", run_file(*rows))
    values = log.arrow("values").to_pylist()
    assert [(row["step"], row["elapsed_s"]) for row in values] == [(0, None), (None, None), (None, None)]
    assert values[0]["value"] == float("inf") and values[1]["value"] == 2
    (counter,) = log.arrow("counters").to_pylist()
    assert (counter["start_ns"], counter["device"], counter["value"]) == (None, None, float("inf"))
    assert log.line_account == {"total": 5, "read": 5, "context": 0, "unread": 0}


def test_the_proof_is_the_header() -> None:
    assert proof_of(DATA / "run.wandb") == [(1, "header", ":W&B, version 0")]
