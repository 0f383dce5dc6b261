"""Run groups, the rows of an overview: single runs, or all repeats of a configuration where there are many runs.

Runs with the same settings that differ too much are no repeats: a sentence says so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from perflog.analysis.repeats import ROUND, Difference, rounds
from perflog.analysis.run_names import letters, run_marks, run_names, without_common_folder
from perflog.grouping import grouped
from perflog.log import Log, RunKey
from perflog.metrics.attempts import changes_with_a_restart
from perflog.settings.name_settings import settings_of_runs
from perflog.settings.run_settings import Settings, telling_settings, values_in_order
from perflog.units import count, show

SINGLE_RUNS = 10
"""Up to this number of runs, each is a row of its own."""

REPEATS = 5
"""From this number on, logs of one run each that no setting or label tells apart are a row together."""

NOT_PRINTED = "-"
"""The value of a setting that a run does not print."""


class RunGroup(Struct, frozen=True):
    """A row of an overview.

    `mark`: #3 for the third run of the only log, else A, B, ... `name`: label, or name of the log or of its folder.
    `settings`: the ones in which the groups differ, as strings. `hosts`: runs of other hosts of the same job, which are
    no repeats. `is_job`: whether the runs are attempts of one job, which are no repeats either.
    """

    mark: str
    name: str
    runs: tuple[str, ...]
    settings: Mapping[str, str]
    hosts: tuple[str, ...] = ()
    is_job: bool = False


def run_groups(log: Log) -> list[RunGroup]:
    """Return the rows of an overview of these runs, in the order of the runs."""
    rows = log.arrow("runs").to_pylist()
    settings = settings_of_runs(rows)
    job_of = {row["run"]: row.get("job") for row in rows}
    if settings and all(job_of.values()):  # attempts: what one of them does not print is as in the others
        shared = set[str].intersection(*map(set, settings.values()))
        settings = {
            run: {name: value for name, value in of.items() if name in shared and not changes_with_a_restart(name)}
            for run, of in settings.items()
        }
    keys = [key for key in log.run_keys if key.id in settings]
    job_runs = {runs[0].id: runs for runs in grouped((job_of[key.id] or key.id, key) for key in keys).values()}
    if 1 < len(job_runs) <= SINGLE_RUNS and len(job_runs) < len(keys):  # a row for each job
        keys = [runs[0] for runs in job_runs.values()]
    else:
        job_runs = {}
    telling = _telling([settings[key.id] for key in keys])
    values = {key.id: {name: settings[key.id].get(name, NOT_PRINTED) for name in telling} for key in keys}
    if len(telling) == 1 and len({key.sha256 for key in keys}) == len(keys):  # logs of a sweep, in its order
        order = values_in_order({values[key.id][telling[0]]: None for key in keys})
        keys = sorted(keys, key=lambda key: order.index(values[key.id][telling[0]]))
    names = run_names(keys)
    if len(keys) <= SINGLE_RUNS and not (len(keys) >= REPEATS and not telling and _are_alike(keys)):
        marks = run_marks(keys)
        return [
            RunGroup(
                marks[key.id],
                names[key.id],
                tuple(run.id for run in job_runs.get(key.id, [key])),
                values[key.id],
                is_job=len(job_runs.get(key.id, ())) > 1,
            )
            for key in keys
        ]
    folders = without_common_folder([os.path.dirname(key.log) for key in keys])
    members = grouped(((folder, *values[key.id].values()), key) for key, folder in zip(keys, folders, strict=True))
    return [
        RunGroup(
            letters(i),
            folder if len(keys_of_group) > 1 else names[keys_of_group[0].id],
            tuple(key.id for key in keys_of_group),
            values[keys_of_group[0].id],
            is_job=_is_one_job([job_of[key.id] for key in keys_of_group]),
        )
        for i, ((folder, *_), keys_of_group) in enumerate(members.items())
    ]


def _is_one_job(jobs: Sequence[str | None]) -> bool:
    """Return whether several runs, by their jobs, are attempts of one."""
    return len(jobs) > 1 and None not in jobs and len(set(jobs)) == 1


def _telling(settings_by_run: Sequence[Settings]) -> list[str]:
    """Return the settings in which runs of the same format differ: of two programs, each prints settings of its own."""
    by_format = grouped((run_settings.get("format"), run_settings) for run_settings in settings_by_run)
    telling = ["format"] if len(by_format) > 1 else []
    return list(dict.fromkeys([*telling, *(name for of in by_format.values() for name in telling_settings(of))]))


def apart(groups: Sequence[RunGroup], log: Log, differing: Collection[Sequence[str]]) -> list[RunGroup]:
    """Return the rows with each run by itself in the groups of runs that are no repeats (`differing`).

    Runs of one log then have their round as a setting, in all of its groups.
    """
    keys = {key.id: key for key in log.run_keys}
    split = {run for runs in differing for run in runs}
    logs = {keys[run].sha256 for runs in differing for run in runs if len({keys[r].sha256 for r in runs}) == 1}
    split |= {run for group in groups for run in group.runs if keys[run].sha256 in logs}
    round_of_run = rounds(group.runs for group in groups)
    one_log = len({key.sha256 for key in keys.values()}) == 1
    marks, names = run_marks(list(keys.values())), run_names(list(keys.values()))
    rows = []
    for group in groups:
        if not split & set(group.runs):
            rows.append((group.name, group.runs, dict(group.settings) | ({ROUND: NOT_PRINTED} if logs else {})))
            continue
        for run in group.runs:
            number = {ROUND: str(round_of_run[run]) if keys[run].sha256 in logs else NOT_PRINTED} if logs else {}
            rows.append((names[run], (run,), dict(group.settings) | number))
    jobs = {group.runs for group in groups if group.is_job}
    place = {run: i for i, run in enumerate(keys)}
    rows.sort(key=lambda row: place[row[1][0]])
    return [
        RunGroup(
            marks[runs[0]] if one_log and len(runs) == 1 else letters(i), name, runs, settings, is_job=runs in jobs
        )
        for i, (name, runs, settings) in enumerate(rows)
    ]


def _are_alike(keys: Sequence[RunKey]) -> bool:
    """Whether these runs differ only in the names of their logs."""
    return len({key.sha256 for key in keys}) == len(keys) and len({key.label for key in keys}) == 1


# --- runs that are no repeats ----------------------------------------------------------------------------------------

_NAMED = 4  # runs
_CAUSES = "other code, another machine, or a setting not printed"
_SURE = 3  # configurations in which rounds have the same order: else it may be chance


def no_repeats(differences: Sequence[Difference], groups: Sequence[RunGroup]) -> Iterator[str]:
    """Yield how far runs with the same settings differ, and by what they might.

    Args:
        differences: The groups of runs that are no repeats.
        groups: The rows, in which these runs stand one by one.
    """
    if not differences:
        return
    worst = differences[0]
    marks = {group.runs[0]: group.mark for group in groups if len(group.runs) == 1}
    runs = ", ".join(marks[run] for run in worst.runs[:_NAMED]) + " and more" * (len(worst.runs) > _NAMED)
    low, high = (show(value, worst.unit, 4) for value in (worst.low, worst.high))
    noise = "" if worst.noise is None else f"; a step varies by {100 * worst.noise:.1f} %"
    other = len(differences) - 1
    others = f", {count(other, 'other configuration')} likewise" if other else ""
    in_rounds = any(group.settings.get(ROUND, NOT_PRINTED) != NOT_PRINTED for group in groups)
    cause = f"other code or a setting not printed{_in_order(differences)}" if in_rounds else _CAUSES
    yield (
        f"No repeats: {runs} have the same settings, but {worst.figure} {low} to {high} (+{100 * worst.apart:.0f} %"
        f"{noise}){others}: {cause}."
    )


def _in_order(differences: Sequence[Difference]) -> str:
    """What the order in the log tells."""
    orders = {each.order for each in differences}
    if len(differences) < _SURE or len(orders) > 1:
        return f" ({ROUND}: order in the log)"
    low, high = orders.pop()[:: len(differences[0].order) - 1]
    return f" ({ROUND} {high + 1} is above {ROUND} {low + 1} in all)"
