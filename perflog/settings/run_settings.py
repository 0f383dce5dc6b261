"""Settings of runs, and which of them are incidental: times, seeds, paths, hosts, ports, process ids, names of runs.

Incidental settings say nothing about what a run computed, and repeats of a configuration differ in them. A setting is
incidental by its name, by the kind of its values, or because the run's format declares it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from perflog.formats.registry import known as formats
from perflog.lazy_patterns import lazy_pattern
from perflog.settings.members import members

Settings = Mapping[str, str]
"""The description of a run as strings: the columns of `runs` that describe it, and all of `config`."""

ALIKE = ("format", "program", "model")
"""Runs in which these differ do different work."""

_NAMES = frozenset(
    ("id", "name", "process", "run", "run_name", "run_id", "run_group", "exp_name", "experiment", "experiment_name",
     "job", "job_id", "job_name", "node_name", "node_list", "nodelist", "save", "load", "output", "time", "start_time",
     "branch", "dirty", "pull_request", "ci_job", "runner", "session",
     "end_time", "started", "finished", "now", "files", "tracename", "trace_id", "basetimenanoseconds", "display_name",
     "settings_from")
)  # fmt: skip
"""Whole names of incidental settings, in lower case."""

_WORDS = frozenset(
    ("pid", "seed", "seeds", "host", "hosts", "hostname", "hostnames", "addr", "address", "ip", "port", "user",
     "username", "email", "date", "datetime", "timestamp", "path", "paths", "dir", "directory", "folder", "filename",
     "url", "uri", "outdir", "savedir", "logdir", "uuid", "guid", "commit", "sha", "git", "tag", "slurm", "wandb",
     "tensorboard")
)  # fmt: skip
"""Words inside a name that make a setting incidental: `master_port`, `data_path`, `wandb_project`."""

_MACHINES = frozenset(("host", "hosts", "hostname", "hostnames", "node_name", "node_list", "nodelist"))
"""Whole names of settings that name the machine, in lower case."""

_OF_MACHINE = frozenset(
    ("host", "hostname", "driver", "gpu", "device", "cpu", "accelerator", "runner", "machine", "hardware", "firmware",
     "bios", "vbios", "os", "arch", "ram", "instance", "cluster",
     "testbed")
)  # fmt: skip
"""Words inside the name of a setting that describes the machine: `gpu_name`, `driver_version`, `instance_type`."""

_MACHINE_PARENTS = frozenset(("runner", "machine", "hardware", "host"))
"""Names under which all settings describe the machine."""

_OF_WORK = frozenset(
    ("num", "n", "count", "per", "size", "batch", "micro", "fraction", "utilization", "utilisation", "backend", "id",
     "ids", "index", "mesh", "placement", "offload", "map", "mem", "limit", "world", "rank", "util")
)  # fmt: skip
"""Words that make it a setting of the work: `num_gpu`, `batch_size_per_device`, `gpu_memory_utilization`."""

_VALUES = lazy_pattern(
    r"""
    [0-9]{4}-[0-9]{2}-[0-9]{2}([T_ ].*)?                                  # a date, a time
    | (~|\.{1,2})?/.* | [A-Za-z]:\\.* | [a-z][a-z0-9+.-]*://.*            # a path, an address
    | [\w.-]+(/[\w.-]+)+\.(json|ya?ml|txt|log|csv|tsv|scp|pt|pth|ckpt|bin|safetensors)  # a file in a folder
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}        # a UUID
    | (?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,64}                                # a hash
    | <.*\ at\ 0x[0-9a-f]+>                                                # an object at an address in memory
    | [0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]+)? | [A-Za-z][\w.-]*:[0-9]{2,5}  # an address in a network
    """,
    re.VERBOSE,
)


def is_incidental(name: str, values: Iterable[str | None], declared: Iterable[str] = ()) -> bool:
    """Return whether a setting says nothing about what was computed.

    Args:
        name: Name of the setting, with its parents: `config.trainer.seed`.
        values: Its values in the runs, as strings; None where a run lacks it.
        declared: Patterns of names that the runs' formats declare.
    """
    leaf = leaf_of(name)
    if leaf.lower() in _NAMES or not _WORDS.isdisjoint(word.lower() for word in _words(leaf)):
        return True
    if any(fnmatchcase(name, pattern) for pattern in declared):
        return True
    texts = [value for value in values if value is not None]
    return bool(texts) and all(_VALUES.fullmatch(text) for text in texts)


def names_machine(name: str) -> bool:
    """Return whether a setting names the machine that a run ran on."""
    return leaf_of(name).lower() in _MACHINES


def leaf_of(name: str) -> str:
    """Return the name of a setting without its parents."""
    return name.rpartition(".")[2]


def is_of_machine(name: str) -> bool:
    """Return whether a setting describes the machine that a run ran on: its host, GPU, driver and so on."""
    if names_machine(name):
        return True
    *parents, leaf = name.split(".")
    words = {word.lower() for word in _words(leaf)}
    if not _MACHINE_PARENTS.isdisjoint(parents):
        return True
    return not _OF_MACHINE.isdisjoint(words) and _OF_WORK.isdisjoint(words)


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)


def varying(settings: Iterable[Settings]) -> list[str]:
    """Return the names of all settings that are not the same in all runs."""
    settings_by_run = list(settings)
    names = dict.fromkeys(name for run_settings in settings_by_run for name in run_settings)
    return [name for name in names if len({run_settings.get(name) for run_settings in settings_by_run}) > 1]


def incidental_test(all_settings: Iterable[Settings]) -> Callable[[str], bool]:
    """Return a function that decides whether a setting of these runs is incidental."""
    settings_by_run = list(all_settings)
    installed = formats()
    used = {run_settings.get("format", "") for run_settings in settings_by_run}
    declared = [pattern for name in used if name in installed for pattern in installed[name].incidental]

    def test(name: str) -> bool:
        return is_incidental(name, (run_settings.get(name) for run_settings in settings_by_run), declared)

    return test


def telling_settings(settings_by_run: Sequence[Settings]) -> list[str]:
    """Return the settings that distinguish configurations, without incidental ones and ones that follow from others."""
    is_incidental = incidental_test(settings_by_run)
    return independent(settings_by_run, [name for name in varying(settings_by_run) if not is_incidental(name)])


def independent(settings_by_run: Sequence[Mapping[str, str | None]], names: Sequence[str]) -> list[str]:
    """Return some of the settings that distinguish all their combinations, without settings that follow from them.

    Of settings that follow from each other, the ones with the fewest values stay: they are nearest to a full factorial
    design, in which each setting varies while the others stay. With 8 ranks, tensor and pipeline parallelism
    distinguish the runs, and data parallelism follows from them. Of equals the ones with the fewest parents stay: a
    program prints `lr` beside `args.lr`.
    """
    telling: list[str] = []
    for name in sorted(names, key=lambda name: (_combinations(settings_by_run, [name]), name.count("."))):
        if _combinations(settings_by_run, [*telling, name]) > _combinations(settings_by_run, telling):
            telling.append(name)
    for name in reversed(telling[:]):
        others = [other for other in telling if other != name]
        if _combinations(settings_by_run, others) == _combinations(settings_by_run, telling):
            telling = others
    return [name for name in names if name in telling]


def _combinations(settings_by_run: Sequence[Mapping[str, str | None]], names: Sequence[str]) -> int:
    """The number of different values that the runs have of some settings together."""
    return len({tuple(settings.get(name) for name in names) for settings in settings_by_run})


def values_in_order(values: Iterable[str]) -> list[str]:
    """Return the values of a setting in the order of their numbers; in their own order if one is no number."""
    texts = list(values)
    try:
        return sorted(texts, key=float)
    except ValueError:
        return texts


def settings_of(row: Mapping[str, object]) -> Settings:
    """Return the settings of a row of table `runs`; settings of several members by member.

    Outcomes, which the log prints only after the training, are no settings. What the log prints takes precedence over
    its provenance and the files beside it.
    """
    settings = {k: row[k] for k in ("format", "program", "model", "world_size", "device", "dtype", "process")}
    config = row["config"]
    settings |= json.loads(config) if isinstance(config, str) else {}
    for name in outcomes_of(row):
        settings.pop(name, None)
    made_by = row.get("provenance")
    printed = {name: setting for name, setting in settings.items() if setting is not None}
    settings = (json.loads(made_by) if isinstance(made_by, str) else {}) | printed
    return {member: value for name, setting in settings.items() for member, value in members(name, _text(setting))}


def outcomes_of(row: Mapping[str, object]) -> list[str]:
    """Return the names of values in `config` of a row of table `runs` that came of the training: no settings."""
    outcomes = row.get("outcomes")
    return list(json.loads(outcomes)) if isinstance(outcomes, str) else []


def _text(setting: object) -> str:
    if isinstance(setting, list) and len(setting) == 1:
        return _text(setting[0])
    return setting if isinstance(setting, str) else json.dumps(setting)
