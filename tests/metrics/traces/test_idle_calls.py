"""What the host is in while a device idles, in its steps or in the whole trace, by hand; times in us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.made_traces import event, traced
from support.metrics_logs import rows
from support.trace_tables import in_ns, small

from perflog.metrics import idle_calls


def work(start: int, length: int, number: int) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", start - 2, 1, correlation=number),
        event("kernel", "gemm", start, length, 7, correlation=number, device=0, stream=7) | {"pid": 0},
    ]


BETWEEN = [event("user_annotation", "load", 110, 60), event("user_annotation", "log", 320, 40)]
KERNELS = [*work(10, 90, 1), *work(200, 100, 2), *work(400, 50, 3)]


@pytest.mark.parametrize(
    ("steps", "span", "times"),
    [
        # 100 to 198 and 300 to 398 are idle until the next launch.
        ([], 440, {"load": 60, "log": 40, None: 96}),
        ([event("user_annotation", "ProfilerStep#1", 5, 290)], 295, {"load": 60, None: 38}),
        (
            [event("user_annotation", "ProfilerStep#1", 5, 290), event("user_annotation", "ProfilerStep#2", 310, 150)],
            445, {"load": 60, "log": 40, None: 86},  # 10 us are between the steps
        ),
    ],
)  # fmt: skip
def test_idle_time_of_the_steps_by_what_the_host_is_in(
    tmp_path: Path, steps: list[Any], span: int, times: dict[str | None, int]
) -> None:
    found = rows(idle_calls(traced(tmp_path / "a.json", *KERNELS, *BETWEEN, *steps)))
    assert {row["name"]: round(row["time_s"] * 1e6) for row in found} == times
    assert [row["time_s"] for row in found] == sorted((row["time_s"] for row in found), reverse=True)
    assert {round(row["time_s"] / row["share"] * 1e6) for row in found} == {span}


def test_all_columns_of_a_small_trace() -> None:
    """From 300 to 340 and from 380 to 500 the next work is not launched; both steps together take 1000."""
    same = {"rank": 0, "device": 0, "device_name": "H100", "span_s": 1000}
    assert in_ns(idle_calls(small())) == [
        same | {"name": name, "time_s": time, "share": time / 1000}
        for name, time in (("load", 80), (None, 50), ("cudaStreamSynchronize", 20), ("aten::relu", 10))
    ]


def test_without_launches_nothing_is_known(tmp_path: Path) -> None:
    kernels = [e for e in KERNELS if e["cat"] == "kernel"]
    assert rows(idle_calls(traced(tmp_path / "a.json", *kernels, *BETWEEN))) == []
