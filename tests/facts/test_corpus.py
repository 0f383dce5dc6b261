"""Real logs of other people: the formats each is in, and the reason for every line that stays unread.

They lie beside the repository. Where they are not, the cut-down logs in tests/data say the same of those that are read
to the last line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus, stored
from support.reading import DATA, Reading, sample
from support.reading import read as read_bytes
from support.seeds import path

from perflog.formats.registry import get
from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.source import Source
from perflog.tables.sink import MemorySink


@dataclass(frozen=True)
class Case:
    """The formats that a log is in; why lines of it stay unread: pattern of their text -> reason."""

    formats: frozenset[str]
    unread: dict[str, str]


def case(*formats: str, unread: dict[str, str] | None = None) -> Case:
    return Case(frozenset(formats), unread or {})


MEASURED = re.compile(
    r"elapsed time per iteration|forward-compute|_microstep:|\btps: |ms/step|step_time|CurrSamplesPerSec"
    r"|\| loss |:::MLLOG|DLLL \{|\bbusbw\b.*[0-9]\.[0-9]|cuda[A-Z]\w+\"?,?$"
)
"""What no unread line may hold, whatever the reason: a measured figure."""

SHELL = {r"\+ .*": "xtrace of a shell"}
MARKDOWN = {r"#+ .*|```\w*|> .*": "Markdown around the log"}
SETUP = "set-up, before anything is measured"

CASES: dict[str, Case] = {
    "moe/WongHuLin__CCFuser__fast_moe_pcie.txt": case("moe_layer"),
    "megatron/HaibaraAiChan__megatron-deepspeed-moe-bak__gpt-0.125B-gpus-4-MoE-64.log": case(
        "deepspeed",
        "megatron",
        unread={
            r"[\w ]+ \.{2,} .*": "report of DeepSpeed's environment, beside what its format reads of it",
            r"\*+ Git info .*": "commit of the program",
            r" *[>\w].*": SETUP + ": datasets, tokenizer, kernels that are built",
            r"\[20\d\d-.* \[(INFO|WARNING)\] \[(logging|config|engine)\.py:.*": SETUP + ": DeepSpeed's own",
            r" *(\"\w+\": (?![-0-9]).*|[{}],? *)": "DeepSpeed's configuration, printed as JSON over many lines",
        },
    ),
    "deepspeed/OAfzal__LLaVA-parallelism__flops_profiler.txt": case("deepspeed_profile"),
    "deepspeed/store__id20196590859__wall_clock_breakdown_excerpt.txt": case("deepspeed", "megatron"),
    "dllogger/gkebe__EventBERT__dllogger.json": case("dllogger"),
    "hftrainer/AAssets__Qwen3-0.6B-Alpaca-LoRA__train_tail.log": case(
        "hf_trainer", unread={r"[^\x00-\x7f]+.*": "the program says that it has ended"}
    ),
    "llmc/ChenZihua-cn__nanoGPT__train_excerpt.log": case(
        "nanogpt", unread={r"  scaler = .*": "the line of source behind a Python warning"}
    ),
    "llmc/store__id55562335848__llmc_stdout_excerpt.md": case("llmc", unread=MARKDOWN),
    "mllog/mlcommons__training_results_v4.0__supermicro_ssd_result_1_torn.txt": case(
        "coco",
        "metric_logger",
        "mlperf",
        unread=SHELL
        | {
            r"(Beginning trial|vm\.drop|STARTING|ENDING|running benchmark|Run time).*": "the launcher",
            r"(from |mllog).*": "source of a script that the launcher runs",
            r"Namespace\(.*": "more arguments than a pattern can hold",
            r"(Getting|Creating|CUDA graph|Model eval|Running|Time:).*": SETUP,
            r"Downloading: .*| *\d+% .*": "a download and its bar",
            r"  (return|torch\.).*": "the line of source behind a Python warning",
            r"(Corrupt JPEG|WARNING:root:DALI).*": "warnings of the data loader",
            r"(Loading|Evaluate|Accumulating|IoU).*": "headings of the COCO evaluation",
        },
    ),
    "nccl/mlcommons__training_results_v4.0__smc_bert_nccl.log": case(
        "nccl_tests", unread={r"\[.*\] PMIX ERROR: .*": "an error of the launcher, to be told"}
    ),
    "nsys/zx3xyy__assignment2-systems__nsys_stats.txt": case("nsys"),
    "nvprof/brian-team__brian2cuda__cuda8_old_Vogels.log": case("nvprof"),
    "nvprof/nanzifan__nvprof-result__profile-api-trace.csv": case("nvprof"),
    "nvprof/samhachem99__CS533_Final_Project__nvprof_gpu_output.txt": case("nvprof"),
    "nvprof/samhachem99__CS533_Final_Project__nvprof_output.txt": case("nvprof"),
    "rocprof/shashankparsi__HIP_Programming__results.hip_stats.csv": case("rocprof"),
    "torchtitan/auroraGPT-ANL__torchtitan__aurora.md": case(
        "torchtitan",
        "ezpz",
        "blendcorpus",
        unread={r"(?!.*\bstep: +\d+ +loss: ).*": "a Markdown page: launcher, set-up and prose around it"},
    ),
    "torchtrace/chenwg2000__nanogpt-fp8-mxfp8__profile_output_key_averages.txt": case(
        "torch_profiler",
        "meters",
        "statistics",
        unread={
            r"Per .* Breakdown .*": "headings",
            r"  Estimated iter time .*|    (mean|min |max ) = .*": "its estimate of a step",
            r"  (Warmup step|Profiled step|Profiling).*": "the program's own step lines",
            r"[\w. ]+ = .*|561\.0M .*|Training DataLoader.*|  \S.*: \(?\d.*": SETUP,
            r"[=-]+|PHASE .*|Top \d+ .*|Profiling complete\.": "headings",
            r"If it is .*|This call .*|  File .*|    if .*|  (torch\.|_warn).*": "what stands behind a Python warning",
        },
    ),
    "torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-0.json.gz": case("chrome_trace"),
    "torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-1.json.gz": case("chrome_trace"),
    "torchtrace/AMD-AGI__TraceLens__timesformer_h100.json.gz": case("chrome_trace"),
    "torchtrace/AMD-AGI__TraceLens__xdit_sd3.5.json.gz": case("chrome_trace"),
    "torchtrace/AMD-AGI__TraceLens__sglang_decode.json.gz": case("chrome_trace"),
    "torchtrace/deepseek-ai__profile-data__train.json.gz": case("chrome_trace"),
    "torchtrace/facebookresearch__HolisticTraceAnalysis__trace_diff_control.json.gz": case("chrome_trace"),
    "torchtrace/facebookresearch__HolisticTraceAnalysis__mtia_inference.json.gz": case("chrome_trace"),
    "nsys/p4arth__cuda-perf-sandbox__report1.sqlite": case("nsys_sqlite"),
}
CUT_DOWNS = {  # of tests/data: the real log that each was cut from, or one of the same formats
    "nsys_2019": "nsys/zx3xyy__assignment2-systems__nsys_stats.txt",
    "nsys_stats": "nsys/zx3xyy__assignment2-systems__nsys_stats.txt",
    "nvprof_csv": "nvprof/nanzifan__nvprof-result__profile-api-trace.csv",
    "nvprof_gpu_trace": "nvprof/samhachem99__CS533_Final_Project__nvprof_gpu_output.txt",
    "rocprof": "rocprof/shashankparsi__HIP_Programming__results.hip_stats.csv",
    "torch_profiler": "torchtrace/chenwg2000__nanogpt-fp8-mxfp8__profile_output_key_averages.txt",
    "field/deepspeed": "deepspeed/store__id20196590859__wall_clock_breakdown_excerpt.txt",
    "field/deepspeed_profile": "deepspeed/OAfzal__LLaVA-parallelism__flops_profiler.txt",
    "field/dllogger": "dllogger/gkebe__EventBERT__dllogger.json",
    "field/hf_trainer": "hftrainer/AAssets__Qwen3-0.6B-Alpaca-LoRA__train_tail.log",
    "field/llmc": "llmc/store__id55562335848__llmc_stdout_excerpt.md",
    "field/megatron": "megatron/HaibaraAiChan__megatron-deepspeed-moe-bak__gpt-0.125B-gpus-4-MoE-64.log",
    "field/mlperf": "mllog/mlcommons__training_results_v4.0__supermicro_ssd_result_1_torn.txt",
    "field/nanogpt": "llmc/ChenZihua-cn__nanoGPT__train_excerpt.log",
    "field/nccl_tests": "nccl/mlcommons__training_results_v4.0__smc_bert_nccl.log",
    "field/tutel": "moe/WongHuLin__CCFuser__fast_moe_pcie.txt",
}
OF_SEEDS = {
    "moe_layer": "moe_layer",
    "moe_layer_early": "moe_layer",
    "training_sweep": "training_sweep",
    "nvprof": "nvprof",
    "pipeline_layers": "pipeline_layers",
}


@cache
def read(path: Path) -> Reading:
    kept = MemorySink()
    return Reading(ingest(Source(path.name, str(path)), kept.reset), kept)


TRACES = [name for name in CASES if name.endswith(".json.gz")]
IN_ANY_LOG = {"bars"}  # the corpus names the programs of each log; a progress bar may be beside them


@needs_corpus
def test_every_file_has_its_case() -> None:
    there = {str(p.relative_to(CORPUS)) for p in CORPUS.rglob("*") if p.is_file()} - {"index.tsv"}
    assert there == set(CASES)


@needs_corpus
@pytest.mark.parametrize("name", [name for name in CASES if name not in TRACES])
def test_the_formats_of_a_real_log(name: str) -> None:
    got = read(CORPUS / name)
    assert set(got.done.formats) - IN_ANY_LOG == CASES[name].formats
    assert got.balances()


@needs_corpus
@pytest.mark.parametrize("name", [name for name in CASES if name not in TRACES])
def test_every_unread_line_has_a_reason(name: str) -> None:
    unread_lines_have_reasons(read(CORPUS / name).rows("lines"), CASES[name])


@needs_corpus
@pytest.mark.parametrize("name", TRACES)
def test_a_real_trace_has_no_event_that_is_unread_without_a_reason(name: str) -> None:
    """As it is stored: other tests take it from there too."""
    log = stored(CORPUS / name)
    assert set(log.arrow("runs")["format"].to_pylist()) == CASES[name].formats
    lines = log.arrow("lines").to_pylist()
    assert lines
    unread_lines_have_reasons(lines, CASES[name])


@pytest.mark.parametrize("name", CUT_DOWNS)
def test_cut_downs_have_the_formats_and_the_reasons_of_their_logs(name: str) -> None:
    case, got = CASES[CUT_DOWNS[name]], read_bytes((DATA / f"{name}.txt").read_bytes())
    left_out = {name for name in case.formats if name == "coco" or get(name).generic}  # no lines of theirs are in them
    assert set(got.done.formats) - IN_ANY_LOG == case.formats - left_out
    assert got.balances()
    unread_lines_have_reasons(got.rows("lines"), case)


def unread_lines_have_reasons(lines: Sequence[Mapping[str, Any]], case: Case) -> None:
    reasons = [re.compile(pattern) for pattern in case.unread]
    for row in lines:
        if row["status"] == "unread":
            text = row["sample"]
            assert any(r.fullmatch(text) for r in reasons), (
                f"line {row['first_line']} is unread without a reason: {text[:120]}"
            )
            assert not MEASURED.search(text), f"line {row['first_line']} holds a figure: {text[:120]}"


@pytest.mark.parametrize("name", OF_SEEDS)
def test_the_five_logs_are_read_whole(name: str) -> None:
    got = read(path(name))
    assert got.done.formats == [OF_SEEDS[name]]
    assert got.done.lines["unread"] == 0


@pytest.mark.parametrize("name", OF_SEEDS)
def test_the_same_of_their_cut_down_forms(name: str) -> None:
    got = read_bytes(sample(name))
    assert got.done.formats == [OF_SEEDS[name]]
    assert got.done.lines["unread"] == 0


SHARES = {  # of the figures of a log that are unread: the others are below 1 %
    "torchtrace/chenwg2000__nanogpt-fp8-mxfp8__profile_output_key_averages.txt": 0.07,  # settings of a program
}


@needs_corpus
@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith((".gz", ".sqlite"))])
def test_few_figures_are_unread(name: str) -> None:
    figures = read(CORPUS / name).done.figures
    assert figures["total"] == figures["stored"] + figures["dropped"] + figures["unread"]
    assert figures["unread"] < SHARES.get(name, 0.01) * figures["total"]
