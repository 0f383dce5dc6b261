"""Finds the failures among the lines of a log, batch after batch.

In: the lines that no format reads, and those that only a format of any program's lines reads. Out: one `Failure` for
each message, with its lines; these lines are read. A traceback is one failure, with the exceptions that were raised
while it was handled; each process in torchrun's summary is one failure. Of a failure that a process repeats in a run,
only the first is kept, with the number of repeats. The same holds for each notice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints, Mask
from perflog.formats.vocabulary import LEVELS
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.failure import (
    DIRECT,
    HANDLING,
    MESSAGE,
    ORIGINAL,
    PART_OF_GROUP,
    Failure,
    add_about_actor,
    add_entry,
    count_repeated,
    merge,
    unwrap,
)
from perflog.parsing.failures.failure_list import FailureList
from perflog.parsing.failures.kinds import (
    ECHO,
    IGNORED,
    SUMMARIES,
    TRACEBACK,
    Kind,
    Report,
    kinds,
    message_start,
    needles,
    reported,
    undone_by,
)
from perflog.parsing.failures.log_starts import LogStarts
from perflog.parsing.failures.origins import (
    Origin,
    add_place,
    names_rank_in_group,
    npu_of,
    origin_of,
    rank_of_logger,
    split_labels,
)
from perflog.parsing.failures.stalled_ranks import StalledRanks
from perflog.parsing.failures.wrapped_lines import wrapped_lines
from perflog.parsing.match.line_stamps import StampReader
from perflog.parsing.match.prefilter import held_literals
from perflog.parsing.match.records import MAX_TEXT, Batch, FormatLine, strings
from perflog.tables.arrow import literal_mask
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import CLOCKS

if TYPE_CHECKING:
    import pyarrow as pa

_NEAR, _INTERLEAVED = 4, 256  # lines to the next one of a message; between labelled ones are those of other ranks
_PATIENCE = 400  # unread lines of its process in which a traceback ends
_EXCEPTION = lazy_pattern(r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\(\w+\))?(?P<rest>: .*|:?)$")
_NO_NAME = frozenset((*LEVELS, "frame", "error", "warning", "info"))

_GUTTER = lazy_pattern(r"^ +[|+] ?(?=\S|  )|^ +\|$")

_LIST_ITEM = lazy_pattern(r"^ *[-*] +\S")
"""The begin of a line that quotes what another job printed, with the label of its rank: `- **large** [rank0]: ...`."""


_GOES_ON = lazy_pattern(r"^(?:nccl[A-Z]\w*: |Last error:|[ \t]+\S)")
_WHAT = lazy_pattern(r"^\s*what\(\):\s+\S")
_PANIC = lazy_pattern(r"^\S+\.rs:\d+:\d+:$")
"""What Rust prints of a panic in its first line: its message follows."""

_FRAME = lazy_pattern(r"^(?:Exception raised from |frame #\d+: |[=-]{20,}$)")
_LONG = ("nccl_error", "checkpoint", "rendezvous_timeout", "actor_died", "abort")
"""Kinds with messages of several lines, without a traceback of Python; of an abort, the exception's own."""

_EXIT = lazy_pattern(
    r"^(?:=\s+EXIT CODE: (?P<status>\d+)|=\s+KILLED BY SIGNAL: (?P<signal>\d+)\b.*"
    r"|\s*Exit code: +(?P<exit_code>\d+))$"
)
_BY_SIGNAL = ("6", "9", "11", "15")  # statuses of MPICH, which reports a signal as its number
"""How a process ended that MPI or Horovod names in the lines before."""

_ENTRY = lazy_pattern(r"(?:^|[\s\]])(?P<key>time|host|rank|exitcode|error_file|traceback) *: (?P<value>.*)$")
_NUMBERED = lazy_pattern(r"(?:^|[\s\]])\[\d+\]:\s*$")
_STALLED = "submitted to be reduced, gathered or broadcasted by subset of ranks"

_TASK_NAME = lazy_pattern(r"^/job:\S+/task:(?P<task>\d+)$")
_REFUSED = lazy_pattern(r'HTTP/[\d.]+" 4\d\d\b')
_WRAPPED = "RayTaskError"
_LAUNCHER = lazy_pattern(r"\b(?:torchrun|torch[./]distributed[./](?:run|launch|launcher|elastic)|accelerate launch)\b")
_IN_COLLECTIVE = lazy_pattern(
    r"(?:torch/distributed/distributed_c10d|torch/distributed/c10d_logger|horovod/\w+/mpi_ops|deepspeed/comm/\w+)\.py"
    r'", line \d+, in (?P<op>\w+)'
)
"""The last frame of a traceback: the exception comes from a collective, so another process may have caused it."""

