"""Why a log is not recognised: what is no log, and the template that comes nearest to a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file

from perflog.formats.loader.format_file import load
from perflog.formats.model import Format, Line
from perflog.formats.template import Template
from perflog.ingestion import unrecognised
from perflog.ingestion.detect import detect
from perflog.ingestion.unrecognised import nearest, no_rows, nothing_recognised, unusable
from perflog.parsing.input.source import Source
from perflog.tables.sink import IngestResult


def form(name: str, *templates: str, role: str = "line") -> Format:
    lines = tuple(Line(f"{name}{k}", Template(text), role=role) for k, text in enumerate(templates))
    return Format(name, Path(), "", "", (), None, lines, (), ())


FORMATS = [
    form("a", "loss: {loss:f} of {all:d}", "step {step:d} took {time:f} s"),
    form("b", "loss: {loss:f} at {at:d}"),
    form("c", "abc{x:d}de"),
]


@pytest.mark.parametrize(
    ("texts", "near"),
    [
        (["loss: 2.5 at x"], ("loss: 2.5 at x", "b", "b0", 10)), (["step 3 lasted"], ("step 3 lasted", "a", "a1", 6)),
        (["words", "loss: 2.5", "step 3 took x"], ("step 3 took x", "a", "a1", 11)),
        (["loss: 2.5 x", "loss: 3.5 x"], ("loss: 2.5 x", "a", "a0", 7)),  # the first of equals
        (["los"], None), (["lost"], None), ([], None),
        (["abc1dx"], ("abc1dx", "c", "c0", 4)), (["abc1x"], None),  # three bytes may be chance
        (["x step 3 took"], None),  # not at its beginning
        (["loss: 2.5 at 3"], ("loss: 2.5 at 3", "a", "a0", 7)),  # which matches another template
    ],
)  # fmt: skip
def test_the_template_that_comes_nearest(texts: list[str], near: tuple[str, str, str, int] | None) -> None:
    found = nearest(texts, FORMATS)
    assert (found and (found[0], found[1].name, found[2].name, found[3].literal)) == near


def test_context_comes_near_nothing() -> None:
    assert nearest(["loss: 2.5 at x"], [form("c", "loss: {loss:f} at {at:d}", role="context")]) is None
    assert nearest(["loss: 2.5 at x"], []) is None


OBJECTS = """
title = "objects"
[[json]]
name = "object"
table = "values"
head = "RECORD "
sample = 'RECORD {"size": 12}'
"""


def test_a_line_of_a_family_is_near_where_some_line_may_begin_so(tmp_path: Path) -> None:
    """Else the samples of families, some thousand, are not looked at."""
    objects = load(given_file(tmp_path, OBJECTS, "objects"))
    found = nearest(["some", 'RECORD {"size": x'], [*FORMATS, objects])
    assert found is not None and (found[0], found[1].name, found[2].name) == ('RECORD {"size": x', "objects", "object")
    assert found[3].literal == len('RECORD {"size": ')
    assert nearest(["REC"], [objects]) is None and nearest(["RECO"], [objects]) is not None
    assert not unrecognised._may_begin(objects, b"RE CORD") and unrecognised._may_begin(objects, b"a RECO")


@pytest.mark.parametrize(
    ("text", "near", "shapes"),
    [
        ("a 1\nb 2 3\na   5\n\nb 1 7\na 9\n", "", "       3  a #\n       2  b # #"),
        (
            "x 1\nloss: 2.5 at x\n",
            "The nearest template is `b0` of b:\nloss: 2.5 at x\n             ^ expected an integer\n",
            "       1  x #\n       1  loss: #.# at x",
        ),
        ("".join(f"{'abcdef'[k]}{'x' * 200}\n" * (9 - k) for k in range(6)), "",
         "\n".join(f"       {9 - k}  {'abcdef'[k]}{'x' * 99}" for k in range(5))),
    ],
)  # fmt: skip
def test_the_help_names_the_nearest_template_and_the_most_common_lines(
    tmp_path: Path, text: str, near: str, shapes: str
) -> None:
    (tmp_path / "a").write_text(text)
    source = Source("a", str(tmp_path / "a"))
    found = nothing_recognised(source, detect(source.head(), FORMATS), FORMATS)
    common = f"The most common line shapes, with # for numbers:\n{shapes}\n"
    assert (found.reason, found.where, found.help.partition("To read")[0]) == (
        "nothing in it is recognised", "a", near + common,
    )  # fmt: skip
    (tmp_path / "a").write_text("")
    source = Source("a", str(tmp_path / "a"))
    assert "is empty" in nothing_recognised(source, detect(source.head(), FORMATS), FORMATS).reason


@pytest.fixture
def error(tmp_path: Path) -> Callable[[bytes], Any]:
    """A function that returns the error for a log of some bytes."""

    def of(data: bytes) -> Any:
        (tmp_path / "a").write_bytes(data)
        source = Source("a", str(tmp_path / "a"))
        return unusable(source, source.head())

    return of


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the log is empty"), (b"\x80\x02" + b"\0" * 99, "a pickle is not read"), (b"\x80\x01", "not a text log"),
        (b"\x80\x04" + b"\0" * 99, "a pickle is not read"),
        (b"\x80\x06" + b"\0" * 99, "not a text log"), (b"\x80\x05" + b"a" * 99, ""), (b"words\n", ""),
    ],
)  # fmt: skip
def test_what_is_no_log(error: Callable[[bytes], Any], data: bytes, reason: str) -> None:
    found = error(data)
    assert reason in found.reason if reason else found is None


@pytest.mark.parametrize(
    ("formats", "log", "said"),
    [
        (["megatron", "nccl"], "-", "7 figures are unread, and only settings of megatron, nccl are read"),
        ([], "a b.log", "only lines that any log may have"),
    ],
)  # fmt: skip
def test_a_log_of_settings_alone(formats: list[str], log: str, said: str) -> None:
    result = IngestResult(log, "0", figures={"unread": 7}, unread_figures=(12, "x" * 300))
    found = no_rows(result, formats)
    assert said in found.reason
    assert f"line 12:\n  {'x' * 200}\n" in found.help
    assert f"perflog ingest --guess {'LOG' if log == '-' else repr(log)}\n" in found.help
