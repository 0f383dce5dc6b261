"""Numbers in blocks of settings: the lines above say that a program was told them, not that it measured them."""

from __future__ import annotations

import pytest
from support.reading import read

_MEASURED = "Decode latency: 3.25 ms\n"


def _measured(block: str) -> list[float]:
    rows = read((_MEASURED + "\n" + block).encode()).rows("values")
    return [row["value"] for row in rows if row["value"] is not None][1:]


@pytest.mark.parametrize(
    "block",
    [
        "Configuration:\n  model: llama\n  throughput: 500 tokens/s\n  decode latency: 3 ms\n",
        "=== Server settings ===\nbatch: 8\nthroughput: 500 tokens/s\n",
        "Benchmark args:\n--------------\nmodel: llama\nthroughput: 500 tokens/s\n",
        "Config:\n  optimizer:\n    betas: 2\n  throughput: 500 tokens/s\n",
        "server:\n  limits:\n    burst: 3\n    throughput: 500 samples/s\n",
        "loader:\n  path: /data/x\n  shuffle: true\n  throughput: 500 samples/s\n",
        "2026-01-01 10:00:00 INFO Server args:\n2026-01-01 10:00:00 INFO   throughput: 500 samples/s\n",
        "[rank0]: Config:\n[rank0]:   throughput: 500 samples/s\n",
    ],
)
def test_a_block_of_settings_measures_nothing(block: str) -> None:
    assert _measured(block) == []


@pytest.mark.parametrize(
    "block",
    [
        "Configuration:\n  model: llama\n\nthroughput: 500 tokens/s\n",
        "Configuration:\n  model: llama\nthroughput: 500 tokens/s\n",
        "Configuration:\n  throughput: 500.25 tokens/s\n",  # a fraction was measured
        "Results:\n  causal: true\n  path: /data/x\n  throughput: 500 samples/s\n",
        "server:\n  stats:\n    throughput: 500 samples/s\n",
        "Loaded the config\nand began.\nthroughput: 500 samples/s\n",
        "llama:\n  throughput: 500 samples/s\n",
        "2026-01-01 10:00:00 INFO Args:\n2026-01-01 10:00:00 INFO   a: 8\n2026-01-01 10:00:01 INFO Latency: 5 ms\n",
    ],
)
def test_what_is_after_a_block_and_what_a_program_reports_was_measured(block: str) -> None:
    assert len(_measured(block)) == 1


def test_the_form_of_a_number_decides_though_one_line_shape_reads_all_forms() -> None:
    lines = ["Step latency: 3.25 ms", "Config:", "  Step latency: 3 ms", "  Step latency: 3.5 ms", ""]
    rows = read("\n".join(lines).encode()).rows("values")
    assert [row["line"] for row in rows] == [1, 4]


@pytest.mark.parametrize("size", [16, 40, 64, 100])
def test_a_block_may_be_cut_by_the_chunks(size: int) -> None:
    block = "Config:\n" + "  batch: 8\n" * 12 + "  throughput: 500 tokens/s\n" + _MEASURED
    whole, cut = read((_MEASURED + block).encode()), read((_MEASURED + block).encode(), chunk=size)
    assert whole.rows("values") == cut.rows("values")
    assert whole.rows("lines") == cut.rows("lines")
    assert len(whole.rows("values")) == 2


def test_a_measured_part_of_a_line_with_parts_is_left_unread() -> None:
    rows = read(f"{_MEASURED}Config:\n  batch: 8\r  throughput: 500 tokens/s\n".encode()).rows("lines")
    assert {row["status"] for row in rows if row["first_line"] == 3} == {"unread"}


def test_the_heading_of_a_block_may_be_far_above() -> None:
    block = "Config:\n" + "  batch: 8\n" * 39 + "  throughput: 500 tokens/s\n"
    assert _measured(block) == []
    assert len(_measured(block.replace("batch", "b: 1\n  batch", 1))) == 1  # farther than the lines that are kept


@pytest.mark.parametrize(("heading", "size"), [("Previous run:", 8), ("[INFO] Defaults:", 8), ("This run:", None)])
def test_a_block_of_another_run_has_no_settings_of_this_one(heading: str, size: int | None) -> None:
    text = f"{heading}\n  seed: 1\n  world_size: 16\nworld_size: 8\nstep 1 loss 2.5\nstep 2 loss 2.4\n"
    (run,) = read(text.encode()).rows("runs")
    assert run["world_size"] == size
