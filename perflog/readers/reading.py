"""One Chrome trace from its first byte to its last: cut into pieces, each decoded by a worker, taken back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE, WORDS, Columns
from perflog.readers.cut import Scanned, boundary, gaps, guess, is_end, scan
from perflog.readers.decode import SAMPLE, Decoded
from perflog.readers.filling import STEP, picked
from perflog.readers.finder import Finder, Found
from perflog.readers.hashed import Hashed
from perflog.readers.kinds import CONTEXT, UNREAD, role_of
from perflog.readers.opening import HEAD, ending, opening
from perflog.readers.pairs import Pairs
from perflog.readers.part import Part
from perflog.readers.pool import Pool, scratch
from perflog.readers.spool import keep
from perflog.readers.vocabulary import Vocabulary

PIECE = 4 << 20
"""Bytes of a trace that are decoded together."""

ROOM = 2 * PIECE + HEAD
_GAP = 64  # bytes that may stand between two events where a cut is looked for
_TAIL = 64 << 20  # bytes that may stand behind the events
_HERE, _OURS = -1, -2  # in place of a worker: this process, with a worker's codes, or with those of the vocabularies


class Reader:
    """Reads traces one after the other, with the same workers."""

    def __init__(self, workers: int) -> None:
        self.pool = Pool(Finder, workers, ROOM)
        self.vocabularies = {name: Vocabulary() for name in WORDS}
        self.file = scratch()
        self.here = Finder()

    def close(self) -> None:
        """Let go of the workers and of what was put aside."""
        self.pool.close()
        self.file.close()

    def read(self, source: Source, progress: Callable[[int], None] | None) -> Part:
        """Read a trace. What is wrong in it is told in the part's warnings."""
        return _File(self, source, progress).part

    def file_of(self, worker: int) -> Any:
        """The file that holds the rows of a worker."""
        return self.pool.files[worker] if worker >= 0 else self.file

    def ours(self, worker: int, columns: Columns) -> Columns:
        """A worker's columns with the codes of all."""
        if worker == _OURS:
            return columns
        return columns | {n: self.vocabularies[n].ours(worker, columns[n]) for n in WORDS if n in columns}


