"""The runs of a store as rows: what describes them, chosen, filtered and sorted by name.

Metrics and formats are imported only for what needs them: a plain list of runs appears at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from perflog.analysis.run_filter import Fact, number_of, parse
from perflog.errors import UsageError, did_you_mean
from perflog.log import Log, RunKey
from perflog.tables.columns import rows_from_arrow
from perflog.units import UTC, count

if TYPE_CHECKING:
    from perflog.analysis.overview.run_figures import RunFigure

_COUNTS = ("steps", "lines", "unread")
_OF_RUN = ("run", "label", "index", "log", "format", "program", "model", "world_size", "device", "dtype", "process")
_INGESTED = "ingested"
"""When the log of a run was read into the store, in UTC."""

_ENDED_BY = "ended_by"
"""What ended a run, as far as its log shows a failure: `CUDA out of memory`, `IndexError`."""

_TIMES = ("median_step", "total")
"""Times in seconds: the median over the steps with the warm-up, as printed; the last reading of the run's clock."""

_SHOWN_SETTINGS = 3
_RUNS_WITH_SETTINGS = 300  # of more, to find those that differ, and what ended them, takes longer than a list may


class RunList:
    """Runs, chosen and ordered by the facts that describe them.

    Args:
        known: The runs, or what is known of them, which several lists may share.
    """

    def __init__(self, known: Log | RunFacts) -> None:
        self.known = known if isinstance(known, RunFacts) else RunFacts(known)
        self.keys: Sequence[RunKey] = self.known.log.run_keys

    def facts(self, name: str) -> dict[str, Fact]:
        """Return a fact of each run that has it, by run id; see `RunFacts.facts`."""
        return self.known.facts(name)

    def unit(self, name: str) -> str:
        """Return the unit of a fact; see `RunFacts.unit`."""
        return self.known.unit(name)

    def select(self, where: str | None, sort: str | None, limit: int = 0) -> None:
        """Keep the runs for which a condition holds, in the order of a fact.

        Args:
            where: A condition; see `perflog.analysis.run_filter.parse`.
            sort: Name of a fact; with `-` in front the largest comes first. Runs without it come last.
            limit: Number of runs that are kept; 0 for all.

        Raises:
            UsageError: The condition cannot be read, or no run has such a fact.
        """
        if where:
            condition = parse(where)
            facts = {name: self.facts(name) for name in condition.names}
            self.keys = [key for key in self.keys if condition.holds({n: f.get(key.id) for n, f in facts.items()})]
        if sort:
            facts_of_sort = self.facts(sort.removeprefix("-"))
            known = [key for key in self.keys if facts_of_sort.get(key.id) is not None]
            numbers = all(number_of(facts_of_sort[key.id]) is not None for key in known)
            known.sort(key=lambda key: _order(facts_of_sort[key.id], numbers), reverse=sort.startswith("-"))
            self.keys = [*known, *(key for key in self.keys if facts_of_sort.get(key.id) is None)]
        if limit:
            self.keys = self.keys[:limit]

    def brief(self) -> list[str]:
        """Return the names of the columns that answer first, without empty ones.

        Of few runs also settings in which they differ. Figures without the warm-up take longer: the reader names them.
        """
        alike = len({key.log for key in self.keys}) == len(self.keys)
        names = ["run", "label", *([] if alike else ["index"]), "format", "model", "world_size"]
        if few := len(self.keys) <= _RUNS_WITH_SETTINGS:
            from perflog.settings.run_settings import telling_settings

            settings = [self.known.settings[key.id] for key in self.keys]
            names += [name for name in telling_settings(settings) if name not in names][:_SHOWN_SETTINGS]
        shown = {key.id for key in self.keys}
        names = [n for n in names if any(v is not None for run, v in self.facts(n).items() if run in shown)]
        times = [name for name in _TIMES if not shown.isdisjoint(self.facts(name))]
        dates = [_INGESTED] if not shown.isdisjoint(self.known.log.ingested) else []
        failed = [_ENDED_BY] if few and not shown.isdisjoint(self.facts(_ENDED_BY)) else []
        return [*names, *times[:1], "steps", *failed, *dates, "log"]

    def hosts(self) -> str:
        """Return how many of the runs are of other hosts of a job, in words; "" if none is, or if there are many runs.

        To compare the losses of many runs takes longer than a list may.
        """
        if not 1 < len({key.sha256 for key in self.keys}) <= len(self.keys) <= _RUNS_WITH_SETTINGS:
            return ""
        from perflog.analysis.job_hosts import hosts_in_words, run_of_hosts
        from perflog.metrics import Tables

        others = run_of_hosts(Tables(self.known.log).only([key.id for key in self.keys]))
        runs = count(len(self.keys) - len(others), "run")
        return f"{runs}, {hosts_in_words(self.known.log, others)} (equal losses or times)" if others else ""


