"""Matching of collectives over the ranks of a job: which kernels are one collective, and how long each rank waits.

The kernel of a collective starts when its rank arrives and ends when all ranks are done: it waits, then transfers. The
two can be separated if it is known which kernels are one collective, and if the clocks of the ranks agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.traces.collectives.jobs import Job, jobs
from perflog.metrics.traces.device_work import trace_devices
from perflog.statistics.groups import groups_of

if TYPE_CHECKING:
    import pandas as pd

AGREE = 0.9
"""Share of collectives that must overlap in time on their ranks; else order does not match them, or clocks differ."""

_ENDS = 0.1  # share of the longest durations by which the ends of collectives may differ on one clock
_CLOSELY = 0.01  # the same, where the files may have clocks of their own, whose zero may be anywhere
_FEWEST = 3  # collectives that are needed to judge whether clocks agree

_OPS = (  # collective, pattern in a name as libraries spell it; the first match counts
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
TOGETHER = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")
"""Collectives that no rank leaves before the last rank has arrived: they end together."""
_CALL_COLUMNS = ["op", "group", "group_ranks", "dtype", "size", "bytes"]
_DIVIDED = ("all_gather", "reduce_scatter", "all_to_all")
"""Collectives that leave each rank its own part."""


class MatchedCollectives(Struct, frozen=True, eq=False):
    """The collectives of a job. A lane is a process group, or a stream: its kernels are matched in order.

    `calls`: a row per matched kernel: key (of its collective), member (its index in the job), start, wait (until the
    last member arrives) and length in ns, line.

    `collectives`: a row per collective, by key: op, group, group_ranks, stream, dtype, src_rank and dst_rank (of sends
    and receives), place (seq, or k-th of its lane from 1), by (seq or order), ranks, size (ranks of the group, as
    printed), bytes, line, start, transfer, skew, end_skew (ns), last (the member that arrived last; -1: several
    together), reason (why waiting is not known, else null).

    `loose`: a row per kernel of no matched collective: member, op, group, group_ranks, dtype, size, bytes, length (ns),
    src_rank, dst_rank, line. `splits`: a row per all-to-all of a member: rank, group_ranks, size, bytes, in_split and
    out_split as printed, line.

    `unmatched`: a row per lane that is not matched: op, group, group_ranks, stream, calls, member and line of the first
    call, reason. `clock_ok`: whether the clocks of the ranks agree; None if there are too few collectives to judge.
    """

    job: Job
    calls: pd.DataFrame
    collectives: pd.DataFrame
    loose: pd.DataFrame
    splits: pd.DataFrame
    unmatched: pd.DataFrame
    clock_ok: bool | None


def matched_collectives(tables: Tables) -> list[MatchedCollectives]:
    """Return the collectives of each job of at least two devices that has any."""
    return [matched for matched in all_collectives(tables) if len(matched.job.members) > 1]


@computed_list
def all_collectives(tables: Tables) -> Iterator[MatchedCollectives]:
    """Return the collectives of each job that has any; then of each device without a job, all unmatched."""
    known_jobs = jobs(tables)
    members = {id(device) for job in known_jobs for device in job.members}
    alone = [Job((device,), True, None) for device in trace_devices(tables) if id(device) not in members]
    yield from (matched for job in [*known_jobs, *alone] if (matched := _match(job)))


def bus_factor(ops: npt.ArrayLike, ranks: npt.ArrayLike) -> Floats:
    """Return bus bandwidth / algorithm bandwidth of operations among these numbers of ranks; NaN where unknown.

    Source: nccl-tests, doc/PERFORMANCE.md. Algorithm bandwidth is the size of the larger buffer / time.

    Example:
        >>> bus_factor(["all_reduce", "all_gather", "broadcast"], [4, 4, 4]).tolist()
        [1.5, 0.75, 1.0]
    """
    names, n = np.asarray(ops, object), np.asarray(ranks, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (n - 1) / n
    factors = np.where(n > 0, 1.0, np.nan)
    factors = np.where(names == "all_reduce", 2 * share, factors)
    factors = np.where(np.isin(names.astype(str), _DIVIDED), share, factors)
    return np.where(np.array([isinstance(name, str) for name in names], np.bool_), factors, np.nan)


def collective_op(name: str) -> str | None:
    """Return the collective that the name of a kernel or operation contains, or None."""
    return next((known for known, pattern in _OPS if re.search(pattern, name, re.IGNORECASE)), None)


def listed_numbers(printed: object) -> tuple[int, ...] | None:
    """Return the numbers of a list as the trace prints it; None if it is empty or cut.

    Example:
        >>> listed_numbers("[4, 5, 6, 7]"), listed_numbers("[0, 1, 2, ..., 127]")
        ((4, 5, 6, 7), None)
    """
    if not isinstance(printed, str) or not re.fullmatch(r"\s*\[\s*\d+(\s*,\s*\d+)*\s*\]\s*", printed):
        return None
    return tuple(map(int, re.findall(r"\d+", printed)))


def _match(job: Job) -> MatchedCollectives | None:
    """Match the collectives of a job; None if it has none."""
    calls = _calls(job)
    if calls is None:
        return None
    by_lane = dict(list(calls.groupby("lane", sort=False)))
    doubts = {lane: job.doubt or _doubt(job, rows) for lane, rows in by_lane.items()}
    collectives = _collectives(calls[_without(doubts, calls)])
    for lane, rows in collectives.groupby("lane", sort=False):
        doubts[lane] = _unlike_numbers(job, by_lane[lane], rows) or _doubt_after_matching(rows)
    collectives = collectives[_without(doubts, collectives)]
    clock_ok = _clock_ok(job, collectives)
    reason = {True: None, False: "the ranks' clocks differ", None: "too few collectives show whether clocks agree"}
    reasons = [reason[clock_ok] if whole else "its kernels do not overlap" for whole in collectives["whole"]]
    collectives = collectives.assign(reason=reasons)
    unmatched = _unmatched(calls, {lane: doubt for lane, doubt in doubts.items() if doubt})
    keys = collectives[["lane", "place", "again"]].assign(key=collectives.index)
    keys["began"] = collectives["began"].astype("Int64")  # with NaN for no collective, doubles would lose nanoseconds
    calls = calls.rename(columns={"ranks": "size"}).assign(length=calls["end"] - calls["start"])
    calls = calls.merge(keys, on=["lane", "place", "again"], how="left")
    alone, exchanged = calls["key"].isna(), calls["op"] == "all_to_all"
    calls = calls.assign(wait=calls["began"] - calls["start"])
    return MatchedCollectives(
        job=job,
        calls=calls.loc[~alone, ["key", "member", "start", "wait", "length", "line"]].astype(
            dict.fromkeys(("key", "wait"), np.int64)
        ),
        collectives=collectives,
        loose=calls.loc[alone, ["member", *_CALL_COLUMNS, "length", "src_rank", "dst_rank", "line"]],
        splits=calls.loc[exchanged, ["rank", "group_ranks", "size", "bytes", "in_split", "out_split", "line"]],
        unmatched=unmatched,
        clock_ok=clock_ok,
    )


def _without(doubts: Mapping[int, str | None], rows: pd.DataFrame) -> Mask:
    """Flag the rows of lanes without a doubt."""
    lanes = np.array([lane for lane, doubt in doubts.items() if doubt is None], np.int64)
    flags: Mask = np.isin(rows["lane"].to_numpy(np.int64), lanes)
    return flags


def _calls(job: Job) -> pd.DataFrame | None:
    """The communication kernels of all members, of each member in order of time; None if there are none.

    A lane is a process group: its name and its ranks, because groups of other ranks may have the same name. If the
    trace names none, it is the k-th communicating stream of the member. Sends and receives, if it names them, have
    lanes of their own: one for each pair of ranks where the trace names it, else one for all (`paired`).
    """
    import pandas as pd

    parts = []
    for member, device in enumerate(job.members):
        rows = device.work.communication
        if not len(rows):
            continue
        (printed, collectives), (name, names) = (device.work.messages.codes(of) for of in ("collective", "name"))
        words = groups_of(np.where(printed >= 0, printed, len(collectives) + name))
        texts = [collectives[printed[i]] if printed[i] >= 0 else names[name[i]] for i in words.first.tolist()]
        op = np.array([*map(collective_op, texts), None], object)[words.inverse]  # with None, it is an array of objects
        streams = np.unique(rows["stream"].to_numpy(np.float64, na_value=-1), return_inverse=True)[1]
        kept = ["group", "group_ranks", "stream", "seq", "bytes", "dtype", "ranks", "src_rank", "dst_rank", "in_split",
                "out_split", "line"]  # fmt: skip
        calls = rows[kept].assign(
            member=member, rank=device.rank, of_stream=streams, op=pd.Series(op, rows.index, dtype=object),
            start=rows["start_ns"], end=rows["start_ns"] + rows["duration_ns"],
            paired=(op == "send_recv") & (printed >= 0),
        )  # fmt: skip
        parts.append(calls.astype(dict.fromkeys(("start", "end", "line"), np.int64)))
    return _with_places(_with_lanes(pd.concat(parts, ignore_index=True))) if parts else None


def _with_lanes(calls: pd.DataFrame) -> pd.DataFrame:
    """Calls with their lanes as numbers, and with the ranks of their group and its size where other calls have them."""
    import pandas as pd

    calls = calls.astype({"group": object, "group_ranks": object, "ranks": "Int64"})
    known = calls.dropna(subset=["group", "group_ranks"]).groupby("group")["group_ranks"]
    only = known.first()[known.nunique() == 1].to_dict()
    calls["group_ranks"] = calls["group_ranks"].fillna(calls["group"].map(only))
    sizes = {text: len(ranks) for text in calls["group_ranks"].dropna().unique() if (ranks := listed_numbers(text))}
    calls["ranks"] = calls["ranks"].fillna(calls["group_ranks"].map(sizes).astype("Int64"))
    group, ranks = (pd.factorize(calls[name])[0] for name in ("group", "group_ranks"))
    named = group >= 0
    streams = np.where(named, -1, calls["of_stream"])
    calls["lane"] = groups_of(group, np.where(named, ranks, -1), streams, calls["paired"].to_numpy(np.int64)).inverse
    return _with_peers(calls)


def _with_peers(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls with a lane for each pair of sender and receiver, if the trace prints the other rank.

    Each rank numbers its sends and receives by itself, so the calls of a pair are matched by order.
    """
    own = calls["rank"].astype("Int64")
    known = calls["paired"] & own.notna() & (calls["src_rank"].notna() | calls["dst_rank"].notna())
    ends = {name: calls[name].astype("Int64").fillna(own).where(known) for name in ("src_rank", "dst_rank")}
    pair_keys = [ends[name].fillna(-1).to_numpy(np.int64) for name in ends]
    lanes = groups_of(calls["lane"].to_numpy(), known.to_numpy(np.int64), *pair_keys)
    return calls.assign(
        lane=lanes.inverse, paired=calls["paired"] & ~known,
        seq=calls["seq"].astype("Int64").mask(known), ranks=calls["ranks"].mask(known, 2), **ends,
    )  # fmt: skip


