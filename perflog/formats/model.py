"""The classes that a loaded format file consists of: formats, lines, families, phases, rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.expressions import Expression
from perflog.formats.flops import NAMES
from perflog.formats.object_shapes import ObjectShape
from perflog.formats.openings import Opening
from perflog.formats.template import Template, Value
from perflog.units import Unit

MIN_LETTERS = 6
"""Least number of letters and digits in the literals of a line shape for a match to prove its format."""

SINCE_PREVIOUS = 0
"""Value of `covers` for a line that covers all steps since the previous printed step."""

NOT_KNOWN = -1
"""Value of `covers` for a line that covers its own step alone, or all since the previous one: nothing says which."""

RUNNING_MEAN = -2
"""Value of `covers` for a line of means since a step that it does not print."""

COUNTED_AGAIN = -1
"""Value of `first_step` for a program whose first line may be of one step, which the next line covers too."""


STEP_BY = ("bar", "bar_in_front", "next_bar")
"""Values of `step_by`: a line takes its step from the state of a progress bar beside it, from the state before it
on the same line, or from the next state, which ends the step in which the line is printed."""


class BarFields(Struct, frozen=True):
    """The fields of a state of a progress bar: count, total, time since the bar began, smoothed rate; "" for none.

    `counts_steps`: whether the bar may count steps of training. A bar of loading or of an evaluation does not.
    """

    count: str
    total: str
    elapsed: str
    rate: str
    counts_steps: bool


class SecondRow(Struct, frozen=True):
    """The second row of a line that prints two measurements.

    Attributes:
        fields: By column, the field that fills it where the second row differs from the first.
        set: Constants of the second row, by column.
    """

    fields: Mapping[str, str]
    set: Mapping[str, Any]


class Cells(Struct, frozen=True):
    """The cells of the rows of a matrix: each is a record of its own, with the labels of its row and its column.

    Attributes:
        column: The name of the label of the column.
        number: The name of the number in the cell; `*` means the name of the first column.
        diagonal: Its name where both labels are equal; "" for the same.
        unknown: The number that means an unknown value.
        title: The fields of the title that belong to each record.
        labels: In the Line of a row: by field of a cell, the label of its column.
        row: In the Line of a row: the field with the label of the row.
    """

    column: str
    number: str
    diagonal: str = ""
    unknown: float | None = None
    title: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    row: str = ""

    def named_after(self, corner: str) -> Cells:
        """Return the cells with the name of the first column instead of `*`."""
        names = {key: getattr(self, key).replace("*", corner) for key in ("number", "diagonal")}
        return replace(self, **names)


class Line(Struct, frozen=True, eq=False):
    """One line shape: a `[[line]]`, a `[[context]]`, or a part of a `[[block]]`.

    parsers/README.md explains the keys of a format file, which most attributes are named after.

    Attributes:
        role: "line", "context", or for the parts of a block "begin", "body", "end".
        table: The table that the line's rows go to; None for a line that only counts as known.
        unit: Units of fields that are printed without one, by field.
        unknown: By field, the number that means an unknown value.
        each_process: Whether each process of a job prints this line, which opens a run.
        covers: Number of steps that one line covers, `SINCE_PREVIOUS`, `NOT_KNOWN` or `RUNNING_MEAN`.
        window: The number of steps that a line covers, computed from its numbers; it comes before `covers`.
        first_step: With `SINCE_PREVIOUS`, the step from which on the first line covers all steps, or `COUNTED_AGAIN`;
            None if unknown.
        phases: The fields of a line of table `steps` that are times of phases: each is a row of table `phases`.
        parts: The fields that are times of parts of the step, and so phases, if the numbers of the log agree.
        whole: The field that is the time of the step if they agree; "" for none.
        items: The columns that take the indices of the items in a list: each item is a row of its own.
        clock: The fields that read the run's clock; a line has one of them, or none.
        clock_of_bar: Whether `clock` reads the whole seconds since a progress bar began.
        clock_starts: The fields, each with a string, of the lines at which the clock starts: {} for all, None for none.
        clock_stops: The same for the lines at which it stops.
        pause: Whether the program did something else than steps before it printed the line.
        within: The field or inherited field, such as an epoch. The steps start again in each of its values.
        header_of: The `HeaderTable` with this line as its header, or as the title above it.
        cells: How the cells of a row of a matrix are records; None for other lines.
        under_header: Whether the line is read only under such a header or in an open block, never by its template
            alone.
        keep: Whether the lines of a block are kept with the run.
        telling: Whether a match proves the format, however few letters the line has; None: the letters decide.
        partial: Whether a part of its string is neither read nor known: a string that is no pair, what is before
            a line or after it. Another line that reads the whole string is the better one.
        after_prefix: Whether only a prefix before it is not read: the rest is a whole line.
        bar: The fields of the state of a progress bar that the line is; None if it is none.
        fills_steps: Whether numbers of table `values` fill the columns of `steps` that have their names.
        step_by: How the line takes its step from a progress bar, one of `STEP_BY`; None if it does not.
        warns: Whether the line is a warning, which may report a failure.
        otherwise: Whether it reads only what no other line reads.
        is_assumed: Whether its settings count only where no other line of the run prints them.
        is_fact: The same for a line above the results, which tells nothing of where a run begins.
        may_be_setting: Whether its numbers are settings if the lines above it say so: see `match.setting_blocks`.
        dropped: Why the figures in dropped fields need no table, by name of the field (`_`, `__`). The figures of a
            dropped field without a reason are unread.
        paths: By field that only its path in an object names (`metadata.step`), the path: the key of its row in table
            `values`, or of its setting. "" if the field is a list that has the key which the line prints.
        object: The shape of the line if it holds an object that can be split into its values; else None.
        by_object: Whether the line is read by that shape, not by the expression of its template.
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
    each_process: bool = False
    closes: str | None = None
    before: str | None = None
    outside: tuple[str, ...] = ()
    covers: int = 1  # steps; SINCE_PREVIOUS, NOT_KNOWN, RUNNING_MEAN
    window: Expression | None = None
    first_step: int | None = None
    clock: tuple[str, ...] = ()
    clock_of_bar: bool = False
    clock_starts: Mapping[str, str] | None = None
    clock_stops: Mapping[str, str] | None = None
    pause: bool = False
    within: str | None = None
    check: tuple[str, Expression] | None = None
    again: SecondRow | None = None
    header_of: Any = None
    cells: Cells | None = None
    under_header: bool = False
    keep: bool = True
    telling: bool | None = None
    partial: bool = False
    after_prefix: bool = False
    bar: BarFields | None = None
    fills_steps: bool = False
    step_by: str | None = None
    warns: bool = False
    otherwise: bool = False
    is_assumed: bool = False
    is_fact: bool = False
    may_be_setting: bool = False
    dropped: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    phases: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    whole: str = ""
    items: tuple[str, ...] = ()
    object: ObjectShape | None = None
    by_object: bool = False

    @property
    def read(self) -> bool:
        return self.role == "line"

    def key_of(self, name: str) -> str:
        """Return the key under which the value of a field is stored: its path, or its name."""
        return self.paths.get(name, name)

    @property
    def is_telling(self) -> bool:
        """Whether a match of the line proves its format: as declared, else a bare number or single word does not."""
        return self.template.letters >= MIN_LETTERS if self.telling is None else self.telling

    @property
    def gives_rows(self) -> bool:
        """Whether the line gives rows of tables, not only settings of the run or scopes of other lines."""
        return self.read and self.table not in (None, "runs")

    @property
    def prints_its_key(self) -> bool:
        """Whether a line of table `runs` prints the name of its setting: it has fields `key` and `value`."""
        return self.table == "runs" and {"key", "value"} <= {*self.template.names}


