"""Lines that are read as a whole: headings of steps and epochs, titles of cases, checkpoints, commands of launchers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from perflog.formats.families.base import FamilyShape, ShapedFamily, template_of
from perflog.formats.families.step_headings import EPOCHS
from perflog.formats.model import Line
from perflog.formats.surroundings import end_of_logger_prefix

LineReader = Callable[[FamilyShape, str], Line | None]
"""Returns the Line that reads a string of a family with this shape; None for another string."""


class WholeLineFamily(ShapedFamily, frozen=True, eq=False, kw_only=True):
    """A `[[checkpoints]]` or `[[commands]]` entry, or a `[[meters]]` entry with `headings`, `titles` or `worked`."""

    pattern: str
    read: LineReader

    def lines(self, text: str) -> tuple[Line, ...]:
        line = self.read(self.shape, text)
        return () if line is None else (line,)


def line_alone(shape: FamilyShape, text: str, form: Callable[[str], str | None]) -> Line | None:
    """Return the Line of a string with nothing else on it, perhaps after a logger's prefix.

    `form`: returns a string without its prefix as a template string; None for other strings.
    """
    end = end_of_logger_prefix(text)
    found = form(text[end:].rstrip(" \t"))
    template = template_of("{_:p}" * bool(end) + found) if found else None
    if template is None:
        return None
    line = shape.line_of(template, ())
    return replace(line, run=(*line.run, EPOCHS)) if EPOCHS in template.names else line
