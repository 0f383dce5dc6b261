"""What an overview says of the ranks of a run: outliers, the slowest, and how far they lie apart."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.run_figures import RunFigure
from perflog.metrics import Tables
from perflog.metrics.skew.named_ranks import NamedRank
from perflog.metrics.skew.ranks import RankRow, _Out
from perflog.statistics.standing_out import StandingOut

module: Any = import_module("perflog.analysis.overview.ranks_apart")  # the package has a function of this name

TABLES = Tables(by_hand("steps", [{"step": 1}]))


def rank_row(
    figure: str = "step_time_s", rank: str | None = "3", ratio: float = 1.5, t: float = 9.0, **more: Any
) -> RankRow:
    out = _Out(3.002, 2.003, StandingOut(3, ratio, t, more.pop("p", 0.002), 0.9)) if rank is not None else None
    usual: dict[str, Any] = {
        "of": "steps",
        "unit": "s",
        "ranks": 8,
        "rows": 30,
        "median": 1.0,
        "min": 1.0,
        "lowest": "0",
        "max": 2.0,
    }
    usual |= {"highest": rank}
    return RankRow(**({"run": "r", "figure": figure, "rank": rank, "out": out} | usual | more))


def outliers(monkeypatch: pytest.MonkeyPatch, *rows: RankRow) -> list[str]:
    monkeypatch.setattr(module, "rank_rows", lambda _: list(rows))
    return list(module.ranks_apart(TABLES, "r"))


def test_a_rank_that_is_worse_than_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The surest metric first; of many three."""
    rows = [rank_row("a_s", t=5.0), rank_row("b", t=7.0, unit="B"), rank_row("c_s", t=6.0), rank_row("d_s", t=4.0)]
    better = [rank_row("e_s", ratio=0.5), rank_row("f_s", rank=None)]
    assert outliers(monkeypatch, *rows, *better) == [
        (
            "Rank 3 of 8 is an outlier: b 3 B, the others 2 B (1.5 times); c 3 s, the others 2 s (1.5 times); a 3 s, "
            "the others 2 s (1.5 times); 1 more (in 90 % of 30 rows, p 0.002)."
        )
    ]
    assert outliers(monkeypatch, *better) == []
    (three,) = outliers(monkeypatch, *rows[:3])
    assert "a 3 s, the others 2 s (1.5 times) (in 90 %" in three


@pytest.mark.parametrize(
    ("more", "begin", "end"),
    [
        (
            {"ranks": 2},
            "Rank 3, one of 2 ranks in the log, is an outlier: step_time 3 s, the other 2 s (1.5 times)",
            " (in 90 % of 30 rows, p 0.002).",
        ),
        ({"rows": 1}, "Rank 3 of 8", " (printed once, p 0.002)."),
        ({"p": 1e-9}, "Rank 3 of 8", " rows, p < 1e-09)."),
        ({"p": 2e-9}, "Rank 3 of 8", " rows, p 2e-09)."),
        ({"rank": "node a"}, "Node a, one of 8 processes, is an outlier: ", ""),
        ({"rank": "host, gpu"}, "host, gpu, one of 8 processes, is an outlier: ", ""),
    ],
)
def test_how_an_outlier_is_named(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], begin: str, end: str) -> None:
    (text,) = outliers(monkeypatch, rank_row(**more))
    assert text.startswith(begin) and text.endswith(end)


def test_three_outliers_have_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [rank_row(rank=str(n), t=9.0 - n) for n in range(5)]
    found = outliers(monkeypatch, *rows[:3])
    assert [text.split()[1] for text in found] == ["0", "1", "2"]
    several = [rank_row(f"{n % 4}_s", rank=str(n), t=9.0 - n) for n in range(6)]
    assert outliers(monkeypatch, *several)[3:] == ["1 more rank far from the others: rank 3."]


