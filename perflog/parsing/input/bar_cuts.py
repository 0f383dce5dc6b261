"""Where the states of progress bars are cut from the rest of their lines.

A bar is redrawn on one line. Carriage returns divide its states, and what a program writes meanwhile follows a state
without a line break. Copies of a log lose the carriage returns. So a state becomes a part of its line, as if carriage
returns were around it, with the description, the prefix or the rank label before it. A name with its number after
a state belongs to the state: `] loss: 2.5`.
"""

from __future__ import annotations

from itertools import zip_longest

from perflog.formats.bars import STATE
from perflog.formats.surroundings import prefix_ends
from perflog.lazy_patterns import lazy_pattern

_STATE = lazy_pattern(STATE.encode())
_BRACKET = lazy_pattern(rb"\[(?:[0-9]{1,5} days?, )?(?:[0-9]{1,6}:)?[0-9]{1,2}:[0-9]{2}[<,\]]")
"""What each state contains that may share its line with other output: found faster than a whole state."""
_MARKS = (b"/s]", b"/s, ", b"s/it")
"""Each such state without `<` contains one of these strings. Most logs contain none."""
_ALONE = lazy_pattern(rb"[ \t]*(?:[A-Za-z][\w /-]{0,60}: *)?" + STATE.encode() + rb"[ \t]*")
_LINE_END = lazy_pattern(rb"[\n\r]")
_POSTFIX = lazy_pattern(rb"[ ,]+[A-Za-z_][\w ./()-]{0,60}[:=][ \t]*[-+]?[0-9.]|[ \t,:\x7c)-]*\Z")
_LABEL = lazy_pattern(rb"[ \t]*[0-9]{1,6}: ?")
_DESCRIPTION = lazy_pattern(rb"[A-Za-z](?: ?[^%\x7c\x22'{} ]){0,200} ?: *")
_OWN_FRONT = lazy_pattern(
    rb"(?:(?<=[}\])])|(?<=[ \t]{2})|(?<=[0-9] ))(?:\[[\w,-]{1,20}\](?:<\w+>)?:? ?)*"
    rb"(?:[A-Za-z][A-Za-z_ ()/-]{0,60}(?: [0-9/]{1,20})?: *)?\Z"
)
"""What belongs to a state after another record: labels, and a description of words and perhaps a number."""
_BETWEEN = lazy_pattern(rb"[ \t]*(?:[A-Za-z][^%\x7c\x22'{}]{0,200}: *)?")
_LONGEST_FRONT = 4096  # bytes before a state in which what belongs to it is looked for


def bar_cuts(data: bytes | bytearray, end: int) -> list[int]:
    """Return the offsets in data[:end] at which parts begin or end, ascending."""
    if not _may_have_states(data, end):
        return []
    cuts: list[int] = []
    line_end = 0
    for bracket in _BRACKET.finditer(data, 0, end):
        at = bracket.start()
        if at >= line_end:
            begin = max(data.rfind(b"\n", line_end, at), data.rfind(b"\r", line_end, at)) + 1
            stop = _LINE_END.search(data, bracket.end(), end)
            line_end = stop.start() if stop else end
            line = bytes(data[begin:line_end])
            if _ALONE.fullmatch(line) is None:
                cuts += [begin + cut for cut in _cuts_of_line(line)]
    return cuts


def _may_have_states(data: bytes | bytearray, end: int) -> bool:
    if data.find(b"<", 0, end) >= 0:
        return True
    slash = data.find(b"/", 0, end)  # one byte is found ten times as fast as a string
    return slash >= 0 and any(data.find(mark, max(slash - 1, 0), end) >= 0 for mark in _MARKS)


def _cuts_of_line(text: bytes) -> list[int]:
    cuts: list[int] = []
    begin, states = 0, list(_STATE.finditer(text))
    for state, following in zip_longest(states, states[1:]):
        own = _own_begin(text, begin, state.start())
        if text[begin:own].strip():
            cuts.append(own)
        is_between_states = following is not None and _BETWEEN.fullmatch(text, state.end(), following.start())
        if is_between_states or _POSTFIX.match(text, state.end()) is None:
            cuts.append(state.end())
            begin = state.end()
    return cuts


def _own_begin(text: bytes, begin: int, end: int) -> int:
    """Return the offset in text[begin:end] at which the part of the state at `end` begins."""
    first = max(begin, end - _LONGEST_FRONT)
    front = text[first:end]
    if first == begin and _is_of_state(front):
        return begin
    own = _OWN_FRONT.search(front)
    has_own = own is not None and own.start() < len(front)  # not `640:  87%|`, with the space before a short share
    is_row = not has_own and front.rstrip(b" \t").endswith(b":")  # a row of a table, and how far its step is
    if is_row:
        return begin
    return end if own is None else first + own.start()


def _is_of_state(front: bytes) -> bool:
    """Return whether all that is before a state belongs to it: a label, a prefix, a description."""
    label = _LABEL.match(front)
    bare = front[label.end() if label else 0 :].lstrip(b" \t")
    begins = [0, *prefix_ends(bare + b"%", every=True)]
    return any(begin == len(bare) or _DESCRIPTION.fullmatch(bare, begin) is not None for begin in begins)
