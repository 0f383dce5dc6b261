"""Ranks of files: the rank of each file, and the files that are the ranks of one run.

A trace may state its rank. If it does not, the name of its file may: after the word `rank`, as in rank3.json, rank-3,
rank_03/trace.json; or, if the names of files read together differ only in one number, as that number, if the numbers
run from 0 without a gap. A number alone in the name of one file may be anything, such as a step: it proves no rank.
Neither does a coordinate: a local rank counts on one node, a tp_rank in one group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from perflog.errors import InputError
from perflog.files.remote import beginnings, is_in_storage
from perflog.formats.vocabulary import COUNTERS
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.rank_names import COORDINATES, rank_in_path, rank_in_text
from perflog.parsing.input.source import Source, open_beginning, open_source
from perflog.readers.companions import without_companions
from perflog.readers.interface import RankInfo
from perflog.readers.registry import find_reader

_NUMBERS = lazy_pattern(r"\d+")
_LINES = lazy_pattern(r"\.(?:txt|log|out|err|csv|tsv|jsonl|md)(?:\.(?:gz|zst|xz|bz2))?$", re.IGNORECASE)
_BEGINNING = 1 << 22  # bytes of a file in a storage in which its rank is looked for: all of a dump
_WORD_BEFORE = lazy_pattern(r"([a-z]+?)[-_. ]?(?:rank)?[-_. =]?$", re.IGNORECASE)

_COUNTERS = COUNTERS - {"rank"} | {"cycle"}


def ranks_of_files(files: Sequence[tuple[str, RankInfo]]) -> list[tuple[int | None, str | None]]:
    """Return the rank of each file of a run with the rule that proves it: `printed`, `file` (its name), or None.

    Args:
        files: the files' names, and what each states about its rank.
    """
    numbers = _varying_numbers([os.path.basename(name) for name, _ in files])
    ranks: list[tuple[int | None, str | None]] = []
    for index, (name, info) in enumerate(files):
        rank_in_name = rank_in_path(name)
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


def _varying_numbers(names: Sequence[str]) -> list[int]:
    """Return the only number in which the names differ, if it runs from 0 without a gap and can be a rank."""
    if len(names) < 2 or len({_NUMBERS.sub("#", name) for name in names}) > 1:
        return []
    columns = list(zip(*(map(int, _NUMBERS.findall(name)) for name in names), strict=True))
    varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if len(varying) != 1 or sorted(columns[varying[0]]) != list(range(len(names))):
        return []
    before = _NUMBERS.split(names[0])[varying[0]]
    word = _WORD_BEFORE.search(before)
    other = word is not None and word[1].lower() in COORDINATES | _COUNTERS
    return [] if other else list(columns[varying[0]])


def group_rank_files(names: Sequence[LogName]) -> list[LogName]:
    """Replace the names of the files of one run by one name, such as trace{0..7}.json. Other names stay as they are,
    but companions, which are read with another file, are left out.

    Args:
        names: names of files, of traces and of other logs.

    Returns:
        Names of logs, in the order of the files.
    """
    names = without_companions(names)
    if len(names) < 2:
        return names
    stated = {name: info for name in names if (info := _rank_info(name)) is not None} | _remote_rank_infos(names)
    infos = {str(name): stated[name] for name in names if name in stated}
    if len(infos) < 2:
        return names
    log_of_file: dict[str, LogName] = {}
    for files in runs_of_files(list(infos.items())):
        log = LogName.from_files(files)
        if log is not None and LogName.parse(log.log) == log:  # else a file of that very name exists
            log_of_file |= dict.fromkeys(files, log)
    return list(dict.fromkeys(log_of_file.get(str(name), name) for name in names))


def _rank_info(name: LogName) -> RankInfo | None:
    """Return what a file states about its rank; None for a log of lines, and for an unreadable file."""
    if name.run or not os.path.isfile(unpacked_path(name.log)):
        return None
    try:
        with open_source(name) as source:
            return _stated_in(source)
    except InputError:
        return None  # reading the log will report the error


def _stated_in(source: Source) -> RankInfo | None:
    reader = find_reader(source)
    return reader.rank_info(source) if reader is not None else None


def _remote_rank_infos(names: Sequence[LogName]) -> dict[LogName, RankInfo]:
    """Return what files in storages state about their ranks in their first bytes.

    Files are asked only if their names differ in numbers alone and do not end as names of text logs do.
    """
    shapes: dict[str, list[LogName]] = {}
    for name in names:
        if is_in_storage(name.log) and not name.run and not _LINES.search(name.log):
            shapes.setdefault(_NUMBERS.sub("#", name.log), []).append(name)
    by_address = {name.log: name for alike in shapes.values() if len(alike) > 1 for name in alike}
    infos: dict[LogName, RankInfo] = {}
    for address, data in beginnings(list(by_address), _BEGINNING):
        with suppress(InputError), open_beginning(by_address[address], data) as source:
            info = _stated_in(source)
            if info is not None:
                infos[by_address[address]] = info
    return infos


def runs_of_files(files: Sequence[tuple[str, RankInfo]]) -> list[list[str]]:
    """Group files that are the ranks of one run.

    Files of one run are in one folder, or in folders that differ only in the rank in their names; the files' names
    differ only in numbers, all ranks are known and distinct, and no two state different world sizes. A profiler that
    was started several times leaves a round of files each time: each round is a run (see `_profiling_rounds`).

    Args:
        files: names, and what each file states about its rank.

    Returns:
        Names of the files of each run, in the order given.
    """
    groups: dict[tuple[str, str], list[tuple[str, RankInfo]]] = {}
    for name, info in files:
        folder, base = os.path.split(name)
        groups.setdefault((_without_rank(folder), _NUMBERS.sub("#", base)), []).append((name, info))
    runs = []
    for group in groups.values():
        ranks = [rank for rank, _ in ranks_of_files(group)]
        world_sizes = {info.world_size for _, info in group}
        known = [(rank, name) for rank, (name, _) in zip(ranks, group, strict=True) if rank is not None]
        rounds = _profiling_rounds(known) if len(known) == len(group) and len(world_sizes) == 1 else []
        runs += [[name for _, name in sorted(files)] for files in rounds] or [[name] for name, _ in group]
    return runs


def _without_rank(folder: str) -> str:
    """Return a folder with `#` for the rank in its own name."""
    parent, name = os.path.split(folder)
    return os.path.join(parent, _NUMBERS.sub("#", name)) if rank_in_text(name) is not None else folder


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
