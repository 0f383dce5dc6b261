"""Serving: latency of requests and tokens, and throughput while requests run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Floats
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_tables import case_tables
from perflog.metrics.benchmarks.server_readings import CACHE, RUNNING, busy_readings, by_replica
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.directions import Better
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.settings_by_run import settings_by_run
from perflog.tables.columns import Rows

_STATISTICS = ("mean", "median", "p90", "p95", "p99", "min", "max")

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="ttft (time to first token), tpot (time per output token), itl (inter-token latency), "
                 "latency (of a request), or the printed name of a rate, a number of requests or a share of the cache"),
    MetricColumn("dp_rank", meaning="data-parallel rank (replica) with these readings; null: all of them, of several "
                 "the sums of mean and median", type="Int64"),
    MetricColumn("unit", meaning="unit of the values; null: a plain number"),
    MetricColumn("by", meaning="printed: a report holds the statistics; requests, readings: computed from them"),
    MetricColumn("n", meaning="number of requests, or of readings while requests run; null: printed statistics",
                 type="Int64"),
    *(MetricColumn(name, meaning=f"{name} of the values") for name in _STATISTICS),
    MetricColumn("tail", meaning="p99 / median"),
    MetricColumn("first_line", meaning="first line that it rests on", brief=False),
    MetricColumn("last_line", meaning="last line that it rests on", brief=False),
)  # fmt: skip

_QUANTITIES = {
    "ttft": r"ttft|time_to_first_token",
    "tpot": r"tpot|time_per_output_token",
    "itl": r"itl|inter_token_latency|intertoken_latency",
    "latency": r"e2el|e2e_latency|end_to_end_latency|request_latency",
}
_QUANTITY = lazy_pattern(
    "|".join(rf"(?P<{name}>(?<![a-z])(?:{words})(?![a-z]))" for name, words in _QUANTITIES.items())
)
_STATISTIC = lazy_pattern(
    r"(?<![a-z0-9])(?:(?P<mean>mean|avg|average)|(?P<median>median|mdn|p50)|(?P<named>p9[059]|min|max))(?![a-z0-9])"
)
_RATES = lazy_pattern(r"(?:.*_)?(?:throughput|(?:token|request|sample)s_per_s)(?:_.*)?")
_MEAN = lazy_pattern(r"[._](?:mean|avg|average)")
SERVER_RATES = {
    r"output_(?:token_)?throughput|output_tokens_per_s": "output tokens/s",
    r"generation_tokens_per_s|gen_throughput": "generated tokens/s",
    r"request_throughput|requests_per_s": "requests/s",
    r"total_(?:token_)?throughput|total_tokens_per_s": "total tokens/s",
    r"(?:prompt|input)_(?:tokens_per_s|(?:token_)?throughput)": "prompt tokens/s",
}
"""Rates of servers by pattern of their printed names: a benchmark prints what clients got, an engine what it makes."""
_OTHER_STATISTIC = lazy_pattern(r"(?<![a-z0-9])(?:std|stddev|p[0-9]+|peak)(?![a-z0-9])")
_OF_STATISTICS = lazy_pattern(r"(?i)percentiles?|quantiles?|statistics?")
"""Names of a column of statistics."""
_AT_WORK = 0.25  # of the readings of the busiest engine: an engine that prints by its steps prints fewer if it is slow
_CLIENT_RATES = ("configured_request_rate", "request_rate", "arguments.request_rate", "arguments.request-rate")
_KEEPS_UP = 0.9  # of the rate of a client: random intervals, and the time of the last requests
PRINTED, REQUESTS, READINGS = "printed", "requests", "readings"
"""What statistics are from: a report prints them; else what they are computed from."""


class _Found(Struct):
    """The statistics of one quantity of a run.

    `key`: the name of the values that its statistics were computed from. `replicas`: by data-parallel rank, if several
    engines print readings.
    """

    unit: str
    by: str
    values: dict[str, float]
    n: int | None
    lines: tuple[int, int]
    key: str = ""
    replicas: dict[int, _Found] = field(default_factory=dict)


def serving_samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield computed values: latencies of requests, median and p99, and the state of an engine while requests run."""
    for run, found in served(tables).items():
        for name, of in found.items() if run in steady.cuts else ():
            way: Better | None = "lower" if of.unit == "s" else "higher" if of.unit == "1/s" else None
            statistics = ("median", "p99") if of.by == REQUESTS else ("median",) if of.by == READINGS else ()
            for statistic in statistics if of.values else ():
                shown = f"{name} {statistic}" if of.by == REQUESTS else name
                yield Measure("value", shown, of.unit, way), run, np.array([of.values[statistic]])


