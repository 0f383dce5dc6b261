"""Headings of runs: several trainings copied into one text, each below its own heading or command.

Steps that begin again show no other run: ranks print them, and epochs. A heading between them that is not the heading
of the run above does: `### BF16`, `=== seed 2 ===`, `run 2:`, `$ python train.py --compile`. So does another name
before the lines of steps: `gpt2: step 1`, later `llama3: step 1`.

The first lines of the log, printed again before steps that go back, show that the program has started again. If it
prints another setting, these lines are the labels of the runs. A program that starts again with its first step has
failed before: other ranks print the same from the first line on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.vocabulary import EVALUATIONS, MOMENTS, NUMBERED, NUMBERED_PARTS, TRAINING
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.assemble.runs.printed_steps import FEW, PLAIN, PrintedSteps
from perflog.parsing.failures.kinds import reported
from perflog.parsing.input.name_prefixes import LEAD
from perflog.parsing.input.program_headers import LONGEST, MOST_LINES, different_lines
from perflog.parsing.match.records import Batch
from perflog.tables.row_order import PART_BITS

END = 1 << 62
"""After all positions."""

_LINES = MOST_LINES  # above a step, among which headings are looked for
_LONGEST = 100  # characters of a heading
_DIRECTLY = 3  # lines from a name or a title to the first step: a rule or a header may be between
_COMMANDS = "$"
_NAMES = "name"  # form of a name before the line of a step
_NEAR = 2  # lines from a heading to the one above it: an empty line may be between
_HEADING = lazy_pattern(
    r"[ \t]*(?:\[[A-Za-z][\w.-]*\] +)?"
    r"(?:#{1,6} +(?P<section>\S.*?)[ #]*|(?P<mark>[=*~>-])(?P=mark)+ +(?P<title>\w.*?)(?: +(?P=mark)+)?"
    r"|(?P<name>\w[\w.+=,()-]*(?: [\w.+=,()-]+){0,5}):)[ \t]*"
)
_COMMAND = lazy_pattern(
    r"[ \t]*(?:\$ +|(?:[A-Z_]+=\S+ +)*(?:(?:\S*/)?(?:python[0-9.]*|torchrun|srun|mpirun|deepspeed|accelerate)|\./\S+)"
    r"[ \t]+)\S.*"
)
_OF_SETTINGS = lazy_pattern(r"(?:\S+ )*[A-Za-z_]\w*=\S+(?: [A-Za-z_]\w*=\S+)+")
"""Settings in a title, wherever it is above the steps: `=== shape=llama3_8b B=1 S=2048 ===`."""
_NAME = lazy_pattern(LEAD.decode() + r"(?:\[(?P<name>[A-Za-z][\w.+-]*)\]:?|(?P<word>[A-Za-z][\w.+-]*)(?::| \|)) ")
_OPENING, _FEWEST = 3, 2  # lines with which the program starts: as many as are compared, and at least
_LETTERS = lazy_pattern(r"(?:.*?[^\W\d_]){8}")
_DIGITS = lazy_pattern(r"[0-9]+")
_WORD = lazy_pattern(r"[^\W\d_]+")
_RUNS = frozenset(("run", "test", "trial", "version"))  # of what is numbered, what may be a run of its own
_PARTS = (NUMBERED | NUMBERED_PARTS | {"rank", "cuda", "phase", "pass", "cycle", "part", "fold", "task"}) - _RUNS
_NUMBERED_PART = lazy_pattern(rf"(?i)\b(?:{'|'.join(sorted(_PARTS))})s?[ _:#=-]*[0-9]")
_EVENT_WORDS = (
    MOMENTS
    | EVALUATIONS
    | frozenset(
        "checkpoint checkpoints ckpt saving saved save loading loaded resume resumed resuming restarting "
        "complete completed done finished started starting passed failed sample samples sampling "
        "generated generating".split()
    )
)
"""Words of events in a run: a heading with one of them begins no other run."""
_GENERAL = TRAINING | frozenset(
    "log logs output outputs progress result results summary metrics stats statistics performance notes status "
    "warning note usage error exception loss final the of".split()
)


class Heading(Struct, frozen=True):
    """A line above a run, or a name before its first step.

    Attributes:
        position: Its position.
        words: Its words.
        text: What distinguishes it from the headings of other runs.
        form: Its first mark, `:` after a name, `$` of a command.
    """

    position: int
    words: str
    text: str
    form: str


class HeadedRun(Struct, frozen=True):
    """A run that begins at a position, and its name and the one before's by their headings; None without one."""

    position: int
    label: str | None
    label_before: str | None


