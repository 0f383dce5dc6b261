"""Hosts of ranks: which rank is on which host, as the library of collectives prints it.

A communicator of fewer ranks than the job numbers its ranks anew, so only the largest communicators count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables, computed_once

_HOST, _RANKS = "host", "ranks_of_host"
"""Keys of table `values`: the host of a rank, and the number of ranks of the communicator that numbers it."""

_DIGITS = 6  # of a number of ranks: a torn line may have more, or a word


def hosts_of_ranks(tables: Tables, run: str) -> Mapping[int, str | None]:
    """Return the host of each rank of a run, None where it is unknown; empty if no log of the job prints any.

    Logs of the library beside a job count where the job is the only one that `tables` has.
    """
    by_run = _hosts(tables)
    is_only_job = {*tables.counts("steps")} == {run}
    beside = [other for other in by_run if is_only_job and other not in tables.counts("steps")]
    runs = [run] if run in by_run else beside
    return _of_all_ranks((each for other in runs for each in by_run[other]), max(_ranks_of_job(tables, run), 1))


def ranks_by_host(hosts: Mapping[int, str | None]) -> dict[str, list[int]]:
    """Return all ranks of each host; empty if the host of a rank is unknown: any of them may have it, too.

    Example:
        >>> ranks_by_host({0: "n1", 1: "n1", 2: "n2"}), ranks_by_host({0: "n1", 1: None, 2: "n2"})
        ({'n1': [0, 1], 'n2': [2]}, {})
    """
    found = grouped((host, rank) for rank, host in hosts.items())
    return {} if None in found else {host: ranks for host, ranks in found.items() if host is not None}


def host_in_words(ranks: Collection[int], hosts: Mapping[int, str | None]) -> str:
    """Return the host that some ranks have in common: `node3`, `all ranks of node3`; "" if they have none.

    Example:
        >>> host_in_words([2, 3], {0: "n1", 1: "n1", 2: "n2", 3: "n2"})
        'all ranks of n2'
    """
    found = {hosts.get(rank) for rank in ranks}
    host = found.pop() if len(found) == 1 else None
    if host is None:
        return ""
    return f"all ranks of {host}" if len({*ranks}) == len(ranks_by_host(hosts).get(host, ())) > 1 else host


@computed_once
def _hosts(tables: Tables) -> dict[str, list[tuple[int, int, str]]]:
    """Return the number of ranks of a communicator, a rank and its host, by run."""
    values = tables.rows("values")
    rows = values.where(values.one_of("key", {_HOST, _RANKS}) & values.known("rank", "text"))
    records = rows.records("run", "line", "rank", "key", "text")
    by_line = grouped(((run, line, rank), (key, text)) for run, line, rank, key, text in records)
    found = ((run, rank, dict(pairs)) for (run, _, rank), pairs in by_line.items())
    return grouped(
        (run, (int(facts[_RANKS]), rank, facts[_HOST]))
        for run, rank, facts in found
        if len(facts) == 2 and facts[_RANKS].isdecimal() and len(facts[_RANKS]) <= _DIGITS
    )


def _ranks_of_job(tables: Tables, run: str) -> int:
    """Return how many ranks the job of a run has at least."""
    ranks = tables.rows_of("steps", run)["rank"]
    sizes = tables.rows_of("runs", run)["world_size"]
    return int(max([1 + ranks.max(initial=-1), *sizes.tolist()]))


def _of_all_ranks(found: Iterable[tuple[int, int, str]], fewest: int) -> dict[int, str | None]:
    """Return the host of each rank of the largest communicators; None for one on several hosts, or without a line."""
    by_size = grouped((size, (rank, host)) for size, rank, host in found)
    size = max(by_size, default=0)
    if size < fewest:
        return {}
    hosts = {rank: {*each} for rank, each in grouped(by_size[size]).items()}
    return {rank: hosts[rank].pop() if len(hosts.get(rank, ())) == 1 else None for rank in range(size)}
