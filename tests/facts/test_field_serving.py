"""Serving benchmarks and servers of vLLM and SGLang, and DeepSpeed-Chat: every figure that they print is stored."""

from __future__ import annotations

import pytest
from support.field_logs import config, rows, unread, unread_figures
from support.reading import Reading, read

from perflog.errors import InputError


def summaries(log: Reading, run: int = 0) -> dict[str, float]:
    """The summaries of one run, by key."""
    return {r["key"]: r["value"] for r in rows(log, "summaries", run=rows(log, "runs")[run]["run"])}


# --- the report of the serving benchmark ------------------------------------------------------------------------------

VLLM = b"""\
Namespace(subparser='bench', bench_type='serve', seed=0, num_prompts=200, max_concurrency=4)
Starting initial single prompt test run...
Initial test run completed. Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: 4
100%|##########| 200/200 [03:04<00:00,  1.09it/s]
============ Serving Benchmark Result ============
Successful requests:                     200       \n\
Failed requests:                         0         \n\
Maximum request concurrency:             4         \n\
Benchmark duration (s):                  184.01    \n\
Total input tokens:                      49360     \n\
Total generated tokens:                  42866     \n\
Request throughput (req/s):              1.09      \n\
Output token throughput (tok/s):         232.95    \n\
Peak output token throughput (tok/s):    249.00    \n\
Peak concurrent requests:                11.00     \n\
Total token throughput (tok/s):          501.19    \n\
---------------Time to First Token----------------
Mean TTFT (ms):                          65.96     \n\
Median TTFT (ms):                        52.74     \n\
P99 TTFT (ms):                           129.83    \n\
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          16.48     \n\
P99 TPOT (ms):                           19.06     \n\
---------------Inter-token Latency----------------
Mean ITL (ms):                           16.34     \n\
---------------Speculative Decoding---------------
Acceptance rate (%):                     13.57
Acceptance length:                       1.41
Drafts:                                  1810
Draft tokens:                            5430
Accepted tokens:                         737
Per-position acceptance (%):
  Position 0:                            37.79
  Position 1:                            2.54
==================================================
"""

EARLY = b"""\
Traffic request rate: 10.0
============ Serving Benchmark Result ============
Successful requests:                     200       \n\
Benchmark duration (s):                  201.75    \n\
Total input tokens:                      42659     \n\
Total generated tokens:                  40376     \n\
Request throughput (req/s):              0.99      \n\
Input token throughput (tok/s):          211.44    \n\
Output token throughput (tok/s):         200.13    \n\
---------------Time to First Token----------------
Mean TTFT (ms):                          28.72     \n\
Median TTFT (ms):                        28.00     \n\
P99 TTFT (ms):                           58.57     \n\
==================================================
"""

SGLANG = b"""\
benchmark_args=Namespace(backend='sglang', num_prompts=100, request_rate=inf)
#Input tokens: 26497
#Output tokens: 25820
Starting warmup with 1 sequences...
Warmup completed with 1 sequences. Starting main benchmark run...

============ Serving Benchmark Result ============
Backend:                                 sglang    \n\
Traffic request rate:                    inf       \n\
Max request concurrency:                 not set   \n\
Successful requests:                     100       \n\
Benchmark duration (s):                  17.82     \n\
Total input tokens:                      26497     \n\
Total input text tokens:                 26497     \n\
Total input vision tokens:               0         \n\
Total generated tokens:                  25820     \n\
Total generated tokens (retokenized):    25811     \n\
Request throughput (req/s):              5.61      \n\
Input token throughput (tok/s):          1486.90   \n\
Concurrency:                             14.45     \n\
Accept length:                           2.93      \n\
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   2574.53   \n\
---------------Inter-Token Latency----------------
P95 ITL (ms):                            12.01     \n\
Max ITL (ms):                            812.40    \n\
==================================================
"""


