"""The reader of SQLite files that Nsight Systems exports; the exports of the ranks of a job are one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database, is_sqlite, open_with_writer
from perflog.readers.events.event_table import EventOrigin
from perflog.readers.events.spill_file import decompressed_path
from perflog.readers.interface import RankInfo, Reader, ReadOptions, proof_by_counts
from perflog.readers.nsys.counters import counter_tables
from perflog.readers.nsys.export import Export
from perflog.readers.nsys.session import Session
from perflog.readers.nsys.tables import event_tables
from perflog.readers.rank_files import ranks_of_files
from perflog.tables.sink import IngestResult, Sink


class NsysReader(Reader):
    """Reads SQLite exports of Nsight Systems."""

    name = "nsys_sqlite"
    title = "SQLite export of Nsight Systems"
    source = (
        "`nsys export --type sqlite`, and `nsys stats`, which leaves one beside the report; exports of several ranks "
        "are one run"
    )

    def detect(self, source: Source) -> bool:
        """Accept any SQLite file: if it is no export, `read` names the missing parts."""
        return is_sqlite(source)

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return position, name and number of rows of each table of events."""
        with _open_exports(source) as (db, *_):
            names = [*(table.name for table in event_tables(db)), *counter_tables(db)]
            return proof_by_counts([(name, db.count(name)) for name in names], "rows")

    def rank_info(self, source: Source) -> RankInfo | None:
        """Return the MPI rank of the process of an export; None if it has several processes with a GPU."""
        with _open_exports(source) as (db,):
            session = Session(db)
            return _rank_info(session) if session.cuda_processes < 2 else None

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the exports of a log into a sink. One thread reads, one makes rows, one writes."""
        with open_with_writer(source, self.name, sink, _open_exports) as (databases, new_writer):
            sessions = [Session(db) for db in databases]
            exports = [Export(db, session) for db, session in zip(databases, sessions, strict=True)]
            contexts = [export.context() for export in exports]
            writer = new_writer()
            files = zip(source.parts, sessions, strict=True)
            ranks = ranks_of_files([(part.name, _rank_info(session)) for part, session in files])
            for part, (export, context, rank) in enumerate(zip(exports, contexts, ranks, strict=True)):
                export.read(context, writer, EventOrigin(writer.run, part, *rank))
            last = max(export.place for export in exports)
            if not last:
                help = "ask Nsight Systems for a trace, such as --trace=cuda,nvtx"
                raise InputError("no events in this export of Nsight Systems", source.name, help)
            options.done(source)
            config = _config(sessions, source.parts, [rank for rank, _ in ranks])
            return writer.write_run(options.label, last, config, **_run_columns(sessions))


@contextmanager
def _open_exports(source: Source) -> Iterator[list[Database]]:
    with ExitStack() as opened:
        databases = []
        for part in source.parts:
            path = opened.enter_context(decompressed_path(part))
            databases.append(opened.enter_context(closing(Database(path, part))))
            if not event_tables(databases[-1]) and not counter_tables(databases[-1]):
                help = (
                    "perflog reads exports of Nsight Systems, `nsys export --type sqlite`, and databases of rocprofv3"
                )
                raise InputError("a SQLite file without tables of GPU activity, calls or ranges", part.name, help)
        yield databases


def _rank_info(session: Session) -> RankInfo:
    ranks = set(session.mpi_ranks().values())
    return RankInfo(ranks.pop() if len(ranks) == 1 else None)


def _config(sessions: Sequence[Session], parts: Sequence[Source], ranks: Sequence[int | None]) -> dict[str, Any]:
    """Return the run's config: what all exports share, and for each file the rest."""
    configs = [
        session.config(os.path.basename(part.name), part.digest())
        for session, part in zip(sessions, parts, strict=True)
    ]
    if len(configs) == 1:
        return configs[0]
    shared = {key: value for key, value in configs[0].items() if all(other.get(key) == value for other in configs)}
    files = []
    for config, rank in zip(configs, ranks, strict=True):
        (file,) = config.pop("files")
        files.append(file | {"rank": rank} | {key: value for key, value in config.items() if key not in shared})
    clock = "epoch" if all(session.epoch() is not None for session in sessions) else "trace"
    return shared | {"clock": clock, "files": files}


def _run_columns(sessions: Sequence[Session]) -> dict[str, Any]:
    """Return columns of the run's row, where the exports do not contradict each other."""
    columns = [session.run_columns() for session in sessions]
    devices, programs = (dict.fromkeys(each[name] for each in columns if each[name]) for name in ("device", "program"))
    return {"device": ", ".join(devices) or None, "program": next(iter(programs)) if len(programs) == 1 else None}
