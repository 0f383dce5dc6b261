"""Detects the formats of a log from its first lines, with the lines that prove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.families.base import ShapedFamily
from perflog.formats.families.header_tables import HeaderTable, needs_rows
from perflog.formats.model import Family, Format, Line
from perflog.formats.plain_lines import are_few
from perflog.formats.registry import COMMON
from perflog.grouping import grouped
from perflog.ingestion.joined_logs import JoinedLogs, UnlikeLogsError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.chunks import Chunk, as_chunk
from perflog.parsing.match.discovery import (
    MOST_UNREAD_SHAPES,
    Families,
    TemplateDiscovery,
    candidate_mask,
    families_of,
    is_first,
)
from perflog.parsing.match.opening_block import OpeningBlock, OpeningBlocks, find_opening_block, opening_blocks
from perflog.parsing.match.ordered.header_rows import HeaderRowReader
from perflog.parsing.match.ordered.setting_blocks import without_settings
from perflog.parsing.match.ordered.table_evidence import LONGEST, printed_tables
from perflog.parsing.match.prefilter import LiteralPrefilter
from perflog.parsing.match.rank_labels import (
    LABEL_TEMPLATES,
    LAUNCHER_LABEL,
    NO_LABEL,
    NO_LABELS,
    RANK_LABEL,
    WHOLE_LABEL,
    Labels,
    split_rank_label,
)
from perflog.parsing.match.records import BLANK, Batch, FormatLine, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.arrow import bytes_array
from perflog.tables.row_order import PART_BITS

# Each begins with a line feed: the regex engine finds that much faster than `^`.
_LABELS = lazy_pattern(f"\n{RANK_LABEL}".encode())
_WHOLE_LABEL = lazy_pattern(f"\n{WHOLE_LABEL}".encode())
_LAUNCHER_LABEL = lazy_pattern(LAUNCHER_LABEL.encode())
_BARE_LABELS = lazy_pattern(rb"\n *([0-9]{1,9}): ")
_WIDTHS = lazy_pattern(rb"\n( *[0-9]{1,9}): ")
_LINE = lazy_pattern(rb"[^\n]+")
_ENOUGH_LABELS, _NEARLY_ALL = 8, 0.9  # labels of one width, that share of all
_RARE = 0.1  # of all labels: so many look like srun's by chance
_FIRST_BYTES = 1 << 16  # of a log, in which rank labels and headers are looked for
_FIRST_ROWS = 9  # lines from a header at the start of a log that show whether it has rows
_LINES_WITH_HEADERS = 1 << 13  # unread lines among which headers of tables are looked for
_MOST_RANKS = 4096  # numbers before lines that each print a larger one are ranks only below it


class DetectedFormat(Struct, frozen=True):
    """A format that the first lines of a log prove.

    Attributes:
        lines: Number of the first lines that the format reads or knows as context.
        share: That number over all lines with content.
        proof: Line number, name of the line shape and content of the first line of each shape that proves the format.
        gives_rows: Whether one of the first lines gives rows of a table, not only settings.
    """

    format: Format
    lines: int
    share: float
    proof: tuple[tuple[int, str, str], ...]
    gives_rows: bool


class Detection(Struct, frozen=True):
    """What the first lines of a log show: its formats, its rank labels, its records.

    Attributes:
        formats: The formats that they prove, best first: those with rows before those with settings only.
        labels: The rank labels before the lines.
        per_rank: Whether several labelled ranks each print step lines.
        scanned: The first lines, scanned. Kinds are indices into `lines`.
        batch: The same with the rows of printed tables.
        lines: The lines that were tried, with lines of families; after them what is in printed tables.
        tried: The number of the former.
        formats_tried: The formats with all their possible lines tried.
        shown: The lines of families that the log has shown.
        discovery: Finds further lines of families.
        opening: The block at the start of the log, if it begins with one; of logs that are read together, their blocks.
    """

    formats: tuple[DetectedFormat, ...]
    labels: Labels
    per_rank: bool
    scanned: Batch
    batch: Batch
    lines: tuple[FormatLine, ...]
    tried: int
    formats_tried: frozenset[Format]
    shown: tuple[FormatLine, ...]
    discovery: TemplateDiscovery
    opening: OpeningBlocks | None = None

    def scanned_as(self, scanner: Scanner) -> Batch | None:
        """Return the first lines as a scanner would scan them, without scanning them again; None if they must be.

        The detection has tried only lines that can occur, but of more formats than the log has proved. So it has read
        what the scanner reads if it has tried all formats of the scanner, if the lines of both are in the same order,
        if all records are of lines that the scanner has, and if both cut the same lines.
        """
        if not self.formats_tried.issuperset(form for form, _ in scanner.lines):
            return None
        kinds = {line: kind for kind, (_, line) in enumerate(scanner.lines)}
        kind_of = {old: kinds[line] for old, (_, line) in enumerate(self.lines[: self.tried]) if line in kinds}
        same_order = all(first < second for first, second in pairwise(kind_of.values()))
        if not same_order or not kind_of.keys() >= self.scanned.records.keys() or not scanner.cuts_alike(self.scanned):
            return None
        return self.scanned.with_kinds(kind_of | {BLANK: BLANK})


_LEAST_PARTLY = 0.1
"""Share of the first lines that a format must read if it knows each of them only in part: its beginning, or without one
of its numbers. A whole line after a prefix proves its format as the line alone does."""


def proves_format(line: Line) -> bool:
    """Return whether a match of the line proves its format: as declared, else a bare number or single word does not."""
    return line.read and line.is_telling


def _proves(x: Line | Family) -> bool:
    return proves_format(x) if isinstance(x, Line) else x.proves_format


class LiteralIndex:
    """Finds the lines and families of formats that a string could hold, by their literals. See `literal_index`."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self._all: list[tuple[Format, Line | Family]] = []
        for form in formats:
            self._all += [(form, line) for line in form.lines]
            self._all += [(form, family) for family in form.families]
        self._prefilter = LiteralPrefilter(
            [x.template.required_literal if isinstance(x, Line) else x.required_literal for _, x in self._all]
        )

    def held(self, data: bytes | bytearray, size: int) -> list[tuple[Format, Line | Family]]:
        """Return the lines and families that data[:size] could match. `data[size:size+SLACK]` must be readable."""
        return [self._all[k] for k in self._prefilter.candidates(data, size)]

    def proofs(self, data: bytes | bytearray, size: int) -> list[tuple[Format, Line | Family]]:
        """Return the lines and families of `held` that could prove that a log is in their format."""
        return [(form, x) for form, x in self.held(data, size) if _proves(x)]


