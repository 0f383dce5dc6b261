"""Offline runs of Weights & Biases (run-*.wandb): history by step, system metrics, configuration.

A file is a log in the format of LevelDB, blocks of 32 KiB, after a header of its own. Each record is a protocol buffer
`Record`, with values as JSON.
Sources: wandb/sdk/internal/datastore.py, wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.events.event_table import EventOrigin, RunWriter
from perflog.readers.interface import Reader, ReadOptions
from perflog.readers.messages.protobuf import only, repeated, signed, text
from perflog.readers.odd_numbers import finite, real, whole
from perflog.readers.rank_files import rank_of_file
from perflog.readers.trackers.record_files import RecordFile, block_records
from perflog.readers.trackers.scalar_series import Scalar, step_rows, value_rows
from perflog.tables.sink import IngestResult, Sink

_IDENT = b":W&B"
_MAGIC = 0xBEE1
_FILE_HEADER = struct.Struct("<4sHB")

# Record -> what it is
_HISTORY, _SUMMARY, _CONFIG, _STATS, _RUN = 2, 3, 5, 7, 17
_KINDS = {
    4: "output", 6: "files", 8: "artifact", 9: "tensorboard record", 10: "alert", 11: "telemetry",
    12: "metric", 13: "output", 18: "exit", 20: "final", 21: "header", 22: "footer", 23: "preempting", 24: "link",
    25: "use of an artifact", 26: "environment", 27: "output", 100: "request",
}  # fmt: skip
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16  # of an item of history, configuration, statistics
_UNITS = {"powerWatts": "W", "temp": "°C", "memoryAllocatedBytes": "B", "gpu": "%", "smClock": "MHz"}  # of gpu.0.temp
_DEVICE = lazy_pattern(r"(?:gpu|tpu|npu)\.([0-9]{1,9})\.")


class WandbReader(Reader):
    """Reads offline runs of Weights & Biases."""

    name = "wandb"
    title = "offline run of Weights & Biases: history by step"
    source = "wandb.init(mode='offline'), and every run's own file (wandb/run-*/run-*.wandb)"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins with the header of such a run."""
        head = source.first_bytes(_FILE_HEADER.size)
        return len(head) == _FILE_HEADER.size and _FILE_HEADER.unpack(head)[:2] == (_IDENT, _MAGIC)

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the header of the file."""
        version = _FILE_HEADER.unpack(source.first_bytes(_FILE_HEADER.size))[2]
        return [(1, "header", f":W&B, version {version}")]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read a run into a sink."""
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            file = RunFile(source)
            if not file.count:
                raise InputError("no records in this run", source.name, "the program wrote nothing yet")
            origin = EventOrigin(writer.run, 0, *rank_of_file(source.name))
            writer.write_dicts("values", value_rows(origin, file.scalars))
            writer.write_dicts("steps", step_rows(origin, file.scalars, file.run.get("started")))
            place = {"run": origin.run, "part": 0, "rank": origin.rank, "rank_by": origin.rank_by}
            writer.write_dicts("counters", [place | row for row in file.counters])
            summaries = [{"run": origin.run, "part": 0} | row for row in file.summary_rows()]
            writer.write_dicts("summaries", summaries)
            writer.write_account(0, file.account)
            elapsed = max((s.elapsed for s in file.scalars if s.elapsed is not None), default=None)
            label = options.label_of(1) or file.run.get("display_name")
            config = {"clock": "epoch"} | file.run | file.config
            ingested = writer.write_run(label, file.count, config, elapsed_s=elapsed)
        options.done(source)
        ingested.warnings += file.warnings
        return ingested


