"""xpu_timer of DLRover: figures by level and rank, and the ranks that hang."""

from __future__ import annotations

from pathlib import Path

import perflog
from perflog.analysis.overview import overview
from perflog.metrics import cases, named_ranks
from perflog.metrics.run_tables import Tables
from perflog.metrics.skew.named_ranks import hanging_ranks

NODE = 'ip="11.36.23.0",job_name="job-1"'


def exported(hangs: list[int]) -> str:
    lines = ["# TYPE XPU_TIMER_MM_KERNEL_AVG_LATENCY gauge"]
    for rank, us in enumerate((3719, 19063, 3725)):
        place = f'level="{7 + rank % 2}",local_rank="{rank}",operation="Matmul",pod_name="worker-0",rank="{rank}"'
        lines.append(f'XPU_TIMER_MM_KERNEL_AVG_LATENCY{{dtype="bf16",{NODE},{place}}} {us}')
    for rank, value in enumerate(hangs):
        lines.append(f'XPU_TIMER_COMMON_HANG{{{NODE},local_rank="{rank}",pod_name="worker-0",rank="{rank}"}} {value}')
    return "\n".join([*lines, ""])


def log_of(path: Path, hangs: list[int]) -> perflog.Log:
    path.write_text(exported(hangs))
    return perflog.read(str(path))


def test_a_figure_is_that_of_a_level_on_a_rank(tmp_path: Path) -> None:
    """Ranks differ in their levels, so that no rank is slow by the mean of its own."""
    log = log_of(tmp_path / "metrics.txt", [0, 0, 0])
    (row,) = cases(log).to_dict("records")
    assert (row["key"], row["cases"], row["max"], row["max_at"]) == ("MM_KERNEL_AVG", 3, 0.019063, "level 8, of_rank 1")
    assert not len(named_ranks(log))


def test_ranks_that_hang(tmp_path: Path) -> None:
    log = log_of(tmp_path / "some.txt", [1, 0, 1])
    assert list(hanging_ranks(Tables(log)).values()) == [([0, 2], 3)]
    assert "The log says that 2 ranks of 3 hang: 0, 2." in overview(log).reasons
    assert "The log says that all ranks hang." in overview(log_of(tmp_path / "all.txt", [1, 1, 1])).reasons
    assert not any("hang" in text for text in overview(log_of(tmp_path / "none.txt", [0, 0, 0])).reasons)
