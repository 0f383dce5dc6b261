"""Hosts of one job, each with a log of its own in which the same steps are printed.

A loss is the mean over all ranks, so the logs print the same losses of the same steps at the same times. Such runs are
one run, and no repeats. So are the log of a program and a document or a file of metrics that it writes: both have the
same measured times, or the same losses (`equal_curves`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, combinations

import numpy as np

from perflog.analysis.equal_curves import decimals_of, equal_curves
from perflog.arrays import Floats, Ints
from perflog.log import Log
from perflog.metrics import Tables
from perflog.metrics.attempts import job_id
from perflog.metrics.run_tables import computed_once
from perflog.parsing.match.line_stamps import go_in_step
from perflog.tables.columns import Rows
from perflog.tables.schema import NO_DATE
from perflog.units import plural

_EQUAL_TIMES, _PRECISE = 2, 5  # times that two logs of a run have in common, and their digits
_MOST_TIMES, _MOST_LOGS = 1000, 50  # of a run that is compared, and with one time: more are of steps, or settings

_EQUAL_RESULTS, _RESULT_DIGITS = 4, 4  # results of a benchmark with equal values, and their digits
_MOST_RESULTS, _ROUNDING = 0.9, 0.51  # of the results that both print; of the last digit

_EQUAL_STEPS, _STEP_DIGITS = 10, 4  # steps with equal times, and digits of these
_EQUAL_SHARE = 0.25  # of the steps that both print: the two may disagree about the others
_DIGITS = 12  # of a double that are printed
_NOT_BY_CHANCE = 2  # times as many steps have equal times as a step of one log and the next of the other

_MEASURED = ("loss", "tflops", "mfu", "tokens_per_s", "samples_per_s")
"""Columns of `steps` that show how much a recording knows."""

_EQUAL_LOSSES = 10
"""Different losses that logs of one job have in common. Losses of other jobs may be equal in a few steps."""


@computed_once
def run_of_hosts(tables: Tables) -> dict[str, str]:
    """Return the run that represents each run of another host of its job.

    It is the run with the most columns of steps, of equals the run of the longest log, else the first.

    Runs that represent others, and runs of one log alone, are not in it.
    """
    if len(set(tables.rows("runs")["log_sha256"].tolist())) < 2:
        return {}
    members: dict[str, list[str]] = {}
    for one, other in same_runs(tables):
        first = next((run for run, runs in members.items() if one in runs), one)
        members.setdefault(first, [first]).append(other)
    order, steps = tables.run_order(), tables.counts("steps")
    steps_of_log: dict[str, int] = {}
    for run, number in steps.items():
        log = run.partition("-")[0]
        steps_of_log[log] = steps_of_log.get(log, 0) + number
    found: dict[str, str] = {}
    numbered = tables.rows("steps").where(tables.rows("steps").known("step")).counts("run") if members else {}
    for runs in members.values():
        runs.sort(key=order.__getitem__)
        leader = max(
            runs,
            key=lambda run: (_columns(tables, run), steps_of_log.get(run.partition("-")[0], 0), run in numbered),
        )
        found |= {run: leader for run in runs if run != leader}
    if not found:
        return found
    # Two longest logs may have more losses in common than the first ones of their hosts.
    others = run_of_hosts(tables.only([run for run in order if run not in found]))
    return {run: others.get(leader, leader) for run, leader in found.items()} | others


def _columns(tables: Tables, run: str) -> int:
    """Return how many columns of steps a run prints, and with them the phases. A derived time is none."""
    rows = tables.rows_by_run("steps").get(run)
    if rows is None:
        return 0
    printed = sum(bool(rows.known(name).any()) for name in _MEASURED)
    is_timed = bool((rows.known("step_time_s") & ~rows.known("step_time_by")).any())
    return printed + is_timed + (run in tables.rows_by_run("phases"))


def same_runs(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs of two logs that are one run, each by its own evidence."""
    return chain(
        equal_losses(tables), equal_times(tables), equal_steps(tables), equal_curves(tables), equal_results(tables)
    )


def hosts_in_words(log: Log, other_hosts: Mapping[str, str]) -> str:
    """Return how many logs there are beside those that have a row."""
    logs = {key.id: key.sha256 for key in log.run_keys}
    number = len({logs[run] for run in other_hosts})
    jobs = {logs[leader] for leader in other_hosts.values()}
    return f"{number} more {plural('log', number)} of the same {plural('job', len(jobs))}"


