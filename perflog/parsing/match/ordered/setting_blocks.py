"""Finds numbers that look measured in blocks of settings, and leaves their lines unread.

    Config:
      decode latency: 30 ms
      max_batch: 8

Only the lines above such a number show that it is a setting. So this pass follows the scan. It looks at lines
with whole numbers alone: a fraction was measured. In the same way a block may be of another run: `Previous run:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.formats.families.header_facts import LABELS_OF_ANOTHER, label_of_another
from perflog.formats.families.measured_lines import ENDS_IN_SETTINGS
from perflog.formats.surroundings import GLUED_PREFIX
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.ordered.segments import without_records
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.parsing.match.records import Batch, FormatLine

Above = Sequence[str]
"""The last lines before a batch, without rank labels."""

_MOST_ABOVE = 40  # lines of a block above a number
_LONGEST = 200  # bytes of a line of a block

_PREFIX = lazy_pattern(GLUED_PREFIX)
_FRACTION = lazy_pattern(r"[0-9]\.[0-9]")
_RULE = lazy_pattern(r"\W*")
_HEADING = lazy_pattern(r"[^:=]*[A-Za-z)\]][ =*#-]*:[ =*#-]*|[=*#-]{2,}.*[A-Za-z].*|#+ .*")
_PAIR = lazy_pattern(r"[- ]*[\x22']?[A-Za-z][^:=]{0,60}[:=].+")
_RESULTS = lazy_pattern(r"(?i).*(?:result|summary|benchmark|metric|perf|stat|report|measure|tim(?:e|ing))")
_OF_A_FILE = lazy_pattern(r".*[:=] ?[\x22']?(?:true|false|null|~|(?:~|\.{0,2})/[^ ]*)[\x22']?,?")
"""A value as configuration files have it."""

_SIGN = lazy_pattern(
    rb"(?i)\b(?:config|setting|arg|option|param|hparam|hyper|flag|limit)|[:=] ?[\x22']?(?:true|false|null|~|\.{0,2}/)"
)
"""What is in a heading of settings, or in a value as configuration files have it: a block of settings has one."""


_SIGN_OF_ANOTHER = lazy_pattern(rb"(?im)\b(?:" + "|".join(LABELS_OF_ANOTHER).encode() + rb")\b[^:\n]{0,40}:[ \t\r]*$")
"""What ends the line above settings of another run."""


def without_settings(lines: Sequence[FormatLine], batch: Batch, above: Above = ()) -> tuple[Batch, Above]:
    """Leave lines of measured numbers unread that are in a block of settings.

    Args:
        lines: The lines of the scanner.
        batch: The batch.
        above: The last lines before it.

    Returns:
        The batch without these records, and its own last lines.
    """
    removed: dict[int, Mask] = {}
    measured = [kind for kind in batch.records if lines[kind][1].may_be_setting]
    settings = [kind for kind in batch.records if lines[kind][0].generic and lines[kind][1].table == "runs"]
    for some, sign, is_in_block in ((measured, _SIGN, _is_set), (settings, _SIGN_OF_ANOTHER, _is_of_another)):
        signs = _signs(batch, above, sign) if some else np.empty(0, np.int64)
        for kind in some:
            rows = batch.rows(batch.records[kind].positions)
            mask = np.searchsorted(signs, rows) > np.searchsorted(signs, rows - _MOST_ABOVE)  # a sign is above the line
            mask[mask] = [is_in_block(_upwards(batch, row, above)) for row in rows[mask].tolist()]
            if mask.any():
                removed[kind] = mask
    last = [*islice(_upwards(batch, len(batch.starts) - 1, above), _MOST_ABOVE)]
    return (without_records(batch, removed, lines) if removed else batch), last[::-1]


def _signs(batch: Batch, above: Above, sign: re.Pattern[bytes]) -> Ints:
    """Return the rows with a sign of a block, ascending. Lines before the batch have negative rows."""
    before = [k - len(above) for k, text in enumerate(above) if sign.search(text.encode())]
    offsets = np.fromiter((match.start() for match in sign.finditer(batch.chunk.data)), np.int64)
    return np.concatenate([np.array(before, np.int64), np.searchsorted(batch.starts, offsets, "right") - 1])


def _upwards(batch: Batch, row: int, above: Above) -> Iterator[str]:
    """Yield the line of a row and the lines above it. Further ones than `_MOST_ABOVE` mean nothing."""
    view = memoryview(batch.chunk.data)
    for k in range(row, max(row - _MOST_ABOVE, 0) - 1, -1):
        start = int(batch.starts[k])
        text = bytes(view[start : min(int(batch.ends[k]), start + _LONGEST)])
        yield strip_rank_labels(text).decode("utf-8", "replace").rstrip()
    yield from reversed(above)


def _is_set(upwards: Iterator[str]) -> bool:
    """Return whether a line is in a block of settings, given the line and those above it.

    The heading of a block is above lines that are indented more, or above pairs that nothing else interrupts.
    """
    indent, first = _indented(next(upwards))
    is_of_file, has_inner = False, False
    for line in () if _FRACTION.search(first) else islice(upwards, _MOST_ABOVE):
        own, text = _indented(line)
        if own > indent:
            has_inner = True  # of the block that the next line above it begins
        elif own == indent and has_inner and _HEADING.fullmatch(text):
            has_inner = False
        elif _HEADING.fullmatch(text):
            if ENDS_IN_SETTINGS.fullmatch(text):
                return True
            if _RESULTS.match(text) or not own:
                return is_of_file and own < indent and not _RESULTS.match(text)
            indent = own
        elif text and own == indent and (_PAIR.fullmatch(text) or _RULE.fullmatch(text)):
            is_of_file |= _OF_A_FILE.fullmatch(text) is not None
        else:
            break
    return False


def _is_of_another(upwards: Iterator[str]) -> bool:
    """Return whether the first line above with less indentation is the heading of another run."""
    indent, _ = _indented(next(upwards))
    above = (_indented(line) for line in islice(upwards, _MOST_ABOVE))
    heading = next((text for own, text in above if text and own < indent), "")
    return _HEADING.fullmatch(heading) is not None and bool(label_of_another(heading))


def _indented(line: str) -> tuple[int, str]:
    """Return how far a line is indented, and the line without what a logger writes before it."""
    prefix = _PREFIX.match(line)
    begin = len(prefix[0].rstrip()) + 1 if prefix is not None else 0
    text = line[begin:].lstrip()
    return len(line) - begin - len(text), text
