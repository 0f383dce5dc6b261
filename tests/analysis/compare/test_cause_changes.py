"""By causes: what takes the time of both sides, in the words of metric `causes`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.trace_tables import Event, by_hand, kernel, log, reduce, step

import perflog
from perflog.metrics import causes
from perflog.output.presenters.compare_screen import screen

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