class Fingerprint(Struct, frozen=True):
    """A number by which a rank is recognised, such as its number of tokens in a step.

    Attributes:
        vote_line: The line that prints both the rank and the key.
        vote_key: Expressions of the key over the fields of that line.
        after: The line that is before `vote_line`; None if any may.
        reads: By line without a rank, the fields that print the key.
    """

    name: str
    vote_line: str
    vote_key: tuple[Expression, ...]
    after: str | None
    reads: Mapping[str, tuple[str, ...]]


class Family(Protocol):
    """A family of line shapes: the declaration of lines with fields that come and go.

    Each shape that a log shows becomes an ordinary `Line`. Everything after matching knows only Lines.
    """

    @property
    def name(self) -> str: ...

    @property
    def pattern(self) -> str:
        """A pattern for the beginning of a line of the family, for RE2 and `re`, without named groups.

        The pattern finds candidates. A line that matches it need not belong to the family.
        """

    @property
    def required_literal(self) -> bytes:
        """Bytes that every line of the family contains, as rare as possible."""

    @property
    def openings(self) -> Sequence[Opening]:
        """The strings by which the beginning of a line is known inside another line; none if nothing marks it."""

    @property
    def proves_format(self) -> bool:
        """Whether a line of the family proves that a log is in this format."""

    @property
    def samples(self) -> tuple[str, ...]: ...

    @property
    def text(self) -> str:
        """The declaration of the lines, for display."""

    def lines(self, text: str) -> tuple[Line, ...]:
        """Return the Lines that a string shows, among them the Line that reads it; () if it is not of the family.

        The same string always gives the same Lines. A string that one of them reads belongs to the family.
        """


