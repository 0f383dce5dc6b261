"""A line is read as far as it can be: what is odd in it, in front of it or behind it costs only itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.field_logs import column, config, rows
from support.reading import DATA, Reading, read

MS = 1e-3

# --- odd values and odd pairs -------------------------------------------------------------------------

ITERATION = (
    " iteration {step:8d}/     200 | consumed samples:          256 | elapsed time per iteration (ms): 15802.3 | "
    "learning rate: 1.000E-04 | global batch size:   256 | lm loss: 1.082777E+01 | loss scale: 131072.0 | "
    "grad norm: 22.029 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def iterations(printed: str = "", odd: str = "", count: int = 8) -> Reading:
    """Iteration lines of Megatron in which one text is printed in another way."""
    text = "".join(ITERATION.format(step=step) for step in range(1, count + 1))
    assert printed in text
    return read(text.replace(printed, odd).encode() if printed else text.encode())


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in names}


def test_a_head_without_its_number_of_iterations_costs_only_that_number() -> None:
    log = iterations("/     200", "/    None", count=198)
    assert log.done.lines == {"total": 198, "read": 198, "context": 0, "unread": 0}
    assert column(log, "steps", "step") == list(range(1, 199))
    assert column(log, "steps", "step_time_s") == [pytest.approx(15802.3 * MS)] * 198
    assert config(log) == {"global_batch_size": 256}


@pytest.mark.parametrize("text", ["None", "N/A", "nan", "null", "-"])
@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("1.082777E+01", "loss"), ("15802.3", "step_time_s"), ("22.029", "grad_norm"), ("1.000E-04", "learning_rate"),
    ],
)  # fmt: skip
def test_a_value_that_is_missing_costs_only_its_column(printed: str, name: str, text: str) -> None:
    whole, log = iterations(), iterations(printed, text)
    assert log.done.lines["read"] == 8
    for row, full in zip(rows(log, "steps"), rows(whole, "steps"), strict=True):
        assert row[name] is None or row[name] != row[name]  # null, or not a number
        assert without(row, "run", name) == without(full, "run", name)
    assert len(rows(log, "values")) == len(rows(whole, "values"))


@pytest.mark.parametrize("odd", ["[1.5, 2.5]", "(1.5, 2.5)", "(1.5, 2.5,)"])
def test_a_list_of_numbers_is_one_value_for_each_number(odd: str) -> None:
    log = iterations("22.029", odd)
    assert column(log, "values", "value", key="grad_norm_0") == [1.5] * 8
    assert column(log, "values", "value", key="grad_norm_1") == [2.5] * 8
    assert column(log, "steps", "grad_norm") == [None] * 8


def test_an_unexpected_text_is_kept_beside_the_column_of_numbers() -> None:
    log = iterations("22.029", "22.029 of 5")
    assert column(log, "steps", "grad_norm") == [None] * 8
    assert column(log, "values", "text", key="grad_norm") == ["22.029 of 5"] * 8


@pytest.mark.parametrize(
    ("printed", "odd", "lost"),
    [
        (" loss scale: 131072.0 |", " some note 7 |", "loss_scale"),  # in the middle
        (" consumed samples:          256 |", " warm-up |", "consumed_samples"),  # in front of the first pair
        (" number of nan iterations:   0 |\n", " saved |\n", "number_of_nan_iterations"),  # behind the last pair
    ],
)
def test_a_text_that_is_no_pair_costs_only_itself(printed: str, odd: str, lost: str) -> None:
    whole, log = iterations(), iterations(printed, odd)
    assert log.done.lines["read"] == 8
    assert [without(r, "run") for r in rows(log, "steps")] == [without(r, "run") for r in rows(whole, "steps")]
    kept = [(r["line"], r["key"], r["value"]) for r in rows(log, "values")]
    assert kept == [(r["line"], r["key"], r["value"]) for r in rows(whole, "values") if r["key"] != lost]


def test_a_new_key_is_a_row_of_values() -> None:
    log = iterations(" loss scale: 131072.0 |", " loss scale: 131072.0 | bubble share: 0.125 |")
    assert column(log, "values", "value", key="bubble_share") == [0.125] * 8


# --- short lines --------------------------------------------------------------------------------------


def test_short_lines_of_llmc_need_no_learning_rate() -> None:
    log = read(b"s:0 tel:10.9893\ns:1 trl:10.81\ns:2 trl:10.34\n")
    assert log.done.formats == ["llmc"]
    assert [(r["step"], r["loss"]) for r in rows(log, "steps")] == [(1, 10.81), (2, 10.34)]
    assert column(log, "values", "value", key="val_loss") == [10.9893]


def test_short_lines_with_a_clock_behind_them() -> None:
    log = read(b"s:100 trl:5.881200 train_time:14022ms step_avg:155.80ms\n")
    assert [(r["step"], r["loss"], r["elapsed_s"]) for r in rows(log, "steps")] == [(100, 5.8812, 14.022)]
    assert column(log, "values", "value", key="step_avg") == [pytest.approx(0.1558)]


# --- speed runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["632378ms", "632.378s"])
def test_a_validation_of_a_speed_run_keeps_its_clock(clock: str) -> None:
    line = f"step:1480/1480 val_loss:3.2812 val_bpb:1.1 train_time:{clock} step_avg:427.28ms\n"
    got = {r["key"]: (r["step"], r["value"], r["unit"]) for r in rows(read(line.encode()), "values")}
    assert got == {
        "val_loss": (1480, 3.2812, None), "val_bpb": (1480, 1.1, None),
        "train_time": (1480, pytest.approx(632.378), "s"), "step_avg": (1480, pytest.approx(0.42728), "s"),
    }  # fmt: skip


# --- names of runs --------------------------------------------------------------------------------------

BENCHMARK = (
    "[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    "num_local_experts = {experts}, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)
LAST_STEPS = """\
STEP-90: step_time = 19.791136 ms, foward_time = 9.453856, backward_time = 10.226688, perf = 41.67 tflops.
STEP-91: step_time = 20.356064 ms, foward_time = 9.548768, backward_time = 10.695680, perf = 40.51 tflops.
STEP-92: step_time = 20.493536 ms, foward_time = 10.054880, backward_time = 10.305536, perf = 40.24 tflops.
STEP-93: step_time = 19.935231 ms, foward_time = 9.208832, backward_time = 10.604544, perf = 41.37 tflops.
STEP-94: step_time = 19.864575 ms, foward_time = 9.445376, backward_time = 10.306560, perf = 41.51 tflops.
STEP-95: step_time = 19.997695 ms, foward_time = 9.488384, backward_time = 10.397696, perf = 41.24 tflops.
STEP-96: step_time = 19.916800 ms, foward_time = 9.321472, backward_time = 10.483712, perf = 41.40 tflops.
STEP-97: step_time = 19.963265 ms, foward_time = 9.282944, backward_time = 10.529792, perf = 41.31 tflops.
STEP-98: step_time = 20.142079 ms, foward_time = 9.492480, backward_time = 10.537984, perf = 40.94 tflops.
STEP-99: step_time = 20.095999 ms, foward_time = 9.282560, backward_time = 10.682368, perf = 41.03 tflops.

 {system} {experts} [Summary] Average synchronized step_time = 20.055638217926024 ms, forward = 9.457955265045166 , \
