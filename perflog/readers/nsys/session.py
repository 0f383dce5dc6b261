"""The session of an export of Nsight Systems: its clock, its devices, the ranks of its processes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from perflog.readers.databases.sqlite import Database

ID_BITS = 24
"""Bits of a process and of a thread in globalPid and globalTid."""

_EXPORT_KEYS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_GPU_BYTE = 0xFF  # of a typeId of GPU metrics: the GPU's number for the counters


def process_of(owner: int) -> int:
    """Return the process of a globalPid or globalTid."""
    return owner >> ID_BITS & (1 << ID_BITS) - 1


class Session:
    """Metadata of an export: its session, its clock and its devices."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def epoch(self) -> int | None:
        """Return the zero of the export's clock in nanoseconds since 1970; None where the export does not state it."""
        if self._values("META_DATA_EXPORT").get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
            return 0
        table = "TARGET_INFO_SESSION_START_TIME"
        if "utcEpochNs" not in self.db.tables.get(table, ()):
            return None
        rows = self.db.rows(f"SELECT utcEpochNs FROM {table} WHERE utcEpochNs IS NOT NULL")
        return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], int) else None

    def run_columns(self) -> dict[str, Any]:
        """Return columns of the run's row."""
        names = dict.fromkeys(str(gpu["name"]) for gpu in self.gpus if gpu.get("name"))
        command = self._values("META_DATA_CAPTURE").get("PROCESS_0:COMMAND")
        return {"device": ", ".join(names) or None, "program": None if command is None else str(command)}

    def config(self, name: str, sha256: str) -> dict[str, Any]:
        """Return the run's config. Values that differ between exports of the same program go to `files`."""
        clock = "trace" if self.epoch() is None else "epoch"
        export = self._values("META_DATA_EXPORT")
        common = {key: export.pop(key) for key in _EXPORT_KEYS if key in export}
        return common | {"clock": clock, "devices": self.gpus, "files": [{"name": name, "sha256": sha256} | export]}

    @cached_property
    def gpus(self) -> list[dict[str, Any]]:
        """Descriptions of the GPUs of the machine."""
        return self._rows("TARGET_INFO_GPU", "id", "cuDevice", "name", "totalMemory", "smCount", "pwGpuId")

    @cached_property
    def gpu_of_device(self) -> dict[tuple[int, int], int]:
        """GPU by process and device: CUDA numbers the devices that a process sees, from 0 in each process."""
        rows = self._rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
        return {(row["pid"], row["cudaId"]): row["gpuId"] for row in rows if len(row) == 3 and row["gpuId"] is not None}

    @property
    def cuda_processes(self) -> int:
        """Number of processes that see a GPU; 0 where the export does not state it."""
        return len({process for process, _ in self.gpu_of_device})

    @cached_property
    def gpu_names(self) -> dict[int, str]:
        """Name of each GPU by its number."""
        return {gpu["id"]: str(gpu["name"]) for gpu in self.gpus if "id" in gpu and gpu.get("name")}

    def gpu_of_metrics(self, type_id: int) -> int | None:
        """Return the GPU of a typeId of GPU metrics; None where the export does not state it uniquely."""
        gpus = [gpu.get("id") for gpu in self.gpus if gpu.get("pwGpuId") == type_id & _GPU_BYTE]
        return gpus[0] if len(gpus) == 1 else None

    def mpi_ranks(self) -> dict[int, int]:
        """Return the MPI rank of each process; without processes that have several."""
        ranks: dict[int, set[int]] = {}
        for row in self._rows("MPI_RANKS", "globalTid", "rank"):
            if len(row) == 2:
                ranks.setdefault(process_of(row["globalTid"]), set()).add(row["rank"])
        return {process: process_ranks.pop() for process, process_ranks in ranks.items() if len(process_ranks) == 1}

    def _values(self, table: str) -> dict[str, Any]:
        """Return the values of a table by their names; a name of another type than string is none."""
        if not {"name", "value"} <= set(self.db.tables.get(table, ())):
            return {}
        return dict(self.db.rows(f"SELECT name, value FROM {table} WHERE typeof(name) = 'text'"))

    def _rows(self, table: str, *wanted: str) -> list[dict[str, Any]]:
        columns = [column for column in wanted if column in self.db.tables.get(table, ())]
        rows = self.db.rows(f"SELECT {', '.join(columns)} FROM {table}") if columns else []
        return [dict(zip(columns, row, strict=True)) for row in rows]
