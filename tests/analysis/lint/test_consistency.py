"""Rules on numbers that contradict each other: formulas at printed precision, values printed twice, parts of wholes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.format_files import given_file
from support.linted import TableRow, linted, steps

import perflog
from perflog.analysis.lint import RULES, Finding
from perflog.analysis.lint.consistency import _rounding
from perflog.analysis.lint.registry import LintInput
from perflog.formats.registry import get, known
from perflog.formats.template import Field
from perflog.metrics import Options, Tables, semantics

# --- formulas -----------------------------------------------------------------------------------------------------

FORMAT = """
title = "a program that prints sums"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} in {step_time:.2f} ms, forward {forward:.2f}, backward {backward:.1f}"
unit = { step_time = "ms", forward = "ms", backward = "ms" }
check = "step_time == forward + backward"
sample = "finished step 3 in 2.50 ms, forward 1.00, backward 1.5"
[[line]]
name = "pass"
table = "steps"
text = "pass {step:d} has loss {loss:.2f}, twice {own:.2f}, and norm {grad_norm:.1f}"
check = "own == 2 * loss"
sample = "pass 3 has loss 2.50, twice 5.00, and norm 1.5"
[[line]]
name = "note"
text = "note {a:d} and {b:d}"
sample = "note 1 and 2"
[[line]]
name = "value"
table = "values"
text = "measured {total:d} tokens of {rows:d} rows"
check = "total == rows * batch"
sample = "measured 16 tokens of 2 rows"
"""


@pytest.fixture
def found_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The findings of a rule in a log of a program with this format."""

    def found(code: str, format: str, *lines: str) -> list[Finding]:
        own = str(given_file(tmp_path, format))
        (tmp_path / "run.txt").write_text("".join(f"{line}\n" for line in ["program with 8 sequences", *lines]))
        log = perflog.read(tmp_path / "run.txt", format=own)
        assert log.line_account["unread"] == 0
        form = get(own)
        every = {**known(), form.name: form}  # phases of libraries are kept for the logs of other tests
        monkeypatch.setattr(semantics, "formats", lambda: every)
        return RULES[code](LintInput(Tables(log), Options()))

    return found


@pytest.fixture
def contradictions(found_in: Any) -> Any:
    return partial(found_in, "identity-fails", FORMAT)


def step(number: int, time: str, forward: str, backward: str) -> str:
    return f"finished step {number} in {time} ms, forward {forward}, backward {backward}"


@pytest.mark.parametrize(
    ("time", "is_wrong"),
    [("2.50", False), ("2.56", False), ("2.44", False), ("2.57", True), ("2.43", True)],
)
def test_a_number_may_be_off_by_what_is_rounded(contradictions: Any, time: str, is_wrong: bool) -> None:
    """Half a digit of each number: 0.005 + 0.005 + 0.05."""
    found = contradictions(step(1, "2.50", "1.00", "1.5"), step(2, time, "1.00", "1.5"))
    assert len(found) == is_wrong
    for each in found:
        assert each.message == (
            f"1 of 2 lines contradict `step_time == forward + backward`: line 3 prints step_time {time}, its other "
            "numbers give 2.50"
        )
        assert list(each.lines[each.run]) == [3]
        assert each.numbers == pytest.approx({"printed": float(time), "expected": 2.5, "of": 2})


def test_the_worst_line_is_shown(contradictions: Any) -> None:
    lines = [step(1, "2.60", "1.00", "1.5"), step(2, "9.00", "1.00", "1.5"), step(3, "2.70", "1.00", "1.5")]
    (finding,) = contradictions(*lines)
    assert finding.message.startswith("3 of 3 lines contradict") and "line 3 prints step_time 9.00" in finding.message


@pytest.mark.parametrize(("total", "is_wrong"), [(16, False), (17, True)])
def test_whole_numbers_are_exact_and_settings_of_the_run_count(contradictions: Any, total: int, is_wrong: bool) -> None:
    found = contradictions("measured 24 tokens of 3 rows", f"measured {total} tokens of 2 rows")
    assert len(found) == is_wrong
    for each in found:
        assert each.numbers == {"printed": total, "expected": 16, "of": 2} and each.first_line == 3


