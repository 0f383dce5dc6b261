"""States of progress bars in a line, up to the rate: `2%|# | 3396/167300 [12:19:15<594:39:50, 13.06s/it`."""

from __future__ import annotations

import re

from msgspec import Struct

from perflog.formats.bars import NAMED
from perflog.formats.families.base import gap_text, spec_of
from perflog.formats.families.meters.names import (
    ANY_BAR,
    BAR,
    COUNTER_WORDS,
    EPOCH_BAR,
    EXACT,
    TOTAL,
    TRAINING_BAR,
    MeterNames,
)
from perflog.formats.model import BarFields
from perflog.formats.number_units import SCALES
from perflog.formats.template import literal
from perflog.formats.vocabulary import EVALUATIONS, TRAINING, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_WORDS, UNITS, Unit, unit_of

PATTERN = lazy_pattern(rf"{NAMED}(?![A-Za-z])")
ELAPSED = "elapsed"
"""The name of the time since the bar began, in table `steps`."""
DROPPED = "of a progress bar: its share is printed as counts, the time that is left is an estimate"

_TRAINS = lazy_pattern(
    r"(?:(?:pre|fine|fine_)?train(?:ing)?|(?:fine_?)?tuning)"
    r"(?:_(?:progress|loop|epoch|batch|batches|step|steps|iter|iters|iteration|iterations))?"
)
"""The description of a bar that counts steps of training, but not `Loading train data`."""
_LOSS = lazy_pattern(r"(?<![A-Za-z])(?:loss|ppl|perplexity)\w{0,99}\s{0,99}[=:]", re.IGNORECASE)


class BarText(Struct):
    """Makes a template string from a state of a progress bar.

    Attributes:
        names: The names of the line so far.
        name: The name of what the bar counts.
        text: The template string so far.
        fields: The fields of the state, once it is added.
    """

    names: MeterNames
    name: str = ""
    text: str = ""
    fields: BarFields | None = None

    def add(self, bar: re.Match[str], padding: int) -> None:
        """Add a state of a progress bar up to its rate.

        What it counts is named by the counter or the activity before it, if there is one.
        """
        names = self.names
        words = " ".join(names.words)
        phase = names.words[-1].lower() if names.words else ""
        names.evaluation = "" if phase in TRAINING else phase if phase in EVALUATIONS else names.evaluation
        key = self._name_of_count(bar, plain_name(words))
        self.name = key or words or BAR
        names.printed.add(ANY_BAR)
        gap = gap_text(bar["gap"] or "")
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
        rate = self._add_rate(bar)
        self.fields = BarFields(*count, elapsed, rate, bool(key or not words) and not names.evaluation)
        names.forget()

    def _name_of_count(self, bar: re.Match[str], description: str) -> str:
        """Return the name of the count of a bar that may count steps of training; "" if it counts something else."""
        names = self.names
        unit = (bar["unit"] or bar["counted"] or "it").replace("s/", "", 1).replace("/s", "").strip().lower()
        if unit not in STEP_WORDS:
            return "" if description else f"{unit} {BAR}"
        is_counter = description in COUNTER_WORDS or names.declaration.keys.get(description) in EXACT
        if any(name.endswith(f"_{description}") for name in names.printed):
            is_counter = False  # the bar after `training iteration: 4072 loss: 0.5` belongs to the next record
        if description and is_counter:
            return " ".join(names.words)
        if names.evaluation:
            return BAR
        if names.counter.rpartition("_")[2] == "epoch":
            return EPOCH_BAR
        return TRAINING_BAR if _TRAINS.fullmatch(description) or _LOSS.search(bar.string) else ""

    def _add_counts(self, done: str, total: str) -> tuple[str, str]:
        """Add the count of a bar and its total, and return their fields. A count with a factor, `1.2k`, is rounded."""
        names = self.names
        count = names.field_of(self.name, "", "", "", done)
        self.text += f"{{{count}:{'d' if done.isdigit() else 'q'}}}"
        if not total or total == "?":
            self.text += "/?" if total else ""
            return count, ""
        name = names.field_of(self.name, TOTAL, "", "", total)
        names.totals -= set() if names.counts_steps else {name}
        self.text += f"/{{{name}:{'d' if total.isdigit() else 'q'}}}"
        return count, name

    def _elapsed(self) -> str:
        """Return the field of the time since a bar began: a clock, of bars that count steps."""
        names = self.names
        if names.counts_steps and not names.fields.is_taken(ELAPSED):
            return names.fields.declared(ELAPSED)
        return names.fields.from_key(f"{names.evaluation} {self.name if self.name != TRAINING_BAR else BAR} {ELAPSED}")

    def _add_rate(self, bar: re.Match[str]) -> str:
        """Add the rate of a bar, and return its field, "" for none.

        It is smoothed over the last states; the rate of Keras is a mean since the bar began.
        """
        names = self.names
        name = ""
        if bar["keras_rate"]:
            unit, _, per = bar["keras_unit"].partition("/")
            name = names.fields.from_key(f"{names.evaluation} mean s per {per}")
            names.units[name] = UNITS[unit_of(unit)[0] or "s"]
            self.text += f" {{{name}:{spec_of(bar['keras_rate'])}}}{bar['keras_unit']}"
        if not bar["unit"]:
            return name
        head, _, per = (part.strip() for part in bar["unit"].partition("/"))
        self.text += "," if bar.string[bar.start("before") - 1] == "," else ""
        if bar["no_rate"]:
            self.text += f"{gap_text(bar['before'])}?{literal(bar['unit'])}"
            return ""
        name = names.fields.from_key(f"{names.evaluation} smoothed {head} per {per}")
        printed = unit_of(f"{bar['scale']}{head}/{per}")[0] if head == "B" else ""
        names.units[name] = UNITS[printed] if printed else Unit("s" if head == "s" else "1/s", SCALES[bar["scale"]])
        width = len(bar["before"]) - 1 + len(bar["rate"])
        self.text += (
            f" {{{name}:{width}{spec_of(bar['rate'])}}}" if bar["before"] else f"{{{name}:{spec_of(bar['rate'])}}}"
        )
        self.text += literal(f"{bar['scale']}{bar['unit']}")
        return name
