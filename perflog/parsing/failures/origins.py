"""Where a failure comes from: the rank, node and GPU that its line names, and the label before it."""

from __future__ import annotations

import re

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.rank_labels import BARE_LABEL, CLOSED_LABEL, STREAMS

_MOST_LABELS = 3
_MOST_TASKS = 1 << 22  # of a job
_CODE = r"(?:E[A-Z]?|ERR)[0-9]{4,5}: "  # a code of an error, as CANN prints it: `EI0002: `
_HOST = r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*-?[0-9]+(?:\.[a-z0-9.-]+)?)"
_NAME = rf"(?!{_CODE}){_HOST}"
_POD = r"\[pod/(?P<pod>[A-Za-z0-9_.-]+)[^\]\n]*\] "
_POD_TIME = lazy_pattern(r"(\[pod/[^\] \n]+) [^\]\n]*\] ")
"""The label of a pod, with the time of its line, which differs in the next one."""

_LABEL = lazy_pattern(rf"{_POD}|{CLOSED_LABEL}|{BARE_LABEL}|(?:{_NAME}): ")
_RANK_LABEL = lazy_pattern(r"\[rank(?P<rank>\d{1,7})\]:|\[[0-9]+,(?P<mpi>\d{1,7})\]<")
_SPACED = lazy_pattern(r"\[rank\d+\]:$")
"""PyTorch's label before the lines of an exception, with a space between them."""

_OWN_LABEL = lazy_pattern(r"\[rank(?P<rank>\d{1,7})\]: ?$")
_OF_LOGGER = lazy_pattern(r"\[[EFW]\d{3,4} \d\d:")
"""The beginning of a line of PyTorch's logger. The label before it has the rank in the job, whatever group it is of."""

_IN_GROUP = lazy_pattern(r"\[PG (?:ID )?(?P<id>\w+)[^\]]* Rank \d+\]")
"""How PyTorch names a process group and the rank in it. Group 0 is the whole job."""

_LOCAL_LABEL = lazy_pattern(r"\[default(?P<local>\d{1,7})\]:")
_TASK = lazy_pattern(r"(?:^|[\]:] ?) *(?P<task>\d{1,6}): ")
_RANK = lazy_pattern(
    r"\[(?:PG [^\]]*)?[Rr]ank[ :=]?(?P<bracket>\d{1,7})\]|\[PG \d+ Rank (?P<pg>\d{1,7})\]"
    r"|\b(?:global_rank|global rank|[Rr]ank|RANK)[ :=]{1,2}(?P<word>\d{1,7})\b(?!/)"
)
_TENSOR_PARALLEL = lazy_pattern(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP(?P<tp>\d{1,7})(?: EP\d+)?\] ")
"""SGLang's prefix where it has no other dimension: the rank of tensor parallelism is then the rank."""

_LOCAL = lazy_pattern(r"(?<!--)\blocal_rank[ :=]{1,2}(?P<local>\d{1,7})\b")
_RAY = lazy_pattern(r"\((?P<actor>[\w.:-]+) pid=(?P<pid>\d+)(?:, ip=(?P<ip>[0-9a-f.:]+))?\)")
_NCCL = lazy_pattern(r"(?:^|\s)(?P<node>[\w.-]+):\d+:\d+ \[(?P<gpu>\d{1,7})\] ")
_UCX = lazy_pattern(r"^\[(?P<node>[\w.-]+):\d+ ?:\d+:\d+\] ")
"""The prefix of UCX's handler of signals: node, process, number and id of the thread."""

_SYSLOG = lazy_pattern(r"^[A-Z][a-z]{2} +\d+ [\d:]{8} (?P<node>[\w.-]+) kernel:|^\d{4}-\S+ (?P<iso>[\w.-]+) kernel:")
_NODE = lazy_pattern(rf"^(?:\[[^\]]*\] ?)?(?P<node>{_NAME}): ")
_NPU = lazy_pattern(
    r"(?:^| )\[ERROR\] \S+ \(PID:\d+, Device:(?P<gpu>-?\d{1,7}), RankID:(?P<rank>-?\d{1,7})\) ERR\d{5}\b"
)
"""What torch_npu prints in the line after an exception, and before what the device reports. -1 is unknown."""

_DEVICE = lazy_pattern(r"\b(?:cuda|npu|xpu):(?P<gpu>\d{1,7})\b")


class Origin(Struct):
    """What a line says of where its failure is; None where it says nothing.

    Attributes:
        rank, rank_by: The rank, and the rule that proves it: printed, label.
        local_rank: The rank on its node.
        task: The task of srun that printed the line. It is the rank if each task is one.
        node, gpu: Name of the node, index of the GPU on it.
        process: Name of a process that has no rank, as Ray labels it.
    """

    rank: int | None = None
    rank_by: str | None = None
    local_rank: int | None = None
    task: int | None = None
    node: str | None = None
    gpu: int | None = None
    process: str | None = None


