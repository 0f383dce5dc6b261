"""docs/tables.md is what the schema says."""

from __future__ import annotations

from support.pages import DOCS, same

from perflog.tables.schema import ONE_ROW_PER, PER_FIELD, SCHEMA_VERSION, TABLES

HEAD = """\
# Tables and columns

`perflog show RUN TABLE` on the command line, `log.table(name)` (pandas) and `log.arrow(name)` (Arrow) in Python, and
`STORE/<table>/*.parquet` for other programs. This page is made from the schema, `perflog/tables/schema.py`.

- Values are in base units, whatever unit the log prints. The end of a column's name is its unit: `_s` for seconds,
  `_ns` for nanoseconds, `_bytes` for bytes, `_gbps` for GB/s. Ratios are plain numbers: 0.5, not 50 %.
- A null means that the log does not print the value. Columns with "never" under "null" always have a value.
- Types: `int64`, `int32` and `float64` are numbers; `text` is a string; `word` is a string with few different values,
  stored as an Arrow dictionary (in pandas a string).
- The columns `run`, `line` and `part` say where in the log each row comes from.
- When a log was read into a store is in no table, so that the same log gives the same tables anywhere: `perflog runs`
  has it in column `ingested`, and `log.ingested` in Python.

"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def section(table: str) -> str:
    rows = [
        f"| `{c.name}` | {c.type} | {c.unit} | {'' if c.nullable else 'never'} | {cell(c.meaning)} |"
        for c in TABLES[table]
    ]
    per_field = ""
    if table in PER_FIELD:
        name, value = PER_FIELD[table]
        per_field = (
            f"A line of several fields gives one row per field: its name in `{name}`, its value in `{value}`.\n\n"
        )
    head = "| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n"
    return f"## {table}\n\nOne row per {ONE_ROW_PER[table]}.\n\n{per_field}{head}" + "\n".join(rows) + "\n"


SCHEMA = f"""\
## Schema version

This is schema {SCHEMA_VERSION}. Each file of a store has the number of its schema.
perflog reads no file with another number.
"""


def test_the_page_of_tables() -> None:
    rows = [f"| [{name}](#{name}) | {ONE_ROW_PER[name]} |" for name in TABLES]
    overview = "\n".join(["| table | one row per |", "| --- | --- |", *rows]) + "\n"
    same(DOCS / "tables.md", "\n".join([HEAD + overview, *map(section, TABLES), SCHEMA]))


def test_the_schema_describes_every_table() -> None:
    assert list(ONE_ROW_PER) == list(TABLES)
    assert all(column.meaning for columns in TABLES.values() for column in columns)