class HeadedRuns(Struct):
    """Where the steps of a log without epochs begin again below another heading, and no line says that a run begins."""

    first: int | None = None
    last: int = -1
    number: int = 0  # lines of steps of the run so far
    above: Sequence[Heading] = ()  # of the run that is open
    below: Sequence[Heading] = ()  # since the last step
    is_named: bool = False  # whether names before the lines of steps distinguish the runs
    is_simple: bool = True
    header: Sequence[str] = ()  # the lines of the last start of the program: at first those above the first step
    setting: str | None = None  # the line with another setting in it than in the start before

    def runs(self, steps: PrintedSteps, batch: Batch, low: int, high: int, before: float) -> list[HeadedRun]:
        """Return the runs that begin in a batch.

        Args:
            steps: The printed steps of the log in this batch.
            batch: The batch.
            low: Position from which on it holds lines of the log.
            high: Position up to which it does.
            before: Position of the first line that begins a run in another way.
        """
        found = list[HeadedRun]()
        self.header = self._header(steps, batch, low)
        self.is_simple &= not (steps.epochs >= 0).any()
        if not self.is_simple:
            self.first = next(iter(steps.steps.tolist()), None) if self.first is None else self.first
            return found
        is_plain = steps.epochs == PLAIN
        positions, numbers = steps.positions[is_plain], steps.steps[is_plain]
        if not len(numbers):
            self.below = [*self.below, *headings_between(batch, low, high)]
            return found
        if self.first is None:
            self.first, self.last = int(numbers[0]), int(numbers[0])
            above = [*self.below, *headings_between(batch, low, int(positions[0]))]
            self.above, self.below = [*_above(above, int(positions[0])), *_names(batch, positions[:1])], ()
        begin = -self.number
        begins_again = np.diff(numbers, prepend=self.last) < 0
        changes_name = self._changes_name(batch, positions, begins_again)
        for k in np.flatnonzero(begins_again | changes_name).tolist():
            if not (begins_again[k] or self.is_named):
                continue
            position, after = int(positions[k]), int(positions[k - 1]) + 1 if k else low
            may_restart = self.first <= numbers[k] and position < before and k - begin >= FEW
            if may_restart and _goes_on(numbers, k, self.last):
                restart = self._started_again(batch, after, position, is_from_scratch=self.first == numbers[k])
                if restart is not None:
                    found.append(restart)
                    begin = k
                    continue
            between = headings_between(batch, after, position)
            between = _above(between if k else [*self.below, *between], position)
            between = [*between, *_names(batch, positions[k : k + 1])]
            known, forms = ({getattr(heading, name) for heading in self.above} for name in ("text", "form"))
            alike = [heading for heading in between if heading.form in forms]
            is_other = any(heading.text not in known or heading.form == _COMMANDS for heading in alike)
            is_first = int(numbers[k]) <= self.first or not begins_again[k]
            self.is_simple = is_first and k - begin >= FEW and position < before and is_other
            if not self.is_simple:
                return found
            here = [heading for heading in between if heading.position >= low]
            start = _own(here)[0].position if here else position
            found.append(HeadedRun(start, _label(between), _label(self.above)))
            self.first, self.above, begin = int(numbers[k]), between, k
            self.is_named |= any(heading.form == _NAMES and heading.text not in known for heading in alike)
        self.last, self.number = int(numbers[-1]), len(numbers) - begin
        self.below = headings_between(batch, int(positions[-1]) + 1, high)
        return found

    def start_of(self, position: int, steps: PrintedSteps, batch: Batch, low: int) -> HeadedRun:
        """Return the run that begins with a step: from the first lines of the program on, if it prints them again."""
        k = int(np.searchsorted(steps.positions, position))
        after = int(steps.positions[k - 1]) + 1 if k else low
        return self._started_again(batch, after, position) or HeadedRun(position, None, None)

    def _header(self, steps: PrintedSteps, batch: Batch, low: int) -> Sequence[str]:
        """Return the first lines of the log up to its first step, as far as they have been read with a batch."""
        if self.first is not None or len(self.header) >= _LINES:
            return self.header
        first = next(iter(steps.positions.tolist()), END)
        return [*self.header, *_lines_between(batch, low, first, LONGEST, is_first=True)[1]][:_LINES]

    def _started_again(self, batch: Batch, low: int, high: int, is_from_scratch: bool = False) -> HeadedRun | None:
        """Return the run that begins where the program starts again between two positions; None if it does not.

        `is_from_scratch`: whether it counts only after a failure.
        """
        opening = [text for _, text in _starts(range(len(self.header)), self.header)[:_OPENING]]
        if len(opening) < _FEWEST:
            return None
        positions, texts = _lines_between(batch, low, high, LONGEST)
        lines = _starts(positions, texts)
        parts = (lines[n : n + len(opening)] for n in range(len(lines) - len(opening) + 1))
        begin = next((part[0][0] for part in parts if [text for _, text in part] == opening), None)
        if begin is None or (is_from_scratch and not any(reported(text) is not None for text in texts)):
            return None
        before, self.header = self.header, texts[positions.index(begin) :]
        different = different_lines([before, self.header])
        if different is None:
            return HeadedRun(begin, self.setting, None)
        label_before, self.setting = (line.strip()[:_LONGEST] for line in different)
        return HeadedRun(begin, self.setting, label_before)

    def _changes_name(self, batch: Batch, positions: Ints, begins_again: Mask) -> Mask:
        """Return which steps have another name before their line than the step before them, if runs may have names."""
        changes = np.zeros(len(positions), np.bool_)
        if self.is_named or (begins_again.any() and any(heading.form == _NAMES for heading in self.above)):
            text = next((heading.text for heading in self.above if heading.form == _NAMES), None)
            for heading in _names(batch, positions):
                changes[np.searchsorted(positions, heading.position)] = heading.text != text
                text = heading.text
        return changes

    def may_begin(self, steps: PrintedSteps, batch: Batch) -> bool:
        """Return whether a batch ends with a heading below the last step: the next one shows to which run."""
        last = steps.positions[steps.epochs == PLAIN][-1:].tolist()
        begins = last[0] + 1 if last else 0
        has_steps = bool(last) or self.first is not None
        if not (self.is_simple and has_steps):
            return False
        header = self._header(steps, batch, 0)
        opening = [text for _, text in _starts(range(len(header)), header)[:1]]
        below = _starts(*_lines_between(batch, begins, END, LONGEST))
        return any([text] == opening for _, text in below) or bool(headings_between(batch, begins, END))


