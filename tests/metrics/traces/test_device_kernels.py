"""Kernels of a device by name and category: their sums and shares, against loops over the events."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import row, rows
from support.trace_tables import Event, by_hand, in_ns, kernel, reduce, small, step

from perflog.metrics import Tables, device_kernels
from perflog.metrics.compared import ALL, Steady
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.operators.device_kernels import (
    _by_first_place,
    _rate,
    _samples,
    times_by_name,
)
from perflog.metrics.traces.steady_work import SteadyDevices

NS = 1e-9


def test_the_kernels_of_a_device() -> None:
    events = [
        kernel(0, 30, "gemm", flops=6e3), kernel(30, 40, "relu"), kernel(40, 90, "gemm", flops=4e3),
        kernel(50, 70, "gemm", stream=8, bytes=100), step(1, 20, 60),
    ]  # fmt: skip
    table = device_kernels(by_hand(events))
    gemm = row(table, by="name", name="gemm")
    assert (gemm["calls"], gemm["time_s"], gemm["first_line"]) == (3, pytest.approx(100 * NS), 1)
    assert gemm["share_kernel"] == pytest.approx(100 / 110) and gemm["share_busy"] == pytest.approx(100 / 90)
    assert gemm["share_step"] == pytest.approx((10 + 20 + 10) / 40)
    assert [gemm[f"{name}_s"] for name in ("avg", "median", "min", "max")] == pytest.approx(
        [100 / 3 * NS, 30 * NS, 20 * NS, 50 * NS]
    )
    assert (gemm["tflops"], gemm["gbps"]) == pytest.approx((1e4 / (80 * NS) / 1e12, 100 / (20 * NS) / 1e9))
    relu = row(table, by="name", name="relu")
    assert (relu["tflops"], relu["gbps"], relu["share_step"]) == (None, None, pytest.approx(10 / 40))
    assert [r["name"] for r in rows(table, by="name")] == ["gemm", "relu"]
    assert row(table, by="category", name="gemm")["time_s"] == pytest.approx(100 * NS)


def test_without_steps_there_is_no_share_of_them() -> None:
    found = row(device_kernels(by_hand([kernel(0, 30, "gemm")])), by="name")
    assert (found["share_step"], found["share_busy"], found["state"]) == (None, 1.0, "compute")
    assert not len(device_kernels(by_hand([kernel(0, 30, kind="cpu")])))


def test_the_order_of_rows_and_kernels_without_a_name() -> None:
    events = [kernel(0, 5, "b"), kernel(5, 10, "a"), kernel(10, 20) | {"name": None}, reduce(20, 50)]
    found = rows(device_kernels(by_hand(events)), by="name")
    assert [r["name"] for r in found][1:] == [None, "b", "a"]  # the longest first, of equals the first
    assert found[0]["state"] == "communication"


@examples(20)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=12))
def test_sums_of_made_up_kernels(made: list[tuple[str, int, int]]) -> None:
    events: list[Event] = [kernel(start, start + length, name) for name, start, length in made]
    by_name: dict[str, list[int]] = defaultdict(list)
    for name, _, length in made:
        by_name[name].append(length)
    whole = sum(map(sum, by_name.values()))
    found = rows(device_kernels(by_hand(events)), by="name")
    assert [r["name"] for r in found] == sorted(by_name, key=lambda name: (-sum(by_name[name]), first_of(made, name)))
    for r in found:
        times = by_name[r["name"]]
        assert (r["calls"], r["min_s"], r["max_s"]) == (
            len(times),
            pytest.approx(min(times) * NS),
            pytest.approx(max(times) * NS),
        )
        assert r["median_s"] == pytest.approx(median(times) * NS) and r["share_kernel"] == pytest.approx(
            sum(times) / whole
        )


def first_of(made: list[tuple[str, int, int]], name: str) -> Any:
    """The place of the first kernel of a name in the order of begins."""
    order = sorted(range(len(made)), key=lambda k: made[k][1])
    return next(place for place, k in enumerate(order) if made[k][0] == name)


@pytest.mark.parametrize("most", [0, 3, 1 << 16])
@pytest.mark.parametrize(
    ("codes", "groups"),
    [
        ([], []),
        ([2, 0, 2, -1], [(2, [0, 2]), (0, [1]), (-1, [3])]),
        ([-1, -1], [(-1, [0, 1])]),
        ([3, 2, 1, 3], [(3, [0, 3]), (2, [1]), (1, [2])]),
    ],
)
def test_groups_in_the_order_of_their_first_place(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], groups: list[tuple[int, list[int]]], most: int
) -> None:
    module: Any = import_module("perflog.metrics.traces.operators.device_kernels")
    monkeypatch.setattr(module, "_MOST_BY_RADIX", most)
    found = [(code, index.tolist()) for code, index in _by_first_place(np.array(codes, np.int32))]
    assert found == groups


def test_what_comparisons_read_of_kernels() -> None:
    """Of each steady step, the mean over devices."""
    events = [kernel(100 * n, 100 * n + 10, "gemm", device=d) for n in range(3) for d in (0, 1)]
    events += [kernel(150, 160, "relu"), *(step(n, 100 * n, 100 * n + 100) for n in range(3))]
    found = {
        measure.name: (values / NS).tolist() for measure, _, values in _samples(by_hand(events), Steady({"r": 1}, {}))
    }
    assert found == {ALL: pytest.approx([15, 10]), "gemm": pytest.approx([10, 10]), "relu": pytest.approx([5, 0])}


def test_a_rate_is_of_the_rows_that_have_it() -> None:
    """Without an amount there is none."""
    made = by_hand([kernel(0, 9, flops=flops) for flops in (6e3, None, 0.0)]).rows("events")
    lengths = np.array([3, 50, 2])
    rates = {name: [_rate(made, name, lengths[of], np.array(of)) for of in ([0, 1], [0, 2], [2], [1])]
             for name in ("flops", "bytes")}  # fmt: skip
    assert rates["flops"][:2] == [pytest.approx(2e12), pytest.approx(6e3 / 5e-9)]
    assert np.isnan([*rates["flops"][2:], *rates["bytes"]]).all()


def test_times_are_kept_for_each_set_of_steps() -> None:
    """A gemm of 10 ns in step 1 and of 30 ns in step 2."""
    tables = Tables(
        by_hand([step(1, 0, 10), kernel(0, 10, "gemm", step=1), step(2, 10, 40), kernel(10, 40, "gemm", step=2)])
    )
    found = [
        times_by_name(tables, SteadyDevices("r", trace_devices(tables), None if numbers is None else np.array(numbers)))
        for numbers in ([1], [2], [1, 2], None)
    ]
    assert [each["gemm"].tolist() for each in found] == [
        [pytest.approx(ns * NS) for ns in times] for times in ([10], [30], [10, 30], [40])
    ]


def test_all_columns_of_a_small_trace() -> None:
    """Work of 470 ns in 450 busy ns of two steps of 1000; by category, then by name."""
    reduce_name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    names = ("category", "name", "state", "calls", "time_s", "avg_s", "median_s", "min_s", "max_s", "gbps",
             "first_line")  # fmt: skip
    work = [
        ("gemm", "gemm", "compute", 3, 180, 60, 60, 20, 100, None, 5),
        ("communication", reduce_name, "communication", 1, 120, 120, 120, 120, 120, None, 10),
        ("elementwise", "relu", "compute", 1, 120, 120, 120, 120, 120, None, 17),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)", "memory", 1, 50, 50, 50, 50, 50, 20.0, 8),
    ]
    same = {"rank": 0, "device": 0, "device_name": "H100", "tflops": None}
    assert in_ns(device_kernels(small())) == [
        same
        | dict(zip(names, row, strict=True))
        | {"by": by, "share_kernel": row[4] / 470, "share_busy": row[4] / 450, "share_step": row[4] / 1000}
        | ({"name": row[0]} if by == "category" else {})
        for by in ("category", "name")
        for row in work
    ]
