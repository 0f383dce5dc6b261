"""What a format file declares, once it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from perflog.formats.expressions import Expression
from perflog.formats.flops import NAMES
from perflog.formats.template import Template
from perflog.units import Unit

MIN_LETTERS = 6
"""Letters and digits of its own that a line shape needs for a match to prove its format."""

SINCE_PREVIOUS = 0
"""`covers` of a line that covers all steps since the one printed before it."""


@dataclass(frozen=True)
class SecondRow:
    """The second row that a line with two measurements gives: `fields` names the field of each column that is not
    that of the first row, `set` its constants.
    """

    fields: Mapping[str, str]
    set: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Line:
    """One `[[line]]`, `[[context]]` or piece of a `[[block]]`. `role` says which: line, context, begin, body, end.

    `heads` is the table whose header it is. `beneath` lines are read under such a header, never by their text alone.
    """

    name: str
    template: Template
    samples: tuple[str, ...] = ()
    role: str = "line"
    table: str | None = None
    unit: Mapping[str, Unit] = field(default_factory=dict)
    unknown: Mapping[str, float] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    compute: Mapping[str, Expression] = field(default_factory=dict)
    map: tuple[tuple[str, str, str, str], ...] = ()
    run: tuple[str, ...] = ()
    opens: str | None = None
    closes: str | None = None
    before: str | None = None
    outside: tuple[str, ...] = ()
    covers: int = 1  # steps; SINCE_PREVIOUS
    check: tuple[str, Expression] | None = None
    again: SecondRow | None = None
    heads: Any = None  # a tabular.Table
    under_header: bool = False

    @property
    def read(self) -> bool:
        return self.role == "line"

    @property
    def prints_its_key(self) -> bool:
        """Whether the line of table `runs` prints the name of what it says: fields `key` and `value`."""
        return self.table == "runs" and {"key", "value"} <= {*self.template.names}


@dataclass(frozen=True)
class Fingerprint:
    """A number that tells a rank. `vote` is (line, key expressions, line before or None); `reads` line -> fields."""

    name: str
    vote_line: str
    vote_key: tuple[Expression, ...]
    after: str | None
    reads: Mapping[str, tuple[str, ...]]


class Family(Protocol):
    """A family of line shapes: what a format file declares of lines whose fields come and go.

    Each shape that a log shows becomes an ordinary Line, so all that follows knows Lines only.
    """

    @property
    def name(self) -> str: ...

    @property
    def pattern(self) -> str:
        """What a line of the family begins with, as a pattern alike in RE2 and `re`, without named groups. It finds
        candidates; a line that matches need not be of the family.
        """

    @property
    def required_literal(self) -> bytes:
        """Bytes that every line of the family holds, as telling as can be."""

    @property
    def proves_format(self) -> bool:
        """Whether a line of the family proves its format."""

    @property
    def samples(self) -> tuple[str, ...]: ...

    @property
    def text(self) -> str:
        """How the lines are declared, to be shown."""

    def lines(self, text: str) -> tuple[Line, ...]:
        """The Lines that a text shows, the one that reads it among them; () if it is none of the family.

        The same text always gives the same Lines, and what one of them reads is of the family.
        """


KINDS = ("compute", "communication", "wait", "prepare", "mixed")
CLOCKS = ("host", "gpu")
WHOLES = ("step", "forward", "backward")
"""What a phase can be part of beside other phases: the step, or its printed forward or backward time."""

QUANTITIES = {
    **NAMES,
    "steps": "steps that the run was to take",
    "work_rows": "rows of work a rank should do in a step",
    "unit_rows": "rows in one unit of table `loads`",
    "micro_batches": "micro-batches of a step",
    "stages": "pipeline stages",
    "chunks": "model chunks per stage",
    "warmup_steps": "steps at the start that printed averages leave out",
    "summary_first": "first step that printed averages are said to be of",
    "summary_last": "last step of it",
}
"""Quantities that metrics ask for and a format may declare, beside the run's own names."""


@dataclass(frozen=True)
class Phase:
    """What a timed phase is. `of`: what its time is part of, by occurrence (the last holds for all that follow).
    `hidden`: it runs beside the step, and only what `exposes` names it waits for. `clock`: host or gpu.
    """

    name: str
    of: tuple[str, ...] = ("step",)
    kind: str = "compute"
    hidden: bool = False
    exposes: str | None = None
    clock: str | None = None
    says: str = ""


@dataclass(frozen=True)
class Rate:
    """Work of a rank in some time of its steps. `of`: the phases that take the time, or the step; those that a run has
    not take none. `work`: FLOP in a step, of what the lines say of the run. `plain`: FLOP/s of plain products of the
    same shapes, of that and of the rank's numbers in table `values`; None where none are measured.
    """

    name: str
    of: tuple[str, ...]
    work: Expression
    plain: Expression | None = None


@dataclass(frozen=True, eq=False)
class Format:
    """A loaded format file."""

    name: str
    path: Path
    title: str
    source: str
    scopes: tuple[str, ...]
    label: str | None
    lines: tuple[Line, ...]
    fingerprints: tuple[Fingerprint, ...]
    adjacent: tuple[tuple[str, str], ...]
    phases: tuple[Phase, ...] = ()
    quantities: Mapping[str, Expression] = field(default_factory=dict)
    rates: tuple[Rate, ...] = ()
    flops: str | None = None  # the convention of its printed rate
    families: tuple[Family, ...] = ()

    def line(self, name: str) -> Line:
        return next(x for x in self.lines if x.name == name)
