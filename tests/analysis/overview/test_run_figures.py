"""Run figures: which values of a log answer first, from tables of metrics that are made by hand."""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand
from support.trace_tables import by_hand as trace_by_hand
from support.trace_tables import kernel

from perflog.analysis.overview.run_figures import RunFigure, run_figures
from perflog.metrics import Options, Tables
from perflog.metrics.series.time_to_target import SAMPLE_COUNTERS
from perflog.metrics.step_time.breakdown import UNTIMED

module: Any = import_module("perflog.analysis.overview.run_figures")  # the package has a function of this name

NAN = math.nan
EMPTY = Tables(by_hand("steps", []))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(replace_table, monkeypatch, module)


def found(kind: Any, tables: Tables = EMPTY) -> list[tuple[str, str, str | None, dict[str, float]]]:
    """The figures of a kind that have values: name, unit, better direction, and values by run."""
    figures = kind(tables, Options()) if kind.__code__.co_argcount == 2 else kind(tables)
    return [(each.name, each.unit, each.better, dict(each.values)) for each in figures if each.values]


# --- texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (RunFigure("step", "s", "lower", {}), 0.12345, "123 ms"),
        (RunFigure("tokens/s", "1/s", "higher", {}), 12.3456, "12.3"),
        (RunFigure("GPU work/step", "s", "lower", {}), 1.0123, "1.01 s"),
        (RunFigure("loss", "", "lower", {}, digits=4), 3.27649, "3.276"),
        (RunFigure("loss", "", "lower", {}), NAN, "nan"),
        (RunFigure("loss", "", "lower", {}), -math.inf, "-inf"),
        (RunFigure("step", "s", "lower", {}), None, "-"),
    ],
)
def test_a_value_as_text(figure: RunFigure, value: float | None, text: str) -> None:
    assert figure.text(value, 2) == text


def test_a_run_with_levels_has_no_single_value() -> None:
    figure = RunFigure("step", "s", "lower", {"a": 1.0, "b": 2.0}, levels={"b": [1.5, 2.5]})
    assert [figure.text_of(run, 2) for run in "abc"] == ["1 s", "1.5 s -> 2.5 s", "-"]
    many = RunFigure("step", "s", "lower", {"a": 1.0}, levels={"a": [1.5, 2.5, 1.2, 2.0, 1.5]})
    assert many.text_of("a", 2) == "1.2 s to 2.5 s"


@pytest.mark.parametrize(
    ("unit", "values", "counts"), [("", [3.0, 4.0], True), ("", [3.0, 4.5], False), ("s", [3.0], False), ("", [], True)]
)
def test_counts_have_no_unit_and_no_fraction(unit: str, values: list[float], counts: bool) -> None:
    assert RunFigure("x", unit, None, dict(enumerate(values))).counts == counts  # type: ignore[arg-type]


# --- by kind ------------------------------------------------------------------------------------------------------

PEAK = {"peak_busbw": 100.0, "peak_algbw": 60.0, "mean_busbw": 40.0, "n": 4, "smallest_s": 1e-5}


@pytest.mark.parametrize(
    ("rows", "figures"),
    [
        ([PEAK], [("peak bus bw", 100.0), ("mean bus bw", 40.0)]),
        ([PEAK, PEAK | {"peak_busbw": 50.0, "n": 8}], [("peak bus bw", 50.0), ("mean bus bw", 40.0)]),
        ([PEAK | {"peak_busbw": NAN, "mean_busbw": NAN}], [("peak bw", 60.0)]),
        ([PEAK | dict.fromkeys(("peak_busbw", "mean_busbw", "peak_algbw"), NAN)], [("latency", 1e-5)]),
        (
            [PEAK | dict.fromkeys(("peak_busbw", "mean_busbw", "peak_algbw"), NAN) | {"n": 99}, PEAK],
            [("peak bus bw", 100.0), ("mean bus bw", 40.0)],  # a barrier moves nothing
        ),
    ],
)
def test_collectives(table: Any, rows: list[dict[str, Any]], figures: list[tuple[str, float]]) -> None:
    table("collectives", *rows, **PEAK)
    assert [(name, values["r"]) for name, _, _, values in found(module._collectives) if "r" in values] == figures