@lru_cache(64)
def literal_index(formats: tuple[Format, ...]) -> LiteralIndex:
    """Return the index of some formats. Many logs are read with the same ones."""
    return LiteralIndex(formats)


class _ShownBefore:
    """The Lines of families that the last log with the same formats and declared lines has shown.

    Logs of a campaign look alike.
    """

    def __init__(self) -> None:
        self._shown: dict[tuple[int, ...], tuple[Sequence[object], Sequence[FormatLine]]] = {}

    def of(self, formats: Sequence[Format], declared: Sequence[FormatLine]) -> Sequence[FormatLine]:
        """Return the Lines that a log with these formats and lines has shown; none if there was no such log."""
        return self._shown.get(_identities(formats, declared), ((), ()))[1]

    def keep(self, formats: Sequence[Format], declared: Sequence[FormatLine], shown: Sequence[FormatLine]) -> None:
        """Keep what a log has shown. Formats and lines are kept too, so that their identities stay theirs."""
        if len(self._shown) >= _MOST_KEPT:
            self._shown.pop(next(iter(self._shown)), None)
        self._shown[_identities(formats, declared)] = (tuple(formats), tuple(declared)), tuple(shown)


def _identities(formats: Sequence[Format], declared: Sequence[FormatLine]) -> tuple[int, ...]:
    return (*map(id, formats), *(id(line) for _, line in declared))


_MOST_KEPT = 64
_shown_before = _ShownBefore()


