"""Rules on ranks: rows without a rank, ranks that print less than the others, layers that several ranks share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import count, first_few
from perflog.metrics.registry import natural_sort_key

_NAME_COLUMNS = {"phases": "phase", "loads": "unit", "layers": "layer"}
"""Tables with a row per rank, and the column that names the subject of the row."""


@rule(
    code="no-rank",
    severity="note",
    title="lines do not name the rank that printed them",
    why="No rule proves which rank printed them. Sum, minimum, maximum and mean of a step are correct. Statistics per "
    "rank leave these rows out.",
    action="use statistics per step, or label the lines when you start the ranks (`torchrun --tee 3`)",
    needs=(),
)
def no_rank(data: LintInput) -> Iterator[Finding]:
    """Rows without rank in tables that have one per rank, where there is more than one rank."""
    for run in data.runs:
        parts: list[str] = []
        numbers: dict[str, Any] = {}
        lines: list[int] = []
        for table, name in _NAME_COLUMNS.items():
            rows = run[table]
            unknown = rows[rows["rank"].isna()]
            if not len(unknown):
                continue
            if not (unknown.groupby(["step", name]).size() > 1).any() and not rows["rank"].notna().any():
                continue  # one row per step: a single rank printed it
            counts = unknown[name].value_counts(sort=False)
            totals = rows[name].value_counts()
            listed = first_few((f"{k} {n} of {totals[k]}" for k, n in counts.items()), 12)
            parts.append(f"{len(unknown):,} of {len(rows):,} rows of {table} have no rank: {listed}")
            numbers[table] = {k: int(n) for k, n in counts.items()}
            lines += unknown["line"].tolist()
        if parts:
            yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


@rule(
    code="ranks-incomplete",
    severity="warning",
    title="some ranks did not print in some steps",
    why="Fewer ranks printed in these steps than in the others. Sums over ranks are too low, and the slowest rank may "
    "be missing.",
    action="leave these steps out of sums and comparisons over ranks",
    needs=("steps",),
)
def ranks_incomplete(data: LintInput) -> Iterator[Finding]:
    """Steps with fewer rows of a phase, unit or layer than most steps."""
    for run in data.runs:
        for table, name in _NAME_COLUMNS.items():
            rows = run[table].dropna(subset=["step"])
            if not len(rows):
                continue
            counts = rows.groupby([name, "step"]).size().unstack(fill_value=0)
            fewer = counts.lt(counts.mode(axis=1)[0], axis=0)
            steps = [int(s) for s in counts.columns[fewer.any()]]
            if steps:
                names = counts.index[fewer.any(axis=1)]
                message = (
                    f"{count(len(steps), 'step')} with fewer rows of {first_few(names)} than most: {first_few(steps)}"
                )
                lines = rows["line"][rows["step"].isin(steps)]
                lines = lines if len(lines) else rows["line"][:1]
                yield Finding(run.id, message, {run.id: lines}, {"steps": steps, "kinds": list(names)})


@rule(
    code="layer-split",
    severity="note",
    title="a layer's time is split over several ranks",
    why="Part of the layer runs on another pipeline stage, so the time on one rank is not that of the layer.",
    action="add up the layer's rows of a step over the ranks",
    needs=("layers",),
)
def layer_split(data: LintInput) -> Iterator[Finding]:
    """Layers with several rows per step and direction, on different stages."""
    for run in data.runs:
        layers = run["layers"].dropna(subset=["step", "stage"])
        stages_of = layers.groupby("layer", sort=False)["stage"].agg(lambda s: tuple(sorted(set(s))))
        split = stages_of[stages_of.map(len) > 1]
        split = split.loc[sorted(split.index, key=natural_sort_key)]
        if len(split):
            listed = (f"{name} (stages {', '.join(map(str, stages))})" for name, stages in split.items())
            message = f"{count(len(split), 'layer')} on more than one stage: {first_few(listed, 8)}"
            lines = layers["line"][layers["layer"].isin(split.index)]
            yield Finding(
                run.id, message, {run.id: lines}, {"layers": {k: list(map(int, v)) for k, v in split.items()}}
            )
