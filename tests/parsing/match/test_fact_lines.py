"""Facts of a job, read from lines that nothing else reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.reading import read

TABLE = "Size(B)  Time(us)\n----------------\n1024  12.5\n2048  13.5\n4096  55.1\n"


def run_of(text: str) -> dict[str, Any]:
    (row,) = read(text.encode()).rows("runs")
    config: dict[str, Any] = json.loads(row["config"])
    return {name: row[name] for name in ("world_size", "device", "dtype", "model")} | config


def test_facts_above_a_table() -> None:
    log = read(f"Ranks: 8   Iters: 20   Device: NVIDIA H100\n\nSizes\n{TABLE}".encode())
    (run,) = log.rows("runs")
    assert (run["world_size"], run["device"]) == (8, "NVIDIA H100")
    (line,) = (row for row in log.rows("lines") if "{world_size:d}" in row["shape"])
    assert (line["figures_stored"], line["figures_unread"]) == (1, 1)


@pytest.mark.parametrize(("other", "device"), [("H100", "NVIDIA H100"), ("A100", None)])
def test_numbered_devices(other: str, device: str | None) -> None:
    """The index of a device is no figure. Devices that differ are not one."""
    log = read(f"Device 0: NVIDIA H100\nDevice 1: NVIDIA {other}\n\nSizes\n{TABLE}".encode())
    (run,) = log.rows("runs")
    assert run["device"] == device
    assert not [row["shape"] for row in log.rows("lines") if row["figures_unread"]]


def test_facts_in_a_title() -> None:
    """The line above a table is its title, and names the cases where several tables have titles that differ."""
    assert run_of(f"World size: 8\n{TABLE}")["world_size"] == 8
    several = run_of(f"World size: 8\n{TABLE}\nWorld size: 16\n{TABLE}")
    assert several["world_size"] is None


def test_what_the_program_prints_of_itself_counts() -> None:
    text = "".join(f"step {k} | loss {3 - k / 9:.3f} | world_size: 4\n" for k in range(5))
    assert run_of(f"Running on 8 ranks\n{text}")["world_size"] in (4, 8)


def test_labels_of_ranks() -> None:
    lines = "".join(f"[rank{rank}]: world_size: 2, GPU: NVIDIA H100\n" for rank in range(2))
    assert run_of(f"{lines}\nSizes\n{TABLE}")["world_size"] == 2


@pytest.mark.parametrize(
    ("above", "model"),
    [("Configuration:", "org/a-7b"), ("GEMM benchmark", "org/a-7b"), ("critic:", None), ("actor:\n    lr: 1", None)],
)
def test_indented_lines_are_of_the_job_by_the_line_above_them(above: str, model: str | None) -> None:
    assert run_of(f"{above}\n  model: org/a-7b\n\nSizes\n{TABLE}")["model"] == model


def test_facts_alone_are_no_log() -> None:
    from perflog.errors import UnrecognisedError

    with pytest.raises(UnrecognisedError):
        read(b"World size: 8\nModel: llama-7b\n")