@metric(
    title="serving",
    needs=("runs",),
    columns=_COLUMNS,
    compares=(serving_samples,),
    main="p99",
    formula="statistics as the report prints them, else over the requests, or over the readings with running requests",
    source="reports of serving benchmarks; logs of engines that print their state from time to time",
)
def serving(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Latency of requests and tokens, then throughput, requests and cache of a server, while requests run."""
    rows: list[dict[str, Any]] = []
    for (run,) in tables.rows("runs").records("run"):
        for name, found in served(tables).get(run, {}).items():
            rows += [
                {"run": run, "of": name, "dp_rank": rank} | _row(of)
                for rank, of in [(None, found), *found.replicas.items()]
            ]
    return rows


def _row(found: _Found) -> dict[str, Any]:
    row: dict[str, Any] = {"unit": found.unit or None, "by": found.by, "n": found.n} | found.values
    if found.values.get("median") and "p99" in found.values:
        row["tail"] = found.values["p99"] / found.values["median"]
    return row | {"first_line": found.lines[0], "last_line": found.lines[1]}


@computed_once
def served(tables: Tables) -> dict[str, dict[str, _Found]]:
    """Return the quantities of each run that serves requests, latencies first."""
    found: dict[str, dict[str, _Found]] = {}
    readings = tables.rows("values")
    readings = readings.where(~readings.known("step"))
    readings = readings.where(np.isfinite(readings["value"]))
    for run, rows in readings.by("run").items():
        case_names = {name for table in case_tables(tables).get(run, ()) for name in table.names}
        rows = rows.where(~rows.one_of("key", case_names))  # no case represents the others
        rows = _without_statistics(rows)
        found[run] = dict(_engine_values(rows)) or dict(_request_values(rows))
    summaries = tables.rows("summaries")
    for run, rows in summaries.by("run").items():
        found[run] = found.get(run, {}) | dict(_printed(rows))
    order = [*_QUANTITIES]
    return {
        run: dict(
            sorted(by_quantity.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))
        )
        for run, by_quantity in found.items()
        if _serves(by_quantity)
    }


def _without_statistics(rows: Rows) -> Rows:
    """Return rows without rows of tables with a percentile in each row: these values are of no request."""
    names = [key for key in rows.counts("key") if _OF_STATISTICS.fullmatch(key)]
    if not names:
        return rows
    return rows.where(~np.isin(rows["line"], rows.where(rows.one_of("key", names))["line"]))


def _serves(found: dict[str, _Found]) -> bool:
    """Whether a value shows that requests were served: any program may print a throughput."""
    return RUNNING in found or any(name in _QUANTITIES for name in found)


def _printed(rows: Rows) -> Iterator[tuple[str, _Found]]:
    """The statistics of a report."""
    found: dict[str, _Found] = {}
    for key, unit, value, line in rows.records("key", "unit", "value", "line"):
        quantity, statistic = _quantity(key), _statistic(key)
        if quantity is None and (rate := _rate_of(key)):
            quantity, statistic = rate, "mean"
        if quantity is None or statistic is None or not np.isfinite(value):
            continue
        quantity_values = found.setdefault(quantity, _Found(unit or "", PRINTED, {}, None, (line, line)))
        quantity_values.values.setdefault(statistic, value)
        quantity_values.lines = min(quantity_values.lines[0], line), max(quantity_values.lines[1], line)
    yield from found.items()


class ClientRate(Struct, frozen=True):
    """Requests per second that a client is set to send, and that are served."""

    sent: float
    served: float

    @property
    def is_limit(self) -> bool:
        """Whether the client limits the rate, not the server."""
        return self.served >= _KEEPS_UP * self.sent


@computed_once
def client_rates(tables: Tables) -> dict[str, ClientRate]:
    """Return the rate of the client of each run that states one and the rate that is served."""
    found = dict[str, ClientRate]()
    for run, by_name in served(tables).items():
        settings = settings_by_run(tables)[run]
        stated = [number_or_nan(settings.get(name)) for name in _CLIENT_RATES]
        sent = next((each for each in stated if not math.isnan(each)), math.inf)
        rates = {server_rate(name): of.values.get("mean") for name, of in by_name.items() if of.unit == "1/s"}
        rate = rates.get("requests/s")
        if rate is not None and math.isfinite(sent):
            found[run] = ClientRate(sent, rate)
    return found


def number_or_nan(value: object) -> float:
    """Return the value of a setting as a number; NaN if it is none."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def leading_latency(keys: Iterable[str]) -> str | None:
    """Return which of some printed names is the median of the latency that clients feel: of requests, else TTFT."""
    medians = {_quantity(key): key for key in reversed([*keys]) if _statistic(key) == "median"}
    return next((medians[quantity] for quantity in ("latency", *_QUANTITIES) if quantity in medians), None)


def is_latency_statistic(key: str) -> bool:
    """Return whether a printed name is a statistic of a latency: one benchmark has one value of it."""
    return _quantity(key) is not None and _statistic(key) is not None


def server_rate(name: str) -> str:
    """Return the usual name of a rate of a server; the printed one if it is another rate."""
    plain = _plain(name)
    return next((usual for pattern, usual in SERVER_RATES.items() if re.fullmatch(pattern, plain)), name)


def _quantity(key: str) -> str | None:
    """Return which latency a printed name means; None for other quantities, such as a number of tokens."""
    match = _QUANTITY.search(_plain(key))
    return match.lastgroup if match else None


def _statistic(key: str) -> str | None:
    match = _STATISTIC.search(_plain(key))
    return (match["named"] or match.lastgroup) if match else None


def _rate_of(key: str) -> str:
    """Return the rate that a report holds once under a printed name, or the mean of; "" for others, and statistics."""
    mean = _MEAN.search(key)
    name = key[: mean.start()] + key[mean.end() :] if mean is not None else key
    is_statistic = _statistic(name) is not None or _OTHER_STATISTIC.search(_plain(name)) is not None
    return name if _RATES.fullmatch(_plain(name)) and not is_statistic else ""


def _plain(key: str) -> str:
    """A printed name in lower case, with underscores between its words."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower())


def _request_values(rows: Rows) -> Iterator[tuple[str, _Found]]:
    """Latencies of single requests, each a value; and statistics and rates that results hold by name."""
    statistics: list[int] = []
    for key, key_rows in rows.by("key").items():
        quantity, is_rate = _quantity(key), bool(_rate_of(key))
        if quantity is None and not is_rate:
            continue
        if is_rate or _statistic(key) is not None:
            if len(key_rows) > 1:  # of several benchmarks: none represents the others
                continue
            statistics += np.flatnonzero(rows.one_of("key", [key])).tolist()
        elif quantity and len(key_rows) > 1 and not _OTHER_STATISTIC.search(_plain(key)):
            yield quantity, _computed(key_rows, REQUESTS, key)
    if statistics:
        yield from _printed(rows.where(np.sort(np.array(statistics, np.int64))))


def _engine_values(rows: Rows) -> Iterator[tuple[str, _Found]]:
    """What an engine prints of its state from time to time, at the readings with running requests."""
    for name, name_rows in busy_readings(rows).items():
        replicas = {rank: _computed(of, READINGS, str(of["key"][0])) for rank, of in by_replica(name_rows).items()}
        yield name, replicas[None] if None in replicas else _summed(name, name_rows, replicas)


def _summed(name: str, rows: Rows, replicas: dict[int | None, _Found]) -> _Found:
    """Return the statistics of a quantity over several engines, from its rows and the statistics of each engine.

    Rates and numbers of requests add up, if all engines are at work about as often; else they have no statistics. The
    usage of the caches does not add up.
    """
    total = _computed(rows, READINGS, str(rows["key"][0]))
    if name != CACHE:
        readings = [replica.n or 0 for replica in replicas.values()]
        work_alike = min(readings) >= _AT_WORK * max(readings)
        statistics = ("mean", "median") if work_alike else ()
        total.values = {each: sum(replica.values[each] for replica in replicas.values()) for each in statistics}
    total.replicas = {rank: replica for rank, replica in replicas.items() if rank is not None}
    return total


def _computed(rows: Rows, by: str, key: str) -> _Found:
    values: Floats = rows["value"]
    units = {unit for (unit,) in rows.records("unit") if unit}
    p90, p95, p99 = np.quantile(values, [0.9, 0.95, 0.99])
    statistics = {"mean": values.mean(), "median": np.median(values), "p90": p90, "p95": p95, "p99": p99}
    statistics |= {"min": values.min(), "max": values.max()}
    lines = rows["line"]
    unit = units.pop() if len(units) == 1 else ""
    return _Found(
        unit,
        by,
        {k: float(v) for k, v in statistics.items()},
        len(values),
        (int(lines.min()), int(lines.max())),
        key,
    )
