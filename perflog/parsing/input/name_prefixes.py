"""Names of nodes, services or pods that a launcher puts before each line of the processes that it started.

    worker-0: step 1, loss 2.5               pdsh, clush, the launcher of DeepSpeed
    trainer-0  | step 1, loss 2.5            docker compose
    train-worker-0 pytorch step 1, loss 2.5  stern: pod and container

Each becomes a label: `[pod/worker-0] step 1, loss 2.5`. A program may begin its own lines the same way
(`layer0: 1.2 ms`). So nearly all of the first lines must have a name, the names must alternate, and several kinds of
lines must follow them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern


class _Form(Struct, frozen=True):
    """How a launcher writes names: patterns of a name, of the separator after it, of the part in which names differ.

    `most_stems`: how many different names may remain without that part.
    """

    name: bytes
    separator: bytes
    varies: bytes
    most_stems: int


_FORMS = (
    _Form(rb"[A-Za-z][A-Za-z0-9_.-]{0,62}[-_][0-9]{1,6}", rb" {1,40}\| ?", rb"[0-9]+", 16),
    _Form(rb"[A-Za-z][A-Za-z_.-]{0,62}[0-9][A-Za-z0-9_.-]{0,62}|[0-9]+(?:\.[0-9]+){3}", rb": ", rb"[0-9]+", 2),
    _Form(rb"[a-z][a-z0-9.-]{0,62}-[a-z0-9]{1,16}", rb" [a-z][a-z0-9-]{0,62} ", rb"[a-z0-9]*[0-9][a-z0-9]*", 2),
)
_PATTERNS = [lazy_pattern(b"(?P<name>" + form.name + b")" + form.separator) for form in _FORMS]
_OF_A_PROGRAM = frozenset(
    b"batch block bucket case chunk config cuda device epoch exp experiment expert fold gpu group head iter iteration "
    b"layer microbatch npu phase run sample seed stage step stream test thread trial".split()
)
"""Words that programs number themselves: they name no nodes."""

_LONGEST = 256  # bytes: no name with what separates it from the line is longer
_LOOKED_AT = 400  # first lines
_SAMPLED = 8  # of them, before all are examined: most logs have no names
_NEARLY_ALL = 0.9
_KINDS = 3  # kinds of lines after the names, at least
_DIGITS = lazy_pattern(rb"[0-9]+")
_NO_LETTERS = lazy_pattern(rb"[^a-z]+")


class NamePrefixes(Struct, frozen=True):
    """The names before the lines of a log, as one pattern with a group, and the label that replaces each."""

    pattern: bytes
    label: bytes

    def labelled(self, blocks: Iterator[bytes]) -> Generator[bytes]:
        """Yield the blocks of a log with labels instead of the names.

        The last line of a block waits for the next one, unless it is longer than any name.
        """
        pattern, left, is_inside = lazy_pattern(self.pattern, re.MULTILINE), b"", False
        for block in blocks:
            data = left + block
            if is_inside:  # the line began in an earlier block
                rest, feed, data = data.partition(b"\n")
                yield rest + feed
                is_inside = not feed
            end = data.rfind(b"\n") + 1
            if len(data) - end > _LONGEST:
                is_inside, end = True, len(data)
            yield pattern.sub(self.label, data[:end])
            left = data[end:]
        yield pattern.sub(self.label, left)


def name_prefixes(head: bytes) -> NamePrefixes | None:
    """Return the names before the lines of a log, given its first bytes; None if they have none."""
    every = head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
    sampled = every[:: max(1, len(every) // _SAMPLED)]
    for form, pattern in zip(_FORMS, _PATTERNS, strict=True):
        if not any(map(pattern.match, sampled)):
            continue
        lines = [line for line in every if line.strip()]
        found = [match for line in lines if (match := pattern.match(line))]
        if len(found) < _NEARLY_ALL * len(lines) or not _alternate(found):
            continue
        is_table = b"|" in form.separator and all(b"|" in match.string[match.end() :] for match in found)
        if is_table:
            continue
        varies = re.compile(form.varies)
        stems = {form.varies.join(map(re.escape, varies.split(match["name"]))) for match in found}
        words = {_NO_LETTERS.sub(b"", match["name"].lower()) for match in found}
        if words == {b"rank"}:
            return NamePrefixes(b"^[Rr][Aa][Nn][Kk][-_.]?([0-9]{1,9})" + form.separator, rb"[rank\1]:")
        if len(stems) <= form.most_stems and not words & _OF_A_PROGRAM:
            return NamePrefixes(b"^(" + b"|".join(sorted(stems)) + b")" + form.separator, rb"[pod/\1] ")
    return None


def _alternate(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether names alternate, with several kinds of lines after them, one of these after several names."""
    names = [match["name"] for match in found]
    lines = [(match["name"], _DIGITS.sub(b"0", match.string[match.end() :])) for match in found]
    kinds = {text for _, text in lines}
    shared = {text for text in kinds if len({name for name, each in lines if each == text}) > 1}
    changes = sum(1 for _ in groupby(names))
    return changes > len(set(names)) > 1 and len(kinds) >= _KINDS and bool(shared)
