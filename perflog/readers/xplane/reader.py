"""The reader of XSpace files, which XLA's profiler writes for JAX and TensorFlow.

The step and range of an event are known only when all ranges have been read, so the rows wait in a temporary file, as
as for Chrome traces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.events.event_columns import KIND_CODE, MISSING, EventColumns, shift_starts
from perflog.readers.events.event_context import EventContext, select_calls, select_ranges, step_codes
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.interval_index import IntervalIndex
from perflog.readers.events.spill_file import SpilledColumns, load_spilled, mapped_file, open_spill_file, spill
from perflog.readers.events.string_interning import Interners, new_interners
from perflog.readers.interface import RankFileReader, RankInfo, ReadOptions
from perflog.readers.rank_files import ranks_of_files
from perflog.readers.xplane.events import STEP_NAME, LineKind, PlaneEvents, line_kinds
from perflog.readers.xplane.planes import Plane, begins_as_space, read_space
from perflog.tables.sink import IngestResult, Sink

_HEAD = 1 << 12
_EPOCH_NS = 10**18  # September 2001: larger times count from 1970
_START_TIME = "profile_start_time"
_STEPS = "steps"  # name of the line of a device that shows its steps, in lower case
_SETTINGS = 200  # characters of a statistic of a plane that is kept


class XplaneReader(RankFileReader):
    """Reads XSpace files."""

    name = "xplane"
    title = "profile of XLA (*.xplane.pb), as JAX and TensorFlow write it"
    source = "jax.profiler.trace and tf.profiler.experimental.start; the files of several hosts are one run"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins with a plane that has a name."""
        return begins_as_space(source.first_bytes(_HEAD))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return each plane with the number of its lines."""
        with mapped_file(source) as data:
            planes = [(plane.name, len(plane.line_places[0])) for plane in read_space(data).planes()]
        return [(1, "plane", f"{name}: {count} lines") for name, count in planes]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the profiles of a job, one for each host, into a sink."""
        ranks = ranks_of_files([(part.name, RankInfo()) for part in source.parts])
        interners = new_interners()
        files: list[_Profile] = []
        with RunWriter(source.name, source.digest(), self.name, sink) as writer, open_spill_file() as waiting:
            for number, (part, (rank, rule)) in enumerate(zip(source.parts, ranks, strict=True)):
                profile = _Profile(os.path.basename(part.name), rank)
                with mapped_file(part) as data:
                    profile.read(data, interners, waiting)
                options.done(part)
                files.append(profile)
                profile.write(EventOrigin(writer.run, number, rank, rule), interners, waiting, writer)
            if not any(profile.count for profile in files):
                help = "the profiler was stopped before it recorded any"
                raise InputError("no events in this profile", source.name, help)
            config = {
                "clock": "epoch" if all(profile.is_since_1970 for profile in files) else "trace",
                "files": [profile.config() for profile in files],
            }
            ingested = writer.write_run(
                options.label, max(profile.count for profile in files), config, device=_devices(files)
            )
        ingested.warnings += [f"{p.name}: {w}" if len(files) > 1 else w for p in files for w in p.warnings]
        ingested.warnings += [warning for part in source.parts for warning in part.warnings]
        return ingested


