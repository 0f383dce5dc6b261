"""What only the runs of a folder together show, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from perflog.analysis.overview.facts import folder_answers as module
from perflog.metrics import Options
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.tables.columns import rows_from_frame

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

EXPERTS: MetricRow = {
    "label": "j", "unit": None, "runs": 2, "of": "step", "step": 1, "imbalance": 0.5, "layer": None, "since": None,
    "hot": 0, "hottest": None,
}  # fmt: skip
PAIR: MetricRow = {
    "of": "node", "node": "n", "other": None, "slow": False, "ratio": 0.9, "pairs": 1200, "op": "all_reduce",
    "ranks": 16, "size": 1024.0, "busbw": 12.5,
}  # fmt: skip
TIME: MetricRow = {"of": "folder", "score_s": 90.0, "status": "success", "label": "a"}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the rows of a metric; all others have none of a folder."""

    def replaced(metric: str, usual: MetricRow, *rows: MetricRow) -> None:
        made = pd.DataFrame([usual | row for row in rows], columns=list(usual))
        monkeypatch.setattr(module, metric, SimpleNamespace(table=lambda *_: made))

    replaced("hot_experts", EXPERTS)
    replaced("node_pairs", PAIR)
    for name in ("expert_jobs", "jobs_of_dumps", "placements"):
        monkeypatch.setattr(module, name, lambda *_: [])
    for name in ("scaling_facts", "studies", "changed_since"):
        monkeypatch.setattr(module, name, lambda *_: [])
    return replaced


def tables_of(*runs: tuple[str, str, str]) -> Any:
    frame = pd.DataFrame(runs, columns=["run", "log", "format"])
    return SimpleNamespace(rows=lambda name: rows_from_frame(frame, name), only=lambda runs: runs)


def said(*groups: Any, runs: tuple[tuple[str, str, str], ...] = ()) -> list[str]:
    return list(module.folder_answers(tables_of(*runs), groups, Options()))


def group(mark: str, *runs: str) -> Any:
    return SimpleNamespace(mark=mark, runs=runs)


def test_the_load_of_experts(table: Any) -> None:
    """First, largest and last step in order; of one run alone nothing is said."""
    steps: list[MetricRow] = [
        {"step": 1000},
        {"step": 3000, "imbalance": 2.0},
        {"step": 4000, "imbalance": 0.25, "hot": 3},
    ]
    layer: MetricRow = {"of": "layer", "step": 4000}
    table("hot_experts", EXPERTS, *steps, layer)
    largest = "1.50 (step 1,000), 3.00 (step 3,000), 1.25 (step 4,000)."
    assert said() == [f"Largest load of an expert / mean: {largest}"]
    hot = {"imbalance": 3.0, "since": 2000, "hottest": 7, "layer": "5"}
    other = {"runs": 1, "label": "alone", "step": 9}
    table("hot_experts", EXPERTS, *steps, layer | hot | {"imbalance": 1.0, "layer": "4"}, layer | hot, other)
    assert said() == [
        f"Largest load of an expert / mean, median of 2 layers: {largest}",
        (
            "3 experts have over twice the mean load; expert 7 of layer 5 has 4.00 times the mean, and has been hot "
            "since step 2,000."
        ),
    ]
    table("hot_experts", EXPERTS, *steps, layer | hot | {"layer": None})
    assert "; expert 7 has 4.00" in said()[1]
    table("hot_experts", EXPERTS, *(row | {"label": job} for job in "zy" for row in ({"step": ord(job)}, layer)))
    assert [text[-6:] for text in said()] == [" 122).", " 121)."]  # the jobs are in the order of their rows


def test_moving_experts(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"of": "step", "step": 1000, "ranks": 8, "gain": None, "copies": None}
    rows = [
        row | {"slowest": 9.0, "step": 1}, row | {"of": "layer", "slowest": 9.0}, row | {"slowest": 1.5},
        row | {"slowest": 1.4, "gain": 1.1}, row | {"slowest": 1.3, "copies": 8}, row | {"slowest": 1.2, "copies": 16},
    ]  # fmt: skip
    jobs = [SimpleNamespace(names={"runs": number}) for number in (1, 2)]
    monkeypatch.setattr(module, "expert_jobs", lambda _: jobs)
    monkeypatch.setattr(module, "placements", lambda *_: rows)
    text = (
        "Busiest of 8 ranks / mean at step 1,000: 1.50 if each rank has a block of experts, 1.40 if experts are "
        "moved{}, 1.30 with 8 redundant experts, 1.20 with 16 redundant experts."
    )
    assert said() == [text.format("")]
    rows[3]["gain"] = 1.09
    assert said() == [text.format(" (helps little)")]
    monkeypatch.setattr(module, "placements", lambda *_: [])
    assert said() == []


RATE = "12.5 GB/s in all_reduce, 16 ranks, 1 KiB, {} of the median"