def test_each_report_is_a_run_with_the_settings_above_it() -> None:
    log = read(VLLM + EARLY + SGLANG)
    assert (len(rows(log, "runs")), {*log.done.formats}, unread(log)) == (3, {"serving_benchmark", "bars"}, {})
    assert [(config(log, k).get("request_rate"), config(log, k).get("max_concurrency")) for k in range(3)] == [
        ("inf", "4"), ("10.0", None), ("inf", "not set"),
    ]  # fmt: skip
    assert config(log, 2)["backend"] == "sglang"
    assert (config(log, 2)["input_tokens"], config(log, 2)["warmup_requests"]) == (26497, 1)


def test_all_figures_of_a_report_of_vllm() -> None:
    log = read(VLLM)
    assert summaries(log) == pytest.approx({
        "Successful_requests": 200, "Failed_requests": 0, "Benchmark_duration": 184.01, "Total_input_tokens": 49360,
        "Total_generated_tokens": 42866, "Request_throughput": 1.09, "Output_token_throughput": 232.95,
        "Peak_output_token_throughput": 249, "Peak_concurrent_requests": 11, "Total_token_throughput": 501.19,
        "Mean_TTFT": 65.96e-3, "Median_TTFT": 52.74e-3, "P99_TTFT": 129.83e-3, "Mean_TPOT": 16.48e-3,
        "P99_TPOT": 19.06e-3, "Mean_ITL": 16.34e-3, "Acceptance_rate": 0.1357, "Acceptance_length": 1.41,
        "Drafts": 1810, "Draft_tokens": 5430, "Accepted_tokens": 737, "Position_0": 0.3779, "Position_1": 0.0254,
    })  # fmt: skip
    units = {r["key"]: r["unit"] for r in rows(log, "summaries")}
    assert (units["Mean_TTFT"], units["Request_throughput"], units["Drafts"]) == ("s", "1/s", None)


def test_figures_of_early_versions_and_of_sglang() -> None:
    early, sglang = summaries(read(EARLY)), summaries(read(SGLANG))
    assert (early["Input_token_throughput"], early["P99_TTFT"], len(early)) == pytest.approx((211.44, 58.57e-3, 10))
    assert (sglang["Mean_E2E_Latency"], sglang["P95_ITL"]) == pytest.approx((2.57453, 12.01e-3))
    assert (sglang["Total_generated_tokens_retokenized"], sglang["Concurrency"]) == (25811, 14.45)
    assert len(sglang) == 14


def test_the_first_version_without_a_report() -> None:
    log = read(b"Total time: 184.01 s\nThroughput: 1.09 requests/s\nAverage latency: 12.42 s\n"
               b"Average latency per token: 0.09 s\nAverage latency per output token: 0.24 s\n")  # fmt: skip
    assert list(summaries(log).values()) == [184.01, 1.09, 12.42, 0.09, 0.24]
    assert unread(log) == {}


# --- vLLM ----------------------------------------------------------------------------------------------------


def test_metrics_of_the_engine_of_vllm() -> None:
    log = read(b"""\
INFO 03-15 20:56:25 [executor_base.py:112] # cuda blocks: 27961, # CPU blocks: 2048
INFO 03-15 20:57:36 [metrics.py:481] Avg prompt throughput: 48.7 tokens/s, Avg generation throughput: 4.1 tokens/s\
, Running: 1 reqs, Swapped: 2 reqs, Pending: 3 reqs, GPU KV cache usage: 0.8%, CPU KV cache usage: 0.1%.
(APIServer pid=1) INFO 03-19 07:08:57 [loggers.py:259] Engine 000: Avg prompt throughput: 2.3 tokens/s, Avg generation \
throughput: 0.5 tokens/s, Running: 0 reqs, Waiting: 4 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 53.7%
(APIServer pid=722408) INFO 10-26 12:36:16 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.01, \
Accepted throughput: 20.60 tokens/s, Drafted throughput: 60.90 tokens/s, Accepted: 206 tokens, Drafted: 609 tokens, \
Per-position acceptance rate: 0.601, 0.286, 0.128, Avg Draft acceptance rate: 33.8%
""")
    values = [(r["key"], r["value"]) for r in rows(log, "values") if r["value"] is not None]
    assert values == [
        ("prompt_tokens_per_s", 48.7), ("generation_tokens_per_s", 4.1), ("running_requests", 1),
        ("swapped_requests", 2), ("waiting_requests", 3), ("gpu_cache_usage", pytest.approx(0.008)),
        ("cpu_cache_usage", pytest.approx(0.001)), ("prompt_tokens_per_s", 2.3), ("generation_tokens_per_s", 0.5),
        ("running_requests", 0), ("waiting_requests", 4), ("gpu_cache_usage", pytest.approx(0.005)),
        ("prefix_cache_hits", pytest.approx(0.537)), ("acceptance_length", 2.01), ("accepted_tokens_per_s", 20.6),
        ("drafted_tokens_per_s", 60.9), ("accepted_tokens", 206), ("drafted_tokens", 609),
        ("position_acceptance[0]", 0.601), ("position_acceptance[1]", 0.286), ("position_acceptance[2]", 0.128),
        ("draft_acceptance", pytest.approx(0.338)),
    ]  # fmt: skip
    assert (config(log), unread(log)) == ({"gpu_blocks": 27961, "cpu_blocks": 2048}, {})


