"""The answers of the tools: plain values for JSON, from the same code as the commands of the same names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perflog.errors import UsageError
from perflog.log import Log, combined
from perflog.mcp.bounds import MOST_ROWS, bounded
from perflog.mcp.confinement import Confinement
from perflog.output.sheets import Sheet
from perflog.tables.nulls import none_if_null
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.sql import VIEWS

_KEPT = 8  # logs that stay in memory
_AROUND = 200  # lines around a line
_FILES = 500  # of a folder
_MEMORY = "2GB"  # of a query
_FIRST = ("other_work", "other_settings", "failed", "cut_short", "warnings")  # what the verdict alone does not say


class Answers:
    """Answers about the logs and stores of some folders. Each log is read once, until it changes."""

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._kept: dict[tuple[object, ...], Log] = {}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool.

        Raises:
            PerflogError: A name, a query or an option is wrong, or a log cannot be read.
        """
        functions: dict[str, Callable[..., dict[str, Any]]] = {
            "overview": self.overview, "diagnose": self.diagnose, "compare": self.compare, "metrics": self.metrics,
            "query": self.query, "lines": self.lines, "files": self.files,
        }  # fmt: skip
        return functions[tool](**arguments)

    def overview(
        self, runs: list[str], parts: list[str], rows: int, gpu: str | None = None, warmup: int | None = None
    ) -> dict[str, Any]:
        """What ran, how fast, why, what not to trust, what ended it: brief, and the asked parts as rows."""
        from perflog.analysis.overview import overview
        from perflog.output.presenters.brief import overview_brief
        from perflog.output.presenters.overview_rows import PARTS, overview_sheets

        chosen = _chosen(parts, list(PARTS))
        answer = overview(self._log(runs), *runs, gpu=gpu, warmup=warmup)
        document: dict[str, Any] = {"brief": overview_brief(answer)}
        if chosen:
            document |= {sheet.key: _values(sheet) for sheet in overview_sheets(answer, chosen)}
        return _answer(document, rows)

    def diagnose(self, runs: list[str], rows: int) -> dict[str, Any]:
        """What ended each job or holds it up, who is accused, with the lines that prove it."""
        from perflog.analysis.diagnosis import diagnose, diagnose_jobs
        from perflog.output.presenters.brief import diagnosis_brief

        log = self._log(runs)
        answers = diagnose_jobs(log, *runs) if len(runs) == 1 else [diagnose(log, *runs)]
        failed = sorted(answers, key=lambda answer: not answer.kind)
        return _answer({"brief": diagnosis_brief(answers), "jobs": [answer.as_json() for answer in failed]}, rows)

    def compare(
        self, sides: list[str], parts: list[str], rows: int, by: list[str], base: str | None = None
    ) -> dict[str, Any]:
        """How sides differ and how sure that is: brief, and the asked parts as rows."""
        from perflog.analysis.compare import compare, with_gates
        from perflog.output.presenters.compare_brief import comparison_brief

        named: dict[str, list[Log]] = {}
        for side in sides:
            name, run = _named(side)
            named.setdefault(name, []).append(self._log([run]))
        compared = compare(named, by=by, base=base, history=())
        words = [*sides, *(word for setting in by for word in ("--by", setting))]
        whole = with_gates(compared, ())
        lists = {name: value for name, value in whole.items() if isinstance(value, list | dict)}
        chosen = _chosen(parts, list(lists))
        first = {name: value for name, value in lists.items() if name in _FIRST and value}
        facts = {name: value for name, value in whole.items() if name not in lists}
        named_sides = {"sides": list(compared.sides)}
        return _answer(
            {"brief": comparison_brief(compared, words)} | facts | named_sides | first
            | {name: value for name, value in lists.items() if name in chosen}, rows,
        )  # fmt: skip

    def metrics(
        self, runs: list[str], metric: str | None, rows: int, gpu: str | None = None, warmup: int | None = None
    ) -> dict[str, Any]:
        """A metric with its formula, or the names of all that these runs have data for."""
        from perflog.metrics import METRICS, Options, Tables, get

        log = self._log(runs)
        if metric is None:
            tables = Tables(log)
            some = [m for m in METRICS.values() if all(tables.count(name) for name in m.needs)]
            return _answer({"metrics": [{"metric": m.name, "title": m.title} for m in some]}, max(rows, len(some)))
        found = get(metric)
        table = found.table(Tables(log), Options.of(gpu=gpu, warmup=warmup))
        names = [column.name for column in found.columns]
        values = [
            dict(zip(names, map(none_if_null, row), strict=True))
            for row in table[names].head(MOST_ROWS).astype(object).itertuples(index=False, name=None)
        ]
        document = {
            "metric": found.name, "title": found.title, "formula": found.formula,
            "units": {column.name: column.unit for column in found.columns if column.unit},
            "rows_in_all": len(table), "rows": _without_empty(values),
        }  # fmt: skip
        return _answer(document, rows)

    def query(self, runs: list[str], sql: str, rows: int) -> dict[str, Any]:
        """Rows of a query in SQL that reads nothing but the tables of these runs."""
        from perflog.output.sheets import result_sheet

        log = self._log(runs)
        try:
            table = log.sql_arrow(sql, most=rows + 1, memory=_MEMORY)
        except UsageError as error:
            raise UsageError(error.reason, help=f"a query reads the tables of the runs: {', '.join(VIEWS)}") from error
        sheet = result_sheet(table, "json")
        found = [list(row) for row in sheet.rows]
        answer = _answer({"columns": [column.name for column in sheet.columns], "rows": found[:rows]}, rows)
        if len(found) > rows:
            answer["cut"] = [each for each in answer["cut"] if each["part"] != "rows"]
            answer["cut"].append({"part": "rows", "shown": len(answer["rows"]), "of": f"more than {rows}"})
        return answer

    def lines(self, log: str, line: int, before: int, after: int) -> dict[str, Any]:
        """The lines of a log around one of them."""
        from perflog.parsing.input.source import open_source
        from perflog.parsing.input.text_lines import text_lines

        first, last = max(line - min(before, _AROUND), 1), line + min(after, _AROUND)
        with open_source(self._confinement.file(log)) as source:
            if source.looks_binary():
                raise UsageError("this is not a text file", log, "query its tables instead")
            found = [{"line": number, "text": text} for number, text in text_lines(source, first, last)]
        if not found:
            raise UsageError(f"there is no line {line}", log, "lines are counted from 1")
        return _answer({"log": log, "lines": found}, len(found))

    def files(self) -> dict[str, Any]:
        """The files of the folders, and the runs of their stores."""
        files: list[dict[str, Any]] = []
        total = 0
        for root in self._confinement.roots:
            for place, folders, names in os.walk(root):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                for name in sorted(name for name in names if not name.startswith(".")):
                    total += 1
                    if len(files) < _FILES and os.path.isfile(path := os.path.join(place, name)):
                        files.append({"log": os.path.relpath(path, root), "bytes": os.path.getsize(path)})
        stores = []
        for store in self._confinement.stores():
            from perflog.opening import load

            stores += [{"run": k.id, "label": k.label, "log": k.log, "store": store} for k in load(store).run_keys]
        document = {"folders": list(self._confinement.roots), "files": files, "files_in_all": total, "runs": stores}
        return _answer(document, _FILES)

    # --- runs -----------------------------------------------------------------------------------------------------

    def _log(self, names: Sequence[str]) -> Log:
        """The runs that names mean. What is read is kept while its files do not change."""
        if not names:
            raise UsageError("no log is named", help="name a log, LOG#3, a folder, a glob, a store or a run id")
        logs = [self._kept_log(name) for name in names]
        return logs[0] if len(logs) == 1 else combined(logs)

    def _kept_log(self, name: str) -> Log:
        files = self._confinement.files(name)
        if files is None:
            return self._confinement.open(name)
        states = [os.stat(file) for file in files]
        key = (name, *((state.st_mtime_ns, state.st_size, state.st_ino) for state in states))
        log = self._kept.pop(key, None) or self._confinement.open(name)
        self._kept[key] = log
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return log


def _named(side: str) -> tuple[str, str]:
    """Name and run of a side: `NAME=RUN`, else the run names it."""
    name, _, run = side.partition("=")
    return (name, run) if name and run and "/" not in name else (side, side)


def _answer(document: Mapping[str, Any], rows: int) -> dict[str, Any]:
    return bounded({"schema_version": SCHEMA_VERSION, **document}, rows)


def _chosen(parts: Sequence[str], known: Sequence[str]) -> set[str]:
    """The parts that are asked for; `all` for every one."""
    if "all" in parts:
        return {*known}
    if unknown := [part for part in parts if part not in known]:
        raise UsageError("there is no such part", unknown[0], f"the parts: {', '.join(known)}, all")
    return {*parts}


def _values(sheet: Sheet) -> Any:
    """The rows of a sheet as JSON has them."""
    if sheet.pairs:
        return {str(name): value for name, value in sheet.rows}
    names = [column.name for column in sheet.columns]
    return [dict(zip(names, row, strict=True)) for row in sheet.rows]


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without columns that have no value in any of them: a reader pays for each."""
    known = {name for row in rows for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in known} for row in rows]
