"""Operators that launched work: whose work it is, which calls are one operator, what counts twice."""

from __future__ import annotations

import pytest
from support.trace_tables import Event, by_hand, kernel

from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.operators import operator_calls as module
from perflog.metrics.traces.operators.operator_calls import FileOperators, OperatorInputs, operators_by_file

MM = "[[2, 3], [3, 4]]"


def operator(name: str, start: int, end: int, shapes: str | None = MM, **more: object) -> Event:
    usual = {"kind": "cpu", "device": None, "stream": None, "process": "9", "thread": "1", "shapes": shapes}
    return kernel(start, end, name) | usual | more


def launch(at: int, number: int, thread: str = "1") -> Event:
    return operator("cudaLaunchKernel", at, at + 1, None, kind="runtime", correlation=number, thread=thread)


def of_file(*events: Event) -> FileOperators:
    (found,) = operators_by_file(by_hand(list(events)))
    return found


def listed(*events: Event) -> list[tuple[str, int, int, bool]]:
    """Name, calls, time and `uncounted` of each operator."""
    return [(each.inputs.operator, each.calls, each.time_ns, each.uncounted) for each in of_file(*events).operators]


def test_work_belongs_to_the_innermost_operator_with_a_formula() -> None:
    """Kernels of 10, 20, 40, 80 and 160 ns; the last one has no launch."""
    calls = [operator("aten::linear", 0, 100), operator("aten::addmm", 10, 90), operator("my::gemm", 20, 30)]
    calls += [operator("my::outer", 200, 300), operator("my::inner", 210, 220)]
    launches = [launch(25, 1), launch(89, 2), launch(215, 3), launch(220, 4), launch(400, 5)]
    lengths = {1: 10, 2: 20, 3: 40, 4: 80, 5: 160}
    kernels = [kernel(1000 * n, 1000 * n + length, correlation=n) for n, length in lengths.items()]
    found = of_file(*calls, *launches, *kernels)
    assert [(each.inputs.operator, each.calls, each.time_ns, each.first_line) for each in found.operators] == [
        ("aten::addmm", 1, 30, 2), ("my::outer", 1, 80, 4), ("my::inner", 1, 40, 5),
    ]  # fmt: skip
    assert (len(found), found.time_ns, found.rank, found.device_names) == (3, 310, 0, [None])
    ((device, owner),) = found.owners
    assert device.device == 0 and owner.tolist() == [0, 0, 2, 1, NO_CALL]


def test_calls_with_the_same_inputs_are_one_operator() -> None:
    """Only an operator that a value changes is listed by values; a kernel of TF32 makes a call another operator."""
    changes: list[Event] = [
        {}, {}, {"shapes": "[[4, 3], [3, 4]]"}, {"input_types": '["float"]'}, {"input_strides": "[[1]]"},
        {"input_values": "[1]"}, {"tf32": True},
    ]  # fmt: skip
    for name, numbers in (("aten::linear", [3, 1, 1, 1, 1]), ("aten::convolution", [2, 1, 1, 1, 1, 1])):
        events: list[Event] = []
        for n, change in enumerate(changes):
            word = "ampere_sgemm_TF32" if "tf32" in change else "gemm"
            inputs = {key: value for key, value in change.items() if key != "tf32"}
            events += [operator(name, 100 * n, 100 * n + 50) | inputs, launch(100 * n + 1, n)]
            events.append(kernel(5000 + 10 * n, 5000 + 10 * n + 1 + n, word, correlation=n))
        found = of_file(*events).operators
        assert [each.calls for each in found] == numbers
        assert sum(each.time_ns for each in found) == 28  # 1 + 2 + ... + 7
        assert [each.inputs.tf32 for each in found].index(True) == len(found) - 1
        assert found[2].inputs == OperatorInputs(name, MM, '["float"]')
        assert found[1].inputs.shapes == "[[4, 3], [3, 4]]" and found[3].inputs.strides == "[[1]]"


def test_calls_around_counted_work_are_not_counted_again() -> None:
    """A class counts once; an element-wise operator around a product keeps its own work, one around its class not."""
    cases = {
        ("aten::linear", "aten::addmm"): True,
        ("aten::add", "aten::mm"): True,
        ("aten::mul", "aten::add"): True,
        ("aten::mm", "aten::add"): False,
        ("aten::mm", "my::op"): None,
    }
    for (outer, inner), wraps in cases.items():
        calls = [operator(outer, 0, 100), operator("between", 10, 90), operator(inner, 20, 30)]
        work = [kernel(1000, 1007, correlation=1), kernel(1010, 1020, correlation=2)]
        found = listed(*calls, launch(5, 1), launch(25, 2), *work)
        if wraps is None:  # all of it is the outer one's
            assert found == [(outer, 1, 17, False)]
        else:
            assert found == [(outer, 1, 7, wraps), (inner, 1, 10, False)]


