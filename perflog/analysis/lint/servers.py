"""Rules on servers and on the benchmarks that send them requests."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import percent
from perflog.lazy_patterns import lazy_pattern

_FAILED = lazy_pattern(r"(?i)failed[_ ]requests?(?:[_ ]count)?|error[_ ]request[_ ]count")
_SERVED = lazy_pattern(r"(?i)successful[_ ]requests?(?:[_ ]count)?|request[_ ]count")


@rule(
    code="failed-requests",
    severity="warning",
    title="requests of a benchmark failed",
    why="Latencies and rates are of answered requests. A server that refuses part of its load looks faster.",
    action="find out why they failed in the log of the server, and measure again",
    needs=("runs",),
)
def failed_requests(data: LintInput) -> Iterator[Finding]:
    """Reports of serving benchmarks that count failed requests, and single results of them."""
    yield from _failed(data, "summaries")
    yield from _failed(data, "values")


def _failed(data: LintInput, table: str) -> Iterator[Finding]:
    rows = data.tables.rows(table)
    failed = [name for name in rows.counts("key") if _FAILED.fullmatch(name)]
    for run in data.runs_where(table, rows.one_of("key", failed) & (rows["value"] > 0)):
        own = run[table]
        report = own.where(own.one_of("key", failed))
        if table == "values" and len(report) > 1:  # of several benchmarks, or of a server while it runs
            continue
        number = int(report["value"].max())
        served = [value for key, value in own.records("key", "value") if _SERVED.fullmatch(key)]
        whole = f" of {number + int(served[0]):,} requests ({percent(number / (number + served[0]))})" if served else ""
        message = f"{number:,}{whole or ' requests'} failed: latencies and rates are of the others"
        yield Finding(run.id, message, {run.id: report["line"]}, {"failed": number})
