"""Names of logs as users write them: paths, globs, folders, archives, addresses, files in braces, one run (LOG#3)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from perflog.errors import BinaryFileError, EmptyLogError, InputError, UnknownTableError, nearest
from perflog.files import remote
from perflog.files.file_names import usable
from perflog.files.remote import is_in_storage, is_remote
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.archives import is_archive, members, unpacked_path
from perflog.units import first_few

STDIN = "-"

REFERENCE = "reference:"
"""The prefix of a name that means a reference run: reference:moe_layer.txt#1."""

NOTHING_KNOWN = "nothing in them is known"
"""Why files of a folder are left out."""

# Other files that are often in a folder with logs. In a storage a Parquet file would be fetched to see its columns.
_NOT_LOGS = frozenset(".py .so .pt .pth .bin .safetensors .png .jpg .npz .npy .pyc .o .a".split())
_NOT_FETCHED = _NOT_LOGS | {".parquet", ".zip", ".tar"}
_DOCUMENTS = frozenset(".md .rst .html .adoc".split())

_BRACES = lazy_pattern(r"(.*)\{([^{}]+)\}([^{}]*)", re.DOTALL)
_RANGE = lazy_pattern(r"(0|[1-9]\d*)\.\.(0|[1-9]\d*)")
_KERNEL_FOLDERS = ("/proc", "/sys", "/sys/kernel/debug", "/sys/kernel/tracing")
_NUMBERED = lazy_pattern(r"(.+):([1-9]\d*)", re.DOTALL)
_MOST_NAMED, _MOST_IN_BRACES = 3, 8  # files in a sentence; in braces of a name: a node often has as many ranks
_MAX_FILES = 1 << 20  # files of one name


