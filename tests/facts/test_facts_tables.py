"""What FACTS.md says about the sweep (002), the nvprof summary (003) and the pipeline log (004) is in the tables."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from statistics import median
from typing import Any

import numpy as np
from support.seeds import MS, hits, lines, log, rows, table

Row = dict[str, Any]

# --- 002: the sweep ---------------------------------------------------------------------------------------------------

SYSTEMS, MODELS = ("naive", "fastermoe", "mix_moe"), {"gpt2": 16, "bert": 16, "transformer-xl": 64}
LABELS = [f"{system} {model} {experts}" for model, experts in MODELS.items() for system in SYSTEMS]
STEP = r"STEP-(\d+): step_time = (\S+) ms, foward_time = (\S+), backward_time = (\S+)"
PRINTOUTS = {1: (13, 41), 2: (146, 174), 3: (281, 309)}


def test_sweep_has_nine_labelled_runs() -> None:
    found = table("training_sweep", "runs")
    assert [r["label"] for r in found] == LABELS
    assert [r["model"] for r in found] == [label.split()[1] for label in LABELS]
    assert [r["process"] for r in found] == [1, 1, 1, 2, 2, 2, 3, 4, 5]
    starts = [h.line for h in hits("training_sweep", r"local_rank \d")]
    assert starts[::4] == [1, 414, 744, 858, 972]
    assert [r["first_line"] for r in found if r["first_line"] in starts] == starts[::4]
    # The shared-memory exchange really ran in two runs only.
    assert [r["run"] for r in found if "nvshmem_ranks" in json.loads(r["config"])] == [6, 9]


def test_sweep_world_size() -> None:
    """A process start says it for all runs of the process; runs 2, 3, 5 and 6 print it nowhere."""
    assert [r["world_size"] for r in table("training_sweep", "runs")] == [4] * 9


def test_sweep_printouts_of_the_gpt2_runs_are_one_dense_model() -> None:
    text = lines("training_sweep")
    found = {r["run"]: r["printout"] for r in table("training_sweep", "runs")}
    for run, (first, last) in PRINTOUTS.items():
        assert found[run].split("\n") == text[first - 1 : last]
    assert found[1] == found[2] == found[3]
    assert "12 x GPT2Block" in found[1] and "MLP" in found[1] and "MoE" not in found[1]
    assert {found[run] for run in range(4, 10)} == {None}


def test_sweep_steps_are_those_printed() -> None:
    want = [(h.line, int(h.groups[0]), *(float(v) * MS for v in h.groups[1:])) for h in hits("training_sweep", STEP)]
    found = table("training_sweep", "steps")
    columns = ("line", "step", "step_time_s", "forward_s", "backward_s")
    assert [tuple(r[c] for c in columns) for r in found] == want
    assert [(r["run"], r["step"]) for r in found] == [(run, step) for run in range(1, 10) for step in range(100)]
    assert {r["tflops"] for r in found} == {None}


def test_sweep_summaries_are_the_mean_of_the_last_sixty_steps() -> None:
    pattern = r" (\S+) (\S+) (\d+) \[Summary\] Average synchronized step_time = (\S+) ms,"
    printed = [(h.line, " ".join(h.groups[:3]), float(h.groups[3])) for h in hits("training_sweep", pattern)]
    found = table("training_sweep", "summaries")
    assert [(r["line"], LABELS[r["run"] - 1], r["value"]) for r in found] == [(n, k, v * MS) for n, k, v in printed]
    assert {(r["key"], r["window_first"], r["window_last"], r["window_fit"]) for r in found} == {
        ("step_time", 40, 99, "exact")
    }
    steps = [float(h.groups[1]) for h in hits("training_sweep", STEP)]
    for k, (_, _, value) in enumerate(printed):
        total = 0.0
        for step in steps[100 * k + 40 : 100 * k + 100]:
            total += float(np.float32(step))
        assert total / 60 == value
    assert [round(r["value"] / MS, 2) for r in found[:3]] == [263.90, 263.32, 263.70]


def test_sweep_what_the_models_time() -> None:
    """gpt2 leaves the loss out of both parts; the others' backward begins where forward ends."""
    first = {}
    for run, label in enumerate(LABELS, 1):
        found = rows("training_sweep", "steps", run=run)
        gaps = [(r["step_time_s"] - r["forward_s"] - r["backward_s"]) / MS for r in found]
        low, high = (2.95, 5.35) if "gpt2" in label else (0.0105, 0.0335)
        assert low <= min(gaps) and max(gaps) <= high
        first[label] = round(found[0]["step_time_s"] / MS, 1)
    assert [first[f"{s} gpt2 16"] for s in SYSTEMS] == [1110.4, 263.8, 308.8]
    assert all(first[f"{s} bert 16"] > 2 * median(times_of(f"{s} bert 16")) for s in SYSTEMS)  # cold, all three


