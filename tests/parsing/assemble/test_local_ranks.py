"""Local ranks: labels of torchrun name the process on its node, which is the rank of a job on one node only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reading import read

import perflog

LOSS = b"%siteration %8d/     100 | elapsed time per iteration (ms): 500.0 | lm loss: 2.5E+00 |\n"


WORLD = b"using world size: %d, data-parallel size: 1, tensor-model-parallel size: 8, pipeline-model-parallel size: 2\n"


def ranks(data: bytes, **options: Any) -> set[tuple[int | None, str | None]]:
    return {(row["rank"], row["rank_by"]) for row in read(data, **options).rows("steps")}


def labelled_steps(*labels: bytes) -> bytes:
    return b"".join(LOSS % (label, step) for step in (1, 2) for label in labels)


@pytest.mark.parametrize("chunk", [150, 1 << 20])
@pytest.mark.parametrize(
    ("world", "labels", "told"),
    [
        (8, [b"[default7]:"], {(7, "label")}),  # one node
        (8, [b"[default%d]:" % k for k in range(8)], {(k, "label") for k in range(8)}),
        (16, [b"[default7]:"], {(None, "local")}),  # the last rank of 16 is on the second node
        (384, [b"[default0]:", b"[default7]:"], {(None, "local")}),
        (8, [b"[default%d]:" % k for k in range(4)], {(None, "local")}),  # two nodes of four
        (16, [b"[rank15]:"], {(15, "label")}),  # PyTorch's own label is the rank
        (16, [b"1: [default7]:", b"0: [default7]:"], {(15, "label"), (7, "label")}),  # srun names the node
        (16, [b"1: [default0]:", b"0: [default3]:"], {(None, "local")}),  # nodes of how many processes?
        (16, [b"[default7]:[rank15]:"], {(15, "label")}),
        (16, [b"1: [rank7]:", b"0: [rank7]:"], {(15, "label"), (7, "label")}),  # torchrun --role rank on two nodes
        (16, [b"1: [rank0]:", b"0: [rank0]:"], {(None, "local")}),
        (16, [b"0: [rank3]:", b"1: [rank11]:"], {(3, "label"), (11, "label")}),  # each its own: PyTorch's rank
        (2, [b"0: [rank0]:", b"1: [rank1]:"], {(0, "label"), (1, "label")}),
    ],
)
def test_torchrun_labels_tell_the_local_rank(world: int, labels: list[bytes], told: set[Any], chunk: int) -> None:
    assert ranks(WORLD % world + labelled_steps(*labels), chunk=chunk) == told


def test_two_nodes_with_one_label_are_never_one_rank() -> None:
    """Nothing prints the world size, but two numbers in front tell two nodes."""
    assert ranks(labelled_steps(b"0: [default7]:", b"1: [default7]:")) == {(None, "local")}
    assert ranks(labelled_steps(b"[default7]:")) == {(7, "label")}


@pytest.mark.parametrize("late", [0, 300])
def test_one_local_label_behind_several_nodes_is_no_rank(late: int, tmp_path: Path) -> None:
    """`late`: steps of the first node alone, before the others prove that there are several."""
    line = (
        "{0}: [rank0]:2026-01-01 10:{2:02d}:00,000 - root - INFO - step: {1:2d}  loss:  1.5100  "
        "memory: 26.47GiB(33.47%)  tps: {3:,d}  mfu: {4:.2f}%\n"
    )
    rates = {0: 1710, 1: 1720, 2: 1430}
    alone = [line.format(0, step, step % 60, 1710, 10.46) for step in range(1, late + 1)]
    steps = range(late + 1, late + 21)
    together = [
        line.format(n, step, step % 60, tps + step % 7, tps / 163.5) for step in steps for n, tps in rates.items()
    ]
    (tmp_path / "run.log").write_text("".join(alone + together))
    log = perflog.read(tmp_path / "run.log")
    table = log.table("steps")
    assert table["rank"].isna().all()
    assert set(table["rank_by"]) == {"local"}
    assert (table["copy"] == 1).all()
    assert dict(table["source"].value_counts()) == {f"node {n}, local rank 0": 20 + late * (n == 0) for n in rates}
    assert set(perflog.lint(log)["code"]) - {"derived-times", "drift", "outliers", "no-rank"} <= {
        "rank-stands-out",
        "ranks-incomplete",
    }
    shown = " ".join(perflog.overview(log).reasons)
    assert "node 2, local rank 0" in shown.lower()


def test_of_two_world_sizes_none_is_taken() -> None:
    data = labelled_steps(b"")
    assert [row["world_size"] for row in read(WORLD % 16 + data).rows("runs")] == [16]
    assert [row["world_size"] for row in read(WORLD % 16 + WORLD % 8 + data).rows("runs")] == [None]


def test_a_printed_rank_shows_that_the_label_is_local() -> None:
    memory = b"[default7]:[Rank 15] (after 10 iterations) memory (MB) | allocated: 7504.0 | max allocated: 10967.0\n"
    data = labelled_steps(b"[default7]:") + memory
    assert ranks(data) == {(None, "local")}
    assert {(row["rank"], row["rank_by"]) for row in read(data).rows("values") if row["key"] == "allocated"} == {
        (15, "printed")
    }
