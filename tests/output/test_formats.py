"""Sheets of formats and lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perflog.ingestion.explained import ReaderDetection
from perflog.output.presenters import formats as module
from perflog.output.presenters.formats import (
    checked_sheets,
    detection_sheets,
    explanation_sheets,
    format_sheet,
    formats_sheet,
)
from perflog.output.sheets import Quantity, Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence


def line(
    name: str, text: str, *samples: str, table: str | None = "steps", role: str = "line", read: bool = True
) -> Any:
    return SimpleNamespace(
        name=name, role=role, table=table, read=read, template=SimpleNamespace(text=text), samples=samples
    )


STEP, SCOPE = line("step", "step {n}", "step 1", "step 2"), line("section", "== {s}", "== a", table=None)
CONTEXT = line("title", "Title", "Title", table=None, role="context", read=False)
FAMILY = SimpleNamespace(
    name="meters",
    text="{name} {value}",
    samples=("loss 1", "loss 2"),
    lines=lambda _: [line("x", ""), line("y", "", table="values")],
)


def made(name: str = "own", families: Sequence[Any] = (FAMILY,), **more: Any) -> Any:
    empty = dict.fromkeys(("scopes", "fingerprints", "phases", "quantities"), ()) | {
        "label": None,
        "flops": None,
        "result": None,
    }
    usual = {"name": name, "title": "A format", "path": "own.toml", "source": "here", "lines": [STEP, SCOPE, CONTEXT]}
    return SimpleNamespace(**empty | usual | {"families": families} | more)


def rows(sheet: Sheet) -> list[Any]:
    return [tuple(row) for row in sheet.rows]


def test_what_proves_the_format_of_a_log() -> None:
    proof = [(n, f"t{n}", f"text {n}") for n in range(8)]
    detection: Any = SimpleNamespace(formats=[
        SimpleNamespace(format=made("a"), share=0.755, proof=proof),
        SimpleNamespace(format=made("b"), share=0.1, proof=proof[:1]),
    ])  # fmt: skip
    first, second = detection_sheets("x.txt", detection, flat=False)
    assert first.title == "x.txt: a, 76 % of the examined lines, 8 line shapes" and rows(first) == proof[:6]
    assert (first.note, second.note) == ("and 2 more line shapes", "")
    assert second.title.endswith("10 % of the examined lines, 1 line shape")
    flat = list(detection_sheets("x.txt", detection, flat=True))
    assert rows(flat[0])[7] == ("x.txt", "a", 0.755, 7, "t7", "text 7") and rows(flat[1]) == [
        ("x.txt", "b", 0.1, *proof[0])
    ]
    assert [column.name for column in flat[0].columns] == ["log", "format", "share", "line", "template", "text"]


@pytest.mark.parametrize(
    ("files", "title"), [(1, "x: nsys, Nsight"), (3, "x: nsys, Nsight, 3 files, one for each rank")]
)
def test_what_proves_a_trace(files: int, title: str) -> None:
    detection = ReaderDetection("nsys", "Nsight", files, [(1, "t", "text")])
    (sheet,) = detection_sheets("x", detection, flat=False)
    assert (sheet.title, rows(sheet)) == (title, [(1, "t", "text")])
    (flat,) = detection_sheets("x", detection, flat=True)
    assert rows(flat) == [("x", "nsys", 1.0, 1, "t", "text")]


def test_all_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "known", lambda: {"own": made()})
    assert rows(formats_sheet()) == [("own", 4, "A format", "own.toml")]


def test_the_lines_of_a_format() -> None:
    """In text the first sample is below its line; elsewhere it is a column. Context has no name."""
    text = format_sheet(made(), "text")
    assert rows(text) == [
        ("step", "steps", "step {n}"), ("", "", "step 1"), ("section", "scope", "== {s}"), ("", "", "== a"),
        ("", "context", "Title"), ("", "", "Title"), ("meters", "values", "{name} {value}"), ("", "", "loss 1"),
    ]  # fmt: skip
    assert (text.title, text.note) == ("own: A format", "here\nown.toml")
    assert rows(format_sheet(made(), "json")) == [
        ("step", "steps", "step {n}", "step 1"), ("section", "scope", "== {s}", "== a"),
        (None, "context", "Title", "Title"), ("meters", "values", "{name} {value}", "loss 1"),
    ]  # fmt: skip
    bare = made(
        lines=[line("a", "x")], families=[SimpleNamespace(name="f", text="y", samples=("s",), lines=lambda _: [])]
    )
    assert rows(format_sheet(bare, "json")) == [("a", "steps", "x", None), ("f", "", "y", "s")]


def test_a_valid_format_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sample_lines", lambda _: [line("z", "", table="phases"), line("u", "", table=None)])
    lost: list[Any] = []
    monkeypatch.setattr(module, "lost_figures", lambda _: lost)
    (sheet,) = checked_sheets(made(scopes=("run", "step"), phases=[SimpleNamespace(name="p")], title=""))
    assert sheet.title == "own is fine" and sheet.pairs and dict(rows(sheet)) == {
        "file": "own.toml", "lines": 2, "context": 1, "families": "meters", "samples": 6, "tables": "phases, steps",
        "scopes": "run, step", "phases": "p",
    }  # fmt: skip
    monkeypatch.setattr(module, "astuple", lambda each: each)
    lost.append(("step", 1, 2, "why", "step 1"))
    _, figures = checked_sheets(made())
    assert rows(figures) == [("step", 1, 2, "why", "step 1")] and figures.title.startswith("figures of the samples")


def test_how_a_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [
        SimpleNamespace(name="ms", column="time_s", value=0.5, unit="s"),
        SimpleNamespace(name="step", column="step", value=7, unit=""),
        SimpleNamespace(name="word", column=None, value="x", unit=""),
    ]  # fmt: skip
    readings = [
        SimpleNamespace(format=made(), line=STEP, rank=0, values=values),
        SimpleNamespace(format=made(), line=SCOPE, rank=None, values=()),
        SimpleNamespace(format=made(), line=CONTEXT, rank=None, values=()),
    ]  # fmt: skip
    monkeypatch.setattr(module, "read_line", lambda *_: readings)
    step, scope, context = explanation_sheets("text", [])
    assert step.title == "line `step` of own, for table steps" and rows(step) == [
        ("text", "step {n}"), ("rank, by its label", 0), ("ms -> time_s", Quantity(0.5, "s")), ("step", 7),
        ("word", "x"),
    ]  # fmt: skip
    assert (scope.title, rows(scope)) == ("line `section` of own", [("text", "== {s}")])
    assert (context.title, rows(context)) == ("known context of own: it is not read", [("text", "Title")])
