"""Lines that hold one object each, JSON or a Python dict: those of a step, and the rest, as `[[json]]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perflog.formats.families.json_lines import JsonValue, object_values
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, LineDraft, Slot, named_slots, slots_of, text_of
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.naming import Named
from perflog.ingestion.suggest.number_specs import spec_of
from perflog.ingestion.suggest.tokens import NUMBER, skeleton, tokens

OBJECT = "\0object"
"""First piece of the key of such lines; whether they tell a step, and the key of what stands in front, follow."""

_HEAD = 120  # characters in front of an object at most
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|NaN|-?[iI]nf(?:inity)?")
_NO_FIGURE = re.compile(r"time_?stamp|date_?time|time_ms|lineno|pid|seed|version|port|_?ts")
_FEW = 40  # paths that are named


@dataclass(frozen=True)
class JsonParts:
    """A line as the text in front of its object, and the values in that."""

    head: str
    leaves: tuple[JsonValue, ...]
    text: str

    @property
    def numbers(self) -> dict[str, str]:
        """Path -> text of each number, in quotes or not."""
        found = {x.path: self.text[x.begin : x.end] for x in self.leaves}
        return {
            p: t for p, t in found.items() if _NUMBER.fullmatch(t) and p and not _NO_FIGURE.fullmatch(_last(p).lower())
        }

    @property
    def step(self) -> str:
        """The path of the step, where figures of it stand beside it; "" if there is none."""
        named = {p: _named(p, [t]).name for p, t in self.numbers.items()}
        steps = [p for p, name in named.items() if name == "step"]
        rest = [name for name in named.values() if name not in ("step", "rank", "epoch", "learning_rate")]
        return steps[-1] if steps and rest else ""

    @property
    def key(self) -> Key:
        return (OBJECT, self.step, *skeleton(tokens(self.head)))


@dataclass
class JsonDraft(LineDraft):
    """A `[[json]]` while it is made."""

    key: Key = ()
    head: list[Slot] = field(default_factory=list)
    blanks: str = ""
    paths: dict[str, Slot] = field(default_factory=dict)  # path -> its number

    @property
    def head_text(self) -> str:
        return text_of(self.head, self.loose, True) + self.blanks

    @property
    def when(self) -> dict[str, str]:
        """What must be there: of a step line its number and a figure that all of them have."""
        if not self.key[1]:
            return {}
        figures = [p for p in self.paths if p != self.key[1] and all(p in x.numbers for x in _all(self.shape))]
        losses = [p for p in figures if "loss" in p]
        return dict.fromkeys([self.key[1], *(losses or figures)[:1]], "*")

    @property
    def keys(self) -> dict[str, str]:
        """Path -> name of the field."""
        if not self.key[1] or len(self.paths) > _FEW:
            own = {self.key[1]: "step"} if self.key[1] else {}
            return own | {"*": "*"}
        return {path: slot.named.name for path, slot in self.paths.items()}


def parts(text: str) -> JsonParts | None:
    """A line as its object; None if it holds none."""
    at = text.find("{")
    if not 0 <= at <= _HEAD:
        return None
    found = object_values(text, at)
    if found is None or text[found[1] :].strip(" \t"):
        return None
    return JsonParts(text[:at], tuple(found[0]), text)


def objects(shapes: Mapping[Key, LineShape]) -> tuple[dict[Key, LineShape], dict[Key, LineShape]]:
    """The shapes of objects, put together: one of a step's, one of the rest, for each head; and all other shapes."""
    groups: dict[Key, dict[Key, LineShape]] = {}
    rest: dict[Key, LineShape] = {}
    for key, shape in shapes.items():
        found = parts(next(iter(shape.lines))) if shape.lines else None
        (groups.setdefault(found.key, {}) if found is not None else rest)[key] = shape
    out: dict[Key, LineShape] = {}
    for own, members in groups.items():
        lines = {t: x for shape in members.values() for t, x in shape.lines.items() if _of(t, own)}
        together = LineShape(min(s.first for s in members.values()), sum(s.count for s in members.values()), lines)
        if any(p.numbers for p in _all(together)):
            out[own] = together
        else:  # words alone
            rest |= members
    return out, rest


def _of(text: str, key: Key) -> bool:
    found = parts(text)
    return found is not None and found.key == key


def draft(key: Key, shape: LineShape) -> JsonDraft:
    """Such lines as an entry whose fields have names and units, but no table yet."""
    found = _all(shape)
    head = slots_of(key[2:], [tokens(p.head) for p in found])
    named_slots(head)
    texts: dict[str, list[str]] = {}
    for p in found:
        for path, text in p.numbers.items():
            texts.setdefault(path, []).append(text)
    paths = {path: Slot(NUMBER, values, [""] * len(values)) for path, values in texts.items()}
    given = [_named(path, slot.texts) for path, slot in paths.items()]
    if key[1]:  # of several steps, as in `"step": [0, 12]`, the last
        given = [Named("epoch") if n.name == "step" and p != key[1] else n for p, n in zip(paths, given, strict=True)]
    for slot, named in zip(paths.values(), naming.settled(given, []), strict=True):
        slot.named, slot.spec = named, "d" if spec_of(slot.texts) == "d" else "r"
    words = [Slot(LITERAL, [_last(path)], [" "]) for path in paths]
    blanks = found[0].head[len(found[0].head.rstrip()) :]
    return JsonDraft(shape, [*head, *words, *paths.values()], key=key, head=head, blanks=blanks, paths=paths)


def _all(shape: LineShape) -> list[JsonParts]:
    return [p for text in shape.lines if (p := parts(text)) is not None]


def _named(path: str, texts: Sequence[str]) -> Named:
    return naming.name(naming.Surroundings(f"{_last(path)}: ", "", texts))


def _last(path: str) -> str:
    """The last key of a path."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
