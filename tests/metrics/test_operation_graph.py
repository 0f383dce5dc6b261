"""What operations of a step wait for: by hand, and of made jobs against their own rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operation_tables import MadeJob, Node, made_job

from perflog.metrics.what_if.operation_graph import Graph, ModelError, Operation, Unit, in_order, step_graph


def replayed(graph: Graph, seconds: Sequence[Sequence[float]]) -> list[list[float]]:
    """End of each operation in each replica; `seconds` by operation and replica."""
    replicas = range(len(seconds[0]))
    ends = [[0.0 for _ in replicas] for _ in seconds]
    for unit in graph.units:
        begins = [max((ends[b][r] for op in unit.members for b in graph.after[op]), default=0.0) for r in replicas]
        for op in unit.members:
            ends[op] = [(max(begins) if unit.meets else begins[r]) + seconds[op][r] for r in replicas]
    return ends


@st.composite
def _jobs(draw: st.DrawFn) -> tuple[MadeJob, dict[tuple[int, int, Node], float], list[Node]]:
    stages = draw(st.integers(1, 4))
    chunks = draw(st.integers(1, 3)) if stages > 1 else 1
    batches = stages * draw(st.integers(1, 2)) if chunks > 1 else draw(st.integers(1, 6))
    edges = stages > 1 and (chunks > 1 or draw(st.booleans()))
    job = made_job(draw(st.integers(1, 3)), stages, batches, chunks, draw(st.booleans()), edges)
    random = draw(st.randoms(use_true_random=False))
    times = {(0, r, node): float(random.randint(1, 99)) for r in range(job.replicas) for node in job.nodes()}
    return job, times, random.sample(job.nodes(), len(job.nodes()))


@given(_jobs())
def test_made_jobs_end_as_they_ran(made: tuple[MadeJob, dict[tuple[int, int, Node], float], list[Node]]) -> None:
    """The order of the operations of the first replica is enough: each operation of all ends when it did."""
    job, times, nodes = made
    ran = job.run(times, 0)
    graph = step_graph([operation(job, node, *ran[0, node]) for node in nodes])
    replicas = range(job.replicas)
    ends = replayed(graph, [[times[0, r, node] for r in replicas] for node in nodes])
    assert ends == [[ran[r, node][1] for r in replicas] for node in nodes]
    assert sorted(op for unit in graph.units for op in unit.members) == [*range(len(nodes))]


def operation(job: MadeJob, node: Node, start: float, end: float) -> Operation:
    stage, kind, number = node
    return Operation(stage, kind, number, max(job.place[node][0], 0), start, end)


F, B = "forward-compute", "backward-compute"


def named(*rows: tuple[int, str, float, float], chunks: Sequence[int] = ()) -> list[Operation]:
    """Operations of stages, kinds, begins and ends. `chunks`: of each, else 0."""
    seen: dict[tuple[int, str], int] = {}
    made = []
    for (stage, kind, start, end), chunk in zip(rows, chunks or [0] * len(rows), strict=True):
        number = seen[stage, kind] = seen.get((stage, kind), -1) + 1
        made.append(Operation(stage, kind, number, chunk, start, end))
    return made


def test_transfers_without_a_compute_wait_for_no_compute() -> None:
    """A profiler recorded a receive after the last compute, and a send before the first had ended."""
    one = [(0, F, 0.0, 1.0), (0, "forward-send", 1.0, 2.0), (1, "forward-recv", 1.0, 2.0), (1, F, 2.0, 3.0)]
    plain = step_graph(named(*one))
    assert plain.after == ((), (0,), (), (2,))
    assert Unit((1, 2)) in plain.units
    more = step_graph(named(*one, (1, "forward-recv", 2.1, 9.0), (1, "forward-recv", 2.2, 9.0)))
    assert more.after == (*plain.after, (2,), (4,))  # each only for the transfer before
    late = [(0, "forward-send", 0.1, 0.9), (0, F, 0.0, 1.0), (0, "forward-send", 1.0, 2.0)]
    early = step_graph(named(*late, (1, "forward-recv", 1.0, 2.0), (1, F, 2.0, 3.0)))
    assert early.after == ((), (), (0, 1), (), (3,))


@pytest.mark.parametrize(("begin", "counts"), [(2.0, True), (2.00004, True), (2.00006, False)])
def test_a_receive_belongs_to_a_compute_that_begins_with_it(begin: float, counts: bool) -> None:
    rows = [(0, F, 0.0, 1.0), (0, "forward-send", 1.0, 2.0), (1, "forward-recv", begin, 2.5), (1, F, 2.0, 3.0)]
    if counts:
        assert Unit((1, 2)) in step_graph(named(*rows)).units
    else:
        with pytest.raises(ModelError, match="stage 1 has 0 of forward-recv, and 1 computes that need one"):
            step_graph(named(*rows))


@pytest.mark.parametrize(("end", "counts"), [(0.99996, True), (0.99994, False)])
def test_a_send_belongs_to_a_compute_that_ends_with_it(end: float, counts: bool) -> None:
    rows = [(0, F, 0.0, 1.0), (0, "forward-send", 0.5, end), (0, "forward-send", 1.5, 1.6)]
    rows += [(1, "forward-recv", 1.0, 1.6), (1, F, 2.0, 3.0)]
    if counts:
        with pytest.raises(ModelError, match="stage 0 has 2 of forward-send, and 1 computes that need one"):
            step_graph(named(*rows))
    else:
        assert Unit((2, 3)) in step_graph(named(*rows)).units


def test_one_transfer_fewer_than_computes_is_that_at_the_end_of_the_model() -> None:
    """Two chunks, two micro-batches. The first receive and the last send move nothing: they are not recorded."""
    begins = ((0.0, 1.0, 4.0, 5.0), (2.0, 3.0, 6.0, 7.0))
    rows = [(stage, F, begin, begin + 1) for stage in (0, 1) for begin in begins[stage]]
    rows += [(0, "forward-recv", begin - 0.5, begin) for begin in begins[0][1:]]
    rows += [(0, "forward-send", begin + 1, begin + 1.5) for begin in begins[0]]
    rows += [(1, "forward-recv", begin - 0.5, begin) for begin in begins[1]]
    rows += [(1, "forward-send", begin + 1, begin + 1.5) for begin in begins[1][:-1]]
    graph = step_graph(named(*rows, chunks=[0, 0, 1, 1, 0, 0, 1, 1, *[0] * 14]))
    assert graph.after[:4] == ((), (0, 8), (1, 9), (2, 10))
    assert graph.after[19:] == ((4,), (5, 19), (6, 20))
    pairs = {unit.members for unit in graph.units if len(unit.members) > 1}
    assert pairs == {(11, 15), (12, 16), (13, 17), (14, 18), (19, 9), (20, 10)}


def test_chunks_of_a_single_stage_exchange_nothing() -> None:
    assert step_graph(named((0, F, 0.0, 1.0), (0, F, 1.0, 2.0), chunks=[0, 1])).after == ((), (0,))


def test_a_send_without_a_receive_is_an_error() -> None:
    rows = [(0, F, 0.0, 1.0), (0, "forward-send", 1.0, 2.0), (1, F, 2.0, 3.0)]
    with pytest.raises(ModelError, match="stage 1 has 0 of forward-recv"):
        step_graph(named(*rows))
    backward = [(0, B, 2.0, 3.0), (0, "backward-recv", 1.0, 2.0), (1, "gc", 0.0, 1.0)]
    with pytest.raises(ModelError, match="stage 1 sends 0 times backward, and stage 0 receives 1 times"):
        step_graph(named(*backward))


def test_the_first_backward_transfer_waits_for_the_second_last_forward() -> None:
    """It is launched while the last forward before the first backward runs."""
    rows = [(0, F, float(k), k + 1.0) for k in range(3)] + [(0, B, 5.0, 6.0), (0, "backward-recv", 2.5, 5.0)]
    rows += [(0, "forward-send", k + 1.0, k + 1.5) for k in range(3)]
    rows += [(1, F, 4.0, 4.2), (1, B, 4.2, 4.4), (1, "backward-send", 4.4, 5.0)]
    rows += [(1, F, 5.0, 5.5), (1, F, 6.0, 6.5)]
    rows += [(1, "forward-recv", 1.0, 1.5), (1, "forward-recv", 2.0, 2.5), (1, "forward-recv", 3.0, 3.5)]
    assert step_graph(named(*rows)).after[4] == (1,)
    assert step_graph(named(*rows)).after[3] == (2, 4)


def test_the_first_backward_transfer_after_two_forwards_waits_for_the_first() -> None:
    rows = [(0, F, 0.0, 1.0), (0, F, 1.0, 2.0), (0, B, 3.0, 4.0), (0, "backward-recv", 1.5, 3.0)]
    rows += [(0, "forward-send", 1.0, 1.5), (0, "forward-send", 2.0, 2.5)]
    rows += [(1, "forward-recv", 1.0, 1.5), (1, F, 1.5, 1.7), (1, B, 1.7, 1.8), (1, "backward-send", 1.8, 3.0)]
    rows += [(1, "forward-recv", 2.0, 2.5), (1, F, 2.5, 3.0)]
    assert step_graph(named(*rows)).after[3] == (0,)


def test_gradients_are_reduced_during_the_backward_only_if_some_are_left_for_the_end() -> None:
    rows = [(0, F, 0.0, 1.0), (0, B, 1.0, 3.0), (0, "grads-reduce-scatter", 2.0, 4.0), (0, "gc", 3.0, 3.1)]
    rows += [(0, "optimizer", 5.0, 6.0)]
    assert step_graph(named(*rows)).after == ((), (0,), (3,), (1,), (2,))
    rows += [(0, "separate-grads-all-reduce", 4.0, 5.0)]
    overlapped = step_graph(named(*rows))
    assert overlapped.after == ((), (0,), (1,), (1,), (5,), (2, 3))
    assert {unit.members[0] for unit in overlapped.units if unit.meets} == {2, 5}  # of all replicas


def test_sides_of_a_communication_begin_together() -> None:
    rows = [(0, F, 0.0, 1.0), (1, F, 2.0, 3.0)]
    rows += [(stage, kind, 3.0, 4.0) for kind in ("embedding-grads-all-reduce", "optimizer-clip-main-grad")
             for stage in (0, 1)]  # fmt: skip
    rows += [(0, "forward-send", 1.0, 2.0), (1, "forward-recv", 1.0, 1.5)]
    graph = step_graph(named(*rows))
    assert {(unit.members, unit.meets) for unit in graph.units if len(unit.members) > 1} == {
        ((2, 3), False), ((4, 5), True), ((6, 7), False),
    }  # fmt: skip


def test_operations_that_wait_for_each_other_are_an_error() -> None:
    units = [Unit((0,)), Unit((1, 2)), Unit((3,))]
    graph = in_order([(3,), (), (), ()], units)
    assert graph.units == (units[1], units[2], units[0])
    assert in_order([(), (0,), (0,), (1, 2)], units).units == tuple(units)
    with pytest.raises(ModelError, match="wait for each other"):
        in_order([(3,), (), (), (0,)], units)
