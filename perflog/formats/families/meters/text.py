"""The template string of a line of meters: its words and marks as they are, a field for each number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.durations import measures
from perflog.formats.families.base import gap_text, literal, spec_of
from perflog.formats.families.measured_lines import LABELS
from perflog.formats.families.meters.bars import PATTERN as BAR_PATTERN
from perflog.formats.families.meters.bars import BarText
from perflog.formats.families.meters.names import COUNTER_WORDS, INTEGER, TOTAL, MeterNames
from perflog.formats.families.meters.number_units import SPREAD, counted_per, sticks, unit_of_number
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.families.name_units import is_statistic
from perflog.formats.template import UNNAMED, Template
from perflog.formats.tokens import LIST, MARK, NAME, NUMBER, OPAQUE, UNIT, Token, tokens
from perflog.formats.vocabulary import COUNTED_UP, DEVICE, EVALUATIONS, LEVELS, STATISTICS, TRAINING, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, STEP_WORDS, UNITS, Unit, base_of, unit_of

_MOST_WORDS = 6  # of a name
_FEWEST_BOUND = 3  # numbers of a line that begins with its case
_NAME_AT_END = lazy_pattern(r"([A-Za-z_]\w*)[:=]$")
_PAIRS_AT_END = lazy_pattern(r"(?:\s[^\s=]+=[^\s=]+){3}\s*$")
_LIST_NUMBER = lazy_pattern(r"[+-]?[0-9.][0-9.eE+-]*")
_PLURAL = lazy_pattern(r"[a-z]+s")
_LONG_LIST = 4  # numbers of a list that are one field: their count may differ from line to line
_TIMES = frozenset("x×")  # `speedup: 1.01x`: no unit, and part of no name
_NAMES_PER_STEP = frozenset(("time", "speed"))  # of a number that is counted per step: `time: 7.5 s/iter`
_SHARES = (["mfu"], ["hfu"])  # words after a number: `12.5% MFU`
_NOT_FINITE = frozenset(("nan", "inf", "infinity"))
_DAYS = frozenset(("day", "days"))
_COUNTED = frozenset(f"{word}s" for word in COUNTED_UP)
_SHAPE = lazy_pattern(r"[0-9]+(?:[x×][0-9]+)+")  # what a line measures: `matmul (4096x4096): 12.5 ms, 123 TFLOPS`
_DEVICE = lazy_pattern(r"[a-z]+:[0-9]{1,4}")
_CASE = lazy_pattern(r"\A[A-Za-z]\w*(?= \(\Z)")
_NO_VALUE = frozenset(map(str.lower, NO_VALUE))


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
        names = self.names
        k = 0
        while k < len(parts):
            token = parts[k]
            if self._is_index(parts, k):
                self.text += gap_text(token.gap) + token.text
                names.words.append(token.text)
                k += 1
                continue
            if self._is_count_in_name(parts, k):
                self.text += _padded(token, UNNAMED, "d", self.text, bool(k) or is_inside)
                k += 1
                continue
            if self._is_percentile(parts, k):
                self.text += gap_text(token.gap) + token.text + parts[k + 1].text
                names.words, names.is_bound = [f"p{token.text}"], False
                k += 2
                continue
            if self._names_model(parts, k):
                self._add_model(token)
                k += 2
                continue
            if token.kind == NUMBER or (names.is_bound and token.text.lower() in _NOT_FINITE):
                k = self._add_number(parts, k, bool(k) or is_inside)
                continue
            self.text += gap_text(token.gap) if k or is_inside or not token.gap else "{_:b}"
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

    def _names_model(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a number with letters is the name of a model: `model=7b`."""
        following = parts[k + 1 : k + 2]
        is_glued = parts[k].kind == NUMBER and bool(following) and following[0].kind == NAME and not following[0].gap
        return is_glued and self.names.is_bound and self.names.words[-1:] in (["model"], ["Model"])

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

    def _add_word(self, parts: Sequence[Token], k: int) -> int:
        """Add a word of a name, with what sticks to it: `Acc@1`, `loss_2`. Return the index of the next token."""
        names = self.names
        if self._is_own_device(parts, k):
            self.text += f"{literal(parts[k].text.partition(':')[0])}:{{{names.fields.declared(DEVICE)}:d}}"
            return k + 1
        self._begin_section(parts, k)
        word = parts[k].text
        if names.is_bound and word.lower() in _NO_VALUE:  # `eta: N/A  iter: 60`
            self.text += literal(word)
            names.forget()
            return k + 1
        while k + 2 < len(parts) and parts[k + 1].text in ("@", "/", "#") and not parts[k + 1].gap + parts[k + 2].gap:
            if parts[k + 2].kind not in (NAME, NUMBER):
                break
            word += parts[k + 1].text + parts[k + 2].text
            k += 2
        if self._is_case(parts, k) and word == parts[k].text:  # `Provider: deepgemm, Time: 62.1 ms`
            self.text += f"{{{names.fields.from_key(' '.join(names.words))}:w}}"
            names.forget()
            return k + 1
        if self._begins_pairs(parts, k):
            if self.text == f"{parts[0].text}{{_:b}}":
                self.text = f"{{{names.fields.from_key('case')}:w}}{{_:b}}"
            names.words = []
        end = _end_of_call(parts, k + 1)
        word, k = word + "".join(part.text for part in parts[k + 1 : end]), end - 1
        self.text += literal(word)
        is_value = names.is_bound and names.mark == "="  # `Device=cpu Epoch=1`
        names.words = [] if is_value else [word] if names.is_bound else [*names.words, word][-_MOST_WORDS:]
        names.words = [] if word in LEVELS or self._is_label(parts, k) else names.words
        self._after_level |= word in LEVELS
        names.is_bound, names.suffix = False, ""
        names.key_unit = names.key_unit if is_statistic(word) and len(names.words) > 1 else ""  # `Latency (ms) p50: 3`
        if len(names.words) > 2 and names.words[-2] == "in":
            names.key_unit = unit_of(names.words[-1])[0]  # `train_step_timing in s=12.80`
        return k + 1

    def _begins_pairs(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether words before a wide gap are no part of the name after it: `gemm_bf16    m=64  time=2.5us`.

        One at the start of a measured line names its case.
        """
        names = self.names
        is_pair = len(parts[k].gap) > 1 and [part.text for part in parts[k + 1 : k + 2]] == ["="]
        is_word = bool(names.words) and names.words[0].lower() not in EVALUATIONS | TRAINING | LABELS
        return names.declaration.measures and is_pair and is_word and not names.is_bound

    def _is_label(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a word only says that measured pairs follow: `RESULT tp=8 ttft_ms=32.1`."""
        follows = [part.text for part in parts[k + 2 : k + 3]] == ["="]
        return self.names.declaration.measures and not k and follows and parts[k].text.lower() in LABELS

    def _is_case(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a word is what a name of a measured line has as its value, before the next name."""
        names = self.names
        after = parts[k + 1 : k + 3]
        is_last = names.mark == "=" and (not after or [part.text for part in after[1:]] == ["="])  # `dtype=bf16 bs=2`
        is_whole = parts[k].text.isidentifier() and (is_last or (bool(after) and after[0].text in (",", "|", ";")))
        return names.declaration.measures and names.is_bound and bool(names.words) and is_whole and not names.is_listed

    def _begin_section(self, parts: Sequence[Token], k: int) -> None:
        """Note the phase that a word says of the names after it: `train: loss 0.5 acc 0.9, val: loss 0.6 acc 0.8`."""
        names = self.names
        word, following = parts[k].text.lower(), parts[k + 1 : k + 3]
        if not k and names.declaration.shape.line.table != "steps" and _names_group(parts):
            names.group = parts[k].text
        begins = len(following) == 2 and following[0].text in (":", "|", "-", "]", ")") and following[1].kind == NAME
        begins |= bool(following) and following[0].kind == NAME and len(following[0].gap) > 1
        if begins and word in EVALUATIONS | TRAINING and (names.is_bound or not names.words):
            names.evaluation = word if word in EVALUATIONS else ""

    def _add_mark(self, parts: Sequence[Token], k: int) -> int:
        """Add a mark. Return the index of the last token that belongs to it."""
        names = self.names
        mark = parts[k].text
        self.text += literal(mark)
        if (mark in ":=" or (mark == "|" and self._binds(parts)) or self._binds_measured(parts, k)) and names.words:
            names.is_bound, names.mark = True, mark
            if self._names_logger(mark):
                del names.words[:-1]
        elif mark in ("(", "["):
            return self._open_bracket(parts, k)
        elif mark == ")":
            names.bracket, names.words = "", []
        elif mark == "/" and names.last and not names.words:
            names.suffix = TOTAL
        elif mark == SPREAD and names.last and not names.words:
            names.words, names.is_bound = [names.last, "spread"], True
        elif mark == ",":
            self._note_comma(parts, k)
        elif mark in "+&" and not names.is_bound and k + 1 < len(parts) and parts[k + 1].kind == NAME:
            pass  # `fwd+bwd 412 ms` is no time of the backward pass
        elif mark not in "'\"":
            names.forget()
        return k

    def _note_comma(self, parts: Sequence[Token], k: int) -> None:
        """Note what ends at a comma. Words at the start are the case: `L2 read, iters: 9, mean: 3 us`."""
        names = self.names
        if names.declaration.measures and not names.printed and self._is_after_case(parts, k):
            self.text = f"{{{names.fields.from_key('case')}:,c}},"
        names.words = names.words if names.is_bound else []

    @staticmethod
    def _is_after_case(parts: Sequence[Token], k: int) -> bool:
        are_words = k > 0 and all(part.kind == NAME or part.text in "()" for part in parts[:k])
        is_phase = parts[0].text.lower() in EVALUATIONS | TRAINING | LABELS
        return are_words and not is_phase and sum(part.text in "=:" for part in parts[k:]) >= _FEWEST_BOUND

    def _names_logger(self, mark: str) -> bool:
        """Return whether the words before the last one name the logger: `INFO trainer step=5 loss=2.5 lr=0.001`.

        That is known before a counter or a rank alone: `INFO best loss=2.5` is no loss of a step.
        """
        words, is_first = self.names.words, self._after_level and not self.names.printed
        is_first = is_first and self._is_pairs and mark == "=" and words[-1].lower() in COUNTER_WORDS
        return is_first and words[0].lower() not in EVALUATIONS | TRAINING | STATISTICS

    def _binds(self, parts: Sequence[Token]) -> bool:
        """Return whether a bar binds a number to its name, as a colon does: `Latency (average)  | 10955 ns`."""
        return self.names.declaration.measures and sum(part.text == "|" for part in parts) == 1

    def _binds_measured(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a mark binds a measured number to its name: `Iteration time ~0.9 s`, `[Decode time] 296 s`."""
        names = self.names
        is_mark = parts[k].text == "~" or (parts[k].text == "]" and parts[0].text == "[" and k == len(names.words) + 1)
        return names.declaration.measures and is_mark and k + 1 < len(parts) and parts[k + 1].kind == NUMBER

    def _open_bracket(self, parts: Sequence[Token], k: int) -> int:
        """Note what an opening bracket means. Return the index of the last token that belongs to it."""
        names = self.names
        is_round, following = parts[k].text == "(", parts[k + 1 : k + 2]
        if _is_rank_label(parts[k + 1 : k + 4]):
            names.words, names.is_bound, names.labels_rank = [], False, True
        elif is_round and names.words and not names.is_bound:
            return self._add_key_unit(parts, k)
        elif is_round and not (following and following[0].text == "*"):
            names.bracket, names.words = names.last, []
        elif not is_round and names.words and following and following[0].kind == NUMBER:
            names.is_bound = names.is_listed = True
        else:
            names.forget()  # `loss = 0.9 (* 2 = 1.8 loss)`: no mean
        return k

    def _add_key_unit(self, parts: Sequence[Token], k: int) -> int:
        """Add the bracket after a name: a unit, as in `time (ms): 3.1`, or a word of the name."""
        names = self.names
        after = (":", "=", "|") if self._binds(parts) else (":", "=")
        if k + 2 < len(parts) and parts[k + 1].kind == NAME and parts[k + 2].text == ")":
            unit = unit_of(parts[k + 1].text)[0]
            if unit:
                self.text += literal(f"{parts[k + 1].gap}{parts[k + 1].text}{parts[k + 2].gap})")
                names.key_unit = unit
                return k + 2
        inside = list(takewhile(lambda part: part.kind in (NAME, MARK) and part.text not in ")(", parts[k + 1 :]))
        end = k + 1 + len(inside)
        words = [part.text for part in inside if part.kind == NAME]
        if words and len(inside) <= _MOST_WORDS and end + 1 < len(parts) and parts[end + 1].text in after:
            self.text += literal("".join(part.gap + part.text for part in parts[k + 1 : end + 1]))
            names.words += words  # `Data (t): 14.2`, `Step time (fwd + bwd): 14.2`
            return end
        names.forget()
        return k

    def _add_list(self, text: str) -> None:
        """Add a list of numbers. They have the name before the list."""
        names = self.names
        key, last = " ".join(names.words), 1
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

    def _add_number(self, parts: Sequence[Token], k: int, inside: bool) -> int:
        """Add a number with its unit. Return the index of the token after them."""
        names = self.names
        token = parts[k]
        after = parts[k + 1].text if k + 1 < len(parts) else ""
        attached = k + 1 < len(parts) and parts[k + 1].kind == NAME and not parts[k + 1].gap
        unit, end, unit_text, scale = unit_of_number(parts, k, " ".join(names.words), names.declaration)
        per = counted_per(parts, k + 1) if after == "/" and not unit_text else ""
        key, suffix = names.key_of_number(unit, token.text, unit_text, per)
        end += 2 * bool(per and suffix == f"per_{per}")  # the word after the slash begins no name
        key, suffix = self._named_by_unit((token, *parts[end : end + 1]), (unit, unit_text), (key, suffix))
        end += not names.words and unit == "%" and [key] == [part.text for part in parts[end : end + 1]]
        is_factor = names.is_bound and attached and end == k + 1 and after in _TIMES and not sticks(parts, k + 2)
        if attached and end == k + 1 and (is_factor or after in MAGNITUDES):
            end = k + 2
        elif end == k + 1 and (attached or after in _DAYS or (names.bracket and _is_counted(parts, k))):
            suffix = None
        if names.declaration.measures and key and not suffix:
            key = _with_counted(key, unit or names.key_unit, unit_text)
        key = self._event(parts, k, end) if plain_name(key) == "took" else key
        magnitude = after if attached and not is_factor else ""
        name = names.field_of(key, suffix, unit or names.key_unit, magnitude, token.text, unit_text)
        if scale and name in names.units:
            names.units[name] = Unit("1/s", scale)
        factor = "q" if attached and names.has_factor(key, unit or names.key_unit, after, token.text) else ""
        type_ = factor or ("d" if names.is_counter_field(name, token.text) else "")
        whole, point, zeros = token.text.partition(".") if type_ == "d" else (token.text, "", "")
        self.text += _padded(replace(token, text=whole), name, type_, self.text, inside) + point + zeros
        self.text += literal("".join(part.gap + part.text for part in parts[k + 1 + bool(factor) : end]))
        if names.words:
            is_counter = INTEGER.fullmatch(token.text) is not None and not (names.declaration.measures and unit)
            names.counter = plain_name(key) if is_counter else ""
        names.last, names.last_unit, names.last_unit_text = key, unit, unit_text
        if unit:
            names.bases.setdefault(key, set()).add(base_of(unit))
        names.words, names.is_bound, names.suffix, names.key_unit = [], False, "", ""
        self._end = end
        return end

    def _named_by_unit(
        self, tokens: Sequence[Token], unit: tuple[str, str], name: tuple[str, str | None]
    ) -> tuple[str, str | None]:
        """Return the name of a number where its unit, or a word after it, names it; else `name`.

        Args:
            tokens: The number, and what follows it and its unit.
            unit: Its unit, and the printed one.
            name: What `key_of_number` says.
        """
        names, base = self.names, base_of(unit[0]) if unit[0] else ""
        per = unit[1].partition("/")[2]
        if name[1] is None and UNITS.get(unit[0]) == UNITS["1/s"]:
            label = f"{names.last} " if names.declaration.measures and len(tokens[0].gap) > 1 else ""
            return f"{label}{unit[1].replace('/', '_per_')}", ""
        if base == "s" and per in STEP_WORDS and (not names.words or plain_name(name[0]) in _NAMES_PER_STEP):
            return "step time", ""
        if base == "s" and per and not names.words:
            return f"time per {per}", ""
        if unit[0] == "%" and not names.words and [token.text.lower() for token in tokens[1:]] in _SHARES:
            return tokens[1].text, ""
        return name

    def _event(self, parts: Sequence[Token], k: int, end: int) -> str:
        """Return the name of a time that `took` names: `saved, took 5 s` and `took 5 s to save` are of no step."""
        since = takewhile(lambda part: part.kind != LIST, reversed(parts[self._end : k]))
        before = [part.text for part in since if part.kind == NAME][::-1]
        after = [part.text for part in takewhile(lambda part: part.kind == NAME, parts[end:])]
        is_name = [part.kind == NUMBER or part.text in "=:" for part in parts[end + len(after) :][:1]] == [True]
        return " ".join([*before, *([] if is_name else after)][-_MOST_WORDS:])

    def _is_percentile(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a number with a percent sign names a measured one: `Avg: 424 KiB/s, 50%: 412 KiB/s`."""
        texts, kinds = [part.text for part in parts[k + 1 : k + 3]], [part.kind for part in parts[k + 3 : k + 4]]
        is_key = parts[k].kind == NUMBER and texts in (["%", ":"], ["%", "="]) and kinds == [NUMBER]
        return self.names.declaration.measures and is_key and not self.names.is_bound

    def _is_count_in_name(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a whole number is among the words of a measured one's name: `Generated 96 tokens: 1.78 s`."""
        names, after = self.names, parts[k + 1 : k + 4]
        is_inside = [p.kind for p in after] == [NAME, MARK, NUMBER] and after[1].text in ":=" and not names.is_bound
        is_counted = is_inside and after[0].text.lower() in _COUNTED
        return names.declaration.measures and is_counted and bool(names.words) and parts[k].text.isdecimal()

    def _is_own_device(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a word is the device of the process that prints the line of a step, not one of several."""
        names = self.names
        if not names.counts_steps or not names.words or not _DEVICE.fullmatch(parts[k].text):
            return False  # before a look at all words, for each word of a long line
        is_followed = [(part.kind, bool(part.gap)) for part in parts[k + 1 : k + 2]] == [(NUMBER, True)]
        devices = [part.text for part in parts if part.kind == NAME and _DEVICE.fullmatch(part.text)]
        return is_followed and devices == [parts[k].text] and not names.fields.is_taken(DEVICE)

    def _is_index(self, parts: Sequence[Token], k: int) -> bool:
        """Return whether a whole number ends the name of a measured one: `batch 1: 522.09s`, `gemm 64   3 us`."""
        names = self.names
        after = [part.text for part in parts[k + 1 : k + 2]] + [part.kind for part in parts[k + 2 : k + 3]]
        is_name = bool(names.words) and not names.is_bound and names.words[-1].lower() not in COUNTER_WORDS - {"batch"}
        is_of_row = after[:1] != [":"] and [(p.kind, len(p.gap) > 1) for p in parts[k + 1 : k + 2]] == [(NUMBER, True)]
        is_index = after == [":", NUMBER] or (is_of_row and len(parts[k].gap) == 1)
        return names.declaration.measures and is_name and is_index and parts[k].text.isdecimal()


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
    is_pairs = texts[1:2] == [":"] and texts[3:4] == ["="] and texts[2].lower() not in COUNTER_WORDS
    is_no_group = texts[0].lower() in EVALUATIONS | TRAINING | LABELS or texts[0] in LEVELS
    return is_pairs and not is_no_group and ":" not in texts[2:]


def _with_counted(key: str, unit: str, printed: str) -> str:
    """Return the name of a measured rate with what is counted, if it lacks it: `Throughput: 13277 tokens/s`."""
    if unit not in ("tok/s", "1/s"):
        return key
    counted = "tokens" if unit == "tok/s" else printed.rpartition("/")[0].partition("/")[0].strip()  # "" for `12 qps`
    is_named = not counted or plain_name(counted)[:3] in plain_name(key) or "tps" in plain_name(key)
    return key if is_named else f"{key} {counted} per s"


def _is_counted(parts: Sequence[Token], k: int) -> bool:
    """Return whether a number in a bracket counts what the word after it names: `ttft = 2.53s (20 requests)`."""
    after, closing = parts[k + 1], parts[k + 2 : k + 3]
    is_plural = after.kind == NAME and bool(after.gap) and _PLURAL.fullmatch(after.text) is not None
    return is_plural and INTEGER.fullmatch(parts[k].text) is not None and [x.text in ",)" for x in closing] == [True]


def _is_rank_label(parts: Sequence[Token]) -> bool:
    """Return whether the tokens after an opening bracket are a label `(rank 0)`, and nothing else."""
    kinds = [part.kind for part in parts[:2]]
    return (
        len(parts) == 3
        and kinds == [NAME, NUMBER]
        and parts[0].text.lower() == "rank"
        and INTEGER.fullmatch(parts[1].text) is not None
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
