"""Local ranks: labels of torchrun name the process on its node, which is the rank of a job on one node only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.reading import read

import perflog
from perflog.parsing.assemble.attributed_rows import HEADER, PRINTED, RecordRanks
from perflog.parsing.assemble.ranks.local_ranks import ONE_NODE, UNKNOWN, LocalRanks, _Job, source_code, source_names
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.match.rank_labels import NO_RANK, local_label, nested_labels
from perflog.parsing.match.records import Records

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


@pytest.mark.parametrize("chunk", [60, 1 << 20])
@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ((0, 1), {(0, "label"), (1, "label")}),
        ((0, 0), {(None, None)}),  # each process sees one device
    ],
)
def test_the_device_inside_a_line_is_a_local_rank(devices: tuple[int, ...], expected: set[Any], chunk: int) -> None:
    line = "step {} | loss 2.5 | mem_usage:cuda:{} 6.5GB | 1.5 s/step\n"
    data = "".join(line.format(step, device) for step in (1, 2, 3) for device in devices).encode()
    assert ranks(data, chunk=chunk) == expected
    several = data.replace(b"6.5GB", b"6.5GB cuda:1 7.5GB")
    assert ranks(several, chunk=chunk) == {(None, None)}


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


def sources(data: bytes, **options: Any) -> list[Any]:
    """Rank, rule and source of each row, without repeats."""
    found = sorted(read(data, **options).rows("steps"), key=lambda row: row["line"])
    return list(dict.fromkeys((row["rank"], row["rank_by"], row["source"]) for row in found))


POD = b"[pod/%s/main] "


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (labelled_steps(b"0: [default7]:", b"3: [default5]:"), ["node 0, local rank 7", "node 3, local rank 5"]),
        (
            labelled_steps(b"0: [rank0]:", b"1: [rank0]:", b"2: "),
            ["node 0, local rank 0", "node 1, local rank 0", None],
        ),
        (labelled_steps(POD % b"a-0", POD % b"b-1"), ["a-0/main", "b-1/main"]),
        (
            labelled_steps(POD % b"a-0" + b"[default3]:", POD % b"b-1" + b"[default0]:"),
            ["a-0/main, local rank 3", "b-1/main, local rank 0"],
        ),
    ],
)
def test_a_process_without_a_rank_has_a_name(data: bytes, expected: list[str | None], chunk: int) -> None:
    found = sources(data, chunk=chunk)
    assert [source for *_, source in found] == expected
    assert {rank for rank, *_ in found} == {None}


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_label_alone_is_no_rank_where_others_name_nodes(chunk: int) -> None:
    """`2: ` names a node here, or is a local rank, even if the ranks of the others are known."""
    data = WORLD % 16 + labelled_steps(b"0: [rank7]:", b"1: [rank7]:", b"2: ")
    assert sources(data, chunk=chunk) == [(7, "label", None), (15, "label", None), (None, "local", None)]
    one = WORLD % 4 + labelled_steps(b"0: [rank0]:", b"1: [rank1]:", b"2: ")  # two labels of one number: the rank
    assert sources(one, chunk=chunk) == [(0, "label", None), (1, "label", None), (2, "label", None)]


def test_the_name_of_a_process_is_no_rank() -> None:
    assert sources(labelled_steps(b"(Worker pid=7) ")) == [(None, None, None)]


@pytest.mark.parametrize(
    ("world", "labels", "rank"),
    [
        (2, [b"[default0]:", b"[default1]:"], 0),  # all of one node
        (8, [b"[default0]:"], 0),  # one process prints, of the eight of a node
        (9, [b"[default0]:"], None),  # more than a node has
        (8, [b"[default0]:", b"[default1]:"], None),  # two print: the others are on other nodes
    ],
)
def test_the_processes_of_one_node(world: int, labels: list[bytes], rank: int | None) -> None:
    assert sources(WORLD % world + labelled_steps(*labels))[0][0] == rank


def test_each_run_has_its_own_world() -> None:
    data = WORLD % 16 + labelled_steps(b"[default7]:") + WORLD % 8 + labelled_steps(b"[default7]:")
    for chunk in (1, 1 << 20):
        assert [rank for rank, *_ in sources(data, chunk=chunk)] == [None, 7]


def test_a_rank_beyond_the_world_is_of_two_numbers_that_met() -> None:
    """A printed rank counts only below the world size that was printed before it."""
    memory = b"[Rank %d] (after 10 iterations) memory (MB) | allocated: 7504.0 | max allocated: 10967.0\n"
    found = read(memory % 21 + WORLD % 16 + memory % 15 + memory % 16 + labelled_steps(b"")).rows("values")
    assert [row["rank"] for row in found if row["key"] == "allocated"] == [21, 15, None]


# --- the functions ----------------------------------------------------------------------------------------------------


def labels(*processes: tuple[int, int]) -> Any:
    """Labels of local ranks on nodes; node -1 is not known."""
    return np.array([
        int(local_label(np.array([local]))[0]) if node < 0
        else int(nested_labels(np.array([node]), local_label(np.array([local])))[0])
        for node, local in processes
    ], np.int64)  # fmt: skip


def plain(outer: int, inner: int) -> int:
    """A label of two numbers, of which neither is known to be local."""
    return int(nested_labels(np.array([outer]), np.array([inner]))[0])


def records(*given: int, positions: Sequence[int] = (), **columns: Any) -> Records:
    """Records with these labels."""
    values = {name: np.array(column) for name, column in columns.items()}
    return Records(np.array(positions or range(1, len(given) + 1)), values, np.array(given, np.int64))


def run_of(position: int = 0, index: int = 1, world_size: int | None = None) -> Any:
    return SimpleNamespace(index=index, position=position, world_size=world_size)


@pytest.mark.parametrize(
    ("processes", "outranked", "world", "meaning"),
    [
        ([(-1, 0), (-1, 7)], False, None, ONE_NODE), ([(-1, 0), (-1, 7)], True, None, UNKNOWN),
        ([(-1, 0), (-1, 7)], False, 8, ONE_NODE), ([(-1, 0), (-1, 6)], False, 8, UNKNOWN),
        ([(-1, 6)], False, 8, ONE_NODE), ([(-1, 6)], False, 9, UNKNOWN), ([(-1, 8)], False, 9, ONE_NODE),
        ([(0, 7), (1, 7)], False, None, UNKNOWN), ([(0, 7), (1, 7)], False, 16, 8), ([(0, 3), (1, 7)], False, 16, 8),
        ([(0, 7), (1, 7)], False, 17, UNKNOWN), ([(1, 7)], False, 16, 8), ([(1, 7)], False, 8, ONE_NODE),
    ],
)  # fmt: skip
def test_what_local_ranks_mean(
    processes: list[tuple[int, int]], outranked: bool, world: int | None, meaning: int
) -> None:
    assert _Job({*labels(*processes).tolist()}, outranked=outranked).processes(world) == meaning


@pytest.mark.parametrize(
    ("pairs", "world", "meaning"),
    [
        ([(0, 7), (1, 7)], 16, 8), ([(0, 0), (1, 0)], 16, UNKNOWN), ([(0, 3), (1, 11)], 16, ONE_NODE),
        ([(0, 7), (1, 7)], None, UNKNOWN),
    ],
)  # fmt: skip
def test_what_two_plain_numbers_mean(pairs: list[tuple[int, int]], world: int | None, meaning: int) -> None:
    assert _Job(nested={plain(*pair) for pair in pairs}).processes(world) == meaning


def test_codes_of_processes_without_a_rank_have_their_names() -> None:
    nodes, local = np.array([0, 3, 2, (1 << 30) - 3]), np.array([0, 5, (1 << 30) - 1, 7])
    codes = source_code(nodes, local)
    assert (codes < -1).all() and len({*codes.tolist()}) == 4
    assert source_names(codes, {3: "pod-a"}) == [
        "node 0, local rank 0", "pod-a, local rank 5", "node 2", f"node {(1 << 30) - 3}, local rank 7"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("world", "ranks"), [(16, [15, 7, -1, 5]), (None, [None, None, -1, 5]), (17, [None, None, -1, 5])]
)
def test_the_rank_of_each_label(world: int | None, ranks: list[int | None]) -> None:
    found = LocalRanks({})
    given = records(*labels((1, 7), (0, 7)).tolist(), NO_RANK, 5)
    runs = RunIndex([run_of(world_size=world)])
    found.observe(given, runs)
    assert [rank if rank >= -1 else None for rank in found.ranks_of(given, runs).tolist()] == ranks
    assert found.ranks_of(Records(np.array([1, 2])), runs).tolist() == [-1, -1]


def test_a_number_alone_is_no_rank_where_others_have_two() -> None:
    found = LocalRanks({})
    given = records(plain(0, 7), plain(1, 7), 2)
    runs = RunIndex([run_of(world_size=16)])
    found.observe(given, runs)
    assert found.ranks_of(given, runs).tolist() == [7, 15, -1]


def test_a_rank_that_a_node_with_its_local_rank_cannot_have() -> None:
    """Rank 14 of local rank 7 is on the second node of 7 processes, or less."""
    runs = RunIndex([run_of()])
    for rank, known in ((14, 7), (15, -1)):
        found = LocalRanks({})
        found.observe(records(*labels((-1, 7)).tolist(), rank=[rank]), runs)
        assert found.ranks_of(records(*labels((-1, 7)).tolist()), runs).tolist() == [known]


def test_what_an_earlier_reading_has_settled_counts() -> None:
    given, runs = records(*labels((1, 3)).tolist()), RunIndex([run_of()])
    found = LocalRanks({1: 4})
    found.observe(given, runs)
    assert found.ranks_of(given, runs).tolist() == [7]
    found.end(run_of(world_size=99))
    assert found.corrections == {}


def test_what_a_whole_run_contradicts_is_corrected() -> None:
    given, runs = records(*labels((-1, 7)).tolist()), RunIndex([run_of()])
    for world, corrections in ((8, {}), (16, {1: UNKNOWN})):
        found = LocalRanks({})
        found.observe(given, runs)
        assert found.ranks_of(given, runs).tolist() == [7]
        found.end(run_of(world_size=world))
        assert found.corrections == corrections
        found.end(run_of(world_size=world))  # forgotten


def test_printed_ranks_are_below_the_world_size_that_was_printed_before() -> None:
    runs = RunIndex([run_of(), run_of(position=100, index=2)])
    found = LocalRanks({})
    found.observe(records(-1, -1, positions=[10, 20], world_size=[4, 2]), runs)
    positions, rank = np.array([5, 10, 11, 21, 22, 120]), np.array([9, 4, 4, 3, 5, 9])
    ranks = RecordRanks(rank, np.full(6, PRINTED, np.int8))
    assert found.impossible(ranks, positions, runs).tolist() == [2, 4]
    assert found.impossible(RecordRanks(rank, np.full(6, HEADER, np.int8)), positions, runs).tolist() == [2, 4]
    assert found.impossible(RecordRanks(rank, np.full(6, -1, np.int8)), positions, runs).tolist() == []
    assert LocalRanks({}).impossible(ranks, positions, runs).tolist() == []
    found.end(run_of())
    assert found.impossible(ranks, positions, runs).tolist() == []
