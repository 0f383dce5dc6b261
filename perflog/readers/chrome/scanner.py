"""One Chrome trace from its first byte to its last, cut into pieces: workers decode them, results are kept in order."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.chrome.boundaries import (
    LongValue,
    ScannedElements,
    find_separator,
    goes_on,
    guess_cut,
    is_end_of_list,
    scan_elements,
    split_at_separators,
)
from perflog.readers.chrome.contents import (
    THIS_PROCESS,
    PieceDecoder,
    TraceContents,
    learn_texts,
    translate,
)
from perflog.readers.chrome.events import SAMPLE_CHARS
from perflog.readers.chrome.metadata import HEAD, parse_header, parse_trailer
from perflog.readers.chrome.worker_pool import WorkerPool
from perflog.readers.events.event_columns import EventColumns
from perflog.readers.events.spill_file import SpilledColumns, load_spilled, open_spill_file
from perflog.readers.events.string_interning import new_interners

PIECE = 4 << 20
"""Bytes of a trace that are decoded together."""

_MAX_PIECE = 2 * PIECE + HEAD
_MAX_SEPARATOR = 64  # bytes between two events where a cut is looked for
_MAX_TRAILER = 64 << 20  # bytes after the events that are parsed

Progress = Callable[[int], None] | None


class TraceScanner:
    """Reads traces one after the other with the same workers and the same codes of strings."""

    def __init__(self, workers: int) -> None:
        self.pool = WorkerPool(PieceDecoder, workers, _MAX_PIECE)
        self.interners = new_interners()
        self.spill_file = open_spill_file()
        self.local_decoder = PieceDecoder()

    def close(self) -> None:
        """End the workers and delete the spilled rows."""
        self.pool.close()
        self.spill_file.close()

    def scan(self, source: Source, progress: Progress) -> TraceContents:
        """Read a trace. The warnings of the contents list its faults."""
        scan = _FileScan(self, source, progress)
        try:
            scan.run()
        finally:
            scan.stream.close()
        scan.contents.finish()
        return scan.contents

    def load_rows(self, worker: int, spilled: SpilledColumns) -> EventColumns:
        """Return the rows of a piece."""
        file = self.pool.spill_files[worker] if worker >= 0 else self.spill_file
        return translate(self.interners, worker, load_spilled(file, spilled))


class _HashingStream:
    """The bytes of a file in order. Once all have been read, the source knows its digest."""

    def __init__(self, source: Source) -> None:
        self._source, self._stream, self._sha = source, source.stream(), hashlib.sha256()
        self.close = self._stream.close

    def fill(self, block: memoryview) -> int:
        """Fill `block`; less than its length only at the end."""
        size = self._stream.fill(block)
        self._sha.update(block[:size])
        if size < len(block):
            self._source.set_digest(self._sha.hexdigest())
        return size


class _FileScan:
    """The scan of one trace. `data[0]` is a bracket; the `size - 1` bytes after it begin at an event boundary."""

    def __init__(self, scanner: TraceScanner, source: Source, progress: Progress) -> None:
        self.pool, self.interners, self.spill_file = scanner.pool, scanner.interners, scanner.spill_file
        self.local_decoder = scanner.local_decoder
        self.progress = progress
        self.contents = TraceContents(source, self.interners, self.spill_file)
        self.submitted: deque[bytes] = deque()  # the bytes of pieces at work, each up to the start of the next
        self.stream = _HashingStream(source)
        self.file_ended = self.list_ended = False
        self.long_event: LongValue | None = None  # an event that is too long: it was counted, and its rest follows
        self.data, self.size = bytearray(1 + HEAD + PIECE), 1

    def run(self) -> None:
        """Read the file."""
        self._read(HEAD)
        header = parse_header(bytes(self.data[1 : self.size]))
        if header is None:
            help = "it was one when it was opened: the file may have changed since"
            raise InputError("this is not a Chrome trace", self.contents.source.name, help)
        self.contents.metadata, self.wrapped = header.metadata, header.wrapped
        self._discard(header.first_event)
        self.separator = find_separator(bytes(self.data[1 : self.size]))
        self._scan_pieces()
        size = -1
        while not self.list_ended and self.size != size:
            size = self.size
            self._decode_by_brackets()
        if self.list_ended:
            self._read_trailer()
        else:
            self._count_torn()

    # --- the bytes in memory --------------------------------------------------------------------------------------

    def _read(self, count: int) -> bool:
        """Read up to `count` bytes more; fewer at the end of the file. Return whether the file has ended."""
        if len(self.data) < self.size + count:
            self.data += bytes(self.size + count - len(self.data))
        with memoryview(self.data) as view:
            size = self.stream.fill(view[self.size : self.size + count])
        self.file_ended = size < count
        self.size += size
        if self.progress is not None:
            self.progress(size)
        return self.file_ended

    def _discard(self, count: int) -> None:
        """Drop the next `count` bytes. The buffer keeps its size."""
        self._replace(self.data[1 + count : self.size])

    def _replace(self, text: bytes | bytearray) -> None:
        """Replace the bytes in memory."""
        self.data[1 : 1 + len(text)] = text
        self.size = 1 + len(text)

    def _skip_comma(self) -> None:
        """Drop the comma at the start, with the whitespace around it."""
        start = bytes(self.data[1 : min(self.size, 1 + (1 << 12))])
        self._discard(len(start) - len(start.lstrip(b" \t\r\n,")))

    # --- pieces that workers decode -------------------------------------------------------------------------------

    def _scan_pieces(self) -> None:
        """Cut the file into pieces and take their results. What follows the last cut stays in memory."""
        while not (self.file_ended or self.list_ended):
            if self._read(PIECE):
                break
            cut = 0 if self.long_event else guess_cut(self.data, self.size, self.separator)
            if cut:
                self._submit(cut, cut + len(self.separator) - 2)
            else:
                while self.submitted:
                    self._take_result()
                self._decode_by_brackets()
            while self.pool.is_full():
                self._take_result()
        while self.submitted:
            self._take_result()

    def _submit(self, cut: int, next_piece: int) -> None:
        """Give data[1:cut] to a worker; the next piece begins at `next_piece`."""
        self.submitted.append(bytes(self.data[1:next_piece]))
        self.data[0], self.data[cut] = b"[]"
        with memoryview(self.data) as view:
            self.pool.submit(view[: cut + 1])
        self._discard(next_piece - 1)

    def _take_result(self) -> None:
        """Take the oldest result. If its piece was cut at a wrong offset or is damaged, decode it by its brackets."""
        worker, piece = self.pool.result()
        text = self.submitted.popleft()
        if piece is not None:
            self.contents.add(worker, piece)
            return
        while self.submitted:  # these pieces begin at a wrong cut: their events are read again
            other_worker, wasted = self.pool.result()
            if wasted is not None:
                learn_texts(self.interners, other_worker, wasted.decoded)
            text += self.submitted.popleft()
        self._replace(text + bytes(self.data[1 : self.size]))
        self._decode_by_brackets()

    # --- where cuts are wrong or events are damaged ---------------------------------------------------------------

    def _decode_by_brackets(self) -> None:
        """Decode the whole events in memory, up to the end of the list if it is there."""
        text = bytes(self.data[1 : self.size])
        if self.long_event is not None:
            self._skip(self.long_event, text)
            return
        elements = scan_elements(text)
        ended = elements.close >= 0 and is_end_of_list(text[elements.close + 1 :], self.wrapped)
        decoded_until = self._decode_elements(text, elements, ended) if len(elements.ends) else 0
        stuck = not len(elements.ends) and (len(text) > PIECE or self.file_ended)
        if stuck and elements.close < 0 and not self.file_ended and goes_on(text):
            if len(text) > _MAX_PIECE:
                self._count_unread("event that is too long", text)
                self.long_event = LongValue()
                self._skip(self.long_event, text)
            return
        if decoded_until < elements.remainder or ended != (elements.close >= 0) or (stuck and not ended):
            self._decode_by_separators(text, decoded_until)
            return
        if len(elements.ends) > 1 and elements.starts[-1] - elements.ends[-2] < _MAX_SEPARATOR:
            self.separator = text[int(elements.ends[-2]) - 1 : int(elements.starts[-1]) + 1]
        self.list_ended = ended
        self._discard(elements.close + 1 if ended else elements.remainder)
        if len(elements.ends) and not ended:
            self._skip_comma()

    def _decode_elements(self, text: bytes, elements: ScannedElements, ended: bool) -> int:
        """Decode whole events. Return the offset up to which their boundaries are certain."""
        decoder = self.local_decoder.decoder
        decoded = decoder.decode_list(b"[" + text[: elements.remainder] + b"]")
        if decoded is None:
            spans = list(zip(elements.starts.tolist(), elements.ends.tolist(), strict=True))
            decoded = decoder.decode_each(text, spans, trusted=False, last=ended)
        self.contents.add(THIS_PROCESS, self.local_decoder.spill(decoded, self.spill_file))
        is_last = decoded.count >= len(elements.starts)
        return elements.remainder if is_last else int(elements.starts[decoded.count])

    def _decode_by_separators(self, text: bytes, start: int) -> None:
        """Decode the pieces between separators. Brackets mislead, for example after a quote that was not escaped."""
        spans, remainder = split_at_separators(text, start, self.separator)
        decoded = self.local_decoder.decoder.decode_each(text, spans)
        if any(entry.phase for entry in decoded.phases):
            self.contents.add(THIS_PROCESS, self.local_decoder.spill(decoded, self.spill_file))
            self._discard(remainder)
            return
        # Separators inside one event that is not yet in memory as a whole: nothing was decoded.
        learn_texts(self.interners, THIS_PROCESS, decoded)
        if len(text) - start > _MAX_PIECE:
            self._count_unread("damaged event", text[start:])
            start = len(text)
        self._discard(start)

    def _skip(self, event: LongValue, text: bytes) -> None:
        """Drop what is in memory of an event that is too long."""
        end, read = event.end_in(text)
        self._replace(text[read:])
        if end >= 0:
            self.long_event = None
            self._skip_comma()
            following = bytes(self.data[1 : self.size])
            if len(scan_elements(following[: 1 << 16]).ends) > 1:  # it may have been the first event
                self.separator = find_separator(following)
        elif self.file_ended:
            self._discard(self.size - 1)

    def _count_unread(self, shape: str, text: bytes) -> None:
        self.contents.add_unread(shape, text[:SAMPLE_CHARS].decode("utf-8", "replace"))

    # --- the end of the file --------------------------------------------------------------------------------------

    def _count_torn(self) -> None:
        """Count the event in which the file ends, if the list of events has no end."""
        torn = bytes(self.data[1 : self.size]).strip(b" \t\r\n,")
        if torn:
            self._count_unread("torn event", torn)
        if torn or self.wrapped or self.long_event:  # a list of events alone needs no bracket at its end
            self.contents.warnings.append(f"the trace is truncated: it ends after {self.contents.count} events")

    def _read_trailer(self) -> None:
        """Read the metadata after the events."""
        while not self.file_ended and self.size < _MAX_TRAILER:
            self._read(PIECE)
        tail = bytes(self.data[1 : self.size])
        while not self.file_ended:  # too long to be parsed, but part of the file's digest
            self.size = 1
            self._read(PIECE)
        if self.wrapped:
            metadata = parse_trailer(tail)
            if metadata is None:
                self.contents.warnings.append("the trace is truncated after its events: what is there cannot be read")
            self.contents.metadata |= metadata or {}
