"""Lines that measure something, of programs that count no steps: `Fwd time: 0.0258 ms`, `LLM latency: 3.345 sec`.

Prose has numbers too. So a line counts only if a mark binds its first number to a name, if the name is not part of a
sentence, and if the unit or the name says that the speed of something was measured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from perflog.formats.families.name_units import is_statistic, name_and_unit
from perflog.formats.surroundings import LOGGER_PREFIX
from perflog.formats.template import Template
from perflog.formats.vocabulary import SENTENCE_WORDS, STATISTIC, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import Unit

UNIT = (
    r"(?:(?:[mnuµ]|milli|micro|nano)?s(?:ecs?|econds?)?|[MGTPmgtp]fl?ops?(?:/s)?(?:/gpu)?|[kmgt]i?b(?:ytes|its)?/s(?:ec)?"
    r"|[gt]bps|[tfqr]ps|iops|[a-z]+/s(?:ec(?:ond)?)?)"
)
"""Pattern of the unit of a measured value, in small letters or in any."""

_NUMBER = r"[0-9][0-9.,]{0,23}(?:e[+-]?[0-9]{1,3})?(?:[ \t]{0,3}±[ \t]{0,3}[0-9][0-9.,]{0,23})?"
_NAMED_UNIT = (
    r"(?:[MGTPmgtp]fl?ops?(?:/s)?(?:/gpu)?|[a-z]+/s(?:ec(?:ond)?)?(?:/gpu)?|(?:[a-z]+_)?[km]?tps|speed-?up"
    r"|(?:[a-z]+_)*[a-z]+[_ ](?:ms|us|gbps|tflops)"
    r"|(?:[a-z]+_)*(?:tok|token|sample|req|request|image|img|seq)s?(?:_per)?_s(?:ec(?:ond)?)?)"
)
_RATE_IN_NAME = (
    r"[a-z]+[_ ]per[_ ]s(?:ec(?:ond)?)?[ \t]*[:=][ \t]*(?:[0-9,]*[.,][0-9][0-9.,]*|[0-9]{4,})[ \t]*(?:$|[,;|(])"
)
"""A rate of anything: `steps_per_second: 1,065,244`. A small whole number is a setting: `frames_per_second: 30`."""
_TIME_AND_RATE = (
    rf"{_NUMBER}[ \t]?[mnuµ]?s(?:ec)?(?:/[a-z]+)?[ \t]*[,;|(][ \t]*(?:[a-z]\w*[ \t:=]+)?{_NUMBER}[ \t]*(?:[kmgt][ \t])?"
    r"(?:[mgtp]fl?ops?(?:/s)?|[kmgt]i?b(?:ytes|its)?/s(?:ec)?|[gt]bps|[a-z]+/s(?:ec)?)[ \t]*\)?[ \t]*$"
)
"""At the end of a line, the time of a case and its rate: `size 1024, latency 3.5 us, bandwidth 12.3 GB/s`."""
_STATISTIC_PAIR = rf"\b{STATISTIC}[ \t]*[:=]?[ \t]*{_NUMBER}"
_STATISTICS_OF = rf"{_STATISTIC_PAIR}.*?{_STATISTIC_PAIR}"
"""Statistics of one quantity: `wall_TPS  mean= 77.12 std= 1.72`."""
_MEMORY_IN_USE = rf"(?:mem(?:ory)?|vram|allocated|reserved|rss|max_ma)\b.*?[ \t:=]{_NUMBER}[ \t]?[kmgt]i?b\b"
_LABEL = r"\[(?:bench(?:mark)?|perf(?:ormance)?|metrics?|results?|timing)\]"
_SCRIPT = r"[^ -~\t]"  # a character, or a byte, of another script
_IN_SCRIPT = (
    rf"(?:[^:=]*[:=])*?[ -9;<>-~\t]*{_SCRIPT}[^:=]*(?:：|[:=])[ \t]*{_NUMBER}"
    rf"[ \t]*(?:{UNIT}\b|毫秒|微秒|ミリ秒|秒)"
)
"""A number with its unit after a name in another script: `平均延迟: 12.3 ms`.

