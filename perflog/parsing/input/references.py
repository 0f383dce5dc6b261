"""Names of logs: paths, globs, folders, addresses, and the run of a log behind a `#`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from perflog.errors import InputError

_NO_LOG = frozenset(".py .so .pt .pth .bin .safetensors .png .jpg .parquet .npz .npy .pyc .o .a .zip .tar".split())


def is_url(name: str) -> bool:
    """Whether a name is an address to fetch from."""
    return name.startswith(("http://", "https://"))


def split_run(name: str) -> tuple[str, str]:
    """Name of the log, and the run that "#run" selects; a file whose name holds "#" is that file."""
    if "#" not in name or os.path.exists(name):
        return name, ""
    log, _, run = name.rpartition("#")
    return log, run


def expand(names: Sequence[str]) -> list[str]:
    """The logs that are meant, in order: a glob or a folder becomes its sorted files, all else stays as it is."""
    logs: list[str] = []
    for name in names:
        log, run = split_run(name)
        if os.path.isdir(log):
            found = _walk(log)
        elif is_url(log) or os.path.exists(log) or not re.search(r"[*?[]", log):
            found = [log]
        else:
            import glob

            found = sorted(path for path in glob.glob(log, recursive=True) if not os.path.isdir(path))
            if not found:
                raise InputError("no file matches", log, "check the pattern; folders and hidden files do not count")
        logs += [f"{path}#{run}" if run else path for path in found]
    return logs


_BRACES = re.compile(r"(.*)\{([^{}]+)\}([^{}]*)", re.DOTALL)
_RANGE = re.compile(r"(0|[1-9]\d*)\.\.(0|[1-9]\d*)")


def braced(names: Sequence[str]) -> str | None:
    """One name for several files, as shells expand it: rank{0..7}.json, or {a,b}.json; None if they have none."""
    if len(names) == 1:
        return names[0]
    start = re.sub(r"\d+$", "", _alike(names))
    end = _alike([name[len(start) :][::-1] for name in names])[::-1].lstrip("0123456789")
    middles = [name[len(start) : len(name) - len(end)] for name in names]
    if "{" in end or "}" in end or any(set("{},") & set(middle) or not middle for middle in middles):
        return None
    first = int(middles[0]) if re.fullmatch(r"0|[1-9]\d{0,8}", middles[0]) else None
    if first is not None and middles == [str(first + i) for i in range(len(names))]:
        return f"{start}{{{first}..{first + len(names) - 1}}}{end}"
    return f"{start}{{{','.join(middles)}}}{end}"


def _alike(names: Sequence[str]) -> str:
    """What all names begin with."""
    least, most = min(names), max(names)
    return least[: next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), len(least))]


def unbraced(name: str) -> list[str]:
    """The files of a name with braces; of any other name itself."""
    found = _BRACES.fullmatch(name)
    if found is None or is_url(name) or os.path.exists(name):
        return [name]
    start, middle, end = found.groups()
    if counted := _RANGE.fullmatch(middle):
        first, last = int(counted[1]), int(counted[2])
        return [f"{start}{i}{end}" for i in range(first, last + 1)] if first < last < first + _MOST else [name]
    return [f"{start}{part}{end}" for part in middle.split(",")] if "," in middle else [name]


_MOST = 1 << 20  # files of one name


def _walk(folder: str) -> list[str]:
    def refuse(err: OSError) -> None:
        raise cannot_open(str(err.filename), err)

    found = []
    for path, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            os.path.join(path, name)
            for name in files
            if not name.startswith(".") and os.path.splitext(name)[1].lower() not in _NO_LOG
        ]
    if not found:
        raise InputError("no logs in this folder", folder, "hidden files and files like .py, .pt or .png do not count")
    return sorted(found)


def cannot_open(name: str, err: OSError) -> InputError:
    """The error for a log that the system will not open; for a missing one with the nearest name there is."""
    if not isinstance(err, FileNotFoundError):
        return InputError(f"cannot be opened: {err.strerror or err}", name, "check its permissions")
    import difflib

    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, os.listdir(folder or "."), 1)
    except OSError:
        return InputError("no such file", name, f"there is no folder {folder}")
    help = f"did you mean {os.path.join(folder, near[0])}?" if near else "check the name"
    return InputError("no such file", name, help)
