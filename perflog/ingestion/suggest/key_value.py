"""Drafts a `[[pairs]]` entry for lines of keys and values whose keys come and go.

All such lines with the same text in front of the first pair (the head) become one entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from perflog.formats.tokens import NUMBER, skeleton, tokens
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, LineDraft, Slot, named_slots, slots_of, text_of
from perflog.ingestion.suggest.line_shapes import Key, LineShape, figures_only

PAIRS = "\0pairs"
"""First part of the key of such a shape; the style of its pairs and the key of its head follow."""

_MOST_KEYS = 48  # shapes with more keys are not merged
_MOST_FORMS = 4  # at most so many ways to print the value of one key
_PAIR_STYLES = (  # how a pair is written; pattern of the text between two pairs; pattern of the mark after the key
    (" {key}: {value} |", r" *\|", r":"),
    ("{key}: {value}, ", r", ", r":"),
    ("{key} = {value}, ", r", ", r" ="),
    ("{key}={value}, ", r", ", r"="),
    ("{key}: {value}  ", r"(?<![:=]) {2,}", r":"),
    ("{key}={value} ", r" +", r"="),
)


class KeyValueParts(Struct, frozen=True):
    """A line cut into its head and its pairs.

    Attributes:
        style: How a pair is written: `{key}: {value}, `.
        head: The text before the first pair.
        pairs: Key and value of each pair; the value with the blanks that pad it.
    """

    style: str
    head: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def key(self) -> Key:
        """The key of the shape that the line belongs to."""
        return (PAIRS, self.style, *skeleton(figures_only(self.head)))


class KeyValueDraft(LineDraft):
    """A `[[pairs]]` entry while it is drafted.

    Attributes:
        style: How a pair is written.
        head: The slots of the head.
        blanks: The blanks between the head and the first pair.
        forms: For each key, the ways in which its value is printed.
    """

    style: str = ""
    head: list[Slot] = field(default_factory=list)
    blanks: str = ""
    forms: dict[str, list[list[Slot]]] = field(default_factory=dict)

    @property
    def head_text(self) -> str:
        """The template of the head."""
        return text_of(self.head, self.loose, True) + self.blanks

    def keys(self) -> dict[str, list[str]]:
        """Return for each key the templates of its value."""
        templates = {}
        for key, forms in self.forms.items():
            for form in forms[1:]:  # the number of one key has one name
                for slot, first in zip(form, forms[0], strict=False):
                    if slot.kind == first.kind == NUMBER:
                        slot.named = first.named
                    elif slot.kind != LITERAL:
                        slot.dropped = True
            templates[key] = [text_of(form, self.loose, True) for form in forms[:_MOST_FORMS]]
        return templates


def parts(text: str) -> KeyValueParts | None:
    """Return a line cut into pairs of key and value; None if it has fewer than two pairs, or holds an object."""
    if re.search(r"[{}]|\[\"|\['", text):
        return None
    candidates = [line for style in _PAIR_STYLES if (line := _parts(text, *style)) is not None]
    return max(candidates, key=lambda line: len(line.pairs), default=None)


def _parts(text: str, style: str, between: str, mark: str) -> KeyValueParts | None:
    """Return a line cut into pairs of one style, from its end to its head; None if it has fewer than two pairs.

    Args:
        text: The line.
        style: How a pair is written.
        between: A pattern of the text between two pairs.
        mark: A pattern of the mark between key and value.
    """
    text = text.rstrip(" \t")
    spans = [m.span() for m in re.finditer(between, text)]
    pieces = zip([0, *(end for _, end in spans)], [*(begin for begin, _ in spans), len(text)], strict=True)
    pair = re.compile(rf" *(?P<key>[^:=|]*?[A-Za-z][^:=|]*?){mark} ?(?P<value> *[^ ]+(?: [^ ]+)?) *")
    pairs: list[tuple[str, str]] = []
    first_pair = len(text)
    for begin, end in reversed(list(pieces)):
        match = pair.fullmatch(text, begin, end)
        if match is not None:
            key_start = _key_start(match["key"])
            pairs.append((match["key"][key_start:], match["value"]))
            first_pair = match.start("key") + key_start
            if key_start:
                break
        elif begin < end:
            pair_after_head = _pair_after_head(text[begin:end], mark)
            if pair_after_head is not None:
                pairs.append(pair_after_head[1:])
                first_pair = begin + pair_after_head[0]
            break
    return KeyValueParts(style, text[:first_pair], tuple(reversed(pairs))) if len(pairs) > 1 else None


def _key_start(text: str) -> int:
    """Return where the key begins in the text before the first mark: after numbers, brackets and dashes."""
    start = 0
    for match in re.finditer(r"[0-9][^ ]* +|[\])>|,] *| - ", text):
        start = match.end()
    return start if start < len(text) else 0


def _pair_after_head(text: str, mark: str) -> tuple[int, str, str] | None:
    """Return the pair at the end of a text that begins with the head: start of the key, key, value."""
    match = re.fullmatch(rf"(.*[\])>|0-9] +|.* - )([A-Za-z][\w ./()-]*?){mark} ?( *[^ :=|]+) *", text)
    return (len(match[1]), match[2], match[3]) if match else None


def merge_key_value_shapes(shapes: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """Return the shapes. Shapes of pairs with the same head and style become one if their keys differ.

    A shape joins the most common shape of its head if they share half of the keys of the one with fewer keys.
    """
    groups: dict[Key, dict[Key, set[str]]] = {}
    for key, shape in shapes.items():
        line = parts(next(iter(shape.lines))) if shape.lines else None
        if line is not None:
            groups.setdefault(line.key, {})[key] = {k for k, _ in line.pairs}
    merged = dict(shapes)
    for merged_key, members in groups.items():
        common = members[max(members, key=lambda k: shapes[k].count)]
        similar = [k for k, keys in members.items() if 2 * len(keys & common) >= min(len(keys), len(common))]
        all_keys = set().union(*(members[k] for k in similar))
        if len({frozenset(members[k]) for k in similar}) > 1 and len(all_keys) <= _MOST_KEYS:
            shape = LineShape(min(shapes[k].first for k in similar), sum(shapes[k].count for k in similar))
            for key in similar:
                shape.lines |= merged.pop(key).lines
            merged[merged_key] = shape
    return merged


def draft_key_value(key: Key, shape: LineShape) -> KeyValueDraft:
    """Return an entry whose fields have names, units and templates, but no table yet."""
    style = key[1]
    lines = _shape_parts(key, shape)
    head = slots_of(key[2:], [figures_only(line.head) for line in lines])
    blanks = lines[0].head[len(lines[0].head.rstrip()) :]
    values: dict[str, dict[Key, list[str]]] = {}  # key of a pair -> key of the value's shape -> the values
    for line in lines:
        for name, value in line.pairs:
            values.setdefault(name, {}).setdefault(skeleton(tokens(value)), []).append(value)
    forms = {
        name: [
            slots_of(form, [tokens(text) for text in texts])
            for form, texts in sorted(texts_by_form.items(), key=_numbers_first)
        ]
        for name, texts_by_form in values.items()
    }
    for slot in (form[0] for name_forms in forms.values() for form in name_forms if form):
        slot.aligned = slot.kind == NUMBER and any(slot.gaps)  # blanks in front are padding, whether they vary or not
    slots = list(head)
    for name, name_forms in forms.items():
        slots += [_literal(name), _literal(":"), *name_forms[0], _literal(",")]
    named_slots(slots)
    named_slots([slot for name_forms in forms.values() for form in name_forms[1:] for slot in form])
    if style.startswith(" "):  # the style writes the blank after the head
        blanks = ""
    return KeyValueDraft(shape, slots, style=style, head=head, blanks=blanks, forms=forms)


def _shape_parts(key: Key, shape: LineShape) -> list[KeyValueParts]:
    return [line for text in shape.lines if (line := parts(text)) is not None and line.key == key]


def _numbers_first(form: tuple[Key, Sequence[str]]) -> tuple[bool, int]:
    """Return the sort key of a form: those with a number first, then the most common."""
    return f"\0{NUMBER}" not in form[0], -len(form[1])


def _literal(text: str) -> Slot:
    return Slot(LITERAL, [text], [" " if text.isalnum() else ""])


def needed_keys(line: KeyValueDraft) -> list[str]:
    """Return a key that all lines of the entry have, for `needs`: a loss if there is one, else the first."""
    keys_of_lines = [{k for k, _ in pairs.pairs} for text in line.shape.lines if (pairs := parts(text)) is not None]
    common = [k for k in line.forms if all(k in keys for keys in keys_of_lines)]
    return [k for k in common if "loss" in naming.slug(k)][:1] or common[:1]
