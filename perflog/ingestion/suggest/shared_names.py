"""Distinguishes numbers of one name in different lines: the `acc` of `train: acc 0.5` and of `test: acc 0.4`.

Each entry names its numbers by itself. Where two entries give the same name, the words that only one of them has before
its first number become part of the name. Without such words, the names of their first numbers distinguish them, if
nothing else does: `train_loss: 2.5 acc: 0.5` and `val_loss: 2.7 acc: 0.4`; for lines of one number, the words after it;
for rates, the times before them: `prefill: 0.05 s, rate: 553 tok/s`.
An entry that merely lacks a number of the other one prints the same series.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from msgspec.structs import replace

from perflog.formats.tokens import NUMBER
from perflog.formats.vocabulary import LEVELS, PLACES
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, UNSURE, LineDraft, Slot
from perflog.tables.schema import column_for
from perflog.units import base_of, unit_of

_TABLES = ("values", "summaries")
_PLACES = frozenset((*PLACES, "epoch", "world_size"))  # names of numbers that locate a row
_LEVELS = frozenset(map(str.lower, LEVELS))
_MOST_WORDS = 3
_LEAST_LETTERS = 3  # of a word in a name that distinguishes others


def tell_apart(entries: Sequence[LineDraft]) -> None:
    """Put the words that differ before the names that entries of tables `values` and `summaries` share."""
    sharing: dict[tuple[str, bool], list[tuple[LineDraft, Slot]]] = {}
    for entry in entries:
        if entry.table in (*_TABLES, "steps"):
            for slot in entry.numbers:
                sharing.setdefault((slot.named.name, entry.table == "summaries"), []).append((entry, slot))
    new_names: list[tuple[Slot, str]] = []
    for (name, is_summary), numbers in sharing.items():
        if is_summary and column_for("steps", name) is not None:
            continue  # the name says what is averaged
        if len(numbers) < 2 or name in _PLACES or any(slot.named.vague for _, slot in numbers):
            continue
        for (entry, slot), words in zip(numbers, _telling_words(name, [entry for entry, _ in numbers]), strict=True):
            telling = naming.slug(" ".join(word for word in words if word not in name.split("_")), _MOST_WORDS)
            if entry.table in _TABLES and telling:
                new_names.append((slot, f"{telling}_{name}"))
    for slot, name in new_names:
        slot.named = replace(slot.named, name=name, printed="")


def _telling_words(name: str, entries: Sequence[LineDraft]) -> list[list[str]]:
    """Return for each of some entries with a name the words that no other entry has; [] if there are none."""
    telling = _without_common([_head_words(entry) for entry in entries])
    firsts = [entry.numbers[0].named for entry in entries]
    are_alike = len({len(entry.numbers) for entry in entries}) == 1 < len(entries[0].numbers)
    are_alike = are_alike and not any(named.vague or named.name == name for named in firsts)
    is_shared = len({tuple(words) for words in telling}) < len(entries)  # two of them have the same words
    if is_shared and are_alike and len({named.name for named in firsts}) == len(entries):
        telling = _without_common([(named.printed or named.name).split("_") for named in firsts])
        is_torn = any(len(word) < _LEAST_LETTERS for words in telling for word in words)  # `s_att` of `loss_att`
        return [[] for _ in entries] if is_torn else telling
    if not any(telling) and all(len(_named_numbers(entry)) == 1 for entry in entries):
        before = _without_first([_words_before(entry) for entry in entries])
        return before if any(before) else _without_common([_words_after(entry) for entry in entries])
    times = [_time_before(name, entry) for entry in entries]
    return telling if any(telling) or "" in times else _without_common([time.split("_") for time in times])


def _time_before(name: str, entry: LineDraft) -> str:
    """Return the name of the time directly before a rate; "" for none."""
    numbers = entry.numbers
    place = next(k for k, slot in enumerate(numbers) if slot.named.name == name)
    is_rate = place > 0 and base_of(numbers[place].named.unit) == "1/s"
    return numbers[place - 1].named.name if is_rate and numbers[place - 1].is_time else ""


def _without_common(words: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return lists of words without the words that all of them have."""
    common = set(words[0]).intersection(*words[1:])
    return [[word for word in own if word not in common][:_MOST_WORDS] for own in words]


def _without_first(words: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return lists of words without the words that all of them begin with."""
    alike = sum(1 for _ in takewhile(lambda own: len(set(own)) == 1, zip(*words, strict=False)))
    return [list(own[alike : alike + _MOST_WORDS]) for own in words]


def _named_numbers(entry: LineDraft) -> list[Slot]:
    return [slot for slot in entry.numbers if not slot.named.vague]


def _words_before(entry: LineDraft) -> list[str]:
    """Return the words before the only number of an entry that has a name: `[main, 444] [total time] host: 5 ms`."""
    before = takewhile(lambda slot: slot is not _named_numbers(entry)[0], entry.slots)
    text = " ".join(slot.texts[0].lower() for slot in before if slot.kind == LITERAL)
    return [word for word in naming.WORDS.findall(text) if word not in _LEVELS]


def _words_after(entry: LineDraft) -> list[str]:
    """Return the words after the number of an entry: `1020.5 (with the time to connect)`."""
    place = entry.slots.index(_named_numbers(entry)[0])
    text = " ".join(slot.texts[0].lower() for slot in entry.slots[place + 1 :] if slot.kind == LITERAL)
    return [word for word in naming.WORDS.findall(text) if not unit_of(word)[0]]


def _head_words(entry: LineDraft) -> list[str]:
    """Return the words before the first number of an entry, without the words of its name."""
    place, first = next((k, slot) for k, slot in enumerate(entry.slots) if slot.kind in (NUMBER, UNSURE))
    is_tied = first.kind == NUMBER or (place > 0 and entry.slots[place - 1].texts[0] in (":", "="))
    before = takewhile(lambda slot: slot is not first, entry.slots)
    texts = [
        slot.texts[0].lower()
        for previous, slot in pairwise([first, *before])
        if slot.kind == LITERAL and not (previous.inner and not slot.gaps[0])  # of `prefill-10k` only `prefill`
    ]
    if ":" in texts and not is_tied:  # what is after the colon may name it: `errors: connect 694, read 728`
        texts = texts[: texts.index(":")]
    names = () if first.named.vague or not is_tied else (first.named.name, first.named.printed)
    name_parts = {part for name in names for part in name.split("_")}
    words = dict.fromkeys(word for text in texts for word in naming.WORDS.findall(text))
    return [word for word in words if word not in name_parts | _LEVELS and not unit_of(word)[0]]