def _with_places(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls with their number in the lane: as printed for the group if all have one, else by order.

    By order, each operation of a group is a lane.

    `again` counts the calls of one number, which are parts of one collective, in their order.
    """
    import pandas as pd

    numbered = calls.groupby("lane")["seq"].transform("count") == calls.groupby("lane")["member"].transform("size")
    numbered &= calls["group"].notna()
    # Operations of one group may run on several streams: a rank that is late begins them in another order.
    apart = np.where(numbered | calls["group"].isna(), -1, pd.factorize(calls["op"])[0])
    calls = calls.assign(lane=groups_of(calls["lane"].to_numpy(np.int64), apart).inverse)
    order = calls.groupby(["lane", "member"]).cumcount() + 1
    place = calls["seq"].where(numbered, order).astype(np.int64)
    by = pd.Series(np.array(["order", "seq"], object)[numbered.to_numpy(np.int8)], calls.index, dtype=object)
    placed = calls.assign(place=place, by=by)
    return placed.assign(again=placed.groupby(["lane", "member", "place"]).cumcount())


def _doubt(job: Job, rows: pd.DataFrame) -> str | None:
    """Return why the calls of a lane cannot be matched by their order; None if they can."""
    if rows["paired"].any():
        return "sends and receives are between two ranks each, which are not printed"
    counts = rows.groupby("member").size()
    if rows["group"].isna().all():  # a k-th stream that some member lacks is not the same stream on all
        counts = counts.reindex(range(len(job.members)), fill_value=0)
    if len(counts) < 2:
        return f"only {job.name(counts.index[0])} has it"
    if rows["by"].iloc[0] == "order" and not counts.all():
        return _numbers(job, counts)
    return None


def _unlike_numbers(job: Job, calls: pd.DataFrame, matched: pd.DataFrame) -> str | None:
    """Return why the calls of a lane cannot be matched by order, if the ranks have different numbers of them.

    They can where all that are matched overlap: the trace of a rank ends early. Else a rank lacks one in between.
    """
    counts = calls.groupby("member").size()
    if matched["by"].iloc[0] == "order" and counts.nunique() > 1 and not matched["whole"].all():
        return _numbers(job, counts)
    return None


def _numbers(job: Job, counts: pd.Series[int]) -> str:
    numbers = ", ".join(f"{job.name(member)} {number}" for member, number in counts.items())
    return f"no number is printed, and the ranks have different numbers of them: {numbers}"


def _collectives(calls: pd.DataFrame) -> pd.DataFrame:
    """A row for each collective of at least two members."""
    import pandas as pd

    lengths = calls["end"] - calls["start"]
    keys = ["lane", "place", "again"]
    groups = calls.assign(length=lengths, code=pd.factorize(calls["op"])[0]).groupby(keys, sort=False)
    first = calls["start"] == groups["start"].transform("max")
    alone = calls[first].groupby(keys, sort=False).agg(last=("member", "first"), came=("member", "size"))
    collectives = groups.agg(
        op=("op", "first"), least=("code", "min"), most=("code", "max"), group=("group", "first"),
        group_ranks=("group_ranks", "first"), stream=("stream", "first"), dtype=("dtype", "first"),
        src_rank=("src_rank", "first"), dst_rank=("dst_rank", "first"),
        by=("by", "first"), ranks=("member", "size"), size=("ranks", "first"),
        bytes=("bytes", "max"), line=("line", "first"),
        start=("start", "min"), began=("start", "max"), ended=("end", "min"), end=("end", "max"),
        transfer=("length", "min"), longest=("length", "max"),
    ).join(alone).reset_index()  # fmt: skip
    collectives = collectives[collectives["ranks"] > 1].sort_values(["start", "line"], kind="stable", ignore_index=True)
    return collectives.assign(
        skew=collectives["began"] - collectives["start"], end_skew=collectives["end"] - collectives["ended"],
        last=collectives["last"].where(collectives["came"] == 1, -1),
        whole=collectives["began"] <= collectives["ended"],
    )  # fmt: skip


def _doubt_after_matching(rows: pd.DataFrame) -> str | None:
    """Return why the matches of a lane cannot be right, as only the result shows; None if they may be right."""
    if (rows["ranks"] > rows["size"]).any():
        return "more ranks have it than the group has: other groups are called the same"
    if (rows["least"] < rows["most"]).any():
        return "the ranks' operations come in another order"
    whole = int(rows["whole"].sum())
    if rows["by"].iloc[0] == "order" and whole < AGREE * len(rows):
        reason = "order does not match them, or the clocks differ"
        return f"in order of time, {whole} of {len(rows)} overlap on all ranks: {reason}"
    return None


def _clock_ok(job: Job, collectives: pd.DataFrame) -> bool | None:
    """Return whether collectives overlap on all ranks and end together, as on one clock; None if there are too few."""
    if job.one_clock:
        return True
    together = collectives[collectives["op"].isin(TOGETHER)]
    judged = together if len(together) else collectives
    if len(judged) < _FEWEST:
        return job.one_clock
    share, overlap = (_ENDS, AGREE) if job.one_clock is None else (_CLOSELY, 1.0)
    return bool(judged["whole"].mean() >= overlap and judged["end_skew"].sum() <= share * judged["longest"].sum())


def _unmatched(calls: pd.DataFrame, doubts: Mapping[int, str]) -> pd.DataFrame:
    """A row for each lane that is not matched, with the reason."""
    rows = calls[calls["lane"].isin(list(doubts))]
    first = {name: (name, "first") for name in ("op", "group", "group_ranks", "stream", "member", "line")}
    lanes = rows.groupby("lane", sort=False).agg(**first, calls=("member", "size"))
    return lanes.assign(reason=[doubts[lane] for lane in lanes.index]).reset_index(drop=True)
