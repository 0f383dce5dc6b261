"""Start times of runs, from their settings or the names of their logs.

The modification times of files are not used: copies and checkouts change them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time
from pathlib import PurePath

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables, computed_once
from perflog.tables.columns import NULL

_NAMES = ("started", "started_at", "start_time", "datetime", "date", "timestamp", "created_at", "begin_time")
"""Names of settings with the moment of the start, in lower case, the surest first."""

_IN_SETTINGS = lazy_pattern(f'"(?:[^"]*\\.)?(?:{"|".join(_NAMES)})"', re.IGNORECASE)
_IN_NAME = lazy_pattern(
    r"(?<![0-9A-Za-z])(20[0-9]{2})([-_.]?)([01][0-9])\2([0-3][0-9])"
    r"(?:[-_T ]?([0-2][0-9])[-_:.h]?([0-5][0-9])(?:[-_:.m]?([0-5][0-9]))?)?(?![0-9])"
)
_EPOCHS = {1e9: 1.0, 1e12: 1e3, 1e15: 1e6, 1e18: 1e9}  # least number: counts in a second; numbers up to 2.5 times it


class Moment(Struct, frozen=True, order=True):
    """When a run started. `source`: the setting with the start time, or `name of the log`."""

    at: datetime
    source: str

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d}" if self.at.time() == time() else f"{self.at:%Y-%m-%d %H:%M:%S}"


@computed_once
def moments(tables: Tables) -> dict[str, Moment]:
    """Return when each run started, by run id, without the runs with an unknown start.

    A setting of the run counts before a date in the name of its log or of a folder around it: `2026-01-16_nightly.txt`,
    `run_20260116-093000/rank0.log`. Few of these state a time zone: the times are local to whoever wrote them.
    """
    found = {}
    for run, log, config in tables.rows("runs").records("run", "log", "config"):
        text = "" if config == NULL or config is None else config
        moment = _moment_in_settings(json.loads(text)) if _IN_SETTINGS.search(text) else None
        if moment := moment or _moment_in_name(log):
            found[run] = moment
    return found


def moment_of(text: str) -> Moment | None:
    """Return the moment in a setting, in UTC if it names its time zone; None if it has none."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        found = _moment_in_value(text) or _moment_in_value(_number(text))
        return None if found is None else Moment(found, text)
    return Moment(at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at, text)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment_in_settings(settings: Mapping[str, object]) -> Moment | None:
    named = {name.rpartition(".")[2].lower(): (name, value) for name, value in reversed(list(settings.items()))}
    for wanted in _NAMES:
        name, value = named.get(wanted, ("", None))
        if (at := _moment_in_value(value)) is not None:
            return Moment(at, name)
    return None


def _moment_in_value(value: object) -> datetime | None:
    """Return the moment in a value: a date, a date with a time, or a count since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        scale = next((scale for least, scale in _EPOCHS.items() if least <= value < 2.5 * least), None)
        return None if scale is None else datetime.fromtimestamp(value / scale, UTC).replace(tzinfo=None)
    match = _IN_NAME.match(value.strip()) if isinstance(value, str) else None
    return _moment(match) if match else None


def _moment_in_name(log: str | None) -> Moment | None:
    for part in reversed(PurePath(log or "").parts):  # tables of a user may name no log
        for match in _IN_NAME.finditer(part):
            if (at := _moment(match)) is not None:
                return Moment(at, "name of the log")
    return None


def _moment(match: re.Match[str]) -> datetime | None:
    year, _, month, day, hour, minute, second = match.groups()
    numbers = (int(number or 0) for number in (hour, minute, second))
    text = f"{year}-{month}-{day} {':'.join(f'{number:02}' for number in numbers)}"
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # 20261399 is a number
        return None
