"""Cuts lines of printed tables into cells, in each style in which programs separate them; finds rules and frames."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence

from perflog.lazy_patterns import lazy_pattern

DELIMITERS = {"csv": ",", "semicolon": ";", "tab": "\t", "bars": "|", "boxes": "│"}
BOX_BARS = "┃│║"  # of a header, of its rows, of both
_ARROWS = frozenset((">>", "=>", "->"))
_MARKED = lazy_pattern(r"^[ \t]*(?:>>|=>|->)(?=[ \t])|[ \t](?:<<|<=|<-)[ \t]*$")
_WITH_COMMAS = lazy_pattern(r"[ \t]*(?:[0-9.]+,[ \t]+){2,}[^,]*")  # the first cells of a row, between blanks
_LEAST_FRAMED = 3  # characters of a line between two bars, with these

STYLES = ("blanks", "left", "frame", "groups", "words", *DELIMITERS)
"""Columns are separated by two or more spaces, or tabs; the same, and aligned with the left end of their names; the
same, and the header leaves the first column without a name, as a data frame its index; the same as the first, with bars
between groups of columns; by any whitespace; by commas,
semicolons, tabs or bars, with quotes around cells that contain one; by the bars of a drawn box, in which long cells go
on in the next line."""

GAP = lazy_pattern(r"(?: {2,}|\t+)[ \t]*(?:(?::|->|=>)[ \t]+)?")  # a colon or an arrow may be after the name of a row
_WORD = lazy_pattern(
    r"#?Date +Time|#?YYYYMMDD +HH:MM:SS|[0-9]{8} +[0-9]{2}:[0-9]{2}:[0-9]{2}"  # a date and its time are one cell,
    r"|(?:GPU(?:-[A-Z]+)?|CPU|Switch|Link) [0-9/]+|(?:# )?[^ \t]+"  # and so are a device, and a mark with its name
)
_CELL = lazy_pattern(r"[^ ]+(?: [^ ]+)*")
_RULE = lazy_pattern(
    r"[ \t]*(?:[-=]{3}[-=+ \t]*|[|+][|+: \t]*[-=\u23ba-\u23bd][-=|+: \t\u23ba-\u23bd]*|:?--+[ \t]*(?:\|[-: \t]*)+)"
)
_BOX_RULE = lazy_pattern(r"[ \t]*[\u2500-\u257f]*[─━═]{3}[\u2500-\u257f]*[ \t]*")
_TITLED_RULE = lazy_pattern(  # between rows of a box: `│ ── Latency ──   │        │`
    r"[ \t]*[│┃║|][ \t]*[─━═=—-]{2,} [^│┃║|0-9─━═=—]{1,60} [─━═=—-]{2,}[ \t]*(?:[│┃║|][ \t]*)+"
)
_BAR = lazy_pattern(r":?[ \t]+[0-9]+%[ \t]*(?:[|\u2500-\u259f]|[0-9]+/[0-9]+ \[).*$")  # after a row or a header
_EMPHASIS = lazy_pattern(r"[*`]+|(?<![~\w])~(?=[0-9])")  # of Markdown, around a cell or a word of it; `~11` is a number


def is_rule(text: str) -> bool:
    """Return whether a line is a rule: dashes or equal signs, with spaces or bars between them; the line of a box.

    A rule in the first cell of an empty row may have a title.
    """
    first = text.lstrip()[:1]
    if first in ("-", "=", "|", "+"):
        return _RULE.fullmatch(text) is not None or (first == "|" and _TITLED_RULE.fullmatch(text) is not None)
    is_box = "─" <= first <= "\u257f"
    return is_box and (_BOX_RULE.fullmatch(text) is not None or _TITLED_RULE.fullmatch(text) is not None)


def without_bar(text: str) -> str:
    """Return a row or a header without the progress bar after it."""
    return _BAR.sub("", text) if "%" in text else text


def without_frame(text: str) -> str:
    """Return a line of a box that has bars at both ends only, or a row with an arrow, with spaces instead of them."""
    bare = text.strip()
    if bare[:2] in _ARROWS:  # a row that the program marks, such as the best one: `>> row <<`
        return _MARKED.sub(lambda match: " " * len(match[0]), text)
    bars = bare[:1] + bare[-1:]
    if len(bare) < _LEAST_FRAMED or bars[0] != bars[-1] or bars[0] not in f"{BOX_BARS}|" or bars[0] in bare[1:-1]:
        return text
    return text.replace(bars[0], " ")


def without_marks(text: str, style: str) -> str:
    """Return a line without what is around its cells in a style.

    That is its frame, the bars between groups of columns, or a comma after each of its first numbers.
    """
    if style in DELIMITERS:
        return text
    if "," in text and _WITH_COMMAS.fullmatch(text) is not None:
        return text.replace(",", " ")
    return text.replace("|", " ") if style == "groups" else without_frame(text)


def cells_in_groups(header: str) -> Callable[[str], list[str]]:
    """Return what cuts a line under a header with bars between groups of columns: `size | A (ms)  B (ms) | ratio`.

    A line has no cells if one of its groups has more or fewer than in the header, nor if no group has several.
    """

    def groups(text: str) -> list[list[str]]:
        return [GAP.split(group.strip()) for group in text.strip().strip("|").split("|")]

    sizes = [len(names) for names in groups(header)]
    is_grouped = 1 < len(sizes) < sum(sizes)

    def cut(text: str) -> list[str]:
        found = groups(text) if is_grouped else []
        return [cell for group in found for cell in group] if [len(group) for group in found] == sizes else []

    return cut


def _spans_to_end(text: str, style: str) -> bool:
    """Return whether the last name of a line spans several columns, and no bar ends the line: `Time | TPOT (ms) ||`."""
    return style == "bars" and text.rstrip().endswith("||") and not text.lstrip().startswith("|")


def spans(text: str, style: str) -> tuple[tuple[int, int], ...]:
    """Return begin and end of each cell of a line with columns that whitespace separates."""
    if style in DELIMITERS or "\t" in text:
        return ()
    cells = _WORD if style == "words" else _CELL
    return tuple(match.span() for match in cells.finditer(text.rstrip()))


def split(text: str, style: str, most: int = 0) -> list[str]:
    """Return the cells of a line, at most `most` of them if it is not 0; none if the line cannot be split."""
    if style == "words":
        return _WORD.findall(without_bar(text))
    if style == "bars":
        text = _EMPHASIS.sub("", text)
    if style not in DELIMITERS:
        whole = without_bar(text).rstrip()
        return GAP.split(whole if style == "frame" else whole.lstrip(), max(most - 1, 0))
    delimiter = DELIMITERS[style]
    if style == "boxes":
        delimiter = next((bar for bar in BOX_BARS if bar in text), "")
        if not delimiter:
            return []
    try:
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a cell longer than the module's limit
        return []


def names_with_second_line(names: Sequence[str], edges: Sequence[tuple[int, int]], text: str) -> list[str]:
    """Return the names of a header with what the line below adds to them; [] if it adds nothing.

    Each part of that line begins or ends where a name does. None is below the first name: a row has its label there.
    """
    added = dict[int, str]()
    for match in _CELL.finditer(text.rstrip()):
        above = [k for k, edge in enumerate(edges) if match.start() == edge[0] or match.end() == edge[1]]
        if len(above) != 1 or not above[0] or above[0] in added:
            return []
        added[above[0]] = match[0]
    return [f"{name} {added.get(k, '')}".rstrip() for k, name in enumerate(names)] if added else []


def with_bar_of(names: Sequence[str], cells: list[str], text: str) -> list[str]:
    """Return the cells of a line as under a header: a bar may be before the names alone, or before the cells alone."""
    starts_with_bar = text.lstrip().startswith("|")
    ended = cells[:-1] if cells[1:] and not cells[-1] and text.rstrip().endswith("|") else cells
    if len(ended) == len(names) - 1 and not names[0] and not starts_with_bar and "|" in text:
        return ["", *ended]
    if len(ended) == len(names) + 1 and names[0] and not cells[0] and starts_with_bar:
        return ended[1:]
    return cells


def cells_of(text: str, style: str) -> list[str]:
    """Return the cells of a header or a row. A delimiter may end the line; `1,""` has two cells."""
    cells = [x.strip() for x in split(text, style)]
    ends = tuple(BOX_BARS) if style == "boxes" else DELIMITERS.get(style, "\n")
    is_ended = cells[1:] and not cells[-1] and text.rstrip(" ").endswith(ends) and not _spans_to_end(text, style)
    return cells[:-1] if is_ended else cells
