"""Every number of the overview's screen and of the waterfall of traces, recomputed from their raw files.

Real traces of three profilers, a table of a fourth, and small traces that come with the tests.
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support.commands import DATA
from support.field_logs import needs_corpus
from support.known_inputs import TRACES
from support.nsys_files import STRINGS, Row, call, kernel, write_tables
from support.paths import SHARED
from support.plain_path import Call, PlainPath, Work, plain_path
from support.raw_operators import PRODUCTS, raw_operators
from support.raw_traces import (
    NS,
    RawTrace,
    chrome_json,
    chrome_trace,
    memory_peak,
    nsys_database,
    nvprof_gpu_trace,
    time_by_range,
)
from support.screen_numbers import Screen, check_bar, kinds_of_findings, overview_screen, waterfall_screen

from perflog.metrics.profiles.kernel_categories import category
from perflog.metrics.traces.idle_causes import is_wait
from perflog.metrics.traces.operators.operator_work import operator_formulas

CORPUS = SHARED / "corpus"
KINETO = [
    CORPUS / "torchtrace" / f"facebookresearch__HolisticTraceAnalysis__sampled_rank-{rank}.json.gz" for rank in (0, 1)
]
NSYS = CORPUS / "nsys" / "p4arth__cuda-perf-sandbox__report1.sqlite"
NVPROF = CORPUS / "nvprof" / "samhachem99__CS533_Final_Project__nvprof_gpu_output.txt"
SMALL = [path for path in TRACES if path.stem != "2026_quotes"]  # whose quotes no reader of JSON accepts

WORDS = {"idle": "idle", "communication": "exposed communication", "copies": "exposed copies", "compute": "compute"}
WORDS_OF = WORDS | {"idle": "idle GPU"}
TELLING = 0.03  # smaller shares are not in the sentence on the bottleneck


def explain_parts(screen: Screen, trace: RawTrace) -> None:
    """Figures, bars and the bottleneck of a trace."""
    times, span, n = trace.times_in_wholes(), sum(b - a for a, b in trace.wholes()), len(trace.wholes())
    assert sum(times.values()) == span
    steps = [(end - start) * NS for start, end in trace.steps.values()]
    figures = ([median(steps)] if steps else []) + [span * NS] * (not in_steps(trace))
    screen.explain(f"{' '.join(['<>'] * len(figures))} Where the time goes", *figures)
    for state, name in WORDS.items():
        if times[state] >= 0.005 * span:
            check_bar(screen, name, times[state] * NS / n, span * NS / n)
    explain_bottleneck(screen, trace)
    explain_graphs(screen, trace)


def in_steps(trace: RawTrace) -> bool:
    return trace.wholes() == [*trace.steps.values()]


def explain_graphs(screen: Screen, trace: RawTrace) -> None:
    """What CUDA graphs would win, by the replay; how long launches and what they launch take."""
    idle, span = trace.late_launches(), sum(b - a for a, b in trace.wholes())
    told = re.search(r"CUDA graphs would save at most (\d+) % of the time", screen.text)
    if not told:
        return
    assert idle > TELLING * span and 3 <= int(told[1]) <= 100
    known = [work for work in trace.work if work.call is not None]
    medians = median(work.call or 0 for work in known) * NS, median(work.end - work.start for work in known) * NS
    words = "CUDA graphs would save at most <> of the time: the median launch takes <>, its work <>."
    screen.explain(words, int(told[1]) / 100, *medians)


def explain_path(screen: Screen, dependencies: PlainPath, trace: RawTrace, path: Path | None = None) -> None:
    """What the critical path consists of: groups of its kinds, of kernels and of the host the two largest too.

    That of the annotated steps, each of which ends in its thread, else that of the trace. `path`: a trace of steps.
    """
    annotated = [each for each in complete_events(path) if "ProfilerStep#" in each["name"]] if path else []
    threads = {int(each["name"].partition("#")[2]): (each["pid"], each["tid"]) for each in annotated}
    windows: list[tuple[int, int, Any]] = [
        (dependencies.work[0].start, max(each.end for each in dependencies.work), None)
    ]
    if in_steps(trace):
        windows = [(*window, threads[number]) for number, window in trace.steps.items()]
    groups = {"communication": "communication", "memcpy": "copies", "memset": "copies", "launch": "launch"}
    groups |= dict.fromkeys(("gap", "waiting", "unknown"), "waiting")
    groups |= dict.fromkeys(("synchronisation", "runtime", "operator", "python", "idle host"), "host")
    times: dict[str, Counter[str]] = {}
    for window in windows:
        for begin, until, kind, _ in dependencies.path(*window):
            times.setdefault(groups.get(kind, "kernels"), Counter())[kind] += until - begin
    span = sum(end - start for start, end, _ in windows)
    if sum(map(len, times.values())) < 2:
        assert "On the critical path" not in screen.text
        return
    bound = re.search(r"Bottleneck: ([\w ]+);", screen.text)
    most = max(times, key=lambda group: times[group].total())
    if bound and most not in {"the host": ("host",), "the device": ("kernels", "communication", "copies")}.get(
        bound[1], (bound[1].replace("compute", "kernels"),)
    ):
        assert "On the critical path" not in screen.text
        return
    told = {group: kinds for group, kinds in times.items() if kinds.total() > TELLING * span}
    words, shares = [], []
    for group in sorted(told, key=lambda group: -told[group].total()):
        largest = told[group].most_common(2) if group in ("kernels", "host") else []
        parts = [(kind, time) for kind, time in largest if time > TELLING * span]
        each = ", ".join(f"{kind} <>" for kind, _ in parts)
        words.append(f"{group} <>{each and f' ({each})'}")
        shares += [told[group].total() / span, *(time / span for _, time in parts)]
    screen.explain(f"On the critical path: {', '.join(words)}.", *shares)


def complete_events(path: Path) -> list[dict[str, Any]]:
    events = chrome_json(path)["traceEvents"]
    assert isinstance(events, list)
    return [event for event in events if event.get("ph") == "X"]


def database_path(path: Path) -> PlainPath:
    """The dependencies in a database of Nsight Systems without ranges."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "select r.start, r.end, r.globalTid, r.correlationId, s.value from CUPTI_ACTIVITY_KIND_RUNTIME r "
            "left join StringIds s on s.id = r.nameId"
        ).fetchall()
        calls = {
            i: Call(thread, start, end, "runtime", str(name), is_wait(str(name)))
            for start, end, thread, i, name in rows
        }
        work = [
            Work(stream, start, end, category(name), name, calls.get(i))
            for stream, start, end, i, name in database.execute(
                "select streamId, start, end, correlationId, s.value from CUPTI_ACTIVITY_KIND_KERNEL k "
                "join StringIds s on s.id = k.demangledName"
            )
        ]
        work += [
            Work(stream, start, end, "memcpy", "", calls.get(i), copies=True)
            for stream, start, end, i in database.execute(
                "select streamId, start, end, correlationId from CUPTI_ACTIVITY_KIND_MEMCPY"
            )
        ]
    return PlainPath(sorted(work, key=lambda each: each.start), list(calls.values()))


