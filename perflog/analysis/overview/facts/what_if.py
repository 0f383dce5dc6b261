"""How much stragglers cost a job with operations that can be replayed, and which worker is at fault, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.metrics import Options, Tables, whatif
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.metrics.what_if.whatif import number_of_slowest
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import first_few, show

if TYPE_CHECKING:
    import pandas as pd

_TELLING = 1.03  # S below it is no slowdown that has a cause
_FAULT = 0.5  # of the slowdown that one part mends: then it is its fault
_WHOLE = 0.95
_NAMED = 4  # workers


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
        f"The job is {slowdown:.2f}x slower than without stragglers: a replay of its operations takes {replayed} "
        f"a step with them and {ideal} without."
    )
    fault = at_fault(rows)
    if fault is not None:
        several = len(fault.members) > 1
        yield f"{_names(fault.members)} {'are' if several else 'is'} at fault: {fault.words}."
    elif any(_several(rows, of) for of in ("dp_rank", "stage")):
        yield "No single worker, replica or stage is at fault: times of operations vary on all of them."
    kinds = rows[rows["mended"].notna() & (rows["of"] == "kind")]
    costly = kinds[kinds["slowdown"].astype(float) >= _TELLING]
    if len(costly):
        each = ", ".join(f"{row['kind']} {float(row['slowdown']):.2f}x" for row in row_dicts(costly.head(3)))
        yield f"By kind of operation, each alone: {each}."


class Fault(Struct, frozen=True):
    """Who causes the slowdown of a job: rows of metric `whatif` of workers, of a replica or of a stage; the cost."""

    members: Sequence[Mapping[str, Any]]
    words: str


def at_fault(rows: pd.DataFrame) -> Fault | None:
    """Return the smallest part that mends the slowdown of a job: workers, then a replica or a stage.

    None if there is none, or no slowdown. `rows`: of metric `whatif`, of one job.
    """
    known = none_if_null(rows["slowdown"].iloc[0])
    slowdown = 0.0 if known is None else float(known)
    if slowdown < _TELLING:
        return None
    parts = rows[rows["mended"].notna()]
    parts = parts[(parts["mended"].astype(float) >= _FAULT) & (parts["longer"].astype(float) >= _TELLING)]
    groups = [of for of in ("dp_rank", "stage") if _several(rows, of)]
    together = parts[(parts["of"] == "slowest workers") & bool(groups)]
    workers = rows[rows["of"] == "worker"]
    slowest = workers.head(number_of_slowest(len(workers)))
    slowest = slowest[slowest["longer"].astype(float) >= _TELLING]  # of a few slowest workers some are as the others
    if len(together) and len(slowest):
        return Fault(list(row_dicts(slowest)), _fault_in_words(together.iloc[0], slowdown, len(slowest)))
    suspects = parts[parts["of"].isin(groups)].sort_values("mended", ascending=False).head(1)
    return Fault(list(row_dicts(suspects)), _fault_in_words(suspects.iloc[0], slowdown)) if len(suspects) else None


def _fault_in_words(worst: pd.Series[Any], slowdown: float, members: int = 1) -> str:
    """Return what the times of some members cost a job with a slowdown.

    Alone they may cost more than that: other members may be faster than typical.
    """
    share, alone = float(worst["mended"]), float(worst["slowdown"])
    gone = "the slowdown" if share >= _WHOLE else f"{100 * share:.0f} % of the slowdown"
    times = "its times alone make" if members == 1 else "their times alone make"
    cost = f"{times} the job {alone:.2f}x slower; " if alone <= slowdown else ""
    they = "it" if members == 1 else "they"
    return f"{cost}if {they} took the typical times of the others, {gone} would be gone"


def _several(rows: pd.DataFrame, of: str) -> bool:
    return int((rows["of"] == of).sum()) > 1


def _names(members: Sequence[Mapping[str, object]]) -> str:
    text = first_few(map(_name, members), _NAMED, "; " if len(members) > 1 else ", ")
    return text[0].upper() + text[1:]


def _name(row: Mapping[str, object]) -> str:
    dp_rank, stage, rank = (none_if_null(row[column]) for column in ("dp_rank", "stage", "rank"))
    text = " ".join([f"dp rank {dp_rank}"] * (dp_rank is not None) + [f"stage {stage}"] * (stage is not None))
    return f"rank {rank} ({text})" if rank is not None else text
