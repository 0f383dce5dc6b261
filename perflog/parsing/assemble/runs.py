"""Runs: where each begins and ends, what its lines say about it, and the account of every line."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from perflog.formats.families.base import field_name
from perflog.formats.model import Format, Line
from perflog.parsing.assemble.rank_votes import KeyVotes
from perflog.parsing.assemble.step_repeats import StepRepeats
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import BLANK, Batch, Records, unread_shapes
from perflog.tables.row_order import PART_BITS
from perflog.tables.schema import TABLES

SHAPES = 500
"""Shapes of unread lines that a run tells apart; the rest is counted together."""

_ORDER_BITS = 6  # the place of a field in its line, below the place of the line
OTHER_SHAPES = "(lines of other shapes)"
_RUN_COLUMNS = {c.name: c.type for c in TABLES["runs"]}


@dataclass
class RunState:
    """A run while it is read: what must be remembered of it is small, however long it is."""

    index: int
    place: int
    first_line: int
    last_line: int
    process: int | None = None
    process_of: str | None = None  # the format that says so
    config: dict[str, dict[Any, int]] = field(default_factory=dict)  # key -> value -> where it first stands
    printout: list[str] = field(default_factory=list)
    shapes: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # -> count, first line, sample
    formats: Counter[str] = field(default_factory=Counter)  # lines that each reads
    stepping: Counter[str] = field(default_factory=Counter)  # step lines that each reads
    votes: dict[str, KeyVotes] = field(default_factory=dict)
    used: dict[str, dict[Any, int]] = field(default_factory=dict)  # ranks given before the vote was complete
    closers: set[int] = field(default_factory=set)  # labels of the ranks that close steps
    printings: dict[int, StepRepeats] = field(default_factory=dict)  # by rank; -1 where it is not known
    series: dict[str, dict[int, list[Any]]] = field(default_factory=dict)  # figures of step lines, by name and rank

    def say(self, key: str, value: Any, place: int) -> None:
        """The log says that `key` is `value`; different values of one key are all kept, in the order of `place`."""
        known = self.config.setdefault(key, {})
        known[value] = min(known.get(value, place), place)

    def one(self, key: str) -> Any:
        """The value of a key that has one."""
        values = self.config.get(key, {})
        return next(iter(values)) if len(values) == 1 else None

    def _config(self) -> str:
        """JSON of all that was said, in the order of the log."""
        order = sorted(self.config, key=lambda key: min(self.config[key].values()))
        every = {key: sorted(self.config[key], key=self.config[key].__getitem__) for key in order}
        for values in every.values():  # JSON has no nan
            values[:] = [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
        return json.dumps({k: v[0] if len(v) == 1 else v for k, v in every.items()}, ensure_ascii=False)

    def label(self, template: str | None) -> str | None:
        """The run's printed name, if the log says all that the format's label asks for."""
        if template is None:
            return None
        names = re.findall(r"\{(\w+)\}", template)
        values = {n: self.one(n) for n in names}
        return template.format(**values) if all(v is not None for v in values.values()) else None

    @property
    def format(self) -> str | None:
        """The format of the run's step lines, which is what metrics are about; of several, or without step lines, the
        one that reads most; of equals the first by name.
        """
        counts = self.stepping or self.formats
        return min(counts, key=lambda n: (-counts[n], -self.formats[n], n), default=None)

    @property
    def started(self) -> int | None:
        """Which start of the processes made the run, if the run's own format says so."""
        return self.process if self.process_of == self.format else None

    def row(self, formats: Mapping[str, Format]) -> dict[str, Any]:
        """The run's row of table `runs`, without the columns that name the log."""
        name = self.format
        out: dict[str, Any] = {k: self.one(k) for k in self.config if k in _RUN_COLUMNS}
        for key, value in out.items():
            kind = _RUN_COLUMNS[key]
            fits = isinstance(value, int) if kind.startswith("int") else True
            out[key] = value if fits and kind.startswith("int") else None if value is None or not fits else str(value)
        return out | {
            "format": name,
            "index": self.index,
            "label": self.label(formats[name].label) if name else None,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "process": self.started,
            "config": self._config(),
            "printout": "\n".join(self.printout) or None,
        }


