"""Runs of a side that measure something else than the others: a readable file of another kind in the folder.

They are no repeats, and no configuration of their own: the runs that have the figures are the sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.compare.sides import LeftOut, Side
from perflog.metrics import Tables

_TABLES = ("steps", "layers", "phases", "events", "kernels", "collectives", "loads", "counters", "summaries")
"""Tables with measurements; a run measures what one of these holds, or its clock."""

_CLOCK = "elapsed_s"


def without_foreign(sides: Sequence[Side]) -> tuple[list[Side], list[LeftOut]]:
    """Return the sides without runs that measure something else, and these.

    What is compared is what most runs of all sides measure, if each side has a run that does. A run of another format
    that does not is foreign; a run of the same format may have failed.
    """
    formats = {run: name for side in sides for run, name in side.tables.rows("runs").records("run", "format")}
    if len(set(formats.values())) < 2:
        return list(sides), []
    by_side = [dict(_measured(side.tables)) for side in sides]
    kinds = [kind for kind in (*_TABLES, _CLOCK) if all(any(kind in of for of in runs.values()) for runs in by_side)]
    if not kinds:
        return list(sides), []
    runs = dict(item for side_labels in by_side for item in side_labels.items())
    leading = max(kinds, key=lambda kind: sum(kind in of for of in runs.values()))
    with_it = {formats[run] for run, of in runs.items() if leading in of}
    foreign = {run for run, of in runs.items() if leading not in of and formats[run] not in with_it}
    if not foreign:
        return list(sides), []
    labels = [side.labels for side in sides]
    left_out = [
        LeftOut(side.name, run, side_labels[run], "measures something else")
        for side, side_labels in zip(sides, labels, strict=True)
        for run in side_labels
        if run in foreign
    ]
    return [side.without(foreign) for side in sides], left_out


def _measured(tables: Tables) -> Iterator[tuple[str, set[str]]]:
    """Yield each run and what it measures."""
    counts = {name: tables.counts(name) for name in _TABLES}
    runs = tables.rows("runs")
    timed = set(runs.where(runs.known(_CLOCK))["run"].tolist())
    for run in runs["run"].tolist():
        yield run, {name for name in _TABLES if counts[name].get(run)} | ({_CLOCK} if run in timed else set())