def test_latencies_and_rates_of_servers(table: Any) -> None:
    """Medians, else means; the 99th percentiles come last."""
    row = {"of": "ttft", "dp_rank": NAN, "unit": "s", "mean": 2.0, "median": 1.0, "p99": 9.0}
    rows = [row, row | {"of": "latency", "median": NAN, "p99": NAN}]
    rows += [
        row | {"of": of, "unit": "1/s"} for of in ("Peak_throughput", "Request_throughput", "Output_token_throughput")
    ]
    rows += [row | {"of": "itl"}, row | {"of": "itl", "dp_rank": 1, "median": 7.0}]
    table("serving", *rows, row | {"of": "cache", "unit": "1"}, **row | {"of": "none"})
    assert [each for each in found(module._serving) if "r" in each[3]] == [
        ("TTFT median", "s", "lower", {"r": 1.0}), ("ITL median", "s", "lower", {"r": 1.0}),
        ("output tokens/s", "1/s", "higher", {"r": 1.0}), ("requests/s", "1/s", "higher", {"r": 1.0}),
        ("latency mean", "s", "lower", {"r": 2.0}), ("Peak_throughput", "1/s", "higher", {"r": 1.0}),
        ("TTFT p99", "s", "lower", {"r": 9.0}), ("ITL p99", "s", "lower", {"r": 9.0}),
    ]  # fmt: skip


def test_step_times_with_half_of_their_interval(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"of": "step_time", "part": "steady", "median_s": 2.0, "median_low_s": 1.8, "median_high_s": 2.4}
    table("steps", row | {"part": "all", "median_s": 9.0}, row | {"of": "forward"}, row, **row | {"median_s": NAN})
    monkeypatch.setattr(module, "_levels", lambda *_: {"r": [1.0, 2.0]})
    (figure,) = module._steps(EMPTY, Options())
    assert (figure.name, figure.better, figure.values) == ("step", "lower", {"r": 2.0})
    assert figure.spread == pytest.approx({"r": 0.15}) and figure.levels == {"r": [1.0, 2.0]}


RATES = {"part": "steady", "tflops": NAN, "printed_tflops": 30.0, "mfu": 0.4, "printed_mfu": 0.5, "tokens_per_s": NAN}
RATES |= {"tokens_per_s_median": NAN, "tokens_per_s_gpu_median": 7.0, "samples_per_s_median": 3.0}


