"""Figures of known formats that are stored, not thrown away: DeepSpeed, llm.c, NeMo, FastMoE, progress bars."""

from __future__ import annotations

import pytest
from support.field_logs import both, column, config, corpus, cut, rows, unread, unread_figures
from support.reading import read


def test_learning_rates_of_all_groups_of_deepspeed() -> None:
    log = read(b"""\
[2022-09-19 00:23:38,746] [INFO] [logging.py:68:log_dist] [Rank 0] step=20, skipped=0, \
lr=[1.19537664e-05, 2.39e-05], mom=[(0.9, 0.95), (0.9, 0.95)]
[2023-11-02 05:11:23,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=1, lr=[1.9e-05], mom=[[0.9, 0.95]]
""")
    assert [(r["step"], r["rank"], r["key"], r["value"]) for r in rows(log, "values") if "rate" in r["key"]] == [
        (20, 0, "learning_rate[0]", 1.19537664e-05), (20, 0, "learning_rate[1]", 2.39e-05),
        (30, 0, "learning_rate[0]", 1.9e-05),
    ]  # fmt: skip
    assert column(log, "values", "text", key="momentum") == ["(0.9, 0.95), (0.9, 0.95)", "[0.9, 0.95]"]
    assert (unread(log), unread_figures(log)) == ({}, 0)


def test_memory_that_deepspeed_prints() -> None:
    log = read(b"""\
[2022-09-19 00:20:21,564] [INFO] [utils.py:827:see_memory_usage] Before Building Model
[2022-09-19 00:20:21,565] [INFO] [utils.py:832:see_memory_usage] MA 0.36 GB         Max_MA 0.5 GB         \
CA 0.37 GB         Max_CA 0 GB \n\
[2022-09-19 00:20:21,566] [INFO] [utils.py:837:see_memory_usage] CPU Virtual Memory:  used = 24.54 GB, percent = 4.9%
[2023-02-03 10:01:33,313] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time (ms) | forward: 1330.05 \
| mem_allocated: 1.2345 GB | max_mem_allocated: 2.0000 GB
""")
    assert [(r["key"], r["value"]) for r in rows(log, "values")] == [
        ("memory_allocated", 0.36 * 2**30), ("max_memory_allocated", 2**29), ("memory_cached", 0.37 * 2**30),
        ("max_memory_cached", 0), ("host_memory", 24.54 * 2**30), ("host_memory_share", pytest.approx(0.049)),
        ("memory_allocated", 1.2345 * 2**30), ("max_memory_allocated", 2 * 2**30),
    ]  # fmt: skip
    assert column(log, "phases", "phase") == ["forward"]  # memory is no time
    assert (unread(log), unread_figures(log)) == ({}, 0)


def test_memory_that_megatron_expects_before_the_first_step() -> None:
    log = read(b"""\
Activation memory footprint per transformer layer (precise, without SP): 53.5 MB
Theoretical memory footprints: weight and optimizer=26699.5 MB, activation=2785.25 MB, total=29484.75 MB
Total number of parameters in billions: 1.56
Number of parameters in most loaded shard in billions: 1.5554
Number of parameters in other shards in billions: 0.8096
 [2024-08-22 05:08:59] iteration        1/  100000 | consumed samples:            8 | \
elapsed time per iteration (ms): 4500.0 | learning rate: 3.0E-06 | global batch size:     8 | lm loss: 1.25E+01 |
""")
    mib = 2**20
    assert {r["key"]: (r["value"], r["unit"]) for r in rows(log, "values") if r["step"] is None} == {
        "theoretical_layer_memory": (53.5 * mib, "B"), "theoretical_weight_memory": (26699.5 * mib, "B"),
        "theoretical_activation_memory": (2785.25 * mib, "B"), "theoretical_memory": (29484.75 * mib, "B"),
        "parameters_billions": (1.56, None), "most_loaded_shard_billions": (1.5554, None),
        "other_shards_billions": (0.8096, None),
    }  # fmt: skip
    assert (log.done.formats, unread(log), unread_figures(log)) == (["megatron"], {}, 0)


