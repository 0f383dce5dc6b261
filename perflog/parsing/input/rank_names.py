"""Ranks in the names of files and processes: `rank_3.log`, `rank-03/trace.json`.

A coordinate is no rank: a local rank counts on one node, a tp_rank in one group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import chain

from perflog.lazy_patterns import lazy_pattern

_RANK = lazy_pattern(r"(?:(?<![a-z])([a-z]+)[-_. ])?(?<![a-z])rank[-_. =]?(\d+)(?!\d)", re.IGNORECASE)
_NODE = lazy_pattern(r"(?<![a-z])(?:node|host)[-_. =]?(\d+)(?!\d)", re.IGNORECASE)
_PRINTED = lazy_pattern(rb"(?i)(?<![a-z0-9])r(?:an)?k?[ :=_-]{0,2}([0-9]{1,6})(?![0-9.])")
_OF_TORCHRUN = lazy_pattern(r"(?:^|/)attempt_\d{1,4}/(\d{1,4})/(?:stdout|stderr)\.log$")

COORDINATES = frozenset(
    "local node host machine dp tp pp ep cp sp mp vpp etp edp dcp pcp data tensor pipe pipeline model expert context "
    "sequence parallel group shard replica role lora".split()
)
"""Words before `rank` or a number that make it an index on a node or in a group of ranks, and no rank of the job."""

MAX_RANK = (1 << 31) - 1


def rank_in_path(path: str) -> int | None:
    """Return the rank in the name of a file, else that in the name of its folder."""
    folder, base = os.path.split(path)
    in_base = rank_in_text(base)
    return rank_in_text(os.path.basename(folder)) if in_base is None and not _RANK.search(base) else in_base


def rank_in_text(text: str) -> int | None:
    """Return the only rank of the job that a name states; None if it states none, several, or only coordinates."""
    ranks = {int(digits) for word, digits in _RANK.findall(text) if word.lower() not in COORDINATES}
    return ranks.pop() if len(ranks) == 1 and max(ranks) <= MAX_RANK else None


def local_rank_in_path(path: str) -> int | None:
    """Return the local rank in the name of a file of `torchrun --redirects`: `.../attempt_0/3/stdout.log`."""
    found = _OF_TORCHRUN.search(path)
    return int(found[1]) if found else None


def errors_of_torchrun(path: str) -> str | None:
    """Return the file of the errors of a rank beside that of its output: `attempt_0/3/stderr.log`."""
    folder, base = os.path.split(path)
    return os.path.join(folder, "stderr.log") if base == "stdout.log" and local_rank_in_path(path) is not None else None


def node_in_path(path: str) -> re.Match[str] | None:
    """Return where the name of a file states the number of a node: `train_node03.log`; None if it states no node."""
    return _NODE.search(path, path.rfind(os.sep) + 1)


def printed_ranks(head: bytes) -> set[int]:
    """Return the ranks that the first lines of a log print."""
    return {int(digits) for digits in _PRINTED.findall(head)}


def are_divided(ranks: Sequence[set[int]]) -> bool:
    """Return whether the ranks of several logs are all ranks of one job, each in one log."""
    every = sorted(chain(*ranks))
    return len(ranks) > 1 and all(ranks) and every == list(range(len(every)))


def label_of_file(path: str) -> bytes:
    """Return the label of the lines of a file if its name states a rank or a node; else nothing."""
    if (rank := rank_in_path(path)) is not None:
        return b"[rank%d]:" % rank
    if (local := local_rank_in_path(path)) is not None:
        return b"[default%d]:" % local
    return b"[pod/%s] " % node[0].encode() if (node := node_in_path(path)) else b""
