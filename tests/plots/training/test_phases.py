"""Stacks of phases: which segments are end to end, from phases given by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.drawings import bars
from support.plotted_logs import MS, figure, panels, reference, tables

from perflog import metrics
from perflog.plots.training.phases import PhaseTime, hidden_segments, stack, wholes


def phase(name: str, time: float, parent: str | None = "step", **more: Any) -> PhaseTime:
    usual: dict[str, Any] = {"part": "phase", "occurrence": None, "rank": None, "hidden": False}
    return PhaseTime(**usual | {"phase": name, "parent": parent, "time": time} | more)


def whole(name: str, time: float) -> PhaseTime:
    return phase(name, time, None, part="whole")


def rest(name: str, time: float, **more: Any) -> PhaseTime:
    return phase(name, time, None, part="rest", **more)


def segments(times: list[PhaseTime], rank: int | None = None) -> list[tuple[Any, ...]]:
    return [(each.phase, each.unattributed, each.start, each.time) for each in stack(times, rank)]


def test_wholes_are_one_after_the_other() -> None:
    """Phases of the step itself come after both."""
    times = [whole("step", 9.0), whole("backward", 4.0), whole("forward", 2.0), phase("loss", 1.0)]
    assert wholes(times) == [("forward", 0.0, 2.0), ("backward", 2.0, 4.0), ("step", 6.0, 9.0)]
    assert wholes([phase("loss", 1.0)]) == [("forward", 0.0, 0.0), ("backward", 0.0, 0.0), ("step", 0.0, 0.0)]


def test_phases_are_end_to_end_inside_their_wholes() -> None:
    times = [whole("forward", 2.0), whole("backward", 4.0), phase("opt", 1.0), phase("comm", 3.0, "backward"),
             phase("gate", 0.5, "forward"), phase("mlp", 1.0, "forward"), phase("copy", 9.0, hidden=True)]  # fmt: skip
    assert segments(times) == [
        ("gate", False, 0.0, 0.5), ("mlp", False, 0.5, 1.0), ("comm", False, 2.0, 3.0), ("opt", False, 6.0, 1.0),
    ]  # fmt: skip
    assert [(each.phase, each.start) for each in hidden_segments(times, None)] == [("copy", 0.0)]


def test_a_phase_is_divided_if_its_unattributed_time_is_known() -> None:
    parts = [phase("moe", 5.0), phase("gate", 2.0, "moe"), phase("route", 1.0, "gate")]
    assert segments(parts) == [("moe", False, 0.0, 5.0)]
    divided = [("gate", False, 0.0, 2.0), ("moe", True, 2.0, 3.0)]
    assert segments([*parts, rest("moe", 3.0)]) == divided
    assert segments([*parts, rest("moe", 0.0)]) == [*divided[:1], ("moe", True, 2.0, 0.0)]
    assert segments([*parts, rest("moe", -1.0)]) == [("moe", False, 0.0, 5.0)]
    twice = [*parts, phase("moe", 4.0), rest("moe", 3.0)]
    assert [each[:2] for each in segments(twice)] == [("moe", False), ("moe", False)]
    both = segments([*parts, rest("moe", 3.0), rest("gate", 1.0)])
    assert both == [("route", False, 0.0, 1.0), ("gate", True, 1.0, 1.0), ("moe", True, 2.0, 3.0)]


def test_each_rank_has_its_own_phases() -> None:
    """A phase between them may have no known rank."""
    times = [phase("outer", 5.0), phase("a", 1.0, "outer", rank=0), phase("a", 2.0, "outer", rank=1),
             phase("b", 3.0, rank=1), phase("c", 1.0, "b", rank=1), rest("a", 9.0, rank=0)]  # fmt: skip
    assert segments(times, 1) == [("a", False, 0.0, 2.0), ("b", False, 2.0, 3.0)]
    assert [each[0] for each in segments(times, 0)] == ["a"]
    assert segments(times) == [("outer", False, 0.0, 5.0)]


def test_hidden_phases_inside_hidden_ones_are_part_of_them() -> None:
    times = [phase("copy", 3.0, hidden=True), phase("part", 1.0, "copy", hidden=True), phase("send", 2.0, hidden=True),
             phase("mlp", 4.0), phase("other", 5.0, hidden=True, rank=1)]  # fmt: skip
    assert [(each.phase, each.start) for each in hidden_segments(times, None)] == [("copy", 0.0), ("send", 3.0)]


def test_phases_are_stacked_inside_forward_and_backward() -> None:
    log, found = reference("moe_layer"), figure("moe_layer", "phases")
    table, phases = metrics.phases(tables("moe_layer")), log.table("phases")
    for run, axes in zip(log.run_keys, panels(found), strict=True):
        wholes = table[(table["run"] == run.id) & (table["part"] == "whole") & table["rank"].isna()]
        whole = dict(zip(wholes["phase"], wholes["mean_s"], strict=True))
        step, forward = whole["step"] * MS, whole["forward"] * MS
        for place in range(5):
            pieces = [bar for bar in bars(axes) if bar.get_gid() == f"stack {place}"]
            assert all(bar.get_x() >= 0 and bar.get_x() + bar.get_width() <= step for bar in pieces)
            assert not [bar for bar in pieces if bar.get_x() + 1e-9 < forward < bar.get_x() + bar.get_width() - 1e-9]
            if place:  # a rank: its wait is the first piece, the median of its steady steps
                mine = phases[(phases["run"] == run.id) & (phases["rank"] == place - 1) & (phases["step"] > 0)]
                wait = mine[mine["phase"] == "wait"]["time_s"].median() * MS
                assert pieces[0].get_width() == pytest.approx(wait)
                hidden = sum(bar.get_width() for bar in bars(axes) if bar.get_gid() == f"beside {place}")
                process = mine[mine["phase"] == "process"]["time_s"].median() * MS
                assert hidden == pytest.approx(process, rel=0.05)  # a sum of medians