def test_counters_of_deepspeeds_throughput() -> None:
    log = read(
        b"[2023-11-02 05:11:23,123] [INFO] [timer.py:260:stop] epoch=1/micro_step=40/global_step=10, "
        b"RunningAvgSamplesPerSec=23.8443, CurrSamplesPerSec=23.8354, MemAllocated=13.25GB, MaxMemAllocated=17.95GB\n"
    )
    values = {r["key"]: r["value"] for r in rows(log, "values", step=10)}
    assert (values["epoch"], values["micro_step"]) == (1, 40)
    (step,) = rows(log, "steps", step=10)
    assert (step["samples_per_s"], step["memory_bytes"]) == (23.8354, 13.25 * 2**30)
    assert unread_figures(log) == 0


@both
def test_modules_of_deepspeeds_profile(whole: bool) -> None:
    log = corpus("deepspeed/OA") if whole else cut("deepspeed_profile")
    modules = len(rows(log, "layers"))
    for key in ("module_parameters", "module_macs", "module_tflops"):
        assert len(column(log, "values", "value", key=key)) == modules
    assert column(log, "values", "value", key="module_macs")[0] == pytest.approx(9123.92e9)
    assert unread_figures(log) == 0


def test_the_rest_of_llmc() -> None:
    log = read(b"""\
| num_parameters        | 124475904                                          |
=> setting grad_accum_steps=4
num_parameters: 124475904 => bytes: 248951808
step    1/10 | loss 11.032358 (+nanz)| norm 22.1414 (+nanz)| lr 8.57e-07 | 2495.40 ms | 40.3% bf16 MFU | 210102 tok/s
skipping update due to grad z-score of 7.512345
HellaSwag: 2998/10042 = 0.298546
final 9 iters avg: 2497.246ms
""")
    values = {r["key"]: r["value"] for r in rows(log, "values") if r["step"] is None}
    assert values == {
        "skipped_update_z": 7.512345, "hellaswag_right": 2998, "hellaswag_asked": 10042, "hellaswag": 0.298546,
    }  # fmt: skip
    assert config(log)["grad_accum_steps"] == 4
    assert (len(rows(log, "runs")), unread_figures(log)) == (1, 0)


def test_iteration_of_nemo_and_spread_of_fastmoe() -> None:
    nemo = read(b"Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: 145 | "
                b"reduced_train_loss: 11.96 | train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03\n")  # fmt: skip
    assert (column(nemo, "values", "value", key="iteration"), column(nemo, "steps", "tflops")) == ([45], [1249])
    fastmoe = read(b"Performance test of FMoETransformerMLP mm size 4096 1024x4096 experts 4x64 topk 2\n"
                   b"Time mean/max/stdev/back 9.471 9.702 0.003 17.218 ms, 14568.731 GFLOPs\n")  # fmt: skip
    assert column(fastmoe, "values", "value", key="stdev") == [0.003]
    assert unread_figures(nemo) == unread_figures(fastmoe) == 0


def test_a_bar_in_front_of_a_line_of_hf_trainer_gives_its_step() -> None:
    log = read("100%|█████████▉| 4840/4854 [2:15:39<00:24,  1.73s/it]   {'loss': 1.112, 'learning_rate': 3.09e-07, "
               "'grad_norm': 0.29, 'epoch': 2.99}\n".encode())  # fmt: skip
    assert (column(log, "steps", "step"), column(log, "steps", "loss")) == ([4840], [1.112])
    assert (log.done.figures["dropped"], unread_figures(log)) == (2, 0)  # share and clock of the bar


