"""The schema: the tables with their columns, types, units and meanings.

All other modules take them from here. docs/tables.md is made from it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
"""Number of the schema. Each file of a store has it; files with another number are not read."""


class TableColumn(Struct, frozen=True):
    """A column of a table. `type` is int64, int32, float64, text (any string) or word (few distinct strings)."""

    name: str
    type: str
    meaning: str
    unit: str = ""  # base unit of the values; "" for a plain number or string
    nullable: bool = True
    by_field: bool = True  # whether a field of this name fills it; else a key of the line says which field does


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


FIRST_CELL = 1 << 16
"""The part of the first cell of a line of a matrix. Parts below it are records that share a line."""

_PLACE = (
    _word("run", "run id: start of the log's SHA-256, and number of the run in the log", nullable=False),
    _int("line", "line of the log, from 1", nullable=False),
    _small(
        "part",
        f"part of the line, from 0: several records can be on one line; cells of a matrix, from {FIRST_CELL}",
        nullable=False,
    ),
)
_STEP = _int("step", "step as printed, or as a rule proves it; else null")
_RANK = (
    _small("rank", "rank as printed, or as a rule proves it; else null"),
    _word(
        "rank_by",
        "the rule that proves the rank: printed, label, header, fingerprint, adjacent, file, process; "
        "local: a label states only the rank on the node, and the rank is null; "
        "slowest: the line is of all ranks, its time is of the slowest one, and the rank is null",
    ),
)
SLOWEST_RANK = "slowest"
"""Value of column `rank_by` of a time for all ranks, which a format sets."""

_SOURCE = TableColumn(
    "source",
    "word",
    "what printed the row, if that identifies the process and the rank is unknown: node and local rank, the pod, or "
    "the process of a trace",
    by_field=False,
)

GUESS = "guess"
"""Name of a format that perflog makes from the log that it reads, and the value of column `read_by` of its rows."""

_READ_BY = TableColumn(
    "read_by", "word", "guess: a format that perflog made from the log itself read the row; else null", by_field=False
)

UTC, LOCAL, NO_YEAR, NO_DATE = "utc", "local", "no_year", "no_date"
CLOCKS = (UTC, LOCAL, NO_YEAR, NO_DATE)
"""Epochs of printed times. With a zone, they are converted to UTC; without, they are the machine's local time."""

STAMPED = ("steps", "milestones")
"""Tables with the time at which the line of a row was printed."""

STEP_TIME_SOURCES = ("clock", "line", "bar", "rate")
"""Values of column `step_time_by`, the best first."""

BESIDE_THE_LINE = STEP_TIME_SOURCES[1:]
"""Those that the program does not print as a clock: the time may cover other steps than the line."""

_CLOCK = TableColumn(
    "clock",
    "word",
    "utc: the time of the row has a zone and counts from 1970 in UTC; local: it has none, and is the machine's "
    "local time; no_year: the same, from the start of the first year of the log, which is not printed; no_date: from "
    "midnight of its first day; null: see `clock` in the run's config",
    by_field=False,
)

_DEVICE_NAME = _word("device_name", "device as the profiler names it, without its number")

_KINDS = (
    "kernel, graph, memcpy, memset, sync, runtime, cpu, python, range, device_range, span, overhead, mark, library, "
    "os, memory (allocated or freed), operation (work of a rank that a profiler of the job sums up)"
)

