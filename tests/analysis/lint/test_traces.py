"""Each lint rule on traces finds the fault in a trace that was spoiled for it, and nothing in a clean trace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.field_logs import needs_corpus
from support.trace_tables import Event, by_hand, kernel, real, reduce, step

from perflog.analysis.lint import RULES, Finding, findings
from perflog.analysis.lint.registry import LintInput
from perflog.analysis.lint.traces import _lost_at_start
from perflog.metrics import Options, Tables


def clean(ranks: int = 2, steps: int = 3, lag: int = 0) -> list[Event]:
    """Steps of 1000 ns on each rank: launches, their kernels, a collective of all."""
    events = []
    for r in range(ranks):
        who = {"rank": r, "part": r, "device": r}
        for s in range(steps):
            at, number = 1000 * s, 100 * s
            events.append(step(s, at, at + 1000, rank=r, part=r))
            for k in range(20):
                call, start = at + 20 * k, at + 20 * k + 100 + lag
                here = {"correlation": number + k, "step": s} | who
                events.append(kernel(call, call + 5, "cudaLaunchKernel", kind="runtime") | here | {"device": None})
                events.append(kernel(start, start + 15) | here)
            events.append(reduce(at + 520 + lag + 10 * r, at + 800 + lag, group="0", seq=s, step=s) | who)
    return events


def without(events: list[Event], drop: Callable[[Event], bool]) -> list[Event]:
    return [event for event in events if not drop(event)]


def growing(steps: int = 5) -> list[Event]:
    """Blocks of 1000 bytes that a rank allocates and frees in each step, and one of 100 bytes that it keeps."""
    events = []
    for s in range(steps):
        for place, (size, address) in enumerate(((1000, 1), (100, 10 + s), (-1000, 1))):
            at = 1000 * s + 10 * (place + 1)
            block = {"bytes": size, "address": address, "duration_ns": None, "stream": None}
            events.append(kernel(at, at, "[memory]", kind="memory") | block)
    return events


def tail(event: Event) -> bool:
    return event["kind"] == "kernel" and event["rank"] == 1 and (event.get("correlation") or 0) >= 208


SPOILED: dict[str, tuple[Callable[[], Tables], str, str]] = {
    "clocks-differ": (
        lambda: by_hand([e | {"start_ns": e["start_ns"] + 10**6 * e["rank"]} for e in clean(steps=5)]),
        "warning", "5 of 5 collectives over 2 ranks do not overlap on all ranks; their ends are 1 ms apart (median)",
    ),
    "collectives-unmatched": (
        lambda: by_hand([e | {"group": None, "seq": None} for e in clean() if e.get("seq") != 1 or e["rank"]]),
        "note",
        (
            "5 kernels of stream 7: no number is printed, and the ranks have different numbers of them: rank 0 2, "
            "rank 1 3"
        ),
    ),
    "kernels-differ": (lambda: by_hand(without(clean(), lambda e: e.get("correlation") == 5 and e["rank"] == 1)),
        "note", "kernels: 63 on rank 0, 62 on rank 1"),
    "trace-cut": (lambda: by_hand(without(clean(), tail)),
        "warning", "rank 1: the last 12 of 60 launches have no kernel in the trace"),
    "no-device-work": (
        lambda: by_hand([e | {"kind": None, "category": "npu_op"} for e in clean(1) if e["kind"] == "kernel"][:9]),
        "warning", "none of 9 events is known as work of a device; 9 are of a kind that perflog does not know: npu_op",
    ),
    "events-without-end": (lambda: by_hand([*clean(), kernel(0, 5, "lost", duration_ns=None), kernel(5, 0, "back")]),
        "note", "2 events without duration: lost, back"),
    "kernels-overlap": (lambda: by_hand([*clean(1), kernel(10**6, 10**6 + 90), kernel(10**6, 10**6 + 90)]),
        "warning", (
            "1 kernel began before another one of the same stream had ended: 90 ns of 1.92 us of kernels; "
            "1 kernel is there twice"
        )),
    "kernels-of-days": (lambda: by_hand([*clean(1), kernel(10**6, 10**18, "endless")]),
        "warning", "1 event of more than a day, up to 1,000,000,000 s: endless"),
    "ranges-on-device": (lambda: by_hand([
            *clean(), step(0, 100, 700, kind="device_range", device=0), kernel(0, 50, "Event Sync", kind="sync")
        ]),
        "note", "600 ns of ranges and 50 ns of waits on device tracks, besides 3.45 us of work"),
    "graphs-whole": (
        lambda: by_hand([*clean(1), *(kernel(s, s + 20, "CUDA graph 3", kind="graph") for s in (900, 1900))]),
        "note", "2 graphs, each traced as a whole, took 2.2 % of the busy time: 40 ns",
    ),
    "step-outside": (lambda: by_hand(clean(lag=500)),
        "note", (
            "1.65 us of the work of 6 steps runs outside of the annotation of its step; in all steps the device is "
            "busy for 3.45 us"
        )),
    "profiler-overhead": (lambda: by_hand([*clean(), kernel(200, 290, "Buffer Flush", kind="overhead", device=None)]),
        "warning", "3.3 % of the time is work of the profiler: 90 ns of 2.7 us"),
    "memory-grows": (lambda: by_hand([*clean(1, steps=5), *growing()]),
        "warning", (
            "memory of device 0 (rank 0) grows by 100 B a step over 3 steps, to 500 B; most of what these steps keep "
            "is allocated in ProfilerStep#N (300 B)"
        )),
}  # fmt: skip


ALSO = {"collectives-unmatched": {"kernels-differ"}, "trace-cut": {"kernels-differ"}}  # what follows from the same flaw


def test_each_rule_on_traces_has_a_spoiled_trace() -> None:
    assert list(SPOILED) == [code for code, rule in RULES.items() if "events" in rule.needs]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_nothing_is_found_in_a_clean_trace(ranks: int) -> None:
    trace_findings = findings(by_hand(clean(ranks)))
    assert [f for f in trace_findings if "events" in RULES[f.code].needs or f.code == "torn-lines"] == []


@pytest.mark.parametrize("code", SPOILED)
def test_what_is_wrong_is_found_and_nothing_else(code: str) -> None:
    tables, severity, message = SPOILED[code][0](), *SPOILED[code][1:]
    trace_findings = [f for f in findings(tables) if "events" in RULES[f.code].needs]
    assert [(f.severity, f.message) for f in trace_findings if f.code == code] == [(severity, message)]
    assert {f.code for f in trace_findings} == {code} | ALSO.get(code, set())
    for f in trace_findings:
        assert f.evidence["lines"].keys() == f.lines.keys() and f.first_line > 0


@pytest.mark.parametrize(
    ("code", "numbers"),
    [
        ("profiler-overhead", {"overhead": 90e-9, "span": 2.7e-6}),
        ("step-outside", {"outside": 1.65e-6, "busy": 3.45e-6}),
        ("graphs-whole", {"graphs": 2, "time": 40e-9, "busy": 1.78e-6}),
        ("memory-grows", {"growth": 100, "steps": 3}),
    ],
)
def test_numbers_of_findings_are_those_of_their_messages(code: str, numbers: dict[str, float]) -> None:
    [found] = (f for f in findings(SPOILED[code][0]()) if f.code == code)
    assert found.numbers == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("overlap", "launches", "found"),
    [(9000, (1, 2), True), (9000, (3, 3), False), (900, (1, 2), False), (-5, (1, 2), False)],
)
@pytest.mark.parametrize("stream", [7, None])
def test_kernels_of_one_stream_that_overlap(
    overlap: int, launches: tuple[int, int], found: bool, stream: int | None
) -> None:
    """By more than times are rounded to; those of one launch are branches of a graph."""
    at = 50_000 - overlap
    spans = zip(((0, 50_000), (at, at + 50_000)), launches, strict=True)
    events = [kernel(*span, correlation=launch, stream=stream) for span, launch in spans]
    messages = [(f.severity, f.message) for f in findings(by_hand(events)) if f.code == "kernels-overlap"]
    text = "1 kernel began before another one of the same stream had ended: 9 us of 100 us of kernels"
    assert messages == ([("note", text)] if found and stream else [])


def test_a_trace_that_begins_late() -> None:
    late = without(clean(1), lambda e: e["kind"] == "runtime" and e["correlation"] < 15)
    for rank, who in ((0, "rank 0: "), (None, "")):
        (finding,) = (f for f in findings(by_hand([e | {"rank": rank} for e in late])) if f.code == "trace-cut")
        assert finding.message == f"{who}the first 15 of 60 kernels were launched before the trace began"


def test_a_trace_of_the_device_alone_is_not_cut() -> None:
    alone = without(clean(), lambda e: e["kind"] == "runtime")
    assert "trace-cut" not in {f.code for f in findings(by_hand(alone))}


@needs_corpus
def test_the_real_traces() -> None:
    messages = {f.code: f.message for f in findings(real(0, 1)) if "events" in RULES[f.code].needs}
    assert messages == {
        "collectives-unmatched": "16 kernels of stream 84: in order of time, 2 of 8 overlap on all ranks: order does "
        "not match them, or the clocks differ",
        "kernels-differ": "kernels: 1,154 on rank 0, 1,104 on rank 1",
    }


@pytest.mark.parametrize(
    ("lost", "total", "found"), [(9, 20, 0), (10, 20, 10), (10, 1000, 0), (11, 1000, 11), (20, 20, 0)]
)
def test_launches_at_an_edge_are_lost_if_they_are_ten_and_above_1_percent(lost: int, total: int, found: int) -> None:
    assert _lost_at_start(np.arange(total) >= lost) == found


def only(code: str, events: list[Event], **config: object) -> Finding:
    (finding,) = RULES[code](LintInput(by_hand(events, **config), Options()))
    return finding


def test_kernels_overlap_a_long_one_that_began_before() -> None:
    """On each of two streams: the third begins in the first, the second does not reach it."""
    spans = [(0, 100_000), (10_000, 20_000), (50_000, 60_000), (98_000, 110_000)]
    events = [kernel(*span, f"k{n}", stream=stream) for stream in (8, 7) for n, span in enumerate(spans)]
    finding = only("kernels-overlap", events)
    assert finding.numbers == pytest.approx({"kernels": 6, "copies": 0, "overlap": 44e-6, "time": 264e-6})
    assert sorted(finding.lines["r"]) == [2, 3, 4, 6, 7, 8]


def test_kernels_of_queues_and_of_other_contexts_may_overlap() -> None:
    elsewhere: list[Event] = [{"context": 1}, {"context": 2}, {"process": "p"}, {"device": 3}]
    assert not RULES["kernels-overlap"](LintInput(by_hand([kernel(0, 50_000) | each for each in elsewhere]), Options()))


def test_an_unknown_event_is_named_with_its_category() -> None:
    events = [kernel(0, 5, kind="cpu"), kernel(5, 9, kind=None), kernel(5, 9, kind="operation")]
    finding = only("no-device-work", events)
    assert finding.message == (
        "none of 2 events is known as work of a device; 1 is of a kind that perflog does not know: no category"
    )
    assert list(finding.lines["r"]) == [2] and finding.numbers == {"events": 2}
    finding = only("no-device-work", events[:1])
    assert finding.message == "none of 1 event is known as work of a device" and list(finding.lines["r"]) == [1]


def test_three_groups_of_unmatched_collectives_are_named() -> None:
    """No group has a number, and one of two ranks has one more at the begin of each."""
    events = [
        reduce(1000 * n, 1000 * n + 100, rank=rank, part=rank, device=rank, stream=stream)
        for stream in range(4)
        for rank in (0, 1)
        for n in range(1 - rank, 3)
    ]
    finding = only("collectives-unmatched", events)
    assert finding.message.count("kernels of stream") == 3
    assert finding.numbers == {"calls": 20}


def test_numbers_of_ranges_and_waits_are_in_seconds() -> None:
    events = [
        *clean(1),
        step(0, 100, 700, kind="device_range", device=0),
        step(1, 700, 800, kind="device_range", device=0),
        kernel(0, 50, "Event Sync", kind="sync"),
    ]
    numbers = only("ranges-on-device", events).numbers
    assert numbers == pytest.approx({"device_range": 700e-9, "sync": 50e-9, "busy": 1.74e-6}, abs=1e-15)


@pytest.mark.parametrize(("fewer", "found"), [(1, False), (2, True)])
def test_ranks_with_more_than_1_percent_other_kernels(fewer: int, found: bool) -> None:
    """Of the larger number, 100."""
    events = [
        *(kernel(100 * n, 100 * n + 50, rank=r, part=r, device=r) for r in (0, 1) for n in range(99 - fewer * r)),
        *(reduce(10**6, 10**6 + 10, rank=r, part=r, device=r, group="0", seq=0) for r in (0, 1)),
    ]
    assert len(RULES["kernels-differ"](LintInput(by_hand(events), Options()))) == found
