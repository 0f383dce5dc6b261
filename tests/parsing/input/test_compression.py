"""Which codec the first bytes of a file show."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from perflog.parsing.input.compression import codec_of, decompressor

PACKED = {
    "gzip": gzip.compress(b"a\nb\n", mtime=0),
    "xz": lzma.compress(b"a\nb\n"),
    "bzip2": bz2.compress(b"a\nb\n"),
    "zstd": pa.compress(b"a\nb\n", "zstd", asbytes=True),
    "": b"a\nb\n",
}


@pytest.mark.parametrize("codec", PACKED)
def test_a_file_is_decompressed_as_its_first_bytes_say(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKED[codec])
    assert codec_of(PACKED[codec][:16]) == codec
    with decompressor(str(path), codec) as file:
        assert file.read() == b"a\nb\n"


@pytest.mark.parametrize(
    ("start", "codec"),
    [
        (bz2.compress(b"")[:16], "bzip2"),
        (b"\x50\x2a\x4d\x18\x04\x00\x00\x00", "zstd"),  # a skippable frame first
        (b"\x5f\x2a\x4d\x18\x04\x00\x00\x00", "zstd"),
        (b"\x4f\x2a\x4d\x18\x04\x00\x00\x00", ""),
        (b"BZh0 is a word", ""),
        (b"BZh9 is a word", ""),
        (b"\x1f\x8b", ""),
        (b" " + PACKED["gzip"][:15], ""),
    ],
)
def test_what_begins_alike(start: bytes, codec: str) -> None:
    assert codec_of(start) == codec


@pytest.mark.parametrize(("version", "has_module"), [((3, 13, 9), False), ((3, 14, 0), True)])
def test_zstandard_is_in_python_since_3_14(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], has_module: bool
) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKED["zstd"])
    monkeypatch.setattr(sys, "version_info", version)
    module: Any = SimpleNamespace(open=lambda given: (given, "of Python"))
    monkeypatch.setitem(sys.modules, "compression.zstd", module)
    opened = decompressor(str(path), "zstd")
    assert (opened == (str(path), "of Python")) is has_module