def split_labels(line: str) -> tuple[str, str]:
    """Return the labels of launchers before a line, without the times in them, and the rest."""
    at = 0
    for _ in range(_MOST_LABELS):
        match = _LABEL.match(line, at)
        if match is None:
            break
        at = match.end()
    labels, text = _POD_TIME.sub(r"\1] ", line[:at]), line[at:]
    return labels, text.removeprefix(" ") if _SPACED.search(labels) else text


def origin_of(labels: str, text: str, offset: int) -> Origin:
    """Return where a failure comes from: `labels` and `text` are its line, its message begins at `offset`."""
    origin = Origin()
    before = text[:offset]
    if ranks := [int(match["rank"] or match["mpi"]) for match in _RANK_LABEL.finditer(labels)]:
        # `[rank3]:[rank11]: `: torchrun's label for the role `rank` has the local rank, PyTorch's after it the rank
        origin.rank, origin.rank_by = ranks[-1], "label"
        origin.local_rank = ranks[0] if len(ranks) > 1 else None
    if match := _LOCAL_LABEL.search(labels):
        origin.local_rank = int(match["local"])
    if match := _TASK.search(labels):
        origin.task = int(match["task"])
    if match := _RAY.search(labels):
        origin.process, origin.node = f"{match['actor']} pid={match['pid']}", match["ip"]
    if match := re.match(_POD, labels):
        origin.node = None if match["pod"].encode() in STREAMS else match["pod"]
    elif match := _NODE.search(labels):
        origin.node = match["node"]
    _add_from_text(origin, labels, text, before)
    return origin


def _add_from_text(origin: Origin, labels: str, text: str, before: str) -> None:
    """Add what is printed after the labels: before the failure's message, `before`, or in it."""
    if printed := _printed_rank(before) or _printed_rank(text):
        origin.rank, origin.rank_by = printed if origin.rank is None else (origin.rank, origin.rank_by)
    if origin.local_rank is None and (match := _LOCAL.search(before)):
        origin.local_rank = int(match["local"])
    if match := _NCCL.search(before):
        origin.node, origin.gpu = match["node"], int(match["gpu"])
    elif match := _UCX.match(before):
        origin.node = match["node"]
    if match := _SYSLOG.search(labels + text):
        origin.node = match["node"] or match["iso"]
    if origin.gpu is None and (match := _DEVICE.search(text)):
        origin.gpu = int(match["gpu"])


def _printed_rank(text: str) -> tuple[int, str] | None:
    """Return the rank in the job that a string names, if it names one and no other."""
    if names_rank_in_group(text):
        return None
    if match := _TENSOR_PARALLEL.match(text):
        return int(match["tp"]), "printed"
    found = {int(next(filter(None, match.groups()))) for match in _RANK.finditer(text)}
    return (found.pop(), "printed") if len(found) == 1 else None


def names_rank_in_group(text: str) -> bool:
    """Return whether a line names its rank in a process group that is not the whole job.

    Example:
        >>> names_rank_in_group("[PG ID 3 PG GUID 7(EXPERT_PG) Rank 1] Watchdog caught collective operation timeout")
        True
        >>> names_rank_in_group("[PG ID 0 PG GUID 0(default_pg) Rank 1] Watchdog caught collective operation timeout")
        False
    """
    match = _IN_GROUP.search(text)
    return match is not None and match["id"] != "0" and "default_pg" not in match[0]


def rank_of_logger(labels: str, text: str) -> int | None:
    """Return the rank that PyTorch's logger states for a line of its own.

    `[Rank 1]` in the message may be the rank in a process group.

    Example:
        >>> rank_of_logger("[rank9]:", "[E1216 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught")
        9
    """
    match = _OWN_LABEL.search(labels) if _OF_LOGGER.match(text) else None
    return None if match is None else int(match["rank"])


def npu_of(text: str) -> Origin | None:
    """Return the process that torch_npu names in the second line of an error; None for any other line.

    Example:
        >>> npu_of("[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:0, RankID:101) ERR00100 PTA call acl api failed").rank
        101
    """
    match = _NPU.search(text)
    if match is None:
        return None
    rank, gpu = (int(match[name]) for name in ("rank", "gpu"))
    return Origin(rank if rank >= 0 else None, "printed" if rank >= 0 else None, gpu=gpu if gpu >= 0 else None)


def add_place(origin: Origin, known: Origin) -> None:
    """Add the rank and the device that another line of a message names, where its own names none."""
    if origin.rank is None:
        origin.rank, origin.rank_by = known.rank, known.rank_by
    if origin.gpu is None:
        origin.gpu = known.gpu


def tasks_of(text: str) -> list[int]:
    """Return the numbers of a list such as `1,3-5`; [] if it has more than a job can have tasks."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            span = range(int(first), int(last if last.isdigit() else first) + 1)
            if span.stop > _MOST_TASKS:
                return []
            numbers += span
    return numbers
