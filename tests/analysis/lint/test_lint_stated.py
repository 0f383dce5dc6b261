"""The linter accepts what a log states about itself if it is right: windows of averages, parts of a step."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.formats import registry
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.metrics import semantics

HEAD = "perflog trainer: recipe r, variant v, run 1 of 1\n"
SETUP = "setup: world_size 1, device cpu, dtype float32, seed 0, steps {}, warm-up {} steps\n"
STEPS, FIRST = 40, 20
TIMES = [300.0, 250.0, *[100.0 + 3 * (n % 7) + n / 4 for n in range(2, STEPS)]]  # two of warm-up, then it gets slower
PARTS = {"data": 5.0, "forward": 30.0, "optimizer": 7.0}


def text(first: int, last: int, rest: float = 0.1) -> str:
    """A run whose summary is the mean of steps FIRST to the last one, and says that it is of `first` to `last`."""
    lines = [HEAD, SETUP.format(STEPS, 2)]
    for n, took in enumerate(TIMES):
        backward = took - sum(PARTS.values()) - rest
        lines.append(
            f"[rank 0] step {n}: data 5.000000 ms, forward 30.000000 ms, backward {backward:.6f} ms, "
            f"optimizer 7.000000 ms\n[rank 0] step {n}: time {took:.6f} ms, forward 30.000000 ms, "
            f"backward {backward:.6f} ms, loss 1.000000, 1.000000 TFLOP/s per rank, 1.0 tok/s, peak memory 1 B\n"
        )
    mean = sum(TIMES[FIRST:]) / (STEPS - FIRST)
    lines.append(
        f"[rank 0] summary: step_time {mean!r} ms, forward 30.0 ms, backward 1.0 ms, mean of steps {first} to {last}\n"
    )
    return "".join(lines)


def messages(tmp_path: Path, given: str, code: str) -> list[str]:
    (path := tmp_path / "log.txt").write_text(given)
    log = perflog.read(path)
    assert log.line_account["unread"] == 0
    table = perflog.lint(log)
    return list(table["message"][table["code"] == code])


def test_a_window_that_the_log_states_is_believed(tmp_path: Path) -> None:
    assert messages(tmp_path, text(FIRST, STEPS - 1), "summary-window") == []


def test_a_window_that_the_log_states_wrongly_is_a_finding(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, text(2, STEPS - 1), "summary-window")
    assert f"is the mean of steps {FIRST} to {STEPS - 1} of {STEPS}" in message
    assert message.endswith(f"The log says steps 2 to {STEPS - 1}")


OWN = """\
scopes = ["run", "step"]

[quantities]
warmup_steps = "warm"

[[line]]
name   = "begin"
opens  = "run"
table  = "runs"
text   = "begin, warm-up {warm:d}"
sample = "begin, warm-up 3"

[[line]]
name   = "step"
closes = "step"
table  = "steps"
text   = "it {step:d} took {step_time:.6f} ms"
unit   = { step_time = "ms" }
sample = "it 1 took 1.500000 ms"

[[line]]
name   = "mean"
table  = "summaries"
text   = "on average {step_time:r} ms"
unit   = { step_time = "ms" }
sample = "on average 1.25 ms"
"""


@pytest.mark.parametrize(("warm", "is_found"), [(FIRST, False), (2, True)])
def test_a_log_may_state_its_warm_up_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: int, is_found: bool
) -> None:
    (path := tmp_path / "own.toml").write_text(OWN)
    own = load(path)
    every: dict[str, Format] = {**registry.known(), "own": own}
    monkeypatch.setattr(semantics, "formats", lambda: every)
    steps = "".join(f"it {n} took {took:.6f} ms\n" for n, took in enumerate(TIMES))
    mean = sum(TIMES[FIRST:]) / (STEPS - FIRST)
    (log := tmp_path / "log.txt").write_text(f"begin, warm-up {warm}\n{steps}on average {mean!r} ms\n")
    table = perflog.lint(perflog.read(log, format=str(path)))
    assert ("summary-window" in set(table["code"])) is is_found


def test_a_gap_that_timed_phases_explain_is_no_finding(tmp_path: Path) -> None:
    assert messages(tmp_path, text(FIRST, STEPS - 1), "step-gap") == []
    (message,) = messages(tmp_path, text(FIRST, STEPS - 1, rest=20.0), "step-gap")
    assert message.startswith("step - forward - backward is 32 ms")