def times_of(label: str) -> list[float]:
    return [r["step_time_s"] / MS for r in rows("training_sweep", "steps", run=LABELS.index(label) + 1)]


# --- 003: nvprof ------------------------------------------------------------------------------------------------------

CATEGORY = r" *(GPU activities|API calls|Range):(.*)"
ROW = (
    r" +([\d.]+)% +([\d.]+)(ns|us|ms|s) +(\d+) +([\d.]+)(ns|us|ms|s) +([\d.]+)(ns|us|ms|s) +([\d.]+)(ns|us|ms|s)  (.*)"
)
UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
SECTIONS = """ncclAllReduce 1/1/1, ncclCommInitRank 1/2/2, InitOpt 1/1/1, Train step 0 1/30/6, Train step 1 1/29/6,
Train step 2 1/29/6, attention_backward 1/6/1, attention_forward 1/5/1, classifier_and_loss 1/20/6,
encoder_backward 1/3/2, encoder_forward 1/1/1, fused_classifier 1/1/1, gelu_backward_inplace 1/1/1, gelu_forward 1/1/1,
gpt2_backward_and_reduce 1/20/6, gpt2_calculate_grad_norm 1/4/3, gpt2_forward 1/12/3, gpt2_update 1/3/2,
layernorm_backward 1/2/2, layernorm_forward 1/1/1, matmul_backward 1/6/2, matmul_cublaslt 1/7/2, validation 1/14/4"""


def nvprof_rows() -> list[Row]:
    """The table rows of the text, each with the titles over it."""
    out: list[Row] = []
    over: Row = {"section": 0, "report": None, "domain": None, "range": None, "category": None}
    for number, text in enumerate(lines("nvprof"), 1):
        if title := re.fullmatch(r"==3481340== (.* result):", text):
            over |= {"report": title[1]}
        elif title := re.fullmatch(r'==3481340== +(Domain|Range) "(.*)"', text):
            over |= {title[1].lower(): title[2]}
        elif text.lstrip().startswith("Type  Time(%)"):
            over |= {"section": over["section"] + 1}
        else:
            if title := re.fullmatch(CATEGORY, text):
                over |= {"category": title[1]}
                text = f" {title[2]}"
            if m := re.fullmatch(ROW, text):
                durations = [float(m[k]) * UNIT[m[k + 1]] for k in (2, 5, 7, 9)]
                out.append({
                    **over, "line": number, "share": float(m[1]) * 0.01, "calls": int(m[4]), "name": m[11],
                    **dict(zip(("time_s", "avg_s", "min_s", "max_s"), durations, strict=True)),
                })  # fmt: skip
    return out


def kernels(**where: Any) -> list[Row]:
    return rows("nvprof", "kernels", **where)


def test_nvprof_rows_are_those_printed() -> None:
    want = nvprof_rows()
    named = {name for row in want for name in row} | {"thread"}  # a column that the summary does not print is null
    want = [row | {"thread": "<unnamed>" if row["report"] == "NVTX result" else None} for row in want]
    rows = [{k: v for k, v in r.items() if k not in ("run", "part", "kind")} for r in kernels()]
    found = [{k: v for k, v in r.items() if k in named or v is not None} for r in rows]
    assert len(found) == len(want) == 616
    assert [(f, w) for f, w in zip(found, want, strict=True) if f != w] == []


