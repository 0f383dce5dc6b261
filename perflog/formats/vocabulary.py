"""The words of programs: what the quantities of a step, its counters and the levels of a logger are called.

The names of quantities are data: `vocabulary.toml`. Each reader of names asks here, whatever the form of its lines:
families of any program, series of scalars, guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from unicodedata import combining, normalize

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import column_for

_NAMES = Path(__file__).with_name("vocabulary.toml")
_CHOICE = lazy_pattern(r"(.*?)\{([^{}]*)\}(.*)")
NO_NAME = "[^A-Za-z0-9_]+"
"""Characters of a printed name that a field name cannot have; one `_` replaces each stretch of them."""

_REFERENCE = lazy_pattern(r"\{(\w+)\}")
_NAMES_KEPT = 1 << 14  # a log repeats its names

LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "NOTICE", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL")
"""Levels of loggers, as they print them."""

LEVEL = f"(?:{'|'.join(LEVELS)})"
"""Pattern of a level."""

COUNTERS = frozenset(
    "epoch epochs step steps iter iters iteration iterations it batch rank round episode update".split()
)
"""Words that name the whole number after them, wherever they are."""

MOMENTS = COUNTERS - {"batch", "rank"}
"""Counters that say how far a run is: its records are a series, and no cases."""

NUMBERED_PARTS = frozenset(
    "accum accumulation block bucket chunk expert group head layer mb micro microbatch microstep stage stream".split()
)
"""Words, without marks, for what programs number inside of a step. A time beside such a number may be that part's."""

STATISTICS = frozenset(
    "mean avg average ave av median med mdn std stddev stdev spread min minimum max maximum total sum last".split()
)
"""Names of statistics of one quantity, beside percentiles."""

STATISTIC = rf"(?:{'|'.join(sorted(STATISTICS, key=len, reverse=True))}|p\d+(?:[_.]\d+)?)"
"""Pattern of a statistic."""

KINDS = {"s": "time", "B": "size", "W": "power", "J": "energy"}
"""By base unit, the name of a number that has none."""

SPEEDS = {"TFLOP/s": "tflops", "GB/s": "bandwidth"}
"""By base unit, the name of a rate that has none."""

TRAINING = frozenset(("train", "training"))
EVALUATIONS = frozenset(
    "val valid validation validate validating eval evaluation evaluate evaluating test testing dev".split()
)
"""Words that name the part of the work which numbers measure."""

EVALUATION = f"(?:{'|'.join(sorted(EVALUATIONS))})"
"""Pattern of a word of an evaluation."""

COUNTER = f"(?:{'|'.join(sorted(COUNTERS))})"
"""Pattern of a word of a counter."""

PLACES = ("step", "rank")
"""Fields that locate a row and measure nothing. Their numbers are whole."""

DEVICE = "device_label"
"""Field with the index of the device of a process, inside of its line: `mem_usage:cuda:3 6.2GB`."""

DIVERGING = tuple("loss norm perplexity ppl nll entropy kl".split())
"""Ends of the names of quantities that are not finite where a run diverges: `loss nan`."""

COUNTED_UP = frozenset(
    "batch run trial task test sample example image token request query chunk block layer stage phase part item video "
    "frame sentence game mem memory ram swap used progress done rank thread cpu core worker node process loading map "
    "downloading seq row key".split()
)
"""Words for what programs count up to a total, beside counters."""

NUMBERED = frozenset(
    "gpu cpu gpus device dev node host worker thread core socket layer head expert stage nic port net numa process "
    "proc shard group chunk block level bin row column col id idx index no number version run test trial".split()
)
"""Words for what programs number: a whole number after them is a label."""

CONFIGURED = frozenset(
    "size sizes xfersize blocksize batchsize filesize bufsize seed dim dims dimension dimensions layer layers "
    "head heads hidden vocab vocabulary batch batches worker workers thread threads node nodes gpus sms "
    "devices ranks procs processes tasks clients concurrency jobs channels classes epochs steps iterations "
    "iters repetitions repeats segments port offset stride length len depth width height level version "
    "interval window timeout limit capacity world micro params parameter parameters experts groups topk "
    "accumulation warmup warmups bits cores sockets replicas shards stages partitions features order degree "
    "parallel every delay accelerators requests rng seeds queries".split()
)
"""Words for what is configured: a whole number with a name that ends in one of them is a setting."""

