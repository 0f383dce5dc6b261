"""What if nothing straggled: the slowdown of a job, and of each replica, stage, kind of work and worker in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import row_groups
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.replays.scenarios import ReplayedRanks, replayed_ranks
from perflog.metrics.what_if.modelled_jobs import jobs_of_layers, jobs_of_phases
from perflog.metrics.what_if.operation_graph import COMPUTE, KINDS, TRANSFERS, ModelError, Operation, step_graph
from perflog.metrics.what_if.step_replay import OPERATIONS, Job, without_waiting
from perflog.readers.events.event_columns import OPERATION
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import one_of
from perflog.tables.columns import NULL, RowColumns, Rows
from perflog.tables.nulls import as_types

if TYPE_CHECKING:
    import pandas as pd

COLLECTIVES = "collectives"
_RANKS_MODEL = (
    "between collectives that all ranks leave together each rank takes its own time, and typically the median of the "
    "ranks; what a device does there is one piece"
)
_KINDS = sorted(KINDS)
_LAST = np.iinfo(np.int64).max
_SLOWEST = 3  # per cent of the workers, at least one: the slowest workers of M_W
_AS_ONE = {name: f"{name.partition('-')[0]}-pp-comm" for name in TRANSFERS}

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="job, dp_rank (a replica), stage, kind (of operation), worker (of replica and stage), "
                 "slowest workers (as many as M_W counts)"),
    MetricColumn("dp_rank", meaning="data-parallel rank", type="Int64"),
    MetricColumn("stage", meaning="pipeline stage", type="Int64"),
    MetricColumn("kind", meaning="kind of operation"),
    MetricColumn("rank", meaning="rank of the worker, as printed", type="Int64"),
    MetricColumn("slowdown", "", "lower", "mean step if this alone took as long as in the log / ideal; of the job S; "
                 "of a worker the smaller one of its replica and stage"),
    MetricColumn("mended", "", None, "share of the job's slowdown that is gone if this alone took its typical time"),
    MetricColumn("longer", "", None, "time of its operations, without waiting / their typical time"),
    MetricColumn("m_w", "", None, "of the job: `mended` of the slowest 3 % of the workers"),
    MetricColumn("m_s", "", None, "of the job: `mended` of the last stage"),
    MetricColumn("time_s", "s", "lower", "mean step of the replay for `slowdown`"),
    MetricColumn("without_s", "s", None, "mean step of the replay for `mended`", brief=False),
    MetricColumn("ideal_s", "s", None, "mean step if each operation took the typical time of its kind"),
    MetricColumn("replayed_s", "s", None, "mean step of the replay that changes nothing", brief=False),
    MetricColumn("traced_s", "s", None, "mean step as traced, with what the model does not know", brief=False),
    MetricColumn("n", meaning="number of steps", type="Int64"),
    MetricColumn("left_out", meaning="number of steps with incomplete operations", brief=False, type="Int64"),
    MetricColumn("rests_on", meaning="operations as traced, or a model: layers (of stages), phases (of ranks), "
        "collectives (of traces of ranks)"),
    MetricColumn("assumes", meaning="what the model assumes; without values, why it cannot be replayed", brief=False),
)  # fmt: skip


_AS_DETECTED = Options()


class NoJob(Struct, frozen=True):
    """Why the operations of a run cannot be replayed."""

    reason: str


class _Part(Struct, frozen=True, eq=False):
    """A part of a job: its columns, and its operations, by operation and replica."""

    names: dict[str, Any]
    operations: Mask


@metric(
    title="slowdown by stragglers, by replay of the operations of all ranks",
    needs=(),
    columns=_COLUMNS,
    main="slowdown",
    formula="S = mean step replayed as traced / ideal, where each operation takes the typical time of its kind: the "
    "mean, of communication the median without waiting; mended = (replayed - without) / (replayed - ideal)",
    source="Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI 2025, equations 1 to 5",
)
def whatif(tables: Tables, options: Options) -> MetricRows:
    """How much slower a job is than without stragglers, and what each part of it costs, the most expensive first.

    Slowdowns do not multiply, and shares that are mended do not add up: parts wait for each other.
    """
    rows = []
    for run, job in replayed_jobs(tables, options).items():
        if isinstance(job, NoJob):
            rows.append({"run": run, "of": "job", "rests_on": OPERATIONS, "assumes": job.reason})
        else:
            rows += [{"run": run} | row for row in _rows(job)]
    for found in replayed_ranks(tables) if tables.count("events") else ():
        rows += [{"run": found.run} | row for row in _rows_of_ranks(found)]
    return rows


def whatif_steps(tables: Tables, options: Options = _AS_DETECTED) -> pd.DataFrame:
    """The same for each step: columns run, step, of, dp_rank, stage, kind, slowdown, time_s, ideal_s, traced_s."""
    import pandas as pd

    rows = []
    for run, job in replayed_jobs(tables, options).items():
        if isinstance(job, NoJob):
            continue
        parts = [_Part({"of": "job"}, np.ones(_flags(job), np.bool_)), *_parts(job)]
        ideal = job.step_times(np.zeros((1, *_flags(job)), np.bool_))[0]
        for part, times in zip(parts, job.step_times(np.array([part.operations for part in parts])), strict=True):
            for i, step in enumerate(job.steps):
                rows.append(
                    {"run": run, "step": step, "slowdown": times[i] / ideal[i], "time_s": times[i], "ideal_s": ideal[i],
                     "traced_s": None if job.traced is None else job.traced[i]} | part.names
                )  # fmt: skip
    columns = "run step of dp_rank stage kind slowdown time_s ideal_s traced_s".split()
    return as_types(pd.DataFrame(rows, columns=columns), dict.fromkeys(("step", "dp_rank", "stage"), "Int64"))


def number_of_slowest(workers: int) -> int:
    """Return how many workers M_W counts as the slowest."""
    return -(-workers * _SLOWEST // 100)


def _rows(job: Job) -> Iterator[dict[str, Any]]:
    """Give the rows of a job: the job, replicas, stages, kinds, workers, and the slowest workers together."""
    everything = np.ones(_flags(job), np.bool_)
    parts = list(_parts(job))
    ideal, replayed = job.step_times(np.array([~everything, everything])).mean(axis=1)
    slowdown = replayed / ideal
    costs = job.step_times(np.array([part.operations for part in parts])).mean(axis=1)
    of = {(part.names["of"], next(v for k, v in part.names.items() if k != "of")): cost / ideal
          for part, cost in zip(parts, costs, strict=True)}  # fmt: skip
    workers = sorted(
        ((min(of["dp_rank", dp_rank], of["stage", stage]), dp_rank, stage) for dp_rank in job.replicas
         for stage in range(int(job.stages.max()) + 1)),
        key=lambda worker: (-worker[0], _rank(job, *worker[1:])),
    )  # fmt: skip
    slowest = workers[: number_of_slowest(len(workers))]
    chosen = np.zeros(_flags(job), np.bool_)
    for _, dp_rank, stage in slowest:
        chosen |= _worker_flags(job, dp_rank, stage)
    names: dict[str, Any] = {"of": "slowest workers"}
    if len(slowest) == 1:
        names |= {"dp_rank": slowest[0][1], "stage": slowest[0][2], "rank": job.ranks.get(slowest[0][1:])}
    parts.append(_Part(names, chosen))
    costs = np.append(costs, job.step_times(chosen[None]).mean())
    without = job.step_times(np.array([~part.operations for part in parts])).mean(axis=1)
    mended = (replayed - without) / (replayed - ideal) if replayed > ideal else np.full(len(parts), np.nan)
    same = {"ideal_s": ideal, "replayed_s": replayed, "n": len(job.steps), "left_out": job.left_out}
    same |= {"rests_on": job.rests_on}
    same |= {"traced_s": None if job.traced is None else job.traced.mean(), "assumes": job.assumes}
    last = next(i for i, part in enumerate(parts) if part.names.get("stage") == job.stages.max())
    yield same | {"of": "job", "slowdown": slowdown, "m_w": mended[-1], "m_s": mended[last], "time_s": replayed}
    part_rows = [
        part.names
        | {"slowdown": cost / ideal, "time_s": cost, "without_s": less, "mended": share, "longer": _longer(job, part)}
        for part, cost, less, share in zip(parts, costs, without, mended, strict=True)
    ]
    for name in ("dp_rank", "stage", "kind"):
        named = [row for row in part_rows if row["of"] == name]
        yield from (same | row for row in sorted(named, key=lambda row: -row["slowdown"]))
    longer = _longer_by_worker(job)
    for score, dp_rank, stage in workers:
        yield same | {
            "of": "worker", "dp_rank": dp_rank, "stage": stage, "rank": job.ranks.get((dp_rank, stage)),
            "slowdown": score, "longer": longer[stage, job.replicas.index(dp_rank)],
        }  # fmt: skip
    yield same | part_rows[-1]


def _rows_of_ranks(found: ReplayedRanks) -> Iterator[dict[str, Any]]:
    """Yield the rows of a job with a trace of each rank: the job, then its ranks."""
    job, scale = found.replay, 1e-9 / found.n
    lost = job.unchanged - job.ideal

    def mended(without: int) -> float:
        return (job.unchanged - without) / lost if lost > 0 else np.nan

    same: dict[str, Any] = {
        "ideal_s": job.ideal * scale,
        "replayed_s": job.unchanged * scale,
        "traced_s": job.traced * scale,
    }
    same |= {"n": found.n, "left_out": 0, "rests_on": COLLECTIVES, "assumes": _RANKS_MODEL}
    yield same | {
        "of": "job", "slowdown": job.unchanged / job.ideal, "m_w": mended(job.without_slowest),
        "time_s": job.unchanged * scale,
    }  # fmt: skip
    each = zip(found.ranks, job.alone, job.without, strict=True)
    for rank, alone, without in sorted(each, key=lambda times: -times[1]):
        yield same | {
            "of": "worker", "rank": rank, "slowdown": alone / job.ideal, "mended": mended(without),
            "time_s": alone * scale, "without_s": without * scale,
        }  # fmt: skip


def _longer(job: Job, part: _Part) -> float:
    """The time of a part's operations, over the typical time of as many of them."""
    typical = (job.typical()[:, None] * part.operations).sum() * len(job.steps)
    times = np.moveaxis(job.times, 1, 0) * part.operations
    return float(times.sum() / typical) if typical > 0 else np.nan


