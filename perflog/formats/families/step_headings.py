"""Headings of the lines of one step or epoch: `Step 1:`, `=== Iteration 5/100 ===`, `[step 12]`, `Epoch 1/3`.

Nothing else is on such a line. The lines below it, up to the next heading, are of this step or epoch.
"""

from __future__ import annotations

from perflog.formats.families.base import counted
from perflog.formats.surroundings import LOGGER_PREFIX
from perflog.formats.template import fits_64, literal
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_NAMES

STEP, EPOCH = "step", "epoch"
"""What headings count, and the fields of their numbers."""
EPOCHS = "epochs"
"""The field of the number of all epochs. That of all steps is dropped."""
_MARKS = r"(?:[=\-*#>~]{2,}|\[)"
_END = r"[ \t]*(?:[\])]?:?|[\])]?[ \t]*[=\-*#<~]{2,})"
_OF = r"[ \t]*/[ \t]*|[ \t]+of[ \t]+"
_WORDS = {STEP: rf"(?:{STEP_NAMES}|update)", EPOCH: "epoch"}
_VERBS = r"(?:(?:start|begin)(?:ning|ing)?[ \t]+)?(?:train(?:ing)?[ \t]+)?"
_BEFORE = {
    what: rf"[ \t]*(?:{_MARKS}[ \t]*)?(?i:{_VERBS}{word})[ \t]*[:#]?[ \t]*[\[(]?" for what, word in _WORDS.items()
}
PATTERNS = {
    what: rf"(?:{LOGGER_PREFIX})?{before}[0-9]+(?:(?:{_OF})[0-9]+)?{_END}[ \t]*$" for what, before in _BEFORE.items()
}
"""What such a line is, by what it counts."""

_PARTS = {
    what: lazy_pattern(rf"(?P<before>{before})(?P<number>[0-9]+)(?:(?P<of>{_OF})[0-9]+)?(?P<after>{_END})")
    for what, before in _BEFORE.items()
}


def heading_text(text: str, what: str = STEP) -> str | None:
    """Return a heading as the string of a template; None for another line. `what`: what it counts."""
    match = _PARTS[what].fullmatch(text)
    if match is None or not fits_64(match["number"]):
        return None
    total = f"{literal(match['of'])}{{{EPOCHS if what == EPOCH else '__'}:d}}" if match["of"] else ""
    return f"{literal(match['before'])}{counted(what, match['number'])}{total}{literal(match['after'])}"
