"""The fast path, the vectorised regular expressions and a loop over single lines read the same records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import call_growth, cpu_growth
from support.examples import examples
from support.format_files import given_file
from support.reading import LABELS, NAMES, sample_lines, write

from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.openings import opening_of
from perflog.formats.registry import COMMON, known
from perflog.formats.vocabulary import DEVICE
from perflog.parsing.match import fixed_width, rank_labels, scanner
from perflog.parsing.match.numeric import MatchedLines
from perflog.parsing.match.rank_labels import device_label, local_label, strip_rank_labels
from perflog.parsing.match.records import BLANK, Batch, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

QUICK = examples(60)  # most examples are scanned in three ways, each line by hundreds of templates
FORMATS = [known()[COMMON], *(f for f in known().values() if f.name != COMMON)]
HOME = "block_info 312 83"
FIT = range(-(2**63), 2**63)

Record = tuple[str, dict[str, str], int]  # name of the line, its values, rank label


@cache
def fast() -> Scanner:
    return Scanner(lines_of(FORMATS))


@cache
def slow() -> Scanner:
    """A scanner without the fast path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "numeric_template", lambda *_: None)
        return Scanner(lines_of(FORMATS))


def scanned(scanner: Scanner, lines: list[bytes]) -> list[Batch]:
    return [scanner.scan(chunk) for chunk in write(b"".join(x + b"\n" for x in lines)).chunks()]


def cells(column: Any) -> list[str]:
    """Values of a column: floats to the last bit, 1 and 1.0 and "1" distinct."""
    values = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return [repr(v) for v in values]


def records(scanner: Scanner, batch: Batch) -> dict[int, Record]:
    """The records of a batch by position."""
    by_place: dict[int, Record] = {}
    for kind, r in batch.records.items():
        line = scanner.lines[kind][1]
        columns = {name: cells(c) for name, c in r.columns.items()}
        for i, position in enumerate(r.positions.tolist()):
            assert position not in by_place
            label = -1 if r.labels is None else int(r.labels[i])
            by_place[position] = line.name, {name: c[i] for name, c in columns.items()}, label
    return by_place


def account(batch: Batch) -> tuple[dict[int, list[int]], list[int]]:
    owner = {kind: positions.tolist() for kind, positions in batch.owner.items() if len(positions)}
    return owner, batch.unread.tolist()


@cache
def by_text() -> list[Line]:
    """The lines that are read by their text, bodies of blocks last."""
    lines = [x for _, x in fast().lines if not x.under_header]
    return sorted(lines, key=lambda x: x.role == "body")


@cache
def expected_record(line: bytes) -> Record | None:
    """The record of a line by the first template that reads the whole line.

    A template that begins with any text does not take a rank label for that text.
    """
    labelled = strip_rank_labels(line) != line.rstrip(b" \t")
    for x in by_text():
        first = next((field for field in x.template.fields if field.type != "b"), None)  # behind blanks, if any
        if labelled and not x.template.prefix and first is not None and first.type in "sS":
            continue
        values = x.template.match(line)
        if values is not None and all(v in FIT for v in values.values() if isinstance(v, int)):
            return x.name, {name: repr(v) for name, v in values.items()}, -1
    return None


def same_records(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed_width, "MIN_LINES", 1)  # every line that can be is read by its layout
        eager = scanned(fast(), lines)
    for one, two, three in zip(scanned(fast(), lines), scanned(slow(), lines), eager, strict=True):
        quick, thorough = records(fast(), one), records(slow(), two)
        assert quick == thorough == records(fast(), three)
        assert account(one) == account(two) == account(three)
    for number, line in enumerate(lines, 1):
        expected = expected_record(line) if line.strip(b" \t") else None
        found = quick.get(number << PART_BITS)
        is_labelled = expected is None and strip_rank_labels(line) != line.rstrip(b" \t")
        if found != expected and not is_labelled:
            (batch,) = scanned(fast(), [line])
            assert batch.open_positions is not None, line  # cut: `test_record_starts` tries where


# --- real lines, mutated ---------------------------------------------------------------------------------------------

