r"""Lines of programs inside the records that container runtimes keep of them: Docker's and Kubernetes' logs.

    {"log":"step 1, loss 2.5\n","stream":"stdout","time":"2026-05-18T16:04:46.3384Z"}
    2026-05-18T16:04:46.3384Z stdout F step 1, loss 2.5

Each record becomes the line of the program, after a label with the name of its pod or container, or else of
its stream, and its time: `[pod/stdout 2026-05-18T16:04:46.3384Z] step 1, loss 2.5`. A line that the runtime has divided
is where its first part was, and an empty line replaces each other part. So the number of lines stays the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern

_TEXTS = ("log", "textPayload", "message", "msg", "line")
"""Members that may hold the line of the program."""

_TIMES = ("time", "timestamp", "@timestamp", "ts")
_NAMES = ("pod_name", "pod", "container_name", "container")
_ABOUT = frozenset(
    "stream attrs tag level severity kubernetes docker container_id container_name container pod pod_name namespace "
    "namespace_name labels resource logName insertId receiveTimestamp hostname host source logtag _p".split()
)
"""Members that name the origin of the line. A record with other members is the program's own."""

_MARKS = frozenset("stream attrs kubernetes docker container_id container_name container resource logtag".split())
"""Each record of a container runtime or its collector has one of these members."""

_CRI = lazy_pattern(
    rb"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})) "
    rb"(?P<stream>stdout|stderr) (?P<tag>[FP])(?::\S*)?(?: (?P<text>.*))?",
)
_TIME = lazy_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:\.[0-9]{1,9})?[0-9]*(?:Z|[+-][0-9]{2}:?[0-9]{2})?")
_NO_NAME = lazy_pattern(r"[^A-Za-z0-9_./-]+")
_LONGEST_NAME = 100
_MOST_HELD = 4096  # lines that wait for the end of a divided one
_LOOKED_AT = 200  # first lines
_ENOUGH = 0.5  # share of them that are records


class _Record(Struct, frozen=True):
    """A line of a program: label, content, whether the runtime has divided it here, and its origin."""

    label: bytes
    text: bytes
    is_divided: bool
    origin: bytes


def holds_records(head: bytes) -> bool:
    """Return whether a log consists of records of a container runtime, given its first bytes."""
    *first, rest = head.split(b"\n", _LOOKED_AT)
    lines = [line for line in first if line.strip()] or [rest]
    # Most logs have no line that begins with a brace or the year of a date.
    found = sum(_record_of(line) is not None for line in lines if line[:1] == b"{" or line[4:5] == b"-")
    return bool(found) and found >= _ENOUGH * len(lines)


def _record_of(line: bytes) -> _Record | None:
    """Return the record in a line; None if the line is no record."""
    if line.startswith(b"{"):
        return _object_record(line)
    match = _CRI.fullmatch(line.rstrip(b"\r")) if line[:1].isdigit() else None
    if match is None:
        return None
    label = b"[pod/" + match["stream"] + b" " + match["time"] + b"] "
    return _Record(label, match["text"] or b"", match["tag"] == b"P", match["stream"])


def _object_record(line: bytes) -> _Record | None:
    try:
        members = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):  # the second: objects nested too deep
        return None
    if not isinstance(members, dict):
        return None
    key = next((key for key in _TEXTS if isinstance(members.get(key), str)), None)
    if key is None or not _MARKS & members.keys() or not (_ABOUT | {key, *_TIMES}).issuperset(members):
        return None
    try:
        text = members[key].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair of surrogates
        text = members[key].encode("utf-8", "replace")
    stream = str(members.get("stream") or "stdout")
    name = _NO_NAME.sub("-", _name_of(members) or stream)[:_LONGEST_NAME].strip("-")
    time = next((m[0] for key in _TIMES if (m := _TIME.match(str(members.get(key, ""))))), "").replace(" ", "T")
    label = f"[pod/{name}{' ' * bool(time)}{time}] ".encode()
    is_divided = (key == "log" and not text.endswith(b"\n") and "logtag" not in members) or (
        members.get("logtag", members.get("_p")) == "P"
    )
    return _Record(label, text, is_divided, f"{name} {stream}".encode())


def _name_of(members: Mapping[str, object]) -> str:
    """Return the name of the pod and its container; "" if the record has none."""
    inner = members.get("resource")
    objects = (members, members.get("kubernetes"), inner.get("labels") if isinstance(inner, dict) else None)
    known = [str(each[name]) for each in objects if isinstance(each, dict) for name in _NAMES if each.get(name)]
    attrs = members.get("attrs")
    return "/".join(dict.fromkeys(known)) or (str(attrs.get("tag", "")) if isinstance(attrs, dict) else "")


class Unwrapper:
    """Takes the lines of programs out of the records of a log, given piece by piece."""

    def __init__(self) -> None:
        self._left = b""
        self._held: list[list[bytes]] = []  # the parts of the lines from the first divided one on
        self._divided: dict[bytes, list[bytes]] = {}  # by origin, the line in `_held` that goes on

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that are complete with a further piece of the log."""
        *lines, self._left = (self._left + piece).split(b"\n")
        for line in lines:
            self._add(line, b"\n")
        return self._complete()

    def finish(self) -> bytes:
        """Return the rest of the lines."""
        if self._left:
            self._add(self._left, b"")
        self._left = b""
        self._divided.clear()
        return self._complete()

    def _add(self, line: bytes, end: bytes) -> None:
        record = _record_of(line)
        parts = [line]
        if record is not None:
            text = re.sub(rb"\r*\n", b"\r", record.text.rstrip(b"\r\n"))  # several lines at once are parts of one
            parts = self._divided.pop(record.origin, []) or [record.label]
            is_first = len(parts) == 1
            parts.append(text)
            if record.is_divided:
                self._divided[record.origin] = parts
            parts = parts if is_first else []
        self._held.append(parts)
        self._held.append([end])

    def _complete(self) -> bytes:
        """Return the held lines before the first divided one that goes on."""
        if len(self._held) > 2 * _MOST_HELD:
            self._divided.clear()
        open_lines = {id(parts) for parts in self._divided.values()}
        count = next((k for k, parts in enumerate(self._held) if id(parts) in open_lines), len(self._held))
        done, self._held = self._held[:count], self._held[count:]
        return b"".join(part for parts in done for part in parts)


def unwrapped(blocks: Iterator[bytes]) -> Generator[bytes]:
    """Yield the lines of programs in the blocks of a log of records."""
    unwrapper = Unwrapper()
    for block in blocks:
        yield unwrapper.feed(block)
    yield unwrapper.finish()