def _longer_by_worker(job: Job) -> Floats:
    """The same for each stage and replica."""
    times, typical = job.times.sum(axis=1), job.typical() * len(job.steps)
    stages = np.arange(int(job.stages.max()) + 1)[:, None] == job.stages
    taken, expected = stages @ times, (stages @ typical)[:, None]
    longer: Floats = np.divide(taken, expected, out=np.full_like(taken, np.nan), where=expected > 0)
    return longer


def _parts(job: Job) -> Iterator[_Part]:
    """Give each replica, stage and kind of operation of a job."""
    everything = np.ones(_flags(job), np.bool_)
    for number, dp_rank in enumerate(job.replicas):
        yield _Part({"of": "dp_rank", "dp_rank": dp_rank}, everything & (np.arange(len(job.replicas)) == number))
    for stage in range(int(job.stages.max()) + 1):
        yield _Part({"of": "stage", "stage": stage}, everything & (job.stages == stage)[:, None])
    kinds = np.array([_AS_ONE.get(kind, kind) for kind in job.kinds], object)
    for kind in dict.fromkeys(kinds.tolist()):
        yield _Part({"of": "kind", "kind": kind}, everything & (kinds == kind)[:, None])


def _worker_flags(job: Job, dp_rank: int, stage: int) -> Mask:
    flags: Mask = (job.stages == stage)[:, None] & (np.array(job.replicas) == dp_rank)
    return flags


