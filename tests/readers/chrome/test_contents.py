"""Contents of a trace, piece by piece: what becomes of each event, and pairs of begin and end across pieces."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from perflog.readers.chrome.argument_columns import EventArgs
from perflog.readers.chrome.contents import SHARED_CODES, BeginEndPairs, PieceDecoder, TraceContents, translate
from perflog.readers.chrome.events import DecodedPiece, EventDecoder, Reading, counter_readings, memory_readings
from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.events.spill_file import load_spilled
from perflog.readers.events.string_interning import new_interners

Json = dict[str, Any]


def x(name: str, ts: Any = None, dur: Any = 1, cat: str = "cpu_op", **more: Any) -> Json:
    event = {"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": 2, "dur": dur} | more
    return event | ({} if ts is None else {"ts": ts})


def contents(*pieces: tuple[int, Sequence[Json]]) -> tuple[TraceContents, Any, Any]:
    """The contents of pieces, each by a worker of this number; the file of rows, and the strings."""
    interners, file = new_interners(), io.BytesIO()
    found = TraceContents(None, interners, file)  # type: ignore[arg-type]
    decoders: dict[int, PieceDecoder] = {}
    for worker, events in pieces:
        decoder = decoders.setdefault(worker, PieceDecoder())
        piece = decoder(memoryview(json.dumps(events).encode()), file)
        assert piece is not None
        found.add(worker, piece)
    return found, file, interners


def rows_of(found: TraceContents, file: Any, interners: Any) -> list[tuple[int, str, int, int]]:
    """Position, name, start and duration of all events."""
    rows = []
    for worker, spilled, base in found.pieces:
        columns = translate(interners, worker, load_spilled(file, spilled))
        places = (columns["place"].astype(np.int64) + base).tolist()
        names = [interners["name"].texts[code] for code in columns["name"].tolist()]
        rows += list(zip(places, names, columns["start"].tolist(), columns["duration"].tolist(), strict=True))
    return sorted(rows)


def shapes(found: TraceContents) -> dict[tuple[str, str], tuple[int, int]]:
    return {key: (shape.count, shape.first) for key, shape in found.account.shapes.items()}


def test_what_is_no_array_is_no_piece() -> None:
    assert PieceDecoder()(memoryview(b'[{"ph": "X"'), io.BytesIO()) is None


def test_events_are_numbered_from_1_across_pieces_and_workers() -> None:
    found = contents((0, [x("a", 5), x("b", 3, 2)]), (1, [x("b", 9), x("c", 8)]), (0, [x("c", 7), x("a")]))
    assert rows_of(*found) == [
        (1, "a", 5000, 1000), (2, "b", 3000, 2000), (3, "b", 9000, 1000), (4, "c", 8000, 1000), (5, "c", 7000, 1000),
        (6, "a", MISSING, 1000),
    ]  # fmt: skip
    assert (found[0].count, found[0].begin) == (6, 3000)
    assert shapes(found[0]) == {("read", "X cpu_op"): (6, 1)}


def test_a_trace_begins_with_the_first_piece_that_has_a_start() -> None:
    found, *_ = contents((0, [x("a"), x("b")]), (0, [{"ph": "M", "name": "n"}]), (0, [x("c", 9)]), (0, [x("d", 2)]))
    assert found.begin == 9000
    assert len(found.pieces) == 3  # the one of metadata has no rows


def test_what_becomes_of_each_phase() -> None:
    found, *_ = contents((0, [x("a", 1)]), (0, [
        {"ph": "s", "cat": "flow"}, {"ph": "Q"}, {"ph": "M", "name": "x"}, x("p", 1, cat="perflog_x"), {"ph": "M"},
        {"ph": "C", "name": "n", "cat": "mem", "ts": 1, "args": {"v": "high"}},
        {"ph": "C", "name": "n", "cat": "mem", "ts": 2, "args": {"v": 7}}, {"ph": "Q"},
    ]))  # fmt: skip
    assert shapes(found) == {
        ("read", "X cpu_op"): (1, 1), ("context", "s flow"): (1, 2), ("unread", "Q"): (2, 3), ("context", "M"): (2, 4),
        ("context", "X perflog_x"): (1, 5), ("read", "C mem"): (1, 7), ("unread", "C mem without a number"): (1, 7),
    }  # fmt: skip
    (readings,) = found.readings
    assert (readings["place"].tolist(), readings["value"].tolist()) == ([8], [7.0])


def test_names_of_processes_and_threads() -> None:
    def named(kind: str, name: str, pid: int = 1, tid: int = 2) -> Json:
        key = "labels" if kind == "process_labels" else "name"
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {key: name}}

    found, *_ = contents((0, [
        named("process_name", "python"), named("process_labels", "GPU 0"), named("thread_name", "main"),
        named("thread_name", "other", 1, 3), named("process_name", "last"),
    ]))  # fmt: skip
    assert found.process_names == {"1": "last"} and found.process_labels == {"1": "GPU 0"}
    assert found.thread_names == {("1", "2"): "main", ("1", "3"): "other"}


def test_numbers_of_undeclared_arguments_have_their_position() -> None:
    found, _, interners = contents((0, [x("a", 1)]), (0, [x("b", 2), x("c", 3, args={"odd": 5})]))
    (values,) = found.values
    assert (values["place"].tolist(), values["value"].tolist()) == ([3], [5.0])
    assert [interners["key"].texts[code] for code in values["key"].tolist()] == ["odd"]
    figures = found.account.figures["odd"]
    assert (figures.stored, figures.dropped, figures.unread, figures.first) == (1, 0, 0, 3)


def test_arguments_are_counted_in_all_pieces() -> None:
    piece = (0, [x("a", 1, args={"External id": 3, "Ev Idx": 7, "odd": "7 apples"})])
    for number in (1, 2):
        found, *_ = contents(*[piece] * number)
        counted = {name: (f.stored, f.dropped, f.unread) for name, f in found.account.figures.items()}
        assert (counted["External id"], counted["Ev Idx"], counted["odd"]) == (
            (number, 0, 0),
            (0, number, 0),
            (0, 0, number),
        )
        assert found.account.figures["Ev Idx"].because and not found.account.figures["odd"].because


def test_ranges_steps_and_calls_stay_in_memory() -> None:
    found, *_ = contents((0, [x("a", 1)]), (0, [
        x("fwd", 1, 9, "user_annotation"), x("ProfilerStep#3", 1, 20), x("op", 2),
        x("launch", 3, 1, "cuda_runtime", args={"correlation": 7}), x("sync", 4, 1, "cuda_runtime"),
    ]), (0, [x("op", 3), x("ProfilerStep#3", 30), x("ProfilerStep#4", 40)]))  # fmt: skip
    assert [ranges["place"].tolist() for ranges in found.ranges] == [[2, 3], [8, 9]]
    assert [calls["correlation"].tolist() for calls in found.calls] == [[7]]


def test_an_event_that_could_not_be_decoded_is_unread() -> None:
    found, *_ = contents((0, [x("a", 1)]))
    found.add_unread("torn event", "{...")
    assert found.count == 2
    assert shapes(found)["unread", "torn event"] == (1, 2)


def test_damaged_events_keep_their_positions() -> None:
    decoder, file = PieceDecoder(), io.BytesIO()
    found = TraceContents(None, new_interners(), file)  # type: ignore[arg-type]
    text = b'{"ph":"X","ts":1},{"ph":,{"ph":"X","ts":2}'
    for _ in range(2):
        found.add(0, decoder.spill(decoder.decoder.decode_each(text, [(0, 17), (18, 24), (25, 42)]), file))
    assert shapes(found) == {("read", "X"): (4, 1), ("unread", "damaged event"): (2, 2)}
    assert found.count == 6


def begin(phase: str, name: str, ts: Any = None, **more: Any) -> Json:
    event = {"ph": phase, "name": name, "pid": 1, "tid": 2, "cat": "c"} | more
    return event | ({} if ts is None else {"ts": ts})


def test_pairs_of_begin_and_end_nest_and_span_pieces() -> None:
    found, file, interners = contents(
        (0, [begin("B", "outer", 1), begin("B", "inner", 2), begin("E", "", 5)]),
        (1, [begin("E", "", 9), begin("B", "open", 11), begin("E", "", 1, tid=3)]),
        (0, [begin("E", "", 1, tid=3), {"ph": "e"}]),
    )
    found.finish()
    assert rows_of(found, file, interners) == [(1, "outer", 1000, 8000), (2, "inner", 2000, 3000),
                                               (5, "open", 11_000, MISSING)]  # fmt: skip
    assert shapes(found) == {
        ("read", "B c"): (3, 1), ("read", "E c"): (2, 3), ("unread", "E c without its begin"): (2, 6),
        ("unread", "e without its begin"): (1, 8),
    }  # fmt: skip
    assert {worker for worker, *_ in found.pieces} == {SHARED_CODES}


def test_joined_ranges_and_calls_stay_in_memory() -> None:
    found, *_ = contents((0, [
        begin("B", "ProfilerStep#3", 1), begin("B", "fwd", 2, cat="user_annotation"), begin("E", "", 3),
        begin("B", "launch", 4, cat="cuda_runtime", args={"correlation": 7}), begin("E", "", 5),
    ]))  # fmt: skip
    assert [ranges["place"].tolist() for ranges in found.ranges] == [[2]]
    assert [calls["correlation"].tolist() for calls in found.calls] == [[7]]
    found.finish()
    assert [ranges["place"].tolist() for ranges in found.ranges] == [[2], [1]]


PAIRED = ("phase", "process", "thread", "category", "id", "start", "place")


def pairs(*events: tuple[str, int, int, int, int, int]) -> EventColumns:
    """Columns of begins and ends, from phase, process, thread, category, id and start; the position counts from 1."""
    rows = [(ord(event[0]), *event[1:], place) for place, event in enumerate(events, 1)]
    return {name: np.array(values, np.int64) for name, values in zip(PAIRED, zip(*rows, strict=True), strict=True)}


def joined(*events: tuple[str, int, int, int, int, int]) -> tuple[list[tuple[int, int]], BeginEndPairs]:
    """Position of the begin and duration of the events of one piece."""
    found = BeginEndPairs()
    rows = [
        pair for columns in found.add(pairs(*events))
        for pair in zip(columns["place"].tolist(), columns["duration"].tolist(), strict=True)
    ]  # fmt: skip
    return rows, found


def test_pairs_of_a_thread_need_no_category_and_no_id() -> None:
    assert joined(("B", 1, 2, 3, 4, 10), ("E", 1, 2, 9, 9, 15))[0] == [(1, 5)]
    assert joined(("B", 1, 2, 3, 4, 10), ("E", 1, 3, 3, 4, 15))[0] == []
    assert joined(("B", 1, 2, 3, 4, 10), ("E", 2, 2, 3, 4, 15))[0] == []


def test_asynchronous_pairs_have_the_category_and_id_but_any_thread() -> None:
    for one, two in ("be", "SF"):
        assert joined((one, 1, 2, 3, 4, 10), (two, 1, 7, 3, 4, 15))[0] == [(1, 5)]
        for other in ((1, 2, 3, 5), (1, 2, 4, 4), (2, 2, 3, 4)):
            assert joined((one, 1, 2, 3, 4, 10), (two, *other, 15))[0] == []
    assert joined(("b", 1, 2, 1, 2, 10), ("E", 1, 2, 1, 2, 15))[0] == []


def test_a_duration_that_is_not_known_or_beyond_64_bits_is_missing() -> None:
    far = 1 << 62
    assert joined(("B", 1, 1, 1, 1, MISSING), ("E", 1, 1, 1, 1, 5))[0] == [(1, MISSING)]
    assert joined(("B", 1, 1, 1, 1, 5), ("E", 1, 1, 1, 1, MISSING))[0] == [(1, MISSING)]
    assert joined(("B", 1, 1, 1, 1, -far), ("E", 1, 1, 1, 1, far - 1))[0] == [(1, 2 * far - 1)]
    assert joined(("B", 1, 1, 1, 1, -far), ("E", 1, 1, 1, 1, far))[0] == [(1, MISSING)]
    assert joined(("B", 1, 1, 1, 1, 5), ("E", 1, 1, 1, 1, 3))[0] == [(1, -2)]


def test_ends_without_a_begin_are_counted_with_the_first() -> None:
    _, found = joined(("E", 1, 1, 7, 1, 5), ("E", 1, 1, 7, 1, 6), ("e", 1, 1, -1, 1, 6))
    assert found.ends_without_begin == {(ord("E"), 7): (2, 1), (ord("e"), -1): (1, 3)}


def test_begins_that_never_ended_are_given_once() -> None:
    _, found = joined(("B", 1, 1, 7, 1, 5), ("b", 1, 1, 7, 1, 6), ("B", 1, 1, 7, 1, 7), ("E", 1, 1, 7, 1, 8))
    (columns,) = found.unended()
    assert (columns["place"].tolist(), columns["duration"].tolist()) == ([1, 2], [MISSING] * 2)
    assert columns.keys() == {*PAIRED, "duration"} - {"phase", "id"}
    assert found.unended() == []


# --- the decoder of a piece -------------------------------------------------------------------------------------------

BAD = b'{"ph": X}'


def timed(name: str, **args: Any) -> bytes:
    return json.dumps(x(name, 5, args=args)).encode()


def decoded(*events: bytes, **options: Any) -> DecodedPiece:
    ends = np.cumsum([len(event) + 1 for event in events]).tolist()
    spans = [(end - 1 - len(event), end - 1) for end, event in zip(ends, events, strict=True)]
    return EventDecoder().decode_each(b",".join(events), spans, **options)


@pytest.mark.parametrize(
    ("events", "options", "count", "damaged"),
    [
        ([timed("a"), BAD, timed("b")], {}, 3, [1]),
        ([timed("a"), BAD, BAD, timed("b")], {}, 4, [1, 2]),
        ([timed("a"), BAD, BAD, timed("b")], {"trusted": False}, 1, []),  # the boundaries are wrong from here on
        ([timed("a"), BAD, timed("b"), BAD], {"trusted": False, "last": False}, 3, [1]),  # the last may go on
        ([timed("a"), BAD, timed("b"), BAD], {"trusted": False, "last": True}, 4, [1, 3]),
        ([BAD, BAD], {"trusted": False}, 0, []),
    ],
)
def test_damaged_events_one_by_one(
    events: list[bytes], options: dict[str, bool], count: int, damaged: list[int]
) -> None:
    piece = decoded(*events, **options)
    assert (piece.count, [index for index, _ in piece.damaged]) == (count, damaged)
    assert sum(phase.count for phase in piece.phases) == count - len(damaged)
    assert {text for _, text in piece.damaged} <= {BAD.decode()}


def test_an_argument_that_nobody_declared_has_its_first_event() -> None:
    """A sample only in the first piece that has it, as shapes of events do."""
    decoder = EventDecoder()
    pieces = [[timed("a", odd=1), timed("b", even=2, odd=3)], [timed("c"), timed("d", odd=4)]]
    first, second = (decoder.decode_list(b"[" + b",".join(events) + b"]") for events in pieces)
    assert first is not None and second is not None
    found = [(name, figures.stored, figures.first) for name, figures in sorted(first.figures.items())]
    assert found == [("even", 1, 1), ("odd", 2, 0)]
    assert first.figures["odd"].sample.startswith('"odd": 1') and first.phases[0].sample == timed("a", odd=1).decode()
    assert (second.figures["odd"].stored, second.figures["odd"].sample, second.phases[0].sample) == (1, "", "")
    (late,) = decoded(timed("c"), BAD, timed("d", odd=4)).figures.items()
    assert (late[0], late[1].stored, late[1].first) == ("odd", 1, 2)


@pytest.mark.parametrize(
    ("text", "count"),
    [(b'[{"ph":"X","ts":1,"dur":2}]', 1), (b'[{"ph":"X","ts":1,"dur":NaN},{"ph":"X","ts":2,"dur":3}]', 2),
     (b'[{"ph":"X","ts":1', None), (b'[{"ph":"X","ts":NaN', None), (b'{"ph":"X"}', None)],
)  # fmt: skip
def test_a_list_of_events_may_hold_numbers_that_are_none(text: bytes, count: int | None) -> None:
    piece = EventDecoder().decode_list(text)
    assert (piece and piece.count) == count


@pytest.mark.parametrize(
    ("kind", "number", "where"),
    [
        (0, -1, "host memory"), (0, 1, "host memory"), (1, 0, "device memory"), (None, 0, "device memory"),
        (None, -1, "host memory"), (1, None, "device memory"), (None, None, "memory"), ("x", "y", "memory"),
    ],
)  # fmt: skip
def test_totals_of_memory_are_of_a_device_or_of_the_host(kind: object, number: object, where: str) -> None:
    args = EventArgs(memory_device_type=kind, memory_device=number, allocated="512", reserved="x")
    assert memory_readings(7, args, 3) == [Reading(7, f"{where} allocated", 512.0, 3, True)]


def test_each_number_of_a_counter_is_a_reading() -> None:
    def readings(args: object, **fields: object) -> list[tuple[str, float]]:
        return [(each.name, each.value) for each in counter_readings(7, {"name": "n", "args": args} | fields)]

    assert readings({"value": 3}) == readings({"": 3}) == readings({"n": "3"}) == [("n", 3)]
    assert readings({"value": 3, "x": 4, "y": "z"}) == [("n.value", 3), ("n.x", 4)]
    assert readings({"x": 3}, id=5) == [("n[5].x", 3)]
    assert readings(None) == []
