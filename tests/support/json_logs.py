"""Logs of JSON lines (DLLogger) with chosen step times and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

NO_SETTINGS: Mapping[str, object] = {}


def json_log(path: Path, times: Sequence[float], settings: Mapping[str, object] = NO_SETTINGS) -> str:
    """Write a log with settings and step times in seconds, and return its path."""
    entries: list[tuple[float, object, Mapping[str, object]]] = [(0, "PARAMETER", {k: v}) for k, v in settings.items()]
    entries += [(clock, [0, i], {"loss": 2 - i / 100}) for i, clock in enumerate(accumulate(times))]
    stamp = {"timestamp": "1587450966.2", "datetime": "2020-04-21 06:36:06.2", "type": "LOG"}
    lines = (stamp | {"elapsedtime": f"{clock:.6f}", "step": step, "data": data} for clock, step, data in entries)
    path.write_text("".join(f"DLLL {json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(path)


def steady_times(seed: int, level: float = 0.2, steps: int = 40) -> list[float]:
    """Step times in seconds that scatter by 1 % around a level."""
    return [round(t, 6) for t in np.random.default_rng(seed).normal(level, level / 100, steps)]
