"""What FACTS.md says about the MoE layer logs (000, 001), and what a plain parse of their text finds, is in the tables.

The parse here knows nothing of perflog: one `re` per line kind, and Python floats. Values are compared bit for bit.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from functools import cache
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.seeds import KINDS, MS, hits, lines, log, needs_seeds, rows, table

PHASES = {  # kind -> the phases of its numbers, in their order
    "process": ("process", "gate", "exchange", "select", "dispatch"),
    "wait": ("wait",),
    "AG": ("gather_gemm",),
    "prep": ("prepare_forward", "gemm1_forward"),
    "GA": ("gemm_scatter",),
    "forward": ("moe_forward",),
    "linear2": ("linear2_backward", "gemm2_backward"),
    "prep_back": ("prepare_backward", "gemm1_backward", "weight_grad", "other_backward"),
    "linear1": ("linear1_backward",),
}
EXPERTS = {1: 8, 2: 16, 3: 32, 4: 64}
BLOCKS = {  # run -> (N, M) of ranks 0 to 3: FACTS, section 2
    1: [(228, 16), (248, 33), (312, 83), (256, 37)],
    2: [(288, 77), (264, 58), (268, 60), (244, 41)],
    3: [(287, 67), (215, 9), (235, 27), (299, 76)],
    4: [(320, 133), (220, 53), (284, 106), (208, 46)],
}
RANK_OF = {run: {n: rank for rank, (n, _) in enumerate(ranks)} for run, ranks in BLOCKS.items()}
RANK_OF_SHARE = {
    run: {f"{float(np.float32(m) / np.float32(n)):.6f}": rank for rank, (n, m) in enumerate(ranks)}
    for run, ranks in BLOCKS.items()
}
AMBIGUOUS = [3361, 4786, 5786, 5790, 8241, 10861, 11920, 13119, 13575, 13689, 13860, 14487, 14601, 14713, 15570]
THREE = [4786, 8241, 10861, 13689, 14601]  # of these: the last of `AG AG prep AG prep prep`, where all three are open
FORMULA = 8192 * 1024 * 4096 * 4 * 2 * 3 * 1e-12  # samples x model_dim x hidden_size x 4 x topK x 3, in TFLOP


class Line(NamedTuple):
    """A line of the MoE log with its run and its step: the step whose STEP line comes next."""

    kind: str
    run: int
    step: int
    line: int
    groups: tuple[str, ...]


@cache
def parsed() -> list[Line]:
    out: list[Line] = []
    waiting: list[tuple[str, int, tuple[str, ...]]] = []
    run = 1
    for number, text in enumerate(lines("moe_layer"), 1):
        found = ((k, m) for k, p in KINDS.items() if (m := re.fullmatch(p, text)))
        kind, match = next(found, ("", None))
        if match is None:
            run += text == " end end end"
            continue
        waiting.append((kind, number, match.groups()))
        if kind == "STEP":
            out += [Line(k, run, int(match[1]), n, g) for k, n, g in waiting]
            waiting = []
    assert waiting == []
    return out


def of(kind: str) -> list[Line]:
    return [x for x in parsed() if x.kind == kind]


def prepared_by() -> dict[int, int]:
    """Line of a `perpare first forward` -> line of the AG it belongs to, where only one is possible."""
    out, unfinished = {}, 0
    for before, x in zip([None, *parsed()], parsed(), strict=False):
        if before is None or before.kind == "STEP":
            unfinished = 0
        if x.kind == "AG":
            unfinished += 1
        elif x.kind == "prep":
            assert before is not None
            if unfinished == 1 and before.kind == "AG" and before.line == x.line - 1:
                out[x.line] = before.line
            unfinished -= 1
    return out


@cache
def ranks() -> dict[int, tuple[int | None, str | None]]:
    """Line -> its rank and the rule that proves it."""
    out: dict[int, tuple[int | None, str | None]] = {}
    for x in parsed():
        if x.kind in ("process", "wait"):
            out[x.line] = int(x.groups[0]), "printed"
        elif x.kind in ("block_info", "count"):
            out[x.line] = RANK_OF[x.run][int(x.groups[0])], "fingerprint"
        elif x.kind in ("AG", "GA"):
            out[x.line] = RANK_OF_SHARE[x.run][x.groups[0]], "fingerprint"
        else:
            out[x.line] = None, None
    for line, gather in prepared_by().items():
        out[line] = out[gather][0], "adjacent"
    return out


def times(phase: str, run: int, steps: range = range(100), rank: int | None = None) -> list[float]:
    """Milliseconds of a phase."""
    found = rows("moe_layer", "phases", phase=phase, run=run)
    return [r["time_s"] / MS for r in found if r["step"] in steps and rank in (None, r["rank"])]


def the_time(phase: str, run: int, step: int, rank: int) -> float:
    """Milliseconds of a phase that occurs once in a step of a rank."""
    (time,) = times(phase, run, range(step, step + 1), rank)
    return time


# --- 000 --------------------------------------------------------------------------------------------------------------


def test_moe_has_four_runs_that_sweep_the_experts() -> None:
    found = table("moe_layer", "runs")
    assert [(r["first_line"], r["last_line"]) for r in found] == [
        (1, 5733), (5734, 11466), (11467, 17199), (17200, 22932)
    ]  # fmt: skip
    assert {(r["format"], r["world_size"], r["dtype"], r["device"]) for r in found} == {
        ("moe_layer", 4, "float16", "cuda:0")
    }
    for r in found:
        said = json.loads(r["config"])
        assert said["num_local_experts"] == EXPERTS[r["run"]]
        assert (said["samples"], said["model_dim"], said["hidden_size"], said["top_k"]) == (8192, 1024, 4096, 2)
        assert r["printout"].split("\n") == lines("moe_layer")[r["first_line"] + 7 : r["first_line"] + 27]
        assert f"num_expert={EXPERTS[r['run']] + 6}," in r["printout"]  # local, and the replicated popular ones


def test_moe_has_the_lines_of_every_step() -> None:
    per_step = Counter((x.run, x.step, x.kind) for x in parsed())
    want = dict.fromkeys(KINDS, 4) | {"AG": 8, "GA": 8, "STEP": 1}
    assert per_step == {(run, step, k): n for run in EXPERTS for step in range(100) for k, n in want.items()}
    phases = Counter((r["run"], r["step"], r["phase"]) for r in table("moe_layer", "phases"))
    want = {p: 8 if kind in ("AG", "GA") else 4 for kind, names in PHASES.items() for p in names}
    assert phases == {(run, step, p): n for run in EXPERTS for step in range(100) for p, n in want.items()}
    assert Counter(r["phase"] for r in table("moe_layer", "phases")) == {p: n * 400 for p, n in want.items()}
    assert log("moe_layer").row_counts == {
        "runs": 4, "steps": 400, "phases": 32000, "loads": 1600, "summaries": 12, "values": 1600, "lines": 92
    }  # fmt: skip


def test_moe_steps_are_those_printed() -> None:
    want = [
        (x.run, x.line, int(x.groups[0]), *(float(v) * MS for v in x.groups[1:4]), float(x.groups[4]))
        for x in of("STEP")
    ]
    found = table("moe_layer", "steps")
    columns = ("run", "line", "step", "step_time_s", "forward_s", "backward_s", "tflops")
    assert [tuple(r[c] for c in columns) for r in found] == want
    assert [(x[0], x[2]) for x in want] == [(run, step) for run in EXPERTS for step in range(100)]
    assert {(r["copy"], r["steps_averaged"], r["rank"], r["rank_by"]) for r in found} == {(1, 1, None, None)}


def test_moe_phases_are_those_printed_with_their_ranks() -> None:
    """All 32,000 rows: value, step, rank, rule, share and count within the step."""
    want: list[dict[str, Any]] = []
    seen: Counter[tuple[int, int, str, int | None]] = Counter()
    for x in (x for x in parsed() if x.kind in PHASES):
        rank, rule = ranks()[x.line]
        numbers = x.groups[1:] if x.kind in ("process", "wait", "AG", "GA") else x.groups
        for phase, number in zip(PHASES[x.kind], numbers, strict=True):
            seen[x.run, x.step, phase, rank] += 1
            want.append({
                "run": x.run, "line": x.line, "part": 0, "step": x.step, "rank": rank, "rank_by": rule, "source": None,
                "phase": phase, "occurrence": seen[x.run, x.step, phase, rank], "time_s": float(number) * MS,
                "min_s": None,
                "remote_share": float(x.groups[0]) if x.kind in ("AG", "GA") else None,
            })  # fmt: skip
    found = table("moe_layer", "phases")
    assert len(found) == len(want)
    assert [(f, w) for f, w in zip(found, want, strict=True) if f != w] == []


def test_moe_loads_and_counts_have_the_rank_of_their_fingerprint() -> None:
    loads = [(x.run, x.line, x.step, *ranks()[x.line], *map(float, x.groups)) for x in of("block_info")]
    columns = ("run", "line", "step", "rank", "rank_by", "amount", "remote")
    assert [tuple(r[c] for c in columns) for r in table("moe_layer", "loads")] == loads
    counts = [(x.run, x.line, x.step, *ranks()[x.line], "blocks", float(x.groups[0])) for x in of("count")]
    columns = ("run", "line", "step", "rank", "rank_by", "key", "value")
    assert [tuple(r[c] for c in columns) for r in table("moe_layer", "values")] == counts
    for run, blocks in BLOCKS.items():
        for rank, (n, m) in enumerate(blocks):
            found = rows("moe_layer", "loads", run=run, rank=rank)
            assert len(found) == 100 and {(r["amount"], r["remote"], r["unit"]) for r in found} == {(n, m, "block")}


def test_moe_sums_of_blocks() -> None:
    total = {1: (1044, 1.195), 2: (1064, 1.083), 3: (1036, 1.154), 4: (1032, 1.240)}
    by_step: dict[tuple[int, int], list[float]] = defaultdict(list)
    for r in table("moe_layer", "loads"):
        by_step[r["run"], r["step"]].append(r["amount"])
    for (run, _), amounts in by_step.items():
        assert (sum(amounts), round(max(amounts) / mean(amounts), 3)) == total[run]


def test_moe_neighbours_that_would_name_the_wrong_rank() -> None:
    """`R wait` and the count under it: its own in 1565 of 1600 cases, another rank's in 3, another line kind in 32."""
    waits = {x.line: int(x.groups[0]) for x in of("wait")}
    under = {x.line: x for x in of("count") if x.line - 1 in waits}
    wrong = {n - 1: (x.run, x.step) for n, x in under.items() if RANK_OF[x.run][int(x.groups[0])] != waits[n - 1]}
    assert wrong == {8060: (2, 40), 15155: (3, 64), 21969: (4, 83)}  # lines of the waits: 1, 1 and 2
    assert (len(under) - len(wrong), len(waits) - len(under)) == (1565, 32)
    told = {r["line"]: (r["rank"], r["rank_by"]) for r in rows("moe_layer", "values", key="blocks")}
    assert {n: told[n + 1] for n in wrong} == {n: (r, "fingerprint") for n, r in ((8060, 0), (15155, 2), (21969, 1))}