def test_settings_of_torchtitan() -> None:
    log = read(b"""\
[titan] 2025-11-25 19:44:57,001 - root - INFO - CUDA capacity: NVIDIA H100 with 95.00GiB memory
[titan] 2025-11-25 19:44:57,002 - root - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]
[titan] 2025-11-25 19:44:57,003 - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters
[titan] 2025-11-25 19:44:57,004 - root - INFO - Peak FLOPS used for computing MFU: 9.890e+14
[titan] 2025-11-25 19:44:57,005 - root - INFO - CUDA memory usage for model: 3.77GiB(3.97%)
[titan] 2025-11-25 19:44:58,838 - root - INFO - Trainer is initialized with local batch size 8, global batch size 64, \
gradient accumulation steps 1, sequence length 2048, total steps 10 (warmup 2)
[titan] 2025-11-25 19:44:58,838 - root - INFO - Training starts at step 1
[titan] 2025-11-25 19:45:01,441 - root - INFO - step:  1  loss:  8.0277  grad_norm:  1.4604  memory:  1.21GiB(0.86%)  \
tps: 5,756  tflops: 0.41  mfu: 0.04%
""")
    assert config(log) == {
        "device": "NVIDIA H100", "device_memory_GiB": 95, "mesh": "'dp_shard', 'tp'", "mesh_sizes": "4, 2",
        "model": "llama3 8B", "parameters": 8030261248, "peak_flops": 9.89e14, "local_batch_size": 8,
        "global_batch_size": 64, "gradient_accumulation_steps": 1, "sequence_length": 2048, "steps": 10,
        "warmup_steps": 2, "first_step": 1,
    }  # fmt: skip
    assert column(log, "values", "value", key="model_memory") == [3.77 * 2**30]
    assert (unread(log), unread_figures(log)) == ({}, 0)


def test_what_deepspeed_reports_at_the_start() -> None:
    log = read(b"""\
torch version .................... 1.9.0+cu111
torch cuda version ............... 11.1
deepspeed info ................... 0.7.3+15923810, 15923810, master
deepspeed wheel compiled w. ...... torch 1.9, cuda 11.1
[2022-09-19 00:20:21,592] [INFO] [logging.py:68:log_dist] [Rank 0] Creating MoE layer with num_experts: 64 \
| num_local_experts: 16 | expert_parallel_size: 4
[2022-09-19 00:20:21,711] [INFO] [logging.py:68:log_dist] [Rank 0] Creating expert data parallel process group \
named ep_size_4 with ranks: [0]
[2022-09-19 01:19:01,806] [INFO] [timer.py:207:stop] 0/10, RunningAvgSamplesPerSec=23.8, CurrSamplesPerSec=23.9, \
MemAllocated=13.25GB, MaxMemAllocated=17.95GB
""")
    said = config(log)
    assert (said["num_experts"], said["num_local_experts"], said["expert_parallel_size"]) == (64, 16, 4)
    assert (unread(log), unread_figures(log)) == ({}, 0)


def test_bars_of_lightning_are_steps_of_their_epoch() -> None:
    log = read(
        b"Epoch 0:   0%|          | 0/938 [00:00<?, ?it/s]\r"
        b"Epoch 0:  10%|#         | 94/938 [00:00<00:07, 110.21it/s, v_num=0, train_loss=0.512]\r"
        b"Epoch 0:  11%|#         | 95/938 [00:00<00:07, 110.30it/s, v_num=0, train_loss=0.510]\n"
        b"Validation DataLoader 0: 100%|##########| 10/10 [00:00<00:00, 50.12it/s]\n"
        b"Epoch 1:  10%|#         | 94/938 [01:10<00:00,  1.57s/it, loss=1.23, v_num=5]\n"
    )
    assert [(r["epoch"], r["step"], r["loss"], r["copy"]) for r in rows(log, "steps")] == [
        (0, 94, 0.512, 1), (0, 95, 0.51, 1), (1, 94, 1.23, 1),
    ]  # fmt: skip
    assert (config(log)["batches"], log.done.formats, unread(log), unread_figures(log)) == (938, ["bars"], {}, 0)
