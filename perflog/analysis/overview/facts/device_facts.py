"""Facts of the devices of a trace, in sentences: why they idle, the largest work, operators, ranges, memory.

None of them says what binds the run: `headline` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.analysis.overview.facts.host_operators import host_time_of_steps
from perflog.analysis.overview.parts import percent
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import (
    Options,
    Tables,
    allocator,
    allocator_holders,
    copies,
    device_kernels,
    device_ranges,
    device_time,
    idle_calls,
    lateness,
    launches,
    memory_holders,
    memory_peak,
    operator_efficiency,
    stragglers,
)
from perflog.metrics.causes import bound_by, causes_by_run
from perflog.metrics.causes.cause import REPLAY, Cause
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.step_series import step_series
from perflog.metrics.traces.collectives.absent_peers import devices_without_peers
from perflog.metrics.traces.copies import way_of
from perflog.metrics.traces.device_time import wholes_of_traces
from perflog.metrics.traces.idle_causes import CAUSES
from perflog.metrics.traces.operators.operator_work import PRODUCTS
from perflog.metrics.traces.over_time.memory import holders_of
from perflog.metrics.traces.over_time.memory_holders import NOT_TRACED
from perflog.metrics.traces.replays.critical_path import kinds_on_paths
from perflog.metrics.traces.replays.own_time import IDLE
from perflog.metrics.traces.replays.scenario_changes import OF_JOB
from perflog.metrics.traces.replays.scenario_gains import scenario_gains
from perflog.metrics.traces.start_up import CAPTURE, COMPILATION
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, UNKNOWN
from perflog.tables.arrow import Where, one_of
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import count, show

if TYPE_CHECKING:
    import pandas as pd

_GROUPS_OF = {
    "host": ("host",),
    "data": ("host",),
    "launch": ("launch", "host"),
    "waiting": ("waiting",),
    "device": ("kernels", "communication", "copies", "waiting"),
    "compute": ("kernels",),
    "communication": ("communication",),
    "copies": ("copies",),
    "unequal stages": (),
    "rank": (),  # the paths of the others wait for it in collectives, which says nothing of why
}
"""By subject of what binds: the groups of pieces on the critical path that go with it."""

_RUNTIME = lazy_pattern(r"hip[A-Z]|cuda[A-Z]|cu[A-Z]")
"""Names of calls of a runtime with graphs of launches."""

_TELLING = 0.03  # of the whole: smaller parts are no reason
_LONGER = 0.01  # of the time of a device
_UNEVEN = 0.1  # of the mean computation: less is no difference between ranks
_NEARLY = 0.8  # of what a rank costs in all steps
_MOSTLY = 0.5  # of the communication: less is hidden badly
_WHOLE = 0.9  # of the GPU time: a range around nearly all of it is divided
_RANGES = 5  # that a sentence names
_KINDS_OF_PATH = 2
_HOLDERS = 4  # of memory, that a sentence names
_NOUNS = {"compute": "kernel", "communication": "collective", "memory": "copy", "waiting": "wait"}
"""What takes the time of each state of a device."""
_DOES = {
    "compute": "its kernels take",
    "communication": "its other communication takes",
    "memory": "its copies take",
    "waiting": "its GPU waits",
    IDLE: "its GPU idles",
}  # what a rank does longer than others
_ON_PATH = {
    "communication": "communication",
    "memcpy": "copies",
    "memset": "copies",
    "wait": "waiting",
    "launch": "launch",
    "gap": "waiting",
    "waiting": "waiting",
    "unknown": "waiting",
}  # in a sentence on the critical path; other kinds are kernels, or of the host


def late_rank(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The rank that costs most, what it costs, and what it does longer than the others.

    Where no cost is known, the rank that others wait for longest in collectives.
    """
    rows = stragglers.table_of(run, tables, options)
    costs = {
        (cause.rank, cause.device): cause
        for cause in causes_by_run(tables, options).get(run, ())
        if cause.subject == "rank" and cause.metric == REPLAY
    }
    if not costs:
        yield from _awaited(rows)
        return
    (rank, device), cost = max(costs.items(), key=lambda item: item[1].gain)
    if not cost.gain > _TELLING:
        return
    row = row_dicts(rows[_equal(rows["rank"], rank) & _equal(rows["device"], device)])[0]  # names of nodes may differ
    less = f"would make the {'trace' if cost.of == 'trace' else 'step'} at most {percent(cost.gain)} shorter"
    if not int(row["collectives"]):  # others wait in pairs
        text = f"As fast as the median rank, {_name_of(row).lower()} {less}"
    else:
        text = _comes_last(row) + ("" if cost.binds else f"; as fast as the median rank, it {less}")
    did = lateness.table_of(run, tables, options)
    why = _longer(did[_equal(did["rank"], rank) & _equal(did["device"], device)])
    when = _when(tables, run, cost)
    yield f"{text}{why and f'. {why}'}{when and f'; nearly all of this is {when}'}."