_IN_LAUNCHER = lazy_pattern(
    r"/bin/(?:torchrun|accelerate|deepspeed|horovodrun)\b|/(?:torch/distributed/(?:run|launch|launcher/api|elastic/"
    r"multiprocessing/errors/__init__)|accelerate/commands/launch|deepspeed/launcher/\w+|horovod/runner/[\w/]+)\.py\b"
)
"""A frame of a launcher: it only reports that a process of its own has failed."""

_OF_A_BACKEND = lazy_pattern(r"^(?:\w+\.)*(?:RuntimeError|Dist\w*Error|HorovodInternalError)\b")
_WARNED = lazy_pattern(r"\bWARN(?:ING)?\b")
"""Before a traceback: the program caught it."""


class _Stream(Struct):
    """What is open among the lines with one label: tracebacks without their exception so far, or a summary."""

    begun: list[tuple[int, str]] = field(default_factory=list)  # positions of tracebacks, and the prefix of their lines
    lines: int = 0  # read since the last of them began
    frame: str = ""  # the last frame of the traceback
    indent: int = 0  # of the line of the last exception; a label may end before its space
    child: str | None = None  # the process that raised the traceback which a launcher repeats
    last: Failure | None = None  # the last exception: what follows may belong to it
    chain: str = ""  # how the next traceback follows from it
    summary: Kind | None = None
    entry: Failure | None = None
    ignored: bool = False  # whether Python says that the traceback which follows ended nothing


