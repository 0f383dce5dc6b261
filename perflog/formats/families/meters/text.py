"""The template string of a line of meters: its words and marks as they are, a field for each number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.durations import measures
from perflog.formats.families.base import gap_text, spec_of
from perflog.formats.families.meters import line_words, measured_words
from perflog.formats.families.meters.bars import PATTERN as BAR_PATTERN
from perflog.formats.families.meters.bars import BarText
from perflog.formats.families.meters.line_words import MOST_WORDS
from perflog.formats.families.meters.names import COUNTER_WORDS, INTEGER, TOTAL, MeterNames
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.families.name_units import is_statistic
from perflog.formats.number_units import SPREAD, counted_per, unit_of_number
from perflog.formats.template import UNNAMED, Template, literal
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import LIST, MARK, NAME, NUMBER, OPAQUE, UNIT, Token, tokens
from perflog.formats.vocabulary import DEVICE, DIVERGING, EVALUATIONS, LEVELS, STATISTICS, TRAINING, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, Unit, base_of, unit_of

_NAME_AT_END = lazy_pattern(r"([A-Za-z_]\w*)[:=]$")
_PAIRS_AT_END = lazy_pattern(r"(?:\s[^\s=]+=[^\s=]+){3}\s*$")
_LIST_NUMBER = lazy_pattern(r"[+-]?[0-9.][0-9.eE+-]*")
_LONG_LIST = 4  # numbers of a list that are one field: their count may differ from line to line
_TIMES = frozenset("x×")  # `speedup: 1.01x`: no unit, and part of no name
_DAYS = frozenset(("day", "days"))
_SHAPE = lazy_pattern(r"[0-9]+(?:[x×][0-9]+)+")  # what a line measures: `matmul (4096x4096): 12.5 ms, 123 TFLOPS`
_CASE = lazy_pattern(r"\A[A-Za-z]\w*(?= \(\Z)")
_NARROW = {"：": ":", "，": ",", "）": ")"}  # marks of full width
_COUNT = lazy_pattern(r"(?P<name>[A-Za-z]+)(?P<number>[0-9]+)/[0-9]+")
_NO_VALUE = frozenset(map(str.lower, NO_VALUE))
_NOT_FINITE = frozenset(("nan", "inf", "infinity"))


class MeterText(Struct):
    """Makes a template string from the tokens of a part of a line.

    Attributes:
        names: The names of the numbers so far.
        text: The template string so far.
        bar: The last progress bar so far.
        is_row: Whether numbers without a name are before the bar: it is after the row of a table.
    """

    names: MeterNames
    text: str = ""
    bar: BarText | None = None
    is_row: bool = False
    _is_pairs: bool = False  # whether the string ends in pairs, each without whitespace
    _after_level: bool = False  # whether the words are the first ones after the level of a logger
    _end: int = 0  # index of the token after the last number and its unit
    _line: TokenLine = field(default_factory=lambda: TokenLine(()))  # the tokens that are added

    def begin_after(self, head: str) -> None:
        """Take the name at the end of a head as the name of the first number: `[3/10]  eta: 1 day, 0:12:05`."""
        names = self.names
        name = _NAME_AT_END.search(head)
        names.words, names.is_bound = ([name[1]], True) if name else ([], False)

    def add_text(self, text: str, is_inside: bool = False) -> None:
        """Add a string. `is_inside`: something is before it, so whitespace there counts."""
        last = 0
        self._is_pairs = _PAIRS_AT_END.search(text) is not None
        for bar in BAR_PATTERN.finditer(text):
            self._add_tokens(tokens(text[last : bar.start()]), is_inside or last > 0)
            self.is_row |= any(f.numeric and f.name == UNNAMED for f in Template(self.text).fields)
            self.bar = BarText(self.names)
            self.bar.add(bar, len(text[: bar.start()]) - len(text[: bar.start()].rstrip(" ")))
            self.text += self.bar.text
            last = bar.end()
        self._add_tokens(tokens(text[last:]), is_inside or last > 0)

    def _add_tokens(self, parts: Sequence[Token], is_inside: bool) -> None:
        names, line = self.names, TokenLine(parts)
        self._line = line
        k = 0
        while k < len(parts):
            token = parts[k]
            if measured_words.is_index(names, line, k):
                self.text += gap_text(token.gap) + token.text
                names.words.append(token.text)
                k += 1
            elif measured_words.is_count_in_name(names, line, k):
                self.text += _padded(token, UNNAMED, "d", self.text, bool(k) or is_inside)
                k += 1
            elif measured_words.is_percentile(names, line, k):
                self.text += gap_text(token.gap) + token.text + line.text(k + 1)
                names.words, names.is_bound = [f"p{token.text}"], False
                k += 2
            elif line_words.names_model(names, line, k):
                self._add_model(token)
                k += 2
            elif token.kind == NUMBER or _is_not_finite(names, token.text):
                k = self._add_number(k, bool(k) or is_inside)
            else:
                self.text += gap_text(token.gap) if k or is_inside or not token.gap else "{_:b}"
                k = self._add_text_token(k)

    def _add_text_token(self, k: int) -> int:
        """Add a token that is no number, after its gap. Return the index of the next token."""
        token = self._line.parts[k]
        if token.kind == NAME:
            return self._add_word(k)
        if token.kind in (OPAQUE, UNIT):
            self._add_opaque(token)
        elif token.kind == LIST:
            self._add_list(token.text)
        else:
            k = self._add_mark(k)
        return k + 1

    def _add_model(self, token: Token) -> None:
        """Add the name of a model: a setting in a line of settings, else a string that is not stored."""
        names = self.names
        is_setting = names.declaration.shape.line.table == "runs"
        name = names.fields.from_key("model") if is_setting else UNNAMED
        self.text += f"{gap_text(token.gap)}{{{name}:S}}"
        names.forget()

    def _add_opaque(self, token: Token) -> None:
        """Add a string that is no number. It is a duration if its name says so."""
        names = self.names
        key = " ".join(names.words)
        is_timed = bool(key) and measures(key, token.text)
        name = names.declaration.shape.dropped_field(plain_name(key)) if names.is_bound or is_timed else UNNAMED
        if name == UNNAMED and names.declaration.shape.number_rows and is_timed:
            self.text += f"{{{names.field_of(key, '', 's', '', token.text)}:h}}"
            names.forget()
            return
        follows = bool(names.words) or self.text.endswith("(") or self.text in ("", "{_:b}")
        if names.declaration.measures and follows and not names.is_bound and _SHAPE.fullmatch(token.text):
            self.text = _CASE.sub(lambda _: f"{{{names.fields.from_key('case')}:w}}", self.text)
            name = names.fields.from_key("shape")
        is_glued = not token.gap and self.text.endswith(f"{{{name}:S}}")
        self.text += "{_:b}".join([f"{{{name}:S}}"] * len(token.text.split()))[len(f"{{{name}:S}}") * is_glued :]
        names.forget()

    def _add_word(self, k: int) -> int:
        """Add a word of a name, with what sticks to it: `Acc@1`, `loss_2`. Return the index of the next token."""
        names, line = self.names, self._line
        word = line.text(k)
        if line_words.is_own_device(names, line, k):
            self.text += f"{literal(word.partition(':')[0])}:{{{names.fields.declared(DEVICE)}:d}}"
            return k + 1
        if end := self._add_count(k) or self._add_case(k):
            return end
        self._begin_section(k)
        if names.is_bound and word.lower() in _NO_VALUE:  # `eta: N/A  iter: 60`
            self.text += literal(word)
            names.forget()
            return k + 1
        first = k
        while line.text(k + 1) in ("@", "/", "#") and line.is_glued(k + 1) and line.is_glued(k + 2):
            if line.kind(k + 2) not in (NAME, NUMBER):
                break
            word += line.text(k + 1) + line.text(k + 2)
            k += 2
        if k == first and measured_words.is_case(names, line, k):  # `Provider: deepgemm, Time: 62.1 ms`
            self.text += f"{{{names.fields.from_key(' '.join(names.words))}:w}}"
            names.forget()
            return k + 1
        names.take_quantity(measured_words.begins_statistics(names, word))
        if measured_words.begins_pairs(names, line, k):
            if self.text == f"{line.text(0)}{{_:b}}":
                self.text = f"{{{names.fields.from_key('case')}:w}}{{_:b}}"
            names.words = []
        end = line_words.end_of_call(line, k + 1)
        word += "".join(line.texts(k + 1, end))
        self.text += literal(word)
        is_value = names.is_bound and names.mark == "="  # `Device=cpu Epoch=1`
        names.words = [] if is_value else [word] if names.is_bound else [*names.words, word][-MOST_WORDS:]
        names.words = [] if word in LEVELS or measured_words.is_label(names, line, end - 1) else names.words
        self._after_level |= word in LEVELS
        names.is_bound, names.suffix = False, ""
        names.key_unit = names.key_unit if is_statistic(word) and len(names.words) > 1 else ""  # `Latency (ms) p50: 3`
        if len(names.words) > 2 and names.words[-2] == "in":
            names.key_unit = unit_of(names.words[-1])[0]  # `train_step_timing in s=12.80`
        return end

    def _add_count(self, k: int) -> int:
        """Add a count that sticks to its name: `c3/10`. Return the index of the next token; 0 for another word."""
        names = self.names
        count = _COUNT.fullmatch(self._line.text(k)) if names.declaration.counted else None
        if count is None:
            return 0
        name, total = (names.field_of(count["name"], suffix, "", "", count["number"]) for suffix in ("", TOTAL))
        self.text += f"{count['name']}{{{name}:{spec_of(count['number'])}}}/{{{total}:d}}"
        names.forget()
        return k + 1

    def _add_case(self, k: int) -> int:
        """Add the case that a word begins: `Latency for batch size 8: 3 ms`. Return the index after its colon, or 0."""
        names, line = self.names, self._line
        end = measured_words.end_of_condition(names, line, k)
        if end:
            self.text += f"{literal(line.text(k))} {{{names.fields.from_key('case')}::c}}:"
            names.is_bound, names.mark = True, ":"
        return end + 1 if end else 0

    def _begin_section(self, k: int) -> None:
        """Note the phase that a word says of the names after it: `train: loss 0.5 acc 0.9, val: loss 0.6 acc 0.8`."""
        names = self.names
        line, word = self._line, self._line.text(k).lower()
        if (
            not k
            and names.declaration.shape.line.table != "steps"
            and line_words.names_group(line, names.declaration.measures)
        ):
            names.group = line.text(k)
        begins = line.text(k + 1) in (":", "|", "-", "]", ")") and line.kind(k + 2) == NAME
        begins |= line.kind(k + 1) == NAME and len(line.gap(k + 1)) > 1
        if begins and word in EVALUATIONS | TRAINING and (names.is_bound or not names.words):
            names.evaluation = word if word in EVALUATIONS else ""

    def _add_mark(self, k: int) -> int:
        """Add a mark. Return the index of the last token that belongs to it."""
        names, line = self.names, self._line
        self.text += literal(line.text(k))
        mark = _NARROW.get(line.text(k), line.text(k))
        is_bar = mark == "|" and measured_words.bar_binds(names, line)
        if names.words and (mark in ":=" or is_bar or measured_words.mark_binds(names, line, k)):
            names.is_bound, names.mark = True, mark
            is_word = names.declaration.counted and mark == "=" and line.is_glued(k)  # `32/100 windows loss=2.5`
            if is_word or self._names_logger(mark):
                del names.words[:-1]
        elif mark in ("(", "["):
            return self._open_bracket(k)
        elif mark == ")":
            names.bracket, names.words = "", []
        elif mark == "/" and names.last and not names.words:
            names.suffix = TOTAL
        elif mark == SPREAD and names.last and not names.words:
            names.words, names.is_bound = [names.last, "spread"], True
        elif mark == ",":
            self._note_comma(k)
        elif mark in "+&" and not names.is_bound and line.kind(k + 1) == NAME:
            pass  # `fwd+bwd 412 ms` is no time of the backward pass
        elif mark not in "'\"":
            names.forget()
        return k

    def _note_comma(self, k: int) -> None:
        """Note what ends at a comma: the name of the next number, perhaps the case of the line."""
        names = self.names
        if measured_words.begins_with_case(names, self._line, k):
            self.text = f"{{{names.fields.from_key('case')}:,c}},"
        names.words = names.words if names.is_bound else []

    def _names_logger(self, mark: str) -> bool:
        """Return whether the words before the last one name the logger: `INFO trainer step=5 loss=2.5 lr=0.001`.

        That is known before a counter or a rank alone: `INFO best loss=2.5` is no loss of a step.
        """
        words, is_first = self.names.words, self._after_level and not self.names.printed
        is_first = is_first and self._is_pairs and mark == "=" and words[-1].lower() in COUNTER_WORDS
        return is_first and words[0].lower() not in EVALUATIONS | TRAINING | STATISTICS

    def _open_bracket(self, k: int) -> int:
        """Note what an opening bracket means. Return the index of the last token that belongs to it."""
        names, line = self.names, self._line
        is_round = line.text(k) == "("
        if line_words.is_rank_label(line, k):
            names.words, names.is_bound, names.labels_rank = [], False, True
        elif names.words and not names.is_bound and (is_round or measured_words.is_key_unit(names, line, k)):
            return self._add_key_unit(k)
        elif is_round and line.text(k + 1) != "*":
            names.bracket, names.words = names.last, []
        elif not is_round and names.words and line.kind(k + 1) == NUMBER:
            names.is_bound = names.is_listed = True
        else:
            names.forget()  # `loss = 0.9 (* 2 = 1.8 loss)`: no mean
        return k

    def _add_key_unit(self, k: int) -> int:
        """Add the bracket after a name: a unit, as in `time (ms): 3.1`, or a word of the name."""
        names, line = self.names, self._line
        inner = line.text(k + 2) if line.text(k + 1) == "in" and line.text(k + 3) == ")" else ""
        if unit_of(inner)[0]:  # `Throughput (in TFLOP/s)`
            self.text += literal("".join(part.gap + part.text for part in line.parts[k + 1 : k + 4]))
            names.key_unit = unit_of(inner)[0]
            return k + 3
        after = (":", "=", "|") if measured_words.bar_binds(names, line) else (":", "=")
        unit = unit_of(line.text(k + 1))[0] if line.kind(k + 1) == NAME and line.text(k + 2) in (")", "]") else ""
        if unit:
            self.text += literal(f"{line.gap(k + 1)}{line.text(k + 1)}{line.gap(k + 2)}{line.text(k + 2)}")
            names.key_unit = unit
            return k + 2
        longest = line.parts[k + 1 : k + 2 + MOST_WORDS]
        inside = list(takewhile(lambda part: part.kind in (NAME, MARK) and part.text not in ")(", longest))
        end = k + 1 + len(inside)
        words = [part.text for part in inside if part.kind == NAME]
        if words and len(inside) <= MOST_WORDS and line.text(end + 1) in after:
            self.text += literal("".join(part.gap + part.text for part in line.parts[k + 1 : end + 1]))
            names.words += words  # `Data (t): 14.2`, `Step time (fwd + bwd): 14.2`
            return end
        names.forget()
        return k

    def _add_list(self, text: str) -> None:
        """Add a list of numbers. They have the name before the list; a long list is one field of any length."""
        names = self.names
        key, last = " ".join(names.words), 1  # last: end of the number before, after the opening bracket
        names.printed |= {plain_name(key)} if key else set()
        self.text += text[0]
        if key and text[0] == "[" and text.count(",") + 1 >= _LONG_LIST and names.declaration.shape.number_rows:
            self.text += f"{{{names.fields.from_path(key)}:l}}]"
            names.forget()
            return
        for match in _LIST_NUMBER.finditer(text, 1, len(text) - 1):
            name = names.fields.from_key(key) if key and names.declaration.shape.number_rows else UNNAMED
            self.text += f"{literal(text[last : match.start()])}{{{name}:{spec_of(match[0])}}}"
            last = match.end()
        self.text += text[last:]
        names.forget()

    def _add_number(self, k: int, inside: bool) -> int:
        """Add a number with its unit. Return the index of the token after them."""
        names, line = self.names, self._line
        token, after = line.parts[k], line.text(k + 1)
        attached = line.is_glued(k + 1) and line.kind(k + 1) == NAME
        declared = names.declaration
        found = unit_of_number(line, k, " ".join(names.words), declared.unit_names, declared.measures)
        unit, end, unit_text = found.unit, found.end, found.text
        per = counted_per(line, k + 1) if after == "/" and not unit_text else ""
        key, suffix = names.key_of_number(unit, token.text, unit_text, per)
        end += 2 * bool(per and suffix == f"per_{per}")  # the word after the slash begins no name
        key, suffix = line_words.named_by_unit(names, line, (k, end), (unit, unit_text), (key, suffix))
        end += not names.words and unit == "%" and key == line.text(end) != ""
        is_factor = names.is_bound and attached and end == k + 1 and after in _TIMES and not line.sticks(k + 2)
        if attached and end == k + 1 and (is_factor or after in MAGNITUDES):
            end = k + 2
        elif end == k + 1 and (attached or after in _DAYS or (names.bracket and line_words.is_counted(line, k))):
            suffix = None
        key = key if suffix else measured_words.with_counted(names, key, unit or names.key_unit, unit_text)
        key = line_words.event_of(line, k, self._end, end) if plain_name(key) == "took" else key
        key, suffix = (
            (f"{names.counter} time", "") if line_words.ends_counted(names, line, unit, end) else (key, suffix)
        )
        magnitude = after if attached and not is_factor else ""
        name = names.field_of(key, suffix, unit or names.key_unit, magnitude, token.text, unit_text)
        if found.scale and name in names.units:
            names.units[name] = Unit("1/s", found.scale)
        factor = "q" if attached and names.has_factor(key, unit or names.key_unit, after, token.text) else ""
        type_ = factor or ("d" if names.is_counter_field(name, token.text) else "")
        whole, point, zeros = token.text.partition(".") if type_ == "d" else (token.text, "", "")
        rest = literal("".join(part.gap + part.text for part in line.parts[k + 1 + bool(factor) : end]))
        self.text += _padded(replace(token, text=whole), name, type_, self.text, inside) + point + zeros + rest
        if names.words:
            is_counter = INTEGER.fullmatch(token.text) is not None and not (names.declaration.measures and unit)
            names.counter = plain_name(key) if is_counter else ""
        names.last, names.last_unit, names.last_unit_text = key, unit, unit_text
        if unit:
            names.bases.setdefault(key, set()).add(base_of(unit))
        names.words, names.is_bound, names.suffix, names.key_unit = [], False, "", ""
        self._end = end
        return end


def _is_not_finite(names: MeterNames, text: str) -> bool:
    """Return whether a word is the value of a name: `grad: nan`, `loss nan`, but not `number of nan steps`."""
    if text.lower() not in _NOT_FINITE:
        return False
    return names.is_bound or (bool(names.words) and names.words[-1].lower().endswith(DIVERGING))


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
