"""Starts ranks by forking this process, which has imported PyTorch: the import takes longer than a small training.

Each line of standard input is a request, in JSON: how many `ranks`, the `program` (a file, or the name of a module)
with its `arguments`, and the files for what the ranks print: `outs`, one for each node, and `errors`. The answer is two
lines: the processes, and how they ended, as exit codes. When a rank fails the others are killed. Ranks meet in a file,
so they need no port.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from functools import partial
from typing import Any

import torch._dynamo  # noqa: F401 (by the optimizers, at their first use)
import torch.distributed as dist

from perflog.trainer import kernels, language, matmul_baseline, pipeline  # noqa: F401

LIMIT_S = 300  # ends ranks that hang


def become_rank(request: dict[str, Any], rank: int, meeting: str) -> int:
    """Run the program in this process and return its exit code."""
    signal.alarm(LIMIT_S)
    ranks, outs = request["ranks"], request["outs"]
    of_node = ranks // len(outs)
    node, local = divmod(rank, of_node)
    for path, descriptor in ((outs[node], 1), (request["errors"], 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    if ranks > 1:
        place = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": of_node,
            "GROUP_RANK": node,
        }
        os.environ.update({name: str(value) for name, value in place.items()})
        join = partial(dist.init_process_group, store=dist.FileStore(meeting, ranks), rank=rank, world_size=ranks)
        vars(dist)["init_process_group"] = join
    program = request["program"]
    sys.argv = [program, *request["arguments"]]
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(bool(error.code))
    return 0


def fork_rank(request: dict[str, Any], rank: int, meeting: str) -> int:
    """Return the process of a new rank."""
    if child := os.fork():
        return child
    code = 1
    try:
        code = become_rank(request, rank, meeting)
    except BaseException:  # noqa: BLE001 (the process ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def exit_codes(processes: list[int]) -> list[int]:
    """Wait until all have ended, and return how: a signal is a negative number."""
    codes: dict[int, int] = {}
    while len(codes) < len(processes):
        process, status = os.wait()
        codes[process] = os.waitstatus_to_exitcode(status)
        for other in processes if codes[process] else ():
            if other not in codes:
                os.kill(other, signal.SIGKILL)
    return [codes[process] for process in processes]


def main() -> None:
    """Serve requests until standard input ends."""
    vars(matmul_baseline)["SECONDS"] = 0.05  # fewer tries: tests compare their figures with nothing
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            processes = [fork_rank(request, rank, f"{folder}/store") for rank in range(request["ranks"])]
            print(json.dumps(processes), flush=True)
            print(json.dumps(exit_codes(processes)), flush=True)


if __name__ == "__main__":
    main()
