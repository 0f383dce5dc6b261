"""Scopes: fields that a record inherits from the line that opened its scope, or from the line that closes its step.

In: the records of lines with `opens` or `closes`. Out: `Markers` (those lines in log order with their fields), and for
each record of another line the marker it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from perflog.arrays import Ints, Mask
from perflog.formats.model import Line
from perflog.parsing.assemble.column_values import computed
from perflog.parsing.match.records import Records
from perflog.tables.arrow import coded_words, word_array
from perflog.tables.row_order import PART_BITS, PART_MASK

_REMEMBERED = 256  # markers kept of a scope: the last of each rank, however many ranks write at once


def closes_step(line: Line) -> bool:
    """Return whether a line closes a step (or another scope), not a run."""
    return line.closes not in (None, "run")


def _no_numbers() -> Ints:
    return np.empty(0, np.int64)


class Markers(Struct):
    """The lines that open or close one scope, in log order, with their fields."""

    positions: Ints = field(default_factory=_no_numbers)
    fields: dict[str, list[Any]] = field(default_factory=dict)
    runs: Ints = field(default_factory=_no_numbers)  # number of the run of each
    counts: Ints = field(default_factory=_no_numbers)  # k-th opening in its run, from 1
    steps: Ints | None = None  # the field `step`, where no other field is needed
    _words: dict[str, tuple[Ints, pa.Array]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions)

    def numbers(self, name: str) -> tuple[Ints, Mask]:
        """Return a field as integers, and where it is known."""
        if self.steps is not None and name == "step":
            return self.steps, np.ones(len(self.steps), np.bool_)
        values = self.fields.get(name, [None] * len(self))
        known = np.array([v is not None for v in values], np.bool_)
        return np.array([v or 0 for v in values], np.int64), known

    def words(self, name: str, index: Ints) -> pa.Array:
        """Return a field of the markers at `index` as strings, the count of the opening if no marker has the field.

        -1 is null. The records of many lines ask for the same field.
        """
        if name not in self._words:
            values = self.fields.get(name) or self.counts.tolist()
            codes, words = coded_words(None if value is None else str(value) for value in values)
            self._words[name] = np.append(codes, -1), words
        codes, words = self._words[name]
        return word_array(codes[index], words)

    def last(self, count: int) -> Markers:
        """Return the last markers, `count` at most."""
        keep = slice(-count, None)
        fields = {name: values[keep] for name, values in self.fields.items()}
        return Markers(self.positions[keep], fields, self.runs[keep], self.counts[keep])


def markers_of(kinds: Iterable[tuple[Line, Records]]) -> Markers:
    """Return the markers of one scope, from the records of all lines that open (or close) it."""
    kinds = list(kinds)
    if not kinds:
        return Markers()
    positions = np.concatenate([records.positions for _, records in kinds])
    order = None if bool((positions[1:] >= positions[:-1]).all()) else np.argsort(positions, kind="stable")
    names = {name for line, records in kinds for name in (*records.columns, *line.set, *line.compute)}
    fields: dict[str, list[Any]] = {}
    for name in names:
        values = list(chain.from_iterable(_values(name, line, records) for line, records in kinds))
        fields[name] = values if order is None else [values[i] for i in order.tolist()]
    return Markers(positions if order is None else positions[order], fields)


def _values(name: str, line: Line, records: Records) -> list[Any]:
    """Return a field of the records of a line: printed, computed or constant; None where the line does not have it."""
    if name in records.columns:
        column = records.columns[name]
        return list(column.to_pylist() if isinstance(column, pa.Array) else column.tolist())
    if name in line.compute:
        return list(computed(line, name, records.columns, len(records)).tolist())
    return [line.set.get(name)] * len(records)


def closing_markers(kinds: Sequence[tuple[Line, Records]]) -> Markers:
    """Return the lines that close steps: as `markers_of`, and fast where each of them prints the step."""
    if not kinds or not all("step" in records.columns for _, records in kinds):
        return markers_of(kinds)
    positions = np.concatenate([records.positions for _, records in kinds])
    steps = np.concatenate([records.columns["step"] for _, records in kinds])
    if len(kinds) > 1:
        order = np.argsort(positions, kind="stable")
        positions, steps = positions[order], steps[order]
    return Markers(positions, steps=steps)


def last_marker(positions: Ints, markers: Ints) -> Ints:
    """Return for each position the index of the last marker at it or before it, -1 if none. Both are ascending."""
    bounds = np.searchsorted(positions, markers, "left")
    counts = np.diff(np.concatenate([[0], bounds, [len(positions)]]))
    return np.repeat(np.arange(-1, len(markers)), counts)


def next_marker(positions: Ints, markers: Ints) -> Ints:
    """Return for each position the index of the first marker at or after it, len(markers) if none. Both ascending."""
    bounds = np.searchsorted(positions, markers, "right")
    counts = np.diff(np.concatenate([[0], bounds, [len(positions)]]))
    return np.repeat(np.arange(len(markers) + 1), counts)


def opening_marker(positions: Ints, markers: Markers) -> Ints:
    """Return the index of the opening line of each record, -1 if none.

    Where several ranks wrote to one line, it holds several opening lines: the k-th opens the scope of the k-th record
    on the lines that are joined in the same way. A record on a separate line after such a line could
    belong to any of the ranks: -1.
    """
    index = last_marker(positions, markers.positions)
    lines = markers.positions >> PART_BITS
    shared = np.zeros(len(lines), np.bool_)  # markers that share their line with another
    if len(lines) > 1:
        same = lines[1:] == lines[:-1]
        shared[1:] |= same
        shared[:-1] |= same
    doubtful = np.flatnonzero(shared[index] & (index >= 0)) if len(lines) else _no_numbers()
    if not len(doubtful):
        return index
    record_lines, counts = np.unique(positions >> PART_BITS, return_counts=True)
    for k in doubtful.tolist():
        if markers.positions[index[k]] == positions[k]:
            continue
        line = lines[index[k]]
        first = int(np.searchsorted(lines, line, "left"))
        openings = int(np.searchsorted(lines, line, "right")) - first
        records = int(counts[np.searchsorted(record_lines, positions[k] >> PART_BITS)])
        part = int(positions[k] & PART_MASK)
        is_joined_alike = records == openings and part < openings
        opening = first + part
        index[k] = opening if is_joined_alike and markers.positions[opening] < positions[k] else -1
    return index


def _counts_in_runs(runs: Ints, counted: Ints) -> Ints:
    """Return which opening of its run each marker is, from 1. The first ones are counted already."""
    index = np.arange(len(runs))
    begins = np.where(np.append(True, runs[1:] != runs[:-1])[: len(runs)], index, 0)
    begins = np.maximum.accumulate(begins)
    counts = index - begins + 1
    if known := len(counted):
        counts[(index >= known) & (begins < known)] += counted[-1] - counts[known - 1]  # their run goes on
        counts[:known] = counted
    return counts


class Inheritance(Struct):
    """The opening line of each record of a kind, as an index into `markers`; -1 if none."""

    markers: Markers
    index: Ints


def closing_line(positions: Ints, runs: Ints, markers: Markers, opened: Markers) -> Inheritance:
    """Return the line that closes the scope of each record of a kind.

    A scope that lines open holds the records between both. Without them, of several records before one closing line
    only the last belongs to it: the closing lines of the others were not read.
    """
    index = next_marker(positions, markers.positions)
    known = np.append(markers.runs, -1)[index] == runs
    if len(opened):
        ends = np.append(markers.positions, -1)
        begins, last = (np.searchsorted(opened.positions, at, "right") - 1 for at in (positions, ends[index]))
        known &= (begins >= 0) & (begins == last)
    else:
        known &= np.append(index[1:] != index[:-1], True)[: len(index)]
    return Inheritance(markers, np.where(known, index, -1))


class OpenScopes(Struct):
    """The scopes of a format, the outermost first. Remembers the last opening lines of each."""

    names: Sequence[str]
    markers: dict[str, Markers] = field(default_factory=dict)  # by scope: those at hand, remembered ones before them
    _remembered: dict[str, Markers] = field(default_factory=dict)

    def update(self, opened: Mapping[str, Markers]) -> None:
        """Take the opening lines of a stretch of the log, by scope, with their runs. Count them within their run."""
        for scope in self.names:
            markers = opened[scope]
            if len(before := self._remembered.get(scope, Markers())):
                fields = {
                    name: before.fields.get(name, [None] * len(before))
                    + markers.fields.get(name, [None] * len(markers))
                    for name in {*before.fields, *markers.fields}
                }
                positions = np.concatenate([before.positions, markers.positions])
                markers = Markers(positions, fields, np.concatenate([before.runs, markers.runs]))
            markers.counts = _counts_in_runs(markers.runs, before.counts)
            self.markers[scope] = markers
            if len(markers):
                self._remembered[scope] = markers.last(_REMEMBERED)

    def inherit(self, positions: Ints, runs: Ints) -> dict[str, Inheritance]:
        """Return what records inherit from each scope, by the positions of the records and the numbers of their runs.

        A record inherits nothing from another run, and nothing from a scope that was opened before the scope around it.
        """
        inherited = {}
        outer = np.full(len(positions), -1, np.int64)  # position where the scope around the scope was opened
        for scope in self.names:
            markers = self.markers[scope]
            if not len(markers):
                continue
            index = opening_marker(positions, markers)
            valid = index >= 0
            opened_at = np.where(valid, markers.positions[index], -1)
            valid &= (opened_at >= outer) & (markers.runs[index] == runs)
            outer = np.maximum(outer, opened_at)
            inherited[scope] = Inheritance(markers, np.where(valid, index, -1))
        return inherited
