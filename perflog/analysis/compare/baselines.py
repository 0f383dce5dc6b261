"""Baselines: named sets of runs of a store that new runs are compared with, such as the last 20 of branch main.

A baseline lists its runs, or a condition chooses them (a rolling one). An accepted change begins a new level: runs of
earlier levels are no base any more, but still show the run-to-run variation. Baselines are kept in `baselines.json` of
the store, which is replaced as a whole while its lock is held.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.analysis.compare.history import Identity, identities
from perflog.analysis.compare.sides import Side, as_jobs
from perflog.analysis.run_filter import Fact, parse
from perflog.errors import NothingToCompareError, StoreError, UsageError, did_you_mean
from perflog.files.file_lock import locked
from perflog.files.remote import is_in_storage
from perflog.files.whole_files import whole_file
from perflog.log import Log, RunKey
from perflog.metrics.attempts import jobs
from perflog.opening import find_runs, load
from perflog.tables.store import default_store
from perflog.tables.store.folder import store_errors
from perflog.tables.store.writer import utc_now
from perflog.units import first_few

FILE = "baselines.json"
LAST = 20
"""Number of runs of a rolling baseline by default, of each configuration."""

_VERSION = 1
_MOST_SETTINGS = 3  # in a message


class Level(Struct, frozen=True, omit_defaults=True):
    """The runs since an accepted change. `began`: UTC, empty for the first level. `runs`: those named for it."""

    began: str = ""
    reason: str = ""
    runs: tuple[str, ...] = ()


class Baseline(Struct, frozen=True, omit_defaults=True):
    """A named set of runs.

    Attributes:
        name: Its name.
        where: The condition that chooses runs, as `perflog runs --where` has it; None: only the named ones.
        last: The number of runs of the present level that count, of each configuration.
        levels: The levels, the first one first.
        without: Runs that were taken out.
    """

    name: str
    where: str | None = None
    last: int = LAST
    levels: tuple[Level, ...] = (Level(),)
    without: tuple[str, ...] = ()


class _File(Struct, frozen=True):
    schema_version: int = _VERSION
    baselines: list[Baseline] = field(default_factory=list)


class MissingBaselineError(NothingToCompareError):
    """There is no such baseline, or it has no runs with the settings of the compared ones."""

    code = 3


class OtherSettingsError(MissingBaselineError):
    """The baseline has runs, and none has the settings of the compared ones."""


def read(store: str | os.PathLike[str] | None = None) -> dict[str, Baseline]:
    """Return the baselines of a store, by name.

    Raises:
        StoreError: Their file is damaged.
    """
    path = Path(store or default_store()) / FILE
    if is_in_storage(os.fspath(store or default_store())):
        return {}
    try:
        with store_errors(str(path)):
            text = path.read_bytes()
    except StoreError:
        if path.exists():
            raise
        return {}
    try:
        found = msgspec.json.decode(text, type=_File)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"the baselines cannot be read: {error}", str(path), "remove this file and set them again"
        ) from error
    if found.schema_version != _VERSION:
        raise StoreError(
            f"the baselines have schema {found.schema_version}", str(path), "use the perflog that wrote them"
        )
    return {baseline.name: baseline for baseline in found.baselines}


def get(name: str, store: str | os.PathLike[str] | None = None) -> Baseline:
    """Return the baseline of a name.

    Raises:
        MissingBaselineError: There is none.
    """
    known = read(store)
    if name not in known:
        help = did_you_mean(name, known) if known else f"`perflog baseline set {name} RUN...` makes one"
        raise MissingBaselineError(f"there is no baseline `{name}`", os.fspath(store or default_store()), help)
    return known[name]


def set_baseline(
    name: str,
    runs: Sequence[str] = (),
    where: str | None = None,
    last: int = LAST,
    store: str | os.PathLike[str] | None = None,
) -> Baseline:
    """Make a baseline, replace an earlier one of that name, and return it.

    Args:
        name: Its name.
        runs: Runs of the store: ids, labels, logs that were ingested.
        where: A condition on settings and on `ingested`, which chooses runs now and later.
        last: The number of runs that count, of each configuration.
        store: The store.

    Raises:
        UsageError: Neither runs nor a condition are given, or a run is not in the store.
    """
    if not runs and not where:
        help = "name runs of the store, or a condition: --where 'branch = main'"
        raise UsageError("a baseline needs runs", name, help)
    if where:
        parse(where)
    made = Baseline(name, where, last, (Level(runs=_ids(runs, store)),))
    _change(store, lambda known: {**known, name: made})
    return made


def accept(
    name: str, runs: Sequence[str] = (), reason: str = "", store: str | os.PathLike[str] | None = None
) -> Baseline:
    """Add runs to a baseline; with a reason, they and later ones begin a new level. Return the baseline.

    Raises:
        MissingBaselineError: There is no such baseline.
        UsageError: There is nothing to accept.
    """
    ids = _ids(runs, store)
    if not ids and not (reason and get(name, store).where):
        raise UsageError("there are no runs to accept", name, "name the runs to accept")
    dates = load(store).ingested if ids else {}
    known_dates = [dates[run] for run in ids if run in dates]
    began = min(known_dates, default=utc_now())

    def change(known: Mapping[str, Baseline]) -> dict[str, Baseline]:
        old = known.get(name) or get(name, store)
        *earlier, present = old.levels
        if reason:
            without = replace(present, runs=tuple(run for run in present.runs if run not in ids))
            levels = (*earlier, without, Level(began, reason, ids))
        else:
            levels = (*earlier, replace(present, runs=tuple(dict.fromkeys([*present.runs, *ids]))))
        out = tuple(run for run in old.without if run not in ids)
        return {**known, name: replace(old, levels=levels, without=out)}

    return _change(store, change)[name]


def remove(name: str, runs: Sequence[str] = (), store: str | os.PathLike[str] | None = None) -> Baseline | None:
    """Remove a baseline, or take runs out of it; the runs stay in the store. Return what is left of it.

    Raises:
        MissingBaselineError: There is no such baseline.
        UsageError: It does not have one of the runs.
    """
    old, ids = get(name, store), _ids(runs, store)
    if not runs:
        _change(store, lambda known: {other: each for other, each in known.items() if other != name})
        return None
    having = {key.id for level in members(old, load(store)) for key in level}
    if missing := [run for run in ids if run not in having]:
        raise UsageError(
            f"the baseline does not have run {missing[0]}", name, f"`perflog baseline show {name}` lists them"
        )

    def change(known: Mapping[str, Baseline]) -> dict[str, Baseline]:
        levels = tuple(replace(each, runs=tuple(r for r in each.runs if r not in ids)) for each in known[name].levels)
        out = tuple(dict.fromkeys([*known[name].without, *ids])) if known[name].where else ()
        return {**known, name: replace(known[name], levels=levels, without=out)}

    return _change(store, change)[name]


def members(baseline: Baseline, log: Log) -> list[list[RunKey]]:
    """Return the runs of each level that are in the store, in the order in which they were ingested.

    A run that a condition chooses belongs to the last level that had begun before it was ingested.
    """
    dates = log.ingested
    keys = sorted(log.run_keys, key=lambda key: dates.get(key.id, ""))
    place = {run: k for k, level in enumerate(baseline.levels) for run in level.runs}
    if baseline.where:
        for run in _chosen(baseline.where, log):
            begun = [k for k, level in enumerate(baseline.levels) if level.began < dates.get(run, "")]
            place.setdefault(run, max(begun, default=0))
    return [
        [key for key in keys if place.get(key.id) == k and key.id not in baseline.without]
        for k in range(len(baseline.levels))
    ]


def _chosen(where: str, log: Log) -> Iterator[str]:
    """Yield the runs for which a condition on settings and on `ingested` holds."""
    condition = parse(where)
    for run, settings in Side("", log).settings.items():
        leaves = {name.rpartition(".")[2]: value for name, value in settings.items()}
        facts: dict[str, Fact] = {**leaves, **settings, "ingested": log.ingested.get(run)}
        if condition.holds({name: facts.get(name) for name in condition.names}):
            yield run


class ResolvedBaseline(Struct, frozen=True):
    """The runs of a baseline that are repeats of some new ones: the base, and the runs of each earlier level."""

    base: Side
    earlier: tuple[Log, ...]


def resolve(
    name: str, new: Sequence[Side], store: str | os.PathLike[str] | None = None, ignored: Container[str] = ()
) -> ResolvedBaseline:
    """Return the runs of a baseline with the settings of new runs, without the new runs themselves.

    A job with several attempts is one run. Of each configuration the last ones of the present level are the base.

    Args:
        name: The name of the baseline.
        new: The sides that are compared with it.
        store: Its store.
        ignored: Settings that match no runs.

    Raises:
        MissingBaselineError: There is no such baseline, or it has no runs with these settings.
    """
    baseline = get(name, store)
    log = load(store)
    side = Side(name, log)
    known = identities([side, *new], ignored)
    compared = [run for each in new for run in each.settings]
    own = {run for runs in jobs(side.tables).values() if not set(runs).isdisjoint(compared) for run in runs}
    compared += [run for run in side.settings if run in own and run not in compared]  # all attempts of a job
    tags = _tags(log)
    alike = {
        run
        for run in side.settings
        if run not in compared and any(not _differing(known[run], known[other], tags) for other in compared)
    }
    *earlier, present = [[key for key in level if key.id in alike] for level in members(baseline, log)]
    if not present:
        raise _why_none(baseline, log, compared, new, ignored)
    counts: dict[str, int] = {}
    kept = []
    for key in reversed(present):
        configuration = repr(sorted(known[key.id].settings.items()))
        counts[configuration] = counts.get(configuration, 0) + 1
        if counts[configuration] <= baseline.last:
            kept.append(key)
    base = as_jobs(name, log.select(*reversed(kept)))
    base.warnings += log.warnings
    groups = (as_jobs(name, log.select(*level)) for level in earlier if len(level) > 1)
    return ResolvedBaseline(Side(name, base), tuple(group for group in groups if len(group) > 1))


def _why_none(
    baseline: Baseline, log: Log, compared: Sequence[str], new: Sequence[Side], ignored: Container[str]
) -> MissingBaselineError:
    """Return the error that tells why no run of the present level is a base."""
    name, runs = baseline.name, [key for key in members(baseline, log)[-1] if key.id not in compared]
    if not runs:
        help = f"`perflog baseline show {name}` lists its runs, `perflog baseline accept {name} RUN...` adds some"
        but = " but the compared ones" * (len(members(baseline, log)[-1]) > 0)
        return MissingBaselineError(f"the baseline has no runs{but}", name, help)
    known = identities([Side(name, log), *new], ignored)
    ours, theirs = known[compared[0]].settings, known[runs[-1].id].settings
    different = _differing(known[compared[0]], known[runs[-1].id], _tags(log))
    told = [f"{n} {ours.get(n, '-')} (baseline {theirs.get(n, '-')})" for n in different]
    ask = " ".join(f"--ignore {n}" for n in different[:_MOST_SETTINGS])
    reason = f"the baseline has no runs of these settings: {first_few(told)}"
    return OtherSettingsError(reason, name, f"{ask} compares them anyway")


def _tags(log: Log) -> set[str]:
    """The names that the store notes of its runs. A log that is not in the store lacks them."""
    texts = log.some_columns("runs", "provenance")["provenance"].to_pylist()
    return {name for text in texts if text for name in json.loads(text)}


def _differing(a: Identity, b: Identity, tags: Container[str]) -> list[str]:
    """The settings in which two runs differ; a tag counts where both have it."""
    names = dict.fromkeys((*a.settings, *b.settings))
    both = (name for name in names if name not in tags or (name in a.settings and name in b.settings))
    return [name for name in both if a.settings.get(name) != b.settings.get(name)]


def _ids(runs: Sequence[str], store: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """The ids of runs of the store that are named by id, label or log."""
    if not runs:
        return ()
    stored = {key.id for key in load(store).run_keys}
    ids = [key.id for name in runs for key in find_runs(name, store).run_keys]
    if missing := next(
        (name for name in runs if not any(k.id in stored for k in find_runs(name, store).run_keys)), None
    ):
        where = os.fspath(store or default_store())
        raise UsageError(f"{missing} is not in the store", where, "`perflog ingest` reads it into the store")
    return tuple(run for run in dict.fromkeys(ids) if run in stored)


def _change(
    store: str | os.PathLike[str] | None, change: Callable[[Mapping[str, Baseline]], Mapping[str, Baseline]]
) -> Mapping[str, Baseline]:
    """Replace the baselines of a store, while no other process does, and return the new ones."""
    folder = os.fspath(store or default_store())
    if is_in_storage(folder):
        raise UsageError("a store on object storage keeps no baselines", folder, "use a store in a folder")
    load(store)  # a baseline is one of a store
    with store_errors(folder), locked(Path(folder) / f".{FILE}.lock"):
        changed = change(read(store))
        text = msgspec.json.format(msgspec.json.encode(_File(baselines=list(changed.values()))), indent=2)
        with whole_file(Path(folder) / FILE) as draft:
            draft.write_bytes(text + b"\n")
    return changed
