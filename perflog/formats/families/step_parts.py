"""The time of a step and its parts: which times of a line may be one of them, by their names.

    step 12 | step_time 3.01s | data 0.10s | fwd 0.61s | bwd 1.91s | opt 0.30s

The words alone do not decide it: `elapsed 350 s` is no part, and `total 3.01s` may be the time since the start. The
numbers of the log decide, when its rows are made: see `assemble.steps.time_roles`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.formats.vocabulary import COUNTERS, EVALUATIONS, NUMBERED_PARTS, STATISTIC, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import column_for
from perflog.units import UNITS, Unit, unit_of

STEP_TIME = "step_time"
COLUMNS = ("forward", "backward")
"""Parts with a column of their own in table `steps`."""
_TIMES, _TOTALS = (
    ("time", "t"),
    (("total", "total_time", "train_time", "total_step_time", "total_iter_time", "total_iteration_time")),
)
_NO_PARTS = (
    "elapsed eta wall since start remaining left uptime clock timestamp checkpoint ckpt save hidden overlapped "
    "gpu cpu cuda device per latency ttft tpot itl slowest fastest".split()
)
_GROUP = lazy_pattern(r"^(?:times?|timings?|timers?)(?:_s)?_(?=total)")
_STATISTIC = lazy_pattern(rf"(?:^|_){STATISTIC}(?:_|$)")
_OPTIMIZER_STEP = lazy_pattern(r"(?<=^optimizer)_step|(?<=^optim)_step|(?<=^opt)_step")  # this step is a part
_DURATION = r"(?:[mnuµ]?s|sec|seconds)"
_NAME = r"(?P<name>[A-Za-z][A-Za-z_/-]*)(?: ?[:=] ?| )"
_PAIR = lazy_pattern(rf"[ \t]*[|,;]?[ \t]*{_NAME}")
_FIRST_PAIR = lazy_pattern(
    rf"(?:(?:\b(?i:times?|timings?|timers?)[ _]?[(\[](?P<heading>{_DURATION})[)\]] ?[:=]|[|,;:\[(]|^)[ \t]*|[ \t])"
    rf"{_NAME}$"
)
_IN_BRACKETS = lazy_pattern(rf"[ \t]*[(\[](?P<unit>{_DURATION})[)\]]")
_DECIMALS = lazy_pattern(r"^[0-9]*(?=\.)")
_TIMED = lazy_pattern(
    r"(?i)(?:data|load|loading|dataloader|fwd|forward|bwd|backward|opt|optim|optimizer|all[_-]?reduce|comms?|sync|h2d"
    r"|overhead|other|total)(?:[_-](?:time|pass|step))?"
)
_PASS = lazy_pattern(r"(?i)fwd|bwd|forward|backward")
_OTHER_WORDS = (COUNTERS - {"update", "updates"}) | EVALUATIONS | frozenset(_NO_PARTS)
"""Words in names of times that are no parts of the step."""


def with_parts(line: Line, times: Collection[str] | None = None, whole: str = "") -> Line:
    """Return a Line of table `steps` with the fields that may be parts of the step, if one may be its time.

    `times`: the fields that are times; by default all with a unit of time. `whole`: what may be the time of the step.
    """
    if line.table != "steps" or line.phases:
        return line
    known = [name for name, unit in line.unit.items() if unit.base == "s" and (times is None or name in times)]
    if not (whole or STEP_TIME in known):
        return line
    loose = [name for name in known if name in COLUMNS or column_for("steps", name) is None]
    return replace(line, parts=frozenset(filter(may_be_part, loose)) - {whole}, whole=whole)


def time_of_step(units: Mapping[str, Unit], printed: Collection[str] = ()) -> str:
    """Return the field of a time that may be the time of the step, "" for none: `total`; `time` or `t` in milliseconds.

    No program prints the time since a date in milliseconds. `total` is the sum of other times. In
    `micro 3 | step 1 | time: 100 ms` it is the time of the micro-batch.

    `units`: of the times of a line by field. `printed`: the names of all numbers of the line, as names are compared.
    """
    named = {_own_name(name): name for name in units}
    whole = next((name for name in _TOTALS if name in named), "")
    if whole and len([name for name in units if _own_name(name) != whole and may_be_part(name)]) > 1:
        return named[whole]
    is_of_step = NUMBERED_PARTS.isdisjoint(name.replace("_", "") for name in printed)
    time = next((named[name] for name in _TIMES if name in named and units[named[name]].factor < 1), "")
    return time if is_of_step else ""


def shared_units(template: Template, units: Mapping[str, Unit]) -> dict[str, Unit]:
    """Return the units of times that only the last of them or their heading prints, by field.

        fwd 120 | bwd 240 | total 436 ms
        fwd: 120, bwd: 240, total: 436 (ms)
        time (ms): fwd 120 bwd 240

    Only numbers with names of parts and totals count, and only beside a pass: `data 120 | total 436 ms` may be samples.
    """
    found: dict[str, Unit] = {}
    row: list[str] = []  # neighbouring times so far that have no unit
    heading, decimals = "", ""
    for before, field, after in zip(template.literals, template.fields, template.literals[1:], strict=False):
        pair = _PAIR.fullmatch(before)
        if pair is None:
            row, pair = [], _FIRST_PAIR.search(before)
            heading = (pair["heading"] or "") if pair else ""
        if pair is None or not _TIMED.fullmatch(pair["name"]):
            row, heading = [], ""
            continue
        at_end = _IN_BRACKETS.match(after)
        named = unit_of(heading or (at_end["unit"] if at_end else ""))[0]
        own, is_alike = units.get(field.name), not row or decimals == _DECIMALS.sub("", field.spec)
        row, decimals = [*row, field.name], _DECIMALS.sub("", field.spec)
        unit = own if own and is_alike else UNITS.get(named)
        if unit and unit.base == "s" and any(map(_PASS.search, row)):
            found |= {name: unit for name in row if name not in units}
        row = row if own is None else []
    return found


def is_total(name: str) -> bool:
    """Return whether a time is by its name the sum of others."""
    return _own_name(name) in _TOTALS


def _own_name(name: str) -> str:
    """Return the name of a time without the group of times that it is in: `total` of `time/total`."""
    return _GROUP.sub("", plain_name(name))


def may_be_part(name: str) -> bool:
    """Return whether a time may be a part of the step by its name."""
    plain = _OPTIMIZER_STEP.sub("", name.lower())
    return _OTHER_WORDS.isdisjoint(plain.split("_")) and _STATISTIC.search(plain) is None
