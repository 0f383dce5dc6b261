"""Plain lines, which any program may print, prove no program alone."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.model import Line
from perflog.formats.plain_lines import FEW, is_plain
from perflog.formats.template import Template

TABLE = "Size(B)  Time(us)\n----------------\n1024  12.5\n2048  13.5\n4096  55.1\n"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Training time: {time:.2f}s", True), ("{_:s}  Batch size = {batch_size:d}", True), ("Warmup ...", True),
        ("HellaSwag: {accuracy:f}", False), ("time {a:f} {b:f}", False), ("[time: {a:f}]", False),
        ("Benchmark{_:b}Time{_:b}CPU{_:b}Iterations", False),
    ],
)  # fmt: skip
def test_plain_lines(text: str, plain: bool) -> None:
    assert is_plain(Line("x", Template(text))) == plain


@pytest.mark.parametrize(
    "line",
    [
        "Memory used: 12.50 GB", "Training time: 12.50s", "Number of trainable parameters: 1,234", "num_layers: 12",
        "Time elapsed: 1.234 sec", "Total size: 3.0 MB", "Peak memory: 12.5 GiB", "  Batch size = 8",
        "Training started", "nbatches=4", "world_size 8", "forward:  1.25", "Collecting data...",
    ],
)  # fmt: skip
def test_one_plain_line_proves_no_program(line: str) -> None:
    """The table below such a line was unread, and the program a wrong one."""
    log = read(f"{line}\n{TABLE}".encode())
    assert [row["format"] for row in log.rows("runs")] == ["tables"]
    late = read(f"{TABLE}\n{line}\n".encode())
    assert [row["format"] for row in late.rows("runs")] == ["tables"]


def test_several_plain_lines_prove_a_program() -> None:
    lines = ("Training time: 12.50s", "Memory used: 12.50 GB", "Number of trainable parameters: 1,234")
    assert len(lines) == FEW
    log = read("".join(f"{line}\n" for line in lines).encode())
    assert {row["format"] for row in log.rows("runs")} == {"litgpt"}


@pytest.mark.parametrize(
    "text",
    [
        "   Operation   Max   Min   Mean   Std Dev\n   allreduce : 2.5 1.5 2.0 0.5", "2 tasks, 200 files of logs",
        "Running 30 iterations with 10 warmup steps", "Average iteration time: 2.010 seconds (of 8 GPUs)",
        "Total setup time: 12.50 seconds", "Rank 0 | Iteration 3", "Exit status: 1",
    ],
)  # fmt: skip
def test_what_mdtest_automodel_and_time_share_with_others(text: str) -> None:
    """Each was read as a log of one of these programs, with its names and units."""
    log = read(f"{text}\n{TABLE}".encode())
    assert [row["format"] for row in log.rows("runs")] == ["tables"]
