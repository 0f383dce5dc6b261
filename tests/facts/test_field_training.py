"""Training programs of the field: Megatron, DeepSpeed, Hugging Face, MLPerf, DLLogger and others give their figures."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from support.field_logs import both, column, config, corpus, cut, index, local, needs_corpus, rows, unread
from support.reading import Reading, read

import perflog

MS = 1e-3

# --- Megatron and DeepSpeed -----------------------------------------------------------------------------------------


@both
def test_megatron_iterations(whole: bool) -> None:
    log = corpus("megatron/") if whole else cut("megatron")
    first, *_, last = steps = rows(log, "steps")
    assert (first["step"], first["steps_averaged"], first["copy"]) == (10, 10, 1)
    assert first["step_time_s"] == pytest.approx(7963.4 * MS)
    assert (first["loss"], first["tflops"], first["samples_per_s"]) == (10.6858, 19.97, 32.147)
    assert [r["copy"] for r in steps] == [1] * len(steps)  # DeepSpeed tells the same steps: they are no second printing
    assert sorted(log.done.formats) == ["deepspeed", "megatron"]
    said = config(log)
    assert (said["seq_length"], said["padded_vocab_size"], said["train_iters"]) == (2048, 50304, 1716613)
    assert said["global_batch_size"] == 256
    timers = {r["phase"]: r["time_s"] for r in rows(log, "phases", step=10)}
    assert timers["forward_compute"] == pytest.approx(2720.02 * MS)
    assert column(log, "values", "value", key="validation_loss") == [7.095548]
    assert column(log, "values", "value", key="mean_samples_per_s")[0] == 28.404667548710506
    if not whole:  # every iteration of the interval was skipped: no loss was printed
        assert (last["step"], last["steps_averaged"], last["loss"]) == (130, 20, None)
        assert column(log, "values", "value", key="moe_loss", step=10) == [8.526326e-02]


@needs_corpus
def test_megatron_figures() -> None:
    log, want = corpus("megatron/"), index()[local("megatron/")]
    steps = rows(log, "steps")
    for row, (step, _, time, loss, tflops) in ((steps[0], want["first"]), (steps[-1], want["last"])):
        assert (row["step"], row["loss"], row["tflops"]) == (int(step), float(loss), float(tflops))
        assert row["step_time_s"] == pytest.approx(float(time) * MS)
    assert len(steps) == want["iterations"]
    assert statistics.fmean(r["step_time_s"] for r in steps) == pytest.approx(want["mean_ms"] * MS, abs=1e-7)
    forward = column(log, "phases", "time_s", phase="forward_compute")
    assert len(forward) == want["fc_lines"]
    assert statistics.fmean(forward) == pytest.approx(want["forward_compute_mean_ms"] * MS, abs=1e-7)
    assert len(log.rows("runs")) == 1


UNREAD = {
    "DeepSpeed's configuration, printed as JSON over several lines": ('"', "{", "}", "},", "activation_checkpointing"),
    "what the program says while it starts: builds, data sets, settings": (
        "[#-#-# #:#:#,#]", "WARNING", "> ", ">> ", "building", "using", "setting", "make:", "ninja:", "Detected",
        "Emitting", "Building", "Loading", "Allowing", "time to initialize", "document", "will not", "train", "valid",
        "test", "reading", "creating", "number", "sequence", "total", "loaded", "DeepSpeed is", "No existing", "op ",
        "torch ", "nvcc", "deepspeed", "**** Git", "sparse_attn", "async_io", "transformer",
    ),
}  # fmt: skip


@needs_corpus
def test_megatron_lines_that_nothing_reads_are_no_measurements() -> None:
    known = tuple(start for starts in UNREAD.values() for start in starts)
    left = {
        shape: n
        for shape, n in unread(corpus("megatron/")).items()
        if not shape.lstrip("> ").startswith((*known, "done"))
    }
    left = {shape: n for shape, n in left.items() if not shape.startswith(known)}
    assert left == {}
    assert not any("elapsed time" in shape or "time (ms)" in shape for shape in unread(corpus("megatron/")))


def test_megatron_of_all_years() -> None:
    log = read(b"""\
 iteration      100/  320000 | elapsed time per iteration (ms): 582.3 | learning rate 9.375E-07 | \
lm loss 1.012345E+01 | loss scale 131072.0 |
[default3]: [2025-11-28 18:48:17] iteration      110/    5000 | consumed samples:        51200 | elapsed time per \
iteration (ms): 616.3 | throughput per GPU (TFLOP/s/GPU): 68.2 | energy per GPU (J/iter/GPU): 21453.1 | power per GPU \
(W/GPU): 347.8 | learning rate: 1.000000E-04 | global batch size:  1024 | lm loss: 3.411207E+00 | grad norm: 0.412 |
 [2026-01-28 18:48:17.123456] iteration      120/    5000 | elapsed time per iteration (ms): 600.0 | lm loss: nan |
 samples/sec: 12.345 | iteration      130/    5000 | elapsed time per iteration (ms): 500.0 | lm loss: 2.5E+00 |
