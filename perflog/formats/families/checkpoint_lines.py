"""Lines that say that a checkpoint is saved or loaded, in the words of any program.

    Saving checkpoint at step 500 ...
    2026-11-30 10:00:00 INFO Saved checkpoint to out/step_500.pt (took 12.3 s)
    => loaded checkpoint 'out/last.ckpt' (epoch 3, step 1500)
    Resuming training from step 500

A verb says what happens, a noun to what. The rest is the step, the time it took, the path, and words that change
nothing. A line with any other word may say something else, such as that no checkpoint was found: it is none.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.families.base import FamilyShape, literal, spec_of, template_of
from perflog.formats.model import Line
from perflog.formats.openings import Opening
from perflog.formats.surroundings import PREFIX, prefix_ends
from perflog.formats.template import fits_64
from perflog.lazy_patterns import lazy_pattern
from perflog.units import UNITS, Unit, unit_of

_NOUN = r"(?:check-?points?|ckpts?|snapshots?)"
_WHICH = r"(?:[ \t]+(?:a|the|new|last|latest|final|best|full|model|training|distributed|sharded|async|global))*"
_JOB = r"(?:[ \t]+(?:the[ \t]+)?(?:training|run|job))?"
_DONE = r"[ \t]+(?:was[ \t]+|is[ \t]+)?"
_FROM = rf"{_JOB}[ \t]+from{_WHICH}[ \t]+{_NOUN}"
_VERBS = {
    ("checkpoint", "begin"): (rf"(?:saving|writing|storing){_WHICH}[ \t]+{_NOUN}",),
    ("checkpoint", "end"): (
        rf"(?:saved|wrote|written|stored){_WHICH}[ \t]+{_NOUN}",
        rf"{_NOUN}{_DONE}(?:saved|written|stored)",
    ),
    ("restore", "begin"): (
        rf"(?:loading|restoring|reading){_WHICH}[ \t]+{_NOUN}",
        rf"(?:resuming|restarting|continuing){_FROM}",
    ),
    ("restore", "end"): (
        rf"(?:loaded|restored){_WHICH}[ \t]+{_NOUN}",
        rf"{_NOUN}{_DONE}(?:loaded|restored)",
        rf"(?:resumed|restarted|continued){_FROM}",
        rf"(?:resum|restart|continu)(?:ing|ed){_JOB}[ \t]+(?:from|at)[ \t]+(?:global[ _])?(?:step|iteration|iter)",
    ),
}
"""How lines say what happens, by kind and edge of a milestone. `Resuming from step 500`: the checkpoint is loaded."""

_BEGIN = r"(?:[-=*>]+[ \t]+)?"
_ANY = "|".join(verb for verbs in _VERBS.values() for verb in verbs)
PATTERN = rf"(?:{PREFIX})?[ \t]*{_BEGIN}(?i:{_ANY})(?:\W|$)"
"""What each such line begins with."""

_STATED = {stated: lazy_pattern(rf"[ \t]*{_BEGIN}(?i:{'|'.join(verbs)})\b") for stated, verbs in _VERBS.items()}
_LABEL = lazy_pattern(rb"\[[Rr]ank[ :=]?[0-9]{1,9}\]:? ")  # no prefix: the reader asks for what is after it
_STEP = r"(?i:(?:global[ _-]?)?(?:step|iteration|iter))"
_PARTS = lazy_pattern(
    rf"{_STEP}[ \t]*[:=#_]?[ \t]*(?P<step>[0-9]+)\b"
    r"|(?P<duration>[0-9]+(?:\.[0-9]+)?)[ \t]*(?P<unit>ms|s|secs?|seconds?|min|minutes?)\b"
    r"|(?i:epoch)[ \t]*[:=#]?[ \t]*(?P<epoch>[0-9]+)\b"
    r"|[\x22'`]?(?P<name>(?=\S*[A-Za-z])(?:[a-z][a-z0-9]*://|[\w.+=-]*/|\w[\w.+=-]*\.(?=[A-Za-z]))[\w./+=@-]*\w/?)[\x22'`]?(?=[\s.,;:)]|$)"
    r"|(?P<word>[A-Za-z]+)|(?P<mark>(?:[\s,;:=()\[\]!-]|\.(?![\w/]))+)"
)
_CHANGES_NOTHING = frozenset(
    "at for to from in into on of with after a the and as its model optimizer scheduler training state states weights "
    "step iteration iter file path dir directory folder disk storage took time elapsed duration done complete "
    "completed finished successfully asynchronously all".split()
)


class CheckpointFamily(Struct, frozen=True, eq=False, kw_only=True):
    """A `[[checkpoints]]` entry of a format file."""

    name: str
    samples: tuple[str, ...]
    shape: FamilyShape
    pattern: str = PATTERN
    text: str = "Saving checkpoint …, Loaded checkpoint …, Resuming from step …"
    required_literal: bytes = b""
    openings: tuple[Opening, ...] = ()
    proves_format: bool = False

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        if _LABEL.match(raw):
            return ()
        for end in (0, *prefix_ends(raw)):
            rest = raw[end:].decode("utf-8", "surrogateescape")
            for (kind, edge), pattern in _STATED.items():
                match = pattern.match(rest)
                parts = _parts(rest, match[0]) if match is not None else None
                template = template_of("{_:p}" * bool(end) + parts[0]) if parts is not None else None
                if parts is not None and template is not None and template.match(raw) is not None:
                    line = self.shape.line_of(template, ())
                    return (replace(line, set={"kind": kind, "edge": edge}, unit=parts[1]),)
        return ()


def _parts(text: str, begin: str) -> tuple[str, dict[str, Unit]] | None:
    """Return the string of a template and the units of its fields; None if a word may change what is said.

    `begin`: the beginning of the string, which says what happens. The step may be in its last words.
    """
    position = len(begin) - len(re.split(rf"(?={_STEP}$)", begin)[-1]) if re.search(rf"{_STEP}$", begin) else len(begin)
    made, units, taken = literal(text[:position]), dict[str, Unit](), set[str]()
    while position < len(text):
        part = _PARTS.match(text, position)
        if part is None or (part["word"] and part["word"].lower() not in _CHANGES_NOTHING):
            return None
        position = part.end()
        group = next((name for name in ("step", "duration", "epoch", "name") if part[name]), "")
        if not group:
            made += literal(part[0])
            continue
        if group in taken or (group == "step" and not fits_64(part["step"])):
            return None
        taken.add(group)
        spec = "S" if group == "name" else spec_of(part[group]) if group == "duration" else "d"
        before, after = text[part.start() : part.start(group)], text[part.end(group) : part.end()]
        made += literal(before) + f"{{{'_' if group == 'epoch' else group}:{spec}}}" + literal(after)
        if group == "duration":
            units["duration"] = UNITS[unit_of(part["unit"])[0]]
    return made, units
