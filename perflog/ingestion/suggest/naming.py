"""Guesses the name and the unit of a printed number from the words around it.

Every guess says what it is taken from, so that the user can check it in the format file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats import vocabulary
from perflog.formats.vocabulary import COUNTERS, LEVEL
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import TABLES
from perflog.units import UNITS, unit_of

_SHORT = {"min", "h", "W", "J", "B"}  # letters that also mean other things
_COUNTERS = {word for word in COUNTERS if word[-1] != "s"} - {"rank"} | {"file", "shard"}
_COUNTED_UP = frozenset(  # names of what programs count up to a total, beside counters
    (
        "batch run trial task test sample example image token request query chunk block layer stage phase "
        "part item video frame sentence game mem memory ram swap used progress done rank thread cpu core "
        "worker node process loading map downloading seq row key"
    ).split()
)
_MANY = {"K": "thousands", "k": "thousands", "M": "millions", "B": "billions", "G": "billions", "T": "trillions"}

_STEP_COLUMNS = [c for c in TABLES["steps"] if c.by_field]
_BASES = {c.name.removesuffix("_s").removesuffix("_bytes"): c.unit for c in _STEP_COLUMNS} | {
    c.name: c.unit for c in _STEP_COLUMNS
}
_KINDS = {
    "s": "time", "B": "size", "1": "share", "GB/s": "bandwidth", "W": "power", "J": "energy",
    "1/s": "rate", "TFLOP/s": "tflops",
}  # fmt: skip
_TIMES = ("step_time", "forward", "backward")
_OWN_COLUMNS = {"run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged", "label"}
NO_FIGURES = {
    "pid": "process id",
    "tid": "thread id",
    "lineno": "place in the source",
    "line_no": "place in the source",
}
"""Names of numbers that are no figures, each with the reason."""

_NO_UNIT = "no unit is printed"
_STOP = frozenset(
    (
        "the is was of in at a an are to for and with took after from has have by on it "
        "will be over into at or then than never until since before as about there"
    ).split()
)
_ACTIONS = frozenset("found using loaded loading setting set".split())
"""Words that name nothing alone: `Loaded 12 files`; but `data loading: 0.5` names a time."""

_SEPARATOR = lazy_pattern(
    r"[,;|]|(?<=[\])}>])(?!\s*[:=]|/)| [-—–] |\b[Nn]/[Aa]\b|\t(?=\S)|(?<![:=.])\s{4,}(?=[^\s:=])"
    r"|(?<=\w\w)[.!?] +(?=[A-Z])"
)
_LEVEL = lazy_pattern(rf"^\W*{LEVEL}\b[\s:|\]>-]*")
_MOST_PARTS = 8  # of a name that a mark ties to its number
_MOST_IN_FORMULA = 12
_LEAST_PAIRS = 3  # of a name and a value that blanks separate
_UNIT_IN_NAME = lazy_pattern(r" \(([A-Za-zµ%/]{1,6})\)(?= [A-Za-z][^:=]*[:=])")
_UNIT_OF_NAME = lazy_pattern(r"(?<=[A-Za-z0-9_])\((?P<unit>[A-Za-zµ%/]{1,8})\)(?=\s+$)")  # `latency(ms) 1.5`
_OF_TIME = lazy_pattern(r"(?:time|latency|elapsed|duration|delay|wall|eta)$", re.IGNORECASE)
_SHORT_FORM = lazy_pattern(r"(?<=[\w)] )\[(?P<text>[^\[\]:=]*)\](?=\s*(?:\([^()]*\))?\s*[:=]\s*$)")  # `delay [D] (ms):`
_BRACKET_IN_NAME = lazy_pattern(r"(?<=\w) ?\((?P<text>[A-Za-z/ -]+)\)(?= [A-Za-z][^:=|,;\[\]()]*[:=]\s*$)")
_DONE = lazy_pattern(r"[A-Za-z][\w-]*(?: [a-z]+ed(?: and [a-z]+ed)?)?")  # `tests completed and passed`
_COUNTED_BY = lazy_pattern(r" (?:in|at|of|on|for|after) (?:epoch|step|iteration|iter|batch|round|stage|episode)\s*$")
_PER_THING = lazy_pattern(r"(?: (?:per|/) [A-Za-z]\w*)*")
_MAGNITUDE = lazy_pattern(r" ?([KkMBGT])(?!\w)")
_SPREAD = lazy_pattern(r"\s*(?:\+/?-|±|\+/−)\s*")
_CELL = lazy_pattern(r"\s*\|\s*(?P<name>[^|]*[A-Za-z][^|]*?)\s*\|\s*")  # the name in a row `| name | 3.1 |`
_PREPOSITION = lazy_pattern(r"\b(?:on|in|with|across|using|over)\s*$")
_NAMES_NOTHING = lazy_pattern(r" ?(?:on|in|into|at|to|from|with|by|of|for|and|or|as|then|until|than|if|is|are|was)\b")
_COUNTED = lazy_pattern(r"\b(?:parameters?|params?|tokens?|samples?|words?|sentences?|flops?|macs?|images?|updates?)\b")
_LONG_UNIT = lazy_pattern(r" (?:(?P<min>min(?:ute)?s?)|(?P<h>hours?|hrs?))\b")
_LEADS_ON = lazy_pattern(
    rf"[(\[]\s*$|\b(?:for|after)\s*$|{_PREPOSITION.pattern}"
)  # what follows names the number: `on 4 GPUs`
_BAR_RATE = lazy_pattern(r" ?(s/[A-Za-z]+|[A-Za-z]+/s)(?=[\],])")  # in `[00:14<00:00, 1.61s/it]`
_PAIR = lazy_pattern(
    r"\s+[A-Za-z][\w.]*(?:\([A-Za-z%/]+\))?\s+"
)  # the text between two values of `name value name value`
_PAIRS_BEFORE = lazy_pattern(r"(?P<values>[^:=]*\s)(?=[A-Za-z][\w.]*_[\w.]*(?:\([A-Za-z%/]+\))?\s+$)")
_TAIL = lazy_pattern(  # what is glued to the number before, or counts it per something, belongs to that number
    r"(?:[A-Za-zµ°%/][\w%°µ/]*| [A-Za-zµ]+/[A-Za-z]+)(?=[\s,;)\]}|]|$)(?!\s*[:=])"
    r"| [A-Za-z%]+(?= {2,}[^\s:=][^:=]*[:=])"
)
_ACROSS = lazy_pattern(r" [A-Za-z][\w /-]*(?= (?:from|over|across|on|with)(?: |$))")  # `96 queries over 200 ms`
_DOES = lazy_pattern(r"\W*[A-Za-z]+ing\s+")  # `Training 721479 parameters`
_STATISTICS = frozenset("ave av avg average mean median max maximum std stddev stdev p50 p90 p95 p99".split())
_VALUE_FIRST = lazy_pattern(  # a unit, a name and a comma behind a value: `1.0 sec wall, 0.5 sec cpu`
    r" ?(?:(?P<unit>[A-Za-zµ%/]+) )?(?P<name>[A-Za-z][A-Za-z_]*)(?P<end>,? +|\s*$|\s*(?=[\[(;|.]))"
)
WORDS = lazy_pattern(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]*")


class Named(Struct):
    """The name and the unit of a number.

    Attributes:
        name: The name of its field.
        unit: Its unit; "" if unknown.
        why: What the unit, or the name, is guessed from.
        printed: The printed name, if `name` is that of a column.
        vague: Whether nothing around the number names it.
        after: Length of the text behind the number that names it: these words do not name the next number.
        around: The words before it, if it is only a part of the name of the next number: `img/sec on 4 GPUs: 3.1`.
        is_listed: Whether it is one of a list in which a name stands behind each number: `1000 ave 1100 max`.
    """

    name: str
    unit: str = ""
    why: str = ""
    printed: str = ""
    vague: bool = False
    after: int = 0
    around: str = ""
    is_listed: bool = False


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


def without_values(texts: Sequence[str]) -> list[str]:
    """Return the texts in front of the numbers of a line, without the words among them that are values.

    In `num_layers 32 precision float16 batch_size 64` names are words with underscores, and only a blank separates
    names and values. So `precision float16` is a pair of its own, and not part of the next name.
    """
    names = [text for text in texts if _PAIR.fullmatch(text)]
    if len(names) < _LEAST_PAIRS or sum("_" in name for name in names) < _LEAST_PAIRS - 1:
        return list(texts)
    values = [_PAIRS_BEFORE.match(text) for text in texts]
    return [text[match.end("values") - 1 :] if match else text for text, match in zip(texts, values, strict=True)]


def has_statistics(words: Iterable[str]) -> bool:
    """Return whether words of a line name statistics, beside which `min` is no minute."""
    return not _STATISTICS.isdisjoint(word.lower() for word in words)


def head_unit(text: str) -> str:
    """Return the unit that a line states for all its times: `time (ms) | forward: 1.5 | backward: 3.1`; "" for none."""
    match = re.search(r"(?<!\w)[(\[](\w+)[)\]]\s*[|:]\s*[A-Za-z]", text)  # `GPU(s):` is a plural
    unit = unit_of(match[1])[0] if match else ""
    return unit if unit and UNITS[unit].base == "s" else ""


class Surroundings(Struct, frozen=True):
    """What a line prints around one number.

    Attributes:
        before: The text since the number before, or since the start of the line.
        after: The text until the next number, or until the end of the line.
        texts: The number itself, as the lines of the shape print it.
        previous: The number before it on the line, already named; None if there is none.
        line_unit: The unit of all times of the line (see `head_unit`); "" if the line names none.
        has_unit: Whether each of the texts carries a unit of its own: `4.09ms`.
        description: The text in front of the first number of the line.
        is_inner: Whether another number, or an opaque text, stands before it on the line.
        is_last: Whether no other number follows it on the line.
        has_least: Whether `min` on this line is the least number, and no minute.
    """

    before: str
    after: str
    texts: Sequence[str]
    previous: Named | None = None
    line_unit: str = ""
    has_unit: bool = False
    description: str = ""
    is_inner: bool = False
    is_last: bool = True
    has_least: bool = False


def name(around: Surroundings) -> Named:
    """Guess the name and the unit of a number from the text around it.

    Rules apply in order. Each fills in the name or the unit if the rules before it left it open.
    """
    guess = _Guess(around)
    for rule in _RULES:
        if not guess.is_final:
            rule(guess)
    if not guess.name:
        return Named("number", guess.unit, guess.why, vague=True, around=guess.carried)
    named = _column(Named(guess.name, guess.unit, guess.why), around.texts)
    return replace(named, after=guess.after, around=guess.carried)


class _Guess:
    """The name and the unit of one number while they are guessed.

    Attributes:
        unit, why: The unit and what it is guessed from; "" while unknown.
        per: What the unit is counted per: "step" in `ms/step`.
        unit_length: Length of the text of the unit after the number.
        name: The name; "" while unknown.
        is_tied: Whether a mark ties the name to the number: `loss: 3.1`.
        magnitude: The letter after a number such as `1.3 B`; "" if there is none.
        behind: Length of the text of its unit or magnitude.
        words_after, words_end: The words after the number and its unit, as a name, and where they end.
        after: Length of the text after the number that names it.
        carried: The words before it that name the next number.
        is_final: Whether no other rule may name the number.
    """

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        before, after = around.before, around.after
        if around.previous is not None:  # leave out the unit of the number before
            long_unit = _LONG_UNIT.match(before) if around.previous.unit in ("min", "h") else None
            unit_end = long_unit.end() if long_unit is not None else _suffix(before, around)[2]
            letter_before = _MAGNITUDE.match(before)
            unit_end = letter_before.end() if letter_before is not None and not unit_end else unit_end
            before = before[max(unit_end, around.previous.after) :]
        if around.is_inner and len(before) == len(around.before):
            tail = _TAIL.match(before) or (_ACROSS.match(before) if not re.search("[,;:=|()]", before) else None)
            before = before[tail.end() :] if tail is not None else before
        self.before = before
        self.unit, self.per, self.unit_length = ("", "", 0) if around.has_unit else _suffix(after, around)
        self.why = "printed after it" if self.unit else ""
        self.name, self.is_tied, name_unit = key_of(before)
        may_be_long = self.is_tied and not self.unit and not around.has_unit and not around.has_least
        long_unit = _LONG_UNIT.match(after) if may_be_long else None
        if long_unit is not None:  # `time left: 7 minutes`
            self.unit, self.why, self.unit_length = long_unit.lastgroup or "", "printed after it", long_unit.end()
        letter = _MAGNITUDE.match(after) if not self.unit else None
        self.magnitude = letter[1] if letter else ""
        behind = letter.end() if letter else self.unit_length
        self.words_after, self.words_end = _words_after(after[behind:], around.is_last)
        self.words_end += behind
        is_named_in_front = around.previous is not None and not (around.previous.vague or around.previous.after)
        if is_named_in_front and not around.is_last and self.words_end >= len(after.rstrip()):
            self.words_after = ""  # in `vdd_in 5mW/6mW vdd_soc 3mW` each name stands in front
        self.behind = behind
        self.after, self.carried, self.is_final = 0, "", False
        if not self.unit and name_unit:
            self.unit, self.why = name_unit, _NAME_SAYS


def _name_around_number(guess: _Guess) -> None:
    """In `img/sec on 4 GPUs: 3.1` the words before `on` name the second number, and not the first."""
    previous = guess.around.previous
    if guess.is_tied and previous is not None and previous.around and not _SEPARATOR.search(guess.before.rstrip()):
        guess.name = previous.around
    elif not guess.is_tied and _PREPOSITION.search(guess.before) and not guess.words_after:
        is_last = guess.unit and not guess.around.after[guess.behind :].strip(" .)")
        if not (is_last and UNITS[guess.unit].base == "s" and "_" in guess.name):  # `loading data in 3.1 s`
            guess.carried, guess.name = guess.name, ""


def _counted_over(guess: _Guess) -> None:
    """In `over 300 frames = 1.5` the word names the first number, and nothing names the second."""
    match = re.match(r" ([A-Za-z]+s)(?=\s*[:=]\s*$)", guess.around.after)
    if match is not None and re.search(r"\bover\s*$", guess.before):
        guess.name, guess.after, guess.is_final = match[1].lower(), match.end(), True


def _spread(guess: _Guess) -> None:
    """The number behind `+-` is the spread of the number before it."""
    previous = guess.around.previous
    if previous is None or not _SPREAD.fullmatch(guess.around.before[_suffix(guess.around.before, guess.around)[2] :]):
        return
    guess.name, guess.is_final = "" if previous.vague else f"{previous.printed or previous.name}_spread", True
    if not guess.unit and not guess.around.has_unit:
        guess.unit, guess.why = previous.unit, "of the number whose spread it is" if previous.unit else ""


def _share_of_bar(guess: _Guess) -> None:
    """`loss: 100%|####|` prints how much of a progress bar is done: no words name that, and none name its count."""
    if re.match(r"%(?:\||\s*[\u2500-\u259f])", guess.around.after):
        guess.name, guess.is_final = "", True


def _name_in_cell(guess: _Guess) -> None:
    """In the row `| fps | 202 |` of a table the first cell names the second."""
    match = _CELL.fullmatch(guess.around.before)
    if match is not None and re.fullmatch(r"\s*\|\s*", guess.around.after):
        guess.name, guess.is_tied = slug(match["name"], _MOST_PARTS), True


def _mark_is_no_name(guess: _Guess) -> None:
    """The x of `736 x 736` names nothing."""
    if not guess.is_tied and guess.name == "x":
        guess.name = ""


def _unit_is_no_name(guess: _Guess) -> None:
    """The word between `0.00-1.00 sec  1.09 GBytes` belongs to the number before it."""
    if not guess.is_tied and guess.name in ("seconds", "secs", "sec", "ms", "milliseconds"):
        guess.name = ""


def _rate_of_bar(guess: _Guess) -> None:
    """The rate of a progress bar is that of what the bar counts, perhaps of an evaluation: no time of a step."""
    rate = _BAR_RATE.match(guess.around.after)
    if rate is not None and guess.around.before.strip() == ",":
        description = slug(" ".join(WORDS.findall(guess.around.description)[:2]), 2)
        guess.name = "_".join(x for x in (description, rate[1].replace("/", "_per_")) if x)
        guess.is_final = True


def _rate_name(guess: _Guess) -> None:
    """`3.1 ms/step` is a step time, `12 requests/s` are requests per second."""
    is_rate = not guess.name and guess.unit == "1/s" and "/" in guess.around.after
    if not guess.name and (guess.per or is_rate):
        unit_text = guess.around.after[: guess.unit_length]
        guess.name = "step_time" if guess.per else slug(re.sub("^ ?it/", "its/", unit_text).replace("/", " per "))


def _name_from_words_after(guess: _Guess) -> None:
    """The name of `12 tokens` follows it; also that of `took 12 tokens`, since `took` names nothing."""
    names_nothing = (
        set(guess.name.split("_")) <= _STOP | _ACTIONS
        or _LEADS_ON.search(guess.before)
        or _DOES.fullmatch(guess.before)
    )
    if guess.words_after and (not guess.name or (not guess.is_tied and names_nothing)):
        guess.name, guess.after = guess.words_after, guess.words_end


def _name_from_word_after(guess: _Guess) -> None:
    """One word after a number without a unit names it, unless the word is the key of the next number."""
    if not guess.name and not guess.unit:
        if _NAMES_NOTHING.match(guess.around.after[guess.behind :]):
            return
        word = re.match(rf" ?({_DONE.pattern})(?= |$)(?! *[:=])", guess.around.after[guess.behind :])
        guess.name = slug(word[1]) if word else ""
        guess.after = guess.behind + word.end() if word and guess.name else 0


def _unit_as_name(guess: _Guess) -> None:
    """`seconds: 3.1` is a time in seconds."""
    if guess.name in ("seconds", "secs", "sec", "ms", "milliseconds") and not guess.unit and guess.is_tied:
        guess.unit, guess.why = unit_of(guess.name)[0], _NAME_SAYS
        guess.name = "time"


def _name_of_previous(guess: _Guess) -> None:
    """A number in brackets behind a named one is the same quantity, perhaps in another unit: `3.1 GB (40 %)`."""
    previous = guess.around.previous
    if guess.name or previous is None or previous.vague or not re.fullmatch(r"\s?[(\[]\s*|\s?/?\s?", guess.before):
        return
    if not re.search(r"[(\[]", guess.before) and not (guess.unit and previous.unit):
        return
    if guess.unit != "%" and (previous.after or guess.around.has_unit or not _same_kind(guess.unit, previous.unit)):
        return
    name = previous.printed or previous.name
    guess.name = f"{name}_share" if guess.unit == "%" else name


def _same_kind(unit: str, other: str) -> bool:
    return (UNITS[unit].base if unit else "") == (UNITS[other].base if other else "")


def _name_from_unit(guess: _Guess) -> None:
    """A number that only has a unit is named after what the unit measures."""
    if not guess.name and (guess.around.has_unit or guess.unit):
        kind = "s" if guess.around.has_unit else UNITS[guess.unit].base
        guess.name = "tokens_per_s" if guess.unit == "tok/s" else _KINDS.get(kind, "")


def _unit_of_line(guess: _Guess) -> None:
    """A unit that the line states for all its times: `time (ms) | forward: 1.5`."""
    needs_unit = not guess.unit and not guess.around.has_unit
    if needs_unit and guess.around.line_unit and guess.name not in ("rank", "local_rank", "global_rank", "epoch"):
        guess.unit, guess.why = guess.around.line_unit, "the start of the line says so"


def _counted_per_thing(guess: _Guess) -> None:
    """What a unit is counted per is part of the name: `result: 1.5 Gflop/s per node`, `rate: 475.5us / second`."""
    if guess.name and guess.is_tied and (guess.unit or guess.around.has_unit):
        match = _PER_THING.match(guess.around.after, guess.unit_length)
        things = match[0].lower().split()[1::2] if match is not None else []
        guess.name += "".join(f"_per_{thing}" for thing in things if thing not in guess.name.split("_"))


def _magnitude(guess: _Guess) -> None:
    """`params: 1.3 B` are billions. That is not a unit of perflog, so the name says it; else it has the letter."""
    if guess.name and guess.magnitude:
        guess.unit, guess.why = "", ""  # `Elem/s: 16.0G`
        is_count = _COUNTED.search(guess.name.replace("_", " ")) is not None
        guess.name = f"{guess.name}_{_MANY[guess.magnitude] if is_count else guess.magnitude.lower()}"


def _part_of_duration(guess: _Guess) -> None:
    """The seconds of `7 minutes and 58.6 seconds` are no time of their own."""
    previous = guess.around.previous
    if previous is None or not (guess.unit and previous.unit) or not re.search(r"^\s*and\s*$", guess.before):
        return
    if UNITS[guess.unit].base == UNITS[previous.unit].base == "s":
        guess.name, guess.is_final = "", True


_NAME_SAYS = "its name says so"
_RULES: tuple[Callable[[_Guess], None], ...] = (
    _spread,
    _counted_over,
    _share_of_bar,
    _part_of_duration,
    _name_in_cell,
    _mark_is_no_name,
    _name_around_number,
    _unit_is_no_name,
    _rate_of_bar,
    _rate_name,
    _name_from_words_after,
    _name_from_word_after,
    _unit_as_name,
    _name_of_previous,
    _name_from_unit,
    _unit_of_line,
    _counted_per_thing,
    _magnitude,
)


def _suffix(after: str, around: Surroundings) -> tuple[str, str, int]:
    """Return the unit right after a number, what it is counted per, and the length of its text."""
    match = re.match(r"[ ]?[(\[]?([%]|[A-Za-zµμ](?:[A-Za-zµμ/]*[A-Za-zµμ])?)(?![\w=:])[)\]]?", after)
    if match is None:
        return "", "", 0
    unit, per = unit_of(match[1])
    apart = match[0][0] == " "
    is_at_end = re.match(r"\s*[,;|)\]]", after[match.end() :]) or (around.is_last and not after[match.end() :].strip())
    if not unit or (unit in _SHORT and apart and not is_at_end) or (unit == "min" and around.has_least):
        return "", "", 0
    if unit == "B" and (match[1] != "B" or "param" in after[:30]) and not match[1].lower().startswith("byte"):
        return "", "", 0
    return unit, per, match.end()


def key_of(before: str) -> tuple[str, bool, str]:
    """Return the words in front of a number as a name, whether a mark ties them to it, and the unit in them."""
    in_name = next((m for m in _UNIT_IN_NAME.finditer(before) if unit_of(m[1])[0]), None)
    if in_name is not None:  # `Memory (MB) before ddp: 5125`
        before = before[: in_name.start()] + before[in_name.end() :]
    before = _SHORT_FORM.sub(lambda m: m["text"] if m["text"].isalpha() else "", before)
    before = _BRACKET_IN_NAME.sub(lambda m: "s" if m["text"] == "s" else f" {m['text']}", before)
    unit_of_name = _UNIT_OF_NAME.search(before)
    if unit_of_name is not None:
        return _key_with_unit(before[: unit_of_name.start()], unit_of_name["unit"])
    part = _SEPARATOR.split(before)[-1]
    if part.count(")") > part.count("(") and re.search(r"\)\s*[:=]\s*$", part):  # the end of a formula
        return slug(before, _MOST_IN_FORMULA), True, ""
    inside = re.search(r"[(\[{]([^()\[\]{}]*[A-Za-z][^()\[\]{}]*)$", part)
    part = _LEVEL.sub("", inside[1] if inside else part)
    explicit = bool(re.search(r"[:=]\s*[\[({'\"]?\s*$", part))
    pieces = [p for p in re.split(r"[:=]", part) if WORDS.search(p)]
    part = pieces[-1] if pieces else ""
    unit = unit_of(in_name[1])[0] if in_name is not None else ""
    rate = re.search(r"[A-Za-z]+/(?:s|sec|second)(?=\s*$)", part)
    if rate:
        unit, rest = unit_of(rate[0])[0], slug(part[: rate.start()])
        is_size = bool(rest and unit) and UNITS[unit].base == "GB/s"  # `Best Rate MB/s`
        return rest if is_size else slug(part.replace("/", " per ")), explicit, unit
    if not re.search(rf"{_OF_TIME.pattern[:-1]}\(s\)\s*$", part, re.IGNORECASE):
        part = re.sub(r"(?<=\w)\(s\)", "s", part)  # `4 GPU(s): 3.1`
    bracket = re.search(r"[(\[]([^()\[\]]+)[)\]]\s*$", part)
    if bracket and unit_of(bracket[1])[0]:
        unit = unit_of(bracket[1])[0]
        part = part[: bracket.start()]
    own_name = part.strip().lower() if explicit and part.strip().isidentifier() else ""
    is_short = len(part.split()) == 2  # `SUM device_to_host_copy 3.1`
    key = slug(part, _MOST_PARTS if explicit or is_short else 5) or own_name
    head, _, last = key.rpartition("_")
    if (
        head
        and not unit
        and "/" not in part
        and last not in ("b", "h", "w", "j", "min")
        and not re.search(r"(per|tokens?|samples?|flops?)$", head)
    ):
        unit = unit_of(last)[0] if not unit_of(last)[0].endswith("/s") else ""
        unit = (
            "" if unit in ("%", "1") else unit
        )  # `gpu_weights_percent 1.0` are all weights, `loss_1` is one of several
        key = head.removesuffix("_in") if unit else key
    return key, explicit, unit


def _key_with_unit(text: str, unit: str) -> tuple[str, bool, str]:
    """Return the name whose unit stands in brackets right behind it, as `key_of` does."""
    key = key_of(f"{text} ")[0]
    is_plural = unit == "s" and not _OF_TIME.search(text)
    return f"{key}s" if is_plural else key, False, "" if is_plural else unit_of(unit)[0]


def _words_after(after: str, is_last: bool) -> tuple[str, int]:
    """Return the words after a number, up to a mark or the end, as a name, and where they end.

    Args:
        after: The text up to the next number, or to the end of the line.
        is_last: Whether it is the end of the line.
    """
    if re.match(r" ?[A-Za-z][\w /-]*(?:\(\w+\))?\s*[:=]\s*$", after) or _UNIT_OF_NAME.search(after):  # of the next one
        return "", 0
    if _NAMES_NOTHING.match(after) or re.match(r"[A-Za-z/]+ +[A-Za-z]", after):  # `5543mW rate`
        return "", 0
    match = re.match(r" ?([A-Za-z][\w /-]{0,40}?)\s*(?=[,;|()\[\]{}.]|$)", after)
    if match is None:
        return "", 0
    counter = _COUNTED_BY.search(match[0])  # of `1 update in epoch` the last word names the next number
    text = match[1][: counter.start()] if counter is not None else match[1]
    direction = re.search(r" (in|out)$", text) if is_last and match.end() == len(after) else None  # `pages paged in`
    if direction is not None:
        return f"{slug(text[: direction.start()])}_{direction[1]}", match.end()
    across = _ACROSS.match(match[0]) if not is_last else None
    if across is not None and across.end() > 1:
        return slug(across[0]), across.end()
    done = _DONE.match(text)
    if done is not None and " " in done[0] and text[done.end() :][:1] in ("", " "):
        return slug(done[0]), match.end()
    text = re.sub(r" \w+ing (?:in|at|on|for) .*", "", text)  # `1 process waiting in a barrier`
    return slug(text), counter.start() if counter is not None else match.end()


def _column(named: Named, texts: Sequence[str]) -> Named:
    """Return the number under the name of a column of `steps`, if its name means one and its unit allows it."""
    if named.unit == "tok/s":
        return Named("tokens_per_s", named.unit, named.why, named.name)
    if named.unit and UNITS[named.unit].base == "TFLOP/s":
        return Named("tflops", named.unit, named.why, named.name)
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", x) for x in texts)
    base = UNITS[named.unit].base if named.unit else ""
    column = vocabulary.field_of(named.name)
    is_place = column in ("step", "rank", "world_size")
    is_likely = not base or base == _BASES.get(column, "")
    is_likely &= column != "step_time" or bool(base) or re.search("step|iter|batch|dt", named.name) is not None
    if column and is_likely and (whole or not is_place):
        return _with_unit(Named(column, named.unit, named.why, named.name), texts)
    known = named.name in _OWN_COLUMNS or (named.name in _BASES and _BASES[named.name] != base)
    if known or (named.name in ("step", "rank") and not whole):
        named.name += "_printed"
    return named


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
    """Return whether a name is that of something that a program counts up to a total: `step`, `samples`, `mem`."""
    parts = {form for part in name.split("_") for form in (part, part.removesuffix("s"), part.removesuffix("es"))}
    return not parts.isdisjoint(_COUNTED_UP.union(_COUNTERS))


def without_unit(text: str) -> str:
    """Return the text behind a number without the unit that it begins with."""
    return text[_suffix(text, Surroundings(text, "", ()))[2] :]


def says_unit(named: Named) -> bool:
    """Return whether the unit of a number is taken from its name: `time_ms`, `time (ms)`."""
    return named.why == _NAME_SAYS


def _with_unit(named: Named, texts: Sequence[str]) -> Named:
    """Return a column's number with a unit, if none is printed and only one is likely."""
    if named.unit or not _BASES.get(named.name):
        return named
    if named.name in _TIMES:
        return Named(named.name, "", _NO_UNIT, named.printed)
    if named.name == "mfu" and any(float(x.replace(",", "")) > 1.5 for x in texts):
        return Named("mfu", "%", "above 1, so it is not a share")
    if named.name == "memory":
        return Named("memory_printed" if named.printed == "memory" else named.printed, "", _NO_UNIT)
    return named


