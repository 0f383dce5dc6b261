"""Units inside printed names: `mfu(%)`, `power.draw [W]`, `avg_step_time_ms`, `tokens_per_sec`, `ttft_ms.p50`."""

from __future__ import annotations

import re
from functools import lru_cache

from perflog.formats.vocabulary import STATISTIC
from perflog.lazy_patterns import lazy_pattern
from perflog.units import base_of, unit_of

_IN_BRACKETS = lazy_pattern(r"(?P<name>.*?[^ ])(?P<gap> ?)[(\[](?P<unit>[^()\[\]]+)[)\]]")
_AMBIGUOUS = frozenset("BWJh")  # units that a name may hold in brackets and mean something else
_UNITS = (
    r"[nuµm]s|s|[mun]?secs?|(?:milli|micro|nano)?seconds?|[kmgt]i?b|pct|percent|%|(?<=power[_ .])w"
    r"|(?<!gpu[_ ])(?<!node[_ ])(?:mins|minutes|hrs|hours)"  # `gpu_hours` are no time
)
"""Units that end a name. Words such as `min`, `h` and `b` mean other things too."""

_PER_TIME = lazy_pattern(
    r"(?P<head>|(?!.*per[_ ./-][mun]?s[_ ./-]).*[_ ./-])(?P<unit>[munµ]?s|[mun]?secs?|seconds?)"
    r"(?P<tail>[_ ./-]per[_ ./-][a-z]+.*)",
    re.IGNORECASE,
)
_TIME_OF = lazy_pattern(
    r"^(?P<head>|.*?[_ .-])(?P<unit>[munµ]s|[mun]secs?|s(?:ecs?)?(?=/(?:it|step|batch|epoch)))"
    r"/(?P<what>(?!(?:s(?:ec)?|days?)\b)[a-z]+)$",
    re.IGNORECASE,
)
"""Names such as `usec/xfer`, `AIC µs/step` and `s/it`; but `ns/day` is what a simulation does in a day."""

_STATISTIC = lazy_pattern(STATISTIC, re.IGNORECASE)
_REST = (
    rf"(?P<rest>(?:(?:[_ ./-]per[_ ./-]|/)(?:gpu|device|chip|rank|node|user))?(?:(?:[_ ./-]|\.[a-z]+_){STATISTIC})?)"
)
_AT_END = lazy_pattern(
    rf"(?P<name>.*[a-z0-9)\]].*?)(?:[_ .-](?!s\b)|/(?!s(?:ecs?|econds?)?\b)|[_ ])(?P<unit>{_UNITS}){_REST}",
    re.IGNORECASE,
)
_ENERGY_AT_END = lazy_pattern(
    r"(?P<name>.*?(?:energ|joule|power|pwr|watt|consum|draw).*?)[_ .-](?P<unit>[mk]?w|watts?|[mkM]?j|joules?|[mk]?wh)"
    rf"(?P<rest>(?:[_ .-]per[_ .-][a-z0-9_]+)?(?:[_ ./-]{STATISTIC})?)",
    re.IGNORECASE,
)
"""A `j`, `w` or `wh` is a unit at the end of the name of an energy or a power."""

_JOULES = r"(?P<unit>[mk]?J|[Jj]oules?|[mk]?[Ww]h)"
_WORK = (
    r"(?P<what>(?:(?:1?[kKM]|10+|million)[_ ]?)?(?:[a-z]+[_ ])?"
    r"(?:tok|sample|img|image|item|quer|step|request|epoch).*)"
)
_ENERGY_OF = lazy_pattern(
    rf"(?P<name>.*?[^ ]) ?[(\[]{_JOULES}(?P<per> ?/ ?| per ){_WORK}[)\]]",
)
_JOULES_OF = lazy_pattern(rf"(?P<name>(?:.*[_ .-])?){_JOULES}(?P<per> ?/ ?|[_ .-]per[_ .-]){_WORK}")
"""What a piece of work takes: `J/token`, `Energy (J/token)`, `wh_per_1000_output_tokens`."""

