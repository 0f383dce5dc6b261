"""Devices that communicate with ranks without a trace."""

from __future__ import annotations

from typing import Any

import pytest
from support.trace_tables import by_hand, reduce

from perflog.metrics.traces.collectives.absent_peers import devices_without_peers


@pytest.mark.parametrize(
    ("traced", "more", "alone"),
    [
        (1, {}, 1),  # nothing is printed: a collective has two ranks or more
        (1, {"ranks": 1}, 0),  # a group of one
        (2, {}, 0),
        (2, {"ranks": 4}, 2),
        (2, {"ranks": 2}, 0),
    ],
)
def test_a_group_with_more_ranks_than_traces(traced: int, more: dict[str, Any], alone: int) -> None:
    events = [
        reduce(start, start + 10, rank=rank, part=rank, device=rank, **more)
        for rank in range(traced)
        for start in (0, 20)
    ]
    assert len(devices_without_peers(by_hand(events))) == alone
