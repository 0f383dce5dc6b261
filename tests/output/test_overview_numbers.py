"""Every number of the overview's screen of the five logs, recomputed from their lines.

The tests use no code of perflog but the command itself. `Screen.all_explained` fails where a screen holds a number that
no test recomputes.
"""

from __future__ import annotations

import re
from statistics import mean, median

import pytest
from support.raw_logs import (
    ProfileRow,
    RawRun,
    RawStep,
    epoch_lines,
    executed_rows,
    mean_phase,
    mean_step,
    modelled_pipeline,
    moe_runs,
    profile_rows,
    slowest_minus_mean,
    stage_times,
    sweep_runs,
)
from support.raw_steps import OUTLIER, half_interval, median_interval, outliers, warm_up_parts
from support.screen_numbers import Screen, check_bar, kinds_of_findings, overview_screen
from support.seeds import lines, path

from perflog.metrics.pipelines.schedule_simulation import DUAL_PIPE, step

TIMED = [("AG", 1), ("GA", 1), ("prep", 0), ("prep_back", 0), ("prep_back", 2), ("prep_back", 3)]
"""Innermost timers of a step of the MoE layer: kind of the line, and the place of the time in it."""


def tflop(run: RawRun) -> float:
    """TFLOP of a rank in a step as the benchmark counts them: forward and backward of two products of a row."""
    words = ("samples", "model_dim", "hidden_size", "topK")
    samples, model_dim, hidden_size, top_k = (int(run.settings[word]) for word in words)
    return samples * top_k * model_dim * hidden_size * 2 * 2 * 3 / 1e12


def tokens(run: RawRun) -> int:
    """Tokens of all ranks in a step."""
    return int(run.settings["world_size"]) * int(run.settings["samples"])


def untimed_in_moe_forward(steps: list[RawStep]) -> float:
    """Forward of the experts minus what is timed inside it: preparation, first product, second product."""
    second_product = mean(sum(step.column("GA", 1)[:4]) for step in steps) / 4  # the later ones are of the backward
    inside = mean_phase(steps, "prep", 0) + mean_phase(steps, "prep", 1) + second_product
    return mean_phase(steps, "forward", 0) - inside


def test_every_number_of_the_benchmark() -> None:
    """000: four runs of the MoE layer that differ in the number of experts."""
    screen, runs = overview_screen(path("moe_layer")), moe_runs("moe_layer")
    screen.explain("moe_layer, <> runs x <> steps, <> ranks,", len(runs), len(runs[0].steps), 4)
    base = median(step.time for step in runs[0].steady)
    for number, run in enumerate(runs, 1):
        times = [step.time for step in run.steady]
        timed = sum(mean_phase(run.steady, *place) for place in TIMED) + mean_phase(run.steady, "wait", 1)
        row = [int(run.settings["num_local_experts"]), median(times), half_interval(times)]
        change = [median(times) / base - 1] * (number > 1)
        rates = [1 - timed / mean(times), tflop(run) / median(times), tokens(run) / median(times)]
        screen.explain(f"#{number} <> <> ± <> {'<>' if change else '-'} <> <> <>", *row, *change, *rates)
    first, last = runs[0].steady, runs[3].steady
    growth, step = mean_step(last) - mean_step(first), mean_step(last)
    before, after = map(untimed_in_moe_forward, (first, last))
    waits = [mean_phase(steps, "wait", 1) for steps in (first, last)]
    screen.explain("Why #4 is slower than #1: the mean step takes <> more, <> of it", growth, (after - before) / growth)
    screen.explain("in untimed parts of moe_forward (<> -> <>).", before, after)
    assert abs(waits[1] - waits[0]) < 0.03 * growth
    screen.explain("Exposed wait and communication are unchanged (<>).", waits[1])
    gain = sum(slowest_minus_mean(last, *place) for place in TIMED)
    screen.explain("with equal ranks the mean step of #4 would take <> instead of <> (<>); with no waits <>.",
                   step - gain, step, -gain / step, -waits[1] / step)  # fmt: skip
    check_findings(screen, "moe_layer", shown=3)
    screen.all_explained()


def check_findings(screen: Screen, name: str, shown: int) -> None:
    """The screen shows the first kinds of findings, and counts the others."""
    screen.explain("and <> more kinds of finding", kinds_of_findings(path(name)) - shown)


