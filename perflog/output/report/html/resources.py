"""Style sheets and scripts of pages, as texts."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def style(*names: str) -> str:
    """Return style sheets as one: `colors` has the colours of light and dark pages, which the others use."""
    return "".join(_text(f"{name}.css") for name in names)


@cache
def script(name: str) -> str:
    """Return the script of a name."""
    return _text(f"{name}.js")


def _text(name: str) -> str:
    return files("perflog.output.report.html").joinpath(name).read_text("utf-8")
