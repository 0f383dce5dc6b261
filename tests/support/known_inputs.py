"""What perflog reads: the formats, and the readers of inputs that are not lines."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

from support.allocator_files import block, segment, snapshot
from support.benchmark_files import RESULTS, asv, bencher, cargo, data_js, entry, hud, hud_records
from support.nsys_files import write_export
from support.operation_tables import made_job, rows_of, times_of, write_table
from support.reading import DATA, Reading, read
from support.rocpd_files import write_database
from support.rocprof_files import write_output
from support.xplane_files import gpu_planes, tpu_planes, write_space

import perflog
from perflog.errors import InputError
from perflog.formats.model import Format
from perflog.formats.registry import builtin, known
from perflog.readers.registry import builtin as builtin_readers
from perflog.tables.schema import PER_FIELD, TABLES

_FILLED = {
    "run", "line", "part", "rank", "rank_by", "step", "copy", "occurrence", "steps_averaged", "window_first",
    "window_last", "window_fit", "unit", "text", "key", "value", "phase", "log", "log_sha256", "format", "index",
    "joined_formats", "first_line", "last_line", "process", "config", "printout", "label", "section",
}  # fmt: skip
"""Columns that perflog fills itself, or that say what a value is: no log lacks them by itself."""


TRACES = sorted((DATA.parent / "traces").glob("*.json"))
HISTORIES = sorted((DATA.parent / "traces" / "history").iterdir())
DUMPS = DATA.parent / "traces" / "flight_recorder"
OTHER_TRACES = [
    path
    for name in ("execution_trace", "xplane", "perfetto")
    for path in sorted((DATA.parent / "traces" / name).iterdir())
]


@dataclass(frozen=True)
class KnownReader:
    """A reader of inputs that are not lines, and the columns that it fills of each table, as far as the traces and
    exports of these tests show.
    """

    name: str
    title: str
    source: str
    tables: Mapping[str, list[str]]


@cache
def readers() -> tuple[KnownReader, ...]:
    """The readers that come with perflog, by name."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        report, results = write_export(here / "report.sqlite"), write_output(here / "results.json")
        database = write_database(here / "results.db")
        job = made_job(2, 2, 2)
        operations = write_table(here / "trace-made.parquet", rows_of(job, times_of(job, 1, lambda *_: 0.1), 1))
        profiles = [
            write_space(here / "gpu.xplane.pb", *gpu_planes()),
            write_space(here / "tpu.xplane.pb", *tpu_planes()),
        ]
        histories = [data_js(here / "data.js", {"Rust": [entry(0, "cargo", cargo(0))]}), asv(here, 0, RESULTS)]
        histories += [hud(here / "records.json", hud_records(0)), bencher(here / "perf.json", {0: 0.1})]
        memory = here / "snapshot.pickle"
        memory.write_bytes(pickle.dumps(snapshot(segment(block(512, "forward"), block(512, state="inactive")))))
        made: list[str | Path] = [memory, report, results, database, operations, *profiles, *histories]
        logs = [perflog.read(path) for path in (*TRACES, *HISTORIES, *OTHER_TRACES, DUMPS, *made)]
    loaded = [resolve_name(entry.reader)() for entry in builtin_readers()]
    known_readers = [KnownReader(r.name, r.title, r.source, dict(_columns(r.name, logs))) for r in loaded]
    return tuple(sorted(known_readers, key=lambda r: r.name))


def _columns(name: str, logs: Iterable[perflog.Log]) -> Iterator[tuple[str, list[str]]]:
    """Each table that logs of a reader fill, and its columns."""
    mine = [log for log in logs if set(log.arrow("runs")["format"].to_pylist()) == {name}]
    for table, columns in TABLES.items():
        found = [log.arrow(table) for log in mine if table != "lines" and len(log.arrow(table))]
        if found:
            there = [c.name for c in columns if any(t[c.name].null_count < len(t) for t in found)]
            yield table, [n for n in there if n not in _FILLED]


def own_formats() -> list[Format]:
    """The formats that come along, without those of other packages."""
    return [f for f in known().values() if f.path.resolve().parent == builtin().resolve()]


@cache
def cut_down() -> list[Reading]:
    """The logs in tests/data."""
    return [read(path.read_bytes()) for path in sorted((*DATA.glob("*.txt"), *DATA.glob("*.md")))]


@cache
def readings(form: Format) -> list[Reading]:
    """What is read of a format: of its samples, as one log, and of the logs in tests/data that are in it alone."""
    samples = [sample for line in form.lines for sample in line.samples]
    samples += [sample for family in form.families for sample in family.samples]
    found = [got for got in cut_down() if got.done.formats == [form.name]]
    with suppress(InputError):  # all is context
        found.append(read("".join(f"{x.strip(chr(10))}\n" for x in samples).encode(), formats=[form]))
    return found


@cache
def filled(form: Format) -> dict[str, dict[str, list[str]]]:
    """Table -> `columns` that the format fills of it, and `names` of the numbers that become rows, or entries of
    config, as far as its samples and logs show.
    """
    out: dict[str, dict[str, list[str]]] = {}
    for table, columns in TABLES.items():
        rows = [r for got in readings(form) for r in got.rows(table)] if table != "lines" else []
        if not rows:
            continue
        names = [k for r in rows for k in json.loads(r["config"])] if table == "runs" else []
        key = PER_FIELD.get(table, ("",))[0]
        names += [r[key] for r in rows if key]
        there = [c.name for c in columns if c.name not in _FILLED and any(r[c.name] is not None for r in rows)]
        out[table] = {"columns": there, "names": [n for n in dict.fromkeys(names) if n not in there]}
    return out


def absent(table: str, columns: list[str]) -> list[str]:
    """Columns of a table that no line of a format fills: what its logs do not say, or nobody reads of them yet."""
    if table in ("values", "summaries"):
        return []
    return [c.name for c in TABLES[table] if c.name not in columns and c.name not in _FILLED]