def test_moe_prepare_forward_has_a_rank_where_only_one_is_possible() -> None:
    preps = {r["line"]: (r["rank"], r["rank_by"]) for r in rows("moe_layer", "phases", phase="prepare_forward")}
    gathers = {r["line"]: r["rank"] for r in rows("moe_layer", "phases", phase="gather_gemm")}
    assert [n for n in preps if n - 1 not in gathers] == AMBIGUOUS
    # `AG AG prep prep`: either line may be either rank's, so neither has one.
    nobody = {n - k for n in AMBIGUOUS for k in (0, 1)} | {n - 3 for n in THREE}
    assert [n for n in AMBIGUOUS if n - 2 in gathers and n - 3 in preps] == THREE
    assert len(nobody) == 35
    assert {n for n, who in preps.items() if who == (None, None)} == nobody
    assert all(who == (gathers[n - 1], "adjacent") for n, who in preps.items() if n not in nobody)


@needs_seeds
def test_moe_printed_process_times_are_sums_to_the_last_bit() -> None:
    for x in of("process"):
        p, *parts = map(float, x.groups[1:])
        assert p - sum(parts) == 0.0


def test_moe_shared_identities() -> None:
    by_line: dict[int, dict[str, float]] = defaultdict(dict)
    for r in table("moe_layer", "phases"):
        by_line[r["line"]][r["phase"]] = r["time_s"] / MS
    for found in by_line.values():
        if "process" in found:
            parts = [found[p] for p in PHASES["process"][1:]]
            assert found["process"] == pytest.approx(sum(parts), rel=1e-15, abs=0)
        if "linear2_backward" in found:
            assert 0.005 - 1e-9 <= found["linear2_backward"] - found["gemm2_backward"] <= 0.045 + 1e-9