class RunFacts:
    """The facts that describe runs: columns of table `runs`, settings, counts of rows, figures. Each is looked up once.

    Args:
        log: The runs.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._known: dict[str, dict[str, Fact]] = {}

    def facts(self, name: str) -> dict[str, Fact]:
        """Return a fact of each run that has it, by run id.

        Raises:
            UsageError: No run has such a fact.
        """
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> dict[str, Fact]:
        if name in _COUNTS:
            return dict(self._counts(name))
        if name in _TIMES:
            return dict(_median_steps(self.log) if name == "median_step" else self._totals)
        if name == _INGESTED:
            return dict(self.log.ingested)
        if name == _ENDED_BY:
            return dict(_ended_by(self.log))
        if name in _OF_RUN:
            return {str(row["run"]): row[name] for row in self._rows}
        if any(name in settings for settings in self.settings.values()):
            return {run: settings[name] for run, settings in self.settings.items() if name in settings}
        leaves = {key for settings in self.settings.values() for key in settings if key.rpartition(".")[2] == name}
        if len(leaves) == 1:
            return self._find(leaves.pop())
        figure = self.figure(name)
        if figure is None:
            names = [*_OF_RUN, *_COUNTS, _INGESTED, _ENDED_BY]
            names += [key for settings in self.settings.values() for key in settings]
            known = list(dict.fromkeys([*names, *(figure.name for figure in self._figures)]))
            help = did_you_mean(name, known, f"there are: {', '.join(known[:40])}")
            raise UsageError(f"no run has `{name}`", help=help)
        return dict(figure.values)

    def unit(self, name: str) -> str:
        """Return the unit of a fact, UTC for a date; "" where it has none."""
        if name in _TIMES:
            return "s"
        if name == _INGESTED:
            return UTC
        figure = None if name in (*_COUNTS, *_OF_RUN, _ENDED_BY) or self._is_setting(name) else self.figure(name)
        return figure.unit if figure else ""

    def _is_setting(self, name: str) -> bool:
        return any(name in (key, key.rpartition(".")[2]) for settings in self.settings.values() for key in settings)

    def figure(self, name: str) -> RunFigure | None:
        """Return the metric of a name, such as `step`, which `step_time` names too; None if there is none."""
        wanted = {name, name.removesuffix("_time"), name.replace("_per_s", "/s")}
        return next((figure for figure in self._figures if wanted & {figure.name, figure.name.lower()}), None)

    @property
    def _totals(self) -> dict[str, Fact]:
        return {str(row["run"]): row["elapsed_s"] for row in self._rows if row["elapsed_s"] is not None}

    @cached_property
    def _figures(self) -> list[RunFigure]:
        from perflog.analysis.overview.run_figures import run_figures
        from perflog.metrics import Options, Tables

        return run_figures(Tables(self.log), Options())

    @cached_property
    def _rows(self) -> list[dict[str, Fact]]:
        return [dict(row) for row in self.log.some_columns("runs", *_OF_RUN, "config", "elapsed_s").to_pylist()]

    @cached_property
    def settings(self) -> dict[str, dict[str, str]]:
        from perflog.settings.name_settings import settings_of_runs

        return {run: dict(settings) for run, settings in settings_of_runs(self._rows).items()}

    def _counts(self, name: str) -> dict[str, int]:
        status = {"steps": None, "lines": "", "unread": "unread"}[name]
        return dict.fromkeys((key.id for key in self.log.run_keys), 0) | rows_by_run(
            self.log, "steps" if name == "steps" else "lines", status
        )


def rows_by_run(log: Log, name: str, status: str | None = None) -> dict[str, int]:
    """Return the number of rows of a table by run; with a status (or "" for all) the number of lines of that status."""
    import numpy as np

    from perflog.tables.arrow import numbers_of

    if status is None:
        return {run: sum(parts.values()) for run, parts in log.part_counts(name).items()}
    table = log.some_columns(name, "status", "count")
    if not table.num_rows:
        return {}
    table = table.combine_chunks()
    run_ids = table["run"].chunk(0)
    chosen = [status in ("", s) for s in table["status"].to_pylist()]
    weights = numbers_of(table["count"].chunk(0)) * np.array(chosen)
    counts = np.bincount(numbers_of(run_ids.indices), weights, len(run_ids.dictionary))
    return dict(zip(run_ids.dictionary.to_pylist(), counts.astype(np.int64).tolist(), strict=True))


def _ended_by(log: Log) -> dict[str, str]:
    """What ended each run with a failure that ended it, in a few words."""
    if not log.part_counts("failures"):
        return {}
    from perflog.analysis.job_endings import endings
    from perflog.metrics import Tables

    return {ending.run: ending.title for ending in endings(Tables(log)) if ending.ends_attempt}


def _median_steps(log: Log) -> dict[str, float]:
    """The median over the steps of each run that prints their times; a line of several steps counts so many times.

    A trace has none: the annotation of a step may be a fraction of its time, and reading all events takes too long.
    """
    import numpy as np

    rows = rows_from_arrow(log.some_columns("steps", "step_time_s", "steps_averaged"))
    codes, words = rows.codes("run")
    traces = log.part_counts("events")
    is_trace = np.array([sum(traces.get(run, {}).values()) > 0 for run in words], np.bool_)
    rows = rows.where(rows.known("step_time_s") & ~is_trace[codes])
    codes, words = rows.codes("run")
    order = np.lexsort((rows["step_time_s"], codes))
    times, steps = rows["step_time_s"][order], rows["steps_averaged"][order].clip(1)
    ends = np.flatnonzero(np.diff(codes[order], append=-1)) + 1
    medians, start = {}, 0
    for end in ends.tolist():
        done = np.cumsum(steps[start:end])
        low, high = np.searchsorted(done, [(done[-1] + 1) // 2, done[-1] // 2 + 1])
        medians[words[codes[order[start]]]] = float((times[start + low] + times[start + high]) / 2)
        start = end
    return medians


def _order(fact: Fact, as_number: bool) -> tuple[object, ...]:
    from perflog.tables.row_order import natural_sort_key

    return (number_of(fact),) if as_number else natural_sort_key(str(fact))
