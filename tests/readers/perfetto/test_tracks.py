"""Tracks of a Perfetto trace: whose events a track has, and what a counter counts."""

from __future__ import annotations

import pytest
from support.history_files import field as wire
from support.perfetto_files import packet, process, thread, track

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.perfetto.packets import TEXTS, PacketReader
from perflog.readers.perfetto.tracks import Track, Tracks


def tracks(*fields: bytes, generation: list[int] | None = None) -> Tracks:
    """The tracks of packets with a field each. `generation`: filled with that of each packet."""
    found = Tracks()
    reader = PacketReader(memoryview(b"".join(map(packet, fields))), "trace")
    for batch in reader.batches({table: StringInterner() for table in TEXTS}):
        found.learn(batch)
        if generation is not None:
            generation += batch.generation.tolist()
    return found


def host(process: str | None, thread: str | None) -> Track:
    return Track(process, thread, None, MISSING, False)


PROCESS, THREAD = track(1, process=process(7, "python")), track(2, "main thread", 1, thread=thread(7, 70, "worker"))


@pytest.mark.parametrize(
    ("fields", "uuid", "expected"),
    [
        ([], 0, host(None, None)),
        ([], 0xAB, host(None, "track ab")),
        ([], -1, host(None, "track ffffffffffffffff")),
        ([PROCESS], 1, host("7", "track 1")),
        ([PROCESS, THREAD], 2, host("7", "worker")),  # its thread's name, not the track's
        ([PROCESS, track(2, "steps", 1)], 2, host("7", "steps")),
        ([PROCESS, THREAD, track(3, "steps", 2)], 3, host("7", "steps")),  # a track of a thread
        ([PROCESS, THREAD, track(3, "", 2)], 3, host("7", "worker")),
        ([track(2, thread=thread(7, 70, ""))], 2, host("7", "70")),  # the number of a thread without a name
        ([track(2, "own", thread=thread(7, 70, ""))], 2, host("7", "own")),
        ([track(2, "own", 9)], 2, host(None, "own")),  # nothing describes the track around it
        ([track(2, "own", 2)], 2, host(None, "own")),  # a track around itself
        ([track(2, "first"), track(2, "second")], 2, host(None, "second")),
        ([track(2, "first", 1), track(2), PROCESS], 2, host("7", "first")),  # what is left out stays
    ],
)  # fmt: skip
def test_the_process_and_thread_of_a_track(fields: list[bytes], uuid: int, expected: Track) -> None:
    assert tracks(*fields).track(uuid, 1) == expected


@pytest.mark.parametrize(("number", "shown"), [(2, "name"), (10, "static"), (13, "atrace")])
def test_three_fields_name_a_track(number: int, shown: str) -> None:
    assert tracks(wire(60, wire(1, 5) + wire(number, shown))).name(5) == shown
    both = wire(60, wire(1, 5) + wire(2, "name") + wire(number, shown if number > 2 else "name") + wire(10, ""))
    assert tracks(both).name(5) == "name"


@pytest.mark.parametrize(
    ("fields", "uuid", "expected"),
    [
        ([track(1, "GPU 3"), track(2, "stream 7", 1)], 2, (3, 7, True)),
        ([track(1, "GPU 3"), track(2, "stream 7", 1), track(3, "steps", 1)], 3, (3, MISSING, False)),  # beside streams
        ([track(1, "GPU 3"), track(2, "kernels", 1)], 2, (3, MISSING, True)),
        ([track(1, process=process(7, "GPU 3")), track(2, "stream 7", 1)], 2, (3, 7, True)),
        ([wire(44, wire(1, wire(1, 7))), track(1, process=process(7, "")), track(2, "stream 7", 1)], 2,
         (None, MISSING, False)),
        ([wire(43, wire(1, 7) + wire(6, "GPU 3")), track(1, process=process(7, "")), track(2, "stream 7", 1)], 2,
         (3, 7, True)),  # a packet of its own names the process
        ([track(2, "COMPUTE AGENT [4] QUEUE [5] (GPU)")], 2, (4, 5, True)),
        ([track(2, "COPY to AGENT [4] THREAD [1] (GPU)")], 2, (4, MISSING, True)),
        ([track(2, "STREAM [6]")], 2, (-1, 6, True)),
        ([track(1, "STREAM [6]"), track(2, "x", 1)], 2, (-1, 6, True)),
        ([track(1, "GPU"), track(2, "x", 1)], 2, (None, MISSING, False)),  # no number, no device
    ],
)  # fmt: skip
def test_the_device_and_stream_of_a_track(
    fields: list[bytes], uuid: int, expected: tuple[int | None, int, bool]
) -> None:
    found = tracks(*fields).track(uuid, 1)
    assert (found.device, found.stream, found.is_work) == expected


def test_a_track_that_is_described_later_may_show_which_tracks_have_work() -> None:
    found = tracks(track(1, "GPU 3"), track(2, "steps", 1))
    assert found.track(2, 1).is_work
    reader = PacketReader(memoryview(packet(track(4, "stream 1", 1))), "trace")
    for batch in reader.batches({table: StringInterner() for table in TEXTS}):
        found.learn(batch)
    assert not found.track(2, 1).is_work


def test_the_thread_of_a_sequence_is_track_0() -> None:
    generation: list[int] = []
    found = tracks(wire(44, wire(1, 7) + wire(2, 70) + wire(5, "main")), generation=generation)
    assert found.track(0, generation[0]) == host("7", "main")
    assert found.track(0, generation[0] + 1) == host(None, None)
    assert tracks(wire(44, wire(1, 7) + wire(2, 70))).track(0, generation[0]) == host("7", "70")


def test_tracks_may_be_a_hundred_deep() -> None:
    def chain(depth: int) -> Tracks:
        return tracks(PROCESS, *(track(at, "", at - 1) for at in range(2, depth + 1)))

    assert chain(100).track(100, 1).process == "7"
    assert chain(101).track(101, 1).process is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ("", 1, False)),
        (wire(3, 1), ("ns", 1, False)),
        (wire(3, 2), ("", 1, False)),
        (wire(3, 3) + wire(4, 1024), ("B", 1024, False)),
        (wire(3, 3) + wire(6, "W"), ("W", 1, False)),
        (wire(3, 9) + wire(5, 1), ("", 1, True)),
    ],
)
def test_the_unit_of_a_counter(content: bytes, expected: tuple[str, int, bool]) -> None:
    found = tracks(track(3), track(4, "power", counter=content))
    assert found.counter(4) == expected
    assert found.counter(3) == found.counter(99) == ("", 1, False)


def test_the_name_of_a_counter_may_be_that_of_the_track_around_it() -> None:
    found = tracks(track(3, "GPU power"), track(4, "", 3))
    assert (found.name(4), found.name(3), found.name(9)) == ("GPU power", "GPU power", "")
    assert tracks(track(1, process=process(7, "python")), track(2, process=process(8, ""))).process_names == {
        7: "python"
    }


def test_a_process_without_a_number_is_the_kernel() -> None:
    assert tracks(track(1, process=wire(6, "swapper"))).process_names == {0: "swapper"}