REAL = sorted(
    {x for n in NAMES for x in sample_lines(n)} | {s.encode() for f in FORMATS for x in f.lines for s in x.samples}
)
TOKENS = [
    *b"nan inf -inf -1 +3 -0 1e5 1E+3 1e400 1e-400 1.2.3 . .. .5 5. 1. 007 0 00 0.0 1_000 1,000 0x10 3.0".split(),
    *b"99999999999999 123456789012345 9223372036854775807 9223372036854775808 -9223372036854775808".split(),
    *b"12345678901234567890 000000000000000000001".split(),
    *b"0.1000000000000000055511151231257827 123456789.123456789123456789".split(),
    b"",
    b" ",
    "٣".encode(),
]
BITS = [b" ", b"  ", b"\t", b"\xc2\xa0", b"\v", b"\f", b"\x85", b"\xff", b"-", b".", b"7", b"a", b"\x01", b""]
FRONTS = [b" ", b"\t", b"x", *(label % 3 for label in LABELS), b"[rank12345678901234567890]:", b"5000000000: "]
BACKS = [b" ", b"\t", b" \t ", b" " * 70, b".", b"0"]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    line = draw(st.sampled_from(REAL))
    for change in draw(
        st.lists(st.sampled_from(["token", "token", "bit", "cut", "front", "back", "glue"]), max_size=3)
    ):
        tokens = list(re.finditer(rb"[0-9.]+", line))
        at = draw(st.integers(0, len(line)))
        if change == "token" and tokens:
            token = draw(st.sampled_from(tokens))
            line = line[: token.start()] + draw(st.sampled_from(TOKENS)) + line[token.end() :]
        elif change == "bit":
            line = line[:at] + draw(st.sampled_from(BITS)) + line[at + draw(st.integers(0, 1)) :]
        elif change == "cut":
            line = line[:at]
        elif change == "front":
            line = draw(st.sampled_from(FRONTS)) + line
        elif change == "back":
            line += draw(st.sampled_from(BACKS))
        elif change == "glue":
            line += draw(st.sampled_from(REAL))
    return line


@QUICK
@given(st.lists(mutated(), min_size=1, max_size=30))
def test_fast_path_regular_expressions_and_a_loop_read_alike(lines: list[bytes]) -> None:
    same_records(lines)


@pytest.mark.parametrize(
    ("first", "line"),
    list(enumerate(["block_info 1 {}", "AG, 0.5, {}, 0 ", "cuda:{}", "{} wait time: 2", "{}", "GA, {}, 1, 0 "])),
)
def test_each_odd_number_is_read_alike_in_each_place(first: int, line: str) -> None:
    """In one log with all of them; some also alone."""
    odd = [line.encode().replace(b"{}", token) for token in TOKENS]
    same_records([HOME.encode(), *(x for one in odd for x in (one, HOME.encode()))])
    for one in odd[first::12]:
        same_records([one])


def few_of_each_shape(lines: Iterable[bytes], most: int = 8) -> Iterator[bytes]:
    """Yield the lines in their order, of those that differ in their digits alone only the first ones."""
    counts: Counter[bytes] = Counter()
    for line in lines:
        shape = re.sub(rb"[0-9]+", b"0", line)
        counts[shape] += 1
        if counts[shape] <= most:
            yield line


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_every_shape_of_the_samples_are_read_alike(name: str) -> None:
    same_records(list(few_of_each_shape(sample_lines(name))))


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_line_cut_short_at_the_end_of_the_chunk(cut: int) -> None:
    """The literals of a candidate may reach past the last byte of the chunk."""
    for line in (
        b"STEP-1: step_time = 2.5 ms, foward_time = 1.5, backward_time = 1.0, perf = 2.0 tflops.",
        b"STEP-1. 2 3 4 5",
    ):
        same_records([line[:-cut]])


@QUICK
@given(
    st.lists(
        st.sampled_from([b"STEP", b"-", b"1", b".", b": ", b" ", b"2 ", b"AG, ", b"0", b",", b"\t"]), max_size=12
    ).map(b"".join)
)
def test_the_last_line_can_be_anything(line: bytes) -> None:
    same_records([HOME.encode(), line])


# --- integers of any length ------------------------------------------------------------------------------------------

