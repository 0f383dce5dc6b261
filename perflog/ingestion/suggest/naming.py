"""What a number is called and in which unit it is printed, by the words around it. All of it is a guess to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perflog.tables.schema import TABLES
from perflog.units import UNITS

_SYNONYMS = {
    "s": "s sec secs second seconds", "ms": "ms msec msecs millis millisecond milliseconds",
    "ns": "ns nsec nanoseconds",
    "us": "us µs μs usec usecs microsecond microseconds", "min": "min mins minute minutes", "h": "h hr hrs hour hours",
    "B": "b byte bytes", "%": "% pct percent", "W": "w watt watts", "J": "j joule joules",
    "TFLOP/s": "tflop/s tflops tflop/s/gpu tflops/gpu tflops/s teraflops", "GFLOP/s": "gflop/s gflops gflops/s",
    "PFLOP/s": "pflop/s pflops pflops/s", "GB/s": "gb/s", "MB/s": "mb/s", "Gbit/s": "gbit/s gbps gb/sec",
    "tok/s": "tok/s toks/s token/s tokens/s tok/sec token/sec tokens/sec tokens/second tokens/s/gpu tok/s/gpu",
    "1/s": "it/s iter/s iters/s step/s steps/s batch/s batches/s sample/s samples/s samples/sec seq/s sequences/s "
    "img/s imgs/s image/s images/s images/sec img/sec example/s examples/s samples/second",
}  # fmt: skip
_UNITS = {word: unit for unit, words in _SYNONYMS.items() for word in words.split()}
_UNITS |= {u.lower(): u for u in UNITS if u.endswith("B") and u != "kB"}
_PER = {"it", "iter", "iters", "step", "steps", "batch", "batches", "iteration", "micro_batch"}
_SHORT = {"min", "h", "W", "J", "B"}  # letters that also mean other things
_MANY = {"K": "thousands", "k": "thousands", "M": "millions", "B": "billions", "G": "billions", "T": "trillions"}

# Column -> pattern of the names under which programs print it, and the base unit it has.
_COLUMNS = {
    "step": r"(global_|train_|training_|completed_|finished_|done_|current_|optim_|optimizer_|total_)?"
    r"(step|iter|iteration|update)"
    r"(_(no|num|number|idx|index|id|count))?|num_updates|it",
    "rank": r"(global_|world_)?rank",
    "world_size": r"(global_)?world_size|n_?ranks|num_ranks|num_gpus|n_gpus|ngpus",
    "loss": r"(train_|training_|lm_|total_)?loss",
    "perplexity": r"(train_)?(ppl|perplexity)",
    "grad_norm": r"(global_|total_)?grad(ient)?_?norm|gnorm",
    "learning_rate": r"lr|learning_?rate",
    "step_time": r"(train_)?(step|iter|iteration|batch)_?(time|duration|latency|cost)"
    r"|(elapsed_)?time_per_(step|iteration|iter|batch)"
    r"|(s|ms|sec|secs|seconds)_per_(step|iteration|iter|it|batch)|dt",
    "forward": r"(fwd|forward|foward)(_pass)?(_time|_latency)?",
    "backward": r"(bwd|backward)(_pass)?(_time|_latency)?",
    "tflops": r".*tflops?(_s)?((_per)?_(gpu|rank|device|chip))?",
    "mfu": r"(.*_)?mfu",
    "tokens_per_s": r"tps|wps|tgs|(tokens?|toks?|tok)(_per)?_(s|sec|second)((_per)?_(gpu|rank|device|chip))?",
    "samples_per_s": r"ips|(curr_)?(samples?|sequences?|seqs?|images?|imgs?|examples?)(_per)?_(s|sec|second)",
    "memory": r"(max_|peak_|gpu_|cuda_|allocated_|max_gpu_|peak_gpu_)?mem(ory)?(_allocated|_used|_usage)?",
}
_BASES = {c.name.removesuffix("_s").removesuffix("_bytes"): c.unit for c in TABLES["steps"]} | {
    c.name: c.unit for c in TABLES["steps"]
}
_KINDS = {
    "s": "time", "B": "size", "1": "share", "GB/s": "bandwidth", "W": "power", "J": "energy",
    "1/s": "tokens_per_s", "TFLOP/s": "tflops",
}  # fmt: skip
NO_UNIT = "seconds: no unit is printed"
_TIMES = ("step_time", "forward", "backward")
_WITNESSES = {"run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged", "label"}
_STOP = frozenset(
    (
        "the is was of in at a an are to for and with took after from has have by on it found using loaded loading "
        "setting set will be"
    ).split()
)
WORDS = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass
class Named:
    """A number's name and unit ("" if none is known), and what they are guessed from."""

    name: str
    unit: str = ""
    why: str = ""
    said: str = ""  # the name as printed, where `name` is that of a column
    vague: bool = False  # nothing beside the number names it