def _rank(job: Job, dp_rank: int, stage: int) -> int:
    """Return the rank of a worker; if it is not known, its index, stage by stage."""
    return job.ranks.get((dp_rank, stage), stage * (max(job.replicas) + 1) + dp_rank)


def _flags(job: Job) -> tuple[int, int]:
    return len(job.kinds), len(job.replicas)


# --- operations of a trace -----------------------------------------------------------------------------------------


@computed_once
def replayed_jobs(tables: Tables, options: Options) -> dict[str, Job | NoJob]:
    """Return the job of each run with the operations of all its ranks, or why it cannot be replayed.

    Without operations, it is modelled from the layers of pipeline stages, else from the phases of ranks.
    """
    jobs: dict[str, Job | NoJob] = dict(_jobs_of_operations(tables))
    for jobs_from in (jobs_of_layers, jobs_of_phases):
        for run, job in jobs_from(tables, options):
            jobs.setdefault(run, job)
    return jobs


def _jobs_of_operations(tables: Tables) -> dict[str, Job | NoJob]:
    if not tables.count("events"):
        return {}
    columns = ("step", "rank", "stage", "dp_rank", "chunk", "name", "seq", "start_ns", "duration_ns")
    rows = tables.chosen("events", {"kind": one_of(OPERATION)}, *columns)
    jobs: dict[str, Job | NoJob] = {}
    for run, run_rows in rows.by("run").items():
        try:
            jobs[run] = _job(run_rows)
        except ModelError as error:
            jobs[run] = NoJob(str(error))
    return jobs


