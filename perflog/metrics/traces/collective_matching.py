"""Collectives of traces matched over ranks: which kernels of the ranks are one collective, and who kept whom waiting.

A collective's kernel runs from the moment in which its rank gets there until all are done: it waits, then transfers.
Over ranks the two come apart, where it is known which kernels are one collective and where the ranks' clocks agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.registry import cached
from perflog.metrics.traces.device_work import COMMUNICATION
from perflog.metrics.traces.jobs import Job, jobs

if TYPE_CHECKING:
    import pandas as pd

AGREE = 0.9
"""Share of collectives that must overlap in time on their ranks: else order does not match them, or clocks differ."""

_ENDS = 0.1  # of the longest durations: what the ends of collectives may differ by, where clocks are one
_LEAST = 3  # collectives that show whether clocks agree

_OPS = (  # a collective in a name, however its library spells it: the first that is there
    ("all_reduce", r"all_?reduce"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_gather", r"all_?gather"),
    ("all_to_all", r"all_?to_?all|a2a"),
    ("broadcast", r"broadcast|bcast"),
    ("send_recv", r"send|recv"),
    ("reduce", r"reduce"),
    ("dispatch", r"dispatch"),
    ("combine", r"combine"),
    ("barrier", r"barrier"),
)
_TOGETHER = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")
"""Collectives that no rank leaves before the last has come: they end together."""


@dataclass(frozen=True, eq=False)
class MatchedCollectives:
    """The collectives of a job.

    `calls`: a row for each kernel that is matched: key, member (its place in the job), wait (ns until the last member
    comes), length (ns), line.

    `each`: a row for each collective, by key: op, group, stream, place (seq, or k-th of its lane from 1), by (seq or
    order), ranks, size (ranks of the group, as printed), bytes, line, start, transfer, skew, end_skew (ns), last
    (member that came last; -1: several came together), reason (why waiting is not known; null where it is).

    `unmatched`: a row for each lane that is not matched: op, group, stream, calls, member and line of
    the first, reason. `clock_ok`: whether the ranks' clocks agree; None where too little shows it.
    """

    job: Job
    calls: pd.DataFrame
    each: pd.DataFrame
    unmatched: pd.DataFrame
    clock_ok: bool | None


def matched_collectives(tables: Mapping[str, pd.DataFrame]) -> list[MatchedCollectives]:
    """The collectives of each job that has any."""
    return cached(tables, "collectives of traces", lambda: [one for job in jobs(tables) if (one := _match(job))])


def collective_op(name: str) -> str | None:
    """The collective in the name of a kernel or of an operation; None where it has none."""
    return next((known for known, pattern in _OPS if re.search(pattern, name, re.IGNORECASE)), None)


def _match(job: Job) -> MatchedCollectives | None:
    calls = _calls(job)
    if calls is None:
        return None
    doubts = {lane: job.doubt or _doubt(job, rows) for lane, rows in calls.groupby("lane", sort=False)}
    each = _each(calls[calls["lane"].map(doubts).isna()])
    for lane, rows in each.groupby("lane", sort=False):
        doubts[lane] = _late_doubt(rows)
    each = each[each["lane"].map(doubts).isna()]
    clock_ok = _clock_ok(job, each)
    reason = {True: None, False: "the ranks' clocks differ", None: "too few collectives show whether clocks agree"}
    each = each.assign(reason=[reason[clock_ok] if whole else "its kernels do not overlap" for whole in each["whole"]])
    left = _left(calls, {lane: why for lane, why in doubts.items() if why})
    keys = each[["lane", "place", "again", "began"]].assign(key=each.index)
    calls = calls.merge(keys, on=["lane", "place", "again"])
    calls = calls.assign(wait=calls["began"] - calls["start"], length=calls["end"] - calls["start"])
    return MatchedCollectives(job, calls[["key", "member", "wait", "length", "line"]], each, left, clock_ok)


def _calls(job: Job) -> pd.DataFrame | None:
    """The communication kernels of all members, each member's in order of time; None where there are none.

    A lane is a process group, or where none is told the k-th stream of the member that communicates; what the trace
    calls a send or a receive is in a lane of its own: `paired`.
    """
    import pandas as pd

    found = []
    for place, device in enumerate(job.members):
        rows = device.rows[(device.rows["state"] == COMMUNICATION).to_numpy()]
        if not len(rows):
            continue
        told = rows["collective"].where(rows["collective"].notna(), rows["name"])
        ops = {name: collective_op(name) for name in told.unique()}
        streams = np.unique(rows["stream"].to_numpy(np.float64, na_value=-1), return_inverse=True)[1]
        both = zip(rows["group"], streams, strict=True)
        lanes = [f"group {name}" if isinstance(name, str) else f"stream {k}" for name, k in both]
        paired = (told.map(ops) == "send_recv") & rows["collective"].notna()
        kept = rows[["group", "stream", "seq", "bytes", "ranks", "line"]].assign(
            member=place, lane=lanes, paired=paired, op=told.map(ops), start=rows["start_ns"], end=rows["end_ns"]
        )
        kept["lane"] = kept["lane"].where(~paired, "pairs of " + kept["lane"])
        found.append(kept.astype(dict.fromkeys(("start", "end", "line"), np.int64)))
    return _placed(pd.concat(found, ignore_index=True)) if found else None


def _placed(calls: pd.DataFrame) -> pd.DataFrame:
    """With the place of each call in its lane: its number in the group where all of the lane print one, else its order.

    Calls of one number (parts of one collective) come in order: `again`.
    """
    numbered = calls.groupby("lane")["seq"].transform("count") == calls.groupby("lane")["member"].transform("size")
    numbered &= calls["group"].notna()
    order = calls.groupby(["lane", "member"]).cumcount() + 1
    place = calls["seq"].where(numbered, order).astype(np.int64)
    placed = calls.assign(place=place, by=np.where(numbered, "seq", "order"))
    return placed.assign(again=placed.groupby(["lane", "member", "place"]).cumcount())


def _doubt(job: Job, rows: pd.DataFrame) -> str | None:
    """Why the calls of a lane cannot be matched by their places."""
    if rows["paired"].any():
        return "sends and receives are between two ranks each, which are not printed"
    counts = rows.groupby("member").size()
    if rows["group"].isna().all():  # all members have a k-th stream, or it is not the same for all
        counts = counts.reindex(range(len(job.members)), fill_value=0)
    if len(counts) < 2:
        return f"only {job.name(counts.index[0])} has it"
    if rows["by"].iloc[0] == "order" and counts.nunique() > 1:
        said = ", ".join(f"{job.name(member)} {count}" for member, count in counts.items())
        return f"no number is printed, and the ranks have different numbers of them: {said}"
    return None


def _each(calls: pd.DataFrame) -> pd.DataFrame:
    """A row for each collective that two members or more take part in."""
    import pandas as pd

    lengths = calls["end"] - calls["start"]
    keys = ["lane", "place", "again"]
    groups = calls.assign(length=lengths, code=pd.factorize(calls["op"])[0]).groupby(keys, sort=False)
    first = calls["start"] == groups["start"].transform("max")
    alone = calls[first].groupby(keys, sort=False).agg(last=("member", "first"), came=("member", "size"))
    found = groups.agg(
        op=("op", "first"), least=("code", "min"), most=("code", "max"), group=("group", "first"),
        stream=("stream", "first"), by=("by", "first"), ranks=("member", "size"), size=("ranks", "first"),
        bytes=("bytes", "max"), line=("line", "first"),
        start=("start", "min"), began=("start", "max"), ended=("end", "min"), end=("end", "max"),
        transfer=("length", "min"), longest=("length", "max"),
    ).join(alone).reset_index()  # fmt: skip
    found = found[found["ranks"] > 1].sort_values(["start", "line"], kind="stable", ignore_index=True)
    return found.assign(
        skew=found["began"] - found["start"], end_skew=found["end"] - found["ended"],
        last=found["last"].where(found["came"] == 1, -1), whole=found["began"] <= found["ended"],
    )  # fmt: skip


def _late_doubt(rows: pd.DataFrame) -> str | None:
    """Why matched collectives of a lane are not believed: seen only once they are matched."""
    if (rows["ranks"] > rows["size"]).any():
        return "more ranks have it than the group has: other groups are called the same"
    if (rows["least"] < rows["most"]).any():
        return "the ranks' operations come in another order"
    whole = int(rows["whole"].sum())
    if rows["by"].iloc[0] == "order" and whole < AGREE * len(rows):
        said = "order does not match them, or the clocks differ"
        return f"in order of time, {whole} of {len(rows)} overlap on all ranks: {said}"
    return None


def _clock_ok(job: Job, each: pd.DataFrame) -> bool | None:
    """Whether collectives overlap on all their ranks and end together, as they do on one clock."""
    if job.one_clock is not None:
        return job.one_clock
    together = each[each["op"].isin(_TOGETHER)]
    shown = together if len(together) else each
    if len(shown) < _LEAST:
        return None
    return bool(shown["whole"].mean() >= AGREE and shown["end_skew"].sum() <= _ENDS * shown["longest"].sum())


def _left(calls: pd.DataFrame, doubts: Mapping[str, str]) -> pd.DataFrame:
    """A row for each lane that is not matched, and why."""
    rows = calls[calls["lane"].isin(list(doubts))]
    first = {name: (name, "first") for name in ("op", "group", "stream", "member", "line")}
    found = rows.groupby("lane", sort=False).agg(**first, calls=("member", "size"))
    return found.assign(reason=[doubts[lane] for lane in found.index]).reset_index(drop=True)