def test_ranks_that_are_slow_alike_have_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks of a node, and a local rank of all nodes."""
    node = [rank_row(name, rank=str(n), t=9.0 + n % 3, ranks=64) for n in range(40, 48) for name in ("a_s", "b_s")]
    (line,) = outliers(monkeypatch, *node)
    assert line == (
        "Ranks 40-47 of 64 are outliers: a 3 s, the others 2 s (1.5 times); b 3 s, the others 2 s (1.5 times) (in "
        "90 % of 30 rows, p 0.002)."
    )
    (rail,) = outliers(monkeypatch, *(rank_row(rank=str(n), ranks=64) for n in range(3, 64, 8)))
    assert rail.startswith("Ranks 3, 11 ... 59 (every 8th) of 64 are outliers: step_time 3 s, the others 2 s")


def named(rank: int = 3, figure: str | None = "step_time", **more: Any) -> NamedRank:
    usual: dict[str, Any] = {
        "run": "r", "unit": "s", "end": "highest", "worse": True, "times": 29, "reports": 30, "p": 1e-9, "value": 1.5,
        "ratio": 1.5, "ranks": 8, "first_line": 1, "last_line": 9,
    }  # fmt: skip
    return NamedRank(**({"rank": rank, "figure": figure} | usual | more))


def reported(monkeypatch: pytest.MonkeyPatch, *rows: NamedRank, hanging: Any = None) -> list[str]:
    monkeypatch.setattr(module, "named_rank_rows", lambda _: list(rows))
    monkeypatch.setattr(module, "hanging_ranks", lambda _: {"r": hanging} if hanging else {})
    return list(module.ranks_named(TABLES, "r"))


OVER = "the highest over the lowest"
CLOCK = named(figure="gpu_clock", unit="Hz", end="lowest", value=1e9)
SLOWEST = "Slowest rank 3, in 29 of 30 reports: step time 1.5 s, the highest over the lowest 1.5"


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([named()], [f"{SLOWEST}."]),
        ([named(worse=False)], []),
        ([named(unit="B")], []),
        ([named(), named(figure="forward")], [f"{SLOWEST}."]),  # of the same reports
        (
            [named(), CLOCK],
            [f"{SLOWEST}; its gpu_clock is the lowest too, 1 GHz."],
        ),
        ([named(), named(4, "gpu_clock", unit="Hz", end="lowest")], [f"{SLOWEST}."]),
        ([named(), named(figure="gpu_clock", unit="Hz", end="lowest", times=3)], [f"{SLOWEST}."]),
        (
            [named(figure="rate", unit="1/s", end="lowest", ratio=0.5, value=8.0)],
            ["By rate no rank is slow: the lowest over the highest is 2 (rank 3, in 29 of 30 reports)."],
        ),
        (
            [named(ratio=1.001)],
            ["By step time no rank is slow: the highest over the lowest is 1 (rank 3, in 29 of 30 reports)."],
        ),
        (
            [named(times=10)],
            [f"No rank stays the slowest by step time: rank 3 is, in 10 of 30 reports; {OVER} is 1.5."],
        ),
        ([named(figure=None)], ["The log calls rank 3 (29 of 30 reports) a straggler."]),
        (
            [named(figure=None), named(4, None, times=1000, reports=1200)],
            ["The log calls stragglers: rank 3 (29 of 30 reports), rank 4 (1,000 of 1,200 reports)."],
        ),
    ],
)
def test_ranks_that_reports_name(monkeypatch: pytest.MonkeyPatch, rows: list[NamedRank], texts: list[str]) -> None:
    assert reported(monkeypatch, *rows) == texts


@pytest.mark.parametrize(
    ("hanging", "text"),
    [
        (((0, 1), 2), "The log says that all ranks hang."),
        (((1,), 4), "The log says that 1 rank of 4 hangs: 1."),
        (((1, 2), 4), "The log says that 2 ranks of 4 hang: 1, 2."),
        (((0,), 1), "The log says that all ranks hang."),
    ],
)
def test_ranks_that_hang(monkeypatch: pytest.MonkeyPatch, hanging: Any, text: str) -> None:
    assert reported(monkeypatch, hanging=hanging) == [text]


STEP = RunFigure("step", "s", "lower", {"r": 1.0})
RATE = RunFigure("samples/s", "1/s", "higher", {"r": 1.0})


def spread(monkeypatch: pytest.MonkeyPatch, *rows: RankRow, figures: tuple[RunFigure, ...] = (STEP, RATE)) -> list[str]:
    monkeypatch.setattr(module, "rank_rows", lambda _: list(rows))
    return list(module.ranks_spread(TABLES, "r", figures))


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([], []),
        ([rank_row(highest="3")], ["Over 8 ranks: step 1 s (rank 0) to 2 s (rank 3)."]),
        ([rank_row(min=0.995, max=1.005, median=1.0)], []),  # they agree within 1 %
        ([rank_row(min=0.99, max=1.005, median=1.0)], ["Over 8 ranks: step 990 ms (rank 0) to 1.005 s (rank 3)."]),
        ([rank_row("other_s")], []),
        ([rank_row(lowest=None, highest=None)], ["8 ranks (unlabelled) print each step: step 1 s to 2 s."]),
        ([rank_row(lowest=None, highest=None, max=1.0)], ["8 ranks (unlabelled) print each step."]),
        ([rank_row(lowest="a", highest="b")], ["Over 8 processes without a known rank: step 1 s (a) to 2 s (b)."]),
        (
            [rank_row(), rank_row("samples_per_s", unit="1/s", min=4.0, max=5.0, ranks=9)],
            ["Over 9 ranks: step 1 s (rank 0) to 2 s (rank 3), samples/s 4 (rank 0) to 5 (rank 3)."],
        ),
    ],
)
def test_how_far_ranks_lie_apart(monkeypatch: pytest.MonkeyPatch, rows: list[RankRow], texts: list[str]) -> None:
    assert spread(monkeypatch, *rows) == texts


def test_steps_of_which_another_rank_is_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step of the run is longer than the median of each rank."""
    longer = RunFigure("step", "s", "lower", {"r": 2.5})
    fast = RunFigure("samples/s", "1/s", "higher", {"r": 9.0})
    rate = rank_row("samples_per_s", unit="1/s", min=4.0, max=5.0)
    assert "the slowest" not in spread(monkeypatch, rank_row(), rate, figures=(STEP, fast))[0]
    (text,) = spread(monkeypatch, rank_row(), figures=(longer,))
    assert text == "Over 8 ranks: step 1 s (rank 0) to 2 s (rank 3); the slowest rank is another one from step to step."


