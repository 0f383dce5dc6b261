"""Files that are named by an address: object storage through fsspec (s3://, gs://, hf://), and http(s)://.

Extra `remote` installs fsspec and what it needs for each kind of storage. An http address needs nothing: it is one
file, which the standard library fetches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, BinaryIO, NoReturn

from msgspec import Struct

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern

_ADDRESS = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HTTP = ("http://", "https://")
_USER = lazy_pattern(r"(?i)(?<=://)[^/@\s]*:[^/@\s]*@|(?<=http://)[^/@\s]+@|(?<=https://)[^/@\s]+@")  # with a password
_SECRET = lazy_pattern(r"(?i)([?&][^=&#\s]*(?:sign|sig|token|key|credential|secret|passw|auth)[^=&#\s]*=)[^&#\s'\"]+")
_LENGTH = lazy_pattern("[0-9]{1,18}")  # of what a server sends; another string announces nothing
_BLOCK = 1 << 20  # bytes that are copied at once
_ONE_REQUEST = 1 << 22  # bytes: an object that is larger may be fetched in several requests
_PATIENCE_S = 60  # an http server must answer within this time, and then send at least _LEAST bytes in each
_LEAST = 1 << 16
_WITH_CREATE = ("s3://", "s3a://", "gs://", "gcs://")
_AT_ONCE = 16  # files with first bytes fetched at once
_LOOP_THREAD = "fsspecIO"

_EXTRA = "pip install fsspec, and s3fs for s3://, gcsfs for gs://, huggingface-hub for hf://"


class RemoteFile(Struct, frozen=True):
    """An object in storage: its address and its size in bytes, None if the storage does not state it."""

    address: str
    size: int | None


def is_remote(name: str) -> bool:
    """Return whether a name is an address, not a path."""
    return _ADDRESS.match(name) is not None


def is_in_storage(name: str) -> bool:
    """Return whether a name is an address in a storage that can list its files. An http server cannot."""
    return is_remote(name) and not _is_http(name)


def _is_http(address: str) -> bool:
    return address[:8].lower().startswith(_HTTP)


def shown(address: str) -> str:
    """Return an address as messages and tables show it: without passwords, signatures and tokens.

    Example:
        >>> shown("https://me:secret@host/run.txt?part=2&X-Amz-Signature=0a1b")
        'https://host/run.txt?part=2&X-Amz-Signature=...'
    """
    return _SECRET.sub(r"\1...", _USER.sub("", address)) if "://" in address else address


def has_threads() -> bool:
    """Return whether fsspec has started its thread in this process. It is then not safe to fork."""
    threading = sys.modules.get("threading")
    return threading is not None and any(thread.name == _LOOP_THREAD for thread in threading.enumerate())


def matching(pattern: str) -> list[RemoteFile]:
    """Return the files in a storage that a pattern matches, sorted by address.

    Raises:
        InputError: The storage cannot be listed.
    """
    with _errors(pattern, "listed"):
        storage, path = _storage(pattern)
        return _files(storage, storage.glob(path, detail=True))


def under(folder: str) -> list[RemoteFile]:
    """Return the files in a storage with addresses below a folder, sorted by address.

    Raises:
        InputError: The storage cannot be listed.
    """
    with _errors(folder, "listed"):
        storage, path = _storage(folder)
        return _files(storage, storage.find(path.rstrip("/") + "/", detail=True))


def found(address: str) -> RemoteFile | None:
    """Return the file at an address in a storage; None if there is a folder, or nothing.

    Raises:
        InputError: The storage cannot be asked.
    """
    with _errors(address, "found"):
        storage, path = _storage(address)
        try:
            info = storage.info(path)
        except FileNotFoundError:
            return None
        return RemoteFile(address, info.get("size")) if info["type"] == "file" else None


class Bucket:
    """The objects with addresses below a folder, by the rest of their addresses (`keys`).

    All methods raise InputError if the storage cannot be asked.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.name = shown(self.address)
        self.can_create = address.lower().startswith(_WITH_CREATE)
        """Whether `create` is one step: of two that create the same object one fails."""

    def keys(self, folder: str) -> list[str]:
        """Return the keys of the objects in a folder, sorted."""
        with _errors(self.address, "listed"):
            storage, path = _storage(f"{self.address}/{folder}")
            start = path.rstrip("/") + "/"
            # A folder that gets its first object between two requests of s3fs is found as if it were an object.
            names = (name for name in storage.find(start) if name.startswith(start) and name != start)
            return sorted(f"{folder}/{name.removeprefix(start)}" for name in names)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of an object; None if there is none."""
        with _errors(self.address, "read"):
            storage, path = _storage(self.address)
            try:
                data: bytes = storage.cat_file(f"{path}/{key}")
            except FileNotFoundError:
                return None
            return data

    def create(self, key: str, data: bytes) -> bool:
        """Write an object. Return False if there is one already, which stays as it is."""
        with _errors(self.address, "written"):
            storage, path = _storage(self.address)
            try:
                storage.pipe_file(f"{path}/{key}", data, mode="create")
            except FileExistsError:
                return False
            return True

    def upload(self, paths: Sequence[str], keys: Sequence[str]) -> None:
        """Write objects with the bytes of files."""
        with _errors(self.address, "written"):
            storage, path = _storage(self.address)
            storage.put(list(paths), [f"{path}/{key}" for key in keys])

    def download(self, keys: Sequence[str], paths: Sequence[str]) -> bool:
        """Copy objects into files, several at once. Return False if one of them is not there."""
        with _errors(self.address, "read"):
            storage, path = _storage(self.address)
            try:
                storage.get([f"{path}/{key}" for key in keys], list(paths))
            except FileNotFoundError:
                return False
            return True

    def age_s(self, key: str) -> float:
        """Return the seconds since an object was written; 0 if it is not there."""
        from datetime import UTC, datetime

        with _errors(self.address, "read"):
            storage, path = _storage(self.address)
            try:
                written: datetime = storage.modified(f"{path}/{key}")
            except FileNotFoundError:
                return 0.0
            return (datetime.now(UTC) - written).total_seconds()

    def move(self, key: str, to: str) -> None:
        """Give an object another key. One that is not there is no error."""
        with _errors(self.address, "written"), suppress(FileNotFoundError):
            storage, path = _storage(self.address)
            storage.copy(f"{path}/{key}", f"{path}/{to}")
            storage.rm(f"{path}/{key}")

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""
        with _errors(self.address, "written"):
            storage, path = _storage(self.address)
            for key in keys:
                with suppress(FileNotFoundError):
                    storage.rm_file(f"{path}/{key}")


def beginnings(addresses: Sequence[str], size: int) -> Iterator[tuple[str, bytes]]:
    """Yield the first bytes of files in storages, `size` at most, with their addresses. Several are fetched at once.

    Files that cannot be read are left out: whoever reads them as a whole gets the error.
    """
    for start in range(0, len(addresses), _AT_ONCE):
        block = addresses[start : start + _AT_ONCE]
        try:
            storage, _ = _storage(block[0])
            keys = [_storage(address)[1] for address in block]
            parts = storage.cat_ranges(keys, 0, size, on_error="return")
        except Exception:  # noqa: BLE001  # each storage has errors of its own
            continue
        yield from ((address, part) for address, part in zip(block, parts, strict=True) if isinstance(part, bytes))


def download(address: str, file: BinaryIO, path: str, check: Callable[[int], None]) -> None:
    """Copy the file at an address into an open, empty file on this machine, at `path`.

    `check` is called with the number of bytes that have come from an http server. It may raise.

    Raises:
        InputError: It cannot be fetched, or is not whole.
        OSError: The copy cannot be written.
    """
    if _is_http(address):
        _download_http(address, file, check)
    else:
        _download_object(address, path)


def _download_http(address: str, file: BinaryIO, check: Callable[[int], None]) -> None:
    from http.client import HTTPException

    try:
        reply = _reply(address)
    except (OSError, HTTPException, ValueError) as err:
        raise InputError(f"cannot be fetched: {_reason(err)}", shown(address), "check the address") from err
    size, announced = 0, str(reply.headers.get("Content-Length"))
    since, due = monotonic(), _LEAST
    with reply:
        while block := _block(reply.read1, address):
            size += file.write(block)
            check(size)
            if size >= due:
                since, due = monotonic(), size + _LEAST
            elif monotonic() - since > _PATIENCE_S:
                help = "fetch it with another program, and read the file"
                raise InputError(f"too slow: less than {_LEAST >> 10} KiB in {_PATIENCE_S} s", shown(address), help)
    if _LENGTH.fullmatch(announced) and size < int(announced):
        raise InputError(f"ended after {size} of {int(announced)} bytes", shown(address), "fetch it again")


def _reply(address: str) -> Any:
    """Ask a server and return its reply. In urlopen each byte of the header has a limit of its own, here all of it has.

    Raises:
        OSError: There is no whole header in time, or another error of urlopen's.
    """
    from queue import Empty, SimpleQueue
    from threading import Event, Thread
    from urllib.request import urlopen

    answers, is_late = SimpleQueue[Any](), Event()

    def ask() -> None:
        try:
            reply = urlopen(address, timeout=_PATIENCE_S)
        except Exception as err:  # noqa: BLE001  # it is raised where it is waited for
            answers.put(err)
            return
        answers.put(reply)
        if is_late.is_set():
            reply.close()

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_PATIENCE_S)
    except Empty:
        is_late.set()
        raise TimeoutError(f"no answer in {_PATIENCE_S} s") from None
    try:
        if isinstance(answer, Exception):
            raise answer
        return answer
    finally:
        del answer  # an error holds this frame, and the frame would hold the error, with its open connection


def _block(read: Callable[[int], bytes], address: str) -> bytes:
    try:
        return read(_BLOCK)
    except Exception as err:  # http.client has errors of its own
        raise InputError(f"cannot be read to its end: {_reason(err)}", shown(address)) from err


def _download_object(address: str, path: str) -> None:
    with _errors(address, "fetched", path):
        storage, key = _storage(address)
        before = storage.info(key)
        if before["type"] != "file":
            raise InputError("this is a folder, not a log", shown(address), "name a log in it")
        storage.get_file(key, path)
        size = os.path.getsize(path)
        changed = size > _ONE_REQUEST and _state(storage, key) != _state_of(before)
        if changed or before.get("size") not in (None, size):
            raise InputError("changed while it was fetched", shown(address), "fetch it again")


def _state(storage: Any, key: str) -> tuple[Any, ...]:
    storage.invalidate_cache()
    return _state_of(storage.info(key))


def _state_of(info: dict[str, Any]) -> tuple[Any, ...]:
    """What differs between two states of an object."""
    return tuple(str(info.get(name)) for name in ("size", "ETag", "etag", "generation", "LastModified", "mtime"))


def _storage(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it. What it has listed earlier is forgotten."""
    from fsspec.core import url_to_fs

    if _USER.search(address):
        help = "give the credentials as to the storage's own tools: in the environment or a file"
        raise InputError("an address must not contain a user and password", shown(address), help)
    scheme, colon, rest = address.partition(":")
    storage, path = url_to_fs(scheme.lower() + colon + rest)
    storage.invalidate_cache()
    return storage, path


