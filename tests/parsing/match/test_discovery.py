"""Templates that the lines of a log show: the same whatever was known before, and no more than are names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.format_files import given_file
from support.reading import read, write

from perflog.formats.loader.format_file import load
from perflog.formats.model import Format, Line
from perflog.formats.template import Template
from perflog.parsing.match import discovery
from perflog.parsing.match.discovery import TemplateDiscovery, discovered_line, families_of, form_of
from perflog.parsing.match.records import Batch, FormatLine, Records, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

FORMAT = """
title = "pairs of a program"
[[pairs]]
name = "train"
table = "steps"
head = "train step {step:d} |"
pair = " {key}: {value} |"
needs = ["loss"]
sample = "train step 3 | loss: 2.5 |"
[pairs.keys]
loss = "{loss:.1f}"
[[pairs]]
name = "other"
table = "values"
head = "other step {step:d} |"
pair = " {key}: {value} |"
sample = "other step 3 | speed: 2.5 |"
"""


STRINGS = """
title = "strings"
source = "x"
scopes = ["run"]
[[pairs]]
name = "strings"
table = "steps"
head = "{{'step': {step:d}, "
pair = "'{key}': '{value}', "
tail = "'}}"
needs = ["loss"]
sample = "{'step': 3, 'loss': '2.5', 'lr': '0.5'}"
[pairs.keys]
loss = "{loss:.1f}"
lr = "{lr:.1f}"
[[pairs]]
name = "others"
table = "steps"
head = "{{'step': {step:d}, "
pair = "'{key}': {value}, "
tail = "}}"
needs = ["loss"]
sample = "{'step': 3, 'loss': 2.5, 'lr': 0.5}"
[pairs.keys]
loss = ["{loss:.1f}", "{_:S}"]
lr = ["{lr:.1f}", "{_:S}"]
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    return load(given_file(tmp_path_factory.mktemp("format"), FORMAT))


def line(step: int, *keys: str, kind: str = "train") -> str:
    return f"{kind} step {step} |" + "".join(f" {key}: {number + 0.5} |" for number, key in enumerate(keys))


