"""Files of rocprofv3 as tests make them: the documented shape, tens of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]

PID, START = 4100, 8_000_000_000_000_001  # more digits than a double holds
GEMM = "void gemm<float, 4>(float const*, float*) [clone .kd]"
OPERATIONS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HSA_CORE_API", "operations": ["hsa_init", "hsa_queue_create"]},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel", "hipMemcpyAsync"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA", "roctxProcessRangeA"]},
    {"kind": "MARKER_CONTROL_API", "operations": ["roctxProfilerPause", "roctxProfilerResume"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_COMPLETE"]},
    {"kind": "RCCL_API", "operations": ["ncclAllReduce"]},
    {"kind": "MEMORY_ALLOCATION", "operations": ["MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE"]},
]
KIND = {entry["kind"]: number for number, entry in enumerate(OPERATIONS)}
AGENTS = [
    {"id": {"handle": 90}, "type": 1, "node_id": 0, "logical_node_type_id": 0, "name": "AMD EPYC"},
    {"id": {"handle": 92}, "type": 2, "node_id": 2, "logical_node_type_id": 1, "name": "gfx942",
     "product_name": "AMD Instinct MI300X"},
    {"id": {"handle": 91}, "type": 2, "node_id": 1, "logical_node_type_id": 0, "name": "gfx942",
     "product_name": "AMD Instinct MI300X"},
]  # fmt: skip
SYMBOLS = [
    {"kernel_id": 0},
    {"kernel_id": 7, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": GEMM, "truncated_kernel_name": "gemm"},
    {"kernel_id": 9, "kernel_name": "ncclDevKernel_Generic.kd", "demangled_kernel_name": "ncclDevKernel_Generic"},
]


def record(kind: str, operation: int, start: int, end: int, correlation: int, **more: Any) -> Row:
    """A record of an API, with what all records have."""
    return {"size": 64, "kind": KIND[kind], "operation": operation, "thread_id": 4101,
            "correlation_id": {"internal": correlation, "external": 0},
            "start_timestamp": START + start, "end_timestamp": START + end} | more  # fmt: skip


def kernel(start: int, end: int, correlation: int, kernel_id: int = 7, agent: int = 91, **more: Any) -> Row:
    info = {"size": 80, "agent_id": {"handle": agent}, "queue_id": {"handle": 3}, "kernel_id": kernel_id,
            "dispatch_id": correlation, "workgroup_size": {"x": 256, "y": 1, "z": 1}}  # fmt: skip
    return record("KERNEL_DISPATCH", 1, start, end, correlation, dispatch_info=info, stream_id={"handle": 2}) | more


def copy(start: int, end: int, correlation: int, to: int, since: int, size: int) -> Row:
    return record("MEMORY_COPY", 1, start, end, correlation, dst_agent_id={"handle": to},
                  src_agent_id={"handle": since}, bytes=size)  # fmt: skip


def sample_process(**more: Any) -> Row:
    """A process of one step with two ranges, that launches kernels on two devices."""
    markers = [
        record("MARKER_CORE_RANGE_API", 1, 0, 100, 1), record("MARKER_CORE_RANGE_API", 1, 10, 60, 2),
        record("MARKER_CORE_RANGE_API", 0, 15, 15, 3), record("MARKER_CONTROL_API", 0, 200, 201, 4),
    ]  # fmt: skip
    output = {
        "metadata": {"pid": PID, "init_time": START, "fini_time": START + 999, "command": ["./train", "--fast"]},
        "agents": AGENTS,
        "counters": [],
        "strings": {
            "callback_records": [],
            "buffer_records": OPERATIONS,
            "marker_api": [{"key": 1, "value": "ProfilerStep#5"}, {"key": 2, "value": "layer 1"},
                           {"key": 3, "value": "loss"}],
            "correlation_id": {"external": []},
        },
        "code_objects": [{"code_object_id": 1}],
        "kernel_symbols": SYMBOLS,
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": [kernel(40, 340, 11), kernel(340, 345, 12, 9, 92), kernel(400, 401, 99, 5)],
            "hip_api": [record("HIP_RUNTIME_API", 1, 20, 25, 11), record("HIP_RUNTIME_API", 1, 70, 75, 12),
                        record("HIP_RUNTIME_API", 2, 300, 301, 13)],
            "hsa_api": [record("HSA_CORE_API", 0, 1, 2, 14)],
            "marker_api": markers,
            "rccl_api": [record("RCCL_API", 0, 69, 76, 15)],
            "memory_copy": [copy(310, 320, 13, 92, 90, 4096), copy(330, 331, 13, 90, 91, 16)],
            "memory_allocation": [record("MEMORY_ALLOCATION", 1, 3, 4, 16, allocation_size=512)],
            "scratch_memory": [],
            "pc_sample_host_trap": [{"inst_index": 0, "record": {"timestamp": START}}] * 3,
        },
    }  # fmt: skip
    return output | more


def write_output(path: Path, *processes: Row) -> Path:
    """Write a file of these processes as rocprofv3 does."""
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes or (sample_process(),))}, indent=0))
    return path