def explain_bottleneck(screen: Screen, trace: RawTrace, mark: str = "") -> None:
    """What binds, by the replay where launches are known: its figures are held against an oracle in another test.

    Else the largest of the states, with idle time by its cause.
    """
    span = sum(b - a for a, b in trace.wholes())
    if any(work.launch is not None and work.call is not None for work in trace.work):
        told = re.search(
            rf"{mark}Bottleneck: [\w ]+; [\w ]+, the (?:step|trace) would be (?:at most )?(\d+) % shorter \(",
            screen.text,
        )
        assert told, screen.text
        against = re.search(r"with an infinitely fast (?:host|device) (\d+) %\)\.", screen.text)
        assert against and 3 <= int(told[1]) <= 100
        screen.named(told[0])
        screen.named(against[0])
    else:
        times = trace.times_in_wholes()
        first = max(times, key=lambda state: times[state])
        screen.explain(f"{mark}Bottleneck: {WORDS_OF[first]}, <> of the time.", times[first] / span)
    if mark:
        return
    explain_idle(screen, trace)
    times = {state: time for state, time in trace.times_in_wholes().items() if state != "idle"}
    for state in times:
        if times[state] > TELLING * span or times[state] == max(times.values()):
            explain_largest(screen, trace, state)


def explain_idle(screen: Screen, trace: RawTrace) -> None:
    """How much of the time the device idles, and why."""
    causes, span, idle = (
        trace.idle_by_cause(),
        sum(b - a for a, b in trace.wholes()),
        trace.times_in_wholes()["idle"],
    )
    if idle <= TELLING * span:
        assert "The GPU idles" not in screen.text
        return
    words_of = {
        "host-bound idle": "host-bound", "data": "while data is loaded", "idle with work queued": "with work queued",
    }  # fmt: skip
    told = {words: causes[cause] / span for cause, words in words_of.items() if causes[cause] > TELLING * span}
    each = ", ".join(f"<> {words}" for words in told)
    screen.explain(f"The GPU idles <> of the time{each and f': {each}'}.", idle / span, *told.values())