[2024-09-16 22:59:19.287338][INFO][training_log:661] -  iteration=     140/    5000 | elapsed_time_per_iteration_ms=\
400.0 | lm loss=1.250000 | [LM]TFLOPs=20.30 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1234.56, 1240.11)
times across ranks (ms):
  optimizer:
     rank  0: 12.50
     rank  1: 13.50
""")
    steps = rows(log, "steps")
    assert [r["step"] for r in steps] == [100, 110, 120, 130, 140]
    assert [r["step_time_s"] for r in steps] == [pytest.approx(x * MS) for x in (582.3, 616.3, 600, 500, 400)]
    assert [r["tflops"] for r in steps] == [None, 68.2, None, None, 20.3]
    assert [r["loss"] for r in steps if r["step"] != 120] == [10.12345, 3.411207, 2.5, 1.25]
    energy = rows(log, "values", key="energy_per_gpu") + rows(log, "values", key="power_per_gpu")
    assert [(r["value"], r["unit"]) for r in energy] == [(21453.1, "J"), (347.8, "W")]
    assert [(r["step"], r["rank"], r["phase"], r["min_s"], r["time_s"]) for r in rows(log, "phases")] == [
        (140, None, "forward_backward", pytest.approx(1234.56 * MS), pytest.approx(1240.11 * MS)),
        (140, 0, "optimizer", None, pytest.approx(12.5 * MS)),
        (140, 1, "optimizer", None, pytest.approx(13.5 * MS)),
    ]  # fmt: skip
    assert unread(log) == {}


def test_gpt_neox_names_its_figures_in_its_own_way() -> None:
    """`lm_loss` is the loss, its TFLOP/s has its unit behind it, and a validation gives results."""
    log = read(b"""\
 samples/sec: 7.799 | iteration        1/   10000 | elapsed time per iteration (ms): 4103.1 | learning rate: 2.111E-06 \
| approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 | number of skipped iterations:   0 |
 validation results at iteration 1 | lm_loss value: 5.371283E+00 | lm_loss_ppl value: 2.151386E+02 |
[default7]:validation loss at iteration 1 on validation set | lm loss value: 6.5E+00 | lm loss PPL: 6.651E+02 |
""")
    (step,) = rows(log, "steps")
    assert (step["loss"], step["tflops"], step["samples_per_s"]) == (11.18665, 112.9, 7.799)
    assert column(log, "values", "value", key="validation_loss") == [5.371283, 6.5]
    assert column(log, "values", "value", key="validation_perplexity") == [215.1386, 665.1]
    assert unread(log) == {}


def test_megatron_behind_names_of_hosts_and_actors() -> None:
    """The launchers of DeepSpeed and Ray print who wrote a line in front of it; the line's own blank stays."""
    line = b" iteration %8d/     100 | elapsed time per iteration (ms): 5444.9 | lm loss: 1.8E+00 |\n"
    fronts = (b"worker-0: ", b"10.0.0.1: ", b"(TrainActor pid=123, ip=10.0.0.1)", b"[2025-11-03 10:12:13,123] [INFO] ")
    log = read(
        b"".join(front + line % n for n, front in enumerate(fronts, 1))
        + b"""\
worker-0: time (ms) | forward-compute: 31.57 | backward-compute: 41.76
"""
    )
    assert [(r["step"], r["step_time_s"]) for r in rows(log, "steps")] == [
        (n, pytest.approx(5.4449)) for n in range(1, 5)
    ]
    assert column(log, "phases", "phase") == ["forward_compute", "backward_compute"]
    assert unread(log) == {}


def test_lines_of_llama2_c() -> None:
    log = read(b"""\
step 500: train loss 5.7373, val loss 5.9544
wrote out/model.bin
0 | loss 10.4312 | lr 0.000000e+00 | 12040.61ms | mfu -100.00%
500 | loss 6.0091 | lr 5.000000e-05 | 8175.64ms | mfu 0.19%
510 | loss 5.2391 | lr 4.999939e-05 | 8060.78ms
""")
    assert [(r["step"], r["loss"], r["mfu"]) for r in rows(log, "steps")] == [
        (0, 10.4312, None),
        (500, 6.0091, pytest.approx(0.0019)),
        (510, 5.2391, None),
    ]
    assert [r["step_time_s"] for r in rows(log, "steps")] == [
        pytest.approx(x * MS) for x in (12040.61, 8175.64, 8060.78)
    ]
    assert unread(log) == {}


@both
def test_deepspeed_breakdown(whole: bool) -> None:
    log = corpus("deepspeed/store") if whole else cut("deepspeed")
    times = {r["phase"]: r["time_s"] for r in rows(log, "phases")}
    assert (times["fwd"], times["bwd"]) == (pytest.approx(6567.66 * MS), pytest.approx(17950.35 * MS))
    assert times["optimizer"] == pytest.approx(1139.29 * MS)  # printed as `step`
    assert times["fwd_microstep"] == pytest.approx(6567.68 * MS)
    assert {r["rank"] for r in rows(log, "phases")} == {0}
    (step,) = rows(log, "steps")
    assert (step["step"], step["step_time_s"], step["copy"]) == (1, pytest.approx(25849.1 * MS), 1)
    assert sorted(log.done.formats) == ["deepspeed", "megatron"]
    if whole:
        want = index()[local("deepspeed/store")]
        assert times["fwd"] == pytest.approx(want["fwd"] * MS)
        assert times["bwd"] == pytest.approx(want["bwd"] * MS)
        assert times["optimizer"] == pytest.approx(want["step"] * MS)
        assert len({r["line"] for r in rows(log, "phases")}) == want["time_ms_lines"]
        assert step["step_time_s"] == pytest.approx(want["elapsed_ms"] * MS)
        assert want["iterations"] == 1
        assert not unread(log)


