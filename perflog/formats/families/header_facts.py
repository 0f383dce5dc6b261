"""Facts of a job in lines above its results: `World size: 8`, `Running on 8 GPUs`, `Device: NVIDIA H100 | dtype: bf16`.

A fact is a whole part of its line: a name that says so alone with a value that can be nothing else, or a few words
around a count. A line with words of limits, advice, other jobs or source code has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from perflog.formats.surroundings import LOGGER_PREFIX
from perflog.formats.vocabulary import LEVEL
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern

LONGEST = 240
"""Characters of a line that may have facts."""

CANDIDATE = (
    r"(?i)world[ _-]?size|ranks\b|gpu|mpi proc|device|accelerator|hardware|machine|model|type\b|precision|torch\."
    r"|batch[ _]?size|nvidia|\bamd\b|\bh100|running on"
)
"""What each line with facts has, for RE2."""

_KEYS = {
    "world_size": "world_size worldsize ranks num_ranks number_of_ranks total_ranks mpi_ranks n_ranks nranks "
    "mpi_processes",
    "num_gpus": "gpus num_gpus number_of_gpus total_gpus total_number_of_gpus n_gpus ngpus gpu_count gpus_used",
    "device": "device device_name device_model gpu gpu_name gpu_model gpu_type accelerator hardware machine "
    "devices gpus using_device running_on",
    "model": "model model_name model_id benchmarking_model",
    "dtype": "dtype data_type datatype precision torch_dtype using_dtype",
}
_SETTINGS = grouped((name, setting) for setting, names in _KEYS.items() for name in names.split())
"""By name as it is compared, the settings that its value may be."""

_COUNT = r"[1-9][0-9]{0,6}"
_DEVICE = (
    r"(?:(?:NVIDIA|AMD|Intel(?:\(R\))?|Tesla|Quadro|GeForce|Radeon|Instinct)"
    r"(?! (?i:cuda|cudnn|nccl|driver|tensorrt|nsight|triton|rocm|rccl|hip|oneapi|epyc|ryzen|xeon|core)\b)"
    r"(?:[ -](?!x ?[0-9])\w[\w+-]*){1,6}"
    r"|(?:RTX|GTX|TITAN) ?[A-Z]?[0-9]{3,4}[\w-]*|TPU ?v[0-9]\w{0,3}|Ascend ?[0-9]{3}\w*|Gaudi ?[0-9]"
    r"|(?:GB|GH|[ABHLTV])[0-9]{2,3}[A-Z]{0,2}(?:[- ](?:SXM|PCI|NVL)[\w-]*)?(?:[- ][0-9]{2,3} ?GB)?(?: HBM\w*)?"
    r"|MI[0-9]{3}[A-Z]?|Apple M[0-9](?: (?:Pro|Max|Ultra))?)"
)
_VALUES = {
    "world_size": lazy_pattern(rf"(?P<value>{_COUNT})(?: ?(?:GPUs?|ranks|processes))?"),
    "num_gpus": lazy_pattern(rf"(?P<value>{_COUNT})(?: ?GPUs?)?"),
    "device": lazy_pattern(rf"(?:(?P<count>{_COUNT}) ?x ?)?(?P<value>{_DEVICE})(?: x ?(?P<times>{_COUNT}))?"),
    "model": lazy_pattern(
        r"(?!v?[0-9.]+$)(?!(?i:cuda|gpu|cpu|none|null|b?f(?:loat|p)?[0-9]{1,2}|int[0-9])\b)(?!.*\.(?:pt|pth|bin|json|ya?ml|gguf|ckpt|safetensors|py)$)"
        r"(?=.*[A-Za-z]{2})(?=.*[0-9/_-])(?P<value>[A-Za-z][\w.+-]*(?:/[\w.+-]+)?)"
    ),
    "dtype": lazy_pattern(
        r"(?:torch\.)?(?P<value>(?i:bfloat16|float(?:16|32|64)|bf16|fp(?:8|16|32|64)|tf32|half|fp8_e[45]m[23]|float8_e[45]m[23]\w*))"
    ),
    "batch_size": lazy_pattern(rf"(?P<value>{_COUNT})"),
}
_NUMBERS = frozenset(("world_size", "num_gpus"))

_PAIR = lazy_pattern(r"#? ?(?P<key>[A-Za-z][\w -]{0,40}?)[ \t]*(?:[:=][ \t]*(?P<value>\S.*)|[:=]?)")
_NAMED = lazy_pattern(  # a name and its value with a space between them
    r"(?i)(?P<key>world[ _]size|n_?ranks|using device|using dtype|running on) (?P<value>[0-9]+|[A-Za-z].*)"
)
_WORK = (
    r"(?P<verb>(?i:(?:running|using|training|benchmarking|benchmark|testing|launched|launching|evaluating|executing)"
    r"(?: (?:on|with|across))? ))?"
)
_WITH = r"(?: (?:on|across) [0-9]+ nodes?)?(?: with [\w.-]+)?"
_WORDS = lazy_pattern(
    rf"{_WORK}(?:(?:(?P<num_gpus>{_COUNT}) (?i:gpus?)|(?P<world_size>{_COUNT}) (?i:(?:mpi )?ranks?)){_WITH}\.?"
    rf"|(?P<count>{_COUNT}) ?x ?(?P<devices>{_DEVICE}){_WITH})"
    rf"|(?P<device>(?=NVIDIA|AMD|Tesla|MI[0-9])(?=.*[0-9]){_DEVICE})|torch\.(?P<dtype>bfloat16|float(?:16|32|64)|half)"
)
_AMONG = lazy_pattern(r"(?i)torch|cuda|rocm|driver")
"""What is beside a device without a name; else other facts are, or nothing."""

_NO_GPU = lazy_pattern(r"TPU|Ascend|Gaudi")
_NUMBERED = lazy_pattern(r"(?:device|gpu)_[0-9]{1,2}")
_BATCH = lazy_pattern(r"(?:(?:global|micro|train|local|total|per_device)_)?batch_?size(?:_per_(?:gpu|device|rank))?")
_BETWEEN = lazy_pattern(  # but the signs of `Intel(R)`
    r"[ \t]*(?:[|;]|(?<![A-Za-z])\(|(?<!\(R|TM)\)|,(?=[ \t]|$)|(?:[ \t]{2,}|\t)(?![ \t]*[:=]))[ \t]*"
)
_GOES_ON = lazy_pattern(r",[ \t]*[0-9]")  # `World size: 8, 16`
_WORD = lazy_pattern(r"\S+")
_ASSIGNMENTS = lazy_pattern(r"[A-Za-z][\w.-]*=\S+(?: [A-Za-z][\w.-]*=\S+)+")
_LABEL = lazy_pattern(r"(?i)(?:\w+ )?(?:config(?:uration)?|settings?|distributed|setup|env(?:ironment)?|system|info): ")
_PREFIXES = tuple(
    lazy_pattern(rf"{logged}[ \t]*(?:[-*>•|]+[ \t]+|#[ \t]+(?=[a-z])|[^\w\s]{{3,}}[ \t]+)?")
    for logged in (rf"(?:\[[A-Za-z0-9][^\[\]]{{0,40}}\][: \t]*|{LEVEL}:?[ \t]+)*", rf"(?:{LOGGER_PREFIX})")
)
"""What may be before the facts of a line: brackets and a level, or all that a logger prints."""
_OTHERS = (
    "requires? needs? usage help default recommended expected previous baseline reference compared versus vs peak "
    "theoretical warn(?:ing)? error fail(?:ed|ure)? if supported available free max(?:imum)?(?!\\s1[0-9]{3}) "
    "min(?:imum)? saved worth todo example should would could can must may not no got old other another simulated "
    "projected estimated target draft teacher reward def class return import self e\\.?g "
    "loss norm throughput elapsed"
)
_NO_FACT = lazy_pattern(
    rf"(?i)\b(?:{'|'.join(_OTHERS.split())})\b|(?<!=)==(?!=)|--[a-z]|[{{}}\x22'`$?!]|<[a-z]|(?<!<)->|per node"
    r"|\w\((?!R\)|TM\))"
)
"""What shows that a line may be of another job, a limit or a program, or is what is left of a torn line of steps."""

LABELS_OF_ANOTHER = tuple(
    "previous prior earlier former last reference baseline default defaults example examples recommended suggested "
    "expected max maximum min minimum".split()
)
"""Words of labels for what is of another run, or for limits."""

_LABEL_OF_ANOTHER = rf"(?:^|[^\w.-])(?P<label>{'|'.join(LABELS_OF_ANOTHER)})(?: [a-z]+){{0,3}}[ \t]*[:|)\]][ \t]*"
_OF_ANOTHER = lazy_pattern(rf"(?i){_LABEL_OF_ANOTHER}(?:(?:[a-z]\w*\()?[a-z][\w -]*[:=]|$)")
"""A label before a pair, or at the end of a prefix: what follows is of another run then, or no value of any run."""

_HEADING = lazy_pattern(
    r"(?i).*(?:config|setting|param|arg|option|setup|environment|system|hardware|device|info|bench|summary|run|job|test).*:\W*"
)


class Fact(NamedTuple):
    """A fact of a job: the setting, its value, and where this is in the line."""

    name: str
    value: int | str
    begin: int
    end: int


def may_head_facts(text: str) -> bool:
    """Return whether a line may be above indented facts of the job: none of what else has such names.

    Example:
        >>> may_head_facts("Configuration:"), may_head_facts("critic:"), may_head_facts("GEMM benchmark")
        (True, False, True)
    """
    is_heading = not text.rstrip(" \t=*-").endswith(":") or _HEADING.fullmatch(text) is not None
    return is_heading and not _NO_FACT.search(text)


def label_of_another(text: str) -> str:
    """Return the word of a label that a pair is of another run, or of none; "" for other lines.

    Example:
        >>> label_of_another("Previous run: world_size: 16"), label_of_another("Previous step: 16")
        ('previous', '')
    """
    found = _OF_ANOTHER.search(text)
    return found["label"].lower() if found else ""


def facts_of(text: str) -> tuple[Fact, ...]:
    """Return the facts that a line prints.

    Example:
        >>> [fact[:2] for fact in facts_of("[INFO] World size: 8 | Device: NVIDIA H100")]
        [('world_size', 8), ('device', 'NVIDIA H100')]
        >>> facts_of("This needs 8 GPUs"), facts_of("Max ranks: 8"), facts_of("GPU: 3")
        ((), (), ())
    """
    return _facts_of(text.rstrip()) if len(text) <= LONGEST and not label_of_another(text) else ()


@lru_cache(1 << 12)
def _facts_of(text: str) -> tuple[Fact, ...]:
    for prefix in _PREFIXES:
        match = prefix.match(text)
        parts = _parts(text, match.end() if match else 0)
        named, unnamed = _in_parts(text, parts)
        if (named or unnamed) and not _NO_FACT.search(text, parts[0][0]):
            device_alone = len(parts) == 1 and unnamed and unnamed[0].name == "device"
            has_company = named or len(unnamed) > 1 or device_alone or _AMONG.search(text)
            facts = [*named, *unnamed] if has_company else named
            names = [fact.name for fact in facts]
            return tuple(sorted((f for f in facts if names.count(f.name) == 1), key=lambda fact: fact.begin))
    return ()


def _parts(text: str, begin: int) -> list[tuple[int, int]]:
    """Return begin and end of each part of a line, without a label before it."""
    label = _LABEL.match(text, begin)
    begin = label.end() if label and label.end() < len(text) else begin
    parts = []
    for separator in (*_BETWEEN.finditer(text, begin), None):
        end = separator.start() if separator else len(text)
        if _ASSIGNMENTS.fullmatch(text, begin, end):
            parts += [word.span() for word in _WORD.finditer(text, begin, end)]
        elif end > begin:
            parts.append((begin, end))
        begin = separator.end() if separator else end
    return parts


def _in_parts(text: str, parts: list[tuple[int, int]]) -> tuple[list[Fact], list[Fact]]:
    """Return the facts that have a name or a verb, and those that have none."""
    named, unnamed = list[Fact](), list[Fact]()
    names: Sequence[str] = ()  # of the part before, which is a name alone
    for begin, end in parts:
        pair = _NAMED.fullmatch(text, begin, end) or _PAIR.fullmatch(text, begin, end)
        settings = _settings(pair["key"]) if pair else ()
        found = [*_with_value(names, text, begin, end)]
        if not found and pair and settings and pair["value"]:
            found = [*_with_value(settings, text, *pair.span("value"))]
        if found:
            named += found if not _GOES_ON.match(text, end) else []
        elif words := _WORDS.fullmatch(text, begin, end):
            (named if words["verb"] else unnamed).extend(_in_words(words))
        names = settings if pair and not pair["value"] else ()
    return named, unnamed


def _settings(key: str) -> Sequence[str]:
    """Return the settings that a printed name may be."""
    name = re.sub(r"[ _-]+", "_", key.strip().lower())
    if _NUMBERED.fullmatch(name):
        return ("device",)
    return (name,) if _BATCH.fullmatch(name) else _SETTINGS.get(name, ())


def _with_value(names: Sequence[str], text: str, begin: int, end: int) -> Iterator[Fact]:
    """Yield the facts of a value with a name that may be of several settings: the first that the value fits."""
    for name in names:
        match = _VALUES.get(name, _VALUES["batch_size"]).fullmatch(text, begin, end)
        if match is None:
            continue
        value = match["value"] if name in ("device", "model", "dtype") else int(match["value"])
        yield Fact(name, value, *match.span("value"))
        for group in ("count", "times"):
            if match.groupdict().get(group) and not _NO_GPU.match(match["value"]):
                yield Fact("num_gpus", int(match[group]), *match.span(group))
        return


def _in_words(words: re.Match[str]) -> Iterator[Fact]:
    for group, value in words.groupdict().items():
        if value is None or group == "verb" or (group == "count" and _NO_GPU.match(words["devices"])):
            continue
        name = {"count": "num_gpus", "devices": "device"}.get(group, group)
        yield Fact(name, int(value) if name in _NUMBERS else value, *words.span(group))
