"""Losses and gradient norms that become NaN: told first, by series, step and rank, and no speed is a result then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.linted import TableRow, linted

import perflog
from perflog.analysis.compare.gates import Gate, failures
from perflog.analysis.lint import Finding, findings
from perflog.cli.main import main

Loss = Callable[[int], str]


def nanogpt(loss: Loss, steps: int = 40) -> str:
    return "".join(f"iter {i}: loss {loss(i)}, time {1000 + i % 3}.10ms, mfu 15.00%\n" for i in range(steps))


def titan(loss: Callable[[int, int], str], norm: Loss = lambda _: "1.5", ranks: int = 1) -> str:
    return "".join(
        f"[rank{rank}]:[titan] 2026-01-01 10:00:{i:02d},554 - root - INFO - step: {i:2d}  loss: {loss(i, rank)}  "
        f"grad_norm: {norm(i)}  memory: 30.00GiB(95.84%)  tps: 45,000  tflops: 34.00  mfu: 10.90%\n"
        for i in range(1, 30)
        for rank in range(ranks)
    )


def written(folder: Path, text: str, name: str = "run.log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def found(folder: Path, text: str) -> list[Finding]:
    log = perflog.read(written(folder, text))
    assert log.line_account["unread"] == 0
    return [finding for finding in findings(log) if finding.code == "diverged"]


def from_step(first: int, text: str = "nan") -> Loss:
    return lambda i: text if i >= first else f"{5 - i / 100:.4f}"


def test_a_loss_that_is_lost_is_the_first_thing_said(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, nanogpt(from_step(25, "NaN")))
    assert finding.message == "loss nan since step 25 (last finite 4.76 at 24)"
    assert (finding.severity, finding.first_line, finding.evidence["count"]) == ("warning", 26, 15)
    lines = CliRunner().invoke(main, [str(tmp_path / "run.log")]).output.splitlines()
    assert lines[1] == f"! {finding.message}"
    assert lines[2].split()[-1] == "loss" and lines[3].split()[-1] == "nan"
    assert "The other checks found nothing to distrust." in lines


@pytest.mark.parametrize(("spelled", "shown"), [("nan", "nan"), ("NAN", "nan"), ("inf", "inf"), ("-inf", "-inf")])
def test_how_programs_print_a_lost_loss(tmp_path: Path, spelled: str, shown: str) -> None:
    (finding,) = found(tmp_path, nanogpt(from_step(3, spelled), 6))
    assert finding.message == f"loss {shown} since step 3 (last finite 4.98 at 2)"


def test_a_finite_loss_is_no_finding_and_stands_on_the_screen(tmp_path: Path) -> None:
    assert not found(tmp_path, nanogpt(from_step(99)))
    lines = CliRunner().invoke(main, [str(tmp_path / "run.log")]).output.splitlines()
    assert lines[2].split()[-1] == "4.61"


def test_ranks_that_differ_are_told_apart(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, titan(lambda i, rank: "nan" if i > (10 if rank == 2 else 12) else "4.5", ranks=4))
    assert finding.message == (
        "loss nan since step 11 (last finite 4.5 at 10) on rank 2; loss nan since step 13 (last finite 4.5 at 12) on "
        "ranks 0, 1, 3"
    )


def test_ranks_that_agree_are_one(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, titan(lambda i, _: "nan" if i > 9 else "4.5", ranks=4))
    assert finding.message == "loss nan since step 10 (last finite 4.5 at 9)"


def test_what_is_finite_again_is_no_end(tmp_path: Path) -> None:
    overflow, loss = found(
        tmp_path, titan(lambda i, _: "nan" if i in (7, 9) else "4.5", lambda i: "inf" if i < 4 else "1.5")
    )[::-1]
    assert (loss.severity, loss.message) == ("warning", "loss nan in 2 of 29 values, first at step 7")
    assert (overflow.severity, overflow.message) == ("note", "grad_norm inf in 3 of 29 values, first at step 1")


def test_named_losses_and_no_scale_of_a_loss(tmp_path: Path) -> None:
    text = "".join(
        f"step: {i} aux_loss: {'nan' if i > 5 else 2.5} loss_scale: inf best_loss: inf val_acc: nan time: 0.5s\n"
        for i in range(1, 12)
    )
    (finding,) = found(tmp_path, text)
    assert finding.message == "aux_loss nan since step 6 (last finite 2.5 at 5)"


def test_no_gate_passes_a_run_whose_loss_is_nan(tmp_path: Path) -> None:
    base = written(tmp_path, nanogpt(from_step(99)), "base.log")
    side = written(tmp_path, nanogpt(from_step(20)), "side.log")
    compared = perflog.compare(base, side)
    told = "loss nan since step 20 (last finite 4.81 at 19) in side"
    assert compared.conclusion.startswith(f"not the same work: {told}, so its speed is not a result; step_time")
    (loss,) = (row for row in compared.row_records if row.metric == "loss")
    assert (loss.verdict, loss.reason) == (
        "not comparable",
        "a value is not finite, or not above 0, so there is no ratio",
    )
    failure, *_ = failures(compared, [Gate()])
    assert (failure.kind, failure.message) == (
        "cannot judge",
        f"not the same work: {told}, so its speed is not a result",
    )
    assert not failures(perflog.compare(base, base), [])
    assert all("nan" not in failure.message for failure in failures(perflog.compare(side, base), [Gate()]))


@pytest.mark.parametrize(
    ("high", "told"), [("337.59", "the printed mfu is up to 338 on 3 lines, steps 1 to 3"), ("42", None)]
)
def test_an_mfu_without_a_unit_may_be_percent_but_not_more_than_100(
    tmp_path: Path, high: str, told: str | None
) -> None:
    text = "".join(f"step: {i} loss: 2.5 mfu: {high if i < 4 else 40.5}\n" for i in range(1, 9))
    log = perflog.read(written(tmp_path, text))
    assert [f.message for f in findings(log) if f.code == "mfu-above-1"] == ([told] if told else [])


def test_a_value_that_only_some_lines_have_is_not_lost(tmp_path: Path) -> None:
    """A validation on every tenth line, and NaN on the others."""
    losses = [(i, "2.5" if i % 10 == 0 else "nan") for i in range(1, 56)]
    assert not found(tmp_path, "".join(f"step: {i} loss: 2.5 eval_loss: {loss}\n" for i, loss in losses))


def test_a_loss_that_is_finite_again_and_then_lost(tmp_path: Path) -> None:
    text = nanogpt(lambda i: "nan" if i == 5 or i > 20 else "2.5")
    (finding,) = found(tmp_path, text)
    assert finding.message == "loss nan since step 21 (last finite 2.5 at 20)"


def test_an_mfu_of_the_peak_of_another_device_is_told(tmp_path: Path) -> None:
    unknown = "Peak flops undefined for: NVIDIA RTX 5090, fallback to A100"
    device = f"[titan] 2026-01-01 10:00:00,100 - root - WARNING - {unknown}\n"
    text = "".join(
        f"[titan] 2026-01-01 10:00:{10 + i},000 - root - INFO - step: {i:2d}  loss: 12.2242  grad_norm: 15.5310  "
        "memory: 13.92GiB(7.25%)  tps: 1,340  tflops: 34.00  mfu: 10.90%\n"
        for i in range(1, 21)
    )
    log = perflog.read(written(tmp_path, device + text))
    told = "the printed MFU is of the peak of A100; the device is NVIDIA RTX 5090"
    assert [f.message for f in findings(log) if f.code == "mfu-other-device"] == [told]
    answer = perflog.overview(log)
    assert "The MFU, 10.9 %, is of the peak of A100, another device; the log does not show what takes the rest." in (
        answer.reasons
    )
    assert not answer.parts  # what the work takes at the peak of this device is not known
    assert not [f for f in findings(perflog.read(written(tmp_path, text))) if f.code == "mfu-other-device"]


def values(key: str, *numbers: float, **more: object) -> list[TableRow]:
    return [{"table": "values", "key": key, "value": number, **more} for number in numbers]


INF = float("inf")


@pytest.mark.parametrize(
    ("rows", "severity", "message"),
    [
        ([{"loss": INF}], "warning", "loss inf in its 1 value"),
        ([{"loss": INF}] * 2, "warning", "loss inf in all 2 values"),
        ([{"loss": 2.5}, {"loss": INF}], "warning", "loss inf since line 2 (last finite 2.5)"),
        ([{"loss": INF}, {"loss": 2.5}], "note", "loss inf in 1 of 2 values, first at line 1"),
        ([{"loss": 2.5}, {"loss": INF}, {"loss": 2.5}], "warning", "loss inf in 1 of 3 values, first at line 2"),
        ([{"grad_norm": 2.5}, {"grad_norm": INF}], "warning", "grad_norm inf since line 2 (last finite 2.5)"),
        (
            [{"grad_norm": 2.5}, {"grad_norm": INF}, {"grad_norm": 2.5}],
            "note",
            "grad_norm inf in 1 of 3 values, first at line 2",
        ),
        ([{"grad_norm": INF}], "note", "grad_norm inf in its 1 value"),
        (values("loss", INF, INF), "warning", "loss inf in all 2 values"),  # on lines of epochs alone
        (values("aux_loss", 2.5, INF, 2.5), "note", "aux_loss inf in 1 of 3 values, first at line 2"),
    ],
)
def test_values_without_a_step(rows: list[TableRow], severity: str, message: str) -> None:
    """A loss of the steps that was finite before is a warning, and so is what is lost at the end."""
    (finding,) = linted("diverged", rows)
    assert (finding.severity, finding.message) == (severity, message)
    assert finding.numbers == {"values": message.count("all 2") + 1, "of": len(rows)}


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "; and 1 more"), (5, "; and 2 more")])
def test_three_series_are_named_by_their_lines(count: int, more: str) -> None:
    rows = [row for n in range(count) for row in values(f"loss_{n}", 2.5, INF)]
    (finding,) = linted("diverged", [row | {"line": 100 - i} for i, row in enumerate(rows[::-1])])
    assert finding.message.count("last finite") == 3
    assert finding.message.startswith("loss_0 ") and finding.message.endswith(f"(last finite 2.5){more}")


def skipped(key: str, *numbers: float, every: int = 10) -> list[TableRow]:
    return [{"table": "values", "step": every * k, "key": key, "value": n} for k, n in enumerate(numbers, 1)]


@pytest.mark.parametrize(
    ("rows", "message", "severity"),
    [
        (
            skipped("number_of_skipped_iterations", 0, 10, 10, 0),
            "20 of 40 steps were skipped: lines of steps 20 to 30",
            "warning",
        ),
        (skipped("skipped_steps", 0, 0, 1, 1), "1 of 40 steps was skipped: line of step 30", "note"),
        (skipped("skipped_iterations", 0, 3, 3, 3), "3 of 40 steps were skipped: line of step 20", "warning"),
        (skipped("skipped", 1, 1, 3, 3), "3 of 40 steps were skipped: lines of steps 10 to 30", "warning"),
    ],
    ids=["since the last line", "in all", "iterations in all", "at the start"],
)
def test_steps_that_were_skipped(rows: list[TableRow], message: str, severity: str) -> None:
    (finding,) = linted("steps-skipped", rows)
    assert (finding.message, finding.severity) == (message, severity)
    assert len(linted("steps-skipped", [row | {"rank": rank} for row in rows for rank in range(4)])) == 1


@pytest.mark.parametrize("numbers", [(0, 0, 0), (5, 3, 4), (400, 500, 600), ()])
def test_numbers_that_show_no_skipped_steps(numbers: tuple[float, ...]) -> None:
    """None, a total that falls, and more than all steps."""
    assert linted("steps-skipped", [*skipped("skipped_steps", *numbers), *skipped("lr", 0.1, 0.2)]) == []
