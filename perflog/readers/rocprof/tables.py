"""Tables of a rocpd database: which there are, what their numbers mean, and queries for their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perflog.readers.databases.sqlite import Database, quote_name
from perflog.readers.rocprof.kinds import kind_of

EVENT_TABLES = {
    "region": None,
    "sample": None,
    "kernel_dispatch": "kernel",
    "memory_copy": "memcpy",
    "memory_allocate": None,
}
"""Tables of events and the kind of their events; None: it follows from the category. Calls and ranges come first."""

NUMBERS = {
    "start": ("k.start", "k.timestamp", "b.value"),
    "end": ("k.end", "f.value"),
    "pid": ("k.pid", "t.pid"),
    "tid": ("k.tid", "t.tid"),
    "agent": ("k.agent_id", "t.agent_id"),
    "destination": ("k.dst_agent_id",),
    "origin": ("k.src_agent_id",),
    "stream": ("k.stream_id", "t.stream_id", "k.queue_id", "t.queue_id"),
    "kernel": ("k.kernel_id",),
    "name": ("k.name_id",),
    "bytes": ("k.size",),
    "region": ("k.region_name_id",),
    "category": ("e.category_id",),
    "internal": ("e.stack_id",),
    "external": ("e.correlation_id",),
    "ordinal": ("k.ordinal",),
}
"""Numbers of an event, and the columns that may hold them: of its own table (k), its track (t), its event (e), its
beginning and its finish (b, f), which are rows of a table of their own since schema 4.
"""

TEXTS = ("text", "grid", "block")
"""Columns of the queries for events that are strings."""

_LAUNCH_SIZES = {"grid": "grid_size", "block": "workgroup_size"}
_SHARED_MEMORY = "group_segment_size"
_KERNELS = "kernel_dispatch"

_NUMBERS_THAT_JOIN = "joins rows of the database"
_DROPPED = {
    **dict.fromkeys(
        ("id", "guid", "nid", "pid", "tid", "event_id", "track_id", "dispatch_id", "queue_id", "stream_id", "start_id",
         "end_id", "timestamp_id", "name_id", "agent_id", "pmc_id"),
        _NUMBERS_THAT_JOIN,
    ),
    **dict.fromkeys(("src_address", "dst_address", "address"), "address"),
    "private_segment_size": "detail of the launch, beyond grid, block and LDS",
    "extdata": "further JSON: only its `message` is read",
    "level": "level of the memory",
}  # fmt: skip
"""Columns that no table takes, each with the reason."""

_JOINS = (
    ("e", "event", "event_id"),
    ("t", "track", "track_id"),
    ("b", "timestamp", "start_id"),
    ("b", "timestamp", "timestamp_id"),
    ("f", "timestamp", "end_id"),
)
_STARTS = {"start", "timestamp", "start_id", "timestamp_id"}

COUNTERS = "pmc_event"
"""The table of readings of counters; each belongs to an event, a kernel or a sample."""


def table_sets(db: Database) -> list[TableSet]:
    """Return the sets of tables of a database.

    A set is identified by the suffix of its tables' names. Views without a suffix show the rows of all sets again: they
    are left out where there are sets.
    """
    prefixes = [f"rocpd_{table}" for table in EVENT_TABLES]
    suffixes = {name[len(prefix) :] for name in db.tables for prefix in prefixes if name.startswith(prefix)}
    suffixes = {suffix for suffix in suffixes if suffix[:1] in ("", "_")}
    return [TableSet(db, suffix) for suffix in sorted(suffixes - {""} or suffixes)]


class TableSet:
    """The tables of one process, and its names by number. `present`: its tables of events."""

    def __init__(self, db: Database, suffix: str) -> None:
        self.db, self.suffix = db, suffix
        self.present = [name for name in EVENT_TABLES if _STARTS & set(self._columns(name))]

    @property
    def numbered(self) -> list[str]:
        """The tables in the order in which their rows are numbered: events first, then the readings of counters."""
        return [*self.present, *([COUNTERS] if self.counter_query() else [])]

    def load_names(self) -> None:
        """Read the meanings of the numbers of its events."""
        self.strings = self._texts("string", "string")
        self.categories = self._texts("info_category", "name") or self.strings
        self.kernels = self._texts("info_kernel_symbol", "display_name", "kernel_name")
        self.pids, self.tids = self._texts("info_process", "pid"), self._texts("info_thread", "tid")
        self.counters = {
            row["id"]: (
                str(row.get("symbol") or row.get("name") or f"counter {row['id']}"),
                str(row.get("units") or ""),
            )
            for row in self._rows("info_pmc", "id", "name", "symbol", "units")
            if "id" in row
        }
        self.agents = self._rows("info_agent", "id", "type", "type_index", "product_name", "model_name", "name")
        gpus = [agent for agent in self.agents if agent.get("type") == "GPU" and isinstance(agent.get("id"), int)]
        numbers = [gpu["type_index"] for gpu in gpus if isinstance(gpu.get("type_index"), int)]
        numbered = len(set(numbers)) == len(gpus)
        self.devices: dict[int, int] = {gpu["id"]: numbers[i] if numbered else i for i, gpu in enumerate(gpus)}
        names = [gpu.get("product_name") or gpu.get("model_name") or gpu.get("name") or "" for gpu in gpus]
        self.device_names = {self.devices[gpu["id"]]: str(name) for gpu, name in zip(gpus, names, strict=True)}
        hosts = self._rows("info_node", "hostname")
        self.host = str(hosts[0]["hostname"]) if len(hosts) == 1 and hosts[0].get("hostname") else ""

    def count(self, name: str) -> int:
        """Return the number of rows of a table; 0 where there is none."""
        return self.db.count(self._table(name)) if self._columns(name) else 0

    def figures(self, name: str) -> Iterator[tuple[str, int, str | None]]:
        """Give for each column of a table with values their number, and why they are dropped: "" if not, None if they
        are read.
        """
        present = self._columns(name)
        taken = {column.split(".")[1].strip('"') for text in _chosen({"k": present}) for column in (text.split()[0],)}
        taken |= {"value", "pmc_id"} if name == COUNTERS else {"type"}
        if name == _KERNELS:
            taken |= {f"{size}_{d}" for size in _LAUNCH_SIZES.values() for d in "xyz"} | {_SHARED_MEMORY}
        for column, count in self.db.counts_of_values(self._table(name)).items() if present else ():
            if count:
                yield column, count, None if column in taken else _DROPPED.get(column, "")

    def query(self, name: str, only_ranges: bool = False) -> str:
        """Return a query for the numbers of all events of a table, and `text` if the row itself holds its name."""
        columns, joins = self._joined(name)
        chosen = _chosen(columns)
        if "type" in columns["k"]:
            chosen.append("ifnull(k.type, '') AS text")
        elif "extdata" in columns.get("e", ()):
            message = "CASE WHEN json_valid(e.extdata) THEN json_extract(e.extdata, '$.message') END"
            chosen.append(f"ifnull(CAST({message} AS TEXT), '') AS text")
        chosen += _launch_query(columns["k"]) if name == _KERNELS else []
        where, source = "", quote_name(self._table(name))
        if only_ranges:  # with their positions among all rows
            ids = [str(number) for number, text in self.categories.items() if kind_of(text) == "range"]
            where = f" WHERE e.category_id IN ({', '.join(ids)})" if "e" in columns else " WHERE 0"
            source = f"(SELECT *, row_number() OVER () AS ordinal FROM {source})"
            chosen.append("k.ordinal AS ordinal")
        return f"SELECT {', '.join(chosen)} FROM {source} AS k {' '.join(joins)}{where}"

    def counter_query(self) -> str | None:
        """Return a query for the readings of counters with the numbers of their kernels; None where there are none."""
        if not {"event_id", "value"} <= set(self._columns(COUNTERS)):
            return None
        parts = [
            name for name in ("kernel_dispatch", "sample") if name in self.present and "event_id" in self._columns(name)
        ]
        chosen = ["p.value AS value"] + (["p.pmc_id AS counter"] if "pmc_id" in self._columns(COUNTERS) else [])
        sources = [f"{quote_name(self._table(COUNTERS))} AS p"]
        numbers: dict[str, list[str]] = {}
        for name in parts:
            columns, joins = self._joined(name)
            fields = ", ".join(["k.event_id AS event_id", *_chosen(columns)])
            query = f"SELECT {fields} FROM {quote_name(self._table(name))} AS k {' '.join(joins)}"
            sources.append(f"LEFT JOIN ({query}) AS {name} ON {name}.event_id = p.event_id")
            for number in (text.rpartition(" AS ")[2] for text in _chosen(columns)):
                numbers.setdefault(number, []).append(f"{name}.{number}")
        chosen += [f"coalesce({', '.join(ways)}, NULL) AS {number}" for number, ways in numbers.items()]
        return f"SELECT {', '.join(chosen)} FROM {' '.join(sources)}"

    def _joined(self, name: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Return the columns that a query for events may use, by the alias of their table, and its joins."""
        columns, joins = {"k": self._columns(name)}, []
        for alias, table, key in _JOINS:
            if key in columns["k"] and alias not in columns and "id" in self._columns(table):
                columns[alias] = self._columns(table)
                joins.append(f"LEFT JOIN {quote_name(self._table(table))} AS {alias} ON {alias}.id = k.{key}")
        return columns, joins

    @property
    def pid(self) -> object:
        """Number of the process; None where the tables do not state it."""
        return next((row.get("pid") for row in self._rows("info_process", "pid")), None)

    def config(self) -> dict[str, Any]:
        """Return the metadata of the process, for the run's config."""
        metadata = {str(row["tag"]): row.get("value") for row in self._rows("metadata", "tag", "value") if "tag" in row}
        processes = self._rows("info_process", "pid", "ppid", "init", "fini", "command")
        nodes = self._rows("info_node", "hostname", "system_name", "release", "hardware_name")
        return metadata | {"processes": processes, "nodes": nodes, "agents": self.agents}

    def _table(self, name: str) -> str:
        return f"rocpd_{name}{self.suffix}"

    def _columns(self, name: str) -> tuple[str, ...]:
        return self.db.tables.get(self._table(name), ())

    def _rows(self, name: str, *wanted: str) -> list[dict[str, Any]]:
        """Return the rows of a short table, with the wanted columns that it has."""
        columns = [column for column in wanted if column in self._columns(name)]
        query = f"SELECT {', '.join(map(quote_name, columns))} FROM {quote_name(self._table(name))}"
        return [dict(zip(columns, row, strict=True)) for row in self.db.rows(query)] if columns else []

    def _texts(self, name: str, *columns: str) -> dict[int, str]:
        """Return the name of each id of a table: from the first of the columns that is not empty."""
        rows = self._rows(name, "id", *columns)
        texts = ((row.get("id"), next((row[c] for c in columns if row.get(c) not in (None, "")), None)) for row in rows)
        return {number: str(text) for number, text in texts if number is not None and text is not None}


def _launch_query(present: Sequence[str]) -> list[str]:
    """Return what a query for kernels selects for grid and block, as strings, and for the LDS of a block."""
    chosen = []
    for name, size in _LAUNCH_SIZES.items():
        if f"{size}_x" in present:
            x, y, z = (f"k.{size}_{d}" for d in "xyz")
            chosen.append(f"ifnull('[' || {x} || ', ' || {y} || ', ' || {z} || ']', '') AS {name}")
    return chosen + ([f"k.{_SHARED_MEMORY} AS shared"] if _SHARED_MEMORY in present else [])


def _chosen(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the columns of a query that hold the numbers of events."""
    chosen = []
    for number, ways in NUMBERS.items():
        column = next((way.split(".") for way in ways if way[2:] in columns.get(way[0], ())), None)
        if column:
            chosen.append(f"{column[0]}.{quote_name(column[1])} AS {quote_name(number)}")
    return chosen
