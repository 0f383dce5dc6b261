"""Finds all formats, built-in and of other packages.

Built-in formats and formats of other packages come through one entry-point group, `perflog.formats`. Its entries are
functions that return a folder of TOML files. The grammar of the files is in parsers/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from perflog.entry_points import registered
from perflog.errors import FormatError, UsageError, did_you_mean
from perflog.files.bundled import bundled
from perflog.formats.loader.cache import cached

if TYPE_CHECKING:
    from perflog.formats.model import Format

# What loads and checks format files is imported where that is done: mostly the formats come from the cache.

COMMON = "common"
"""Name of the format file with contexts and blocks that apply together with every format."""


def builtin() -> Path:
    """Return the folder of the built-in format files. The entry point names this function."""
    return bundled("parsers")


@cache
def known() -> Mapping[str, Format]:
    """Return all formats by name: built-in ones and formats of other installed packages, `common` among them.

    A built-in format is made when it is first asked for, if the user's cache has it.

    Raises:
        FormatError: A format file is wrong, two have one name, or another package's formats cannot be loaded.
    """
    folders = [builtin()]  # its files are tested with perflog
    for entry in registered("perflog.formats"):
        try:
            folders.append(Path(entry.load()()))
        except Exception as error:
            raise FormatError(f"the formats of another package cannot be loaded: {error!r}", entry.value) from error
    own, *others = dict.fromkeys(f.resolve() for f in folders)
    formats = cached(own, lambda: _loaded(own, is_tested=True))
    external: dict[str, Format] = {}
    for folder in others:
        for name, format in _loaded(folder).items():
            if (other := formats.get(name) or external.get(name)) is not None:
                raise FormatError(f"two formats are named `{name}`", str(format.path), str(other.path))
            external[name] = format
    return {**formats, **external} if external else formats


def _loaded(folder: Path, is_tested: bool = False) -> dict[str, Format]:
    """Load the formats of a folder."""
    from perflog.formats.loader.format_file import load

    return {path.stem: load(path, is_tested) for path in sorted(folder.glob("*.toml"))}


def named_formats(names: Iterable[str]) -> list[Format]:
    """Return formats by name, or by file if a name ends in .toml. See `get` for errors."""
    return [get(name) for name in names]


def get(name: str) -> Format:
    """Return a format by name, or by the path of a format file.

    Raises:
        UsageError: There is no format of that name.
        FormatError: The file is wrong, or one of its samples also matches a line of a known format.
    """
    if name.endswith(".toml"):
        path = Path(name)
        stat = path.stat() if path.exists() else None
        return _checked(path.resolve(), path, stat and (stat.st_ino, stat.st_size, stat.st_mtime_ns))
    if name not in known():
        raise UsageError(f"no format is named `{name}`", help=did_you_mean(name, known()))
    return known()[name]


@lru_cache(16)
def _checked(_: Path, path: Path, stamp: tuple[int, ...] | None) -> Format:  # noqa: ARG001  # keys of the cache
    """Load a format file and check its samples, once for each `stamp` of the file: each log of many asks for it."""
    from perflog.formats.loader.format_file import load
    from perflog.formats.sample_checks import check_samples

    format = load(path)
    check_samples(format, [f for f in known().values() if f.name != format.name])
    return format