_PER_ENERGY = lazy_pattern(
    r"(?P<what>(?:.*[_ .-])?(?:tok|toks|tokens?|samples?|imgs?|images?|items?|queries|steps?|requests?)"
    r"(?: ?/ ?s|[_ .-](?:per[_ .-])?s(?:ec(?:ond)?)?)?)(?: ?/ ?|[_ .-]per[_ .-])(?P<unit>j|joules?|k?wh|w|watts?)",
    re.IGNORECASE,
)
"""What a joule or a watt brings: `tok/J`. Its unit has no base unit here."""

_CAMEL_CASE = lazy_pattern(r"(?P<name>.*[a-z0-9])(?P<unit>[MUN]s|Secs?|Seconds|Pct|Percent|[KMGT]i?B)(?P<rest>)")
_RATE = lazy_pattern(
    rf"(?P<name>(?:.*[_ ./-])?(?P<what>(?!per[_ ./-])[a-z]+))(?P<per>[_ ./-]per)?[_ ./-](?:s|sec|second){_REST}",
    re.IGNORECASE,
)
_OF_BANDWIDTH = lazy_pattern(r"^((?:.*[_ .-])?(?:bandwidth|\w*bw)[_ .-][kmgt]i?b)s$", re.IGNORECASE)
"""Names such as `bandwidth_gbs`; elsewhere `gbs` is a global batch size."""

_NAMED_AFTER = {"tflops": "TFLOP/s", "watts": "W", "watt": "W", "joules": "J", "joule": "J"}
"""Units that are the name of a number, or its last word."""

_BETWEEN_WORDS = lazy_pattern(r"[_ -]")
_PERCENT = lazy_pattern(r"(?P<before>.*[A-Za-z_])%|%(?P<after>[A-Za-z_].*)")
"""Names such as `VRAM%` and `%util`."""

_TOKENS_PER_S = lazy_pattern(r"(?:.*[ _])?t/s")
_COUNTED_OVERALL = frozenset(("total", "sum"))  # `Total TFLOPS` may be all work, not a rate
_OPERATIONS = lazy_pattern(
    r"(?:.*[^A-Za-z])?(?:(?:[Tt]otal|[Ss]um)[^A-Za-z]+(?:FLOP|[Ff]lop)s?|(?i:[kmgtp]?flops?)(?:[^A-Za-z]+[A-Za-z]+)?"
    r"[^A-Za-z]+per(?:[^A-Za-z]+[A-Za-z]+)?[^A-Za-z]+(?i:step|it|iter|iteration|batch|token|sample|sequence|image))"
)
"""Names of numbers of operations: `Total FLOPs`, `FLOPs per GPU step`. `Total FLOPS` may be a rate."""

_COUNTED = frozenset(
    "tok toks tokens samples seqs sequences imgs images steps iters iterations batches reqs requests examples "
    "kb mb gb tb kib mib gib tib gflop tflop pflop".split()
)
"""What a rate counts without the word `per`: `tokens_sec`, `tok_s`; `step_sec` is a time."""

_IN_DOUBT = frozenset("token sample seq sequence img image it req request example".split())
"""Words after which a second may be a time or a rate: `img_sec`."""


def split_unit(name: str) -> tuple[str, str]:
    """Return a printed name without the unit in brackets at its end, or its `%`, and the unit; "" without one."""
    percent = _PERCENT.fullmatch(name.strip())
    if percent is not None:
        return percent["after"] or percent["before"], "%"
    match = _IN_BRACKETS.fullmatch(name.strip())
    unit = unit_of(match["unit"])[0] if match and not match["unit"].isdigit() else ""
    if match and unit in _AMBIGUOUS and not match["gap"]:  # `mAP50(B)`
        unit = ""
    return (match["name"], unit) if match and unit else (name.strip(), "")


