"""Metric `placement`: the busiest rank as experts lie, moved, and with redundant ones."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import SHARED

import perflog
from perflog.metrics import placement
from perflog.metrics.skew.placement import (
    AS_PLACED,
    MOVED,
    REDUNDANT,
    _expert_ranks,
    _placement_rows,
    _ranks_of,
    _slowest,
    busiest,
    with_copies,
)

LOADS = st.lists(st.integers(0, 50), min_size=4, max_size=8).filter(lambda loads: len(loads) % 2 == 0 and any(loads))


@given(LOADS)
def test_no_placement_beats_the_best_of_all(loads: list[int]) -> None:
    """Against all ways to deal the experts to two ranks; longest first is within 4/3 of the best (Graham 1969)."""
    half = len(loads) // 2
    best = min(max(sum(order[:half]), sum(order[half:])) for order in set(permutations(loads)))
    assert best <= busiest(loads, 2) <= 4 / 3 * best + 1e-9


@given(LOADS, st.integers(0, 12))
def test_copies_share_the_work_of_their_expert(loads: list[int], copies: int) -> None:
    found = with_copies(loads, copies)
    assert len(found) == len(loads) + copies
    assert sum(found) == pytest.approx(sum(loads))
    counts = [1] * len(loads)  # the rule, as a plain loop
    for _ in range(copies):
        counts[max(range(len(loads)), key=lambda i: loads[i] / counts[i])] += 1
    assert max(found) == pytest.approx(max(load / count for load, count in zip(loads, counts, strict=True)))


def test_more_ranks_than_rooms_are_full() -> None:
    assert busiest([5, 4, 3, 2, 1, 0], 3) == 5
    assert busiest([9, 1, 1, 1], 2) == 10  # each rank takes two
    assert with_copies([9, 1, 1, 1], 2) == [3, 3, 3, 1, 1, 1]


@pytest.mark.skipif(not (SHARED / "campaigns").is_dir(), reason="the campaigns are not here")
def test_real_loads_of_sixteen_ranks() -> None:
    """The layer in the middle; the figures were computed from the files by another program."""
    rows = placement(perflog.find_runs(str(SHARED / "campaigns" / "expert_loads")))
    for step, expected in ((1001, [5.614, 5.310, 1.191, 1.091]), (2001, [6.908, 6.550, 1.210, 1.084])):
        of_step = rows[(rows["of"] == "step") & (rows["step"] == step)]
        assert of_step["slowest"].round(3).tolist() == expected
    assert len(rows[rows["of"] == "layer"]) == 24 * 4


def test_experts_lie_on_several_ranks_with_as_many_each() -> None:
    """As a setting says, else as the log shows; one rank has nothing to move."""
    layer: Any = SimpleNamespace(experts=np.arange(8), ranks=4)
    found = {ranks: _ranks_of(layer, ranks) for ranks in (None, 1, 2, 3, 8, 16)}
    assert found == {None: 4, 1: None, 2: 2, 3: None, 8: 8, 16: None}
    assert _ranks_of(SimpleNamespace(**vars(layer) | {"ranks": None}), None) is None  # type: ignore[arg-type]


def test_a_gain_is_relative_to_the_experts_as_placed() -> None:
    found = list(_placement_rows({"step": 3}, {(AS_PLACED, 0): 3.0, (MOVED, 0): 2.0, (REDUNDANT, 4): 1.5}))
    assert [(row["step"], row["placement"], row["copies"], row["slowest"], row["gain"]) for row in found] == [
        (3, AS_PLACED, 0, 3.0, 1.0), (3, MOVED, 0, 2.0, 1.5), (3, REDUNDANT, 4, 1.5, 2.0),
    ]  # fmt: skip


def test_the_busiest_rank_is_relative_to_the_mean() -> None:
    """Of a mean of 0.5, two ranks take 0.8 and 0.2; 0.7 if the smallest expert is beside the largest one."""
    assert _slowest(np.array([0.6, 0.2, 0.1, 0.1]), 2) == {
        (AS_PLACED, 0): pytest.approx(1.6), (MOVED, 0): pytest.approx(1.4),
        (REDUNDANT, 2): pytest.approx(1.0), (REDUNDANT, 4): pytest.approx(1.0),
    }  # fmt: skip
    assert _slowest(np.zeros(4), 2) == {}


@pytest.mark.parametrize(
    ("settings", "ranks"),
    [
        ({"Expert_Parallel_Size": "8"}, 8),
        ({"moe.ep_degree": "4"}, 4),
        ({"ep": "auto", "ep_size": "2"}, 2),
        ({"tp": "8"}, None),
    ],
)
def test_the_setting_of_expert_parallelism(settings: dict[str, str], ranks: int | None) -> None:
    assert _expert_ranks(settings) == ranks
