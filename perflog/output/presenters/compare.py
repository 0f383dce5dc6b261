"""Sheets that `perflog compare` and `perflog aa` print.

The verdicts and their reasons come from `perflog.analysis.compare.verdicts`.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.aa import COLUMNS as AA_COLUMNS
from perflog.analysis.compare.aa import SPLITS, TESTS
from perflog.analysis.compare.averages import window_of
from perflog.analysis.compare.comparison import SUMMARY_KINDS
from perflog.analysis.compare.rows import COLUMNS
from perflog.analysis.compare.sides import ResultRow
from perflog.output.sheets import Sheet, SheetColumn, cell, sheet
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_LEAST_SHARE = 0.02  # of the whole: text leaves smaller parts out
_WIDEST = 110
_MARK = {True: "*", False: ""}
_NAME, _END = 90, 30  # longest name shown, and its end: a kernel's name with its arguments can have thousands


def comparison(compared: Comparison, format: str, everything: bool = False) -> Iterator[Sheet]:
    """Yield the sheets of a comparison. CSV holds the rows alone; text and Markdown leave out minor rows."""
    if format == "csv":
        names = [c.name for c in COLUMNS]
        rows = [tuple(none_if_null(row[n]) for n in names) for row in compared.row_records]
        yield Sheet("comparison", tuple(SheetColumn(n) for n in names), rows)
        return
    yield _rows(compared, everything)
    if means := compared.geomeans():
        cells = [(mean["metric"], mean["side"], mean["cases"], mean["ratio"]) for mean in means]
        yield sheet("geomeans", "metric side cases# ratio#", cells, "geometric mean of the ratios")
    yield _settings(compared)
    if compared.summary_records:
        yield _averages(compared)
    yield from _attribution(compared, everything)
    if compared.finding_records:
        yield _findings(compared, format, everything)


def _rows(compared: Comparison, everything: bool) -> Sheet:
    several, pair, headlines = len(compared.cases) > 1, len(compared.sides) == 2, compared.headlines
    shown = [r for r in compared.row_records if everything or r["kind"] in SUMMARY_KINDS or r in headlines]
    names = ["case"] * several + ["metric"] + ([] if pair else ["side"])
    titles = [compared.sides[0], compared.sides[1] if pair else "value"]
    columns = [SheetColumn(n) for n in names] + [SheetColumn(n, number=True) for n in titles]
    columns += [SheetColumn("ratio", number=True), SheetColumn("interval", number=True)]
    tested = any(none_if_null(row["p_holm"]) is not None for row in shown)
    columns += [SheetColumn("p", number=True)] * tested + [SheetColumn("n", number=True), SheetColumn("verdict")]
    rows = []
    for row in shown:
        cells = [row[n] if n != "metric" else _brief(row["metric"]) + _MARK[row["derived"]] for n in names]
        cells += [_median(row, "base"), _median(row, "side"), row["ratio"], _interval(row)]
        rows.append([*cells, *([none_if_null(row["p_holm"])] if tested else []), _count(row), row["verdict"]])
    return Sheet("comparison", tuple(columns), rows, _title(compared), "\n".join(_notes(compared, len(shown))))


def _brief(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - _END - 1]}…{name[-_END:]}"


def _title(compared: Comparison) -> str:
    metric = compared.headlines[0]["metric"] if compared.headlines else "nothing"
    return f"{', '.join(compared.sides[1:])} against {compared.sides[0]}: {metric}: {compared.verdict}"


def _notes(compared: Comparison, shown: int) -> Iterator[str]:
    for row in compared.headlines:
        place = " ".join(x for x in (row["case"], row["side"] if len(compared.sides) > 2 else "") if x)
        yield f"{place}{': ' * bool(place)}{row['metric']} {row['verdict']}: {row['reason']}"
    if any(finding["side"] is None and finding["severity"] != "note" for finding in compared.finding_records):
        yield "the sides may not be comparable: see the findings below"
    cuts = zip(compared.cases, compared.warmup, strict=True)
    cuts_text = ", ".join(f"{cut} in {case.name}" if case.name else f"{cut}" for case, cut in cuts)
    yield f"a ratio above 1 is better than {compared.sides[0]}; warm-up steps cut on all sides: {cuts_text}"
    if any(row["derived"] for row in compared.row_records):
        yield "* computed from another figure: no further evidence"
    if len(compared.row_records) > shown:
        yield f"{len(compared.row_records) - shown} more rows of phases, layers, kernels, collectives: --all shows them"


def _median(row: ResultRow, side: str) -> str:
    """Median and the longer arm of its interval in percent, as benchstat shows it."""
    value, low, high = (row[f"{side}_{x}"] for x in ("value", "low", "high"))
    text = cell(value, row["unit"])
    if none_if_null(low) is None or not value:
        return text
    return f"{text} ± {show(max(high - value, value - low) / value, '1', 2)}"


def _interval(row: ResultRow) -> str:
    return "-" if none_if_null(row["ratio_low"]) is None else f"{cell(row['ratio_low'])} .. {cell(row['ratio_high'])}"


def _count(row: ResultRow) -> str:
    """Runs x steps of each; of both sides where these differ."""
    sides = [f"{row[f'{s}_runs']} x {row[f'{s}_steps'] // row[f'{s}_runs']}" for s in ("base", "side")]
    return sides[0] if sides[0] == sides[1] else ", ".join(sides)


def _settings(compared: Comparison) -> Sheet:
    several = len(compared.cases) > 1
    names = ["case"] * several + ["setting", *compared.sides]
    rows = [[row[n] for n in names] for row in compared.setting_records]
    notes = [] if rows else ["none in the logs"]
    notes += [f"inside {place}: {', '.join(settings)}" for place, settings in _varied(compared).items()]
    return Sheet("settings", tuple(map(SheetColumn, names)), rows, "settings that differ", "\n".join(notes))


def _varied(compared: Comparison) -> dict[str, list[str]]:
    """The settings that vary between the repeats of a side, with the number of their values."""
    by_place: dict[str, list[str]] = {}
    for row in compared.varied_records:
        place = f"{row['side']} ({row['case']})" if row["case"] else row["side"]
        by_place.setdefault(place, []).append(f"{row['setting']} ({len(row['values'])} values)")
    return by_place


def _averages(compared: Comparison) -> Sheet:
    """Printed averages, and the mean of the same steps on the other sides."""
    several = len(compared.cases) > 1
    averages = compared.summary_records
    rows = []
    for key in dict.fromkeys((r["case"], r["figure"], *window_of(r)) for r in averages):
        same = [r for r in averages if (r["case"], r["figure"], *window_of(r)) == key]
        cells = []
        for side in compared.sides:
            values = [cell(r["value"], r["unit"] or "") + _MARK[r["printed"]] for r in same if r["side"] == side]
            cells.append(", ".join(values) or "-")
        window = "unknown" if key[2] is None else f"{key[2]}..{key[3]}"
        rows.append([*[key[0]] * several, key[1], window, *cells])
    names = ["case"] * several + ["figure", "steps"]
    columns = (*map(SheetColumn, names), *(SheetColumn(side, number=True) for side in compared.sides))
    return Sheet("summaries", columns, rows, "printed averages, and the means of the same steps", "* as printed")


def _attribution(compared: Comparison, everything: bool) -> Iterator[Sheet]:
    parts = [part for part in compared.attribution_records if part["share"] is not None]
    if not everything:
        parts = [part for part in parts if part["depth"] == 0 or abs(part["share"]) >= _LEAST_SHARE]
    for case in compared.cases:
        for side in compared.sides[1:]:
            of_side = [part for part in parts if (part["case"], part["side"]) == (case.name, side)]
            if len(of_side) < 2:
                continue
            columns = [SheetColumn(n, "s", True) for n in (compared.sides[0], side, "difference")]
            rows = [
                ["  " * part["depth"] + _brief(part["part"]), part["base_s"], part["side_s"], part["difference_s"],
                 show(part["share"], "1", 3)]
                for part in of_side
            ]  # fmt: skip
            name = f" ({case.name})" if case.name else ""
            title = f"where the difference went: {side}{name}"
            yield Sheet("attribution", (SheetColumn("part"), *columns, SheetColumn("share", number=True)), rows, title)


def _findings(compared: Comparison, format: str, everything: bool) -> Sheet:
    """Findings; the same finding on several sides is shown once. In text, long messages wrap rather than be cut."""
    records = compared.finding_records
    shown = [f for f in records if everything or f["side"] is None or f["severity"] != "note"]
    left = len(records) - len(shown)
    note = f"{left} more notes on single runs: --all shows them" if left else ""
    sides: dict[tuple[str, str, str, str], list[str]] = {}
    for finding in shown:
        key = finding["severity"], finding["code"], finding["case"], finding["message"]
        sides.setdefault(key, []).extend([finding["side"]] if finding["side"] else [])
    rows = []
    for (severity, code, case, message), names in sides.items():
        about = ": ".join(filter(None, [case, ", ".join(dict.fromkeys(names))]))
        rows.append((severity, code, about, message))
    if format == "md":
        return sheet("findings", "severity finding about message", rows, "findings", note)
    width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
    lines: list[str] = []
    for severity, code, about, message in rows:
        head = f"{severity} {code}{f' ({about})' if about else ''}: {message}"
        lines += textwrap.wrap(head, width, subsequent_indent="  ", break_on_hyphens=False)
    return Sheet("findings", (), (), "findings", "\n".join([*lines, *([note] if note else [])]))


def sentence(row: ResultRow) -> str:
    """Return a row in words, with its figures."""
    case = f" ({row['case']})" if row["case"] else ""
    change = f"{_median(row, 'base')} -> {_median(row, 'side')}, ratio {cell(row['ratio'])} [{_interval(row)}]"
    return f"{row['side']}{case}: {row['metric']}: {row['verdict']}: {change}"


def document(data: object) -> str:
    """Return data as JSON text."""
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)


# --- perflog aa ---------------------------------------------------------------------------------------------------


def false_positives(rates: pd.DataFrame, format: str) -> Sheet:
    """Return the false-positive rates of the gate as a sheet."""
    columns = tuple(SheetColumn(c.name, c.unit, c.name not in ("split", "test")) for c in AA_COLUMNS)
    rows = [
        tuple(v.item() if hasattr(v, "item") else v for v in row) for row in rates.itertuples(index=False, name=None)
    ]
    if format not in ("text", "md"):
        return Sheet("aa", columns, rows)
    shown = {*rates["split"], *rates["test"]}
    notes = [f"{name}: {text}" for name, text in (SPLITS | TESTS).items() if name in shown]
    return Sheet("aa", columns, rows, "false positives: called different where nothing differs", "\n".join(notes))