def test_slow_nodes_and_pairs(table: Any) -> None:
    """A slow node explains its pairs. Of several measurements the slowest is named."""
    node: MetricRow = {"slow": True}
    pair: MetricRow = {"of": "pair", "slow": True, "other": "m"}
    table(
        "node_pairs", PAIR, node | {"ratio": 0.4}, node | {"ratio": 0.3}, {"node": "ok"}, pair,
        pair | {"node": "a", "other": "n"},
        pair | {"node": "b", "ratio": 0.5}, pair | {"node": "b", "ratio": 0.6}, pair | {"node": "c", "slow": False},
    )  # fmt: skip
    assert said() == [
        f"Slow node n: {RATE.format('30 %')} of all nodes, over 1200 pairs.",
        f"Slow pair b - m: {RATE.format('50 %')} of all pairs.",
    ]
    names = "abcde"
    table(
        "node_pairs", PAIR, *(node | {"node": name} for name in names),
        *(pair | {"node": name, "ratio": 0.5 + at / 10} for at, name in enumerate("vwxyz")),
    )  # fmt: skip
    assert [text.split(":")[0] for text in said()] == [
        *(f"Slow node {name}" for name in "abc"), *(f"Slow pair {name} - m" for name in "vwx")
    ]  # fmt: skip


def test_slow_nodes_without_slow_pairs_and_the_other_way_round(table: Any) -> None:
    for slow, pair, found in ((True, False, "Slow node n"), (False, True, "Slow pair n - m")):
        table("node_pairs", PAIR, {"slow": slow}, {"of": "pair", "other": "m", "slow": pair})
        assert [text.split(":")[0] for text in said()] == [found]


def test_no_slow_node(table: Any) -> None:
    rows: list[MetricRow] = [{"node": "a"}, {"node": "b", "ratio": 0.8, "op": None}, {"node": "a", "ratio": 0.85}]
    table("node_pairs", PAIR, *rows)
    rate = RATE.replace("in all_reduce,", "with").format("80 %")
    assert said() == [f"No node of 2 is slow; lowest: b, {rate} of all nodes."]
    table("node_pairs", PAIR, *(row | {"slow": None} for row in rows))
    assert said() == []


def test_the_dumps_of_several_jobs(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "stuck", lambda _, run, __: iter([f"{run} is stuck.", "more"]))
    runs = tuple((f"r{n}", f"{n}.json", "f") for n in range(5))
    for number, texts in ((1, []), (2, ["A: r0 is stuck.", "1.json: r1 is stuck."])):
        monkeypatch.setattr(module, "jobs_of_dumps", lambda _, number=number: {f"r{n}": [] for n in range(number)})
        assert said(group("A", "r0"), group("B", "r1", "r2"), runs=runs) == texts
    monkeypatch.setattr(module, "jobs_of_dumps", lambda _: {f"r{n}": [] for n in range(5)})
    assert len(said(runs=runs)) == 3


def test_what_stragglers_cost_the_jobs_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sentences on each of the first three jobs with known operations that is a row of its own."""
    monkeypatch.setattr(module, "slowdown_of_job", lambda tables, run, _: iter([f"{tables} {run}.", "Two.", "Three."]))
    tables = tables_of(*((f"r{n}", "l", "f" if n == 1 else OPERATIONS) for n in range(7)))
    groups = [group("A", "r0"), group("B", "r1"), group("C", "r2", "r3"), *(group(f"M{n}", f"r{n}") for n in (4, 5, 6))]
    assert list(module.slowdowns(tables, groups, Options())) == [
        f"{mark}: ['{run}'] {run}. Two." for mark, run in (("A", "r0"), ("M4", "r4"), ("M5", "r5"))
    ]
    assert list(module.slowdowns(tables, groups[:1], Options())) == []
    assert len(list(module.slowdowns(tables, groups[:2], Options()))) == 1


def test_the_metric_of_a_folder(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finding comes before the ones that are set before it here."""
    tables = tables_of()
    found = [module.folder_metric(tables, Options())]
    monkeypatch.setattr(module, "changed_since", lambda *_: [1])
    found.append(module.folder_metric(tables, Options()))
    monkeypatch.setattr(module, "studies", lambda *_: [1])
    found.append(module.folder_metric(tables, Options()))
    table("node_pairs", PAIR, {})
    found.append(module.folder_metric(tables, Options()))
    monkeypatch.setattr(module, "jobs_of_dumps", lambda _: [1])
    table("hot_experts", EXPERTS, {"runs": 1})
    assert module.folder_metric(tables, Options()) == "node_pairs"
    monkeypatch.setattr(module, "jobs_of_dumps", lambda _: [1, 2])
    found.append(module.folder_metric(tables, Options()))
    table("hot_experts", EXPERTS, {"runs": 1}, {})
    found.append(module.folder_metric(tables, Options()))
    assert found == [None, "history", "scaling", "node_pairs", "stuck_ranks", "hot_experts"]


def test_scores(table: Any) -> None:
    """Of folders with runs that print how they ended."""
    begin = "Score, the mean without the fastest and the slowest run: "

    def scores(*rows: MetricRow) -> list[str]:
        table("time_to_train", TIME, *rows)
        return list(module.scores(tables_of(), Options()))

    assert scores({}, {"of": "run"}, {"score_s": None}, {"status": None}) == [f"{begin}a 1.500 min (success)."]
    four = ", ".join(f"{name} 1.500 min (success)" for name in "abc")
    assert scores(*({"label": name} for name in "abcd")) == [f"{begin}{four} and 1 more."]
    assert scores({"of": "run"}) == []
