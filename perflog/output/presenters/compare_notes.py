"""What a reader has to know about the verdicts of a comparison, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.explanations.message_sizes import sizes_that_change
from perflog.analysis.compare.explanations.speed_changes import SpeedSection
from perflog.analysis.compare.explanations.warmup_costs import WarmupRow
from perflog.analysis.compare.rows import FigureRow
from perflog.grouping import grouped
from perflog.metrics.causes.slow_steps import SLOW_STEPS
from perflog.metrics.compared import ALL
from perflog.tables.nulls import none_if_null
from perflog.units import count, plural, show, show_change

_LISTED = 3  # cases, and changes of a side, that are shown one by one
_SECTIONS = 4
_MARK = {True: "*", False: ""}


def figure_name(row: FigureRow) -> str:
    """Return the metric with the statistic, unless that is the median or the only value."""
    statistic = "" if row.statistic in ("median", "value") else f" {row.statistic}"
    name = f"{ALL} {row.kind}s" if row.metric == ALL else row.metric
    return f"{name}{statistic}{_MARK[row.derived]}"


def notes_on_verdict(compared: Comparison, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield what the verdict is about, where a change is that it hides, and how sure it is; `names`: of the sides."""
    yield from notes_on_result(compared)
    yield from notes_on_hidden_change(compared, names or compared.sides)
    yield from notes_on_speed(compared, names or compared.sides)
    yield from notes_on_drifts(compared, names or compared.sides)
    yield from notes_on_sizes(compared)
    yield from notes_on_history(compared)
    yield from notes_on_sessions(compared)
    yield from notes_on_single_runs(compared)


