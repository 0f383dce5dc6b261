"""Lines of meters: real lines of programs that print `name value (mean)` and `name: value,`, figure by figure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.reading import Reading, read

from perflog.errors import FormatError, InputError
from perflog.formats.loader.format_file import load
from perflog.formats.registry import check_samples, get, known

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
    steps: dict[str, float]
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
        "timm",
        {"step": 372, "step_time_s": 0.31, "forward_s": 0.31, "loss": 36.77, "learning_rate": 1.351e-4},
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
         "grad_norm": 1.833},
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
    "a program that is not known": Program(
        "2024-05-01 10:11:12 | INFO | trainer | [rank 3] Step: 120/5000, Loss: 3.4521 (avg 3.5), LR: 3.00e-04, "
        "Step time: 412.5 ms, Throughput: 19860 tokens/s, time: 0.41\n",
        "step",
        {"step": 120, "rank": 3, "loss": 3.4521, "learning_rate": 3e-4, "step_time_s": 0.4125, "tokens_per_s": 19860},
        {"Loss_avg": 3.5, "time": 0.41},
        {"Step_total": 5000},
    ),
}  # fmt: skip


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
    values = first_line(got, "values")
    assert {str(value["key"]): value["value"] for value in values} == pytest.approx(program.values)
    assert json.loads(got.rows("runs")[0]["config"]) == program.config


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_shape_reads_the_lines_of_a_program(name: str) -> None:
    program = PROGRAMS[name]
    lines = [text for text in program.log.splitlines() if any(mark in text for mark in ("loss", "Loss"))]
    shapes = [family.lines(text) for text in lines[:1] for family in get("meters").families if family.lines(text)]
    assert shapes[0][0].name == program.line
    same = "mmdetection" not in name  # there `1 day, ` comes and goes
    assert all(shapes[0][0].template.match(text) is not None for text in lines) == same


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
    "loss 0.5 mem 31.5GiB (78%)": {"loss": 0.5, "memory": 31.5, "mem_share": 78.0},
    "loss 0.5 params 1.3B": {"loss": 0.5, "params": 1.3e9},
    "loss 0.5 max_alloc_mem 3961M": {"loss": 0.5, "max_alloc_mem_M": 3961},
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
        None, {"batch": 30, "test_Time": 3.856, "test_Time_mean": 0.732, "test_Loss": 6.615, "test_Loss_mean": 6.691,
               "test_Acc_1": 0, "test_Acc_1_mean": 0.076},
    ),
    "epoch:[  1/1  ] val step:0    loss: 4.42741 batch_cost: 1.37882 sec, ips: 2.90104 instance/sec.": (
        None, {"epoch": 1, "val_step": 0, "val_loss": 4.42741, "val_batch_cost": 1.37882, "val_ips": 2.90104},
    ),
    "Validation: step 100, loss: 2.5": (100, {"validation_loss": 2.5}),
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
    assert values == [("bracket_time", 1.491, "s"), ("bracket_time", 1.819, "s"), ("bracket_time", 1.492, "s")]


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
        (9, 90, 0.0018, 10), (9, 100, 0.00179, 10), (10, 10, 0.00182, 10),
    ]  # fmt: skip
    assert json.loads(got.rows("runs")[0]["config"]) == {"epochs": 10, "batches": 100}


def test_a_number_that_nothing_names_is_dropped_without_a_reason() -> None:
    (shape,) = next(f for f in get("meters").families if f.name == "step").lines("step 3 loss 0.5 - 17 - 3rd 2x")
    assert [f.name for f in shape.template.fields if f.numeric] == ["step", "loss", "_", "_", "_"]


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
    assert values == [("step_time_2", 12.5, None), ("step_time_2", 12.7, None)]  # `step_time` is a column with a unit


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


def test_samples_of_generic_formats_match_no_other_format() -> None:
    formats = known()
    check_samples(formats["meters"], [f for f in formats.values() if f.name != "meters"])
    check_samples(formats["metric_logger"], [f for f in formats.values() if f.name != "metric_logger"])


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
