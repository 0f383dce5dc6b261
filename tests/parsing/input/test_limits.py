"""Input of unknown size stops at a limit, which the user can raise. Files have none."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from perflog.cli.main import main
from perflog.errors import InputError, UsageError
from perflog.files import temporary
from perflog.parsing.input import limits, source
from perflog.parsing.input.source import open_source
from perflog.parsing.input.spilled_input import SpilledInput
from perflog.readers.events.spill_file import decompressed_path

LINE = b"step 1 loss 2.5\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5GB", 1_500_000_000), ("2 GiB", 2 << 30), ("4096", 4096), ("64g", 64_000_000_000), ("1 B", 1), ("0.5kB", 500)],
)
def test_sizes(text: str, size: int) -> None:
    assert limits.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1GB", "0", "inf", "nan", "1e9", "1 2", "9" * 40, "1.GB", "GB"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="not a number of bytes"):
        limits.parse_size(text)


def test_a_stream_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return LINE * (size // len(LINE))

    monkeypatch.setattr(limits, "MOST_OF_STREAM", 1 << 24)
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": Endless()}))
    with pytest.raises(InputError, match="still going on after 16 MiB") as caught:
        open_source("-")
    assert "--input-limit" in caught.value.help
    assert limits.VARIABLE in caught.value.help


def test_a_stream_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_OF_STREAM", 100)
    limits.check_stream(100, "x")
    with pytest.raises(InputError, match="still going on"):
        limits.check_stream(101, "x")


def test_a_packed_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    monkeypatch.setattr(source, "MOST_UNPACKED", 1 << 20)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINE * (1 << 17)))
    with pytest.raises(InputError, match="unpacks to more than 250 times its size, and more than 1 MiB"):
        open_source(str(path)).digest()
    monkeypatch.setenv(limits.VARIABLE, "4MB")
    assert open_source(str(path)).length() == len(LINE) << 17


def test_a_packed_log_that_repeats_itself_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    monkeypatch.setattr(source, "MOST_UNPACKED", 1 << 20)
    text = b"".join(b"step %d loss %.5f\n" % (k, 1 / (k + 1)) for k in range(200_000))
    (tmp_path / "log.gz").write_bytes(gzip.compress(text))
    assert open_source(str(tmp_path / "log.gz")).length() == len(text)


def test_a_file_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "10")
    (tmp_path / "log.txt").write_bytes(LINE * 100)
    assert open_source(str(tmp_path / "log.txt")).length() == len(LINE) * 100


def test_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(limits.VARIABLE, raising=False)
    command = [sys.executable, "-m", "perflog", "--input-limit", "1MB", "ingest", "-", "--store", str(tmp_path / "s")]
    done = subprocess.run(command, input=LINE * (1 << 17), capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == InputError.code
    assert done.stderr.decode().splitlines()[0] == "perflog: -: still going on after 976.6 KiB"
    assert not (tmp_path / "s").exists()


def test_a_limit_below_the_usual_one_does_not_hold_for_packed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is meant for streams; what a packed log unpacks to is not dangerous below the usual limit."""
    monkeypatch.setenv(limits.VARIABLE, "1000")
    (tmp_path / "log.gz").write_bytes(gzip.compress(LINE * (1 << 17)))
    assert open_source(str(tmp_path / "log.gz")).length() == len(LINE) << 17


def test_an_odd_option() -> None:
    result = CliRunner().invoke(main, ["--input-limit", "much", "runs"])
    assert result.exit_code == UsageError.code
    assert "not a number of bytes" in result.output


def little_room(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """A disk with little room, and copies that are long from `after` bytes on."""
    usage = type("Usage", (), {"free": after - 1})
    monkeypatch.setattr(limits, "ROOM_LEFT", after)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)


def test_a_stream_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    little_room(monkeypatch, 1 << 20)
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": io.BytesIO(LINE * (1 << 16))}))
    with open_source("-") as log:
        assert log.size() == 1 << 20  # it is not long, so it may take what there is
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": io.BytesIO(LINE * (1 << 17))}))
    with pytest.raises(
        InputError, match="temporary copy fills the disk: it has 2 MiB, and less than 1 MiB is free"
    ) as e:
        open_source("-")
    assert "TMPDIR" in e.value.help


def test_standard_input_as_it_comes_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    little_room(monkeypatch, 1 << 10)
    reading, writing = os.pipe()
    os.write(writing, LINE * 128)
    os.close(writing)
    input = SpilledInput(reading)
    with closing(input), pytest.raises(InputError, match="temporary copy fills the disk"):
        input.look()
    os.close(reading)


def test_an_unpacked_copy_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    little_room(monkeypatch, 1 << 20)
    (tmp_path / "log.gz").write_bytes(gzip.compress(LINE * (1 << 17)))
    with (
        open_source(str(tmp_path / "log.gz")) as log,
        pytest.raises(InputError, match="temporary copy fills the disk"),
        decompressed_path(log),
    ):
        pass
    assert not list(Path(temporary.folder()).glob("tmp*"))


def test_an_announced_size_is_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.BytesIO):
        headers: ClassVar = {"Content-Length": str(10**17)}

        def read1(self, size: int | None = -1) -> bytes:
            return LINE * ((size or 0) // len(LINE))

    monkeypatch.setattr(limits, "MOST_OF_STREAM", 1 << 24)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Endless())
    with pytest.raises(InputError, match="still going on after 16 MiB"):
        open_source("http://host/run.txt")


def test_the_usual_limit_lets_a_hundred_gigabytes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(limits.VARIABLE, raising=False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1 << 40}))
    limits.check_stream(100 * 10**9, "-")
    with pytest.raises(InputError, match="still going on after 256 GiB"):
        limits.check_stream((256 << 30) + 1, "-")


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs /proc")
def test_a_file_of_the_kernel_is_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells no size, and may be as long as the memory."""
    with open_source("/proc/self/status") as log:
        assert log.path != "/proc/self/status"
        assert log.first_bytes(5) == b"Name:"
    monkeypatch.setenv(limits.VARIABLE, "10")
    with pytest.raises(InputError, match="still going on after 10 bytes"):
        open_source("/proc/self/status")
