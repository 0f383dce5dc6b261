"""Tables of an export of Nsight Systems: which hold events, how these are named, and which are left out and why."""

from __future__ import annotations

from msgspec import Struct

from perflog.readers.databases.sqlite import Database


class ExportTable(Struct, frozen=True):
    """A table of an export that holds events of one kind, and how its events are named."""

    name: str
    kind: str  # "" is an unknown kind
    name_column: str = ""  # holds a number, which StringIds or `label_table` explains
    event_name: str = ""  # of all its events; `{}` is a label of `label_table`, or the number itself
    label_table: str = ""  # with columns id and label


_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
# Calls and ranges come first: work on a device is in the range of the call that started it.
EXPORT_TABLES = (
    ExportTable("NVTX_EVENTS", "range", "textId"),
    ExportTable(f"{_ACTIVITY}RUNTIME", "runtime", "nameId"),
    ExportTable(f"{_ACTIVITY}DRIVER", "runtime", "nameId"),
    ExportTable(f"{_ACTIVITY}KERNEL", "kernel", "demangledName"),
    ExportTable(f"{_ACTIVITY}GRAPH_TRACE", "graph", "graphId", "CUDA graph {}"),
    ExportTable(f"{_ACTIVITY}MEMCPY", "memcpy", "copyKind", "Memcpy {}", "ENUM_CUDA_MEMCPY_OPER"),
    ExportTable(f"{_ACTIVITY}MEMSET", "memset", "", "Memset"),
    ExportTable(f"{_ACTIVITY}MEM_DECOMPRESS", "memcpy", "", "Memory decompression"),
    ExportTable(f"{_ACTIVITY}SYNCHRONIZATION", "sync", "syncType", "{}", "ENUM_CUPTI_SYNC_TYPE"),
    ExportTable(f"{_ACTIVITY}GRAPH_HOST_NODE_AND_HOST_LAUNCH", "sync", "", "Host function"),
    ExportTable(f"{_ACTIVITY}CUDA_EVENT", "", "", "CUDA event"),
    ExportTable(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "memory",
        "memoryOperationType",
        "GPU memory: {}",
        "ENUM_CUDA_DEV_MEM_EVENT_OPER",
    ),
    ExportTable("CUDNN_EVENTS", "library", "nameId"),
    ExportTable("CUBLAS_EVENTS", "library", "nameId"),
    ExportTable("CUDA_GRAPH_EVENTS", "library", "nameId"),
    ExportTable("CUDA_GRAPH_NODE_EVENTS", "library", "nameId"),
    ExportTable("CUDA_HOST_CALLBACK", "library", "nameId"),
    ExportTable("MPI_P2P_EVENTS", "library", "textId"),
    ExportTable("MPI_COLLECTIVES_EVENTS", "library", "textId"),
    ExportTable("MPI_START_WAIT_EVENTS", "library", "textId"),
    ExportTable("MPI_OTHER_EVENTS", "library", "textId"),
    ExportTable("OSRT_API", "os", "nameId"),
    ExportTable("PROFILER_OVERHEAD", "overhead", "nameId"),
    ExportTable(f"{_ACTIVITY}OVERHEAD", "overhead", "overheadType", "{}", "ENUM_CUPTI_OVERHEAD_TYPE"),
    ExportTable(f"{_ACTIVITY}JIT", "overhead", "overheadType", "{}", "ENUM_CUPTI_OVERHEAD_TYPE"),
)

NUMBERS = {
    "start": ("start", "timestamp"),
    "end": ("end",),
    "device": ("deviceId",),
    "context": ("contextId",),
    "stream": ("streamId",),
    "correlation": ("correlationId",),
    "bytes": ("bytes", "size", "sourceBytes"),
    "owner": ("globalTid", "globalPid"),
    "domain": ("domainId",),
    "address": ("address",),
}
"""Numbers of an event, and the columns that may hold them."""

LAUNCH_SIZES = {"grid": ("gridX", "gridY", "gridZ"), "block": ("blockX", "blockY", "blockZ")}
"""Sizes of a kernel in three directions, and the columns that hold them."""

MEMORY_KIND, POOL_NAME = "memKind", "localMemoryPoolAddress"
POOL_TOTALS = {"memory pool allocated": "localMemoryPoolUtilizedSize", "memory pool reserved": "localMemoryPoolSize"}
"""Other columns of memory: where it is, its pool, and totals of this pool by the names of their counters."""

EVENT_NUMBERS = ("eventId", "eventSyncId")
"""Columns that join synchronisations with the records of CUDA events that they wait for."""

