"""Dicts that a program prints over several lines of its log, as `pprint` does, alone or behind the name of a Ray actor.

    (TaskRunner pid=7) {'actor': {'lr': 1e-06,        (TaskRunner pid=7) {'actor': {'lr': 1e-06, 'steps': 5}}
    (TaskRunner pid=7)            'steps': 5}}

Each becomes one line, and an empty line replaces each other line of it. So lines keep their numbers. A dict that does
not end, or that lines of another process interrupt, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence

from perflog.lazy_patterns import lazy_pattern

_COLOUR = rb"(?:\x1b\[[0-9;]*m)*"
_ACTOR = rb"\([A-Za-z_][A-Za-z0-9_.:-]* pid=[0-9]+(?:, ip=[0-9a-f.:]+)?\)"
_FRONT = rb"(?:\[pod/[^\]\n]{1,80}\] )?" + _COLOUR + _ACTOR + _COLOUR + b" "
_BEGIN = lazy_pattern(rb"(?P<front>(?:" + _FRONT + rb")?)(?P<text>\{['\"][^\n]*)")
_ACTORS = lazy_pattern(rb"^" + _COLOUR + _ACTOR, re.MULTILINE)
_BRACE = lazy_pattern(rb"\{['\"]")
_STRING = lazy_pattern(rb"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_OPENS, _CLOSES = lazy_pattern(rb"[({\[]"), lazy_pattern(rb"[)}\]]")
_CUT_STRING = lazy_pattern(rb"""(?P<quote>['"])\n(?P=quote)""")
_MOST_LINES = 4096


def has_dicts(head: bytes) -> bool:
    """Return whether a log may have such dicts, given its first bytes: it has one, or lines of Ray actors."""
    return _ACTORS.search(head) is not None or _next_begin(head[: head.rfind(b"\n") + 1], 0) is not None


def joined_dicts(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log with each dict on one line."""
    rest, held, depth, front = b"", list[bytes](), 0, b""
    for block in blocks:
        data = rest + block
        end = data.rfind(b"\n") + 1
        data, rest = data[:end], data[end:]
        place = 0
        while place < len(data):
            if not held:
                begin = _next_begin(data, place)
                start = begin.start() if begin is not None else len(data)
                yield data[place:start]
                if begin is None:
                    break
                place = data.index(b"\n", start) + 1
                held, depth, front = [data[start:place]], _depth(begin["text"]), begin["front"]
                if depth <= 0:  # text that begins as a dict does
                    yield held.pop()
                continue
            after = data.index(b"\n", place) + 1
            text = _text_after(data[place:after], front)
            if not text or len(held) == _MOST_LINES:
                yield b"".join(held)
                held = []
                continue
            held.append(data[place:after])
            depth += _depth(text)
            place = after
            if depth <= 0:
                yield _joined(held, front)
                held = []
    yield b"".join(held) + rest


def _next_begin(data: bytes, place: int) -> re.Match[bytes] | None:
    """Match the first line from a place on with which a dict begins that does not end on it."""
    while (brace := _BRACE.search(data, place)) is not None:
        place = data.index(b"\n", brace.start())
        if not data[brace.start() : place].rstrip().endswith(b"}"):
            begin = _BEGIN.match(data, data.rfind(b"\n", 0, brace.start()) + 1)
            if begin is not None and begin.start("text") == brace.start():
                return begin
    return None


def _text_after(line: bytes, front: bytes) -> bytes:
    """Return the text of a further line of a dict; b"" if the line is none: it is indented below the first bracket."""
    text = line.removeprefix(front) if line.startswith(front) else b""
    return text.strip() if text.startswith((b" ", b"\t")) else b""


def _depth(text: bytes) -> int:
    """Return how many more brackets a text opens than it closes, outside of its strings."""
    text = _STRING.sub(b"", text)
    return len(_OPENS.findall(text)) - len(_CLOSES.findall(text))


def _joined(lines: Sequence[bytes], front: bytes) -> bytes:
    text = b"\n".join([lines[0].rstrip(), *(_text_after(line, front) for line in lines[1:])])
    text = _CUT_STRING.sub(b"", text)  # pprint cuts a long string in two
    return text.replace(b"\n", b" ") + b"\n" * sum(line.endswith(b"\n") for line in lines)
