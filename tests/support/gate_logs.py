"""Logs that a gate meets: nights of the main branch, and changes of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from support.json_logs import json_log, steady_times

MARKUP = "<img src=x onerror=alert(1)> @all #1 | `x` $y$ [a](b)\n::error::no"
"""A name that is markup, and commands of GitHub Actions."""

_LAYERS: Mapping[str, object] = {"layers": 4}


def night(folder: Path, number: int, level: float = 1.0) -> str:
    """Two runs of one night, which differ by a tenth of a percent."""
    levels = [0.2 * level * (1 + 0.001 * ((7 * number + 3 * k) % 5 - 2)) for k in range(2)]
    return _written(folder, 10 * number, levels)


def change(folder: Path, kind: str = "same", seed: int = 500) -> str:
    """Three runs of a change.

    Kinds: same, slower (by 3 %), slow (by 10 %), faster (by 5 %), crash, failed (memory ran out), nan, vanished (a
    figure), other (settings), unread and killed (one of them), monitored (a log of another program beside them), and
    markup.
    """
    level = 0.2 * {"slower": 1.03, "slow": 1.1, "faster": 0.95}.get(kind, 1.0)
    settings = {"layers": 8} if kind == "other" else _LAYERS
    _written(folder, seed, [level] * 3, 10 if kind in ("crash", "failed") else 40, settings)
    for path in sorted(folder.iterdir()):
        text = path.read_text("utf-8")
        if kind == "failed":
            path.write_text(text + "torch.OutOfMemoryError: CUDA out of memory.\n", "utf-8")
        elif kind == "nan":
            head, tail = text[: len(text) // 2], text[len(text) // 2 :]
            path.write_text(head + re.sub(r'"loss": [0-9.]+', '"loss": NaN', tail), "utf-8")
        elif kind == "vanished":
            path.write_text(text.replace('"loss"', '"other_count"'), "utf-8")
        elif kind == "markup":
            path.write_text(text.replace('"loss"', '"<b>@all</b> loss|_x_"'), "utf-8")
            path.rename(folder / f"{path.stem} {MARKUP.replace('/', '')}.json")
    if kind == "unread":
        (folder / "1.json").write_text("hello\n", "utf-8")
    if kind == "killed":
        (folder / "1.json").write_text("Killed\n", "utf-8")
    if kind == "monitored":
        (folder / "gpu.csv").write_text("timestamp, utilization.gpu [%]\n2026/01/01 00:00:00.000, 97 %\n" * 2, "utf-8")
    return str(folder)


def _written(
    folder: Path, seed: int, levels: list[float], steps: int = 40, settings: Mapping[str, object] = _LAYERS
) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for k, level in enumerate(levels):
        json_log(folder / f"{k}.json", steady_times(seed + k, level, steps), settings)
    return str(folder)
