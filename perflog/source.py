"""Bytes in: a path, stdin or a URL, compressed or not, as chunks of whole clean lines."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from perflog.errors import InputError

CHUNK = 8 << 20
"""Bytes of log per chunk."""
LONGEST = 1 << 20
"""A longer segment is cut: only its first `KEPT` bytes are given, and it is never matched."""
KEPT = 64 << 10
"""Bytes given of a segment that is cut."""
SLACK = 64
"""Zero bytes after a chunk's last byte, so that 8-byte words can be gathered at its end."""

_PIECE = 64 << 10
_MAGIC = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),  # second: a skippable frame, as pzstd writes
    (re.compile(rb"\xfd7zXZ\0"), "xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
)
_MODULES = {"gzip": "gzip", "zstd": "compression.zstd", "xz": "lzma", "bzip2": "bz2"}
_BOMS = ((b"\xef\xbb\xbf", ""), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_NO_LOG = frozenset(".py .so .pt .pth .bin .safetensors .png .jpg .parquet .npz .npy .pyc .o .a .zip .tar".split())

# Bounded, so that a sequence that never ends holds back no more than _ESCAPE_MAX bytes.
_CSI, _OSC, _OTHER = rb"\[[0-?]{0,64}[ -/]{0,8}", rb"\][^\x07\x1b\r\n]{0,4096}", rb"[ -/]{0,8}"
_ESCAPE = re.compile(rb"\x1b(?:%s[@-~]|%s(?:\x07|\x1b\\)|%s[0-~])?" % (_CSI, _OSC, _OTHER))
_ESCAPE_BEGUN = re.compile(rb"\x1b(?:%s|%s\x1b?|%s)\Z" % (_CSI, _OSC, _OTHER))
_ESCAPE_MAX = 4096 + 8
_RETURNS = re.compile(rb"\r+")


@dataclass(slots=True)
class Chunk:
    """Whole lines of a log."""

    data: bytearray  # data[:size] are lines, each ended by b"\n"; data[size : size + SLACK] is zero
    size: int
    first_line: int  # number of its first physical line, from 1
    lines: int  # physical lines in it
    returns: list[int]  # offsets of each b"\n" that stands for lone CRs: it ends a segment, not a physical line
    cut: list[int]  # offsets of the starts of segments that were cut


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
            raise _cannot_open(name, err) from err
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
            for data, end in _blocks(stream, size):
                chunk = _chunk(data, end, line)
                line += chunk.lines
                yield chunk

    def _raw(self) -> _Stream:
        """The decompressed bytes."""
        if self._codec:
            return _Stream(self._decompress(), self.name)
        try:
            return _Stream(open(self._path, "rb", buffering=0), self.name, self._size)
        except OSError as err:
            raise _cannot_open(self.name, err) from err

    def _decompress(self) -> Generator[bytes]:
        given = 0
        try:
            with closing(_decompressor(self._path, self._codec)) as file:
                while piece := file.read1(_PIECE):
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
        while given and (piece := file.read1(min(given, _PIECE))):
            given -= len(piece)
        while byte := file.read1(1):
            rest += byte
    return bytes(rest)


def _recode(stream: _Stream, encoding: str) -> Generator[bytes]:
    import codecs

    decoder, block = codecs.getincrementaldecoder(encoding)("replace"), memoryview(bytearray(_PIECE))
    while got := stream.fill(block):
        yield decoder.decode(block[:got]).encode()
    yield decoder.decode(b"", True).encode()


class _Cleaner:
    """Takes out NUL bytes, escape sequences and all CRs but one for each run of lone ones."""

    def __init__(self) -> None:
        self.skipping = False  # within a segment of which enough is known
        self.held = b""  # what only the next bytes can decide: a CR, the begin of an escape sequence

    def clean(self, raw: bytearray, last: bool) -> bytes:
        """`raw` cleaned; it does not end with a CR."""
        text, self.held = self.held + raw.replace(b"\0", b""), b""
        if b"\x1b" in text:
            if not last and (begun := _ESCAPE_BEGUN.search(text, max(0, len(text) - _ESCAPE_MAX))):
                text, self.held = text[: begun.start()], begun[0]
            text = _ESCAPE.sub(b"", text)
        if b"\r" in text:
            text = _RETURNS.sub(b"\r", text).replace(b"\r\n", b"\n")
            if text.endswith(b"\r"):
                text, self.held = text[:-1], b"" if last else b"\r" + self.held
        if self.skipping:
            end = re.search(rb"[\r\n]", text)
            text, self.skipping = text[end.start() if end else len(text) :], not end
        return text


def _blocks(stream: _Stream, size: int) -> Iterator[tuple[bytearray, int]]:
    """Cleaned data[:end], ended by LF, or by CR within a long line; SLACK + 1 bytes of room and more follow."""
    cleaner, tail, last = _Cleaner(), bytearray(), False
    while not last:
        begin, room = len(tail), min(size, stream.left)
        data = bytearray(begin + room + 1 + SLACK)
        data[:begin] = tail
        with memoryview(data) as view:
            got = stream.fill(view[begin : begin + room])
        last, filled = got < size, begin + got
        if cleaner.held or cleaner.skipping or any(data.find(mark, begin, filled) >= 0 for mark in b"\r\x1b\0"):
            starts = range(begin, max(filled, begin + 1), _PIECE)  # by pieces: a substitution takes room per match
            ends = [*starts[1:], filled]
            data[begin:] = b"".join(
                [cleaner.clean(data[a:b], last and b == filled) for a, b in zip(starts, ends, strict=True)]
            )
            filled = len(data)
            data += bytes(1 + SLACK)
        if last and filled and data[filled - 1] != 10:
            data[filled] = 10
            filled += 1
        end = data.rfind(b"\n", 0, filled) + 1
        if filled - end > LONGEST:
            end = max(end, data.rfind(b"\r", end, filled) + 1)
        cleaner.skipping = filled - end > LONGEST
        tail = data[end : min(filled, end + LONGEST + 1)]  # one more than LONGEST shows that it is to be cut
        if end:
            yield data, end


def _chunk(data: bytearray, end: int, line: int) -> Chunk:
    import numpy as np  # counts newlines ten times as fast as bytearray.count

    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8, end) == 10))
    data[end : end + SLACK] = bytes(SLACK)
    returns: list[int] = []
    if data.find(b"\r", 0, end) >= 0:
        returns = [match.start() for match in _RETURNS.finditer(data, 0, end)]
        for at in returns:
            data[at] = 10
    long, start = [], 0
    while end - start > LONGEST:
        stop = data.rfind(b"\n", start, start + LONGEST + 1)
        if stop < 0:
            stop = data.index(b"\n", start)
            long.append((start, stop))
        start = stop + 1
    cut: list[int] = []
    for start, stop in reversed(long):
        less = stop - start - KEPT
        del data[start + KEPT : stop]
        end -= less
        returns = [at - less if at >= stop else at for at in returns]
        cut = [start, *(at - less for at in cut)]
    return Chunk(data, end, line, lines, returns, cut)


