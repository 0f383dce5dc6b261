"""Logs of one job in which several programs print: a framework, a library inside it, a launcher around it."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perflog
from perflog.formats.registry import known
from perflog.ingestion.detect import detect
from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.input.source import Source
from perflog.tables.sink import MemorySink

MEMORY = (
    "[2024-05-01 10:00:04,000] [INFO] [utils.py:837:see_memory_usage] "
    "MA 0.36 GB         Max_MA 0.5 GB         CA 0.37 GB         Max_CA 1.0 GB \n"
)
START = "***** Running training *****\n  Num examples = 12,800\n  Total optimization steps = 30\n"
TIMES = (
    "time (ms) | forward_microstep: {0} | backward_microstep: {1} | backward_inner_microstep: {2} "
    "| backward_allreduce_microstep: 0.05 | step_microstep: 0.92\n"
)
PATCH = "[20260507 13:07:31][rank-0/8][INFO] [--patch.py:10] : applying patch number 1\n"
ITERATION = (
    "[20260507 13:08:16][rank-7/8][DEBUG] [--utils.py:425] : [2026-05-07 13:08:16.540024] iteration        1/      10 "
    "| consumed samples:           16 | elapsed time per iteration (ms): 30497.4 "
    "| throughput per GPU (TFLOP/s/GPU): 0.3 | learning rate: 9.755283E-06 | global batch size:    16 "
    "| lm loss: 1.191332E+01 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def throughput(step: int, samples: float) -> str:
    return (
        f"[2026-04-02 09:00:25,501] [INFO] [timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, "
        f"RunningAvgSamplesPerSec=51.1908, CurrSamplesPerSec={samples}, MemAllocated=21.5GB, MaxMemAllocated=40.2GB\n"
    )


def read(tmp_path: Path, text: str) -> perflog.Log:
    path = tmp_path / "job.log"
    path.write_text(text)
    return perflog.read(path)


def detected(text: str) -> list[str]:
    return [found.format.name for found in detect(as_chunk(text.encode()), known().values()).formats]


def test_all_processes_of_a_job_start_one_run(tmp_path: Path) -> None:
    """The library measures memory between the starts of four processes."""
    losses = "".join(f"{{'loss': 2.{k}, 'learning_rate': 1e-05, 'epoch': 0.{k}}}\n" for k in (1, 2, 3))
    log = read(tmp_path, MEMORY + (START + MEMORY) * 4 + losses)
    runs = log.table("runs")
    assert list(runs["format"]) == ["hf_trainer"]
    assert list(runs["joined_formats"]) == ["deepspeed"]
    assert perflog.overview(log).what.startswith("Hugging Face Trainer with DeepSpeed, 1 run")


def test_a_second_training_of_the_program_is_a_second_run(tmp_path: Path) -> None:
    loss = "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
    assert len(read(tmp_path, MEMORY + START + loss + MEMORY + START + START + loss).table("runs")) == 2


@pytest.mark.parametrize("old", [True, False])
def test_timers_of_micro_steps_are_those_of_deepspeed(tmp_path: Path, old: bool) -> None:
    text = TIMES.format("193.65", "329.25", "329.14") + TIMES.format("203.21", "323.86", "323.81")
    text = text if old else text.replace("forward", "fwd").replace("backward", "bwd")
    assert detected(text) == ["deepspeed"]
    log = read(tmp_path, text)
    assert list(log.table("runs")["format"]) == ["deepspeed"]
    parts = perflog.overview(log).parts
    forward, backward = ("forward", "backward") if old else ("fwd", "bwd")
    assert {part.name: part.seconds for part in parts if part.seconds > 1e-3} == pytest.approx(
        {f"{forward}_microstep": 0.19843, f"{backward}_inner_microstep": 0.326475}
    )


@pytest.mark.parametrize("lines", [0, 9, 10, 300])
def test_whole_lines_behind_a_prefix_prove_their_format(tmp_path: Path, lines: int) -> None:
    text = PATCH * lines + ITERATION
    assert detected(text) == ["megatron"]
    log = read(tmp_path, text)
    assert list(log.table("runs")["format"]) == ["megatron"]
    assert list(log.table("steps")["tflops"]) == [0.3]


# --- steps of two programs -------------------------------------------------------------------------------------------


def loss(step: int) -> str:
    return f"{{'loss': {3 - step / 100}, 'learning_rate': 1e-05, 'epoch': {step / 100}, 'step': {step}}}\n"


def test_the_figures_of_a_library_are_in_the_steps_of_the_program(tmp_path: Path) -> None:
    text = START + "".join(throughput(step, 50 + step / 10) + loss(step) for step in (10, 20, 30))
    log = read(tmp_path, text)
    steps = log.table("steps")
    assert list(steps["step"]) == [10, 20, 30]
    assert list(steps["samples_per_s"]) == [51.0, 52.0, 53.0]
    assert list(steps["loss"]) == pytest.approx([2.9, 2.8, 2.7])
    assert set(steps["memory_bytes"]) == {21.5 * 2**30}
    assert set(steps["copy"]) == {1}
    assert list(steps["steps_averaged"]) == [10, 10, 10]  # the window is that of the program's line
    values = log.table("values")
    assert list(values[values["key"] == "samples_per_s"]["line"]) == [4, 6, 8]  # where each was printed


@given(st.data())
def test_the_place_of_a_librarys_lines_does_not_matter(data: st.DataObject) -> None:
    """Each is printed a line or two before or after its step; memory is printed anywhere."""
    lines: list[str] = []
    for step in range(10, 60, 10):
        block = [throughput(step, 50 + step / 10), loss(step)]
        lines += block if data.draw(st.booleans()) else block[::-1]
    for _ in range(data.draw(st.integers(0, 6))):
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from([MEMORY, MEMORY + MEMORY])))
    with TemporaryDirectory() as folder:
        log = read(Path(folder), START + "".join(lines))
    steps = log.table("steps")
    assert len(log.table("runs")) == 1
    assert list(steps["step"]) == [10, 20, 30, 40, 50]
    assert list(steps["samples_per_s"]) == [51.0, 52.0, 53.0, 54.0, 55.0]
    assert set(steps["copy"]) == {1}


def test_lines_that_a_buffer_held_back_meet_where_both_print_the_same_steps(tmp_path: Path) -> None:
    blocks = [throughput(step, 50 + step / 10) for step in (10, 20, 30)], [loss(step) for step in (10, 20, 30)]
    for text in (START + "".join(blocks[0] + blocks[1]), START + "".join(blocks[1] + blocks[0])):
        assert list(read(tmp_path, text).table("steps")["samples_per_s"]) == [51.0, 52.0, 53.0]


def test_another_counter_of_the_same_name_meets_no_step(tmp_path: Path) -> None:
    """The library counts four steps for each step of the program."""
    log = read(tmp_path, START + "".join(throughput(4 * step, 51.0) + loss(step) for step in (5, 10, 15, 20, 25)))
    steps, values = log.table("steps"), log.table("values")
    assert list(steps["step"]) == [5, 10, 15, 20, 25]
    assert steps["samples_per_s"].isna().all()
    assert list(values[values["key"] == "samples_per_s"]["step"]) == [20, 40, 60, 80, 100]


def test_what_the_program_prints_itself_stays(tmp_path: Path) -> None:
    own = ITERATION.split(" : ", 1)[1].replace("lm loss", "samples per second: 9.5 | lm loss")
    steps = read(tmp_path, throughput(1, 51.0) + own[own.index(" iteration") :]).table("steps")
    assert list(steps["samples_per_s"]) == [9.5]


def test_a_library_alone_prints_the_steps(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(throughput(step, 50 + step / 10) for step in (10, 20, 30)))
    assert list(log.table("steps")["samples_per_s"]) == [51.0, 52.0, 53.0]
    assert "deepspeed, 1 run x 3 steps" in perflog.overview(log).what


def test_steps_and_figures_in_different_chunks_meet(tmp_path: Path) -> None:
    steps = range(1, 400)
    text = START + "".join(map(loss, steps)) + "".join(throughput(step, 50 + step / 10) for step in steps)
    path = tmp_path / "job.log"
    path.write_text(text)
    sink = MemorySink()
    ingest(Source("job.log", str(path)), sink.reset, chunk=1 << 14)
    found = pa.concat_tables(sink.tables["steps"]).sort_by("step").to_pydict()
    assert found["step"] == list(steps)
    assert found["samples_per_s"] == [50 + step / 10 for step in steps]


def test_what_each_process_prints_at_its_end_is_on_the_screen(tmp_path: Path) -> None:
    ends = [
        f"{{'train_runtime': 251.3{k}, 'train_samples_per_second': 50.94, 'train_steps_per_second': 0.398, "
        "'train_loss': 2.495, 'epoch': 1.0}\n"
        for k in range(4)
    ]
    steps = "".join(map(loss, (10, 20, 30)))
    reasons = perflog.overview(read(tmp_path, START + steps + "".join(ends))).reasons
    wanted = "train_runtime is printed 4 times after the last step: 251.3 s to 251.33 s; mean "
    assert [text for text in reasons if text.startswith(wanted)]
    for twice in (ends[0], ends[0] * 2):  # one process, or one that prints it again
        reasons = perflog.overview(read(tmp_path, START + steps + twice)).reasons
        assert not [text for text in reasons if "train_runtime" in text]


# --- reinforcement learning: Ray, vLLM, NCCL and verl in one log ------------------------------------------------------

# yuzhaouoe/GUI-Cursor-Moving verl_demo.log, shortened: Ray colours the label, the metrics of a step are 69 pairs
RAY_LINES = """\
\x1b[36m(WorkerDict pid=39285)\x1b[0m NCCL version 2.27.3+cuda12.9
\x1b[36m(WorkerDict pid=39285)\x1b[0m h200-01:39285:39285 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.7<0>
\x1b[36m(TaskRunner pid=38606)\x1b[0m step:1 - rollout/too_bad_sample_ratio:0.6041666666666666 - \
timing_s/get_batch_rollout_with_filtering:313.9077237630263 - actor/entropy:0.6272061467170715 - \
actor/pg_loss:6.183079727109635e-10 - actor/grad_norm:0.914237380027771 - training/global_step:1 - \
critic/score/mean:0.6530305743217468 -{more} timing_s/old_log_prob:174.7384607680142 - \
timing_s/adv:0.032002163119614124 - \
timing_s/update_actor:576.7400800269097 - timing_s/step:1065.7729346989654 - \
timing_per_token_ms/update_actor:0.21045298070291216 - perf/total_num_tokens:2740470 - \
perf/time_per_step:1065.7729346989654 - perf/throughput:321.4181359341406
"""


@pytest.mark.parametrize("more", [0, 60])
def test_the_phases_of_a_step_of_verl(tmp_path: Path, more: int) -> None:
    rewards = "".join(f" reward_extra_info/reward_{k}:{k}.25 -" for k in range(more))
    log = read(tmp_path, RAY_LINES.format(more=rewards))
    (run,) = log.table("runs").to_dict("records")
    (step,) = log.table("steps").to_dict("records")
    assert (run["format"], run["joined_formats"]) == ("verl", "nccl")
    assert perflog.overview(log).what.startswith("verl, 1 run x 1 step")
    assert (step["step"], step["step_time_s"]) == (1, 1065.7729346989654)
    phases = log.table("phases")
    assert dict(zip(phases["phase"], phases["time_s"], strict=True)) == {
        "timing_s_get_batch_rollout_with_filtering": 313.9077237630263,
        "timing_s_old_log_prob": 174.7384607680142,
        "timing_s_adv": 0.032002163119614124,
        "timing_s_update_actor": 576.7400800269097,
    }
    values = log.table("values").set_index("key")
    assert values["value"]["timing_per_token_ms_update_actor"] == pytest.approx(0.21045298070291216e-3)
    assert len([key for key in values.index if key.startswith("reward_extra")]) == more


# jianghoucheng/Agent_On_Policy_Distillation wandb/run-20251129_221801-i80f2v90/files/output.log, shortened: numbers in
# calls of numpy, and a line that wandb cut after 4,096 bytes
NUMPY_CALLS = """\
step:8 - actor/pg_loss:np.float64(0.41352288355119526) - actor/ppo_kl:np.float64(6.116221175034298e-05) - \
actor/grad_norm:np.float64(1.763774812221527) - actor/lr:np.float64(1e-06) - critic/score/mean:-0.9732422232627869 - \
timing_s/agent_loop/generate_sequences/max:np.float64(68.42543297400698) - \
timing_s/agent_loop/slowest/prompt_length:359 - timing_s/gen:71.45475597702898 - timing_s/ref:25.385145945940167 - \
timing_s/update_actor:23.863754782127216 - timing_s/step:127.90869444608688
step:20 - actor/pg_loss:np.float64(-0.0033169278176501393) - actor/grad_norm:np.float64(0.00016611) - \
val-aux/aime_2024/score/best@30/mean:np.float64(-1.0) - val-aux/aime_2024/score/w
"""


def test_calls_of_numpy_and_lines_that_wandb_cut(tmp_path: Path) -> None:
    log = read(tmp_path, NUMPY_CALLS)
    steps = log.table("steps")
    assert list(steps["step"]) == [8, 20]
    assert list(steps["grad_norm"]) == [1.763774812221527, 0.00016611]
    assert steps["step_time_s"][0] == 127.90869444608688
    assert steps["step_time_s"].isna()[1]
    assert set(log.table("phases")["phase"]) == {"timing_s_gen", "timing_s_ref", "timing_s_update_actor"}
    values = log.table("values").set_index(["step", "key"])
    assert values["value"][8, "actor_ppo_kl"] == 6.116221175034298e-05
    assert values["unit"][8, "timing_s_agent_loop_generate_sequences_max"] == "s"
    assert values["value"][8, "timing_s_agent_loop_slowest_prompt_length"] == 359
    assert values["unit"][8, "timing_s_agent_loop_slowest_prompt_length"] != "s"
    assert values["value"][20, "val_aux_aime_2024_score_best_30_mean"] == -1
    assert not any("times nothing" in line for line in perflog.overview(log).reasons)


# The same repository, wandb/run-20251206_144948-zc9o03i0/files/output.log: the trainer of supervised fine-tuning
FINE_TUNING = """\
step:371 - train/loss:0.09429260343313217 - train/lr(1e-3):2.198603713432501e-07 - train/time(s):6.124752998352051
step:372 - train/loss:0.08999788761138916 - train/lr(1e-3):0.0 - train/time(s):6.120580196380615
step:372 - val/loss:0.10121512413024902
"""


def test_fine_tuning_with_verl(tmp_path: Path) -> None:
    log = read(tmp_path, FINE_TUNING)
    steps = log.table("steps")
    assert list(log.table("runs")["format"]) == ["verl"]
    assert list(zip(steps["step"], steps["copy"], steps["step_time_s"], strict=True)) == [
        (371, 1, 6.124752998352051),
        (372, 1, 6.120580196380615),
    ]
    assert list(steps["learning_rate"]) == pytest.approx([2.198603713432501e-10, 0])
    (loss,) = log.table("values").to_dict("records")
    assert (loss["key"], loss["value"], loss["step"]) == ("val_loss", 0.10121512413024902, 372)
    assert "steps-repeated" not in set(perflog.lint(log)["code"])


# --- a trainer whose bar and whose dicts arrive apart: standard output is a file, and buffered -----------------------

# zyfjrx/train_sft lora_unsloth_pet/20250822_10.log, shortened: Unsloth, transformers, tqdm
BANNER = r"""==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1
   \\   /|    Num examples = 8,024 | Num Epochs = 3 | Total steps = 378
O^O/ \_/ \    Batch size per device = 16 | Gradient accumulation steps = 4
\        /    Data Parallel GPUs = 1 | Total batch size (16 x 4 x 1) = 64
 "-____-"     Trainable parameters = 128,450,560 of 14,896,757,760 (0.86% trained)
"""
BLOCKS = (
    BANNER
    + "  0%|          | 0/378 [00:00<?, ?it/s]  0%|          | 1/378 [01:45<11:00:38, 105.14s/it]"
    + " 20%|##        | 77/378 [1:55:34<7:21:39, 88.04s/it] 21%|##        | 78/378 [1:57:03<7:21:28, 88.30s/it]\n"
    + "{'loss': 1.4884, 'grad_norm': 0.1645684838294983, 'learning_rate': 0.0, 'epoch': 0.01}\n"
    + "{'loss': 1.4715, 'grad_norm': 0.1694752424955368, 'learning_rate': 6.6e-07, 'epoch': 0.02}\n"
    + "{'loss': 1.4378, 'grad_norm': 0.1610311269760131, 'learning_rate': 1.3e-06, 'epoch': 0.02}\n"
    + "{'loss': 1.2201, 'grad_norm': 0.0523510000000000, 'learning_rate': 1.7e-05, 'epoch': 0.61}\n"
    + " 21%|##        | 78/378 [1:57:03<7:21:28, 88.30s/it] 21%|##        | 79/378 [1:58:33<7:21:59, 88.69s/it]\n"
    + "{'loss': 1.1640, 'grad_norm': 0.0614438354969024, 'learning_rate': 1.2e-05, 'epoch': 1.23}\n"
    + "{'loss': 1.1562, 'grad_norm': 0.0786720000000000, 'learning_rate': 8.0e-06, 'epoch': 1.24}\n"
)


def test_buffered_dicts_take_no_step_of_a_bar(tmp_path: Path) -> None:
    log = read(tmp_path, BLOCKS)
    steps = log.table("steps")
    assert len(steps) == 6
    assert steps["step"].isna().all()
    assert steps["step_time_s"].isna().all()
    assert perflog.overview(log).what.endswith("1 run, 6 step lines without numbers")
    assert not {*perflog.lint(log)["code"]} & {"steps-repeated", "steps-merged", "steps-averaged"}


def test_the_banner_of_unsloth(tmp_path: Path) -> None:
    (run,) = read(tmp_path, BLOCKS).table("runs").to_dict("records")
    assert json.loads(run["config"]) == {
        "gpus": 1, "num_examples": 8024, "num_epochs": 3, "max_steps": 378, "device_batch_size": 16,
        "gradient_accumulation_steps": 4, "data_parallel_size": 1, "total_batch_size": 64,
        "trainable_parameters": 128450560, "parameters": 14896757760, "trainable_percent": 0.86,
    }  # fmt: skip


# What users of NVIDIA-NeMo/Gym and NVIDIA-NeMo/RL printed, shortened: NeMo RL, and a worker of vLLM behind Ray's label
NEMO_RL = """\
========================= Epoch 1/1 =========================

========================= Step 8/9 =========================
▶ Preparing batch...
(VllmGenerationWorker pid=2791977) INFO 10-21 17:25:50 [block_pool.py:316] Successfully reset prefix cache
▶ Taking a training step...
📊 Training Results:
  • Loss: 0.0005
  • Mean Generation Length: 181.1250
⏱️  Timing:
  • Total step time: 13.33s
  • prepare_for_generation/total: 4.99s (37.4%)
  • generation: 2.40s (18.0%)
  • policy_training: 1.19s (8.9%)
  • prepare_for_generation/transfer_and_update_weights: 0.07s (0.5%)
🔍 Performance Metrics:
  • Throughputs (per GPU):
    - E2E (Tokens/sec/gpu): 453.39
  • Throughputs (per Group):
    - E2E (Samples/sec): 0.60
    - Generation Worker Group (Tokens/sec): 2521.77
  • Training FLOPS: 38.45 TFLOPS (38.45 TFLOPS per rank)
"""


def test_the_blocks_of_nemo_rl(tmp_path: Path) -> None:
    log = read(tmp_path, NEMO_RL)
    (run,), (step,) = (log.table(name).to_dict("records") for name in ("runs", "steps"))
    assert (run["format"], json.loads(run["config"])["max_steps"]) == ("nemo_rl", 9)
    assert (step["step"], step["epoch"], step["step_time_s"]) == (8, 1, 13.33)
    phases = log.table("phases")
    assert dict(zip(phases["phase"], phases["time_s"], strict=True)) == {
        "prepare_for_generation_total": 4.99,
        "generation": 2.4,
        "policy_training": 1.19,
        "prepare_for_generation_transfer_and_update_weights": 0.07,
    }
    values = log.table("values").set_index("key")
    assert set(values["step"]) == {8}
    assert values["value"].to_dict() == {
        "Loss": 0.0005,
        "Mean_Generation_Length": 181.125,
        "tokens_per_gpu_per_s": 453.39,
        "samples_per_s": 0.6,
        "Generation_Worker_Group_Tokens_sec": 2521.77,
        "tflops": 38.45,
        "tflops_per_rank": 38.45,
    }


def test_the_loss_of_a_stage_that_is_not_the_last_is_unknown(tmp_path: Path) -> None:
    """Torchtitan prints -1 on the ranks of the other pipeline stages."""
    line = "[rank0]:[titan] 2025-05-28 21:14:39,054 - root - INFO - step:  2  loss: {0}  memory: 42.78GiB(54.06%)\n"
    steps = read(tmp_path, line.format("-1.0000") + line.format(" 2.5000").replace("rank0", "rank15")).table("steps")
    assert list(steps["rank"]) == [0, 15]
    assert steps["loss"].isna()[0]
    assert steps["loss"][1] == 2.5


# kolyangg/mlops-assignment logs/vllm.log, shortened: a server that loads, works and idles
SERVER = """\
(EngineCore_0 pid=9) Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:06<00:06,  6.20s/it]
(EngineCore_0 pid=9) Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:12<00:00,  6.10s/it]
"""
READING = (
    "\x1b[1;36m(APIServer pid=7)\x1b[0;0m INFO 06-16 15:39:{0:02d} [loggers.py:123] Engine 000: "
    "Avg prompt throughput: {1} tokens/s, Avg generation throughput: {2} tokens/s, "
    "Running: {3} reqs, Waiting: 0 reqs, GPU KV cache usage: {4}%, Prefix cache hit rate: 51.9%\n"
)


def test_the_rate_of_a_server_is_that_at_work(tmp_path: Path) -> None:
    readings = [
        (7, 13432.4, 443.6, 18, 10.6),
        (17, 0.0, 339.3, 3, 10.3),
        (27, 14610.0, 546.9, 7, 8.9),
        (37, 0.0, 0.0, 0, 0.0),
    ]
    log = read(tmp_path, SERVER + "".join(READING.format(*reading) for reading in readings))
    figures = {figure.name: [*figure.values.values()] for figure in perflog.overview(log).figures}
    assert list(figures)[:2] == ["generated tokens/s", "prompt tokens/s"]
    assert figures["prompt tokens/s"] == [13432.4]  # of three readings with requests; one of them prefills none
    assert figures["generated tokens/s"] == [443.6]


# A log of THUDM/slime, shortened, and a dict of a step as slime/backends/megatron_utils/model.py prints it
SLIME = """\
(RolloutManager pid=1805485) [2026-04-15 07:57:53] rollout.py:1193 - perf 0: \
{'rollout/response_len/mean': 2773.71484375, 'rollout/zero_std/count_0': 12, \
'perf/rollout_time': 371.1796889305115, 'perf/tokens_per_gpu_per_sec': 239.12643295688667}
(SGLangEngine pid=1807332) [2026-04-15 07:57:53] INFO:     90.90.97.74:41234 - "POST /abort_request HTTP/1.1" 200 OK
(MegatronTrainRayActor pid=2031) [2026-04-15 08:01:12] model.py:702 - step 3: {'train/loss': 0.25, \
'train/pg_loss': 0.125, 'train/grad_norm': 0.2015, 'train/lr-pg_0': 1e-06}
"""


def test_the_dicts_of_slime(tmp_path: Path) -> None:
    log = read(tmp_path, SLIME)
    (run,), (step,) = (log.table(name).to_dict("records") for name in ("runs", "steps"))
    assert (run["format"], step["step"]) == ("slime", 3)
    assert [step[name] for name in ("loss", "grad_norm", "learning_rate")] == [0.25, 0.2015, 1e-6]
    values = log.table("values").set_index("key")
    (phase,) = log.table("phases").to_dict("records")
    assert (phase["phase"], phase["step"], phase["time_s"]) == ("perf_rollout_time", 0, 371.1796889305115)
    assert values["value"]["perf_tokens_per_gpu_per_s"] == 239.12643295688667
    assert values["value"]["rollout_response_len_mean"] == 2773.71484375


# Dicts of the times of a step, as a user of THUDM/slime printed them; a rollout is trained on in one step or several
SLIME_TIMES = """\
(RolloutManager pid=7) [2026-04-15 07:57:53] rollout.py:1193 - perf {k}: {{'perf/rollout_time': 340.5, \
'rollout/response_len/mean': 2773.7}}
{steps}(MegatronTrainRayActor pid=2) [2026-04-15 08:01:13] train_metric_utils.py:51 - perf {k}: \
{{'perf/sleep_time': 5.32, 'perf/update_weights_time': 2.53, 'perf/train_wait_time': 347.61, \
'perf/log_probs_time': 17.18, 'perf/actor_train_time': 46.91, 'perf/train_time': 64.72, \
'perf/actor_train_tok_per_s': 7498.9, 'perf/step_time': 412.32, 'perf/wait_time_ratio': 0.843}}
"""
SLIME_STEP = """\
(MegatronTrainRayActor pid=2) [2026-04-15 08:01:12] model.py:702 - step {k}: {{'train/loss': {loss}, \
'train/grad_norm': 0.2}}
"""


@pytest.mark.parametrize("count", [1, 4])
def test_the_times_of_slime_are_those_of_a_step(tmp_path: Path, count: int) -> None:
    """The loss belongs to the step only where a rollout is one step of the optimizer."""
    steps = ["".join(SLIME_STEP.format(k=k * count + i, loss=k + i / 8) for i in range(count)) for k in range(5)]
    log = read(tmp_path, "".join(SLIME_TIMES.format(k=k, steps=steps[k]) for k in range(5)))
    table, phases = log.table("steps"), log.table("phases")
    assert table["step"].tolist() == [*range(5)]
    assert set(table["step_time_s"]) == {412.32}
    assert table["loss"].dropna().tolist() == ([0, 1, 2, 3, 4] if count == 1 else [])
    one = phases[phases["step"] == 3].set_index("phase")["time_s"].to_dict()
    assert (one["perf_train_wait_time"], one["perf_rollout_time"]) == (347.61, 340.5)
    assert "perf_step_time" not in one


def test_the_loss_of_nemo_rl_is_that_of_its_step(tmp_path: Path) -> None:
    block = "{rule} Step {k}/9 {rule}\n📊 Training Results:\n  • Loss: {loss:.4f}\n  • Total step time: {time:.2f}s\n"
    blocks = (block.format(rule="=" * 25, k=k, loss=2 - k / 8, time=1 + k / 4) for k in range(1, 4))
    table = read(tmp_path, "".join(blocks)).table("steps")
    assert table["loss"].tolist() == [1.875, 1.75, 1.625]
    assert table["step_time_s"].tolist() == [1.25, 1.5, 1.75]


# What a user of allenai/OLMo printed, shortened: torchrun, wandb, OLMo behind the prefix of its logger
OLMO = """\
W1212 11:03:17.693000 9724 torch/distributed/run.py:803] *****************************************
2025-12-12 11:03:38.634\tquick-rain-shines-fin-03:0\ttrain:417\tINFO\tCLI environment prepared
wandb: Tracking run with wandb version 0.18.7
2025-12-12 11:06:03.813\tquick-rain-shines-fin-03:0\tolmo.train:979\tINFO\t[step=1/15000,epoch=0]
    optim/total_grad_norm=0.1704
    train/CrossEntropyLoss=2.951
    train/Perplexity=19.12
    System/Peak GPU Memory (MB)=43,313
2025-12-12 11:06:07.702\tquick-rain-shines-fin-03:0\tolmo.train:979\tINFO\t[step=2/15000,epoch=0]
    optim/total_grad_norm=0.1631
    train/CrossEntropyLoss=3.017
    train/Perplexity=20.78
    throughput/total_tokens=450,887,680
    throughput/device/tokens_per_second=67,566
    throughput/device/batches_per_second=0.2577
"""


def test_the_blocks_of_olmo(tmp_path: Path) -> None:
    log = read(tmp_path, OLMO)
    (run,), (step,) = (log.table(name).to_dict("records") for name in ("runs", "steps"))
    assert (run["format"], json.loads(run["config"])["max_steps"]) == ("olmo", 15000)
    assert (step["step"], step["loss"], step["grad_norm"], step["tokens_per_s"]) == (2, 3.017, 0.1631, 67566)
    values = log.table("values")
    of_first = values[values["step"] == 1].set_index("key")["value"].to_dict()
    assert of_first == {"grad_norm": 0.1704, "loss": 2.951, "perplexity": 19.12, "peak_memory": 43313e6}


def test_a_text_in_place_of_a_time_is_no_time_of_a_phase(tmp_path: Path) -> None:
    line = "step:{k} - actor/pg_loss:0.1 - critic/score/mean:2.5 - timing_s/gen:{gen} - timing_s/adv:1.5\n"
    verl = read(tmp_path, "".join(line.format(k=k, gen="x9x9" if k == 3 else 300.5) for k in range(1, 6)))
    phases = verl.table("phases")
    assert phases[phases["phase"] == "timing_s_gen"]["step"].tolist() == [1, 2, 4, 5]
    assert phases[phases["phase"] == "timing_s_adv"]["step"].tolist() == [1, 2, 3, 4, 5]
    slime = SLIME_TIMES.format(k=0, steps="") + SLIME_TIMES.format(k=1, steps="").replace("17.18", "'late'")
    phases = read(tmp_path, slime).table("phases")
    assert phases[phases["phase"] == "perf_log_probs_time"]["step"].tolist() == [0]


# What pprint prints of a dict behind the name of a Ray actor, as NovaSky-AI/SkyRL and volcengine/verl print it
SKYRL = """\
(skyrl_entrypoint pid=5) 2026-08-20 10:01:41.123 | INFO     | skyrl.train.trainer:train:361 - Started: 'generate'
(skyrl_entrypoint pid=5) 2026-08-20 10:01:41.123 | INFO     | skyrl.train.trainer:train:361 - Finished: 'generate', \
time cost: 51.00s
(skyrl_entrypoint pid=5) 2026-08-20 10:01:52.123 | INFO     | skyrl.train.utils.tracking:log:189 - Step 1:
(skyrl_entrypoint pid=5) {'policy/grad_norm': '0.4000',
(skyrl_entrypoint pid=5)  'timing/eval': '12.0000',
(skyrl_entrypoint pid=5)  'timing/generate': '51.0000',
(skyrl_entrypoint pid=5)  'timing/step': '97.0000',
(skyrl_entrypoint pid=5)  'trainer/global_step': 1}
"""


def test_the_dict_of_a_step_of_skyrl(tmp_path: Path) -> None:
    log = read(tmp_path, SKYRL)
    (run,), (step,) = (log.table(name).to_dict("records") for name in ("runs", "steps"))
    assert (run["format"], step["line"], step["step"]) == ("skyrl", 4, 1)
    assert (step["step_time_s"], step["grad_norm"]) == (97, 0.4)
    (phase,) = log.table("phases").to_dict("records")
    assert (phase["phase"], phase["time_s"]) == ("timing_generate", 51)
    assert log.table("values").set_index("key")["value"].to_dict() == {"generate": 51, "validation_time": 12}


def test_the_configuration_of_verl_has_the_number_of_gpus(tmp_path: Path) -> None:
    text = """\
(TaskRunner pid=7) {'actor_rollout_ref': {'model': {'path': 'some/model'}},
(TaskRunner pid=7)  'trainer': {'n_gpus_per_node': 8,
(TaskRunner pid=7)              'nnodes': 2}}
(TaskRunner pid=7) Total training steps: 28
(TaskRunner pid=7) step:1 - critic/score/mean:0.5 - timing_s/step:60.0
"""
    (run,) = read(tmp_path, text).table("runs").to_dict("records")
    assert (run["world_size"], run["model"]) == (16, "some/model")
    assert json.loads(run["config"])["total_training_steps"] == 28


# alibaba/ROLL prints the time of the step before in the pipeline for verifiable rewards
ROLL = """\
[2026-08-19 15:{0}:11] [rlvr_pipeline.py (838)] [INFO] [DRIVER 0 / 1][PID 4] {{"time/step_total": 119.0, \
"time/step_generate": 61.5, "system/tps/tps": 9001.5, "system/global_step": {1}, "system/step": {1}}}
"""


def test_the_time_of_the_step_before_is_none_of_this_step(tmp_path: Path) -> None:
    log = read(tmp_path, ROLL.format(10, 1) + ROLL.format(12, 2))
    steps = log.table("steps")
    assert log.table("runs")["format"].tolist() == ["roll"]
    assert (steps["step"].tolist(), steps["step_time_s"].tolist()[1]) == ([1, 2], 120)
    assert log.table("phases")["time_s"].tolist() == [61.5, 61.5]
    assert set(log.table("values")["key"]) == {"previous_step_time", "mean_tokens_per_s"}


def test_the_grid_of_areal_is_of_the_step_above_it(tmp_path: Path) -> None:
    text = """\
20260521-18:31:12.345 StatsLogger INFO: Epoch 1/5 Step 2/100 Train step 2/500 done.
20260521-18:31:12.345 StatsLogger INFO: Stats (1/1):
20260521-18:31:12.345 StatsLogger INFO:
╒══════════════════╤════════════╤═════════════════════╤════════════╕
│ timeperf/rollout │ 6.0500e+01 │ timeperf/train_step │ 4.0000e+01 │
├──────────────────┼────────────┼─────────────────────┼────────────┤
│ rollout/reward   │ 3.0000e-01 │                     │            │
╘══════════════════╧════════════╧═════════════════════╧════════════╛
"""
    values = read(tmp_path, text).table("values")
    assert values[["step", "key", "value"]].values.tolist() == [
        [2, "timeperf_rollout", 60.5],
        [2, "timeperf_train_step", 40],
        [2, "rollout_reward", 0.3],
    ]
    assert values["unit"].tolist()[:2] == ["s", "s"]