def detect(chunk: Chunk, formats: Iterable[Format]) -> Detection:
    """Detect the formats of a log.

    Generic formats are tried if no other format reads steps; formats of whole files, if no other format reads anything.

    Args:
        chunk: The first lines of the log.
        formats: The formats to try.
    """
    every = tuple(formats)
    block = _opening(chunk, every)
    return _detect_all(chunk, every, OpeningBlocks([block]) if block is not None else None, _labels(chunk))


def detect_together(logs: JoinedLogs, formats: Iterable[Format]) -> Detection:
    """Detect the formats of logs that look alike: what each of them shows by itself.

    Args:
        logs: The logs, each of them whole.
        formats: The formats to try.

    Raises:
        UnlikeLogsError: The logs do not look alike.
    """
    every = tuple(formats)
    blocks = [_opening(head, every) for head in logs.heads]
    logs.check([np.array([block is not None for block in blocks])])
    found = [block for block in blocks if block is not None]
    if any(block.lines != found[0].lines for block in found):
        raise UnlikeLogsError
    opening = OpeningBlocks(found, logs.first_lines, logs.starts) if found else None
    if not opening and any(_first_headers(head, every) for head in logs.heads):
        raise UnlikeLogsError
    labels = [_labels(head) for head in logs.heads]
    if any(found.has_launcher_labels or found != labels[0] for found in labels):
        raise UnlikeLogsError
    return _detect_all(logs.chunk, every, opening, labels[0], logs)


def _opening(chunk: Chunk, formats: tuple[Format, ...]) -> OpeningBlock | None:
    """Return the block at the start of a log."""
    block = find_opening_block(chunk, _opening_blocks(formats))
    if block is not None and _holds_steps(block.doubtful, formats):
        return None  # it ends at a rule after the steps: where the source ends is unknown
    return block


@lru_cache(16)
def _opening_blocks(formats: tuple[Format, ...]) -> Sequence[Sequence[Line]]:
    """Return the blocks at the start of a log that some formats declare."""
    return opening_blocks(lines_of(formats))


@lru_cache(64)
def _holds_steps(doubtful: bytes, formats: tuple[Format, ...]) -> bool:
    """Return whether formats read steps in the doubtful lines of an opening block. Runs of a program print the same."""
    chunk = as_chunk(doubtful)
    return _reads_steps(_detect_all(chunk, formats, None, _labels(chunk)))


def _detect_all(
    chunk: Chunk,
    every: tuple[Format, ...],
    opening: OpeningBlocks | None,
    labels: Labels,
    logs: JoinedLogs | None = None,
) -> Detection:
    """Detect the formats of a log among these, with the block that it begins with; or of logs that are joined."""
    exact = tuple(f for f in every if not f.generic)
    detection = _detect(chunk, exact, opening, labels, logs=logs)
    if len(exact) == len(every):
        return detection
    proven = {d.format.name for d in detection.formats}
    generic = tuple(f for f in every if f.generic)
    if _reads_steps(detection):
        generic = tuple(form for f in generic if (form := _without_steps(f)) is not None)
    if proven and not _may_read_more(detection, generic, logs):
        return detection
    left = (*(f for f in every if not f.generic and (f.name in proven or f.name == COMMON)), *generic)
    headers = _first_headers(chunk, left) if not (proven or opening or logs) else []
    with_generic = _detect(chunk, left, opening, labels, headers, logs=logs)
    if not (proven or opening or logs or headers):
        headers = _printed_headers(with_generic.batch, left)
        with_generic = _detect(chunk, left, None, labels, headers) if headers else with_generic
    return with_generic if with_generic.formats else detection


@lru_cache(64)
def _without_steps(form: Format) -> Format | None:
    """Return what a generic format reads beside the steps of another one: figures and settings; None for nothing."""
    shapes = [(family, family.shape) for family in form.families if isinstance(family, ShapedFamily)]
    families = [
        replace(family, shape=replace(shape, line=replace(shape.line, fills_steps=False)))
        for family, shape in shapes
        if shape.beside_steps
    ]
    return replace(form, families=tuple(families), lines=(), library=True) if families else None


