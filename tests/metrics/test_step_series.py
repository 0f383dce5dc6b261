"""Which printed steps make a run's series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

import perflog
from perflog.analysis.lint import findings
from perflog.arrays import Floats
from perflog.errors import UsageError
from perflog.metrics import METRICS, Tables, get, steps
from perflog.metrics.step_series import StepSeries, cut_alike, means_over_ranks, steady_medians, step_series
from perflog.statistics.warmup import Warmup
from perflog.tables.schema import TABLES


def tables(rows: list[dict[str, Any]], **runs: Any) -> Tables:
    """Tables of one run with these steps."""
    full = [dict.fromkeys(c.name for c in TABLES["steps"]) for _ in rows]
    base = {"run": "r-1", "part": 0, "copy": 1, "steps_averaged": 1}
    made = [{**a, **base, "line": i + 1, **b} for i, (a, b) in enumerate(zip(full, rows, strict=True))]
    run = dict.fromkeys(c.name for c in TABLES["runs"]) | {"run": "r-1", "label": "one", "config": "{}"} | runs
    return Tables({"steps": pd.DataFrame(made, columns=list(full[0])), "runs": pd.DataFrame([run])})


def test_the_second_printing_of_a_step_is_left_out() -> None:
    (one,) = step_series(tables([{"step": 1, "step_time_s": 1.0}, {"step": 1, "step_time_s": 2.0, "copy": 2}]))
    assert one.values.tolist() == [1.0]
    assert one.left_out == ((1, "printed again"),)


@pytest.mark.parametrize(
    ("rows", "kept", "left_out"),
    [
        ([{}, {"step_time_s": -1.0}], [1.0], [(2, "step_time_s cannot be -1")]),
        ([{}, {}, {"step": 2, "copy": 2}, {"step": 1, "copy": 2, "step_time_s": -1.0}], [1.0, 1.0],
         [(2, "printed again"), (1, "printed again")]),
        ([{}, {}, {}, {"steps_averaged": 5, "step_time_s": -1.0}], [1.0] * 3, [(4, "covers 5 steps")]),
        ([{}, {}, {}, {"steps_averaged": None}], [1.0] * 3, [(4, "covers an unknown number of steps")]),
        ([{}, {}, {"steps_averaged": 5, "copy": 2}], [1.0] * 2, [(3, "covers 5 steps")]),  # one reason each
    ],
)  # fmt: skip
def test_why_steps_are_left_out(rows: list[dict[str, Any]], kept: list[float], left_out: list[tuple[int, str]]) -> None:
    made = [{"step": number, "step_time_s": 1.0, **row} for number, row in enumerate(rows, 1)]
    (one,) = step_series(tables(made), warmup=0)
    assert (one.values.tolist(), list(one.left_out)) == (kept, left_out)


@pytest.mark.parametrize(
    ("averaged", "high", "limit"),
    [
        (1, 1.9, 2.0),  # twice the median
        (10, 1.09, 1.1),  # one of ten steps takes twice the median
        (100, 1.05, 1.02),  # ten times the scatter is more than one of a hundred steps
    ],
)
def test_from_when_on_a_value_holds_a_pause(averaged: int, high: float, limit: float) -> None:
    times = [1.0, 1.002, 1.004] * 10
    of = {"steps_averaged": averaged}
    rows = [{"step": averaged * k, "step_time_s": t, **of} for k, t in enumerate([*times, high], 1)]
    (series,) = step_series(tables(rows), warmup=0)
    assert series.pause_limit == pytest.approx(limit * 1.002, rel=2e-3)
    assert series.pauses.tolist() == [False] * 30 + [high > series.pause_limit]


def test_means_that_differ_by_the_last_digit_hold_no_pause() -> None:
    times = [0.5, 0.5, 0.5, 0.6, 0.5] * 8 + [0.7]
    rows = [{"step": 10 * k, "step_time_s": t, "steps_averaged": 10} for k, t in enumerate(times, 1)]
    (series,) = step_series(tables(rows), warmup=0)
    assert series.steady[series.pauses].tolist() == [0.7]


def test_series_of_a_run_share_its_steps() -> None:
    known = tables([{"step": s, "step_time_s": 1.0, "forward_s": 0.5, "loss": 2.0} for s in range(9)])
    series = [step_series(known, column)[0] for column in ("step_time_s", "forward_s", "loss")]
    assert all(np.shares_memory(series[0].steps, other.steps) for other in series)
    assert all(np.shares_memory(series[0].lines, other.lines) for other in series)


def test_a_line_that_covers_more_steps_than_the_others_is_left_out() -> None:
    rows = [{"step": s, "step_time_s": 1.0 + s, "steps_averaged": 2 if s == 2 else 1} for s in range(2, 9)]
    (one,) = step_series(tables(rows))
    assert one.steps.tolist() == [3, 4, 5, 6, 7, 8]
    assert one.left_out == ((2, "covers 2 steps"),)


def test_lines_that_are_all_means_are_kept_and_have_no_spread() -> None:
    rows = [{"step": 10 * s, "step_time_s": 1.0, "steps_averaged": 10} for s in range(1, 9)]
    table = steps(tables(rows))
    assert table["steps_averaged"].tolist() == [10, 10]
    assert table["cv"].isna().all() and table["state"].isna().all()


def test_the_slowest_rank_is_the_step() -> None:
    rows = [{"step": s, "rank": r, "step_time_s": 1.0 + r} for s in range(3) for r in (1, 0, 2)]
    (one,) = step_series(tables(rows))
    assert one.values.tolist() == [3.0, 3.0, 3.0]
    assert one.lines.tolist() == [3, 6, 9]


def test_the_mean_over_the_ranks_of_each_step() -> None:
    """Step 1 lacks a rank, step 2 prints rank 0 again, and the time of rank 1 in step 0 cannot be."""
    rows = [
        {"step": s, "rank": r, "forward_s": -1.0 if (s, r) == (0, 1) else 1.0 + r + s}
        for s in range(3)
        for r in ((1, 2) if s == 1 else (0, 1, 2))
    ]
    rows.append({"step": 2, "rank": 0, "forward_s": 90.0, "copy": 2})
    (one,) = means_over_ranks(Tables(tables(rows)), "forward_s")
    assert one.values.tolist() == [2.0, 3.5, 4.0] and one.steps.tolist() == [0, 1, 2]


def test_all_columns_are_cut_where_the_step_time_is() -> None:
    rows = [{"step": s, "step_time_s": 9.0 if s == 0 else 1.0 + s % 3 / 100, "forward_s": 0.5} for s in range(30)]
    for column in ("step_time_s", "forward_s"):
        (one,) = step_series(tables(rows), column)
        assert one.warmup.cut == 1 and one.window == (1, 29)


def test_a_column_that_is_not_printed_has_no_series() -> None:
    assert list(step_series(tables([{"step": 1, "step_time_s": 1.0}]), "tflops")) == []


@examples(30)  # each is a metric: 40 ms
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40), st.none() | st.integers(0, 50))
def test_parts_of_the_metric_are_the_series(values: list[float], warmup: int | None) -> None:
    given_ = tables([{"step": i, "step_time_s": v} for i, v in enumerate(values)])
    table = METRICS["steps"](given_, warmup=warmup)
    (one,) = step_series(given_, warmup=warmup)
    every, rest = table[table["part"] == "all"].iloc[0], table[table["part"] == "steady"].iloc[0]
    assert every["n"] == len(values)
    assert every["median_s"] == pd.Series(values).median()
    assert rest["n"] == len(one.steady)
    if rest["n"]:
        assert rest["mean_s"] == pytest.approx(sum(values[one.warmup.cut :]) / rest["n"])
        assert (rest["first_step"], rest["last_step"]) == one.window


def test_parts_that_take_no_time_have_no_relative_spread() -> None:
    table = steps(tables([{"step": s, "step_time_s": 1.0, "backward_s": 0.0} for s in range(8)]))
    table = table[table["of"] == "backward"]
    assert table["median_s"].tolist() == [0.0, 0.0]
    assert table[["cv", "robust_cv", "state", "first_over_median"]].isna().all(axis=None)


def test_a_metric_without_its_tables_has_no_rows_and_all_columns() -> None:
    table = steps(Tables({"runs": pd.DataFrame({"run": ["r-1"], "label": ["x"]})}))
    assert len(table) == 0 and list(table.columns) == [c.name for c in steps.columns]


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `steps`"):
        get("step")


def test_every_metric_says_what_it_is() -> None:
    for metric in METRICS.values():
        assert metric.title and metric.formula and metric.source
        assert set(metric.needs) <= set(TABLES)
        assert [c.name for c in metric.columns[:2]] == ["run", "label"]
        names = [c.name for c in metric.columns]
        assert len(set(names)) == len(names)
        assert metric.main in names and metric.compute.__doc__
        for column in metric.columns:
            assert column.meaning, column.name
            is_time = column.name.endswith("_s") and column.name != "m_s"  # M_S of the paper is a ratio
            assert is_time == (column.unit == "s") or column.name.endswith("per_s"), column.name


# --- steps that end before their work is done -------------------------------------------------------------------------


def launched(times: list[float], work: float = 3600.0) -> Tables:
    """Steps of the same work, whose rates follow from their times."""
    return tables([{"step": i, "step_time_s": t, "tflops": work / t, "loss": 2.0} for i, t in enumerate(times)])


def test_a_step_at_many_times_the_rate_of_the_others_has_no_time() -> None:
    known = launched([45.0, 0.6, 10.2, 10.3, 10.4, 10.3])
    for column in ("step_time_s", "tflops"):
        (series,) = step_series(known, column)
        assert series.steps.tolist() == [0, 2, 3, 4, 5]
        assert [step for step, _ in series.left_out] == [1]
    assert len(step_series(known, "loss")[0].values) == 6


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([10.0, 3.0, 10.0, 10.0, 10.0], "three times as fast"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 10.0, 10.0], "the run has become slower"),
        ([10.0] * 8 + [1.0, 10.0], "not at the start"),
    ],
)
def test_what_may_be_a_faster_step_stays(times: list[float], why: str) -> None:
    (series,) = step_series(launched(times))
    assert len(series.values) == len(times), why


def test_a_short_step_that_claims_less_work_stays() -> None:
    rows = [{"step": i, "step_time_s": t, "tflops": 350.0} for i, t in enumerate([10.0, 0.5, 10.0, 10.0])]
    (series,) = step_series(tables(rows))
    assert len(series.values) == 4


def test_an_mfu_above_one_counts_in_no_average() -> None:
    known = tables([{"step": i, "mfu": 3.37 if i < 6 else 0.42, "tokens_per_s": 100.0} for i in range(10)])
    (series,) = step_series(known, "mfu")
    assert series.steps.tolist() == [6, 7, 8, 9]
    (rates,) = get("throughput")(known).query("part == 'all'").to_dict("records")
    assert rates["printed_mfu"] == pytest.approx(0.42)


def test_a_rate_of_one_gpu_is_that_of_the_steps_that_count(tmp_path: Path) -> None:
    """Lines of MaxText: the first step ended before its work was done."""
    path = tmp_path / "run.log"
    path.write_text(
        "".join(
            f"completed step: {step}, seconds: {time}, TFLOP/s/device: {3589 / time:.3f}, Tokens/s/device: {rate}, "
            "total_weights: 1572864, loss: 12.979\n"
            for step, time, rate in ((1, 0.631, 311629.521), (2, 10.228, 19222.175), (3, 10.344, 19006.461))
        ),
        encoding="utf-8",
    )
    row, _ = get("throughput")(perflog.read(path)).to_dict("records")
    assert row["tokens_per_s_gpu"] == pytest.approx((10.228 * 19222.175 + 10.344 * 19006.461) / (10.228 + 10.344))
    assert (row["n"], row["tokens_from"]) == (2, "printed")
    told = [finding.message for finding in findings(perflog.read(path)) if finding.code == "time-impossible"]
    assert told == [
        "step 1 takes 631 ms, the others 10.29 s (median) for the same work: the program did not wait for the device"
    ]


def with_warmup(run: str, cut: int, values: Floats) -> StepSeries:
    steps = np.arange(len(values))
    return StepSeries(run, None, "step_time_s", steps, steps, values, steps, 1, (), Warmup(cut, "found"))


@given(st.lists(st.integers(0, 60), min_size=2, max_size=6))
def test_repeats_have_one_warmup(cuts: list[int]) -> None:
    """Where the speed changes during a run, other cuts alone make repeats differ."""
    times = np.linspace(2.0, 1.0, 100)
    alike = cut_alike([with_warmup(f"r-{k}", cut, times) for k, cut in enumerate(cuts)])
    assert [each.run for each in alike] == [f"r-{k}" for k in range(len(cuts))]
    expected = cuts[0] if len(set(cuts)) == 1 else min(max(cuts), 50)
    assert {each.warmup.cut for each in alike} == {expected}
    assert len({each.steady.mean() for each in alike}) == 1


def test_a_run_that_broke_off_does_not_shorten_the_warmup_of_its_repeats() -> None:
    times = np.ones(100)
    members = [with_warmup("a", 0, times), with_warmup("b", 30, times), with_warmup("c", 2, times[:10])]
    assert [each.warmup.cut for each in cut_alike(members)] == [30, 30, 2]


@pytest.mark.parametrize(
    ("values", "pauses"),
    [
        ([9.0, 1.0, 1.0, 2.0, 2.1, 1.0, 1.0, 1.0], [3]),  # over twice the median, after the warm-up
        ([1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 1.0, 1.0, 1.0], [3, 4]),  # a quarter of the steps
        ([1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 1.0, 1.0], []),  # more: they are no exception
        ([1.0], []),
    ],
)
def test_a_pause_is_a_rare_step_of_over_twice_the_median(values: list[float], pauses: list[int]) -> None:
    series = with_warmup("a", 1, np.array(values))
    assert np.flatnonzero(series.pauses).tolist() == pauses and len(series.pauses) == len(values) - 1


def test_a_series_up_to_a_step() -> None:
    series = with_warmup("a", 2, np.array([3.0, 2.0, 1.0, 1.5]))
    assert series.until(None) is series and series.until(3) is series
    assert series.until(2).values.tolist() == [3.0, 2.0, 1.0] and series.until(2).steps.tolist() == [0, 1, 2]
    assert (series.window, series.until(2).window, series.until(1).window) == ((2, 3), (2, 2), None)


def several_runs(configs: dict[str, str], lead: dict[str, int]) -> Tables:
    """Tables of runs of 40 steps, of which the first `lead` take three times as long; steps differ by 1 %."""
    empty = [dict.fromkeys(c.name for c in TABLES[name]) for name in ("runs", "steps")]
    rows = [
        empty[1] | {"run": run, "part": 0, "copy": 1, "steps_averaged": 1, "line": step + 1, "step": step,
                    "step_time_s": (3.0 if step < lead[run] else 1.0) + 0.01 * (step % 3)}
        for run in configs for step in range(40)
    ]  # fmt: skip
    runs = [empty[0] | {"run": run, "label": run, "format": "x", "config": text} for run, text in configs.items()]
    return Tables({"steps": pd.DataFrame(rows, columns=list(empty[1])), "runs": pd.DataFrame(runs)})


def test_each_metric_cuts_one_warmup_from_the_repeats_of_a_log() -> None:
    """A seed makes no other configuration; another batch does, and has its own warm-up."""
    configs = {"a": '{"batch": 8, "seed": 1}', "b": '{"batch": 8, "seed": 2}', "c": '{"batch": 16, "seed": 1}'}
    known = several_runs(configs, {"a": 1, "b": 4, "c": 2})
    cuts = {each.run: each.warmup.cut for each in step_series(known)}
    assert cuts == {"a": 4, "b": 4, "c": 2}
    assert dict(zip(*(steps(known)[name] for name in ("run", "first_step")), strict=True)) == cuts
    for run, cut in cuts.items():  # whoever looks at a run alone sees what the whole shows
        assert [each.warmup.cut for each in step_series(known.only([run]))] == [cut]
    assert [each.warmup.cut for each in step_series(known, warmup=2)] == [2, 2, 2]


def test_of_as_many_rows_the_ones_of_more_steps_count() -> None:
    """Step 1 alone, the steps up to 10, and up to 20, as torchtitan prints them: the first is the warm-up."""
    rows = [{"step": s, "tokens_per_s": 586.8 * n, "steps_averaged": n} for s, n in ((1, 1), (10, 9), (20, 10))]
    (one,) = step_series(tables(rows), "tokens_per_s")
    assert (one.steps.tolist(), one.averaged) == ([20], 10)
    assert one.left_out == ((1, "covers 1 step"), (10, "covers 9 steps"))


def test_a_run_of_half_the_usual_length_has_the_common_warmup() -> None:
    times = np.ones(100)
    for length, cut in ((50, 25), (49, 2)):
        members = [with_warmup("a", 0, times), with_warmup("b", 30, times), with_warmup("c", 2, times[:length])]
        assert [each.warmup.cut for each in cut_alike(members)][2] == cut


def test_medians_of_runs_beside_those_that_are_cut_together() -> None:
    configs = {"a": '{"batch": 8}', "b": '{"batch": 16}', "c": '{"batch": 32}'}
    known = several_runs(configs, {"a": 1, "b": 4, "c": 2})
    assert list(steady_medians(known, "step_time_s", None, ["a", "b"])) == ["a", "b", "c"]
    assert steady_medians(known, "step_time_s", 0, ["a"]).keys() == {"a", "b", "c"}


def test_of_a_rate_the_slow_first_values_are_warm_up(tmp_path: Path) -> None:
    rates = [1000, 4000, *(8000 + k % 3 for k in range(30)), 9000]
    for values, cut in ((rates, 2), ([16000, *rates[2:]], 0)):
        (tmp_path / "a.log").write_text("".join(f"step {k} loss 2.5 tokens/s {v}\n" for k, v in enumerate(values)))
        (series,) = step_series(Tables(perflog.read(tmp_path / "a.log")), "tokens_per_s")
        assert series.warmup.cut == cut
