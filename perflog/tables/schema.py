"""The tables: columns, types, units, meaning. Every other module, and docs/tables.md, take them from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_HISTORY = {
    2: "events of traces have their step, device, thread and collective; new columns `min_s` of table `phases` and "
    "`buffer` of table `collectives`",
    1: "the first",
}
"""What each schema version brought, newest first. A store carries the number of the version that wrote it."""

SCHEMA_VERSION = max(SCHEMA_HISTORY)


@dataclass(frozen=True)
class TableColumn:
    """One column. `type` is int64, int32, float64, text (any string) or word (few distinct strings)."""

    name: str
    type: str
    meaning: str
    unit: str = ""  # the base unit its values are in; "" for a plain number or text
    nullable: bool = True


def _int(name: str, meaning: str, unit: str = "", nullable: bool = True) -> TableColumn:
    return TableColumn(name, "int64", meaning, unit, nullable)


def _small(name: str, meaning: str, unit: str = "", nullable: bool = True) -> TableColumn:
    return TableColumn(name, "int32", meaning, unit, nullable)


def _real(name: str, meaning: str, unit: str = "", nullable: bool = True) -> TableColumn:
    return TableColumn(name, "float64", meaning, unit, nullable)


def _text(name: str, meaning: str) -> TableColumn:
    return TableColumn(name, "text", meaning)


def _word(name: str, meaning: str, nullable: bool = True) -> TableColumn:
    return TableColumn(name, "word", meaning, "", nullable)


_PLACE = (
    _word("run", "run id: names the log's content and the run's place in it", nullable=False),
    _int("line", "line of the log, from 1", nullable=False),
    _small("part", "which part of the line, from 0: several records can stand on one line", nullable=False),
)
_STEP = _int("step", "step as printed; null where no rule proves it")
_RANK = (
    _small("rank", "rank as printed, or as a rule proves it; else null"),
    _word("rank_by", "the rule: printed, label, header, fingerprint, adjacent, file"),
)

_KINDS = "kernel, memcpy, memset, sync, runtime, cpu, python, range, device_range, span, overhead, mark, library, os"

_BODIES: dict[str, tuple[TableColumn, ...]] = {
    "runs": (
        _text("log", "the log as it was named"),
        _text("log_sha256", "SHA-256 of the log's bytes, decompressed"),
        _word("format", "the format of the run's step lines; without those, the one that reads most of it"),
        _small("index", "the run's place in its log, from 1", nullable=False),
        _text("label", "name of the run: printed, or given at ingest"),
        _int("first_line", "first line of the run", nullable=False),
        _int("last_line", "last line of the run", nullable=False),
        _text("program", "the program or command that was run"),
        _text("model", "name of the model, as printed"),
        _int("world_size", "number of ranks, as printed"),
        _text("device", "device, as printed"),
        _word("dtype", "dtype, as printed"),
        _small("process", "which start of the processes made the run, from 1; null if not printed"),
        _text("config", "JSON of all that the log says about the run"),
        _text("printout", "text of the model printout"),
    ),
    "steps": (
        _STEP,
        *_RANK,
        _small("copy", "k-th printing of the same step (by its rank, where known), from 1", nullable=False),
        _int("steps_averaged", "how many steps the line covers", nullable=False),
        _real("step_time_s", "time of the step", "s"),
        _real("forward_s", "forward time", "s"),
        _real("backward_s", "backward time", "s"),
        _real("tflops", "TFLOP/s per GPU, as printed", "TFLOP/s"),
        _real("mfu", "model FLOPs utilisation, as printed", "1"),
        _real("loss", "loss, as printed"),
        _real("perplexity", "perplexity, as printed"),
        _real("grad_norm", "gradient norm"),
        _real("learning_rate", "learning rate"),
        _real("tokens_per_s", "tokens per second", "1/s"),
        _real("samples_per_s", "samples per second", "1/s"),
        _real("memory_bytes", "memory", "B"),
    ),
    "phases": (
        _STEP,
        *_RANK,
        _word("phase", "name of the timed phase", nullable=False),
        _small("occurrence", "k-th time of this phase in the step (on its rank, where known), from 1", nullable=False),
        _real("time_s", "time of the phase", "s", nullable=False),
        _real("min_s", "time on the fastest rank, where `time_s` is that on the slowest and no rank is told", "s"),
        _real("remote_share", "share of the phase's work that lies on other ranks, as printed", "1"),
    ),
    "loads": (
        _STEP,
        *_RANK,
        _int("expert", "expert, where loads are per expert"),
        _word("unit", "what is counted: token, block"),
        _real("amount", "share of the work of the step"),
        _real("remote", "part of it that lies on other ranks"),
    ),
    "layers": (
        _STEP,
        *_RANK,
        _small("stage", "pipeline stage"),
        _word("layer", "layer: embed, 0, lm_head"),
        _word("direction", "forward or backward"),
        _real("time_s", "time of the layer in the step", "s"),
        _int("calls", "timed calls"),
        _real("avg_s", "time per call, as printed", "s"),
    ),
    "kernels": (
        _small("section", "k-th table of the run, from 1"),
        _word("report", "title of the table"),
        _word("domain", "NVTX domain"),
        _word("range", "NVTX range"),
        _word("kind", "kernel, memcpy, memset, api, range"),
        _word("name", "name as printed; not a key"),
        _word("category", "group the table puts the row in; shares are of its sum"),
        _int("calls", "number of calls"),
        _real("time_s", "total time", "s"),
        _real("avg_s", "average, as printed", "s"),
        _real("min_s", "minimum", "s"),
        _real("max_s", "maximum", "s"),
        _real("share", "share of the category's time, as printed", "1"),
    ),
    "events": (
        _int("step", "N of the range ProfilerStep#N that launched the event, or that it lies in; null outside"),
        *_RANK,
        _word("kind", f"{_KINDS}; null: the trace does not tell"),
        _word("name", "name of the event"),
        _word("category", "category of the event as the trace says it, or the table it stood in"),
        _small("device", "device the event ran on; null on the host"),
        _int("stream", "stream of the device"),
        _word("process", "process, as the trace says it"),
        _word("thread", "thread of the process, as the trace says it"),
        _int("start_ns", "start; since 1970 where the run's config says `clock: epoch`", "ns"),
        _int("duration_ns", "duration; null for a mark, and for what the trace does not end", "ns"),
        _int("correlation", "joins an API call and what it started on a device, within a rank (file)"),
        _int("external", "joins an operator and what it started, within a rank (file)"),
        _word("range", "innermost named range of the thread around it, or around the call that started it"),
        _word("collective", "collective operation, as the trace says it"),
        _word("group", "process group of the collective, as the trace says it"),
        _int("seq", "place of the collective in its group"),
        _int("bytes", "bytes moved; of a collective the larger of its two buffers", "B"),
        _word("dtype", "element type of the collective"),
        _int("ranks", "ranks that take part in the collective"),
    ),
    "collectives": (
        _word("op", "collective"),
        _word("buffer", "out of place, or in place: the result replaces the input"),
        _int("bytes", "message size", "B"),
        _word("dtype", "element type"),
        _int("ranks", "ranks that take part"),
        _real("time_s", "time", "s"),
        _real("algbw_gbps", "algorithm bandwidth", "GB/s"),
        _real("busbw_gbps", "bus bandwidth", "GB/s"),
        _int("wrong", "wrong results"),
    ),
    "summaries": (
        _word("key", "what the log sums up", nullable=False),
        _real("value", "figure in its base unit"),
        _word("unit", "base unit"),
        _int("window_first", "first step of the window whose mean is the figure; null if none fits"),
        _int("window_last", "last step of that window"),
        _word("window_fit", "exact: equal to the last bit; rounding: equal within the rounding of the printed steps"),
    ),
    "values": (
        _STEP,
        *_RANK,
        _word("key", "what the number is", nullable=False),
        _real("value", "number in its base unit"),
        _word("unit", "base unit"),
        _text("text", "text, where it is not a number"),
    ),
    "lines": (
        _word("status", "read, context or unread", nullable=False),
        _word("shape", "the line's template, or its text with numbers masked", nullable=False),
        _int("count", "lines of that shape", nullable=False),
        _int("first_line", "first of them", nullable=False),
        _text("sample", "text of the first of them"),
    ),
    "findings": (
        _word("code", "name of the finding", nullable=False),
        _word("severity", "error, warning or note", nullable=False),
        _text("message", "what was found and what to do"),
        _int("first_line", "first line that proves it"),
        _text("evidence", "JSON of the rows that prove it"),
    ),
}

ONE_ROW_PER = {
    "runs": "run: its log, format, label, configuration and model printout",
    "steps": "step as printed: times, TFLOP/s, loss",
    "phases": "timed phase of a rank in a step",
    "loads": "rank's or expert's share of the work in a step",
    "layers": "step, rank and layer",
    "kernels": "row of a profiler table",
    "events": "timed event of a trace: kernel, copy, call, operator, range",
    "collectives": "size of a collective that was measured: time, bandwidth",
    "summaries": "figure that the log prints as a summary, with the window of steps that it averages",
    "values": "number or text that fits no other table",
    "lines": "line shape of a log: read, context or unread, with the number of lines",
    "findings": "finding of the linter",
}
"""What a row of each table describes."""

TABLES: dict[str, tuple[TableColumn, ...]] = {name: (*_PLACE, *body) for name, body in _BODIES.items()}
PER_FIELD = {"phases": ("phase", "time_s"), "values": ("key", "value"), "summaries": ("key", "value")}
"""Tables with one row per field of a line: the columns that take the field's name and its value."""


@cache
def column_for(table: str, field: str) -> TableColumn | None:
    """The column a field of a line goes to: its own name, or its name with the unit behind it."""
    with_unit = {f"{field}_{unit}" for unit in ("s", "ns", "bytes", "gbps")}
    for col in TABLES[table]:
        if col.name == field or (col.unit and col.name in with_unit):
            return col
    return None


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Arrow schema of a table. Words are dictionary-encoded; units and meanings are field metadata."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "text": pa.string(),
        "word": pa.dictionary(pa.int32(), pa.string()),
    }
    fields = [
        pa.field(c.name, types[c.type], c.nullable, {"unit": c.unit, "meaning": c.meaning}) for c in TABLES[table]
    ]
    return pa.schema(fields, {"schema_version": str(SCHEMA_VERSION), "table": table})
