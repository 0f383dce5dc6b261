"""Stuck ranks: which ranks the others of a job wait for, from what each had enqueued when it dumped its collectives.

A rank waits for another one if it has enqueued a call that the other one lacks. In a process group that only runs
collectives, that is a smaller number of calls; of point-to-point calls, a pending send without its receive, or the
reverse. A rank that others wait for and that itself waits for none holds the job up.

A rank with a stuck device continues to enqueue. Then it has completed fewer collectives than the other members, which
could not complete them without it: so it does not wait, and holds the job up too.

A rank may also call something else than the others: another operation, size or type under the same number, or the same
calls in another order. None of them completes. The rank that differs from most members holds the job up.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from perflog.grouping import grouped
from perflog.metrics.compared import ComparedColumn, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.tables.arrow import one_of
from perflog.tables.columns import Rows

ENQUEUED, COMPLETED = "last_enqueued_collective", "last_completed_collective"
CALL_COUNTS = (ENQUEUED, "last_started_collective", COMPLETED)
"""Counters of the status of a process group."""

_EQUAL = ("all_reduce", "allreduce", "_all_gather_base", "all_gather_into_tensor", "_reduce_scatter_base")
"""Collectives with the same size and type on all ranks."""

_GROUP = "process_group."  # key of the value with purpose and ranks of a group

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank that lacks a call, or that has no dump", type="Int64"),
    MetricColumn(
        "holds_up", meaning="others wait for this rank, and it waits for none; null: it has no dump", type="boolean"
    ),
    MetricColumn("stuck", meaning="host: it has enqueued fewer calls than others; device: it has completed fewer; "
                 "mismatch: it calls something else under the same number; null: no dump"),
    MetricColumn("behind", "", "lower", "calls that it lacks: the largest number that a member enqueued, or of a "
                 "device completed, - its own", type="Int64"),
    MetricColumn("group", meaning="process group in which it lacks them; null: it has no dump"),
    MetricColumn("purpose", meaning="purpose of the process group, as named in the dump"),
    MetricColumn("enqueued", meaning="number of calls that the rank enqueued in the group; null: point-to-point calls",
                 type="Int64"),
    MetricColumn(
        "completed", meaning="number of calls that it completed in the group; null: point-to-point calls", type="Int64"
    ),
    MetricColumn("lacks", meaning="first call that it lacks, by the dumps of the others; of a mismatch, both calls"),
    MetricColumn("waiting", meaning="ranks that wait for it in the group"),
)  # fmt: skip


class _Call(Struct, frozen=True):
    """A collective that a rank enqueued."""

    name: str
    bytes: int | None
    dtype: str | None
    pending: bool

    @property
    def what(self) -> tuple[str, int | None, str | None]:
        """What has to be equal on all ranks."""
        return (self.name, self.bytes, self.dtype) if self.name.startswith(_EQUAL) else (self.name, None, None)

    @property
    def text(self) -> str:
        """The call in words: `all_reduce of 4,096 bytes, Float`."""
        of = f" of {self.bytes:,} bytes" if self.bytes is not None and self.what[1] is not None else ""
        return f"{self.name}{of}" + (f", {self.dtype}" if of and self.dtype is not None else "")


class Job(Struct):
    """The calls that the ranks of a job had enqueued.

    `members`: ranks of each group; `purpose`: of each group; `numbers`: calls of each rank in each group, enqueued and
    completed; `pending`: point-to-point calls that are not completed, by group, operation, sender and receiver.
    """

    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    purpose: dict[str, str | None] = field(default_factory=dict)
    numbers: dict[tuple[str, int], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    calls: dict[tuple[str, int], str] = field(default_factory=dict)  # by group and number, of any rank
    own_calls: dict[tuple[str, int], dict[int, _Call]] = field(default_factory=lambda: defaultdict(dict))
    point_to_point: set[str] = field(default_factory=set)
    pending: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    dumped: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the completed and the pending calls of the ranks of each group, over the ranks with a dump."""
    for run, job in jobs_of_dumps(tables).items():
        groups = grouped((group, numbers) for (group, _), numbers in job.numbers.items())
        for group, members in groups.items() if run in steady.cuts else ():
            purpose = job.purpose.get(group)
            name = f"in group {group}" + (f" ({purpose})" if purpose else "")
            completed = [numbers[COMPLETED] for numbers in members if COMPLETED in numbers]
            pending = [max(numbers.get(ENQUEUED, 0) - numbers.get(COMPLETED, 0), 0) for numbers in members]
            yield Measure("value", f"calls pending {name}", ""), run, np.array([float(sum(pending))])
            if completed:
                yield Measure("value", f"calls completed {name}", "", None), run, np.array([float(max(completed))])


