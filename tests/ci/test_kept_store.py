"""A store that is kept between jobs: in a file, on object storage, on a branch."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import run
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import baselines
from perflog.ci import kept_store
from perflog.errors import InputError, StoreError, UsageError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("kept")
    log = perflog.ingest(json_log(home / "a.json", steady_times(1)), store=home / "store", tags={"gpu_name": "H200"})
    baselines.set_baseline("main", [log.run_keys[0].id], store=home / "store")
    return home / "store"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def same(store: Path, other: Path) -> bool:
    known = baselines.read(other) == baselines.read(store)
    tables = [perflog.load(each).arrow("steps") for each in (store, other)]
    return known and tables[0].equals(tables[1]) and perflog.load(other).ingested == perflog.load(store).ingested


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose remote is a bare repository."""
    remote, checkout = tmp_path / "remote", tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
    subprocess.run(["git", "-C", str(checkout), "remote", "add", "origin", str(remote)], check=True)
    monkeypatch.chdir(checkout)
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return remote


@pytest.mark.parametrize("place", ["{}/deep.zip", "memory://bucket/{}/store.zip"])
def test_a_file_on_disk_or_in_a_storage(store: Path, tmp_path: Path, place: str) -> None:
    place = place.format(tmp_path)
    assert not kept_store.restore(place, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    kept_store.keep(place, str(store))
    kept_store.keep(place, str(store))
    assert kept_store.restore(place, str(tmp_path / "new"))
    assert same(store, tmp_path / "new")


def test_a_branch_has_one_commit(store: Path, repository: Path, tmp_path: Path) -> None:
    assert not kept_store.restore("branch:perf/store", str(tmp_path / "new"))
    kept_store.keep("branch:perf/store", str(store))
    kept_store.keep("branch:perf/store", str(store))  # its own commit is the one that it knows
    assert kept_store.restore("branch:perf/store", str(tmp_path / "new"))
    assert same(store, tmp_path / "new")
    counted = ["git", "-C", str(repository), "rev-list", "--count", "perf/store"]
    assert subprocess.run(counted, capture_output=True, text=True, check=True).stdout == "1\n"


def test_what_another_job_has_kept_meanwhile_stays(store: Path, repository: Path, tmp_path: Path) -> None:
    kept_store.keep("branch:s", str(store))
    for name in ("a", "b"):
        kept_store.restore("branch:s", str(tmp_path / name))
        baselines.set_baseline(name, where="steps > 0", store=tmp_path / name)
    kept_store.keep("branch:s", str(tmp_path / "a"))
    with pytest.raises(StoreError, match="another job has saved its store"):
        kept_store.keep("branch:s", str(tmp_path / "b"))
    with pytest.raises(StoreError, match="another job has saved its store"):
        kept_store.keep("branch:s", str(tmp_path / "b"))  # it has not become its own by that
    kept_store.restore("branch:s", str(tmp_path / "c"))
    assert set(baselines.read(tmp_path / "c")) == {"main", "a"}


def test_a_place_that_cannot_be_reached_is_no_empty_one(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.rename(tmp_path / "gone")
    with pytest.raises(StoreError, match="git ls-remote failed"):
        kept_store.restore("branch:s", str(tmp_path / "new"))
    (tmp_path / "damaged.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match="cannot be read"):
        kept_store.restore(str(tmp_path / "damaged.zip"), str(tmp_path / "new"))


def test_no_path_of_a_file_leaves_the_folder(tmp_path: Path) -> None:
    from zipfile import ZipFile

    with ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../outside", "x")
        archive.writestr("/absolute", "x")
    kept_store.restore(str(tmp_path / "bad.zip"), str(tmp_path / "deep" / "new"))
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["new"]
    assert not Path("/absolute").exists()


@pytest.mark.parametrize("place", ["branch:a b", "branch:-x", "branch:a..b", "store", "https://host/s.zip", "branch:"])
def test_what_is_no_place(store: Path, tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError):
        kept_store.restore(place, str(tmp_path / "new"))
    with pytest.raises(UsageError):
        kept_store.keep(place, str(store))


def test_a_folder_with_something_in_it_is_left_alone(store: Path, tmp_path: Path) -> None:
    run("ci", "keep", tmp_path / "s.zip", "--store", store)
    run("ci", "restore", tmp_path / "s.zip", "--store", store, code=2)
    run("ci", "keep", tmp_path / "s.zip", "--store", tmp_path / "none", code=3)
    done = run("ci", "restore", tmp_path / "none.zip", "--store", tmp_path / "none")
    assert done.stdout == f"nothing is kept at {tmp_path}/none.zip yet\n"


def test_the_token_is_in_no_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program `git` that notes its arguments and its settings."""
    git = tmp_path / "git"
    git.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {tmp_path}/words\nenv > {tmp_path}/env\n")
    git.chmod(0o755)
    known = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r"}
    for name, value in {**known, "GITHUB_TOKEN": "s3cr3t", "GITHUB_SERVER_URL": "https://ghe.example"}.items():
        monkeypatch.setenv(name, value)
    assert not kept_store.restore("branch:s", str(tmp_path / "new"))
    words, env = (tmp_path / "words").read_text(), (tmp_path / "env").read_text()
    assert "ls-remote https://ghe.example/o/r refs/heads/s" in words
    assert "s3cr3t" not in words
    assert "GIT_CONFIG_KEY_0=http.https://ghe.example/.extraheader" in env
    assert "GIT_CONFIG_VALUE_0=AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46czNjcjN0" in env
    assert "GIT_TERMINAL_PROMPT=0" in env


def test_the_file_of_baselines_is_in_what_is_kept(store: Path, tmp_path: Path) -> None:
    from zipfile import ZipFile

    kept_store.keep(str(tmp_path / "s.zip"), str(store))
    with ZipFile(tmp_path / "s.zip") as archive:
        assert json.loads(archive.read(baselines.FILE))["baselines"][0]["name"] == "main"
