"""Archives as folders of logs: zip and tar files. Their members are named `ARCHIVE/MEMBER`.

An archive is unpacked once, into the folder of temporary files; processes of a pool find there what another one has
unpacked. Only plain files count, and none outside of the archive's own folder. What it unpacks to is bounded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING

from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input.compression import codec_of, decompressor
from perflog.parsing.input.limits import check_room, check_unpacked

if TYPE_CHECKING:
    import tarfile

_ENDS = (".zip", ".tar", ".tgz", ".txz", ".tbz2", ".tzst", *(f".tar.{end}" for end in ("gz", "xz", "bz2", "zst")))
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_BLOCK = 1 << 20
_MOST_MEMBERS = 1 << 17

_Member = tuple[str, IO[bytes]]


def is_archive(path: str) -> bool:
    """Return whether a file is an archive: by the end of its name, and a zip file by its first bytes too."""
    if not path.lower().endswith(_ENDS) or not os.path.isfile(path):
        return False
    if not path.lower().endswith(".zip"):
        return True
    with suppress(OSError), open(path, "rb") as file:
        return file.read(4) in _ZIP
    return False


def members(path: str) -> list[str]:
    """Return the names of the plain files of an archive, sorted: `ARCHIVE/MEMBER`.

    Raises:
        InputError: It cannot be unpacked, or not into the room that there is.
    """
    folder = _unpacked(path)
    found = []
    for directory, _, files in os.walk(folder):
        inside = os.path.relpath(directory, folder)
        found += [os.path.normpath(os.path.join(path, inside, name)) for name in files]
    return sorted(found)


def unpacked_path(name: str) -> str:
    """Return the path where the bytes of a file are: of a member of an archive where it is unpacked, else its name.

    Raises:
        InputError: The archive cannot be unpacked.
    """
    if os.path.exists(name):
        return name
    above = os.path.dirname(name)
    while above and not os.path.exists(above):
        above = os.path.dirname(above)
    if not is_archive(above):
        return name
    member = os.path.relpath(name, above)
    is_inside = member.split(os.sep)[0] != os.pardir  # `logs.zip/../run.txt` is no member
    return os.path.join(_unpacked(above), member) if is_inside else name


def _unpacked(path: str) -> str:
    """Return the folder with the members of an archive."""
    status = os.stat(path)
    return _folder_of(os.path.realpath(path), status.st_mtime_ns, status.st_size, path)


@cache
def _folder_of(real: str, changed_ns: int, size: int, name: str) -> str:
    import hashlib

    key = hashlib.sha256(f"{real}\0{changed_ns}\0{size}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = os.path.join(temporary.folder(), f"archive-{key}")
    if os.path.isdir(folder):
        return folder
    part = f"{folder}.{os.getpid()}"
    try:
        _unpack(real, part, size, name)
        with suppress(OSError):  # another process was faster
            os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _unpack(path: str, folder: str, size: int, name: str) -> None:
    """Write the plain files of an archive into a folder."""
    os.makedirs(folder)
    done = count = 0
    try:
        with closing(_members_of_zip(path) if path.lower().endswith(".zip") else _members_of_tar(path)) as found:
            for member, file in found:
                count += 1
                if count > _MOST_MEMBERS:
                    raise InputError(
                        f"it has more than {_MOST_MEMBERS:,} files", name, "unpack it, and name its folder"
                    )
                target = os.path.join(folder, *PurePosixPath(member).parts)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as out:
                    while block := file.read(_BLOCK):
                        done += len(block)
                        check_unpacked(done, size, name)
                        check_room(done, name)
                        out.write(block)
    except InputError:
        raise
    except (RuntimeError, NotImplementedError) as err:  # a password, or a method that nobody knows
        raise InputError(f"cannot be unpacked: {err}", name, "unpack it, and name its folder") from err
    except Exception as err:  # each codec has errors of its own
        if count:
            kept = f"the first {count} of its files were kept, the last of them perhaps in part"
            import warnings

            warnings.warn(f"{name}: ends early or is damaged ({err}): {kept}", stacklevel=2)
            return
        raise InputError(f"is damaged or not an archive: {err}", name, "check it with `tar -tf` or `unzip -t`") from err


def _members_of_zip(path: str) -> Generator[_Member]:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
            if not info.is_dir() and not is_link and _is_inside(info.filename):
                with archive.open(info) as file:
                    yield info.filename, file


def _members_of_tar(path: str) -> Generator[_Member]:
    with _opened(path) as archive:
        for info in archive:
            file = archive.extractfile(info) if info.isreg() and _is_inside(info.name) else None
            if file is not None:
                yield info.name, file


@contextmanager
def _opened(path: str) -> Iterator[tarfile.TarFile]:
    """Open a tar file as a stream: each member is read once, in the order of the file."""
    import tarfile

    with open(path, "rb") as file:
        codec = codec_of(file.read(16))
    with closing(decompressor(path, codec)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        yield archive


def _is_inside(name: str) -> bool:
    """Whether a member stays inside the folder of its archive, and neither it nor a folder above it is hidden."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return bool(parts) and "\0" not in name and not any(part.startswith((".", "/")) or ":" in part for part in parts)