def test_moe_second_gemm_takes_at_least_its_kernel() -> None:
    """Sorted per step: the C++ call against the AG kernel of the backward pass."""
    inner, kernel = defaultdict(list), defaultdict(list)
    for r in table("moe_layer", "phases"):
        if r["phase"] == "gemm2_backward":
            inner[r["run"], r["step"]].append(r["time_s"])
        if r["phase"] == "gather_gemm" and r["occurrence"] == 2:
            kernel[r["run"], r["step"]].append(r["time_s"])
    assert len(inner) == len(kernel) == 400
    assert all(a >= b for key in inner for a, b in zip(sorted(inner[key]), sorted(kernel[key]), strict=True))


@pytest.mark.parametrize(
    ("run", "first", "typical", "warming", "process"),
    [
        (1, 37.1, 21.30, 23.54, 127),
        (2, 71.3, 22.57, 27.45, 1090),
        (3, 52.0, 23.48, 26.46, 2125),
        (4, 58.9, 29.23, 32.23, 2072),
    ],
)
def test_moe_warm_up(run: int, first: float, typical: float, warming: float, process: int) -> None:
    steps = [r["step_time_s"] / MS for r in rows("moe_layer", "steps", run=run)]
    assert round(steps[0], 1) == first
    assert round(median(steps), 2) == typical
    assert round(mean(steps[:10]), 2) == warming
    assert round(mean(times("process", run, range(1)))) == process
    assert process > steps[0]  # hidden under attention, which is subtracted
    assert round(median(times("other_backward", run, range(1)))) == 2
    assert median(times("other_backward", run, range(1, 100))) == pytest.approx(0.43, abs=0.02)


