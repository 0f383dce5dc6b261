"""Sheets that `perflog compare` prints.

The verdicts and their reasons come from `perflog.analysis.compare.verdicts`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare import Comparison, GateFailure
from perflog.analysis.compare.comparison import SUMMARY_KINDS
from perflog.analysis.compare.explanations.attribution import part_name
from perflog.analysis.compare.explanations.averages import AverageRow, window_of
from perflog.analysis.compare.explanations.operators import kernels_of_both, time_basis
from perflog.analysis.compare.figures import TOTAL
from perflog.analysis.compare.findings import FindingRow
from perflog.analysis.compare.rows import COLUMNS, FigureRow
from perflog.analysis.compare.verdicts import NOT_COMPARABLE
from perflog.analysis.lint import SEVERITIES
from perflog.analysis.run_names import letters
from perflog.grouping import grouped
from perflog.metrics.compared import ALL
from perflog.metrics.profiles.kernel_names import short_kernels
from perflog.output import terminal
from perflog.output.presenters.compare_notes import (
    counts,
    figure_name,
    notes_on_verdict,
    signed_time,
    what_the_warmup_costs,
)
from perflog.output.presenters.run_marks import LONG
from perflog.output.sheets import Sheet, SheetColumn, cell, pairs, sheet
from perflog.output.terminal import columns_of, cut
from perflog.tables.nulls import none_if_null
from perflog.units import count, show, show_change

_LEAST_SHARE = 0.02  # of the whole: the screen leaves smaller parts out
_NARROW = 100  # columns: a smaller terminal has no room for scatter beside values, nor for `exploratory` in each row
_ROUNDED = 1e-9  # smaller arms come from sums of equal figures
_ALIKE = 2  # findings of one code that are shown one by one
_LISTED = 3  # averages of the runs of a side that are shown one by one
_CASE = 25  # characters of a configuration on a small terminal
_SHAPES = 44  # characters of the shapes of an operator
_PATHS, _LONGEST_PATH = ("range", "operator"), 60  # kinds of measures with paths as names, and their characters
_MARK = {True: "*", False: ""}

_Row = TypeVar("_Row", bound=Struct)


def comparison(compared: Comparison, format: str, everything: bool = False) -> Iterator[Sheet]:
    """Yield the sheets of a comparison. CSV holds the rows alone; Markdown leaves out minor rows."""
    if format == "csv":
        names = [c.name for c in COLUMNS]
        rows = [tuple(none_if_null(getattr(row, n)) for n in names) for row in compared.row_records]
        yield Sheet("comparison", tuple(SheetColumn(n) for n in names), rows)
        return
    compared = _with_short_kernels(compared)
    if format == "text":
        compared = _with_short_paths(compared)
    if format == "text" and terminal.width() and max(map(len, compared.sides)) > LONG:
        letter_of = {side: letters(i) for i, side in enumerate(compared.sides)}
        yield pairs("sides", [(letter, side) for side, letter in letter_of.items()])
        compared = _with_letters(compared, letter_of)
    yield from _sheets(compared, format, everything)


def _with_short_kernels(compared: Comparison) -> Comparison:
    """The comparison with short names of kernels: those with all arguments can have thousands of characters."""
    kernels = (r.metric for r in compared.row_records if r.kind == "kernel")
    parts = (part.part for part in compared.attribution_records if part.kind == "kernel")
    short = short_kernels([*kernels, *parts])
    return replace(
        compared,
        row_records=tuple(replace(r, metric=short.get(r.metric, r.metric)) for r in compared.row_records),
        attribution_records=tuple(replace(p, part=short.get(p.part, p.part)) for p in compared.attribution_records),
    )


def _with_short_paths(compared: Comparison) -> Comparison:
    """The comparison with start and end of long paths of ranges and operators, numbered where they are alike."""
    short: dict[tuple[str, str], str] = {}
    taken: Counter[str] = Counter()
    for row in compared.row_records:
        kind, name = row.kind, row.metric
        if kind in _PATHS and (kind, name) not in short:
            text = cut(name, _LONGEST_PATH)
            taken[text] += 1
            short[kind, name] = f"{text} #{taken[text]}" if taken[text] > 1 else text
    records = (replace(r, metric=short.get((r.kind, r.metric), r.metric)) for r in compared.row_records)
    return replace(compared, row_records=tuple(records))


def _with_letters(compared: Comparison, letter_of: Mapping[str, str]) -> Comparison:
    """The comparison with letters for the names of its sides."""

    def renamed(rows: Iterable[_Row]) -> tuple[_Row, ...]:
        return tuple(map(renamed_row, rows))

    def renamed_row(row: _Row) -> _Row:
        sides = {name: getattr(row, name) for name in ("base", "side") if hasattr(row, name)}
        names = {name: letter_of[side] for name, side in sides.items() if side in letter_of}
        return replace(row, **names)

    settings = (
        replace(row, values={letter_of[side]: value for side, value in row.values.items()})
        for row in compared.setting_records
    )
    return replace(
        compared,
        sides=tuple(letter_of.values()),
        row_records=renamed(compared.row_records),
        setting_records=tuple(settings),
        varied_records=renamed(compared.varied_records),
        attribution_records=renamed(compared.attribution_records),
        summary_records=renamed(compared.summary_records),
        warmup_records=renamed(compared.warmup_records),
        speed_records=renamed(compared.speed_records),
        finding_records=renamed(compared.finding_records),
        find_causes=lambda: renamed(compared.causes),
        other_settings=renamed(compared.other_settings),
    )


def _sheets(compared: Comparison, format: str, everything: bool) -> Iterator[Sheet]:
    yield _rows(compared, everything)
    if means := compared.geomeans():
        cells = [(m.metric, m.statistic, m.side, m.cases, show_change(m.change)) for m in means]
        yield sheet("geomeans", "metric figure side cases# change#", cells, "geometric mean of the changes")
    yield _settings(compared)
    if compared.summary_records:
        yield _averages(compared)
    yield from _attribution(compared, everything)
    yield from _operators(compared, everything)
    if everything and compared.causes:
        yield _causes(compared)
    if compared.finding_records:
        yield _findings(compared, format, everything)


def _causes(compared: Comparison) -> Sheet:
    """What takes the time of both sides: first what differs most."""
    cells = [
        (each.case or "-", each.side, each.cause.of, each.cause.words, _seconds(each.base_s), _seconds(each.side_s),
         "-" if each.difference_s is None else signed_time(each.difference_s))
        for each in compared.causes
    ]  # fmt: skip
    return sheet("causes", "case side of cause base# value# difference#", cells, "causes on both sides")


def _seconds(time: float | None) -> str:
    return "-" if time is None else show(time, "s")


def _rows(compared: Comparison, everything: bool) -> Sheet:
    several, pair, headlines = len(compared.cases) > 1, len(compared.sides) == 2, compared.headlines
    shown = [r for r in compared.row_records if everything or r.kind in SUMMARY_KINDS or r in headlines]
    names = ["case"] * several + ["metric"] + ([] if pair else ["side"])
    tested = any(_p(row) is not None for row in shown)
    narrow = (terminal.width() or _NARROW) < _NARROW
    exploratory = narrow and _only_exploratory(shown)
    columns = [
        *map(SheetColumn, names),
        SheetColumn(compared.sides[0], number=True, role="" if pair else "detail"),
        SheetColumn(compared.sides[1] if pair else "value", number=True),
        SheetColumn("change", number=True, role="verdict"),
        SheetColumn("interval", number=True),
        *[SheetColumn("p", number=True)] * tested,
        SheetColumn("n", number=True, role="detail"),
        SheetColumn("exploratory" if exploratory else "verdict", role="verdict"),
    ]
    rows = []
    for row in shown:
        place = {
            "case": case_name(row.case, _CASE) if narrow else row.case,
            "metric": figure_name(row),
            "side": row.side,
        }
        cells = [place[name] for name in names]
        cells += [
            _value(row, "base", narrow),
            _value(row, "side", narrow),
            show_change(row.change),
            row.interval_in_words,
        ]
        verdict = row.decision if exploratory else row.verdict
        rows.append([*cells, *([_p(row)] if tested else []), counts(row), verdict])
    return Sheet("comparison", tuple(columns), rows, _title(compared), "\n".join(_notes(compared, shown)))


def _only_exploratory(rows: Sequence[FigureRow]) -> bool:
    """Whether all verdicts that decide something are exploratory, as with one run a side."""
    decided = [row for row in rows if row.verdict not in ("inconclusive", NOT_COMPARABLE)]
    return bool(decided) and all(row.verdict != row.decision for row in decided)


def case_name(name: str, width: int) -> str:
    """Return the name of a configuration, with the names of its settings shortened alike if it is too long."""
    text = cell(name)
    if columns_of(text) <= width:
        return text
    settings = [part.rpartition("=") for part in text.split(", ")]
    room = max(width // len(settings) - 2, 1)
    return cut(", ".join(f"{cut(key, max(room - len(value) - 1, 4))}={value}" for key, _, value in settings), width)


def _p(row: FigureRow) -> float | None:
    """The adjusted p of runs. Within single runs p says nothing about other runs, so it is not shown."""
    p: float | None = none_if_null(row.p_holm)
    return p if row.scope != "steps" else None


def _title(compared: Comparison) -> str:
    return f"{', '.join(compared.sides[1:])} against {compared.sides[0]}: {compared.conclusion}"


def _notes(compared: Comparison, shown: Sequence[FigureRow]) -> Iterator[str]:
    for row in compared.headlines:
        if not row.has_error and row.statistic == TOTAL:
            continue  # of one run a side: the median and the mean have verdicts
        place = " ".join(x for x in (row.case, row.side if len(compared.sides) > 2 else "") if x)
        advice = f"; {row.advice}" if row.advice and row.scope != "steps" else ""
        yield f"{place}{': ' * bool(place)}{figure_name(row)} {row.verdict}: {row.reason}{advice}"
    yield from notes_on_verdict(compared)
    if any(finding.side is None and finding.severity != "note" for finding in compared.finding_records):
        yield "the sides may not be comparable: see the findings below"
    cuts = zip(compared.cases, compared.warmup, strict=True)
    cuts_text = ", ".join(f"{cut} in {case.name}" if case.name else f"{cut}" for case, cut in cuts)
    if any(" / " in counts(row) for row in shown):
        side = compared.sides[1] if compared.is_pair else "the side"
        yield f"n: two numbers are of {compared.sides[0]} / of {side}"
    yield f"change = side / {compared.sides[0]} - 1; warm-up steps cut on all sides: {cuts_text}"
    yield from what_the_warmup_costs(compared)
    if any(row.paired for row in compared.row_records):
        yield "step lengths follow the same schedule in both runs: they are compared step by step"
    if any(row.derived for row in compared.row_records):
        yield "* computed from another metric: no further evidence"
    if any(row.kind == "kernel" and row.metric != ALL for row in shown):
        yield "names of kernels are short, long paths too: --format csv or json has the whole ones"
    if left := len(compared.row_records) - len(shown):
        yield f"{count(left, 'more row')} of phases, layers, ranges, operators, kernels and so on: --all shows them"


def _value(row: FigureRow, side: str, alone: bool = False) -> str:
    """The value of a side and the longer arm of its interval in percent, as benchstat shows it."""
    base = row.base_value, row.base_low, row.base_high
    value, low, high = base if side == "base" else (row.side_value, row.side_low, row.side_high)
    text = cell(value, row.unit)
    if none_if_null(low) is None or not value or alone:
        return text
    arm = max(high - value, value - low) / value
    return f"{text} ± {show(arm if arm > _ROUNDED else 0.0, '1', 2)}"


def _settings(compared: Comparison) -> Sheet:
    several = len(compared.cases) > 1
    names = ["case"] * several + ["setting", *compared.sides]
    rows = [[row.record[n] for n in names] for row in compared.setting_records]
    notes = [] if rows else ["none in the logs"]
    notes += [f"inside {place}: {', '.join(settings)}" for place, settings in _varied(compared).items()]
    columns = tuple(map(SheetColumn, names))
    return Sheet("settings", columns, rows, "settings that differ", "\n".join(notes))


def _varied(compared: Comparison) -> dict[str, list[str]]:
    """The settings that vary between the repeats of a side, with the number of their values."""
    by_place: dict[str, list[str]] = {}
    for row in compared.varied_records:
        place = f"{row.side} ({row.case})" if row.case else row.side
        by_place.setdefault(place, []).append(f"{row.setting} ({len(row.values)} values)")
    return by_place


def _averages(compared: Comparison) -> Sheet:
    """Printed averages, and the mean of the same steps on the other sides."""
    several = len(compared.cases) > 1
    averages = compared.summary_records
    rows = []
    for key in dict.fromkeys((r.case, r.figure, *window_of(r)) for r in averages):
        same = [r for r in averages if (r.case, r.figure, *window_of(r)) == key]
        by_side = ([r for r in same if r.side == side] for side in compared.sides)
        cells = [", ".join(_average_texts(side_rows)) or "-" for side_rows in by_side]
        window = "unknown" if key[2] is None else f"{key[2]}..{key[3]}"
        rows.append([*[key[0]] * several, key[1], window, *cells])
    names = ["case"] * several + ["figure", "steps"]
    columns = (*map(SheetColumn, names), *(SheetColumn(side, number=True) for side in compared.sides))
    return Sheet("summaries", columns, rows, "printed averages, and the means of the same steps", "* as printed")


def _average_texts(averages: Sequence[AverageRow]) -> Iterator[str]:
    """Yield the averages of the runs of a side; of many runs the smallest and the largest."""
    if len(averages) <= _LISTED:
        yield from (cell(row.value, row.unit or "") + _MARK[row.printed] for row in averages)
        return
    for printed, mark in _MARK.items():
        values = [row.value for row in averages if row.printed == printed and row.value is not None]
        if values:
            ends = (cell(end(values), averages[0].unit or "") for end in (min, max))
            yield f"{' .. '.join(ends)}{mark} ({len(values)} runs)"


def _attribution(compared: Comparison, everything: bool) -> Iterator[Sheet]:
    parts = [part for part in compared.attribution_records if part.share is not None]
    if not everything:
        parts = [part for part in parts if part.depth == 0 or abs(part.share or 0.0) >= _LEAST_SHARE]
    for case in compared.cases:
        for side in compared.sides[1:]:
            side_rows = [part for part in parts if (part.case, part.side) == (case.name, side)]
            if len(side_rows) < 2:
                continue
            columns = [SheetColumn(n, "s", True) for n in (compared.sides[0], side, "difference")]
            rows = [
                ["  " * part.depth + part_name(part), part.base_s, part.side_s, part.difference_s,
                 show(part.share, "1", 3)]
                for part in side_rows
            ]  # fmt: skip
            name = f" ({case.name})" if case.name else ""
            title = f"where the difference went: {side}{name}"
            yield Sheet("attribution", (SheetColumn("part"), *columns, SheetColumn("share", number=True)), rows, title)


def _operators(compared: Comparison, everything: bool) -> Iterator[Sheet]:
    """Operators of traces on both sides as a tree: those that move a noticeable part of the GPU time."""
    for case in compared.cases:
        for side in compared.sides[1:]:
            rows = [row for row in compared.operator_records if (row.case, row.side) == (case.name, side)]
            if not rows:
                continue
            least = _LEAST_SHARE * max(abs(rows[0].difference_s), _LEAST_SHARE * rows[0].base_s)
            if not everything:
                rows = [row for row in rows if row.depth == 0 or abs(row.difference_s) >= least]
            columns = [SheetColumn(n, "s", True) for n in (compared.sides[0], side, "difference")]
            calls = [SheetColumn(f"calls {n}", number=True, role="detail") for n in (compared.sides[0], side)]
            cells = [
                ["  " * row.depth + row.operator, cut(row.shapes or "-", _SHAPES),
                 row.base_s, row.side_s, row.difference_s, row.base_calls, row.side_calls,
                 kernels_of_both(row)]
                for row in rows
            ]  # fmt: skip
            name = f" ({case.name})" if case.name else ""
            titles = (SheetColumn("operator"), SheetColumn("shapes"), *columns, *calls, SheetColumn("kernels"))
            yield Sheet("operators", titles, cells, f"GPU time by operator, {time_basis(rows[0])}: {side}{name}")


def _findings(compared: Comparison, format: str, everything: bool) -> Sheet:
    """Findings; the same finding on several sides is shown once. In text, long messages wrap rather than be cut."""
    records = compared.finding_records
    shown = [f for f in records if everything or f.side is None or f.severity != "note"]
    left = len(records) - len(shown)
    note = f"{count(left, 'more note')} on single runs: --all shows them" if left else ""
    rows = list(_grouped(shown, everything))
    if format == "md":
        return sheet("findings", "severity finding about message", rows, "findings", note)
    sentences = [
        (f"{severity} {code}{f' ({about})' if about else ''}: {message}",) for severity, code, about, message in rows
    ]
    return Sheet("findings", (SheetColumn("text"),), sentences, "findings", note, prose=True)


def _grouped(findings: Sequence[FindingRow], everything: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield severity, code, position and message of findings: the same one of several sides or runs once."""
    alike = grouped(((finding.severity, finding.code, finding.case), finding) for finding in findings)
    for (severity, code, case), members in sorted(alike.items(), key=lambda item: SEVERITIES.index(item[0][0])):
        sides: dict[str, list[str]] = {}
        for finding in members:
            sides.setdefault(finding.message, []).extend([finding.side] if finding.side else [])
        few = len(sides) <= _ALIKE or everything
        for message, names in list(sides.items())[: None if few else 1]:
            about = ", ".join(dict.fromkeys(names if few else chain(*sides.values())))
            more = "" if few else f" (and {len(sides) - 1} more like it: --all shows them)"
            yield severity, code, ": ".join(filter(None, [case, about])), f"{message}{more}"


def sentence(row: FigureRow) -> str:
    """Return a row in words, with its values."""
    case = f" ({row.case})" if row.case else ""
    change = f"{_value(row, 'base')} -> {_value(row, 'side')}, {show_change(row.change)} [{row.interval_in_words}]"
    return f"{row.side}{case}: {figure_name(row)}: {row.verdict}: {change}"


def gate_failure(failure: GateFailure) -> str:
    """Return in words why a gate fails."""
    if failure.row is None:
        return f"cannot judge: {failure.message}"
    words = {"change": "", "inconclusive": "inconclusive: ", "cannot judge": "cannot judge: "}[failure.kind]
    return f"{words}{sentence(failure.row)}: {failure.message}"


def document(data: object) -> str:
    """Return data as a JSON string."""
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)
