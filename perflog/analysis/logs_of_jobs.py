"""Which logs belong to one job: of its ranks and nodes, of its attempts, of the kernel and the scheduler.

Logs with names that differ only in the number of a rank or a node, or in their ending, are of one job; so are attempts.
A log without steps belongs to the only job that there is; beside several jobs it is a job of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from perflog.lazy_patterns import lazy_pattern
from perflog.log import RunKey
from perflog.metrics import Tables
from perflog.metrics.attempts import jobs

_NUMBERED = lazy_pattern(
    r"(?<![a-z])(rank|node|worker|proc|process|task|gpu|host|global_rank|local_rank)([-_. =]?)\d+", re.IGNORECASE
)
_ENDING = lazy_pattern(r"\.(?:log|txt|out|err|stdout|stderr)(?:\.(?:gz|zst|xz))?$|(?:_|\.)(?:stdout|stderr)$")


def runs_of_jobs(tables: Tables, keys: Sequence[RunKey]) -> list[list[RunKey]]:
    """Return the runs of each job, in the order of the logs."""
    by_log: dict[str, list[RunKey]] = {}
    for key in keys:
        by_log.setdefault(key.sha256, []).append(key)
    first = {log: log for log in by_log}

    def find(log: str) -> str:
        while first[log] != log:
            log = first[log]
        return log

    named: dict[str, str] = {}
    for log, runs in by_log.items():
        name = _without_numbers(runs[0].log)
        first[find(log)] = find(named.setdefault(name, log))
    log_of = {key.id: key.sha256 for key in keys}
    for members in jobs(tables).values():
        for run in members[1:]:
            first[find(log_of[run])] = find(log_of[members[0]])
    groups: dict[str, list[RunKey]] = {}
    for log, runs in by_log.items():
        groups.setdefault(find(log), []).extend(runs)
    stepping = {key for name in ("steps", "phases") for key in tables.rows_by_run(name)}
    with_steps = [runs for runs in groups.values() if any(run.id in stepping for run in runs)]
    if len(with_steps) < 2:
        return [list(keys)]
    return list(groups.values())


def _without_numbers(log: str) -> str:
    """Return the name of a log without numbers of ranks and nodes, and without its ending."""
    folder, name = os.path.split(log)
    name = _ENDING.sub("", name)
    return os.path.join(_NUMBERED.sub(r"\1\2#", folder), _NUMBERED.sub(r"\1\2#", name))
