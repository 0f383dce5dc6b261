"""The overview: what it says of the known logs, and what it does not say where the log does not tell."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import trace_tables
from support.commands import DATA, EARLY
from support.field_logs import needs_corpus
from support.metrics_logs import by_hand
from support.paths import SHARED
from support.seeds import stored
from support.trace_tables import kernel

import perflog
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.job_members import UNKNOWN
from perflog.analysis.overview import Overview, overview
from perflog.analysis.overview.next_commands import _may_be_pooled, have_factors
from perflog.analysis.overview.parts import parts
from perflog.analysis.overview.reasons import bottleneck
from perflog.analysis.overview.run_figures import run_figures
from perflog.log import combined
from perflog.metrics import Options, Tables, steps, throughput
from perflog.output.presenters.diagnosis import screen as diagnosis_screen
from perflog.settings.run_settings import telling_settings

CAMPAIGNS = SHARED / "campaigns"
needs_campaigns = pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the folders of runs in ../shared/campaigns")


@cache
def seen_of(name: str) -> Overview:
    """The overview of one of the five logs."""
    return overview(stored(name), "<run>.txt")


def test_the_benchmark_by_number_of_experts() -> None:
    seen = seen_of("moe_layer")
    assert seen.what == "moe_layer, 4 runs x 100 steps, 4 ranks, cuda:0, float16"
    assert [(group.mark, dict(group.settings)) for group in seen.groups] == [
        (f"#{i}", {"num_local_experts": n}) for i, n in enumerate(("8", "16", "32", "64"), 1)
    ]
    assert [figure.name for figure in seen.figures] == ["step", "untimed", "TFLOP/s", "tokens/s"]
    assert [round(seen.change(i) or 0, 4) for i in range(4)] == [0, 0.0599, 0.1024, 0.3722]
    assert list(seen.reasons) == [
        (
            "Why #4 is slower than #1: the mean step takes 7.83 ms more, 71 % of it in untimed parts of "
            "moe_forward (2.84 ms -> 8.37 ms)."
        ),
        "Exposed wait and communication are unchanged (1.83 ms).",
        (
            "At best, with equal ranks the mean step of #4 would take 26.2 ms instead of 29.2 ms (-10 %); with no "
            "waits -6 %."
        ),
    ]
    assert seen.next[0] == "perflog compare '<run>.txt' --by num_local_experts"


def test_its_figures_are_those_of_the_metrics() -> None:
    log = stored("moe_layer")
    seen = overview(log)
    times = steps(log).query("of == 'step_time' and part == 'steady'").set_index("run")
    rates = throughput(log).query("part == 'steady'").set_index("run")
    step, _, tflops = seen.figures[:3]
    assert step.values == times["median_s"].to_dict()
    assert tflops.values == rates["tflops"].to_dict()
    for run, spread in step.spread.items():
        arm = (times["median_high_s"][run] - times["median_low_s"][run]) / 2
        assert spread == pytest.approx(arm / times["median_s"][run], rel=1e-12)


def test_a_sweep_compares_each_run_with_its_own_base() -> None:
    """Three models with three systems each: each model's runs are compared with its first system."""
    seen = seen_of("training_sweep")
    assert dict(seen.base) == {1: 0, 2: 0, 4: 3, 5: 3, 7: 6, 8: 6}
    assert [round(seen.change(i) or 0, 3) for i in (4, 7)] == [1.233, 3.107]
    assert list(seen.groups[0].settings) == ["model", "system"]


@pytest.mark.parametrize(
    ("lines", "is_compared"),
    [
        (
            ["step {} | reward 0.5 | took {}.1 s\n", "step {} | pass@1 0.3 | took 4{}.1 s\n"],
            False,
        ),  # trainer, evaluation
        (["step {} | reward 0.5 | took {}.1 s\n", "step {} | reward 0.5 | took 4{}.1 s\n"], True),
    ],
)
def test_programs_that_print_nothing_alike_are_not_compared(
    lines: list[str], is_compared: bool, tmp_path: Path
) -> None:
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.log").write_text("".join(line.format(step, step % 3) for step in range(1, 31)))
    assert bool(overview(perflog.read(tmp_path)).base) == is_compared


