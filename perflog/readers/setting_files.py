"""Files with the settings of a run, beside its log: `config.yaml`, `args.json`, `ds_config.json`, `.hydra/config.yaml`.

Such a file says how the run was configured, and is no log. It is of the logs in its folder, in folders below, and in
folders above if no other file of its name is below them: a sweep has one for each run. Of several files of one name
above a log, the nearest counts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from perflog.errors import InputError
from perflog.files.remote import is_remote
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import open_source

SETTINGS_FROM = "settings_from"
"""Name of the setting that names these files."""

_NAME = lazy_pattern(
    r"(?i)(?!best[-_]|(?:generation|tokenizer|tokeniser|preprocessor|processor|feature_extractor|logging|deploy\w*)_)"
    r"(?:[\w-]*[-_.])?(?:config|cfg|args|arguments|hparams|hyperparams|hyperparameters|params|settings)"
    r"(?:[-_.]\w+)?\.(?:json|ya?ml|toml)"
)
_HIDDEN = ".hydra"
_HYDRA = os.path.join(_HIDDEN, "config.yaml")  # hidden folders are not searched for logs
_MOST_BYTES = 1 << 18
_MOST, _LONGEST = 1000, 200  # settings of a file; characters of a value
_UNKNOWN = frozenset(("auto", "", "null", "~", "none", "???"))
_KEY = lazy_pattern(
    r"""(?P<indent> *)(?P<item>- +)?(?P<key>"[^"]+"|'[^']+'|[A-Za-z_][^:#{}\[\]]*?):(?: +(?P<value>.*?))? *"""
)
_ITEM = lazy_pattern(r" *- +(?P<value>[^{}]+?) *")
_COMMENT = lazy_pattern(r"""("[^"]*"|(?<=[ ,\[])'[^']*')|(?:^| +)#.*$""")
_UNREAD = lazy_pattern(r"""[|>*{]|\[.*(?<!\])$|(["']).*(?<!\1)$|["']$""")  # text below, an alias, or what goes on below
_TAG = lazy_pattern(r"[!&][^ ]* *")


def is_setting_file(path: str) -> bool:
    """Return whether a file has the name of a file of settings. The best ones are the result of a search.

    Example:
        >>> [is_setting_file(name) for name in ("ds_config.json", "tokenizer_config.json", "best_params.json")]
        [True, False, False]
    """
    return _NAME.fullmatch(os.path.basename(path)) is not None


def with_settings(names: Sequence[LogName]) -> list[LogName]:
    """Return the names of the logs of a folder, each with the settings beside it, without the files of these settings.

    A file of settings without a log that it may be of keeps its name.
    """
    found = [name for name in names if name.is_found and not is_remote(name.log)]
    files = {name.log for name in found if is_setting_file(name.log)}
    logs = [name.log for name in found if name.log not in files]
    files |= _hydra_files(logs)
    if not files or not logs:
        return list(names)
    settings = {path: read for path in sorted(files) if (read := settings_in(path))}
    by_name = grouped((os.path.basename(path), path) for path in settings)
    files_by_log = {log: list(_files_of(log, by_name, settings)) for log in logs}
    used = {path for paths in files_by_log.values() for path in paths}
    return [
        replace(name, settings=_merged(name.log, files_by_log[name.log], settings))
        if files_by_log.get(name.log)
        else name
        for name in names
        if name.log not in used
    ]


def _hydra_files(logs: Iterable[str]) -> set[str]:
    """Return Hydra's files of settings in the folders of logs, and above them as far as the logs are in one folder."""
    folders = {os.path.dirname(log) for log in logs}
    return {path for folder in folders if os.path.isfile(path := os.path.join(folder, _HYDRA))}


