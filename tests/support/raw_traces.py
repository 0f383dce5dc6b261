"""Traces, read with nothing but json, sqlite3 and regular expressions, and the definitions of their metrics.

Source: METRICS C4. Times are whole nanoseconds.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median

from support.raw_logs import seconds

STATES = ("compute", "communication", "copies")
"""States of a device. A moment with several counts for the first of them."""

NS = 1e-9

MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device"}
COPY_KINDS = {1: "Memcpy Host-to-Device", 2: "Memcpy Device-to-Host"}
"""Copies of CUPTI's enumeration that real databases here have."""

WAIT = re.compile(r"Synchronize|^(cuda|hip)Memcpy(?!.*Async)")
"""Names of calls that hold the host until the device has done something."""

AUTOGRAD = "autograd::engine::evaluate_function: "
"""Begin of the names of functions that autograd runs."""


@dataclass(frozen=True)
class Work:
    """A kernel, copy or memset on the device. `launch`: start of the call that launched it; None if it is not known.

    `copied`: bytes of a copy; `call`, `thread`: length and thread of that call.
    """

    start: int
    end: int
    state: str
    name: str
    launch: int | None = None
    copied: int | None = None
    call: int | None = None
    thread: object = None


@dataclass(frozen=True)
class RawTrace:
    """Work of one device. `steps`: annotated steps by number; `loading`: intervals in which the host loads data.

    `waits`: thread and return of the calls that hold the host until the device has done something.
    """

    work: Sequence[Work]
    steps: dict[int, tuple[int, int]]
    loading: Sequence[tuple[int, int]] = ()
    waits: Sequence[tuple[object, int]] = ()

    @property
    def span(self) -> int:
        """Time from the first start to the last end."""
        return max(work.end for work in self.work) - min(work.start for work in self.work)

    def time_by_state(self) -> dict[str, int]:
        """Exposed time of each state, and idle time: they add up to the span."""
        times = Counter(dict.fromkeys((*STATES, "idle"), 0))
        for active, length in self._moments():
            times[next((state for state in STATES if active[state]), "idle")] += length
        return dict(times)

    def hidden(self) -> float:
        """Overlap ratio: time in which the device communicates and computes / time in which it communicates."""
        communicating = [(active, length) for active, length in self._moments() if active["communication"]]
        return sum(n for active, n in communicating if active["compute"]) / sum(n for _, n in communicating)

    def _moments(self) -> Sequence[tuple[Counter[str], int]]:
        """Pieces of the span in which nothing starts or ends: number of works in each state, length."""
        changes: dict[int, Counter[str]] = {}
        for work in self.work:
            changes.setdefault(work.start, Counter())[work.state] += 1
            changes.setdefault(work.end, Counter())[work.state] -= 1
        active: Counter[str] = Counter()
        moments = []
        for now, then in pairwise(sorted(changes)):
            active.update(changes[now])
            moments.append((active.copy(), then - now))
        return moments

    def wholes(self) -> list[tuple[int, int]]:
        """The annotated steps, else the whole trace."""
        inside = any(work.start < b and work.end > a for work in self.work for a, b in self.steps.values())
        return [*self.steps.values()] if inside else [(min(w.start for w in self.work), max(w.end for w in self.work))]

    def times_in_wholes(self) -> dict[str, int]:
        """Time of each state in the annotated steps, else in the whole trace."""
        times: Counter[str] = Counter(dict.fromkeys(STATES, 0) | {"idle": 0})
        for low, high in self.wholes():
            inside = [work for work in self.work if work.start < high and work.end > low]
            clipped = [replace(work, start=max(work.start, low), end=min(work.end, high)) for work in inside]
            of_window = RawTrace(clipped, {}).time_by_state() if clipped else {}
            busy = {state: time for state, time in of_window.items() if state != "idle"}
            times.update(busy | {"idle": high - low - sum(busy.values())})
        return dict(times)

    def idle_parts(self) -> tuple[dict[str, list[tuple[int, int]]], float | None]:
        """Idle time by cause, as parts that do not overlap; the median time of launches that found the device idle.

        From the first work, or step, to the end of the last: behind the last work nothing more is launched.
        """
        gaps, late = [], []
        work = sorted(self.work, key=lambda each: each.start)
        reach, first, last = work[0].end, work[0].start, max(each.end for each in work)
        since = min([first, *(start for start, _ in self.steps.values())])
        until = max([last, *(end for _, end in self.steps.values())])
        if since < first:
            gaps.append((since, first, work[0]))
        for each in work[1:]:
            if each.start > reach:
                gaps.append((reach, each.start, each))
                if each.launch is not None and each.launch >= reach:
                    late.append(each.start - each.launch)
            reach = max(reach, each.end)
        usual = round(3 * median(late)) if late else 0
        parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        behind = "host" if any(each.launch is not None for *_, each in gaps) else "unknown"
        parts[behind].append((last, until))
        for begin, end, each in gaps:
            if each.launch is None:
                parts["unknown"].append((begin, end))
                continue
            at = min(max(each.launch, begin), end)
            waited = any(thread == each.thread and begin <= back <= each.launch for thread, back in self.waits)
            waited = waited and begin > since
            edges = {begin, at, *(min(max(edge, begin), at) for loading in self.loading for edge in loading)}
            for low, high in pairwise(sorted(edges)):
                loads = any(start <= low and high <= stop for start, stop in self.loading)
                parts["data" if loads else "sync" if waited else "host"].append((low, high))
            started = min(max(each.launch + usual, at), end)
            parts["launch"].append((at, started))
            returned = min(max(each.launch + (each.call or 0), started), end)
            edges = {started, returned, *(min(max(e, started), returned) for loading in self.loading for e in loading)}
            for low, high in pairwise(sorted(edges)):
                loads = any(start <= low and high <= stop for start, stop in self.loading)
                parts["data" if loads else "host"].append((low, high))
            parts["waiting"].append((returned, end))
        return parts, median(late) if late else None

    def _inside_wholes(self, cause: str) -> int:
        parts = self.idle_parts()[0].get(cause, ())
        return sum(max(min(end, b) - max(start, a), 0) for start, end in parts for a, b in self.wholes())

    def idle_by_cause(self) -> dict[str, int]:
        """Idle time in the annotated steps, else in the whole trace, as the bars of the waterfall divide it."""
        bars = {
            "data": ("data",), "host-bound idle": ("sync", "host"), "idle with work queued": ("launch", "waiting"),
            "idle": ("unknown",),
        }  # fmt: skip
        return {bar: sum(map(self._inside_wholes, causes)) for bar, causes in bars.items()}

    def late_launches(self) -> int:
        """Idle time because of the host, and of launches."""
        return self._inside_wholes("host") + self._inside_wholes("launch")

    def largest(self, state: str) -> tuple[int, int, float | None]:
        """Calls and time of the name that takes most of a state; of copies of known sizes the bytes per ns too."""
        by_name: dict[str, list[Work]] = {}
        for work in self.work:
            if work.state == state:
                by_name.setdefault(work.name, []).append(work)
        most = max(by_name.values(), key=lambda works: sum(work.end - work.start for work in works))
        time = sum(work.end - work.start for work in most)
        copied = [work.copied for work in most if work.copied]
        return len(most), time, sum(copied) / time if len(copied) == len(most) else None


