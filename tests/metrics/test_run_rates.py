"""Size, batch and rates of runs, by the words of what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.options import Options
from perflog.metrics.step_time.run_rates import named_rates, run_rates, sized, sized_runs


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({"world_size": "8"}, 8),
        ({"WorldSize": "8"}, 8),
        ({"train.world-size": "8"}, 8),
        ({"num_gpus": "4"}, 4),
        ({"total_devices": "4"}, 4),
        ({"number_of_processes": "4"}, 4),
        ({"n_proc": "4"}, None),
        ({"ngpu": "4"}, 4),
        ({"gpu_count": "4"}, 4),
        ({"gpus": "1,024"}, 1024),
        ({"world_size": "8", "gpus": "4"}, 8),
        ({"world_size": "0", "gpus": "4"}, 4),  # not set
        ({"world_size": "2, 8, 4"}, 8),  # of groups of ranks, and of all
        ({"nodes": "2", "gpus_per_node": "4"}, 8),
        ({"nnodes": "2", "nproc_per_node": "4"}, 8),
        ({"num_hosts": "2", "local_world_size": "4"}, 8),
        ({"nodes": "2"}, None),
        ({"gpus_per_node": "4"}, None),
        ({"gpus": "2.5"}, None),
        ({"gpus": "0.5"}, None),
        ({"gpus": "1"}, 1),
        ({"gpus": "-4"}, None),
        ({"gpus": "all"}, None),
        ({"gpus": "inf"}, None),
        ({}, None),
    ],
)
def test_the_number_of_gpus(settings: Mapping[str, str], gpus: int | None) -> None:
    run = sized(settings, {}, {})
    assert (None if run is None else run.gpus) == gpus


@pytest.mark.parametrize(
    ("settings", "batch", "of_one"),
    [
        ({"global_batch_size": "32"}, 32, 8),
        ({"train_batch_size": "32"}, 32, 8),
        ({"batch_size_per_gpu": "8"}, 32, 8),
        ({"per_device_train_batch_size": "8"}, 32, 8),
        ({"batch_size_per_gpu": "8", "gradient_accumulation_steps": "2"}, 64, 16),
        ({"batch_size_per_gpu": "8", "gradient_accumulation_steps": "0"}, 32, 8),
        ({"global_batch_size": "32", "batch_size_per_gpu": "4"}, 32, 8),  # as printed for all
        ({"global_batch_size": "0"}, None, None),
        ({"batch_size": "8"}, None, None),  # of one or of all
    ],
)
def test_the_batch(settings: Mapping[str, str], batch: float | None, of_one: float | None) -> None:
    run = sized({"world_size": "4", **settings}, {}, {})
    assert run is not None and (run.batch, run.batch_of_one) == (batch, of_one)


def test_what_runs_of_several_sizes_have_in_common() -> None:
    """Not what follows from the size, nor how long a run takes; of numbers those that shape a model."""
    settings = {"world_size": "4", "model": "gpt2", "dp_size": "4", "max_steps": "10", "hidden_size": "64"}
    texts = {"note": "x" * 64, "machine": "x" * 65}
    numbers = {"n_layers": 12.0, "loss": 2.5, "gpus": 9.0, "seq": 1.5e6}
    run = sized(settings, texts, numbers)
    assert run is not None and run.gpus == 4
    assert dict(run.key) == {
        "model": "gpt2", "hidden_size": "64", "note": "x" * 64, "n_layers": "12", "seq": "1.5e+06",
    }  # fmt: skip


def test_numbers_that_are_printed_once_give_the_size_too() -> None:
    run = sized({"model": "gpt2"}, {}, {"gpus": 8.0, "batch_size_per_gpu": 2.0})
    assert run is not None and (run.gpus, run.batch) == (8, 16)
    run = sized({"gpus": "2"}, {}, {"gpus": 8.0})  # the setting counts
    assert run is not None and run.gpus == 2


@pytest.mark.parametrize(
    ("name", "covers_all"),
    [
        ("tokens_per_sec", None),
        ("tokens/s", None),
        ("throughput", None),
        ("global_tokens_per_sec", True),
        ("total_throughput", True),
        ("tokens_per_sec_per_gpu", False),
        ("total_tokens_per_gpu_per_s", False),
        ("eval.samples_per_second", None),
    ],
)
def test_rates_by_their_names(name: str, covers_all: bool | None) -> None:
    (rate,) = named_rates({name: {"a": 0.5, "b": 0.0, "c": -1.0}})
    assert (rate.name, rate.covers_all, rate.values) == (name, covers_all, {"a": 0.5})


def test_rates_of_all_come_first_and_other_numbers_are_none() -> None:
    names = ["tokens_per_s", "tokens_per_s_per_gpu", "loss", "total_tokens_per_s", "per_total_loss"]
    assert [rate.name for rate in named_rates({name: {"a": 1.0} for name in names})] == [
        "total_tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_s",
    ]  # fmt: skip


def test_rates_of_a_run_without_steps() -> None:
    """A number that is printed once, for no step and no rank."""
    values: list[dict[str, Any]] = [
        {"key": "tokens_per_s", "value": 50.0},
        {"key": "samples_per_s", "value": 1.0, "step": 3},
        {"key": "images_per_s", "value": 2.0, "rank": 0},
        {"key": "frames_per_s", "value": 3.0},
        {"key": "frames_per_s", "value": 4.0},
        {"key": "rows_per_s", "value": float("inf")},
        {"key": "model", "text": "gpt2"},
    ]
    rates = run_rates(Tables(by_hand("values", values)), Options())
    assert [(rate.name, rate.values) for rate in rates if rate.values] == [("tokens_per_s", {"r": 50.0})]


def test_a_batch_and_the_step_time_give_a_rate() -> None:
    steps = [{"step": step, "step_time_s": 0.5} for step in range(10)]
    once: list[dict[str, Any]] = [
        {"table": "values", "key": key, "value": value} for key, value in (("gpus", 4.0), ("global_batch_size", 32.0))
    ]
    once.append({"table": "values", "key": "model", "text": "gpt2"})
    rates = run_rates(Tables(by_hand("steps", [*steps, *once])), Options())
    assert [(rate.name, rate.covers_all, rate.values) for rate in rates if rate.values] == [
        ("samples_per_s", True, {"r": 64.0})
    ]


def test_rates_that_steps_print() -> None:
    steps = [{"step": step, "step_time_s": 0.5, "tokens_per_s": 8.0 if step < 6 else 80.0} for step in range(10)]
    first, *_ = run_rates(Tables(by_hand("steps", steps)), Options(warmup=6))
    assert (first.name, first.covers_all, first.values) == ("tokens_per_s", True, {"r": 80.0})


@pytest.mark.parametrize(
    ("config", "is_sized"),
    [({"process": 3, "dtype": "bf16"}, False), ({"process": 3, "model": "gpt2"}, True), ({}, False)],
)
def test_a_size_alone_does_not_show_the_work_of_another_run(config: dict[str, Any], is_sized: bool) -> None:
    """Neither do the device, the precision, or the number of the process in the log."""
    tables = by_hand("values", [{"key": "loss", "value": 2.5}], world=4)
    tables["runs"]["config"] = json.dumps(config)
    assert bool(sized_runs(Tables(tables))) == is_sized