class FailureReader:
    """Collects the failures of a log.

    `has_launcher`: whether the log shows that a launcher such as torchrun starts the processes of a node.

    Args:
        logs: The positions at which logs begin that are read together: no message goes on in the next log.
    """

    def __init__(self, logs: Sequence[int] = (0,)) -> None:
        self._list = FailureList()
        self._starts = LogStarts()
        self.has_launcher = False
        self._logs = list(logs[1:])
        self._runs: list[int] = []  # positions at which runs or attempts begin that are still to come
        self._streams: dict[str, _Stream] = {}
        self._stamps = StampReader()
        self._is_warning = False  # whether the line is known as a warning
        self._goes_on = False  # whether the last line belongs to a failure: the next one may too
        self._npu: tuple[str, int, Origin] | None = None  # the last process of torch_npu: its labels, its line
        self._stalled: StalledRanks | None = None  # while Horovod lists what ranks lack
        self._unanswered: list[Failure] = []  # exceptions with a next line that is still to be read

    @property
    def failures(self) -> list[Failure]:
        """The failures so far."""
        return self._list.failures

    def feed(self, lines: Sequence[FormatLine], batch: Batch, runs: Sequence[int] = ()) -> Ints:
        """Read a batch. Return the positions of the lines of failures.

        `runs`: positions at which runs or attempts begin.
        """
        self._runs += runs
        if not self._logs:
            self._starts.find(batch)
        self._mark_refusals(batch)
        positions, warnings = _positions(lines, batch)
        belongs: list[int] = []
        if not len(positions):
            return positions
        rows = batch.rows(positions)
        starts = batch.starts[rows].astype(np.int64)
        ends = np.minimum(batch.ends[rows].astype(np.int64), starts + MAX_TEXT)
        hits = np.flatnonzero(_holding_needles(strings(batch.chunk.data, starts, ends)))
        if not len(hits) and not self._streams and not self._goes_on:
            return positions[:0]
        known = len(self.failures)
        view = memoryview(batch.chunk.data)
        wrapped, after = wrapped_lines(batch, positions, starts, ends), 0
        for k in self._rows_to_read(_with_begins(hits.tolist(), wrapped), len(positions)):
            if k < after:
                continue
            position = positions.item(k)
            part = position & PART_MASK
            if part and _LIST_ITEM.match(batch.text(position - part)):
                self._goes_on = False
                continue
            self._is_warning = position in warnings
            message = range(k, wrapped.get(k, k) + 1)
            if len(message) > 1 and self._read(position, _text(view, starts, ends, message)):
                self._goes_on, after = True, message.stop
                belongs += message
                self._extend(position, positions.item(message[-1]) >> PART_BITS)
                continue
            self._goes_on = self._read(position, _text(view, starts, ends, message[:1]))
            if self._goes_on:
                belongs.append(k)
        new = self.failures[known:]
        self._add_times(new, batch)
        self._unanswered += [failure for failure in new if failure.kind.plain and failure.traced]
        self._mark_refusals(batch)
        return positions[belongs]

    def _extend(self, position: int, last_line: int) -> None:
        """Let the failure that begins at a position end in this line."""
        newest = self._list.newest
        if newest is not None and newest.position == position:
            newest.last_line = last_line

    def _mark_refusals(self, batch: Batch) -> None:
        """Mark the exceptions that a server answers with a status that blames the client, in the next line."""
        if not self._unanswered or not len(batch.starts):
            return
        first = batch.chunk.first_line
        last = batch.positions_of(np.array([len(batch.starts) - 1])).item() >> PART_BITS
        for failure in self._unanswered:
            if first <= failure.last_line + 1 <= last:
                failure.is_refusal = _REFUSED.search(batch.text((failure.last_line + 1) << PART_BITS)) is not None
        self._unanswered = [failure for failure in self._unanswered if failure.last_line + 1 > last]

    def _rows_to_read(self, hits: Sequence[int], count: int) -> Iterator[int]:
        """Yield the rows that may report a failure, and all that follow while a message is not complete."""
        at = 0
        for hit in [*hits, count]:
            while at < hit and (self._streams or self._goes_on):
                yield at
                at += 1
            at = max(at, hit)
            if at < count:
                yield at
                at += 1

    def _read(self, position: int, line: str) -> bool:
        """Read a line. Return whether it belongs to a failure."""
        self._enter(position)
        if self._stalled is not None and self._stalled.read(position, line):
            return True
        self._stalled = None
        labels, text = split_labels(line)
        stream = self._streams.get(labels)
        if (stream is not None or TRACEBACK in text) and (gutter := _GUTTER.match(text)) is not None:
            text = text[gutter.end() :]
        if stream is not None and self._continues(stream, labels, position, text):
            return True
        is_ignored = stream is not None and stream.ignored and TRACEBACK in text
        if stream is not None and not stream.begun and stream.summary is None and not is_ignored:
            self._streams.pop(labels, None)
            stream = None
        if IGNORED in text:
            self._streams.setdefault(labels, _Stream()).ignored = True
            return True
        if TRACEBACK in text:
            return self._begin_traceback(labels, position, text)
        newest = self._list.newest
        if newest is not None and _FRAME.match(text) and (position >> PART_BITS) - newest.last_line < 2:
            newest.last_line = position >> PART_BITS
            return True
        if _LAUNCHER.search(text):
            self.has_launcher = True
        return self._read_failure(labels, position, text)

    def _read_failure(self, labels: str, position: int, text: str) -> bool:
        """Read a line that may report a failure by itself, or may be about the last failure. Return whether it does."""
        for mark, kind in undone_by().items():
            if mark in text:
                self._list.failures = [failure for failure in self.failures if failure.kind.name != kind]
        if self._adds_exit(position >> PART_BITS, text):
            return True
        if self._adds_npu(labels, position >> PART_BITS, text):
            return True
        found = reported(text)
        if found is None or (
            self._is_warning and found.kind.role == ECHO
        ):  # at a good end, too, one process is the last
            return False
        if found.kind.name in SUMMARIES:
            return self._begin_summary(labels, position, text, found.kind)
        failure = self._failure(position, labels, text, found)
        if not failure.traced or found.kind.name in _LONG:
            stream = self._streams.setdefault(labels, _Stream())
            stream.last, stream.indent = failure, _indent(text)
        kept = self._list.add(failure)
        newest = self._list.newest
        self._stalled = StalledRanks(newest) if kept and newest is not None and _STALLED in text else None
        return kept

    def _adds_exit(self, line: int, text: str) -> bool:
        """Read how the process in the previous line ended. Return whether the line reports it."""
        named = self._list.newest
        if named is None or named.kind.name != "child_failed" or line != named.last_line + 1:
            return False
        match = _EXIT.match(text)
        if match is None or "exit_code" in named.values:
            return False
        status, signal = match["status"], match["signal"]
        signal = status if status in _BY_SIGNAL else signal
        named.values = named.values | ({"signal": signal} if signal else {"exit_code": status or match["exit_code"]})
        named.message, named.last_line = f"{named.message}\n{text.strip()}"[:MESSAGE], line
        return True

    def _adds_npu(self, labels: str, line: int, text: str) -> bool:
        """Read a line in which torch_npu names the process of an error. Return whether that is the line before."""
        npu = npu_of(text)
        if npu is None:
            return False
        self._npu, newest = (labels, line, npu), self._list.newest
        if newest is None or (newest.stream, newest.last_line) != (labels, line - 1):
            return False
        add_place(newest.origin, npu)
        newest.message, newest.last_line = f"{newest.message}\n{text}"[:MESSAGE], line
        return True

    def _enter(self, position: int) -> None:
        """End the logs and the runs before a line."""
        while self._logs and position >= self._logs[0]:
            self._logs.pop(0)
            self._close()
        while self._runs and position >= self._runs[0]:
            self._runs.pop(0)
            self._list.begin_run()

    def _begin_traceback(self, labels: str, position: int, text: str) -> bool:
        """Open a traceback, unless the line only quotes one."""
        before = text[: text.index(TRACEBACK)]
        if before.count('"') % 2 or before.count("'") % 2:
            return False
        found = reported(before)
        if found is not None and not found.kind.plain:  # a launcher's line, joined to the traceback after it
            self._list.add(self._failure(position, labels, before, found))
        stream = self._streams.setdefault(labels, _Stream())
        stream.begun.append((position, before))
        stream.lines = 0
        newest = self._list.newest
        if (
            newest is not None
            and newest.kind.name == "child_failed"
            and newest.last_line == (position >> PART_BITS) - 1
        ):
            stream.child = newest.values.get("rank")
        return True

    def _begin_summary(self, labels: str, position: int, text: str, kind: Kind) -> bool:
        """Open a part of a summary. Where its first lines are lost, a process begins with its time."""
        stream = self._streams.setdefault(labels, _Stream())
        stream.summary, stream.entry, stream.lines = kind, None, 0
        if _ENTRY.search(text):
            stream.entry = Failure(position, position >> PART_BITS, kind, "", {}, Origin(), labels)
        return True

    def _failure(self, position: int, labels: str, text: str, found: Report) -> Failure:
        """Return the failure that a line reports without a traceback."""
        values, origin = found.values, origin_of(labels, text, found.start)
        if self._npu is not None and self._npu[:2] == (labels, (position >> PART_BITS) - 1):
            add_place(origin, self._npu[2])
        rank = rank_of_logger(labels, text)
        if rank is not None and values.get("rank", str(rank)) != str(rank):
            origin.rank, origin.rank_by = rank, "label"
        if values.get("rank", str(rank)) != str(rank) and (rank is not None or names_rank_in_group(text)):
            values = {name: value for name, value in values.items() if name != "rank"}  # it is the rank in a group
        message = values.get("message") or text[message_start(text, found.start) :]
        traced = not found.anchored  # a line like an exception may be one that a program caught
        return Failure(position, position >> PART_BITS, found.kind, message[:MESSAGE], values, origin, labels, traced)

    # --- messages of several lines--------------------------------------------------------------------------------

    def _continues(self, stream: _Stream, labels: str, position: int, text: str) -> bool:
        """Return whether a line belongs to what is open in its stream."""
        stream.lines += 1
        if stream.lines > _PATIENCE:
            self._give_up(stream, labels)
            return False
        if stream.summary is not None:
            return self._continues_summary(stream, labels, position, text)
        if stream.begun:
            return self._continues_traceback(stream, labels, position, text)
        if stream.last is not None:
            return self._continues_exception(stream, labels, position, text)
        return False

    def _continues_traceback(self, stream: _Stream, labels: str, position: int, text: str) -> bool:
        begun, before = stream.begun[0]
        if TRACEBACK in text:
            return False
        indent, text = _indent(text), _without(before, text)
        if text.startswith("  ") and _EXCEPTION.match(text.strip()) and reported(text.strip()) is not None:
            text = text.strip()  # of a traceback that is printed with an indent
        if not text or text.startswith(("  ", "\t", "[Previous line repeated", 'File "')):  # pasted without its indent
            stream.frame = text if text.lstrip(" ").startswith('File "') else stream.frame
            return True
        match = _EXCEPTION.match(text)
        if match is None or match["name"].split(".")[0] in _NO_NAME or not _is_exception(match["name"]):
            return False
        found = reported(text)
        if found is not None and found.kind.name in SUMMARIES:  # `Failures:` after a torn traceback
            return False
        stream.begun.pop(0)
        stream.indent = indent
        kind = found.kind if found is not None else kinds()["exception"]
        values = found.values if found is not None else {}
        start = found.start if found is not None else 0
        origin = origin_of(labels, before + text, len(before) + start)
        if stream.child is not None and origin.rank is None:
            values = {"rank": stream.child} | values
        if kind.plain and _OF_A_BACKEND.match(text) and (collective := _IN_COLLECTIVE.search(stream.frame)) is not None:
            values = {"op": collective["op"]} | values
        stream.frame = ""
        failure = Failure(begun, position >> PART_BITS, kind, text[:MESSAGE], values, origin, labels)
        count_repeated(failure)
        failure.traced = _WARNED.search(before) is None
        if stream.ignored:
            stream.ignored = False
        elif stream.chain and stream.last is not None:
            merge(stream.last, failure, stream.chain)
        else:
            stream.last = failure
            self._list.add(failure)
        stream.chain, stream.lines = "", 0
        return True

    def _continues_exception(self, stream: _Stream, labels: str, position: int, text: str) -> bool:
        """Read the line after an exception: more of its message, or that the next one follows from it."""
        last = stream.last
        assert last is not None
        line = position >> PART_BITS
        if line - last.last_line > (_INTERLEAVED if labels else _NEAR):
            return False
        if _chains(stream, last, position, text):
            return True
        if _WRAPPED in last.message and (match := _EXCEPTION.match(text)) and _is_exception(match["name"]):
            unwrap(last, text, line)
            return True
        if last.message.endswith(":") and (found := reported(text)) is not None and found.kind.name == "child_failed":
            last.kind, last.values, last.last_line = found.kind, last.values | found.values, line
            return True
        if last.kind.name == "rendezvous_timeout" and (match := _TASK_NAME.match(text)):
            last.values["absent"] = f"{last.values.get('absent', '')}, {match['task']}".removeprefix(", ")
            last.last_line = line
            return True
        if (last.kind.name == "actor_died" and add_about_actor(last, text, line)) or _adds_values(last, line, text):
            return True
        if last.kind.name == "abort" and (not _WHAT.match(text) or reported(text) is not None):
            return False
        opens = last.message.endswith("Last error:") or _PANIC.search(last.message)
        if (opens and (labels or line == last.last_line + 1)) or _GOES_ON.match(text[stream.indent :]):
            last.message = f"{last.message}\n{text.strip()}"[:MESSAGE]
            last.last_line = line
            found = reported(text.strip())
            if found is not None and last.kind.name in ("nccl_error", "remote_exit", "exception"):
                last.kind, last.values = found.kind, last.values | found.values
            return True
        return False

    def _continues_summary(self, stream: _Stream, labels: str, position: int, text: str) -> bool:
        assert stream.summary is not None
        line = position >> PART_BITS
        if _NUMBERED.search(text):
            origin = Origin()
            stream.entry = Failure(position, line, stream.summary, "", {}, origin, labels)
            return True
        match, entry = _ENTRY.search(text), stream.entry
        if match is not None and entry is not None:
            add_entry(entry, match["key"], match["value"].strip(), line)
            if match["key"] == "exitcode":
                self.failures.append(entry)
            return True
        if "====" in text or reported(text) is not None:
            if "====" in text and entry is not None:  # the summary ends with the process that failed first
                entry.kind = kinds()["first_failed"]
            stream.summary = stream.entry = None
            if not stream.begun:  # of a torn log tracebacks may still be open
                self._streams.pop(labels, None)
            return "====" in text
        if entry is not None and (found := reported(text.strip())) is not None:
            entry.values |= {"cause": found.kind.name}
        return True

    def _give_up(self, stream: _Stream, labels: str) -> None:
        """Close what does not end: of a torn log the end of a traceback may be lost."""
        entry = stream.entry
        is_first = stream.summary is kinds()["first_failed"] and entry is not None and entry.origin.rank is not None
        if is_first and entry is not None and entry not in self.failures:
            self.failures.append(entry)
        kind = kinds()["child_failed" if _IN_LAUNCHER.search(stream.frame) else "exception"]
        cause_is_known = bool(stream.chain) and stream.last is not None  # the cause of the torn one is known
        for position, before in stream.begun[cause_is_known:]:
            origin = origin_of(labels, before, len(before))
            self._list.add(Failure(position, position >> PART_BITS, kind, TRACEBACK, {}, origin, labels))
        self._streams.pop(labels, None)

    def _close(self) -> None:
        """End a log."""
        for labels, stream in list(self._streams.items()):
            self._give_up(stream, labels)
        self._list.begin_log()
        self._stalled = None

    def finish(self) -> list[Failure]:
        """End the last log. Return all failures, in the order of the logs."""
        self._close()
        self._list.failures = [failure for failure in self.failures if not failure.is_refusal]
        self.failures.sort(key=lambda failure: failure.position)
        self._starts.set_sections(self.failures)
        return self.failures

    def _add_times(self, failures: Sequence[Failure], batch: Batch) -> None:
        """Read the time stamps before the lines in which failures begin."""
        first = batch.chunk.first_line << PART_BITS
        here = sorted((failure for failure in failures if failure.position >= first), key=lambda each: each.position)
        if not here:
            return
        (stamps,) = self._stamps.read(batch, [np.array([failure.position for failure in here], np.int64)])
        if stamps is not None:
            for failure, time, clock in zip(here, stamps.time.tolist(), stamps.clock.tolist(), strict=True):
                if time >= 0 and clock >= 0:
                    failure.time, failure.clock = time, CLOCKS[clock]


