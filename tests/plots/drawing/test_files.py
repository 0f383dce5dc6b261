"""Figures as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure

from perflog.errors import UsageError
from perflog.plots.drawing.files import check_size, render, save, suffix
from perflog.plots.drawing.notebook_figure import NotebookFigure
from perflog.plots.drawing.style import styled

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_the_suffix_names_the_format() -> None:
    assert [suffix(name) for name in ("a.png", "a.b.SVG", Path("a.Pdf"))] == ["png", "svg", "pdf"]
    for name in ("a.jpg", "png", "a"):
        with pytest.raises(UsageError, match="png, svg or pdf"):
            suffix(name)


def test_a_png_has_so_many_pixels_at_most() -> None:
    check_size("a.png", (100, 200), 100)  # 2e8
    check_size("a.svg", (100, 201), 100)
    with pytest.raises(UsageError, match="10000 x 20100 pixels"):
        check_size("a.png", (100, 201), 100)
    with pytest.raises(UsageError, match="png, svg or pdf"):
        check_size("a.gif", (1, 1), 1)


@pytest.mark.parametrize("kind", MAGIC)
def test_the_same_figure_has_the_same_bytes(kind: str, tmp_path: Path) -> None:
    figure = NotebookFigure(figsize=(1, 1))
    first = render(figure, kind)
    assert first.startswith(MAGIC[kind]) and render(figure, kind) == first
    assert not any(left_out in first for left_out in (b"Software", b"Producer", b"CreationDate", b"dc:date"))
    save(figure, tmp_path / f"a.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == first
    if kind == "png":
        assert figure._repr_png_() == first


def test_dots_per_inch(tmp_path: Path) -> None:
    """A PNG has its width and height in bytes 16 to 24."""
    figure = Figure(figsize=(1, 2))
    sizes = [
        tuple(int.from_bytes(render(figure, "png", dpi)[at : at + 4], "big") for at in (16, 20)) for dpi in (20, 40)
    ]
    assert sizes == [(20, 40), (40, 80)]
    save(figure, tmp_path / "a.png", 20)
    assert (tmp_path / "a.png").read_bytes() == render(figure, "png", 20)
    assert int.from_bytes(render(figure, "png")[16:20], "big") == 150


def test_settings_of_the_user_do_not_count() -> None:
    with rc_context({"font.size": 30, "axes.grid": True}):
        with styled():
            drawn = {name: rcParams[name] for name in ("font.size", "axes.grid", "axes.spines.top", "axes.axisbelow")}
            hidden = (rcParams["axes.spines.right"], rcParams["axes.formatter.useoffset"], rcParams["legend.frameon"])
        assert (rcParams["font.size"], rcParams["axes.grid"]) == (30, True)
    assert drawn == {"font.size": 9, "axes.grid": False, "axes.spines.top": False, "axes.axisbelow": True}
    assert hidden == (False, False, False)
