"""Results that Bencher keeps, as `bencher perf --format json` or its API give them.

`{"project": ..., "results": [{"branch", "testbed", "benchmark", "measure", "metrics": [{"report", "iteration",
"start_time", "version": {"number", "hash"}, "metric": {"value", ...}}, ...]}, ...]}`. An iteration of a report is
a run.
Source: bencherdev/bencher, lib/bencher_json/src/project/perf.rs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.commit_runs import (
    BenchmarkFigure,
    CommitRun,
    RecordsReader,
    document,
    known,
    write_runs,
)
from perflog.readers.interface import ReadOptions
from perflog.readers.odd_numbers import as_dict
from perflog.tables.sink import IngestResult, Sink

_UNIT = lazy_pattern(r"(?:.*\()?([^()]+)\)?\s*")  # `nanoseconds (ns)`
_ASIDE = {
    "bounds of a value": (("metric", "lower_value"), ("metric", "upper_value")),
    "limits of a threshold": (("boundary", "baseline"), ("boundary", "lower_limit"), ("boundary", "upper_limit")),
}
_WHY = {"bounds of a value": "they measure the scatter within a run", "limits of a threshold": "Bencher computes them"}


class BencherReader(RecordsReader):
    """Reads results that Bencher keeps. An iteration of a report is a run."""

    name = "bencher"
    title = "results that Bencher keeps: figures of benchmarks by version"
    source = "bencher perf --format json, and the API /v0/projects/PROJECT/perf of Bencher"
    own_keys = (b'"testbed"', b'"benchmark"', b'"measure"', b'"metrics"')

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the project and the number of results."""
        content = _content(source)
        return [(1, "project", f"{_name(content, 'project')}: {len(content['results'])} results")]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the results into a sink."""
        return write_runs(source, sink, options, self.name, _runs(_content(source)))


def _content(source: Source) -> dict[str, Any]:
    content = document(source)
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise InputError("no results in this file", source.name, "write it with `bencher perf --format json`")
    return content


def _runs(content: Mapping[str, object]) -> Iterator[CommitRun]:
    figures: dict[tuple[str, ...], list[BenchmarkFigure]] = {}
    configs: dict[tuple[str, ...], dict[str, Any]] = {}
    aside: dict[tuple[str, ...], dict[str, int]] = {}
    for place, result, metric in _metrics(content):
        names = _name(result, "branch"), _name(result, "testbed")
        key = (str(metric.get("report")), str(metric.get("iteration")), *map(str, names))
        version = as_dict(metric.get("version"))
        configs.setdefault(
            key,
            known(
                {
                    "commit": version.get("hash"), "version_number": version.get("number"),
                    "date": metric.get("start_time"), "branch": names[0], "testbed": names[1],
                }
            ),
        )  # fmt: skip
        figure = f"{_name(result, 'benchmark')}: {_name(result, 'measure')}"
        match = _UNIT.fullmatch(str(as_dict(result.get("measure")).get("units") or ""))
        value = as_dict(metric.get("metric")).get("value")
        figures.setdefault(key, []).append(BenchmarkFigure(place, figure, value, match[1] if match else ""))
        counts = aside.setdefault(key, dict.fromkeys(_ASIDE, 0))
        for name, fields in _ASIDE.items():
            counts[name] += sum(as_dict(metric.get(part)).get(field) is not None for part, field in fields)
    for key, run_values in figures.items():
        dropped = {name: (count, _WHY[name]) for name, count in aside[key].items()}
        yield CommitRun(_name(content, "project"), configs[key], run_values, dropped)


def _metrics(content: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Yield each metric with its position and its result."""
    place = 0
    for result in content["results"]:
        metrics = result.get("metrics") if isinstance(result, dict) else None
        for metric in metrics if isinstance(metrics, list) else ():
            place += 1
            if isinstance(metric, dict):
                yield place, result, metric


def _name(of: Mapping[str, object], part: str) -> str | None:
    name = as_dict(of.get(part)).get("name")
    return name if isinstance(name, str) else None
