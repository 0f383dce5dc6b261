"""The reference runs hold what is said of them, and full-length logs written back from them are read the same."""

from __future__ import annotations

import gzip
import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.paths import ROOT
from support.relog import ROWS
from support.seeds import SEEDS, needs_seeds, stored, written_back

import perflog

HOME = ROOT / "reference_runs"
TRAINER = {"moe-layer": 3, "sweep": 9, "kernels": 1, "pipeline": 1}  # recipe: runs
LOGS = {  # runs, lines read, lines of context, rows
    "moe_layer.txt": (4, 21244, 1688, {"steps": 400, "phases": 32000, "loads": 1600, "summaries": 12, "values": 1600}),
    "moe_layer_early.txt": (1, 102, 801, {"steps": 100, "summaries": 3}),
    "training_sweep.txt": (9, 993, 96, {"steps": 900, "summaries": 9}),
    "nvprof.txt": (1, 695, 36, {"kernels": 616, "values": 1}),
    "pipeline_layers.txt": (1, 727, 287, {"steps": 20, "layers": 500, "summaries": 1, "values": 60, "milestones": 2}),
}


@pytest.fixture(scope="module", params=[name.removesuffix(".txt") for name in LOGS])
def pair(request: pytest.FixtureRequest) -> tuple[perflog.Log, perflog.Log]:
    """The runs of a log in the store, and the same read from a log that was written back from them."""
    name: str = request.param
    return stored(name), perflog.read(written_back(name))


def table(log: perflog.Log, name: str) -> list[dict[str, Any]]:
    """Rows with the run's place in its log for its id, without what names the log."""
    place = {run.id: run.index for run in log.run_keys}
    rows = [row | {"run": place[row["run"]]} for row in log.arrow(name).to_pylist()]
    return [{k: v for k, v in row.items() if k not in ("log", "log_sha256")} for row in rows]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_stores_are_small() -> None:
    assert size(HOME / "store") < 2_000_000
    assert size(HOME / "trainer") < 1_000_000


def test_the_store_holds_the_five_logs() -> None:
    store = perflog.load(HOME / "store")
    assert Counter(run.log for run in store.run_keys) == {name: runs for name, (runs, *_) in LOGS.items()}
    for name, (runs, read, context, rows) in LOGS.items():
        log = stored(name.removesuffix(".txt"))
        assert log.line_account == {"total": read + context, "read": read, "context": context, "unread": 0}
        assert {k: n for k, n in log.row_counts.items() if k != "lines"} == {"runs": runs, **rows}


def test_written_back_the_account_is_the_same(pair: tuple[perflog.Log, perflog.Log]) -> None:
    before, after = pair
    assert after.line_account == before.line_account
    counts = [{k: n for k, n in log.row_counts.items() if k != "milestones"} for log in pair]
    assert counts[0] == counts[1]
    assert after.warnings == []


@pytest.mark.parametrize("name", [*ROWS, "runs", "lines"])
def test_written_back_the_tables_are_the_same(pair: tuple[perflog.Log, perflog.Log], name: str) -> None:
    """Every cell of every row: values to the last bit, ranks and their rules, steps, windows, lines and parts."""
    before, after = (table(log, name) for log in pair)
    for row in (*before, *after):
        if row.get("status") == "context":  # all such lines are written back as the first of their shape
            row["figures_dropped"] = row["dropped_because"] = None
    # The first and the last stamp of a run may be of such lines.
    before, after = ([row for row in rows if row.get("kind") != "log"] for rows in (before, after))
    assert [(a, b) for a, b in zip(after, before, strict=True) if a != b] == []


def decoded(log: perflog.Log, name: str) -> pa.Table:
    """A table with its words as strings: the order of the words in a dictionary means nothing."""
    rows = log.arrow(name)
    return pa.table(
        {
            column: values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values
            for column, values in zip(rows.column_names, rows.columns, strict=True)
        }
    )


@needs_seeds
def test_the_store_is_what_is_made_of_the_logs(tmp_path: Path) -> None:
    # If this fails after a change of the reader that is meant: python reference_runs/make.py LOGS_FOLDER
    runpy.run_path(str(HOME / "make.py"))["make"](SEEDS, tmp_path / "store")
    made, kept = perflog.load(tmp_path / "store"), perflog.load(HOME / "store")
    assert made.run_keys == kept.run_keys
    for name in (*ROWS, "runs", "lines"):
        assert decoded(made, name).equals(decoded(kept, name)), name


# --- runs of the reference trainer ------------------------------------------------------------------------------------


def test_the_trainers_logs_are_read_without_loss_and_say_that_they_are_of_a_cpu(tmp_path: Path) -> None:
    for recipe, runs in TRAINER.items():
        path = tmp_path / "log.txt"
        path.write_bytes(gzip.decompress((HOME / "trainer" / f"{recipe}.cpu.log.gz").read_bytes()))
        log = perflog.read(path)
        assert (len(log), log.line_account["unread"], log.line_account["context"]) == (runs, 0, 0)
        for said in map(json.loads, log.runs["config"]):
            assert (said["recipe"], said["device"], said["backend"], said["cuda_version"]) == (
                recipe,
                "cpu",
                "gloo",
                "none",
            )
            assert {"started", "cores", "hardware", "torch_version", "python_version", "perflog_version"} <= said.keys()


def test_their_store_is_what_is_made_of_them(tmp_path: Path) -> None:
    # If this fails after a change of the reader that is meant: python reference_runs/make.py
    runpy.run_path(str(HOME / "make.py"))["make"](None, tmp_path / "store")
    made, kept = perflog.load(tmp_path / "store"), perflog.load(HOME / "trainer" / "store")
    assert Counter(run.log for run in kept.run_keys) == {f"{recipe}.cpu.log": n for recipe, n in TRAINER.items()}
    assert made.run_keys == kept.run_keys
    for name in (*ROWS, "runs", "lines"):
        assert decoded(made, name).equals(decoded(kept, name)), name


def test_the_chrome_trace_of_the_kernels_is_there() -> None:
    packed = (HOME / "trainer" / "kernels.cpu.trace.json.gz").read_bytes()
    events = json.loads(gzip.decompress(packed))["traceEvents"]
    assert {"forward", "backward", "layer.0", "aten::mm"} <= {event.get("name") for event in events}


def test_both_stores_are_the_reference_runs() -> None:
    every = perflog.reference()
    originals, own = perflog.load(HOME / "store"), perflog.load(HOME / "trainer" / "store")
    assert [*every.run_keys] == [*originals.run_keys, *own.run_keys]
    for name in (*ROWS, "runs"):
        rows = every.arrow(name).to_pylist()
        assert rows == [*originals.arrow(name).to_pylist(), *own.arrow(name).to_pylist()]
    (run,) = perflog.find_runs("reference:moe-layer.cpu.log#2").run_keys
    assert run.label == "moe-layer dropless"
    assert perflog.find_runs("reference:moe-layer dropless").run_keys == (run,)