def test_moe_outliers() -> None:
    found = {}
    for run in EXPERTS:
        steps = [r["step_time_s"] / MS for r in rows("moe_layer", "steps", run=run)]
        mad = median(abs(s - median(steps)) for s in steps)
        found[run] = [(i, round(s, 2)) for i, s in enumerate(steps) if s > median(steps) + 10 * mad and i]
    assert found == {1: [(9, 25.45), (23, 25.16)], 2: [(64, 25.83)], 3: [], 4: []}
    assert [round(the_time(p, 1, 23, 1), 2) for p in ("process", "dispatch")] == [8.03, 5.99]
    assert [round(the_time(p, 3, 1, 2), d) for p, d in (("process", 2), ("gate", 1))] == [8.88, 5.1]


def test_moe_steady_phases() -> None:
    waits = [t for run in EXPERTS for t in times("wait", run)]
    assert (round(min(waits), 3), sum(t < 0.1 for t in waits)) == (0.010, 12)
    gathers = [round(median(times("gather_gemm", 3, rank=rank)), 2) for rank in range(4)]
    assert gathers == [1.86, 1.12, 1.80, 1.90]
    for run in EXPERTS:
        assert 3.5 <= median(times("process", run)) <= 4.5
        assert 1.1 <= median(times("wait", run)) <= 2.2


