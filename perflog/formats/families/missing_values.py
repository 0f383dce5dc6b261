"""Values that a line should have and lacks: `None` or `N/A` where its template expects a number.

Such a value costs only itself: the rest of the line is read by a template with the printed word as a literal.
"""

from __future__ import annotations

import re
from functools import cache

from perflog.formats.template import Template, escape
from perflog.formats.vocabulary import PLACES

NO_VALUE = frozenset(("", "-", "--", "N/A", "n/a", "NA", "[N/A]", "[Not Supported]", "None", "null"))
"""Texts that programs print where they have no value."""

_WORDS = "|".join(sorted((escape(x) for x in NO_VALUE if x), key=len, reverse=True))


def pattern_with_gaps(template: Template) -> str:
    """Return the pattern of a template in which numbers may be missing: group gK has the word of field K."""
    pieces = list(template.literals)
    pieces[-1] = pieces[-1].rstrip(" \t")
    pattern = escape(pieces[0])
    for k, (field, following) in enumerate(zip(template.fields, pieces[1:], strict=True)):
        text = field.pattern("")
        if field.numeric and field.name not in PLACES:  # without them it is another line
            text = rf"(?:{text}|[ \t]*(?P<g{k}>{_WORDS}))"
        pattern += text + escape(following)
    return pattern


@cache
def _regex_with_gaps(template: Template) -> re.Pattern[bytes]:
    return re.compile(pattern_with_gaps(template).encode(), re.DOTALL)


def without_missing(template: Template, raw: bytes) -> tuple[Template, int] | None:
    """Return the template of a string that begins like a template, but lacks some of its numbers.

    Args:
        template: The template.
        raw: The string, a line or more.

    Returns:
        The template with the printed words as literals, and the offset after it. None if the string does not begin so,
        or lacks no number.
    """
    match = _regex_with_gaps(template).match(raw) if template.has_literals(raw) else None
    words = {int(name[1:]): word.decode() for name, word in match.groupdict().items() if word} if match else {}
    if match is None or not words or len(words) == sum(field.numeric for field in template.fields):
        return None
    fields = enumerate(template.fields)
    texts = (f"{{_:b}}{words[k]}" if k in words else f"{{{field.name}:{field.spec}}}" for k, field in fields)
    return Template(template.with_fields(texts)), match.end()
