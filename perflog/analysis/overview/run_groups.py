"""Run groups, the rows of an overview: single runs, or all repeats of a configuration where there are many runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perflog.log import Log, RunKey
from perflog.metrics.run_settings import settings_of, telling_settings

SINGLE_RUNS = 10
"""Up to this number of runs, each is a row of its own."""

REPEATS = 5
"""From this number on, logs of one run each that no setting or label tells apart are a row together."""


@dataclass(frozen=True)
class RunGroup:
    """A row of an overview.

    `mark`: #3 for the third run of the only log, else A, B, ... `name`: label, or name of the log or of its folder.
    `settings`: those that tell the groups apart, as text.
    """

    mark: str
    name: str
    runs: tuple[str, ...]
    settings: Mapping[str, str]


def run_groups(log: Log) -> list[RunGroup]:
    """Return the rows of an overview of these runs, in the order of the runs."""
    settings = {row["run"]: settings_of(row) for row in log.arrow("runs").to_pylist()}
    keys = [key for key in log.run_keys if key.id in settings]
    telling = telling_settings([settings[key.id] for key in keys])
    values = {key.id: {name: settings[key.id].get(name, "-") for name in telling} for key in keys}
    names = run_names(keys)
    if len(keys) <= SINGLE_RUNS and not (len(keys) >= REPEATS and not telling and _are_alike(keys)):
        marks = run_marks(keys)
        return [RunGroup(marks[key.id], names[key.id], (key.id,), values[key.id]) for key in keys]
    folders = _without_common_folder([os.path.dirname(key.log) for key in keys])
    members: dict[tuple[str, ...], list[RunKey]] = {}
    for key, folder in zip(keys, folders, strict=True):
        members.setdefault((folder, *values[key.id].values()), []).append(key)
    return [
        RunGroup(
            letters(i),
            folder if len(of_group) > 1 else names[of_group[0].id],
            tuple(key.id for key in of_group),
            values[of_group[0].id],
        )
        for i, ((folder, *_), of_group) in enumerate(members.items())
    ]


def _are_alike(keys: Sequence[RunKey]) -> bool:
    """Whether only the names of their logs tell these runs apart."""
    return len({key.sha256 for key in keys}) == len(keys) and len({key.label for key in keys}) == 1


def run_marks(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return short names of runs by id: #3 for the third run of the only log, else A, B, ..."""
    one_log = len({key.sha256 for key in keys}) == 1
    return {key.id: f"#{key.index}" if one_log else letters(i) for i, key in enumerate(keys)}


def run_names(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return the names of runs by id: their labels if these tell all of them apart, else the names of their logs."""
    labels = [key.label or "" for key in keys]
    if len(set(labels)) == len(keys) and all(labels):
        return {key.id: label for key, label in zip(keys, labels, strict=True)}
    return _names_by_log(keys)


def run_places(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return where runs stand, by id: #3 in the only log, else the name of the log, with #3 if it has several runs.

    Runs of logs with one name, such as those of a log that has grown, are named by their ids.
    """
    one_log = len(keys) > 1 and len({key.sha256 for key in keys}) == 1
    places = run_marks(keys) if one_log else _names_by_log(keys)
    counts = Counter(places.values())
    return {id: place if counts[place] == 1 else id for id, place in places.items()}


def _names_by_log(keys: Sequence[RunKey]) -> dict[str, str]:
    logs = _without_common_folder([key.log for key in keys])
    runs_of_log = Counter(key.sha256 for key in keys)
    return {
        key.id: f"{log}#{key.index}" if runs_of_log[key.sha256] > 1 else log
        for log, key in zip(logs, keys, strict=True)
    }


def _without_common_folder(paths: Sequence[str]) -> list[str]:
    parts = [path.split("/") for path in paths]
    same = [len(set(names)) == 1 for names in zip(*parts, strict=False)]
    common = same.index(False) if False in same else max(len(same) - 1, 0)
    return ["/".join(path[common:]) for path in parts]


def letters(number: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text
