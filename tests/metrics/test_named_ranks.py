"""Ranks that reports over all ranks name: Megatron-LM's StragglerDetector, NVIDIA's resiliency extension, FlagScale."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest
from support.metrics_logs import by_hand, row, rows

import perflog
from perflog.analysis.diagnosis import diagnose
from perflog.metrics import Tables, causes, named_ranks, ranks
from perflog.metrics.skew.named_ranks import HIGHEST, LOWEST, NamedRank, _extremes, named_rank_rows
from perflog.tables.columns import rows_from_frame

ITERATION = (
    " iteration {step:8d}/    5000 | consumed samples:        25600 | elapsed time per iteration (ms): 1700.1 | "
    "global batch size:   256 | lm loss: 7.104200E+00 | number of skipped iterations:   0 |"
)
REPORT = (
    " 0: INFO:megatron.core.utils:[2024-03-14 23:07:{second:02d}] | MnRtt/Rnk: 1400.00ms/{fast} | "
    "MxRtt/Rnk: 1575.00ms/{slow} | MnPwr/Rnk: 601796.00W/8 | MxPwr/Rnk: 683801.00W/18 | MnTmp/Rnk: 52.00C/0 | "
    "MxTmp/Rnk: 65.00C/21 | MnUtl/Rnk: 97.00%/8 | MxUtl/Rnk: 100.00%/6 | MnClk/Rnk: {clock:.2f}MHz/{cold} | "
    "MxClk/Rnk: 1980.00MHz/0 | MnDRtt/Rnk: 14.27ms/{fast} | MxDRtt/Rnk: 14.65ms/3 | MnEtpt/Rnk: 296.02TF/{slow} | "
    "MxEtpt/Rnk: 327.32TF/8"
)


def _log(folder: Path, slow: list[int], cold: int = 28, clock: float = 1950.0) -> perflog.Log:
    lines = []
    for k, rank in enumerate(slow):
        lines.append(ITERATION.format(step=100 * (k + 1)))
        lines.append(REPORT.format(second=k, slow=rank, fast=k % 32, cold=cold, clock=clock))
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return perflog.read(path)


def test_each_figure_of_a_report_has_its_rank_and_power_is_in_milliwatts(tmp_path: Path) -> None:
    log = _log(tmp_path, [17])
    values = log.table("values").set_index("key")
    assert values.loc["rank_with_highest_round_trip_time", ["rank", "value", "unit"]].tolist() == [17, 1.575, "s"]
    assert values.loc["rank_with_lowest_power", ["rank", "value", "unit"]].tolist() == [8, 601.796, "W"]
    assert values.loc["rank_with_lowest_clock", ["rank", "value", "unit"]].tolist() == [28, 1.95e9, "Hz"]
    assert values.loc["rank_with_highest_estimated_throughput", "value"] == 327.32
    assert "unread" not in set(log.table("lines")["status"])


def test_a_rank_that_most_reports_name_is_the_slowest(tmp_path: Path) -> None:
    log = _log(tmp_path, [17] * 4 + [9] + [17] * 7, cold=17, clock=1095.0)
    slowest = row(named_ranks(log), figure="round_trip_time", end="highest")
    assert (slowest["rank"], slowest["times"], slowest["reports"], slowest["worse"]) == (17, 11, 12, True)
    assert slowest["ratio"] == pytest.approx(1.125)
    assert slowest["ranks"] == 22  # no world size is printed: up to the largest that is named
    tail = sum(comb(12, k) * 21 ** (12 - k) / 22**12 for k in (11, 12))
    assert slowest["p"] == pytest.approx(22 * tail)
    assert perflog.overview(log).reasons[0] == (
        "Slowest rank 17, in 11 of 12 reports: round trip time 1.57 s, the highest over the lowest 1.12; its clock is "
        "the lowest too, 1.09 GHz."
    )
    found = rows(causes(log))
    assert [(each["rank"], each["n"]) for each in found if each["name"] == "round_trip_time"] == [(17, 11)]
    assert not any(each["name"] == "batch_latency" for each in found)  # the highest is 1.03 of the lowest
    diagnosis = diagnose(log)
    assert [(culprit.rank, culprit.kind) for culprit in diagnosis.culprits] == [(17, "throttling")]


def test_a_slowest_rank_that_changes_accuses_nobody(tmp_path: Path) -> None:
    log = _log(tmp_path, [3, 17, 9, 21, 5, 17, 30, 2])
    assert not diagnose(log).culprits
    assert not any(each["name"] == "round_trip_time" for each in rows(causes(log)))
    assert (
        perflog.overview(log)
        .reasons[0]
        .startswith("No rank stays the slowest by round trip time: rank 17 is, in 2 of 8")
    )


def test_extremes_are_no_series_of_their_ranks(tmp_path: Path) -> None:
    """The rank that is named highest is compared with no rank that is named lowest."""
    assert not len(ranks(_log(tmp_path, [17] * 12)))


def test_ranks_that_a_program_calls_stragglers(tmp_path: Path) -> None:
    warning = "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: "
    identifiers = "{{StragglerId(rank=76, node='h100-001'), StragglerId(rank={}, node='h100-002')}}"
    lines = [warning + identifiers.format(rank) for rank in (13, 14, 15, 16, 18)] + [warning + "[76]"]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    log = perflog.read(path)
    first, *others = rows(named_ranks(log))
    assert (first["rank"], first["times"], first["reports"]) == (76, 6, 6)
    assert {each["times"] for each in others} == {1}
    assert [culprit.rank for culprit in diagnose(log).culprits] == [76]


def test_sections_of_flagscale_are_phases_by_rank(tmp_path: Path) -> None:
    lines = [ITERATION.format(step=10), "=== Straggler Report at Step 10 ===", "", "Section Timings (ms):", ""]
    lines += ["  forward_backward:", "    Min: 281.94ms, Max: 343.19ms, Avg: 312.57ms, Slowdown: 1.22x"]
    lines += ["    Rank 0 (a800-128): 343.19ms", "    Rank 1 (a800-128): 281.94ms", ""]
    lines += ["GPU Performance Scores (higher=faster):", "  Rank 0 (a800-128): 2.9138", "  Rank 1 (a800-128): 2.9282"]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    log = perflog.read(path)
    phases = log.table("phases")
    assert phases[["step", "rank", "phase", "time_s"]].values.tolist() == [
        [10, 0, "forward_backward", 0.34319], [10, 1, "forward_backward", 0.28194]
    ]  # fmt: skip
    scores = log.table("values").query("key == 'gpu_performance_score'")
    assert scores[["rank", "value"]].values.tolist() == [[0, 2.9138], [1, 2.9282]]


def test_the_ratio_of_highest_and_lowest() -> None:
    """The median over the reports with both; a lowest value of 0 has no ratio."""
    pairs = [(0.9, 0.3), (0.8, 0.4), (0.6, 0.1), (0.5, 0.0), (0.7, None)]
    values = [
        {"line": line, "rank": rank, "key": end + "forward", "value": value, "unit": "s"}
        for line, pair in enumerate(pairs, 1)
        for rank, end, value in zip((3, 5), (HIGHEST, LOWEST), pair, strict=True)
    ]
    frame = by_hand("values", values)["values"]
    highest, lowest = _extremes(rows_from_frame(frame, "values"), "r", "forward", 8)
    assert (highest.end, highest.rank, highest.times, highest.reports) == ("highest", 3, 5, 5)
    assert (lowest.end, lowest.rank, lowest.times, lowest.reports) == ("lowest", 5, 4, 4)
    assert highest.ratio == lowest.ratio == pytest.approx(3.0)  # 3, 2 and 6
    assert (highest.value, lowest.value) == pytest.approx((0.7, 0.2)) and highest.worse and not lowest.worse
    assert (highest.first_line, highest.last_line) == (1, 5)


@pytest.mark.parametrize(
    ("times", "reports", "p", "often"),
    [
        (2, 2, 0.9, True),
        (1, 2, 0.0, False),
        (2, 4, 0.05, True),
        (2, 4, 0.051, False),
        (1, 3, 0.0, False),
        (9, 9, 0.05, True),
    ],
)
def test_a_rank_that_half_of_the_reports_name(times: int, reports: int, p: float, often: bool) -> None:
    """More than by chance, p <= 5 %; of one or two reports both."""
    found = NamedRank("r", "time", "s", HIGHEST, True, 3, times, reports, p, 1.0, 1.5, 8, 1, 9)
    assert found.is_named_often == often


def test_a_report_of_one_end_has_no_ratio() -> None:
    """Rank 0 alone is named: of one rank, as far as is known."""
    values = [{"key": f"{HIGHEST}time", "value": 2.0 + k, "rank": 0, "unit": "s"} for k in range(2)]
    rows = Tables(by_hand("values", values)).rows("values")
    (found,) = _extremes(rows, "r", "time", 1)
    assert (found.end, found.rank, found.times, found.value) == ("highest", 0, 2, 2.5) and found.ratio != found.ratio
    assert [each.ranks for each in named_rank_rows(Tables(by_hand("values", values)))] == [1]
