"""What stragglers cost a job, and who is at fault, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from perflog.analysis.overview.facts import what_if as module
from perflog.metrics import Options
from perflog.metrics.what_if.step_replay import OPERATIONS

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

TABLES: Any = None  # the table of the metric is replaced
EMPTY: MetricRow = dict.fromkeys(
    ("slowdown", "mended", "longer", "dp_rank", "stage", "rank", "kind", "ideal_s", "replayed_s", "assumes")
) | {"rests_on": OPERATIONS}  # fmt: skip


def made(*rows: MetricRow) -> pd.DataFrame:
    """A table of these rows of run `r`, and of a row of another run, with the types of the metric."""
    table = pd.DataFrame([*({"run": "r"} | row for row in rows), {"run": "other"} | job(9.0)])
    return table.astype(dict.fromkeys(("dp_rank", "stage", "rank"), "Int64"))


def row(of: str, **fields: Any) -> MetricRow:
    return EMPTY | {"of": of} | fields


def job(slowdown: float | None, **more: Any) -> MetricRow:
    return row("job", slowdown=slowdown, ideal_s=2.0, replayed_s=2.5) | more


def part(of: str, mended: float, slowdown: float = 1.2, longer: float = 1.5, **place: Any) -> MetricRow:
    return row(of, mended=mended, slowdown=slowdown, longer=longer, **place)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    def sentences(*rows: MetricRow) -> list[str]:
        monkeypatch.setattr(module, "whatif", SimpleNamespace(table=lambda *_: made(*rows)))
        return list(module.slowdown_of_job(TABLES, "r", Options()))

    return sentences


REPLICAS = [part("dp_rank", 0.1, longer=1.0, dp_rank=n) for n in (0, 1)]
COST = (
    "The job is 1.25x slower than without stragglers: a replay of its operations takes 2.5 s a step with them and 2 s "
    "without."
)


def test_the_cost_of_stragglers(said: Any) -> None:
    assert said() == said(job(1.25, rests_on="collectives")) == []
    assert said(job(None, assumes="nothing")) == ["What stragglers cost cannot be replayed: nothing."]
    little = "Stragglers cost little: by replay the job is {}x slower than without them."
    assert said(job(1.0)) == [little.format("1.00")]
    assert said(job(1.0299)) == [little.format("1.03")]
    assert said(job(1.03))[0].startswith("The job is 1.03x slower")
    assert said(job(1.25)) == [COST]  # one worker: nobody else can be at fault
    nobody = "No single worker, replica or stage is at fault: times of operations vary on all of them."
    assert said(job(1.25), *REPLICAS) == [COST, nobody]
    assert said(job(1.25), *(part("stage", 0.1, stage=n) for n in (0, 1))) == [COST, nobody]


def test_the_kinds_of_operations(said: Any) -> None:
    """The first three that cost something alone."""
    costs = {"forward": 1.3, "backward": 1.03, "send": 1.0299, "recv": 1.2, "sync": 1.1}
    kinds = [row("kind", kind=name, slowdown=cost, mended=0.1) for name, cost in costs.items()]
    assert said(job(1.25), *kinds) == [
        COST, "By kind of operation, each alone: forward 1.30x, backward 1.03x, recv 1.20x."
    ]  # fmt: skip
    assert said(job(1.25), row("kind", kind="forward", slowdown=1.3)) == [COST]  # it is not known what it mends


WORKERS = [row("worker", longer=1.5, dp_rank=1, stage=0, rank=4)] + [row("worker", longer=1.0)] * 99


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            [*REPLICAS, *WORKERS, part("slowest workers", 0.96)],
            (
                "Rank 4 (dp rank 1 stage 0) is at fault: its times alone make the job 1.20x slower; if it took "
                "the typical times of the others, the slowdown would be gone."
            ),
        ),
        (
            [*REPLICAS, WORKERS[0], row("worker", longer=1.03, dp_rank=2), row("worker", longer=1.0299, dp_rank=3),
             *WORKERS[1:], part("slowest workers", 0.5)],
            (
                "Rank 4 (dp rank 1 stage 0); dp rank 2 are at fault: their times alone make the job 1.20x slower; if "
                "they took the typical times of the others, 50 % of the slowdown would be gone."
            ),
        ),
        (
            [part("dp_rank", 0.6, dp_rank=0), part("dp_rank", 0.8, dp_rank=3), part("stage", 0.9, stage=0)],
            (
                "Dp rank 3 is at fault: its times alone make the job 1.20x slower; if it took the typical times of the "
                "others, 80 % of the slowdown would be gone."
            ),
        ),
        (
            [part("stage", 0.95, stage=0), part("stage", 0.1, stage=1), part("dp_rank", 0.99, dp_rank=0)],
            (
                "Stage 0 is at fault: its times alone make the job 1.20x slower; if it took the typical times of the "
                "others, the slowdown would be gone."
            ),
        ),
        ([*REPLICAS, part("dp_rank", 0.49, dp_rank=2)], None),
        ([*REPLICAS, part("dp_rank", 0.9, longer=1.0299, dp_rank=2)], None),
        ([*REPLICAS, WORKERS[1], part("slowest workers", 0.96)], None),  # it is as the others
        ([WORKERS[0], part("slowest workers", 0.96)], None),  # the only one
    ],
)  # fmt: skip
def test_who_is_at_fault(said: Any, rows: list[MetricRow], fault: str | None) -> None:
    found = [text for text in said(job(1.25), *rows) if "at fault" in text and not text.startswith("No single")]
    assert found == ([] if fault is None else [fault])


def test_of_many_workers_four_are_named() -> None:
    worst = [row("worker", longer=1.5, rank=n, stage=n) for n in range(6)]
    usual = [row("worker", longer=1.0)] * 190
    rows = made(job(1.25), *REPLICAS, *worst, *usual, part("slowest workers", 0.96))
    fault = module.at_fault(rows)
    assert fault is not None and len(fault.members) == 6
    assert module._names(fault.members) == (
        "Rank 0 (stage 0); rank 1 (stage 1); rank 2 (stage 2); rank 3 (stage 3) and 2 more"
    )
    assert module.at_fault(rows.assign(slowdown=1.03)) is not None
    for slowdown in (None, 1.0299):
        assert module.at_fault(rows.assign(slowdown=[slowdown, *rows["slowdown"][1:]])) is None
