"""Tables of a rocpd database: which there are, what its numbers stand for, and queries for its events."""

from __future__ import annotations

from typing import Any

from perflog.readers.database import Database, quoted
from perflog.readers.records import kind_of

EVENTS = {"region": None, "sample": None, "kernel_dispatch": "kernel", "memory_copy": "memcpy", "memory_allocate": None}
"""Tables of events and the kind of theirs; None: their category tells it. Calls and ranges come first."""

NUMBERS = {
    "start": ("k.start", "k.timestamp"),
    "end": ("k.end",),
    "pid": ("k.pid", "t.pid"),
    "tid": ("k.tid", "t.tid"),
    "agent": ("k.agent_id", "t.agent_id"),
    "to": ("k.dst_agent_id",),
    "since": ("k.src_agent_id",),
    "stream": ("k.stream_id", "t.stream_id", "k.queue_id", "t.queue_id"),
    "kernel": ("k.kernel_id",),
    "name": ("k.name_id",),
    "bytes": ("k.size",),
    "region": ("k.region_name_id",),
    "category": ("e.category_id",),
    "internal": ("e.stack_id",),
    "external": ("e.correlation_id",),
}
"""Numbers of an event, by the tables and columns that may hold them: its own (k), its track's (t), its event's (e)."""

_JOINS = {"e": ("event", "event_id"), "t": ("track", "track_id")}


def sets(db: Database) -> list[Set]:
    """The sets of tables of a database. Views without the end of a set's names show the same rows again."""
    ends = {
        name[len(f"rocpd_{table}") :] for name in db.tables for table in EVENTS if name.startswith(f"rocpd_{table}")
    }
    ends = {end for end in ends if end[:1] in ("", "_")}
    return [Set(db, end) for end in sorted(ends - {""} or ends)]


class Set:
    """The tables of one process, and its names by number."""

    def __init__(self, db: Database, end: str) -> None:
        self.db, self.end = db, end
        self.present = [name for name in EVENTS if {"start", "timestamp"} & set(self._have(name))]

    def learn(self) -> None:
        """Read what its numbers stand for."""
        self.strings = self._texts("string", "string")
        self.categories = self._texts("info_category", "name") or self.strings
        self.kernels = self._texts("info_kernel_symbol", "display_name", "kernel_name")
        self.pids, self.tids = self._texts("info_process", "pid"), self._texts("info_thread", "tid")
        self.agents = self._rows("info_agent", "id", "type", "type_index", "product_name", "model_name", "name")
        gpus = [a for a in self.agents if a.get("type") == "GPU"]
        told = [a["type_index"] for a in gpus if isinstance(a.get("type_index"), int)]
        known = len(set(told)) == len(gpus)
        self.devices: dict[int, int] = {a["id"]: told[i] if known else i for i, a in enumerate(gpus)}

    def _have(self, name: str) -> tuple[str, ...]:
        return self.db.tables.get(f"rocpd_{name}{self.end}", ())

    def _rows(self, name: str, *wanted: str) -> list[dict[str, Any]]:
        """Rows of a short table, with those of the columns that it has."""
        columns = [c for c in wanted if c in self._have(name)]
        query = f"SELECT {', '.join(map(quoted, columns))} FROM {self._table(name)}"
        return [dict(zip(columns, row, strict=True)) for row in self.db.rows(query)] if columns else []

    def _texts(self, name: str, *columns: str) -> dict[int, str]:
        """The text of each number of a table: the first column that has one."""
        rows = self._rows(name, "id", *columns)
        found = ((row.get("id"), next((row[c] for c in columns if row.get(c) not in (None, "")), None)) for row in rows)
        return {number: str(text) for number, text in found if number is not None and text is not None}

    def _table(self, name: str) -> str:
        return quoted(f"rocpd_{name}{self.end}")

    def count(self, name: str) -> int:
        """Rows of a table; 0 where there is none."""
        return int(self.db.rows(f"SELECT count(*) FROM {self._table(name)}")[0][0]) if self._have(name) else 0

    def query(self, name: str, only_ranges: bool = False) -> str:
        """A query for the numbers of all events of a table, and `text` where the row itself says its name."""
        have = {"k": self._have(name)}
        joins = []
        for alias, (table, key) in _JOINS.items():
            if key in have["k"] and "id" in self._have(table):
                have[alias] = self._have(table)
                joins.append(f"LEFT JOIN {self._table(table)} AS {alias} ON {alias}.id = k.{key}")
        chosen = []
        for number, ways in NUMBERS.items():
            column = next((way.split(".") for way in ways if way[2:] in have.get(way[0], ())), None)
            if column:
                chosen.append(f"{column[0]}.{quoted(column[1])} AS {quoted(number)}")
        if "type" in have["k"]:
            chosen.append("ifnull(k.type, '') AS text")
        elif "extdata" in have.get("e", ()):
            said = "CASE WHEN json_valid(e.extdata) THEN json_extract(e.extdata, '$.message') END"
            chosen.append(f"ifnull(CAST({said} AS TEXT), '') AS text")
        where = ""
        if only_ranges:
            ids = [str(n) for n, text in self.categories.items() if kind_of(text) == "range"]
            where = f" WHERE e.category_id IN ({', '.join(ids)})" if "e" in have else " WHERE 0"
        return f"SELECT {', '.join(chosen)} FROM {self._table(name)} AS k {' '.join(joins)}{where}"

    def said(self) -> dict[str, Any]:
        """What the process says of itself."""
        told = {row["tag"]: row["value"] for row in self._rows("metadata", "tag", "value") if "tag" in row}
        processes = self._rows("info_process", "pid", "ppid", "init", "fini", "command")
        nodes = self._rows("info_node", "hostname", "system_name", "release", "hardware_name")
        return told | {"processes": processes, "nodes": nodes, "agents": self.agents}
