"""What words and marks mean in lines that measure something, and in no others: cases, indexes, percentiles, labels."""

from __future__ import annotations

from perflog.formats.families.measured_lines import LABELS, is_quantity
from perflog.formats.families.meters.names import COUNTER_WORDS, MeterNames
from perflog.formats.families.name_units import is_statistic
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NAME, NUMBER
from perflog.formats.vocabulary import COUNTED_UP, EVALUATIONS, TRAINING, plain_name
from perflog.units import unit_of

PHASES_AND_LABELS = EVALUATIONS | TRAINING | LABELS
"""Words at the start of a line that name no case and no group."""
_COUNTED = frozenset(f"{word}s" for word in COUNTED_UP)
_FEWEST_BOUND = 3  # numbers of a line that begins with its case


def is_index(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a whole number ends the name of a measured one: `batch 1: 522.09s`, `gemm 64   3 us`."""
    if not (names.declaration.measures and line.text(k).isdecimal() and names.words) or names.is_bound:
        return False
    is_name = names.words[-1].lower() not in COUNTER_WORDS - {"batch"}
    is_bound = line.text(k + 1) == ":" and line.kind(k + 2) == NUMBER
    is_of_row = line.kind(k + 1) == NUMBER and len(line.gap(k + 1)) > 1 and len(line.gap(k)) == 1
    return is_name and (is_bound or is_of_row)


def is_count_in_name(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a whole number is among the words of a measured one's name: `Generated 96 tokens: 1.78 s`."""
    if not (names.declaration.measures and line.text(k).isdecimal() and names.words) or names.is_bound:
        return False
    is_inside = line.kind(k + 1) == NAME and line.text(k + 2) in (":", "=") and line.kind(k + 3) == NUMBER
    return is_inside and line.text(k + 1).lower() in _COUNTED


def is_percentile(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a number with a percent sign names a measured one: `Avg: 424 KiB/s, 50%: 412 KiB/s`."""
    is_key = line.kind(k) == NUMBER and line.text(k + 1) == "%" and line.text(k + 2) in (":", "=")
    return names.declaration.measures and is_key and line.kind(k + 3) == NUMBER and not names.is_bound


def begins_pairs(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether words before a wide gap are no part of the name after it: `gemm_bf16    m=64  time=2.5us`.

    One at the start of a measured line names its case.
    """
    is_pair = len(line.gap(k)) > 1 and line.text(k + 1) == "="
    is_word = bool(names.words) and names.words[0].lower() not in PHASES_AND_LABELS
    return names.declaration.measures and is_pair and is_word and not names.is_bound


def end_of_condition(names: MeterNames, line: TokenLine, k: int) -> int:
    """Return the index of the colon after the case that a word begins: `Latency for batch size 8: 3 ms`; 0 for none."""
    if not names.declaration.measures or line.text(k).lower() != "for" or names.printed or not names.words:
        return 0
    texts = line.texts(0, len(line.parts))
    end = texts.index(":", k) if ":" in texts[k:] and "=" not in texts[:k] else 0
    return end if end > k + 1 and line.kind(end + 1) == NUMBER else 0


def begins_statistics(names: MeterNames, word: str) -> bool:
    """Return whether the words before a statistic say what it is of: `Latency: avg 3 ms`, `decode_TPS   mean= 77.9`."""
    if not (names.declaration.measures and names.words and is_statistic(word)) or names.is_listed:
        return False
    return is_quantity(" ".join(names.words)) and (not names.is_bound or names.mark == ":")


def is_key_unit(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether square brackets after the name of a measured number hold its unit: `busbw [GB/s]: 231.2`."""
    is_unit = line.text(k) == "[" and line.text(k + 2) == "]" and bool(unit_of(line.text(k + 1))[0])
    return names.declaration.measures and is_unit


def is_label(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a word only says that measured pairs follow: `RESULT tp=8 ttft_ms=32.1`."""
    return names.declaration.measures and not k and line.text(2) == "=" and line.text(0).lower() in LABELS


def is_case(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a word is what a name of a measured line has as its value, before the next name."""
    is_end = k + 1 >= len(line.parts) or line.text(k + 2) == "="
    is_last = names.mark == "=" and is_end  # `dtype=bf16 bs=2`
    is_whole = line.text(k).isidentifier() and (is_last or line.text(k + 1) in (",", "|", ";"))
    return names.declaration.measures and names.is_bound and bool(names.words) and is_whole and not names.is_listed


def begins_with_case(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether the words before a comma are the case of the line: `L2 read, iters: 9, mean: 3 us`."""
    if not names.declaration.measures or not k or names.printed or line.text(0).lower() in PHASES_AND_LABELS:
        return False
    are_words = all(part.kind == NAME or part.text in "()" for part in line.parts[:k])
    return are_words and sum(text in "=:" for text in line.texts(k, len(line.parts))) >= _FEWEST_BOUND


def bar_binds(names: MeterNames, line: TokenLine) -> bool:
    """Return whether a bar binds a number to its name, as a colon does: `Latency (average)  | 10955 ns`."""
    return names.declaration.measures and line.has_one_bar


def mark_binds(names: MeterNames, line: TokenLine, k: int) -> bool:
    """Return whether a mark binds a measured number to its name: `Iteration time ~0.9 s`, `[Decode time] 296 s`."""
    closes_name = line.text(k) == "]" and line.text(0) == "[" and k == len(names.words) + 1
    return names.declaration.measures and (line.text(k) == "~" or closes_name) and line.kind(k + 1) == NUMBER


def with_counted(names: MeterNames, key: str, unit: str, printed: str) -> str:
    """Return the name of a measured rate with what is counted, if it lacks it: `Throughput: 13277 tokens/s`.

    Of other lines only tokens: a bar tells `est. speed input: 394.90 toks/s`.
    """
    is_value = names.declaration.shape.line.table == "values"
    units = ("tok/s", "1/s") if names.declaration.measures else ("tok/s",) if is_value else ()
    if not key or unit not in units:
        return key
    counted = "tokens" if unit == "tok/s" else printed.rpartition("/")[0].partition("/")[0].strip()  # "" for `12 qps`
    is_named = not counted or plain_name(counted)[:3] in plain_name(key) or "tps" in plain_name(key)
    return key if is_named else f"{key} {counted} per s"
