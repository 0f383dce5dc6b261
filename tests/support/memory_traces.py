"""Traces with events of memory as PyTorch's profiler writes them, and their replay with a dictionary of addresses."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]
MIB = 1 << 20


class Allocator:
    """A program that allocates memory of a device, and its trace. Times are in us."""

    def __init__(self, device: int = 0, before: int = 0, prints_totals: bool = True, on_host: bool = False) -> None:
        self.device, self.on_host, self.prints_totals = device, on_host, prints_totals
        self.now, self.total, self.reserved, self.number = 1000.0, before, before, 0
        self.events: list[Event] = []
        self._address, self._correlation = 1 << 40, 0

    def memory(self, size: int, address: int) -> None:
        """An event of memory: a size below 0 frees."""
        self.now += 0.5
        self.total += size
        self.reserved = max(self.reserved, -(-self.total // (2 * MIB)) * 2 * MIB)
        args = {"Bytes": size, "Addr": address, "Device Id": -1 if self.on_host else self.device}
        args["Device Type"] = 0 if self.on_host else 1
        if self.prints_totals:
            args |= {"Total Allocated": self.total, "Total Reserved": 0 if self.on_host else self.reserved}
        self.events.append(
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 1, "ts": self.now,
             "args": args}
        )  # fmt: skip

    def allocate(self, size: int) -> tuple[int, int]:
        """Allocate a block: its size and its address."""
        self._address += 1 << 20
        self.memory(size, self._address)
        return size, self._address

    def free(self, block: tuple[int, int]) -> None:
        self.memory(-block[0], block[1])

    def around(self, category: str, name: str, start: float, **args: Any) -> None:
        """A call from `start` until now."""
        self.now += 0.5
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 1, "ts": start, "dur": self.now - start,
             "args": args}
        )  # fmt: skip

    def begin(self) -> float:
        self.now += 0.5
        return self.now

    def operator(self, name: str, size: int, kernel: str = "", length: float = 5) -> tuple[int, int]:
        """An operator that allocates its output with `aten::empty`, and launches a kernel."""
        outer, inner = self.begin(), self.begin()
        block = self.allocate(size)
        self.around("cpu_op", "aten::empty", inner)
        if kernel:
            self._correlation += 1
            launch = self.begin()
            self.around("cuda_runtime", "cudaLaunchKernel", launch, correlation=self._correlation)
            self.events.append(
                {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": self.now + 20, "dur": length,
                 "args": {"device": self.device, "stream": 7, "correlation": self._correlation}}
            )  # fmt: skip
        self.around("cpu_op", name, outer)
        return block


def training(leak: int = 0, steps: int = 5, before: int = 100 * MIB, layers: int = 3) -> Allocator:
    """Steps that allocate outputs in a forward, and free them in a backward; each keeps a block of `leak` bytes."""
    program = Allocator(before=before)
    for step in range(steps):
        begin, outputs = program.begin(), []
        forward = program.begin()
        for layer in range(layers):
            module = program.begin()
            outputs.append(program.operator("aten::addmm", (layer + 1) * MIB, "gemm"))
            program.around("python_function", f"nn.Module: Linear_{layer}", module)
        program.around("user_annotation", "forward", forward)
        backward = program.begin()
        for output in reversed(outputs):
            gradient = program.operator("aten::mm", 2 * MIB, "gemm")
            program.free(output)
            program.free(gradient)
        program.around("user_annotation", "backward", backward)
        if leak:
            program.operator("aten::clone", leak)
        program.around("user_annotation", f"ProfilerStep#{step + 3}", begin)
    return program


def random_program(seed: int, events: int, prints_totals: bool = True) -> Allocator:
    """Random blocks in random operators; some are freed that no event allocated, some events are lost."""
    chance = random.Random(seed)
    program = Allocator(before=chance.randrange(0, 50) * MIB, prints_totals=prints_totals)
    live: list[tuple[int, int]] = []
    for number in range(events):
        does = chance.random()
        if live and does < 0.4:
            program.free(live.pop(chance.randrange(len(live))))
        elif live and does < 0.45:
            program.free(live.pop())
            del program.events[-1]  # the trace lost it: the address is allocated anew later, or never
        elif does < 0.5:
            program.memory(-chance.randrange(1, 9) * 512, 77 + number)
        elif live and does < 0.55:
            size = chance.randrange(1, 99) * 512
            address = live[-1][1]
            program.memory(size, address)  # without its free
            live[-1] = size, address
        else:
            live.append(program.operator(chance.choice(["aten::mm", "aten::add"]), chance.randrange(1, 2000) * 512))
    return program


def write(path: Path, *programs: Allocator) -> Path:
    events = [event for program in programs for event in program.events]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@dataclass
class Replay:
    """What a trace says of the memory of a device, event by event.

    `allocated`: printed totals, else bytes of live blocks. `live`: bytes of live blocks. `holders`: at the first peak,
    the bytes by the names of the operators around the allocation, outermost first.
    """

    allocated: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    freed_unknown: int = 0
    peak: int = -1
    holders: dict[tuple[str, ...], int] = field(default_factory=dict)


def replay(events: Sequence[Mapping[str, Any]]) -> Replay:
    """Replay the events of memory of one device with a dictionary of live addresses."""
    memory = sorted((e for e in events if e["name"] == "[memory]"), key=lambda e: e["ts"])
    calls = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
    found, living = Replay(), dict[int, tuple[int, tuple[str, ...]]]()
    for event in memory:
        size, address = event["args"]["Bytes"], event["args"]["Addr"]
        if size > 0:
            around = [c for c in calls if c["ts"] <= event["ts"] < c["ts"] + c["dur"] and c["tid"] == event["tid"]]
            living[address] = size, tuple(c["name"] for c in sorted(around, key=lambda c: -c["dur"]))
        elif address in living:
            del living[address]
        else:
            found.freed_unknown -= size
        found.live.append(sum(size for size, _ in living.values()))
        found.allocated.append(event["args"].get("Total Allocated", found.live[-1]))
        if found.allocated[-1] > max(found.allocated[:-1], default=-1):
            found.peak, found.holders = len(found.live) - 1, {}
            for size, names in living.values():
                found.holders[names] = found.holders.get(names, 0) + size
    return found
