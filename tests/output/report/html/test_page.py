"""A page: its parts in their order, and what it allows a browser to load."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.output.report.html import page as module
from perflog.output.report.html.elements import Html
from perflog.output.report.html.resources import script, style

FILES = ("colors.css", "page.css", "page.js")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A page whose sections are their anchors; `findings` has no content."""
    names = ("overview", "plots", "findings", "metrics", "lines")
    writers = {name: lambda _, name=name: "" if name == "findings" else f"[{name}]" for name in names}
    monkeypatch.setattr(module, "_WRITERS", writers)
    report: Any = SimpleNamespace(title="a_<b>", runs=[1, 2, 3], hosts={"x"}, logs=[1])
    return lambda detail=None: module.page_of(report, detail)


def test_sections_are_in_their_order(page: Any) -> None:
    """First what is seen at once, then the search box and the folded ones. Each in the table of contents."""
    html = page().written()
    assert re.findall(r'<section id="([\w-]+)"', html) == ["overview", "plots", "metrics", "lines"]
    assert re.findall(r'<li><a href="#([\w-]+)"', html) == ["overview", "plots", "metrics", "lines"]
    assert html.index("[plots]") < html.index('id="details"') < html.index("[metrics]")
    folded = re.findall(r"<section[^>]*>(<details>)?<?", html)
    assert [bool(each) for each in folded] == [False, False, True, True]


def test_the_head_of_a_page(page: Any) -> None:
    html = page().written()
    assert html.startswith("<!doctype html>\n<html") and html.endswith("</html>\n")
    assert 'lang="en"' in html and "<title>a_&lt;b&gt;</title>" in html and "<h1>a_&lt;b&gt;</h1>" in html
    assert "2 runs of 1 log, read by perflog " in html  # the third run is another host
    assert page().written(Html("<p>back</p>")).index("<p>back</p>") < html.index('class="page"')
    assert page().written(Html("<p>back</p>")).partition("<body")[2].partition(">")[2].startswith("<p>back</p>")


def test_a_browser_loads_nothing_else(page: Any) -> None:
    """Each script, and the style, is allowed by its hash."""
    html = page().written()
    inline = [text for _, text in re.findall(r"<(script|style)>(.*?)</\1>", html, re.DOTALL)]
    assert "default-src" in html and len(inline) == 3
    for text in inline:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in html
    assert "connect-src" not in html and "data-detail" not in html
    asks = page("/detail").written()
    assert "connect-src" in asks and 'data-detail="/detail"' in asks


def test_the_panel_of_sources_is_hidden(page: Any) -> None:
    panel = re.search(r"<aside[^>]*>", page().written())
    assert panel is not None and " hidden" in panel[0] and 'id="source"' in panel[0]


def test_resources_are_the_files_of_the_package() -> None:
    colors, own, code = (Path(module.__file__).with_name(name).read_text("utf-8") for name in FILES)
    assert style("colors", "page") == colors + own and script("page") == code