def explain_largest(screen: Screen, trace: RawTrace, state: str) -> None:
    """The kernel that takes most of a state; of communication the share that is hidden."""
    calls, time, rate = trace.largest(state)
    at = [] if rate is None or state != "copies" else [rate]
    noun = {"compute": "kernel", "communication": "collective", "copies": "copy"}[state]
    screen.explain(
        f"Largest {noun}: <name>, <> call{'s' * (calls != 1)} x <>{' at <>' * len(at)}", calls, time / calls * NS, *at
    )
    if state == "communication":
        hidden = trace.hidden()
        if hidden < 0.005:
            screen.explain(f"{'hardly any' if hidden else 'no'} communication is hidden")
        else:
            screen.explain(f"{'only ' * (hidden < 0.5)}<> of all communication is hidden", hidden)


def explain_ranges(screen: Screen, path: Path, mark: str = "") -> None:
    """GPU time of the ranges that no range lies around but a step."""
    own = time_by_range(path)
    inclusive: Counter[str] = Counter()
    for text, time in own.items():
        names = text.split(" > ")
        for depth in range(len(names)):
            inclusive[" > ".join(names[: depth + 1])] += time
    whole = sum(own.values())
    told = {
        text: time for text, time in inclusive.items() if re.sub("^ProfilerStep#N( > )?", "", text).count(" > ") == 0
    }
    told = {text: time for text, time in told.items() if text != "ProfilerStep#N" and time > TELLING * whole}
    if len(told) < 2:
        assert "GPU time by range" not in screen.text
        return
    for place, text in enumerate(sorted(told, key=lambda text: -told[text])[:5]):
        before = f"{mark}GPU time by range: " * (place == 0)
        screen.explain(f"{before}{text.rpartition(' > ')[2]} <>", told[text] / whole)


def explain_operators(screen: Screen, path: Path, mark: str = "") -> None:
    """Time and rate of the products, without a known GPU; matrix products alone have formulas here."""
    operators, whole = raw_operators(path, operator_formulas())
    products = [each for each in operators.values() if each.name in PRODUCTS and each.shapes]
    time = sum(each.time for each in products)
    if time <= TELLING * whole or (screen.is_full and "Matrix products" not in screen.text):
        assert "Matrix products, convolutions and attention take" not in screen.text
        return
    screen.explain(f"{mark}Matrix products, convolutions and attention take <> of the GPU time", time / whole)
    flop = sum(each.flop for each in products)
    rate = re.search(r"run at ([\d.]+) TFLOP/s", screen.text)
    assert rate and float(rate[1]) == float(f"{flop / time / 1e3:.3g}")
    screen.named(rate[0])
    assert max(each.time for each in products) < TELLING * whole  # so that none is named


def explain_memory(screen: Screen, path: Path, trace: RawTrace) -> None:
    """The peak of the memory of a device, all of which was allocated before the trace began."""
    peak = memory_peak(path, trace)
    if peak is None:
        assert "Memory of device" not in screen.text
        return
    assert peak.step is not None and not peak.in_trace
    numbers = peak.device, 0, peak.allocated, peak.at * NS, peak.step, peak.reserved, 1.0
    words = "Memory of device <> (rank <>): <> at most, <> into the trace, in step <>; <> reserved."
    screen.explain(f"{words} Held by memory from before the trace <>.", *numbers)


