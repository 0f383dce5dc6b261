"""Titles above measured lines: `=== batch=8, seq=2048 ===`, `## copy`, `[BENCHMARK] llama bf16`.

A title names the case that the lines below it measure. `metrics.case_titles` takes parameters from it.
"""

from __future__ import annotations

from perflog.formats.families.measured_lines import UNIT
from perflog.formats.figures import figure_spans
from perflog.formats.surroundings import LOGGER_PREFIX
from perflog.formats.template import Template, literal
from perflog.formats.vocabulary import MOMENTS
from perflog.lazy_patterns import lazy_pattern
from perflog.units import UNITS, unit_of

TITLE, SUBTITLE = "title", "subtitle"
"""Fields of titles. A subtitle names a case of the title above it."""

TABLE_TITLE = "table_title"
"""Field of the title of one table: the line above its header."""

TITLES = (TITLE, SUBTITLE, TABLE_TITLE)

HEADING = "heading"
"""Field of words above indented lines: which work these lines measure."""

_MARKS = r"={2,}|\*{2,}|#{2,6}|-{2,}|>{2,}"
_WORDS = (
    r"\[(?i:bench|benchmark|case|config|test)\]|(?:Running |Starting )?[Bb]enchmark(?:ing)?:?|Testing"
    r"|(?:Test |Benchmark )?(?:[Cc]onfig(?:uration)?|[Cc]ase|[Ss]hape|[Pp]roblem(?: size)?|[Ss]cenario|[Bb]ackend):"
)
_NAMED = r"[A-Za-z][\w.+-]*(?: [\w.+-]+)* ?\((?:[A-Za-z_]\w* ?= ?[^\s,()=:]+(?:, ?)?)+\):"
PATTERN = rf"(?:{LOGGER_PREFIX})?[ \t]*(?:(?:{_MARKS})[ \t]+[^ \t]|(?:{_WORDS})[ \t]+[^ \t]|{_NAMED}[ \t]*$)"
"""What each title begins with, perhaps after what a logger prints."""

_DECORATED = lazy_pattern(rf"(?P<before>[ \t]*(?P<mark>{_MARKS})[ \t]+)(?P<text>\S.*?)(?P<after>[ \t]+(?:{_MARKS}))?")
_NAME_WITH_PAIRS = lazy_pattern(rf"(?P<before>[ \t]*)(?P<text>{_NAMED[:-1]})(?P<after>:)")
_AFTER_WORDS = lazy_pattern(rf"(?P<before>[ \t]*(?:{_WORDS})[ \t]+)(?P<text>\S.*?)(?P<after>\.{{3}})?")
_SUBTITLES = ("-", ">", "###")  # beginnings of marks; `### a ###` is a title
_COUNTS = lazy_pattern(rf"(?i)\b(?:{'|'.join(sorted(MOMENTS))}|attempt|restart|trial)s?\b[ #:=/]*[0-9]")
_MEASURES = lazy_pattern(rf"(?i)[0-9] ?(?:{UNIT}|%|GB|MB)(?![\w/])|[0-9]{{2}}:[0-9]{{2}}")
_IS_SENTENCE = lazy_pattern(
    r"(?i).*[^.][.!?]|with(?:out)? .*\.{3}|.*\b(?:complete|completed|done|finished|started|passed|failed)\W*"
)
_WITH_COLON = lazy_pattern(Template("{title:T}").pattern)
_LETTERS = lazy_pattern(r"[^\W\d_]{2}|\w[=:]")
_LONGEST = 120


_AROUND_TABLE_TITLE = r"(?:[-=#*_>`~\s]|<[^<>]*>|[^\w\s]{1,2} (?=\w))*"
_TABLE_TITLE = lazy_pattern(rf"(?P<before>{_AROUND_TABLE_TITLE})(?P<text>\S.*?)(?P<after>:?(?:[-=#*_`~:\s]|<[^<>]*>)*)")
_NO_TITLE = lazy_pattern(  # a command, a line of a logger, a sentence, a row of another table, a tag
    r"[$%] |.* --?[A-Za-z]|.*[0-9]{2}:[0-9]{2}:[0-9]{2}|\[|.*[.!?] [A-Z]|.*\w[.!?]$|.*[|\t{}]"
    r"|.*(?:\S {3,}\S+){2}|.*https?:|<[^<>]*>$"
    r"|(?i:.*\b(?:complete|completed|done|finished|started|starting|passed|failed|saved|loaded|warning|error)\b)"
)
IS_TAGS = lazy_pattern(r"\s*(?:<[^<>]*>\s*)+")
"""A line of HTML without words, such as an anchor."""
_HAS_WORD = lazy_pattern(r".*(?:[^\W\d_]{2}|\w ?=).*")
_MOST_WORDS = 16


_HEADING = lazy_pattern(  # words with a colon after them, or a mark before them
    r"(?P<before>[ \t]*)(?P<text>[A-Za-z][\w./()+-]*(?: [\w./()+-]+){0,6})(?P<after>:[ \t]*)"
    r"|(?P<marked>[ \t]*[^\w\s]{1,2} )(?P<words>[A-Za-z][\w./()+-]*(?: [\w./()+-]+){0,6})(?P<end>:?[ \t]*)"
)