def test_rates_as_computed_or_else_as_printed(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_levels", lambda *_: {})
    table("throughput", RATES, **RATES | {"part": "all"})
    figures = {name: (unit, values["r"]) for name, unit, _, values in found(module._rates)}
    assert figures == {
        "TFLOP/s": ("TFLOP/s", 30.0), "MFU": ("1", 0.4), "tokens/s/GPU": ("1/s", 7.0), "samples/s": ("1/s", 3.0),
    }  # fmt: skip
    table(
        "throughput", RATES | {"tokens_per_s": 50.0, "tokens_per_s_median": 55.0, "tflops": 20.0, "mfu": NAN}, **RATES
    )
    figures = {name: (unit, values["r"]) for name, unit, _, values in found(module._rates) if "r" in values}
    assert figures == {
        "TFLOP/s": ("TFLOP/s", 20.0), "MFU": ("1", 0.5), "tokens/s": ("1/s", 55.0), "samples/s": ("1/s", 3.0),
    }  # fmt: skip


def span(part: str, span_s: float, run: str = "r", **more: float) -> dict[str, Any]:
    states = dict.fromkeys(("idle_s", "waiting_s", "communication_s", "compute_s"), 0.0)
    return {"run": run, "part": part, "span_s": span_s} | states | more


def test_iterations_and_lengths_of_traces(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wholes_of_traces", lambda rows: rows[rows["run"] != "other"])
    annotated = Tables(by_hand("steps", [{"step": n, "step_time_s": 1.0} for n in range(3)]))
    table("device_time", span("step", 1.5), span("step", 1.5), **span("step", 1.0, "other"))
    assert found(module._spans, annotated) == []
    assert found(module._spans) == [("iteration", "s", "lower", {"r": 1.5})]
    table("device_time", span("trace", 2.0), span("trace", 4.0), **span("step", 1.0, "other"))
    assert found(module._spans) == [("trace", "s", "lower", {"r": 3.0})]


def test_of_several_traces_what_their_time_consists_of(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wholes_of_traces", lambda rows: rows[rows["run"] != "other"])
    rows = [
        span("trace", 4.0, compute_s=1.0),
        span("trace", 4.0, compute_s=3.0, idle_s=1.0),
        span("trace", 2.0, "b", idle_s=1.0),
    ]
    table("device_time", *rows, **span("trace", 1.0, "other"))
    figures = {name: values for name, _, _, values in found(module._spans)}
    assert figures == {
        "trace": {"r": 4.0, "b": 2.0}, "idle": {"r": 0.125, "b": 0.5}, "exposed comm": {"r": 0.0, "b": 0.0},
        "compute": {"r": 0.5, "b": 0.0},
    }  # fmt: skip
    table("device_time", *rows, span("trace", 2.0, "b", waiting_s=1.0), **span("trace", 1.0, "other"))
    assert {name: values for name, _, _, values in found(module._spans)}["waiting"] == {"r": 0.0, "b": 0.25}


def test_peaks_of_memory_of_several_runs(table: Any) -> None:
    row = {"memory": "device", "peak": 5.0}
    table("memory_peak", row, row | {"peak": 7.0}, row | {"memory": "host", "peak": 99.0}, **row)
    assert found(module._memory) == [("peak memory", "B", "lower", {"r": 7.0, "other": 5.0})]
    table("memory_peak", row, **row | {"run": "r"})
    assert found(module._memory) == []  # a sentence tells it of a single run


def test_work_of_profiles(table: Any) -> None:
    table("breakdown", {"of": "gpu", "whole_s": 2.0}, {"of": "step", "whole_s": 9.0}, of="gpu", whole_s=NAN)
    rows = [
        {"by": "category", "of": of, "time_s": time}
        for of, time in (("api", 1.0), ("api", 0.5), ("gpu", 9.0), ("io", 0.0))
    ]
    table("kernels", *rows, rows[0] | {"by": "name"}, **rows[3])
    assert found(module._profiles) == [("GPU work", "s", "lower", {"r": 2.0}), ("API calls", "s", "lower", {"r": 1.5})]


def test_steps_of_profiles(table: Any) -> None:
    names = ["Train step 1", "Train step 2", "Train step 10", "forward", "eval step 1"]
    rows = [{"range": name, "gpu_s": time} for name, time in zip(names, (1.0, 3.0, 2.0, 99.0, 50.0), strict=True)]
    table("ranges", *rows, **rows[3])
    assert found(module._profiled_steps) == [("GPU work/step", "s", "lower", {"r": 2.0})]


def test_calls_that_are_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "jobs_of_dumps", lambda _: {"r": SimpleNamespace(waiting={1, 2})})
    assert found(module._waiting_ranks) == [("ranks with pending calls", "", "lower", {"r": 2.0})]


@pytest.mark.parametrize(("count", "shares"), [(2, []), (3, [0.75])])
def test_time_in_no_timer(table: Any, count: int, shares: list[float]) -> None:
    """Of three rows or more: of several phases."""
    row = {"kind": UNTIMED, "share": 0.25}
    table("breakdown", *[row] * count, row | {"kind": "compute"}, **row)
    assert [values["r"] for _, _, _, values in found(module._untimed)] == shares


def test_loads_of_ranks(table: Any) -> None:
    row = {"of": "load", "mean": 0.5, "max": 1.0}
    table(
        "imbalance",
        row,
        row | {"max": 2.0},
        row | {"mean": 0.0},
        row | {"of": "time", "max": 99.0},
        **row | {"mean": 0.0},
    )
    assert found(module._imbalance) == [("load max/mean", "", "lower", {"r": 3.0})]


# --- values and counters ------------------------------------------------------------------------------------------


def made(*rows: dict[str, Any]) -> Tables:
    return Tables(by_hand("steps", rows))


def test_means_of_counters() -> None:
    rows = [{"table": "counters", "name": "power", "unit": "W", "value": value} for value in (1.0, 2.0, 6.0, None)]
    assert found(module._counters, made(*rows, rows[0] | {"name": "count", "unit": None})) == [
        ("power", "W", None, {"r": 3.0}), ("count", "", None, {"r": 1.0}),
    ]  # fmt: skip
    names = [name for name, *_ in found(module._counters, made(*rows, rows[0] | {"name": "Duration", "unit": "ms"}))]
    assert names == ["Duration", "power"]


def test_times_of_steps_without_numbers() -> None:
    rows = [{"step_time_s": time} for time in (1.0, 9.0, 3.0, None)]
    more = [{"step_time_s": 50.0, "copy": 2}, {"step_time_s": 60.0, "step": 1}]
    assert found(module._unnumbered_steps, made(*rows, *more)) == [("step time", "s", "lower", {"r": 3.0})]
    assert found(module._unnumbered_steps, made(more[1])) == []


def value(key: str, number: float | None, unit: str | None = None, **more: Any) -> dict[str, Any]:
    return {"table": "values", "key": key, "value": number, "unit": unit} | more


def test_the_last_value_of_each_name_and_unit() -> None:
    rows = [value("a", 1.0), value("b", 5.0, "s"), value("a", 2.0), value("a", 3.0, "1"), value("b", None, "s")]
    figures = found(module._named_values, made(*rows, value("at", 1.7e9)))
    assert [(name, unit, values["r"]) for name, unit, _, values in figures] == [
        ("a", "", 2.0),
        ("a", "", 3.0),
        ("b", "s", 5.0),
    ]


def test_the_last_loss_and_the_last_validation_loss() -> None:
    rows = [{"step": n, "loss": 3.0 - n} for n in range(2)]
    rows += [value(key, 1.5, step=1) for key in ("val_loss", "aux_loss", "val_accuracy")]
    figures = list(module._loss(made(*rows)))
    assert [(each.name, each.values["r"], each.digits) for each in figures] == [("loss", 2.0, 4), ("val_loss", 1.5, 4)]


def test_one_of_the_two_rates_of_a_bar_is_shown() -> None:
    """Tqdm prints seconds where an iteration takes more than one, else iterations."""
    slow, fast = value("smoothed_s_per_it", 2.5, "s"), value("smoothed_it_per_s", 1.5, "1/s")
    rates = made(slow, fast, fast)
    assert module._asides(rates, list(module._last_values(rates, Options()))) == {"smoothed_s_per_it"}


def test_the_memory_of_steps_that_print_nothing_else() -> None:
    rows = [{"step": 1, "memory_bytes": size} for size in (5.0, 7.0, None)]
    (figure,) = run_figures(made(*rows), Options())
    assert (figure.name, figure.unit, figure.values) == ("peak memory", "B", {"r": 7.0})


def test_the_printed_loss_of_a_summary() -> None:
    rows = [("runtime", 9.0, "s"), ("train_loss", 0.5, None), ("epoch", 1.0, None)]
    summary = [{"table": "summaries", "key": key, "value": number, "unit": unit} for key, number, unit in rows]
    assert [name for name, *_ in found(module._summaries, made(*summary))] == ["runtime", "train_loss"]


def test_the_clock_of_a_run() -> None:
    frames = by_hand("steps", [])
    for elapsed, figures in ((30.0, [("total", "s", "lower", {"r": 30.0})]), (None, [])):
        frames["runs"] = frames["runs"].assign(elapsed_s=elapsed)
        assert found(module._totals, Tables(frames)) == figures
    frames["runs"] = frames["runs"].assign(elapsed_s=30.0, format="bars")  # the run may go on after its bar
    assert found(module._totals, Tables(frames)) == [("elapsed", "s", "lower", {"r": 30.0})]


def test_scaling(table: Any) -> None:
    row = {"of": "measured", "table": None, "figure": "tokens_per_s", "speed": 80.0, "efficiency": 0.9, "gpus": 8}
    table("scaling", row, row | {"table": "t", "speed": 1.0}, **row | {"of": "ideal"})
    assert found(module._scaling) == [
        ("tokens/s", "1/s", "higher", {"r": 80.0}), ("efficiency", "1", "higher", {"r": 0.9}),
        ("GPUs", "", None, {"r": 8.0}),
    ]  # fmt: skip
    table("scaling", row, **row | {"figure": "samples_per_s"})
    assert [name for name, *_ in found(module._scaling)] == ["efficiency", "GPUs"]


# --- levels, and which value answers ------------------------------------------------------------------------------


def leveled(monkeypatch: pytest.MonkeyPatch, first: int = 4) -> Tables:
    """A run of ten steps that is twice as slow from a step on; a warm-up of two."""
    times = [1.0] * first + [2.0] * (10 - first)
    levels = [SimpleNamespace(start=0, stop=first), SimpleNamespace(start=first, stop=10)]
    of = SimpleNamespace(levels=levels, series=SimpleNamespace(order=np.arange(10)))
    monkeypatch.setattr(module, "run_levels", lambda *_: {"r": of})
    rows = [{"step": n, "step_time_s": t, "tokens_per_s": 8 / t} for n, t in enumerate(times)]
    return Tables(by_hand("steps", rows))


def test_the_medians_of_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = leveled(monkeypatch)
    assert module._levels(tables, "step_time_s", Options(warmup=0)) == {"r": [1.0, 2.0]}
    assert module._levels(tables, "mfu", Options(warmup=0)) == {}
    monkeypatch.setattr(module, "run_levels", lambda *_: {})
    assert module._levels(tables, "step_time_s", Options(warmup=0)) == {}


@pytest.mark.parametrize(
    ("rate", "levels"),
    [(4.0, [8.0, 4.0]), (16.0, [32.0, 16.0]), (4.002, [8.0, 4.0]), (4.1, None), (2.0, None)],
)
def test_the_levels_of_a_rate_of_all_ranks(
    monkeypatch: pytest.MonkeyPatch, rate: float, levels: list[float] | None
) -> None:
    """The metric is of one rank, or of all: a whole number of times the printed rate, 4 in the median."""
    tables = leveled(monkeypatch)
    for column in ("tokens_per_s", "tokens_per_s_gpu"):
        figure = RunFigure("tokens/s", "1/s", "higher", {"r": rate, "other": 1.0})
        found = dict(module._levels_of_rates(tables, figure, column, Options(warmup=0)))
        assert found == ({} if levels is None else {"r": levels})


def test_what_a_total_consists_of() -> None:
    """Times of steps, samples, then rates."""
    rows = [
        value("tokens", 9.0, "1/s"), value("step_time", 2.0, "s"), value("other_time", 3.0, "s"),
        value(next(iter(SAMPLE_COUNTERS)), 40.0), value("smoothed_s_per_it", 0.5, "s"), value("val_loss", 1.0),
    ]  # fmt: skip
    names = [name for name, *_ in found(module._of_totals, made(*rows))]
    assert names[:2] == ["step_time", "samples"] and "tokens" in names[2:] and "val_loss" not in names
    assert "other_time" not in names


def test_rates_answer_first_then_values_of_no_step_and_times_of_steps() -> None:
    """What configures a run comes last."""
    rows = [
        value("val_loss", 1.0, step=3), value("batch_size", 8.0, "s"), value("load_time", 3.0, "s"),
        value("step_time", 2.0, "s"), value("read", 9.0, "GB/s"), value("tokens", 9.0, "1/s"),
        value("accuracy", 0.5),
    ]  # fmt: skip
    names = [figure.name for figure in module._values(made(*rows), Options())]
    assert names == ["tokens", "read", "step_time", "load_time", "accuracy", "val_loss", "batch_size"]


def test_what_is_left_and_other_loops_answer_only_where_nothing_else_does() -> None:
    aside = [
        value("eta", 7.0, "s"),
        value("request_rate", -1.0, "1/s"),
        *(value(key, 9.0, line=1) for key in ("Map", "Map_total", "Map_elapsed", "smoothed_examples_per_s")),
    ]
    rows = [value("smoothed_s_per_it", 5.0, "s", line=2), value("time_elapsed", 5.0, "s", line=3), value("time", 2.0)]
    names = [figure.name for figure in module._values(made(*rows, *aside), Options())]
    assert sorted(names) == ["smoothed_s_per_it", "time", "time_elapsed"]
    assert len(module._values(made(*aside), Options())) == len(aside)


def test_the_rate_of_a_bar_with_a_name_answers_only_where_no_bar_without_one_does() -> None:
    loading = [value(key, 9.0, line=1, part=0) for key in ("Loading", "Loading_total", "Loading_elapsed")]
    loading.append(value("smoothed_it_per_s", 9.0, "1/s", line=1, part=0))
    steps = [value(key, 5.0, "s", line=2, part=0) for key in ("bar_elapsed", "smoothed_s_per_it")]
    names = [figure.name for figure in module._values(made(*loading, *steps), Options())]
    assert sorted(names) == ["bar_elapsed", "smoothed_s_per_it"]
    assert "smoothed_it_per_s" in [figure.name for figure in module._values(made(*loading), Options())]


@pytest.mark.parametrize(
    ("name", "unit", "is_speed"),
    [
        ("x", "1/s", True), ("x", "GB/s", True), ("x", "TFLOP/s", True), ("x", "s", False), ("throughput", "", True),
        ("throughput", "s", False), ("x", "", False), ("smoothed_rate", "1/s", False),
    ],
)  # fmt: skip
def test_which_value_is_a_speed(name: str, unit: str, is_speed: bool) -> None:
    assert module._is_speed(RunFigure(name, unit, None, {})) == is_speed
    assert not module._is_speed(RunFigure(name, unit, None, {"r": -1.0}))  # of a limit that is not set


def test_recordings_without_times(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "untimed_runs", lambda _: frozenset({"r"}))
    row = {"self_s": NAN, "calls": 3, "bytes": 5.0}
    table("host_operators", row, row | {"calls": 4, "bytes": NAN}, **row | {"self_s": 1.0})
    table("collective_volume", {"bytes": 7.0}, bytes=99.0)
    assert found(module._recorded) == [
        ("operator calls", "", None, {"r": 7.0}), ("tensors", "B", "lower", {"r": 5.0}),
        ("collectives", "B", "lower", {"r": 7.0}),
    ]  # fmt: skip
    monkeypatch.setattr(module, "untimed_runs", lambda _: frozenset())
    assert found(module._recorded) == []


def named(*names: str) -> Any:
    return lambda *_: iter([RunFigure(name, "s", None, {"r": 1.0}) for name in names])


@pytest.mark.parametrize(
    ("replaced", "names"),
    [
        ({"_KINDS": ["step", "MFU"]}, ["step", "MFU", "loss"]),
        ({"_KINDS": ["MFU"]}, ["all phases", "MFU", "loss"]),
        ({"_KINDS": ["total"]}, ["all phases", "total", "loss", "rate"]),
        ({"_KINDS": ["step", "MFU"], "_scaling": ["speed", "MFU"]}, ["speed", "MFU", "step", "loss"]),
        ({"_PRINTED_KINDS": ["summary"]}, ["all phases", "unnumbered", "summary", "loss"]),
        ({}, ["all phases", "unnumbered", "value"]),
    ],
)
def test_the_order_of_all_figures(
    monkeypatch: pytest.MonkeyPatch, replaced: dict[str, list[str]], names: list[str]
) -> None:
    usual: dict[str, list[str]] = {
        "_phases": ["all phases"],
        "_loss": ["loss"],
        "_unnumbered_steps": ["unnumbered"],
        "_scaling": [],
    }
    usual |= {"_of_totals": ["total", "rate"], "_values": ["value"]}
    for name, figures in (usual | replaced).items():
        if name.endswith("KINDS"):
            monkeypatch.setattr(module, name, (named(*figures), named()))
        else:
            monkeypatch.setattr(module, name, named(*figures))
    for name in {"_KINDS", "_PRINTED_KINDS"} - replaced.keys():
        monkeypatch.setattr(module, name, ())
    found = [figure.name for figure in module.run_figures(EMPTY, Options())]
    assert found == names


def test_details_of_the_events_of_a_trace_are_no_figures() -> None:
    """Roctracer writes begin, end and process of each event beside its times."""
    tables = trace_by_hand([kernel(0, 10)])
    frames = {name: tables[name] for name in ("runs", "events", "steps", "lines")}
    details = by_hand("values", [{"run": "r", "line": 1, "key": "BeginNs", "value": 5.0}])["values"]
    assert [figure.name for figure in module._values(Tables({"runs": frames["runs"], "values": details}), Options())]
    assert not module._values(Tables(frames | {"values": details}), Options())
