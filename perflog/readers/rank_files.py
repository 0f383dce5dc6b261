"""Ranks of files: the rank of each file, and the files that are the ranks of one run.

A trace may state its rank. If it does not, the name of its file may: after the word `rank`, as in rank3.json, rank-3,
rank_03; or, for files read together whose names differ only in one number, as that number, if the numbers run from 0
without a gap. A number alone in the name of one file may be anything, such as a step: it proves no rank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from perflog.errors import InputError
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import open_source
from perflog.readers.interface import RankInfo
from perflog.readers.registry import find_reader

_RANK = re.compile(r"(?<![a-z])rank[-_. =]?(\d+)(?!\d)", re.IGNORECASE)
_NUMBERS = re.compile(r"\d+")

MAX_RANK = (1 << 31) - 1


def ranks_of_files(files: Sequence[tuple[str, RankInfo]]) -> list[tuple[int | None, str | None]]:
    """Return the rank of each file of a run with the rule that proves it: `printed`, `file` (its name), or None.

    Args:
        files: the files' names, and what each states about its rank.
    """
    names = [os.path.basename(name) for name, _ in files]
    numbers = _varying_numbers(names)
    ranks: list[tuple[int | None, str | None]] = []
    for index, (name, (_, info)) in enumerate(zip(names, files, strict=True)):
        rank_in_name = _rank_in_name(name)
        if info.rank is not None:
            ranks.append((info.rank, "printed"))
        elif rank_in_name is not None:
            ranks.append((rank_in_name, "file"))
        else:
            ranks.append((numbers[index], "file") if numbers else (None, None))
    return ranks


def rank_of_file(name: str) -> tuple[int | None, str | None]:
    """Return the rank of a file that is a run of its own and states no rank, with the rule that proves it."""
    return ranks_of_files([(name, RankInfo())])[0]


def _rank_in_name(name: str) -> int | None:
    ranks = {int(digits) for digits in _RANK.findall(name)}
    return ranks.pop() if len(ranks) == 1 and max(ranks) <= MAX_RANK else None


def _varying_numbers(names: Sequence[str]) -> list[int]:
    """Return the only number in which the names differ, if it runs from 0 without a gap; else nothing."""
    if len(names) < 2 or len({_NUMBERS.sub("#", name) for name in names}) > 1:
        return []
    columns = zip(*(map(int, _NUMBERS.findall(name)) for name in names), strict=True)
    varying = [list(column) for column in columns if len(set(column)) > 1]
    return varying[0] if len(varying) == 1 and sorted(varying[0]) == list(range(len(names))) else []


def group_rank_files(names: Sequence[LogName]) -> list[LogName]:
    """Replace the names of the files of one run by one name, such as trace{0..7}.json. Other names stay as they are.

    Args:
        names: names of files, of traces and of other logs.

    Returns:
        Names of logs, in the order of the files.
    """
    if len(names) < 2:
        return list(names)
    infos = {str(name): info for name in names if (info := _rank_info(name)) is not None}
    if len(infos) < 2:
        return list(names)
    log_of_file: dict[str, LogName] = {}
    for files in runs_of_files(list(infos.items())):
        log = LogName.of_files(files)
        if log is not None and LogName.parse(log.log) == log:  # else a file of that very name exists
            log_of_file |= dict.fromkeys(files, log)
    return list(dict.fromkeys(log_of_file.get(str(name), name) for name in names))


def _rank_info(name: LogName) -> RankInfo | None:
    """Return what a file states about its rank; None for a log of lines, and for an unreadable file."""
    if name.run or not os.path.isfile(name.log):
        return None
    try:
        with open_source(name) as source:
            reader = find_reader(source)
            return reader.rank_info(source) if reader is not None else None
    except InputError:
        return None  # reading the log will report the error


def runs_of_files(files: Sequence[tuple[str, RankInfo]]) -> list[list[str]]:
    """Group files that are the ranks of one run.

    Files of one run are in one folder, their names differ only in numbers, all ranks are known and distinct, and no two
    state different world sizes. A profiler that was started several times leaves a round of files each time: each round
    is a run (see `_profiling_rounds`).

    Args:
        files: names, and what each file states about its rank.

    Returns:
        Names of the files of each run, in the order given.
    """
    groups: dict[tuple[str, str], list[tuple[str, RankInfo]]] = {}
    for name, info in files:
        folder, base = os.path.split(name)
        groups.setdefault((folder, _NUMBERS.sub("#", base)), []).append((name, info))
    runs = []
    for group in groups.values():
        ranks = [rank for rank, _ in ranks_of_files(group)]
        world_sizes = {info.world_size for _, info in group}
        known = [(rank, name) for rank, (name, _) in zip(ranks, group, strict=True) if rank is not None]
        rounds = _profiling_rounds(known) if len(known) == len(group) and len(world_sizes) == 1 else []
        runs += [[name for _, name in sorted(files)] for files in rounds] or [[name] for name, _ in group]
    return runs


def _profiling_rounds(files: Sequence[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Split ranks and names into rounds with every rank once; return nothing if the names do not separate rounds.

    Names end in the time at which they were written. All files of a round come before all of the next one; if the ranks
    were so far apart that they do not, the order is unknown.
    """
    count = len({rank for rank, _ in files})
    if count == len(files):
        return [list(files)]
    numbers = [[int(digits) for digits in _NUMBERS.findall(os.path.basename(name))] for _, name in files]
    if not all(numbers):
        return []
    by_time = [file for _, file in sorted(zip((row[-1] for row in numbers), files, strict=True))]
    rounds = [by_time[i : i + count] for i in range(0, len(by_time), count)]
    return rounds if all(len({rank for rank, _ in files}) == count for files in rounds) else []
