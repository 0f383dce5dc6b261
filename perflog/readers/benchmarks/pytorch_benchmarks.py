"""Records of PyTorch's benchmark database (PyTorch HUD), as `torch`, vLLM and others write them in CI.

`[{"benchmark": {"name", "mode", "dtype", "extra_info"}, "model": {"name", "backend"}, "metric": {"name",
"benchmark_values"}}, ...]`, as a list or one a line. Records of one benchmark, model and settings are a run. Those that
come from the database also name their commit, branch, workflow and runner.
Sources: the wiki page "How to integrate with PyTorch OSS benchmark database" of pytorch/pytorch,
benchmarks/dynamo/pr_time_benchmarks of pytorch/pytorch, vllm/benchmarks/lib/utils.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from perflog.errors import InputError
from perflog.formats.families.name_units import name_and_unit
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.commit_runs import (
    BenchmarkFigure,
    CommitRun,
    RecordsReader,
    documents,
    known,
    moment,
    write_runs,
)
from perflog.readers.interface import ReadOptions
from perflog.readers.odd_numbers import finite
from perflog.tables.sink import IngestResult, Sink

_DEEPEST = 4  # objects in objects that are settings
_SECONDS = 1e11  # of a time since 1970: larger numbers are milliseconds


class PytorchBenchmarkReader(RecordsReader):
    """Reads records of PyTorch's benchmark database. Records with the same settings are a run."""

    name = "pytorch_benchmarks"
    title = "records of PyTorch's benchmark database (PyTorch HUD)"
    source = "SAVE_TO_PYTORCH_BENCHMARK_FORMAT of vLLM, pr_time_benchmarks of PyTorch, exports of the database"
    own_keys = (b'"benchmark"', b'"metric"', b'"benchmark_values"')

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the first benchmarks."""
        names = dict.fromkeys(_text(record["benchmark"].get("name")) for _, record in _records(source))
        return [(1, "benchmark", name or "-") for name in list(names)[:3]]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the records into a sink."""
        return write_runs(source, sink, options, self.name, _runs(source))


def _records(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records that have a benchmark and a metric, each with its position."""
    found = False
    for place, record in enumerate(documents(source), 1):
        if isinstance(record, dict) and all(isinstance(record.get(name), dict) for name in ("benchmark", "metric")):
            found = True
            yield place, record
    if not found:
        raise InputError("no record of a benchmark", source.name, "check where the file comes from")


def _runs(source: Source) -> Iterator[CommitRun]:
    runs: dict[str, CommitRun] = {}
    figures: dict[str, list[BenchmarkFigure]] = {}
    for place, record in _records(source):
        model = record.get("model")
        names = _text(record["benchmark"].get("name")), _text(model.get("name") if isinstance(model, dict) else model)
        config = _config(record)
        key = json.dumps([*names, config], default=str)
        run_values = figures.setdefault(key, [])
        runs.setdefault(key, CommitRun(names[0], config, run_values, model=names[1]))
        run_values += _figures(record, place)
    yield from runs.values()


def _config(record: Mapping[str, Any]) -> dict[str, object]:
    """The settings of a record: what distinguishes its run, its commit and its runner."""
    benchmark = record["benchmark"]
    settings = {name: benchmark.get(name) for name in ("mode", "dtype")}
    settings |= dict(_leaves(benchmark.get("extra_info"), ""))
    model = record.get("model")
    if isinstance(model, dict):
        settings |= {"model_type": model.get("type"), "backend": model.get("backend")}
    runners = record.get("runners")
    if isinstance(runners, list) and runners:
        settings |= dict(_leaves(runners[0], "runner"))
    time = finite(record.get("timestamp"))
    settings |= {
        "commit": record.get("head_sha"),
        "branch": record.get("head_branch"),
        "workflow_id": record.get("workflow_id"),
        "job_id": record.get("job_id"),
        "date": moment(time if time is None or time > _SECONDS else 1000 * time),
    }
    return known(settings)


def _leaves(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the members of nested objects that are no lists, under names joined by dots."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, member in value.items():
            yield from _leaves(member, f"{name}.{key}" if name else str(key), depth + 1)
    elif name and not isinstance(value, dict | list):
        yield name, value


def _figures(record: Mapping[str, Any], place: int) -> Iterator[BenchmarkFigure]:
    metric = record["metric"]
    name, unit = name_and_unit(_text(metric.get("name")) or "value")
    values = metric.get("benchmark_values")
    values = values if isinstance(values, list) else [values]
    shapes = record.get("shape")
    if isinstance(shapes, list) and len(shapes) == len(values) > 1:
        yield from (
            BenchmarkFigure(place, f"{name} {shape}", value, unit) for shape, value in zip(shapes, values, strict=True)
        )
        return
    yield from (BenchmarkFigure(place, name, value, unit) for value in values)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
