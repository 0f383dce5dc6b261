"""Tables of cases from rows of `values`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import perflog
from perflog.metrics import Tables
from perflog.metrics.benchmarks import case_tables as module
from perflog.metrics.benchmarks.case_tables import CaseTable, case_tables, names_of_records, names_without_case
from perflog.tables.schema import TABLES

Cells = Mapping[str, Any]


def frame(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([{"run": "r", "part": 0} | row for row in rows], columns=[c.name for c in TABLES[name]])


def values(
    *records: Cells, units: Mapping[str, str] | None = None, first: int = 1, **more: Any
) -> list[dict[str, Any]]:
    """Rows of `values`: a record for each line. A cell may be a pair of a number and its unit."""
    rows = []
    for line, record in enumerate(records, first):
        for key, cell in record.items():
            value, unit = cell if isinstance(cell, tuple) else (cell, (units or {}).get(key))
            kind = (
                {"text": value, "value": math.nan} if isinstance(value, str) else {"text": None, "value": float(value)}
            )
            rows.append({"line": line, "key": key, "unit": unit} | kind | more)
    return rows


def tables(rows: list[dict[str, Any]], **others: list[dict[str, Any]]) -> Tables:
    return Tables({"values": frame("values", rows)} | {name: frame(name, of) for name, of in others.items()})


def found(*records: Cells, units: Mapping[str, str] | None = None) -> list[CaseTable]:
    return case_tables(tables(values(*records, units=units))).get("r", [])


S = {"time": "s"}


def named(names: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Records with these names, in one string."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def test_records_with_the_same_names_are_cases() -> None:
    [table] = found({"impl": "a", "n": 1, "time": 0.5}, {"impl": "a", "n": 2, "time": 0.25}, units=S)
    assert table.parameters == {"n": [1.0, 2.0]} and table.settings == {"impl": "a"}
    assert table.figures["time"].tolist() == [0.5, 0.25]
    assert (table.over, table.units, table.lines.tolist()) == ("n", {"impl": "", "n": "", "time": "s"}, [1, 2])
    assert not table.is_by_column and not table.is_of_different_work
    assert (table.at(1), table.shown_value("n", 2048.0)) == ("n 2", "2,048")


def test_names_of_a_case() -> None:
    sizes = [("a", 1024.0), ("b", 2048.0), ("a", 2048.0)]
    [table] = found(*({"impl": impl, "bytes": (size, "B"), "time": 0.5} for impl, size in sizes), units=S)
    assert table.over == "impl x bytes"
    assert [table.at(0), table.at(0, "impl"), table.at(1, "bytes")] == ["impl a, bytes 1 KiB", "bytes 1 KiB", "impl b"]
    assert table.shown_value("other", 1.5) == "1.5" and table.shown_value("other", "x") == "x"


def test_a_few_parameters_are_named() -> None:
    def over(*names: str) -> str:
        return CaseTable({name: [1] for name in names}, {}, {}, {}, {}, {}, np.arange(1), frozenset()).over

    assert over(*"abcde") == "a x b x c x d x e" and over(*"abcdef") == "a x b x c x d x e and 1 more"


def test_cases_are_medians_of_their_records() -> None:
    table = CaseTable(
        {"impl": [*"aaabb"], "n": [1, 1, 1, 1, 2]}, {"time": np.array([0.5, 1.5, 0.75, 9.5, math.nan])},
        {}, {}, {}, {}, np.arange(5), frozenset(),
    )  # fmt: skip
    assert table.cases("time") == {("a", 1): (0.75, 0), ("b", 1): (9.5, 3)}
    assert table.cases("time", "impl") == {(1,): (1.125, 0)}
    bare = CaseTable({"n": [None]}, {}, {}, {}, {}, {}, np.array([7]), frozenset())
    assert (bare.at(0), bare.at(0, "n")) == ("line 7", "")


def test_what_makes_no_cases() -> None:
    assert found({"impl": "a", "time": 0.5}, units=S) == []  # one record
    assert found({"impl": "a"}, {"impl": "b"}) == []  # nothing measured
    assert found({"time": 0.5, "more": 0.5}, {"time": 0.25, "more": 0.5}, units=S) == []  # no parameter
    assert found({"doc": "a", "offset": 5}, {"doc": "b", "offset": 17}) == []  # whole numbers without a unit
    assert len(found({"doc": "a", "offset": 5.5}, {"doc": "b", "offset": 17})) == 1
    assert len(found({"doc": "a", "latency": 5}, {"doc": "b", "latency": 17})) == 1


def test_runs_with_steps_and_values_of_steps_have_no_cases() -> None:
    rows = values({"n": 1, "time": 0.5}, {"n": 2, "time": 0.25}, units=S)
    assert case_tables(tables(rows, steps=[{"line": 9, "step": 3}])) == {}
    assert len(case_tables(tables(rows, steps=[{"line": 9}]))) == 1  # a step without a number
    assert case_tables(tables([row | {"step": 3} for row in rows])) == {}
    assert case_tables(tables(rows, collectives=[{"line": 1, "op": "x"}])) == {}
    assert case_tables(tables([row | {"key": "smoothed_x" if row["key"] == "n" else row["key"]} for row in rows])) == {}


def test_records_without_a_value_belong_to_those_with_all() -> None:
    [table] = found(
        {"n": 1, "time": 0.5, "mem": 1.5}, {"n": 2, "time": 0.25}, {"n": 4, "time": 0.125, "mem": 2.5}, units=S
    )  # fmt: skip
    assert table.figures["mem"].tolist()[::2] == [1.5, 2.5] and math.isnan(table.figures["mem"][1])
    assert table.parameters == {"n": [1.0, 2.0, 4.0]}


def test_a_name_twice_in_a_record_is_a_list() -> None:
    twice = [
        row | {"line": 1 + k // 3} for k, row in enumerate(values(*[{"n": k, "time": 0.5} for k in range(6)], units=S))
    ]
    assert case_tables(tables(twice)) == {}


def test_tables_are_in_the_order_of_the_log() -> None:
    rows = values({"n": 1, "time": 0.5}, {"n": 2, "time": 0.25}, units=S, first=10)
    rows += values({"m": 1, "k": 5, "rate": 0.5}, {"m": 2, "k": 6, "rate": 0.25}, units={"rate": "1/s"})
    made = case_tables(tables([*rows, *({**row, "run": "s"} for row in rows[:4])]))
    assert {run: [int(table.lines[0]) for table in of] for run, of in made.items()} == {"r": [1, 10], "s": [10]}


def test_equal_parameters_have_one_name() -> None:
    [table] = found({"M": 1, "N": 1, "time": 0.5}, {"M": 2, "N": 2, "time": 0.25}, units=S)
    assert table.over == "M = N"


def test_the_average_at_the_end_is_no_case() -> None:
    records = [{"op": op, "time": 0.5} for op in ("a", "b", "average")]
    assert found(*records, units=S)[0].parameters == {"op": ["a", "b"]}
    assert found(*records[1:], units=S)[0].parameters == {"op": ["b", "average"]}
    assert found(records[2], records[0], records[1], units=S)[0].parameters == {"op": ["average", "a", "b"]}


def test_the_change_at_the_end_is_no_case() -> None:
    rows = named("build time", ("old", (2.0, "s")), ("new", (1.5, "s")), ("delta", (-0.25, "1")))
    [table] = found(*rows)
    assert table.parameters == {"build": ["old", "new"]} and table.units["time"] == "s"


def test_shares_of_one_whole_are_of_parts() -> None:
    rows = named("span time share", ("copy", 2.0, 0.2), ("add", 3.0, 0.3), ("idle", 5.0, 0.5))
    for cases in (rows, [*rows, {"span": "window", "time": 10.0, "share": 1.0}]):
        [table] = found(*cases, units=S | {"share": "1"})
        assert table.is_of_different_work
    [table] = found(*rows, {"span": "window", "time": 10.0, "share": 0.7}, units=S | {"share": "1"})
    assert not table.is_of_different_work


def test_the_last_state_of_each_trial_counts() -> None:
    records = [
        {"lr": lr, "loss": loss, "trial": t} for lr, loss, t in ((0.1, 5.5, "x"), (0.2, 4.5, "y"), (0.1, 3.5, "x"))
    ]
    [table] = found(*records)
    assert table.figures["loss"].tolist() == [4.5, 3.5]


def test_failed_cases() -> None:
    """A rate of 0 beside an infinite time is no measurement, nor is 0 of a case that crashed."""
    records = [
        {"op": "a", "time": 0.5, "rate": 10, "status": "ok"}, {"op": "b", "time": math.inf, "rate": 0, "status": "ok"},
        {"op": "c", "time": 0, "rate": 12, "status": "failed"}, {"op": "d", "time": "OOM", "rate": 5, "status": "ok"},
    ]  # fmt: skip
    [table] = found(*records, units={"time": "s", "rate": "TFLOP/s"})
    assert table.bad["time"].tolist() == [False, True, True, True]
    assert table.bad["rate"].tolist() == [False, True, False, False]
    assert np.isnan(table.figures["rate"]).tolist() == [False, True, False, False]
    assert np.isnan(table.figures["time"]).tolist() == [False, False, True, True]
    assert "status" not in table.figures and "status" not in table.parameters


def test_a_zero_beside_finite_figures_is_a_value() -> None:
    [table] = found(
        {"op": "a", "time": 0.5, "rate": 10}, {"op": "b", "time": 0.25, "rate": 0}, units=S | {"rate": "1/s"}
    )
    assert table.figures["rate"].tolist() == [10, 0] and not table.bad["rate"].any()


def test_moments_are_no_figures() -> None:
    [table] = found({"op": "a", "time": 0.5, "at": 1.7e9}, {"op": "b", "time": 0.25, "at": 1.7e9 + 5.5}, units=S)
    assert list(table.figures) == ["time"]


def test_words_beside_what_is_measured() -> None:
    [table] = found(
        {"n": 1, "time": 0.5, "note": "x"},
        {"n": 2, "time": 0.25, "note": "y"},
        {"n": 3, "time": 1.5, "note": "x"},
        units=S,
    )
    assert table.texts == {"note": ["x", "y", "x"]}


def test_a_column_of_units_parts_the_cases() -> None:
    """Each has its quantity in the base unit. A parameter with one value is a setting then."""
    rows = [("a", "x", 5.5, "ms"), ("b", "x", 7.0, "ms"), ("a", "y", 3.0, "MB"), ("b", "y", 4.0, "MB")]
    first, second = found(*({"op": o, "kind": k, "result": v, "unit": u} for o, k, v, u in rows))
    assert first.parameters == second.parameters == {"op": ["a", "b"]}
    assert (first.settings, second.settings) == ({"kind": "x"}, {"kind": "y"})
    assert first.figures["result"].tolist() == pytest.approx([0.0055, 0.007])
    assert second.figures["result"].tolist() == [3e6, 4e6]
    assert (first.units["result"], second.units["result"], second.lines.tolist()) == ("s", "B", [3, 4])
    assert "unit" not in first.texts
    unknown = found(*({"op": o, "kind": k, "result": v, "unit": u + "?"} for o, k, v, u in rows))
    assert len(unknown) == 1


def test_a_row_for_each_quantity_has_a_case_for_each_column() -> None:
    """Their units are in the words or in the cells."""
    records = [
        {"Metric": "Mean TTFT (ms)", "tp_1": 5, "tp_2": 3},
        {"Metric": "Output (tok/s)", "tp_1": 500, "tp_2": 900},
    ]
    [table] = found(*records)
    assert table.parameters == {"tp": [1.0, 2.0]} and table.is_by_column
    assert table.figures["Mean TTFT"].tolist() == [0.005, 0.003]
    assert table.figures["Output"].tolist() == [500, 900]
    assert (table.units["Mean TTFT"], table.lines.tolist()) == ("s", [1, 2])
    cells = [
        {"Kind": "latency", "old": (0.5, "s"), "new": (0.25, "s")},
        {"Kind": "rate", "old": (5.0, "1/s"), "new": (9.0, "1/s")},
    ]
    [table] = found(*cells)
    assert table.parameters == {"column": ["old", "new"]} and table.figures["latency"].tolist() == [0.5, 0.25]
    one_unit = [{"Kind": "first (ms)", "old": 5.5, "new": 3.5}, {"Kind": "last (ms)", "old": 7.5, "new": 8.5}]
    assert found(*one_unit)[0].parameters == {"Kind": ["first (ms)", "last (ms)"]}
    assert found(*({"metric": row["Kind"], "old": row["old"], "new": row["new"]} for row in one_unit))[0].is_by_column


def test_each_table_of_quantities_has_a_case_for_each_column() -> None:
    first, second = (
        named("measure old new", ("wait (ms)", 20.5 * k, 30.0 * k), ("output (tok/s)", 500.0, 400.0 + k))
        for k in (1, 2)
    )
    one, other = found(*first, *second)
    assert one.parameters == other.parameters == {"column": ["old", "new"]}
    assert other.figures["wait"].tolist() == pytest.approx([0.041, 0.06])


def test_a_quantity_that_one_of_several_blocks_lacks_has_no_value_there() -> None:
    values = [("a", "wait (ms)", 1.0, 2.0), ("a", "load (ms)", 3.0, 4.0), ("b", "wait (ms)", 5.0, 6.0)]
    [table] = found(*named("model measure old new", *values))
    assert table.parameters == {"model": ["a", "a", "b", "b"], "column": ["old", "new"] * 2}
    assert {name: figures.tolist() for name, figures in table.figures.items()} == {
        "wait": pytest.approx([1e-3, 2e-3, 5e-3, 6e-3]),
        "load": pytest.approx([3e-3, 4e-3, math.nan, math.nan], nan_ok=True),
    }


def test_statistics_in_columns_are_different_work() -> None:
    [table] = found(
        {"Metric": "TTFT (ms)", "mean": 5.5, "p99": 3.5}, {"Metric": "rate (tok/s)", "mean": 7.5, "p99": 8.5}
    )
    assert table.is_by_column and table.is_of_different_work
    [table] = found({"Metric": "TTFT (ms)", "p50": 5.5, "p99": 3.5}, {"Metric": "Out (tok/s)", "p50": 7.5, "p99": 8.5})
    assert table.parameters == {"column": ["p50", "p99"]} and table.is_of_different_work
    [table] = found({"kernel": "a", "time": 0.5}, {"kernel": "b", "time": 0.25}, units=S)
    assert table.is_of_different_work and not table.is_by_column
    [table] = found({"kernel": "a", "n": 2, "time": 0.5}, {"kernel": "b", "n": 1, "time": 0.25}, units=S)
    assert not table.is_of_different_work


def test_sweeps_of_the_same_cases_are_apart() -> None:
    records = [{"n": n, "time": 0.5 + k} for k, n in enumerate((1, 2, 3, 1, 2, 3))]
    assert [table.parameters["n"] for table in found(*records, units=S)] in ([[1, 2, 3], [1, 2, 3]], [])


def test_names_of_records() -> None:
    rows = values({"a": 1, "b": 2}, {"a": 3, "c": 4}, {"d": 5}, {"d": 6})
    assert names_of_records(tables(rows)) == {"a"}
    assert names_of_records(tables([row | {"step": 1} for row in rows])) == set()


def test_names_without_a_case() -> None:
    def names(*records: Cells, units: Mapping[str, str] | None = None, **others: Any) -> set[str]:
        return names_without_case(tables(values(*records, units=units), **{"lines": [], "steps": []} | others))

    speeds: dict[str, str] = {"time": "s", "size": "B"}
    assert names({"time": 1}, {"time": 2}, {"size": 3}, {"size": 4}, {"n": 1}, {"n": 2}, units=speeds) == {"time"}
    assert names({"time": 1}, {"size": 3}, units=speeds) == set()
    assert names(*[{"time": k} for k in range(8)], units=speeds) == {"time"}
    assert names(*[{"time": k} for k in range(9)], units=speeds) == set()
    assert names({"speedup": 1.5}, {"speedup": 2.5}) == {"speedup"}
    assert names({"time": 1}, {"time": 2}, units=speeds, steps=[{"line": 9, "step": 1}]) == set()
    lists = [{"line": 1, "shape": "{key:word} {value:float}", "status": "read", "count": 1, "first_line": 1}]
    assert names({"n": 1}, {"n": 2}, {"m": 1}, lines=lists) == {"n"}
    other = [lists[0] | {"shape": "{key:word} {text:word}"}]
    assert names({"n": 1}, {"n": 2}, lines=other) == set()
    flops = {"rate": "TFLOP/s"}
    assert names({"rate": 1, "m": 2}, {"rate": 3, "m": 4}, units=flops) == {"rate", "m"}
    assert names({"rate": 1, "m": 2}, {"rate": 3, "k": 4}, units=flops) == {"rate"}
    assert names({"time": 1, "m": 2}, {"time": 3, "m": 4}, units=speeds) == set()


@pytest.mark.parametrize(("epochs", "expected"), [((7, 7, 7), {"m"}), ((0, 1, 0), {"m"}), ((0, 1, 1), set())])
def test_names_beside_a_counter_that_does_not_go_on(epochs: Sequence[int], expected: set[str]) -> None:
    records = [{"Epoch": epoch, "m": k} for k, epoch in enumerate(epochs)]
    assert names_without_case(tables(values(*records), lines=[], steps=[])) == expected


def test_numbers_and_words_of_values() -> None:
    assert [module._text(value, "") for value in (2048.0, 0.5, "x", None)] == ["2,048", "0.5", "x", "None"]
    assert module._text(2048.0, "B") == "2 KiB"


@pytest.mark.parametrize(
    ("name", "sizes", "times", "expected"),
    [
        ("size", [1.0, 2.0, 4.0, 8.0, 16.0], [1.0, 1.2, 1.1, 2.0, 3.0], True),
        ("Msg_Size", ["4 KB", "1 MB", "1 GB"], [1.0, 2.0, 3.0], True),
        ("size", [1.0, 2.0, 4.0, 8.0], [2.0, 1.0, 1.5, 1.0], False),
        ("block_size", [1.0, 2.0, 4.0], [1.0, 2.0, 3.0], False),  # of the same work
        ("gpus", [1.0, 2.0, 4.0], [1.0, 2.0, 3.0], False),
        ("size", [1.0, 2.0], [1.0, 2.0], False),
        ("size", ["small", "large", "huge"], [1.0, 2.0, 3.0], False),
    ],
)
def test_times_that_grow_with_the_work(name: str, sizes: list[Any], times: list[float], expected: bool) -> None:
    figures = {"t": np.array(times)}
    table = CaseTable({name: sizes}, figures, {}, {}, {"t": "s"}, {}, np.arange(len(sizes)), frozenset((name, "t")))
    assert table.grows_with_work("t") == expected


def test_the_number_of_values_is_no_parameter() -> None:
    records = [{"gemm_n": 100 + k, "gemm_min": k + 0.5, "gemm_p50": k + 1.5} for k in range(3)]
    assert case_tables(tables(values(*records))) == {}


def test_quantities_below_titles_have_a_case_for_each_column_and_title() -> None:
    records = [
        {"Concurrency": level, "Metric": metric, "old": 5.5 * level + n, "new": (3.5 + n) * level}
        for level in (16, 64)
        for n, metric in enumerate(("TTFT (ms)", "Output (tok/s)"))
    ]
    [table] = found(*records)
    assert table.parameters == {"Concurrency": [16, 16, 64, 64], "column": ["old", "new", "old", "new"]}
    assert table.figures["TTFT"].tolist() == pytest.approx([0.088, 0.056, 0.352, 0.224])
    assert table.units["Output"] == "1/s"
    [table] = found(*({"Kind": row["Concurrency"], "Metric": row["Metric"], "Value": row["new"]} for row in records))
    assert table.parameters == {"Kind": [16, 64]} and table.figures["Output"].tolist() == [72, 288]


def test_quantities_in_cells_with_and_without_a_unit_are_no_cases_of_one() -> None:
    cells = {"TTFT": (0.25, "s"), "InputTokens": 1457.5, "Throughput": (16.5, "1/s")}
    records = [{"Parameter": name, "Stage": "total", "Average": cell, "Max": cell} for name, cell in cells.items()]
    [table] = found(*records)
    assert {name: of.tolist() for name, of in table.figures.items()} == {
        "TTFT": [0.25, 0.25],
        "InputTokens": [1457.5, 1457.5],
        "Throughput": [16.5, 16.5],  # `total` in each row marks no sum
    }
    assert table.units == {"TTFT": "s", "InputTokens": "", "Throughput": "1/s"}


def test_a_profile_is_over_its_functions_not_over_their_calls() -> None:
    names = "calls own_time function"
    [table] = found(*named(names, (5, 0.25, "read"), (5, 0.5, "write"), (7, 0.125, "close")), units={"own_time": "s"})
    assert table.parameters == {"function": ["read", "write", "close"]} and table.is_of_different_work


@pytest.mark.parametrize(
    ("sizes", "times", "rise"),
    [([1, 2, 4], [1, 2, 3], True), ([1, 2, 4], [3, 2, 1], False), ([2, 2, 2], [1, 2, 3], False),
     ([1, 2, 4], [5, 5, 5], False), ([1, math.nan, 4], [1, 2, 3], False)],
)  # fmt: skip
def test_more_work_that_takes_longer(sizes: list[float], times: list[float], rise: bool) -> None:
    assert module._rise_together(np.array(sizes), np.array(times)) == rise


def test_a_column_of_units_is_of_the_figures_without_a_unit() -> None:
    """Latencies in ms and sizes in KB are two tables; a rate with a unit of its own is the same in both."""
    parameters: dict[str, list[Any]] = {"batch": [1, 2, 1, 2], "unit": ["ms", "ms", "KB", "KB"], "seq": [8, 8, 8, 8]}
    figures = {"value": np.array([1.0, 2.0, 3.0, 4.0]), "rate": np.array([5.0, 6.0, 7.0, 8.0])}
    bad = {"value": np.array([False, True, False, False])}
    whole = CaseTable(
        parameters, figures, {"model": "m"}, {"note": list("abcd")}, {"value": "", "rate": "1/s"}, bad,
        np.array([4, 5, 6, 7]), frozenset(["value"]),
    )  # fmt: skip
    times, sizes = module._by_unit(whole)
    assert [(table.figures["value"].tolist(), table.units["value"]) for table in (times, sizes)] == [
        ([0.001, 0.002], "s"), ([3000.0, 4000.0], "B"),
    ]  # fmt: skip
    assert [table.figures["rate"].tolist() for table in (times, sizes)] == [[5.0, 6.0], [7.0, 8.0]]
    assert times.units["rate"] == "1/s" and times.parameters == {"batch": [1, 2]}
    assert times.settings == {"model": "m", "seq": 8} and times.texts == {"note": ["a", "b"]}
    assert times.bad["value"].tolist() == [False, True] and sizes.lines.tolist() == [6, 7]


def test_values_of_a_trace_are_details_of_its_events() -> None:
    """XLA's profiler attaches sizes of the allocator to its events."""
    records = named("bytes_allocated bytes_available time", (1, 9, 0.5), (2, 8, 0.25), (3, 7, 0.125))
    assert case_tables(tables(values(*records))).keys() == {"r"}
    traced = tables(values(*records), events=[{"line": 1, "kind": "kernel"}])
    assert not case_tables(traced) and not names_of_records(traced)