def parts_of_step(steps: list[RawStep]) -> dict[str, float]:
    """Innermost timers of a step of the MoE layer, and what each timer around others leaves untimed."""
    early, late = slice(0, 4), slice(4, None)  # of the lines that all ranks print in forward, then in backward
    gather, scatter = (
        [mean(sum(step.column(kind, 1)[part]) for step in steps) / 4 for part in (early, late)] for kind in ("AG", "GA")
    )
    prepare, product1 = (mean_phase(steps, "prep", place) for place in range(2))
    prepare_back, product1_back, weight_grad, other = (mean_phase(steps, "prep_back", place) for place in range(4))
    linear2, product2_back = (mean_phase(steps, "linear2", place) for place in range(2))
    linear1, wait = mean_phase(steps, "linear1", 0), mean_phase(steps, "wait", 1)
    moe_forward = mean_phase(steps, "forward", 0)
    forward, backward = mean(step.forward for step in steps), mean(step.backward for step in steps)
    return {
        "gather_gemm": sum(gather), "gemm_scatter": sum(scatter), "wait": wait, "weight_grad": weight_grad,
        "other_backward": other, "prepare_forward": prepare, "prepare_backward": prepare_back,
        "untimed": mean_step(steps) - forward - backward,
        "untimed in forward": forward - wait - moe_forward,
        "untimed in moe_forward": moe_forward - prepare - product1 - scatter[0],
        "untimed in gemm1_forward": product1 - gather[0],
        "untimed in backward": backward - linear2 - linear1,
        "untimed in linear2_backward": linear2 - product2_back,
        "untimed in gemm2_backward": product2_back - gather[1],
        "untimed in linear1_backward": linear1 - prepare_back - product1_back - weight_grad - other,
        "untimed in gemm1_backward": product1_back - scatter[1],
    }  # fmt: skip


def share_on_ticks(times: list[float]) -> float:
    """Share of times that are multiples of the tick of CUDA events, 1.024 us, as float32 prints them: within 5 ns."""
    return mean(abs(time * 1e9 - round(time * 1e9 / 1024) * 1024) < 5 for time in times)


@pytest.mark.parametrize("place", [3])
def test_every_number_of_one_run_of_the_benchmark(place: int) -> None:
    """000, one run of it: `perflog LOG#2` has where its time goes, and the sentences of its findings."""
    of_run = path("moe_layer").with_name(f"{path('moe_layer').name}#{place}")
    screen, run = overview_screen(of_run), moe_runs("moe_layer")[place - 1]
    steps, step, ranks = run.steady, mean_step(run.steady), int(run.settings["world_size"])
    times, parts = [each.time for each in steps], parts_of_step(steps)
    assert sum(parts.values()) == pytest.approx(step, rel=1e-9)
    untimed = {part.removeprefix("untimed in "): time for part, time in parts.items() if part.startswith("untimed")}
    screen.explain("moe_layer, <> run x <> steps, <> ranks,", 1, len(run.steps), ranks)
    rates = [sum(untimed.values()) / step, tflop(run) / median(times), tokens(run) / median(times)]
    screen.explain("<> ± <> <> <> <> Where the time goes", median(times), half_interval(times), *rates)
    for part in sorted(parts, key=lambda part: -parts[part])[:5]:
        check_bar(screen, part, parts[part], step)
    screen.explain("Waiting and communication that delay the step: <>.", parts["wait"] / step)
    most = max(untimed, key=lambda part: untimed[part])
    words = f"<> of the step is untimed, most of it in {most} (<>)."
    screen.explain(words, sum(untimed.values()) / step, untimed[most] / step)

    rows = executed_rows(steps)
    by_rank = [blocks for blocks, _ in steps[0].lines["block_info"]]
    screen.explain("Loads: the largest of <> ranks does <> times the mean.", ranks, max(by_rank) / mean(by_rank))
    gains = {"no waits": parts["wait"], "equal ranks": sum(slowest_minus_mean(steps, *timer) for timer in TIMED)}
    (first, gain), (second, other) = sorted(gains.items(), key=lambda item: -item[1])
    screen.explain(f"At best, with {first} the mean step would take <> instead of <> (<>); with {second} <>.",
                   step - gain, step, -gain / step, -other / step)  # fmt: skip

    nominal = int(run.settings["samples"]) * int(run.settings["topK"])
    figures = [min(rows), max(rows), mean(rows)]
    screen.explain("TFLOP/s: ranks execute <> to <> rows per step, <> on average;", *figures)
    screen.explain(
        "the nominal number is <> (<> to <>, average <>)", nominal, *(figure / nominal - 1 for figure in figures)
    )
    forward = [each.forward for each in run.steps]
    screen.explain("only <> of the step_time values and <> of the forward values are multiples of the clock tick (<>",
                   share_on_ticks(run.times), share_on_ticks(forward), 1.024e-6)  # fmt: skip
    kernels = [time for each in run.steps for kind in ("AG", "GA") for time in each.column(kind, 1)]
    assert share_on_ticks([each.backward for each in run.steps]) == share_on_ticks(kernels) == 1
    screen.explain("and <> more kinds of finding", kinds_of_findings(of_run) - 2)
    screen.all_explained()