def test_a_profile_names_kernels_without_tensor_cores() -> None:
    seen = seen_of("nvprof")
    assert [figure.name for figure in seen.figures] == ["GPU work", "API calls", "GPU work/step"]
    assert seen.figures[2].values == {seen.groups[0].runs[0]: pytest.approx(1.0116, abs=1e-4)}  # 8.10, 0.999, 1.012 s
    assert list(seen.reasons) == [
        "Bottleneck: FP32 matrix products, 89 %: every gemm is volta_sgemm, no tensor cores.",
        "Largest kernel: volta_sgemm_128x64_tn, 1,200 calls x 4.09 ms, 44 %.",
    ]
    assert seen.parts[0].name == "gemm" and seen.parts[0].share == pytest.approx(0.885, abs=0.001)


@needs_corpus
@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("megatron/HaibaraAiChan__megatron-deepspeed-moe-bak__gpt-0.125B-gpus-4-MoE-64.log",
         "Bottleneck: backward_compute, 65 % of the step."),
        ("rocprof/shashankparsi__HIP_Programming__results.hip_stats.csv",
         "Bottleneck: memcpy, 62 % of the time of API calls."),
    ],
)  # fmt: skip
def test_the_largest_part_is_the_bottleneck(log: str, reason: str) -> None:
    assert reason in overview(perflog.read(SHARED / "corpus" / log)).reasons


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0] * 18 + [9.0, 5.0],  # (8 + 4) / 32
         "2 of 20 steady steps take over twice the median and cost 38 % of the time; the longest is step 18 with 9 s."),
        ([1.0] * 19 + [1.9], "Why it takes this long is not in the log: it times nothing inside a step."),
    ],
)  # fmt: skip
def test_steps_that_take_far_longer_are_named(values: list[float], reason: str) -> None:
    steps_of_run = [{"step": step, "step_time_s": time_s} for step, time_s in enumerate(values)]
    assert bottleneck(Tables(by_hand("steps", steps_of_run)), "r", Options()) == [reason]


def test_the_clock_tells_what_is_outside_of_the_steps() -> None:
    """40 steps of 1 s by lines that cover two each, in a run of 50 s."""
    lines = [{"step": step, "step_time_s": 1.0, "steps_averaged": 2} for step in range(2, 42, 2)]
    made = by_hand("steps", lines)
    made["runs"] = made["runs"].assign(elapsed_s=50.0)
    assert bottleneck(Tables(made), "r", Options()) == ["10 s of the total, 20 %, are outside of the steps."]
    every_other = made | {"steps": made["steps"].assign(steps_averaged=1)}  # what the other steps took is not known
    assert "outside" not in bottleneck(Tables(every_other), "r", Options())[0]


@needs_corpus
def test_a_bar_too_short_for_times_of_steps_tells_its_rate(tmp_path: Path) -> None:
    """Its whole seconds are too few for differences."""
    log = tmp_path / "run.txt"
    lines = (f" {i}%|#  | {i}/100 [00:{2 * i}<03:00,  2.0{i % 7}s/it, loss=1.{i}]\n" for i in range(10, 15))
    log.write_text("".join(lines))
    figures = {figure.name: figure.values for figure in run_figures(Tables(perflog.read(log)), Options())}
    assert "step" not in figures
    assert list(figures["smoothed_s_per_it"].values()) == [2.04]


def test_kernels_without_a_category_are_named() -> None:
    """Its table of unified memory counts bytes: there is no figure of 0 s."""
    log = perflog.read(SHARED / "corpus" / "nvprof" / "nanzifan__nvprof-result__profile-api-trace.csv")
    seen = overview(log)
    assert list(seen.reasons) == ["Bottleneck: kernel cuda_compute_flux, 6,000 calls x 50.4 us, 71 % of the GPU work."]
    assert [figure.name for figure in seen.figures] == ["GPU work", "API calls"]


