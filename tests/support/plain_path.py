"""The critical path of a trace by its definition, one event after the other: an oracle for tests.

Of perflog it takes the categories of kernels, and which calls wait by their name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from statistics import median
from typing import Any

from support.raw_traces import category, span_of

from perflog.metrics.profiles.kernel_categories import category as kernel_category
from perflog.metrics.traces.idle_causes import is_wait

NEVER = -(10**30)

_LEVELS = ("range", "python", "cpu", "runtime")  # the outermost first, where calls begin and end together

Piece = tuple[int, int, str, str | None]
"""Begin, end, kind, name."""


@dataclass(frozen=True)
class Call:
    """A call of a thread. `kind`: cpu, runtime, python or range. `waits`: whether its name says that it waits."""

    thread: Any
    start: int
    end: int
    kind: str
    name: str
    waits: bool = False


@dataclass(frozen=True)
class Work:
    """Work of a device. `call`: the call that launched it. `copies`: whether it is a copy."""

    stream: int
    start: int
    end: int
    kind: str
    name: str
    call: Call | None
    copies: bool = False


@dataclass(frozen=True)
class Part:
    """Part of the pieces that take no time: a share of work and what delays it; those of some calls.

    `free`: whether work waits for no other stream.
    """

    of_work: Callable[[Work], float] = lambda work: 1.0
    of_call: Callable[[Call | None], bool] = lambda call: True
    free: Callable[[Work], bool] = lambda work: False


@dataclass(frozen=True)
class Stretch:
    """The work that was launched on a stream before a time."""

    stream: int
    until: int


@dataclass(frozen=True)
class StreamWait:
    """What is launched on a stream after it was told to wait, at `called`, waits for a stretch of work."""

    stream: int
    called: int
    stretch: Stretch


@dataclass(frozen=True)
class Change:
    """A thread goes on at a time: `work` has ended, or the call of thread `source` that ended at `ended`."""

    turn: int
    time: int
    work: int | None = None
    call: Call | None = None
    source: Any = None
    ended: int = 0
    since: int = NEVER


@dataclass
class PlainPath:
    """The dependencies of the work of a device, in order of begin, and of all calls of the host. Times are in ns."""

    work: Sequence[Work]
    calls: Sequence[Call]
    stream_waits: Sequence[StreamWait] = ()
    call_waits: Mapping[Call, Stretch] = field(default_factory=dict)

    def launched_before(self, stretch: Stretch) -> int | None:
        """The last work of a stretch."""
        some = [i for i, each in enumerate(self.work)
                if each.stream == stretch.stream and self.turns[i] <= 2 * stretch.until + 1]  # fmt: skip
        return some[-1] if some else None

    def awaited(self, i: int) -> int | None:
        """The work that the recorded waits of its stream let this work wait for."""
        found = []
        for wait in self.stream_waits:
            held = [j for j, each in enumerate(self.work)
                    if each.stream == wait.stream and self.turns[j] > 2 * wait.called + 1]  # fmt: skip
            last = self.launched_before(wait.stretch)
            if held[:1] == [i] and last is not None and self.work[last].end <= self.work[i].start:
                found.append(last)
        return max(found, key=lambda j: self.work[j].end, default=None)

    @cached_property
    def usual(self) -> int:
        """Three medians of the launches that find the device idle; else of the gaps on its streams."""
        busy = [each for each in self.work if each.end > each.start]
        reach, late = busy[0].end if busy else 0, []
        for each in busy[1:]:
            first = next(other for other in self.work if other.start >= each.start)
            if each.start > reach and first.call is not None and first.call.start >= reach:
                late.append(first.start - first.call.start)
            reach = max(reach, each.end)
        gaps = []
        for each, before, at in zip(self.work, self.before, self.launched, strict=True):
            ended = NEVER if before is None else self.work[before].end
            if before is not None and each.start > ended and (at is None or at <= ended):
                gaps.append(each.start - ended)
        return round(3 * (median(late) if late and median(late) else median(gaps) if gaps else 0))

    @cached_property
    def before(self) -> list[int | None]:
        last: dict[int, int] = {}
        found = []
        for i, each in enumerate(self.work):
            found.append(last.get(each.stream))
            last[each.stream] = i
        return found

    @cached_property
    def turns(self) -> list[int]:
        turns: list[int] = []
        for i, each in enumerate(self.work):
            own = 2 * each.start - 1 if each.call is None else 2 * min(each.call.start, each.start) + 2
            before = self.before[i]
            turns.append(own if before is None else max(own, turns[before]))
        return turns

    @cached_property
    def launched(self) -> list[int | None]:
        """None where the launch is not known, or an earlier one of the stream was later."""
        found: list[int | None] = []
        for each, turn in zip(self.work, self.turns, strict=True):
            at = None if each.call is None else min(each.call.start, each.start)
            found.append(at if at is not None and 2 * at + 2 == turn else None)
        return found

    def handed_over(self, i: int, at: int) -> int:
        """When the call that launched work had handed it over: one that loads a module does that at its end."""
        each = self.work[i]
        assert each.call is not None
        is_long = each.call.end - each.call.start > self.usual and each.start >= each.call.end - self.usual
        return min(each.call.end, each.start) - self.usual if is_long and not each.copies else at

    @cached_property
    def bound(self) -> list[tuple[str, int, int | None]]:
        """What each piece of work was bound by, when that had ended, and the work of another stream."""
        by_end = sorted(range(len(self.work)), key=lambda i: (self.work[i].end, i))
        found: list[tuple[str, int, int | None]] = []
        for i, each in enumerate(self.work):
            before, at = self.before[i], self.launched[i]
            ended = NEVER if before is None else min(self.work[before].end, each.start)
            since = max(ended, NEVER if at is None else at)
            by = "launch" if at is not None and at > ended else "stream" if before is not None else "free"
            other = next((j for j in reversed(by_end) if self.work[j].end <= each.start), None)
            if by == "launch":
                since = self.handed_over(i, since)
            late = by == "free" or each.start - since > (0 if at is None else self.usual)
            if self.stream_waits:
                other, late = self.awaited(i), True
            if other is not None and late and self.work[other].end > since and self.turns[other] < self.turns[i]:
                by, since = "other", self.work[other].end
            found.append((by, since, other if by == "other" else None))
        return found

    @cached_property
    def threads(self) -> list[Any]:
        return sorted({each.call.thread for each in self.work if each.call is not None})

    @cached_property
    def changes(self) -> dict[Any, list[Change]]:
        """Where threads waited or took over, in order of their turns."""
        found: dict[Any, list[Change]] = {thread: [] for thread in self.threads}
        waits = {}
        for i, each in enumerate(self.work):
            if each.copies and each.call is not None and each.call.start < each.end <= each.call.end:
                waits[each.call] = i
        for call in self.calls:
            if call.waits and call not in waits and call.thread in found:
                ended = [(each.end, i) for i, each in enumerate(self.work) if each.end <= call.end]
                last = max(ended)[1] if ended else None
                if call in self.call_waits:
                    recorded = self.launched_before(self.call_waits[call])
                    if recorded is None or self.work[recorded].end <= call.end:
                        last = recorded
                if last is not None and self.work[last].end > call.start:
                    waits[call] = last
        for call, i in waits.items():
            launch = self.work[i].call
            if self.turns[i] <= 2 * call.end and (launch is None or launch.start < call.end):
                found[call.thread].append(Change(2 * call.end, call.end, i, call))
        for thread in self.threads:
            found[thread] += self._hand_overs(thread)
            found[thread].sort(key=lambda change: change.turn)
        return found

    def _hand_overs(self, thread: Any) -> list[Change]:
        found, busy_until = [], NEVER
        for leaf in sorted(self._leaves[thread], key=lambda each: each.start):
            if leaf.start > busy_until:
                ended, source = busy_until, None
                for other in self.threads:
                    until = [each for each in self._leaves[other] if each.end <= leaf.start]
                    if other != thread and until:
                        last = max(until, key=lambda each: each.end)
                        if last.start >= busy_until and last.end > ended:
                            ended, source = last.end, other
                if source is not None:
                    turn = 2 * leaf.start + 1
                    found.append(Change(turn, leaf.start, source=source, ended=ended, since=busy_until))
            busy_until = max(busy_until, leaf.end)
        return found

    @cached_property
    def _leaves(self) -> dict[Any, list[Call]]:
        """The pieces of time in which each thread is in an operator or a call of the runtime."""
        return {
            thread: [Call(thread, a, b, call.kind, call.name) for a, b, call in stretches
                     if call is not None and call.kind in ("cpu", "runtime")]
            for thread, stretches in self.innermost.items()
        }  # fmt: skip

    @cached_property
    def innermost(self) -> dict[Any, list[tuple[int, int, Call | None]]]:
        """What each thread does over the time, from before all until behind all."""
        found = {}
        for thread in self.threads:
            calls = sorted(
                (each for each in self.calls if each.thread == thread),
                key=lambda each: (each.start, -each.end, _LEVELS.index(each.kind)),
            )
            edges = sorted({at for each in calls for at in (each.start, each.end)})
            active: list[Call] = []
            waiting, stretches = list(reversed(calls)), []
            for begin, end in pairwise([NEVER, *edges, -NEVER]):
                while waiting and waiting[-1].start <= begin:
                    active.append(waiting.pop())
                active = [each for each in active if each.end > begin]
                stretches.append((begin, end, active[-1] if active else None))
            found[thread] = stretches
        return found

    def kind_of(self, call: Call | None) -> tuple[str, str | None]:
        kinds = {"cpu": "operator", "runtime": "runtime", "python": "python"}
        return (kinds[call.kind], call.name) if call is not None and call.kind in kinds else ("idle host", None)

    def delay(self, i: int) -> list[Piece]:
        """The pieces between the begin of work and what bound it, in order of time."""
        (by, since, _), each = self.bound[i], self.work[i]
        if by == "free":
            return []
        if by == "launch":
            usual = min(since + self.usual, each.start)
            pieces = [(since, usual, "launch", None), (usual, each.start, "waiting", None)]
        elif each.call is None:
            pieces = [(since, each.start, "unknown", None)]
        else:
            pieces = [(since, each.start, "waiting" if each.start - since > self.usual else "gap", None)]
        return [piece for piece in pieces if piece[1] > piece[0]]

    # --- the walk ---

    def path(self, start: int, end: int, main: Any = None) -> list[Piece]:
        """The pieces of the path of a window. `main`: the thread of the step."""
        pieces: list[Piece] = []

        def add(*some: Piece) -> None:
            for begin, until, kind, name in reversed(some):
                if until > max(begin, start):
                    pieces.append((max(begin, start), until, kind, name))

        at, work, thread = end, self.last(end), None
        turn = 2 * end + 1
        if work is None:
            thread = self.thread_of(end, main)
        while at > start:
            if work is not None:
                each = self.work[work]
                add((each.start, at, each.kind, each.name))
                add(*self.delay(work))
                by, since, other = self.bound[work]
                at = each.start
                if by == "stream":
                    work, at = self.before[work], since
                elif by == "other":
                    work, at = other, since
                elif by == "launch":
                    assert each.call is not None
                    work, thread, at, turn = None, each.call.thread, since, 2 * since + 1
                else:
                    work, thread = None, None
            elif thread is not None:
                change = next((c for c in reversed(self.changes[thread]) if c.turn <= turn and c.time > start), None)
                begin = start if change is None else change.time if change.source is None else change.ended
                add(*((max(a, begin), min(b, at), *self.kind_of(call))
                      for a, b, call in self.innermost[thread] if b > begin and a < at))  # fmt: skip
                if change is None:
                    at = start
                elif change.source is None:
                    work, at = change.work, self.work[change.work or 0].end
                    assert change.call is not None
                    add((at, change.time, "synchronisation", change.call.name))
                else:
                    thread, at, turn = change.source, change.ended, 2 * change.ended
            else:
                add((start, at, "unknown", None))
                at = start
        return pieces[::-1]

    def last(self, end: int) -> int | None:
        """The work that runs at the end and goes on longest, of the last that began on each stream."""
        latest = {each.stream: i for i, each in enumerate(self.work) if each.start < end}
        running = [i for i in latest.values() if self.work[i].end >= end]
        return max(running, key=lambda i: (self.work[i].end, -self.work[i].stream), default=None)

    def thread_of(self, end: int, main: Any) -> Any:
        if main in self.threads:
            return main
        latest = {each.stream: each for each in self.work if each.start < end}
        last = max(latest.values(), key=lambda each: (each.start, -each.stream), default=None)
        return None if last is None or last.call is None else last.call.thread

    # --- the longest path ---

    def length(
        self,
        start: int,
        end: int,
        zero: Callable[[str, str | None], bool],
        main: Any = None,
        host_end: int | None = None,
        part: Part | None = None,
    ) -> int:
        """The length of the longest path of a window in which some pieces take no time.

        `host_end`: where the thread ends, by default at the end. `part`: of these pieces, what takes no time; by
        default all do, and work waits for all that it waited for.
        """
        part = part or Part()

        def inside(a: int, b: int) -> int:
            return max(min(b, end) - max(a, start), 0)

        skipped: dict[Any, tuple[list[int], list[int], list[bool]]] = {}
        for thread, stretches in self.innermost.items():
            edges, sums, nothing = [start], [0], []
            for a, b, call in stretches:
                if (until := min(b, end)) > (begin := max(a, start)):
                    nothing.append(zero(*self.kind_of(call)) and part.of_call(call))
                    sums.append(sums[-1] + (until - begin if nothing[-1] else 0))
                    edges.append(until)
            skipped[thread] = edges, sums, nothing

        def alone(thread: Any, begin: int, until: int) -> int:
            edges, sums, nothing = skipped[thread]

            def before(at: int) -> int:
                place = max(min(bisect_right(edges, at), len(nothing)) - 1, 0)
                return sums[place] + (max(at - edges[place], 0) if nothing[place] else 0)

            return until - begin - (before(until) - before(begin))

        @cache
        def thread_at(thread: Any, at: int, turn: int) -> int:
            if at <= start:
                return at
            change = next((c for c in reversed(self.changes[thread]) if c.turn <= turn and start < c.time), None)
            return (
                start + alone(thread, start, at)
                if change is None
                else goes_on(thread, change) + alone(thread, change.time, at)
            )

        @cache
        def goes_on(thread: Any, change: Change) -> int:
            if change.source is not None:
                own = NEVER if change.since == NEVER else thread_at(thread, change.since, 2 * change.since)
                return max(own, thread_at(change.source, change.ended, 2 * change.ended)
                           + alone(thread, change.ended, change.time))  # fmt: skip
            assert change.call is not None and change.work is not None
            ended, name = self.work[change.work].end, change.call.name
            skips = zero("synchronisation", name) and part.of_call(change.call)
            lag = change.time - ended - (inside(ended, change.time) if skips else 0)
            return max(thread_at(thread, change.call.start, 2 * change.call.start + 1), ends(change.work) + lag)

        def lasts(i: int, until: int) -> int:
            each = self.work[i]
            skips = part.of_work(each) if zero(each.kind, each.name) else 0
            return until - each.start - round(inside(each.start, until) * skips)

        @cache
        def ends(i: int) -> int:
            return begins(i) + lasts(i, self.work[i].end)

        @cache
        def begins(i: int) -> int:
            (by, since, other), each, before, at = self.bound[i], self.work[i], self.before[i], self.launched[i]
            skips = [round(inside(a, b) * part.of_work(each)) for a, b, kind, _ in self.delay(i) if zero(kind, None)]
            delay = each.start - since - sum(skips)
            possible = [each.start] if by == "free" else []
            if before is not None:
                until = min(self.work[before].end, each.start)
                possible.append(begins(before) + lasts(before, until) + (delay if by == "stream" else 0))
            if other is not None and not (part.free(each) and (before is not None or at is not None)):
                possible.append(ends(other) + delay)
            if at is not None:
                assert each.call is not None
                least = 0 if zero("launch", None) else min(self.fastest, each.start - at)
                turn, handed = 2 * at + 1, self.handed_over(i, at) if by == "launch" else at
                possible.append(thread_at(each.call.thread, handed, turn) + (delay if by == "launch" else least))
            return max(possible)

        for i in sorted(range(len(self.work)), key=self.turns.__getitem__):
            ends(i)  # each recursion is short then
        tops = [
            begins(i) + lasts(i, min(each.end, end))
            for i, each in enumerate(self.work)
            if each.start < end and each.end > start
        ]
        thread = main if main in self.threads else self.thread_of(end, None) if self.last(end) is None else None
        if thread is not None:
            until = end if host_end is None else host_end
            tops.append(thread_at(thread, until, 2 * until + 1))
        return max([start, *tops]) - start

    @cached_property
    def fastest(self) -> int:
        bound = zip(self.work, self.bound, strict=True)
        return min((each.start - since for each, (by, since, _) in bound if by == "launch"), default=0)


def plain_path(events: Sequence[dict[str, Any]]) -> PlainPath:
    """The dependencies of the complete events of a Chrome trace of one device."""
    kinds = {
        "cuda_driver": "runtime",
        "cuda_runtime": "runtime",
        "cpu_op": "cpu",
        "python_function": "python",
        "user_annotation": "range",
    }
    calls: list[Call] = []
    by_number: dict[str, Call] = {}  # correlation numbers may be texts
    work: list[Work] = []
    for each in events:
        if kind := kinds.get(each["cat"].lower()):
            found = Call(
                (each["pid"], each["tid"]),
                *span_of(each),
                kind,
                each["name"],
                kind == "runtime" and is_wait(each["name"]),
            )
            calls.append(found)
            if kind == "runtime" and "correlation" in each["args"]:
                by_number[str(each["args"]["correlation"])] = found
    for each in events:
        kind = category(each)
        if kind in ("kernel", "memcpy", "memset"):
            does = kernel_category(each["name"]) if kind == "kernel" else kind
            of = by_number.get(str(each["args"].get("correlation")))
            work.append(Work(each["args"]["stream"], *span_of(each), does, each["name"], of, kind == "memcpy"))
    stream_waits, call_waits = _recorded(events, by_number)
    return PlainPath(sorted(work, key=lambda each: each.start), calls, stream_waits, call_waits)


def _recorded(
    events: Sequence[dict[str, Any]], by_number: dict[str, Call]
) -> tuple[list[StreamWait], dict[Call, Stretch]]:
    """What synchronisations say that streams and calls wait for."""
    stream_waits, call_waits = [], {}
    for each in events:
        args, call = each["args"], by_number.get(str(each["args"].get("correlation")))
        if each["cat"] != "cuda_sync" or call is None:
            continue
        record = by_number.get(str(args.get("wait_on_cuda_event_record_corr_id")))
        if call.name == "cudaStreamSynchronize":
            call_waits[call] = Stretch(args["stream"], call.start)
        elif record is not None and args["wait_on_stream"] >= 0:
            stretch = Stretch(args["wait_on_stream"], record.start)
            if call.name == "cudaStreamWaitEvent":
                stream_waits.append(StreamWait(args["stream"], call.start, stretch))
            else:
                call_waits[call] = stretch
    return stream_waits, call_waits
