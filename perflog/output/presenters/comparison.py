"""What `compare` and `aa` show, as sheets."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.aa import COLUMNS as AA_COLUMNS
from perflog.analysis.compare.aa import SPLITS, TESTS
from perflog.analysis.compare.rows import COLUMNS, Row
from perflog.output.sheets import Column, Sheet, cell, sheet
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_TELLS = 0.02  # share of the whole from which text tells of a small part
_WIDEST = 110
_MARK = {True: "*", False: ""}
_NAME, _END = 90, 30  # characters of a name, and of those its end: a kernel's with its arguments has thousands


def comparison(found: Comparison, format: str, everything: bool = False) -> Iterator[Sheet]:
    """The sheets of a comparison. CSV holds the rows alone; text and Markdown leave out what tells little."""
    if format == "csv":
        names = [c.name for c in COLUMNS]
        rows = [tuple(None if one[n] != one[n] else one[n] for n in names) for one in found.records]
        yield Sheet("comparison", tuple(Column(n) for n in names), rows)
        return
    yield _rows(found, everything)
    if means := found.geomeans():
        rows_ = [(one["metric"], one["side"], one["cases"], one["ratio"]) for one in means]
        yield sheet("geomeans", "metric side cases# ratio#", rows_, "geometric mean of the ratios")
    yield _settings(found)
    if found.printed:
        yield _printed(found)
    yield from _attribution(found, everything)
    if found.told:
        yield _findings(found, format, everything)


def _rows(found: Comparison, everything: bool) -> Sheet:
    several, pair = len(found.cases) > 1, len(found.sides) == 2
    kept = [one for one in found.records if everything or one["kind"] in ("step", "device") or one in found.headlines]
    names = ["case"] * several + ["metric"] + ([] if pair else ["side"])
    titles = [found.sides[0], found.sides[1] if pair else "value"]
    columns = [Column(n) for n in names] + [Column(n, number=True) for n in titles]
    columns += [Column("ratio", number=True), Column("interval", number=True)]
    tested = any(one["p_holm"] == one["p_holm"] for one in kept)
    columns += [Column("p", number=True)] * tested + [Column("n", number=True), Column("verdict")]
    rows = []
    for one in kept:
        row = [one[n] if n != "metric" else _brief(one["metric"]) + _MARK[one["derived"]] for n in names]
        row += [_centre(one, "base"), _centre(one, "side"), one["ratio"], _interval(one)]
        rows.append([*row, *([_number(one["p_holm"])] if tested else []), _count(one), one["verdict"]])
    return Sheet("comparison", tuple(columns), rows, _title(found), "\n".join(_notes(found, len(kept))))


def _brief(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - _END - 1]}…{name[-_END:]}"


def _title(found: Comparison) -> str:
    what = found.headlines[0]["metric"] if found.headlines else "nothing"
    return f"{', '.join(found.sides[1:])} against {found.sides[0]}: {what}: {found.verdict}"


def _notes(found: Comparison, shown: int) -> Iterator[str]:
    for one in found.headlines:
        place = " ".join(x for x in (one["case"], one["side"] if len(found.sides) > 2 else "") if x)
        yield f"{place}{': ' * bool(place)}{one['metric']} {one['verdict']}: {one['reason']}"
    if any(one["side"] is None and one["severity"] != "note" for one in found.told):
        yield "the sides may not be comparable: see what to know, below"
    cuts = [f"{k} in {case.name}" if case.name else f"{k}" for case, k in zip(found.cases, found.warmup, strict=True)]
    yield f"ratio above 1: better than {found.sides[0]}. Steps of warm-up cut on all sides: {', '.join(cuts)}"
    if any(one["derived"] for one in found.records):
        yield "* computed from another figure: says nothing of its own"
    if len(found.records) > shown:
        yield f"{len(found.records) - shown} more rows of phases, layers or kernels: --all shows them"


def _centre(one: Row, side: str) -> str:
    """Median and, as benchstat has it, the longer arm of its interval in per cent."""
    value, low, high = (one[f"{side}_{x}"] for x in ("value", "low", "high"))
    text = cell(value, one["unit"])
    if low != low or not value:
        return text
    return f"{text} ± {show(max(high - value, value - low) / value, '1', 2)}"


def _interval(one: Row) -> str:
    return "-" if one["ratio_low"] != one["ratio_low"] else f"{cell(one['ratio_low'])} .. {cell(one['ratio_high'])}"


def _number(value: float) -> float | None:
    return None if value != value else value


def _count(one: Row) -> str:
    """Runs and their steps."""
    sides = [f"{one[f'{s}_runs']} x {one[f'{s}_steps'] // one[f'{s}_runs']}" for s in ("base", "side")]
    return sides[0] if sides[0] == sides[1] else ", ".join(sides)


def _settings(found: Comparison) -> Sheet:
    several = len(found.cases) > 1
    names = ["case"] * several + ["setting", *found.sides]
    rows = [[one[n] for n in names] for one in found.differences]
    note = "" if rows else "none that the logs tell of"
    return Sheet("settings", tuple(map(Column, names)), rows, "settings that differ", note)


def _printed(found: Comparison) -> Sheet:
    """Printed averages and, of the same steps, those of the other sides."""
    several = len(found.cases) > 1
    keys = dict.fromkeys((r["case"], r["figure"], r["window_first"], r["window_last"]) for r in found.printed)
    rows = []
    for key in keys:
        mine = [r for r in found.printed if (r["case"], r["figure"], r["window_first"], r["window_last"]) == key]
        cells = []
        for side in found.sides:
            values = [cell(r["value"], r["unit"] or "") + _MARK[r["printed"]] for r in mine if r["side"] == side]
            cells.append(", ".join(values) or "-")
        window = "unknown" if key[2] is None else f"{key[2]}..{key[3]}"
        rows.append([*[key[0]] * several, key[1], window, *cells])
    names = ["case"] * several + ["figure", "steps"]
    columns = (*map(Column, names), *(Column(side, number=True) for side in found.sides))
    return Sheet("summaries", columns, rows, "printed averages, and those of the same steps", "* as printed")


def _attribution(found: Comparison, everything: bool) -> Iterator[Sheet]:
    told = [one for one in found.parts if one["share"] is not None]
    if not everything:
        told = [one for one in told if one["depth"] == 0 or abs(one["share"]) >= _TELLS]
    for case in found.cases:
        for side in found.sides[1:]:
            mine = [one for one in told if (one["case"], one["side"]) == (case.name, side)]
            if len(mine) < 2:
                continue
            columns = [Column(n, "s", True) for n in (found.sides[0], side, "difference")]
            rows = [
                [
                    "  " * one["depth"] + _brief(one["part"]),
                    one["base_s"],
                    one["side_s"],
                    one["difference_s"],
                    _share(one),
                ]
                for one in mine
            ]
            name = f" ({case.name})" if case.name else ""
            title = f"where the difference went: {side}{name}"
            yield Sheet("attribution", (Column("part"), *columns, Column("share", number=True)), rows, title)


def _share(one: Row) -> str:
    return show(one["share"], "1", 3)


def _findings(found: Comparison, format: str, everything: bool) -> Sheet:
    """In text, messages run over several lines rather than be cut."""
    kept = [one for one in found.told if everything or one["side"] is None or one["severity"] != "note"]
    left = len(found.told) - len(kept)
    note = f"{left} more notes on single runs: --all shows them" if left else ""
    sides: dict[tuple[str, str, str, str], list[str]] = {}  # what is said of several sides is said once
    for one in kept:
        key = one["severity"], one["code"], one["case"], one["message"]
        sides.setdefault(key, []).extend([one["side"]] if one["side"] else [])
    told = []
    for (severity, code, case, message), names in sides.items():
        about = ": ".join(filter(None, [case, ", ".join(dict.fromkeys(names))]))
        told.append((severity, code, about, message))
    if format == "md":
        return sheet("findings", "severity finding about message", told, "what to know", note)
    width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
    lines: list[str] = []
    for severity, code, about, message in told:
        head = f"{severity} {code}{f' ({about})' if about else ''}: {message}"
        lines += textwrap.wrap(head, width, subsequent_indent="  ", break_on_hyphens=False)
    return Sheet("findings", (), (), "what to know", "\n".join([*lines, *([note] if note else [])]))


def false_positives(rates: pd.DataFrame, format: str) -> Sheet:
    """False-positive rates of the gate."""
    columns = tuple(Column(c.name, c.unit, c.name not in ("split", "test")) for c in AA_COLUMNS)
    rows = [
        tuple(v.item() if hasattr(v, "item") else v for v in row) for row in rates.itertuples(index=False, name=None)
    ]
    if format not in ("text", "md"):
        return Sheet("aa", columns, rows)
    said = [f"{name}: {text}" for name, text in (SPLITS | TESTS).items() if name in {*rates["split"], *rates["test"]}]
    return Sheet("aa", columns, rows, "called different where nothing differs", "\n".join(said))


def sentence(one: Row) -> str:
    """A row in words, with its figures."""
    case = f" ({one['case']})" if one["case"] else ""
    change = f"{_centre(one, 'base')} -> {_centre(one, 'side')}, ratio {cell(one['ratio'])} [{_interval(one)}]"
    return f"{one['side']}{case}: {one['metric']}: {one['verdict']}: {change}"


def document(made: object) -> str:
    """As JSON."""
    return json.dumps(made, ensure_ascii=False, indent=1, allow_nan=False)
