"""Curves: first, last, smallest, largest value of printed series, and their values at an equal step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.metrics import Tables, curves
from perflog.metrics.series.curves import printed_counts
from perflog.tables.nulls import records
from perflog.tables.schema import TABLES


def tables(**values_of_runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tables of runs with rows of `values`; a row without a line has its place as line."""
    import pandas as pd

    blank = {c.name: None for c in TABLES["values"]} | {"part": 0}
    runs = [{c.name: None for c in TABLES["runs"]} | {"run": run, "label": f"run {run}"} for run in values_of_runs]
    rows = [
        blank | {"run": run, "line": line} | row
        for run, values in values_of_runs.items()
        for line, row in enumerate(values, 1)
    ]
    return {"runs": pd.DataFrame(runs), "values": pd.DataFrame(rows)}


def series(key: str, *points: tuple[int, float]) -> list[dict[str, Any]]:
    return [{"key": key, "step": step, "value": value} for step, value in points]


def test_a_series_has_its_ends_and_its_extremes() -> None:
    (row,) = records(curves(tables(a=series("val_loss", (0, 9.0), (10, 3.5), (20, 3.25), (30, 3.75)))))
    assert row == {
        "run": "a", "label": "run a", "key": "val_loss", "of": "curve", "place": None, "unit": None, "n": 4,
        "first": 9.0, "last": 3.75, "last_step": 30, "min": 3.25, "min_step": 20, "max": 9.0, "max_step": 0,
        "equal_step": None, "at_equal_step": None, "first_line": 1, "last_line": 4,
    }  # fmt: skip


def test_the_order_of_rows_is_that_of_their_lines() -> None:
    values = [row | {"line": line} for line, row in enumerate(series("a", (0, 9.0), (1, 3.5), (2, 3.25), (3, 3.75)), 1)]
    in_order = records(curves(tables(a=values)))
    for order in ((3, 2, 1, 0), (0, 3, 1, 2), (1, 0, 3, 2)):
        assert records(curves(tables(a=[values[k] for k in order]))) == in_order


def test_the_cells_of_a_table_of_cases_are_no_curves(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("kernel,size,GB/s\n" + "".join(f"{k},{n},{n / 7:.2f}\n" for k in ("a", "b") for n in (8, 16, 64)))
    table = curves(perflog.read(path))
    assert set(table["key"]) >= {"size"} and set(table["of"]) == {"case"}


def test_runs_of_different_length_meet_at_the_last_step_that_both_print() -> None:
    """The longer run is at 2.0 at its end, but at 3.0 where the shorter one is at 2.5."""
    table = curves(
        tables(a=series("loss", (10, 4.0), (20, 3.0), (30, 2.0)), b=series("loss", (10, 3.5), (20, 2.5), (25, 2.4)))
    )
    assert table["last"].to_list() == [2.0, 2.4]
    assert table["equal_step"].to_list() == [20, 20] and str(table["equal_step"].dtype) == "Int64"
    assert table["at_equal_step"].to_list() == [3.0, 2.5]


def test_a_series_that_one_run_lacks_has_the_equal_step_of_the_others() -> None:
    table = curves(
        tables(a=series("acc", (1, 0.1), (2, 0.2)), b=series("acc", (1, 0.3)), c=series("loss", (1, 7.0), (2, 6.0)))
    )
    assert dict(zip(table["run"], table["equal_step"].fillna(-1), strict=True)) == {"a": 1, "b": 1, "c": -1}


def test_without_a_common_step_there_is_no_equal_step() -> None:
    table = curves(tables(a=series("loss", (1, 3.0)), b=series("loss", (2, 2.0))))
    assert table["at_equal_step"].isna().all() and len(table) == 2


def test_a_step_printed_again_counts_as_it_was_printed_last() -> None:
    table = curves(tables(a=series("loss", (1, 3.0), (1, 2.9)), b=series("loss", (1, 2.0))))
    assert table["at_equal_step"].to_list() == [2.9, 2.0]


def test_a_series_without_steps_keeps_its_values() -> None:
    rows = [{"key": "eval_accuracy", "value": value} for value in (0.94, 0.92)]
    (row,) = records(curves(tables(a=rows)))
    assert (row["first"], row["last"], row["last_step"], row["min"], row["min_step"]) == (0.94, 0.92, None, 0.92, None)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3], "counter"),
        ([0, 1536, 1536, 1920], "counter"),
        ([1, 2, 3, 1, 2, 3], "counter"),  # batches of two epochs
        ([3, 4, 2, 3, 4], "counter"),  # the log begins inside an epoch
        ([1, 3, 2], "curve"),
        ([300, 20, 1], "curve"),
        ([0.5, 1.0, 1.5], "curve"),
        ([1024, 2048, 4096], "curve"),  # a loss scale
        ([5, 5, 5], "constant"),
    ],
)
def test_what_counts_is_no_curve(values: list[float], kind: str) -> None:
    (row,) = records(curves(tables(a=series("batch", *enumerate(values)))))
    assert row["of"] == kind


def test_what_has_a_unit_does_not_count() -> None:
    rows = [row | {"unit": "ms"} for row in series("time", (1, 10), (2, 11), (3, 12))]
    assert records(curves(tables(a=rows)))[0]["of"] == "curve"


@pytest.mark.parametrize("moment", [1.7e9, 1.7e12, 1.7e15, 1.7e18])
def test_moments_are_no_series(moment: float) -> None:
    assert len(curves(tables(a=[{"key": "eval_start", "value": moment}]))) == 0


def test_values_that_are_no_numbers_are_left_out() -> None:
    rows = series("loss", (1, 2.0), (2, float("nan")), (3, float("inf")))
    (row,) = records(curves(tables(a=rows)))
    assert (row["n"], row["last"], row["last_step"]) == (1, 2.0, 1)


def test_ranks_and_stages_are_series_of_their_own() -> None:
    rows = [{"key": "slowdown", "value": 1.1 + stage, "stage": stage, "dp_rank": 1} for stage in (0, 1)]
    rows += [{"key": "slowdown", "value": 1.2}]
    table = curves(tables(a=rows))
    assert table["place"].fillna("-").to_list() == ["stage 0, dp_rank 1", "stage 1, dp_rank 1", "-"]
    assert table["last"].to_list() == pytest.approx([1.1, 2.1, 1.2])


def test_the_loss_of_the_steps_is_a_series() -> None:
    import pandas as pd

    of_run = tables(a=[])
    blank = {c.name: None for c in TABLES["steps"]} | {"run": "a", "part": 0, "copy": 1}
    of_run["steps"] = pd.DataFrame([blank | {"line": s, "step": s, "loss": 5.0 - s} for s in (1, 2, 3)])
    (row,) = records(curves(of_run))
    assert (row["key"], row["n"], row["last"], row["last_step"]) == ("loss", 3, 2.0, 3)
    assert printed_counts(Tables(of_run)) == {"loss": 3}
    assert printed_counts(Tables(tables(a=[{"key": "x", "value": 1.0}]))) == {"x": 1}


def test_nothing_printed_gives_no_rows() -> None:
    assert len(curves(tables(a=[]))) == 0
