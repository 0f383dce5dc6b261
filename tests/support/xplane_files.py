"""Writes XSpace files of XLA's profiler: a GPU, a TPU, or any planes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from support.history_files import field as wire

MS = 10**9  # ps


class Event(NamedTuple):
    """An event of a line: what it is called, when it begins behind the start of its line, how long it takes."""

    name: str
    offset_ps: int
    duration_ps: int
    stats: Mapping[str, Any] = {}


class Reference(NamedTuple):
    """A text that a statistic refers to."""

    text: str


@dataclass
class PlaneWriter:
    """A plane that is written: its lines, and the tables of what its events share."""

    name: str
    lines: list[bytes] = field(default_factory=list)
    shared: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)
    display: Mapping[str, str] = field(default_factory=dict)
    _events: dict[str, int] = field(default_factory=dict)
    _stats: dict[str, int] = field(default_factory=dict)

    def line(self, name: str, events: Sequence[Event], start_ns: int = 0, number: int = 1) -> PlaneWriter:
        header = wire(1, number) + wire(2, name) + wire(3, start_ns)
        self.lines.append(wire(3, header + b"".join(wire(4, self.event(event)) for event in events)))
        return self

    def event(self, event: Event) -> bytes:
        number = self._events.setdefault(event.name, len(self._events) + 1)
        stats = b"".join(wire(4, self.stat(name, value)) for name, value in event.stats.items())
        return wire(1, number) + wire(2, event.offset_ps) + wire(3, event.duration_ps) + stats

    def stat(self, name: str, value: Any) -> bytes:
        number = wire(1, self._stats.setdefault(name, len(self._stats) + 1))
        if isinstance(value, Reference):
            return number + wire(7, self._stats.setdefault(value.text, len(self._stats) + 1))
        forms = {float: 2, int: 4, str: 5, bytes: 6}
        return number + wire(forms[type(value)], value)

    def written(self) -> bytes:
        for name in self.shared:
            self._events.setdefault(name, len(self._events) + 1)
        tables = b""
        for name, number in self._events.items():
            stats = b"".join(wire(5, self.stat(key, value)) for key, value in self.shared.get(name, {}).items())
            shown = wire(4, self.display[name]) if name in self.display else b""
            tables += wire(4, wire(1, number) + wire(2, wire(1, number) + wire(2, name) + shown + stats))
        own = b"".join(wire(6, self.stat(key, value)) for key, value in self.stats.items())
        for name, number in self._stats.items():
            tables += wire(5, wire(1, number) + wire(2, wire(1, number) + wire(2, name)))
        return wire(2, self.name) + b"".join(self.lines) + tables + own


def space(*planes: PlaneWriter, host: str = "node0") -> bytes:
    return b"".join(wire(1, plane.written()) for plane in planes) + wire(4, host)


def write_space(path: Path, *planes: PlaneWriter) -> Path:
    path.write_bytes(space(*planes))
    return path


def gpu_planes(steps: int = 3, each: int = 1) -> list[PlaneWriter]:
    """A host that launches two kernels and a copy in each step, and the GPU that runs them.

    `each`: number of stretches of the trace for each annotated step, for long traces.
    """
    host, launches, kernels, copies = PlaneWriter("/host:CPU", stats={"process_id": 71}), [], [], []
    number = 0
    for step in range(steps):
        begin = step * 10 * MS
        if step % each == 0:
            launches.append(Event("train", begin, (10 * each - 1) * MS, {"step_num": step // each, "_r": 1}))
        launches.append(Event("forward", begin + MS // 10, 2 * MS))
        for name, at, length in (("gemm_fusion_dot", 1, 4), ("ncclDevKernel_AllReduce_Sum_f32", 6, 2)):
            number += 1
            call = begin + at * MS // 2
            launches.append(Event("cuLaunchKernel", call, MS // 100, {"correlation_id": number, "device_id": 0}))
            details = "regs:32 static_shared:16 dynamic_shared:1024 grid:8,1,1 block:128,2,1 occ_pct:50"
            stats = {"correlation_id": number, "context_id": Reference("$$1"), "kernel_details": Reference(details)}
            stats |= {"hlo_op": Reference("dot.3"), "hlo_module": Reference("jit_step")}
            kernels.append(Event(name, begin + at * MS, length * MS, stats))
        number += 1
        launches.append(Event("cuMemcpyHtoDAsync", begin + MS // 5, MS // 100, {"correlation_id": number}))
        stats = {"correlation_id": number, "memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"}
        copies.append(Event("MemcpyH2D", begin + MS // 2, MS // 4, stats))
    host.line("python", launches, 1000, 71)
    device = PlaneWriter("/device:GPU:0", stats={"device_type_string": "NVIDIA H100", "clock_rate": 1_980_000})
    device.line("Stream #14(Kernel)", kernels, 1000, 14).line("Stream #15(MemcpyH2D)", copies, 1000, 15)
    device.line("XLA Modules", [Event("jit_step(7)", MS, 7 * MS)], 1000, 16)
    environment = PlaneWriter("Task Environment", stats={"profile_start_time": 1_795_000_000_000_000_000})
    return [host, device, environment]


def tpu_planes(steps: int = 2) -> list[PlaneWriter]:
    """A TPU, whose operations have their work in what their calls share."""
    shared: dict[str, Mapping[str, Any]] = {
        "%fusion.1 = f32[8,8] fusion()": {
            "hlo_category": Reference("convolution fusion"), "flops": 4_000_000, "model_flops": 3_000_000,
            "bytes_accessed": 2_000_000, "tf_op": "jit(step)/dot_general", "source": "train.py:12",
        },
        "%all-reduce.1 = f32[8] all-reduce()": {"hlo_category": "all-reduce", "bytes_accessed": 1_000_000},
    }  # fmt: skip
    names = list(shared)
    device = PlaneWriter("/device:TPU:0", shared=shared, display={names[0]: "fusion.1", names[1]: "all-reduce.1"})
    host = PlaneWriter("/host:CPU")
    lines: dict[str, list[Event]] = {"Steps": [], "XLA Modules": [], "XLA Ops": [], "host": []}
    for step in range(steps):
        begin = step * 10 * MS
        lines["host"].append(Event("train", begin, 8 * MS, {"step_num": step, "_r": 1}))
        lines["Steps"].append(Event(str(step), begin + MS, 8 * MS))
        lines["XLA Modules"].append(Event("jit_step(9)", begin + MS, 8 * MS))
        lines["XLA Ops"].append(Event(names[0], begin + MS, 5 * MS))
        lines["XLA Ops"].append(Event(names[1], begin + 6 * MS, 2 * MS))
    host.line("python", lines.pop("host"))
    for name, events in lines.items():
        device.line(name, events)
    return [host, device]
