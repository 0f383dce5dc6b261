"""Pages of the documentation that are made from the code."""

from __future__ import annotations

from pathlib import Path

from support.paths import ROOT

DOCS = ROOT / "docs"


def same(page: Path, text: str) -> None:
    new = page.with_suffix(".md.new")
    if not page.exists() or page.read_text("utf-8") != text:
        new.write_text(text, encoding="utf-8")
        raise AssertionError(f"{page.name} is not what the registry says; look at {new.name} and move it over")
    new.unlink(missing_ok=True)
