"""Figures by rank: their spread, and the rank that stands out, in logs of any format."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand
from support.metrics_logs import rows as metric_rows
from support.paths import ROOT

import perflog
from perflog.log import Log
from perflog.metrics import Tables, ranks
from perflog.metrics.skew import ranks as module
from perflog.metrics.step_series import step_series
from perflog.statistics.standing_out import standing_out


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Log]:
    def of_text(text: str) -> Log:
        (tmp_path / "run.log").write_text(text)
        return perflog.read(tmp_path / "run.log")

    return of_text


def titan(rank: int, step: int, tps: float, memory: float = 30.0) -> str:
    return (
        f"[rank{rank}]:[titan] 2026-01-01 10:00:{step % 60:02d},000 - root - INFO - step: {step:2d}  loss: 9.5000  "
        f"grad_norm: 2.0000  memory: {memory:.2f}GiB(40.00%)  tps: {tps:,.0f}  tflops: {tps / 200:.2f}  mfu: 10.00%"
    )


def job(slow: int | None, members: int = 8, steps: int = 25) -> str:
    generator = np.random.default_rng(1)
    return "\n".join(
        titan(rank, step, 10_000 * np.exp(generator.normal(0, 0.02)) * (0.8 if rank == slow else 1.0))
        for step in range(1, steps + 1)
        for rank in generator.permutation(members).tolist()
    )


def test_the_slow_rank_is_named_with_its_figures(read: Callable[[str], Log]) -> None:
    table = ranks(read(job(slow=5)))
    out = table[table["rank"].notna()]
    assert set(out["figure"]) == {"tokens_per_s", "tflops"}
    assert set(out["rank"]) == {"5"}
    assert set(out["ranks"]) == {8}
    assert set(out["lowest"]) == {"5"}
    assert (out["ratio"] - 0.8).abs().max() < 0.02
    assert (out["rows"] == 25).all()


def test_equal_ranks_have_a_spread_and_none_stands_out(read: Callable[[str], Log]) -> None:
    table = ranks(read(job(slow=None)))
    assert table["rank"].isna().all()
    row = table[table["figure"] == "tokens_per_s"].iloc[0]
    assert 9_800 < row["min"] < row["median"] < row["max"] < 10_200


def test_of_two_ranks_the_slower_one_is_named(read: Callable[[str], Log]) -> None:
    table = ranks(read(job(slow=1, members=2)))
    out = table[table["figure"] == "tokens_per_s"]
    assert list(out["rank"]) == ["1"]
    assert abs(out["ratio"].item() - 0.8) < 0.02


@pytest.mark.parametrize(("unit", "worse"), [("s", 1), ("B", 1), ("1/s", 0), ("TFLOP/s", 0)])
def test_of_two_ranks_the_one_is_named_that_is_worse_by_its_unit(unit: str, worse: int) -> None:
    """Rank 1 has twice the value of rank 0."""
    values = np.exp(np.random.default_rng(1).normal(0, 0.01, (2, 40))) * [[1.0], [2.0]]
    (found,) = module._standing_out(module.RankFigure("r", "steps", "x", unit, ("0", "1"), values), 1)
    assert found.member == worse


def test_figures_that_one_rank_prints_are_not_in_the_table(read: Callable[[str], Log]) -> None:
    assert not len(ranks(read(job(slow=None, members=1))))


def test_the_screen_and_the_linter_name_the_rank() -> None:
    log = perflog.read(ROOT / "tests/data/deepep_low_latency.txt")
    answer = perflog.overview(log)
    assert answer.reasons[0].startswith(
        "Rank 2 of 8 is an outlier: dispatch_time 444 us, the others 187 us (2.4 times)"
    )
    assert "dispatch_bandwidth 17.62 GB/s (rank 2) to 40.83 GB/s (rank 5)" in answer.reasons[1]
    findings = perflog.lint(log)
    assert list(findings["code"]) == ["rank-stands-out"]
    assert findings["message"].item() == "1 rank of 8 far from the others: rank 2 (dispatch_time, dispatch_bandwidth)"
    assert findings["severity"].item() == "warning"
    lines = (ROOT / "tests/data/deepep_low_latency.txt").read_text().splitlines()
    assert lines[findings["first_line"].item() - 1].startswith("[rank 2] Dispatch bandwidth")


def test_a_figure_of_several_ranks_is_shown_as_their_median() -> None:
    log = perflog.read(ROOT / "tests/data/deepep_low_latency.txt")
    printed = log.table("values").query("key == 'dispatch_combine_bandwidth'")["value"]
    figure = perflog.overview(log).figures[0]
    assert list(figure.values.values()) == [float(np.median(printed))]


def test_a_step_is_as_fast_as_its_slowest_rank(read: Callable[[str], Log]) -> None:
    (series,) = step_series(Tables(read(job(slow=5))), "tokens_per_s")
    assert np.abs(series.values / 8_000 - 1).max() < 0.1


@pytest.mark.parametrize(("table", "steps"), [("collectives", [0, 0]), ("phases", [4, 9])])
def test_collectives_are_of_no_step(table: str, steps: list[int]) -> None:
    rows = Tables(by_hand("steps", [{"step": 4}, {"step": 9}])).rows("steps")
    assert module._steps(rows, table).tolist() == steps


@pytest.mark.parametrize(
    ("ranks", "steps", "matrix"),
    [
        ([0, 1, 0, 1], [1, 1, 2, 2], [[10, 12], [11, 13]]),
        ([0, 1, 2, 0], [1, 1, 1, 2], [[10], [11], [12]]),  # a row of one rank of three
        ([0, 1, 2, 0, 2], [1, 1, 1, 2, 2], [[10, 13], [11, None], [12, 14]]),
        ([0, 0], [1, 2], None),
        ([0, 1], [1, 2], None),
    ],
)
def test_values_by_rank_and_step(ranks: list[int], steps: list[int], matrix: list[list[float | None]] | None) -> None:
    """Rows that half of the ranks print, at least two."""
    count = len(ranks)
    found = module._matrix(np.array(ranks), np.array(steps), np.zeros(count, np.int64), np.arange(10.0, 10 + count))
    assert (found is None) == (matrix is None)
    if found is not None and matrix is not None:
        assert found[0] == tuple(sorted(set(ranks)))
        assert [[None if value != value else value for value in row] for row in found[1].tolist()] == matrix


def test_a_rank_that_stops_early_is_compared_over_the_rows_of_all() -> None:
    """The loss falls, so the median of the first half of a run is higher."""
    losses = np.array([np.arange(40.0, 20, -1), np.where(np.arange(20) < 9, np.arange(40.0, 20, -1), np.nan)])
    assert module._typical(losses).tolist() == [36, 36]
    assert module._typical(losses[:, 1:]).tolist() == [35.5, 35.5]  # eight rows of both are enough
    assert module._typical(losses[:, 2:]).tolist() == [29.5, 35]  # too few rows of both
    losses[1] = losses[0]
    losses[0, ::2] = losses[1, 1::2] = np.nan  # torn lines: both ranks go on to the end
    assert module._typical(losses).tolist() == [31, 30]


def test_a_rank_that_stops_at_once_is_not_apart() -> None:
    losses = np.tile(np.arange(60.0, 0, -1), (2, 1))
    losses = np.vstack([losses, np.where(np.arange(60) < 3, losses[0], np.nan)])
    assert module._comparable(losses).tolist() == [0, 1]
    assert module._comparable(losses[:, :5]).tolist() == [0, 1, 2]  # a short run
    losses[2] = losses[0]
    assert module._comparable(losses).tolist() == [0, 1, 2]


def test_values_of_ranks_by_row() -> None:
    """Rows that fewer than half of the ranks print are left out, and ranks without any other."""

    def matrix(*rows: tuple[int, int, float]) -> list[list[float]] | None:
        ranks, steps, values = (np.array(column) for column in zip(*rows, strict=True))
        found = module._matrix(ranks, steps, np.zeros(len(rows), np.int64), values.astype(np.float64))
        return None if found is None else [[rank, *of] for rank, of in zip(found[0], found[1].tolist(), strict=True)]

    full = [(rank, 1, 10.0 + rank) for rank in range(5)]
    assert matrix(*full, (0, 2, 5.0), (1, 2, 6.0)) == [[rank, 10.0 + rank] for rank in range(5)]
    rows = matrix(*full, (0, 2, 5.0), (1, 2, 6.0), (3, 2, 7.0))
    assert rows is not None and np.array_equal([of[2] for of in rows], [5, 6, np.nan, 7, np.nan], equal_nan=True)
    assert matrix((0, 1, 1.0), (0, 2, 2.0)) is None and matrix((0, 1, 1.0), (1, 2, 2.0)) is None
    assert matrix((0, 1, 1.0), (1, 1, 2.0), (2, 3, 4.0)) == [[0, 1.0], [1, 2.0]]


def test_all_columns_of_the_table() -> None:
    """Of six ranks one takes 2.5 s for each step; a seventh prints too few steps to be the fastest."""
    rows: list[dict[str, Any]] = [
        {"step": step, "rank": rank, "step_time_s": 2.5 if rank == 3 else 1.0 + rank / 100, "memory_bytes": 100 + rank}
        for step in range(1, 25)
        for rank in range(6)
    ]
    rows += [{"step": step, "rank": 6, "step_time_s": 0.99} for step in (1, 2)]
    own = [2.5 if rank == 3 else 1.0 + rank / 100 for rank in range(6)]
    times = np.array([*([time] * 24 for time in own), [0.99] * 2 + [np.nan] * 22])
    (far,) = standing_out(times, 2)
    same = {"run": "r", "label": None, "of": "steps", "rows": 24}
    nothing = dict.fromkeys(("rank", "value", "others", "ratio", "t", "p", "persistence"))
    assert metric_rows(ranks(by_hand("steps", rows))) == [
        same | {
            "figure": "step_time_s", "unit": "s", "ranks": 7, "median": (1.02 + 1.04) / 2, "min": 1.0, "lowest": "0",
            "max": 2.5, "highest": "3", "rank": "3", "value": 2.5, "others": 1.02, "ratio": far.ratio,
            "t": far.t, "p": far.p, "persistence": 1.0,
        },
        same | {
            "figure": "memory_bytes", "unit": "B", "ranks": 6, "median": 102.5, "min": 100.0, "lowest": "0",
            "max": 105.0, "highest": "5",
        } | nothing,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "name"),
    [(("3",), "rank 3"), (("40", "41", "42"), "ranks 40-42"), (("node a", "3"), "node a, rank 3"), (("gn1",), "gn1")],
)
def test_names_of_ranks_and_sources(members: tuple[str, ...], name: str) -> None:
    assert module.OutlierGroup(members, ()).name == name


def test_members_are_ranks_and_sources() -> None:
    """A metric for each key and unit of a run. NaN and moments are no values, nor is what one rank prints."""

    def value(key: str, number: float, **more: Any) -> dict[str, Any]:
        return {"table": "values", "step": 1, "key": key, "value": number, "unit": None, "source": None} | more

    rows = [value("busy", 2.0, rank=10), value("busy", 1.0, source="node b"), value("busy", 3.0, source="node a"),
            value("busy", 9.0, rank=3, unit="s"), value("alone", 1.0, rank=0), value("nan", math.nan, rank=0),
            value("nan", math.nan, rank=1), value("at", 1.7e9, rank=0), value("at", 1.7e9, rank=1)]  # fmt: skip
    [found] = module.rank_figures(Tables(by_hand("values", rows)))
    assert (found.of, found.figure, found.unit) == ("values", "busy", "")
    assert dict(zip(found.ranks, found.values[:, 0].tolist(), strict=True)) == {"10": 2.0, "node b": 1.0, "node a": 3.0}


@pytest.mark.parametrize(("spoiled", "found"), [(1.0, 1), (math.nan, 1), (0.0, 0), (-1.0, 0)])
def test_ranks_stand_out_by_ratios_so_all_known_values_are_above_0(spoiled: float, found: int) -> None:
    values = 1 + np.random.default_rng(1).normal(0, 0.01, (8, 40))
    values[3] *= 2
    values[5, 7] = spoiled
    figure = module.RankFigure("r", "steps", "step_time_s", "s", tuple("01234567"), values)
    assert len(module._standing_out(figure, 1)) == found


def test_ranks_without_labels_have_the_median_of_each_step() -> None:
    """Of an even number of values the lower one of the two in the middle."""
    printed = [(1, time) for time in (1.0, 2.0, 4.0, 9.0)] + [(2, time) for time in (1.0, 5.0, 7.0)] + [(3, 99.0)]
    rows = Tables(by_hand("steps", [{"step": step, "step_time_s": time} for step, time in printed])).rows("steps")
    (found,) = module._unlabelled_rows(rows, "r", 4)
    assert (found.figure, found.ranks, found.rows, found.median, found.min, found.max) == (
        "step_time_s", 4, 2, (2.0 + 5.0) / 2, 1.0, 8.0,
    )  # fmt: skip
