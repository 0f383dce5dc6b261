"""Operators of the host in traces, and the joining of two recordings of one process.

PyTorch numbers each operator that it records. Its profiler writes when an operator ran, its execution trace what it was
called with, and both write the number. Where the process, the numbers and the names agree, they are the same calls:
then one recording fills in what the other one lacks. Several candidates that agree equally well prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Keys
from perflog.metrics.run_tables import Tables, cached, computed_once
from perflog.metrics.traces.call_tree import NO_CALL, CallTree, call_trees
from perflog.metrics.traces.device_work import has_times
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, Codes, Rows, rows_from_arrow

_COLUMNS = ("rank", "name", "shapes", "bytes", "record", "process")
_AGREE = 0.99  # least share of equal names among the calls with a number that both recordings have


class Operators(Struct, frozen=True, eq=False):
    """The operators of one file of a run. All arrays have an entry for each call.

    `times`, `own`: time of a call, and without the operators that it calls, in ns; NULL where it is not known. `name`
    and `shapes`: codes of strings, -1 for none. `other`: the run with the recording of the same process that fills in
    what this one lacks, or None.
    """

    run: str
    part: int
    rank: int | None
    lines: Ints
    times: Ints
    own: Ints
    name: Keys
    names: Sequence[str]
    shapes: Keys
    shape_texts: Sequence[str]
    bytes: Ints
    other: str | None


class _Recording(Struct, frozen=True, eq=False):
    """The operators of a file as they were recorded, and their own times where they have any."""

    run: str
    part: int
    rows: Rows
    own: Ints

    @property
    def is_timed(self) -> bool:
        return bool((self.own != NULL).any())


def operators_by_file(tables: Tables) -> list[Operators]:
    """Return the operators of each file of a trace that has any. What fills them in may be of a run beside these."""
    runs = frozenset(_runs(tables))
    # Only a recording without times fills another one in, or is filled in: other runs need not be read for these.
    needed = tables.whole if untimed_runs(tables.whole) else tables
    found = cached(tables.whole, ("operators of traces", frozenset(_runs(needed))), lambda: list(_operators(needed)))
    return [each for each in found if each.run in runs]


@computed_once
def untimed_runs(tables: Tables) -> frozenset[str]:
    """Return the runs with operators, all of them without times."""
    timed: dict[str, bool] = {}
    if tables.count("events"):
        for (run, _), events in tables.arrow_by_file("events", {"kind": one_of("cpu")}, "start_ns"):
            timed[run] = timed.get(run, False) or events["start_ns"].null_count < len(events)
    return frozenset(run for run, has_times in timed.items() if not has_times)


def companions(tables: Tables) -> dict[str, str]:
    """Return the runs that have no times and only fill in other runs, each with one that it fills in."""
    known = _runs(tables)
    untimed = untimed_runs(tables) if len(known) > 1 else frozenset[str]()
    if not untimed:
        return {}
    others = ((each.run, each.other) for each in operators_by_file(tables) if each.run in untimed)
    return {run: other for run, other in others if other in known}


def _runs(tables: Tables) -> set[str]:
    return set(tables.rows("runs")["run"].tolist())


def _operators(tables: Tables) -> Iterator[Operators]:
    recordings = list(_recordings(tables))
    for recording in recordings:
        partner = _partner(recording, recordings)
        yield _completed(recording, *partner) if partner else _completed(recording, None, None)


def _recordings(tables: Tables) -> Iterator[_Recording]:
    """Yield the operators of each file; in a timed file, in the order of its tree of calls."""
    timed = {(tree.run, tree.part): tree for tree in call_trees(tables, *_COLUMNS, "line", kinds=("cpu",))}
    for file, tree in timed.items():
        yield _Recording(*file, tree.rows, _own_times(tree))
    where: Where = {"kind": one_of("cpu")}
    for file, events in tables.arrow_by_file("events", where, *_COLUMNS, "start_ns", "duration_ns"):
        if file not in timed:
            rows = rows_from_arrow(events)
            rows = rows.where(~has_times(rows))
            if len(rows):
                yield _Recording(*file, rows, np.full(len(rows), NULL, np.int64))


def _own_times(tree: CallTree) -> Ints:
    """Return the time of each call without the calls inside it, in ns."""
    own: Ints = tree.rows["duration_ns"].copy()
    inner = np.flatnonzero(tree.parents != NO_CALL)
    np.subtract.at(own, tree.parents[inner], tree.rows["duration_ns"][inner])
    return np.maximum(own, 0)


def _partner(recording: _Recording, others: Sequence[_Recording]) -> tuple[_Recording, Ints] | None:
    """Return the recording of the other kind that agrees best, and the index in it of each call, or -1."""
    if not recording.rows.known("record").any():
        return None
    found: list[tuple[int, _Recording, Ints]] = []
    for other in others:
        if other.is_timed != recording.is_timed and _may_be_one(recording.rows, other.rows):
            partner_rows = _places(recording.rows, other.rows)
            if partner_rows is not None:
                found.append((int((partner_rows >= 0).sum()), other, partner_rows))
    found.sort(key=lambda candidate: -candidate[0])
    if not found or (len(found) > 1 and found[0][0] == found[1][0]):
        return None
    return found[0][1:]


def _may_be_one(rows: Rows, other: Rows) -> bool:
    """Whether both number their calls and their ranks do not differ: processes of two containers may share a number."""
    ranks = np.concatenate([each["rank"][each.known("rank")] for each in (rows, other)])
    return bool(other.known("record").any()) and len(np.unique(ranks)) <= 1


def _places(rows: Rows, other: Rows) -> Ints | None:
    """Return the index in `other` of each row with the same process and number; None if the names do not agree."""
    keys, other_keys = _keys(rows, other)
    order = np.argsort(other_keys, kind="stable")
    ordered = other_keys[order]
    match = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    common = (ordered[match] == keys) & (keys >= 0)
    if not common.any():
        return None
    (name, names), (other_name, other_names) = rows.codes("name"), other.codes("name")
    code_of = {text: code for code, text in enumerate(names)}
    translated = np.array([*(code_of.get(text, -2) for text in other_names), -2], np.int64)[other_name]
    agrees = common & (translated[order[match]] == name)
    if agrees.sum() < _AGREE * common.sum():
        return None
    return np.where(agrees, order[match], -1)


def _keys(rows: Rows, other: Rows) -> tuple[Ints, Ints]:
    """Return process and number of the rows of both as one number; -1 where one is not known."""
    codes: dict[str, int] = {}
    keys = []
    for each in (rows, other):
        process, words = each.codes("process")
        shared = np.array([*(codes.setdefault(word, len(codes)) for word in words), -1], np.int64)[process]
        number = each["record"]
        known = each.known("record") & (shared >= 0) & (number >= 0) & (number < 1 << 40)
        keys.append(np.where(known, shared << 40 | number, -1))
    return keys[0], keys[1]


def _completed(recording: _Recording, other: _Recording | None, partner_rows: Ints | None) -> Operators:
    """Return operators, completed from the other recording."""
    rows, own = recording.rows, recording.own
    times = rows["duration_ns"] if recording.is_timed else np.full(len(rows), NULL, np.int64)
    (name, names), (shapes, own_texts), sizes = rows.codes("name"), rows.codes("shapes"), rows["bytes"]
    texts: Sequence[str] = own_texts
    if other is not None and partner_rows is not None:
        there = np.flatnonzero(partner_rows >= 0)
        at = partner_rows[there]
        if other.is_timed:
            times, own = times.copy(), own.copy()
            times[there], own[there] = other.rows["duration_ns"][at], other.own[at]
        else:
            other_shapes, other_texts = other.rows.codes("shapes")
            shapes, texts = _filled(shapes, texts, there, other_shapes[at], other_texts)
            sizes = sizes.copy()
            sizes[there] = np.where(sizes[there] == NULL, other.rows["bytes"][at], sizes[there])
    ranks = rows["rank"]
    rank = int(ranks[0]) if len(ranks) and ranks[0] != NULL and (ranks == ranks[0]).all() else None
    return Operators(
        recording.run, recording.part, rank, rows["line"], times, own, name, names, shapes, texts, sizes,
        None if other is None else other.run,
    )  # fmt: skip


def _filled(
    codes: Codes, texts: Sequence[str], there: Ints, other_codes: Codes, other_texts: Sequence[str]
) -> tuple[Codes, Sequence[str]]:
    """Fill in missing strings."""
    words: Mapping[str, int] = {text: code for code, text in enumerate(texts)}
    joined = dict(words)
    translated = np.array([*(joined.setdefault(text, len(joined)) for text in other_texts), -1], np.int64)[other_codes]
    filled = codes.copy()
    filled[there] = np.where(filled[there] < 0, translated, filled[there])
    return filled, list(joined)