def explain_waterfall(path: Path, trace: RawTrace) -> None:
    """All bars, as shares of the annotated step, or of the span of a trace without any."""
    screen = waterfall_screen(path)
    span, n, of = (
        sum(b - a for a, b in trace.wholes()),
        len(trace.wholes()),
        "traced step" if in_steps(trace) else "trace",
    )
    times = {state: n for state, n in trace.times_in_wholes().items() if state != "idle"} | trace.idle_by_cause()
    assert sum(times.values()) == span
    for bar, time in times.items():
        if time:
            share = time / span
            screen.explain(f"{of} {bar} <> <> <> <> <name> <>\n", time * NS / n, share, share, span * NS / n, n)
    screen.all_explained()


@needs_corpus
def test_every_number_of_a_trace_of_pytorch() -> None:
    path = KINETO[0]
    screen, trace = overview_screen(path), chrome_trace(path)
    ranks = chrome_json(path)["distributedInfo"]
    assert isinstance(ranks, dict)
    numbers = [1, len(trace.steps), min(trace.steps), max(trace.steps), ranks["rank"], ranks["world_size"]]
    screen.explain("chrome_trace, <> run x <> steps (<>-<>), rank <> of <>; all lines read", *numbers)
    explain_parts(screen, trace)
    explain_ranges(screen, path)
    explain_operators(screen, path)
    explain_path(screen, plain_path(complete_events(path)), trace, path)
    screen.explain("step: <> step times: neither warm-up nor scatter can be judged", len(trace.steps))
    assert kinds_of_findings(path) == 1
    screen.all_explained()
    explain_waterfall(path, trace)


@needs_corpus
def test_every_number_of_two_traces() -> None:
    """Two ranks of one job, as two runs: the columns, and the bottleneck of the first."""
    screen, traces = overview_screen(*KINETO), [chrome_trace(path) for path in KINETO]
    ranks = chrome_json(KINETO[0])["distributedInfo"]
    assert isinstance(ranks, dict)
    steps = [[(end - start) * NS for start, end in trace.steps.values()] for trace in traces]
    subject = "chrome_trace, <> logs, <> runs x <> steps, <> of <> ranks;"
    screen.explain(subject, 2, 2, len(steps[0]), 2, ranks["world_size"])
    for place, trace in enumerate(traces):
        step, change = median(steps[place]), [median(steps[place]) / median(steps[0]) - 1] * place
        shares = [
            trace.times_in_wholes()[state] / sum(b - a for a, b in trace.wholes())
            for state in ("idle", "communication")
        ]
        name = f"facebookresearch_…d_rank-{place}.json.gz"
        screen.explain(f"{'AB'[place]} {name} <> {'<>' if change else '-'} <> <>", step, *change, *shares)
    explain_bottleneck(screen, traces[0], "A: ")
    screen.explain("and <> more kinds of finding", kinds_of_findings(*KINETO) - 1)
    screen.all_explained()


@needs_corpus
def test_every_number_of_a_database_of_nsight_systems() -> None:
    screen, trace = overview_screen(NSYS), nsys_database(NSYS)
    with closing(sqlite3.connect(NSYS)) as database:
        columns = {
            table: [row[1] for row in database.execute(f"pragma table_info({table})")]
            for (table,) in database.execute("select name from sqlite_master where type = 'table'")
        }
        of_events = [t for t, names in columns.items() if {"start", "startedAt", "timestamp"} & {*names}]
        rows = {table: database.execute(f"select count(*) from {table}").fetchone()[0] for table in of_events}
        (gpu,) = (name for (name,) in database.execute("select name from TARGET_INFO_GPU"))
    unread = rows["COMPOSITE_EVENTS"] * len(columns["COMPOSITE_EVENTS"])
    screen.named(gpu)
    screen.explain("./vecAdd, <> run,", 1)
    screen.explain("<> figures unread of <> lines", unread, sum(rows.values()))
    explain_parts(screen, trace)
    screen.explain("<> figures of <> shape of line not read", unread, 1)
    explain_path(screen, database_path(NSYS), trace)
    assert kinds_of_findings(NSYS) == 1
    screen.all_explained()
    explain_waterfall(NSYS, trace)