def unequal_stages(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The rank that computes longest, and what unequal stages of a pipeline cost, if no rank is late for its peers.

    Where the ranks communicate, but it is not matched, no cost is known.
    """
    costs = [cause for cause in causes_by_run(tables, options).get(run, ()) if cause.gain > _TELLING]
    found = next((cause for cause in costs if cause.subject == "unequal stages"), None)
    is_replayed = any(gain.scenario in OF_JOB for gain in scenario_gains(tables, options).get(run, ()))
    if (found is None and is_replayed) or any(cause.subject == "rank" and cause.metric == REPLAY for cause in costs):
        return
    rows = device_time.table_of(run, tables, options)
    rows = rows[rows["part"] == "trace"]
    times = rows["compute_s"].astype(float)
    communicates = (rows["communicating_s"] > _TELLING * rows["span_s"]).all()
    if found is None and not (communicates and times.max() > (1 + _UNEVEN) * times.mean()):
        return
    longest = rows.loc[times.idxmax()].to_dict()
    text = f"{_name_of(longest)} computes {times.max() / times.mean():.3g} times as long as the mean rank"
    if found is not None and not found.binds:  # else the bottleneck has it
        text += f"; with equal stages, the trace would be at most {percent(found.gain)} shorter"
    yield f"{text}."


def _awaited(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the rank that others wait for longest. Few collectives prove nothing: all may wait for the last stage."""
    several = rows["rank"].isna() & rows["device"].duplicated(keep=False)  # each node numbers its devices from 0
    rows = rows.assign(name=rows["device_name"].where(several))
    rows = rows[rows["imposed_share"].astype(float) > _TELLING]
    if len(rows):
        worst = rows.loc[rows["imposed_s"].astype(float).idxmax()].to_dict()
        if none_if_null(worst["reason"]) is None:
            yield f"{_comes_last(worst)}; others wait for it {percent(float(worst['imposed_share']))} of the time."


def _name_of(row: Mapping[str, object]) -> str:
    if none_if_null(row["rank"]) is not None:
        return f"Rank {row['rank']}"
    name = none_if_null(row.get("name"))
    return f"Device {row['device']}{f' ({name})' if name else ''}"


def _comes_last(row: Mapping[str, Any]) -> str:
    share, collectives = percent(float(row["last_share"])), count(int(row["collectives"]), "collective")
    return f"{_name_of(row)} comes last in {share} of its {collectives}"


def _equal(column: pd.Series[int], value: int | None) -> pd.Series[bool]:
    return column.isna() if value is None else (column == value).fillna(False)


def _when(tables: Tables, run: str, cost: Cause) -> str:
    """Return in or since which step the steps are longer by nearly all that a rank costs; empty if all are."""
    for series in step_series(tables) if cost.gain_s else ():
        times = series.values
        if series.run == run and len(times) > 1:
            enough = _NEARLY * float(cost.gain_s or 0) * len(times)
            worst = int(times.argmax())
            if times[worst] - np.median(times) >= enough:
                return f"in step {series.steps[worst]}"
            lows, highs = np.minimum.accumulate(times[::-1])[::-1][1:], np.maximum.accumulate(times)[:-1]
            first = 1 + int((lows - highs).argmax())  # from here on all steps are longer than all before
            if lows[first - 1] > highs[first - 1] and (times[first:] - np.median(times[:first])).sum() >= enough:
                return f"since step {series.steps[first]}"
    return ""


def _longer(did: pd.DataFrame) -> str:
    """Return what a rank does longer than the others between collectives, in words; empty if it takes no longer."""
    sums = did.groupby("doing", sort=False)[["time_s", "typical_s", "longer_s", "of_span"]].sum()
    if not len(sums) or not sums["of_span"].max() > _LONGER:
        return ""
    doing = str(sums["of_span"].idxmax())
    own, typical, longer, _ = (float(sums[column][doing]) for column in sums)
    text = f"In the whole trace, {_DOES[doing]} {show(longer, 's', 3)} longer than on the median rank"
    names = did[(did["doing"] == doing) & did["name"].notna()].sort_values("longer_s", ascending=False)
    for name, more, ratio in names[["name", "longer_s", "ratio"]].head(1).itertuples(index=False):
        if more > _MOSTLY * longer and doing == IDLE:
            return f"{text}, mostly while the host is in {name}"
        if more > _MOSTLY * longer:
            return f"{text}, mostly {short_kernel(name)}{_times(none_if_null(ratio))}"
    return text + (", host-bound" if doing == IDLE and len(names) else _times(own / typical if typical else None))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f", {ratio:.3g} x"


def idle(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """How much of the time the devices idle, and for which cause."""
    rows = wholes_of_traces(device_time.table_of(run, tables, options))
    if not len(rows) or not (share := float(rows["idle_s"].sum() / rows["span_s"].sum())) > _TELLING:
        return
    idle_shares = _idle_shares(tables, run, options)
    synced = idle_shares["sync"]
    causes = (
        (
            idle_shares["host"] + synced,
            f"host-bound{f' ({percent(synced)} after a synchronisation)' if synced > _TELLING else ''}",
        ),
        (idle_shares["data"], "while data is loaded"),
        (idle_shares["launch"] + idle_shares["waiting"], "with work queued"),
    )
    told = [f"{percent(each)} {words}" for each, words in causes if each > _TELLING]
    text = f"The GPU idles {percent(share)} of the time{': ' * bool(told)}{', '.join(told)}"
    calls = idle_calls.table_of(run, tables, options)
    sums = calls.groupby("name", sort=False)["time_s"].sum()  # without the time in no call
    if len(sums) and sums.max() > _MOSTLY * calls["time_s"].sum() and sums.max() > _TELLING * rows["span_s"].sum():
        text += f"; the host is mostly in {sums.idxmax()}"
    yield f"{text}."


def _idle_shares(tables: Tables, run: str, options: Options) -> dict[str, float]:
    """The share of each cause of idle time in the time of all devices of a run."""
    rows = wholes_of_traces(launches.table_of(run, tables, options))
    whole = float(rows["span_s"].sum())
    return {cause: float(rows[f"{cause}_s"].sum()) / whole if whole else 0.0 for cause in CAUSES}


def critical(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What the critical path of the steps, else of the trace, consists of, where it is known what launched the work.

    A replay may find another bottleneck than the kind that most of the path is: another path is nearly as long, and
    this one tells nothing.
    """
    idle = launches.table_of(run, tables, options)
    if not idle["host_s"].notna().any() or run not in scenario_gains(tables, options):
        return
    rows = kinds_on_paths(tables)
    rows = rows[rows["run"] == run]
    rows = rows[rows["part"].isin(wholes_of_traces(idle)["part"])]
    whole = float(rows["time_s"].sum())
    times: dict[str, dict[str, float]] = {}
    for where, kind, time in rows[["where", "kind", "time_s"]].itertuples(index=False):
        group_times = times.setdefault(_ON_PATH.get(kind, "kernels" if where == "device" else "host"), {})
        group_times[kind] = group_times.get(kind, 0.0) + float(time) / whole
    bound = bound_by(tables, run, options)
    most = max(times, key=lambda group: sum(times[group].values()), default="")
    if bound is not None and bound.metric == REPLAY and most not in _GROUPS_OF.get(bound.subject, times):
        return
    told = []
    for group, kinds in sorted(times.items(), key=lambda item: -sum(item[1].values())):
        if (share := sum(kinds.values())) > _TELLING:
            largest = (
                sorted(kinds, key=lambda kind: -kinds[kind])[:_KINDS_OF_PATH] if group in ("kernels", "host") else []
            )
            each = ", ".join(f"{kind} {percent(kinds[kind])}" for kind in largest if kinds[kind] > _TELLING)
            told.append(f"{group} {percent(share)}{each and f' ({each})'}")
    if len(times) > 1 or len(rows) > 1:  # else the states of the device say it
        yield f"On the critical path: {', '.join(told)}."


def launching(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What graphs of launches would win where the device idles for launches that come late one after another."""
    graphs = next((each for each in causes_by_run(tables, options).get(run, ()) if each.subject == "graphs"), None)
    bound = bound_by(tables, run, options)
    if graphs is None or not graphs.gain > _TELLING or (bound is not None and bound.subject in (CAPTURE, COMPILATION)):
        return
    shares, runtime = _idle_shares(tables, run, options), _runtime(tables)
    if runtime and shares["host"] + shares["launch"] > _TELLING:
        rows = launches.table_of(run, tables, options)
        rows = rows[rows["part"] == "trace"]
        call, work = (show(float(rows[column].median()), "s", 3) for column in ("call_s", "work_s"))
        yield (
            f"{runtime} graphs would save at most {percent(graphs.gain)} of the time: the median launch takes {call}, "
            f"its work {work}."
        )


def _runtime(tables: Tables) -> str:
    """Return the runtime whose calls launch the work, if it has graphs: `CUDA` or `HIP`; "" if no other is known."""
    where: Where = {"kind": one_of("runtime"), "name": lambda name: name and _RUNTIME.match(name)}
    for _, events in tables.arrow_by_file("events", where, "name"):
        for name in events.column("name").unique().to_pylist():
            return "HIP" if name.startswith("hip") else "CUDA"
    return ""


def largest_work(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The kernel, collective and copy that take most of each state of the devices, if the state takes a telling part.

    Of collectives also the share of all communication that is hidden. Waits of a stream are hidden by the work of
    others: the time of all streams decides, and both are shown.
    """
    rows = wholes_of_traces(device_time.table_of(run, tables, options))
    if not len(rows):
        return
    shares = {state: float(rows[f"{state}_s"].sum() / rows["span_s"].sum()) for state in _NOUNS}
    kernels = device_kernels.table_of(run, tables, options)
    for state in sorted(shares, key=lambda state: -shares[state]):
        state_rows = kernels[(kernels["by"] == "name") & (kernels["state"] == state) & kernels["name"].notna()]
        part = float(rows["waiting_kernels_s"].sum() / rows["span_s"].sum()) if state == "waiting" else shares[state]
        if not len(state_rows) or (part <= _TELLING and state != _most(shares)):
            continue
        sums = state_rows.groupby("name", sort=False)[["calls", "time_s"]].sum()
        sums = sums.sort_values("time_s", ascending=False, kind="stable")
        name, (calls, seconds) = str(sums.index[0]), sums.iloc[0]
        text = f"Largest {_NOUNS[state]}: {short_kernel(name)}, {count(int(calls), 'call')} x"
        text += f" {show(seconds / calls, 's', 3)}"
        if state == "communication":
            text += f"; {_hidden(rows)} communication is hidden"
            if run in devices_without_peers(tables).values():
                text += "; it may wait for ranks without a trace"
        if state == "waiting":
            alone, on_streams = (show(float(rows[name].sum()), "s", 3) for name in ("waiting_s", "waiting_kernels_s"))
            text += f"; the streams wait {on_streams}, {alone} of it with nothing else running"
        if state == "memory" and (rate := _copied_at(tables, run, name, options)):
            text += f" at {show(rate, 'GB/s', 3)}"
        if state == "memory" and way_of(name)[1] == "pageable":
            text += "; the memory of the host is not pinned"
        yield f"{text}."


def _most(shares: dict[str, float]) -> str:
    return max(shares, key=lambda state: shares[state])


def _hidden(rows: pd.DataFrame) -> str:
    """The share of all communication beside which something computes, in words."""
    communicating = rows[rows["communicating_s"].gt(0)]
    hidden = float((communicating["overlap"] * communicating["communicating_s"]).sum())
    share = hidden / float(communicating["communicating_s"].sum())
    if percent(share) == percent(0):
        return "hardly any" if share else "no"
    return f"{'only ' * (share < _MOSTLY)}{percent(share)} of all"


def _copied_at(tables: Tables, run: str, name: str, options: Options) -> float | None:
    """The bandwidth of a kind of copies in GB/s, if the trace has their sizes."""
    rows = copies.table_of(run, tables, options)
    direction, memory = way_of(name)
    alike = rows["memory"].isna() if memory is None else rows["memory"] == memory
    rows = rows[(rows["direction"] == direction) & alike & rows["bandwidth"].notna()]
    times = rows["bytes"].astype(float) / rows["bandwidth"].astype(float)
    return float(rows["bytes"].sum() / times.sum()) if len(rows) else None


def ranges(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The ranges of the program that launched most of the GPU time: those inside of its steps, and beside them."""
    rows = device_ranges.table_of(run, tables, options)
    total = float(rows["exclusive_s"].sum())
    if not total > 0:
        return
    sums = rows.groupby("path", sort=False).agg(name=("range", "first"), kind=("kind", "first"), time=("gpu_s", "sum"))
    sums = sums.assign(parent=[path.rpartition(PATH_MARK)[0] for path in sums.index])
    # A step is one range around all others, and so may be a range around the whole program: what is inside tells more.
    is_whole = (sums["kind"] == "step") | ((sums["time"] > _WHOLE * total) & sums.index.isin(sums["parent"]))
    around = {"", *sums.index[is_whole]}
    shown = sums[sums["parent"].isin(around) & ~is_whole & sums["parent"].map(lambda path: _all_in(path, around))]
    largest = shown[shown["time"] > _TELLING * total].sort_values("time", ascending=False, kind="stable").head(_RANGES)
    if len(largest) > 1 and not set(largest["name"]) <= {OUTSIDE, UNKNOWN}:
        each = (f"{name} {percent(time / total)}" for name, time in zip(largest["name"], largest["time"], strict=True))
        yield f"GPU time by range: {', '.join(each)}."


def host_ranges(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Without a device: the ranges in which the host spends its steps."""
    if (found := host_time_of_steps(tables, run, options)) is None:
        return
    whole, times = found
    largest = [(name, time / whole) for name, time in times.items() if time > _TELLING * whole][:_RANGES]
    if largest:
        each = (f"{name} {percent(share)}" for name, share in largest)
        yield f"Host time of the steps by range: {', '.join(each)}."


def memory(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The largest peak of the memory of a device, or else of the host, and who held it."""
    rows = memory_peak.table_of(run, tables, options)
    on_device = rows[rows["memory"] == "device"]
    rows = on_device if len(on_device) else rows
    if not len(rows):
        return
    peak = rows.loc[rows["peak"].astype(float).idxmax()].to_dict()
    place = "the host" if peak["memory"] == "host" else f"device {peak['device']}"
    rank = f" (rank {peak['rank']})" if none_if_null(peak["rank"]) is not None else ""
    text = f"Memory of {place}{rank}: {show(float(peak['peak']), 'B', 3)} at most"
    text += f", {show(peak['at_s'], 's', 4)} into the trace"
    text += f", in step {peak['step']}" if none_if_null(peak["step"]) is not None else ""
    if none_if_null(peak["reserved_peak"]) is not None:
        text += f"; {show(float(peak['reserved_peak']), 'B', 3)} reserved"
    held = holders_of(peak, memory_holders.table(tables, options))
    # Positions with one name are one here, such as layers.
    shares = held.groupby("holder", sort=False)["share"].sum().astype(float).sort_values(ascending=False, kind="stable")
    largest = shares[shares > _TELLING].head(_HOLDERS)
    names = ["memory from before the trace" if name == NOT_TRACED else name for name in largest.index]
    each = ", ".join(f"{name} {percent(share)}" for name, share in zip(names, largest, strict=True))
    yield f"{text}{f'. Held by {each}' if each else ''}."


def held_by_allocator(tables: Tables, run: str, options: Options, ranks: Collection[int] = ()) -> Iterator[str]:
    """What an allocator held of a device at the moment of a snapshot, who held it, and what failed.

    The device is the fullest: of some ranks, if they have a snapshot, and where an allocation failed, if one did.
    """
    rows = allocator.table_of(run, tables, options)
    if not len(rows):
        return
    if (accused := rows["rank"].isin(list(ranks))).any():
        rows = rows[accused]
    if (failed := rows["asked"].notna()).any():
        rows = rows[failed]
    device = rows.loc[rows["allocated"].astype(float).idxmax()].to_dict()
    rank = f" (rank {device['rank']})" if none_if_null(device["rank"]) is not None else ""
    size = {name: show(float(device[name]), "B", 3) for name in ("reserved", "allocated", "free", "largest_free")}
    text = f"Memory of device {device['device']}{rank} at the snapshot: {size['allocated']} in use of "
    text += f"{size['reserved']} reserved"
    if device["free"]:
        text += f"; {size['free']} kept without use, {size['largest_free']} the largest block of it"
    yield f"{text}."
    if none_if_null(device["asked"]) is not None:
        together = "The free blocks would hold it together, no single one does: fragmentation."
        fits = f" {together}" if device["would_fit"] else ""
        yield f"An allocation of {show(float(device['asked']), 'B', 3)} failed.{fits}"
    held = allocator_holders.table_of(run, tables, options)
    held = held[(held["rank"].isna() | (held["rank"] == device["rank"])) & (held["device"] == device["device"])]
    each = [_holder(row) for row in held[held["share"] > _TELLING].head(_HOLDERS).to_dict("records")]
    if each:
        yield f"Held by {'; '.join(each)}."


def _holder(row: Mapping[str, Any]) -> str:
    """A holder of an allocator's memory, with its share, bytes and blocks."""
    during = f", {row['during']}" if isinstance(row["during"], str) else ""
    blocks = count(int(row["blocks"]), "block")
    return f"{row['holder']}{during} {percent(row['share'])} ({show(float(row['bytes']), 'B', 3)} in {blocks})"


def _all_in(path: str, some: set[str]) -> bool:
    """Whether a path, and each path that it lies in, is one of some."""
    while path:
        if path not in some:
            return False
        path = path.rpartition(PATH_MARK)[0]
    return True


# --- operators -------------------------------------------------------------------------------------------------------


def operators(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield a sentence on the operators of a run with known work, if they take a large part of the GPU time."""
    rows = operator_efficiency.table_of(run, tables, options)
    if not len(rows):
        return
    whole = float(rows[rows["by"] == "trace"]["time_s"].sum())
    rows = rows[(rows["by"] == "shape") & ~rows["impossible"].eq(True)]
    under = rows[rows["roof_s"].notna() & (rows["time_s"] > 0)]
    products = rows[rows["class"].isin(PRODUCTS) & rows["flop"].notna() & (rows["time_s"] > 0)]
    if under["time_s"].sum() > _TELLING * whole:
        yield _below_roof(under, whole)
    elif products["time_s"].sum() > _TELLING * whole:
        yield _rate(products, whole)


def _below_roof(rows: pd.DataFrame, whole: float) -> str:
    """How far below the roof the operators run, and which of them loses most time."""
    time = float(rows["time_s"].sum())
    alike = _joined(rows)
    worst = alike.loc[(alike["time_s"] - alike["roof_s"]).idxmax()]
    share = percent(float(rows["roof_s"].sum()) / time)
    text = f"Operators with a roof take {percent(time / whole)} of the GPU time and run at {share} of the roofline"
    if worst["time_s"] - worst["roof_s"] > _TELLING * whole:
        text += (
            f"; most is lost in {_name(worst)}: {percent(float(worst['roof_s'] / worst['time_s']))} of it, "
            f"{worst['bound']}-bound, {percent(float(worst['time_s']) / whole)} of the GPU time"
        )
    return f"{text}."


def _rate(rows: pd.DataFrame, whole: float) -> str:
    """The rate of all products, and of those that take longest."""
    time = float(rows["time_s"].sum())
    alike = _joined(rows)
    longest = alike.loc[alike["time_s"].idxmax()]
    share, speed = percent(time / whole), _speed(rows["flop"].sum(), time)
    text = f"Matrix products, convolutions and attention take {share} of the GPU time and run at {speed}"
    if longest["time_s"] > _TELLING * whole:
        rate, share = _speed(longest["flop"], longest["time_s"]), percent(float(longest["time_s"]) / whole)
        text += f"; the longest is {_name(longest)}: {rate}, {share} of the GPU time"
    return f"{text}."


def _joined(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all ranks as one for each operator, shapes and type, the first of a rank first."""
    keys = ["operator", "shapes", "inputs", "dtype", "bound"]
    return rows.groupby(keys, dropna=False, sort=False)[["time_s", "flop", "roof_s"]].sum().reset_index()


def _name(row: pd.Series[str]) -> str:
    dtype = none_if_null(row["dtype"])
    return f"{row['operator']} of {row['inputs']}{f' ({dtype})' if dtype else ''}"


def _speed(flop: float, time: float) -> str:
    return show(float(flop) / float(time) / 1e12, "TFLOP/s", 3)
