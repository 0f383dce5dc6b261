"""History: the figures of like runs in the order of time, and since when they are at another level."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.curves import curves
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.run_moments import moments
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import steady_medians
from perflog.settings.run_settings import ALIKE, Settings, incidental_test, varying
from perflog.statistics.levels import FEWEST, levels

if TYPE_CHECKING:
    import pandas as pd

_SPEEDS = {"step_time_s": "s", "tokens_per_s": "1/s", "samples_per_s": "1/s"}
"""Figures of speed, with their units: the first that all runs of a history have."""

_MOST_SETTINGS = 5

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("history", meaning="what the runs of a history have in common: format, program, model, settings"),
    MetricColumn(
        "figure",
        meaning=f"{', '.join(_SPEEDS)}: the first that all runs have; elapsed_s; losses at the last step that all runs "
        "print, else the last ones",
    ),
    MetricColumn("unit", meaning="its unit; empty: none", brief=False),
    MetricColumn("at", meaning="when the run started, in the time zone of whoever wrote it"),
    MetricColumn("at_from", meaning="the setting that tells when, or `name of the log`", brief=False),
    MetricColumn("value", meaning="of speeds the median of the steady steps"),
    MetricColumn("level", meaning="number of the level that the run belongs to, from 1"),
    MetricColumn("level_value", meaning="geometric mean over the runs of the level"),
    MetricColumn("level_runs", meaning="number of these runs", brief=False),
    MetricColumn("change", "1", None, "level_value / that of the level before - 1, at its first run; null elsewhere"),
    MetricColumn("p", meaning="p of this change: of all orders of the runs, how many have a cut as clear; at most 5 %"),
    MetricColumn("with_it", meaning="settings that changed with this run, with their values before and after"),
)


@metric(
    title="history",
    needs=("runs",),
    columns=_COLUMNS,
    main="value",
    formula="levels: binary segmentation of the logarithms by Student's t; a cut needs p <= 1 % for normal scatter and "
    "p <= 5 % among 999 random orders",
    source="Scott and Knott 1974; James and Matteson 2014, as used for nightly tests by Daly et al. 2020",
)
def history(tables: Tables, options: Options) -> pd.DataFrame:
    """Figures of like runs in the order of time, and the runs from which on a figure is at another level.

    A history has eight runs or more of one format, program and model, whose settings or names of logs tell when they
    started. A setting that goes back and forth between runs, such as a batch size that each night tries, makes a
    history for each value. One that changes once and stays, such as a version, does not: `with_it` names it beside the
    change that came with it. Slow drift shows as several levels.

    Example:
        >>> table = perflog.metrics.history(perflog.find_runs("reference:moe_layer.txt"))
        >>> len(table)
        0
    """
    import pandas as pd

    rows = [row for runs in _histories(tables) for row in _rows(tables, runs, options)]
    whole = dict.fromkeys(("level", "level_runs"), "Int64")
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype(whole)


def _histories(tables: Tables) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each history, and its runs in the order of time."""
    started = moments(tables)
    if len(started) < FEWEST:
        return
    settings, labels = settings_by_run(tables), dict(tables.rows("runs").records("run", "label"))
    alike: dict[tuple[str, ...], list[str]] = {}
    for run in sorted(started, key=lambda run: started[run].at):
        alike.setdefault(tuple(settings[run].get(name, "") for name in ALIKE), []).append(run)
    for names, runs in alike.items():
        if len(runs) < FEWEST:
            continue
        of_runs = {run: {**settings[run], "label": labels[run] or ""} for run in runs}
        parted: dict[tuple[str, ...], list[str]] = {}
        returning = _returning(list(of_runs.values()))
        for run in runs:
            parted.setdefault(tuple(of_runs[run].get(name, "") for name in returning), []).append(run)
        for values, members in parted.items():
            if len({started[run].at for run in members}) >= FEWEST:
                pairs = (f"{name} {value}" for name, value in zip(returning, values, strict=True) if value)
                yield ", ".join([*filter(None, names), *pairs]), members


def _returning(of_runs: Sequence[Settings]) -> list[str]:
    """Return the settings that take an earlier value again, without incidental ones."""
    incidental = incidental_test(of_runs)
    names = [name for name in varying(of_runs) if name == "label" or not incidental(name)]
    return [name for name in names if _changes(of_runs, name) >= len({of_run.get(name) for of_run in of_runs})]


def _changes(of_runs: Sequence[Settings], name: str) -> int:
    return sum(a.get(name) != b.get(name) for a, b in pairwise(of_runs))


def _rows(tables: Tables, of_history: tuple[str, list[str]], options: Options) -> Iterator[dict[str, Any]]:
    name, runs = of_history
    started, settings = moments(tables), settings_by_run(tables)
    labels = dict(tables.rows("runs").records("run", "label"))
    incidental = incidental_test([settings[run] for run in runs])
    for (figure, unit), values in _figures(tables, runs, options).items():
        measured = [run for run in runs if run in values]
        logs = np.log([values[run] for run in measured])
        before: float | None = None
        for number, level in enumerate(levels(logs), 1):
            mean = float(logs[level.start : level.stop].mean())
            for place in range(level.start, level.stop):
                run = measured[place]
                row = {
                    "run": run, "label": labels[run], "history": name, "figure": figure, "unit": unit,
                    "at": str(started[run]), "at_from": started[run].source, "value": values[run],
                    "level": number, "level_value": math.exp(mean), "level_runs": level.stop - level.start,
                }  # fmt: skip
                if place == level.start and before is not None:
                    changed = _changed(settings[measured[place - 1]], settings[run], incidental)
                    row |= {"change": math.expm1(mean - before), "p": level.p, "with_it": changed}
                yield row
            before = mean


def _figures(tables: Tables, runs: Sequence[str], options: Options) -> dict[tuple[str, str], dict[str, float]]:
    """The positive figures that enough runs of a history have, by name and unit, and by run."""
    speeds = {(name, unit): steady_medians(tables, name, options.warmup, runs) for name, unit in _SPEEDS.items()}
    of_all = {key: by_run for key, by_run in speeds.items() if all(run in by_run for run in runs)}
    found = dict(list((of_all or speeds).items())[:1])
    known = tables.rows("runs")
    found["elapsed_s", "s"] = dict(known.where(known.known("elapsed_s")).records("run", "elapsed_s"))
    losses = curves.table(tables, options)
    losses = losses[losses["place"].isna() & losses["key"].map(_is_loss).astype(bool)]
    values = losses["at_equal_step"].fillna(losses["last"])
    for key, run, value in zip(losses["key"], losses["run"], values, strict=True):
        found.setdefault((key, ""), {})[run] = value
    positive = {key: {run: v for run, v in by_run.items() if v > 0 and run in runs} for key, by_run in found.items()}
    return {key: by_run for key, by_run in positive.items() if len(by_run) >= FEWEST}


def _is_loss(key: str) -> bool:
    return "loss" in re.findall(r"[a-z]+", key.lower())


def _changed(before: Settings, after: Settings, incidental: Callable[[str], bool]) -> str | None:
    """What differs between the settings of two runs, without what says nothing about them."""
    names = [n for n in dict.fromkeys((*before, *after)) if before.get(n) != after.get(n) and not incidental(n)]
    texts = [f"{name} {before.get(name, '-')} -> {after.get(name, '-')}" for name in names[:_MOST_SETTINGS]]
    more = f"and {len(names) - _MOST_SETTINGS} more" if len(names) > _MOST_SETTINGS else ""
    return ", ".join(filter(None, [*texts, more])) or None
