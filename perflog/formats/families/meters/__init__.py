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

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.bars import MARK
from perflog.formats.expressions import Expression
from perflog.formats.families.base import FieldNames, gap_text, glob, template_of
from perflog.formats.families.ended_lines import PATTERNS as ENDED_PATTERNS
from perflog.formats.families.ended_lines import ended_parts
from perflog.formats.families.header_facts import label_of_another
from perflog.formats.families.measured_lines import AMONG_OTHERS, COUNTED_PAIRS, DEVICES_AFTER, PAIRS_ALONE, is_measured
from perflog.formats.families.measured_lines import PATTERN as MEASURED_PATTERN
from perflog.formats.families.meters.bars import DROPPED as BAR_DROPPED
from perflog.formats.families.meters.bars import ELAPSED
from perflog.formats.families.meters.evaluations import evaluation_of, evaluation_of_words, is_evaluated
from perflog.formats.families.meters.names import (
    ANY_BAR,
    BAR_NAMES,
    ITERATION_TIMES,
    ITERATIONS,
    MeterDeclaration,
    MeterNames,
)
from perflog.formats.families.meters.text import MeterText
from perflog.formats.families.step_headings import EPOCH, STEP
from perflog.formats.families.step_parts import STEP_TIME, shared_units, time_of_step, with_parts
from perflog.formats.families.unnamed_values import PATTERN as UNNAMED_PATTERN
from perflog.formats.families.unnamed_values import parts_of
from perflog.formats.model import Line
from perflog.formats.surroundings import end_of_logger_prefix, prefix_ends
from perflog.formats.template import DECLARED_DROPPED, Template, unnamed
from perflog.formats.vocabulary import field_of
from perflog.lazy_patterns import lazy_pattern
from perflog.units import Unit

OTHER_STEP = "other_step"
"""The field of a step beside the number of an iteration, which counts the lines."""

_BOUND = (  # what binds a name to its number
    r"(?:[\x22']?[ \t]*[:=][ \t]*[\x22'(\[]?[+-]?(?:[0-9.]|(?i:nan|inf))"
    r"|[ \t]+is[ \t]+[+-]?[0-9]+\.[0-9]+(?:$|[,;|]|[ \t]+and\b))"
)
_AT_END = r"[ \t]+[+-]?[0-9]+\.[0-9]+$"  # the same of a name of several words: `train_loss 0.7088`
_TABLE_ROW = lazy_pattern(r"\s*\|[^|]*\|[^|]*\|.*\|$")  # of two cells or more, between bars
_DIGITS = lazy_pattern(r"(?<![\w@#])[0-9]+")  # but not in names: `Acc@1`, `loss2`
_GOES_ON = lazy_pattern(rb"[eE][+-]?[0-9]|[.,'][#0-9]|(?: [0-9]{3})+(?:\.[0-9]+)?[ \t]*(?:$|[|;,()\]])")
"""What a number goes on with after a head that ends in its first digits."""
_VALUE_OF_TIME = r"[0-9] ?(?:[mun]?s|secs?|seconds|min)(?:/[a-z]+)?\b"  # its unit gives it a name
_FEWEST_PAIRS = 3  # of a line that a logger's prefix precedes: fewer are read with what is before them
_MOST_UNREADABLE = 1 << 14  # shapes that a family keeps


