"""Files of the processes of a job whose names state no rank: `worker_3/stdout`, `node0_gpu3.out`, `job-worker-5.log`.

Each process prints the loss of each step, which is a mean over all of them, and times of its own. So such files print
the same losses of the same steps; or their names count the GPUs of all nodes, and each prints the loss of its own part
of the batch. Their names distinguish the processes, and are no ranks: nothing shows which node has the lowest ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from perflog.formats.vocabulary import COUNTERS, EVALUATIONS
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.name_prefixes import first_step

HEAD = 1 << 16
"""Bytes of a file in which its first steps are."""

_EQUAL_LOSSES = 10  # different losses that files of one job have in common
_LOSS = lazy_pattern(rb"(?i)(?<![a-z])loss[^a-z0-9]{1,16}([0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|nan|inf)")
_STREAM = lazy_pattern(r"(?i)[-_./]?(?<![a-z])(?:std)?(?:out|err)(?![a-z])|(?<=\.)[oe](?=[0-9]{3,})")
_ENDING = lazy_pattern(r"(?i)\.(?:log|txt|jsonl)$")
_TABLE = lazy_pattern(r"(?i)\.[ct]sv$")
_ROLE = lazy_pattern(r"(?i)(?<![a-z])(?:master|chief|launcher|leader|head|worker|ps)(?![a-z])[-_]?")
_NUMBER = lazy_pattern(r"([A-Za-z]*)[-_.=]?([0-9]+)")
_GPU_OF_NODE = lazy_pattern(
    r"(?i)(?<![a-z])(?:node|host|machine|server|worker|pod)[-_.=]?(?P<node>[0-9]{1,6})(?![0-9])(?=.*?(?<![a-z])"
    r"(?:gpu|device|cuda|local[-_]?rank)[-_.=]?(?P<gpu>[0-9]{1,3})(?![0-9]))"
)
_NO_NAME = lazy_pattern(r"[^A-Za-z0-9_./-]+")
_OF_RUNS = COUNTERS | EVALUATIONS | frozenset(
    "adapter arm attempt bs candidate case config exp experiment fold job lr r rep repeat run sample seed split sweep "
    "trial try v variant version".split()
)  # fmt: skip
"""Words before the number of a run, an epoch or the like: files that differ in it are of several runs."""

Losses = dict[tuple[int, int], tuple[bytes, bytes]]
"""The printed loss of each epoch and step, with the line that prints it."""


def process_names(paths: Sequence[str]) -> list[str]:
    """Return what distinguishes the processes that print some files: their paths without what all have in common.

    The two streams of a process have one name.

    Example:
        >>> process_names(["job/worker_0/stdout", "job/worker_1/stdout", "job/worker_1/stderr"])
        ['worker_0', 'worker_1', 'worker_1']
    """
    stems = [_ENDING.sub("", _STREAM.sub("", path)) for path in paths]
    parts = [stem.split(os.sep) for stem in stems]
    same = next((n for n, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1), 0)
    last = next((n for n, names in enumerate(zip(*map(reversed, parts), strict=False)) if len(set(names)) > 1), 0)
    if len({len(each) for each in parts}) > 1:
        last = 0
    return [_NO_NAME.sub("-", os.sep.join(each[same : len(each) - last])) or "-" for each in parts]


def numbers_of_runs(path: str) -> list[str]:
    """Return the numbers of runs and the like in the folders of a file: files of one job have the same ones.

    Example:
        >>> numbers_of_runs("sweep/lr_1/node0/gpu0.log")
        ['lr_1']
    """
    return [match[0] for match in _NUMBER.finditer(os.path.dirname(path)) if match[1].lower() in _OF_RUNS]


def shape_of_process(path: str) -> str | None:
    """Return what the names of the files of all processes of a job have in common; None for a table.

    Numbers and roles of pods vary (`job-master-0.log`, `job-worker-3.log`), but not the number of a run.
    """
    if _TABLE.search(path):
        return None

    def varied(match: re.Match[str]) -> str:
        return match[0] if match[1].lower() in _OF_RUNS else f"{match[1]}#"

    return _ROLE.sub("", _NUMBER.sub(varied, path))


def count_gpus_of_nodes(paths: Sequence[str]) -> bool:
    """Return whether the names of some files count the GPUs of several nodes: each node has all of 0 to n - 1.

    Example:
        >>> count_gpus_of_nodes(["node3_gpu0.log", "node3_gpu1.log", "node7_gpu0.log", "node7_gpu1.log"])
        True
    """
    places = {gpu_of_node(path) for path in paths}
    if None in places or len({place[0] for place in places if place}) > 1:
        return False
    nodes, gpus = ({place[n] for place in places if place} for n in (1, 2))
    return min(len(nodes), len(gpus)) > 1 and gpus == {*range(len(gpus))} and len(places) == len(nodes) * len(gpus)


def gpu_of_node(path: str) -> tuple[str, int, int] | None:
    """Return the name of a file with marks for its node and its GPU, and their numbers; None if it does not name both.

    Example:
        >>> gpu_of_node("job/node03_gpu1.out")
        ('job/node#_gpu#.out', 3, 1)
    """
    found = [match for match in _GPU_OF_NODE.finditer(path) if path.count(os.sep, match.start()) < 2]
    if len(found) != 1 or _TABLE.search(path):
        return None
    (match,) = found
    shape = f"{path[: match.start('node')]}#{path[match.end('node') : match.start('gpu')]}#{path[match.end('gpu') :]}"
    return shape, int(match["node"]), int(match["gpu"])


def header_of(head: bytes) -> list[str]:
    """Return the lines before the first step."""
    lines = head.splitlines()
    first = next((n for n, line in enumerate(lines) if first_step(line) is not None), len(lines))
    return [line.decode("utf-8", "replace") for line in lines[:first]]


def printed_losses(head: bytes) -> Losses:
    """Return the first loss that each step prints, with the line."""
    found: Losses = {}
    for line in head[: head.rfind(b"\n") + 1].splitlines():
        if (loss := _LOSS.search(line)) and (step := first_step(line)) is not None:
            found.setdefault(step, (loss[1], line))
    return found


def are_processes(printed: Sequence[Losses]) -> bool:
    """Return whether files print the same losses of the same steps, on lines that differ in figures of their own.

    Copies of one log have equal lines.
    """
    if len(printed) < 2 or not all(printed):
        return False
    first = printed[0]
    for other in printed[1:]:
        shared = first.keys() & other.keys()
        losses = {first[step][0] for step in shared}
        if len(losses) < _EQUAL_LOSSES or any(first[step][0] != other[step][0] for step in shared):
            return False
    return len({tuple(line for _, line in each.values()) for each in printed}) == len(printed)


def labels_of_processes(paths: Sequence[str], heads: Iterable[bytes]) -> list[bytes]:
    """Return the label of the lines of each file; [] unless they are of several processes of one job.

    A file without steps, such as the errors of a process, counts for the process that it is named after.
    """
    names = process_names(paths)
    if len(set(names)) < 2 or any(map(_TABLE.search, paths)):
        return []
    printed: dict[str, Losses] = {}
    for name, head in zip(names, heads, strict=True):
        printed[name] = printed.get(name) or printed_losses(head)
    if not count_gpus_of_nodes(paths) and not are_processes(list(printed.values())):
        return []
    return [b"[pod/%s%s] " % (b"process-" * name.isdigit(), name.encode()) for name in names]
