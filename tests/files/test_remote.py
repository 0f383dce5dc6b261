"""Files in object storage and on http servers: what is found, what is copied, and what messages show and hide."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib import request

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from perflog.errors import InputError
from perflog.files import remote
from perflog.files.remote import (
    Bucket,
    RemoteFile,
    beginnings,
    download,
    found,
    has_threads,
    is_in_storage,
    is_remote,
    matching,
    shown,
    under,
)

PLACE = "memory:///logs"
"""A storage in this process."""


@pytest.fixture
def storage() -> Iterator[MemoryFileSystem]:
    files = MemoryFileSystem()
    files.store.clear()
    yield files
    files.store.clear()


@pytest.fixture
def bucket(storage: MemoryFileSystem) -> Bucket:
    for key in ("a/1.txt", "a/2.log", "a/b/3.txt", "c.txt", "ab/4.txt"):
        storage.pipe_file(f"/logs/{key}", key.encode())
    return Bucket(f"{PLACE}/")


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "remotely", "stored"),
    [
        ("s3://b/k", True, True), ("HF://b", True, True), ("a1+.-://x", True, True), ("http://h/x", True, False),
        ("HTTPS://h/x", True, False), ("httpx://h", True, True), ("/a/b", False, False), ("1s://x", False, False),
        ("C:\\x", False, False), ("a b://x", False, False), ("://x", False, False), ("x s3://b", False, False),
    ],
)  # fmt: skip
def test_what_is_an_address(name: str, remotely: bool, stored: bool) -> None:
    assert (is_remote(name), is_in_storage(name)) == (remotely, stored)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("s3://me:secret@b/k", "s3://b/k"), ("https://token@h/x", "https://h/x"), ("HTTP://token@h/x", "HTTP://h/x"),
        ("s3://name@b/k", "s3://name@b/k"), ("https://h/x?a=1&token=0a#part", "https://h/x?a=1&token=...#part"),
        ("https://h/x?X-Amz-Credential=a&b=2&sig=3", "https://h/x?X-Amz-Credential=...&b=2&sig=..."),
        ("https://h/x?MyPassword=a'b", "https://h/x?MyPassword=...'b"), ("https://h/token=5", "https://h/token=5"),
        ("/a/b?token=5", "/a/b?token=5"),
    ],
)  # fmt: skip
def test_what_is_shown_of_an_address(address: str, text: str) -> None:
    assert shown(address) == text


# --- what a storage has -----------------------------------------------------------------------------------------------


def test_files_that_a_pattern_matches(bucket: Bucket) -> None:
    assert matching(f"{PLACE}/a/*") == [RemoteFile(f"{PLACE}/a/1.txt", 7), RemoteFile(f"{PLACE}/a/2.log", 7)]
    assert [file.address for file in matching(f"MEMORY{PLACE[6:]}/*.txt")] == [f"{PLACE}/c.txt"]
    assert matching(f"{PLACE}/*.csv") == []


def test_files_below_a_folder(bucket: Bucket) -> None:
    expected = [f"{PLACE}/a/{name}" for name in ("1.txt", "2.log", "b/3.txt")]
    assert [file.address for file in under(f"{PLACE}/a")] == [file.address for file in under(f"{PLACE}/a/")] == expected


def test_a_file_or_nothing(bucket: Bucket) -> None:
    assert found(f"{PLACE}/c.txt") == RemoteFile(f"{PLACE}/c.txt", 5)
    bucket.create("x:y", b"1")
    assert found(f"MEMORY{PLACE[6:]}/x:y") == RemoteFile(f"MEMORY{PLACE[6:]}/x:y", 1)
    assert found(f"{PLACE}/a") is found(f"{PLACE}/none") is None


def test_first_bytes_of_files(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_AT_ONCE", 2)
    names = [f"{PLACE}/{key}" for key in ("c.txt", "none", "a/1.txt", "a/2.log", "ab/4.txt")]
    expected = [(names[0], b"c."), (names[2], b"a/"), (names[3], b"a/"), (names[4], b"ab")]
    assert list(beginnings(names, 2)) == expected
    assert list(beginnings(["nope://a", "nope://b", *names[3:]], 2)) == expected[2:]  # a block that fails is left out
    assert list(beginnings([], 2)) == []


# --- a bucket ---------------------------------------------------------------------------------------------------------


def test_keys_of_a_folder(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (bucket.address, bucket.name, bucket.can_create) == (PLACE, PLACE, False)
    assert bucket.keys("a") == ["a/1.txt", "a/2.log", "a/b/3.txt"]
    assert bucket.keys("none") == []
    files = SimpleNamespace(find=lambda start: [start, f"{start}x", "other/y"])
    monkeypatch.setattr(remote, "_storage", lambda address: (files, "p/a/"))
    assert bucket.keys("a") == ["a/x"]


@pytest.mark.parametrize("address", ["s3://b", "S3A://b", "gs://b", "gcs://b"])
def test_storages_in_which_of_two_that_create_one_fails(address: str) -> None:
    assert Bucket(address).can_create and not Bucket(f"x{address}").can_create


def test_objects_are_read_written_once_moved_and_removed(bucket: Bucket) -> None:
    assert (bucket.get("c.txt"), bucket.get("none")) == (b"c.txt", None)
    assert bucket.create("new", b"1") and not bucket.create("new", b"2")
    assert bucket.get("new") == b"1"
    bucket.move("new", "d/moved")
    bucket.move("none", "d/none")
    assert (bucket.get("new"), bucket.get("d/moved"), bucket.get("d/none")) == (None, b"1", None)
    bucket.delete(["none", "d/moved"])
    assert bucket.get("d/moved") is None


def test_files_are_copied_to_a_bucket_and_back(bucket: Bucket, tmp_path: Path) -> None:
    here = [str(tmp_path / name) for name in "xy"]
    for path in here:
        Path(path).write_text(path[-1])
    bucket.upload(here, ["u/1", "u/2"])
    assert bucket.keys("u") == ["u/1", "u/2"] and bucket.get("u/2") == b"y"
    back = [str(tmp_path / name) for name in "zw"]
    assert bucket.download(["u/2", "c.txt"], back)
    assert [Path(path).read_text() for path in back] == ["y", "c.txt"]
    assert not bucket.download(["u/2", "none"], back)


def test_the_age_of_an_object(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    written = datetime.now(UTC) - timedelta(minutes=1)
    monkeypatch.setattr(MemoryFileSystem, "modified", lambda self, path: written)
    assert 60 <= bucket.age_s("c.txt") < 90
    monkeypatch.undo()
    assert bucket.age_s("none") == 0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda b: b.keys("a"), "listed"), (lambda b: b.get("a"), "read"), (lambda b: b.create("a", b""), "written"),
        (lambda b: b.upload([], []), "written"), (lambda b: b.download([], []), "read"),
        (lambda b: b.age_s("a"), "read"), (lambda b: b.move("a", "b"), "written"),
        (lambda b: b.delete(["a"]), "written"), (lambda b: matching(f"{PLACE}/*"), "listed"),
        (lambda b: under(PLACE), "listed"), (lambda b: found(PLACE), "found"),
    ],
)  # fmt: skip
def test_errors_say_what_could_not_be_done(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Bucket], Any], what: str
) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr(remote, "_storage", fail)
    with pytest.raises(InputError, match=f"cannot be {what}: no network"):
        call(Bucket(PLACE))


# --- copies of objects ------------------------------------------------------------------------------------------------


def copied(address: str, path: Path, check: Callable[[int], None] = lambda size: None) -> bytes:
    with path.open("wb") as file:
        download(address, file, str(path), check)
    return path.read_bytes()


class Object:
    """A storage with one object, which has one state before it is fetched and may have another one after."""

    def __init__(self, size: int, *states: dict[str, Any]) -> None:
        self.size, self.states = size, list(states)
        self.forgotten = 0

    def info(self, key: str) -> dict[str, Any]:
        return {"type": "file"} | (self.states.pop(0) if len(self.states) > 1 else self.states[0])

    def get_file(self, key: str, path: str) -> None:
        Path(path).write_bytes(b"a" * self.size)

    def invalidate_cache(self) -> None:
        self.forgotten += 1


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Object], int]:
    """A function that fetches an object, and returns the bytes of its copy."""

    def fetch(stored: Object) -> int:
        monkeypatch.setattr(remote, "_ONE_REQUEST", 4)
        monkeypatch.setattr(remote, "_storage", lambda address: (stored, "k"))
        return len(copied(f"{PLACE}/k", tmp_path / "copy"))

    return fetch


def test_an_object_is_copied(bucket: Bucket, tmp_path: Path) -> None:
    assert copied(f"{PLACE}/c.txt", tmp_path / "x") == b"c.txt"
    with pytest.raises(InputError, match="this is a folder, not a log"):
        copied(f"{PLACE}/a", tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        copied(f"{PLACE}/none", tmp_path / "x")


def test_an_object_of_several_requests_has_the_same_state_after_them(fetched: Callable[[Object], int]) -> None:
    same = {"size": 5, "ETag": "x"}
    stored = Object(5, same, same)
    assert fetched(stored) == 5 and stored.forgotten == 1
    for name in ("ETag", "etag", "generation", "LastModified", "mtime"):
        with pytest.raises(InputError, match="changed while it was fetched"):
            fetched(Object(5, {"size": 5, name: 1}, {"size": 5, name: 2}))


def test_an_object_of_one_request_has_the_size_that_was_stated(fetched: Callable[[Object], int]) -> None:
    assert fetched(Object(4, {"size": 4, "ETag": "x"}, {"size": 4, "ETag": "y"})) == 4
    assert fetched(Object(4, {"size": None}, {})) == fetched(Object(4, {}, {})) == 4
    with pytest.raises(InputError, match="changed while it was fetched"):
        fetched(Object(3, {"size": 4}))


def test_an_error_of_the_copy_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the disk of this machine that is full, not the storage."""
    stored = Object(4, {"size": 4})
    for name, kind in ((str(tmp_path / "copy"), OSError), ("other", InputError)):

        def full(key: str, path: str, name: str = name) -> None:
            raise OSError(28, "No space left on device", name)

        monkeypatch.setattr(stored, "get_file", full)
        monkeypatch.setattr(remote, "_storage", lambda address: (stored, "k"))
        with pytest.raises(kind):
            copied(f"{PLACE}/k", tmp_path / "copy")


