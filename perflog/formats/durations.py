"""Durations as programs print them: `0:00:24`, `1 day, 2:03:04.5`, `1-02:03:04`, `2h3m`, `1 minute 3.5 seconds`,
`51s 253ms`.

Two numbers with one colon, such as `5:37`, are no duration: nothing says whether they are minutes or hours.
"""

from __future__ import annotations

import re

from perflog.units import plural

# Few logs have durations in these forms: `re` compiles a pattern when it is needed, and keeps it.

_SECONDS = r"[0-9]+(?:\.[0-9]+)? ?s(?:ec(?:ond)?s?)?"
_MINUTES = r"[0-9]+ ?m(?:in(?:ute)?s?)?"
_HOURS = r"[0-9]+ ?h(?:rs?|ours?)?"
_DAYS = r"[0-9]+ ?d(?:ays?)?"
_NEXT = r"(?:,? (?:and )?)?"
_CLOCK = r"(?:[0-9]+(?: days?,? +|-))?[0-9]{1,5}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_WITH_MILLISECONDS = rf"[0-9]+ ?s(?:ec(?:ond)?s?)?{_NEXT}[0-9]+ ?ms(?:ecs?)?"
_PARTS = (
    rf"(?:{_DAYS}{_NEXT})?(?:{_HOURS}{_NEXT})?(?:{_MINUTES}{_NEXT})?{_WITH_MILLISECONDS}",
    rf"{_DAYS}{_NEXT}{_HOURS}(?:{_NEXT}{_MINUTES})?(?:{_NEXT}{_SECONDS})?",
    rf"{_DAYS}{_NEXT}{_MINUTES}(?:{_NEXT}{_SECONDS})?",
    rf"{_HOURS}{_NEXT}{_MINUTES}(?:{_NEXT}{_SECONDS})?",
    rf"{_HOURS}{_NEXT}{_SECONDS}",
    rf"{_MINUTES}{_NEXT}{_SECONDS}",
)
DURATION = rf"(?:{_CLOCK}|{'|'.join(_PARTS)})"
"""Pattern of a duration, the same for RE2 and `re`."""

PARTS = rf"(?:{'|'.join(_PARTS)})"
"""Pattern of durations of several units. The others look like a time of day."""

DAYS_AND_CLOCK = r"[0-9]+ days?,? +[0-9]{1,2}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
"""Pattern of durations of days and a clock."""

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = r"([0-9.]+) ?(ms|[dhms])"
_SAYS_SO = r"(?:^|_)(?:duration|elapsed|eta|runtime|run_time|walltime|uptime|remaining)(?:_|$)|._time$|time_left$"
_OF_DAY = (
    r"(?:^|_)(?:start|starts|started|end|ends|ended|begin|began|finish|finished|stop|stopped|date|datetime|day|utc|gmt|local"
    r"|system|server|now|current|created|modified|updated|log|event|record|last|first|submit|submitted|arrival|clock|at"
    r"|expected|complete|completed|completion|commit|build|boot|due|deadline|sample|snapshot|zone)(?:_|$)|stamp"
)


def is_duration(text: str) -> bool:
    """Return whether a string is a duration."""
    return re.fullmatch(DURATION, text) is not None


def names_duration(name: str) -> bool:
    """Return whether a printed name says that its value is a duration, and no time of day: `elapsed_time`, `ETA`."""
    plain = re.sub("[^a-z0-9]+", "_", re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
    return re.search(_SAYS_SO, plain) is not None and re.search(_OF_DAY, plain) is None


def measures(name: str, text: str) -> bool:
    """Return whether a string after a name is a duration: it prints its units, or the name calls it a duration."""
    return re.fullmatch(PARTS, text) is not None or (is_duration(text) and names_duration(name))


def seconds(text: str) -> float:
    """Return a duration in seconds, rounded once.

    Example:
        >>> seconds("1 day, 2:03:04.5")
        93784.5
    """
    if ":" not in text:
        found = re.findall(_PART, text)
        if found[-1][1] == "ms":
            return (sum(int(number) * _UNITS[unit] * 1000 for number, unit in found[:-1]) + int(found[-1][0])) / 1000
        parts = [(number, _UNITS[unit]) for number, unit in found]
    else:
        days, _, clock = re.sub(" days?,? +", "-", text).rpartition("-")
        hours, minutes, second = clock.split(":")
        parts = [(days or "0", _UNITS["d"]), (hours, _UNITS["h"]), (minutes, _UNITS["m"]), (second, 1)]
    decimals = len(parts[-1][0].partition(".")[2])
    scale: int = 10**decimals
    return (
        sum(
            int(number.replace(".", "")) * (scale if k + 1 < len(parts) else 1) * unit
            for k, (number, unit) in enumerate(parts)
        )
        / scale
    )


def print_duration(value: float, padded: bool = False) -> str:
    """Return seconds as Python prints a timedelta: `0:00:24`, `1 day, 2:03:04.500000`.

    `padded`: as Slurm prints them: `00:00:24`, `1-02:03:04`.
    """
    micros = round(value * 1_000_000)
    whole, fraction = divmod(micros, 1_000_000)
    days, rest = divmod(whole, _UNITS["d"])
    if padded:
        return f"{f'{days}-' if days else ''}{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    text = f"{days} {plural('day', days)}, " if days else ""
    text += f"{rest // 3600}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return text + (f".{fraction:06d}" if fraction else "")


def clock_seconds(text: str) -> float:
    """Return the time since a start in seconds, as progress bars print it.

    Example:
        >>> clock_seconds("05:10"), clock_seconds("1:05:10"), clock_seconds("1 day, 1:05:10")
        (310.0, 3910.0, 90310.0)
    """
    days, _, clock = re.sub(" days?, ", "-", text).rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    return float(sum(part * 60**k for k, part in enumerate(reversed(parts))) + int(days or 0) * _UNITS["d"])


def print_clock(value: float) -> str:
    """Return seconds as tqdm prints them: `05:10`, `1:05:10`."""
    minutes, second = divmod(int(value), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"
