"""Compressed files: which codec the first bytes show, and what decompresses them."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from perflog.lazy_patterns import lazy_pattern

_MAGIC = (
    (lazy_pattern(rb"\x1f\x8b\x08"), "gzip"),
    (lazy_pattern(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),  # second: a skippable frame, as pzstd writes
    (lazy_pattern(rb"\xfd7zXZ\0"), "xz"),
    (lazy_pattern(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
)
_MODULES = {"gzip": "gzip", "zstd": "compression.zstd", "xz": "lzma", "bzip2": "bz2"}


def codec_of(start: bytes) -> str:
    """Return the codec of a file by its first 16 bytes; "" if it is not compressed."""
    return next((codec for pattern, codec in _MAGIC if pattern.match(start)), "")


def decompressor(path: str, codec: str) -> Any:
    """Return a file of the decompressed bytes of a file; with codec "" of its bytes as they are."""
    if not codec:
        return open(path, "rb")
    if codec == "zstd" and sys.version_info < (3, 14):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(os.fsencode(path)), codec)
    return import_module(_MODULES[codec]).open(path)
