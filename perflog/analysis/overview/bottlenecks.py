"""Bottlenecks: what binds a run, then what its tables show of it, in sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.overview import case_facts, device_facts, log_facts, scaling_facts
from perflog.analysis.overview.headline import headline
from perflog.analysis.overview.host_operators import host_operator_sentences
from perflog.analysis.overview.stuck import stuck
from perflog.analysis.overview.what_if import slowdown_of_job
from perflog.metrics import Options, Tables

_FACTS = (
    device_facts.late_rank,
    device_facts.idle,
    device_facts.largest_work,
    device_facts.critical,
    device_facts.ranges,
    device_facts.launching,
    device_facts.host_ranges,
    device_facts.operators,
    device_facts.memory,
    device_facts.held_by_allocator,
    log_facts.profile,
    log_facts.held_up,
    log_facts.slow_steps,
    log_facts.between_steps,
    scaling_facts.schedules,
    log_facts.job_states,
    log_facts.collective,
    log_facts.loads,
    host_operator_sentences,
    log_facts.places,
    log_facts.latencies,
    log_facts.server_load,
    scaling_facts.scaling_of_tables,
    case_facts.measured_cases,
    case_facts.variants,
)
"""What says nothing about what binds the run."""


def bottleneck(tables: Tables, run: str, options: Options, is_known: bool = False) -> list[str]:
    """Return sentences on what holds a run up; one that says so if its log does not show it, unless `is_known`."""
    found = list(_sentences(tables, run, options))
    return found if found or is_known else list(log_facts.unknown_causes(tables, run, options))


def first_bottleneck(tables: Tables, run: str, options: Options) -> str | None:
    """Return the first sentence on what holds a run up; None if its log does not show it."""
    return next(_sentences(tables, run, options), None)


def _sentences(tables: Tables, run: str, options: Options) -> Iterator[str]:
    kinds = (stuck, slowdown_of_job, headline, *_FACTS)
    return (text for kind in kinds for text in kind(tables, run, options))