def test_deepspeed_old_and_new() -> None:
    log = read(b"""\
[2023-11-02 05:11:23,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, \
RunningAvgSamplesPerSec=23.5, CurrSamplesPerSec=24.5, MemAllocated=13.25GB, MaxMemAllocated=17.95GB
 10%|#         | 1/10 [00:01<00:09,  1.0s/it][2023-11-02 05:11:23,123] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 \
time (ms) | forward: 1330.05 | backward: 4766.88 | step: 113.70
[Rank 1] time (ms) | fwd: 259.10 (fwd_moe: 81.19, 1st_a2a: 12.10, 2nd_a2a: 13.20, top_k: 3.10)
""")
    assert {r["key"]: r["value"] for r in rows(log, "values", step=10)} == {
        "epoch": 0, "micro_step": 40, "mean_samples_per_s": 23.5, "samples_per_s": 24.5,
        "memory": 13.25 * 2**30, "max_memory": 17.95 * 2**30,
    }  # fmt: skip
    assert [(r["rank"], r["phase"], r["time_s"]) for r in rows(log, "phases")] == [
        (rank, phase, pytest.approx(time * MS)) for rank, phase, time in (
            (0, "forward", 1330.05), (0, "backward", 4766.88), (0, "optimizer", 113.7),
            (1, "fwd", 259.1), (1, "fwd_moe", 81.19), (1, "first_a2a", 12.1), (1, "second_a2a", 13.2),
            (1, "top_k", 3.1),
        )
    ]  # fmt: skip
    assert unread(log) == {}


# --- Hugging Face Trainer -------------------------------------------------------------------------------------------


@both
def test_hf_dicts_behind_bars(whole: bool) -> None:
    log = corpus("hftrainer/") if whole else cut("hf_trainer")
    first = rows(log, "steps")[0]
    assert (first["step"], first["loss"], first["grad_norm"]) == (4840, 1.112, 0.2930646538734436)
    (runtime,) = rows(log, "summaries", key="train_runtime")[:1]
    assert (runtime["value"], runtime["unit"]) == (8163.4703, "s")
    assert config(log) == ({"bar_total": 4854} if whole else {"bar_total": 4854, "max_steps": 94})
    assert {*log.done.formats} == {"hf_trainer", "bars"}
    if whole:
        want = index()[local("hftrainer/")]
        assert column(log, "steps", "loss") == want["losses"]
        assert len(log.rows("steps")) == want["loss_records"]
        assert column(log, "summaries", "value", key="train_runtime") == [want["train_runtime_s"]]
        assert column(log, "summaries", "value", key="train_samples_per_second") == [want["train_samples_per_second"]]
        assert unread(log) == {"训练完成！模型已保存至 ./qwen#-alpaca-lora": 1}  # what the program says at its end


def test_hf_steps_are_known_only_where_they_are_proved() -> None:
    log = cut("hf_trainer")
    # Behind a bar that needs seconds for a step; alone; behind one of steps per second, which may lag; printed.
    assert column(log, "steps", "step") == [4840, None, None, 90]
    assert column(log, "steps", "copy") == [1, 1, 1, 1]
    assert column(log, "steps", "loss") == [1.112, 0.1429, 0.5, 1.25]
    assert column(log, "summaries", "value", key="train_runtime") == [8163.4703, 66.57]
    assert [(r["value"], r["unit"]) for r in rows(log, "values", key="eval_runtime")] == [(12.5, "s")]
    assert unread(log) == {}


# --- records: MLPerf, DLLogger, JSON lines --------------------------------------------------------------------------


def mlperf(log: Reading) -> dict[str, int]:
    """Lines of each format, by what reads them."""
    counts = {r["shape"]: r["count"] for r in log.rows("lines") if r["status"] == "read"}
    of_bars = ("bar", "smoothed")
    glued = {r["line"] for r in log.rows("values") if r["part"] and not any(word in r["key"] for word in of_bars)}
    return {
        "mllog": sum(n for shape, n in counts.items() if ":::MLLOG" in shape),
        "glued": len(glued),  # behind progress bars
        "epoch": sum(n for shape, n in counts.items() if shape.startswith("Epoch:")),
    }


