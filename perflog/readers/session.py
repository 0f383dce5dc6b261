"""What an export of Nsight Systems says of itself: the session, its clock, its devices."""

from __future__ import annotations

from typing import Any

from perflog.readers.database import Database

_OF_ALL = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")


class Session:
    """The tables of an export that are no events."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def _said(self, table: str) -> dict[str, str]:
        if not {"name", "value"} <= set(self.db.tables.get(table, ())):
            return {}
        return dict(self.db.rows(f"SELECT name, value FROM {table}"))

    def epoch(self) -> int | None:
        """Nanoseconds since 1970 of the zero of all times; None where the export does not tell."""
        if self._said("META_DATA_EXPORT").get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
            return 0
        table = "TARGET_INFO_SESSION_START_TIME"
        if "utcEpochNs" not in self.db.tables.get(table, ()):
            return None
        rows = self.db.rows(f"SELECT utcEpochNs FROM {table} WHERE utcEpochNs IS NOT NULL")
        return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], int) else None

    def _gpus(self) -> list[dict[str, Any]]:
        table = "TARGET_INFO_GPU"
        columns = [
            c for c in ("id", "cuDevice", "name", "totalMemory", "smCount") if c in self.db.tables.get(table, ())
        ]
        rows = self.db.rows(f"SELECT {', '.join(columns)} FROM {table}") if columns else []
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def columns(self) -> dict[str, Any]:
        """Columns of the run's row."""
        names = dict.fromkeys(str(g["name"]) for g in self._gpus() if g.get("name"))
        command = self._said("META_DATA_CAPTURE").get("PROCESS_0:COMMAND")
        return {"device": ", ".join(names) or None, "program": None if command is None else str(command)}

    def config(self, name: str, sha256: str) -> dict[str, Any]:
        """What the export says of itself, of its session and its devices; what is of this file alone stands with it."""
        clock = "trace" if self.epoch() is None else "epoch"
        told = self._said("META_DATA_EXPORT")
        common = {key: told.pop(key) for key in _OF_ALL if key in told}
        return common | {"clock": clock, "devices": self._gpus(), "files": [{"name": name, "sha256": sha256} | told]}
