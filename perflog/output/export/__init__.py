"""Export of runs for other programs: `perfetto` writes a Chrome trace, `csv` writes a file for each table."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from perflog.errors import StoreError, UsageError
from perflog.files.file_names import usable
from perflog.files.whole_files import whole_file
from perflog.metrics.run_tables import Tables
from perflog.opening.given_runs import Given, log_of
from perflog.output.export import event_tracks
from perflog.output.export.metric_tracks import MetricTracks, first_reading
from perflog.output.export.step_timeline import NOTE, StepTimeline
from perflog.output.sheets import guarded
from perflog.output.terminal import visible

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 12  # events that are written at once


def perfetto(log: Given, path: str | os.PathLike[str]) -> int:
    """Write one run as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

    A run of a trace keeps the times of its events. Beside them stand tracks of what metrics know: the critical path,
    idle time by cause, ranges on streams, waits in collectives of several ranks, the queue of launched work, counters.
    A run of a text log has no times: its steps are laid end to end.

    Args:
        log: A log with one run (`log.select(1)` chooses one of several), or the name of a run, such as "run.txt#1".
        path: The file. If its name ends in .gz, it is compressed.

    Returns:
        The number of events.

    Raises:
        UsageError: The log holds several runs, or nothing in the run belongs to a step.
        StoreError: The file cannot be written.

    Example:
        >>> perflog.export.perfetto(perflog.read("run.txt").select(1), "run.json")
        361
    """
    log = log_of(log)
    if len(log) != 1:
        help = "name one run: LOG#1, or a run id"
        raise UsageError(f"a trace shows one run, but the log has {len(log)} runs", help=help)
    run = log.run_keys[0]
    about: dict[str, object] = {"run": run.id, "label": run.label, "log": run.log, "log_sha256": run.sha256}
    tables, count = Tables(log), 0
    start = event_tracks.first_start(tables) if tables.count("events") else None
    whole: dict[str, object] = {"displayTimeUnit": "ms"}
    if start is not None:
        reading = first_reading(tables)
        start = start if reading is None else min(start, reading)  # viewers leave out what is before time 0
        if (rank := event_tracks.only_rank(tables)) is not None:
            whole |= {"distributedInfo": rank}
        about |= {"note": event_tracks.NOTE, "start_ns": start}
        events = _timed_events(tables, start)
    else:
        about["note"] = NOTE
        events = StepTimeline(tables).events()
    first = next(events)  # before the file is opened: an error then leaves no file
    with _text_file(Path(path)) as file:
        file.write(json.dumps(whole | {"otherData": about})[:-1] + ', "traceEvents": [\n')
        file.write(_dump(first))
        waiting: list[str] = []
        for event in events:
            count += 1
            waiting.append(_dump(event))
            if len(waiting) == _BLOCK:
                file.write(",\n" + ",\n".join(waiting))
                waiting.clear()
        file.write(("," if waiting else "") + "\n" + ",\n".join(waiting) + "]}\n")
    return count + 1


def _timed_events(tables: Tables, start: int) -> Iterator[event_tracks.Event]:
    """The events of a trace, the tracks of metrics, and the names of all."""
    tracks = event_tracks.Tracks()
    yield from event_tracks.events_of(tables, start, tracks)
    yield from MetricTracks(tables, start, tracks).events()
    yield from tracks.names()


def csv(log: Given, folder: str | os.PathLike[str], raw: bool = False) -> list[str]:
    """Write each table that has rows as a CSV file, with values in base units.

    Args:
        log: What `perflog.read` or `perflog.load` returns; or a path, a glob, or a list of these.
        folder: The folder of the files; it is made if it does not exist. Each file has the name of its table.
        raw: Whether texts stay as they are. By default control characters are escapes, and a quote mark is before
            strings that a spreadsheet would run as a formula.

    Returns:
        The names of the tables.

    Raises:
        StoreError: A file cannot be written.

    Example:
        >>> perflog.export.csv(perflog.read("run.txt"), "run-csv")
        ['runs', 'steps', ...]
    """
    import pyarrow as pa
    from pyarrow.csv import write_csv

    log = log_of(log)
    home = Path(usable(os.fspath(folder)))
    names: list[str] = log.table_names
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}"
        raise StoreError(reason, str(home), "name another file with -o") from error
    for name in names:
        table = log.arrow(name)
        for i, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
                texts = table[i].cast(pa.string())
                table = table.set_column(i, field.name, texts if raw else _safe(texts))
        with whole_file(home / f"{name}.csv") as draft, draft.open("wb") as file:  # its name may have any bytes
            write_csv(table, file)
    return names


def _safe(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts that neither control a terminal nor run in a spreadsheet."""
    import pyarrow as pa

    def safe(chunk: pa.DictionaryArray) -> pa.Array:
        values = [guarded(visible(text)) for text in chunk.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(chunk.indices, pa.array(values, pa.string())).cast(pa.string())

    return pa.chunked_array([safe(chunk) for chunk in texts.dictionary_encode().chunks], pa.string())


@contextmanager
def _text_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that appears whole or not at all."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with whole_file(path) as draft, opener(draft, "wt", encoding="utf-8") as text_file:
        yield text_file


def _dump(event: dict[str, object]) -> str:
    return visible(json.dumps(event, ensure_ascii=False, allow_nan=False))