KINDS = ("compute", "communication", "wait", "prepare", "data", "mixed")
CLOCKS = ("host", "gpu")
WHOLES = ("step", "forward", "backward")
"""Possible parents of a phase besides other phases: the step, or its printed forward or backward time."""

QUANTITIES = {
    **NAMES,
    "steps": "number of steps that the run announces",
    "work_rows": "rows of work a rank should do in a step",
    "unit_rows": "rows in one unit of table `loads`",
    "micro_batches": "micro-batches of a step",
    "stages": "pipeline stages",
    "chunks": "model chunks per stage",
    "warmup_steps": "steps at the start that printed averages leave out",
    "summary_first": "first step of the printed averages, as the log states it",
    "summary_last": "last step of the printed averages, as the log states it",
}
"""Quantities that metrics ask for. A format declares each as an expression of the run's settings."""


class Phase(Struct, frozen=True):
    """The meaning of a timed phase.

    Attributes:
        of: The phase that contains it, by occurrence; the last item holds for all later occurrences.
        kind: One of `KINDS`.
        hidden: Whether it runs in parallel to the step; then only the phase that exposes it delays the step.
        exposes: The hidden phase that this phase waits for.
        clock: "host" or "gpu"; None if unknown.
        says: A description for the reader.
    """

    name: str
    of: tuple[str, ...] = ("step",)
    kind: str = "compute"
    hidden: bool = False
    exposes: str | None = None
    clock: str | None = None
    says: str = ""


class Rate(Struct, frozen=True):
    """The work that a rank does in some of its time.

    Attributes:
        of: The phases that count, or "step". Missing phases count as zero.
        work: FLOP per step and rank, expressions of the run's settings: the first one counts that all are known of.
        plain: FLOP/s of plain matrix products of the same shapes, expressions of the settings and of the rank's
            numbers in table `values`, in the same way; () if the log has none.
    """

    name: str
    of: tuple[str, ...]
    work: tuple[Expression, ...]
    plain: tuple[Expression, ...] = ()


class Format(Struct, frozen=True, eq=False):
    """A loaded format file.

    Attributes:
        guessed: Whether perflog made the format from the log that it reads.
        generic: Whether the format describes lines of any program. It reads only lines that no other format reads. In
            logs with steps of another format it has no steps: see `beside_steps`.
        library: Whether the format describes the lines of a library, a launcher or a monitor, in logs of programs that
            have formats of their own. They join the run that such a program has opened. Its phases mean the same in
            all of them.
        program: Name of the program, for sentences.
        incidental: Patterns of names of settings in which repeats of a configuration may differ.
        result: Name of the value that a run of this program is judged by, such as `elapsed`, the last reading of its
            clock.
        either_way: Names of values that do not say which way is better: an `accuracy` that is a loss
            in some runs.
        of_one_gpu: Rates of table `steps` that the program prints for one GPU, although it runs on many: torchtitan's
            tokens per second.
        file_names: What the names of files say: templates with fields `step` and `rank`.
        startup: Parts of the start of a server, by the names of their values; `engine/graphs` is a part of `engine`.
    """

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
    quantities: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    rates: tuple[Rate, ...] = ()
    flops: str | None = None  # FLOP convention of the printed rate
    families: tuple[Family, ...] = ()
    guessed: bool = False
    generic: bool = False
    library: bool = False
    program: str = ""
    incidental: tuple[str, ...] = ()
    result: str | None = None
    either_way: tuple[str, ...] = ()
    of_one_gpu: tuple[str, ...] = ()
    file_names: tuple[Template, ...] = ()
    startup: Mapping[str, str] = field(default_factory=dict)

    def named_by(self, file: str) -> Mapping[str, Value]:
        """Return what the name of a log's file says of its lines, by field; {} if no template of the format fits."""
        return next((fields for name in self.file_names if (fields := name.match(file)) is not None), {})
