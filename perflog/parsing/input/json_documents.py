"""JSON documents as lines: a value over many lines, or many records on one, becomes a record per line.

A record is an object in a list, or a member of an object with numbers as keys (`"values": {"1": 10.5, "2": 10.4}`).
A list of values after its `start_step` and `step_interval` is such an object: the steps are its keys.
It is on the line where it begins in the file; several on one line are parts of it, separated by carriage returns,
as the states of a progress bar are. What is left of the document around its lists is a record too, or several. The
number of line feeds stays the same, so every figure keeps its line number. Input that is no JSON passes as it is.

The repr of a list of Python dicts, or of a dict over many lines as `pprint` prints it, is such a document: it is
written as JSON. A dict on one line is none, and neither is one above lines of text: formats read both as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator

from msgspec import Struct, field

from perflog.lazy_patterns import lazy_pattern

HEAD = 1 << 16
"""Bytes at the beginning of a file that show whether it is a JSON document."""

LARGEST_RECORD = 1 << 13
"""Bytes of a record. A longer one is divided: the objects in its lists are records of their own."""

_AT_ONCE = 1 << 12
_MOST_ABOVE = 20  # lines above a document
_BRACKET = lazy_pattern(rb"^[{[]\s*$", re.MULTILINE)
_TOKEN = lazy_pattern(rb"""([ \t\r\n]*)("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[][{}:,]|[^][{}:,"'\s]+)""")
_REST = lazy_pattern(rb"[ \t\r\n]*(?:[-+.\w]*[0-9.])?\Z")  # of JSON, whole or torn: a number may lack digits
_LITERAL = lazy_pattern(rb"-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|NaN|Infinity)|true|false|null")
_DIGIT_AT_END = lazy_pattern(rb"[0-9.]\Z")
_DICT_LINE = lazy_pattern(rb"\{(?:'[^\n]*)?(?:(?<=\})[ \t\r]*(?P<end>\n)|\Z)")
_OF_PYTHON = {
    b"None": b"null", b"True": b"true", b"False": b"false",
    b"nan": b"NaN", b"inf": b"Infinity", b"-inf": b"-Infinity",
}  # fmt: skip
_NAMED = lazy_pattern(rb"""["']\s*:""")
_STEPS = b'"start_step"', b'"step_interval"'
_INTEGER = lazy_pattern(rb"\d{1,18}")
_WHOLE = lazy_pattern(rb'"\d+"')
_KIND = {mark.encode(): mark for mark in "[]{}:,"}
_AFTER = {b",": b", ", b":": b": "}


class _Frame(Struct):
    """An open object or list of records.

    Attributes:
        mark: `{` or `[`.
        key: The key under which the object is in the object around it, with its quotes.
        is_keyed: Whether the keys of the object are numbers: each member is a record.
        is_written: Whether the record that is being written has its opening brace.
        pending: The key of the next value.
        steps: What it prints of the steps of its values, by key: first step and interval.
        counts: Step and interval of the values of a list that replaces an object; None for other objects and lists.
    """

    mark: bytes
    key: bytes = b""
    is_keyed: bool = False
    is_written: bool = False
    pending: bytes = b""
    steps: dict[bytes, int] = field(default_factory=dict)
    counts: tuple[int, int] | None = None

    def step_on(self) -> None:
        """Go on to the next value of a list that counts steps."""
        assert self.counts is not None
        step, interval = self.counts
        self.pending, self.counts = b'"%d"' % step, (step + interval, interval)


class RecordSplitter:
    """Splits JSON, given piece by piece, into lines with one record each.

    Attributes:
        first_end: Number of tokens' bytes up to the end of the first value; 0 before its end.
        is_json: Whether all input so far is JSON.
        is_python: Whether strings in it are written as Python writes them.
    """

    def __init__(self) -> None:
        self.is_json, self.is_python, self.first_end = True, False, 0
        self._done = 0  # bytes of all tokens
        self._left = b""  # bytes that do not make a token yet
        self._out: list[bytes] = []
        self._line_has_text = False
        self._stack: list[_Frame] = []
        self._body: list[bytes] = []  # of the record that is being written
        self._item: list[bytes] = []  # tokens of an object in a list, or of a plain list, that is still open
        self._depth = self._size = 0  # of `_item`
        self._held_lines = 0  # line feeds that come after the record
        self._expected: Callable[[bytes], None] = self._value

    def feed(self, piece: bytes, last: bool = False) -> bytes:
        """Return the lines of a further piece of the input."""
        if not self.is_json:
            return piece
        text, end = self._left + piece, 0
        while (token := _TOKEN.match(text, end)) is not None and not self._stops_before(token, last):
            printed = self._as_json(token[2])
            is_joined = self.is_python and self._goes_on(printed)
            if not (is_joined or self._takes(printed)):
                self.is_json = False
                break
            self._newlines(token[1].count(b"\n"))
            stays_json = is_joined or self._read(printed)
            end = token.end()
            begun, self._done = self._done, self._done + token.end() - token.start()
            if begun < self.first_end:
                self.first_end = min(self.first_end + len(token[1]), self._done)
            if not stays_json:
                self.is_json = False
                break
        self._left = text[end:]
        if self.is_json and (len(self._left) > HEAD or (last and not _REST.match(self._left))):
            self.is_json = False
        if not self.is_json or last:
            self._give_up()
        lines, self._out = b"".join(self._out), []
        return lines

    def _stops_before(self, token: re.Match[bytes], last: bool) -> bool:
        """Return whether a token is not read: it may go on, or it begins a line that formats read as it is."""
        text = token.string
        may_lack_digits = self._stack and not self._item and _DIGIT_AT_END.search(token[2])
        if token.end() == len(text) and (not last or may_lack_digits):
            return True
        if token[2] != b"{" or self._stack or not self.first_end:
            return False
        line = _DICT_LINE.match(text, token.start(2))
        self.is_json = line is None or not (line["end"] or last)
        return line is not None

    def _give_up(self) -> None:
        """Write what is open as it is, and all that is left."""
        self._flush()
        whole, torn = self._whole_pairs()
        for tokens in filter(None, (whole, torn)):
            self._emit(b"".join(_AFTER.get(token, token) for token in tokens))
        self._item = []
        if self._line_has_text and self._left.strip() and not self._left.lstrip(b" \t").startswith((b"\n", b"\r")):
            self._out.append(b"\r")
        self._out.append(self._left)
        self._left = b""

    def _whole_pairs(self) -> tuple[list[bytes], list[bytes]]:
        """Return the pairs of an open object whose values are whole, as an object, and the tokens after them."""
        depth, end = 0, 0
        for k, token in enumerate(self._item):
            depth += (token in b"[{") - (token in b"]}")
            end = k if token == b"," and depth == 1 else end
        is_object = bool(end) and self._item[0] == b"{"
        return ([*self._item[:end], b"}"], self._item[end + 1 :]) if is_object else ([], self._item)

    def _as_json(self, token: bytes) -> bytes:
        """Return a token of Python as one of JSON; others stay as they are."""
        if token[:1] != b"'":
            return _OF_PYTHON.get(token, token) if self.is_python else token
        self.is_python = True
        return b'"' + token[1:-1].replace(b"\\'", b"'").replace(b'"', b'\\"') + b'"'

    def _goes_on(self, token: bytes) -> bool:
        """Join a string to the string before it, as `pprint` cuts long ones. Return whether there is one."""
        parts = self._item or (self._body if self._expected == self._comma else [])
        if token[:1] != b'"' or not parts or parts[-1][-1:] != b'"':
            return False
        parts[-1] = parts[-1][:-1] + token[1:]
        self._size += len(token)
        return True

    # --- lines --------------------------------------------------------------------------------------------------

    def _newlines(self, count: int) -> None:
        if self._body or self._item:
            self._held_lines += count
        elif count:
            self._out.append(b"\n" * count)
            self._line_has_text = False

    def _emit(self, text: bytes) -> None:
        self._out += [b"\r" if self._line_has_text else b"", text, b"\n" * self._held_lines]
        self._line_has_text, self._held_lines = not self._held_lines, 0

    def _flush(self) -> None:
        """End the record that is being written."""
        if self._body:
            self._emit(b"".join(self._body) + b"}" * sum(frame.is_written for frame in self._stack))
            self._body = []
        for frame in self._stack:
            frame.is_written = False

    def _flush_in_list(self) -> None:
        """End the record if it is a value in a list, such as a number beside objects."""
        if self._stack and self._stack[-1].mark == b"[":
            self._flush()

    def _write(self, text: bytes) -> None:
        """Write a value that is no record by itself, with the keys and braces before it."""
        lists = [k for k, frame in enumerate(self._stack) if frame.mark == b"["]
        for frame in self._stack[lists[-1] + 1 if lists else 0 :]:
            if not frame.is_written:
                self._body.append(self._separator() + (frame.key + b": {" if frame.key and self._body else b"{"))
                if frame.key and self._body == [b"{"]:
                    self._body = [b"{" + frame.key + b": {"]
                frame.is_written = True
        key = self._stack[-1].pending + b": " if self._stack and self._stack[-1].pending else b""
        self._body.append(self._separator() + key + text)

    def _separator(self) -> bytes:
        return b", " if self._body and not self._body[-1].endswith(b"{") else b""

    # --- tokens -------------------------------------------------------------------------------------------------

    def _takes(self, token: bytes) -> bool:
        """Return whether JSON can go on with a token. Inside an open item, its bytes show that later."""
        if token[:1] not in b'"[]{}:,':
            is_expected = bool(self._item) or (bool(self._stack) and self._expects("v"))
            return is_expected and _LITERAL.fullmatch(token) is not None
        return bool(self._item) or self._expects(_KIND.get(token, "s"))

    def _expects(self, kind: str) -> bool:
        """Return whether a token of a kind may come next: a mark, "s" for a string, "v" for a number or a word."""
        top = self._stack[-1].mark if self._stack else b""
        is_list = top == b"[" or (bool(self._stack) and self._stack[-1].counts is not None)
        closes = "]" if is_list else "}"
        if self._expected == self._value:
            return kind in ("[{" if not top else "[{sv" + ("]" if is_list else ""))
        if self._expected == self._key:
            return kind in "s}"
        return kind == ":" if self._expected == self._colon else kind in f",{closes}"

    def _read(self, token: bytes) -> bool:
        """Read a token. Return whether the input is still JSON."""
        if self._item:
            return self._read_inside(token)
        self._expected(token)
        return True

    def _read_inside(self, token: bytes) -> bool:
        """Read a token of an open item: it is copied. Return whether the input is still JSON."""
        self._item.append(token)
        self._size += len(token)
        self._depth += (token in b"[{") - (token in b"]}")
        in_list = self._item[0] == b"{"
        if not in_list and token == b"{" and all(t == b"[" for t in self._item[:-1]):  # a list of records
            opened, self._item = self._item[:-1], []
            self._flush()
            self._stack += [_Frame(b"[") for _ in opened]
            self._value(token)
        elif self._depth == 0:
            text, self._item = b"".join(_AFTER.get(t, t) for t in self._item), []
            if in_list:
                self._emit(text)
            else:
                self._write(text)
                self._flush_in_list()
            self._value_done()
        elif in_list and self._size > LARGEST_RECORD:
            tokens, self._item = self._item, []
            self._stack.append(_Frame(b"{"))
            self._expected = self._key
            for k, each in enumerate(tokens[1:], 1):
                if not self._takes(each):
                    self._flush()
                    self._emit(b"".join(_AFTER.get(t, t) for t in tokens[k:]))
                    return False
                self._read(each)
        return True

    def _value(self, token: bytes) -> None:
        in_list = bool(self._stack) and self._stack[-1].mark == b"["
        if token == b"[" and self._stack and (counts := self._counts()) is not None:
            self._flush()
            self._stack.append(_Frame(b"{", self._stack[-1].pending, is_keyed=True, counts=counts))
            self._stack[-1].step_on()
        elif token == b"[" or (token == b"{" and in_list):
            self._item, self._depth, self._size = [token], 1, 1
        elif token == b"{":
            self._stack.append(_Frame(token, self._stack[-1].pending if self._stack else b""))
            self._expected = self._key
        elif token == b"]":
            self._close()
        else:
            if self._stack and self._stack[-1].pending in _STEPS and _INTEGER.fullmatch(token):
                self._stack[-1].steps[self._stack[-1].pending] = int(token)
            self._write(token)
            self._flush_in_list()
            self._value_done()

    def _counts(self) -> tuple[int, int] | None:
        """First step and interval of a list of values in the innermost object, if this prints them."""
        frame = self._stack[-1]
        if frame.pending != b'"values"' or len(frame.steps) < len(_STEPS) or any(f.mark == b"[" for f in self._stack):
            return None
        start, interval = (frame.steps[key] for key in _STEPS)
        return start, interval

    def _key(self, token: bytes) -> None:
        frame = self._stack[-1]
        if token == b"}":
            self._close()
        else:
            if not frame.pending and _WHOLE.fullmatch(token) and all(f.mark == b"{" for f in self._stack):
                self._flush()
                frame.is_keyed = True
            frame.pending = token
            self._expected = self._colon

    def _colon(self, _: bytes) -> None:
        self._expected = self._value

    def _comma(self, token: bytes) -> None:
        if token != b",":
            self._close()
        elif self._stack[-1].counts is not None:
            self._stack[-1].step_on()
            self._expected = self._value
        else:
            self._expected = self._key if self._stack[-1].mark == b"{" else self._value

    def _close(self) -> None:
        """End the innermost object or list."""
        frame = self._stack[-1]
        is_record = len(self._stack) == 1 or self._stack[-2].mark == b"["
        if frame.mark == b"{" and is_record:
            self._flush()
        elif frame.is_written:
            self._body.append(b"}")
        self._stack.pop()
        self._value_done()

    def _value_done(self) -> None:
        if self._stack and self._stack[-1].is_keyed:
            self._flush()
        if self._stack:
            self._expected = self._comma
            return
        self._flush()
        self.first_end = self.first_end or self._done + 1
        self._expected = self._value


def is_document(head: bytes, is_whole: bool) -> bool:
    """Return whether a file is a JSON document, given its first bytes: JSON that is not one object on each line.

    `is_whole`: these are all bytes of the file.
    """
    start = head.lstrip(b" \t\r\n")
    if start[:1] not in (b"{", b"["):
        return False
    splitter = RecordSplitter()
    for k in range(0, len(start), _AT_ONCE):
        splitter.feed(start[k : k + _AT_ONCE])
        if splitter.first_end or not splitter.is_json:
            break
    else:
        splitter.feed(b"", is_whole)
    if not splitter.first_end:  # too long for the head, or torn: a bracket alone is no document
        is_object = not is_whole or _NAMED.search(start) is not None
        return splitter.is_json and is_object and (not splitter.is_python or start[:1] == b"[" or b"\n" in start)
    first, others = start[: splitter.first_end], start[splitter.first_end :].strip()
    if splitter.is_python and first[:1] == b"{":  # a dict alone: formats read lines and settings as they are
        return b"\n" in first.strip() and others[:1] in (b"", b"{")
    return b"\n" in first.strip() or (is_whole and not others)


def lines_above(text: bytes) -> int:
    """Return the bytes above the JSON document in which a file ends: warnings above the result. 0: there is none."""
    begin = _BRACKET.search(text)
    if begin is None or text.count(b"\n", 0, begin.start()) > _MOST_ABOVE:
        return 0
    splitter = RecordSplitter()
    splitter.feed(text[begin.start() :], last=True)
    others = text[begin.start() + splitter.first_end :].strip()
    return begin.start() if splitter.first_end and not others and not splitter.is_python else 0


def as_records(blocks: Iterator[bytes], above: int = 0) -> Generator[bytes]:
    """Yield the blocks of a JSON document as lines with one record each; `above` bytes of other lines precede them."""
    splitter = RecordSplitter()
    for block in blocks:
        if above:
            yield block[:above]
        yield splitter.feed(block[above:])
        above -= min(above, len(block))
    yield splitter.feed(b"", last=True)
