"""What perflog and its peers answer about the device work of one file: where the time goes, large kernels, idle causes.

    python bench/trace_answers.py perflog|hta|hta-all|tracelens|exact TRACE
    python bench/trace_answers.py perflog|nsys-ai|exact EXPORT

Each prints one JSON object with the figures that it gives, in us. bench/peers.py puts them side by side, and
bench/traces.py times them. `exact` computes them from the JSON or the SQL by loops over single events, and shares no
code with perflog.
Figures are those of the first device, `kernels` of all; of its whole trace, but for `hta`, which drops the last step
unless it is told to keep it (`hta-all`).
"""

import gzip
import importlib.metadata
import json
import logging
import sqlite3
import sys
import warnings
from collections import Counter
from itertools import pairwise
from statistics import mean, median

LARGEST = 10  # kernels


def perflog(path):
    import perflog
    from perflog.metrics import Tables, copies, device_kernels, device_time, launches

    tables = Tables(perflog.read(path))  # what one metric computes serves the next
    if not len(device_time(tables)):
        return {}
    by_name = device_kernels(tables)
    by_name = by_name[(by_name["by"] == "name") & (by_name["state"] != "memory")]
    by_name = by_name.groupby("name")[["calls", "time_s"]].sum().sort_values("time_s", ascending=False).head(LARGEST)
    whole, why = (table[table["part"] == "trace"].iloc[0] for table in (device_time(tables), launches(tables)))
    moved = copies(tables)
    us = {name.removesuffix("_s"): of * 1e6 for name, of in whole.items() if name.endswith("_s")}
    return {
        "version": importlib.metadata.version("perflog-ml"),
        "work": whole["events"], "span": us["span"], "busy": us["busy"], "idle": us["idle"], "compute": us["compute"],
        "exposed communication": us["communication"], "exposed memory": us["memory"],
        "communicating": us["communicating"], "overlap": whole["overlap"],
        "idle, not launched": (why["host_s"] + why["sync_s"] + why["data_s"]) * 1e6,
        "idle, launched": (why["launch_s"] + why["waiting_s"]) * 1e6,
        "launches": why["launches"], "shorter than the call": why["short_share"],
        "median delay from the call's begin": why["delay_s"] * 1e6,
        "queue": why["queue"],
        "GB/s": {" ".join(way): of for *way, of in moved[["direction", "memory", "bandwidth"]].fillna("").to_numpy()},
        "kernels": [[row.Index, row.calls, row.time_s * 1e6] for row in by_name.itertuples()],
    }  # fmt: skip


# --- peers --------------------------------------------------------------------------------------------------------


def hta(path, last=False):
    from hta.trace_analysis import TraceAnalysis

    trace = TraceAnalysis({0: path}, "", include_last_profiler_step=last)
    work = trace.t.get_trace(0)
    told = {"version": importlib.metadata.version("HolisticTraceAnalysis"), "work": (work["stream"] != -1).sum()}

    def times():
        parts = trace.get_temporal_breakdown(visualize=False).iloc[0]
        span, idle = parts["kernel_time(us)"], parts["idle_time(us)"]
        told.update({"span": span, "busy": span - idle, "idle": idle, "compute": parts["compute_time(us)"]})
        told["exposed communication and memory"] = parts["non_compute_time(us)"]

    def overlap():
        told["overlap"] = trace.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"] / 100

    def causes():
        table = trace.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
        told["idle of all streams"] = table.groupby("idle_category")["idle_time"].sum().to_dict()

    def kernels():
        kinds, named = trace.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0)
        told["communicating"] = kinds[kinds["kernel_type"].str.contains("COMMUNICATION")]["sum"].sum()
        named = named[(named["name"] != "others") & (named["kernel_type"] != "MEMORY")]
        named = named.sort_values("sum (us)", ascending=False).head(LARGEST)
        told["kernels"] = named[["name", "sum (us)"]].to_numpy().tolist()

    def launches():
        calls = trace.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
        told["launches"] = len(calls)
        told["shorter than the call"] = (calls["gpu_duration"] < calls["cpu_duration"]).mean()
        told["mean delay from the call's end"] = calls["launch_delay"].mean()

    def queue():
        waiting = trace.get_queue_length_summary(ranks=[0])
        told["queue, by stream"] = waiting["queue_length"]["mean"].droplevel(0).to_dict()

    def copies():
        told["GB/s"] = trace.get_memory_bw_summary(ranks=[0])["memory_bw_gbps"]["mean"].droplevel(0).to_dict()

    for part in (times, overlap, causes, kernels, launches, queue, copies):
        try:
            part()
        except Exception as error:  # noqa: BLE001 (whatever it is, the other figures are still told)
            print(f"{part.__name__} fails: {type(error).__name__}: {error}", file=sys.stderr)
    return told