class _Profile(Struct):
    """One file: what is known of it while its rows wait. `base`: zero of its times since 1970 in ns; 0: not stated."""

    name: str
    rank: int | None
    count: int = 0
    base: int = 0
    begin: int = MISSING
    account: EventAccount = field(default_factory=EventAccount)
    hosts: list[str] = field(default_factory=list)
    planes: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _rows: list[SpilledColumns] = field(default_factory=list)
    _values: list[EventColumns] = field(default_factory=list)
    _ranges: list[EventColumns] = field(default_factory=list)
    _calls: list[EventColumns] = field(default_factory=list)
    _device_steps: list[EventColumns] = field(default_factory=list)

    @property
    def is_since_1970(self) -> bool:
        return self.base + max(self.begin, 0) > _EPOCH_NS

    def read(self, data: memoryview, interners: Interners, waiting: object) -> None:
        """Read the planes of a file. Their rows go to the file of those that wait."""
        space = read_space(data)
        self.hosts, self.warnings = space.hosts, [*space.messages]
        if space.damage >= 0:
            self.warnings.append(f"the file is cut or damaged from byte {space.damage} on")
        for plane in space.planes():
            if plane.damage >= 0:
                self.warnings.append(f"plane {plane.name} is damaged from byte {plane.damage} on")
            self._keep_settings(plane)
            self._read_plane(plane, interners, waiting)
        if space.damage >= 0:
            self.count += 1
            self.account.add("unread", "damaged part of the file", 1, self.count)

    def _keep_settings(self, plane: Plane) -> None:
        settings = {n: v for n, v in plane.stats.items() if not isinstance(v, str) or len(v) <= _SETTINGS}
        if settings:
            self.planes.setdefault(plane.name, {}).update(settings)
        start = plane.stats.get(_START_TIME)
        if isinstance(start, int) and _EPOCH_NS < start < 1 << 62:
            self.base = start

    def _read_plane(self, plane: Plane, interners: Interners, waiting: object) -> None:
        lines = list(plane.lines())
        events = PlaneEvents(plane, interners, self.account, self.count)
        for line, kind in zip(lines, line_kinds(plane, lines), strict=True):
            for rows in events.batches(line, kind):
                if len(rows["place"]):
                    self._keep(rows, kind, interners, waiting)
        self._values += events.undeclared
        self.count = events.place

    def _keep(self, rows: EventColumns, kind: LineKind, interners: Interners, waiting: object) -> None:
        starts = rows["start"][rows["start"] != MISSING]
        if self.begin == MISSING and len(starts):
            self.begin = int(starts.min())
        names = interners["name"].texts
        if kind.device is None:
            self._ranges.append(select_ranges(rows, step_codes(rows["name"], names, STEP_NAME)))
            self._calls.append(select_calls(rows))
        elif kind.thread.lower() == _STEPS:
            self._device_steps.append({name: rows[name] for name in ("process", "name", "start", "duration")})
        self._rows.append(spill(waiting, rows))

    def write(self, origin: EventOrigin, interners: Interners, waiting: object, writer: RunWriter) -> None:
        """Complete the rows with their steps and ranges, and write them."""
        base = 0 if self.begin > _EPOCH_NS else self.base
        self.base = base
        context = EventContext(self._ranges, interners, STEP_NAME)
        for calls in self._calls:
            context.add_calls(calls)
        steps = _device_steps(self._device_steps, interners)
        for spilled in self._rows:
            rows = load_spilled(waiting, spilled)
            rows = rows | context.fill(rows)
            program = rows.pop("program")
            unknown = (rows["range"] < 0) & (rows["kind"] != KIND_CODE["range"])
            rows["range"] = np.where(unknown, program, rows["range"])
            if steps is not None:
                found = steps.find(rows["process"].astype(np.int64), rows["start"])
                is_on_device = (rows["step"] == MISSING) & (rows["device"] != MISSING) & (found >= 0)
                rows["step"] = np.where(is_on_device, found, rows["step"])
            rows["start"] = shift_starts(rows["start"], base)
            writer.write_events(event_rows(origin, rows, interners))
        for values in self._values:
            writer.write_rows("values", event_rows(origin, values, interners, "values"))
        writer.write_steps(context.steps_of([origin] * len(context.host_steps)), base)
        writer.write_account(origin.part, self.account)
        self._rows, self._values, self._ranges, self._calls, self._device_steps = [], [], [], [], []

    def config(self) -> Mapping[str, Any]:
        """Return what the file says of itself, for the run's config."""
        rank = {} if self.rank is None else {"rank": self.rank}
        return {"name": self.name, **rank, "hosts": self.hosts, "events": self.count, "planes": self.planes}


def _device_steps(pieces: list[EventColumns], interners: Interners) -> IntervalIndex | None:
    """Return the steps that devices show on a line of their own, by the code of the device's plane."""
    if not pieces:
        return None
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    texts = [interners["name"].texts[code] if code >= 0 else "" for code in columns["name"].tolist()]
    numbers = np.array([int(text) if text.isdigit() and len(text) < 10 else -1 for text in texts], np.int64)
    known = (numbers >= 0) & (columns["start"] != MISSING) & (columns["duration"] >= 0)
    process, start = columns["process"][known].astype(np.int64), columns["start"][known]
    return IntervalIndex(process, start, start + columns["duration"][known], numbers[known])


def _devices(files: list[_Profile]) -> str | None:
    """Return the names of the devices, as their planes state them."""
    names = [
        str(stats[key])
        for profile in files
        for stats in profile.planes.values()
        for key in ("device_type_string", "device_type", "gpu_model")
        if stats.get(key)
    ]
    return ", ".join(dict.fromkeys(names)) or None