_LONGEST = 1000  # characters of a name that may hold a unit: the time of its patterns grows with their square


@lru_cache(1 << 12)
def name_and_unit(name: str) -> tuple[str, str]:
    """Return a printed name without the unit that it holds, and the unit; "" if it holds no known one.

    Example:
        >>> [name_and_unit(name) for name in ("mfu(%)", "avg_step_time_ms", "ttft_ms.p50", "tokens_per_sec", "time")]
        [('mfu', '%'), ('avg_step_time', 'ms'), ('ttft.p50', 'ms'), ('tokens_per_s', 'tok/s'), ('time', '')]
    """
    base, unit = split_unit(name) if len(name) <= _LONGEST else (name, "")
    if unit or len(name) > _LONGEST:
        return base, unit
    energy = _ENERGY_OF.fullmatch(base)
    if energy is not None:
        return f"{energy['name']}_per_{energy['what']}", unit_of(energy["unit"])[0]
    energy = _JOULES_OF.fullmatch(base)
    if energy is not None:
        return f"{energy['name']}energy_per_{energy['what']}", unit_of(energy["unit"])[0]
    if _TOKENS_PER_S.fullmatch(base):
        return base, "tok/s"
    rate = _RATE.fullmatch(_OF_BANDWIDTH.sub(r"\1_s", base))
    if rate is not None and (rate["per"] or rate["what"].lower() in _COUNTED):
        return _rate(base, rate)
    if rate is not None and rate["what"].lower() in _IN_DOUBT:
        return base, ""
    brings = _PER_ENERGY.fullmatch(base)
    if brings is not None:
        return f"{brings['what']}_per_{brings['unit']}", ""
    per = _PER_TIME.fullmatch(_TIME_OF.sub(r"\g<head>\g<unit> per \g<what>", base))
    if per is not None:
        stem = per["head"].rstrip("_ ./-")  # `time_s_per_step` has the word already
        head = stem if stem.lower().endswith("time") else f"{per['head']}time"
        return head + per["tail"], unit_of(per["unit"])[0]
    match = _ENERGY_AT_END.fullmatch(base) or _AT_END.fullmatch(base) or _CAMEL_CASE.fullmatch(base)
    if match is not None and not match["name"].lower().endswith("per"):
        return match["name"] + match["rest"], unit_of(match["unit"])[0]
    words = _BETWEEN_WORDS.split(base.lower())
    return base, "" if words[0] in _COUNTED_OVERALL and len(words) > 1 else _NAMED_AFTER.get(words[-1], "")


def _rate(name: str, rate: re.Match[str]) -> tuple[str, str]:
    """Return the name and unit of a number that is counted per second. Only a size is no part of its name."""
    unit = unit_of(f"{rate['what']}/s")[0] or unit_of(f"{rate['what'].upper()}/s")[0]
    if unit in ("1/s", "tok/s"):
        return f"{rate['name']}_per_s{rate['rest']}", unit
    before = rate["name"].removesuffix(rate["what"]).rstrip("_ ./-")
    return (f"{before}{rate['rest']}" if before and unit else name), unit


def unit_of_operations(name: str, unit: str) -> str:
    """Return the unit of a number of this name, printed with this unit: `TFLOPs` may be operations or a rate of them.

    Example:
        >>> [unit_of_operations(name, "TFLOP/s") for name in ("Total FLOPs", "flops_per_step", "FLOPs")]
        ['TFLOP', 'TFLOP', 'TFLOP/s']
    """
    is_of_flop = base_of(unit) == "TFLOP/s" and len(name) <= _LONGEST
    counts = is_of_flop and _OPERATIONS.fullmatch(name.strip()) is not None
    return unit.removesuffix("/s") if counts and unit.endswith("FLOP/s") else unit


def is_statistic(name: str) -> bool:
    """Return whether a name is a statistic, such as `mean` or `p99`."""
    return _STATISTIC.fullmatch(name) is not None
