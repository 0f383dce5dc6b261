"""The settings and counts of a run while it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.expressions import Expression
from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.runs.run_state import (
    ClockTotal,
    PrintedSetting,
    RunIndex,
    RunSettings,
    RunState,
    ShapeCount,
    printed_settings,
)
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

ORDER_BITS = 6


def at(line: int, order: int = 0) -> int:
    return line << PART_BITS << ORDER_BITS | order


def settings(*printed: tuple[str, Any, int]) -> RunSettings:
    found = RunSettings()
    for key, value, position in printed:
        found.add(key, value, "line", position)
    return found


def test_settings_are_in_the_order_of_the_log() -> None:
    found = settings(("b", 2, at(5)), ("a", 1, at(3, 1)), ("c", "x", at(3)), ("b", 2, at(9)))
    assert list(json.loads(found.to_json()).items()) == [("c", "x"), ("a", 1), ("b", 2)]


def test_different_values_of_a_key_are_a_list_in_the_order_of_the_log() -> None:
    found = settings(("lr", 0.5, at(7)), ("lr", 0.25, at(2)), ("lr", 0.5, at(1)))
    assert json.loads(found.to_json()) == {"lr": [0.5, 0.25]}  # printed first on line 1
    assert found.single("lr") is None
    assert settings(("lr", 0.5, at(7)), ("lr", 0.5, at(9))).single("lr") == 0.5
    assert found.single("other") is None


def test_json_has_no_nan() -> None:
    found = settings(("a", float("nan"), at(1)), ("b", (1, float("inf")), at(2)), ("c", 1.5, at(3)))
    assert json.loads(found.to_json()) == {"a": None, "b": [1, None], "c": 1.5}


def test_numbers_printed_after_a_line_only() -> None:
    printed = [("late", 1.5, at(10)), ("word", "x", at(11)), ("flag", True, at(11)), ("early", 2, at(3))]
    found = settings(*printed, ("early", 3, at(12)), ("same", 1, at(9)))
    assert found.numbers_after(9) == ["late"]
    assert found.numbers_after(8) == ["late", "same"]
    state = RunState(1, 0, 1, 20, settings=found, clock=ClockTotal(5.0, None, 9))
    assert state._outcomes() == '["late"]'
    for clock in (None, ClockTotal(5.0, None, 12)):  # nothing is known to be late, or nothing is
        assert RunState(1, 0, 1, 20, settings=found, clock=clock)._outcomes() is None


def test_a_series_is_no_setting() -> None:
    """The numbers of one line are removed; words, and what another line prints, stay."""
    found = settings(("lr", 0.5, at(1)), ("lr", 0.25, at(2)), ("lr", "auto", at(3)), ("other", 1, at(4)))
    found.add("lr", 0.5, "another", at(5))
    found.remove("lr", "line", are_texts=False)
    assert json.loads(found.to_json()) == {"lr": ["auto", 0.5], "other": 1}
    found.remove("lr", "line", are_texts=True)
    found.remove("lr", "another", are_texts=False)
    assert list(found) == ["other"]
    found.remove("lr", "line", are_texts=False)
    assert list(found) == ["other"]


def test_missing_settings_are_taken_over() -> None:
    one, two = settings(("a", 1, at(1))), settings(("a", 2, at(2)), ("b", 3, at(3)))
    one.add_missing(two)
    assert json.loads(one.to_json()) == {"a": 1, "b": 3}
    one.add("b", 4, "line", at(9))
    assert two.single("b") == 3


# --- counts -----------------------------------------------------------------------------------------------------------


def state(**counts: dict[str, int]) -> RunState:
    run = RunState(1, 0, 1, 1)
    for name, by_format in counts.items():
        getattr(run, name).update(by_format)
    run.follows = {"program": 0, "another": 0, "library": 1, "generic": 2}
    return run


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"step_lines": {"program": 1, "library": 9}, "record_lines": {"program": 1, "library": 9}}, "program"),
        ({"step_lines": {"generic": 5}, "row_lines": {"program": 9, "generic": 5}}, "generic"),  # metrics are on steps
        ({"row_lines": {"another": 2, "program": 1}, "record_lines": {"program": 50}}, "another"),
        ({"row_lines": {"another": 2, "program": 2}, "record_lines": {"program": 5, "another": 4}}, "program"),
        ({"row_lines": {"another": 2, "program": 2}, "record_lines": {"program": 4, "another": 4}}, "another"),
        ({"record_lines": {"program": 1}}, "program"),
        ({}, None),
    ],
)
def test_the_format_of_a_run(counts: dict[str, dict[str, int]], expected: str | None) -> None:
    assert state(**counts).format == expected


@pytest.mark.parametrize(("of", "number"), [("program", 2), ("library", None), (None, None)])
def test_the_start_of_processes_that_the_format_of_a_run_prints(of: str | None, number: int | None) -> None:
    run = state(step_lines={"program": 1})
    run.process, run.process_format = 2, of
    assert run.own_process == number


def test_the_other_formats_of_a_run() -> None:
    run = state(step_lines={"program": 1}, record_lines={"program": 1, "library": 2, "another": 2, "generic": 3})
    assert run.joined_formats == "generic, another, library"
    assert state(record_lines={"program": 1}).joined_formats is None


def test_a_shape_is_new_once_and_keeps_its_first_line() -> None:
    run, new = RunState(1, 0, 1, 1), list[tuple[ShapeCount, int]]()
    first = run.shape("unread", "a 0", 7 << PART_BITS, new)
    assert run.shape("unread", "a 0", 9 << PART_BITS, new) is first
    assert (first.count, first.first_line, new) == (0, 7, [(first, 7 << PART_BITS)])
    assert run.shape("read", "a 0", 9 << PART_BITS, new) is not first
    assert len(new) == 2


def test_a_label_needs_all_its_settings() -> None:
    run = RunState(1, 0, 1, 1, settings=settings(("model", "gpt", at(1)), ("size", 7, at(1)), ("size", 9, at(2))))
    assert run.label("{model}") == "gpt"
    assert run.label("{model} {size}") is None
    assert run.label("{model} {other}") is None
    assert run.label(None) is None


def test_runs_by_position() -> None:
    index = RunIndex([RunState(3, 10, 1, 1), RunState(4, 20, 1, 1), RunState(5, 30, 1, 1)])
    assert index.indices_at(np.array([10, 19, 20, 35])).tolist() == [0, 0, 1, 2]
    found = [(run.index, low, high) for run, low, high in index.split(np.array([11, 19, 30, 31]))]
    assert found == [(3, 0, 2), (5, 2, 4)]
    assert index.first_number == 3 and index.numbers.to_pylist() == ["3", "4", "5"]


# --- what lines print -------------------------------------------------------------------------------------------------

FORMAT = """
title = "settings of a program"
[[line]]
name = "pair"
table = "runs"
text = "set {key:S} to {value:s}"
sample = "set lr to 0.5"
[[line]]
name = "words"
table = "runs"
text = "flags: compile={compile:j} eager={eager:j}"
sample = "flags: compile=true eager=null"
[[line]]
name = "list"
table = "runs"
text = "betas of the optimizer [{betas:l}]"
sample = "betas of the optimizer [0.9, 0.95]"
[[line]]
name = "version"
table = "runs"
text = "started version {version:r} on {hosts:d} hosts"
sample = "started version 2.5 on 3 hosts"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
"""


def config(folder: Path, lines: list[str]) -> dict[str, Any]:
    data = "".join(f"{line}\n" for line in [*lines, "finished step 1 with loss 2.5"]).encode()
    form = load(given_file(folder, FORMAT))
    found, by_line = ({**read(data, formats=[form], chunk=c).rows("runs")[0]} for c in (1 << 20, 1))
    assert found["config"] == by_line["config"]
    settings: dict[str, Any] = json.loads(found["config"])
    return settings


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["set lr to 0.5", "set name to x y", "set n to 3"], {"lr": 0.5, "name": "x y", "n": 3}),
        (["set a to inf", "set b to nano", "set c to 1e3"], {"a": None, "b": "nano", "c": 1000.0}),
        (["set cuda_version to 12.10", "set conversion to 0.10"], {"cuda_version": "12.10", "conversion": 0.1}),
        (["flags: compile=true eager=null"], {"compile": "true"}),  # null is no value
        (["betas of the optimizer [0.9, 0.95]"], {"betas": [0.9, 0.95]}),
        (["betas of the optimizer [5]"], {"betas": [5]}),
        (["started version 2.5 on 3 hosts"], {"version": "2.5", "hosts": 3}),
        (["set name to x", "set name to y", "set name to x"], {"name": ["x", "y"]}),
        (
            ["set run to 2026_01_16", "set shape to 1_2", "set lr to 1_0.5"],
            {"run": "2026_01_16", "shape": "1_2", "lr": "1_0.5"},
        ),
        (
            ["set a to -3", "set b to +2", "set c to .5", "set d to nan", "set e to Nothing"],
            {"a": -3, "b": 2, "c": 0.5, "d": None, "e": "Nothing"},
        ),
        (
            ["flags: compile=true eager=null", "flags: compile=false eager=true"],
            {"compile": ["true", "false"], "eager": "true"},
        ),
        (["started version 2.10 on 3 hosts"], {"version": "2.1", "hosts": 3}),
    ],
)
def test_what_lines_of_settings_print(tmp_path: Path, lines: list[str], expected: dict[str, Any]) -> None:
    assert config(tmp_path, lines) == expected


def test_what_only_its_path_names_is_under_the_key_of_its_record() -> None:
    """`{"key": "seed", "value": 7, "metadata": {"line": 3}}`; a field with a name of its own is none of the key."""
    line = Line("event", Template("{key:s} {a:d} {b:d}"), table="runs", paths={"b": "metadata.b"})
    keys = pa.array(["one", "two", "one", "two"], pa.string())
    records = Records(np.arange(4), {"key": keys, "a": np.array([1, 2, 3, 4]), "b": np.array([5, 6, 7, 8])})
    found = [(each.key, each.values, list(each.rows), each.field) for each in printed_settings(line, records, 0, 3)]
    assert found == [
        ("a", [1, 2, 3], [0, 1, 2], "a"), ("one.metadata.b", [5, 7], [0, 2], "b"), ("two.metadata.b", [6], [1], "b")
    ]  # fmt: skip


def test_the_value_of_a_key_is_a_number_or_a_string() -> None:
    line = Line("set", Template("{key:s} is {value:r}"), table="runs")
    texts = {"key": ["one", "two", "one", "cuda_version"], "value": ["1", "x", "2.50", "12.10"]}
    records = Records(np.arange(4), {name: pa.array(column, pa.string()) for name, column in texts.items()})
    found = [(each.key, each.values, list(each.rows)) for each in printed_settings(line, records, 1, 4)]
    assert found == [("two", ["x"], [1]), ("one", [2.5], [2]), ("cuda_version", ["12.10"], [3])]


def test_items_of_a_list_are_under_the_key_without_a_point() -> None:
    line = Line("event", Template("{key:s} {a:d} {b:d}"), table="runs", paths={"a": "[0]", "b": "b"})
    records = Records(np.arange(1), {"key": pa.array(["one"], pa.string()), "a": np.array([5]), "b": np.array([6])})
    assert [each.key for each in printed_settings(line, records, 0, 1)] == ["one[0]", "one.b"]


def test_the_printouts_of_a_run_follow_each_other() -> None:
    assert RunState(1, 0, 1, 9).row({})["printout"] is None
    assert RunState(1, 0, 1, 9, printouts=["a", "b"]).row({})["printout"] == "a\nb"


def test_numbers_and_words_of_a_setting_are_taken_apart() -> None:
    def parted(*values: Any) -> list[Any]:
        printed = PrintedSetting("lr", list(values), [3, 5, 7][: len(values)], "lr", 0)
        return [of and (of.values, list(of.rows)) for of in printed.numbers_and_texts()]

    assert parted(0.5) == [([0.5], [3]), None] and parted("auto") == [None, (["auto"], [3])]
    assert parted(1, 2.5) == [([1, 2.5], [3, 5]), None] and parted("a", None) == [None, (["a", None], [3, 5])]
    assert parted(1, "a", 2) == [([1, 2], [3, 7]), (["a"], [5])]


def test_settings_that_a_line_has_without_printing_them() -> None:
    """Constants, and what it computes: of several values the largest, at the position of the first."""
    compute = {"world_size": Expression("nodes * 4")}
    line = Line("sizes", Template("{nodes:d} nodes of {rank:d}"), table="runs", set={"kind": "job"}, compute=compute)
    records = Records(np.array([7, 8, 9]) << PART_BITS, {"nodes": np.array([1, 3, 2]), "rank": np.array([0, 1, 2])})
    found = RunSettings()
    found.add_records(line, records, 1, 3)
    assert json.loads(found.to_json()) == {"kind": "job", "world_size": 12, "nodes": [3, 2]}
    found.add_records(line, records, 0, 1)
    assert found.single("world_size") == 12  # the earlier one is smaller
    assert list(found) == ["nodes", "kind", "world_size"]


def test_columns_of_a_run_hold_settings_that_fit(tmp_path: Path) -> None:
    """A number of GPUs that is a word is no world size; many lines with one value are one setting."""
    lines = ["set world_size to 8", *["set dtype to bf16"] * 70, "finished step 1 with loss 2.5"]
    form = load(given_file(tmp_path, FORMAT))
    (run,) = read("\n".join([*lines, ""]).encode(), formats=[form]).rows("runs")
    assert (run["world_size"], run["dtype"]) == (8, "bf16")
    (run,) = read("\n".join([lines[0].replace("8", "all"), *lines[1:], ""]).encode(), formats=[form]).rows("runs")
    assert (run["world_size"], run["dtype"]) == (None, "bf16")
    assert json.loads(run["config"]) == {"world_size": "all", "dtype": "bf16"}
