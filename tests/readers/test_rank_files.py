"""Ranks of files: what a file states, what its name says, and what a name does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perflog
from perflog.readers.interface import RankInfo
from perflog.readers.rank_files import _profiling_rounds, rank_of_file, ranks_of_files, runs_of_files

UNKNOWN = RankInfo()


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("out/rank_0/trace.json", 0),
        ("rank_2/rank_7.json", 7),
        ("global_rank12.json", 12),
        ("dp_rank1_tp_rank1.json", None),
        ("dp_rank0_tp_rank1_rank5.json", 5),
        ("node1_local_rank0.json", None),
        ("rank_3/local_rank0.json", None),  # the file says which of several it is, and not its rank
        ("mp_rank_00.json", None),
        ("local_rank0_rank8.json", 8),
        ("rank1_rank2.json", None),
        ("step1.json", None),
    ],
)
def test_the_rank_in_one_name(name: str, rank: int | None) -> None:
    assert rank_of_file(name) == (rank, None if rank is None else "file")


def test_what_a_file_states_goes_before_its_name() -> None:
    files = [(f"rank_{i}/trace.json", RankInfo(rank, "2")) for i, rank in enumerate((1, 0))]
    assert ranks_of_files(files) == [(1, "printed"), (0, "printed")]
    assert ranks_of_files([("dp_rank1_tp_rank1.json", RankInfo(3))]) == [(3, "printed")]


@pytest.mark.parametrize(
    "names",
    [
        ("node1_local_rank0.json", "node1_local_rank1.json"),
        ("tp_rank0.json", "tp_rank1.json"),
        ("TP-0.json", "TP-1.json"),
        ("step0.json", "step1.json"),
        ("trace_iter_0.json", "trace_iter_1.json"),
    ],
)
def test_coordinates_and_counters_are_no_ranks_among_several_files(names: tuple[str, ...]) -> None:
    files = [(name, UNKNOWN) for name in names]
    assert ranks_of_files(files) == [(None, None)] * 2
    assert runs_of_files(files) == [[name] for name in names]


def test_folders_named_by_their_rank_hold_one_run() -> None:
    files = [(f"job/rank_{i}/trace.json", UNKNOWN) for i in range(3)]
    assert runs_of_files(files) == [[name for name, _ in files]]
    other = [f"job/{i}/trace.json" for i in range(2)]
    assert runs_of_files([(name, UNKNOWN) for name in other]) == [[name] for name in other]


@pytest.mark.parametrize("behind", [False, True])
def test_traces_in_folders_of_their_ranks(tmp_path: Path, behind: bool) -> None:
    """The folders count from 0 on the second node; `distributedInfo`, also behind the events, names ranks 4 and 5."""
    for i in range(2):
        event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": i, "dur": 1, "args": {"device": i}}
        info = {"distributedInfo": {"rank": 4 + i, "world_size": 8}}
        parts = ({"traceEvents": [event]}, info) if behind else (info, {"traceEvents": [event]})
        (tmp_path / f"rank_{i}").mkdir()
        (tmp_path / f"rank_{i}" / "trace.json").write_text(json.dumps(parts[0] | parts[1]))
    log = perflog.read(tmp_path)
    assert [key.log for key in log.run_keys] == [f"{tmp_path}/rank_{{0..1}}/trace.json"]
    assert log.arrow("runs")["world_size"].to_pylist() == [8]
    rows = log.arrow("events").select(["rank", "rank_by", "device"]).to_pylist()
    assert rows == [{"rank": 4 + i, "rank_by": "printed", "device": i} for i in range(2)]


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("trace_1.json", "trace_0.json"), [1, 0]),
        (("run7_trace_0.json", "run7_trace_1.json"), [0, 1]),  # the number that differs
        (("trace_1.json", "trace_2.json"), [None, None]),  # no rank 0
        (("trace_0.json", "trace_2.json"), [None, None]),
        (("a0_b0.json", "a1_b1.json"), [None, None]),  # two numbers differ
        (("trace_0.json", "other_1.json"), [None, None]),
        (("trace_0.json",), [None]),
    ],
)
def test_the_only_number_in_which_files_differ_is_their_rank(names: tuple[str, ...], ranks: list[int | None]) -> None:
    found = ranks_of_files([(name, RankInfo()) for name in names])
    assert found == [(rank, None if rank is None else "file") for rank in ranks]


def rounds(*names: str) -> list[list[str]]:
    return runs_of_files([(name, UNKNOWN) for name in names])


def test_each_round_of_a_profiler_is_a_run() -> None:
    """Names end in the time at which they were written, whatever the order of the files."""
    first, second = ("rank0.100.json", "rank1.101.json"), ("rank0.205.json", "rank1.204.json")
    assert rounds(first[0], second[0], second[1], first[1]) == [list(first), list(second)]
    apart = ["rank0.100.json", "rank0.101.json", "rank1.102.json", "rank1.103.json"]  # rank 1 came after the next round
    assert rounds(*apart) == [[name] for name in apart]
    whole = ["rank0.100.json", "rank1.101.json", "rank0.205.json"]  # a rank of the last round is missing
    assert rounds(*whole) == [[name] for name in whole]


def test_files_of_other_jobs_are_no_ranks_of_one_run() -> None:
    names = ["rank0.json", "rank1.json"]
    assert runs_of_files([(name, RankInfo(None, size)) for name, size in zip(names, "24", strict=True)]) == [
        ["rank0.json"], ["rank1.json"]
    ]  # fmt: skip
    assert rounds("a/rank0.json", "b/rank1.json") == [["a/rank0.json"], ["b/rank1.json"]]
    assert rounds("rank1.json", "rank0.json", "other0.json") == [["rank0.json", "rank1.json"], ["other0.json"]]


@pytest.mark.parametrize(
    ("files", "rounds"),
    [
        ([(1, "rank1.9.json"), (0, "rank0.8.json")], [[1, 0]]),  # one round, in the given order
        ([(0, "r0.5.20"), (1, "r1.9.11"), (1, "r1.6.21"), (0, "r0.4.10")], [[0, 1], [0, 1]]),
        ([(0, "r0.10"), (0, "r0.11"), (1, "r1.20"), (1, "r1.21")], []),  # no order shows the rounds
        ([(0, "a"), (0, "b"), (1, "c"), (1, "d")], []),
    ],
)
def test_rounds_of_a_profiler_by_the_times_in_the_names(files: list[tuple[int, str]], rounds: list[list[int]]) -> None:
    found = _profiling_rounds(files)
    assert [[rank for rank, _ in each] for each in found] == rounds
    if len(rounds) == 2:
        assert found[0] == [(0, "r0.4.10"), (1, "r1.9.11")]