def without_other_hosts(log: Log, tables: Tables) -> Log:
    """Return a log with each job once, in the run that represents its hosts."""
    others = run_of_hosts(tables)
    return log.select(*(key for key in log.run_keys if key.id not in others)) if others else log


def equal_losses(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs that print the same losses of the same steps at the same times.

    Repeats with one seed print the same losses too, but one after the other, or without a clock. Logs in which the same
    rank prints, or with other numbers of ranks or job ids, are of other jobs.
    """
    facts = {
        row["run"]: (row["world_size"], job_id(row["config"]))
        for row in tables.rows("runs").dicts("run", "world_size", "config")
    }
    failures = tables.rows("failures")
    labelled = failures.where(failures.known("rank") & failures.one_of("rank_by", ["label"])).by("run")
    ranks = {run: set(rows["rank"].tolist()) for run, rows in labelled.items()}

    def may_be_one(one: str, other: str) -> bool:
        pairs = zip(facts[one], facts[other], strict=True)
        alike = (mine is None or its is None or mine == its for mine, its in pairs)
        return all(alike) and ranks.get(one, set()).isdisjoint(ranks.get(other, ()))

    alike: dict[tuple[str, int, float], list[tuple[int, str, Rows]]] = {}
    for run, rows in tables.rows_by_run("steps").items():
        printed = rows.where(rows.known("loss") | rows.nans("loss"))  # jobs with and without a NaN are two
        timed = printed.where(printed.known("step", "printed_ns", "clock"))
        timed = timed.where(np.unique(timed["step"], return_index=True)[1])
        clocks = {*timed.counts("clock")}
        if len(timed) < _EQUAL_LOSSES or len(clocks) > 1 or NO_DATE in clocks:
            continue
        key = clocks.pop(), int(timed["step"][0]), float(timed["loss"][0])
        alike.setdefault(key, []).append((int(timed["printed_ns"][0]), run, timed))
    for members in alike.values():
        jobs_at: list[tuple[str, Rows]] = []
        for begin, run, timed in sorted(members, key=lambda member: member[0]):
            # Of thousands of repeats only those that go on at this time are compared.
            jobs_at = [(one, its) for one, its in jobs_at if its["printed_ns"][-1] >= begin]
            one = next((one for one, its in jobs_at if may_be_one(one, run) and _are_one_job(its, timed)), None)
            if one is None:
                jobs_at.append((run, timed))
            else:
                ranks.setdefault(one, set()).update(ranks.get(run, ()))
                facts[one] = (facts[one][0] or facts[run][0], facts[one][1] or facts[run][1])
                yield one, run


def equal_times(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs of two logs that print the same measured times, as a log and the state that a program saves.

    Two runs never take equally long to the last of five digits, so that a few such times show one run. The state has
    another format than the log: two logs of one format are a copy, or repeats of which a few times are equal.
    """
    format_of = dict(tables.rows("runs").where(tables.rows("runs").known("format")).records("run", "format"))
    runs_of: dict[tuple[str, float], dict[str, None]] = {}
    counts: Counter[str] = Counter()
    for name in ("values", "summaries"):
        for run, rows in tables.rows_by_run(name).items():
            times = rows.where(rows.one_of("unit", {"s"}) & rows.known("value"))
            if len(times) > _MOST_TIMES:
                continue
            precise = {(key, value) for key, value in times.records("key", "value") if _digits(value) >= _PRECISE}
            counts[run] += len(precise)
            for each in precise:
                runs_of.setdefault(each, {})[run] = None
    shared = Counter(pair for runs in runs_of.values() for pair in combinations(runs, 2) if len(runs) <= _MOST_LOGS)
    joined: set[str] = set()
    for (one, other), number in shared.items():
        is_of_two = one.partition("-")[0] != other.partition("-")[0] and other not in joined
        is_of_two &= one not in format_of or format_of[one] != format_of.get(other)
        if is_of_two and number >= max(_EQUAL_TIMES, min(counts[one], counts[other]) / 2):
            joined.add(other)
            yield one, other


def equal_results(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs without steps that print the same results, rounded in their own way.

    A benchmark prints its results, and writes them to a document with more digits.
    """
    format_of = dict(tables.rows("runs").where(tables.rows("runs").known("format")).records("run", "format"))
    stepping = tables.counts("steps")
    results: dict[str, dict[str, float]] = {}
    for name in ("values", "summaries"):
        for run, rows in tables.rows_by_run(name).items():
            if run in stepping or run not in format_of or len(rows) > _MOST_TIMES:
                continue
            known = rows.where(rows.known("key", "value")).records("key", "value")
            results.setdefault(run, {}).update((key.casefold(), value) for key, value in known)
    if len(results) > _MOST_LOGS:
        return
    joined: set[str] = set()
    for one, other in combinations(results, 2):
        is_of_two = one.partition("-")[0] != other.partition("-")[0] and other not in joined
        if is_of_two and format_of[one] != format_of[other] and _have_equal_results(results[one], results[other]):
            joined.add(other)
            yield one, other


def _have_equal_results(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    pairs = [(one[key], other[key]) for key in one.keys() & other.keys()]
    precise = [pair for pair in pairs if min(map(_digits, pair)) >= _RESULT_DIGITS]
    equal = sum(
        abs(a - b) <= _ROUNDING * 10.0 ** -min(decimals_of(a, _DIGITS), decimals_of(b, _DIGITS)) for a, b in precise
    )
    return equal >= max(_EQUAL_RESULTS, _MOST_RESULTS * len(precise))


def equal_steps(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs of two logs and formats that print the same times of the same steps.

    Two runs on steady devices have equal times too: at a step as often as at a step and the next one.
    """
    format_of = dict(tables.rows("runs").where(tables.rows("runs").known("format")).records("run", "format"))
    if len(set(format_of.values())) < 2:
        return
    found = ((run, _times_of_steps(rows)) for run, rows in tables.rows_by_run("steps").items())
    timed = {run: times for run, times in found if len(times[0])}
    if len(timed) > _MOST_LOGS:
        return
    joined: set[str] = set()
    for one, other in combinations(timed, 2):
        is_of_two = one.partition("-")[0] != other.partition("-")[0] and other not in joined
        if not is_of_two or format_of.get(one) == format_of.get(other):
            continue
        (steps, times), (other_steps, other_times) = timed[one], timed[other]
        common, places, other_places = np.intersect1d(steps, other_steps, assume_unique=True, return_indices=True)
        mine, its = times[places], other_times[other_places]
        is_equal = mine == its
        least = max(_EQUAL_SHARE * len(common), _NOT_BY_CHANCE * (mine[:-1] == its[1:]).sum(), 1)
        if is_equal.sum() >= least and len(np.unique(mine[is_equal])) >= _EQUAL_STEPS:
            joined.add(other)
            yield one, other


def _times_of_steps(rows: Rows) -> tuple[Ints, Floats]:
    """Return steps and their printed times, rounded to four digits; none if a step has several, or times have fewer."""
    printed = rows.where(rows.known("step") & (rows["step_time_s"] > 0) & ~rows.known("step_time_by"))
    steps, times = printed["step"], printed["step_time_s"]
    if len(np.unique(steps)) < len(times) or len(times) < _EQUAL_STEPS:
        return steps[:0], times[:0]
    if np.median([_digits(time) for time in times[:_MOST_TIMES]]) < _STEP_DIGITS - 1:  # a last zero is no digit
        return steps[:0], times[:0]
    unit = 10.0 ** (np.floor(np.log10(times)) - (_STEP_DIGITS - 1))
    return steps, np.round(times / unit) * unit


def _digits(value: float) -> int:
    """Return how many digits a value has that are not zeros at its ends."""
    return len(f"{value:.12g}".partition("e")[0].replace(".", "").strip("0"))


def _are_one_job(one: Rows, other: Rows) -> bool:
    """Return whether two runs print equal losses of the same steps, at times that do not drift apart.

    Clocks of two hosts may differ by up to a step.
    """
    _, mine, theirs = np.intersect1d(one["step"], other["step"], return_indices=True)
    losses, times = one["loss"][mine], one["printed_ns"][mine]
    if len(np.unique(losses)) < _EQUAL_LOSSES or not np.array_equal(losses, other["loss"][theirs], equal_nan=True):
        return False
    return go_in_step(times, other["printed_ns"][theirs])