def test_every_number_of_the_early_benchmark() -> None:
    """001: one run, of which the log prints step, forward and backward."""
    screen, (run,) = overview_screen(path("moe_layer_early")), moe_runs("moe_layer_early")
    screen.explain("moe_layer, <> run x <> steps, <> ranks,", 1, len(run.steps), int(run.settings["world_size"]))
    steady, times = run.steady, [step.time for step in run.steady]
    row = [median(times), half_interval(times), tflop(run) / median(times), tokens(run) / median(times)]
    screen.explain("<> ± <> <> <> Where the time goes", *row)
    forward, backward = mean(step.forward for step in steady), mean(step.backward for step in steady)
    check_bar(screen, "forward", forward, mean(times))
    check_bar(screen, "backward", backward, mean(times))
    screen.explain("Bottleneck: forward, <> of the step.", forward / mean(times))

    forward, backward = median(step.forward for step in steady), median(step.backward for step in steady)
    screen.explain("TFLOP/s: backward takes <> of forward: <> against <> (steady medians).",
                   backward / forward, backward, forward)  # fmt: skip
    printed = [rate for step in steady for *_, rate in step.lines["STEP"]]
    screen.explain("The printed <> TFLOP/s count a full backward", median(printed))

    half, first = len(times) // 2, len(run.steps) - len(times)
    halves = times[:half], times[half:]
    before, after = map(median, halves)
    low, high = sorted(map(median_interval, halves))
    assert low[1] < high[0]
    screen.explain("step: <> from the first half to the second: the median is <> over steps <> to <> and <> over "
                   "steps <> to <>; their <> intervals do not overlap", after / before - 1,
                   before, first, first + half - 1, after, first + half, len(run.steps) - 1, 0.95)  # fmt: skip
    check_findings(screen, "moe_layer_early", shown=2)
    screen.all_explained()


