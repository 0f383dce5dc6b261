"""Rules on what was computed: nominal work, rates above the peak, models that contradict their settings."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.linted import TableRow, linted, messages, steps
from support.metrics_logs import by_hand

from perflog.analysis.lint import RULES
from perflog.analysis.lint import workload as module
from perflog.analysis.lint.registry import LintInput
from perflog.metrics import Options, Tables
from perflog.metrics.settings_by_run import MFU_PEAK_OF


def loads(*amounts: tuple[int, int, float], **more: Any) -> list[TableRow]:
    """Work of ranks in steps."""
    usual = {"table": "loads", "unit": "tokens"}
    return [usual | {"step": step, "rank": rank, "amount": amount} | more for step, rank, amount in amounts]


def test_a_printed_mfu_above_1() -> None:
    rows = [*steps(1, mfu=0.5), *steps(2, mfu=1.5), *steps(3, mfu=0.4), *steps(4, mfu=1.2)]
    (finding,) = linted("mfu-above-1", rows)
    assert finding.message == "the printed MFU is up to 150 % on 2 lines, steps 2 to 4: it counts in no average"
    assert finding.evidence["lines"] == {"r": [2, 4]} and finding.numbers == {"mfu": 1.5}
    assert messages("mfu-above-1", rows[:2])[0].endswith("on 1 line, step 2: it counts in no average")
    assert linted("mfu-above-1", [rows[0], *steps(2, mfu=1.0)]) == []
    (unnumbered,) = messages("mfu-above-1", [{"table": "steps", "mfu": 1.5}])
    assert unnumbered == "the printed MFU is up to 150 % on 1 line: it counts in no average"


@pytest.mark.parametrize(
    ("key", "value", "unit", "is_found"),
    [
        ("mfu", 1.5, "1", True),
        ("mfu", 1.0, "1", False),
        ("train/HFU", 1.5, "1", True),
        ("mfu", 99.0, None, False),  # perhaps percent
        ("mfu", 101.0, None, True),
        ("mfus", 101.0, None, False),
    ],
)
def test_an_mfu_among_the_values(key: str, value: float, unit: str | None, is_found: bool) -> None:
    rows = [{"table": "values", "key": key, "value": each, "unit": unit} for each in (0.5, value)]
    found = linted("mfu-above-1", rows)
    assert [each.numbers for each in found] == [{key: value}] * is_found
    shown = "150 %" if unit else f"{value:g}"
    assert all(each.message.startswith(f"the printed {key} is up to {shown} on 1 line") for each in found)
    assert all(each.evidence["lines"] == {"r": [2]} for each in found)


NOMINAL = json.dumps({"top_k": 1, "samples": 6400})


@pytest.mark.parametrize(
    ("amounts", "severity"),
    [
        ([(1, 0, 100.0), (1, 1, 100.0)], None),
        ([(1, 0, 104.9), (1, 1, 100.0)], "note"),
        ([(1, 0, 105.1), (1, 1, 100.0)], "warning"),
        ([(1, 0, 94.9), (1, 1, 100.0)], "warning"),
    ],
)
def test_work_that_the_ranks_do_not_execute(amounts: list[tuple[int, int, float]], severity: str | None) -> None:
    """The log says 6,400 rows; a unit of load is 64."""
    found = linted("nominal-work", loads(*amounts), format="moe_layer", config=NOMINAL)
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    assert linted("nominal-work", loads(*amounts)) == []  # nothing says what is nominal
    assert linted("nominal-work", loads(*amounts), format="moe_layer", config='{"top_k": 1}') == []


def test_each_run_has_its_own_nominal_work() -> None:
    """Runs without work, and with the nominal work, come before one that executes more."""
    rows = [row | {"run": run} for run, amount in (("b", 100.0), ("c", 110.0)) for row in loads((1, 0, amount))]
    frames = by_hand("steps", [{"table": "runs", "run": run, "config": NOMINAL} for run in "abc"] + rows)
    listed = frames["runs"].iloc[1:].assign(format="moe_layer", log="a.txt", last_line=99)
    found = RULES["nominal-work"](LintInput(Tables(frames | {"runs": listed}), Options()))
    assert [each.run for each in found] == ["c"]


@pytest.mark.parametrize(
    ("computed", "printed", "is_found"),
    [(None, 100.0, False), (None, 100.5, True), (100.5, 50.0, True), (None, None, False)],
)
def test_a_rate_above_the_given_peak(
    monkeypatch: pytest.MonkeyPatch, computed: float | None, printed: float | None, is_found: bool
) -> None:
    row = {"run": "r", "tflops": computed, "printed_tflops": printed, "peak_tflops": 100.0, "peak_source": "given"}
    row |= {"first_step": 3, "last_step": 9, "first_line": 4, "last_line": 10}
    table = pd.DataFrame([row | {"part": "all", "tflops": 999.0}, row | {"part": "steady"}])
    table = table.astype({"tflops": float, "printed_tflops": float})
    monkeypatch.setattr(module, "throughput", SimpleNamespace(table=lambda *_: table))
    data = LintInput(Tables(by_hand("steps", steps(1, 2))), Options(peak_tflops=100.0))
    found = RULES["mfu-above-1"](data)
    told = "100.50 TFLOP/s per GPU is 1.00 times the peak 100 TFLOP/s (median of steps 3 to 9)"
    assert [(each.message, each.lines) for each in found] == [(told, {"r": [4, 10]})] * is_found
    assert not RULES["mfu-above-1"](LintInput(data.tables, Options()))  # no peak is given


def test_the_mean_is_of_steps_that_all_ranks_print() -> None:
    rows = loads((1, 0, 90.0), (1, 1, 110.0), (2, 0, 90.0), (2, 1, 106.0), (3, 0, 300.0))
    (finding,) = linted("nominal-work", [*rows, *steps(1, 2, tflops=1.0)], format="moe_layer", config=NOMINAL)
    assert finding.numbers == {"nominal": 6400.0, "min": 90 * 64, "max": 300 * 64, "mean": 99 * 64}
    assert finding.message == (
        "ranks execute 5,760 to 19,200 rows per step, 6,336 on average; the nominal number is 6,400 (-10.0 % to "
        "+200.0 %, average -1.0 %). The printed TFLOP/s count the nominal rows"
    )
    of_experts = loads((1, 0, 90.0), (1, 1, 110.0), expert=3)
    assert linted("nominal-work", of_experts, format="moe_layer", config=NOMINAL) == []


def test_the_peak_of_another_device() -> None:
    config = json.dumps({MFU_PEAK_OF: "A100"})
    rows = [*steps(1), *steps(2, 3, mfu=0.5)]
    (finding,) = linted("mfu-other-device", rows, config=config)
    assert finding.message == "the printed MFU is of the peak of A100" and finding.evidence["lines"] == {"r": [2, 3]}
    assert linted("mfu-other-device", rows) == [] == linted("mfu-other-device", steps(1, 2), config=config)


def printing(*runs: tuple[str, str | None, dict[str, Any], float | None]) -> list[TableRow]:
    """Runs with a printout, settings, and the time of their steps."""
    made: list[TableRow] = [
        {"table": "runs", "run": run, "label": run, "printout": printout, "config": json.dumps(config), "first_line": 7}
        for run, printout, config, _ in runs
    ]
    return made + [row for run, _, _, time in runs for row in steps(*range(1, 11), run=run, step_time_s=time) if time]


def of_runs(code: str, *runs: tuple[str, str | None, dict[str, Any], float | None]) -> list[Any]:
    frames = by_hand("steps", printing(*runs))
    listed = frames["runs"].iloc[1:].assign(log="a.txt", last_line=99)
    return RULES[code](LintInput(Tables(frames | {"runs": listed}), Options()))


MODEL = "GPT(\n (0): Block(\n (mlp): MLP("


@pytest.mark.parametrize(
    ("runs", "severity", "words"),
    [
        ([("s", MODEL, {"a": 1}, 1.0), ("t", MODEL, {"a": 2}, 1.009)], "warning", "1 s to 1.009 s, equal within 1 %"),
        ([("s", MODEL, {"a": 1}, 1.0), ("t", MODEL, {"a": 2}, 1.02)], "note", "steady medians 1 s to 1.02 s"),
        ([("s", MODEL, {"a": 1}, 1.0), ("t", MODEL, {"a": 2}, None)], "note", "steady medians 1 s"),
        ([("s", MODEL, {"a": 1}, None), ("t", MODEL, {"a": 2}, None)], "note", "the same model: s, t"),
        ([("s", MODEL, {"a": 1}, 1.0), ("t", MODEL, {"a": 1}, 1.0)], None, ""),  # repeats
        ([("s", MODEL, {"a": 1}, 1.0), ("t", "BERT(", {"a": 2}, 1.0)], None, ""),
        ([("s", None, {"a": 1}, 1.0), ("t", None, {"a": 2}, 1.0)], None, ""),
    ],
)
def test_runs_that_print_the_same_model(runs: list[Any], severity: str | None, words: str) -> None:
    found = of_runs("same-model", *runs)
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    for each in found:
        assert each.message.startswith("2 runs print the same model: s, t") and each.message.endswith(words)
        assert each.lines == {"s": [7], "t": [7]}


@pytest.mark.parametrize(
    ("config", "printout", "message"),
    [
        ({"num_experts": 8}, MODEL, "the settings say num_experts 8; the model printout has only Block, MLP"),
        ({"num_experts": 1}, MODEL, None),
        ({"num_experts": "8"}, MODEL, None),
        ({"heads": 8}, MODEL, None),
        ({"num_experts": 8}, MODEL + "\n (moe): MoE(", None),
        ({"num_experts": 8}, None, None),
    ],
)
def test_experts_that_the_model_has_not(config: dict[str, Any], printout: str | None, message: str | None) -> None:
    found = of_runs("no-experts", ("s", printout, config, None))
    assert [each.message for each in found] == ([] if message is None else [message])
