"""Logs of one job: files of a folder that ranks or programs of one job print, which are read as one log.

What is in the names and on the clocks of the files decides, never their order:

- Ranks: names that differ in the rank alone (`rank_3.log`, torchrun's `attempt_0/3/stdout.log`), from 0 on,
  and time stamps that overlap; or no time stamps, all ranks, about the same length, and the same program.
- Nodes: names that differ in numbers alone, and lines with all ranks of a job, each in one log.
- Processes: names that differ in numbers or in their folder, equal losses of equal steps at equal times; or names that
  count the GPUs of all nodes, equal settings, and equal steps at equal times.
- Rotation: `train.log.2`, `train.log.1` and `train.log` of one program, each after the other by its clock and steps.
- Streams: `train.out` and `train.err`.
- Programs: logs with the same job id in their names; or a log of a program that only adds figures, such as a library
or a monitor, if its time stamps lie within the only log beside it that fits.

Two logs in which the same program prints steps are two runs, whatever their names say, unless they are of two ranks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from perflog.errors import InputError
from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.grouping import grouped
from perflog.ingestion.detect import detect
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.log_names import LogName, shown_name
from perflog.parsing.input.name_prefixes import first_step
from perflog.parsing.input.process_files import (
    HEAD,
    Losses,
    are_processes,
    count_gpus_of_nodes,
    gpu_of_node,
    header_of,
    numbers_of_runs,
    printed_losses,
    shape_of_process,
)
from perflog.parsing.input.program_headers import are_alike
from perflog.parsing.input.rank_names import (
    are_divided,
    errors_of_torchrun,
    local_rank_in_path,
    printed_ranks,
    rank_in_path,
)
from perflog.parsing.input.source import Source, open_source
from perflog.parsing.match.line_stamps import HEAD_BYTES, go_in_step
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.parsing.match.stamp_layouts import stamp_of
from perflog.readers.rank_files import group_rank_files
from perflog.readers.registry import find_reader
from perflog.readers.setting_files import with_settings
from perflog.tables.schema import NO_DATE
from perflog.units import first_few, plural

if TYPE_CHECKING:
    import pyarrow as pa

_RANK = lazy_pattern(r"(?i)(rank[-_. =]?)(\d+)")
_TORCHRUN = lazy_pattern(r"(attempt_[0-9]+/)(\d+)(?=/)")
_STREAM = lazy_pattern(r"(?<![a-z])(?:std)?(?:out|err)(?![a-z])|(?<=\.)[oe](?=[0-9]{3,})")
_JOB_ID = lazy_pattern(
    r"(?:(?<![a-z])(?:slurm|job|jobid|job[-_.]id|pbs)[-_.=]?|(?<=\.)[oe])([0-9]{3,}(?:_[0-9]+)?)(?!\d)"
)
_ROTATED = lazy_pattern(r"(.*)\.([1-9][0-9]{0,3})(?:\.(?:gz|zst|xz|bz2))?")
_DIGITS = lazy_pattern(r"[0-9]+")
_BYTES = 1 << 16  # of the beginning and of the end of a log
_MOST_LINES = 200  # at either end, in which a time stamp is looked for
_ALIKE = 1.2  # size of the longest log of a rank / size of the shortest
_MOST_LOST, _NAMED = 2, 8  # a file may be missing for every two that are there; ranks in a sentence
_IN_STEP = 10  # steps with stamps
_MOST_NODES = 1 << 14  # logs, of which the first lines are read
_FEW = 8  # logs of a folder with programs that are looked for

_T = TypeVar("_T")

_Span = tuple[str, int, int]
"""The clock of some time stamps, the first and the last of them."""


class JobLogs(Struct, frozen=True):
    """The logs of some names, with the logs of one job as one, and what the reader must know of it."""

    names: list[LogName]
    notes: list[str]


class _File(Struct, frozen=True, dict=True):
    """A log of lines in a file."""

    name: LogName

    @property
    def path(self) -> str:
        return self.name.log

    @cached_property
    def span(self) -> _Span | None:
        """The clock of the stamps of its lines, the first and the last of them; None if it has none."""
        with suppress(InputError), open_source(self.name) as source:
            lines = source.first_bytes(_BYTES).split(b"\n")[:_MOST_LINES]
            first = next(_stamps(lines), None)
            if first is None:
                return None
            ends = source.last_bytes(_BYTES).split(b"\n")[-_MOST_LINES:]
            last = next((stamp for stamp in _stamps(reversed(ends)) if stamp[0] == first[0]), first)
            if last[1] >= first[1]:
                return *first, last[1]
        return None

    @cached_property
    def ranks(self) -> set[int]:
        """The ranks that its first lines print."""
        return self.seen(lambda source: printed_ranks(source.first_bytes(_BYTES)), set[int]())

    @cached_property
    def first_step(self) -> tuple[int, int] | None:
        """The first epoch and step that its first lines print; None if they print none."""
        return self.seen(lambda source: first_step(source.first_bytes(_BYTES)), None)

    @cached_property
    def head(self) -> bytes:
        """The lines of its first steps, and what precedes them."""
        return self.seen(lambda source: source.first_bytes(HEAD), b"")

    @cached_property
    def losses(self) -> Losses:
        """The losses of its first steps."""
        return printed_losses(self.head)

    @cached_property
    def formats(self) -> list[Format]:
        """The formats that its first lines show."""
        every = known().values()
        return self.seen(lambda source: [found.format for found in detect(source.head(_BYTES), every).formats], [])

    @property
    def programs(self) -> set[str]:
        """The programs that print steps or open runs in it."""
        return {form.name for form in self.formats if not form.library}

    @property
    def only_adds(self) -> bool:
        """Whether all that print in it only add figures to the runs of others: libraries, launchers, monitors."""
        return bool(self.formats) and not self.programs

    def seen(self, look: Callable[[Source], _T], unread: _T) -> _T:
        """Return what a look into the file shows. `unread`: the same for a file that cannot be read."""
        with suppress(InputError), open_source(self.name) as source:
            return look(source)
        return unread


def group_job_logs(names: Sequence[LogName]) -> JobLogs:
    """Replace the names of files of one run or job by one name. Other names stay as they are."""
    names = with_settings(names)
    settings = {name.log: name.settings for name in names if name.settings}
    grouped = group_rank_files(names)
    files = [
        _File(name)
        for name in grouped
        if not name.run and len(name.files) == 1 and os.path.isfile(unpacked_path(name.log))
    ]
    joined: dict[str, LogName | None] = {}  # by file
    notes: list[str] = []
    for find in (_ranks, _nodes, _rotated, _gpus_of_nodes, _processes, _programs):
        for job_files, evidence in find([file for file in files if file.path not in joined]):
            name = LogName.from_files([file.path for file in job_files])
            if name is not None and LogName.parse(name.log) != name:
                name = None  # a file of that very name exists
            joined |= dict.fromkeys((file.path for file in job_files), name)
            if name is not None:
                notes.append(f"{shown_name(str(name))}: {len(job_files):,} logs of one job are read as one: {evidence}")
    every = dict.fromkeys(joined.get(str(name)) or name for name in grouped)
    return JobLogs([replace(name, settings=settings.get(name.files[0], {})) for name in every], notes)


def apart(runs: pa.Table) -> list[str]:
    """Return what the reader must know of logs that only add figures to runs, and are read as runs of their own.

    Args:
        runs: Table `runs`.
    """
    formats: dict[str, set[str]] = {}
    for row in runs.select(["log", "format", "joined_formats"]).to_pylist():
        formats.setdefault(row["log"], set()).update(
            [row["format"], *filter(None, (row["joined_formats"] or "").split(", "))]
        )
    libraries = {name for name, form in known().items() if form.library}
    alone = [log for log, names in formats.items() if libraries.issuperset(names)]
    programs = {name for name, form in known().items() if not form.library and not form.generic}
    others = [log for log in formats if log not in alone]
    by_folder = Counter(map(os.path.dirname, others))
    counts_by_folder = Counter(os.path.dirname(log) for log in others if not programs.isdisjoint(formats[log]))
    logs_beside = {**by_folder, **counts_by_folder}
    # Beside one log, or one log of a known program, it is of the job of that log.
    alone = [log for log in alone if logs_beside.get(os.path.dirname(log), 0) > 1]
    if not alone or len(formats) > _FEW:
        return []
    return [f"{', '.join(alone)}: only libraries print in it, and nothing shows to which job it belongs: read apart"]


def _stamps(lines: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    return (stamp for line in lines if (stamp := _stamp(line)) is not None)


def _stamp(line: bytes) -> tuple[str, int] | None:
    return stamp_of(strip_rank_labels(line[:HEAD_BYTES])) if line else None


def _is_of_lines(file: _File) -> bool:
    return file.seen(lambda source: find_reader(source) is None and not source.looks_binary(), False)


def _ranks(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the files that are the ranks of one job."""
    alike: dict[tuple[str, str], dict[int, _File]] = {}
    for file in files:
        for rank, kind in ((rank_in_path(file.path), "rank"), (local_rank_in_path(file.path), "local rank")):
            if rank is not None:
                alike.setdefault((_without(file.path, rank, kind), kind), {})[rank] = file
                break
    by_path = {file.path: file for file in files}
    for (_, kind), by_rank in _of_all_folders(alike).items():
        lost_count = max(by_rank) + 1 - len(by_rank)
        if len(by_rank) < 2 or 0 not in by_rank or lost_count > len(by_rank) // _MOST_LOST:
            continue
        lost = [rank for rank in range(max(by_rank)) if rank not in by_rank]
        job_files = [by_rank[rank] for rank in sorted(by_rank)]
        clocks = _clocks(job_files)
        if lost:
            names = f"{plural('rank', len(lost))} {first_few(map(str, lost), _NAMED)}"
            clocks = f"{clocks}; there is no file of {names}" if _overlap(job_files) else ""
        if clocks and all(map(_is_of_lines, job_files)):
            errors = (by_path.get(errors_of_torchrun(file.path) or "") for file in job_files)
            # What ended a rank comes after all steps. Most ranks print no error.
            job_files += (file for file in errors if file is not None and os.path.getsize(unpacked_path(file.path)))
            yield job_files, f"their names state its {kind}s, and {clocks}"


