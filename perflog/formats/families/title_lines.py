"""Titles above measured lines: `=== batch=8, seq=2048 ===`, `## copy`, `[BENCHMARK] llama bf16`.

A title names the case that the lines below it measure. `metrics.case_titles` takes parameters from it.
"""

from __future__ import annotations

from perflog.formats.families.measured_lines import UNIT
from perflog.lazy_patterns import lazy_pattern

TITLE, SUBTITLE = "title", "subtitle"
"""Fields of titles. A subtitle names a case of the title above it."""

_MARKS = r"={2,}|\*{2,}|#{2,6}|-{2,}|>{2,}"
_WORDS = (
    r"\[(?i:bench|benchmark|case|config|test)\]|(?:Running |Starting )?[Bb]enchmark(?:ing)?:?|Testing"
    r"|(?:Test |Benchmark )?(?:[Cc]onfig(?:uration)?|[Cc]ase|[Ss]hape|[Pp]roblem(?: size)?|[Ss]cenario|[Bb]ackend):"
)
PATTERN = rf"[ \t]*(?:(?:{_MARKS})[ \t]+[^ \t]|(?:{_WORDS})[ \t]+[^ \t])"
"""What each title begins with."""

_DECORATED = lazy_pattern(rf"(?P<before>[ \t]*(?P<mark>{_MARKS})[ \t]+)(?P<text>\S.*?)(?P<after>[ \t]+(?:{_MARKS}))?")
_AFTER_WORDS = lazy_pattern(rf"(?P<before>[ \t]*(?:{_WORDS})[ \t]+)(?P<text>\S.*)")
_SUBTITLES = ("-", ">", "###")  # beginnings of marks; `### a ###` is a title
_COUNTS = lazy_pattern(r"(?i)\b(?:epoch|step|iter|iteration|round|attempt|restart|trial)s?\b[ #:=/]*[0-9]")
_MEASURES = lazy_pattern(rf"(?i)[0-9] ?(?:{UNIT}|%|GB|MB)(?![\w/])|[0-9]{{2}}:[0-9]{{2}}")
_IS_SENTENCE = lazy_pattern(r"(?i).*[^.][.!?]|.*\b(?:complete|completed|done|finished|started|passed|failed)\W*")
_LETTERS = lazy_pattern(r"[^\W\d_]{2}|\w[=:]")
_LONGEST = 120


def title_parts(text: str) -> tuple[str, str, str] | None:
    """Return what is before a title, the name and type of the field that takes it, and what is after it.

    None for other lines: a line that counts (`=== Epoch 3 ===`) belongs to a series, and one with a measured value is a
    result. Results may be printed in the same way, so a title has no colon, and after a label in brackets no number.
    """
    match = _DECORATED.fullmatch(text)
    field = f"{TITLE}::c"
    if match is None:
        match = _AFTER_WORDS.fullmatch(text)
        field = f"{SUBTITLE}:{'x' if text.lstrip()[:1] == '[' else ':c'}"
    elif match["mark"].startswith(_SUBTITLES) and not (match["mark"][0] == "#" and match["after"]):
        field = f"{SUBTITLE}::c"
    if match is None:
        return None
    title = match["text"]
    is_other = (
        len(title) > _LONGEST or _IS_SENTENCE.fullmatch(title) or _COUNTS.search(title) or _MEASURES.search(title)
    )
    if is_other or not _LETTERS.search(title) or set("{}<>:\\") & set(title):
        return None
    return match["before"], field, match.groupdict().get("after") or ""
