"""Hosts of one job: the run of the longest log represents the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.analysis import job_hosts as module
from perflog.metrics import Tables


def tables(**steps: int) -> Tables:
    """Runs with so many steps; the log of a run is the part of its name before the bar."""
    names = [name.replace("_", "-") for name in steps]
    rows = [{"run": run, "step": n} for run, count in zip(names, steps.values(), strict=True) for n in range(count)]
    frames = by_hand("steps", rows)
    runs = [frames["runs"].assign(run=run, log_sha256=run.partition("-")[0]) for run in names]
    return Tables(frames | {"runs": pd.concat(runs, ignore_index=True)})


@pytest.mark.parametrize(
    ("steps", "pairs", "found"),
    [
        ({"a_1": 3, "b_1": 5}, [("a-1", "b-1")], {"a-1": "b-1"}),
        ({"a_1": 5, "b_1": 5}, [("a-1", "b-1")], {"b-1": "a-1"}),  # of equals the first
        ({"a_1": 3, "a_2": 4, "b_1": 5}, [("a-1", "b-1")], {"b-1": "a-1"}),  # the whole log counts
        ({"a_1": 3, "b_1": 2, "b_2": 2}, [("a-1", "b-1"), ("a-1", "b-2")], {"a-1": "b-1", "b-2": "b-1"}),
        ({"a_1": 3, "b_1": 5, "c_1": 4}, [("a-1", "b-1"), ("a-1", "c-1")], {"a-1": "b-1", "c-1": "b-1"}),
        ({"a_1": 3, "b_1": 4, "c_1": 5}, [("a-1", "c-1"), ("b-1", "c-1")], {"a-1": "c-1", "b-1": "c-1"}),  # b, not a
        ({"a_1": 3, "b_1": 5}, [], {}),
        ({"a_1": 3, "a_2": 5}, [("a-1", "a-2")], {}),  # of one log alone
    ],
)
def test_the_run_of_the_longest_log(
    monkeypatch: pytest.MonkeyPatch, steps: dict[str, int], pairs: list[Any], found: dict[str, str]
) -> None:
    def equal_losses(tables: Tables) -> Iterator[tuple[str, str]]:
        """Each run is joined with the first one only."""
        known = [(one, other) for one, other in pairs if {one, other} <= tables.run_order().keys()]
        return iter({other: (one, other) for one, other in reversed(known)}.values())

    monkeypatch.setattr(module, "equal_losses", equal_losses)
    assert module.run_of_hosts(tables(**steps)) == found
