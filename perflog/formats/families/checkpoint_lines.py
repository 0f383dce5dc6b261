"""Lines that say that a checkpoint is saved or loaded, in the words of any program.

    Saving checkpoint at step 500 ...
    2026-11-30 10:00:00 INFO Saved checkpoint to out/step_500.pt (took 12.3 s)
    => loaded checkpoint 'out/last.ckpt' (epoch 3, step 1500)
    Resuming training from step 500

A verb says what happens, a noun to what. The rest is the step, the time it took, the path, and words that change
nothing. A line with any other word may say something else, such as that no checkpoint was found: it is none.
`Saving checkpoint took 5 s` says that it is saved. `Saving checkpoint in 5 s` may be a plan: it is none.
"""

from __future__ import annotations

from msgspec.structs import replace

from perflog.formats.families.base import FamilyShape, spec_of, template_of
from perflog.formats.model import Line
from perflog.formats.surroundings import PREFIX, prefix_ends
from perflog.formats.template import fits_64, literal
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
_BEGINS = lazy_pattern(rf"[ \t]*{_BEGIN}(?i:{_ANY})\b".encode())
PATTERN = rf"(?:{PREFIX})?[ \t]*{_BEGIN}(?i:{_ANY})(?:\W|$)"
"""What each such line begins with."""

_STATED = {stated: lazy_pattern(rf"[ \t]*{_BEGIN}(?i:{'|'.join(verbs)})\b") for stated, verbs in _VERBS.items()}
_LABEL = lazy_pattern(rb"\[[Rr]ank[ :=]?[0-9]{1,9}\]:? ")  # no prefix: the reader asks for what is after it
_STEP = r"(?i:(?:global[ _-]?)?(?:step|iteration|iter))"
_STEP_AT_END = lazy_pattern(rf"{_STEP}$")
_COUNT = r"(?:[ \t]*[:=#_]?[ \t]*|-)(?P<{}>[0-9]+)\b(?!\.[A-Za-z]|[-/][A-Za-z])"  # `step_500.pt` is a name
_PARTS = lazy_pattern(
    rf"{_STEP}{_COUNT.format('step')}"
    r"|(?P<duration>[0-9]+(?:\.[0-9]+)?)[ \t]*(?P<unit>ms|s|secs?|seconds?|min|minutes?)\b"
    rf"|(?i:epoch){_COUNT.format('epoch')}"
    r"|[\x22'`]?(?P<name>(?=\S{0,255}[A-Za-z])(?:[a-z][a-z0-9]{0,9}://|[\w.+=-]{0,255}/|\w[\w.+=-]{0,255}\.(?=[A-Za-z])"
    r"|[A-Za-z][\w.+=-]{0,255}[_-](?=[0-9]))[\w./+=@-]*\w/?)[\x22'`]?(?=[\s.,;:)]|$)"
    r"|(?P<word>[A-Za-z]+)|(?P<mark>(?:[\s,;:=()\[\]!-]|\.(?![\w/]))+)"
)
_CHANGES_NOTHING = frozenset(
    "at for to from in into on of with after a the and as its model optimizer scheduler training state states weights "
    "step iteration iter file path dir directory folder disk storage took time elapsed duration done complete "
    "completed finished successfully asynchronously all".split()
)
_DONE_WORDS = frozenset("took done complete completed finished successfully".split())
_SINCE = lazy_pattern(r"\b(?:after|at|for|of|with|elapsed)[\s:=]*$")  # before a time that may be since the start
_PLANNED = lazy_pattern(r"\bin[ \t]*$")
_PLACE = lazy_pattern(r"\b(?:to|from)[ \t]*:?[ \t]+$")
_LAST = lazy_pattern(r"(?P<name>[^\s,;()\[\]\x22'`]*[\w/])\.?$")
_OF_MEMORY = lazy_pattern(r"(?i)\bsnapshots?\b.*\bmem")


def checkpoint_line(shape: FamilyShape, text: str) -> Line | None:
    """Return the Line of a string that says that a checkpoint is saved or loaded; None for another string."""
    raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
    if _LABEL.match(raw):
        return None
    for end in (0, *prefix_ends(raw)):
        if not _BEGINS.match(raw, end):
            continue
        rest = raw[end:].decode("utf-8", "surrogateescape")
        for (kind, edge), pattern in _STATED.items():
            match = pattern.match(rest)
            parts = _parts(rest, match[0], edge) if match is not None else None
            template = template_of("{_:p}" * bool(end) + parts[0]) if parts is not None else None
            if parts is not None and template is not None and template.match(raw) is not None:
                return replace(shape.line_of(template, ()), set={"kind": kind, "edge": parts[2]}, unit=parts[1])
    return None


def _parts(text: str, begin: str, edge: str) -> tuple[str, dict[str, Unit], str] | None:
    """Return the string of a template, the units of its fields, and the edge; None if a word may change what is said.

    `begin`: the beginning of the string, which says that something begins or ends. The step may be in its last words.
    """
    step = _STEP_AT_END.search(begin)
    position = len(begin) if step is None else step.start()
    made, units, taken = literal(text[:position]), dict[str, Unit](), set[str]()
    while position < len(text):
        part = _PARTS.match(text, position)
        if part is None or (part["word"] and part["word"].lower() not in _CHANGES_NOTHING):
            part = _LAST.match(text, position) if _PLACE.search(text, 0, position) else None
        if part is None:
            return None
        found = {group: value for group, value in part.groupdict().items() if value}
        group = next((name for name in ("step", "duration", "epoch", "name") if name in found), "")
        if group in taken or (group == "step" and not fits_64(found["step"])):
            return None
        edge = "end" if found.get("word", "").lower() in _DONE_WORDS else edge
        if group:
            taken.add(group)
            before = text[position : part.start(group)]
            field = group if group != "epoch" else "_"
            if group == "duration":
                if edge == "begin" and _PLANNED.search(text, 0, position):
                    return None
                if _SINCE.search(text, 0, position):
                    field = "_"
                else:
                    edge, units[group] = "end", UNITS[unit_of(found["unit"])[0]]
            spec = {"name": "S", "duration": spec_of(found[group])}.get(group, "d")
            made += literal(before) + f"{{{field}:{spec}}}" + literal(text[part.end(group) : part.end()])
        else:
            made += literal(part[0])
        position = part.end()
    return (made, units, edge) if not _OF_MEMORY.search(text) else None
