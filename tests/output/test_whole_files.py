"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import DATA
from support.paths import ROOT

import perflog
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


@pytest.mark.parametrize(
    ("command", "name", "module"),
    [
        (("report", LOG, "-o"), "page.html", "output.report"),
        (("plot", LOG, "steps", "-o"), "steps.png", "plots"),
        (("export", LOG, "--to", "perfetto", "-o"), "trace.json", "output.export"),
    ],
)
def test_a_file_that_grows_too_large_leaves_nothing(
    tmp_path: Path, command: tuple[object, ...], name: str, module: str
) -> None:
    """A limit on the size of files is a full disk. In a process of its own: nothing else is written under the limit."""
    (tmp_path / name).write_bytes(b"before")
    code = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += f"from perflog.cli.main import main; import perflog.{module}; "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); main(prog_name='perflog')"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path.parent / "cache")}
    words = [sys.executable, "-B", "-c", code, *map(str, command), name]
    ended = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{name}: cannot be written: File too large" in ended.stderr
    assert ended.returncode == 3
    assert (tmp_path / name).read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]


def test_files_of_tables_are_whole(tmp_path: Path) -> None:
    names = perflog.export.csv(perflog.read(LOG), tmp_path / "csv")
    assert sorted(os.listdir(tmp_path / "csv")) == sorted(f"{name}.csv" for name in names)