def test_nvprof_kinds() -> None:
    def kind(r: Row) -> str:
        if r["category"] != "GPU activities":
            return "api" if r["category"] == "API calls" else "range"
        return {"[CUDA memcpy": "memcpy", "[CUDA memset": "memset"}.get(r["name"][:12], "kernel")

    assert [r["kind"] for r in kernels()] == [kind(r) for r in kernels()]
    assert {r["kind"] for r in kernels()} == {"kernel", "memcpy", "memset", "api", "range"}
    assert [r["name"] for r in kernels(kind="memset")] and all("memset" in r["name"] for r in kernels(kind="memset"))


def test_nvprof_sections() -> None:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    names = {}
    for r in kernels():
        counts[r["section"]][r["category"]] += 1
        names[r["section"]] = r["report"], r["domain"], r["range"]
    assert list(counts) == list(range(1, 37))
    assert names[1] == ("Profiling result", None, None)
    assert counts[1] == {"GPU activities": 30, "API calls": 51}
    assert [names[s][:2] for s in range(2, 37)] == [("NVTX result", "NCCL")] * 2 + [("NVTX result", "<unnamed>")] * 33
    want = dict(item.rsplit(" ", 1) for item in re.split(r",\s", SECTIONS)) | {
        f"Layer {k}": "1/18/2" for k in range(12)
    }
    order = ("Range", "GPU activities", "API calls")
    assert {names[s][2]: "/".join(str(counts[s][c]) for c in order) for s in range(2, 37)} == want
    inner = [names[s][2] for s in range(4, 37)]
    assert inner == sorted(inner)  # as strings: Layer 1, 10, 11, 2
    assert "Train step 3" not in inner
    assert rows("nvprof", "values")[0]["value"] == 1  # and that is the invalid range marker
    assert log("nvprof").row_counts == {"runs": 1, "kernels": 616, "values": 1, "lines": 12}


def groups() -> dict[tuple[int, str], list[Row]]:
    out: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for r in kernels():
        out[r["section"], r["category"]].append(r)
    return out


def test_nvprof_shares_are_of_their_category() -> None:
    sums = []
    for members in groups().values():
        total = sum(r["time_s"] for r in members)
        assert all(abs(r["share"] * 100 - 100 * r["time_s"] / total) < 0.00515 for r in members)
        sums.append(round(sum(r["share"] for r in members) * 100, 2))
        times = [r["time_s"] for r in members]
        assert times == sorted(times, reverse=True)
    assert (min(sums), max(sums)) == (99.98, 100.02)
    assert all(r["min_s"] <= r["avg_s"] <= r["max_s"] for r in kernels())


def test_nvprof_time_is_calls_times_the_floored_average() -> None:
    """Avg is floored to whole ns, then printed with five digits."""
    off, worst = 0, 0.0
    for r in kernels():
        match = re.search(ROW, lines("nvprof")[r["line"] - 1])
        assert match is not None
        slack = half_digit(match[2], match[3]) + r["calls"] * half_digit(match[5], match[6]) + 1e-15
        assert r["calls"] * r["avg_s"] - slack <= r["time_s"] < r["calls"] * (r["avg_s"] + 1e-9) + slack
        difference = abs(r["time_s"] - r["calls"] * r["avg_s"])
        off += difference > slack
        worst = max(worst, difference / r["time_s"])
    assert off == 107
    assert round(worst * 100, 2) == 0.35


def half_digit(number: str, unit: str) -> float:
    """Half of the last printed digit, in seconds."""
    return 0.5 * 10.0 ** -len(number.partition(".")[2]) * UNIT[unit]