@dataclass
class _BoundaryLine:
    place: int
    what: str  # before, opens, closes; starts: `before` in a format without `opens`
    format: str
    process: bool


class RunTracker:
    """Finds where runs begin. State between chunks is that of the current run.

    A run begins at the first line; at a `before` or `opens` line after other lines of its format, or after a run was
    closed; at a second `opens` line; and at the first record after a `closes` line.
    """

    def __init__(self) -> None:
        self.early = RunState(1, 0, 0, 0)  # lines before the first record belong to the first run
        self.run: RunState | None = None
        self.count = 0
        self._closed = False
        self._bodies: set[str] = set()
        self._opened: set[str] = set()
        self._process = 0
        self._process_of: str | None = None
        self._starting = False  # a process start was seen and no other line since
        self._tentative: int | None = None

    def undecided(self, lines: list[tuple[Format, Line]], batch: Batch) -> bool:
        """Whether this chunk ends among lines that belong to this run or to the next: what follows tells."""
        trial = copy(self)
        trial._bodies, trial._opened = set(self._bodies), set(self._opened)
        trial.starts(lines, batch)
        return trial._tentative is not None

    def starts(self, lines: list[tuple[Format, Line]], batch: Batch) -> list[RunState]:
        """The runs that begin in this chunk, but for the first of the log."""
        openers = {form.name for form, line in lines if line.opens == "run"}
        events: list[_BoundaryLine] = []
        bodies: dict[str, list[Ints]] = {}
        for kind, records in batch.records.items():
            form, line = lines[kind]
            if not line.read:
                continue
            what = (
                "opens"
                if line.opens == "run"
                else "closes"
                if line.closes == "run"
                else "before"
                if line.before
                else ""
            )
            if what == "before" and form.name not in openers:
                what = "starts"
            if what:
                events += [_BoundaryLine(p, what, form.name, line.opens == "process") for p in records.places.tolist()]
            if not what:
                bodies.setdefault(form.name, []).append(records.places)
        events.sort(key=lambda e: e.place)
        places = np.array([e.place for e in events], np.int64)
        counts = {name: np.sum([np.searchsorted(at, places) for at in found], axis=0) for name, found in bodies.items()}
        total = {name: sum(len(at) for at in found) for name, found in bodies.items()}
        new: list[RunState] = []
        seen = dict.fromkeys(bodies, 0)
        for i, event in enumerate(events):
            self._body(seen, {n: int(c[i]) for n, c in counts.items()}, bodies, places[i - 1] if i else -1, new)
            self._event(event, new)
        self._body(seen, total, bodies, places[-1] if len(places) else -1, new)
        return new

    def _body(
        self, seen: dict[str, int], now: dict[str, int], bodies: dict[str, list[Ints]], since: int, new: list[RunState]
    ) -> None:
        """Records that are no event stand between the last event and this one."""
        names = [n for n, c in now.items() if c > seen[n]]
        if not names:
            return
        if self.run is None or self._closed:
            firsts = [at[np.searchsorted(at, since, "right") :][:1] for n in names for at in bodies[n]]
            self._begin(min(int(f[0]) for f in firsts if len(f)), new)
        self._bodies.update(names)
        seen.update(now)
        self._starting, self._tentative = False, None

    def _event(self, event: _BoundaryLine, new: list[RunState]) -> None:
        name = event.format
        fresh = self.run is None or (self._closed and event.what != "closes")
        if event.what == "closes":
            if self.run is None:
                self._begin(event.place, new)
            self._closed = True
            self._starting = False
            return
        if fresh or name in self._bodies or (event.what == "opens" and name in self._opened):
            self._begin(event.place, new)
        elif self._bodies and event.what in ("opens", "starts"):
            self._begin(self._tentative or event.place, new)
        elif self._bodies and self._tentative is None:
            self._tentative = event.place
        if event.what == "opens":
            self._opened.add(name)
        if event.process and not self._starting:
            self._process += 1
            self._process_of = name
            self._starting = True
        if self.run is not None:
            self.run.process, self.run.process_of = self._process or None, self._process_of

    def _begin(self, place: int, new: list[RunState]) -> None:
        self.count += 1
        line = place >> PART_BITS
        first = self.count == 1
        self.run = self.early if first else RunState(self.count, place, line, line)
        self.run.first_line = line
        self.run.process, self.run.process_of = self._process or None, self._process_of
        self._closed, self._tentative = False, None
        self._bodies, self._opened = set(), set()
        if not first:
            new.append(self.run)


