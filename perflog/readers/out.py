"""What readers give out: tables into a sink, many rows at a time and beside the reading; runs, steps, the account."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from perflog.readers.rows import Who
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import RUN_ID, IngestResult, RunLabels, Sink, table_of

_TOGETHER = 1 << 17  # rows that are written together
_QUEUED = 2  # row groups that wait to be written

Shapes = Mapping[tuple[str, str], Sequence[Any]]


class Out:
    """The one run of a log that is no text, on its way into a sink."""

    def __init__(self, log: str, sha256: str, format: str, sink: Sink) -> None:
        self.done = IngestResult(log, sha256, [format])
        self.run = f"{sha256[:RUN_ID]}-1"
        self._sink = sink
        self._writer = ThreadPoolExecutor(1)
        self._writes: deque[Future[None]] = deque()
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        while self._writes:
            done = self._writes.popleft()
            if kind is None:
                done.result()
            else:
                done.cancel()
        self._writer.shutdown()

    def events(self, rows: pa.Table) -> None:
        """Give out rows of `events`."""
        if len(rows):
            self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= _TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks(), []
        self._put("events", rows)
        while len(self._writes) > _QUEUED:
            self._writes.popleft().result()

    def _put(self, table: str, rows: pa.Table) -> None:
        if len(rows):
            self.done.tables[table] = self.done.tables.get(table, 0) + len(rows)
            self._writes.append(self._writer.submit(self._sink.add, table, rows))

    def steps(self, found: Sequence[tuple[Who, int, int, int]]) -> None:
        """Steps, by whom, number, place, and nanoseconds they took."""
        copies: dict[tuple[int, int], int] = {}
        rows = []
        for who, step, place, duration in found:
            copies[who.part, step] = copies.get((who.part, step), 0) + 1
            rows.append(
                {
                    "run": self.run, "line": place, "part": who.part, "step": step, "rank": who.rank,
                    "rank_by": who.rank_by, "copy": copies[who.part, step], "steps_averaged": 1,
                    "step_time_s": duration / 1e9,
                }
            )  # fmt: skip
        if rows:
            self._rows("steps", rows)

    def account(self, part: int, shapes: Shapes) -> None:
        """Shapes of one file: (status, shape) -> count, place of the first, its text."""
        rows, done = [], self.done
        for (status, shape), (count, first, sample) in sorted(shapes.items(), key=lambda x: x[1][1]):
            done.lines[status] += count
            done.lines["total"] += count
            if status == "unread" and done.unread is None:
                done.unread = first, sample or shape
            rows.append(
                {"run": self.run, "line": first, "part": part, "status": status, "shape": shape, "count": count,
                 "first_line": first, "sample": sample or None}
            )  # fmt: skip
        if rows:
            self._rows("lines", rows)

    def end(self, label: RunLabels, last: int, config: Mapping[str, Any], **said: Any) -> IngestResult:
        """Give out the row of the run. `last`: the place of its last event."""
        done = self.done
        name = label if isinstance(label, str) or label is None else label().get(1)
        row = {"log": done.log, "log_sha256": done.sha256, "format": done.formats[0], "index": 1, "label": name}
        row |= {"run": self.run, "line": 1, "part": 0, "first_line": 1, "last_line": last}
        text = json.dumps(config, ensure_ascii=False, default=str)
        self._rows("runs", [row | {"config": text} | said])
        done.runs.append({k: row[k] for k in ("run", "label", "index", "format")})
        return done

    def _rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = [[row.get(name) for row in rows] for name in arrow_schema(table).names]
        self._put(table, table_of(table, columns))