@dataclass(frozen=True)
class Peak:
    """The moment at which most memory of a device is allocated: in ns since the first step or event of memory.

    `reserved` is the largest number of bytes that the allocator holds at any time; `step` the step of the peak.
    `in_trace`: bytes of the blocks that live then and were allocated in the trace.
    """

    device: int
    allocated: int
    at: int
    step: int | None
    reserved: int
    in_trace: int


def memory_peak(path: Path, trace: RawTrace) -> Peak | None:
    """The peak that the allocator of a device prints in the events of memory of a trace; None if it prints none."""
    events = [e for e in chrome_json(path)["traceEvents"] if e.get("name") == "[memory]"]  # type: ignore[attr-defined]
    events = [(round(Decimal(str(e["ts"])) * 1000), e["args"]) for e in events if e["args"].get("Device Type")]
    if not events:
        return None
    begin = min(events[0][0], *(start for start, _ in trace.steps.values()))
    at, most = max(events, key=lambda event: event[1]["Total Allocated"])
    live: dict[int, int] = {}
    for time, args in events:
        if time <= at:
            live.pop(args["Addr"], None)
            live |= {args["Addr"]: args["Bytes"]} if args["Bytes"] > 0 else {}
    step = next((number for number, (start, end) in trace.steps.items() if start <= at < end), None)
    reserved = max(args["Total Reserved"] for _, args in events)
    return Peak(most["Device Id"], most["Total Allocated"], at - begin, step, reserved, sum(live.values()))