def test_every_number_of_the_sweep() -> None:
    """002: nine runs, each against the first one of its model."""
    screen, runs = overview_screen(path("training_sweep")), sweep_runs()
    ranks = {line for line in lines("training_sweep") if line.startswith("world_rank")}
    screen.explain("training_sweep, <> runs x <> steps, <> ranks;", len(runs), len(runs[0].steps), len(ranks))
    medians = [median(step.time for step in run.steady) for run in runs]
    for number, run in enumerate(runs):
        spread = half_interval([step.time for step in run.steady])
        change = medians[number] / medians[number // 3 * 3] - 1
        name = f"#{number + 1} {run.settings['name']}"
        screen.named(name)
        if number % 3:
            screen.explain(f"{name} <> ± <> <>", medians[number], spread, change)
        else:
            screen.explain(f"{name} <> ± <> -", medians[number], spread)
    base, slowest = (runs[place].steady for place in (6, 7))
    growth = mean_step(slowest) - mean_step(base)
    before, after = (mean(step.forward for step in steps) for steps in (base, slowest))
    screen.explain("Why #8 is slower than #7: the mean step takes <> more, <> of it in forward (<> -> <>).",
                   growth, (after - before) / growth, before, after)  # fmt: skip
    assert max(range(9), key=lambda i: medians[i] / medians[i // 3 * 3]) == 7
    check_findings(screen, "training_sweep", shown=3)
    screen.all_explained()


@pytest.mark.parametrize("place", [1, 6])
def test_every_number_of_one_run_of_the_sweep(place: int) -> None:
    """002, one run of it: the parts of its step, and the sentences of its first two findings."""
    of_run = path("training_sweep").with_name(f"{path('training_sweep').name}#{place}")
    screen, run = overview_screen(of_run), sweep_runs()[place - 1]
    ranks = {line for line in lines("training_sweep") if line.startswith("world_rank")}
    screen.explain("<> run x <> steps, <> ranks;", 1, len(run.steps), len(ranks))
    times = [step.time for step in run.steady]
    screen.explain("<> ± <> Where the time goes", median(times), half_interval(times))
    parts = {name: mean(getattr(step, name) for step in run.steady) for name in ("forward", "backward")}
    parts["untimed"] = mean(times) - sum(parts.values())
    for part, time in parts.items():
        if time >= 0.005 * mean(times):
            check_bar(screen, part, time, mean(times))
    screen.explain("Bottleneck: backward, <> of the step.", parts["backward"] / mean(times))
    shown = [explain for explain in SENTENCES_OF_THE_SWEEP if explain(screen, run)]
    if (more := kinds_of_findings(of_run) - len(shown)) > 0:
        screen.explain(f"and <> more kind{'s' * (more > 1)} of finding", more)
    screen.all_explained()


def explain_experts(screen: Screen, run: RawRun) -> bool:
    """The number of experts that the run's name tells."""
    if "the settings say experts" in screen.text:
        screen.explain("the settings say experts <>;", int(run.settings["name"].split()[-1]))
        return True
    return False


def explain_warm_up(screen: Screen, run: RawRun) -> bool:
    """What is cut at the start, and what it would do to the mean."""
    if "modified z" not in screen.text:
        return False
    leading, by_mser = warm_up_parts(run.times)
    words = f"<> leading step{'s' * (leading > 1)} beyond the scatter of the second half (modified z > <>)"
    screen.explain(words, leading, OUTLIER)
    if by_mser:
        screen.explain("and <> by the MSER-5 rule:", by_mser)
    steady, of_all = [step.time for step in run.steady], mean(run.times)
    screen.explain("step <> takes <>, <> times the steady median <>;",
                   0, run.times[0], run.times[0] / median(steady), median(steady))  # fmt: skip
    screen.explain("the mean of all steps, <>, differs by <> from", of_all, of_all / mean(steady) - 1)
    return True


def explain_summary(screen: Screen, run: RawRun) -> bool:
    """The steps whose mean the log prints as its summary."""
    if "is the mean of steps" not in screen.text:
        return False
    printed, first, steady = float(run.settings["mean_ms"]) / 1e3, 40, mean(step.time for step in run.steady)
    assert mean(run.times[first:]) == pytest.approx(printed, rel=1e-6)
    screen.explain("step_time <> (<>) is the mean of steps <> to <> of <>;",
                   printed, printed / steady - 1, first, len(run.steps) - 1, len(run.steps))  # fmt: skip
    screen.explain("the distance from the mean of the <> steady steps", len(run.steady))
    return True


def explain_outliers(screen: Screen, run: RawRun) -> bool:
    """Steps that take far longer than the others, and what they do to the mean."""
    if "MAD" not in screen.text:
        return False
    times = [step.time for step in run.steady]
    scatter, (place,) = outliers(times)
    number = place + len(run.steps) - len(times)
    screen.explain("<> steady step beyond median + <> MAD (<> + <>):", 1, 10, median(times), scatter)
    others = mean(times[:place] + times[place + 1 :])
    words = "step <> <>; effect on the steady mean: <>"
    screen.explain(words, number, times[place], mean(times) / others - 1)
    return True


SENTENCES_OF_THE_SWEEP = (explain_experts, explain_warm_up, explain_summary, explain_outliers)


def test_the_runs_that_findings_of_the_sweep_name() -> None:
    """002: the runs of gpt2 print one and the same model, without experts, though their names say otherwise."""
    text = "\n".join(lines("training_sweep"))
    models = re.findall(r"^DistributedDataParallel\(\n.*?^\)$", text, re.MULTILINE | re.DOTALL)
    assert len(models) == 3 and len(set(models)) == 1 and not re.search("moe|expert", models[0], re.IGNORECASE)
    prints, starts = ([m.start() for m in re.finditer(x, text)] for x in ("DistributedDataParallel", "STEP-0:"))
    assert prints[0] < starts[0] < prints[1] < starts[1] < prints[2] < starts[2]  # the other six runs print no model
    screen = overview_screen(path("training_sweep")).text
    assert "the settings name experts, but the model has none (#1, #2, #3)" in screen
    assert "runs with different settings print the same model (#1, #2, #3)" in screen


CATEGORIES = {
    "gemm": "sgemm", "softmax": "^softmax", "loss": "fused_classifier", "layout": "permute_kernel",
    "elementwise": "gelu|residual|copy_and_cast",
}  # fmt: skip
"""What the kernels of llm.c do, by the words in their names (llm.c/llmc/*.cuh)."""


def of_profile(kind: str, pattern: str = "") -> list[ProfileRow]:
    """Rows of the table of the whole profile."""
    return [row for row in profile_rows() if (row.range, row.kind) == (None, kind) and re.search(pattern, row.name)]


def time_of(rows: list[ProfileRow]) -> float:
    return sum(row.time for row in rows)


def dominated_by_one_call() -> list[ProfileRow]:
    """Rows of which one call takes over half of the time, and over ten times the mean of the others.

    Rows whose longest call is below a thousandth of the longest row do not matter.
    """
    longest = max(row.time for row in profile_rows())
    several = [row for row in profile_rows() if row.calls > 1 and row.longest >= 1e-3 * longest]
    return [row for row in several if row.longest > 0.5 * row.time and row.longest > 10 * row.others]


def test_every_number_of_the_profile() -> None:
    """003: nvprof's tables of the whole profile and of the ranges in it."""
    screen = overview_screen(path("nvprof"))
    screen.explain("<> run; all lines read", sum("is profiling process" in line for line in lines("nvprof")))
    work, calls = of_profile("GPU activities"), of_profile("API calls")
    steps = [[row for row in profile_rows() if row.range == f"Train step {i}"] for i in range(3)]
    of_steps = [time_of([row for row in rows if row.kind == "GPU activities"]) for rows in steps]
    screen.explain("GPU work/step <> <> <> Where", time_of(work), time_of(calls), median(of_steps))
    for category, pattern in CATEGORIES.items():
        check_bar(screen, category, time_of(of_profile("GPU activities", pattern)), time_of(work))
    gemm = of_profile("GPU activities", CATEGORIES["gemm"])
    assert all(row.name.startswith("volta_sgemm") for row in gemm)
    screen.explain("Bottleneck: FP32 matrix products, <>: every gemm is volta_sgemm", time_of(gemm) / time_of(work))
    top = max(gemm, key=lambda row: row.time)
    largest = [top.calls, top.time / top.calls, top.time / time_of(work)]
    screen.explain(f"Largest kernel: {top.name}, <> calls x <>, <>.", *largest)

    rows = sorted(dominated_by_one_call(), key=lambda row: -row.longest)
    by_name: dict[str, ProfileRow] = {}
    for row in rows:
        by_name.setdefault(row.name, row)
    screen.explain("API calls: <> rows:", len(rows))
    for row, others in zip(by_name.values(), ("<> on average", "<> on average", ""), strict=False):  # the last is cut
        numbers = [row.longest, row.time, row.calls, row.others] if others else [row.longest, row.time]
        calls_of_row = f" in <> calls (the others {others})" if others else ""
        name = f"range {row.name}" if row.kind == "Range" else row.name
        place = f" in range {row.range}" if row.range and row.kind != "Range" else ""
        screen.named(f"one call of {name}{place} takes")
        screen.explain(f"one call of {name}{place} takes <> of <>{calls_of_row}", *numbers)

    kernels = sum(row.calls for row in work if "[CUDA" not in row.name)
    in_steps = [sum(row.calls for row in rows if row.kind == "GPU activities" and "[CUDA" not in row.name)
                for rows in steps]  # fmt: skip
    assert kernels - sum(in_steps) == in_steps[1]
    screen.explain("<> kernel calls are outside of Train step <> to Train step <>, of each kernel as many as in "
                   "Train step <>:", kernels - sum(in_steps), 0, 2, 1)  # fmt: skip
    invalid = next(re.findall(r"Found (\d+) invalid", line) for line in lines("nvprof") if "invalid range" in line)
    screen.explain("invalid range markers: <>", int(invalid[0]))
    check_findings(screen, "nvprof", shown=2)
    screen.all_explained()


def explain_schedules(screen: Screen) -> None:
    """The idle shares of 004 under other schedules: a backward is two forwards, half of it for the weights."""
    micro_batches = int(re.findall(r"> GAS: (\d+)", "\n".join(lines("pipeline_layers")))[0])
    each = [time / micro_batches for time in stage_times().values()]
    busy = 3 * micro_batches * mean(each)

    def of_1f1b(count: int) -> float:
        """The slowest stage works without a pause; the others have a ramp of one micro-batch."""
        return 1 - busy / (3 * micro_batches * max(each) + 3 * (sum(each) - max(each)) * micro_batches / count)

    # The last stage, which is the slowest, starts behind half of each other stage, and idles no more.
    assert max(each) == each[-1]
    of_zb_v = 1 - busy / (3 * micro_batches * each[-1] + sum(each[:-1]) / 2)
    # Unequal pairs have no closed form: the simulation, whose tests have those of equal stages.
    dual_pipe = step(DUAL_PIPE, each, [2 * time for time in each], micro_batches)
    assert dual_pipe is not None
    assert dual_pipe.makespan_s > 3 * micro_batches / 2 * max(a + b for a, b in zip(each, each[::-1], strict=True))
    screen.explain("Pipeline of <> stages and <> micro-batches, simulated with its stages as timed, the backward as "
                   "twice the forward: <> idle under 1F1B, if that is its schedule; <> under ZB-V with the same "
                   "memory, <> under DualPipe with two copies of the parameters, <> with <> micro-batches of half",
                   len(each), micro_batches, of_1f1b(micro_batches), of_zb_v, dual_pipe.idle,
                   of_1f1b(2 * micro_batches), 2 * micro_batches)  # fmt: skip


def test_every_number_of_the_pipeline() -> None:
    """004: lines of steps of which the first covers two, and forward times of the layers."""
    screen, steps = overview_screen(path("pipeline_layers")), epoch_lines()
    stages = re.findall(r"> PP: (\d+)", "\n".join(lines("pipeline_layers")))
    screen.explain("LlamaForCausalLM, <> run x <> steps (<>-<>), <> ranks;",
                   1, len(steps), steps[0].step, steps[-1].step, int(stages[0]))  # fmt: skip
    times = [line.time for line in steps[1:]]
    screen.explain("<> ± <> <> Where the time goes", median(times), half_interval(times), steps[-1].loss)

    modelled, whole = modelled_pipeline(), mean(times)
    bars = {"unequal stages": modelled.unequal, "compute": modelled.busy, "pipeline ramp": modelled.ramp}
    for bar, time in bars.items():
        check_bar(screen, bar, time, whole)
    check_bar(screen, "unattributed", whole - sum(bars.values()), whole)
    by_stage = stage_times()
    slowest = max(by_stage, key=lambda stage: by_stage[stage])
    screen.explain("Bottleneck: stage <> (forward) takes <> times the mean stage",
                   slowest, by_stage[slowest] / mean(by_stage.values()))  # fmt: skip
    explain_schedules(screen)
    equal = modelled.busy + modelled.ramp
    screen.explain("with equal stages the pipeline would take <> instead of <> (<>)",
                   equal, modelled.makespan, equal / modelled.makespan - 1)  # fmt: skip

    merged = steps[0]
    assert merged.time > 4 * median(times)
    screen.explain("step: <> line of <>: line <> covers <> steps", 1, len(steps), merged.line, 2)
    screen.explain("so its time of <> covers <> steps;", merged.time, 2)
    screen.explain("its loss <>, if a sum, is <> per step,", merged.loss, merged.loss / 2)
    screen.explain("and its perplexity <> is exp of that sum", merged.perplexity)
    check_findings(screen, "pipeline_layers", shown=1)
    screen.all_explained()


def test_a_number_that_nothing_explains_fails() -> None:
    screen = Screen("float16, cuda:0, 1F1B, #4: 3 steps of 12.5 ms (2-4)")
    screen.explain("<> steps of <>", 3, 0.0125)
    with pytest.raises(AssertionError, match="'2-4'"):
        screen.all_explained()
    with pytest.raises(AssertionError, match="number 2 is"):
        screen.explain("<> steps of <>", 3, 0.01256)
