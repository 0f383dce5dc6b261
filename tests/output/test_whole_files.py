"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from pathlib import Path

import pytest
from support.commands import DATA

import perflog
from perflog.cli.main import main
from perflog.errors import StoreError
from perflog.files.whole_files import whole_file

LOG = DATA / "moe_layer_early.txt"


def filled(path: Path) -> None:
    """Write half of a file, when the disk is full."""
    with whole_file(path) as draft:
        draft.write_text("half of the new")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(StoreError, match=r"page\.html: cannot be written: No space left") as caught:
        filled(path)
    assert "-o" in caught.value.help
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_stays_a_link_and_a_device_is_written_directly(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to("target")
    with whole_file(tmp_path / "link") as draft:
        draft.write_text("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "after"
    with whole_file(os.devnull) as draft:
        assert str(draft) == os.devnull


def run_with_small_files(folder: Path, words: list[str]) -> tuple[int, str]:
    """Run a command in a fork of this process, in which no file may grow. Return its exit code and its errors."""
    reads, writes = os.pipe()
    if not (child := os.fork()):
        code = 70
        try:
            os.chdir(folder)
            sys.stdout, sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"), os.fdopen(writes, "w")
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
            main(words, prog_name="perflog")
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as errors:
        told = errors.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("report", LOG, "-o"), "page.html"),
        (("plot", LOG, "steps", "-o"), "steps.png"),
        (("export", LOG, "--to", "perfetto", "-o"), "trace.json"),
    ],
)
def test_a_file_that_grows_too_large_leaves_nothing(tmp_path: Path, command: tuple[object, ...], name: str) -> None:
    """A limit on the size of files is a full disk. In a process of its own: nothing else is written under the limit."""
    (tmp_path / name).write_bytes(b"before")
    code, told = run_with_small_files(tmp_path, [*map(str, command), name])
    assert f"{name}: cannot be written: File too large" in told
    assert code == 3
    assert (tmp_path / name).read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]


def test_files_of_tables_are_whole(tmp_path: Path) -> None:
    names = perflog.export.csv(perflog.read(LOG), tmp_path / "csv")
    assert sorted(os.listdir(tmp_path / "csv")) == sorted(f"{name}.csv" for name in names)