def test_a_number_without_a_column_of_its_own(contradictions: Any) -> None:
    """Other lines print steps, and lines that are not kept, too."""
    lines = ["note 1 and 2", "pass 1 has loss 2.50, twice 5.00, and norm 1.5", step(2, "2.50", "1.00", "1.5")]
    assert contradictions(*lines) == []
    (finding,) = contradictions(*lines, "pass 3 has loss 2.50, twice 5.03, and norm 1.5")
    assert finding.message.endswith("line 5 prints own 5.03, its other numbers give 5.00")
    assert finding.numbers["of"] == 2


@pytest.mark.parametrize(
    ("type", "spec", "value", "error"),
    [
        ("d", "d", 7.0, 0.0),
        ("f", ".2f", 7.0, 0.005),
        ("f", "8.3f", 7.0, 0.0005),
        ("f", "f", 7.0, 0.5e-6),
        ("g", ".3g", 123.4, 0.5),
        ("g", ".3g", 0.01234, 0.5e-4),
        ("g", "g", 1.5, 0.5e-5),
        ("e", ".2e", 123.4, 0.5),
        ("e", ".2e", -0.00123, 0.5e-5),
        ("t", "t", 12345.6, 0.5),
        ("g", ".3g", 0.0, 0.005),
        ("r", "r", -4.0, 4e-12),
    ],
)
def test_half_of_the_last_printed_digit(type: str, spec: str, value: float, error: float) -> None:
    assert _rounding(Field("x", type, spec), np.array([value])).tolist() == pytest.approx([error])


# --- values that are printed twice --------------------------------------------------------------------------------


def twice(ratio: float, **more: Any) -> list[TableRow]:
    """Steps of a second with a rate, and the same rate by name, larger by a factor."""
    rows = [row for n in (1, 2, 3) for row in steps(n, samples_per_s=50.0 * n, **more)]
    return [
        *rows,
        *({"table": "values", "key": "samples_per_s", "step": n, "value": 50.0 * n * ratio} for n in (2, 3, 4)),
    ]


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0199, None), (1.021, "2.1 %"), (0.9801, None), (0.979, "2.1 %"), (0.5, "50.0 %")],
)
def test_a_value_that_is_printed_twice(ratio: float, said: str | None) -> None:
    found = linted("figures-disagree", twice(ratio))
    assert len(found) == (said is not None)
    for each in found:
        assert f"samples_per_s is printed twice in 2 steps, {said} apart (median): step 2 has 100 " in each.message
        assert " on line 2 and " in each.message and each.message.endswith(" on line 4")
        assert each.numbers == {"ratio": pytest.approx(ratio)}
        assert list(each.lines["r"]) == [2, 3, 4, 5]


def test_of_a_value_that_is_printed_twice_the_first_and_the_positive_count() -> None:
    rows = twice(0.5)
    again = [
        *rows,
        *(row | {"value": row["value"] * 2} for row in rows[3:]),
        *(row | {"samples_per_s": 9.0} for row in rows[:3]),
    ]
    (finding,) = linted("figures-disagree", again)
    assert finding.numbers == {"ratio": 0.5}
    assert linted("figures-disagree", [*rows[:3], *(row | {"value": 0.0} for row in rows[3:])]) == []
    assert linted("figures-disagree", [*rows[:3], *(row | {"value": -50.0} for row in rows[3:])]) == []
    assert linted("figures-disagree", [*rows[:3], *(row | {"key": "other"} for row in rows[3:])]) == []
    assert linted("figures-disagree", [*rows[:3], *(row | {"step": 10 + row["step"]} for row in rows[3:])]) == []


