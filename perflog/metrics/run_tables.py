"""Tables of some runs for metrics: each is read once, as DataFrame, numpy columns or Arrow; results are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from perflog.arrays import Ints
from perflog.ingestion.memory import return_freed
from perflog.log import Log, combined
from perflog.opening.given_runs import Given, log_of
from perflog.tables.arrow import (
    index_array,
    numbers_of,
    one_of,
    rows_where,
    with_runs,
    without_chunks,
)
from perflog.tables.columns import NULL, Array, Rows, arrow_of_frame, rows_from_arrow, rows_from_frame
from perflog.tables.nulls import frame_of
from perflog.tables.row_order import in_order
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from perflog.log import RowCounts
    from perflog.tables.arrow import Where


T = TypeVar("T")
P = ParamSpec("P")
_Key = TypeVar("_Key", str, int)

_AT_ONCE = 1 << 20
"""Rows of some runs, or of some parts of a run, that are read together."""

_LARGE = 1 << 18
"""Rows of a table after which freed memory is returned to the system."""

_PART_BITS = 32


class Tables(Mapping[str, "pd.DataFrame"]):
    """Tables of some runs by name, each read once. Numbers are float64 with NaN for null, integers nullable Int64.

    `rows` and `rows_by_run` give the same tables as numpy columns, which are much faster where there are many runs.
    `results` keeps results computed from the tables, because metrics, plots, findings and reports ask for the same.
    """

    def __init__(self, source: Log | Mapping[str, pd.DataFrame]) -> None:
        self._source = source
        self._frames: dict[str, pd.DataFrame] = {}
        self._rows: dict[str, Rows] = {}
        self._arrow: dict[str, pa.Table] = {}
        self._asked_for: set[tuple[str, str]] = set()  # tables and columns: a log in memory has made a chunk of each
        self.results: dict[Hashable, Any] = {}

    def rows(self, name: str) -> Rows:
        """All rows of a table as numpy columns."""
        if name not in self._rows:
            is_frames = isinstance(self._source, Mapping)
            rows = rows_from_frame(self._frame(name), name) if is_frames else rows_from_arrow(self._table(name))
            self._rows[name] = rows
        return self._rows[name]

    def return_freed(self) -> None:
        """Return what computing with a large table has freed to the system; else the next one is made beside it."""
        if any(len(rows) > _LARGE for rows in self._rows.values()):
            return_freed()

    def _table(self, name: str) -> pa.Table:
        """A table of a log."""
        if name not in self._arrow:
            self._arrow[name] = self._log.stored(name)
            if self._arrow[name].num_rows > _LARGE:
                return_freed()
        return self._arrow[name]

    def _frame(self, name: str) -> pd.DataFrame:
        """A table as the source has it."""
        if isinstance(self._source, Mapping):
            import pandas as pd

            return self._source[name] if name in self._source else pd.DataFrame(columns=[c.name for c in TABLES[name]])
        return frame_of(self._table(name))

    def labels(self) -> dict[str, str | None]:
        """Label of each run, by run id."""
        return dict(self.rows("runs").records("run", "label"))

    def run_order(self) -> dict[str, int]:
        """Index of each run in table `runs`, by run id."""
        return {run: index for index, run in enumerate(self.rows("runs")["run"].tolist())}

    def rows_by_run(self, name: str) -> dict[str, Rows]:
        """Rows of a table as numpy columns by run id, for the runs that have any."""
        return cached(self, ("rows by run", name), lambda: self.rows(name).by("run"))

    def rows_of(self, name: str, run: str) -> Rows:
        """Rows of a table that belong to a run, as numpy columns."""
        rows = self.rows_by_run(name).get(run)
        return self.rows(name).where(np.zeros(0, np.int64)) if rows is None else rows

    def count(self, name: str) -> int:
        """Return the number of rows of a table; a log reads only little for it."""
        return sum(self.counts(name).values())

    def counts(self, name: str) -> dict[str, int]:
        """Return the number of rows of a table by run; a log reads only little for it."""
        if isinstance(self._source, Mapping):
            return cached(self, ("rows of runs", name), lambda: self.rows(name).counts("run"))
        return {run: sum(parts.values()) for run, parts in self._part_counts(name).items()}

    def _part_counts(self, name: str) -> RowCounts:
        """Number of rows of a table of a log by run and part."""
        return cached(self, ("rows of parts", name), lambda: self._log.part_counts(name))

    def chosen(self, name: str, where: Where, *columns: str) -> Rows:
        """Return `run`, `line`, `part` and these columns of the rows that pass `where`, in the order of the table.

        Of the events of traces, which are many, a metric takes only the kinds and columns that it needs.
        """
        if isinstance(self._source, Mapping):
            return rows_from_arrow(self._some_of_frame(name, where, *columns))
        table = self._log.some_rows(name, where, *columns)
        return rows_from_arrow(in_order(table, [key.id for key in self._log.run_keys]))

    def _some_of_frame(self, name: str, where: Where, *columns: str) -> pa.Table:
        """Rows of a DataFrame that pass, and columns of them, as `Log.some_rows` returns them."""
        wanted = list(dict.fromkeys(["run", "line", "part", *columns]))
        return rows_where(arrow_of_frame(self._frame(name), name, {*wanted, *where}), where).select(wanted)

    def arrow_by_file(self, name: str, where: Where, *columns: str) -> Iterator[tuple[tuple[str, int], pa.Table]]:
        """Yield `run`, `line`, `part` and these columns of the rows that pass, by line, for each run and part.

        Only the rows of some runs, or of some parts of a large run, are in memory at once.
        """
        if isinstance(self._source, Mapping):
            yield from _by_file([self._some_of_frame(name, where, *columns)])
            return
        import pyarrow as pa

        for runs, parts in self._few_at_once(name, where):
            few = where if parts is None else {**where, "part": one_of(*parts)}
            tables = [self._log.some_rows(name, few, *columns, runs=runs)]
            pa.default_memory_pool().release_unused()  # rows that were read and left out
            asked_for = {(name, column) for column in ("run", "line", "part", *columns)}
            if tables[0].num_rows > _AT_ONCE and not self._asked_for.issuperset(asked_for):
                return_freed()
                self._asked_for.update(asked_for)
            yield from _by_file(tables)

    def _few_at_once(self, name: str, where: Where) -> Iterator[tuple[list[str] | None, list[int] | None]]:
        """Runs that pass and their parts, so that not too many rows of a table are in memory; None: all of them."""
        counts = self.counts(name)
        if sum(counts.values()) <= _AT_ONCE:
            yield None, None
            return
        passing = sorted(filter(where.get("run", bool), counts))
        for runs in _few(passing, counts):
            in_parts = self._part_counts(name)[runs[0]]
            if len(runs) > 1 or counts[runs[0]] <= _AT_ONCE or len(in_parts) == 1:  # nothing to divide
                yield runs, None
                continue
            for parts in _few(sorted(filter(where.get("part", _any), in_parts)), in_parts):
                yield runs, parts

    @property
    def _log(self) -> Log:
        assert not isinstance(self._source, Mapping)
        return self._source

    @property
    def whole(self) -> Tables:
        """The tables of all runs, if these are the tables of some."""
        return self

    def only(self, runs: Collection[str]) -> Tables:
        """Return the tables of some of the runs. They are not read again; the tables of all runs keep their results."""
        some = frozenset(runs)
        return self if some.issuperset(self.rows("runs")["run"].tolist()) else _TablesOfRuns(self, some)

    def in_pieces(self, *names: str) -> Iterator[Tables]:
        """Yield the tables of some runs at a time, so that not too many rows of these tables are in memory at once.

        All runs are in the same piece if they have few rows. A run is in one piece.
        """
        rows = [self.counts(name) for name in names]
        counts = {run: sum(of.get(run, 0) for of in rows) for run in self.rows("runs")["run"].tolist()}
        for runs in _few(list(counts), counts):
            yield self.only(runs)

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = frame_of_rows(self.rows(name), [column.name for column in TABLES[name]])
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)


class _TablesOfRuns(Tables):
    """The tables of some runs of other tables."""

    def __init__(self, tables: Tables, runs: Collection[str]) -> None:
        super().__init__({})
        self._all, self._runs = tables, frozenset(runs)

    @property
    def whole(self) -> Tables:
        return self._all.whole

    def rows(self, name: str) -> Rows:
        if name not in self._rows:
            rows = self._all.rows(name)
            stretches = cached(self._all, ("stretches of runs", name), lambda: rows.stretches("run"))
            together = _as_one([stretches[run] for run in self._runs if run in stretches])
            self._rows[name] = rows.where(rows.one_of("run", self._runs) if together is None else together)
        return self._rows[name]

    def counts(self, name: str) -> dict[str, int]:
        return {run: number for run, number in self._all.counts(name).items() if run in self._runs}

    def chosen(self, name: str, where: Where, *columns: str) -> Rows:
        return self._all.chosen(name, with_runs(where, self._runs), *columns)

    def arrow_by_file(self, name: str, where: Where, *columns: str) -> Iterator[tuple[tuple[str, int], pa.Table]]:
        return self._all.arrow_by_file(name, with_runs(where, self._runs), *columns)


def _as_one(stretches: Sequence[slice | Ints]) -> slice | None:
    """Return stretches of rows that follow one another as one; None if they do not."""
    slices = sorted((each for each in stretches if isinstance(each, slice)), key=lambda each: int(each.start))
    if not slices or len(slices) < len(stretches) or any(one.stop != next.start for one, next in pairwise(slices)):
        return None
    return slice(slices[0].start, slices[-1].stop)


def _few(keys: Sequence[_Key], counts: Mapping[_Key, int]) -> Iterator[list[_Key]]:
    """Divide keys into groups of not too many rows; one of more rows is a group of its own."""
    group: list[_Key] = []
    rows = 0
    for key in keys:
        if group and rows + counts[key] > _AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(key)
        rows += counts[key]
    if group:
        yield group


def _any(value: object) -> bool:  # noqa: ARG001 (a test of `Where`)
    return True


def _by_file(tables: list[pa.Table]) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """The rows of the only table in a list, which is emptied, by run and part, each in the order of its lines.

    Yielded tables are in memory only while the caller holds them.
    """
    table = without_chunks(tables.pop())
    if not table.num_rows:
        return
    runs, part, line = (table[column].chunk(0) for column in ("run", "part", "line"))
    words = runs.dictionary.to_pylist()
    run, part = numbers_of(runs.indices), numbers_of(part)
    place = np.array([sorted(words).index(word) for word in words], np.int64)[run] << _PART_BITS | part
    begins, lines = np.diff(place), numbers_of(line)
    if ((begins > 0) | ((begins == 0) & (lines[1:] >= lines[:-1]))).all():  # as it mostly is: nothing is copied then
        ends = np.flatnonzero(begins) + 1
        pieces = [table.slice(first, last - first) for first, last in pairwise([0, *ends.tolist(), len(place)])]
    else:
        order = np.lexsort((lines, place))
        ends = np.flatnonzero(np.diff(place[order])) + 1
        pieces = [table.take(index_array(index)) for index in np.split(order, ends)]
    del table, runs, part, line, run, place, begins, lines
    pieces.reverse()
    while pieces:
        yield (pieces[-1]["run"][0].as_py(), pieces[-1]["part"][0].as_py()), pieces.pop()


def frame_of_rows(rows: Rows, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of rows as a DataFrame: integers are nullable, a missing word is `pd.NA`, a missing number NaN."""
    import pandas as pd

    def column(values: Array) -> Any:
        if values.dtype == np.int64:
            return pd.arrays.IntegerArray(np.where(values == NULL, 0, values), values == NULL)
        if values.dtype != object:
            return values.copy()
        return pd.Series(np.where(values == None, pd.NA, values), dtype=object)  # noqa: E711 (of each value)

    return pd.DataFrame({name: column(rows[name]) for name in names}, copy=False)


