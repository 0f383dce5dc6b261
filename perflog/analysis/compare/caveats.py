"""What to know before a comparison is believed: findings on the sides together, and the linter's on their runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from perflog.analysis.compare.rows import Row, by_name
from perflog.analysis.compare.sides import Case, Side, same_but_for_the_start
from perflog.analysis.lint import lint
from perflog.metrics import Column
from perflog.units import show

COLUMNS = (
    Column("code", meaning="name of the finding"),
    Column("severity", meaning="error, warning or note"),
    Column("case", meaning="the configuration"),
    Column("side", meaning="the side whose runs it is about; null where it is about the sides together"),
    Column("run", meaning="the run it is about, by its id"),
    Column("message", meaning="what was found and what to do"),
    Column("action", meaning="what to do, as the linter says"),
    Column("first_line", meaning="first line that proves it"),
    Column("evidence", meaning="JSON of the rows that prove it"),
)
_OTHER_WORK = 3.0
"""Backward over forward differs by this factor between sides: they hardly do, or time, the same work."""


def findings(
    sides: Sequence[Side], cases: Sequence[Case], rows: Sequence[Row], differ: Sequence[Row], printed: Sequence[Row]
) -> list[Row]:
    """All findings, those about the sides together first. `differ` are the settings, `printed` the summaries."""
    made: list[Row] = []
    for case in cases:
        made += _windows(case, [one for one in printed if one["case"] == case.name])
        for side in sides[1:]:
            made += _work(case, by_name(rows, case.name, side.name))
        made += _printouts(sides, case, [one["setting"] for one in differ if one["case"] == case.name])
        made += _formats(case, [one for one in differ if one["case"] == case.name])
    for case in cases:
        made += _linted(sides, case)
    return [{c.name: one.get(c.name) for c in COLUMNS} for one in made]


def _finding(code: str, severity: str, case: Case, message: str, evidence: object) -> Row:
    text = json.dumps(evidence, ensure_ascii=False)
    return {"code": code, "severity": severity, "case": case.name, "message": message, "evidence": text}


def _windows(case: Case, printed: Sequence[Row]) -> Iterator[Row]:
    """Printed averages of different steps, and the same figures over the same steps."""
    by_windows: dict[tuple[str, ...], list[list[Row]]] = {}
    for figure in dict.fromkeys(one["figure"] for one in printed):
        mine = [one for one in printed if one["figure"] == figure]
        said = [one for one in mine if one["printed"]]
        if len({one["side"] for one in said}) > 1 and len({_window(one) for one in said}) > 1:
            by_windows.setdefault(tuple(f"{one['side']} {_over(one)}" for one in said), []).append(mine)
    for windows, figures in by_windows.items():
        names = ", ".join(mine[0]["figure"] for mine in figures)
        message = f"the printed averages ({names}) are of different steps and cannot be compared: {'; '.join(windows)}"
        message += f". {'. '.join(_again(figures[0]))}"
        yield _finding("comparison-windows", "warning", case, message, [one for mine in figures for one in mine])


def _again(mine: Sequence[Row]) -> Iterator[str]:
    """A figure as it is printed, then over each of the windows on all sides."""
    said = ", ".join(f"{one['side']} {_value(one)}" for one in mine if one["printed"])
    yield f"As printed, {mine[0]['figure']} is {said}"
    for window in dict.fromkeys(map(_window, mine)):
        same = [one for one in mine if _window(one) == window]
        if window[0] is not None and all(one["value"] is not None for one in same):
            values = ", ".join(f"{one['side']} {_value(one)}" for one in same)
            yield f"All {_over(same[0])}: {values}"


def _window(one: Row) -> tuple[int | None, int | None]:
    return one["window_first"], one["window_last"]


def _value(one: Row) -> str:
    return show(one["value"], one["unit"] or "")


def _over(one: Row) -> str:
    if one["window_first"] is None:
        return "over steps that no window reproduces"
    return f"over steps {one['window_first']}..{one['window_last']}"


def _work(case: Case, rows: Mapping[tuple[str, str], Row]) -> Iterator[Row]:
    """Sides whose steps are not made of the same things."""
    forward, backward = rows.get(("step", "forward")), rows.get(("step", "backward"))
    if not forward or not backward or min(forward["base_value"], forward["side_value"]) <= 0:
        return
    base, side = (backward[x] / forward[x] for x in ("base_value", "side_value"))
    if min(base, side) > 0 and max(base, side) / min(base, side) < _OTHER_WORK:
        return
    message = (
        f"backward takes {show(base, '', 3)} of forward on {forward['base']} and {show(side, '', 3)} on "
        f"{forward['side']}: they hardly do the same work, or do not time the same parts of it. A faster step may be "
        "one that leaves something out: compare forward and backward by themselves, and see the findings on each run"
    )
    yield _finding("comparison-other-work", "warning", case, message, {"base": base, "side": side})


def _printouts(sides: Sequence[Side], case: Case, settings: Sequence[str]) -> Iterator[Row]:
    """One model printed on all sides, although a setting says that they differ."""
    texts = set()
    for side, runs in zip(sides, case.runs, strict=True):
        for log in side.logs:
            table = log.arrow("runs").select(["run", "printout"]).to_pylist()
            texts |= {row["printout"] for row in table if row["run"] in runs}
    names = [name for name in settings if name in same_but_for_the_start(dict.fromkeys(settings, ""))]
    if len(texts) == 1 and None not in texts and names:
        message = (
            f"the model printouts of all sides are identical, although {', '.join(names)} differ"
            f"{'s' * (len(names) == 1)}: the setting did not change the printed model, so the runs may well be repeats "
            "of one program; a difference between them would need another cause"
        )
        yield _finding("comparison-same-model", "note", case, message, {"settings": names})


def _formats(case: Case, differ: Sequence[Row]) -> Iterator[Row]:
    """Sides of different programs."""
    for one in differ:
        if one["setting"] == "format":
            message = "the logs are of different formats: what a column measures may differ between them"
            yield _finding("comparison-formats", "warning", case, message, one)


def _linted(sides: Sequence[Side], case: Case) -> Iterator[Row]:
    """What the linter says of the runs compared."""
    for side, runs in zip(sides, case.runs, strict=True):
        for log in side.logs:
            chosen = log.select(*(run for run in log.run_keys if run.id in runs))
            if len(chosen):
                table = lint(chosen)
                told = table.astype(object).where(table.notna(), None).to_dict("records")
                yield from ({"case": case.name, "side": side.name} | one for one in told)