def tracelens(path):
    from TraceLens import TreePerfAnalyzer

    analyzer = TreePerfAnalyzer.from_file(path)
    parts = analyzer.get_df_gpu_timeline().set_index("type")["time ms"] * 1e3
    kernels = analyzer.get_df_kernels().groupby("Kernel name")["Kernel duration (µs)"].agg(["count", "sum"])
    kernels = kernels.sort_values("sum", ascending=False).head(LARGEST)
    return {
        "version": importlib.metadata.version("TraceLens"),
        "span": parts["total_time"], "busy": parts["busy_time"], "idle": parts["idle_time"],
        "compute": parts["computation_time"], "exposed communication": parts["exposed_comm_time"],
        "exposed memory": parts["exposed_memcpy_time"], "communicating": parts["total_comm_time"],
        "kernels": [[name, int(row["count"]), row["sum"]] for name, row in kernels.iterrows()],
    }  # fmt: skip


def nsys_ai(path):
    from nsys_ai import profile
    from nsys_ai.overlap import launch_overhead_ms, overlap_analysis
    from nsys_ai.skills.registry import get_skill

    opened = profile.open(path)
    of = opened.query_conn()

    def ask(skill, **more):
        rows = get_skill(skill).execute(of, **more)
        return [row for row in rows if not (row.get("_metadata") or row.get("_summary"))], rows

    parts = overlap_analysis(opened, 0)
    _, gaps = ask("gpu_idle_gaps", device=0, min_gap_ns=0)
    idle = next(row for row in gaps if row.get("_summary"))
    kernels, _ = ask("top_kernels", limit=LARGEST)
    moved, _ = ask("memory_bandwidth", device=0)
    threads, _ = ask("cpu_gpu_pipeline")
    communicating = parts["nccl_only_ms"] + parts["overlap_ms"]
    return {
        "version": importlib.metadata.version("nsys-ai"),
        "work": parts["compute_kernels"] + parts["nccl_kernels"], "span": parts["total_ms"] * 1e3,
        "busy": (parts["total_ms"] - parts["idle_ms"]) * 1e3, "idle": parts["idle_ms"] * 1e3,
        "compute": (parts["compute_only_ms"] + parts["overlap_ms"]) * 1e3,
        "exposed communication": parts["nccl_only_ms"] * 1e3, "communicating": communicating * 1e3,
        "overlap": parts["overlap_pct"] / 100 if communicating else None,
        "idle of all streams": {"gaps": idle["total_idle_ms"] * 1e3},
        "idle, in the launching call": launch_overhead_ms(opened, 0) * 1e3,
        "mean delay from the call's end": (  # of all devices
            sum(row["dispatches"] * row["avg_queue_delay_us"] for row in threads)
            / (sum(row["dispatches"] for row in threads) or 1)
        ),
        "GB/s": {str(row["copyKind"]): row["avg_bandwidth_gbps"] for row in moved},
        "kernels": [[row["kernel_name"], row["invocations"], row["total_ms"] * 1e3] for row in kernels],
    }  # fmt: skip


# --- the same by plain loops --------------------------------------------------------------------------------------


def exact(path):
    with open(path, "rb") as file:
        begin = file.read(16)
    devices = _of_database(path) if begin.startswith(b"SQLite format 3") else _of_json(path, begin[:2] == b"\x1f\x8b")
    if not devices:
        return {}
    names, counts = Counter(), Counter()
    for start, end, state, name, *_ in (row for rows in devices.values() for row in rows):
        if state != "memory":
            names[name] += end - start
            counts[name] += 1
    kernels = [[name, counts[name], time / 1e3] for name, time in names.most_common(LARGEST)]
    return _figures(devices[min(devices)]) | {"kernels": kernels}


def _ns(us):
    """A number of us in ns, without the error of a double."""
    whole, _, rest = str(us).partition(".")
    return int(whole) * 1000 + int(rest.ljust(3, "0")[:3])


