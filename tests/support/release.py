"""Data of the release in tests/release_0_1: a store, its rows, and the fields of JSON answers.

`python tests/support/release.py` writes them again. Do so only before the release, or for a new schema version.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.commands import run
from support.paths import TESTS

from perflog.tables.schema import SCHEMA_VERSION, TABLES
from perflog.tables.store import Store

FOLDER = TESTS / "release_0_1"
STORE = FOLDER / "store"
FILES = ("training_sweep.txt", "nvprof.txt", "field/nccl_tests.txt")
FAILED = """\
using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1
 iteration        1/     100 | consumed samples:      512 | elapsed time per iteration (ms): 500.0 | lm loss: 3.0E+00 |
 iteration        2/     100 | consumed samples:     1024 | elapsed time per iteration (ms): 501.0 | lm loss: 2.9E+00 |
 iteration        3/     100 | consumed samples:     1536 | elapsed time per iteration (ms): 502.0 | lm loss: 2.8E+00 |
[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.1 GiB
"""
_SWEEP, _FAILED = "9262b8f54f27", "f93a41896722"  # the first characters of run ids
ANSWERS = {
    "overview": [STORE, "--format", "json"],
    "diagnose": ["diagnose", f"{_FAILED}-1", "--store", STORE, "--format", "json"],
    "compare": ["compare", f"{_SWEEP}-1", f"{_SWEEP}-2", "--store", STORE, "--format", "json"],
    "track": ["track", STORE, "--by", "ingested", "--format", "json"],
    "lint": ["lint", STORE, "--format", "json"],
    "analyze": ["analyze", STORE, "steps", "--format", "json"],
    "runs": ["runs", "--store", STORE, "--format", "json"],
    "show": ["show", f"{_FAILED}-1", "failures", "--store", STORE, "--format", "json"],
}
"""Commands that answer about the store, with their answer's file."""


def columns() -> dict[str, Any]:
    """The columns of all tables, with type, unit, and whether they may be null."""
    tables = {t: [[c.name, c.type, c.unit, c.nullable] for c in columns] for t, columns in TABLES.items()}
    return {"schema_version": SCHEMA_VERSION, "tables": tables}


def rows() -> dict[str, Any]:
    """The rows of the tables of the store, without nulls."""
    tables = {table: sorted(Store(STORE).table(table).to_pylist(), key=_position) for table in TABLES}
    return {
        table: [{name: value for name, value in row.items() if value is not None} for row in rows]
        for table, rows in tables.items()
        if rows
    }


def _position(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["run"], row.get("line") or row.get("first_line") or 0, row.get("part") or 0


def notes() -> dict[str, Any]:
    """What the store notes of its logs."""
    store = Store(STORE)
    origins = {log: [list(origin.paths), origin.size] for log, origin in store.origins().items()}
    return {"origins": origins, "ingested": store.ingested(), "provenance": store.provenance()}


def fields(answer: str) -> dict[str, list[str]]:
    """The types of each field of an answer, by its path: `jobs[].culprits[].rank`."""
    found: dict[str, set[str]] = {}
    for path, kind in _fields(json.loads(run(*ANSWERS[answer]).stdout), ""):
        found.setdefault(path, set()).add(kind)
    return {path: sorted(kinds) for path, kinds in found.items()}


def _fields(value: Any, path: str) -> Iterator[tuple[str, str]]:
    kinds = {bool: "bool", int: "number", float: "number", str: "string", list: "list", dict: "object"}
    yield path, kinds.get(type(value), "null")
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _fields(each, f"{path}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _fields(each, f"{path}[]")


def _write(name: str, content: dict[str, Any]) -> None:
    lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Write the data again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    logs = Path("/tmp/perflog-release")  # the store notes where its logs were
    logs.mkdir()
    for name in FILES:
        shutil.copy(TESTS / "data" / name, logs)
    (logs / "failed.log").write_text(FAILED, encoding="ascii")
    os.chdir(logs)
    run("ingest", *sorted(path.name for path in logs.iterdir()), "--tag", "machine=a", "--store", STORE)
    os.chdir(TESTS)
    shutil.rmtree(logs)
    run("compact", "--store", STORE)
    (STORE / ".lock").unlink()
    shutil.rmtree(STORE / ".tmp")
    _write("columns", columns())
    _write("rows", rows())
    _write("notes", notes())
    for answer in ANSWERS:
        _write(answer, fields(answer))


if __name__ == "__main__":
    main()
