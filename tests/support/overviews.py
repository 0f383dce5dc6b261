"""Overviews of given rows, metrics, parts and doubts, as what shows them needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from perflog.analysis.overview import Overview
from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.overview.run_groups import RunGroup

STEP = RunFigure("step", "s", "lower", {f"r{n}": 1.0 + n for n in range(20)})


def groups(
    number: int, settings: Sequence[Mapping[str, str]] = (), runs: int = 1, names: Sequence[str] = ()
) -> list[RunGroup]:
    """Rows #1, #2, ... of one run each, or of several."""
    return [
        RunGroup(f"#{n + 1}", names[n] if names else f"log #{n + 1}", tuple(f"r{n * runs + k}" for k in range(runs)),
                 settings[n] if settings else {})
        for n in range(number)
    ]  # fmt: skip


def overview(**fields: Any) -> Overview:
    usual: dict[str, Any] = {
        "names": ["run.txt"], "what": "moe, 1 run", "lines": {"total": 9, "unread": 0}, "read_figures": {},
        "groups": groups(1), "figures": [STEP], "base": {}, "keys": {}, "find_causes": list,
    }  # fmt: skip
    usual |= dict.fromkeys(("parts", "failures", "reasons", "doubts", "next", "warnings"), ())
    return Overview(**usual | fields)


def part(name: str, share: float, seconds: float = 0.5, doubt: str = "") -> Any:
    return SimpleNamespace(name=name, share=share, seconds=seconds, doubt=doubt)


def doubt(title: str, severity: str = "warning", runs: Sequence[str] = ("r0",), is_outcome: bool = False) -> Any:
    return SimpleNamespace(code=title, title=title, message=f"{title} in line 7", severity=severity, runs=tuple(runs),
                           figures=(), is_outcome=is_outcome)  # fmt: skip