backward = 10.477055931091309 .
"""


def test_a_summary_names_its_run_and_gives_all_averages() -> None:
    sweep = [(system, experts) for system in ("mix_moe", "fast_moe", "faster_moe") for experts in (4, 8, 16, 32, 64)]
    text = "".join((BENCHMARK + LAST_STEPS).format(system=s, experts=e) for s, e in sweep)
    log = read(text.encode())
    assert [r["label"] for r in rows(log, "runs")] == [f"{system} {experts}" for system, experts in sweep]
    assert log.done.lines["unread"] == 0
    summaries = [(r["key"], r["value"], r["window_first"], r["window_last"]) for r in rows(log, "summaries")]
    assert summaries[:3] == [
        ("step_time", pytest.approx(20.055638217926024 * MS), 90, 99),
        ("forward", pytest.approx(9.457955265045166 * MS), 90, 99),
        ("backward", pytest.approx(10.477055931091309 * MS), 90, 99),
    ]
    assert len(summaries) == 45


# --- what stands in front of a line, and behind it ----------------------------------------------------------

PREFIXES = [
    "[2024-09-16 22:59:19.287338][INFO][training_log:661] - ",
    "2024-09-16 22:59:19,287 - megatron.training - INFO - ",
    "2024-09-16 22:59:19,287 - megatron - INFO - ",
    "2024-09-16T22:59:19.287+00:00 INFO [main] train.py:661: ",
    "I0916 22:59:19.287338 1234 training.py:661] ",
    "INFO:root:",
    "worker-1: ",
    "node1 | ",
    "(MegatronActor pid=123, ip=10.0.0.1) ",
    "[20250916 12:00:00][rank-7/8][INFO ] [---------trainer.py:123] : ",
    "Sep 16 22:59:19 node-7 ",
]


def without_run(log: Reading, table: str) -> list[dict[str, Any]]:
    return [without(row, "run", "part", "printed_ns", "clock") for row in rows(log, table)]


CLOCKS = {"+00:00": "utc", "2024-09-16 ": "local", "20250916 ": "local", "I0916 ": "no_year", "Sep 16 ": "no_year"}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "line",
    [
        ITERATION.format(step=3),
        "STEP-3: step_time = 37.116943 ms, foward_time = 16.876465, backward_time = 19.885056, perf = 22.22 tflops.\n",
        "{'loss': 2.5, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'epoch': 0.5}\n",
    ],
)  # fmt: skip
def test_a_prefix_costs_nothing(prefix: str, line: str) -> None:
    bare, log = read(line.encode()), read((prefix + line).encode())
    assert log.done.lines == {"total": 1, "read": 1, "context": 0, "unread": 0}
    ranks = ("rank", "rank_by") if "rank-7/8" in prefix else ()
    for table in ("steps", "values"):
        assert [without(row, *ranks) for row in without_run(log, table)] == [
            without(row, *ranks) for row in without_run(bare, table)
        ]
    if ranks:
        assert (column(log, "steps", "rank"), column(log, "runs", "world_size")) == ([7], [8])
    (clock,) = column(log, "steps", "clock")
    assert clock == next((clock for shown, clock in CLOCKS.items() if shown in prefix), None)


@pytest.mark.parametrize(
    "prefix",
    ["# ", "print('", "for example ", "Best result so far: the run with ", '"', "x = ", "the last line was "],
)
def test_a_known_line_inside_prose_or_source_code_is_no_record(prefix: str) -> None:
    step = (
        "STEP-{}: step_time = 37.116943 ms, foward_time = 16.876465, backward_time = 19.885056, perf = 22.22 tflops.\n"
    )
    log = read((step.format(1) + prefix + step.format(2)).encode())
    assert column(log, "steps", "step") == [1]
    assert log.done.lines["unread"] == 1


MEMORY = (
    "[Rank {rank}] (after 10 iterations) memory (MB) | allocated: {rank}.5 | max allocated: {rank}.75 | reserved: 96.0"
)


def test_the_memory_of_a_rank_needs_no_prefix() -> None:
    log = read((ITERATION.format(step=10) + MEMORY.format(rank=51) + "\n").encode())
    got = [(r["rank"], r["step"], r["key"], r["value"]) for r in rows(log, "values") if r["rank"] is not None]
    assert got == [
        (51, 10, "allocated", 51.5 * 2**20), (51, 10, "max_allocated", 51.75 * 2**20), (51, 10, "reserved", 96 * 2**20),
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [(51, 49), (3, 1, 2)])
@pytest.mark.parametrize("prefix", ["", "[INFO] "])
def test_glued_records_give_each_rank_its_own_memory(ranks: tuple[int, ...], prefix: str) -> None:
    """Their line feeds follow: two texts, two line feeds. So no number is torn."""
    text = "".join(prefix + MEMORY.format(rank=rank) for rank in ranks)
    log = read((ITERATION.format(step=10) + text + "\n" * len(ranks) + ITERATION.format(step=11)).encode())
    got = {(r["rank"], r["key"]): r["value"] for r in rows(log, "values") if r["rank"] is not None}
    assert got == {
        (rank, key): value * 2**20
        for rank in ranks
        for key, value in (("allocated", rank + 0.5), ("max_allocated", rank + 0.75), ("reserved", 96.0))
    }
    assert log.done.lines["unread"] == 0


def test_glued_records_of_different_families() -> None:
    """Their two line feeds follow, so that the first one is whole."""
    text = ITERATION.format(step=10).rstrip("\n") + "time (ms) | forward-compute: 2720.02 | optimizer: 77.63\n\n"
    log = read(text.encode())
    assert column(log, "steps", "step") == [10]
    assert [(r["phase"], r["step"]) for r in rows(log, "phases")] == [("forward_compute", 10), ("optimizer", 10)]


def test_glued_objects() -> None:
    line = "{'loss': %s, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'epoch': 0.5}"
    bar = "  3%|#3        | 14/469 [00:01<00:35, 12.9it/s]"
    log = read((line % 2.5 + line % 2.25 + "\n" + bar + line % 2.0 + bar + line % 1.75 + "\n").encode())
    assert column(log, "steps", "loss") == [2.5, 2.25, 2.0, 1.75]


def test_a_bar_in_front_of_the_timers_of_a_rank() -> None:
    bar = "100%|██████████| 4854/4854 [2:16:02<00:00,  1.39s/it]"
    log = read((ITERATION.format(step=10) + bar + "[Rank 0] time (ms) | forward-compute: 2720.02\n").encode())
    assert [(r["phase"], r["rank"], r["time_s"]) for r in rows(log, "phases")] == [
        ("forward_compute", 0, pytest.approx(2.72002))
    ]


@pytest.mark.parametrize("tail", [" | mem 5.5 GiB", ", eta: 0:10:00", " (best)", "  # warm-up", " eta=10"])
def test_what_stands_behind_a_line_costs_only_itself(tail: str) -> None:
    line = "step    1/10 | train loss 5.270009 | norm 30.6671 | lr 1.00e-04 | (2495.40 ms | 102 tok/s)"
    bare, log = read(f"{line}\n".encode()), read(f"{line}{tail}\n".encode())
    assert log.done.lines["read"] == 1
    assert without_run(log, "steps") == without_run(bare, "steps")


def test_a_unit_behind_a_number_is_no_comment() -> None:
    line = b"forward:  11.741\nSTEP-0: step_time = 1.0 ms, foward_time = 0.4, backward_time = 0.5, perf = 1.0 tflops.\n"
    found = read(line.replace(b"11.741", b"11.741 s"))
    assert [(row["line"], row["key"], row["value"]) for row in rows(found, "values")] == [(1, "forward", 11.741)]
    assert [row["line"] for row in rows(found, "steps")] == [2] and not rows(found, "phases")


def test_a_missing_number_of_a_line_costs_only_itself() -> None:
    line = "step    {}/10 | train loss 5.270009 | norm {} | lr 1.00e-04 | (2495.40 ms | 102 tok/s)\n"
    log = read((line.format(1, "30.6671") + line.format(2, "None") + line.format(3, "30.5")).encode())
    assert [(r["step"], r["grad_norm"], r["loss"]) for r in rows(log, "steps")] == [
        (1, 30.6671, 5.270009), (2, None, 5.270009), (3, 30.5, 5.270009),
    ]  # fmt: skip


@pytest.mark.parametrize("odd", ["block_info 228 16 | done", "[INFO] block_info 228 16", "block_info 228 -"])
def test_an_odd_line_takes_no_rank_from_others_of_its_kind(odd: str) -> None:
    """Ranks of these lines are proved by votes, in which all of them take part, in whatever shape they are printed."""
    log = (DATA / "moe_layer.txt").read_text()
    at = log.index("block_info 228 16\n")
    bare, changed = read(log.encode()), read((log[:at] + odd + log[at + len("block_info 228 16") :]).encode())
    ranks = [[(r["line"], r["phase"], r["rank"]) for r in rows(each, "phases")] for each in (bare, changed)]
    assert sum(rank is not None for _, _, rank in ranks[0]) > 100
    assert [row for row in ranks[1] if row in ranks[0]] == ranks[1] and len(ranks[0]) - len(ranks[1]) <= 1


def test_lines_whose_keys_are_texts_vote_together_too() -> None:
    log = (DATA / "pipeline_layers.txt").read_text()
    line = next(line for line in log.splitlines() if line.startswith("  layer["))
    bare, changed = read(log.encode()), read(log.replace(f"{line}\n", f"{line} | slow\n", 1).encode())
    assert changed.done.lines["unread"] == bare.done.lines["unread"] == 0
    assert without_run(changed, "layers") == without_run(bare, "layers")


def test_a_known_line_after_a_prefix_is_of_its_program() -> None:
    """The lines of any program read it, too, and named its numbers after the words before them."""
    lines = (
        "Latency: min = 0.8 ms, max = 1.2 ms, mean = 0.9 ms, median = 0.8 ms, percentile(99%) = 1.1 ms",
        "GPU Compute Time: min = 0.7 ms, max = 1.1 ms, mean = 0.8 ms, median = 0.7 ms, percentile(99%) = 0.9 ms",
        "Total Host Walltime: 3.00213 s",
    )
    for prefix in ("[10/14/2025-09:12:33] [I] ", "[2026-03-01 10:00:01] [INFO] ", "trt-bench-1  | "):
        log = read("".join(f"{prefix}{line}\n" for line in lines).encode())
        keys = [row["key"] for row in log.rows("values")]
        assert keys == [f"{of}_{x}" for of in ("latency", "gpu_compute_time") for x in _STATISTICS] + ["host_walltime"]


_STATISTICS = ("min", "max", "mean", "median", "p99")