def _job(rows: Rows) -> Job:
    """Return the job of a run from its operations.

    Raises:
        ModelError: they do not fit together.
    """
    rows = rows.where(rows.known("name", "step", "stage", "dp_rank", "start_ns", "duration_ns"))
    unknown = sorted(rows.counts("name").keys() - KINDS)
    rows = rows.where(rows.one_of("name", KINDS))
    if not rows.counts("name").keys() >= set(COMPUTE):
        raise ModelError("it has no operations of forward and backward")
    ranks, workers = rows["rank"], row_groups(rows, "dp_rank", "stage")
    first_rank = workers.ends(np.where(ranks == NULL, _LAST, ranks))[0][workers.inverse]
    others = (ranks != NULL) & (ranks != first_rank)
    operations = _numbered(rows.where(~others))
    replicas, steps, shape, left_out = _complete_steps(operations)
    operations = operations.where(np.isin(operations.rows["step"], steps))
    rows = operations.rows
    cells = (len(steps), len(replicas), shape)
    starts = rows["start_ns"].astype(np.float64).reshape(cells) / 1e9
    ends = starts + rows["duration_ns"].astype(np.float64).reshape(cells) / 1e9
    stages, chunks = rows["stage"][:shape], rows["chunk"][:shape]
    kinds = np.array(_KINDS, object)[operations.kind[:shape]]
    columns = (stages, kinds, operations.number[:shape], np.where(chunks == NULL, 0, chunks), starts[0, 0], ends[0, 0])
    first = list(map(Operation, *(column.tolist() for column in columns)))
    _check_stages(first)
    graph = step_graph(first)
    by_operation = [np.moveaxis(times, 2, 0) for times in (starts, ends)]
    ranked = rows.where(rows.known("rank"))
    rank_rows = ranked.where(row_groups(ranked, "dp_rank", "stage").first)
    traced = ends.max(axis=(1, 2)) - starts.min(axis=(1, 2))
    return Job(
        graph, stages, kinds, without_waiting(graph, *by_operation), steps, replicas,
        {(replica, stage): rank for replica, stage, rank in rank_rows.records("dp_rank", "stage", "rank")}, traced,
        left_out, _assumed(unknown, bool(others.any())), OPERATIONS,
    )  # fmt: skip


class _Operations(RowColumns, frozen=True):
    """Operations of a run by step, replica, stage, kind (its index in _KINDS) and number among such operations."""

    rows: Rows
    kind: Ints
    number: Ints


def _numbered(rows: Rows) -> _Operations:
    """Return the operations of some rows. Without printed numbers, they count in order of time."""
    codes, words = rows.codes("name")
    kind = np.array([_KINDS.index(word) if word in KINDS else -1 for word in words], np.int64)[codes]
    keys = (rows["step"], rows["dp_rank"], rows["stage"], kind)
    number, in_time = rows["seq"], (rows["line"], rows["start_ns"])
    if (number == NULL).any():
        order = np.lexsort((*in_time, *reversed(keys)))
        alike = groups_of(*keys)
        number = np.empty(len(rows), np.int64)
        number[order] = np.arange(len(rows)) - np.repeat(np.cumsum(alike.sizes) - alike.sizes, alike.sizes)
    return _Operations(rows, kind, number).where(np.lexsort((*in_time, number, *reversed(keys))))


def _check_stages(operations: Sequence[Operation]) -> None:
    stages = {op.stage for op in operations if op.kind in COMPUTE}
    gap = next((stage for stage in range(len(stages) + 1) if stage not in stages), None)
    if gap is not None and gap <= max(op.stage for op in operations):
        raise ModelError(f"no forward and backward of stage {gap}")


def _complete_steps(operations: _Operations) -> tuple[list[int], list[int], int, int]:
    """Return replicas, complete steps, number of operations of each in a step, and number of other steps.

    A step is complete if each replica that has operations in any step has the same ones as in most steps.
    """
    rows = operations.rows
    replica = rows["dp_rank"]
    replicas = np.unique(replica)
    operation = groups_of(rows["stage"], operations.kind, operations.number).inverse
    numbers, firsts = np.unique(rows["step"], return_index=True)
    steps_of_shape: dict[tuple[int, ...], list[int]] = {}
    for step, start, end in zip(numbers.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True):
        if (end - start) % len(replicas):
            continue
        by_replica, own = (column[start:end].reshape(len(replicas), -1) for column in (replica, operation))
        if (by_replica == replicas[:, None]).all() and (own == own[0]).all() and (np.diff(own[0]) > 0).all():
            steps_of_shape.setdefault(tuple(own[0].tolist()), []).append(step)
    if not steps_of_shape:
        raise ModelError("no step has the same operations on all replicas")
    shape, steps = max(steps_of_shape.items(), key=lambda item: len(item[1]))
    return replicas.tolist(), steps, len(shape), len(numbers) - len(steps)


def _assumed(unknown: Sequence[str], several: bool) -> str:
    texts = ["operations wait for each other as in Megatron's pipeline, and begin at once when they can"]
    if several:
        texts.append("one rank represents all ranks of a replica and stage")
    if unknown:
        texts.append(f"{', '.join(unknown)} left out: their position in the step is not known")
    return "; ".join(texts)