def test_moe_sum_of_waits_by_rank() -> None:
    want: dict[tuple[int, int], float] = defaultdict(float)
    for x in of("wait"):
        want[x.run, int(x.groups[0])] += float(x.groups[1]) * MS
    found: dict[tuple[int, int], float] = defaultdict(float)
    for r in rows("moe_layer", "phases", phase="wait"):
        found[r["run"], r["rank"]] += r["time_s"]
    assert found == want and len(found) == 16


# --- 000 and 001: what the printed figures are ----------------------------------------------------------------------


def sequential_mean(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += float(np.float32(value))
    return total / len(values)


SUMMARY = r"\[Summary\] Average synchronized step_time = (\S+) ms, forward = (\S+), backward = (\S+)\."


@pytest.mark.parametrize(("name", "first"), [("moe_layer", 90), ("moe_layer_early", 40)])
def test_summaries_and_their_windows(name: str, first: int) -> None:
    printed = [(h.line, float(v)) for h in hits(name, SUMMARY) for v in h.groups]
    found = sorted(table(name, "summaries"), key=lambda r: r["line"])
    keys = ["step_time", "forward", "backward"]
    assert [r["key"] for r in found] == keys * (4 if name == "moe_layer" else 1)
    assert [(r["line"], r["value"]) for r in found] == [(n, v * MS) for n, v in printed]
    for r, (_, value) in zip(found, printed, strict=True):
        exact = name == "moe_layer_early" or r["key"] == "backward" or (r["run"], r["key"]) == (3, "step_time")
        assert (r["window_first"], r["window_last"], r["unit"]) == (first, 99, "s")
        assert r["window_fit"] == ("exact" if exact else "rounding")
        place = keys.index(r["key"]) + 1
        steps = [h.groups for h in hits(name, KINDS["STEP"]) if h.line < r["line"]][-100:]
        window = [float(groups[place]) for groups in steps[first:]]
        assert (sequential_mean(window) == value) is exact
        assert abs(mean(window) - value) < 5e-7


@pytest.mark.parametrize("name", ["moe_layer", "moe_layer_early"])
def test_tflops_are_those_of_the_formula(name: str) -> None:
    assert round(FORMULA, 12) == 0.824633720832
    found = table(name, "steps")
    assert len(found) == (400 if name == "moe_layer" else 100)
    assert all(r["tflops"] == round(FORMULA / r["step_time_s"], 2) for r in found)


def test_event_times_lie_on_their_grid() -> None:
    """CUDA events count in 1.024 us."""

    def on_grid(name: str, of: str, column: str, **where: Any) -> float:
        ticks: list[float] = [r[column] / 1.024e-6 for r in rows(name, of, **where)]
        return mean(abs(t - round(t)) * 1.024e-6 < 0.51e-6 * 1e-3 + 2.0**-24 * t * 1.024e-6 for t in ticks)

    assert on_grid("moe_layer", "phases", "time_s", phase="gather_gemm") == 1
    assert on_grid("moe_layer", "phases", "time_s", phase="gemm_scatter") == 1
    assert on_grid("moe_layer", "steps", "backward_s") == 1
    assert on_grid("moe_layer", "steps", "step_time_s") == pytest.approx(0.73, abs=0.02)  # attention is subtracted
    assert all(on_grid("moe_layer_early", "steps", c) == 1 for c in ("step_time_s", "forward_s", "backward_s"))


def test_early_steps_are_those_printed() -> None:
    columns = ("line", "step", "step_time_s", "forward_s", "backward_s", "tflops")
    want = [
        (h.line, int(h.groups[0]), *(float(v) * MS for v in h.groups[1:4]), float(h.groups[4]))
        for h in hits("moe_layer_early", KINDS["STEP"])
    ]
    found = table("moe_layer_early", "steps")
    assert [tuple(r[c] for c in columns) for r in found] == want
    assert [r["step"] for r in found] == list(range(100))
    assert round(median(r["tflops"] for r in found)) == 36
