"""What is read from the sample logs is what was read before: tests/golden/<log>.json.

A difference is written beside it, `<log>.json.new`. If it is meant: mv it over the old one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.paths import TESTS

import perflog

HERE = TESTS
LOGS = sorted((HERE / "data").glob("*.txt"))
FIRST = 3  # rows of each table
APART = ("log", "log_sha256", "printout")  # where the log lies, what the run id says already, and long text


def seen(path: Path) -> str:
    """Account, counts and first rows of a log, as JSON with a row a line. Cells without a value are left out."""
    log = perflog.read(path)
    out = [f'"lines": {json.dumps(log.line_account)}', f'"rows": {json.dumps(log.row_counts)}']
    for name in log.row_counts:
        rows = log.arrow(name).slice(0, None if name in ("runs", "lines") else FIRST).to_pylist()
        kept = [{k: v for k, v in row.items() if v is not None and k not in APART} for row in rows]
        out.append(f'"{name}": [\n' + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in kept) + "\n]")
    return "{\n" + ",\n".join(out) + "\n}\n"


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_sample_log_is_read_as_before(path: Path) -> None:
    golden = HERE / "golden" / f"{path.stem}.json"
    found, new = seen(path), golden.with_name(f"{golden.name}.new")
    json.loads(found)
    new.unlink(missing_ok=True)
    wanted = golden.read_text(encoding="utf-8") if golden.exists() else ""
    if found != wanted:
        new.write_text(found, encoding="utf-8")
    assert found == wanted, f"see {new}"


def test_no_golden_file_is_left_without_its_log() -> None:
    assert {path.stem for path in (HERE / "golden").glob("*.json")} == {path.stem for path in LOGS}