def _files(storage: Any, infos: dict[str, dict[str, Any]]) -> list[RemoteFile]:
    files = [(storage.unstrip_protocol(path), info) for path, info in infos.items() if info["type"] == "file"]
    return [RemoteFile(address, info.get("size")) for address, info in sorted(files, key=lambda file: file[0])]


@contextmanager
def _errors(address: str, what: str, path: str = "") -> Iterator[None]:
    """Turn the errors of storages into an InputError. An error about the file at `path` stays as it is."""
    try:
        yield
    except InputError:
        raise
    except Exception as err:  # each storage has errors of its own
        if path and isinstance(err, OSError) and err.errno and err.filename == path:
            raise
        _fail(err, address, what)


def _fail(err: Exception, address: str, what: str) -> NoReturn:
    place = shown(address)
    if isinstance(err, ImportError):
        reason = f"{address.partition('://')[0]}:// needs a package that is not installed: {_reason(err)}"
        raise InputError(reason, place, _EXTRA) from err
    if isinstance(err, ValueError) and "rotocol" in str(err):
        known = "known: s3://, gs://, hf://, http://, https://, and what fsspec knows"
        raise InputError("no storage is known for this address", place, known) from err
    if isinstance(err, FileNotFoundError):
        raise InputError("no such file", place, "check the address") from err
    if isinstance(err, PermissionError):
        help = "check the credentials and what they allow"
        raise InputError(f"cannot be {what}: permission denied", place, help) from err
    if "credential" in type(err).__name__.lower():
        help = "set them as for the storage's own tools; FSSPEC_S3_ANON=1 reads a public bucket without"
        raise InputError(f"cannot be {what}: no credentials were found", place, help) from err
    raise InputError(f"cannot be {what}: {_reason(err)}", place, "check the address and the network") from err


def _reason(err: Exception) -> str:
    """Return the message of an error, on one line, without what must not be shown."""
    return shown(" ".join(str(err).split()) or type(err).__name__)
