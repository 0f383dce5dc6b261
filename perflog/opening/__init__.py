"""The ways to a `Log`: `read` and `find_runs` for logs, `ingest` and `load` for stores, `reference` for bundled runs.

Here it is decided what a name means: logs, a run of a log, a run of a store.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from perflog.errors import InputError, PerflogError, StoreError, UnrecognisedError, UsageError
from perflog.files.bundled import bundled
from perflog.grouping import grouped
from perflog.log import Log, RowCounts, RunKey, run_keys
from perflog.parsing.input.log_names import REFERENCE, LogName, expand, left_out, why_left_out
from perflog.provenance import as_json, provenance
from perflog.tables.arrow import Where, rows_where, text_array, with_column
from perflog.tables.row_order import in_order
from perflog.tables.schema import GUESS
from perflog.tables.sink import LOG_ID, IngestResult, MemorySink
from perflog.tables.store import Store, default_store, is_store, store_exists
from perflog.units import first_few

if TYPE_CHECKING:
    from perflog.ingestion.in_memory import ReadTask

_LEAST_READ = 0.2
"""The share of the lines of a log that a guess must read. A text that is no log has numbers on a few of its lines."""
_FEWEST_RATES = 3
_MOST_COPIES = 2  # of files, each of which is a warning
ARE_GUESSES = "names, units and tables are guesses"
"""Words of the warning on a log that no format reads."""

# What reads logs is imported where it is used: a store is listed in the time that these modules take to load.


Names = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""The name of a log, or several."""


def _as_strings(names: Iterable[object]) -> list[str]:
    """Return the names of logs that a caller gives, one by one or in lists.

    Raises:
        UsageError: There is none, or one is no string and no path.
    """
    found: list[str] = []
    for name in names:
        if isinstance(name, str | os.PathLike):
            found.append(os.fspath(name))
        elif isinstance(name, Iterable) and not isinstance(name, bytes | Mapping):
            found += _as_strings(name)
        else:
            help = "give a path, a glob, an address, or a list of these"
            raise UsageError(f"a value of type {type(name).__name__} names no log", help=help)
    if not found:
        raise UsageError("no log is named", help="name a file, a folder, or - for stdin")
    return found


def read(
    *names: Names,
    format: str | Sequence[str] | None = None,
    label: str | None = None,
    guess: bool = False,
) -> Log:
    """Read logs into memory. Writes nothing.

    Args:
        names: Paths, folders, globs, addresses (s3://, https://), or "-" for standard input, also in lists.
            "run.txt#3", "run.txt:3" and "run.txt#label" are single runs.
        format: The name of a format, or the path of a format file, or several. By default perflog detects it.
        label: The name that the runs get.
        guess: Whether perflog makes a format for the lines that no format reads. Their rows have `read_by` "guess".

    Returns:
        The runs of all these logs. A log that is given twice under two names is kept once.

    Raises:
        InputError: A log cannot be opened, or nothing in it is known. A file that only is in a named folder is left
            out instead, with a warning.
        UsageError: There is no such format, or no such run.
    """
    texts = _as_strings(names)
    from perflog.formats.registry import named_formats
    from perflog.ingestion.in_memory import ReadTask

    formats = tuple([format] if isinstance(format, str) else format or ())
    named_formats(formats)  # to name a format that does not exist is an error even if no log can be read
    return _read(expand(texts), texts, ReadTask(formats, label, guess))


