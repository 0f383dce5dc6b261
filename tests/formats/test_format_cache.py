"""Formats are loaded from TOML once and then come from the user's cache, until a file or perflog changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from perflog.formats.loader.cache import cached
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format

TEXT = """
title = "{title}"

[[line]]
name = "step"
table = "steps"
text = "step {{step:d}}: {{step_time:.1f}} ms"
unit = {{ step_time = "ms" }}
sample = "step 3: 21.5 ms"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a format, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    formats = tmp_path / "formats"
    formats.mkdir()
    (formats / "tiny.toml").write_text(TEXT.format(title="first"))
    return formats


def loads(folder: Path) -> tuple[Mapping[str, Format], int]:
    """Return the formats of a folder, and how many files were loaded for that."""
    paths: list[Path] = []

    def load_all() -> dict[str, Format]:
        paths.extend(sorted(folder.glob("*.toml")))
        return {path.stem: load(path) for path in paths}

    return cached(folder, load_all), len(paths)


def test_formats_are_loaded_once(folder: Path) -> None:
    first, files = loads(folder)
    assert (files, first["tiny"].title) == (1, "first")
    again, files = loads(folder)
    assert files == 0
    assert again["tiny"].lines[0].template.match("step 3: 21.5 ms") == {"step": 3, "step_time": 21.5}
    assert again["tiny"].lines[0].unit == first["tiny"].lines[0].unit


def test_a_changed_file_is_loaded_again(folder: Path) -> None:
    loads(folder)
    (folder / "tiny.toml").write_text(TEXT.format(title="other"))  # of the same size
    os.utime(folder / "tiny.toml", ns=(1, 1))
    formats, files = loads(folder)
    assert (files, formats["tiny"].title) == (1, "other")


def test_a_new_file_is_loaded(folder: Path) -> None:
    loads(folder)
    (folder / "more.toml").write_text(TEXT.format(title="more"))
    assert sorted(loads(folder)[0]) == ["more", "tiny"]


@pytest.mark.parametrize("damage", [b"", b"\0" * 100, None])
def test_a_damaged_cache_is_replaced(folder: Path, tmp_path: Path, damage: bytes | None) -> None:
    loads(folder)
    (file,) = (tmp_path / "cache" / "perflog").iterdir()
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    assert loads(folder)[1] == 1
    assert loads(folder)[1] == 0


def test_without_a_place_for_the_cache_formats_are_loaded_each_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    assert [loads(folder)[1] for _ in range(2)] == [1, 1]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner")
def test_the_cache_of_another_user_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads(folder)
    monkeypatch.setattr("os.geteuid", lambda: 1 << 20)
    assert loads(folder)[1] == 1
