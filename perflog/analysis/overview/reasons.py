"""Reasons in sentences: why a run is slower than another one, what binds it, and how much time it could save."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perflog.analysis.compare.explanations.operators import moved_between, moved_text, time_basis
from perflog.analysis.overview.facts import (
    case_facts,
    device_facts,
    log_facts,
    reward_facts,
    scaling_facts,
    server_facts,
    slow_steps,
)
from perflog.analysis.overview.facts.host_operators import host_operator_sentences, host_time_of_steps
from perflog.analysis.overview.facts.stuck import stuck
from perflog.analysis.overview.facts.telemetry_facts import states_of_devices, unlike_device_facts
from perflog.analysis.overview.facts.what_if import slowdown_of_job
from perflog.analysis.overview.headline import headline
from perflog.analysis.overview.parts import parts_of_both, percent
from perflog.metrics import Options, Tables, breakdown, headroom
from perflog.metrics.causes import bound_by_rank
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED
from perflog.metrics.traces.work_tree import OUTSIDE
from perflog.units import show

_HELD_UP = ("wait", "communication")
_TELLING = 0.03  # of the whole: smaller differences and gains are no reason
_MOST_GAINS = 3
_MOST_OPERATORS = 3
_OF_NO_PART = {OUTSIDE: "no range", UNTIMED: "untimed parts of the step"}


def why_slower(tables: Tables, base: str, slower: str, marks: tuple[str, str], options: Options) -> Iterator[str]:
    """Yield why a run takes longer than another one: the part of the step that grew most, and waits that did not."""
    rows = breakdown.table(tables, options)
    rows = rows[rows["of"] == "step"]
    both = [rows[rows["run"] == run] for run in (base, slower)]
    times = parts_of_both(tables, (base, slower), options) if all(map(len, both)) else []
    if any(times):
        wholes = [float(each["whole_s"].iloc[0]) for each in both]
    else:
        if moved := moved_between(tables, base, slower, _MOST_OPERATORS):
            what = f"GPU time by operator, {marks[0]} -> {marks[1]}, {time_basis(moved[0])}"
            yield f"{what}: {'; '.join(map(moved_text, moved))}."
            return
        on_host = [found for run in (base, slower) if (found := host_time_of_steps(tables, run, options))]
        if len(on_host) < len(both):
            timed = any(len(tables.rows_of(name, run)) for name in ("phases", "events") for run in (base, slower))
            lacks = "no part of a step is timed in both" if timed else "it times nothing inside a step"
            yield f"Why {marks[1]} is slower than {marks[0]} is not in the log: {lacks}."
            return
        wholes, times = [whole for whole, _ in on_host], [range_times for _, range_times in on_host]
    growth = wholes[1] - wholes[0]
    if growth < _TELLING * wholes[0]:
        return
    names = dict.fromkeys([*times[0], *times[1]])
    name = max(names, key=lambda n: times[1].get(n, 0.0) - times[0].get(n, 0.0))
    before, after = (each.get(name, 0.0) for each in times)
    untimed = re.fullmatch(r"untimed in (.*)", name)
    part = f"untimed parts of {untimed[1]}" if untimed else _OF_NO_PART.get(name, name)
    more, change = after - before, f"({show(before, 's', 3)} -> {show(after, 's', 3)})"
    text = f"Why {marks[1]} is slower than {marks[0]}: the mean step takes {show(growth, 's', 3)} more"
    if more > (1 + _TELLING) * growth:
        yield f"{text}: +{show(more, 's', 3)} in {part} {change}, -{show(more - growth, 's', 3)} elsewhere."
    else:
        yield f"{text}, {percent(more / growth)} of it in {part} {change}."
    waits = [sum(float(s) for s in each["time_s"][each["kind"].isin(_HELD_UP)]) for each in both]
    if waits[0] and abs(waits[1] - waits[0]) < _TELLING * growth:
        yield f"Exposed wait and communication are unchanged ({show(waits[1], 's', 3)})."


def time_saved(tables: Tables, run: str, options: Options, mark: str | None = None) -> Iterator[str]:
    """Yield how much time a run could save at most, one ideal at a time. `mark`: its mark, if there are other runs."""
    rows = headroom.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["gain"] >= _TELLING)]
    rows = rows[~rows["of"].isin([TRACED_STEP, "trace"])].head(_MOST_GAINS)  # the parts of a trace say it
    if not len(rows):
        return
    first, *others = rows.to_dict("records")
    ideal, now = (show(first[name], "s", 3) for name in ("ideal_s", "time_s"))
    whole = f"{'mean ' * (first['of'] == 'step')}{first['of']}{f' of {mark}' if mark else ''}"
    text = f"At best, {_under(first['ideal'])} the {whole} would take {ideal} instead of {now}"
    text += f" (-{percent(first['gain'])})"
    yield "; ".join([text, *(f"{_under(row['ideal'])} -{percent(row['gain'])}" for row in others)]) + "."


def _under(ideal: str) -> str:
    """Return an ideal as a condition: `with equal ranks`, `at the peak of the GPU`."""
    return ideal if ideal.startswith("at ") else f"with {ideal}"


# --- bottlenecks -----------------------------------------------------------------------------------------------------

_FACTS = (
    device_facts.late_rank,
    device_facts.unequal_stages,
    device_facts.idle,
    device_facts.largest_work,
    device_facts.critical,
    device_facts.ranges,
    device_facts.launching,
    device_facts.host_ranges,
    device_facts.operators,
    device_facts.memory,
    device_facts.held_by_allocator,
    log_facts.profile,
    log_facts.held_up,
    states_of_devices,
    unlike_device_facts,
    slow_steps.slow_steps,
    log_facts.between_steps,
    scaling_facts.schedules,
    log_facts.job_states,
    log_facts.collective,
    log_facts.loads,
    host_operator_sentences,
    log_facts.places,
    reward_facts.rewards,
    server_facts.start,
    server_facts.latencies,
    server_facts.client_rate,
    server_facts.server_load,
    server_facts.prefill_load,
    scaling_facts.scaling_of_tables,
    case_facts.measured_cases,
    case_facts.variants,
)
"""What says nothing about what binds the run."""


def bottleneck(tables: Tables, run: str, options: Options, is_known: bool = False) -> list[str]:
    """Return sentences on what holds a run up; one that says so if its log does not show it, unless `is_known`."""
    found = list(_sentences(tables, run, options))
    return found if found or is_known else list(log_facts.unknown_causes(tables, run, options))


def bottlenecks(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield sentences on what holds a run up; none if its log does not show it."""
    yield from _sentences(tables, run, options)


def late_rank_of(tables: Tables, run: str, options: Options, mark: str) -> Iterator[str]:
    """Yield the rank that binds a run, and what it does longer: what waits for it grows, and says nothing of why."""
    if bound_by_rank(tables, run, options):
        for kind in (headline, device_facts.late_rank):
            yield from (f"{mark}: {text}" for text in kind(tables, run, options))


def _sentences(tables: Tables, run: str, options: Options) -> Iterator[str]:
    kinds = (stuck, slowdown_of_job, headline, *_FACTS)
    return (text for kind in kinds for text in kind(tables, run, options))
