"""Lint rules for logs of training frameworks: two programs print the same step, lines cover several steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.analysis.lint import Finding, findings
from perflog.metrics import Options

ITERATION = (
    " iteration {step:8d}/ {steps:7d} | consumed samples: {samples:12d} | elapsed time per iteration (ms): {ms:.1f} | "
    "learning rate: 5.662E-06 | global batch size:   256 | lm loss: 1.068580E+01 | loss scale: 2048.0 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: {rate:.3f} | "
    "TFLOPs: 19.97 |"
)
TIMER = (
    "[2022-09-19 00:22:22,168] [INFO] [timer.py:207:stop] 0/{step}, RunningAvgSamplesPerSec={rate:.12f}, "
    "CurrSamplesPerSec={rate:.12f}, MemAllocated=7.33GB, MaxMemAllocated=10.71GB"
)


def findings_by_code(tmp_path: Path, apart: float = 1.0, steps: int = 180) -> dict[str, Finding]:
    """Findings of a log of 18 lines, of 10 steps each, to which another program adds its own rate."""
    lines = []
    for k in range(1, 19):
        ms = 7660 + 3 * (k % 5)
        rate = 256 / ms * 1000
        lines.append(TIMER.format(step=10 * k, rate=rate * apart))
        lines.append(ITERATION.format(step=10 * k, steps=steps, samples=2560 * k, ms=ms, rate=rate))
    path = tmp_path / "run.log"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    log = perflog.read(path)
    assert log.line_account["unread"] == 0
    assert len(log.arrow("steps")) == 18
    return {f.code: f for f in findings(log, Options())}


def test_two_programs_that_print_another_rate_of_the_same_steps(tmp_path: Path) -> None:
    disagree = findings_by_code(tmp_path, apart=0.85)["figures-disagree"]
    assert disagree.evidence["ratio"] == pytest.approx(0.85, rel=1e-3)
    assert disagree.message == (
        "samples_per_s is printed twice in 18 steps, 15.0 % apart (median): step 10 has 33.41 1/s on line 2 and "
        "28.4 1/s on line 1"
    )


def test_rates_that_agree_within_timing_errors_are_no_finding(tmp_path: Path) -> None:
    assert "figures-disagree" not in findings_by_code(tmp_path, apart=1.01)


def test_a_run_of_lines_that_cover_ten_steps_comes_to_its_end(tmp_path: Path) -> None:
    assert "run-stopped" not in findings_by_code(tmp_path)


def test_a_run_that_never_comes_to_its_last_step(tmp_path: Path) -> None:
    stopped = findings_by_code(tmp_path, steps=1716613)["run-stopped"]
    assert stopped.message == "18 printed steps, the last is step 180 of 1,716,613 announced"


@pytest.mark.parametrize(("steps", "unit", "found"), [
    (40, 1.0, True), (40, 0.5, False), (40, 0.01, False), (15, 1.0, False),
])  # fmt: skip
def test_step_times_in_units_that_are_coarse_for_them(tmp_path: Path, steps: int, unit: float, found: bool) -> None:
    """Times around 59 ms in whole units: 1 ms is 1.7 % of them. Few can be round by chance."""
    path = tmp_path / "train.log"
    times = [59 + unit * (7 * k % 5 - 2) for k in range(steps)]
    path.write_text("".join(f"iter {k}: loss 2.5000, time {ms:.2f}ms, mfu 1.00%\n" for k, ms in enumerate(times)))
    coarse = [f for f in findings(perflog.read(path), Options(warmup=0)) if f.code == "coarse-times"]
    assert len(coarse) == found
    for finding in coarse:
        assert (finding.evidence["unit"], finding.evidence["median"]) == pytest.approx((0.001, 0.059))
        assert finding.message.startswith("all 40 steady steps take multiples of 1 ms, 1.7 % of their median 59 ms")


@pytest.mark.parametrize(("last", "is_short"), [(300, False), (299, False), (180, True)])
def test_a_run_that_went_on_from_a_checkpoint(tmp_path: Path, last: int, is_short: bool) -> None:
    """It prints fewer steps than announced, and reaches the last one."""
    path = tmp_path / "run.log"
    step = " iteration {:8d}/     300 | elapsed time per iteration (ms): 500.0 | lm loss: 5.0E+00 |\n"
    path.write_text("".join(step.format(k) for k in range(101, last + 1)), encoding="utf-8")
    codes = {found.code for found in findings(perflog.read(path), Options())}
    assert ("run-stopped" in codes) is is_short
