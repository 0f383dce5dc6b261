"""By causes: what takes the time of both sides, in the words of metric `causes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel, log, reduce, step

import perflog
from perflog.analysis.compare.explanations import cause_changes as module
from perflog.analysis.compare.explanations.cause_changes import CauseChange, CauseKey, _OnSide
from perflog.analysis.compare.sides import Case
from perflog.metrics import causes
from perflog.output.presenters.compare_screen import _slow_together, screen

MS = 1_000_000


def trace(name: str, computing: int, sending: int) -> perflog.Log:
    """Steps of so many ms of computing, then of communication, and 1 ms without work."""
    events: list[Event] = []
    at = 0
    for k in range(6):
        begin = at + MS
        events.append(kernel(begin, begin + computing * MS, "gemm"))
        events.append(reduce(begin + computing * MS, begin + (computing + sending) * MS))
        end = begin + (computing + sending) * MS
        events.append(step(k, at, end))
        at = end
    return log(by_hand(events), name)


def test_the_cause_that_grew() -> None:
    base, side = trace("base", 6, 3), trace("side", 6, 13)
    compared = perflog.compare(base, side, draws=200)
    first = compared.causes[0]
    assert (first.cause.subject, first.side) == ("communication", "side")
    assert (first.base_s, first.side_s, first.difference_s) == pytest.approx((3e-3, 13e-3, 10e-3))
    assert (first.base_whole_s, first.side_whole_s) == pytest.approx((10e-3, 20e-3))
    assert (first.base_binds, first.side_binds) == (False, True)
    for log_of, name in ((base, "base_s"), (side, "side_s")):  # the figures of the metric, and no others
        rows = causes(log_of)
        times = {each.cause: getattr(each, name) for each in compared.causes}
        listed = dict(
            zip(zip(rows["of"], rows["subject"], rows["name"].fillna(""), strict=True), rows["time_s"], strict=True)
        )
        assert {(c.of, c.subject, c.name or ""): pytest.approx(t) for c, t in times.items() if t is not None} == {
            key: time for key, time in listed.items() if time == time
        }
    text = " ".join(" ".join(screen(compared, ["base", "side"])).split())
    assert "+10 ms communication" in text and "the bottleneck is communication" in text
    assert compared.to_dict()["causes"][0]["difference_s"] == pytest.approx(10e-3)


def test_a_cause_of_one_side_has_no_difference() -> None:
    compared = perflog.compare(trace("base", 6, 3), trace("side", 6, 0), draws=200)
    (lost,) = (each for each in compared.causes if each.cause.subject == "communication")
    assert lost.base_s == pytest.approx(3e-3)
    assert lost.side_s in (None, 0) and lost.difference_s in (None, pytest.approx(-3e-3))


def test_the_causes_of_a_log_and_itself_do_not_differ() -> None:
    compared = perflog.compare(trace("one", 6, 3), trace("one", 6, 3))
    assert compared.causes and {each.difference_s for each in compared.causes} <= {0.0, None}


def test_a_rank_that_is_slow_on_one_side_comes_first(tmp_path: Path) -> None:
    """The others wait for it: their communication grows most."""
    noise = iter(np.exp(0.004 * np.random.default_rng(4).normal(size=1000)))
    for name, slow in (("a", 0.3), ("b", 0.4)):
        lines = [
            f"[rank {rank}] step {k} step_time {slow + 0.1:.3f}s compute {own:.4f}s comm {slow + 0.1 - own:.4f}s\n"
            for k in range(1, 31)
            for rank in range(4)
            for own in [(slow if rank == 2 else 0.3) * next(noise)]
        ]
        (tmp_path / f"{name}.log").write_text("".join(lines))
    a, b = (str(tmp_path / f"{name}.log") for name in "ab")
    for base, side in ((a, b), (b, a)):
        text = " ".join(" ".join(screen(perflog.compare(base, side, draws=200), [base, side])).split())
        bottlenecks = ["rank 2 (costs 100 ms)", "phase compute"] if side == b else ["phase compute", "rank 2"]
        assert "Causes: the bottleneck is {}, and was {}; ".format(*bottlenecks) in text
        assert "slow rank" not in text  # it is said


@pytest.mark.parametrize(
    ("slow", "text"),
    [([13], "slow rank compute (rank 13) on B alone"), (range(8, 16), "slow ranks 8-15: compute on B alone")],
)
def test_ranks_of_a_node_that_are_slow_on_one_side(slow: Sequence[int], text: str) -> None:
    changes = [
        CauseChange(
            "",
            "B",
            CauseKey("job", "slow rank", "compute", rank=rank),
            None,
            None,
            None,
            None,
            None,
            None,
            False,
            False,
            "B",
        )
        for rank in slow
    ]
    assert list(_slow_together(changes)) == [text]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (CauseKey("step", "communication"), "communication"),
        (CauseKey("step", "phase", "forward"), "phase forward"),
        (CauseKey("step", "data", "data_time"), "data_time"),
        (CauseKey("step", "rank", rank=3), "rank 3"),
        (CauseKey("step", "phase", "forward", rank=3, stage=1), "phase forward (rank 3, stage 1)"),
        (CauseKey("trace", "idle", device=0, dp_rank=2), "idle (device 0, data-parallel rank 2)"),
    ],
)
def test_a_cause_in_words(key: CauseKey, words: str) -> None:
    assert key.words == words


def change(subject: str, base: float | None, side: float | None, of: str = "step", **more: Any) -> CauseChange:
    usual = {
        "base_whole_s": 1.0, "side_whole_s": 2.0, "base_gain_s": None, "side_gain_s": None, "base_binds": False,
        "side_binds": False,
    }  # fmt: skip
    return CauseChange("", "b", CauseKey(of, subject), base, side, **(usual | more))


def test_causes_that_grew_by_a_share_of_the_first_whole() -> None:
    changes = [
        change("data", 0.25, 0.375), change("send", 0.5, 0.25), change("wait", 0.25, 0.3), change("new", None, 0.5),
        change("load", 0.0, 0.5, of="trace"), change("none", 0.25, 0.5, base_whole_s=None),
    ]  # fmt: skip
    found = [(each.cause.subject, difference) for each, difference in module.grown(changes, 0.125)]
    assert found == [("data", 0.125), ("send", -0.25)]
    assert [each.cause.subject for each, _ in module.grown(changes, 0.25)] == ["send"]


def test_causes_of_the_bound_whole_come_first() -> None:
    """Then the largest difference; those of one side at last."""
    changes = [
        change("load", 0.0, 5.0, of="trace"), change("new", None, 9.0), change("data", 0.25, 0.5),
        change("send", 0.75, 0.25, side_binds=True),
    ]  # fmt: skip
    assert [each.cause.subject for each in module._ranked(changes)] == ["send", "data", "new", "load"]
    assert [each.cause.subject for each in module._ranked(changes[:3])] == ["load", "data", "new"]


def test_the_side_that_alone_lists_a_cause() -> None:
    both, lost, new = (CauseKey("step", subject) for subject in ("both", "lost", "new"))
    found = module._changes(
        "", ("a", "b"), {both: _OnSide(1.0), lost: _OnSide(2.0)}, {new: _OnSide(3.0), both: _OnSide(4.0)}
    )
    assert [(each.cause, each.base_s, each.side_s, each.only_on) for each in found] == [
        (both, 1.0, 4.0, None), (lost, 2.0, None, "a"), (new, None, 3.0, "b"),
    ]  # fmt: skip


def test_figures_of_a_cause_over_rows_and_runs() -> None:
    """A sum needs all of them, a mean is of those that are known."""
    assert (module._sum([1.0, 2.0]), module._sum([1.0, None])) == (3.0, None)
    assert (module._mean([1.0, None, 2.0]), module._mean([None])) == (1.5, None)
    one = module._over_runs([_OnSide(1.0, None, 4.0), _OnSide(3.0, 0.5, 6.0, True)])
    assert one == _OnSide(2.0, 0.5, 5.0, True)


def test_the_causes_of_all_cases_and_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    key = CauseKey("step", "data")
    times = {"a1": 1.0, "a2": 2.0, "b1": 3.0, "b2": 4.0}
    monkeypatch.setattr(module, "_of_side", lambda _, runs, __: {key: _OnSide(times[runs[0]])} if runs else {})
    sides: Any = [SimpleNamespace(name=name) for name in "abc"]
    cases = [Case("x", (("a1",), ("b1",), ())), Case("y", (("a2",), ("b2",), ()))]
    found = module.cause_changes(sides, cases, None)
    assert [(each.case, each.side, each.base_s, each.side_s, each.only_on) for each in found] == [
        ("x", "b", 1.0, 3.0, None), ("x", "c", 1.0, None, "a"), ("y", "b", 2.0, 4.0, None), ("y", "c", 2.0, None, "a"),
    ]  # fmt: skip
