"""The time of a step and its parts: what the times that a line prints by name are.

    step 12 | step_time 3.01s | data 0.10s | fwd 0.61s | bwd 1.91s | opt 0.30s

The word alone does not say it: `elapsed 350 s` is no part. So the numbers of the line that shows the shape have to
agree: together the parts take no longer than the step, and what is named after `backward` no longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from perflog.formats.model import Line
from perflog.formats.vocabulary import COUNTERS, EVALUATIONS, NUMBERED_PARTS, STATISTICS, plain_name
from perflog.tables.schema import column_for
from perflog.units import Unit

_STEP = "step_time"
_COLUMNS = ("forward", "backward")
"""Parts with a column of their own in table `steps`."""
_TIME, _TOTALS = "time", ("total", "total_time")
_MOST = 0.5  # share of a total that its parts take
_ROUNDED = 1.02  # what parts may exceed their whole by, since each is rounded
_NO_PARTS = (
    "elapsed eta wall since start remaining left uptime clock timestamp checkpoint ckpt save hidden overlapped "
    "gpu cpu cuda device per latency ttft tpot itl slowest fastest".split()
)
_OTHER_WORDS = COUNTERS | EVALUATIONS | STATISTICS | frozenset(_NO_PARTS)
"""Words in names of times that are no parts of the step."""
_COMMUNICATION = frozenset("comm comms communication allreduce reduce gather scatter a2a alltoall p2p sync".split())


def with_parts(line: Line, text: str | bytes) -> Line:
    """Return a Line of table `steps` with the parts of its step as phases, as the numbers in a line of it show them."""
    times = [name for name, unit in line.unit.items() if unit.base == "s"]
    if line.table != "steps" or line.phases or _STEP not in times or len(times) < 2:
        return line
    values = line.template.match(text) or {}
    numbers = {name: values.get(name) for name in times}
    seconds = {name: x * line.unit[name].factor for name, x in numbers.items() if isinstance(x, int | float)}
    return replace(line, phases=parts_of_step(seconds))


def parts_of_step(seconds: Mapping[str, float]) -> frozenset[str]:
    """Return the times that are parts of the time of the step; none if the numbers do not agree.

    Communication may run beside computation: if the times agree without it, it is no part.

    `seconds`: the times of a line of table `steps` by field. What has a column of this table needs no phase.
    """
    parts = {name for name in seconds if column_for("steps", name) is None and _may_be_part(name)}
    exposed = {name for name in parts if _COMMUNICATION.isdisjoint(name.lower().split("_"))}
    return frozenset(next((each for each in (parts, exposed) if _fit(seconds, each)), ()))


def _fit(seconds: Mapping[str, float], parts: Collection[str]) -> bool:
    """Return whether parts, with those that have columns, take no longer than what they are parts of."""
    wholes = {_STEP, *_COLUMNS} & seconds.keys()
    times: dict[str, list[float]] = {whole: [] for whole in wholes}
    for name in wholes.union(parts) - {_STEP}:
        times.setdefault(_parent(name, wholes), []).append(seconds[name])
    return _STEP in wholes and all(sum(times[whole]) <= _ROUNDED * seconds[whole] for whole in wholes)


def time_of_step(seconds: Mapping[str, float], units: Mapping[str, Unit], printed: Collection[str] = ()) -> str:
    """Return the name, as names are compared, of a time that can only be that of the step; "" for none.

    `total` is, if the other times of the line are most of it, and no more: they are its parts. `time` is in
    milliseconds: no program prints the time since its start so. But in `micro 3 | step 1 | time: 100 ms` it is that of
    the micro-batch.

    `printed`: the names of all numbers of the line, as names are compared.
    """
    named = {plain_name(name): name for name in seconds}
    whole = next((name for name in _TOTALS if name in named), "")
    others = [seconds[name] for name in seconds if plain_name(name) != whole and _may_be_part(name)]
    if whole and len(others) > 1 and _MOST <= sum(others) / (seconds[named[whole]] or math.inf) <= _ROUNDED:
        return whole
    is_of_step = NUMBERED_PARTS.isdisjoint(name.replace("_", "") for name in printed)
    return _TIME if is_of_step and _TIME in named and units[named[_TIME]].factor < 1 else ""


def _may_be_part(name: str) -> bool:
    return _OTHER_WORDS.isdisjoint(name.lower().split("_"))


def _parent(name: str, wholes: Collection[str]) -> str:
    """Return the whole that a part is named after, `backward` for `backward_allreduce`; else the step."""
    return next((whole for whole in wholes if name.startswith(f"{whole}_")), _STEP)