@both
def test_mlperf_events(whole: bool) -> None:
    log = corpus("mllog/") if whole else cut("mlperf")
    assert column(log, "values", "value", key="run_start") == [pytest.approx(1714249877.344)]
    assert column(log, "values", "value", key="run_stop") == [pytest.approx(1714252041.941)]
    assert [r["step"] for r in rows(log, "values", key="throughput")] == ([1, 2, 3, 4, 5] if whole else [1, 5])
    said = config(log)
    assert (said["submission_benchmark"], said["global_batch_size"], said["status"]) == ("ssd", 256, "success")
    assert column(log, "values", "value", key="eval_accuracy")[0] == 0.2444063174992906
    assert {*log.done.formats} == {"mlperf", "metric_logger", "bars"} | ({"coco"} if whole else set())
    steps = rows(log, "steps")[:3]
    assert [(r["step"], r["steps_averaged"]) for r in steps] == [(0, 1), (20, 20), (40, 20)]
    assert [r["step_time_s"] for r in steps] == [0.11, 0.1121, 0.1116]
    if whole:
        want = index()[local("mllog/")]
        assert mlperf(log) == {
            "mllog": want["mllog_lines"], "glued": want["glued_to_tqdm"], "epoch": want["epoch_lines"],
        }  # fmt: skip
        assert (want["mllog_bad"], want["status"]) == (0, ["success"])
        assert not any("MLLOG" in shape for shape in unread(log))
    else:
        assert mlperf(log) == {"mllog": 20, "glued": 1, "epoch": 6}


def test_mlperf_run_that_was_cut_off_has_no_stop() -> None:
    log = read(b"""\
0: :::MLLOG {"namespace": "", "time_ms": 1000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, \
"metadata": {"file": "t.py", "lineno": 1}}
0: :::MLLOG {"namespace": "", "time_ms": 2000, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 2.75, \
"metadata": {"file": "t.py", "lineno": 2, "samples_count": 24576, "lr": 2e-05}}
""")
    found = [(r["key"], r["value"]) for r in rows(log, "values")]
    assert sorted(found) == [
        ("lr", 2e-05), ("run_start", 1.0), ("samples_count", 24576.0), ("time", 2.0), ("train_loss", 2.75),
    ]  # fmt: skip
    assert unread(log) == {}


def test_mlperf_numbers_of_any_key() -> None:
    event = ':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "%s", "key": "%s", "value": %s, "metadata": %s}\n'
    log = read(
        (
            event % (1000, "POINT_IN_TIME", "tracked_stats", '{"loss": 2.5, "ms": {"fwd": 7}}', '{"step_num": 12}')
            + "".join(event % (k * 1000, "POINT_IN_TIME", "power", 300 + k, '{"lineno": 9}') for k in (2, 3, 4))
            + event % (5000, "INTERVAL_END", "run_stop", "null", '{"status": "aborted", "samples_count": 64}')
        ).encode()
    )
    found = sorted((r["line"], r["step"], r["key"], r["value"]) for r in rows(log, "values") if r["value"] is not None)
    assert found == [
        (1, 12, "ms.fwd", 7.0), (1, 12, "time", 1.0), (2, None, "power", 302.0), (2, None, "time", 2.0),
        (3, None, "power", 303.0), (3, None, "time", 3.0), (4, None, "power", 304.0), (4, None, "time", 4.0),
        (5, None, "run_stop", 5.0), (5, None, "samples_count", 64.0),
    ]  # fmt: skip
    assert [(r["line"], r["step"], r["loss"]) for r in rows(log, "steps")] == [(1, 12, 2.5)]
    assert config(log) == {"status": "aborted"}
    assert unread(log) == {}


def test_mlperf_of_2018() -> None:
    log = read(b"""\
:::MLPv0.5.0 ssd 1544237690.793356895 (ssd_main.py:306) run_start
:::MLPv0.5.0 ssd 1544237691.860223532 (/tmp/ssd/dataloader.py:409) input_batch_size: 128
:::MLPv0.5.0 ssd 1544237692.605860472 (/tmp/ssd/dataloader.py:53) aspect_ratios: [[2], [2, 3]]
:::MLPv0.5.0 ssd 1544237693.247082472 (/tmp/ssd_model.py:300) data_normalization_mean: [0.485, 0.456, 0.406]
:::MLPv0.5.0 ssd 1544237693.254394293 (/tmp/arch.py:534) backbone: "resnet34"
:::MLPv0.5.0 ssd 1544239997.984836578 (ssd_main.py:251) eval_accuracy: {"value": 0.13650104428321413, "epoch": 32}
:::MLPv0.5.0 ssd 1544239998.500000000 (ssd_main.py:299) run_stop: {"success": true}
:::MLPv0.5.0 ssd 1544239998.985635135 (ssd_main.py:300) run_final
""")
    found = {(r["line"], r["key"]): r["value"] for r in rows(log, "values") if r["key"] != "time"}
    assert found == {
        (1, "run_start"): 1544237690.793356895, (6, "eval_accuracy"): 0.13650104428321413, (6, "epoch"): 32.0,
        (7, "run_stop"): 1544239998.5, (8, "run_final"): 1544239998.985635135,
    }  # fmt: skip
    assert config(log) == {
        "benchmark": "ssd", "input_batch_size": 128, "aspect_ratios[0]": [2], "aspect_ratios[1]": [2, 3],
        "data_normalization_mean": [0.485, 0.456, 0.406], "backbone": "resnet34",
        "success": "true",
    }  # fmt: skip
    assert (log.done.formats, unread(log)) == (["mlperf"], {})