def test_throughput_and_latency_of_vllm_offline() -> None:
    assert summaries(read(b"Throughput: 7.94 requests/s, 3796.68 tokens/s\n")) == {
        "requests_per_s": 7.94, "total_tokens_per_s": 3796.68,
    }  # fmt: skip
    log = read(b"Throughput: 0.27 requests/s, 311.76 total tokens/s, 34.64 output tokens/s\n"
               b"Total num prompt tokens:  221219\nTotal num output tokens:  194370\n"
               b"Avg latency: 5.2564156893700105 seconds\n"
               b"99% percentile latency: 5.273114479820046 seconds\n")  # fmt: skip
    assert list(summaries(log).values()) == [
        0.27, 311.76, 34.64, 221219, 194370, 5.2564156893700105, 5.273114479820046,
    ]  # fmt: skip
    assert (log.done.formats, unread(log)) == (["vllm"], {})


# --- SGLang ---------------------------------------------------------------------------------------------------------


def test_batches_of_the_server_of_sglang() -> None:
    log = read(b"""\
[2025-11-06 12:10:37] KV Cache is allocated. #tokens: 2405039, K size: 36.70 GB, V size: 36.70 GB
[2024-12-20 12:42:16 TP0] Prefill batch. #new-seq: 2, #new-token: 2046, #cached-token: 4, cache hit rate: 0.06%, \
token usage: 0.00, #running-req: 0, #queue-req: 0
(head, rank=0, pid=18260) [2025-02-14 00:42:22 DP2 TP2] Decode batch. #running-req: 1, #token: 210, token usage: 0.01, \
gen throughput (token/s): 11.45, #queue-req: 7
[2026-09-27 09:19:23 TP0] Decode batch, #running-req: 4, #full token: 214912, full token usage: 0.82, mamba num: 16, \
mamba usage: 0.42, accept len: 2.70, accept rate: 0.57, cuda graph: True, gen throughput (token/s): 123.73, \
#queue-req: 0
""")
    by_line = {n: {r["key"]: r["value"] for r in rows(log, "values", line=n)} for n in (1, 2, 3, 4)}
    assert by_line[1] == {"cache_tokens": 2405039, "key_cache": 36.7 * 2**30, "value_cache": 36.7 * 2**30}
    assert by_line[2] == {
        "new_sequences": 2, "new_tokens": 2046, "cached_tokens": 4, "cache_hits": pytest.approx(0.0006),
        "prefill_token_usage": 0, "prefill_running_requests": 0, "prefill_queued_requests": 0,
    }  # fmt: skip
    assert by_line[3] == {
        "running_requests": 1, "tokens": 210, "token_usage": 0.01, "generation_tokens_per_s": 11.45,
        "queued_requests": 7,
    }  # fmt: skip
    assert by_line[4] == {
        "running_requests": 4, "full_token": 214912, "full_token_usage": 0.82, "mamba_num": 16, "mamba_usage": 0.42,
        "accept_len": 2.7, "accept_rate": 0.57, "cuda_graph": None, "generation_tokens_per_s": 123.73,
        "queued_requests": 0,
    }  # fmt: skip
    assert (log.done.formats, unread(log)) == (["sglang"], {})


