"""A log in memory or in a store, as one object: its runs, its tables, its account of lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from perflog.bundled import bundled
from perflog.errors import StoreError, UsageError, did_you_mean
from perflog.formats.registry import named_formats
from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.references import expand, split_run, unbraced
from perflog.parsing.input.source import open_source
from perflog.readers import grouped
from perflog.tables.arrow import text_array
from perflog.tables.row_order import in_order
from perflog.tables.schema import TABLES, arrow_schema
from perflog.tables.sink import LOG_ID
from perflog.tables.store import Store, default_store, is_store

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "reference:"
"""What a name begins with that means a reference run: reference:moe_layer.txt#1."""


@dataclass(frozen=True)
class Run:
    """Which run: its id, label, the log as it was named, the log's SHA-256 and the run's place in it, from 1."""

    id: str
    label: str | None
    log: str
    sha256: str
    index: int


class Log:
    """Runs and their tables, from one log or several. `perflog.read` and `perflog.load` make it.

    `fetch(table, runs)` gives the rows of a table, of all runs or of those with the given ids.
    """

    def __init__(
        self,
        fetch: Callable[[str, Sequence[str] | None], pa.Table],
        runs: Sequence[Run] | None = None,
        whole: bool = True,
        warnings: Sequence[str] = (),
    ) -> None:
        self._fetch = fetch
        self._whole = whole  # whether these are all runs of their logs
        self.members: tuple[Run, ...] = tuple(_members(fetch("runs", None)) if runs is None else runs)
        self.warnings = list(warnings)

    def __repr__(self) -> str:
        logs, names = len({r.sha256 for r in self.members}), ", ".join(self.names)
        return f"<perflog.Log: {_count(len(self), 'run')} of {_count(logs, 'log')}; tables {names}>"

    def __len__(self) -> int:
        return len(self.members)

    @property
    def runs(self) -> pd.DataFrame:
        """Table `runs`: one row per run."""
        return self.table("runs")

    @property
    def names(self) -> list[str]:
        """Names of the tables that have rows."""
        return list(self.counts)

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each table that has any."""
        found = {name: self._rows(name).num_rows for name in TABLES}
        return {name: rows for name, rows in found.items() if rows}

    @property
    def lines(self) -> dict[str, int]:
        """The account of the lines: total = read + context + unread."""
        rows = self.arrow("lines").select(["status", "count"]).to_pylist()
        found = {status: sum(r["count"] for r in rows if r["status"] == status) for status in _STATUS}
        return {"total": sum(found.values()), **found}

    def arrow(self, name: str) -> pa.Table:
        """A table in the types of the schema, sorted by run, line and part."""
        _check(name)
        return in_order(self._rows(name), [r.id for r in self.members])

    def _rows(self, name: str) -> pa.Table:
        return self._fetch(name, None if self._whole else [r.id for r in self.members])

    def table(self, name: str) -> pd.DataFrame:
        """A table as a pandas DataFrame with nullable types, sorted by run, line and part."""
        import pandas as pd

        table = self.arrow(name)
        for i, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(i, field.name, table[i].cast(pa.string()))
        types = {
            pa.int64(): pd.Int64Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.float64(): pd.Float64Dtype(),
            pa.string(): pd.StringDtype("pyarrow"),
        }
        return table.to_pandas(types_mapper=types.get)

    def find(self, ref: str | int) -> tuple[Run, ...]:
        """The runs that `ref` can mean: an id or the beginning of one, a label, a log, a place as `#3` or `LOG#3`."""
        text, log = str(ref), None
        if text.startswith("#"):
            place = text[1:]
        elif "#" in text:
            log, _, place = text.rpartition("#")
        else:
            single = isinstance(ref, int) or len({r.sha256 for r in self.members}) == 1
            place = text if single else ""
        sha, _, index = text.partition("-")
        ways: tuple[Callable[[Run], bool], ...] = (
            lambda r: text in (r.id, r.label),
            lambda r: text == r.log or (r.label or "").startswith(f"{text}#"),
            lambda r: log in (None, r.log) and place in (str(r.index), r.label),
            lambda r: not isinstance(ref, int) and r.id.startswith(text),
            lambda r: index == str(r.index) and r.id.startswith(sha),
        )
        found = (tuple(filter(way, self.members)) for way in ways if text)
        return next(filter(None, found), ())

    def run(self, ref: str | int) -> Log:
        """The log with that one run: its id or the beginning of it, its label, or its place in the log from 1."""
        found = self.find(ref)
        if len(found) == 1:
            return self.select(found)
        if found:
            known = "\n".join(f"  {r.id}  {r.label or ''}".rstrip() for r in found[:_LISTED])
            raise UsageError(f"{len(found)} runs are meant by `{ref}`", help=f"name one of them:\n{known}")
        names = [x for r in self.members for x in (r.id, r.label) if x]
        help = did_you_mean(str(ref), names, _some([r.label or r.id for r in self.members]))
        raise UsageError(f"there is no run `{ref}`", help=help)

    def select(self, runs: Iterable[Run]) -> Log:
        """The log with only these of its runs."""
        chosen = set(runs)
        whole = self._whole and chosen >= set(self.members)
        return Log(self._fetch, [r for r in self.members if r in chosen], whole, self.warnings)

    def save(self, store: str | os.PathLike[str]) -> None:
        """Write each log into a store. A log that is there already is replaced."""
        if not self._whole:
            help = "save the log they are of: a store holds whole logs"
            raise UsageError("these are only some of the runs of their log", os.fspath(store), help)
        tables = {name: self.arrow(name) for name in TABLES}
        for sha in dict.fromkeys(r.sha256 for r in self.members):
            ids = [r.id for r in self.members if r.sha256 == sha]
            with Store(store).write(sha[:LOG_ID]) as out:
                for name, table in tables.items():
                    rows = in_order(table, ids)
                    for at in range(0, rows.num_rows, _ROWS):
                        out.add(name, rows.slice(at, _ROWS))


_STATUS = ("read", "context", "unread")
_LISTED = 12
_ROWS = 1 << 20  # rows of a row group


class Kept:
    """A sink that keeps tables in memory. `again` forgets them: a log may be read twice."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def add(self, table: str, data: pa.Table) -> None:
        self.tables.setdefault(table, []).append(data)

    def again(self) -> Kept:
        self.tables.clear()
        return self

    def fetch(self, name: str, runs: Sequence[str] | None = None) -> pa.Table:
        parts = self.tables.get(name, [])
        if not parts:
            return pa.Table.from_batches([], arrow_schema(name))  # empty_table() imports pandas
        if len(parts) > 1:
            parts[:] = [pa.concat_tables(parts).unify_dictionaries().combine_chunks()]
        if runs is None:
            return parts[0]
        return parts[0].filter(pc.is_in(parts[0]["run"], value_set=text_array(runs)))