# --- parts and wholes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("time", "is_long"), [(3.0, False), (2.998, False), (2.996, True)])
def test_forward_and_backward_fit_into_the_step(time: float, is_long: bool) -> None:
    """Up to 0.1 %."""
    rows = [*steps(1, 2, forward_s=0.25, backward_s=0.5), *steps(3, step_time_s=time, forward_s=1.0, backward_s=2.0)]
    found = linted("parts-exceed-whole", [*rows, *steps(4)])
    assert len(found) == is_long
    for each in found:
        assert each.message == (
            f"forward + backward exceeds the step time on 1 of 3 lines: 3 s against {time:g} s on line 3"
        )
        assert list(each.lines["r"]) == [3] and each.numbers == {"of": 3}


def phase(name: str, step: int, time_s: float, rank: int = 0) -> TableRow:
    return {"table": "phases", "step": step, "phase": name, "time_s": time_s, "rank": rank, "occurrence": 1}


PARTS = """
title = "a program with phases"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "phase"
table = "phases"
text = "{rank:d} {phase:w} of step {step:d}: {time:.3f} s"
unit = { time = "s" }
sample = "0 whole of step 1: 2.500 s"
[[phase]]
name = "whole"
[[phase]]
name = "first"
of = ["whole"]
[[phase]]
name = "second"
of = ["whole"]
[[phase]]
name = "beside"
of = ["whole"]
hidden = true
"""


@pytest.fixture
def of_phases(found_in: Any) -> Any:
    def found(*printed: tuple[int, str, int, float]) -> list[Finding]:
        lines = [f"{rank} {name} of step {number}: {time:.3f} s" for rank, name, number, time in printed]
        return [*found_in("parts-exceed-whole", PARTS, *lines)]

    return found


def divided(number: int, first: float, second: float, whole: float, rank: int = 0) -> list[tuple[int, str, int, float]]:
    return [(rank, "first", number, first), (rank, "second", number, second), (rank, "whole", number, whole)]


@pytest.mark.parametrize(("whole", "excess"), [(3.0, None), (2.971, None), (2.97, "1.0 %"), (1.5, "100.0 %")])
def test_phases_that_are_longer_than_their_whole(of_phases: Any, whole: float, excess: str | None) -> None:
    """Above 1 % in a step, all ranks summed."""
    found = of_phases(*divided(1, 1.0, 1.0, 2.5), *divided(2, 1.0, 2.0, whole), (0, "beside", 2, 99.0))
    assert len(found) == (excess is not None)
    for each in found:
        message = f"first + second exceeds whole in 1 of 2 steps, by up to {excess} (all ranks of a step summed)"
        assert each.message == message
        assert list(each.lines[each.run]) == [7] and each.numbers["of"] == 2


def test_only_steps_with_all_parts_of_all_ranks_are_judged(of_phases: Any) -> None:
    both = [*divided(1, 1.0, 1.0, 1.5), *divided(1, 1.0, 1.0, 3.0, rank=1)]
    assert of_phases(*both) == []  # 4 s in 4.5 s
    assert of_phases(*both[:3], both[3]) == []  # rank 1 lacks two lines
    assert of_phases(*both[:2]) == []
    (finding,) = of_phases(*both[:1], both[2], (0, "whole", 2, 0.5), (0, "first", 2, 1.0))
    assert finding.message.startswith("first exceeds whole in 1 of 2 steps, by up to 100.0 %")