Each name is looked at once, from its first such character on.
"""
_PART_WORDS = (
    "step|iter(?:ation)?|total|data|batch|load(?:ing)?|forward|fwd|backward|bwd|opt|optim|optimi[sz]er|loss|grad(?:ient)?s?"
    "|all[ _-]?reduce|reduce|all[ _-]?gather|comms?|communication|sync|h2d|host to device|overhead|other"
)
_PART_ROW = rf"[ \t]*(?:{_PART_WORDS})(?:[ _-][a-z]+){{0,2}}[ \t]{{2,}}{_NUMBER}[ \t]?(?:[mnuµ]?s|sec|seconds)[ \t]*$"
"""A part of a step and its time in columns: `forward pass     121.2 ms`."""
_PASSES = (
    rf"\b(?:fwd|forward)(?:[ _-](?:pass|time))*[ \t:=]+{_NUMBER}[ \t]?[mnuµ]?s(?:ec)?\b"
    rf".*\b(?:bwd|backward)(?:[ _-](?:pass|time))*[ \t:=]+{_NUMBER}[ \t]?[mnuµ]?s(?:ec)?\b"
)
"""Parts of a step and their times on one line: `forward 121.2 ms, backward 240.1 ms`."""
_RATE_ALONE = (
    rf"{_NUMBER}[ \t]?(?:[kmg][ \t]?)?"
    r"(?:tok(?:en)?s?|samples|seqs|sequences|images|imgs?|examples|its?|iters?|steps|batches)/s(?:ec|econd)?"
    r"(?:/gpu)?[ \t]*$"
)
"""A rate that its unit names: `12.3K tokens/s`."""
_RESULT_WORDS = (
    "final|best|test|val|valid|validation|eval|evaluation",
    ("loss|acc|accuracy|ppl|perplexity|bpb|f1|bleu|wer|map|miou|psnr|reward|score"),
)
_RESULT = rf"(?:{_RESULT_WORDS[0]})[ _-](?:[a-z0-9@-]+[ _-]){{0,4}}(?:{_RESULT_WORDS[1]})"
_RESULT_NAME = lazy_pattern(rf"(?!max_|min_)(?:.*_)?(?:{_RESULT_WORDS[0]})_(?:.*_)?(?:{_RESULT_WORDS[1]})")
"""What training or an evaluation ended with: `Final Val Loss: 4.8384`."""

PATTERN = (
    rf"(?i:[^a-z]*[a-z].*?(?:(?:[:=~]|[ \t][|])[ \t]*{_NUMBER}[ \t]*\(?(?:[kmg][ \t]?)?{UNIT}\b"
    rf"|[(\[](?:in )?{UNIT}[)\]][^:=]{{0,99}}[:=][ \t]*{_NUMBER})"
    rf"|.*?(?:\b{_NAMED_UNIT}[ \t]*[:=][ \t]*{_NUMBER}|\b{_RATE_IN_NAME}|{_LABEL}[ \t]*[a-z][\w ./-]*[ \t]{_NUMBER}"
    rf"|\b(?:throughput|bandwidth)[ \t]+{_NUMBER}[ \t]*{UNIT}[ \t]*$)"
    rf"|[^a-z]*[a-z].*?(?:{_TIME_AND_RATE}|\b{_STATISTICS_OF}|{_MEMORY_IN_USE})"
    rf"|\[[a-z][a-z ]*\][ \t]*{_NUMBER}[ \t]*{UNIT}[ \t]*$"
    rf"|{LOGGER_PREFIX}[^a-z0-9]*(?:[a-z][a-z0-9-]*[ _])*?{_RESULT}[ \t]*[:=][ \t]*[0-9]+\.[0-9]+[ \t]*%?[ \t]*$"
    rf"|[ \t]*[a-z][\w.+/-]*(?:[ \t]+[\w.+/-]+)*?(?:[ \t]{{2,}}{_NUMBER}[ \t]?(?:[kmgt][ \t]?)?{UNIT}){{2,12}}[ \t]*$"
    rf"|{_PART_ROW}|{LOGGER_PREFIX}[^a-z0-9]*{_RATE_ALONE}|{_IN_SCRIPT})"
)  # a pattern of words and gaps between them, and few figures: its time is linear in the length of the line
"""What each such line has: a number after a mark, with a unit after it or in its name; or a label that says so; or a
rate after a word for one, or after a label in brackets, at the end of the line; or a row of numbers with units."""

_PAIR_ALONE = (
    r"[\x22']?[a-z][\w/@.-]*(?: [a-z][\w/@.-]*){0,3}[\x22']?[ \t]*[:=][ \t]*"
    r"(?:[+-]?[0-9][0-9.]*(?:e[+-]?[0-9]+)?[ \t]?(?:%|[mu]?s|sec)?(?:[ \t]*\([^()]*\))?|[+-]?(?:nan|inf)|\{[^{}]*\})"
)
PAIRS_ALONE = (
    rf"(?i:{LOGGER_PREFIX}[^a-z0-9]*(?:[a-z]+(?: [a-z]+)?\]?[ \t]*[:|-][ \t]+)?"
    rf"{_PAIR_ALONE}(?:(?:[ \t]*[,;|][ \t]*|[ \t]+-[ \t]+|[ \t]+){_PAIR_ALONE})+[ \t]*$"
    rf"|{LOGGER_PREFIX}[ \t]*\[?rank[ \t]?[0-9]+\]?:?[ \t]+(?:time[:= \t]+)?{_NUMBER}[ \t]?"
    r"(?:[mnuµ]?s|sec(?:ond)?s?)\.?[ \t]*$)"
)
"""A line that consists of pairs, perhaps after one label: `loss: 2.31, grad_norm: 0.5`; or of a rank and a time."""

_COUNT = r"(?:[\[(][ \t]*)?[a-z]?[0-9]+(?: ?/ ?[0-9]+| of [0-9]+)[\])]?"
_NAME = r"[a-z][\w/@.-]*(?: [a-z][\w/@.-]*){0,2}"
_VALUE = r"[+-]?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?(?:[ \t]?(?:%|[a-zµ]+(?:/[a-z]+)?))?"
_BARE_PAIR = rf"{_NAME}(?:[ \t]*[:=][ \t]*|[ \t]+){_VALUE}"
COUNTED_PAIRS = (
    rf"(?i:{LOGGER_PREFIX}(?:[^a-z0-9]*|[ \t]*\[[a-z][^\[\]]{{0,40}}\][ \t]+)(?:(?:{_NAME}[\])]?[ \t:]+)?"
    rf"(?:\[[ \t]*[0-9.]+%\][ \t]+)?{_COUNT}"
    rf"(?:[ \t]+[a-z]+)?[ \t]*[:|,-]?[ \t]*\(?(?:{_PAIR_ALONE}(?:[ \t]*[,;|]?[ \t]+{_PAIR_ALONE})*"
    rf"|{_BARE_PAIR}(?:[ \t]*[,;|]?[ \t]+{_BARE_PAIR}){{2,}})\)?"
    rf"|{_NAME} [0-9]+[ \t]*[|,][ \t]*{_BARE_PAIR}(?:[ \t]*[,;|][ \t]*{_BARE_PAIR})+)[ \t]*$)"
)
"""A line that counts up and has pairs, and nothing else: `chunk [1/93] loss=1.1 time=2.7s`, `update 3, fps 8, kl 1`."""

LABELS = frozenset("result results bench benchmark perf metric metrics summary stats".split())
"""Words before pairs that are no part of their names: `RESULT model=llama tp=8 ttft_ms=32.1`."""

_SPEEDS = r"\b(?:latency|throughput|bandwidth)"
_SPEED_ALONE = lazy_pattern(
    rf"(?i)(?:\{{_:[pb]\}})*(?:[a-z][\w ./-]*?)?{_SPEEDS}(?:\{{_:b\}}| )?[:=](?:\{{_:b\}}| )?\{{[^{{}}]*\}}"
)
"""A speed alone on its line, without a unit: `Ref latency: 1.86`."""

AMONG_OTHERS = (
    rf"(?i:[^a-z]*[a-z].*?[:=~\]][ \t]*[0-9][0-9.,]*(?:e[+-]?[0-9]+)?[ \t]*(?:±|[a-zµ%])|{_PART_ROW}|.*?{_PASSES}"
    rf"|[^a-z]*(?:[a-z][\w ./-]*?)?{_SPEEDS}[ \t]*[:=][ \t]*[0-9]+\.[0-9]+[ \t]*$|{_IN_SCRIPT})"
)
"""What lines have that are read only where others prove that a log has measured lines."""

_MEASURED = {
    "s": lazy_pattern(
        r"latency|(?:^|_)(?:lat|dt)(?:_|$)|时间|耗时|延迟|時間|レイテンシ|시간|지연|ttft|tpot|itl\b|time_(?:to_first|per)_|per_iter|"
        r"^(?:fwd|bwd|forward|backward)(?:_pass)?$|^(?:avg|mean|average|median)_(?:[a-z]+_)?(?:step|iter|iteration|batch)$|"
        r"(?:fwd|bwd|forward|backward|kernel|gpu|cuda|device|comput|exec|inference|prefill|decod|generat|process|step|iter|average|avg"
        r"|mean|median|min|max|best|p[0-9]+)[a-z]*_(?:[a-z]+_)?(?:time|duration|ms|us)|(?:time|duration)_(?:mean|median|avg)"
        r"|^p[0-9]{2}(?:_[0-9]+)?$"
    ),
    "1/s": lazy_pattern(
        r"throughput|tok|tps|rate|speed|吞吐|速度|スループット|처리량|samples|images|requests|qps|rps|iops|_per_s(?:ec|_|$)|^(?:mean|avg|average|median)$"
    ),
    "B": lazy_pattern(r"allocated|reserved|peak|usage|used|(?:^|_)(?:rss|max_?mem\w*|(?:max_)?[mc]a)(?:_|$)"),
    "GB/s": lazy_pattern(r"bandwidth|throughput|带宽|吞吐|(?:^|_)bw(?:_|$)|bus|speed|^(?:mean|avg|average|median)$"),
}
"""By base unit, the names of measured figures. A rate of FLOP is measured, whatever its name."""

_NOT_MEASURED = lazy_pattern(
    r"timeout|time_out|sleep|wait|download|upload|setting|limit|interval|target|budget|deadline|threshold|quota"
    r"|(?:request|arrival)_rate|theoretical|expected|ideal|nominal|roofline|required|allowed|desired|remaining"
    r"|back_?off|retry|keep_?alive|cool_?down|heart_?beat|capacity"
    r"|(?:^|_)(?:sl[ao]|eta|ttl|lease|grace|age|uptime|rated|goal|cap)(?:_|$)"
    r"|(?:(?:^|_)(?:every|period|window)|(?:chunk|block|page|bucket|buffer|segment|shard)_size)$"
    r"|(?:^|_)max_(?:step|iter|iteration|batch)_"
)
"""Names of what was set or estimated, or of what is no work of the program."""

_SETTINGS = (
    r"(?:config(?:uration)?s?|settings?|arg(?:ument)?s|options?|param(?:eter)?s|hparams|hyper_?param(?:eter)?s|flags"
    r"|limits)[ \])*=#-]*"
)
_BEGINS_WITH_SETTINGS = lazy_pattern(rf"(?i)[^:=|{{}}]*\b{_SETTINGS}[:|]")
ENDS_IN_SETTINGS = lazy_pattern(rf"(?i).*\b{_SETTINGS}:?[ =*#-]*")
"""The heading of a block of settings: `Server config:`, `=== Settings ===`."""

_BOUND_NAME = lazy_pattern(r"(?<![A-Za-z0-9])(?P<kind>max|min)_(?P<what>[a-z]\w*)[\x22']?(?: ?[:=] ?|\{_:b\}|[:=] *)\{")
_OTHER_STATISTIC = r"(?i)\b(?:mean|avg|average|median|p[0-9]+|std)_{}"
_IN_USE = lazy_pattern(r"allocated|reserved|used|usage|rss|resident")

_BOUNDS = frozenset("min max minimum maximum total sum last".split())  # statistics that may be settings

_OF_NAMES = frozenset(
    "to per of in".split()
)  # words of sentences that names of figures have too: `time to first token`
_OF_MEMORY = frozenset("after before at on for".split())  # the same of memory: `memory usage after forward pass`
_MOST_WORDS = 8  # of a name
_IS_LIST = lazy_pattern(
    r"#?\w[\w ]*: ?\{[^{}]*\}[^,{}:]*(?:, \w[\w ]*: ?\{[^{}]*\}[^,{}:]*)+"
)  # pairs, and nothing else
_PAIR = r"[A-Za-z][\w./ -]*[:=] ?\{[^{}]*\}(?: ?[A-Za-z%µ/]+)?|[A-Z]\w* ?\((?:\w+ ?= ?\{[^{}]*\}(?:, ?)?)+\)"
_IS_PAIRS = lazy_pattern(  # also arguments, all of them after a label (`Trial 1: a_tps=2.5`), a remark after them
    rf"(?:\{{_:b\}})?(?:[\w #]+(?:(?:\{{[^{{}}]*\}})?:(?:\{{_:b\}}| )|, )|\{{\w+:,c\}}, )?(?:{_PAIR})"
    rf"(?:(?:, ?| ?[|;] ?|\{{_:b\}})(?:{_PAIR}))+(?: \((?:\{{_[^{{}}]*\}} [A-Za-z]+(?:, |(?=\))))+\))?"
)
_BARE_PAIR = (  # perhaps with its unit and a rate: `fa=  526.99 us ( 24.450 TFLOP/s)`
    r"[A-Za-z]\w*=(?:\{_:b\}| )?\{[^{}]*\}(?: ?[A-Za-zµ%/]+)?(?: ?\( ?\{[^{}]*\} ?[A-Za-zµ%/]+\))?(?:\{_:b\}| |$)"
)
_ARE_PAIRS = lazy_pattern(  # with nothing but spaces between them, or a label before the last ones
    rf"(?:\{{_:b\}})?(?:\[?[A-Za-z]\w*(?::|\])? |\{{\w+:w\}}\{{_:b\}})?(?:{_BARE_PAIR}){{3,}}"
    rf"(?:[A-Za-z]\w*: (?:{_BARE_PAIR})+)?"
)
_RATE_AT_END = lazy_pattern(r"(?:^|_)[km]?tps$")
_IN_TREE = lazy_pattern(r"[├└╰]─+ ")
_IS_ROW = lazy_pattern(
    r"(?:\{_:b\})?(?P<name>[A-Za-z][\w.+/ -]*)(?: \{(?!_)[^{}]*\} ?(?:[kMGT] ?)?[A-Za-zµ/]+){2,}"
)  # `gemm     12.5 us     1.25 TFLOPS`
_RATES = frozenset(("1/s", "GB/s", "TFLOP/s"))
_WITH_SHARE = lazy_pattern(r"[^{}:=]*(?:\{_:b\}[^{}:=]*)?[:=](?:\{_:b\}| )?\{[^{}]*\} ?[a-zµ]+ ?\( ?\{[^{}]*\} ?%\)")
_FIGURE = lazy_pattern(
    r"(?:[^{}:=]*(?:\{_:b\}[^{}:=]*)?[:=]|\[[A-Za-z ]+\]) ?\{[^{}]*\} ?(?:± ?\{[^{}]*\} ?)?"
    r"[A-Za-zµ/%]+\.?(?: \([^()]*\))?|[^{}:=]*[:=](?:\{_:b\}| )\{[^{}]*:h\}"
)
_IS_PART = lazy_pattern(
    rf"(?i)(?:\{{_:b\}})?(?:{_PART_WORDS})(?:[ _-][a-z]+)*(?:[:=] ?|\{{_:b\}}| )\{{[^{{}}]*\}} ?[a-zµ]+"
)
_A_PART = rf"(?:{_PART_WORDS})(?:[ _-][a-z]+)*(?:[ :=]|\{{_:b\}})+\{{[^{{}}]*\}} ?[a-zµ]+"
_ARE_PARTS = lazy_pattern(rf"(?i)(?:\{{_:[pb]\}}|[^a-z{{}}])*{_A_PART}(?:(?: |[,;|/]|\{{_:b\}})+{_A_PART})+")
_TIMED_PAIR = r"[A-Za-z]\w*[:=] ?\{[^{}]*\} ?(?:[mnuµ]?s|sec|seconds)(?: ?\( ?\{[^{}]*\} ?%\))?"
_ARE_TIMES = lazy_pattern(  # of parts with any names, perhaps with their shares: `qk=0.502ms(31.0%) pv=0.612ms(37.8%)`
    rf"(?:\{{_:[pb]\}}|(?:\w+=\w+|[A-Za-z]\w*:?|\[\w[\w.-]*\])(?: |\{{_:b\}}))*"
    rf"{_TIMED_PAIR}(?:(?: |[,;|]|\{{_:b\}})+{_TIMED_PAIR})+"
)
_BEGINS_WITH_RATE = lazy_pattern(  # `Throughput: 123.4 tokens/s on 8 GPUs in 12.3 s`: the sentence after it is unread
    r"(?i)[\w ]*\b(?:throughput|bandwidth|tokens|speed)[^{}:=]*[:=](?:\{_:b\}| )*\{(?!_)[^{}]*\} ?[A-Za-z]+/s"
)
DEVICES_AFTER = lazy_pattern(
    r"(?<= on )\{_:[^{}]*\}"
    r"(?P<after> (?P<word>GPUs?|NPUs?|TPUs?|devices?|nodes?|ranks?|chips?|cores?|processes|workers?)\b)"
)
"""In the shape of a line, a number of devices that only the word after it names."""

_PER_OTHER = lazy_pattern(
    r"(?<!\{_:b)\} ?[\w/%]+ per (?!s(?:ec|econd)?\b)"
)  # `1450617.5 Mflop/s per node`: not the total


def is_measured(
    template: Template, units: Mapping[str, Unit], among_others: bool = False, printed: Mapping[str, str] | None = None
) -> bool:
    """Return whether the Line of a string measures something.

    Args:
        template: Its template. Numbers without a name are dropped by it.
        units: The units of its fields that the line prints.
        among_others: Whether other lines prove that the log has such lines: then any name with a number and its unit
            is enough.
        printed: By field, the name as printed, where the field has lost letters of another script.
    """
    numbers = [f.name for f in template.fields if f.numeric]
    named = [name for name in numbers if not name.startswith("_")]
    begins_with_rate = _BEGINS_WITH_RATE.match(template.text) is not None
    if not named or (2 * len(named) < len(numbers) and not begins_with_rate):
        return False
    if len(numbers) == 1 and not among_others and _is_result(template, plain_name(named[0]), units):
        return True
    unknown = [name for name in named if name not in units and "speedup" not in plain_name(name).replace("_", "")]
    are_statistics = _are_statistics(named)
    are_pairs = _ARE_PAIRS.fullmatch(template.text) is not None
    is_list = begins_with_rate or are_statistics or _IS_LIST.fullmatch(template.text) is not None
    is_alone = among_others and _SPEED_ALONE.fullmatch(template.text) is not None
    if unknown and not is_list and not is_alone and not _may_lack_units(template, unknown, units):
        return False
    row = _IS_ROW.fullmatch(template.text)
    words = [plain_name(name).split("_") for name in named] if row is None else [row["name"].lower().split()]
    if _PER_OTHER.search(template.text) or template.text.startswith("|"):  # the row of a table in Markdown
        return False
    is_part = _IS_PART.fullmatch(template.text) is not None
    is_of_memory = among_others and any(unit.base == "B" for unit in units.values())
    allowed = _OF_NAMES | (_OF_MEMORY if is_of_memory and "memory" in words[0] else set())
    if any(len(name) > _MOST_WORDS or (SENTENCE_WORDS - allowed) & set(name) for name in words) and not is_part:
        return False
    judged = [name for name in named if name in units] if are_pairs else named  # a pair without a unit may be a setting
    if any(map(is_set, judged)) or _prints_settings(template):
        return False
    if among_others:
        are_times = _ARE_TIMES.fullmatch(template.text) is not None and any(f.type != "d" for f in template.fields)
        is_figure = any(form.fullmatch(template.text) for form in (_ARE_PARTS, _FIGURE))
        return is_alone or (not unknown and (is_part or are_times or is_figure))
    known = named if is_list else [name for name in named if name not in unknown]
    return are_statistics or _has_speed(template, units, known, unknown, printed or {})


def _has_speed(
    template: Template,
    units: Mapping[str, Unit],
    known: Sequence[str],
    unknown: Sequence[str],
    printed: Mapping[str, str],
) -> bool:
    """Return whether a line has a speed, or the time of a piece of work. `known`: names of numbers that may be one."""
    bases = {unit.base for unit in units.values()}
    if bases == {"s", "1"} and _WITH_SHARE.fullmatch(template.text):  # of a whole that the program times in parts
        return True
    is_timed_row = _IS_ROW.fullmatch(template.text) is not None and "s" in bases and bool(bases & _RATES)
    if not unknown and (is_timed_row or (bases == {"s"} and _IN_TREE.search(template.text))):
        return True
    if [unit.base for unit in units.values()] == ["B"]:  # any program may print its memory
        return False
    rates = (_RATE_AT_END.search(plain_name(name)) for name in unknown)
    bases_by_name = {name: units[name].base if name in units else "" for name in known}
    speeds = (_is_speed(plain_name(printed.get(name, name)), base) for name, base in bases_by_name.items())
    return any(rates) or any(speeds)


def _are_statistics(names: Collection[str]) -> bool:
    """Return whether numbers are statistics, of which a name or another number says what they are of.

    A least and a greatest value alone may be settings.
    """
    plain = [plain_name(name) for name in names]
    kinds = {name.rpartition("_")[2] for name in plain if is_statistic(name.rpartition("_")[2])}
    is_of_quantity = not kinds.issuperset(plain)
    return is_of_quantity and len(kinds) > 1 and bool(kinds - _BOUNDS)


def _may_lack_units(template: Template, unknown: Collection[str], units: Mapping[str, Unit]) -> bool:
    """Return whether numbers of a line may have no unit: it consists of pairs, or they are a case beside its time."""
    are_pairs = _IS_PAIRS.fullmatch(template.text) or _ARE_PAIRS.fullmatch(template.text)
    return are_pairs is not None or _is_case(template, unknown, units)


def _is_case(template: Template, unknown: Collection[str], units: Mapping[str, Unit]) -> bool:
    """Return whether a line has a time and its rate, and what has no unit is whole: `M=3840, N=8: 0.06 ms, 3.7 TFLOPS`.

    Whole seconds with bytes in a second may be of a download.
    """
    bases = {unit.base for unit in units.values()}
    is_of_work = "TFLOP/s" in bases or any(unit.base == "s" and unit.factor < 1 for unit in units.values())
    are_whole = all(f.type == "d" or f.spec.endswith(".0f") for f in template.fields if f.name in unknown)
    return "s" in bases and bool(bases & _RATES) and is_of_work and are_whole


def _is_result(template: Template, name: str, units: Mapping[str, Unit]) -> bool:
    """Return whether the one number of a line is a result, and no target of it."""
    is_share = all(unit.base == "1" for unit in units.values())
    is_set = _NOT_MEASURED.search(name) or _prints_settings(template)
    return is_share and not is_set and _RESULT_NAME.fullmatch(name) is not None


def _is_speed(name: str, base: str) -> bool:
    """Return whether a number with this name and base unit is a speed, or the time of a piece of work.

    One without a unit is a speedup.
    """
    return base in ("", "TFLOP/s") or (base in _MEASURED and _MEASURED[base].search(name) is not None)


def is_set(name: str) -> bool:
    """Return whether a name is of what was set or estimated, or of no work of the program."""
    return _NOT_MEASURED.search(plain_name(name)) is not None


def is_quantity(name: str) -> bool:
    """Return whether a name says what is measured, as `decode_TPS`, and is no case or part of a step."""
    if re.fullmatch(_PART_WORDS, name, re.IGNORECASE):
        return False
    return bool(name_and_unit(name)[1]) or any(form.search(plain_name(name)) for form in _MEASURED.values())


def _prints_settings(template: Template) -> bool:
    """Return whether a line prints settings: whole numbers, and names or a first word that say so.

    `max_tps=500` is what a program allows or what it measured. Beside a mean it was measured; `Max TPS: 500` is the
    title of a result.
    """
    if not all(f.type == "d" or f.spec.endswith(".0f") for f in template.fields if f.numeric):
        return False
    if _BEGINS_WITH_SETTINGS.match(template.text):
        return True
    bounds = [b for b in _BOUND_NAME.finditer(template.text) if not _IN_USE.search(b["what"])]
    return any(not re.search(_OTHER_STATISTIC.format(re.escape(b["what"])), template.text) for b in bounds)