def cached(tables: Mapping[str, pd.DataFrame], key: Hashable, compute: Callable[[], T]) -> T:
    """Return the result of `compute`. For `Tables` it is computed once per key."""
    if not isinstance(tables, Tables):
        return compute()
    if key not in tables.results:
        tables.results[key] = compute()
    result: T = tables.results[key]
    return result


def computed_once(compute: Callable[Concatenate[Tables, P], T]) -> Callable[Concatenate[Tables, P], T]:
    """Decorate a function of tables and of values with a hash: each result is computed once, as `cached` does."""

    @wraps(compute)
    def once(tables: Tables, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cached(tables, (compute, args, tuple(kwargs.items())), lambda: compute(tables, *args, **kwargs))

    return once


def computed_of_all(compute: Callable[Concatenate[Tables, P], T]) -> Callable[Concatenate[Tables, P], T]:
    """Decorate a function as `computed_once` does: it gets the tables of all runs that were read, not only of some."""
    once = computed_once(compute)

    @wraps(compute)
    def whole(tables: Tables, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return once(tables.whole, *args, **kwargs)

    return whole


def computed_list(compute: Callable[Concatenate[Tables, P], Iterator[T]]) -> Callable[Concatenate[Tables, P], list[T]]:
    """Decorate an iterator over what tables hold: it becomes a list that is computed once."""

    @wraps(compute)
    def listed(tables: Tables, /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return list(compute(tables, *args, **kwargs))

    return computed_once(listed)


def tables_of(given: Given | Tables | Mapping[str, pd.DataFrame]) -> Tables:
    """Return the tables of the runs that a caller gives; tables by their names in the schema are taken as they are.

    Raises:
        UsageError: It names no runs.
        InputError: A file is missing or cannot be read.
    """
    if isinstance(given, Tables):
        return given
    return Tables(given if _are_tables(given) else log_of(given))


def _are_tables(given: object) -> bool:
    return isinstance(given, Mapping) and ("runs" in given or not given) and TABLES.keys() >= set(given)


def merge_tables(given: Sequence[Given | Tables | Mapping[str, pd.DataFrame]]) -> Tables:
    """Return the tables of the runs that a caller gives as one. A run that several of them hold counts once."""
    runs = [each if isinstance(each, Tables) or _are_tables(each) else log_of(each) for each in given]
    logs = [each for each in runs if isinstance(each, Log)]
    if len(logs) == len(runs):
        return Tables(combined(logs))
    sources = [tables_of(each) for each in runs]
    if len(sources) == 1:
        return sources[0]
    import pandas as pd

    new_runs: list[set[str]] = []
    for source in sources:
        new_runs.append(set(source["runs"]["run"]).difference(*new_runs))

    def merged(name: str) -> pd.DataFrame:
        tables = [source[name][source[name]["run"].isin(runs)] for source, runs in zip(sources, new_runs, strict=True)]
        return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)

    return Tables({name: merged(name) for name in TABLES})