def open_source(name: str) -> Source:
    """The log of that name: a path, "-" for stdin, or an http(s) URL. "#run" behind it is left out."""
    name = split_run(name)[0]
    if name == "-":
        return _spool(name, sys.stdin.buffer)
    if _is_url(name):
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
        raise _cannot_open(name, err) from err


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


def _cannot_open(name: str, err: OSError) -> InputError:
    if not isinstance(err, FileNotFoundError):
        return InputError(f"cannot be opened: {err.strerror or err}", name, "check its permissions")
    import difflib

    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, os.listdir(folder or "."), 1)
    except OSError:
        return InputError("no such file", name, f"there is no folder {folder}")
    help = f"did you mean {os.path.join(folder, near[0])}?" if near else "check the name"
    return InputError("no such file", name, help)


def _is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def split_run(name: str) -> tuple[str, str]:
    """Name of the log, and the run that "#run" selects; a file whose name holds "#" is that file."""
    if "#" not in name or os.path.exists(name):
        return name, ""
    log, _, run = name.rpartition("#")
    return log, run


def expand(names: Sequence[str]) -> list[str]:
    """The logs that are meant, in order: a glob or a folder becomes its sorted files, all else stays as it is."""
    logs: list[str] = []
    for name in names:
        log, run = split_run(name)
        if os.path.isdir(log):
            found = _walk(log)
        elif _is_url(log) or os.path.exists(log) or not re.search(r"[*?[]", log):
            found = [log]
        else:
            import glob

            found = sorted(path for path in glob.glob(log, recursive=True) if not os.path.isdir(path))
            if not found:
                raise InputError("no file matches", log, "check the pattern; folders and hidden files do not count")
        logs += [f"{path}#{run}" if run else path for path in found]
    return logs


def _walk(folder: str) -> list[str]:
    def refuse(err: OSError) -> None:
        raise _cannot_open(str(err.filename), err)

    found = []
    for path, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            os.path.join(path, name)
            for name in files
            if not name.startswith(".") and os.path.splitext(name)[1].lower() not in _NO_LOG
        ]
    if not found:
        raise InputError("no logs in this folder", folder, "hidden files and files like .py, .pt or .png do not count")
    return sorted(found)