def test_start_of_the_server_of_sglang() -> None:
    """Each process prints what it takes: the group, the weights, the captured graphs."""
    log = read(b"""\
[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1
[2025-10-16 09:06:09 TP7] Init torch distributed ends. mem usage=1.77 GB
[2026-03-27 09:31:24 TP1] Init torch distributed ends. elapsed=0.97 s, mem usage=0.25 GB
[2026-03-27 09:31:25 TP1] Load weight begin. avail mem=18.5 GB
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:02<00:02,  2.09s/it]
[2026-03-27 09:31:49 TP1] Load weight end. elapsed=24.17 s, type=Qwen3ForCausalLM, dtype=torch.float16, \
avail mem=17 GB, mem usage=1.50 GB.
[2026-03-27 09:31:49 TP1] Capture cuda graph begin. This can take up to several minutes. avail mem=6.5 GB
[2026-03-27 09:32:00 TP1] Capture cuda graph end. Time elapsed: 11.35 s. mem usage=1.25 GB. avail mem=5.25 GB.
""")
    assert [(r["line"], r["key"], r["value"], r["unit"]) for r in rows(log, "values")] == [
        (2, "distributed_memory", 1.77 * 2**30, "B"),
        (3, "distributed_start_time", 0.97, "s"), (3, "distributed_memory", 0.25 * 2**30, "B"),
        (4, "memory_before_weights", 18.5 * 2**30, "B"),
        (5, "Loading_safetensors_checkpoint_shards", 1, None),
        (5, "Loading_safetensors_checkpoint_shards_total", 2, None),
        (5, "Loading_safetensors_checkpoint_shards_elapsed", 2, "s"), (5, "smoothed_s_per_it", 2.09, "s"),
        (6, "weights_load_time", 24.17, "s"), (6, "memory_after_weights", 17 * 2**30, "B"),
        (6, "weights_memory", 1.5 * 2**30, "B"),
        (7, "memory_before_graph", 6.5 * 2**30, "B"),
        (8, "graph_capture_time", 11.35, "s"), (8, "graph_memory", 1.25 * 2**30, "B"),
        (8, "memory_after_graph", 5.25 * 2**30, "B"),
    ]  # fmt: skip
    assert ({*log.done.formats}, unread(log), unread_figures(log)) == ({"sglang", "bars"}, {}, 0)


# --- DeepSpeed-Chat -------------------------------------------------------------------------------------------------


def test_times_of_rlhf_belong_to_the_step_above_them() -> None:
    log = read(b"""\
|E2E latency=57.53s |Gather latency=0.00s (0.00%) |Generate time=56.59s (98.38%) |Training time=0.00s (0.00%) \
|Others=0.93 (1.62%)|CurSamplesPerSec=0.07 |AvgSamplesPerSec=0.07
Epoch: 0 | Step: 7 | PPO Epoch: 1 | Actor Loss: 0.0203 | Critic Loss: 0.0301 | Unsupervised Loss: 0.0
End-to-End => Latency: 2.60s, TFLOPs: 3.20, Samples/sec: 1.54, Time/seq 0.65s, Batch Size: 4, Total Seq. Length: 512
Generation => Latency: 1.80s, Per-token Latency 7.03 ms, TFLOPs: 0.84, BW: 110.35 GB/sec, Answer Seq. Length: 256
Training   => Latency: 0.80s, TFLOPs: 8.63
Actor Model Parameters => 0.388 B, Critic Model Parameters => 0.313 B
Average reward score: 0.20556640625 | EMA reward score: 0.1982421875
|E2E latency=4.78s |Gather latency=0.00s (0.00%) |Generate time=1.74s (36.47%) |Training time=2.82s (59.05%) \
|Others=0.21 (4.48%)|CurSamplesPerSec=0.84 |AvgSamplesPerSec=1.03
Epoch: 1 | Step: 0 | PPO Epoch: 1 | Actor Loss: 0.010894775390625 | Critic Loss: 0.0201416015625 | \
Unsupervised Loss: 0.0
End-to-End => Latency: 2.55s, TFLOPs: 3.29, Samples/sec: 1.57, Time/seq 0.64s, Batch Size: 4, Total Seq. Length: 512
""")
    assert [(r["epoch"], r["step"], r["step_time_s"], r["tflops"], r["copy"]) for r in rows(log, "steps")] == [
        (0, 7, 2.6, 3.2, 1), (1, 0, 2.55, 3.29, 1),
    ]  # fmt: skip
    assert [(r["step"], r["value"]) for r in rows(log, "values", key="engine_latency")] == [(None, 57.53), (7, 4.78)]
    values = {r["key"]: r["value"] for r in rows(log, "values", step=7)}
    assert (values["generation"], values["time_per_token"], values["generation_bandwidth"]) == (
        1.8, pytest.approx(7.03e-3), 110.35,
    )  # fmt: skip
    assert (values["training_tflops"], values["reward_ema"], values["actor_loss"]) == (8.63, 0.1982421875, 0.0203)
    assert config(log)["actor_parameters"] == 388e6
    assert (log.done.formats, unread(log)) == (["deepspeed_chat"], {})


