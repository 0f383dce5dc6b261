"""The fixed-width path reads lines of one layout as regular expressions and float() do, to the last bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.arrays import Ints
from perflog.formats.template import Template
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match import fixed_width
from perflog.parsing.match.fixed_width import FixedWidthMatcher
from perflog.parsing.match.numeric import numeric_template

QUICK = examples(200)
TEXTS = [
    "AB, {x:.6f}, {y:r}, 0 ",
    "AB 9 {n:d} of {m:d}",
    "{n:d}",
    "{n:d} wait: {x:g}",
    "a line of words alone, longer than one word of eight bytes",
    "AB, {x:.6f}, {_:r}; {n:d} ",
    "AB, {x:r} sec",
    "CD {n:6d}/{_:<4d}| lr: {x:.3E} | norm: {y:^9.3f} |",
]
TEMPLATES = [Template(text) for text in TEXTS]


@cache
def ready() -> FixedWidthMatcher:
    return FixedWidthMatcher([p for kind, t in enumerate(TEMPLATES) if (p := numeric_template(kind, t))])


@pytest.fixture(autouse=True)
def every_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_width, "MIN_LINES", 1)


def edges(lines: list[bytes]) -> tuple[bytearray, int, Ints, Ints]:
    data = b"".join(x + b"\n" for x in lines)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return bytearray(data + bytes(SLACK)), len(data), starts, ends


def by_layout(lines: list[bytes]) -> dict[int, tuple[int, dict[str, str]]]:
    """Template and values of each line that is read by its layout."""
    read: dict[int, tuple[int, dict[str, str]]] = {}
    for kind, found in ready()._match_layouts(*edges(lines)):
        for i, line in enumerate(found.lines.tolist()):
            assert line not in read
            read[line] = kind, {name: repr(column[i].item()) for name, column in found.columns.items()}
    return read


def by_template(line: bytes) -> tuple[int, dict[str, str]] | None:
    for kind, t in enumerate(TEMPLATES):
        values = t.match(line)
        if values is not None:
            return kind, {name: repr(v) for name, v in values.items()}
    return None


digits = st.text("0123456789", min_size=1, max_size=17)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.floats(0, 1e6).map(repr),
    st.integers(0, 10**16).map(str),
    st.builds("{}{}".format, st.sampled_from(["", " ", "   "]), digits),
    st.builds(
        "{}.{}{}{}".format,
        digits,
        digits,
        st.sampled_from(["e-", "E+", "E-", "e"]),
        st.text("0123456789", min_size=1, max_size=4),
    ),
    st.sampled_from(["", ".", "5.", ".5", "1.2.3", "-1", "1e5", "nan", "0", "00", "/", ":", "0/0", "1:1", "\x80", "²"]),
)


@st.composite
def line(draw: st.DrawFn) -> bytes:
    t = draw(st.sampled_from(TEMPLATES))
    out = t.literals[0] + "".join(draw(numbers) + x for x in t.literals[1:])
    raw = bytearray(out.encode() + draw(st.sampled_from([b"", b"", b" ", b"\t ", b"x"])))
    if raw and draw(st.integers(0, 3)) == 0:
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.sampled_from(b"0189/:. \x00\x39\x80\xb9\xff"))
    return bytes(raw).replace(b"\n", b"")


@QUICK
@given(st.lists(line(), min_size=1, max_size=40))
def test_what_a_layout_reads_is_what_the_template_reads(lines: list[bytes]) -> None:
    for index, found in by_layout(lines).items():
        assert found == by_template(lines[index]), lines[index]


@QUICK
@given(st.data(), st.integers(1, 14), st.integers(0, 14))
def test_numbers_of_every_length_are_exact(data: st.DataObject, count: int, behind: int) -> None:
    """A layout reads all its lines, also those with the smallest and the largest digits."""
    behind = min(behind, count - 1)
    fixed = st.text("0123456789", min_size=count, max_size=count)
    texts = ["1" * count, "9" * count, "0" * (count - 1) + "1", *data.draw(st.lists(fixed, max_size=10))]
    shown = [x[: count - behind] + "." + x[count - behind :] if behind else x for x in texts]
    lines = [f"AB, {x}, 1.5, 0 ".encode() for x in shown]
    found = by_layout(lines)
    assert [found[i][1]["x"] for i in range(len(lines))] == [repr(float(x)) for x in shown]


@QUICK
@given(st.lists(st.tuples(st.integers(0, 10**7 - 1), st.sampled_from("+-"), st.integers(0, 999)), min_size=1))
def test_exponents_of_every_size_are_exact(numbers: list[tuple[int, str, int]]) -> None:
    shown = [f"{digits // 10**6}.{digits % 10**6:06d}E{sign}{power:03d}" for digits, sign, power in numbers]
    found = by_layout([f"CD      1/2   | lr: {x} | norm:   1.000   |".encode() for x in shown])
    assert [found[i][1]["x"] for i in range(len(shown))] == [repr(float(x)) for x in shown]


def test_a_line_of_a_thousand_bytes_is_read_by_its_layout() -> None:
    def line(blanks: int) -> bytes:
        return b"CD" + b" " * blanks + b"1/2| lr: 1.5e-04 | norm: 1.0 |"

    read = (7, {"n": "1", "x": "0.00015", "y": "1.0"})
    assert by_layout([line(60), line(600), line(900), line(1100)]) == {0: read, 1: read, 2: read}


@pytest.mark.parametrize("count", range(1, 20))
def test_integers_have_no_zero_in_front_and_fourteen_digits_at_most(count: int) -> None:
    lines = [b"1" * count, b"9" * count, b"0" * count]
    want = {0: (2, {"n": "1" * count}), 1: (2, {"n": "9" * count}), 2: (2, {"n": "0"})}
    if count > 1:
        del want[2]
    assert by_layout(lines) == (want if count < 15 else {})


@pytest.mark.parametrize("shift", [1, 10, 16, 64, 128, 255])
def test_a_byte_that_differs_is_seen(shift: int) -> None:
    """A byte of a literal must be equal, a byte of a number a digit, in each word and at each position in it."""
    good = b"AB, 0.336770, 1.864704, 0 "
    for at in range(len(good)):
        odd = bytearray(good)
        odd[at] = (odd[at] + shift) % 256
        if odd[at] == 10:
            continue
        found = by_layout([good, bytes(odd)])
        assert found[0] == by_template(good), odd
        assert found.get(1) in (None, by_template(bytes(odd))), odd
        if odd[at] in b"0123456789" and good[at] in b"0123456789" and at != 24:
            assert 1 in found, odd


def test_lines_of_many_layouts_are_all_read_and_in_order() -> None:
    """Lines of common layouts, and the rest, together cover the chunk."""
    lines = [f"AB, {i % 7}.{i:0{i % 9 + 1}d}{'0' * 12 * (i == 1500)}, {i}, 0 ".encode() for i in range(3000)]
    found, claimed = ready().match(*edges(lines))
    assert claimed.all()
    assert all((np.diff(part.lines) > 0).all() for _, part in found)
    read = {n: float(x) for _, p in found for n, x in zip(p.lines.tolist(), p.columns["x"].tolist(), strict=True)}
    assert read == {n: float(text.split(b",")[1]) for n, text in enumerate(lines)}


@pytest.mark.parametrize("digits", [1, 7, 123456789012345, 999999999999999])
def test_powers_of_ten_beyond_those_of_a_double_are_exact(digits: int) -> None:
    powers = np.arange(-40, 41)
    found = fixed_width._scaled(np.full(len(powers), digits, np.uint64), powers)
    assert found.tolist() == [float(f"{digits}e{power}") for power in powers.tolist()]


def test_a_line_at_the_very_end_is_read_whole() -> None:
    assert by_layout([b"7"]) == {0: (2, {"n": "7"})}
    assert by_layout([b"AB, 1.5, 2.5, 0 "]) == {0: (0, {"x": "1.5", "y": "2.5"})}


def test_an_integer_with_a_zero_before_it_is_read_by_no_layout() -> None:
    lines = [b"AB 9 12 of 34", b"AB 9 02 of 34", b"AB 9 12 of 04", b"AB 9 10 of 30", b"AB 9 00 of 34"]
    assert sorted(by_layout(lines)) == [0, 3]
    assert by_layout(lines)[3] == (1, {"n": "10", "m": "30"})
