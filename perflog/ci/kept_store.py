"""Keeps a store between jobs: on a branch of the git repository, or as one .zip file, on disk or on object storage.

A branch has one commit without a parent, so it does not grow by its history. It is replaced only if it is still the one
that was restored.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from perflog.errors import InputError, StoreError, UsageError
from perflog.files.remote import Bucket, is_in_storage, is_remote, shown
from perflog.files.whole_files import whole_file
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.store import store_exists

_BRANCH = "branch:"
_NAME = lazy_pattern(r"[A-Za-z0-9][\w./-]{0,200}")
_COMMIT = ".commit"  # file in a store: the commit of the branch that it was restored from
_WRITER = ("GIT_AUTHOR", "GIT_COMMITTER")
_PATIENCE_S = 300


def restore(place: str, store: str) -> bool:
    """Fetch a store into a folder that does not exist or is empty. Return whether one is kept there.

    Args:
        place: Where: `branch:NAME`, or the address or path of a .zip file.
        store: The folder.

    Raises:
        UsageError: `place` is not valid, or the folder is not empty.
        InputError, StoreError: `place` cannot be reached or read.
    """
    folder = Path(store)
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError("the folder is not empty", store, "name another one with --store")
    if place.startswith(_BRANCH):
        return _from_branch(_branch(place), folder)
    return _from_file(_zip(place), folder)


def keep(place: str, store: str) -> None:
    """Keep a store, instead of what is kept there.

    Raises:
        UsageError: `place` is not valid.
        StoreError: There is no store, `place` cannot be written, or another one was kept there since `restore`.
    """
    if not store_exists(store):
        raise StoreError("there is no store here", store, "`perflog ingest LOG` makes one")
    if place.startswith(_BRANCH):
        _to_branch(_branch(place), Path(store))
    else:
        _to_file(_zip(place), Path(store))


def _branch(place: str) -> str:
    name = place.removeprefix(_BRANCH)
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError("this is not the name of a branch", place, "such as branch:perflog-store")
    return name


def _zip(place: str) -> str:
    if not place.endswith(".zip") or (is_remote(place) and not is_in_storage(place)):
        help = "write branch:NAME, or a .zip file: a path, s3://BUCKET/store.zip, gs://BUCKET/store.zip"
        raise UsageError("no store is kept here", shown(place), help)
    return place


# --- a branch -----------------------------------------------------------------------------------------------------


def _from_branch(name: str, folder: Path) -> bool:
    remote, ref = _remote(), f"refs/heads/{name}"
    with tempfile.TemporaryDirectory() as home:
        _git(home, "init", "--quiet")
        commit = _git(home, "ls-remote", remote, ref).partition("\t")[0]
        if not commit:
            return False
        _git(home, "fetch", "--quiet", "--depth", "1", remote, ref)
        folder.mkdir(parents=True, exist_ok=True)
        commit = _git(home, "rev-parse", "FETCH_HEAD")
        _git(home, f"--work-tree={folder.absolute()}", "checkout", "--quiet", "--force", commit, "--", ".")
    (folder / _COMMIT).write_text(commit, encoding="ascii")
    return True


def _to_branch(name: str, folder: Path) -> None:
    known, remote, ref = folder / _COMMIT, _remote(), f"refs/heads/{name}"
    before = known.read_text(encoding="ascii") if known.exists() else ""
    with tempfile.TemporaryDirectory() as home:
        _git(home, "init", "--quiet")
        _git(home, f"--work-tree={folder.absolute()}", "add", "--all", "--force", ".", f":!{_COMMIT}", at=folder)
        tree = _git(home, "write-tree")
        commit = _git(home, "commit-tree", "-m", "The store of perflog", tree)
        try:
            _git(home, "push", "--quiet", f"--force-with-lease={ref}:{before}", remote, f"{commit}:{ref}")
        except StoreError as error:
            if "stale info" in error.reason or "rejected" in error.reason:
                help = "let one job at a time keep it: `concurrency` of GitHub Actions, `resource_group` of GitLab"
                raise StoreError("another job has saved its store there in the meantime", name, help) from error
            raise
    known.write_text(commit, encoding="ascii")


def _remote() -> str:
    """The address of the repository: of the CI system, else of remote `origin` of the current folder."""
    if os.environ.get("GITHUB_ACTIONS") and os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
    return _git(os.curdir, "remote", "get-url", "origin")


def _git(folder: str, *words: str, at: Path | None = None) -> str:
    """Run git in a folder and return what it prints. `at`: the folder of the files, if it is another one."""
    place = ("-C", folder) if at is None else ("-C", str(at), f"--git-dir={Path(folder).absolute() / '.git'}")
    try:
        done = subprocess.run(
            ["git", *place, *words],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"git cannot be run: {error}", words[0]) from error
    if done.returncode:
        raise StoreError(f"git {words[0]} failed: {shown(' '.join(done.stderr.split()))}", shown(words[-1]))
    return done.stdout.strip()


def _environment() -> Mapping[str, str]:
    """The environment of git: nothing is asked, and the token is in no argument, which other users can see."""
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    variables |= {
        f"{who}_{what}": f"perflog{'@localhost' * (what == 'EMAIL')}" for who in _WRITER for what in ("NAME", "EMAIL")
    }
    token, server = os.environ.get("GITHUB_TOKEN"), os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    if token and os.environ.get("GITHUB_ACTIONS"):
        secret = b64encode(f"x-access-token:{token}".encode()).decode()
        variables |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"http.{server}/.extraheader"}
        variables["GIT_CONFIG_VALUE_0"] = f"AUTHORIZATION: basic {secret}"
    return variables


# --- a file -------------------------------------------------------------------------------------------------------


def _from_file(place: str, folder: Path) -> bool:
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "store.zip"
        if is_in_storage(place):
            address, _, key = place.rpartition("/")
            if not Bucket(address).download([key], [str(file)]):
                return False
        elif not Path(place).exists():
            return False
        else:
            shutil.copyfile(place, file)
        try:
            with ZipFile(file) as archive:
                archive.extractall(folder)  # leaves no path out of the folder
        except (BadZipFile, OSError) as error:
            raise InputError(f"the kept store cannot be read: {error}", shown(place)) from error
    return True


def _to_file(place: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "store.zip"
        with ZipFile(file, "w", ZIP_STORED) as archive:  # Parquet is compressed
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name != _COMMIT:
                    archive.write(path, path.relative_to(folder))
        if is_in_storage(place):
            address, _, key = place.rpartition("/")
            Bucket(address).upload([str(file)], [key])
            return
        with whole_file(place) as draft:
            shutil.copyfile(file, draft)
