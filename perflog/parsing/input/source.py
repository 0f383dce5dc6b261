"""Bytes in: a path, stdin or a URL, compressed or not, as chunks of whole clean lines."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import weakref
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from typing import Any

from perflog.errors import InputError
from perflog.parsing.input.chunks import CHUNK, PIECE, SLACK, Chunk, blocks, whole
from perflog.parsing.input.references import cannot_open, is_url, split_run, unbraced

_MAGIC = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),  # second: a skippable frame, as pzstd writes
    (re.compile(rb"\xfd7zXZ\0"), "xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
)
_MODULES = {"gzip": "gzip", "zstd": "compression.zstd", "xz": "lzma", "bzip2": "bz2"}
_BOMS = ((b"\xef\xbb\xbf", ""), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Source:
    """One log, which can be read again and again. `name` is as the user named it, without "#run"."""

    def __init__(self, name: str, path: str, spooled: bool = False) -> None:
        self.name = name
        self.warnings: list[str] = []
        self._path = path
        self._sha256 = ""
        try:
            with open(path, "rb") as file:
                magic = file.read(16)
                # A log still being written is read up to here: every reading must see the same bytes.
                self._size = os.fstat(file.fileno()).st_size or sys.maxsize
        except OSError as err:
            raise cannot_open(name, err) from err
        self._codec = next((codec for pattern, codec in _MAGIC if pattern.match(magic)), "")
        start = bytearray(3)
        with closing(self._raw()) as stream:
            got = stream.fill(memoryview(start))
        self._bom, self._encoding = next(((b, e) for b, e in _BOMS if start[:got].startswith(b)), (b"", ""))
        self._remove = weakref.finalize(self, _unlink, path) if spooled else None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the spool, if there is one."""
        if self._remove:
            self._remove()

    def binary(self) -> bool:
        """Whether the first bytes are not those of a text, as far as can be told: many control characters in them."""
        start = bytearray(1 << 13)
        with closing(self._raw()) as stream:
            raw = start[: stream.fill(memoryview(start))]
        control = sum(b < 9 or 13 < b < 27 or 27 < b < 32 or b == 127 for b in raw)
        return not self._encoding and control * 10 > len(raw)

    def size(self) -> int:
        """Bytes of the file as it lies on disk, compressed or not."""
        return self._size

    def digest(self) -> str:
        """SHA-256 of the decompressed bytes, before any cleaning."""
        if not self._sha256:
            import hashlib

            sha, block = hashlib.sha256(), memoryview(bytearray(1 << 20))
            with closing(self._raw()) as stream:
                while got := stream.fill(block):
                    sha.update(block[:got])
            self._sha256 = sha.hexdigest()
        return self._sha256

    def head(self, size: int = 1 << 20) -> Chunk:
        """The first lines, about `size` bytes, as the first chunk would be; size 0 for an empty log."""
        with closing(self.chunks(size)) as chunks:
            return next(chunks, Chunk(bytearray(SLACK), 0, 1, 0, [], []))

    def chunks(self, size: int = CHUNK) -> Generator[Chunk]:
        """All lines in order, about `size` bytes at a time; the lines do not depend on `size`.

        A chunk ends where a physical line ends. Only within a line longer than LONGEST it may end at a lone CR; then
        `lines` leaves that line out, and the next chunk has its number as `first_line`.
        """
        line = 1
        with closing(self._raw()) as raw:
            raw.fill(memoryview(bytearray(len(self._bom))))
            stream = _Stream(_recode(raw, self._encoding), self.name) if self._encoding else raw
            for data, end in blocks(stream, size):
                chunk = whole(data, end, line)
                line += chunk.lines
                yield chunk

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return bool(self._codec)

    def start(self, size: int) -> bytes:
        """The first bytes, decompressed, as they are."""
        block = bytearray(size)
        with closing(self._raw()) as raw:
            return bytes(block[: raw.fill(memoryview(block))])

    def stream(self) -> _Stream:
        """All bytes in order, decompressed, as they are: `fill` and `close`."""
        return self._raw()

    def hashed(self, digest: str) -> None:
        """Tell the digest, once all bytes have been hashed on their way: they need not be read again for it."""
        self._sha256 = digest

    @property
    def parts(self) -> tuple[Source, ...]:
        """The files that make up the log: this one."""
        return (self,)

    @property
    def path(self) -> str:
        """Where its bytes lie, compressed or not."""
        return self._path

    def _raw(self) -> _Stream:
        """The decompressed bytes."""
        if self._codec:
            return _Stream(self._decompress(), self.name)
        try:
            return _Stream(open(self._path, "rb", buffering=0), self.name, self._size)
        except OSError as err:
            raise cannot_open(self.name, err) from err

    def _decompress(self) -> Generator[bytes]:
        given = 0
        try:
            with closing(_decompressor(self._path, self._codec)) as file:
                while piece := file.read1(PIECE):
                    given += len(piece)
                    yield piece
            return
        except Exception as err:  # noqa: BLE001 (each codec has errors of its own)
            fault = err
        rest = b"" if isinstance(fault, EOFError) else _rest(self._path, self._codec, given)
        kept = given + len(rest)
        if not kept:
            raise InputError(f"nothing can be decompressed ({fault})", self.name, f"check it with {self._codec} -t")
        warning = f"{self._codec} data ends early or is damaged ({fault}): the first {kept} bytes of log were kept"
        if warning not in self.warnings:
            self.warnings.append(warning)
        yield rest