OBJECTS_OF_SETTINGS = frozenset(
    "args arguments cfg config configuration env environment flags hparams hyperparameters hyper_parameters options "
    "parameters params settings".split()
)
"""Names of objects with members that are settings."""

SENTENCE_WORDS = frozenset(
    "in at of on for with from to by and or but than then after before over within about into as if was were are be is "
    "has have had using per out the a an not no only some all each every will would should can could until "
    "since took takes take ran running loaded loading saved saving finished done got found uses left "
    "processed completed started starting".split()
)
"""Words of sentences: no names of figures."""


class Quantity(Struct, frozen=True):
    """A quantity that programs print of a step.

    Attributes:
        field: The field, or the column of table `steps` without its unit, that takes it.
        names: Its names as they are compared; of several on one line the first counts.
        unit: The unit that these names alone say; "" for none.
        places: Whether it locates a row instead of measuring something: a step, a rank.
        gpu_names: The names that say that the number is of one GPU, although the job runs on many.
    """

    field: str
    names: tuple[str, ...]
    unit: str = ""
    places: bool = False
    gpu_names: frozenset[str] = frozenset()


@cache
def quantities() -> Mapping[str, Quantity]:
    """Return the quantities that have known names, by field."""
    import tomli

    found = {}
    for entry in tomli.loads(_NAMES.read_text("utf-8"))["quantity"]:
        names, gpu_names = (_compared(entry.get(key, ())) for key in ("names", "gpu_names"))
        unit, places = entry.get("unit", ""), entry.get("places", False)
        found[entry["field"]] = Quantity(entry["field"], (*names, *gpu_names), unit, places, frozenset(gpu_names))
    return found


def _compared(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plain_name(name) for pattern in patterns for name in _written_out(pattern)))


def quantities_of(table: str | None) -> Mapping[str, Quantity]:
    """Return the quantities that lines of a table may print: they give a row its key, or fill a column of it."""
    is_column = {field: column_for(table, field) is not None for field in quantities()}
    return {field: q for field, q in quantities().items() if q.places or is_column[field]}


@cache
def fields() -> Mapping[str, str]:
    """Return the field of each known name, as names are compared."""
    return {name: quantity.field for quantity in quantities().values() for name in quantity.names}


def field_of(name: str) -> str:
    """Return the field that a printed name means; "" for none.

    Example:
        >>> field_of("train/Loss"), field_of("elapsed time per iteration"), field_of("val_loss")
        ('loss', 'step_time', '')
    """
    return fields().get(plain_name(name), "")


@lru_cache(_NAMES_KEPT)
def field_name(text: str) -> str:
    """Return a printed name as a field name: `num_layers L` gives num_layers_L, and `Énergie` Energie."""
    if not text.isascii():
        text = "".join(c for c in normalize("NFD", text) if not combining(c))
    return re.sub(NO_NAME, "_", text).strip("_")


def name_in_script(text: str) -> str:
    """Return a printed name with the letters of any script, `Δ p50` as Δ_p50; "" if it has ASCII letters alone."""
    name = re.sub(r"\W+", "_", normalize("NFC", text)).strip("_")
    return "" if field_name(name) == "".join(c for c in normalize("NFD", name) if not combining(c)) else name


@lru_cache(_NAMES_KEPT)
def plain_name(text: str) -> str:
    """Return a printed name as families of any program compare names: `Global Step` gives global_step."""
    return (field_name(text) or name_in_script(text)).lower()


def with_names(text: str) -> str:
    """Return alternatives of names, `{step}|epoch`, with all names of a field instead of the field in braces."""
    return _REFERENCE.sub(lambda match: "|".join(quantities()[match[1]].names), text)


def _written_out(pattern: str) -> Iterator[str]:
    """Yield the names that a pattern covers: `{a,b} c` gives `a c` and `b c`."""
    match = _CHOICE.fullmatch(pattern)
    if match is None:
        yield pattern
        return
    for choice in match[2].split(","):
        yield from _written_out(f"{match[1]}{choice}{match[3]}")
