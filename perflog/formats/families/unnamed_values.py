"""Lines with a step and one number that nothing names: `step 00010: 3.21`, `Iter 12, 3.21`.

Only the program's source says what the number is. It is stored as `unnamed`, in a row of its step.
"""

from __future__ import annotations

from perflog.formats.families.base import counted, gap_text, spec_of
from perflog.formats.surroundings import PREFIX
from perflog.formats.template import fits_64, literal
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_NAMES

_STEP = rf"(?i:{STEP_NAMES})[ \t]*[:=#]?[ \t]*"
_NUMBER = r"[+-]?(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]\.?[0-9]*e[+-]?[0-9]+)"  # a whole number may be a count
PATTERN = (
    rf"(?:{PREFIX})?[ \t]*{_STEP}[0-9]+(?:/[0-9]+)?(?:[ \t]*[:,|=]|[ \t]+-)[ \t]+{_NUMBER}"
    r"(?:[ \t]+[0-9][0-9.,]*[ \t]?m?s)?[ \t]*$"
)
"""What such a line is: perhaps with the time of the step after the number."""

_PARTS = lazy_pattern(
    rf"(?P<before>.*?)(?P<word>{_STEP})(?P<step>[0-9]+)(?:/(?P<steps>[0-9]+))?(?P<mark>[ \t]*[:,|=]|[ \t]+-)"
    rf"(?P<gap>[ \t]+)(?P<number>{_NUMBER})(?P<after>(?:[ \t]+[0-9].*)?)"
)


def parts_of(text: str) -> tuple[str, str, str] | None:
    """Return what is before the step, the template string of step and number, and what is after it."""
    match = _PARTS.fullmatch(text)
    if match is None or not fits_64(match["step"]):
        return None
    total = "/{__:d}" if match["steps"] else ""
    head = f"{literal(match['word'])}{counted('step', match['step'])}{total}{literal(match['mark'])}"
    return match["before"], f"{head}{gap_text(match['gap'])}{{unnamed:{spec_of(match['number'])}}}", match["after"]
