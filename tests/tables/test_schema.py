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
