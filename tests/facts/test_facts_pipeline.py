"""What FACTS.md says about the pipeline log (004) is in the tables."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from statistics import correlation, median
from typing import Any

from support.seeds import MS, hits, lines, log, rows, table

NAME = "pipeline_layers"
HEADER = re.compile(r"\[rank:(\d) stage:(\d)\] transformer-block\(module\) forward time \(no send/recv\) - step (\d+)")
LAYER = re.compile(r"  layer\[(\w+)\]: total=([\d.]+)ms, ops=(\d+), avg/op=([\d.]+)ms")
EPOCH = r"\| epoch +1 \| +(\d+)/  323 batches \| lr (\S+) \| ms/batch ([\d.]+) \| loss +([\d.]+) \| ppl +([\d.]+)"
TORN = {373, 375, 377, 379}


def parts() -> dict[int, list[str]]:
    """Layers of each rank, and how many timed calls each has: FACTS, section 3."""
    found = {0: ["embed/32", "0/256", "1/224"], 7: ["13/32", "14/256", "15/256", "lm_head/32"]}
    return found | {r: [f"{2 * r - 1}/32", f"{2 * r}/256", f"{2 * r + 1}/224"] for r in range(1, 7)}


def printed() -> list[dict[str, Any]]:
    """The layer rows of the text. On torn lines the k-th piece is of the k-th header of the torn header line."""
    out: list[dict[str, Any]] = []
    headers: list[re.Match[str]] = []
    for number, text in enumerate(lines(NAME), 1):
        headers = list(HEADER.finditer(text)) or headers
        for part, m in enumerate(LAYER.finditer(text)):
            rank, stage, step = map(int, headers[part].groups())
            out.append({
                "run": 1, "line": number, "part": part, "step": step, "rank": rank, "rank_by": "header", "source": None,
                "stage": stage, "layer": m[1], "direction": "forward", "time_s": float(m[2]) * MS, "calls": int(m[3]),
                "avg_s": float(m[4]) * MS,
            })  # fmt: skip
    return out


def test_layers_are_those_printed() -> None:
    found, want = table(NAME, "layers"), printed()
    assert len(found) == len(want) == 500
    assert [(f, w) for f, w in zip(found, want, strict=True) if f != w] == []


def test_layers_of_every_step_and_rank() -> None:
    assert sum(len(HEADER.findall(text)) for text in lines(NAME)) == 160
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for r in table(NAME, "layers"):
        found[r["step"], r["rank"]].append(f"{r['layer']}/{r['calls']}")
        assert r["stage"] == r["rank"]
    assert found == {(step, rank): layers for step in range(1, 21) for rank, layers in parts().items()}


def test_layers_torn_over_two_ranks() -> None:
    assert {r["line"] for r in table(NAME, "layers") if r["part"]} == TORN - {373}
    want = {
        0: [("embed", 0.739, 32), ("0", 40.903, 256), ("1", 30.691, 224)],
        3: [("5", 10.070, 32), ("6", 41.273, 256), ("7", 29.263, 224)],
    }
    for rank, layers in want.items():
        found = rows(NAME, "layers", step=2, rank=rank)
        assert [(r["layer"], r["time_s"], r["calls"]) for r in found] == [(k, t * MS, n) for k, t, n in layers]
        assert [r["line"] for r in found] == [375, 377, 379]


def test_layers_averages() -> None:
    differ = 0
    for r in table(NAME, "layers"):
        total, average = r["time_s"] / MS, r["avg_s"] / MS
        assert abs(total / r["calls"] - average) <= 0.0005 + 0.0005 / r["calls"] + 1e-12
        differ += f"{total / r['calls']:.3f}" != f"{average:.3f}"
    assert differ == 3


def test_layers_of_the_stages() -> None:
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for r in table(NAME, "layers"):
        sums[r["stage"], r["step"]] += r["time_s"] / MS
    stages = [median(sums[stage, step] for step in range(2, 21)) for stage in range(8)]
    assert [round(s, 1) for s in stages] == [72.4, 87.9, 81.2, 80.4, 77.3, 77.4, 76.5, 219.3]
    assert round(max(stages) / (sum(stages) / 8), 2) == 2.27
    assert round(max(stages) / min(stages), 2) == 3.03
    first = [sums[stage, 1] for stage in range(8)]
    assert (math.floor(min(first)), math.floor(max(first))) == (139, 343)
    assert round(median(r["time_s"] / MS for r in rows(NAME, "layers", layer="lm_head")[1:]), 1) == 133.6
    # What can be said about the bubble: the ideal one, and a forward-only model. None of it is measured.
    config = json.loads(table(NAME, "runs")[0]["config"])
    p, m = config["pp"], config["gas"]
    assert round(100 * (p - 1) / (m + p - 1), 2) == 17.95
    batches = [s / m for s in stages]
    assert [round(b, 2) for b in batches] == [2.26, 2.75, 2.54, 2.51, 2.42, 2.42, 2.39, 6.85]
    makespan = sum(batches) + (m - 1) * max(batches)
    assert round(makespan, 1) == 236.6
    assert round(100 * sum(stages) / (8 * makespan), 1) == 40.8


def test_layers_do_not_explain_the_step() -> None:
    stage: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for r in table(NAME, "layers"):
        stage[r["step"]][r["stage"]] += r["time_s"]
    steps = {r["step"]: r["step_time_s"] for r in table(NAME, "steps") if r["steps_averaged"] == 1 and r["step"] < 21}
    total = [sum(stage[s].values()) for s in steps]
    slowest = [max(stage[s].values()) for s in steps]
    assert round(100 * median(t / (8 * steps[s]) for t, s in zip(total, steps, strict=True)), 1) == 6.0
    assert round(100 * median(t / steps[s] for t, s in zip(slowest, steps, strict=True)), 1) == 13.5
    assert round(correlation(list(steps.values()), total), 2) == -0.10
    assert round(correlation(list(steps.values()), slowest), 2) == -0.26


def test_layers_sums_by_layer() -> None:
    """A block split over two stages is the sum over both: 256 calls per step, like the others."""
    want: dict[str, float] = defaultdict(float)
    for text in lines(NAME):
        for m in LAYER.finditer(text):
            want[m[1]] += float(m[2]) * MS
    found: dict[str, float] = defaultdict(float)
    calls: dict[tuple[str, int], int] = defaultdict(int)
    for r in table(NAME, "layers"):
        found[r["layer"]] += r["time_s"]
        calls[r["layer"], r["step"]] += r["calls"]
    assert found == want
    blocks = {str(k): 256 for k in range(16)} | {"embed": 32, "lm_head": 32}
    assert calls == {(layer, step): n for layer, n in blocks.items() for step in range(1, 21)}


def test_steps_are_those_printed() -> None:
    found = table(NAME, "steps")
    want = [(h.line, int(h.groups[0]) + 1, *map(float, h.groups[1:])) for h in hits(NAME, EPOCH)]
    columns = ("line", "step", "learning_rate", "step_time_s", "loss", "perplexity")
    assert [tuple(r[c] for c in columns) for r in found] == [(n, s, lr, t * MS, x, y) for n, s, lr, t, x, y in want]
    assert [r["step"] for r in found] == list(range(2, 22))
    assert [r["steps_averaged"] for r in found] == [2] + [1] * 19  # no line is printed for the first step
    assert {(r["rank"], r["rank_by"], r["copy"]) for r in found} == {(None, None, 1)}
    assert (found[0]["step_time_s"], found[0]["loss"], found[0]["perplexity"]) == (7289.55 * MS, 21.49, 2152814925.50)
    # An epoch line stands directly after rank 7's block of its step.
    last = {r["step"]: r["line"] for r in rows(NAME, "layers", rank=7)}
    assert [r["line"] - last[r["step"]] for r in found[:-1]] == [1] * 19
    assert found[-1]["step"] not in last
    keys = {"epoch": [1.0] * 20, "batch": [float(k) for k in range(1, 21)], "batches": [323.0] * 20}
    for key, values in keys.items():
        assert [(r["step"], r["value"]) for r in rows(NAME, "values", key=key)] == list(
            zip(range(2, 22), values, strict=True)
        )


def test_steps_and_what_they_hold() -> None:
    found = table(NAME, "steps")
    assert all(abs(math.exp(r["loss"]) / r["perplexity"] - 1) <= 0.0053 for r in found[1:])
    times = [r["step_time_s"] / MS for r in found[1:]]
    assert (round(min(times)), round(max(times))) == (1581, 1676)
    (elapsed,) = table(NAME, "summaries")
    assert (elapsed["key"], elapsed["value"], elapsed["unit"], elapsed["window_first"]) == (
        "elapsed",
        37.576,
        "s",
        None,
    )
    total = sum(r["step_time_s"] for r in found)
    assert round(total, 3) == 38.067
    assert round(100 * (total / elapsed["value"] - 1), 1) == 1.3


def test_run_says_how_it_was_made() -> None:
    (run,) = table(NAME, "runs")
    assert run["label"] == "LlamaForCausalLM TP1 DP1 PP8 MBS1 GBS32"
    assert (run["model"], run["world_size"]) == ("LlamaForCausalLM", 8)
    config = json.loads(run["config"])
    assert {k: config[k] for k in ("gas", "gbs", "mbs", "tp", "dp", "pp")} == {
        "gas": 32, "gbs": 32, "mbs": 1, "tp": 1, "dp": 1, "pp": 8
    }  # fmt: skip
    assert config["parameters"] == 1235814400
    assert log(NAME).row_counts == {
        "runs": 1,
        "steps": 20,
        "layers": 500,
        "summaries": 1,
        "values": 60,
        "milestones": 2,
        "lines": 53,
    }
