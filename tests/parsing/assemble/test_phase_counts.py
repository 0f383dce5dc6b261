"""How often a rank measured the same phase in a step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.steps.phase_counts import PhaseCounter, occurrences


@given(
    st.lists(st.integers(1, 20), max_size=8) | st.integers(1, 18).flatmap(lambda n: st.just([n] * 4)),
    st.lists(st.integers(0, 3), min_size=160, max_size=160),
    st.booleans(),
)
def test_each_record_is_counted_in_its_group(sizes: list[int], ranks: list[int], comes_again: bool) -> None:
    """Groups of any sizes, and groups of one size; the last may be the first again."""
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    if comes_again and len(sizes) > 1:
        group = [0 if number == len(sizes) - 1 else number for number in group]
    who = (ranks * 2)[: len(group)]
    counted, expected = Counter[tuple[int, int]](), []
    for key in zip(group, who, strict=True):
        counted[key] += 1
        expected.append(counted[key])
    assert occurrences(np.array(group, np.int64), np.array(who, np.int64)).tolist() == expected


@pytest.mark.parametrize("chunk", [1, 300, 8 << 20])
def test_without_step_lines_phases_are_counted_by_the_step_they_print(chunk: int) -> None:
    """The log of one node has no step lines if rank 0 runs on another node; its ranks may be at different steps."""
    line = b"[rank %d] step %d: copy backward 1.500000 ms\n"
    order = [(2, 0), (3, 0), (2, 1), (2, 2), (3, 1), (3, 2), (3, 2)]
    begin = b"[rank 2] node 1 takes part: recipe r, variant v, run 1 of 1\n"
    found = read(begin + b"".join(line % each for each in order), chunk=chunk)
    (run,) = found.rows("runs")
    assert (run["label"], found.done.lines["unread"]) == ("r v", 0)
    times = [(r["rank"], r["step"], r["occurrence"]) for r in found.rows("phases")]
    assert times == [*((rank, n, 1) for rank, n in order[:-1]), (3, 2, 2)]


FORMAT = """
title = "times of phases"
[[line]]
name = "took"
table = "phases"
text = "rank {rank:d} at step {step:d}: phase {phase:w} took {time:.1f} ms"
unit = { time = "ms" }
sample = "rank 3 at step 1: phase copy took 2.5 ms"
"""


@pytest.mark.parametrize("chunk", [1, 90, 8 << 20])
def test_the_count_goes_on_where_the_log_is_cut(tmp_path: Path, chunk: int) -> None:
    """Of each phase by itself, and only of the last step of each rank."""
    order = "2 0 copy, 2 0 gate, 2 0 copy, 3 0 copy, 2 0 copy, 2 0 gate, 2 1 copy, 2 0 gate, 3 0 copy".split(", ")
    lines = ("rank {} at step {}: phase {} took 2.5 ms\n".format(*each.split()) for each in order)
    form = load(given_file(tmp_path, FORMAT))
    found = read("".join(lines).encode(), formats=[form], chunk=chunk).rows("phases")
    assert [f"{r['rank']} {r['step']} {r['phase']}" for r in found] == order
    assert [r["occurrence"] for r in found] == [1, 1, 2, 1, 3, 2, 1, 1, 2]


class Rows(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.step)


def rows_of(*records: tuple[int, int | None], runs: str = "", closed: bool = False, line: str = "took") -> Any:
    """Rows by rank and step; the step is that of a group too."""
    ranks, steps = zip(*records, strict=True)
    runs = runs or "1" * len(records)
    step = np.array([each or 0 for each in steps])
    groups = SimpleNamespace(number=step, run=np.array(list(map(int, runs))), run_words=pa.array(list(runs)))
    return Rows(
        line=line, groups=groups, step=step, step_known=np.array([each is not None for each in steps]),
        ranks=SimpleNamespace(rank=np.array(ranks)), steps_are_closed=closed, step_is_of_group=closed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "phases", "counts"),
    [
        (rows_of((0, 1), (0, 1), (1, 1), (0, 2), closed=True), None, [1, 2, 1, 1]),
        (rows_of((0, 1), (0, 1), (2, 1), (0, 2), closed=True), "abaa", [1, 1, 1, 1]),
        (rows_of((0, 1), (1, 1), (0, 1), (1, 1), (0, 2)), None, [1, 1, 2, 2, 1]),
        (rows_of((0, 1), (0, 1), (0, 1), (1, 1)), "abaa", [1, 1, 2, 1]),
        (rows_of((0, 0), (0, None), (0, None), (0, 0)), None, [1, 1, 1, 1]),  # without a step
        (rows_of((0, 1), (0, 1), (0, 2), (0, 1)), None, [1, 2, 1, 1]),  # the step begins again
        (rows_of((0, 1), (0, 1), (0, 1), runs="122"), None, [1, 1, 2]),
    ],
)
def test_counts_of_phases(rows: Any, phases: str | None, counts: list[int]) -> None:
    assert PhaseCounter().count(rows, None if phases is None else list(phases)).tolist() == counts


def test_counts_go_on_with_the_last_step_of_each_rank() -> None:
    counter = PhaseCounter()
    assert counter.count(rows_of((0, 1), (0, 1), (1, 1), (1, 1), (1, 2)), list("abaaa")).tolist() == [1, 1, 1, 2, 1]
    assert counter.count(rows_of((1, 2), (0, 1), (1, 1), (0, 1), (1, 2)), list("aabba")).tolist() == [2, 2, 1, 2, 1]
    assert counter.count(rows_of((0, 1), (1, 2)), list("aa")).tolist() == [3, 2]
    assert counter.count(rows_of((0, 1), line="other"), ["a"]).tolist() == [1]
    assert counter.count(rows_of((0, 1), runs="2"), ["a"]).tolist() == [1]
    assert counter.count(rows_of((0, None)), ["a"]).tolist() == [1] == counter.count(rows_of((0, None)), ["a"]).tolist()
