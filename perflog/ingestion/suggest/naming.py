"""Names numbers: by the words that a line binds to them, by the keys of objects.

Every guess says what it is taken from, so that the user can check it in the format file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from perflog.formats import vocabulary
from perflog.formats.families.base import WITNESSES, UniqueNames, fits
from perflog.formats.families.name_units import name_and_unit
from perflog.formats.vocabulary import COUNTED_UP, COUNTERS, PLACES
from perflog.ingestion.suggest.name_evidence import Bond
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import column_for
from perflog.units import UNITS, base_of, unit_of

_COUNTERS = {word for word in COUNTERS if word[-1] != "s"} - {"rank"} | {"file", "shard"}
_KINDS = {**vocabulary.KINDS, "1": "share", "GB/s": "bandwidth"}
_OWN_COLUMNS = {*WITNESSES, "label"}
_NAME_SAYS = "its name says so"
_STOP = frozenset(
    (
        "the is was of in at a an are to for and with took after from has have by on it "
        "will be over into at or then than never until since before as about there"
    ).split()
)
_ACTIONS = frozenset("found using loaded loading setting set".split())
"""Words that name nothing alone: `Loaded 12 files`; but `data loading: 0.5` names a time."""

_MANY = {"K": "thousands", "k": "thousands", "M": "millions", "B": "billions", "G": "billions", "T": "trillions"}
_COUNTED = lazy_pattern(r"\b(?:parameters?|params?|tokens?|samples?|words?|sentences?|flops?|macs?|images?|updates?)\b")
_SIZE = lazy_pattern(
    r"(?:^|_)(?:bytes?|memory|(?:request|message|msg|buffer|payload|packet|block|chunk|transfer|page)_size)(?:_|$)"
)
_RATE_AT_END = lazy_pattern(r"(?:[A-Za-z]+/(?:s|sec|second)|\bTFLOP[Ss])$")
_IDENTIFIER = lazy_pattern(r"[A-Za-z_]\w*", re.ASCII)
_MOST_PARTS = 12  # of a name
WORDS = lazy_pattern(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]*")


class Named(Struct):
    """The name and the unit of a number.

    Attributes:
        name: The name of its field.
        unit: Its unit; "" if unknown.
        why: What the unit, or the name, is guessed from.
        printed: The printed name, if `name` is a column.
        vague: Whether nothing around the number names it.
    """

    name: str
    unit: str = ""
    why: str = ""
    printed: str = ""
    vague: bool = False


def slug(text: str, most: int = 5) -> str:
    """Return words as a name of letters, digits and underscores; "" if no word is left.

    Words such as `of` at both ends are left out, but not the letters of a name: the A of `D_A`.
    """
    words = text.split()
    while words and _is_stop(words[0]):
        words = words[1:]
    while words and _is_stop(words[-1]) and words[-1].lower() != "it":
        words = words[:-1]
    if all(word.lower() in _ACTIONS for word in words):
        return ""
    text = re.sub(r"(?<=[a-z][a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", " ".join(words))
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text.lower()) if part][-most:]
    while parts and (parts[0] in _STOP or parts[0][0].isdigit()) and text[len(parts[0]) :][:1] not in ("_", "-"):
        parts = parts[1:]
    return "_".join(parts)[:60].strip("_")


def _is_stop(word: str) -> bool:
    parts = re.findall(r"[A-Za-z0-9]+", word.lower())
    return not parts or (len(parts) == 1 and (parts[0] in _STOP or parts[0][0].isdigit()))


def head_unit(text: str) -> str:
    """Return the unit that a line states for all its times: `time (ms) | forward: 1.5 | backward: 3.1`; "" for none."""
    match = re.search(r"(?<!\w)[(\[](\w+)[)\]]\s*[|:]\s*[A-Za-z]", text)  # `GPU(s):` is a plural
    unit = unit_of(match[1])[0] if match else ""
    return unit if base_of(unit) == "s" else ""


def name(bond: Bond, texts: Sequence[str], line_unit: str = "", has_unit: bool = False) -> Named:
    """Return the name and the unit of a number.

    Args:
        bond: What names it.
        texts: The number, as the lines of the shape print it.
        line_unit: The unit of all times of the line (see `head_unit`); "" if the line names none.
        has_unit: Whether each of the strings carries a unit of its own: `4.09ms`.
    """
    unit, per = unit_of(bond.unit) if not has_unit else ("", "")
    why = "printed after it" if unit else ""
    if bond.is_unit:
        words = re.sub(r"\bit per", "its per", " ".join(bond.words).replace("/", " per "))
        kind = _KINDS.get(base_of(unit), "") if unit and len(bond.words) == 1 else ""
        key = "step_time" if per and kind else kind or slug(words, _MOST_PARTS)
        if not unit:
            key, unit = _name_and_unit(words, "")
        elif base_of(unit) == "s" and bond.words[:2] == (bond.unit, "per"):  # `72.5 ms per token`
            key = slug(" ".join(bond.words[1:]))
    else:
        key, unit_of_name = _name_and_unit(" ".join(bond.words), unit or unit_of(bond.unit_of_name)[0])
        if not unit and not has_unit and (unit_of_name or bond.unit_of_name):
            unit, why = unit_of_name or unit_of(bond.unit_of_name)[0], _NAME_SAYS
    if key in ("ms", "sec", "secs", "seconds", "milliseconds") and not unit and not has_unit:
        key, unit, why = "time", unit_of(key)[0], _NAME_SAYS
    if not key and (unit or has_unit):
        key = _KINDS.get(base_of(unit) if unit else "s", "")
    if not (unit or has_unit) and line_unit and key not in ("rank", "local_rank", "global_rank", "epoch"):
        unit, why = line_unit, "the start of the line says so"
    if not key:
        return Named("number", unit, why, vague=True)
    key += "".join(f"_per_{slug(thing)}" for thing in bond.per if slug(thing) not in key.split("_"))
    named = _with_factor(bond.factor, Named(key, unit, why), texts) if bond.factor else Named(key, unit, why)
    return _column(named, texts)


def _with_factor(factor: str, named: Named, texts: Sequence[str]) -> Named:
    """Return a number with a letter after it: a size in bytes, else a number of thousands, millions or billions."""
    if factor == "B" and _SIZE.search(named.name) and all(text.isdecimal() for text in texts):
        return Named(named.name, "B", "its name is of a size")  # `Request size 64B`, but not `model size 7B`
    counted = _COUNTED.search(named.name.replace("_", " "))
    return Named(f"{named.name}_{_MANY[factor] if counted else factor.lower()}")


def name_of_key(key: str, texts: Sequence[str]) -> Named:
    """Return the name and the unit of a number with a key of its own, in an object."""
    label, unit = _name_and_unit(key, "")
    return _column(Named(label or "number", unit, _NAME_SAYS if unit else ""), texts)


def _name_and_unit(printed: str, unit: str) -> tuple[str, str]:
    """Return a printed name as a field name, and the unit that it holds; `unit`: one that is known already."""
    label, in_name = name_and_unit(printed)
    rate = _RATE_AT_END.search(printed)
    if rate is not None and (not in_name or base_of(in_name) == "s"):  # `Transfer/sec`
        label, in_name = printed, unit_of(rate[0])[0]
    is_share = in_name == "%" and "%" not in printed  # `gpu_weights_percent 1.0` are all weights
    if is_share or (unit and in_name and base_of(unit) != base_of(in_name)):
        label, in_name = printed, ""
    label = label.replace("/", " per ") if rate is not None else label
    return slug(label, _MOST_PARTS) or (printed.lower() if _IDENTIFIER.fullmatch(printed) else ""), in_name


def _column(named: Named, texts: Sequence[str]) -> Named:
    """Return the number under the name of a column of `steps`, if its name means one and its unit allows it."""
    if named.unit == "tok/s":
        return Named("tokens_per_s", named.unit, named.why, named.name)
    if base_of(named.unit) == "TFLOP/s":
        return Named("tflops", named.unit, named.why, named.name)
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", x) for x in texts)
    column = vocabulary.field_of(named.name)
    is_place = column in (*PLACES, "world_size")
    if column and (whole or not is_place) and _fits(column, named.unit):
        if column == "mfu" and not named.unit and any(float(x.replace(",", "")) > 1.5 for x in texts):
            named.unit, named.why = "%", "above 1, so it is not a share"
        return Named(column, named.unit, named.why, named.name)
    own = column_for("steps", named.name)
    is_another = named.name in _OWN_COLUMNS or (own is not None and not fits(own, UNITS.get(named.unit)))
    if is_another or (named.name in PLACES and not whole):
        named.name += "_printed"
    return named


def _fits(column: str, unit: str) -> bool:
    """Return whether a number with this unit, printed or said by the name, can fill a column."""
    implied = UNITS.get(vocabulary.quantities()[column].unit)
    return fits(column_for("steps", column), UNITS.get(unit), implied) or (column == "mfu" and not unit)


def names(column: str, name: str) -> bool:
    """Return whether programs print a column under this name."""
    return vocabulary.field_of(name) == column


COUNTS_UP = "it counts up to the number after it"
"""Why an unnamed number is taken for a step."""


def total_of(name: str) -> str:
    """Return the name of the number that another one counts up to: `steps` of `step`, else `mem_total` of `mem`."""
    last = name.rpartition("_")[2]
    if last == "batch":
        return f"{name}es"
    return f"{name}s" if last in _COUNTERS else f"{name}_total"


def is_counter(name: str) -> bool:
    """Return whether a name is something that a program counts up to a total: `step`, `samples`, `mem`."""
    parts = {form for part in name.split("_") for form in (part, part.removesuffix("s"), part.removesuffix("es"))}
    return not parts.isdisjoint(COUNTED_UP.union(_COUNTERS))


def unnamed(place: int, words: Sequence[str]) -> str:
    """Return the name of a number that nothing names: its index, and the first words of the line."""
    words = [word for word in words if not unit_of(word)[0]]
    first = slug(" ".join(words[:2]), 2)
    return f"number_{place}_of_{first}" if first else "number" if place == 1 else f"number_{place}"


def settled(line: Sequence[Named], words: Sequence[str]) -> list[Named]:
    """Return the numbers of a line with unique names."""
    used = UniqueNames()
    unique = []
    for place, named in enumerate(line, 1):
        base = unnamed(place, words) if named.vague else named.name
        if used.is_taken(base) and named.printed and not used.is_taken(named.printed):
            base = named.printed
        name = used.take(base)
        printed = f"{named.printed}{name.removeprefix(base)}" if named.printed else ""
        unique.append(Named(name, named.unit, named.why, printed, named.vague))
    return unique
