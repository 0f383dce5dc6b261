"""Commands that start a job: how many processes, and numbers of the program's long options."""

from __future__ import annotations

import json

import pytest
from support.reading import read

from perflog.formats.registry import known

FAMILY = next(family for family in known()["common"].families if family.name == "command")
STEPS = "step 1 loss 2.5 step_time 400.0 ms\nstep 2 loss 2.5 step_time 400.0 ms\n"


@pytest.mark.parametrize(
    ("command", "size", "settings"),
    [
        ("+ torchrun --nproc_per_node 8 --nnodes 2 train.py --tp 2 --micro-batch 4", 16, {"tp": 2, "micro_batch": 4}),
        ("torchrun --standalone --nproc-per-node=4 -m pkg.train --lr 3e-4 --bf16", 4, {"lr": 3e-4}),
        ("A=1 srun -N 2 --ntasks-per-node=8 python train.py --seq-len 4096", 16, {"seq_len": 4096}),
        ("python3 -u -m torch.distributed.launch --nproc_per_node=8 main.py --lr=0.1", 8, {"lr": 0.1}),
        ("deepspeed --num_gpus 8 --num_nodes 2 train.py --deepspeed --zero-stage 3", 16, {"zero_stage": 3}),
        (
            "accelerate launch --num_processes 16 --machine_rank 1 train.py --batch-size 4 2>&1 | tee 1",
            16,
            {"batch_size": 4},
        ),
        ("2024-05-01 10:11:12 INFO Running: mpirun -np 16 -x A ./all_reduce_perf -b 8 -e 8G", 16, {}),
        # the last launcher starts the processes, whatever option of the other one is before it
        ("srun -N 4 --ntasks-per-node=1 torchrun --nnodes 4 --nproc_per_node 8 train.py --tp 2", 32, {"tp": 2}),
        ("srun -N 4 -l torchrun --nnodes 4 --nproc_per_node 8 train.py --tp 2", 32, {"tp": 2}),
        ("torchrun --nproc_per_node 8 train.py --launcher deepspeed --tp 2", 8, {"tp": 2}),
        # the size is open: another launcher, a variable, a range, the devices there are, a script, a file of hosts
        ("srun -N 2 bash -c 'torchrun --nnodes $N --nproc_per_node 8 train.py --pp 2'", None, {}),
        ("torchrun --nnodes=1:4 --nproc_per_node=8 train.py --tp 2", None, {"tp": 2}),
        ("torchrun --nproc_per_node gpu train.py --batch 32", None, {"batch": 32}),
        ("srun -n 2 bash run.sh --tp 8", None, {"tp": 8}),
        ("deepspeed --num_gpus 8 train.py --tp 2", None, {"tp": 2}),
        # short options, and what differs between the processes, are no settings
        ("torchrun --nproc_per_node 8 --node_rank 1 train.py -b 32 --local_rank 3", 8, {}),
    ],
)
def test_a_command_has_settings(command: str, size: int | None, settings: dict[str, float]) -> None:
    got = read(f"{command}\n{STEPS}".encode())
    (run,) = got.rows("runs")
    config = json.loads(run["config"])
    launcher = ("world_size", "nproc_per_node", "nnodes", "num_processes")
    assert run["world_size"] == size
    assert {name: value for name, value in config.items() if name not in launcher} == settings
    assert got.done.figures["unread"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9",
        "torchrun is used to launch 8 processes", "srun: error: node3: task 3: Exited with exit code 1",
        "srun -n 1 hostname", "torchrun --help",
    ],
)  # fmt: skip
def test_other_lines_are_no_commands(text: str) -> None:
    assert not FAMILY.lines(text)


def test_what_the_program_prints_counts_before_its_command() -> None:
    (run,) = read(f"torchrun --nproc_per_node 8 train.py --batch-size 4\nbatch_size: 32\n{STEPS}".encode()).rows("runs")
    assert json.loads(run["config"])["batch_size"] == 32


def test_a_command_after_steps_begins_a_run() -> None:
    """A command before any step does not: each node may print it."""
    command = "torchrun --nproc_per_node {} train.py --tp 2\n"
    runs = read(f"{command.format(8) * 2}{STEPS}{command.format(4)}{STEPS}".encode()).rows("runs")
    assert [(run["first_line"], run["world_size"]) for run in runs] == [(1, 8), (5, 4)]
