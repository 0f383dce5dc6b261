"""The reference runs hold what is said of them, and full-length logs written back from them are read the same."""

from __future__ import annotations

import runpy
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from relog import ROWS, relog
from seeds import SEEDS, needs_seeds

import perflog

HOME = Path(__file__).parents[1] / "reference_runs"
LOGS = {  # runs, lines read, lines of context, rows
    "moe_layer.txt": (4, 21244, 1688, {"steps": 400, "phases": 32000, "loads": 1600, "summaries": 12, "values": 1600}),
    "moe_layer_early.txt": (1, 102, 801, {"steps": 100, "summaries": 3}),
    "training_sweep.txt": (9, 993, 96, {"steps": 900, "summaries": 9}),
    "nvprof.txt": (1, 695, 36, {"kernels": 616, "values": 1}),
    "pipeline_layers.txt": (1, 727, 287, {"steps": 20, "layers": 500, "summaries": 1, "values": 60}),
}


@cache
def stored(name: str) -> perflog.Log:
    store = perflog.load(HOME / "store")
    return store.select([run for run in store.members if run.log == name])


@pytest.fixture(scope="module", params=LOGS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[perflog.Log, perflog.Log]:
    """The runs of a log in the store, and the same read from a log that was written back from them."""
    name: str = request.param
    path = tmp_path_factory.mktemp("relog") / name
    path.write_text(relog(stored(name)), encoding="utf-8")
    return stored(name), perflog.read(path)


def table(log: perflog.Log, name: str) -> list[dict[str, Any]]:
    """Rows with the run's place in its log for its id, without what names the log."""
    place = {run.id: run.index for run in log.members}
    rows = [row | {"run": place[row["run"]]} for row in log.arrow(name).to_pylist()]
    return [{k: v for k, v in row.items() if k not in ("log", "log_sha256")} for row in rows]


def test_the_store_is_small() -> None:
    assert sum(path.stat().st_size for path in (HOME / "store").rglob("*") if path.is_file()) < 2_000_000


def test_the_store_holds_the_five_logs() -> None:
    store = perflog.load(HOME / "store")
    assert Counter(run.log for run in store.members) == {name: runs for name, (runs, *_) in LOGS.items()}
    for name, (runs, read, context, rows) in LOGS.items():
        log = stored(name)
        assert log.lines == {"total": read + context, "read": read, "context": context, "unread": 0}
        assert {k: n for k, n in log.counts.items() if k != "lines"} == {"runs": runs, **rows}


def test_written_back_the_account_is_the_same(pair: tuple[perflog.Log, perflog.Log]) -> None:
    before, after = pair
    assert after.lines == before.lines
    assert after.counts == before.counts
    assert after.warnings == []


@pytest.mark.parametrize("name", [*ROWS, "runs", "lines"])
def test_written_back_the_tables_are_the_same(pair: tuple[perflog.Log, perflog.Log], name: str) -> None:
    """Every cell of every row: values to the last bit, ranks and their rules, steps, windows, lines and parts."""
    before, after = (table(log, name) for log in pair)
    assert [(a, b) for a, b in zip(after, before, strict=True) if a != b] == []


@needs_seeds
def test_the_store_is_what_is_made_of_the_logs(tmp_path: Path) -> None:
    # If this fails after a change of the reader that is meant: python reference_runs/make.py LOGS_FOLDER
    runpy.run_path(str(HOME / "make.py"))["make"](SEEDS, tmp_path / "store")
    made, kept = perflog.load(tmp_path / "store"), perflog.load(HOME / "store")
    assert [vars(run) for run in made.members] == [vars(run) for run in kept.members]
    for name in (*ROWS, "runs", "lines"):
        assert made.arrow(name).equals(kept.arrow(name)), name
