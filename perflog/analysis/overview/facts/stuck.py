"""What holds up a job with ranks that dumped their collectives, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.metrics import Options, Tables, stuck_ranks
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.tables.nulls import records
from perflog.units import count, numbered

_NAMED = 2  # ranks with their missing call shown


def stuck(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield which ranks hold the others up and what each lacks, or that none does."""
    job = jobs_of_dumps(tables).get(run)
    if job is None:
        return
    rows = stuck_ranks.table_of(run, tables, options)
    holding = rows[rows["holds_up"].astype("boolean").fillna(False)]
    ranks = list(dict.fromkeys(map(int, holding["rank"])))
    without_dump = list(map(int, rows.loc[rows["holds_up"].isna(), "rank"]))
    waiting = sorted(job.waiting)
    if ranks:
        hold, wait = ("hold", "wait") if len(ranks) > 1 else ("holds", "waits")
        others = count(len(job.waiting - set(ranks)), "rank")
        whom = "none that has a dump" if without_dump else "none"
        yield f"Stuck: {_ranks(ranks)} {hold} up {others} and {wait} for {whom}."
    elif not waiting:
        yield "No call is pending on any rank that has a dump."
    elif rows["behind"].notna().any():
        each_other = sorted(set(map(int, rows.loc[rows["behind"].notna(), "rank"])))
        yield f"Stuck: {_ranks(each_other)} wait for each other: they may call collectives in different orders."
    else:
        yield f"Pending on {_ranks(waiting)}: calls that every rank with a dump has enqueued."
    for row in records(holding.drop_duplicates("rank").head(_NAMED)):
        lacks = f", first {row['lacks']}" if isinstance(row["lacks"], str) else ""
        of = row["purpose"] or f"group {row['group']}"
        calls = count(int(row["behind"]), "call")
        if row["stuck"] == "mismatch":
            yield f"Rank {row['rank']} calls {row['lacks']}, in {of}: they do not match."
            continue
        if row["stuck"] == "device":
            yield f"Rank {row['rank']} has not completed {calls} of {of} that others have{lacks}: its device is stuck."
            continue
        waiting = row["waiting"].split(", ")
        wait = f"{_ranks(waiting)} {'wait' if len(waiting) > 1 else 'waits'} for it"
        yield f"Rank {row['rank']} lacks {calls} of {of}{lacks}; {wait}."
    if without_dump:
        yield f"No dump of {_ranks(without_dump)}: a process that died may hold the others up."


def _ranks(ranks: Sequence[object]) -> str:
    return numbered("rank", [int(str(rank)) for rank in ranks])