def _timed(path: Path, timers: str, label: str = "") -> list[tuple[str, str]]:
    """Return severity and message of the findings about parts in a log of Megatron's timers."""
    step = " iteration {:8d}/ 100 | elapsed time per iteration (ms): 2000.0 | lm loss: 5.348983E+00 |\n"
    lines = (step + timers).splitlines(keepends=True)
    path.write_text("".join(label + line.format(number) for number in range(1, 9) for line in lines))
    findings = perflog.lint(perflog.read(path)).itertuples()
    return [(each.severity, each.message) for each in findings if each.code == "parts-exceed-whole"]


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        ("(600.12, 919.31)", "(600.52, 890.22)", None),
        ("(800.12, 919.31)", "(800.52, 890.22)",
         "forward_compute + backward_compute exceeds forward_backward in 8 of 8 steps, by up to 5.3 % (the fastest "),
        ("919.31", "890.22", None),
        ("1719.31", "890.22",
         "forward_compute exceeds forward_backward in 8 of 8 steps, by up to 13.1 % (the slowest "),
    ],
)  # fmt: skip
def test_of_times_over_the_ranks_only_the_smallest_are_added(
    tmp_path: Path, forward: str, backward: str, message: str | None
) -> None:
    """The largest time of each part may be of another rank."""
    head, whole = ("(min, max)", "(1500.10, 1520.22)") if forward.startswith("(") else ("max", "1520.22")
    timers = (
        f"{head} time across ranks (ms):\n    forward-backward ....: {whole}\n"
        f"    forward-compute .....: {forward}\n    backward-compute ....: {backward}\n"
    )
    found = [said for _, said in _timed(tmp_path / "run.log", timers)]
    assert [said.removesuffix("rank of each)") for said in found] == [message] * (message is not None)


def test_largest_times_over_the_ranks_need_not_fit_into_a_step(tmp_path: Path) -> None:
    """One rank prints them for all: they are not of the rank in its label."""
    times = ("(400.12, 1519.31)", "(380.52, 1490.22)"), ("1519.31", "1490.22")
    for head, (forward, backward) in zip(("(min, max)", "max"), times, strict=True):
        path = tmp_path / f"{len(head)}.log"
        timers = f"{head} time across ranks (ms):\n    optimizer ...: {forward}\n    backward-compute ...: {backward}\n"
        ((severity, message),) = _timed(path, timers, label="3: ")
        assert severity == "note"
        assert "each is the time of its slowest rank, which may be another one, or some" in message
        phases = perflog.read(path).table("phases")
        assert phases["rank"].isna().all() and set(phases["rank_by"]) == {"slowest"}


def test_phases_that_are_longer_than_the_step() -> None:
    rows = [row for n in range(1, 9) for row in [*steps(n), phase("a", n, 0.75), phase("b", n, 0.5)]]
    (finding,) = linted("parts-exceed-whole", rows)
    assert finding.message == (
        "a, b take 1.25 s together, step 1 s, in the mean of the steady steps: some of them time the same work, or not "
        "this step; it is not divided"
    )
    assert finding.numbers == {"parts": 1.25, "whole": 1.0} and len([*finding.lines["r"]]) == 16
    fits = [row | {"time_s": 0.25} if row["table"] == "phases" else row for row in rows]
    assert linted("parts-exceed-whole", fits) == []


@pytest.mark.parametrize(("first", "is_long"), [(0.25, False), (0.5, True)])
def test_phases_that_name_another_one_fit_into_it(first: float, is_long: bool) -> None:
    """Forward takes 0.7 s of each step."""
    names = {"forward_a": first, "forward_b": 0.375}
    rows = [row for n in range(1, 9) for row in steps(n, forward_s=0.7)]
    rows += [phase(name, n, time) for n in range(1, 9) for name, time in names.items()]
    found = linted("parts-exceed-whole", rows)
    assert len(found) == is_long
    for each in found:
        assert f" take {0.375 + first:g} s together, forward 700 ms, " in each.message.replace("875 ms", "0.875 s")
        assert each.message.endswith("or not this phase; it is not divided")


def test_steps_that_are_printed_again_do_not_make_phases_fit() -> None:
    rows = [row for n in range(1, 9) for row in [*steps(n), phase("a", n, 1.25)]]
    again = [row | {"copy": 2, "step_time_s": 9.0} for row in rows if row["table"] == "steps"]
    assert len(linted("parts-exceed-whole", [*rows, *again])) == 1
    assert linted("parts-exceed-whole", [row | {"step_time_s": None} for row in rows if row["table"] == "steps"]) == []