def test_fine_tuning_and_reward_model_of_deepspeed_chat() -> None:
    log = read(b"""\
***** Evaluating perplexity, Epoch 0/2 *****
ppl: 4.937178611755371, loss: 1.5968008041381836
Beginning of Epoch 1/2, Total Micro Batches 920
Epoch: 0, Step: 10, Rank: 3, loss = 2.140625
Epoch: 0, Step: 10, Rank: 0, loss = 2.15625
Model Parameters: 6.658 B, Latency: 4.47s, TFLOPs: 60.27, Samples/sec: 0.89, Time/seq 1.12s, Batch Size: 4, \
Sequence Length: 512
chosen_last_scores (higher is better) : 7.012345, rejected_last_scores (lower is better) : 4.123456, \
acc (higher is better) : 0.6699999570846558
""")
    assert [(r["epoch"], r["step"], r["rank"], r["loss"]) for r in rows(log, "steps")] == [
        (0, 10, 3, 2.140625), (0, 10, 0, 2.15625),
    ]  # fmt: skip
    values = {r["key"]: r["value"] for r in rows(log, "values")}
    assert (values["step_time"], values["tflops"], values["samples_per_s"]) == (4.47, 60.27, 0.89)
    assert (values["perplexity"], values["chosen_score"], values["accuracy"]) == (
        4.937178611755371, 7.012345, 0.6699999570846558,
    )  # fmt: skip
    said = config(log)
    assert (said["parameters"], said["micro_batches"], said["epochs"]) == (6.658e9, 920, 2)
    assert unread(log) == {}


def test_a_total_time_alone_is_no_serving_benchmark() -> None:
    with pytest.raises(InputError, match="nothing in it is recognised"):
        read(b"Wrote profile results to primes.py.lprof\nTotal time: 0.72148 s\nFunction: primes at line 3\n")


def test_result_of_vllm_as_json() -> None:
    log = read(b"""\
{"backend": "vllm", "model_id": "Qwen/Qwen3-8B", "max_concurrency": 32, "duration": 52.5, "completed": 198, \
"failed": 2, "total_output_tokens": 25344, "request_throughput": 3.77, "output_throughput": 482.74, \
"total_token_throughput": 4344.69, "mean_ttft_ms": 120.25, "p99_ttft_ms": 239.3}
""")
    assert (log.done.formats, unread(log), rows(log, "runs")[0]["model"]) == (
        ["serving_benchmark"],
        {},
        "Qwen/Qwen3-8B",
    )
    figures = {r["key"]: (r["value"], r["unit"]) for r in rows(log, "values")}
    assert figures["output_throughput"] == (482.74, "1/s")
    assert (figures["duration"], figures["Failed_requests"]) == ((52.5, "s"), (2, None))
    assert figures["p99_ttft"] == (pytest.approx(0.2393), "s")


