"""Questions whose answers are known, each asked in at most two calls of the tools of `perflog mcp`.

The tools are called here, as the process does that reads logs for the server; `test_mcp.py` asks over the server.

The answers are those that the authors of the data state, or that were computed from the raw files by other programs:
`README.md` and `truth.json` of the campaigns, the index of the corpus, the facts about the seeds. The questions about
what ships with the repository always run. Those about large folders are answered in `analysis/test_campaigns.py` and
`metrics/test_scaling.py`, which read each folder once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support.brief_answers import checked_lines
from support.paths import SHARED, TESTS

from perflog.mcp.answers import Answers as Tools
from perflog.mcp.confinement import Confinement

CAMPAIGNS = SHARED / "campaigns"
ANSWERS: dict[tuple[str, str], dict[str, Any]] = {}
DEFAULTS: dict[str, dict[str, Any]] = {
    "overview": {"rows": 20}, "diagnose": {"rows": 5}, "compare": {"parts": [], "rows": 20, "by": []},
    "metrics": {}, "query": {"rows": 100}, "lines": {},
}  # fmt: skip
"""What the server passes where a call leaves it out."""
HERE = (CAMPAIGNS / "README.md").is_file()
TRUTH: dict[str, Any] = json.loads((CAMPAIGNS / "jobs" / "truth.json").read_text()) if HERE else {}

Call = tuple[str, dict[str, Any]]
Answers = list[dict[str, Any]]


class Question(NamedTuple):
    """A question, the calls that answer it, and what their answers have to say: a pattern of the brief, or a check."""

    text: str
    calls: list[Call]
    said: str | Callable[[Answers], bool]


def overview(run: str, *parts: str) -> Call:
    return "overview", {"runs": [run], "parts": list(parts)}


def diagnose(run: str) -> Call:
    return "diagnose", {"runs": [run]}


def compare(*sides: str, **more: Any) -> Call:
    return "compare", {"sides": list(sides), **more}


def metric(name: str, run: str, rows: int = 100) -> Call:
    return "metrics", {"runs": [run], "metric": name, "rows": rows}


def query(sql: str, run: str) -> Call:
    return "query", {"sql": sql, "runs": [run]}


def rows(answers: Answers, place: int = 0, **where: Any) -> list[dict[str, Any]]:
    return [row for row in answers[place]["rows"] if all(row.get(k) == v for k, v in where.items())]


def close(value: float, expected: float, to: float = 0.005) -> bool:
    return bool(abs(value / expected - 1) <= to)


def accused(kind: str, rank: int | None) -> Callable[[Answers], bool]:
    """The job has one verdict: this kind, and this rank, or nobody."""

    def check(answers: Answers) -> bool:
        (job,) = answers[0]["jobs"]
        ranks = [culprit.get("rank") for culprit in job["culprits"]]
        return bool(re.search(kind, f"{job['kind']} {job['verdict']}", re.IGNORECASE)) and ranks == (
            [] if rank is None else [rank]
        )

    return check


JOBS = {
    "ends_by_oom": "memory", "ends_by_xid": "GPU fault", "ends_by_exception": "exception|Error", "ends_by_nan": "NaN",
    "ends_by_preempted": "preemption", "ends_by_time_limit": "time limit", "ends_by_hang": "timed out",
    "ends_by_host_oom": "host out of memory",
}  # fmt: skip
OF_JOBS = [
    Question(
        f"What ended {name}, and which rank was first?",
        [diagnose(f"jobs/{name}.log")],
        accused(kind, TRUTH[name]["rank"]),
    )
    for name, kind in JOBS.items()
    if TRUTH
]
TRACES = "AMD-AGI__TraceLens__"
QUESTIONS = [
    *OF_JOBS,
    Question("Which rank ended the first attempt of the job?", [diagnose("jobs/restart.log")],
             accused("collective_timeout", 3)),
    Question("What is its goodput?", [metric("goodput", "jobs/restart.log")],
             lambda a: close(a[0]["rows"][0]["goodput"], TRUTH["restart"]["goodput"], 0.002)),
    Question("How many steps were done again?", [overview("jobs/restart.log")], r"25 done again"),
    Question("Since which step is it slower?", [overview("jobs/restart.log")], r"step 221 .*\+55\.\d %"),
    Question("How long is a step, and how many are there?", [overview("jobs/mixed_hf_deepspeed.log")],
             r"1 run x 100 steps(?s:.*)step 2\.5 s"),
    Question("Which ranks hold up the job after the GPU error?", [diagnose("flight_recorder/gpu_error_2nd")],
             r"ranks 9, 14 hold up the others"),
    Question("Which ranks hold up the job after the lock?", [diagnose("flight_recorder/lock_gil_2nd")],
             r"ranks 10, 15 hold up the others"),
    Question("How much do stragglers cost?", [metric("whatif", "straggler/trace-ST.parquet")],
             lambda a: close(rows(a, of="job")[0]["slowdown"], 1.179, 0.001)),
    Question("Which stage is at fault?", [overview("straggler/trace-ST.parquet")], r"Stage 3 is at fault"),
    Question("Which rank dispatches slowly?", [overview("shapes_2026/deepep_ll.log")],
             r"Rank 5 of 8 is an outlier: .*\(0\.39 times\)"),
    Question("How fast does nanochat train?", [overview("shapes_2026/nanochat.log")],
             r"step 989 ms .*MFU 74\.1 %, tokens/s 529,[89]"),
    Question("Can its MFU be trusted?", [overview("shapes_2026/primerl.log")],
             r"Doubt: .*printed MFU is up to 33[78] % on 60 lines, steps 0 to 59"),
    Question("Who ran out of memory?", [diagnose("shapes_2026/slurm_oom.log")], r"task 1 \(node018, GPU 3\)"),
    Question("How much of the step is the GPU busy?", [overview(f"torchtrace/{TRACES}timesformer_h100.json.gz")],
             r"step ! 382\.5 ms(?s:.*)idle 58\.6 %"),
    Question("And in decoding?", [overview(f"torchtrace/{TRACES}sglang_decode.json.gz")],
             r"trace 473\.7 ms(?s:.*)idle 97\.9 %"),
    Question("Does the host hold up DeepSeek?", [overview("torchtrace/deepseek-ai__profile-data__train.json.gz")],
             r"Bottleneck: the device"),
    Question("Which bus bandwidth do 8 H100 reach?",
             [overview("nccl/mlcommons__training_results_v4.0__smc_bert_nccl.log")],
             r"peak bus bw 457\.8 GB/s, mean bus bw 382 GB/s"),
    Question("How long does the GPU work?", [overview("nvprof/nanzifan__nvprof-result__profile-api-trace.csv")],
             r"GPU work 427\.4 ms"),
    Question("How long are the phases of a step?",
             [overview("deepspeed/OAfzal__LLaVA-parallelism__flops_profiler.txt")],
             r"backward 42\.4 % \(459 ms\), forward 34\.5 % \(372 ms\), optimizer 23\.1 % \(250 ms\)"),
    Question("How many kernels run, and how long?",
             [query("select count(*), sum(duration_ns) from events where kind = 'kernel'",
                    "nsys/p4arth__cuda-perf-sandbox__report1.sqlite")],
             lambda a: a[0]["rows"] == [[1, 38912]]),
    Question("Does the loss stay finite?", [overview("llmc")], r"train_excerpt\.log:44: loss nan since step 425"),
    Question("May the change be merged, whose loss is NaN?", [compare("gates/main", "gates/nanl")],
             r"Not the same work: val_loss nan since step 300"),
    Question("Is the run that crashed an improvement?", [compare("gates/main", "gates/crash")],
             lambda a: "improvement" not in a[0]["verdict"] and "step 180 of 300" in a[0]["brief"][0]),
    Question("May 36 TFLOP/s be compared with other runs?", [overview("001_29816c293d78207d.txt", "doubts")],
             lambda a: [d["code"] for d in a[0]["doubts"] if "TFLOP/s" in d["figures"]] == ["backward-short"]),
    Question("How much slower are 64 experts than 8?", [overview("000_ca1fcef3d5de366d.txt")],
             r"step ! 21\.29 ms(?s:.*)step ! 29\.22 ms .*\+37\.2 % vs #1"),
]  # fmt: skip

OWN = [
    Question("Which number of experts is slowest, and why?", [overview("reference:moe_layer.txt")],
             r"#4 \(num_local_experts 64\): step ! 29\.22 ms(?s:.*)Why #4 is slower than #1: .* takes 7\.83 ms more"),
    Question("How sure is it?",
             [compare("reference:moe_layer.txt", by=["num_local_experts"], base="8", parts=["rows"])],
             lambda a: rows(a, metric="step_time", statistic="median", side="64")[0]["change_low"] > 0.3),
    Question("What takes the time of the GPU?", [overview("reference:nvprof.txt")], r"gemm 88\.5 %"),
    Question("Which stage holds up the pipeline?", [overview("reference:pipeline_layers.txt")], r"Bottleneck: stage 7"),
    Question("What is the mean step?", [query("select avg(step_time_s) from steps", "reference:moe_layer.txt#1")],
             lambda a: close(a[0]["rows"][0][0], 0.02152, 0.001)),
    Question("What is on the line of the first step?",
             [query("select min(line) from steps where step = 0", "moe_layer.txt"),
              ("lines", {"log": "moe_layer.txt", "line": 86, "before": 0, "after": 0})],
             lambda a: a[0]["rows"] == [[86]] and a[1]["lines"][0]["text"].startswith("STEP-0: ")),
]  # fmt: skip


def asked_once(tools: Tools, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call, as JSON has it. Several questions make the same call."""
    key = tool, json.dumps(arguments)
    if key not in ANSWERS:
        ANSWERS[key] = json.loads(json.dumps(tools.call(tool, DEFAULTS[tool] | arguments)))
    return ANSWERS[key]


def check(question: Question, tools: Tools) -> None:
    assert len(question.calls) <= 2
    answers = [asked_once(tools, *call) for call in question.calls]
    brief = "\n".join(line for answer in answers for line in checked_lines("\n".join(answer.get("brief", []))))
    assert re.search(question.said, brief) if isinstance(question.said, str) else question.said(answers), brief


@pytest.fixture(scope="module")
def tools() -> Tools:
    folders = [TESTS / "data", *([CAMPAIGNS, SHARED / "corpus", SHARED / "seeds"] if HERE else [])]
    return Tools(Confinement(list(map(str, folders))))


@pytest.mark.parametrize("question", OWN, ids=lambda question: question.text[:40])
def test_questions_about_the_samples(question: Question, tools: Tools) -> None:
    check(question, tools)


@pytest.mark.skipif(not HERE, reason="needs the campaigns in ../shared")
@pytest.mark.parametrize(
    "question",
    [pytest.param(q, marks=() if i % 7 == 0 else pytest.mark.slow, id=q.text[:40]) for i, q in enumerate(QUESTIONS)],
)
def test_questions_about_real_runs(question: Question, tools: Tools) -> None:
    check(question, tools)
