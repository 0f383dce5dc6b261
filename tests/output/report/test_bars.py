"""Bars of a report: where each begins and ends, its texts, and which are left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.metrics.step_time.breakdown import UNTIMED
from perflog.metrics.step_time.waterfall import BARS
from perflog.output.report.bars import where_the_difference_went, where_the_operators_differ, where_the_time_goes
from perflog.output.report.cells import Bar, HeaderCell, Number, Part

COMPUTE, WAITS = "compute", "waits"


def row(bar: str, seconds: float, share: float | None, run: str = "r0", **more: Any) -> dict[str, Any]:
    return {"bar": bar, "run": run, "of": "step", "time_s": seconds, "of_steady": share, "doubt": None, **more}


def report(*rows: dict[str, Any], runs: int = 1, parts: Any = (), figures: Any = ()) -> Any:
    named = [f"r{k}" for k in range(runs)]
    return SimpleNamespace(
        rows_of=lambda name: rows if name == "waterfall" else (), runs=named, names={run: run.upper() for run in named},
        overview=SimpleNamespace(parts=parts, figures=[SimpleNamespace(name=name) for name in figures]),
    )  # fmt: skip


def bar(start: float, end: float, seconds: float, *texts: str) -> Any:
    """A bar that is compared up to rounding."""
    begin: Any = pytest.approx(start)
    stop: Any = pytest.approx(end)
    return Bar(begin, stop, seconds, texts)


def test_the_bars_of_a_run_follow_one_another_in_their_order() -> None:
    table = where_the_time_goes(report(row(WAITS, 0.25, 0.25), row(COMPUTE, 0.75, 0.75), row("idle", 0.5, None)))
    assert table is not None and table.heads == [
        HeaderCell("where the time goes"), HeaderCell("step 1 s", number=True)
    ]  # fmt: skip
    assert table.rows == [
        [Part(COMPUTE, meaning=BARS[COMPUTE]), bar(0, 0.75, 0.75, "750 ms", "75.0 %")],
        [Part(WAITS, meaning=BARS[WAITS]), bar(0.75, 1, 0.25, "250 ms", "25.0 %")],
    ]
    assert table.note.endswith("! marks a doubt.")


def test_runs_are_side_by_side_at_one_scale() -> None:
    """A bar that one of them lacks is empty; a doubt of either marks both; a tiny bar moves those after it."""
    rows = [
        row(COMPUTE, 1.0, 0.996, doubt="guessed"), row("idle", 0.004, 0.004),
        row(COMPUTE, 1.5, 0.75, "r1", doubt="guessed"), row(WAITS, 0.498, 0.249, "r1", doubt="late"),
        row("idle", 0.002, 0.001, "r1"),
    ]  # fmt: skip
    table = where_the_time_goes(report(*rows, runs=2))
    assert table is not None and [head.name for head in table.heads[1:]] == ["R0: step 1.004 s", "R1: step 2 s"]
    assert table.rows == [
        [Part(f"{COMPUTE} !", meaning=f"{BARS[COMPUTE]}. Doubt: guessed"),
         bar(0, 0.5, 1.0, "1 s", "99.6 %"), bar(0, 0.75, 1.5, "1.5 s", "75.0 %")],
        [Part(f"{WAITS} !", meaning=f"{BARS[WAITS]}. Doubt: late"), None, bar(0.75, 0.999, 0.498, "498 ms", "24.9 %")],
    ]  # fmt: skip
    shown = where_the_time_goes(report(*rows[:2], row("idle", 0.1, 0.005, "r1"), row(WAITS, 1, 0.9, "r1"), runs=2))
    assert shown is not None and [cells[0].name for cells in shown.rows] == [f"{COMPUTE} !", WAITS, "idle"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("figures", "rows", "is_told"),
    [((UNTIMED,), ["unattributed"], True), ((UNTIMED,), [COMPUTE], False), (("x",), ["unattributed"], False)],
)
def test_what_unattributed_means_is_told_beside_the_untimed_time(
    figures: tuple[str, ...], rows: list[str], is_told: bool
) -> None:
    table = where_the_time_goes(report(*(row(name, 1.0, 1.0) for name in rows), figures=figures))
    assert table is not None and ("Unattributed is the untimed time" in table.note) is is_told


def part(name: str, seconds: float, share: float) -> Any:
    return SimpleNamespace(name=name, seconds=seconds, share=share)


@pytest.mark.parametrize(
    "rows",
    [
        [], [row(COMPUTE, 1.0, None)], [row(COMPUTE, 1.0, 1.0, f"r{k}") for k in range(7)],
        [row(COMPUTE, 1.0, 1.0), row(COMPUTE, 2.0, 1.0, of="trace")],  # two wholes
    ],
)  # fmt: skip
def test_without_a_waterfall_the_parts_of_the_first_run_are_bars(rows: list[dict[str, Any]]) -> None:
    parts = [part("forward", 0.5, 0.625), part("tiny", 0.01, 0.0049), part("small", 0.01, 0.005)]
    table = where_the_time_goes(report(*rows, runs=7, parts=parts))
    assert table is not None and [head.name for head in table.heads] == ["where the time goes", "share", "time", ""]
    assert table.rows == [
        ["forward", Number(0.625, "62.5 %"), Number(0.5, "500 ms"), Bar(0.0, 0.625)],
        ["small", Number(0.005, "0.5 %"), Number(0.01, "10 ms"), Bar(0.0, 0.005)],
    ]
    assert where_the_time_goes(report(*rows, runs=7, parts=parts[1:2])) is None
    many = where_the_time_goes(report(*rows, runs=7, parts=parts[:1] * 30))
    assert many is not None and len(many.rows) == 24


def test_six_runs_are_side_by_side() -> None:
    table = where_the_time_goes(report(*(row(COMPUTE, 1.0, 1.0, f"r{k}") for k in range(6)), runs=6))
    assert table is not None and len(table.heads) == 7


def piece(name: str, depth: int, base: float, difference: float, share: float | None = 0.5, **more: Any) -> Any:
    known = {"case": "c", "side": "new", "kind": "part", "of": "step"} | more
    return SimpleNamespace(
        part=name, depth=depth, base_s=base, side_s=base + difference, difference_s=difference, share=share, **known
    )


def comparison(*pieces: Any, changes: tuple[float, ...] = (0.1,), **more: Any) -> Any:
    headlines = [
        SimpleNamespace(case="c", side=side, change=change)
        for side, change in zip(("new", "other"), changes, strict=False)
    ]
    return SimpleNamespace(headlines=headlines, attribution_records=pieces, sides=("base", "new", "other"), **more)


TREE = (
    piece("step", 0, 1.0, 0.3, None), piece("forward", 1, 0.5, 0.2), piece("attention", 2, 0.3, 0.15),
    piece("mlp", 2, 0.2, 0.05), piece("tiny", 1, 0.1, 0.0049), piece("wait", 1, 0.3, -0.1),
    piece("copy", 1, 0.1, 0.005),
)  # fmt: skip


def test_where_a_difference_went_is_a_tree_of_bars() -> None:
    """Each begins where the one before it ends, the first below a part where that begins. Small parts have no bar."""
    table = where_the_difference_went(comparison(*TREE))
    assert table is not None and table.title == "where the difference went" and table.note.startswith("Differences of")
    names = ["where the difference went", "difference", "base", "new", "share", ""]
    assert table.heads == [HeaderCell(name, number=name in names[1:5]) for name in names]
    assert table.rows[0][:5] == [
        Part("step"), Number(0.3, "300 ms"), Number(1.0, "1 s"), Number(1.3, "1.3 s"), Number(None, "-")
    ]  # fmt: skip
    bars: list[Any] = [(cells[0], cells[5]) for cells in table.rows]
    found = [(name.name, name.depth, each.start * 0.3, each.end * 0.3, each.better) for name, each in bars]
    assert found == [
        (name, depth, pytest.approx(start), pytest.approx(end), better)
        for name, depth, start, end, better in (
            ("step", 0, 0, 0.3, False), ("forward", 1, 0, 0.2, False), ("attention", 2, 0, 0.15, False),
            ("mlp", 2, 0.15, 0.2, False), ("wait", 1, 0.2, 0.1, True), ("copy", 1, 0.1, 0.105, False),
        )
    ]  # fmt: skip


def test_the_difference_is_of_the_side_that_changed_most() -> None:
    """Of the first kind of its parts; none without a tree or without a time of the base."""
    others = [piece("step", 0, 2.0, -0.5, side="other"), piece("x", 1, 1.0, -0.5, side="other"),
              piece("y", 1, 1.0, 0.5, side="other", kind="range")]  # fmt: skip
    table = where_the_difference_went(comparison(*TREE, *others, changes=(0.1, -0.2)))
    assert table is not None and table.heads[3].name == "other"
    assert [cells[0] for cells in table.rows] == [Part("step"), Part("x", 1)]
    bars: list[Any] = [cells[5] for cells in table.rows]
    assert [(each.start, each.end) for each in bars] == [(1.0, 0.0)] * 2  # from 0 down
    assert where_the_difference_went(comparison(*TREE, changes=())) is None
    assert where_the_difference_went(comparison(*TREE[:1])) is None
    assert where_the_difference_went(comparison(piece("step", 0, 0.0, 0.3), TREE[1])) is None
    equal = where_the_difference_went(comparison(piece("step", 0, 1.0, 0.0)))
    assert equal is None
    many = where_the_difference_went(comparison(TREE[0], *(piece("p", 1, 1, 0.1) for _ in range(30))))
    assert many is not None and len(many.rows) == 24


def test_operators_have_their_shapes_and_kernels() -> None:
    kernels: dict[str, Any] = {"base_kernels": "gemm", "side_kernels": "gemm"}
    rows = [
        piece("step", 0, 1.0, 0.5, operator="step", shapes="", **kernels),
        piece("step", 1, 0.5, 0.5, operator="mm" * 40, shapes="[2, 3]", base_kernels="a", side_kernels="b"),
        piece("step", 0, 1.0, 0.5, operator="step", shapes="", side="other", **kernels),
    ]  # fmt: skip
    table = where_the_operators_differ(comparison(operator_records=rows))
    assert table is not None and table.has_long_names and table.heads[-1] == HeaderCell("kernels")
    assert table.title == "GPU time by operator, a step"
    first, second = table.rows
    assert first[-1] == "gemm" and second[-1] == "a -> b"
    assert isinstance(second[0], Part) and (len(second[0].name), second[0].depth) == (60, 1)
    assert second[0].name.endswith("m [2, 3]")
    assert where_the_operators_differ(comparison(operator_records=())) is None
    assert where_the_operators_differ(comparison(operator_records=rows[:1])) is None
