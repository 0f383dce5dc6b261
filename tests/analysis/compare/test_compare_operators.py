"""Operators of two traces: against a walk through both files, sums of each level, kernels and shapes that changed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support.field_logs import CORPUS, needs_corpus
from support.memory_traces import MIB, Allocator, write
from support.raw_operator_places import Walk

import perflog
from perflog.analysis.compare import Comparison
from perflog.analysis.compare.explanations.operators import ALL_WORK, ITSELF, OperatorRow, moved_most
from perflog.analysis.overview.reasons import why_slower
from perflog.cli.main import main
from perflog.metrics import Options, Tables
from perflog.output.report import collect, to_html, to_markdown

HTA = "torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{}.json.gz"
Call = tuple[str, list[list[int]], str, float]
"""Operator, shapes of its inputs, kernel, time of the kernel in us."""


def program(*calls: Call, steps: int = 4, first: int = 3, around: str = "forward") -> Allocator:
    """Steps in whose forward these operators are called, each inside of `aten::linear` of the same shapes."""
    made = Allocator()
    for number in range(steps):
        step, forward = made.begin(), made.begin()
        for name, shapes, kernel, length in calls:
            outer = made.begin()
            made.operator(name, MIB, kernel, length)
            made.events[-1]["args"] = {"Input Dims": shapes}
            made.around("cpu_op", "aten::linear", outer, **{"Input Dims": shapes})
        made.around("user_annotation", around.format(number), forward)
        made.now += 500
        made.around("user_annotation", f"ProfilerStep#{number + first}", step)
    return made


def compared(folder: Path, base: Allocator, side: Allocator) -> Comparison:
    paths = [write(folder / f"{name}.json", made) for name, made in (("base", base), ("side", side))]
    return perflog.compare(*map(str, paths), warmup=0, draws=100)


def levels_add_up(rows: list[OperatorRow]) -> None:
    """Each row is the sum of the rows one level below it."""
    for place, row in enumerate(rows):
        below = []
        for other in rows[place + 1 :]:
            if other.depth <= row.depth:
                break
            below += [other] if other.depth == row.depth + 1 else []
        for column in ("base_s", "side_s", "difference_s"):
            if below:
                assert sum(getattr(each, column) for each in below) == pytest.approx(getattr(row, column), abs=1e-15)
    assert all(row.difference_s == pytest.approx(row.side_s - row.base_s, abs=1e-15) for row in rows)


def named(rows: Sequence[OperatorRow], name: str) -> OperatorRow:
    (row,) = [row for row in rows if row.operator == name]
    return row


MM, BIG = [[64, 32], [32, 64]], [[128, 32], [32, 64]]


def test_a_kernel_that_changed_is_matched_by_its_operator(tmp_path: Path) -> None:
    calls = ("aten::mm", MM), ("aten::add", [[64, 64], [64, 64]])
    base = program((*calls[0], "ampere_sgemm_128x64_tn", 31), (*calls[1], "add_kernel", 5))
    side = program((*calls[0], "cutlass_80_tensorop_gemm", 22), (*calls[1], "add_kernel", 5), first=90)
    result = compared(tmp_path, base, side)
    rows = list(result.operator_records)
    levels_add_up(rows)
    row = named(rows, "aten::mm")
    assert (row.shapes, row.base_calls, row.side_calls, row.only) == ("64x32, 32x64", 1, 1, None)
    assert (row.base_s, row.side_s) == pytest.approx((31e-6, 22e-6))
    assert (row.base_kernels, row.side_kernels) == ("ampere_sgemm_128x64_tn", "cutlass_80_tensorop_gemm")
    assert row.share == pytest.approx(1) and row.path == "ProfilerStep#N > forward > aten::linear > aten::mm"
    assert rows[0].operator == ALL_WORK and rows[0].difference_s == pytest.approx(-9e-6)
    (measured,) = [r for r in result.row_records if r.kind == "operator" and "aten::mm" in r.metric]
    assert measured.metric.endswith("aten::linear > aten::mm 64x32, 32x64")
    assert measured.change == pytest.approx(22 / 31 - 1) and measured.verdict.endswith("improvement")
    screen = CliRunner().invoke(main, ["compare", str(tmp_path / "base.json"), str(tmp_path / "side.json")]).output
    assert re.search(r"aten::mm 64x32, 32x64 +31 us -> +22 us +-9 us\n +ampere_sgemm_128x64_tn -> cut", screen)


def test_kernels_whose_times_changed_places_are_the_same(tmp_path: Path) -> None:
    base, side = (program(("aten::mm", MM, "a", a), ("aten::mm", MM, "b", b)) for a, b in ((30, 20), (20, 31)))
    rows = compared(tmp_path, base, side).operator_records
    row = named(rows, "aten::mm")
    assert row.base_kernels == row.side_kernels == "b, a"


def test_a_change_of_the_shapes_and_operators_of_one_side(tmp_path: Path) -> None:
    base = program(("aten::mm", MM, "gemm", 10), ("aten::gelu", [[64]], "gelu", 4))
    side = program(("aten::mm", BIG, "gemm", 20), ("aten::relu", [[64]], "relu", 3))
    rows = list(compared(tmp_path, base, side).operator_records)
    levels_add_up(rows)
    row = named(rows, "aten::mm")
    assert row.shapes == "64x32, 32x64 -> 128x32, 32x64"
    gone, new = named(rows, "aten::gelu"), named(rows, "aten::relu")
    assert (gone.only, gone.base_calls, gone.side_calls, gone.side_s) == ("base", 1, None, 0)
    assert (new.only, new.base_calls, new.side_calls, new.base_s) == ("side", None, 1, 0)


def test_ranges_that_differ_in_their_numbers_are_one(tmp_path: Path) -> None:
    base = program(("aten::mm", MM, "gemm", 10), around="batch 1{}")
    side = program(("aten::mm", MM, "gemm", 12), around="batch 2{}")
    rows = list(compared(tmp_path, base, side).operator_records)
    levels_add_up(rows)
    assert [row.operator for row in rows] == [ALL_WORK, "ProfilerStep#N", "batch N", "aten::linear", "aten::mm"]
    assert [row.only for row in rows] == [None] * 5
    assert rows[-1].base_calls == rows[-1].side_calls == 1


def test_what_an_operator_launches_itself_has_a_row_of_its_own(tmp_path: Path) -> None:
    made = []
    for length in (7, 9):
        each = Allocator()
        for number in range(3):
            step, outer = each.begin(), each.begin()
            each.operator("aten::copy_", MIB, "copy", 3)
            launch = each.operator("inner", MIB, "direct", length)
            assert launch
            del each.events[-1]  # the call itself: its kernel is launched by what is around it
            each.around("cpu_op", "aten::cat", outer)
            each.now += 200
            each.around("user_annotation", f"ProfilerStep#{number}", step)
        made.append(each)
    rows = list(compared(tmp_path, *made).operator_records)
    levels_add_up(rows)
    itself = named(rows, ITSELF)
    assert (itself.base_s, itself.side_s) == pytest.approx((7e-6, 9e-6))
    assert itself.path == "ProfilerStep#N > aten::cat > (itself)"
    (moved,) = moved_most(rows, 5)
    assert (moved.operator, moved.places) == ("aten::cat", 1) and moved.difference_s == pytest.approx(2e-6)


def test_a_range_and_an_operator_of_one_name_are_two(tmp_path: Path) -> None:
    made = []
    for kernel in ("gemm", "other"):
        each = Allocator()
        for number in range(3):
            step = each.begin()
            for category, length in (("user_annotation", 10), ("cpu_op", 7)):
                outer = each.begin()
                each.operator("aten::mm", MIB, kernel, length)
                each.around(category, "attn", outer)
            each.around("user_annotation", f"ProfilerStep#{number}", step)
        made.append(each)
    rows = list(compared(tmp_path, *made).operator_records)
    levels_add_up(rows)
    assert rows[0].base_s == rows[0].side_s == pytest.approx(17e-6)
    found = {row.kind: row.base_s for row in rows if row.operator == "attn"}
    assert found == {"range": pytest.approx(10e-6), "operator": pytest.approx(7e-6)}


def test_ranges_nested_deeper_than_calls_may_be(tmp_path: Path) -> None:
    """As a program writes them whose ranges recurse, or lack their ends."""
    for name, kernel, length in (("base", "gemm", 10), ("side", "other", 20)):
        made = Allocator()
        step = made.begin()
        begins = [made.begin() for _ in range(1_200)]
        made.operator("aten::mm", MIB, kernel, length)
        for depth, begin in reversed(list(enumerate(begins))):
            made.around("user_annotation", f"level{depth % 7}{'abc'[depth % 3]}", begin)
        made.around("user_annotation", "ProfilerStep#3", step)
        write(tmp_path / f"{name}.json", made)
    paths = [str(tmp_path / f"{name}.json") for name in ("base", "side")]
    result = CliRunner().invoke(main, ["compare", *paths, "--warmup", "0"], catch_exceptions=False)
    assert result.exit_code == 0 and "gemm -> other" in result.output
    rows = list(perflog.compare(*paths, warmup=0, draws=50).operator_records)
    assert (rows[-1].depth, rows[-1].operator) == (1_202, "aten::mm")
    assert rows[0].difference_s == rows[-1].difference_s == pytest.approx(10e-6)


_CALL = st.tuples(
    st.sampled_from(["aten::mm", "aten::add", "aten::bmm"]), st.sampled_from([MM, BIG, [[8], []], []]),
    st.sampled_from(["a", "b", "c"]), st.integers(1, 50).map(float),
)  # fmt: skip


@settings(max_examples=5, deadline=None)
@given(base=st.lists(_CALL, min_size=1, max_size=8), side=st.lists(_CALL, min_size=1, max_size=8))
def test_each_level_adds_up_to_the_difference(
    tmp_path_factory: pytest.TempPathFactory, base: list[Call], side: list[Call]
) -> None:
    result = compared(tmp_path_factory.mktemp("sides"), program(*base), program(*side, first=50))
    rows = list(result.operator_records)
    levels_add_up(rows)
    assert rows[0].base_s == pytest.approx(sum(call[3] for call in base) * 1e-6)
    assert rows[0].side_s == pytest.approx(sum(call[3] for call in side) * 1e-6)
    of_names = {side: defaultdict[str, float](float) for side in ("base_s", "side_s")}
    for row in rows:
        if row.operator in ("aten::mm", "aten::add", "aten::bmm"):
            for column, sums in of_names.items():
                sums[row.operator] += getattr(row, column)
    for column, calls in (("base_s", base), ("side_s", side)):
        wanted = defaultdict[str, float](float)
        for name, _, _, length in calls:
            wanted[name] += length * 1e-6
        assert {n: s for n, s in of_names[column].items() if s} == pytest.approx(dict(wanted))
    names = [row.metric for row in result.row_records if row.kind == "operator"]
    assert len(names) == len(set(names))


@needs_corpus
def test_real_traces_against_the_walk() -> None:
    paths = [CORPUS / HTA.format(rank) for rank in (0, 1)]
    result = perflog.compare(*map(str, paths), warmup=0, draws=50)
    rows = list(result.operator_records)
    levels_add_up(rows)
    following = [*(row.depth for row in rows[1:]), 0]
    innermost = [row for row, depth in zip(rows, following, strict=True) if depth <= row.depth]
    for column, path in zip(("base_s", "side_s"), paths, strict=True):
        walk = Walk(path, in_steps=True)
        wanted, found = defaultdict[str, float](float), defaultdict[str, float](float)
        for place, time in walk.times.items():
            wanted[_path(" > ".join(name for name, _ in place))] += time / walk.steps / 1e9
        for row in innermost:
            found[_path(str(row.path).removesuffix(f" > {ITSELF}"))] += getattr(row, column)
        assert {p: s for p, s in found.items() if s} == pytest.approx({p: s for p, s in wanted.items() if s})
        assert getattr(rows[0], column) == pytest.approx(sum(wanted.values()))
    assert {row.only for row in rows} == {None, "base", "side"}
    largest = max(rows, key=lambda row: abs(row.difference_s))
    moved = moved_most(rows, 3)
    assert abs(moved[0].difference_s) >= 0.9 * abs(largest.difference_s)
    assert [row.operator for row in moved[:2]] == ["nccl:all_to_all", "nccl:all_reduce"]


def _path(path: str) -> str:
    """Operators that differ in their numbers may have become one."""
    return re.sub(r"\d+", "N", path)


def test_the_report_has_the_tree(tmp_path: Path) -> None:
    base = program(("aten::mm", MM, "ampere_sgemm", 31), ("aten::add", [[4]], "add", 9))
    side = program(("aten::mm", MM, "cutlass_gemm", 22), ("aten::add", [[4]], "add", 9))
    paths = [write(tmp_path / f"{name}.json", made) for name, made in (("base", base), ("side", side))]
    report = collect(*map(str, paths), draw=False)
    page, text = re.sub("<[^>]*>", "", to_html(report)), to_markdown(report)
    assert "GPU time by operator, a step" in page and "ampere_sgemm -&gt; cutlass_gemm" in page
    assert "GPU time by operator, a step" in text and "aten::mm" in text


def reasons(folder: Path) -> list[str]:
    """Why one trace is slower than another one, also if no figure says that it is."""
    tables = Tables(perflog.find_runs(str(folder)))
    runs = [str(run) for run in tables.rows("runs")["run"]]
    return list(why_slower(tables, runs[0], runs[1], ("A", "B"), Options()))


def without_steps(made: Allocator) -> Allocator:
    made.events = [event for event in made.events if not event["name"].startswith("ProfilerStep")]
    return made


def test_without_steps_the_times_are_of_the_whole_trace(tmp_path: Path) -> None:
    for name, calls in (("base", 1), ("side", 9)):
        made = program(*[("aten::mm", MM, f"gemm_{name}", 10.0 * calls)] * calls)
        write(tmp_path / f"{name}.json", without_steps(made))
    paths = [str(tmp_path / f"{name}.json") for name in ("base", "side")]
    rows = list(perflog.compare(*paths, draws=50).operator_records)
    assert {row.part for row in rows} == {"trace"}
    assert (rows[0].base_s, rows[0].side_s) == pytest.approx((4e-5, 4 * 9 * 9e-5))
    assert (rows[-1].base_calls, rows[-1].side_calls) == (4, 36)
    screen = CliRunner().invoke(main, ["compare", *paths]).output
    assert "Largest changes of GPU time by operator, whole trace" in screen
    everything = CliRunner().invoke(main, ["compare", *paths, "--all"]).output
    assert "GPU time by operator, whole trace: side.json" in everything
    page = to_html(collect(*paths, draw=False))
    assert "GPU time by operator, whole trace" in page and "GPU time by operator on both sides, whole trace" in page
    (reason,) = reasons(tmp_path)
    assert reason.startswith("GPU time by operator, A -> B, whole trace: aten::mm")


@pytest.mark.parametrize("steps_on", ["base", "side"])
def test_a_step_is_not_compared_with_a_whole_trace(tmp_path: Path, steps_on: str) -> None:
    for name in ("base", "side"):
        made = program(("aten::mm", MM, "gemm", 10))
        write(tmp_path / f"{name}.json", made if name == steps_on else without_steps(made))
    paths = [str(tmp_path / f"{name}.json") for name in ("base", "side")]
    result = perflog.compare(*paths, warmup=0, draws=50)
    assert not result.operator_records
    assert not {row.kind for row in result.row_records} & {"kernel", "range", "operator", "path", "device", "idle"}
    (warning,) = [text for text in result.warnings if "annotated steps" in text]
    assert warning.startswith({"base": "side", "side": "base"}[steps_on])
    assert not any("by operator" in line for line in reasons(tmp_path))


def test_the_overview_names_the_operators_of_a_slower_trace(tmp_path: Path) -> None:
    base = program(("aten::mm", MM, "gemm", 10), steps=8)
    side = program(*[("aten::mm", MM, "gemm_slow", 100.0)] * 9, steps=8)
    for name, made in (("base", base), ("side", side)):
        write(tmp_path / f"{name}.json", made)
    (text,) = [line for line in perflog.overview(perflog.find_runs(str(tmp_path))).reasons if "operator" in line]
    told = "aten::mm 64x32, 32x64: 10 us -> 900 us (gemm -> gemm_slow)."
    assert text == f"GPU time by operator, A -> B, a step: {told}"