@metric(
    title="stuck ranks",
    needs=("counters",),
    columns=_COLUMNS,
    main="behind",
    formula="largest number of calls that a member of the group enqueued, or completed, - number of the rank; "
    "a rank holds the job up if others wait for it and it waits for none, or if others completed calls that it did not",
    source="status of process groups and pending calls, as PyTorch's flight recorder dumps them",
    compares=(ComparedColumn("value", "calls that a rank lacks, at most", "behind", "", largest=True), _samples),
)
def stuck_ranks(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Ranks that lack a call which others have enqueued; ranks that hold the job up come first.

    A rank may have fewer calls because it waits for another one: then it does not hold the job up. A rank without a
    dump may: the process may have died.
    """
    return [{"run": run, **row} for run, job in jobs_of_dumps(tables).items() for row in _rows(job)]


@computed_once
def jobs_of_dumps(tables: Tables) -> dict[str, Job]:
    """Return the calls that the ranks of each job had enqueued, by run; only of runs that dump the status of groups."""
    rows = tables.rows("counters")
    dumped = rows.where(rows.one_of("name", CALL_COUNTS))
    if not len(dumped):
        return {}  # the events of a trace are many: they are not read for nothing
    jobs = {run: Job() for run in dumped.by("run")}
    values = tables.rows("values")
    keys = [key for key in values.codes("key")[1] if key.startswith(_GROUP)]
    values = values.where(values.one_of("run", jobs) & values.one_of("key", keys) & values.known("text"))
    for run, key, text in values.records("run", "key", "text"):
        group, name = json.loads(text), key.removeprefix(_GROUP)
        jobs[run].members[name], jobs[run].purpose[name] = tuple(group["ranks"]), group["purpose"]
    _add_status(jobs, dumped)
    _add_calls(jobs, tables.chosen("events", {"run": one_of(*jobs)}, *_OF_CALLS))
    return jobs


def _add_status(jobs: Mapping[str, Job], rows: Rows) -> None:
    """Add the numbers of enqueued and completed calls."""
    rows = rows.where(rows.one_of("name", [ENQUEUED, COMPLETED]) & rows.known("rank", "value"))
    for run, rank, group, name, value in rows.records("run", "rank", "subject", "name", "value"):
        jobs[run].numbers[group, rank][name] = int(value)
        jobs[run].dumped.add(rank)


_OF_CALLS = ("run", "rank", "group", "seq", "collective", "category", "src_rank", "dst_rank", "bytes", "dtype")


def _add_calls(jobs: Mapping[str, Job], rows: Rows) -> None:
    """Add the names of the calls, and the point-to-point calls that are pending."""
    for row in rows.where(rows.known("rank", "group")).dicts(*_OF_CALLS):
        run, rank, group, number, call, state, source, target, size, dtype = row.values()
        job = jobs[run]
        pending = state != "completed"
        job.dumped.add(rank)
        if pending:
            job.waiting.add(rank)
        if call in ("send", "recv"):
            job.point_to_point.add(group)
            if pending and source is not None and target is not None:
                job.pending[group, call, source, target] += 1
        elif number is not None and call is not None:
            job.calls.setdefault((group, number), call)
            job.own_calls[group, number].setdefault(rank, _Call(call, size, dtype, pending))


def _rows(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the rows of ranks that hold the job up, of ranks without a dump, then of other ranks that lack a call."""
    lacking = [*_lacking_collectives(job), *_lacking_pairs(job)]
    wait_for_others = {rank for row in lacking for rank in row["ranks"]}
    rows = [row | {"stuck": "host", "holds_up": row["rank"] not in wait_for_others} for row in lacking]
    rows += [row | {"stuck": "device", "holds_up": True} for row in _behind_in_completed(job)]
    rows += [row | {"stuck": "mismatch"} for row in _mismatches(job)]
    devices = {row["rank"] for row in rows if row["stuck"] == "device"}
    rows = [row | {"holds_up": row["holds_up"] or row["rank"] in devices} for row in rows]
    everyone = {rank for ranks in job.members.values() for rank in ranks}
    rows += [{"rank": rank, "stuck": "", "holds_up": None, "ranks": ()} for rank in sorted(everyone - job.dumped)]
    order = {True: 0, None: 1, False: 2}
    for row in sorted(rows, key=lambda row: (order[row["holds_up"]], row["rank"], row["stuck"], -row.get("behind", 0))):
        ranks = row.pop("ranks")
        yield row | {"stuck": row["stuck"] or None, "waiting": ", ".join(map(str, ranks)) or None}


def _lacking_collectives(job: Job) -> Iterator[dict[str, Any]]:
    """Give the ranks that enqueued fewer collectives of a group than another member which has one pending."""
    for group, members in job.members.items():
        numbers = _numbers(job, group, members, ENQUEUED)
        for rank, own in numbers.items():
            ahead = [
                other
                for other, status in numbers.items()
                if status[ENQUEUED] > own[ENQUEUED] and status[ENQUEUED] > status.get(COMPLETED, -1)
            ]
            if ahead:
                yield {
                    "rank": rank, "group": group, "purpose": job.purpose[group], "enqueued": own[ENQUEUED],
                    "completed": own.get(COMPLETED),
                    "behind": max(numbers[other][ENQUEUED] for other in ahead) - own[ENQUEUED],
                    "lacks": job.calls.get((group, own[ENQUEUED] + 1)), "ranks": ahead,
                }  # fmt: skip


def _behind_in_completed(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the ranks that completed fewer of their enqueued collectives than most members of a group.

    Statuses are not taken at the same time: one call in one group proves nothing. If most members have fewer calls, the
    others may have had their part of the call early, as the root of a broadcast has.
    """
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for group, members in job.members.items():
        numbers = _numbers(job, group, members, COMPLETED)
        most = max((own[COMPLETED] for own in numbers.values()), default=0)
        behind = [rank for rank, own in numbers.items() if own[COMPLETED] < most]
        waiting = [
            rank for rank, own in numbers.items() if rank not in behind and own[COMPLETED] < own.get(ENQUEUED, 0)
        ]
        if 2 * len(behind) > len(numbers):
            continue
        for rank in behind:
            own = numbers[rank]
            if own[COMPLETED] < own.get(ENQUEUED, 0):
                rows[rank].append(
                    {
                        "rank": rank, "group": group, "purpose": job.purpose[group], "enqueued": own[ENQUEUED],
                        "completed": own[COMPLETED], "behind": most - own[COMPLETED],
                        "lacks": job.calls.get((group, own[COMPLETED] + 1)), "ranks": waiting,
                    }
                )  # fmt: skip
    for rank_rows in rows.values():
        if len(rank_rows) > 1 or rank_rows[0]["behind"] > 1:
            yield from rank_rows


def _mismatches(job: Job) -> Iterator[dict[str, Any]]:
    """Give the ranks that called something else than the others under the first such number of a group, all pending."""
    seen: set[str] = set()
    for (group, number), calls in sorted(job.own_calls.items()):
        members = [rank for rank in job.members.get(group, ()) if rank in calls]
        if group in seen or len(members) < 2 or not all(calls[rank].pending for rank in members):
            continue
        counts = Counter(calls[rank].what for rank in members)
        if len(counts) == 1:
            continue
        seen.add(group)
        most, often = counts.most_common(1)[0]
        usual = next(calls[rank] for rank in members if calls[rank].what == most)
        alone = 3 * (len(members) - often) <= len(members)
        for rank in members:
            if calls[rank].what == most and (alone or rank == members[0]):
                continue
            own = job.numbers.get((group, rank), {})
            later = job.own_calls.get((group, number + 1), {}).get(rank)
            order = " (in another order)" if later is not None and later.what == most else ""
            yield {
                "rank": rank, "group": group, "purpose": job.purpose.get(group), "enqueued": own.get(ENQUEUED),
                "completed": own.get(COMPLETED), "holds_up": alone, "behind": 0,
                "lacks": f"{calls[rank].text} as number {number}, the others {usual.text}{order}",
                "ranks": [other for other in members if calls[other].what == most] if alone else [],
            }  # fmt: skip


def _numbers(job: Job, group: str, members: Sequence[int], counter: str) -> dict[int, dict[str, int]]:
    """Return the numbers of calls of the members of a group that runs collectives only, as far as they are known.

    In a group with point-to-point calls the numbers count calls of pairs of members, which may differ.
    """
    if group in job.point_to_point or not any(name == group for name, _ in job.calls):
        return {}
    numbers = {rank: job.numbers.get((group, rank), {}) for rank in members}
    return {rank: own for rank, own in numbers.items() if counter in own}


def _lacking_pairs(job: Job) -> Iterator[dict[str, Any]]:
    """Give the ranks that lack receives for pending sends to them, or sends for pending receives from them."""
    for (group, call, source, target), number in job.pending.items():
        opposite = "recv" if call == "send" else "send"
        waits, lacks = (source, target) if call == "send" else (target, source)
        behind = number - job.pending[group, opposite, source, target]
        if behind > 0 and lacks in job.dumped:
            yield {
                "rank": lacks, "group": group, "purpose": job.purpose.get(group), "enqueued": None, "behind": behind,
                "lacks": f"{opposite} {'from' if opposite == 'recv' else 'to'} rank {waits}", "ranks": [waits],
            }  # fmt: skip
