"""Figures of evaluations and of starts, as real programs print them: COCO, MetricLogger, Hugging Face, Megatron."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.reading import Reading, read

METRIC_LOGGER = (
    "Epoch: [0]  [  20/4572]  eta: 0:08:23  loss: 2.3456 (2.5678)  time: 0.1100  data: 0.0004  max mem: 20009"
)


def of(*lines: str) -> Reading:
    return read("".join(f"{line}\n" for line in lines).encode())


def values(log: Reading) -> list[tuple[str, float, str | None]]:
    rows = sorted(log.rows("values"), key=lambda row: row["line"])
    return [(row["key"], row["value"], row["unit"]) for row in rows]


def config_of(log: Reading) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(log.rows("runs")[0]["config"])
    return config


def unread(log: Reading) -> int:
    return int(log.done.figures["unread"])


def test_coco_average_precision_and_recall() -> None:
    log = of(
        "Done (t=0.67s)",
        "DONE (t=2.02s).",
        " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.24441",
        " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 0.37057",
        " Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets= 10 ] = -1.000",
    )
    assert values(log) == [
        ("coco_load_time", 0.67, "s"),
        ("coco_evaluation_time", 2.02, "s"),
        ("AP_IoU_0_50_0_95_area_all_maxDets_100", 0.24441, None),
        ("AP_IoU_0_50_area_all_maxDets_100", 0.37057, None),
        ("AR_IoU_0_50_0_95_area_small_maxDets_10", -1.0, None),
    ]
    assert unread(log) == 0


def test_evaluation_lines_of_metric_logger_are_values_and_no_steps() -> None:
    log = of(
        METRIC_LOGGER,
        "Epoch: [0] Total time: 0:08:31 (0.1119 s / it)",
        "Test:  [20/97]  eta: 0:00:24  model_time: 0.3029 (0.3081)  time: 0.3083  data: 0.0008  max mem: 20009",
        "Test: Total time: 0:00:30 (0.3114 s / it)",
        "Averaged stats: model_time: 0.3044 (0.3114)  acc1: 75.5000 (74.2500)",
    )
    assert [(row["step"], row["loss"], row["step_time_s"]) for row in log.rows("steps")] == [(20, 2.3456, 0.11)]
    found = {key: (value, unit) for key, value, unit in values(log)}
    assert found["loss_mean"] == (2.5678, None)
    assert found["test_model_time"] == (0.3029, "s") and found["test_model_time_mean"] == (0.3081, "s")
    assert found["test_time"] == (0.3083, "s") and found["test_max_mem"] == (20009 * 2.0**20, "B")
    assert found["test_iteration_time"] == (0.3114, "s")
    assert found["averaged_acc1"] == (75.5, None) and found["averaged_acc1_mean"] == (74.25, None)
    totals = [(value, unit) for key, value, unit in values(log) if key == "Total_time"]
    assert totals == [(511.0, "s"), (30.0, "s")]
    assert unread(log) == 0


def test_metrics_of_hugging_face_below_their_rule() -> None:
    log = of(
        "***** train metrics *****",
        "  epoch                    =        3.0",
        "  total_flos               =    18980GF",
        "  train_runtime            = 0:02:03.50",
        "  train_samples_per_second =   7335.823",
        "  init_mem_gpu_alloc_delta =      230MB",
        "  eval_runtime             = 1 day, 0:00:01.00",
    )
    assert values(log) == [
        ("epoch", 3.0, None),
        ("total_flos", 18980 * 2.0**30, None),
        ("train_runtime", 123.5, "s"),
        ("train_samples_per_second", 7335.823, None),
        ("init_mem_gpu_alloc_delta", 230 * 2.0**20, "B"),
        ("eval_runtime", 86401.0, "s"),
    ]
    assert unread(log) == 0


def test_the_start_of_megatron() -> None:
    log = of(
        "using world size: 4, data-parallel-size: 2, tensor-model-parallel size: 2, pipeline-model-parallel size: 1 ",
        "setting number of micro-batches to constant 16",
        " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)",
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 0): 550576128",
        "time to initialize megatron (seconds): 69.498",
        "    train:      439452928",
        "     document indices in [17511, 17868) total of 357 documents",
        " > building shuffle index with split [0, 439269659) and [439269659, 440041662) ...",
    )
    config = config_of(log)
    assert (config["world_size"], config["tensor_model_parallel_size"], config["num_micro_batches"]) == (4, 2, 16)
    assert (config["tokenizer_vocab_size"], config["dummy_tokens"], config["padded_vocab_size"]) == (50257, 47, 50304)
    assert values(log) == [
        ("initialize", 69.498, "s"),
        ("train_target_samples", 439452928.0, None),
        ("first_document", 17511.0, None),
        ("end_document", 17868.0, None),
        ("documents_of_split", 357.0, None),
        ("samples_of_whole_epochs", 439269659.0, None),
        ("samples_of_all_epochs", 440041662.0, None),
    ]
    assert log.done.figures == {"total": 20, "stored": 16, "dropped": 4, "unread": 0}


def test_stores_and_retrievals_of_lmcache() -> None:
    log = of(
        "[2025-12-14 16:18:24,320] LMCache INFO: Reqid: chatcmpl-9, Total tokens 497, LMCache hit tokens: 256, need to "
        "load: -240 (vllm_v1_adapter.py:1544:lmcache.integration.vllm.vllm_v1_adapter)",
        "(EngineCore_DP0 pid=3284044) [2025-10-20 08:56:03,520] LMCache INFO: Stored 14 out of total 14 tokens. size: "
        "0.0019 gb, cost 1.0830 ms, throughput: 1.7753 GB/s; offload_time: 1.0501 ms, put_time: 0.0328 ms "
        "(cache_engine.py:294:lmcache.v1.cache_engine)",
        "[2025-11-19 23:24:47,312] LMCache INFO: Retrieved 768 tokens in 0.001 seconds (server.py:341:__main__)",
    )
    found = {key: (value, unit) for key, value, unit in values(log)}
    assert found["hit_tokens"] == (256.0, None) and found["tokens_to_load"] == (-240.0, None)
    assert found["store_time"] == (0.001083, "s") and found["stored_tokens"] == (14.0, None)
    assert found["retrieved_tokens"] == (768.0, None) and found["retrieve_time"] == (0.001, "s")
    assert unread(log) == 0


def test_memory_of_devices_as_maxtext_prints_it() -> None:
    log = of(
        "I0317 10:00:12.743352 125344476638336 max_utils.py:706]         Using (GB) 5.86 / 31.25 (18.752000%) on "
        "TPU_7(process=0,(1,3,0,0))",
        "completed step: 1, seconds: 0.277, TFLOP/s/device: 370.707, Tokens/s/device: 14774.896, loss: 12.939",
    )
    rows = [(row["name"], row["value"], row["unit"], row["device_name"]) for row in log.rows("counters")]
    device = "TPU_7(process=0,(1,3,0,0))"
    assert rows == [
        ("memory_in_use", 5.86 * 2**30, "B", device),
        ("memory_limit", 31.25 * 2**30, "B", device),
    ]
    assert unread(log) == 0


def test_bars_in_front_of_words_and_of_known_lines_are_apart() -> None:
    bar = "100%|█████████▉| 4853/4854 [2:16:00<00:01,  1.62s/it]"
    log = of(METRIC_LOGGER, f"{bar}{bar}Saved to ./qwen3-lora", f"{bar}{METRIC_LOGGER}")
    assert log.done.lines["unread"] == 0 and unread(log) == 0
    log = of(METRIC_LOGGER, f"{bar}best accuracy 0.75")
    assert unread(log) == 1  # the text could be a result


def test_arguments_of_argparse_are_settings() -> None:
    arguments = "batch_size=32, lr=8.5e-05, jit=True, image_size=[800, 800], dist_url='env://', resume=''"
    log = of(f"Namespace({arguments})", METRIC_LOGGER)
    config = config_of(log)
    assert (config["batch_size"], config["lr"]) == (32, 8.5e-05)
    assert unread(log) == 0


def test_the_process_in_a_prefix_of_open_mpi_is_no_figure() -> None:
    log = of(METRIC_LOGGER, "[292KF14:370483] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168")
    assert log.done.lines["unread"] == 1 and unread(log) == 0  # the error itself is to be seen


def test_the_launcher_and_the_data_of_torchtitan_on_aurora() -> None:
    start = "[2025-09-11 14:09:18,394736][I]"
    log = of(
        f"{start}[components/metrics:437:log] step:  2  loss: 14.4458  grad_norm: 41.7880  tps: 6,697  mfu: 20.84%",
        f"{start}[ezpz/pbs:188:get_pbs_launch_cmd] ✅ Using [24/24] GPUs [2 hosts] x [12 GPU/host]",
        f"{start}[ezpz/dist:1448:setup_torch] ['x4112c1s1b0n0'][13/23]",
        "cpubind:list x4112c1s1b0n0 pid 132745 rank 13 1: mask 0x1c00",
        f"{start}[data/blendable_dataset:126:__init__] > size of blendable dataset: 24124 samples",
        "   dataset 0, input: 0.828387, achieved: 0.828386",
        f"{start}[tools/utils:63:collect] [GC] Performing periodical GC collection 0.01 seconds",
        "took: 1h:00m:04s",
    )
    assert sorted(log.done.formats) == ["blendcorpus", "ezpz", "torchtitan"]
    config = config_of(log)
    assert (config["num_gpus"], config["num_hosts"], config["num_gpus_per_host"]) == (24, 2, 12)
    found = {key: (value, unit) for key, value, unit in values(log)}
    assert found["blend_samples"] == (24124.0, None) and found["gc"] == (0.01, "s")
    assert (found["input_weight"], found["achieved_weight"]) == ((0.828387, None), (0.828386, None))
    assert found["took"] == (3604.0, "s")
    assert unread(log) == 0


def test_statistics_of_timed_parts_are_rows_of_kernels() -> None:
    log = of("  forward               mean=  34.416 ms  std=  4.611 ms  min=  33.006 ms  max= 148.198 ms")
    (row,) = log.rows("kernels")
    assert (row["name"], row["kind"], row["read_by"]) == ("forward", "range", None)
    assert [row[f"{name}_s"] for name in ("avg", "stddev", "min", "max")] == [
        pytest.approx(ms / 1000) for ms in (34.416, 4.611, 33.006, 148.198)
    ]


def test_a_date_with_a_time_without_colons_is_no_figure() -> None:
    log = of(METRIC_LOGGER, "[2025-09-11-140842][I][/home/ezpz/bin/utils.sh:1776] set", "#[09/11/25 @ 14:08:35][x41]")
    assert log.done.lines["unread"] == 2 and unread(log) == 0


def test_figures_with_a_constant_key_are_rows() -> None:
    document = {
        "lm loss": {"start_step": 1, "end_step": 2, "step_interval": 1, "values": {"1": 10.5, "2": 10.25}},
        "num-zeros": {"start_step": 1, "end_step": 2, "step_interval": 1, "values": {"1": 19403.0, "2": 19500.0}},
        "mem-allocated-bytes": {"start_step": 1, "end_step": 2, "step_interval": 1, "values": {"1": 2048.0}},
    }
    log = read(json.dumps(document, indent=4).encode())
    found = [(row["step"], row["key"], row["value"], row["unit"]) for row in log.rows("values")]
    assert sorted(found) == [
        (1, "lm_loss", 10.5, None),
        (1, "mem_allocated_bytes", 2048.0, "B"),
        (1, "num_zeros", 19403.0, None),
        (2, "lm_loss", 10.25, None),
        (2, "num_zeros", 19500.0, None),
    ]


def test_slowdowns_of_the_straggler_analysis() -> None:
    document = {
        "step_t_base": {"23": 2.5, "25": 2.25},
        "blocking_slowdown": 1.1787,
        "blocking_decompose_by_stage": {"3": 1.2322, "0": 0.998},
        "launch_decompose_by_stage": None,
        "blocking_decompose_by_dp_rank_per_step": {"23": {"0": 1.2692, "1": 1.2679}},
        "blocking_decompose_by_optype_per_step": {"23": {"forward-compute": 1.073}},
    }
    log = read(json.dumps(document, indent=2).encode())
    found = [(row["step"], row["key"], row["value"], row["unit"]) for row in log.rows("values")]
    assert (23, "step_t_base", 2.5, "s") in found and (25, "step_t_base", 2.25, "s") in found
    of_whom = [(row["step"], row["stage"], row["dp_rank"], row["value"]) for row in log.rows("values")]
    assert (None, 3, None, 1.2322) in of_whom and (23, None, 1, 1.2679) in of_whom
    assert len(found) == 8 and {"stage", "dp_rank"}.isdisjoint(key for _, key, _, _ in found)
    assert (23, "forward_compute", 1.073, None) in found
    assert (None, "blocking_slowdown", 1.1787, None) in found
    assert unread(log) == 0
