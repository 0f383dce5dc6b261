"""What a format file declares, once it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from perflog.expr import Expr
from perflog.flops import NAMES
from perflog.template import Template
from perflog.units import Unit

TELLING = 6
"""Letters and digits of its own that a line shape needs for a match to prove its format."""


@dataclass(frozen=True, eq=False)
class Line:
    """One `[[line]]`, `[[context]]` or piece of a `[[block]]`. `role` says which: line, context, begin, body, end."""

    name: str
    template: Template
    samples: tuple[str, ...] = ()
    role: str = "line"
    table: str | None = None
    unit: Mapping[str, Unit] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    compute: Mapping[str, Expr] = field(default_factory=dict)
    map: tuple[tuple[str, str, str, str], ...] = ()
    run: tuple[str, ...] = ()
    opens: str | None = None
    closes: str | None = None
    before: str | None = None
    outside: tuple[str, ...] = ()
    covers: bool = False
    check: tuple[str, Expr] | None = None

    @property
    def read(self) -> bool:
        return self.role == "line"


@dataclass(frozen=True)
class Fingerprint:
    """A number that tells a rank. `vote` is (line, key expressions, line before or None); `reads` line -> fields."""

    name: str
    vote_line: str
    vote_key: tuple[Expr, ...]
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
    def needle(self) -> bytes:
        """Bytes that every line of the family holds, as telling as can be."""

    @property
    def telling(self) -> bool:
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
    quantities: Mapping[str, Expr] = field(default_factory=dict)
    flops: str | None = None  # the convention of its printed rate
    families: tuple[Family, ...] = ()

    def line(self, name: str) -> Line:
        return next(x for x in self.lines if x.name == name)
