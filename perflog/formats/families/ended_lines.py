"""Lines that a step, an epoch or the training has ended, with its time: `Epoch 3/10 finished in 56.8s`.

Nothing else is measured on such a line. What has elapsed may count from the start of the run: it stays `elapsed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from perflog.formats.durations import PARTS
from perflog.formats.families.base import counted, spec_of
from perflog.formats.families.step_headings import EPOCH, STEP
from perflog.formats.surroundings import PREFIX
from perflog.formats.template import fits_64, literal
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_NAMES, UNITS, Unit, unit_of

_WORDS = {STEP: STEP_NAMES, EPOCH: EPOCH}
_TIME_OF = {STEP: "step_time", EPOCH: "epoch_time"}
_DONE = "completed?|finish(?:ed)?|done|end(?:ed)?"
_BEFORE = rf"(?:{_DONE})[ \t]+(?:(?:with|training)[ \t]+)?"
_MARK = r"[ \t]*[:#]?[ \t]*[\[(]?"
_OF = r"[ \t]?/[ \t]?|[ \t]+of[ \t]+"
_COUNT = rf"[0-9]+(?:(?:{_OF})[0-9]+)?"
_GAP = r"[ \t:,;(|-]"
_IN = r"in|took|takes|elapsed|time(?:[ \t]+taken)?|duration"
_TIME = rf"(?:{PARTS}|[0-9]+(?:\.[0-9]+)?[ \t]?(?:[munµ]?s|secs?|seconds?|m|mins?|minutes?|h|hours?))"
_AFTER = (
    rf"[\])]?(?:{_GAP}+(?:(?:is|was)[ \t]+)?(?:{_DONE}){_GAP}+(?:ok{_GAP}+)?(?:(?:{_IN})[ \t]*[:=]?[ \t]*)?"
    r"|[ \t]+(?:took|takes)[ \t]+)"
)
_REMARK = r"(?:[ \t]+(?:<-|←|#)[ \t].*)?"
PATTERNS = {
    what: rf"(?:{PREFIX})?[ \t]*(?i:(?:{word}){_MARK}{_COUNT}{_AFTER}|{_BEFORE}(?:{word})[ \t]+{_COUNT}[ \t]+in[ \t]+)"
    rf"(?i:{_TIME})[)\].]?{_REMARK}[ \t]*$"
    for what, word in _WORDS.items()
}
_TRAINING = r"(?:model[ \t]+)?training(?:[ \t]+(?:run|loop|job))?"
PATTERNS[EPOCH] += (
    rf"|(?:{PREFIX})?[ \t]*(?i:{_TRAINING}{_AFTER}|(?:{_DONE})[ \t]+{_TRAINING}[ \t]+in[ \t]+)"
    rf"(?i:{_TIME})[)\].!]?[ \t]*$"
)
"""What such a line is, by what ends; an epoch and the training go to one table.

A person may have written a remark after it: `<- repaired`.
"""

_PARTS = {
    what: lazy_pattern(
        rf"(?i)(?P<before>.*?)(?P<words>\b(?:{_BEFORE})?(?:{word}){_MARK})(?P<number>[0-9]+)(?:(?P<of>{_OF})[0-9]+)?"
        rf"(?P<between>[^0-9]*?)(?P<time>{_TIME})(?P<end>[)\].]?)(?:[ \t]+(?P<remark><-|←|#)[ \t].*)?"
    )
    for what, word in _WORDS.items()
}
_TRAINED = lazy_pattern(
    rf"(?i)(?P<before>.*?)(?P<words>\b(?:(?:{_DONE})[ \t]+)?{_TRAINING}[^0-9]*?)(?P<time>{_TIME})(?P<end>[)\].!]?)"
)


def ended_parts(text: str, what: str) -> tuple[str, str, str, Mapping[str, Unit]] | None:
    """Return what is before the words of such a line, their template string, and what it ends with; and its unit.

    None for another line. `what`: STEP or EPOCH.
    """
    match = _PARTS[what].fullmatch(text)
    if match is None and what == EPOCH and (trained := _TRAINED.fullmatch(text)):
        value, units = _value_of(trained["time"], "training_time")
        return trained["before"], f"{literal(trained['words'])}{value}{literal(trained['end'])}", "", units
    if match is None or not fits_64(match["number"]):
        return None
    name = "elapsed" if "elapsed" in match["between"].lower() else _TIME_OF[what]
    total = f"{literal(match['of'])}{{__:d}}" if match["of"] else ""
    value, units = _value_of(match["time"], name)
    shape = f"{literal(match['words'])}{counted(what, match['number'])}{total}{literal(match['between'])}{value}"
    shape += literal(match["end"]) + (f"{{_:b}}{match['remark']}{{_:s}}" if match["remark"] else "")
    return match["before"], shape, "", units


def _value_of(time: str, name: str) -> tuple[str, dict[str, Unit]]:
    """Return a time as a field of a template, and its unit if it is a number with one."""
    digits = time.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ \t")
    unit = unit_of(time[len(digits) :].strip())[0]
    if not unit or not digits.replace(".", "", 1).isdigit():
        return f"{{{name}:h}}", {}
    return f"{{{name}:{spec_of(digits)}}}{literal(time[len(digits) :])}", {name: UNITS[unit]}
