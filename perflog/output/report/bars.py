"""Bars of a report: the waterfall of the runs, and where the difference of two sides went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.explanations.attribution import part_name, telling_parts
from perflog.analysis.compare.explanations.operators import kernels_of_both, time_basis
from perflog.analysis.compare.result_rows import TreeRow
from perflog.metrics.step_time.breakdown import UNTIMED
from perflog.metrics.step_time.waterfall import BARS
from perflog.output.report.cells import AnswerTable, Bar, Cell, HeaderCell, Part, number
from perflog.output.report.data import ReportData, TableRow
from perflog.output.terminal import cut
from perflog.units import show

_LEAST_SHARE = 0.005  # smaller parts have no bar
_MAX_RUNS = 6  # side by side
_MAX_PARTS = 24
_LONGEST = 60  # characters of an operator with its shapes; the details have all
_TIME_GOES, _DIFFERENCE_WENT = "where the time goes", "where the difference went"


def where_the_time_goes(report: ReportData) -> AnswerTable | None:
    """Return the waterfall of up to six runs, else the parts of the first: bars that add up to the whole."""
    bars = report.rows_of("waterfall")
    rows = [row for row in bars if row["of_steady"] is not None]  # a long first step would dwarf all other bars
    runs = list(dict.fromkeys(row["run"] for row in rows))
    if not runs or len(runs) > _MAX_RUNS or len({(row["run"], row["of"]) for row in rows}) > len(runs):
        return _parts(report)
    by_bar: dict[str, dict[str, TableRow]] = {}
    for row in sorted(rows, key=lambda row: list(BARS).index(row["bar"])):
        by_bar.setdefault(row["bar"], {})[row["run"]] = row
    wholes = {run: sum(row["time_s"] for row in rows if row["run"] == run) for run in runs}
    longest = max(wholes.values())
    reached = dict.fromkeys(runs, 0.0)
    lines = []
    for name, row_by_run in by_bar.items():
        doubts = "; ".join(dict.fromkeys(row["doubt"] for row in row_by_run.values() if row["doubt"]))
        meaning = f"{BARS[name]}. Doubt: {doubts}" if doubts else BARS[name]
        steps = []
        for run in runs:
            steps.append(_step_of_waterfall(row_by_run.get(run), reached[run], longest))
            reached[run] += row_by_run[run]["time_s"] if run in row_by_run else 0.0
        if any(abs(row["of_steady"]) >= _LEAST_SHARE for row in row_by_run.values()):
            lines.append([Part(f"{name} !" if doubts else name, meaning=meaning), *steps])
    whole_of = {row["run"]: f"{row['of']} {show(wholes[row['run']], 's')}" for row in rows}
    names = [f"{report.names[run]}: {whole_of[run]}" if len(report.runs) > 1 else whole_of[run] for run in runs]
    heads = [HeaderCell(_TIME_GOES), *(HeaderCell(name, number=True) for name in names)]
    note = "Means without the warm-up and rare pauses. The bars add up to the whole; ! marks a doubt."
    if any(figure.name == UNTIMED for figure in report.overview.figures) and "unattributed" in by_bar:
        note += " Unattributed is the untimed time without what other bars take from it."
    return AnswerTable(_TIME_GOES, heads, lines, note)


def _step_of_waterfall(row: TableRow | None, reached: float, longest: float) -> Bar | None:
    """Return the time and the share of a bar that begins where the one before it ends."""
    if row is None:
        return None
    seconds, share = row["time_s"], row["of_steady"]
    texts = (show(seconds, "s"), f"{100 * share:.1f} %")
    return Bar(reached / longest, (reached + seconds) / longest, seconds, texts)


def _parts(report: ReportData) -> AnswerTable | None:
    """Where the time goes in the only run, or in the first of repeats, the largest part first."""
    shown = [part for part in report.overview.parts[:_MAX_PARTS] if part.share >= _LEAST_SHARE]
    if not shown:
        return None
    heads = [HeaderCell(_TIME_GOES), HeaderCell("share", True), HeaderCell("time", True), HeaderCell("")]
    rows: list[list[Cell]] = [
        [part.name, number(part.share, "1"), number(part.seconds, "s"), Bar(0.0, part.share)] for part in shown
    ]
    return AnswerTable(_TIME_GOES, heads, rows)


def where_the_difference_went(comparison: Comparison) -> AnswerTable | None:
    """Return where the largest difference went: the parts as a tree, each bar where the one before it ends."""
    if not comparison.headlines:
        return None
    headline = max(comparison.headlines, key=lambda row: abs(row.change))
    parts = [p for p in comparison.attribution_records if (p.case, p.side) == (headline.case, headline.side)]
    parts = [part for part in parts if part.kind == parts[0].kind]
    if len(parts) < 2 or not parts[0].base_s:
        return None
    least = _LEAST_SHARE * parts[0].base_s
    shown = [parts[0], *(part for part in parts[1:] if abs(part.difference_s) >= least)][:_MAX_PARTS]
    table = _tree_of_differences(_DIFFERENCE_WENT, comparison, shown, list(map(part_name, shown)))
    return replace(table, note="Differences of medians over the steady steps, which need not add up.")


def where_the_operators_differ(comparison: Comparison) -> AnswerTable | None:
    """Return the operators of traces on the first side with the largest change of GPU time, as a tree, with kernels."""
    places = [(row.case, row.side) for row in comparison.operator_records[:1]]
    rows = [row for row in comparison.operator_records if (row.case, row.side) in places]
    if not rows or not (telling := telling_parts(rows, _MAX_PARTS)):
        return None
    shown = [rows[0], *telling]
    names = [cut(" ".join(filter(None, (row.operator, row.shapes))), _LONGEST) for row in shown]
    title = f"GPU time by operator, {time_basis(rows[0])}"
    table = _tree_of_differences(title, comparison, shown, names)
    kernels: list[Cell] = [kernels_of_both(row) for row in shown]
    rows_with_kernels = [[*cells, text] for cells, text in zip(table.rows, kernels, strict=True)]
    return AnswerTable(table.title, [*table.heads, HeaderCell("kernels")], rows_with_kernels, has_long_names=True)


def _tree_of_differences(
    title: str, comparison: Comparison, shown: Sequence[TreeRow], names: Sequence[str]
) -> AnswerTable:
    """Rows of a tree, the whole first, each with a bar that begins where the one before it ends."""
    starts = list(_starts(shown))
    edges = [0.0, *starts, *(start + part.difference_s for start, part in zip(starts, shown, strict=True))]
    low, span = min(edges), (max(edges) - min(edges)) or 1.0
    rows: list[list[Cell]] = []
    for part, name, start in zip(shown, names, starts, strict=True):
        end = start + part.difference_s
        rows.append([
            Part(name, part.depth),
            *(number(time, "s") for time in (part.difference_s, part.base_s, part.side_s)),
            number(part.share, "1"),
            Bar((start - low) / span, (end - low) / span, better=end < start),
        ])  # fmt: skip
    numbers = ("difference", comparison.sides[0], shown[0].side, "share")
    heads = [HeaderCell(title), *(HeaderCell(name, True) for name in numbers), HeaderCell("")]
    return AnswerTable(title, heads, rows)


def _starts(parts: Sequence[TreeRow]) -> Iterator[float]:
    """Yield where the bar of each part begins: after the part before it, the first below a part where that begins."""
    begun: dict[int, float] = {}
    reached: dict[int, float] = {}
    for part in parts:
        depth = part.depth
        begun[depth] = start = reached.get(depth, begun.get(depth - 1, 0.0))
        yield start
        reached = {d: end for d, end in reached.items() if d < depth}
        reached[depth] = start + part.difference_s