def test_the_first_run_is_explained_where_it_is_the_slower_one() -> None:
    sweep = stored("training_sweep")
    fast, slow = (sweep.select(key.id) for key in sweep.run_keys if key.index in (7, 8))
    seen = overview(combined([slow, fast]))
    assert [group.mark for group in seen.groups] == ["#8", "#7"] and dict(seen.base) == {1: 0}
    assert seen.reasons[0].startswith(
        "Why #8 is slower than #7: the mean step takes 287 ms more, 54 % of it in forward"
    )


def test_a_pipeline_names_its_longest_stage() -> None:
    assert list(seen_of("pipeline_layers").reasons) == [
        "Bottleneck: stage 7 (forward) takes 2.3 times the mean stage.",
        (
            "Pipeline of 8 stages and 32 micro-batches, simulated with its stages as timed, the backward as twice the "
            "forward: 59.2 % idle under 1F1B, if that is its schedule; 56.5 % under ZB-V with the same memory, 34.6 % "
            "under DualPipe with two copies of the parameters, 57.6 % with 64 micro-batches of half the size."
        ),
        "At best, with equal stages the pipeline would take 118 ms instead of 237 ms (-50 %).",
    ]
    parts = {part.name: (round(part.seconds, 3), part.doubt) for part in seen_of("pipeline_layers").parts}
    model = "modelled from the forward of the layers alone"
    assert parts == {
        "unattributed": (1.383, None), "unequal stages": (0.119, model), "compute": (0.097, model),
        "pipeline ramp": (0.021, model),
    }  # fmt: skip


@pytest.mark.parametrize(("slow", "factor"), [(None, None), (2, "1.6")])
def test_stages_are_held_against_their_own_direction(slow: int | None, factor: str | None) -> None:
    """Backward takes twice as long as forward in all stages: that alone makes no stage a bottleneck."""
    layers = [
        {"step": step, "rank": stage, "stage": stage, "layer": str(stage), "direction": direction, "time_s": time_s}
        for step in range(6)
        for stage in range(4)
        for direction, time_s in (("forward", 0.1), ("backward", 0.4 if stage == slow else 0.2))
    ]
    reasons = list(bottleneck(Tables(by_hand("layers", layers, world=4)), "r", Options()))
    assert reasons == ([f"Bottleneck: stage 2 (backward) takes {factor} times the mean stage."] if factor else [])


@needs_corpus
def test_a_trace_names_what_the_gpu_waits_for() -> None:
    trace = SHARED / "corpus" / "torchtrace" / "facebookresearch__HolisticTraceAnalysis__sampled_rank-0.json.gz"
    seen = overview(perflog.read(trace))
    assert [(part.name, round(part.share, 2)) for part in seen.parts[:3]] == [
        ("idle", 0.55), ("exposed communication", 0.27), ("compute", 0.17),
    ]  # fmt: skip
    assert list(seen.reasons) == [
        (
            "Bottleneck: the host; if it were infinitely fast, the step would be at most 40 % shorter (with an "
            "infinitely fast device 0 %)."
        ),
        "The GPU idles 55 % of the time: 23 % host-bound, 32 % with work queued.",
        (
            "Largest collective: SendRecv, 10 calls x 39.6 ms; only 15 % of all communication is hidden; it may wait "
            "for ranks without a trace."
        ),
        "Largest kernel: split_embedding_backw…ta_per_row_1, 2 calls x 11.7 ms.",
        "On the critical path: host 100 % (operator 50 %, idle host 49 %).",
        (
            "GPU time by range: backward (autograd) 40 %, ## forward ## 31 %, ## optimizer ## 18 %, "
            "## sdd_preprocess_splits ## 6 %, ## sdd_preprocess_tensors ## 3 %."
        ),
        ("CUDA graphs would save at most 40 % of the time: the median launch takes 7 us, its work 20 us."),
        "Matrix products, convolutions and attention take 11 % of the GPU time and run at 24.3 TFLOP/s.",
    ]
    assert seen.what == "chrome_trace, 1 run x 2 steps (551-552), rank 0 of 128"
    assert [doubt.message for doubt in seen.doubts] == ["2 step times: neither warm-up nor scatter can be judged"]