def test_mlperf_of_2019_by_google() -> None:
    log = read(b"""\
:::MLL 1558510623.878 global_batch_size: {"value": 128, "metadata": {"lineno": 209, "file": "main.py"}}
:::MLL 1558511260.864 run_start: {"value": null, "metadata": {"lineno": 427, "file": "runner.py"}}
:::MLL 1558511613.160 eval_accuracy: {"value": [0.25, 0.125], "metadata": {"epoch_num": 4, "lineno": 53}}
:::MLL 1558511794.525 run_stop: {"value": null, "metadata": {"status": "success", "lineno": 476}}
""")
    found = {(r["line"], r["key"]): r["value"] for r in rows(log, "values") if r["key"] != "time"}
    assert found == {
        (2, "run_start"): 1558511260.864, (3, "eval_accuracy[0]"): 0.25, (3, "eval_accuracy[1]"): 0.125,
        (3, "epoch"): 4.0, (4, "run_stop"): 1558511794.525,
    }  # fmt: skip
    assert (config(log)["global_batch_size"], config(log)["status"]) == (128, "success")


def test_nccl_inspector() -> None:
    log = read(b"""\
{"header": {"id": "0x7f", "rank": 2, "n_ranks": 8, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4", \
"git_rev": "", "rec_mechanism": "p", "dump_timestamp_us": 1748030377748202, "hostname": "h", "pid": 16}, "coll_perf": \
{"coll": "AllReduce", "coll_sn": 1407, "coll_msg_size_bytes": 17179869184, "coll_exec_time_us": 61974, \
"coll_algobw_gbs": 277.210914, "coll_busbw_gbs": 485.119099}}
""")
    columns = ("rank", "op", "bytes", "ranks", "time_s", "algbw_gbps", "busbw_gbps")
    assert [tuple(r[c] for c in columns) for r in rows(log, "collectives")] == [
        (2, "AllReduce", 17179869184, 8, pytest.approx(0.061974), 277.210914, 485.119099)
    ]
    found = {r["key"]: r["value"] for r in rows(log, "values")}
    assert found == {
        "coll_perf.coll_sn": 1407.0, "header.nnodes": 1.0,
        "metadata.dump_timestamp": pytest.approx(1748030377.748202),
    }  # fmt: skip
    assert log.done.formats == ["nccl_inspector"]


@both
def test_dllogger(whole: bool) -> None:
    log = corpus("dllogger/") if whole else cut("dllogger")
    first, *_, last = rows(log, "steps")
    assert (first["step"], first["loss"], first["learning_rate"]) == (0, 3.69921875, 1.999360204734485e-05)
    assert (last["step"], last["loss"]) == (1562, 2.876953125)
    end = {r["key"]: r["value"] for r in rows(log, "summaries")}
    assert end["e2e_train_time"] == 125578.67013645172
    assert config(log)["batch_size_per_gpu"] == 10
    assert (log.done.formats, unread(log)) == (["dllogger"], {})
    if whole:
        want = index()[local("dllogger/")]
        steps = column(log, "steps", "step")
        assert (len(steps), len({*steps})) == (want["step_loss_records"], want["distinct_steps"])
        assert sum(copy > 1 for copy in column(log, "steps", "copy")) == want["duplicate_step_records"]
        assert [steps[0], steps[-1]] == [want["first"][1], want["last"][1]]
        assert end == want["final"]
        assert (log.done.lines["read"], log.done.lines["total"]) == (want["lines"], want["lines"])


def test_dllogger_text_without_parameters() -> None:
    bar = " " * 40 + "Iteration:  49%|####     | 1350/2771 [02:51<02:58,  7.97it/s]"
    log = read(
        f"""\
DLL 2022-04-05 05:17:50.692194 - Training Epoch: 1 Training Iteration: 4072  step_loss : 0.0252  \
learning_rate : 8.537e-06{bar}
DLL 2022-04-05 05:18:03.226897 - Training Epoch: 1 Training Iteration: 4172  step_loss : 0.3004  learning_rate : 7.9e-06
""".encode()
    )
    assert {*log.done.formats} == {"dllogger", "bars"}
    found = [(r["epoch"], r["step"], r["loss"], r["learning_rate"]) for r in rows(log, "steps")]
    assert found == [(1, 4072, 0.0252, 8.537e-06), (1, 4172, 0.3004, 7.9e-06)]  # the bar is of the steps behind it
    assert unread(log) == {}


def test_megatron_bridge_prints_the_rate_before_its_iteration() -> None:
    log = read(b"""\
 [2025-10-02 22:52:07] iteration       10/      50 | elapsed time per iteration (ms): 13212.7 | lm loss: 4.474437E+00 |
Step Time : 14.26s GPU utilization: 58.2MODEL_TFLOP/s/GPU
 [2025-10-02 22:54:30] iteration       20/      50 | elapsed time per iteration (ms): 14260.3 | lm loss: 8.797448E-02 |
""")
    assert (column(log, "steps", "step_time_s"), unread(log)) == ([pytest.approx(13.2127), pytest.approx(14.2603)], {})
    (rate,) = rows(log, "values", key="tflops")
    assert (rate["value"], rate["unit"], rate["step"]) == (58.2, "TFLOP/s", None)


