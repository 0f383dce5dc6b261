"""A format file to start from, for a log that no format describes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from shlex import quote

from perflog.errors import InputError
from perflog.formats.model import Format
from perflog.formats.registry import COMMON, known
from perflog.ingestion.detect import Detection, detect
from perflog.ingestion.diagnose import unusable
from perflog.ingestion.suggest import file_text, json_objects, key_value, table_roles, verification
from perflog.ingestion.suggest.line_draft import MOST_FIELDS, LineDraft, draft
from perflog.ingestion.suggest.line_shapes import Key, LineShape, ShapeCounter
from perflog.ingestion.suggest.printed_tables import fits, join_name
from perflog.ingestion.suggest.shape_merging import merge_shapes
from perflog.ingestion.suggest.tokens import Token
from perflog.parsing.input.source import Source, open_source
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.readers.registry import find_reader

LINES = 60
"""Line shapes that are described, unless another number is asked for; as many without numbers beside them."""

_ROUNDS = 4  # times that a log is read to see whether what is described is read
_TRIED = 12  # times as many shapes are tried as lines are described
_OFTEN = 2  # lines without numbers that are worth a context
_LISTED = 10  # shapes named that are left
_SURE_LABEL = re.compile(rb"\[(?:default|rank)[0-9]+\]:|\[[0-9]+,[0-9]+\]<std")


def suggest(name: str, formats: Sequence[Format] = (), limit: int = LINES) -> str:
    """The text of a format file that describes the commonest lines of a log which these formats do not read (default:
    those that the log shows). All it says of units, tables and names is a guess, and marked as one; that it is accepted
    by `perflog formats check`, and reads every line it describes, has been tried.

    Raises InputError if the log cannot be used, or no line that is left carries a number.
    """
    with open_source(name) as source:
        reader = None if formats else find_reader(source)
        if reader is not None:
            raise InputError(f"read already: {reader.title}", name, "formats describe lines; `perflog ingest` reads it")
        seen = detect(source.head(), formats or known().values())
        error = unusable(source, seen.batch.chunk)
        if error is not None and not seen.found:
            raise error
        active = list(formats) or [d.format for d in seen.found]
        return _Suggestion(source, seen, active, limit).text()


class _Suggestion:
    """Shapes of the unread lines, the lines made from them, and what reading the log with these shows."""

    def __init__(self, source: Source, seen: Detection, active: Sequence[Format], limit: int) -> None:
        self.source, self.seen, self.limit = source, seen, limit
        self.active = list(active)
        self.formats = [f for f in known().values() if f.name == COMMON] + self.active
        found = self._shapes()
        for _, batch in verification.batches(source, self.formats, seen):
            found.add(batch)
        objects, rest = json_objects.merge_json_shapes(found.shapes)
        self.shapes = objects | key_value.merge_key_value_shapes(merge_shapes(rest))
        self.wild = self.shapes.keys() - found.shapes.keys()  # shapes in which words, names or units vary
        self.refused: list[tuple[LineDraft, str]] = []

    def text(self) -> str:
        """The format file."""
        for round in range(_ROUNDS + 1):
            chosen = self._chosen()
            form = verification.loaded(self._file(chosen, verification.ReadCounts()))
            unread = self._shapes()
            account = verification.read(self.source, [*self.formats, form], self.seen, unread)
            if not self._missed(chosen, unread, give_up=round >= _ROUNDS - 1):
                break
        for line, _ in chosen:
            name = line.name if line.read else line.text
            line.shape.count = account.counts.get(name, 0)
            line.shape.first = account.firsts.get(name, line.shape.first)
            line.before = line.table == "runs" and account.begins(name)
        return self._file(chosen, account, unread)

    def _shapes(self) -> ShapeCounter:
        return ShapeCounter(strip_rank_labels if self.seen.all_labelled else _sure)

    def _chosen(self) -> verification.Chosen:
        """The lines to describe: those that are read, then contexts, each the commonest, in the order of the log."""
        common = sorted(self.shapes.items(), key=lambda item: (-item[1].count, item[1].first))
        drafts = [_draft(key, shape) for key, shape in common[: _TRIED * self.limit]]
        drafts = [d for d in drafts if len(d.slots) and len(d.numbers) <= MOST_FIELDS]
        read = [d for d in drafts if d.read and _says(d)][: self.limit]
        context = [d for d in drafts if not d.read and d.shape.count >= _OFTEN][: self.limit]
        table_roles.assign_tables(sorted(read, key=lambda d: d.shape.first), self.shapes.values())
        chosen, self.refused = verification.disjoint([*read, *context])
        if not any(line.read for line, _ in chosen):
            raise self._nothing()
        return sorted(chosen, key=_place)

    def _nothing(self) -> InputError:
        if self.active:
            names = ", ".join(f.name for f in self.active)
            return InputError("nothing is left to describe", self.source.name, f"the log is read by {names}")
        help = "perflog reads figures; a log of words alone has none"
        return InputError("no line that could be described carries a number", self.source.name, help)

    def _missed(self, chosen: verification.Chosen, unread: ShapeCounter, give_up: bool) -> bool:
        """Whether lines are unread that are of a described shape. They join its lines, or the shape is given up."""
        described = {id(line.shape) for line, _ in chosen}
        missed = False
        for key, shape in self.shapes.items():
            if id(shape) not in described:
                continue
            found = unread.shapes.items() if key in self.wild else [(key, unread.shapes.get(key, LineShape(0)))]
            lines = {
                text: join_name(key, line)
                for own, other in found
                for text, line in other.lines.items()
                if text not in shape.lines and _of(key, own, text, line)
            }
            if lines:
                missed = True
                shape.lines |= lines
                shape.count = 0 if give_up else shape.count
        self.shapes = {k: s for k, s in self.shapes.items() if s.count}
        return missed

    # --- the file -----------------------------------------------------------------------------------------------

    def _file(
        self, chosen: verification.Chosen, account: verification.ReadCounts, unread: ShapeCounter | None = None
    ) -> str:
        closes = any(line.closes for line, _ in chosen)
        keys = [
            f"title  = {file_text.quoted(f'Lines as in {PurePath(_plain(self.source.name)).name}')}",
            'source = "suggested from the log; say here which program prints them"',
        ]
        if closes:
            keys.append('scopes = ["run", "step"]')
        left = self._left(unread) if unread else []
        return file_text.file_text(self._head(chosen, account), keys, chosen, left)

    def _head(self, chosen: verification.Chosen, account: verification.ReadCounts) -> list[str]:
        counts = {True: 0, False: 0}
        for line, _ in chosen:
            counts[line.read] += account.counts.get(line.name if line.read else line.text, 0)
        name = _plain(self.source.name)
        others = "".join(f" --format {f.name}" for f in self.active)
        return [
            f"A format file to start from, made by `perflog formats suggest {quote(name)}`.",
            "",
            (
                f"Of {account.total} lines it reads {counts[True]}; {counts[False]} more are known context, "
                f"{account.others} are read by other formats, {account.blank} are blank, {account.unread} are unread."
            ),
            "Names, units and tables are taken from the words around the numbers: see what is marked as a guess. Then",
            "",
            "    perflog formats check FILE.toml",
            f"    perflog ingest{others} --format FILE.toml {quote(name)}",
        ]

    def _left(self, unread: ShapeCounter) -> list[str]:
        """The commonest shapes that are not described, as comments."""
        out = []
        for line, why in self.refused[:_LISTED]:
            out.append(f"{line.shape.count:8d}  {_plain(next(iter(line.shape.lines)))[:100]}  ({why})")
        rest = sorted(unread.shapes.values(), key=lambda s: (-s.count, s.first))
        texts = {next(iter(line.shape.lines)) for line, _ in self.refused}
        rest = [s for s in rest if s.lines and next(iter(s.lines)) not in texts]
        out += [f"{s.count:8d}  {_plain(next(iter(s.lines)))[:100]}" for s in rest[:_LISTED]]
        return ["Not described, the commonest (--limit describes more):", *out] if out else []


def _says(line: LineDraft) -> bool:
    """Whether a line has words of its own and a number that has a name, or is there often."""
    if len(re.findall(r"\b(?:s/it|it/s)\b", line.words)) > 1:  # several progress bars: each is a line of its own
        return False
    named = any(not s.named.vague for s in line.numbers)
    return line.shape.count > _OFTEN or (named and any(c.isalpha() for c in line.words))


def _place(entry: tuple[LineDraft, list[str]]) -> tuple[bool, bool, int]:
    """Lines that are read come first; of objects those with a step before the rest, which would take them."""
    line = entry[0]
    return not line.read, isinstance(line, json_objects.JsonDraft) and not line.when, line.shape.first


def _draft(key: Key, shape: LineShape) -> LineDraft:
    if key[0] == json_objects.OBJECT:
        return json_objects.draft_json(key, shape)
    return key_value.draft_key_value(key, shape) if key[0] == key_value.PAIRS else draft(key, shape)


def _of(key: Key, own: Key, text: str, line: tuple[Token, ...]) -> bool:
    """Whether a line, whose own shape is `own`, is of the described shape."""
    if key[0] in (key_value.PAIRS, json_objects.OBJECT):
        found = key_value.parts(text) if key[0] == key_value.PAIRS else json_objects.parts(text)
        return found is not None and found.key == key
    return own == key or fits(key, own, line)


def _sure(text: bytes) -> bytes:
    """A line without labels that can be nothing else; `3: ` in front is one only where it is the rule."""
    return strip_rank_labels(text) if _SURE_LABEL.match(text) else text.rstrip(b" \t")


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