HUGE = ["9" * 20, "-" + "9" * 20, "9" * 5000]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "block_info {} 1",
        "{} wait time: 2.5",
        "> Total parameters in model: {}",
        "[rank:7 stage:{}] transformer-block(module) forward time (no send/recv) - step 1",
        "block_info {} 1block_info 1 1",
        "block_info 1 1block_info 1 {}",
        "[rank{}]:block_info 1 1",
        "{}: block_info 1 1",
    ],
)
def test_an_integer_too_long_is_not_read_and_stops_nothing(line: str) -> None:
    lines = [HOME.encode(), *(each for digits in HUGE for each in (line.format(digits).encode(), HOME.encode()))]
    same_records(lines)
    (batch,) = scanned(fast(), lines)
    assert {2, 4, 6} <= {position >> PART_BITS for position in batch.unread_segments.tolist()}
    assert {1, 3, 5, 7} <= {position >> PART_BITS for position in records(fast(), batch)}


def test_an_integer_with_commas_too_long_is_not_read() -> None:
    odd = b"> Total parameters in model: 99,999,999,999,999,999,999"
    (batch,) = scanned(fast(), [odd, b"> Total parameters in model: 1,235,814,400"])
    assert [r[1] for r in records(fast(), batch).values()] == [{"parameters": "1235814400"}]
    assert len(batch.unread) == 1


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 10**14, 10**15 - 1, -1])
def test_integers_of_64_bits_are_read_exactly(number: int) -> None:
    (batch,) = scanned(fast(), [b"block_info %d 1" % number, b"block_info 1 %d" % number, b"block_info %d 1" % 10**25])
    amounts = [r[1] for r in records(fast(), batch).values()]
    assert amounts == [{"amount": str(number), "remote": "1"}, {"amount": "1", "remote": str(number)}]


# --- several records on a line ---------------------------------------------------------------------------------------

# A line that begins with a digit goes on with the number before it: nobody can tell where. Nor where a line begins that
# has any text in front, or too few letters to be known inside another line.
_KNOWN_INSIDE = [
    x for x in known()["moe_layer"].lines if x.read and x.template.prefix.strip() and opening_of(x.template)
]
WHOLE = st.sampled_from([s.encode() for x in _KNOWN_INSIDE for s in x.samples if not s[-1].isalpha() and s[-1] != "."])


@QUICK
@given(st.lists(WHOLE, min_size=2, max_size=5))
def test_interleaved_records_are_all_read(pieces: list[bytes]) -> None:
    """The line feeds of all but the last follow: no text of a record is lost."""
    (batch,) = scanned(fast(), [b"".join(pieces), *[b""] * (len(pieces) - 1), b"start"])
    found = records(fast(), batch)
    position = 1 << PART_BITS
    assert [found.get(position + k) for k in range(len(pieces))] == [expected_record(p) for p in pieces]
    assert sum(len(at) for at in batch.owner.values()) == len(pieces) + 1
    assert not len(batch.unread)


@pytest.mark.parametrize(
    "piece", [b"block_info 1 2", b"block_info 1", b"perpare first forward gemm: 1,  ", b"AG, 1, ", b"((", b"1."]
)
def test_the_cost_of_a_line_grows_with_its_length(piece: bytes) -> None:
    """Python splits short lines; only compiled patterns search long ones."""

    def scan(pieces: int) -> None:
        scanned(fast(), [piece * pieces] * 4)

    assert call_growth(scan, 50, 500) < 20
    assert cpu_growth(scan, 1500, 15_000) < 40


# --- the account ------------------------------------------------------------------------------------------------------


