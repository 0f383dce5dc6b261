"""Lines of meters: real lines of programs that print `name value (mean)` and `name: value,`, figure by figure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from support.cost import calls, cpu_growth
from support.reading import Reading, read

from perflog.errors import FormatError, InputError
from perflog.formats import tokens
from perflog.formats.families.measured_lines import PATTERN as MEASURED_PATTERN
from perflog.formats.families.meters import MeterFamily, bars
from perflog.formats.families.meters.line_words import end_of_call, ends_counted
from perflog.formats.figures import name_spans
from perflog.formats.loader.format_file import load
from perflog.formats.number_units import unit_of_number
from perflog.formats.registry import get, known
from perflog.formats.token_line import TokenLine

MIB = 2.0**20


@dataclass(frozen=True)
class Program:
    """A real log of a program, and what its first step line says.

    Attributes:
        log: Lines as printed.
        line: The entry of the format that reads them.
        steps: Columns of its first row of `steps`.
        values: Key and number of its rows in `values`.
        config: Settings of the run.
    """

    log: str
    line: str
    steps: dict[str, float | None]
    values: dict[str, float]
    config: dict[str, float] = field(default_factory=dict)


PROGRAMS = {
    "Swin Transformer": Program(
        "[2022-03-14 09:05:16 swin_v1_tiny_patch4_window7_224_WindowAttention] (main.py 226): INFO Train: "
        "[14/300][250/1251]"
        "\teta 0:10:52 lr 0.000710\ttime 0.6408 (0.6516)\tloss 6.5584 (6.3074)\tgrad_norm 6.5613 (10.6225)\tmem "
        "14764MB\n"
        "[2022-03-14 09:05:23 swin_v1_tiny_patch4_window7_224_WindowAttention] (main.py 226): INFO Train: "
        "[14/300][260/1251]"
        "\teta 0:10:45 lr 0.000711\ttime 0.6290 (0.6510)\tloss 5.8341 (6.3028)\tgrad_norm 7.8036 (10.4777)\tmem "
        "14764MB\n",
        "swin",
        {"step": 14 * 1251 + 250, "step_time_s": 0.6408, "loss": 6.5584, "grad_norm": 6.5613, "learning_rate": 0.00071,
         "memory_bytes": 14764 * MIB},
        {"epoch": 14, "batch": 250, "time_mean": 0.6516, "loss_mean": 6.3074, "grad_norm_mean": 10.6225},
        {"epochs": 300, "batches": 1251},
    ),
    "PyTorch's ImageNet example": Program(
        "=> creating model 'vit'\n"
        "Epoch: [0][  400/80073]\tTime  0.315 ( 0.372)\tData  0.002 ( 0.073)\tLoss 6.9802e+00 (7.0827e+00)"
        "\tAcc@1   0.00 (  0.08)\tAcc@5   6.25 (  0.55)\tlr 0.000000 (0.000002)\n"
        "Epoch: [0][ 1410/80073]\tTime 10.315 (11.372)\tData  0.002 ( 0.073)\tLoss 6.5802e+00 (6.7827e+00)"
        "\tAcc@1 100.00 ( 10.08)\tAcc@5   6.25 (  0.55)\tlr 0.000001 (0.000002)\n",
        "imagenet",
        {"step": 400, "step_time_s": 0.315, "loss": 6.9802, "learning_rate": 0.0},
        {"epoch": 0, "batch": 400, "Time_mean": 0.372, "data_time": 0.002, "Data_mean": 0.073, "Loss_mean": 7.0827,
         "Acc_1": 0.0, "Acc_1_mean": 0.08, "Acc_5": 6.25, "Acc_5_mean": 0.55, "lr_mean": 0.000002},
        {"batches": 80073},
    ),
    "timm": Program(
        "Train: 0 [   0/1251 (  0%)]  Loss: 6.948 (6.95)  Time: 9.813s,  104.35/s  (9.813s,  104.35/s)  LR: "
        "1.000e-06  "
        "Data: 4.621 (4.621)\n"
        "Train: 0 [1250/1251 (100%)]  Loss: 6.921 (6.93)  Time: 0.413s, 2479.42/s  (0.523s, 1957.93/s)  LR: "
        "1.000e-06  "
        "Data: 0.012 (0.021)\n",
        "timm",
        {"step": 0, "step_time_s": 9.813, "loss": 6.948, "learning_rate": 1e-6, "samples_per_s": 104.35},
        {"epoch": 0, "batch": 0, "Loss_mean": 6.95, "Time_mean": 9.813, "Time_rate_mean": 104.35, "data_time": 4.621,
         "Data_mean": 4.621},
        {"batches": 1251},
    ),
    "OpenPCDet": Program(
        "2023-01-05 16:34:49,375   INFO  Train:    1/3 ( 33%) [  49/323 ( 15%)]  Loss: 36.77 (81.7)  LR: 1.351e-04  "
        "Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 50          Data time: 0.00(0.02)  Forward time: 0.31(0.29)  "
        "Batch time: 0.31(0.31)\n",
        "openpcdet",
        {"step": 49, "step_time_s": 0.31, "forward_s": 0.31, "loss": 36.77, "learning_rate": 1.351e-4},
        {"epoch": 1, "batch": 49, "Loss_mean": 81.7, "Acc_iter": 50, "data_time": 0.0, "Data_time_mean": 0.02,
         "Forward_time_mean": 0.29, "Batch_time_mean": 0.31},
        {"epochs": 3, "batches": 323},
    ),
    "GNMT": Program(
        "TRAIN [0][10/3416]\tTime 0.251 (0.412)\tData 1.00e-04 (2.10e-04)\tTok/s 50123 (44000)\tLoss/tok 9.1234 "
        "(10.1234)"
        "\tLR 2.000e-03\n",
        "gnmt",
        {"step": 10, "step_time_s": 0.251, "tokens_per_s": 50123, "loss": 9.1234, "learning_rate": 2e-3},
        {"epoch": 0, "batch": 10, "Time_mean": 0.412, "data_time": 1e-4, "Data_mean": 2.1e-4, "Tok_s_mean": 44000,
         "Loss_tok_mean": 10.1234},
        {"batches": 3416},
    ),
    "detectron2": Program(
        "[11/01 11:23:38 d2.utils.events]: eta: 8:08:27  iter: 639  total_loss: 1.194  loss_cls: 0.831  "
        "loss_box_reg: 0.355  time: 0.3326  data_time: 0.0328  lr: 0.006394  max_mem: 3961M\n"
        "[11/01 11:23:44 d2.utils.events]: eta: 8:08:20  iter: 659  total_loss: 1.172  loss_cls: 0.815  "
        "loss_box_reg: 0.362  time: 0.3324  data_time: 0.0366  lr: 0.006593  max_mem: 3961M\n",
        "detectron2",
        {"step": 639, "loss": 1.194, "learning_rate": 0.006394, "memory_bytes": 3961 * MIB},
        {"loss_cls": 0.831, "loss_box_reg": 0.355, "mean_time": 0.3326, "data_time": 0.0328},
    ),
    "maskrcnn-benchmark": Program(
        "INFO: eta: 11:21:28  iter: 1120  loss: 1.4617 (1.4511)  time: 0.5088 (0.4600)  data: 0.0164 (0.0177)  "
        "forward: 0.2219 (0.2200)  backward: 0.0810 (0.0850)  lr: 0.020000  max mem: 3150\n",
        "maskrcnn_benchmark",
        {"step": 1120, "loss": 1.4617, "step_time_s": 0.5088, "forward_s": 0.2219, "backward_s": 0.081,
         "learning_rate": 0.02, "memory_bytes": 3150 * MIB},
        {"loss_mean": 1.4511, "time_mean": 0.46, "data_time": 0.0164, "data_mean": 0.0177, "forward_mean": 0.22,
         "backward_mean": 0.085},
    ),
    "mmdetection 2": Program(
        "2020-05-21 04:01:33,217 - mmdet - INFO - Epoch [1][19/678]\tlr: 0.00020, eta: 1 day, 16:44:26, time: 1.413, "
        "data_time: 0.116, memory: 9581, loss_rpn_cls: 0.6978, s0.loss_cls: 0.4852, s0.acc: 92.1875, loss: 3.0130\n"
        "2020-05-21 04:01:35,520 - mmdet - INFO - Epoch [2][20/678]\tlr: 0.00020, eta: 16:52:19, time: 2.304, "
        "data_time: 0.645, memory: 9581, loss_rpn_cls: 0.6956, s0.loss_cls: 0.5382, s0.acc: 80.6641, loss: 2.8716\n",
        "openmmlab",
        {"step": 19, "step_time_s": 1.413, "loss": 3.013, "learning_rate": 0.0002, "memory_bytes": 9581 * MIB},
        {"epoch": 1, "batch": 19, "data_time": 0.116, "loss_rpn_cls": 0.6978, "s0_loss_cls": 0.4852, "s0_acc": 92.1875},
        {"batches": 678},
    ),
    "mmengine": Program(
        "04/21 21:03:53 - mmengine - INFO - Epoch(train)  [1][10/90]  lr: 1.000e-02  eta: 0:00:25  time: 0.010  "
        "data_time: 0.000  memory: 0  loss: 11.4723\n"
        "04/21 21:03:53 - mmengine - INFO - Epoch(train)  [1][30/90]  lr: 1.000e-02  eta: 0:00:09  time: 0.004  "
        "data_time: 0.000  memory: 0  loss: -6.0185\n",
        "openmmlab",
        {"step": 10, "step_time_s": 0.01, "loss": 11.4723, "learning_rate": 0.01, "memory_bytes": 0},
        {"epoch": 1, "batch": 10, "data_time": 0.0},
        {"batches": 90},
    ),
    "fairseq": Program(
        "2020-07-17 07:11:02 | INFO | train_inner | epoch 001:   2800 / 160368 loss=9.255, ppl=611.12, "
        "wps=57.3, ups=0.04, "
        "wpb=1613, bsz=80, num_updates=2800, lr=2.8e-05, gnorm=3.23, train_wall=13, wall=1236\n"
        "2020-07-17 07:11:31 | INFO | train_inner | epoch 001:   2900 / 160368 loss=8.979, ppl=504.73, "
        "wps=53.5, ups=0.04, "
        "wpb=1504, bsz=64, num_updates=2900, lr=2.9e-05, gnorm=2.39, train_wall=13, wall=1265\n",
        "fairseq",
        {"step": 2800, "loss": 9.255, "perplexity": 611.12, "tokens_per_s": 57.3, "learning_rate": 2.8e-5,
         "grad_norm": 3.23},
        {"epoch": 1, "batch": 2800, "updates_per_s": 0.04, "wpb": 1613, "bsz": 80, "train_wall": 13, "wall": 1236},
        {"batches": 160368},
    ),
    "fairseq, json": Program(
        '2021-07-01 10:11:12 | INFO | train_inner | {"epoch": 27, "update": 26.267, "loss": "8.206", '
        '"nll_loss": "7.049", '
        '"ppl": "132.47", "wps": "1195.4", "ups": "1.62", "wpb": "738.1", "bsz": "46.4", "num_updates": "33700", '
        '"lr": "0.00017226", "gnorm": "1.833", "clip": "1", "train_wall": "61", "wall": "30542"}\n',
        "fairseq",
        {"step": 33700, "loss": 8.206, "perplexity": 132.47, "tokens_per_s": 1195.4, "learning_rate": 0.00017226,
         "grad_norm": 1.833, "step_time_s": 1 / 1.62},
        {"epoch": 27, "update": 26.267, "nll_loss": 7.049, "updates_per_s": 1.62, "wpb": 738.1, "bsz": 46.4, "clip": 1,
         "train_wall": 61, "wall": 30542},
    ),
    "PaddleNLP": Program(
        "[2023-12-05 19:18:10,207] [    INFO] - global step 95 / 22140, loss: 1.780640, avg_reader_cost: 0.00027 sec, "
        "avg_batch_cost: 0.67439 sec, avg_samples: 64.00000, ips: 94.90068 sample/sec, max_mem_reserved: 26397 MB, "
        "max_mem_allocated: 24184 MB\n",
        "paddle",
        {"step": 95, "loss": 1.78064, "step_time_s": 0.67439, "samples_per_s": 94.90068},
        {"reader_cost": 0.00027, "avg_samples": 64, "max_mem_reserved": 26397e6, "max_mem_allocated": 24184e6},
        {"global_step_total": 22140},
    ),
    "PaddleSeg": Program(
        "2021-03-30 06:55:57 [INFO]\t[TRAIN] epoch: 1, iter: 20/500, loss: 2.0859, lr: 0.009657, batch_cost: 0.5344, "
        "reader_cost: 0.07273, ips: 3.7425 samples/sec | ETA 00:04:16\n"
        "2021-03-30 06:56:04 [INFO]\t[TRAIN] epoch: 1, iter: 40/500, loss: 1.8769, lr: 0.009265, batch_cost: 0.3483, "
        "reader_cost: 0.00205, ips: 5.7421 samples/sec | ETA 00:02:40\n",
        "paddle",
        {"step": 20, "loss": 2.0859, "learning_rate": 0.009657, "step_time_s": 0.5344, "samples_per_s": 3.7425},
        {"epoch": 1, "reader_cost": 0.07273},
        {"iter_total": 500},
    ),
    "PaddleOCR's children": Program(
        "[2024/08/06 18:03:31] openrec INFO: epoch: [1/2], global_step: 100, lr: 0.000005, loss: 69.376022, "
        "avg_reader_cost: 0.00971 s, avg_batch_cost: 0.18023 s, avg_samples: 64.0, ips: 355.10891 samples/s, "
        "eta: 0:32:33\n",
        "paddle",
        {"step": 100, "loss": 69.376022, "learning_rate": 0.000005, "step_time_s": 0.18023, "samples_per_s": 355.10891},
        {"epoch": 1, "reader_cost": 0.00971, "avg_samples": 64},
        {"epoch_total": 2},
    ),
    "YOLOX": Program(
        "2022-08-07 20:23:28 | INFO     | yolox.core.trainer:261 - epoch: 2/300, iter: 10/14786, mem: 584Mb, "
        "iter_time: 0.224s, data_time: 0.002s, total_loss: 14.6, iou_loss: 4.6, lr: 2.287e-11, size: 416, "
        "ETA: 11 days, 13:14:32\n",
        "yolox_2021",
        {"step": 14796, "step_time_s": 0.224, "loss": 14.6, "learning_rate": 2.287e-11, "memory_bytes": 584 * MIB},
        {"epoch": 2, "batch": 10, "data_time": 0.002, "iou_loss": 4.6, "size": 416},
        {"epochs": 300, "batches": 14786},
    ),
    "YOLOX since 2022": Program(
        "2023-01-05 16:34:49 | INFO     | yolox.core.trainer:after_iter:269 - epoch: 1/300, iter: 20/661, "
        "gpu mem: 584Mb, mem: 10.2Gb, iter_time: 0.224s, data_time: 0.002s, total_loss: 14.6, lr: 2.287e-11, "
        "size: 416, ETA: 1 day, 13:14:32\n",
        "yolox",
        {"step": 20, "step_time_s": 0.224, "loss": 14.6, "learning_rate": 2.287e-11, "memory_bytes": 584 * MIB},
        {"epoch": 1, "batch": 20, "data_time": 0.002, "host_memory": 10.2 * 2**30, "size": 416},
        {"epochs": 300, "batches": 661},
    ),
    "OpenNMT-py": Program(
        "[2020-09-25 15:28:21,140 INFO] Step 50/ 1000; acc:   7.52; ppl: 8832.29; xent: 9.09; lr: 1.00000; "
        "18916/18871 tok/s;      6 sec\n",
        "opennmt",
        {"step": 50, "perplexity": 8832.29, "learning_rate": 1.0},
        {"acc": 7.52, "xent": 9.09, "src_tokens_per_s": 18916, "tgt_tokens_per_s": 18871, "elapsed": 6},
        {"Step_total": 1000},
    ),
    "OpenNMT-py of 2017": Program(
        "Epoch  3,  8950/ 8973; acc:  48.18; ppl:  18.85; 7984 src tok/s; 1285 tgt tok/s;  13659 s elapsed\n",
        "opennmt_2017",
        {"epoch": 3, "step": 8950, "perplexity": 18.85},
        {"acc": 48.18, "src_tokens_per_s": 7984, "tgt_tokens_per_s": 1285, "elapsed": 13659},
        {"batches": 8973},
    ),
    "MXNet": Program(
        "INFO:root:Epoch[1] Batch [100]\tSpeed: 41885.53 samples/sec\taccuracy=0.845050\n"
        "INFO:root:Epoch[1] Train-accuracy=0.957172\n",
        "mxnet",
        {"epoch": 1, "step": 100, "samples_per_s": 41885.53},
        {"accuracy": 0.84505},
    ),
    "PaddleRec": Program(
        "2021-08-11 18:19:45,528 - INFO - epoch: 0, batch_id: 5888, auc: 0.805084,accuracy: 0.793505, "
        "avg_reader_cost: 0.02961 sec, avg_batch_cost: 0.05567 sec, avg_samples: 256.00000, ips: 4596.73 ins/s\n",
        "paddle_batch",
        {"epoch": 0, "step": 5888, "step_time_s": 0.05567},
        {"auc": 0.805084, "accuracy": 0.793505, "reader_cost": 0.02961, "avg_samples": 256, "ips": 4596.73},
    ),
    "PaddleVideo": Program(
        "    [11/16 04:40:37] epoch:[  1/1  ] train step:100  loss: 5.31382 lr: 0.000250 batch_cost: 0.73082 sec, "
        "reader_cost: 0.38075 sec, ips: 5.47330 instance/sec.\n",
        "paddle_step",
        {"epoch": 1, "step": 100, "step_time_s": 0.73082, "loss": 5.31382, "learning_rate": 0.00025},
        {"reader_cost": 0.38075, "ips": 5.4733},
        {"epoch_total": 1},
    ),
    "the end of an epoch of fairseq": Program(
        "2023-06-13 17:32:53 | INFO | train | epoch 143 | loss 3.14 | ppl 8.82 | wps 106814 | ups 1.77 | "
        "num_updates 40297 | lr 0.00015753 | gnorm 0.485 | train_wall 142 | wall 23023\n",
        "fairseq_epoch",
        {"step": 40297, "steps_averaged": None, "loss": 3.14, "perplexity": 8.82, "tokens_per_s": 106814,
         "learning_rate": 0.00015753, "grad_norm": 0.485},
        {"epoch": 143, "updates_per_s": 1.77, "train_wall": 142, "wall": 23023},
    ),
    "epoch and batch": Program(
        "Epoch 1/3 | Batch 50/500 | Loss: 0.7108 | Avg Loss: 0.6100 | LR: 6.67e-06\n",
        "epoch_and_batch",
        {"epoch": 1, "step": 50, "loss": 0.7108, "learning_rate": 6.67e-6},
        {"Avg_Loss": 0.61},
        {"epochs": 3, "batches": 500},
    ),
    "PyTorch's MNIST example": Program(
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.135834\n",
        "samples_of_epoch",
        {"epoch": 1, "step": None, "loss": 2.135834},
        {"samples_done": 640},
        {"samples": 60000},
    ),
    "a program that is not known": Program(
        "2024-05-01 10:11:12 | INFO | trainer | [rank 3] Step: 120/5000, Loss: 3.4521 (avg 3.5), LR: 3.00e-04, "
        "Step time: 412.5 ms, Throughput: 19860 tokens/s, time: 0.41\n",
        "step",
        {"step": 120, "rank": 3, "loss": 3.4521, "learning_rate": 3e-4, "step_time_s": 0.4125, "tokens_per_s": 19860},
        {"Loss_avg": 3.5, "time": 0.41},
        {"Step_total": 5000},
    ),
}  # fmt: skip


MARKS = ("loss", "Loss", "ppl", "Speed", "auc")  # of step lines


def first_line(got: Reading, table: str) -> list[dict[str, object]]:
    rows = got.rows(table)
    line = min(row["line"] for row in got.rows("steps"))
    return [row for row in rows if row["line"] == line]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_figures_of_a_program(name: str) -> None:
    program = PROGRAMS[name]
    got = read(program.log.encode())
    assert got.done.formats == ["meters"]
    (row,) = first_line(got, "steps")
    assert {key: row[key] for key in program.steps} == pytest.approx(program.steps)
    empty = {"tflops", "mfu", "loss", "perplexity", "grad_norm", "learning_rate", "step_time_s", "forward_s",
             "backward_s", "tokens_per_s", "samples_per_s", "memory_bytes", "rank"} - set(program.steps)  # fmt: skip
    assert {key: row[key] for key in empty} == dict.fromkeys(empty)
    values = {str(value["key"]): value["value"] for value in first_line(got, "values")}
    parts = {str(phase["phase"]): phase["time_s"] for phase in first_line(got, "phases")}
    assert values | parts == pytest.approx(program.values)
    assert json.loads(got.rows("runs")[0]["config"]) == program.config


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_shape_reads_the_lines_of_a_program(name: str) -> None:
    program = PROGRAMS[name]
    lines = [text for text in program.log.splitlines() if any(mark in text for mark in MARKS)]
    shapes = [family.lines(text) for text in lines[:1] for family in get("meters").families if family.lines(text)]
    assert shapes[0][0].name == program.line
    assert all(shapes[0][0].template.match(text) is not None for text in lines)


def test_every_number_has_a_name_or_a_reason() -> None:
    for name, program in PROGRAMS.items():
        for text in program.log.splitlines():
            line = next((lines[0] for f in get("meters").families if (lines := f.lines(text))), None)
            unnamed = [f for f in line.template.fields if f.name == "_" and f.numeric] if line else []
            assert unnamed == [], name


# --- names ----------------------------------------------------------------------------------------------------------

NAMES = {
    "loss 0.5 (0.6)": {"loss": 0.5, "loss_mean": 0.6},
    "Loss_D: 0.2873\tD(x): 0.9262\tD(G(z)): 0.0123 / 0.0456": {
        "Loss_D": 0.2873, "D_x": 0.9262, "D_G_z": 0.0123, "D_G_z_2": 0.0456,
    },
    "'loss': 0.5, 'mAP@0.5': 12.5%": {"loss": 0.5, "mAP_0_5": 12.5},
    "loss: 0.5 | top-1 acc = 75.2": {"loss": 0.5, "top_1_acc": 75.2},
    "loss: nan grad_norm: inf": {"loss": float("nan"), "grad_norm": float("inf")},
    "loss nan grad_norm inf mem 31.5GiB": {"loss": float("nan"), "grad_norm": float("inf"), "memory": 31.5},
    "loss 0.5 number of nan steps 3": {"loss": 0.5, "number_of_nan_steps": 3},
    "loss 0.5 mem 31.5GiB (78%)": {"loss": 0.5, "memory": 31.5, "mem_share": 78.0},
    "loss 0.5 mem 31.5GiB (+8%)": {"loss": 0.5, "memory": 31.5, "mem_change": 8.0},
    "loss 0.5 params 1.3B": {"loss": 0.5, "params": 1.3e9},
    "loss 0.5 fwd+bwd 41.5": {"loss": 0.5, "fwd_bwd": 41.5},  # no backward pass
    "loss 0.5 max_alloc_mem 3961M": {"loss": 0.5, "max_alloc_mem_M": 3961},
    "(main_task pid=51520) loss: 0.5": {"loss": 0.5},
    "loss 0.5, samples/s: 2161.654 1605777750.5": {"loss": 0.5, "samples_per_s": 2161.654},  # nothing names the second
    "loss 0.5 lr [0.1, 0.2]": {"loss": 0.5, "learning_rate": 0.1, "learning_rate_2": 0.2},
}  # fmt: skip


@pytest.mark.parametrize("text", NAMES)
def test_the_names_of_numbers(text: str) -> None:
    line = f"iter 7 {text}"
    (shape,) = next(family for family in get("meters").families if family.name == "step").lines(line)
    values = shape.template.match(line)
    assert values == pytest.approx({"step": 7, **NAMES[text]}, nan_ok=True)


LEROBOT = """\
INFO 2026-06-12 10:57:03 ot_train.py:357 step:800 smpl:26K ep:81 epch:2.02 loss:1.467 grdn:38.686 lr:1.0e-05
INFO 2026-06-12 10:58:46 ot_train.py:357 step:1K smpl:32K ep:101 epch:2.53 loss:1.226 grdn:34.825 lr:1.0e-05
INFO 2026-06-12 11:04:21 ot_train.py:357 step:2K smpl:51K ep:162 epch:4.05 loss:0.715 grdn:28.278 lr:1.0e-05
"""


def test_a_rounded_number_is_no_step() -> None:
    got = read(LEROBOT.encode())
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(800, 1.467), (None, 1.226), (None, 0.715)]
    values = {(row["line"], row["key"]): row["value"] for row in got.rows("values")}
    assert [values[line, "smpl"] for line in (1, 2, 3)] == [26e3, 32e3, 51e3]
    assert [values[line, "step_rounded"] for line in (2, 3)] == [1e3, 2e3]


EVALUATIONS = {
    "| epoch 022 | valid on 'valid' subset | loss 4.008 | ppl 16.09 | num_updates 179247 | best_loss 4.00763": (
        179247, {"epoch": 22, "valid_loss": 4.008, "valid_ppl": 16.09, "valid_best_loss": 4.00763},
    ),
    "Test: [  30/30]  Time: 3.856 (0.732)  Loss:   6.615 ( 6.691)  Acc@1:   0.000 (  0.076)": (
        None, {"val_batch": 30, "test_Time": 3.856, "test_Time_mean": 0.732, "test_Loss": 6.615,
               "test_Loss_mean": 6.691, "test_Acc_1": 0, "test_Acc_1_mean": 0.076},
    ),
    "epoch:[  1/1  ] val step:0    loss: 4.42741 batch_cost: 1.37882 sec, ips: 2.90104 instance/sec.": (
        None, {"epoch": 1, "val_step": 0, "val_loss": 4.42741, "val_batch_cost": 1.37882, "val_ips": 2.90104},
    ),
    "Validation: step 100, loss: 2.5": (100, {"validation_loss": 2.5}),
    "06/16 08:23:02 - mmengine - INFO - Iter(val) [17/17]    aAcc: 86.3900  mIoU: 51.1200  data_time: 0.0052": (
        None, {"val_batch": 17, "val_aAcc": 86.39, "val_mIoU": 51.12, "val_data_time": 0.0052},
    ),
    "[11/16 04:40:37] END epoch:1   val loss_avg: 5.21620 avg_batch_cost: 0.04321 sec, avg_ips: 8.4 im/s": (
        None, {"epoch": 1, "val_loss_avg": 5.2162, "val_avg_batch_cost": 0.04321, "val_avg_ips": 8.4},
    ),
    "Validation perplexity: 208.73": (None, {"Validation_perplexity": 208.73}),
    "eval dev loss: 0.49129, accu: 0.78437": (None, {"eval_dev_loss": 0.49129, "accu": 0.78437}),
    "  Val Loss: 2.3421 | Val Acc: 45.23%": (None, {"Val_Loss": 2.3421, "Val_Acc": 0.4523}),
}  # fmt: skip


@pytest.mark.parametrize("text", EVALUATIONS)
def test_the_figures_of_an_evaluation(text: str) -> None:
    training = "step 7 loss 0.5 val loss 0.6\n"
    got = read(f"{training}{text}\n".encode())
    assert [(row["line"], row["loss"]) for row in got.rows("steps")] == [(1, 0.5)]
    values = [row for row in got.rows("values") if row["line"] == 2]
    step, figures = EVALUATIONS[text]
    assert {str(row["key"]): row["value"] for row in values} == pytest.approx(figures)
    assert {row["step"] for row in values} == {step}


ESTIMATOR = """\
INFO:tensorflow:loss = 18.0646, step = 3301 (1.491 sec)
INFO:tensorflow:loss = 8.15245, step = 3401 (1.819 sec)
INFO:tensorflow:loss = 10.1809, step = 3501 (1.492 sec)
"""


def test_a_time_in_brackets_is_no_mean_of_a_step() -> None:
    got = read(ESTIMATOR.encode())
    assert [(row["step"], row["steps_averaged"]) for row in got.rows("steps")] == [
        (3301, None), (3401, None), (3501, None),
    ]  # fmt: skip
    values = [(row["key"], row["value"], row["unit"]) for row in got.rows("values")]
    got = read(b"step: 100 (1.5 s), loss: 2.0\n")
    other = [(row["key"], row["value"], row["unit"]) for row in got.rows("values")]
    assert other == [("bracket_time", 1.5, "s")]
    assert values == [("interval_time", 1.491, "s"), ("interval_time", 1.819, "s"), ("interval_time", 1.492, "s")]


def test_lines_of_each_step_cover_one_step() -> None:
    got = read(b"".join(b"step %d loss 0.5\n" % step for step in (7, 8, 9)))
    assert [row["steps_averaged"] for row in got.rows("steps")] == [1, 1, 1]


PADDLE_EPOCHS = """\
ppsci INFO: [Train][Epoch  9/10][Iter  90/100] lr: 0.00200, loss: 0.00598, batch_cost: 0.00180s, ips: 17793.97
ppsci INFO: [Train][Epoch  9/10][Iter 100/100] lr: 0.00200, loss: 0.00547, batch_cost: 0.00179s, ips: 17864.08
ppsci INFO: [Train][Epoch 10/10][Iter  10/100] lr: 0.00200, loss: 0.00079, batch_cost: 0.00182s, ips: 17547.05
"""


def test_a_counter_in_brackets_starts_again_in_each_epoch() -> None:
    got = read(PADDLE_EPOCHS.encode())
    assert [(row["epoch"], row["step"], row["step_time_s"], row["steps_averaged"]) for row in got.rows("steps")] == [
        (9, 90, 0.0018, None), (9, 100, 0.00179, None), (10, 10, 0.00182, None),  # means of the epoch so far
    ]  # fmt: skip
    assert json.loads(got.rows("runs")[0]["config"]) == {"epochs": 10, "batches": 100}


METRIC_LOGGER = """\
Epoch: [1]  [ 0/600]  eta: 0:00:25  loss: 8.2773 (8.2773)  time: 4.1973  data: 1.1906  max mem: 2547
Epoch: [1]  [10/600]  eta: 0:00:11  loss: 7.5953 (7.9363)  time: 2.2824  data: 0.6244  max mem: 2648
Epoch: [1]  [20/600]  eta: 0:00:06  loss: 7.5953 (6.1116)  time: 1.6292  data: 0.4295  max mem: 2648
Epoch: [1]  [30/600]  eta: 1 day, 0:00:06  loss: 7.5900 (6.1100)  time: 1.6291  data: 0.4295  max mem: 2648
Epoch: [1] Total time: 0:00:05 (0.9880 s / it)
Test:  [10/20]  eta: 0:00:31  loss: 0.3500 (0.3000)  acc1: 75.0 (74.0)  time: 1.5  data: 1.1  max mem: 2009
Test: Total time: 0:00:07 (0.3421 s / it)
"""


def test_the_window_of_a_metric_logger_has_twenty_iterations() -> None:
    got = read(METRIC_LOGGER.encode())
    assert got.done.formats == ["metric_logger"]
    assert [(row["step"], row["step_time_s"], row["steps_averaged"]) for row in got.rows("steps")] == [
        (600, 4.1973, 1), (610, 2.2824, 11), (620, 1.6292, 20), (630, 1.6291, 20),
    ]  # fmt: skip
    values = {(row["line"], row["key"]): row["value"] for row in got.rows("values")}
    assert [values[line, "loss_mean"] for line in (1, 2, 3)] == [8.2773, 7.9363, 6.1116]
    assert (values[5, "iteration_time"], values[7, "test_iteration_time"]) == (0.988, 0.3421)
    assert (values[6, "test_loss"], values[6, "test_loss_mean"], values[6, "test_acc1"]) == (0.35, 0.3, 75)
    assert sum(row["figures_unread"] for row in got.rows("lines")) == 0


def test_steps_of_an_epoch_in_round_brackets() -> None:
    got = read(b"Epoch:[1/2](20/900), loss: 2.5, rate: 0.1\nEpoch:[2/2](10/900), loss: 2.25, rate: 0.1\n")
    assert [(row["epoch"], row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 20, 2.5), (2, 10, 2.25)]


def test_a_summary_of_an_epoch_is_no_line_before_the_next() -> None:
    line = "train_inner | epoch 144:  {} / 282 loss=3.1, wps=8, num_updates={}, lr=1e-4, gnorm=0.4\n"
    epoch = "train | epoch 143 | loss 3.14 | wps 10 | num_updates 40297 | lr 1e-4 | gnorm 0.4 | wall 23\n"
    got = read("".join([line.format(3, 40200), epoch, line.format(103, 40300), line.format(203, 40400)]).encode())
    rows = sorted(got.rows("steps"), key=lambda row: row["line"])
    assert [(row["step"], row["steps_averaged"]) for row in rows] == [
        (40200, 100), (40297, None), (40300, 100), (40400, 100),
    ]  # fmt: skip


def test_counters_of_epoch_and_batch_stay_as_printed() -> None:
    got = read(b"Epoch [1/5], Step [600/600], Loss: 2.2\nEpoch [2/5], Step [100/600], Loss: 2.1\n")
    assert [(row["epoch"], row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 600, 2.2), (2, 100, 2.1)]


@pytest.mark.parametrize("prefix", ["08/30 23:00:36 - mmengine - INFO - ", "[11/16 04:40:37] "])
def test_a_date_without_a_year_is_no_figure(prefix: str) -> None:
    got = read(f"{prefix}step 7 loss 0.5\n".encode())
    assert [(row["figures_stored"], row["figures_unread"]) for row in got.rows("lines")] == [(2, 0)]


TENSORFLOW = """\
INFO:tensorflow:loss = 18.0646, step = 3301 (1.491 sec)
INFO:tensorflow:global_step/sec: 67.029
INFO:tensorflow:Loss for final step: 0.048366968.
"""


def test_rates_of_tensorflow() -> None:
    values = [(row["key"], row["value"], row["unit"]) for row in read(TENSORFLOW.encode()).rows("values")]
    assert values == [("interval_time", 1.491, "s"), ("steps_per_s", 67.029, "1/s"), ("final_loss", 0.048366968, None)]


def test_results_of_mxnet() -> None:
    log = PROGRAMS["MXNet"].log + "Epoch[1] Time cost=1.798\nEpoch[1] Validation-accuracy=0.957700\n"
    values = [(row["key"], row["value"], row["unit"]) for row in read(log.encode()).rows("values")]
    assert [value for value in values if value[0] != "epoch"] == [
        ("accuracy", 0.84505, None), ("Train_accuracy", 0.957172, None), ("epoch_time", 1.798, "s"),
        ("Validation_accuracy", 0.9577, None),
    ]  # fmt: skip


CAFFE = """\
I0203 22:10:30.772714  3769 solver.cpp:337] Iteration 0, Testing net (#0)
I0203 22:10:37.816495  3769 solver.cpp:404]     Test net output #0: accuracy = 0.526042
I0203 22:10:37.818120  3769 solver.cpp:404]     Test net output #1: loss = 0.722712 (* 1 = 0.722712 loss)
I0203 22:10:39.182849  3769 solver.cpp:228] Iteration 0, loss = 1.06601
I0203 22:10:39.183007  3769 solver.cpp:244]     Train net output #0: loss = 1.16601 (* 1 = 1.16601 loss)
I0203 22:10:39.183043  3769 sgd_solver.cpp:106] Iteration 0, lr = 0.01
I0203 22:11:11.182849  3769 solver.cpp:218] Iteration 20 (22.5 iter/s, 0.888s/20 iters), loss = 0.96601
I0203 22:11:12.826850  3769 solver.cpp:337] Iteration 24, Testing net (#0)
I0203 22:11:19.271281  3769 solver.cpp:404]     Test net output #0: accuracy = 1
"""


def test_the_figures_of_caffe() -> None:
    got = read(CAFFE.encode())
    assert [(row["step"], row["loss"], row["steps_averaged"]) for row in got.rows("steps")] == [
        (0, 1.06601, None), (20, 0.96601, 20),
    ]  # fmt: skip
    assert got.rows("steps")[1]["step_time_by"] == "line"  # a time of 20 steps
    values = sorted((row["line"], row["step"], row["key"], row["value"], row["unit"]) for row in got.rows("values"))
    assert values == [
        (2, 0, "test_accuracy", 0.526042, None),
        (3, 0, "test_loss", 0.722712, None),
        (5, 0, "loss", 1.16601, None),
        (6, 0, "learning_rate", 0.01, None),
        (7, 20, "interval_time", 0.888, "s"),
        (7, 20, "iter_per_s", 22.5, "1/s"),
        (9, 24, "test_accuracy", 1.0, None),
    ]
    figures = [(row["figures_unread"], row["figures_dropped"]) for row in got.rows("lines")]
    assert (sum(unread for unread, _ in figures), sum(dropped for _, dropped in figures)) == (0, 11)


def test_the_summary_of_weights_and_biases() -> None:
    got = read(b"step 1 loss 0.5\nwandb: Run summary:\nwandb:     train/loss 10.66421\nwandb:   lr 0.00015\n")
    values = [(row["key"], row["value"]) for row in got.rows("values")]
    assert values == [("train_loss", 10.66421), ("lr", 0.00015)]


FAST_PITCH = (
    "DLL 2021-06-14 23:08:53.659718 - epoch    2 | iter   3/48 | loss 40.97 | mel loss 35.04 | kl loss 0.02240 | "
    "kl weight 0.01000 |    5730.98 frames/s | took 24.54 s | lrate 3.16e-06\n"
)


def test_the_figures_of_fast_pitch() -> None:
    got = read(FAST_PITCH.encode())
    assert got.done.formats == ["dllogger"]
    (row,) = got.rows("steps")
    assert (row["step"], row["step_time_s"], row["loss"], row["learning_rate"]) == (51, 24.54, 40.97, 3.16e-6)
    values = {row["key"]: (row["value"], row["unit"]) for row in got.rows("values")}
    assert values == {
        "epoch": (2, None), "iteration": (3, None), "mel_loss": (35.04, None), "kl_loss": (0.0224, None),
        "kl_weight": (0.01, None), "frames_per_s": (5730.98, "1/s"),
    }  # fmt: skip


PHASES = {
    "Epoch 5: train: loss 0.5 acc 0.9, val: loss 0.6 acc 0.8": {
        "loss": 0.5, "acc": 0.9, "val_loss": 0.6, "val_acc": 0.8,
    },
    "Epoch 5 | Train | loss 0.5 | acc 0.9 | Val | loss 0.6 | acc 0.8": {
        "loss": 0.5, "acc": 0.9, "val_loss": 0.6, "val_acc": 0.8,
    },
    "Epoch 5 train_loss: 0.5, acc: 0.9, val_loss: 0.6, acc: 0.8": {
        "train_loss": 0.5, "acc": 0.9, "val_loss": 0.6, "val_acc": 0.8,
    },
    "Epoch 5 [1/10] Train Loss: 0.5, Acc: 90%, Val Loss: 0.6, Acc: 80%": {
        "Train_Loss": 0.5, "Acc": 0.9, "Val_Loss": 0.6, "val_Acc": 0.8,
    },
}  # fmt: skip


@pytest.mark.parametrize("text", PHASES)
def test_training_and_validation_on_one_line(text: str) -> None:
    values = {str(row["key"]): row["value"] for row in read(f"{text}\n".encode()).rows("values")}
    assert values == pytest.approx({"Epoch": 5, **PHASES[text]})


def test_the_step_of_several_counters_is_the_global_one() -> None:
    got = read(b"epoch: 1, step: 10, global_step: 110, loss: 0.5\n")
    assert [(row["epoch"], row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 110, 0.5)]
    assert [(row["key"], row["value"]) for row in got.rows("values")] == [("other_step", 10)]


def test_numbers_that_only_their_unit_names() -> None:
    got = read(b"step 120 | loss 2.31 | 12.1 ms/step | 350 img/s\n")
    rows = [(row["step"], row["loss"], row["step_time_s"], row["samples_per_s"]) for row in got.rows("steps")]
    assert rows == [(120, 2.31, 0.0121, 350)]


def test_settings_between_the_lines() -> None:
    log = "Train rows: 4000 | Val rows: 2000\nTotal steps: 1500 | Warmup steps: 150 | Device: mps\nstep 1 loss 0.5\n"
    (run,) = read(log.encode()).rows("runs")
    assert json.loads(run["config"]) == {
        "Train_rows": 4000, "Val_rows": 2000, "Total_steps": 1500, "Warmup_steps": 150,
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "Previous run: world_size: 16", "[INFO] Reference run | world_size: 16", "(last run) batch_size: 16",
        "Previous run args: Namespace(world_size=16, seed=1)", "Example: torchrun --nproc_per_node 16 train.py",
    ],
)  # fmt: skip
def test_a_label_of_another_run_before_a_pair(line: str) -> None:
    log = f"{line}\nworld_size: 8\nstep 1 loss 0.5\n"
    assert [json.loads(run["config"]) for run in read(log.encode()).rows("runs")] == [{"world_size": 8}]


def test_a_learning_rate_of_another_run_is_none_of_this() -> None:
    log = read(b"Previous run: lr: 0.1, seed: 1\nReference: lr: 0.2\nlr: 0.3\nstep 1 loss 0.5\n")
    assert [(row["line"], row["key"], row["value"]) for row in log.rows("values")] == [(3, "lr", 0.3)]


@pytest.mark.parametrize(
    ("line", "config"),
    [
        ("lr: 0.1, batch_size: 32", {"lr": 0.1, "batch_size": 32}),
        ("Namespace(lr=0.1, model='gpt2', seed=1)", {"lr": 0.1, "seed": 1}),
        ("lr: 0.1, 0.2", {}),  # of two groups of parameters
        ("param group 0: lr: 0.1, weight_decay: 0.01", {}),
    ],
)
def test_a_learning_rate_beside_settings_is_one(line: str, config: dict[str, float]) -> None:
    """Also below the label of a rank, and in all ranks."""
    log = "".join(f"{rank}: {line}\n" for rank in range(2)) + "".join(
        f"{k % 2}: step {k // 2} loss 0.5\n" for k in range(8)
    )
    assert [json.loads(run["config"]) for run in read(log.encode()).rows("runs")] == [config]


FAIRSEQ = """\
| epoch 022 | loss 4.290 | wps 10476 | num_updates 179247 | lr 2.5e-05 | gnorm 0.321 | wall 32337 | train_wall 31350
| saved checkpoint checkpoints/checkpoint22.pt (epoch 22 @ 179247 updates) (writing took 0.394 seconds)
| done training in 32352.1 seconds
"""


def test_what_fairseq_says_between_epochs() -> None:
    got = read(FAIRSEQ.encode())
    values = {row["key"]: (row["value"], row["unit"]) for row in got.rows("values") if row["line"] > 1}
    assert values == {
        "epoch": (22, None), "num_updates": (179247, None), "checkpoint_time": (0.394, "s"),
        "training_time": (32352.1, "s"),
    }  # fmt: skip
    assert sum(row["figures_unread"] for row in got.rows("lines")) == 0


def test_several_results_of_training_alone_are_read_where_the_line_consists_of_them() -> None:
    rows = read(b"Train Loss: 2.8345 | Train Acc: 32.45%\n").rows("values")
    assert [(row["key"], row["value"], row["unit"]) for row in rows] == [
        ("Train_Loss", 2.8345, None), ("Train_Acc", 0.3245, "1"),
    ]  # fmt: skip
    with pytest.raises(InputError):
        read(b"We saw a train loss: 2.8345, and an accuracy of 32.45% later\n")


def test_a_number_that_nothing_names_is_dropped_without_a_reason() -> None:
    (shape,) = next(f for f in get("meters").families if f.name == "step").lines("step 3 loss 0.5 - 17 - 3rd 2x")
    assert [f.name for f in shape.template.fields if f.numeric] == ["step", "loss", "_", "_"]


def test_steps_that_start_again_in_each_epoch() -> None:
    lines = [f"Epoch: {epoch} Iteration: {k} loss: {epoch}.{k}" for epoch in (1, 2) for k in (1, 2, 3)]
    got = read("\n".join([*lines, ""]).encode())
    assert [(row["epoch"], row["step"], row["copy"]) for row in got.rows("steps")] == [
        (1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 1, 1), (2, 2, 1), (2, 3, 1),
    ]  # fmt: skip
    part = read(b"epoch: 0.25 step: 10 loss: 1.5\nepoch: 0.50 step: 20 loss: 1.4\n")
    assert [(row["epoch"], row["step"]) for row in part.rows("steps")] == [(None, 10), (None, 20)]
    assert [(row["key"], row["value"]) for row in part.rows("values")] == [("epoch", 0.25), ("epoch", 0.5)]


def test_a_time_without_a_unit_is_no_step_time() -> None:
    got = read(b"step 3 loss 0.5 step time 12.5\nstep 4 loss 0.4 step time 12.7\n")
    assert [row["step_time_s"] for row in got.rows("steps")] == [None, None]
    values = [(row["key"], row["value"], row["unit"]) for row in got.rows("values")]
    assert values == [("step_time", 12.5, None), ("step_time", 12.7, None)]  # `step_time` is a column with a unit


def test_a_number_of_devices_after_a_rate_has_the_name_after_it() -> None:
    got = read(b"Throughput: 123.5 tokens/s on 8 GPUs in 12.5 s\nThroughput: 223.5 tokens/s on 16 GPUs in 11.5 s\n")
    values = [(row["key"], row["value"]) for row in got.rows("values") if row["line"] == 1]
    assert values == [("Throughput_tokens_per_s", 123.5), ("GPUs", 8)]


def test_a_value_and_its_spread_share_a_unit() -> None:
    got = read("Decode latency: 20.5 ± 0.5 ms\nThroughput: 47.5 ± 1.5 tokens/s\n".encode())
    values = [(row["key"], row["value"], row["unit"]) for row in got.rows("values")]
    assert values == [
        ("Decode_latency", 0.0205, "s"),
        ("Decode_latency_spread", 0.0005, "s"),
        ("Throughput_tokens_per_s", 47.5, "1/s"),
        ("Throughput_tokens_per_s_spread", 1.5, "1/s"),
    ]


def test_a_time_that_is_counted_per_step_is_its_time() -> None:
    got = read(b"iteration: 3/9  total_loss: 0.5  time: 7.5 s/iter  data_time: 0.5 s/iter\n")
    assert [(row["step"], row["step_time_s"]) for row in got.rows("steps")] == [(3, 7.5)]


def test_a_unit_that_names_its_number_in_brackets() -> None:
    got = read(b"step 1790, loss = 1.53 (1725.5 examples/sec; 0.074 sec/batch)\n")
    rows = [(row["step"], row["loss"], row["step_time_s"], row["samples_per_s"]) for row in got.rows("steps")]
    assert rows == [(1790, 1.53, 0.074, 1725.5)]


def test_a_line_whose_prefix_ends_with_an_evaluation() -> None:
    log = b"FastEstimator-Train: step: 100; loss: 0.79;\nFastEstimator-Eval: step: 153; epoch: 1; loss: 0.49;\n"
    got = read(log)
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(100, 0.79)]
    assert [(row["step"], row["key"], row["value"]) for row in got.rows("values")] == [
        (153, "epoch", 1), (153, "eval_loss", 0.49),
    ]  # fmt: skip


def test_a_word_in_the_place_of_a_number() -> None:
    log = "".join(f"eta: N/A  iter: {k}  total_loss: 2.5  lr: 0.1  max_mem: 8517M\n" for k in (60, 80))
    rows = read(log.encode()).rows("steps")
    assert [(row["step"], row["loss"], row["steps_averaged"]) for row in rows] == [(60, 2.5, None), (80, 2.5, None)]
    assert rows[0]["memory_bytes"] == 8517 * MIB


WORD_LANGUAGE_MODEL = """\
| epoch   5 |   200/ 2983 batches | lr 20.00 | ms/batch  5.96 | loss  5.12 | ppl   167.34
| epoch   5 |   400/ 2983 batches | lr 20.00 | ms/batch  5.95 | loss  5.10 | ppl   164.02
| end of epoch   5 | time: 17.98s | valid loss  5.35 | valid ppl   210.52
| epoch   6 |   200/ 2983 batches | lr 20.00 | ms/batch  5.91 | loss  5.01 | ppl   149.90
"""


def test_batches_of_pytorchs_word_language_model() -> None:
    got = read(WORD_LANGUAGE_MODEL.encode())
    assert got.done.formats == ["meters"]
    assert [(row["epoch"], row["step"], row["step_time_s"], row["copy"]) for row in got.rows("steps")] == [
        (5, 200, 5.96e-3, 1), (5, 400, 5.95e-3, 1), (6, 200, 5.91e-3, 1),
    ]  # fmt: skip
    assert [(row["key"], row["value"], row["unit"]) for row in got.rows("values")] == [
        ("epoch", 5, None), ("time", 17.98, "s"), ("valid_loss", 5.35, None), ("valid_ppl", 210.52, None),
    ]  # fmt: skip


def test_evaluations_of_gaussian_splatting_between_its_bars() -> None:
    log = (
        "Training progress:  14%|##     | 7000/50000 [01:43<16:04, 44.60it/s, Loss=0.0446380]\n"
        "[ITER 7000] Evaluating test: L1 0.043095604723526366 PSNR 25.667881382836235 [26/09 01:54:02]\n"
    )
    values = [(row["step"], row["key"], row["value"]) for row in read(log.encode()).rows("values") if row["line"] == 2]
    assert values == [(7000, "test_L1", 0.043095604723526366), (7000, "test_PSNR", 25.667881382836235)]


def test_records_whose_carriage_returns_are_lost() -> None:
    states = [f"step 0018{k} (20.{k}%) | loss: 3.9{k} | dt: 34{k}ms | epoch: 1 | remaining: 238s" for k in range(5)]
    got = read(("    ".join(states) + "\n").encode())
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(180 + k, float(f"3.9{k}")) for k in range(5)]
    assert [row["step_time_s"] for row in got.rows("steps")] == pytest.approx([0.34 + k / 1000 for k in range(5)])


def test_steps_of_nanochat_with_an_mfu_in_percent() -> None:
    log = (
        "step 00000/21400 (0.00%) | loss: 9.000000 | lrm: 1.00 | dt: 992.63ms | tok/sec: 529,575 | mfu: 74.06 | "
        "total time: 0.00m\n"
        "step 00001/21400 (0.00%) | loss: 8.970000 | lrm: 1.00 | dt: 986.45ms | tok/sec: 529,613 | mfu: 0.91 | "
        "total time: 0.02m\n"
    )
    steps = read(log.encode()).rows("steps")
    columns = ("step", "loss", "step_time_s", "tokens_per_s", "mfu")
    assert [[row[column] for column in columns] for row in steps] == [
        pytest.approx([0, 9.0, 0.99263, 529575, 0.7406]), pytest.approx([1, 8.97, 0.98645, 529613, 0.0091]),
    ]  # fmt: skip


def test_steps_of_prime_rl_with_an_mfu_in_percent() -> None:
    log = "03:22:59 [INFO] [TRAIN] [Rank 3] step: 59, loss: 0.4410, tokens_per_second: 76527.93, mfu: 42.40\n"
    (row,) = read(log.encode()).rows("steps")
    assert (row["rank"], row["step"], row["tokens_per_s"], row["mfu"]) == (3, 59, 76527.93, pytest.approx(0.424))


HUGECTR = """\
[02d07h54m43s][HUGECTR][INFO]: Iter: 3000 Time(1000 iters): 5.381177s Loss: 0.133510 lr:9.003000
[02d07h54m51s][HUGECTR][INFO]: Evaluation, AUC: 0.767348
[02d07h54m51s][HUGECTR][INFO]: Eval Time for 681 iters: 6.449376s
"""


def test_times_and_evaluations_of_hugectr() -> None:
    got = read(HUGECTR.encode())
    (step,) = got.rows("steps")
    assert (step["step"], step["loss"], step["learning_rate"]) == (3000, 0.13351, 9.003)
    assert [(row["key"], row["value"], row["unit"]) for row in got.rows("values")] == [
        ("interval", 1000, None), ("interval_time", 5.381177, "s"), ("evaluation_AUC", 0.767348, None),
        ("eval_iters", 681, None), ("eval_time", 6.449376, "s"),
    ]  # fmt: skip


def test_metrics_of_lightgbm() -> None:
    log = (
        "[LightGBM] [Info] Iteration:36, training binary_logloss : 0.401934\n"
        "[LightGBM] [Info] Iteration:36, valid_1 auc : 0.820014\n"
        "[LightGBM] [Info] 160.109477 seconds elapsed, finished iteration 36\n"
    )
    assert [(row["step"], row["key"], row["value"], row["unit"]) for row in read(log.encode()).rows("values")] == [
        (36, "training_binary_logloss", 0.401934, None), (36, "valid_1_auc", 0.820014, None),
        (36, "elapsed", 160.109477, "s"),
    ]  # fmt: skip


def test_what_lightgbm_says_before_the_first_iteration() -> None:
    log = (
        "[LightGBM] [Info] Finished loading data in 25.605581 seconds\n"
        "[LightGBM] [Info] Number of positive: 5564616, number of negative: 4935384\n"
        "[LightGBM] [Info] Total Bins 6143\n"
        "[LightGBM] [Info] Number of data: 10500000, number of used features: 28\n"
        "[LightGBM] [Info] [binary:BoostFromScore]: pavg=0.529963 -> initscore=0.119997\n"
        "[LightGBM] [Info] Iteration:1, valid_1 auc : 0.77191\n"
    )
    got = read(log.encode())
    assert json.loads(got.rows("runs")[0]["config"]) == {
        "positive": 5564616, "negative": 4935384, "bins": 6143, "data": 10500000, "used_features": 28,
    }  # fmt: skip
    assert {(row["line"], row["step"], row["key"], row["value"]) for row in got.rows("values")} == {
        (1, None, "loading_time", 25.605581), (5, None, "pavg", 0.529963), (5, None, "initscore", 0.119997),
        (6, 1, "valid_1_auc", 0.77191),
    }  # fmt: skip
    assert sum(row["figures_unread"] for row in got.rows("lines")) == 0


def test_times_and_losses_between_the_steps() -> None:
    log = (
        "step 719 loss 0.8\n"
        "Data time: 0.00s (0.19%), forward time: 0.920s (52.18%)\n"
        "epoch time: 1443410.5 ms, per step time: 1688.5 ms\n"
        "->> pal1 conf loss:1.3560 || pal1 loc loss:1.0498\n"
    )
    values = [(row["key"], row["value"], row["unit"]) for row in read(log.encode()).rows("values")]
    assert values == [
        ("Data_time", 0, "s"), ("Data_time_share", 0.0019, "1"), ("forward_time", 0.92, "s"),
        ("forward_time_share", pytest.approx(0.5218), "1"), ("epoch_time", 1443.4105, "s"),
        ("per_step_time", pytest.approx(1.6885), "s"), ("pal1_conf_loss", 1.356, None), ("pal1_loc_loss", 1.0498, None),
    ]  # fmt: skip


def test_a_loss_between_the_steps_in_a_sentence() -> None:
    log = "step 719 loss 0.8\n[gpu0] rl_loss is -0.25 and kl is 0.125\nso the loss is 2.5 times as large\n"
    values = [(row["line"], row["key"], row["value"]) for row in read(log.encode()).rows("values")]
    assert values == [(2, "rl_loss", -0.25), (2, "kl", 0.125)]


def test_a_word_in_front_of_pairs_tells_their_groups_apart() -> None:
    steps = "".join(f"step: {k}/100 | loss: 2.5 | time: 12.5ms\n" for k in range(3))
    groups = "embed: lr=0.0095, weight_decay=0.0\nlm_head: lr=0.0001, weight_decay=0.01\n"
    got = read((groups + steps).encode())
    rows = [(row["line"], row["key"], row["value"]) for row in got.rows("values") if row["line"] < 3]
    assert rows == [
        (1, "embed_lr", 0.0095), (1, "embed_weight_decay", 0.0),
        (2, "lm_head_lr", 0.0001), (2, "lm_head_weight_decay", 0.01),
    ]  # fmt: skip


def test_a_label_of_its_own_is_the_rank() -> None:
    log = (
        "DDP training (rank 0) - Epoch 5, Loss: 1.18, Iter Time: 1.10ms\n"
        "DDP training (rank 1) - Epoch 5, Loss: 1.25, Iter Time: 1.50ms\n"
        "LoRA of rank 16 - Epoch 5, Loss: 1.5, Iter Time: 1.5ms\n"
    )
    rows = [(row["line"], row["rank"], row["key"], row["value"]) for row in read(log.encode()).rows("values")]
    assert sorted(rows) == [
        (1, 0, "Epoch", 5), (1, 0, "Iter_Time", 0.0011), (1, 0, "Loss", 1.18),
        (2, 1, "Epoch", 5), (2, 1, "Iter_Time", 0.0015), (2, 1, "Loss", 1.25),
        (3, None, "Epoch", 5), (3, None, "Iter_Time", 0.0015), (3, None, "LoRA_of_rank", 16), (3, None, "Loss", 1.5),
    ]  # fmt: skip


ODD_LINES: dict[str, tuple[dict[str, float], dict[str, float]]] = {  # the line -> rows of steps, rows of values
    "Epoch[0] Batch [3150]\tSpeed: 71.5 samples/sec 1971.5 tokens/sec 1.25 updates/sec\tperplexity=29.5": (
        {"step": 3150, "samples_per_s": 71.5, "perplexity": 29.5}, {"tokens_per_sec": 1971.5, "updates_per_sec": 1.25},
    ),
    "epoch=0 step=100 loss=2.5 step_ms=500.0 tok/s=158,882 gnorm=0.5": (
        {"step": 100, "epoch": 0, "loss": 2.5, "step_time_s": 0.5, "tokens_per_s": 158882, "grad_norm": 0.5}, {},
    ),
    "step 12 | loss 0.5 | iter_sec 1.25 it/s: 0.8": (
        {"step": 12, "loss": 0.5, "step_time_s": 1.25}, {"it_s": 0.8},
    ),
    "step 9 | loss 0.5 | tps 11278.5(1409.5/gpu) | num_label_tokens 21541": (
        {"step": 9, "loss": 0.5, "tokens_per_s": 11278.5}, {"tps_per_gpu": 1409.5, "num_label_tokens": 21541},
    ),
    "[Epoch 1 12/6879][Iteration 2] Train 12 in 2.5seconds. Loss is 8.5.": (
        {"step": 2, "epoch": 1, "loss": 8.5}, {"Train": 12},
    ),
    "Train Epoch: 0 [  64/1094 (6%)] Loss: 1.5 (1.25) Data (t): 14.25 Batch (t): 18.5, 1.75/s LR: 0.5": (
        {"epoch": 0, "loss": 1.5, "learning_rate": 0.5, "step_time_s": 18.5, "samples_per_s": 1.75},
        {"samples_done": 64, "Loss_mean": 1.25, "data_time": 14.25},
    ),
    "step 5: loss=2.5 mem=12.5/80.0GB": ({"step": 5, "loss": 2.5, "memory_bytes": 12.5e9}, {}),
    "step 5 | loss 2.5 | speed 45.5 tok/s (22.5 ms/tok), 12.5% MFU, time 9 s": (
        {"step": 5, "loss": 2.5, "tokens_per_s": 45.5, "mfu": 0.125}, {"time_per_tok": 0.0225, "time": 9},
    ),
    "Train Epoch: 1 [784/18783 (4%)] Batch (t): 32.5, 24.5/s, 12.25/s/gpu LR: 0.5 Loss: 1.5": (
        {"epoch": 1, "loss": 1.5, "learning_rate": 0.5},
        {"samples_done": 784, "Batch_t": 32.5, "Batch_t_rate": 24.5, "Batch_t_rate_per_gpu": 12.25},
    ),
    "step 9 | loss: 0.5 | tps: 11278.5, 1409.5/gpu lr: 0.25": (
        {"step": 9, "loss": 0.5, "tokens_per_s": 11278.5, "learning_rate": 0.25}, {"tps_per_gpu": 1409.5},
    ),
    "Validation Results - Epoch[1] Avg accuracy: 0.95 Avg loss: 0.15": (
        {}, {"Epoch": 1, "validation_Avg_accuracy": 0.95, "validation_Avg_loss": 0.15},
    ),
    "| Training Device=xla:0/3 Epoch=1 Step=280 Loss=0.25 Rate=1760.5": (
        {"step": 280, "epoch": 1, "loss": 0.25}, {"Rate": 1760.5},
    ),
    "Train Epoch: 0 [    64/109468 (0%)] Loss: 1.5 (1.25) Logit Scale: 100.5 - V4": (
        {"epoch": 0, "loss": 1.5}, {"samples_done": 64, "Loss_mean": 1.25, "Logit_Scale": 100.5},
    ),
    "  Val    loss=0.75  acc=0.5": ({}, {"Val_loss": 0.75, "val_acc": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("line", ODD_LINES)
def test_each_number_has_its_own_name(line: str) -> None:
    got = read(f"step 1 loss 3.5\n{line}\n".encode())
    steps, values = ODD_LINES[line]
    of_line = [row for row in got.rows("steps") if row["line"] == 2]
    assert [{name: row[name] for name in steps} for row in of_line] == [steps] * bool(steps)
    parts = {row["phase"]: row["time_s"] for row in got.rows("phases") if row["line"] == 2}
    assert {row["key"]: row["value"] for row in got.rows("values") if row["line"] == 2} | parts == values


def test_settings_of_a_model_above_the_steps() -> None:
    log = "block_size: 1024\nn_layer: 12\nvocab_size: 50304\nmax_steps      : 19073\nstep 1 loss 0.5\n"
    (run,) = read(log.encode()).rows("runs")
    assert json.loads(run["config"]) == {"block_size": 1024, "n_layer": 12, "vocab_size": 50304, "max_steps": 19073}


def test_prose_of_one_shape_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(
        MeterFamily, "_line", lambda self, before, head, after: tried.append(before + head.text + after)
    )
    declared = next(f for f in get("meters").families if f.name == "step")
    assert isinstance(declared, MeterFamily)
    family = replace(declared)
    for k in range(1000, 2000):
        assert family.lines(f"loader read {k} rows of {k} steps, loss scale unchanged") == ()
    assert tried == ["loader read 1000 rows of 1000 steps, loss scale unchanged"]


# --- when they apply ------------------------------------------------------------------------------------------------

PROSE = (
    "We train for 3 epochs at a learning rate of 0.1, and the loss falls to 2.5.",
    "The loss is computed every 10 steps.",
    "step by step: see Figure 3",
    "Loaded 1000 images in 3.5 s",
    "loss = F.cross_entropy(logits, labels)  # 2 terms",
    "for step in range(100): loss = model(x, 3)",
)


@pytest.mark.parametrize("text", PROSE)
def test_prose_proves_nothing(text: str) -> None:
    with pytest.raises(InputError):
        read(f"{text}\n".encode() * 3)


def test_another_format_comes_first() -> None:
    exact = b"iter 10: loss 2.5, time 120.5ms, mfu 3.25%\n"
    assert read(exact).done.formats == ["nanogpt"]
    got = read(exact + b"iter 11: loss 2.5, time 120.5ms\n" + PROGRAMS["detectron2"].log.encode())
    assert got.done.formats == ["nanogpt"]


OWN = """\
title  = "own"
source = "this test"
{top}
[[meters]]
name   = "a"
table  = "steps"
{needs}
sample = "round 3: score 1.5"
"""


@pytest.mark.parametrize(
    ("top", "needs", "reason"),
    [
        ("", "", "the lines have neither a head nor names"),
        ("", 'needs = ["score"]\nunit_names = { MB = "parsec" }', "unknown unit `parsec`"),
        ("", 'needs = ["score"]\n[meters.keys]\nscore = "a b"', "`a b` is not a field name"),
        ('generic = "yes"', 'needs = ["score"]', "`generic` must be bool, not str"),
    ],
)
def test_errors_of_a_declaration(tmp_path: Path, top: str, needs: str, reason: str) -> None:
    path = tmp_path / "own.toml"
    before, _, after = needs.partition("\n[")
    text = OWN.format(top=top, needs=before) + (f"[{after}\n" if after else "")
    path.write_text(text)
    with pytest.raises(FormatError, match=reason.replace("`", "`")):
        load(path)


def test_the_time_of_a_micro_iteration_is_no_step_time() -> None:
    got = read(b"""\