@dataclass(frozen=True)
class LogName:
    """The name of one log. The user's string is parsed once; all later code takes this value.

    Attributes:
        log: The name without the run: a path, an address, `-`, or a name with braces for several files.
        files: The files of `log`; mostly one, which is then `log` itself.
        run: The run that was asked for, by index or label; empty for all runs.
        remote_size: The bytes of a file on object storage, if its listing states them.
        is_found: Whether the file was found in a folder or archive, and nobody named it.
        settings: The settings of its runs in files beside it, by name.
    """

    log: str
    files: tuple[str, ...]
    run: str = ""
    remote_size: int | None = field(default=None, compare=False, repr=False)
    is_found: bool = field(default=False, compare=False, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> LogName:
        """Split a name into log, files and run.

        If a file exists under the whole name, the name means that file, even with `#`, `:` or braces in it.

        Example:
            >>> LogName.parse("rank{0..2}.json#warm")
            LogName(log='rank{0..2}.json', files=('rank0.json', 'rank1.json', 'rank2.json'), run='warm')
        """
        log, run = (text, "") if _exists(usable(text)) else split_run(text)
        return cls(log, _files(log), run)

    @classmethod
    def from_file(cls, path: str, run: str = "") -> LogName:
        """Return the name of a file that was found in a folder: nothing in its path has a meaning."""
        return cls(path, (path,), run)

    @classmethod
    def from_files(cls, paths: Sequence[str]) -> LogName | None:
        """Return one name for several files, as shells expand it: rank{0..7}.json, or {a,b}.json.

        None if no name can hold them: the paths contain braces or commas where they differ, or braces after that.
        """
        if len(paths) == 1:
            return cls.from_file(paths[0])
        # Digits beside the part that differs go into the braces too: a range consists of whole numbers.
        start = re.sub(r"\d+$", "", _common_start(paths))
        reversed_rests = [path[len(start) :][::-1] for path in paths]
        end = _common_start(reversed_rests)[::-1].lstrip("0123456789")
        if any(len(path) == len(start) + len(end) for path in paths) and not start.endswith(("/", "{", "}", ",")):
            start = start[:-1]  # run.lo{g.1,g} of run.log.1 and run.log: no part is empty
        middles = [path[len(start) : len(path) - len(end)] for path in paths]
        # The start may contain braces: `parse` takes the last ones of a name.
        if "{" in end or "}" in end or any(set("{},") & set(middle) or not middle for middle in middles):
            return None
        first = int(middles[0]) if re.fullmatch(r"0|[1-9]\d{0,8}", middles[0]) else None
        if first is not None and middles == [str(first + i) for i in range(len(paths))]:
            inside = f"{first}..{first + len(paths) - 1}"
        else:
            inside = ",".join(middles)
        return cls(f"{start}{{{inside}}}{end}", tuple(paths))

    def __str__(self) -> str:
        """The string that `parse` reads back, if the name has no passwords and signatures: messages show it."""
        log = remote.shown(self.log)
        return f"{log}#{self.run}" if self.run else log

    @property
    def whole(self) -> LogName:
        """The same log without the run that was asked for."""
        return replace(self, run="")

    @property
    def is_found_document(self) -> bool:
        """Whether the file is a document about logs, such as a README, that was found in a folder."""
        return self.is_found and not _may_be_log(self.log, _DOCUMENTS)

    @property
    def is_glob(self) -> bool:
        """Whether the name is a pattern, which `logs` has to expand."""
        if is_remote(self.log) and not is_in_storage(self.log):
            return False
        return not _exists(self.log) and re.search(r"[*?[]", self.log) is not None

    def exists(self) -> bool:
        """Return whether there is something to read: standard input, an address, a file, a folder, a matching glob."""
        if is_remote(self.log):
            return True  # reading it shows whether it exists
        if self.is_glob:
            return bool(_matching_files(self.log))
        return self.log == STDIN or _exists(self.files[0])

    def logs(self) -> list[LogName]:
        """Return the logs of the name: the sorted files of a folder, archive or glob, else this log alone."""
        if is_in_storage(self.log):
            return self._logs_in_storage()
        is_found = True
        if os.path.isdir(self.log):
            paths = _files_in(self.log)
        elif is_archive(self.log):
            paths = _files_of_archive(self.log)
            if not paths:
                raise _no_logs(self.log)
        elif self.is_glob:
            is_found = False
            paths = _matching_files(self.log)
            if not paths:
                raise InputError(
                    "no file matches", self.log, "check the pattern; folders and hidden files do not count"
                )
        else:
            return [self]
        files = (file for path in paths for file in _unpacked(path))
        return [replace(LogName.from_file(file, self.run), is_found=is_found) for file in files]

    def _logs_in_storage(self) -> list[LogName]:
        """Return the logs of an address in a storage. One that cannot be asked for is an error when it is read."""
        if self.is_glob:
            files = [file for file in remote.matching(self.log) if not _is_hidden(file.address, self.log)]
            if not files:
                raise InputError(
                    "no file matches", str(self), "check the pattern; folders and hidden files do not count"
                )
        elif len(self.files) > 1:
            return [self]
        else:
            try:
                file = remote.found(self.log)
                every = [] if file else remote.under(self.log)
            except InputError:
                return [self]
            if not every:
                return [replace(self, remote_size=file.size) if file else self]
            files = [
                file
                for file in every
                if not _is_hidden(file.address, self.log) and _may_be_log(file.address, _NOT_FETCHED)
            ]
            if not files:
                raise _no_logs(str(self))
        return [replace(LogName.from_file(file.address, self.run), remote_size=file.size) for file in files]


def expand(texts: Iterable[str]) -> list[LogName]:
    """Parse the names of logs, and replace folders and globs by their files. The order stays."""
    return [log for text in texts for log in LogName.parse(text).logs()]


def left_out(reason: str, names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """Return the sentence on files of a folder that are left out: a few of them by name, and the number of others."""
    return f"left out, because {reason}: {first_few(names, most)}"


def why_left_out(error: InputError) -> str:
    """Return why files of a folder with this error are left out."""
    if isinstance(error, UnknownTableError):
        return f"each is {error.reason}"
    if isinstance(error, EmptyLogError):
        return "they are empty"
    return "they are binary" if isinstance(error, BinaryFileError) else NOTHING_KNOWN


def split_run(text: str) -> tuple[str, str]:
    """Return log and run of LOG#3, LOG#label, or LOG:3, which needs no quotes in any shell; the run is empty in LOG.

    Example:
        >>> split_run("run.txt#3"), split_run("run.txt:3"), split_run("run.txt")
        (('run.txt', '3'), ('run.txt', '3'), ('run.txt', ''))
    """
    if "#" in text:
        log, _, run = text.rpartition("#")
        return log, run
    numbered = None if is_remote(text) else _NUMBERED.fullmatch(text)
    return (numbered[1], numbered[2]) if numbered else (text, "")


def base_name(log: str) -> str:
    """Return the last part of the path of a log; for files of several folders, of the folder that holds them all.

    Example:
        >>> base_name("job/rank_{0..3}.log"), base_name("job/attempt_0/{0/stdout,0/stderr}.log")
        ('rank_{0..3}.log', 'attempt_0')
    """
    braces = _BRACES.fullmatch(log)
    if braces is None or "/" not in braces[2]:
        return os.path.basename(shown_name(log))
    return os.path.basename(os.path.dirname(braces[1])) or shown_name(log)


def shown_name(log: str) -> str:
    """Return the name of a log for a sentence: of many files in braces the first and the last one.

    Example:
        >>> shown_name("job/rank_{00,01,02,03,04,05,06,07,08,09}.log")
        'job/rank_{00 ... 09}.log'
    """
    braces = _BRACES.fullmatch(log)
    names = braces[2].split(",") if braces is not None else []
    if braces is None or len(names) <= _MOST_IN_BRACES:
        return log
    return f"{braces[1]}{{{names[0]} ... {names[-1]}}}{braces[3]}"


def _exists(path: str) -> bool:
    """Whether there is a file or folder on this machine, or a file in an archive."""
    return not is_remote(path) and (os.path.exists(path) or os.path.exists(unpacked_path(path)))


def _matching_files(pattern: str) -> list[str]:
    """Return the files that a pattern matches, sorted."""
    import glob

    return sorted(path for path in glob.glob(pattern, recursive=True) if not _is_special(path))


def _is_special(path: str) -> bool:
    """Whether a path is no file of a disk: a folder, or a pipe, a socket or the like, which a warning names."""
    try:
        status = os.stat(path)
    except OSError:
        return False  # reading it reports the error
    if stat.S_ISDIR(status.st_mode):
        return True
    if stat.S_ISREG(status.st_mode) and not is_of_kernel(status):
        return False
    import warnings

    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFREG: "a file of the kernel"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    warnings.warn(f"{path}: left out: it is {kind}: reading it may never end", stacklevel=2)
    return True


def is_of_kernel(status: os.stat_result) -> bool:
    """Whether the kernel makes up a file while it is read, as in /proc. Such a file has no known size."""
    return status.st_dev in _kernel_devices()


@cache
def _kernel_devices() -> set[int]:
    return {os.stat(folder).st_dev for folder in _KERNEL_FOLDERS if os.path.ismount(folder)}


def cannot_open(path: str, err: OSError) -> InputError:
    """Return the error for a log that the system does not open; for a missing file with the nearest name there is."""
    if not isinstance(err, FileNotFoundError):
        return InputError(f"cannot be opened: {err.strerror or err}", path, "check its permissions")
    if path.startswith(REFERENCE):
        help = "reference runs are tables, not logs: `perflog RUN`, `perflog compare` and others take this name"
        return InputError("no such file", path, help)
    parts = path.split(",")
    if len(parts) > 1 and all(map(os.path.exists, parts)):
        help = "give several logs as words of their own; `perflog compare` takes repeats of a side as " + " ".join(
            f"a={part}" for part in parts[:2]
        )
        return InputError("no such file", path, help)
    folder, base = os.path.split(path)
    try:
        near = nearest(base, os.listdir(folder or "."))
    except OSError:
        return InputError("no such file", path, f"there is no folder {folder}")
    return InputError("no such file", path, f"did you mean {os.path.join(folder, near)}?" if near else "check the name")


def _files(log: str) -> tuple[str, ...]:
    """Return the files of a name with braces; for any other name, the name itself."""
    braces = _BRACES.fullmatch(log)
    if braces is None or (is_remote(log) and not is_in_storage(log)) or _exists(log):
        return (log,)
    start, inside, end = braces.groups()
    middles = inside.split(",")
    if numbers := _RANGE.fullmatch(inside):
        first, last = int(numbers[1]), int(numbers[2])
        middles = [str(i) for i in range(first, last + 1)] if first < last < first + _MAX_FILES else []
    return tuple(f"{start}{middle}{end}" for middle in middles) if len(middles) > 1 else (log,)


def _files_in(folder: str) -> list[str]:
    """Return all files under a folder that may be logs, sorted; no pipes, sockets and devices."""

    def refuse(err: OSError) -> None:
        raise cannot_open(str(err.filename), err)

    paths = []
    for directory, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [
            path
            for name in files
            if not name.startswith(".") and _may_be_log(name)
            if not _is_special(path := os.path.join(directory, name))
        ]
    if not paths:
        raise _no_logs(folder)
    return sorted(paths)


def _files_of_archive(path: str) -> list[str]:
    """Return all files in an archive that may be logs, sorted."""
    return [name for name in members(path) if _may_be_log(name)]


def _unpacked(path: str) -> list[str]:
    """Return a file, or of an archive its files that may be logs. One that is damaged is an error when it is read."""
    try:
        return _files_of_archive(path) if is_archive(path) else [path]
    except InputError:
        return [path]


def _may_be_log(name: str, others: Collection[str] = _NOT_LOGS) -> bool:
    """Whether a file may be a log, by the end of its name."""
    return os.path.splitext(name)[1].lower() not in others


def _is_hidden(address: str, searched: str) -> bool:
    """Whether a file in a storage, or a folder around it, is hidden. What the searched name spells out is not."""
    folder = re.split(r"[*?[]", searched)[0]
    folder = folder.rpartition("/")[0] if folder != searched else folder.rstrip("/")
    rest = address.removeprefix(folder)
    return "/." in rest and "/." not in searched.removeprefix(folder)


def _no_logs(folder: str) -> InputError:
    help = "hidden files, files like .py, .pt or .png, and pipes and devices do not count"
    return InputError("no logs in this folder", folder, help)


def _common_start(texts: Sequence[str]) -> str:
    """Return the longest common prefix of the strings."""
    first, last = min(texts), max(texts)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