def account(runs: list[RunState], lines: list[tuple[Format, Line]], batch: Batch) -> None:  # noqa: C901
    """Add the lines of a chunk to the account of their runs. `runs` are those the chunk touches, in order."""
    edges = np.array([r.place for r in runs[1:]], np.int64)
    fresh: list[list[Any]] = []
    for kind, at in batch.owner.items():
        if not len(at):
            continue
        form, line = (None, None) if kind == BLANK else lines[kind]
        read = line is not None and line.read
        key = "read" if read else "context", "" if line is None else line.template.text
        cuts = [0, *np.searchsorted(at, edges).tolist(), len(at)]
        for run, low, high in zip(runs, cuts, cuts[1:], strict=False):
            if high == low:
                continue
            _count(run, key, high - low, at.item(low), fresh)
            if form is not None:
                run.last_line = max(run.last_line, at.item(high - 1) >> PART_BITS)
                if line is not None and line.read:
                    run.formats[form.name] += high - low
                    if line.table == "steps":
                        run.stepping[form.name] += high - low
    if len(batch.unread):
        _unread(runs, edges, batch, fresh)
    if fresh:
        places = np.array([entry[1] for entry in fresh], np.int64)
        for entry, text in zip(fresh, batch.texts(places), strict=True):
            entry[1:] = entry[1] >> PART_BITS, text


def _unread(runs: list[RunState], edges: Ints, batch: Batch, fresh: list[list[Any]]) -> None:
    names, codes = unread_shapes(batch)
    cuts = [0, *np.searchsorted(batch.unread, edges).tolist(), len(batch.unread)]
    for run, low, high in zip(runs, cuts, cuts[1:], strict=False):
        found, first, counts = np.unique(codes[low:high], return_index=True, return_counts=True)
        for i in np.argsort(first).tolist():
            key = "unread", names[found[i]]
            if len(run.shapes) >= SHAPES and key not in run.shapes:
                key = "unread", OTHER_SHAPES
            _count(run, key, int(counts[i]), batch.unread.item(low + first[i]), fresh)


def _count(run: RunState, key: tuple[str, str], count: int, place: int, fresh: list[list[Any]]) -> None:
    """Count lines of a shape. A shape's first place joins `fresh`; it gives way to the line and its text."""
    entry = run.shapes.get(key)
    if entry is None:
        run.shapes[key] = [count, place, ""]
        fresh.append(run.shapes[key])
    else:
        entry[0] += count


def describe(run: RunState, line: Line, records: Records, low: int, high: int) -> None:
    """Add what records `low:high` of a line say about their run."""
    names = line.template.names if line.table == "runs" else line.run
    places = (records.places[low:high] << _ORDER_BITS).tolist()
    if line.prints_its_key:
        keys, values = (_list(records.columns[name][low:high]) for name in ("key", "value"))
        for key, value, place in zip(keys, values, places, strict=True):
            run.say(field_name(key), _value(value), place)
        names = tuple(n for n in names if n not in ("key", "value"))
    for order, name in enumerate(names):
        if name != "rank":
            for value, place in zip(_list(records.columns[name][low:high]), places, strict=True):
                run.say(name, value, place + order)
    if line.table == "runs":
        for name, value in line.set.items():
            run.say(name, value, places[0])


def _list(values: Any) -> list[Any]:
    found: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values.tolist()
    return found


def _value(given: Any) -> Any:
    """A value of a setting: a number, if its text is one."""
    if not isinstance(given, str):
        return given
    text = given.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
