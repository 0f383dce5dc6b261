"""Rules on serving benchmarks: requests that failed."""

from __future__ import annotations

import pytest
from support.linted import TableRow, linted


def summary(key: str, value: float) -> TableRow:
    return {"table": "summaries", "key": key, "value": value}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [summary("Successful_requests", 75.0), summary("Failed_requests", 25.0)],
            "25 of 100 requests (25.0 %) failed",
        ),
        ([summary("Error Request Count", 1200.0)], "1,200 requests failed"),
        ([summary("Successful_requests", 75.0), summary("Failed_requests", 0.0)], None),
    ],
)
def test_requests_that_failed(rows: list[TableRow], message: str | None) -> None:
    found = [each.message for each in linted("failed-requests", rows)]
    assert found == ([f"{message}: latencies and rates are of the others"] if message else [])
