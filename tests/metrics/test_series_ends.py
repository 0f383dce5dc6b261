"""The last values of series, and the step at which runs of other length compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.format_files import given_file
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Tables
from perflog.metrics.compared import Steady
from perflog.metrics.series import series_ends as module
from perflog.metrics.series.series_ends import (
    LOSS,
    equal_steps,
    last_values,
    named_value_samples,
    names_step_time,
    summary_figures,
)
from perflog.tables.columns import NULL

FORMAT = """
title = "series of ranks"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:r}"
sample = "finished step 3 with loss 2.5"
[[line]]
name = "value"
table = "values"
text = "metric {key:S} at step {step:d} is {value:r}"
sample = "metric a at step 3 is 2.5"
[[line]]
name = "rate"
table = "values"
text = "server rate {key:S} is {value:r} per second"
unit = { value = "1/s" }
sample = "server rate a is 2.5 per second"
[[line]]
name = "time"
table = "values"
text = "server time {key:S} is {value:r} ms"
unit = { value = "ms" }
sample = "server time a is 2.5 ms"
[[line]]
name = "part"
table = "values"
text = "part {key:S} of step {step:d} is {value:r} ms"
unit = { value = "ms" }
sample = "part a of step 3 is 2.5 ms"
"""


def tables(folder: Path, lines: list[str], name: str = "run") -> Tables:
    path = folder / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in ["program with 8 sequences", *lines]))
    return Tables(perflog.read(path, format=str(given_file(folder, FORMAT))))


def lasts(folder: Path, lines: list[str], either_way: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    found = tables(folder, lines)
    figures = last_values(found.rows("values"), found.rows("steps"), either_way)
    return [(name, unit, better, *values.tolist()) for name, unit, better, values in figures]


def values(key: str, *numbers: Any, rank: int | None = None) -> list[str]:
    label = "" if rank is None else f"[rank{rank}]:"
    return [f"{label}metric {key} at step {step} is {number}" for step, number in enumerate(numbers)]


def losses(*numbers: Any) -> list[str]:
    return [f"finished step {step} with loss {number}" for step, number in enumerate(numbers)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (losses(2.5, 1.5), [("loss", "", "lower", 1.5)]),
        (values("val_loss", 2.5, 1.5), [("val_loss", "", "lower", 1.5)]),
        (values("accuracy", 0.5, 0.75), [("accuracy", "", "higher", 0.75)]),
        (values("odd", 0.5, 0.75), []),  # nobody knows which way is better
        (values("start_time", 1.7e9), []),  # a moment since 1970
        (values("val_loss", 2.5, rank=0) + values("val_loss", 1.5, rank=1), [("val_loss", "", "lower", 2.0)]),
        (  # the last value of each rank
            values("val_loss", 9.0, 2.5, rank=0) + values("val_loss", 9.0, 1.5, rank=1),
            [("val_loss", "", "lower", 2.0)],
        ),
        (values("val_loss", 9.0, rank=0) + values("val_loss", 1.5), [("val_loss", "", "lower", 1.5)]),  # of which rank?
        (  # the step time comes first
            ["server time odd is 7.5 ms", "server time step_time is 2.5 ms"],
            [("step_time", "s", "lower", 0.0025), ("odd", "s", "lower", 0.0075)],
        ),
        (  # a rate without steps: the median of what is above 0
            [f"server rate tokens is {number} per second" for number in (1.0, 2.0, 9.0, 0.0)],
            [("tokens", "1/s", "higher", 2.0)],
        ),
    ],
)
def test_last_values(tmp_path: Path, lines: list[str], expected: list[tuple[Any, ...]]) -> None:
    found = lasts(tmp_path, ["finished step 0 with loss 7.5", *lines])
    assert [each for each in found if each != ("loss", "", "lower", 7.5)] == expected


def test_printed_nan_is_a_value(tmp_path: Path) -> None:
    ((name, _, _, value),) = lasts(tmp_path, losses(2.5, "nan"))
    assert name == "loss" and value != value


def test_a_series_may_be_kept_without_a_direction(tmp_path: Path) -> None:
    lines = [*losses(2.5), *values("odd", 1.0, 3.0), *values("val_loss", 2.0)]
    assert lasts(tmp_path, lines, ("odd",))[1:] == [("odd", "", None, 3.0), ("val_loss", "", "lower", 2.0)]
    assert lasts(tmp_path, lines, ("val_loss",))[1:] == [("val_loss", "", None, 2.0)]  # as it is declared


@pytest.mark.parametrize(
    ("key", "unit", "expected"),
    [("avg_step_time", "s", True), ("iter_ms", "s", True), ("time", "s", False), ("step_time", None, False)],
)
def test_names_of_step_times(key: str, unit: str | None, expected: bool) -> None:
    assert names_step_time(key, unit) == expected


def shared(folder: Path, *sides: list[str]) -> dict[str, int]:
    every = [tables(folder, lines, f"run{number}") for number, lines in enumerate(sides)]
    return equal_steps([(found, found.rows("runs")["run"].tolist()) for found in every])


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (losses(*range(10)), losses(*range(8)), {"loss": 7}),
        (losses(*range(10)), losses(*range(10)), {}),  # they end at one step
        (losses(*range(10)), losses(*range(8))[::2], {"loss": 6}),  # the last that both print
        (losses(0, 1), ["finished step 7 with loss 1.5"], {}),  # none
        (
            [*losses(1), *values("val_loss", 1, 2, 3)],
            [*losses(1), *values("val_loss", 1, 2)],
            {"val_loss": 1},
        ),
        ([*losses(1), *values("val_loss", 1, 2, 3)], losses(1), {}),  # one side has it
    ],
)
def test_the_last_step_of_both(tmp_path: Path, one: list[str], two: list[str], expected: dict[str, int]) -> None:
    assert shared(tmp_path, one, two) == expected


def test_a_run_that_stopped_early_shortens_no_other(tmp_path: Path) -> None:
    """A side of three runs: the one that stopped before half of the usual step is left out."""
    start = "program with 8 sequences"
    side = [*losses(*range(10)), start, *losses(*range(10)), start, *losses(*range(3))]
    assert shared(tmp_path, side, losses(*range(8))) == {"loss": 7}
    side = [*losses(*range(10)), start, *losses(*range(10)), start, *losses(*range(6))]
    assert shared(tmp_path, side, losses(*range(8))) == {"loss": 5}


def by_key(*rows: tuple[str, float | None, str | None], **more: Any) -> Tables:
    return Tables(by_hand("values", [{"key": key, "value": value, "unit": unit, **more} for key, value, unit in rows]))


def test_only_an_mfu_is_a_share() -> None:
    """Units of 1 are left out elsewhere: a loss of 9.6 is no 960 %."""
    found = by_key(("val_loss", 9.6, "1"), ("mfu", 0.5, "1"), ("mfu_b", 0.5, None), step=1)
    figures = last_values(found.rows("values"), found.rows("steps"))
    assert [(name, unit) for name, unit, *_ in figures] == [("val_loss", ""), ("mfu", "1"), ("mfu_b", "")]


def test_values_of_runs_that_have_nothing_else() -> None:
    """The median of a table, the last value of a series; no moments since 1970, and nothing that is not known."""
    scores = [("score", 1.0, None), ("score", 5.0, "B"), ("score", 2.0, "s")]
    table = by_key(*scores, ("at", 1.7e9, None), ("x", None, None))
    ((measure, run, values),) = named_value_samples(table, ["r"])
    assert (measure.name, measure.unit, run, values.tolist()) == ("score, median", "B", "r", [2.0])
    ((measure, _, values),) = named_value_samples(by_key(("score", 1.0, None), ("score", 5.0, None), step=3), ["r"])
    assert (measure.name, measure.unit, values.tolist()) == ("score", "", [5.0])
    ((measure, _, values),) = named_value_samples(by_key(("score", 1.0, None)), ["r"])
    assert (measure.name, values.tolist()) == ("score", [1.0])


@pytest.mark.parametrize(
    ("keys", "ranks", "last"),
    [
        ([0, 1, 0, 1], [0, 0, 1, 0], [0, 2, 3]),
        ([0, 1, 0, 1], [NULL] * 4, [2, 3]),
        ([0, 1, 0, 1], [0, 0, NULL, 1], [1, 2, 3]),  # of which rank the last value of key 0 is, is not known
        ([1, 1, 1], [NULL] * 3, [2]),
        ([], [], []),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 1 << 18])
def test_the_last_place_of_a_key_on_each_rank(
    monkeypatch: pytest.MonkeyPatch, keys: list[int], ranks: list[int], last: list[int], block: int
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    places = module._last_places(np.array(keys, np.int64), np.array(ranks, np.int64))
    assert places.tolist() == last


def test_a_time_measured_again_and_again_is_a_median_and_a_clock_is_read_last(tmp_path: Path) -> None:
    epochs = [f"server time epoch is {value} ms" for value in (900, 400, 500)]
    clock = [f"server time clock is {value} ms" for value in (100, 200, 300)]
    parts = [f"part load of step {step} is {value} ms" for step, value in enumerate((700, 200, 600))]
    found = {name: value for name, _, _, value in lasts(tmp_path, [*epochs, *clock, *parts])}
    assert found == pytest.approx({"epoch": 0.5, "clock": 0.3, "load": 0.6})


def test_the_steps_of_a_series_are_its_own() -> None:
    """The loss is also a column of the steps; a value of no step has none."""
    values = [("a", 5), ("a", 3), ("b", 7), ("a", None), ("loss", 9)]
    rows: list[dict[str, Any]] = [{"table": "values", "key": key, "step": step, "value": 1.0} for key, step in values]
    rows += [{"step": step, "loss": loss} for step, loss in ((1, 2.5), (2, None), (9, 2.0))]
    tables = Tables(by_hand("steps", rows))
    assert {key: module._steps(tables, "r", key).tolist() for key in ("a", "b", "c", LOSS)} == {
        "a": [3, 5], "b": [7], "c": [], LOSS: [1, 9]
    }  # fmt: skip


def test_summaries_with_a_unit_that_has_a_better_direction() -> None:
    """Rates come first; a number without a unit, or with one of an amount, is no result of a speed."""
    given = [("time", "s", 2.0), ("rate", "1/s", 5.0), ("rate", "1/s", 7.0), ("count", None, 3.0), ("note", "x", 1.0)]
    summaries = [{"key": key, "unit": unit, "value": value} for key, unit, value in given]
    rows = Tables(by_hand("summaries", summaries)).rows("summaries")
    found = [(key, unit, better, values.tolist()) for key, unit, better, values in summary_figures(rows)]
    assert found == [("rate", "1/s", "higher", [5.0, 7.0]), ("time", "s", "lower", [2.0])]
    assert list(summary_figures(rows.where(rows["value"] > 9))) == []


def test_losses_that_a_run_prints_at_its_end() -> None:
    """They have no unit and a better direction."""
    given = [("train_loss", None, 2.0), ("eval_loss", None, 3.0), ("loss_time", "s", 4.0), ("loss_scale", None, 9.0),
             ("accuracy", None, 0.5)]  # fmt: skip
    summaries = [{"key": key, "unit": unit, "value": value} for key, unit, value in given]
    rows = Tables(by_hand("summaries", summaries)).rows("summaries")
    found = [(key, unit, better, values.tolist()) for key, unit, better, values in module.summary_losses(rows)]
    assert found == [("train_loss", "", "lower", [2.0]), ("eval_loss", "", "lower", [3.0])]
    assert list(module.summary_losses(rows.where(rows["value"] > 9))) == []


def test_the_last_line_of_a_series_counts_in_any_order_of_the_rows() -> None:
    rows = [{"key": "val_loss", "value": value, "line": line} for value, line in ((1.0, 9), (2.0, 7), (3.0, 8))]
    tables = Tables(by_hand("values", rows))
    assert [values.tolist() for *_, values in last_values(tables.rows("values"), tables.rows("steps"))] == [[1.0]]


def test_a_series_has_its_value_at_the_step_of_all_runs_before_its_last_one() -> None:
    """Of a series that ends at another step than that of other runs. Values with a unit have their last one alone."""
    rows: list[dict[str, Any]] = [{"step": step, "loss": 9.0 - step} for step in range(1, 6)]
    rows += [{"table": "values", "step": step, "key": "val_loss", "value": 8.0 - step} for step in (2, 4)]
    rows += [{"table": "values", "step": step, "key": "rate", "value": 5.0, "unit": "1/s"} for step in (2, 4)]
    tables = Tables(by_hand("steps", rows))
    at = {"loss": 3, "val_loss": 2, "rate": 2, "other": 4}
    found = module._series_values(tables.rows("values"), tables.rows("steps"), at)
    assert [(name, values.tolist()) for name, _, _, values in found] == [
        ("loss at step 3", [6.0]), ("loss", [4.0]), ("val_loss at step 2", [6.0]), ("val_loss", [4.0]), ("rate", [5.0])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steady", "names"),
    [
        (Steady({"r": 0}, {}, {"r": {"loss": 1}}), ["loss at step 1", "loss"]),
        (Steady({"r": 0}, {}, {"r": {"loss": 1}}, last={"r": 2}), ["loss"]),  # all ends are the same then
        (Steady({}, {}), []),  # a run that is not compared
    ],
)
def test_samples_of_the_values_of_a_run(steady: Steady, names: list[str]) -> None:
    tables = Tables(by_hand("steps", [{"step": step, "loss": 9.0 - step} for step in (1, 2, 3)]))
    found = list(module.value_samples(tables, steady))
    assert [(measure.kind, measure.name, run) for measure, run, _ in found] == [("value", name, "r") for name in names]
    if names:
        assert found[-1][2].tolist() == [9.0 - steady.last.get("r", 3)]


@pytest.mark.parametrize(
    ("first", "table", "names"),
    [
        ({}, "values", ["avg_rate", "tokens_per_s", "time"]),
        ({"r": 3}, "values", ["time"]),  # averages of the steps that are compared themselves
        ({}, "collectives", []),  # a benchmark of collectives
    ],
)
def test_samples_of_the_printed_ends_of_a_run(first: dict[str, int], table: str, names: list[str]) -> None:
    given = [("time", "s", None), ("avg_rate", "1/s", 1), ("tokens_per_s", "1/s", None), ("count", None, None)]
    rows: list[dict[str, Any]] = [
        {"key": key, "unit": unit, "value": 2.0, "window_first": window, "window_last": window}
        for key, unit, window in given
    ]
    tables = Tables(by_hand("summaries", [*rows, {"table": table}]))
    found = list(module.summary_samples(tables, Steady({"r": 0}, first)))
    assert [(measure.kind, measure.name) for measure, *_ in found] == [("summary", name) for name in names]
    assert list(module.summary_samples(tables, Steady({}, first))) == []
