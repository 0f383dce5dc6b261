"""Server loads: what servers give, and how long requests take, at each load of a client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from msgspec import Struct

from perflog.grouping import grouped
from perflog.metrics.benchmarks.serving import PRINTED, number_or_nan, served, server_rate
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.settings_by_run import settings_by_run
from perflog.settings.run_settings import Settings, incidental_test, independent, leaf_of, varying

_LOADS = ("max_concurrency", "concurrency", "configured_request_rate", "request_rate")
"""Settings of a client that are its load: the first one that differs."""
_RATES = ("output tokens/s", "requests/s")
_LATENCIES = ("ttft", "tpot")
_STATISTICS = ("median", "p99")
_FEWEST = 3  # loads of a server
_ALL = 0.95  # of the highest rate: the server gives no more

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("server", meaning="the other settings in which the runs differ; null: none"),
    MetricColumn("setting", meaning="the setting of the client that is its load"),
    MetricColumn("load", meaning="its value"),
    MetricColumn("rate", "1/s", "higher", "what the server gives: see `rate_of`"),
    MetricColumn("rate_of", meaning="output tokens/s; requests/s where not all runs print tokens"),
    MetricColumn("saturated", meaning="whether the server gives no more at higher loads: 95 % of its highest rate"),
    *(
        MetricColumn(f"{name}_{statistic}_s", "s", "lower", f"{statistic} of {meaning}")
        for name, meaning in (("ttft", "the time to first token"), ("tpot", "the time per output token"))
        for statistic in _STATISTICS
    ),
)


class LoadPoint(Struct, frozen=True):
    """A run at a load. `latencies`: in s, by name and statistic."""

    run: str
    load: float
    rate: float
    latencies: dict[tuple[str, str], float]


class LoadCurve(Struct, frozen=True):
    """The runs of a client against one server at several loads, in the order of the loads.

    Attributes:
        server: The other settings in which runs differ, "" if there are none.
        setting: The setting that is the load.
        rate_of: What the rates count.
        points: The runs.
        knee: The lowest load with 95 % of the highest rate; rates and latencies of a load are medians over its runs.
    """

    server: str
    setting: str
    rate_of: str
    points: tuple[LoadPoint, ...]
    knee: float

    def rate_at(self, load: float) -> float:
        """Return the rate at a load."""
        return median(point.rate for point in self.points if point.load == load)

    def latency_at(self, load: float, name: str) -> float | None:
        """Return the median of a latency at a load, in s; None if no run states it."""
        known = [point.latencies.get((name, "median")) for point in self.points if point.load == load]
        values = [value for value in known if value is not None]
        return median(values) if values else None


@metric(
    title="load of servers",
    needs=("runs",),
    columns=_COLUMNS,
    main="rate",
    formula="the printed statistics of each run of a client, over the setting that is its load; saturated from the "
    "lowest load on whose rate is 95 % of the highest",
    source="own",
)
def server_loads(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What a server gives and how long requests take at each load of a client, from three loads on."""
    rows: list[dict[str, Any]] = []
    for curve in load_curves(tables):
        for point in curve.points:
            latencies = {
                f"{name}_{statistic}_s": point.latencies.get((name, statistic))
                for name in _LATENCIES
                for statistic in _STATISTICS
            }
            rows.append({
                "run": point.run, "server": curve.server or None, "setting": curve.setting, "load": point.load,
                "rate": point.rate, "rate_of": curve.rate_of, "saturated": point.load >= curve.knee,
            } | latencies)  # fmt: skip
    return rows


@computed_list
def load_curves(tables: Tables) -> Iterator[LoadCurve]:
    """Yield the curves of all servers that clients report at enough loads."""
    reported = {
        run: {server_rate(name) if of.unit == "1/s" else name: of.values for name, of in by_name.items()}
        for run, by_name in served(tables).items()
        if any(of.by == PRINTED for of in by_name.values())
    }
    rate_of = next(
        (rate for rate in _RATES if reported and all(_has(by_name, rate) for by_name in reported.values())), ""
    )
    known = {run: settings for run, settings in settings_by_run(tables).items() if run in reported}
    loads = _loads(known)
    if not rate_of or loads is None:
        return
    setting, load_of = loads
    names = _other_names(known, load_of)
    runs_of = grouped((tuple(settings.get(name) for name in names), run) for run, settings in known.items())
    for values, runs in runs_of.items():
        rates = {run: _middle(reported[run][rate_of]) for run in runs}
        by_load = grouped((load_of[run], rate) for run, rate in rates.items())
        if len(by_load) < _FEWEST:
            continue
        middles = {load: median(rates_at) for load, rates_at in by_load.items()}
        points = [LoadPoint(run, load_of[run], rates[run], _latencies(reported[run])) for run in runs]
        yield LoadCurve(
            ", ".join(
                f"{leaf_of(name)} {value}" for name, value in zip(names, values, strict=True) if value is not None
            ),
            setting,
            rate_of,
            tuple(sorted(points, key=lambda point: point.load)),
            min(load for load, rate in middles.items() if rate >= _ALL * max(middles.values())),
        )


def _has(by_name: dict[str, dict[str, float]], rate: str) -> bool:
    return rate in by_name and math.isfinite(_middle(by_name[rate]))


def _middle(statistics: dict[str, float]) -> float:
    """The median of a quantity, else its mean; NaN if a report has neither."""
    return statistics.get("median", statistics.get("mean", math.nan))


def _latencies(by_name: dict[str, dict[str, float]]) -> dict[tuple[str, str], float]:
    found = {
        (name, statistic): _middle(by_name[name]) if statistic == "median" else by_name[name].get(statistic, math.nan)
        for name in _LATENCIES
        if name in by_name
        for statistic in _STATISTICS
    }
    return {key: value for key, value in found.items() if math.isfinite(value)}


def _loads(settings_by_name: Mapping[str, Settings]) -> tuple[str, dict[str, float]] | None:
    """The setting that is the load of a client, and its value by run; None if a run has none or all have the same."""
    for wanted in _LOADS:
        load_of = {
            run: load
            for run, settings in settings_by_name.items()
            for name, value in settings.items()
            if leaf_of(name) == wanted and math.isfinite(load := number_or_nan(value))
        }
        if len(load_of) == len(settings_by_name) and len(set(load_of.values())) > 1:
            return wanted, load_of
    return None


def _other_names(settings_by_name: Mapping[str, Settings], load_of: Mapping[str, float]) -> list[str]:
    """The settings in which runs differ at one load: what follows from the load, as a number of requests, is none."""
    all_settings = list(settings_by_name.values())
    is_incidental = incidental_test(all_settings)
    names = [
        name
        for name in varying(all_settings)
        if not is_incidental(name)
        and leaf_of(name) not in _LOADS
        and len({(load_of[run], each.get(name)) for run, each in settings_by_name.items()}) > len(set(load_of.values()))
    ]
    return independent(all_settings, names)
