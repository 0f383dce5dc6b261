"""What release 0.1.0 wrote is read, and its answers keep their fields.

If a test fails because the format of the store changes, the change needs a new SCHEMA_VERSION.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.release import ANSWERS, FOLDER, columns, fields, notes, rows


def frozen(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def test_the_columns_are_those_of_the_release() -> None:
    assert columns() == frozen("columns")


def test_the_rows_of_its_store_are_read() -> None:
    assert rows() == frozen("rows")


def test_the_notes_of_its_store_are_read() -> None:
    assert notes() == frozen("notes")


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_have_the_fields_of_the_release(answer: str) -> None:
    """With the same types. There may be new ones. Names of settings are data: those in which the runs differ most."""
    now, then = fields(answer), frozen(answer)
    settings = {path.rpartition(".")[2] for path in then if path.startswith(".runs[].settings.")}
    then = {path: kinds for path, kinds in then.items() if path.rpartition(".")[2] not in settings}
    assert [path for path in then if path not in now] == []
    assert {path: now[path] for path, kinds in then.items() if not set(now[path]) <= {*kinds, "null"}} == {}