iter 100: val loss 1.70, val time: 3000.00 ms
iter 110 | step 14: loss 0.30, iter time: 130.00 ms (optimizer.step)
iter 120 | step 15: loss 0.29, iter time: 60.00 ms
iter 130 | step 16: loss 0.28, iter time: 62.00 ms
""")
    steps = [(r["line"], r["step"], r["loss"], r["step_time_s"]) for r in got.rows("steps")]
    assert steps == [(2, 110, 0.3, None), (3, 120, 0.29, None), (4, 130, 0.28, None)]
    values = {(r["step"], r["key"]): r["value"] for r in got.rows("values")}
    assert values == {
        (100, "val_loss"): 1.7, (100, "val_time"): 3.0,
        (110, "iter_time"): 0.13, (120, "iter_time"): 0.06, (130, "iter_time"): 0.062,
        (110, "other_step"): 14, (120, "other_step"): 15, (130, "other_step"): 16,
    }  # fmt: skip


def test_the_time_of_an_iteration_is_that_of_a_step_where_both_count_the_same() -> None:
    got = read(b"""\
Epoch 0 | iter  70 step  70 | loss train: 5.281, val_loss valid: 13.879 | iter time: 35.430 s (step)
Epoch 0 | iter  70          | val_loss: 13.069 | val_time: 78.948 s
Epoch 0 | iter  71 step  71 | loss train: 20.125, val_loss valid: 13.069 | iter time: 41.800 s (step)
""")
    steps = sorted((r["line"], r["step"], r["copy"], r["loss"], r["step_time_s"]) for r in got.rows("steps"))
    assert steps == [(1, 70, 1, 5.281, 35.43), (3, 71, 1, 20.125, 41.8)]


def test_the_unit_in_a_name_is_that_of_the_number() -> None:
    got = read(b"step 1 | loss 2.5 | step_time_ms=412.5 | mem_gb 40.5 | util_pct 95.5 | fwd_ms: 100.5 | params 7\n")
    steps = [(r["step_time_s"], r["memory_bytes"], r["forward_s"]) for r in got.rows("steps")]
    assert steps == [(pytest.approx(0.4125), 40.5e9, pytest.approx(0.1005))]
    values = [(r["key"], r["value"], r["unit"]) for r in got.rows("values")]
    assert values == [("util", pytest.approx(0.955), "1"), ("params", 7.0, None)]


def test_a_time_in_minutes() -> None:
    log = "".join(f"step {k} | loss: 2.5 | elapsed time: {k}.25m | lr: 1m\n" for k in (1, 2))
    got = read(log.encode())
    assert [(row["key"], row["value"], row["unit"]) for row in got.rows("values")][:1] == [("elapsed_time", 75.0, "s")]


def test_two_rates_in_one_bracket_are_named_by_their_units() -> None:
    line = "step 9600, auc = 0.8267, loss = 0.2872, real_mean: 0.1259, (238.1 it/sec; 243848.0 examples/sec)\n"
    got = read(line.encode())
    assert [(row["key"], row["value"]) for row in got.rows("values") if row["unit"] == "1/s"] == [("it_per_sec", 238.1)]
    assert [row["samples_per_s"] for row in got.rows("steps")] == [243848.0]


MEASURED: dict[str, dict[str, tuple[float, str | None]]] = {
    "Fwd Time: 0.0258 ms": {"Fwd_Time": (2.58e-5, "s")},
    "[01/12/2026-09:11:02] [TRT-LLM] [I] LLM latency: 3.345 sec": {"LLM_latency": (3.345, "s")},
    "FLOPS:               16.5236 TFLOPs per second": {"FLOPS": (16.5236, "TFLOP/s")},
    "vLLM Triton: 0.087 ms, 86.40 TFLOPS": {
        "vLLM_Triton": (8.7e-5, "s"), "vLLM_Triton_tflops": (86.4, "TFLOP/s"),
    },
    "fused: 0.5 ms (120.0 TFLOPS), plain: 0.75 ms (80.0 TFLOPS)": {
        "fused": (5e-4, "s"), "fused_tflops": (120.0, "TFLOP/s"),
        "plain": (7.5e-4, "s"), "plain_tflops": (80.0, "TFLOP/s"),
    },
    "CUBLAS average time: 0.004911 ms, 122.992 TFLOPS": {
        "CUBLAS_average_time": (4.911e-6, "s"), "CUBLAS_average_tflops": (122.992, "TFLOP/s"),
    },
    "Decode throughput (tokens/s):                     248.4751": {
        "Decode_throughput_tokens_per_s": (248.4751, "1/s")
    },
    "Output throughput: 1234.5 tokens/s": {"Output_throughput_tokens_per_s": (1234.5, "1/s")},
    "general.py: 117: Request throughput: 12.5 req/s": {"Request_throughput": (12.5, "1/s")},
    "Measuring random read IOPS: 515151 IOPS": {"Measuring_random_read_IOPS": (515151.0, "1/s")},
    "  s1=  8192  fa=  527.0 us ( 24.45 TFLOP/s)  speedup=0.33x  err: ours=1.75e-05": {
        "s1": (8192.0, None), "fa": (527e-6, "s"), "fa_tflops": (24.45, "TFLOP/s"), "speedup": (0.33, None),
        "ours": (1.75e-05, None),
    },
    "Reqs: Avg: 424.5MB/s, 50%: 412.5MB/s, 99.9%: 2.5MB/s": {
        "Avg": (0.4245, "GB/s"), "p50": (0.4125, "GB/s"), "p99_9": (0.0025, "GB/s"),
    },
    "Decode speed: 45.2 tok/s (22.1 ms/tok)": {
        "Decode_speed_tokens_per_s": (45.2, "1/s"), "time_per_tok": (0.0221, "s"),
    },
    "Fwd TFLOPS: 512.3": {"Fwd_TFLOPS": (512.3, "TFLOP/s")},
    "decode tok/s: 1200.5": {"decode_tok_s": (1200.5, "1/s")},
    "[BENCHMARK] forward_latency_ms 12.5": {"forward_latency": (0.0125, "s")},
    "Latency (average)         | 10955243 ns": {"Latency_average": (0.010955243, "s")},
    "Bandwidth (median)        | 170.5 GB/s": {"Bandwidth_median": (170.5, "GB/s")},
    "Average speed: 29.5ms @ 34.25 tok/s/user (4377.5 tok/s throughput)": {
        "Average_speed": (0.0295, "s"), "tok_per_s_per_user": (34.25, "1/s"), "tok_per_s": (4377.5, "1/s"),
    },
    "Throughput: 10.5 req/s (345.25 tok/s)": {"Throughput_req_per_s": (10.5, "1/s"), "tok_per_s": (345.25, "1/s")},
    "EP16: 286.5 us, 25.61 GB/s": {"EP16": (286.5e-6, "s"), "EP16_bandwidth": (25.61, "GB/s")},
    "(Actor pid=74405) Mean throughput 981.5 MB/s": {"Mean_throughput": (0.9815, "GB/s")},
    "speedup: 1.01x": {"speedup": (1.01, None)},
    "env.steps_per_second: 1,065,244": {"env_steps_per_second": (1065244, "1/s")},
    "Total updates per sec = 12.5": {"Total_updates_per_sec": (12.5, "1/s")},
    "main.cpp:430] Inference time: 1.834 (seconds)   Rate: 52.25 (tokens/second)": {
        "Inference_time": (1.834, "s"), "Inference_Rate_tokens_per_s": (52.25, "1/s"),
    },
    "Prefill 512 tokens: 100.5 ms, rate: 5012.5 tokens/s": {
        "tokens": (512, None), "Prefill_time": (0.1005, "s"), "Prefill_rate": (5012.5, "1/s"),
    },
    "M=3840, N=4096: 0.0625 ms, 3.75 TFLOPS": {
        "M": (3840, None), "N": (4096, None), "time": (6.25e-5, "s"), "tflops": (3.75, "TFLOP/s"),
    },
    "GPU 0: [Put] bytes 1024, elapsed 0.0065 ms/iter, BW 0.125 GB/s": {
        "GPU": (0, None), "bytes": (1024, None), "elapsed": (6.5e-6, "s"), "BW": (0.125, "GB/s"),
    },
    "Throughput: 812.5 qps": {"Throughput": (812.5, "1/s")},
    "Final Val Loss:      4.8384": {"Final_Val_Loss": (4.8384, None)},
    "2026-01-02 10:00:00,123 - INFO - Test accuracy: 0.9125": {"Test_accuracy": (0.9125, None)},
    "- Best top-1 test accuracy = 91.25 %": {"Best_top_1_test_accuracy": (0.9125, "1")},
    "2024/07/11 23:37:56 End to End Latency (ms) p50: 328.000": {"End_to_End_Latency_p50": (0.328, "s")},
    "  Round 2: Average TTFT = 2.5s, Cache Hit Rate = 0.75 (20 requests, 20 clients)": {  # counts, no means
        "Round": (2, None), "Average_TTFT": (2.5, "s"), "Cache_Hit_Rate": (0.75, None),
    },
}  # fmt: skip


@pytest.mark.parametrize("text", MEASURED)
def test_a_line_that_measures_something_is_enough(text: str) -> None:
    rows = read(f"{text}\n".encode()).rows("values")
    assert {str(row["key"]): row["unit"] for row in rows} == {key: unit for key, (_, unit) in MEASURED[text].items()}
    values = {key: value for key, (value, _) in MEASURED[text].items()}
    assert {str(row["key"]): row["value"] for row in rows} == pytest.approx(values)
    assert {row["step"] for row in rows} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "Loading model took 12.3 s",
        "All tests took: 12.3 seconds",
        "The latency of each layer was 3.2 ms",
        "note that the kernel time: 3.2 ms",
        "Waiting for the server: 5 s",
        "Peak memory: 1.23 GB",
        "Step latency: 3.2",  # in which unit?
        "result: 1450617.5 Mflop/s per node",
        "Download speed: 12.3 MB/s",
        "Average sleep time: 5 s",
        "Request rate: 4 req/s",
        "SLO TTFT: 500 ms",
        "Theoretical throughput: 989 TFLOPS",
        "Expected kernel time: 12 ms",
        "max step time: 600 seconds",
        "Setting min iteration time: 10 ms",
        "ETA: 12 s (45%)",
        "Remaining time: 35.2 s (12%)",
        "├── max age: 30s",
        "└── keepalive: 30 s",
        "Total TFLOPS: 1234.5",  # all work, or a rate?
        "GPUs: 8x",
        "[BENCHMARK] llama 7",
        "=== batch=8, seq=2048 ===",  # a title alone
        "Testing complete.",
        "video.frames_per_second: 30",
        "max_steps_per_second: 1000",
        "It ran with steps per second: 50.5 in the demo",
        "target_val_loss: 3.28",
        "max_eval_reward: 10.5",
        "The final loss was 3.25",
        "copied 3 files (12 s, 3 MB/s)",
        "Downloading model.bin: 45 MB, 3.5 s, 12 MB/s",
        "test_size: 0.25",
    ],
)
def test_prose_and_what_has_no_unit_measure_nothing(text: str) -> None:
    with pytest.raises(InputError):
        read(f"{text}\n".encode())


def test_rows_of_a_table_are_no_measured_lines() -> None:
    got = read(
        b"| Metric | Value |\n|---|---|\n| Throughput | 1234.5 tok/s |\n| P99 latency | 12.5 ms |\n| Requests | 9 |\n"
    )
    assert {row["key"]: row["value"] for row in got.rows("values")} == {
        "Throughput": 1234.5, "P99_latency": 0.0125, "Requests": 9,
    }  # fmt: skip


@pytest.mark.parametrize("place", ["INFO trainer:141:train", "INFO:a.trainer:141:train", "a.trainer:141:<module>"])
def test_a_line_of_the_source_before_a_function_is_no_figure(place: str) -> None:
    got = read(f"{place} step 1 loss 0.5\n{place} step 2 loss 0.4\n".encode())
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 0.5), (2, 0.4)]
    assert got.rows("values") == []


def test_names_with_digits_are_looked_for_once_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(text: str) -> list[tuple[int, int]]:
        asked.append(text)
        return name_spans(text)

    monkeypatch.setattr(tokens, "name_spans", counted)
    parts = tokens.tokens("20x4MB, " * 50 + "loss 0.5")
    assert ([part.text for part in parts if part.kind == tokens.NUMBER], len(asked)) == (["0.5"], 1)


def test_beside_measured_lines_a_number_without_a_unit_and_an_estimate_measure_nothing() -> None:
    got = read(b"LLM latency: 3.345 sec\nbatch: 32, heads: 12\nport: 443, use_https: 1\nETA: 5 s\nLoad time: 2 s\n")
    assert [row["key"] for row in got.rows("values")] == ["LLM_latency", "Load_time"]


def test_the_utilization_beside_the_lines_of_steps() -> None:
    got = read(b"step 7 loss 0.5\nMFU: 41.2% (407.50 TFLOPS/GPU)\nstep 8 loss 0.4\n")
    rows = [(row["key"], row["value"], row["unit"]) for row in got.rows("values")]
    assert rows == [("MFU", pytest.approx(0.412), "1"), ("tflops", 407.5, "TFLOP/s")]
    assert [row["step"] for row in got.rows("steps")] == [7, 8]


def test_a_title_is_no_result_and_no_count() -> None:
    lines = [
        "=== batch=8, seq=2048 ===",
        "--- Epoch 3 ---",
        "=== kernel time: 3.5 ms ===",  # a result, though not read
        "Testing causal=True",
        "[BENCHMARK] llama bf16",
        "[BENCHMARK] decode tok/s 12.5",
        "kernel time: 4.5 ms",
        "--- llama, tp=8: M=64, bias=False ---",
        "--- kernel: time=3.5 ms ---",
    ]
    got = read("\n".join([*lines, ""]).encode())
    rows = {row["line"]: (row["key"], row["text"] or row["value"]) for row in got.rows("values")}
    assert rows == {
        1: ("title", "batch=8, seq=2048"),
        4: ("subtitle", "causal=True"),
        5: ("subtitle", "llama bf16"),
        6: ("decode_tok_s", 12.5),
        7: ("kernel_time", pytest.approx(0.0045)),
        8: ("subtitle", "llama, tp=8: M=64, bias=False"),
    }


def test_times_of_parts_with_any_names_beside_steps() -> None:
    step = "iter=3 loss=0.5\n"
    got = read(f"{step}[gqa] shape=a STAGES  qk=0.502ms(31.0%) pv=0.612ms(37.5%)\nttl=3s, grace=5s\n".encode())
    assert {row["key"]: row["value"] for row in got.rows("values")} == pytest.approx(
        {"qk": 0.000502, "qk_share": 0.31, "pv": 0.000612, "pv_share": 0.375}
    )


def test_memory_is_measured_after_or_before_what_the_words_say() -> None:
    got = read(b"kernel time: 4.5 ms\nMemory usage after forward pass: 28.5 GB.\nTime left after the pass: 28.5 s\n")
    assert {row["key"]: row["value"] for row in got.rows("values")} == pytest.approx(
        {"kernel_time": 0.0045, "Memory_usage_after_forward_pass": 28.5e9}
    )


def test_the_time_of_an_epoch_in_a_sentence() -> None:
    got = read(
        b"INFO - Time taken for epoch 3 is 58.5 sec\nTime taken for epoch 4 is 50.5 sec, avg 125.5 samples/sec\n"
    )
    assert [(row["line"], row["key"], row["value"], row["unit"]) for row in got.rows("values")] == [
        (1, "epoch", 3, None), (1, "epoch_time", 58.5, "s"),
        (2, "epoch", 4, None), (2, "epoch_time", 50.5, "s"), (2, "samples_per_s", 125.5, "1/s"),
    ]  # fmt: skip


def test_a_time_per_iteration_may_have_its_unit_in_the_name_and_a_factor() -> None:
    line = (
        "iteration: {} / 9 | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.5K | lm_loss: 2.5\n"  # nanotron
    )
    steps = read("".join(map(line.format, (1, 2))).encode()).rows("steps")
    assert [(row["step"], row["step_time_s"], row["tokens_per_s"]) for row in steps] == [
        (1, 11.5, 22500),
        (2, 11.5, 22500),
    ]


SETTINGS = [
    "Config: max_tps=500, min_tps=10",
    "[serve] max_tps: 500 tokens/s",
    '  "min_throughput": 500 samples/s,',
    "max_latency: 30 ms",
    "max_latency_ms=30, min_latency_ms=3",
    "Server args: decode latency: 30 ms, throughput: 500 tokens/s",
    "heartbeat: 30 s",
    "poll every: 30 s",
    "chunk size: 64 MB",
    "Throughput threshold: 500 tokens/s",
    "Arrival rate: 4.0 req/s",
    "rated bandwidth: 3350 GB/s",
]


@pytest.mark.parametrize("text", SETTINGS)
def test_what_is_set_is_not_measured_also_beside_measured_lines(text: str) -> None:
    got = read(f"LLM latency: 3.345 sec\n{text}\n".encode())
    assert [row["key"] for row in got.rows("values") if row["value"] is not None] == ["LLM_latency"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("max memory: 3.2 GB", {"max_memory": 3.2e9}),
        ("max_memory_allocated: 32 GB", {"max_memory_allocated": 32e9}),
        ("min latency: 3 ms", {"min_latency": 0.003}),
        ("max_latency: 30.5 ms", {"max_latency": 0.0305}),
        ("Max throughput: 523 tokens/s", {"Max_throughput_tokens_per_s": 523}),
        ("max_tps=500, min_tps=400, mean_tps=450", {"max_tps": 500, "min_tps": 400, "mean_tps": 450}),
        ("peak bandwidth: 3350 GB/s", {"peak_bandwidth": 3350}),
        ("Config: batch=8, latency: 3.25 ms", {"batch": 8, "latency": 0.00325}),
    ],
)
def test_an_extreme_that_was_measured_stays(text: str, values: dict[str, float]) -> None:
    rows = read(f"LLM latency: 3.345 sec\n{text}\n".encode()).rows("values")
    assert {row["key"]: row["value"] for row in rows if row["line"] == 2} == pytest.approx(values)


@pytest.mark.parametrize(
    ("lines", "steps", "numbers"),
    [
        (("step 00000: 3.25", "step 00010: 3.5", "step 100000: 2.5"), [0, 10, 100000], [3.25, 3.5, 2.5]),
        (("step 12, 3.25", "step 13, 3.5e-2"), [12, 13], [3.25, 0.035]),
        (
            ("[10:00:01] INFO Iter 12/500 - 3.25 412 ms", "[10:00:02] INFO Iter 13/500 - 3.5 411 ms"),
            [12, 13],
            [3.25, 3.5],
        ),
    ],
)
def test_a_number_that_nothing_names_is_an_unnamed_one_of_its_step(
    lines: tuple[str, ...], steps: list[int], numbers: list[float]
) -> None:
    got = read("\n".join([*lines, ""]).encode())
    assert [row["step"] for row in got.rows("steps")] == steps
    rows = [(row["key"], row["step"], row["value"]) for row in got.rows("values")]
    named = [row for row in rows if row[0] == "unnamed"]
    assert named == [("unnamed", step, number) for step, number in zip(steps, numbers, strict=True)]
    assert {key for key, _, _ in rows} <= {"unnamed", "time"}  # of `3.25 412 ms`
    assert {row["loss"] for row in got.rows("steps")} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "Step 3: 5 files", "step 3: 2.5 hours to go", "in step 3: 2.5", "Step 3: do 2.5",
        "Epoch 0, global step 10: 'val_loss' was not in top 1", "step 3: the loss did 2",
    ],
)  # fmt: skip
def test_a_count_and_a_sentence_are_no_number_of_a_step(text: str) -> None:
    with pytest.raises(InputError):
        read(f"{text}\n".encode())


def test_the_parts_of_the_data_may_be_the_only_names() -> None:
    got = read(b"iter 10: train 3.25 val 3.5\niter 20: train 3.125 val 3.25\n")
    assert [row["step"] for row in got.rows("steps")] == [10, 20]
    assert {(row["step"], row["key"], row["value"]) for row in got.rows("values")} == {
        (10, "train", 3.25), (10, "val", 3.5), (20, "train", 3.125), (20, "val", 3.25),
    }  # fmt: skip


def test_a_list_of_rewards_has_any_length() -> None:
    text = "step 1 rewards: [0.5, 0.25, 0.0, 1.0]\n  Rewards: [0.5, 0.25, 0.0, 1.0, 0.5]\n  Rewards: [0.5, 0.25, 0.0]\n"
    got = read(text.encode())
    values = [(row["line"], row["key"], row["value"]) for row in got.rows("values")]
    assert sorted(values) == [
        *((1, f"rewards[{k}]", x) for k, x in enumerate((0.5, 0.25, 0.0, 1.0))),
        *((2, f"Rewards[{k}]", x) for k, x in enumerate((0.5, 0.25, 0.0, 1.0, 0.5))),
        *((3, f"Rewards[{k}]", x) for k, x in enumerate((0.5, 0.25, 0.0))),
    ]
    assert [row["step"] for row in got.rows("steps")] == [1]
    assert got.done.figures["stored"] == 13


def test_pairs_with_spaces_between_them_are_a_record_of_a_case() -> None:
    lines = ["RESULT model=llama tp=8 batch=32 ttft_ms=31.25 tok_s=3201.25 dtype=bf16", "step_time_ms=250.0", ""]
    rows = [
        (row["line"], row["key"], row["text"] or row["value"]) for row in read("\n".join(lines).encode()).rows("values")
    ]
    assert sorted(rows) == [
        (1, "batch", 32), (1, "dtype", "bf16"), (1, "model", "llama"), (1, "tok_s", 3201.25), (1, "tp", 8),
        (1, "ttft", 0.03125), (2, "step_time", 0.25),
    ]  # fmt: skip


def test_a_line_that_only_begins_as_in_megatron_is_of_any_program() -> None:
    lines = "".join(
        f"iteration {k}/ 100 | loss: {3 - k / 50:.4f} | step time: 0.412 s | tokens/s: 19860\n" for k in (1, 2, 3)
    )
    got = read(lines.encode())
    assert {row["format"] for row in got.rows("runs")} == {"meters"}
    assert [(row["step"], row["step_time_s"], row["tokens_per_s"]) for row in got.rows("steps")] == [
        (k, 0.412, 19860.0) for k in (1, 2, 3)
    ]


def test_a_row_without_a_header_is_measured_by_its_units() -> None:
    lines = [
        "--- Per-Phase Timing ---",
        "  compute_advantage                62.5 us    166.25 M elem/s",
        "  train_select_and_copy           118.0 us      4.5 M elem/s",
        "gemm 1024     12.5 us     1.25 TFLOPS",
        "all-reduce    125 us   12.5 GB/s",
        "rows  3 items   5 us",  # one unit alone may belong to a sentence
        "",
    ]
    rows = [
        (row["line"], row["key"], row["value"], row["unit"]) for row in read("\n".join(lines).encode()).rows("values")
    ]
    assert {row[:2]: pytest.approx(row[2]) for row in rows if row[2] is not None} == {
        (2, "compute_advantage"): 62.5e-6, (2, "compute_advantage_elem_per_s"): 166.25e6,
        (3, "train_select_and_copy"): 118e-6, (3, "train_select_and_copy_elem_per_s"): 4.5e6,
        (4, "gemm_1024"): 12.5e-6, (4, "gemm_1024_tflops"): 1.25,
        (5, "all_reduce"): 125e-6, (5, "all_reduce_bandwidth"): 12.5,
    }  # fmt: skip


def test_a_step_may_print_times_and_rates_alone() -> None:
    """Names of groups before a name (`perf/`) change nothing; `took` after a step is its time."""
    text = "Rank 0: step=1 fwd=101.5ms bwd=203.5ms comm=37.5ms\nRank 1: step=1 fwd=102.5ms bwd=203.5ms comm=38.5ms\n"
    got = read(text.encode()).rows("steps")
    assert [(row["rank"], row["step"]) for row in got] == [(0, 1), (1, 1)]
    assert [row["forward_s"] for row in got] == pytest.approx([0.1015, 0.1025])
    text = "".join(f"step: {k} perf/step_time: 412.5 ms perf/tokens_per_sec: 19860\n" for k in (5, 6))
    got = read(text.encode()).rows("steps")
    assert [row["step_time_s"] for row in got] == pytest.approx([0.4125] * 2)
    assert [row["tokens_per_s"] for row in got] == [19860] * 2
    text = "Iteration 5 took 1.25 seconds, loss = 2.5\nIteration 6 took 1.5 seconds, loss = 2.25\n"
    assert [row["step_time_s"] for row in read(text.encode()).rows("steps")] == [1.25, 1.5]


def test_a_time_named_step_is_no_step_that_is_counted() -> None:
    with pytest.raises(InputError):
        read(b"as above: step 989 ms, MFU 74.1 %, 529,900 tok/s in all runs\n")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("step {}: loss 2.1, took 350 ms", None),
        ("step {}: loss 2.1, 1200 tok/s, took 0.35 s", None),
        ("step {}: took 350 ms, loss 2.1", None),
        ("step {}: took 0.35 s lr 0.1 loss 2.1", None),
        ("step {}: loss 2.1, checkpoint saved, took 5.0 s", "checkpoint_saved_took"),
        ("step {}: loss 2.1, took 3.2 s to save checkpoint", "took_to_save_checkpoint"),
        ("step {}: loss 2.1, 3 files uploaded (took 5.1 s)", "files_uploaded_took"),
    ],
)
def test_what_took_time_is_the_step_or_an_event(line: str, name: str | None) -> None:
    got = read("".join(line.format(k) + "\n" for k in (10, 20)).encode())
    is_known = [row["step_time_s"] is not None for row in got.rows("steps")]
    assert is_known == [name is None] * 2
    assert {row["key"] for row in got.rows("values") if row["key"].endswith(("took", "checkpoint"))} == {name} - {None}


@pytest.mark.parametrize("line", ["Step {}: took 3.2s to save checkpoint", "Step {}: restored, took 5 s"])
def test_a_time_of_an_event_alone_makes_no_step(line: str) -> None:
    with pytest.raises(InputError):
        read("".join(line.format(k) + "\n" for k in (1, 2)).encode())


@pytest.mark.parametrize("line", ["gemm" + " " * 200_000 + "x", "gemm" + "  1.5 us" * 20_000 + " x"])
def test_a_long_line_is_tried_as_a_row_in_linear_time(line: str) -> None:
    assert re.match(f"(?s:{MEASURED_PATTERN})", line) is None


def test_a_rate_of_steps_gives_the_time_of_a_step() -> None:
    """Only if the rate counts what the step counts, and has enough digits."""
    for text, time in (
        ("step=%d loss=2.9 steps_per_sec=2.50\n", 0.4),
        ("Iter %d: loss 2.9, It/sec 2.000\n", 0.5),
        ("iteration %d loss=2.9 steps/s=12034.5\n", None),
        ("step=%d loss=2.9 steps_per_sec=0.04\n", None),
        ("step=%d loss=2.9 steps_per_sec=2.50 step_time=0.5s\n", 0.5),
    ):
        rows = read("".join(text % k for k in (1, 2)).encode()).rows("steps")
        assert [row["step_time_s"] for row in rows] == [time] * 2


def test_the_printed_unit_says_what_a_rate_counts() -> None:
    text = "".join(f"step {k}: speed = 1200 img/sec, loss = 2.5, 19.8K tok/s, sec/step=0.5\n" for k in (1, 2))
    rows = read(text.encode()).rows("steps")
    assert [(r["samples_per_s"], r["tokens_per_s"], r["step_time_s"]) for r in rows] == [(1200, 19800, 0.5)] * 2


@pytest.mark.parametrize(
    "date",
    [
        "Nov 30 10:00:02",
        "Nov  3 10:00:02.123",
        "Mon Nov 30 10:00:02 UTC 2026",
        "Nov 30, 2026 10:00:02",
        "30 Nov 2026 10:00",
    ],
)
def test_a_date_in_words_is_one_token(date: str) -> None:
    assert [token.text for token in tokens.tokens(f"[{date}] step 1")] == ["[", date, "]", "step", "1"]


def test_a_time_directly_after_a_step_is_its_time() -> None:
    rows = read(b"Step 3 time: 178.5ms\nStep 4 time: 0.25 s, loss: 2.5\n").rows("steps")
    assert [(row["step"], row["step_time_s"], row["loss"]) for row in rows] == [(3, 0.1785, None), (4, 0.25, 2.5)]


def test_a_time_without_a_name_after_a_step() -> None:
    got = read(b"iteration 3: 0.25 s\niteration 4: 0.5 s\n")
    assert [(r["step"], r["key"], r["value"]) for r in got.rows("values")] == [(3, "time", 0.25), (4, "time", 0.5)]
    with pytest.raises(InputError):
        read(b"step 3: 2.5 hours to go\n")
    with pytest.raises(InputError):  # cells of a table
        read(b"[a](b) | 8K / 1K | 7.73 req/s | 69908 tok/s | 44.58 ms | 44.52s / 56.86s\n")


def test_a_batch_without_an_epoch_is_a_step() -> None:
    text = "".join(f"I [train.py:103] Batch {k} Loss: 11.5, Speed: 10.5 samples/sec, lr: 0.0001\n" for k in (0, 1))
    rows = read(text.encode()).rows("steps")
    assert [(row["step"], row["loss"], row["samples_per_s"]) for row in rows] == [(0, 11.5, 10.5), (1, 11.5, 10.5)]


def test_a_line_with_a_time_and_its_rate_names_its_case_and_shape() -> None:
    rows = read(b"matmul (4096x512): 12.5 ms, 123 TFLOPS\nsoftmax (64x512): 2.5 ms, 3 TFLOPS\n").rows("values")
    by_line = [{row["key"]: row["text"] or row["value"] for row in rows if row["line"] == line} for line in (1, 2)]
    assert by_line == [
        {"case": "matmul", "shape": "4096x512", "time": 0.0125, "tflops": 123},
        {"case": "softmax", "shape": "64x512", "time": 0.0025, "tflops": 3},
    ]


def test_titles_and_figures_may_come_after_what_a_logger_prints() -> None:
    front = "2026-05-20 09:40:35,996 - bench - INFO - "
    text = f"{front}Benchmarking attention for seq=128...\n{front}Kernel time: 0.25 ms\n"
    rows = read(f"{text}INFO:bench:=== seq=256 ===\nINFO:bench:Load time: 8 ms\n".encode()).rows("values")
    assert sorted((row["line"], row["key"], row["text"] or row["value"]) for row in rows) == [
        (1, "subtitle", "attention for seq=128"), (2, "Kernel_time", 0.00025),
        (3, "title", "seq=256"), (4, "Load_time", 0.008),
    ]  # fmt: skip


def test_minutes_after_a_time_are_its_unit() -> None:
    rows = read(b"best val loss: 3.25\nwall time: 2.5 min\nvalid time: 1.5 min\n").rows("values")
    assert {row["key"]: row["value"] for row in rows} == {"best_val_loss": 3.25, "wall_time": 150, "valid_time": 90}


def test_a_time_in_a_line_about_an_evaluation_is_of_the_evaluation() -> None:
    text = "***Train Epoch 3: loss: 1.5, train time: 45.5 s\n***Val Epoch 3: loss: 1.25, train time: 2.5 s\n"
    values = {row["key"]: row["value"] for row in read(text.encode()).rows("values")}
    assert values == {"Epoch": 3, "loss": 1.5, "train_time": 45.5, "val_loss": 1.25, "val_train_time": 2.5}


def test_measured_pairs_may_come_after_what_a_logger_prints() -> None:
    got = read(b"2026-11-02 09:00:00 INFO bench: RESULT model=llama tp=8 ttft_ms=32.5 tok_s=3201.5\n").rows("values")
    assert {row["key"]: row["value"] for row in got if row["value"]} == {"tp": 8, "ttft": 0.0325, "tok_s": 3201.5}


def test_the_name_of_a_logger_is_no_part_of_the_first_name() -> None:
    """A name before `=` has one word where all are pairs. A word of an evaluation says what the numbers are of."""
    begin = "2026-11-30 10:00:01,000 INFO "
    lines = {
        "trainer rank=3 iter=5/80 t_iter=0.75s t_fwd=0.25s": (5, 3, 0.75, 0.25, None),
        "my.trainer step=6 loss=2.5 lr=1": (6, None, None, None, 2.5),
        "trainer my step=7 loss=2.5 rank=1": (7, 1, None, None, 2.5),
    }
    for text, expected in lines.items():
        (row,) = read(f"{begin}{text}\n".encode()).rows("steps")
        assert tuple(row[c] for c in ("step", "rank", "step_time_s", "forward_s", "loss")) == expected, text
    for other in ("val step=8 loss=2.5 lr=1", "trainer step=8 grad norm=2.5 lr=1", "max step=8 loss=2.5 lr=1"):
        rows = read(f"INFO step=1 loss=2.5 lr=1\n{begin}{other}\n".encode()).rows("steps")
        assert [row["step"] for row in rows] == [1], other
    rows = read(f"INFO step=1 loss=2.5 lr=1\n{begin}best loss=1.5 step=2 lr=1\n".encode()).rows("steps")
    assert 1.5 not in [row["loss"] for row in rows]


def test_times_in_brackets_after_a_time_are_its_parts() -> None:
    """A statistic in brackets is of the number before, and so is a number that is no time."""
    got = read(b"step 7 loss 2.5 (avg 2.75) 1.5 s/it (data 0.25 s, fwd 0.5 s, avg 1.25 s)\n")
    assert [(row["step_time_s"], row["forward_s"]) for row in got.rows("steps")] == [(1.5, 0.5)]
    named = {row["key"]: row["value"] for row in got.rows("values")}
    named |= {row["phase"]: row["time_s"] for row in got.rows("phases")}
    assert named == {"loss_avg": 2.75, "data": 0.25, "step_time_avg": 1.25}
    got = read(b"step 7 loss 2.5 time 1.5 s val_time 3.5 s (forward 0.5 s)\n")
    assert [row["forward_s"] for row in got.rows("steps")] == [None]
    assert {row["key"]: row["value"] for row in got.rows("values")}["val_time_forward"] == 0.5


def test_the_name_of_the_last_number_is_no_unit_of_the_one_before() -> None:
    rows = read(b"step 1 loss 1.76 tok/s 30003\nstep 2 loss 1.75 tok/s 30004\n").rows("steps")
    assert [(row["loss"], row["tokens_per_s"]) for row in rows] == [(1.76, 30003), (1.75, 30004)]


def test_a_size_after_model_is_its_name() -> None:
    for size in ("7b", "7B", "1.3b"):
        got = read(f"world_size=8 micro_batch=4 model={size}\nstep 1 | loss 2.5 | 0.5 s/step\n".encode())
        assert got.rows("runs")[0]["model"] == size


CASES = {
    "MALL BW, GPU ID: 0, duration:407.1 ms, mean:6423.1 GB/sec, stdev=16.3 GB/sec": (
        "MALL BW", {"GPU_ID": 0, "duration": 0.4071, "mean": 6423.1, "stdev": 16.3},
    ),
    "Peak FLOPs (I8), iters: 50, time: 3.5 ms, mean: 20.5 TFLOPS": (
        "Peak FLOPs (I8)", {"iters": 50, "time": 0.0035, "mean": 20.5},
    ),
    "prompt_32k    c=4  ttft=2.5s  decode=30.5 tok/s": (
        "prompt_32k", {"c": 4, "ttft": 2.5, "decode_tokens_per_s": 30.5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_words_before_the_pairs_of_a_measured_line_name_its_case(text: str) -> None:
    rows = read(f"{text}\n".encode()).rows("values")
    case, figures = CASES[text]
    assert [row["text"] for row in rows if row["key"] == "case"] == [case]
    assert {row["key"]: row["value"] for row in rows if row["key"] != "case"} == pytest.approx(figures)


def test_a_padded_unit_that_ends_its_pair() -> None:
    got = read(
        b"step 1 | dt:  910  ms, loss = 2.5 | mem=  12.5  GB\nstep 2 | dt:  1.5   s, loss = 2.4 | mem=  12.5  GB\n"
    )
    assert [(row["step_time_s"], row["memory_bytes"]) for row in got.rows("steps")] == [
        (pytest.approx(0.91), 12.5e9),
        (1.5, 12.5e9),
    ]
    (row,) = read(b"step 1 | dt:  910  ms loss 2.5\n").rows("steps")  # perhaps the name of what follows
    assert row["step_time_s"] is None


def test_figures_after_the_loss_of_an_evaluation_are_of_it() -> None:
    log = read(b"""\
