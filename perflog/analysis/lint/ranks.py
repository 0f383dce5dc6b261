"""Rows whose rank is not known, ranks that print less than the others, layers that several ranks share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Seen, count, some
from perflog.metrics.registry import natural_sort_key

_NAMES = {"phases": "phase", "loads": "unit", "layers": "layer"}
"""Tables with a row per rank, and the column that says what a row is of."""


@rule(
    code="no-rank",
    severity="note",
    title="lines do not say which rank printed them",
    why="No rule proves who printed them. Sum, least, largest and mean of a step are sound; what is per rank is not: "
    "per-rank statistics leave these rows out.",
    action="use their statistics per step, or start the ranks with a label per line (`torchrun --tee 3`)",
    needs=(),
)
def no_rank(seen: Seen) -> Iterator[Finding]:
    """Rows without rank in tables that have one per rank, where there is more than one."""
    for run in seen.runs:
        said: list[str] = []
        numbers: dict[str, Any] = {}
        lines: list[int] = []
        for table, name in _NAMES.items():
            rows = run[table]
            bare = rows[rows["rank"].isna()]
            if len(bare) and not (bare.groupby(["step", name]).size() > 1).any() and not rows["rank"].notna().any():
                continue  # one row per step: one rank printed it
            if len(bare):
                counts = bare[name].value_counts(sort=False)
                all_of = rows[name].value_counts()
                said.append(
                    f"{len(bare):,} of {len(rows):,} rows of {table} have no rank: "
                    f"{some((f'{k} {n} of {all_of[k]}' for k, n in counts.items()), 12)}"
                )
                numbers[table] = {k: int(n) for k, n in counts.items()}
                lines += bare["line"].tolist()
        if said:
            yield Finding(run.id, "; ".join(said), {run.id: lines}, numbers)


@rule(
    code="ranks-incomplete",
    severity="warning",
    title="some steps lack lines of some ranks",
    why="In these steps fewer ranks printed than in the others: sums over ranks are too low, and the slowest rank may "
    "be the one that is missing.",
    action="leave these steps out of what is summed or compared over ranks",
    needs=("steps",),
)
def ranks_incomplete(seen: Seen) -> Iterator[Finding]:
    """Rows per step and kind below what most steps have."""
    for run in seen.runs:
        for table, name in _NAMES.items():
            rows = run[table].dropna(subset=["step"])
            if not len(rows):
                continue
            counts = rows.groupby([name, "step"]).size().unstack(fill_value=0)
            fewer = counts.lt(counts.mode(axis=1)[0], axis=0)
            steps = [int(s) for s in counts.columns[fewer.any()]]
            if steps:
                kinds = counts.index[fewer.any(axis=1)]
                message = f"{count(len(steps), 'step')} with fewer rows of {some(kinds)} than most: {some(steps)}"
                at = rows["line"][rows["step"].isin(steps)]
                at = at if len(at) else rows["line"][:1]
                yield Finding(run.id, message, {run.id: at}, {"steps": steps, "kinds": list(kinds)})


@rule(
    code="layer-split",
    severity="note",
    title="a layer's time is split over several ranks",
    why="Part of such a layer runs on another stage: the time on one rank is not that of the layer.",
    action="add its rows of a step up over the ranks",
    needs=("layers",),
)
def layer_split(seen: Seen) -> Iterator[Finding]:
    """Layers with several rows per step and direction, on different stages."""
    for run in seen.runs:
        layers = run["layers"].dropna(subset=["step", "stage"])
        places = layers.groupby("layer", sort=False)["stage"].agg(lambda s: tuple(sorted(set(s))))
        split = places[places.map(len) > 1]
        split = split.loc[sorted(split.index, key=natural_sort_key)]
        if len(split):
            said = (f"{name} (stages {', '.join(map(str, at))})" for name, at in split.items())
            message = f"{count(len(split), 'layer')} on more than one stage: {some(said, 8)}"
            at = layers["line"][layers["layer"].isin(split.index)]
            yield Finding(run.id, message, {run.id: at}, {"layers": {k: list(map(int, v)) for k, v in split.items()}})