def host_trace(path: Path, forward: float, optimizer: float) -> perflog.Log:
    """Two steps of 1 ms on a CPU: so many us in a forward with a nested range, and in an optimizer."""
    events: list[dict[str, Any]] = []
    for at, number in ((0, 1), (1000, 2)):
        for name, start, length in (
            (f"ProfilerStep#{number}", 0, 1000),
            ("forward", 10, forward),
            ("attention", 20, forward / 2),
            ("optimizer", 600, optimizer),
        ):
            event = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7, "ts": at + start}
            events.append(event | {"dur": length, "args": {}})
    events[4]["dur"] += optimizer - 100
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return perflog.read(path)


def test_without_a_device_the_ranges_of_the_host_say_where_the_steps_go(tmp_path: Path) -> None:
    seen = overview(host_trace(tmp_path / "a.json", 500, 100), "a.json")
    told = next(text for text in seen.reasons if text.startswith("Host time"))
    assert told == "Host time of the steps by range: forward 50 %, optimizer 10 %, (outside of ranges) 40 %."
    assert any(command.endswith("device_ranges") for command in seen.next)


def test_of_steps_without_a_range_inside_the_operators_are_told(tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 7, "ts": 0, "dur": 1000}
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 100, "dur": 500, "args": {}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [step | {"args": {}}, call]}))
    seen = overview(perflog.read(path), "steps.json")
    assert list(seen.reasons) == ["Operators of the host take 500 us: 100 % aten::mm (1 call)."]
    assert any(command.endswith("host_operators") for command in seen.next)


def test_of_two_traces_without_a_device_the_range_that_grew_is_named(tmp_path: Path) -> None:
    """Only the second step is longer, by what the optimizer takes more."""
    logs = [host_trace(tmp_path / "a.json", 500, 100), host_trace(tmp_path / "b.json", 500, 300)]
    told = [text.partition(": ")[2] for text in overview(combined(logs), "a.json b.json").reasons if "slower" in text]
    assert told == ["the mean step takes 100 us more: +200 us in optimizer (100 us -> 300 us), -100 us elsewhere."]


def test_the_shares_of_a_trace_are_those_of_its_bars() -> None:
    """A device that works 100 ns, and one that works 20 of 1,000 ns: of all their time they work 11 %."""
    events = [kernel(0, 100), kernel(0, 10, device=1), kernel(990, 1000, device=1)]
    tables = trace_tables.by_hand(events)
    (run,) = tables["runs"]["run"]
    (idle, compute, *_) = parts(tables, run, Options())
    assert (idle.name, round(idle.share, 2), round(compute.share, 2)) == ("idle", 0.89, 0.11)
    assert list(bottleneck(tables, run, Options())) == [
        "Bottleneck: idle GPU, 89 % of the time.",
        "The GPU idles 89 % of the time.",
        "Largest kernel: gemm, 3 calls x 40 ns.",
    ]


def test_the_parts_of_a_log_with_a_trace_and_a_table_are_those_of_the_trace() -> None:
    log = perflog.read(DATA / "rocprof.txt")
    seen = overview(log)
    assert {"trace", "GPU work"} <= {figure.name for figure in seen.figures}
    assert sum(part.share for part in seen.parts) == pytest.approx(1)
    assert seen.parts[0].name == "idle"


