"""Ranks, links, nodes, experts and stages that hold up the others of a job that goes on.

In: metrics `ranks`, `node_pairs` and `imbalance`, which test each metric over all ranks, links and metrics
together, `named_ranks`, and `whatif` of jobs with operations that can be replayed.
Out: those who are accused. A rank is accused of what it does longer than the others, not of what it waits for, and not
of a difference that is printed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace

from perflog.analysis.culprits import Culprit, with_hosts
from perflog.analysis.overview.facts.what_if import at_fault
from perflog.analysis.overview.ranks_apart import often
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Options, Tables, imbalance, node_pairs, whatif
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.slow_steps import SLOW_STEPS
from perflog.metrics.jobs.step_levels import run_levels
from perflog.metrics.power.lower_clocks import device_clocks
from perflog.metrics.power.unlike_devices import unlike_devices
from perflog.metrics.rank_hosts import hosts_of_ranks, ranks_by_host
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.skew.hot_experts import expert_jobs
from perflog.metrics.skew.named_ranks import NamedRank, named_rank_rows
from perflog.metrics.skew.ranks import WAITS, RankRow, rank_rows
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.parsing.failures.first_cause import LIKELY, SURE
from perflog.statistics.standing_out import LEVEL
from perflog.tables.nulls import int_or_none, none_if_null, row_dicts
from perflog.units import numbered, show, show_p

SLOW_RANK, SLOW_LINK, SLOW_NODE = "slow_rank", "slow_link", "slow_node"
SLOW_STAGE, SLOW_REPLICA, HOT_EXPERT, THROTTLING = "slow_stage", "slow_replica", "hot_expert", "throttling"

_FIGURES = {"steps": ("step_time_s", "forward_s", "backward_s", "tflops", "mfu", "tokens_per_s", "samples_per_s")}
_TIMES, _RATES = ("s",), ("1/s", "TFLOP/s")
_HEAT_UNITS, _COLDER = ("Hz", "°C"), 1.05  # of clocks and temperatures; highest over lowest, at least
_WORK = ("compute", "prepare", "data")
_CLOCKS = lazy_pattern(r"(?i)clock|(?:sm|gr|s)clk|pclk|freq")
_HEAT = lazy_pattern(r"(?i)temp|tmptr|throttl")
_ROWS, _OFTEN = 5, 0.8  # rows of a rank, and the share of them in which it is slow: fewer may be chance
_SURE_ROWS, _SURE_P = 20, 1e-6  # rows, and the probability that it is chance, from which on a culprit is sure
_MOST = 0.25  # of the ranks: where more are slow, there are two groups of ranks, and no outlier
_HOT, _OF_STEPS, _SLOW_STAGE = 1.0, 0.8, 0.1  # load over the mean - 1; share of the steps; time over the mean - 1
_SHOWN = 3
_COSTS = 0.05  # of the step, or of the time


def slow_members(tables: Tables, options: Options) -> list[Culprit]:
    """Return who holds up the others: links and nodes, ranks, experts, stages, replicas."""
    found = [*_links(tables, options), *_ranks(tables)]
    found = found or list(_named(tables)) or list(_of_causes(tables, options))
    found = found or list(_throttled(tables)) or list(_throttled_since(tables, options))
    if found:
        hosts = _hosts(tables)
        return _whole_nodes(with_hosts(found, hosts), hosts)
    return [*_experts(tables), *_stages(tables, options), *_replayed(tables, options)]


def _hosts(tables: Tables) -> Mapping[int, str | None]:
    """Return the hosts of the ranks of the only run with steps."""
    stepping = [*tables.counts("steps")]
    return hosts_of_ranks(tables, stepping[0]) if len(stepping) == 1 else {}


def _whole_nodes(culprits: Sequence[Culprit], hosts: Mapping[int, str | None]) -> list[Culprit]:
    """Return culprits with a node instead of its ranks where all of them are accused of the same."""
    alike = grouped(((each.kind, each.node), each) for each in culprits if each.is_rank_alone)
    nodes = ranks_by_host(hosts)
    whole = {key: each for key, each in alike.items() if 1 < len(each) == len(nodes.get(key[1] or "", ()))}
    found: dict[object, Culprit] = {}
    for n, each in enumerate(culprits):
        key = (each.kind, each.node)
        if key not in whole or not each.is_rank_alone:
            found[n] = each
        elif key not in found:
            ranks = numbered("rank", {own.rank for own in whole[key] if own.rank is not None})
            evidence = (f"all its ranks ({ranks}); {each.name}: {each.evidence[0]}", *each.evidence[1:])
            found[key] = replace(each, rank=None, evidence=evidence)
    return list(found.values())


def _ranks(tables: Tables) -> Iterator[Culprit]:
    meaning = semantics_by_run(tables.rows("runs"))
    by_rank: dict[tuple[str, str], list[RankRow]] = {}
    sizes: dict[str, int] = {}
    for row in rank_rows(tables):
        sizes[row.run] = max(row.ranks, sizes.get(row.run, 0))
        if row.out is not None and row.rank is not None:
            by_rank.setdefault((row.run, row.rank), []).append(row)
    accused = {key: [row for row in rows if _accuses(row, meaning[key[0]])] for key, rows in by_rank.items()}
    once = {key: [row for row in rows if _accuses_once(row)] for key, rows in by_rank.items()}
    accused = {key: rows or (once[key] if len(once[key]) > 1 else []) for key, rows in accused.items()}
    accused = {key: rows for key, rows in accused.items() if rows}
    for (run, rank), rows in accused.items():
        others = sum(other == run for other, _ in accused)
        if sizes[run] < 3 or others > max(1, int(_MOST * sizes[run])):
            continue
        rows.sort(key=lambda row: -row.certainty)
        heat = [row for row in by_rank[run, rank] if _shows_heat(row)]
        several = len({row.figure for row in rows}) > 1
        first = rows[0].out
        assert first is not None
        sure = rows[0].rows >= _SURE_ROWS and (first.far.p < _SURE_P or several)
        evidence = tuple(_evidence(row) for row in [*rows[:_SHOWN], *heat[:_SHOWN]])
        kind = THROTTLING if heat else SLOW_RANK
        cost = next((row for row in rows if row.unit in _TIMES and row.rows >= _ROWS), None)
        number, name = (int(rank), None) if rank.isdigit() else (None, rank)
        yield Culprit(number, None, name, None, None, kind, SURE if sure else LIKELY, evidence, cost=_cost(cost))


def _named(tables: Tables) -> Iterator[Culprit]:
    """The ranks that reports over all ranks name as slow, again and again."""
    by_rank = grouped(
        ((row.run, row.rank), row)
        for row in named_rank_rows(tables)
        if row.worse and row.reports >= _ROWS and row.times >= _OFTEN * row.reports and row.ranks > 2
    )
    slow = {key: [row for row in rows if row.is_slow and not row.p > LEVEL] for key, rows in by_rank.items()}
    slow = {key: rows for key, rows in slow.items() if rows}
    for (run, rank), rows in slow.items():
        if sum(other == run for other, _ in slow) > max(1, int(_MOST * rows[0].ranks)):
            continue  # many slow ranks are two groups of ranks
        heat = [row for row in by_rank[run, rank] if row.unit in _HEAT_UNITS and row.ratio >= _COLDER and row.p < LEVEL]
        sure = any(row.reports >= _SURE_ROWS and row.p < _SURE_P for row in rows)
        evidence = tuple(_words(row) for row in [*rows[:_SHOWN], *heat[:_SHOWN]])
        kind = THROTTLING if heat else SLOW_RANK
        yield Culprit(rank, None, None, None, None, kind, SURE if sure else LIKELY, evidence)


def _of_causes(tables: Tables, options: Options) -> Iterator[Culprit]:
    """The rank that holds up the steady steps of a run, or that alone takes longer in its slow steps.

    Metric `ranks` takes all steps together: a rank that is slow from a step on, or now and then, is no outlier there.
    """
    for causes in causes_by_run(tables, options).values():
        for cause in causes:
            if cause.rank is None or not cause.gain >= _COSTS:
                continue
            if cause.of == "step" and cause.subject == "rank" and cause.binds and cause.time_s:
                own, rest = show(cause.time_s, "s", 3), "next to nothing"
                if cause.ratio is not None:
                    rest = f"{show(cause.time_s / cause.ratio, 's', 3)} ({cause.ratio:.2g} times)"
                text = f"{cause.name} {own}, the others {rest} in the steady steps"
                cost = f"at most {show(cause.gain_s, 's', 3)} of each step"
            elif cause.subject == SLOW_STEPS and (cause.n or 0) > 1:
                share = f"{100 * cause.gain:.0f} % of the time"
                text, cost = f"{cause.name} takes longer in {cause.n} slow steps, which cost {share}", None
            else:
                continue
            yield Culprit(cause.rank, None, None, None, None, SLOW_RANK, LIKELY, (text,), cost=cost)


def _throttled(tables: Tables) -> Iterator[Culprit]:
    """The GPUs of a job that are hotter than the others by their telemetry, and have a lower clock.

    A GPU with a lower clock alone may be idle.
    """
    by_device = grouped(((row.run, row.device), row) for row in unlike_devices(tables)) if tables.count("steps") else {}
    for rows in by_device.values():
        is_higher = {row.quantity: row.value > row.usual for row in rows}
        is_hot = is_higher.get("clock") is False and is_higher.get("temperature") is True
        if is_hot and not rows[0].is_idle:
            each = ((row.quantity, _amount(row.value, row.unit), _amount(row.usual, row.unit)) for row in rows)
            log = f"{rows[0].log}: " * bool(rows[0].log)
            evidence = tuple(f"{log}{quantity} {own}, the others {usual}" for quantity, own, usual in each)
            node, gpu = rows[0].node or None, rows[0].number
            yield Culprit(None, None, node, gpu, None, THROTTLING, LIKELY, evidence)


def _throttled_since(tables: Tables, options: Options) -> Iterator[Culprit]:
    """The GPUs that are hotter and have a lower clock since the steps of a run take longer, by their telemetry."""
    for run, levels in run_levels(tables, options.warmup).items() if tables.count("counters") else ():
        firsts = [int(levels.series.steps[level.start]) for level in levels.levels]
        for n, (before, value) in enumerate(pairwise(levels.medians)):
            if (value > before) != (levels.unit in _TIMES):
                continue
            since = firsts[n + 1]
            end = firsts[n + 2] if n + 2 < len(firsts) else None
            for each in device_clocks(tables, run, firsts[n], since, end):
                if each.is_lower and each.is_hotter and not each.is_idle and each.temperatures is not None:
                    log = f"{each.log}: " * bool(each.log)
                    courses = (("clock", "Hz", each.clocks), ("temperature", "°C", each.temperatures))
                    evidence = tuple(
                        f"{log}{quantity} {' -> '.join(_amount(value, unit) for value in values)} since step {since}"
                        for quantity, unit, values in courses
                    )
                    yield Culprit(None, None, each.node or None, each.number, None, THROTTLING, LIKELY, evidence)


def _amount(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "°C" else show(value, unit, 3)


def _words(row: NamedRank) -> str:
    often = f"in {row.times:,} of {row.reports:,} reports of the log"
    if row.figure is None:
        return f"called a straggler {often}"
    return f"{row.end} {row.figure} {often}, {show(row.value, row.unit, 3)} (highest / lowest {row.ratio:.3g})"


def _accuses(row: RankRow, meaning: RunSemantics) -> bool:
    """Whether a metric shows that a rank does its work more slowly than the others, over time."""
    assert row.out is not None
    far, slower = row.out.far, row.out.far.ratio > 1
    if not row.is_worse or row.rows < _ROWS or far.persistence < _OFTEN:
        return False
    if row.of == "steps":
        return row.figure in _FIGURES["steps"] and (slower if row.unit in _TIMES else not slower)
    if row.of == "phases":
        phase = meaning.phase(row.figure)
        return slower and not WAITS.search(row.figure) and (phase is None or phase.kind in _WORK)
    if row.of == "values":
        return not WAITS.search(row.figure) and ((row.unit in _TIMES and slower) or (row.unit in _RATES and not slower))
    return False


def _accuses_once(row: RankRow) -> bool:
    """Whether a metric that is printed once for each rank, as benchmarks do, shows a rank slower than the others."""
    assert row.out is not None
    slower = row.out.far.ratio > 1
    is_time, is_rate = row.unit in _TIMES, row.unit in (*_RATES, "GB/s")
    return row.is_worse and row.rows < _ROWS and row.of != "phases" and (slower if is_time else is_rate and not slower)


def _shows_heat(row: RankRow) -> bool:
    """Whether a metric shows a GPU that is hotter than the others, or has lower clocks."""
    assert row.out is not None
    higher = row.out.far.ratio > 1
    return row.rows >= _ROWS and (
        (not higher and bool(_CLOCKS.search(row.figure))) or (higher and bool(_HEAT.search(row.figure)))
    )


def _evidence(row: RankRow) -> str:
    assert row.out is not None
    own, others = (show(value, row.unit, 3) for value in (row.out.value, row.out.others))
    name = row.figure.removesuffix("_s") if row.unit == "s" else row.figure
    far = row.out.far
    return f"{name} {own}, the others {others} ({far.ratio:.2g} times, {often(row)}, {show_p(far.p)})"


def _cost(row: RankRow | None) -> str | None:
    if row is None or row.out is None:
        return None
    return f"{show(row.out.value - row.out.others, 's', 3)} of each {row.figure.removesuffix('_s')}"


def _links(tables: Tables, options: Options) -> Iterator[Culprit]:
    """Nodes and pairs of nodes that metric `node_pairs` tells to be slow. A slow node makes its pairs slow."""
    if not tables.count("collectives"):
        return
    table = node_pairs.table(tables, options)
    slow = table[table["slow"].astype("boolean").fillna(False)]
    nodes = slow[slow["of"] == "node"]
    accused: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in row_dicts(nodes):
        accused.setdefault((str(row["node"]),), []).append(row)
    slow_nodes = {name for (name,) in accused}
    for row in row_dicts(slow[slow["of"] == "pair"]):
        if not slow_nodes & {str(row["node"]), str(row["other"])}:
            accused.setdefault((str(row["node"]), str(row["other"])), []).append(row)
    tested = len(table.groupby(["op", "ranks"], dropna=False)) if len(table) else 0
    for names, rows in accused.items():
        evidence = tuple(
            f"{row['op']}: {row['busbw']:.4g} GB/s, {100 * float(row['ratio']):.0f} % of the median"
            for row in rows[:_SHOWN]
        )
        certainty = SURE if len(rows) > 1 or tested == 1 else LIKELY
        node = names[0] if len(names) == 1 else None
        link = " - ".join(names) if len(names) > 1 else None
        kind = SLOW_LINK if link else SLOW_NODE
        yield Culprit(None, None, node, None, None, kind, certainty, evidence, link=link)


def _experts(tables: Tables) -> Iterator[Culprit]:
    """The experts that have far more work than the mean of their layer, in most steps; the hottest first."""
    if not tables.count("loads"):
        return
    found = []
    for job in expert_jobs(tables):
        for layer in job.layers:
            expert, times = Counter(layer.hottest).most_common(1)[0]
            if expert is None or len(layer.steps) < _ROWS or times < _OF_STEPS * len(layer.steps):
                continue
            ratio = float(np.median(layer.ratios[:, layer.experts == expert]))
            where = f"layer {layer.name}: " if layer.name is not None else ""
            text = f"{where}{ratio:.2f} times the mean load, the largest in {times} of {len(layer.steps)} steps"
            if ratio >= 1 + _HOT:
                found.append((ratio, expert, text))
    by_expert = grouped((expert, text) for _, expert, text in sorted(found, reverse=True))
    for expert, texts in list(by_expert.items())[:_SHOWN]:
        yield Culprit(None, None, None, None, None, HOT_EXPERT, LIKELY, tuple(texts[:_SHOWN]), expert=expert)


def _stages(tables: Tables, options: Options) -> Iterator[Culprit]:
    """The pipeline stage with layers that take longer than the mean stage, in most steps."""
    if not tables.count("layers"):
        return
    found: dict[int, list[str]] = {}
    for row in _uneven_stages(tables, options):
        name = str(row["largest"])
        if name.isdigit():
            found.setdefault(int(name), []).append(
                f"{row['name']}: {show(float(row['max']), 's', 3)}, the mean stage {show(float(row['mean']), 's', 3)}, "
                f"in {100 * float(row['largest_share']):.0f} % of {row['n']:,} steps"
            )
    if len(found) == 1:
        ((stage, texts),) = found.items()
        yield Culprit(None, None, None, None, None, SLOW_STAGE, LIKELY, tuple(texts), stage=stage)


def _replayed(tables: Tables, options: Options) -> Iterator[Culprit]:
    """The workers, the stage or the replica at fault, by a replay of the operations of each job, as in the overview."""
    timed = [run for run, format in tables.rows("runs").records("run", "format") if format == OPERATIONS]
    if not timed:
        return
    rows = whatif.table(tables.only(timed), options)
    for run in timed:
        job = rows[(rows["run"] == run) & (rows["rests_on"] == OPERATIONS)]
        fault = at_fault(job) if len(job) else None
        if fault is None:
            continue
        for member in fault.members:
            rank, stage, replica = (int_or_none(member[name]) for name in ("rank", "stage", "dp_rank"))
            kind = SLOW_STAGE if replica is None else SLOW_REPLICA if stage is None else SLOW_RANK
            yield Culprit(rank, None, None, None, None, kind, LIKELY, (fault.words,), stage=stage, dp_rank=replica)


def _uneven_stages(tables: Tables, options: Options) -> Sequence[dict[str, Any]]:
    """Return the rows of metric `imbalance` in which one stage is far above the mean in most steps."""
    table = imbalance.table(tables, options)
    table = table[(table["of"] == "layer") & (table["over"] == "stage") & table["largest"].notna()]
    values = table[["imbalance", "largest_share", "n"]].astype(float).to_numpy()
    if not len(values):
        return []
    far = (values[:, 0] >= _SLOW_STAGE) & (values[:, 1] >= _OF_STEPS) & (values[:, 2] >= _ROWS)
    rows: list[dict[str, Any]] = [
        {name: none_if_null(value) for name, value in row.items()} for row in row_dicts(table[far])
    ]
    return rows