def notes_on_hidden_change(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield a change that the mean or another statistic of the headline metric shows and the median does not."""
    name_of = dict(zip(compared.sides, names, strict=True))
    by_side = grouped(((row.case, row.side), row) for row in compared.headlines)
    for (case, side), rows in by_side.items():
        median = next((row for row in rows if row.statistic == "median"), None)
        others = [row for row in rows if row.decision in ("regression", "improvement")]
        if median is not None and others and median not in others:
            changes = ", ".join(f"{show_change(row.change)} on the {row.statistic}" for row in others)
            same = "most steps take as long as before, some do not"
            what = same if median.decision == "equivalent" else "the median does not show the change"
            yield f"{what}: {changes}, {show_change(median.change)} on the median"
            yield from _longer_in_slow_steps(compared, case, side, name_of[side])


def _longer_in_slow_steps(compared: Comparison, case: str, side: str, name: str) -> Iterator[str]:
    """Yield what takes longer in slow steps that a side alone has, and on which rank."""
    for change in compared.causes:
        cause = change.cause
        if cause.subject == SLOW_STEPS and cause.name and (change.case, change.only_on) == (case, side):
            where = "" if cause.rank is None else f" of rank {cause.rank}"
            yield f"in slow steps of {name}, {cause.name}{where} takes longer"


def notes_on_speed(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield since which step a side is faster or slower, and how it compares with the base before and after."""
    name_of = dict(zip(compared.sides, names, strict=True))
    by_case = grouped((row.case, row) for row in compared.speed_records)
    for case, rows in islice(by_case.items(), _LISTED):
        where = f" in {case}" if case else ""
        by_side = grouped((row.side, row) for row in rows)
        for side, sections in by_side.items():
            if changed := [row for row in sections if row.change is not None]:
                texts = [_new_level(row) for row in changed[:_LISTED]]
                left = [f"and {count(len(changed) - _LISTED, 'more change')}"] if len(changed) > _LISTED else []
                yield f"{name_of[side]} changes during the run{where}: {'; '.join([*texts, *left])}"
        for side, sections in by_side.items():
            compared_sections = [row for row in sections if row.against_base is not None]
            if len(compared_sections) > 1:
                texts = [f"{show_change(row.against_base)} over steps {row.first_step} to {row.last_step}"
                         for row in compared_sections[:_SECTIONS]]  # fmt: skip
                left = [f"and {len(compared_sections) - _SECTIONS} more"] if len(compared_sections) > _SECTIONS else []
                base, figure = name_of[compared.sides[0]], sections[0].figure.replace("_", " ")
                yield f"{name_of[side]} against {base}{where}: {figure} {', '.join([*texts, *left])}"


def notes_on_drifts(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield by how much the speed of a side drifts, in its first run that does, where it has no levels."""
    name_of = dict(zip(compared.sides, names, strict=True))
    with_levels = {(row.case, row.side) for row in compared.speed_records if row.change is not None}
    drifts = [row for row in compared.finding_records if row.code == "drift" and row.side is not None]
    for (case, side), rows in islice(grouped(((row.case, row.side), row) for row in drifts).items(), _LISTED):
        if side is not None and (case, side) not in with_levels:
            where = f" in {case}" if case else ""
            yield f"{name_of[side]} drifts during the run{where}: {rows[0].message.partition(':')[0]}"


def _new_level(row: SpeedSection) -> str:
    """Return since which step runs of a side are at another level."""
    which = f" ({row.changed_runs} of {count(row.runs, 'run')})" if row.runs > 1 else ""
    values = f"{row.figure.replace('_', ' ')} {show(row.before, row.unit)} -> {show(row.after, row.unit)}"
    with_it = f", with it {row.with_it}" if row.with_it else ""
    return f"since step {row.first_step}{which}, {values}, {show_change(row.change)}{with_it}"


def notes_on_sizes(compared: Comparison) -> Iterator[str]:
    """Yield the sizes of messages that make the change of a collective's mean."""
    for found in sizes_that_change(compared.headlines, compared.row_records):
        at = found.first if found.first == found.last else f"{found.first} to {found.last}"
        others = f"the other {count(found.others, 'size')} {show_change(found.rest)}"
        yield f"the change is at messages of {at}: {show_change(found.change)}; {others} (medians)"


def what_the_warmup_costs(compared: Comparison) -> Iterator[str]:
    """Yield the time of the warm-up on each side, its change, and its excess over as many steady steps."""
    for case in compared.cases[:_LISTED]:
        rows = [row for row in compared.warmup_records if row.case == case.name]
        times = [f"{show(row.time_s, 's', 3)} on {row.side}{_against_base(row)}" for row in rows]
        extra = ", ".join(show(row.extra_s, "s", 3) for row in rows)
        if rows:
            where = f" in {case.name}" if case.name else ""
            yield f"the warm-up{where} takes {', '.join(times)}: {extra} more than the same number of steady steps"


def _against_base(row: WarmupRow) -> str:
    return f" ({signed_time(row.difference_s)})" if row.difference_s is not None else ""


def signed_time(seconds: float) -> str:
    """Return a difference of times with its sign: `+1.38 ms`."""
    return f"{'+' if seconds >= 0 else '-'}{show(abs(seconds), 's', 3)}"


def notes_on_result(compared: Comparison) -> Iterator[str]:
    """Yield which metric the verdict is about, where the formats declare it or the rate of clients is the limit."""
    if compared.result and compared.headlines and not compared.to_targets:
        leads = compared.headlines[0].metric
        if leads == compared.result and compared.is_limited_by_clients:
            yield f"the verdict is about {leads}: the rate of the clients limits the requests/s, not the server"
        elif leads == compared.result:
            yield f"the verdict is about {leads}: the format of these logs declares it as the result of a run"
        elif any(row.metric == compared.result for row in compared.row_records):
            yield (
                f"the result of such runs is {compared.result}; with one run per side its error is unknown, "
                f"so the verdict is about {leads}"
            )


def notes_on_history(compared: Comparison) -> Iterator[str]:
    """Yield the run-to-run variation of the headline metrics, and the repeats that it was estimated from."""
    by_side = grouped(
        ((row.case, row.side, row.history_runs), row) for row in compared.headlines if row.scope == "history"
    )
    for (case, side, runs), rows in by_side.items():
        where = ", ".join(x for x in (case, side if len(compared.sides) > 2 else "") if x)
        scatter = ", ".join(f"{figure_name(row)} {show(row.history_scatter, '1', 2)}" for row in rows)
        single = max(rows[0].base_runs, rows[0].side_runs) == 1
        source = f"{runs} other repeats" if single else f"both sides{f' and {runs} other repeats' if runs else ''}"
        yield (
            f"{'one run' if single else 'few runs'} per side{f' ({where})' if where else ''}; run-to-run variation, "
            f"estimated from {source} (standard deviation): {scatter}"
        )


def notes_on_sessions(compared: Comparison) -> Iterator[str]:
    """Yield whether the intervals of the headline metrics include the variation between sessions."""
    rows = [row for row in compared.headlines if row.sessions]
    sessions = "sessions (days, hosts or jobs)"
    for held in dict.fromkeys(row.sessions for row in rows):
        known = [row for row in rows if row.sessions == held and none_if_null(row.session_scatter) is not None]
        scatter = ", ".join(f"{figure_name(row)} {show(row.session_scatter, '1', 2)}" for row in known)
        if held == "same":
            yield f"both sides ran in the same {sessions}: the variation between sessions cancels"
        elif held == "held":
            if known and not any(row.session_scatter for row in known):
                yield f"the sides ran in different {sessions}, which differ no more than runs of one session do"
                continue
            variation = f" (standard deviation): {scatter}" if scatter else ""
            yield f"the sides ran in different {sessions}; the interval includes the variation between them{variation}"
        else:
            yield (
                f"the sides ran in different {sessions}: the interval includes only the variation within a session; "
                "the variation between sessions is unknown: run both sides in turns, or name runs of several "
                "sessions with --history"
            )


def notes_on_single_runs(compared: Comparison) -> Iterator[str]:
    """Yield what a second run per side would show; of step times about the mean."""
    rows = [row for row in compared.headlines if row.scope == "steps" and row.has_error]
    if rows:
        row = next((row for row in rows if row.statistic == "mean"), rows[0])
        several = f" ({figure_name(row)})" if len(rows) > 1 else ""
        advice = f"{row.advice}{several}" if compared.is_pair else "repeat the runs to measure it"
        yield f"one run per side does not show run-to-run variation; {advice}"


def counts(row: FigureRow) -> str:
    """Return runs, and steps of each; of the base and of the side where these differ."""
    runs = [row.base_runs, row.side_runs]
    steps = [row.base_steps // row.base_runs, row.side_steps // row.side_runs]
    texts = [_either(runs, "run"), *([_either(steps, "step")] if max(steps) > 1 else [])]
    return ", ".join(texts)


def counts_of_sides(row: FigureRow, names: Sequence[str]) -> str:
    """Return runs, and steps of each, in words: `5 runs of A, 3 of B; 90 steps each`; `names`: of the two sides."""
    texts = [_of_each(row.base_runs, row.side_runs, "run", names)]
    steps = row.base_steps // row.base_runs, row.side_steps // row.side_runs
    if max(steps) > 1:
        texts.append(_of_each(*steps, "step", names))
    same = f"{counts(row)} per side"
    if row.base_runs == row.side_runs:
        return same if len(set(steps)) == 1 else f"{count(row.base_runs, 'run')} per side; {texts[1]}"
    return "; ".join(texts)


def _of_each(base: int, side: int, noun: str, names: Sequence[str]) -> str:
    return f"{count(base, noun)} each" if base == side else f"{count(base, noun)} of {names[0]}, {side:,} of {names[1]}"


def _either(counts: Sequence[int], noun: str) -> str:
    return f"{' / '.join(map(str, dict.fromkeys(counts)))} {plural(noun, max(counts))}"