class Together(Source):
    """Several files as one log, such as the traces of the ranks of a run. What reads lines reads the first of them."""

    def __init__(self, name: str, parts: Sequence[Source]) -> None:
        super().__init__(name, parts[0]._path)
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[Source, ...]:
        """The files, in order."""
        return self._parts

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def size(self) -> int:
        return sum(part.size() for part in self._parts)

    def digest(self) -> str:
        """SHA-256 of the digests of the files, in their order."""
        import hashlib

        return hashlib.sha256("".join(part.digest() for part in self._parts).encode()).hexdigest()


class _Stream:
    """Bytes in order, from an unbuffered file or from pieces; at most `left` more."""

    def __init__(self, raw: io.FileIO | Generator[bytes], name: str, left: int = sys.maxsize) -> None:
        self.left = left
        self.close = raw.close
        self._readinto = raw.readinto if isinstance(raw, io.FileIO) else self._copy
        self._raw: Any = raw
        self._name = name
        self._rest = memoryview(b"")

    def fill(self, room: memoryview) -> int:
        """Fill `room`; less than its length only at the end."""
        room, got = room[: self.left], 0
        try:
            while got < len(room) and (n := self._readinto(room[got:])):
                got += n
        except OSError as err:
            raise InputError(f"cannot be read: {err.strerror or err}", self._name) from err
        self.left -= got
        return got

    def _copy(self, room: memoryview) -> int:
        while not self._rest and (piece := next(self._raw, None)) is not None:
            self._rest = memoryview(piece)
        n = min(len(room), len(self._rest))
        room[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


def _decompressor(path: str, codec: str) -> Any:
    if codec == "zstd" and sys.version_info < (3, 14):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(path), codec)
    return import_module(_MODULES[codec]).open(path)


def _rest(path: str, codec: str, given: int) -> bytes:
    """What stands between the first `given` bytes and a fault: the read that fails drops it, so byte by byte."""
    rest = bytearray()
    with suppress(Exception), closing(_decompressor(path, codec)) as file:
        while given and (piece := file.read1(min(given, PIECE))):
            given -= len(piece)
        while byte := file.read1(1):
            rest += byte
    return bytes(rest)


def _recode(stream: _Stream, encoding: str) -> Generator[bytes]:
    import codecs

    decoder, block = codecs.getincrementaldecoder(encoding)("replace"), memoryview(bytearray(PIECE))
    while got := stream.fill(block):
        yield decoder.decode(block[:got]).encode()
    yield decoder.decode(b"", True).encode()


def open_source(name: str) -> Source:
    """The log of that name: a path, "-" for stdin, or an http(s) URL. "#run" behind it is left out."""
    name = split_run(name)[0]
    files = unbraced(name)
    if len(files) > 1:
        return Together(name, [open_source(file) for file in files])
    if name == "-":
        return _spool(name, sys.stdin.buffer)
    if is_url(name):
        from http.client import HTTPException
        from urllib.request import urlopen

        try:
            reply = urlopen(name, timeout=60)
        except (OSError, HTTPException, ValueError) as err:
            raise InputError(f"cannot be fetched: {err}", name, "check the address") from err
        with reply:
            return _spool(name, reply, int(reply.headers.get("Content-Length") or 0))
    try:
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise InputError("this is a folder, not a log", name, "name a log in it")
        if stat.S_ISREG(mode):
            return Source(name, name)
        with open(name, "rb") as pipe:  # it can be read only once
            return _spool(name, pipe)
    except OSError as err:
        raise cannot_open(name, err) from err


def _spool(name: str, file: Any, expected: int = 0) -> Source:
    """All of `file` in a temporary file, because a log is read twice."""
    import tempfile

    path, got = "", 0
    try:
        handle, path = tempfile.mkstemp(prefix="perflog-")
        with open(handle, "wb") as spool:
            while True:
                try:
                    block = file.read(1 << 20)
                except Exception as err:  # http.client has errors of its own
                    raise InputError(f"cannot be read to its end: {err}", name) from err
                if not block:
                    break
                got += spool.write(block)
        if got < expected:
            raise InputError(f"ended after {got} of {expected} bytes", name, "fetch it again")
        return Source(name, path, spooled=True)
    except BaseException as err:
        _unlink(path)
        if isinstance(err, OSError):
            help = "set TMPDIR to a folder with more room"
            raise InputError(f"cannot be kept in a temporary file: {err.strerror or err}", name, help) from err
        raise


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
