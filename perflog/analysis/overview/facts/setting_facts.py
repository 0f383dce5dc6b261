"""The settings of a run in files beside its log: those that state its size, and how the work is divided."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perflog.analysis.overview.run_groups import RunGroup
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Tables
from perflog.readers.setting_files import SETTINGS_FROM
from perflog.settings.run_settings import leaf_of

_TELLING = (
    r"world_size|num_processes|num_(?:gpus|devices|nodes|machines)|n_?gpus?|nnodes|devices|nodes",
    r"tp|(?:tensor|pipeline|context|expert|data|fsdp|sequence)_?(?:model_)?(?:parallel\w*|shard\w*)|[pcde]p|fsdp",
    r"zero_optimization\.stage|zero_stage",
    r"(?:train_)?(?:micro|local|per_device(?:_train)?)_batch_size(?:_per_gpu)?|mbs",
    r"(?:global_|train_|total_)?batch_size|gbs|gradient_accumulation_steps|accumulate_grad_batches",
    r"(?:max_)?seq(?:uence)?_?(?:len|length)|block_size|context_length",
    r"(?:mixed_)?precision|(?:torch_)?dtype|(?:bf16|fp16|fp8)(?:\.enabled)?",
    r"(?:optim\w*\.)?(?:lr|learning_rate)",
)
"""Names of settings in the order in which they are shown: processes, their division, batches, lengths, types."""

_PATTERNS = [lazy_pattern(rf"(?i)(?:.*\.)?(?:{names})") for names in _TELLING]
_MOST = 10


def settings_beside(tables: Tables, groups: Sequence[RunGroup]) -> Iterator[str]:
    """Yield the settings in files beside the log of the only run, or that all repeats have in common."""
    if len(groups) != 1:
        return
    every = [json.loads(text or "{}") for run, text in _beside(tables) if run in groups[0].runs]
    files = {settings.get(SETTINGS_FROM) for settings in every}
    same = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    if len(files) == 1 and None not in files and (shown := list(_shown(same))):
        yield f"Settings, from {files.pop()}: {', '.join(shown)}."


def _beside(tables: Tables) -> Iterator[tuple[str, str | None]]:
    yield from tables.rows("runs").records("run", "provenance")


def _shown(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings by the last part of their names, by the whole name where several end with this part."""
    names = dict.fromkeys(name for pattern in _PATTERNS for name in settings if pattern.fullmatch(name))
    ends = Counter(map(_end_of, names))
    for name in list(names)[:_MOST]:
        end = _end_of(name)
        yield f"{end if ends[end] == 1 else name} {settings[name]}"


def _end_of(name: str) -> str:
    leaf = leaf_of(name)
    return leaf if leaf not in ("stage", "enabled") else ".".join(name.split(".")[-2:])
