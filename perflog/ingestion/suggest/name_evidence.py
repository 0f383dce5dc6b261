"""Finds which words name a number without doubt: the evidence for each pair of a name and a value on a line.

A guessed name is stored only if it is one of these, in this order:

- a mark ties it to the number: `loss: 2.3`, `acc = 0.5`, `lr=0.1`, `delay (ms): 3.1`;
- it is before the number, and nothing else between two separators: `| loss 2.3 |`, `Time 2.5 Data 0.1`;
- it is after the number, and nothing else: `(1024 samples)`, `107297 pages paged in`;
- the unit of a rate names what is counted: `12.1 tokens/s`, `3.1 ms/step`.

What contradicts a name refutes it: two numbers side by side (`loss 0 48.2`), a number that labels what follows
(`GPU 0: 45`), a part of a larger string (`2^16`, `12x`, `16.0G`), words that could belong to either neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.number_units import (
    SIZE,
    has_statistics,
    is_rate,
    is_unit_in_brackets,
    unit_of_number,
)
from perflog.formats.tokens import MARK, NAME, NUMBER, OPAQUE, UNIT, tokens
from perflog.formats.vocabulary import COUNTERS, NUMBERED, SENTENCE_WORDS, STATISTICS
from perflog.ingestion.suggest.name_words import OF_TIME, NamedLine
from perflog.ingestion.suggest.number_extents import FACTORS, PARTS
from perflog.lazy_patterns import lazy_pattern
from perflog.units import base_of, unit_of

_LEAST_LETTERS = 3  # of a word after a number: shorter ones are units, such as `ps`
_BARS_OF_PAIR = 3  # of a row of two cells
_MOST_AFTER = 4  # words of a name after its number
_MEMBER = lazy_pattern(r"[A-Za-z]+[-_]?0[0-9]+")  # a rank or a node prints the number: `60.0s r000 nid007513`
_MARKS = frozenset((":", "=", "is", "was"))  # between a name and its number
_OPENING = frozenset("([{<'\"`$~#")
_SHORT = frozenset(("min", "h"))  # units that also mean other things, unless nothing follows them
_STATISTICS = STATISTICS.difference("min minimum total sum last spread".split()).union("p50 p90 p95 p99".split())
_DIGITS = lazy_pattern(r"[_-]?[0-9]+")
_VERSIONS = frozenset(("version", "revision", "release"))
_COPULA = frozenset(("is", "was", "are", "were"))
_TAKES = frozenset(("took", "takes", "in"))
_COUNTED_IN = ("for", "of", "at", "in")
_COUNTING = frozenset("on in over with across using for".split())  # before a number and what it counts
_JOINS = frozenset(("of", "in", "on", "per", "the", "a"))  # words inside a name: `memory in use`, `number of files`


class Bond(Struct, frozen=True):
    """What names a number.

    Attributes:
        words: The words of the name, as printed; none if nothing around the number names it.
        is_sure: Whether the line ties these words to the number without doubt.
        is_unit: Whether these words are the unit of a rate, which alone names the number.
        is_further: Whether the words name the number before it first: the 10 of `step 3/10`, the 0.1 of `2.3 ± 0.1`.
        unit: The unit after the number, as printed.
        per: What else the number is counted per: `node` of `1.5 Gflop/s per node`.
        factor: The letter of a factor after the number: the B of `1.3B`.
        unit_of_name: The unit in the brackets of the name: `delay (ms): 3.1`.
    """

    words: tuple[str, ...] = ()
    is_sure: bool = False
    is_unit: bool = False
    is_further: bool = False
    unit: str = ""
    per: tuple[str, ...] = ()
    factor: str = ""
    unit_of_name: str = ""


def bonds(text: str) -> dict[int, Bond]:
    """Return the bond of each number of a line, and of each string instead of a number, by its offset."""
    line = _Line(tokens(text))
    places, end = {}, 0
    for k, token in enumerate(line.parts):
        begin = end + len(token.gap)
        end = begin + len(token.text)
        if k in line.bonds:
            places[begin] = line.bonds[k]
    return places


def common(bonds: Sequence[Bond]) -> Bond:
    """Return what names the same number in several lines: no word of its name may differ, nor its unit.

    Words that differ only in their digits have the same beginning: the `gpu` of `gpu0` and `gpu1`.
    """
    first = bonds[0]
    if all((len(bond.words), bond.unit) == (len(first.words), first.unit) for bond in bonds):
        words = tuple(map(_common_part, zip(*(bond.words for bond in bonds), strict=True)))
        if all(words):
            return replace(first, words=words)
    words = tuple(word for word in first.words if all(word in bond.words for bond in bonds))
    return Bond(words, unit=first.unit if all(bond.unit == first.unit for bond in bonds) else "")


def _common_part(words: Sequence[str]) -> str:
    """Return a word that several lines have, without digits if these differ; "" for different words."""
    parts = {words[0]} if len(set(words)) == 1 else {_DIGITS.sub("", word) for word in words}
    return parts.pop() if len(parts) == 1 else ""


def _last_part(word: str) -> str:
    """Return the last word in a name such as `HWThread`."""
    parts: list[str] = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|.", word)
    return parts[-1].lower()


class _Line(NamedLine):
    """The tokens of a line, and the bond of each number, by its index among them."""

    bonds: dict[int, Bond] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for k, token in enumerate(self.parts):
            if token.kind in (NUMBER, OPAQUE):
                self.bonds[k] = self._bond(k)

    def _is_bound(self, k: int) -> bool:
        """Whether words name the number at an index without doubt."""
        return k in self.bonds and self.bonds[k].is_sure

    def _bond(self, k: int) -> Bond:
        """Return what names a number, without doubt or not."""
        end = self.unit_end(k)
        unit, after = self._printed_unit(k)
        bond = self._sure_bond(k, end) if end is not None else None
        if bond is None:
            bond = self._nearby(k, after)
        is_factor = not unit and self.text(k + 1) in FACTORS and len(self.text(k + 1)) == 1
        per: list[str] = []
        marks = ("per", "/") if unit else ("per",)
        while not bond.is_unit and self.text(after) in marks and self.kind(after + 1) == NAME:
            per.append(self.text(after + 1))
            after += 2
        return replace(bond, unit=unit, per=tuple(per), factor=self.text(k + 1) if is_factor else "")

    def _sure_bond(self, k: int, end: int) -> Bond | None:
        """Return what names a number without doubt; None if nothing does. `end`: the index after it and its unit."""
        bond = self._bond_of_words(k, end)
        if bond is not None and self.text(end) == "/" and any("/" in word for word in bond.words):
            return None  # `events (avg/stddev): 11908.5/0.5`
        if bond is not None and self.is_cut_off(k + 1) and bond.words[-1].lower() not in COUNTERS:
            return None
        before = self.text(k - 1)
        is_after_word = self.kind(k - 1) == NAME and before.lower() not in SENTENCE_WORDS.union("x") - _COPULA
        is_after_word &= not unit_of(before)[0]
        if bond is None and is_rate(self, k, end) and not is_after_word and not self._is_in_heading():
            is_of_bar = self.text(k - 1) == "," and (self.kind(k - 2) == OPAQUE or self.text(k - 2) == "?")
            end += 2 * (self.text(end) == "per") + 3 * (self.text(end + 1) == "per")
            words = tuple(part.text for part in self.parts[k + 1 : end])
            if is_of_bar:  # it counts what the bar counts, perhaps an evaluation
                words = (*self._description(), *" per ".join("".join(words).split("/")).split())
            return Bond(words, is_sure=True, is_unit=True)
        return replace(bond, is_sure=True) if bond is not None else None

    def _is_in_heading(self) -> bool:
        """Whether a line is a heading, or names columns, with one number: `128 tokens per GPU:`."""
        texts = [part.text for part in self.parts]
        is_row = texts[0] == "|" and texts.count("|") > _BARS_OF_PAIR
        return sum(part.kind == NUMBER for part in self.parts) == 1 and (is_row or texts[-1] == ":")

    def _description(self) -> list[str]:
        """Return the first words of a line, before its first number."""
        first = next((k for k, part in enumerate(self.parts) if part.kind == NUMBER), 0)
        return [part.text for part in self.parts[:first] if part.kind == NAME][:2]

    def _nearby(self, k: int, end: int) -> Bond:
        """Return the words before a number, else those after it, that may name it."""
        is_part = self.is_glued(k) and self.text(k - 1) in PARTS
        is_part |= self.is_glued(k + 1) and self.text(k + 1) in PARTS - {"."}
        if is_part or self.kind(k + 1) == NUMBER:
            return Bond()
        before = k - 1
        while before >= 0 and (self.text(before) in _OPENING or self.text(before) in _MARKS):
            before -= 1
        words, first = self.name_before(before)
        if self._is_counted(first - 1) and not self.begins_segment(first):  # `img/sec on 8 GPUs: 0.5`
            words = self.name_before(first - 3)[0]
        names_nothing = not words or words[-1] in NO_VALUE or words[-1].lower() in SENTENCE_WORDS | {"x"}
        names_nothing |= len(words) == 1 and bool(unit_of(words[0])[0]) and self.kind(first - 1) in (NUMBER, OPAQUE)
        names_nothing |= self.kind(first - 1) == NUMBER and len(self.gap(k)) > len(self.parts[first].gap) == 1
        is_weak = self.text(k - 1) in _OPENING or (len(words) == 1 and words[0].endswith("ing") and before == k - 1)
        after = self._words_after(end) if names_nothing or is_weak else ()
        return Bond(after) if after or names_nothing else Bond(words, unit_of_name=self.unit_of_name(before + 1))

    def _words_after(self, end: int) -> tuple[str, ...]:
        """Return the words after a number that do not belong to the next one."""
        words: list[str] = []
        end += self.text(end) in FACTORS
        if end >= len(self.parts) or len(self.parts[end].gap) != 1:
            return ()
        while self.kind(end) == NAME and not (words and self.begins_segment(end)) and len(words) < _MOST_AFTER:
            if self.text(end).lower() in SENTENCE_WORDS:
                return tuple(words)
            words.append(self.text(end))
            end += 1
        is_of_next = self.kind(end) == NUMBER and len(self.parts[end].gap) < 2
        names_nothing = is_of_next or self.text(end) in (":", "=") or all(map(_MEMBER.fullmatch, words))
        return () if names_nothing else tuple(words)

    def _is_counted(self, k: int) -> bool:
        """Whether words after a number of a sentence say what it counts: `on 8 GPUs`, `over 100 frames`."""
        is_in_sentence = self.text(k - 1).lower() in _COUNTING
        return self.kind(k) == NUMBER and is_in_sentence and not self._is_bound(k)

    def _printed_unit(self, k: int) -> tuple[str, int]:
        """Return the unit after a number, as printed, and the index after it; "" without one."""
        found = unit_of_number(self, k)
        if found.unit and not found.scale and unit_of(found.text)[0] == found.unit:
            return found.text, found.end
        word = self.text(k + 1)
        is_apart = word in _SHORT and len(self.gap(k + 1)) == 1 and self.ends(k + 2)
        is_least = word == "min" and has_statistics(part.text for part in self.parts)
        return (word, k + 2) if is_apart and not is_least else ("", k + 1)

    def _bond_of_words(self, k: int, end: int) -> Bond | None:
        """Return the bond of words around a number; None for none."""
        before = k - 1
        while before >= 0 and self.text(before) in _OPENING:
            before -= 1
        mark = self._mark(k, before, end)
        if self._is_amount(k):
            return Bond((self.text(k + 1),))
        if self.text(k - 1) == "in" and self._is_amount(k - 3):
            return Bond(("time",))
        if self._names_follow(k):
            return Bond((*self._description(), self.text(k + 1)))
        if mark is not None:
            return None if self._begins_list_of_names(k) or self._is_named_after(end) else self._marked(mark)
        if self._is_glued_name(k, before):
            words = (self.text(k - 2),) if self.text(k - 1) == "@" else self.name_before(before)[0]
            return self._of_counter(words) if self.text(k - 1) != "@" else Bond(words)
        is_total = self.text(k - 1) in ("/", "of") and (self.is_glued(k) or self.kind(end) != NAME)
        is_share = self.text(k - 1) in ("(", "[") and self.text(end - 1) == "%" and self.begins_segment(end)
        if is_total or is_share or self.is_spread(k - 1):
            bond = self.bonds.get(self.number_before(k - 1))
            return Bond(bond.words, is_further=True) if bond is not None and bond.is_sure else None
        is_word = self.kind(before) == NAME or (self.text(before) == "." and self.kind(before - 1) == NAME)
        is_word |= is_unit_in_brackets(self, before - 2) and bool(unit_of(self.text(before - 1))[0])
        return self._beside(k, end) if before == k - 1 and is_word else self._after(k, end)

    def _is_amount(self, k: int) -> bool:
        """Whether a number counts the things after it, before a time and a rate: `52 tokens in 1.5s (33 tok/s)`."""
        kinds = [part.kind for part in self.parts[max(k, 0) : k + 7]]
        is_timed = self.text(k + 2) == "in" and self.text(k + 5) == "(" and "/" in self.text(k + 7)
        return is_timed and kinds == [NUMBER, NAME, NAME, NUMBER, UNIT, MARK, NUMBER] and self.text(k + 1)[-1] == "s"

    def _names_follow(self, k: int) -> bool:
        """Whether statistics follow all numbers of a line: `Nlocal: 1000 ave 2000 max 300 min`."""
        names = [self.text(i + 1).lower() for i, part in enumerate(self.parts) if part.kind == NUMBER]
        return self.kind(k) == NUMBER and len(names) > 1 and _STATISTICS.issuperset({*names} - {"min"})

    def _begins_list_of_names(self, k: int) -> bool:
        """Whether a word is after each of three numbers: `Cpu: 12.3 us, 1.2 sy, 0.0 ni`."""
        places = range(k, k + 9, 3)
        ends = all(self.text(place + 2) == "," for place in places[:2])
        return ends and all(self.kind(p) == NUMBER and self.kind(p + 1) == NAME for p in places)

    def _is_named_after(self, end: int) -> bool:
        """Whether the word after a number says what is counted, as after the next one: `Jobs: 2 running | 1 done`."""
        end += 2 * (self.text(end) == "/" and self.kind(end + 1) == NUMBER)  # `Resources: 4.0/16 CPUs, 2.0/2 GPUs`
        word = self.text(end)
        if self.kind(end) != NAME or unit_of(word)[0] or "/" in word or self.text(end + 1) in (":", "="):
            return False
        following = end + 1 + (self.text(end + 1).lower() in SENTENCE_WORDS or self.text(end + 1) in (",", "|"))
        if self.kind(following) != NUMBER:
            return False
        after = following + 1 + 2 * (self.text(following + 1) == "/")
        is_plural = word[-1] == "s" and word[-2:] != "ss"
        return self.kind(after) == NAME and (is_plural or following > end + 1)

    def _mark(self, k: int, before: int, end: int) -> int | None:
        """Return the index of the mark that ties a name to a number: `:`, `=`, dots, the bar of a row of two cells."""
        is_bar = self.text(before) == "|" and before == k - 1 and self._is_pair_of_cells(end)
        if is_bar or self.text(before) in (":", "="):
            return before
        if self.text(k - 1) == self.text(k - 2) == ".":  # `batch_size ...... 4`
            return next(i for i in range(k - 1, -2, -1) if self.text(i) != ".") + 1
        return None

    def _is_glued_name(self, k: int, before: int) -> bool:
        """Whether a number follows as in `CPU@40C`, or as in `Epoch[3]`."""
        if self.text(k - 1) == "@":
            is_glued = self.is_glued(k) and self.is_glued(k - 1) and self.is_glued(k + 1)
            return self.kind(k - 2) == NAME and is_glued and self.kind(k + 1) in (NAME, UNIT)
        is_bracket = before == k - 2 and self.text(k - 1) in ("[", "(", "#")
        return is_bracket and self.text(before).lower() in COUNTERS

    def _is_pair_of_cells(self, end: int) -> bool:
        """Whether a line is a row of two cells, a name and a number."""
        return (
            self.text(end) == "|"
            and [part.text for part in self.parts].count("|") == _BARS_OF_PAIR
            and self.text(0) == "|"
        )

    def _marked(self, mark: int) -> Bond | None:
        """Return the bond of a number after a colon or an equal sign."""
        mark -= self.text(mark - 1) == ":"
        if self.text(mark - 1) in ("=", "!", "<", ">", "+", "-"):
            return None
        last = mark - 1
        while self.text(last) in ('"', "'", "`", "*"):
            last -= 1
        words, first = self.name_before(last, is_marked=True)
        is_size = len(words) == 1 and base_of(unit_of(words[0])[0]) == "B"
        if is_size and self.kind(first - 1) == NUMBER:  # `8 KB : 0.3 Gbps`; but `n= 104 min= 218.8`
            return None
        number = first - 1 - (self.kind(first - 1) == NAME)
        is_in_name = self.kind(number) == NUMBER and self.text(number - 1) == "/" and self.kind(number - 2) == NAME
        is_in_name = self._is_counted(number) or (is_in_name and not self._is_bound(number))
        if is_in_name and not self.begins_segment(first):  # `Latency / 1K tokens: 0.5`, `img/sec on 8 GPUs: 0.5`
            return None
        if words and words[-1].lower() in ("are", "were"):
            return None
        is_time = OF_TIME.search(" ".join(words)) is not None
        units = [self.text(i + 1) for i in range(first, mark) if is_unit_in_brackets(self, i)]
        unit = next((x for x in units if unit_of(x)[0] and (x != "s" or is_time)), "")  # `GPU(s)` is a plural
        return Bond(words, unit_of_name=unit) if words and words[-1].lower() not in _VERSIONS else None

    def _before_count(self, k: int) -> tuple[str, ...]:
        """Return the words before the count of a moment that a verb follows: `Time taken for epoch 3 is 12.5 s`."""
        is_count = self.text(k) in _COPULA and self.kind(k - 1) == NUMBER and self.text(k - 2) in COUNTERS
        return tuple(self.name_before(k - 4)[0]) if is_count and self.text(k - 3) in _COUNTED_IN else ()

    def _beside(self, k: int, end: int) -> Bond | None:
        """Return the bond of a number with words before it that no mark ties to it."""
        words, first = self.name_before(k - 1)
        if words and words[-1].lower() in ("is", "was"):
            return self._of_sentence((*self._before_count(first), *words[:-1]), end)
        is_option = self.text(first) == "-"  # `train.py --batch 64`
        if not words or words[-1] in NO_VALUE or is_option or (first == 0 and self._is_version(k, end)):
            return None
        is_whole = self.text(k).isdecimal()
        if words[-1].lower() in COUNTERS and is_whole:
            return self._of_counter(words)
        unit = unit_of("".join(self.texts(k + 1, end)))[0]
        is_time = base_of(unit) == "s"
        if words[-1].lower() in _TAKES and is_time and len(words) > 1 and self.ends(end) and self.begins_segment(first):
            return Bond(words[:-1])
        is_sentence = any(word.lower() in SENTENCE_WORDS or word == "x" for word in words) or len(words) > _MOST_AFTER
        is_sentence |= words[-1].endswith("ing") and self.kind(end) == NAME  # `Fetching 2 files: 50%`
        if is_sentence or (is_whole and _last_part(words[-1]) in NUMBERED):
            return None
        is_cell = len(self.gap(k)) > 1 and first > 0 and len(self.parts[first].gap) > 1
        if is_cell:  # of a row: `P2   101W / 100W`
            return None
        if self.text(first - 1) in (":", "=") and self.kind(first - 2) == NAME and not self.leads_to_number(end):
            return None  # `version: OpenCL 1.2`
        is_chained = self._is_bound(self.number_before(first))
        if not (self.begins_segment(first) or is_chained):
            return None
        if not (self.ends(end) or self.leads_to_number(end) or self.kind(end) == NUMBER):
            return None
        is_last = is_chained and "_" in words[-1]  # of `dtype float16 batch_size 8`
        return Bond(words[-1:] if is_last else words, unit_of_name=self.unit_of_name(k))

    @staticmethod
    def _of_counter(words: tuple[str, ...]) -> Bond | None:
        """Return the bond of a number after a counter: of `on rank 3` the rank, of `tokens per rank 512` all words."""
        if "per" in words or SENTENCE_WORDS.isdisjoint(word.lower() for word in words[:-1]):
            return Bond(words)
        return Bond(words[-1:]) if words[-2].lower() in SENTENCE_WORDS and words[-1][-1] != "s" else None

    def _is_version(self, k: int, end: int) -> bool:
        """Whether a number belongs to the name of a program, and its title follows: `Linpack 2.3 -- A test`."""
        after = [part.kind for part in self.parts[end : end + 6]]
        is_short = re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", self.text(k)) is not None
        return is_short and end == k + 1 and self.text(end) == "-" and NUMBER not in after and after.count(NAME) > 1

    def _of_sentence(self, words: Sequence[str], end: int) -> Bond | None:
        """Return the bond of a number after `is`: the name begins after the last word that belongs to a sentence."""
        is_stop = [word.lower() in SENTENCE_WORDS and word not in _JOINS for word in words]
        name = tuple(words[len(words) - is_stop[::-1].index(True) :] if True in is_stop else words)
        name = tuple(dropwhile(_JOINS.__contains__, name))
        return Bond(name) if name and (self.ends(end) or self.text(end) in ("per", "and")) else None

    def _after(self, k: int, end: int) -> Bond | None:
        """Return the bond of a number with only words after it."""
        is_apart = end < len(self.parts) and len(self.parts[end].gap) > 1
        is_apart |= self.text(k - 1) == "/" and not self._is_bound(self.number_before(k - 1))
        if is_apart or not self.begins_segment(k) or self.kind(k - 1) in (NUMBER, UNIT):
            return None
        if k == 0 and all(re.match("[A-Z][a-z]", part.text) for part in self.parts[1:]):  # a heading: `2.1 Top Kernels`
            return None
        words: list[str] = []
        while self.kind(end) == NAME and not (words and self.begins_segment(end)) and len(words) <= _MOST_AFTER:
            words.append(self.text(end))
            end += 1
        names = words[:-1] if words and words[-1] in ("in", "out") else words
        is_sentence = any(word.lower() in SENTENCE_WORDS for word in names) or len(words) > _MOST_AFTER
        is_sentence |= self.kind(end) == NUMBER or any(
            SIZE.fullmatch(word) or len(word) < _LEAST_LETTERS for word in names
        )
        is_sentence |= all(map(_MEMBER.fullmatch, names))
        if names != words and len(words) > 1:  # `pages paged in`
            words[-2:] = [f"{words[-2]}_{words[-1]}"]
        return Bond(tuple(words)) if names and not is_sentence and self.ends(end) else None
