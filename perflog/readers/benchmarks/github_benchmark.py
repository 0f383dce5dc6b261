"""Histories of github-action-benchmark: `dev/bench/data.js` of a branch such as gh-pages, or its JSON file.

`window.BENCHMARK_DATA = {"lastUpdate": ..., "repoUrl": ..., "entries": {SUITE: [{commit, date, tool, benches}, ...]}}`.
Each entry is a run: a commit, with a value for each benchmark.
Source: benchmark-action/github-action-benchmark, src/write.ts and src/extract.ts.
"""

from __future__ import annotations

from collections.abc import Iterator

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks.commit_runs import BenchmarkFigure, CommitRun, document, known, moment, write_runs
from perflog.readers.interface import Reader, ReadOptions
from perflog.readers.odd_numbers import as_dict, as_list
from perflog.tables.sink import IngestResult, Sink

ASSIGNED = b"window.BENCHMARK_DATA"

_START = lazy_pattern(
    rb'(?:\xef\xbb\xbf)?\s*(?:window\.BENCHMARK_DATA\s*=\s*)?\{\s*"(?:lastUpdate|repoUrl|entries)"\s*:'
)
_HEAD = 1 << 12
_BETTER = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}
_SAME = "the same value follows under the name of its unit"
_ASIDE = {
    "range": "it is the scatter within a run",
    "extra": "it describes how a value was measured",
}


class GithubBenchmarkReader(Reader):
    """Reads histories of github-action-benchmark. Each entry is a run."""

    name = "github_benchmark"
    title = "history of github-action-benchmark: figures of benchmarks by commit"
    source = "benchmark-action/github-action-benchmark: dev/bench/data.js, or external-data-json-path"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins like such a history."""
        head = source.first_bytes(_HEAD)
        return _START.match(head) is not None and (ASSIGNED in head or b'"repoUrl"' in head or b'"benches"' in head)

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the number of entries of each suite."""
        return [(1, "suite", f"{name}: {len(entries)} entries") for name, entries in _suites(source)]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read a history into a sink."""
        return write_runs(source, sink, options, self.name, _runs(source))


def _suites(source: Source) -> Iterator[tuple[str, list[object]]]:
    content = document(source, ASSIGNED)
    entries = content.get("entries") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise InputError("no entries in this history", source.name, "check that it is data.js of the action")
    yield from ((str(name), suite) for name, suite in entries.items() if isinstance(suite, list))


def _runs(source: Source) -> Iterator[CommitRun]:
    place = 0
    for suite, entries in _suites(source):
        for entry in entries:
            if not isinstance(entry, dict):
                continue
            benches = [bench for bench in as_list(entry.get("benches")) if isinstance(bench, dict)]
            yield CommitRun(suite, _config(entry), _figures(benches, place + 1), _aside(benches))
            place += len(benches)


def _config(entry: dict[str, object]) -> dict[str, object]:
    commit, tool = as_dict(entry.get("commit")), entry.get("tool")
    return known(
        {
            "commit": commit.get("id"),
            "commit_date": commit.get("timestamp"),
            "commit_title": str(commit.get("message") or "").partition("\n")[0].strip(),
            "date": moment(entry.get("date")),
            "tool": tool,
            "better": _BETTER.get(tool) if isinstance(tool, str) else None,
        }
    )


def _figures(benches: list[dict[str, object]], first: int) -> list[BenchmarkFigure]:
    """The values of an entry. For Go the unit of the first value of a benchmark holds all, which then follow."""
    names = {bench.get("name") for bench in benches}
    figures = []
    for place, bench in enumerate(benches, first):
        name, unit = str(bench.get("name")), str(bench.get("unit") or "")
        main, mark, _ = unit.partition("\t")
        same = _SAME if mark and f"{name} - {main}" in names else ""
        written = main.strip() if mark else unit
        figures.append(BenchmarkFigure(place, name.removesuffix(f" - {written}"), bench.get("value"), written, same))
    return figures


def _aside(benches: list[dict[str, object]]) -> dict[str, tuple[int, str]]:
    return {name: (sum(bool(bench.get(name)) for bench in benches), reason) for name, reason in _ASIDE.items()}