class MeterFamily(MeterDeclaration, frozen=True, eq=False, dict=True, kw_only=True):
    """A `[[meters]]` entry of a format file.

    Attributes:
        needs: Names that a line must have, each with its alternatives; `*` matches any string.
        unnamed: Whether the lines have a step and a number that nothing names: see `unnamed_values`.
        pairs: Whether the lines consist of pairs alone.
        ended: Whether the lines say that a step or an epoch has ended, with its time: see `ended_lines`.
    """

    needs: tuple[tuple[str, ...], ...] = ()
    unnamed: bool = False
    ended: bool = False
    pairs: bool = False

    @cached_property
    def pattern(self) -> str:
        if self.unnamed:
            return UNNAMED_PATTERN
        if self.pairs:
            return COUNTED_PAIRS if self.counted else PAIRS_ALONE
        if self.ended:
            return ENDED_PATTERNS[self._counted]
        if self.measures:
            return MEASURED_PATTERN if self.proves_format else AMONG_OTHERS
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        if not self.needs:
            return rf".*?(?:{heads})"
        # Any string is before a name: to look for a `*` at its begin too would take a time that is quadratic.
        parts = [name.lstrip("*") for name in self.needs[0]]
        names = "|".join(map(_name_pattern, parts))
        end = "[^A-Za-z0-9]" if self.proves_format or heads else _BOUND  # prose has these names too
        name = rf"(?i:{names}){end}"
        long_names = "" if end != _BOUND else "|".join(_name_pattern(part) for part in parts if {"_", "*"} & set(part))
        name = rf"(?:{name}|(?i:{long_names}){_AT_END})" if long_names else name
        if not heads:
            return rf".*?{name}"
        is_named = re.compile(name)
        with_name = [head for head in self.shape.heads if any(is_named.search(f"{text} ") for text in head.literals)]
        either = [rf"(?:{heads}).*?(?:{name}|{_VALUE_OF_TIME})", rf"{name}.*?(?:{heads})"]
        return rf".*?(?:{'|'.join([*(unnamed(head.pattern) for head in with_name), *either])})"

    @cached_property
    def head_literals(self) -> tuple[bytes, ...]:
        """Strings of which each string that the pattern matches contains one; none if no head is in the pattern."""
        if self.unnamed or self.pairs or self.ended or self.measures:
            return ()
        literals = tuple(dict.fromkeys(head.required_literal for head in self.shape.heads))
        return literals if all(literals) else ()

    @property
    def _counted(self) -> str:
        """What has ended."""
        line = self.shape.line
        return EPOCH if line.opens == EPOCH or line.table != "steps" else STEP

    @cached_property
    def _begins(self) -> re.Pattern[bytes]:
        return lazy_pattern(f"(?s:{self.pattern})".encode())

    @cached_property
    def _heads(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return self.shape.head_patterns(before=r"(?<![0-9A-Za-z_])")

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
        if self.unnamed or self.ended:
            return self._of_step(text)
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        if (self.measures or self.pairs) and (not self._begins.match(raw) or _TABLE_ROW.match(text)):
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
        return self._after_prefix(raw) if self.measures else ()

    def _after_prefix(self, raw: bytes) -> tuple[Line, ...]:
        """Return the Line of what is measured after a logger's prefix: `09:00:01 INFO bench: RESULT tp=8 tok_s=3.5`."""
        logged = end_of_logger_prefix(_text(raw))
        ends = prefix_ends(raw)[::-1] if raw.count(b"=") >= _FEWEST_PAIRS else [logged] if logged else []
        for end in ends:
            if not raw[end : end + 1].isalpha():  # `[serve] max_tps: 500 tokens/s`: the name is no prefix
                continue
            line = self._line("", self.shape.heads[0], _text(raw[end:]))
            template = template_of(f"{{_:p}}{line.template.text}") if line is not None else None
            if line is not None and template is not None and template.match(raw) is not None:
                return (replace(line, template=template),)
        return ()

    def _of_step(self, text: str) -> tuple[Line, ...]:
        raw, bare, units = text.encode("utf-8", "surrogateescape"), text.rstrip(" \t"), dict[str, Unit]()
        if not self._begins.match(raw):
            return ()
        parts = parts_of(bare)
        if self.ended and (ended := ended_parts(bare, self._counted)):
            parts, units = ended[:3], dict(ended[3])
        line = self._line(parts[0], Template(parts[1]), parts[2]) if parts is not None else None
        if line is None or line.template.match(raw.rstrip(b" \t")) is None:
            return ()
        return (replace(line, unit={**line.unit, **units}),)

    def _line(self, before: str, head: Template, after: str) -> Line | None:
        """Return the Line of a string with this head; None if it lacks a name that lines of the family have."""
        common, steps, parts = self._named(before, head, after)
        counters = parts.counters
        if len(set(counters)) < len(counters):
            return None  # two records on one line
        if not all(any(glob(name)(x) for name in need for x in parts.printed) for need in self.needs):
            return None
        names, prefix, rest = parts.fields, parts.prefix, parts.rest
        gap = before[len(before.rstrip(" \t")) :]
        shape = prefix.text + gap_text(gap) + head.text + rest.text
        template = template_of(_with_devices(shape, names) if self.measures else shape)
        is_row = (ANY_BAR,) in self.needs and (prefix.is_row or rest.is_row)
        if template is None or is_row or not self._fits(template, common, steps, parts):
            return None
        if len(steps) > 1 and prefix.names.step in ITERATIONS and common.table == "steps":
            common = replace(common, compute={**common.compute, **_time_of_step(template.names, parts.units)})
        is_set = common.table == "runs" or (not steps and "learning_rate" in map(field_of, template.names))
        if is_set and _lacks_label(shape, template.names):
            return None
        line = replace(self.shape, line=common).line_of(template, names.from_keys, names.paths)
        is_counted = all(f.type == "d" for f in template.fields if f.name == line.within)  # `epoch: 0.31` is not
        within = line.within if is_counted else None
        dropped = line.dropped
        if bar := prefix.bar or rest.bar:
            because = dict.fromkeys((dropped.get(DECLARED_DROPPED, BAR_DROPPED), BAR_DROPPED))
            dropped = {**dropped, DECLARED_DROPPED: "; ".join(because)}
            line = replace(line, bar=bar.fields)
            if ELAPSED in template.names:
                line = replace(line, clock=(ELAPSED,), clock_of_bar=True)
        run = (*line.run, *(name for name in template.names if name in parts.totals))
        shared = shared_units(template, parts.units) if common.table == "steps" else {}
        units = {name: parts.units[name] for name in parts.seconds} | shared
        counts = steps or "step" in head.names
        whole = time_of_step(units, parts.printed) if counts and STEP_TIME not in template.names else ""
        line = with_parts(replace(line, unit={**line.unit, **parts.units, **shared}), units, whole)
        return replace(line, run=run, within=within, dropped=dropped, may_be_setting=self.measures)

    def _named(self, before: str, head: Template, after: str) -> tuple[Line, Sequence[str], _Parts]:
        """Return what lines of this table have in common, the names of steps in the line, and its named numbers."""
        evaluation = evaluation_of(before, head.text, after)
        if not evaluation and self.shape.line.table != "steps":
            evaluation = evaluation_of_words(after)
        common = self.shape.line
        if evaluation and common.table == "steps":
            common = _as_values(common)
        parts = self._parts(common.table, before, head, after, evaluation)
        if common.table == "steps" and not evaluation and is_evaluated(parts.printed):
            common = _as_values(common)
            parts = self._parts(common.table, before, head, after, evaluation)
        steps = [key for key, name in self.keys.items() if name == "step" and key in parts.printed]
        iteration = next((key for key in steps if key in ITERATIONS and parts.printed & ITERATION_TIMES), "")
        if len(steps) > 1:  # `step: 10, global_step: 110`
            parts = self._parts(common.table, before, head, after, evaluation, iteration or steps[0])
        return common, steps, parts

    def _fits(self, template: Template, line: Line, steps: Sequence[str], parts: _Parts) -> bool:
        """Return whether a line measures something, or counts its step: the step of `step 989 ms` is a time."""
        if self.measures:
            return is_measured(template, parts.units, not self.proves_format, parts.fields.paths)
        return line.table != "steps" or not steps or not {"step", "step_rounded"}.isdisjoint(template.names)

    def _parts(
        self,
        table: str | None,
        before: str,
        head: Template,
        after: str,
        evaluation: str,
        step: str = "",
    ) -> _Parts:
        """Return the parts of a line before and after the head.

        `step`: the name that alone is the step.
        """
        names = FieldNames(table, head.names)
        prefix, rest = (MeterText(MeterNames(self, names, evaluation, step)) for _ in range(2))
        prefix.add_text(before)
        rest.begin_after(head.text)
        rest.add_text(after, is_inside=bool(head.text))
        return _Parts(names, prefix, rest)


class _Parts(Struct, frozen=True):
    """The strings of a line before and after its head, with the names of their numbers."""

    fields: FieldNames
    prefix: MeterText
    rest: MeterText

    @property
    def printed(self) -> set[str]:
        return self.prefix.names.printed | self.rest.names.printed

    @property
    def counters(self) -> list[str]:
        return self.prefix.names.counters + self.rest.names.counters

    @property
    def units(self) -> dict[str, Unit]:
        return {**self.prefix.names.units, **self.rest.names.units}

    @property
    def seconds(self) -> dict[str, float]:
        return {**self.prefix.names.seconds, **self.rest.names.seconds}

    @property
    def totals(self) -> set[str]:
        return self.prefix.names.totals | self.rest.names.totals


def _lacks_label(shape: str, names: Sequence[str]) -> bool:
    """Return whether a line of settings has the label of another run, and no name of a setting has it."""
    label = label_of_another(shape)
    return bool(label) and not any(label in name.lower() for name in names)


def _as_values(line: Line) -> Line:
    """Return what lines of steps have in common, for one that measures no step."""
    return replace(line, table="values", compute={}, covers=1, first_step=None, within=None)


def _with_devices(shape: str, names: FieldNames) -> str:
    """Return the shape of a line with names for numbers of devices: `Throughput: 123.4 tokens/s on 8 GPUs`."""
    return DEVICES_AFTER.sub(lambda found: f"{{{names.from_key(found['word'])}:d}}{found['after']}", shape)


def _time_of_step(names: Collection[str], units: Mapping[str, Unit]) -> Mapping[str, Expression]:
    """Return the time of a step, computed from the time of an iteration: both are equal if both counters are equal.

    A step of several micro-batches has several iterations: `iter 120 | step 15: iter time: 60 ms`.
    """
    time = next((name for name in names if name in ITERATION_TIMES), None)
    if time is None or OTHER_STEP not in names or time not in units:
        return {}
    return {"step_time": Expression(f"if_equal(step, {OTHER_STEP}, {time} * {units[time].factor})")}


@lru_cache(1)
def _digits_hidden(text: str) -> str:
    """Return a string with zeros for the digits of its numbers. The families are asked for one string in turn."""
    return _DIGITS.sub(lambda match: "0" * len(match[0]), text)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _name_pattern(name: str) -> str:
    """Return the pattern of a printed name, given the name as it is compared."""
    if name in BAR_NAMES:
        return MARK
    return r"[\w ./-]*".join(
        "[^A-Za-z0-9]+".join(re.escape(word) for word in part.split("_")) for part in name.split("*")
    )