def unit_of(word: str) -> tuple[str, str]:
    """A printed word as a unit, and what it is counted per: `ms/step` is ms of a step."""
    word = word.strip(" .,;:")
    if word in UNITS:
        return word, ""
    found = _UNITS.get(word.lower())
    if found:
        return found, ""
    head, _, per = word.partition("/")
    if head and per.lower() in ("s", "sec", "second"):  # requests, items
        return "1/s", ""
    return (_UNITS.get(head.lower(), ""), per) if per.lower() in _PER else ("", "")


def slug(text: str, most: int = 5) -> str:
    """Words as a name: letters, digits and underscores; "" if there is none."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", text)
    words = [w for w in re.split(r"[^A-Za-z0-9]+", text.lower()) if w]
    while words and (words[0] in _STOP or words[0][0].isdigit()):
        words = words[1:]
    while words and words[-1] in _STOP - {"it"}:
        words = words[:-1]
    words = words[-most:]
    while words and (words[0] in _STOP or words[0][0].isdigit()):
        words = words[1:]
    return "_".join(words)[:60].strip("_")


def head_unit(text: str) -> str:
    """The unit of all times of a line, where it is said ahead of them: `time (ms) | forward: 1.5 | backward: 3.1`."""
    match = re.search(r"[(\[](\w+)[)\]]\s*[|:]\s*[A-Za-z]", text)
    unit = unit_of(match[1])[0] if match else ""
    return unit if unit and UNITS[unit].base == "s" else ""


def name(  # noqa: C901
    before: str, after: str, previous: Named | None, texts: Sequence[str], head: str = "", timed: bool = False
) -> Named:
    """The name and unit of a number, by the text since the number before it and until the next. `head` is a unit of
    all times of the line; `timed` says that each is printed with a unit of its own.
    """
    if previous is not None:  # what belongs to the number before
        before = before[_suffix(before)[2] :]
    unit, per, length = _suffix(after) if not timed else ("", "", 0)
    why = "printed behind it" if unit else ""
    key, explicit, key_unit = key_of(before)
    count = re.match(r" ?([KkMBGT])(?!\w)", after) if not unit else None
    many = _MANY[count[1]] if count else ""
    behind = _behind(after[count.end() if count else length :])
    if not unit and key_unit:
        unit, why = key_unit, "its name says so"
    if per or (not key and unit == "1/s" and "/" in after):
        key = key or ("step_time" if per else slug(after[:length].replace("/", " per ")))
    if not key or (not explicit and behind and set(key.split("_")) <= _STOP):
        key = behind or key
    if not key:
        one = re.match(r" ?([A-Za-z][\w-]*)(?= |$)(?! *[:=])", after[length:])
        key = slug(one[1]) if one and not unit else ""
    if key in ("seconds", "secs", "sec", "ms", "milliseconds") and not unit:
        key, unit, why = "time", unit_of(key)[0], "its name says so"
    close = previous is not None and not re.search(r"\s\s|[\w)\]}|;]", before)
    if not key and close and previous is not None and not previous.vague:
        key = previous.said or previous.name
        key = f"{key}_share" if unit == "%" else key
    if not key and (timed or unit):
        key = _KINDS.get("s" if timed else UNITS[unit].base, "")
    if not unit and head and not timed and key not in ("rank", "local_rank", "global_rank", "epoch"):
        unit, why = head, "the line's begin says so"
    key = f"{key}_{many}" if key and many else key
    if not key:
        return Named("number", unit, why, vague=True)
    return _column(Named(key, unit, why), texts)


def _suffix(after: str) -> tuple[str, str, int]:
    """Unit right behind a number, what it is counted per, and the length of its text."""
    match = re.match(r"[ ]?\(?([%]|[A-Za-zµμ][A-Za-zµμ/]*)(?![\w=:])\)?", after)
    if match is None:
        return "", "", 0
    unit, per = unit_of(match[1])
    apart = match[0][0] == " "
    if not unit or (unit in _SHORT and apart and not re.match(r"\s*([,;|)\]]|$)", after[match.end() :])):
        return "", "", 0
    if unit == "B" and (match[1] != "B" or "param" in after[:30]) and not match[1].lower().startswith("byte"):
        return "", "", 0
    return unit, per, match.end()


def key_of(before: str) -> tuple[str, bool, str]:
    """The words in front of a number as a name, whether a mark ties them to it, and the unit in them."""
    part = re.split(r"[,;|]|(?<=[\])}>])(?!\s*[:=])| - |(?<![:=.])\s{4,}(?=[^\s:=])", before)[-1]
    explicit = bool(re.search(r"[:=]\s*[\[({'\"]?\s*$", part))
    pieces = [p for p in re.split(r"[:=]", part) if WORDS.search(p)]
    part = pieces[-1] if pieces else ""
    unit = ""
    rate = re.search(r"[A-Za-z]+/(?:s|sec|second)(?=\s*$)", part)
    if rate:
        return slug(part.replace("/", " per ")), explicit, unit_of(rate[0])[0] or "1/s"
    bracket = re.search(r"[(\[]([^()\[\]]+)[)\]]\s*$", part)
    if bracket:
        unit = unit_of(bracket[1])[0]
        part = part[: bracket.start()] if unit else part
    key = slug(part) or (part.strip().lower() if explicit and part.strip().isidentifier() else "")
    head, _, last = key.rpartition("_")
    if (
        head
        and not unit
        and last not in ("b", "h", "w", "j", "min")
        and not re.search(r"(per|tokens?|samples?|flops?)$", head)
    ):
        unit = unit_of(last)[0] if not unit_of(last)[0].endswith("/s") else ""
        key = head if unit else key
    return key, explicit, unit


def _behind(after: str) -> str:
    """The words behind a number, up to a mark or the end."""
    match = re.match(r" ?([A-Za-z][\w /-]{0,40}?)\s*(?=[,;|()\[\]{}.]|$)", after)
    return slug(match[1], 3) if match else ""


def _column(named: Named, texts: Sequence[str]) -> Named:
    """The same under the name of a column of `steps`, where it is one and the unit allows it."""
    if named.unit == "tok/s":
        return Named("tokens_per_s", named.unit, named.why, named.name)
    if named.unit and UNITS[named.unit].base == "TFLOP/s":
        return Named("tflops", named.unit, named.why, named.name)
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", x) for x in texts)
    base = UNITS[named.unit].base if named.unit else ""
    for column, pattern in _COLUMNS.items():
        if not re.fullmatch(pattern, named.name):
            continue
        wanted = _BASES.get(column, "")
        if (column in ("step", "rank", "world_size") and not whole) or (base and base != wanted):
            continue
        if column == "step_time" and not base and not re.search("step|iter|batch|dt", named.name):
            continue
        return _with_unit(Named(column, named.unit, named.why, named.name), texts)
    known = named.name in _WITNESSES or (named.name in _BASES and _BASES[named.name] != base)
    if known or (named.name in ("step", "rank") and not whole):
        named.name += "_printed"
    return named


def names(column: str, name: str) -> bool:
    """Whether programs print a column under this name."""
    return re.fullmatch(_COLUMNS[column], name) is not None


def _with_unit(named: Named, texts: Sequence[str]) -> Named:
    """A column's number, with a unit where none is printed and only one is likely."""
    if named.unit or not _BASES.get(named.name):
        return named
    if named.name in _TIMES:
        return Named(named.name, "", "no unit is printed", named.said)
    if named.name == "mfu" and any(float(x.replace(",", "")) > 1.5 for x in texts):
        return Named("mfu", "%", "above 1, so it can be no share")
    if named.name == "memory":
        return Named("memory_printed", "", "no unit is printed")
    return named


def settled(line: Sequence[Named], words: Sequence[str]) -> list[Named]:
    """The numbers of a line with names of their own; a time without a unit takes that of the other times there."""
    times = [n.unit for n in line if n.unit and UNITS[n.unit].base == "s"]
    used: set[str] = set()
    out = []
    for place, named in enumerate(line, 1):
        if named.name in _TIMES and not named.unit and named.why:
            unit, why = (times[0], "of the other times of the line") if times else ("s", NO_UNIT)
            named = Named(named.name, unit, why, named.said)
        base, count = named.name, 2
        if named.vague:
            first = slug(" ".join(words[:2]), 2)
            base = f"{first}_{place}" if first else base
        name = base
        while name in used:
            name, count = f"{base}_{count}", count + 1
        used.add(name)
        said = f"{named.said}{name.removeprefix(base)}" if named.said else ""
        out.append(Named(name, named.unit, named.why, said, named.vague))
    return out
