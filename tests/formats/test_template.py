"""One text reads a line and writes it back; what does not fit is told with a caret; units."""

from __future__ import annotations

import math
import re
import string
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import cpu_growth
from support.examples import examples

from perflog.errors import FormatError
from perflog.formats.registry import known
from perflog.formats.template import NUMBER, Miss, Template, caret
from perflog.units import DURATIONS, UNITS, print_duration, show

QUICK = examples(120)
LINES = [(f.name, line) for f in known().values() for line in f.lines]
WORDS = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
# Printable, without what could be taken for the literals around a field.
PLAIN = st.text([c for c in map(chr, range(33, 0x250)) if c.isalnum()], min_size=1, max_size=8)
FINITE = st.floats(-1e300, 1e300)
SOME = st.floats(-1e15, 1e15)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "d": st.integers(-(2**63), 2**63 - 1),
    "f": SOME,
    "e": FINITE,
    "E": FINITE,
    "g": FINITE,
    "r": FINITE,
    "u": st.floats(0, 1e300),
    "w": WORDS,
    "i": WORDS.filter(lambda text: text[0].isascii() and text[0].isalpha()),
    "S": PLAIN,
    "s": st.lists(PLAIN, min_size=1, max_size=3).map(" ".join),
    "t": st.floats(1e-9, 1e6),
    "q": FINITE,
    "z": st.floats(0, 1e15),
    "h": st.integers(0, 10**12).map(lambda micros: micros / 1_000_000),
    "b": st.sampled_from(["", " ", "  ", "\t", " \t "]),
    "c": WORDS,  # whatever its separator is
    "n": WORDS.map("x{}".format),
    "l": st.sampled_from(["1", "1, 2.5", "1e-05, 0, 3"]),
    "m": st.sampled_from(["[1]", "[1, 2.5], []", "[1e-05, 0], [3]"]),
    "x": st.sampled_from(["done", " saved to ./qwen3", "a, b: c"]),
    "k": st.integers(0, 10**9).map(float),
}


# --- read and write are one specification ---------------------------------------------------------------------------


def printed_back(template: Template, values: dict[str, Any]) -> None:
    """A line the template writes is a line that it reads, and then writes again."""
    line = template.render(values)
    found = template.match(line)
    assert found is not None, (template.text, line)
    assert template.render(found).rstrip(" \t") == line.rstrip(" \t")
    assert template.explain(line) is None


SPECS = (
    "d 5d <5d ^7d 03d ,d 12,d f .0f .6f ,.1f 12,.3f 8.2f <9.3f 010.2f e .3e 12.4e .6E g .6g 10.3g r 22r w 8w >8w S 10S"
)


@pytest.mark.parametrize(
    "spec", [*SPECS.split(), ">15S", "s", "<20s", ">20s", "^20s", "t", "10t", ".3t", "z", ".1z", "b", "q", "h", "+.2f"]
)
@examples(60)
@given(data=st.data())
def test_a_line_is_written_back(spec: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[spec[-1]])
    for text in (f"a {{x:{spec}}} b", f"{{x:{spec}}}|", f"|{{x:{spec}}}", f"({{x:{spec}}}) {{y:d}}"):
        printed_back(Template(text), {"x": value, "y": 1})


@pytest.mark.parametrize("kind", ["d", "r", "w", "S", "s"])
@QUICK
@given(data=st.data())
def test_a_value_is_read_as_it_was(kind: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    template = Template(f"x={{x:{kind}}};")
    assert template.match(template.render({"x": value})) == {"x": value}


@pytest.mark.parametrize("owner", sorted({owner for owner, _ in LINES}))
@examples(15)
@given(data=st.data())
def test_every_builtin_line_is_written_back(owner: str, data: st.DataObject) -> None:
    """All lines of a format in one test: hypothesis nests its settings once more for each parameter."""
    for line in (x for name, x in LINES if name == owner):
        named = {f.name: data.draw(VALUES[f.type]) for f in line.template.fields if not f.is_dropped}
        if not any(f.is_dropped for f in line.template.fields):
            printed_back(line.template, named)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9123.92 G", 9123.92e9), ("135.87 M", 135.87e6), ("2.14 B", 2.14e9), ("0", 0.0), ("112.88 k", 112.88e3),
        ("372.35 m", 0.37235), ("203.13 u", 203.13e-6), ("203.13 µ", 203.13e-6), ("17.66T", 17.66e12), ("1.08 ", 1.08),
    ],
)  # fmt: skip
def test_a_metric_prefix_is_read_with_its_number(text: str, value: float) -> None:
    for unit in ("s", "FLOPS", "MACs"):
        found = Template(f"x: {{v:q}}{unit}.").match(f"x: {text}{unit}.")
        assert found is not None
        assert found == pytest.approx({"v": value}, rel=1e-15)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e5", "+3", "-.5", "5.", "1E-300", "007", "Infinity"])
def test_numbers_are_read_however_they_are_printed(text: str) -> None:
    found = Template("x {v:.2f} y").match(f"x {text} y")
    assert found is not None
    assert repr(found["v"]) == repr(float(text))