def _may_read_more(detection: Detection, generic: Sequence[Format], logs: JoinedLogs | None) -> bool:
    """Return whether generic formats could read some of the lines that no proven format reads."""
    batch, proven = detection.batch, {COMMON, *(d.format.name for d in detection.formats)}
    unproven = [p for kind, p in batch.owner.items() if kind >= 0 and detection.lines[kind][0].name not in proven]
    positions = np.sort(np.concatenate([batch.unread_segments, *unproven]))
    if not len(positions):
        return False
    families = [family for form in generic for family in form.families if not is_first(family)]
    candidates = candidate_mask(batch.bytes_at(positions), families)
    if logs is not None:
        logs.check([logs.counts(some) > 0 for some in (positions, positions[candidates])])
    return any(form.lines for form in generic) or bool(candidates.any())


def _reads_steps(detection: Detection) -> bool:
    """Return whether some of the first lines are steps that a program prints, not only a library's bar."""
    return prints_steps(detection.lines, detection.batch)


def prints_steps(lines: Sequence[FormatLine], batch: Batch) -> bool:
    """Return whether a program prints rows of table `steps` in a batch. The bars of a library are none."""
    return any(lines[kind][1].table == "steps" and not lines[kind][0].library for kind in batch.records)


def has_training_bar(lines: Sequence[FormatLine], batch: Batch) -> bool:
    """Return whether a batch has states of a bar that counts steps: then the lines between them are of training."""
    return any(lines[kind][1].bar is not None and lines[kind][1].table == "steps" for kind in batch.records)


def _detect(
    chunk: Chunk,
    every: tuple[Format, ...],
    opening: OpeningBlocks | None,
    labels: Labels,
    headers: Sequence[FormatLine] = (),
    logs: JoinedLogs | None = None,
) -> Detection:
    """Detect the formats of a log among these, or of joined logs. `headers`: headers of tables of any program."""
    data = opening.after(chunk) if opening else chunk.data
    held = literal_index(every).held(data, len(data) - (len(chunk.data) - chunk.size))
    possible = {COMMON, *(form.name for form, x in held if _proves(x)), *(form.name for form, _ in headers)}
    known = sorted((f for f in every if f.name in possible), key=lambda f: (f.name != COMMON, f.generic))
    can_occur = {x for _, x in held} | (opening.lines if opening else frozenset())  # of a thousand lines
    lines_held = [(form, line) for form, line in lines_of(known) if line in can_occur]
    # The fast path needs the template of a label only where a log is long.
    scanner = Scanner([*lines_held, *headers], replace(labels, template=None), opening=opening, formats=known)
    declared = len(scanner.lines) - len(headers)
    discovery = TemplateDiscovery(is_bounded=logs is None)

    def families(scanner: Scanner, batch: Batch) -> Families:
        """Families that prove a format themselves, and families of a format that a line has proved."""
        proved = {scanner.lines[k][0].name for k in batch.records if proves_format(scanner.lines[k][1])}
        if has_training_bar(scanner.lines, batch):  # what programs print between its states
            proved |= {form.name for form in known if form.generic}
        return [(f, x) for f, x in families_of(known) if x.proves_format or f.name in proved or f.name == COMMON]

    scanner, scanned = discovery.scan(scanner, chunk, families, _shown_before.of(known, scanner.lines))
    lines, shown = list(scanner.lines), scanner.lines[declared:]
    if not headers:
        _shown_before.keep(known, lines[:declared], shown)
    batch, _ = HeaderRowReader().read(lines, scanned, {})
    batch, _ = without_settings(lines, batch)
    if headers and not any(_has_figure(line) for _, line in lines if line.under_header):
        return _detect(chunk, every, opening, labels)  # they only look like headers
    if logs is not None:
        _check_alike(logs, known, lines, batch)
        kinds = {kind: lines[kind] for kind in range(declared, len(lines)) if kind in batch.records}
        firsts = logs.firsts(batch, kinds)
        if batch is not scanned or not discovery.each_shows(shown, kinds, firsts, families(scanner, batch), batch):
            raise UnlikeLogsError
    formats_found = _detected([f for f in known if f.name != COMMON], lines, batch)
    per_rank = _per_rank(lines, batch)
    seen = tuple(lines), len(scanner.lines), frozenset(known), tuple(shown)
    return Detection(formats_found, labels, per_rank, scanned, batch, *seen, discovery, opening)


