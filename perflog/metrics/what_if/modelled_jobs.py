"""Jobs for the what-if replay from logs without operations: from phases of ranks, and from layers of pipeline stages.

Such logs show how long work takes and not what it waits for. So each job states what its model assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import StageTimes, stage_times
from perflog.metrics.pipelines.schedule_simulation import BACKWARD, FORWARD, Work, as_timed, does, needs
from perflog.metrics.run_rows import SteadyRun
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.phase_table import PhaseTable, phases_of_runs
from perflog.metrics.what_if.operation_graph import COMPUTE, Graph, Unit, in_order
from perflog.metrics.what_if.step_replay import Job

PHASES, LAYERS = "phases", "layers"
"""Tables that a job is modelled from if the log has no operations."""

_MEETING = ("communication", "wait")  # kinds of phases in which ranks meet
_WORKING = ("compute", "prepare")
_COMPUTE = frozenset(kind.replace("-", "_") for kind in COMPUTE)
_MOST_OPERATIONS = 20_000  # of a step on all stages

# --- phases of ranks ----------------------------------------------------------------------------------------------


def jobs_of_phases(tables: Tables, options: Options) -> Iterator[tuple[str, Job]]:
    """Yield the job of each run that times phases on two ranks or more: each rank is a replica.

    A rank does its innermost phases in the order in which it prints them. Ranks begin communication together; it takes
    the time of the rank that comes last, the shortest. They end waiting together. Phases of other kinds, and those that
    some ranks do not print, are left out.
    """
    phases = tables.rows("phases")
    ranks = phases["rank"][phases.known("rank")]
    if not len(ranks) or ranks.min() == ranks.max():  # no rank has peers; spares the phase table of a long log
        return
    for piece in tables.in_pieces("phases"):
        table = phases_of_runs(piece, options.warmup)
        printed: list[list[str]] = [[] for _ in table.runs]
        for run_index, phase in table.cases():
            printed[run_index].append(table.names[phase])
        table = table.steady()
        for run_index, run in enumerate(table.runs):
            if job := _job_of_phases(run, printed[run_index], table.rows_in(run_index)):
                yield run.run, job


def _job_of_phases(run: SteadyRun, printed: Sequence[str], rows: PhaseTable) -> Job | None:
    """Return the job of a run from its steady rows. `printed`: its phases, also those of the warm-up."""
    size = len(rows.names)
    counts, unranked = (np.bincount(each, minlength=size) for each in (rows.phase, rows.phase[np.isnan(rows.rank)]))
    complete = [rows.names[code] for code in np.flatnonzero((counts > 0) & (unranked == 0)).tolist()]
    around = {parent for name in printed for parent in run.semantics.possible_parents(name)}
    kinds = {name: _kind(run, name) for name in complete if name in _COMPUTE or name not in around}
    inside = {name for name in kinds if not _COMPUTE.isdisjoint(run.semantics.possible_parents(name))}
    replayed = {name for name, kind in kinds.items() if kind in (*_MEETING, *_WORKING) and name not in inside}
    rows = rows.where(np.array([name in replayed for name in rows.names], np.bool_)[rows.phase])
    ranks: list[int] = np.unique(rows.rank).astype(np.int64).tolist()
    count = run.semantics.quantities.get("stages")
    if len(ranks) < 2 or (count or 1) > 1 or (run.world is not None and run.world != len(ranks)):
        return None  # one rank has no peers; ranks of other stages do other work
    found = _same_on_all_ranks(rows, ranks)
    if found is None:
        return None
    names, steps, times = found
    meets = np.array([kinds[name] in _MEETING for name in names])
    if meets.all():
        return None  # only waiting: nothing that a rank could do faster
    waits = np.array([kinds[name] == "wait" for name in names])
    times[meets] = times[meets].min(axis=2, keepdims=True)
    times[waits] = 0.0
    after = [(index - 1,) if index else () for index in range(len(names))]
    units = [Unit((index,), bool(meets[index])) for index in range(len(names))]
    left_out = [name for name in printed if name not in {*replayed, *around, *inside}]
    return Job(
        Graph(tuple(after), tuple(units)), np.zeros(len(names), np.int64), np.array(names, object), times, steps, ranks,
        {(rank, 0): rank for rank in ranks}, None, len(np.unique(rows.step)) - len(steps),
        _assumed_of_phases(left_out), PHASES,
    )  # fmt: skip


def _kind(run: SteadyRun, name: str) -> str | None:
    """The kind of a phase. What computes all micro-batches is compute, though its timer may not wait."""
    declared = run.semantics.phase(name)
    return "compute" if name in _COMPUTE else declared.kind if declared else None


def _same_on_all_ranks(rows: PhaseTable, ranks: Sequence[int]) -> tuple[list[str], list[int], Floats] | None:
    """Return the phases of a step in order, the steps in which all ranks print them so, and their times.

    Times are by phase, step and rank.
    """
    order = np.lexsort((rows.part, rows.line, rows.rank, rows.step))
    step, rank, phase = rows.step[order], rows.rank[order], rows.phase[order]
    begins = np.append(0, np.flatnonzero(np.diff(step)) + 1)
    sizes = np.diff(np.append(begins, len(step)))
    shapes: dict[bytes, list[Ints]] = {}  # by the phases: the rows of each step, by rank
    for size in np.unique(sizes[sizes % len(ranks) == 0]).tolist():
        by_rank = (begins[sizes == size][:, None] + np.arange(size)).reshape(-1, len(ranks), size // len(ranks))
        is_whole = (rank[by_rank] == np.array(ranks)[:, None]).all(axis=(1, 2))
        is_alike = (phase[by_rank] == phase[by_rank[:, :1]]).all(axis=(1, 2))
        for index in by_rank[is_whole & is_alike]:
            shapes.setdefault(phase[index[0]].tobytes(), []).append(index)
    if not shapes:
        return None
    most: list[Ints] = max(shapes.values(), key=lambda steps: (len(steps), -int(steps[0][0, 0])))  # of two, the first
    found = np.stack(most)
    times = np.ascontiguousarray(rows.time_s[order][found].transpose(2, 0, 1))
    return [rows.names[code] for code in phase[found[0, 0]].tolist()], step[found[:, 0, 0]].tolist(), times


def _assumed_of_phases(left_out: Sequence[str]) -> str:
    texts = [
        "each rank does its phases one after the other as printed",
        "ranks begin communication and end waiting together",
        "communication takes the time of the rank with the shortest", "what no phase times is left out",
    ]  # fmt: skip
    if left_out:
        texts.append(f"phases that are not of all ranks, or may hold waiting, are left out: {', '.join(left_out)}")
    return "; ".join(texts)


# --- layers of stages ---------------------------------------------------------------------------------------------


def jobs_of_layers(tables: Tables, options: Options) -> Iterator[tuple[str, Job]]:
    """Yield the job of each run that times the layers of all its pipeline stages, as one replica under 1F1B."""
    for timed in stage_times(tables, options):
        directions = [d for d in (FORWARD, BACKWARD) if d in timed.seconds]
        if len(timed.seconds[FORWARD]) > 1 and timed.micro_batches * len(timed.ranks) <= _MOST_OPERATIONS:
            yield timed.run, _job_of_layers(timed, directions)


def _job_of_layers(timed: StageTimes, directions: Sequence[str]) -> Job:
    means = {direction: timed.seconds[direction].mean(axis=1).tolist() for direction in directions}
    step = as_timed(means[FORWARD], timed.micro_batches, means.get(BACKWARD))
    on_stage = [[work for work, _, _ in slots] for slots in step.slots]
    all_work = [work for stage_works in on_stage for work in stage_works]
    times = np.array([timed.seconds[work.kind][work.stage] for work in all_work])[:, :, None]
    kinds = np.array([COMPUTE[work.kind == BACKWARD] for work in all_work], object)
    texts = ["stages work as 1F1B orders them, and sending takes no time", "micro-batches of a step take equally long",
             f"time outside of the layers' {' and '.join(directions)} is left out"]  # fmt: skip
    return Job(
        _graph_of(on_stage), np.array([work.stage for work in all_work]), kinds, times, timed.steps, [0],
        {(0, stage): rank for stage, rank in timed.ranks.items() if rank is not None}, None, 0, "; ".join(texts),
        LAYERS,
    )  # fmt: skip


def _graph_of(on_stage: Sequence[Sequence[Work]]) -> Graph:
    """Return what each work waits for: the one before it on its stage, and what computes its input."""
    all_work = [work for stage_works in on_stage for work in stage_works]
    number_of = {done: number for number, work in enumerate(all_work) for done in does(work)}
    after: list[tuple[int, ...]] = []
    for stage_works in on_stage:
        for before, work in zip((None, *stage_works), stage_works, strict=False):
            waits = {number_of[each] for each in (before, needs(work, len(on_stage))) if each is not None}
            after.append(tuple(sorted(waits)))
    return in_order(after, [Unit((number,)) for number in range(len(all_work))])
