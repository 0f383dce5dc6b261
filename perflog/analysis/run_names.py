"""Names of runs that are shown together: short marks, labels, and the names of their logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perflog.log import RunKey
from perflog.parsing.input.log_names import shown_name


def run_marks(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return short names of runs by id: #3 for the third run of the only log, else A, B, ..."""
    one_log = len({key.sha256 for key in keys}) == 1
    return {key.id: f"#{key.index}" if one_log else letters(i) for i, key in enumerate(keys)}


def run_names(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return the names of runs by id: their labels if all of these differ, else the names of their logs."""
    labels = [key.label or "" for key in keys]
    if len(set(labels)) == len(keys) and all(labels):
        return {key.id: label for key, label in zip(keys, labels, strict=True)}
    return _names_by_log(keys)


def run_places(keys: Sequence[RunKey]) -> dict[str, str]:
    """Return where runs stand, by id: #3 in the only log, else the name of the log, with #3 if it has several runs.

    Runs of logs with one name, such as a log that has grown, are named by their ids.
    """
    one_log = len(keys) > 1 and len({key.sha256 for key in keys}) == 1
    places = run_marks(keys) if one_log else _names_by_log(keys)
    counts = Counter(places.values())
    return {id: place if counts[place] == 1 else id for id, place in places.items()}


def _names_by_log(keys: Sequence[RunKey]) -> dict[str, str]:
    logs = without_common_folder([shown_name(key.log) for key in keys])
    runs_of_log = Counter(key.sha256 for key in keys)
    return {
        key.id: f"{log}#{key.index}" if runs_of_log[key.sha256] > 1 else log
        for log, key in zip(logs, keys, strict=True)
    }


def without_common_folder(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders that all of them begin with."""
    parts = [_parts(path) for path in paths]
    same = [len(set(names)) == 1 for names in zip(*parts, strict=False)]
    common = same.index(False) if False in same else max(len(same) - 1, 0)
    return ["/".join(path[common:]) for path in parts]


def _parts(path: str) -> list[str]:
    """Return the folders of a path and the rest: braces with files of several folders stay together."""
    *folders, last = path.partition("{")[0].split("/")
    return [*folders, last + path.removeprefix("/".join([*folders, last]))]


def letters(number: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text
