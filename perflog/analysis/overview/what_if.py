"""How much stragglers cost a job with operations that can be replayed, and which worker is at fault, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perflog.metrics import Options, Tables, whatif
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_TELLING = 1.03  # S below it is no slowdown that has a cause
_FAULT = 0.5  # of the slowdown that one part mends: then it is its fault
_WHOLE = 0.95


def slowdown_of_job(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield the slowdown, then the worker, replica or stage that causes it, and the kind of work."""
    rows = whatif.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["rests_on"] == OPERATIONS)]  # others have sentences on stages and ranks
    if not len(rows):
        return
    job = rows.iloc[0]
    if none_if_null(job["slowdown"]) is None:
        yield f"What stragglers cost cannot be replayed: {job['assumes']}."
        return
    slowdown = float(job["slowdown"])
    if slowdown < _TELLING:
        yield f"Stragglers cost little: by replay the job is {slowdown:.2f}x slower than without them."
        return
    ideal, replayed = (show(float(job[name]), "s", 3) for name in ("ideal_s", "replayed_s"))
    yield (
        f"The job is {slowdown:.2f}x slower than without stragglers: a replay of its operations without them takes "
        f"{ideal} a step instead of {replayed}."
    )
    worst = at_fault(rows)
    if worst is not None:
        yield f"{_name(worst)} is at fault: {fault_in_words(worst)}."
    elif any(_several(rows, of) for of in ("dp_rank", "stage")):
        yield "No single worker, replica or stage is at fault: times of operations vary on all of them."
    kinds = rows[rows["mended"].notna() & (rows["of"] == "kind")]
    costly = kinds[kinds["slowdown"].astype(float) >= _TELLING]
    if len(costly):
        each = ", ".join(f"{row['kind']} {float(row['slowdown']):.2f}x" for row in row_dicts(costly.head(3)))
        yield f"By kind of operation, each alone: {each}."


def at_fault(rows: pd.DataFrame) -> pd.Series[Any] | None:
    """Return the smallest part that mends the slowdown of a job: a worker, then a replica or a stage.

    None if there is none, or no slowdown. `rows`: of metric `whatif`, of one job.
    """
    slowdown = none_if_null(rows["slowdown"].iloc[0])
    if slowdown is None or float(slowdown) < _TELLING:
        return None
    parts = rows[rows["mended"].notna()]
    parts = parts[(parts["mended"].astype(float) >= _FAULT) & (parts["longer"].astype(float) >= _TELLING)]
    groups = [of for of in ("dp_rank", "stage") if _several(rows, of)]
    workers = parts[(parts["of"] == "slowest workers") & bool(groups)]
    suspects = workers if len(workers) else parts[parts["of"].isin(groups)].sort_values("mended", ascending=False)
    return suspects.iloc[0] if len(suspects) else None


def fault_in_words(worst: pd.Series[Any]) -> str:
    """Return what the times of a part cost a job."""
    share = float(worst["mended"])
    gone = "the slowdown" if share >= _WHOLE else f"{100 * share:.0f} % of the slowdown"
    alone = f"its times alone make the job {float(worst['slowdown']):.2f}x slower"
    return f"{alone}, and with the typical times of the others {gone} would be gone"


def _several(rows: pd.DataFrame, of: str) -> bool:
    return int((rows["of"] == of).sum()) > 1


def _name(row: pd.Series[Any]) -> str:
    dp_rank, stage, rank = (none_if_null(row[column]) for column in ("dp_rank", "stage", "rank"))
    parts = [f"dp rank {dp_rank}"] * (dp_rank is not None) + [f"stage {stage}"] * (stage is not None)
    if not parts:
        return "The slowest 3 % of the workers"
    text = " ".join(parts)
    return f"Rank {rank} ({text})" if rank is not None else text[0].upper() + text[1:]
