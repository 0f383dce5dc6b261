"""Pauses: time in which a run does no steps, because it validates or writes a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.vocabulary import EVALUATIONS
from perflog.metrics.compared import ComparedColumn
from perflog.metrics.directions import letter_words
from perflog.metrics.options import Options
from perflog.metrics.possible import fits, impossible
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.tables.columns import NULL, Rows

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("kind", meaning="validation, checkpoint, or both where one gap of the clock holds both"),
    MetricColumn("known_by", meaning="printed: the log prints how long they take; moments: their starts and ends; "
                 "clock: the run's clock advances between two step lines with a validation or checkpoint between them"),
    MetricColumn("n", meaning="number of pauses"),
    MetricColumn("mean_s", "s", "lower", "mean"),
    MetricColumn("max_s", "s", "lower", "longest"),
    MetricColumn("total_s", "s", "lower", "sum"),
    MetricColumn("share", "1", "lower", "share of the run's time; null if the log does not show this time"),
    MetricColumn("run_s", "s", None, "the run's time: its clock, else as printed at its end, else its printed step "
                 "times and all pauses", brief=False),
    MetricColumn("first_line", meaning="line that shows the first pause", brief=False),
    MetricColumn("last_line", meaning="line that shows the last pause", brief=False),
)  # fmt: skip

_KINDS = {
    **dict.fromkeys(EVALUATIONS, "validation"),
    **dict.fromkeys(("checkpoint", "checkpoints", "checkpointing", "ckpt"), "checkpoint"),
}
_DURATION = frozenset("time runtime duration elapsed seconds total wall save write latency".split())
_OF_RUN = ("train_runtime", "train_time", "training_time", "total_training_time", "total_train_time")
"""Names of the time of a run with its pauses."""
_START, _ENDS = "start", ("start", "stop", "end")
_FEWEST = 4  # readings of the clock
_NEAR = 8  # step lines before and after a gap, from which the usual step time is estimated
_CLEAR, _LEAST = 5.0, 0.01  # times their scatter and their step time: a shorter gap may be chance
_MOST = 0.5  # smallest share of clear gaps among the gaps with one kind of pause: else the clock stops during pauses


class _Pause(NamedTuple):
    kind: str
    line: int
    seconds: float


@metric(
    title="pauses",
    needs=("runs",),
    columns=_COLUMNS,
    main="total_s",
    formula="printed durations; end - start of printed moments; else, between two step lines with a validation or "
    "checkpoint between them, time of the clock - steps x step time, if this is over five times the scatter of the "
    "steps around in most of these places",
    source="own; the step time is the printed one, else the median around the gap",
    compares=(ComparedColumn("run", "{kind} pause", "mean_s", by=("kind",)),),
)
def pauses(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Number and time of the validations and checkpoints of each run, and the share of the run's time.

    Durations that the log prints come first, then starts and ends, then gaps of the clock: a run has rows of one source
    only, since all show the same pauses. A duration that is printed again and again without a step in between is the
    duration of a batch, and no pause. A clock that stops during a validation shows no pause.
    """
    return pause_rows(tables)


def pause_rows(tables: Tables) -> list[dict[str, object]]:
    """Return the rows of metric `pauses`, without pandas."""
    values, phases, steps = (tables.rows(name).by("run") for name in ("values", "phases", "steps"))
    rows: list[dict[str, object]] = []
    whole = _times_of_runs(tables)
    for run, elapsed in tables.rows("runs").records("run", "elapsed_s"):
        run_rows = [by_run.get(run) for by_run in (values, phases, steps)]
        if run_rows[0] is None and run_rows[1] is None:
            continue
        known_by, run_pauses = _pauses(*run_rows)
        run_s = _run_time(elapsed if elapsed > 0 else whole.get(run, 0.0), run_rows[2], run_pauses)
        for kind in dict.fromkeys(pause.kind for pause in run_pauses):
            seconds = np.array([pause.seconds for pause in run_pauses if pause.kind == kind])
            lines = [pause.line for pause in run_pauses if pause.kind == kind]
            rows.append({
                "run": run, "kind": kind, "known_by": known_by, "n": len(seconds),
                "mean_s": float(seconds.mean()), "max_s": float(seconds.max()), "total_s": float(seconds.sum()),
                "run_s": run_s, "share": _share(float(seconds.sum()), run_s),
                "first_line": min(lines), "last_line": max(lines),
            })  # fmt: skip
    return rows