def test_the_columns_of_several_traces_are_shares_of_all_devices() -> None:
    """Of 1,100 ns of two devices 120 ns are work; a mean of their shares would say 51 %."""
    events = [
        event | {"run": run}
        for run in ("a", "b")
        for event in (kernel(0, 100), kernel(0, 10, device=1), kernel(990, 1000, device=1))
    ]
    figures = {figure.name: figure for figure in run_figures(trace_tables.by_hand(events), Options())}
    assert [*figures["compute"].values.values()] == pytest.approx([120 / 1100] * 2)
    assert [*figures["idle"].values.values()] == pytest.approx([980 / 1100] * 2)


@needs_corpus
def test_several_traces_have_their_shares_and_bottlenecks(tmp_path: Path) -> None:
    """Where no step is slower, each trace tells what holds it up."""
    name = "facebookresearch__HolisticTraceAnalysis__sampled_rank-{}.json.gz"
    for rank, side in enumerate(("base", "change")):
        (tmp_path / f"{side}.json.gz").write_bytes((SHARED / "corpus/torchtrace" / name.format(rank)).read_bytes())
    seen = overview(perflog.read(tmp_path / "base.json.gz", tmp_path / "change.json.gz"))
    assert [figure.name for figure in seen.figures] == ["step", "idle", "exposed comm", "compute"]
    for figure in seen.figures[1:]:
        assert figure.better is None
    sums = [sum(figure.values[run] for figure in seen.figures[1:]) for group in seen.groups for run in group.runs]
    assert all(0.99 < total <= 1 for total in sums)  # the rest are exposed copies
    first, second = seen.reasons
    assert first.startswith(
        "A: Bottleneck: the host; if it were infinitely fast, the step would be at most 40 % shorter"
    )
    assert second.startswith(
        "B: Bottleneck: the host; if it were infinitely fast, the step would be at most 34 % shorter"
    )