def headings_between(batch: Batch, low: int, high: int) -> list[Heading]:
    """Return the headings among the last lines of a batch from one position to before another."""
    return list(_headings(*_lines_between(batch, low, high, _LONGEST)))


def _goes_on(numbers: Ints, k: int, last: int) -> bool:
    """Return whether a program that goes back at a step may have started again: it then does the steps after it.

    An evaluation between two steps counts steps of its own, and the training goes on after its last one.
    """
    reached = max(int(numbers[:k].max(initial=-1)), last)
    beyond = np.flatnonzero(numbers[k:] > reached)
    if not len(beyond):
        return True
    strides = np.diff(numbers[k : k + beyond[0] + 1])
    return len(strides) > 0 and int(strides[-1]) <= 2 * max(int(np.median(strides)), 1)


def _starts(positions: Iterable[int], texts: Iterable[str]) -> list[tuple[int, str]]:
    """Return the lines with words and their positions, with `#` for digits."""
    lines = zip(positions, texts, strict=True)
    return [(position, _DIGITS.sub("#", text)) for position, text in lines if _LETTERS.match(text)]


def _lines_between(
    batch: Batch, low: int, high: int, longest: int, is_first: bool = False
) -> tuple[list[int], list[str]]:
    """Return the positions and texts of the last lines between two positions, or of the first ones.

    A line longer than `longest` characters is cut after one more.
    """
    first, end = batch.rows_from(np.array([low, high], np.int64)).tolist()
    rows = np.arange(first, min(end, first + _LINES)) if is_first else np.arange(max(first, end - _LINES), end)
    if not len(rows):
        return [], []
    positions = batch.positions_of(rows)
    return positions.tolist(), batch.texts(positions, longest + 1)


def _headings(positions: Sequence[int], texts: Sequence[str]) -> Iterator[Heading]:
    for position, text in zip(positions, texts, strict=True):
        if _COMMAND.fullmatch(text):
            yield Heading(position, "", text, _COMMANDS)
        elif len(text) <= _LONGEST and (match := _HEADING.fullmatch(text)):
            words = match["section"] or match["title"] or match["name"]
            if names_run(words):
                form = "#" if match["section"] else match["mark"] or ":"
                yield Heading(position, words, text, form)


def _names(batch: Batch, positions: Ints) -> list[Heading]:
    """Return the names before the lines of steps, as headings. Numbers do not distinguish them: processes have some."""
    matches = map(_NAME.match, batch.texts(positions, _LONGEST))
    names = [
        (position, match["name"] or match["word"])
        for position, match in zip(positions.tolist(), matches, strict=True)
        if match
    ]
    return [Heading(position, name, _DIGITS.sub("#", name), _NAMES) for position, name in names if names_run(name)]


def _above(headings: Sequence[Heading], step: int) -> list[Heading]:
    """Return the headings of the run that begins with a step: sections, commands, settings, or directly above it."""
    return [
        heading
        for heading in headings
        if heading.form in ("#", _COMMANDS)
        or _OF_SETTINGS.fullmatch(heading.words)
        or (step - heading.position) >> PART_BITS <= _DIRECTLY
    ]


def names_run(title: str) -> bool:
    """Return whether a title may name a run: not a rank, a part, or a moment of one.

    Example:
        >>> [names_run(title) for title in ("BF16", "run 2", "rank 2", "Epoch 2", "Validation", "Training log")]
        [True, True, False, False, False, False]
    """
    words: Set[str] = {word.lower() for word in _WORD.findall(title)}
    return bool(words - _GENERAL) and words.isdisjoint(_EVENT_WORDS) and not _NUMBERED_PART.search(title)


def _own(headings: Sequence[Heading]) -> Sequence[Heading]:
    """Return the headings of the run below: from the last one with words on, and those directly above that one.

    A name before the line of the step counts where there is no other heading.
    """
    headings = [heading for heading in headings if heading.form != _NAMES] or headings
    first = max((k for k, heading in enumerate(headings) if heading.words), default=0)
    while first and (headings[first].position - headings[first - 1].position) >> PART_BITS <= _NEAR:
        first -= 1
    return headings[first:]


def _label(headings: Sequence[Heading]) -> str | None:
    return " ".join(heading.words for heading in _own(headings) if heading.words) or None