# --- http -------------------------------------------------------------------------------------------------------------


class Reply(io.BytesIO):
    """What a server answers, in blocks of three bytes."""

    def __init__(self, data: bytes, length: Any = None) -> None:
        super().__init__(data)
        self.headers = {} if length is None else {"Content-Length": length}

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(3)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """A function that lets each request have this answer."""

    def answer(reply: Any) -> None:
        def urlopen(address: str, timeout: float) -> Any:
            assert timeout == remote._PATIENCE_S
            if isinstance(reply, Exception):
                raise reply
            return reply

        monkeypatch.setattr(request, "urlopen", urlopen)

    return answer


@pytest.mark.parametrize("length", ["7", None, "some", "-1", "5"])
def test_a_file_of_a_server_is_copied_and_checked(
    answers: Callable[[Any], None], tmp_path: Path, length: str | None
) -> None:
    sizes: list[int] = []
    reply = Reply(b"one two", length)
    answers(reply)
    assert copied("http://host/x", tmp_path / "x", sizes.append) == b"one two"
    assert sizes == [3, 6, 7] and reply.closed


def test_a_file_that_ends_too_early_is_an_error(answers: Callable[[Any], None], tmp_path: Path) -> None:
    answers(Reply(b"one two", "8"))
    with pytest.raises(InputError, match="ended after 7 of 8 bytes"):
        copied("https://host/x", tmp_path / "x")