def _with_begins(hits: Sequence[int], wrapped: Mapping[int, int]) -> list[int]:
    """Return the rows that may report a failure, with the first row of each wrapped message that holds one."""
    begins = [begin for begin, last in wrapped.items() if bisect_left(hits, begin) < bisect_right(hits, last)]
    return sorted({*hits, *begins})


def _text(view: memoryview, starts: Ints, ends: Ints, rows: Iterable[int]) -> str:
    """Return the string of a message in these rows: one, or several that a terminal made of it."""
    return "".join(str(view[starts[k] : ends[k]], "utf-8", "backslashreplace") for k in rows).rstrip("\r\n \t")


def _holding_needles(texts: pa.Array) -> Mask:
    """Return which lines hold a literal of a kind. Few of the many literals are in a log: the others are not tried."""
    return literal_mask(texts, held_literals(texts, needles()))


def _positions(lines: Sequence[FormatLine], batch: Batch) -> tuple[Ints, frozenset[int]]:
    """Return the segments that may report a failure: unread lines, lines of formats for any program, warnings.

    The second value: the positions of the warnings.
    """
    known = {kind: positions for kind, positions in batch.owner.items() if kind >= 0}
    parts = [positions for kind, positions in known.items() if _may_tell(lines[kind])]
    warnings = frozenset(
        position for kind, positions in known.items() if lines[kind][1].warns for position in positions.tolist()
    )
    return np.unique(np.concatenate([batch.unread_segments, *parts])) if parts else batch.unread_segments, warnings