def _times_of_runs(tables: Tables) -> dict[str, float]:
    """The time of each run that prints it at its end, by name."""
    rows = tables.rows("summaries")
    rows = rows.where(rows.one_of("key", _OF_RUN) & rows.one_of("unit", {"s"}) & rows.known("value"))
    return dict(rows.records("run", "value"))


def _share(total: float, run_s: float | None) -> float | None:
    """The share of pauses in the time of a run; None if it is not known, or they cannot all be in it."""
    return total / run_s if run_s and fits(total, run_s) else None


def _pauses(values: Rows | None, phases: Rows | None, steps: Rows | None) -> tuple[str, list[_Pause]]:
    """The pauses of a run, and how they are known."""
    printed = [*_printed(values, "key", "value", steps), *_printed(phases, "phase", "time_s", steps)]
    if printed:
        return "printed", printed
    moments = list(_moments(values)) if values is not None else []
    if moments:
        return "moments", moments
    return "clock", list(_gaps(values, steps)) if values is not None and steps is not None else []


def pause_lines(
    values: Rows | None, phases: Rows | None, steps: Rows | None
) -> Iterator[tuple[str, int, float | None]]:
    """Yield the kind of each line that reports a pause, the line, and the seconds of the pause if it prints them."""
    found = [*_printed(values, "key", "value", steps), *_printed(phases, "phase", "time_s", steps)]
    found = found or (list(_moments(values)) if values is not None else [])
    yield from ((pause.kind, pause.line, pause.seconds) for pause in found)
    if values is None:
        return
    for key in values.counts("key"):
        if kind := pause_kind(key):
            yield from ((kind, line, None) for line in values["line"][values.one_of("key", {key})].tolist())


def pause_kind(name: str) -> str | None:
    """Return the kind of pause that a name speaks of."""
    return next((_KINDS[word] for word in letter_words(name) if word in _KINDS), None)


def _printed(rows: Rows | None, name: str, column: str, steps: Rows | None) -> Iterator[_Pause]:
    """Durations by name. Of ranks that each print one between the same steps, the longest is the pause."""
    if rows is None:
        return
    for key in rows.counts(name):
        kind = pause_kind(key)
        if kind is None or not _DURATION.issuperset(word for word in letter_words(key) if word not in _KINDS):
            continue
        key_rows = rows.where(rows.one_of(name, {key}))
        is_time = (key_rows[column] > 0) & ~impossible("time_s", key_rows[column])  # a moment since 1970 is none
        key_rows = key_rows.where(is_time)
        if name == "key":
            key_rows = key_rows.where(key_rows.one_of("unit", {"s"}))
        between: dict[int, dict[int, _Pause]] = {}  # by number of step lines before, then by rank
        lines = key_rows["line"] if steps is None else np.searchsorted(np.sort(steps["line"]), key_rows["line"])
        for place, rank, line, seconds in zip(
            lines.tolist(), key_rows["rank"].tolist(), key_rows["line"].tolist(), key_rows[column].tolist(), strict=True
        ):
            if rank in between.setdefault(place, {}):
                break  # of a batch of the validation
            between[place][rank] = _Pause(kind, line, seconds)
        else:
            for ranks in between.values():
                yield max(ranks.values(), key=lambda pause: pause.seconds)


def _moments(values: Rows) -> Iterator[_Pause]:
    """Times between a moment `eval_start` and the next `eval_stop`, by name."""
    values = values.where(values.one_of("unit", {"s"}))
    moments = {key: letter_words(key) for key in values.counts("key")}
    moments = {key: words for key, words in moments.items() if words and words[-1] in _ENDS and pause_kind(key)}
    begun: dict[str, tuple[float, int]] = {}  # time and line, by the rest of the name
    for key, line, value in values.where(values.one_of("key", moments)).records("key", "line", "value"):
        *subject, end = moments[key]
        name = " ".join(subject)
        if end == _START:
            begun[name] = value, line
        elif name in begun:
            start, first_line = begun.pop(name)
            if value >= start and not impossible("time_s", np.array([value - start]))[0]:
                yield _Pause(_KINDS[next(word for word in subject if word in _KINDS)], first_line, value - start)