def _of_json(path, packed):
    """Work of each device: (start, end, state, name, bytes, calls of its number, stream), in ns."""
    with (gzip.open if packed else open)(path) as file:
        events = [e for e in json.load(file, parse_float=str)["traceEvents"] if e.get("ph") == "X"]
    calls, found = {}, {}
    for event in events:
        kind = str(event.get("cat")).lower().removeprefix("cuda_")
        args = event.get("args") or {}
        if kind not in ("runtime", "driver", "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            continue
        start = _ns(event["ts"])
        end = start + _ns(event["dur"])
        number = int(args["correlation"]) if "correlation" in args else None
        if kind in ("runtime", "driver"):
            if number is not None:
                calls.setdefault(number, []).append((start, end))
            continue
        state = "memory" if "mem" in kind else "communication" if "nccl" in event["name"].lower() else "compute"
        device = args.get("device", 0)
        row = (start, end, state, event["name"], args.get("bytes"), number, args.get("stream"))
        found.setdefault(device, []).append(row)
    return {device: [(*row[:5], calls.get(row[5], []), row[6]) for row in rows] for device, rows in found.items()}


def _of_database(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = {name for (name,) in database.execute("select name from sqlite_master")}
    calls, found = {}, {}
    for number, *times in database.execute("select correlationId, start, end from CUPTI_ACTIVITY_KIND_RUNTIME"):
        calls.setdefault(number, []).append(tuple(times))
    names = "select start, end, demangledName, correlationId, deviceId, streamId from CUPTI_ACTIVITY_KIND_KERNEL"
    text = dict(database.execute("select id, value from StringIds"))
    for start, end, name, number, device, stream in database.execute(names):
        state = "communication" if "nccl" in text[name].lower() else "compute"
        found.setdefault(device, []).append((start, end, state, text[name], None, calls.get(number, []), stream))
    for kind in ("MEMCPY", "MEMSET"):
        if f"CUPTI_ACTIVITY_KIND_{kind}" in tables:
            way = "copyKind" if kind == "MEMCPY" else "'memset'"
            rows = f"select start, end, {way}, bytes, correlationId, deviceId, streamId from CUPTI_ACTIVITY_KIND_{kind}"
            for start, end, name, size, number, device, stream in database.execute(rows):
                found.setdefault(device, []).append(
                    (start, end, "memory", str(name), size if kind == "MEMCPY" else None, calls.get(number, []), stream)
                )
    return found


def _figures(work):
    work.sort(key=lambda row: row[0])
    edges = sorted([(row[0], 1, row[2]) for row in work] + [(row[1], -1, row[2]) for row in work])
    running, times = Counter(), Counter()
    for (now, change, state), (then, *_) in pairwise([*edges, edges[-1]]):
        running[state] += change
        active = {each for each in running if running[each]}
        first = next((each for each in ("compute", "communication", "memory") if each in active), "idle")
        times[first] += then - now
        times["communicating"] += (then - now) * ("communication" in active)
        times["both"] += (then - now) * ({"communication", "compute"} <= active)
    causes, reach = Counter(), work[0][1]
    for start, end, *_, calls, _ in work:
        if start > reach:
            cut = min(max(calls[0][0], reach), start) if len(calls) == 1 else None
            causes["unknown" if cut is None else "late"] += start - reach if cut is None else cut - reach
            causes["launched"] += 0 if cut is None else start - cut
            causes["call"] += max(min(start, calls[0][1]) - max(reach, calls[0][0]), 0) if len(calls) == 1 else 0
        reach = max(reach, end)
    known = [(row[0], row[1] - row[0], *row[5][0]) for row in work if len(row[5]) == 1]
    sizes = {}
    for start, end, state, name, size, *_ in work:
        if state == "memory" and size:
            pair = sizes.setdefault(name, [0, 0])
            pair[0], pair[1] = pair[0] + size, pair[1] + end - start
    span = max(row[1] for row in work) - work[0][0]
    waiting = sum(max(start, begin) - max(begin, work[0][0]) for start, _, begin, _ in known)
    return {
        "work": len(work), "span": span / 1e3, "busy": (span - times["idle"]) / 1e3, "idle": times["idle"] / 1e3,
        "compute": times["compute"] / 1e3, "exposed communication": times["communication"] / 1e3,
        "exposed memory": times["memory"] / 1e3, "communicating": times["communicating"] / 1e3,
        "exposed communication and memory": (times["communication"] + times["memory"]) / 1e3,
        "overlap": times["both"] / times["communicating"] if times["communicating"] else None,
        "idle, not launched": causes["late"] / 1e3, "idle, launched": causes["launched"] / 1e3,
        "idle, in the launching call": causes["call"] / 1e3,
        "idle of all streams": {"gaps": _gaps_of_streams(work) / 1e3},
        "launches": len(known),
        "shorter than the call": mean(took < end - begin for _, took, begin, end in known) if known else None,
        "median delay from the call's begin": (
            median(start - begin for start, _, begin, _ in known) / 1e3 if known else None
        ),
        "mean delay from the call's end": mean(start - end for start, *_, end in known) / 1e3 if known else None,
        "queue": waiting / span if known else None,
        "GB/s": {name: size / time for name, (size, time) in sizes.items()},
    }  # fmt: skip


def _gaps_of_streams(work):
    """Sum of the gaps between the kernels of each stream, however busy the others are."""
    reach, gaps = {}, 0
    for start, end, *_, stream in work:
        gaps += max(start - reach.get(stream, start), 0)
        reach[stream] = max(end, reach.get(stream, end))
    return gaps


WAYS = {
    "perflog": perflog, "hta": hta, "hta-all": lambda path: hta(path, last=True), "tracelens": tracelens,
    "nsys-ai": nsys_ai, "exact": exact,
}  # fmt: skip


def plain(value):
    """A figure as JSON has it: no types of numpy or pandas, null for what is not known."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, str) or value is None:
        return value
    number = float(value) if str(value) != "<NA>" else float("nan")
    return None if number != number else int(number) if number == int(number) else number


if __name__ == "__main__":
    logging.disable()
    warnings.simplefilter("ignore")
    print(json.dumps(plain(WAYS[sys.argv[1]](sys.argv[2]))))