Epoch [1] | Train Loss: 2.5 | Acc: 12.5% | Time: 14.5s
Epoch [1] | Test Loss: 2.25 | Acc: 16.5% | Time: 1.5s
Epoch [2] | Test Loss: 2.25 | LR: 0.5 | Time: 1.25s
""")
    keys = {line: [row["key"] for row in log.rows("values") if row["line"] == line] for line in (1, 2, 3)}
    assert keys[1] == ["Epoch", "Train_Loss", "Acc", "Time"]
    assert keys[2] == ["Epoch", "Test_Loss", "test_Acc", "test_Time"]
    assert keys[3] == ["Epoch", "Test_Loss", "LR", "Time"]  # it may be of the epoch


def test_a_step_without_a_loss_has_its_clock_and_its_rate() -> None:
    line = "step:{}/9 fitness:-2.9 t:{}ms step_avg:12325.1ms Rate=31.5 samples/sec\n"
    got = read("".join(line.format(step, 12000 * step) for step in (1, 2, 3, 4)).encode())
    assert [(row["step_time_s"], row["samples_per_s"]) for row in got.rows("steps")][1:] == [(12.0, 31.5)] * 3


def test_a_total_after_of() -> None:
    """`50 of 200` is `50/200`, of what counts; other numbers after the word are of something else."""
    got = read(b"iter   50 of 200: loss 2.5, 310 ms\niter  100 of 200: loss 2.25 of 3 runs, 310 ms\n")
    assert [row["step"] for row in got.rows("steps")] == [50, 100]
    assert json.loads(got.rows("runs")[0]["config"]) == {"iter_total": 200}


def test_a_line_of_a_program_has_a_literal_of_the_heads() -> None:
    """A string without one is not matched with the pattern of the family, which takes longer."""
    with_heads = 0
    for form in known().values():
        for family in form.families:
            if isinstance(family, MeterFamily) and family.head_literals:
                with_heads += 1
                for sample in family.samples:
                    assert any(literal in sample.encode() for literal in family.head_literals), (family.name, sample)
    assert with_heads > 10


def test_statistics_without_words_are_of_the_quantity_before_them() -> None:
    log = read(b"TTFT mean=127ms std=13ms p99=142ms\nITL mean=12ms std=1ms p99=14ms\n")
    known = {row["key"]: row["value"] for row in log.rows("values")}
    assert known["TTFT_std"] == pytest.approx(0.013) and known["ITL_p99"] == pytest.approx(0.014)
    assert len(known) == 6


def test_what_follows_a_number_is_looked_at_only_after_the_word_in() -> None:
    """For each number of a long line it would take time that grows with the square of the length."""
    ended = SimpleNamespace(words=["finished", "in"], counter="epoch", is_bound=False)
    line = TokenLine(tokens.tokens("in 86.0s, loss=2.3"))
    assert ends_counted(ended, line, "s", 3) and not ends_counted(ended, line, "s", len(line.parts))  # type: ignore[arg-type]
    ended.words = ["loss"]
    assert not ends_counted(ended, None, "s", 3)  # type: ignore[arg-type]  # no line is needed


@pytest.mark.parametrize("piece", ["1,2.5,", "平均 ", "a\u200b", "_loss", "_"])
def test_the_cost_of_a_line_is_linear(piece: str) -> None:
    measured = re.compile(MEASURED_PATTERN)
    assert cpu_growth(lambda pieces: measured.match("time " + piece * pieces), 500, 5000) < 40
    assert cpu_growth(lambda pieces: bars._LOSS.search("1it/s, " + piece * pieces), 500, 5000) < 40


def test_a_token_looks_only_at_what_is_next_to_it() -> None:
    """A bracket that never closes, or a rate after each number, must not make each token look at all that follow."""

    def reads(pieces: int) -> None:
        end_of_call(TokenLine(tokens.tokens("a(" * pieces)), 1)
        unit_of_number(TokenLine(tokens.tokens("1it/s " * pieces)), 0, "", {}, False)

    def splits(pieces: int) -> None:
        tokens.tokens("a(" * pieces)
        tokens.tokens("1it/s " * pieces)

    assert calls(lambda: reads(500)) - calls(lambda: splits(500)) == calls(lambda: reads(50)) - calls(
        lambda: splits(50)
    )
