"""Causes between the ranks and stages of a job: who is stuck, who is slow, and which stage is the longest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.metrics.causes.cause import BOUND, JOB, PIPELINE, REPLAY, Cause
from perflog.metrics.jobs.stuck_ranks import stuck_ranks
from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import stages
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.skew.named_ranks import named_rank_rows
from perflog.metrics.skew.ranks import WAITS, RankRow, rank_rows
from perflog.metrics.step_time.headroom import equal_stages
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.metrics.what_if.whatif import whatif
from perflog.tables.nulls import none_if_null, row_dicts

if TYPE_CHECKING:
    import pandas as pd

_LONGER = 1.03  # times its peers: less is scatter
_SUBJECTS = {
    "worker": "worker", "slowest workers": "worker", "dp_rank": "replica", "stage": "stage", "kind": "operations",
}  # fmt: skip


def stuck(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each rank with missing calls that others wait for, while it does not wait itself."""
    if not stuck_ranks.has_rows(tables, options):
        return
    rows = stuck_ranks.table(tables, options)
    for row in row_dicts(rows[rows["holds_up"].astype("boolean").fillna(False)]):
        yield Cause(
            run=row["run"], of=JOB, subject="stuck rank", rank=int(row["rank"]), name=none_if_null(row["lacks"]),
            n=int(row["behind"]), model="it makes the calls that others wait for", metric="stuck_ranks",
        )  # fmt: skip


def stragglers_by_replay(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the cost of each worker, replica, stage and kind of operation to a job with replayable operations.

    What is modelled from layers and phases alone has causes of its own: stages, unequal ranks.
    """
    if not whatif.has_rows(tables, options):
        return
    rows = whatif.table(tables, options)
    rows = rows[rows["slowdown"].notna() & (rows["rests_on"] == OPERATIONS)]
    if not len(rows):
        return
    for run, run_rows in rows.groupby("run", sort=False):
        job = run_rows[run_rows["of"] == "job"]
        lost = float((job["replayed_s"] - job["ideal_s"]).iloc[0])
        several = {of for of in ("dp_rank", "stage") if (run_rows["of"] == of).sum() > 1}
        for row in run_rows[run_rows["mended"].notna() & run_rows["of"].isin(list(_SUBJECTS))].to_dict("records"):
            longer = none_if_null(row["longer"])
            is_part = row["of"] in several or (row["of"] in ("worker", "slowest workers") and bool(several))
            yield Cause(
                run=str(run), of=JOB, subject=_SUBJECTS[row["of"]], name=none_if_null(row["kind"]),
                **{name: none_if_null(row[name]) for name in ("rank", "dp_rank", "stage")},
                whole_s=float(job["replayed_s"].iloc[0]), gain_s=lost * float(row["mended"]), by=REPLAY,
                model="its operations take the typical time of their kind", ratio=longer, metric="whatif",
                may_bind=is_part and longer is not None and longer >= _LONGER and row["of"] != "slowest workers",
            )  # fmt: skip


def slow_ranks(tables: Tables, options: Options) -> Iterator[Cause]:  # noqa: ARG001 (all sources take the same)
    """Yield each metric in which a rank is worse than all others. The gain without that rank is not known.

    A rank that waits longer than the others is none: it is the fast one.
    """
    means = semantics_by_run(tables.rows("runs"))
    for row in rank_rows(tables):
        if row.is_worse and row.rank is not None and row.out is not None and not _waits(row, means[row.run]):
            is_rank = row.rank.isdigit()
            yield Cause(
                run=row.run, of=JOB, subject="slow rank", rank=int(row.rank) if is_rank else None,
                name=row.figure if is_rank else f"{row.figure} of {row.rank}", ratio=row.out.far.ratio, n=row.rows,
                each_s=row.out.value if row.unit == "s" else None, model="it is as good as the others",
                metric="ranks", may_bind=False,
            )  # fmt: skip


def _waits(row: RankRow, meaning: RunSemantics) -> bool:
    """Return whether a metric is a time in which a rank waits for others, as declared, else by its name."""
    phase = meaning.phase(row.figure) if row.of == "phases" else None
    return row.unit == "s" and (WAITS.search(row.figure) is not None if phase is None else phase.kind == "wait")


def slowest_ranks(tables: Tables, options: Options) -> Iterator[Cause]:  # noqa: ARG001 (all sources take the same)
    """Yield the ranks that reports over all ranks name at the worse end of a metric, or as stragglers."""
    for row in named_rank_rows(tables):
        if row.is_slow:
            yield Cause(
                run=row.run, of=JOB, subject="slowest rank", rank=row.rank, name=row.figure, n=row.times,
                each_s=row.value if row.unit == "s" else None, model="it is as good as the others",
                metric="named_ranks", may_bind=False,
            )  # fmt: skip


def longest_stages(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the longest stage of each pipeline, against the mean of its direction."""
    if not stages.has_rows(tables, options):
        return
    rows = stages.table(tables, options)
    rows = rows[rows["stage"].notna() & rows["time_s"].notna()]
    if not len(rows):
        return
    gains = {gain.run: gain for gain in equal_stages(tables, options)}
    for run, run_rows in rows.groupby("run", sort=False):
        longest = run_rows.loc[run_rows["time_s"].astype(float).idxmax()]
        ratio = _ratio(run_rows, longest)
        if len(run_rows) > 1 and ratio >= _LONGER:
            gain = gains.get(str(run))
            yield Cause(
                run=str(run), of=PIPELINE, subject="stage", name=str(longest["direction"]), stage=int(longest["stage"]),
                time_s=float(longest["time_s"]), whole_s=gain and gain.time_s, gain_s=gain and gain.gain_s, by=BOUND,
                model=gain.model if gain else "all stages take the mean of the stages", ratio=ratio, metric="stages",
            )  # fmt: skip


def _ratio(stages_of_run: pd.DataFrame, of: pd.Series) -> float:
    alike = stages_of_run["time_s"][stages_of_run["direction"] == of["direction"]]
    return float(of["time_s"] / alike.mean())
