"""Rules on the parts of steps: backward against forward, gaps, phases, layers, and times that were subtracted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.linted import TableRow, linted, messages
from support.metrics_logs import by_hand

from perflog.analysis.lint import RULES, Finding
from perflog.analysis.lint.registry import LintInput
from perflog.formats.registry import known
from perflog.metrics import Options, Tables


def steps(forward: float, backward: float, step: float | None = None, count: int = 10, **more: Any) -> list[TableRow]:
    """Steps of these times; without one, the step is the sum of both."""
    time = forward + backward if step is None else step
    usual = {"table": "steps", "forward_s": forward, "backward_s": backward, "step_time_s": time}
    return [usual | {"step": n} | more for n in range(1, count + 1)]


@pytest.mark.parametrize(("backward", "is_short"), [(0.999, True), (1.0, False), (4.0, False)])
def test_a_short_backward(backward: float, is_short: bool) -> None:
    found = linted("backward-short", steps(2.0, backward))
    assert len(found) == is_short
    for each in found:
        assert each.message == "backward takes 0.50 of forward: 999 ms against 2 s (steady medians)"
        assert each.numbers == {"forward": 2.0, "backward": 0.999}


def test_each_run_has_its_own_backward() -> None:
    """Runs without a forward, or with a long backward, come before the one with a short backward."""
    no_forward = [row | {"forward_s": None} for row in steps(2.0, 0.5)]
    found = of_runs("backward-short", ("a", no_forward), ("b", steps(2.0, 4.0)), ("c", steps(2.0, 0.5)))
    assert [each.run for each in found] == ["c"]


def test_what_a_rate_counts_of_a_short_backward() -> None:
    (message,) = messages("backward-short", steps(2.0, 0.5, tflops=12.25), format="moe_layer")
    assert message.endswith(
        ". The printed 12.25 TFLOP/s count a full backward (FLOP convention tutel); up to two thirds of that work may "
        "not have been done"
    )
    assert "FLOP convention" not in messages("backward-short", steps(2.0, 0.5, tflops=12.25))[0]
    assert messages("backward-short", steps(0.0, 0.0, 1.0)) == []


@pytest.mark.parametrize(("step", "is_found"), [(3.04, True), (3.03, False), (3.0, False)])
def test_time_in_neither_forward_nor_backward(step: float, is_found: bool) -> None:
    """From 1 % of the step on."""
    found = linted("step-gap", steps(1.0, 2.0, step))
    assert len(found) == is_found
    for each in found:
        assert each.message == "step - forward - backward is 40 ms, 1.3 % of the step (medians); range 40 ms"
        assert each.numbers == pytest.approx({"gap": 0.04, "share": 0.04 / 3.04})


def phases(name: str, time_s: float, ranks: int = 1, count: int = 10) -> list[TableRow]:
    return [{"table": "phases", "step": n, "rank": rank, "phase": name, "time_s": time_s, "occurrence": 1}
            for n in range(1, count + 1) for rank in range(ranks)]  # fmt: skip


def test_timed_phases_are_no_gap() -> None:
    """The optimizer takes all of the gap of rank 0, but for 20 ms."""
    rows = steps(1.0, 2.0, 3.2, rank=0)
    assert linted("step-gap", [*rows, *phases("optimizer", 0.18)], format="reference") == []
    (left,) = linted("step-gap", [*rows, *phases("optimizer", 0.1)], format="reference")
    assert left.message.endswith("; other phases take 100 ms of it")
    assert "other phases" not in linted("step-gap", rows, format="reference")[0].message
    assert left.numbers["gap"] == pytest.approx(0.2)  # the whole gap is named
    assert linted("step-gap", [*rows, *phases("attention", 0.18)], format="reference")  # it is part of forward
    assert linted("step-gap", [*steps(1.0, 2.0, 3.2, rank=1), *phases("optimizer", 0.18)], format="reference")


def of_runs(code: str, *runs: tuple[str, Sequence[TableRow]], format: str = "reference") -> list[Finding]:
    made: list[TableRow] = [{"table": "runs", "run": run, "label": run} for run, _ in runs]
    frames = by_hand("steps", [*made, *(row | {"run": run} for run, rows in runs for row in rows)])
    listed = frames["runs"].iloc[1:].assign(log="a.txt", first_line=1, last_line=99, config="{}", format=format)
    return RULES[code](LintInput(Tables(frames | {"runs": listed}), Options()))


@pytest.mark.parametrize(
    ("gaps", "wide"),
    [
        ((0.1, 0.009), ["a"]),
        ((0.1, 0.011), []),  # less than ten times
        ((0.014, 0.001), []),  # less than 0.5 % of the step
        ((0.001, 0.1, 0.2), ["b", "c"]),
        ((0.1, 0.1), []),
    ],
)
def test_gaps_in_some_runs_only(gaps: Sequence[float], wide: list[str]) -> None:
    found = of_runs(
        "gap-differs", *((name, steps(1.0, 2.0, 3.0 + gap)) for name, gap in zip("abc", gaps, strict=False))
    )
    assert [each.run for each in found] == wide[:1]
    for each in found:
        assert f"in {len(wide)} run{'s' * (len(wide) > 1)} ({', '.join(wide)}), but " in each.message
        assert each.numbers["gap"] == pytest.approx(dict(zip("abc", gaps, strict=False)), abs=1e-9)


@pytest.mark.parametrize(("inside", "parts"), [(0.94, {"forward": 0.06}), (0.96, {})])
def test_part_of_forward_is_in_no_phase(inside: float, parts: dict[str, float]) -> None:
    """The mean over two ranks counts."""
    rows = [*steps(1.0, 2.0), *phases("attention", inside / 2, 2), *phases("mlp", inside / 2, 2)]
    found = linted("phase-gap", rows, format="reference")
    assert [each.numbers for each in found] == ([pytest.approx(parts)] if parts else [])
    for each in found:
        assert each.message == "6.0 % of forward (60 ms) in no phase (median of the steady steps, mean over ranks)"
    twice = [row | {name: 2 * row[name] for name in row if name.endswith("_s")} for row in rows]
    assert [each.message[:25] for each in linted("phase-gap", twice, format="reference")] == [
        "6.0 % of forward (120 ms)"
    ] * len(parts)
    assert linted("phase-gap", rows) == []  # nothing says what the phases are parts of


def layers(time_s: float, ranks: int = 2, count: int = 10) -> list[TableRow]:
    return [{"table": "layers", "step": n, "rank": rank, "layer": "1", "time_s": time_s, "direction": "forward"}
            for n in range(1, count + 1) for rank in range(ranks)]  # fmt: skip


@pytest.mark.parametrize(("time", "is_found"), [(1.49, True), (1.5, False)])
def test_layers_that_cover_less_than_half_of_the_step(time: float, is_found: bool) -> None:
    found = linted("layers-cover-little", [*steps(1.0, 2.0), *layers(time)])
    assert len(found) == is_found
    for each in found:
        assert each.message == "the layers cover 49.7 % of the step: 2.98 s per step over 2 ranks, of 2 x 3 s"
        assert each.numbers == {"share": pytest.approx(2.98 / 6), "ranks": 2}
    averaged = [row | {"steps_averaged": 10, "step": 10 * row["step"]} for row in steps(1.0, 2.0)]
    assert linted("layers-cover-little", [*averaged, *layers(time)]) == []


TICK = 1.024e-6  # of CUDA events


def ticks(number: int) -> float:
    """So many ticks, as the benchmark prints them: in ms, with six decimals."""
    return round(number * TICK, 9)


def clocked(*added: float, column: str = "step_time_s", count: int = 24) -> list[TableRow]:
    """Steps with times of whole ticks; to those of a column these times are added in turn."""
    line = next(line for line in known()["moe_layer"].lines if "step_time" in line.template.names)
    shown = {"table": "lines", "status": "read", "count": count, "first_line": 1, "shape": line.template.text}
    rows: list[TableRow] = []
    for n in range(count):
        times = {"forward_s": ticks(7000 + 3 * n), "backward_s": ticks(9000 + 5 * n)}
        times["step_time_s"] = ticks(20_000 + 7 * n)
        times[column] = round(times[column] + added[n % len(added)], 9)
        rows.append({"table": "steps", "step": n + 1} | times)
    return [*rows, shown]


def test_times_that_are_multiples_of_a_clock_tick_only_in_part() -> None:
    (finding,) = linted("time-subtracted", clocked(0.0, 3e-7), format="moe_layer")
    assert finding.message == (
        "only 50.0 % of the step_time values are multiples of the clock tick (1.024 us, CUDA events), but all values "
        "of forward, backward"
    )
    assert finding.numbers == {"grid": TICK, "on_grid": {"step_time_s": 0.5}}
    assert finding.evidence["lines"] == {"r": list(range(2, 22, 2))}
    (of_backward,) = messages("time-subtracted", clocked(3e-7, 0.0, 0.0, 0.0, column="backward_s"), format="moe_layer")
    assert of_backward.startswith("only 75.0 % of the backward values")


@pytest.mark.parametrize(
    "rows",
    [
        clocked(0.0),  # all are whole ticks
        clocked(3e-7),  # none is: another clock
        clocked(0.0, 3e-7, count=19),  # too few
        clocked(0.0, 3e-7)[:-1],  # nothing says how many digits are printed
        clocked(0.0, 1e-9),  # as far off as the last digit
    ],
)
def test_times_that_show_no_subtraction(rows: list[TableRow]) -> None:
    assert messages("time-subtracted", rows, format="moe_layer") == []
