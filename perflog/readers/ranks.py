"""Which rank a file is of, and which files are the ranks of one run.

A trace may say its rank. If not, its file's name may: behind the word `rank`, as in rank3.json, rank-3, rank_03; or, of
files given together whose names differ in nothing else, as the number that goes from 0 to one less than they are many.
A number alone in the name of one file may be anything, such as a step: it tells no rank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from perflog.parsing.input.references import braced

_RANK = re.compile(r"(?<![a-z])rank[-_. =]?(\d+)(?!\d)", re.IGNORECASE)
_NUMBERS = re.compile(r"\d+")
_MOST = 1 << 31

Told = dict[str, Any]


def numbered(files: Sequence[tuple[str, Told]]) -> list[tuple[int | None, str | None]]:
    """Rank of each file of a run, and the rule: printed, or file (its name); None where nothing tells it.

    `files`: their names, and what each says of itself.
    """
    names = [os.path.basename(name) for name, _ in files]
    counted = _counted(names)
    out: list[tuple[int | None, str | None]] = []
    for place, (name, (_, told)) in enumerate(zip(names, files, strict=True)):
        printed, named = printed_rank(told), _named(name)
        if printed is not None:
            out.append((printed, "printed"))
        elif named is not None:
            out.append((named, "file"))
        else:
            out.append((counted[place], "file") if counted else (None, None))
    return out


def printed_rank(told: Told) -> int | None:
    """The rank that a trace says it is of."""
    job = told.get("distributedInfo")
    rank = job.get("rank") if isinstance(job, dict) else None
    if isinstance(rank, str) and rank.isdecimal():
        rank = int(rank)
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < _MOST else None


def _named(name: str) -> int | None:
    found = {int(n) for n in _RANK.findall(name)}
    return found.pop() if len(found) == 1 and max(found) < _MOST else None


def _counted(names: Sequence[str]) -> list[int]:
    """The only number in which the names differ, where it goes from 0 without a gap; else nothing."""
    if len(names) < 2 or len({_NUMBERS.sub("#", name) for name in names}) > 1:
        return []
    columns = zip(*(map(int, _NUMBERS.findall(name)) for name in names), strict=True)
    varying = [list(column) for column in columns if len(set(column)) > 1]
    return varying[0] if len(varying) == 1 and sorted(varying[0]) == list(range(len(names))) else []


def runs_of(files: Sequence[tuple[str, Told]]) -> list[list[str]]:
    """Names of files, those together that are the ranks of one run; in the order in which they were given.

    They lie in one folder, their names are alike but for numbers, all ranks are known and distinct, and no two say
    another world size. A profiler that was started several times leaves a round of files each time: see `_rounds`.
    """
    groups: dict[tuple[str, str], list[tuple[str, Told]]] = {}
    for name, told in files:
        folder, base = os.path.split(name)
        groups.setdefault((folder, _NUMBERS.sub("#", base)), []).append((name, told))
    out = []
    for group in groups.values():
        ranks = [rank for rank, _ in numbered(group)]
        sizes = {str((told.get("distributedInfo") or {}).get("world_size")) for _, told in group}
        known = [(rank, name) for rank, (name, _) in zip(ranks, group, strict=True) if rank is not None]
        rounds = _rounds(known) if len(known) == len(group) and len(sizes) == 1 else []
        out += [[name for _, name in sorted(one)] for one in rounds] or [[name] for name, _ in group]
    return out


def _rounds(files: Sequence[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Ranks and names, each round with every rank once; nothing if the names do not tell rounds apart.

    Names end in the time at which they were written. All files of a round come before all of the next one; if ranks
    were so far apart that they do not, no order is known.
    """
    count = len({rank for rank, _ in files})
    if count == len(files):
        return [list(files)]
    times = [[int(n) for n in _NUMBERS.findall(os.path.basename(name))] for _, name in files]
    if not all(times):
        return []
    later = [file for _, file in sorted(zip((t[-1] for t in times), files, strict=True))]
    rounds = [later[i : i + count] for i in range(0, len(later), count)]
    return rounds if all(len({rank for rank, _ in one}) == count for one in rounds) else []


def together(files: Sequence[tuple[str, Told]]) -> list[str]:
    """Names of logs: the ranks of a run under one name."""
    joined = ((braced(names), names) for names in runs_of(files))
    return [name for one, names in joined for name in ([one] if one else names)]
