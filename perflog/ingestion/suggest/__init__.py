"""Suggests a format file for a log that no format describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from shlex import quote
from typing import TypeVar

from msgspec.structs import replace

from perflog.errors import InputError
from perflog.formats.families.cell_cutting import is_rule
from perflog.formats.figures import figure_spans
from perflog.formats.model import Format
from perflog.formats.registry import COMMON, known
from perflog.formats.tokens import NUMBER, Token
from perflog.formats.vocabulary import COUNTER
from perflog.ingestion.detect import detect
from perflog.ingestion.late_formats import LateFormats
from perflog.ingestion.suggest import file_text, headed_tables, json_objects, table_roles, verification
from perflog.ingestion.suggest.headed_tables import TableDraft
from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.line_draft import MOST_FIELDS, LineDraft, draft
from perflog.ingestion.suggest.line_shapes import Key, LineShape, ShapeCounter
from perflog.ingestion.suggest.role_evidence import disproved_roles, proven_names, restarts_within, sample_counts
from perflog.ingestion.suggest.shape_merging import fits, merge_shapes
from perflog.ingestion.suggest.shared_names import tell_apart
from perflog.ingestion.suggest.verification import SCOPES, Chosen, ReadCounts
from perflog.ingestion.unrecognised import unusable
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source, open_source
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.readers.registry import find_reader
from perflog.tables.schema import GUESS

LINES = 60
"""Default limit: so many line shapes with numbers are described, and as many without numbers."""

DraftType = TypeVar("DraftType", bound=LineDraft)

_GUESSED_LINES = 200  # line shapes that such a format describes
_MOST_READS = 4  # the log is read so often to complete the shapes, and once more for the final counts
_DRAFTS_PER_LINE = 12  # so many shapes are drafted for each line that may be described
_COMMON_COUNT = 2  # lines of one shape that make it common: so many for a context, more for a line without names
_LEAST_IN_ROW = 3  # numbers of a line that is worth reading without a name
_MOST_LISTED = 10  # shapes listed at the end of the file that it does not describe
_EPOCH = lazy_pattern(r"\bepoch\b")  # its steps may count from the start again
_COUNT = lazy_pattern(rf"(?:.*_)?(?!epoch|rank){COUNTER}(?:_printed)?")  # of its own
_CLEAR_LABEL = lazy_pattern(rb"\[(?:default|rank)[0-9]+\]:|\[[0-9]+,[0-9]+\]<std")


def suggest(name: str, formats: Sequence[Format] = (), limit: int = LINES) -> str:
    """Suggest a format file for the most common lines of a log that no format reads.

    Units, tables and names are guesses; comments mark them. perflog has verified the file: `perflog formats check`
    accepts it, and it reads each line that it describes.

    Args:
        name: The path of the log.
        formats: The formats with lines that are left out. Default: the formats that perflog detects in the log. Generic
            ones are not among them: a format of its own says more.
        limit: The number of line shapes with numbers to describe, and the number without.

    Returns:
        The content of the format file.

    Raises:
        InputError: The log cannot be used, or none of the lines that could be described has a number.
    """
    with open_source(name) as source:
        reader = None if formats else find_reader(source)
        if reader is not None:
            help = "formats describe lines; `perflog ingest` reads this file"
            raise InputError(f"perflog has a reader for it: {reader.title}", name, help)
        candidates = () if formats else [f for f in known().values() if not f.generic]
        suggestion = _Suggestion(source, formats, candidates, limit)
        suggestion.others = list(known().values())  # no format may read the samples of another one
        return suggestion.text()


def guess(source: Source, formats: Sequence[Format] = ()) -> Format | InputError | None:
    """Return a format that perflog makes from a log itself, for the lines that no format reads.

    Its names, units and tables are guesses. The rows that it reads say so: see column `read_by`.

    Args:
        source: The log.
        formats: The formats that the log is known to be in. Default: those that perflog detects.

    Returns:
        The format; the error that says why there is none; or None for a log that is no lines.
    """
    if not formats and find_reader(source) is not None:
        return None
    candidates = () if formats else list(known().values())
    try:
        text = _Suggestion(source, formats, candidates, _GUESSED_LINES, only_sure=True).text()
    except InputError as error:
        return error
    return replace(verification.load_text(text), name=GUESS, guessed=True)


class _Suggestion:
    """The suggested format file for one log.

    Attributes:
        active: The formats that already read lines of the log.
        formats: The active formats, and the common ones.
        shapes: The shapes of the lines that these formats do not read.
        merged: The keys of shapes in which words, names or units vary.
        others: The formats that must not read the samples of the suggested one.
        refused: The drafts that the file cannot hold, each with the reason.
        no_roles: By entry, the guessed roles that the log disproves.
    """

    def __init__(
        self,
        source: Source,
        formats: Sequence[Format],
        candidates: Sequence[Format],
        limit: int,
        only_sure: bool = False,
    ) -> None:
        """Count the shapes of the lines that no format reads.

        Args:
            source: The log.
            formats: The formats that the log is known to be in.
            candidates: The formats that perflog detects in it.
            limit: The number of line shapes with numbers to describe, and of those without.
            only_sure: Whether numbers stay unread that nothing names without doubt.

        Raises:
            InputError: The source is not a log.
        """
        self.source, self.limit, self.only_sure = source, limit, only_sure
        self.others: list[Format] = []
        self.detection = detect(source.head(), formats or candidates)
        proven = self.detection.formats if candidates else ()
        error = unusable(source, self.detection.batch.chunk)
        if error is not None and not (formats or proven):
            raise error
        self.active = list(formats) or [d.format for d in proven]
        common = [f for f in known().values() if f.name == COMMON]
        gives_rows = any(d.gives_rows for d in proven)
        others = [f for f in candidates if f not in [*common, *self.active] and not (gives_rows and f.generic)]
        late = LateFormats(others)
        unread = self._shape_counter()
        self.tables: list[TableDraft] = []
        for _, batch in verification.scan(source, [*common, *self.active], self.detection, late):
            unread.add(batch)
            self.tables += headed_tables.find_tables(batch)
        self.active += [f for f in others if f not in late.formats]
        self.formats = [*common, *self.active]
        if self.tables:
            unread = self._without_tables()
        objects, other_shapes = json_objects.merge_json_shapes(unread.shapes)
        self.shapes = objects | merge_shapes(other_shapes)
        self.merged = self.shapes.keys() - unread.shapes.keys()
        self.refused: list[tuple[LineDraft, str]] = []
        self.no_roles: dict[int | str, frozenset[str]] = {}

    def text(self) -> str:
        """Return the content of the format file.

        The log is read with the file. Lines of a described shape that stay unread join the shape, and the entries are
        drafted again. After some rounds, a shape that still has unread lines is given up.
        """
        for round in range(_MOST_READS + 1):
            chosen = self._choose()
            suggested = verification.load_text(self._file(chosen, ReadCounts()))
            suggested = replace(suggested, guessed=self.only_sure)  # a guessed format cuts no line
            unread = self._shape_counter()
            counts = verification.count_lines(self.source, [*self.formats, suggested], self.detection, unread)
            missed_any = self._add_missed_lines(chosen, unread, give_up=round >= _MOST_READS - 1)
            if not self._take_back_roles(chosen, counts) and not missed_any:
                break
        if not any(counts.counts.get(line.name) for line, _ in chosen if line.read and line.table != "runs"):
            raise self._nothing_error()
        has_epochs = any(_EPOCH.search(line.words) or "epoch" in line.names for line, _ in chosen)
        step_lines = [line.name for line, _ in chosen if line.closes]
        for line, _ in chosen:
            name = _count_name(line)
            has_place = not line.read or line.table in ("steps", "runs") or not step_lines
            counts_itself = line.counts_itself or any(_COUNT.fullmatch(x) for x in line.names)
            line.is_outside = not has_place and (counts_itself or not counts.precedes_steps(name, step_lines))
            line.shape.count = counts.counts.get(name, 0)
            line.shape.first = counts.firsts.get(name, line.shape.first)
            line.within = line.within or restarts_within(line, counts.evidence)
            line.before = line.table == "runs" and not has_epochs and counts.starts_runs(name)
        return self._file(chosen, counts, unread)

    def _take_back_roles(self, chosen: Chosen, counts: ReadCounts) -> bool:
        """Note the roles that the numbers of the log disprove. Return whether there are new ones."""
        proven = proven_names((line for line, _ in chosen), counts.evidence)
        samples = sample_counts(line for line, _ in chosen)
        disproved = {
            _entry_id(line): self.no_roles.get(_entry_id(line), frozenset()) | roles
            for line, _ in chosen
            if (roles := disproved_roles(line, counts.evidence, proven, samples))
        }
        is_new = any(self.no_roles.get(entry) != roles for entry, roles in disproved.items())
        self.no_roles |= disproved
        return is_new

    def _without_tables(self) -> ShapeCounter:
        """Return the shapes of the lines that are in none of the CSV tables either. Drop tables that repeat."""
        by_header = {table.header: table for table in reversed(self.tables)}
        self.tables = sorted(by_header.values(), key=lambda table: table.shape.first)
        for number, table in enumerate(self.tables, 1):
            table.name = f"table_{number}"
        self.tables = tables = [table for table in self.tables if verification.loads(table)]
        unread = self._shape_counter()
        drafted = verification.load_entries([(table, [table.block]) for table in tables])
        for _, batch in verification.scan(self.source, [*self.formats, drafted], self.detection):
            unread.add(batch)
        return unread

    def _shape_counter(self) -> ShapeCounter:
        return ShapeCounter(strip_rank_labels if self.detection.labels.has_launcher_labels else _strip_clear_label)

    def _choose(self) -> Chosen:
        """Choose the lines to describe: the most common lines with numbers, then contexts, each in log order."""
        by_count = sorted(self.shapes.items(), key=lambda item: (-item[1].count, item[1].first))
        drafts = [self._borne_out(_draft(key, shape)) for key, shape in by_count[: _DRAFTS_PER_LINE * self.limit]]
        drafts = [d for d in drafts if len(d.slots) and len(d.numbers) <= MOST_FIELDS]
        lines = [d for d in drafts if d.read and _is_worth_reading(d)][: self.limit]
        contexts = [d for d in drafts if not d.read and d.shape.count >= _COMMON_COUNT][: self.limit]
        contexts = [] if self.only_sure else contexts  # a guess leaves words to those who read them: failures
        if self.tables:  # their rules must stay theirs
            contexts = [d for d in contexts if not is_rule(_first_text(d.shape))]
        tables = [self._borne_out(table) for table in self.tables]
        in_order = sorted([*lines, *tables], key=lambda d: d.shape.first)
        table_roles.assign_tables(in_order, self.only_sure)
        lines = [line for line in lines if line.read]
        tell_apart([line for line in lines if not isinstance(line, JsonDraft)])
        chosen, self.refused = verification.choose_disjoint([*lines, *contexts], self.others)
        chosen += [(table, [table.block]) for table in tables]
        if not any(line.read for line, _ in chosen):
            raise self._nothing_error()
        return sorted(chosen, key=_file_order)

    def _borne_out(self, line: DraftType) -> DraftType:
        """Return an entry without the roles that the log disproves."""
        line.no_roles = self.no_roles.get(_entry_id(line), frozenset())
        for role in line.no_roles & {"step", "rank"}:
            line.take_back(role)
        return line

    def _nothing_error(self) -> InputError:
        """Return the error for a log without lines to describe."""
        if self.active:
            names = ", ".join(f.name for f in self.active)
            return InputError("nothing is left to describe", self.source.name, f"{names} already reads the log")
        texts = (text for shape in self.shapes.values() for text in shape.lines)
        if self.only_sure and any(figure_spans(text) for text in texts):
            help = "`perflog formats suggest` writes a format file in which you name them"
            return InputError("no word names its numbers without doubt", self.source.name, help)
        help = "perflog reads numbers; this log has only words"
        return InputError("no line that could be described has a number", self.source.name, help)

    def _add_missed_lines(self, chosen: Chosen, unread: ShapeCounter, give_up: bool) -> bool:
        """Add unread lines that belong to a described shape to that shape. Return whether there are any.

        Args:
            chosen: The described lines.
            unread: The shapes of the lines that stayed unread.
            give_up: Whether to drop the shape instead.
        """
        described = {id(line.shape) for line, _ in chosen}
        missed_any = False
        for key, shape in self.shapes.items():
            if id(shape) not in described:
                continue
            candidates = unread.shapes.items() if key in self.merged else [(key, unread.shapes.get(key, LineShape(0)))]
            lines = {
                text: line
                for unread_key, unread_shape in candidates
                for text, line in unread_shape.lines.items()
                if text not in shape.lines and _belongs(key, unread_key, text, line)
            }
            if lines:
                missed_any = True
                shape.lines |= lines
                shape.count = 0 if give_up else shape.count
        self.shapes = {k: s for k, s in self.shapes.items() if s.count}
        return missed_any

    # --- the file -----------------------------------------------------------------------------------------------

    def _file(self, chosen: Chosen, counts: ReadCounts, unread: ShapeCounter | None = None) -> str:
        """Return the content of the format file; with `unread`, it lists lines that it does not describe."""
        keys = [
            f"title  = {file_text.quoted(f'Lines as in {PurePath(_printable(self.source.name)).name}')}",
            'source = "suggested from the log; say here which program prints them"',
            *(SCOPES if any(line.closes for line, _ in chosen) else ()),
        ]
        undescribed = self._undescribed(unread) if unread else []
        return file_text.file_text(self._head(chosen, counts), keys, chosen, undescribed)

    def _head(self, chosen: Chosen, counts: ReadCounts) -> list[str]:
        """Return the comments at the top: how many lines the file reads, and what to do with it."""
        read, context = (
            sum(counts.counts.get(_count_name(line), 0) for line, _ in chosen if line.read == has_numbers)
            for has_numbers in (True, False)
        )
        name = _printable(self.source.name)
        others = "".join(f" --format {f.name}" for f in self.active)
        return [
            f"A format file to start from, made by `perflog formats suggest {quote(name)}`.",
            "",
            (
                f"Of {counts.total} lines it reads {read}; {context} more are known context, "
                f"{counts.others} are read by other formats, {counts.blank} are empty, {counts.unread} are unread."
            ),
            "Names, units and tables are guesses from the words around the numbers. Check each `guess` below. Then",
            "",
            "    perflog formats check FILE.toml",
            f"    perflog ingest{others} --format FILE.toml {quote(name)}",
        ]

    def _undescribed(self, unread: ShapeCounter) -> list[str]:
        """Return comments that list the most common shapes that the file does not describe."""
        rows = []
        for line, reason in self.refused[:_MOST_LISTED]:
            rows.append(f"{line.shape.count:8d}  {_printable(_first_text(line.shape))[:100]}  ({reason})")
        refused_texts = {_first_text(line.shape) for line, _ in self.refused}
        by_count = sorted(unread.shapes.values(), key=lambda s: (-s.count, s.first))
        shapes = [s for s in by_count if s.lines and _first_text(s) not in refused_texts]
        rows += [f"{s.count:8d}  {_printable(_first_text(s))[:100]}" for s in shapes[:_MOST_LISTED]]
        return ["The most common lines that are not described (--limit describes more):", *rows] if rows else []


def _first_text(shape: LineShape) -> str:
    return next(iter(shape.lines))


def _entry_id(line: LineDraft) -> int | str:
    """Return what an entry has in common with the entry that is drafted for the same lines again."""
    return line.name if isinstance(line, TableDraft) else id(line.shape)


def _count_name(line: LineDraft) -> str:
    """Return the name under which the lines of an entry are counted: a context has no name but its content."""
    return line.name if line.read else line.text


def _is_worth_reading(line: LineDraft) -> bool:
    """Whether a line is common, or has words and a number with a name."""
    has_name = any(s.listed or (s.kind == NUMBER and not s.named.vague) for s in line.slots)
    has_name |= len(line.numbers) >= _LEAST_IN_ROW
    return line.shape.count > _COMMON_COUNT or (has_name and any(c.isalpha() for c in line.words))


def _file_order(entry: tuple[LineDraft, list[str]]) -> tuple[bool, bool, int]:
    """Return the sort key of an entry: contexts last, before them objects without a step (they match more)."""
    line = entry[0]
    return not line.read, isinstance(line, json_objects.JsonDraft) and not line.when, line.shape.first


def _draft(key: Key, shape: LineShape) -> LineDraft:
    """Return the draft of a shape: a `[[json]]`, a `[[line]]` or a `[[context]]`."""
    return json_objects.draft_json(key, shape) if key[0] == json_objects.OBJECT else draft(key, shape)


def _belongs(key: Key, line_key: Key, text: str, line: tuple[Token, ...]) -> bool:
    """Whether a line belongs to a described shape.

    Args:
        key: The key of the described shape.
        line_key: The key of the line itself.
        text: The line.
        line: Its tokens.
    """
    if key[0] == json_objects.OBJECT:
        parts = json_objects.parts(text)
        return parts is not None and parts.key == key
    return line_key == key or fits(key, line_key, line)


def _strip_clear_label(text: bytes) -> bytes:
    """Return a line without its label if it can only be a label. `3: ` is a label only where most lines have one."""
    return strip_rank_labels(text) if _CLEAR_LABEL.match(text) else text.rstrip(b" \t")


def _printable(text: str) -> str:
    """Return a string with spaces instead of characters that cannot be printed."""
    return "".join(c if c.isprintable() else " " for c in text)