def _check_alike(logs: JoinedLogs, formats: Sequence[Format], lines: Sequence[FormatLine], batch: Batch) -> None:
    """Check that each of several logs shows the same lines, and proves the same formats in the same order.

    Raises:
        UnlikeLogsError: They do not.
    """
    lines_of_logs = {kind: logs.counts(positions) for kind, positions in batch.owner.items()}
    logs.check([count > 0 for kind, count in lines_of_logs.items() if kind != BLANK])
    logs.check([logs.counts(records.positions) > 0 for records in batch.records.values()])
    full = np.array([head.lines for head in logs.heads]) - logs.counts(np.setdiff1d(batch.owner[BLANK], logs.gaps))
    counts = [
        sum((lines_of_logs[kind] for kind in lines_of_logs if kind != BLANK and lines[kind][0] is form), 0 * full)
        for form in formats
        if form.name != COMMON
    ]
    counts = [count for count in counts if count.any()]
    logs.check([count >= _LEAST_PARTLY * np.maximum(full, 1) for count in counts])
    logs.check([first >= second for first in counts for second in counts])
    unread = logs.counts(batch.unread_segments)
    if (unread >= MOST_UNREAD_SHAPES).any():
        raise UnlikeLogsError


def _first_headers(chunk: Chunk, formats: Iterable[Format]) -> list[FormatLine]:
    """Return the header on the first line of a log, after empty lines and comments; [] if that line is none."""
    every = (match[0].rstrip() for match in _LINE.finditer(chunk.data, 0, min(chunk.size, _FIRST_BYTES)))
    texts = (x.decode("utf-8", "surrogateescape") for x in every if x and not x.lstrip().startswith(b"#"))
    first, *rows = [*islice(texts, _FIRST_ROWS)] or [""]
    families = _families_of_first_lines(tuple(formats))
    found = ((f, x.lines(first)) for f, x in families if _has_row(x, first, rows))
    return next(([(f, line) for line in lines] for f, lines in found if lines), [])


def _has_row(family: Family, first: str, rows: Sequence[str]) -> bool:
    """Return whether a header of a whole file has a row with as many cells below it, or no row at all."""
    header = family.header(first) if isinstance(family, HeaderTable) else None
    return header is None or not rows or any(header.may_be_row(row) for row in rows)


@lru_cache(16)
def _families_of_first_lines(formats: tuple[Format, ...]) -> Families:
    """Return the families of some formats with a header as the first line of a log."""
    return [(f, x) for f in formats for x in f.families if is_first(x) and not needs_rows(x)]


def _printed_headers(batch: Batch, formats: Iterable[Format]) -> list[FormatLine]:
    """Return the headers of tables among the unread lines that their rows prove, with the columns that these show."""
    families = [(f, x) for f in formats for x in f.families if isinstance(x, HeaderTable) and x.needs_rows]
    if not families or not len(batch.unread):
        return []
    texts = batch.bytes_at(batch.unread[:_LINES_WITH_HEADERS], LONGEST)
    headers: list[FormatLine] = []
    by_label = grouped(map(split_rank_label, texts.to_pylist()))  # ranks print between each other's rows
    lines_by_rank = [bytes_array(lines) for label, lines in by_label.items() if label != NO_LABEL]
    for _, table in chain.from_iterable(printed_tables(part, with_ruled=True) for part in (texts, *lines_by_rank)):
        family = {
            "styles": (table.style,), "cell_types": table.cell_types(), "unitless": table.unitless(),
            "is_ruled": table.is_proved, "second_line": table.second_line,
            "joined_names": tuple(table.names) if table.are_joined else (),
        }  # fmt: skip
        lines = (
            [(f, replace(line, telling=True)) for line in replace(x, **family).lines(table.block[0])]
            for f, x in families
        )
        headers += next(filter(None, lines), [])
    return headers