def test_an_operator_without_own_work_wraps_nothing() -> None:
    calls = [operator("aten::linear", 0, 100), operator("aten::addmm", 20, 30)]
    assert listed(*calls, launch(25, 1), kernel(1000, 1010, correlation=1)) == [("aten::addmm", 1, 10, False)]


def test_copies_over_a_bus_are_not_counted() -> None:
    for name, kind, uncounted in (
        ("Memcpy HtoD (Pinned -> Device)", "memcpy", True), ("Memcpy PtoP", "memcpy", True),
        ("Memcpy DtoD (Device -> Device)", "memcpy", False), ("Memcpy HtoD (Pinned -> Device)", "kernel", False),
    ):  # fmt: skip
        events = [operator("aten::copy_", 0, 50), launch(10, 1), kernel(100, 130, name, kind=kind, correlation=1)]
        assert listed(*events) == [("aten::copy_", 1, 30, uncounted)]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("cpu", "aten::mm", True), ("range", "layer 1", False), ("kernel", "aten::mm", False),
        ("range", "aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]]", True),
        ("cpu", "autograd::engine::evaluate_function: MmBackward0", False),
        ("range", "autograd::engine::evaluate_function: MmBackward0, op_id = 7, sizes = [[2, 3]]", False),
    ],
)  # fmt: skip
def test_what_is_an_operator(kind: str, name: str, expected: bool) -> None:
    assert module._is_operator(kind, name) is expected


def test_names_of_ranges_are_operators_if_pytorch_wrote_them() -> None:
    """A range has the shapes in its name; a node of the backward pass lies around its operator and is none."""
    calls = [
        operator("forward", 0, 900, None, kind="range"),
        operator("autograd::engine::evaluate_function: MmBackward0", 1, 800, None),
        operator("aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]]", 100, 200, None, kind="range"),
        operator("aten::mm, op_id = 8, sizes = [[2, 3], [3, 4]]", 300, 400, None, kind="range"),
    ]
    work = [launch(150, 1), launch(350, 2), launch(500, 3), kernel(1000, 1001, correlation=1)]
    work += [kernel(1010, 1011, correlation=2), kernel(1020, 1021, correlation=3)]
    (found,) = of_file(*calls, *work).operators
    assert (found.inputs, found.calls, found.time_ns) == (OperatorInputs("aten::mm", MM), 2, 2)


def test_a_launch_belongs_to_its_thread_from_begin_to_end() -> None:
    """A call holds the launch that begins with it, not the one that begins when it ends, nor one of another thread."""
    calls = [operator("a", 10, 20), operator("b", 30, 40), operator("c", 50, 60), operator("d", 70, 80)]
    launches = [launch(10, 1), launch(40, 2), launch(55, 3, thread="2"), launch(79, 4)]
    kernels = [kernel(100 * n, 100 * n + n, correlation=n) for n in (1, 2, 3, 4)]
    assert listed(*calls, *launches, *kernels) == [("a", 1, 1, False), ("d", 1, 4, False)]


def test_each_file_has_its_own_operators() -> None:
    """Part 1 has calls without work, part 2 work without calls, part 3 calls of two ranks."""
    one = [operator("a", 10, 20), launch(15, 1), kernel(100, 101, correlation=1)]
    two = [operator("b", 10, 20, part=1, rank=1), kernel(100, 103, part=2, rank=2)]
    three = [each | {"part": 3, "rank": 3} for each in one] + [operator("b", 15, 19, part=3, rank=4)]
    four = [each | {"part": 4, "rank": 4} for each in one]
    found = list(operators_by_file(by_hand([*one, *two, *three, *four])))
    assert [(each.part, each.rank) for each in found] == [(0, 0), (3, None), (4, 4)]
    assert [[each.inputs.operator for each in of.operators] for of in found] == [["a"], ["b"], ["a"]]
    unknown = of_file(*(each | {"rank": None} for each in one))
    assert unknown.rank is None and unknown.run == "r"
