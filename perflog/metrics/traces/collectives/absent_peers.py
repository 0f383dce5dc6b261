"""Ranks without a trace: communication with them may wait for them, for a time that no trace shows."""

from __future__ import annotations

from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, all_collectives


@computed_once
def devices_without_peers(tables: Tables) -> dict[int, str]:
    """Return the run of each device, by its `id`, that communicates with ranks without a trace."""
    worlds = dict(tables.rows("runs").records("run", "world_size"))
    found: dict[int, str] = {}
    for matched in all_collectives(tables):
        members = matched.job.members
        if len(members) < _ranks(matched, max(worlds[member.run] for member in members)):
            found |= {id(member): member.run for member in members}
    return found


def _ranks(matched: MatchedCollectives, world: int) -> int:
    """Return how many ranks communicate: of the largest group, else of the job; at least two."""
    printed = [rows["size"].max() for rows in (matched.collectives, matched.loose) if rows["size"].notna().any()]
    if printed:
        return int(max(printed))
    return world if world > 0 else 2