def _may_tell(line: FormatLine) -> bool:
    return line[0].generic or line[0].guessed or line[1].warns


def _without(before: str, text: str) -> str:
    """Return a line of a traceback without the prefix that its first line has."""
    if not before.strip():
        return text[len(before) :] if before and text.startswith(before) else text
    pattern = r"\d+".join(map(re.escape, re.split(r"\d+", before)))
    match = re.match(pattern, text)
    return text[match.end() :] if match else text


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _is_exception(name: str) -> bool:
    """Return whether a name may name an exception: `mylib.errors.Empty`, `RuntimeError`."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() or "." in name or last.endswith("error")


def _chains(stream: _Stream, last: Failure, position: int, text: str) -> bool:
    """Return whether a line says that the next traceback belongs to the last exception, or begins that traceback."""
    mark = next((mark for mark in (DIRECT, HANDLING, ORIGINAL, PART_OF_GROUP) if mark in text), None)
    if mark is not None:
        stream.chain, last.last_line = mark, position >> PART_BITS
    begins = bool(stream.chain) and TRACEBACK in text
    if begins:
        stream.begun.append((position, text[: text.index(TRACEBACK)]))
    return begins or mark is not None


def _adds_values(last: Failure, line: int, text: str) -> bool:
    """Add what the line after an exception reports of it, such as the node. Return whether it does."""
    found = reported(text) if line == last.last_line + 1 and not _EXCEPTION.match(text) else None
    if found is None or found.kind is not last.kind or not found.values.keys() - last.values.keys():
        return False
    last.message, last.last_line = f"{last.message}\n{text.strip()}"[:MESSAGE], line
    last.values = found.values | last.values
    return True
