"""Columns of records: which are parameters of cases, and which are results."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.metrics.benchmarks.case_parameters import (
    _counts_up,
    are_words,
    follows,
    is_failure,
    is_outcome,
    number_in,
    parameters_of,
    sweeps_in,
)

TIMES = [0.5, 0.25, 0.75, 1.5]


def parameters(units: dict[str, str] | None = None, /, **columns: Any) -> list[str]:
    """The names of parameters; whole numbers of the columns are floats, as in a table."""
    return found(units, **columns)[0]


def found(units: dict[str, str] | None = None, /, **columns: Any) -> tuple[list[str], dict[str, Any]]:
    cells = {name: [float(x) if isinstance(x, int) else x for x in of] for name, of in columns.items()}
    return parameters_of(cells, dict.fromkeys(cells, "") | (units or {}))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"op": ["a", "a", "b", "b"], "n": [1, 2, 1, 2], "took": TIMES}, ["op", "n"]),
        # whole numbers identify the cases; a second one is measured unless its name configures
        ({"count": [1, 2, 3, 4], "hits": [7, 8, 6, 5], "took": TIMES}, ["count"]),
        ({"count": [1, 2, 3, 4], "seq_len": [8, 8, 4, 4], "took": TIMES}, ["count", "seq_len"]),
        ({"count": [1, 2, 3, 4], "training_iteration": [8, 8, 4, 4], "took": TIMES}, ["count"]),
        # what is measured ends the parameters: a size after it counts only where cases are not identified
        ({"op": ["a", "b", "c", "d"], "took": TIMES, "size": [1, 2, 3, 4]}, ["op"]),
        ({"op": ["a", "a", "b", "b"], "took": TIMES, "size": [1, 2, 1, 2]}, ["op", "size"]),
        ({"op": ["a", "a", "b", "b"], "took": TIMES, "hits": [1, 2, 1, 2]}, ["op"]),
        ({"op": ["a", "a", "b", "b"], "took": TIMES, "variant": ["x", "y", "x", "y"]}, ["op", "variant"]),
        ({"op": ["a", "a", "b", "b"], "took": TIMES, "variant": ["x", "oom", "x", "y"]}, ["op"]),
        ({"op": ["a", "a", "b", "b"], "took": TIMES, "variant": ["x", "x", "x", "y"]}, ["op"]),
        # without leading parameters, sizes and words after the results identify the cases
        ({"took": TIMES, "size": [1, 2, 3, 4]}, ["size"]),
        ({"took": TIMES, "impl": ["a", "b", "c", "d"]}, ["impl"]),
        ({"took": TIMES, "hits": [1, 2, 3, 4]}, []),
        ({"took": TIMES, "size": [1, 1, 2, 2]}, []),
        # a degree configures until the parameters before it identify the records
        ({"op": ["a", "a", "b", "b"], "drop_ratio": [0.1, 0.2, 0.1, 0.2], "took": TIMES}, ["op", "drop_ratio"]),
        ({"op": ["a", "b", "c", "d"], "drop_ratio": [0.1, 0.2, 0.1, 0.2], "took": TIMES}, ["op"]),
        # what a search chooses is a parameter wherever it is printed
        ({"op": ["a", "b", "c", "d"], "took": TIMES, "lr": [0.1, 0.2, 0.1, 0.2]}, ["op", "lr"]),
        ({"lr": [0.1, 0.2, 0.1, 0.2], "n": [1, 1, 2, 2], "took": TIMES}, ["lr", "n"]),
        # numbers of steps that each variant has configure; the number of a step is progress
        ({"variant": ["a", "b", "a", "b"], "steps": [1, 1, 8, 8], "took": TIMES}, ["variant", "steps"]),
        ({"variant": ["a", "b", "a", "b"], "step": [1, 1, 8, 8], "took": TIMES}, []),
        ({"variant": ["a", "b", "a", "b"], "steps": [1, 2, 3, 4], "took": TIMES}, []),
        ({"variant": [*"ab"] * 9, "steps": [n // 2 for n in range(18)], "took": [1.5, 2.5, 3.5] * 6}, []),  # a curve
        # two trials of one choice
        ({"lr": [0.1, 0.2, 0.1, 0.2], "took": TIMES, "trial": ["t1", "t2", "t3", "t4"]}, ["lr", "trial"]),
        ({"lr": [0.1, 0.2, 0.3, 0.4], "took": TIMES, "trial": ["t1", "t2", "t3", "t4"]}, ["lr"]),
        ({"number": [1, 2, 3, 4], "took": TIMES, "params_x": [0.3, 0.5, 0.7, 0.9]}, ["params_x"]),
        ({"number": [1, 2, 3, 4], "took": TIMES, "x": ["p", "q", "p", "q"]}, ["number"]),
        ({"clip_norm": [0.1, 0.2, 0.1, 0.2], "n": [1, 1, 2, 2], "took": TIMES}, ["clip_norm", "n"]),
        ({"op": ["a", "b", "c", "d"], "took": TIMES, "Clip_Score": [0.1, 0.2, 0.1, 0.2]}, ["op"]),
        # epochs that count up, wherever they are printed, are a series
        ({"lr": [0.1, 0.2, 0.3, 0.4], "took": TIMES, "epoch": [5, 10, 15, 20]}, []),
        ({"lr": [0.1, 0.2, 0.3, 0.4], "took": TIMES, "epoch": [5, 15, 10, 20]}, ["lr"]),
        ({"op": ["a", "b", "c", "d"], "took": TIMES, "epoch": [5, 10, 15, 20]}, ["op"]),
        # neither a unit nor an outcome
        ({"unit": ["ms", "ms", "s", "s"], "n": [1, 2, 3, 4], "took": TIMES}, ["n"]),
        ({"status": ["ok", "ok", "fail", "ok"], "n": [1, 2, 3, 4], "took": TIMES}, ["n"]),
        ({"state": ["fp32", "bf16", "fp8", "int8"], "took": TIMES}, ["state"]),
        # a job has a state and an exit code
        ({"job": ["a", "b", "c", "d"], "partition": ["x", "y", "x", "y"], "took": TIMES}, ["job"]),
        ({"name": ["a", "b", "c", "d"], "partition": ["x", "y", "x", "y"], "took": TIMES}, ["name", "partition"]),
    ],
)  # fmt: skip
def test_parameters(columns: dict[str, list[Any]], expected: list[str]) -> None:
    assert parameters(**columns) == expected


def test_amounts_of_bytes_are_parameters_if_their_name_is_a_size() -> None:
    cells = [1.5, 2.5, 3.5, 4.5]
    assert parameters({"message_size": "B"}, message_size=cells, took=TIMES) == ["message_size"]
    assert parameters({"memory": "B"}, memory=cells, took=TIMES) == []
    assert parameters({"message_size": "B"}, message_size=[1.5, None, 3.5, 4.5], took=TIMES) == []


def test_settings_are_the_same_in_all_records() -> None:
    names, settings = found(dtype=["bf16"] * 4, heads=[8] * 4, n=[1, 2, 3, 4], loss=[0.5] * 4, took=TIMES)
    assert (names, settings) == (["n"], {"dtype": "bf16", "heads": 8.0})
    assert found({"heads": "s"}, heads=[8] * 4, n=[1, 2, 3, 4])[1] == {}


def test_a_column_of_chosen_numbers_with_a_unit_is_measured() -> None:
    assert parameters({"warmup": "s"}, op=["a", "b"], took=[0.5, 0.7], warmup=[0.1, 0.2]) == ["op"]


@pytest.mark.parametrize("name", ["step", "epoch", "request_id", "train_step", "val_batch"])
def test_a_series_has_no_cases(name: str) -> None:
    assert parameters(**{name: [1, 2, 3, 4], "took": TIMES}) == []


@pytest.mark.parametrize("name", ["num_steps", "max_iter", "n_epochs", "train_batch", "batch"])
def test_numbers_of_steps_configure(name: str) -> None:
    assert parameters(**{name: [1, 2, 3, 4], "took": TIMES}) == [name]


def test_words_for_what_was_timed_are_no_moments() -> None:
    assert parameters(wall_time=["forward", "backward"], took=[0.5, 0.7]) == ["wall_time"]
    assert parameters(wall_time=["0:01", "0:02"], took=[0.5, 0.7]) == []
    assert parameters(row=["a 1", "a 2"], took=[0.5, 0.7]) == ["row"]
    assert parameters(row=[1, 2], took=[0.5, 0.7]) == []


@pytest.mark.parametrize(
    ("cells", "is_series"),
    [
        (list(range(64)), True),
        (list(range(63)), False),
        ([2 * k for k in range(64)], False),
        ([f"a{k}" for k in range(64)], True),
    ],
)
def test_a_long_list_is_no_sweep(cells: list[Any], is_series: bool) -> None:
    assert (parameters(x=cells, took=[0.5 + k for k in range(len(cells))]) == []) == is_series


def test_two_parameters_make_no_list() -> None:
    many = list(range(64))
    assert parameters(x=many, op=["a", "b"] * 32, took=[k + 0.5 for k in many]) == ["x", "op"]


def test_records_with_the_time_of_writing_are_cases_if_words_identify_them() -> None:
    moments = [10, 20, 30, 40]
    assert parameters(timestamp=moments, n=[1, 2, 3, 4], took=TIMES) == []
    assert parameters(timestamp=moments, op=["a", "b", "c", "d"], took=TIMES) == ["op"]
    assert parameters(timestamp=moments, op=["a", "a", "c", "d"], took=TIMES) == []
    assert parameters(time=["1:00", "2:00"], n=[1, 2], took=[0.5, 0.7]) == []
    assert parameters(n=[1, 2], time=[0.5, 0.7]) == ["n"]


def test_a_name_for_each_record_is_redundant() -> None:
    """So is a long description. A short word that comes twice is not."""
    files = ["a.log", "b.log", "c.log", "d.log"]
    assert parameters(file=files, n=[1, 2, 3, 4], took=TIMES) == ["n"]
    assert parameters(file=files, n=[1, 2, 1, 2], took=TIMES) == ["file", "n"]
    assert parameters(file=["a.log", "a.log", "c.log", "d.log"], n=[1, 2, 3, 4], took=TIMES) == ["file", "n"]
    assert parameters(about=["x" * 65, None, "y", "y"], n=[1, 2, 3, 4], took=TIMES) == ["n"]
    assert parameters(about=["x" * 64, None, "y", "y"], n=[1, 2, 3, 4], took=TIMES) == ["about", "n"]


def test_names_after_the_results_identify_few_records() -> None:
    """Nine names of ten records are no variants; eight are, or half of the records."""
    for names, records, expected in ((9, 10, []), (8, 8, ["of"]), (10, 20, []), (9, 9, [])):
        cells = [f"n{k % names}" for k in range(records)]
        assert parameters(took=[k + 0.5 for k in range(records)], of=cells) == expected, (names, records)
    cells = [f"n{k % 10}" for k in range(20)]
    sizes = [k // 10 for k in range(20)]
    assert parameters(took=[k + 0.5 for k in range(20)], of=cells, size=sizes) == ["of", "size"]
    assert parameters(took=[k + 0.5 for k in range(20)], of=[f"n{k % 11}" for k in range(20)], size=sizes) == []


def test_numbers_of_one_digit_that_repeat_are_parameters_before_words() -> None:
    columns: dict[str, list[Any]] = {"loss": [1e-5, 1e-5, 1e-6], "kind": ["a", "b", "a"], "took": [0.5, 0.25, 0.75]}
    assert parameters(**columns) == ["loss", "kind"]
    assert parameters(**columns | {"loss": [1.5e-5, 1.5e-5, 1e-6]}) == []
    assert parameters(**columns | {"loss": [1e-5, 2e-5, 1e-6]}) == []
    assert parameters({"loss": "s"}, **columns) == []


def test_sections_that_begin_with_one_case_are_sweeps() -> None:
    def sweeps(cases: str) -> list[str]:
        return [cases[part] for part in sweeps_in([(case,) for case in cases])]

    assert sweeps("abcabc") == ["abc", "abc"]
    assert sweeps("aabc") == ["aabc"]  # a case measured twice
    assert sweeps("abcdab") == ["abcd", "ab"]
    assert sweeps("abcdeab") == ["abcdeab"]  # less than half of the first one's cases
    assert sweeps("abaxy") == ["abaxy"]
    assert sweeps("abax") == ["ab", "ax"]
    chunks = [(float(x),) for x in (4, 6, 8, 4, 6, 8, 1, 2, 3, 4)]  # of dispatch in two types, and of combine
    assert [part.stop for part in sweeps_in(chunks)] == [3, 6, 10]
    assert [part.stop for part in sweeps_in(chunks[3:8])] == [5]  # two are no sweep
    assert sweeps("a") == ["a"]


def test_what_follows_from_a_parameter_is_not_measured() -> None:
    sizes = [1.0, 1.0, 2.0, 2.0]
    assert follows("tokens", [8.0, 8.0, 16.0, 16.0], "", [sizes])
    assert follows("tokens", [8.0, 8.0, 16.0, 16.0], "", [[1.0, 2.0, 3.0, 4.0], sizes])
    assert not follows("tokens", [8.0, 8.0, 16.0, 16.0], "", [[1.0, 2.0, 3.0, 4.0]])
    assert not follows("tokens", [8.0, 9.0, 16.0, 16.0], "", [sizes])
    assert follows("ratio", [0.5, 0.5, 1.5, 1.5], "", [sizes])
    assert not follows("ratio", [0.5, 0.5, 1.5, 1.5], "s", [sizes])
    assert not follows("ratio", [0.5, 0.5, None, None], "", [sizes])
    assert not follows("kind", ["a", "a", "b", "b"], "", [sizes])
    assert not follows("latency", [0.5, 0.5, 1.5, 1.5], "", [sizes])


def test_cells() -> None:
    assert are_words(["a", None]) and not are_words(["a", 1.0])
    assert is_outcome("exit_status", ["OK", None]) and not is_outcome("exit_status", ["fp32"])
    assert not is_outcome("mode", ["ok"]) and not is_outcome("status", ["ok", 1.0])
    assert [is_failure(x) for x in (1.0, float("nan"), float("inf"), "OOM", "ValueError: x", "fine", "", None)] == [
        False, True, True, True, True, False, False, False,
    ]  # fmt: skip
    assert number_in(2.0) == 2.0
    assert number_in("2") != number_in("2")


def test_numbers_that_grow_up_to_a_total_of_their_name_are_progress() -> None:
    """`batch 5 of 250`: a total may also be a setting, beside sizes of batches in any order."""
    assert parameters(batch=[5, 10, 15, 20], batches=[20] * 4, took=TIMES) == []
    assert parameters(batch=[5, 10, 15, 20], batches=[16] * 4, took=TIMES) == ["batch"]
    assert parameters(batch=[10, 5, 15, 20], batches=[20] * 4, took=TIMES) == ["batch"]


@pytest.mark.parametrize(
    ("name", "cells", "counts"),
    [("step", [1.0, 2.0, 3.0], True), ("Step", [0.0, 10.0, 20.0], True), ("steps", [1.0, 2.0, 3.0], False),
     ("step", [1.0, 2.0], False), ("step", [3.0, 2.0, 1.0], False), ("step", [1.0, 2.0, 4.0], False),
     ("step", [1.0, 1.0, 1.0], False), ("batch", [1.0, 2.0, 3.0], False), ("step", [1.0, 2.0, "3"], False)],
)  # fmt: skip
def test_moments_count_up_evenly(name: str, cells: list[Any], counts: bool) -> None:
    assert _counts_up(name, cells) == counts