COPY_ENDS = ("srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
"""Columns of copies that state the memory at both ends."""

REGISTERS = "registersPerThread"
SHARED_MEMORY = ("staticSharedMemory", "dynamicSharedMemory")
"""Other columns of kernels."""

OTHER_COLUMNS = frozenset(
    (
        *(column for columns in LAUNCH_SIZES.values() for column in columns), REGISTERS, *SHARED_MEMORY,
        MEMORY_KIND, POOL_NAME, *POOL_TOTALS.values(), *COPY_ENDS,
        "text", "jsonText", "jsonTextId", "binaryData", "uint64Value", "int64Value", "uint32Value", "int32Value",
        "doubleValue", "floatValue",
    )
)  # fmt: skip
"""Columns of launches, strings and payloads that a table takes; `NUMBERS` has the others."""

_JOINS = "joins rows of the export"
_OTHER_NAME = "another form of the name"
_LAUNCH = "detail of the launch, beyond grid, block, registers and shared memory"
_ENDS = "memory at the ends of a copy; `name` has its direction"
_POOL = "setting of a memory pool, or the pool of another process"
_LOOKS = "how a viewer draws ranges"
_CALL = "result or position of a call"

DROPPED_COLUMNS = {
    **dict.fromkeys(
        ("eventClass", "callchainId", "argumentsId", "gridId", "graphNodeId", "graphId", "graphExecId", "eventId",
         "eventSyncId", "rangeId", "greenContextId", "originalGraphNodeId", "id"),
        _JOINS,
    ),
    **dict.fromkeys(("shortName", "mangledName", "demangledName", "nameId", "textId"), _OTHER_NAME),
    "deprecatedSyncType": _OTHER_NAME,
    **dict.fromkeys(
        ("launchType", "cacheConfig", "localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted",
         "sharedMemoryLimitConfig", "qmdBulkReleaseDone", "qmdPreexitDone", "qmdLastCtaDone", "clusterX", "clusterY",
         "clusterZ", "clusterSchedulingPolicy", "maxPotentialClusterSize", "maxActiveClusters",
         "tensorSizeMinusOneElements"),
        _LAUNCH,
    ),
    **dict.fromkeys(
        ("deprecatedSrcId", "srcContextId", "dstContextId", "migrationCause", "virtualAddress", "copyCount"),
        _ENDS,
    ),
    **dict.fromkeys(
        ("localMemoryPoolReleaseThreshold", "importedMemoryPoolAddress", "importedMemoryPoolProcessId"), _POOL
    ),
    **dict.fromkeys(("color", "category", "endGlobalTid"), _LOOKS),
    "domainId": "domain without a name",
    "value": "value that a memset writes",
    **dict.fromkeys(("returnValue", "nestingLevel", "overheadType", "pc"), _CALL),
}  # fmt: skip
"""Columns of tables of events that no table takes, each with the reason."""

COUNTER_TABLES = ("GPU_METRICS", "SOC_METRICS", "NET_NIC_METRIC")
"""Tables of readings of counters."""

UNREAD_SAMPLES = "COMPOSITE_EVENTS"
"""The table of samples of call stacks: measurements, which no table takes yet."""

LEFT_OUT = {
    "SCHED_EVENTS": "times at which threads went on and off a CPU",
    UNREAD_SAMPLES: "samples of call stacks",
    "GPU_CONTEXT_SWITCH_EVENTS": "times at which contexts went on and off a GPU",
    "DIAGNOSTIC_EVENT": "messages of the profiler",
    "OSRT_FILE_ACCESS_EVENTS": "each use of a file; table OSRT_API has the calls",
}
"""Tables with times that no table of perflog takes, each with what it holds."""

_TIME_COLUMNS = {"start", "timestamp", "rawTimestamp", "startedAt"}
_NAME_COLUMNS = ("nameId", "textId")


def event_tables(db: Database) -> list[ExportTable]:
    """Return the tables of an export that hold events: the known ones in order, then all others with start and end."""
    known = [table for table in EXPORT_TABLES if {"start", "end", "timestamp"} & set(db.tables.get(table.name, ()))]
    names = {table.name for table in EXPORT_TABLES} | {*COUNTER_TABLES, *LEFT_OUT}
    others = []
    for name, columns in db.tables.items():
        if name not in names and {"start", "end"} <= set(columns):
            others.append(ExportTable(name, "", next((c for c in _NAME_COLUMNS if c in columns), "")))
    return known + others


def other_tables(db: Database) -> list[tuple[str, int, str | None]]:
    """Return the tables with times that are not read: name, number of rows, and what they hold (None: unknown)."""
    names = {table.name for table in event_tables(db)} | set(COUNTER_TABLES)
    tables = []
    for name, columns in db.tables.items():
        if name not in names and _TIME_COLUMNS & set(columns) and (count := db.count(name)):
            tables.append((name, count, LEFT_OUT.get(name)))
    return tables