class RunFile(RecordFile):
    """The records of a run."""

    def __init__(self, source: Source) -> None:
        self.counters: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.run: dict[str, Any] = {}
        self.summary: dict[str, tuple[int, Any]] = {}
        super().__init__(block_records(source, _FILE_HEADER.size))

    def add(self, data: bytes) -> tuple[str, str]:
        """Add a record."""
        record = only(data)
        if isinstance(history := record.get(_HISTORY), bytes):
            return self._add_history(history)
        if isinstance(stats := record.get(_STATS), bytes):
            return self._add_stats(stats)
        if isinstance(summary := record.get(_SUMMARY), bytes):
            updates = {key: (self.count, value) for key, value in _leaves(_items(summary, 1))}
            self.summary |= updates
            return "read", "summary"
        if isinstance(config := record.get(_CONFIG), bytes):
            self.config |= _items(config, 1)
            return "read", "config"
        if isinstance(run := record.get(_RUN), bytes):
            self._add_run(run)
            return "read", "run"
        return "context", next((kind for number, kind in _KINDS.items() if number in record), "other record")

    def summary_rows(self) -> Iterator[dict[str, Any]]:
        """Give rows of table `summaries`: the numbers of the summary that are not the last of a series."""
        series = {scalar.key for scalar in self.scalars}
        for key, (place, value) in self.summary.items():
            if isinstance(value, int | float) and key not in series and not key.startswith("_"):
                yield {"line": place, "key": key, "value": real(value)}

    def _add_history(self, message: bytes) -> tuple[str, str]:
        items = _items(message, 1)
        step = whole(items.pop("_step", None))
        if step is None and isinstance(number := only(message).get(2), bytes):
            step = signed(only(number).get(1, 0))
        elapsed = finite(items.pop("_runtime", None))
        items.pop("_timestamp", None)
        has_list = False
        for key, value in _leaves(items):
            if isinstance(value, bool | int | float | str):
                figure = value if isinstance(value, str) else real(value)
                self.scalars.append(Scalar(self.count, step, key, figure, elapsed))
                self.count_figures("history", stored=1)
            if isinstance(value, list):
                has_list = True
                self.count_figures("lists of the history", unread=len(value))
        return ("unread", "history with a list") if has_list else ("read", "history")

    def _add_stats(self, message: bytes) -> tuple[str, str]:
        moment = only(message).get(2)
        time = only(moment) if isinstance(moment, bytes) else {}
        start = whole(signed(time.get(1, 0)) * 10**9 + signed(time.get(2, 0))) if time else None
        for key, value in _leaves(_items(message, 3)):
            if isinstance(value, int | float):
                device = _DEVICE.search(key)
                row = {"line": self.count, "name": key, "value": real(value), "start_ns": start}
                unit = _UNITS.get(key.rpartition(".")[2]) if device else None
                self.count_figures("system metrics", stored=1)
                self.counters.append(row | {"device": int(device[1]) if device else None, "unit": unit})
        return "read", "system metrics"

    def _add_run(self, message: bytes) -> None:
        run = only(message)
        names = {1: "run_id", 2: "entity", 3: "project", 6: "group", 8: "display_name"}
        self.run |= {name: text(run[number]) for number, name in names.items() if run.get(number)}
        if isinstance(config := run.get(4), bytes):
            self.config |= _items(config, 1)
        if isinstance(start := run.get(17), bytes):
            moment = only(start)
            self.run["started"] = signed(moment.get(1, 0)) + signed(moment.get(2, 0)) / 1e9


def _items(message: bytes, number: int) -> dict[str, Any]:
    """Return the items of a record: the JSON of each by its key, nested keys joined by dots."""
    items = {}
    for item in repeated(message, number):
        value = only(item)
        nested = [key.decode("utf-8", "replace") for key in repeated(item, _NESTED_KEY)]
        items[text(value.get(_KEY)) or ".".join(nested)] = json.loads(text(value.get(_VALUE_JSON)) or "null")
    return items


def _leaves(items: Mapping[str, object], above: str = "") -> Iterator[tuple[str, Any]]:
    """Give the values of nested objects, under keys joined by dots; not the values of media, which are files."""
    for key, value in items.items():
        name = f"{above}.{key}" if above else key
        if not isinstance(value, dict):
            yield name, value
        elif "_type" not in value:
            yield from _leaves(value, name)