@pytest.mark.parametrize("error", [OSError("refused"), ValueError("refused"), IncompleteRead(b"")])
def test_a_server_that_does_not_answer_is_an_error(
    answers: Callable[[Any], None], tmp_path: Path, error: Exception
) -> None:
    answers(error)
    with pytest.raises(InputError, match="cannot be fetched: ") as raised:
        copied("https://me:secret@host/x", tmp_path / "x")
    assert "secret" not in str(raised.value)


def test_a_reply_that_breaks_off_is_an_error(answers: Callable[[Any], None], tmp_path: Path) -> None:
    reply = Reply(b"")
    reply.read1 = lambda size=-1: (_ for _ in ()).throw(IncompleteRead(b""))  # type: ignore[method-assign]
    answers(reply)
    with pytest.raises(InputError, match="cannot be read to its end: IncompleteRead"):
        copied("https://host/x", tmp_path / "x")


@pytest.mark.parametrize(
    ("times", "least", "too_slow"),
    [
        ((0, 21, 42, 61), 100, True), ((0, 20, 40, 60), 100, False), ((0, 61, 122, 183), 3, True),
        ((0, 61, 122, 150), 3, False), ((0, 1, 2, 100), 3, True),
    ],
)  # fmt: skip
def test_a_server_must_send_some_bytes_in_a_minute(
    answers: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: tuple[int, ...],
    least: int, too_slow: bool,
) -> None:  # fmt: skip
    """In blocks of three bytes of seven."""
    clock = iter(times)
    monkeypatch.setattr(remote, "monotonic", lambda: next(clock))
    monkeypatch.setattr(remote, "_LEAST", least)
    answers(Reply(b"one two"))
    if too_slow:
        with pytest.raises(InputError, match="too slow"):
            copied("https://host/x", tmp_path / "x")
    else:
        assert copied("https://host/x", tmp_path / "x") == b"one two"


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    late, reply, closed = threading.Event(), Reply(b""), threading.Event()
    monkeypatch.setattr(reply, "close", closed.set)

    def urlopen(address: str, timeout: float) -> Any:
        late.wait(5)
        return reply

    monkeypatch.setattr(request, "urlopen", urlopen)
    monkeypatch.setattr(remote, "_PATIENCE_S", 0.01)
    with pytest.raises(InputError, match=r"cannot be fetched: no answer in 0\.01 s"):
        copied("https://host/x", tmp_path / "x")
    late.set()
    assert closed.wait(5)  # what comes too late is closed


