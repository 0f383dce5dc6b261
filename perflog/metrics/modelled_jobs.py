"""Jobs for the what-if replay from logs without operations: from phases of ranks, and from layers of pipeline stages.

Such logs show how long work takes and not what it waits for. So each job states what its model assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.operation_graph import COMPUTE, Graph, Unit, in_order
from perflog.metrics.options import Options
from perflog.metrics.phase_table import PhaseTable, phases_of_runs
from perflog.metrics.pipeline import StageTimes, stage_times
from perflog.metrics.pipeline_schedule import BACKWARD, FORWARD, Slot, one_f_one_b
from perflog.metrics.run_rows import SteadyRun
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_replay import Job

if TYPE_CHECKING:
    import pandas as pd

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
        for place, phase in table.cases():
            printed[place].append(table.names[phase])
        table = table.steady()
        for place, run in enumerate(table.runs):
            if job := _job_of_phases(run, printed[place], _frame(table.rows_in(place))):
                yield run.run, job


def _frame(table: PhaseTable) -> pd.DataFrame:
    import pandas as pd

    names = np.array(table.names, object)
    return pd.DataFrame(
        {
            "phase": names[table.phase], "step": table.step, "rank": table.rank, "line": table.line,
            "part": table.part, "time_s": table.time_s,
        }
    )  # fmt: skip


def _job_of_phases(run: SteadyRun, printed: Sequence[str], rows: pd.DataFrame) -> Job | None:
    """Return the job of a run from its steady rows. `printed`: its phases, also those of the warm-up."""
    named = rows.groupby("phase", sort=False)["rank"].agg(["size", "count"])
    complete = named.index[named["size"] == named["count"]]
    around = {of for name in printed for of in run.semantics.possible_parents(name)}
    kinds = {name: _kind(run, name) for name in complete if name in _COMPUTE or name not in around}
    inside = {name for name in kinds if not _COMPUTE.isdisjoint(run.semantics.possible_parents(name))}
    replayed = [name for name, kind in kinds.items() if kind in (*_MEETING, *_WORKING) and name not in inside]
    rows = rows[rows["phase"].isin(replayed)]
    ranks = sorted(map(int, rows["rank"].unique()))
    count = run.semantics.quantities.get("stages")
    if len(ranks) < 2 or (count or 1) > 1 or (run.world is not None and run.world != len(ranks)):
        return None  # one rank has no peers; ranks of other stages do other work
    rows = rows.sort_values(["step", "rank", "line", "part"], kind="stable")
    found = _same_on_all_ranks(rows, len(ranks))
    if found is None:
        return None
    order, steps, times = found
    names = [name for name, _ in order]
    meets = np.array([kinds[name] in _MEETING for name in names])
    if meets.all():
        return None  # only waiting: nothing that a rank could do faster
    waits = np.array([kinds[name] == "wait" for name in names])
    times[meets] = times[meets].min(axis=2, keepdims=True)
    times[waits] = 0.0
    after = [(place - 1,) if place else () for place in range(len(names))]
    units = [Unit((place,), bool(meets[place])) for place in range(len(names))]
    left_out = [name for name in printed if name not in {*replayed, *around, *inside}]
    return Job(
        Graph(tuple(after), tuple(units)), np.zeros(len(names), np.int64), np.array(names, object), times, steps, ranks,
        {(rank, 0): rank for rank in ranks}, None, int(rows["step"].nunique()) - len(steps),
        _assumed_of_phases(left_out), PHASES,
    )  # fmt: skip


def _kind(run: SteadyRun, name: str) -> str | None:
    """The kind of a phase. What computes all micro-batches is compute, though its timer may not wait."""
    declared = run.semantics.phase(name)
    return "compute" if name in _COMPUTE else declared.kind if declared else None


def _same_on_all_ranks(rows: pd.DataFrame, ranks: int) -> tuple[list[tuple[str, int]], list[int], Floats] | None:
    """Return the phases of a step in order, the steps in which all ranks print them so, and their times.

    Phases of one name are distinguished by their occurrence. Times are by phase, step and rank.
    """
    numbered = rows.assign(nth=rows.groupby(["step", "rank", "phase"]).cumcount())
    shapes: dict[tuple[tuple[str, int], ...], list[tuple[int, Floats]]] = {}
    for step, in_step in numbered.groupby("step", sort=True):
        by_rank = [rank_rows for _, rank_rows in in_step.groupby("rank", sort=True)]
        orders = {tuple(zip(rank_rows["phase"], rank_rows["nth"], strict=True)) for rank_rows in by_rank}
        if len(by_rank) == ranks and len(orders) == 1:
            times = np.array([rank_rows["time_s"].to_numpy(np.float64) for rank_rows in by_rank]).T
            shapes.setdefault(orders.pop(), []).append((int(step), times))
    if not shapes:
        return None
    order, found = max(shapes.items(), key=lambda item: len(item[1]))
    return list(order), [step for step, _ in found], np.stack([times for _, times in found], axis=1)


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
    slots = one_f_one_b(means[FORWARD], timed.micro_batches, means.get(BACKWARD))
    times = np.array([timed.seconds[slot.direction][slot.stage] for slot in slots])[:, :, None]
    kinds = np.array([COMPUTE[slot.direction == BACKWARD] for slot in slots], object)
    texts = ["stages work as 1F1B orders them, and sending takes no time", "micro-batches of a step take equally long",
             f"time outside of the layers' {' and '.join(directions)} is left out"]  # fmt: skip
    return Job(
        _graph_of(slots), np.array([slot.stage for slot in slots]), kinds, times, timed.steps, [0],
        {(0, stage): rank for stage, rank in timed.ranks.items() if rank is not None}, None, 0, "; ".join(texts),
        LAYERS,
    )  # fmt: skip


def _graph_of(slots: Sequence[Slot]) -> Graph:
    """Return what each slot waits for: the slot before it on its stage, and its micro-batch on the stage before."""
    place = {(slot.stage, slot.micro_batch, slot.direction): number for number, slot in enumerate(slots)}
    last = max(slot.stage for slot in slots)
    after: list[tuple[int, ...]] = []
    for number, slot in enumerate(slots):
        waits = {number - 1} if number and slots[number - 1].stage == slot.stage else set()
        up = slot.stage - 1 if slot.direction == FORWARD else slot.stage + 1
        if 0 <= up <= last:
            waits.add(place[up, slot.micro_batch, slot.direction])
        elif slot.direction == BACKWARD:
            waits.add(place[slot.stage, slot.micro_batch, FORWARD])
        after.append(tuple(sorted(waits)))
    return in_order(after, [Unit((number,)) for number in range(len(slots))])