def heading_parts(text: str) -> tuple[str, str, str] | None:
    """Return what is before a heading of words, the heading, and what is after it; None for another line.

    Example:
        >>> heading_parts("  Storage Read:"), heading_parts("ready."), heading_parts("Epoch 3:")
        (('  ', 'Storage Read', ':'), None, None)
    """
    match = _HEADING.fullmatch(text)
    if match is None or figure_spans(text) or _IS_SENTENCE.fullmatch(text) or _COUNTS.search(text):
        return None
    if match["text"] is not None:
        return match["before"], match["text"], match["after"]
    return match["marked"], match["words"], match["end"]


def table_title_parts(text: str) -> tuple[str, str, str] | None:
    """Return what is before the title of a table, the title, and what is after it; None if a line is none.

    The line is above a header that its rows prove. It may be a name, parameters (`batch 8`, `TP=6`), or words that end
    with a colon. A line that counts or has a measured value belongs to a series or is a result.
    """
    match = _TABLE_TITLE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    title = match["text"]
    is_marked = match["before"].strip() or ":" in match["after"]
    is_other = (
        _NO_TITLE.match(title)
        or _COUNTS.search(title)
        or not _HAS_WORD.fullmatch(title)
        or len(title.split()) > _MOST_WORDS
        or (_MEASURES.search(title) and not is_marked)
    )
    return None if is_other else (match["before"], title, match["after"])


def title_parts(text: str) -> tuple[str, str, str] | None:
    """Return what is before a title, the name and type of the field that takes it, and what is after it.

    None for other lines: a line that counts (`=== Epoch 3 ===`) belongs to a series, and one with a measured value is a
    result. Results may be printed in the same way, so a title has no colon but between marks and before pairs
    (`--- llama, tp=8: M=64 ---`), and after a label in brackets no number.
    """
    match = _DECORATED.fullmatch(text)
    field = f"{TITLE}::c"
    if match is None:
        match = _AFTER_WORDS.fullmatch(text)
        field = f"{SUBTITLE}:{'x' if text.lstrip()[:1] == '[' else ':c'}"
    elif match["mark"].startswith(_SUBTITLES) and not (match["mark"][0] == "#" and match["after"]):
        field = f"{SUBTITLE}::c"
    if match is None:  # `EAGLE-3 (num_steps=8):`
        match, field = _NAME_WITH_PAIRS.fullmatch(text), f"{TITLE}::c"  # any string would read every line
    if match is None:
        return None
    title, after = match["text"], match.groupdict().get("after") or ""
    has_colon = ":" in title
    if has_colon and field.endswith("::c") and after.strip(" \t:") and _WITH_COLON.fullmatch(title):
        field, has_colon = field.replace("::c", ":T"), False
    is_other = has_colon or (
        len(title) > _LONGEST
        or _IS_SENTENCE.fullmatch(title + after if after == "..." else title)
        or _COUNTS.search(title)
        or _MEASURES.search(title)
    )
    if is_other or not _LETTERS.search(title) or set("{}<>\\") & set(title):
        return None
    return match["before"], field, after


def title_text(text: str) -> str | None:
    """Return a title as the string of a template; None for another line."""
    parts = title_parts(text)
    return f"{literal(parts[0])}{{{parts[1]}}}{literal(parts[2])}" if parts else None


_UNIT_IN_TITLE = lazy_pattern(
    r"[(\[][ ]?(?P<bracket>[^()\[\]]{1,16}?)[ ]?[)\]]"
    r"|(?i:\b(?:all|times?|latenc(?:y|ies)|results?|values?|numbers?|throughput|bandwidth)\b[^()]* in|\bunits?:)"
    r" (?P<word>[\w/µμ]+)"
    r"|(?i:\bbandwidth) (?P<after>[KMGT]i?B/s)\b"  # a rate is no word: `LOAD bandwidth GiB/s [Remote read]`
)
_BASES_OF_TITLES = frozenset(("s", "GB/s", "TFLOP/s", "1/s"))
_OTHER_QUANTITY = lazy_pattern(
    r"(?i)speed-?up|ratio|relative|\brel|eff|util|mfu|percent|share|%|loss|acc|error|diff|mem|size|bytes|count|\bx\b|std_?err"
)
_QUANTITY_OF = {
    "s": lazy_pattern(r"(?i)time|latency|\blat\b|duration|elapsed"),
    "GB/s": lazy_pattern(r"(?i)bandwidth|bw\b|gbps|b/s"),
    "TFLOP/s": lazy_pattern(r"(?i)flop"),
    "1/s": lazy_pattern(r"(?i)throughput|tok|qps|rps|rate|per_s"),
}
"""By base unit, names of what has it: a column with such a name does not have the unit of a title about another one."""


def unit_of_title(title: str) -> str:
    """Return the unit that a title gives to the numbers below it; "" for none, or for several.

    Example:
        >>> [unit_of_title(x) for x in ("Bandwidth (GB/s)", "All results in ms", "Time (us), rate (GB/s)")]
        ['GB/s', 'ms', '']
    """
    printed = (match["bracket"] or match["word"] or match["after"] for match in _UNIT_IN_TITLE.finditer(title))
    units = {unit for word in printed if (unit := unit_of(word)[0]) and UNITS[unit].base in _BASES_OF_TITLES}
    return units.pop() if len(units) == 1 else ""


def may_have_unit(name: str, unit: str) -> bool:
    """Return whether a column with this name, which has no unit, may have the unit of the title above its table."""
    others = (pattern for base, pattern in _QUANTITY_OF.items() if base != UNITS[unit].base)
    return not _OTHER_QUANTITY.search(name) and not any(pattern.search(name) for pattern in others)