def value_first(before: str, behind: Sequence[str], has_least: bool) -> list[Named]:
    """Return names for the first numbers of a line, if a name stands behind each of them; [] if it does not.

    Args:
        before: The text in front of the first number: `Nlocal: `.
        behind: The text behind each number: ` ave `, ` max `, ` min`.
        has_least: Whether `min` is the least number.
    """
    if before.strip() and before.rstrip()[-1] not in ":=([":
        return []
    head, named = key_of(before)[0], []
    for text in behind:
        match = _VALUE_FIRST.match(text)
        unit = unit_of(match["unit"])[0] if match is not None and match["unit"] else ""
        is_name = match is not None and (not unit_of(match["name"])[0] or (match["name"] == "min" and has_least))
        is_name &= match is not None and (len(match["name"]) > 2 or match["name"] in _STATISTICS)  # no `100.5 ps`
        if match is None or not is_name or (match["unit"] and not unit):
            return []
        is_listed = match["end"].startswith(",") or match["name"] in _STATISTICS or match["name"] == "min"
        is_end = match.end() == len(text) and not match["end"].strip(" ,") and text is behind[-1]
        is_end |= match.end() < len(text) and not text[match.end()].isalpha()
        if not is_listed and not is_end:
            return []
        key = slug(f"{head} {match['name']}", _MOST_PARTS)
        named.append(Named(key, unit, "printed after it" if unit else "", after=match.end("name"), is_listed=True))
        if is_end:
            break
    return named if len(named) > 1 else []