class Scans:
    """Scans logs of a format, one after the other, and counts how often a chunk is scanned."""

    def __init__(self, form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
        self.form, self.count = form, 0
        scan = Scanner.scan

        def counted(scanner: Scanner, *args: Any, **options: Any) -> Batch:
            self.count += 1
            return scan(scanner, *args, **options)

        monkeypatch.setattr(Scanner, "scan", counted)

    def shown(self, log: list[str], likely: list[FormatLine] | None = None) -> tuple[list[FormatLine], int, list[int]]:
        """The Lines that a log shows, the number of scans, and the number of records of each kind."""
        self.count = 0
        scanner = Scanner(lines_of([self.form]))
        first = len(scanner.lines)
        (chunk,) = write("".join(f"{text}\n" for text in log).encode()).chunks()
        scanner, batch = TemplateDiscovery().scan(scanner, chunk, lambda *_: families_of([self.form]), likely or [])
        records = [len(batch.records[k]) if k in batch.records else 0 for k in range(first, len(scanner.lines))]
        return list(scanner.lines[first:]), self.count, records


def templates(lines: list[FormatLine]) -> list[str]:
    return [each.template.text for _, each in lines]


# --- what another log has shown ---------------------------------------------------------------------------------------


def test_the_lines_of_a_log_alike_save_a_scan(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = Scans(form, monkeypatch)
    log = [line(1, "loss"), line(2, "loss", "lr"), line(3, "loss")]
    lines, count, records = scans.shown(log)
    assert (len(lines), count, records) == (2, 2, [2, 1])
    again, count, records = scans.shown([text.replace("0.5", "7.25") for text in log], lines)
    assert templates(again) == templates(lines)
    assert (count, records) == (1, [2, 1])


@pytest.mark.parametrize(
    "log",
    [
        [line(1, "loss", "lr"), line(2, "loss")],  # in another order
        [line(1, "loss")],  # fewer
        [line(1, "loss"), line(2, "loss", "lr"), line(3, "loss", "norm")],  # more
        [line(1, "loss"), line(2, "loss", "norm")],  # others
        [line(1, "loss", kind="other"), line(2, "loss", "lr")],
        ["nothing of it"],
    ],
)
def test_what_another_log_has_shown_changes_nothing(
    form: Format, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    scans = Scans(form, monkeypatch)
    likely, *_ = scans.shown([line(1, "loss"), line(2, "loss", "lr")])
    alone, _, records = scans.shown(log)
    given_others, _, records_too = scans.shown(log, likely)
    assert templates(given_others) == templates(alone)
    assert records_too == records


def test_a_line_above_that_shows_a_line_of_text_reads_the_same_strings_after_any_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = Scans(load(given_file(tmp_path, STRINGS)), monkeypatch)
    log = ["{'step': 1, 'loss': '0.5', 'lr': high}", *(f"{{'step': {k}, 'loss': '0.5', 'lr': '1.5'}}" for k in (2, 3))]
    likely, *_ = scans.shown(log[1:])
    alone, _, records = scans.shown(log)
    after, _, records_too = scans.shown(log, likely)
    assert (templates(after), records_too) == (templates(alone), records)
    assert (len(likely), records[-1]) == (1, 3)


KEYS = st.lists(st.sampled_from(["loss", "lr", "norm", "time"]), min_size=1, max_size=3, unique=True)


@given(st.lists(KEYS, min_size=1, max_size=6), st.lists(KEYS, min_size=1, max_size=6))
def test_a_log_shows_the_same_after_any_other(form: Format, one: list[list[str]], two: list[list[str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        scans = Scans(form, patch)
        log, other = ([line(k, "loss", *keys) for k, keys in enumerate(each)] for each in (one, two))
        likely, *_ = scans.shown(other)
        alone, _, records = scans.shown(log)
        after, _, records_too = scans.shown(log, likely)
        expected = dict(zip(templates(alone), records, strict=True))  # whichever was known first: each has its own
        assert dict(zip(templates(after), records_too, strict=True)) == expected


# --- chunks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 60, 1 << 20])
def test_lines_are_found_in_any_chunk(form: Format, chunk: int) -> None:
    log = [line(1, "loss"), "words", line(2, "loss", "lr"), line(3, "loss"), line(4, "loss", "lr", "norm")]
    found = read("".join(f"{text}\n" for text in log).encode(), formats=[form], chunk=chunk)
    assert sorted((row["step"], row["loss"]) for row in found.rows("steps")) == [(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.5)]
    assert sorted((row["key"], row["step"]) for row in found.rows("values")) == [("lr", 2), ("lr", 4), ("norm", 4)]
    assert found.done.lines["unread"] == 1


@pytest.mark.parametrize(
    ("lines", "steps", "values"),
    [
        ([line(1, "loss"), f"2026-01-01 INFO {line(2, 'loss')}"], [(1, 0.5, None), (2, 0.5, None)], []),
        ([line(1, "loss"), f"[Rank 3] {line(2, 'loss')}"], [(1, 0.5, None), (2, 0.5, 3)], []),
        ([f"[Rank {rank}] {line(2, 'loss')}" for rank in (3, 4)], [(2, 0.5, 3), (2, 0.5, 4)], []),
        ([line(1, "loss"), f"{line(2, 'loss')} saved"], [(1, 0.5, None), (2, 0.5, None)], []),
        ([line(1, "loss"), "train step 3 | loss: None |"], [(1, 0.5, None), (3, None, None)], []),
        (
            [line(1, "loss"), "train step 3 | loss: 2.5 | lr: high |"],
            [(1, 0.5, None), (3, 2.5, None)],
            [("lr", None, "high")],
        ),
    ],
)
def test_known_lines_are_read_behind_a_prefix_or_a_label_and_as_far_as_they_go(
    form: Format, lines: list[str], steps: list[tuple[Any, ...]], values: list[tuple[Any, ...]]
) -> None:
    found = read("".join(f"{text}\n" for text in lines).encode(), formats=[form])
    rows = sorted(found.rows("steps"), key=lambda row: int(row["line"]))
    assert [(row["step"], row["loss"], row["rank"]) for row in rows] == steps
    assert [(row["key"], row["value"], row["text"]) for row in found.rows("values")] == values
    assert found.done.lines["unread"] == 0


def test_a_line_is_tried_once(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same families it always gives the same."""
    scanner = Scanner(lines_of([form]))
    (chunk,) = write(b"train step x | loss: 2.5 |\nwords\n").chunks()
    batch = scanner.scan(chunk)
    tried = list[bytes]()
    lines_of_text = TemplateDiscovery._lines_of

    def counted(found: TemplateDiscovery, families: Any, text: bytes, new: Any) -> Any:
        tried.append(text)
        return lines_of_text(found, families, text, new)

    monkeypatch.setattr(TemplateDiscovery, "_lines_of", counted)
    one = TemplateDiscovery()
    families = families_of([form])
    assert one.find(families, batch) == []
    count = len(tried)
    assert one.find(families, batch) == [] and len(tried) == count
    assert one.copy().find(families, batch) == [] and len(tried) == count


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_family_of_too_many_shapes_is_full(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shapes that were found go on to be read; another family is not full."""
    monkeypatch.setattr(discovery, "MAX_LINES", 3)
    log = [line(k, "loss", f"key{k}x") for k in range(5)] + [line(9, "loss", "key1x"), line(9, "speed", kind="other")]
    found = read("".join(f"{text}\n" for text in log).encode(), formats=[form])
    assert sorted(row["step"] for row in found.rows("steps")) == [0, 1, 2, 9]
    assert [row["key"] for row in found.rows("values")].count("speed") == 1
    assert [text for text in found.done.warnings if "have more than 3 shapes" in text]


def test_patterns_of_a_family_are_bounded(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_PATTERNS", 2)
    scans = Scans(form, monkeypatch)
    assert scans.shown([line(1, "loss")])[0] == []
    monkeypatch.setattr(discovery, "MAX_PATTERNS", 1 << 18)
    assert len(scans.shown([line(1, "loss")])[0]) == 1


@pytest.mark.parametrize(("more", "expected"), [(0, 1), (1, 0)])
def test_a_line_of_many_bytes_is_not_tried(
    form: Format, monkeypatch: pytest.MonkeyPatch, more: int, expected: int
) -> None:
    text = line(1, "loss")
    monkeypatch.setattr(discovery, "MAX_LENGTH", len(text) + 1 - more)
    assert len(Scans(form, monkeypatch).shown([text])[0]) == expected


# --- the form of a number ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (b"2.5", b"9.1", True),
        (b"25", b"5", False),  # another number of digits
        (b"2.50", b"2.55", False),  # a zero at the end
        (b"0.5", b"1.5", False),  # a zero at the beginning
        (b"105", b"175", True),  # a zero inside is a digit
        (b"1005", b"1755", True),
        (b"10", b"17", False),
        (b"1:35", b"1:59", True),
        (b"1:35", b"1:65", False),  # no minutes
        (b"123456789012345", b"223456789012345", False),  # a double does not hold all
        (b"12345678901234", b"22345678901234", True),
        (b"a2", b"b2", False),
    ],
)
def test_strings_of_one_form_give_one_template(one: bytes, two: bytes, same: bool) -> None:
    assert (form_of(one) == form_of(two)) == same


def test_a_template_is_made_again_from_its_line(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    text = line(3, "loss", "lr")
    (_, found), *_ = Scans(form, monkeypatch).shown([text])[0]
    again = discovered_line([form], found.template.text, f"[rank3]:{text}")
    assert again is not None and again.template.text == found.template.text
    assert discovered_line([form], "something else", text) is None


# --- the functions ----------------------------------------------------------------------------------------------------


def unread(*texts: bytes) -> Any:
    """A batch of unread lines, at positions 10, 20 and so on."""
    positions = np.arange(10, 10 * len(texts) + 10, 10)
    by_place = dict(zip(positions.tolist(), texts, strict=True))

    def bytes_at(some: Any) -> pa.Array:
        return pa.array([by_place[position] for position in some.tolist()], pa.binary())

    return SimpleNamespace(unread_segments=positions, bytes_at=bytes_at)


def shown(template: str, **more: Any) -> Any:
    return SimpleNamespace(name="own"), Line("x", Template(template), **more)


@pytest.mark.parametrize(
    ("position", "reads"), [(40, True), (21, True), (20, False), (5, False)]
)  # fmt: skip
def test_a_new_line_may_read_what_is_before_it(position: int, reads: bool) -> None:
    batch = unread(b"words", b"loss 2.5", b"words")
    assert discovery._reads_before([shown("acc {acc:f}"), shown("loss {loss:f}")], position, batch) == reads
    assert not discovery._reads_before([shown("acc {acc:f}")], position, batch)


def test_a_line_of_an_object_may_read_any_line_before_it() -> None:
    by_object = [shown("loss {loss:f}"), shown("{{{a:d}}}", by_object=True)]
    assert discovery._reads_before(by_object, 15, unread(b"words"))
    assert not discovery._reads_before(by_object, 10, unread(b"words"))


STEP = "step {} | step_time {:.2f}s | data 0.10s | opt 1.30s"


def phases_of(lines: list[str]) -> list[tuple[int, str]]:
    return [(row["step"], row["phase"]) for row in read("\n".join([*lines, ""]).encode()).rows("phases")]


def test_most_lines_of_a_log_alone_show_what_is_part_of_the_step() -> None:
    """Neither lines of another log that is read before, nor the shape of a line."""
    wrong, right = [STEP.format(k, 0.5) for k in (1, 2, 3)], [STEP.format(k, 1.5) for k in (4, 5)]
    for _ in range(2):
        assert phases_of([*wrong, *right]) == [(k, "data") for k in (1, 2, 3, 4, 5)]
        assert sorted(phases_of(right)) == [(4, "data"), (4, "opt"), (5, "data"), (5, "opt")]
    assert (6, "opt") in phases_of([*right, STEP.format(6, 0.5) + " | lr 0.1"])


def test_lines_are_the_same_if_format_name_and_template_are() -> None:
    assert discovery._identity(shown("loss {loss:f}")) == ("own", "x", "loss {loss:f}")


def test_first_records_of_kinds_that_have_some() -> None:
    batch: Any = SimpleNamespace(records={kind: Records(np.array([10 * kind, 99])) for kind in (2, 4, 5)})
    assert discovery._first_positions(batch, 3, 2).tolist() == [40]
    assert discovery._first_positions(batch, 2, 4).tolist() == [20, 40, 50]


@pytest.mark.parametrize(
    ("firsts", "in_order"),
    [
        ([10, 20, 30], True),
        ([10, 30, 20], False),
        ([20, 10, 30], False),
        ([10, 10, 30], False),
        ([10, 20.5, 30], False),
    ],
)
def test_logs_that_show_their_lines_in_another_order_are_read_alone(firsts: list[float], in_order: bool) -> None:
    """So are those that show one inside a line, as its second part."""
    positions = (np.array([[1, 2, 3], firsts]) * (1 << PART_BITS)).astype(np.int64)
    found = TemplateDiscovery().each_shows([], {}, positions, [], unread())
    assert found == in_order
    assert not TemplateDiscovery().each_shows([shown("loss {loss:f}")], {}, positions, [], unread())
    assert not TemplateDiscovery().each_shows([shown("{{{a:d}}}", by_object=True)], {}, positions, [], unread())


WHOLE = "iteration {step:d}/ 100 | elapsed time: {time:f} | loss: {loss:f}"
HALVES = "iteration {step:d}/ 100 | elapsed time: {time:f} loss: {loss:f}"


@pytest.mark.parametrize(
    ("known", "new", "lines", "kept"),
    [
        ([WHOLE], shown(HALVES), 2, False),  # the head of one record with the tail of another
        ([WHOLE], shown(HALVES), 3, True),  # so many are no tears
        ([], shown(HALVES), 2, True),
        ([WHOLE], shown("iteration {step:d}/ 100 | loss: {loss:f}"), 2, True),  # a field is missing
        ([WHOLE], shown("own {a:d}{{b", partial=True), 1, False),
        ([], shown("own {a:d}{{b", partial=True), 1, True),
        ([WHOLE], shown("{{{a:d}}}", by_object=True), 1, True),
    ],
)
def test_rare_halves_of_records_are_no_lines(known: list[str], new: Any, lines: int, kept: bool) -> None:
    found = TemplateDiscovery()
    found._shapes["own"] = [*map(Template, known), new[1].template]
    text = b"iteration 8/ 100 | elapsed time: 81 loss: 2.29"
    texts = pa.array([text] * lines + [b"iteration 7/ 100 | elapsed time: 812.4 | loss: 2.31"], pa.binary())
    assert found._without_torn([new], texts) == ([new] if kept else [])


def test_strings_that_differ_in_their_fields_show_the_same_lines(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form of a string is tried once."""
    (found,) = Scans(form, monkeypatch).shown([line(1, "loss")])[0]
    lines_of_texts, tried = discovery._LinesOfTexts(families_of([form])), list[bytes]()
    lines_of = TemplateDiscovery._lines_of

    def counted(one: TemplateDiscovery, families: Any, text: bytes, new: Any) -> Any:
        tried.append(text)
        return lines_of(one, families, text, new)

    monkeypatch.setattr(TemplateDiscovery, "_lines_of", counted)
    texts = [line(k, "loss").encode() for k in (1, 2, 30)]
    assert [lines_of_texts(found, text) for text in texts] == [[discovery._identity(found)]] * 3
    assert tried == [texts[0], texts[2]]  # another number of digits
    assert lines_of_texts(found, b"no such line") == [] and tried[-1] == b"no such line"


def test_which_strings_no_family_needs_to_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that several others are like but for their digits, and those of new shapes where there are many."""
    monkeypatch.setattr(discovery, "MOST_UNREAD_SHAPES", 3)
    monkeypatch.setattr(discovery, "_MOST_HELD", 4)
    shapes, unbounded = discovery._UnreadShapes(), discovery._UnreadShapes(is_bounded=False)
    for each in (shapes, unbounded):
        assert not each.tells_of(b"step 1")
        for _ in range(discovery._ENOUGH_OF_SHAPE - 1):
            each.add(b"step 1")
        assert not each.tells_of(b"step 2")
        each.add(b"step 3")
    assert shapes.tells_of(b"step 4") and not unbounded.tells_of(b"step 4")
    assert not shapes.tells_of(b"other 4")
    shapes.add(b"a 1")
    copied = shapes.copy()
    copied.add(b"b 1")  # the third shape
    assert copied.tells_of(b"new 5") and not shapes.tells_of(b"new 5")
    assert not copied.tells_of(b"b 2")
    assert not copied.tells_of(b"new 6")  # it comes again: that is no prose
    assert copied.tells_of(b"newer 6") and len(copied._counts) == 4
