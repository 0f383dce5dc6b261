"""Headings of the lines of one step: `Step 1:`, `=== Iteration 5/100 ===`, `[step 12]`.

Nothing else is on such a line. The lines below it, up to the next heading, are of this step.
"""

from __future__ import annotations

from perflog.formats.families.base import literal
from perflog.formats.template import fits_64
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_NAMES

_WORD = rf"(?i:(?:train(?:ing)?[ \t]+)?(?:{STEP_NAMES}|update))"
_MARKS = r"(?:[=\-*#>~]{2,}|\[)"
_END = r"[ \t]*(?:\]?:?|\]?[ \t]*[=\-*#<~]{2,})"
PATTERN = rf"[ \t]*(?:{_MARKS}[ \t]*)?{_WORD}[ \t]*[:#]?[ \t]*[0-9]+(?:[ \t]*/[ \t]*[0-9]+)?{_END}[ \t]*$"
"""What such a line is."""

_PARTS = lazy_pattern(
    rf"(?P<before>[ \t]*(?:{_MARKS}[ \t]*)?{_WORD}[ \t]*[:#]?[ \t]*)(?P<step>[0-9]+)"
    rf"(?:(?P<of>[ \t]*/[ \t]*)[0-9]+)?(?P<after>{_END})"
)


def heading_text(text: str) -> str | None:
    """Return a heading as the string of a template; None for another line."""
    match = _PARTS.fullmatch(text)
    if match is None or not fits_64(match["step"]):
        return None
    step = f"0{len(match['step'])}d" if match["step"].startswith("0") and len(match["step"]) > 1 else "d"
    total = f"{literal(match['of'])}{{__:d}}" if match["of"] else ""
    return f"{literal(match['before'])}{{step:{step}}}{total}{literal(match['after'])}"
