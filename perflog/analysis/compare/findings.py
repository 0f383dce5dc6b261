"""Findings on a comparison: what makes the sides hard to compare, then the linter's findings on the compared runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from perflog.analysis.compare.explanations.averages import AverageRow, window_of
from perflog.analysis.compare.headline import RATES, unequal_steps
from perflog.analysis.compare.rows import FigureRow, by_measure
from perflog.analysis.compare.side_settings import DifferingSetting
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.lint import RULES, Finding
from perflog.grouping import grouped
from perflog.metrics.registry import column, columns_of
from perflog.settings.run_settings import incidental_test
from perflog.units import show


class FindingRow(Struct, frozen=True):
    """What to know before trusting a comparison."""

    code: Annotated[str, column("name of the finding")]
    severity: Annotated[str, column("error, warning or note")]
    case: Annotated[str, column("the configuration")]
    side: Annotated[str | None, column("the side that it is about; null where it is about the sides together")]
    run: Annotated[str | None, column("id of the run it is about; null where it is about the sides together")]
    message: Annotated[str, column("what was found; for findings on the sides together also what to do")]
    action: Annotated[str | None, column("what to do, from the linter")]
    first_line: Annotated[int | None, column("first line that proves it")]
    evidence: Annotated[str, column("JSON of the rows that prove it")]


COLUMNS = columns_of(FindingRow)

_OTHER_WORK = 3.0  # backward / forward differs by this factor between sides: they hardly do, or time, the same work


def findings(
    sides: Sequence[Side],
    cases: Sequence[Case],
    rows: Sequence[FigureRow],
    settings: Sequence[DifferingSetting],
    averages: Sequence[AverageRow],
    linted: Mapping[str, Sequence[Finding]],
) -> list[FindingRow]:
    """Return all findings, those about the sides together first.

    `settings`, `averages` and `linted` are the results of `differing_settings`, `averages` and `linted`.
    """
    records: list[FindingRow] = []
    for case in cases:
        differing = [row for row in settings if row.case == case.name]
        records += _different_windows(case, [row for row in averages if row.case == case.name])
        for side in sides[1:]:
            records += _different_work(case, by_measure(rows, case.name, side.name))
        records += _unequal_steps(case, [row for row in rows if row.case == case.name])
        records += _other_steps(sides, case)
        records += _same_model(sides, case, [row.setting for row in differing])
        records += _different_formats(case, differing)
        records += _same_runs(sides, case)
    for case in cases:
        records += _of_runs(sides, case, linted)
    return records


def _finding(code: str, severity: str, case: Case, message: str, evidence: object) -> FindingRow:
    text = json.dumps(evidence, ensure_ascii=False)
    return FindingRow(code, severity, case.name, None, None, message, None, None, text)


def _different_windows(case: Case, averages: Sequence[AverageRow]) -> Iterator[FindingRow]:
    """Printed averages that cover different steps on the sides, and the same figures over the same steps."""
    by_windows: dict[tuple[str, ...], list[list[AverageRow]]] = {}
    for figure in dict.fromkeys(row.figure for row in averages):
        figure_rows = [row for row in averages if row.figure == figure]
        printed = [row for row in figure_rows if row.printed]
        if len({row.side for row in printed}) > 1 and len({window_of(row) for row in printed}) > 1:
            windows = tuple(dict.fromkeys(f"{row.side} {_window_text(row)}" for row in printed))
            by_windows.setdefault(windows, []).append(figure_rows)
    for windows, figures in by_windows.items():
        names = ", ".join(figure_rows[0].figure for figure_rows in figures)
        message = (
            f"the printed averages ({names}) cover different steps and cannot be compared: {'; '.join(windows)}. "
            f"{'. '.join(_recomputed(figures[0]))}. Compare averages over the same steps"
        )
        rows = [asdict(row) for figure_rows in figures for row in figure_rows]
        yield _finding("comparison-windows", "warning", case, message, rows)


def _recomputed(averages: Sequence[AverageRow]) -> Iterator[str]:
    """An average as printed, then over each of the windows on all sides."""
    yield f"Printed {averages[0].figure}: {_values_text([row for row in averages if row.printed])}"
    for window in dict.fromkeys(map(window_of, averages)):
        same = [row for row in averages if window_of(row) == window]
        if window[0] is not None and all(row.value is not None for row in same):
            yield f"Over {_window_text(same[0])}: {_values_text(same)}"


def _values_text(averages: Sequence[AverageRow]) -> str:
    """The value of each side; of several runs the smallest and the largest."""
    by_side = grouped((row.side, row.value) for row in averages if row.value is not None)
    ends = {side: dict.fromkeys((min(values), max(values))) for side, values in by_side.items()}
    unit = averages[0].unit or ""
    return ", ".join(f"{side} {' .. '.join(show(end, unit) for end in both)}" for side, both in ends.items())


def _window_text(average: AverageRow) -> str:
    if average.window_first is None:
        return "unknown steps"
    return f"steps {average.window_first}..{average.window_last}"


def _different_work(case: Case, rows: Mapping[tuple[str, str], FigureRow]) -> Iterator[FindingRow]:
    """Sides with steps that divide very differently into forward and backward."""
    forward, backward = rows.get(("step", "forward")), rows.get(("step", "backward"))
    if not forward or not backward or min(forward.base_value, forward.side_value) <= 0:
        return
    base, side = (backward.base_value / forward.base_value, backward.side_value / forward.side_value)
    if min(base, side) > 0 and max(base, side) / min(base, side) < _OTHER_WORK:
        return
    message = (
        f"backward / forward is {show(base, '', 3)} on {forward.base} and {show(side, '', 3)} on {forward.side}: "
        "the sides hardly do the same work, or their timers cover different parts of it. A faster step may have left "
        "work out. Compare forward and backward separately, and read the findings on each run"
    )
    yield _finding("comparison-other-work", "warning", case, message, {"base": base, "side": side})


def _unequal_steps(case: Case, rows: Sequence[FigureRow]) -> Iterator[FindingRow]:
    """Sides with steps that do more or less than the steps of the base."""
    for rate in RATES:
        ratios = {row.side: ratio for row, ratio in unequal_steps(rows, rate)}
        if ratios:
            texts = ", ".join(f"{show(ratio, '', 2)} times on {side}" for side, ratio in ratios.items())
            what = rate.removesuffix("_per_s")
            message = f"step times: a step has other numbers of {what}, {texts}. Compare {rate}"
            yield _finding("comparison-unequal-steps", "warning", case, message, {rate: ratios})
            return


def _other_steps(sides: Sequence[Side], case: Case) -> Iterator[FindingRow]:
    """Sides that print steps, but none that the base prints, such as the second half of a run."""
    base, *ends = (_first_and_last(side, runs) for side, runs in zip(sides, case.runs, strict=True))
    if base is None:
        return
    other_ends = {side.name: both for side, both in zip(sides[1:], ends, strict=True) if both}
    others = {name: (low, high) for name, (low, high) in other_ends.items() if low > base[1] or high < base[0]}
    if others:
        shown = {sides[0].name: base, **others}
        windows = "; ".join(f"{name} {low}..{high}" for name, (low, high) in shown.items())
        message = (
            f"no step is on both sides ({windows}): step times, losses and loads develop during a run, and the change "
            "may be this. Compare the same steps"
        )
        yield _finding("comparison-other-steps", "warning", case, message, shown)


def _first_and_last(side: Side, runs: Sequence[str]) -> tuple[int, int] | None:
    """The smallest and the largest step that some runs print."""
    rows = side.tables.rows("steps")
    steps = rows["step"][rows.known("step") & rows.one_of("run", runs)]
    return (int(steps.min()), int(steps.max())) if len(steps) else None


def _same_model(sides: Sequence[Side], case: Case, settings: Sequence[str]) -> Iterator[FindingRow]:
    """The same model printed on all sides, although their settings differ."""
    printouts = set()
    for side, runs in zip(sides, case.runs, strict=True):
        rows = side.tables.rows("runs")
        printouts |= set(rows.where(rows.one_of("run", runs))["printout"].tolist())
    incidental = incidental_test(settings for side in sides for settings in side.settings.values())
    names = [name for name in settings if not incidental(name)]
    if len(printouts) == 1 and None not in printouts and names:
        message = (
            f"the model printouts of all sides are identical, although {', '.join(names)} differ"
            f"{'s' * (len(names) == 1)}: the setting did not change the printed model, so the runs may be repeats of "
            "one program. Check that the setting took effect"
        )
        yield _finding("comparison-same-model", "note", case, message, {"settings": names})


def _same_runs(sides: Sequence[Side], case: Case) -> Iterator[FindingRow]:
    """A run that is on both sides."""
    for side, runs in zip(sides[1:], case.runs[1:], strict=True):
        shared = [side.labels[run] for run in runs if run in case.runs[0]]
        if shared:
            message = (
                f"{', '.join(shared)} is on both sides, {sides[0].name} and {side.name}: there a run is compared "
                "with itself. Name each run once"
            )
            yield _finding("comparison-same-run", "warning", case, message, {"runs": shared})


def _different_formats(case: Case, settings: Sequence[DifferingSetting]) -> Iterator[FindingRow]:
    """Logs of different programs."""
    for row in settings:
        if row.setting == "format":
            message = (
                "the logs have different formats, so a column may not measure the same thing on both sides. Check what "
                "each format measures (`perflog formats show NAME`)"
            )
            yield _finding("comparison-formats", "warning", case, message, row.record)


def _of_runs(sides: Sequence[Side], case: Case, linted: Mapping[str, Sequence[Finding]]) -> Iterator[FindingRow]:
    """The linter's findings on the runs of a case."""
    for side, runs in zip(sides, case.runs, strict=True):
        for found in (each for each in linted[side.name] if each.run in runs):
            place, text = (case.name, side.name, found.run), json.dumps(found.evidence)
            known = found.code, found.severity or RULES[found.code].severity
            yield FindingRow(*known, *place, found.message, found.action, found.first_line, text)