def test_nvprof_api_calls_launch_what_runs_on_the_gpu() -> None:
    """Every section has as many calls of a class as activities of it."""

    def of(r: Row) -> str:
        if r["category"] == "GPU activities":
            return {"memcpy": "memcpy", "memset": "memset"}.get(r["kind"], "kernel")
        for word, kind in (("Launch", "kernel"), ("Memset", "memset"), ("Memcpy", "memcpy")):
            if word in r["name"]:
                return kind
        return ""

    calls: dict[tuple[int, str, str], int] = Counter()
    for r in kernels():
        if r["category"] != "Range" and of(r):
            calls[r["section"], r["category"], of(r)] += r["calls"]
    for section in range(1, 37):
        for kind in ("kernel", "memset", "memcpy"):
            assert calls[section, "API calls", kind] == calls[section, "GPU activities", kind]


DEVICE_KINDS = ("kernel", "memcpy", "memset")


def seconds(range_: str | None, *kinds: str) -> float:
    total: float = sum(r["time_s"] for r in kernels(range=range_) if r["kind"] in (kinds or DEVICE_KINDS))
    return total


def test_nvprof_ranges_hold_what_they_launch() -> None:
    calls = {r["range"]: r["calls"] for r in kernels(kind="range")}
    want = {"gpt2_forward": 24, "gelu_forward": 336, "matmul_cublaslt": 2336, "gpt2_update": 4, "validation": 1}
    assert {k: calls[k] for k in want} == want
    assert {calls[f"Layer {k}"] for k in range(12)} == {28}
    host = {r["range"]: r["time_s"] for r in kernels(kind="range")}
    assert (round(host["Layer 5"] / MS, 2), round(seconds("Layer 5") / MS, 1)) == (3.53, 703.8)
    assert (round(host["attention_forward"] / MS, 1), round(seconds("attention_forward"), 3)) == (11.1, 1.653)
    assert (round(host["gpt2_forward"], 3), round(seconds("gpt2_forward"), 3)) == (8.343, 8.298)
    assert round(seconds(None), 2) == 11.19
    gemm = [r for r in kernels(section=1) if "sgemm" in r["name"]]
    assert sum(r["calls"] for r in gemm) == 2336
    assert round(sum(r["time_s"] for r in gemm) / seconds(None), 3) == 0.885


def test_nvprof_classifier_and_loss_is_the_whole_backward() -> None:
    def work(range_: str) -> dict[str, tuple[int, float]]:
        return {r["name"]: (r["calls"], r["time_s"]) for r in kernels(range=range_, kind="kernel")}

    assert round(seconds("classifier_and_loss"), 3) == 2.737
    one, other = work("gpt2_backward_and_reduce"), work("classifier_and_loss")
    assert one.keys() == other.keys()
    (differs,) = (k for k in one if one[k] != other[k])
    assert "fused_classifier" in differs
    (alone,) = kernels(range="fused_classifier", category="GPU activities")
    assert (alone["calls"], round(alone["time_s"], 4)) == (24, 0.2153)


def test_nvprof_steps() -> None:
    assert [round(seconds(f"Train step {k}"), 3) for k in range(3)] == [8.104, 0.999, 1.012]
    assert round(seconds("validation"), 3) == 7.092
    assert round(seconds("Train step 0") - seconds("validation"), 3) == 1.012

    def count(range_: str | None) -> Counter[str]:
        return Counter({r["name"]: r["calls"] for r in kernels(range=range_, kind="kernel")})

    rest = count(None)
    for k in range(3):
        rest.subtract(count(f"Train step {k}"))
    assert {k: v for k, v in rest.items() if v} == dict(count("Train step 1"))  # step 3, whose range was not closed


def test_nvprof_names_are_no_keys() -> None:
    names = Counter((r["category"], r["name"]) for r in kernels(section=1))
    assert {k: n for k, n in names.items() if n > 1} == {("API calls", "cuGetProcAddress"): 2}
    assert [r["name"] for r in kernels(section=1) if "Thread" in r["name"]] == ["cudaThreadExchangeStreamCaptureMode"]
    (first,) = kernels(range="ncclAllReduce", kind="range")
    assert (first["time_s"], first["max_s"]) == (629.69 * 1e-3, 629.49 * 1e-3)
    (sync,) = kernels(name="cudaDeviceSynchronize")
    assert sync["section"] == 1 and round(sync["share"], 2) == 0.69