def _gaps(values: Rows, steps: Rows) -> Iterator[_Pause]:
    """Times by which the clock runs ahead of the steps, between step lines with a validation or checkpoint between."""
    lines, numbers, clock, step_s = _readings(steps)
    if len(lines) < _FEWEST:
        return
    kinds: dict[int, set[str]] = {}  # by index of the gap
    for key in values.counts("key"):
        if kind := pause_kind(key):
            for place in (np.searchsorted(lines, values["line"][values.one_of("key", {key})]) - 1).tolist():
                if 0 <= place < len(lines) - 1:
                    kinds.setdefault(place, set()).add(kind)
    done = np.diff(numbers)
    a_step = np.diff(clock) / done
    gaps: dict[str, list[_Pause | None]] = {}
    for place in sorted(kinds):
        around = [i for i in range(max(0, place - _NEAR), min(len(done), place + _NEAR + 1)) if i not in kinds]
        if not around:
            continue
        usual = np.median(a_step[around])
        scatter = np.median(np.abs(a_step[around] - usual))
        usual = usual if np.isnan(step_s[place + 1]) else step_s[place + 1]
        longer = (a_step[place] - usual) * done[place]
        is_long = longer > max(_CLEAR * scatter, _LEAST * usual) * done[place]
        kind = " and ".join(sorted(kinds[place], reverse=True))
        gaps.setdefault(kind, []).append(_Pause(kind, int(lines[place + 1]), float(longer)) if is_long else None)
    for candidates in gaps.values():
        clear = [pause for pause in candidates if pause]
        if len(clear) > _MOST * len(candidates):
            yield from clear


def _readings(steps: Rows) -> tuple[Ints, Ints, Floats, Floats]:
    """Line, step, clock and printed step time of the step lines of the first rank, where clock and steps go up."""
    steps = steps.where((steps["copy"] == 1) & (steps["step"] != NULL))
    if len(steps):
        steps = steps.where(steps["rank"] == steps["rank"].min())
    by_clock = steps.where(steps.known("elapsed_s"))
    if len(by_clock) >= _FEWEST:
        steps, clock = by_clock, by_clock["elapsed_s"]
    else:
        steps = steps.where(steps.known("printed_ns"))
        clock = steps["printed_ns"] / 1e9
    order = np.argsort(steps["line"], kind="stable")
    number, clock = steps["step"][order], clock[order]
    ahead = np.append(True, number[1:] > np.maximum.accumulate(number)[:-1])[: len(number)]
    if (np.diff(clock[ahead]) < 0).any():
        ahead = np.zeros(len(ahead), np.bool_)
    step_s = np.where(~steps.known("step_time_by"), steps["step_time_s"], np.nan)[order]
    return steps["line"][order][ahead], number[ahead], clock[ahead], step_s[ahead]


def _run_time(elapsed_s: float, steps: Rows | None, run_pauses: list[_Pause]) -> float | None:
    """The time of a run: its clock, else its step times and the pauses, if each step is printed; else None."""
    if elapsed_s > 0:
        return elapsed_s
    if steps is None:
        return None
    timed = steps.where((steps["copy"] == 1) & steps.known("step_time_s", "steps_averaged"))
    if not len(timed):
        return None
    timed = timed.where(timed["rank"] == timed["rank"].min())
    if not _covers_all(steps, timed):
        return None
    timed = timed.where(np.argsort(timed["line"], kind="stable"))
    seconds, covers = timed["step_time_s"], timed["steps_averaged"]
    gaps = np.searchsorted(timed["line"], [pause.line for pause in run_pauses])
    sums = np.bincount(gaps, [pause.seconds for pause in run_pauses], minlength=len(timed) + 1)
    outside = np.where(include_pauses(seconds, sums[:-1] / covers), 0.0, sums[:-1])
    return float((seconds * covers).sum() + outside.sum() + sums[-1])


def include_pauses(seconds: Floats, pauses: Floats) -> Mask:
    """Flag the times of steps that include the pauses before them: they are nearer to the usual step without these.

    The first step may be long for other reasons.
    """
    rest, usual = seconds - pauses, np.median(seconds)
    flags: Mask = (rest > 0) & (np.abs(rest - usual) < np.abs(seconds - usual))
    flags[:1] = False
    return flags


def _covers_all(steps: Rows, timed: Rows) -> bool:
    """Return whether timed lines cover all steps from the first to the last, in each epoch that counts from new."""
    known = steps.where(steps.known("step"))
    for epoch in np.unique(known["epoch"]).tolist():
        numbers, covered = known["step"][known["epoch"] == epoch], timed["steps_averaged"][timed["epoch"] == epoch]
        if covered.sum() < numbers.max() - numbers.min() + 1:
            return False
    return True
