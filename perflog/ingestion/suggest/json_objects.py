"""Drafts `[[json]]` entries for lines that hold one object each, JSON or a Python dict.

Objects that print a step get an entry of their own; all other objects share a second entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from perflog.formats.families.json_lines import JsonValue, last_key, object_values
from perflog.formats.tokens import NUMBER, skeleton, tokens
from perflog.formats.vocabulary import PLACES
from perflog.grouping import grouped
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, LineDraft, Slot, named_slots, slots_of, text_of
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.naming import Named
from perflog.ingestion.suggest.number_specs import spec_of
from perflog.lazy_patterns import lazy_pattern

OBJECT = "\0object"
"""First part of the key of such a shape; the path of the step ("" if none) and the key of the head follow."""

_MOST_HEAD = 120  # characters before an object, at most
_NUMBER = lazy_pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|NaN|-?[iI]nf(?:inity)?")
_NO_FIGURES = {"pid": "process id", "tid": "thread id", **dict.fromkeys(("lineno", "line_no"), "line of the source")}
_NOT_MEASURED = lazy_pattern(r"time_?stamp|date_?time|time_ms|lineno|line_?no|[pt]id|seed|version|port|_?ts")
_MOST_PATHS = 40  # with more paths, only the step has a name


class JsonParts(Struct, frozen=True):
    """A line cut into its head and the values of its object.

    Attributes:
        head: What is before the object.
        values: The values of the object, with their paths.
        text: The whole line.
    """

    head: str
    values: tuple[JsonValue, ...]
    text: str

    @property
    def numbers(self) -> dict[str, str]:
        """Path -> string of each measured number, in quotes or not."""
        texts = {value.path: self.text[value.begin : value.end] for value in self.values}
        return {
            path: text
            for path, text in texts.items()
            if _NUMBER.fullmatch(text) and path and not _NOT_MEASURED.fullmatch(last_key(path).lower())
        }

    @property
    def step(self) -> str:
        """The path of the step, if the object also has measured numbers; "" otherwise."""
        names = {path: _named(path, [text]).name for path, text in self.numbers.items()}
        steps = [path for path, name in names.items() if name == "step"]
        measured = [name for name in names.values() if name not in (*PLACES, "epoch", "learning_rate")]
        return steps[-1] if steps and measured else ""

    @property
    def key(self) -> Key:
        """The key of the shape that the line belongs to."""
        return (OBJECT, self.step, *skeleton(tokens(self.head)))


class JsonDraft(LineDraft):
    """A `[[json]]` entry while it is drafted.

    Attributes:
        key: The key of the shape.
        head: The slots of the head.
        blanks: The whitespace between the head and the object.
        paths: For each path, the number there.
    """

    key: Key = ()
    head: list[Slot] = field(default_factory=list)
    blanks: str = ""
    paths: dict[str, Slot] = field(default_factory=dict)

    @property
    def head_text(self) -> str:
        """The template of the head."""
        return text_of(self.head, self.loose, True) + self.blanks

    @property
    def step(self) -> str:
        """The path of the step; "" if these objects print none."""
        return self.key[1]

    @property
    def when(self) -> dict[str, str]:
        """The key `when`: paths that must be there. For steps, the step and one number that all these lines have."""
        if not self.step:
            return {}
        lines = _shape_parts(self.shape)
        common = [path for path in self.paths if path != self.step and all(path in line.numbers for line in lines)]
        losses = [path for path in common if "loss" in path]
        return dict.fromkeys([self.step, *(losses or common)[:1]], "*")

    @property
    def keys(self) -> dict[str, str]:
        """The keys of `[json.keys]`: path -> name of the field."""
        named = self.paths if self.step and len(self.paths) <= _MOST_PATHS else [self.step] if self.step else []
        return {path: self.paths[path].named.name for path in named} | {"*": "*"}

    @property
    def dropped(self) -> dict[str, str]:
        """The key `dropped`: numbers of these objects that are no figures, each with the reason."""
        paths = dict.fromkeys(value.path for line in _shape_parts(self.shape) for value in line.values)
        reasons = {path: _NO_FIGURES.get(last_key(path).lower(), "") for path in paths}
        return {path: reason for path, reason in reasons.items() if reason}


def parts(text: str) -> JsonParts | None:
    """Return a line cut into its head and its object; None if it holds no object."""
    begin = text.find("{")
    if not 0 <= begin <= _MOST_HEAD:
        return None
    parsed = object_values(text, begin)
    if parsed is None:
        return None
    values, end = parsed
    return None if text[end:].strip(" \t") else JsonParts(text[:begin], tuple(values), text)


def merge_json_shapes(shapes: Mapping[Key, LineShape]) -> tuple[dict[Key, LineShape], dict[Key, LineShape]]:
    """Return the shapes of objects, merged, and all other shapes.

    For each head there are at most two merged shapes: objects that print a step, and other objects.
    """
    groups: dict[Key, dict[Key, LineShape]] = {}
    others: dict[Key, LineShape] = {}
    for key, shape in shapes.items():
        line = parts(next(iter(shape.lines))) if shape.lines else None
        (groups.setdefault(line.key, {}) if line is not None else others)[key] = shape
    objects: dict[Key, LineShape] = {}
    for merged_key, members in groups.items():
        lines = {t: x for shape in members.values() for t, x in shape.lines.items() if _has_key(t, merged_key)}
        merged = LineShape(min(s.first for s in members.values()), sum(s.count for s in members.values()), lines)
        if any(line.numbers for line in _shape_parts(merged)):
            objects[merged_key] = merged
        else:  # the objects hold words only
            others |= members
    return objects, others


def _has_key(text: str, key: Key) -> bool:
    line = parts(text)
    return line is not None and line.key == key


def draft_json(key: Key, shape: LineShape) -> JsonDraft:
    """Return an entry with names and units of its fields, but no table yet."""
    lines = _shape_parts(shape)
    step = key[1]
    head = slots_of(key[2:], [tokens(line.head) for line in lines])
    named_slots(head)
    texts = grouped((path, text) for line in lines for path, text in line.numbers.items())
    paths = {path: Slot(NUMBER, values, [""] * len(values), is_sure=True) for path, values in texts.items()}
    names = [_named(path, slot.texts) for path, slot in paths.items()]
    if step:  # of several numbers named step, as in `"step": [0, 12]`, the last is the step, the others are epochs
        names = [Named("epoch") if n.name == "step" and p != step else n for p, n in zip(paths, names, strict=True)]
    for slot, named in zip(paths.values(), naming.settled(names, []), strict=True):
        slot.named, slot.spec = named, "d" if spec_of(slot.texts) == "d" else "r"
    words = [Slot(LITERAL, [last_key(path)], [" "]) for path in paths]
    blanks = lines[0].head[len(lines[0].head.rstrip()) :]
    return JsonDraft(shape, [*head, *words, *paths.values()], key=key, head=head, blanks=blanks, paths=paths)


def _shape_parts(shape: LineShape) -> list[JsonParts]:
    return [line for text in shape.lines if (line := parts(text)) is not None]


def _named(path: str, texts: Sequence[str]) -> Named:
    """Guess the name and unit of the number at a path from the last key of the path."""
    return naming.name_of_key(last_key(path), texts)
