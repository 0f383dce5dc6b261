"""Facts of several runs of servers, in sentences: the load from which on a server gives no more; the slow server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from perflog.analysis.overview.facts.server_facts import rate_in_words
from perflog.analysis.overview.run_groups import RunGroup
from perflog.analysis.run_filter import number_of
from perflog.grouping import grouped
from perflog.metrics import Options, Tables, serving
from perflog.metrics.benchmarks.server_readings import GENERATED, RUNNING
from perflog.metrics.benchmarks.serving import server_rate
from perflog.metrics.settings_by_run import settings_by_run
from perflog.settings.run_settings import leaf_of
from perflog.tables.nulls import records
from perflog.units import show

_LOADS = ("max_concurrency", "concurrency", "configured_request_rate", "request_rate")
"""Settings of a client that are its load: the first one that differs."""
_RATES = ("output tokens/s", "requests/s")
_FEWEST = 3  # loads
_SLOW, _ALIKE = 0.85, 0.9  # of the rate of the other servers: a slow one, and one like them
_ALL = 0.95  # of the highest rate: the server gives no more


def knee(tables: Tables, options: Options) -> Iterator[str]:
    """The lowest load at which a server gives all that it can, and what a higher load costs."""
    rows = serving.table(tables, options)
    found: dict[str, dict[str, float]] = {}
    for row in records(rows[rows["by"] == "printed"]):
        name = server_rate(row["of"]) if row["unit"] == "1/s" else row["of"]
        value = row["mean"] if row["median"] is None else row["median"]
        if value is not None and math.isfinite(value):
            found.setdefault(row["run"], {})[name] = value
    rate = next((each for each in _RATES if found and all(each in values for values in found.values())), None)
    loads = _loads(tables, list(found))
    if rate is None or loads is None:
        return
    setting, load_of = loads
    runs_by_load = grouped(sorted((load, run) for run, load in load_of.items()))
    rates = {load: median(found[run][rate] for run in runs) for load, runs in runs_by_load.items()}
    if len(rates) < _FEWEST:
        return
    least = min(load for load, value in rates.items() if value >= _ALL * max(rates.values()))
    highest = max(rates)
    at = f"{setting} {least:,g}"
    if least == highest:
        yield f"The server gives more at each load up to the highest, {at}: {rate_in_words(rates[least])} {rate}."
        return
    text = f"From {at} on the server gives no more: {rate_in_words(rates[least])} {rate}"
    text += f", {rate_in_words(rates[highest])} at {highest:,g}"
    first = [
        median(values)
        for load in (least, highest)
        if (values := [found[run]["ttft"] for run in runs_by_load[load] if "ttft" in found[run]])
    ]
    waits = f"; TTFT {show(first[0], 's', 3)} -> {show(first[1], 's', 3)}" if len(first) > 1 else ""
    yield f"{text}{waits}."


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


def _loads(tables: Tables, runs: list[str]) -> tuple[str, dict[str, float]] | None:
    """The setting that is the load of a client, and its value by run; None if a run has none or all have the same."""
    settings = settings_by_run(tables)
    for wanted in _LOADS:
        load_of = {
            run: load
            for run in runs
            for name, value in settings[run].items()
            if leaf_of(name) == wanted and (load := number_of(value)) is not None and math.isfinite(load)
        }
        if len(load_of) == len(runs) and len(set(load_of.values())) > 1:
            return wanted, load_of
    return None
