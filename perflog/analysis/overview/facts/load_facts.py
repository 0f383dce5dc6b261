"""Facts of several runs of servers, in sentences: the load from which on a server gives no more; the slow server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from perflog.analysis.overview.facts.server_facts import rate_in_words
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables, serving
from perflog.metrics.benchmarks.server_loads import load_curves
from perflog.metrics.benchmarks.server_readings import GENERATED, RUNNING
from perflog.tables.nulls import records
from perflog.units import show

_FEWEST, _SERVERS = 3, 4  # servers: at least, to find the slow one; with a sentence of its loads, at most
_SLOW, _ALIKE = 0.85, 0.9  # of the rate of the other servers: a slow one, and one like them


def knee(tables: Tables) -> Iterator[str]:
    """The lowest load at which a server gives all that it can, and what a higher load costs."""
    curves = load_curves(tables)
    for curve in curves[:_SERVERS]:
        start = f"{curve.server}: " if len(curves) > 1 else ""
        highest = curve.points[-1].load
        at = f"{curve.setting} {curve.knee:,g}"
        given = f"{rate_in_words(curve.rate_at(curve.knee))} {curve.rate_of}"
        if curve.knee == highest:
            rates = [curve.rate_at(load) for load in dict.fromkeys(point.load for point in curve.points)]
            grows = all(before < rate for before, rate in pairwise(rates))
            more = "gives more at each load up to" if grows else "gives most at"
            yield f"{start}The server {more} the highest, {at}: {given}."
            continue
        text = (
            f"From {at} on the server gives no more: {given}, {rate_in_words(curve.rate_at(highest))} at {highest:,g}"
        )
        first, last = (curve.latency_at(load, "ttft") for load in (curve.knee, highest))
        known = first is not None and last is not None
        waits = f"; TTFT {show(first, 's', 3)} -> {show(last, 's', 3)}" if known else ""
        yield f"{start}{text}{waits}."


def slow_server(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """The one server of several that generates less than the others, with about as many requests."""
    known = {group.runs[0]: group for group in groups if len(group.runs) == 1}
    rows = serving.table(tables, options)
    rows = rows[(rows["by"] == "readings") & rows["dp_rank"].isna() & rows["run"].isin(list(known))]
    medians = {(row["of"], row["run"]): row["median"] for row in records(rows) if row["median"]}
    rates = {run: rate for (of, run), rate in medians.items() if of == GENERATED and (RUNNING, run) in medians}
    if len(rates) <= _FEWEST or len({tuple(known[run].settings.values()) for run in rates}) > 1:
        return
    slow = min(rates, key=rates.__getitem__)
    others = [run for run in rates if run != slow]
    usual = median(rates[run] for run in others)
    load, usual_load = medians[RUNNING, slow], median(medians[RUNNING, run] for run in others)
    are_alike = min(rates[run] for run in others) > _ALIKE * usual and load > _ALIKE * usual_load
    if are_alike and rates[slow] < _SLOW * usual:
        yield (
            f"{known[slow].mark} is slower than the other servers: it generates {rate_in_words(rates[slow])} tokens/s "
            f"with {load:,.0f} running, their median is {rate_in_words(usual)} with {usual_load:,.0f}."
        )
