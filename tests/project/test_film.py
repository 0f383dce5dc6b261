"""The moving picture of the README: what `perflog demo` prints, without a script, readable when it stands still."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.browser import FOUND, browser
from support.paths import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a session needs a terminal of Linux")

FILM = ROOT / "docs" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
OPACITY = "[...document.querySelectorAll('.t')].map((part) => Number(getComputedStyle(part).fillOpacity))"


@pytest.fixture(scope="module")
def cast() -> ModuleType:
    namespace = ModuleType("cast")
    path = ROOT / "docs" / "cast.py"
    sys.modules["cast"] = namespace  # where its classes look for their module
    namespace.__file__ = str(path)
    exec(compile(path.read_text("utf-8"), path, "exec"), vars(namespace))
    return namespace


def test_it_is_what_the_command_prints(cast: ModuleType) -> None:
    rows = cast.session()
    new = FILM.with_suffix(".svg.new")
    if cast.film(rows) != FILM.read_text("utf-8"):
        new.write_text(cast.film(rows), encoding="utf-8")
        raise AssertionError(f"the command prints something else now; look at {new.name} and move it over")
    new.unlink(missing_ok=True)
    shown = ["".join(text.itertext()) for text in ET.fromstring(FILM.read_bytes()).iter(f"{SVG}text")]
    assert shown == ["$ perflog demo", *(row.text.strip() for row in rows)]


def test_it_is_small_and_runs_nothing() -> None:
    assert FILM.stat().st_size < 150_000
    found = list(ET.fromstring(FILM.read_bytes()).iter())
    assert {part.tag.removeprefix(SVG) for part in found} == {"svg", "title", "style", "rect", "text", "tspan"}
    assert not [name for part in found for name in part.attrib if name.startswith("on") or name.endswith("href")]


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs Chromium on the PATH")
def test_its_rows_appear_in_turn_and_at_once_for_who_asks_for_less_motion(tmp_path: Path) -> None:
    def at(part: float) -> list[Any]:
        pause = f"(a.pause(), a.currentTime = {part} * a.effect.getTiming().duration)"
        tab.run(f"document.getAnimations().forEach((a) => {pause})")
        return list(tab.run(OPACITY))

    with browser(tmp_path / "profile") as tab:
        tab.open(FILM, 720, 640)
        moments = [at(part) for part in (0, 0.05, 0.2, 0.5, 0.999)]
        ink = tab.run("getComputedStyle(document.querySelector('text')).fill")
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        assert tab.run("getComputedStyle(document.querySelector('text')).fill") != ink
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        tab.open(FILM, 720, 640)
        assert tab.run("document.getAnimations().length") == 0
        assert set(tab.run(OPACITY)) == {1}
    seen = [sum(moment) for moment in moments]
    assert seen[0] == 0 and seen == sorted(seen) and len(set(seen)) >= 4 and seen[-1] == len(moments[-1])
    assert all(moment == sorted(moment, reverse=True) for moment in moments), "from the top down"
