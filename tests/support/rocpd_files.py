"""rocpd databases as tests make them: columns of schema 3; in schema 4 tracks hold process, thread and device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.nsys_files import Row, write_tables
from support.rocprof_files import GEMM, PID, START

END = "_0199aaaa_bbbb"
STRINGS = ("", "HIP_RUNTIME_API", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY", "hipLaunchKernel",
           "roctxThreadRangeA", "MEMORY_COPY_HOST_TO_DEVICE", "roctxProfilerPause", "MARKER_CONTROL_API",
           "MEMORY_ALLOCATION", "layer 9")  # fmt: skip
TEXT = {text: number for number, text in enumerate(STRINGS, 1)}
AGENTS = [
    {"id": 0, "type": "CPU", "type_index": 0, "name": "EPYC", "product_name": "AMD EPYC"},
    {"id": 1, "type": "GPU", "type_index": 0, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
    {"id": 2, "type": "GPU", "type_index": 1, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
]  # fmt: skip
WHO = {"nid": 1, "pid": 1, "tid": 5}


class RocpdProcess:
    """Tables of one process, row by row; each event refers to a row of `event`."""

    def __init__(self, pid: int = PID) -> None:
        self.tables: dict[str, list[Row]] = {
            "metadata": [{"id": 1, "tag": "schema_version", "value": "3"}],
            "string": [{"id": number, "string": text} for text, number in TEXT.items()],
            "info_node": [{"id": 1, "hostname": "node7"}],
            "info_process": [{"id": 1, "pid": pid, "command": "./train --fast"}],
            "info_thread": [{"id": 5, "tid": pid + 1}],
            "info_agent": AGENTS,
            "info_kernel_symbol": [{"id": 7, "kernel_name": "_Z4gemm.kd", "display_name": GEMM}],
        }

    def event(self, category: str, internal: int, external: int = 0, extdata: str = "{}") -> int:
        rows = self.tables.setdefault("event", [])
        rows.append({"id": len(rows) + 1, "category_id": TEXT[category], "stack_id": internal,
                     "correlation_id": external, "extdata": extdata})  # fmt: skip
        return len(rows)

    def add(self, table: str, start: int, end: int, event: int, **more: Any) -> None:
        times = {"start": START + start, "end": START + end, "event_id": event}
        self.tables.setdefault(table, []).append(WHO | times | more)

    def call(self, start: int, end: int, internal: int) -> None:
        event = self.event("HIP_RUNTIME_API", internal)
        self.add("region", start, end, event, name_id=TEXT["hipLaunchKernel"])

    def range(self, start: int, end: int, message: str) -> None:
        event = self.event("MARKER_CORE_RANGE_API", 900 + start, extdata=f'{{"message": "{message}"}}')
        self.add("region", start, end, event, name_id=TEXT["roctxThreadRangeA"])

    def kernel(self, start: int, end: int, internal: int, agent: int = 1, region: str = "", **more: Any) -> None:
        event = self.event("KERNEL_DISPATCH", internal, 600 if region else 0)
        self.add("kernel_dispatch", start, end, event, agent_id=agent, kernel_id=7, queue_id=3, stream_id=2,
                 region_name_id=TEXT[region], **more)  # fmt: skip

    def named(self, end: str = END) -> dict[str, list[Row]]:
        return {f"rocpd_{name}{end}": rows for name, rows in self.tables.items()}


def sample_process(pid: int = PID) -> RocpdProcess:
    """A step with a range, two kernels on two devices and one whose call is not there, a copy, a mark, a pause."""
    process = RocpdProcess(pid)
    process.range(0, 100, "ProfilerStep#5")
    process.range(10, 60, "layer 1")
    process.call(20, 25, 11)
    process.call(70, 75, 12)
    process.add("region", 200, 201, process.event("MARKER_CONTROL_API", 4), name_id=TEXT["roctxProfilerPause"])
    process.tables["track"] = [{"id": 1, "nid": 1, "pid": 1, "tid": 5, "name_id": TEXT["MARKER_CORE_RANGE_API"]}]
    mark = process.event("MARKER_CORE_RANGE_API", 3, extdata='{"message": "loss"}')
    process.tables["sample"] = [{"id": 1, "track_id": 1, "timestamp": START + 15, "event_id": mark},
                             {"id": 2, "track_id": 1, "timestamp": START + 16, "event_id": None}]  # fmt: skip
    process.kernel(40, 340, 11)
    process.kernel(340, 345, 12, agent=2)
    process.kernel(400, 401, 99, region="layer 9")
    process.add("memory_copy", 310, 320, process.event("MEMORY_COPY", 12), name_id=TEXT["MEMORY_COPY_HOST_TO_DEVICE"],
             dst_agent_id=2, src_agent_id=0, size=4096, stream_id=2)  # fmt: skip
    process.add(
        "memory_allocate",
        3,
        4,
        process.event("MEMORY_ALLOCATION", 16),
        agent_id=1,
        type="ALLOC",
        level="REAL",
        size=512,
    )
    process.tables["pmc_event"] = [{"id": 1, "event_id": 1, "value": 0.5}]
    return process


def write_database(path: Path, *processes: RocpdProcess) -> Path:
    """Write a database of one process, or several as `rocpd merge` leaves them."""
    tables: dict[str, list[Row]] = {}
    for number, process in enumerate(processes or (sample_process(),)):
        tables |= process.named(f"{END}{number}")
    return write_tables(path, tables)
