"""Base rows: which row of an overview each row is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.analysis.overview.run_groups import RunGroup
from perflog.analysis.repeats import ROUND
from perflog.formats.registry import known
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Options, Tables, sweep

_SETTING = lazy_pattern(r"([A-Za-z]\w*)=(\S+)")
_TOGETHER = 0.5  # of the longer run


def base_rows(tables: Tables, groups: Sequence[RunGroup], options: Options) -> dict[int, int]:
    """Return the row that each row is compared with, by index: the base of its sweep, else the first row.

    Rows that differ in several settings have no base: a change would be due to all these settings. Titles may be
    settings: `shape=llama3_8b B=1 S=2048`.
    """
    places = {run: i for i, group in enumerate(groups) for run in group.runs}
    if any(ROUND in group.settings for group in groups):  # of each round the first row
        first: dict[str, int] = {}
        for i, group in enumerate(groups):
            first.setdefault(group.settings[ROUND], i)
        return {i: base for i, group in enumerate(groups) if (base := first[group.settings[ROUND]]) != i}
    rows = sweep.table(tables, options)
    if len(rows) and all(len(group.runs) == 1 for group in groups):
        pairs = {
            places[run]: places[base]
            for run, base in zip(rows["run"], rows["base_run"], strict=True)
            if isinstance(base, str)
        }
        return {place: base for place, base in pairs.items() if place != base}
    if len(groups) < 2 or len(groups[0].settings) > 1:  # several factors
        return {}
    names, spans = _names_of_unknown_programs(tables), _spans_of_steps(tables)
    base_names = names.get(groups[0].runs[0])
    others = (names.get(group.runs[0]) for group in groups[1:])
    in_titles = [dict(_SETTING.findall(group.name)) for group in groups]
    return {
        i: 0
        for i, own in enumerate(others, 1)
        if not (base_names and own and base_names.isdisjoint(own))
        and not _ran_together(spans.get(groups[0].runs[0]), spans.get(groups[i].runs[0]))
        and len(in_titles[0].items() - in_titles[i].items()) <= 1
    }


_Span = tuple[str, str, int, int]  # format, clock, and the times of the first and the last step


def _spans_of_steps(tables: Tables) -> dict[str, _Span]:
    """Return when each run with a clock made its steps."""
    formats = dict(tables.rows("runs").where(tables.rows("runs").known("format")).records("run", "format"))
    found: dict[str, _Span] = {}
    for run, rows in tables.rows_by_run("steps").items() if len(set(formats.values())) > 1 else ():
        timed = rows.where(rows.known("printed_ns", "clock"))
        clocks = list(timed.counts("clock"))
        if len(clocks) == 1 and run in formats:
            times = timed["printed_ns"]
            found[run] = formats[run], clocks[0], int(times.min()), int(times.max())
    return found


def _ran_together(one: _Span | None, other: _Span | None) -> bool:
    """Whether two programs ran at the same time, as the trainer and the orchestrator of a job: neither is faster."""
    if one is None or other is None or one[0] == other[0] or one[1] != other[1]:
        return False
    common = min(one[3], other[3]) - max(one[2], other[2])
    return common > _TOGETHER * max(one[3] - one[2], other[3] - other[2])


def _names_of_unknown_programs(tables: Tables) -> dict[str, set[str]]:
    """Return the names of the values and phases of the runs that only generic formats read, by run.

    Two such runs without a name in common are of two programs, such as a trainer and its evaluation.
    """
    formats = {run: known().get(name) for run, name in tables.rows("runs").records("run", "format")}
    found: dict[str, set[str]] = {run: set() for run, form in formats.items() if form is not None and form.generic}
    for table, column in (("values", "key"), ("phases", "phase")):
        for run, rows in tables.rows_by_run(table).items():
            if run in found:
                found[run].update(rows.counts(column))
    return found