def test_every_number_of_a_small_database(tmp_path: Path) -> None:
    """Two copies and two kernels in us: launched late, launched early, and one that overlaps a copy."""
    times = {"KERNEL": [(60, 90), (85, 140)], "MEMCPY": [(10, 30), (120, 160)]}
    calls = [call(us * 1000, us * 1000 + 500, i) for i, us in enumerate((50, 51, 2, 100))]
    kernels = [
        kernel(start * 1000, end * 1000, correlationId=i, streamId=7 + 2 * i)
        for i, (start, end) in enumerate(times["KERNEL"])
    ]
    copies = [
        {"start": start * 1000, "end": end * 1000, "deviceId": 0, "streamId": 8, "correlationId": i, "bytes": 64,
         "copyKind": 1} for i, (start, end) in enumerate(times["MEMCPY"], 2)
    ]  # fmt: skip
    tables: dict[str, list[Row]] = {
        "StringIds": STRINGS,
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.24.0"}],
        "TARGET_INFO_GPU": [{"id": 0, "name": "A100"}],
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
    }
    path = write_tables(tmp_path / "report.sqlite", tables)
    screen, trace = overview_screen(path), nsys_database(path)
    us = {state: round(time / 1000) for state, time in trace.time_by_state().items()}
    assert us == {"compute": 80, "communication": 0, "copies": 40, "idle": 30}
    assert trace.idle_by_cause() == {"data": 0, "host-bound idle": 20_000, "idle with work queued": 10_000, "idle": 0}
    screen.explain("nsys_sqlite, <> run, A100;", 1)
    explain_parts(screen, trace)
    explain_path(screen, database_path(path), trace)
    assert kinds_of_findings(path) == 0
    screen.all_explained()
    explain_waterfall(path, trace)


@needs_corpus
def test_every_number_of_a_table_of_rocprof() -> None:
    """API calls of HIP with their times in ns. The table has no clock, and so no waterfall."""
    path = CORPUS / "rocprof" / "shashankparsi__HIP_Programming__results.hip_stats.csv"
    with path.open(newline="") as file:
        rows = {row["Name"]: (int(row["Calls"]), int(row["TotalDurationNs"]) * NS) for row in csv.DictReader(file)}
    screen, whole = overview_screen(path), sum(time for _, time in rows.values())
    screen.explain("rocprof, <> run; all lines read API calls <> Where the time goes", 1, whole)
    calls, time = rows["hipMemcpy"]
    check_bar(screen, "memcpy", time, whole)
    check_bar(screen, "allocation", rows["hipFree"][1] + rows["hipMalloc"][1], whole)
    screen.explain("Bottleneck: memcpy, <> of the time of API calls.", time / whole)
    screen.explain("Largest call: hipMemcpy, <> calls x <>, <>.", calls, time / calls, time / whole)
    assert kinds_of_findings(path) == 0
    screen.all_explained()
    assert "these runs have no data to compute it from" in waterfall_screen(path).text


@pytest.mark.parametrize(
    "path", [pytest.param(NVPROF, marks=needs_corpus), DATA / "nvprof_gpu_trace.txt"], ids=["real", "cut down"]
)
def test_every_number_of_a_trace_of_nvprof(path: Path) -> None:
    screen, trace = overview_screen(path), nvprof_gpu_trace(path)
    screen.explain("nvprof, <> run; all lines read", 1)
    explain_parts(screen, trace)
    assert kinds_of_findings(path) == 0
    screen.all_explained()
    explain_waterfall(path, trace)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_every_number_of_a_small_trace(path: Path) -> None:
    """One annotated step and a few kernels, as versions of torch.profiler of six years write them."""
    screen, trace = overview_screen(path), chrome_trace(path)
    whole = chrome_json(path)
    ranks, devices = whole.get("distributedInfo"), whole.get("deviceProperties")
    (number,) = trace.steps
    screen.explain("chrome_trace, <> run x <> step", 1, 1)
    if number > 1:
        screen.explain("step (number <>)", number)
    if isinstance(ranks, dict) and "rank" in ranks:
        screen.explain("rank <> of <>", ranks["rank"], ranks["world_size"])
    for device in devices if isinstance(devices, list) else ():
        if device["name"] in screen.text:
            screen.named(device["name"])
    explain_parts(screen, trace)
    explain_ranges(screen, path)
    explain_operators(screen, path)
    explain_path(screen, plain_path(complete_events(path)), trace, path)
    explain_memory(screen, path, trace)
    screen.explain("step: <> step time: neither warm-up nor scatter can be judged", 1)
    if (more := kinds_of_findings(path) - 1) > 0:
        screen.explain(f"and <> more kind{'s' * (more > 1)} of finding", more)
    screen.all_explained()
    explain_waterfall(path, trace)