def grows(parameters: dict[str, list[Any]], times: list[float], unit: str = "s") -> bool:
    table = CaseTable(
        parameters, {"time": np.array(times)}, {}, {}, {"time": unit}, {}, np.arange(len(times)), frozenset(["time"])
    )
    return table.grows_with_work("time")


def test_a_time_that_grows_with_the_work_of_its_cases() -> None:
    """By the sizes of the cases, or as their names say that they are of other work."""
    assert grows({"batch": [1, 2, 4]}, [1.0, 2.0, 3.0])
    assert not grows({"batch": [1, 2, 4]}, [1.0, 2.0, 3.0], "1/s")
    assert not grows({"batch": [1, 2, 4]}, [3.0, 2.0, 1.0])
    assert not grows({"batch": [1, 2]}, [1.0, 2.0])  # two cases may be so by chance
    assert not grows({"batch": [1, 2, 4]}, [1.0, 2.0, math.nan])
    assert not grows({"gpus": [1, 2, 4]}, [1.0, 2.0, 3.0])
    assert grows({"kernel": ["a", "b"]}, [3.0, 1.0]) and not grows({"kernel": ["a", "a"]}, [3.0, 1.0])
    assert not grows({"kernel": [1, 2]}, [3.0, 1.0]) and not grows({"device": ["a", "b"]}, [3.0, 1.0])


def test_steps_without_a_number_are_no_cases(tmp_path: Path) -> None:
    """TRL prints its dicts without their step where no bar is before them; its `step_time` is in seconds."""
    of = "'num_tokens': {0}.0, 'reward': 0.6{0}, 'step_time': 12.{0}, 'epoch': 0.0{0}"
    line = f"{{{{'loss': 0.01, 'learning_rate': 9e-07, {of}}}}}\n"
    (tmp_path / "trl.log").write_text("".join(map(line.format, range(1, 6))))
    log = perflog.read(tmp_path / "trl.log")
    assert not len(perflog.metrics.cases(log))
    (figure, *_) = perflog.overview(log).figures
    assert (figure.name, *figure.values.values()) == ("step time", 12.3)


def test_statistics_over_repeats_are_no_cases() -> None:
    names = ("A/8", "A/8_mean", "A/8_median", "A/8_stddev", "B_mean", "B_median", "B_cv", "harmonic_mean")
    records = [{"name": name, "time": (1.0 + k, "s")} for k, name in enumerate(names)]
    [table] = found(*records)
    assert table.parameters == {"name": ["A/8", "B_mean", "harmonic_mean"]}  # the case, its mean, a name
    assert table.figures["time"].tolist() == [1, 5, 8]
