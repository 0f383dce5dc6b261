"""What words and numbers mean in any line of meters: devices, ranks, models, calls, groups, times of events."""

from __future__ import annotations

from itertools import takewhile

from perflog.formats.families.meters.measured_words import PHASES_AND_LABELS
from perflog.formats.families.meters.names import COUNTER_WORDS, INTEGER, MeterNames
from perflog.formats.families.name_units import is_statistic
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import LIST, NAME, NUMBER
from perflog.formats.vocabulary import DEVICE, LEVELS, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import STEP_WORDS, UNITS, base_of

MOST_WORDS = 6  # of a name
_LONGEST_CALL = 32  # tokens, from the opening bracket on
_PLURAL = lazy_pattern(r"[a-z]+s")
_DEVICE = lazy_pattern(r"[a-z]+:[0-9]{1,4}")
_NAMES_PER_STEP = frozenset(("time", "speed"))  # of a number that is counted per step: `time: 7.5 s/iter`
_ENDED = frozenset("completed complete finished done ended".split())
_ENDING = frozenset(("epoch", *STEP_WORDS))
_SHARES = frozenset(("mfu", "hfu"))  # words after a number: `12.5% MFU`


def names_model(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a number with letters is the name of a model: `model=7b`."""
    is_joined = line.kind(k) == NUMBER and line.kind(k + 1) == NAME and line.is_glued(k + 1)
    return is_joined and names.is_bound and names.words[-1:] in (["model"], ["Model"])


def is_own_device(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a word is the device of the process that prints the line of a step, not one of several."""
    if not (names.counts_steps and names.words and _DEVICE.fullmatch(line.text(k))):
        return False  # before a look at all words, for each word of a long line
    if not (line.kind(k + 1) == NUMBER and line.gap(k + 1)):
        return False
    devices = [part.text for part in line.parts if part.kind == NAME and _DEVICE.fullmatch(part.text)]
    return devices == [line.text(k)] and not names.fields.is_taken(DEVICE)


def names_group(line: TokenLine, measures: bool = False) -> bool:
    """Return whether a line is a word with a colon, and names with equal signs: `lm_head: lr=0.1, weight_decay=0.0`.

    `measures`: whether the line is a measured one: there the word may be what statistics are of.
    """
    texts = line.texts(0, len(line.parts))
    is_pairs = texts[1:2] == [":"] and texts[3:4] == ["="] and texts[2].lower() not in COUNTER_WORDS
    is_pairs = is_pairs and not (measures and is_statistic(texts[2]))
    is_no_group = texts[0].lower() in PHASES_AND_LABELS or texts[0] in LEVELS
    return is_pairs and not is_no_group and ":" not in texts[2:]


def is_counted(line: TokenLine, k: int) -> bool:
    """Return whether a number in a bracket counts what the word after it names: `ttft = 2.53s (20 requests)`."""
    is_plural = line.kind(k + 1) == NAME and bool(line.gap(k + 1)) and _PLURAL.fullmatch(line.text(k + 1)) is not None
    return is_plural and INTEGER.fullmatch(line.text(k)) is not None and line.text(k + 2) in (",", ")")


def is_rank_label(line: TokenLine, k: int) -> bool:
    """Return whether the tokens after an opening bracket are a label `(rank 0)`, and nothing else."""
    is_rank = line.kind(k + 1) == NAME and line.text(k + 1).lower() == "rank"
    is_whole = line.kind(k + 2) == NUMBER and INTEGER.fullmatch(line.text(k + 2)) is not None
    return is_rank and is_whole and line.text(k + 3) in (")", "]")


def end_of_call(line: TokenLine, k: int) -> int:
    """Return the index after brackets that stick to a name and hold names: `D(G(z))`; k if there are none."""
    depth = 0
    for i in range(k, min(len(line.parts), k + _LONGEST_CALL)):
        if line.gap(i) or not (line.kind(i) == NAME or line.text(i) in ("(", ")")):
            return k
        depth += {"(": 1, ")": -1}.get(line.text(i), 0)
        if depth <= 0:
            return i + 1 if depth == 0 and i > k else k
    return k


def event_of(line: TokenLine, k: int, begin: int, end: int) -> str:
    """Return the name of a time that `took` names: `saved, took 5 s` and `took 5 s to save` are of no step.

    Args:
        line: The tokens of the line.
        k: The index of the number.
        begin: The index after the number before it.
        end: The index after it and its unit.
    """
    since = takewhile(lambda part: part.kind != LIST, reversed(line.parts[begin:k]))
    before = [part.text for part in since if part.kind == NAME][::-1]
    after = [part.text for part in takewhile(lambda part: part.kind == NAME, line.parts[end:])]
    following = end + len(after)
    is_name = line.kind(following) == NUMBER or line.text(following) in (":", "=")
    return " ".join([*before, *([] if is_name else after)][-MOST_WORDS:])


def ends_counted(names: MeterNames, line: TokenLine, unit: str, end: int) -> bool:
    """Return whether a time is of the step or epoch before it: `Epoch 1/12 finished in 86.0s, loss=2.3`.

    A line with nothing else is a line of its own kind (`ended_lines`). `end`: the index after the time and its unit.
    """
    words = [word.lower() for word in names.words]
    has_ended = words[-1:] == ["in"] and len(words) == 2 and words[0] in _ENDED
    is_of_counter = has_ended and base_of(unit) == "s" and names.counter in _ENDING and not names.is_bound
    return is_of_counter and any(part.kind == NUMBER for part in line.parts[end:])


def named_by_unit(
    names: MeterNames, line: TokenLine, span: tuple[int, int], unit: tuple[str, str], name: tuple[str, str | None]
) -> tuple[str, str | None]:
    """Return the name of a number where its unit, or a word after it, names it; else `name`.

    Args:
        names: The names of the line so far.
        line: The tokens of the line.
        span: The index of the number, and the one after its unit.
        unit: Its unit, and the printed one.
        name: What `key_of_number` says.
    """
    k, end = span
    base, per = base_of(unit[0]), unit[1].partition("/")[2]
    if name[1] is None and UNITS.get(unit[0]) == UNITS["1/s"]:
        label = f"{names.last} " if names.declaration.measures and len(line.gap(k)) > 1 else ""
        return f"{label}{unit[1].replace('/', '_per_')}", ""
    if base == "s" and per in STEP_WORDS and (not names.words or plain_name(name[0]) in _NAMES_PER_STEP):
        return "step time", ""
    if base == "s" and per and not names.words:
        return f"time per {per}", ""
    if unit[0] == "%" and not names.words and line.text(end).lower() in _SHARES:
        return line.text(end), ""
    return name
