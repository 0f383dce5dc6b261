"""Bars of the page: the waterfall of the runs, and where the difference of two sides went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.attribution import UNEXPLAINED
from perflog.metrics.waterfall import BARS
from perflog.output.report.data import ReportData, TableRow
from perflog.output.report.html.elements import (
    HeaderCell,
    Html,
    join,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.units import show

_LEAST_SHARE = 0.005  # smaller parts have no bar
_MAX_RUNS = 6  # side by side
_MAX_PARTS = 24


def bar(start: float, end: float, better: bool | None = None) -> Html:
    """Return a bar from `start` to `end` of a line of length 1; `better` colours what got faster or slower."""
    low, high = max(min(start, end), 0.0), min(max(start, end), 1.0)
    rect = tag("rect", x=f"{100 * low:.2f}", width=f"{100 * (high - low):.2f}", height=10)
    kind = {None: "bar", True: "bar better", False: "bar worse"}[better]
    return tag("svg", rect, viewBox="0 0 100 10", preserveAspectRatio="none", class_=kind, aria_hidden="true")


# --- waterfall ----------------------------------------------------------------------------------------------------


def where_the_time_goes(report: ReportData) -> Html:
    """Return the waterfall of up to six runs, else the parts of the first: bars that add up to the whole."""
    bars = next((table.rows for table in report.metrics if table.name == "waterfall"), ())
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
    for name, of_runs in by_bar.items():
        doubts = "; ".join(dict.fromkeys(row["doubt"] for row in of_runs.values() if row["doubt"]))
        cells = [tag("td", name, " !" if doubts else "", title=f"{BARS[name]}{'. Doubt: ' if doubts else ''}{doubts}")]
        for run in runs:
            seconds = of_runs[run]["time_s"] if run in of_runs else 0.0
            cells.append(_step_of_waterfall(of_runs.get(run), reached[run] / longest, longest))
            reached[run] += seconds
        if any(abs(row["of_steady"]) >= _LEAST_SHARE for row in of_runs.values()):
            lines.append(tag("tr", *cells))
    whole_of = {row["run"]: f"{row['of']} {show(wholes[row['run']], 's')}" for row in rows}
    names = [shortened(f"{report.names[run]}: {whole_of[run]}" if len(runs) > 1 else whole_of[run]) for run in runs]
    heads = [HeaderCell("where the time goes"), *(HeaderCell(name, number=True) for name in names)]
    note = (
        "Means without the warm-up. Bars stand end to end and add up to the whole. Point at a name for its formula; "
        "! marks a doubt."
    )
    return sortable_table("where the time goes", heads, lines, note)


def _step_of_waterfall(row: TableRow | None, start: float, longest: float) -> Html:
    """Return a cell with the time and the share of a bar, and the bar where the one before it ends."""
    if row is None:
        return tag("td", "-", data_value="")
    figures = (show(row["time_s"], "s"), f"{100 * row['of_steady']:.1f} %")
    text = join((tag("span", figure) for figure in figures), " ")
    return tag("td", bar(start, start + row["time_s"] / longest), text, class_="step", data_value=row["time_s"])


def _parts(report: ReportData) -> Html:
    """Where the time goes in the only run, or in the first of repeats, the largest part first."""
    shown = [part for part in report.overview.parts[:_MAX_PARTS] if part.share >= _LEAST_SHARE]
    if not shown:
        return Html()
    heads = [HeaderCell("where the time goes"), HeaderCell("share", True), HeaderCell("time", True), HeaderCell("")]
    rows = (
        tag(
            "tr", text_cell(part.name), number_cell(part.share, "1"), number_cell(part.seconds, "s"),
            tag("td", bar(0, part.share)),
        )
        for part in shown
    )  # fmt: skip
    return sortable_table("where the time goes", heads, rows)


# --- where the difference went ------------------------------------------------------------------------------------


def difference_tree(comparison: Comparison) -> Html:
    """Return where the largest difference went: the parts as a tree, each bar where the one before it ends."""
    if not comparison.headlines:
        return Html()
    headline = max(comparison.headlines, key=lambda row: abs(row["change"]))
    parts = [p for p in comparison.attribution_records if all(p[key] == headline[key] for key in ("case", "side"))]
    parts = [part for part in parts if part["kind"] == parts[0]["kind"]]
    if len(parts) < 2 or not parts[0]["base_s"]:
        return Html()
    least = _LEAST_SHARE * parts[0]["base_s"]
    shown = [parts[0], *(part for part in parts[1:] if abs(part["difference_s"]) >= least)][:_MAX_PARTS]
    starts = list(_starts(shown))
    edges = [0.0, *starts, *(start + part["difference_s"] for start, part in zip(starts, shown, strict=True))]
    low, span = min(edges), (max(edges) - min(edges)) or 1.0
    rows = []
    for part, start in zip(shown, starts, strict=True):
        name = f"{part['of']} between its timers" if part["part"] == UNEXPLAINED else part["part"]
        end = start + part["difference_s"]
        rows.append(tag(
            "tr",
            tag("td", shortened(name), class_=f"part depth{min(part['depth'], 5)}"),
            *(number_cell(part[column], "s") for column in ("difference_s", "base_s", "side_s")),
            number_cell(part["share"], "1"),
            tag("td", bar((start - low) / span, (end - low) / span, better=end < start)),
        ))  # fmt: skip
    numbers = ("difference", comparison.sides[0], headline["side"], "share")
    heads = [HeaderCell("where the difference went"), *(HeaderCell(name, True) for name in numbers), HeaderCell("")]
    return sortable_table("where the difference went", heads, rows)


def _starts(parts: Sequence[TableRow]) -> Iterator[float]:
    """Yield where the bar of each part begins: behind the part before it, the first below a part where that begins."""
    begun: dict[int, float] = {}
    reached: dict[int, float] = {}
    for part in parts:
        depth = part["depth"]
        begun[depth] = start = reached.get(depth, begun.get(depth - 1, 0.0))
        yield start
        reached = {d: end for d, end in reached.items() if d < depth}
        reached[depth] = start + part["difference_s"]
