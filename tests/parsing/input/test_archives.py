"""Archives are folders of logs: members by name, bounded, none outside; a damaged one costs only itself."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.errors import InputError
from perflog.parsing.input.archives import members, unpacked_path
from perflog.parsing.input.log_names import LogName, expand

STEPS = "".join(f"step {k} | loss: {9 - k} | dt: {1000 + k}.00ms\n" for k in range(1, 9))


def packed(path: Path, files: dict[str, str]) -> Path:
    """An archive of texts, of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return path
    mode = {".gz": "gz", ".tgz": "gz", ".xz": "xz", ".bz2": "bz2"}.get(path.suffix, "")
    opened: Any = tarfile.open
    with opened(path, f"w:{mode}") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz", "a.tar.xz", "a.tar.bz2"])
def test_members_are_logs(name: str, tmp_path: Path) -> None:
    path = packed(tmp_path / name, {"job/rank.log": STEPS, "job/sub/other.txt": STEPS.replace("1.00", "2.00")})
    assert [each.log for each in expand([str(path)])] == [f"{path}/job/rank.log", f"{path}/job/sub/other.txt"]
    log = perflog.read(path)
    assert sorted(log.arrow("runs")["log"].to_pylist()) == [f"{path}/job/rank.log", f"{path}/job/sub/other.txt"]
    assert len(log.arrow("steps")) == 16
    assert len(perflog.read(f"{path}/job/rank.log").arrow("steps")) == 8


def test_tar_of_zstd(tmp_path: Path) -> None:
    import pyarrow as pa

    plain = packed(tmp_path / "a.tar", {"rank.log": STEPS}).read_bytes()
    path = tmp_path / "a.tar.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as out:
        out.write(plain)
    assert len(perflog.read(path).arrow("steps")) == 8


def test_an_archive_in_a_folder(tmp_path: Path) -> None:
    packed(tmp_path / "a.zip", {"rank.log": STEPS})
    (tmp_path / "b.log").write_text(STEPS, encoding="utf-8")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:60])
    names = [each.log for each in expand([str(tmp_path)])]
    assert names == [f"{tmp_path}/a.zip/rank.log", f"{tmp_path}/b.log", f"{tmp_path}/cut.zip"]


def test_nothing_is_written_outside(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    names = ["../out.log", "/tmp/out.log", "a/../../out.log", ".hidden.log", "a/.h/x.log", "ok.log"]
    for kind in ("evil.zip", "evil.tar"):
        path = packed(inside / kind, dict.fromkeys(names, STEPS))
        assert members(str(path)) == [f"{path}/ok.log"]
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]


def test_links_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text(STEPS, encoding="utf-8")
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for kind, name in (
            (tarfile.SYMTYPE, "soft.log"),
            (tarfile.LNKTYPE, "hard.log"),
            (tarfile.FIFOTYPE, "pipe.log"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(tmp_path / "secret.log")
            tar.addfile(info)
    with pytest.raises(InputError, match="no logs"):
        expand([str(path)])


def test_what_it_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.parsing.input.limits.MOST_UNPACKED", 1 << 20)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.log", bytes(4 << 20))
    with pytest.raises(InputError, match="unpacks to more than 250 times"):
        expand([str(path)])


def test_a_cut_tar_keeps_what_is_there(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.tar", {"one.log": STEPS, "two.log": STEPS * 400})
    path.write_bytes(path.read_bytes()[:30_000])
    with pytest.warns(UserWarning, match="ends early or is damaged"):
        assert f"{path}/one.log" in members(str(path))


def test_other_names_stay_as_they_are(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.zip", {"rank.log": STEPS})
    missing = str(tmp_path / "none" / "a.log")
    assert unpacked_path(missing) == missing
    assert LogName.parse(f"{path}/rank.log").exists()
    assert not LogName.parse(f"{path}/other.log").exists()
    with pytest.raises(InputError, match="no such file"):
        perflog.read(f"{path}/other.log")


def test_no_name_leads_out_of_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "logs.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a/run.txt", "1")
    for name in (f"{archive}/../other.txt", f"{archive}/a/../../other.txt", f"{archive}/../../x"):
        assert unpacked_path(name) == name
        with pytest.raises(InputError):
            perflog.read(name)
    assert Path(unpacked_path(f"{archive}/a/../a/run.txt")).read_text() == "1"
