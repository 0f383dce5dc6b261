"""The Python face of what was read: `Log` holds runs and their tables, in memory or from a store."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from msgspec import Struct

from perflog.errors import UsageError, did_you_mean
from perflog.grouping import grouped
from perflog.parsing.input.log_names import split_run
from perflog.providers import provider
from perflog.tables.arrow import Where, row_counts, rows_where, storable, with_runs
from perflog.tables.nulls import frame_of, nullable
from perflog.tables.row_order import in_order
from perflog.tables.schema import TABLES
from perflog.tables.sink import LOG_ID
from perflog.tables.sql import SETTINGS, run_query
from perflog.tables.store import Store
from perflog.units import count, first_few

if TYPE_CHECKING:
    import pandas as pd


class RunKey(Struct, frozen=True):
    """The names of a run.

    Attributes:
        id: The run id: 12 hex digits of the log's SHA-256, a dash, and `index`.
        label: The name that the log or the user gave the run.
        log: The log, as the user named it.
        sha256: The SHA-256 of the log's bytes.
        index: The index of the run in its log, from 1.
    """

    id: str
    label: str | None
    log: str
    sha256: str
    index: int


RowCounts = Mapping[str, Mapping[int, int]]
"""Number of rows of a table by run id and part."""


class Fetch(Protocol):
    """Returns rows of a table; see `Log`."""

    def __call__(
        self,
        name: str,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        /,
    ) -> pa.Table: ...


class Attempts(Protocol):
    """Finds the runs that continue one another."""

    def with_attempts(self, runs: pa.Table, log: Log) -> pa.Table:
        """Return table `runs` of a log with the job and the attempt of each run that is an attempt."""


class LivePlot(Protocol):
    """A plot that a notebook shows."""

    def _repr_html_(self) -> str: ...


class LivePlots(Protocol):
    """The plots of a log by name. Each is called with options of the metrics."""

    def __getattr__(self, name: str) -> Callable[..., LivePlot]: ...


class Notebook(Protocol):
    """What a notebook shows of a log."""

    def overview_html(self, log: Log) -> str:
        """Return the overview of a log with its first plots, as HTML."""

    def plots_of(self, log: Log) -> LivePlots:
        """Return the plots of a log."""


def _notebook() -> Notebook:
    notebook: Notebook = provider("notebook")
    return notebook


class Log:
    """Runs and their tables, from one log or several. `perflog.read` and `perflog.load` (`opening`) make it.

    A missing value is null: `pd.NA` in the DataFrames, null in the Arrow tables.

    Example:
        >>> import perflog
        >>> log = perflog.find_runs("reference:training_sweep.txt")
        >>> len(log)
        9
        >>> round(log.select("naive gpt2 16").table("steps").step_time_s.median(), 3)  # seconds
        np.float64(0.262)

    Args:
        fetch: `fetch(table, runs, columns, where)` returns rows of a table: of all runs, or of those with the given
            ids; all its columns, or the given ones, with `run` among them; all rows, or the rows that pass tests.
        runs: The runs that the object holds; by default all that table `runs` has.
        whole: Whether these are all runs of their logs. Only whole logs can be saved.
        warnings: What went wrong while the logs were read, in words.
        dates: Returns when the logs of runs were read into their store, by run id.
        count: `count(table, runs)` returns the number of rows by run and part, of all runs or of those with the given
            ids; by default the rows are read and counted.

    Attributes:
        name: The name by which `find_runs` found these runs, for commands that name them again; else None.
    """

    def __init__(
        self,
        fetch: Fetch,
        runs: Sequence[RunKey] | None = None,
        whole: bool = True,
        warnings: Sequence[str] = (),
        dates: Callable[[], Mapping[str, str]] = dict,
        count: Callable[[str, Sequence[str] | None], RowCounts] | None = None,
    ) -> None:
        self._fetch = fetch
        self._whole = whole
        self._dates = dates
        self._count = count
        self.run_keys: tuple[RunKey, ...] = tuple(run_keys(fetch("runs", None, None)) if runs is None else runs)
        self.warnings = list(warnings)
        self.name: str | None = None

    def __repr__(self) -> str:
        logs = list(dict.fromkeys(key.log for key in self.run_keys))
        names = first_few(logs, _SHOWN_LOGS)
        return f"<perflog.Log: {count(len(self), 'run')} of {count(len(logs), 'log')}: {names}>"

    def _repr_html_(self) -> str:
        """The overview with the first plots; of more runs than it takes a moment for, the runs. Jupyter calls it."""
        if not 0 < len(self) <= _RUNS_OF_OVERVIEW:
            return self._runs_as_html()
        return _notebook().overview_html(self)

    @property
    def plot(self) -> LivePlots:
        """The plots of these runs for a notebook: `log.plot.steps()` answers to the pointer.

        `log.plot` lists the plots that have something to draw. `perflog.plots.steps(log)` is the same as a figure of
        matplotlib.

        Example:
            >>> perflog.find_runs("reference:moe_layer.txt").plot.steps()
            <live plot: Step times; a notebook shows it>
        """
        return _notebook().plots_of(self)

    def _runs_as_html(self) -> str:
        """The first runs as a table, with the settings in which they differ."""
        shown = self.select(*self.run_keys[:_SHOWN_RUNS])
        settings = shown.settings.drop(columns=["run", "label"])
        varying = [name for name in settings if settings[name].nunique(dropna=False) > 1][:_SHOWN_SETTINGS]
        columns = ["run", "label", "log", "index", "format", "program", "model", "world_size"]
        runs = shown.runs[columns].dropna(axis="columns", how="all").join(settings[varying].add_prefix("setting: "))
        more = f"<p>and {count(len(self) - len(shown), 'more run')}</p>" if len(self) > len(shown) else ""
        return f"<p>{html.escape(repr(self))}</p>{runs.to_html(index=False, na_rep='')}{more}"

    def __len__(self) -> int:
        return len(self.run_keys)

    @property
    def runs(self) -> pd.DataFrame:
        """Table `runs`: one row per run. Column `config` has the settings as JSON; `settings` has them as columns."""
        return self.table("runs")

    @property
    def settings(self) -> pd.DataFrame:
        """The settings that the logs print, one row per run.

        Returns:
            Columns `run` and `label`, then one column per setting, in the order in which the runs print them. The name
            and the unit are as in the log. A setting that a run does not print is `pd.NA`.
        """
        import pandas as pd

        rows = self.arrow("runs").select(["run", "label", "config"]).to_pylist()
        configs = [json.loads(row["config"] or "{}") for row in rows]
        names = list(dict.fromkeys(name for config in configs for name in config))
        columns = {name: nullable([config.get(name) for config in configs]) for name in names}
        key_columns = {name: pd.array([row[name] for row in rows], dtype="string") for name in ("run", "label")}
        return pd.DataFrame(
            {**key_columns, **{name: column for name, column in columns.items() if name not in key_columns}}
        )

    @property
    def ingested(self) -> dict[str, str]:
        """When the log of each run was first read into its store, by run id: dates in UTC, as 2026-03-01T09:30:00Z.

        A run without a store is not in it.
        """
        dates = self._dates()
        return {key.id: dates[key.id] for key in self.run_keys if key.id in dates}

    @property
    def table_names(self) -> list[str]:
        """Names of the tables that have rows."""
        return list(self.row_counts)

    @property
    def row_counts(self) -> dict[str, int]:
        """Number of rows of each table that has any."""
        counts = {name: sum(sum(parts.values()) for parts in self.part_counts(name).values()) for name in TABLES}
        return {name: rows for name, rows in counts.items() if rows}

    def part_counts(self, name: str) -> RowCounts:
        """Number of rows of a table by run and part, of those that have any. Of a store hardly anything is read."""
        if self._count is None or name == "runs":
            return row_counts(self._rows(name, ["run", "part"]).to_batches())
        counts = self._count(name, None if self._whole else [key.id for key in self.run_keys])
        return {key.id: counts[key.id] for key in self.run_keys if key.id in counts}

    @property
    def line_account(self) -> dict[str, int]:
        """Number of lines by status: total = read + context + unread. `log.table("lines")` has them by shape."""
        rows = self.some_columns("lines", "status", "count").to_pylist()
        counts = {status: sum(r["count"] for r in rows if r["status"] == status) for status in _STATUS}
        return {"total": sum(counts.values()), **counts}

    @property
    def figure_account(self) -> dict[str, int]:
        """Number of figures: total = stored + dropped + unread. `log.table("lines")` has them by shape of line.

        A figure is a number on a line, except dates, addresses and numbers inside names. `dropped` counts figures
        that no table needs, for the reason in the format. In traces and databases each value of an argument or
        column counts.
        """
        names = [f"figures_{what}" for what in _FIGURES]
        rows = self.some_columns("lines", *names).to_pylist()
        if all(row[names[0]] is None for row in rows):
            return {}
        counts = {what: sum(row[name] or 0 for row in rows) for what, name in zip(_FIGURES, names, strict=True)}
        return {"total": sum(counts.values()), **counts}

    def arrow(self, name: str) -> pa.Table:
        """Return a table as a pyarrow Table.

        Args:
            name: One of the tables in `perflog.tables.schema.TABLES`: runs, steps, phases, ...

        Returns:
            The table in the types of the schema, sorted by run, line and part.

        Raises:
            UsageError: There is no table of that name.
        """
        if name not in TABLES:
            raise UsageError(f"there is no table `{name}`", help=did_you_mean(name, TABLES, _listed(list(TABLES))))
        table = self.stored(name)
        return self._with_attempts(table) if name == "runs" and len(self) > 1 else table

    def stored(self, name: str) -> pa.Table:
        """Return a table from the logs alone, without what follows from several of them, such as attempts."""
        return in_order(self._rows(name), [key.id for key in self.run_keys])

    def _with_attempts(self, runs: pa.Table) -> pa.Table:
        """Return table `runs` with the job and the attempt of each run that is an attempt."""
        has_several = len({key.sha256 for key in self.run_keys}) < len(self)  # in one log
        is_restart: Where = {"kind": lambda kind: kind in ("restore", "startup")}
        if not has_several and not self.some_rows("milestones", is_restart).num_rows:
            return runs
        attempts: Attempts = provider("attempts")
        return attempts.with_attempts(runs, self)

    def _rows(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        runs: Sequence[str] | None = None,
    ) -> pa.Table:
        if runs is None and not self._whole:
            runs = [key.id for key in self.run_keys]
        return self._fetch(name, runs, columns, where)

    def some_columns(self, name: str, *columns: str) -> pa.Table:
        """Return column `run` and these columns of a table; the rows are in no order. Nothing else is read."""
        return self._rows(name, ["run", *columns])

    def some_rows(self, name: str, where: Where, *columns: str, runs: Sequence[str] | None = None) -> pa.Table:
        """Return columns `run`, `line`, `part` and these of the rows with words that pass, in no order.

        Of large tables of a store, such as the events of traces, the other rows and columns never are in memory.

        Args:
            name: One of the tables in `perflog.tables.schema.TABLES`.
            where: Tests by column: each is asked once for each word in it, and for None.
            columns: Names of columns.
            runs: Ids of runs of this log; of a store, only their part of the files is read. None: all.
        """
        wanted = list(dict.fromkeys(["run", "line", "part", *columns]))
        return self._rows(name, wanted, where, runs)

    def table(self, name: str, settings: bool = False) -> pd.DataFrame:
        """Return a table as a pandas DataFrame.

        Args:
            name: One of the tables in `perflog.tables.schema.TABLES`: runs, steps, phases, ...
            settings: Whether the rows have the label and the settings of their run too, as further columns. A setting
                of the same name as a column is `setting_` with its name.

        Returns:
            The table with nullable types (`Int64`, `Int32`, `Float64`, `string`), sorted by run, line and part. Units
            are part of the column names: `step_time_s` is in seconds.

        Raises:
            UsageError: There is no table of that name.

        Example:
            >>> log = perflog.find_runs("reference:moe_layer.txt")
            >>> steps = log.table("steps", settings=True)  # of all runs, in one DataFrame
            >>> steps.groupby("num_local_experts").step_time_s.median().round(4).tolist()
            [0.0213, 0.0226, 0.0235, 0.0292]
        """
        frame = frame_of(self.arrow(name))
        if not settings:
            return frame
        printed = self.settings.set_index("run")
        taken, free = set(frame.columns), dict[str, str]()
        for column in printed:
            free[column] = column
            while free[column] in taken:
                free[column] = f"setting_{free[column]}"
            taken.add(free[column])
        return frame.join(printed.rename(columns=free), on="run")

    def sql(self, query: str, external: bool = False) -> pd.DataFrame:
        """Return the result of an SQL query over the tables of these runs, through DuckDB.

        Args:
            query: SQL as DuckDB understands it. The tables of the schema are views, and `settings` has one row per run
                with its settings as columns. Table `"values"` needs its quotes: the word is a keyword of SQL.
            external: Whether the query may read and write files.

        Returns:
            One column per column of the result, with nullable types. Numbers are in base units, as in the tables.

        Raises:
            UsageError: The query is wrong or has no result.

        Example:
            >>> log = perflog.find_runs("reference:moe_layer.txt")
            >>> log.sql("select count(*) as steps, min(step_time_s) as fastest from steps")
               steps   fastest
            0    ...
        """
        return frame_of(self.sql_arrow(query, external))

    def sql_arrow(
        self, query: str, external: bool = False, most: int | None = None, memory: str | None = None
    ) -> pa.Table:
        """Return what `sql` returns, as a pyarrow Table: at most so many rows, with so much memory."""

        def view(name: str) -> pa.Table:
            return _settings_table(self.settings) if name == SETTINGS else self.arrow(name)

        return run_query(query, view, external, most, memory)

    def match(self, name: str | int) -> tuple[RunKey, ...]:
        """Return the runs that a name can mean; none if it means no run.

        Args:
            name: A run id or the beginning of one, a label, the name of a log, or an index in a log: 3, "#3",
                "run.txt#3", "run.txt:3". The first of these that fits decides.
        """
        text, log = storable(str(name)), None
        if text.startswith("#"):
            place = text[1:]
        elif split_run(text)[1]:
            log, place = split_run(text)
        else:
            one_log = isinstance(name, int) or len({key.sha256 for key in self.run_keys}) == 1
            place = text if one_log else ""
        sha, _, index = text.partition("-")
        ways: tuple[Callable[[RunKey], bool], ...] = (
            lambda key: text in (key.id, key.label),
            lambda key: text == key.log or (key.label or "").startswith(f"{text}#"),
            lambda key: log in (None, key.log) and place in (str(key.index), key.label),
            lambda key: not isinstance(name, int) and key.id.startswith(text),
            lambda key: index == str(key.index) and key.id.startswith(sha),
        )
        matches = (tuple(filter(way, self.run_keys)) for way in ways if text)
        return next(filter(None, matches), ())

    def select(self, *runs: str | int | RunKey) -> Log:
        """Return a Log with only these runs, in the order of this one.

        Args:
            runs: Each a name that means one run (see `match`), or one of `run_keys`.

        Raises:
            UsageError: A name means no run, or several.

        Example:
            >>> import perflog
            >>> log = perflog.find_runs("reference:training_sweep.txt")
            >>> log.select(1, "mix_moe gpt2 16").runs.label.tolist()
            ['naive gpt2 16', 'mix_moe gpt2 16']
        """
        chosen = {run if isinstance(run, RunKey) else self._only(run) for run in runs}
        whole = self._whole and chosen >= set(self.run_keys)
        keys = [key for key in self.run_keys if key in chosen]
        return Log(self._fetch, keys, whole, self.warnings, self._dates, self._count)

    def _only(self, name: str | int) -> RunKey:
        """The one run that a name means."""
        matches = self.match(name)
        if len(matches) == 1:
            return matches[0]
        if matches:
            known = "\n".join(f"  {key.id}  {key.label or ''}".rstrip() for key in matches[:_LISTED])
            raise UsageError(f"`{name}` matches {len(matches)} runs", help=f"name one of them:\n{known}")
        raise UsageError(f"there is no run `{name}`", help=self._near_runs(str(name)))

    def _near_runs(self, name: str) -> str:
        """A help line for a name that means no run: the runs of the log that it names, or the nearest name."""
        log, place = split_run(name)
        if log_keys := [key for key in self.run_keys if place and log in ("", key.log)]:
            return _listed([f"#{key.index}" for key in log_keys])
        names = [text for key in self.run_keys for text in (key.id, key.label, key.log) if text]
        logs = list(dict.fromkeys(key.log for key in self.run_keys))
        return did_you_mean(name, names, _listed(logs if len(logs) > 1 else [k.label or k.id for k in self.run_keys]))

    def save(self, store: str | os.PathLike[str]) -> None:
        """Write each log into a store. A log that is in the store already is replaced.

        Args:
            store: The folder of the store. It is made if it does not exist.

        Raises:
            UsageError: These are only some of the runs of their log.
            StoreError: The store cannot be written.
        """
        if not self._whole:
            help = "save the Log that holds all runs of the log: a store holds whole logs"
            raise UsageError("these are only some of the runs of their log", os.fspath(store), help)
        tables = {name: self.stored(name) for name in TABLES}
        runs_of = grouped((key.sha256, key.id) for key in self.run_keys)
        rows_of_log = sum(table.num_rows for table in tables.values()) // max(len(runs_of), 1)
        most = max(1, min(_MOST_LOGS, _MOST_ROWS // max(rows_of_log, 1)))
        logs = list(runs_of)
        for batch in (logs[i : i + most] for i in range(0, len(logs), most)):
            with Store(store).write([sha[:LOG_ID] for sha in batch]) as writer:
                for name, table in tables.items():
                    writer.add_logs(name, in_order(table, [run for sha in batch for run in runs_of[sha]]))


def combined(logs: Sequence[Log]) -> Log:
    """Return the runs of several Logs as one, which reads each table once. A run that several hold counts once.

    Raises:
        UsageError: There is none.
    """
    if not logs:
        raise UsageError("no runs are given", help="give a log, a path, a table, or a list of these")
    if len(logs) == 1:
        return logs[0]
    seen: set[str] = set()
    parts: list[Log] = []
    for log in logs:
        fresh = [key for key in log.run_keys if key.id not in seen]
        seen.update(key.id for key in fresh)
        parts.append(log if len(fresh) == len(log) else log.select(*fresh))

    def fetch(
        name: str,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        /,
    ) -> pa.Table:
        if where is not None or (columns is not None and name != "runs"):
            each = [part._rows(name, columns, where) for part in parts]
            table = pa.concat_tables(each).unify_dictionaries()
            return table if runs is None else rows_where(table, with_runs({}, runs))
        tables = pa.concat_tables([part.arrow(name) for part in parts]).unify_dictionaries()
        table = tables if runs is None else in_order(tables, runs)
        return table if columns is None else table.select(columns)

    keys = [key for part in parts for key in part.run_keys]
    whole = all(part._whole for part in parts)
    warnings = list(dict.fromkeys(text for log in logs for text in log.warnings))

    def dates() -> Mapping[str, str]:
        return {run: date for part in parts for run, date in part.ingested.items()}

    def count(name: str, runs: Sequence[str] | None) -> RowCounts:  # noqa: ARG001 (each part knows its runs)
        return {run: counts for part in parts for run, counts in part.part_counts(name).items()}

    return Log(fetch, keys, whole, warnings, dates, count)


_STATUS = ("read", "context", "unread")
_FIGURES = ("stored", "dropped", "unread")
_LISTED = 12  # names in an error
_SHOWN_LOGS, _SHOWN_RUNS, _SHOWN_SETTINGS = 3, 20, 6  # display of a Log
_RUNS_OF_OVERVIEW = 20  # of more, an overview may take longer than a reader waits for a cell
_MOST_LOGS, _MOST_ROWS = 256, 1 << 20  # that are stored together


def run_keys(runs: pa.Table) -> list[RunKey]:
    """The keys of table `runs`; the runs of a log together and in its order."""
    rows = runs.select(["run", "label", "log", "log_sha256", "index"]).to_pylist()
    keys = [RunKey(r["run"], r["label"], r["log"], r["log_sha256"], r["index"]) for r in rows]
    order = {sha: i for i, sha in enumerate(dict.fromkeys(key.sha256 for key in keys))}
    return sorted(keys, key=lambda key: (order[key.sha256], key.index))


def _settings_table(settings: pd.DataFrame) -> pa.Table:
    """Return settings for SQL: a column of several types is a string, and lists and objects are JSON."""

    def column(values: list[Any]) -> pa.Array:
        types = {type(value) for value in values if value is not None}
        if types and any(types <= alike for alike in ({bool}, {int, float}, {str})):
            with suppress(pa.ArrowInvalid, OverflowError):  # an integer of more than 63 bits
                return pa.array(values)
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        return pa.array(texts, pa.string())

    objects = settings.astype(object).where(settings.notna(), None)
    return pa.table({name: column(objects[name].tolist()) for name in objects})


def _listed(names: Sequence[str]) -> str:
    return f"there are: {first_few(names, _LISTED)}" if names else "there is none"