def _of_all_folders(alike: Mapping[tuple[str, str], dict[int, _File]]) -> dict[tuple[str, str], dict[int, _File]]:
    """Join files of ranks in numbered folders, such as those of nodes, if no rank is in two of them.

    `alike`: by path without the rank, and kind of the rank.
    """
    folders = grouped(((_numbered_folder(path), kind), (path, kind)) for path, kind in alike)
    joined: dict[tuple[str, str], dict[int, _File]] = {}
    for shape, keys in folders.items():
        ranks = [rank for key in keys for rank in alike[key]]
        is_divided = len(keys) > 1 and len(set(ranks)) == len(ranks)
        together = {rank: file for key in keys for rank, file in alike[key].items()}
        if is_divided and _overlap([*together.values()]):
            joined[shape] = together
        else:
            joined |= {key: alike[key] for key in keys}
    return joined


def _numbered_folder(path: str) -> str:
    """Return a path with `#` for the numbers in the name of the innermost folder that has some."""
    *folders, base = path.split("/")
    numbered = next((place for place in reversed(range(len(folders))) if _DIGITS.search(folders[place])), None)
    if numbered is not None:
        folders[numbered] = _DIGITS.sub("#", folders[numbered])
    return "/".join([*folders, base])


def _nodes(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the files that the nodes of one job print: together they have each rank from 0 on, each rank in one."""
    alike: dict[str, list[_File]] = {}
    for file in files:
        alike.setdefault(_DIGITS.sub("#", file.path), []).append(file)
    for job_files in alike.values():
        if not 1 < len(job_files) <= _MOST_NODES or not all(file.ranks for file in job_files):
            continue
        if not are_divided([file.ranks for file in job_files]) or not all(map(_is_of_lines, job_files)):
            continue
        is_timed = any(file.span is not None for file in job_files)
        if _overlap(job_files) if is_timed else _are_of_one_program(job_files):
            yield job_files, "their names differ in a number, and each has ranks that the others lack"


def _rotated(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the parts of a log that was renamed whenever it was full, the oldest first."""
    newest = {file.path: file for file in files}
    older: dict[str, dict[int, _File]] = {}
    for file in files:
        if (found := _ROTATED.fullmatch(file.path)) and found[1] in newest:
            older.setdefault(found[1], {})[int(found[2])] = file
    for path, by_age in older.items():
        parts = [by_age[age] for age in sorted(by_age, reverse=True)] + [newest[path]]
        spans = [part.span for part in parts if part.span is not None]
        follow = len(spans) == len(parts) and all(a[0] == b[0] and a[2] <= b[1] for a, b in pairwise(spans))
        steps = [part.first_step for part in parts if part.first_step is not None]
        follow &= all(a < b for a, b in pairwise(steps))  # else a program renames the log of its run before
        is_whole = sorted(by_age) == list(range(1, len(by_age) + 1))
        if is_whole and follow and all(map(_is_of_lines, parts)) and _are_of_one_program(parts):
            yield parts, "their names number the parts of one log, and each goes on where the last one ended"


def _gpus_of_nodes(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the files of the GPUs of all nodes of a job. Each prints the loss of its part of the batch."""
    alike = grouped((place[0], file) for file in files if (place := gpu_of_node(file.path)) is not None)
    for job_files in alike.values():
        if not count_gpus_of_nodes([file.path for file in job_files]) or not _are_in_step(job_files):
            continue
        if _are_of_one_program(job_files) and are_alike([header_of(file.head) for file in job_files]):
            yield job_files, "their names count the GPUs of all nodes, and they print the same steps at the same times"


def _processes(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the files that the processes of one job print, and the files of their errors. The names state no rank."""
    alike = grouped((shape, file) for file in files if (shape := shape_of_process(file.path)) is not None)
    by_loss: dict[tuple[str, int, str, object], list[_File]] = {}
    for shape, each in alike.items():
        for file in each:
            if not file.losses or printed_ranks(b"\n".join(line for _, line in file.losses.values())):
                continue
            runs = " ".join(numbers_of_runs(file.path))
            key = os.path.basename(shape), shape.count(os.sep), runs, next(iter(file.losses.values()))[0]
            by_loss.setdefault(key, []).append(file)
    streams = grouped((stem, file) for file in files if (stem := _stream(file)) is not None)
    for job_files in by_loss.values():
        if len(job_files) < 2 or not are_processes([file.losses for file in job_files]) or not _are_in_step(job_files):
            continue
        stems = [stem for file in job_files if (stem := _stream(file)) is not None]
        errors = [other for stem in stems for other in streams[stem] if other not in job_files]
        written = [file for file in errors if os.path.getsize(unpacked_path(file.path))]
        yield [*job_files, *written], "they print the same losses of the same steps at the same times"


def _are_in_step(files: Sequence[_File]) -> bool:
    """Whether files print equal steps at times that do not drift apart by a part of a step."""
    if not _overlap(files) or not all(map(_is_of_lines, files)):
        return False
    clocks = [{step: stamp for step, (_, line) in file.losses.items() if (stamp := _stamp(line))} for file in files]
    for other in clocks[1:]:
        shared = sorted(clocks[0].keys() & other.keys())
        if len(shared) < _IN_STEP or any(clocks[0][step][0] != other[step][0] for step in shared):
            return False
        if not go_in_step(*(np.array([clock[step][1] for step in shared]) for clock in (clocks[0], other))):
            return False
    return True


def _without(path: str, rank: int, kind: str) -> str:
    """Return a path with `#` for the rank that it states."""
    pattern = _RANK if kind == "rank" else _TORCHRUN
    folder, base = os.path.split(path)

    def varied(text: str) -> str:
        return pattern.sub(lambda found: f"{found[1]}#" if int(found[2]) == rank else found[0], text)

    # The folder of all ranks may have the number of one of them: job_rank_12/rank_12.txt.
    return os.path.join(folder, varied(base)) if varied(base) != base else varied(path)


def _clocks(files: Sequence[_File]) -> str:
    """Return what shows that logs were printed at the same time: their clocks, or that none has one; "" for neither.

    Logs of several runs without a clock differ in their length or their program.
    """
    if _overlap(files):
        return "their clocks overlap"
    paths = [unpacked_path(file.path) for file in files]
    sizes = list(map(os.path.getsize, paths))
    if max(sizes) > _ALIKE * min(sizes) or any(file.span is not None for file in files):
        return ""
    if any(form.named_by(os.path.basename(file.path)) for file in files for form in file.formats):
        return ""  # the name of each file says more of its lines than the rank
    return "they print alike without a clock" if _are_of_one_program(files) else ""


def _are_of_one_program(files: Sequence[_File]) -> bool:
    programs = {frozenset(file.programs) for file in files}
    return len(programs) == 1 and bool(programs.pop())


def _overlap(files: Sequence[_File]) -> bool:
    """Whether the logs were printed at the same time, by one clock: there is a time that all of them span."""
    spans: list[_Span] = []
    for file in files:
        if file.span is None:
            return False  # the others need not be read
        spans.append(file.span)
    clocks, begins, ends = zip(*spans, strict=True)
    return len(set(clocks)) == 1 and max(begins) <= min(ends)


def _programs(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield the files that several programs of one job print."""
    left = list(files)
    for key, evidence in (
        (_job_id, "the same job id in their names"),
        (_stream, "their names belong to one program"),
    ):
        for job_files in _with_same(left, key):
            left = [file for file in left if file not in job_files]
            yield job_files, evidence
    by_folder = grouped((os.path.dirname(file.path), file) for file in left)
    for folder_files in by_folder.values():
        shapes = {_DIGITS.sub("#", os.path.basename(file.path)) for file in folder_files}
        if 1 < len(folder_files) <= _FEW and len(shapes) > 1:
            yield from _added([file for file in folder_files if _is_of_lines(file)])


def _job_id(file: _File) -> tuple[str, ...] | None:
    """The folder of a file, and the job id in its name."""
    folder, base = os.path.split(file.path)
    ids = set(_JOB_ID.findall(base.lower()))
    return (folder, *ids) if len(ids) == 1 else None


def _stream(file: _File) -> tuple[str, ...] | None:
    """The path of a file without the name of the stream that it holds."""
    stem, count = _STREAM.subn("#", file.path)
    return (stem,) if count == 1 else None


def _with_same(files: Sequence[_File], key: Callable[[_File], tuple[str, ...] | None]) -> Iterator[list[_File]]:
    """Yield files of lines with the same key, if no program prints in two of them."""
    groups = grouped((found, file) for file in files if (found := key(file)) is not None)
    for job_files in groups.values():
        if not 1 < len(job_files) <= _FEW or not all(map(_is_of_lines, job_files)):
            continue
        programs = Counter(name for file in job_files for name in file.programs)
        if max(programs.values(), default=0) < 2 and not _are_apart(job_files):
            yield job_files


def _are_apart(files: Sequence[_File]) -> bool:
    """Whether two of these logs were printed at different times, by one clock."""
    spans = [file.span for file in files if file.span is not None]
    return any(a[0] == b[0] and not _meet(a, b) for a, b in combinations(spans, 2))


def _meet(a: _Span, b: _Span) -> bool:
    return max(a[1], b[1]) <= min(a[2], b[2])


def _added(files: Sequence[_File]) -> Iterator[tuple[list[_File], str]]:
    """Yield each log of steps with the logs that only add figures and have clocks that fit no other log of steps."""
    dated = [file for file in files if file.span is not None and file.span[0] != NO_DATE]
    beside = {
        file.path: [other for other in dated if other is not file and _lies_within(file, other)] for file in dated
    }
    joined: dict[str, list[_File]] = {}
    for file in dated:
        if beside[file.path] and file.only_adds:
            fitting = [other for other in beside[file.path] if other.programs]
            if len(fitting) == 1:
                joined.setdefault(fitting[0].path, [fitting[0]]).append(file)
    for job_files in joined.values():
        programs = Counter(name for file in job_files[1:] for name in {form.name for form in file.formats})
        if max(programs.values()) < 2:
            yield job_files, "their clocks overlap, and all but one only add figures"


def _lies_within(file: _File, other: _File) -> bool:
    """Whether most of the time of a log lies within the time of another one, by one clock."""
    a, b = file.span, other.span
    if a is None or b is None or a[0] != b[0]:
        return False
    shared = min(a[2], b[2]) - max(a[1], b[1])
    return shared >= 0 and 2 * shared >= a[2] - a[1]
