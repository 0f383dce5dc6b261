"""Why a log is not recognised: what is no log, and the template that comes nearest to a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perflog.formats.model import Format, Line
from perflog.formats.template import Template
from perflog.ingestion.unrecognised import nearest, no_rows, unusable
from perflog.parsing.input.source import Source
from perflog.tables.sink import IngestResult


def form(name: str, *templates: str, role: str = "line") -> Format:
    lines = tuple(Line(f"{name}{k}", Template(text), role=role) for k, text in enumerate(templates))
    return Format(name, Path(), "", "", (), None, lines, (), ())


FORMATS = [
    form("a", "loss: {loss:f} of {all:d}", "step {step:d} took {time:f} s"),
    form("b", "loss: {loss:f} at {at:d}"),
]


@pytest.mark.parametrize(
    ("texts", "near"),
    [
        (["loss: 2.5 at x"], ("loss: 2.5 at x", "b", "b0", 10)), (["step 3 lasted"], ("step 3 lasted", "a", "a1", 6)),
        (["words", "loss: 2.5", "step 3 took x"], ("step 3 took x", "a", "a1", 11)),
        (["loss: 2.5 x", "loss: 3.5 x"], ("loss: 2.5 x", "a", "a0", 7)),  # the first of equals
        (["los"], None), (["lost"], None), ([], None),
    ],
)  # fmt: skip
def test_the_template_that_comes_nearest(texts: list[str], near: tuple[str, str, str, int] | None) -> None:
    found = nearest(texts, FORMATS)
    assert (found and (found[0], found[1].name, found[2].name, found[3].literal)) == near


def test_context_comes_near_nothing() -> None:
    assert nearest(["loss: 2.5 at x"], [form("c", "loss: {loss:f} at {at:d}", role="context")]) is None
    assert nearest(["loss: 2.5 at x"], []) is None


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
        (b"", "the log is empty"), (b"\x80\x04" + b"\0" * 99, "a pickle is not read"),
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
