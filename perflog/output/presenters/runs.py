"""What the commands show of a log, a store or a format, as sheets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

import numpy as np
import pyarrow as pa

from perflog.ingestion.bulk import Outcome
from perflog.log import Log
from perflog.output.sheets import Sheet, of_table, pairs, sheet
from perflog.tables.arrow import numbers_of
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.sink import IngestResult

_ENDS = 3  # steps shown of the begin and of the end of a run
_SHAPES = 10  # shapes of unread lines shown of a run

# --- runs ---------------------------------------------------------------------------------------------------------


def runs(log: Log, note: str = "") -> Sheet:
    """One row per run: what is in a store."""
    steps = _per_run(log, "steps")
    unread = _per_run(log, "lines", "unread")
    total = _per_run(log, "lines", "")
    info = {r["run"]: r for r in log.arrow("runs").select(["run", "format", "model", "world_size"]).to_pylist()}
    rows = []
    for r in log.run_keys:
        said = info[r.id]
        counts = steps.get(r.id, 0), total.get(r.id, 0), unread.get(r.id, 0)
        rows.append((r.id, r.label, r.index, said["format"], said["model"], said["world_size"], *counts, r.log))
    return sheet("runs", "run label index# format model world_size# steps# lines# unread# log", rows, note=note)


def _per_run(log: Log, name: str, status: str | None = None) -> dict[str, int]:
    """Rows of a table by run; with a status (or "" for all) the lines of that status."""
    table = log.arrow(name)
    if not table.num_rows:
        return {}
    table = table.combine_chunks()
    words = table["run"].chunk(0)
    weights = None
    if status is not None:
        chosen = [status in ("", s) for s in table["status"].to_pylist()]
        weights = numbers_of(table["count"].chunk(0)) * np.array(chosen)
    counts = np.bincount(numbers_of(words.indices), weights, len(words.dictionary))
    return dict(zip(words.dictionary.to_pylist(), counts.astype(np.int64).tolist(), strict=True))


def choices(log: Log, ref: str) -> Sheet:
    """Several runs that one reference means, and what to type for one of them."""
    first = log.run_keys[0]
    example = quote(f"{ref}#{first.index}") if ref == first.log == log.run_keys[-1].log else first.id
    return runs(log, f"one of them: perflog show {example}\na table of all: perflog show {quote(ref)} steps")


def glance(log: Log, format: str) -> Iterator[Sheet]:
    """One run on one screen."""
    row = log.arrow("runs").to_pylist()[0]
    config = json.loads(row.pop("config") or "{}")
    names = "run label log format index first_line last_line program model world_size device dtype process".split()
    yield pairs("run", [(n, row[n]) for n in names], row["label"] or row["run"])
    if said := [(k, v) for k, v in config.items() if k not in names]:
        yield pairs("config", said, "config")
    steps, summaries = log.arrow("steps"), log.arrow("summaries")
    if steps.num_rows:
        yield _steps(steps)
    if summaries.num_rows:
        told = of_table("summaries", summaries.drop_columns(["run", "line", "part"]), format, 0)
        yield replace(told, title="summaries, and the steps whose mean they are")
    counts = [(name, rows) for name, rows in log.row_counts.items() if name not in ("runs", "lines")]
    yield pairs("tables", counts, "rows ", inline=True)
    yield pairs("lines", log.line_account.items(), "lines", inline=True)
    lines = (x for x in log.arrow("lines").to_pylist() if x["status"] == "unread")
    unread = sorted(lines, key=lambda x: -x["count"])
    if unread:
        shown = [(x["count"], x["first_line"], x["sample"]) for x in unread[:_SHAPES]]
        title = f"unread: the {len(shown)} commonest of {len(unread)} shapes" if len(unread) > _SHAPES else "unread"
        yield sheet("unread", "count# first_line# sample", shown, title)


def _steps(steps: pa.Table) -> Sheet:
    """The first steps and the last, without the columns that say nothing."""
    total = steps.num_rows
    plain = {"copy": 1, "steps_averaged": 1}
    names = [
        n
        for n in steps.column_names
        if n not in ("run", "part", "line")
        and steps[n].null_count < total
        and not (n in plain and set(steps[n].to_pylist()) == {plain[n]})
    ]
    steps = steps.select(names)
    title = f"steps: all {total}"
    if total > 2 * _ENDS:
        title = f"steps: the first and the last {_ENDS} of {total}"
        steps = pa.concat_tables([steps.slice(0, _ENDS), steps.slice(total - _ENDS)])
    return replace(of_table("steps", steps, "json"), title=title)


# --- ingest -------------------------------------------------------------------------------------------------------


def ingested(done: IngestResult) -> Sheet:
    """One log on one short screen."""
    lines, rows = done.lines, {k: v for k, v in done.tables.items() if k not in ("runs", "lines")}
    said = [
        ("format", ", ".join(done.formats)),
        ("runs", _ends([r["run"] for r in done.runs], " to ", 1)),
        ("labels", _ends([r["label"] for r in done.runs if r["label"]], ", ..., ", 3) or None),
        ("rows", ", ".join(f"{name} {count}" for name, count in rows.items()) or "none"),
        ("lines", "{total} = {read} read + {context} context + {unread} unread".format(**lines)),
    ]
    note = ""
    if done.unread is not None:
        line, text = done.unread
        said.append(("unread", f"the first is line {line}: {text}"))
        note = f"`perflog formats suggest {done.log}` describes such lines"
    return pairs("log", said, done.log, note)


def _ends(names: Sequence[str], between: str, first: int) -> str:
    """How many names, and the first of them and the last."""
    if len(names) <= first + 1:
        return f"{len(names)}: {', '.join(names)}" if names else ""
    return f"{len(names)}: {', '.join(names[:first])}{between}{names[-1]}"


def ingested_json(outcomes: Iterable[tuple[str, Outcome]]) -> str:
    """All outcomes as one document."""
    logs, errors = [], []
    for name, done in outcomes:
        if not isinstance(done, IngestResult):
            errors.append({"log": name, "reason": done.reason, "help": done.help})
            continue
        most = [r["format"] for r in done.runs]
        logs.append({
            "log": done.log, "format": max(set(most), key=most.count, default=None), "formats": done.formats,
            "sha256": done.sha256, "runs": done.runs, "tables": done.tables, "lines": done.lines,
            "warnings": done.warnings,
        })  # fmt: skip
    return json.dumps({"schema_version": SCHEMA_VERSION, "logs": logs, "errors": errors}, indent=1, ensure_ascii=False)