# --- the three kinds of files -------------------------------------------------------------------------------------


def chrome_json(path: Path, exact: bool = False) -> dict[str, object]:
    """The object of a Chrome trace. `exact`: with all digits of its numbers."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    whole: dict[str, object] = json.loads(data, parse_float=Decimal if exact else None)
    return whole


def chrome_trace(path: Path) -> RawTrace:
    """A trace of torch.profiler: times in us; category, and the name of collectives of NCCL, tell the state."""
    events = [event for event in chrome_json(path, exact=True)["traceEvents"] if event.get("ph") == "X"]  # type: ignore[attr-defined]
    states = {"kernel": "compute", "memcpy": "copies", "memset": "copies"}
    calls: dict[object, list[int]] = {}
    by_number: dict[object, dict[str, object]] = {}
    work, steps, loading, waits = [], {}, [], []
    for event in events:
        if category(event) in ("runtime", "driver"):
            calls.setdefault(_number(event), []).append(span_of(event)[0])
            by_number[_number(event)] = event
            if WAIT.search(event["name"]):
                waits.append(((event["pid"], event["tid"]), span_of(event)[1]))
    for event in events:
        start, end = span_of(event)
        if state := states.get(category(event)):
            state = "communication" if "nccl" in event["name"].lower() else state
            launches = calls.get(_number(event), [])
            launch = launches[0] if len(launches) == 1 else None
            copied = event["args"].get("bytes") if category(event) == "memcpy" else None
            of = by_number[_number(event)] if launch is not None else event
            length, thread = span_of(of)[1] - span_of(of)[0], (of["pid"], of["tid"])
            work.append(Work(start, end, state, event["name"], launch, copied, length, thread))
        elif match := re.fullmatch(r"ProfilerStep#(\d+)", event["name"]):
            if event["cat"] != "gpu_user_annotation":
                steps[int(match[1])] = (start, end)
        elif re.search(r"data_?load", event["name"], re.IGNORECASE):
            loading.append((start, end))
    return RawTrace(work, steps, loading, waits)


def time_by_range(path: Path) -> Counter[str]:
    """Exclusive GPU time in ns by path of ranges: for each piece of work, a search through all ranges of its thread."""
    events = [event for event in chrome_json(path)["traceEvents"] if event.get("ph") == "X"]  # type: ignore[attr-defined]
    launches: dict[object, list[dict[str, object]]] = {}
    threads: dict[object, list[tuple[int, int, str]]] = {}
    for event in events:
        if category(event) in ("runtime", "driver") and _number(event) is not None:
            launches.setdefault(_number(event), []).append(event)
        if name := _range_name(event):
            threads.setdefault((event["pid"], event["tid"]), []).append((*span_of(event), name))
    times: Counter[str] = Counter()
    for event in events:
        if category(event) not in ("kernel", "memcpy", "memset"):
            continue
        calls, where = launches.get(_number(event), []), "(launch not known)"
        if len(calls) == 1:
            at = span_of(calls[0])[0]
            around = [each for each in threads.get((calls[0]["pid"], calls[0]["tid"]), ()) if each[0] <= at < each[1]]
            where = " > ".join(name for _, _, name in sorted(around, key=lambda each: (each[0], -each[1])))
        start, end = span_of(event)
        times[where or "(outside of ranges)"] += end - start
    return times


def _range_name(event: dict[str, object]) -> str | None:
    name = str(event["name"])
    if category(event) == "user_annotation" or name.startswith("ProfilerStep#"):
        return re.sub(r"(?i)(step|iter|iteration)([ _#:=-]*)\d+$", r"\1\2N", name)
    if category(event) == "python_function" and name.startswith("nn.Module: "):
        return name[11:]
    return "backward (autograd)" if category(event) == "cpu_op" and name.startswith(AUTOGRAD) else None


def category(event: dict[str, object]) -> str:
    """Category of an event; the versions before 2022 write `Memcpy` for `gpu_memcpy`."""
    return re.sub("^(gpu|cuda)_", "", str(event.get("cat")).lower())


def span_of(event: dict[str, object]) -> tuple[int, int]:
    """Start and end of an event in ns."""
    start, length = (round(Decimal(str(event[key])) * 1000) for key in ("ts", "dur"))
    return start, start + length


def _number(event: dict[str, object]) -> object:
    args = event.get("args", {})
    number = args.get("correlation") if isinstance(args, dict) else None
    return int(number) if isinstance(number, str) and number.isdigit() else number


def nsys_database(path: Path) -> RawTrace:
    """A database of Nsight Systems: kernels of vector addition compute, CUPTI's tables tell the rest."""
    with closing(sqlite3.connect(path)) as database:
        text = dict(database.execute("select id, value from StringIds"))
        rows = database.execute("select correlationId, start, end, globalTid, nameId from CUPTI_ACTIVITY_KIND_RUNTIME")
        calls = list(rows)
        launches = {number: (start, None, end - start, thread) for number, start, end, thread, _ in calls}
        kernels = "select start, end, correlationId, demangledName from CUPTI_ACTIVITY_KIND_KERNEL"
        work = [
            Work(start, end, "compute", text[name], *launches[i]) for start, end, i, name in database.execute(kernels)
        ]
        present = {row[1] for row in database.execute("pragma table_info(CUPTI_ACTIVITY_KIND_MEMCPY)")}
        ends = "srcKind, dstKind" if {"srcKind", "dstKind"} <= present else "null, null"
        copies = database.execute(
            f"select start, end, correlationId, copyKind, bytes, {ends} from CUPTI_ACTIVITY_KIND_MEMCPY"
        )
        for start, end, i, kind, size, source, target in copies:
            launch, _, length, thread = launches[i]
            known = source in MEMORY_KINDS and target in MEMORY_KINDS
            memory = f" ({MEMORY_KINDS[source]} -> {MEMORY_KINDS[target]})" if known else ""
            work.append(Work(start, end, "copies", COPY_KINDS[kind] + memory, launch, size, length, thread))
        waits = [(thread, end) for _, _, end, thread, name in calls if WAIT.search(text[name])]
    return RawTrace(work, {}, waits=waits)


def nvprof_gpu_trace(path: Path) -> RawTrace:
    """The table of `nvprof --print-gpu-trace`: start and duration with their units, the name behind the stream."""
    work = []
    for line in path.read_text().splitlines():
        if match := re.match(r" *([\d.]+[num]?s) +([\d.]+[num]?s) .* (\d+) +(\[CUDA mem.*|\S.*\(.*\).*)$", line):
            start, length = (round(seconds(text) / NS) for text in match.groups()[:2])
            state = "copies" if match[4].startswith("[CUDA mem") else "compute"
            size = re.search(r" ([\d.]+)([KMG]?)B ", line) if match[4].startswith("[CUDA memcpy") else None
            copied = round(float(size[1]) * 1024 ** " KMG".index(size[2] or " ")) if size else None
            work.append(Work(start, start + length, state, match[4], copied=copied))
    return RawTrace(work, {})
