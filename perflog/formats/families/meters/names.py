"""The names of the numbers of a line of meters: each is named after the words before it, or after another number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from perflog.formats.families.base import FieldNames, ShapedFamily, column_of_number, fits, look_up
from perflog.formats.families.name_units import is_statistic, name_and_unit, unit_of_operations
from perflog.formats.template import fits_64
from perflog.formats.vocabulary import (
    COUNTERS,
    EVALUATIONS,
    KINDS,
    PLACES,
    SPEEDS,
    STATISTICS,
    TRAINING,
    field_name,
    plain_name,
)
from perflog.lazy_patterns import lazy_pattern
from perflog.units import DURATIONS, MAGNITUDES, UNITS, Unit, base_of, unit_of

MEAN, SHARE, CHANGE, TOTAL, RATE = "mean", "share", "change", "total", "rate"
"""What follows a number without a name of its own: `0.5 (0.6)`, `10 (5%)`, `10/500`, `2.1 s, 121.5/s`. The last part of
the names of such numbers."""

BAR = "bar"
"""The name of the count of a progress bar that no counter describes."""
EPOCH_BAR = "epoch_bar"
"""The name of the count of a bar that the number of an epoch describes: batches of the epoch."""
TRAINING_BAR = "training_bar"
"""The name of the count of a bar that is described as training, or that has a loss after it: steps of training."""
ANY_BAR = "any_bar"
"""A name that each line with a bar has, in `needs`."""
BAR_NAMES = (BAR, EPOCH_BAR, TRAINING_BAR, ANY_BAR)

EXACT = frozenset((*PLACES, "epoch"))
"""Fields that hold exact numbers."""
_PARTS = EVALUATIONS | TRAINING
COUNTER_WORDS = COUNTERS | {"num_updates", "global_step", "eta"}
ITERATIONS = frozenset("iter iters iteration iterations it".split())
ITERATION_TIMES = frozenset(("iter_time", "iteration_time"))
INTEGER = lazy_pattern(r"[+-]?[0-9]+")

_DECIMAL = lazy_pattern(r"[0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_WHOLE = lazy_pattern(r"[+-]?[0-9]+(?:\.0*)?")  # Lightning prints `global_step=188.0`
_OF_MEMORY = lazy_pattern(
    r"mem|byte|size|(?<![a-z])v?ram(?![a-z])", re.IGNORECASE
)  # names of sizes: there `M` may be 2^20 too
_PREPOSITIONS = frozenset("in at of for to with by from on after".split())  # name no number after them: `in 2.5 s`
_COPULAS = frozenset(("is", "was"))
_BESIDE_STATISTICS = frozenset(
    ("cv", "n", "count")
)  # numbers among statistics that are not in the unit of the quantity
_TELLS = frozenset("was were not no did does".split())  # among the words before a number, they make a sentence of them
_ROUNDED = "rounded"  # the last part of the name of a counter that is printed with a factor: `step:1K`
_RATES = frozenset(("1/s", "TFLOP/s"))  # base units of rates that are only in part in the name
_TIME_AT_END = lazy_pattern(r"(?<=\w)[ _](?:time|latency|tflops)$", re.IGNORECASE)
_NAMES_OF = {
    "s": re.compile("time|sec|dur|cost|elapsed|latency|wall|data|batch|forward|backward", re.IGNORECASE),
    "B": _OF_MEMORY,
}  # by base unit: names of numbers that may have it, printed or not


class MeterDeclaration(ShapedFamily, frozen=True, eq=False, dict=True, kw_only=True):
    """What the names of the numbers depend on, of a `[[meters]]` entry of a format file.

    Attributes:
        shape: A head may be anywhere in the line.
        keys: The field that takes the number of a name (see `plain_name`).
        unit_names: What printed units mean here: `MB = "MiB"`.
        measures: Whether a line must measure something: see `measured_lines`.
        counted: Whether a line has a count before its pairs: `chunk 3/10 loss=2.5`, `c3/10 loss:2.5`.
    """

    keys: Mapping[str, str]
    unit_names: Mapping[str, str] = field(default_factory=dict)
    measures: bool = False
    counted: bool = False


class MeterNames(Struct):
    """Names the numbers of a part of a line, and holds what is known of its numbers so far.

    Attributes:
        evaluation: The word that begins the names of measured numbers: `val`; "" if the line is about training.
        step: The name that alone is the step, of several that could be; "" for the first of them.
        printed: The names of the numbers so far, as they are compared.
        counters: The names that count steps, ranks or epochs, as often as they occur.
        units: The printed units of fields.
        seconds: The times of the line, by field.
        totals: Fields that hold the total of a counter.
        words: The words since the last number or mark: the name of the next number.
        mark: The last mark that bound a value to its name.
        is_bound: Whether `:` or `=` follows the words.
        key_unit: The unit in a name: `time (ms): 3.1`.
        last: The name of the number before, for a number without a name.
        last_unit: The unit of the number before.
        last_unit_text: The same as printed.
        bases: By name, the base units that its numbers print.
        bracket: The name of the number before the open bracket.
        is_listed: Whether a square bracket is open: `lr [0.1, 0.2]`.
        suffix: TOTAL after a slash.
        counter: The name of the last number that had one, if the number is whole.
        group: The word that names what all numbers are of: `lm_head: lr=0.1, weight_decay=0.0`.
        quantity: What statistics without words of their own are of.
        quantity_unit: The unit in its name.
        labels_rank: Whether the next number is the rank in a label of its own: `(rank 0)`.
    """

    declaration: MeterDeclaration
    fields: FieldNames
    evaluation: str = ""
    step: str = ""
    printed: set[str] = field(default_factory=set)
    counters: list[str] = field(default_factory=list)
    units: dict[str, Unit] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    totals: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)
    mark: str = ""
    is_bound: bool = False
    key_unit: str = ""
    last: str = ""
    last_unit: str = ""
    last_unit_text: str = ""
    bases: dict[str, set[str]] = field(default_factory=dict)
    bracket: str = ""
    is_listed: bool = False
    suffix: str = ""
    counter: str = ""
    group: str = ""
    quantity: str = ""
    quantity_unit: str = ""
    labels_rank: bool = False
    _part: str = ""  # the word of an evaluation that begins the last name which begins with one

    @property
    def counts_steps(self) -> bool:
        """Whether the line counts steps of training."""
        return self.declaration.shape.line.table == "steps" and not self.evaluation

    def forget(self) -> None:
        """Forget the words and the number before: the next number is not theirs."""
        self.words, self.is_bound, self.last, self.suffix, self.key_unit = [], False, "", "", ""
        self.is_listed = False

    def key_of_number(self, unit: str, text: str, unit_text: str, per: str) -> tuple[str, str | None]:
        """Return the name of a number, and what it is of the number with that name; None if nothing names it.

        `per`: the word after the number that says what it is counted per: `1409.8/gpu`.
        """
        if self.words == ["of"] and self.counter in COUNTER_WORDS and not unit_text and INTEGER.fullmatch(text):
            return self.last, TOTAL  # `iter 50 of 200`
        if self.words:
            self.words = self.words[self.words[0] == "and" and len(self.words) > 1 :]  # `loss is 0.5 and kl is 0.25`
            is_sentence = not self.is_bound and (self.words[-1].lower() in _PREPOSITIONS or self.words == ["x"])
            ends_in_is = not self.is_bound and self.words[-1] in _COPULAS
            told = self.words[:-1] if ends_in_is else self.words
            is_sentence |= not self.is_bound and not _TELLS.isdisjoint(told)  # `'val_loss' was not in top 1`
            is_place = self.words[0].lower() == "of" and self.words[-1].lower() in COUNTERS  # `it 1/3 of epoch 0`
            is_place |= self.words[0].lower() in _PARTS and self.words[1:] in (["Epoch"], ["epoch"])  # `Val Epoch 3`
            words = " ".join(self.words[is_place : -1 if ends_in_is else None])
            if self.declaration.measures and words.lower() == RATE and self.last:  # `Decode: 1.78 s  Rate: 53.9 tok/s`
                return f"{_TIME_AT_END.sub('', self.last)} {words}", ""
            words = self._with_quantity(words)
            is_own = (
                plain_name(words) in EXACT or self._is_beside(words) or self._is_part_of_time(unit)
            )  # `Ep 1 (Step 50): loss 0.5`
            return (
                ("", None) if is_sentence or not words else (words if is_own else f"{self.bracket} {words}".strip(), "")
            )
        if self.suffix:
            return self.last, self.suffix if INTEGER.fullmatch(text) or base_of(self.last_unit) == "B" else ""
        key = self.bracket or self.last
        if self.declaration.measures and not self.bracket and base_of(unit) == "s" and not self.bases:
            return KINDS["s"], ""  # `M=3840, N=4096: 0.06 ms`: the numbers before it name a case, and have no unit
        may_be_time = unit in DURATIONS and not self.declaration.measures and KINDS["s"] not in self.declaration.keys
        if not key and unit_text and may_be_time:
            return KINDS["s"], ""  # `iteration 5: 41.2 ms`
        if not key or (not self.bracket and self.counter == plain_name(key) and unit != "%"):
            return "", None  # `Epoch 1 12/6879`: no second epoch
        if per:
            return key, f"per_{per}"
        is_rate = bool(unit) and "/" in unit_text[1:] and not self._speed(unit)  # `286.57 us, 25.61 GB/s`
        is_rate &= not unit_text.startswith("/")
        if is_rate and unit_text != self.last_unit_text and not self.bracket:
            return "", None  # `71.1 samples/sec 1971.6 tokens/sec`: the unit names the number
        return self._key_of_another(key, text, unit, unit_text)

    def _with_quantity(self, words: str) -> str:
        """Return the name of a statistic with what it is of: `TTFT mean=127ms std=13ms`, of a measured line."""
        quantity, _, last = words.rpartition(" ")
        if not self.declaration.measures or not is_statistic(last):
            if words.lower() not in _BESIDE_STATISTICS:
                self.quantity = self.quantity_unit = ""
            return words
        if quantity:
            self.quantity, self.quantity_unit = quantity, self.key_unit
        self.key_unit = self.key_unit or self.quantity_unit
        return f"{self.quantity} {last}".lstrip()

    def take_quantity(self, is_quantity: bool) -> None:
        """Take the words so far, if they are it, as what the statistics after them are of: `Latency: mean 3 p99 4`."""
        if is_quantity:
            self.quantity, self.quantity_unit, self.words = " ".join(self.words), self.key_unit, []

    def _key_of_another(self, key: str, text: str, unit: str, unit_text: str) -> tuple[str, str | None]:
        """Return the name of a number after one of this name, as `key_of_number` does."""
        if unit == "%" != self.last_unit:
            return key, CHANGE if text[:1] in ("+", "-") else SHARE  # `TFLOPS: 26.0 (+33.2%)`
        if base_of(unit) == "1/s" and (self.last_unit != unit or unit_text != self.last_unit_text):
            if not unit_text.startswith("/"):
                return "", None  # `loss = 1.53 (1725.5 examples/sec)`: the unit names the number
            per = unit_text[1:].partition("/")[2]
            return key, "_".join(filter(None, (RATE, f"per_{per}" * bool(per), MEAN * bool(self.bracket))))
        if unit and not self._has_unit_of_last(unit):
            if speed := self._speed(unit):  # `MFU: 41.2% (407.5 TFLOPS/GPU)`, `time: 0.034 ms, 221.1 TFLOPS, 12 GB/s`
                is_unnamed = key == KINDS["s"] or (self.bracket and "mfu" in key.lower())
                stem = "" if is_unnamed else _TIME_AT_END.sub("", key)
                return f"{stem} {speed}".lstrip(), ""
            kind = KINDS.get(base_of(unit), "")  # `step = 3301 (1.491 sec)`: no mean of it; `loss 2.31, 12.1 ms`
            return (f"bracket {kind}" if self.bracket else kind, "") if kind else ("", None)
        if self.bracket and base_of(unit) == "B" and unit != self.last_unit:
            return "", None  # `Copy data: 2.0 GiB (2147483648 bytes)`: the same size again
        if self.bracket:
            return key, MEAN
        return (key, "") if self.is_listed else ("", None)  # of `samples/s: 2161.6 1605777750.5` the first

    def _is_beside(self, words: str) -> bool:
        """Return whether a pair in brackets has a name of its own: `max=1.7 ms (repeats=10)`, not `3 ms (mean=4)`."""
        is_pair = self.declaration.measures and self.is_bound and self.mark == "="
        return is_pair and not is_statistic(words.rpartition(" ")[2])

    def _is_part_of_time(self, unit: str) -> bool:
        """Return whether a time in brackets is a part of a step's time before it: `1.2 s/it (data 0.1 s, fwd 0.4 s)`.

        `val_time 3.5 s (fwd 0.5 s)` is about no forward pass of training.
        """
        declared = self._declared(self.bracket, "", unit, "")[0]
        is_of_step = declared == "step_time" or plain_name(self.bracket) == KINDS["s"]
        is_time = base_of(unit) == "s" and "s" in self.bases.get(self.bracket, ())
        return is_time and is_of_step and STATISTICS.isdisjoint(map(str.lower, self.words))

    def _speed(self, unit: str) -> str:
        """Return the name of a speed of what the number before took its time for; "" for another number."""
        return SPEEDS.get(base_of(unit), "") if self.declaration.shape.line.table == "values" else ""

    def _has_unit_of_last(self, unit: str) -> bool:
        """Return whether a number has the unit of the one before it; in brackets, one that its name may have."""
        if not self.bracket:
            return base_of(unit) == base_of(self.last_unit)
        if printed := self.bases.get(self.bracket):
            return base_of(unit) in printed
        pattern = _NAMES_OF.get(base_of(unit))
        return pattern is None or pattern.search(self.bracket) is not None

    def field_of(self, key: str, suffix: str | None, unit: str, magnitude: str, text: str, unit_text: str = "") -> str:
        """Return the field that takes a number. `unit_text`: its unit as printed."""
        declaration, names = self.declaration, self.fields
        if suffix is None or not (key and declaration.shape.number_rows):
            return declaration.shape.dropped_field(key)
        if declaration.shape.dropped and (look_up(declaration.shape.dropped, key) or ("*",))[0] != "*":
            return declaration.shape.dropped_field(key)
        known = plain_name(key)
        declared, key, unit = self._declared(key, suffix, unit, unit_text)
        unit = unit_of_operations(key, unit) if "/" not in unit_text else unit
        declared, self.labels_rank = ("rank" if self.labels_rank else declared), False
        if declared == "step" and self.step not in ("", known):
            declared, key = "", f"other {key}" if known == "step" else key  # `step` is the name of a column
        if declared == "step_time" and self.step in ITERATIONS and known in ITERATION_TIMES:
            declared = ""  # the line counts steps too: the time of a step is computed from it
        self.counters += [known] * (declared in EXACT)
        resolved = UNITS.get(unit) or declaration.shape.units.get(declared or declaration.keys.get(known, ""))
        is_rounded = False
        if self.has_factor(key, unit, magnitude, text):
            is_rounded, magnitude = declared in EXACT, ""
        is_counter = (declared in EXACT or known in COUNTER_WORDS) and known not in BAR_NAMES
        evaluation = self._evaluation_of(known, is_time=resolved is not None and resolved.base == "s")
        is_evaluated = bool(evaluation) and not is_counter and known.split("_")[0] not in EVALUATIONS
        key = f"{evaluation} {key}" if is_evaluated else f"{self.group} {key}".lstrip()
        fits = (
            declared
            and not (is_rounded or is_evaluated or self.group)
            and _fits_column(declaration.shape.line.table, declared, resolved, text)
        )
        if fits and (self.is_listed or not names.is_taken(declared)):
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
            self._add_unit(name, resolved, text if not suffix else "")
        self.printed |= set() if suffix else {known}
        return name

    def _add_unit(self, name: str, unit: Unit, text: str) -> None:
        self.units[name] = unit
        if unit.base == "s" and _DECIMAL.fullmatch(text):
            self.seconds[name] = float(text.replace(",", "")) * unit.factor

    def _declared(self, key: str, suffix: str, unit: str, unit_text: str) -> tuple[str, str, str]:
        """Return the field that the family declares for a name, "" for none, and the name and its unit.

        The unit may be in the name alone: `step_ms`, `step_time_ms`. Or the printed one says what a rate counts:
        `Speed: 10.9 samples/sec`.
        """
        keys = self.declaration.keys
        with_unit = (plain_name(f"{key} {printed}") for printed in ([suffix] if suffix else [unit, unit_text]))
        declared = next((keys[name] for name in with_unit if keys.get(name)), "")
        declared = declared or keys.get("" if suffix else plain_name(key), "")
        if unit or suffix:
            return declared, key, unit
        if declared:
            in_name = name_and_unit(key)[1] or unit_of(key)[0]  # `sec/step: 0.41`
            return declared, key, in_name if base_of(in_name) == "s" else ""
        key, unit = self._without_unit(key)
        return keys.get(plain_name(key), "") if unit else "", key, unit

    def _without_unit(self, key: str) -> tuple[str, str]:
        """Return the name of a number without the unit that it holds, and the unit: `step_time_ms: 412.5`.

        A rate keeps the printed name: `Fwd TFLOPS`, `decode tok/s`.
        """
        label, unit = name_and_unit(key)
        whole = unit_of(key.replace(" ", ""))[0] if "/" in key else ""  # `TFLOP/s: 492.65`
        unit = whole if base_of(whole) in {*_RATES, *SPEEDS} else unit
        if unit and (whole or base_of(unit) in _RATES):
            return key, unit
        is_time = base_of(unit) == "s" and key.startswith(label)  # `time_per_step_ms`, not `ms_per_step`
        is_rate = "per" in plain_name(label).split("_") and not is_time
        is_rate |= unit not in ("", "%") and base_of(unit) not in KINDS
        if is_rate or self.declaration.shape.line.table == "runs" or self.fields.is_taken(field_name(label)):
            return key, ""
        return label, unit

    def _evaluation_of(self, known: str, is_time: bool) -> str:
        """Return the word of an evaluation that belongs to a name; "" if there is none.

        A name that comes again after one of an evaluation is about it too: `loss 0.5 acc 0.9 val_loss 0.6 acc 0.8`.
        So is any time of a line about one: `Val Epoch 3: loss 0.5, train time 2.1 s` has no time of training.
        """
        first = known.split("_", maxsplit=1)[0]
        if is_time and self.evaluation and first in TRAINING:
            return self.evaluation
        if first in EVALUATIONS | TRAINING:
            self._part = first if first in EVALUATIONS else ""
            self.evaluation = self.evaluation if self._part else ""
        return self.evaluation or (self._part if known in self.printed else "")

    @staticmethod
    def has_factor(key: str, unit: str, after: str, text: str) -> bool:
        """Return whether a number is printed with a factor that is known: `smpl:13K`, but not `mem 3961M`."""
        return after in MAGNITUDES and not unit and "," not in text and not _OF_MEMORY.search(key)

    def is_counter_field(self, name: str, text: str) -> bool:
        """Return whether a field takes whole numbers alone: a step, a rank, a total."""
        line = self.declaration.shape.line
        is_counter = name in (*PLACES, line.within) or name in self.totals or line.table == "runs"
        return is_counter and _is_whole(text)


def _fits_column(table: str | None, name: str, unit: Unit | None, text: str) -> bool:
    """Return whether a number with this unit, printed as this string, can fill the column of a name."""
    column = column_of_number(table, name)
    return _is_whole(text) if name in PLACES else column is None or fits(column, unit)


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and fits_64(text.partition(".")[0])
