"""Companions: the file of settings beside a table of operations is part of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from perflog.files import remote
from perflog.parsing.input.log_names import LogName
from perflog.readers import companions
from perflog.readers.companions import settings_beside, without_companions


@pytest.mark.parametrize(
    ("log", "companion"),
    [
        ("d/trace-a.parquet", "d/meta-a.yaml"), ("trace-a.PARQUET", "meta-a.yaml"), ("trace.arrow", "meta.yml"),
        ("d/trace_1.feather", "d/meta_1.yml"), ("s3://b/trace-a.parquet", "s3://b/meta-a.yaml"),
    ],
)  # fmt: skip
def test_a_companion_is_no_log(log: str, companion: str) -> None:
    names = [LogName.from_file(name) for name in (companion, log, "other.yaml")]
    assert [name.log for name in without_companions(names)] == [log, "other.yaml"]


@pytest.mark.parametrize(
    ("log", "other"),
    [
        ("d/trace-a.parquet", "meta-a.yaml"), ("trace-a.parquet", "meta-b.yaml"), ("a-trace.parquet", "a-meta.yaml"),
        ("trace-a.txt", "meta-a.yaml"), ("trace-a.parquet", "meta-a.json"), ("trace-a.parquet", "meta-a.YAML"),
    ],
)  # fmt: skip
def test_other_files_stay_logs(log: str, other: str) -> None:
    names = [LogName.from_file(name) for name in (other, log)]
    assert without_companions(names) == names


def test_settings_of_a_companion(tmp_path: Path) -> None:
    (tmp_path / "meta-a.yml").write_text(
        "# of the job\ntp: 8\n  pp :  2  \nname: 'gpt 3'\nlong: 1234567890\nratio: 0.5\nnone:\n- list: 1\nbad-key: 1\n"
    )
    assert settings_beside(str(tmp_path / "trace-a.parquet")) == {
        "tp": 8, "pp": 2, "name": "gpt 3", "long": "1234567890", "ratio": "0.5", "none": ""
    }  # fmt: skip


def test_the_first_ending_takes_precedence(tmp_path: Path) -> None:
    for ending, size in (("yml", 4), ("yaml", 8)):
        (tmp_path / f"meta.{ending}").write_text(f"tp: {size}\n")
    assert settings_beside(str(tmp_path / "trace.parquet")) == {"tp": 8}
    (tmp_path / "meta.yaml").unlink()
    (tmp_path / "meta.yaml").mkdir()  # a folder is no companion
    assert settings_beside(str(tmp_path / "trace.parquet")) == {"tp": 4}


def test_a_log_without_a_companion_has_no_settings(tmp_path: Path) -> None:
    assert settings_beside(str(tmp_path / "trace.parquet")) == {}
    (tmp_path / "meta.yaml").write_text("tp: 8\n")
    assert settings_beside(str(tmp_path / "other.parquet")) == {}


def test_settings_beyond_64_kib_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("tp: 8\n".ljust(1 << 16, "#") + "\npp: 2\n")
    assert settings_beside(str(tmp_path / "trace.parquet")) == {"tp": 8}


def test_only_a_storage_can_be_asked_for_a_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def settings(path: str) -> dict[str, int]:
        asked.append(path)
        return {"tp": 8}

    monkeypatch.setattr(companions, "_settings", settings)
    assert remote.is_remote("https://host/trace.parquet")
    assert settings_beside("https://host/trace.parquet") == {} and asked == []
    assert settings_beside("s3://b/trace.parquet") == {"tp": 8} and asked == ["s3://b/meta.yaml"]
