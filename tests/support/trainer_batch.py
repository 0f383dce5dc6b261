"""The reference trainer, several times in one process: a start of PyTorch takes longer than a small training.

    trainer_batch.py CLOCK BATCH

BATCH is JSON: for each training a file, to which its log is added, and the trainer's arguments. CLOCK is `wall`, or
`calls`: then one function call is a millisecond, and the figures do not depend on how busy the machine is.
"""

from __future__ import annotations

import json
import os
import sys
from types import FrameType, SimpleNamespace
from typing import Any

import torch.distributed as dist

from perflog.trainer import phase_clock
from perflog.trainer.__main__ import main

count = 0


def note(_: FrameType, event: str, __: object) -> None:
    global count  # noqa: PLW0603 (called by the interpreter)
    count += event in ("call", "c_call")


join, leave = dist.init_process_group, dist.destroy_process_group


def join_once(*given: Any, **named: Any) -> None:
    """One process group serves all trainings: a second one may meet what the first left in the store."""
    if not dist.is_initialized():
        join(*given, **named)


_, kind, batch = sys.argv
vars(dist).update(init_process_group=join_once, destroy_process_group=lambda: None)
if kind == "calls":
    vars(phase_clock)["time"] = SimpleNamespace(perf_counter=lambda: count / 1e3)
    sys.setprofile(note)
for path, arguments in json.loads(batch):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    sys.argv[1:] = arguments
    if code := main():
        sys.exit(code)
leave()
