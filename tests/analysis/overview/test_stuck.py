"""Which ranks hold the others up, in words."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.metric_tables import replace_table

from perflog.analysis.overview.facts import stuck as module
from perflog.metrics import Options

TABLES: Any = None  # each table that a sentence needs is replaced


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    def replaced(waiting: set[int], *rows: dict[str, Any]) -> None:
        monkeypatch.setattr(module, "jobs_of_dumps", lambda _: {"r": SimpleNamespace(waiting=waiting)})
        partial(replace_table, monkeypatch, module)("stuck_ranks", *rows, **row(9))

    return replaced


def row(rank: int, stuck: str | None = "host", holds_up: bool | None = True, **more: Any) -> dict[str, Any]:
    usual = {"lacks": "all_reduce", "purpose": None, "group": "3", "behind": 2, "waiting": "1, 2"}
    return {"rank": rank, "stuck": stuck, "holds_up": holds_up} | usual | more


def said(run: str = "r") -> list[str]:
    return list(module.stuck(TABLES, run, Options()))


def test_ranks_that_hold_others_up(table: Any) -> None:
    table({1, 2}, row(0), row(1, holds_up=False))
    assert said() == [
        "Stuck: rank 0 holds up 2 ranks and waits for none.",
        "Rank 0 lacks 2 calls of group 3, first all_reduce; ranks 1, 2 wait for it.",
    ]
    table({1, 3}, row(0, behind=1, waiting="1", lacks=None, purpose="dp"), row(3, "device"), row(4, holds_up=None))
    assert said() == [
        "Stuck: ranks 0, 3 hold up 1 rank and wait for none that has a dump.",
        "Rank 0 lacks 1 call of dp; rank 1 waits for it.",
        "Rank 3 has not completed 2 calls of group 3 that others have, first all_reduce: its device is stuck.",
        "No dump of rank 4: a process that died may hold the others up.",
    ]
    table({1}, row(0, "mismatch", purpose="tp"), row(0, lacks="other"))
    assert said()[1:] == ["Rank 0 calls all_reduce, in tp: they do not match."]


def test_no_rank_holds_others_up(table: Any) -> None:
    table(set(), row(0, holds_up=False))
    assert said() == ["No call is pending on any rank that has a dump."] and said("other") == []
    table({2, 1, 5}, row(2, holds_up=False), row(1, holds_up=False), row(5, holds_up=False, behind=None))
    assert said() == ["Stuck: ranks 1, 2 wait for each other: they may call collectives in different orders."]
    table({2, 1}, row(1, holds_up=False, behind=None))
    assert said() == ["Pending on ranks 1, 2: calls that every rank with a dump has enqueued."]


@pytest.mark.parametrize("number", [3, 9])
def test_few_ranks_are_named(table: Any, number: int) -> None:
    table({50}, *(row(n) for n in range(number)))
    assert len(said()) == 1 + min(number, module._NAMED)
