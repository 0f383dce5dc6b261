"""Keeps loaded formats in a file of the user's cache: to load them from TOML takes five times as long as to read it.

The file holds a stamp of all that it depends on: the format files, the code that loads them, and Python. If the stamp
differs, the formats are loaded and the file is replaced. Without a folder to write to, they are loaded each time. A
format from the file is made when it is first asked for: most commands use one or two.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perflog.formats.model import Format

_CODE = Path(__file__).parents[1]
_DIGEST = 32  # bytes of a SHA-256
_PROTOCOL = pickle.HIGHEST_PROTOCOL


class _Pickled(Mapping[str, "Format"]):
    """Formats by name, each made of its pickle when it is first asked for."""

    def __init__(self, pickles: Mapping[str, bytes]) -> None:
        self._pickles = pickles
        self._formats: dict[str, Format] = {}

    def __getitem__(self, name: str) -> Format:
        if name not in self._formats:
            self._formats[name] = pickle.loads(self._pickles[name])
        return self._formats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pickles)

    def __len__(self) -> int:
        return len(self._pickles)


def cached(folder: Path, load: Callable[[], Mapping[str, Format]]) -> Mapping[str, Format]:
    """Return the formats of a folder, from the user's cache if its files and perflog are as they were.

    Args:
        folder: The folder of the format files.
        load: Loads them.
    """
    file = _cache() / f"formats-{sha256(os.fsencode(folder)).hexdigest()[:16]}.pickle"
    stamp = _stamp(folder)
    content = _read(file)
    if content[:_DIGEST] == stamp and sha256(content[2 * _DIGEST :]).digest() == content[_DIGEST : 2 * _DIGEST]:
        return _Pickled(pickle.loads(content[2 * _DIGEST :]))
    formats = load()
    data = pickle.dumps({name: pickle.dumps(format, _PROTOCOL) for name, format in formats.items()}, _PROTOCOL)
    with suppress(OSError):
        _write(file, stamp + sha256(data).digest() + data)
    return formats


def _cache() -> Path:
    """Return perflog's folder in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "perflog"


def _stamp(folder: Path) -> bytes:
    """Return a digest of what the loaded formats of a folder depend on."""
    files = sorted([*folder.glob("*.toml"), *_CODE.rglob("*.py"), *_CODE.rglob("*.toml")])
    stats = [(str(file), stat.st_size, stat.st_mtime_ns) for file, stat in ((file, file.stat()) for file in files)]
    return sha256(repr((sys.version, stats)).encode()).digest()


def _read(file: Path) -> bytes:
    """Return the content of a file; nothing if there is none, or if another user, who may not be trusted, wrote it."""
    try:
        with open(file, "rb") as opened:
            is_own = not hasattr(os, "geteuid") or os.fstat(opened.fileno()).st_uid == os.geteuid()
            return opened.read() if is_own else b""
    except OSError:
        return b""


def _write(file: Path, content: bytes) -> None:
    """Replace a file at once: other processes may be reading it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    os.replace(draft, file)
