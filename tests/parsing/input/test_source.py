"""A log gives the same lines whatever the chunk size, the compression, or where it comes from."""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import http.server
import io
import itertools
import lzma
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input import chunks, source
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.input.source import JoinedSource, Source, open_source

Write = Callable[..., str]
Segment = tuple[int, bytes, bool, bool]  # line, text, ended by a lone CR, cut

ESCAPE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(\x07|\x1b\\)|[ -/]*[0-~])?")
PIECES = [
    *[bytes([byte]) for byte in b"ab3;\r\n\0\x1b\x07\\[](m \xff\xfe"],
    b"\r\n",
    b"\r\r\n",
    b"\x1b[31m",
    b"\x1b[K",
    b"\x1b]0;t\x07",
    b"\x1b]8;;u\x1b\\",
    b"\xef\xbb\xbf",
    b"abcdefghijkl",
    "é€".encode(),
    "\u2212".encode(),
    "\u22123".encode(),
    *[bytes([byte]) for byte in "\u2212".encode()],
]
RAW = st.builds(
    lambda bom, pieces: bom + b"".join(pieces),
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
    st.lists(st.sampled_from(PIECES), max_size=40),
)
NOISE = b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() + b"\n" for n in range(20_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


@cache
def packed_noise(how: str) -> bytes:
    return COMPRESS[how](NOISE)


def reference(raw: bytes) -> list[Segment]:
    if raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
    elif raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raw = raw[2:].decode("utf-16-le" if raw[0] == 0xFF else "utf-16-be", "replace").encode()
    text = ESCAPE.sub(b"", raw.replace(b"\0", b""))
    text = re.sub(rb"\xe2\x88\x92(?=[0-9.])", b"-", text).rstrip(b"\r")  # the minus sign of a number
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    found = []
    for number, line in enumerate(lines, 1):
        segments = re.split(rb"\r+", line.rstrip(b"\r"))
        for k, segment in enumerate(segments):
            cut = len(segment) > chunks.LONGEST
            found.append((number, segment[: chunks.KEPT] if cut else segment, k < len(segments) - 1, cut))
    return found


def read(log: Source, size: int = chunks.CHUNK) -> list[Segment]:
    """The segments of a log. Checks the promises of each chunk on the way."""
    found: list[Segment] = []
    line = 1
    for chunk in log.chunks(size):
        data, end = bytes(chunk.data), chunk.size
        assert end and data[end - 1 : end] == b"\n"
        assert data[end : end + SLACK] == bytes(SLACK)
        assert not set(data[:end]) & set(b"\0\r\x1b")
        assert chunk.first_line == line
        assert chunk.lines == data.count(b"\n", 0, end) - len(chunk.returns)
        at, returns, cuts = 0, set(chunk.returns), set(chunk.cut)
        assert [*sorted(returns)] == chunk.returns and [*sorted(cuts)] == chunk.cut
        for text in data[: end - 1].split(b"\n"):
            stop = at + len(text)
            found.append((line, text, stop in returns, at in cuts))
            line += stop not in returns
            returns.discard(stop)
            cuts.discard(at)
            at = stop + 1
        assert not returns and not cuts
        assert line == chunk.first_line + chunk.lines
    return found


def texts(log: Source) -> list[bytes]:
    return [text for _, text, _, _ in read(log)]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(raw: bytes, name: str = "run.txt") -> str:
        path = tmp_path / name
        path.write_bytes(raw)
        return str(path)

    return write


@pytest.fixture
def spill_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "spill_folder"
    folder.mkdir()
    monkeypatch.setattr(temporary._Folder, "path", str(folder))
    monkeypatch.setattr(temporary._Folder, "owner", 0)
    return folder


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits so that small examples reach them."""
    monkeypatch.setattr(chunks, "LONGEST", 8)
    monkeypatch.setattr(chunks, "KEPT", 3)
    monkeypatch.setattr(chunks, "PIECE", 5)
    monkeypatch.setattr(source, "PIECE", 5)


def stdin(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))


# What the lines are


@examples(400, shares_fixtures=True)
@given(raw=RAW, size=st.integers(1, 70), other=st.integers(1, 70))
def test_any_bytes_and_any_chunk_size_give_the_lines_of_the_reference(
    raw: bytes, size: int, other: int, short: None, tmp_path: Path
) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(raw)
    with open_source(str(path)) as log:
        expected = reference(raw)
        assert read(log, size) == expected
        assert read(log, other) == expected
        assert log.warnings == []
        assert log.digest() == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("size", range(1, 9))
def test_the_minus_sign_of_a_number_is_a_hyphen_also_where_a_read_cuts_it(write: Write, size: int) -> None:
    log = open_source(write("\u22125 x\u2212y \u2212.5\nz \u2212".encode()))
    assert [text.decode() for _, text, _, _ in read(log, size)] == ["-5 x\u2212y -.5", "z \u2212"]


@examples(100, shares_fixtures=True)
@given(raw=RAW, size=st.integers(1, 70), how=st.sampled_from(sorted(COMPRESS)))
def test_compressed_logs_read_like_plain_ones(raw: bytes, size: int, how: str, short: None, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(COMPRESS[how](raw))
    with open_source(str(path)) as log:
        assert read(log, size) == reference(raw)
        assert log.digest() == hashlib.sha256(raw).hexdigest()
        assert log.warnings == []


@examples(200, shares_fixtures=True)
@given(raw=RAW, size=st.integers(1, 40))
def test_a_chunk_ends_at_a_cr_only_within_a_long_line(raw: bytes, size: int, short: None, tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(raw)
    length: dict[int, int] = {}
    for number, text, _, cut in read(open_source(str(path))):
        length[number] = length.get(number, 0) + (chunks.LONGEST if cut else len(text)) + 1
    for chunk in open_source(str(path)).chunks(size):
        if chunk.returns and chunk.returns[-1] == chunk.size - 1:
            assert length[chunk.first_line + chunk.lines] > chunks.LONGEST


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a\nb\n", [(1, b"a", False, False), (2, b"b", False, False)]),
        (b"a\nb", [(1, b"a", False, False), (2, b"b", False, False)]),
        (b"a\r\nb\r\n", [(1, b"a", False, False), (2, b"b", False, False)]),
        (b"a\r\r\nb\n", [(1, b"a", False, False), (2, b"b", False, False)]),
        (b"\n\nc\n", [(1, b"", False, False), (2, b"", False, False), (3, b"c", False, False)]),
        (b"0%\r50%\r100%\nb\n", [(1, b"0%", True, False), (1, b"50%", True, False), (1, b"100%", False, False),
                                 (2, b"b", False, False)]),
        (b"a\rb\r", [(1, b"a", True, False), (1, b"b", False, False)]),
        (b"\x1b[1;31mloss\x1b[0m 3\r\x1b[K\nb", [(1, b"loss 3", False, False), (2, b"b", False, False)]),
        (b"\x1b]0;title\x07a\x1b(B\x1b[m\x1b]8;;http://u\x1b\\b\n", [(1, b"ab", False, False)]),
        (b"a\0\0b\n\0\0\0", [(1, b"ab", False, False)]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [(1, b"a", False, False), (2, b"\xef\xbb\xbfb", False, False)]),
        (b"caf\xe9\n", [(1, b"caf\xe9", False, False)]),
    ],
    ids=["LF", "no final LF", "CRLF", "CR CR LF", "empty lines", "lone CR", "CR at the end", "colour", "title and link",
         "NUL", "byte order mark", "not UTF-8"],
)  # fmt: skip
def test_line_ends_colour_and_marks(write: Write, raw: bytes, expected: list[Segment]) -> None:
    assert read(open_source(write(raw))) == expected == reference(raw)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_utf16_with_a_byte_order_mark_becomes_utf8(write: Write, encoding: str, size: int) -> None:
    text = "\ufeffloss 3 ✓ 𝄞\r\nstep 2\r\n"
    found = [text for _, text, _, _ in read(open_source(write(text.encode(encoding))), size)]
    assert found == ["loss 3 ✓ 𝄞".encode(), b"step 2"]


def test_line_numbers_are_those_of_sed(write: Write) -> None:
    path = write(b"a\r\n\x1b[2Jb\r\rc\n\0\nlast")
    for number, _, _, _ in read(open_source(path)):
        assert subprocess.run(["sed", "-n", f"{number}p", path], capture_output=True, check=True).stdout


def test_an_empty_log_has_no_chunks_and_an_empty_head(write: Write) -> None:
    log = open_source(write(b""))
    assert list(log.chunks()) == []
    head = log.head()
    assert (head.size, head.first_line, head.lines, bytes(head.data)) == (0, 1, 0, bytes(SLACK))
    assert log.digest() == hashlib.sha256(b"").hexdigest()


def test_the_head_is_the_first_chunk(write: Write) -> None:
    log = open_source(write(b"".join(b"line %d\n" % n for n in range(1000))))
    head = log.head(100)
    assert head == next(iter(log.chunks(100)))
    assert bytes(head.data[: head.size]).endswith(b"\nline 12\n")


def test_chunks_are_about_the_size_that_was_asked_for(write: Write) -> None:
    log = open_source(write(b"0123456789\n" * 100_000))
    sizes = [chunk.size for chunk in log.chunks(1 << 16)]
    assert all((1 << 16) - 11 <= size <= (1 << 16) + 11 for size in sizes[:-1])


def test_a_log_that_grows_is_read_as_it_was_when_opened(write: Write) -> None:
    path = write(b"a\nb")
    log = open_source(path)
    before = read(log)
    with open(path, "ab") as file:
        file.write(b"c\nd\n")
    assert read(log) == before
    assert log.digest() == hashlib.sha256(b"a\nb").hexdigest()


# Long lines


def test_only_a_segment_longer_than_the_limit_is_cut(write: Write) -> None:
    limit, kept = chunks.LONGEST, chunks.KEPT
    raw = b"a\n" + b"x" * limit + b"\n" + b"y" * (limit + 1) + b"\rz\nb\n"
    log = open_source(write(raw))
    expected = [
        (1, b"a", False, False),
        (2, b"x" * limit, False, False),
        (3, b"y" * kept, True, True),
        (3, b"z", False, False),
        (4, b"b", False, False),
    ]
    assert read(log) == expected
    assert read(log, 1 << 18) == expected
    assert read(log, 1 << 24) == expected


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("piece", "times", "segments", "compressed"),
    [
        (b"x" * 1000, 60_000, 1, False),
        (b"x" * 1000, 60_000, 1, True),
        (b"x" * 999 + b"\r", 60_000, 60_000, True),
        (b"\r" * 1000, 60_000, 2, False),
        (b"\x1b[31m" * 200, 4_000, 1, False),
        (b"\x1b]x" * 300, 4_000, 1, True),
    ],
    ids=["one segment", "one segment, compressed", "CR segments", "only CR", "only colour", "titles without end"],
)
def test_memory_is_bounded_for_a_line_of_60_mb(
    write: Write, piece: bytes, times: int, segments: int, compressed: bool, traced: None
) -> None:
    path = write(b"")
    with gzip.open(path, "wb", 1) if compressed else open(path, "wb") as file:
        file.write(b"first\n")
        for _ in range(times // 1000):
            file.write(piece * 1000)
        file.write(b"y\nlast\n")
    tracemalloc.reset_peak()
    found = 0
    for chunk in open_source(path).chunks():
        found += chunk.lines + len(chunk.returns)
        assert chunk.size <= chunks.CHUNK + chunks.LONGEST
    assert tracemalloc.get_traced_memory()[1] < 5 * chunks.CHUNK
    assert bytes(chunk.data[: chunk.size]).endswith(b"y\nlast\n") or segments == 1
    assert chunk.first_line + chunk.lines == 4
    assert found - 2 == segments + (segments == 60_000)


# Compression and damage


@pytest.mark.parametrize("how", ["gz", "zst", "xz", "bz2"])
def test_streams_behind_one_another_are_one_log(write: Write, how: str) -> None:
    log = open_source(write(COMPRESS[how](b"a\nb") + COMPRESS[how](b"c\n")))
    assert texts(log) == [b"a", b"bc"]
    assert log.warnings == []


@pytest.mark.parametrize("how", ["gz", "zst", "xz", "bz2"])
def test_a_truncated_stream_keeps_what_came_before(write: Write, how: str) -> None:
    raw, whole = NOISE, packed_noise(how)
    log = open_source(write(whole[: len(whole) * 3 // 4]))
    data = b"".join(bytes(chunk.data[: chunk.size]) for chunk in log.chunks(1000))
    kept = data if raw.startswith(data) else data[:-1]  # the last line may be half a line, and has got an end
    assert raw.startswith(kept)
    assert len(kept) > len(raw) // 4
    assert len(log.warnings) == 1
    assert f"first {len(kept)} bytes of log were kept" in log.warnings[0]
    assert log.digest() == hashlib.sha256(kept).hexdigest()
    assert read(log, 777) == read(log)
    assert len(log.warnings) == 1


def test_a_truncated_gzip_loses_no_byte_that_zlib_can_decompress(write: Write) -> None:
    raw = b"".join(b"step %d loss %f\n" % (n, 1 / (n + 1)) for n in range(50_000))
    part = gzip.compress(raw)[:-5000]
    log = open_source(write(part))
    read(log)
    assert f"first {len(zlib.decompressobj(31).decompress(part))} bytes" in log.warnings[0]


def test_the_bytes_before_a_fault_are_read_one_by_one(write: Write) -> None:
    raw = b"".join(b"step %d loss %f\n" % (n, 1 / (n + 1)) for n in range(1000))
    part = gzip.compress(raw)[:-500]
    whole = zlib.decompressobj(31).decompress(part)
    path = str(write(part))
    for skip in (0, len(whole) - 70, len(whole)):
        assert source._bytes_before_fault(path, "gzip", skip) == whole[skip:]


@pytest.mark.parametrize("how", ["gz", "zst", "xz", "bz2"])
def test_a_damaged_stream_keeps_a_part_from_the_beginning(write: Write, how: str) -> None:
    raw, whole = NOISE, bytearray(packed_noise(how))
    middle = len(whole) * 3 // 4
    whole[middle : middle + 100_000] = b"\xff" * 100_000
    log = open_source(write(bytes(whole)))
    start = log.head(len(raw) // 4)
    digest = log.digest()
    (warning,) = log.warnings
    kept = int(re.findall(r"first (\d+) bytes", warning)[0])
    assert kept > len(raw) // 4
    data = b"".join(bytes(chunk.data[: chunk.size]) for chunk in open_source(log.name).chunks())
    assert kept <= len(data) <= kept + 1  # the last line has got an end
    assert raw.startswith(bytes(start.data[: start.size]))
    assert start.size > 300_000
    log = open_source(log.name)
    assert read(log, 1000) == read(log)
    assert (log.digest(), log.warnings) == (digest, [warning])


def test_bytes_behind_a_gzip_stream_are_left_out_with_a_warning(write: Write) -> None:
    log = open_source(write(gzip.compress(b"a\nb\n") + b"garbage"))
    assert texts(log) == [b"a", b"b"]
    assert len(log.warnings) == 1
    assert "first 4 bytes" in log.warnings[0]


def test_zeros_behind_a_gzip_stream_are_padding(write: Write) -> None:
    log = open_source(write(gzip.compress(b"a\nb\n") + bytes(512)))
    assert texts(log) == [b"a", b"b"]
    assert log.warnings == []


@pytest.mark.parametrize("how", ["gz", "zst", "xz", "bz2"])
def test_nothing_to_decompress_is_an_error(write: Write, how: str) -> None:
    with pytest.raises(InputError, match="nothing can be decompressed"):
        open_source(write(COMPRESS[how](b"a\nb\n")[: 8 if how == "zst" else 10]))


def test_a_compressed_empty_log_is_empty(write: Write) -> None:
    assert open_source(write(gzip.compress(b""))).head().size == 0


def test_compression_is_known_by_content_not_by_name(write: Write) -> None:
    assert texts(open_source(write(b"plain\n", "run.gz"))) == [b"plain"]


# Ways in


@examples(30, shares_fixtures=True)
@given(raw=RAW)
def test_stdin_reads_like_a_file(raw: bytes, short: None, spill_folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stdin(patch, raw)
        with open_source("-") as log:
            assert log.name == "-"
            assert read(log) == read(log, 5) == reference(raw)
            assert len(list(spill_folder.iterdir())) == 1
    assert list(spill_folder.iterdir()) == []


def test_a_spill_file_is_removed_with_its_source(monkeypatch: pytest.MonkeyPatch, spill_folder: Path) -> None:
    stdin(monkeypatch, b"a\n")
    log = open_source("-")
    assert texts(log) == [b"a"]
    del log
    assert list(spill_folder.iterdir()) == []


def test_closing_twice_or_without_the_spill_file_is_fine(monkeypatch: pytest.MonkeyPatch, spill_folder: Path) -> None:
    stdin(monkeypatch, b"a\n")
    log = open_source("-")
    for spill_file in spill_folder.iterdir():
        spill_file.unlink()
    log.close()
    log.close()


def test_closing_a_file_leaves_it(write: Write) -> None:
    path = write(b"a\n")
    open_source(path).close()
    assert os.path.exists(path)


def test_compressed_stdin(monkeypatch: pytest.MonkeyPatch, spill_folder: Path) -> None:
    stdin(monkeypatch, gzip.compress(b"a\n"))
    with open_source("-") as log:
        assert texts(log) == [b"a"]
    stdin(monkeypatch, gzip.compress(b"a\n")[:11])
    with pytest.raises(InputError):
        open_source("-")
    assert list(spill_folder.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_names_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "no")))
    stdin(monkeypatch, b"a\n" * 10)
    with pytest.raises(InputError, match="TMPDIR") as caught:
        open_source("-")
    assert caught.value.reason == f"cannot be kept in a temporary file: {os.strerror(errno.ENOSPC)}"


def test_a_named_pipe_is_spilled(tmp_path: Path, spill_folder: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    with open_source(str(path)) as log:
        assert texts(log) == texts(log) == [b"a", b"b"]
    writer.join()


def test_the_size_of_a_stream_is_checked_while_it_comes(monkeypatch: pytest.MonkeyPatch, spill_folder: Path) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(source, "check_stream", lambda size, name: sizes.append(size))
    parts = iter([b"ab\n", b"c\n", b""])
    with source._spill("log", SimpleNamespace(read=lambda _: next(parts))) as log:
        assert texts(log) == [b"ab", b"c"]
    assert sizes == [3, 5]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if "missing" in self.path:
            self.send_error(404)
            return
        self.send_response(200)
        odd = {"/abc": "abc", "/list": "5, 5", "/long": "1" * 5000, "/short": "100", "/minus": "-3"}
        self.send_header("Content-Length", odd.get(self.path, "5"))
        self.end_headers()
        self.wfile.write(b"a\nbc\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/abc", "/list", "/long", "/minus"])
def test_a_length_that_is_no_number_announces_nothing(server: str, path: str) -> None:
    with open_source(server + path) as log:
        assert texts(log) == [b"a", b"bc"]


def test_a_url_is_fetched_once(server: str, spill_folder: Path) -> None:
    with open_source(f"{server}/run.txt#2") as log:
        assert log.name == f"{server}/run.txt"
        assert texts(log) == texts(log) == [b"a", b"bc"]
    assert list(spill_folder.iterdir()) == []


@pytest.mark.filterwarnings("default::ResourceWarning")  # urllib leaves the reply of an error to the collector
@pytest.mark.parametrize(
    ("path", "reason"), [("/missing", "404"), ("/short", "ended after 5 of 100 bytes|cannot be read to its end")]
)
def test_a_url_that_fails_is_one_error(server: str, spill_folder: Path, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        open_source(server + path)
    assert list(spill_folder.iterdir()) == []


def test_the_scheme_of_a_url_may_have_capitals(server: str) -> None:
    with open_source(f"{server.replace('http', 'HTTP')}/run.txt") as log:
        assert texts(log) == [b"a", b"bc"]


def test_a_server_that_sends_a_byte_at_a_time_is_not_waited_for(
    server: str, spill_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perflog.files.remote.monotonic", itertools.count(step=61).__next__)
    with pytest.raises(InputError, match="too slow: less than 64 KiB in 60 s"):
        open_source(f"{server}/run.txt")
    assert list(spill_folder.iterdir()) == []


def test_a_server_that_sends_its_header_a_byte_at_a_time_is_not_waited_for(
    spill_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perflog.files.remote._PATIENCE_S", 0.3)
    monkeypatch.setenv("no_proxy", "*")
    given_up = threading.Event()

    def answer() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.0 200 OK\r\nA: ")
            while not given_up.wait(0.02):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InputError, match="cannot be fetched: no answer in"):
            open_source(f"http://127.0.0.1:{listening.getsockname()[1]}/run.txt")
        given_up.set()
        thread.join()
    assert list(spill_folder.iterdir()) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://", "https://exa mple/x"])
def test_a_url_without_a_server_is_one_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(InputError, match="cannot be fetched"):
        open_source(url)


def test_a_folder_is_not_a_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        open_source(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user that is not root")
def test_a_log_without_permission_is_one_error(write: Write) -> None:
    path = write(b"a\n")
    os.chmod(path, 0)
    with pytest.raises(InputError, match="permissions"):
        open_source(path)


def test_a_log_that_goes_after_it_was_opened_is_one_error(write: Write) -> None:
    path = write(b"a\n")
    log = open_source(path)
    os.unlink(path)
    with pytest.raises(InputError):
        log.digest()


def test_import_is_light() -> None:
    heavy = {"numpy", "pyarrow", "urllib.request", "hashlib"}
    code = f"import sys, perflog.parsing.input.source; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x01" * 10 + b"a" * 90, False),  # a tenth
        (b"\x01" * 11 + b"a" * 89, True),
        (b"\t\n\r\x1b" * 5 + b"a" * 80, False),  # what terminals print
        (b"a" * (1 << 13) + b"\x01" * 5000, False),  # of the first 8 KiB
        (b"a" * ((1 << 13) - 900) + b"\x01" * 900, True),
        (("step 1\n" * 40).encode("utf-16"), False),
        (b"", False),
        (b"\x08\x0e\x1a\x1c\x1f\x7f" * 4 + b"a" * 200, True),  # control characters
        (b"\x09\x0d\x1b\x20\x7e\x80" * 40, False),  # others
    ],
)
def test_a_file_looks_binary_by_its_control_characters(tmp_path: Path, data: bytes, expected: bool) -> None:
    (tmp_path / "log").write_bytes(data)
    with open_source(str(tmp_path / "log")) as log:
        assert log.looks_binary() is expected


# --- several files as one log -----------------------------------------------------------------------------------------


def joined(write: Write, files: dict[str, bytes]) -> JoinedSource:
    return JoinedSource("job", [Source(name, write(data, name)) for name, data in files.items()])


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        ({"rank0.txt": b"a\nb\n", "rank1.txt": b"c"}, [b"[rank0]:a", b"[rank0]:b", b"[rank1]:c"]),
        ({"rank0.txt": b"a", "rank1.txt": b"", "rank2.txt": b"\n"}, [b"[rank0]:a", b"[rank2]:"]),
        ({"server.txt": b"a\n", "client.txt": b"b\n"}, [b"a", b"b"]),  # of no rank
        ({"rank0.txt": b"[rank0]: a\n[rank0]: b\nc\n", "rank1.txt": b"d\n"},
         [b"[rank0]: a", b"[rank0]: b", b"c", b"[rank1]:d"]),  # most lines have their label
        ({"rank0.txt": b"[rank0]: a\nb\nc\n"}, [b"[rank0]:[rank0]: a", b"[rank0]:b", b"[rank0]:c"]),
        ({"rank0.csv": b"step,loss\n1,2.5\n", "rank1.csv": b"step,loss\n1,3.5\n"},
         [b"rank,step,loss", b"0,1,2.5", b"rank,step,loss", b"1,1,3.5"]),  # a table has a column with the rank
        ({"rank0.csv": b"Rank,loss\n0,2.5\n"}, [b"Rank,loss", b"0,2.5"]),  # or has it already
        ({"rank0.csv": b"1,2.5\n2,3.5\n"}, [b"[rank0]:1,2.5", b"[rank0]:2,3.5"]),  # no header
        ({"rank0.tsv": b"step\tloss\n1\t2.5\n"}, [b"rank\tstep\tloss", b"0\t1\t2.5"]),
    ],
)  # fmt: skip
def test_files_of_ranks_are_one_log(write: Write, files: dict[str, bytes], lines: list[bytes]) -> None:
    log = joined(write, files)
    for size in (1, chunks.CHUNK):
        assert [text for _, text, _, _ in read(log, size)] == lines
    assert [number for number, *_ in read(log)] == list(range(1, len(lines) + 1))


def test_a_log_of_several_files_is_all_of_them(write: Write) -> None:
    files = {"rank0.txt": b"first\n", "rank1.txt": b"second"}
    log, other = joined(write, files), joined(write, dict(reversed(files.items())))
    assert (log.size(), [part.name for part in log.parts]) == (12, list(files))
    digests = "".join(hashlib.sha256(data).hexdigest() for data in files.values())
    assert log.digest() == hashlib.sha256(digests.encode()).hexdigest() != other.digest()
    assert log.is_by_rank and not joined(write, {"server.txt": b"a\n", "client.txt": b"b\n"}).is_by_rank
    (alone,) = Source("log", write(b"x")).parts
    assert alone.name == "log"


# --- parts of a file --------------------------------------------------------------------------------------------------


def test_the_last_bytes_and_the_digests_of_the_first(write: Write) -> None:
    packed = write(gzip.compress(b"abcdef"), "packed")
    for log, last in ((Source("log", write(b"abcdef")), b"def"), (Source("log", packed), b"")):
        assert log.last_bytes(3) == last and log.is_compressed == (last == b"")
        assert log.digests_of_first([4, 0, 6, 4]) == {
            size: hashlib.sha256(b"abcdef"[:size]).hexdigest() for size in (0, 4, 6)
        }
        assert log.length() == 6
        log.set_digest("given")
        assert (log.digest(), log.length()) == ("given", None if last == b"" else 6)
    assert Source("log", write(b"ab")).last_bytes(3) == b"ab"
    grows = Source("log", write(b"abcdef"), size=4)
    assert (grows.last_bytes(3), grows.digest()) == (b"bcd", hashlib.sha256(b"abcd").hexdigest())


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b'{"log":"a\\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}\n' * 2,
         [b"[pod/stdout 2026-01-01T00:00:00Z] a"] * 2),  # of a container runtime
        (b'{"cells": [{"cell_type": "code", "outputs": [{"output_type": "stream", "text": ["a\\n", "b"]}]}]}',
         [b"a", b"b"]),
        (b"    step 1\n    step 2\n", [b"step 1", b"step 2"]),
    ],
)  # fmt: skip
def test_the_lines_of_a_program_inside_others(write: Write, raw: bytes, lines: list[bytes]) -> None:
    assert [text.strip() for text in texts(Source("log", write(raw))) if text.strip()] == lines
