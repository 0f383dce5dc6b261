"""The schema: which column a field of a line fills, and the Arrow types of the tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema, column_for


@pytest.mark.parametrize(
    ("table", "field", "column"),
    [
        ("steps", "loss", "loss"), ("steps", "step_time", "step_time_s"), ("steps", "step_time_s", "step_time_s"),
        ("steps", "nothing", None), ("steps", "epoch", None), ("steps", "elapsed", None),
        ("steps", "printed", "printed_ns"),
        ("steps", "los", None), (None, "loss", None),
        ("", "loss", None), ("no table", "loss", None), ("kernels", "calls", "calls"),
    ],
)  # fmt: skip
def test_the_column_that_a_field_fills(table: str | None, field: str, column: str | None) -> None:
    found = column_for(table, field)
    assert (found.name if found else None) == column


@pytest.mark.parametrize("table", TABLES)
def test_each_column_has_its_arrow_type_unit_and_meaning(table: str) -> None:
    schema = arrow_schema(table)
    assert schema.metadata == {b"schema_version": str(SCHEMA_VERSION).encode(), b"table": table.encode()}
    kinds = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "text": pa.string()}
    for column, field in zip(TABLES[table], schema, strict=True):
        assert (field.name, field.nullable) == (column.name, column.nullable)
        assert field.type == kinds.get(column.type, pa.dictionary(pa.int32(), pa.string()))
        assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}


def test_columns_that_always_have_a_value() -> None:
    """Beside the place of a row in its log. All other columns may be null."""
    always = {
        "runs": {"index", "first_line", "last_line"},
        "steps": {"copy"},
        "phases": {"phase", "occurrence", "time_s"},
        "summaries": {"key"},
        "values": {"key"},
        "failures": {"kind", "severity", "role", "last_line", "count"},
        "milestones": {"kind"},
        "lines": {"status", "shape", "count", "first_line"},
    }
    for name, columns in TABLES.items():
        found = {column.name for column in columns if not column.nullable}
        assert found == {"run", "line", "part"} | always.get(name, set()), name


def test_columns_that_no_field_fills() -> None:
    """They are computed, or a key of the line says which field does."""
    others = {
        "runs": {
            "joined_formats",
            "outcomes",
            "provenance",
            "elapsed_s",
            "elapsed_from",
            "elapsed_line",
            "job",
            "attempt",
        },
        "steps": {"epoch", "elapsed_s", "step_time_from", "step_time_by", "clock"},
        "counters": {"clock"},
        "values": {"elapsed_s"},
        "failures": {"clock"},
        "milestones": {"clock"},
    }
    for name, columns in TABLES.items():
        found = {column.name for column in columns if not column.by_field} - {"source", "read_by"}
        assert found == others.get(name, set()), name
        assert all(not column.by_field for column in columns if column.name in ("source", "read_by"))


def test_units_of_columns_are_base_units() -> None:
    """The name of a column ends in its unit, where it has one: `_s`, `_ns`, `_bytes`, `_per_s`."""
    ends = {"_ns": "ns", "_bytes": "B", "_per_s": "1/s", "_s": "s", "_gb_s": "GB/s"}
    for columns in TABLES.values():
        for column in columns:
            end = next((end for end in sorted(ends, key=len, reverse=True) if column.name.endswith(end)), None)
            if end is not None:
                assert column.unit == ends[end], column
            assert column.unit in ("", "1", "TFLOP/s", *ends.values()), column
