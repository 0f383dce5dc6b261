"""Lines of meters: names with their values, perhaps with a mean in brackets, in any punctuation and after any prefix.

    [09:05:16 swin] (main.py 226): INFO Train: [14/300][250/1251]  eta 0:10:52 lr 0.000710  loss 6.5584 (6.3074)
    2020-05-08 18:44:23,494 - mmdet - INFO - Epoch [1][1200/7517]  lr: 0.00125, time: 0.593, loss: 0.4606

Programs print such lines in countless ways. So a line is cut into tokens, and each number is named after the words
before it. The Line of a shape has these words and all marks as literals: it reads no line with other names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import takewhile

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.bars import MARK, NAMED
from perflog.formats.durations import measures
from perflog.formats.expressions import Expression
from perflog.formats.families.base import (
    FamilyShape,
    FieldNames,
    column_of_number,
    fits,
    glob,
    literal,
    look_up,
    spec_of,
    template_of,
)
from perflog.formats.families.measured_lines import AMONG_OTHERS, DEVICES_AFTER, LABELS, is_measured
from perflog.formats.families.measured_lines import PATTERN as MEASURED_PATTERN
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.families.name_units import is_statistic, name_and_unit
from perflog.formats.families.title_lines import PATTERN as TITLE_PATTERN
from perflog.formats.families.title_lines import title_parts
from perflog.formats.families.unnamed_values import PATTERN as UNNAMED_PATTERN
from perflog.formats.families.unnamed_values import parts_of
from perflog.formats.model import BarFields, Line
from perflog.formats.openings import Opening
from perflog.formats.template import DECLARED_DROPPED, UNNAMED, Template, fits_64, unnamed
from perflog.formats.tokens import LIST, NAME, NUMBER, OPAQUE, UNIT, Token, tokens
from perflog.formats.vocabulary import COUNTERS, EVALUATIONS, KINDS, LEVELS, PLACES, TRAINING, field_name, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, STEP_WORDS, UNITS, Unit, base_of, unit_of

MEAN, SHARE, TOTAL, RATE = "mean", "share", "total", "rate"
"""What follows a number without a name of its own: `0.5 (0.6)`, `10 (5%)`, `10/500`, `2.1 s, 121.5/s`. The last part of
the names of such numbers."""

_MOST_WORDS = 6  # of a name
_INTEGER = lazy_pattern(r"[+-]?[0-9]+")
_WHOLE = lazy_pattern(r"[+-]?[0-9]+(?:\.0*)?")  # Lightning prints `global_step=188.0`
_BOUND = r"[\x22']?[ \t]*[:=][ \t]*[\x22'(\[]?[+-]?(?:[0-9.]|(?i:nan|inf))"  # what binds a name to its number
_NAME_AT_END = lazy_pattern(r"([A-Za-z_]\w*)[:=]$")
_LIST_NUMBER = lazy_pattern(r"[+-]?[0-9.][0-9.eE+-]*")
_ATTACHED = frozenset(("B", "b", "h", "min"))  # units that are also words: only without a space before them
_TIMES = frozenset("x×")  # `speedup: 1.01x`: no unit, and part of no name
_OF_MEMORY = lazy_pattern(
    r"mem|byte|size|(?<![a-z])v?ram(?![a-z])", re.IGNORECASE
)  # names of sizes: there `M` may be 2^20 too
_COUNTERS = frozenset((*PLACES, "epoch"))  # fields that hold exact numbers
_COUNTER_WORDS = COUNTERS | {"num_updates", "global_step", "eta"}
_ITERATIONS = frozenset("iter iters iteration iterations it".split())
_SPREAD = "±"
_LONG_LIST = 4  # numbers of a list that are one field: their count may differ from line to line
_NAMES_PER_STEP = frozenset(("time", "speed"))  # of a number that is counted per step: `time: 7.5 s/iter`
_ITERATION_TIMES = frozenset(("iter_time", "iteration_time"))
OTHER_STEP = "other_step"
"""The field of a step beside the number of an iteration, which counts the lines."""

_AFTER_EVALUATION = _COUNTER_WORDS | {"on", "dataloader", "result", "results", "metrics"}
"""Words that name no measured number: `val on 'x'`, `Validation Results - Epoch[1]`."""
_PREPOSITIONS = frozenset("in at of for to with by from on after".split())  # name no number after them: `in 2.5 s`
_ROUNDED = "rounded"  # the last part of the name of a counter that is printed with a factor: `step:1K`
_NOT_FINITE = frozenset(("nan", "inf", "infinity"))
_TIMED = lazy_pattern(r"time|elapsed|duration|eta\b", re.IGNORECASE)  # names of numbers with `m` as the minute
_RATES = frozenset(("1/s", "TFLOP/s"))  # base units of rates that are only in part in the name
_SPEEDS = {"TFLOP/s": "tflops", "GB/s": "bandwidth"}  # the same, of what the number before took its time for
_TIME_AT_END = lazy_pattern(r"(?<=\w)[ _](?:time|latency|tflops)$", re.IGNORECASE)
_NAMES_OF = {
    "s": re.compile("time|sec|dur|cost|elapsed|latency|wall|data|batch|forward|backward", re.IGNORECASE),
    "B": _OF_MEMORY,
}  # by base unit: names of numbers that may have it, printed or not
_TABLE_ROW = lazy_pattern(r"\s*\|[^|]*\|[^|]*\|.*\|$")  # of two cells or more, between bars
_DAYS = frozenset(("day", "days"))
_NO_VALUE = frozenset(map(str.lower, NO_VALUE))
_DIGITS = lazy_pattern(r"(?<![\w@#])[0-9]+")  # but not in names: `Acc@1`, `loss2`
_GOES_ON = lazy_pattern(rb"[eE][+-]?[0-9]|[.,'][#0-9]|(?: [0-9]{3})+(?:\.[0-9]+)?[ \t]*(?:$|[|;,()\]])")
"""What a number goes on with after a head that ends in its first digits."""
_MOST_UNREADABLE = 1 << 14  # shapes that a family keeps

_BAR = lazy_pattern(rf"{NAMED}(?![A-Za-z])")
"""A state of a progress bar up to its rate: `2%|# | 3396/167300 [12:19:15<594:39:50, 13.06s/it`."""
BAR = "bar"
"""The name of the count of a bar that no counter describes."""
EPOCH_BAR = "epoch_bar"
"""The name of the count of a bar that the number of an epoch describes: batches of the epoch."""
TRAINING_BAR = "training_bar"
"""The name of the count of a bar that is described as training, or that has a loss after it: steps of training."""
ANY_BAR = "any_bar"
"""A name that each line with a bar has, in `needs`."""
_TRAINS = lazy_pattern(
    r"(?:(?:pre|fine|fine_)?train(?:ing)?|(?:fine_?)?tuning)"
    r"(?:_(?:progress|loop|epoch|batch|batches|step|steps|iter|iters|iteration|iterations))?"
)
"""The description of a bar that counts steps of training, but not `Loading train data`."""
_BAR_NAMES = (BAR, EPOCH_BAR, TRAINING_BAR, ANY_BAR)
_LOSS = lazy_pattern(r"(?<![A-Za-z])(?:\w*_)?(?:loss|ppl|perplexity)\w*[\s]*[=:]", re.IGNORECASE)
ELAPSED = "elapsed"
"""The name of the time since the bar began, in table `steps`."""
_BAR_DROPPED = "of a progress bar: its share is printed as counts, the time that is left is an estimate"
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class MeterFamily(Struct, frozen=True, eq=False, dict=True):
    """A `[[meters]]` entry of a format file.

    Attributes:
        text: The declaration, for display.
        shape: What all lines of the family have in common. A head may be anywhere in the line.
        keys: The field that takes the number of a name (see `plain_name`).
        needs: Names that a line must have, each with its alternatives; `*` matches any string.
        unit_names: What printed units mean here: `MB = "MiB"`.
        measures: Whether a line must measure something: see `measured_lines`.
        titles: Whether the lines are titles of what the lines below them measure: see `title_lines`.
        unnamed: Whether the lines have a step and a number that nothing names: see `unnamed_values`.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    keys: Mapping[str, str]
    needs: tuple[tuple[str, ...], ...] = ()
    unit_names: Mapping[str, str] = field(default_factory=dict)
    measures: bool = False
    titles: bool = False
    unnamed: bool = False

    @property
    def openings(self) -> Sequence[Opening]:
        return ()

    @property
    def proves_format(self) -> bool:
        return self.shape.line.telling is not False

    @property
    def required_literal(self) -> bytes:
        return self.shape.required_literal

    @cached_property
    def pattern(self) -> str:
        if self.unnamed:
            return UNNAMED_PATTERN
        if self.measures or self.titles:
            measured = MEASURED_PATTERN if self.proves_format else AMONG_OTHERS
            return measured if self.measures else TITLE_PATTERN
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        names = "|".join(_name_pattern(name) for name in (self.needs[0] if self.needs else ()))
        if not names:
            return rf".*?(?:{heads})"
        end = "[^A-Za-z0-9]" if self.proves_format else _BOUND  # prose has these names too
        name = rf"(?i:{names}){end}"
        return rf".*?(?:(?:{heads}).*?{name}|{name}.*?(?:{heads}))" if heads else rf".*?{name}"

    @cached_property
    def _begins(self) -> re.Pattern[bytes]:
        return lazy_pattern(f"(?s:{self.pattern})".encode())

    @cached_property
    def _heads(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return [
            (head, lazy_pattern(rf"(?<![0-9A-Za-z_])(?s:{unnamed(head.pattern)})".encode()))
            for head in self.shape.heads
        ]

    @cached_property
    def _unreadable(self) -> set[str]:
        """Shapes of strings that are no lines of the family: prose may repeat one with many numbers."""
        return set()

    def lines(self, text: str) -> tuple[Line, ...]:
        if text.startswith('{"') and text.endswith("}"):
            return ()  # an object of JSON
        shape = _digits_hidden(text)
        if shape in self._unreadable:
            return ()
        lines = self._lines(text)
        if not lines and len(self._unreadable) < _MOST_UNREADABLE:
            self._unreadable.add(shape)
        return lines

    def _lines(self, text: str) -> tuple[Line, ...]:
        if self.titles:
            return self._titles(text)
        if self.unnamed:
            return self._unnamed(text)
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        if self.measures and (not self._begins.match(raw) or _TABLE_ROW.match(text)):
            return ()  # the pattern of another family has found the line, or the line is a row of cells
        for head, pattern in self._heads:
            if not head.may_stand_in(raw):
                continue
            match = pattern.search(raw) if head.text else re.match(b"", raw)
            goes_on = bool(head.text) and head.literals[-1] == "" and _GOES_ON.match(raw, match.end() if match else 0)
            if match is not None and not goes_on:
                line = self._line(_text(raw[: match.start()]), head, _text(raw[match.end() :]))
                if line is not None and line.template.match(raw) is not None:
                    return (line,)
        return ()

    def _titles(self, text: str) -> tuple[Line, ...]:
        parts = title_parts(text.rstrip(" \t"))
        template = template_of(f"{literal(parts[0])}{{{parts[1]}}}{literal(parts[2])}") if parts else None
        return () if template is None else (self.shape.line_of(template, ()),)

    def _unnamed(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape")
        parts = parts_of(text.rstrip(" \t")) if self._begins.match(raw) else None
        line = self._line(parts[0], Template(parts[1]), parts[2]) if parts is not None else None
        return () if line is None or line.template.match(raw.rstrip(b" \t")) is None else (line,)

    def _line(self, before: str, head: Template, after: str) -> Line | None:
        """Return the Line of a string with this head; None if it lacks a name that lines of the family have."""
        evaluation = _evaluation(before, head.text, after)
        common = self.shape.line
        if evaluation and common.table == "steps":
            common = _as_values(common)
        names, prefix, rest = self._parts(common.table, before, head, after, evaluation)
        printed = prefix.names | rest.names
        if common.table == "steps" and not evaluation and _is_evaluated(printed):
            common = _as_values(common)
            names, prefix, rest = self._parts(common.table, before, head, after, evaluation)
        steps = [key for key, name in self.keys.items() if name == "step" and key in printed]
        iteration = next((key for key in steps if key in _ITERATIONS and printed & _ITERATION_TIMES), "")
        if len(steps) > 1:  # `step: 10, global_step: 110`
            names, prefix, rest = self._parts(common.table, before, head, after, evaluation, iteration or steps[0])
        counters = prefix.counters + rest.counters
        if len(set(counters)) < len(counters):
            return None  # two records on one line
        if not all(any(glob(name)(x) for name in need for x in printed) for need in self.needs):
            return None
        gap = before[len(before.rstrip(" \t")) :]
        shape = prefix.text + _gap(gap) + head.text + rest.text
        template = template_of(_with_devices(shape, names) if self.measures else shape)
        is_row = (ANY_BAR,) in self.needs and (prefix.is_row or rest.is_row)
        units = {**prefix.units, **rest.units}
        if template is None or is_row or not self._fits(template, common, steps, units):
            return None
        if iteration and len(steps) > 1 and common.table == "steps":
            common = replace(common, compute={**common.compute, **_time_of_step(template.names, units)})
        line = replace(self.shape, line=common).line_of(template, names.from_keys, names.paths)
        settings = tuple(name for name in template.names if name in prefix.totals | rest.totals)
        is_counted = all(f.type == "d" for f in template.fields if f.name == line.within)  # `epoch: 0.31` is not
        within = line.within if is_counted else None
        dropped = line.dropped
        if prefix.bar or rest.bar:
            because = dict.fromkeys((dropped.get(DECLARED_DROPPED, _BAR_DROPPED), _BAR_DROPPED))
            dropped = {**dropped, DECLARED_DROPPED: "; ".join(because)}
            fields = next(part.bar_fields for part in (prefix, rest) if part.bar_fields)
            line = replace(line, bar=fields)
            if ELAPSED in template.names:
                line = replace(line, clock=(ELAPSED,), clock_of_bar=True)
        return replace(
            line, unit={**line.unit, **units}, run=(*line.run, *settings), within=within, dropped=dropped,
            may_be_setting=self.measures,
        )  # fmt: skip

    def _fits(self, template: Template, line: Line, steps: Sequence[str], units: Mapping[str, Unit]) -> bool:
        """Return whether a line measures something, or counts its step: the step of `step 989 ms` is a time."""
        if self.measures:
            return is_measured(template, units, not self.proves_format)
        return line.table != "steps" or not steps or not {"step", "step_rounded"}.isdisjoint(template.names)

    def _parts(
        self, table: str | None, before: str, head: Template, after: str, evaluation: str, step: str = ""
    ) -> tuple[FieldNames, _MeterText, _MeterText]:
        """Return the strings of a template before and after the head. `step`: the name that alone is the step."""
        names = FieldNames(table, head.names)
        prefix, rest = _MeterText(self, names, evaluation, step), _MeterText(self, names, evaluation, step)
        prefix.add_text(before)
        rest.begin_after(head.text)
        rest.add_text(after, is_inside=bool(head.text))
        return names, prefix, rest


def _as_values(line: Line) -> Line:
    """Return what lines of steps have in common, for one that measures no step."""
    return replace(line, table="values", compute={}, covers=1, first_step=None, within=None)


def _with_devices(shape: str, names: FieldNames) -> str:
    """Return the shape of a line with names for numbers of devices: `Throughput: 123.4 tokens/s on 8 GPUs`."""
    return DEVICES_AFTER.sub(lambda found: f"{{{names.from_key(found['word'])}:d}}{found['after']}", shape)


def _is_evaluated(printed: Collection[str]) -> bool:
    """Return whether all names of a line, apart from counters, belong to an evaluation: `iter: 8 val_loss: 2.5`."""
    measured = [name for name in printed if name not in _COUNTER_WORDS | _COUNTERS]
    return bool(measured) and all(name.split("_")[0] in EVALUATIONS for name in measured)


def _time_of_step(names: Collection[str], units: Mapping[str, Unit]) -> Mapping[str, Expression]:
    """Return the time of a step, computed from the time of an iteration: both are equal if both counters are equal.

    A step of several micro-batches has several iterations: `iter 120 | step 15: iter time: 60 ms`.
    """
    time = next((name for name in names if name in _ITERATION_TIMES), None)
    if time is None or OTHER_STEP not in names or time not in units:
        return {}
    return {"step_time": Expression(f"if_equal(step, {OTHER_STEP}, {time} * {units[time].factor})")}


@lru_cache(1)
def _digits_hidden(text: str) -> str:
    """Return a string with zeros for the digits of its numbers. The families are asked for one string in turn."""
    return _DIGITS.sub(lambda match: "0" * len(match[0]), text)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _evaluation(before: str, head: str, after: str) -> str:
    """Return the word by which a line says that it is about an evaluation; "" if it does not.

    The word is before the first measured number, and it is not part of the name of a number: `val loss 2.3`. Or it
    is the first or the last word of the head.
    """
    words = head.split() or [""]
    for word in (words[0].lower(), words[-1].rpartition("}")[2].lower()):
        if word in EVALUATIONS:
            return word
    parts: list[Token] = []
    for text in (before, head, after):
        bar = _BAR.search(text)  # what is after it says nothing of the bar
        parts += tokens(text[: bar.start()] if bar is not None else text)
        if bar is not None:
            break
    for k, token in enumerate(parts):
        word, following = token.text.lower(), parts[k + 1 : k + 3]
        if token.kind != NAME:
            continue
        is_bound = bool(following) and following[0].text in ":="
        names_number = any(part.kind == NUMBER for part in following[is_bound : is_bound + 1])
        if word in EVALUATIONS or (
            is_bound and word.rpartition("-")[2] in EVALUATIONS
        ):  # `FastEstimator-Eval: step: 3`
            word = word.rpartition("-")[2]
            begins_name = bool(following) and following[0].kind == NAME
            is_of_name = begins_name and following[0].text.lower() not in _AFTER_EVALUATION
            return "" if is_of_name or (is_bound and names_number) else word
        if names_number and word not in _COUNTER_WORDS:
            return ""
    return ""


def _name_pattern(name: str) -> str:
    """Return the pattern of a printed name, given the name as it is compared."""
    if name in _BAR_NAMES:
        return MARK
    return r"[\w ./-]*".join(
        "[^A-Za-z0-9]+".join(re.escape(word) for word in part.split("_")) for part in name.split("*")
    )


def _gap(gap: str) -> str:
    """Return whitespace as a template string: one space as it is, others as any whitespace."""
    return gap if gap in ("", " ") else "{_:b}"


class _MeterText(Struct):
    """Makes a template string from the tokens of a line.

    Attributes:
        evaluation: The word that begins the names of measured numbers: `val`; "" if the line is about training.
        step: The name that alone is the step, of several that could be; "" for the first of them.
        text: The template string so far.
        names: The names of the numbers so far, as they are compared.
        counters: The names that count steps, ranks or epochs, as often as they occur.
        units: The printed units of fields.
        totals: Fields that hold the total of a counter.
        bar: The name of what a progress bar in the line counts; "" if there is none.
        bar_fields: The fields of the state of this bar.
        is_row: Whether numbers without a name are before the bar: it is after the row of a table.
    """

    family: MeterFamily
    fields: FieldNames
    evaluation: str = ""
    step: str = ""
    text: str = ""
    names: set[str] = field(default_factory=set)
    counters: list[str] = field(default_factory=list)
    units: dict[str, Unit] = field(default_factory=dict)
    totals: set[str] = field(default_factory=set)
    bar: str = ""
    bar_fields: BarFields | None = None
    is_row: bool = False
    _words: list[str] = field(default_factory=list)  # since the last number or mark: the name of the next number
    _mark: str = ""  # the last mark that bound a value to its name
    _is_bound: bool = False  # whether `:` or `=` follows the words
    _key_unit: str = ""  # the unit in a name: `time (ms): 3.1`
    _last: str = ""  # the name of the number before, for a number without a name
    _last_unit: str = ""
    _last_unit_text: str = ""  # the same as printed
    _end: int = 0  # index of the token after this number and its unit
    _bases: dict[str, set[str]] = field(default_factory=dict)  # by name, the base units that its numbers print
    _bracket: str = ""  # the name of the number before the open bracket
    _is_listed: bool = False  # whether a square bracket is open: `lr [0.1, 0.2]`
    _suffix: str = ""  # TOTAL after a slash
    _part: str = ""  # the word of an evaluation that begins the last name which begins with one
    _counter: str = ""  # the name of the last number that had one, if the number is whole
    _group: str = ""  # the word that names what all numbers are of: `lm_head: lr=0.1, weight_decay=0.0`
    _labels_rank: bool = False  # whether the next number is the rank in a label of its own: `(rank 0)`

    def begin_after(self, head: str) -> None:
        """Take the name at the end of a head as the name of the first number: `[3/10]  eta: 1 day, 0:12:05`."""
        name = _NAME_AT_END.search(head)
        self._words, self._is_bound = ([name[1]], True) if name else ([], False)

    def add_text(self, text: str, is_inside: bool = False) -> None:
        """Add a string. `is_inside`: something is before it, so whitespace there counts."""
        last = 0
        for bar in _BAR.finditer(text):
            self._add_tokens(tokens(text[last : bar.start()]), is_inside or last > 0)
            self.is_row |= any(f.numeric and f.name == UNNAMED for f in Template(self.text).fields)
            self._add_bar(bar, len(text[: bar.start()]) - len(text[: bar.start()].rstrip(" ")))
            last = bar.end()
        self._add_tokens(tokens(text[last:]), is_inside or last > 0)

    def _add_tokens(self, parts: Sequence[Token], is_inside: bool) -> None:
        k = 0
        while k < len(parts):
            token = parts[k]
            if self._is_index(parts, k):
                self.text += _gap(token.gap) + token.text
                self._words.append(token.text)
                k += 1
                continue
            if token.kind == NUMBER or (self._is_bound and token.text.lower() in _NOT_FINITE):
                k = self._add_number(parts, k, bool(k) or is_inside)
                continue
            self.text += _gap(token.gap) if k or is_inside or not token.gap else "{_:b}"
            if token.kind == NAME:
                k = self._add_word(parts, k)
                continue
            if token.kind in (OPAQUE, UNIT):
                self._add_opaque(token)
            elif token.kind == LIST:
                self._add_list(token.text)
            else:
                k = self._add_mark(parts, k)
            k += 1

    def _add_opaque(self, token: Token) -> None:
        """Add a string that is no number. It is a duration if its name says so."""
        key = " ".join(self._words)
        is_timed = bool(key) and measures(key, token.text)
        name = self.family.shape.dropped_field(plain_name(key)) if self._is_bound or is_timed else UNNAMED
        if name == UNNAMED and self.family.shape.number_rows and is_timed:
            self.text += f"{{{self._field(key, '', 's', '', token.text)}:h}}"
            self._forget()
            return
        is_glued = not token.gap and self.text.endswith(f"{{{name}:S}}")
        self.text += "{_:b}".join([f"{{{name}:S}}"] * len(token.text.split()))[len(f"{{{name}:S}}") * is_glued :]
        self._forget()

    def _add_bar(self, bar: re.Match[str], padding: int) -> None:
        """Add a state of a progress bar up to its rate.

        What it counts is named by the counter or the activity before it, if there is one.
        """
        words = " ".join(self._words)
        phase = self._words[-1].lower() if self._words else ""
        self.evaluation = "" if phase in TRAINING else phase if phase in EVALUATIONS else self.evaluation
        key = self._bar_key(bar, plain_name(words))
        self.bar = key or words or BAR
        self.names.add(ANY_BAR)
        gap = _gap(bar["gap"] or "")
        self.text += "{_:b}" if padding and not bar["share"] else ""
        if bar["share"]:
            drawn = "" if bar["drawn"] is None else "|{__:|c}|"
            self.text += f"{{__:{padding + len(bar['share'])}.0f}}%{literal(bar['word'] or '')}{drawn}{gap}"
            count = self._add_counts(bar["done"], bar["total"])
            elapsed = self._elapsed()
            self.text += f" [{{{elapsed}:k}}<{{__:{'s' if ' ' in bar['left'] else 'S'}}}"
        elif bar["open_done"]:
            count = self._add_counts(bar["open_done"], "")
            elapsed = self._elapsed()
            self.text += f"{literal(bar['counted'])} [{{{elapsed}:k}}"
        elif bar["line"]:
            self.text += "{__:S}{_:b}"
            count = self._add_counts(bar["line_done"], bar["line_total"])
            elapsed = self._elapsed()
            self.text += f"{{_:b}}{{{elapsed}:k}} {bar['dot']} {{__:S}}"
        else:
            count, elapsed = self._add_counts(bar["keras_done"], bar["keras_total"]), ""
            drawn = "[{__:S}] -" if bar["keras_drawn"][0] == "[" else "{__:S}"
            self.text += f" {drawn} {'ETA: ' if bar['keras_clock'][0] == 'E' else ''}{{__:S}}"
        rate = self._add_bar_rate(bar)
        self.bar_fields = BarFields(*count, elapsed, rate, bool(key or not words) and not self.evaluation)
        self._forget()

    def _bar_key(self, bar: re.Match[str], description: str) -> str:
        """Return the name of the count of a bar that may count steps of training; "" if it counts something else."""
        unit = (bar["unit"] or bar["counted"] or "it").replace("s/", "", 1).replace("/s", "").strip().lower()
        if unit not in STEP_WORDS:
            return "" if description else f"{unit} {BAR}"
        is_counter = description in _COUNTER_WORDS or self.family.keys.get(description) in _COUNTERS
        if any(name.endswith(f"_{description}") for name in self.names):
            is_counter = False  # the bar after `training iteration: 4072 loss: 0.5` belongs to the next record
        if description and is_counter:
            return " ".join(self._words)
        if self.evaluation:
            return BAR
        if self._counter.rpartition("_")[2] == "epoch":
            return EPOCH_BAR
        return TRAINING_BAR if _TRAINS.fullmatch(description) or _LOSS.search(bar.string) else ""

    def _add_counts(self, done: str, total: str) -> tuple[str, str]:
        """Add the count of a bar and its total, and return their fields. A count with a factor, `1.2k`, is rounded."""
        is_step = self.family.shape.line.table == "steps" and not self.evaluation
        count = self._field(self.bar, "", "", "", done)
        self.text += f"{{{count}:{'d' if done.isdigit() else 'q'}}}"
        if not total or total == "?":
            self.text += "/?" if total else ""
            return count, ""
        name = self._field(self.bar, TOTAL, "", "", total)
        self.totals -= set() if is_step else {name}
        self.text += f"/{{{name}:{'d' if total.isdigit() else 'q'}}}"
        return count, name

    def _elapsed(self) -> str:
        """Return the field of the time since a bar began: a clock, of bars that count steps."""
        is_step = self.family.shape.line.table == "steps" and not self.evaluation
        if is_step and not self.fields.is_taken(ELAPSED):
            return self.fields.declared(ELAPSED)
        return self.fields.from_key(f"{self.evaluation} {self.bar if self.bar != TRAINING_BAR else BAR} {ELAPSED}")

    def _add_bar_rate(self, bar: re.Match[str]) -> str:
        """Add the rate of a bar, and return its field, "" for none.

        It is smoothed over the last states; the rate of Keras is a mean since the bar began.
        """
        name = ""
        if bar["keras_rate"]:
            unit, _, per = bar["keras_unit"].partition("/")
            name = self.fields.from_key(f"{self.evaluation} mean s per {per}")
            self.units[name] = UNITS[unit_of(unit)[0] or "s"]
            self.text += f" {{{name}:{spec_of(bar['keras_rate'])}}}{bar['keras_unit']}"
        if not bar["unit"]:
            return name
        head, _, per = (part.strip() for part in bar["unit"].partition("/"))
        self.text += "," if bar.string[bar.start("before") - 1] == "," else ""
        if bar["no_rate"]:
            self.text += f"{_gap(bar['before'])}?{literal(bar['unit'])}"
            return ""
        name = self.fields.from_key(f"{self.evaluation} smoothed {head} per {per}")
        printed = unit_of(f"{bar['scale']}{head}/{per}")[0] if head == "B" else ""
        self.units[name] = UNITS[printed] if printed else Unit("s" if head == "s" else "1/s", _SCALES[bar["scale"]])
        width = len(bar["before"]) - 1 + len(bar["rate"])
        self.text += (
            f" {{{name}:{width}{spec_of(bar['rate'])}}}" if bar["before"] else f"{{{name}:{spec_of(bar['rate'])}}}"
        )
        self.text += literal(f"{bar['scale']}{bar['unit']}")
        return name

    def _forget(self) -> None:
        """Forget the words and the number before: the next number is not theirs."""
        self._words, self._is_bound, self._last, self._suffix, self._key_unit = [], False, "", "", ""
        self._is_listed = False

    def _add_word(self, parts: Sequence[Token], k: int) -> int:
        """Add a word of a name, with what sticks to it: `Acc@1`, `loss_2`. Return the index of the next token."""
        self._begin_section(parts, k)
        word = parts[k].text
        if self._is_bound and word.lower() in _NO_VALUE:  # `eta: N/A  iter: 60`
            self.text += literal(word)
            self._forget()
            return k + 1
        while k + 2 < len(parts) and parts[k + 1].text in ("@", "/", "#") and not parts[k + 1].gap + parts[k + 2].gap:
            if parts[k + 2].kind not in (NAME, NUMBER):
                break
            word += parts[k + 1].text + parts[k + 2].text
            k += 2
        if self._is_case(parts, k) and word == parts[k].text:  # `Provider: deepgemm, Time: 62.1 ms`
            self.text += f"{{{self.fields.from_key(' '.join(self._words))}:w}}"
            self._forget()
            return k + 1
        end = _end_of_call(parts, k + 1)
        word, k = word + "".join(part.text for part in parts[k + 1 : end]), end - 1
        self.text += literal(word)
        is_value = self._is_bound and self._mark == "="  # `Device=cpu Epoch=1`
        self._words = [] if is_value else [word] if self._is_bound else [*self._words, word][-_MOST_WORDS:]
        self._words = [] if word in LEVELS or self._is_label(parts, k) else self._words
        self._is_bound, self._suffix = False, ""
        self._key_unit = self._key_unit if is_statistic(word) and len(self._words) > 1 else ""  # `Latency (ms) p50: 3`
        if len(self._words) > 2 and self._words[-2] == "in":
            self._key_unit = unit_of(self._words[-1])[0]  # `train_step_timing in s=12.80`
        return k + 1

    def _is_label(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a word only says that measured pairs follow: `RESULT tp=8 ttft_ms=32.1`."""
        follows = [part.text for part in parts[k + 2 : k + 3]] == ["="]
        return self.family.measures and not k and follows and parts[k].text.lower() in LABELS

    def _is_case(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a word is what a name of a measured line has as its value, before the next name."""
        after = parts[k + 1 : k + 3]
        is_last = self._mark == "=" and (not after or [part.text for part in after[1:]] == ["="])  # `dtype=bf16 bs=2`
        is_whole = parts[k].text.isidentifier() and (is_last or (bool(after) and after[0].text in (",", "|", ";")))
        return self.family.measures and self._is_bound and bool(self._words) and is_whole and not self._is_listed

    def _begin_section(self, parts: Sequence[Token], k: int) -> None:
        """Note the phase that a word says of the names after it: `train: loss 0.5 acc 0.9, val: loss 0.6 acc 0.8`."""
        word, following = parts[k].text.lower(), parts[k + 1 : k + 3]
        if not k and self.family.shape.line.table != "steps" and _names_group(parts):
            self._group = parts[k].text
        begins = len(following) == 2 and following[0].text in (":", "|", "-", "]", ")") and following[1].kind == NAME
        begins |= bool(following) and following[0].kind == NAME and len(following[0].gap) > 1
        if begins and word in EVALUATIONS | TRAINING and (self._is_bound or not self._words):
            self.evaluation = word if word in EVALUATIONS else ""

    def _add_mark(self, parts: Sequence[Token], k: int) -> int:
        """Add a mark. Return the index of the last token that belongs to it."""
        mark = parts[k].text
        self.text += literal(mark)
        if (mark in ":=" or (mark == "|" and self._binds(parts)) or self._binds_measured(parts, k)) and self._words:
            self._is_bound, self._mark = True, mark
        elif mark in ("(", "["):
            return self._open_bracket(parts, k)
        elif mark == ")":
            self._bracket, self._words = "", []
        elif mark == "/" and self._last and not self._words:
            self._suffix = TOTAL
        elif mark == _SPREAD and self._last and not self._words:
            self._words, self._is_bound = [self._last, "spread"], True
        elif mark == ",":
            self._words, self._is_bound = (self._words, True) if self._is_bound else ([], False)
        elif mark not in "'\"":
            self._forget()
        return k

    def _binds(self, parts: Sequence[Token]) -> bool:
        """Return whether a bar binds a number to its name, as a colon does: `Latency (average)  | 10955 ns`."""
        return self.family.measures and sum(part.text == "|" for part in parts) == 1

    def _binds_measured(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a mark binds a measured number to its name: `Iteration time ~0.9 s`, `[Decode time] 296 s`."""
        is_mark = parts[k].text == "~" or (parts[k].text == "]" and parts[0].text == "[" and k == len(self._words) + 1)
        return self.family.measures and is_mark and k + 1 < len(parts) and parts[k + 1].kind == NUMBER

    def _open_bracket(self, parts: Sequence[Token], k: int) -> int:
        """Note what an opening bracket means. Return the index of the last token that belongs to it."""
        is_round, following = parts[k].text == "(", parts[k + 1 : k + 2]
        if _is_rank_label(parts[k + 1 : k + 4]):
            self._words, self._is_bound, self._labels_rank = [], False, True
        elif is_round and self._words and not self._is_bound:
            return self._add_key_unit(parts, k)
        elif is_round and not (following and following[0].text == "*"):
            self._bracket, self._words = self._last, []
        elif not is_round and self._words and following and following[0].kind == NUMBER:
            self._is_bound = self._is_listed = True
        else:
            self._forget()  # `loss = 0.9 (* 2 = 1.8 loss)`: no mean
        return k

    def _add_key_unit(self, parts: Sequence[Token], k: int) -> int:
        """Add the bracket after a name: a unit, as in `time (ms): 3.1`, or a word of the name."""
        after = (":", "=", "|") if self._binds(parts) else (":", "=")
        if k + 2 < len(parts) and parts[k + 1].kind == NAME and parts[k + 2].text == ")":
            unit = unit_of(parts[k + 1].text)[0]
            if unit:
                self.text += literal(f"{parts[k + 1].gap}{parts[k + 1].text}{parts[k + 2].gap})")
                self._key_unit = unit
                return k + 2
            if k + 3 < len(parts) and parts[k + 3].text in after:  # `Data (t): 14.2`
                self.text += literal(f"{parts[k + 1].gap}{parts[k + 1].text}{parts[k + 2].gap})")
                self._words.append(parts[k + 1].text)
                return k + 2
        self._forget()
        return k

    def _add_list(self, text: str) -> None:
        """Add a list of numbers. They have the name before the list."""
        key, last = " ".join(self._words), 1
        self.names |= {plain_name(key)} if key else set()
        self.text += text[0]
        if key and text[0] == "[" and text.count(",") + 1 >= _LONG_LIST and self.family.shape.number_rows:
            self.text += f"{{{self.fields.from_path(key)}:l}}]"
            self._forget()
            return
        for match in _LIST_NUMBER.finditer(text, 1, len(text) - 1):
            name = self.fields.from_key(key) if key and self.family.shape.number_rows else UNNAMED
            self.text += f"{literal(text[last : match.start()])}{{{name}:{spec_of(match[0])}}}"
            last = match.end()
        self.text += text[last:]
        self._forget()

    # --- numbers ---------------------------------------------------------------------------------------------------

    def _add_number(self, parts: Sequence[Token], k: int, inside: bool) -> int:
        """Add a number with its unit. Return the index of the token after them."""
        token = parts[k]
        after = parts[k + 1].text if k + 1 < len(parts) else ""
        attached = k + 1 < len(parts) and parts[k + 1].kind == NAME and not parts[k + 1].gap
        unit, end, unit_text, scale = self._unit_of_number(parts, k)
        per = _counted_per(parts, k + 1) if after == "/" and not unit_text else ""
        key, suffix = self._key_of_number(unit, token.text, unit_text, per)
        if suffix is None and UNITS.get(unit) == UNITS["1/s"]:
            label = f"{self._last} " if self.family.measures and len(token.gap) > 1 else ""
            key, suffix = f"{label}{unit_text.replace('/', '_per_')}", ""
        elif (
            (not self._words or plain_name(key) in _NAMES_PER_STEP)
            and unit
            and base_of(unit) == "s"
            and unit_text.partition("/")[2] in STEP_WORDS
        ):
            key, suffix = "step time", ""
        is_factor = self._is_bound and attached and end == k + 1 and after in _TIMES and not _sticks(parts, k + 2)
        if attached and end == k + 1 and (is_factor or after in MAGNITUDES):
            end = k + 2
        elif (attached and end == k + 1) or (end == k + 1 and after in _DAYS):
            suffix = None
        if self.family.measures and key and not suffix:
            key = _with_counted(key, unit or self._key_unit, unit_text)
        key = self._event(parts, k, end) if plain_name(key) == "took" else key
        magnitude = after if attached and not is_factor else ""
        name = self._field(key, suffix, unit or self._key_unit, magnitude, token.text)
        if scale and name in self.units:
            self.units[name] = Unit("1/s", scale)
        factor = "q" if attached and self._has_factor(key, unit or self._key_unit, after, token.text) else ""
        type_ = factor or ("d" if self._is_counter(name, token.text) else "")
        whole, point, zeros = token.text.partition(".") if type_ == "d" else (token.text, "", "")
        self.text += _padded(replace(token, text=whole), name, type_, self.text, inside) + point + zeros
        self.text += literal("".join(part.gap + part.text for part in parts[k + 1 + bool(factor) : end]))
        if self._words:
            is_counter = _INTEGER.fullmatch(token.text) is not None and not (self.family.measures and unit)
            self._counter = plain_name(key) if is_counter else ""
        self._last, self._last_unit, self._last_unit_text = key, unit, unit_text
        if unit:
            self._bases.setdefault(key, set()).add(base_of(unit))
        self._words, self._is_bound, self._suffix, self._key_unit = [], False, "", ""
        self._end = end
        return end

    def _event(self, parts: Sequence[Token], k: int, end: int) -> str:
        """Return the name of a time that `took` names: `saved, took 5 s` and `took 5 s to save` are of no step."""
        since = takewhile(lambda part: part.kind != LIST, reversed(parts[self._end : k]))
        before = [part.text for part in since if part.kind == NAME][::-1]
        after = [part.text for part in takewhile(lambda part: part.kind == NAME, parts[end:])]
        is_name = [part.kind == NUMBER or part.text in "=:" for part in parts[end + len(after) :][:1]] == [True]
        return " ".join([*before, *([] if is_name else after)][-_MOST_WORDS:])

    def _unit_of_number(self, parts: Sequence[Token], k: int) -> tuple[str, int, str, float]:
        """Return the unit of a number, the index of the token after it, the printed unit, and a factor apart from it.

        The factor is 0 if there is none: `166.28 M elem/s`.
        """
        unit, end = _unit_after(parts, k, self.family.unit_names)
        unit_text = "".join(part.text for part in parts[k + 1 : end])
        after = [part.text for part in parts[k + 1 : k + 2]]
        if after == [_SPREAD] and [p.kind for p in parts[k + 2 : k + 3]] == [
            NUMBER
        ]:  # `20.9 ± 0.5 ms`: one unit for both
            unit, last = _unit_after(parts, k + 2, self.family.unit_names)
            return unit, end, "".join(part.text for part in parts[k + 3 : last]), 0.0
        is_minutes = after == ["m"] and parts[k + 1].kind == NAME and not parts[k + 1].gap and not unit
        if is_minutes and _TIMED.search(" ".join(self._words)):  # `total time: 1.03m`
            return "min", k + 2, "m", 0.0
        if scale := _scale_after(parts, k) * self.family.measures:
            return "1/s", k + 3, parts[k + 2].text, scale
        return unit, end, unit_text, 0.0

    def _is_index(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a whole number ends the name of a measured one: `batch 1: 522.09s`, `gemm 64   3 us`."""
        after = [part.text for part in parts[k + 1 : k + 2]] + [part.kind for part in parts[k + 2 : k + 3]]
        is_name = bool(self._words) and not self._is_bound and self._words[-1].lower() not in _COUNTER_WORDS - {"batch"}
        is_of_row = after[:1] != [":"] and [(p.kind, len(p.gap) > 1) for p in parts[k + 1 : k + 2]] == [(NUMBER, True)]
        is_index = after == [":", NUMBER] or (is_of_row and len(parts[k].gap) == 1)
        return self.family.measures and is_name and is_index and parts[k].text.isdecimal()

    def _key_of_number(self, unit: str, text: str, unit_text: str, per: str) -> tuple[str, str | None]:
        """Return the name of a number, and what it is of the number with that name; None if nothing names it.

        `per`: the word after the number that says what it is counted per: `1409.8/gpu`.
        """
        if self._words:
            is_sentence = not self._is_bound and self._words[-1].lower() in _PREPOSITIONS
            ends_in_is = not self._is_bound and self._words[-1] == "is"
            is_place = self._words[0].lower() == "of" and self._words[-1].lower() in COUNTERS  # `it 1/3 of epoch 0`
            words = " ".join(self._words[is_place : -1 if ends_in_is else None])
            is_counter = plain_name(words) in _COUNTERS  # `Ep 1 (Step 50): loss 0.5`
            return (
                ("", None)
                if is_sentence or not words
                else (words if is_counter else f"{self._bracket} {words}".strip(), "")
            )
        if self._suffix:
            return self._last, self._suffix if _INTEGER.fullmatch(text) else ""
        key = self._bracket or self._last
        if not key or (not self._bracket and self._counter == plain_name(key) and unit != "%"):
            return "", None  # `Epoch 1 12/6879`: no second epoch
        if per:
            return key, f"per_{per}"
        is_rate = bool(unit) and "/" in unit_text.strip("/") and not self._speed(unit)  # `286.57 us, 25.61 GB/s`
        if is_rate and unit_text != self._last_unit_text and not self._bracket:
            return "", None  # `71.1 samples/sec 1971.6 tokens/sec`: the unit names the number
        return self._key_of_another(key, unit, unit_text)

    def _key_of_another(self, key: str, unit: str, unit_text: str) -> tuple[str, str | None]:
        """Return the name of a number after one of this name, as `_key_of_number` does."""
        if unit == "%" != self._last_unit:
            return key, SHARE
        if base_of(unit) == "1/s" and (self._last_unit != unit or unit_text != self._last_unit_text):
            if not unit_text.startswith("/"):
                return "", None  # `loss = 1.53 (1725.5 examples/sec)`: the unit names the number
            return key, f"{RATE}_{MEAN}" if self._bracket else RATE
        if unit and not self._has_unit_of_last(unit):
            if speed := self._speed(unit):  # `MFU: 41.2% (407.5 TFLOPS/GPU)`, `time: 0.034 ms, 221.1 TFLOPS, 12 GB/s`
                stem = "" if self._bracket and "mfu" in key.lower() else _TIME_AT_END.sub("", key)
                return f"{stem} {speed}".lstrip(), ""
            kind = KINDS.get(base_of(unit), "")  # `step = 3301 (1.491 sec)`: no mean of it; `loss 2.31, 12.1 ms`
            return (f"bracket {kind}" if self._bracket else kind, "") if kind else ("", None)
        if self._bracket:
            return key, MEAN
        return (key, "") if self._is_listed else ("", None)  # of `samples/s: 2161.6 1605777750.5` the first

    def _speed(self, unit: str) -> str:
        """Return the name of a speed of what the number before took its time for; "" for another number."""
        return _SPEEDS.get(base_of(unit), "") if self.family.shape.line.table == "values" else ""

    def _has_unit_of_last(self, unit: str) -> bool:
        """Return whether a number has the unit of the one before it; in brackets, one that its name may have."""
        if not self._bracket:
            return base_of(unit) == base_of(self._last_unit)
        if printed := self._bases.get(self._bracket):
            return base_of(unit) in printed
        pattern = _NAMES_OF.get(base_of(unit))
        return pattern is None or pattern.search(self._bracket) is not None

    def _field(self, key: str, suffix: str | None, unit: str, magnitude: str, text: str) -> str:
        """Return the field that takes a number."""
        family, names = self.family, self.fields
        if suffix is None or not (key and family.shape.number_rows):
            return family.shape.dropped_field(key)
        if family.shape.dropped and (look_up(family.shape.dropped, key) or ("*",))[0] != "*":
            return family.shape.dropped_field(key)
        known = plain_name(key)
        declared, key, unit = self._declared(key, suffix, unit)
        declared, self._labels_rank = ("rank" if self._labels_rank else declared), False
        if declared == "step" and self.step not in ("", known):
            declared, key = "", f"other {key}" if known == "step" else key  # `step` is the name of a column
        if declared == "step_time" and self.step in _ITERATIONS and known in _ITERATION_TIMES:
            declared = ""  # the line counts steps too: `_time_of_step`
        self.counters += [known] * (declared in _COUNTERS)
        resolved = UNITS.get(unit) or family.shape.units.get(declared or family.keys.get(known, ""))
        is_rounded = False
        if self._has_factor(key, unit, magnitude, text):
            is_rounded, magnitude = declared in _COUNTERS, ""
        is_counter = (declared in _COUNTERS or known in _COUNTER_WORDS) and known not in _BAR_NAMES
        evaluation = self._evaluation_of(known)
        is_evaluated = bool(evaluation) and not is_counter and known.split("_")[0] not in EVALUATIONS
        key = f"{evaluation} {key}" if is_evaluated else f"{self._group} {key}".lstrip()
        fits = (
            declared
            and not (is_rounded or is_evaluated or self._group)
            and _fits_column(family.shape.line.table, declared, resolved, text)
        )
        if fits and (self._is_listed or not names.is_taken(declared)):
            name = names.declared(declared)
            self.totals |= {name} if suffix == TOTAL else set()
        else:
            ending = _ROUNDED if is_rounded else "" if resolved else magnitude
            key = key.replace(TRAINING_BAR, BAR) if known == TRAINING_BAR else key
            printed = "_".join(x for x in (key, suffix, ending) if x)
            name = names.from_key(printed)
            if suffix == TOTAL:
                self.totals.add(name)
        if resolved is not None:
            self.units[name] = resolved
        self.names |= set() if suffix else {known}
        return name

    def _declared(self, key: str, suffix: str, unit: str) -> tuple[str, str, str]:
        """Return the field that the family declares for a name, "" for none, and the name and its unit.

        The unit may be in the name alone: `step_ms`, `step_time_ms`.
        """
        keys = self.family.keys
        declared = keys.get(plain_name(f"{key} {suffix or unit}")) or keys.get("" if suffix else plain_name(key), "")
        if unit or suffix:
            return declared, key, unit
        if declared:
            in_name = name_and_unit(key)[1]
            return declared, key, in_name if base_of(in_name) == "s" else ""
        key, unit = self._without_unit(key)
        return keys.get(plain_name(key), "") if unit else "", key, unit

    def _without_unit(self, key: str) -> tuple[str, str]:
        """Return the name of a number without the unit that it holds, and the unit: `step_time_ms: 412.5`.

        A rate keeps the printed name: `Fwd TFLOPS`, `decode tok/s`.
        """
        label, unit = name_and_unit(key)
        whole = unit_of(key.replace(" ", ""))[0] if "/" in key else ""  # `TFLOP/s: 492.65`
        unit = whole if base_of(whole) in {*_RATES, *_SPEEDS} else unit
        if unit and (whole or base_of(unit) in _RATES):
            return key, unit
        is_time = base_of(unit) == "s" and key.startswith(label)  # `time_per_step_ms`, not `ms_per_step`
        is_rate = "per" in plain_name(label).split("_") and not is_time
        is_rate |= unit not in ("", "%") and base_of(unit) not in KINDS
        if is_rate or self.family.shape.line.table == "runs" or self.fields.is_taken(field_name(label)):
            return key, ""
        return label, unit

    def _evaluation_of(self, known: str) -> str:
        """Return the word of an evaluation that belongs to a name; "" if there is none.

        A name that comes again after one of an evaluation is about it too: `loss 0.5 acc 0.9 val_loss 0.6 acc 0.8`.
        """
        first = known.split("_", maxsplit=1)[0]
        if first in EVALUATIONS | TRAINING:
            self._part = first if first in EVALUATIONS else ""
            self.evaluation = self.evaluation if self._part else ""
        return self.evaluation or (self._part if known in self.names else "")

    @staticmethod
    def _has_factor(key: str, unit: str, after: str, text: str) -> bool:
        """Return whether a number is printed with a factor that is known: `smpl:13K`, but not `mem 3961M`."""
        return after in MAGNITUDES and not unit and "," not in text and not _OF_MEMORY.search(key)

    def _is_counter(self, name: str, text: str) -> bool:
        """Return whether a field takes whole numbers alone: a step, a rank, a total."""
        line = self.family.shape.line
        is_counter = name in (*PLACES, line.within) or name in self.totals or line.table == "runs"
        return is_counter and _is_whole(text)


def _fits_column(table: str | None, name: str, unit: Unit | None, text: str) -> bool:
    """Return whether a number with this unit, printed as this string, can fill the column of a name."""
    column = column_of_number(table, name)
    return _is_whole(text) if name in PLACES else column is None or fits(column, unit)


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and fits_64(text.partition(".")[0])


def _padded(token: Token, name: str, type_: str, before: str, inside: bool) -> str:
    """Return the field of a number with the spaces before it, as a template string that accepts any padding.

    Args:
        token: The number.
        name: The name of its field.
        type_: Its type; "" if its printed form decides.
        before: The template string before it.
        inside: Whether something in the line is before it.
    """
    spec = type_ or spec_of(token.text)
    gap, length = token.gap, len(token.text)
    if not gap:
        return f"{{{name}:{spec}}}"
    if gap.strip(" "):
        return f"{{_:b}}{{{name}:{spec}}}"
    if not inside or before[-1:] in ("(", "[", "=", "/"):
        return f"{{{name}:{len(gap) + length}{spec}}}"
    return f" {{{name}:{len(gap) - 1 + length}{spec}}}"


def _names_group(parts: Sequence[Token]) -> bool:
    """Return whether a line is a word with a colon, and names with equal signs: `lm_head: lr=0.1, weight_decay=0.0`."""
    texts = [part.text for part in parts]
    is_pairs = texts[1:2] == [":"] and texts[3:4] == ["="] and texts[2].lower() not in _COUNTER_WORDS
    is_no_group = texts[0].lower() in EVALUATIONS | TRAINING | LABELS or texts[0] in LEVELS
    return is_pairs and not is_no_group and ":" not in texts[2:]


def _with_counted(key: str, unit: str, printed: str) -> str:
    """Return the name of a measured rate with what is counted, if it lacks it: `Throughput: 13277 tokens/s`."""
    if unit not in ("tok/s", "1/s"):
        return key
    counted = "tokens" if unit == "tok/s" else printed.partition("/")[0].strip()
    is_named = not counted or plain_name(counted)[:3] in plain_name(key) or "tps" in plain_name(key)
    return key if is_named else f"{key} {counted} per s"


def _sticks(parts: Sequence[Token], k: int) -> bool:
    """Return whether a word or a number sticks to the token before it: the 8 of `16x8`."""
    return k < len(parts) and not parts[k].gap and parts[k].kind in (NAME, NUMBER, UNIT, OPAQUE)


def _counted_per(parts: Sequence[Token], k: int) -> str:
    """Return the word after the slash parts[k], if it sticks to the slash and no number follows it; else ""."""
    word = parts[k + 1] if k + 1 < len(parts) else None
    return word.text if word is not None and word.kind == NAME and not word.gap + parts[k].gap else ""


def _is_rank_label(parts: Sequence[Token]) -> bool:
    """Return whether the tokens after an opening bracket are a label `(rank 0)`, and nothing else."""
    kinds = [part.kind for part in parts[:2]]
    return (
        len(parts) == 3
        and kinds == [NAME, NUMBER]
        and parts[0].text.lower() == "rank"
        and _INTEGER.fullmatch(parts[1].text) is not None
        and parts[2].text in (")", "]")
    )


def _end_of_call(parts: Sequence[Token], k: int) -> int:
    """Return the index after brackets that stick to a name and hold names: `D(G(z))`; k if there are none."""
    depth = 0
    for i in range(k, len(parts)):
        if parts[i].gap or not (parts[i].kind == NAME or parts[i].text in ("(", ")")):
            return k
        depth += {"(": 1, ")": -1}.get(parts[i].text, 0)
        if depth <= 0:
            return i + 1 if depth == 0 and i > k else k
    return k


def _ends_in_rate(parts: Sequence[Token], k: int) -> bool:
    """Return whether words such as `samples/sec` follow the number parts[k] and after all numbers next to it.

    In `Speed: 71.1 samples/sec 1971.6 tokens/sec` they are units, in `lr 0.1 tokens/sec 1971.6` a name.
    """
    while k + 1 < len(parts) and parts[k].kind == NUMBER:
        if parts[k + 1].kind != NAME or "/" not in parts[k + 1].text:
            return False
        k += 2
    return True


def _scale_after(parts: Sequence[Token], k: int) -> float:
    """Return the factor of a rate that is printed apart from its unit, after the number parts[k]; 0 without one."""
    after = parts[k + 1 : k + 3]
    is_apart = len(after) == 2 and all(part.kind == NAME and part.gap == " " for part in after)
    is_rate = is_apart and UNITS.get(unit_of(after[1].text)[0]) == UNITS["1/s"]
    return _SCALES.get(after[0].text, 0.0) if is_rate else 0.0


def _unit_after(parts: Sequence[Token], k: int, unit_names: Mapping[str, str]) -> tuple[str, int]:
    """Return the unit after the number parts[k], "" if there is none, and the index of the token after it."""
    if k + 1 == len(parts):
        return "", k + 1
    first = parts[k + 1]
    if first.text in unit_names and len(first.gap) < 2:
        return unit_names[first.text], k + 2
    second = parts[k + 2] if k + 2 < len(parts) else None
    if first.text == "%" and len(first.gap) < 2:
        return "%", k + 2
    if first.text == "/" and not first.gap and second is not None and not second.gap and second.kind in (NAME, UNIT):
        unit = unit_of(f"it/{second.text}")[0]
        return (unit, k + 3) if unit else ("", k + 1)
    if first.kind not in (NAME, UNIT) or len(first.gap) > 1 or (first.text in MAGNITUDES and not first.gap):
        return "", k + 1
    is_name = second is not None and (second.kind == NUMBER or second.text in "=:")  # of the next number
    is_name = is_name and not (second and len(parts[k].gap) > 1 and len(second.gap) > 1)  # `gemm   12.5 us   1.5 GB/s`
    is_bound = second is not None and second.text in "=:" and k + 3 < len(parts) and parts[k + 3].kind == NUMBER
    is_name = is_name and (is_bound or not ("/" in first.text and _ends_in_rate(parts, k)))
    if first.gap and (first.text in _ATTACHED or is_name):
        return "", k + 1
    unit = unit_of(first.text)[0]
    return (unit, k + 2) if unit else ("", k + 1)