def _detected(formats: Iterable[Format], lines: Sequence[FormatLine], batch: Batch) -> tuple[DetectedFormat, ...]:
    """Return the formats that the lines of a batch prove, best first."""
    full = max(batch.chunk.lines - len(batch.owner.get(BLANK, ())), 1)
    formats_found = []
    between_bars = has_training_bar(lines, batch)
    for form in formats:
        kinds = [k for k, (f, _) in enumerate(lines) if f is form and k in batch.owner]
        count = sum(len(batch.owner[k]) for k in kinds)
        proof = []
        for kind in kinds:
            line = lines[kind][1]
            is_proof = proves_format(line) or (form.generic and line.read and between_bars)
            if is_proof and kind in batch.records:
                position = int(batch.records[kind].positions[0])
                proof.append((position >> PART_BITS, line.name, batch.text(position)))
        telling = [lines[k][1] for k in kinds if k in batch.records and proves_format(lines[k][1])]
        whole = any(line.after_prefix or not line.partial for line in telling) or (form.generic and between_bars)
        if not form.generic and are_few(telling):
            continue
        if proof and (whole or count >= _LEAST_PARTLY * full):
            gives_rows = any(lines[kind][1].gives_rows for kind in kinds)
            formats_found.append(DetectedFormat(form, count, count / full, tuple(sorted(proof)), gives_rows))
    formats_found.sort(key=lambda d: (not d.gives_rows, -d.lines))
    return tuple(formats_found)


def _has_figure(line: Line) -> bool:
    return line.read and any(f.numeric and not f.is_dropped for f in line.template.fields)


def _is_counter(labels: Sequence[int]) -> bool:
    """Return whether the numbers `10: ` before lines count something: each is new and larger than the one before.

    Lines of ranks 0, 1, 2, ... that each print once grow too, but from 0 and without a gap.
    """
    grows = len(labels) > 1 and all(b > a for a, b in pairwise(labels))
    return grows and (labels[-1] >= _MOST_RANKS or list(labels) != list(range(len(labels))))


def _labels(chunk: Chunk) -> Labels:
    """Return the rank labels before the first lines, where half of them or more have one."""
    head = b"\n" + chunk.data[: min(chunk.size, _FIRST_BYTES)]
    head = head[: head.rfind(b"\n") + 1]
    if not _WHOLE_LABEL.search(head):
        return NO_LABELS
    count = len(_LABELS.findall(head))
    lines = [x for x in head.split(b"\n") if x.strip()]
    with_label = sum(_LAUNCHER_LABEL.match(x) is not None for x in lines)
    if count * 2 < len(lines):
        return NO_LABELS
    bare = [int(number) for number in _BARE_LABELS.findall(head)]
    is_rare = len(bare) < _RARE * count
    if with_label * 2 < len(lines):
        return Labels(has_labels=True, bare_is_rare=is_rare)
    if _is_counter(bare):
        return NO_LABELS
    same = (t for t in LABEL_TEMPLATES if sum(t.regex.match(x) is not None for x in lines) * 2 >= len(lines))
    template = next(same, None)
    return Labels(template, has_launcher_labels=True, has_labels=True, bare_is_rare=is_rare, width=_label_width(head))


def _label_width(head: bytes) -> int:
    """Return the width of labels such as ` 3: ` if nearly all first lines that have one have the same, else 0."""
    widths = Counter(len(label) for label in _WIDTHS.findall(head))
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return width if count >= _ENOUGH_LABELS and count >= _NEARLY_ALL * widths.total() else 0


def _per_rank(lines: Sequence[FormatLine], batch: Batch) -> bool:
    """Return whether several labelled ranks print lines that close steps."""
    for kind, records in batch.records.items():
        closes = lines[kind][1].closes
        if closes not in (None, "run") and records.labels is not None and len(np.unique(records.labels)) > 1:
            return True
    return False