def test_verl() -> None:
    log = read(b"""\
(TaskRunner pid=7) step:0 - val-aux/math/score/best@4/mean:0.625 - val-core/math/reward/mean@4:0.500
(TaskRunner pid=7) step:1 - actor/kl_loss:0.071 - actor/grad_norm:0.180 - actor/perf/max_memory_allocated_gb:25.921 - \
training/global_step:1.000 - critic/score/mean:np.float64(0.011) - timing_s/gen:74.020 - timing_s/step:96.551 - \
timing_per_token_ms/ref:0.003 - perf/total_num_tokens:2188762.000 - perf/time_per_step:96.551 - perf/throughput:5667.388
""")
    assert (log.done.formats, unread(log)) == (["verl"], {})
    (step,) = rows(log, "steps")
    assert (step["step"], step["step_time_s"], step["grad_norm"]) == (1, 96.551, 0.18)
    figures = {r["key"]: (r["value"], r["unit"], r["step"]) for r in rows(log, "values")}
    assert figures["val_core_math_reward_mean_4"] == (0.5, None, 0)
    assert figures["timing_per_token_ms_ref"] == (pytest.approx(3e-6), "s", 1)
    assert figures["tokens_per_gpu_per_s"] == (5667.388, "1/s", 1)
    assert step["memory_bytes"] == pytest.approx(25.921 * 2**30)
    assert figures["critic_score_mean"] == (0.011, None, 1)
    assert [(r["phase"], r["time_s"], r["step"]) for r in rows(log, "phases")] == [("timing_s_gen", 74.02, 1)]


def test_verl_times_the_validation_after_the_step_since_it_counts_aborted_responses() -> None:
    line = "step:5 - critic/score/mean:0.5 - %stiming_s/gen:20.0 - timing_s/step:60.0 - timing_s/testing:30.0\n"
    phases = {}
    for key in ("response/aborted_ratio:0.0 - ", ""):
        log = read((line % key).encode())
        phases[key] = {r["phase"] for r in rows(log, "phases")}
        times = [(r["value"], r["unit"]) for r in rows(log, "values", key="validation_time")]
        assert times == ([(30.0, "s")] if key else [])
    assert [*phases.values()] == [{"timing_s_gen"}, {"timing_s_gen", "timing_s_testing"}]


def test_a_bar_of_torchtune_and_the_line_beside_it_are_one_step() -> None:
    line = (
        "Step {0} | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:{0}00.0 grad_norm:1.25 \n"
        "1|{0}|Loss: 1.5:   {0}%|#         | {0}/100 [00:{0}5<04:51,  5.00s/it]\n"
    )
    log = read("".join(line.format(k) for k in range(1, 6)).encode())
    assert [(r["step"], r["copy"], r["grad_norm"]) for r in rows(log, "steps")] == [(k, 1, 1.25) for k in range(1, 6)]
    assert rows(log, "values", key="tokens_per_gpu_per_s")[2]["value"] == 300


def test_torchtune_and_internevo() -> None:
    log = read(b"Step 12 | loss:1.1258 lr:0.0002 tokens_per_second_per_gpu:1234.5 grad_norm:0.75 \n")
    (step,) = rows(log, "steps")
    assert (log.done.formats, unread(log)) == (["torchtune"], {})
    assert [step[n] for n in ("step", "loss", "learning_rate", "grad_norm")] == [12, 1.1258, 0.0002, 0.75]
    assert [(r["value"], r["unit"]) for r in rows(log, "values", key="tokens_per_gpu_per_s")] == [(1234.5, "1/s")]
    log = read(b"""\
2024-08-23 19:25:04,187 INFO pipeline.py:663 in record_current_batch_training_metrics -- tflops=252.4 step=199 \
loss=0.0004 real_tgs=2055.59 tgs (tokens/gpu/second)=2511.37 lr=1e-05 \
grad_norm={'0_default': 0.0002, '1_fp32': 0.0} fwd_bwd_time=12.87
""")
    (step,) = rows(log, "steps")
    assert (log.done.formats, unread(log)) == (["internevo"], {})
    assert [step[n] for n in ("step", "loss", "tflops", "grad_norm")] == [199, 0.0004, 252.4, 0.0002]
    assert [(r["value"], r["unit"]) for r in rows(log, "values", key="fwd_bwd_time")] == [(12.87, "s")]