_BODIES: dict[str, tuple[TableColumn, ...]] = {
    "runs": (
        _text("log", "path or URL of the log, as given"),
        _text("log_sha256", "SHA-256 of the decompressed log"),
        _word("format", "format of the run's step lines; without step lines, the format that reads most lines"),
        TableColumn(
            "joined_formats",
            "text",
            "other formats that read lines of the run, such as of a library inside the program: by falling number "
            "of lines, separated by `, `; null if there are none",
            by_field=False,
        ),
        _small("index", "number of the run in its log, from 1", nullable=False),
        _text("label", "name of the run, as printed or as given at ingest"),
        _int("first_line", "first line of the run", nullable=False),
        _int("last_line", "last line of the run", nullable=False),
        _text("program", "program or command, as printed"),
        _text("model", "name of the model, as printed"),
        _int("world_size", "number of ranks, as printed"),
        _text("device", "device, as printed"),
        _word("dtype", "dtype, as printed"),
        _small("process", "number of the process start that the run belongs to, from 1; null if not printed"),
        _text("config", "all printed settings of the run, as JSON"),
        TableColumn(
            "outcomes",
            "text",
            "names of the numbers of `config` that the log prints only after the last reading of the run's clock, as "
            "JSON: results, no settings; null if there are none",
            by_field=False,
        ),
        TableColumn(
            "provenance",
            "text",
            "as JSON: settings in files beside the log; of a store also the commit, branch and job of the log, and "
            "tags",
            by_field=False,
        ),
        _text("printout", "printout of the model"),
        TableColumn("elapsed_s", "float64", "last reading of the run's clock, since its start", "s", by_field=False),
        TableColumn(
            "elapsed_from", "int64", "line at which the clock starts; null if it counts from 0", by_field=False
        ),
        TableColumn("elapsed_line", "int64", "line of this reading", by_field=False),
        TableColumn(
            "job",
            "word",
            "run id of the first attempt of the job, if the run continues another one or is continued; decided from "
            "all runs at hand, and null in the files of a store",
            by_field=False,
        ),
        TableColumn("attempt", "int32", "number of the attempt in its job, from 1; null without a job", by_field=False),
    ),
    "steps": (
        _STEP,
        TableColumn(
            "epoch",
            "int64",
            "epoch (or other counter) as printed, where `step` starts again in each: such steps are in the order of "
            "epoch and step; null where `step` alone gives the order",
            by_field=False,
        ),
        *_RANK,
        _SOURCE,
        _small("copy", "k for the k-th printing of the same step by the same rank, from 1", nullable=False),
        _int("steps_averaged", "number of steps that the line covers; null if unknown"),
        _real(
            "step_time_s",
            "time of the step; in a trace of its annotation on the host, which may end long before its work: "
            "metrics take the window of the work instead, as in `device_time`",
            "s",
        ),
        TableColumn("elapsed_s", "float64", "time since the run's clock started, as printed", "s", by_field=False),
        TableColumn(
            "step_time_from",
            "int64",
            "line with the time that was subtracted to get `step_time_s`; null if `step_time_s` is printed",
            by_field=False,
        ),
        TableColumn(
            "step_time_by",
            "word",
            "source of `step_time_s`, if it is not printed: clock: difference of `elapsed_s`; line: of the times of "
            "the lines, `printed_ns`; bar: of the time since a progress bar began, in whole seconds; rate: the rate of "
            "a progress bar, smoothed over the last steps; null: it is printed, or measured in a trace",
            by_field=False,
        ),
        _int("printed_ns", "time at which the line was printed, see `clock`; of a trace the end of the step", "ns"),
        _CLOCK,
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
        _SOURCE,
        _word("phase", "name of the timed phase", nullable=False),
        _small("occurrence", "k for the k-th time of this phase in the step on the same rank, from 1", nullable=False),
        _real("time_s", "time of the phase", "s", nullable=False),
        _real("min_s", "time on the fastest rank, if `time_s` is the time of the slowest rank", "s"),
        _real("remote_share", "share of the phase's work that is on other ranks, as printed", "1"),
    ),
    "loads": (
        _STEP,
        *_RANK,
        _SOURCE,
        _word("layer", "layer of the model, where the log prints loads per layer"),
        _int("micro_batch", "micro-batch of the step, from 0, where the log prints loads per micro-batch"),
        _int("expert", "expert, where the log prints loads per expert"),
        _word("unit", "what is counted: token or block"),
        _real("amount", "amount of work in the step, in `unit`"),
        _real("remote", "part of the amount that is on other ranks"),
    ),
    "layers": (
        _STEP,
        *_RANK,
        _SOURCE,
        _small("stage", "pipeline stage"),
        _word("layer", "layer, such as embed, 0, lm_head"),
        _word("direction", "forward or backward"),
        _real("time_s", "time of the layer in the step", "s"),
        _int("calls", "number of timed calls"),
        _real("avg_s", "time per call, as printed", "s"),
    ),
    "kernels": (
        _small("section", "number of the profiler table in the run, from 1"),
        _word("report", "title of the profiler table"),
        _word("domain", "NVTX domain"),
        _word("range", "NVTX range"),
        _word("kind", "kernel, memcpy, memset, api, range"),
        _word("name", "name as printed; several rows can have the same name"),
        _word("category", "group of the row in the profiler table; `share` refers to the sum of the group"),
        _int("calls", "number of calls"),
        _real("time_s", "total time", "s"),
        _real("avg_s", "average time per call, as printed", "s"),
        _real("min_s", "shortest call", "s"),
        _real("max_s", "longest call", "s"),
        _real("share", "share of the category's time, as printed", "1"),
        _real("median_s", "median of the calls, as printed", "s"),
        _real("stddev_s", "standard deviation of the calls, as printed", "s"),
        _small("device", "device that the row is about, as printed"),
        _DEVICE_NAME,
        _word("process", "process that the row is about, as printed"),
        _word("thread", "thread that the row is about, as printed"),
    ),
    "events": (
        _int("step", "number of the training step in which the event was launched or lies; else null"),
        *_RANK,
        _small("stage", "pipeline stage of an operation"),
        _small("dp_rank", "data-parallel rank (replica) of an operation"),
        _small("chunk", "model chunk (virtual stage) of an operation within its stage, from 0"),
        _small("micro_batch", "micro-batch of an operation, from 0"),
        _word("kind", f"{_KINDS}; null if the trace does not say it"),
        _word("name", "name of the event"),
        _word("category", "category of the event in the trace, or the table of the database"),
        _small("device", "device that the event ran on, or that has the memory; null on the host"),
        _DEVICE_NAME,
        _small("context", "context on the device, within a process"),
        _int("stream", "stream of the device; of a call the stream that it names"),
        _word("process", "process, as named in the trace"),
        _word("thread", "thread of the process, as named in the trace"),
        _int("start_ns", "start time; since 1970 if the run's config says `clock: epoch`", "ns"),
        _int("duration_ns", "duration; null for an instant, and for an event without its end in the trace", "ns"),
        _int("correlation", "joins an API call and the work that it launched on a device, within a rank (file)"),
        _int("external", "joins an operator and the work that it launched, within a rank (file)"),
        _int(
            "record",
            "number that PyTorch gave an operator: joins traces of the profiler and execution traces of a rank",
        ),
        _word(
            "range",
            "innermost named range of the thread around the event, or around the call that launched it; of XLA's "
            "operations without one the program",
        ),
        _word("domain", "NVTX domain of a range or mark"),
        _word("collective", "collective operation, as named in the trace"),
        _word("group", "process group of the collective, as named in the trace"),
        _int(
            "seq",
            "sequence number of the collective in its group; of an operation by its name, rank and step",
        ),
        _int(
            "bytes",
            "bytes moved; for a collective the larger of its two buffers; of an operator in an execution trace "
            "the tensors that it takes and returns; of memory bytes allocated, below 0 freed",
            "B",
        ),
        _int("flops", "floating-point operations of the event, as the profiler computes them"),
        _word("dtype", "element type of the collective"),
        _int("ranks", "number of ranks in the collective"),
        _word("group_description", "purpose of the process group, as named in the trace"),
        _word("group_ranks", "ranks of the process group, as printed: long lists are cut with `...`"),
        _small("src_rank", "rank that sends"),
        _small("dst_rank", "rank that receives"),
        _word("in_split", "elements that go to each rank of the group, as printed"),
        _word("out_split", "elements that come from each rank of the group, as printed"),
        _word("shapes", "shapes of the inputs of an operator, as printed"),
        _word("input_types", "element types of the inputs of an operator, as printed"),
        _word("input_strides", "strides of the inputs of an operator, as printed"),
        _word("input_values", "values of the inputs of an operator that are not tensors, as printed"),
        _word("stack", "call stack of an operator, as printed"),
        _word("grid", "size of a kernel's grid in blocks, x y z, as printed; of rocprofv3 in threads"),
        _word("block", "size of a block in threads, x y z, as printed"),
        _int("registers", "registers of each thread of a kernel"),
        _int("shared_bytes", "shared memory of each block, static and dynamic; of rocprofv3 LDS", "B"),
        _int("address", "address of the memory that was allocated or freed"),
        _int("waits_for_stream", "of a synchronisation the stream of the CUDA event that is waited for"),
        _int(
            "waits_for_record",
            "correlation number of the call that recorded the CUDA event: all work that was launched on the stream "
            "before is waited for",
        ),
    ),
    "counters": (
        _STEP,
        *_RANK,
        _word("name", "name of the counter"),
        _word("subject", "what was counted: a kernel, a network port, a process group; null: the whole device"),
        _small("device", "device that was counted, or that ran the subject"),
        _DEVICE_NAME,
        _word("process", "process, as named in the trace; of GPU telemetry of several nodes the node"),
        _int(
            "start_ns",
            "time of the reading, or start of what it covers, on the clock of table `events`; of GPU telemetry "
            "since 1970, on the clock of the machine, in its time zone",
            "ns",
        ),
        _CLOCK,
        _int("duration_ns", "time that the reading covers; null for a sample at a point in time", "ns"),
        _int("correlation", "number of the dispatch, or of the call, that launched the counted work"),
        _int("calls", "number of calls that the row sums up; null for one reading"),
        _real("value", "the reading, in `unit`; of several calls the mean"),
        _real("min", "smallest reading of the calls"),
        _real("max", "largest reading of the calls"),
        _real("total", "sum over the calls"),
        _word("unit", "unit, as printed; of GPU telemetry the base unit"),
    ),
    "collectives": (
        *_RANK,
        _SOURCE,
        _word("op", "collective operation"),
        _word("buffer", "out of place, or in place (the result replaces the input)"),
        _int("bytes", "message size", "B"),
        _word("dtype", "element type"),
        _int("ranks", "number of ranks in the collective"),
        _real("time_s", "time", "s"),
        _real("algbw_gbps", "algorithm bandwidth", "GB/s"),
        _real("busbw_gbps", "bus bandwidth", "GB/s"),
        _int("wrong", "number of wrong results"),
    ),
    "summaries": (
        _word("key", "name of the value", nullable=False),
        _real("value", "the value, in its base unit"),
        _word("unit", "base unit"),
        _int("window_first", "first step of the window with this mean; null if no window fits"),
        _int("window_last", "last step of the window"),
        _word(
            "window_fit",
            "exact: the mean equals the value to the last bit; rounding: within rounding",
        ),
    ),
    "values": (
        _STEP,
        *_RANK,
        _SOURCE,
        _small("stage", "pipeline stage that the number is about, where the log prints it"),
        _int("dp_rank", "data-parallel rank (replica) that the number is about, where the log prints it"),
        _word("key", "name of the number or string", nullable=False),
        _real("value", "the number, in its base unit"),
        _word("unit", "base unit"),
        _text("text", "the string, if it is not a number"),
        TableColumn("elapsed_s", "float64", "time since the run's clock started, as logged", "s", by_field=False),
    ),
    "failures": (
        _int("time_ns", "time at which it was printed, see `clock`", "ns"),
        _CLOCK,
        _small("rank", "rank that failed, as printed, or as a label, the file or a task proves it; else null"),
        _word("rank_by", "the rule that proves the rank: printed, label, file; task: a task of srun is a rank"),
        _small("local_rank", "rank on its node, as printed"),
        _small("task", "task of srun that printed it, or that it is about"),
        _word("node", "node that printed it, or that it is about"),
        _small("gpu", "index of the GPU, as printed"),
        _word("device", "PCI address of the device, as printed"),
        _word("kind", "kind of the failure: `perflog/parsing/failures/kinds.toml` lists them", nullable=False),
        _word(
            "severity",
            "fatal: such a message ends a process; error: an exception that the program may have caught; notice",
            nullable=False,
        ),
        _word(
            "role",
            "first: among the failures of its run, what came first; echo: what followed from another; unknown",
            nullable=False,
        ),
        _text("message", "message of the failure; of a traceback its exception"),
        _int("last_line", "line in which the message ends", nullable=False),
        _int("count", "how often the process reports it in a row", nullable=False),
        _int("section", "how often the first line of the log was printed again before: by another start of a program"),
        _word("group", "process group, as printed"),
        _word("op", "collective operation, as printed"),
        _int("seq", "sequence number of the collective"),
        _int("last_enqueued", "last collective that the rank enqueued in the group"),
        _int("last_completed", "last collective that the rank completed in the group"),
        _real("waited_s", "how long the collective had waited when it was given up, as printed", "s"),
        _int("exit_code", "exit code of the process; below 0 the signal that ended it"),
        _word("peer", "address of the other end of a connection, or ranks that a barrier waits for, as printed"),
    ),
    "milestones": (
        _STEP,
        *_RANK,
        _SOURCE,
        _word(
            "kind",
            "what begins or ends: startup, training, checkpoint (it is saved), restore (it is loaded), evaluation, "
            "job; log: the first and last time stamp of the run's lines",
            nullable=False,
        ),
        _word("edge", "begin, end; null: the line states only that it was"),
        _int("printed_ns", "time of the line, see `clock`", "ns"),
        _CLOCK,
        _real("duration_s", "how long it took, as printed", "s"),
        _text("name", "what it is about, as printed: path of the checkpoint, stage of the start"),
    ),
    "lines": (
        _word("status", "read (into a record), context (known, nothing to store) or unread", nullable=False),
        _word("shape", "template of the lines; of unread lines the line with numbers masked", nullable=False),
        _int("count", "number of lines of the shape", nullable=False),
        _int("first_line", "first line of the shape", nullable=False),
        _text("sample", "the first line"),
        _int("figures_stored", "figures of these lines that are in a table or among the run's settings"),
        _int("figures_dropped", "figures that the format declares as dropped"),
        _int("figures_unread", "all other figures of these lines"),
        _text("dropped_because", "why the format drops figures of these lines"),
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
    "counters": "reading of a hardware counter: a sample, or of a kernel, or summed up over its calls",
    "collectives": "size of a collective that was measured: time, bandwidth",
    "summaries": "value that the log prints as a summary, with the window of steps that it averages",
    "values": "number or string that fits no other table",
    "failures": "failure that the log reports: its rank, node, GPU, kind and message",
    "milestones": "line on the course of the job: a start, a checkpoint, an evaluation",
    "lines": "line shape of a log: read, context or unread, with the number of lines",
}
"""What one row of each table describes."""

TABLES: dict[str, tuple[TableColumn, ...]] = {
    name: (*_PLACE, *body, *(() if name in ("runs", "failures", "lines") else (_READ_BY,)))
    for name, body in _BODIES.items()
}
PER_FIELD = {
    "phases": ("phase", "time_s"), "values": ("key", "value"), "summaries": ("key", "value"),
    "counters": ("name", "value"),
}  # fmt: skip
"""Tables with one row per field of a line: the column for the name of the field, and the column for its value."""


@cache
def column_for(table: str | None, field: str) -> TableColumn | None:
    """Return the column that a field of a line fills: the one of its name, or of its name with a unit as suffix.

    None if the table has none, and without a table.
    """
    with_unit = {f"{field}_{unit}" for unit in ("s", "ns", "bytes", "gbps")}
    for col in TABLES.get(table or "", ()):
        if col.by_field and (col.name == field or (col.unit and col.name in with_unit)):
            return col
    return None


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table. Words are dictionary-encoded; units and meanings are field metadata."""
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