@pytest.mark.parametrize(
    ("phase", "times", "texts"),
    [
        ("data", [0.02, 0.021, 0.3512, 0.36], ["Ranks 2, 3 take longer: data 356 ms, the others 20.5 ms."]),
        (
            "data",
            [0.02, 0.021, 0.35, 0.36, 0.02, 0.021],
            ["Ranks 2, 3 take longer: data 355 ms, the others 20.5 ms."],
        ),
        ("allreduce", [0.02, 0.021, 0.35, 0.36], []),  # they wait for the others
        ("data", [0.02, 0.35, 0.021, 0.36], []),  # no block
        ("data", [0.02, 0.35, 0.36, 0.37], []),  # one is faster
        ("data", [0.02, 0.05, 0.1, 0.2], []),  # each differs
        ("data", [0.0020, 0.0021, 0.0035, 0.0036], []),  # too short to matter
        ("data", [0.012, 0.012, 0.02, 0.021], []),
        ("data", [0.0, 0.021, 0.35, 0.36], []),
    ],
)
def test_a_block_of_ranks_that_takes_longer(phase: str, times: list[float], texts: list[str]) -> None:
    rows = [
        {"table": table, "step": step, "rank": rank, "phase": phase, "time_s": time, "step_time_s": 1.0, "line": 1}
        for table in ("steps", "phases") for step in range(1, 11) for rank, time in enumerate(times)
    ]  # fmt: skip
    assert list(module.blocks_apart(Tables(by_hand("steps", rows)), "r")) == texts


TIMES = "on the fastest rank, {} on the slowest ({} times, medians of 10 reports)"
FORWARD = f"Ranks are unequal: forward 600 ms {TIMES.format('920 ms', 1.53)}"
GRADS = f"Some ranks wait for others: all_reduce 20 ms {TIMES.format('400 ms', 20)}"


@pytest.mark.parametrize(
    ("phases", "text"),
    [
        ({"forward": (0.6, 0.92), "optimizer": (0.06, 0.061)}, FORWARD),
        ({"forward": (0.6, 0.61), "all_reduce": (0.02, 0.4)}, GRADS),
        ({"forward": (0.6, 0.92), "all_reduce": (0.02, 0.4)}, FORWARD),
        ({"forward": (0.6, 0.65)}, None),
        ({"loading": (0.001, 0.011)}, None),  # too short to matter
        ({"forward": (None, 0.92)}, None),
    ],
)
def test_phases_of_the_fastest_and_the_slowest_rank(phases: dict[str, Any], text: str | None) -> None:
    rows: list[dict[str, Any]] = [
        {"table": "phases", "step": step, "phase": phase, "min_s": least, "time_s": most, "line": step}
        for step in range(1, 11) for phase, (least, most) in phases.items()
    ]  # fmt: skip
    rows += [{"table": "steps", "step": step, "step_time_s": 2.0, "line": step} for step in range(1, 11)]
    found = list(module.ranges_apart(Tables(by_hand("steps", rows)), "r"))
    assert found == ([f"{text}. The log does not say which ranks these are."] if text else [])
    once = [row for row in rows if row["step"] == 1]
    found = list(module.ranges_apart(Tables(by_hand("steps", once)), "r"))
    assert [each.count("times, in 1 report)") for each in found] == [1] * bool(text)
