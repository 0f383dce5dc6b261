"""The structure of an XSpace file: what a file begins with, planes, lines, and what events share."""

from __future__ import annotations

import numpy as np
import pytest
from support.history_files import field as wire
from support.xplane_files import Event, PlaneWriter, space

from perflog.readers.xplane.planes import Plane, begins_as_space, read_space

NAME = 2
"""Field of a plane that is its name."""


def planes(data: bytes) -> list[Plane]:
    return list(read_space(memoryview(data)).planes())


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (wire(1, wire(NAME, "/host:CPU")), True),
        (wire(1, wire(1, 3) + wire(NAME, "/host:CPU")), True),
        (wire(1, wire(1, 300) + wire(NAME, "/host:CPU") + bytes(5000)), True),  # longer numbers
        (wire(1, wire(NAME, "x" * 127)), True),
        (wire(1, wire(NAME, "x" * 128)), False),  # its length has two bytes
        (wire(1, wire(NAME, "")), False),
        (wire(1, wire(NAME, "a\nb")), False),
        (wire(1, wire(NAME, "/host:CPU"))[:-1], False),
        (wire(1, wire(3, "line")), False),
        (wire(1, wire(1, 3) + wire(3, "line")), False),
        (wire(2, wire(NAME, "/host:CPU")), False),
        (b"\x0a\x80", False),
        (b"\x0a\x05\x08\x03", False),
        (b"", False),
    ],
)
def test_whether_a_file_begins_with_a_plane(head: bytes, expected: bool) -> None:
    assert begins_as_space(head) is expected


def test_a_space_has_planes_hosts_and_messages() -> None:
    data = space(PlaneWriter("first"), PlaneWriter("second"), host="node7") + wire(2, "error") + wire(3, "warning")
    found = read_space(memoryview(data + wire(4, "node8")))
    assert [plane.name for plane in found.planes()] == ["first", "second"]
    assert (found.hosts, found.messages, found.damage) == (["node7", "node8"], ["error", "warning"], -1)
    cut = read_space(memoryview(data)[:-1])
    assert cut.messages == ["error"]
    assert cut.damage == len(data) - len(wire(3, "warning"))


def test_the_name_of_a_plane_is_the_last_one() -> None:
    assert [plane.name for plane in planes(wire(1, wire(NAME, "a") + wire(NAME, "b")) + wire(1, b""))] == ["b", ""]


def test_lines_have_numbers_names_and_the_zero_of_their_times() -> None:
    writer = (
        PlaneWriter("plane").line("first", [Event("a", 1, 2), Event("b", 3, 4)], 1000, 7).line("second", [], -5, -1)
    )
    (plane,) = planes(space(writer))
    first, second = plane.lines()
    assert (first.number, first.name, first.start_ns, first.damage) == (7, "first", 1000, -1)
    assert (second.number, second.name, second.start_ns, len(second.starts)) == (-1, "second", -5, 0)
    contents = [bytes(first.data[a:b]) for a, b in zip(first.starts.tolist(), first.ends.tolist(), strict=True)]
    assert contents == [
        wire(1, number) + wire(2, at) + wire(3, length) for number, at, length in ((1, 1, 2), (2, 3, 4))
    ]


def test_a_line_without_fields_and_a_cut_one() -> None:
    (plane,) = planes(wire(1, wire(NAME, "p") + wire(3, b"") + wire(3, wire(2, "x") + b"\x22\x09")))
    empty, cut = plane.lines()
    assert (empty.number, empty.name, empty.start_ns, len(empty.starts), empty.damage) == (0, "", 0, 0, -1)
    assert (cut.name, len(cut.starts)) == ("x", 0)
    assert cut.damage >= 0


def entry(number: int, *fields: bytes) -> bytes:
    return wire(4, wire(1, number) + wire(2, wire(1, number) + b"".join(fields)))


def test_events_are_named_by_number() -> None:
    table = entry(9, wire(2, "matmul")) + entry(4, wire(2, "%fusion"), wire(4, "fusion")) + entry(7)
    (plane,) = planes(wire(1, wire(NAME, "p") + table))
    rows = plane.events.rows(np.array([4, 9, 7, 5, 0, 10]))
    assert [plane.events.name[row] for row in rows] == ["fusion", "matmul", "", "", "", ""]
    assert rows.tolist()[3:] == [3, 3, 3]  # the last row is for unknown numbers


def test_of_two_rows_of_one_number_the_last_counts() -> None:
    (plane,) = planes(wire(1, wire(NAME, "p") + entry(9, wire(2, "first")) + entry(9, wire(2, "second"))))
    assert plane.events.name[int(plane.events.rows(np.array([9]))[0])] == "second"


def test_a_plane_without_a_table_names_no_event() -> None:
    (plane,) = planes(wire(1, wire(NAME, "p")))
    assert [plane.events.name[row] for row in plane.events.rows(np.array([1, 2]))] == ["", ""]


def test_the_statistics_of_a_plane_have_names() -> None:
    writer = PlaneWriter("p", stats={"device": "H100", "clock": 1_980_000, "share": 0.5})
    (plane,) = planes(space(writer))
    assert plane.stats == {"device": "H100", "clock": 1_980_000, "share": 0.5}
    twice = wire(5, wire(1, 1) + wire(2, wire(2, "clock"))) + b"".join(wire(6, wire(1, 1) + wire(4, n)) for n in (5, 6))
    assert planes(wire(1, wire(NAME, "p") + twice))[0].stats == {"clock": 6}
