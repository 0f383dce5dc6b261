"""Lines of keys and values whose keys come and go: all of one head are one family, `[[pairs]]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, LineDraft, Slot, named_slots, slots_of, text_of
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.tokens import NUMBER, skeleton, tokens

PAIRS = "\0pairs"
"""First piece of the key of a family; the way its pairs are written, and the key of its head, follow."""

_KEYS = 48  # keys of a family at most
_FORMS = 4  # ways to print one key's value at most
_WAYS = (  # how a pair is written, what is between two, between key and value
    (" {key}: {value} |", r" *\|", r":"),
    ("{key}: {value}, ", r", ", r":"),
    ("{key} = {value}, ", r", ", r" ="),
    ("{key}={value}, ", r", ", r"="),
    ("{key}: {value}  ", r"(?<![:=]) {2,}", r":"),
    ("{key}={value} ", r" +", r"="),
)


@dataclass(frozen=True)
class KeyValueParts:
    """A line as the text before its first pair, and its pairs: key, and value with the blanks that pad it."""

    way: str
    head: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def key(self) -> Key:
        return (PAIRS, self.way, *skeleton(tokens(self.head)))


@dataclass
class KeyValueDraft(LineDraft):
    """A `[[pairs]]` while it is made: its head, and the ways in which the value of each key is printed."""

    way: str = ""
    head: list[Slot] = field(default_factory=list)
    blanks: str = ""  # behind the head
    forms: dict[str, list[list[Slot]]] = field(default_factory=dict)

    @property
    def head_text(self) -> str:
        return text_of(self.head, self.loose, True) + self.blanks

    def keys(self) -> dict[str, list[str]]:
        """Key -> how its value is printed."""
        out = {}
        for key, forms in self.forms.items():
            for form in forms[1:]:  # one key, one name
                for mine, first in zip(form, forms[0], strict=False):
                    if mine.kind == first.kind == NUMBER:
                        mine.named = first.named
                    elif mine.kind != LITERAL:
                        mine.dropped = True
            out[key] = [text_of(form, self.loose, True) for form in forms[:_FORMS]]
        return out


def parts(text: str) -> KeyValueParts | None:
    """A line as pairs of keys and values; None if it is none, or only one, or holds an object."""
    if re.search(r"[{}]|\[\"|\['", text):
        return None
    found = [p for way in _WAYS if (p := _parts(text, *way)) is not None]
    return max(found, key=lambda p: len(p.pairs), default=None)


def _parts(text: str, way: str, between: str, mid: str) -> KeyValueParts | None:
    text = text.rstrip(" \t")
    spans = [m.span() for m in re.finditer(between, text)]
    pieces = zip([0, *(b for _, b in spans)], [*(a for a, _ in spans), len(text)], strict=True)
    own = re.compile(rf" *(?P<key>[^:=|]*?[A-Za-z][^:=|]*?){mid} ?(?P<value> *[^ ]+(?: [^ ]+)?) *")
    pairs: list[tuple[str, str]] = []
    start = len(text)
    for begin, end in reversed(list(pieces)):
        match = own.fullmatch(text, begin, end)
        if match is not None:
            head = _head(match["key"])
            pairs.append((match["key"][head:], match["value"]))
            start = match.start("key") + head
            if head:
                break
        elif begin < end:
            last = _last(text[begin:end], mid)
            if last is not None:
                pairs.append(last[1:])
                start = begin + last[0]
            break
    return KeyValueParts(way, text[:start], tuple(reversed(pairs))) if len(pairs) > 1 else None


def _head(key: str) -> int:
    """Where in the text before the first `:` the key begins: behind numbers, brackets and dashes."""
    cut = 0
    for match in re.finditer(r"[0-9][^ ]* +|[\])>|,] *| - ", key):
        cut = match.end()
    return cut if cut < len(key) else 0


def _last(text: str, mid: str) -> tuple[int, str, str] | None:
    """The pair at the end of a text that is a head before it: place of its key, key, value."""
    match = re.fullmatch(rf"(.*[\])>|0-9] +|.* - )([A-Za-z][\w ./()-]*?){mid} ?( *[^ :=|]+) *", text)
    return (len(match[1]), match[2], match[3]) if match else None


def keyed(shapes: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """The shapes, those of pairs of one head put together where their keys differ."""
    groups: dict[Key, dict[Key, set[str]]] = {}
    for key, shape in shapes.items():
        found = parts(next(iter(shape.lines))) if shape.lines else None
        if found is not None:
            groups.setdefault(found.key, {})[key] = {k for k, _ in found.pairs}
    out = dict(shapes)
    for wild, members in groups.items():
        most = max(members, key=lambda k: shapes[k].count)
        near = [k for k, keys in members.items() if 2 * len(keys & members[most]) >= min(len(keys), len(members[most]))]
        every = set().union(*(members[k] for k in near))
        if len({frozenset(members[k]) for k in near}) > 1 and len(every) <= _KEYS:
            together = LineShape(min(shapes[k].first for k in near), sum(shapes[k].count for k in near))
            for key in near:
                together.lines |= out.pop(key).lines
            out[wild] = together
    return out


def draft(wild: Key, shape: LineShape) -> KeyValueDraft:
    """A family as an entry whose fields have names, units and printed forms, but no table yet."""
    found = [p for text in shape.lines if (p := parts(text)) is not None and p.key == wild]
    heads = [tokens(p.head) for p in found]
    head = slots_of(wild[2:], heads)
    blanks = found[0].head[len(found[0].head.rstrip()) :]
    values: dict[str, dict[Key, list[str]]] = {}
    for p in found:
        for key, value in p.pairs:
            values.setdefault(key, {}).setdefault(skeleton(tokens(value)), []).append(value)
    forms = {
        key: [slots_of(own, [tokens(x) for x in texts]) for own, texts in sorted(kinds.items(), key=_numbers_first)]
        for key, kinds in values.items()
    }
    for slot in (form[0] for ways in forms.values() for form in ways if form):
        slot.aligned = slot.kind == NUMBER and any(slot.gaps)  # blanks in front are padding, whether they vary or not
    every = list(head)
    for key, ways in forms.items():
        every += [_literal(key), _literal(":"), *ways[0], _literal(",")]
    named_slots(every)
    rest = [s for ways in forms.values() for way in ways[1:] for s in way]
    named_slots(rest)
    return KeyValueDraft(
        shape, every, way=wild[1], head=head, blanks="" if wild[1].startswith(" ") else blanks, forms=forms
    )


def _numbers_first(kind: tuple[Key, Sequence[str]]) -> tuple[bool, int]:
    return f"\0{NUMBER}" not in kind[0], -len(kind[1])


def _literal(text: str) -> Slot:
    return Slot(LITERAL, [text], [" " if text.isalnum() else ""])


def needs(line: KeyValueDraft) -> list[str]:
    """Keys that all its lines have: a loss, where there is one, else the first."""
    found = [{k for k, _ in p.pairs} for text in line.shape.lines if (p := parts(text)) is not None]
    common = [k for k in line.forms if all(k in keys for keys in found)]
    return [k for k in common if "loss" in naming.slug(k)][:1] or common[:1]
