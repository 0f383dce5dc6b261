"""Format files as tests write them."""

from __future__ import annotations

from pathlib import Path


def given_file(folder: Path, text: str, name: str = "own") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path
