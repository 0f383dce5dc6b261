"""A log as bytes and as chunks of whole, clean lines: from a file, standard input or an address, compressed or not."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property, partial
from itertools import chain
from typing import Any, BinaryIO

from perflog.errors import InputError
from perflog.files import temporary
from perflog.files.remote import download, is_remote, shown
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.chunks import CHUNK, PIECE, SLACK, Chunk, clean_blocks, to_chunk
from perflog.parsing.input.compression import codec_of, decompressor
from perflog.parsing.input.containers import holds_records, unwrapped
from perflog.parsing.input.dict_blocks import has_dicts, joined_dicts
from perflog.parsing.input.emphasis import has_emphasis, without_emphasis
from perflog.parsing.input.indents import comment_mark_of, indent_of, without_indent
from perflog.parsing.input.json_documents import HEAD, as_records, is_document, lines_above
from perflog.parsing.input.limits import MOST_UNPACKED, check_stream, check_unpacked
from perflog.parsing.input.log_names import STDIN, LogName, cannot_open, is_of_kernel
from perflog.parsing.input.logger_blocks import has_blocks, joined_blocks
from perflog.parsing.input.name_prefixes import name_prefixes
from perflog.parsing.input.notebooks import is_notebook, outputs
from perflog.parsing.input.panels import has_panels, joined_panels
from perflog.parsing.input.process_files import HEAD as HEAD_OF_PROCESS
from perflog.parsing.input.process_files import labels_of_processes
from perflog.parsing.input.rank_names import are_divided, label_of_file, printed_ranks
from perflog.parsing.input.stamped_lines import are_stamped, without_stamps

_BOMS = ((b"\xef\xbb\xbf", ""), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

_CONTROL = bytes(b for b in range(128) if b < 9 or 13 < b < 27 or 27 < b < 32 or b == 127)
"""Characters of no log: all control characters but whitespace, line ends and the escape of a terminal."""

ProgramLines = Callable[[Iterator[bytes]], Generator[bytes]]

_LABELLED = lazy_pattern(
    rb"^ *(?:\[(?:rank|default|[Rr]ank[ :=])[0-9]+\]|\[[0-9]+,[0-9]+\]<std|[0-9]{1,6}: )", re.MULTILINE
)
_NAMED = lazy_pattern(rb"^\[pod/", re.MULTILINE)
_DELIMITERS = ((".csv", b";"), (".csv", b","), (".tsv", b"\t"))  # of tables, by the ending of a name
_HEAD_OF_RANKS = 1 << 16  # bytes of a file in which all of its ranks print
_HEAD_OF_LABELS = 1 << 14  # bytes of a file in which it is looked for


class Source:
    """One log in one file, which can be read again and again.

    `name` is the log as the user named it, without the run. `path` is where its bytes are: the same file, or a spill
    file, which `close` removes. Of a log that grows, only the first `size` bytes are read. `is_document`: it is a
    document about logs that was found in a folder, and nobody named it.
    """

    is_document = False
    _may_be_whole = True  # the bytes that are there now

    def __init__(self, name: str, path: str, is_spill_file: bool = False, size: int | None = None) -> None:
        self.name = name
        self.path = path
        self.warnings: list[str] = []
        self._sha256 = ""
        self._length: int | None = None
        try:
            with open(path, "rb") as file:
                magic = file.read(16)
                # A log still being written is read up to here: every reading must see the same bytes.
                self._size = (os.fstat(file.fileno()).st_size if size is None else size) or sys.maxsize
        except OSError as err:
            raise cannot_open(name, err) from err
        self._codec = codec_of(magic)
        start = self.first_bytes(3) if self._codec else magic
        self._bom, self._encoding = next(((b, e) for b, e in _BOMS if start.startswith(b)), (b"", ""))
        self._remove = weakref.finalize(self, _unlink, path) if is_spill_file else None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the spill file, if there is one."""
        if self._remove:
            self._remove()

    def looks_binary(self) -> bool:
        """Whether the first bytes look binary: more than a tenth of them are control characters."""
        start = self.first_bytes(1 << 13)
        control = len(start) - len(start.translate(None, _CONTROL))
        return not self._encoding and control * 10 > len(start)

    def size(self) -> int:
        """Return the size of the file in bytes; of a compressed one, its compressed size."""
        return self._size

    def digest(self) -> str:
        """Return the SHA-256 of the decompressed bytes, before any cleaning."""
        if not self._sha256:
            import hashlib

            sha, length = hashlib.sha256(), 0
            for block in self.blocks():
                sha.update(block)
                length += len(block)
            self._sha256, self._length = sha.hexdigest(), length
        return self._sha256

    def length(self) -> int | None:
        """Return the number of decompressed bytes that were hashed; None if a reader set the digest without it."""
        self.digest()
        return self._length

    def blocks(self) -> Generator[memoryview]:
        """Yield all bytes in order, decompressed, not cleaned. A block lasts until the next one is asked for."""
        block = memoryview(bytearray(1 << 20))
        with closing(self.stream()) as stream:
            while count := stream.fill(block):
                yield block[:count]

    def digests_of_first(self, sizes: Iterable[int]) -> dict[int, str]:
        """Return the SHA-256 of the first bytes, decompressed, for several numbers of bytes. The log has as many."""
        import hashlib

        sha, block, done = hashlib.sha256(), memoryview(bytearray(1 << 20)), 0
        digests: dict[int, str] = {}
        with closing(self.stream()) as stream:
            for size in sorted(set(sizes)):
                while done < size and (count := stream.fill(block[: size - done])):
                    sha.update(block[:count])
                    done += count
                digests[size] = sha.hexdigest()
        return digests

    def head(self, size: int = 1 << 20) -> Chunk:
        """Return the first lines, about `size` bytes, as one chunk; an empty log gives an empty chunk."""
        with closing(self.chunks(size)) as chunks:
            return next(chunks, Chunk(bytearray(SLACK), 0, 1, 0, [], []))

    def chunks(self, size: int = CHUNK) -> Generator[Chunk]:
        """Yield all lines in order, about `size` bytes at a time. The lines do not depend on `size`.

        A chunk ends where a physical line ends. Within a line longer than LONGEST it may also end at a lone CR; then
        `lines` does not count that line, and the next chunk has its number as `first_line`.
        """
        line = 1
        with self.text() as utf8:
            for data, end, is_last, is_unfinished in clean_blocks(utf8, size):
                chunk = to_chunk(data, end, line, is_last, is_unfinished)
                line += chunk.lines
                yield chunk

    @contextmanager
    def text(self) -> Iterator[ByteStream]:
        """Give the lines as UTF-8, not cleaned: without the records of a container runtime or of JSON around them."""
        with closing(self.stream()) as stream:
            stream.fill(memoryview(bytearray(len(self._bom))))
            utf8 = ByteStream(_recode(stream, self._encoding), self.name) if self._encoding else stream
            if self._program_lines is not None:
                utf8 = ByteStream(self._program_lines(blocks_of(utf8)), self.name)
            yield utf8

    @cached_property
    def _program_lines(self) -> ProgramLines | None:
        """What makes the lines of programs of the blocks of the file; None if its lines are theirs."""
        if self._encoding:
            return None
        first = self.first_bytes(HEAD)
        head = first[len(self._bom) :]
        if holds_records(head):  # of a container runtime
            return unwrapped
        if (names := name_prefixes(head)) is not None:  # that a launcher puts before the lines
            return partial(_joined_after, names.labelled) if names.stays else names.labelled
        if is_notebook(head):
            return outputs
        is_whole = self._may_be_whole and len(first) < HEAD
        if is_document(head, is_whole):
            return as_records
        if is_whole and (above := lines_above(head)):
            return partial(as_records, above=above)
        return _rewritten(head)

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed."""
        return bool(self._codec)

    def first_bytes(self, size: int) -> bytes:
        """Return the first bytes, decompressed, not cleaned."""
        block = bytearray(size)
        with closing(self.stream()) as stream:
            return bytes(block[: stream.fill(memoryview(block))])

    def last_bytes(self, size: int) -> bytes:
        """Return the last bytes of a plain file; nothing of a compressed one, which would be read as a whole for it."""
        if self._codec:
            return b""
        with open(self.path, "rb") as file:
            file.seek(max(0, self._size - size))
            return file.read(min(size, self._size))

    def set_digest(self, digest: str) -> None:
        """Set the digest, for a reader that hashed all bytes while it read them: they need not be read again."""
        self._sha256 = digest
        self._length = None if self._codec or self._size == sys.maxsize else self._size

    @property
    def parts(self) -> tuple[Source, ...]:
        """The files of the log: this one."""
        return (self,)

    def stream(self) -> ByteStream:
        """Return all bytes in order, decompressed, not cleaned."""
        if self._codec:
            return ByteStream(self._decompress(), self.name)
        try:
            return ByteStream(open(self.path, "rb", buffering=0), self.name, self._size)
        except OSError as err:
            raise cannot_open(self.name, err) from err

    def _decompress(self) -> Generator[bytes]:
        count = 0
        try:
            with closing(decompressor(self.path, self._codec)) as file:
                while block := file.read1(PIECE):
                    count += len(block)
                    if count > MOST_UNPACKED:
                        check_unpacked(count, self._size, self.name)
                    yield block
            return
        except InputError:
            raise
        except Exception as err:  # noqa: BLE001 (each codec has errors of its own)
            fault = err
        tail = b"" if isinstance(fault, EOFError) else _bytes_before_fault(self.path, self._codec, count)
        bytes_read = count + len(tail)
        if not bytes_read:
            raise InputError(f"nothing can be decompressed ({fault})", self.name, f"check it with {self._codec} -t")
        warning = (
            f"{self._codec} data ends early or is damaged ({fault}): the first {bytes_read} bytes of log were kept"
        )
        if warning not in self.warnings:
            self.warnings.append(warning)
        yield tail


def _joined_after(lines: ProgramLines, blocks: Iterator[bytes]) -> Generator[bytes]:
    """Yield the blocks with the lines of a program, and each dict on one line."""
    return joined_dicts(lines(blocks))


class JoinedSource(Source):
    """Several files as one log: the traces of the ranks of a run, or the logs that the programs of a job print.

    The lines of all files follow one another and are numbered through. If the name of a file states a rank, its lines
    have that rank label, or if it is a table a column with it. If it distinguishes a process, they have the label of a
    pod. Methods that read bytes read the first file.
    """

    def __init__(self, name: str, parts: Sequence[Source]) -> None:
        super().__init__(name, parts[0].path)
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[Source, ...]:
        """The files, in order."""
        return self._parts

    @property
    def is_by_rank(self) -> bool:
        """Whether the lines of each rank, or node, are in one file, as their names or their first lines show."""
        if all(self._file_labels):
            return True
        return are_divided([printed_ranks(part.first_bytes(_HEAD_OF_RANKS)) for part in self._parts])

    @cached_property
    def _file_labels(self) -> Sequence[bytes]:
        """The label of the lines of each file; empty where its name states nothing."""
        names = [part.name for part in self._parts]
        labels = list(map(label_of_file, names))
        if any(label[:5] != b"[pod/" for label in labels if label) or len(set(labels)) == len(labels):
            return labels  # of ranks, or of nodes that print one file each
        return labels_of_processes(names, (part.first_bytes(HEAD_OF_PROCESS) for part in self._parts)) or labels

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def size(self) -> int:
        return sum(part.size() for part in self._parts)

    @contextmanager
    def text(self) -> Iterator[ByteStream]:
        with closing(self._texts()) as texts:
            yield ByteStream(texts, self.name)

    def _texts(self) -> Generator[bytes]:
        for part, label in zip(self._parts, self._file_labels, strict=True):
            with part.text() as text:
                blocks = blocks_of(text)
                first = next(blocks, b"")
                known = _NAMED if label.startswith(b"[pod/") else _LABELLED
                head = first[:_HEAD_OF_LABELS]
                if 2 * len(known.findall(head)) > head.count(b"\n"):  # a traceback alone may have labels
                    label = b""
                if first:
                    labels = _labels(part.name, label, first.partition(b"\n")[0])
                    yield from _with_label(chain([first], blocks), *labels)

    def digest(self) -> str:
        """Return the SHA-256 of the digests of the files, in their order."""
        import hashlib

        return hashlib.sha256("".join(part.digest() for part in self._parts).encode()).hexdigest()


def _labels(name: str, label: bytes, header: bytes) -> tuple[bytes, bytes]:
    """Return what precedes the first line of a file, and each other line: of a table, a column with the rank.

    Args:
        name: The name of the file.
        label: The label of its lines.
        header: The first line.
    """
    delimiter = next((mark for ending, mark in _DELIMITERS if name.endswith(ending) and mark in header), None)
    cells = [cell.strip().strip(b'"').lower() for cell in header.split(delimiter)] if delimiter else []
    if delimiter is None or not label.startswith(b"[rank") or any(cell[:1].isdigit() for cell in cells):
        return label, label
    return (b"", b"") if b"rank" in cells else (b"rank" + delimiter, label[5:-2] + delimiter)


def _with_label(blocks: Iterable[bytes], first: bytes, label: bytes) -> Generator[bytes]:
    """Yield lines with a label before each, `first` before the first; the last one ends with LF."""
    is_start, begin = True, first
    for block in blocks:
        ends = block.endswith(b"\n")
        body = block[:-1] if ends else block
        yield begin * is_start + body.replace(b"\n", b"\n" + label) + b"\n" * ends
        is_start, begin = ends, label
    if not is_start:
        yield b"\n"


class ByteStream:
    """Bytes in order, from an unbuffered file or from a generator of blocks; at most `left` more."""

    def __init__(self, raw: io.FileIO | Generator[bytes], name: str, left: int = sys.maxsize) -> None:
        self.left = left
        self.close = raw.close
        self._readinto = raw.readinto if isinstance(raw, io.FileIO) else self._copy
        self._raw: Any = raw
        self._name = name
        self._block = memoryview(b"")  # what is left of the generator's last block

    def fill(self, room: memoryview) -> int:
        """Fill `room` and return the number of bytes, which is less than its length only at the end."""
        room, filled = room[: self.left], 0
        try:
            while filled < len(room) and (count := self._readinto(room[filled:])):
                filled += count
        except OSError as err:
            raise InputError(f"cannot be read: {err.strerror or err}", self._name) from err
        self.left -= filled
        return filled

    def _copy(self, room: memoryview) -> int:
        while not self._block and (block := next(self._raw, None)) is not None:
            self._block = memoryview(block)
        count = min(len(room), len(self._block))
        room[:count], self._block = self._block[:count], self._block[count:]
        return count


def _bytes_before_fault(path: str, codec: str, skip: int) -> bytes:
    """The decompressed bytes between the first `skip` and the fault.

    A read that fails drops the bytes that it had decompressed before the fault, so these are read one by one.
    """
    tail = bytearray()
    with suppress(Exception), closing(decompressor(path, codec)) as file:
        while skip and (block := file.read1(min(skip, PIECE))):
            skip -= len(block)
        while byte := file.read1(1):
            tail += byte
    return bytes(tail)


def blocks_of(stream: ByteStream) -> Generator[bytes]:
    """The bytes of a stream, block by block."""
    block = memoryview(bytearray(PIECE))
    while count := stream.fill(block):
        yield bytes(block[:count])


def _recode(stream: ByteStream, encoding: str) -> Generator[bytes]:
    """The bytes of a stream in another encoding, as UTF-8."""
    import codecs

    decoder, block = codecs.getincrementaldecoder(encoding)("replace"), memoryview(bytearray(PIECE))
    while count := stream.fill(block):
        yield decoder.decode(block[:count]).encode()
    yield decoder.decode(b"", True).encode()


def open_source(name: LogName | str) -> Source:
    """Open a log: files, standard input, or an address (its file is copied first). The run asked for plays no part.

    Raises:
        InputError: It cannot be opened, fetched or kept.
    """
    name = LogName.parse(name) if isinstance(name, str) else name
    if len(name.files) > 1:
        return JoinedSource(shown(name.log), [_open(file) for file in name.files])
    source = _open(name.log)
    source.is_document = name.is_found_document
    return source


def open_beginning(name: LogName, data: bytes) -> Source:
    """Return the beginning of a log, which was fetched from elsewhere, as a log."""
    return _spill(name.log, io.BytesIO(data))


def _open(name: str) -> Source:
    if name == STDIN:
        return _spill(name, sys.stdin.buffer)
    if is_remote(name):
        return _kept(shown(name), partial(download, name, check=partial(check_stream, name=shown(name))))
    path = unpacked_path(name)
    try:
        status = os.stat(path)
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            raise InputError("this is a folder, not a log", name, "name a log in it")
        if stat.S_ISREG(mode) and not is_of_kernel(status):
            return Source(name, path)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("this is a device, not a log", name, "name a file, or - for standard input")
        with open(name, "rb") as pipe:  # it can be read only once
            return _spill(name, pipe)
    except OSError as err:
        raise cannot_open(name, err) from err


def _spill(name: str, stream: Any) -> Source:
    """Copy a stream into a temporary spill file: a log is read twice, a stream only once."""

    def copy(spill_file: BinaryIO, _: str) -> None:
        size = 0
        while True:
            try:
                block = stream.read(1 << 20)
            except Exception as err:  # a stream has errors of its own
                raise InputError(f"cannot be read to its end: {err}", name) from err
            if not block:
                return
            size += len(block)
            check_stream(size, name)
            spill_file.write(block)

    return _kept(name, copy)


def _kept(name: str, copy: Callable[[BinaryIO, str], None]) -> Source:
    """Return a log from a temporary spill file. `copy` writes the bytes into it, given the open file and its path."""
    import tempfile

    path = ""
    try:
        handle, path = tempfile.mkstemp(dir=temporary.folder())
        with open(handle, "wb") as spill_file:
            copy(spill_file, path)
        return Source(name, path, is_spill_file=True)
    except BaseException as err:
        _unlink(path)
        if isinstance(err, OSError):
            reason = f"cannot be kept in a temporary file: {err.strerror or err}"
            raise InputError(reason, name, temporary.MORE_ROOM) from err
        raise


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _rewritten(head: bytes) -> ProgramLines | None:
    """Return what makes lines of the lines of a log whose beginnings are not the program's, given its first bytes."""
    if has_blocks(head):
        return joined_blocks
    if has_panels(head):
        return joined_panels
    if are_stamped(head):  # by a CI system or a collector
        return without_stamps
    if indent := indent_of(head) or comment_mark_of(head):
        return partial(without_indent, indent)
    if has_emphasis(head):
        return without_emphasis
    return joined_dicts if has_dicts(head) else None
