"""Logs rendered from the templates of the formats, in which nothing is wrong; tests spoil one thing in each.

A log is a list of records, (line, values): the name of a line of the format and its fields in printed units, or None
and a plain text. `text` renders it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from support.reading import read as reading

from perflog.formats.registry import known
from perflog.log import Log

Record = tuple[str | None, dict[str, Any]]
Records = list[Record]
Change = Callable[[int, dict[str, Any]], object]

STEPS = 40
GRID = 1.024e-3  # ms, of CUDA events


def text(format: str, records: Records) -> str:
    """The log of these records."""
    lines = {line.name: line.template for line in known()[format].lines if line.read}
    out = []
    for name, given in records:
        values = {k: v for k, v in given.items() if k != "label"}
        out.append(given.get("label", "") + (lines[name].render(values) if name else values["text"]))
    return "".join(f"{line}\n" for line in out)


def log(format: str, records: Records) -> Log:
    """The log, read."""
    return Log(reading(text(format, records).encode(), formats=None).kept.fetch)


def plain(line: str = "", label: str = "") -> Record:
    return None, {"text": line, "label": label}


def event(ms: float) -> float:
    """A time as a CUDA timer gives it: a C float on its grid."""
    return float(np.float32(round(ms / GRID) * GRID))


def changed(records: Records, line: str, change: Callable[[int, dict[str, Any]], object]) -> Records:
    """The records with `change(k, values)` done to the k-th record of a line; one that returns False is left out."""
    out: Records = []
    k = -1
    for name, given in records:
        values = dict(given)
        if name == line:
            k += 1
            if change(k, values) is False:
                continue
        out.append((name, values))
    return out


def numbered(records: Records, line: str) -> list[dict[str, Any]]:
    """The values of each record of a line."""
    return [values for name, values in records if name == line]


# --- a MoE layer benchmark: each line labelled with its rank --------------------------------------------------------

WORK = {"model_dim": 1024, "hidden_size": 4096, "samples": 8192, "top_k": 2}
FLOP = 8192 * 1024 * 4096 * 4 * 3 * 2


def moe(experts: int = 8, steps: int = STEPS, seed: int = 1) -> Records:
    """One run, two ranks: equal loads, all parts add up, the summary is the mean of all steps."""
    rng = np.random.default_rng(seed)
    out: Records = [plain(x) for x in _model(experts)]
    settings = {"dtype": "float16", "num_local_experts": experts, "a2a_ffn_overlap_degree": 1, "device": "cuda:0"}
    out.append(("bench", {"world_size": 2, **settings, **WORK}))
    for step in range(steps):
        for rank in (0, 1):
            out += _moe_rank(rank, rng)
        forward, backward = (round(event(t * (1 + 0.003 * rng.standard_normal())), 6) for t in (10.0, 11.0))
        time = round(event(forward + backward + 0.06), 6)
        values = {"step": step, "step_time": time, "forward": forward, "backward": backward}
        out.append(("step", {**values, "tflops": FLOP * 1e-9 / time, "label": "0: "}))
    return summarised(out)


def summarised(records: Records, first: int = 0) -> Records:
    """With a summary, the mean of the steps from `first` on, and an end."""
    steps = numbered(records, "step")[first:]
    kept = [r for r in records if r[0] not in ("summary", "end")]
    means = {k: float(np.cumsum([np.float32(s[k]) for s in steps], dtype=np.float64)[-1] / len(steps)) for k in TIMES}
    return [*kept, ("summary", {**means, "label": "0: "}), ("end", {"label": "0: "})]


TIMES = ("step_time", "forward", "backward")


def _model(experts: int) -> list[str]:
    inner = [f"  (gate): Linear(in_features=1024, out_features={2 * experts})", "  (experts): FMoELinear(1024)"]
    return [f"0: {line}" for line in ("ExampleModel(", *inner, ")")]


def _moe_rank(rank: int, rng: np.random.Generator) -> Iterator[Record]:
    """What a rank prints of a step: forward 10 ms, backward 11 ms, all of it in phases."""

    def near(ms: float) -> float:
        return round(ms * (1 + 0.002 * rng.standard_normal()), 3)

    parts = {"gate": 0.5, "exchange": 2.0, "select": 0.25, "dispatch": 0.75}
    lines: dict[str, dict[str, Any]] = {
        "block_info": {"amount": 256, "remote": 32 + rank},
        "process": {"rank": rank, "process": 3.5, **parts},
        "wait": {"rank": rank, "wait": near(1.4)},
        "gather": {"remote_share": (32 + rank) / 256, "gather_gemm": event(1.8)},
        "prepare_forward": {"prepare_forward": near(1.1), "gemm1_forward": near(2.9)},
        "scatter": {"remote_share": (32 + rank) / 256, "gemm_scatter": event(2.0)},
        "forward": {"moe_forward": near(8.4)},
        "linear2_backward": {"linear2_backward": near(4.4), "gemm2_backward": near(4.3)},
        "prepare_backward": {
            "prepare_backward": 0.03, "gemm1_backward": near(3.4), "weight_grad": near(1.8), "other_backward": 0.43,
        },
        "linear1_backward": {"linear1_backward": near(6.4)},
    }  # fmt: skip
    for name, values in lines.items():
        yield name, {**values, "label": f"{rank}: "}


# --- a sweep of training runs, several in one log -----------------------------------------------------------------


def sweep(systems: tuple[str, ...] = ("a", "b", "c"), steps: int = STEPS, shared: bool = False) -> Records:
    """One run per system, each in a process of its own (or all in one), each with a model of its own."""
    rng = np.random.default_rng(2)
    out: Records = []
    for place, system in enumerate(systems):
        if place == 0 or not shared:
            out += [("local_rank", {"rank": 0}), ("world_rank", {"rank": 0}), ("world_size", {"world_size": 1})]
        out += [plain(x) for x in ("Model(", f"  (expert): Linear({place})", ")")]
        run: Records = []
        for step in range(steps):
            forward, backward = (round(event(t * (1 + 0.002 * rng.standard_normal())), 6) for t in (50.0, 100.0))
            time = round(event(forward + backward + 0.02), 6)
            values = {"step": step, "step_time": time, "forward": forward, "backward": backward}
            out.append(("step", values))
            run.append(("step", values))
        mean = numbered(summarised(run), "summary")[0]["step_time"]
        out += [plain(), ("summary", {"system": system, "model": "m", "experts": 16, "step_time": mean})]
    return out


# --- pipeline-parallel training -----------------------------------------------------------------------------------


def pipeline(steps: int = 12) -> Records:
    """Two stages, two layers each, which fill most of the step."""
    rng = np.random.default_rng(3)
    sizes = {"tp": 1, "dp": 1, "pp": 2, "mbs": 1, "gbs": 4, "gas": 4}
    out: Records = [("world_size", {"world_size": 2})]
    out += [(name, {name: value}) for name, value in sizes.items()]
    out += [("model", {"model": "LlamaForCausalLM"}), ("nbatches", {"batches": steps})]
    for step in range(1, steps + 1):
        for rank in (0, 1):
            out.append(("header", {"rank": rank, "stage": rank, "step": step}))
            for layer in ("embed", 0) if rank == 0 else (1, "lm_head"):
                time = round(400 * (1 + 0.002 * rng.standard_normal()), 3)
                out.append(("layer", {"layer": layer, "time": time, "calls": 32, "avg": time / 32}))
        loss = 9 - step / 10
        values = {"epoch": 1, "batch": step - 1, "batches": steps, "learning_rate": 0.01, "loss": loss}
        time = round(1000 * (1 + 0.002 * rng.standard_normal()), 2)
        out.append(("step", {**values, "step_time": time, "perplexity": float(np.exp(loss))}))
    return [*out, ("elapsed", {"elapsed": steps * 1.05})]


# --- a profile --------------------------------------------------------------------------------------------------------

Row = tuple[str, int, float]
"""Name, calls, average in seconds."""

KERNELS: tuple[Row, ...] = (("gemm", 40, 4e-3), ("softmax", 20, 2e-3), ("copy", 20, 1e-4))
CALLS: tuple[Row, ...] = (("cudaLaunchKernel", 80, 5e-6),)


def profile(ranges: Mapping[str, tuple[int, float, tuple[Row, ...]]] | None = None, kernels: Any = KERNELS) -> Records:
    """A table of the whole program and one for each range: (its calls, its host time, its kernels)."""
    out: Records = [
        ("start", {"tag": 7, "pid": 7, "program": "./train"}),
        ("application", {"tag": 7, "program": "./train"}),
        ("result", {"tag": "7"}),
        ("head", {}),
        *_category("GPU activities", kernels),
        *_category("API calls", CALLS),
    ]
    if ranges:
        out += [("nvtx", {"tag": "7"}), ("thread", {"tag": "7", "thread": "<unnamed>", "thread_id": 1})]
        out.append(("domain", {"tag": "7", "domain": "<unnamed>"}))
    for name, (calls, host, rows) in (ranges or {}).items():
        out += [plain(), ("range", {"tag": "7", "range": name}), ("head", {})]
        out += _category("Range", ((name, calls, host / calls),))
        out += [*_category("GPU activities", rows), *_category("API calls", CALLS)]
    return out


def _category(category: str, rows: tuple[Row, ...]) -> Iterator[Record]:
    total = sum(calls * avg for _, calls, avg in rows)
    for place, (name, calls, avg) in enumerate(sorted(rows, key=lambda r: -r[1] * r[2])):
        low, high = (avg, avg) if calls == 1 else (0.9 * avg, 1.1 * avg)
        time = calls * avg
        values = {"share": 100 * time / total, "time": time, "calls": calls, "avg": avg, "min": low, "max": high}
        yield "row" if place else "first_row", {"category": category, "name": name, **values}


CLEAN: dict[str, Callable[[], Records]] = {
    "moe_layer": moe,
    "training_sweep": sweep,
    "pipeline_layers": pipeline,
    "nvprof": profile,
}
"""Clean logs, by format."""


def late(by: float, first: int = 0, last: int = 10**6) -> Change:
    """Steps first to last take longer by a factor, forward and backward alike."""

    def change(k: int, v: dict[str, Any]) -> None:
        if first <= k <= last:
            v["forward"], v["backward"] = (round(event(v[n] * by), 6) for n in ("forward", "backward"))
            v["step_time"] = round(event(v["forward"] + v["backward"] + 0.06), 6)
            if "tflops" in v:
                v["tflops"] = FLOP * 1e-9 / v["step_time"]

    return change


def where(k: int, **values: Any) -> Change:
    return lambda i, v: v.update(values) if i == k else None


def moe_with(line: str, change: Change, sums: bool = True) -> Records:
    """The clean benchmark, spoiled; with its summary made anew."""
    records = changed(moe(), line, change)
    return summarised(records) if sums else records
