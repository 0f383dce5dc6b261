"""Input of unknown size stops at a limit, which the user can raise. Files have none."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from perflog.cli.main import main
from perflog.errors import InputError, UsageError
from perflog.parsing.input import limits, source
from perflog.parsing.input.source import open_source

LINE = b"step 1 loss 2.5\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5GB", 1_500_000_000), ("2 GiB", 2 << 30), ("4096", 4096), ("64g", 64_000_000_000), ("1 B", 1), ("0.5kB", 500)],
)
def test_sizes(text: str, size: int) -> None:
    assert limits.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1GB", "0", "inf", "nan", "1e9", "1 2", "9" * 40, "1.GB", "GB"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="no number of bytes"):
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
    assert "no number of bytes" in result.output
