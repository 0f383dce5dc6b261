"""Hosts of ranks, by the lines in which NCCL begins a communicator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import perflog
from perflog.analysis.diagnosis import diagnose
from perflog.metrics import Tables
from perflog.metrics.rank_hosts import host_in_words, hosts_of_ranks

SIZE = 8
HOSTS = {rank: f"node{rank // 2 + 3}" for rank in range(SIZE)}


def begun(rank: int, size: int = SIZE, numbered: int | None = None) -> str:
    """What NCCL prints of a rank that begins a communicator, in which it may have another number."""
    head = f"{HOSTS[rank]}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "
    own = rank if numbered is None else numbered
    place = f"cudaDev {rank % 2} nvmlDev {rank % 2} busId 1a000 commId 0x3dbcae1fc1b2e5a4 - Init"
    start = f"ncclCommInitRankConfig comm 0x55d{rank}f0 rank {own} nranks {size} {place}"
    return f"{head}Bootstrap : Using eth0:10.0.0.1<0>\n{head}{start} START\n{head}{start} COMPLETE\n"


def steps(slow: Sequence[int]) -> str:
    return "".join(
        f"[rank{rank}]: step {step} | loss {4 - step / 20:.3f} | step_time 0.91s | "
        f"compute {(800 if rank in slow else 700) + (7 * step + 3 * rank) % 5}.0ms\n"
        for step in range(1, 31)
        for rank in range(SIZE)
    )


WORLD = "".join(map(begun, range(SIZE)))
PAIRS = "".join(begun(rank, 2, rank % 2) for rank in range(SIZE))


def hosts(text: str, path: Path) -> dict[int, str | None]:
    (path / "run.log").write_text(text)
    tables = Tables(perflog.read(path / "run.log"))
    return dict(hosts_of_ranks(tables, tables.rows("runs")["run"].tolist()[0]))


def test_the_largest_communicator_has_the_ranks_of_the_job(tmp_path: Path) -> None:
    assert hosts(WORLD + PAIRS + steps([]), tmp_path) == HOSTS


@pytest.mark.parametrize("text", [steps([]), PAIRS + steps([]), WORLD.replace(" COMPLETE", " START") + steps([])])
def test_hosts_that_are_not_known(text: str, tmp_path: Path) -> None:
    """No line; only communicators of fewer ranks than the job has; only their beginnings."""
    assert hosts(text, tmp_path) == {}


def test_a_rank_on_two_hosts_has_none(tmp_path: Path) -> None:
    """The job was started again on other nodes."""
    again = begun(0).replace("node3", "node9")
    assert hosts(WORLD + again + steps([]), tmp_path) == HOSTS | {0: None}


@pytest.mark.parametrize("number", ["8,", "8torn", "1" * 9])
def test_a_torn_number_of_ranks(number: str, tmp_path: Path) -> None:
    last = begun(SIZE - 1).replace(f"nranks {SIZE}", f"nranks {number}")
    assert hosts("".join(map(begun, range(SIZE - 1))) + last + steps([]), tmp_path) == HOSTS | {SIZE - 1: None}


def test_in_words() -> None:
    assert host_in_words([2, 3], HOSTS) == "all ranks of node4"
    assert [host_in_words(ranks, HOSTS) for ranks in ([2], [1, 2], [9])] == ["node4", "", ""]
    assert host_in_words([2, 3], HOSTS | {7: None}) == "node4"


@pytest.mark.parametrize(("slow", "who"), [([5], "rank 5 (node5)"), ([2, 3], "node4")])
def test_a_culprit_has_its_node(slow: Sequence[int], who: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(WORLD + PAIRS + steps(slow))
    log = perflog.read(tmp_path / "run.log")
    assert [each.name for each in diagnose(log).culprits] == [who]
    node = who.removeprefix("rank 5 (").removesuffix(")")
    assert f" of 8 ({node}) " in " ".join(perflog.overview(log).reasons)


def test_the_ranks_of_a_node_are_not_known_where_the_node_of_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("".join(map(begun, range(SIZE - 1))) + steps([2, 3]))
    log = perflog.read(tmp_path / "run.log")
    assert sorted(each.name for each in diagnose(log).culprits) == ["rank 2 (node4)", "rank 3 (node4)"]


def test_files_of_the_library_beside_a_job(tmp_path: Path) -> None:
    """NCCL_DEBUG_FILE writes a file for each process. They are no runs of their own."""
    (tmp_path / "train.log").write_text(steps([5]))
    for rank in range(SIZE):
        (tmp_path / f"nccl.{HOSTS[rank]}.{100 + rank}.log").write_text(begun(rank))
    log = perflog.read(tmp_path)
    assert [each.name for each in diagnose(log).culprits] == ["rank 5 (node5)"]
    assert not log.warnings
