"""Settings in the names of logs: `tp4_pp2_mbs1/train.log`, `lr1e-4-bs32.log`.

A name is a person's, and no line of the log proves it. So a setting counts only where all of several logs have it in
their names and it differs; its name begins with `name.`, which states its origin. Numbers from 0 on, `dp0.log` and
`dp1.log`, number parts of one job, and are no degrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perflog.lazy_patterns import lazy_pattern
from perflog.settings.run_settings import Settings, settings_of

ORIGIN = "name."
"""Begins the names of these settings."""

_BEFORE_NUMBER = (
    "tp|pp|dp|ep|cp|vpp|fsdp|mbs|gbs|bs|bsz|batch_?size|lr|wd|seq_?len|ctx|isl|osl|conc|concurrency|qps|rps|zero|nnodes|nodes|"
    "ngpus|gpus|layers|hidden|heads|experts|top_?k|accum|warmup|accelerators|workers|replicas"
)
_AFTER_NUMBER = "gpus|nodes|experts|layers|workers|replicas"
_TYPES = "bf16|fp16|fp8|fp4|fp32|tf32|int8|int4|mxfp8|mxfp4|nvfp4"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?[kK]?"
_END = rf"(?=[^A-Za-z0-9]|\Z|(?:{_BEFORE_NUMBER})[_=-]?[0-9])"
_SETTING = lazy_pattern(
    rf"(?<![A-Za-z.])(?:(?P<name>{_BEFORE_NUMBER})[_=-]?(?P<value>{_NUMBER}){_END}"
    rf"|(?<![0-9])(?P<number>[0-9]+)[_-]?(?P<counted>{_AFTER_NUMBER})(?![A-Za-z0-9])"
    rf"|(?<![0-9])(?P<type>{_TYPES})(?![A-Za-z0-9]))"
)
_MAY_BE_ZERO = frozenset("lr wd warmup zero fsdp".split())
_FOLDERS = 3  # above a log, that may name it


def settings_of_runs(rows: Iterable[Mapping[str, object]]) -> dict[str, Settings]:
    """Return the settings of rows of table `runs`, with those in the names of their logs, by run."""
    settings = {str(row["run"]): (str(row.get("log") or ""), settings_of(row)) for row in rows}
    named = settings_in_names({run: log for run, (log, _) in settings.items()})
    return {run: {**own, **named[run]} for run, (_, own) in settings.items()}


def settings_in_names(logs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the settings in the names of logs by run; those that are in all names and differ.

    `logs`: the log of each run.

    Example:
        >>> settings_in_names({"a": "sweep/tp4_pp1/run.log", "b": "sweep/tp2_pp1/run.log"})
        {'a': {'name.tp': '4'}, 'b': {'name.tp': '2'}}
    """
    found = {log: _of_name(log) for log in dict.fromkeys(logs.values())}
    names = dict.fromkeys(name for settings in found.values() for name in settings)
    values = {name: [settings[name] for settings in found.values() if name in settings] for name in names}
    spelled = {name: {_number(value): value for value in reversed(values[name])} for name in names}
    telling = [name for name, by_number in spelled.items() if len(values[name]) == len(found) and len(by_number) > 1]
    telling = [name for name in telling if 0 not in spelled[name] or name in _MAY_BE_ZERO]
    return {
        run: {ORIGIN + name: spelled[name][_number(found[log][name])] for name in telling} for run, log in logs.items()
    }


def _number(value: str) -> float | str:
    """Return a value as a number if it is one: 1e-4 and 0.0001 are equal. What `k` stands for is not known."""
    return float(value) if value[-1:].isdigit() and value[:1].isdigit() else value


def _of_name(log: str) -> dict[str, str]:
    """Return the settings in a name of a log; the name nearest to the file counts."""
    settings = {}
    for part in log.replace("\\", "/").split("/")[-1 - _FOLDERS :]:
        for match in _SETTING.finditer(part):
            if match["type"]:
                settings["dtype"] = match["type"]
            else:
                settings[match["name"] or match["counted"]] = match["value"] or match["number"]
    return settings
