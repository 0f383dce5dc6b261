"""Lines with nothing else on them, perhaps after a logger's prefix: headings of steps and epochs, titles of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.families.base import FamilyShape, template_of
from perflog.formats.families.step_headings import EPOCHS
from perflog.formats.model import Line
from perflog.formats.openings import Opening
from perflog.formats.surroundings import end_of_logger_prefix


class WholeLineFamily(Struct, frozen=True, eq=False, kw_only=True):
    """A `[[meters]]` entry with `headings` or `titles`.

    Attributes:
        text: The declaration, for display.
        form: Returns a line without its prefix as a template string; None for other lines.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    pattern: str
    form: Callable[[str], str | None]
    openings: Sequence[Opening] = ()

    @property
    def proves_format(self) -> bool:
        return self.shape.line.telling is not False

    @property
    def required_literal(self) -> bytes:
        return self.shape.required_literal

    def lines(self, text: str) -> tuple[Line, ...]:
        end = end_of_logger_prefix(text)
        form = self.form(text[end:].rstrip(" \t"))
        template = template_of("{_:p}" * bool(end) + form) if form else None
        if template is None:
            return ()
        line = self.shape.line_of(template, ())
        return (replace(line, run=(*line.run, EPOCHS)) if EPOCHS in template.names else line,)
