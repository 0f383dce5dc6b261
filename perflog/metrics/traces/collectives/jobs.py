"""Jobs: the devices of traces that worked together, among which collectives are matched."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.traces.device_work import TraceDevice, trace_devices


class Job(Struct, frozen=True, eq=False):
    """Devices that worked together.

    `one_clock`: True if one file holds them all, False if each file may have its own clock, None if that is not
    known, as for times since 1970 of several hosts, and for a merged trace of several ranks.
    `doubt`: why the devices may not be one job, or None.
    """

    members: tuple[TraceDevice, ...]
    one_clock: bool | None
    doubt: str | None

    @property
    def run(self) -> str | None:
        """Run id of the devices; None if each rank's trace is a run of its own."""
        runs = {device.run for device in self.members}
        return runs.pop() if len(runs) == 1 else None

    def run_columns(self) -> dict[str, str | None]:
        """Run and label; None if each rank's trace is a run of its own."""
        return {"run": self.run, "label": self.members[0].label if self.run else None}

    def name(self, index: int) -> str:
        """Name of a member: its rank, else its device; both if a rank has several devices."""
        member = self.members[index]
        ranks = [other.rank for other in self.members]
        if member.rank is None:
            alike = sum(other.device == member.device for other in self.members) > 1 and member.device is not None
            return f"{member.device_name}, {_device_label(member)}" if alike else _device_label(member)
        return f"rank {member.rank}" + (f", {_device_label(member)}" if ranks.count(member.rank) > 1 else "")


def jobs(tables: Tables) -> list[Job]:
    """Return the jobs of at least two devices: the devices of a run, or of a folder with one run per rank.

    If a folder holds a rank twice, files with names that differ only in the rank are a job: `a_rank0`, `a_rank1`.
    """
    by_run = grouped((device.run, device) for device in trace_devices(tables))
    runs = tables.rows("runs")
    logs = dict(runs.records("run", "log"))
    clocks = {run: semantics.config.get("clock") for run, semantics in semantics_by_run(runs).items()}
    groups = [members for members in by_run.values() if len(members) > 1]
    single = [members[0] for members in by_run.values() if len(members) == 1 and members[0].rank is not None]
    groups += [group for group in _by_folder(single, logs) if len(group) > 1]
    return [_job(members, clocks) for members in groups]


def _by_folder(devices: Sequence[TraceDevice], logs: Mapping[str, str]) -> list[list[TraceDevice]]:
    """Groups of devices, each a separate run, by folder and, if a rank is there twice, by file name."""
    folders = grouped((os.path.dirname(str(logs[device.run])), device) for device in devices)
    groups = []
    for folder in folders.values():
        if _duplicate(folder):
            by_name: dict[str, list[TraceDevice]] = {}
            for device in folder:
                name = re.sub(rf"(?<!\d)0*{device.rank}(?!\d)", "*", os.path.basename(str(logs[device.run])))
                by_name.setdefault(name, []).append(device)
            groups += list(by_name.values())
        else:
            groups.append(folder)
    return groups


def _duplicate(members: Sequence[TraceDevice]) -> str | None:
    """Name of a rank that has two traces, or None."""
    known: set[tuple[int | None, int | None, str | None]] = set()
    for member in members:
        if (member.rank, member.device, member.device_name) in known:
            return f"rank {member.rank}" if member.rank is not None else _device_label(member)
        known.add((member.rank, member.device, member.device_name))
    return None


def _device_label(member: TraceDevice) -> str:
    """Number of a device, or its name where the trace has no number."""
    return f"device {member.device_name if member.device is None else member.device}"


def _job(members: Sequence[TraceDevice], clocks: Mapping[str, object]) -> Job:
    ordered = tuple(
        sorted(members, key=lambda m: (_null_first(m.rank), _null_first(m.device), m.device_name or "", m.run, m.part))
    )
    files = {(member.run, member.part) for member in members}
    own_clocks = any(clocks[member.run] not in (None, "epoch") for member in members)
    merged = len(files) == 1 and len({member.rank for member in members}) > 1  # the ranks' files may be of many hosts
    one_clock = None if merged else True if len(files) == 1 else False if own_clocks else None
    duplicate = _duplicate(members)
    return Job(ordered, one_clock, f"{duplicate} has two traces" if duplicate else None)


def _null_first(number: int | None) -> int:
    """Sort key of a rank or device that may be unknown."""
    return -1 if number is None else number
