"""The parts of bench/gpu.py that measure by themselves. Each prints one line of JSON, and may leave a trace.

python bench/gpu_work.py machine|products|phases|trace-sync|trace-graph|trace-streams --device cuda [--tiny]
"""

import argparse
import json
import platform
import statistics
import subprocess
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

TRIES = 20


class Timer:
    """Median seconds of a function: events of the device on a GPU, the clock of the host on a CPU."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def __call__(self, work, tries=TRIES):
        for _ in range(3):
            work()
        return statistics.median(self._once(work) for _ in range(tries))

    def _once(self, work):
        if not self.cuda:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3


def machine(device, tiny):  # noqa: ARG001 (all parts take the same)
    """The card, its driver, and the versions of what runs on it."""
    told = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    told["system"] = platform.platform()
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        told |= {"card": properties.name, "memory_bytes": properties.total_memory}
        told |= {"multiprocessors": properties.multi_processor_count, "nccl": str(torch.cuda.nccl.version())}
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
        try:
            told["nvidia_smi"] = subprocess.run(
                query, capture_output=True, text=True, timeout=20, check=False
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError) as error:
            told["nvidia_smi"] = str(error)
    return told


def products(device, tiny):
    """TFLOP/s of the experts' products in several ways, at the sizes of the layer of the first log."""
    experts, width, hidden, rows = (4, 64, 128, 64) if tiny else (8, 1024, 4096, 2048)
    timer, found = Timer(device), {}
    for name in ("bfloat16", "float16"):
        dtype = getattr(torch, name)
        x = torch.randn(experts, rows, width, device=device, dtype=dtype)
        w = torch.randn(experts, width, hidden, device=device, dtype=dtype)
        flat = x.reshape(-1, width)
        ends = torch.arange(rows, rows * experts + 1, rows, device=device, dtype=torch.int32)
        ways = {
            "one_product": lambda flat=flat, w=w: flat @ w[0],
            "loop": lambda x=x, w=w: [a @ b for a, b in zip(x, w, strict=True)],
            "batched": lambda x=x, w=w: torch.bmm(x, w),
            "compiled": _compiled(x, w),
            "grouped": _grouped(flat, w, ends),
        }
        flop = 2 * experts * rows * width * hidden
        for way, work in ways.items():
            try:
                found[f"{name}_{way}_tflops"] = flop / timer(work) / 1e12
            except Exception as error:  # noqa: BLE001 (a way that the device lacks is told, and the others go on)
                found[f"{name}_{way}_failed"] = str(error).splitlines()[0][:200]
    return found | {"experts": experts, "width": width, "hidden": hidden, "rows": rows}


def _compiled(x, w):
    compiled = []

    def work():
        if not compiled:
            compiled.append(torch.compile(torch.bmm))
        return compiled[0](x, w)

    return work


def _grouped(flat, w, ends):
    kernel = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)

    def work():
        if kernel is None:
            raise RuntimeError("this PyTorch has no grouped product")
        return kernel(flat, w, offs=ends)

    return work


def phases(device, tiny):
    """Times of the trainer's phase clock beside a trace of the same steps, which is written for perflog to read."""
    from perflog.trainer import rank_context
    from perflog.trainer.kernels import ProfilerRangeClock
    from perflog.trainer.recipes import load_recipe
    from perflog.trainer.training import Trainer

    preset, dtype = ("default", "float32") if tiny else ("paper", "bfloat16")
    spec = next(iter(load_recipe("moe-layer").specs(preset, steps=8, seed=0, dtype=dtype, scale=1.0)))
    with rank_context.join_process_group(device) as context:
        clock = ProfilerRangeClock(context.device)
        trainer = Trainer(spec, context, clock)
        for number in range(4):
            trainer.step(number)
        with _profiler(device) as profiler:
            measured = []
            for number in range(4, 8):
                with record_function(f"ProfilerStep#{number}"):
                    measured.append(trainer.step(number))
    profiler.export_chrome_trace("phases.json.gz")
    names = sorted({name for each in measured for name in each.seconds})
    return {"steps": [each.step for each in measured]} | {
        f"phase_{name}_s": [each.seconds.get(name) for each in measured] for name in names
    }


def _profiler(device):
    """torch.profiler with shapes and memory, and with the synchronisations of CUDA if this PyTorch records them."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    try:
        from torch._C._profiler import _ExperimentalConfig

        config = _ExperimentalConfig(enable_cuda_sync_events=True)
    except (ImportError, TypeError):
        config = None
    return profile(activities=activities, record_shapes=True, profile_memory=True, experimental_config=config)


def _layer(device, tiny):
    width = 64 if tiny else 1024
    layers = [torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = torch.nn.Sequential(*layers).to(device, dtype)
    return model, torch.randn(32 if tiny else 4096, width, device=device, dtype=dtype)


def trace_sync(device, tiny):
    """A training step that waits for the device once inside, by reading its loss, and copies its batch each time."""
    model, x = _layer(device, tiny)
    host, optimizer, losses = x.cpu(), torch.optim.SGD(model.parameters(), lr=1e-3), []
    with _profiler(device) as profiler:
        for number in range(4):
            with record_function(f"ProfilerStep#{number}"):
                loss = model(host.to(device, non_blocking=True)).float().square().mean()
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    profiler.export_chrome_trace("trace-sync.json.gz")
    return {"steps": 4, "waits_in_a_step": 1, "losses": losses}


def trace_graph(device, tiny):
    """The forward pass as a CUDA graph, replayed in each step."""
    model, x = _layer(device, tiny)
    if device.type != "cuda":
        return {"left_out": "a CPU has no CUDA graphs"}
    stream = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
        with _profiler(device) as profiler:
            for number in range(4):
                with record_function(f"ProfilerStep#{number}"):
                    graph.replay()
            torch.cuda.synchronize()
    profiler.export_chrome_trace("trace-graph.json.gz")
    return {"steps": 4}


def trace_streams(device, tiny):
    """Two streams, of which each waits for an event of the other in every step."""
    model, x = _layer(device, tiny)
    if device.type != "cuda":
        return {"left_out": "a CPU has no streams"}
    other, main = torch.cuda.Stream(), torch.cuda.current_stream()
    with torch.no_grad(), _profiler(device) as profiler:
        for number in range(4):
            with record_function(f"ProfilerStep#{number}"):
                y = model(x)
                other.wait_stream(main)
                with torch.cuda.stream(other):
                    z = model(y)
                main.wait_stream(other)
                model(z)
        torch.cuda.synchronize()
    profiler.export_chrome_trace("trace-streams.json.gz")
    return {"steps": 4, "waits_of_streams_in_a_step": 2}


PARTS = {
    "machine": machine, "products": products, "phases": phases, "trace-sync": trace_sync, "trace-graph": trace_graph,
    "trace-streams": trace_streams,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    device = torch.device("cuda", 0) if given.device == "cuda" else torch.device("cpu")
    print(json.dumps(PARTS[given.part](device, given.tiny)))


if __name__ == "__main__":
    main()
