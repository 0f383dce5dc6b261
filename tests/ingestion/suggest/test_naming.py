"""Names and units of numbers: from the words around them, from keys of objects; unknown ones stay unknown."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.ingestion.suggest.name_evidence import Bond
from perflog.ingestion.suggest.naming import (
    Named,
    head_unit,
    is_counter,
    name,
    name_of_key,
    names,
    settled,
    slug,
    total_of,
    unnamed,
)

AFTER, SAYS = "printed after it", "its name says so"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("of the loss in", "loss"), ("D_A", "d_a"), ("A", ""), ("lossMean", "loss_mean"), ("step2Loss", "step2_loss"),
        ("5 gpus", "gpus"), ("the 5th_loss", "5th_loss"), ("data loading", "data_loading"), ("loading", ""),
        ("Found Using", ""), ("a b c d e f g", "c_d_e_f_g"), ("took it", ""), ("eval it", "eval_it"),
        ("tokens/s", "tokens_s"), ("__", ""), ("", ""), ("x" * 70, "x" * 60),
    ],
)  # fmt: skip
def test_words_as_a_name(words: str, key: str) -> None:
    assert slug(words) == key


def test_a_name_has_some_parts_at_most() -> None:
    assert slug("v w x y z", 2) == "y_z"


@pytest.mark.parametrize(
    ("line", "unit"),
    [
        ("time (ms) | forward: 1.5", "ms"), ("took [us]: a", "us"), ("GPU(s): 5", ""), ("size (GB) | a", ""),
        ("time (ms) forward: 1.5", ""), ("time (ms) | 1.5", ""),
    ],
)  # fmt: skip
def test_the_unit_of_all_times_of_a_line(line: str, unit: str) -> None:
    assert head_unit(line) == unit


@pytest.mark.parametrize(
    ("bond", "more", "found"),
    [
        (Bond(("delay",), unit_of_name="ms"), {}, Named("delay", "ms", SAYS)),
        (Bond(("time",), unit="ms"), {}, Named("time", "ms", AFTER)),
        (Bond(("delay",)), {"has_unit": True}, Named("delay")),
        # the unit of a rate names its number
        (Bond(("tokens", "per", "s"), is_unit=True, unit="tokens/s"), {},
         Named("tokens_per_s", "tok/s", AFTER, "tokens_per_s")),
        (Bond(("ms", "per", "token"), is_unit=True, unit="ms"), {}, Named("per_token", "ms", AFTER)),
        (Bond(("s/it",), is_unit=True, unit="s/it"), {}, Named("step_time", "s", AFTER, "step_time")),
        (Bond(("items/s",), is_unit=True, unit="items/s"), {}, Named("items_per_s", "1/s", AFTER)),
        (Bond(("GB/s",), is_unit=True, unit="GB/s"), {}, Named("bandwidth", "GB/s", AFTER)),
        (Bond(("ms",), is_unit=True, unit="ms"), {}, Named("time", "ms", AFTER)),
        (Bond(("GB", "per", "s"), is_unit=True, unit="GB"), {}, Named("gb_per_s", "GB", AFTER)),
        (Bond(("delay",), unit="ms"), {"has_unit": True}, Named("delay")),
        # a name that is a unit, and none at all
        (Bond(("ms",)), {}, Named("time", "ms", SAYS)), (Bond(("seconds",)), {}, Named("time", "s", SAYS)),
        (Bond(), {}, Named("number", vague=True)), (Bond((), unit="ms"), {}, Named("time", "ms", AFTER)),
        (Bond((), unit="GB"), {}, Named("size", "GB", AFTER)), (Bond(), {"has_unit": True}, Named("time")),
        # the unit of the line is of times alone, and not of places
        (Bond(("forward",)), {"line_unit": "ms"}, Named("forward", "ms", "the start of the line says so", "forward")),
        (Bond(("wait",), unit="s"), {"line_unit": "ms"}, Named("wait", "s", AFTER)),
        (Bond(("wait",)), {"line_unit": "ms", "has_unit": True}, Named("wait")),
        (Bond(("rank",)), {"line_unit": "ms"}, Named("rank", printed="rank")),
        (Bond(("local_rank",)), {"line_unit": "ms"}, Named("local_rank")),
        # factors, and what it is counted per
        (Bond(("parameters",), factor="B"), {}, Named("parameters_billions")),
        (Bond(("parameters",), factor="K"), {}, Named("parameters_thousands")),
        (Bond(("x",), factor="K"), {}, Named("x_k")), (Bond(("x",), unit="ms", factor="K"), {}, Named("x_k")),
        (Bond(("request", "size"), factor="B"), {}, Named("request_size", "B", "its name is of a size")),
        (Bond(("model", "size"), factor="B"), {}, Named("model_size_b")),
        (Bond(("rate",), per=("node",)), {}, Named("rate_per_node")),
        (Bond(("node", "rate"), per=("node",)), {}, Named("node_rate")),
        # columns
        (Bond(("step",)), {}, Named("step", printed="step")),
        (Bond(("mfu",)), {"texts": ["0.4"]}, Named("mfu", printed="mfu")),
        (Bond(("mfu",)), {"texts": ["0.4", "1.6"]}, Named("mfu", "%", "above 1, so it is not a share", "mfu")),
        (Bond(("mfu",)), {"texts": ["1.5"]}, Named("mfu", printed="mfu")),
        (Bond(("step",)), {"texts": ["5.5"]}, Named("step_printed")),
        (Bond(("step",)), {"texts": ["5", "5.5"]}, Named("step_printed")),
        (Bond(("label",)), {}, Named("label_printed")),
        (Bond(("grad_norm",), unit="ms"), {}, Named("grad_norm_printed", "ms", AFTER)),
    ],
)  # fmt: skip
def test_the_name_of_a_number(bond: Bond, more: dict[str, Any], found: Named) -> None:
    options = {"texts": ["5"]} | more
    assert name(bond, **options) == found


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("step", ("step", "")), ("loss", ("loss", "")), ("gpu_mem_gb", ("memory", "GB")),
        ("Transfer/sec", ("transfer_per_sec", "1/s")), ("gpu_weights_percent", ("gpu_weights_percent", "")),
        ("Requests/sec", ("requests_per_s", "1/s")), ("read GB/s", ("read", "GB/s")), ("latency_ms", ("latency", "ms")),
        ("", ("number", "")), ("%", ("number", "")), ("a", ("a", "")),
    ],
)  # fmt: skip
def test_the_name_of_a_key(key: str, found: tuple[str, str]) -> None:
    named = name_of_key(key, ["5"])
    assert (named.name, named.unit, named.why) == (*found, SAYS if found[1] else "")


@pytest.mark.parametrize(
    ("counter", "total"),
    [("step", "steps"), ("batch", "batches"), ("my_batch", "my_batches"), ("mem", "mem_total"),
     ("samples", "samples_total"), ("train_epoch", "train_epochs"), ("rank", "rank_total"), ("file", "files")],
)  # fmt: skip
def test_the_total_that_a_number_counts_up_to(counter: str, total: str) -> None:
    assert total_of(counter) == total


def test_what_a_program_counts() -> None:
    assert all(map(is_counter, ("step", "train_steps", "batches", "samples", "file", "mem")))
    assert not any(map(is_counter, ("loss", "stepping", "value")))


def test_names_of_a_column() -> None:
    assert names("step", "iteration") and not names("step", "loss")


@pytest.mark.parametrize(
    ("place", "words", "found"),
    [
        (1, ["loss"], "number_1_of_loss"), (3, ["Saving", "model", "now"], "number_3_of_saving_model"),
        (2, ["ms"], "number_2"), (1, ["ms"], "number"), (1, ["ms", "loss"], "number_1_of_loss"),
        (2, ["Saving model_now x"], "number_2_of_now_x"),
    ],
)  # fmt: skip
def test_a_number_that_nothing_names(place: int, words: list[str], found: str) -> None:
    assert unnamed(place, words) == found


def test_names_of_a_line_are_unique() -> None:
    line = [
        Named("a", "ms", "why"), Named("a"), Named("step", printed="it"), Named("step", printed="iter"),
        Named("step", printed="it"), Named("number", vague=True),
    ]  # fmt: skip
    assert [(each.name, each.printed, each.unit, each.why, each.vague) for each in settled(line, ["Saved"])] == [
        ("a", "", "ms", "why", False), ("a_2", "", "", "", False), ("step", "it", "", "", False),
        ("iter", "iter", "", "", False), ("it", "it", "", "", False), ("number_6_of_saved", "", "", "", True),
    ]  # fmt: skip
