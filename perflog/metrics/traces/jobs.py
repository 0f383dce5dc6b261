"""Which traces are of one job: the ranks among which collectives are matched."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.traces.device_work import TraceDevice, trace_devices

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Job:
    """Devices that worked together. `one_clock`: True where one file has them all, False where each file has a clock of
    its own, None where that is not known. `doubt`: why they cannot be told to be one job.
    """

    members: tuple[TraceDevice, ...]
    one_clock: bool | None
    doubt: str | None

    @property
    def run(self) -> str | None:
        """Their run; None where each rank's trace is one."""
        runs = {one.run for one in self.members}
        return runs.pop() if len(runs) == 1 else None

    def name(self, place: int) -> str:
        """How a member is told: its rank, or its device."""
        one = self.members[place]
        ranks = [other.rank for other in self.members]
        if one.rank is None:
            return f"device {one.device}"
        return f"rank {one.rank}" + (f", device {one.device}" if ranks.count(one.rank) > 1 else "")


def jobs(tables: Mapping[str, pd.DataFrame]) -> list[Job]:
    """Jobs of two devices or more: the devices of a run; and where each rank's trace is a run, those of a folder.

    Where a rank is in a folder twice, names that differ in the rank alone are a job: `a_rank0`, `a_rank1`.
    """
    by_run: dict[str, list[TraceDevice]] = {}
    for one in trace_devices(tables):
        by_run.setdefault(one.run, []).append(one)
    runs = tables["runs"]
    logs = dict(zip(runs["run"], runs["log"], strict=True))
    clocks = {run: said.config.get("clock") for run, said in semantics_by_run(runs).items()}
    found = [members for members in by_run.values() if len(members) > 1]
    alone = [members[0] for members in by_run.values() if len(members) == 1 and members[0].rank is not None]
    found += [group for group in _folders(alone, logs) if len(group) > 1]
    return [_job(members, clocks) for members in found]


def _folders(alone: Sequence[TraceDevice], logs: Mapping[str, str]) -> list[list[TraceDevice]]:
    folders: dict[str, list[TraceDevice]] = {}
    for one in alone:
        folders.setdefault(os.path.dirname(str(logs[one.run])), []).append(one)
    found = []
    for group in folders.values():
        if _twice(group):
            named: dict[str, list[TraceDevice]] = {}
            for one in group:
                name = re.sub(rf"(?<!\d)0*{one.rank}(?!\d)", "*", os.path.basename(str(logs[one.run])))
                named.setdefault(name, []).append(one)
            found += list(named.values())
        else:
            found.append(group)
    return found


def _twice(members: Sequence[TraceDevice]) -> str | None:
    """A rank that is there in two traces."""
    seen: set[tuple[int | None, int | None]] = set()
    for one in members:
        if (one.rank, one.device) in seen:
            return f"rank {one.rank}" if one.rank is not None else f"device {one.device}"
        seen.add((one.rank, one.device))
    return None


def _job(members: Sequence[TraceDevice], clocks: Mapping[str, object]) -> Job:
    ordered = tuple(sorted(members, key=lambda one: (_first(one.rank), _first(one.device), one.run, one.part)))
    files = {(one.run, one.part) for one in members}
    own = any(clocks[one.run] not in (None, "epoch") for one in members)
    one_clock = True if len(files) == 1 else False if own else None
    again = _twice(members)
    return Job(ordered, one_clock, f"{again} is there in two traces" if again else None)


def _first(number: int | None) -> int:
    return -1 if number is None else number