@pytest.mark.parametrize("text", ["", ".", "1.2.3", "1e", "--1", "0x1f", "1_000", "1,000", "٣", "n/a", "1 2"])
def test_what_is_no_number_is_not_read(text: str) -> None:
    assert Template("x {v:.2f} y").match(f"x {text} y") is None
    assert Template("x {v:d} y").match(f"x {text} y") is None


def test_padding_and_decimals_do_not_matter_when_a_line_is_read() -> None:
    template = Template("| batch {batch:5d} | loss {loss:5.2f} |")
    for line in ("| batch     1 | loss  6.84 |", "| batch 1 | loss 6.8400001 |", "| batch 123456789 | loss 1234.5 |"):
        assert template.match(line) is not None
    assert template.match("| batch 1 | loss 6.84 |   \t ") == {"batch": 1, "loss": 6.84}
    assert template.match("|  batch 1 | loss 6.84 |") is None


def test_braces_are_doubled() -> None:
    assert Template("map = {{{m:s}}}").match("map = {0: [0]}") == {"m": "0: [0]"}
    assert Template("{{}}").match("{}") == {}


def test_underscore_is_read_and_thrown_away() -> None:
    template = Template("{_:w} {x:d} {_:s}")
    assert template.match("a 1 b c") == {"x": 1}
    assert template.names == ("x",)


BYTES = st.lists(
    st.sampled_from([b"a", b"1", b" ", b"\t", b"\v", b"\f", b".", b"-", b"\xc2\xa0", b"\xc3", b"\x85", b"\0", b"_"])
)


@QUICK
@given(st.sampled_from(sorted(VALUES)), BYTES.map(b"".join))
def test_both_regular_expression_engines_read_alike(kind: str, text: bytes) -> None:
    separator = "|" if kind in "cn" else ""
    template = Template(f"<{{x:{separator}{kind}}}>")
    line = b"<" + text + b">"
    arrow = pc.match_substring_regex(pa.array([line], pa.binary()), "^(?s:" + template.pattern + ")$")
    assert arrow.to_pylist() == [template.regex.fullmatch(line) is not None]


# --- where a line stops matching ------------------------------------------------------------------------------------


@QUICK
@given(st.sampled_from([x for _, x in LINES if x.samples]), st.data())
def test_explain_says_nothing_of_a_line_that_matches(line: Any, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(line.samples))
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.sampled_from(["", "7", "x", " ", "\x01", "é"])) + text[at + 1 :]
    miss = line.template.explain(text)
    assert (miss is None) == (line.template.match(text) is not None)
    if miss is not None:
        assert 0 <= miss.position <= len(text.encode())
        assert miss.expected


@pytest.mark.parametrize(
    ("text", "line", "miss"),
    [
        ("step {step:d} of {all:d}", "step x of 9", (5, "an integer")),
        ("step {step:d} of {all:d}", "step 1 off 9", (9, "` `")),
        ("step {step:d} of {all:d}", "stop", (2, "`ep `")),
        ("step {step:d} of {all:d}", "step 1 of 9 x", (11, "the end of the line")),
        ("step {step:d} of {all:d}", "", (0, "`step `")),
        ("t {x:.2f}%", "t nan", (5, "`%`")),
        ("t {x:t}", "t 3.2", (2, "a duration such as 4.0922ms")),
    ],
)
def test_explain_points_at_what_was_expected(text: str, line: str, miss: tuple[int, str]) -> None:
    found = Template(text).explain(line)
    assert found is not None
    assert (found.position, found.expected) == miss


def test_caret_stands_under_the_place() -> None:
    assert caret("étape x of 9", Miss(7, "an integer")) == "étape x of 9\n      ^ expected an integer"
    shown, below = caret("y" * 500 + "\tx", Miss(501, "`z`")).split("\n")
    assert len(shown) <= 110
    assert shown[below.index("^")] == "x"
    assert shown[below.index("^") - 1] == "·"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a {x}", "a {x}\n  ^: `{x}` is not a field\nwrite {name:type}, and {{ or }} for a brace"),
        ("a {1x:d}", "a {1x:d}\n  ^: `{1x:d}` is not a field\nwrite {name:type}, and {{ or }} for a brace"),
        ("{}", "{}\n^: `{}` is not a field\nwrite {name:type}, and {{ or }} for a brace"),
        (
            "a {x:y}",
            "a {x:y}\n  ^: `y` is not a field type\nthe types are d f e E g r u w i S s t z b x T q c n l m j p a h k",
        ),
        (
            "a {x:.d.}",
            (
                "a {x:.d.}\n  ^: `.d.` is not a field type\n"
                "the types are d f e E g r u w i S s t z b x T q c n l m j p a h k"
            ),
        ),
        ("a { b", "a { b\n  ^: a single brace\nwrite {{ and }} for braces"),
        ("a } b", "a } b\n  ^: a single brace\nwrite {{ and }} for braces"),
        ("{x:d} {x:d}", "{x:d} {x:d}: two fields are named `x`\ngive each field its own name"),
    ],
)
def test_a_bad_template_says_where(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        Template(text)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["{x:.2d}", "{x:05w}", "{x:,s}", "{x:.3s}", "{x:,t}", "{x:.2w}"])
@QUICK
@given(data=st.data())
def test_a_template_that_is_accepted_can_be_written(text: str, data: st.DataObject) -> None:
    """A spec Python cannot print is told when the template is made, not when a line is written."""
    try:
        template = Template(text)
    except FormatError:
        return
    printed_back(template, {"x": data.draw(VALUES[template.fields[0].type])})


