"""Three steps of a small training under torch.profiler on the CPU, as a program: python record_trace.py FOLDER.

Writes FOLDER/rank<R>.json. Several ranks exchange through gloo.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule

STEPS = 3


def main(folder: Path) -> None:
    """Train with a warm-up of one step, which the profiler leaves out."""
    rank, ranks = (int(os.environ.get(name, usual)) for name, usual in (("RANK", "0"), ("WORLD_SIZE", "1")))
    torch.set_num_threads(1)
    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)
    )  # fmt: skip
    if ranks > 1:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    examples = torch.utils.data.TensorDataset(torch.randn(16 * (STEPS + 1), 64))
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        record_shapes=True, profile_memory=True, with_stack=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(folder / f"rank{rank}.json")),
    ) as profiler:  # fmt: skip
        for (batch,) in torch.utils.data.DataLoader(examples, batch_size=16):
            with record_function("forward"):
                loss = model(batch).pow(2).mean()
            loss.backward()
            if ranks > 1:
                dist.all_reduce(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