@QUICK
@given(
    st.lists(mutated() | st.binary(max_size=30) | st.sampled_from([b"", b" ", b"\r", b"a\rb", b"\r\r"]), max_size=20)
)
def test_each_line_belongs_to_one_kind(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    for chunk in write(data).chunks():
        batch = fast().scan(chunk)
        owned = [p >> PART_BITS for at in batch.owner.values() for p in at.tolist()]
        unread = [p >> PART_BITS for p in batch.unread.tolist()]
        assert sorted(owned + unread) == list(range(chunk.first_line, chunk.first_line + chunk.lines))


def test_blank_lines_are_blank() -> None:
    (batch,) = scanned(fast(), [b"", b" ", b"\t \t", b"3: ", b"[rank1]:"])
    assert len(batch.owner[BLANK]) == 5


def test_a_number_that_the_next_record_tore_is_not_read(tmp_path: Path) -> None:
    """The program prints two decimals. The number of a whole line may have fewer: nothing follows it there."""
    text = 'title = "t"\n[[line]]\nname = "step"\ntable = "steps"\ntext = "step {step:d} loss {loss:.2f}"\n'
    line = given_file(tmp_path, text + 'sample = "step 1 loss 2.50"\n', "torn")
    made = Scanner(lines_of([load(line)]))
    (batch,) = scanned(
        made, [b"step 1 loss 2.5step 2 loss 2.25", b"step 3 loss 2.25step 4 loss 2.5", b"step 5 loss 2.5"]
    )
    assert [values["step"] for _, values, _ in records(made, batch).values()] == ["2", "3", "4", "5"]


# --- rank labels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "devices", "expected"),
    [
        (None, None, None), ([-1, -1], None, None), ([3, -1], None, [3, -1]), ([-1, 0], None, [-1, 0]),
        (None, [1, 2], device_label(np.array([1, 2])).tolist()),
        ([-1, -1], [1, 2], device_label(np.array([1, 2])).tolist()),
        ([3, -1], [1, 2], [3, -1]),  # a label before the line says more
    ],
)  # fmt: skip
def test_the_label_of_a_record(labels: list[int] | None, devices: list[int] | None, expected: list[int] | None) -> None:
    places, given = np.arange(2), None if labels is None else np.array(labels)
    columns: dict[str, Any] = {"n": np.array([5, 6])} | ({} if devices is None else {DEVICE: np.array(devices)})
    found = scanner._Lines(bytearray(), places, places + 7, places, places, given).records(places, columns)
    assert found.positions.tolist() == [7, 8] and list(found.columns) == ["n"]
    assert (None if found.labels is None else found.labels.tolist()) == expected


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ({}, None), ({"label": [3, 4]}, [3, 4]), ({rank_labels.LOCAL: [3, 4]}, local_label(np.array([3, 4])).tolist()),
        ({DEVICE: [1, 2]}, device_label(np.array([1, 2])).tolist()), ({DEVICE: [1, 2], "label": [3, 4]}, [3, 4]),
        ({DEVICE: [1, 2], rank_labels.LOCAL: [3, 4]}, local_label(np.array([3, 4])).tolist()),
    ],
)  # fmt: skip
def test_the_label_of_lines_of_one_layout(columns: dict[str, list[int]], labels: list[int] | None) -> None:
    parts: dict[int, list[Any]] = {}
    of_lines: dict[str, Any] = {name: np.array(values) for name, values in (columns | {"n": [5, 6]}).items()}
    matches = [(4, MatchedLines(np.array([1, 2]), of_lines)), (5, MatchedLines(np.array([], np.int64), {}))]
    scanner._add(parts, matches, np.array([10, 20, 30]))
    ((found,),) = parts.values()
    assert list(parts) == [4] and found.positions.tolist() == [20, 30] and list(found.columns) == ["n"]
    assert (None if found.labels is None else found.labels.tolist()) == labels


@pytest.mark.parametrize("has_labels", [False, True])
def test_a_line_of_numbers_without_a_label_may_be_the_rest_of_a_torn_one(has_labels: bool, tmp_path: Path) -> None:
    """Where other lines have labels. A line with words is read all the same."""
    entry = '[[line]]\nname = "{}"\ntable = "values"\ntext = "{}"\nsample = "{}"\n'.format
    text = entry("bare", "{a:d} {b:d}", "5 3") + entry("told", "it has {a:d} parts", "it has 3 parts")
    own = load(given_file(tmp_path, f'title = "own"\n{text}'))
    found = Scanner(lines_of([own]), rank_labels.Labels(has_labels=has_labels))
    (batch,) = scanned(found, [b"[rank2]:5 3", b"7 4", b"it has 3 parts", b"[rank1]:it has 4 parts"])
    shown = {place >> PART_BITS: (name, label) for place, (name, _, label) in records(found, batch).items()}
    assert shown == {1: ("bare", 2), 3: ("told", -1), 4: ("told", 1)} | ({} if has_labels else {2: ("bare", -1)})
