"""Runs in other programs' formats: a Chrome trace for Perfetto, CSV files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from perflog.errors import StoreError, UsageError
from perflog.metrics.registry import Tables
from perflog.output.export import event_tracks
from perflog.output.export.step_timeline import NOTE, Timeline

if TYPE_CHECKING:
    from perflog.log import Log

_BLOCK = 1 << 12  # events joined to one piece of text


def perfetto(log: Log, path: str | os.PathLike[str]) -> int:
    """Write one run as a Chrome trace (JSON; `.gz` packs it), which ui.perfetto.dev and chrome://tracing open.

    A run that has timed events is written as they were; of others the steps are laid end to end.

    Gives the number of events. Raises UsageError if the log holds several runs, or nothing in it belongs to a step.
    """
    if len(log) != 1:
        raise UsageError(f"a trace is of one run, and these are {len(log)}", help="name one: LOG#1, or a run id")
    run = log.run_keys[0]
    said: dict[str, Any] = {"run": run.id, "label": run.label, "log": run.log, "log_sha256": run.sha256}
    timed, count = log.arrow("events"), 0
    if len(timed) > timed["start_ns"].null_count:
        said |= {"note": event_tracks.NOTE, "start_ns": event_tracks.begin(timed)}
        events = event_tracks.tracks(timed, said["start_ns"])
    else:
        said["note"] = NOTE
        events = Timeline(Tables(log)).events()
    first = next(events)  # an error leaves no file behind
    with _text(Path(path)) as out:
        out.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(said)}, "traceEvents": [\n')
        out.write(_dump(first))
        waiting: list[str] = []
        for event in events:
            count += 1
            waiting.append(_dump(event))
            if len(waiting) == _BLOCK:
                out.write(",\n" + ",\n".join(waiting))
                waiting.clear()
        out.write(("," if waiting else "") + "\n" + ",\n".join(waiting) + "]}\n")
    return count + 1


def csv(log: Log, folder: str | os.PathLike[str]) -> list[str]:
    """Write each table that has rows as FOLDER/<table>.csv, raw values in base units. Gives the tables' names."""
    import pyarrow as pa
    from pyarrow.csv import write_csv

    home, names = Path(folder), log.table_names
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in names:
            table = log.arrow(name)
            for i, field in enumerate(table.schema):
                if pa.types.is_dictionary(field.type):
                    table = table.set_column(i, field.name, table[i].cast(pa.string()))
            write_csv(table, str(home / f"{name}.csv"))
    except OSError as error:
        raise _no(home, error) from error
    return names


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A text file that is there whole, or not at all. What is no file, such as a pipe, is written as it stands."""
    file = path.is_file() or not path.exists()
    home = path.resolve() if file else path  # a link to a file stays one
    draft = home.with_name(home.name + ".part") if file else home
    try:
        open_it: Any = gzip.open if path.suffix == ".gz" else open
        with open_it(draft, "wt", encoding="utf-8") as out:
            yield out
        if file:
            os.replace(draft, home)
    except OSError as error:
        raise _no(path, error) from error
    finally:
        if file:
            draft.unlink(missing_ok=True)


def _no(path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot be written: {error.strerror or error}", str(path), "name another place with -o")


def _dump(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, allow_nan=False)
