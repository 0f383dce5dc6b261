"""Metrics of logs and traces. Each is called with a log and returns a table: `perflog.metrics.steps(log)`.

`METRICS` lists them; `help(perflog.metrics.steps)` shows options, columns and an example. Where to look: time inside
the step of a log is in `phases`, exposed communication of a trace in `traces.device_time`.
"""

from perflog.errors import UsageError, did_you_mean
from perflog.metrics.benchmarks.cases import case_pairs, cases
from perflog.metrics.benchmarks.collectives import collectives
from perflog.metrics.benchmarks.node_pairs import node_pairs
from perflog.metrics.benchmarks.server_loads import server_loads
from perflog.metrics.benchmarks.serving import serving
from perflog.metrics.causes import causes
from perflog.metrics.jobs.goodput import goodput
from perflog.metrics.jobs.pauses import pauses
from perflog.metrics.jobs.step_levels import levels
from perflog.metrics.jobs.stuck_ranks import stuck_ranks
from perflog.metrics.jobs.time_to_train import time_to_train
from perflog.metrics.jobs.timeline import timeline
from perflog.metrics.many_runs.factors import configurations, factors
from perflog.metrics.many_runs.history import history
from perflog.metrics.many_runs.scaling import scaling
from perflog.metrics.many_runs.scaling_losses import scaling_losses
from perflog.metrics.many_runs.sweep import sweep
from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import layers, pipeline, stages
from perflog.metrics.pipelines.schedules import schedules
from perflog.metrics.power.energy import energy
from perflog.metrics.power.energy_cases import energy_cases
from perflog.metrics.power.telemetry import telemetry
from perflog.metrics.profiles.allocator import allocator, allocator_holders
from perflog.metrics.profiles.kernels import kernels
from perflog.metrics.profiles.ranges import ranges
from perflog.metrics.registry import Metric, MetricColumn, MetricList
from perflog.metrics.run_tables import Tables
from perflog.metrics.series.curves import curves
from perflog.metrics.series.epoch_times import epochs
from perflog.metrics.series.time_to_target import time_to_target
from perflog.metrics.skew.hot_experts import hot_experts
from perflog.metrics.skew.imbalance import imbalance, imbalance_steps
from perflog.metrics.skew.named_ranks import named_ranks
from perflog.metrics.skew.placement import placement
from perflog.metrics.skew.ranks import ranks
from perflog.metrics.step_time.breakdown import breakdown
from perflog.metrics.step_time.communication import communication
from perflog.metrics.step_time.headroom import headroom
from perflog.metrics.step_time.matmul_efficiency import matmul_efficiency
from perflog.metrics.step_time.phases import phases
from perflog.metrics.step_time.steps import steps
from perflog.metrics.step_time.throughput import throughput
from perflog.metrics.step_time.wait import wait, wait_steps
from perflog.metrics.step_time.waterfall import waterfall
from perflog.metrics.traces.collectives.collective_bandwidth import collective_bandwidth
from perflog.metrics.traces.collectives.collective_wait import collective_wait, stragglers
from perflog.metrics.traces.collectives.rank_clocks import rank_clocks
from perflog.metrics.traces.collectives.rank_pairs import rank_pairs
from perflog.metrics.traces.copies import copies
from perflog.metrics.traces.device_time import device_time
from perflog.metrics.traces.launch_delays import launch_queue, launches
from perflog.metrics.traces.operators.collective_volume import collective_volume
from perflog.metrics.traces.operators.device_kernels import device_kernels
from perflog.metrics.traces.operators.device_operators import device_operators
from perflog.metrics.traces.operators.device_ranges import device_ranges
from perflog.metrics.traces.operators.host_operators import host_operators
from perflog.metrics.traces.operators.operator_efficiency import operator_efficiency
from perflog.metrics.traces.over_time.counter_curve import counter_curve
from perflog.metrics.traces.over_time.counters import counters
from perflog.metrics.traces.over_time.memory import memory_curve, memory_holders, memory_peak
from perflog.metrics.traces.over_time.trace_timeline import trace_timeline
from perflog.metrics.traces.replays.critical_path import critical_path
from perflog.metrics.traces.replays.idle_calls import idle_calls
from perflog.metrics.traces.replays.lateness import lateness
from perflog.metrics.traces.replays.scenarios import replay
from perflog.metrics.what_if.whatif import whatif, whatif_steps

_ORDER = (
    causes, steps, throughput, time_to_train, time_to_target, goodput, timeline, levels, epochs, pauses, curves,
    breakdown, waterfall, headroom, phases, wait, imbalance, ranks, named_ranks, hot_experts, placement, communication,
    collectives, node_pairs, device_time, stragglers, lateness, collective_wait, collective_bandwidth,
    collective_volume, rank_pairs, rank_clocks, whatif, stuck_ranks, device_kernels, device_ranges,
    device_operators, operator_efficiency, host_operators, launches, idle_calls, launch_queue, critical_path, replay,
    trace_timeline, copies,
    memory_peak, memory_holders, memory_curve, allocator, allocator_holders, counters, counter_curve, telemetry,
    energy, energy_cases, kernels, stages, layers,
    pipeline, schedules, matmul_efficiency, ranges, sweep, configurations, factors, scaling, scaling_losses, cases,
    case_pairs, serving, server_loads, history,
)  # fmt: skip

METRICS = MetricList({metric.name: metric for metric in _ORDER})
"""All metrics by name, in the order of a reader's questions: speed, time inside the step, devices, profile, pipeline.

`analyze`, the report and docs/metrics.md keep this order.
"""


def get(name: str) -> Metric:
    """Return the metric of a name. Raises UsageError that names the nearest one."""
    if name not in METRICS:
        help = did_you_mean(name, METRICS, f"there are: {', '.join(METRICS)}")
        raise UsageError(f"there is no metric `{name}`", help=help)
    return METRICS[name]


__all__ = [
    "METRICS", "Metric", "MetricColumn", "Options", "Tables", "allocator", "allocator_holders", "breakdown",
    "case_pairs", "cases", "causes", "collective_bandwidth", "collective_volume", "collective_wait", "collectives",
    "communication", "configurations", "copies", "counter_curve", "counters", "critical_path", "curves",
    "device_kernels", "device_operators", "device_ranges", "device_time", "energy", "energy_cases", "epochs", "factors",
    "get", "goodput", "headroom", "history", "host_operators", "hot_experts", "idle_calls", "imbalance",
    "imbalance_steps", "kernels", "lateness", "launch_queue", "launches", "layers", "levels", "matmul_efficiency",
    "memory_curve", "memory_holders", "memory_peak", "named_ranks", "node_pairs", "operator_efficiency", "pauses",
    "phases", "pipeline", "placement", "ranges", "rank_clocks", "rank_pairs", "ranks", "replay", "scaling",
    "scaling_losses", "schedules", "server_loads", "serving", "stages", "steps", "stragglers", "stuck_ranks", "sweep",
    "telemetry", "throughput", "time_to_target", "time_to_train", "timeline", "trace_timeline", "wait", "wait_steps",
    "waterfall", "whatif", "whatif_steps",
]  # fmt: skip