def unnamed(place: int, words: Sequence[str]) -> str:
    """Return the name of a number that nothing names: its place, and the first words of the line."""
    words = [word for word in words if not unit_of(word)[0]]
    first = slug(" ".join(words[:2]), 2)
    return f"number_{place}_of_{first}" if first else "number" if place == 1 else f"number_{place}"


def settled(line: Sequence[Named], words: Sequence[str]) -> list[Named]:
    """Return the numbers of a line with unique names.

    A time without a unit gets the unit of the other times of the line. Without them it keeps its printed name, which
    is that of no column: a column has a unit.
    """
    times = [n.unit for n in line if n.unit and UNITS[n.unit].base == "s"]
    used: set[str] = set()
    unique = []
    for place, named in enumerate(line, 1):
        if named.name in _TIMES and named.why == _NO_UNIT:
            if len(set(times)) == 1:
                named = Named(named.name, times[0], "of the other times of the line", named.printed)
            else:
                is_column = named.printed == named.name
                named = Named(f"{named.name}_printed" if is_column else named.printed, "", _NO_UNIT)
        base, count = named.name, 2
        if named.vague:
            base = unnamed(place, words)
        name = base
        if name in used and named.printed and named.printed not in used:
            name = base = named.printed
        while name in used:
            name, count = f"{base}_{count}", count + 1
        used.add(name)
        printed = f"{named.printed}{name.removeprefix(base)}" if named.printed else ""
        unique.append(Named(name, named.unit, named.why, printed, named.vague))
    return unique