def _read(names: Sequence[LogName], asked_for: Sequence[str], task: ReadTask | None = None) -> Log:
    """Read logs into memory; from each the runs that its name asks for.

    A file that is in a folder or matches a glob, but is no log, is left out with a warning. One that the caller named
    (`asked_for`) is an error.
    """
    from perflog.ingestion.in_memory import ReadTask

    names, notes = _grouped(names)
    sink = MemorySink()
    wanted: dict[LogName, list[str]] = {}  # log -> the runs of it that are asked for; "" for all
    for name in names:
        wanted.setdefault(name.whole, []).append(name.run)
    digests, warnings = _read_all(
        list(wanted), {LogName.parse(name).log for name in asked_for}, task or ReadTask(), sink
    )
    warnings[:0] = notes
    keys_of: dict[str, list[RunKey]] = {digest: [] for digest in digests.values()}
    runs = _with_settings(sink, {digest: log.settings for log, digest in digests.items() if log.settings})
    for key in run_keys(runs):
        keys_of[key.sha256].append(key)
    warnings += _left_apart(runs) if len(digests) > 1 else []
    chosen: list[RunKey] = []
    for log, digest in digests.items():
        one_log = Log(sink.fetch, keys_of[digest])
        chosen += (one_log if "" in wanted[log] else one_log.select(*wanted[log])).run_keys
    every_key = [key for keys in keys_of.values() for key in keys]
    sink.runs = [key.id for key in every_key]
    return Log(sink.fetch, every_key, warnings=warnings).select(*chosen)


def _read_all(
    names: Sequence[LogName], asked_for: Collection[str], task: ReadTask, sink: MemorySink
) -> tuple[dict[LogName, str], list[str]]:
    """Read logs into a sink. Return the digest of each that was read, and warnings."""
    from perflog.ingestion.in_memory import read_logs

    warnings: list[str] = []
    digests: dict[LogName, str] = {}
    reasons: dict[LogName, str] = {}  # why logs are left out
    copies: dict[LogName, LogName] = {}
    first_error: InputError | None = None
    for log, outcome in read_logs(names, task, sink):
        if isinstance(outcome, InputError):
            if log.log in asked_for:
                raise outcome
            reasons[log] = why_left_out(outcome)
            first_error = first_error or outcome
        elif isinstance(outcome, LogName):
            if outcome in reasons:
                reasons[log] = reasons[outcome]
            else:
                copies[log] = outcome
        else:
            warnings += [f"{log}: {text}" for text in outcome.warnings]
            digests[log] = outcome.sha256
    if first_error is not None and not digests:
        raise first_error
    by_reason = grouped((reason, str(log)) for log, reason in reasons.items())
    warnings += [left_out(reason, those) for reason, those in by_reason.items()]
    return digests, [*warnings, *_copies_in_words(copies)]


def _copies_in_words(copies: Mapping[LogName, LogName]) -> Iterator[str]:
    """Yield that files have the same bytes as others; of many, a few by name."""
    if len(copies) > _MOST_COPIES:
        yield f"{len(copies):,} files have the same bytes as others, kept once: {first_few(copies, _MOST_COPIES)}"
        return
    yield from (f"{log}: the same bytes as {first}, kept once" for log, first in copies.items())