def test_blocks_of_llmperf_name_their_statistics() -> None:
    log = read(b"""\
\\Results for token benchmark for some/model queried with the openai api.

ttft_s
    p50 = 0.25
    mean = 0.5
request_output_throughput_token_per_s
    p50 = 70.5
number_output_tokens
    p50 = 150.0
Number Of Errored Requests: 2
Overall Output Throughput: 1405.25
""")
    assert (log.done.formats, unread(log), rows(log, "runs")[0]["model"]) == (["llmperf"], {}, "some/model")
    assert [(r["key"], r["value"], r["unit"]) for r in rows(log, "values")] == [
        ("ttft.p50", 0.25, "s"),
        ("ttft.mean", 0.5, "s"),
        ("request_output_throughput.p50", 70.5, "1/s"),
        ("output_tokens.p50", 150, "1"),
    ]
    assert summaries(log) == {"Failed_requests": 2, "output_throughput": 1405.25}


def test_a_batch_after_the_other_of_sglang() -> None:
    """The first token of the last request of a batch is no median over requests."""
    lines = "batch size: {0}\ninput_len: 1024\nlatency: 0.50 s\noutput throughput: {0}0.00 tok/s\nlast_ttft: 0.05 s\n"
    log = read((lines.format(1) + lines.format(16)).encode())
    assert (log.done.formats, unread(log)) == (["sglang_batch_bench"], {})
    assert [config(log, k)["batch_size"] for k in (0, 1)] == [1, 16]
    assert summaries(log, 1) == {"latency": 0.5, "output_throughput": 160, "last_ttft": 0.05}


def test_latencies_of_lmdeploy() -> None:
    log = read(b"""\
=================================== Profile Throughput ===================================
Benchmark duration                          20.500
Output throughput (tok/s)                 1248.780
Request throughput (req/s)                   4.830
------------------------------------------------------------------------------------------
                                              mean       P50       P75       P95       P99
Time to First Token (TTFT)                   0.088     0.079     0.097     0.132     0.167
Tokens per Tick                              1.000         1         1         1         1
==========================================================================================
""")
    assert (log.done.formats, unread(log)) == (["lmdeploy"], {})
    figures = summaries(log)
    assert (figures["Output_throughput"], figures["Time_to_First_Token_TTFT.p95"], figures["Tokens.p50"]) == (
        1248.78,
        0.132,
        1,
    )


def test_requests_of_tgi() -> None:
    line = (
        "2026-01-08T10:00:1{0}.123456Z  INFO compat_generate{{x=true}}:generate{{parameters=P {{ max_new_tokens: "
        'Some(64) }} total_time="82{0}.25ms" validation_time="512.3µs" queue_time="45.5µs" inference_time="1.5s" '
        'time_per_token="12.81ms" seed="None"}}: text_generation_router::server: router/src/server.rs:432: Success\n'
    )
    log = read("".join(map(line.format, range(3))).encode())
    assert (log.done.formats, unread(log), unread_figures(log)) == (["tgi"], {}, 0)
    assert [r["value"] for r in rows(log, "values", key="request_latency")] == pytest.approx(
        [0.82025, 0.82125, 0.82225]
    )
    assert rows(log, "values", key="queue_time")[0]["value"] == pytest.approx(45.5e-6)


def test_results_of_latency_as_json_and_of_inferencemax() -> None:
    log = read(b'{"avg_latency": 0.5, "latencies": [0.4, 0.6], "percentiles": {"10": 0.41, "99": 0.59}}\n')
    assert summaries(log) == {"latency": 0.5, "latency_p10": 0.41, "latency_p99": 0.59}
    log = read(b'{"hw": "h200", "conc": 64, "model": "m", "tput_per_gpu": 1250.5, "p99_ttft": 0.9}\n')
    assert (log.done.formats, config(log)["hw"]) == (["inferencemax"], "h200")
    figures = {r["key"]: (r["value"], r["unit"]) for r in rows(log, "values")}
    assert figures == {"conc": (64, None), "total_throughput_per_gpu": (1250.5, "1/s"), "p99_ttft": (0.9, "s")}