# --- errors -----------------------------------------------------------------------------------------------------------


class NoCredentialsError(Exception):
    """As botocore raises it."""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ImportError("no s3fs"), "s3:// needs a package that is not installed: no s3fs"),
        (ValueError("Protocol not known: s3"), "no storage is known for this address"),
        (ValueError("bad"), "cannot be read: bad"), (FileNotFoundError("k"), "no such file"),
        (PermissionError("k"), "cannot be read: permission denied"),
        (NoCredentialsError(), "cannot be read: no credentials were found"),
        (socket.gaierror("two\nlines  of it"), "cannot be read: two lines of it"),
        (RuntimeError(), "cannot be read: RuntimeError"),
        (RuntimeError("at https://h/x?token=0a1b"), r"cannot be read: at https://h/x\?token=\.\.\.\n"),
    ],
)  # fmt: skip
def test_errors_of_storages(error: Exception, message: str) -> None:
    with pytest.raises(InputError, match=message), remote._errors("s3://b/k", "read"):
        raise error


def test_an_address_with_a_password_is_refused() -> None:
    with pytest.raises(InputError, match="must not contain a user and password") as raised:
        found("s3://me:secret@b/k")
    assert "secret" not in str(raised.value)


def test_the_thread_of_fsspec_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "enumerate", lambda: [SimpleNamespace(name="other")])
    assert not has_threads()
    monkeypatch.setattr(
        threading, "enumerate", lambda: [SimpleNamespace(name="other"), SimpleNamespace(name="fsspecIO")]
    )
    assert has_threads()