class _File:
    """One trace. `data[0]` is a bracket, then `size - 1` bytes that begin at the boundary of two events."""

    def __init__(self, reader: Reader, source: Source, progress: Callable[[int], None] | None) -> None:
        self.reader, self.pool, self.progress = reader, reader.pool, progress
        self.part, self.pairs = Part(source), Pairs()
        self.held: deque[bytes] = deque()  # what workers are at, each with what stands behind it up to the next
        self.stream = Hashed(source)
        self.ended = self.closed = False
        self.data, self.size = bytearray(1 + HEAD + PIECE), 1
        self._fill(HEAD)
        begun = opening(bytes(self.data[1 : self.size]))
        if begun is None:
            raise InputError("this is no Chrome trace", source.name, "it was one when it was opened")
        self.part.said, self.wrapped = begun.said, begun.wrapped
        self._drop(begun.begin)
        self.between = boundary(bytes(self.data[1 : self.size]))
        try:
            self._all()
        finally:
            self.stream.close()
        for rows in self.pairs.rest():
            self._paired(rows)
        for (phase, category), (count, first) in self.pairs.lonely.items():
            shape = f"{chr(phase)} {self._categories[category] if category >= 0 else ''}".strip()
            self.part.account("read", shape, -count, first, "")
            self.part.account("unread", f"{shape} without its begin", count, first, "")

    @property
    def _categories(self) -> list[str]:
        return self.reader.vocabularies["category"].texts

    def _all(self) -> None:
        while not (self.ended or self.closed):
            if self._fill(PIECE):
                break
            cut = guess(self.data, self.size, self.between)
            if cut:
                self._give(cut, cut + len(self.between) - 2)
            else:
                while self.held:
                    self._take()
                self._by_brackets()
            while self.pool.full():
                self._take()
        while self.held:
            self._take()
        before = -1
        while not self.closed and self.size != before:
            before = self.size
            self._by_brackets()
        if self.closed:
            self._behind()
        else:
            self._torn()

    def _fill(self, count: int) -> bool:
        """Read up to `count` bytes more. True: there are none behind them."""
        if len(self.data) < self.size + count:
            self.data += bytes(self.size + count - len(self.data))
        with memoryview(self.data) as view:
            got = self.stream.fill(view[self.size : self.size + count])
        self.ended = got < count
        self.size += got
        if self.progress is not None:
            self.progress(got)
        return self.ended

    def _drop(self, until: int) -> None:
        """Forget data[1 : 1 + until], but for its room."""
        rest = self.data[1 + until : self.size]
        self.data[1 : 1 + len(rest)] = rest
        self.size = 1 + len(rest)

    def _give(self, cut: int, after: int) -> None:
        """Hand data[1:cut] to a worker; the next piece begins at `after`."""
        self.held.append(bytes(self.data[1:after]))
        self.data[0], self.data[cut] = 0x5B, 0x5D
        with memoryview(self.data) as view:
            self.pool.submit(view[: cut + 1])
        self._drop(after - 1)

    def _take(self) -> None:
        """Take the oldest result. If its text was cut in the wrong place, or is damaged, look at its brackets."""
        worker, found = self.pool.result()
        text = self.held.popleft()
        if found is not None:
            self._commit(worker, found)
            return
        while self.held:  # they were cut behind a wrong cut
            other, wasted = self.pool.result()
            if wasted is not None:
                self._learn(other, wasted.decoded)
            text += self.held.popleft()
        rest = text + bytes(self.data[1 : self.size])
        self.data[1 : 1 + len(rest)] = rest
        self.size = 1 + len(rest)
        self._by_brackets()

    def _by_brackets(self) -> None:
        """Read the whole events in the data, one by one if need be, up to the end of their array if it is in it."""
        text = bytes(self.data[1 : self.size])
        seen = scan(text)
        closed = seen.close >= 0 and is_end(text[seen.close + 1 :], self.wrapped)
        trusted = self._decode(text, seen, closed) if len(seen.ends) else 0
        stuck = not len(seen.ends) and (len(text) > PIECE or self.ended)
        if trusted < seen.rest or closed != (seen.close >= 0) or (stuck and not closed):
            self._by_gaps(text, trusted)
            return
        if len(seen.ends) > 1 and seen.starts[-1] - seen.ends[-2] < _GAP:
            self.between = text[int(seen.ends[-2]) - 1 : int(seen.starts[-1]) + 1]
        self.closed = closed
        self._drop(seen.close + 1 if closed else seen.rest)
        if len(seen.ends) and not closed:
            self._skip()

    def _by_gaps(self, text: bytes, since: int) -> None:
        """Where brackets mislead, as behind a quote that is none, what stands between events still parts them."""
        spans, rest = gaps(text, since, self.between)
        decoded = self.reader.here.decoder.single(text, spans)
        if any(shape.ph for shape in decoded.shapes):
            self._commit(_HERE, self.reader.here.found(decoded, self.reader.file))
            self._drop(rest)
            return
        self._learn(_HERE, decoded)  # gaps in one event that is not there in full: no event has come of it
        if len(text) - since > ROOM:
            self._lost("damaged event", text[since:])
            since = len(text)
        self._drop(since)

    def _skip(self) -> None:
        """Forget the comma, and the blanks around it, that the data begins with."""
        start = bytes(self.data[1 : min(self.size, 1 + (1 << 12))])
        self._drop(len(start) - len(start.lstrip(b" \t\r\n,")))

    def _decode(self, text: bytes, seen: Scanned, closed: bool) -> int:
        """Decode whole events. Gives the offset up to which they could be told apart."""
        here = self.reader.here
        decoded = here.decoder.whole(b"[" + text[: seen.rest] + b"]")
        if decoded is None:
            spans = list(zip(seen.starts.tolist(), seen.ends.tolist(), strict=True))
            decoded = here.decoder.single(text, spans, trusted=False, last=closed)
        self._commit(_HERE, here.found(decoded, self.reader.file))
        return int(seen.starts[decoded.count]) if decoded.count < len(seen.starts) else seen.rest

    def _lost(self, shape: str, text: bytes) -> None:
        self.part.count += 1
        self.part.account("unread", shape, 1, self.part.count, text[:SAMPLE].decode("utf-8", "replace"))

    def _torn(self) -> None:
        """The file ends before the array of events does."""
        torn = bytes(self.data[1 : self.size]).strip(b" \t\r\n,")
        if torn:
            self._lost("torn event", torn)
        if torn or self.wrapped:  # a list of events needs no bracket at its end
            self.part.warnings.append(f"the trace was torn off: it ends after {self.part.count} events")

    def _behind(self) -> None:
        """What stands behind the array of events."""
        while not self.ended and self.size < _TAIL:
            self._fill(PIECE)
        tail = bytes(self.data[1 : self.size])
        while not self.ended:  # too long to be looked at, but it is part of the file
            self.size = 1
            self._fill(PIECE)
        if self.wrapped:
            said = ending(tail)
            if said is None:
                self.part.warnings.append("what stands behind the events cannot be read: the trace was torn off there")
            self.part.said |= said or {}

    # --- what was found ------------------------------------------------------------------------------------------

    def _learn(self, worker: int, decoded: Decoded) -> None:
        for name, texts in decoded.new.items():
            self.reader.vocabularies[name].learn(worker, texts)

    def _commit(self, worker: int, found: Found) -> None:
        decoded, part = found.decoded, self.part
        self._learn(worker, decoded)
        base = part.count + 1
        part.count += decoded.count
        for shape in decoded.shapes:
            role = role_of(shape.ph, shape.category)[0]
            status = "unread" if role == UNREAD else "context" if role == CONTEXT else "read"
            part.account(
                status, f"{shape.ph} {shape.category or ''}".strip(), shape.count, base + shape.first, shape.sample
            )
        for place, text in decoded.spoilt:
            part.account("unread", "damaged event", 1, base + place, text)
        part.processes |= dict(decoded.processes)
        part.begin = found.begin if part.begin == NONE else part.begin
        if found.kept is not None:
            part.pieces.append((worker, found.kept, base))
        self._note(self.reader.ours(worker, found.ranges), self.reader.ours(worker, found.calls), base)
        if decoded.pairs:
            pairs = self.reader.ours(worker, decoded.pairs)
            for rows in self.pairs.feed(pairs | {"place": pairs["place"].astype(np.int64) + base}):
                self._paired(rows)

    def _paired(self, rows: Columns) -> None:
        """Events whose begin and end were found: their codes are ours, their places those of the file."""
        names = self.reader.vocabularies["name"].texts
        used = np.unique(rows["name"]).tolist()
        steps = np.array([code for code in used if code >= 0 and STEP.match(names[code])], np.int32)
        self._note(*picked(rows, steps), 0)
        self.part.pieces.append((_OURS, keep(self.reader.file, rows), 0))

    def _note(self, ranges: Columns, calls: Columns, base: int) -> None:
        if len(ranges["place"]):
            self.part.ranges.append(ranges | {"place": ranges["place"].astype(np.int64) + base})
        if len(calls["start"]):
            self.part.calls.append(calls)