def _with_settings(sink: MemorySink, settings: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Add the settings in files beside logs to table `runs`, by digest of the log, and return it."""
    runs = sink.fetch("runs")
    if settings:
        texts = text_array([as_json(settings.get(log, {})) for log in runs["log_sha256"].to_pylist()])
        runs = with_column(runs, "provenance", texts)
        sink.replace("runs", runs)
    return runs


def _grouped(names: Sequence[LogName]) -> tuple[Sequence[LogName], list[str]]:
    """Return the names with one for the files of a job, and what the reader must know of it."""
    if len(names) < 2 and not any(name.is_found for name in names):
        return names, []
    from perflog.ingestion.job_logs import group_job_logs

    found = group_job_logs(names)
    return found.names, list(found.notes)


def _left_apart(runs: pa.Table) -> list[str]:
    from perflog.ingestion.job_logs import apart

    return apart(runs)


def ingest(
    *names: Names,
    store: str | os.PathLike[str] | None = None,
    format: str | Sequence[str] | None = None,
    label: str | None = None,
    strict: bool = False,
    guess: bool = False,
    scheduler: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> Log:
    """Read logs into a store, as `perflog ingest` does.

    Args:
        names: Paths, folders, globs, addresses (s3://, https://), or "-" for standard input, also in lists.
        store: The folder of the store, made if it does not exist; by default PERFLOG_STORE, or `.perflog` in the
            current folder.
        format: The name of a format, or the path of a format file, or several. By default perflog detects it.
        label: The name that the runs get.
        strict: Whether an unread line or number is an error. The log is then not stored.
        guess: Whether perflog makes a format for the lines that no format reads. Their rows have `read_by` "guess".
        scheduler: The address of a Dask scheduler. Its workers read the logs; by default this process reads them.
        tags: What you say of the runs, such as {"gpu_name": "NVIDIA H200"}: settings, as those in the log. The commit,
            branch, pull request and job of a CI system are recorded from its environment.

    Returns:
        The runs of these logs, from the store. `warnings` has what went wrong with single lines.

    Raises:
        PerflogError: A log cannot be read. The other logs are stored all the same; the error names how many failed.
    """
    texts = _as_strings(names)
    from perflog.ingestion.bulk import IngestTask, ingest_in_turn, log_names, without_found
    from perflog.ingestion.cluster import ingest_on_cluster

    formats = tuple([format] if isinstance(format, str) else format or ())
    folder = os.fspath(store or default_store())
    task = IngestTask(folder, label, formats, strict, guess, provenance(), dict(tags or {}))
    logs = log_names(texts, formats)
    outcomes_by_log, sentences = without_found(
        ingest_on_cluster(logs, task, scheduler) if scheduler else ingest_in_turn(logs, task)
    )
    outcomes = dict(outcomes_by_log)
    errors = [outcome for outcome in outcomes.values() if isinstance(outcome, PerflogError)]
    if errors:
        if len(errors) > 1:
            errors[0].add_note(f"{len(errors)} of {len(outcomes)} logs could not be read")
        raise errors[0]
    results = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, IngestResult)}
    digests = {result.sha256 for result in results.values()}
    log = load(task.store)
    log = log.select(*(key for key in log.run_keys if key.sha256 in digests))
    log.warnings += [f"{name}: {text}" for name, result in results.items() for text in result.warnings]
    log.warnings += sentences
    return log


def load(store: str | os.PathLike[str] | None = None) -> Log:
    """Open a store.

    Args:
        store: The folder of the store; by default PERFLOG_STORE, or `.perflog` in the current folder.

    Returns:
        All runs in the store. Tables are read when they are asked for.

    Raises:
        StoreError: There is no store, or it cannot be read.
    """
    folder = Store(store or default_store(), leaves_out_damage=True)
    if not store_exists(store or default_store()):
        raise _no_store(folder.name)
    return _stored(folder)


def _no_store(name: str) -> StoreError:
    return StoreError("there is no store here", name, "`perflog ingest LOG` makes one")


def _stored(*stores: Store) -> Log:
    """Return all runs of some stores, one store after the other. Table `runs` is read now, the others when needed."""
    all_runs = [_with_provenance(store) for store in stores]

    def fetch(
        name: str,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        /,
    ) -> pa.Table:
        if name != "runs":
            parts = [store.table(name, None, runs, columns, where) for store in stores]
            return parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()
        table = all_runs[0] if len(all_runs) == 1 else pa.concat_tables(all_runs).unify_dictionaries()
        table = table if runs is None else in_order(table, runs)
        table = table if where is None else rows_where(table, where)
        return table if columns is None else table.select(columns)

    each = map(run_keys, all_runs)
    keys = [key for keys in each for key in sorted(keys, key=lambda k: (k.log, k.sha256, k.index))]

    def dates() -> Mapping[str, str]:
        dates = {log: date for store in stores for log, date in store.ingested().items()}
        return {key.id: dates[log] for key in keys if (log := key.sha256[:LOG_ID]) in dates}

    def count(name: str, runs: Sequence[str] | None) -> RowCounts:
        return {run: counts for store in stores for run, counts in store.row_counts(name, runs).items()}

    return Log(fetch, keys, dates=dates, count=count)


def _with_provenance(store: Store) -> pa.Table:
    """Return table `runs` of a store, with what it notes of where its logs come from."""
    runs, known = store.table("runs"), store.provenance()
    if not known:
        return runs
    logs = runs["log_sha256"].to_pylist()
    texts = text_array([as_json(known.get(log[:LOG_ID], {})) for log in logs])
    return with_column(runs, "provenance", texts)


def reference() -> Log:
    """Return the reference runs that ship with perflog.

    Returns:
        The runs of one log of each kind, to compare your own runs with; then the runs of the reference trainer.
    """
    folder = bundled("reference_runs")
    return _stored(Store(folder / "store"), Store(folder / "trainer" / "store"))


def find_runs(name: str | os.PathLike[str], store: str | os.PathLike[str] | None = None) -> Log:
    """Return the runs that a name means, as the command line understands it.

    A file that no format reads is read under guessed names, if these read most of it: its rows have `read_by` "guess",
    and a warning says so.

    Args:
        name: A log, folder, glob or store, which is read on the fly; "run.txt#3", one run of it; a run id or a label in
            `store`; or "reference:NAME", runs that ship with perflog ("reference:" alone means all of them).
        store: Where run ids and labels are looked up; by default PERFLOG_STORE, or `.perflog` in the current folder.

    Raises:
        InputError: There is no such file, or it cannot be read.
        StoreError: There is no such store.
        UsageError: The name means no run, or several where one is asked for.
    """
    name = os.fspath(name)
    log = _find_runs(name, store)
    log.name = name
    if GUESS in log.some_columns("runs", "format")["format"].to_pylist():
        log.warnings.append(f"{name}: {ARE_GUESSES}; `perflog lint` names the rows")
    return log


def _find_runs(name: str, store: str | os.PathLike[str] | None) -> Log:
    if name.startswith(REFERENCE):
        every, name = reference(), name.removeprefix(REFERENCE)
        return every.select(*(every.match(name) or [name])) if name else every
    log_name = LogName.parse(name)
    path, run = log_name.log, log_name.run
    if log_name.exists():
        log = load(path) if is_store(path) else _read_or_guess(log_name.whole)
        if run.isdigit():  # an index or a label, not the beginning of a run id
            return log.select(*(log.match(f"#{run}") or [f"#{run}"]))
        return log.select(*(log.match(f"#{run}") or log.match(run) or [run])) if run else log
    folder = store or default_store()
    exists = store_exists(folder)
    if not exists and name == default_store():
        raise _no_store(name)
    if store is not None and not exists:
        raise StoreError("there is no store here", str(folder), "check the path, or ingest a log into it first")
    stored = load(folder) if exists else None
    matches = stored.match(name) if stored is not None else ()
    if not matches and (os.sep in path or "." in path or not exists):
        from perflog.parsing.input.source import open_source

        open_source(log_name)  # the user meant a log: the error names the missing file
    return (load(folder) if stored is None else stored).select(*(matches or [name]))


def _read_or_guess(name: LogName) -> Log:
    """Read logs. A single file that no format reads is read under guessed names, if these read most of it."""
    try:
        return _read(name.logs(), [name.log])
    except UnrecognisedError:
        guessed = _guessed(name) if os.path.isfile(name.log) else None
        if guessed is None:
            raise
        return guessed


def _guessed(name: LogName) -> Log | None:
    """Return a log under guessed names; None unless they read most of its figures, on a good part of its lines.

    A text that is no log, such as a README, has numbers too. Names can be guessed for few of them, or most lines have
    none. In a log of ranks, each
    line has a rank too: a third of the figures is enough where they are rates of ranks, among others.
    """
    from perflog.ingestion.in_memory import ReadTask

    try:
        log = _read([name], [name.log], ReadTask(guess=True))
    except InputError:
        return None
    figures, lines = log.figure_account, log.line_account
    has_most = figures.get("stored", 0) * (1 + _has_rates_of_ranks(log)) > figures.get("unread", 0)
    return log if has_most and lines["unread"] < (1 - _LEAST_READ) * lines["total"] else None


def _has_rates_of_ranks(log: Log) -> bool:
    rates = [row["rank"] for row in log.arrow("values").to_pylist() if row["unit"] == "1/s"]
    return len(rates) >= _FEWEST_RATES and None not in rates


def store_of(name: str, store: str | os.PathLike[str] | None = None) -> str | None:
    """Return the folder of the store that `find_runs` takes a name from; None for logs and reference runs."""
    log_name = LogName.parse(name)
    if log_name.exists():
        return log_name.log if is_store(log_name.log) else None
    return None if name.startswith(REFERENCE) else os.fspath(store or default_store())