def test_json_lines_whose_names_tell_what_they_are() -> None:
    log = read(b"""\
{"step": 100, "loss": 2.5, "lr": 0.0003, "grad_norm": 1.25, "tokens_per_second": 123456.7, "step_time_ms": 250.0}
{"step": 200, "loss": NaN, "learning_rate": 0.0002, "step_time": 0.25, "note": "a \\"quoted\\" word"}
{"step": 300, "loss": null}
""")
    assert column(log, "steps", "step") == [100, 200, 300]
    assert column(log, "steps", "learning_rate") == [0.0003, 0.0002, None]
    assert column(log, "steps", "step_time_s") == [0.25, None, None]  # `step_time` tells no unit
    assert (column(log, "steps", "tokens_per_s")[0], log.done.formats) == (123456.7, ["jsonl"])
    assert unread(log) == {}
    log = read(b"""\
{"current_steps": 10, "total_steps": 774, "loss": 1.5, "lr": 5e-06, "epoch": 0.01, "elapsed_time": "0:00:12"}
{"train/loss": 1.25, "train/lr": 0.5, "_step": 20, "rank": 3}
{"iteration": 30, "train_loss": 1.0}
{"iteration": 31, "name": "no loss"}
""")
    found = [(r["step"], r["loss"], r["learning_rate"], r["rank"]) for r in rows(log, "steps")]
    assert found == [(10, 1.5, 5e-06, None), (20, 1.25, 0.5, 3), (30, 1.0, None, None)]
    assert unread(log) == {'{"iteration": #, "name": "no loss"}': 1}


def test_json_lines_and_python_dicts_are_told_apart_by_their_quotes() -> None:
    same = "{'step': 10, 'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
    for text, name in ((same, "hf_trainer"), (same.replace("'", '"'), "jsonl")):
        log = read(text.encode())
        assert (log.done.formats, column(log, "steps", "step"), unread(log)) == ([name], [10], {})


def test_progress_of_levanter_has_steps_as_long_as_counts_are_not_rounded() -> None:
    log = read(b"""\
Progress on:train -/10.0k rate:- remaining:? elapsed:00:00 postfix:-
Progress on:train 2.00it/10.0kit rate:1.2s/it remaining:3:19:50 elapsed:00:26 postfix:loss=11.1
Progress on:train 19.0it/10.0kit rate:2.0it/s remaining:1:23:10 elapsed:00:46 postfix:loss=10.9
Progress on:train 1.23kit/10.0kit rate:1.2s/it remaining:2:55:24 elapsed:24:36 postfix:loss=4.12
""")
    assert [(s["step"], s["loss"], s["elapsed_s"]) for s in rows(log, "steps")] == [(2, 11.1, 26), (19, 10.9, 46)]
    values = [(v["key"], v["value"], v["step"]) for v in rows(log, "values")]
    assert ("smoothed_it_per_s", 2.0, 19) in values
    assert ("loss", 4.12, None) in values  # at a step between 1,225 and 1,234
    assert (log.done.formats, unread(log)) == (["levanter"], {})


def test_progress_of_openpi_has_rates_beside_its_steps() -> None:
    log = read(b"""\
10:14:50.351 [I] Progress on: -/2000 rate:- remaining:? elapsed:00:00 postfix:- (24:tqdm.py:9)
Step 0: grad_norm=2.1253, loss=0.5125, param_norm=1300.5251
10:16:50.351 [I] Progress on: 120it/2.00kit rate:1.5s/it remaining:1:20:00 elapsed:02:00 postfix:- (24:tqdm.py:9)
Step 100: grad_norm=1.1251, loss=0.4125, param_norm=1300.6251
10:26:50.351 [I] Progress on: 1.22kit/2.00kit rate:2.5it/s remaining:20:00 elapsed:12:00 postfix:- (24:tqdm.py:9)
""")
    assert [(s["step"], s["loss"], s["grad_norm"]) for s in rows(log, "steps")] == [
        (0, 0.5125, 2.1253),
        (100, 0.4125, 1.1251),
    ]
    rates = [(v["key"], v["value"], v["unit"]) for v in rows(log, "values") if v["key"] != "param_norm"]
    assert rates == [("iteration_time", 1.5, "s"), ("iterations_per_s", 2.5, "1/s")]
    assert (log.done.formats, unread(log)) == (["openpi"], {})


def test_iterations_of_cosmos_have_times_and_memory() -> None:
    log = read(b"""\
[03-04 05:10:18|INFO|callbacks/iter_speed.py:69:end] Iteration 2: Hit counter: 2/2 | Loss: 0.8000 | Time: 9.41s
[03-04 05:44:12|INFO|callbacks/iter_speed.py:86:run] 100 : iter_speed 8.75 seconds per iteration | Loss: 0.2556
[03-04 05:58:55|DEBUG|callbacks/every_n.py:69:end] Callback IterSpeed fired on train_batch_end step 200
[03-04 05:58:55|INFO|callbacks/iter_speed.py:86:run] 200 : iter_speed 8.83 seconds per iteration | Loss: 0.2444
[03-04 05:58:55|INFO|callbacks/device_monitor.py:187:run] DeviceMonitor Stats:
                                    Avg            Max            Min
peak_gpu_mem_gb               38.500000      39.250000      38.000000
""")
    steps = [(s["step"], s["step_time_s"], s["loss"]) for s in rows(log, "steps")]
    assert steps == [(2, 9.41, 0.8), (100, 8.75, 0.2556), (200, 8.83, 0.2444)]
    assert rows(log, "steps")[-1]["steps_averaged"] == 100
    assert column(log, "values", "value", key="peak_memory_max") == [39.25 * 2**30]
    assert (log.done.formats, unread(log)) == (["cosmos"], {})