def read(*names: str | os.PathLike[str], format: str | Sequence[str] | None = None, label: str | None = None) -> Log:
    """Read logs: paths, folders, globs, URLs, "-" for stdin. "run.txt#3" and "run.txt#label" are single runs.

    `format` is the name of a format, or a format file, or several; by default a log shows which it is in. `label`
    names the runs. Nothing is written.
    """
    if not names:
        raise UsageError("no log is named", help="name a file, a folder, or - for stdin")
    formats = named_formats([format] if isinstance(format, str) else format or ())
    kept, warnings = Kept(), []
    chosen: list[Run] = []
    wanted: dict[str, list[str]] = {}  # log -> the runs of it that are asked for; "" for all
    for name in grouped(expand([os.fspath(n) for n in names])):
        log, ref = split_run(name)
        wanted.setdefault(log, []).append(ref)
    seen: dict[str, str] = {}
    for log, refs in wanted.items():
        with open_source(log) as source:
            first = seen.setdefault(source.digest(), log)
            if first != log:
                warnings.append(f"{log}: the same bytes as {first}, kept once")
                continue
            one = Kept()
            done = ingest(source, one.again, formats or None, label)
        warnings += [f"{log}: {text}" for text in done.warnings]
        members = Log(one.fetch)
        chosen += members.members if "" in refs else [r for ref in refs for r in members.run(ref).members]
        for table, parts in one.tables.items():
            kept.tables.setdefault(table, []).extend(parts)
    everything = Log(kept.fetch, warnings=warnings)
    return everything.select(chosen)


def load(store: str | os.PathLike[str] | None = None) -> Log:
    """All that is in a store; the default is PERFLOG_STORE, or .perflog in the current folder."""
    home = Store(store or default_store())
    if not home.path.is_dir():
        raise StoreError("there is no store here", str(home.path), "`perflog ingest LOG` makes one")
    return _stored(home)


def _stored(*homes: Store) -> Log:
    """All that is in some stores, one after the other."""

    def fetch(name: str, runs: Sequence[str] | None) -> pa.Table:
        parts = [home.table(name, None, runs) for home in homes]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()

    each = [_members(home.table("runs")) for home in homes]
    return Log(fetch, [run for runs in each for run in sorted(runs, key=lambda r: (r.log, r.sha256, r.index))])


def reference() -> Log:
    """The reference runs that come with perflog: one log of each kind, to compare one's own with; then those of the
    reference trainer.
    """
    home = bundled("reference_runs")
    return _stored(Store(home / "store"), Store(home / "trainer" / "store"))


def find(ref: str, store: str | os.PathLike[str] | None = None) -> Log:
    """The runs that `ref` means: those of a log file, read on the fly, of a store, or of that id or label in `store`;
    "reference:" before it means the reference runs, and alone all of them.
    """
    if ref.startswith(REFERENCE):
        every, rest = reference(), ref.removeprefix(REFERENCE)
        found = every.find(rest) if rest else every.members
        return every.select(found) if found else every.run(rest)
    name, run = split_run(ref)
    if name == "-" or "://" in name or os.path.exists(unbraced(name)[0]):
        log = load(name) if is_store(name) else read(name)
        found = log.find(f"#{run}") or log.find(run) if run else log.members
        return log.select(found) if found else log.run(run)
    home = store or default_store()
    if store is not None and not os.path.isdir(home):
        raise StoreError("no store there", str(home), "check the path, or ingest a log into it first")
    found = load(home).find(ref) if os.path.isdir(home) else ()
    if not found and (os.sep in name or "." in name or not os.path.isdir(home)):
        open_source(name)  # it was meant as a log: says that there is no such file
    return load(home).select(found) if found else load(home).run(ref)


def _members(runs: pa.Table) -> list[Run]:
    """The runs, those of a log together and in its order."""
    rows = runs.select(["run", "label", "log", "log_sha256", "index"]).to_pylist()
    found = [Run(r["run"], r["label"], r["log"], r["log_sha256"], r["index"]) for r in rows]
    order = {sha: i for i, sha in enumerate(dict.fromkeys(r.sha256 for r in found))}
    return sorted(found, key=lambda r: (order[r.sha256], r.index))


def _check(name: str) -> None:
    if name not in TABLES:
        raise UsageError(f"there is no table `{name}`", help=did_you_mean(name, TABLES, _some(list(TABLES))))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"there are: {', '.join(names[:_LISTED])}{more}" if names else "there is none"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