# --- units ----------------------------------------------------------------------------------------------------------


def duration(text: str, unit: str) -> float:
    return float(text) * UNITS[unit].factor


@pytest.mark.parametrize(
    ("text", "size"),
    [("170.67KB", 170.67 * 2**10), ("8.000000MB", 2**23), ("0B", 0), ("-8.00 KB", -(2**13)), ("1.25 Gb", 1.25 * 2**30)],
)
def test_sizes_count_in_steps_of_1024(text: str, size: float) -> None:
    assert Template("{size:z}").match(text) == {"size": size}


@pytest.mark.parametrize("text", ["0.000us", "999.999us", "1.000ms", "808.992us", "40.460ms", "2.549s", "8401.000s"])
def test_durations_with_fixed_decimals_are_printed_back(text: str) -> None:
    template = Template("{time:.3t}")
    found = template.match(text)
    assert found is not None and template.render(found) == text


@pytest.mark.parametrize(
    ("text", "value"), [("6,699,857,869.5", 6699857869.5), ("1,000", 1000.0), ("12481.5", 12481.5)]
)
def test_decimals_with_thousands_commas(text: str, value: float) -> None:
    assert Template("{x:,.1f}").match(text) == {"x": value}


@pytest.mark.parametrize("text", ["1ns", "639ns", "999ns", "1.0000us", "51.029us", "949.17us", "4.0922ms", "157.34ms"])
def test_durations_of_profilers_are_printed_back(text: str) -> None:
    number, unit = text.rstrip("nums"), text[len(text.rstrip("nums")) :]
    assert print_duration(duration(number, unit)) == text


@QUICK
@given(st.integers(10000, 99999), st.integers(1, 3), st.sampled_from(["us", "ms", "s"]))
def test_durations_are_printed_back(digits: int, whole: int, unit: str) -> None:
    number = f"{digits // 10 ** (5 - whole)}.{digits % 10 ** (5 - whole):0{5 - whole}d}"
    text = f"{number}0{unit}" if unit == "s" else f"{number}{unit}"  # seconds have one digit more
    assert print_duration(duration(text[: -len(unit)], unit)) == text


@QUICK
@given(st.integers(0, 999))
def test_nanoseconds_are_whole(count: int) -> None:
    assert print_duration(duration(str(count), "ns")) == f"{count}ns"


def test_every_duration_unit_is_a_unit_of_time() -> None:
    assert {UNITS[unit].base for unit in DURATIONS} == {"s"}


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0123456, "s", "12.35 ms"),
        (90.0, "s", "90 s"),
        (1e-12, "s", "1e-12 s"),
        (0.0, "s", "0 s"),
        (-0.002, "s", "-2 ms"),
        (3 * 2**30, "B", "3 GiB"),
        (0.5, "1", "50 %"),
        (22.2199, "TFLOP/s", "22.22 TFLOP/s"),
        (None, "s", "-"),
        (math.nan, "s", "-"),
        (6.84, "", "6.84"),
    ],
)
def test_values_are_shown_in_a_unit_that_suits_them(value: float | None, unit: str, shown: str) -> None:
    assert show(value, unit) == shown


@pytest.mark.parametrize(("digits", "shown"), [(3, "1,000 ms"), (4, "999.6 ms"), (1, "1,000 ms")])
def test_a_value_that_rounds_up_to_more_digits_is_shown_in_full(digits: int, shown: str) -> None:
    assert show(0.9996, "s", digits) == shown


DROPPED_TEXTS = {
    "{_:b}{_:S} {_:S} step {step:d}": 1,
    "{_:S}{_:b}{_:S} step {step:d}": 1,
    "{_:S} {__:S} step {step:d}": 2,
    "{_:S} {_:d} {_:S} step {step:d}": 2,
    "{_:S}: {_:S} step {step:d}": 2,
    "{_:b}{_:S} step {step:d} {_:S}": 2,
}


@pytest.mark.parametrize("text", DROPPED_TEXTS)
def test_dropped_texts_with_blanks_between_are_one(text: str) -> None:
    template = Template(text)
    assert len(template.dropped_texts) == DROPPED_TEXTS[text]
    assert template.dropped_texts_pattern.count("?P<dropped_") == DROPPED_TEXTS[text]


def test_a_long_number_that_does_not_end_as_wanted_is_tried_once() -> None:
    """A log with 5,000 digits in a row took Python more than 20 s."""
    pattern = re.compile(f"{NUMBER}/")
    assert cpu_growth(lambda digits: [pattern.match("1" * digits) for _ in range(20)], 500, 5_000) < 40