def test_progress_log_of_megatron_has_a_run_for_each_start() -> None:
    figures = b"Job throughput: 364.8 TFLOP/s/GPU\tCumulative throughput: 387.0 TFLOP/s/GPU\t"
    figures += b"Floating-point operations: 6.76e+17\tTokens (in billions): 0.05\n"
    start = b"2025-02-24 1%d:31:25\tJob ID: 7%d\t# GPUs: 8\tStarting job\n"
    saved = b"2025-02-24 1%d:35:03\tJob ID: 7%d\t# GPUs: 8\tSaved checkpoint\tIteration: %d00\t" + figures
    log = read(b"".join(start % (k, k) + saved % (k, k, k) for k in (1, 2)))
    assert column(log, "runs", "world_size") == [8, 8]
    checkpoints = [row for row in rows(log, "milestones") if row["kind"] == "checkpoint"]
    assert [(row["step"], row["edge"]) for row in checkpoints] == [(100, "end"), (200, "end")]
    rates = [(v["value"], v["unit"]) for v in rows(log, "values") if v["key"] == "job_tflops_per_gpu"]
    assert (rates, unread(log)) == ([(364.8, "TFLOP/s")] * 2, {})


def test_lines_of_nemo_maxtext_and_primus() -> None:
    log = read(b"""\
0: Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | \
reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | \
TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 928 | val_loss: 2.861
""")
    (step,) = rows(log, "steps")
    assert (step["step"], step["loss"], step["step_time_s"], step["tflops"]) == (28, 2.778, 0.189, 1249.0)
    assert (log.done.formats, unread(log), config(log)["global_batch_size"]) == (["nemo"], {}, 32)
    log = read(b"completed step: 9, seconds: 4.326, TFLOP/s/device: 180.411, Tokens/s/device: 3787.330, loss: 7.923\n")
    (step,) = rows(log, "steps")
    assert (step["step"], step["loss"], step["step_time_s"], step["tflops"]) == (9, 7.923, 4.326, 180.411)
    log = read(b"""\
[20260923 15:34:02][rank-7/8][INFO ] [-----trainer.py:1567] : iteration        4/      20 | elapsed time per iteration \
(ms): 654.5/735.1 | throughput per GPU (TFLOP/s/GPU): 1290.3/1162.8  | \
tokens/s/GPU inst/harmonic mean: 25032.8/22288.1 | lm loss: 1.101008E+01 |
""")
    (step,) = rows(log, "steps")
    assert (step["step"], step["tflops"], step["step_time_s"]) == (4, 1290.3, pytest.approx(654.5 * MS))
    assert (step["rank"], step["rank_by"], column(log, "runs", "world_size")) == (7, "printed", [8])
    assert column(log, "values", "value", key="tokens_per_gpu_per_s") == [25032.8]
    means = [(r["value"], r["unit"]) for r in rows(log, "values") if r["key"].startswith("mean_")]
    assert means == [(pytest.approx(735.1 * MS), "s"), (1162.8, "TFLOP/s"), (22288.1, "1/s")]


def test_a_speed_run_tells_the_time_since_its_start() -> None:
    log = read(b"""\
import os
step:0/1480 val_loss:10.8258 train_time:0ms step_avg:0.03ms
step:1/1480 train_time:422ms step_avg:422.00ms
step:2/1480 train_loss:5.1000 train_time:822ms step_avg:411.00ms
step:2/1480 val_loss:5.2000 train_time:823ms step_avg:411.50ms
peak memory allocated: 37325 MiB reserved: 51882 MiB
""")
    names = ("step", "loss", "elapsed_s", "step_time_s", "step_time_from")
    assert [tuple(r[n] for n in names) for r in rows(log, "steps")] == [
        (1, None, 0.422, 0.422, 2), (2, 5.1, 0.822, 0.4, 3),
    ]  # fmt: skip
    assert [(r["copy"], r["steps_averaged"]) for r in rows(log, "steps")] == [(1, 1), (1, 1)]
    assert column(log, "values", "value", key="train_time") == [0.0, pytest.approx(0.823)]
    assert (rows(log, "runs")[0]["elapsed_s"], rows(log, "runs")[0]["elapsed_line"]) == (0.823, 5)
    assert column(log, "values", "value", key="val_loss") == [10.8258, 5.2]
    assert column(log, "summaries", "value", key="peak_memory") == [37325 * 2.0**20]
    assert unread(log) == {"import os": 1}


def test_lines_every_few_steps_are_no_run_that_stopped(tmp_path: Path) -> None:
    line = "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5, 'global_step/max_steps': '%d/94'}\n"
    for last, codes in ((90, set()), (70, {"run-stopped"})):
        path = tmp_path / f"{last}.txt"
        path.write_text("".join(line % step for step in range(10, last + 1, 10)), encoding="utf-8")
        assert {*perflog.lint(perflog.read(path))["code"]} & {"run-stopped"} == codes
