"""Lines that are parts of steps: another number counts them, and no step is printed again."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.log import Log
from perflog.metrics import Tables
from perflog.metrics.step_counters import runs_in_parts
from perflog.metrics.unlabelled_ranks import printings

LINE = "{rank}micro {micro} | step {step} | loss 2.{micro} | micro time: 130 ms"


def log_of(folder: Path, counts: list[tuple[int, int]], ranks: tuple[str, ...] = ("",)) -> Log:
    lines = (LINE.format(rank=rank, micro=micro, step=step) for micro, step in counts for rank in ranks)
    (folder / "run.log").write_text("\n".join([*lines, ""]))
    return perflog.read(folder / "run.log")


def found(log: Log) -> tuple[list[str], int]:
    tables = Tables(log)
    return list(runs_in_parts(tables).values()), int(printings(tables).max())


PARTS = [(micro, (micro - 1) // 4 + 1) for micro in range(1, 17)]


@pytest.mark.parametrize("ranks", [("",), ("[rank0]: ", "[rank1]: ")])
def test_the_number_that_grows_within_a_step_counts_its_parts(tmp_path: Path, ranks: tuple[str, ...]) -> None:
    assert found(log_of(tmp_path, PARTS, ranks)) == (["micro"], 1)


@pytest.mark.parametrize("begin", [0, 1])
def test_a_counter_may_begin_again_with_each_step(tmp_path: Path, begin: int) -> None:
    counts = [((micro - 1) % 4 + begin, step) for micro, step in PARTS]
    assert found(log_of(tmp_path, counts))[1] == 1


@pytest.mark.parametrize(
    ("counts", "printed"),
    [
        (PARTS[:8] + PARTS[4:12], 8),  # a restart
        ([(step, step) for step in (1, 2, 3, 3, 4)], 2),  # one step twice
        ([(micro * 7 % 5, step) for micro, step in PARTS], 4),  # no count
        ([(1, 1), (2, 2), (3, 3)], 1),  # no step has parts
    ],
)
def test_other_repeats_have_no_counter(tmp_path: Path, counts: list[tuple[int, int]], printed: int) -> None:
    assert found(log_of(tmp_path, counts)) == ([], printed)
