"""How much memory does the analysis of one long run take, and how does it grow with the steps? Whole processes.

    make bench
    python bench/long_runs.py [--steps N ...] [--runs N]

A step is one line with ten figures, of which four have no column of their own. The growth is that from the first number
of steps to each other one.
"""

import argparse
import hashlib
import os
import sys

import numpy as np
from run import HERE, OUT, middle, take_turns

FASTER = ("0", "0.01")  # the share by which the runs of each side are faster


def made(steps):
    """Two logs of so many steps; from the cache or made now."""
    version = hashlib.sha256((HERE / "long_runs.py").read_bytes()).hexdigest()[:10]
    logs = [OUT / "long" / f"{steps}-{side}-{version}.txt" for side in range(len(FASTER))]
    for seed, (log, faster) in enumerate(zip(logs, FASTER, strict=True)):
        if not log.exists():
            log.parent.mkdir(parents=True, exist_ok=True)
            rng = np.random.default_rng(seed)
            times = 100 * (1 - float(faster)) * (1 + 0.03 * np.abs(rng.standard_normal(steps)))
            losses = 3 + 7 * np.exp(-5 * np.arange(steps) / steps) + 0.02 * rng.standard_normal(steps)
            part = log.with_suffix(".part")
            with open(part, "w") as file:
                file.writelines(
                    f"step={step} loss={loss:.5f} grad_norm={4 * a:.4f} step_time={time:.1f}ms"
                    f" tokens_per_second={65_536_000 / time:.1f} tflops={140_000 / time:.2f} queue_depth={100 * b:.2f}"
                    f" cache_hit_rate={c:.4f} policy_entropy={1.5 + a:.4f} kl_divergence={0.02 * b:.5f}\n"
                    for step, (loss, time) in enumerate(zip(losses.tolist(), times.tolist(), strict=True))
                    for a, b, c in (rng.random(3).tolist(),)
                )
            os.replace(part, log)
    return [str(log) for log in logs]


def commands(logs):
    """Name -> the command line, as `take_turns` takes it."""
    page = str(OUT / "long" / "report.html")
    words = {
        "lint LOG": ["lint", logs[0]],
        "overview LOG": ["overview", logs[0]],
        "analyze LOG steps": ["analyze", logs[0], "steps"],
        "report LOG": ["report", logs[0], "-o", page],
        "compare LOG LOG": ["compare", *logs],
    }
    return {name: ([sys.executable, "-m", "perflog", *arguments], None) for name, arguments in words.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, action="append", metavar="N", help="default: 100000 and 500000")
    parser.add_argument("--runs", type=int, default=3, help="of each command; shown is the median")
    args = parser.parse_args()
    sizes = args.steps or [100_000, 500_000]
    least = {}
    for steps in sizes:
        print(
            f"\none run of {steps:,} steps\n{'':20}{'s':>9}{'CPU s':>9}{'peak MiB':>10}{'kB per 1,000 steps more':>25}"
        )
        for name, times in take_turns(commands(made(steps)), args.runs).items():
            seconds, cpu, peak = (middle(times, what) for what in ("seconds", "cpu", "peak"))
            before = least.setdefault(name, peak)
            more = f"{(peak - before) * 1024 * 1000 / (steps - sizes[0]):25.0f}" if steps > sizes[0] else ""
            print(f"{name:20}{seconds:9.2f}{cpu:9.2f}{peak:10.0f}{more}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
