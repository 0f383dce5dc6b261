"""Results of airspeed velocity (asv): `results/MACHINE/COMMIT-ENVIRONMENT.json`, one file for each commit.

A result is a number, or several over the product of the parameters of the benchmark. Names give the kind: `time_...`
in seconds, `mem_...` and `peakmem_...` in bytes; the unit of `track_...` is in `benchmarks.json` of the folder above.
Source: airspeed-velocity/asv, asv/results.py (versions 1 and 2 of the format).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from perflog.errors import InputError
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.source import Source, open_source
from perflog.readers.benchmarks.commit_runs import (
    BenchmarkFigure,
    CommitRun,
    RecordsReader,
    document,
    known,
    moment,
    write_runs,
)
from perflog.readers.interface import ReadOptions
from perflog.tables.sink import IngestResult, Sink

_KINDS = {"time": "s", "timeraw": "s", "mem": "B", "peakmem": "B"}
_STATISTICS = "statistics", "they measure the scatter within a run"


class AsvReader(RecordsReader):
    """Reads results of asv. A file is the run of a commit in an environment."""

    name = "asv"
    title = "results of airspeed velocity (asv): figures of benchmarks at a commit"
    source = "asv run: .asv/results/MACHINE/COMMIT-ENVIRONMENT.json"
    own_keys = (b'"commit_hash"', b'"params"')
    head_bytes = 1 << 14

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the commit and the machine."""
        content = _content(source)
        machine = content["params"].get("machine") if isinstance(content["params"], dict) else None
        return [(1, "commit", f"{content['commit_hash']} on {machine}")]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the results of a commit into a sink."""
        content = _content(source)
        figures = list(_figures(content, _units(source.name)))
        scatter = _scatter(content)
        run = CommitRun(None, _config(content), figures, {_STATISTICS[0]: (scatter, _STATISTICS[1])})
        return write_runs(source, sink, options, self.name, [run])


def _content(source: Source) -> dict[str, object]:
    content = document(source)
    if not isinstance(content, dict) or not {"commit_hash", "params", "results"} <= content.keys():
        raise InputError("no results in this file", source.name, "name the files below results/MACHINE/")
    if not isinstance(content["results"], dict):
        raise InputError("no results by benchmark", source.name, "name the files below results/MACHINE/")
    return content


def _config(content: Mapping[str, Any]) -> dict[str, object]:
    parts = [content[name] for name in ("params", "requirements", "env_vars") if isinstance(content.get(name), dict)]
    settings = {str(name): value for part in reversed(parts) for name, value in part.items()}
    own = {"commit": content["commit_hash"], "commit_date": moment(content.get("date"))}
    names = {name: content.get(name) for name in ("python", "env_name")}
    return known({**settings, **names, **own})


def _figures(content: Mapping[str, Any], units: Mapping[str, str]) -> Iterator[BenchmarkFigure]:
    place = 0
    columns = content.get("result_columns")
    names = columns if isinstance(columns, list) else ["result", "params"]
    for benchmark, result in content["results"].items():
        fields = _fields(result, names)
        values = fields.get("result")
        values = values if isinstance(values, list) else [values]
        kind = benchmark.rpartition(".")[2].partition("_")[0].lower()
        unit = _KINDS.get(kind) or units.get(benchmark, "")
        for name, value in zip(_names(benchmark, fields.get("params"), len(values)), values, strict=True):
            place += 1
            yield BenchmarkFigure(place, name, value, unit)


def _fields(result: object, names: Sequence[object]) -> dict[str, object]:
    """The fields of a result, in any version of the format."""
    if isinstance(result, dict):
        return result
    if isinstance(result, list):
        return dict(zip(map(str, names), result, strict=False))
    return {"result": result}


def _names(benchmark: str, params: object, count: int) -> list[str]:
    """The names of the values of a benchmark: with the values of its parameters, the last one changing fastest."""
    lists = [values for values in params if isinstance(values, list)] if isinstance(params, list) else []
    every = list(product(*lists)) if lists else []
    if len(every) == count:
        return [f"{benchmark}({', '.join(map(str, values))})" for values in every]
    return [benchmark] if count == 1 else [f"{benchmark}({k})" for k in range(1, count + 1)]


def _scatter(content: Mapping[str, Any]) -> int:
    """The number of results with statistics."""
    columns = content.get("result_columns")
    names = columns if isinstance(columns, list) else []
    every = (_fields(result, names) for result in content["results"].values())
    return sum(any(str(name).startswith("stats") and value for name, value in fields.items()) for fields in every)


def _units(name: str) -> dict[str, str]:
    """The units of benchmarks in `benchmarks.json` beside the folder of the machine."""
    path = os.path.join(os.path.dirname(os.path.dirname(name)), "benchmarks.json")
    if not os.path.isfile(unpacked_path(path)):
        return {}
    with suppress(InputError), open_source(path) as source:
        known = document(source)
        if isinstance(known, dict):
            return {
                benchmark: of["unit"]
                for benchmark, of in known.items()
                if isinstance(of, dict) and isinstance(of.get("unit"), str)
            }
    return {}
