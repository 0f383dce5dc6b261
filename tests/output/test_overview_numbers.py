"""The numbers of the overview's screen, each computed another way from the lines of the five logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.metrics_logs import printed, runs, tables
from support.seeds import hits, lines, log

from perflog import overview
from perflog.metrics import steps
from perflog.output.presenters.overview import screen

if TYPE_CHECKING:
    import pandas as pd

NUMBER = re.compile(r"(?<![\w.#])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.])")
TFLOP = 0.824633720832  # of a step and rank of the layer; FACTS
TOKENS = 4 * 8192


def shown(name: str) -> list[str]:
    """The screen of a log up to the findings, without the names of kernels and settings."""
    text = "\n".join(screen(overview(log(name)))).partition("\nDo not trust")[0]
    return text.split("\n")


def numbers(text: str) -> Iterator[str]:
    yield from (match[0] for match in NUMBER.finditer(text))


def same(texts: list[str], expected: list[float]) -> bool:
    """Whether printed numbers are values rounded to their last digit."""
    assert len(texts) == len(expected), (texts, expected)
    for text, value in zip(texts, expected, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text.replace(",", "")) == pytest.approx(value, abs=0.5001 * 10.0**-digits), (text, value)
    return True


def half_interval(values: list[float]) -> float:
    """Half of the 95 % interval of a median by its order statistics, as a share in percent."""
    ordered = sorted(values)
    reach = 1.96 * len(ordered) ** 0.5 / 2
    low, high = (ordered[round(len(ordered) / 2 + side * reach)] for side in (-1, 1))
    return float(100 * (high - low) / 2 / median(ordered))


def test_the_table_of_the_benchmark() -> None:
    """000: step, its interval, the change, the time between timers, TFLOP/s and tokens/s of four runs."""
    rows = [line for line in shown("moe_layer") if line.startswith("#")]
    phases = tables("moe_layer")["phases"]
    innermost = phases["phase"].isin([
        "prepare_forward", "prepare_backward", "weight_grad", "other_backward", "gather_gemm", "gemm_scatter",
    ])  # fmt: skip
    base = median(step.step[0] for step in printed()[0][1:])
    for number, (line, run, of_run) in enumerate(zip(rows, runs("moe_layer"), printed(), strict=True)):
        times = [step.step[0] for step in of_run[1:]]
        waits = mean(wait for step in of_run[1:] for wait in step.wait.values())
        timed = phases[innermost & (phases["run"] == run) & phases["step"].ge(1)]["time_s"].sum() / 4 / 99 * 1e3
        texts = list(numbers(line))
        experts, step, spread, *others = texts
        assert same([experts, step], [8 * 2**number, median(times)])
        assert float(spread) == pytest.approx(half_interval(times), abs=0.25)
        change = [100 * (median(times) / base - 1)] if number else []
        untimed = 100 * (1 - (waits + timed) / mean(times))
        *shares, tflops, tokens = others
        assert [float(text) for text in shares] == pytest.approx([*change, untimed], abs=0.06)
        assert same([tflops], [TFLOP / median(times) * 1e3])
        assert float(tokens.replace(",", "")) == pytest.approx(TOKENS / mean(times) * 1e3, rel=1e-6)


def test_the_reasons_of_the_benchmark() -> None:
    """000: the difference of the means, and the time of moe_forward between the timers inside it."""
    text = " ".join(line.strip() for line in shown("moe_layer"))
    means = [mean(step.step[0] for step in of_run[1:]) for of_run in printed()]
    waits = [mean(wait for step in of_run[1:] for wait in step.wait.values()) for of_run in printed()]
    phases = tables("moe_layer")["phases"]
    between = []
    for run in (runs("moe_layer")[0], runs("moe_layer")[3]):
        rows = phases[(phases["run"] == run) & phases["step"].ge(1)]
        inside = rows[(rows["phase"] != "gemm_scatter") | (rows["occurrence"] == 1)]
        total = inside.groupby("phase")["time_s"].sum() / 4 / 99 * 1e3
        between.append(total["moe_forward"] - total[["prepare_forward", "gemm1_forward", "gemm_scatter"]].sum())
    found = re.search(
        r"Why #4 is slower than #1: \+(\S+) ms .* (\d+) % of it in moe_forward .*\((\S+) ms -> (\S+) ms", text
    )
    assert found
    difference = means[3] - means[0]
    share = 100 * (between[1] - between[0]) / difference
    assert same(list(found.groups()), [difference, share, *between])
    found = re.search(
        r"unchanged \((\S+) ms\).*take (\S+) ms instead of (\S+) ms \(-(\d+) %\); no waits -(\d+) %", text
    )
    assert found
    gain = _unequal_ranks(phases[phases["run"] == runs("moe_layer")[3]])
    shares = [100 * gain / means[3], 100 * waits[3] / means[3]]
    assert same(list(found.groups()), [waits[3], means[3] - gain, means[3], *shares])


def _unequal_ranks(phases: pd.DataFrame) -> float:
    """Milliseconds a step: of each innermost phase the slowest of four ranks minus their mean."""
    once = ("prepare_forward", "prepare_backward", "weight_grad", "other_backward")
    rows = phases[phases["step"].ge(1) & phases["phase"].isin([*once, "gather_gemm", "gemm_scatter"])]
    total = 0.0
    for _, group in rows.sort_values(["line", "part"]).groupby(["phase", "step"]):
        times = group["time_s"].to_numpy(np.float64).reshape(-1, 4)
        total += float((times.max(axis=1) - times.mean(axis=1)).sum())
    return total / 99 * 1e3


STEP = r"STEP-(\d+): step_time = (\S+) ms, foward_time = (\S+), backward_time = ([\d.]+).*"


def test_the_screen_of_the_early_benchmark() -> None:
    """001: after the warm-up, as long as the series of steps says."""
    steady = steps(log("moe_layer_early")).query("of == 'step_time' and part == 'steady'")["n"].item()
    times = [[float(text) for text in hit.groups[1:]] for hit in hits("moe_layer_early", STEP)][-steady:]
    step, forward, backward = (list(column) for column in zip(*times, strict=True))
    screen_lines = shown("moe_layer_early")
    (row,) = (line for line in screen_lines if "±" in line)
    first, spread, tflops, tokens = numbers(row)
    assert same([first, tflops], [median(step), TFLOP / median(step) * 1e3])
    assert float(spread) == pytest.approx(half_interval(step), abs=0.25)
    assert float(tokens.replace(",", "")) == pytest.approx(TOKENS / mean(step) * 1e3, rel=1e-6)
    for name, part in (("forward", forward), ("backward", backward)):
        (bar,) = (line for line in screen_lines if line.startswith(f"  {name} "))
        assert same(list(numbers(bar)), [100 * mean(part) / mean(step), mean(part)])
    assert f"Bottleneck: forward, {100 * mean(forward) / mean(step):.0f} % of the step." in screen_lines


def test_the_screen_of_the_sweep() -> None:
    """002: nine runs, each against the first one of its model."""
    of_runs: list[list[list[float]]] = []
    for hit in hits("training_sweep", STEP):
        if hit.groups[0] == "0":
            of_runs.append([])
        of_runs[-1].append([float(text) for text in hit.groups[1:]])
    counts = steps(log("training_sweep")).query("of == 'step_time' and part == 'steady'")["n"]
    steady = [of_run[-n:] for of_run, n in zip(of_runs, counts, strict=True)]
    medians = [median(step[0] for step in of_run) for of_run in steady]
    rows = [line for line in shown("training_sweep") if line.startswith("#")]
    for number, row in enumerate(rows):
        found = re.fullmatch(r"#\d [a-z_]+ [a-z2-]+(?:-xl)? \d+ +(\S+) ms ± (\S+) % +(?:-|(\S+) %)", row)
        assert found, row
        assert same([found[1]], [medians[number]])
        assert float(found[2]) == pytest.approx(half_interval([step[0] for step in steady[number]]), abs=0.25)
        change = 100 * (medians[number] / medians[number // 3 * 3] - 1)
        assert (found[3] is None) == (number % 3 == 0)
        assert found[3] is None or same([found[3]], [change])
    means = [[mean(step[i] for step in steady[run]) for i in range(2)] for run in (6, 7)]
    text = " ".join(line.strip() for line in shown("training_sweep"))
    found = re.search(r"slower than #7: \+(\S+) ms .*, (\d+) % of it in forward \((\S+) ms -> (\S+) ms\)", text)
    assert found
    difference, forward = (means[1][i] - means[0][i] for i in range(2))
    assert same(list(found.groups()), [difference, 100 * forward / difference, means[0][1], means[1][1]])


UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


def test_the_screen_of_the_profile() -> None:
    """003: sums over the rows of nvprof's first section."""
    rows: dict[str, list[tuple[float, int, str]]] = {"GPU activities": [], "API calls": []}
    kind = ""
    for line in lines("nvprof")[4:]:
        kind = next((name for name in rows if f"{name}:" in line), kind)
        row = re.fullmatch(r".*? [\d.]+% +(\S+) +(\d+) +\S+ +\S+ +\S+ +(.+)", line)
        if not row:
            break
        rows[kind].append((seconds(row[1]), int(row[2]), row[3]))
    work, api = (sum(time for time, *_ in of_kind) for of_kind in rows.values())
    text = shown("nvprof")
    (figures,) = (line for line in text if re.match(r" +\d+\.\d+ s ", line))
    assert same(list(numbers(figures))[:2], [work, api])
    gemm = sum(time for time, _, name in rows["GPU activities"] if "gemm" in name)
    (bar,) = (line for line in text if line.startswith("  gemm "))
    assert same(list(numbers(bar)), [100 * gemm / work, gemm])
    for word, pattern in (("softmax", "softmax"), ("loss", "classifier")):
        total = sum(time for time, _, name in rows["GPU activities"] if pattern in name and "gemm" not in name)
        (bar,) = (line for line in text if line.startswith(f"  {word} "))
        assert same(list(numbers(bar)), [100 * total / work, total * 1e3])
    time, calls, name = rows["GPU activities"][0]
    largest = next(line for line in text if line.startswith("Largest kernel"))
    assert largest == f"Largest kernel: {name}, {calls} calls x {time / calls * 1e3:.2f} ms, {100 * time / work:.0f} %."


def test_the_figures_of_the_pipeline() -> None:
    """004: the median of the lines of one step, and the last loss."""
    pattern = r"\| epoch +\d+ \| +(\d+)/ +\d+ batches \| lr \S+ \| ms/batch +(\S+) \| loss +(\S+) \| ppl .*"
    found = [[float(text) for text in hit.groups] for hit in hits("pipeline_layers", pattern)]
    steady = steps(log("pipeline_layers")).query("of == 'step_time' and part == 'steady'")["n"].item()
    (row,) = (line for line in shown("pipeline_layers") if "±" in line)
    step, spread, loss = numbers(row)
    times = [time / 1e3 for _, time, _ in found[1:]][-steady:]
    assert same([step, loss], [median(times), found[-1][2]])
    assert float(spread) == pytest.approx(half_interval(times), abs=0.6)