def _files_of(
    log: str, by_name: Mapping[str, Sequence[str]], settings: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Yield the files of settings that are of a log: of each name the nearest above it, else the only one below it."""
    folder = os.path.dirname(log)
    for paths in by_name.values():
        above = [path for path in paths if _is_within(folder, _folder_of(path))]
        below = [path for path in paths if _is_within(_folder_of(path), folder)]
        if above:
            yield max(above, key=lambda path: len(_folder_of(path)))
        elif below and all(settings[path] == settings[below[0]] for path in below):
            yield below[0]


def _folder_of(path: str) -> str:
    """Return the folder that a file of settings is in, for Hydra's the folder of the run."""
    folder = os.path.dirname(path)
    return os.path.dirname(folder) if os.path.basename(folder) == _HIDDEN else folder


def _is_within(folder: str, outer: str) -> bool:
    return folder == outer or folder.startswith(outer + os.sep) or not outer


def _merged(log: str, paths: Sequence[str], settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the settings of several files. Where two disagree, the name of the file is the first part of the name."""
    values: dict[str, set[str]] = {}
    for path in paths:
        for name, value in settings[path].items():
            values.setdefault(name, set()).add(value)
    merged = {
        name if len(values[name]) == 1 else f"{os.path.basename(path).partition('.')[0]}.{name}": value
        for path in paths
        for name, value in settings[path].items()
    }
    folder = os.path.dirname(log) or "."
    return merged | {SETTINGS_FROM: ", ".join(os.path.relpath(path, folder) for path in paths)}


def settings_in(path: str) -> dict[str, str]:
    """Return the settings in a file by name, those in groups with the names of the groups: `trainer.precision`.

    What is not known yet (`auto`, null) is left out, as are lists of groups; {} if the file cannot be read.
    """
    with suppress(InputError, ValueError, RecursionError):
        with open_source(LogName.from_file(path)) as source:
            data = source.first_bytes(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            return {}
        text = data.decode("utf-8", "replace")
        suffix = os.path.splitext(path)[1].lower()
        if suffix == ".json":
            document = json.loads(text)
        elif suffix == ".toml":
            import tomli

            document = tomli.loads(text)
        else:
            return _known(_without_wandb(dict(_yaml_settings(text))))
        if isinstance(document, dict):
            return _known(dict(_flat(document)))
    return {}


def _known(settings: Mapping[str, str]) -> dict[str, str]:
    known = {
        name: value for name, value in settings.items() if value.lower() not in _UNKNOWN and len(value) <= _LONGEST
    }
    return known if len(known) <= _MOST else {}


def _flat(document: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list):
            if not any(isinstance(item, dict | list) for item in value):
                yield name, ", ".join(map(_text, value))
        elif value is not None:
            yield name, _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _yaml_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a YAML file of groups, values and lists of values; what else it has is left out."""
    groups: list[tuple[int, str]] = []  # indent and name of the groups that are open
    items: list[str] = []
    for line in [*_lines_of_settings(text), "end_of_file:"]:
        match = _KEY.fullmatch(line)
        if match is None and groups and (item := _ITEM.fullmatch(line)):
            items.append(_unquoted(item["value"]))
        if match is None:
            continue
        if items:
            yield ".".join(name for _, name in groups), ", ".join(items)
            items = []
        indent = len(match["indent"])
        while groups and groups[-1][0] >= indent:
            groups.pop()
        groups.append((indent, _unquoted(match["key"])))
        value, name = _value_of(match), ".".join(name for _, name in groups)
        if value.startswith("["):
            yield name, ", ".join(_unquoted(each.strip()) for each in value[1:-1].split(","))
        elif value:
            yield name, _unquoted(value)


def _lines_of_settings(text: str) -> Iterator[str]:
    """Yield the lines of a YAML file without comments, texts of several lines, and groups in lists or in braces."""
    below: int | None = None  # lines with a greater indent go on with what is left out
    for line in text.splitlines():
        if below is not None and (not line.strip() or len(line) - len(line.lstrip(" ")) > below):
            continue
        stripped = _COMMENT.sub(lambda match: match[1] or "", line)
        match = _KEY.fullmatch(stripped)
        is_left_out = match is not None and (match["item"] or _UNREAD.match(_value_of(match)))
        below = len(match["indent"]) if match and is_left_out else None
        if not is_left_out:
            yield stripped


def _value_of(match: re.Match[str]) -> str:
    return _TAG.sub("", match["value"] or "", 1)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _without_wandb(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings without the group `value` in which Weights & Biases writes each, and without its own ones."""
    own = {name: value for name, value in settings.items() if not name.startswith("_wandb.")}
    if len(own) == len(settings):
        return own
    return {re.sub(r"\.value(?=\.|$)", "", name, count=1): value for name, value in own.items()}
