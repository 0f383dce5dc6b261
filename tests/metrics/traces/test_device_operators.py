"""GPU time by operator: against a walk through the events of the file, one by one; sums; shapes in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.field_logs import CORPUS, needs_corpus
from support.memory_traces import MIB, Allocator, training, write
from support.raw_operator_places import Place, Walk
from support.trace_tables import in_ns, small

import perflog
from perflog.metrics import Tables, device_operators
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.traces.operators.device_operators import (
    _add,
    kernels_text,
    launched_by_name,
    operator_trees,
)
from perflog.metrics.traces.work_tree import WorkTree


def places(tree: WorkTree) -> list[Place]:
    found: list[Place] = []
    for name, shapes, parent in zip(tree.names, tree.shapes, tree.parents.tolist(), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), (name, shapes or "")))
    return found


def own_times(tree: WorkTree) -> dict[Place, int]:
    own = np.zeros(len(tree.names), np.int64)
    for device, nodes in tree.work:
        np.add.at(own, nodes, device.work.ends - device.work.starts)
    return {place: time for place, time in zip(places(tree), own.tolist(), strict=True) if time}


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_real_traces_against_the_walk(rank: int) -> None:
    path = CORPUS / f"torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{rank}.json.gz"
    tables, walk = Tables(perflog.read(path)), Walk(path)
    (tree,) = operator_trees(tables)
    assert own_times(tree) == {place: time for place, time in walk.times.items() if time}
    assert len(walk.times) > 400
    rows = device_operators.table(tables, perflog.metrics.Options())
    assert round(rows["exclusive_s"].sum() * 1e9) == sum(walk.times.values())
    own: dict[Place, dict[str, int]] = {}
    for (place, name), time in walk.kernels.items():
        for depth in range(1, len(place) + 1):  # also of all around it
            sums = own.setdefault(place[:depth], {})
            sums[name] = sums.get(name, 0) + time
    found = dict(zip(places(tree), launched_by_name(tree), strict=True))
    assert {place: {n: t for n, (t, _) in of.items()} for place, of in found.items() if of} == own


def test_a_made_trace_against_the_walk(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", training(leak=MIB))
    (tree,) = operator_trees(Tables(perflog.read(path)))
    assert own_times(tree) == dict(Walk(path).times)


def test_operators_with_other_shapes_are_apart_and_what_is_inside_adds_up(tmp_path: Path) -> None:
    program = Allocator()
    for size in (64, 64, 256):
        outer = program.begin()
        program.operator("aten::addmm", MIB, "gemm", length=size)
        program.events[-1]["args"] = {"Input Dims": [[size], [size, 4], [4, size], [], []]}
        program.around("cpu_op", "aten::linear", outer, **{"Input Dims": [[size, 4], [4, size], [size]]})
    rows = device_operators(perflog.read(write(tmp_path / "a.json", program)))
    us = [(name, shapes, depth, calls, round(s * 1e6), round(own * 1e6)) for name, shapes, depth, calls, s, own in
          rows[["operator", "shapes", "depth", "calls", "gpu_s", "exclusive_s"]].to_numpy()]  # fmt: skip
    assert us == [
        ("aten::linear", "256x4, 4x256, 256", 0, 1, 256, 0),
        ("aten::addmm", "256, 256x4, 4x256", 1, 1, 256, 256),
        ("aten::linear", "64x4, 4x64, 64", 0, 2, 128, 0),
        ("aten::addmm", "64, 64x4, 4x64", 1, 2, 128, 128),
    ]
    assert rows["kernels"].tolist() == ["gemm"] * 4
    assert rows["path"].iloc[1] == "aten::linear > aten::addmm"


def test_kernels_of_a_row_are_the_longest(tmp_path: Path) -> None:
    program = Allocator()
    outer = program.begin()
    for place, name in enumerate(("void a<int>()", "void b<int>()", "c", "d", "e")):
        program.operator("aten::add", MIB, name, length=10 - place)
    program.around("cpu_op", "Optimizer", outer)
    rows = device_operators(perflog.read(write(tmp_path / "a.json", program)))
    assert rows["kernels"].tolist()[0] == "a, b, c and 2 more"
    assert short_kernel("void a<int>()") == "a"


def test_operators_without_work_of_a_device_have_no_rows(tmp_path: Path) -> None:
    program = Allocator(on_host=True)
    program.operator("aten::mm", MIB)
    table = device_operators(perflog.read(write(tmp_path / "a.json", program)))
    assert isinstance(table, pd.DataFrame) and not len(table)


def test_times_and_numbers_of_kernels_add_up() -> None:
    sums = {"a": (1, 2)}
    _add(sums, {"a": (3, 4), "b": (5, 6)})
    assert sums == {"a": (4, 6), "b": (5, 6)}


@pytest.mark.parametrize(
    ("times", "text"), [({}, None), ({"b": 1.0, "a": 1.0, "c": 2.0}, "c, a, b"), ({"a": 0.0}, "a")]
)
def test_the_longest_kernels_are_named_first(times: dict[str, float], text: str | None) -> None:
    assert kernels_text(times) == text


def test_all_columns_of_a_small_trace() -> None:
    """Both steps are one row; the collective and the kernel of 20 ns are launched outside of operators."""
    names = ("operator", "depth", "kind", "calls", "launched", "gpu_s", "exclusive_s", "host_s", "kernels", "path",
             "first_line")  # fmt: skip
    whole = "ProfilerStep#N"
    assert in_ns(device_operators(small())) == [
        {"rank": 0, "shapes": None, "share": pytest.approx(row[5] / 470)} | dict(zip(names, row, strict=True))
        for row in (
            (whole, 0, "step", 2, 6, 470, 140, 1000, "gemm, AllReduce, relu and 1 more", whole, 1),
            ("aten::relu", 1, "operator", 1, 2, 180, 180, 40, "relu, gemm", f"{whole} > aten::relu", 15),
            ("aten::mm", 1, "operator", 1, 1, 100, 100, 30, "gemm", f"{whole} > aten::mm", 3),
            ("aten::copy_", 1, "operator", 1, 1, 50, 50, 40, "Memcpy HtoD", f"{whole} > aten::copy_", 6),
        )
    ]
