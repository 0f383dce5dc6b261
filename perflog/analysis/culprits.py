"""Culprits: who is accused of a failure, with the lines that prove it.

Who it is, is decided elsewhere: `failures.first_cause` judges messages, `jobs.stuck_ranks` the dumps of a hang. This
module adds node, device and lines to the judgement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from perflog.grouping import grouped
from perflog.parsing.failures.first_cause import NOT_KNOWN, ONE_OF, Judgement
from perflog.parsing.failures.kinds import is_plain
from perflog.parsing.failures.rows import FailureRow
from perflog.units import numbered

EVIDENCE = 4
"""Lines of the evidence of a failure."""


class Culprit(Struct, frozen=True):
    """Who is accused: what is known of rank, task, node, GPU and device, and the lines that prove it."""

    rank: int | None
    task: int | None
    node: str | None
    gpu: int | None
    device: str | None
    kind: str
    certainty: str
    evidence: tuple[str, ...]
    local_rank: int | None = None
    link: str | None = None
    expert: int | None = None
    stage: int | None = None
    dp_rank: int | None = None
    cost: str | None = None

    @property
    def name(self) -> str:
        """The rank, or what else tells it apart: `rank 5 (node3, GPU 5)`."""
        parts = [f"rank {self.rank}"] if self.rank is not None else []
        parts += [f"local rank {self.local_rank}"] if self.rank is None and self.local_rank is not None else []
        parts += [f"task {self.task}"] * (self.task is not None and self.task != self.rank)
        parts += [self.node] if self.node is not None else []
        numbers = {"GPU": self.gpu, "device": self.device, "link": self.link, "expert": self.expert}
        numbers |= {"dp rank": self.dp_rank, "stage": self.stage}
        parts += [f"{what} {number}" for what, number in numbers.items() if number is not None]
        return parts[0] + (f" ({', '.join(parts[1:])})" if len(parts) > 1 else "") if parts else ""

    @property
    def is_rank_alone(self) -> bool:
        """Whether no more than its rank is known, or its rank and node."""
        return self.rank is not None and self.name == f"rank {self.rank}" + (f" ({self.node})" if self.node else "")

    def as_json(self) -> dict[str, Any]:
        """What is known of it, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def names_of(culprits: Collection[Culprit]) -> list[str]:
    """Return the names of culprits; ranks of a node have one if no more is known of them: `ranks 40-47 (node5)`."""
    ranks = grouped((each.node, each.rank) for each in culprits if each.rank is not None and each.is_rank_alone)
    together = {node: numbered("rank", {*own}) + (f" ({node})" if node else "") for node, own in ranks.items()}
    names = (together[each.node] if each.is_rank_alone else each.name for each in culprits)
    return list(dict.fromkeys(filter(None, names)))


def culprits_of(rows: Sequence[FailureRow], judged: Judgement) -> list[Culprit]:
    """Return the culprits. What other lines show of the same rank or task, such as its node, is added."""
    if judged.certainty == NOT_KNOWN:
        return []
    kind = judged.kind or ""
    if judged.link is not None:
        texts = _texts(judged.first)
        return [Culprit(None, None, None, None, None, kind, judged.certainty, texts, link=judged.link)]
    told = [row for row in judged.first if row.kind == kind] or judged.first
    if judged.ranks:
        rows_by_rank: list[tuple[int | None, list[FailureRow]]] = [
            (rank, [row for row in judged.first if row.rank == rank]) for rank in judged.ranks
        ]
    elif judged.certainty == ONE_OF:
        places = {(row.node, row.device, row.gpu): row for row in reversed(told)}
        if len(places) > 1 and (None, None, None) in places:
            return []  # one that is not named may as well be the first
        rows_by_rank = [(None, [row]) for row in reversed(places.values())]
    else:
        rows_by_rank = [(None, told[:1])]
    found = []
    for rank, own in rows_by_rank:
        unnamed = [row for row in judged.first if row.rank is None] if len(rows_by_rank) == 1 else []
        about = [*own, *unnamed]
        task = _first(about, "task")
        others = [row for row in rows if rank is not None and row.rank == rank]
        others += [row for row in rows if task is not None and row.task == task]
        task_rows = [row for row in others if row.task is not None]
        node = _first(task_rows, "node") or _first([*about, *others], "node")
        # a device that the message of an exception names, as `cuda:0`, is not what failed, nor is the device of a port
        no_gpu = is_plain(kind) or kind == "port_error"
        gpu, device = None if no_gpu else _first(about, "gpu"), _first(about, "device")
        local = _first(about, "local_rank")
        if all(each is None for each in (rank, task, node, gpu, device, local)) or kind in ("time_limit", "preemption"):
            continue
        evidence = about or list(judged.first)
        found.append(
            Culprit(
                rank, task, node, gpu, device, kind, judged.certainty,
                _texts(evidence),
                local,
            )
        )  # fmt: skip
    return found


def with_hosts(culprits: Sequence[Culprit], hosts: Mapping[int, str | None]) -> list[Culprit]:
    """Return culprits with the host of their rank as node, where no line about them names one; `hosts`: by rank."""
    return [
        replace(each, node=hosts.get(each.rank)) if each.node is None and each.rank is not None else each
        for each in culprits
    ]


def _texts(rows: Sequence[FailureRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"line {row.line}: {text_of(row)}" for row in rows[:EVIDENCE]))


def _first(rows: Sequence[FailureRow], name: str) -> Any:
    return next((value for row in rows if (value := getattr(row, name)) is not None), None)


def text_of(row: FailureRow) -> str:
    """Return the message of a failure in one line, with the rank of its label."""
    label = f"[rank {row.rank}] " if row.rank is not None and row.rank_by == "label" else ""
    return label + row.message.replace("\n", " | ")