def test_runs_with_one_bottleneck_share_a_sentence(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(Path(EARLY).read_text() + f"{name}\n")
    (reason,) = overview(perflog.read(tmp_path)).reasons
    assert reason.startswith("A, B: ")


@needs_corpus
def test_a_printed_mfu_tells_the_work_at_the_peak() -> None:
    """MFU 40.3 % (median of the lines) of the mean step of 2.497 s; the rest is not known."""
    log = perflog.read(SHARED / "corpus" / "llmc" / "store__id55562335848__llmc_stdout_excerpt.md")
    work = {part.name: (round(part.share, 3), part.doubt) for part in overview(log).parts}
    assert work == {"unattributed": (0.597, None), "work at the peak": (0.403, "from the MFU that the log prints")}


def test_a_log_without_figures_asks_for_a_format(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("".join(Path(EARLY).read_text("utf-8").splitlines(keepends=True)[:9]))
    seen = overview(perflog.read(path), "run.txt")
    assert not seen.figures
    assert list(seen.next) == ["perflog formats suggest run.txt", "perflog show run.txt"]


def test_the_next_command_names_the_runs_as_they_were_found() -> None:
    seen = perflog.overview(perflog.find_runs("reference:training_sweep.txt"))
    assert seen.next[0] == "perflog compare reference:training_sweep.txt --by system"


def test_doubts_name_the_figures_that_they_are_about() -> None:
    named = {doubt.code: doubt.figures for doubt in seen_of("moe_layer").doubts}
    assert named["nominal-work"] == ("TFLOP/s", "MFU")
    assert named["time-subtracted"][0] == "step"
    assert named["no-rank"] == ()


@needs_campaigns
def test_a_folder_of_results_is_one_row_with_its_score() -> None:
    """Ten results of one system: 10.151 min is the mean without the best and the worst."""
    name = "MI355X_EPYC_9575F_pytorch"
    seen = overview(perflog.read(CAMPAIGNS / "mlperf_llama2_lora" / name), name)
    assert [len(group.runs) for group in seen.groups] == [10]
    score = f"Score, the mean without the fastest and the slowest run: {name} 10.151 min (10 success)."
    assert seen.reasons[0] == score


def test_a_run_with_more_samples_is_not_called_slow(tmp_path: Path) -> None:
    """Ten results of MLPerf of 2 samples a second, nine of 3,072 samples."""
    event = ':::MLLOG {{"time_ms": {}, "event_type": "{}", "key": "{}", "value": {}, "metadata": {}}}\n'
    for run in range(10):
        n, per_s = (3840, 2.0) if run == 7 else (3072, 2 + run / 1000)
        counted, end = f'{{"samples_count": {n}}}', 1_755_477_365_577 + int(1000 * n / per_s)
        lines = [event.format(1_755_477_365_577, "INTERVAL_START", "run_start", "null", "{}")]
        lines += event.format(end, "POINT_IN_TIME", "eval_accuracy", 0.92, counted)
        lines += event.format(end, "INTERVAL_END", "run_stop", "null", '{"status": "success"}')
        (tmp_path / f"result_{run}.txt").write_text("".join(lines))
    seen = overview(perflog.read(tmp_path))
    (far,) = (text for text in seen.reasons if "far worse" in text)
    assert "result_7.txt" in far and far.endswith(
        " s; not slower per sample: they need 3,840 samples, the median run 3,072."
    )
    (counts,) = (figure.values for figure in seen.figures if figure.name == "samples")
    assert sorted(counts.values()) == [3072.0] * 9 + [3840.0]


@needs_campaigns
def test_a_result_alone_goes_on_to_its_curves() -> None:
    """Its log has no steps, phases or kernels, but a curve of its evaluations."""
    path = min((CAMPAIGNS / "mlperf_llama2_lora" / "MI355X_EPYC_9575F_pytorch").glob("*.txt"))
    assert overview(perflog.read(path), "result.txt").next[0] == "perflog analyze result.txt curves"


def test_a_pair_of_nodes_that_is_far_slower_is_named(tmp_path: Path) -> None:
    """Twelve measurements of one collective: eleven near 13.5 GB/s, one at 5.8."""
    columns = "time   algbw   busbw #wrong"
    head = f"#       size         count      type   redop    root     {columns}     {columns}\n"
    units = "(us)  (GB/s)  (GB/s)"
    head += f"#        (B)    (elements)                               {units}            {units}\n"
    for pair in range(12):
        speed = 5.8 if pair == 7 else 13.5 + pair / 100
        rate = f"79536.4   {speed:5.2f}   {speed:5.2f}      0"
        row = f"  1073741824     268435456     float    none      -1  {rate}  {rate}\n"
        (tmp_path / f"node{pair:02}.log").write_text(f"# nThread 1 nGpus 1\n#\n{head}{row}")
    reasons = overview(perflog.read(tmp_path)).reasons
    (far,) = (text for text in reasons if "far worse" in text)
    assert far == "far worse than the median peak bus bw of 13.54 GB/s: node07.log 5.8 GB/s."


def test_an_overview_in_a_notebook() -> None:
    seen = seen_of("moe_layer")
    assert repr(seen).startswith("<perflog.Overview of <run>.txt: moe_layer, 4 runs x 100 steps")
    page = seen._repr_html_()
    assert "<run>" not in page and "71 % of it in untimed parts of moe_forward" in page and page.count("<tr") == 5
    assert "<td>21.29 ms ± 0.4 %</td><td>-</td>" in page and "<td>+37.2 %</td>" in page and "step !" in page
    table = seen.table()
    assert table["num_local_experts"].tolist() == ["8", "16", "32", "64"]
    assert table["step"].tolist() == list(seen.figures[0].values.values())


def test_settings_that_follow_from_others_tell_nothing() -> None:
    of_runs = [
        {"seed": str(i), "op": op, "redop": {"alltoall": "none", "sendrecv": "sum"}[op], "nodes": nodes}
        for i, (op, nodes) in enumerate([("alltoall", "2"), ("sendrecv", "2"), ("alltoall", "4"), ("sendrecv", "4")])
    ]
    assert telling_settings(of_runs) == ["op", "nodes"]


def test_values_that_nobody_can_rank_are_shown_where_there_is_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "what-if.json"
    log.write_text('{"tori": 2.5, "rem": 0.25, "began": 1700000000}')
    seen = overview(perflog.read(log))
    assert [(f.name, f.better, *f.values.values()) for f in seen.figures] == [("tori", None, 2.5), ("rem", None, 0.25)]
    assert seen.next[0].startswith("perflog formats suggest")


def test_a_result_that_is_printed_once_stands_before_series(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    lines = [f'{{"step": {step}, "accuracy": 0.{step}}}\n' for step in range(1, 9)]
    log.write_text("".join(lines) + '{"test_accuracy": 0.75}\n')
    seen = overview(perflog.read(log))
    assert [(f.name, *f.values.values()) for f in seen.figures] == [("test_accuracy", 0.75), ("accuracy", 0.8)]


@needs_campaigns
def test_the_slowdown_by_stragglers_and_its_stage() -> None:
    """Its authors: 2.1727 / 1.8433 = 1.179; stage 3 alone 1.2323."""
    seen = overview(perflog.read(CAMPAIGNS / "straggler" / "result-ST.json"))
    (slowdown,) = (figure for figure in seen.figures if figure.name == "blocking_slowdown")
    assert [round(value, 3) for value in slowdown.values.values()] == [round(2.1727 / 1.8433, 3)]
    assert "blocking_by_stage: stage 3 has the largest, 1.232; the next 0.998." in seen.reasons


def _losses(path: Path, *losses: float) -> None:
    path.write_text("".join(f'{{"step": {10 * k}, "val_loss": {x}}}\n' for k, x in enumerate(losses, 1)))


def test_the_target_of_the_reader_comes_first(tmp_path: Path) -> None:
    _losses(tmp_path / "a.jsonl", 3.5, 3.2798, 3.3)
    seen = overview(perflog.read(tmp_path / "a.jsonl"), targets={"val_loss": 3.28})
    assert seen.reasons[0] == "val_loss reaches 3.28 at step 20, with 3.2798."


def test_results_stand_before_what_configures_a_run(tmp_path: Path) -> None:
    path = tmp_path / "lab.jsonl"
    path.write_text(
        '{"args": {"warmup": 2}, "tp": 8, "batch_size": 4, "use_graph": true, "decode": 45.5, "prefill": 12}\n'
    )
    assert [figure.name for figure in overview(perflog.read(path), "lab.jsonl").figures] == [
        "decode", "prefill", "tp", "batch_size",
    ]  # fmt: skip


def test_times_that_steps_print_by_name_are_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    line = '{"step": %d, "loss": 2.5, "time_metrics/end_to_end(s)": 1.5, "time_metrics/data_loading(s)": 0.25}\n'
    path.write_text("".join(line % step for step in range(1, 9)))
    seen = overview(perflog.read(path), "metrics.jsonl")
    assert [(part.name, part.seconds) for part in seen.parts] == [
        ("untimed", 1.25),
        ("time_metrics_data_loading", 0.25),
    ]


def test_bandwidth_and_latency_between_two_processes(tmp_path: Path) -> None:
    """One bandwidth is printed, not that of a bus; a test of latency prints times alone."""
    log = tmp_path / "run.txt"
    rates = "".join(f"&&&& PERF put_bw___None___size__{1 << k}___BW {k}.5 +GB/sec\n" for k in range(3, 9))
    times = "".join(f"&&&& PERF put_latency___Warp___size__{1 << k}___latency {k}.5 -us\n" for k in range(3, 5))
    log.write_text(rates + times)
    seen = overview(perflog.read(log))
    assert [(f.name, *f.values.values()) for f in seen.figures] == [("peak bw", 8.5)]
    assert "put_bw___None: peak 8.5 GB/s at 256 B; it still rises at the largest message." in seen.reasons
    assert "put_latency___Warp: latency 3.5 us at 8 B, 4.5 us at 16 B." in seen.reasons
    log.write_text("&&&& PERF put_latency___Warp___size__8___latency 3.5 -us\n")
    seen = overview(perflog.read(log))
    assert [(f.name, *f.values.values()) for f in seen.figures] == [("latency", pytest.approx(3.5e-6))]
    assert "put_latency___Warp: latency 3.5 us at 8 B." in seen.reasons


def test_the_account_of_a_job_times_no_step_and_says_nothing_of_steps(tmp_path: Path) -> None:
    log = tmp_path / "seff.txt"
    log.write_text(
        "Job ID: 26948781\nCluster: graham\nState: COMPLETED (exit code 0)\nNodes: 2\nCores per node: 16\n"
        "CPU Utilized: 13-06:23:40\nCPU Efficiency: 96.40% of 13-18:17:52 core-walltime\n"
        "Job Wall-clock time: 20:38:37\nMemory Utilized: 37.02 GB\nMemory Efficiency: 29.61% of 125.00 GB\n"
    )
    seen = overview(perflog.read(log))
    assert {f.name: next(iter(f.values.values())) for f in seen.figures} == {
        "cpu_time": 1146220.0, "wall_time": 74317.0,
        "memory_used": pytest.approx(37.02 * 2**30), "memory_requested": 125 * 2**30,
    }  # fmt: skip
    assert seen.reasons == ["Job state in the scheduler's accounting: COMPLETED."]


def test_counters_alone_lead_to_their_table(tmp_path: Path) -> None:
    log = tmp_path / "smi.txt"
    log.write_text(
        "| NVIDIA-SMI 550.144.03             Driver Version: 550.144.03     CUDA Version: 12.4     |\n"
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:8D:00.0 Off |                    0 |\n"
        "| N/A   54C    P0            147W /  700W |    1521MiB /  81559MiB |     25%      Default |\n"
    )
    seen = overview(perflog.read(log), "smi.txt")
    assert list(seen.next) == ["perflog show smi.txt counters"]
    assert {f.name: next(iter(f.values.values())) for f in seen.figures}["power"] == 147


def test_a_file_of_values_beside_logs_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("step,loss\n" + "".join(f"{step},{9 / step}\n" for step in range(1, 30)))
    (tmp_path / "truth.json").write_text('{"restart": {"attempts": 2, "goodput": 0.36}}')
    seen = overview(perflog.read(tmp_path))
    assert [group.name for group in seen.groups] == ["run.csv"]
    assert seen.reasons[-1] == "Not counted as a run, since no metric uses its values: truth.json."
    beside = Diagnosis(("truth.json",), "no failure is reported", benchmark=UNKNOWN)
    told = list(diagnosis_screen([Diagnosis(("run.csv",), "no failure is reported"), beside]))
    assert told[-1] == "Not of the job: values of an unknown program: truth.json"


def test_factors_are_suggested_where_they_have_an_answer() -> None:
    """Metric `factors` compares runs of one program that differ in settings."""
    sweep = Tables(stored("training_sweep"))
    assert have_factors(["model", "batch"], sweep)
    assert not have_factors(["model", "format"], sweep)
    assert not have_factors(["model", "batch"], Tables(stored("nvprof")))


def test_versions_and_sizes_are_no_repeats() -> None:
    answers = (None, "history", "scaling")
    assert [_may_be_pooled(["batch"], answer) for answer in answers] == [True, False, False]
    assert not _may_be_pooled(["batch", "model"], None) and not _may_be_pooled(["format"], None)


def test_the_speed_comes_first_among_last_values(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("".join(f"step {k}: loss = 2.5, cache = {k}.5 MB, speed = 12{k} frames/s\n" for k in (1, 2, 3)))
    assert [figure.name for figure in overview(perflog.read(log)).figures][:2] == ["speed", "loss"]
