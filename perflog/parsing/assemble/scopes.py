"""Scopes: what a line inherits from a line before it (`opens`) or behind it (`closes`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.formats.model import Line
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS, PART_MASK

Mask = npt.NDArray[np.bool_]
_REMEMBERED = 256  # openings: the last of each rank, however many ranks talk over one another


@dataclass
class Inheritance:
    """For each record of a kind: the index of the line it inherits from in `marks`, -1 if none."""

    marks: Markers
    index: Ints


@dataclass
class Markers:
    """Lines that open or close one scope, in log order, and what they say."""

    at: Ints
    fields: dict[str, list[Any]] = field(default_factory=dict)
    run: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    count: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # k-th opening in its run
    steps: Ints | None = None  # the field `step`, where it is all that is wanted

    def numbers(self, name: str) -> tuple[Ints, Mask]:
        """A field of the marks as integers, and where it is known."""
        if self.steps is not None and name == "step":
            return self.steps, np.ones(len(self.steps), np.bool_)
        values = self.fields.get(name, [None] * len(self.at))
        known = np.array([v is not None for v in values], np.bool_)
        return np.array([v or 0 for v in values], np.int64), known


def gather(kinds: Iterable[tuple[Line, Records]]) -> Markers:
    """The marks of one scope from the records of all the kinds that open (or close) it."""
    kinds = list(kinds)
    if not kinds:
        return Markers(np.empty(0, np.int64))
    at = np.concatenate([r.places for _, r in kinds])
    order = np.argsort(at, kind="stable")
    names = {n for line, r in kinds for n in (*r.columns, *line.set)}
    fields: dict[str, list[Any]] = {}
    for name in names:
        values: list[Any] = []
        for line, records in kinds:
            if name in records.columns:
                column = records.columns[name]
                values += column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
            else:
                values += [line.set.get(name)] * len(records)
        fields[name] = [values[i] for i in order.tolist()]
    return Markers(at[order], fields)


def closers(kinds: Sequence[tuple[Line, Records]]) -> Markers:
    """The lines that close a step, with its number: as `gather`, and quick where each prints it."""
    if not kinds or not all("step" in r.columns for _, r in kinds):
        return gather(kinds)
    at = np.concatenate([r.places for _, r in kinds])
    steps = np.concatenate([r.columns["step"] for _, r in kinds])
    if len(kinds) > 1:
        order = np.argsort(at, kind="stable")
        at, steps = at[order], steps[order]
    return Markers(at, steps=steps)


def before(at: Ints, marks: Ints) -> Ints:
    """For each place the index of the last mark at or before it, -1 if none. Both ascending."""
    bounds = np.searchsorted(at, marks, "left")
    steps = np.diff(np.concatenate([[0], bounds, [len(at)]]))
    return np.repeat(np.arange(-1, len(marks)), steps)


def behind(at: Ints, marks: Ints) -> Ints:
    """For each place the index of the first mark at or behind it, len(marks) if none. Both ascending."""
    bounds = np.searchsorted(at, marks, "right")
    steps = np.diff(np.concatenate([[0], bounds, [len(at)]]))
    return np.repeat(np.arange(len(marks) + 1), steps)


def opened(at: Ints, marks: Markers) -> Ints:
    """Index of the opening line of each record. Of several on one torn line the k-th holds for the k-th fragment;
    a line in one piece after a torn opening could be anybody's: -1.
    """
    index = before(at, marks.at)
    line = marks.at >> PART_BITS
    torn = np.zeros(len(line), np.bool_)
    if len(line) > 1:
        same = line[1:] == line[:-1]
        torn[1:] |= same
        torn[:-1] |= same
    doubtful = np.flatnonzero(torn[index] & (index >= 0)) if len(line) else np.empty(0, np.int64)
    if not len(doubtful):
        return index
    rows, counts = np.unique(at >> PART_BITS, return_counts=True)
    for k in doubtful.tolist():
        if marks.at[index[k]] == at[k]:
            continue
        here = line[index[k]]
        head = int(np.searchsorted(line, here, "left"))
        size = int(np.searchsorted(line, here, "right")) - head
        fragments = int(counts[np.searchsorted(rows, at[k] >> PART_BITS)])
        part = int(at[k] & PART_MASK)
        index[k] = head + part if fragments == size and part < size else -1
    return index


@dataclass
class OpenScopes:
    """The opening scopes of a format over several chunks: remembers the last openings of each."""

    scopes: Sequence[str]
    last: dict[str, Markers] = field(default_factory=dict)
    now: dict[str, Markers] = field(default_factory=dict)

    def update(self, found: Mapping[str, Markers], run_of: Any) -> dict[str, Markers]:
        """Marks of each scope in this stretch, the remembered one in front; counts openings within their run."""
        out = {}
        for scope in self.scopes:
            marks = found.get(scope, Markers(np.empty(0, np.int64)))
            marks.run = run_of(marks.at)
            old = self.last.get(scope)
            if old is not None and len(old.at):
                fields = {
                    n: old.fields.get(n, [None] * len(old.at)) + marks.fields.get(n, [None] * len(marks.at))
                    for n in {*old.fields, *marks.fields}
                }
                marks = Markers(
                    np.concatenate([old.at, marks.at]), fields, np.concatenate([old.run, marks.run]), old.count
                )
            carried = len(marks.count)
            counts = np.ones(len(marks.at), np.int64)
            counts[:carried] = marks.count
            for i in range(max(carried, 1), len(counts)):
                counts[i] = counts[i - 1] + 1 if marks.run[i] == marks.run[i - 1] else 1
            marks.count = counts
            out[scope] = marks
            if len(marks.at):
                keep = slice(-_REMEMBERED, None)
                fields = {n: v[keep] for n, v in marks.fields.items()}
                self.last[scope] = Markers(marks.at[keep], fields, marks.run[keep], counts[keep])
        self.now = out
        return out

    def inherit(self, at: Ints, run: Ints, marks: Mapping[str, Markers]) -> dict[str, Inheritance]:
        """What each record inherits from each scope: nothing from a scope older than the outer one, or another run."""
        out = {}
        limit = np.full(len(at), -1, np.int64)
        for scope in self.scopes:
            mine = marks[scope]
            if not len(mine.at):
                continue
            index = opened(at, mine)
            valid = index >= 0
            where = np.where(valid, mine.at[index], -1)
            valid &= (where >= limit) & (mine.run[index] == run)
            limit = np.maximum(limit, where)
            out[scope] = Inheritance(mine, np.where(valid, index, -1))
        return out
